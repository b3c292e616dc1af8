/* engine/policies/predictor.h (private to engine/) - the network of `predict` (AttentionPredictor): it predicts which
 * blocks of KV entries the next token will attend to, from the attention of the tokens before.
 *
 * Its input is an image of one KV head. A row is one of the last H tokens, the oldest first; a column is a block of
 * KV entries; a pixel is the largest probability that the token gave to an entry of the block. Outside of the image
 * are zeros. The published network (arXiv 2502.04077), with the mean over the rows as in its code:
 *
 *     3 x 3 convolution, 1 to 16 channels, ReLU         160 weights
 *     3 x 3 convolution, 16 to 32 channels, ReLU      4,640
 *     mean over the rows, 32 channels to 1               33
 *
 * One network serves all layers and heads of a model. Its output predicts the next row; only the order of the values
 * matters.
 *
 * Incremental runs: the last two steps are linear, so each row's share of the output is kept (attn_image.r). A new
 * row changes the shares of the two oldest rows and the three newest, which are at an edge or next to the new row. A
 * wider image changes the last columns. An element is always computed in the same order, so kept shares equal those
 * of a run over the whole image, bit for bit. */
#ifndef WEIR_PREDICTOR_H
#define WEIR_PREDICTOR_H

#include "engine/engine.h"
#include "kernels/backend.h"

enum { PREDICTOR_INNER = 16, PREDICTOR_OUTER = 32, PREDICTOR_WEIGHTS = 4833, PREDICTOR_ROWS = 64 };

struct predictor {
	/* [dy][dx][16]; dy, dx = 0: the row above, the column to the left */
	float w1[9 * PREDICTOR_INNER], b1[PREDICTOR_INNER];
	float w2[9 * PREDICTOR_INNER * PREDICTOR_OUTER], b2[PREDICTOR_OUTER]; /* [dy][dx][16][32] */
	float w3[PREDICTOR_OUTER], b3[1];
};
_Static_assert(sizeof(struct predictor) == PREDICTOR_WEIGHTS * sizeof(float), "weights are one array");

/* The history of one KV head: the attention that its last tokens gave to each block. */
struct attn_image {
	int32_t rows, cap; /* rows: H; cap: room for columns */
	/* [rows][cap] rings of rows. a: the image; r: each pixel's share of the output, times H. */
	float *a, *r;
	int32_t first;    /* ring index of the oldest row */
	int32_t fresh;    /* rows added since r was computed; `rows`: r is invalid */
	int32_t from, to; /* r was computed for an image of exactly these columns */
};

/* Set up an empty image. a and r [rows][cap] are zeroed memory that the caller owns. */
void attn_image_init(struct attn_image *, float *a, float *r, int32_t rows, int32_t cap);
/* Set the first n columns of the image to 0. No column after them may be in use. */
void attn_image_clear(struct attn_image *, int32_t n);
/* Replace the oldest row by a new one. Returns it; the caller fills all `cap` columns. */
float *attn_image_push(struct attn_image *);
/* Row i, 0 = the oldest. Call attn_image_changed() after changing it. */
static inline float *attn_image_row(const struct attn_image *m, int32_t i)
{
	return m->a + (size_t)((m->first + i) % m->rows) * (size_t)m->cap;
}
static inline void attn_image_changed(struct attn_image *m)
{
	m->fresh = m->rows;
}

/* ---- files (predictor_file.c) ---- */

/* The examples that a network is trained for. */
struct predictor_key {
	uint64_t fingerprint; /* fingerprint of the model (hparams.h) */
	int32_t block, rows;  /* KV entries of a block; rows of an image */
};
/* Read the network from the user's file, else from the installed one. ERR_USAGE, with the command that trains a network:
 * there is neither; ERR_FAIL: the file is damaged. */
int predictor_find(struct predictor *, const struct predictor_key *, struct err *);
/* Check the bytes of a file, whose path is for the error sentence, and copy the network out of them. */
int predictor_parse(struct predictor *, const struct predictor_key *, const void *bytes, size_t n, const char *path,
                    struct err *);
/* Replace the user's file. Appends its path to *path. */
int predictor_save(const struct predictor *, const struct predictor_key *, struct str *path, struct err *);

/* ---- the forward pass ---- */

/* out[to - from] = the prediction for an image of columns from .. to; to > from. */
void predictor_run(const struct predictor *, struct backend *, struct attn_image *, int32_t from, int32_t to,
                   float *out);

#endif
