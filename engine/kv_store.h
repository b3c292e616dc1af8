/* engine/kv_store.h (private to engine/) - the planes that hold keys and values, and the operations on them.
 *
 * One K and one V plane a layer, [n_kv_head * cap][head_dim], head-major: the slots of one head lie together and attention
 * streams them.  Keys are stored rotated.  The retention (retain_*.c) decides which token's KV entry a slot holds. */
#ifndef WEIR_KV_STORE_H
#define WEIR_KV_STORE_H

#include "engine/hparams.h"
#include "engine/rope.h"

struct kv_store {
	const struct hparams *hp;
	struct backend *be;
	struct tensor *k, *v;      /* [n_layer] */
	int32_t n_layer, cap;      /* cap: slots of a head */
	enum dtype type;
	const struct tensor *sinks;   /* attention sinks of the layer that attends now; set by cache_attend() */
	double *clock;             /* seconds spent in kv_put() and kv_attend() are added here; NULL: not measured */
};

/* Bytes of one token's KV entries in all layers; of `cap` tokens. */
uint64_t kv_token_bytes(const struct hparams *, enum dtype);
uint64_t kv_bytes(const struct hparams *, enum dtype, int32_t cap);
int  kv_init(struct kv_store *, struct backend *, const struct hparams *, enum dtype, int32_t cap, struct err *);
void kv_release(struct kv_store *);
/* Exchange the planes of two stores of the same model and type. */
void kv_swap(struct kv_store *, struct kv_store *);

/* Keys, and queries: out = x [n][heads * head_dim] rotated by the rows of the layer's table, or x itself where the layer does not rotate; out may be x. */
void kv_rotate(const struct kv_store *, int32_t layer, struct tensor *out, const struct tensor *x, const struct rope *, int32_t n);
void kv_rotate_queries(const struct kv_store *, int32_t layer, struct tensor *out, const struct tensor *x, const struct rope *, int32_t n);
/* Slots slot0 .. slot0 + n of a layer = k, v f32 [n][n_kv_head * head_dim]. */
void kv_put(struct kv_store *, int32_t layer, const struct tensor *k, const struct tensor *v, int32_t slot0, int32_t n);
/* out f32 [n][n_head * head_dim] = attention of n tokens over the parts (backend.h: struct attn_args); probe may be NULL.  Parts
 * with a selection get their slots in the same pass. */
void kv_attend(struct kv_store *, int32_t layer, struct tensor *out, const struct attn_part *, int32_t n_part, int32_t n,
               const struct attn_probe *);
/* Run the selections of parts now, which clears them. */
void kv_select(struct kv_store *, struct attn_part *, int32_t n_part);
/* Remove the parts whose predicate (attn_part.when) is false.  Reads the predicates from the backend.  Returns how many parts are left. */
int  kv_parts_met(const struct kv_store *, struct attn_part *, int32_t n_part);

/* Slots slot0 .. slot0 + n of all planes as bytes [n_layer][K, V][n_kv_head][n], kv_token_bytes() a token, and back. */
void kv_entries_read(const struct kv_store *, int32_t slot0, int32_t n, void *out);
void kv_entries_write(struct kv_store *, int32_t slot0, int32_t n, const void *entries);

#endif
