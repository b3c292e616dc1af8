/* engine/cache/kv_file_cache.h (private to engine/) - caches in memory the KV entries that were selected most recently
 * from a file.
 *
 * A page of the file holds the keys or values of many slots (4 KiB: 32 keys of 128 bytes), but a token selects few of
 * them. So each layer caches single entries, in *lines*. A token reads from the file only those selected entries that
 * are in no cache line. Attention reads the lines in the order of the selection, so results are the same as without the
 * cache. In each KV head, the clock algorithm (second chance) chooses the cache line to replace. */
#ifndef WEIR_KV_FILE_CACHE_H
#define WEIR_KV_FILE_CACHE_H

#include "engine/cache/kv_store.h"

struct kv_file_cache {
	/* `lines` is the number of cached entries (lines) per KV head. `heads` is the largest number of KV heads in any
	 * layer. */
	int32_t lines, heads;
	/* [n_full] [heads of the layer * lines][head_dim]: cached keys and cached values of each full layer */
	struct tensor *k, *v;
	struct tensor list; /* i32 [heads][lines]: the lines of `k` and `v` that the current attention call reads */
	struct line_map {
		int32_t *at;   /* [cap] cache line of each slot, counted from 1; 0: the slot is not cached */
		int32_t *slot; /* [lines] slot whose entry is in the cache line; -1 = the cache line is empty */
		uint8_t *used; /* [lines] 1: used since `hand` last passed this cache line */
		/* [lines] value of `call` when the cache line was last used; a cache line used by the current
		 * kv_file_cache_take() call is not replaced */
		int32_t *asked;
		/* cache line at which the clock algorithm continues its search for a cache line to replace */
		int32_t hand;
	} * map; /* [n_full][heads] */
	/* number of the current kv_file_cache_take() call */
	int32_t call;
	int32_t *want; /* [lines] selected slots of a head */
	/* [heads][lines] each. `got` has the cache line of each selected slot, `missed` the selected slots that were in
	 * no cache line. */
	int32_t *got, *missed;
	int32_t *n_missed; /* [heads] number of missed slots */
	uint8_t *bytes;    /* buffer for RUN lines from the file */
	uint64_t moved;    /* bytes read from the file */
};

/* Return the memory that a cache with `lines` lines per KV head takes, in bytes. */
uint64_t kv_file_cache_bytes(const struct hparams *, struct kv_types, int32_t cap, int32_t lines);
struct kv_file_cache *kv_file_cache_open(struct kv_store *, int32_t lines, struct err *);
void kv_file_cache_close(struct kv_store *);
/* Cache the entries of the slots that a segment lists (struct attn_segment), change the segment so that attention reads
 * them from the cache, and return 1. Return 0 with the segment unchanged in each of these cases: the segment is a
 * range; its slots are not selected yet; it has a predicate (attn_segment.when); it lists more slots than there are
 * lines; the file cannot be read. */
int kv_file_cache_take(struct kv_store *, int32_t layer, struct attn_segment *);
/* Discard the cached entries of n slots of a layer, from slot0 on, because new entries were written to these slots. */
void kv_file_cache_forget(struct kv_store *, int32_t layer, int32_t slot0, int32_t n);
void kv_file_cache_clear(struct kv_store *);

#endif
