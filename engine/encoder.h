/* engine/encoder.h - text encoders: models that turn a text into a vector. Texts of similar meaning get vectors of
 * high cosine similarity.
 *
 * An encoder may be used by one thread at a time. */
#ifndef WEIR_ENGINE_ENCODER_H
#define WEIR_ENGINE_ENCODER_H

#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/base.h"

struct encoder;

struct encoder_text {
	const int32_t *id;
	int32_t n;      /* number of tokens, from 1 to encoder_longest() */
	int32_t second; /* for a pair of texts: index of the first token of the second text; else 0 */
};

/* Load an encoder from a GGUF file. `device` is "cpu", "cuda", or "auto": CUDA if it can be opened, else the CPU. NULL
 * means "auto". `threads` is the number of CPU threads; 0 means one per available core. Return 0; or -1, and then *out
 * is NULL. */
int encoder_open(struct encoder **out, const char *path, const char *device, int threads, struct err *);
void encoder_close(struct encoder *); /* the encoder may be NULL */
/* What kind of encoder a file contains. `ranks` is 1 for a reranker, which encoder_reader_open() accepts. */
struct encoder_look {
	char family[16];
	int32_t dims;
	int ranks;
};
/* Try to load a file on the CPU, and then close it. Return 1 if it could be loaded, 0 if the model is not an encoder
 * (its weights were then not loaded), -1 on error. */
int encoder_look(const char *path, struct encoder_look *out, struct err *);
int32_t encoder_dims(const struct encoder *);
/* Return the largest number of tokens that a text may have. */
int32_t encoder_longest(const struct encoder *);
/* Compute out [n][encoder_dims()]: one vector of length 1 per text. The token ids must include special tokens and the
 * model's prefix ("query: "). On the CPU, a text's vector does not depend on the other texts of the call. Return 0, or
 * -1 on error or when *cancel becomes nonzero; out is then undefined. cancel may be NULL. */
int encoder_embed(struct encoder *, const struct encoder_text *text, int32_t n, float *out, const atomic_int *cancel,
                  struct err *);

/* Each text is either a search query or a passage to be found. Many models expect a different prefix for each kind.
 * ENCODER_QUERY_ADAPTED is a query for which the adapter for queries is used, if encoder_reader_open() has loaded
 * one. */
enum encoder_side { ENCODER_QUERY, ENCODER_PASSAGE, ENCODER_QUERY_ADAPTED, ENCODER_SIDES };
struct encoder_string {
	const char *p;
	size_t n;
};
/* Compute vectors in the way of encoder_embed(), but from plain text: add the model's prefix to each text, and tokenize
 * it. A text with more than encoder_longest() tokens is truncated. */
int encoder_texts(struct encoder *, enum encoder_side, const struct encoder_string *text, int32_t n, float *out,
                  const atomic_int *cancel, struct err *);
/* Return a hash of the model file and its prefixes. Store it with vectors: vectors of different models cannot be
 * compared. */
uint64_t encoder_id(const struct encoder *);

/* ---- reading a passage for a question ---- */

/* An encoder has up to two readers: READER_ENGLISH for English questions alone, READER_ANY for questions in every
 * language. */
enum encoder_reader_for { READER_ANY, READER_ENGLISH, READERS };
/* Load a reader, which reads a passage together with a question. The file is either a complete model (a reranker, or a
 * reranker that also finds answers), or an adapter for this encoder, which can only be READER_ANY. An adapter file may
 * have a second adapter, which encoder_texts() then uses for the vectors of queries. Return 0, or -1 with no such
 * reader loaded. Call it at most once for each kind of reader. */
int encoder_reader_open(struct encoder *, enum encoder_reader_for, const char *path, struct err *);
/* The members that encoder_read() sets. READS_NOT: none, because no such reader is loaded. READS_SCORES: only `score`,
 * which ranks passages but is no probability; `from` and `to` are 0. READS_ANSWERS: all members of struct
 * encoder_answer. */
enum encoder_reading { READS_NOT, READS_SCORES, READS_ANSWERS };
enum encoder_reading encoder_reads(const struct encoder *, enum encoder_reader_for);
struct encoder_answer {
	double score; /* log odds that the passage answers the question */
	/* The words of the passage that answer the question best: they begin at byte `from` and end before byte `to`.
	 * They are set even if `score` says that the passage does not answer the question. */
	size_t from, to;
};
/* Read each of the n passages together with the question, and fill out[0 .. n). This reader must be loaded. It sees at
 * most 48 tokens of the question, and at most 256 tokens of question and passage together, special tokens included. On
 * the CPU, the result for a passage does not depend on the other passages of the call. Return 0, or -1 on error or when
 * *cancel becomes nonzero. cancel may be NULL. */
int encoder_read(struct encoder *, enum encoder_reader_for, struct encoder_string question,
                 const struct encoder_string *passage, int32_t n, struct encoder_answer *out, const atomic_int *cancel,
                 struct err *);

#endif
