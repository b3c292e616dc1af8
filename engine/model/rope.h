/* engine/model/rope.h (private to engine/) - tables of RoPE angles for the backend's rope(), one for each
 * hp->rope[i].
 *
 * Angles are computed in double. In float the angle of position 10^6 would be wrong by 0.06 rad, and positions grow
 * without limit in an endless conversation. */
#ifndef WEIR_ROPE_H
#define WEIR_ROPE_H

#include "engine/model/hparams.h"
#include "kernels/backend.h"

struct rope {
	const struct hparams *hp;
	struct backend *be;
	struct tensor table[ROPE_TABLES_MAX]; /* by hp->rope[i]: f32 [rows][dims], cos and sin of each pair */
	float *host[ROPE_TABLES_MAX];         /* by hp->rope[i]: host memory of a table, for filling it */
	/* tables for queries, shaped as table[]; only if queries are scaled (hp->temperature) */
	struct tensor query[ROPE_TABLES_MAX];
	/* number of positions that can occur, as given to rope_init(); LongRoPE chooses its frequencies by it */
	int32_t positions;
};

/* Return the bytes that rope_init() allocates in the backend. */
uint64_t rope_bytes(const struct hparams *, int32_t rows);
/* Allocate tables of `rows` rows, one for each token of a step. positions: how many positions can occur, such as the
 * slots of the cache. */
int rope_init(struct rope *, const struct hparams *, struct backend *, int32_t rows, int32_t positions, struct err *);
void rope_release(struct rope *);
/* Fill rows i < n with the angles of positions pos + i. If queries are scaled (hp->temperature), row i of the tables
 * for queries gets the factor of position rank + i in the cache. */
void rope_set(struct rope *, int64_t pos, int64_t rank, int32_t n);
/* Fill rows i < n with the angles of positions pos[i], for rotating cached keys again. The factor mscale is left out,
 * because these keys already have it. */
void rope_set_shifts(struct rope *, const int64_t *pos, int32_t n);

/* 1 if a table uses its long frequencies. */
int rope_is_long(const struct rope *);
/* Return the table of angles for a layer's keys, or NULL if the layer has no RoPE. */
const struct tensor *rope_table(const struct rope *, int32_t layer);
/* Return the table of angles for a layer's queries, or NULL if the layer has no RoPE. */
const struct tensor *rope_query_table(const struct rope *, int32_t layer);

#endif
