/* engine/cache/kv_host.h (private to engine/) - planes in memory of the host, for a device that has no room for them.
 *
 * The planes of layers without a window lie in host memory, which the device reads over the bus. On the device are what
 * selects entries, and of each KV head so many rows with the entries that were selected last. A generated token's
 * selection is made on the device, and the entries that no row holds come from the host: the difference between this
 * token's selection and those before it. It attends to the rows in the order of its list, so results have the bits that
 * they have with all planes on the device.
 *
 * While a token computes, entries are fetched for the next one: those that stand closest behind the selected ones in
 * the scan that selected these. They come in a queue beside the device's own (fetch_args.ahead), and the next token
 * waits for them before its first selection.
 *
 * Tokens of a prompt attend to all entries: for them, and where there are hardly more entries than a token selects, the
 * whole planes of a layer come to the device before it attends. There is room for one layer's. */
#ifndef WEIR_KV_HOST_H
#define WEIR_KV_HOST_H

#include "engine/cache/kv_store.h"

/* What was fetched since the store was opened. */
struct kv_fetched {
	uint64_t wanted; /* entries that tokens selected, of all layers and KV heads */
	uint64_t waited; /* those of them that had to be brought, and waited for */
	uint64_t ahead;  /* entries brought ahead */
	uint64_t bytes;  /* of both */
};

struct kv_host {
	/* rows of a KV head; entries that a token selects at most; the most KV heads of a layer */
	int32_t rows, listed, heads;
	/* are entries fetched for the next token?  Tests and measurements set it to 0: each waits for its own */
	int ahead;
	struct tensor whole_k, whole_v; /* one layer's planes */
	struct tensor *k, *v, *map;     /* [n_full] see struct fetch_args */
	/* [n_full] i32 [heads of the layer][listed + ahead]: what the next token will select, perhaps */
	struct tensor *next;
	struct tensor list; /* i32 [heads][listed]: the rows of the part that attends now */
	/* i32 [n_full * heads][FETCH_COUNTS]: of fetches that are waited for, and of those ahead */
	struct tensor count, count_ahead;
	int32_t *end;    /* [n_full] the rows hold no slot from this one on */
	uint8_t *coming; /* [n_full] entries are being fetched ahead */
	/* Tokens generated since the last prefill: all, and those before the counts were read last; counts then, and at
	 * the prefill. */
	uint64_t tokens, counted_tokens;
	struct kv_fetched now, before;
	int counting;
	uint32_t *counted; /* what is read of them */
	int stale;         /* a step failed: rows may lack the entries that they are to hold */
};

/* Bytes of the device with so many rows of each KV head; the fewest rows. */
uint64_t kv_host_bytes(const struct hparams *, enum dtype, int32_t cap, int32_t rows, int32_t listed);
int32_t kv_host_rows_least(int32_t listed, int32_t cap);
int kv_host_open(struct kv_store *, int32_t rows, int32_t listed, struct err *);
void kv_host_close(struct kv_store *);
/* Without such planes the following do nothing. */

/* Does the layer have its planes there? */
int kv_host_serves(const struct kv_store *, int32_t layer);
/* A layer with n_slots slots is about to attend to this part, whose selection is made: let it attend to entries on the
 * device. */
void kv_host_near(struct kv_store *, int32_t layer, struct attn_part *, int32_t n_slots);
/* It has attended, by this selection (NULL: none) to a token after which no other attends in this step. */
void kv_host_ahead(struct kv_store *, int32_t layer, const struct topk_args *);
/* Slots of a layer from slot0 on were written; a step failed, or was cancelled; no entry counts any more. */
void kv_host_forget(struct kv_store *, int32_t layer, int32_t slot0);
void kv_host_invalidate(struct kv_store *);
void kv_host_clear(struct kv_store *);
/* A step begins, which generates so many tokens; 0: it prefills. */
void kv_host_step(struct kv_store *, int32_t generates);
/* See struct timeline_stats; unknown values stay.  There are such planes. */
void kv_host_stats(const struct kv_store *, double *fetched, double *overlap);
/* Read the counts of fetched entries from the device, after the work that is queued there. */
void kv_host_count(struct kv_store *, struct kv_fetched *);

#endif
