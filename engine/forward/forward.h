/* engine/forward/forward.h (private to engine/) - the forward pass, written once for every family. */
#ifndef WEIR_FORWARD_H
#define WEIR_FORWARD_H

#include "engine/cache/cache.h"
#include "engine/model/weights.h"

/* Buffers of one timeline's forward pass. */
struct forward {
	const struct model *m;
	struct backend *be;
	struct cache *cache;      /* borrowed */
	int32_t batch, head_rows; /* tokens of a step at most; rows of logits computed at once */
	struct tensor x;          /* f32 [batch][n_embd]: residual stream */
	struct tensor norm;       /* f32 [batch][n_embd] */
	/* f32 [batch][heads * head_dim], as wide as the widest layer's; cols: the running layer's */
	struct tensor q, k, v;
	struct tensor attn; /* f32 [batch][n_head * head_dim], the same */
	/* Of layers with a state, as wide as the widest of them; a layer uses its own columns.  f32 [batch][...] */
	struct tensor conv_in, conv;     /* what the convolution reads and computes */
	struct tensor delta, delta_gate; /* [value heads * value_dim] */
	struct tensor alpha, beta;       /* [value heads] */
	/* Of gated attention: */
	struct tensor q_gate, gate; /* f32 [batch][2 * n_head * head_dim], [batch][n_head * head_dim] */
	struct tensor beta_alpha;   /* f32 [batch][2 * value heads]: of layers that have both in one matrix */
	int32_t *half, halves;      /* [2 * halves]: even numbers, then odd ones, for split() */
	/* Of layers that have an input of their own, one for each layer: f32 [batch][n_layer * n_input] twice,
	 * [batch][n_input] twice */
	struct tensor inputs, input_embd, input, input_gate;
	int32_t *input_row; /* [batch] */
	struct tensor ffn;  /* f32 [batch][width], the widest layer's */
	/* Of layers with experts: */
	struct tensor route;                 /* f32 [batch][most experts]: the router's scores */
	struct tensor expert_in, expert_out; /* f32 [batch][n_embd]: the tokens of one expert */
	struct tensor expert_sum;            /* f32 [batch][n_embd] */
	struct tensor dense_out;             /* f32 [batch][n_embd]: of a dense feed-forward beside the experts */
	float *score;                        /* [batch][most experts]: route, on the host */
	int32_t *chosen;                     /* [batch][most experts used] */
	float *share;                        /* the same: their weights */
	int32_t *token;                      /* [batch]: of one expert */
	float *weight;                       /* [batch] */
	struct tensor lora;                  /* f32 [batch][lora_rank]: between the two matrices of an adapter */
	struct tensor lora_gate; /* f32 [batch][width]: the gate of a feed-forward that an adapter changes */
	struct tensor head_in;   /* f32 [head_rows][n_embd] */
	struct tensor logits;    /* f32 [head_rows][n_vocab] */
	int32_t first;           /* token of the last step whose hidden state is row 0 of x */
	double *clock;           /* seconds spent in the cache are added here; NULL = not measured */
	struct forward *one;     /* buffers of one token, for VERIFY; allocated by the first such step */
};

/* Bytes of all buffers together. */
uint64_t forward_bytes(const struct hparams *, int32_t batch, int32_t head_rows);
int forward_init(struct forward *, const struct model *, struct cache *, int32_t batch, int32_t head_rows,
                 struct err *);
void forward_release(struct forward *);

/* f->expert_sum = what the experts of a layer, and the shared one, make of n rows of `in` (forward_experts.c);
 * `choice`: the rows by which the router chooses. Called by forward.c alone. */
void forward_experts(struct forward *, const struct layer_spec *, const struct layer *, const struct tensor *in,
                     const struct tensor *choice, int32_t n);
/* The same with a dense feed-forward beside the experts: f->expert_sum from f->x, each between norms of its own. */
void forward_dense_and_experts(struct forward *, const struct layer_spec *, const struct layer *, int32_t n);
/* Compute each layer's extra input for n tokens, from their embeddings in f->x; add one layer's extra input to f->x.
 * forward_inputs.c; called by forward.c alone. */
void forward_inputs(struct forward *, const int32_t *id, int32_t n);
void forward_add_input(struct forward *, const struct layer *, int32_t layer, int32_t n);

/* Run tokens id[0..st->n) (at most batch) through all layers; the cache stores their keys and values. VERIFY: each
 * token gets the bits that it would have alone. rows: of how many last tokens forward_logits() may be asked afterwards.
 * Errors and cancellation show at the backend's sync(). */
void forward_run(struct forward *, const int32_t *id, const struct step *st, int32_t rows);
/* out [n][n_vocab] (host) = logits after tokens row0 .. row0 + n of the last step; n <= head_rows. */
void forward_logits(struct forward *, int32_t row0, int32_t n, float *out);

#endif
