/* engine/kv.c - allocates and releases the planes; see kv.h for the layout. */
#include "engine/kv.h"

#include <stdlib.h>
#include <string.h>

uint64_t kv_token_bytes(const struct hparams *hp, enum dtype type)
{
	return 2 * (uint64_t)hp->n_layer * (uint64_t)hp->n_kv_head * dtype_bytes(type, (uint64_t)hp->head_dim);
}

int kv_init(struct kv *kv, struct backend *be, const struct hparams *hp, enum dtype type, int32_t cap, struct err *err)
{
	*kv = (struct kv){ .be = be, .n_layer = hp->n_layer, .cap = cap, .type = type };
	if ((int64_t)cap * hp->n_kv_head > INT32_MAX)
		return err_set(err, ERR_FIT, "a context of %d tokens is more than %d KV heads can address; use a smaller -c", cap,
		               hp->n_kv_head);
	kv->k = xcalloc((size_t)hp->n_layer, sizeof *kv->k);
	kv->v = xcalloc((size_t)hp->n_layer, sizeof *kv->v);
	for (int32_t i = 0; i < hp->n_layer; i++) {
		kv->k[i] = kv->v[i] = (struct tensor){ .type = type, .rows = hp->n_kv_head * cap, .cols = hp->head_dim };
		if (be->ops->alloc(be, &kv->k[i]) || be->ops->alloc(be, &kv->v[i])) {
			err_set(err, ERR_FIT, "cannot allocate the KV cache for %d tokens: %s", cap, be->err);
			kv_release(kv);
			return -1;
		}
	}
	return 0;
}

void kv_release(struct kv *kv)
{
	for (int32_t i = 0; kv->k && i < kv->n_layer; i++) {
		if (kv->k[i].data)
			kv->be->ops->drop(kv->be, &kv->k[i]);
		if (kv->v[i].data)
			kv->be->ops->drop(kv->be, &kv->v[i]);
	}
	free(kv->k);
	free(kv->v);
	memset(kv, 0, sizeof *kv);
}
