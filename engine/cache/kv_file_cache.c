/* engine/cache/kv_file_cache.c - a memory cache for the KV entries that are selected from a file; see
 * kv_file_cache.h. */
#include "engine/cache/kv_file_cache.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUN = 64 }; /* maximum number of neighbouring slots that are read from the file at once */

uint64_t kv_file_cache_bytes(const struct hparams *hp, struct kv_types types, int32_t cap, int32_t lines)
{
	uint64_t sum = (4 + 3 * 4 * (uint64_t)most_kv_heads(hp)) * (uint64_t)lines, one;

	for (int32_t i = 0; i < hp->n_layer; i++) {
		one = 4 * (uint64_t)cap + (kv_layer_entry_bytes(hp, types, i) + 4 + 1 + 4) * (uint64_t)lines;
		sum += layer_entries(hp, i) == i && !layer_window(hp, i) ? one * (uint64_t)kv_layer_heads(hp, i) : 0;
	}
	return sum;
}

/* ---- life ---- */

static int map_open(struct line_map *m, int32_t cap, int32_t lines, struct err *err)
{
	if (!(m->at = try_alloc((size_t)cap, sizeof *m->at, "KV entries in memory", err)) ||
	    !(m->slot = try_alloc((size_t)lines, sizeof *m->slot, "KV entries in memory", err)) ||
	    !(m->used = try_alloc((size_t)lines, sizeof *m->used, "KV entries in memory", err)) ||
	    !(m->asked = try_alloc((size_t)lines, sizeof *m->asked, "KV entries in memory", err)))
		return -1;
	memset(m->slot, 0xff, (size_t)lines * sizeof *m->slot);
	return 0;
}

static int tensor_alloc(struct kv_store *kv, struct tensor *t, enum dtype type, int64_t rows, int32_t cols,
                        struct err *err)
{
	*t = (struct tensor){ .type = type, .rows = (int32_t)rows, .cols = cols };
	if (rows <= INT32_MAX && !kv->be->ops->alloc(kv->be, t))
		return 0;
	t->data = NULL;
	return err_set(err, ERR_FIT, "cannot allocate KV entries in memory: %s", kv->be->err);
}

/* Return the size in bytes of one key (plane 0) or value (plane 1) in one KV head of a layer. */
static size_t vector_bytes(const struct kv_store *kv, int32_t layer, int plane)
{
	return (size_t)kv_layer_row_bytes(kv->hp, plane ? kv->types.v : kv->types.k, layer);
}

static int open_all(struct kv_store *kv, struct kv_file_cache *r, struct err *err)
{
	size_t most = 0;

	for (int32_t i = 0; i < kv->n_full; i++) {
		int32_t layer = kv->full[i], heads = kv_layer_heads(kv->hp, layer),
			dim = model_layer_spec(kv->hp, layer)->attn.head_dim;

		most = MAX(vector_bytes(kv, layer, 0), most);
		most = MAX(vector_bytes(kv, layer, 1), most);
		if (tensor_alloc(kv, &r->k[i], kv->types.k, (int64_t)heads * r->lines, dim, err) ||
		    tensor_alloc(kv, &r->v[i], kv->types.v, (int64_t)heads * r->lines, dim, err))
			return -1;
		for (int32_t h = 0; h < heads; h++)
			if (map_open(&r->map[i * r->heads + h], kv->cap, r->lines, err))
				return -1;
	}
	return tensor_alloc(kv, &r->list, DT_I32, r->heads, r->lines, err) ||
	                       !(r->want = try_alloc((size_t)r->lines, 4, "KV entries in memory", err)) ||
	                       !(r->got = try_alloc((size_t)r->heads * (size_t)r->lines, 4, "KV entries in memory",
	                                            err)) ||
	                       !(r->missed = try_alloc((size_t)r->heads * (size_t)r->lines, 4, "KV entries in memory",
	                                               err)) ||
	                       !(r->bytes = try_alloc(RUN, most, "KV entries in memory", err))
	               ? -1
	               : 0;
}

struct kv_file_cache *kv_file_cache_open(struct kv_store *kv, int32_t lines, struct err *err)
{
	struct kv_file_cache *r = kv->file_cache = xcalloc(1, sizeof *r);

	r->lines = lines;
	r->heads = most_kv_heads(kv->hp);
	r->k = xcalloc((size_t)kv->n_full, sizeof *r->k);
	r->v = xcalloc((size_t)kv->n_full, sizeof *r->v);
	r->n_missed = xcalloc((size_t)r->heads, sizeof *r->n_missed);
	r->map = xcalloc((size_t)kv->n_full * (size_t)r->heads, sizeof *r->map);
	if (!open_all(kv, r, err))
		return r;
	kv_file_cache_close(kv);
	return NULL;
}

static void tensor_drop(const struct kv_store *kv, struct tensor *t)
{
	if (t->data)
		kv->be->ops->drop(kv->be, t);
}

void kv_file_cache_close(struct kv_store *kv)
{
	struct kv_file_cache *r = kv->file_cache;

	if (!r)
		return;
	for (int32_t i = 0; i < kv->n_full; i++) {
		tensor_drop(kv, &r->k[i]);
		tensor_drop(kv, &r->v[i]);
	}
	tensor_drop(kv, &r->list);
	for (int32_t i = 0; i < kv->n_full * r->heads; i++) {
		free(r->map[i].at);
		free(r->map[i].slot);
		free(r->map[i].used);
		free(r->map[i].asked);
	}
	free(r->map);
	free(r->k);
	free(r->v);
	free(r->want);
	free(r->got);
	free(r->missed);
	free(r->n_missed);
	free(r->bytes);
	free(r);
	kv->file_cache = NULL;
}

/* ---- lines ---- */

static void forget_line(struct line_map *m, int32_t slot)
{
	if (m->at[slot])
		m->slot[m->at[slot] - 1] = -1;
	m->at[slot] = 0;
}

void kv_file_cache_forget(struct kv_store *kv, int32_t layer, int32_t slot0, int32_t n)
{
	struct kv_file_cache *r = kv->file_cache;

	for (int32_t h = 0; r && kv->full_index[layer] >= 0 && h < kv_layer_heads(kv->hp, layer); h++)
		for (int32_t s = slot0; s < slot0 + n; s++)
			forget_line(&r->map[kv->full_index[layer] * r->heads + h], s);
}

void kv_file_cache_clear(struct kv_store *kv)
{
	for (int32_t i = 0; kv->file_cache && i < kv->n_full; i++)
		kv_file_cache_forget(kv, kv->full[i], 0, kv->cap);
}

/* Return the cache line to replace, by the clock algorithm (second chance). Skip lines that the current call uses. The
 * search always ends, because a call uses at most as many lines as there are. */
static int32_t next_line(struct kv_file_cache *r, struct line_map *m)
{
	for (;;) {
		int32_t i = m->hand;

		m->hand = i + 1 < r->lines ? i + 1 : 0;
		if (m->slot[i] < 0)
			return i;
		if (m->asked[i] == r->call)
			continue;
		if (!m->used[i])
			return i;
		m->used[i] = 0;
	}
}

/* Assign a cache line to each of the n slots in r->want, and write the cache line numbers to got[n]. A slot that was in
 * no cache line is missed: its entry must be read from the file. Write the missed slots to missed_slot[], and return
 * their number. */
static int32_t find_lines(struct kv_file_cache *r, struct line_map *m, int32_t n, int32_t *got, int32_t *missed_slot)
{
	int32_t missed = 0;

	for (int32_t i = 0; i < n; i++) {
		int32_t at = m->at[r->want[i]] - 1;

		if (at < 0)
			continue;
		m->used[at] = 1;
		m->asked[at] = r->call;
	}
	for (int32_t i = 0; i < n; i++) {
		int32_t slot = r->want[i], at = m->at[slot] - 1;

		if (at < 0) {
			at = next_line(r, m);
			if (m->slot[at] >= 0)
				m->at[m->slot[at]] = 0;
			m->slot[at] = slot;
			m->at[slot] = at + 1;
			m->used[at] = 1;
			m->asked[at] = r->call;
			missed_slot[missed++] = slot;
		}
		got[i] = at;
	}
	return missed;
}

/* Copy the keys (plane 0) or values (plane 1) of n consecutive slots of one head from the file to r->bytes. If mapped =
 * 0, read by pread(), which is best for few slots. If mapped = 1, read through the mapping, which is cheaper if most
 * pages are needed. Returns 0 or -1. */
static int slots_fetch(struct kv_store *kv, int32_t layer, int plane, int32_t head, int32_t slot, int32_t n, int mapped)
{
	struct kv_file_cache *r = kv->file_cache;
	size_t row = vector_bytes(kv, layer, plane), bytes = row * (size_t)n;

	if (!mapped)
		return pread(kv->fd, r->bytes, bytes, (off_t)kv_file_offset(kv, layer, plane, head, slot)) ==
		                       (ssize_t)bytes
		               ? 0
		               : -1;
	kv->be->ops->read(kv->be, plane ? &kv->v[layer] : &kv->k[layer],
	                  row * ((size_t)head * (size_t)kv->cap + (size_t)slot), r->bytes, bytes);
	return 0;
}

/* Read the missed slots of a head from the file into their cache lines. Neighbouring slots are read by one call.
 * Returns 0 or -1. */
static int slots_bring(struct kv_store *kv, int32_t layer, int32_t head, int32_t missed)
{
	struct kv_file_cache *r = kv->file_cache;
	const int32_t *slot = r->missed + (size_t)head * (size_t)r->lines;
	struct line_map *m = &r->map[kv->full_index[layer] * r->heads + head];

	for (int plane = 0; plane < 2; plane++) {
		struct tensor *to = plane ? &r->v[kv->full_index[layer]] : &r->k[kv->full_index[layer]];
		size_t row = vector_bytes(kv, layer, plane);
		/* Reading through the mapping costs up to one page fault for each FILE_ALIGN bytes that were written
		 * in this head. Reading by pread() costs up to one call for each missed slot. Use the mapping if it
		 * causes fewer page faults than there are missed slots. */
		int mapped = (uint64_t)missed > row * (uint64_t)kv->written / FILE_ALIGN;

		for (int32_t i = 0, n; i < missed; i += n) {
			for (n = 1; n < RUN && i + n < missed && slot[i + n] == slot[i] + n; n++)
				;
			if (slots_fetch(kv, layer, plane, head, slot[i], n, mapped))
				return -1;
			for (int32_t k = 0; k < n; k++)
				kv->be->ops->write(kv->be, to,
				                   row * ((size_t)head * (size_t)r->lines +
				                          (size_t)(m->at[slot[i] + k] - 1)),
				                   r->bytes + row * (size_t)k, row);
		}
	}
	r->moved += kv_layer_entry_bytes(kv->hp, kv->types, layer) * (uint64_t)missed;
	return 0;
}

/* Empty the cache after a failed read, because some cache lines are assigned to slots whose entries were not read.
 * Returns 0, the result of kv_file_cache_take(). */
static int lines_discard(struct kv_store *kv)
{
	kv_file_cache_clear(kv);
	return 0;
}

int kv_file_cache_take(struct kv_store *kv, int32_t layer, struct attn_segment *p)
{
	struct kv_file_cache *r = kv->file_cache;
	int32_t n = p->n_slots, heads = kv_layer_heads(kv->hp, layer);

	if (!r || kv->full_index[layer] < 0 || !p->slots || p->selection || p->when.flag || n > r->lines ||
	    kv->be->failed)
		return 0;
	r->call = r->call < INT32_MAX ? r->call + 1 : 1;
	for (int32_t h = 0; h < heads; h++) {
		int32_t *missed = r->missed + (size_t)h * (size_t)r->lines;

		kv->be->ops->read(kv->be, p->slots, 4 * (size_t)h * (size_t)p->slots->cols, r->want, 4 * (size_t)n);
		for (int32_t i = 0; i < n; i++)
			if (r->want[i] < 0 || r->want[i] >= kv->cap)
				return lines_discard(kv); /* a slot number is invalid: attention will report it */
		r->n_missed[h] = find_lines(r, &r->map[kv->full_index[layer] * r->heads + h], n,
		                            r->got + (size_t)h * (size_t)r->lines, missed);
		kv_ahead_slots(kv, layer, h, missed, r->n_missed[h]);
	}
	for (int32_t h = 0; h < heads; h++) {
		if (slots_bring(kv, layer, h, r->n_missed[h]))
			return lines_discard(kv);
		kv->be->ops->write(kv->be, &r->list, 4 * (size_t)h * (size_t)r->lines,
		                   r->got + (size_t)h * (size_t)r->lines, 4 * (size_t)n);
	}
	if (kv->be->failed)
		return lines_discard(kv);
	p->slots = &r->list;
	p->k = &r->k[kv->full_index[layer]];
	p->v = &r->v[kv->full_index[layer]];
	p->cap = r->lines;
	return 1;
}
