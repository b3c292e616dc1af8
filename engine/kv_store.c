/* engine/kv_store.c - the planes of keys and values; see kv_store.h for the layout. */
#include "engine/kv_store.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of one token's key, or value, in one head of a layer; of its entries in all heads. */
static size_t head_bytes(const struct hparams *hp, enum dtype type, int32_t layer)
{
	return (size_t)dtype_bytes(type, (uint64_t)model_layer_spec(hp, layer)->attn.head_dim);
}

static int32_t heads_of(const struct hparams *hp, int32_t layer)
{
	return model_layer_spec(hp, layer)->attn.n_kv_head;
}

static uint64_t entry_bytes(const struct hparams *hp, enum dtype type, int32_t layer)
{
	return 2 * (uint64_t)heads_of(hp, layer) * head_bytes(hp, type, layer);
}

uint64_t kv_token_bytes(const struct hparams *hp, enum dtype type)
{
	uint64_t sum = 0;

	for (int32_t i = 0; i < layers_with_entries(hp); i++)
		sum += entry_bytes(hp, type, i);
	return sum;
}

uint64_t kv_read_bytes(const struct hparams *hp, enum dtype type, int32_t pos)
{
	uint64_t sum = 0;

	for (int32_t i = 0; i < hp->n_layer; i++) {
		int32_t window = layer_window(hp, i);

		sum += entry_bytes(hp, type, i) * (uint64_t)(window && window <= pos ? window - 1 : pos);
	}
	return sum;
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
	uint64_t sum = 0, bytes;

	for (int32_t i = 0; i < layers_with_entries(hp); i++)
		if (size_mul(entry_bytes(hp, type, i), (uint64_t)plane_cap(hp, i, cap, step), &bytes) || size_add(sum, bytes, &sum))
			return UINT64_MAX;
	return sum;
}

int kv_init(struct kv_store *kv, struct backend *be, const struct hparams *hp, enum dtype type, int32_t cap, int32_t step, struct err *err)
{
	*kv = (struct kv_store){ .hp = hp, .be = be, .n_layer = hp->n_layer, .cap = cap, .type = type };
	if ((int64_t)cap * most_kv_heads(hp) > INT32_MAX)
		return err_set(err, ERR_FIT, "a context of %d tokens is more than %d KV heads can address; use a smaller -c", cap,
		               most_kv_heads(hp));
	kv->k = xcalloc((size_t)hp->n_layer, sizeof *kv->k);
	kv->v = xcalloc((size_t)hp->n_layer, sizeof *kv->v);
	for (int32_t i = 0; i < hp->n_layer; i++) {
		int32_t from = layer_entries(hp, i);

		if (from != i) {
			kv->k[i] = kv->k[from];
			kv->v[i] = kv->v[from];
			continue;
		}
		kv->k[i] = kv->v[i] = (struct tensor){ .type = type, .rows = heads_of(hp, i) * plane_cap(hp, i, cap, step),
		                                       .cols = model_layer_spec(hp, i)->attn.head_dim };
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
	for (int32_t i = 0; kv->k && i < layers_with_entries(kv->hp); i++) {
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
	return kv->k[layer].rows / heads_of(kv->hp, layer);
}

static int32_t base_of(const struct kv_store *kv, int32_t layer)
{
	return rows_of(kv, layer) < kv->cap ? kv->base : 0;
}

/* Rows of each head from row `by` on move to its front.  The backend copies f32, so two rows are copied as so many floats. */
static void plane_slide(struct kv_store *kv, const struct tensor *plane, int32_t heads, int32_t by)
{
	int32_t rows = plane->rows / heads;
	struct tensor pairs = *plane;

	pairs.type = DT_F32;
	pairs.rows = plane->rows / 2;
	pairs.cols = (int32_t)(dtype_bytes(plane->type, (uint64_t)plane->cols) / 2);
	for (int32_t h = 0; h < heads; h++)
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
	for (int32_t i = 0; i < layers_with_entries(kv->hp) && by < rows; i++) {
		if (rows_of(kv, i) == kv->cap)
			continue;
		plane_slide(kv, &kv->k[i], heads_of(kv->hp, i), by);
		plane_slide(kv, &kv->v[i], heads_of(kv->hp, i), by);
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
	uint64_t sum = 0;

	for (int32_t i = 0; i < layers_with_entries(kv->hp); i++)
		sum += layer_window(kv->hp, i) ? entry_bytes(kv->hp, kv->type, i) : 0;
	return sum * (uint64_t)kv->held;
}

void kv_clear(struct kv_store *kv)
{
	kv->base = kv->held = 0;
}

static void rotate(const struct kv_store *kv, int32_t layer, struct tensor *out, const struct tensor *x, const struct tensor *table, int32_t n)
{
	const struct rope_freqs *f = model_rope(kv->hp, layer);

	if (f)
		kv->be->ops->rope(kv->be, out, x, table, model_layer_spec(kv->hp, layer)->attn.head_dim, f->dims, f->neox, n);
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

	kv->be->ops->kv_put(kv->be, &kv->k[layer], k, heads_of(kv->hp, layer), slot0 - base_of(kv, layer), n);
	kv->be->ops->kv_put(kv->be, &kv->v[layer], v, heads_of(kv->hp, layer), slot0 - base_of(kv, layer), n);
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
		.out = out, .k = &kv->k[layer], .v = &kv->v[layer], .part = part, .n_part = n_part, .n_head = a->n_head,
		.n_kv_head = a->n_kv_head, .head_dim = a->head_dim, .cap = rows_of(kv, layer),
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
	uint8_t *to = out;

	for (int32_t i = 0; i < 2 * layers_with_entries(kv->hp); i++) {
		size_t row = head_bytes(kv->hp, kv->type, i / 2), piece = row * (size_t)n;
		const struct tensor *plane = i % 2 ? &kv->v[i / 2] : &kv->k[i / 2];
		int32_t lacks = missing(kv, i / 2, slot0, n), at = slot0 + lacks - base_of(kv, i / 2);
		size_t gone = row * (size_t)lacks;

		for (int32_t h = 0; h < heads_of(kv->hp, i / 2); h++, to += piece) {
			memset(to, 0xff, gone);
			if (lacks < n)
				kv->be->ops->read(kv->be, plane, row * ((size_t)h * (size_t)rows_of(kv, i / 2) + (size_t)at), to + gone, piece - gone);
		}
	}
}

/* Of n tokens, the first so many up to the last whose entries in layers with a window are missing. */
static int32_t entries_missing(const struct kv_store *kv, int32_t n, const uint8_t *entries)
{
	int32_t layer = 0, layers = layers_with_entries(kv->hp);

	for (; layer < layers && !layer_window(kv->hp, layer); layer++)
		entries += entry_bytes(kv->hp, kv->type, layer) * (size_t)n;
	for (; layer < layers && n > 0; n--) {
		size_t row = head_bytes(kv->hp, kv->type, layer), i = 0;
		const uint8_t *p = entries + row * (size_t)(n - 1);

		while (i < row && p[i] == 0xff)
			i++;
		if (i == row)
			return n;
	}
	return 0;
}

void kv_entries_write(struct kv_store *kv, int32_t slot0, int32_t n, const void *entries)
{
	int32_t lacks = entries_missing(kv, n, entries);
	const uint8_t *from = entries;

	kv_slide(kv, slot0 + n);
	if (lacks && slot0 + lacks > kv->held)
		kv->held = slot0 + lacks;
	for (int32_t i = 0; i < 2 * layers_with_entries(kv->hp); i++) {
		size_t row = head_bytes(kv->hp, kv->type, i / 2), piece = row * (size_t)n;
		struct tensor *plane = i % 2 ? &kv->v[i / 2] : &kv->k[i / 2];
		int32_t skip = missing(kv, i / 2, slot0, n), at = slot0 + skip - base_of(kv, i / 2);
		size_t gone = row * (size_t)skip;

		for (int32_t h = 0; h < heads_of(kv->hp, i / 2) && skip < n; h++)
			kv->be->ops->write(kv->be, plane, row * ((size_t)h * (size_t)rows_of(kv, i / 2) + (size_t)at), from + piece * (size_t)h + gone,
			                   piece - gone);
		from += piece * (size_t)heads_of(kv->hp, i / 2);
	}
}
