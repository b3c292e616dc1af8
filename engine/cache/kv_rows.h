/* engine/cache/kv_rows.h (private to engine/) - the last selected entries of planes on disk, kept in memory row by
 * row.
 *
 * A page of the file holds the keys or values of many slots (4 KiB: 32 rows of 128 bytes), of which a token selects
 * few. So each layer has a store of rows in memory beside its planes. A token reads from the file only the selected
 * entries that the store lacks. It attends to the rows of the store in the order of its list: the same sums in the
 * same order.
 *
 * Each KV head replaces rows by the clock algorithm: the hand passes over a row that was used since its last turn and
 * replaces the first other row. */
#ifndef WEIR_KV_ROWS_H
#define WEIR_KV_ROWS_H

#include "engine/cache/kv_store.h"

struct kv_rows {
	int32_t rows, heads;  /* rows per KV head; most KV heads of a layer */
	struct tensor *k, *v; /* [n_full] [heads of the layer * rows][head_dim]: keys and values of the rows */
	struct tensor list;   /* i32 [heads][rows]: rows that the part attending now reads */
	struct row_map {
		int32_t *at;   /* [cap] row of a slot, counted from 1; 0 = not in the store */
		int32_t *slot; /* [rows] slot in a row; -1 = none */
		uint8_t *used; /* [rows] 1: used since the hand passed */
		int32_t *
			asked; /* [rows] number of the last call that used the row; a call never replaces rows that it uses itself */
		int32_t hand;
	} * map; /* [n_full][heads] */
	int32_t call;
	int32_t *want;         /* [rows] selected slots of a head */
	int32_t *got, *missed; /* [heads][rows] rows of the selected slots; selected slots that the store lacked */
	int32_t *n_missed;     /* [heads] number of missed slots */
	uint8_t *bytes;        /* buffer for RUN rows from the file */
	uint64_t moved;        /* bytes read from the file */
};

/* Bytes of memory with `rows` rows per KV head. */
uint64_t kv_rows_bytes(const struct hparams *, enum dtype, int32_t cap, int32_t rows);
struct kv_rows *kv_rows_open(struct kv_store *, int32_t rows, struct err *);
void kv_rows_close(struct kv_store *);
/* Let a part with a given list attend to rows of the store. Returns 1. Returns 0 and leaves the part as it is, if the
 * list does not fit the store or the file cannot be read. */
int kv_rows_take(struct kv_store *, int32_t layer, struct attn_part *);
/* Discard the copies of slots slot0 .. slot0 + n of a layer, whose entries were written or moved. */
void kv_rows_forget(struct kv_store *, int32_t layer, int32_t slot0, int32_t n);
void kv_rows_clear(struct kv_store *);

#endif
