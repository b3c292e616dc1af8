/* engine/base/sentences.h - splits text into sentences and passages, in all scripts.
 *
 * Document search, evidence for answers, and summaries all use this one rule for where a sentence ends. */
#ifndef WEIR_SENTENCES_H
#define WEIR_SENTENCES_H

#include <stddef.h>
#include <stdint.h>

/* Flags of a sentence: it is the first sentence of a passage; it is part of a heading. */
enum { SENTENCE_FIRST = 1, SENTENCE_HEADING = 2 };

/* A sentence: bytes [from, to) of the text, without white space at both ends. `words` is the number of its words, and
 * `flags` has SENTENCE_... flags. The database chat.db stores these 12 bytes as they are. */
struct sentence {
	uint32_t from, to;
	uint16_t words, flags;
};
/* A function that sentences_cut() calls from time to time. If it returns nonzero, sentences_cut() is cancelled. */
typedef int sentences_watch_fn(void *ud);
/* Split a text into sentences, in the order of the text. No sentence has parts of a border, which is a line of the
 * signs -=+|:_~* and of characters that draw boxes. The first sentence has the flag SENTENCE_FIRST. watch may be NULL.
 * Return the number of sentences, or SIZE_MAX if watch() cancelled. The caller frees *out. */
size_t sentences_cut(const char *text, size_t n, struct sentence **out, sentences_watch_fn *watch, void *ud);

/* A passage, which is some consecutive sentences: bytes [from, to) of the text, without white space at both ends. */
struct passage {
	size_t from, to;
};
/* Split a text into passages, the units that document search indexes. A passage begins with a sentence that has the
 * flag SENTENCE_FIRST, and ends before the next such sentence. Return the number of passages. The caller frees *out. */
size_t passages_cut(const char *text, size_t n, struct passage **out);

/* 1 if a sentence ends directly before byte `at`. A blank or the end of the text must follow, except in scripts that
 * write no blank after a full stop. */
int sentence_ends(const char *text, size_t n, size_t at);

/* Units of text, from small to large. The best place to split a text is where the largest unit ends. */
enum text_break { BREAK_NONE, BREAK_CHAR, BREAK_WORD, BREAK_LINE, BREAK_SENTENCE, BREAK_PARAGRAPH };
/* Return the largest unit of text that ends directly before byte `at`, 0 < at < n. Before a white space byte the result
 * is always BREAK_CHAR, and inside a character BREAK_NONE. */
enum text_break text_break(const char *text, size_t n, size_t at);

/* If a line that is a border begins at p[at], return its end. If p[at] is a character that draws boxes, return the
 * offset after this character. Otherwise return `at`. */
size_t box_skip(const char *p, size_t n, size_t at);

/* 1 if cp is a letter of a script without blanks between words. */
int script_spaceless(int32_t cp);

#endif
