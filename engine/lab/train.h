/* engine/lab/train.h (private to engine/lab) - training of models with plain layers: parameters, saved activations,
 * gradients.
 *
 *     train.c            opening, steps: batches, AdamW, the rate
 *     train_model.c      parameters from a GGUF file, which models can be trained
 *     train_pass.c       the forward pass, which keeps activations, and the backward pass
 *     train_attention.c  attention under a mask, forward and backward
 *     train_ops.c        norm, rotation, gated feed-forward, cross-entropy, forward and backward
 *     train_file.c       checkpoints; adapters and whole models as GGUF
 *
 * All data are f32 in host memory, [rows][cols]; sums over a row are computed in double. Work is split by outputs and
 * summed in a fixed order: results do not depend on the number of threads. */
#ifndef WEIR_TRAIN_H
#define WEIR_TRAIN_H

#include "engine/engine_private.h"
#include "engine/lab/lab.h"

/* A parameter with its gradient and AdamW's moments, n values each. g NULL = it is not trained. */
struct train_param {
	float *w, *g, *m, *v;
	size_t n;
};

/* A matrix: y = x W^T + scale * (x A^T) B^T; a.w NULL = no adapter. */
struct train_matrix {
	struct train_param w, a, b; /* [rows][cols], [rank][cols], [rows][rank] */
	int32_t rows, cols, rank;
	float scale;
};
enum train_place { TRAIN_Q, TRAIN_K, TRAIN_V, TRAIN_OUT, TRAIN_GATE, TRAIN_UP, TRAIN_DOWN, TRAIN_PLACES };

/* The activations of a layer that the backward pass needs, of n tokens. */
struct train_acts {
	float *x, *x_mid;          /* [n][n_embd] the residual stream before attention, before the feed-forward */
	float *attn_in, *ffn_in;   /* [n][n_embd] x and x_mid after their norms */
	float *attn_inv, *ffn_inv; /* [n] 1 / root mean square of x and x_mid */
	float *q, *k, *v, *attn;   /* [n][heads * head_dim]; q and k rotated */
	float *prob;               /* [n_head][n][n] */
	float *gate, *up, *h;      /* [n][n_ff]; h = silu(gate) * up */
	float *low[TRAIN_PLACES];  /* [n][rank]: x A^T */
};
struct train_layer {
	struct train_matrix m[TRAIN_PLACES];
	struct train_param attn_norm, ffn_norm; /* [n_embd] */
	struct train_acts acts;
};

struct trainer {
	struct engine *e;
	struct train_settings s;
	struct backend *be;
	int32_t n_layer, n_embd, n_ff, n_head, n_kv_head, head_dim, n_vocab;
	float eps, attn_scale;
	const struct rope_freqs *rope;
	float *angles;                     /* [context][dims]: cos and sin per pair */
	struct train_param embd, out_norm; /* [n_vocab][n_embd], [n_embd] */
	struct train_matrix out;           /* output matrix; w.w NULL = the embedding serves */
	struct train_layer *layer;
	/* behind the last layer: [n][n_embd] twice, [n], [LOGIT_ROWS][n_vocab] */
	float *x, *x_normed, *x_inv, *logits;
	/* gradients by activations, of the rows behind the prefix */
	float *dx, *dnorm, *dq, *dk, *dv, *dattn, *dprob, *dgate, *dup, *dlow, *dh;
	int32_t *sets;              /* [sets of a window][n_kv_head][k] sets of the mask, best entry first */
	struct train_param **param; /* [n_param] trained parameters, in the order of checkpoints */
	size_t n_param;
	void **owned; /* [n_owned] memory to free on closing */
	size_t n_owned;
	int32_t step; /* steps made */
};
enum { LOGIT_ROWS = 128 }; /* rows of logits at a time */

/* ---- train_model.c ---- */

/* Check the model, load its weights and allocate all memory of training. */
int train_model_load(struct trainer *, struct err *);
/* Return the name of a matrix in files, "attn_q". */
const char *train_place_name(enum train_place);

/* ---- train.c ---- */

/* Compute the logits [context][n_vocab] of a window, for tests. */
int trainer_logits(struct trainer *, const int32_t *id, const struct train_mask *, float *out, struct err *err);

/* ---- train_pass.c ---- */

/* Run the forward pass of id[0 .. n) under the mask; x_normed gets the hidden states behind the last norm. */
void train_forward(struct trainer *, const int32_t *id, int32_t n, const struct train_mask *);
/* Return the sum of -ln p(next[i]) over rows from .. n of the last forward pass. weight > 0: add `weight` times its
 * gradient to every g; rows before `from` are constants. */
double train_loss(struct trainer *, const int32_t *id, const int32_t *next, int32_t from, int32_t n, float weight);
/* Compute y = x W^T and the adapter's part for n rows; low [n][rank] gets x A^T. The _back function adds the
 * gradients of the parameters and overwrites dx, or adds to it (adds). */
void train_linear(struct backend *, const struct train_matrix *, const float *x, float *low, float *y, int32_t n);
void train_linear_back(struct backend *, struct train_matrix *, const float *x, const float *low, const float *dy,
                       float *dlow, float *dx, int adds, int32_t n);

/* ---- train_attention.c ---- */

/* Return the sets of a window of n tokens under the mask. */
int32_t train_mask_sets(const struct train_mask *, int32_t n);
/* Compute prob and attn from q, k and v of n rows. */
void train_attention(struct trainer *, struct train_acts *, const struct train_mask *, int32_t n);
/* Compute dq, dk and dv from dattn, for rows from .. n; row `from` is row 0 of the gradients. */
void train_attention_back(struct trainer *, const struct train_acts *, int32_t from, int32_t n);

/* ---- train_ops.c: operations on rows from .. to, a part of one thread ---- */

/* Compute y = w * x / rms(x); inv [rows] gets 1 / rms(x). */
void train_norm(float *y, float *inv, const float *x, const float *w, int32_t cols, float eps, int32_t from,
                int32_t to);
/* Add the gradient with respect to x to dx; _weights: add the gradient with respect to w to dw, for columns from .. to
 * of n rows. */
void train_norm_back(float *dx, const float *dy, const float *x, const float *inv, const float *w, int32_t cols,
                     int32_t from, int32_t to);
void train_norm_back_weights(float *dw, const float *dy, const float *x, const float *inv, int32_t cols, int32_t n,
                             int32_t from, int32_t to);
/* Rotate the heads of rows by angles[row][dims] in place; back: by the inverse rotation, as gradients are. */
void train_rope(float *x, const float *angles, int32_t heads, int32_t head_dim, int32_t dims, int neox, int back,
                int32_t from, int32_t to);
/* Compute h = silu(gate) * up for n values; _back: the gradients by gate and up. */
void train_glu(float *h, const float *gate, const float *up, size_t n);
void train_glu_back(float *dgate, float *dup, const float *dh, const float *gate, const float *up, size_t n);
/* Turn a row of n logits into weight * (softmax - onehot(id)), the gradient of the loss; return -ln p(id). */
double train_cross_entropy(float *logits, int32_t n, int32_t id, float weight);
/* Turn p[0 .. n) into its softmax; _back: turn d, the gradient with respect to p, into scale * p * (d - sum(p * d)). */
void train_softmax(float *p, int32_t n);
void train_softmax_back(float *d, const float *p, int32_t n, float scale);

#endif
