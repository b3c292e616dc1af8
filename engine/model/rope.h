/* engine/model/rope.h (private to engine/) - tables of RoPE angles for the backend's rope(), one per hp->rope[].
 *
 * Angles are computed in double: in float, the angle of position 10^6 would be off by 0.06 rad, and positions of an
 * endless conversation grow without limit. */
#ifndef WEIR_ROPE_H
#define WEIR_ROPE_H

#include "engine/model/hparams.h"
#include "kernels/backend.h"

struct rope {
	const struct hparams *hp;
	struct backend *be;
	struct tensor table[ROPE_TABLES_MAX]; /* by hp->rope[i]: f32 [rows][dims], cos and sin of each pair */
	float *host[ROPE_TABLES_MAX];         /* by hp->rope[i]: host memory of a table, for filling it */
	struct tensor query[ROPE_TABLES_MAX]; /* tables for queries that are scaled (temperature); else no data */
	int32_t positions;                    /* longest sequence; decides between short and long frequencies */
};

/* Return the bytes that rope_init() allocates in the backend. */
uint64_t rope_bytes(const struct hparams *, int32_t rows);
/* Allocate tables of `rows` rows: the most tokens of one step. positions: the longest sequence. */
int rope_init(struct rope *, const struct hparams *, struct backend *, int32_t rows, int32_t positions, struct err *);
void rope_release(struct rope *);
/* Fill row i with the angles of position pos + i, for i < n. rank + i: number of the token in the cache, by which its
 * query is scaled. */
void rope_set(struct rope *, int64_t pos, int64_t rank, int32_t n);
/* Fill row i with the angles of position pos[i] without mscale: cached keys, which are rotated again, have it. */
void rope_set_shifts(struct rope *, const int64_t *pos, int32_t n);

/* 1 if a table uses its long frequencies. */
int rope_is_long(const struct rope *);
/* Return the table that rotates a layer's keys; NULL = keys are not rotated. */
const struct tensor *rope_table(const struct rope *, int32_t layer);
/* Return the table that rotates a layer's queries; NULL = queries are not rotated. */
const struct tensor *rope_query_table(const struct rope *, int32_t layer);

#endif
