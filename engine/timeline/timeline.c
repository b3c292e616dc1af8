/* engine/timeline/timeline.c - computes a timeline, a token sequence with its KV cache: prefill, rollback, cancel.
 *
 * Between calls the first n_past tokens have committed KV entries. At most one more token is pending: the last sampled
 * token. The caller gets this token at once; its KV entry is computed later, when the caller asks for the next token.
 *
 * A step that fails or is cancelled commits nothing. If the commit itself fails, the sequence becomes empty. */
#include "engine/timeline/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- computing ---- */

void timeline_backend_take(struct timeline *tl)
{
	pthread_mutex_lock(&tl->e->lock);
	tl->e->be->cancel = &tl->cancel;
}

/* Drop all tokens: a commit failed before its end and may have moved some KV entries. */
static void commit_failed(struct timeline *tl)
{
	timeline_forget(tl, cache_rewind(&tl->cache, 0, NULL));
}

int timeline_backend_sync(struct timeline *tl, struct err *err)
{
	struct backend *be = tl->e->be;
	int failed = be->ops->sync(be), moving = tl->cache.moving;

	tl->cache.moving = 0;
	if (failed && moving)
		commit_failed(tl);
	if (failed)
		return err_set(err, ERR_FAIL, "computation failed: %s", be->err);
	return gguf_check_there(tl->e->gguf, err) || kv_check_readable(&tl->cache.kv, err) ? -1 : 0;
}

/* Wait for the backend and detach the cancel flag. Return -1 if the work failed or was cancelled. The caller has the
 * engine's lock. */
static int backend_result(struct timeline *tl, struct err *err)
{
	int failed = timeline_backend_sync(tl, err);

	tl->e->be->cancel = NULL;
	return atomic_load(&tl->cancel) ? err_set(err, ERR_CANCELLED, "stopped") : failed;
}

int timeline_backend_give(struct timeline *tl, struct err *err)
{
	int failed = backend_result(tl, err);

	pthread_mutex_unlock(&tl->e->lock);
	return failed;
}

/* For each token i of the step, set nll[i] to -ln p, where p is the probability of this token according to the logits
 * before it. To limit memory, only head_rows rows of logits are computed at a time. */
static int chunk_nll(struct timeline *tl, const int32_t *id, int32_t n, struct err *err)
{
	size_t n_vocab = (size_t)tl->e->model.hp.n_vocab;
	int32_t most = tl->forward.head_rows;
	float *rows = NULL; /* [most][n_vocab] logits */

	tl->nll[0] = tl->logits_at == tl->n_past ? (float)-engine_logprob(tl->logits, (int32_t)n_vocab, id[0]) : NAN;
	if (n > 1 && !(rows = try_alloc((size_t)most * n_vocab, sizeof *rows, "logits of several tokens", err)))
		return -1;
	for (int32_t row = 0; row < n - 1; row += most) {
		int32_t k = n - 1 - row < most ? n - 1 - row : most;

		forward_logits(&tl->forward, row, k, rows);
		for (int32_t i = 0; i < k; i++)
			tl->nll[row + i + 1] =
				(float)-engine_logprob(rows + (size_t)i * n_vocab, (int32_t)n_vocab, id[row + i + 1]);
	}
	if (n > 1)
		free(rows);
	return 0;
}

void timeline_forget(struct timeline *tl, int32_t n)
{
	tl->ahead = 0;
	tl->n_past = MIN(n, tl->n_past);
	draft_index_cut(&tl->drafts, tl->tokens.id, (size_t)tl->n_past);
	if (tl->tokens.n > (size_t)tl->n_past)
		tl->tokens.n = (size_t)tl->n_past;
	if (tl->marks.n > (size_t)tl->n_past)
		tl->marks.n = (size_t)tl->n_past;
	if (tl->logits_at > tl->n_past)
		tl->logits_at = tl->unread = -1;
	if (tl->kept_at > tl->n_past)
		tl->kept_at = -1;
	if (tl->read_end > tl->n_past)
		tl->read_end = -1;
	tl->draft.n = 0;
	if (tl->begun_n > tl->n_past)
		tl->begun_n = tl->n_past;
	if (tl->mixed_from < tl->n_past)
		return;
	tl->mixed_from = -1;
	str_clear(&tl->mixed);
}

/* A step was committed: append the marks of its tokens, which record how each token was computed (enum token_mark).
 * Call this function before n_past changes. */
static void marks_add(struct timeline *tl, const struct step *st)
{
	const struct cache *c = &tl->cache;
	int apart = c->marked || (c->be->prompts_apart && c->types.k != DT_F32 && c->types.v != DT_F32);

	for (int32_t i = 0; i < st->n; i++) {
		char m = apart && step_generates(st) ? MARK_GENERATED : MARK_READ;

		if (c->marked && !step_generates(st) && i == st->n - 1 && (st->last || c->steps_matter))
			m = MARK_READ_END;
		if (c->marked && st->pos + i == c->region)
			m |= MARK_STREAM;
		str_add(&tl->marks, &m, 1);
	}
}

void timeline_step_run(struct timeline *tl, const int32_t *id, const struct step *st, enum want want)
{
	tl->loaded = 0;
	tl->draft.n = 0;
	tl->in_cache = tl->in_attention = 0;
	tl->n_largest = 0;
	if (tl->unread >= 0)
		tl->logits_at = tl->unread = -1; /* the step overwrites what they are computed from */
	tl->forward.clock = tl->measure && step_generates(st) ? &tl->in_cache : NULL;
	tl->cache.kv.clock = tl->forward.clock ? &tl->in_attention : NULL;
	forward_run(&tl->forward, id, st, want == WANT_ALL ? st->n : want != WANT_NONE);
}

int timeline_step_keep(struct timeline *tl, const struct step *st, int32_t n, struct err *err)
{
	struct step kept = *st;
	double start = now_seconds();

	kept.n = n;
	tl->e->be->cancel = NULL;
	cache_commit(&tl->cache, n, tl->cache.wants_nll ? tl->nll : NULL);
	tl->in_cache += now_seconds() - start;
	/* A device moves KV entries while the host samples. The sync of the next step tells whether it succeeded. */
	if (!(tl->e->be->device && tl->cache.moving && !tl->e->be->failed) && timeline_backend_sync(tl, err)) {
		commit_failed(tl);
		return -1;
	}
	if (tl->forward.clock)
		tl->stats.policy_seconds += tl->in_cache - tl->in_attention;
	marks_add(tl, &kept);
	tl->n_past += n;
	return 0;
}

void timeline_keep_read_logits(struct timeline *tl)
{
	float *logits = tl->logits;

	if (tl->logits_at != tl->n_past || tl->n_past != tl->read_end)
		return;
	tl->logits = tl->kept_logits;
	tl->kept_logits = logits;
	tl->kept_at = tl->n_past;
	tl->logits_at = -1;
}

int timeline_run_step(struct timeline *tl, const int32_t *id, int32_t n, enum step_kind kind, int last, enum want want,
                      struct err *err)
{
	struct step st = { .kind = kind, .pos = tl->n_past, .n = n, .last = last };
	struct cache *c = &tl->cache;
	int32_t largest = want == WANT_SAMPLED && !c->wants_nll ? tl->sampled : 0;
	int failed = 0;

	if (c->wants_nll)
		/* A token's nll is computed from the logits before the token, so all logits of the step are needed. The
		 * logits after the last token are for the next step. */
		want = WANT_ALL;
	timeline_backend_take(tl);
	timeline_step_run(tl, id, &st, want);
	if (c->wants_nll && !atomic_load(&tl->cancel))
		failed = chunk_nll(tl, id, n, err);
	if (step_generates(&st))
		timeline_keep_read_logits(tl);
	if (want) {
		/* tl->logits will be overwritten, and a cancelled step leaves only some of them written */
		tl->logits_at = -1;
		if (largest)
			forward_largest(&tl->forward, 1, largest, tl->largest);
		else
			forward_logits(&tl->forward, n - 1, 1, tl->logits);
	}
	if (!failed)
		failed = backend_result(tl, err);
	if (failed)
		cache_rollback(c);
	else
		failed = timeline_step_keep(tl, &st, n, err);
	tl->e->be->cancel = NULL;
	pthread_mutex_unlock(&tl->e->lock);
	if (failed)
		return -1;
	if (kind == STEP_READ)
		tl->read_end = last ? tl->n_past : -1;
	if (want)
		tl->logits_at = tl->n_past;
	tl->n_largest = largest;
	tl->unread = largest ? 0 : -1;
	return 0;
}

int timeline_read_logits(struct timeline *tl, struct err *err)
{
	int failed;

	if (tl->unread < 0)
		return 0;
	timeline_backend_take(tl);
	tl->e->be->cancel = NULL; /* a sequence that was stopped can be saved, too */
	forward_logits(&tl->forward, tl->unread, 1, tl->logits);
	failed = timeline_backend_sync(tl, err);
	pthread_mutex_unlock(&tl->e->lock);
	if (failed)
		tl->logits_at = -1;
	tl->unread = -1;
	return failed;
}

/* Write the logits after n tokens of the last step, from token number `row` on, to out [n][n_vocab]. */
static int run_logits(struct timeline *tl, int32_t row, int32_t n, float *out, struct err *err)
{
	timeline_backend_take(tl);
	forward_logits(&tl->forward, row, n, out);
	return timeline_backend_give(tl, err);
}

/* Return the number of tokens of the next prefill step, when `left` tokens remain. If possible, leave exactly the last
 * cache.tail tokens for the last step, because the policy observes these tokens. */
static int32_t chunk_of(const struct timeline *tl, int32_t left)
{
	const struct cache *c = &tl->cache;

	if (left <= c->chunk)
		return left;
	return left < c->chunk + c->tail && c->tail <= c->chunk / 2 ? left - c->tail : c->chunk;
}

enum { MESSAGES_KEPT = 16 }; /* number of newest messages at whose ends the recurrent states are kept */

/* Return the number of tokens of the next prefill step, at most m. n is the length of the sequence at the end of the
 * prefill. In a model with recurrent layers, the step stops at the first end of a recent message among the next m
 * tokens. The recurrent states are kept at this point, so that a rollback can return to it. If results depend on the
 * size of steps (steps_matter), return m. */
static int32_t cut_at_message(const struct timeline *tl, int32_t n, int32_t m)
{
	const struct cache *c = &tl->cache;
	int32_t cut = m, ends = 0;

	for (int32_t i = n - (MAX(c->tail, 1)); c->model && !c->steps_matter && i > tl->n_past && ends < MESSAGES_KEPT;
	     i--) {
		if (!vocab_is_end(tl->e->vocab, tl->tokens.id[i - 1]))
			continue;
		ends++;
		if (i - tl->n_past < m)
			cut = i - tl->n_past;
	}
	return cut;
}

int timeline_check_ids(const struct timeline *tl, const int32_t *id, size_t n, size_t at, struct err *err)
{
	/* The error suggests a context size that leaves room for an answer of at least 256 tokens. */
	if (at + n > (size_t)tl->cache.limit)
		return err_set(err, ERR_FIT, "%zu tokens do not fit the context of %d; start with -c %zu or more",
		               at + n, tl->cache.limit, (at + n + 511) / 256 * 256);
	for (size_t i = 0; i < n; i++)
		if (id[i] < 0 || id[i] >= tl->e->model.hp.n_vocab)
			return err_set(err, ERR_USAGE, "token %zu is %d, the vocabulary has 0 to %d", at + i, id[i],
			               tl->e->model.hp.n_vocab - 1);
	return 0;
}

/* Shorten the sequence to n tokens, or further if the cache cannot roll back to n. Return how many of the dropped
 * tokens, counted from the first one, had been generated. If these tokens are added again, they must be decoded one by
 * one, and not prefilled. */
static int32_t truncate_to(struct timeline *tl, int32_t n)
{
	int32_t keep = MIN(n, tl->n_past), replay = 0;

	if (tl->n_past > n || tl->adopted) {
		pthread_mutex_lock(&tl->e->lock); /* a rollback may use the backend */
		keep = cache_rewind(&tl->cache, keep, &replay);
		pthread_mutex_unlock(&tl->e->lock);
	}
	timeline_forget(tl, keep);
	tl->adopted = 0;
	return replay;
}

/* Return the length of the common beginning of the n tokens want[] and the computed sequence, in tokens. */
static int32_t tokens_in_common(const struct timeline *tl, const int32_t *want, size_t n)
{
	int32_t same = 0;

	while (same < tl->n_past && (size_t)same < n && tl->tokens.id[same] == want[same])
		same++;
	return same;
}

/* If the sequence ends where the last prefill ended, take the logits from kept_logits. */
static void restore_read_logits(struct timeline *tl)
{
	float *logits = tl->logits;

	if (tl->kept_at != tl->n_past || tl->logits_at == tl->n_past)
		return;
	tl->logits = tl->kept_logits;
	tl->kept_logits = logits;
	tl->logits_at = tl->n_past;
	tl->kept_at = -1;
}

/* Compute the tokens from n_past to n - 1 of tl->tokens. Decode the first `replay` tokens one by one, and prefill the
 * other tokens. */
static int read_tokens(struct timeline *tl, int32_t n, int32_t replay, timeline_progress_fn *progress, void *ud,
                       struct err *err)
{
	int32_t from = tl->n_past;

	while (tl->n_past < n) {
		int32_t left = n - tl->n_past, m = replay > 0 ? 1 : chunk_of(tl, left),
			cut = replay > 0 ? m : cut_at_message(tl, n, m);

		if (progress)
			progress(tl->n_past - from, n - from, ud);
		if (timeline_run_step(tl, tl->tokens.id + tl->n_past, cut, replay > 0 ? STEP_GENERATE : STEP_READ,
		                      replay <= 0 && cut == left, cut == left ? WANT_LAST : WANT_NONE, err))
			return -1;
		if (cut < m)
			cache_keep_states(&tl->cache);
		replay--;
	}
	if (n > from && progress)
		progress(n - from, n - from, ud);
	return n > from && replay < 0 ? timeline_repeat(tl, err) : 0;
}

int32_t timeline_sync(struct timeline *tl, const int32_t *want, size_t n, timeline_progress_fn *progress, void *ud,
                      struct err *err)
{
	double start = now_seconds();
	int32_t same, common, replay;
	int failed, needs;

	if (timeline_settle(tl, err) || timeline_check_ids(tl, want, n, 0, err))
		return -1;
	common = tokens_in_common(tl, want, n);
	/* If the logits after the last token of want[] are unknown, this token must be computed again. */
	needs = n && (size_t)common == n && tl->logits_at != common && tl->kept_at != common;
	replay = truncate_to(tl, common - needs);
	if ((size_t)tl->n_past == n)
		restore_read_logits(tl);
	if (n && (size_t)tl->n_past == n && tl->logits_at != (int32_t)n)
		replay = truncate_to(tl, (int32_t)n - 1);
	same = tl->n_past;
	replay = replay < common - same ? replay : common - same;
	if (tl->logits_at != same)
		tl->logits_at = -1;
	tokens_append(&tl->tokens, want + same, n - (size_t)same);
	tl->stats.reused_tokens = same;
	tl->stats.decode_tokens = tl->stats.drafted = tl->stats.accepted = 0;
	tl->stats.decode_seconds = 0;
	tl->stats.policy_seconds = 0;
	failed = read_tokens(tl, (int32_t)n, replay, progress, ud, err);
	if (failed)
		truncate_to(tl, tl->n_past);
	tl->stats.prefill_tokens = tl->n_past > same ? tl->n_past - same : 0;
	tl->stats.prefill_seconds = now_seconds() - start;
	return failed ? -1 : same;
}

const float *timeline_logits(struct timeline *tl)
{
	if (tl->logits_at != tl->n_past || (size_t)tl->n_past != tl->tokens.n ||
	    timeline_read_logits(tl, &(struct err){ 0 }))
		return NULL;
	return tl->logits;
}

int timeline_extend(struct timeline *tl, const int32_t *id, size_t n, int stepwise, timeline_logits_fn *fn, void *ud,
                    struct err *err)
{
	const struct hparams *hp = &tl->e->model.hp;
	int32_t most = tl->forward.head_rows, end;
	float *rows = NULL; /* [most][n_vocab] logits of several tokens */

	if (timeline_check_ids(tl, id, n, tl->tokens.n, err))
		return -1;
	if (tl->adopted && tl->tokens.n)
		return err_set(err, ERR_USAGE, "the cache policy was changed; sync the sequence first");
	if (timeline_decode_pending(tl, err))
		return -1;
	if (fn && !stepwise &&
	    !(rows = try_alloc((size_t)most * (size_t)hp->n_vocab, sizeof *rows, "logits of several tokens", err)))
		return -1;
	tokens_append(&tl->tokens, id, n);
	end = (int32_t)tl->tokens.n;
	while (tl->n_past < end) {
		int32_t at = tl->n_past, left = end - at, m = stepwise ? 1 : chunk_of(tl, left);

		enum want want = fn && !stepwise ? WANT_ALL : m == left || stepwise ? WANT_LAST : WANT_NONE;

		if (timeline_run_step(tl, tl->tokens.id + at, m, stepwise ? STEP_GENERATE : STEP_READ, m == left, want,
		                      err))
			goto failed;
		if (stepwise && fn) {
			fn(at, tl->logits, ud);
			continue;
		}
		for (int32_t row = 0; fn && row < m; row += most) {
			int32_t k = m - row < most ? m - row : most;

			if (run_logits(tl, row, k, rows, err))
				goto failed;
			for (int32_t i = 0; i < k; i++)
				fn(at + row + i, rows + (size_t)i * (size_t)hp->n_vocab, ud);
		}
	}
	if (n && !stepwise && timeline_repeat(tl, err))
		goto failed;
	free(rows);
	return 0;
failed:
	free(rows);
	truncate_to(tl, tl->n_past);
	return -1;
}

int timeline_pin(struct timeline *tl, int32_t n, struct err *err)
{
	int32_t kept;

	if (n < 0)
		return err_set(err, ERR_USAGE, "%d tokens cannot be pinned", n);
	if (!tl->cache.policy.def->retention->pin)
		return 0;
	if (timeline_settle(tl, err))
		return -1;
	pthread_mutex_lock(&tl->e->lock);
	kept = cache_pin(&tl->cache, n, err);
	pthread_mutex_unlock(&tl->e->lock);
	if (kept < 0)
		return -1;
	timeline_forget(tl, kept);
	return 0;
}

void timeline_cancel(struct timeline *tl)
{
	atomic_store(&tl->cancel, 1);
}

void timeline_resume(struct timeline *tl)
{
	atomic_store(&tl->cancel, 0);
}
