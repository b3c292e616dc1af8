/* app/tui/session_lists.c - reads from the store what the list of sessions shows: sessions, search results, and a
 * session's last messages.
 *
 * The main thread reads the store through a separate read-only connection, so that it need not wait for the worker. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/models/models.h"
#include "app/tui/tui_private.h"
#include "app/tui/worker.h"
#include "engine/engine_machine.h"

void tui_store(struct tui *t)
{
	struct err e = { 0 };

	if (!t->chat->log)
		return;
	if (store_open(&t->store, &(struct store_options){ .dir = store_dir(t->chat->log->store), .read_only = 1 },
	               &e) < 0)
		t->store = NULL;
}

int tui_is_hidden(const struct tui *t, int64_t session)
{
	for (int i = 0; i < t->n_hidden; i++)
		if (t->hidden[i] == session)
			return 1;
	return 0;
}

/* The rows for ui_sessions() while they are being made. All strings are in one buffer, which may be moved in memory
 * when it grows. So until the list is complete, the rows contain offsets in the buffer instead of pointers. */
struct rows {
	struct tui *t;
	struct ui_session *row;
	size_t n, cap;
	int64_t *head; /* [cap] id of each session's last message */
	struct str text;
	struct err e;
};

static size_t keep_string(struct str *text, const char *s)
{
	size_t at = text->n;

	str_add(text, s, strlen(s) + 1);
	return at;
}

/* Return an offset as a pointer, so that it can be stored in a pointer member. When the list is complete, the offset is
 * replaced by a true pointer. */
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
		.id = s->id,
		.used = s->used,
		.messages = s->messages,
		.tokens = s->tokens,
		.seconds = -1,
		.here = s->id == r->t->session,
		.writer = session_writer(r->t->store, s->id),
		.name = as_offset(keep_string(&r->text, s->name)),
		.title = as_offset(keep_string(&r->text, s->title)),
		.model = as_offset(keep_string(&r->text, s->model)),
		.snippet = as_offset(keep_string(&r->text, snippet)),
	};
	return u;
}

/* Add to each row the size of the session's KV snapshots, and how many seconds of prefill are needed to resume the
 * session. */
static void rows_states(struct rows *r)
{
	struct snap_state *state = xcalloc(r->n + 1, sizeof *state);
	struct snaps *snaps = NULL;
	struct str notice = { 0 };
	struct err e = { 0 };
	int known;

	for (size_t i = 0; i < r->n; i++) {
		state[i].session = r->row[i].id;
		state[i].message = r->head[i];
	}
	known = snaps_open(&snaps, r->t->store, &(struct snaps_options){ .budget = 0 }, &notice, &e) == 0 &&
	        snap_states(snaps, state, r->n, &e) == 0;
	for (size_t i = 0; i < r->n; i++) {
		struct ui_session *u = &r->row[i];

		u->kv_bytes = known ? state[i].bytes : 0;
		u->near = known && state[i].packed;
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

	if (!tui_is_hidden(r->t, s->id))
		row_add(r, s, "");
	return 0;
}

/* ---- the welcome ---- */

enum { RECENT = 3 };
struct recent {
	const struct tui *t;
	struct str text;
	int n;
};

static int recent_row(const struct session *s, void *ud)
{
	struct recent *r = ud;
	const char *name = *s->name ? s->name : s->title;

	if (!s->messages || !*name || tui_is_hidden(r->t, s->id) || r->n == RECENT)
		return 0;
	r->n++;
	str_adds(&r->text, "\n   ");
	clean_line(name, strlen(name), &r->text);
	str_addf(&r->text, ", %d %s, ", s->messages, s->messages == 1 ? "message" : "messages");
	human_age(&r->text, s->used);
	return 0;
}

void tui_welcome(struct tui *t)
{
	const struct conversation *conv = &t->chat->conv;
	struct recent r = { .t = t };
	struct str larger = { 0 };
	struct err e = { 0 };

	if (t->store)
		session_list(t->store, recent_row, &r, &e);
	if (!r.n && conv->tl) {
		known_models_larger(conv->info, engine_memory_free(), &larger);
		notice(t->chat, "Good for %s.%s%s", model_good_for(conv->info), larger.n ? "\n" : "",
		       str_text(&larger));
		str_free(&larger);
	}
	notice(t->chat,
	       "Write a question; Enter sends it.\n/open report.pdf: ask a document of any length, or a folder of them.%s%s\n"
	       "F1 lists the keys, Ctrl-P finds commands by what they do, Ctrl-D quits.%s",
	       r.n ? "\nF4: go on with an earlier session, such as" : "", str_text(&r.text),
	       r.n ? "" : "\n/tour shows in two minutes what there is.");
	str_free(&r.text);
}

void tui_list(struct tui *t)
{
	struct rows r = { .t = t };

	if (!t->store || !t->listed)
		return;
	if (session_list(t->store, list_row, &r, &r.e) < 0)
		ui_say(t->ui, r.e.msg);
	rows_show(&r);
}

enum { FOUND_MOST = 100 };
struct hits {
	int64_t session[FOUND_MOST];
	struct str snippet[FOUND_MOST];
	size_t n;
};

static int hit_add(const struct found *f, void *ud)
{
	struct hits *h = ud;

	h->session[h->n] = f->session;
	str_adds(&h->snippet[h->n], f->snippet);
	return ++h->n == FOUND_MOST;
}

void tui_find(struct tui *t, const char *words)
{
	struct rows r = { .t = t };
	struct hits hits = { .n = 0 };
	struct session s;

	if (!t->store)
		return;
	if (store_search(t->store, words, FOUND_MOST, hit_add, &hits, &r.e) < 0)
		ui_say(t->ui, r.e.msg);
	for (size_t i = 0; i < hits.n; i++) {
		if (!tui_is_hidden(t, hits.session[i]) && session_get(t->store, hits.session[i], &s, &r.e) == 0)
			row_add(&r, &s, str_text(&hits.snippet[i]));
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
	/* the pane shows only the end of the text, so drop the beginning */
	if (s->n > 4 * PREVIEW_MOST) {
		memmove(s->p, s->p + s->n - PREVIEW_MOST, PREVIEW_MOST + 1);
		s->n = PREVIEW_MOST;
	}
	return 0;
}

void tui_preview(struct tui *t, int64_t id)
{
	struct session s;
	struct str text = { 0 };
	struct err e = { 0 };

	if (!t->store || session_get(t->store, id, &s, &e) < 0)
		return;
	if (s.head && message_path(t->store, s.head, preview_add, &text, &e) < 0)
		str_adds(&text, e.msg);
	ui_preview(t->ui, id, str_text(&text), text.n);
	str_free(&text);
}
