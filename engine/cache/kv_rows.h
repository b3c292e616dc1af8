/* engine/cache/kv_rows.h (private to engine/) - the selected entries of planes on disk, kept in memory one by one.
 *
 * A page holds the keys or values of many slots, of which a token selects few: 32 rows of 128 bytes. So beside the
 * planes each layer has a store of rows, filled with what was selected last; a token reads from the file only what no
 * token before it left there, and attends to the rows in the store, in the order of its list: the same sums in the same
 * order. Every KV head replaces the rows that were not used for longest, as a clock tells (a row that was used since
 * the hand passed it stays for one more turn). */
#ifndef WEIR_KV_ROWS_H
#define WEIR_KV_ROWS_H

#include "engine/cache/kv_store.h"

struct kv_rows {
	int32_t rows, heads;  /* rows of a KV head; the most KV heads of a layer */
	struct tensor *k, *v; /* [n_full] [heads of the layer * rows][head_dim] */
	struct tensor list;   /* i32 [heads][rows]: the rows of the part that attends now */
	struct row_map {
		int32_t *at;    /* [cap] a slot's row, from 1; 0 = not in the store */
		int32_t *slot;  /* [rows] the slot in a row; -1 = none */
		uint8_t *used;  /* [rows] since the hand passed it */
		int32_t *asked; /* [rows] the call that used it last: its own rows are not replaced */
		int32_t hand;
	} * map; /* [n_full][heads] */
	int32_t call;
	int32_t *want;         /* [rows] slots of a head */
	int32_t *got, *missed; /* [heads][rows] their rows; those that were not in the store */
	int32_t *n_missed;     /* [heads] */
	uint8_t *bytes;        /* rows on their way from the file */
	uint64_t moved;        /* bytes of rows that came from the file */
};

/* Bytes of memory with so many rows of each KV head. */
uint64_t kv_rows_bytes(const struct hparams *, enum dtype, int32_t cap, int32_t rows);
struct kv_rows *kv_rows_open(struct kv_store *, int32_t rows, struct err *);
void kv_rows_close(struct kv_store *);
/* Let a part with a given list attend to rows of the store: 1, or 0 where these do not fit, or the file cannot be read:
 * the part stays. */
int kv_rows_take(struct kv_store *, int32_t layer, struct attn_part *);
/* Slots of a layer were written; entries may have moved between slots. */
void kv_rows_forget(struct kv_store *, int32_t layer, int32_t slot0, int32_t n);
void kv_rows_clear(struct kv_store *);

#endif
