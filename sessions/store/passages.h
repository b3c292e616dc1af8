/* sessions/store/passages.h - inside sessions/: the index that finds the passages of texts which answer a question.
 *
 *     passages.c         cuts a text into sentences and passages
 *     passage_words.c    the words of a text as the index has them
 *     passage_index.c    the index in chat.db or in memory: adding, deleting, repair
 *     passage_search.c   finding passages
 *     sentence_search.c  finding sentences in all texts of an index
 *
 * The index is a full text index without content, a row for each sentence.  The rows of a text are numbered one after the other, so that a
 * search in some texts is a search in some ranges of numbers.  Where a sentence stands in its text says a row of `passages`. */
#ifndef WEIR_SESSIONS_PASSAGES_H
#define WEIR_SESSIONS_PASSAGES_H

#include "sessions/store/store_private.h"

/* ---- passages.c ---- */

enum { SENTENCE_FIRST = 1, SENTENCE_HEADING = 2 };   /* of a passage; or part of a heading */

/* Bytes from .. to of the text, without white space at its ends.  As it stands in the database: 12 bytes. */
struct sentence { uint32_t from, to; uint16_t words, flags; };

/* The sentences of a text, ascending and apart; every byte that is not white space is in one of them.  The first one has SENTENCE_FIRST.
 * Free *out.  SIZE_MAX: watch(0, n), which may be NULL, has ended it. */
size_t sentences_cut(const char *text, size_t n, struct sentence **out, indexing_fn *watch, void *ud);
/* A letter of a script that has no blanks between words: indexed as pairs of letters. */
int script_spaceless(int32_t cp);

/* ---- passage_words.c ---- */

/* The text as the index takes it: letters of scripts without blanks become overlapping pairs, malformed bytes
 * blanks, the rest stays.  *out is overwritten. */
void words_fold(const char *text, size_t n, struct str *out);

struct tokenizer;
int  tokenizer_open(struct tokenizer **out, struct db *, struct err *);
void tokenizer_close(struct tokenizer *);
/* The words of a folded text: the stem, and the bytes from .. to that it was made from.  Not 0 ends it. */
typedef int word_fn(const char *stem, size_t n, size_t from, size_t to, void *ud);
int  tokenizer_run(struct tokenizer *, const char *text, size_t n, word_fn *, void *ud);

/* The distinct words of a question, the first ones: as they stand in it, without a '"', and their stems. */
enum { QUESTION_WORDS = 64 };
struct question_word { char *text; size_t n; char *stem; size_t n_stem; };
struct question_words { struct str folded; struct question_word at[QUESTION_WORDS]; size_t n; };
/* 0, or -1 for want of memory; free *out in both cases. */
int  question_words(struct tokenizer *, const char *question, size_t n, struct question_words *out);
void question_words_free(struct question_words *);

/* ---- passage_index.c ---- */

struct passage_index {
	struct db *db;                 /* the store's, or the one below */
	struct db memory;
	struct tokenizer *words;
	indexing_fn *watch; void *watch_ud;   /* NULL: nobody watches */
};

extern const char passage_tables[];   /* SQL of the migration */
/* The rows of an indexed text. */
struct passage_rows { int64_t id; size_t n; struct sentence *at; uint8_t hash[32]; };
/* Find a text, which is indexed now where it was not.  Free rows->at. */
int  passage_rows_of(struct passage_index *, const char *text, size_t n, struct passage_rows *, struct err *);
/* Forget all: texts are indexed again when they are searched. */
int  passages_empty(struct db *, struct err *);
/* Delete the texts that no document has any more; before their content is deleted, and inside of that transaction. */
int  passages_drop_orphans(struct db *, struct err *);
/* Structure and sums: 1, 0 = damaged, -1. */
int  passages_whole(struct db *, struct err *);

#endif
