/* engine/token/unicode_data_bert.h (private to engine/token) - what BERT's basic tokenizer does with each code point. */
#ifndef WEIR_UNICODE_DATA_BERT_H
#define WEIR_UNICODE_DATA_BERT_H

#include <stdint.h>

enum bert_class {
	BERT_KEEP,
	BERT_DROP,      /* control, format and private-use characters, and U+FFFD */
	BERT_SPACE,     /* ends a word */
	BERT_IDEOGRAPH, /* Chinese character (also in Japanese text): a word by itself */
	BERT_PUNCT,     /* punctuation mark: a word by itself */
};

/* [n_bert_class_run], generated: ranges of code points of one class, ascending. An element is (first code point << 8) |
 * enum bert_class. */
extern const uint32_t bert_class_run[];
extern const uint32_t n_bert_class_run;

/* A group of `count` code points: first, first + step, and so on. Each code point c is replaced by c + delta. If delta
 * is 0, these code points are removed. */
struct bert_run {
	int32_t first, count, step, delta;
};
/* The code point `from` is replaced by the two or three code points in to[]. If it is replaced by two, to[2] is 0. */
struct bert_long {
	int32_t from, to[3];
};
/* A mapping of code points. run[] has the code points that are removed or replaced by one code point; longer[] has the
 * code points that are replaced by two or three. Both arrays are in ascending order. All other code points are not
 * changed. */
struct bert_map {
	const struct bert_run *run;
	const struct bert_long *longer;
	uint32_t n_run, n_longer;
};
/* bert_strip removes accents: it decomposes characters and drops non-spacing marks. It has no Hangul syllables, because
 * strip_accents() decomposes these by a formula. bert_lower converts characters to lower case. */
extern const struct bert_map bert_strip;
extern const struct bert_map bert_lower;

#endif
