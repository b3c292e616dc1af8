/* engine/cache/observer.h (private to engine/) - what an observer of the attention is.
 *
 * A cache calls its observers after the attention of each layer. An observer may attend again with a probe, into
 * buffers of its own. It changes nothing that is computed. What it saw is provisional until the step is committed: a
 * step that is rolled back leaves no trace. The observers are in engine/observe/. */
#ifndef WEIR_OBSERVER_H
#define WEIR_OBSERVER_H

#include "engine/engine.h"

struct cache;
struct qkv;
struct reading;
struct step;

/* The attention of one layer; valid during the call. */
struct attention {
	struct cache *c;
	const struct step *st; /* VERIFY: the step of one token, st->index */
	int32_t layer;
	const struct reading *r; /* what was read: slots have been selected, parts may still have predicates */
	const struct qkv *x;     /* q is unrotated; k and v are in the store */
};

struct observer;
struct observer_ops {
	void (*attended)(struct observer *, const struct attention *);
	/* Commit the step's first st->n tokens (VERIFY: of st->tried). attended() was called for all tried tokens. */
	void (*commit)(struct observer *, const struct step *);
	/* Forget all but the first n tokens. Returns n, or fewer if the observer must see tokens before n again. */
	int32_t (*rewind)(struct observer *, int32_t n);
};
struct observer {
	const struct observer_ops *ops;
	struct observer *next;
};

#endif
