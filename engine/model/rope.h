/* engine/model/rope.h (private to engine/) - tables of RoPE angles, one per hp->rope[], as the backend's rope() reads
 * them.
 *
 * Angles are computed in double: in float a position of 10^6 would be off by 0.06 rad, and the counters of a cache that
 * never ends grow without limit. */
#ifndef WEIR_ROPE_H
#define WEIR_ROPE_H

#include "engine/model/hparams.h"
#include "kernels/backend.h"

struct rope {
	const struct hparams *hp;
	struct backend *be;
	struct tensor table[ROPE_TABLES_MAX]; /* of hp->rope[i]: f32 [rows][dims], cos and sin per pair */
	float *host[ROPE_TABLES_MAX];
	/* the same times the factor on queries; without data where there is none */
	struct tensor query[ROPE_TABLES_MAX];
	int32_t positions; /* that a sequence may take at most: decides between short and long frequencies */
};

uint64_t rope_bytes(const struct hparams *, int32_t rows);
int rope_init(struct rope *, const struct hparams *, struct backend *, int32_t rows, int32_t positions, struct err *);
void rope_release(struct rope *);
/* Fill row i with the angles of position pos + i, i < n; rank + i is the token's place in the cache, by which queries
 * are scaled. */
void rope_set(struct rope *, int64_t pos, int64_t rank, int32_t n);
/* Fill row i with the angles of pos[i], without YaRN's factor: for cached keys, which carry the factor already. */
void rope_set_shifts(struct rope *, const int64_t *pos, int32_t n);

/* 1: some table rotates by its long frequencies. */
int rope_is_long(const struct rope *);
/* The table that a layer's keys are rotated by; NULL: they are not rotated. */
const struct tensor *rope_table(const struct rope *, int32_t layer);
/* The same for its queries. */
const struct tensor *rope_query_table(const struct rope *, int32_t layer);

#endif
