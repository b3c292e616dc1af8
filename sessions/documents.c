/* sessions/documents.c - the documents of sessions.
 *
 * A text is stored once under its SHA-256, however many sessions or forks have it; each stores its own name for it. */
#include "sessions/store.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

int text_hash(const void *p, size_t n, uint8_t out[32], struct err *e)
{
	return EVP_Digest(n ? p : "", n, out, NULL, EVP_sha256(), NULL) == 1
	       ? 0 : err_set(e, ERR_FAIL, "cannot compute a checksum: libcrypto refuses SHA-256");
}

static int64_t document_sum(int64_t content, int64_t bytes, int64_t at, int64_t after, const void *name, size_t n)
{
	int64_t head[4] = {content, bytes, at, after};

	return pair_sum(head, sizeof head, name, n);
}

int document_sum_ok(sqlite3_stmt *st, int first)
{
	size_t n;
	const void *name = db_bytes(st, first + 5, 1, &n);

	return document_sum(sqlite3_column_int64(st, first), sqlite3_column_int64(st, first + 1),
	                    sqlite3_column_int64(st, first + 2), sqlite3_column_int64(st, first + 3), name, n) ==
	       sqlite3_column_int64(st, first + 4);
}

struct adding { int64_t session; const struct stored_document *d; uint8_t hash[32]; int64_t id; };

static int do_add(struct store *s, void *arg, struct err *e)
{
	struct adding *a = arg;
	const struct stored_document *d = a->d;
	const char *name = d->name ? d->name : "";
	int64_t content, bytes = d->bytes > INT64_MAX ? INT64_MAX : (int64_t)d->bytes, at = d->at ? d->at : store_now();
	int rc;

	if (session_exists(s, a->session, e))
		return -1;
	if (d->after && (rc = message_visible(s, a->session, d->after, e)) <= 0)
		return rc < 0 ? -1 : err_set(e, ERR_USAGE, "there is no message %lld in session %lld", (long long)d->after,
		                             (long long)a->session);
	rc = db_find(&s->db, e, &content, "SELECT id FROM content WHERE hash=?1", "b", (const void *)a->hash, sizeof a->hash);
	if (rc < 0)
		return -1;
	if (!rc) {
		if (db_run(&s->db, e, "INSERT INTO content(hash, text) VALUES(?1, ?2)", "bs", (const void *)a->hash, sizeof a->hash,
		           d->text, d->n_text))
			return -1;
		content = sqlite3_last_insert_rowid(s->db.h);
	}
	if (db_run(&s->db, e, "INSERT INTO document(session, content, bytes, at, after, sum, name)"
	           " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)", "iiiiiib", a->session, content, bytes, at, d->after,
	           document_sum(content, bytes, at, d->after, name, strlen(name)), (const void *)name, strlen(name)))
		return -1;
	a->id = sqlite3_last_insert_rowid(s->db.h);
	return 0;
}

int session_add_document(struct store *s, int64_t session, const struct stored_document *d, int64_t *id, struct err *e)
{
	struct adding a = {.session = session, .d = d};

	if (d->n_text > DB_VALUE_MAX)
		return err_set(e, ERR_FIT, "document '%.100s' has %zu bytes of text, the limit is %u", d->name ? d->name : "",
		               d->n_text, DB_VALUE_MAX);
	if (text_hash(d->text, d->n_text, a.hash, e) || store_change(s, do_add, &a, e))
		return -1;
	*id = a.id;
	return 0;
}

#define DROP_ORPHANS "DELETE FROM content WHERE NOT EXISTS (SELECT 1 FROM document d WHERE d.content=content.id)"

struct dropping { int64_t session, id; };

static int do_drop(struct store *s, void *arg, struct err *e)
{
	struct dropping *d = arg;

	if (db_run(&s->db, e, "DELETE FROM document WHERE id=?1 AND session=?2", "ii", d->id, d->session))
		return -1;
	if (!sqlite3_changes(s->db.h))
		return err_set(e, ERR_USAGE, "there is no document %lld in session %lld", (long long)d->id, (long long)d->session);
	return db_run(&s->db, e, DROP_ORPHANS, "");
}

int session_drop_document(struct store *s, int64_t session, int64_t id, struct err *e)
{
	struct dropping d = {session, id};

	return store_change(s, do_drop, &d, e);
}

int documents_drop(struct store *s, int64_t session, struct err *e)
{
	if (db_run(&s->db, e, "DELETE FROM document WHERE session=?1", "i", session))
		return -1;
	return sqlite3_changes(s->db.h) ? db_run(&s->db, e, DROP_ORPHANS, "") : 0;
}

int session_documents(struct store *s, int64_t session, document_fn *fn, void *ud, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT d.id, d.name, d.bytes, d.at, d.after, c.text FROM document d"
	                            " LEFT JOIN content c ON c.id=d.content WHERE d.session=?1 ORDER BY d.id", "i", session);
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0) {
		size_t n_name;
		const char *name = db_bytes(st, 1, 1, &n_name);
		char *copy = xstrndup(name, n_name);
		struct stored_document d = {
			.id = sqlite3_column_int64(st, 0), .at = sqlite3_column_int64(st, 3), .after = sqlite3_column_int64(st, 4),
			.name = copy,
		};

		d.bytes = sqlite3_column_int64(st, 2) > 0 ? (uint64_t)sqlite3_column_int64(st, 2) : 0;
		d.text = db_bytes(st, 5, 0, &d.n_text);
		if (sqlite3_column_type(st, 5) == SQLITE_NULL)
			rc = err_set(e, ERR_FAIL, "'%s/" CHAT_FILE "' is damaged: the text of document '%.100s' is lost; remove it or add "
			             "it again", s->dir, copy);
		else if (fn(&d, ud))
			rc = 0;
		free(copy);
	}
	db_put(&s->db, st);
	return rc;
}
