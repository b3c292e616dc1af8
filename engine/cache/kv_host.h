/* engine/cache/kv_host.h (private to engine/) - KV planes (a layer's keys or values) in host memory, for a GPU whose
 * memory is too small for them.
 *
 * For decoded tokens, the GPU selects entries by key sketches in its memory. It also has, per KV head, a cache of the
 * entries selected most recently. An entry of this cache is called a *line*. Selected entries that are in no cache line
 * are fetched from the host. Attention reads the lines in the order of the selection, so results have the same bits as
 * with planes on the device. While a token computes, entries that scored just below the selected ones are prefetched
 * for the next token, on a second queue of the device (fetch_args.ahead).
 *
 * Prompt tokens attend to all entries. So before a layer attends, its planes are copied to the device, which has room
 * for one layer. */
#ifndef WEIR_KV_HOST_H
#define WEIR_KV_HOST_H

#include "engine/cache/kv_store.h"

/* Numbers of entries fetched since the store was opened. */
struct kv_fetched {
	uint64_t wanted; /* entries that tokens selected, summed over layers and KV heads */
	uint64_t waited; /* selected entries that were not on the device, so that the token had to wait for them */
	uint64_t ahead;  /* entries prefetched for the next token */
	uint64_t bytes;  /* bytes of all fetched and prefetched entries */
};

struct kv_host {
	/* `lines` is the number of lines (cached entries) per KV head. `listed` is the largest number of entries that a
	 * token selects. `heads` is the largest number of KV heads in any layer. */
	int32_t lines, listed, heads;
	/* 1: prefetch entries that the next token will probably select. Tests and measurements set this to 0. */
	int ahead;
	struct tensor whole_k, whole_v; /* room for the planes of one layer */
	/* [n_full] `k` and `v` have the lines of each layer. `map` lists which entry is in which cache line (struct
	 * fetch_args). */
	struct tensor *k, *v, *map;
	/* [n_full] i32 [heads of the layer][kv_host_lines_least()]: entries to prefetch, because the next token is
	 * likely to select them */
	struct tensor *next;
	struct tensor list; /* i32 [heads][listed]: lines that the current attention call reads */
	/* i32 [n_full * heads][FETCH_COUNTS]: counters of fetches on demand (count) and of prefetches (count_ahead) */
	struct tensor count, count_ahead;
	int32_t *end;    /* [n_full] all cached entries of layer full[i] belong to slots below end[i] */
	uint8_t *coming; /* [n_full] 1: a prefetch for this layer is in progress */
	/* `tokens` is the number of tokens decoded since the last prefill. `now` has the newest counts of fetched
	 * entries, and `counted_tokens` is the value of `tokens` when they were read. `before` has the counts at the
	 * last prefill. */
	uint64_t tokens, counted_tokens;
	struct kv_fetched now, before;
	/* 1: the counts in `before` have been read from the device at least once */
	int counting;
	uint32_t *counted; /* [n_full * heads][FETCH_COUNTS] buffer for the counters that are read from the device */
	int stale;         /* 1: a step has failed, so `map` may list lines whose entries were never copied */
};

/* Return the device memory that a cache with `lines` lines per KV head takes, in bytes. */
uint64_t kv_host_bytes(const struct hparams *, struct kv_types, int32_t cap, int32_t lines, int32_t listed);
/* Return the minimum number of lines per KV head with which the cache works. */
int32_t kv_host_lines_least(int32_t listed, int32_t cap);
int kv_host_open(struct kv_store *, int32_t lines, int32_t listed, struct err *);
void kv_host_close(struct kv_store *);
/* If kv->host is NULL, the functions below do nothing, unless their comment says otherwise. */

/* 1 if the planes of the layer are in host memory. */
int kv_host_serves(const struct kv_store *, int32_t layer);
/* Copy the entries of a segment (range or list of slots) to the device if necessary. Change the segment so that it
 * reads the copies. If the segment lists selected slots, the selection must have been made before. n_slots is the
 * number of slots in use in the layer. */
void kv_host_gather(struct kv_store *, int32_t layer, struct attn_segment *, int32_t n_slots);
/* Prefetch entries for the next token. Call this function in each layer, after the attention of the step's last token.
 * topk_args are the arguments by which the last token selected its entries, or NULL if it selected none. */
void kv_host_ahead(struct kv_store *, int32_t layer, const struct topk_args *);
/* Discard the device's copies of slot slot0 and all later slots of a layer, because these slots were written. */
void kv_host_forget(struct kv_store *, int32_t layer, int32_t slot0);
/* Mark all lines as stale, because a step has failed or was cancelled. */
void kv_host_invalidate(struct kv_store *);
/* Empty the lines of all layers. */
void kv_host_clear(struct kv_store *);
/* Begin a step. `generates` is the number of tokens that the step decodes, or 0 for a prefill step. */
void kv_host_step(struct kv_store *, int32_t generates);
/* Set *fetched to the bytes fetched per decoded token, and *overlap to the share of selected entries that were on the
 * device already. A value that is not known yet is left unchanged. kv->host must not be NULL. */
void kv_host_stats(const struct kv_store *, double *fetched, double *overlap);
/* Wait for the device to finish its queued work, then read the counters of fetched entries. */
void kv_host_count(struct kv_store *, struct kv_fetched *);

#endif
