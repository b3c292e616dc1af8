/* engine/cache/retain_cascade.h (private to engine/cache/retain_cascade*.c) - the state of a cache whose stream runs
 * through rings (retain_cascade.c). */
#ifndef WEIR_RETAIN_CASCADE_H
#define WEIR_RETAIN_CASCADE_H

#include "engine/cache/attn_mass.h"
#include "engine/cache/cache.h"
#include "engine/cache/rings.h"

enum { POINT_TURN, POINT_READ, POINT_JOIN };

struct cascade {
	struct rope rope[RINGS_MOST]; /* the frame (positions) of each ring; that of the prefix is cache.rope */
	/* f32 [chunk][n_head * head_dim]: the step's queries in the frame of each ring */
	struct tensor q[RINGS_MOST];
	struct rings rings;
	int32_t lag, waiting; /* tokens behind the rings that have not joined them yet, fewer than lag */
	struct attn_mass mass;
	int probing;   /* the running step adds to the mass */
	float *weight; /* [chunk] */
	struct attn_probe probe;
	int32_t probe_from; /* the first token whose attention counts */
	float nll;          /* surprise at the last token */
	/* [rings.mask + 1] the same by token: replayed tokens have no logits before them */
	float *nll_seen;
	struct tensor move; /* i32 [layers_retained() * n_kv_head][3 * moves] */
	struct rope shift;  /* rotations of keys that move */
	int32_t *list;      /* move, on the host */
	int lost;           /* a move failed half way: the entries no longer match the rings */
	struct slot_event *event;
	size_t cap_event;
};

/* Tokens whose entries the rings have or wait for. */
static inline int32_t cascade_tokens(const struct cascade *f)
{
	return f->rings.t + f->waiting;
}

/* Empty the cache and give it this shape. */
void cascade_set_shape(struct cache *, const struct rings_shape *);

/* ---- retain_cascade_back.c: as struct retention_ops has them ---- */

int32_t cascade_rewind(struct cache *, int32_t n);
int32_t cascade_pin(struct cache *, int32_t n, struct err *);
int32_t cascade_ready(const struct cache *, int32_t n);
int32_t cascade_take(struct cache *, int32_t n);
void cascade_archive(struct cache *, struct serializer *, int32_t n);
void cascade_points(struct cache *, struct serializer *);

#endif
