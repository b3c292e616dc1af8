/* engine/cache/observer.h (private to engine/) - what an observer of attention is; the observers are in
 * engine/observe/.
 *
 * A cache calls its observers after the attention of each layer. An observer may compute the attention again and record
 * it in its own buffers, but it must not change the cache. If a step is rolled back, the observer must forget what it
 * recorded in this step. */
#ifndef WEIR_OBSERVER_H
#define WEIR_OBSERVER_H

#include "engine/engine.h"

struct cache;
struct qkv;
struct reading;
struct step;

/* The attention of one layer, passed to attended(). Valid only during that call. */
struct attention {
	struct cache *c;
	/* the current step; for a drafted token of a VERIFY step, a struct step for this token alone */
	const struct step *st;
	int32_t layer;
	/* the segments (ranges or lists of slots) that were read; a segment with a predicate (attn_segment.when) was
	 * read only if the predicate is true */
	const struct reading *r;
	const struct qkv *x; /* x->q has the queries before RoPE; keys and values are already in the store */
};

struct observer;
struct observer_ops {
	void (*attended)(struct observer *, const struct attention *);
	/* Commit the first st->n tokens of the step. attended() has been called for all tokens of the step, also for
	 * tokens that are not committed. */
	void (*commit)(struct observer *, const struct step *);
	/* Roll back to the first n tokens. Returns n, or a smaller number if the observer must see tokens before n
	 * again. */
	int32_t (*rewind)(struct observer *, int32_t n);
	/* Called when the backend has computed the whole step, before any part of the step is committed. No other work
	 * is queued at that time, so an observer can read tensors in host memory (backend_ops.alloc_host) without
	 * waiting. The pointer may be NULL. */
	void (*computed)(struct observer *, const struct step *);
};
struct observer {
	const struct observer_ops *ops;
	struct observer *next;
};

#endif
