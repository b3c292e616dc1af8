/* sessions/store/documents.c - documents of sessions.
 *
 * A text is stored once, in table content under its SHA-256, even if many sessions have it. A row of table document
 * connects a session with a text, and stores the session's name for the text. */
#include "sessions/store/passages.h"

#include <stdlib.h>
#include <string.h>

/* The columns that the checksum of a row of table `document` covers. number[] has the values of the columns content,
 * bytes, at and after, in this order. */
struct row {
	int64_t number[4], mtime;
	const void *name, *file, *path;
	size_t n_name, n_file, n_path;
};

static int64_t row_sum(const struct row *r)
{
	struct str tail = { 0 };
	int64_t sum;

	/* rows of older formats have no mtime, file and path, and their checksums do not cover these columns */
	str_add(&tail, r->name, r->n_name);
	if (r->n_file || r->n_path || r->mtime) {
		str_addf(&tail, "%c%lld %zu ", 0, (long long)r->mtime, r->n_file);
		str_add(&tail, r->file, r->n_file);
		str_add(&tail, r->path, r->n_path);
	}
	sum = pair_sum(r->number, sizeof r->number, str_text(&tail), tail.n);
	str_free(&tail);
	return sum;
}

int document_sum_ok(sqlite3_stmt *st, int first)
{
	struct row r = { .mtime = sqlite3_column_int64(st, first + 6) };

	for (int i = 0; i < 4; i++)
		r.number[i] = sqlite3_column_int64(st, first + i);
	r.name = db_bytes(st, first + 5, 1, &r.n_name);
	r.file = db_bytes(st, first + 7, 1, &r.n_file);
	r.path = db_bytes(st, first + 8, 1, &r.n_path);
	return row_sum(&r) == sqlite3_column_int64(st, first + 4);
}

struct changing {
	int64_t session;
	struct document_change *change;
	size_t n;
};

/* Store the text and return its id in *content. Returns 0 or -1. */
static int put_content(struct store *s, const struct stored_document *d, int64_t *content, struct err *e)
{
	uint8_t hash[32];
	int rc;

	if (d->n_text > DB_VALUE_MAX)
		return err_set(e, ERR_FIT, "document '%.100s' has %zu bytes of text, the limit is %u",
		               d->name ? d->name : "", d->n_text, DB_VALUE_MAX);
	if (text_hash(d->text, d->n_text, hash, e))
		return -1;
	rc = db_find(&s->db, e, content, "SELECT id FROM content WHERE hash=?1", "b", (const void *)hash, sizeof hash);
	if (rc < 0)
		return -1;
	if (!rc) {
		if (db_run(&s->db, e, "INSERT INTO content(hash, text) VALUES(?1, ?2)", "bs", (const void *)hash,
		           sizeof hash, d->text, d->n_text))
			return -1;
		*content = sqlite3_last_insert_rowid(s->db.h);
	}
	return outline_put(s, *content, d, e);
}

static int document_none(struct err *e, int64_t session, int64_t id)
{
	return err_set(e, ERR_USAGE, "there is no document %lld in session %lld", (long long)id, (long long)session);
}

/* Write a row of table document. If `id` is not 0, overwrite row `id` with a new version; otherwise insert a new row.
 * Returns 0 or -1. */
static int put_row(struct store *s, int64_t session, int64_t id, const struct stored_document *d, int64_t content,
                   struct err *e)
{
	const struct doc_origin *o = d->origin && d->origin->path ? d->origin : NULL;
	struct row r = {
		.number = { content, d->bytes > INT64_MAX ? INT64_MAX : (int64_t)d->bytes, d->at ? d->at : store_now(),
		            d->after },
		.name = d->name ? d->name : "",
		.file = o ? (const void *)o->hash : "",
		.path = o ? o->path : "",
		.n_file = o ? sizeof o->hash : 0,
		.n_path = o ? strlen(o->path) : 0,
		.mtime = o ? o->mtime : 0,
	};
	const char *sql = id ? "UPDATE document SET content=?3, bytes=?4, at=?5, after=?6, sum=?7, name=?8, mtime=?9,"
	                       " file=?10, path=?11 WHERE session=?1 AND id=?2"
	                     : "INSERT INTO document(session, content, bytes, at, after, sum, name, mtime, file, path)"
	                       " VALUES(?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

	r.n_name = strlen(r.name);
	if (db_run(&s->db, e, sql, "iiiiiiibibb", session, id, content, r.number[1], r.number[2], r.number[3],
	           row_sum(&r), r.name, r.n_name, r.mtime, r.file, r.n_file, r.path, r.n_path))
		return -1;
	return id && !sqlite3_changes(s->db.h) ? document_none(e, session, id) : 0;
}

static int put_document(struct store *s, int64_t session, struct document_change *c, struct err *e)
{
	const struct stored_document *d = c->d;
	int64_t content;
	int rc;

	if (d->after && (rc = message_visible(s, session, d->after, e)) <= 0)
		return rc < 0 ? -1
		              : err_set(e, ERR_USAGE, "there is no message %lld in session %lld", (long long)d->after,
		                        (long long)session);
	if (put_content(s, d, &content, e) || put_row(s, session, c->id, d, content, e))
		return -1;
	c->added = c->id ? c->id : sqlite3_last_insert_rowid(s->db.h);
	return 0;
}

static int drop_document(struct store *s, int64_t session, int64_t id, struct err *e)
{
	if (db_run(&s->db, e, "DELETE FROM document WHERE id=?1 AND session=?2", "ii", id, session))
		return -1;
	return sqlite3_changes(s->db.h) ? 0 : document_none(e, session, id);
}

static int do_change(struct store *s, void *arg, struct err *e)
{
	struct changing *a = arg;
	int rc = session_exists(s, a->session, e), orphans = 0;

	for (size_t i = 0; i < a->n && !rc; i++) {
		struct document_change *c = &a->change[i];

		orphans |= c->id != 0;
		rc = c->d ? put_document(s, a->session, c, e) : drop_document(s, a->session, c->id, e);
	}
	return rc ? -1 : orphans ? documents_drop_orphans(s, e) : 0;
}

int session_change_documents(struct store *s, int64_t session, struct document_change *change, size_t n, struct err *e)
{
	struct changing a = { session, change, n };

	if (store_change(s, do_change, &a, e))
		return -1;
	for (size_t i = 0; i < n; i++)
		if (change[i].d)
			change[i].id = change[i].added;
	return 0;
}

int session_add_document(struct store *s, int64_t session, const struct stored_document *d, int64_t *id, struct err *e)
{
	struct document_change c = { .d = d };

	if (session_change_documents(s, session, &c, 1, e))
		return -1;
	*id = c.id;
	return 0;
}

int session_drop_document(struct store *s, int64_t session, int64_t id, struct err *e)
{
	return session_change_documents(s, session, &(struct document_change){ .id = id }, 1, e);
}

int documents_drop_orphans(struct store *s, struct err *e)
{
	if (passages_drop_orphans(&s->db, e) || vectors_drop_orphans(&s->db, e) ||
	    db_run(&s->db, e,
	           "DELETE FROM content WHERE NOT EXISTS (SELECT 1 FROM document d WHERE d.content=content.id)", ""))
		return -1;
	return db_run(&s->db, e,
	              "DELETE FROM outline WHERE NOT EXISTS (SELECT 1 FROM content c WHERE c.id=outline.content)", "");
}

int documents_drop(struct store *s, int64_t session, struct err *e)
{
	if (db_run(&s->db, e, "DELETE FROM document WHERE session=?1", "i", session))
		return -1;
	return sqlite3_changes(s->db.h) ? documents_drop_orphans(s, e) : 0;
}

/* Call fn with the document of a row. Returns 0; 1 if fn has ended the list; -1 on error. */
static int give_document(struct store *s, sqlite3_stmt *st, document_fn *fn, void *ud, struct err *e)
{
	struct stored_document d = {
		.id = sqlite3_column_int64(st, 0),
		.at = sqlite3_column_int64(st, 3),
		.after = sqlite3_column_int64(st, 4),
	};
	struct doc_origin origin = { .size = sqlite3_column_int64(st, 2), .mtime = sqlite3_column_int64(st, 10) };
	struct mark *mark = NULL;
	size_t n_name, n_file, n_path;
	const char *name = db_bytes(st, 1, 1, &n_name), *file = db_bytes(st, 11, 1, &n_file),
		   *path = db_bytes(st, 12, 1, &n_path);
	char *copy = xstrndup(name, n_name);
	int rc;

	d.name = copy;
	d.bytes = origin.size > 0 ? (uint64_t)origin.size : 0;
	d.text = db_bytes(st, 5, 0, &d.n_text);
	if (n_file == sizeof origin.hash && n_path) {
		memcpy(origin.hash, file, sizeof origin.hash);
		origin.path = xstrndup(path, n_path);
		d.origin = &origin;
	}
	if (sqlite3_column_type(st, 5) == SQLITE_NULL) {
		rc = err_set(e, ERR_FAIL,
		             "'%s/" CHAT_FILE "' is damaged: the text of document '%.100s' is lost; remove it or add "
		             "it again",
		             s->dir, copy);
	} else {
		struct doc again = { .name = copy, .text = { .p = (char *)(uintptr_t)d.text, .n = d.n_text } };

		if (sqlite3_column_type(st, 9) == SQLITE_NULL || outline_get(st, 6, d.n_text, &d, &mark) < 0) {
			doc_mark_again(&again);
			d.type = again.type;
			d.mark = mark = again.mark;
			d.n_mark = again.n_mark;
		}
		rc = fn(&d, ud) ? 1 : 0;
	}
	marks_free(mark, d.n_mark);
	origin_free(&origin);
	free(copy);
	return rc;
}

int session_documents(struct store *s, int64_t session, document_fn *fn, void *ud, struct err *e)
{
	sqlite3_stmt *st =
		db_query(&s->db, e,
	                 "SELECT d.id, d.name, d.bytes, d.at, d.after, c.text, o.type, o.bytes, o.sum, o.marks,"
	                 " d.mtime, d.file, d.path FROM document d LEFT JOIN content c ON c.id=d.content"
	                 " LEFT JOIN outline o ON o.content=d.content WHERE d.session=?1 ORDER BY d.id",
	                 "i", session);
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0) {
		int stop = give_document(s, st, fn, ud, e);
		rc = stop < 0 ? -1 : !stop;
	}
	db_put(&s->db, st);
	return rc;
}
