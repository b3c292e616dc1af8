/* engine/encoder.h - text encoders for all rooms above engine/: models that turn a text into one vector, so that texts
 * of like meaning have vectors with a high cosine.
 *
 * Texts are token ids, with the special tokens and the prefix ("query: ") that the model wants. One thread at a time
 * uses an encoder. */
#ifndef WEIR_ENGINE_ENCODER_H
#define WEIR_ENGINE_ENCODER_H

#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/base.h"

struct encoder;

struct encoder_text {
	const int32_t *id;
	int32_t n; /* 1 or more, at most encoder_longest() */
};

/* Load an encoder from a GGUF file. device: "cpu", "cuda", or "auto" (NULL): CUDA if it opens, else the CPU. threads: 0 =
 * one per available core. Return 0, or -1 with *out NULL. */
int encoder_open(struct encoder **out, const char *path, const char *device, int threads, struct err *);
void encoder_close(struct encoder *); /* NULL is allowed */
int32_t encoder_dims(const struct encoder *);
/* Return the most tokens of a text. */
int32_t encoder_longest(const struct encoder *);
/* Compute out [n][dims], the vectors of n texts, each of length 1. A text's vector does not depend on the other texts of
 * the call, on the CPU to the bit. Return 0; on error, or once *cancel is not 0, return -1, with out undefined. cancel
 * may be NULL. */
int encoder_embed(struct encoder *, const struct encoder_text *text, int32_t n, float *out, const atomic_int *cancel,
                  struct err *);

/* What a text is for: a question that searches, or a passage that is found. Models know them by different prefixes. */
enum encoder_side { ENCODER_QUERY, ENCODER_PASSAGE };
struct encoder_string {
	const char *p;
	size_t n;
};
/* Compute the vectors of plain texts, as encoder_embed(). Text behind the most tokens that the encoder reads is
 * ignored. */
int encoder_texts(struct encoder *, enum encoder_side, const struct encoder_string *text, int32_t n, float *out,
                  const atomic_int *cancel, struct err *);
/* Return a number that identifies the file: vectors of different encoders are not comparable. */
uint64_t encoder_id(const struct encoder *);

#endif
