/* engine/model/rope.h (private to engine/) - tables of RoPE angles for the backend's rope(), one for each hp->rope[i].
 *
 * Angles are computed in double. In float, the angle of position 10^6 would be wrong by 0.06 rad, and in an endless
 * conversation there is no largest position. */
#ifndef WEIR_ROPE_H
#define WEIR_ROPE_H

#include "engine/model/hparams.h"
#include "kernels/backend.h"

struct rope {
	const struct hparams *hp;
	struct backend *be;
	/* table[i] belongs to hp->rope[i]: f32 [rows][dims], the cos and sin of each pair */
	struct tensor table[ROPE_TABLES_MAX];
	float *host[ROPE_TABLES_MAX]; /* host[i] is the memory in which table[i] is filled */
	/* tables for queries, of the shape of table[]; they exist only if queries are scaled (hp->temperature) */
	struct tensor query[ROPE_TABLES_MAX];
	/* number of positions that can occur (a parameter of rope_init()); if it is large, LongRoPE uses its
	 * frequencies for long contexts */
	int32_t positions;
};

/* Return the memory that rope_init() allocates in the backend, in bytes. */
uint64_t rope_bytes(const struct hparams *, int32_t rows);
/* Allocate tables of `rows` rows, one for each token of a step. `positions` is the number of positions that can occur,
 * for example the number of slots of the cache. */
int rope_init(struct rope *, const struct hparams *, struct backend *, int32_t rows, int32_t positions, struct err *);
void rope_release(struct rope *);
/* Fill the first n rows of all tables: row i with the angles of position pos + i. If the model scales queries by
 * position (hp->temperature), also multiply row i of the query tables by the scale for position `rank` + i. */
void rope_set(struct rope *, int64_t pos, int64_t rank, int32_t n);
/* Fill the first n rows: row i with the angles of position pos[i], by which cached keys are rotated again. The factor
 * mscale is omitted, because these keys have been multiplied by it already. */
void rope_set_shifts(struct rope *, const int64_t *pos, int32_t n);

/* 1 if any table uses LongRoPE's frequencies for long contexts. */
int rope_is_long(const struct rope *);
/* Return the table of angles for a layer's keys, or NULL if the layer has no RoPE. */
const struct tensor *rope_table(const struct rope *, int32_t layer);
/* Return the table of angles for a layer's queries, or NULL if the layer has no RoPE. */
const struct tensor *rope_query_table(const struct rope *, int32_t layer);

#endif
