/* engine/cache/kv_host.h (private to engine/) - KV planes in host memory, for a device whose memory cannot hold
 * them.
 *
 * The planes of full layers are in host memory, which the device reads over the bus. The device holds what selects
 * entries (key sketches), and for each KV head a number of *rows* with the entries that were selected last. The
 * device makes a decoded token's selection. Only selected entries that no row holds are fetched from the host. The
 * token then attends to the rows in the order of its list, so results have the same bits as with all planes on the
 * device.
 *
 * Fetching ahead: while a token computes, entries are fetched for the next token, namely those that scored just below
 * the selected ones. They use a queue beside the device's own (fetch_args.ahead). The next token waits for them
 * before its first selection.
 *
 * Tokens of a prompt attend to all entries: the whole planes of a layer are copied to the device before it attends.
 * The same happens if a region has hardly more entries than a token selects. The device has room for one layer's
 * planes. */
#ifndef WEIR_KV_HOST_H
#define WEIR_KV_HOST_H

#include "engine/cache/kv_store.h"

/* Entries fetched since the store was opened. */
struct kv_fetched {
	uint64_t wanted; /* entries that tokens selected, summed over layers and KV heads */
	uint64_t waited; /* selected entries that were fetched on demand */
	uint64_t ahead;  /* entries fetched ahead */
	uint64_t bytes;  /* bytes of `waited` and `ahead` entries */
};

struct kv_host {
	/* rows per KV head; most entries that a token selects; most KV heads of a layer */
	int32_t rows, listed, heads;
	/* 1: prefetch entries that the next token will probably select. Tests and measurements set it to 0. */
	int ahead;
	struct tensor whole_k, whole_v; /* room for the planes of one layer */
	struct tensor *k, *v, *map;     /* [n_full] rows and map of each layer (struct fetch_args) */
	/* [n_full] i32 [heads of the layer][listed + ahead]: entries that the next token is expected to select */
	struct tensor *next;
	struct tensor list; /* i32 [heads][listed]: rows that the part attending now reads */
	/* i32 [n_full * heads][FETCH_COUNTS]: counts of fetches on demand; counts of fetches ahead */
	struct tensor count, count_ahead;
	int32_t *end;    /* [n_full] slots from this one on have no row */
	uint8_t *coming; /* [n_full] 1: a fetch ahead is running */
	/* tokens: decoded since the last prefill. counted_tokens: how many of them `now` includes. now, before:
	 * counts as last read, and at the last prefill. */
	uint64_t tokens, counted_tokens;
	struct kv_fetched now, before;
	int counting;
	uint32_t *counted; /* [n_full * heads][FETCH_COUNTS] scratch for reading counts */
	int stale;         /* 1: a step failed, so rows may lack the entries that the map names */
};

/* Bytes of device memory with `rows` rows per KV head. */
uint64_t kv_host_bytes(const struct hparams *, enum dtype, int32_t cap, int32_t rows, int32_t listed);
/* The fewest rows per KV head. */
int32_t kv_host_rows_least(int32_t listed, int32_t cap);
int kv_host_open(struct kv_store *, int32_t rows, int32_t listed, struct err *);
void kv_host_close(struct kv_store *);
/* The functions below do nothing if kv->host is NULL, unless their comment says otherwise. */

/* 1 if the planes of the layer are in host memory. */
int kv_host_serves(const struct kv_store *, int32_t layer);
/* Let a part of a layer with n_slots slots attend to entries on the device. Its selection must be made. */
void kv_host_near(struct kv_store *, int32_t layer, struct attn_part *, int32_t n_slots);
/* Fetch ahead for the next token, after a layer has attended by selection `by` (NULL: no selection). The token must
 * be the last one of the step. */
void kv_host_ahead(struct kv_store *, int32_t layer, const struct topk_args *);
/* Discard the device's copies of a layer's slots from slot0 on, because those slots were written. */
void kv_host_forget(struct kv_store *, int32_t layer, int32_t slot0);
/* Mark all rows as stale: a step failed or was cancelled. */
void kv_host_invalidate(struct kv_store *);
/* Forget all rows. */
void kv_host_clear(struct kv_store *);
/* Begin a step. generates: tokens that it decodes; 0 for a prefill step. */
void kv_host_step(struct kv_store *, int32_t generates);
/* Bytes fetched per token and share of entries not fetched on demand (struct timeline_stats). Unknown values are left
 * as they are. kv->host must not be NULL. */
void kv_host_stats(const struct kv_store *, double *fetched, double *overlap);
/* Read the counters of fetched entries from the device, after waiting for the work queued there. */
void kv_host_count(struct kv_store *, struct kv_fetched *);

#endif
