/* engine/model/arch.h (private to engine/) - families of models as rows of a table, their layers as data.
 *
 * A family (general.architecture) is one row of archs[]: its name, how RoPE pairs values, the tensors that its layers
 * must or may have, and a function for what else differs from a plain layer. hparams_read() fills one struct layer_spec
 * per layer; the forward pass (forward.c), the weights (weights.c) and the cache read these specs and never ask for the
 * family.
 *
 * A spec can ask for more than the kernels compute. layer_spec_check() refuses that when the model is loaded. */
#ifndef WEIR_ARCH_H
#define WEIR_ARCH_H

#include "engine/base/base.h"
#include "kernels/backend.h"

struct hparams;
struct key_reader;

/* Tensors of a layer; weights.c has their names and shapes. */
enum layer_tensor {
	TENSOR_ATTN_NORM,
	TENSOR_Q,
	TENSOR_K,
	TENSOR_V,
	TENSOR_Q_BIAS,
	TENSOR_K_BIAS,
	TENSOR_V_BIAS,
	TENSOR_Q_NORM,
	TENSOR_K_NORM,
	TENSOR_ATTN_OUT,
	TENSOR_ATTN_OUT_BIAS,
	TENSOR_ATTN_POST_NORM,
	TENSOR_FFN_NORM,
	TENSOR_GATE,
	TENSOR_UP,
	TENSOR_DOWN,
	TENSOR_FFN_POST_NORM,
	TENSOR_SINKS, /* attention sinks */
	/* the norm before the feed-forward, under the name that others have for one after attention */
	TENSOR_POST_ATTN_FFN_NORM,
	TENSOR_ROUTER,
	TENSOR_ROUTER_BIAS,
	TENSOR_GATE_EXPS,
	TENSOR_UP_EXPS,
	TENSOR_DOWN_EXPS,
	TENSOR_GATE_EXPS_BIAS,
	TENSOR_UP_EXPS_BIAS,
	TENSOR_DOWN_EXPS_BIAS,
	TENSOR_PROBS_BIAS, /* of the router, for the choice of experts alone */
	TENSOR_CONV_IN,
	TENSOR_CONV,
	TENSOR_CONV_OUT, /* short convolution */
	TENSOR_DELTA_IN,
	TENSOR_DELTA_GATE,
	TENSOR_DELTA_CONV,
	TENSOR_DELTA_ALPHA,
	TENSOR_DELTA_BETA,
	TENSOR_DELTA_DT,
	TENSOR_DELTA_DECAY,
	TENSOR_DELTA_NORM,
	TENSOR_DELTA_OUT, /* gated delta rule */
	/* state space; others are those above */
	TENSOR_SPACE_IN,
	TENSOR_SPACE_CONV_BIAS,
	TENSOR_SPACE_DECAY,
	TENSOR_SPACE_SKIP,
	TENSOR_SPACE_NORM,
	/* in the place of TENSOR_DELTA_BETA and _ALPHA: for each key head first the betas of its value heads */
	TENSOR_DELTA_BETA_ALPHA,
	/* an expert that all tokens go through */
	TENSOR_SHARED_GATE,
	TENSOR_SHARED_UP,
	TENSOR_SHARED_DOWN,
	TENSOR_SHARED_ROUTER,
	/* several matrices stored as one, in the place of TENSOR_Q, _K and _V, or TENSOR_GATE and _UP */
	TENSOR_QKV,
	TENSOR_GATE_UP,
	TENSOR_GATE_UP_EXPS, /* the same in the place of TENSOR_GATE_EXPS and _UP_EXPS */
	TENSOR_ROUTER_SCALE,
	TENSOR_EXPERT_SCALES, /* of the router's input; of what each expert adds */
	/* of a dense feed-forward beside experts, and of these */
	TENSOR_DENSE_POST_NORM,
	TENSOR_EXPERTS_NORM,
	TENSOR_EXPERTS_POST_NORM,
	TENSOR_OUT_SCALE, /* a factor on what the layer hands on */
	/* an input of the layer's own, beside the residual stream */
	TENSOR_INPUT_GATE,
	TENSOR_INPUT_OUT,
	TENSOR_INPUT_NORM,
	LAYER_TENSORS
};
#define TENSOR_BIT(t) (UINT64_C(1) << (t))

/* In the place of attention, ATTN_CONV: a gated short convolution; ATTN_DELTA: a short convolution and the gated delta
 * rule; ATTN_SPACE: a short convolution and a state space (Mamba-2). Such a layer has no KV cache, but a state of fixed
 * size (recurrent.h). */
enum attn_kind { ATTN_SOFTMAX, ATTN_NONE, ATTN_CONV, ATTN_DELTA, ATTN_SPACE };
enum ffn_kind { FFN_DENSE, FFN_EXPERTS };
enum { ROPE_NONE = -1 };

struct attn_spec {
	enum attn_kind kind;
	int32_t n_head, n_kv_head, head_dim;
	/* the layer has no keys and values, and attends to those of the layer so many before it; 0 = its own */
	int32_t borrows;
	int32_t rope;      /* index of hp->rope[]; ROPE_NONE: queries and keys are not rotated */
	int32_t window;    /* tokens that a query attends to, its own included; 0 = all */
	float scale;       /* of the scores, usually 1/sqrt(head_dim) */
	float softcap;     /* scores become softcap * tanh(score / softcap); 0 = as they are */
	int sinks;         /* a learned sink per query head takes part in the softmax */
	int qk_norm_whole; /* the norms of Q and K span all heads; otherwise each head alone */
	int v_norm;        /* values are normed, too, each head alone and without weights */
	int v_from_k;      /* without TENSOR_V values are the keys as they are before norm and rotation */
	/* TENSOR_Q has a gate behind the query of each head: attention's result times sigmoid(gate) */
	int gated;
	int32_t taps; /* of layers with a state: tokens that the convolution spans */
	/* ATTN_DELTA: heads of the delta rule and their sizes. ATTN_SPACE: groups, heads, and the rows and columns of a
	 * head's state. */
	int32_t n_key_head, n_value_head, key_dim, value_dim;
	/* ATTN_DELTA: the value heads of a key head follow each other; otherwise every n_key_head-th is one of its */
	int grouped;
};

struct ffn_spec {
	enum ffn_kind kind;
	enum activation act;
	int32_t width; /* of each expert where there are experts */
	/* width of the expert that all tokens go through, weighted by a sigmoid of its own; 0 = none */
	int32_t shared;
	/* width of a dense feed-forward beside the experts; both have norms of their own and are added; 0 = none */
	int32_t dense;
	/* a token goes through the n_used experts that score best, weighted by the softmax of their scores */
	int32_t n_expert, n_used;
	/* instead weighted by their part of the softmax over all experts' scores, whose sum is below 1 */
	int whole;
	/* instead: the best of sigmoid(score) + bias (TENSOR_PROBS_BIAS), weighted by sigmoid(score) / (their sum +
	 * 1e-6) */
	int sigmoid;
};

struct layer_spec {
	struct attn_spec attn;
	struct ffn_spec ffn;
	float residual_scale; /* factor on what attention and feed-forward add to the residual stream */
	/* Bits of enum layer_tensor. A tensor in neither set makes the file unusable. The forward pass runs a bias or a
	 * norm where its tensor is there: norms before attention and feed-forward (TENSOR_ATTN_NORM, TENSOR_FFN_NORM),
	 * after them (_POST_NORM), or both. */
	uint64_t required, optional;
};

struct arch {
	const char *name; /* general.architecture */
	int neox;         /* RoPE rotates the pairs (j, j + dims/2) instead of (2j, 2j + 1) */
	/* where the file does not say: YaRN's factor on cos and sin is divided by 0.1 x ln(factor) + 1 */
	double yarn_log_multiplier;
	int yarn_exact;              /* the ends of YaRN's ramp are not rounded to whole pairs */
	uint64_t required, optional; /* of every layer, as in struct layer_spec */
	const char *out_norm;        /* the tensor of the last norm where it is not output_norm.weight */
	/* layers of 0 KV heads (attention.head_count_kv) have a state instead of a KV cache */
	int states;
	int differ; /* layers may have KV heads and feed-forwards of their own number and width */
	/* Change the plain specs of hp->spec[0 .. n_layer), and the model's multipliers, to what the family computes;
	 * may read keys of its own and add RoPE tables. 0, or -1 with the reader's error set. NULL: every layer is
	 * plain. */
	int (*specs)(struct hparams *, struct key_reader *);
};
extern const struct arch archs[]; /* ends with name = NULL */

/* Fill hp->spec with plain layers: the family's tensors, all heads of the model, RoPE table 0, 1/sqrt(head_dim), a
 * SiLU-gated feed-forward of n_ff. */
void layer_specs_plain(struct hparams *);
/* Refuse a spec that the kernels cannot compute: 0, or -1 with one sentence that names the layer (ERR_MODEL). */
int layer_spec_check(const struct hparams *, int32_t layer, struct err *);
/* What the layers ask for and a backend lacks (backend_ops.lacks), by name; NULL: nothing. */
const char *layer_specs_lacked(const struct hparams *, unsigned lacks);
/* Append a line for each layer, and for the multipliers, that differ from plain ones: nothing for a model of plain
 * layers. */
void layer_specs_identity(const struct hparams *, struct str *out);

const struct layer_spec *model_layer_spec(const struct hparams *, int32_t layer);
/* Does the layer have a KV cache?  The others have a recurrent state. */
int layer_attends(const struct hparams *, int32_t layer);
/* Columns of the state of a layer's convolution (0: it has none), and of what the layer computes before its last
 * matrix. */
int32_t layer_conv(const struct hparams *, int32_t layer);
int32_t layer_mixed(const struct hparams *, int32_t layer);
/* The layers that have a KV cache, as a model of these layers alone: what a cache is made of. */
const struct hparams *model_kv(const struct hparams *);
/* The layer whose KV entries a layer attends to: itself, or one before it. */
int32_t layer_entries(const struct hparams *, int32_t layer);
/* Layers that have KV entries of their own; those that borrow come after all of them. */
int32_t layers_with_entries(const struct hparams *);
/* Those of them without a window: the layers in which a retention evicts. */
int32_t layers_retained(const struct hparams *);
/* Columns of the queries, and of the keys: the most of all layers. */
int32_t widest_queries(const struct hparams *);
int32_t widest_keys(const struct hparams *);
/* KV heads of a layer: the most of all layers. */
int32_t most_kv_heads(const struct hparams *);
/* Tokens that a query of a layer attends to; 0 = all. A layer with a window reads its window under every cache policy:
 * nothing is selected there, no policy observes it. */
int32_t layer_window(const struct hparams *, int32_t layer);
/* Layers without a window. */
int32_t layers_unwindowed(const struct hparams *);
/* Frequencies that a layer's queries and keys are rotated by; NULL: they are not rotated. */
const struct rope_freqs *model_rope(const struct hparams *, int32_t layer);

#endif
