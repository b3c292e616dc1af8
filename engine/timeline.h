/* engine/timeline.h (private to engine/timeline.c and snapshot.c) - what is inside struct timeline. */
#ifndef WEIR_TIMELINE_H
#define WEIR_TIMELINE_H

#include <stdatomic.h>

#include "engine/engine_private.h"
#include "engine/cache.h"
#include "engine/forward.h"

enum { WATCH_MAX = 32 };

struct timeline {
	struct engine *e;
	struct cache cache;
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
	int adopted;               /* the cache took over a store and did not observe how its tokens were read: rewind before the next step */
	float *nll;                /* [chunk] surprise at the tokens of the last call, for policies that want it */
	float *logits;             /* [n_vocab] after token n_past - 1, when logits_at == n_past */
	int32_t logits_at;
	struct candidate *scratch; /* [n_vocab] */
	atomic_int cancel;
	/* The logits after the end of the last prefill, once a generated token has followed it: going back there computes nothing. */
	int32_t read_end;          /* tokens when the last prefill ended; -1 = it is gone */
	float *kept_logits;        /* [n_vocab], when kept_at == read_end */
	int32_t kept_at;
	/* A VERIFY step that waits for timeline_accept(): tokens it tried, the pending one among them; 0 = there is none. */
	struct tokens draft;
	float *draft_logits;       /* [1 + VERIFY_MOST][n_vocab]: before the first drafted token, after each */
	int measure;               /* timeline_measure() */
	double in_cache, in_attention;   /* seconds of the step that runs: in the cache altogether, in attention and storing */
	struct observe_panel *panel;         /* NULL: nobody has looked */
	struct observe_evidence *evidence;   /* NULL: nobody asked */
	struct observe_recovery *recovery;   /* NULL: no selectors are watched */
	struct policy watch[WATCH_MAX];
	int n_watch;
	struct timeline_stats stats;
};

/* Only the first n tokens count, of which the cache has entries; what it knows of others is its own business. */
void timeline_forget(struct timeline *, int32_t n);

#endif
