/* app/tui_commands.c - commands that are the screen's own, and what it shows of the store.
 *
 * A command of the screen stands before the one of the same name that line mode has (/sessions opens the picker); all others are
 * the conversation's and go to the worker. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/tui_private.h"
#include "app/worker.h"

struct screen_slash {
	const char *name, *aliases, *args, *help;
	enum ui_busy busy;
	enum ui_arg arg;
	int (*run)(struct tui *, const char *arg, struct err *);   /* 1: it is the worker's after all */
};

static int run_help(struct tui *t, const char *arg, struct err *e)
{
	(void)arg, (void)e;
	ui_open_help(t->ui);
	return 0;
}

static int run_quit(struct tui *t, const char *arg, struct err *e)
{
	(void)arg, (void)e;
	t->left = 1;
	return 0;
}

static int run_sessions(struct tui *t, const char *arg, struct err *e)
{
	(void)arg;
	if (!t->store)
		return err_set(e, ERR_USAGE, "this talk is not kept: start weir without --private to have sessions");
	ui_open_sessions(t->ui);
	return 0;
}

static int run_switch(struct tui *t, const char *arg, struct err *e)
{
	return *arg ? 1 : run_sessions(t, arg, e);
}

static int run_docs(struct tui *t, const char *arg, struct err *e)
{
	(void)e;
	ui_open_documents(t->ui, arg);
	return 0;
}

static int run_search(struct tui *t, const char *arg, struct err *e)
{
	if (!*arg)
		return err_set(e, ERR_USAGE, "/grep wants words; /find looks through all sessions");
	if (!ui_search(t->ui, arg))
		ui_say(t->ui, "nothing found in this talk; /find looks through all sessions");
	return 0;
}

static int run_copy(struct tui *t, const char *arg, struct err *e)
{
	return ui_copy(t->ui, arg, e);
}

static int run_kv(struct tui *t, const char *arg, struct err *e)
{
	(void)e;
	if (*arg && strcmp(arg, "off") != 0 && strcmp(arg, "bar") != 0 && strcmp(arg, "full") != 0 && strncmp(arg, "layer ", 6) != 0)
		return 1;
	ui_open_panel(t->ui, arg);
	return 0;
}

static int is_hidden(const struct tui *t, int64_t session)
{
	for (int i = 0; i < t->n_hidden; i++)
		if (t->hidden[i] == session)
			return 1;
	return 0;
}

/* The list of sessions asks, where the name can be seen. */
static int run_delete(struct tui *t, const char *arg, struct err *e)
{
	int64_t id = t->session;

	if (!t->store)
		return err_set(e, ERR_USAGE, "this talk is not kept: start weir without --private to have sessions");
	if (*arg && session_find(t->store, arg, &id, e) < 0)
		return -1;
	if (!id)
		return err_set(e, ERR_USAGE, "there is nothing to delete yet; /delete NAME deletes another session");
	if (is_hidden(t, id))
		return err_set(e, ERR_USAGE, "session '%.60s' is deleted already; /undelete brings it back", arg);
	t->listed = 1;
	ui_open_sessions(t->ui);
	tui_list(t);
	ui_ask_delete(t->ui, id);
	return 0;
}

static int run_undelete(struct tui *t, const char *arg, struct err *e)
{
	(void)arg, (void)e;
	worker_do(t->worker, JOB_UNDELETE, 0, NULL, 0);
	return 0;
}

static int run_editor(struct tui *t, const char *arg, struct err *e)
{
	(void)e;
	ui_edit(t->ui, arg);
	return 0;
}

static int run_theme(struct tui *t, const char *arg, struct err *e)
{
	return ui_theme(t->ui, arg, e);
}

static int run_raw(struct tui *t, const char *arg, struct err *e)
{
	(void)arg, (void)e;
	ui_raw(t->ui);
	return 0;
}

static int run_mouse(struct tui *t, const char *arg, struct err *e)
{
	(void)arg, (void)e;
	ui_mouse(t->ui);
	return 0;
}

static const struct screen_slash screen_slashes[] = {
	{"/help", "/?", "", "keys and commands", BUSY_ALLOWED, ARG_NONE, run_help},
	{"/quit", "/exit /bye /q", "", "end; everything is saved", BUSY_ALLOWED, ARG_NONE, run_quit},
	{"/sessions", "/list", "", "pick a session; rename, fork and delete them", BUSY_ALLOWED, ARG_NONE, run_sessions},
	{"/delete", "", "[NAME]", "delete a session, or this one; asks first, and can be undone for 10 seconds", BUSY_ALLOWED, ARG_SESSION, run_delete},
	{"/undelete", "", "", "bring back the session that was deleted last, within 10 seconds", BUSY_ALLOWED, ARG_NONE, run_undelete},
	{"/switch", "/resume", "NAME", "go on in another session; this one is saved", BUSY_QUEUED, ARG_SESSION, run_switch},
	{"/docs", "/documents /goto", "[WHERE]", "the documents, at 40%, p12 or a word", BUSY_ALLOWED, ARG_WORD, run_docs},
	{"/grep", "", "WORDS", "find words in this talk", BUSY_ALLOWED, ARG_WORD, run_search},
	{"/copy", "/yank", "[N|code [N]|all]", "copy an answer, a message or a block of code", BUSY_ALLOWED, ARG_WORD, run_copy},
	{"/kv", "/cache", "[off|bar|full|layer N|size|drop|dump FILE]", "show the cache; size or drop what is saved of it; write it as JSON", BUSY_ALLOWED, ARG_WORD, run_kv},
	{"/editor", "", "[TEXT]", "write the message in $VISUAL or $EDITOR", BUSY_ALLOWED, ARG_NONE, run_editor},
	{"/theme", "", "[dark|light|mono]", "other colours", BUSY_ALLOWED, ARG_WORD, run_theme},
	{"/raw", "", "", "answers as they come, or as Markdown", BUSY_ALLOWED, ARG_NONE, run_raw},
	{"/mouse", "", "", "the wheel scrolls, and the terminal selects no more; or the other way round", BUSY_ALLOWED, ARG_NONE, run_mouse},
	{NULL, NULL, NULL, NULL, BUSY_ALLOWED, ARG_NONE, NULL},
};

static const struct screen_slash *screen_find(const char *word, size_t n)
{
	for (const struct screen_slash *s = screen_slashes; s->name; s++)
		if (slash_is(s->name, s->aliases, word, n))
			return s;
	return NULL;
}

static struct ui_command *command_table(void)
{
	struct ui_command *table;
	size_t n = 0, k = 0;

	while (slash_at(n))
		n++;
	table = xcalloc(n + sizeof screen_slashes / sizeof *screen_slashes + 1, sizeof *table);
	for (const struct screen_slash *s = screen_slashes; s->name; s++)
		table[k++] = (struct ui_command){
			.name = s->name, .aliases = s->aliases, .args = s->args, .help = s->help, .busy = s->busy, .arg = s->arg,
		};
	for (size_t i = 0; i < n; i++) {
		const struct slash *s = slash_at(i);

		if (!screen_find(s->name, strlen(s->name)))
			table[k++] = (struct ui_command){
				.name = s->name, .aliases = s->aliases, .args = s->args, .help = s->help, .busy = s->busy, .arg = s->arg,
			};
	}
	return table;
}

void tui_commands(struct tui *t)
{
	t->commands = command_table();
}

void tui_help(struct str *out)
{
	struct ui_command *table = command_table();

	ui_help_text(table, out);
	free(table);
}

static int is_unknown(const struct tui *t, const char *word, size_t n, struct err *e)
{
	struct nearest near;

	slash_near_init(&near, word, n);
	for (const struct ui_command *c = t->commands; c->name; c++) {
		if (slash_is(c->name, c->aliases, word, n))
			return 0;
		slash_near(&near, c->name);
	}
	slash_unknown(&near, e);
	return 1;
}

void tui_take(struct tui *t, struct str *text)
{
	size_t n = text->n ? strcspn(text->p, " \t\n") : 0;
	const struct screen_slash *s = n && text->p[0] == '/' && text->p[1] != '/' ? screen_find(text->p, n) : NULL;
	struct err e = {0};
	char *arg;

	/* The worker knows its own commands only. */
	if (n && !s && text->p[0] == '/' && text->p[1] != '/' && is_unknown(t, text->p, n, &e))
		;
	else if (s) {
		arg = text->p + n + strspn(text->p + n, " \t\n");
		for (size_t end = strlen(arg); end && strchr(" \t\r\n", arg[end - 1]); )
			arg[--end] = 0;
		if (*arg && !*s->args)
			err_set(&e, ERR_USAGE, "%s takes no words after it; //TEXT sends a slash", s->name);
		else if (s->run(t, arg, &e) == 1)
			s = NULL;
	}
	if (!e.code && !s) {
		worker_do(t->worker, JOB_LINE, 0, text->p, text->n);
		return;
	}
	if (e.code) {
		log_add(e.msg, strlen(e.msg));
		ui_entry(t->ui, UI_ERROR, e.msg, strlen(e.msg));
		ui_entry_end(t->ui, NULL);
	}
	if (!t->working)
		ui_work(t->ui, NULL);   /* nothing has begun: the next one need not wait */
}

/* ---- the store ---- */

void tui_store(struct tui *t)
{
	struct err e = {0};

	if (!t->chat->record)
		return;
	if (store_open(&t->store, &(struct store_options){.dir = store_dir(t->chat->record->store), .read_only = 1}, &e) < 0)
		t->store = NULL;
}

/* Rows for ui_sessions(), whose strings live in one buffer until the list is whole. */
struct rows {
	struct tui *t;
	struct ui_session *row; size_t n, cap;
	int64_t *head;               /* [cap] their last messages */
	struct str text;
	struct err e;
};

static size_t keep(struct str *text, const char *s)
{
	size_t at = text->n;

	str_add(text, s, strlen(s) + 1);
	return at;
}

/* Offsets stand for pointers while the buffer grows. */
static const char *as_offset(size_t at)
{
	return (const char *)(uintptr_t)at;
}

static struct ui_session *row_add(struct rows *r, const struct session *s, const char *snippet)
{
	struct ui_session *u;

	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 64;
		r->row = xrealloc(r->row, r->cap * sizeof *r->row);
		r->head = xrealloc(r->head, r->cap * sizeof *r->head);
	}
	r->head[r->n] = s->head;
	u = &r->row[r->n++];
	*u = (struct ui_session){
		.id = s->id, .used = s->used, .messages = s->messages, .tokens = s->tokens, .seconds = -1, .here = s->id == r->t->session,
		.name = as_offset(keep(&r->text, s->name)), .title = as_offset(keep(&r->text, s->title)),
		.model = as_offset(keep(&r->text, s->model)), .snippet = as_offset(keep(&r->text, snippet)),
	};
	return u;
}

/* What is saved of their caches. */
static void rows_states(struct rows *r)
{
	struct snap_state *state = xcalloc(r->n + 1, sizeof *state);
	struct snaps *snaps = NULL;
	struct str notice = {0};
	struct err e = {0};
	int known;

	for (size_t i = 0; i < r->n; i++) {
		state[i].session = r->row[i].id;
		state[i].message = r->head[i];
	}
	known = snaps_open(&snaps, r->t->store, &(struct snaps_options){.budget = 0}, &notice, &e) == 0 &&
	        snap_states(snaps, state, r->n, &e) == 0;
	for (size_t i = 0; i < r->n; i++) {
		struct ui_session *u = &r->row[i];

		u->kv_bytes = known ? state[i].bytes : 0;
		if (u->tokens == 0 || (known && state[i].ready))
			u->seconds = 0;
		else if (r->t->prefill_tps > 0)
			u->seconds = u->tokens / r->t->prefill_tps;
	}
	if (snaps)
		snaps_close(snaps);
	str_free(&notice);
	free(state);
}

static void rows_show(struct rows *r)
{
	const char *base = r->text.p;

	rows_states(r);
	for (size_t i = 0; i < r->n; i++) {
		struct ui_session *u = &r->row[i];

		u->name = base + (uintptr_t)u->name;
		u->title = base + (uintptr_t)u->title;
		u->model = base + (uintptr_t)u->model;
		u->snippet = base + (uintptr_t)u->snippet;
	}
	ui_sessions(r->t->ui, r->row, r->n, (int64_t)time(NULL));
	free(r->row);
	free(r->head);
	str_free(&r->text);
}

static int list_row(const struct session *s, void *ud)
{
	struct rows *r = ud;

	if (!is_hidden(r->t, s->id))
		row_add(r, s, "");
	return 0;
}

void tui_list(struct tui *t)
{
	struct rows r = {.t = t};

	if (!t->store || !t->listed)
		return;
	if (session_list(t->store, list_row, &r, &r.e) < 0)
		ui_say(t->ui, r.e.msg);
	rows_show(&r);
}

enum { FOUND_MOST = 100 };
struct hits { int64_t session[FOUND_MOST]; struct str snippet[FOUND_MOST]; size_t n; };

static int hit_add(const struct found *f, void *ud)
{
	struct hits *h = ud;

	h->session[h->n] = f->session;
	str_adds(&h->snippet[h->n], f->snippet);
	return ++h->n == FOUND_MOST;
}

void tui_find(struct tui *t, const char *words)
{
	struct rows r = {.t = t};
	struct hits hits = {.n = 0};
	struct session s;

	if (!t->store)
		return;
	if (store_search(t->store, words, FOUND_MOST, hit_add, &hits, &r.e) < 0)
		ui_say(t->ui, r.e.msg);
	for (size_t i = 0; i < hits.n; i++) {
		if (!is_hidden(t, hits.session[i]) && session_get(t->store, hits.session[i], &s, &r.e) == 0)
			row_add(&r, &s, hits.snippet[i].p ? hits.snippet[i].p : "");
		str_free(&hits.snippet[i]);
	}
	rows_show(&r);
}

enum { PREVIEW_MOST = 16384 };

static int preview_add(const struct stored_message *m, void *ud)
{
	struct str *s = ud;

	str_adds(s, m->role == ROLE_USER ? "> " : "");
	str_add(s, m->text, m->n_text);
	str_adds(s, "\n\n");
	/* Only the end is shown. */
	if (s->n > 4 * PREVIEW_MOST) {
		memmove(s->p, s->p + s->n - PREVIEW_MOST, PREVIEW_MOST + 1);
		s->n = PREVIEW_MOST;
	}
	return 0;
}

void tui_preview(struct tui *t, int64_t id)
{
	struct session s;
	struct str text = {0};
	struct err e = {0};

	if (!t->store || session_get(t->store, id, &s, &e) < 0)
		return;
	if (s.head && message_path(t->store, s.head, preview_add, &text, &e) < 0)
		str_adds(&text, e.msg);
	ui_preview(t->ui, id, text.p ? text.p : "", text.n);
	str_free(&text);
}
