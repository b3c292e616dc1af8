/* engine/model/arch.h (private to engine/) - families of models as rows of a table, layers as data.
 *
 * A family (general.architecture) is one row of archs[]: its name, how RoPE pairs values, the tensors that its layers
 * must or may have, and a function for all other differences from a plain layer. hparams_read() fills one struct
 * layer_spec per layer. The forward pass (forward.c), the weights (weights.c) and the cache read these specs and
 * never ask for the family.
 *
 * layer_spec_check() refuses a spec that the kernels cannot compute when the model is loaded. */
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
	/* norm before the feed-forward, stored under the name of TENSOR_ATTN_POST_NORM */
	TENSOR_POST_ATTN_FFN_NORM,
	TENSOR_ROUTER,
	TENSOR_ROUTER_BIAS,
	TENSOR_GATE_EXPS,
	TENSOR_UP_EXPS,
	TENSOR_DOWN_EXPS,
	TENSOR_GATE_EXPS_BIAS,
	TENSOR_UP_EXPS_BIAS,
	TENSOR_DOWN_EXPS_BIAS,
	TENSOR_PROBS_BIAS, /* added to the router's scores when experts are chosen, not when they are weighted */
	/* short convolution */
	TENSOR_CONV_IN,
	TENSOR_CONV,
	TENSOR_CONV_OUT,
	/* gated delta rule */
	TENSOR_DELTA_IN,
	TENSOR_DELTA_GATE,
	TENSOR_DELTA_CONV,
	TENSOR_DELTA_ALPHA,
	TENSOR_DELTA_BETA,
	TENSOR_DELTA_DT,
	TENSOR_DELTA_DECAY,
	TENSOR_DELTA_NORM,
	TENSOR_DELTA_OUT,
	/* state space; it also uses TENSOR_DELTA_CONV, _DT and _OUT */
	TENSOR_SPACE_IN,
	TENSOR_SPACE_CONV_BIAS,
	TENSOR_SPACE_DECAY,
	TENSOR_SPACE_SKIP,
	TENSOR_SPACE_NORM,
	/* replaces TENSOR_DELTA_BETA and _ALPHA; rows per key head: betas, then alphas of its value heads */
	TENSOR_DELTA_BETA_ALPHA,
	/* shared expert: computed for every token */
	TENSOR_SHARED_GATE,
	TENSOR_SHARED_UP,
	TENSOR_SHARED_DOWN,
	TENSOR_SHARED_ROUTER,
	TENSOR_QKV,           /* TENSOR_Q, _K and _V in one matrix */
	TENSOR_GATE_UP,       /* TENSOR_GATE and _UP in one matrix */
	TENSOR_GATE_UP_EXPS,  /* TENSOR_GATE_EXPS and _UP_EXPS in one matrix per expert */
	TENSOR_ROUTER_SCALE,  /* factors on the router's input */
	TENSOR_EXPERT_SCALES, /* a factor on the output of each expert */
	/* norms of a layer that has a dense feed-forward beside experts */
	TENSOR_DENSE_POST_NORM,
	TENSOR_EXPERTS_NORM,
	TENSOR_EXPERTS_POST_NORM,
	TENSOR_OUT_SCALE, /* factor on the output of the layer */
	/* per-layer input: a vector of the token, besides the residual stream */
	TENSOR_INPUT_GATE,
	TENSOR_INPUT_OUT,
	TENSOR_INPUT_NORM,
	LAYER_TENSORS
};
#define TENSOR_BIT(t) (UINT64_C(1) << (t))

/* How a layer mixes tokens. ATTN_SOFTMAX: attention. ATTN_CONV: a gated short convolution. ATTN_DELTA: a short
 * convolution and the gated delta rule. ATTN_SPACE: a short convolution and a state space (Mamba-2). These three have
 * a recurrent state of fixed size (recurrent.h) instead of a KV cache. ATTN_NONE is not supported. */
enum attn_kind { ATTN_SOFTMAX, ATTN_NONE, ATTN_CONV, ATTN_DELTA, ATTN_SPACE };
enum ffn_kind { FFN_DENSE, FFN_EXPERTS };
enum { ROPE_NONE = -1 };

struct attn_spec {
	enum attn_kind kind;
	int32_t n_head, n_kv_head, head_dim;
	int32_t borrows;   /* distance to the earlier layer whose keys and values this one reads; 0 = its own */
	int32_t rope;      /* index of hp->rope[]; ROPE_NONE: queries and keys are not rotated */
	int32_t window;    /* tokens that a query attends to, its own included; 0 = all */
	float scale;       /* factor on the scores, usually 1/sqrt(head_dim) */
	float softcap;     /* scores become softcap * tanh(score / softcap); 0 = no cap */
	int sinks;         /* 1 = the softmax includes a learned sink per query head */
	int qk_norm_whole; /* 1 = norms of Q and K span all heads; 0 = each head by itself */
	int v_norm;        /* 1 = values are normed, each head by itself, without weights */
	int v_from_k;      /* 1 = without TENSOR_V, values are the keys before norm and rotation */
	int gated;         /* 1 = TENSOR_Q has a gate after each head's query; the output is times sigmoid(gate) */
	int32_t taps;      /* tokens that the short convolution spans */
	/* ATTN_DELTA: heads of the delta rule and their sizes. ATTN_SPACE: groups, heads, rows and columns of a
	 * head's state. */
	int32_t n_key_head, n_value_head, key_dim, value_dim;
	/* ATTN_DELTA. 1: the value heads of key head k are consecutive. 0: they are k, k + n_key_head, ... */
	int grouped;
};

struct ffn_spec {
	enum ffn_kind kind;
	enum activation act;
	int32_t width;  /* columns of the hidden vector; with experts, of each expert */
	int32_t shared; /* width of the shared expert; 0 = none */
	int32_t dense;  /* width of a dense feed-forward whose output is added to the experts'; 0 = none */
	/* Each token uses the n_used of n_expert experts with the highest scores, weighted by a softmax over the
	 * scores of these n_used. */
	int32_t n_expert, n_used;
	int whole; /* 1 = weighted by a softmax over the scores of all experts instead; the weights' sum is below 1 */
	/* 1 = chosen by the highest sigmoid(score) + bias (TENSOR_PROBS_BIAS) instead, weighted by sigmoid(score) /
	 * (sum of the chosen ones' sigmoids + 1e-6) */
	int sigmoid;
};

struct layer_spec {
	struct attn_spec attn;
	struct ffn_spec ffn;
	float residual_scale; /* factor on the outputs of attention and feed-forward before they are added */
	/* Sets of tensors, as bits of enum layer_tensor. A file with a tensor in neither set is refused. The forward
	 * pass computes a bias or a norm if its tensor is loaded: norms before attention and feed-forward
	 * (TENSOR_ATTN_NORM, TENSOR_FFN_NORM), after them (_POST_NORM), or both. */
	uint64_t required, optional;
};

struct arch {
	const char *name;            /* general.architecture */
	int neox;                    /* RoPE rotates the pairs (j, j + dims/2) instead of (2j, 2j + 1) */
	double yarn_log_multiplier;  /* default of the key rope.scaling.yarn_log_multiplier (yarn_scale()) */
	int yarn_exact;              /* 1 = the ends of YaRN's ramp are not rounded to whole pairs */
	uint64_t required, optional; /* sets of tensors of a plain layer, as in struct layer_spec */
	const char *out_norm;        /* name of the last norm's tensor; NULL = output_norm.weight */
	int states;                  /* 1 = layers with 0 KV heads (attention.head_count_kv) have a recurrent state */
	int differ;                  /* 1 = the number of KV heads and the feed-forward's width may differ by layer */
	/* Change the plain specs hp->spec[0 .. n_layer) and the model's multipliers to those of the family. May read
	 * keys and add RoPE tables. Return 0, or -1 with the reader's error set. NULL: all layers are plain. */
	int (*specs)(struct hparams *, struct key_reader *);
};
extern const struct arch archs[]; /* the last row has name = NULL */

/* Fill hp->spec with plain layers: the family's tensors, the model's heads, RoPE table 0, scale 1/sqrt(head_dim), a
 * SiLU-gated feed-forward of width n_ff. */
void layer_specs_plain(struct hparams *);
/* Return 0 if the kernels can compute a layer, else -1 with an ERR_MODEL that names the layer. */
int layer_spec_check(const struct hparams *, int32_t layer, struct err *);
/* Return the name of something that the layers need and a backend lacks; NULL = nothing. lacks: backend_ops.lacks. */
const char *layer_specs_lacked(const struct hparams *, unsigned lacks);
/* Append a line for each layer that differs from a plain one, and for multipliers other than 1. */
void layer_specs_identity(const struct hparams *, struct str *out);

const struct layer_spec *model_layer_spec(const struct hparams *, int32_t layer);
/* 1 if the layer has a KV cache, 0 if it has a recurrent state. */
int layer_attends(const struct hparams *, int32_t layer);
/* Return the columns of a layer's short convolution; 0 = none. */
int32_t layer_conv(const struct hparams *, int32_t layer);
/* Return the columns of the input of a layer's last matrix before the feed-forward. */
int32_t layer_mixed(const struct hparams *, int32_t layer);
/* Return the model reduced to the layers that have a KV cache, as the cache sees it. */
const struct hparams *model_kv(const struct hparams *);
/* Return the layer whose KV entries a layer attends to: itself or an earlier one. */
int32_t layer_entries(const struct hparams *, int32_t layer);
/* Return the number of layers with KV entries of their own. They come before all layers that borrow entries. */
int32_t layers_with_entries(const struct hparams *);
/* Return the number of layers with KV entries of their own and without a window: the layers that evict. */
int32_t layers_retained(const struct hparams *);
/* Return the columns of the widest layer's queries, and of the widest layer's keys. */
int32_t widest_queries(const struct hparams *);
int32_t widest_keys(const struct hparams *);
/* Return the largest number of KV heads of a layer. */
int32_t most_kv_heads(const struct hparams *);
/* Return the tokens that a query of a layer attends to; 0 = all. Cache policies do not apply to a layer with a
 * window: its queries read all entries of the window. */
int32_t layer_window(const struct hparams *, int32_t layer);
/* Return the number of layers without a window. */
int32_t layers_unwindowed(const struct hparams *);
/* Return the frequencies that rotate a layer's queries and keys; NULL = they are not rotated. */
const struct rope_freqs *model_rope(const struct hparams *, int32_t layer);

#endif
