/* app/tools/sessions.c - weir sessions ls|show|search|rename|rm|export|import|gc|check: stored sessions. Needs no
 * model.
 *
 * Other weir processes may run meanwhile. A session is not deleted while another process has opened it. */
#include "app/tools/tools.h"
#include "app/retrieval/retrieval.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sessions/store/store.h"
#include "sessions/snap/snap.h"

/* ---- ls ---- */

struct session_list {
	struct listing list;
	struct snap_state *state; /* snapshot state of each session, in the order of the list */
	size_t n, cap, row;
};

static int state_one(const struct session *s, void *ud)
{
	struct session_list *l = ud;

	GROW(l->state, l->n, l->cap);
	l->state[l->n++] = (struct snap_state){ .session = s->id };
	return 0;
}

/* Find the size of each session's snapshots. If kv.db is damaged or missing, all sizes are 0. */
static int list_states(struct store *store, struct session_list *l, struct err *e)
{
	struct snaps *snaps = NULL;
	struct err why = { 0 };

	if (session_list(store, state_one, l, e) < 0)
		return -1;
	if (snaps_open(&snaps, store, &(struct snaps_options){ .budget = 0 }, NULL, &why) == 0)
		snap_states(snaps, l->state, l->n, &why);
	if (snaps)
		snaps_close(snaps);
	return 0;
}

static int list_one(const struct session *s, void *ud)
{
	struct session_list *l = ud;
	/* search all states for the session: another process may have created or deleted a session after list_states(),
	 * so the index may differ */
	struct snap_state none = { .session = s->id }, *kept = &none;

	for (size_t i = 0; i < l->n && kept == &none; i++)
		if (l->state[(l->row + i) % l->n].session == s->id)
			kept = &l->state[(l->row + i) % l->n];
	l->row++;
	const struct listing_cell row[] = {
		{ "id", "id", 4, CELL_NUMBER, .number = s->id },
		{ "name", "name", -18, .text = s->name },
		{ "title", "title", -28, .text = s->title },
		{ "model", .text = s->model },
		{ "kv", .text = s->kv },
		{ "messages", "said", 5, CELL_NUMBER, .number = s->messages },
		{ "tokens", "tokens", 7, CELL_NUMBER, .number = s->tokens },
		{ "kv_bytes", "saved KV", 9, CELL_BYTES, .number = (int64_t)kept->bytes },
		{ "kv_near_bytes", .kind = CELL_NUMBER, .number = (int64_t)kept->packed },
		{ NULL, "", -5,
		  .text = kept->packed  ? "near"
		          : kept->bytes ? "exact"
		                        : "" },
		{ "created", .kind = CELL_AGE, .number = s->created },
		{ "used", "used", 0, CELL_AGE, .number = s->used },
	};

	listing_row(&l->list, row, LEN(row));
	return 0;
}

static int sessions_list(struct store *store, const struct options *o, struct err *e)
{
	struct session_list l = { .list = { .json = o->json, .titles = 1 } };
	int rc = list_states(store, &l, e) < 0 ? -1 : session_list(store, list_one, &l, e);

	free(l.state);
	if (rc < 0) {
		str_free(&l.list.out);
		return -1;
	}
	if (!l.list.rows && !o->json && !o->quiet)
		say("there is no session yet; every conversation at a terminal becomes one");
	return listing_print(&l.list, e);
}

/* ---- search ---- */

static int found_one(const struct found *f, void *ud)
{
	struct listing *list = ud;
	struct str text = { 0 };

	one_line(&text, f->snippet, strlen(f->snippet), !list->json && isatty(1) ? "*" : "");
	str_adds(&list->out, list->rows++ ? "\n" : "");
	if (list->json) {
		json_open(&list->out, NULL, '{');
		json_int(&list->out, "session", f->session);
		json_int(&list->out, "message", f->message);
		json_string(&list->out, "name", f->name);
		json_string(&list->out, "role", f->role == ROLE_USER ? "user" : "assistant");
		json_int(&list->out, "at", f->at);
		json_text(&list->out, "snippet", text.p, text.n);
		json_close(&list->out, '}');
	} else {
		str_addf(&list->out, "%lld %s: %s", (long long)f->session, *f->name ? f->name : f->title,
		         str_text(&text));
	}
	str_free(&text);
	return 0;
}

static int sessions_search(struct store *store, const struct options *o, struct err *e)
{
	struct listing list = { .json = o->json };
	struct str words = { 0 };
	int rc = stored_words(o, &words, e) < 0 ? -1 : store_search(store, words.p, o->limit, found_one, &list, e);

	str_free(&words);
	if (rc < 0) {
		str_free(&list.out);
		return -1;
	}
	if (!list.rows && !o->quiet)
		say("nothing found");
	/* like grep, set the exit status to 1 if nothing was found */
	return listing_print(&list, e) < 0 ? -1 : !list.rows;
}

/* ---- the other commands ---- */

static int session_write(struct store *store, const char *format, const char *name, struct err *e)
{
	struct str text = { 0 };
	enum export_format f = !strcmp(format, "json")  ? EXPORT_JSON
	                       : !strcmp(format, "txt") ? EXPORT_TEXT
	                                                : EXPORT_MARKDOWN;
	int64_t id;
	int rc;

	if (f == EXPORT_MARKDOWN && strcmp(format, "md") != 0)
		return err_set(e, ERR_USAGE, "'%.40s' is not an export format; there are md, json and txt", format);
	rc = session_find(store, name, &id, e) < 0 || session_export(store, id, f, message_export_more, &text, e) < 0 ||
	                     print_json(&text, e) < 0
	             ? -1
	             : 0;
	str_free(&text);
	return rc;
}

static int sessions_remove(struct store *store, struct snaps *snaps, const struct options *o, struct err *e)
{
	int64_t id;
	long by;

	if (!o->n_file)
		return err_set(e, ERR_USAGE, "'weir sessions rm' wants the names of sessions");
	/* find and lock all sessions before the first one is deleted: so no session is deleted if a name is unknown or
	 * a session is in use; if deleting a session fails, the sessions deleted before it stay deleted */
	for (int i = 0; i < o->n_file; i++)
		if (session_find(store, o->file[i], &id, e) < 0)
			return -1;
		else if (session_hold(store, id, &by, e) < 0)
			return err_set(e, e->code, "session '%.80s' is not deleted: %s", o->file[i], e->msg);
	for (int i = 0; i < o->n_file; i++)
		if (session_find(store, o->file[i], &id, e) < 0 || snap_drop(snaps, id, e) < 0 ||
		    session_delete(store, id, e) < 0)
			return -1;
	return 0;
}

static int sessions_collect(struct snaps *snaps, const struct options *o, struct err *e)
{
	struct str s = { 0 };
	uint64_t freed = 0;

	if (snaps_gc(snaps, &freed, e) < 0)
		return -1;
	human_bytes(&s, freed);
	if (!o->quiet)
		say("%s freed", s.p);
	str_free(&s);
	return 0;
}

static int sessions_check(struct store *store, struct snaps *snaps, struct err *e)
{
	struct str report = { 0 };
	int bad = store_check(store, &report, e), more = bad < 0 ? -1 : snaps_check(snaps, &report, e), rc = -1;

	if (bad >= 0 && more >= 0) {
		if (!bad && !more)
			str_adds(&report, "everything that is stored is as it was written\n");
		else if (report.n && report.p[report.n - 1] != '\n')
			str_adds(&report, "\n");
		rc = print_json(&report, e) < 0 ? -1 : bad || more;
	}
	str_free(&report);
	return rc;
}

static int sessions_rename(struct store *store, const struct options *o, struct err *e)
{
	int64_t id;

	if (o->n_file != 2)
		return err_set(e, ERR_USAGE, "'weir sessions rename' wants a name and the new one");
	return session_find(store, o->file[0], &id, e) < 0 ? -1 : session_rename(store, id, o->file[1], e);
}

static int sessions_run(const struct options *o, struct store *store, struct snaps *snaps, struct err *e)
{
	switch (o->command) {
	case CMD_SESSIONS_LS: return sessions_list(store, o, e);
	case CMD_SESSIONS_SEARCH: return sessions_search(store, o, e);
	case CMD_SESSIONS_SHOW:
		return o->n_file == 1 ? session_write(store, "txt", o->file[0], e)
		                      : err_set(e, ERR_USAGE, "'weir sessions show' wants the name of a session");
	case CMD_SESSIONS_EXPORT:
		return o->n_file == 2
		               ? session_write(store, o->file[0], o->file[1], e)
		               : err_set(e, ERR_USAGE,
		                         "'weir sessions export' wants a format (md, json, txt) and the name of a session");
	case CMD_SESSIONS_IMPORT: return session_import(store, o, e);
	case CMD_SESSIONS_RENAME: return sessions_rename(store, o, e);
	case CMD_SESSIONS_RM: return sessions_remove(store, snaps, o, e);
	case CMD_SESSIONS_GC: return sessions_collect(snaps, o, e);
	default: return sessions_check(store, snaps, e);
	}
}

int cmd_sessions(const struct options *o)
{
	const command_set reads = CMD_SESSIONS_LS | CMD_SESSIONS_SHOW | CMD_SESSIONS_SEARCH | CMD_SESSIONS_EXPORT;

	return stored_run(o, (o->command & reads) != 0, sessions_run);
}
