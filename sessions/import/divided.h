/* sessions/import/divided.h (private to divided.c and pdf.c) - the words of a text, to tell whether a hyphen at the end
 * of a line divides a word. */
#ifndef WEIR_DIVIDED_H
#define WEIR_DIVIDED_H

#include "sessions/import/import_private.h"

/* Hashes of the words of the text, sorted for binary search. A hash table would be slow for a hostile text that puts
 * all its words into one bucket. */
struct words_known {
	uint64_t *hash;
	size_t n, cap;
};
/* Hash a word; the case of ASCII letters does not count. If h is 0, begin a new hash. Otherwise h is the hash of the
 * beginning of the word, and a[n] continues the word. */
uint64_t word_hash(uint64_t h, const char *a, size_t n);
/* word_before() returns the number of letters that directly precede p[at]. word_after() returns the number of letters
 * at the beginning of p[0..n). Both return at most 64. */
size_t word_before(const char *p, size_t at);
size_t word_after(const char *p, size_t n);
void words_know(struct words_known *, uint64_t hash);
void words_sort(struct words_known *); /* must be called after the last words_know() */
/* 1 if the word with hash h occurs in the text at least `times` times. */
int words_have(const struct words_known *, uint64_t h, size_t times);

#endif
