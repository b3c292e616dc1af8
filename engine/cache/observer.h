/* engine/cache/observer.h (private to engine/) - what an observer of the attention is.
 *
 * A cache calls its observers, one list of them, after the attention of each layer. An observer may attend again, with
 * a probe and into buffers of its own; it changes nothing that is computed. Between a step's begin and its commit what
 * an observer saw is provisional: a step that is rolled back leaves no trace. The observers are in engine/observe/. */
#ifndef WEIR_OBSERVER_H
#define WEIR_OBSERVER_H

#include "engine/engine.h"

struct cache;
struct qkv;
struct reading;
struct step;

/* One layer's attention, valid during the call. */
struct attention {
	struct cache *c;
	const struct step *st; /* VERIFY: of one token, st->index */
	int32_t layer;
	const struct reading *r; /* what was read; slots have been selected, predicates may still be there */
	const struct qkv *x;     /* q is unrotated; k and v are in the store */
};

struct observer;
struct observer_ops {
	void (*attended)(struct observer *, const struct attention *);
	/* The step's first st->n tokens are committed (VERIFY: of st->tried); attended() was called for all of them. */
	void (*commit)(struct observer *, const struct step *);
	/* All but the first n tokens are forgotten. Returns n, or fewer where the observer has to see more of them
	 * again. */
	int32_t (*rewind)(struct observer *, int32_t n);
};
struct observer {
	const struct observer_ops *ops;
	struct observer *next;
};

#endif
