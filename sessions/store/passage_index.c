/* sessions/store/passage_index.c - opens the index of sentences, deletes texts from it, repairs it (passages.h).
 *
 * The index can be rebuilt from the texts at any time. A damaged index is emptied, and each text is indexed again at
 * its next search. */
#include "sessions/store/passages.h"

#include <stdlib.h>
#include <string.h>

#define SENTENCE_TABLE                                                                                                 \
	"CREATE VIRTUAL TABLE sentence USING fts5(text, content='', columnsize=0, detail=none, tokenize='porter ascii');"

/* Table `passages` has one row for each text. Its columns are: id: row number in table `sentence` of the text's first
 * sentence; n: number of the text's sentences; rows: struct sentence [n]; hash: SHA-256 of the text; sum: XXH3 of the
 * other columns. */
const char passage_tables[] =
	"CREATE TABLE passages(id INTEGER PRIMARY KEY, n INTEGER NOT NULL, sum INTEGER NOT NULL, hash BLOB NOT NULL UNIQUE,"
	" rows BLOB NOT NULL) STRICT;" SENTENCE_TABLE;

/* ---- opening ---- */

int passage_index_open(struct passage_index **out, struct store *s, struct err *e)
{
	struct passage_index *x = xcalloc(1, sizeof *x);

	*out = NULL;
	if (s && !s->read_only)
		x->db = &s->db;
	else if (!db_open_memory(&x->memory, e) && !db_exec(&x->memory, passage_tables, e) &&
	         !db_exec(&x->memory, vector_tables, e))
		x->db = &x->memory;
	x->vectors = x->db;
	if (!x->db || tokenizer_open(&x->words, x->db, e)) {
		passage_index_close(x);
		return -1;
	}
	*out = x;
	return 0;
}

void passage_rows_forget(struct passage_index *x)
{
	for (size_t i = 0; i < x->n_kept; i++)
		free(x->kept[i].rows.at);
	free(x->kept);
	x->kept = NULL;
	x->n_kept = x->n_sorted = x->cap_kept = 0;
}

void passage_index_close(struct passage_index *x)
{
	if (!x)
		return;
	tokenizer_close(x->words);
	passage_rows_forget(x);
	db_close(&x->cache);
	db_close(&x->memory);
	free(x);
}

void passage_index_watch(struct passage_index *x, indexing_fn *watch, void *ud)
{
	x->watch = watch;
	x->watch_ud = ud;
}

/* ---- repair ---- */

int passages_empty(struct db *d, struct err *e)
{
	struct err first = { 0 };

	if (db_run(d, e, "DELETE FROM passages", ""))
		return -1;
	if (!db_run(d, &first, "INSERT INTO sentence(sentence) VALUES('delete-all')", ""))
		return 0;
	return db_index_damaged(d) ? fts_replace(d, "sentence", SENTENCE_TABLE, e)
	                           : err_set(e, first.code, "%s", first.msg);
}

int passages_replace(struct db *d, struct err *e)
{
	return db_run(d, e, "DELETE FROM passages", "") || fts_replace(d, "sentence", SENTENCE_TABLE, e) ? -1 : 0;
}

int64_t passage_rows_sum(int64_t id, int64_t n, const void *hash, const void *rows, size_t bytes)
{
	uint8_t head[48];

	memcpy(head, &id, 8);
	memcpy(head + 8, &n, 8);
	memcpy(head + 16, hash, 32);
	return pair_sum(head, sizeof head, rows, bytes);
}

int passage_rows_ok(sqlite3_stmt *st)
{
	int64_t id = sqlite3_column_int64(st, 0), n = sqlite3_column_int64(st, 1);
	size_t n_hash, bytes;
	const void *hash = db_bytes(st, 3, 1, &n_hash), *rows = db_bytes(st, 4, 1, &bytes);

	return id > 0 && n >= 0 && n <= UINT32_MAX && n_hash == 32 && bytes == (size_t)n * sizeof(struct sentence) &&
	       passage_rows_sum(id, n, hash, rows, bytes) == sqlite3_column_int64(st, 2);
}

int passages_whole(struct db *d, struct err *e)
{
	sqlite3_stmt *st = db_query(d, e, "SELECT id, n, sum, hash, rows FROM passages ORDER BY id", "");
	int rc = st ? 1 : -1, whole = 1;
	int64_t next = 0;

	while (rc > 0 && (rc = db_step(d, st, e)) > 0) {
		whole = whole && passage_rows_ok(st) && sqlite3_column_int64(st, 0) >= next;
		next = sqlite3_column_int64(st, 0) + sqlite3_column_int64(st, 1);
	}
	db_put(d, st);
	if (rc < 0)
		return -1;
	return !whole ? 0 : db_run(d, e, "INSERT INTO sentence(sentence) VALUES('integrity-check')", "") ? -1 : 1;
}

/* ---- writing and deleting ---- */

enum { WATCH_EVERY = 256 }; /* number of sentences between two calls of watch(); they take about a millisecond */

int passage_rows_write(const struct passage_index *x, struct db *d, const char *sql, const char *text,
                       const struct passage_rows *r, struct err *e)
{
	sqlite3_stmt *st = db_query(d, e, sql, "");
	struct str folded = { 0 };
	int rc = st ? 0 : -1;

	for (size_t i = 0; i < r->n && !rc; i++) {
		if (x && x->watch && i % WATCH_EVERY == 0 &&
		    x->watch(x->watch_from + r->at[i].from, x->watch_to, x->watch_ud)) {
			rc = err_set(e, ERR_CANCELLED, "stopped");
			break;
		}
		words_fold(text + r->at[i].from, r->at[i].to - r->at[i].from, &folded);
		sqlite3_bind_int64(st, 1, r->id + (int64_t)i);
		sqlite3_bind_text64(st, 2, str_text(&folded), folded.n, SQLITE_STATIC, SQLITE_UTF8);
		rc = db_step(d, st, e);
		sqlite3_reset(st);
	}
	db_put(d, st);
	str_free(&folded);
	return rc;
}


/* Delete one text from the index. `st` is a row of the query in passages_drop_orphans(). FTS5 needs the text to delete
 * it from a contentless table. Returns 0; -1 on error; -2 if the text is lost: then the caller must empty the index. */
static int rows_drop(struct db *d, sqlite3_stmt *st, struct err *e)
{
	size_t n_text, bytes;
	const char *text = db_bytes(st, 5, 0, &n_text);
	const void *rows = db_bytes(st, 4, 1, &bytes);
	struct passage_rows r = { .id = sqlite3_column_int64(st, 0), .n = bytes / sizeof *r.at };
	int rc;

	if (!passage_rows_ok(st) || sqlite3_column_type(st, 5) == SQLITE_NULL)
		return -2;
	r.at = xmalloc(bytes + 1);
	memcpy(r.at, rows, bytes);
	rc = r.n && r.at[r.n - 1].to > n_text ? -2 : 0;
	if (!rc)
		rc = passage_rows_write(NULL, d, "INSERT INTO sentence(sentence, rowid, text) VALUES('delete', ?1, ?2)",
		                        text, &r, e);
	free(r.at);
	return rc ? rc : db_run(d, e, "DELETE FROM passages WHERE id=?1", "i", r.id);
}

int passages_drop_orphans(struct db *d, struct err *e)
{
	sqlite3_stmt *st = db_query(
		d, e,
		"SELECT p.id, p.n, p.sum, p.hash, p.rows, c.text FROM passages p LEFT JOIN content c ON c.hash=p.hash"
		" WHERE NOT EXISTS (SELECT 1 FROM document d WHERE d.content=c.id)",
		"");
	int rc = st ? 1 : -1, dropped = 0;

	while (rc > 0 && (rc = db_step(d, st, e)) > 0) {
		dropped = 1;
		rc = rows_drop(d, st, e);
		rc = rc ? rc : 1;
	}
	db_put(d, st);
	if (!rc && dropped && (rc = fts_many_levels(d, "SELECT block FROM sentence_data WHERE id=10", e)) >= 0)
		rc = rc ? -2 : db_run(d, e, "INSERT INTO sentence(sentence) VALUES('optimize')", "");
	return rc == -2 || (rc < 0 && db_index_damaged(d)) ? passages_empty(d, e) : rc;
}
