/* engine/lab/train.h (private to engine/) - training of models with plain layers: parameters, saved activations,
 * gradients.
 *
 *     train.c            opening, steps: batches, AdamW, the rate
 *     train_model.c      parameters from a GGUF file, which models can be trained
 *     train_pass.c       forward with all that the way back needs, and back
 *     train_attention.c  attention under a mask, and its way back
 *     train_ops.c        norm, rotation, gated feed-forward, cross-entropy, each with its way back
 *     train_file.c       checkpoints; adapters and whole models as GGUF
 *
 * All is f32 in host memory, [rows][cols] row by row; sums over a row are taken in double. Work is split by outputs and
 * summed in a fixed order: results do not depend on the number of threads. */
#ifndef WEIR_TRAIN_H
#define WEIR_TRAIN_H

#include "engine/engine_private.h"
#include "engine/lab/lab.h"

/* What an optimiser step changes, with its gradient and AdamW's moments: n values each.  g NULL: it stays as it is. */
struct train_param {
	float *w, *g, *m, *v;
	size_t n;
	int decays;
};

/* y = x W^T + scale * (x A^T) B^T; a.w NULL: without the adapter. */
struct train_matrix {
	struct train_param w, a, b; /* [rows][cols], [rank][cols], [rows][rank] */
	int32_t rows, cols, rank;
	float scale;
};
enum train_place { TRAIN_Q, TRAIN_K, TRAIN_V, TRAIN_OUT, TRAIN_GATE, TRAIN_UP, TRAIN_DOWN, TRAIN_PLACES };

/* What the forward pass leaves of a layer for the way back, of n tokens. */
struct train_acts {
	/* [n][n_embd]: the residual stream before attention, before the feed-forward */
	float *x, *x_mid;
	float *attn_in, *ffn_in;   /* [n][n_embd]: the same normed */
	float *attn_inv, *ffn_inv; /* [n]: 1 / root mean square */
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
	struct train_matrix out;           /* of its own; w.w NULL: the embedding */
	struct train_layer *layer;
	/* behind the last layer */
	float *x, *x_normed, *x_inv, *logits; /* [n][n_embd] twice, [n], [LOGIT_ROWS][n_vocab] */
	/* Gradients on their way, of the rows that have any. */
	float *dx, *dnorm, *dq, *dk, *dv, *dattn, *dprob, *dgate, *dup, *dlow, *dh;
	int32_t *sets;              /* [sets of a window][n_kv_head][k]: the mask's, best entry first */
	struct train_param **param; /* [n_param]: all that is trained, in the order of checkpoints */
	size_t n_param;
	void **owned;
	size_t n_owned;
	int32_t step;
};
enum { LOGIT_ROWS = 128 };

/* ---- train_model.c ---- */

int train_model_load(struct trainer *, struct err *);
/* Zeroed floats that live as long as the trainer; NULL and the error. */
float *train_floats(struct trainer *, size_t n, struct err *);
/* The name of a matrix in files, "attn_q". */
const char *train_place_name(enum train_place);

/* ---- train.c ---- */

/* Compute the logits [context][n_vocab] of a window, for tests. */
int trainer_logits(struct trainer *, const int32_t *id, const struct train_mask *, float *out, struct err *err);

/* ---- train_pass.c ---- */

/* Run id[0 .. n) forward under the mask; every row's hidden state behind the last norm is in x_normed. */
void train_forward(struct trainer *, const int32_t *id, int32_t n, const struct train_mask *);
/* Sum of -ln p(next[i]) for rows from .. n of the last forward pass; weight > 0: `weight` times its gradient is added
 * to every g, where rows before `from` count as constants. */
double train_loss(struct trainer *, const int32_t *id, const int32_t *next, int32_t from, int32_t n, float weight);
/* y = x W^T with the adapter's part, rows from .. n; low [n][rank]. And back: gradients of the parameters are added, dx
 * is overwritten, or added to. */
void train_linear(struct backend *, const struct train_matrix *, const float *x, float *low, float *y, int32_t n);
void train_linear_back(struct backend *, struct train_matrix *, const float *x, const float *low, const float *dy,
                       float *dlow, float *dx, int adds, int32_t n);

/* ---- train_attention.c ---- */

int32_t train_mask_sets(const struct train_mask *, int32_t n);
/* q, k, v of n rows -> prob, attn. */
void train_attention(struct trainer *, struct train_acts *, const struct train_mask *, int32_t n);
/* dattn -> dq, dk, dv: rows from .. n, the first of them row 0 of each. */
void train_attention_back(struct trainer *, const struct train_acts *, int32_t from, int32_t n);

/* ---- train_ops.c: rows of one thread's work; `from` and `to` are rows, or columns where that is said ---- */

void train_norm(float *y, float *inv, const float *x, const float *w, int32_t cols, float eps, int32_t from,
                int32_t to);
/* dx += the gradient by x.  dw: columns from .. to of n rows. */
void train_norm_back(float *dx, const float *dy, const float *x, const float *inv, const float *w, int32_t cols,
                     int32_t from, int32_t to);
void train_norm_back_weights(float *dw, const float *dy, const float *x, const float *inv, int32_t cols, int32_t n,
                             int32_t from, int32_t to);
/* Rotate rows of heads by angles[row][dims], in place; back: by the inverse, which is the gradient's way. */
void train_rope(float *x, const float *angles, int32_t heads, int32_t head_dim, int32_t dims, int neox, int back,
                int32_t from, int32_t to);
void train_glu(float *h, const float *gate, const float *up, size_t n);
void train_glu_back(float *dgate, float *dup, const float *dh, const float *gate, const float *up, size_t n);
/* A row of logits becomes weight * (softmax - one at `id`); returns -ln p(id). */
double train_cross_entropy(float *logits, int32_t n, int32_t id, float weight);
/* p[0 .. n) becomes its softmax.  And back: d becomes scale * p (d - sum of p d). */
void train_softmax(float *p, int32_t n);
void train_softmax_back(float *d, const float *p, int32_t n, float scale);

#endif
