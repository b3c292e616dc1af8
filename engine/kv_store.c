/* engine/kv_store.c - the planes of keys and values; see kv_store.h for the layout. */
#include "engine/kv_store.h"

#include <stdlib.h>
#include <string.h>

uint64_t kv_token_bytes(const struct hparams *hp, enum dtype type)
{
	return 2 * (uint64_t)hp->n_layer * (uint64_t)hp->n_kv_head * dtype_bytes(type, (uint64_t)hp->head_dim);
}

uint64_t kv_bytes(const struct hparams *hp, enum dtype type, int32_t cap)
{
	uint64_t bytes;

	return size_mul(kv_token_bytes(hp, type), (uint64_t)cap, &bytes) ? UINT64_MAX : bytes;
}

int kv_init(struct kv_store *kv, struct backend *be, const struct hparams *hp, enum dtype type, int32_t cap, struct err *err)
{
	*kv = (struct kv_store){ .hp = hp, .be = be, .n_layer = hp->n_layer, .cap = cap, .type = type };
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

void kv_release(struct kv_store *kv)
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

static void rotate(const struct kv_store *kv, int32_t layer, struct tensor *out, const struct tensor *x, const struct tensor *table, int32_t n)
{
	const struct rope_freqs *f = model_rope(kv->hp, layer);

	if (f)
		kv->be->ops->rope(kv->be, out, x, table, kv->hp->head_dim, f->dims, f->neox, n);
	else if (out->data != x->data)
		kv->be->ops->copy(kv->be, out, 0, x, 0, n);
}

void kv_rotate(const struct kv_store *kv, int32_t layer, struct tensor *out, const struct tensor *x, const struct rope *rope, int32_t n)
{
	rotate(kv, layer, out, x, rope_table(rope, layer), n);
}

void kv_rotate_queries(const struct kv_store *kv, int32_t layer, struct tensor *out, const struct tensor *x, const struct rope *rope, int32_t n)
{
	rotate(kv, layer, out, x, rope_query_table(rope, layer), n);
}

void kv_swap(struct kv_store *a, struct kv_store *b)
{
	struct kv_store was = *a;

	*a = *b;
	*b = was;
}

void kv_put(struct kv_store *kv, int32_t layer, const struct tensor *k, const struct tensor *v, int32_t slot0, int32_t n)
{
	double start = kv->clock ? now_seconds() : 0;

	kv->be->ops->kv_put(kv->be, &kv->k[layer], k, kv->hp->n_kv_head, slot0, n);
	kv->be->ops->kv_put(kv->be, &kv->v[layer], v, kv->hp->n_kv_head, slot0, n);
	if (kv->clock)
		*kv->clock += now_seconds() - start;
}

void kv_select(struct kv_store *kv, struct attn_part *part, int32_t n_part)
{
	for (int32_t i = 0; i < n_part; i++) {
		if (!part[i].selection)
			continue;
		kv->be->ops->key_scan(kv->be, part[i].selection->scan);
		kv->be->ops->topk(kv->be, part[i].selection->topk);
		part[i].selection = NULL;
	}
}

int kv_parts_met(const struct kv_store *kv, struct attn_part *part, int32_t n_part)
{
	int n = 0;

	for (int32_t i = 0; i < n_part; i++) {
		const struct predicate *w = &part[i].when;
		int32_t flag = w->is;

		if (w->flag)
			kv->be->ops->read(kv->be, w->flag, 4 * (size_t)w->col, &flag, sizeof flag);
		if (flag != w->is)
			continue;
		part[n] = part[i];
		part[n++].when.flag = NULL;
	}
	return n;
}

void kv_attend(struct kv_store *kv, int32_t layer, struct tensor *out, const struct attn_part *part, int32_t n_part, int32_t n,
               const struct attn_probe *probe)
{
	const struct hparams *hp = kv->hp;
	const struct attn_spec *a = &model_layer_spec(hp, layer)->attn;
	double start = kv->clock ? now_seconds() : 0;

	kv->be->ops->attn(kv->be, &(struct attn_args){
		.out = out, .k = &kv->k[layer], .v = &kv->v[layer], .part = part, .n_part = n_part, .n_head = hp->n_head,
		.n_kv_head = hp->n_kv_head, .head_dim = hp->head_dim, .cap = kv->cap,
		.scale = a->scale, .softcap = a->softcap, .window = a->window, .sinks = a->sinks ? kv->sinks : NULL, .probe = probe,
	}, n);
	if (kv->clock)
		*kv->clock += now_seconds() - start;
}

void kv_entries_read(const struct kv_store *kv, int32_t slot0, int32_t n, void *out)
{
	size_t row = (size_t)dtype_bytes(kv->type, (uint64_t)kv->hp->head_dim), piece = row * (size_t)n;
	uint8_t *to = out;

	for (int32_t i = 0; i < 2 * kv->n_layer; i++) {
		const struct tensor *plane = i % 2 ? &kv->v[i / 2] : &kv->k[i / 2];

		for (int32_t h = 0; h < kv->hp->n_kv_head; h++, to += piece)
			kv->be->ops->read(kv->be, plane, row * ((size_t)h * (size_t)kv->cap + (size_t)slot0), to, piece);
	}
}

void kv_entries_write(struct kv_store *kv, int32_t slot0, int32_t n, const void *entries)
{
	size_t row = (size_t)dtype_bytes(kv->type, (uint64_t)kv->hp->head_dim), piece = row * (size_t)n;
	const uint8_t *from = entries;

	for (int32_t i = 0; i < 2 * kv->n_layer; i++) {
		struct tensor *plane = i % 2 ? &kv->v[i / 2] : &kv->k[i / 2];

		for (int32_t h = 0; h < kv->hp->n_kv_head; h++, from += piece)
			kv->be->ops->write(kv->be, plane, row * ((size_t)h * (size_t)kv->cap + (size_t)slot0), from, piece);
	}
}
