/* app/chat/cmd_memory.c - facts to remember in all conversations: the commands /remember and /memory, and the list of
 * facts from which app/retrieval/memory.c takes those that fit a question.
 *
 * Facts are in the store of the sessions. A conversation that no session stores opens the store for as long as a
 * command or a question needs it; a private one never does. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/chat/chat_private.h"

/* ---- the store ---- */

static struct store *facts_open(struct chat *c, int read_only, struct err *e)
{
	struct store *s = NULL;

	if (c->o.private_talk)
		err_set(e, ERR_USAGE, "a private conversation neither reads nor keeps what is remembered");
	else if (c->log)
		s = c->log->store;
	else
		store_open(&s, &(struct store_options){ .read_only = read_only }, e);
	return s;
}

static void facts_close(struct chat *c, struct store *s)
{
	if (!c->log)
		store_close(s);
}

static int add_fact(const struct fact *f, void *ud)
{
	struct facts *all = ud;
	struct known_fact *to;

	all->at = xrealloc(all->at, (all->n + 1) * sizeof *all->at);
	to = &all->at[all->n++];
	*to = (struct known_fact){ .id = f->id, .at = f->at };
	str_add(&to->text, f->text, f->n_text);
	str_adds(&to->from, f->from);
	return 0;
}

static int list_facts(struct facts *out, void *ud, struct err *e)
{
	struct chat *c = ud;
	struct store *s = facts_open(c, 1, e);
	int rc = s ? fact_list(s, add_fact, out, e) : -1;

	facts_close(c, s);
	return rc;
}

void memory_attach(struct chat *c)
{
	if (!c->o.private_talk)
		memory_list_by(&c->conv, list_facts, c);
}

/* ---- what is shown ---- */

void fact_origin(const char *from, int64_t at, struct str *out)
{
	time_t then = (time_t)at, now = time(NULL);
	struct tm day = { 0 }, today = { 0 };
	char text[40];

	str_adds(out, "from ");
	if (from && *from)
		str_addf(out, "'%s', ", from);
	localtime_r(&then, &day);
	localtime_r(&now, &today);
	strftime(text, sizeof text, day.tm_year == today.tm_year ? "%e %B" : "%e %B %Y", &day);
	str_adds(out, text + (*text == ' '));
}

/* Switch the memory on or off, also in the config file. */
static void memory_switch(struct chat *c, int on, struct str *out, struct err *e)
{
	struct str path = { 0 };

	c->o.memory = on ? "on" : "off";
	conversation_options_changed(&c->conv, 0);
	if (!config_save(option_find("memory", 6, CMD_CHAT), c->o.memory, &path, e))
		str_addf(out, "memory is %s from now on: saved in %s", c->o.memory, path.p);
	str_free(&path);
}

static void show_all(struct chat *c, struct err *e)
{
	struct facts all = { 0 };
	struct str s = { 0 };
	int on = !strcmp(c->o.memory, "on");

	if (list_facts(&all, c, e) == 0) {
		str_addf(&s, "memory is %s; ", c->o.memory);
		if (all.n)
			str_addf(&s, "%zu %s; /memory forget N, /memory edit N, /memory %s", all.n,
			         all.n == 1 ? "fact" : "facts", on ? "off" : "on");
		else
			str_adds(&s, "nothing is remembered yet: /remember TEXT");
		for (size_t i = 0; i < all.n; i++) {
			str_addf(&s, "\n%3lld  \"%s\" ", (long long)all.at[i].id, str_text(&all.at[i].text));
			fact_origin(str_text(&all.at[i].from), all.at[i].at, &s);
		}
		notice(c, "%s", s.p);
	}
	facts_free(&all);
	str_free(&s);
}

/* ---- /remember ---- */

/* Return the last message that the user typed in this conversation, or NULL. *n receives its length. */
static const char *said_last(const struct chat *c, size_t *n)
{
	for (size_t i = c->conv.n_msg; i--;) {
		const struct message *m = &c->conv.msg[i];
		size_t from = question_at(m);

		if (m->role == ROLE_USER && m->text.n > from) {
			*n = m->text.n - from;
			return m->text.p + from;
		}
	}
	return NULL;
}

/* Store a fact unless it is there already. Returns 1 if it was there, 0 if this call stored it, -1 on error. */
static int remember(struct chat *c, const struct str *text, struct err *e)
{
	struct store *s = facts_open(c, 0, e);
	struct facts all = { 0 };
	int64_t id;
	int rc = s ? fact_list(s, add_fact, &all, e) : -1;

	for (size_t i = 0; i < all.n && !rc; i++)
		rc = all.at[i].text.n == text->n && !memcmp(all.at[i].text.p, text->p, text->n);
	if (!rc)
		rc = fact_add(s, c->log ? c->log->session : 0, text->p, text->n, &id, e);
	facts_free(&all);
	if (s)
		facts_close(c, s);
	return rc;
}

void slash_remember(struct chat *c, char *arg)
{
	struct str text = { 0 }, note = { 0 };
	struct err e = { 0 };
	size_t n = strlen(arg);
	const char *said = *arg ? arg : said_last(c, &n);
	int there = 0;

	if (!said)
		err_set(&e, ERR_USAGE, "nothing was said yet to remember; /remember TEXT");
	else
		clean_line(said, n, &text);
	if (!e.code)
		there = remember(c, &text, &e);
	if (!e.code && strcmp(c->o.memory, "on") != 0)
		memory_switch(c, 1, &note, &e);
	if (e.code)
		chat_error(c, &e);
	if (said && text.n && there >= 0 && !c->o.private_talk)
		notice(c, "[%s: \"%s\"%s%s; /memory]", there ? "it was remembered already" : "remembered", text.p,
		       note.n ? "; " : "", str_text(&note));
	str_free(&text);
	str_free(&note);
}

/* ---- /memory ---- */

struct dropping {
	struct snaps *snaps;
	struct err *e;
};

/* Delete the snapshots of a session that quotes the fact, because they contain KV entries computed from it. */
static int drop_snapshots(int64_t session, void *ud)
{
	struct dropping *d = ud;

	return snap_drop(d->snaps, session, d->e) < 0;
}

/* From this conversation's messages, remove the contexts that quote the fact. */
static void contexts_forget(struct chat *c, const char *text)
{
	struct str quoted = { 0 };

	str_addf(&quoted, "\"%s\"", text);
	for (size_t i = 1; i + 1 < quoted.n; i++)
		if (quoted.p[i] == '"')
			quoted.p[i] = '\'';
	for (size_t i = 0; i < c->conv.n_msg; i++) {
		struct str *context = &c->conv.msg[i].context;

		if (context->n && memmem(context->p, context->n, quoted.p, quoted.n))
			str_free(context);
	}
	str_free(&quoted);
}

/* Replace the text of a fact. If `text` is NULL, delete the fact. Returns 0 or -1. */
static int fact_becomes(struct chat *c, const struct known_fact *f, const struct str *text, struct err *e)
{
	struct store *s = facts_open(c, 0, e);
	struct dropping d = { .e = e };
	int rc = -1;

	if (!s)
		return -1;
	if (c->log ? (d.snaps = c->log->snaps) != NULL
	           : !snaps_open(&d.snaps, s, &(struct snaps_options){ 0 }, NULL, e))
		rc = fact_sessions(s, f->id, drop_snapshots, &d, e);
	else
		rc = e->code ? -1 : 0; /* without kv.db there are no snapshots to delete */
	if (!rc && !e->code)
		rc = fact_change(s, f->id, text ? text->p : NULL, text ? text->n : 0, e);
	if (!rc)
		contexts_forget(c, str_text(&f->text));
	if (!c->log && d.snaps)
		snaps_close(d.snaps);
	facts_close(c, s);
	return rc || e->code ? -1 : 0;
}

/* Return the fact whose number is the first word of `arg`, or NULL with *e set. *rest receives the words after the
 * number. */
static const struct known_fact *fact_named(const struct facts *all, const char *arg, const char **rest, struct err *e)
{
	char *end;
	long long id = strtoll(arg, &end, 10);

	*rest = end + strspn(end, " \t");
	for (size_t i = 0; i < all->n && end != arg && (!*end || strchr(" \t", *end)); i++)
		if (all->at[i].id == id)
			return &all->at[i];
	err_set(e, ERR_USAGE, all->n ? "there is no fact '%.*s'; /memory numbers them" : "nothing is remembered yet",
	        (int)MIN(strcspn(arg, " \t"), (size_t)40), arg);
	return NULL;
}

static void forget(struct chat *c, const struct facts *all, const char *arg, struct err *e)
{
	const char *rest;
	const struct known_fact *f = fact_named(all, arg, &rest, e);

	if (f && *rest)
		err_set(e, ERR_USAGE, "/memory forget wants one number");
	else if (f && fact_becomes(c, f, NULL, e) == 0)
		notice(c, "[forgotten for good: \"%s\"; what conversations said stays in their sessions]",
		       str_text(&f->text));
}

static void edit(struct chat *c, const struct facts *all, const char *arg, struct err *e)
{
	struct str text = { 0 };
	const char *rest;
	const struct known_fact *f = fact_named(all, arg, &rest, e);

	if (f && !*rest && c->front->draft) {
		str_addf(&text, "/memory edit %lld %s", (long long)f->id, str_text(&f->text));
		c->front->draft(c, text.p, text.n);
	} else if (f && !*rest) {
		err_set(e, ERR_USAGE, "/memory edit %lld wants the new text", (long long)f->id);
	} else if (f) {
		clean_line(rest, strlen(rest), &text);
		if (fact_becomes(c, f, &text, e) == 0)
			notice(c, "[remembered: \"%s\"]", text.p);
	}
	str_free(&text);
}

/* 1 if the argument begins with this word. *rest receives the words after it. */
static int begins(const char *arg, const char *word, const char **rest)
{
	size_t n = strcspn(arg, " \t");

	*rest = arg + n + strspn(arg + n, " \t");
	return n == strlen(word) && !memcmp(arg, word, n);
}

void slash_memory(struct chat *c, char *arg)
{
	struct facts all = { 0 };
	struct str note = { 0 };
	struct err e = { 0 };
	const char *rest;

	if (!*arg) {
		show_all(c, &e);
	} else if (!strcmp(arg, "on") || !strcmp(arg, "off")) {
		if (c->o.private_talk)
			facts_open(c, 1, &e);
		else
			memory_switch(c, arg[1] == 'n', &note, &e);
		if (note.n)
			notice(c, "[%s]", note.p);
	} else if (begins(arg, "forget", &rest)) {
		if (list_facts(&all, c, &e) == 0)
			forget(c, &all, rest, &e);
	} else if (begins(arg, "edit", &rest)) {
		if (list_facts(&all, c, &e) == 0)
			edit(c, &all, rest, &e);
	} else {
		err_set(&e, ERR_USAGE,
		        "/memory takes on, off, edit N or forget N, not '%.40s'; /remember TEXT adds a fact", arg);
	}
	if (e.code)
		chat_error(c, &e);
	facts_free(&all);
	str_free(&note);
}
