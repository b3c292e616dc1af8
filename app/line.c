/* app/line.c - the line mode: interactive with readline, or one question a line from a pipe.
 *
 * Standard output carries answers alone.  In a pipe everything else goes to standard error; on a terminal
 * notices go where the prompt is. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/chat.h"
#include "app/output.h"
#include "app/prompt.h"
#include "app/tui.h"

struct line {
	struct output out;
	struct progress progress;
	int color, notice_fd;
};

/* ---- the front ---- */

static void line_notice(struct chat *c, const char *text, size_t n)
{
	struct line *l = c->ud;
	struct str raw = {0}, wrapped = {0}, s = {0};
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
	if (!l->progress.verb)
		progress_init(&l->progress, &c->o, verb, "tokens");
	if (total > 0)
		progress_show(&l->progress, done, total);
	else
		progress_line(&l->progress, verb);
}

static void line_turn(struct chat *c, const char *question, size_t n)
{
	struct line *l = c->ud;

	(void)question, (void)n;
	output_init(&l->out, &c->o);
}

static int line_text(struct chat *c, const char *bytes, size_t n, struct err *e)
{
	struct line *l = c->ud;

	/* A thought that is not shown, but seen to go on. */
	if (c->thinking && !n) {
		struct str s = {0};

		if (!l->progress.verb)
			progress_init(&l->progress, &c->o, "thinking", "words");
		str_addf(&s, "thinking, %zu words", c->think.words);
		progress_line(&l->progress, s.p);
		str_free(&s);
		return 0;
	}
	progress_clear(&l->progress);
	return c->o.json ? 0 : output_text(&l->out, bytes, n, e);
}

static int line_turned(struct chat *c, const struct turn *turn, int rc, struct err *e)
{
	struct line *l = c->ud;
	struct err later = {0};
	int written = 0;

	if (turn->answered && !l->out.broken && !(c->o.json && rc < 0 && e->code == ERR_FAIL)) {
		if (c->o.json) {
			struct str s = {0};
			talk_json(&c->t, turn, &s);
			written = print_json(&s, &later);
			str_free(&s);
		} else {
			written = output_end(&l->out, &later);
		}
		if (written < 0 && !rc) {
			*e = later;
			rc = -1;
		}
	}
	output_free(&l->out);
	if (c->hides && c->think.words && c->interactive && !c->o.quiet) {
		struct str s = {0};

		think_describe(&c->think, &s);
		notice(c, "[it %s; /think show shows that]", s.p);
		str_free(&s);
	}
	return rc;
}

static void line_came_back(struct chat *c)
{
	struct str s = {0};

	chat_tail(c, &s);
	if (s.n)
		notice(c, "%s", s.p);
	str_free(&s);
}

static void line_reading(struct chat *c, const struct reading *r)
{
	struct line *l = c->ud;
	struct str s = {0};

	if (!r) {
		progress_clear(&l->progress);
		l->progress.verb = NULL;
		return;
	}
	if (!l->progress.verb)
		progress_init(&l->progress, &c->o, "reading", "tokens");
	reading_text(r->tokens, r->percent, r->tps, r->waiting, &s);
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
	struct str clean = {0};
	int yes;

	(void)c;
	clean_line(question, strlen(question), &clean);
	yes = prompt_ask(clean.p);
	str_free(&clean);
	return yes;
}

static const struct front line_front = {
	.notice = line_notice, .error = line_error, .progress = line_progress, .turn = line_turn, .text = line_text,
	.turned = line_turned, .came_back = line_came_back, .reading = line_reading, .draft = line_draft, .ask = line_ask,
};

/* From a pipe: there is no line to put anything into, and nobody to ask. */
static const struct front pipe_front = {
	.notice = line_notice, .error = line_error, .progress = line_progress, .turn = line_turn, .text = line_text,
	.turned = line_turned, .came_back = line_came_back, .reading = line_reading,
};

/* ---- the two ways in ---- */

static void run_pipe(struct chat *c)
{
	char *buf = NULL;
	size_t cap = 0;
	ssize_t n;
	struct str text = {0};

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
		struct err e = {0};
		err_set(&e, ERR_FAIL, "cannot read standard input: %s", strerror(errno));
		chat_error(c, &e);
	}
	free(buf);
	str_free(&text);
}

/* note: what resuming has to say, or NULL. */
static void run_interactive(struct chat *c, const char *note)
{
	const char *names[64] = {0};
	const char *file_names[] = {"/read", "/open", "/file", "/load", "/add", "/stream", "/export", "/model", NULL};
	struct str text = {0};
	size_t n = 0;

	for (const struct slash *d; n + 1 < sizeof names / sizeof *names && (d = slash_at(n)); n++)
		names[n] = d->name;
	/* A Ctrl-C that arrives between an answer and the next prompt must not end the conversation. */
	signals_note(1);
	prompt_open(&c->o, names, file_names);
	if (!c->o.quiet)
		chat_banner(c);
	if (note && *note && !c->o.quiet)
		notice(c, "[%s]", note);
	if (c->t.n_msg)
		line_came_back(c);
	else if (c->t.n_doc)
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
	str_free(&text);
}

static int run_line(struct chat *c, const char *note)
{
	struct line l = {.color = 0};

	c->ud = &l;
	c->interactive = isatty(0) && (isatty(1) || isatty(2));
	c->front = c->interactive ? &line_front : &pipe_front;
	l.notice_fd = c->interactive && isatty(1) ? 1 : 2;
	l.color = c->interactive && color_wanted(&c->o, l.notice_fd);
	if (c->interactive)
		run_interactive(c, note);
	else
		run_pipe(c);
	return c->rc;
}

int cmd_chat(struct options *o)
{
	struct chat c = {.quit = 0};
	struct str note = {0};
	struct err e = {0};
	int rc = 0;

	if (chat_open(&c, o, &note, &e) < 0)
		rc = fail(&e);
	else if (tui_wanted(&c.o))
		rc = tui_run(&c, note.p);
	else
		rc = run_line(&c, note.p);
	chat_close(&c, o);
	str_free(&note);
	return rc;
}
