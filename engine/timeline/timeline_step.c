/* engine/timeline/timeline_step.c - generating tokens: one per call, with speculative decoding several per step.
 *
 * A draft guesses the next tokens (draft.h). A VERIFY step computes the pending token and the drafted tokens
 * together, each with the bits that decoding it alone gives. Then each timeline_step() samples one token from their
 * logits, with the ordinary sampler. While the sampled tokens are the drafted ones, there is nothing to compute. The
 * first token that differs ends the step: the KV entries before it are committed, the entries behind it rolled back.
 * So tokens, draws of the sampler, cache and snapshots are those of decoding one by one.
 *
 * While the step is open, `tokens` has the tokens sampled so far, and no entry of the step is committed. Every
 * function that reads the cache calls timeline_settle() first. */
#include "engine/timeline/timeline.h"

#include <math.h>
#include <string.h>

#include "engine/timeline/draft.h"
#include "engine/timeline/sampler.h"

/* ---- a VERIFY step ---- */

/* 1 if draft_logits is allocated. */
static int logits_ready(struct timeline *t, struct err *err)
{
	size_t n_vocab = (size_t)t->e->model.hp.n_vocab;

	if (!t->draft_logits)
		t->draft_logits = try_alloc((1 + VERIFY_MOST) * n_vocab, sizeof *t->draft_logits,
		                            "logits of drafted tokens", err);
	return t->draft_logits != NULL;
}

/* Compute the pending token, if there is one, and up to n of id[]. *tried = tokens of the step, which are in
 * t->draft; 0 = there is nothing to compute. */
static int verify_run(struct timeline *t, const int32_t *id, int32_t n, int32_t *tried, struct err *err)
{
	size_t n_vocab = (size_t)t->e->model.hp.n_vocab;
	int32_t pending = (int32_t)t->tokens.n - t->n_past, most;
	struct step st = { .kind = STEP_VERIFY, .pos = t->n_past };
	int failed = 0;

	*tried = 0;
	/* An observer of the laboratory sums a step as one token. */
	most = t->lab ? 1 : cache_verify_most(&t->cache, t->n_past);
	st.n = pending + n < most ? pending + n : most;
	if (!pending)
		memcpy(t->draft_logits, t->logits, n_vocab * sizeof *t->logits);
	if (!st.n)
		return 0;
	timeline_backend_take(t);
	t->draft.n = 0;
	if (pending)
		tokens_add(&t->draft, t->tokens.id[t->n_past]);
	tokens_append(&t->draft, id, (size_t)(st.n - pending));
	timeline_step_run(t, t->draft.id, &st, WANT_ALL);
	/* One by one, if the backend's product of several rows rounds differently from the product of one. */
	for (int32_t i = 0, together = t->e->be->rows_alone ? st.n : 1; i < st.n; i += together)
		forward_logits(&t->forward, i, together, t->draft_logits + (size_t)(1 - pending + i) * n_vocab);
	failed = timeline_backend_give(t, err);
	if (failed) {
		cache_rollback(&t->cache);
		return -1;
	}
	t->draft.n = (size_t)st.n;
	*tried = st.n;
	return 0;
}

/* Set nll[i] = -ln p of token i of the draft, for the first n. */
static void draft_nll(struct timeline *t, int32_t n, int32_t pending)
{
	size_t n_vocab = (size_t)t->e->model.hp.n_vocab;

	for (int32_t i = 0; i < n; i++) {
		const float *before = i || !pending               ? t->draft_logits + (size_t)(i - pending) * n_vocab
		                      : t->logits_at == t->n_past ? t->logits
		                                                  : NULL;

		t->nll[i] = before ? (float)-engine_logprob(before, (int32_t)n_vocab, t->draft.id[i]) : NAN;
	}
}

/* Commit the first `keep` tokens of the VERIFY step and roll the others back; n_past grows by keep, and t->logits are
 * those behind. pending: 1 if the step began with the pending token, else 0. */
static int verify_keep(struct timeline *t, int32_t keep, int32_t pending, struct err *err)
{
	size_t n_vocab = (size_t)t->e->model.hp.n_vocab;
	struct step st = { .kind = STEP_VERIFY, .pos = t->n_past, .n = (int32_t)t->draft.n };
	int failed;

	if (!keep) {
		cache_rollback(&t->cache);
		t->draft.n = 0;
		return 0;
	}
	pthread_mutex_lock(&t->e->lock);
	if (t->cache.wants_nll)
		draft_nll(t, keep, pending);
	timeline_keep_read_logits(t);
	failed = timeline_step_keep(t, &st, keep, err);
	pthread_mutex_unlock(&t->e->lock);
	if (failed)
		return -1;
	memcpy(t->logits, t->draft_logits + (size_t)(keep - pending) * n_vocab, n_vocab * sizeof *t->logits);
	t->logits_at = t->n_past;
	t->draft.n = 0;
	return 0;
}

int32_t timeline_verify(struct timeline *t, const int32_t *id, int32_t n, const float **logits, struct err *err)
{
	int32_t pending, tried;

	if (timeline_settle(t, err) || n < 0 || timeline_check_ids(t, id, (size_t)n, t->tokens.n, err))
		return -1;
	pending = (int32_t)t->tokens.n - t->n_past;
	if (t->adopted || (!pending && t->logits_at != t->n_past))
		return err_set(err, ERR_USAGE, "the sequence was stopped early or changed; sync it first");
	if (!logits_ready(t, err) || verify_run(t, id, n, &tried, err))
		return -1;
	*logits = t->draft_logits;
	return tried ? tried - pending : 0;
}

int timeline_accept(struct timeline *t, int32_t n, struct err *err)
{
	int32_t pending = (int32_t)t->tokens.n - t->n_past, tried = (int32_t)t->draft.n;

	if (t->ahead || n < 0 || pending + n > tried)
		return err_set(err, ERR_USAGE, "%d drafted tokens cannot be accepted: %d were verified", n,
		               tried > pending ? tried - pending : 0);
	tokens_append(&t->tokens, t->draft.id + pending, (size_t)n);
	return verify_keep(t, pending + n, pending, err);
}

/* ---- speculative decoding ---- */

void timeline_speculate(struct timeline *t, int on)
{
	struct err none;

	if (on == t->speculates)
		return;
	timeline_settle(t, &none); /* a failure of the backend is sticky: the next call reports it */
	t->speculates = on;
	draft_index_free(&t->drafts);
	draft_pace_reset(&t->pace);
}

/* End the open step: commit its first `keep` tokens. */
static int ahead_end(struct timeline *t, int32_t keep, struct err *err)
{
	t->ahead = 0;
	t->stats.accepted += keep > 1 ? keep - 1 : 0;
	return verify_keep(t, keep, 1, err);
}

int timeline_settle(struct timeline *t, struct err *err)
{
	return t->ahead ? ahead_end(t, (int32_t)t->tokens.n - 1 - t->n_past, err) : 0;
}

/* Compute the pending token together with a draft, if a draft is likely to be right. Return 1 = a step is open, 0, or
 * -1. */
static int ahead_begin(struct timeline *t, struct err *err)
{
	int32_t most, n, tried;
	size_t left = (size_t)t->cache.limit - t->tokens.n;
	double start = now_seconds();
	struct err none;

	t->guess.n = 0;
	if (!t->speculates || t->viewed || t->lab || t->adopted || t->tokens.n != (size_t)t->n_past + 1)
		return 0;
	draft_index_grow(&t->drafts, t->tokens.id, t->tokens.n);
	most = cache_verify_most(&t->cache, t->n_past) - 1;
	most = (size_t)most < left ? most : (int32_t)left;
	draft_guess(&t->drafts, &t->pace, t->tokens.id, t->tokens.n, most, &t->guess);
	t->guess_at = t->tokens.n;
	n = draft_pace_length(&t->pace, &t->guess);
	if (n < 1 || !logits_ready(t, &none))
		return 0;
	if (verify_run(t, t->guess.id, n, &tried, err))
		return -1;
	draft_pace_took(&t->pace, tried, now_seconds() - start);
	t->stats.drafted += tried - 1;
	t->ahead = 1;
	return 1;
}

/* Record whether the newest token was guessed right, also if no step tried the guess. */
static void guess_learn(struct timeline *t)
{
	size_t at = t->tokens.n - 1 - t->guess_at;
	int right;

	if (at >= (size_t)t->guess.n)
		return;
	right = t->guess.id[at] == t->tokens.id[t->tokens.n - 1];
	draft_pace_learn(&t->pace, t->guess.class[at], right);
	if (!right)
		t->guess.n = 0;
}

/* Keep the open step if the newest token is the drafted one, else end the step. */
static int ahead_go_on(struct timeline *t, struct err *err)
{
	int32_t at = (int32_t)t->tokens.n - 1 - t->n_past;

	if (at < (int32_t)t->draft.n && t->draft.id[at] == t->tokens.id[t->tokens.n - 1])
		return 0;
	return ahead_end(t, at, err);
}

/* ---- one token ---- */

int timeline_decode_pending(struct timeline *t, struct err *err)
{
	double start = now_seconds();

	if (timeline_settle(t, err))
		return -1;
	if ((size_t)t->n_past == t->tokens.n)
		return 0;
	if (timeline_run_step(t, t->tokens.id + t->n_past, 1, STEP_GENERATE, 0, WANT_LAST, err))
		return -1;
	t->viewed = 0;
	if (t->speculates)
		draft_pace_took(&t->pace, 1, now_seconds() - start);
	return 0;
}

/* Return the next token of the answer: a given one, or sampled from the logits; -1 = invalid logits. */
static int32_t next_token(struct timeline *t, struct sampling *s, const float *logits)
{
	size_t n = t->tokens.n, first = s->answer > 0 ? (size_t)s->answer : 0;

	if (n >= first && n - first < (size_t)s->n_given)
		return s->given[n - first];
	return sample(s, logits, t->e->model.hp.n_vocab, t->tokens.id, t->tokens.n, t->scratch);
}

int timeline_step(struct timeline *t, struct sampling *s, struct step_out *out, struct err *err)
{
	double start = now_seconds();
	const float *logits;

	if (!t->tokens.n)
		return err_set(err, ERR_USAGE, "there is nothing to continue: the sequence is empty");
	if (t->tokens.n >= (size_t)t->cache.limit)
		return err_set(err, ERR_FIT, "the context of %d tokens is full; start with a larger -c",
		               t->cache.limit);
	if (!t->ahead && ahead_begin(t, err) < 0)
		return -1;
	if (!t->ahead && timeline_decode_pending(t, err))
		return -1;
	if (!t->ahead && t->logits_at != t->n_past)
		return err_set(err, ERR_USAGE, "the sequence was stopped early; sync it first");
	if (atomic_load(&t->cancel))
		return err_set(err, ERR_CANCELLED, "stopped");
	logits = t->ahead ? t->draft_logits +
	                            ((size_t)t->tokens.n - (size_t)t->n_past - 1) * (size_t)t->e->model.hp.n_vocab
	                  : t->logits;
	out->id = next_token(t, s, logits);
	if (out->id < 0)
		return err_set(err, ERR_FAIL,
		               "the model produced invalid numbers (NaN or infinity) at token %zu; "
		               "check the file with --check-tensors",
		               t->tokens.n);
	t->stats.decode_seconds += now_seconds() - start;
	t->stats.decode_tokens++;
	if (vocab_is_end(t->e->vocab, out->id))
		return t->ahead ? ahead_end(t, (int32_t)t->tokens.n - t->n_past, err) : 0;
	tokens_add(&t->tokens, out->id);
	guess_learn(t);
	return t->ahead && ahead_go_on(t, err) ? -1 : 1;
}
