/* engine/model/hparams.h (private to engine/) - hyper-parameters of a model, read from its file and checked.
 *
 * Everything that the forward pass and the cache compute with is here or in the layers' specs (arch.h); both trust
 * it. */
#ifndef WEIR_HPARAMS_H
#define WEIR_HPARAMS_H

#include "engine/model/arch.h"
#include "engine/base/base.h"
#include "engine/gguf/gguf.h"

#define ROPE_FACTORS       "rope_freqs.weight"
#define ROPE_FACTORS_SHORT "rope_factors_short.weight"
#define ROPE_FACTORS_LONG  "rope_factors_long.weight"

enum {
	CTX_MAX = 1 << 26, /* longest context in tokens, of a file and of a cache */
	ROPE_TABLES_MAX = 2,
	EXPERTS_MAX = 1024,
};

/* How positions rotate queries and keys. */
struct rope_freqs {
	int32_t dims; /* the first values of a head are rotated, the others are not */
	int neox;     /* pairs are (j, j + dims/2) instead of (2j, 2j + 1) */
	double base;
	const char *scaling; /* "none", "linear", "yarn", "llama3", "longrope" */
	double *freq;        /* [dims / 2] radians per position, scaling included */
	double mscale;       /* YaRN, LongRoPE: factor on cos and sin */
	/* LongRoPE: a cache of more than short_most positions rotates by these frequencies; NULL: there is one set. */
	double *freq_long;
	int32_t short_most;
};

struct hparams {
	const struct arch *arch;
	/* n_ff: of the widest layer. n_kv_head, head_dim: of the layers without a window, where cache policies select;
	 * others may have their own in their specs. */
	int32_t n_layer, n_embd, n_ff, n_head, n_kv_head, head_dim, ctx_train;
	int32_t n_unused; /* layers of the file behind those */
	int32_t n_vocab;  /* set by the owner, from the vocabulary */
	/* the same: of sizes, and of the weights that every quantisation keeps as they are; 0: no weights loaded */
	uint64_t fingerprint;
	int32_t n_expert, n_expert_used; /* 0 and 0: the feed-forward is dense */
	float eps;
	float embd_scale, logit_scale; /* factors on the embeddings and on the logits, usually 1 */
	int32_t lora_rank;             /* the highest of an adapter's; 0 = there is none */
	int32_t n_input; /* columns of the input that each layer has beside the residual stream; 0 = none */
	/* Queries are multiplied by 1 + temperature * ln(1 + floor(position / temperature_length)); 0 = not */
	double temperature;
	int32_t temperature_length;
	float logit_softcap; /* logits become logit_softcap * tanh(logit / logit_softcap); 0 = as they are */
	struct rope_freqs rope[ROPE_TABLES_MAX];
	int32_t n_rope;
	struct layer_spec *spec; /* [n_layer] */
	/* Where some layers have a recurrent state instead of a KV cache; else NULL: */
	struct hparams *kv; /* see model_kv() */
	int32_t *kv_layer;  /* [n_layer] the layer's index there; -1: it has a state */
};

/* Read and check the hyper-parameters, all but n_vocab. */
int hparams_read(struct hparams *, const struct gguf *, struct err *);
/* The same for a given family, whatever general.architecture says: its keys begin with arch->name. */
int hparams_read_as(struct hparams *, const struct arch *, const struct gguf *, struct err *);
void hparams_free(struct hparams *);

/* ---- model_keys.c: keys of one file, for hparams.c, rope_freqs.c and the families' functions ---- */

struct key_reader {
	const struct gguf *g;
	const struct arch *arch;
	struct err *err;
	char key[96];
};

/* "ARCH.suffix", valid until the next call. */
const char *key_name(struct key_reader *, const char *suffix);
int key_has(struct key_reader *, const char *suffix);
/* A number within [min, max].  fallback < min: the key is required. */
int key_int(struct key_reader *, const char *suffix, int64_t min, int64_t max, int64_t fallback, int32_t *out);
int key_real(struct key_reader *, const char *suffix, double min, double max, double fallback, double *out);
/* 0 or 1. */
int key_flag(struct key_reader *, const char *suffix, int fallback, int32_t *out);
/* The same of one layer: the key holds one number for all layers, or one for each. */
int key_int_of(struct key_reader *, const char *suffix, int32_t layer, int64_t min, int64_t max, int64_t fallback,
               int32_t *out);
/* Fail with "'KEY' REST", and the key's byte offset where the key is in the file.  Returns -1. */
int key_bad(struct key_reader *, const char *suffix, const char *rest, ...) __attribute__((format(printf, 3, 4)));

/* Read table 0: base, dimensions, scaling. */
int rope_freqs_read(struct key_reader *, struct hparams *);
/* Add a table with another base, for so many values of a head, and no scaling, for layers that use one. Returns its
 * index; where ROPE_TABLES_MAX are in use, one that layer_spec_check() refuses. */
int32_t rope_freqs_add(struct hparams *, int32_t dims, double base);

#endif
