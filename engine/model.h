/* engine/model.h (private to engine/) - hyper-parameters and weights of a loaded model.
 *
 * One structure for every family: a family differs by tensor names that are optional (biases, per-head
 * norms) and by the rotary pairing, not by code.  Everything read from the file is checked here; the
 * forward pass (forward.c) trusts it. */
#ifndef WEIR_MODEL_H
#define WEIR_MODEL_H

#include "engine/base.h"
#include "engine/gguf.h"
#include "kernels/backend.h"

struct arch {
	const char *name;        /* general.architecture */
	int neox;                /* rotary pairs are (j, j + dims/2) instead of (2j, 2j + 1) */
	int qkv_bias, qk_norm;   /* required by the family; elsewhere biases are used when present */
};
extern const struct arch archs[];   /* ends with name = NULL */

enum { CTX_MAX = 1 << 26 };  /* tokens: more no file asks for and no cache holds */

struct hparams {
	const struct arch *arch;
	int32_t n_layer, n_embd, n_ff, n_head, n_kv_head, head_dim, ctx_train;
	int32_t n_vocab;         /* set by the owner, from the vocabulary */
	float eps;
	int32_t rope_dims;
	double rope_base;
	const char *rope_scaling;    /* "none", "linear", "yarn", "llama3" */
	double *rope_freq;           /* [rope_dims / 2] radians per position, scaling included */
	double rope_mscale;          /* YaRN: factor on cos and sin */
};

struct layer {
	struct tensor attn_norm;               /* f32 [1][n_embd] */
	struct tensor wq, wk, wv;              /* [n_head|n_kv_head * head_dim][n_embd] */
	struct tensor bq, bk, bv;              /* f32 [1][rows]; data NULL = none */
	struct tensor q_norm, k_norm;          /* f32 [1][head_dim]; data NULL = none */
	struct tensor wo, bo;                  /* [n_embd][n_head * head_dim] */
	struct tensor ffn_norm;                /* f32 [1][n_embd] */
	struct tensor gate, up, down;          /* [n_ff][n_embd] twice, [n_embd][n_ff] */
};

struct model {
	struct hparams hp;
	struct backend *be;          /* borrowed */
	struct layer *layer;         /* [n_layer] */
	struct tensor embd;          /* [n_vocab][n_embd], readable by row */
	struct tensor out_norm;      /* f32 [1][n_embd] */
	struct tensor output;        /* [n_vocab][n_embd]; from the embedding when tied */
	int tied;
	uint64_t weight_bytes, n_params, bytes_per_token;
};

/* Read and check the hyper-parameters, all but n_vocab. */
int  hparams_read(struct hparams *, const struct gguf *, struct err *);
void hparams_free(struct hparams *);
/* Called after each tensor with the bytes that the backend has by then. */
struct bind_watch { void (*fn)(uint64_t done, uint64_t total, void *ud); void *ud; uint64_t total; };
/* Bind every tensor: looked up by name, its shape checked, then given to the backend (be = NULL: checked only, and
 * may be bound again).  m->hp must be complete; g must outlive the model; watch may be NULL.  On failure everything is released. */
int  model_bind(struct model *, const struct gguf *g, struct backend *be, const struct bind_watch *watch, struct err *);
void model_release(struct model *);

#endif
