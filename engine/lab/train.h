/* engine/lab/train.h (private to engine/lab) - training of models whose layers are plain Llama layers: parameters,
 * stored activations, gradients.
 *
 * Files: train.c (opening; steps: batches, AdamW, learning rate), train_model.c (parameters from a GGUF file; which
 * models can be trained), train_pass.c (forward pass, which stores activations, and backward pass), train_attention.c
 * (attention under a mask), train_ops.c (norm, rotation, gated feed-forward, cross-entropy), train_file.c
 * (checkpoints; adapters and whole models as GGUF).
 *
 * All data are f32 [rows][cols] in host memory. Sums over a row are computed in double, and sums over rows in a fixed
 * order, so results do not depend on the number of threads. */
#ifndef WEIR_TRAIN_H
#define WEIR_TRAIN_H

#include "engine/engine_private.h"
#include "engine/lab/lab.h"

/* A parameter w with its gradient g and AdamW's moments m and v, n values each. If g is NULL, the parameter is not
 * trained. */
struct train_param {
	float *w, *g, *m, *v;
	size_t n;
};

/* A matrix with a LoRA adapter: y = x W^T + scale * (x A^T) B^T. If a.w is NULL, the matrix has no adapter. */
struct train_matrix {
	struct train_param w, a, b; /* shapes: w [rows][cols], a [rank][cols], b [rows][rank] */
	int32_t rows, cols, rank;
	float scale;
};
enum train_target { TRAIN_Q, TRAIN_K, TRAIN_V, TRAIN_OUT, TRAIN_GATE, TRAIN_UP, TRAIN_DOWN, TRAIN_TARGETS };

/* Activations of n tokens in one layer, stored for the backward pass. */
struct train_acts {
	/* [n][n_embd] residual stream: `x` before attention, x_mid before the feed-forward */
	float *x, *x_mid;
	float *attn_in, *ffn_in;   /* [n][n_embd] x and x_mid after their norms */
	float *attn_inv, *ffn_inv; /* [n] 1 / root mean square of each row of x and x_mid */
	float *q, *k, *v, *attn;   /* [n][heads * head_dim]; q and k after RoPE */
	float *prob;               /* [n_head][n][n] attention probabilities */
	float *gate, *up, *h;      /* [n][n_ff]; h = silu(gate) * up */
	/* [target] for each matrix, its input multiplied by the matrix A of its adapter, [n][rank] */
	float *low[TRAIN_TARGETS];
};
struct train_layer {
	struct train_matrix m[TRAIN_TARGETS];
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
	float *angles;                     /* [context][dims]: cosine and sine for each pair of values */
	struct train_param embd, out_norm; /* `embd` is the embedding matrix [n_vocab][n_embd]; out_norm is [n_embd] */
	struct train_matrix out;           /* output matrix; if out.w.w is NULL, the embedding matrix is used instead */
	struct train_layer *layer;
	/* `x` and x_normed are the output of the last layer before and after the norm, [context][n_embd]. x_inv is 1 /
	 * root mean square of each row of x, [context]. `logits` is [LOGIT_ROWS][n_vocab]. */
	float *x, *x_normed, *x_inv, *logits;
	/* Gradients with respect to activations, for the rows after the constant prefix. dx is the gradient with
	 * respect to x, and so on; dnorm is the gradient with respect to the output of a norm. */
	float *dx, *dnorm, *dq, *dk, *dv, *dattn, *dprob, *dgate, *dup, *dlow, *dh;
	/* [train_mask_sets()][n_kv_head][k] entries that the mask selects (struct train_mask), the best entry first */
	int32_t *sets;
	struct train_param **param; /* [n_param] trained parameters, in the order of checkpoints */
	size_t n_param;
	void **owned; /* memory that trainer_close() frees */
	size_t n_owned;
	int32_t step; /* steps made */
};
enum { LOGIT_ROWS = 128 }; /* number of rows whose logits are computed at a time */

/* ---- train_model.c ---- */

/* Check that the model can be trained, load the model's weights, and allocate all memory of training. */
int train_model_load(struct trainer *, struct err *);
/* Return the name of a matrix in GGUF files, for example "attn_q". */
const char *train_target_name(enum train_target);

/* ---- train.c ---- */

/* Compute the logits out[context][n_vocab] of a window, for tests. */
int trainer_logits(struct trainer *, const int32_t *id, const struct train_mask *, float *out, struct err *err);

/* ---- train_pass.c ---- */

/* Run the forward pass of the n tokens id[] under the mask. The hidden states after the last norm are written to
 * x_normed. */
void train_forward(struct trainer *, const int32_t *id, int32_t n, const struct train_mask *);
/* Return the loss of the last train_forward(): the sum of -ln p(next[i]) over the rows from index `from` to n - 1. If
 * weight > 0, also compute the gradient of weight * loss, and add it to the gradients `g` of all trained parameters.
 * Rows before `from` are constant and get no gradient. */
double train_loss(struct trainer *, const int32_t *id, const int32_t *next, int32_t from, int32_t n, float weight);
/* Compute y = x W^T plus the product of x with the adapter, for n rows. Write x A^T to low [n][rank].
 *
 * train_linear_back(): compute gradients from `dy`, the gradient with respect to y. Add the gradients with respect to
 * the parameters to their members `g`. Write the gradient with respect to x to `dx`, or add it to `dx` if `adds` is 1.
 * dlow [n][rank] is scratch memory. */
void train_linear(struct backend *, const struct train_matrix *, const float *x, float *low, float *y, int32_t n);
void train_linear_back(struct backend *, struct train_matrix *, const float *x, const float *low, const float *dy,
                       float *dlow, float *dx, int adds, int32_t n);

/* ---- train_attention.c ---- */

/* Return how many sets of entries are selected in a window of n tokens under the mask. Each set is selected by one
 * token. */
int32_t train_mask_sets(const struct train_mask *, int32_t n);
/* Compute the activations `prob` and `attn` of n rows from q, k and v. */
void train_attention(struct trainer *, struct train_acts *, const struct train_mask *, int32_t n);
/* Compute dq, dk and dv from dattn, for the rows from index `from` to n - 1. Row 0 of dq, dk and dv belongs to the row
 * with index `from`. */
void train_attention_back(struct trainer *, const struct train_acts *, int32_t from, int32_t n);

/* ---- train_ops.c: each call processes one thread's part of the rows, from index `from` up to `to` - 1 ---- */

/* Compute y = w * x / rms(x), where rms is the root mean square of a row. Write 1 / rms(x) to inv [rows]. */
void train_norm(float *y, float *inv, const float *x, const float *w, int32_t cols, float eps, int32_t from,
                int32_t to);
/* Compute the gradient with respect to x, and add it to dx. The argument `dy` is the gradient with respect to y.
 *
 * train_norm_back_weights(): compute the gradient with respect to w, summed over n rows, and add it to dw. Each call
 * computes the columns from index `from` up to, but not including, index `to`. */
void train_norm_back(float *dx, const float *dy, const float *x, const float *inv, const float *w, int32_t cols,
                     int32_t from, int32_t to);
void train_norm_back_weights(float *dw, const float *dy, const float *x, const float *inv, int32_t cols, int32_t n,
                             int32_t from, int32_t to);
/* Apply RoPE to the heads in place, by angles[row][dims]. With back = 1, rotate in the opposite direction, for
 * gradients. */
void train_rope(float *x, const float *angles, int32_t heads, int32_t head_dim, int32_t dims, int neox, int back,
                int32_t from, int32_t to);
/* Compute h = silu(gate) * up for n values. train_glu_back() computes the gradients with respect to `gate` and `up`. */
void train_glu(float *h, const float *gate, const float *up, size_t n);
void train_glu_back(float *dgate, float *dup, const float *dh, const float *gate, const float *up, size_t n);
/* Return -ln p(id) for a row of n logits. Overwrite the row with the gradient: weight * (softmax - onehot(id)). */
double train_cross_entropy(float *logits, int32_t n, int32_t id, float weight);
/* Overwrite the n values p[] with their softmax.
 *
 * train_softmax_back(): `d` is the gradient with respect to p, the softmax's output. Overwrite it with the gradient
 * with respect to the softmax's input: scale * p * (d - sum(p * d)). */
void train_softmax(float *p, int32_t n);
void train_softmax_back(float *d, const float *p, int32_t n, float scale);

#endif
