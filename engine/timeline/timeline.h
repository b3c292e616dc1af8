/* engine/timeline/timeline.h (private to engine/timeline and engine/lab) - a timeline (one token sequence with its KV
 * cache), and its steps. */
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
	/* first generated token whose KV entry was computed under an earlier cache policy; -1 = none */
	int32_t mixed_from;
	struct str mixed; /* names of these earlier policies */
	/* number of first tokens whose KV entries were computed by other kernels (timeline_begun) */
	int32_t begun_n;
	struct str begun; /* name of these kernels */
	int32_t loaded;   /* while a snapshot is loaded: tokens whose KV entries are loaded, without its head */
	/* 1 = the policy was changed and the KV entries were kept: the new policy has seen nothing of the prefill. The
	 * cache must be rewound before the next step. */
	int adopted;
	/* [chunk]: -ln p of the last step's tokens, for policies that need it (cache.wants_nll) */
	float *nll;
	float *logits;             /* [n_vocab] after the first logits_at tokens */
	int32_t logits_at;         /* -1 = none */
	struct candidate *scratch; /* [n_vocab] */
	atomic_int cancel;
	/* The logits after the last prefill are kept. Then a rollback to its end needs no computation. */
	int32_t read_end;   /* tokens when the last prefill ended; -1 = unknown */
	float *kept_logits; /* [n_vocab] after the first kept_at tokens */
	int32_t kept_at;    /* read_end, or -1 = none */
	/* the open VERIFY step (timeline_step.c): */
	struct tokens draft; /* the newest token, if not yet computed, and the drafted tokens; n = 0: no step is open */
	/* [1 + VERIFY_MOST][n_vocab]: the logits before the first drafted token and after each */
	float *draft_logits;
	/* speculative decoding: */
	int speculates;     /* 1: on (timeline_speculate) */
	int ahead;          /* 1: timeline_step() opened the step, and samples from it */
	int viewed;         /* 1: the panel measures the next token that is decoded alone */
	struct draft guess; /* guesses from token guess_at on; the open step computes the first of them */
	size_t guess_at;
	struct draft_index drafts; /* index of the first drafts.n tokens */
	struct draft_pace pace;
	int measure;                       /* 1: timeline_measure() is on */
	double in_cache;                   /* seconds of the running step in the cache */
	double in_attention;               /* part of in_cache: attention and storing */
	struct observe_panel *panel;       /* NULL before the first timeline_view() */
	struct observe_evidence *evidence; /* NULL outside of timeline_evidence_begin() .. end() */
	/* An observer of engine/lab and the function that closes it; NULL = none. It must see every token in a step
	 * of its own. So while it is open there are no drafts and no snapshots. */
	struct observer *lab;
	void (*lab_close)(struct observer *);
	struct timeline_stats stats;
};

/* ---- timeline_open.c ---- */

/* If an observer of engine/lab is open, close it. The caller has the engine's lock. */
void timeline_lab_close(struct timeline *);

/* ---- timeline_step.c ---- */

/* Decode the pending token (sampled, but without a KV entry). Then n_past == tokens.n, and the logits are those after
 * it. */
int timeline_decode_pending(struct timeline *, struct err *);
/* Compute the pending token and drafted tokens id[0..n) in one VERIFY step, each with the bits that decoding it alone
 * gives. Nothing is committed yet. Return how many of the n were computed (the policy limits the number), or -1.
 * *logits becomes [returned + 1][n_vocab]: before id[0], after id[0], ...; valid until the next call. */
int32_t timeline_verify(struct timeline *, const int32_t *id, int32_t n, const float **logits, struct err *err);
/* Commit the first n of the drafted tokens that timeline_verify() computed. Sequence, cache and logits then have the
 * same bits as after decoding these tokens one by one. Any other call drops all of them. */
int timeline_accept(struct timeline *, int32_t n, struct err *err);

/* ---- timeline.c ---- */

/* The logits that a step computes: none, after its last token, or after every token. */
enum want { WANT_NONE, WANT_LAST, WANT_ALL };
/* Take the engine's lock. Until timeline_backend_give() the backend works for this timeline only. */
void timeline_backend_take(struct timeline *);
/* Wait for the backend and release the lock. Return -1 if the work failed or was cancelled. */
int timeline_backend_give(struct timeline *, struct err *);
/* Wait for the backend. Return -1 if its work failed or a mapped file was truncated (mapped.h). The caller has the
 * lock. */
int timeline_backend_sync(struct timeline *, struct err *);
/* Compute tokens id[0..st->n) without committing them: tokens and logits of the timeline do not change. The caller
 * has the lock. */
void timeline_step_run(struct timeline *, const int32_t *id, const struct step *, enum want);
/* Commit the first n tokens of the step, whose results have arrived; n_past grows by n. The caller has the lock. */
int timeline_step_keep(struct timeline *, const struct step *, int32_t n, struct err *);
/* Run id[0..n) as one step and commit it. On error n_past does not change. last: 1 = the step ends a prefill. With
 * WANT_ALL, forward_logits() can return the logits after each token until the next step. */
int timeline_run_step(struct timeline *, const int32_t *id, int32_t n, enum step_kind, int last, enum want,
                      struct err *);
/* If the newest logits are those after the prefill, keep a copy. Called before the first generated token. */
void timeline_keep_read_logits(struct timeline *);
/* Check that the ids id[0..n) are in the vocabulary, and that the context has room for n tokens after the first
 * `at`. */
int timeline_check_ids(const struct timeline *, const int32_t *id, size_t n, size_t at, struct err *);
/* Drop all tokens after the first n. The cache must already be rewound to n. */
void timeline_forget(struct timeline *, int32_t n);

#endif
