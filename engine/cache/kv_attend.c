/* engine/cache/kv_attend.c - operations of a step on the KV cache: rotate keys (RoPE), store keys and values,
 * compute attention. */
#include "engine/cache/kv_store.h"

static void heads_rotate(const struct kv_store *kv, int32_t layer, struct tensor *out, const struct tensor *x,
                         const struct tensor *table, int32_t n)
{
	const struct rope_freqs *f = model_rope(kv->hp, layer);

	if (f)
		kv->be->ops->rope(kv->be, out, x, table, model_layer_spec(kv->hp, layer)->attn.head_dim, f->dims,
		                  f->neox, n);
	else if (out->data != x->data)
		kv->be->ops->copy(kv->be, out, 0, x, 0, n);
}

void kv_rotate(const struct kv_store *kv, int32_t layer, struct tensor *out, const struct tensor *x,
               const struct rope *rope, int32_t n)
{
	heads_rotate(kv, layer, out, x, rope_table(rope, layer), n);
}

void kv_rotate_queries(const struct kv_store *kv, int32_t layer, struct tensor *out, const struct tensor *x,
                       const struct rope *rope, int32_t n)
{
	heads_rotate(kv, layer, out, x, rope_query_table(rope, layer), n);
}

void kv_put(struct kv_store *kv, int32_t layer, const struct tensor *k, const struct tensor *v, int32_t slot0,
            int32_t n)
{
	double start = kv->clock ? now_seconds() : 0;

	kv->be->ops->kv_put(kv->be, &kv->k[layer], k, kv_layer_heads(kv->hp, layer), slot0 - kv_layer_base(kv, layer),
	                    n);
	kv->be->ops->kv_put(kv->be, &kv->v[layer], v, kv_layer_heads(kv->hp, layer), slot0 - kv_layer_base(kv, layer),
	                    n);
	kv_written(kv, layer, slot0, n);
	if (kv->clock)
		*kv->clock += now_seconds() - start;
}

void kv_select(struct kv_store *kv, struct attn_segment *seg, int32_t n_seg)
{
	for (int32_t i = 0; i < n_seg; i++) {
		if (!seg[i].selection)
			continue;
		kv->be->ops->key_scan(kv->be, seg[i].selection->scan);
		kv->be->ops->topk(kv->be, seg[i].selection->topk);
		seg[i].selection = NULL;
	}
}

int32_t kv_list_length(const struct kv_store *kv, const struct attn_segment *seg, int32_t head)
{
	int32_t n = seg->n_slots;

	if (seg->lengths)
		kv->be->ops->read(kv->be, seg->lengths, 4 * (size_t)head, &n, sizeof n);
	return n;
}

int32_t kv_flag(const struct kv_store *kv, const struct predicate *w)
{
	int32_t flag = w->is;

	kv->be->ops->read(kv->be, w->shown ? w->shown : w->flag, 4 * (size_t)w->col, &flag, sizeof flag);
	return flag;
}

int kv_segments_met(const struct kv_store *kv, struct attn_segment *seg, int32_t n_seg, const int32_t *flag)
{
	int n = 0;

	for (int32_t i = 0; i < n_seg; i++) {
		const struct predicate *w = &seg[i].when;

		if (w->flag && (flag ? *flag : kv_flag(kv, w)) != w->is)
			continue;
		seg[n] = seg[i];
		seg[n++].when.flag = NULL;
	}
	return n;
}

/* Build the backend's arguments from a call. If the call's segment (range or list of slots) must be changed for this
 * layer, put the changed copy into *moved. */
static struct attn_args args_of(const struct kv_store *kv, int32_t layer, const struct kv_call *call,
                                struct attn_segment *moved)
{
	const struct tensor *k = &kv->k[layer], *v = &kv->v[layer];
	int32_t cap = kv_layer_slots(kv, layer);
	const struct attn_spec *a = &model_layer_spec(kv->hp, layer)->attn;
	const struct attn_segment *seg = call->seg;

	if (kv_layer_base(kv, layer)) { /* a sliding-window layer has exactly one segment (windows_segments()) */
		*moved = seg[0];
		moved->slot0 -= kv_layer_base(kv, layer);
		seg = moved;
	}
	/* If the planes are in host memory, kv_host_gather() may have changed the segment to read copies on the GPU. In
	 * this case seg->k is set, and the call has only this segment. */
	if (kv->host && seg->k) {
		*moved = *seg;
		k = seg->k;
		v = seg->v;
		cap = seg->cap;
		moved->k = moved->v = NULL;
		seg = moved;
	}
	return (struct attn_args){
		.out = call->out,
		.k = k,
		.v = v,
		.seg = seg,
		.n_seg = call->n_seg,
		.n_head = a->n_head,
		.n_kv_head = a->n_kv_head,
		.head_dim = a->head_dim,
		.cap = cap,
		.scale = a->scale,
		.softcap = a->softcap,
		.window = kv_window(kv, layer),
		.sinks = a->sinks ? call->sinks : NULL,
		.prompt = call->prompt,
		.blocks = call->blocks,
		.probe = call->probe,
	};
}

void kv_attend(struct kv_store *kv, int32_t layer, const struct kv_call *call, int32_t n)
{
	double start = kv->clock ? now_seconds() : 0;
	struct attn_segment moved;
	struct attn_args a = args_of(kv, layer, call, &moved);

	kv->be->ops->attn(kv->be, &a, n);
	if (kv->clock)
		*kv->clock += now_seconds() - start;
}

void kv_attend_each(struct kv_store *kv, int32_t layer, const struct kv_call *call, int32_t n)
{
	struct attn_args a[ATTN_EACH_MOST];
	struct attn_segment moved[ATTN_EACH_MOST];

	for (int32_t i = 0; i < n; i++)
		a[i] = args_of(kv, layer, call + i, moved + i);
	kv->be->ops->attn_each(kv->be, a, n);
}
