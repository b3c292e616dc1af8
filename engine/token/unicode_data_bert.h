/* engine/token/unicode_data_bert.h (private to engine/token) - what BERT's basic tokenizer does with each code point. */
#ifndef WEIR_UNICODE_DATA_BERT_H
#define WEIR_UNICODE_DATA_BERT_H

#include <stdint.h>

enum bert_class {
	BERT_KEEP,
	BERT_DROP,      /* control, format and private characters, U+FFFD */
	BERT_SPACE,     /* ends a word */
	BERT_IDEOGRAPH, /* a word by itself: Chinese characters, in Japanese text as well */
	BERT_PUNCT,     /* a word by itself */
};

/* [n_bert_class_run], generated: ranges of code points of one class, ascending. An element is (first code point << 8) |
 * enum bert_class. */
extern const uint32_t bert_class_run[];
extern const uint32_t n_bert_class_run;

/* A group of `count` code points: first, first + step, and so on. Each is replaced by itself + delta. delta = 0: it is
 * removed. */
struct bert_run {
	int32_t first, count, step, delta;
};
/* A code point `from` that is replaced by two or three code points; to[2] = 0 if by two. */
struct bert_long {
	int32_t from, to[3];
};
/* A mapping of code points: run[n_run] and longer[n_longer], both ascending. A code point in neither stays as it is. */
struct bert_map {
	const struct bert_run *run;
	const struct bert_long *longer;
	uint32_t n_run, n_longer;
};
/* bert_strip removes accents: it decomposes characters and drops non-spacing marks. It lacks Hangul syllables, which
 * strip_accents() decomposes by a formula. bert_lower lower-cases. */
extern const struct bert_map bert_strip;
extern const struct bert_map bert_lower;

#endif
