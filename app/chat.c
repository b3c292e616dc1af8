/* app/chat.c - see chat.h. */
#include "app/chat.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- notices ---- */

void notice(struct chat *c, const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	log_add(text, (size_t)n);
	c->front->notice(c, text, (size_t)n);
	free(text);
}

void chat_error(struct chat *c, const struct err *e)
{
	log_add(e->msg, strlen(e->msg));
	c->front->error(c, e);
	if (!c->rc && !c->interactive)
		c->rc = exit_code(e->code);
}

/* ---- an answer ---- */

static int on_text(const char *bytes, size_t n, void *ud, struct err *e)
{
	struct chat *c = ud;

	if (!c->hides)
		return c->front->text(c, bytes, n, e);
	str_clear(&c->shown);
	think_feed(&c->think, bytes, n, &c->shown);
	c->thinking = c->think.at == THINK_WITHIN;
	return c->front->text(c, c->shown.p ? c->shown.p : "", c->shown.n, e);
}

/* The answer is complete: what was held back of it. */
static void end_text(struct chat *c)
{
	struct err e = {0};

	c->thinking = 0;
	if (!c->hides)
		return;
	str_clear(&c->shown);
	think_end(&c->think, &c->shown);
	if (c->shown.n)
		c->front->text(c, c->shown.p, c->shown.n, &e);
}

static void on_reading(int32_t done, int32_t total, void *ud)
{
	struct chat *c = ud;

	c->front->progress(c, "reading", done, total);
}

static void after_turn(struct chat *c, const struct turn *turn, int rc, const struct err *e)
{
	struct timeline_stats st;
	struct str s = {0};

	timeline_stats(c->t.tl, &st);
	if (rc < 0 && e->code == ERR_CANCELLED) {
		if (c->interactive)
			notice(c, "%s", turn->answered ? "[stopped]" : "[stopped before the answer began: the question is taken back]");
		else
			c->quit = 1, c->rc = 130;
	} else if (rc < 0 && e->code == ERR_FIT) {
		chat_error(c, e);
		if (!c->interactive)
			c->quit = 1;
		else if (turn->answered)
			notice(c, "[what was said is kept; /undo and /new make room]");
		else
			notice(c, "[the question is taken back%s]", c->t.n_msg ? "; /undo and /new make room" :
			       c->t.n_doc ? "; /undo drops a document" : "");
		return;
	} else if (rc < 0) {
		chat_error(c, e);
		c->quit |= e->code == ERR_FAIL && !e->msg[0];
	} else if (turn->stop == STOP_LENGTH && c->o.predict < 0) {
		notice(c, c->interactive ? "[cut at %d tokens, the length of the context; /continue goes on]" :
		       "weir: an answer was cut at %d tokens, the length of the context", turn->answer_tokens);
	} else if (turn->stop == STOP_LENGTH && c->interactive) {
		notice(c, "[cut at %d tokens, as -n asks; /continue goes on]", turn->answer_tokens);
	}
	if (turn->outgrown && !c->o.quiet)
		notice(c, "%s", c->interactive ?
		       "[the talk has outgrown the cache and goes on: from here on older tokens leave it, and answers know them no "
		       "more; /stats shows what left]" :
		       "weir: the talk has outgrown the cache and goes on: older tokens leave it");
	if (!c->interactive || c->o.quiet || !turn->answered)
		return;
	if (turn->again > 1 && st.endless)
		notice(c, "[%d tokens were read again: a cache that has let tokens go cannot go back over them]", turn->again);
	if (!turn->answer_tokens && c->goes_on)
		return;
	str_addf(&s, "[%d tokens, %.1f t/s, ", turn->answer_tokens, turn->decode_tps);
	if (!talk_left(&st, &s))
		str_addf(&s, "context %d of %d", st.n_tokens, st.ctx);
	notice(c, "%s]", s.p);
	str_free(&s);
}

enum turn_kind { TURN_ASK, TURN_AGAIN, TURN_GO_ON };

static int begin_turn(struct chat *c, enum turn_kind kind, const char *text, size_t n, const struct talk_hooks *hooks,
                      struct turn *turn, struct err *e)
{
	switch (kind) {
	case TURN_ASK:   return talk_ask(&c->t, text, n, hooks, turn, e);
	case TURN_AGAIN: return talk_again(&c->t, hooks, turn, e);
	case TURN_GO_ON: break;
	}
	return talk_continue(&c->t, hooks, turn, e);
}

static void run_turn(struct chat *c, enum turn_kind kind, const char *text, size_t n)
{
	struct talk_hooks hooks = {.text = on_text, .text_ud = c, .progress = on_reading, .progress_ud = c};
	struct turn turn = {.stop = STOP_LENGTH};
	struct err e = {0};
	const struct message *last = kind == TURN_GO_ON ? talk_answer(&c->t) : NULL;
	int rc, quit;

	c->hides = chat_hides(c);
	think_free(&c->think);
	c->think.first = engine_info(c->t.engine)->thinks_first && !chat_never_thinks(c);
	c->goes_on = last != NULL;
	c->front->turn(c, text, n);
	/* Where it had come to, thoughts included. */
	if (last && c->hides) {
		str_clear(&c->shown);
		think_feed(&c->think, last->text.p ? last->text.p : "", last->text.n, &c->shown);
	}
	rc = begin_turn(c, kind, text, n, &hooks, &turn, &e);
	end_text(c);
	c->front->progress(c, "reading", -1, 0);
	rc = c->front->turned(c, &turn, rc, &e);
	if (rc < 0)
		c->streaming.on = 0;   /* whoever stops an answer wants silence */
	if (c->interactive)
		signals_take_int();   /* it stopped the answer; the prompt shall not see it again */
	after_turn(c, &turn, rc, &e);
	c->goes_on = 0;
	quit = signals_quit();
	/* Standard output is broken: no later answer will get through. */
	if (!c->interactive && rc < 0 && e.code == ERR_FAIL)
		c->quit = 1, c->rc = 1;
	if (quit)
		c->quit = 1, c->rc = 128 + quit;
	if (kind == TURN_GO_ON && turn.answered && !turn.answer_tokens && rc >= 0)
		notice(c, "[the answer was complete: the model adds nothing; ask it to go on]");
}

void chat_turn(struct chat *c, const char *text, size_t n)
{
	run_turn(c, text ? TURN_ASK : TURN_AGAIN, text, n);
}

void chat_continue(struct chat *c)
{
	run_turn(c, TURN_GO_ON, NULL, 0);
}

/* ---- slash commands ---- */

enum { N_SLASH = 12 };
static const struct slash slashes[N_SLASH + 1];   /* ends with name = NULL */

/* Those of the talk, then those of sessions. */
const struct slash *slash_at(size_t i)
{
	static const struct slash *const tables[] = {slashes, change_slashes, session_slashes, delete_slashes};

	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct slash *s = tables[t]; s->name; s++)
			if (!i--)
				return s;
	return NULL;
}

static void slash_help(struct chat *c, char *arg)
{
	struct str s = {0};
	size_t i = 0;

	(void)arg;
	for (const struct slash *d; (d = slash_at(i)); i++) {
		char head[60];
		snprintf(head, sizeof head, "%s%s%s", d->name, *d->args ? " " : "", d->args);
		str_addf(&s, "%-18s %s", head, d->help);
		if (*d->aliases)
			str_addf(&s, " (also %s)", d->aliases);
		str_adds(&s, "\n");
	}
	str_adds(&s, "//TEXT             a message that begins with a slash\n"
	         "@FILE in a message: that file becomes a document first\n"
	         "TEXT\\              a backslash at the end: the message goes on in the next line; Alt-Enter breaks the line\n"
	         "\"\"\"TEXT\"\"\"         everything up to the closing quotes is one message\n"
	         "Ctrl-C stops the answer and keeps it; at the prompt it clears the line. Ctrl-D quits. Ctrl-G: the line in $EDITOR.");
	notice(c, "%s", s.p);
	str_free(&s);
}

static void slash_quit(struct chat *c, char *arg)
{
	(void)arg;
	c->quit = 1;
}

static void slash_new(struct chat *c, char *arg)
{
	(void)arg;
	c->streaming.on = 0;
	talk_new(&c->t);
	notice(c, c->t.n_doc == 1 ? "[a new conversation; the document stays, /undo drops it]" :
	       c->t.n_doc ? "[a new conversation; the documents stay, /undo drops the last]" : "[a new conversation]");
}

static void slash_system(struct chat *c, char *arg)
{
	if (!*arg) {
		notice(c, "%s", !c->t.has_system ? "[the system prompt is the template's own]" :
		       c->t.system.n ? c->t.system.p : "[the system prompt is empty]");
		return;
	}
	talk_system(&c->t, strcmp(arg, "\"\"") ? arg : NULL);
	record_settings(c->record, &c->t);
	notice(c, "[system prompt %s; it holds from the start of the conversation]", c->t.has_system ? "set" :
	       "back to the template's own");
}

static const struct option_def *set_find(const char *key)
{
	const struct option_def *d;

	/* What people type: /set n 100, /set temperature 0.5, /set top_k 40 */
	char name[40];
	snprintf(name, sizeof name, "%s", !strcmp(key, "n") ? "predict" : !strcmp(key, "temperature") ? "temp" : key);
	for (char *p = name; *p; p++)
		if (*p == '_')
			*p = '-';
	d = option_find(name, strlen(name), CMD_CHAT);
	return d && (d->flags & OPT_SET) ? d : NULL;
}

/* Another cache policy: its text outlives the line that it stands in. */
static void set_policy(struct chat *c, const char *where, const char *value)
{
	struct timeline_stats st;
	struct str s = {0};
	struct err e = {0};
	int32_t again;

	timeline_stats(c->t.tl, &st);
	if (!strcmp(value, "help")) {
		kv_policy_help(&s);
		while (s.n && s.p[s.n - 1] == '\n')
			s.p[--s.n] = 0;
		notice(c, "%s", s.p);
	} else if (!*value) {
		notice(c, "kv %s", st.kv);
	} else if ((again = talk_policy(&c->t, where, value, &e)) < 0) {
		chat_error(c, &e);
		c->quit |= !c->t.tl;
	} else {
		timeline_stats(c->t.tl, &st);
		human_count(&s, (uint64_t)again);
		if (again)
			notice(c, "[cache %s; the %s tokens so far are read again before the next answer]", st.kv, s.p);
		else
			notice(c, "[cache %s]", st.kv);
	}
	str_free(&s);
}

static void slash_set(struct chat *c, char *arg)
{
	const struct option_def *d;
	struct str s = {0};
	struct err e = {0};
	char *value = arg + strcspn(arg, " \t=");
	char where[60];
	struct timeline_stats st;

	timeline_stats(c->t.tl, &st);
	/* As another program has it: /set parameter temperature 0.5. */
	if (value - arg == 9 && !strncmp(arg, "parameter", 9)) {
		arg = value + strspn(value, " \t");
		value = arg + strcspn(arg, " \t=");
	}
	if (!strcmp(arg, "verbose") || !strcmp(arg, "quiet")) {
		c->o.quiet = *arg == 'q';
		notice(c, c->o.quiet ? "[nothing is said behind answers any more; /set verbose]" :
		       "[tokens and speed are said behind each answer; /set quiet]");
		return;
	}
	if (!*arg) {
		for (d = option_defs; d->name; d++) {
			if (!(d->flags & OPT_SET))
				continue;
			str_addf(&s, "%s%-18s ", s.n ? "\n" : "", !strcmp(d->name, "predict") ? "n" : d->name);
			if (d->type == OPT_POLICY)
				str_adds(&s, st.kv);
			else
				option_show(&c->o, d, &s);
		}
		notice(c, "%s", s.p);
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
		chat_error(c, &e);
		return;
	}
	snprintf(where, sizeof where, "/set %s", d->name);
	if (d->type == OPT_POLICY) {
		set_policy(c, where, value);
		record_settings(c->record, &c->t);
		return;
	}
	if (!*value) {
		option_show(&c->o, d, &s);
		notice(c, "%s %s", arg, s.p);
	} else if (option_set(&c->o, d, where, d->type == OPT_CHOICE ? options_own(&c->o, value, strlen(value)) : value, &e) < 0) {
		chat_error(c, &e);
	} else {
		talk_sampling(&c->t, d->type == OPT_SEED);
		c->t.prefix_known = 0;   /* some templates say in it whether the model shall think */
		record_settings(c->record, &c->t);
	}
	str_free(&s);
}

static void slash_regen(struct chat *c, char *arg)
{
	(void)arg;
	chat_turn(c, NULL, 0);
}

static void slash_undo(struct chat *c, char *arg)
{
	char *end;
	long n = *arg ? strtol(arg, &end, 10) : 1;
	struct err e = {0};
	struct str name = {0};
	size_t done;

	if (*arg && (*end || n < 1 || n > 1000000)) {
		err_set(&e, ERR_USAGE, "/undo wants a number of exchanges from 1 up, not '%.40s'", arg);
		chat_error(c, &e);
		return;
	}
	if (!*arg && talk_drop_document(&c->t, &name)) {
		notice(c, "[document '%s' is dropped; /redo brings it back]", name.p ? name.p : "");
		str_free(&name);
		return;
	}
	done = talk_undo(&c->t, (size_t)n);
	if (done)
		notice(c, c->t.n_taken ? "[%zu %s forgotten; /redo brings back]" : "[%zu %s forgotten]", done,
		       done == 1 ? "exchange" : "exchanges");
	else
		notice(c, "[there is nothing to undo]");
}

/* The question of so many exchanges ago goes back into the line; it and what followed is taken back. */
static void edit_question(struct chat *c, long n, struct err *e)
{
	struct str text = {0};
	size_t i = c->t.n_msg, from;
	long left = n;

	while (i && left)
		left -= c->t.msg[--i].role == ROLE_USER;
	if (left) {
		err_set(e, ERR_USAGE, "there is no question of %ld %s ago", n, n == 1 ? "exchange" : "exchanges");
		return;
	}
	/* Behind what was read of a text without an end, and the line between. */
	from = c->t.msg[i].read;
	while (c->t.msg[i].read && from < c->t.msg[i].text.n && c->t.msg[i].text.p[from] == '\n')
		from++;
	str_add(&text, c->t.msg[i].text.p ? c->t.msg[i].text.p + from : "", c->t.msg[i].text.n - from);
	talk_undo(&c->t, (size_t)n);
	c->front->draft(c, text.p, text.n);
	notice(c, n == 1 ? "[the last question is taken back to be asked differently; /redo brings it back]" :
	       "[%ld exchanges are taken back; /redo %ld brings them back]", n, n);
	str_free(&text);
}

static void slash_edit(struct chat *c, char *arg)
{
	struct err e = {0};
	char *end = arg;
	long n = *arg ? strtol(arg, &end, 10) : 1;

	if (c->front->draft && (!*arg || (!*end && n >= 1 && n <= 1000000)))
		edit_question(c, n, &e);
	else if (!*arg)
		err_set(&e, ERR_USAGE, "/edit wants the question as it shall be");
	else if (!talk_undo(&c->t, 1))
		err_set(&e, ERR_USAGE, "there is no question yet to edit");
	else
		chat_turn(c, arg, strlen(arg));
	if (e.code)
		chat_error(c, &e);
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

/* In a pipe they are read with the question. */
void chat_read(struct chat *c)
{
	struct timeline_stats st;
	struct err e = {0};
	struct str s = {0};
	int32_t n;

	if (!c->interactive)
		return;
	n = talk_read(&c->t, on_reading, c, &e);
	c->front->progress(c, "reading", -1, 0);
	signals_take_int();
	if (signals_quit())
		c->quit = 1, c->rc = 128 + signals_quit();
	timeline_stats(c->t.tl, &st);
	if (c->t.n_doc == 1 || c->t.n_msg)
		str_addf(&s, "document '%s'", c->t.doc[c->t.n_doc - 1].name);
	else
		str_addf(&s, "%zu documents", c->t.n_doc);
	if (n < 0 && e.code == ERR_CANCELLED) {
		notice(c, "[%s: stopped after %d tokens; the rest is read before the next answer, /undo drops it]", s.p,
		       st.prefill_tokens);
	} else if (n < 0) {
		chat_error(c, &e);
	} else if (!c->o.quiet) {
		str_adds(&s, ": ");
		human_count(&s, c->t.n_msg ? c->t.doc[c->t.n_doc - 1].tokens : (uint64_t)st.prefill_tokens);
		str_adds(&s, " tokens");
		if (c->t.n_msg) {
			str_adds(&s, "; with what was said, which is read again behind it, ");
			human_count(&s, (uint64_t)st.prefill_tokens);
		}
		notice(c, "[%s read in %.1f s]", s.p, st.prefill_seconds);
	}
	str_free(&s);
}

static void slash_read(struct chat *c, char *arg)
{
	struct err e = {0};
	struct str path = {0};

	unquote(arg, &path);
	if (!path.n)
		err_set(&e, ERR_USAGE, "/read wants a file name");
	else if (!strcmp(path.p, "-"))
		err_set(&e, ERR_USAGE, "standard input is the conversation here; /read wants a file name");
	else if (access(arg, R_OK) == 0)
		talk_document(&c->t, arg, &e);   /* a name with quotes or backslashes of its own */
	else
		talk_document(&c->t, path.p, &e);
	if (e.code)
		chat_error(c, &e);
	else
		chat_read(c);
	str_free(&path);
}

/* The word at text[at], which ends at a blank that is neither quoted nor behind a backslash. */
static size_t word_end(const struct str *text, size_t at)
{
	char quote = 0;

	for (; at < text->n; at++) {
		char ch = text->p[at];

		if (quote ? ch == quote : ch == '"' || ch == '\'')
			quote = quote ? 0 : ch;
		else if (ch == '\\' && quote != '\'' && at + 1 < text->n)
			at++;
		else if (!quote && strchr(" \t\n", ch))
			break;
	}
	return at;
}

/* "@notes.txt what is in it?": words behind an @ that name a readable file become documents; others are only words.  -1: one
 * could not be taken in, which has been said. */
static int attach_files(struct chat *c, const struct str *text)
{
	struct str word = {0}, path = {0};
	struct err e = {0};
	size_t before = c->t.n_doc;

	for (size_t at = 0; at < text->n && !e.code; at++) {
		size_t end;
		struct stat st;

		if (text->p[at] != '@' || (at && !strchr(" \t\n", text->p[at - 1])))
			continue;
		end = word_end(text, at + 1);
		str_clear(&word);
		str_clear(&path);
		str_add(&word, text->p + at + 1, end - at - 1);
		if (word.n)
			unquote(word.p, &path);
		if (path.n && stat(path.p, &st) == 0 && S_ISREG(st.st_mode))
			talk_document(&c->t, path.p, &e);
		at = end;
	}
	str_free(&word);
	str_free(&path);
	if (e.code)
		chat_error(c, &e);
	else if (c->t.n_doc > before)
		chat_read(c);
	return e.code ? -1 : 0;
}

/* What the cache holds; every line ends. */
static void stats_cache(const struct timeline_stats *st, struct str *s)
{
	const struct timeline_rows *r = &st->rows;
	int32_t kept = talk_kept(st);

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

static void slash_stats(struct chat *c, char *arg)
{
	const struct turn *turn = &c->t.last;
	const struct engine_info *info = engine_info(c->t.engine);
	struct timeline_stats st;
	struct str s = {0};

	(void)arg;
	timeline_stats(c->t.tl, &st);
	str_adds(&s, "model      ");
	clean_line(info->name, strlen(info->name), &s);
	str_addf(&s, ", %s, %s\n", info->quant, info->device);
	stats_cache(&st, &s);
	str_addf(&s, "last turn  prompt %d tokens: %d reused, %d computed at %.1f t/s\n"
	         "           answer %d tokens at %.1f t/s, first after %.2f s\n", turn->prompt_tokens, turn->reused_tokens,
	         turn->prompt_tokens - turn->reused_tokens, turn->prefill_tps, turn->answer_tokens, turn->decode_tps,
	         turn->ttft_s);
	str_addf(&s, "so far     %zu messages, %llu tokens answered", c->t.n_msg, (unsigned long long)c->t.total_answer);
	notice(c, "%s", s.p);
	str_free(&s);
}

static const struct slash slashes[N_SLASH + 1] = {
	{"/help", "/?", "", "this list", BUSY_ALLOWED, ARG_NONE, slash_help},
	{"/quit", "/exit /bye /q", "", "end", BUSY_QUEUED, ARG_NONE, slash_quit},
	{"/new", "/clear", "", "forget what was said and start anew; documents stay", BUSY_QUEUED, ARG_NONE, slash_new},
	{"/system", "", "[TEXT]", "show or set the system prompt (\"\": the template's own)", BUSY_QUEUED, ARG_NONE, slash_system},
	{"/set", "", "[KEY [VALUE]]", "show or change temp, top-k, top-p, min-p, penalties, seed, n, kv", BUSY_QUEUED, ARG_WORD, slash_set},
	{"/regen", "/retry /regenerate", "", "answer the last question again", BUSY_QUEUED, ARG_NONE, slash_regen},
	{"/undo", "", "[N]", "forget the last exchange, or the last N", BUSY_QUEUED, ARG_NONE, slash_undo},
	{"/edit", "", "[TEXT|N]", "ask TEXT in place of the last question, or have that of N exchanges ago in the line", BUSY_QUEUED, ARG_NONE, slash_edit},
	{"/read", "/open /file /load /add", "FILE", "add a document: it is read now and can be asked about", BUSY_QUEUED, ARG_FILE, slash_read},
	{"/stream", "", "FILE", "read a text of any length; stop it, ask, and /on reads on", BUSY_QUEUED, ARG_FILE, slash_stream},
	{"/on", "", "", "read on where it was stopped", BUSY_QUEUED, ARG_NONE, slash_on},
	{"/stats", "/status /tokens /context", "", "tokens, context, speed and memory", BUSY_QUEUED, ARG_NONE, slash_stats},
	{NULL, NULL, NULL, NULL, BUSY_ALLOWED, ARG_NONE, NULL},
};

int slash_is(const char *name, const char *aliases, const char *word, size_t len)
{
	if (strlen(name) == len && !memcmp(name, word, len))
		return 1;
	for (const char *p = aliases; *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");
		if (n == len && !memcmp(p, word, n))
			return 1;
		p += n;
	}
	return 0;
}

void slash_near_init(struct nearest *near, const char *word, size_t n)
{
	nearest_init(near, word, n);
	near->dist = (int)n / 4 + 2;   /* many names are a few letters away from any word */
}

/* Half of a name is nearer than another one with as many letters wrong. */
void slash_near(struct nearest *near, const char *name)
{
	if (near->len > 2 && !strncmp(near->word, name, near->len)) {
		near->best = name;
		near->dist = 0;
	} else {
		nearest_try(near, name);
	}
}

int slash_unknown(const struct nearest *near, struct err *e)
{
	if (near->best)
		return err_set(e, ERR_USAGE, "unknown command '%.*s'; is it %s?", near->len < 40 ? (int)near->len : 40, near->word, near->best);
	return err_set(e, ERR_USAGE, "unknown command '%.*s'; /help lists them, //TEXT sends a slash", near->len < 40 ? (int)near->len : 40,
	               near->word);
}

static void slash_run(struct chat *c, char *text)
{
	size_t n = strcspn(text, " \t\n");
	char *arg = text + n + strspn(text + n, " \t\n");
	struct nearest near;
	struct err e = {0};
	size_t i = 0;

	for (size_t end = strlen(arg); end && strchr(" \t\r\n", arg[end - 1]); )
		arg[--end] = 0;
	for (const struct slash *d; (d = slash_at(i)); i++)
		if (slash_is(d->name, d->aliases, text, n)) {
			/* `/new idea for a story` is not meant to forget everything. */
			if (*arg && !*d->args)
				err_set(&e, ERR_USAGE, "%s takes no words after it; //TEXT sends a slash", d->name);
			else
				d->run(c, arg);
			if (e.code)
				chat_error(c, &e);
			return;
		}
	text[n] = 0;
	slash_near_init(&near, text, n);
	i = 0;
	for (const struct slash *d; (d = slash_at(i)); i++)
		slash_near(&near, d->name);
	slash_unknown(&near, &e);
	chat_error(c, &e);
}

void chat_take(struct chat *c, struct str *text)
{
	size_t at = 0;

	while (at < text->n && strchr(" \t\r\n", text->p[at]))
		at++;
	if (at == text->n)
		return;
	if (text->p[0] == '/' && text->n > 1 && text->p[1] == '/')
		chat_turn(c, text->p + 1, text->n - 1);
	else if (text->p[0] == '/')
		slash_run(c, text->p);
	else if (!c->interactive || attach_files(c, text) == 0)   /* what comes through a pipe opens no files */
		chat_turn(c, text->p, text->n);
}

/* ---- opening ---- */

void chat_banner(struct chat *c)
{
	const struct engine_info *i = engine_info(c->t.engine);
	struct timeline_stats st;
	struct str name = {0};

	timeline_stats(c->t.tl, &st);
	clean_line(i->name, strlen(i->name), &name);
	notice(c, "weir %s: %.40s, %s, context of %d tokens", WEIR_VERSION, name.p, i->quant, st.ctx);
	notice(c, "/help lists the commands, Ctrl-C stops an answer, Ctrl-D quits");
	str_free(&name);
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
static int open_documents(struct chat *c, struct err *e)
{
	int dash = 0, fd, reads = c->o.command == CMD_READ;

	if (reads && !c->o.n_file)
		return err_set(e, ERR_USAGE, "'weir read' wants a file, or - for standard input");
	for (int i = 0; i < c->o.n_file; i++) {
		dash |= !strcmp(c->o.file[i], "-");
		if (reads ? chat_stream_open(c, c->o.file[i], e) < 0 : talk_document(&c->t, c->o.file[i], e) < 0)
			return -1;
	}
	if (!dash)
		return 0;
	fd = open("/dev/tty", O_RDWR);
	if (fd < 0 || dup2(fd, 0) < 0)
		return err_set(e, ERR_USAGE, "standard input was the text and there is no terminal to ask at; give -p TEXT");
	close(fd);
	return 0;
}

int chat_open(struct chat *c, struct options *o, struct str *note, struct err *e)
{
	c->o = *o;
	if ((o->command == CMD_CHAT && mistyped_command(o, e) < 0) || record_open(&c->record, &c->o, e) < 0 || talk_open(&c->t, &c->o, e) < 0 ||
	    record_resume(c->record, &c->t, note, e) < 0 || open_documents(c, e) < 0)
		return -1;
	return 0;
}

void chat_close(struct chat *c, struct options *o)
{
	chat_stream_close(c);
	chat_delete_due(c, 1);
	record_close(c->record);
	talk_close(&c->t);
	think_free(&c->think);
	str_free(&c->shown);
	options_take_back(o, &c->o);
}
