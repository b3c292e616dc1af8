/* app/line.c - the line mode: interactive with readline, or one question a line from a pipe.
 *
 * Standard output carries answers alone.  In a pipe everything else goes to standard error; on a terminal
 * notices go where the prompt is. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/line.h"
#include "app/prompt.h"
#include "ui/ui.h"

/* ---- notices ---- */

void notice(struct line *l, const char *fmt, ...)
{
	struct str raw = {0}, wrapped = {0}, s = {0};
	struct clean clean;
	va_list ap;
	char *text = NULL;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	clean_init(&clean, 0);
	clean_text(&clean, text, (size_t)n, &raw);
	clean_end(&clean, &raw);
	str_adds(&raw, "\n");
	terminal_wrap(l->notice_fd, raw.p, raw.n, &wrapped);
	str_addf(&s, "%s%.*s%s\n", l->color ? "\033[2m" : "", (int)wrapped.n - 1, wrapped.p, l->color ? "\033[0m" : "");
	write_all(l->notice_fd, s.p, s.n);
	free(text);
	str_free(&raw);
	str_free(&wrapped);
	str_free(&s);
}

void line_error(struct line *l, const struct err *e)
{
	say_error(e);
	if (!l->rc && !l->interactive)
		l->rc = exit_code(e->code);
}

/* ---- an answer ---- */

static int on_text(const char *bytes, size_t n, void *ud, struct err *e)
{
	struct line *l = ud;

	progress_clear(&l->progress);
	return l->o.json ? 0 : output_text(&l->out, bytes, n, e);
}

static void after_turn(struct line *l, const struct turn *turn, int rc, const struct err *e)
{
	struct timeline_stats st;
	struct str s = {0};

	timeline_stats(l->t.tl, &st);
	if (rc < 0 && e->code == ERR_CANCELLED) {
		if (l->interactive)
			notice(l, "%s", turn->answered ? "[stopped]" : "[stopped before the answer began: the question is taken back]");
		else
			l->quit = 1, l->rc = 130;
	} else if (rc < 0 && e->code == ERR_FIT) {
		line_error(l, e);
		if (!l->interactive)
			l->quit = 1;
		else if (turn->answered)
			notice(l, "[what was said is kept; /undo and /new make room]");
		else
			notice(l, "[the question is taken back%s]", l->t.n_msg ? "; /undo and /new make room" :
			       l->t.n_doc ? "; /undo drops a document" : "");
		return;
	} else if (rc < 0) {
		line_error(l, e);
		l->quit |= e->code == ERR_FAIL && !e->msg[0];
	} else if (turn->stop == STOP_LENGTH && l->o.predict < 0) {
		notice(l, l->interactive ? "[cut at %d tokens, the length of the context: 'go on' continues]" :
		       "weir: an answer was cut at %d tokens, the length of the context", turn->answer_tokens);
	} else if (turn->stop == STOP_LENGTH && l->interactive) {
		notice(l, "[cut at %d tokens, as -n asks]", turn->answer_tokens);
	}
	if (turn->outgrown && !l->o.quiet)
		notice(l, "%s", l->interactive ?
		       "[the talk has outgrown the cache and goes on: from here on older tokens leave it, and answers know them no "
		       "more; /stats shows what left]" :
		       "weir: the talk has outgrown the cache and goes on: older tokens leave it");
	if (!l->interactive || l->o.quiet || !turn->answered)
		return;
	if (turn->again > 1 && st.endless)
		notice(l, "[%d tokens were read again: a cache that has let tokens go cannot go back over them]", turn->again);
	str_addf(&s, "[%d tokens, %.1f t/s, ", turn->answer_tokens, turn->decode_tps);
	if (!talk_left(&st, &s))
		str_addf(&s, "context %d of %d", st.n_tokens, st.ctx);
	notice(l, "%s]", s.p);
	str_free(&s);
}

/* Run one turn: text = a question, NULL = the last one again. */
void turn_run(struct line *l, const char *text, size_t n)
{
	struct talk_hooks hooks = {
		.text = on_text, .text_ud = l, .progress = progress_tokens, .progress_ud = &l->progress,
	};
	struct turn turn = {.stop = STOP_LENGTH};
	struct err e = {0}, later = {0};
	int rc, quit;

	output_init(&l->out, &l->o);
	progress_init(&l->progress, &l->o, "reading", "tokens");
	rc = text ? talk_ask(&l->t, text, n, &hooks, &turn, &e) : talk_again(&l->t, &hooks, &turn, &e);
	progress_clear(&l->progress);
	if (turn.answered && !l->out.broken && !(l->o.json && rc < 0 && e.code == ERR_FAIL)) {
		int written;
		if (l->o.json) {
			struct str s = {0};
			talk_json(&l->t, &turn, &s);
			written = print_json(&s, &later);
			str_free(&s);
		} else {
			written = output_end(&l->out, &later);
		}
		if (written < 0 && !rc) {
			e = later;
			rc = -1;
		}
	}
	if (l->interactive)
		signals_take_int();   /* it stopped the answer; the prompt shall not see it again */
	output_free(&l->out);
	after_turn(l, &turn, rc, &e);
	quit = signals_quit();
	/* Standard output is broken: no later answer will get through. */
	if (!l->interactive && rc < 0 && e.code == ERR_FAIL)
		l->quit = 1, l->rc = 1;
	if (quit)
		l->quit = 1, l->rc = 128 + quit;
}

/* ---- slash commands ---- */

enum { N_SLASH = 10 };
static const struct slash slashes[N_SLASH + 1];   /* ends with name = NULL */

/* The commands one after the other: those of the talk, then those of sessions. */
static const struct slash *slash_at(size_t i)
{
	if (i < N_SLASH)
		return &slashes[i];
	return session_slashes[i - N_SLASH].name ? &session_slashes[i - N_SLASH] : NULL;
}

static void slash_help(struct line *l, char *arg)
{
	struct str s = {0};
	size_t i = 0;

	(void)arg;
	for (const struct slash *c; (c = slash_at(i)); i++) {
		char head[40];
		snprintf(head, sizeof head, "%s%s%s", c->name, *c->args ? " " : "", c->args);
		str_addf(&s, "%-18s %s", head, c->help);
		if (*c->aliases)
			str_addf(&s, " (also %s)", c->aliases);
		str_adds(&s, "\n");
	}
	str_adds(&s, "//TEXT             a message that begins with a slash\n"
	         "TEXT\\              a backslash at the end: the message goes on in the next line; Alt-Enter breaks the line\n"
	         "\"\"\"TEXT\"\"\"         everything up to the closing quotes is one message\n"
	         "Ctrl-C stops the answer and keeps it; at the prompt it clears the line. Ctrl-D quits.");
	notice(l, "%s", s.p);
	str_free(&s);
}

static void slash_quit(struct line *l, char *arg)
{
	(void)arg;
	l->quit = 1;
}

static void slash_new(struct line *l, char *arg)
{
	(void)arg;
	talk_new(&l->t);
	notice(l, l->t.n_doc == 1 ? "[a new conversation; the document stays, /undo drops it]" :
	       l->t.n_doc ? "[a new conversation; the documents stay, /undo drops the last]" : "[a new conversation]");
}

static void slash_system(struct line *l, char *arg)
{
	if (!*arg) {
		notice(l, "%s", !l->t.has_system ? "[the system prompt is the template's own]" :
		       l->t.system.n ? l->t.system.p : "[the system prompt is empty]");
		return;
	}
	talk_system(&l->t, strcmp(arg, "\"\"") ? arg : NULL);
	record_settings(l->record, &l->t);
	notice(l, "[system prompt %s; it holds from the start of the conversation]", l->t.has_system ? "set" :
	       "back to the template's own");
}

static const struct option_def *set_find(const char *key)
{
	const struct option_def *d;

	/* What people type: /set n 100, /set temperature 0.5, /set top_k 40 */
	char name[40];
	snprintf(name, sizeof name, "%s", !strcmp(key, "n") ? "predict" : !strcmp(key, "temperature") ? "temp" : key);
	for (char *c = name; *c; c++)
		if (*c == '_')
			*c = '-';
	d = option_find(name, strlen(name), CMD_CHAT);
	return d && (d->flags & OPT_SET) ? d : NULL;
}

/* Another cache policy: its text outlives the line that it stands in. */
static void set_policy(struct line *l, const char *where, const char *value)
{
	struct timeline_stats st;
	struct str s = {0};
	struct err e = {0};
	int32_t again;

	timeline_stats(l->t.tl, &st);
	if (!strcmp(value, "help")) {
		kv_policy_help(&s);
		while (s.n && s.p[s.n - 1] == '\n')
			s.p[--s.n] = 0;
		notice(l, "%s", s.p);
	} else if (!*value) {
		notice(l, "kv %s", st.kv);
	} else if ((again = talk_policy(&l->t, where, value, &e)) < 0) {
		line_error(l, &e);
		l->quit |= !l->t.tl;
	} else {
		timeline_stats(l->t.tl, &st);
		human_count(&s, (uint64_t)again);
		if (again)
			notice(l, "[cache %s; the %s tokens so far are read again before the next answer]", st.kv, s.p);
		else
			notice(l, "[cache %s]", st.kv);
	}
	str_free(&s);
}

static void slash_set(struct line *l, char *arg)
{
	const struct option_def *d;
	struct str s = {0};
	struct err e = {0};
	char *value = arg + strcspn(arg, " \t=");
	char where[60];
	struct timeline_stats st;

	timeline_stats(l->t.tl, &st);
	if (!*arg) {
		for (d = option_defs; d->name; d++) {
			if (!(d->flags & OPT_SET))
				continue;
			str_addf(&s, "%s%-18s ", s.n ? "\n" : "", !strcmp(d->name, "predict") ? "n" : d->name);
			if (d->type == OPT_POLICY)
				str_adds(&s, st.kv);
			else
				option_show(&l->o, d, &s);
		}
		notice(l, "%s", s.p);
		str_free(&s);
		return;
	}
	if (*value)
		*value++ = 0;
	value += strspn(value, " \t=");
	d = set_find(arg);
	if (!d) {
		struct nearest near;
		nearest_init(&near, arg, strlen(arg));
		for (d = option_defs; d->name; d++)
			if (d->flags & OPT_SET)
				nearest_try(&near, d->name);
		if (near.best)
			err_set(&e, ERR_USAGE, "/set knows no '%.40s'; is it '%s'?", arg, near.best);
		else
			err_set(&e, ERR_USAGE, "/set knows no '%.40s'; /set alone lists what there is", arg);
		line_error(l, &e);
		return;
	}
	snprintf(where, sizeof where, "/set %s", d->name);
	if (d->type == OPT_POLICY) {
		set_policy(l, where, value);
		record_settings(l->record, &l->t);
		return;
	}
	if (!*value) {
		option_show(&l->o, d, &s);
		notice(l, "%s %s", arg, s.p);
	} else if (option_set(&l->o, d, where, value, &e) < 0) {
		line_error(l, &e);
	} else {
		talk_sampling(&l->t, d->type == OPT_SEED);
		record_settings(l->record, &l->t);
	}
	str_free(&s);
}

static void slash_regen(struct line *l, char *arg)
{
	(void)arg;
	turn_run(l, NULL, 0);
}

static void slash_undo(struct line *l, char *arg)
{
	char *end;
	long n = *arg ? strtol(arg, &end, 10) : 1;
	struct err e = {0};
	struct str name = {0};
	size_t done;

	if (*arg && (*end || n < 1 || n > 1000000)) {
		err_set(&e, ERR_USAGE, "/undo wants a number of exchanges from 1 up, not '%.40s'", arg);
		line_error(l, &e);
		return;
	}
	if (!*arg && talk_drop_document(&l->t, &name)) {
		notice(l, "[document '%s' is dropped]", name.p ? name.p : "");
		str_free(&name);
		return;
	}
	done = talk_undo(&l->t, (size_t)n);
	if (done)
		notice(l, "[%zu %s forgotten]", done, done == 1 ? "exchange" : "exchanges");
	else
		notice(l, "[there is nothing to undo]");
}

static void slash_edit(struct line *l, char *arg)
{
	struct err e = {0};

	if (!*arg)
		err_set(&e, ERR_USAGE, "/edit wants the question as it shall be");
	else if (!talk_undo(&l->t, 1))
		err_set(&e, ERR_USAGE, "there is no question yet to edit");
	if (e.code)
		line_error(l, &e);
	else
		turn_run(l, arg, strlen(arg));
}

void unquote(const char *arg, struct str *out)
{
	char quote = 0;

	if (arg[0] == '~' && arg[1] == '/' && getenv("HOME")) {
		str_adds(out, getenv("HOME"));
		arg++;
	}
	for (; *arg; arg++) {
		if (quote ? *arg == quote : *arg == '"' || *arg == '\'')
			quote = quote ? 0 : *arg;
		else if (*arg == '\\' && arg[1] && quote != '\'')
			str_add(out, ++arg, 1);
		else
			str_add(out, arg, 1);
	}
}

/* Read the documents now, so that the first answer comes at once; in a pipe they are read with the question. */
static void read_documents(struct line *l)
{
	struct timeline_stats st;
	struct err e = {0};
	struct str s = {0};
	int32_t n;

	if (!l->interactive)
		return;
	progress_init(&l->progress, &l->o, "reading", "tokens");
	n = talk_read(&l->t, progress_tokens, &l->progress, &e);
	progress_clear(&l->progress);
	signals_take_int();
	if (signals_quit())
		l->quit = 1, l->rc = 128 + signals_quit();
	timeline_stats(l->t.tl, &st);
	if (l->t.n_doc == 1 || l->t.n_msg)
		str_addf(&s, "document '%s'", l->t.doc[l->t.n_doc - 1].name);
	else
		str_addf(&s, "%zu documents", l->t.n_doc);
	if (n < 0 && e.code == ERR_CANCELLED) {
		notice(l, "[%s: stopped after %d tokens; the rest is read before the next answer, /undo drops it]", s.p,
		       st.prefill_tokens);
	} else if (n < 0) {
		line_error(l, &e);
	} else if (!l->o.quiet) {
		str_adds(&s, ": ");
		human_count(&s, l->t.n_msg ? l->t.doc[l->t.n_doc - 1].tokens : (uint64_t)st.prefill_tokens);
		str_adds(&s, " tokens");
		if (l->t.n_msg) {
			str_adds(&s, "; with what was said, which is read again behind it, ");
			human_count(&s, (uint64_t)st.prefill_tokens);
		}
		notice(l, "[%s read in %.1f s]", s.p, st.prefill_seconds);
	}
	str_free(&s);
}

static void slash_read(struct line *l, char *arg)
{
	struct err e = {0};
	struct str path = {0};

	unquote(arg, &path);
	if (!path.n)
		err_set(&e, ERR_USAGE, "/read wants a file name");
	else if (!strcmp(path.p, "-"))
		err_set(&e, ERR_USAGE, "standard input is the conversation here; /read wants a file name");
	else if (access(arg, R_OK) == 0)
		talk_document(&l->t, arg, &e);   /* a name with quotes or backslashes of its own */
	else
		talk_document(&l->t, path.p, &e);
	if (e.code)
		line_error(l, &e);
	else
		read_documents(l);
	str_free(&path);
}

/* What the cache holds; every line ends. */
static void stats_cache(const struct timeline_stats *st, struct str *s)
{
	const struct timeline_rows *r = &st->rows;
	int32_t kept = r->pinned;

	for (int i = 0; i < r->n_ring; i++)
		kept += r->fill[i];
	if (!st->endless || kept > st->n_tokens)
		kept = st->n_tokens;
	str_addf(s, "context    %d of %d tokens (%d%%), cache %s, %s: ", kept, st->ctx,
	         (int)(100 * (int64_t)kept / (st->ctx ? st->ctx : 1)), st->kv, st->kv_type);
	human_bytes(s, st->kv_bytes_per_token * (uint64_t)kept);
	str_adds(s, " used of ");
	human_bytes(s, st->kv_bytes);
	str_adds(s, "\n");
	if (!st->endless)
		return;
	str_addf(s, "           %d pinned\n", r->pinned);
	for (int i = 0; i < r->n_ring && r->fill[i]; i++)
		str_addf(s, "           ring %d: %d of %d, tokens %d to %d\n", i + 1, r->fill[i], r->ring_rows, r->first[i], r->last[i]);
	str_adds(s, "           ");
	if (!talk_left(st, s))
		str_adds(s, "nothing has left it yet");
	str_adds(s, "\n");
}

static void slash_stats(struct line *l, char *arg)
{
	const struct turn *turn = &l->t.last;
	const struct engine_info *info = engine_info(l->t.engine);
	struct timeline_stats st;
	struct str s = {0};

	(void)arg;
	timeline_stats(l->t.tl, &st);
	str_adds(&s, "model      ");
	clean_line(info->name, strlen(info->name), &s);
	str_addf(&s, ", %s, %s\n", info->quant, info->device);
	stats_cache(&st, &s);
	str_addf(&s, "last turn  prompt %d tokens: %d reused, %d computed at %.1f t/s\n"
	         "           answer %d tokens at %.1f t/s, first after %.2f s\n", turn->prompt_tokens, turn->reused_tokens,
	         turn->prompt_tokens - turn->reused_tokens, turn->prefill_tps, turn->answer_tokens, turn->decode_tps,
	         turn->ttft_s);
	str_addf(&s, "so far     %zu messages, %llu tokens answered", l->t.n_msg, (unsigned long long)l->t.total_answer);
	notice(l, "%s", s.p);
	str_free(&s);
}

static const struct slash slashes[N_SLASH + 1] = {
	{"/help", "/?", "", "this list", slash_help},
	{"/quit", "/exit /bye /q", "", "end", slash_quit},
	{"/new", "/clear", "", "forget what was said and start anew; documents stay", slash_new},
	{"/system", "", "[TEXT]", "show or set the system prompt (\"\": the template's own)", slash_system},
	{"/set", "", "[KEY [VALUE]]", "show or change temp, top-k, top-p, min-p, penalties, seed, n, kv", slash_set},
	{"/regen", "/retry /regenerate", "", "answer the last question again", slash_regen},
	{"/undo", "", "[N]", "forget the last exchange, or the last N", slash_undo},
	{"/edit", "", "TEXT", "ask TEXT in place of the last question; what was said stays in the session", slash_edit},
	{"/read", "/open /file /load /add", "FILE", "add a document: it is read now and can be asked about", slash_read},
	{"/stats", "/status /tokens /context", "", "tokens, context, speed and memory", slash_stats},
	{NULL, NULL, NULL, NULL, NULL},
};

static int has_word(const char *list, const char *word, size_t len)
{
	for (const char *p = list; *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");
		if (n == len && !memcmp(p, word, n))
			return 1;
		p += n;
	}
	return 0;
}

static void slash_run(struct line *l, char *text)
{
	size_t n = strcspn(text, " \t\n");
	char *arg = text + n + strspn(text + n, " \t\n");
	struct nearest near;
	struct err e = {0};
	size_t i = 0;

	for (size_t end = strlen(arg); end && strchr(" \t\r\n", arg[end - 1]); )
		arg[--end] = 0;
	for (const struct slash *c; (c = slash_at(i)); i++)
		if (has_word(c->name, text, n) || has_word(c->aliases, text, n)) {
			/* `/new idea for a story` is not meant to forget everything. */
			if (*arg && !*c->args)
				err_set(&e, ERR_USAGE, "%s takes no words after it; //TEXT sends a slash", c->name);
			else
				c->run(l, arg);
			if (e.code)
				line_error(l, &e);
			return;
		}
	text[n] = 0;
	nearest_init(&near, text, n);
	i = 0;
	for (const struct slash *c; (c = slash_at(i)); i++)
		nearest_try(&near, c->name);
	if (near.best)
		err_set(&e, ERR_USAGE, "unknown command '%.40s'; is it %s?", text, near.best);
	else
		err_set(&e, ERR_USAGE, "unknown command '%.40s'; /help lists them, //TEXT sends a slash", text);
	line_error(l, &e);
}

/* ---- the two ways in ---- */

static void line_take(struct line *l, struct str *text)
{
	size_t at = 0;

	while (at < text->n && strchr(" \t\r\n", text->p[at]))
		at++;
	if (at == text->n)
		return;
	if (text->p[0] == '/' && text->n > 1 && text->p[1] == '/')
		turn_run(l, text->p + 1, text->n - 1);
	else if (text->p[0] == '/')
		slash_run(l, text->p);
	else
		turn_run(l, text->p, text->n);
}

static void run_pipe(struct line *l)
{
	char *buf = NULL;
	size_t cap = 0;
	ssize_t n;
	struct str text = {0};

	while (!l->quit && (n = getline(&buf, &cap, stdin)) >= 0) {
		if (n && buf[n - 1] == '\n')
			n--;
		if (n && buf[n - 1] == '\r')
			n--;
		str_clear(&text);
		str_add(&text, buf, (size_t)n);
		if (text.n)
			line_take(l, &text);
	}
	if (!l->quit && ferror(stdin)) {
		struct err e = {0};
		err_set(&e, ERR_FAIL, "cannot read standard input: %s", strerror(errno));
		line_error(l, &e);
	}
	free(buf);
	str_free(&text);
}

static void banner(struct line *l)
{
	const struct engine_info *i = engine_info(l->t.engine);
	struct timeline_stats st;
	struct str name = {0};

	timeline_stats(l->t.tl, &st);
	clean_line(i->name, strlen(i->name), &name);
	notice(l, "weir %s: %.40s, %s, context of %d tokens", WEIR_VERSION, name.p, i->quant, st.ctx);
	notice(l, "/help lists the commands, Ctrl-C stops an answer, Ctrl-D quits");
	str_free(&name);
}

/* note: what resuming has to say, or NULL. */
static void run_interactive(struct line *l, const char *note)
{
	const char *names[40] = {0}, *file_names[] = {"/read", "/open", "/file", "/load", "/add", "/export", NULL};
	struct str text = {0};
	size_t n = 0;

	for (const struct slash *c; n + 1 < sizeof names / sizeof *names && (c = slash_at(n)); n++)
		names[n] = c->name;
	/* A Ctrl-C that arrives between an answer and the next prompt must not end the conversation. */
	signals_note(1);
	prompt_open(&l->o, names, file_names);
	if (!l->o.quiet)
		banner(l);
	if (note && *note && !l->o.quiet)
		notice(l, "[%s]", note);
	if (l->t.n_msg)
		show_talk(l);
	else if (l->t.n_doc)
		read_documents(l);
	while (!l->quit && prompt_read(&text) == PROMPT_TEXT) {
		if (!text.n)
			continue;
		prompt_quiet_keys(1);
		line_take(l, &text);
		prompt_quiet_keys(0);
	}
	if (signals_quit())
		l->rc = 128 + signals_quit();
	prompt_close();
	str_free(&text);
}

/* `weir benhc`: a word that is no file, but nearly a command. */
static int mistyped_command(const struct options *o, struct err *e)
{
	char name[32];
	struct nearest near;
	const char *word = o->n_file ? o->file[0] : "-";

	if (strchr(word, '/') || !strcmp(word, "-") || access(word, F_OK) == 0)
		return 0;
	nearest_init(&near, word, strlen(word));
	for (const struct command_def *c = command_defs; c->name; c++) {
		snprintf(name, sizeof name, "%.*s", (int)strcspn(c->name, " "), c->name);
		near.best = NULL;
		nearest_try(&near, name);
		if (near.best)
			return err_set(e, ERR_DOCUMENT, "there is no document '%.60s'; is it the command '%s'?", word, name);
	}
	return 0;
}

/* Documents; for `weir -`, whose document came in through standard input, the terminal takes its place. */
static int line_documents(struct line *l, struct err *e)
{
	int dash = 0, fd;

	for (int i = 0; i < l->o.n_file; i++) {
		dash |= !strcmp(l->o.file[i], "-");
		if (talk_document(&l->t, l->o.file[i], e) < 0)
			return -1;
	}
	if (!dash)
		return 0;
	fd = open("/dev/tty", O_RDWR);
	if (fd < 0 || dup2(fd, 0) < 0)
		return err_set(e, ERR_USAGE, "standard input was the document and there is no terminal to ask at; give -p TEXT");
	close(fd);
	return 0;
}

int cmd_chat(struct options *o)
{
	struct line l = {.o = *o};
	struct str note = {0};
	struct err e = {0};
	int rc = 0;

	if (mistyped_command(o, &e) < 0 || record_open(&l.record, &l.o, &e) < 0 || talk_open(&l.t, &l.o, &e) < 0 ||
	    record_resume(l.record, &l.t, &note, &e) < 0 || line_documents(&l, &e) < 0)
		rc = fail(&e);
	if (!rc) {
		l.interactive = isatty(0) && (isatty(1) || isatty(2));
		l.notice_fd = l.interactive && isatty(1) ? 1 : 2;
		l.color = l.interactive && color_wanted(&l.o, l.notice_fd);
		if (l.interactive)
			run_interactive(&l, note.p);
		else
			run_pipe(&l);
		rc = l.rc;
	}
	record_close(l.record);
	talk_close(&l.t);
	str_free(&note);
	options_take_back(o, &l.o);
	return rc;
}
