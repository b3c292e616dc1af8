/* sessions/store/sentence_search.c - finds the sentences of all indexed texts that share words with a question
 * (store.h).
 *
 * One query for each word finds the sentences with that word. A word in more than SENTENCES_MOST sentences is skipped.
 * This bounds the cost of a search for an index of any size. */
#include "sessions/store/passages.h"

#include <stdlib.h>
#include <string.h>

enum { SENTENCES_MOST = 2000 };

int sentences_add(struct passage_index *x, const char *text, size_t n, int64_t *number, struct err *e)
{
	struct passage_rows rows;

	if (passage_rows_all(x, &(struct indexed_text){ text, n }, 1, &rows, e))
		return -1;
	*number = rows.id;
	return 0;
}

/* ---- sentences with a word ---- */

struct row {
	int64_t row;
	uint64_t has;
};
struct row_list {
	struct row *at;
	size_t n, cap;
};

/* Append the index rows of the sentences that contain word w to *f. `bit` is the word's bit in row.has. Returns 1 if
 * they were appended, 0 if w is too common, -1 on error. */
static int append_matches(struct passage_index *x, const struct question_word *w, uint64_t bit, struct row_list *f,
                          struct err *e)
{
	struct str query = { 0 };
	size_t before = f->n;
	sqlite3_stmt *st;
	int rc;

	str_adds(&query, "\"");
	str_add(&query, w->text, w->n);
	str_adds(&query, "\"");
	st = db_query(x->db, e, "SELECT rowid FROM sentence WHERE sentence MATCH ?1 LIMIT ?2", "si", query.p, query.n,
	              (int64_t)SENTENCES_MOST + 1);
	rc = st ? 1 : -1;
	while (rc > 0 && (rc = db_step(x->db, st, e)) > 0) {
		GROW(f->at, f->n, f->cap);
		f->at[f->n++] = (struct row){ sqlite3_column_int64(st, 0), bit };
	}
	db_put(x->db, st);
	str_free(&query);
	if (rc < 0)
		return -1;
	if (f->n - before <= SENTENCES_MOST)
		return 1;
	f->n = before;
	return 0;
}

static int by_row(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->row < y->row ? -1 : x->row > y->row;
}

/* Sort by row number and merge entries of the same sentence. */
static void rows_merge(struct row_list *f)
{
	size_t n = 0;

	if (f->n)
		qsort(f->at, f->n, sizeof *f->at, by_row);
	for (size_t i = 0; i < f->n; i++) {
		if (n && f->at[n - 1].row == f->at[i].row)
			f->at[n - 1].has |= f->at[i].has;
		else
			f->at[n++] = f->at[i];
	}
	f->n = n;
}

/* ---- texts of the sentences ---- */

/* Load the sentences of the text to which index row `row` belongs. *out is all zero before the first call. Each call
 * frees the sentences of the call before; the caller frees out->at at the end. Returns 1 if they were loaded; *out is
 * empty if the row of the text is damaged. Returns 0 if the row belongs to no text, -1 on error. */
static int text_of(struct passage_index *x, int64_t row, struct passage_rows *out, struct err *e)
{
	sqlite3_stmt *st =
		db_query(x->db, e, "SELECT id, n, sum, hash, rows FROM passages WHERE id<=?1 ORDER BY id DESC LIMIT 1",
	                 "i", row);
	int rc = st ? db_step(x->db, st, e) : -1;

	free(out->at);
	*out = (struct passage_rows){ 0 };
	if (rc > 0 && passage_rows_ok(st))
		passage_rows_copy(st, out);
	db_put(x->db, st);
	return rc;
}

/* Set out[] to the byte ranges of the sentences whose rows are in f, and *n_out to their number. Returns 0 or -1. */
static int rows_place(struct passage_index *x, const struct row_list *f, struct found_sentence *out, size_t *n_out,
                      struct err *e)
{
	struct passage_rows t = { 0 };
	int rc = 0;

	for (size_t i = 0; i < f->n && rc >= 0; i++) {
		int64_t row = f->at[i].row;

		if (!t.at || row < t.id || row >= t.id + (int64_t)t.n)
			rc = text_of(x, row, &t, e);
		if (rc >= 0 && t.at && row >= t.id && row < t.id + (int64_t)t.n) {
			const struct sentence *s = &t.at[row - t.id];
			out[(*n_out)++] = (struct found_sentence){ t.id, s->from, s->to, s->words, f->at[i].has };
		}
	}
	free(t.at);
	return rc < 0 ? -1 : 0;
}

int sentences_find(struct passage_index *x, const char *question, size_t n, struct found_sentence **out, size_t *n_out,
                   uint64_t *words, struct err *e)
{
	struct question_words q;
	struct row_list f = { 0 };
	int rc = 1;

	*out = NULL;
	*n_out = 0;
	*words = 0;
	if (question_words(x->words, question, n, &q))
		rc = err_set(e, ERR_FIT, "cannot search: no memory");
	for (size_t i = 0; i < q.n && rc >= 0; i++) {
		rc = append_matches(x, &q.at[i], (uint64_t)1 << i, &f, e);
		if (rc > 0)
			*words |= (uint64_t)1 << i;
	}
	if (rc >= 0) {
		rows_merge(&f);
		*out = xcalloc(f.n + 1, sizeof **out);
		rc = rows_place(x, &f, *out, n_out, e);
	}
	if (rc < 0) {
		free(*out);
		*out = NULL;
		*n_out = 0;
	}
	free(f.at);
	question_words_free(&q);
	return rc < 0 ? -1 : 0;
}
