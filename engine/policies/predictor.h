/* engine/policies/predictor.h (private to engine/) - the network of `predict` (AttentionPredictor): which blocks of KV
 * entries the next token will attend to, from how the tokens before attended to them.
 *
 * Its input is an image of one KV head: a row for each of the last H tokens, the oldest first, a column for each block
 * of KV entries, a pixel the largest probability that the row's token gave to an entry of the block. Outside the image
 * is zero. Published (arXiv 2502.04077), with the mean over the rows as its code has it:
 *
 *     3 x 3 convolution, 1 to 16 channels, ReLU         160 weights
 *     3 x 3 convolution, 16 to 32 channels, ReLU      4,640
 *     mean over the rows, 32 channels to 1               33
 *
 * One network serves all layers and heads of a model. Its output predicts the next row; only the order of its values
 * counts.
 *
 * The last two steps are linear, so a row's share of the output is kept (attn_image.r). When a row is added, the two
 * oldest rows and the three newest change alone, since these lie at the edge or next to the new one; when the image
 * gets wider, its last columns. An element is computed in the same order whatever else is computed with it: what is
 * kept equals what the whole image would give, bit for bit. */
#ifndef WEIR_PREDICTOR_H
#define WEIR_PREDICTOR_H

#include "engine/engine.h"
#include "kernels/backend.h"

enum { PREDICTOR_INNER = 16, PREDICTOR_OUTER = 32, PREDICTOR_WEIGHTS = 4833, PREDICTOR_ROWS = 64 };

struct predictor {
	/* [dy][dx][16]: of the row above, the column to the left first */
	float w1[9 * PREDICTOR_INNER], b1[PREDICTOR_INNER];
	float w2[9 * PREDICTOR_INNER * PREDICTOR_OUTER], b2[PREDICTOR_OUTER]; /* [dy][dx][16][32] */
	float w3[PREDICTOR_OUTER], b3[1];
};
_Static_assert(sizeof(struct predictor) == PREDICTOR_WEIGHTS * sizeof(float), "weights are one array");

/* What one KV head's last tokens gave to each block. */
struct attn_image {
	int32_t rows, cap; /* H; columns that there is room for */
	/* [rows][cap], rings of rows: the image; what each pixel's place adds to the output, times H */
	float *a, *r;
	int32_t first;    /* ring row of the oldest */
	int32_t fresh;    /* rows added since r was computed, `rows`: r holds nothing */
	int32_t from, to; /* r was computed for the image of these columns alone */
};

/* a and r are zeroed memory [rows][cap] of the caller; the image is all zero. */
void attn_image_init(struct attn_image *, float *a, float *r, int32_t rows, int32_t cap);
/* All zero again, of which n columns may not be. */
void attn_image_clear(struct attn_image *, int32_t n);
/* Add a row, which replaces the oldest one: the caller fills all `cap` columns of what is returned. */
float *attn_image_push(struct attn_image *);
/* Row i, 0 = the oldest.  Whoever changes it calls attn_image_changed(). */
static inline float *attn_image_row(const struct attn_image *m, int32_t i)
{
	return m->a + (size_t)((m->first + i) % m->rows) * (size_t)m->cap;
}
static inline void attn_image_changed(struct attn_image *m)
{
	m->fresh = m->rows;
}

/* ---- training (predictor_grad.c) ---- */

/* Room for the gradient of one image. */
struct predictor_scratch {
	int32_t rows, cols;       /* the largest image */
	float *a, *inner, *outer; /* [rows + 2][cols + 2][1, 16, 32]: with a border of zeros */
	float *row;               /* [cols + 2][16] */
	float *back;              /* w2 from its outputs to its inputs: [dy][dx][32][16] */
	float *out;               /* [cols] */
};
int predictor_scratch_init(struct predictor_scratch *, int32_t rows, int32_t cols, struct err *);
void predictor_scratch_free(struct predictor_scratch *);
/* Before the first predictor_gradient() with these weights. */
void predictor_scratch_weights(struct predictor_scratch *, const struct predictor *);
/* Of an image x [rows][cols]: the sum over columns of weight * (prediction - target)^2. Its gradient by the weights is
 * added to *grad. */
double predictor_gradient(const struct predictor *, struct backend *, struct predictor_scratch *, const float *x,
                          int32_t rows, int32_t cols, const float *target, const float *weight, struct predictor *grad);

/* ---- files (predictor_file.c) ---- */

/* A network for a model, by its fingerprint (hparams.h), for blocks of so many entries and images of so many rows: from
 * the user's file, or built in. ERR_USAGE with the command that makes it; ERR_FAIL where the file is damaged. */
struct predictor_key {
	uint64_t fingerprint;
	int32_t block, rows;
};
int predictor_find(struct predictor *, const struct predictor_key *, struct err *);
int predictor_parse(struct predictor *, const struct predictor_key *, const void *bytes, size_t n, const char *path,
                    struct err *);
/* Replaces the user's file.  Appends its path. */
int predictor_save(const struct predictor *, const struct predictor_key *, struct str *path, struct err *);
/* Those that are built in; ends with weights = NULL. */
struct predictor_built_in {
	struct predictor_key key;
	const uint32_t *weights;
};
extern const struct predictor_built_in predictors_built_in[];

/* ---- the forward pass ---- */

/* out[to - from] = the prediction from the image of columns from .. to alone, to > from. */
void predictor_run(const struct predictor *, struct backend *, struct attn_image *, int32_t from, int32_t to,
                   float *out);

#endif
