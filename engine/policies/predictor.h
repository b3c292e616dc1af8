/* engine/policies/predictor.h (private to engine/) - the network of the policy `predict` (AttentionPredictor, arXiv
 * 2502.04077). From the attention of earlier tokens it predicts to which blocks of KV entries the next token will
 * attend.
 *
 * Its input is an "image" of one KV head. A row is one of the last tokens (setting `rows`), the oldest first. A column
 * is a block of KV entries. A pixel is the largest probability that the token gave to an entry of the block. Pixels
 * outside of the image count as 0.
 *
 * The layers, with 4,833 weights in all:
 * - a 3 x 3 convolution from 1 to 16 channels, with ReLU;
 * - a 3 x 3 convolution from 16 to 32 channels, with ReLU;
 * - the mean over the rows, with a linear map from 32 channels to 1.
 *
 * The output is one value per column, for comparison with the other columns. One network serves all layers and heads of
 * a model. */
#ifndef WEIR_PREDICTOR_H
#define WEIR_PREDICTOR_H

#include "engine/engine.h"
#include "kernels/backend.h"

enum { PREDICTOR_INNER = 16, PREDICTOR_OUTER = 32, PREDICTOR_WEIGHTS = 4833 };

struct predictor {
	/* [dy][dx][16]; dy = 0 is the row above, dx = 0 the column to the left */
	float w1[9 * PREDICTOR_INNER], b1[PREDICTOR_INNER];
	float w2[9 * PREDICTOR_INNER * PREDICTOR_OUTER], b2[PREDICTOR_OUTER]; /* [dy][dx][16][32] */
	float w3[PREDICTOR_OUTER], b3[1];
};
_Static_assert(sizeof(struct predictor) == PREDICTOR_WEIGHTS * sizeof(float), "weights are one array");

/* The image of one KV head: the attention that its last tokens gave to each block. r has the network's value for each
 * row and column, before the mean over the rows. These values are stored and used again. A changed pixel changes only
 * values at most two rows and two columns away, because there are two 3 x 3 convolutions. So a new row changes r in the
 * three newest rows; dropping the oldest row changes r in the next two rows; a new column changes r in the last
 * columns. The result has the same bits as a complete run. */
struct attn_image {
	int32_t rows, cap; /* rows: number of tokens in the image; cap: maximum number of columns */
	/* [rows][cap] ring buffers of rows. a: the image; r: the network's values before the mean over the rows */
	float *a, *r;
	int32_t first;    /* ring index of the oldest row */
	int32_t fresh;    /* number of rows added since r was computed; if it equals `rows`, nothing in r is valid */
	int32_t from, to; /* columns from .. to - 1 of the image for which r was computed */
};

/* Set up an empty image. a, r: zeroed memory [rows][cols] of the image; the caller owns it. */
void attn_image_init(struct attn_image *, float *a, float *r, int32_t rows, int32_t cap);
/* Set the first n columns of the image to 0. Later columns must be unused. */
void attn_image_clear(struct attn_image *, int32_t n);
/* Replace the oldest row by a new one. Return the new row; the caller fills all `cap` columns. */
float *attn_image_push(struct attn_image *);
/* Return row i, 0 = the oldest. After changing it, call attn_image_changed(). */
static inline float *attn_image_row(const struct attn_image *m, int32_t i)
{
	return m->a + (size_t)((m->first + i) % m->rows) * (size_t)m->cap;
}
static inline void attn_image_changed(struct attn_image *m)
{
	m->fresh = m->rows;
}

/* ---- files (predictor_file.c) ---- */

/* What a network is trained for. Files of networks with another key are not used. */
struct predictor_key {
	uint64_t fingerprint; /* fingerprint of the model (hparams.h) */
	int32_t block, rows;  /* block: KV entries per block; rows: rows of an image */
};
/* Read the network from the user's file or, if there is none, from the installed file. ERR_USAGE: there is no file at
 * all; the message names the command that trains a network. ERR_FAIL: the file is damaged. */
int predictor_find(struct predictor *, const struct predictor_key *, struct err *);
/* Check bytes[0 .. n), the contents of a file, and copy the network out of them. path: name of the file for the error
 * message. */
int predictor_parse(struct predictor *, const struct predictor_key *, const void *bytes, size_t n, const char *path,
                    struct err *);
/* Replace the user's file. Appends its path to *path. */
int predictor_save(const struct predictor *, const struct predictor_key *, struct str *path, struct err *);

/* ---- the forward pass ---- */

/* Predict columns from .. to - 1 of the image (from < to). out[i], i < to - from: prediction for column from + i. */
void predictor_run(const struct predictor *, struct backend *, struct attn_image *, int32_t from, int32_t to,
                   float *out);

#endif
