/* engine/cache/cascade_shape.h (private to engine/) - how many slots a bounded cache gives to sinks, rings and staged
 * tokens, computed before anything is allocated. */
#ifndef WEIR_CASCADE_SHAPE_H
#define WEIR_CASCADE_SHAPE_H

#include "engine/cache/cache.h"
#include "engine/cache/rings.h"

enum { SCORE_ATTN, SCORE_SURPRISE };
enum { HEADS_KV, HEADS_LAYER };

/* Settings of `sink` and `cascade`; `auto` begins its own with them. */
struct cascade_params {
	int32_t size, sinks; /* size: tokens kept behind the sinks (fill: 0 = what the context leaves) */
	/* n: rings; f: each ring accepts one of f tokens that the ring before accepted; stride: most tokens of a
	 * step */
	int32_t n, f, stride;
	int32_t select;           /* 0: tokens do not compete, the newer one stays */
	double gamma;             /* EMA factor of attention mass; 0 = derived from the rings' size */
	int heads, reduce, score; /* HEADS_*, enum reduce, SCORE_* */
	int fill; /* 1 (auto): sinks and rings take the whole context, and the application pins a prefix */
};
static inline const struct cascade_params *cascade_params(const struct cache *c)
{
	return (const void *)c->policy.values;
}

enum { LAG = 16 }; /* most decoded tokens that join the rings together */

/* Most tokens of a step. */
int32_t cascade_chunk(const struct cache *);
/* The shape with `pinned` pinned tokens if `fill` is set; else the sinks of the settings. */
struct rings_shape cascade_shape(const struct cache *, int64_t pinned);
/* Slots of the store per KV head. */
int32_t cascade_cap(const struct cache *);
int32_t cascade_holds(const struct cache *);
/* Decoded tokens that wait to join together, for this shape and steps of at most chunk tokens. */
int32_t cascade_lag(const struct rings_shape *, int32_t chunk);
/* Check that the settings and the model allow this shape: 0, or -1 with ERR_USAGE or ERR_FIT. */
int cascade_check(const struct cache *, const struct rings_shape *, struct err *);
/* Check that n pinned tokens leave room for a stream (`fill` only). */
int cascade_check_pinned(const struct cache *, const struct rings_shape *, int32_t n, struct err *);

/* Number of heads that decide: pairs of layer and KV head, or layers, without sliding-window layers. If all layers
 * have a window: 1, and the rings only count tokens. */
int32_t cascade_heads(const struct cache *);
/* 1 if tokens compete by attention mass. */
static inline int cascade_scored(const struct cache *c)
{
	return cascade_params(c)->select && cascade_params(c)->n > 1 && layers_unwindowed(c->hp);
}
/* 1 if the model's surprise at a token multiplies its mass. */
static inline int cascade_surprised(const struct cache *c)
{
	return cascade_scored(c) && cascade_params(c)->score == SCORE_SURPRISE;
}
/* Most slots that one commit moves. */
static inline int32_t cascade_moves(const struct rings_shape *s)
{
	return 2 * (s->stage + s->n);
}

#endif
