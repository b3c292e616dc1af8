/* sessions/store/passage_index.c - adds texts to the index of sentences, deletes them, repairs the index
 * (passages.h).
 *
 * The index can be rebuilt from the texts at any time. A damaged index is emptied, and each text is indexed again at
 * its next search. */
#include "sessions/store/passages.h"

#include <stdlib.h>
#include <string.h>

#define SENTENCE_TABLE                                                                                                 \
	"CREATE VIRTUAL TABLE sentence USING fts5(text, content='', columnsize=0, detail=none, tokenize='porter ascii');"

/* Table `passages` has one row for each text. id: row number of its first sentence in table `sentence`; n: number
 * of its sentences; rows: struct sentence [n]; hash: SHA-256 of the text; sum: XXH3 of the other columns. */
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

void passage_index_close(struct passage_index *x)
{
	if (!x)
		return;
	tokenizer_close(x->words);
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

static int64_t rows_sum(int64_t id, int64_t n, const void *hash, const void *rows, size_t bytes)
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
	       rows_sum(id, n, hash, rows, bytes) == sqlite3_column_int64(st, 2);
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

/* ---- adding ---- */

struct adding {
	const char *text;
	size_t n;
	uint8_t hash[32];
	struct passage_rows *out;
};

static int index_damaged(struct passage_index *x, struct err *e)
{
	x->db->code = SQLITE_CORRUPT;
	return err_set(e, ERR_FAIL, "the index of documents is damaged");
}

/* Load the sentences of text a->text from the index into a->out. 1 = loaded; 0 = the text is not indexed; -1 =
 * error; db_index_damaged() then tells whether the index is damaged. */
static int rows_find(struct passage_index *x, struct adding *a, struct err *e)
{
	sqlite3_stmt *st = db_query(x->db, e, "SELECT id, n, sum, hash, rows FROM passages WHERE hash=?1", "b",
	                            (const void *)a->hash, sizeof a->hash);
	int rc = st ? db_step(x->db, st, e) : -1;

	if (rc > 0 && !passage_rows_ok(st)) {
		rc = index_damaged(x, e);
	} else if (rc > 0) {
		size_t bytes;
		const void *rows = db_bytes(st, 4, 1, &bytes);

		a->out->id = sqlite3_column_int64(st, 0);
		a->out->n = bytes / sizeof *a->out->at;
		a->out->at = xmalloc(bytes + 1);
		memcpy(a->out->at, rows, bytes);
	}
	db_put(x->db, st);
	return rc;
}

struct probe {
	struct passage_index *x;
	const struct str *text;
	int64_t row;
	struct err *e;
	int found;
};

static int probe_word(const char *stem, size_t n, size_t from, size_t to, void *ud)
{
	struct probe *p = ud;
	struct str word = { 0 };
	int64_t row;

	str_adds(&word, "\"");
	str_add(&word, p->text->p + from, to - from);
	str_adds(&word, "\"");
	p->found = db_find(p->x->db, p->e, &row, "SELECT rowid FROM sentence WHERE sentence MATCH ?1 AND rowid=?2",
	                   "si", word.p, word.n, p->row);
	str_free(&word);
	return 1;
}

/* Check that the index still finds a text, by searching for the first word of the text's middle sentence: FTS5 reports
 * no error for lost rows. 1 = found, 0 = lost, -1 = error. */
static int rows_there(struct passage_index *x, const struct adding *a, struct err *e)
{
	const struct passage_rows *r = a->out;
	const struct sentence *at = &r->at[r->n / 2];
	struct str text = { 0 };
	struct probe p = { .x = x, .text = &text, .row = r->id + (int64_t)(r->n / 2), .e = e, .found = 1 };

	if (r->n && at->from < at->to && at->to <= a->n) {
		words_fold(a->text + at->from, at->to - at->from, &text);
		tokenizer_run(x->words, text.p, text.n, probe_word, &p);
	}
	str_free(&text);
	return p.found;
}

enum { WATCH_EVERY = 256 }; /* sentences between two calls of watch(), about a millisecond */

/* Run the statement sql(row number, prepared text) for each sentence of r. The text is prepared by words_fold().
 * x->watch() is called now and then and may cancel; x may be NULL. Returns 0 or -1. */
static int sentences_write(const struct passage_index *x, struct db *d, const char *sql, const char *text,
                           const struct passage_rows *r, struct err *e)
{
	sqlite3_stmt *st = db_query(d, e, sql, "");
	struct str folded = { 0 };
	int rc = st ? 0 : -1;

	for (size_t i = 0; i < r->n && !rc; i++) {
		if (x && x->watch && i % WATCH_EVERY == 0 && x->watch(r->at[i].from, r->at[r->n - 1].to, x->watch_ud)) {
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

/* Cut the text into sentences, add them to the index, and set a->out. Returns 0 or -1. */
static int rows_add(struct passage_index *x, struct adding *a, struct err *e)
{
	struct passage_rows *r = a->out;
	int64_t next;

	if (db_find(x->db, e, &next, "SELECT coalesce(max(id), 0) FROM passages", "") < 0 ||
	    db_find(x->db, e, &next, "SELECT id + max(n, 1) FROM passages WHERE id=?1 UNION ALL SELECT 1 LIMIT 1", "i",
	            next) < 0)
		return -1;
	r->id = next > 0 && next < INT64_MAX / 2 ? next : 1;
	r->n = sentences_cut(a->text, a->n, &r->at, x->watch, x->watch_ud);
	if (r->n == SIZE_MAX)
		return err_set(e, ERR_CANCELLED, "stopped");
	if (db_run(x->db, e, "INSERT INTO passages(id, n, sum, hash, rows) VALUES(?1, ?2, ?3, ?4, ?5)", "iiibb", r->id,
	           (int64_t)r->n, rows_sum(r->id, (int64_t)r->n, a->hash, r->at, r->n * sizeof *r->at),
	           (const void *)a->hash, sizeof a->hash, (const void *)r->at, r->n * sizeof *r->at))
		return -1;
	return sentences_write(x, x->db, "INSERT INTO sentence(rowid, text) VALUES(?1, ?2)", a->text, r, e);
}

int passage_rows_of(struct passage_index *x, const char *text, size_t n, struct passage_rows *out, struct err *e)
{
	struct adding a = { .text = text, .n = n, .out = out };
	struct err first = { 0 };
	int rc;

	*out = (struct passage_rows){ 0 };
	if (text_hash(text, n, a.hash, e))
		return -1;
	memcpy(out->hash, a.hash, sizeof out->hash);
	for (int tries = 0;; tries++) {
		x->db->code = 0;
		rc = rows_find(x, &a, &first);
		if (rc > 0) {
			int there = rows_there(x, &a, &first);
			if (there > 0)
				return 0;
			rc = there < 0 ? -1 : index_damaged(x, &first);
		}
		if (!rc) {
			if (db_begin(x->db, e))
				return -1;
			/* Query again inside the transaction: another process may have indexed the text meanwhile. */
			rc = rows_find(x, &a, &first);
			if (!db_end(x->db, rc > 0 ? 0 : rc < 0 ? -1 : rows_add(x, &a, &first), &first))
				return 0;
		}
		free(out->at);
		out->at = NULL;
		if (tries || !db_index_damaged(x->db) || db_begin(x->db, e) ||
		    db_end(x->db, passages_empty(x->db, e), e))
			return err_set(e, first.code, "%s", first.msg);
	}
}

/* ---- deleting ---- */

/* Delete one text from the index. st: the text's row in the query of passages_drop_orphans(). FTS5 needs the text
 * to delete it from a contentless table. Returns 0; -1 on error; -2 if the text is lost: then the index must be
 * emptied. */
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
		rc = sentences_write(NULL, d, "INSERT INTO sentence(sentence, rowid, text) VALUES('delete', ?1, ?2)",
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
