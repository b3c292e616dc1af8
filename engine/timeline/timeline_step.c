/* engine/timeline/timeline_step.c - generates tokens, with speculative decoding if it is on.
 *
 * A VERIFY step computes the pending token (the last sampled one) together with a draft, which consists of guesses of
 * the next tokens (draft.h). Each result has the bits that decoding the token alone would give. While the step is open,
 * each timeline_step() samples one token from its logits. As long as the sampled tokens equal the drafted ones, nothing
 * needs to be computed. The first token that differs ends the step: entries of the tokens before this token are
 * committed, later entries are dropped. So drafts change only the speed.
 *
 * While a VERIFY step is open, `tokens` has the tokens sampled so far, but their entries are not committed. Every
 * function that reads the cache first calls timeline_settle(), which ends the step. */
#include "engine/timeline/timeline.h"

#include <math.h>
#include <string.h>

#include "engine/timeline/draft.h"
#include "engine/timeline/sampler.h"

/* ---- a VERIFY step ---- */

/* Allocate draft_logits when they are first needed. Return 0 if memory is exhausted. */
static int logits_ready(struct timeline *tl, struct err *err)
{
	size_t n_vocab = (size_t)tl->e->model.hp.n_vocab;

	if (!tl->draft_logits)
		tl->draft_logits = try_alloc((1 + VERIFY_MOST) * n_vocab, sizeof *tl->draft_logits,
		                             "logits of drafted tokens", err);
	return tl->draft_logits != NULL;
}

/* Compute the pending token (the last sampled one), if there is one, and up to n guesses id[], in one VERIFY step. Copy
 * the computed tokens to tl->draft, and set *tried to their number, or to 0 if there was nothing to compute. Write the
 * logits to tl->draft_logits or, if `largest` is not 0, that many of the largest to tl->largest. */
static int verify_run(struct timeline *tl, const int32_t *id, int32_t n, int32_t largest, int32_t *tried,
                      struct err *err)
{
	size_t n_vocab = (size_t)tl->e->model.hp.n_vocab;
	int32_t pending = (int32_t)tl->tokens.n - tl->n_past, most;
	struct step st = { .kind = STEP_VERIFY, .pos = tl->n_past };
	int failed = 0;

	*tried = 0;
	/* An observer of engine/lab requires a step for each token. */
	most = tl->lab ? 1 : cache_verify_most(&tl->cache, tl->n_past);
	st.n = pending + n < most ? pending + n : most;
	if (!pending && timeline_read_logits(tl, err))
		return -1;
	if (!pending)
		memcpy(tl->draft_logits, tl->logits, n_vocab * sizeof *tl->logits);
	if (!st.n)
		return 0;
	timeline_backend_take(tl);
	tl->draft.n = 0;
	if (pending)
		tokens_add(&tl->draft, tl->tokens.id[tl->n_past]);
	tokens_append(&tl->draft, id, (size_t)(st.n - pending));
	timeline_step_run(tl, tl->draft.id, &st, WANT_ALL);
	/* Some backends round a product of several rows differently from a product of one row. With these backends,
	 * compute the logits of one token at a time. */
	if (largest)
		forward_largest(&tl->forward, st.n, largest, tl->largest);
	for (int32_t i = 0, together = tl->e->be->rows_alone ? st.n : 1; !largest && i < st.n; i += together)
		forward_logits(&tl->forward, i, together, tl->draft_logits + (size_t)(1 - pending + i) * n_vocab);
	failed = timeline_backend_give(tl, err);
	if (failed) {
		cache_rollback(&tl->cache);
		return -1;
	}
	tl->n_largest = largest;
	tl->draft.n = (size_t)st.n;
	*tried = st.n;
	return 0;
}

/* For each i < n, set nll[i] to -ln of the probability of token i of tl->draft, or to NAN if the probability is
 * unknown. If `pending` is 1, token 0 is the pending token (the last sampled one). */
static void draft_nll(struct timeline *tl, int32_t n, int32_t pending)
{
	size_t n_vocab = (size_t)tl->e->model.hp.n_vocab;

	for (int32_t i = 0; i < n; i++) {
		const float *before = i || !pending                 ? tl->draft_logits + (size_t)(i - pending) * n_vocab
		                      : tl->logits_at == tl->n_past ? tl->logits
		                                                    : NULL;

		tl->nll[i] = before ? (float)-engine_logprob(before, (int32_t)n_vocab, tl->draft.id[i]) : NAN;
	}
}

/* Commit the first `keep` tokens of the VERIFY step, and drop its other tokens. Set tl->logits to the logits after the
 * last committed token. If `pending` is 1, the step began with the pending token (the last sampled one). */
static int verify_keep(struct timeline *tl, int32_t keep, int32_t pending, struct err *err)
{
	size_t n_vocab = (size_t)tl->e->model.hp.n_vocab;
	struct step st = { .kind = STEP_VERIFY, .pos = tl->n_past, .n = (int32_t)tl->draft.n };
	int failed;

	if (!keep) {
		cache_rollback(&tl->cache);
		tl->draft.n = 0;
		return 0;
	}
	pthread_mutex_lock(&tl->e->lock);
	if (tl->cache.wants_nll)
		draft_nll(tl, keep, pending);
	timeline_keep_read_logits(tl);
	failed = timeline_step_keep(tl, &st, keep, err);
	pthread_mutex_unlock(&tl->e->lock);
	if (failed)
		return -1;
	if (tl->n_largest)
		tl->unread = keep - 1;
	else
		memcpy(tl->logits, tl->draft_logits + (size_t)(keep - pending) * n_vocab, n_vocab * sizeof *tl->logits);
	tl->logits_at = tl->n_past;
	tl->draft.n = 0;
	return 0;
}

int32_t timeline_verify(struct timeline *tl, const int32_t *id, int32_t n, const float **logits, struct err *err)
{
	int32_t pending, tried;

	if (timeline_settle(tl, err) || n < 0 || timeline_check_ids(tl, id, (size_t)n, tl->tokens.n, err))
		return -1;
	pending = (int32_t)tl->tokens.n - tl->n_past;
	if (tl->adopted || (!pending && tl->logits_at != tl->n_past))
		return err_set(err, ERR_USAGE, "the sequence was stopped early or changed; sync it first");
	if (!logits_ready(tl, err) || verify_run(tl, id, n, 0, &tried, err))
		return -1;
	*logits = tl->draft_logits;
	return tried ? tried - pending : 0;
}

int timeline_accept(struct timeline *tl, int32_t n, struct err *err)
{
	int32_t pending = (int32_t)tl->tokens.n - tl->n_past, tried = (int32_t)tl->draft.n;

	if (tl->ahead || n < 0 || pending + n > tried)
		return err_set(err, ERR_USAGE, "%d drafted tokens cannot be accepted: %d were verified", n,
		               tried > pending ? tried - pending : 0);
	tokens_append(&tl->tokens, tl->draft.id + pending, (size_t)n);
	return verify_keep(tl, pending + n, pending, err);
}

/* ---- speculative decoding ---- */

void timeline_speculate(struct timeline *tl, int on)
{
	struct err none;

	if (on == tl->speculates)
		return;
	timeline_settle(tl, &none); /* ignore an error of the backend here; the next call will report it */
	tl->speculates = on;
	draft_index_free(&tl->drafts);
	draft_pace_reset(&tl->pace);
}

/* End the open step and commit its first `keep` tokens. */
static int ahead_end(struct timeline *tl, int32_t keep, struct err *err)
{
	tl->ahead = 0;
	tl->stats.accepted += keep > 1 ? keep - 1 : 0;
	return verify_keep(tl, keep, 1, err);
}

int timeline_settle(struct timeline *tl, struct err *err)
{
	return tl->ahead ? ahead_end(tl, (int32_t)tl->tokens.n - 1 - tl->n_past, err) : 0;
}

/* If guesses of the next tokens are likely to be right, open a VERIFY step that computes these tokens together with the
 * last sampled token. Return 1 if a step is open now, 0 if no step is open, and -1 on error. */
static int ahead_begin(struct timeline *tl, struct err *err)
{
	int32_t most, n, tried;
	size_t left = (size_t)tl->cache.limit - tl->tokens.n;
	double start = now_seconds();
	struct err none;

	tl->guess.n = 0;
	if (!tl->speculates || tl->viewed || tl->lab || tl->adopted || tl->tokens.n != (size_t)tl->n_past + 1)
		return 0;
	draft_index_grow(&tl->drafts, tl->tokens.id, tl->tokens.n);
	most = cache_verify_most(&tl->cache, tl->n_past) - 1;
	most = (size_t)most < left ? most : (int32_t)left;
	draft_guess(&tl->drafts, &tl->pace, tl->tokens.id, tl->tokens.n, most, &tl->guess);
	tl->guess_at = tl->tokens.n;
	n = draft_pace_length(&tl->pace, &tl->guess);
	if (n < 1 || (!tl->sampled && !logits_ready(tl, &none)))
		return 0;
	if (verify_run(tl, tl->guess.id, n, tl->sampled, &tried, err))
		return -1;
	draft_pace_took(&tl->pace, tried, now_seconds() - start);
	tl->stats.drafted += tried - 1;
	tl->ahead = 1;
	return 1;
}

/* If the newest token had been guessed, record whether the guess was right. A guess counts even if it was not part of a
 * VERIFY step. */
static void guess_learn(struct timeline *tl)
{
	size_t at = tl->tokens.n - 1 - tl->guess_at;
	int right;

	if (at >= (size_t)tl->guess.n)
		return;
	right = tl->guess.id[at] == tl->tokens.id[tl->tokens.n - 1];
	draft_pace_learn(&tl->pace, tl->guess.class[at], right);
	if (!right)
		tl->guess.n = 0;
}

/* End the open step if the newest token differs from the drafted token, or if the step has no more drafted tokens. */
static int ahead_go_on(struct timeline *tl, struct err *err)
{
	int32_t at = (int32_t)tl->tokens.n - 1 - tl->n_past;

	if (at < (int32_t)tl->draft.n && tl->draft.id[at] == tl->tokens.id[tl->tokens.n - 1])
		return 0;
	return ahead_end(tl, at, err);
}

/* ---- one token ---- */

int timeline_decode_pending(struct timeline *tl, struct err *err)
{
	double start = now_seconds();

	if (timeline_settle(tl, err))
		return -1;
	if ((size_t)tl->n_past == tl->tokens.n)
		return 0;
	if (timeline_run_step(tl, tl->tokens.id + tl->n_past, 1, STEP_GENERATE, 0, WANT_SAMPLED, err))
		return -1;
	tl->viewed = 0;
	if (tl->speculates)
		draft_pace_took(&tl->pace, 1, now_seconds() - start);
	return 0;
}

/* Return the next token of the answer: the next of the tokens given by the caller (s->given) or, if none is left, a
 * sampled token. Return -1 if the logits are invalid. */
static int32_t next_token(struct timeline *tl, struct sampling *s)
{
	size_t n = tl->tokens.n, first = s->answer > 0 ? (size_t)s->answer : 0,
	       row = tl->ahead ? n - (size_t)tl->n_past - 1 : (size_t)MAX(tl->unread, 0);
	int32_t n_vocab = tl->e->model.hp.n_vocab;

	if (n >= first && n - first < (size_t)s->n_given)
		return s->given[n - first];
	if (tl->ahead ? tl->n_largest > 0 : tl->unread >= 0)
		return sample_largest(s, tl->largest + row * (size_t)LARGEST_COLS(tl->n_largest), tl->n_largest,
		                      n_vocab, tl->scratch);
	return sample(s, tl->ahead ? tl->draft_logits + row * (size_t)n_vocab : tl->logits, n_vocab, tl->tokens.id, n,
	              tl->scratch);
}

/* Set tl->sampled for these settings. If a step was computed with others, and the logits that were read are too few for
 * these, read all. */
static int logits_suffice(struct timeline *tl, const struct sampling *s, struct err *err)
{
	int32_t needs = MIN(sample_needs(s), tl->e->model.hp.n_vocab);

	tl->sampled = needs <= forward_largest_most(&tl->forward) && !tl->cache.wants_nll ? needs : 0;
	if (tl->n_largest && (!tl->sampled || tl->sampled > tl->n_largest))
		return timeline_settle(tl, err) || timeline_read_logits(tl, err) ? -1 : 0;
	return 0;
}

int timeline_step(struct timeline *tl, struct sampling *s, struct step_out *out, struct err *err)
{
	double start = now_seconds();

	if (!tl->tokens.n)
		return err_set(err, ERR_USAGE, "there is nothing to continue: the sequence is empty");
	if (tl->tokens.n >= (size_t)tl->cache.limit)
		return err_set(err, ERR_FIT, "the context of %d tokens is full; start with a larger -c",
		               tl->cache.limit);
	if (logits_suffice(tl, s, err) || (!tl->ahead && ahead_begin(tl, err) < 0))
		return -1;
	if (!tl->ahead && timeline_decode_pending(tl, err))
		return -1;
	if (!tl->ahead && tl->logits_at != tl->n_past)
		return err_set(err, ERR_USAGE, "the sequence was stopped early; sync it first");
	if (atomic_load(&tl->cancel))
		return err_set(err, ERR_CANCELLED, "stopped");
	out->id = next_token(tl, s);
	if (out->id < 0)
		return err_set(err, ERR_FAIL,
		               "the model produced invalid numbers (NaN or infinity) at token %zu; "
		               "check the file with --check-tensors",
		               tl->tokens.n);
	tl->stats.decode_seconds += now_seconds() - start;
	tl->stats.decode_tokens++;
	if (vocab_is_end(tl->e->vocab, out->id))
		return tl->ahead ? ahead_end(tl, (int32_t)tl->tokens.n - tl->n_past, err) : 0;
	tokens_add(&tl->tokens, out->id);
	guess_learn(tl);
	return tl->ahead && ahead_go_on(tl, err) ? -1 : 1;
}
