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
	int32_t batch, head_rows; /* most tokens of a step; most rows of logits computed at once */
	struct tensor x;          /* f32 [batch][n_embd]: residual stream */
	struct tensor norm;       /* f32 [batch][n_embd]: normed input of a block, and its output before a norm */
	/* f32 [batch][heads * head_dim], allocated for the widest layer; cols: columns of the running layer */
	struct tensor q, k, v;
	struct tensor attn; /* f32 [batch][n_head * head_dim], as q */
	/* Layers with a state: f32 [batch][...], allocated for the widest layer; each layer uses its own columns. */
	struct tensor conv_in, conv; /* input and output of the convolution */
	/* [value heads * value_dim]: output of the delta rule or the state space, and its gate */
	struct tensor delta, delta_gate;
	struct tensor alpha, beta; /* [value heads]: inputs of the delta rule; alpha: also of the state space */
	/* Gated attention, and layers with beta and alpha in one matrix: */
	struct tensor q_gate, gate; /* f32 [batch][2 * n_head * head_dim]; [batch][n_head * head_dim] */
	struct tensor beta_alpha;   /* f32 [batch][2 * value heads]: beta and alpha in one matrix */
	int32_t *half, halves;      /* [2 * halves]: even row numbers, then odd ones, for deinterleave() */
	/* Layers with an extra input: f32 [batch][n_layer * n_input] twice, then [batch][n_input] twice */
	struct tensor inputs, input_embd, input, input_gate;
	int32_t *input_row; /* [batch] row of `inputs` for each token */
	struct tensor ffn;  /* f32 [batch][width of the widest layer]: hidden values of a feed-forward */
	/* Layers with experts: */
	struct tensor route;                 /* f32 [batch][most experts]: the router's scores */
	struct tensor expert_in, expert_out; /* f32 [batch][n_embd]: input and output of one expert's tokens */
	struct tensor expert_sum;            /* f32 [batch][n_embd]: sum over the experts */
	struct tensor dense_out; /* f32 [batch][n_embd]: output of a dense feed-forward beside the experts */
	float *score;            /* [batch][most experts]: `route` on the host */
	int32_t *chosen;         /* [batch][most experts used]: experts of each token */
	float *share;            /* [batch][most experts used]: weights of these experts */
	int32_t *token;          /* [batch]: tokens of one expert */
	float *weight;           /* [batch]: weights of these tokens */
	struct tensor lora;      /* f32 [batch][lora_rank]: between an adapter's two matrices */
	struct tensor lora_gate; /* f32 [batch][width]: gate of a feed-forward that an adapter changes */
	struct tensor head_in;   /* f32 [head_rows][n_embd]: hidden states whose logits are wanted */
	struct tensor logits;    /* f32 [head_rows][n_vocab] */
	int32_t first;           /* index in the last step of the token in row 0 of x */
	double *clock;           /* seconds spent in the cache are added here; NULL = not measured */
	struct forward *one;     /* buffers of one token for VERIFY steps, allocated by the first such step */
};

/* Bytes of all buffers. */
uint64_t forward_bytes(const struct hparams *, int32_t batch, int32_t head_rows);
int forward_init(struct forward *, const struct model *, struct cache *, int32_t batch, int32_t head_rows,
                 struct err *);
void forward_release(struct forward *);

/* f->expert_sum = what the experts of a layer, the shared one included, compute for n rows of `in`. choice: the rows
 * by which the router chooses. In forward_experts.c, called by forward.c alone. */
void forward_experts(struct forward *, const struct layer_spec *, const struct layer *, const struct tensor *in,
                     const struct tensor *choice, int32_t n);
/* f->expert_sum = a dense feed-forward plus the experts, both of f->x, each between norms of its own. */
void forward_dense_and_experts(struct forward *, const struct layer_spec *, const struct layer *, int32_t n);
/* Compute each layer's extra input for n tokens from their embeddings in f->x. In forward_inputs.c, called by
 * forward.c alone. */
void forward_inputs(struct forward *, const int32_t *id, int32_t n);
void forward_add_input(struct forward *, const struct layer *, int32_t layer, int32_t n);

/* Run tokens id[0..st->n), at most batch, through all layers; the cache stores their keys and values. In a VERIFY
 * step each token gets the bits that it would have alone. rows: forward_logits() may be called for this many last
 * tokens. Errors and cancellation are reported by the backend's sync(). */
void forward_run(struct forward *, const int32_t *id, const struct step *st, int32_t rows);
/* out [n][n_vocab] (host) = logits of tokens row0 .. row0 + n of the last step; n <= head_rows. */
void forward_logits(struct forward *, int32_t row0, int32_t n, float *out);

#endif
