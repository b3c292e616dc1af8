/* app/tools/inspect_session.c - weir inspect session: prints the stored data of a session, and checks whether it is
 * intact.
 *
 * Other weir processes may run meanwhile. Names, titles, settings and documents are untrusted text. */
#include <stdlib.h>
#include <string.h>

#include "app/tools/tools.h"
#include "sessions/store/store.h"
#include "sessions/snap/snap.h"
#include "ui/text/text.h"
#include "engine/base/json.h"

#define SHOWN_MAX 200 /* number of bytes of a setting that are shown */

struct view {
	int json, n; /* `json` is 1 to write JSON; `n` is the number of items in the current list */
	int64_t head;
	uint64_t bytes;
	size_t summaries;
	struct str *out;
};

static void section_head(struct view *v, const char *name)
{
	str_addf(v->out, "%-13s", name);
}

static void add_row(struct view *v, const char *name, const char *text)
{
	section_head(v, name);
	clean_line(text, strlen(text), v->out);
	str_adds(v->out, "\n");
}

/* Begin the next item of a list. */
static void item_begin(struct view *v, const char *name)
{
	if (!v->json)
		section_head(v, v->n ? "" : name);
	v->n++;
}

/* ---- settings ---- */

/* 1 if the bytes are valid UTF-8, and none of the characters is below 32 except \n and \t. */
static int is_text(const char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		int32_t cp;

		i += (size_t)utf8_decode(p + i, n - i, &cp);
		if (cp < 0 || (cp < 32 && cp != '\n' && cp != '\t'))
			return 0;
	}
	return 1;
}

static int show_setting(const char *key, const void *value, size_t n, int whole, void *ud)
{
	struct view *v = ud;
	int text = is_text(value, n);

	/* leave out the results of summaries, because a long document has hundreds */
	if (!v->json && !strncmp(key, "summary/", 8)) {
		v->summaries++;
		return 0;
	}
	item_begin(v, "settings");
	if (v->json) {
		json_open(v->out, NULL, '{');
		json_string(v->out, "name", key);
		json_uint(v->out, "bytes", n);
		if (text)
			json_text(v->out, "value", value, n);
		else
			json_null(v->out, "value");
		json_bool(v->out, "whole", whole);
		json_close(v->out, '}');
		return 0;
	}
	clean_line(key, strlen(key), v->out);
	if (!whole)
		str_adds(v->out, ": damaged");
	else if (!text)
		str_addf(v->out, ": %zu bytes", n);
	else {
		str_adds(v->out, " = ");
		clean_line(value, n > SHOWN_MAX ? utf8_complete(value, SHOWN_MAX) : n, v->out);
		if (n > SHOWN_MAX)
			str_addf(v->out, "... (%zu bytes)", n);
	}
	str_adds(v->out, "\n");
	return 0;
}

/* ---- documents ---- */

static int show_document(const struct stored_document *d, void *ud)
{
	struct view *v = ud;

	item_begin(v, "documents");
	if (v->json) {
		json_open(v->out, NULL, '{');
		json_int(v->out, "id", d->id);
		json_string(v->out, "name", d->name);
		json_uint(v->out, "bytes", d->bytes);
		json_uint(v->out, "text_bytes", d->n_text);
		json_int(v->out, "after", d->after);
		json_int(v->out, "at", d->at);
		json_close(v->out, '}');
		return 0;
	}
	clean_line(d->name, strlen(d->name), v->out);
	str_adds(v->out, ", ");
	human_bytes(v->out, d->bytes);
	str_adds(v->out, " read, ");
	human_bytes(v->out, d->n_text);
	str_adds(v->out, " of text");
	if (d->after)
		str_addf(v->out, ", behind message %lld", (long long)d->after);
	str_adds(v->out, "\n");
	return 0;
}

/* ---- snapshots ---- */

static int show_snapshot(const struct snap_info *s, void *ud)
{
	struct view *v = ud;
	int right = s->head && !s->bad;

	item_begin(v, "snapshots");
	if (v->json) {
		json_open(v->out, NULL, '{');
		json_int(v->out, "message", s->message);
		json_bool(v->out, "shown", s->message == v->head);
		json_int(v->out, "tokens", s->tokens);
		json_int(v->out, "used", s->used);
		json_uint(v->out, "bytes", s->bytes);
		json_uint(v->out, "own_bytes", s->own);
		json_uint(v->out, "shared_bytes", s->shared);
		json_bool(v->out, "head", s->head);
		json_int(v->out, "chunks", s->chunks);
		json_int(v->out, "chunks_bad", s->bad);
		json_int(v->out, "chunks_near", s->packed);
		json_bool(v->out, "verified", right);
		json_close(v->out, '}');
		return 0;
	}
	str_addf(v->out, "message %lld%s, ", (long long)s->message, s->message == v->head ? " (shown)" : "");
	human_count(v->out, (uint64_t)s->tokens);
	str_adds(v->out, " tokens, ");
	human_bytes(v->out, s->bytes);
	if (s->shared) {
		str_adds(v->out, ", ");
		human_bytes(v->out, s->shared);
		str_adds(v->out, " of it shared with other sessions");
	}
	if (s->packed)
		str_addf(v->out, ", %d of %d chunks near-exact", s->packed, s->chunks);
	if (right)
		str_adds(v->out, ": verified\n");
	else
		str_addf(v->out, ": %s%s%d of %d chunks missing or damaged\n", s->head ? "" : "the head is damaged",
		         s->head ? "" : ", ", s->bad, s->chunks);
	return 0;
}

/* Append the snapshots. An error of kv.db becomes part of the report and does not end the command, because a damaged
 * kv.db loses no text. */
static int show_snapshots(struct view *v, struct store *store, int64_t id, struct err *e)
{
	struct snaps *snaps = NULL;
	struct snap_state state = { .session = id, .message = v->head };
	struct err why = { 0 };
	size_t before = v->out->n;
	int rc = snaps_open(&snaps, store, &(struct snaps_options){ .budget = 0 }, NULL, &why);

	if (rc)
		snaps = NULL;
	v->n = 0;
	if (v->json)
		json_open(v->out, "snapshots", '[');
	if (!rc)
		rc = snap_states(snaps, &state, 1, &why);
	if (!rc)
		rc = snap_list(snaps, id, show_snapshot, v, &why);
	if (snaps)
		snaps_close(snaps);
	if (rc && why.code != ERR_FAIL && why.code != ERR_FIT) {
		*e = why;
		return -1;
	}
	if (rc) {
		/* Drop the list, because it may be incomplete. */
		v->out->n = before;
		v->out->p[before] = 0;
		if (v->json) {
			json_null(v->out, "snapshots");
			json_string(v->out, "snapshots_error", why.msg);
		} else {
			add_row(v, "snapshots", why.msg);
		}
		return 0;
	}
	if (v->json) {
		json_close(v->out, ']');
		json_uint(v->out, "snapshot_bytes", state.bytes);
		json_bool(v->out, "ready", state.ready);
	} else if (!v->n) {
		add_row(v, "snapshots", "none: opening it reads everything again");
	} else {
		section_head(v, "");
		human_bytes(v->out, state.bytes);
		str_addf(v->out, " in all; %s\n",
		         state.ready ? "opening it reads nothing again, if model, cache and weir are as they were"
		                     : "none is of the message that is shown: opening it reads a part again");
	}
	return 0;
}

/* ---- the command ---- */

static void show_times(struct view *v, const struct session *s)
{
	human_age(v->out, s->created);
	str_adds(v->out, ", used ");
	human_age(v->out, s->used);
	str_adds(v->out, "\n");
}

static void show_facts(struct view *v, const struct session *s, const struct session_tree *t)
{
	if (v->json) {
		json_open(v->out, NULL, '{');
		json_int(v->out, "id", s->id);
		json_string(v->out, "name", s->name);
		json_string(v->out, "title", s->title);
		json_string(v->out, "model", s->model);
		json_string(v->out, "kv", s->kv);
		json_int(v->out, "created", s->created);
		json_int(v->out, "used", s->used);
		json_int(v->out, "parent", s->parent);
		json_int(v->out, "tokens", s->tokens);
		json_int(v->out, "head", s->head);
		json_open(v->out, "messages", '{');
		json_int(v->out, "shown", t->shown);
		json_int(v->out, "all", t->all);
		json_int(v->out, "branches", t->branches);
		json_int(v->out, "cut", t->cut);
		json_close(v->out, '}');
		return;
	}
	section_head(v, "session");
	str_addf(v->out, "%lld", (long long)s->id);
	if (s->parent)
		str_addf(v->out, ", forked from %lld", (long long)s->parent);
	str_adds(v->out, "\n");
	add_row(v, "name", *s->name ? s->name : "none was given");
	add_row(v, "title", s->title);
	add_row(v, "model", *s->model ? s->model : "none yet");
	add_row(v, "cache", *s->kv ? s->kv : "none yet");
	section_head(v, "made");
	show_times(v, s);
	section_head(v, "sequence");
	human_count(v->out, (uint64_t)s->tokens);
	str_adds(v->out, " tokens\n");
	section_head(v, "messages");
	str_addf(v->out, "%d shown, %d in all on %d branch%s", t->shown, t->all, t->branches,
	         t->branches == 1 ? "" : "es");
	if (t->cut)
		str_addf(v->out, "; %d answer%s cut or still being written", t->cut, t->cut == 1 ? "" : "s");
	str_adds(v->out, "\n");
}

static int inspect_one(struct view *v, struct store *store, const char *what, struct err *e)
{
	struct session s;
	struct session_tree tree;
	int64_t id;

	if (session_find(store, what, &id, e) < 0 || session_tree(store, id, &tree, e) < 0 ||
	    session_get(store, id, &s, e) < 0)
		return -1;
	v->head = s.head;
	show_facts(v, &s, &tree);
	if (v->json)
		json_open(v->out, "settings", '[');
	if (session_settings(store, id, show_setting, v, e) < 0)
		return -1;
	if (v->summaries) {
		item_begin(v, "settings");
		str_addf(v->out, "%zu summaries of sections and of their joins\n", v->summaries);
	}
	v->n = 0;
	if (v->json) {
		json_close(v->out, ']');
		json_open(v->out, "documents", '[');
	}
	if (session_documents(store, id, show_document, v, e) < 0)
		return -1;
	if (v->json)
		json_close(v->out, ']');
	if (show_snapshots(v, store, id, e) < 0)
		return -1;
	str_adds(v->out, v->json ? "}\n" : "");
	return 0;
}

int cmd_inspect_session(const struct options *o)
{
	struct str out = { 0 };
	struct view v = { .json = o->json, .out = &out };
	struct store *store = NULL;
	struct err e = { 0 };
	int rc;

	if (o->n_file != 1) {
		err_set(&e, ERR_USAGE, "'weir inspect session' wants the name of a session");
		return fail(&e);
	}
	rc = store_open(&store, &(struct store_options){ .read_only = 1 }, &e);
	if (!rc)
		rc = inspect_one(&v, store, o->file[0], &e);
	if (!rc)
		/* If standard output is a terminal, print_json() removes control characters. */
		rc = print_json(&out, &e);
	if (store)
		store_close(store);
	str_free(&out);
	return rc < 0 ? fail(&e) : 0;
}
