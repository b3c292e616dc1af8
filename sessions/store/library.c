/* sessions/store/library.c - lists, finds, loads and deletes the distinct texts of all documents (store.h).
 *
 * A text is in the library while at least one session has a document with it. The newest of these documents gives the
 * text its name and source file. */
#include "sessions/store/store_private.h"

#include "engine/engine_chat.h"

#include <stdlib.h>
#include <string.h>

#define NEWEST "(SELECT max(id) FROM document n WHERE n.content=c.id)"

int library_list(struct store *s, library_fn *fn, void *ud, struct err *e)
{
	sqlite3_stmt *st = db_query(
		&s->db, e,
		"SELECT c.id, d.name, coalesce(o.bytes, length(CAST(c.text AS BLOB))),"
		" (SELECT max(at) FROM document n WHERE n.content=c.id),"
		" (SELECT count(DISTINCT session) FROM document n WHERE n.content=c.id), o.type, o.bytes, o.sum, o.marks"
		" FROM content c JOIN document d ON d.id=" NEWEST " LEFT JOIN outline o ON o.content=c.id"
		" ORDER BY d.id DESC",
		"");
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0) {
		size_t n;
		const char *name = db_bytes(st, 1, 1, &n);
		char *copy = xstrndup(name, n);
		int64_t type = sqlite3_column_int64(st, 5);
		struct library_text t = {
			.id = sqlite3_column_int64(st, 0),
			.name = copy,
			.at = sqlite3_column_int64(st, 3),
			.sessions = db_small(sqlite3_column_int64(st, 4)),
			.type = type >= 0 && type < DOC_TYPES && type != DOC_GZIP ? (enum doc_type)type : DOC_TEXT,
		};

		t.bytes = sqlite3_column_int64(st, 2) > 0 ? (uint64_t)sqlite3_column_int64(st, 2) : 0;
		if (sqlite3_column_type(st, 8) != SQLITE_NULL)
			t.pages = outline_pages(st, 5);
		if (fn(&t, ud))
			rc = 0;
		free(copy);
	}
	db_put(&s->db, st);
	return rc;
}

struct finding {
	const char *what;
	size_t n;
	int64_t number, numbered, named, begun;
	int n_named, n_begun;
};

static int find_one(const struct library_text *t, void *ud)
{
	struct finding *f = ud;

	if (t->id == f->number)
		f->numbered = t->id;
	/* keep the first match, because the list begins with the newest text */
	if (!strcmp(t->name, f->what)) {
		if (!f->n_named++)
			f->named = t->id;
	} else if (!strncasecmp(t->name, f->what, f->n)) {
		f->n_begun++;
		f->begun = t->id;
	}
	return 0;
}

int library_find(struct store *s, const char *what, int64_t *id, struct err *e)
{
	struct finding f = { .what = what, .n = strlen(what), .number = -1 };
	const char *digits = what + (*what == '#');

	if (!f.n)
		return err_set(e, ERR_USAGE, "no document was named; 'weir docs ls' lists them");
	if (*digits && strlen(digits) < 19 && strspn(digits, "0123456789") == strlen(digits))
		f.number = strtoll(digits, NULL, 10);
	if (library_list(s, find_one, &f, e) < 0)
		return -1;
	if (f.n_named > 1 && !f.numbered)
		return err_set(e, ERR_USAGE,
		               "%d documents are called '%.80s'; name one by its number, see 'weir docs ls'", f.n_named,
		               what);
	*id = f.named ? f.named : f.numbered ? f.numbered : f.n_begun == 1 ? f.begun : 0;
	if (*id)
		return 0;
	if (f.n_begun)
		return err_set(e, ERR_USAGE,
		               "%d documents begin with '%.80s'; type more of it, or its number, see 'weir docs ls'",
		               f.n_begun, what);
	return err_set(e, ERR_USAGE, "no session has a document '%.80s'; 'weir docs ls' lists them", what);
}

/* Argument of copy_document(), which copies document `id` to *out. */
struct getting {
	int64_t id;
	struct doc *out;
	int found;
};

static int copy_document(const struct stored_document *d, void *ud)
{
	struct getting *g = ud;

	if (d->id != g->id)
		return 0;
	*g->out = (struct doc){ .type = d->type, .bytes = d->bytes, .encoding = "UTF-8" };
	g->out->name = xstrndup(d->name, strlen(d->name));
	str_add(&g->out->text, d->text, d->n_text);
	g->out->n_mark = marks_copy(d->mark, d->n_mark, &g->out->mark);
	for (size_t i = 0; i < g->out->n_mark; i++)
		g->out->pages += g->out->mark[i].kind == MARK_PAGE;
	if (d->origin)
		origin_copy(&g->out->origin, d->origin);
	g->found = 1;
	return 1;
}

int library_get(struct store *s, int64_t id, struct doc *out, struct err *e)
{
	struct getting g = { .out = out };
	int64_t session;
	int rc = db_find(&s->db, e, &g.id, "SELECT max(id) FROM document WHERE content=?1", "i", id);

	*out = (struct doc){ 0 };
	if (rc > 0 && g.id)
		rc = db_find(&s->db, e, &session, "SELECT session FROM document WHERE id=?1", "i", g.id);
	if (rc < 0 || (rc > 0 && g.id && session_documents(s, session, copy_document, &g, e) < 0))
		return -1;
	return g.found ? 0
	               : err_set(e, ERR_USAGE, "there is no document %lld; 'weir docs ls' lists them", (long long)id);
}

int library_sessions(struct store *s, int64_t id, library_session_fn *fn, void *ud, struct err *e)
{
	sqlite3_stmt *st =
		db_query(&s->db, e, "SELECT DISTINCT session FROM document WHERE content=?1 ORDER BY session", "i", id);
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0)
		if (fn(sqlite3_column_int64(st, 0), ud))
			rc = 0;
	db_put(&s->db, st);
	return rc;
}

void library_forget_recognised(struct store *s)
{
	uint8_t(*hash)[32] = NULL;
	size_t n = 0, cap = 0, bytes;
	sqlite3_stmt *st;
	struct err none;
	int rc = 1;

	if (!s->recognised ||
	    !(st = db_query(&s->db, &none, "SELECT DISTINCT file FROM document WHERE length(file)=32", "")))
		return;
	while (rc > 0 && (rc = db_step(&s->db, st, &none)) > 0) {
		const char *file = db_bytes(st, 0, 1, &bytes);

		GROW(hash, n, cap);
		memcpy(hash[n++], file, MIN(bytes, 32));
	}
	if (!rc)
		doc_recognised_prune(s->recognised, (const uint8_t(*)[32])hash, n);
	db_put(&s->db, st);
	free(hash);
}

/* Remove quotes of text `id` from the stats (JSON) of messages.  A question's stats quote the passages that were sent
 * with it; an answer's stats quote the sentences on which the answer rests. */
static int forget_quotes(struct store *s, int64_t id, struct err *e)
{
	sqlite3_stmt *st = db_query(
		&s->db, e,
		"SELECT m.id, CASE m.role WHEN ?2 THEN json_remove(m.stats, '$.context') ELSE json_set(m.stats, '$.sources',"
		" (SELECT json_group_array(CASE WHEN json_extract(x.value, '$.doc') IN (SELECT CAST(name AS TEXT) FROM document WHERE content=?1)"
		" OR instr(c.text, json_extract(x.value, '$.text'))>0 THEN json_set(x.value, '$.text', '') ELSE json(x.value) END)"
		" FROM json_each(m.stats, '$.sources') x)) END"
		" FROM message m JOIN content c ON c.id=?1 WHERE m.session IN (SELECT session FROM document WHERE content=?1) AND m.stats<>'' AND"
		" json_valid(m.stats) AND coalesce(json_type(m.stats, CASE m.role WHEN ?2 THEN '$.context' ELSE '$.sources' END), '') IN ('text', 'array')"
		" AND NOT EXISTS (SELECT 1 FROM json_each(m.stats, '$.sources') y WHERE y.type<>'object')",
		"ii", id, (int64_t)ROLE_USER);
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0)
		if (message_set_stats(s, sqlite3_column_int64(st, 0), db_text(st, 1), e))
			rc = -1;
	db_put(&s->db, st);
	return rc;
}

static int do_remove(struct store *s, void *arg, struct err *e)
{
	int64_t id = *(int64_t *)arg;

	if (forget_quotes(s, id, e))
		return -1;
	if (db_run(&s->db, e, "DELETE FROM document WHERE content=?1", "i", id))
		return -1;
	if (!sqlite3_changes(s->db.h))
		return err_set(e, ERR_USAGE, "there is no document %lld; 'weir docs ls' lists them", (long long)id);
	return documents_drop_orphans(s, e);
}

int library_remove(struct store *s, int64_t id, struct err *e)
{
	if (store_change(s, do_remove, &id, e))
		return -1;
	store_erase_traces(s);
	return 0;
}
