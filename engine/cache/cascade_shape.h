/* engine/cache/cascade_shape.h (private to engine/) - how many slots a bounded cache gives to its parts, before
 * anything is allocated. */
#ifndef WEIR_CASCADE_SHAPE_H
#define WEIR_CASCADE_SHAPE_H

#include "engine/cache/cache.h"
#include "engine/cache/rings.h"

enum { SCORE_ATTN, SCORE_SURPRISE };
enum { HEADS_KV, HEADS_LAYER };

/* Settings of sink, cascade and (its first ones) auto. */
struct cascade_params {
	int32_t size, sinks;      /* tokens kept behind the sinks (fill: 0 = what the context leaves); sinks */
	int32_t n, f, stride;     /* rings; each accepts one of f that the one before accepted; tokens of a step */
	int32_t select;           /* 0: nothing is compared */
	double gamma;             /* EMA factor of the scores; 0 = by the rings' size */
	int heads, reduce, score; /* HEADS_*, enum reduce, SCORE_* */
	int fill;                 /* auto: sinks and rings take the whole context, and the application pins a prefix */
};
static inline const struct cascade_params *cascade_params(const struct cache *c)
{
	return (const void *)c->policy.values;
}

enum { LAG = 16 }; /* generated tokens that join the rings together */

/* Tokens of a step at most. */
int32_t cascade_chunk(const struct cache *);
/* The shape with so many pinned tokens (fill alone; else the sinks). */
struct rings_shape cascade_shape(const struct cache *, int64_t pinned);
/* Slots of the store. */
int32_t cascade_cap(const struct cache *);
int32_t cascade_holds(const struct cache *);
/* Generated tokens that wait to join together, for that shape and steps of chunk tokens. */
int32_t cascade_lag(const struct rings_shape *, int32_t chunk);
/* The settings and the model allow this shape: 0, or ERR_USAGE or ERR_FIT. */
int cascade_check(const struct cache *, const struct rings_shape *, struct err *);
/* fill: the same for a shape that n pinned tokens ask for. */
int cascade_check_pinned(const struct cache *, const struct rings_shape *, int32_t n, struct err *);

/* Decisions: pairs of layer and KV head, or layers, all without a window. Where each layer has a window: 1, because
 * tokens are counted all the same. */
int32_t cascade_heads(const struct cache *);
/* Tokens are compared by attention mass; also by the model's surprise at them. */
static inline int cascade_scored(const struct cache *c)
{
	return cascade_params(c)->select && cascade_params(c)->n > 1 && layers_unwindowed(c->hp);
}
static inline int cascade_surprised(const struct cache *c)
{
	return cascade_scored(c) && cascade_params(c)->score == SCORE_SURPRISE;
}
/* Slots that one commit moves at most. */
static inline int32_t cascade_moves(const struct rings_shape *s)
{
	return 2 * (s->stage + s->n);
}

#endif
