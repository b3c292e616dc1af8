/* engine/timeline/timeline.h (private to engine/timeline/timeline*.c, snapshot.c and view.c) - struct timeline. */
#ifndef WEIR_TIMELINE_H
#define WEIR_TIMELINE_H

#include <stdatomic.h>

#include "engine/engine_private.h"
#include "engine/engine_snapshot.h"
#include "engine/cache/cache.h"
#include "engine/timeline/draft.h"
#include "engine/forward/forward.h"

struct timeline {
	struct engine *e;
	struct cache cache;
	struct forward forward;
	struct tokens tokens;
	int32_t n_past;
	struct str marks; /* [n_past] how each token was computed: enum token_mark */
	/* After a change of policy: the first generated token whose KV entry was computed under an earlier policy (-1 =
	 * none), and the names of these policies. */
	int32_t mixed_from;
	struct str mixed;
	int32_t begun_n; /* tokens whose KV entries other kernels computed, see timeline_begun(); 0 = none */
	struct str begun;
	int32_t loaded; /* tokens whose entries were loaded and that wait for a head (snapshot.c) */
	/* the cache took over a store whose prefill its selector did not observe: rewind before the next step */
	int adopted;
	float *nll;    /* [chunk] surprise at the tokens of the last call, for policies that want it */
	float *logits; /* [n_vocab] after token n_past - 1, when logits_at == n_past */
	int32_t logits_at;
	struct candidate *scratch; /* [n_vocab] */
	atomic_int cancel;
	/* The logits after the end of the last prefill, once generated tokens follow: a rollback to that point computes
	 * nothing. */
	int32_t read_end;   /* tokens when the last prefill ended; -1 = unknown */
	float *kept_logits; /* [n_vocab], when kept_at == read_end */
	int32_t kept_at;
	/* The VERIFY step that timeline_accept() commits: the tokens it tried, the pending one first; n = 0: there is
	 * no such step. */
	struct tokens draft;
	float *draft_logits; /* [1 + VERIFY_MOST][n_vocab]: before the first drafted token, after each */
	/* Speculative decoding (timeline_step.c). */
	int speculates, ahead; /* ahead: that step is timeline_step()'s own, and is still open */
	int viewed;            /* the panel wants to see a token that is decoded alone */
	/* what was guessed to follow the first guess_at tokens; the open step tries the beginning of it */
	struct draft guess;
	size_t guess_at;
	struct draft_index drafts; /* the first drafts.n of tokens */
	struct draft_pace pace;
	int measure; /* timeline_measure() */
	/* seconds of the running step: in the cache altogether; of these in attention and storing */
	double in_cache, in_attention;
	struct observe_panel *panel;       /* NULL before the first timeline_view() */
	struct observe_evidence *evidence; /* NULL outside of timeline_evidence_begin() .. end() */
	/* An observer of engine/lab, and the function that closes it; NULL = none. It takes one token a step and starts
	 * with the sequence: no drafts, no snapshots. */
	struct observer *lab;
	void (*lab_close)(struct observer *);
	struct timeline_stats stats;
};

/* ---- timeline_open.c ---- */

/* Close the observer of engine/lab, if there is one. The engine's lock is held. */
void timeline_lab_close(struct timeline *);

/* ---- timeline_step.c ---- */

/* Decode the pending token, so that n_past == tokens.n and the logits are those after it. */
int timeline_decode_pending(struct timeline *, struct err *);
/* Compute the drafted tokens id[0 .. n) in one VERIFY step, each with the bits that decoding it alone gives; the pending
 * token is computed before them. Nothing is committed yet. Return how many of the n were tried, 0 or more (the policy
 * limits the number), or -1. *logits [tried + 1][n_vocab]: before id[0], after id[0], ...; valid until the next call. */
int32_t timeline_verify(struct timeline *, const int32_t *id, int32_t n, const float **logits, struct err *err);
/* Commit the first n of the tried tokens: sequence, cache and logits become, bit for bit, what decoding these tokens one
 * by one gives. Any other call rolls all tried tokens back. */
int timeline_accept(struct timeline *, int32_t n, struct err *err);

/* ---- timeline.c ---- */

enum want { WANT_NONE, WANT_LAST, WANT_ALL };
/* From take to give the backend works for this timeline alone; give: 0, or -1 after a failure or a cancel. */
void timeline_backend_take(struct timeline *);
int timeline_backend_give(struct timeline *, struct err *);
/* Wait for the backend: 0, or -1 where its work failed or a file that it read is gone from under it (mapped.h). The
 * lock is held. */
int timeline_backend_sync(struct timeline *, struct err *);
/* Compute tokens id[0 .. st->n) up to the cache's commit; tokens and logits of the timeline stay as they are. Between
 * take and give. */
void timeline_step_run(struct timeline *, const int32_t *id, const struct step *, enum want);
/* Commit the first n tokens of the step that ran, after its results have arrived; n_past moves. The engine's lock is
 * held. */
int timeline_step_keep(struct timeline *, const struct step *, int32_t n, struct err *);
/* Run id[0 .. n) as one step and commit it.  want: WANT_LAST computes the logits after its last token. */
int timeline_run_step(struct timeline *, const int32_t *id, int32_t n, enum step_kind, int last, enum want,
                      struct err *);
/* Before the first generated token after a prefill: keep the logits after the prefill, for a rollback to its end. */
void timeline_keep_read_logits(struct timeline *);
/* Are n tokens behind `at` within the context, and in the vocabulary? */
int timeline_check_ids(const struct timeline *, const int32_t *id, size_t n, size_t at, struct err *);
/* Forget all but the first n tokens in the timeline itself; the cache has been rewound to n. */
void timeline_forget(struct timeline *, int32_t n);

#endif
