/* engine/cache/retain_cascade.h (private to engine/cache/retain_cascade*.c) - the state of a bounded cache, which
 * consists of a pinned prefix and rings (retain_cascade.c). */
#ifndef WEIR_RETAIN_CASCADE_H
#define WEIR_RETAIN_CASCADE_H

#include "engine/cache/attn_mass.h"
#include "engine/cache/cache.h"
#include "engine/cache/rings.h"

/* The rollback points: states to which a rollback can return (retain_cascade_back.c). */
enum { POINT_TURN, POINT_READ, POINT_JOIN };

struct cascade {
	struct rope rope[RINGS_MOST]; /* RoPE angles of each ring; the angles of the prefix are in cache.rope */
	/* f32 [chunk][n_head * head_dim]: the step's queries, rotated for each ring */
	struct tensor q[RINGS_MOST];
	struct rings rings;
	/* `lag` is the number of decoded tokens that are inserted into the rings together. `waiting` is the number of
	 * tokens not inserted yet, fewer than `lag`. */
	int32_t lag, waiting;
	struct attn_mass mass;
	int probing;   /* 1: the attention of the current step is added to the attention mass */
	float *weight; /* [chunk] EMA weight of each token of the step */
	struct attn_probe probe;
	int32_t probe_from; /* first token whose attention is summed */
	float nll;          /* the model's surprise at the last token */
	/* [rings.mask + 1] the model's surprise at each token; token t is at index t & rings.mask. Used when token t is
	 * decoded again after a rollback. */
	float *nll_seen;
	struct tensor move; /* i32 [layers_retained() * n_kv_head][3 * cascade_moves()]: moves of KV entries */
	struct rope shift;  /* RoPE angles by which the keys of moved entries are rotated */
	int32_t *list;      /* copy of `move` on the host */
	int lost;           /* 1: moving entries between slots failed, so the KV cache does not match the rings */
	/* [cap_event] buffer for the arguments of cache.evictions_fn */
	struct slot_event *event;
	size_t cap_event;
};

/* Return the number of tokens of the sequence: prefix, tokens inserted into the rings (evicted or not), and waiting
 * tokens. */
static inline int32_t cascade_tokens(const struct cascade *f)
{
	return f->rings.t + f->waiting;
}

/* Empty the cache and give it this shape. */
void cascade_set_shape(struct cache *, const struct rings_shape *);

/* ---- retain_cascade_back.c: functions of struct retention_ops ---- */

int32_t cascade_rewind(struct cache *, int32_t n);
int32_t cascade_pin(struct cache *, int32_t n, struct err *);
int32_t cascade_ready(const struct cache *, int32_t n);
int32_t cascade_take(struct cache *, int32_t n);
void cascade_archive(struct cache *, struct serializer *, int32_t n);
void cascade_points(struct cache *, struct serializer *);

#endif
