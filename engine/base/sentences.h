/* engine/base/sentences.h - where sentences and passages of a text end, in all scripts.
 *
 * A sentence ends in the same place for all that asks: the search of documents, evidence, summaries, surprise. */
#ifndef WEIR_SENTENCES_H
#define WEIR_SENTENCES_H

#include <stddef.h>
#include <stdint.h>

enum { SENTENCE_FIRST = 1, SENTENCE_HEADING = 2 }; /* first sentence of a passage; part of a heading */

/* Bytes from .. to of the text, without white space at its ends.  12 bytes, stored in chat.db as they are. */
struct sentence {
	uint32_t from, to;
	uint16_t words, flags;
};
/* Progress: `done` of `total` bytes.  Nonzero cancels. */
typedef int sentences_watch_fn(size_t done, size_t total, void *ud);
/* Cut a text into sentences: ascending, not overlapping, together all bytes but white space.  The first one has
 * SENTENCE_FIRST. Returns their number; the caller frees *out.  SIZE_MAX: watch(0, n) returned nonzero (watch may
 * be NULL). */
size_t sentences_cut(const char *text, size_t n, struct sentence **out, sentences_watch_fn *watch, void *ud);

/* Bytes from .. to of the text, without white space at its ends. */
struct passage {
	size_t from, to;
};
/* Cut a text into passages, which begin at the sentences with SENTENCE_FIRST: those that the search finds.  Returns
 * their number; the caller frees *out. */
size_t passages_cut(const char *text, size_t n, struct passage **out);

/* 1 if a sentence ends in front of byte `at`: in front of a blank or the end of the text, or behind the full stop of a
 * script that writes no blank after it. */
int sentence_ends(const char *text, size_t n, size_t at);

/* What ends between two bytes of a text; the larger, the better a text is cut there. */
enum text_break { BREAK_NONE, BREAK_CHAR, BREAK_WORD, BREAK_LINE, BREAK_SENTENCE, BREAK_PARAGRAPH };
/* What ends in front of byte `at`, 0 < at < n, which does not begin with white space (else BREAK_CHAR).  BREAK_NONE:
 * `at` is inside of a character. */
enum text_break text_break(const char *text, size_t n, size_t at);

/* 1 if cp is a letter of a script without blanks between words. */
int script_spaceless(int32_t cp);

#endif
