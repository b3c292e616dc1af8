/* engine/forward/forward.h (private to engine/) - the forward pass, one implementation for all model families. */
#ifndef WEIR_FORWARD_H
#define WEIR_FORWARD_H

#include "engine/cache/cache.h"
#include "engine/model/weights.h"

/* Rows of forward.route for n tokens: n rows with the router's scores, two rows of constants, up to 3 unused rows, and
 * n rows for the scores of the shared expert. */
#define ROUTE_ROWS(n) (2 * (n) + 5)

/* Buffers of one timeline's forward pass. */
struct forward {
	const struct model *m;
	struct backend *be;
	struct cache *cache; /* borrowed */
	/* batch: maximum number of tokens of a step; head_rows: maximum number of rows of logits computed at once */
	int32_t batch, head_rows;
	struct tensor x; /* f32 [batch][n_embd]: residual stream */
	/* f32 [batch][n_embd]: holds x after a norm, later the output of attention or feed-forward before its norm */
	struct tensor norm;
	/* f32 [batch][heads * head_dim]. Memory is allocated for the widest layer; cols is the number of columns of the
	 * current layer. */
	struct tensor q, k, v;
	struct tensor attn; /* f32 [batch][n_head * head_dim]; memory and cols as for q */
	/* For layers with a recurrent state: f32 [batch][columns]. Memory is allocated for the widest layer. */
	struct tensor conv_in, conv; /* input and output of the convolution */
	/* [value heads * value_dim]. delta: result of the delta rule or the state space; delta_gate: the gate that
	 * multiplies it */
	struct tensor delta, delta_gate;
	struct tensor alpha, beta; /* [value heads]. The delta rule uses both, the state space only alpha */
	/* For gated attention (q_gate, gate), and for layers whose beta and alpha come from one matrix
	 * (beta_alpha): */
	struct tensor q_gate, gate; /* f32 [batch][2 * n_head * head_dim]; f32 [batch][n_head * head_dim] */
	struct tensor beta_alpha;   /* f32 [batch][2 * value heads] */
	/* [2 * halves] row numbers for deinterleave(): first the even ones, then the odd ones */
	int32_t *half, halves;
	/* For per-layer inputs: inputs and input_embd f32 [batch][n_layer * n_input]; input and input_gate f32
	 * [batch][n_input]. */
	struct tensor inputs, input_embd, input, input_gate;
	int32_t *input_row; /* [batch] row of `inputs` for each token */
	struct tensor ffn;  /* f32 [batch][width of the widest layer]: hidden vector of a feed-forward */
	/* Layers with experts: */
	/* f32 [ROUTE_ROWS(batch)][largest n_expert]: scores and constants from which the experts of a layer are chosen
	 * (forward_experts.c) */
	struct tensor route;
	struct tensor expert_in, expert_out; /* f32 [batch][n_embd]: input and output of one expert, for its tokens */
	struct tensor expert_sum;            /* f32 [batch][n_embd]: sum over the experts */
	/* f32 [batch][n_embd]: output of the dense feed-forward in layers that have experts, too */
	struct tensor dense_out;
	float *score;    /* copy of `route` on the host */
	int32_t *chosen; /* [batch][largest n_used]: experts of each token */
	float *share;    /* [batch][largest n_used]: weights of the experts in chosen[] */
	int32_t *token;  /* [batch]: tokens for which one expert was chosen */
	float *weight;   /* [batch]: weight of this expert for each of these tokens */
	/* f32 [batch][lora_rank]: product with the first matrix of a LoRA adapter */
	struct tensor lora;
	struct tensor lora_gate; /* f32 [batch][width]: the gate of a feed-forward, if a LoRA adapter changes it */
	struct tensor head_in;   /* f32 [head_rows][n_embd]: final hidden states, for the logits */
	struct tensor logits;    /* f32 [head_rows][n_vocab] */
	/* number of the token whose values are in row 0 of x; 0 = the first token of the last step */
	int32_t first;
	double *clock;       /* if not NULL, the seconds spent in the cache are added to *clock */
	struct forward *one; /* buffers for one token, allocated when a VERIFY step first needs them; NULL before */
};

/* Return the bytes of all buffers. */
uint64_t forward_bytes(const struct hparams *, int32_t batch, int32_t head_rows);
int forward_init(struct forward *, const struct model *, struct cache *, int32_t batch, int32_t head_rows,
                 struct err *);
void forward_release(struct forward *);

/* Set f->expert_sum to the sum of the experts' outputs for n rows of `in`, the shared expert included. Row i of
 * `choice` is the router's input: it decides which experts compute row i of `in`. (In forward_experts.c, for
 * forward.c.) */
void forward_experts(struct forward *, const struct layer_spec *, const struct layer *, const struct tensor *in,
                     const struct tensor *choice, int32_t n);
/* Set f->expert_sum to a dense feed-forward plus the experts, both computed from f->x. The feed-forward and the experts
 * have separate norms before and after. */
void forward_dense_and_experts(struct forward *, const struct layer_spec *, const struct layer *, int32_t n);
/* Compute the per-layer inputs (a vector for each token and layer) of n tokens, whose embeddings are in f->x. (In
 * forward_inputs.c, for forward.c.) */
void forward_inputs(struct forward *, const int32_t *id, int32_t n);
void forward_add_input(struct forward *, const struct layer *, int32_t layer, int32_t n);

/* Run tokens id[0..st->n), at most `batch`, through all layers; the cache stores their keys and values. rows: number of
 * tokens at the end of the step for which forward_logits() may be called. In a VERIFY step (speculative decoding) each
 * token's result has the same bits as if it were computed alone. The backend's sync() reports errors and
 * cancellation. */
void forward_run(struct forward *, const int32_t *id, const struct step *st, int32_t rows);
/* Write the logits of tokens row0 .. row0 + n - 1 of the last step to out [n][n_vocab], in host memory. n <=
 * head_rows. */
void forward_logits(struct forward *, int32_t row0, int32_t n, float *out);

#endif
