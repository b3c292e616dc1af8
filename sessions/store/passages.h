/* sessions/store/passages.h - the index of the sentences of documents, private to sessions/store/.
 *
 *     passage_words.c: tokenizes a text for the index; passage_rows.c: loads and adds texts;
 *     passage_index.c: opens the index, deletes texts, repairs the index;
 *     passage_search.c: finds passages; sentence_search.c: finds sentences in all texts of an index;
 *     passage_vectors.c: stores the vectors of passages.
 *
 * Texts are split into sentences by engine/base/sentences.c. The index is a contentless FTS5 table with one row for
 * each sentence. The sentences of one text have consecutive row numbers, so a search in some texts is a search in
 * ranges of row numbers. Table `passages` stores where each sentence is in its text. */
#ifndef WEIR_SESSIONS_PASSAGES_H
#define WEIR_SESSIONS_PASSAGES_H

#include "engine/base/sentences.h"
#include "sessions/store/store_private.h"

/* ---- passage_words.c ---- */

/* Prepare a text for the index's tokenizer: normalise it (passage_words.c). In scripts without blanks between words,
 * each pair of neighbouring characters becomes a word. Malformed bytes become blanks. Overwrites *out. */
void words_fold(const char *text, size_t n, struct str *out);

struct tokenizer;
int tokenizer_open(struct tokenizer **out, struct db *, struct err *);
void tokenizer_close(struct tokenizer *);
/* Call fn for each word of a text that words_fold() has prepared. The arguments of fn are the word's stem[n] and the
 * word's byte range [from, to) in the text. If fn returns nonzero, stop. Returns 0, or -1 if memory is short. */
typedef int word_fn(const char *stem, size_t n, size_t from, size_t to, void *ud);
int tokenizer_run(struct tokenizer *, const char *text, size_t n, word_fn *, void *ud);

/* Words of a question: the first QUESTION_WORDS distinct words. `text` is the word in the form that words_fold()
 * writes, without double quotes. `stem` is the word in the form that is indexed. */
enum { QUESTION_WORDS = 64 };
struct question_word {
	char *text;
	size_t n;
	char *stem;
	size_t n_stem;
};
struct question_words {
	struct str folded;
	struct question_word at[QUESTION_WORDS];
	size_t n;
};
/* Split a question into words. Returns 0, or -1 if memory is short; the caller frees *out in both cases. */
int question_words(struct tokenizer *, const char *question, size_t n, struct question_words *out);
void question_words_free(struct question_words *);

/* ---- passage_index.c ---- */

/* The sentences of an indexed text. Sentence at[i] is in row id + i of the index. */
struct passage_rows {
	int64_t id;
	size_t n;
	struct sentence *at;
	uint8_t hash[32];
};
/* Sentences of a text that are kept in memory. `round` is the number of the last search that used them. */
struct kept_rows {
	struct passage_rows rows;
	unsigned round;
};

struct passage_index {
	struct db *db; /* the store's database, or &memory if there is no writable store */
	struct db memory;
	struct db *vectors; /* the database with the table of vectors: `db`, or &cache */
	struct db cache;
	struct tokenizer *words;
	indexing_fn *watch;
	void *watch_ud; /* argument for watch(), which may be NULL */
	/* watch_from is the number of bytes that were indexed before the current text. watch_to is the number of bytes
	 * of all new texts of this search. */
	size_t watch_from, watch_to;
	/* The sentences that are kept from the last search. The first n_sorted entries are sorted by hash
	 * (passage_rows.c). `round` is the number of the current search. */
	struct kept_rows *kept;
	size_t n_kept, n_sorted, cap_kept;
	unsigned round;
};

extern const char passage_tables[]; /* SQL that creates the tables; used as a migration */
/* Free the sentences that are kept for the next search. Call this if the index may have lost them. */
void passage_rows_forget(struct passage_index *);
/* Run the statement `sql` for each sentence of `rows`. Its first parameter is the row number; its second parameter is
 * the sentence, prepared by words_fold(). index->watch() is called about every millisecond and may cancel. If `index`
 * is NULL, watch() is not called. Returns 0 or -1. */
int passage_rows_write(const struct passage_index *index, struct db *, const char *sql, const char *text,
                       const struct passage_rows *rows, struct err *);
/* 1 if a row of table passages has its right size and checksum. Columns of st: id, n, sum, hash, rows. */
int passage_rows_ok(sqlite3_stmt *st);
/* Copy the sentences of the row st to *out; out->hash is not changed. The row must have passed passage_rows_ok(). The
 * caller frees out->at. */
void passage_rows_copy(sqlite3_stmt *st, struct passage_rows *out);
/* Compute the checksum of a row of table passages. */
int64_t passage_rows_sum(int64_t id, int64_t n, const void *hash, const void *rows, size_t bytes);
/* Empty the index. Each text is indexed again at its next search. Returns 0 or -1. */
int passages_empty(struct db *, struct err *);
/* Replace the index, whatever its format, by an empty one of the current format. Returns 0 or -1. */
int passages_replace(struct db *, struct err *);
/* Delete the index rows of texts that no document has. Call before deleting these texts, in the same transaction.
 * Returns 0 or -1. */
int passages_drop_orphans(struct db *, struct err *);
/* Check the index. Returns 1 if it is good; 0 if a checksum is wrong; -1 on error, or if FTS5 reports damage. */
int passages_whole(struct db *, struct err *);

/* ---- passage_rows.c ---- */

/* Load the sentences of n texts into rows[n]. New texts are indexed first, in transactions of about a second. If the
 * user stops the indexing, finished transactions stay. rows[].at belongs to the index and is valid until the next call.
 * Returns 0 or -1. */
int passage_rows_all(struct passage_index *, const struct indexed_text *, size_t n, struct passage_rows *rows,
                     struct err *);

/* ---- passage_vectors.c ---- */

extern const char vector_tables[]; /* SQL that creates the table; used as a migration */
/* Delete the passage vectors of texts that no document has any more. Returns 0 or -1. */
int vectors_drop_orphans(struct db *, struct err *);

#endif
