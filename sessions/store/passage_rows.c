/* sessions/store/passage_rows.c - loads the sentences of texts from the index, and indexes new texts (passages.h).
 *
 * A session may have thousands of documents, and each question searches all of them. So the sentences that one search
 * has loaded are kept in memory for the next search. Many new texts are indexed in one transaction. */
#include "sessions/store/passages.h"

#include <stdlib.h>
#include <string.h>

/* maximum number of bytes of text that one transaction indexes; this takes about a second */
enum { BATCH_BYTES = 2 << 20 };

/* ---- rows that are kept ---- */

static int by_hash(const void *a, const void *b)
{
	return memcmp(((const struct kept_rows *)a)->rows.hash, ((const struct kept_rows *)b)->rows.hash, 32);
}

/* Return the rows of a text that are kept in memory; NULL = there are none. */
static struct kept_rows *kept_find(struct passage_index *x, const uint8_t hash[32])
{
	struct kept_rows key;

	memcpy(key.rows.hash, hash, sizeof key.rows.hash);
	return x->n_sorted ? bsearch(&key, x->kept, x->n_sorted, sizeof key, by_hash) : NULL;
}

static void kept_put(struct passage_index *x, const struct passage_rows *rows)
{
	GROW(x->kept, x->n_kept, x->cap_kept);
	x->kept[x->n_kept++] = (struct kept_rows){ .rows = *rows, .round = x->round };
}

/* Sort x->kept by hash, after kept_put() has appended rows. If `all` is 0, free the rows that this search did not use,
 * before sorting. */
static void kept_sort(struct passage_index *x, int all)
{
	size_t n = 0;

	for (size_t i = 0; i < x->n_kept; i++)
		if (all || x->kept[i].round == x->round)
			x->kept[n++] = x->kept[i];
		else
			free(x->kept[i].rows.at);
	if (n && (n != x->n_sorted || n != x->n_kept))
		qsort(x->kept, n, sizeof *x->kept, by_hash);
	x->n_kept = x->n_sorted = n;
}

/* ---- loading ---- */

static int index_damaged(struct passage_index *x, struct err *e)
{
	x->db->code = SQLITE_CORRUPT;
	return err_set(e, ERR_FAIL, "the index of documents is damaged");
}

void passage_rows_copy(sqlite3_stmt *st, struct passage_rows *out)
{
	size_t bytes;
	const void *rows = db_bytes(st, 4, 1, &bytes);

	out->id = sqlite3_column_int64(st, 0);
	out->n = bytes / sizeof *out->at;
	out->at = xmalloc(bytes + 1);
	memcpy(out->at, rows, bytes);
}

/* Read the sentences of the text with the hash out->hash. Returns 1 with the sentences in *out; 0 if the text is not
 * indexed; -1 on error, and db_index_damaged() then tells whether the index is damaged. */
static int rows_find(struct passage_index *x, struct passage_rows *out, struct err *e)
{
	sqlite3_stmt *st = db_query(x->db, e, "SELECT id, n, sum, hash, rows FROM passages WHERE hash=?1", "b",
	                            (const void *)out->hash, sizeof out->hash);
	int rc = st ? db_step(x->db, st, e) : -1;

	if (rc > 0 && !passage_rows_ok(st)) {
		rc = index_damaged(x, e);
	} else if (rc > 0) {
		passage_rows_copy(st, out);
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

/* Check that the index still finds a text, because FTS5 reports no error for lost rows. To do this, search for the
 * first word of the text's middle sentence. Returns 1 if it is found, 0 if it is lost, -1 on error. */
static int rows_there(struct passage_index *x, const struct indexed_text *t, const struct passage_rows *r,
                      struct err *e)
{
	const struct sentence *at = &r->at[r->n / 2];
	struct str text = { 0 };
	struct probe p = { .x = x, .text = &text, .row = r->id + (int64_t)(r->n / 2), .e = e, .found = 1 };

	if (r->n && at->from < at->to && at->to <= t->n) {
		words_fold(t->p + at->from, at->to - at->from, &text);
		tokenizer_run(x->words, text.p, text.n, probe_word, &p);
	}
	str_free(&text);
	return p.found;
}

/* Load the sentences of a text. Returns 1 with the sentences in *out; 0 if the text is not indexed; -1 on error. */
static int rows_load(struct passage_index *x, const struct indexed_text *t, struct passage_rows *out, struct err *e)
{
	struct kept_rows *kept;
	int rc, there;

	*out = (struct passage_rows){ 0 };
	if (text_hash(t->p, t->n, out->hash, e))
		return -1;
	kept = kept_find(x, out->hash);
	if (kept) {
		kept->round = x->round;
		*out = kept->rows;
		return 1;
	}
	rc = rows_find(x, out, e);
	there = rc > 0 ? rows_there(x, t, out, e) : 1;
	if (there <= 0) {
		free(out->at);
		return there < 0 ? -1 : index_damaged(x, e);
	}
	if (rc > 0)
		kept_put(x, out);
	return rc;
}

/* ---- adding ---- */

static int on_cutting(void *ud)
{
	struct passage_index *x = ud;

	return x->watch && x->watch(x->watch_from, x->watch_to, x->watch_ud);
}

/* Split the text with the hash r->hash into sentences, add them to the index, and set *r. Returns 0 or -1. */
static int rows_add(struct passage_index *x, const struct indexed_text *t, struct passage_rows *r, struct err *e)
{
	int64_t next;

	if (db_find(x->db, e, &next, "SELECT coalesce(max(id), 0) FROM passages", "") < 0 ||
	    db_find(x->db, e, &next, "SELECT id + max(n, 1) FROM passages WHERE id=?1 UNION ALL SELECT 1 LIMIT 1", "i",
	            next) < 0)
		return -1;
	r->id = next > 0 && next < INT64_MAX / 2 ? next : 1;
	r->n = sentences_cut(t->p, t->n, &r->at, on_cutting, x);
	if (r->n == SIZE_MAX)
		return err_set(e, ERR_CANCELLED, "stopped");
	if (db_run(x->db, e, "INSERT INTO passages(id, n, sum, hash, rows) VALUES(?1, ?2, ?3, ?4, ?5)", "iiibb", r->id,
	           (int64_t)r->n, passage_rows_sum(r->id, (int64_t)r->n, r->hash, r->at, r->n * sizeof *r->at),
	           (const void *)r->hash, sizeof r->hash, (const void *)r->at, r->n * sizeof *r->at))
		return -1;
	return passage_rows_write(x, x->db, "INSERT INTO sentence(rowid, text) VALUES(?1, ?2)", t->p, r, e);
}

/* The new texts to be indexed are text[missing[0]] to text[missing[n - 1]]. `at` is the number of them that are indexed
 * already. */
struct adding {
	const struct indexed_text *text;
	struct passage_rows *rows;
	size_t *missing, at, n;
};

/* Index the next texts in one transaction. Returns 0; or -1, and then none of these texts is indexed. */
static int batch_add(struct passage_index *x, struct adding *a, struct err *e)
{
	size_t first = a->at, bytes = 0;
	int rc;

	if (db_begin(x->db, e))
		return -1;
	for (rc = 0; !rc && a->at < a->n && bytes < BATCH_BYTES; a->at++) {
		size_t i = a->missing[a->at];

		/* look for the text again inside the transaction, because another process may have indexed it
		 * meanwhile */
		rc = rows_find(x, &a->rows[i], e);
		rc = rc > 0 ? 0 : rc < 0 ? -1 : rows_add(x, &a->text[i], &a->rows[i], e);
		bytes += a->text[i].n + 1;
		x->watch_from += a->text[i].n;
	}
	rc = db_end(x->db, rc, e);
	for (; first < a->at; first++) {
		struct passage_rows *r = &a->rows[a->missing[first]];

		if (rc)
			free(r->at);
		else
			kept_put(x, r);
	}
	return rc;
}

static int load_all(struct passage_index *x, const struct indexed_text *text, size_t n, struct passage_rows *rows,
                    struct err *e)
{
	struct adding a = { .text = text, .rows = rows, .missing = xcalloc(n + 1, sizeof *a.missing) };
	int rc = 0;

	x->round++;
	x->watch_from = x->watch_to = 0;
	for (size_t i = 0; i < n && rc >= 0; i++) {
		rc = rows_load(x, &text[i], &rows[i], e);
		if (!rc) {
			a.missing[a.n++] = i;
			x->watch_to += text[i].n;
		}
	}
	rc = rc < 0 ? -1 : 0;
	while (!rc && a.at < a.n)
		rc = batch_add(x, &a, e);
	kept_sort(x, rc);
	free(a.missing);
	return rc;
}

int passage_rows_all(struct passage_index *x, const struct indexed_text *text, size_t n, struct passage_rows *rows,
                     struct err *e)
{
	struct err first = { 0 };

	for (int tries = 0;; tries++) {
		x->db->code = 0;
		if (!load_all(x, text, n, rows, &first))
			return 0;
		if (tries || !db_index_damaged(x->db) || db_begin(x->db, e) ||
		    db_end(x->db, passages_empty(x->db, e), e))
			return err_set(e, first.code, "%s", first.msg);
		passage_rows_forget(x);
	}
}
