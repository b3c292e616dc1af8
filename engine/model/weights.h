/* engine/model/weights.h (private to engine/) - a loaded model: hyper-parameters, and weights bound to a backend.
 *
 * One struct is used for all families: a layer's spec (arch.h) defines which tensors the layer has. Names and shapes of
 * all tensors are checked when they are bound, and not again later. */
#ifndef WEIR_WEIGHTS_H
#define WEIR_WEIGHTS_H

#include "engine/base/base.h"
#include "engine/gguf/gguf.h"
#include "engine/model/hparams.h"
#include "kernels/backend.h"

/* What a LoRA adapter adds to a weight matrix W [rows][cols]: the product of the matrices `b` and `a` (lora.h). If
 * a.data is NULL, nothing is added. */
struct lora {
	struct tensor a, b; /* f32 [rank][cols], f32 [rows][rank] */
};
enum lora_target { LORA_Q, LORA_K, LORA_V, LORA_OUT, LORA_GATE, LORA_UP, LORA_DOWN, LORA_TARGETS };

/* The tensors of one layer, with their shapes [rows][cols]. If the member `data` of a tensor is NULL, the layer has no
 * such tensor. Vectors are f32. In the shapes, "conv columns" means the result of layer_conv(), "mixed columns" the
 * result of layer_mixed(), and "value heads" attn_spec.n_value_head. The other names in the shapes are members of
 * struct attn_spec (such as value_dim, taps), struct ffn_spec (width, shared, n_expert) or struct hparams. */
struct layer {
	struct tensor attn_norm; /* [1][n_embd] */
	/* `wq` is [n_head * head_dim][n_embd], or has twice this number of rows for gated attention; `wk` and `wv` are
	 * [n_kv_head * head_dim][n_embd] */
	struct tensor wq, wk, wv;
	struct tensor bq, bk, bv; /* [1][rows of the matrix] */
	/* [1][head_dim], or [1][heads * head_dim] if attn_spec.qk_norm_whole is 1 */
	struct tensor q_norm, k_norm;
	struct tensor wo, bo;         /* [n_embd][n_head * head_dim], [1][n_embd] */
	struct tensor attn_post_norm; /* [1][n_embd] */
	struct tensor ffn_norm;       /* [1][n_embd] */
	/* the matrices of a dense feed-forward; `gate` and `up` are [width][n_embd], `down` is [n_embd][width] */
	struct tensor gate, up, down;
	struct tensor ffn_post_norm;               /* [1][n_embd] */
	struct tensor v_norm;                      /* [1][head_dim] ones, if the layer has a norm of its values */
	struct tensor router_scale, expert_scales; /* [1][n_embd], [1][n_expert] */
	struct tensor dense_post_norm, experts_norm, experts_post_norm; /* [1][n_embd] */
	struct tensor input_gate, input_out, input_norm; /* [n_input][n_embd], [n_embd][n_input], [1][n_embd] */
	/* factor on the layer's output; 1 if the file has no such factor */
	float out_scale;
	struct tensor sinks; /* [1][n_head] */
	/* shapes: [3 * n_embd][n_embd], f32 [conv columns][taps], [n_embd][n_embd] */
	struct tensor conv_in, conv, conv_out;
	struct tensor router, router_bias;     /* [n_expert][n_embd], [1][n_expert] */
	struct tensor delta_in, delta_gate;    /* [conv columns][n_embd], [value heads * value_dim][n_embd] */
	struct tensor delta_alpha, delta_beta; /* [value heads][n_embd] */
	/* Only for a state space. Such a layer also has delta_gate (its gate), delta_alpha (its time steps), delta_norm
	 * [1][mixed columns] and delta_decay [value heads][1]. */
	struct tensor conv_bias, space_skip; /* [1][conv columns], [value heads][1] */
	/* [2 * value heads][n_embd]; replaces delta_beta and delta_alpha in some models */
	struct tensor delta_beta_alpha;
	struct tensor delta_dt, delta_decay;               /* [1][value heads] */
	struct tensor delta_norm, delta_out;               /* [1][value_dim], [n_embd][value heads * value_dim] */
	struct tensor shared_gate, shared_up, shared_down; /* [shared][n_embd], [shared][n_embd], [n_embd][shared] */
	struct tensor shared_router;                       /* [1][n_embd] */
	struct tensor probs_bias;                          /* [1][n_expert] */
	struct expert *expert;                             /* [n_expert]; NULL: no experts */
	struct tensor expert_table;                        /* for experts(); result of expert_table() */
	/* what a LoRA adapter adds to wq, wk, wv, wo, gate, up, down */
	struct lora lora[LORA_TARGETS];
};

struct model {
	struct hparams hp;
	struct backend *be;                 /* borrowed */
	struct layer *layer;                /* [n_layer] */
	struct tensor embd;                 /* [n_vocab][n_embd], of which single rows can be read */
	struct tensor out_norm;             /* f32 [1][n_embd] */
	struct tensor input_embd;           /* [n_vocab][n_layer * n_input], of which single rows can be read */
	struct tensor input_in, input_norm; /* [n_layer * n_input][n_embd], f32 [1][n_input] */
	struct tensor output;               /* [n_vocab][n_embd] */
	int tied;                           /* 1: `output` is the embedding matrix */
	uint64_t weight_bytes;              /* size of all weights in bytes, as loaded */
	uint64_t n_params;                  /* number of weights */
	uint64_t bytes_per_token;           /* number of bytes of weights that are read to compute one token */
	/* [n_converted] memory of converted weights that the backend reads in place: ternary weights as Q2_K, adapters
	 * as f32 */
	void **converted;
	size_t n_converted;
	uint64_t lora_hash; /* hash of the adapter and its scale; 0: no adapter */
};

/* A callback for progress. After each tensor, fn is called with the number of bytes loaded so far, `total` and ud. */
struct bind_watch {
	void (*fn)(uint64_t done, uint64_t total, void *ud);
	void *ud;
	uint64_t total; /* size of all weights in bytes */
};
/* Bind every tensor: find it by name, check its shape, pass it to the backend. m->hp must be complete, and g must stay
 * open as long as m is used. If `be` is NULL, only check the tensors; the model can then be bound again. `watch` may be
 * NULL. On failure, free everything that was bound. */
int model_bind(struct model *, struct gguf *g, struct backend *be, const struct bind_watch *watch, struct err *);
void model_release(struct model *);
/* Find the matrix 'blk.LAYER.NAME' of the model's file. The rows of some matrices are divided among several tensors
 * of struct layer, and p is the index of one of these tensors. Return 1, and set *at to the offset of this tensor in
 * struct layer, and *rows and *cols to its shape. Return 0 if there is no such matrix or tensor. */
int model_matrix(const struct model *, int32_t layer, struct view name, int p, size_t *at, int32_t *rows,
                 int32_t *cols);

#endif
