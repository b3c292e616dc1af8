/* app/tools/docs.c - weir docs ls|show|search|rm: the documents that sessions have read, without a model.
 *
 * All of them run beside other weirs; a document of a session that one of these has open is not deleted. */
#include "app/tools/tools.h"
#include "engine/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sessions/import/import.h"
#include "sessions/store/store.h"
#include "sessions/snap/snap.h"

static int print_str(struct str *s, struct err *e)
{
	int rc = print_json(s, e); /* through the terminal filter where that is where it goes */

	str_free(s);
	return rc;
}

/* ---- ls ---- */

struct listing {
	const struct options *o;
	struct str s;
	int n;
};

static int list_one(const struct library_text *t, void *ud)
{
	struct listing *x = ud;
	struct str age = { 0 }, size = { 0 };

	if (x->o->json) {
		json_open(&x->s, NULL, '{');
		json_int(&x->s, "id", t->id);
		json_string(&x->s, "name", t->name);
		json_string(&x->s, "type", doc_type_name[t->type]);
		json_int(&x->s, "pages", t->pages);
		json_uint(&x->s, "bytes", t->bytes);
		json_int(&x->s, "sessions", t->sessions);
		json_int(&x->s, "at", t->at);
		json_close(&x->s, '}');
		str_adds(&x->s, "\n");
		return 0;
	}
	if (!x->n++)
		str_addf(&x->s, "%4s  %-34s %-8s %5s %9s %8s  %s\n", "id", "name", "type", "pages", "text", "sessions",
		         "read");
	human_age(&age, t->at);
	human_bytes(&size, t->bytes);
	str_addf(&x->s, "%4lld  ", (long long)t->id);
	table_cell(&x->s, t->name, 34);
	str_addf(&x->s, " %-8s ", doc_type_name[t->type]);
	if (t->pages)
		str_addf(&x->s, "%5d", t->pages);
	else
		str_adds(&x->s, "     ");
	str_addf(&x->s, " %9s %8d  %s\n", size.p, t->sessions, str_text(&age));
	str_free(&age);
	str_free(&size);
	return 0;
}

static int list(struct store *store, const struct options *o, struct err *e)
{
	struct listing x = { .o = o };

	if (library_list(store, list_one, &x, e) < 0)
		return -1;
	if (!x.n && !o->json && !o->quiet)
		say("no session has a document yet; 'weir FILE' reads one");
	return print_str(&x.s, e);
}

/* ---- show ---- */

static int show(struct store *store, const struct options *o, struct err *e)
{
	struct str s = { 0 };
	struct doc d;
	int64_t id;

	if (o->n_file != 1)
		return err_set(e, ERR_USAGE, "'weir docs show' wants the name or number of a document");
	if (library_find(store, o->file[0], &id, e) < 0 || library_get(store, id, &d, e) < 0)
		return -1;
	str_add(&s, str_text(&d.text), d.text.n);
	if (s.n && s.p[s.n - 1] != '\n')
		str_adds(&s, "\n");
	doc_free(&d);
	return print_str(&s, e);
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

/* The sentence that was found, in its document, with page and heading. */
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
		for (size_t i = 0; i < n; i++) {
			char c = d->text.p[h->quote + i];
			str_add(s, c == '\n' || c == '\f' ? " " : &c, 1);
		}
	}
	str_adds(s, "\n");
}

static int search(struct store *store, const struct options *o, struct err *e)
{
	struct passage_index *index = NULL;
	struct texts list = { 0 };
	struct indexed_text *text = NULL;
	struct found_passage *hit = NULL;
	struct doc *doc = NULL;
	struct str words = { 0 }, s = { 0 };
	int n = -1;

	if (!o->n_file)
		return err_set(e, ERR_USAGE, "'weir docs search' wants words");
	for (int i = 0; i < o->n_file; i++)
		str_addf(&words, "%s%s", i ? " " : "", o->file[i]);
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
		/* exit status 1, as of grep */
		return print_str(&s, e) < 0 ? -1 : o->command == CMD_DOCS_SEARCH && !n;
	str_free(&s);
	return -1;
}

/* ---- rm ---- */

struct dropping {
	struct store *store;
	struct snaps *snaps;
	int n;
	struct err *e;
};

/* Nobody may have a session open whose document is deleted. */
static int hold(int64_t session, void *ud)
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

/* Snapshots of a session that has the document hold its KV entries, and those beyond are computed behind it. */
static int drop_snapshots(int64_t session, void *ud)
{
	struct dropping *d = ud;

	d->n++;
	return snap_drop(d->snaps, session, d->e) < 0;
}

static int remove_all(struct store *store, struct snaps *snaps, const struct options *o, struct err *e)
{
	int64_t id;

	if (!o->n_file)
		return err_set(e, ERR_USAGE, "'weir docs rm' wants the names or numbers of documents");
	/* All names are looked up before the first document is deleted. */
	for (int i = 0; i < o->n_file; i++)
		if (library_find(store, o->file[i], &id, e) < 0)
			return -1;
	for (int i = 0; i < o->n_file; i++) {
		struct dropping d = { .store = store, .snaps = snaps, .e = e };

		if (library_find(store, o->file[i], &id, e) < 0 || library_sessions(store, id, hold, &d, e) < 0 ||
		    e->code || library_sessions(store, id, drop_snapshots, &d, e) < 0 || e->code ||
		    library_remove(store, id, e) < 0)
			return -1;
		if (!o->quiet)
			say("'%s' is deleted; %d %s had it and will be read again without it", o->file[i], d.n,
			    d.n == 1 ? "session" : "sessions");
	}
	return 0;
}

int cmd_docs(const struct options *o)
{
	int reads = o->command != CMD_DOCS_RM;
	struct store *store = NULL;
	struct snaps *snaps = NULL;
	struct str notice = { 0 };
	struct err e = { 0 };
	int rc = store_open(&store, &(struct store_options){ .read_only = reads, .notice = &notice }, &e);

	if (!rc && !reads)
		rc = snaps_open(&snaps, store, &(struct snaps_options){ .budget = 0 }, &notice, &e);
	say_lines(&notice);
	if (!rc)
		rc = o->command == CMD_DOCS_LS       ? list(store, o, &e)
		     : o->command == CMD_DOCS_SHOW   ? show(store, o, &e)
		     : o->command == CMD_DOCS_SEARCH ? search(store, o, &e)
		                                     : remove_all(store, snaps, o, &e);
	if (snaps)
		snaps_close(snaps);
	if (store)
		store_close(store);
	str_free(&notice);
	return rc < 0 ? fail(&e) : rc;
}
