/* engine/kv.h (private to engine/) - planes of keys and values, and the steps that every policy takes with them.
 *
 * One K and one V plane a layer, [n_kv_head * cap][head_dim], head-major, so that a head's rows lie
 * together and attention streams them.  Keys are stored rotated; which token a row holds is the policy's business. */
#ifndef WEIR_KV_H
#define WEIR_KV_H

#include "engine/hparams.h"
#include "engine/rope.h"

struct kv {
	const struct hparams *hp;
	struct backend *be;
	struct tensor *k, *v;      /* [n_layer] */
	int32_t n_layer, cap;
	enum dtype type;
};

/* Bytes one token takes in all layers; bytes of `cap` of them. */
uint64_t kv_token_bytes(const struct hparams *, enum dtype);
uint64_t kv_bytes(const struct hparams *, enum dtype, int32_t cap);
int  kv_init(struct kv *, struct backend *, const struct hparams *, enum dtype, int32_t cap, struct err *);
void kv_release(struct kv *);

/* out = x [n][heads * head_dim] rotated by the rows of the layer's table, or as it is where the layer has none; out may be x. */
void kv_rotate(const struct kv *, int32_t layer, struct tensor *out, const struct tensor *x, const struct rope *, int32_t n);
/* Rows row0 .. row0 + n of a layer = k, v f32 [n][n_kv_head * head_dim]. */
void kv_put(struct kv *, int32_t layer, const struct tensor *k, const struct tensor *v, int32_t row0, int32_t n);
/* out f32 [n][n_head * head_dim] = attention over the parts (backend.h: struct attn_args); probe may be NULL. */
void kv_attend(struct kv *, int32_t layer, struct tensor *out, struct attn_part *, int32_t n_part, int32_t n,
               const struct attn_probe *);
/* Make the parts' choices of rows now, where they would be made on attending. */
void kv_choose(struct kv *, struct attn_part *, int32_t n_part);

/* Rows row0 .. row0 + n of all planes as bytes [n_layer][K, V][n_kv_head][n], kv_token_bytes() a row, and back. */
void kv_rows_read(const struct kv *, int32_t row0, int32_t n, void *out);
void kv_rows_write(struct kv *, int32_t row0, int32_t n, const void *rows);

/* Before this thread attends in that layer the next time, fn may look at the parts that n tokens read; out is scratch.  It sees each
 * tap once, but may set it again, for another layer.  NULL: nobody looks. */
struct kv_tap {
	int32_t layer;
	void (*fn)(struct kv_tap *, struct kv *, struct tensor *out, struct attn_part *, int32_t n_part, int32_t n);
};
void kv_tap_set(struct kv_tap *);

/* From now on kv_put() and kv_attend() of this thread add the seconds that they take; NULL: not. */
void kv_measure(double *seconds);

#endif
