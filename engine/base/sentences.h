/* engine/base/sentences.h - cuts text into sentences and passages, in all scripts.
 *
 * All users share one rule for the end of a sentence: the search of documents, evidence, summaries, surprise. */
#ifndef WEIR_SENTENCES_H
#define WEIR_SENTENCES_H

#include <stddef.h>
#include <stdint.h>

/* flags: first sentence of a passage; sentence is part of a heading */
enum { SENTENCE_FIRST = 1, SENTENCE_HEADING = 2 };

/* A sentence: bytes from .. to of the text, without white space at both ends. 12 bytes, stored in chat.db in this
 * layout. */
struct sentence {
	uint32_t from, to;
	uint16_t words, flags;
};
/* Progress callback: `done` of `total` bytes are cut. Nonzero cancels. */
typedef int sentences_watch_fn(size_t done, size_t total, void *ud);
/* Cut a text into sentences: ascending, without overlap, covering all bytes except white space. The first sentence
 * has SENTENCE_FIRST. watch may be NULL. Returns the number of sentences, and SIZE_MAX if watch() cancelled; the
 * caller frees *out. */
size_t sentences_cut(const char *text, size_t n, struct sentence **out, sentences_watch_fn *watch, void *ud);

/* A passage: bytes from .. to of the text, without white space at both ends. */
struct passage {
	size_t from, to;
};
/* Cut a text into the passages that the search indexes: each begins at a sentence with SENTENCE_FIRST. Returns the
 * number of passages; the caller frees *out. */
size_t passages_cut(const char *text, size_t n, struct passage **out);

/* 1 if a sentence ends immediately before byte `at`: before a blank or the end of the text, or after the full stop
 * of a script that writes no blank after it. */
int sentence_ends(const char *text, size_t n, size_t at);

/* Units of text that end at a place. A larger value is a better place to cut. */
enum text_break { BREAK_NONE, BREAK_CHAR, BREAK_WORD, BREAK_LINE, BREAK_SENTENCE, BREAK_PARAGRAPH };
/* Return the largest unit that ends before byte `at`, 0 < at < n. BREAK_CHAR if white space is at `at`, BREAK_NONE
 * if `at` is inside a character. */
enum text_break text_break(const char *text, size_t n, size_t at);

/* 1 if cp is a letter of a script without blanks between words. */
int script_spaceless(int32_t cp);

#endif
