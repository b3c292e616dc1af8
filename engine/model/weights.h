/* engine/model/weights.h (private to engine/) - a loaded model: its hyper-parameters and its weights, bound to a
 * backend.
 *
 * One structure for every family: which tensors a layer has is in its spec (arch.h). Names and shapes of all tensors
 * are checked here; the forward pass trusts them. */
#ifndef WEIR_WEIGHTS_H
#define WEIR_WEIGHTS_H

#include "engine/base/base.h"
#include "engine/gguf/gguf.h"
#include "engine/model/hparams.h"
#include "kernels/backend.h"

struct expert {
	struct tensor gate, up, down;                /* [width][n_embd] twice, [n_embd][width] */
	struct tensor gate_bias, up_bias, down_bias; /* [1][rows] */
};

/* The change of a weight matrix W by an adapter (lora.h): W + b a. */
struct lora {
	struct tensor a, b;
}; /* f32 [rank][cols], [rows][rank]; data NULL: none */
enum lora_place { LORA_Q, LORA_K, LORA_V, LORA_OUT, LORA_GATE, LORA_UP, LORA_DOWN, LORA_PLACES };

/* data NULL = the layer has no such tensor.  Vectors are f32. */
struct layer {
	struct tensor attn_norm; /* [1][n_embd] */
	/* [n_head|n_kv_head * head_dim][n_embd]; wq twice as many rows where attention is gated */
	struct tensor wq, wk, wv;
	struct tensor bq, bk, bv;     /* [1][rows] */
	struct tensor q_norm, k_norm; /* [1][head_dim], or of all heads */
	struct tensor wo, bo;         /* [n_embd][n_head * head_dim] */
	struct tensor attn_post_norm; /* [1][n_embd] */
	struct tensor ffn_norm;       /* [1][n_embd] */
	/* [width][n_embd] twice, [n_embd][width]; of the dense one beside experts */
	struct tensor gate, up, down;
	struct tensor ffn_post_norm;               /* [1][n_embd] */
	struct tensor v_norm;                      /* [1][head_dim] ones, where values are normed */
	struct tensor router_scale, expert_scales; /* [1][n_embd], [1][n_expert] */
	struct tensor dense_post_norm, experts_norm, experts_post_norm; /* [1][n_embd] */
	struct tensor input_gate, input_out, input_norm; /* [n_input][n_embd], [n_embd][n_input], [1][n_embd] */
	float out_scale;                                 /* on what the layer hands on; 1 where the file has none */
	struct tensor sinks;                             /* [1][n_head] */
	struct tensor conv_in, conv, conv_out; /* [3 * n_embd][n_embd], f32 [conv columns][taps], [n_embd][n_embd] */
	struct tensor router, router_bias;     /* [n_expert][n_embd] */
	struct tensor delta_in, delta_gate;    /* [conv columns][n_embd], [value heads * value_dim][n_embd] */
	struct tensor delta_alpha, delta_beta; /* [value heads][n_embd] */
	/* Of a state space, which has its gate in delta_gate, its steps in delta_alpha, and delta_dt, delta_decay,
	 * delta_norm [1][mixed]. */
	struct tensor conv_bias, space_skip;               /* [1][conv columns], [value heads][1] */
	struct tensor delta_beta_alpha;                    /* [2 * value heads][n_embd], in their place */
	struct tensor delta_dt, delta_decay;               /* [1][value heads] */
	struct tensor delta_norm, delta_out;               /* [1][value_dim], [n_embd][value heads * value_dim] */
	struct tensor shared_gate, shared_up, shared_down; /* [shared][n_embd] twice, [n_embd][shared] */
	struct tensor shared_router;                       /* [1][n_embd] */
	struct tensor probs_bias;                          /* [1][n_expert] */
	struct expert *expert;                             /* [n_expert]; NULL: the feed-forward is dense */
	struct lora lora[LORA_PLACES];                     /* of wq, wk, wv, wo, gate, up, down */
};

struct model {
	struct hparams hp;
	struct backend *be;                 /* borrowed */
	struct layer *layer;                /* [n_layer] */
	struct tensor embd;                 /* [n_vocab][n_embd], readable by row */
	struct tensor out_norm;             /* f32 [1][n_embd] */
	struct tensor input_embd;           /* [n_vocab][n_layer * n_input], readable by row */
	struct tensor input_in, input_norm; /* [n_layer * n_input][n_embd], f32 [1][n_input] */
	struct tensor output;               /* [n_vocab][n_embd]; from the embedding when tied */
	int tied;
	uint64_t weight_bytes, n_params, bytes_per_token;
	/* [n_converted]: weights of ternary types as Q2_K, and adapters, where the backend reads them in place */
	void **converted;
	size_t n_converted;
	uint64_t lora_hash; /* of the adapter and its scale; 0: there is none */
};

/* Called after each tensor with the bytes that the backend has by then. */
struct bind_watch {
	void (*fn)(uint64_t done, uint64_t total, void *ud);
	void *ud;
	uint64_t total;
};
/* Bind every tensor: looked up by name, its shape checked, then given to the backend (be = NULL: checked only, and may
 * be bound again). m->hp must be complete; g must outlive the model; watch may be NULL. On failure everything is
 * released. */
int model_bind(struct model *, struct gguf *g, struct backend *be, const struct bind_watch *watch, struct err *);
void model_release(struct model *);
/* The matrix 'blk.LAYER.NAME' of this family's files: its part p, from 0, is the field `at` of struct layer,
 * [*rows][*cols]. 0: there is no such matrix, or part. */
int model_matrix(const struct model *, int32_t layer, struct view name, int p, size_t *at, int32_t *rows,
                 int32_t *cols);

#endif
