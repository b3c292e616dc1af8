/* engine/cache/kv_host.c - keys and values in host memory, for a GPU whose memory is too small; see kv_host.h. */
#include "engine/cache/kv_host.h"

#include <stdlib.h>
#include <string.h>

/* ---- sizes ---- */

/* Return the maximum number of entries per KV head that are prefetched for the next token. These entries rank just
 * below the selected ones. `listed` is the number of selected entries. */
static int32_t ahead_of(int32_t listed, int32_t cap)
{
	int32_t n = listed / 4;

	return n < cap - listed ? n : cap - listed;
}

int32_t kv_host_lines_least(int32_t listed, int32_t cap)
{
	return listed + ahead_of(listed, cap);
}

static int is_full(const struct hparams *hp, int32_t layer)
{
	return layer_entries(hp, layer) == layer && !layer_window(hp, layer);
}

uint64_t kv_host_bytes(const struct hparams *hp, struct kv_types types, int32_t cap, int32_t lines, int32_t listed)
{
	uint64_t sum = 4 * (uint64_t)most_kv_heads(hp) * (uint64_t)listed, widest = 0;

	for (int32_t i = 0; i < hp->n_layer; i++) {
		uint64_t heads = (uint64_t)kv_layer_heads(hp, i), head = kv_layer_entry_bytes(hp, types, i),
			 plane = heads * head * (uint64_t)cap;

		if (!is_full(hp, i))
			continue;
		widest = MAX(plane, widest);
		sum += heads * (head * (uint64_t)lines + 4 * (uint64_t)fetch_map_cols(cap, lines) +
		                4 * (uint64_t)(listed + ahead_of(listed, cap)));
	}
	return sum + widest + 8 * FETCH_COUNTS * (uint64_t)hp->n_layer * (uint64_t)most_kv_heads(hp);
}

/* ---- life ---- */

static int tensor_alloc(struct kv_store *kv, struct tensor *t, enum dtype type, int64_t rows, int64_t cols,
                        struct err *err)
{
	*t = (struct tensor){ .type = type, .rows = (int32_t)rows, .cols = (int32_t)cols };
	if (rows <= INT32_MAX && cols <= INT32_MAX && !kv->be->ops->alloc(kv->be, t))
		return 0;
	t->data = NULL;
	return err_set(err, ERR_FIT, "cannot allocate KV entries on the device: %s", kv->be->err);
}

static int alloc_layer(struct kv_store *kv, struct kv_host *d, int32_t i, struct err *err)
{
	int32_t layer = kv->full[i], heads = kv_layer_heads(kv->hp, layer),
		dim = model_layer_spec(kv->hp, layer)->attn.head_dim;

	return tensor_alloc(kv, &d->k[i], kv->types.k, (int64_t)heads * d->lines, dim, err) ||
	                       tensor_alloc(kv, &d->v[i], kv->types.v, (int64_t)heads * d->lines, dim, err) ||
	                       tensor_alloc(kv, &d->map[i], DT_I32, heads, fetch_map_cols(kv->cap, d->lines), err) ||
	                       tensor_alloc(kv, &d->next[i], DT_I32, heads, d->listed + ahead_of(d->listed, kv->cap),
	                                    err)
	               ? -1
	               : 0;
}

/* Allocate buffers for the keys and values of one layer at a time, large enough for the widest layer. */
static int alloc_whole(struct kv_store *kv, struct kv_host *d, struct err *err)
{
	int32_t widest = kv->full[0];

	for (int32_t i = 0; i < kv->n_full; i++)
		if (kv_layer_heads(kv->hp, kv->full[i]) * kv_layer_entry_bytes(kv->hp, kv->types, kv->full[i]) >
		    kv_layer_heads(kv->hp, widest) * kv_layer_entry_bytes(kv->hp, kv->types, widest))
			widest = kv->full[i];
	return tensor_alloc(kv, &d->whole_k, kv->types.k, kv->k[widest].rows, kv->k[widest].cols, err) ||
	                       tensor_alloc(kv, &d->whole_v, kv->types.v, kv->k[widest].rows, kv->k[widest].cols, err)
	               ? -1
	               : 0;
}

int kv_host_open(struct kv_store *kv, int32_t lines, int32_t listed, struct err *err)
{
	struct kv_host *d = kv->host = xcalloc(1, sizeof *d);
	size_t n = (size_t)kv->n_full;

	d->lines = lines;
	d->listed = listed;
	d->heads = most_kv_heads(kv->hp);
	d->ahead = ahead_of(listed, kv->cap) > 0;
	d->k = xcalloc(n, sizeof *d->k);
	d->v = xcalloc(n, sizeof *d->v);
	d->map = xcalloc(n, sizeof *d->map);
	d->next = xcalloc(n, sizeof *d->next);
	d->end = xcalloc(n, sizeof *d->end);
	d->coming = xcalloc(n, sizeof *d->coming);
	d->counted = xcalloc(n * (size_t)d->heads, FETCH_COUNTS * sizeof *d->counted);
	if (alloc_whole(kv, d, err) || tensor_alloc(kv, &d->list, DT_I32, d->heads, listed, err) ||
	    tensor_alloc(kv, &d->count, DT_I32, (int64_t)kv->n_full * d->heads, FETCH_COUNTS, err) ||
	    tensor_alloc(kv, &d->count_ahead, DT_I32, (int64_t)kv->n_full * d->heads, FETCH_COUNTS, err))
		return -1;
	for (int32_t i = 0; i < kv->n_full; i++)
		if (alloc_layer(kv, d, i, err))
			return -1;
	return 0;
}

static void tensor_drop(const struct kv_store *kv, struct tensor *t)
{
	if (t->data)
		kv->be->ops->drop(kv->be, t);
}

void kv_host_close(struct kv_store *kv)
{
	struct kv_host *d = kv->host;

	if (!d)
		return;
	for (int32_t i = 0; i < kv->n_full; i++) {
		tensor_drop(kv, &d->k[i]);
		tensor_drop(kv, &d->v[i]);
		tensor_drop(kv, &d->map[i]);
		tensor_drop(kv, &d->next[i]);
	}
	tensor_drop(kv, &d->whole_k);
	tensor_drop(kv, &d->whole_v);
	tensor_drop(kv, &d->list);
	tensor_drop(kv, &d->count);
	tensor_drop(kv, &d->count_ahead);
	free(d->k);
	free(d->v);
	free(d->map);
	free(d->next);
	free(d->end);
	free(d->coming);
	free(d->counted);
	free(d);
	kv->host = NULL;
}

int kv_host_serves(const struct kv_store *kv, int32_t layer)
{
	return kv->host && kv->full_index[layer] >= 0;
}

/* ---- which entries are in the lines ---- */

/* Wait for the prefetches of all layers, which share one queue. */
static void wait_for_all(struct kv_store *kv)
{
	kv->be->ops->fetch_wait(kv->be);
	memset(kv->host->coming, 0, (size_t)kv->n_full);
}

static void wait_for(struct kv_store *kv, int32_t full)
{
	if (kv->host->coming[full])
		wait_for_all(kv);
}

/* Record that the entries of slots from `from` to to - 1 are not cached in any cache line. The layer is
 * kv->full[full]. */
static void lines_forget(struct kv_store *kv, int32_t full, int32_t from, int32_t to)
{
	static const int32_t none[4096];
	struct kv_host *d = kv->host;

	wait_for(kv, full);
	for (int32_t h = 0; h < d->map[full].rows; h++)
		for (int32_t s = from, n; s < to; s += n) {
			n = to - s < 4096 ? to - s : 4096;
			kv->be->ops->write(kv->be, &d->map[full],
			                   4 * ((size_t)h * (size_t)d->map[full].cols + FETCH_AT + (size_t)s), none,
			                   4 * (size_t)n);
		}
}

void kv_host_clear(struct kv_store *kv)
{
	struct kv_host *d = kv->host;

	for (int32_t i = 0; d && i < kv->n_full; i++) {
		lines_forget(kv, i, 0, d->end[i]);
		d->end[i] = 0;
	}
}

void kv_host_invalidate(struct kv_store *kv)
{
	if (kv->host)
		kv->host->stale = 1;
}

/* Discard all cached entries if a step has failed, because some of them may be incomplete. Call this before using any
 * cached entry. */
static void lines_revalidate(struct kv_store *kv)
{
	if (!kv->host->stale || kv->be->failed)
		return;
	kv->host->stale = 0;
	kv_host_clear(kv);
}

void kv_host_forget(struct kv_store *kv, int32_t layer, int32_t slot0)
{
	int32_t full = kv->full_index[layer];

	if (!kv_host_serves(kv, layer))
		return;
	lines_revalidate(kv);
	if (slot0 >= kv->host->end[full])
		return;
	lines_forget(kv, full, slot0, kv->host->end[full]);
	kv->host->end[full] = slot0;
}

/* ---- attention ---- */

static struct fetch_args args_of(struct kv_store *kv, int32_t layer, const struct tensor *slots, int32_t n)
{
	struct kv_host *d = kv->host;
	int32_t full = kv->full_index[layer];

	return (struct fetch_args){
		.k = &d->k[full],
		.v = &d->v[full],
		.from_k = &kv->k[layer],
		.from_v = &kv->v[layer],
		.map = &d->map[full],
		.slots = slots,
		.list = &d->list,
		.count = &d->count,
		.count_row = full * d->heads,
		.n_kv_head = kv_layer_heads(kv->hp, layer),
		.cap = kv->cap,
		.lines = d->lines,
		.n = n,
	};
}

/* Copy the first n slots of a layer to the device. Change the segment *p (a range of slots) to read the copies. */
static void bring_whole(struct kv_store *kv, int32_t layer, struct attn_segment *p, int32_t n)
{
	struct kv_host *d = kv->host;

	d->whole_k.rows = d->whole_v.rows = kv->k[layer].rows;
	d->whole_k.cols = d->whole_v.cols = kv->k[layer].cols;
	kv->be->ops->fetch_range(kv->be, &d->whole_k, &kv->k[layer], kv_layer_heads(kv->hp, layer), kv->cap, 0, n);
	kv->be->ops->fetch_range(kv->be, &d->whole_v, &kv->v[layer], kv_layer_heads(kv->hp, layer), kv->cap, 0, n);
	p->k = &d->whole_k;
	p->v = &d->whole_v;
	p->cap = kv->cap;
}

void kv_host_gather(struct kv_store *kv, int32_t layer, struct attn_segment *p, int32_t n_slots)
{
	struct kv_host *d = kv->host;
	int32_t full = kv->full_index[layer];
	struct fetch_args a;

	if (!kv_host_serves(kv, layer))
		return;
	lines_revalidate(kv);
	wait_for(kv, full);
	if (!p->slots) {
		bring_whole(kv, layer, p, p->slot0 + p->n_slots);
		return;
	}
	if (p->selection || p->n_slots > d->listed)
		return; /* leave the segment unchanged: attention reads the planes in host memory */
	a = args_of(kv, layer, p->slots, p->n_slots);
	kv->be->ops->fetch_slots(kv->be, &a);
	d->end[full] = MAX(n_slots, d->end[full]);
	p->slots = &d->list;
	p->k = &d->k[full];
	p->v = &d->v[full];
	p->cap = d->lines;
}

void kv_host_ahead(struct kv_store *kv, int32_t layer, const struct topk_args *by)
{
	struct kv_host *d = kv->host;
	int32_t full = kv->full_index[layer], n;
	struct topk_args next;
	struct fetch_args a;

	if (!kv_host_serves(kv, layer) || !d->ahead || !by || by->k + by->sample > d->listed)
		return;
	wait_for(kv, full);
	n = by->k + ahead_of(by->k, by->n);
	next = *by;
	next.slots = &d->next[full];
	next.k = n;
	next.sample = 0;
	next.bias = NULL;
	kv->be->ops->topk(kv->be, &next);
	a = args_of(kv, layer, &d->next[full], n);
	a.ahead = 1;
	a.count = &d->count_ahead;
	kv->be->ops->fetch_slots(kv->be, &a);
	d->coming[full] = 1;
}

/* ---- counts ---- */

/* Add the counters in t (kv_host.count or count_ahead) to *out. */
static void add_counts(struct kv_store *kv, const struct tensor *t, struct kv_fetched *out)
{
	struct kv_host *d = kv->host;
	size_t bytes = 4 * (size_t)t->rows * FETCH_COUNTS;

	memset(d->counted, 0, bytes);
	kv->be->ops->read(kv->be, t, 0, d->counted, bytes);
	for (int32_t i = 0; i < t->rows; i++) {
		const uint32_t *n = d->counted + (size_t)i * FETCH_COUNTS;

		out->wanted += n[FETCH_COUNT_WANTED];
		out->waited += n[FETCH_COUNT_BROUGHT];
		out->ahead += n[FETCH_COUNT_AHEAD];
		out->bytes += ((uint64_t)n[FETCH_COUNT_BROUGHT] + n[FETCH_COUNT_AHEAD]) *
		              kv_layer_entry_bytes(kv->hp, kv->types, kv->full[i / d->heads]);
	}
}

void kv_host_count(struct kv_store *kv, struct kv_fetched *out)
{
	memset(out, 0, sizeof *out);
	if (!kv->host)
		return;
	wait_for_all(kv);
	add_counts(kv, &kv->host->count, out);
	add_counts(kv, &kv->host->count_ahead, out);
}

/* Reading the counters waits for the device. So they are read only after 1, 2, 4, 8 and 16 decoded tokens, and then
 * every COUNT_EVERY tokens. */
enum { COUNT_EVERY = 32 };

void kv_host_step(struct kv_store *kv, int32_t generates)
{
	struct kv_host *d = kv->host;
	uint64_t n;

	if (!d || kv->be->failed)
		return;
	if (!generates) {
		if (d->tokens || !d->counting)
			kv_host_count(kv, &d->before);
		d->counting = 1;
		d->tokens = d->counted_tokens = 0;
		return;
	}
	n = d->tokens;
	if (n && (n < COUNT_EVERY ? !(n & (n - 1)) : n / COUNT_EVERY > d->counted_tokens / COUNT_EVERY)) {
		kv_host_count(kv, &d->now);
		d->counted_tokens = n;
	}
	d->tokens += (uint64_t)generates;
}

void kv_host_stats(const struct kv_store *kv, double *fetched, double *overlap)
{
	const struct kv_host *d = kv->host;
	uint64_t wanted = d->now.wanted - d->before.wanted;

	if (!d->counted_tokens)
		return;
	*fetched = (double)(d->now.bytes - d->before.bytes) / (double)d->counted_tokens;
	*overlap = wanted ? 1 - (double)(d->now.waited - d->before.waited) / (double)wanted : -1;
}
