/* engine/kv_store.c - the planes of keys and values; see kv_store.h for the layout. */
#include "engine/kv_store.h"

#include <stdlib.h>
#include <string.h>

uint64_t kv_token_bytes(const struct hparams *hp, enum dtype type)
{
	return 2 * (uint64_t)hp->n_layer * (uint64_t)hp->n_kv_head * dtype_bytes(type, (uint64_t)hp->head_dim);
}

uint64_t kv_read_bytes(const struct hparams *hp, enum dtype type, int32_t pos)
{
	uint64_t entries = 0;

	for (int32_t i = 0; i < hp->n_layer; i++) {
		int32_t window = layer_window(hp, i);

		entries += (uint64_t)(window && window <= pos ? window - 1 : pos);
	}
	return kv_token_bytes(hp, type) / (uint64_t)hp->n_layer * entries;
}

static int32_t largest_window(const struct hparams *hp)
{
	int32_t most = 0;

	for (int32_t i = 0; i < hp->n_layer; i++)
		most = layer_window(hp, i) > most ? layer_window(hp, i) : most;
	return most;
}

/* Planes slide by multiples of it: a multiple of the keys that attention sums as one, so that results do not depend on `base`. */
enum { SLIDE = 1024 };

/* Slots of a layer's planes. */
static int32_t plane_cap(const struct hparams *hp, int32_t layer, int32_t cap, int32_t step)
{
	int64_t most = (int64_t)largest_window(hp) + WINDOW_KEPT + step + 2 * SLIDE - 1;

	if (!step || !layer_window(hp, layer) || most >= cap)
		return cap;
	most = most / SLIDE * SLIDE;
	return most < cap ? (int32_t)most : cap;
}

uint64_t kv_bytes(const struct hparams *hp, enum dtype type, int32_t cap, int32_t step)
{
	uint64_t sum = 0, row = 2 * (uint64_t)hp->n_kv_head * dtype_bytes(type, (uint64_t)hp->head_dim), bytes;

	for (int32_t i = 0; i < hp->n_layer; i++)
		if (size_mul(row, (uint64_t)plane_cap(hp, i, cap, step), &bytes) || size_add(sum, bytes, &sum))
			return UINT64_MAX;
	return sum;
}

int kv_init(struct kv_store *kv, struct backend *be, const struct hparams *hp, enum dtype type, int32_t cap, int32_t step, struct err *err)
{
	*kv = (struct kv_store){ .hp = hp, .be = be, .n_layer = hp->n_layer, .cap = cap, .type = type };
	if ((int64_t)cap * hp->n_kv_head > INT32_MAX)
		return err_set(err, ERR_FIT, "a context of %d tokens is more than %d KV heads can address; use a smaller -c", cap,
		               hp->n_kv_head);
	kv->k = xcalloc((size_t)hp->n_layer, sizeof *kv->k);
	kv->v = xcalloc((size_t)hp->n_layer, sizeof *kv->v);
	for (int32_t i = 0; i < hp->n_layer; i++) {
		kv->k[i] = kv->v[i] = (struct tensor){ .type = type, .rows = hp->n_kv_head * plane_cap(hp, i, cap, step), .cols = hp->head_dim };
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

/* Rows of a head in a layer's planes, and the row of its slot 0. */
static int32_t rows_of(const struct kv_store *kv, int32_t layer)
{
	return kv->k[layer].rows / kv->hp->n_kv_head;
}

static int32_t base_of(const struct kv_store *kv, int32_t layer)
{
	return rows_of(kv, layer) < kv->cap ? kv->base : 0;
}

/* Rows of each head from row `by` on move to its front.  The backend copies f32, so two rows are copied as so many floats. */
static void plane_slide(struct kv_store *kv, const struct tensor *plane, int32_t by)
{
	int32_t rows = plane->rows / kv->hp->n_kv_head;
	struct tensor pairs = *plane;

	pairs.type = DT_F32;
	pairs.rows = plane->rows / 2;
	pairs.cols = (int32_t)(dtype_bytes(plane->type, (uint64_t)plane->cols) / 2);
	for (int32_t h = 0; h < kv->hp->n_kv_head; h++)
		for (int32_t to = 0, n; to + by < rows; to += n) {
			n = rows - by - to < by ? rows - by - to : by;
			kv->be->ops->copy(kv->be, &pairs, (h * rows + to) / 2, &pairs, (h * rows + to + by) / 2, n / 2);
		}
}

void kv_slide(struct kv_store *kv, int32_t end)
{
	int32_t rows = kv->cap, by;

	for (int32_t i = 0; i < kv->n_layer; i++)
		rows = rows_of(kv, i) < rows ? rows_of(kv, i) : rows;
	if (rows == kv->cap || end - kv->base <= rows)
		return;
	by = (end - rows - kv->base + SLIDE - 1) / SLIDE * SLIDE;
	for (int32_t i = 0; i < kv->n_layer && by < rows; i++) {
		if (rows_of(kv, i) == kv->cap)
			continue;
		plane_slide(kv, &kv->k[i], by);
		plane_slide(kv, &kv->v[i], by);
	}
	kv->base += by;
	kv->held = kv->held > kv->base ? kv->held : kv->base;
}

int kv_complete(const struct kv_store *kv, int32_t n)
{
	return !kv->held || n - largest_window(kv->hp) + 1 >= kv->held;
}

uint64_t kv_gone_bytes(const struct kv_store *kv)
{
	return kv_token_bytes(kv->hp, kv->type) / (uint64_t)kv->n_layer * (uint64_t)(kv->n_layer - layers_unwindowed(kv->hp)) * (uint64_t)kv->held;
}

void kv_clear(struct kv_store *kv)
{
	kv->base = kv->held = 0;
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

	kv->be->ops->kv_put(kv->be, &kv->k[layer], k, kv->hp->n_kv_head, slot0 - base_of(kv, layer), n);
	kv->be->ops->kv_put(kv->be, &kv->v[layer], v, kv->hp->n_kv_head, slot0 - base_of(kv, layer), n);
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
	struct attn_part moved;

	if (base_of(kv, layer)) {   /* one part: retain_all.c */
		moved = part[0];
		moved.slot0 -= base_of(kv, layer);
		part = &moved;
	}
	kv->be->ops->attn(kv->be, &(struct attn_args){
		.out = out, .k = &kv->k[layer], .v = &kv->v[layer], .part = part, .n_part = n_part, .n_head = hp->n_head,
		.n_kv_head = hp->n_kv_head, .head_dim = hp->head_dim, .cap = rows_of(kv, layer),
		.scale = a->scale, .softcap = a->softcap, .window = a->window, .sinks = a->sinks ? kv->sinks : NULL, .probe = probe,
	}, n);
	if (kv->clock)
		*kv->clock += now_seconds() - start;
}

/* Rows of layer and slots slot0 .. slot0 + n: how many of them the planes lack, at the beginning. */
static int32_t missing(const struct kv_store *kv, int32_t layer, int32_t slot0, int32_t n)
{
	int32_t lacks = layer_window(kv->hp, layer) ? kv->held - slot0 : 0;

	return lacks < 0 ? 0 : lacks < n ? lacks : n;
}

void kv_entries_read(const struct kv_store *kv, int32_t slot0, int32_t n, void *out)
{
	size_t row = (size_t)dtype_bytes(kv->type, (uint64_t)kv->hp->head_dim), piece = row * (size_t)n;
	uint8_t *to = out;

	for (int32_t i = 0; i < 2 * kv->n_layer; i++) {
		const struct tensor *plane = i % 2 ? &kv->v[i / 2] : &kv->k[i / 2];
		int32_t lacks = missing(kv, i / 2, slot0, n), at = slot0 + lacks - base_of(kv, i / 2);
		size_t gone = row * (size_t)lacks;

		for (int32_t h = 0; h < kv->hp->n_kv_head; h++, to += piece) {
			memset(to, 0xff, gone);
			if (lacks < n)
				kv->be->ops->read(kv->be, plane, row * ((size_t)h * (size_t)rows_of(kv, i / 2) + (size_t)at), to + gone, piece - gone);
		}
	}
}

/* Of n tokens, the first so many up to the last whose entries in layers with a window are missing. */
static int32_t entries_missing(const struct kv_store *kv, int32_t n, const uint8_t *entries)
{
	size_t row = (size_t)dtype_bytes(kv->type, (uint64_t)kv->hp->head_dim), piece = row * (size_t)n * (size_t)kv->hp->n_kv_head;
	int32_t layer = 0;

	while (layer < kv->n_layer && !layer_window(kv->hp, layer))
		layer++;
	for (entries += 2 * piece * (size_t)layer; layer < kv->n_layer && n > 0; n--) {
		const uint8_t *p = entries + row * (size_t)(n - 1);
		size_t i = 0;

		while (i < row && p[i] == 0xff)
			i++;
		if (i == row)
			return n;
	}
	return 0;
}

void kv_entries_write(struct kv_store *kv, int32_t slot0, int32_t n, const void *entries)
{
	size_t row = (size_t)dtype_bytes(kv->type, (uint64_t)kv->hp->head_dim), piece = row * (size_t)n;
	int32_t lacks = entries_missing(kv, n, entries);
	const uint8_t *from = entries;

	kv_slide(kv, slot0 + n);
	if (lacks && slot0 + lacks > kv->held)
		kv->held = slot0 + lacks;
	for (int32_t i = 0; i < 2 * kv->n_layer; i++) {
		struct tensor *plane = i % 2 ? &kv->v[i / 2] : &kv->k[i / 2];
		int32_t skip = missing(kv, i / 2, slot0, n), at = slot0 + skip - base_of(kv, i / 2);
		size_t gone = row * (size_t)skip;

		for (int32_t h = 0; h < kv->hp->n_kv_head && skip < n; h++)
			kv->be->ops->write(kv->be, plane, row * ((size_t)h * (size_t)rows_of(kv, i / 2) + (size_t)at), from + piece * (size_t)h + gone,
			                   piece - gone);
		from += piece * (size_t)kv->hp->n_kv_head;
	}
}
