/* engine/model/hparams.h (private to engine/) - the hyper-parameters of a model, read from its file and checked.
 *
 * Forward pass and cache use these numbers and the layer specs (arch.h) without checking them again. */
#ifndef WEIR_HPARAMS_H
#define WEIR_HPARAMS_H

#include "engine/model/arch.h"
#include "engine/base/base.h"
#include "engine/gguf/gguf.h"

#define ROPE_FACTORS       "rope_freqs.weight"
#define ROPE_FACTORS_SHORT "rope_factors_short.weight"
#define ROPE_FACTORS_LONG  "rope_factors_long.weight"

enum {
	CTX_MAX = 1 << 26, /* largest context, in tokens, of a file and of a cache */
	ROPE_TABLES_MAX = 2,
};

/* The frequencies by which RoPE rotates queries and keys. */
struct rope_freqs {
	/* number of values of a head that are rotated, from the first one on; the others are not rotated */
	int32_t dims;
	/* 1: the value with index j is rotated together with value j + dims/2; 0: value 2j is rotated together with
	 * value 2j + 1 */
	int neox;
	double base; /* base of the frequencies: pair j has the frequency base^(-2j / dims) before scaling */
	/* scaling of the frequencies: "none", "linear", "yarn", "llama3", "longrope" or "proportional" */
	const char *scaling;
	double *freq;  /* [dims / 2] radians per position, after scaling */
	double mscale; /* factor on cos and sin, from YaRN or LongRoPE; 1 for other scalings */
	/* for LongRoPE, the [dims / 2] frequencies that replace `freq` if the cache is opened for more than short_most
	 * positions; NULL for other scalings */
	double *freq_long;
	int32_t short_most; /* largest number of positions for which `freq` is used */
};

struct hparams {
	const struct arch *arch;
	/* n_ff is the width of the widest feed-forward. n_kv_head and head_dim are the values for layers without a
	 * window. ctx_train is the context length in training, in tokens. */
	int32_t n_layer, n_embd, n_ff, n_head, n_kv_head, head_dim, ctx_train;
	int32_t n_unused; /* number of unused layers at the end of the file, not counted in n_layer */
	int32_t n_vocab;  /* number of tokens in the vocabulary; set by the owner */
	/* hash of the model's sizes and of the weights that quantization leaves unchanged; set by engine.c; 0: no
	 * weights are loaded */
	uint64_t fingerprint;
	/* number of experts in a layer, and of experts per token; both are 0 in a model without experts */
	int32_t n_expert, n_expert_used;
	float eps;                     /* epsilon of all RMS norms */
	float embd_scale, logit_scale; /* factors on the embeddings and on the logits, usually 1 */
	int32_t lora_rank;             /* highest rank of a matrix in the loaded LoRA adapter; 0: no adapter */
	int32_t n_input;               /* number of columns of a per-layer input; 0: the model has no such inputs */
	/* If temperature is not 0, queries are multiplied by 1 + temperature * ln(1 + floor(position /
	 * temperature_length)). */
	double temperature;
	int32_t temperature_length;
	float logit_softcap; /* logits become logit_softcap * tanh(logit / logit_softcap); 0: logits are not changed */
	struct rope_freqs rope[ROPE_TABLES_MAX];
	int32_t n_rope;
	struct layer_spec *spec; /* [n_layer] */
	/* The next two members are for models in which some layers have a recurrent state in place of KV entries. In
	 * other models they are NULL. */
	struct hparams *kv; /* the model without its recurrent layers, for the KV cache: model_kv() */
	int32_t *kv_layer;  /* [n_layer] index of each layer in `kv`; -1: the layer has a recurrent state */
};

/* Read and check all hyper-parameters except n_vocab and fingerprint, which the caller sets later. */
int hparams_read(struct hparams *, const struct gguf *, struct err *);
/* Read the hyper-parameters as if the model were of this family. The names of keys begin with arch->name, and
 * general.architecture is ignored. */
int hparams_read_as(struct hparams *, const struct arch *, const struct gguf *, struct err *);
void hparams_free(struct hparams *);

/* ---- reading keys of a model file (model_keys.c), for hparams.c, rope_freqs.c and the functions of families ---- */

struct key_reader {
	const struct gguf *g;
	const struct arch *arch;
	struct err *err;
	char key[96];
};

/* Return the name of a key, "ARCH.suffix". It is valid until the next call. */
const char *key_name(struct key_reader *, const char *suffix);
int key_has(struct key_reader *, const char *suffix);
/* Read a number from min to max into *out and return 0. If the key is absent, set *out to `fallback`. If `fallback` is
 * below min, an absent key is an error. Return -1 on error. */
int key_int(struct key_reader *, const char *suffix, int64_t min, int64_t max, int64_t fallback, int32_t *out);
int key_real(struct key_reader *, const char *suffix, double min, double max, double fallback, double *out);
/* Read a bool as 0 or 1 into *out and return 0. If the key is absent, set *out to `fallback`. Return -1 on error. */
int key_flag(struct key_reader *, const char *suffix, int fallback, int32_t *out);
/* Do what key_int() does, for one layer. The value of the key is one number for all layers, or an array with one number
 * per layer. */
int key_int_of(struct key_reader *, const char *suffix, int32_t layer, int64_t min, int64_t max, int64_t fallback,
               int32_t *out);
/* Set the error "'KEY' REST" and return -1. `rest` is a printf format. If the file has the key, the error message also
 * has the key's byte offset. */
int key_bad(struct key_reader *, const char *suffix, const char *rest, ...) __attribute__((format(printf, 3, 4)));

/* Fill hp->rope[0]: base, dimensions, scaling (rope_freqs.c). */
int rope_freqs_read(struct key_reader *, struct hparams *);
/* Add an unscaled RoPE table with this base, for the first `dims` values of a head, and return its index. If all
 * ROPE_TABLES_MAX tables are used, return an index that layer_spec_check() refuses. */
int32_t rope_freqs_add(struct hparams *, int32_t dims, double base);

#endif
