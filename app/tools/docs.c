/* app/tools/docs.c - weir docs ls|show|search|rm: the documents of all sessions. Needs no model.
 *
 * Other weir processes may run meanwhile. A document is not deleted while another process has opened a session with
 * this document. */
#include "app/tools/tools.h"
#include "engine/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sessions/import/import.h"
#include "sessions/store/store.h"
#include "sessions/snap/snap.h"

/* ---- ls ---- */

static int list_one(const struct library_text *t, void *ud)
{
	const struct listing_cell row[] = {
		{ "id", "id", 4, CELL_NUMBER, .number = t->id },
		{ "name", "name", -34, .text = t->name },
		{ "type", "type", -8, .text = doc_type_name[t->type] },
		{ "pages", "pages", 5, CELL_COUNT, .number = t->pages },
		{ "bytes", "text", 9, CELL_BYTES, .number = (int64_t)t->bytes },
		{ "sessions", "sessions", 8, CELL_NUMBER, .number = t->sessions },
		{ "at", "read", 0, CELL_AGE, .number = t->at },
	};

	listing_row(ud, row, LEN(row));
	return 0;
}

static int docs_list(struct store *store, const struct options *o, struct err *e)
{
	struct listing list = { .json = o->json, .titles = 1 };

	if (library_list(store, list_one, &list, e) < 0)
		return -1;
	if (!list.rows && !o->json && !o->quiet)
		say("no session has a document yet; 'weir FILE' reads one");
	return listing_print(&list, e);
}

/* ---- show ---- */

static int docs_show(struct store *store, const struct options *o, struct err *e)
{
	struct doc d;
	int64_t id;
	int rc;

	if (o->n_file != 1)
		return err_set(e, ERR_USAGE, "'weir docs show' wants the name or number of a document");
	if (library_find(store, o->file[0], &id, e) < 0 || library_get(store, id, &d, e) < 0)
		return -1;
	if (d.text.n && d.text.p[d.text.n - 1] != '\n')
		str_adds(&d.text, "\n");
	rc = print_json(&d.text, e);
	doc_free(&d);
	return rc;
}

/* ---- search ---- */

struct texts {
	int64_t *id;
	size_t n;
};

static int add_text(const struct library_text *t, void *ud)
{
	struct texts *x = ud;

	x->id = xrealloc(x->id, (x->n + 1) * sizeof *x->id);
	x->id[x->n++] = t->id;
	return 0;
}

/* Append a sentence that the search has found, with the document, page and heading to which it belongs. */
static void found_one(const struct options *o, int64_t id, const struct doc *d, const struct found_passage *h,
                      struct str *s)
{
	const struct mark *page = doc_mark_at(d, MARK_PAGE, h->quote),
			  *heading = doc_mark_at(d, MARK_HEADING, h->quote);
	size_t n = h->quote_end - h->quote;

	if (n > 300)
		n = utf8_complete(d->text.p + h->quote, 300);
	if (o->json) {
		json_open(s, NULL, '{');
		json_int(s, "id", id);
		json_string(s, "doc", d->name);
		json_page(s, "page", page ? page->text : NULL);
		if (heading)
			json_string(s, "heading", heading->text);
		else
			json_null(s, "heading");
		json_open(s, "bytes", '[');
		json_uint(s, NULL, h->from);
		json_uint(s, NULL, h->to);
		json_close(s, ']');
		json_text(s, "text", d->text.p + h->quote, n);
		json_close(s, '}');
	} else {
		str_addf(s, "%lld %s", (long long)id, d->name);
		if (page && *page->text)
			str_addf(s, ", p. %s", page->text);
		if (heading)
			str_addf(s, ", \"%s\"", heading->text);
		str_adds(s, ": ");
		one_line(s, d->text.p + h->quote, n, "");
	}
	str_adds(s, "\n");
}

static int docs_search(struct store *store, const struct options *o, struct err *e)
{
	struct passage_index *index = NULL;
	struct texts list = { 0 };
	struct indexed_text *text = NULL;
	struct found_passage *hit = NULL;
	struct doc *doc = NULL;
	struct str words = { 0 }, s = { 0 };
	int n = -1;

	if (stored_words(o, &words, e) < 0)
		return -1;
	if (library_list(store, add_text, &list, e) < 0)
		goto out;
	doc = xcalloc(list.n + 1, sizeof *doc);
	text = xcalloc(list.n + 1, sizeof *text);
	hit = xcalloc((size_t)o->limit, sizeof *hit);
	for (size_t i = 0; i < list.n; i++) {
		if (library_get(store, list.id[i], &doc[i], e) < 0)
			goto out;
		text[i] = (struct indexed_text){ str_text(&doc[i].text), doc[i].text.n };
	}
	if (passage_index_open(&index, store, e) < 0)
		goto out;
	n = passages_find(index, text, list.n, words.p, words.n, hit, (size_t)o->limit, e);
	for (int i = 0; i < n; i++)
		found_one(o, list.id[hit[i].text], &doc[hit[i].text], &hit[i], &s);
	if (!n && !o->quiet)
		say("nothing found");
out:
	passage_index_close(index);
	for (size_t i = 0; doc && i < list.n; i++)
		doc_free(&doc[i]);
	free(doc);
	free(text);
	free(hit);
	free(list.id);
	str_free(&words);
	if (n >= 0)
		n = print_json(&s, e) < 0 ? -1 : !n; /* like grep, set the exit status to 1 if nothing was found */
	str_free(&s);
	return n;
}

/* ---- rm ---- */

struct dropping {
	struct store *store;
	struct snaps *snaps;
	int n;
	struct err *e;
};

/* Lock a session that has the document, so that no other process opens it. Returns 0; 1 if another process has opened
 * the session. */
static int hold_session(int64_t session, void *ud)
{
	struct dropping *d = ud;
	struct session s = { .id = session, .name = "", .title = "" };
	long by;

	if (!session_hold(d->store, session, &by, d->e))
		return 0;
	if (by && !session_get(d->store, session, &s, NULL))
		err_set(d->e, d->e->code, "session %lld '%.80s' has it: %s", (long long)session,
		        *s.name ? s.name : s.title, d->e->msg);
	return 1;
}

/* Delete the snapshots of a session that has the document, because they contain KV entries computed from the
 * document. */
static int drop_snapshots(int64_t session, void *ud)
{
	struct dropping *d = ud;

	d->n++;
	return snap_drop(d->snaps, session, d->e) < 0;
}

static int docs_remove(struct store *store, struct snaps *snaps, const struct options *o, struct err *e)
{
	int64_t id;

	if (!o->n_file)
		return err_set(e, ERR_USAGE, "'weir docs rm' wants the names or numbers of documents");
	/* find all documents before the first one is deleted: if a name is unknown, no document is deleted */
	for (int i = 0; i < o->n_file; i++)
		if (library_find(store, o->file[i], &id, e) < 0)
			return -1;
	for (int i = 0; i < o->n_file; i++) {
		struct dropping d = { .store = store, .snaps = snaps, .e = e };

		if (library_find(store, o->file[i], &id, e) < 0 ||
		    library_sessions(store, id, hold_session, &d, e) < 0 || e->code ||
		    library_sessions(store, id, drop_snapshots, &d, e) < 0 || e->code ||
		    library_remove(store, id, e) < 0)
			return -1;
		if (!o->quiet)
			say("'%s' is deleted; %d %s had it and will be read again without it", o->file[i], d.n,
			    d.n == 1 ? "session" : "sessions");
	}
	return 0;
}

static int docs_run(const struct options *o, struct store *store, struct snaps *snaps, struct err *e)
{
	switch (o->command) {
	case CMD_DOCS_LS: return docs_list(store, o, e);
	case CMD_DOCS_SHOW: return docs_show(store, o, e);
	case CMD_DOCS_SEARCH: return docs_search(store, o, e);
	default: return docs_remove(store, snaps, o, e);
	}
}

int cmd_docs(const struct options *o)
{
	return stored_run(o, o->command != CMD_DOCS_RM, docs_run);
}
