/* engine/kv_store.h (private to engine/) - the planes that hold keys and values, and the operations on them.
 *
 * One K and one V plane a layer, [n_kv_head * cap][head_dim], head-major: the slots of one head lie together and attention
 * streams them.  A layer that borrows entries (layer_entries()) has the planes of the layer that it borrows from.  Keys are stored rotated.  The retention (retain_*.c) decides which token's KV entry a slot holds.
 *
 * Where slot i holds token i (retain_all.c), the planes of layers with a sliding window are shorter: they hold the newest tokens alone, as
 * many as the window, a step and a rollback by WINDOW_KEPT tokens need.  Slot s of such a layer is row s - base of its head; when the plane
 * is full, kv_slide() moves the newest rows to its front. */
#ifndef WEIR_KV_STORE_H
#define WEIR_KV_STORE_H

#include "engine/hparams.h"
#include "engine/rope.h"

struct kv_store {
	const struct hparams *hp;
	struct backend *be;
	struct tensor *k, *v;      /* [n_layer] */
	int32_t n_layer, cap;      /* cap: slots of a head */
	int32_t base;              /* layers with a window: the slot in row 0 of each head */
	int32_t held;              /* these layers lack the entries of slots before it */
	enum dtype type;
	const struct tensor *sinks;   /* attention sinks of the layer that attends now; set by cache_attend() */
	double *clock;             /* seconds spent in kv_put() and kv_attend() are added here; NULL: not measured */
};

enum { WINDOW_KEPT = 4096 };   /* tokens that a rollback can go back with windows complete */

/* Bytes of one token's KV entries in all layers. */
uint64_t kv_token_bytes(const struct hparams *, enum dtype);
/* Bytes of the entries that a token behind `pos` others attends to. */
uint64_t kv_read_bytes(const struct hparams *, enum dtype, int32_t pos);
/* Bytes of planes of `cap` slots; step: tokens of a step, where layers with a window hold the newest tokens alone; 0 = they hold all. */
uint64_t kv_bytes(const struct hparams *, enum dtype, int32_t cap, int32_t step);
int  kv_init(struct kv_store *, struct backend *, const struct hparams *, enum dtype, int32_t cap, int32_t step, struct err *);
void kv_release(struct kv_store *);
/* Exchange the planes of two stores of the same model and type. */
void kv_swap(struct kv_store *, struct kv_store *);

/* Make room for slots up to `end` in the layers with a window: the oldest slots of these layers go. */
void kv_slide(struct kv_store *, int32_t end);
/* Is all there that a token behind n others reads? */
int  kv_complete(const struct kv_store *, int32_t n);
/* Bytes of entries that layers with a window lack. */
uint64_t kv_gone_bytes(const struct kv_store *);
/* All entries are forgotten. */
void kv_clear(struct kv_store *);

/* Keys, and queries: out = x [n][heads * head_dim] rotated by the rows of the layer's table, or x itself where the layer does not rotate; out may be x. */
void kv_rotate(const struct kv_store *, int32_t layer, struct tensor *out, const struct tensor *x, const struct rope *, int32_t n);
void kv_rotate_queries(const struct kv_store *, int32_t layer, struct tensor *out, const struct tensor *x, const struct rope *, int32_t n);
/* Slots slot0 .. slot0 + n of a layer that has entries of its own = k, v f32 [n][n_kv_head * head_dim]. */
void kv_put(struct kv_store *, int32_t layer, const struct tensor *k, const struct tensor *v, int32_t slot0, int32_t n);
/* out f32 [n][n_head * head_dim] = attention of n tokens over the parts (backend.h: struct attn_args); probe may be NULL.  Parts
 * with a selection get their slots in the same pass. */
void kv_attend(struct kv_store *, int32_t layer, struct tensor *out, const struct attn_part *, int32_t n_part, int32_t n,
               const struct attn_probe *);
/* Run the selections of parts now, which clears them. */
void kv_select(struct kv_store *, struct attn_part *, int32_t n_part);
/* Remove the parts whose predicate (attn_part.when) is false.  Reads the predicates from the backend.  Returns how many parts are left. */
int  kv_parts_met(const struct kv_store *, struct attn_part *, int32_t n_part);

/* Slots slot0 .. slot0 + n of all planes as bytes [layers_with_entries()][K, V][n_kv_head][n], kv_token_bytes() a token, and back.  What a layer with a
 * window no longer holds is written as bytes 0xff, which no entry consists of (they are NaN in every type). */
void kv_entries_read(const struct kv_store *, int32_t slot0, int32_t n, void *out);
void kv_entries_write(struct kv_store *, int32_t slot0, int32_t n, const void *entries);

#endif
