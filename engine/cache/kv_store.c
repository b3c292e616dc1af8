/* engine/cache/kv_store.c - the memory of keys and values: sizes, sliding-window layers, conversion of entries to
 * bytes. See kv_store.h for the layout. */
#include "engine/cache/kv_host.h"
#include "engine/cache/kv_file_cache.h"

#include <stdlib.h>
#include <string.h>

/* ---- sizes ---- */

/* Return the size of one token's entries in all heads of a layer, in bytes. */
static uint64_t entry_bytes(const struct hparams *hp, struct kv_types types, int32_t layer)
{
	return (uint64_t)kv_layer_heads(hp, layer) * kv_layer_entry_bytes(hp, types, layer);
}

/* Return the size of one token's KV entries in the first `layers` layers, in bytes. If windowed = 1, only
 * sliding-window layers count, otherwise only full layers. */
static uint64_t layers_bytes(const struct hparams *hp, struct kv_types types, int32_t layers, int windowed)
{
	uint64_t sum = 0;

	for (int32_t i = 0; i < layers; i++)
		if ((layer_window(hp, i) > 0) == windowed)
			sum += entry_bytes(hp, types, i);
	return sum;
}

uint64_t kv_full_token_bytes(const struct hparams *hp, struct kv_types types)
{
	return layers_bytes(hp, types, layers_with_entries(hp), 0);
}

uint64_t kv_window_token_bytes(const struct hparams *hp, struct kv_types types)
{
	return layers_bytes(hp, types, layers_with_entries(hp), 1);
}

uint64_t kv_token_bytes(const struct hparams *hp, struct kv_types types)
{
	return kv_full_token_bytes(hp, types) + kv_window_token_bytes(hp, types);
}

uint64_t kv_full_read_bytes(const struct hparams *hp, struct kv_types types)
{
	return layers_bytes(hp, types, hp->n_layer, 0);
}

static int32_t window_within(const struct hparams *hp, int32_t layer, int32_t ctx)
{
	int32_t window = layer_window(hp, layer);

	return MIN(window, ctx);
}

static int32_t largest_window(const struct hparams *hp, int32_t ctx)
{
	int32_t most = 0;

	for (int32_t i = 0; i < hp->n_layer; i++)
		most = window_within(hp, i, ctx) > most ? window_within(hp, i, ctx) : most;
	return most;
}

/* Planes (a layer's keys or values) of sliding-window layers slide by multiples of SLIDE slots, and attention to a
 * window begins at a multiple of SLIDE. The CPU sums attention in groups of ATTN_SPAN slots, and SLIDE is a multiple of
 * ATTN_SPAN. So the groups, and the results, do not depend on how far a plane has slid. */
enum { SLIDE = 512 };

/* Return the number of slots per head of a sliding-window layer. It is the sum of the largest window, the tokens of one
 * step, SLIDE, and up to WINDOW_KEPT older tokens for rollbacks. If no sequence is longer than s->cap, the number is at
 * most s->cap. */
static int32_t window_cap(const struct hparams *hp, const struct kv_shape *s)
{
	int64_t least = (int64_t)largest_window(hp, s->ctx) + s->step + SLIDE, most = least + WINDOW_KEPT,
		rows = s->cap;

	if (layers_unwindowed(hp) == hp->n_layer)
		return 0;
	if (s->endless && rows < least + WINDOW_LEAST)
		rows = least + WINDOW_LEAST;
	rows = MIN(rows, most);
	return (int32_t)(rows + rows % 2); /* an even number, because plane_slide() copies rows in pairs */
}

uint64_t kv_bytes(const struct hparams *hp, struct kv_types types, const struct kv_shape *s)
{
	/* Count the slots of kv->copy, too. It has at most one slot for each token of the largest window. */
	uint64_t full, windowed, sum,
		slots = (uint64_t)window_cap(hp, s) + (s->endless ? (uint64_t)largest_window(hp, s->ctx) : 0);

	if (size_mul(kv_full_token_bytes(hp, types), (uint64_t)s->cap, &full) ||
	    size_mul(kv_window_token_bytes(hp, types), slots, &windowed) || size_add(full, windowed, &sum))
		return UINT64_MAX;
	return sum;
}

/* ---- life ---- */

static int planes_alloc(struct kv_store *kv, int32_t layer, int host)
{
	int (*alloc)(struct backend *, struct tensor *) = host ? kv->be->ops->alloc_host : kv->be->ops->alloc;

	return alloc(kv->be, &kv->k[layer]) || alloc(kv->be, &kv->v[layer]) ? -1 : 0;
}

int kv_init(struct kv_store *kv, struct backend *be, const struct hparams *hp, struct kv_types types,
            const struct kv_shape *s, struct err *err)
{
	*kv = (struct kv_store){ .hp = hp,
		                 .be = be,
		                 .n_layer = hp->n_layer,
		                 .cap = s->cap,
		                 .window_cap = window_cap(hp, s),
		                 .ctx = s->ctx,
		                 .step = s->step,
		                 .endless = s->endless,
		                 .types = types,
		                 .resident = s->resident };
	if ((int64_t)kv_read_most(kv) * most_kv_heads(hp) > INT32_MAX)
		return err_set(err, ERR_FIT,
		               "a context of %d tokens is more than %d KV heads can address; use a smaller -c", s->cap,
		               most_kv_heads(hp));
	kv->k = xcalloc((size_t)hp->n_layer, sizeof *kv->k);
	kv->v = xcalloc((size_t)hp->n_layer, sizeof *kv->v);
	kv->full_index = xcalloc((size_t)hp->n_layer, sizeof *kv->full_index);
	kv->full = xcalloc((size_t)hp->n_layer, sizeof *kv->full);
	if (s->resident && kv_disk_open(kv, s->unreserved, err)) {
		kv_release(kv);
		return -1;
	}
	for (int32_t i = 0; i < hp->n_layer; i++) {
		int32_t from = layer_entries(hp, i);
		int windowed = layer_window(hp, i) > 0;

		if (from != i) {
			kv->k[i] = kv->k[from];
			kv->v[i] = kv->v[from];
			kv->full_index[i] = kv->full_index[from];
			continue;
		}
		kv->full_index[i] = windowed ? kv->n_full - i - 1 : kv->n_full;
		if (!windowed)
			kv->full[kv->n_full++] = i;
		kv->k[i] = (struct tensor){ .type = types.k,
			                    .rows = kv_layer_heads(hp, i) * (windowed ? kv->window_cap : s->cap),
			                    .cols = model_layer_spec(hp, i)->attn.head_dim };
		kv->v[i] = kv->k[i];
		kv->v[i].type = types.v;
		if (kv->disk && !windowed ? kv_disk_alloc(kv, i) : planes_alloc(kv, i, s->device_lines && !windowed)) {
			err_set(err, ERR_FIT, "cannot allocate the KV cache for %d tokens: %s", s->cap, be->err);
			kv_release(kv);
			return -1;
		}
	}
	if ((s->resident && s->lines && !kv_file_cache_open(kv, s->lines, err)) ||
	    (s->device_lines && kv_host_open(kv, s->device_lines, s->listed, err))) {
		kv_release(kv);
		return -1;
	}
	return 0;
}

void kv_release(struct kv_store *kv)
{
	kv_file_cache_close(kv);
	kv_host_close(kv);
	for (int32_t i = 0; kv->k && i < layers_with_entries(kv->hp); i++) {
		kv_disk_drop(kv, i);
		if (kv->k[i].data)
			kv->be->ops->drop(kv->be, &kv->k[i]);
		if (kv->v[i].data)
			kv->be->ops->drop(kv->be, &kv->v[i]);
	}
	kv_disk_close(kv);
	free(kv->k);
	free(kv->v);
	free(kv->full_index);
	free(kv->full);
	free(kv->copy);
	memset(kv, 0, sizeof *kv);
}

void kv_swap(struct kv_store *a, struct kv_store *b)
{
	struct kv_store was = *a;

	*a = *b;
	*b = was;
	b->resident = a->resident;
	b->file_cache = a->file_cache;
	b->host = a->host;
	a->resident = was.resident;
	a->file_cache = was.file_cache;
	a->host = was.host;
	kv_file_cache_clear(a);
	kv_file_cache_clear(b);
	kv_host_clear(a);
	kv_host_clear(b);
}

int kv_copy(struct kv_store *kv, const struct kv_store *from, int32_t n)
{
	enum { SLOTS = 256 };
	uint8_t *p = malloc((size_t)kv_token_bytes(kv->hp, kv->types) * SLOTS);

	for (int32_t at = 0, m; p && at < n; at += m) {
		m = n - at < SLOTS ? n - at : SLOTS;
		kv_entries_read(from, at, m, p);
		kv_entries_write(kv, at, m, p);
	}
	free(p);
	return p ? 0 : -1;
}

/* ---- layers with a window ---- */

int32_t kv_window(const struct kv_store *kv, int32_t layer)
{
	return window_within(kv->hp, layer, kv->ctx);
}

int32_t kv_window_most(const struct kv_store *kv)
{
	return largest_window(kv->hp, kv->ctx);
}

int32_t kv_window_first(const struct kv_store *kv, int32_t layer, int32_t pos)
{
	int32_t first = pos + 1 - kv_window(kv, layer);

	return first > 0 ? first / SLIDE * SLIDE : 0;
}

uint64_t kv_window_read_bytes(const struct kv_store *kv, int32_t pos)
{
	uint64_t sum = 0;

	for (int32_t i = 0; i < kv->n_layer; i++) {
		int32_t window = kv_window(kv, i);

		if (window)
			sum += entry_bytes(kv->hp, kv->types, i) * (uint64_t)(window <= pos ? window - 1 : pos);
	}
	return sum;
}

/* In each head, move all rows except the first `by` rows to the front. The backend copies f32 values, and the size of a
 * row may be an odd multiple of 2 bytes. So copy the rows in pairs, each pair as one row of f32 values. */
static void plane_slide(struct kv_store *kv, const struct tensor *plane, int32_t by)
{
	int32_t rows = kv->window_cap;
	struct tensor pairs = *plane;

	pairs.type = DT_F32;
	pairs.rows = plane->rows / 2;
	pairs.cols = (int32_t)(dtype_bytes(plane->type, (uint64_t)plane->cols) / 2);
	for (int32_t h = 0; h * rows < plane->rows; h++)
		for (int32_t to = 0, n; to + by < rows; to += n) {
			n = rows - by - to < by ? rows - by - to : by;
			kv->be->ops->copy(kv->be, &pairs, (h * rows + to) / 2, &pairs, (h * rows + to + by) / 2, n / 2);
		}
}

/* Return the first slot that a token in slot `end` reads in the sliding-window layer with the largest window. */
static int32_t window_from(const struct kv_store *kv, int32_t end)
{
	int32_t from = end + 1 - kv_window_most(kv);

	return MAX(from, 0);
}

/* Copy to kv->copy the entries that a token in slot `end` would read in sliding-window layers. Do nothing if these
 * layers have already dropped some of the entries. */
static void keep_windows(struct kv_store *kv, int32_t end)
{
	int32_t from = window_from(kv, end);
	uint8_t *p;

	if (!end || kv->copy_end == end || !kv_complete(kv, end))
		return;
	kv->copy_end = 0;
	if (!(p = realloc(kv->copy, (size_t)kv_window_token_bytes(kv->hp, kv->types) * (size_t)(end - from) + 1)))
		/* There is no memory for a copy. A rollback to `end` may then have to prefill these tokens again. */
		return;
	kv->copy = p;
	kv_window_read(kv, from, end - from, p);
	kv->copy_end = end;
}

void kv_keep_pinned(struct kv_store *kv)
{
	keep_windows(kv, kv->pin);
}

int kv_rollback(struct kv_store *kv, int32_t n)
{
	int32_t from = window_from(kv, n);

	if (kv->copy_end > n)
		kv->copy_end = 0;
	if (kv_complete(kv, n))
		return 1;
	if (!n || kv->copy_end != n)
		return 0;
	kv_window_write(kv, from, n - from, kv->copy);
	return 1;
}

/* Return the number of slots that the sliding-window layers must drop to make room for the step after n tokens. */
static int32_t slide_by(const struct kv_store *kv, int32_t n)
{
	int32_t end = kv->endless || n < kv->cap - kv->step ? n + kv->step : kv->cap,
		over = end - kv->base - kv->window_cap;

	return kv->window_cap && over > 0 ? (over + SLIDE - 1) / SLIDE * SLIDE : 0;
}

static void planes_slide(struct kv_store *kv, int32_t by)
{
	for (int32_t i = 0; i < layers_with_entries(kv->hp) && by < kv->window_cap; i++) {
		if (kv->full_index[i] >= 0)
			continue;
		plane_slide(kv, &kv->k[i], by);
		plane_slide(kv, &kv->v[i], by);
	}
	kv->base += by;
	kv->held = MAX(kv->held, kv->base);
}

void kv_slide(struct kv_store *kv, int32_t n)
{
	int32_t by = slide_by(kv, n);

	if (by && n >= kv->pin && kv->base + by > window_from(kv, kv->pin))
		kv_keep_pinned(kv);
	if (by)
		planes_slide(kv, by);
}

int kv_complete(const struct kv_store *kv, int32_t n)
{
	return !kv->held || n - kv_window_most(kv) + 1 >= kv->held;
}

void kv_clear(struct kv_store *kv)
{
	kv_disk_clear(kv);
	kv_host_clear(kv);
	kv->base = kv->held = kv->copy_end = 0;
}

/* ---- entries as bytes ---- */

/* Return how many of the n slots from slot0 on have no entries in a layer. A sliding-window layer drops its oldest
 * entries first, so these are the first slots. */
static int32_t slots_missing(const struct kv_store *kv, int32_t layer, int32_t slot0, int32_t n)
{
	int32_t lacks = kv->full_index[layer] < 0 ? kv->held - slot0 : 0;

	return lacks < 0 ? 0 : MIN(lacks, n);
}

/* Return the plane of a layer's keys (kind 0) or values (kind 1). */
static struct tensor *plane_of(const struct kv_store *kv, int32_t layer, int kind)
{
	return kind ? &kv->v[layer] : &kv->k[layer];
}

/* Return the bytes of one row of a plane. */
static size_t plane_row(const struct tensor *plane)
{
	return (size_t)dtype_bytes(plane->type, (uint64_t)plane->cols);
}

/* Copy n slots of a sliding-window layer, beginning with slot0, from kv->copy to the buffer `to`. Slots that are not in
 * kv->copy stay unchanged in the buffer. `kind` is 0 for keys, 1 for values. */
static void copy_read(const struct kv_store *kv, int32_t layer, int kind, int32_t head, int32_t slot0, int32_t n,
                      uint8_t *to)
{
	int32_t from = window_from(kv, kv->copy_end), slots = kv->copy_end - from, first = MAX(slot0, from);
	int32_t end = slot0 + n < kv->copy_end ? slot0 + n : kv->copy_end, heads = kv_layer_heads(kv->hp, layer);
	size_t row = plane_row(plane_of(kv, layer, kind));
	/* offset in kv->copy; earlier layers come first, and in each layer the keys come before the values */
	size_t at =
		(layers_bytes(kv->hp, kv->types, layer, 1) + (kind ? (size_t)heads * plane_row(&kv->k[layer]) : 0)) *
		(size_t)slots;

	at += row * ((size_t)head * (size_t)slots + (size_t)(first - from));
	if (first < end)
		memcpy(to + row * (size_t)(first - slot0), kv->copy + at, row * (size_t)(end - first));
}

/* Copy n slots of one layer, beginning with slot0, to the buffer `to` [K, V][n_kv_head][n]. Returns the address after
 * the copied bytes. */
static uint8_t *layer_read(const struct kv_store *kv, int32_t layer, int32_t slot0, int32_t n, uint8_t *to)
{
	int32_t lacks = slots_missing(kv, layer, slot0, n), at = slot0 + lacks - kv_layer_base(kv, layer);

	for (int i = 0; i < 2; i++) {
		const struct tensor *plane = plane_of(kv, layer, i);
		size_t row = plane_row(plane), piece = row * (size_t)n, gone = row * (size_t)lacks;

		for (int32_t h = 0; h < kv_layer_heads(kv->hp, layer); h++, to += piece) {
			memset(to, 0xff, gone);
			if (lacks && kv->copy_end)
				copy_read(kv, layer, i, h, slot0, lacks, to);
			if (lacks < n)
				kv->be->ops->read(kv->be, plane,
				                  row * ((size_t)h * (size_t)kv_layer_slots(kv, layer) + (size_t)at),
				                  to + gone, piece - gone);
		}
	}
	kv_used(kv, layer);
	return to;
}

/* Write the first `count` of n slots of one layer, beginning with slot0. The entries of all n slots are at `from`, in
 * the layout [K, V][n_kv_head][n]. Return the address after this layer's bytes. */
static const uint8_t *layer_write(struct kv_store *kv, int32_t layer, int32_t slot0, int32_t n, int32_t count,
                                  const uint8_t *from)
{
	int32_t lacks = slots_missing(kv, layer, slot0, n), at = slot0 + lacks - kv_layer_base(kv, layer);

	for (int i = 0; i < 2; i++) {
		struct tensor *plane = plane_of(kv, layer, i);
		size_t row = plane_row(plane);

		for (int32_t h = 0; h < kv_layer_heads(kv->hp, layer); h++, from += row * (size_t)n)
			if (lacks < count)
				kv->be->ops->write(kv->be, plane,
				                   row * ((size_t)h * (size_t)kv_layer_slots(kv, layer) + (size_t)at),
				                   from + row * (size_t)lacks, row * (size_t)(count - lacks));
	}
	kv_written(kv, layer, slot0, count);
	kv_used(kv, layer);
	return from;
}

void kv_entries_read(const struct kv_store *kv, int32_t slot0, int32_t n, void *out)
{
	uint8_t *to = out;

	for (int32_t i = 0; i < layers_with_entries(kv->hp); i++)
		to = layer_read(kv, i, slot0, n, to);
}

/* A range of tokens: from index `first` up to, but not including, index `end`. `first` is the first token without
 * sliding-window entries, and end - 1 is the last one. Some tokens between these two may have sliding-window entries.
 * If first = end, every token has its entries. */
struct gap {
	int32_t first, end;
};

/* Find the tokens whose entries are missing in a buffer written by kv_entries_read(). Only the keys in the first head
 * of the first sliding-window layer are examined: a missing key has only bytes 0xff. */
static struct gap entries_missing(const struct kv_store *kv, int32_t n, const uint8_t *entries)
{
	struct gap gap = { 0, 0 };
	int32_t layer = 0, layers = layers_with_entries(kv->hp);
	size_t row;

	while (layer < layers && kv->full_index[layer] >= 0)
		entries += entry_bytes(kv->hp, kv->types, layer++) * (size_t)n;
	row = layer < layers ? plane_row(&kv->k[layer]) : 0;
	for (int32_t k = 0; layer < layers && k < n; k++) {
		const uint8_t *p = entries + row * (size_t)k;
		size_t i = 0;

		while (i < row && p[i] == 0xff)
			i++;
		if (i < row)
			continue;
		gap.first = gap.end ? gap.first : k;
		gap.end = k + 1;
	}
	return gap;
}

void kv_entries_write(struct kv_store *kv, int32_t slot0, int32_t n, const void *entries)
{
	struct gap gap = entries_missing(kv, n, entries);
	const uint8_t *from = entries;
	int32_t by = slide_by(kv, slot0 + n);

	if (by)
		planes_slide(kv, by);
	if (gap.end) {
		/* The tokens before gap.first may have entries: those of the sliding windows at the end of a pinned
		 * prefix. Write these entries to the layers first, so that keep_windows() can copy them to kv->copy.
		 * Write the entries of later tokens afterwards. */
		for (int32_t i = 0; i < layers_with_entries(kv->hp); i++)
			from = layer_write(kv, i, slot0, n, gap.first, from);
		keep_windows(kv, slot0 + gap.first);
		from = entries;
		kv->held = kv->held > slot0 + gap.end ? kv->held : slot0 + gap.end;
	}
	for (int32_t i = 0; i < layers_with_entries(kv->hp); i++)
		from = layer_write(kv, i, slot0, n, n, from);
}

int kv_windows_hold(const struct kv_store *kv, int32_t slot0, int32_t n)
{
	int32_t copied = kv->copy_end ? window_from(kv, kv->copy_end) : 0;

	return !kv->window_cap || slot0 + n > kv->held || (slot0 < kv->copy_end && slot0 + n > copied);
}

void kv_entries_write_full(struct kv_store *kv, int32_t slot0, int32_t n, const void *entries)
{
	int32_t by = slide_by(kv, slot0 + n);

	if (by)
		planes_slide(kv, by);
	keep_windows(kv, slot0);
	kv->held = kv->held > slot0 + n ? kv->held : slot0 + n;
	kv_full_write(kv, slot0, n, entries);
}

void kv_full_read(const struct kv_store *kv, int32_t slot0, int32_t n, void *out)
{
	uint8_t *to = out;

	for (int32_t i = 0; i < kv->n_full; i++)
		to = layer_read(kv, kv->full[i], slot0, n, to);
}

void kv_full_write(struct kv_store *kv, int32_t slot0, int32_t n, const void *entries)
{
	const uint8_t *from = entries;

	for (int32_t i = 0; i < kv->n_full; i++)
		from = layer_write(kv, kv->full[i], slot0, n, n, from);
}

void kv_window_read(const struct kv_store *kv, int32_t slot0, int32_t n, void *out)
{
	uint8_t *to = out;

	for (int32_t i = 0; i < layers_with_entries(kv->hp); i++)
		if (kv->full_index[i] < 0)
			to = layer_read(kv, i, slot0, n, to);
}

int kv_window_fits(const struct kv_store *kv, int32_t slot0, int32_t n)
{
	return n <= kv->window_cap - slot0 % SLIDE;
}

void kv_window_write(struct kv_store *kv, int32_t slot0, int32_t n, const void *entries)
{
	const uint8_t *from = entries;

	kv->base = slot0 / SLIDE * SLIDE;
	kv->held = slot0;
	for (int32_t i = 0; i < layers_with_entries(kv->hp); i++)
		if (kv->full_index[i] < 0)
			from = layer_write(kv, i, slot0, n, n, from);
}
