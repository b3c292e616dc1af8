/* engine/kv.h (private to engine/) - the KV cache of one timeline: planes of keys and values.
 *
 * One K and one V plane a layer, [n_kv_head * cap][head_dim], head-major, so that a head's rows lie
 * together and attention streams them.  Keys are stored rotated.  Row r of every head holds token r. */
#ifndef WEIR_KV_H
#define WEIR_KV_H

#include "engine/model.h"

struct kv {
	struct backend *be;
	struct tensor *k, *v;      /* [n_layer] */
	int32_t n_layer, cap;
	enum dtype type;
};

/* Bytes one token takes in all layers. */
uint64_t kv_token_bytes(const struct hparams *, enum dtype);
int  kv_init(struct kv *, struct backend *, const struct hparams *, enum dtype, int32_t cap, struct err *);
void kv_release(struct kv *);

#endif
