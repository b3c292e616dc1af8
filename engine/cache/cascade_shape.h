/* engine/cache/cascade_shape.h (private to engine/) - the sizes of a bounded cache, computed before allocation: the
 * number of sinks (the first tokens of the sequence, never evicted), the number of ring slots (for later tokens,
 * rings.h), and the number of slots for new tokens that are not in a ring yet. */
#ifndef WEIR_CASCADE_SHAPE_H
#define WEIR_CASCADE_SHAPE_H

#include "engine/cache/cache.h"
#include "engine/cache/rings.h"

/* The score by which tokens compete for a slot: attention mass, or attention mass times the model's surprise. */
enum { SCORE_ATTN, SCORE_SURPRISE };
/* Whether tokens compete for slots in each KV head separately (HEADS_KV) or in all KV heads of a layer together
 * (HEADS_LAYER). */
enum { HEADS_KV, HEADS_LAYER };

/* Settings of the policies `sink` and `cascade`. The settings of policy `auto` begin with this struct, too. */
struct cascade_params {
	/* `size` is the number of tokens kept besides the sinks. If `fill` is 1, a size of 0 means as many tokens as
	 * fit the context. `sinks` is the number of tokens at the beginning that are never evicted. */
	int32_t size, sinks;
	/* `n` is the number of rings (rings.h). Ring i accepts one of f^i tokens. `stride` is the maximum number of
	 * tokens of a step. */
	int32_t n, f, stride;
	int32_t select;           /* 1: tokens compete by score; 0: of two tokens, the newer one stays */
	int heads, reduce, score; /* `heads` is one of HEADS_*, `reduce` an enum reduce, and `score` one of SCORE_* */
	int fill; /* 1 for policy `auto`: sinks and rings fill the whole context; the sinks are the pinned tokens */
};
static inline const struct cascade_params *cascade_params(const struct cache *c)
{
	return (const void *)c->policy.values;
}

enum { LAG = 16 }; /* maximum number of decoded tokens that are inserted into the rings at once */

/* Return the maximum number of tokens of a step. */
int32_t cascade_chunk(const struct cache *);
/* Return the sizes of the cache. If `fill` is 1, the first `pinned` tokens are the sinks. Otherwise `pinned` is
 * ignored. */
struct rings_shape cascade_shape(const struct cache *, int64_t pinned);
/* Return the number of slots per KV head that the store needs for all tokens that the cache keeps and for new
 * tokens. */
int32_t cascade_cap(const struct cache *);
/* Return how many tokens the cache keeps: sinks and ring slots, without the slots for new tokens. */
int32_t cascade_holds(const struct cache *);
/* Return how many decoded tokens are collected before they are inserted into the rings together. `chunk` is the maximum
 * number of tokens of a step. */
int32_t cascade_lag(const struct rings_shape *, int32_t chunk);
/* Check that the settings and the model allow this shape. Returns 0, or -1 with ERR_USAGE or ERR_FIT. */
int cascade_check(const struct cache *, const struct rings_shape *, struct err *);
/* Check that n pinned tokens leave room for other tokens (policy `auto`). */
int cascade_check_pinned(const struct cache *, const struct rings_shape *, int32_t n, struct err *);

/* Return how many heads decide separately which tokens they evict. These are all KV heads of all layers or, with
 * HEADS_LAYER, one head per layer. Sliding-window layers do not count. If all layers have a sliding window, return
 * 1. */
int32_t cascade_heads(const struct cache *);
/* 1 if tokens compete by attention mass. */
static inline int cascade_scored(const struct cache *c)
{
	return cascade_params(c)->select && cascade_params(c)->n > 1 && layers_unwindowed(c->hp);
}
/* 1 if attention mass is multiplied by the model's surprise at the token. */
static inline int cascade_surprised(const struct cache *c)
{
	return cascade_scored(c) && cascade_params(c)->score == SCORE_SURPRISE;
}
/* Return the maximum number of slots that one commit moves. */
static inline int32_t cascade_moves(const struct rings_shape *s)
{
	return 2 * (s->stage + s->n);
}

#endif
