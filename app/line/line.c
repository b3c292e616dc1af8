/* app/line/line.c - the front ends without a full screen: interactive with readline, questions from a pipe, and one
 * question (-p).
 *
 * Standard output receives only answers, so that it can be piped. Notices and errors go to standard error, or to the
 * terminal if the chat is interactive. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/line/line.h"
#include "engine/base/json.h"

struct line {
	struct output out;
	struct progress progress;
	int color, notice_fd;
	int once; /* 1 = option -p: the chat ends after the question of the command line */
};

/* ---- the callbacks of struct front ---- */

static void line_notice(struct chat *c, const char *text, size_t n)
{
	struct line *l = c->ud;
	struct str raw = { 0 }, wrapped = { 0 }, s = { 0 };
	struct clean clean;

	clean_init(&clean, 0);
	clean_text(&clean, text, n, &raw);
	clean_end(&clean, &raw);
	str_adds(&raw, "\n");
	terminal_wrap(l->notice_fd, raw.p, raw.n, &wrapped);
	str_addf(&s, "%s%.*s%s\n", l->color ? "\033[2m" : "", (int)wrapped.n - 1, wrapped.p, l->color ? "\033[0m" : "");
	write_all(l->notice_fd, s.p, s.n);
	str_free(&raw);
	str_free(&wrapped);
	str_free(&s);
}

static void line_error(struct chat *c, const struct err *e)
{
	(void)c;
	say_error(e);
}

static void line_progress(struct chat *c, const char *verb, int32_t done, int32_t total)
{
	struct line *l = c->ud;

	if (done < 0) {
		progress_clear(&l->progress);
		l->progress.verb = NULL;
		return;
	}
	if (!l->progress.verb) {
		progress_init(&l->progress, c->o.quiet, c->o.verbose, verb, "tokens");
		/* Progress that has no number of tokens (such as that of indexing) shows the name of the work at
		 * once. */
		if (total <= 0 && strcmp(verb, "reading") != 0)
			progress_slow(&l->progress, c->o.quiet);
	}
	if (total > 0)
		progress_show(&l->progress, done, total);
	else
		progress_line(&l->progress, verb);
}

static void line_turn(struct chat *c, const char *question, size_t n)
{
	struct line *l = c->ud;

	(void)question, (void)n;
	output_init(&l->out, c->o.raw);
}

static int line_text(struct chat *c, const char *bytes, size_t n, struct err *e)
{
	struct line *l = c->ud;

	/* Hidden reasoning: show its number of words while it grows. */
	if (c->thinking && !n) {
		struct str s = { 0 };

		if (!l->progress.verb)
			progress_init(&l->progress, c->o.quiet, c->o.verbose, "reasoning", "words");
		str_addf(&s, "reasoning, %zu words", c->think.words);
		progress_line(&l->progress, s.p);
		str_free(&s);
		return 0;
	}
	progress_clear(&l->progress);
	return c->o.json ? 0 : output_text(&l->out, bytes, n, e);
}

/* Say that the text above is reasoning. It stays visible, because text written to a terminal cannot be removed. */
static void line_was_reasoning(struct chat *c)
{
	if (c->o.quiet)
		return;
	output_break();
	notice(c, "[the text above is its reasoning; the answer:]");
}

static int line_summary(struct chat *c, const char *text, size_t n, struct err *e)
{
	struct output out;
	struct str s = { 0 };
	int rc;

	if (c->o.json) {
		json_open(&s, NULL, '{');
		json_text(&s, "summary", text, n);
		/* In JSON output, answers have the key "text". So write the summary under this key, too. */
		json_text(&s, "text", text, n);
		json_bool(&s, "answered", 1);
		json_close(&s, '}');
		str_adds(&s, "\n");
		rc = print_json(&s, e);
		str_free(&s);
		return rc;
	}
	output_init(&out, c->o.raw);
	rc = output_text(&out, text, n, e);
	if (!rc)
		rc = output_end(&out, e);
	output_free(&out);
	return rc;
}

static int put_json(struct chat *c, const struct turn *turn, struct err *e)
{
	struct str s = { 0 }, session = { 0 };
	int rc;

	session_log_title(c->log, &session);
	conversation_json(&c->conv, turn, str_text(&session), &s);
	rc = print_json(&s, e);
	str_free(&s);
	str_free(&session);
	return rc;
}

/* Write the end of an answer; with --json, write the whole answer as one object. A script gets an object even if there
 * is no answer. This happens if -p was stopped before the answer began, or if the documents do not answer the
 * question. */
static int put_end(struct chat *c, const struct turn *turn, int rc, const struct err *why, struct err *e)
{
	struct line *l = c->ud;
	int without = turn->stop == STOP_NOT_FOUND || (l->once && turn->stop == STOP_CANCEL);

	if (l->out.broken)
		return 0;
	if (!c->o.json)
		return turn->answered ? output_end(&l->out, e) : 0;
	return (turn->answered || without) && !(rc < 0 && why->code == ERR_FAIL) ? put_json(c, turn, e) : 0;
}

static int line_turned(struct chat *c, const struct turn *turn, int rc, struct err *e)
{
	struct line *l = c->ud;
	struct err later = { 0 };

	if (put_end(c, turn, rc, e, &later) < 0 && !rc) {
		*e = later;
		rc = -1;
	}
	output_free(&l->out);
	if (c->hides && c->think.words && c->interactive && !c->o.quiet) {
		struct str s = { 0 };

		reasoning_describe(&c->think, &s);
		notice(c, "[it %s; /think show shows that]", s.p);
		str_free(&s);
	}
	if (l->once && c->o.verbose && turn->answered)
		say("%d tokens read (%d reused), %.1f t/s; %d tokens answered, %.1f t/s; first after %.3f s",
		    turn->prompt_tokens, turn->reused_tokens, turn->prefill_tps, turn->answer_tokens, turn->decode_tps,
		    turn->ttft_s);
	return rc;
}

static void line_came_back(struct chat *c)
{
	struct str s = { 0 };

	chat_tail(c, &s);
	if (s.n)
		notice(c, "%s", s.p);
	str_free(&s);
}

static void line_reading(struct chat *c, const struct reading *r)
{
	struct line *l = c->ud;
	struct str s = { 0 };

	if (!r) {
		progress_clear(&l->progress);
		l->progress.verb = NULL;
		return;
	}
	if (!l->progress.verb)
		progress_init(&l->progress, c->o.quiet, c->o.verbose, "reading", "tokens");
	reading_text(r, 0, &s);
	if (r->imports)
		progress_now(&l->progress, s.p);
	else
		progress_line(&l->progress, s.p);
	str_free(&s);
}

static void line_draft(struct chat *c, const char *text, size_t n)
{
	(void)c;
	prompt_draft(text, n);
}

static int line_ask(struct chat *c, const char *question)
{
	struct str clean = { 0 };
	int yes;

	(void)c;
	clean_line(question, strlen(question), &clean);
	yes = prompt_ask(clean.p);
	str_free(&clean);
	return yes;
}

/* clang-format off */
static const struct front line_front = {
	.notice = line_notice, .error = line_error, .progress = line_progress, .turn = line_turn, .text = line_text, .was_reasoning = line_was_reasoning,
	.turned = line_turned, .came_back = line_came_back, .reading = line_reading, .summary = line_summary, .draft = line_draft, .ask = line_ask,
};
/* clang-format on */

/* The callbacks of a chat whose questions come from a pipe. They cannot fill an input line or ask a user. */
static const struct front pipe_front = {
	.notice = line_notice,
	.error = line_error,
	.progress = line_progress,
	.turn = line_turn,
	.text = line_text,
	.turned = line_turned,
	.came_back = line_came_back,
	.reading = line_reading,
	.summary = line_summary,
};

/* ---- the loops: interactive, pipe, -p ---- */

enum { MESSAGE_MOST = 16 << 20 };

/* Run standard input as one command, or as one message. */
static void run_text(struct chat *c)
{
	struct str text = { 0 };
	struct err e = { 0 };

	if (c->streaming.on)
		chat_stream(c);
	if (c->quit)
		return;
	if (read_whole("-", MESSAGE_MOST, &text, &e) < 0)
		chat_error(c, &e);
	while (text.n && strchr("\r\n", text.p[text.n - 1]))
		text.p[--text.n] = 0;
	/* a text of several lines is always a message */
	if (text.n && !e.code && memchr(text.p, '\n', text.n))
		chat_turn(c, text.p, text.n);
	else if (text.n && !e.code)
		chat_take(c, &text);
	else if (!e.code && !c->o.quiet)
		say("there was no question: standard input is empty; -p TEXT asks one");
	str_free(&text);
}

static void run_lines(struct chat *c)
{
	char *buf = NULL;
	size_t cap = 0;
	ssize_t n;
	struct str text = { 0 };

	if (c->streaming.on)
		chat_stream(c);
	while (!c->quit && (n = getline(&buf, &cap, stdin)) >= 0) {
		if (n && buf[n - 1] == '\n')
			n--;
		if (n && buf[n - 1] == '\r')
			n--;
		str_clear(&text);
		str_add(&text, buf, (size_t)n);
		if (text.n)
			chat_take(c, &text);
	}
	if (!c->quit && ferror(stdin)) {
		struct err e = { 0 };
		err_set(&e, ERR_FAIL, "cannot read standard input: %s", strerror(errno));
		chat_error(c, &e);
	}
	free(buf);
	str_free(&text);
}

static int is_summarize(const char *text)
{
	size_t n = strcspn(text, " \t");

	for (size_t i = 0; *text == '/' && slash_at(i); i++)
		if (slash_is(slash_at(i)->name, slash_at(i)->aliases, text, n))
			return !strcmp(slash_at(i)->name, "/summarize");
	return 0;
}

static void run_once(struct chat *c, const char *note)
{
	if (note && *note && !c->o.quiet)
		say("%s", note);
	if (c->streaming.on)
		chat_stream(c);
	if (c->quit)
		return;
	/* With -p, /summarize is the only command. Any other text that begins with a slash is a question, because a
	 * script may pass any text. */
	if (is_summarize(c->o.prompt)) {
		struct str text = { 0 };

		str_adds(&text, c->o.prompt);
		chat_take(c, &text);
		str_free(&text);
	} else {
		chat_turn(c, c->o.prompt, strlen(c->o.prompt));
	}
}

/* Prompt for messages and run them until the user quits. `note` is the message about a resumed session, or NULL. */
static void run_interactive(struct chat *c, const char *note)
{
	const char *names[128] = { 0 };
	char **own;
	size_t n_own = user_prompts(&own);
	const char *file_names[] = { "/open", "/read", "/file", "/load", "/add", "/stream", "/export", "/model", NULL };
	struct str text = { 0 };
	size_t n = 0;

	for (const struct slash *d; n + 1 < LEN(names) && (d = slash_at(n)); n++)
		names[n] = d->name;
	for (size_t i = 0; i < n_own && n + 1 < LEN(names); i++)
		names[n++] = own[i];
	/* From now on Ctrl-C does not end the program, because the user may press it between an answer and the next
	 * prompt. */
	signals_note(1);
	prompt_open(c->o.color, names, file_names, c->o.private_talk);
	if (!c->o.quiet) {
		chat_banner(c);
		notice(c, "/help lists the commands, Ctrl-C stops an answer, Ctrl-D quits");
	}
	if (note && *note && !c->o.quiet)
		notice(c, "[%s]", note);
	if (c->conv.n_msg)
		line_came_back(c);
	chat_look_at_files(c);
	if (!c->conv.n_msg && c->conv.n_doc)
		chat_read(c);
	if (c->streaming.on) {
		prompt_quiet_keys(1);
		chat_stream(c);
		prompt_quiet_keys(0);
	}
	while (!c->quit && prompt_read(&text) == PROMPT_TEXT) {
		if (!text.n)
			continue;
		prompt_quiet_keys(1);
		chat_delete_due(c, 0);
		chat_take(c, &text);
		prompt_quiet_keys(0);
	}
	if (signals_quit())
		c->rc = 128 + signals_quit();
	prompt_close();
	user_prompts_free(own, n_own);
	chat_goodbye(c);
	str_free(&text);
}

int line_run(struct chat *c, const char *note)
{
	struct line l = { .color = 0 };

	c->ud = &l;
	l.once = c->o.prompt != NULL;
	c->interactive = !l.once && isatty(0) && (isatty(1) || isatty(2));
	c->front = c->interactive ? &line_front : &pipe_front;
	l.notice_fd = c->interactive && isatty(1) ? 1 : 2;
	l.color = c->interactive && color_wanted(c->o.color, l.notice_fd);
	if (l.once)
		run_once(c, note);
	else if (c->interactive)
		run_interactive(c, note);
	else if (c->o.each_line || c->o.line)
		run_lines(c);
	else
		run_text(c);
	return c->rc;
}
