/* engine/cache/kv_disk.c - KV planes (a layer's keys or values) in a file, and how much of the file is in memory.
 *
 * The file is mapped, so other code uses its planes like any tensor. `resident` limits the bytes that are in memory.
 * Each token passes through the layers in order, so a layer that was just used is needed again only after all other
 * layers. Therefore as many of the first layers as the limit allows stay in memory, and every other layer is dropped
 * from memory after each use. For tokens that select entries, the selected entries are cached in memory instead
 * (kv_file_cache.h).
 *
 * Dropped pages may still be in the page cache. If not, they are read from the disk ahead of use (kv_ahead.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/cache/kv_host.h"
#include "engine/cache/kv_file_cache.h"
#include "engine/base/mapped.h"

/* a step of at least this many tokens starts to write its entries to disk at once, instead of leaving that to the
 * system */
enum { WRITE_EARLY = 64 };

static uint64_t round_up(uint64_t n)
{
	return (n + FILE_ALIGN - 1) / FILE_ALIGN * FILE_ALIGN;
}

/* Return how many bytes the keys of n slots of one head take. Their values take as many. */
static uint64_t head_rows(const struct hparams *hp, enum dtype type, int32_t layer, int32_t n)
{
	return kv_layer_row_bytes(hp, type, layer) * (uint64_t)n;
}

/* Return how many bytes a layer's keys, or its values, take in the file. */
static uint64_t plane_file(const struct hparams *hp, enum dtype type, int32_t layer, int32_t cap)
{
	return round_up(head_rows(hp, type, layer, cap) * (uint64_t)model_layer_spec(hp, layer)->attn.n_kv_head);
}

/* Return how many bytes a layer's keys and values take in the file. */
static uint64_t layer_file(const struct hparams *hp, struct kv_types types, int32_t layer, int32_t cap)
{
	return plane_file(hp, types.k, layer, cap) + plane_file(hp, types.v, layer, cap);
}

/* Return an upper limit of the memory that the first n slots take in one plane (a layer's keys or values), in bytes.
 * The system maps whole blocks of FILE_ALIGN bytes. */
static uint64_t plane_resident_most(const struct hparams *hp, enum dtype type, int32_t layer, int32_t n, int32_t cap)
{
	uint64_t heads = (uint64_t)model_layer_spec(hp, layer)->attn.n_kv_head, all = plane_file(hp, type, layer, cap);
	uint64_t part = heads * (round_up(head_rows(hp, type, layer, n)) + FILE_ALIGN);

	return MIN(part, all);
}

/* Return an upper limit of the memory that a layer's first n slots take, in bytes: plane_resident_most() of keys plus
 * values. */
static uint64_t layer_resident_most(const struct hparams *hp, struct kv_types types, int32_t layer, int32_t n,
                                    int32_t cap)
{
	return plane_resident_most(hp, types.k, layer, n, cap) + plane_resident_most(hp, types.v, layer, n, cap);
}

/* 1 if the layer's keys and values are in the file: the layer has entries of its own, and attends to all tokens. */
static int in_file(const struct hparams *hp, int32_t layer)
{
	return layer_entries(hp, layer) == layer && !layer_window(hp, layer);
}

uint64_t kv_disk_bytes(const struct hparams *hp, struct kv_types types, int32_t cap)
{
	uint64_t sum = 0;

	for (int32_t i = 0; i < hp->n_layer; i++)
		sum += in_file(hp, i) ? layer_file(hp, types, i, cap) : 0;
	return sum;
}

uint64_t kv_disk_least(const struct hparams *hp, struct kv_types types, int32_t cap)
{
	uint64_t most = 0;

	for (int32_t i = 0; i < hp->n_layer; i++) {
		uint64_t n = in_file(hp, i) ? layer_resident_most(hp, types, i, cap, cap) : 0;

		most = MAX(n, most);
	}
	return most;
}

/* ---- which layers are in memory ---- */

/* Some of the full layers, the first ones in kv->full[], always stay in memory. Return their number. The other full
 * layers are in memory one at a time, while they are used. Set *bytes to the memory that the staying layers take. If
 * other layers exist, *bytes also includes the memory of the largest full layer. */
static int32_t layers_staying(const struct kv_store *kv, int32_t slots, uint64_t *bytes)
{
	uint64_t sum = 0, widest = 0;
	int32_t n = 0;

	for (int32_t i = 0; i < kv->n_full; i++) {
		uint64_t b = layer_resident_most(kv->hp, kv->types, kv->full[i], slots, kv->cap);

		widest = MAX(b, widest);
	}
	for (; n < kv->n_full; n++) {
		uint64_t b = layer_resident_most(kv->hp, kv->types, kv->full[n], slots, kv->cap);

		if (sum + b + (n < kv->n_full - 1 ? widest : 0) > kv->resident)
			break;
		sum += b;
	}
	*bytes = sum + (n < kv->n_full ? widest : 0);
	return n;
}

/* The result must not change during a step. So it is computed as if all slots that the longest step could write were
 * already in use. */
int kv_stays(const struct kv_store *kv, int32_t layer)
{
	uint64_t bytes;

	return kv->full_index[layer] <
	       layers_staying(kv, kv->written < kv->cap - kv->step ? kv->written + kv->step : kv->cap, &bytes);
}

uint64_t kv_disk_resident(const struct kv_store *kv)
{
	uint64_t bytes = 0;

	if (kv->disk && kv->written)
		layers_staying(kv, kv->written, &bytes);
	return bytes;
}

static void planes_give_back(const struct kv_store *kv, int32_t layer)
{
	const struct tensor *plane[] = { &kv->k[layer], &kv->v[layer] };

	for (int i = 0; i < 2; i++)
		kv->be->ops->give_back(kv->be, plane[i], 0,
		                       (size_t)dtype_bytes(plane[i]->type, (uint64_t)plane[i]->cols) *
		                               (size_t)plane[i]->rows);
}

void kv_used(const struct kv_store *kv, int32_t layer)
{
	if (kv->disk && kv->full_index[layer] >= 0 && !kv_stays(kv, layer))
		planes_give_back(kv, layer);
}

void kv_disk_clear(struct kv_store *kv)
{
	for (int32_t i = 0; kv->disk && kv->written && i < kv->n_full; i++)
		planes_give_back(kv, kv->full[i]);
	if (kv->written)
		kv_file_cache_clear(kv);
	kv->written = 0;
}

/* ---- offsets in the file ---- */

void kv_file_ranges(const struct kv_store *kv, int32_t layer, int32_t slot0, int32_t n, kv_range_fn *fn)
{
	for (int32_t plane = 0; plane < 2; plane++)
		for (int32_t h = 0; h < model_layer_spec(kv->hp, layer)->attn.n_kv_head; h++)
			fn(kv->fd, kv_file_offset(kv, layer, plane, h, slot0),
			   head_rows(kv->hp, plane ? kv->types.v : kv->types.k, layer, n));
}

uint64_t kv_file_offset(const struct kv_store *kv, int32_t layer, int plane, int32_t head, int32_t slot)
{
	return kv->at[layer] + (plane ? plane_file(kv->hp, kv->types.k, layer, kv->cap) : 0) +
	       head_rows(kv->hp, plane ? kv->types.v : kv->types.k, layer, head * kv->cap + slot);
}

/* Start writing the changed pages of this byte range to disk, so that they do not fill memory. Return before they are
 * written. */
static void write_early(int fd, uint64_t off, uint64_t n)
{
#ifdef SYNC_FILE_RANGE_WRITE
	sync_file_range(fd, (off_t)off, (off_t)n, SYNC_FILE_RANGE_WRITE);
#endif
}

void kv_written(struct kv_store *kv, int32_t layer, int32_t slot0, int32_t n)
{
	kv_host_forget(kv, layer, slot0);
	if (!kv->disk || kv->full_index[layer] < 0)
		return;
	kv->written = slot0 + n > kv->written ? slot0 + n : kv->written;
	kv_file_cache_forget(kv, layer, slot0, n);
	if (n >= WRITE_EARLY)
		kv_file_ranges(kv, layer, slot0, n, write_early);
}

/* ---- life ---- */

int kv_disk_open(struct kv_store *kv, int unreserved, struct err *err)
{
	uint64_t off = 0;

	kv->at = xcalloc((size_t)kv->hp->n_layer, sizeof *kv->at);
	for (int32_t i = 0; i < kv->hp->n_layer; i++) {
		kv->at[i] = off;
		off += in_file(kv->hp, i) ? layer_file(kv->hp, kv->types, i, kv->cap) : 0;
	}
	kv->fd = scratch_file("the KV cache", unreserved ? 0 : off, err);
	if (kv->fd < 0)
		return -1;
	if (unreserved && ftruncate(kv->fd, (off_t)off)) {
		close(kv->fd);
		return err_set(err, ERR_FAIL, "cannot make a file of %llu bytes for the KV cache: %s",
		               (unsigned long long)off, strerror(errno));
	}
	kv->disk = off;
	kv->lost = xcalloc(1, sizeof *kv->lost);
	kv->ahead = kv_ahead_open(kv);
	return 0;
}

void kv_disk_close(struct kv_store *kv)
{
	if (kv->disk)
		close(kv->fd);
	kv_ahead_close(kv->ahead);
	free(kv->at);
	free(kv->lost);
}

static int plane_alloc(struct kv_store *kv, struct tensor *plane, uint64_t off)
{
	if (kv->be->ops->alloc_file(kv->be, plane, kv->fd, off))
		return -1;
	mapped_add(plane->data, (size_t)dtype_bytes(plane->type, (uint64_t)plane->cols) * (size_t)plane->rows,
	           kv->lost);
	return 0;
}

int kv_disk_alloc(struct kv_store *kv, int32_t layer)
{
	return plane_alloc(kv, &kv->k[layer], kv->at[layer]) ||
	                       plane_alloc(kv, &kv->v[layer],
	                                   kv->at[layer] + plane_file(kv->hp, kv->types.k, layer, kv->cap))
	               ? -1
	               : 0;
}

void kv_disk_drop(struct kv_store *kv, int32_t layer)
{
	if (!kv->disk || layer_window(kv->hp, layer))
		return;
	if (kv->k[layer].data)
		mapped_remove(kv->k[layer].data);
	if (kv->v[layer].data)
		mapped_remove(kv->v[layer].data);
}

int kv_check_readable(const struct kv_store *kv, struct err *err)
{
	return kv->lost && atomic_load(kv->lost)
	               ? err_set(err, ERR_FAIL,
	                         "the disk failed under the KV cache: open the session anew, without --kv-memory if it happens again")
	               : 0;
}
