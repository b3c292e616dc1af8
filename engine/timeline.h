/* engine/timeline.h (private to engine/timeline.c, snapshot.c and view.c) - struct timeline. */
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
	struct str marks;          /* [n_past] how each token was computed: enum token_mark */
	/* After a change of policy: the first generated token whose KV entry was computed under an earlier policy (-1 = none), and the names of
	 * these policies. */
	int32_t mixed_from;
	struct str mixed;
	int32_t begun_n;           /* tokens whose KV entries other kernels computed, see timeline_begun(); 0 = none */
	struct str begun;
	int32_t loaded;            /* tokens whose entries were loaded and that wait for a head (snapshot.c) */
	int adopted;               /* the cache took over a store whose prefill its selector did not observe: rewind before the next step */
	float *nll;                /* [chunk] surprise at the tokens of the last call, for policies that want it */
	float *logits;             /* [n_vocab] after token n_past - 1, when logits_at == n_past */
	int32_t logits_at;
	struct candidate *scratch; /* [n_vocab] */
	atomic_int cancel;
	/* The logits after the end of the last prefill, once generated tokens follow: a rollback to that point computes nothing. */
	int32_t read_end;          /* tokens when the last prefill ended; -1 = unknown */
	float *kept_logits;        /* [n_vocab], when kept_at == read_end */
	int32_t kept_at;
	/* The VERIFY step that timeline_accept() commits: the tokens it tried, the pending one first; n = 0: there is no such step. */
	struct tokens draft;
	float *draft_logits;       /* [1 + VERIFY_MOST][n_vocab]: before the first drafted token, after each */
	int measure;               /* timeline_measure() */
	double in_cache, in_attention;   /* seconds of the running step: in the cache altogether; of these in attention and storing */
	struct observe_panel *panel;         /* NULL before the first timeline_view() */
	struct observe_evidence *evidence;   /* NULL outside of timeline_evidence_begin() .. end() */
	struct observe_recovery *recovery;   /* NULL without policies to watch */
	struct policy watch[WATCH_MAX];
	int n_watch;
	struct timeline_stats stats;
};

/* Forget all but the first n tokens in the timeline itself; the cache has been rewound to n. */
void timeline_forget(struct timeline *, int32_t n);

#endif
