/* engine/token/unicode_data_bert.h (private to engine/token) - what BERT's basic tokenizer does with each code point. */
#ifndef WEIR_UNICODE_DATA_BERT_H
#define WEIR_UNICODE_DATA_BERT_H

#include <stdint.h>

enum bert_class {
	BERT_KEEP,
	BERT_DROP,      /* control, format and private characters, U+FFFD */
	BERT_SPACE,     /* ends a word */
	BERT_IDEOGRAPH, /* a word by itself: Chinese characters, also of Japanese */
	BERT_PUNCT,     /* a word by itself */
};

/* Generated: ascending, first code point << 8 | class. */
extern const uint32_t bert_class_run[];
extern const uint32_t n_bert_class_run;

/* A group of `count` code points: `first`, first + step, and so on. Each is replaced by itself + delta, or removed if
 * delta = 0. */
struct bert_run {
	int32_t first, count, step, delta;
};
/* A code point that becomes two or three, 0 at the end. */
struct bert_long {
	int32_t from, to[3];
};
/* A mapping of code points; both lists ascending. */
struct bert_map {
	const struct bert_run *run;
	const struct bert_long *longer;
	uint32_t n_run, n_longer;
};
/* bert_strip removes accents: it decomposes characters and drops non-spacing marks. Hangul syllables are not in it,
 * because a formula decomposes them. */
extern const struct bert_map bert_strip;
extern const struct bert_map bert_lower;

#endif
