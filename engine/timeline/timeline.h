/* engine/timeline/timeline.h (private to engine/timeline and engine/lab) - struct timeline: one token sequence with
 * its KV cache. Also the functions that compute its steps. */
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
	int32_t n_past;   /* number of tokens with committed KV entries */
	struct str marks; /* [n_past] how each token was computed, as enum token_mark */
	/* index of the first generated token whose KV entry was computed under an earlier cache policy; -1: there is
	 * none */
	int32_t mixed_from;
	struct str mixed; /* names of the earlier policies under which entries were computed */
	/* the KV entries of the first begun_n tokens were computed by other CPU kernels (timeline_begun()) */
	int32_t begun_n;
	struct str begun; /* name of the CPU kernels that computed the KV entries of the first `begun_n` tokens */
	/* while a snapshot is being loaded, the number of tokens whose KV entries are loaded already */
	int32_t loaded;
	/* 1: the cache policy was changed and the KV entries were kept, but the new policy has not observed the
	 * prefill. truncate_to() must then roll back the cache before the next step. */
	int adopted;
	/* [chunk] -ln of the probability of each token of the last step; computed only if cache.wants_nll */
	float *nll;
	float *logits;     /* [n_vocab] the logits after the first logits_at tokens of the sequence */
	int32_t logits_at; /* number of tokens from which `logits` was computed; -1: the logits are unknown */
	/* Sampling needs only the largest logits, so only these are read from a device. Then `logits` is not filled, but
	 * until the next step the device can compute it again: after token `unread` of the last step. -1: `logits` is
	 * filled or unknown. */
	int32_t unread;
	float *largest; /* [VERIFY_MOST][LARGEST_COLS(n_largest)] the largest logits after each token of the last step */
	int32_t n_largest; /* how many logits of each token are in `largest`; 0: none */
	int32_t sampled;   /* how many of the largest logits the newest settings of sampling need; 0: all logits */
	struct candidate *scratch; /* [n_vocab] scratch memory for sample() */
	atomic_int cancel;
	/* The logits at the end of the last prefill are kept, so that a rollback to this point need not compute them
	 * again. */
	int32_t read_end;   /* length of the sequence at the end of the last prefill; -1: unknown */
	float *kept_logits; /* [n_vocab] the logits after the first kept_at tokens of the sequence */
	int32_t kept_at;    /* number of tokens from which kept_logits was computed; -1: no logits are kept */
	/* Members for the open VERIFY step of speculative decoding (timeline_step.c): */
	/* The tokens of the step. The first token is the newest sampled token, if it has no KV entry yet. The other
	 * tokens are guesses. If n is 0, no step is open. */
	struct tokens draft;
	/* [1 + VERIFY_MOST][n_vocab] the logits before the first guessed token, and the logits after each guessed
	 * token */
	float *draft_logits;
	/* Members for speculative decoding that do not belong to one step: */
	int speculates; /* 1: speculative decoding is on (timeline_speculate()) */
	int ahead;      /* 1: timeline_step() opened the VERIFY step, and samples from its logits */
	int viewed;     /* 1: the cache view measures the next token, so this token must be decoded alone */
	/* Guessed tokens. The first guess is for index guess_at of the sequence. The open step computes some of the
	 * guesses, from the first one on. */
	struct draft guess;
	size_t guess_at;
	struct draft_index drafts; /* for guessing, an index of the positions of each token in the sequence */
	struct draft_pace pace;
	int measure;     /* 1: times are measured (timeline_measure()) */
	double in_cache; /* seconds that the current step spent in the KV cache */
	/* seconds of in_cache that were spent storing entries and computing attention */
	double in_attention;
	struct observe_panel *panel; /* observer for the cache view, or NULL before the first timeline_view() */
	/* observer that sums attention as evidence, or NULL (timeline_evidence_begin()) */
	struct observe_evidence *evidence;
	/* An observer of engine/lab and the function that closes it, or NULL. The observer must observe every token,
	 * each decoded alone. So while the observer is open, no tokens are drafted, and snapshots are refused. */
	struct observer *lab;
	void (*lab_close)(struct observer *);
	struct timeline_stats stats;
};

/* ---- timeline_open.c ---- */

/* Close the observer of engine/lab, if there is one. The caller has the engine's lock. */
void timeline_lab_close(struct timeline *);

/* ---- timeline_step.c ---- */

/* Compute the KV entry of the pending token (the last sampled one), and the logits after this token. After the call
 * n_past equals tokens.n. */
int timeline_decode_pending(struct timeline *, struct err *);
/* Compute the pending token (the last sampled one) and the n drafted tokens id[] in one VERIFY step, without committing
 * them. Each result has the same bits as if the token were decoded alone. Return how many drafted tokens were computed
 * (the policy may allow fewer than n), or -1. Set *logits to an array [returned + 1][n_vocab], which is valid until the
 * next call: the logits before id[0], after id[0], and so on. */
int32_t timeline_verify(struct timeline *, const int32_t *id, int32_t n, const float **logits, struct err *err);
/* Commit the first n of the drafted tokens that timeline_verify() computed. Sequence, cache and logits then have the
 * same bits as if these tokens had been decoded one by one. If another function is called instead, it drops all drafted
 * tokens. */
int timeline_accept(struct timeline *, int32_t n, struct err *err);

/* ---- timeline_repeat.c ---- */

/* Called after a prefill. If the cache policy wants to observe how the model repeats the newest tokens, let the model
 * repeat them. Tokens, entries and logits do not change. */
int timeline_repeat(struct timeline *, struct err *err);

/* ---- timeline.c ---- */

/* Which logits a step computes: none, the logits after its last token, the logits after every token, or as many of the
 * largest logits after its only token as sampling needs. */
enum want { WANT_NONE, WANT_LAST, WANT_ALL, WANT_SAMPLED };
/* Lock the engine for this timeline, and let the backend test this timeline's cancel flag. */
void timeline_backend_take(struct timeline *);
/* Wait for the backend and unlock the engine. Return -1 if the work failed or was cancelled. */
int timeline_backend_give(struct timeline *, struct err *);
/* Wait for the backend. Return -1 if the backend's work failed or a mapped file was truncated. The caller has the
 * engine's lock. */
int timeline_backend_sync(struct timeline *, struct err *);
/* Compute the st->n tokens id[] but do not commit them: the timeline's tokens and logits do not change. The caller has
 * the engine's lock. */
void timeline_step_run(struct timeline *, const int32_t *id, const struct step *, enum want);
/* Commit the first n tokens of a step that has been computed. n_past grows by n. The caller has the engine's lock. */
int timeline_step_keep(struct timeline *, const struct step *, int32_t n, struct err *);
/* Compute the n tokens id[] as one step and commit it. If `last` is 1, a prefill ends with this step. On error no token
 * is committed. After WANT_ALL, forward_logits() can compute the logits after any of these tokens, until the next
 * step. */
int timeline_run_step(struct timeline *, const int32_t *id, int32_t n, enum step_kind, int last, enum want,
                      struct err *);
/* If tl->logits are known but not filled, fill them. On error they are unknown. */
int timeline_read_logits(struct timeline *, struct err *);
/* If tl->logits are the logits at the end of the prefill, move them to kept_logits. Called before the first token is
 * generated. */
void timeline_keep_read_logits(struct timeline *);
/* Check that the n ids are in the vocabulary, and that `at` + n tokens fit the context. */
int timeline_check_ids(const struct timeline *, const int32_t *id, size_t n, size_t at, struct err *);
/* Drop all tokens after the first n. The caller has already rolled back the cache to n tokens. */
void timeline_forget(struct timeline *, int32_t n);

#endif
