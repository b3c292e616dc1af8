/* engine/forward/forward.h (private to engine/) - the forward pass, one implementation for all model families. */
#ifndef WEIR_FORWARD_H
#define WEIR_FORWARD_H

#include "engine/cache/cache.h"
#include "engine/model/weights.h"

/* Buffers of one timeline's forward pass. */
struct forward {
	const struct model *m;
	struct backend *be;
	struct cache *cache; /* borrowed */
	/* `batch` is the maximum number of tokens of a step. `head_rows` is the maximum number of tokens whose logits
	 * are computed at once. */
	int32_t batch, head_rows;
	struct tensor x; /* f32 [batch][n_embd]: residual stream */
	/* f32 [batch][n_embd]: norm(x); later the output of attention or feed-forward, before the norm that follows */
	struct tensor norm;
	/* f32 [batch][heads * head_dim]. The memory of these tensors is large enough for the widest layer. Their member
	 * `cols` is the width of the current layer. */
	struct tensor q, k, v;
	/* f32 [batch][n_head * head_dim]: output of attention; memory and `cols` are as for q */
	struct tensor attn;
	/* For layers with a recurrent state: f32 [batch][columns]. The widest layer determines the allocated memory. */
	struct tensor conv_in, conv; /* input and output of the convolution */
	/* f32 [batch][value heads * value_dim]. `delta` is the result of the delta rule or of the state space.
	 * `delta_gate` is a gate by which `delta` is multiplied. */
	struct tensor delta, delta_gate;
	/* f32 [batch][value heads]. The delta rule uses both tensors, the state space only alpha. */
	struct tensor alpha, beta;
	/* q_gate and gate are for gated attention. beta_alpha is for layers whose beta and alpha come from one
	 * matrix. */
	/* `q_gate` is f32 [batch][2 * n_head * head_dim], and `gate` is f32 [batch][n_head * head_dim]. */
	struct tensor q_gate, gate;
	struct tensor beta_alpha; /* f32 [batch][2 * value heads] */
	/* row numbers for deinterleave(). `half` has the even numbers 0, 2, 4, ... and after them the odd numbers 1, 3,
	 * 5, ... `halves` is the number of even numbers, and also of odd ones. */
	int32_t *half, halves;
	/* Buffers for per-layer inputs. `inputs` and `input_embd` are f32 [batch][n_layer * n_input], for all layers.
	 * `input` and `input_gate` are f32 [batch][n_input], for the current layer. */
	struct tensor inputs, input_embd, input, input_gate;
	/* [batch] If each row of `inputs` is split into n_layer rows, one per layer, input_row[i] is the index of the
	 * row that belongs to token i and the current layer. */
	int32_t *input_row;
	struct tensor ffn; /* f32 [batch][width of the widest layer]: hidden vector of a feed-forward */
	/* Buffers for layers with experts: */
	/* f32 [batch][largest n_expert], [batch][1]: scores of the router, and of the shared expert */
	struct tensor scores, shared_score;
	struct tensor route; /* f32 [batch][ROUTE_COLS(largest n_used)]: the experts of each token (route_args.out) */
	/* f32 [batch][n_embd]: input and output of one expert, only for the tokens that use this expert */
	struct tensor expert_in, expert_out;
	struct tensor expert_sum; /* f32 [batch][n_embd]: sum of the experts' outputs */
	/* f32 [batch][n_embd]: output of a dense feed-forward, in layers that also have experts */
	struct tensor dense_out;
	/* Scratch memory of experts(): a copy of `route`; [batch] the tokens that use an expert, and its weights */
	float *route_host, *weight;
	int32_t *token;
	/* f32 [batch][lora_rank]: product of the input with matrix A of a LoRA adapter */
	struct tensor lora;
	/* f32 [batch][width]: gate of a feed-forward, used if a LoRA adapter changes the gate */
	struct tensor lora_gate;
	struct tensor head_in; /* f32 [head_rows][n_embd]: final hidden states, for the logits */
	struct tensor logits;  /* f32 [head_rows][n_vocab] */
	/* f32 [VERIFY_MOST][LARGEST_COLS(k)]: the k largest logits after each token; `cols` follows from the current k */
	struct tensor largest;
	/* Index of the token of the step to which row 0 of `x` belongs. It is usually 0, but the end of the last layer
	 * may be computed for the step's last token only. */
	int32_t first;
	/* if not NULL, the seconds that the forward pass spends in the cache are added to *clock */
	double *clock;
	struct forward *one; /* buffers for one token, for VERIFY steps; NULL until a VERIFY step first needs them */
};

/* Return the size of all buffers, in bytes. */
uint64_t forward_bytes(const struct hparams *, int32_t batch, int32_t head_rows);
int forward_init(struct forward *, const struct model *, struct cache *, int32_t batch, int32_t head_rows,
                 struct err *);
void forward_release(struct forward *);

/* Compute the experts of a layer for n rows of `in`, and set f->expert_sum to the sum of their outputs. The sum
 * includes the shared expert. The router computes from row i of `choice` which experts process row i of `in`. (In
 * forward_experts.c, for forward.c.) */
void forward_experts(struct forward *, const struct layer_spec *, const struct layer *, const struct tensor *in,
                     const struct tensor *choice, int32_t n);
/* Set f->expert_sum to the sum of a dense feed-forward and of the experts, both computed from f->x. Each of the two has
 * its own norms before and after. */
void forward_dense_and_experts(struct forward *, const struct layer_spec *, const struct layer *, int32_t n);
/* Compute the per-layer inputs (one vector per token and layer) of n tokens, whose embeddings are in f->x. (In
 * forward_inputs.c, for forward.c.) */
void forward_inputs(struct forward *, const int32_t *id, int32_t n);
void forward_add_input(struct forward *, const struct layer *, int32_t layer, int32_t n);

/* Run the st->n tokens id[], at most `batch`, through all layers; the cache stores their keys and values. `rows` is the
 * number of tokens, at the end of the step, for which forward_logits() may be called later. In a VERIFY step
 * (speculative decoding) each token's result has the same bits as if the token were computed alone. Errors and
 * cancellation are reported by the backend's sync(). */
void forward_run(struct forward *, const int32_t *id, const struct step *st, int32_t rows);
/* Write the logits of n tokens of the last step, from row row0 on, to out [n][n_vocab], in host memory. n <=
 * head_rows. */
void forward_logits(struct forward *, int32_t row0, int32_t n, float *out);
/* Return the greatest k of forward_largest(), or 0 if all logits must be read: where they are in host memory anyway, or
 * are capped there. */
int32_t forward_largest_most(const struct forward *);
/* Write the k largest logits after each of the n tokens of the last step to out [n][LARGEST_COLS(k)], in host memory, as
 * backend_ops.largest does. n <= VERIFY_MOST. The device is waited for once. */
void forward_largest(struct forward *, int32_t n, int32_t k, float *out);

#endif
