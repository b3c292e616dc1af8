/* engine/timeline.h (private to engine/timeline.c and snapshot.c) - what is inside struct timeline. */
#ifndef WEIR_TIMELINE_H
#define WEIR_TIMELINE_H

#include <stdatomic.h>

#include "engine/engine_private.h"
#include "engine/forward.h"

struct timeline {
	struct engine *e;
	struct policy policy;
	struct forward forward;
	struct tokens tokens;
	int32_t n_past;
	struct str marks;          /* [n_past] what each token was when it came: enum token_mark */
	/* Generated tokens that kept the rows of another policy when it was changed: the first one (-1 = none), and what that
	 * policy was. */
	int32_t mixed_from;
	struct str mixed;
	int32_t begun_n;           /* tokens whose rows other kernels computed, see timeline_begun(); 0 = none */
	struct str begun;
	int32_t loaded;            /* tokens whose rows have been put into an empty timeline (snapshot.c) */
	int adopted;               /* the policy has taken over rows and not seen how they were read: rewind() before going on */
	float *nll;                /* [chunk] surprise at the tokens of the last call, for policies that want it */
	float *logits;             /* [n_vocab] after token n_past - 1, when logits_at == n_past */
	int32_t logits_at;
	struct candidate *scratch; /* [n_vocab] */
	atomic_int cancel;
	int measure;               /* timeline_measure() */
	double in_policy, in_attention;   /* seconds of the call that runs */
	struct watched_attention *watched;   /* NULL: nobody watches (attention.c) */
	struct timeline_stats stats;
};

/* A call of n tokens follows that tells what the next token looks at (attention.c).  Behind it: kv_tap_set(NULL). */
void timeline_look(struct timeline *, int32_t n);

/* Only the first n tokens count, of which the policy has rows; what it knows of others is its own business. */
void timeline_forget(struct timeline *, int32_t n);

#endif
