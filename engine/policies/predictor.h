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

/* The image of one KV head: the attention of the last tokens to each block. The network's values for each row and
 * column, before the mean over the rows, are kept in `r`, so that the next run can reuse them. Because there are two 3
 * x 3 convolutions, a changed pixel changes only values at most two rows and two columns away. A new row therefore
 * changes the values in the three newest rows. When the oldest row is removed, the values in the two oldest remaining
 * rows change. A new column changes the values in the last three columns. The result has the same bits as a complete
 * run. */
struct attn_image {
	/* `rows` is the number of tokens whose attention the image has, `cap` the maximum number of columns */
	int32_t rows, cap;
	/* Arrays [rows][cap], used as ring buffers of rows. `a` has the pixels of the image. `r` has the network's
	 * value for each row and column, before the mean over the rows. */
	float *a, *r;
	int32_t first; /* ring index of the oldest row */
	int32_t fresh; /* number of rows added since the values `r` were computed; if fresh = rows, no value is valid */
	/* the last run has computed the columns of `r` from index `from` up to, but not including, index `to` */
	int32_t from, to;
};

/* Set up an empty image. `a` and `r` are zeroed arrays [rows][cap] for the members of the same names. The caller owns
 * them. */
void attn_image_init(struct attn_image *, float *a, float *r, int32_t rows, int32_t cap);
/* Set the first n columns of the image to 0. Later columns must be unused. */
void attn_image_clear(struct attn_image *, int32_t n);
/* Replace the oldest row by a new one. Return the new row; the caller fills all `cap` columns. */
float *attn_image_push(struct attn_image *);
/* Return row i; row 0 is the oldest. After changing the row, call attn_image_changed(). */
static inline float *attn_image_row(const struct attn_image *m, int32_t i)
{
	return m->a + (size_t)((m->first + i) % m->rows) * (size_t)m->cap;
}
static inline void attn_image_changed(struct attn_image *m)
{
	m->fresh = m->rows;
}

/* ---- files (predictor_file.c) ---- */

/* The properties for which a network is trained: a model, a block size and a number of rows. A file with another key is
 * not used. */
struct predictor_key {
	uint64_t fingerprint; /* fingerprint of the model (hparams.h) */
	int32_t block, rows;  /* `block` is the number of KV entries per block, `rows` the number of rows of an image */
};
/* Read the network from the user's file or, if there is none, from the installed file. If neither file exists, the
 * error is ERR_USAGE, and the message names the command that trains a network. If the file is damaged, the error is
 * ERR_FAIL. */
int predictor_find(struct predictor *, const struct predictor_key *, struct err *);
/* Check the n bytes of a file's contents, and copy the network from them. `path` is the name of the file for the error
 * message. */
int predictor_parse(struct predictor *, const struct predictor_key *, const void *bytes, size_t n, const char *path,
                    struct err *);
/* Replace the user's file. Append the file's path to *path. */
int predictor_save(const struct predictor *, const struct predictor_key *, struct str *path, struct err *);

/* ---- the forward pass ---- */

/* Predict the attention of the next token to the columns of the image from index `from` up to, but not including,
 * index `to`. out[i] is the prediction for column `from` + i. */
void predictor_run(const struct predictor *, struct backend *, struct attn_image *, int32_t from, int32_t to,
                   float *out);

#endif
