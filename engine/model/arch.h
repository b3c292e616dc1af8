/* engine/model/arch.h (private to engine/) - model families as rows of a table, and the specs of layers.
 *
 * The file's key general.architecture is the name of the family, which is one row of archs[]. The row defines how RoPE
 * pairs values, and which tensors layers must or may have. It also has a function that sets everything else in which
 * the family's layers differ from plain layers.
 *
 * hparams_read() fills one struct layer_spec per layer. Forward pass, weights and cache read only these specs, never
 * the family. layer_spec_check() refuses a model whose specs the kernels cannot compute. */
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
	TENSOR_PROBS_BIAS, /* added to the router's scores to choose experts; it does not change the experts' weights */
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
	/* state space; such layers also have TENSOR_DELTA_CONV, TENSOR_DELTA_DT and TENSOR_DELTA_OUT */
	TENSOR_SPACE_IN,
	TENSOR_SPACE_CONV_BIAS,
	TENSOR_SPACE_DECAY,
	TENSOR_SPACE_SKIP,
	TENSOR_SPACE_NORM,
	/* replaces TENSOR_DELTA_BETA and TENSOR_DELTA_ALPHA. Each key head has two groups of rows: first the betas of
	 * its value heads, then their alphas. */
	TENSOR_DELTA_BETA_ALPHA,
	/* shared expert, which is computed for every token */
	TENSOR_SHARED_GATE,
	TENSOR_SHARED_UP,
	TENSOR_SHARED_DOWN,
	TENSOR_SHARED_ROUTER,
	TENSOR_QKV,           /* TENSOR_Q, TENSOR_K and TENSOR_V in one matrix */
	TENSOR_GATE_UP,       /* TENSOR_GATE and TENSOR_UP in one matrix */
	TENSOR_GATE_UP_EXPS,  /* TENSOR_GATE_EXPS and TENSOR_UP_EXPS as one matrix per expert */
	TENSOR_ROUTER_SCALE,  /* factors on the router's input */
	TENSOR_EXPERT_SCALES, /* one factor per expert, on the expert's output */
	/* norms of a layer with both a dense feed-forward and experts */
	TENSOR_DENSE_POST_NORM,
	TENSOR_EXPERTS_NORM,
	TENSOR_EXPERTS_POST_NORM,
	TENSOR_OUT_SCALE, /* factor on the output of the layer */
	/* per-layer input: a vector per token and layer, which is added to the residual stream in this layer */
	TENSOR_INPUT_GATE,
	TENSOR_INPUT_OUT,
	TENSOR_INPUT_NORM,
	LAYER_TENSORS
};
#define TENSOR_BIT(t) (UINT64_C(1) << (t))

/* How a layer mixes the vectors of different tokens.
 * ATTN_SOFTMAX  attention
 * ATTN_NONE     not supported
 * ATTN_CONV     a gated short convolution
 * ATTN_DELTA    a short convolution and the gated delta rule
 * ATTN_SPACE    a short convolution and a state space (Mamba-2)
 * Layers of the last three kinds have a recurrent state of fixed size (recurrent.h) and no KV cache. */
enum attn_kind { ATTN_SOFTMAX, ATTN_NONE, ATTN_CONV, ATTN_DELTA, ATTN_SPACE };
enum ffn_kind { FFN_DENSE, FFN_EXPERTS };
enum { ROPE_NONE = -1 };

struct attn_spec {
	enum attn_kind kind;
	int32_t n_head, n_kv_head, head_dim;
	/* 0: the layer has its own keys and values; n: it reads the keys and values of the n-th layer before it */
	int32_t borrows;
	int32_t rope;      /* index of the RoPE table in hp->rope[]; ROPE_NONE: no RoPE */
	int32_t window;    /* number of tokens that a query attends to, its own included; 0: all tokens */
	float scale;       /* factor on the scores, usually 1/sqrt(head_dim) */
	float softcap;     /* scores become softcap * tanh(score / softcap); 0: scores are not changed */
	int sinks;         /* 1: the softmax includes an attention sink, a learned score per query head */
	int qk_norm_whole; /* norm of queries and of keys; 1: over all heads together; 0: over each head by itself */
	int v_norm;        /* 1: each head's values are normed, without weights */
	int v_from_k;      /* 1: if the layer has no TENSOR_V, its values are its keys before norm and RoPE */
	/* 1: TENSOR_Q also gives a gate after each head's query; attention's output is multiplied by sigmoid(gate) */
	int gated;
	int32_t taps; /* number of tokens that the short convolution spans */
	/* In a layer of kind ATTN_DELTA there are n_key_head key heads of size key_dim, and n_value_head value heads of
	 * size value_dim. In a layer of kind ATTN_SPACE there are n_key_head groups and n_value_head heads; the state
	 * of a head has key_dim rows and value_dim columns. */
	int32_t n_key_head, n_value_head, key_dim, value_dim;
	/* For ATTN_DELTA: which value heads share key head k. 1: consecutive value heads; 0: the heads k, k +
	 * n_key_head, k + 2 * n_key_head, and so on. */
	int grouped;
};

struct ffn_spec {
	enum ffn_kind kind;
	enum activation act;
	/* number of columns of the hidden vector; in a layer with experts, of each expert's hidden vector */
	int32_t width;
	int32_t shared; /* number of columns of the shared expert's hidden vector; 0: no shared expert */
	/* number of columns of the hidden vector of a dense feed-forward, which is added to the experts' output; 0:
	 * none */
	int32_t dense;
	/* Each token uses the n_used experts, of n_expert, with the highest scores. Unless `whole` or `sigmoid` is set,
	 * the experts' weights are a softmax over these n_used scores. */
	int32_t n_expert, n_used;
	/* 1: the weights are a softmax over the scores of all experts, so the weights of the n_used experts add up to
	 * less than 1 */
	int whole;
	/* 1: experts are chosen by sigmoid(score) + bias (TENSOR_PROBS_BIAS). Their weights are sigmoid(score) / (sum
	 * of the chosen sigmoids + 1e-6). */
	int sigmoid;
};

struct layer_spec {
	struct attn_spec attn;
	struct ffn_spec ffn;
	/* factor in x += residual_scale * out, where `out` is the output of attention or of the feed-forward */
	float residual_scale;
	/* Sets of tensors, as bits of enum layer_tensor. The layer must have all tensors of the set `required`, and may
	 * have those of the set `optional`. A file with any other tensor in the layer is refused. A bias or a norm is
	 * computed if its tensor exists. There may be norms before attention and feed-forward (TENSOR_ATTN_NORM,
	 * TENSOR_FFN_NORM), after them (_POST_NORM), or both. */
	uint64_t required, optional;
};

struct arch {
	const char *name; /* value of general.architecture */
	int neox;         /* 1: RoPE rotates the pairs (j, j + dims/2); 0: the pairs (2j, 2j + 1) */
	/* the value of rope.scaling.yarn_log_multiplier if the file does not have this key */
	double yarn_log_multiplier;
	/* 1: YaRN's ramp may begin and end between two pairs; 0: its ends are rounded to whole pairs */
	int yarn_exact;
	uint64_t required, optional; /* tensors of a plain layer, as in struct layer_spec */
	const char *out_norm;        /* name of the tensor of the norm before the logits; NULL: output_norm.weight */
	/* 1: a layer has a recurrent state if attention.head_count_kv gives it 0 KV heads */
	int states;
	/* 1: the number of KV heads and the width of the feed-forward may differ between layers */
	int differ;
	/* Function that adapts the plain specs hp->spec[] of the n_layer layers and the model's factors to the family.
	 * It may read keys of the file and add RoPE tables. It returns 0, or -1 with the reader's error set. If the
	 * pointer is NULL, all layers are plain. */
	int (*specs)(struct hparams *, struct key_reader *);
};
extern const struct arch archs[]; /* the last row has name = NULL */

/* Fill hp->spec with plain layers. A plain layer has the family's tensors, the model's heads, RoPE table 0, scale
 * 1/sqrt(head_dim), and a SiLU-gated feed-forward of width n_ff. */
void layer_specs_plain(struct hparams *);
/* Return 0 if the kernels can compute the layer. Otherwise return -1 with an error (ERR_MODEL) that names the layer. */
int layer_spec_check(const struct hparams *, int32_t layer, struct err *);
/* Return the name of a feature that some layer needs and that the backend does not have, or NULL if the backend has all
 * features. `lacks` is the field backend_ops.lacks. */
const char *layer_specs_lacked(const struct hparams *, unsigned lacks);
/* Append lines of text that describe how the model differs from a model of plain layers: scales of embeddings and
 * logits; n_input; temperature; logit_softcap; layers that are not plain. A property with its default value is omitted.
 * A snapshot fits the model only if these lines are equal. */
void layer_specs_identity(const struct hparams *, struct str *out);

const struct layer_spec *model_layer_spec(const struct hparams *, int32_t layer);
/* 1 if the layer computes attention, 0 if it has a recurrent state instead. */
int layer_attends(const struct hparams *, int32_t layer);
/* Return the number of columns of the layer's short convolution, or 0 if the layer has none. */
int32_t layer_conv(const struct hparams *, int32_t layer);
/* Return the number of columns of the vector that the layer's output matrix multiplies. This vector is the result of
 * attention, or of the layer's recurrent operation. */
int32_t layer_mixed(const struct hparams *, int32_t layer);
/* Return the model without its recurrent layers. The KV cache has only the layers of this model. */
const struct hparams *model_kv(const struct hparams *);
/* Return the layer whose KV entries this layer attends to: this layer itself, or an earlier layer
 * (attn_spec.borrows). */
int32_t layer_entries(const struct hparams *, int32_t layer);
/* Return the number of layers with KV entries of their own. These layers come first. All layers that read another
 * layer's entries come after them. */
int32_t layers_with_entries(const struct hparams *);
/* Return the number of layers that have KV entries of their own and no window. Retention policies evict entries only
 * from these layers. */
int32_t layers_retained(const struct hparams *);
/* Return the largest number of columns of any layer's queries, or of any layer's keys. */
int32_t widest_queries(const struct hparams *);
int32_t widest_keys(const struct hparams *);
/* Return the largest number of KV heads of any layer. */
int32_t most_kv_heads(const struct hparams *);
/* Return how many tokens a query of the layer attends to; 0 means all tokens. A layer with a window always reads its
 * whole window: cache policies do not apply to it. */
int32_t layer_window(const struct hparams *, int32_t layer);
/* Return the number of layers without a window. */
int32_t layers_unwindowed(const struct hparams *);
/* Return the RoPE frequencies for a layer's queries and keys, or NULL if the layer has no RoPE. */
const struct rope_freqs *model_rope(const struct hparams *, int32_t layer);

#endif
