/* engine/timeline/timeline.h (private to engine/timeline and engine/lab) - struct timeline, and its steps. */
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
	int32_t n_past;   /* tokens whose KV entries are committed */
	struct str marks; /* [n_past] how each token was computed: enum token_mark */
	/* after a change of policy: */
	int32_t mixed_from; /* first generated token whose KV entry was computed under an earlier policy; -1 = none */
	struct str mixed;   /* names of these policies */
	int32_t begun_n;    /* first tokens whose KV entries other kernels computed (timeline_begun); 0 = none */
	struct str begun;   /* name of these kernels */
	int32_t loaded;     /* tokens whose entries are loaded and whose head is not (snapshot.c) */
	/* 1: the cache took over a store whose prefill its selector did not observe; rewind before the next step */
	int adopted;
	float *nll;    /* [chunk] -ln p of the tokens of the last step, for policies that want it (cache.wants_nll) */
	float *logits; /* [n_vocab] after the first logits_at tokens */
	int32_t logits_at;         /* -1 = none */
	struct candidate *scratch; /* [n_vocab] */
	atomic_int cancel;
	/* The logits after the last prefill are kept while generated tokens follow: a rollback to there computes
	 * nothing. */
	int32_t read_end;   /* tokens when the last prefill ended; -1 = unknown */
	float *kept_logits; /* [n_vocab] after the first kept_at tokens */
	int32_t kept_at;    /* read_end, or -1 = none */
	/* the open VERIFY step (timeline_step.c): */
	struct tokens draft; /* tokens of the step, the pending token first; n = 0: no step is open */
	float *draft_logits; /* [1 + VERIFY_MOST][n_vocab] before the first drafted token, after each */
	/* speculative decoding: */
	int speculates;     /* 1: on (timeline_speculate) */
	int ahead;          /* 1: timeline_step() opened the step, and samples from it */
	int viewed;         /* 1: the panel measures the next token that is decoded alone */
	struct draft guess; /* guesses from token guess_at on; the open step tries the first of these */
	size_t guess_at;
	struct draft_index drafts; /* index of the first drafts.n tokens */
	struct draft_pace pace;
	int measure;                       /* 1: timeline_measure() is on */
	double in_cache;                   /* seconds of the running step in the cache */
	double in_attention;               /* part of in_cache: attention and storing */
	struct observe_panel *panel;       /* NULL before the first timeline_view() */
	struct observe_evidence *evidence; /* NULL outside of timeline_evidence_begin() .. end() */
	/* An observer of engine/lab and the function that closes it; NULL = none. It sums a step as one token and
	 * must see all tokens: no drafts, no snapshots while it is open. */
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
/* Compute the drafted tokens id[0 .. n) in one VERIFY step, each with the bits that decoding it alone gives; the
 * pending token is computed before them. Nothing is committed yet. Return how many of the n were tried, 0 or more
 * (the policy limits the number), or -1. *logits [tried + 1][n_vocab]: before id[0], after id[0], ...; valid until
 * the next call. */
int32_t timeline_verify(struct timeline *, const int32_t *id, int32_t n, const float **logits, struct err *err);
/* Commit the first n of the tried tokens: sequence, cache and logits become, bit for bit, what decoding these tokens
 * one by one gives. Any other call rolls all tried tokens back. */
int timeline_accept(struct timeline *, int32_t n, struct err *err);

/* ---- timeline.c ---- */

/* Which logits a step computes: none, those after its last token, or those after every token. */
enum want { WANT_NONE, WANT_LAST, WANT_ALL };
/* Take the engine's lock: until timeline_backend_give() the backend works for this timeline alone. */
void timeline_backend_take(struct timeline *);
/* Wait for the backend and release the lock; -1 after a failure or a cancel. */
int timeline_backend_give(struct timeline *, struct err *);
/* Wait for the backend; -1: its work failed, or a mapped file was truncated (mapped.h). The lock is held. */
int timeline_backend_sync(struct timeline *, struct err *);
/* Compute the tokens id[0 .. st->n) without committing them; tokens and logits of the timeline do not change. The
 * lock is held. */
void timeline_step_run(struct timeline *, const int32_t *id, const struct step *, enum want);
/* Commit the first n tokens of the step that ran, whose results have arrived; n_past grows by n. The lock is held. */
int timeline_step_keep(struct timeline *, const struct step *, int32_t n, struct err *);
/* Run id[0 .. n) as one step and commit it; n_past changes on success only. last: the step ends a prefill. WANT_ALL:
 * forward_logits() can give the logits after each token until the next step. */
int timeline_run_step(struct timeline *, const int32_t *id, int32_t n, enum step_kind, int last, enum want,
                      struct err *);
/* Keep the logits after the prefill, if they are the newest ones. Called before the first generated token. */
void timeline_keep_read_logits(struct timeline *);
/* Check that id[0 .. n) are in the vocabulary, and that n tokens fit the context behind the first `at`. */
int timeline_check_ids(const struct timeline *, const int32_t *id, size_t n, size_t at, struct err *);
/* Drop all but the first n tokens from the timeline, whose cache has been rewound to n. */
void timeline_forget(struct timeline *, int32_t n);

#endif
