/* engine/timeline.c - one token sequence and its KV cache: sync, step, extend, verify, cancel.
 *
 * Invariant between calls: tokens[0 .. n_past) have their KV entries in the cache.  At most one more token is pending: it was sampled last,
 * and its entry is computed when the next token is wanted, so that a token reaches the screen without waiting for its successor.
 * n_past moves only after a whole step succeeded: an error or a cancel leaves the sequence as it was before that step. */
#include "engine/timeline.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/memory_budget.h"
#include "engine/sampler.h"

enum { BATCH_DEFAULT = 512, CTX_DEFAULT_MAX = 32768, HEAD_TILE = 8, HEAD_ROWS_MOST = 32, HEAD_FLOATS = 1 << 20 };

/* ---- memory ---- */

static int kv_type_parse(const char *name, const struct hparams *hp, enum dtype *out, struct err *err)
{
	static const enum dtype types[] = { DT_F16, DT_F32, DT_BF16, DT_Q8_0 };
	static const char *const names[] = { "f16", "f32", "bf16", "q8_0" };

	*out = DT_F16;
	if (!name)
		return 0;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(name, names[i])) {
			*out = types[i];
			for (int32_t l = 0; l < hp->n_layer; l++)
				if (model_layer_spec(hp, l)->attn.head_dim % dtype_info(*out)->block)
					return err_set(err, ERR_USAGE, "KV type '%s' needs heads of a multiple of %d values, this model's have %d; "
					               "use f16", name, dtype_info(*out)->block, model_layer_spec(hp, l)->attn.head_dim);
			return 0;
		}
	return err_set(err, ERR_USAGE, "unknown KV type '%s' (f16, f32, bf16, q8_0)", name);
}

/* Parse the policies whose selection is observed beside full attention. */
static int watch_describe(struct timeline *t, const struct timeline_options *o, struct err *err)
{
	if (o->n_watch > 0 && strcmp(t->cache.policy.def->name, "full"))
		return err_set(err, ERR_USAGE, "policies are watched under 'full', not under '%s'", o->kv);
	if (o->n_watch > WATCH_MAX)
		return err_set(err, ERR_USAGE, "%d policies cannot be watched at once, the limit is %d", o->n_watch, WATCH_MAX);
	for (t->n_watch = 0; t->n_watch < o->n_watch; t->n_watch++)
		if (policy_parse(&t->watch[t->n_watch], o->watch[t->n_watch], err))
			return -1;
	return 0;
}

/* Set the cache's settings and the policies to observe; nothing is opened yet. */
static int cache_describe(struct timeline *t, const struct engine *e, const struct timeline_options *o, int32_t ctx, struct err *err)
{
	struct cache *c = &t->cache;
	const char *kv = o->n_watch > 0 && !(o->kv && *o->kv) ? "full" : o->kv;

	*c = (struct cache){ .hp = model_kv(&e->model.hp), .model = e->model.hp.kv ? &e->model.hp : NULL, .be = e->be, .ctx = ctx, .unrotated = o->n_watch > 0,
	                      .memory = o->kv_memory };
	c->batch = o->batch ? o->batch : BATCH_DEFAULT;
	c->batch = c->batch < ctx ? c->batch : ctx;
	return kv_type_parse(o->kv_type, c->hp, &c->type, err) || policy_parse(&c->policy, kv, err) || watch_describe(t, o, err) ? -1 : 0;
}

/* Rows of logits that are computed at once: tiles of the matrix product, at least one, which also is a step that tries drafted tokens; more
 * where the vocabulary is small, since the rows of a large one would take more memory than all activations. */
static int32_t head_rows(const struct hparams *hp)
{
	int32_t rows = HEAD_FLOATS / hp->n_vocab / HEAD_TILE * HEAD_TILE;

	return rows < HEAD_TILE ? HEAD_TILE : rows < HEAD_ROWS_MOST ? rows : HEAD_ROWS_MOST;
}

/* Buffers, logits of timeline_extend() and of the last token, candidates for sampling; on a device: buffers, and what it reserves. */
static uint64_t scratch_bytes(const struct hparams *hp, int32_t batch, const struct memory_budget *budget)
{
	uint64_t buffers = forward_bytes(hp, batch, head_rows(hp));

	if (budget->total)
		return buffers + budget->reserved;
	return buffers + (uint64_t)hp->n_vocab * ((uint64_t)head_rows(hp) * 4 + 4 + sizeof(struct candidate));
}

static uint64_t bytes_with(struct timeline *t, int32_t ctx)
{
	uint64_t sum;

	t->cache.ctx = ctx;
	sum = cache_size(&t->cache).memory;
	if (t->n_watch && size_add(sum, observe_recovery_bytes(&t->cache, t->watch, t->n_watch), &sum))
		return UINT64_MAX;
	return sum;
}

static int ctx_fits(struct timeline *t, uint64_t bytes, int32_t ctx)
{
	return bytes_with(t, ctx) <= bytes && cache_size(&t->cache).least <= t->cache.memory;
}

/* The largest context, `most` at most, whose cache takes no more than that many bytes, and is allowed; 0 = none. */
static int32_t ctx_that_fits(struct timeline *t, uint64_t bytes, int32_t most)
{
	int32_t lo = 0, hi = most;

	while (lo < hi) {
		int32_t mid = lo + (hi - lo) / 2 + 1;

		if (ctx_fits(t, bytes, mid))
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

/* t is scratch.  The lock is held, because the device is asked for its free memory. */
static int need_locked(struct timeline *t, const struct engine *e, const struct timeline_options *o, struct timeline_need *need,
                       struct err *err)
{
	const struct hparams *hp = &e->model.hp;
	struct memory_budget budget;
	int32_t most = INT32_MAX / most_kv_heads(hp);   /* slots of a plane are counted in 31 bits */

	if (most > CTX_MAX)
		most = CTX_MAX;
	need->ctx = o->ctx ? o->ctx : hp->ctx_train < CTX_DEFAULT_MAX ? hp->ctx_train : CTX_DEFAULT_MAX;
	if (cache_describe(t, e, o, need->ctx, err))
		return -1;
	budget = memory_budget_of(e->be);
	if (o->kv_memory && budget.total)
		return err_set(err, ERR_USAGE, "--kv-memory keeps part of the KV cache on disk, and a GPU reads entries from its own memory alone; "
		               "use --device cpu");
	need->scratch_bytes = scratch_bytes(hp, t->cache.batch, &budget);
	need->free_bytes = budget.available;
	need->device_bytes = budget.total;
	need->ctx_fits = need->free_bytes <= need->scratch_bytes ? 0 :
	                 ctx_that_fits(t, need->free_bytes - need->scratch_bytes, most);
	/* The default is the trained length, CTX_DEFAULT_MAX at most, or half of what fits. */
	if (!o->ctx && need->ctx > need->ctx_fits / 2 && need->ctx_fits >= 512)
		need->ctx = need->ctx_fits / 2 / 256 * 256;
	need->kv_bytes = bytes_with(t, need->ctx);
	need->disk_bytes = cache_size(&t->cache).disk;
	need->least_bytes = cache_size(&t->cache).least;
	return 0;
}

int timeline_need(const struct engine *e, const struct timeline_options *o, struct timeline_need *need, struct err *err)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&e->lock;
	struct timeline *t;
	int failed;

	memset(need, 0, sizeof *need);
	if (!e->be)
		return err_set(err, ERR_USAGE, "the model was opened without its weights");
	if (o->ctx < 0 || o->batch < 0)
		return err_set(err, ERR_USAGE, "a context of %d tokens in chunks of %d makes no sense", o->ctx, o->batch);
	t = xcalloc(1, sizeof *t);
	pthread_mutex_lock(lock);
	failed = need_locked(t, e, o, need, err);
	pthread_mutex_unlock(lock);
	free(t);
	return failed;
}

/* Does `memory` allow a cache that needs at least so much of it? */
static int limit_check(const struct cache *c, uint64_t least, struct err *err)
{
	if (least <= c->memory)
		return 0;
	return err_set(err, ERR_FIT, "a context of %d tokens under cache policy '%s' needs at least %.1f MiB in memory, for what selects entries "
	               "and for one layer of them; --kv-memory allows %.1f", c->ctx, c->policy.def->name, (double)(least + 52428) / (1 << 20),
	               (double)c->memory / (1 << 20));
}

static int fit_check(const struct timeline_need *n, struct err *err)
{
	struct memory_budget budget = { .available = n->free_bytes, .total = n->device_bytes };
	double need = (double)(n->kv_bytes + n->scratch_bytes) / (1 << 20);
	struct str have = {0};

	if (n->free_bytes >= n->scratch_bytes && n->free_bytes - n->scratch_bytes >= n->kv_bytes)
		return 0;
	memory_budget_text(&budget, &have);
	if (n->ctx_fits >= 16)
		err_set(err, ERR_FIT, "a context of %d tokens needs %.0f MiB, %s; -c %d fits", n->ctx, need, have.p, n->ctx_fits);
	else
		err_set(err, ERR_FIT, "a context of %d tokens needs %.0f MiB, %s; no -c fits, %s", n->ctx, need, have.p,
		        n->device_bytes ? "use --device cpu" : "free some memory");
	str_free(&have);
	return -1;
}

/* What timeline_stats() says of the cache. */
static void stats_of_cache(struct timeline *t)
{
	struct cache *c = &t->cache;

	t->stats.endless = c->limit == ENDLESS;
	t->stats.ctx = t->stats.endless ? c->ctx : c->limit;
	t->stats.batch = c->chunk;
	t->stats.kv_bytes = bytes_with(t, c->ctx);
	t->stats.kv_disk_bytes = cache_size(c).disk;
	policy_text(&c->policy, t->stats.kv, sizeof t->stats.kv);
}

int timeline_open(struct timeline **out, struct engine *e, const struct timeline_options *o, struct err *err)
{
	int32_t n_vocab = e->model.hp.n_vocab;
	struct timeline_need need;
	struct timeline *t;
	int failed;

	if (e->plan_only)
		return err_set(err, ERR_USAGE, "the model was opened without its weights");
	if (timeline_need(e, o, &need, err))
		return -1;
	t = xcalloc(1, sizeof *t);
	t->e = e;
	t->logits_at = t->mixed_from = t->read_end = t->kept_at = -1;
	pthread_mutex_lock(&e->lock);
	failed = cache_describe(t, e, o, need.ctx, err) || limit_check(&t->cache, need.least_bytes, err) || fit_check(&need, err) ||
	         !(t->logits = try_alloc((size_t)n_vocab, sizeof *t->logits, "logits", err)) ||
	         !(t->kept_logits = try_alloc((size_t)n_vocab, sizeof *t->kept_logits, "logits", err)) ||
	         !(t->scratch = try_alloc((size_t)n_vocab, sizeof *t->scratch, "sampling", err)) ||
	         cache_open(&t->cache, err) ||
	         (t->n_watch && observe_recovery_open(&t->recovery, &t->cache, t->watch, t->n_watch, err)) ||
	         !(t->nll = try_alloc((size_t)t->cache.chunk, sizeof *t->nll, "surprise", err)) ||
	         forward_init(&t->forward, &e->model, &t->cache, t->cache.chunk, head_rows(&e->model.hp), err);
	e->be->ops->sync(e->be);   /* clears a failure, which is in err: other timelines continue */
	pthread_mutex_unlock(&e->lock);
	if (failed) {
		timeline_close(t);
		return -1;
	}
	t->stats = (struct timeline_stats){
		.scratch_bytes = need.scratch_bytes, .kv_bytes_per_token = kv_token_bytes(t->cache.hp, t->cache.type),
	};
	stats_of_cache(t);
	snprintf(t->stats.kv_type, sizeof t->stats.kv_type, "%s", o->kv_type ? o->kv_type : "f16");
	*out = t;
	return 0;
}

/* Before the cache that the observers are attached to is closed.  The lock is held. */
static void observers_close(struct timeline *t)
{
	observe_panel_close(t->panel);
	observe_evidence_close(t->evidence);
	observe_recovery_close(t->recovery);
	observe_rows_close(t->rows);
	t->rows = NULL;
	t->panel = NULL;
	t->evidence = NULL;
	t->recovery = NULL;
}

void timeline_close(struct timeline *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->e->lock);
	observers_close(t);
	forward_release(&t->forward);
	cache_close(&t->cache);
	pthread_mutex_unlock(&t->e->lock);
	tokens_free(&t->tokens);
	tokens_free(&t->draft);
	draft_index_free(&t->drafts);
	str_free(&t->marks);
	str_free(&t->mixed);
	str_free(&t->begun);
	free(t->nll);
	free(t->logits);
	free(t->kept_logits);
	free(t->draft_logits);
	free(t->scratch);
	free(t);
}

/* ---- computing ---- */

/* From here to timeline_backend_give() the backend works for this timeline alone. */
void timeline_backend_take(struct timeline *t)
{
	pthread_mutex_lock(&t->e->lock);
	t->e->be->cancel = &t->cancel;
}

static int backend_result(struct timeline *t, struct err *err)
{
	struct backend *be = t->e->be;
	int failed = be->ops->sync(be);

	be->cancel = NULL;
	if (atomic_load(&t->cancel))
		return err_set(err, ERR_CANCELLED, "stopped");
	return failed ? err_set(err, ERR_FAIL, "computation failed: %s", be->err) : 0;
}

int timeline_backend_give(struct timeline *t, struct err *err)
{
	int failed = backend_result(t, err);

	pthread_mutex_unlock(&t->e->lock);
	return failed;
}

/* nll[i] = the surprise at token i of a step, from the logits after its predecessor; several of these at a time. */
static int chunk_nll(struct timeline *t, const int32_t *id, int32_t n, struct err *err)
{
	size_t n_vocab = (size_t)t->e->model.hp.n_vocab;
	int32_t most = t->forward.head_rows;
	float *rows = NULL;   /* [most][n_vocab] */

	t->nll[0] = t->logits_at == t->n_past ? (float)-engine_logprob(t->logits, (int32_t)n_vocab, id[0]) : NAN;
	if (n > 1 && !(rows = try_alloc((size_t)most * n_vocab, sizeof *rows, "logits of several tokens", err)))
		return -1;
	for (int32_t row = 0; row < n - 1; row += most) {
		int32_t k = n - 1 - row < most ? n - 1 - row : most;

		forward_logits(&t->forward, row, k, rows);
		for (int32_t i = 0; i < k; i++)
			t->nll[row + i + 1] = (float)-engine_logprob(rows + (size_t)i * n_vocab, (int32_t)n_vocab, id[row + i + 1]);
	}
	if (n > 1)
		free(rows);
	return 0;
}

void timeline_forget(struct timeline *t, int32_t n)
{
	t->ahead = 0;
	t->n_past = n < t->n_past ? n : t->n_past;
	draft_index_cut(&t->drafts, t->tokens.id, (size_t)t->n_past);
	if (t->tokens.n > (size_t)t->n_past)
		t->tokens.n = (size_t)t->n_past;
	if (t->marks.n > (size_t)t->n_past)
		t->marks.n = (size_t)t->n_past;
	if (t->logits_at > t->n_past)
		t->logits_at = -1;
	if (t->kept_at > t->n_past)
		t->kept_at = -1;
	if (t->read_end > t->n_past)
		t->read_end = -1;
	t->draft.n = 0;
	if (t->begun_n > t->n_past)
		t->begun_n = t->n_past;
	if (t->mixed_from < t->n_past)
		return;
	t->mixed_from = -1;
	str_clear(&t->mixed);
}

/* Note how the tokens of a committed step were computed (enum token_mark), before n_past moves. */
static void mark(struct timeline *t, const struct step *st)
{
	const struct cache *c = &t->cache;

	for (int32_t i = 0; i < st->n; i++) {
		char m = c->marked && step_generates(st) ? MARK_GENERATED : MARK_READ;

		if (c->marked && !step_generates(st) && i == st->n - 1 && (st->last || c->steps_matter))
			m = MARK_READ_END;
		if (c->marked && st->pos + i == c->region)
			m |= MARK_STREAM;
		str_add(&t->marks, &m, 1);
	}
}

/* Compute tokens id[0 .. st->n) up to the cache's commit; tokens and logits of the timeline stay as they are.  The lock is held. */
void timeline_step_run(struct timeline *t, const int32_t *id, const struct step *st, enum want want)
{
	t->loaded = 0;
	t->draft.n = 0;
	t->in_cache = t->in_attention = 0;
	t->forward.clock = t->measure && step_generates(st) ? &t->in_cache : NULL;
	t->cache.kv.clock = t->forward.clock ? &t->in_attention : NULL;
	forward_run(&t->forward, id, st, want == WANT_ALL ? st->n : want == WANT_LAST);
}

/* Commit the first n tokens of the step that ran, after its results have arrived; n_past moves.  The lock is held. */
int timeline_step_keep(struct timeline *t, const struct step *st, int32_t n, struct err *err)
{
	struct step kept = *st;
	double start = now_seconds();

	kept.n = n;
	t->e->be->cancel = NULL;
	cache_commit(&t->cache, n, t->cache.wants_nll ? t->nll : NULL);
	t->in_cache += now_seconds() - start;
	if (t->e->be->ops->sync(t->e->be)) {
		err_set(err, ERR_FAIL, "computation failed: %s", t->e->be->err);
		timeline_forget(t, cache_rewind(&t->cache, 0, NULL));   /* some entries may have moved, others not */
		return -1;
	}
	if (t->forward.clock)
		t->stats.policy_seconds += t->in_cache - t->in_attention;
	mark(t, &kept);
	t->n_past += n;
	return 0;
}

/* Before the first generated token after a prefill: keep the logits after the prefill, for a rollback to its end. */
void timeline_keep_read_logits(struct timeline *t)
{
	float *logits = t->logits;

	if (t->logits_at != t->n_past || t->n_past != t->read_end)
		return;
	t->logits = t->kept_logits;
	t->kept_logits = logits;
	t->kept_at = t->n_past;
	t->logits_at = -1;
}

/* Run id[0..n) as one step.  want: WANT_LAST computes the logits after its last token; WANT_ALL also lets run_logits() compute the
 * others.  n_past moves on success only. */
int timeline_run_step(struct timeline *t, const int32_t *id, int32_t n, enum step_kind kind, int last, enum want want, struct err *err)
{
	struct step st = { .kind = kind, .pos = t->n_past, .n = n, .last = last };
	struct cache *c = &t->cache;
	int failed = 0;

	if (c->wants_nll)
		want = WANT_ALL;          /* the surprise at the next step's first token needs the last ones */
	timeline_backend_take(t);
	timeline_step_run(t, id, &st, want);
	if (c->wants_nll && !atomic_load(&t->cancel))
		failed = chunk_nll(t, id, n, err);
	if (step_generates(&st))
		timeline_keep_read_logits(t);
	if (want) {
		t->logits_at = -1;   /* a cancel may leave them half written */
		forward_logits(&t->forward, n - 1, 1, t->logits);
	}
	if (!failed)
		failed = backend_result(t, err);
	if (failed)
		cache_rollback(c);
	else
		failed = timeline_step_keep(t, &st, n, err);
	t->e->be->cancel = NULL;
	pthread_mutex_unlock(&t->e->lock);
	if (failed)
		return -1;
	if (kind == STEP_READ)
		t->read_end = last ? t->n_past : -1;
	if (want)
		t->logits_at = t->n_past;
	return 0;
}

/* Logits after tokens row .. row + n of the step that ran last. */
static int run_logits(struct timeline *t, int32_t row, int32_t n, float *out, struct err *err)
{
	timeline_backend_take(t);
	forward_logits(&t->forward, row, n, out);
	return timeline_backend_give(t, err);
}

/* Tokens of the next prefill step when so many are left: the last step carries all tokens that the policy observes (cache.tail). */
static int32_t chunk_of(const struct timeline *t, int32_t left)
{
	const struct cache *c = &t->cache;

	if (left <= c->chunk)
		return left;
	return left < c->chunk + c->tail && c->tail <= c->chunk / 2 ? left - c->tail : c->chunk;
}

enum { MESSAGES_KEPT = 16 };

/* Tokens of the next step of a prefill up to token n, m or fewer: with recurrent layers it ends where one of the last messages ends, so that
 * a rollback to there finds their states.  Not where the cut into steps changes what is computed. */
static int32_t cut_at_message(const struct timeline *t, int32_t n, int32_t m)
{
	const struct cache *c = &t->cache;
	int32_t cut = m, ends = 0;

	for (int32_t i = n - (c->tail > 1 ? c->tail : 1); c->model && !c->steps_matter && i > t->n_past && ends < MESSAGES_KEPT; i--) {
		if (!vocab_is_end(t->e->vocab, t->tokens.id[i - 1]))
			continue;
		ends++;
		if (i - t->n_past < m)
			cut = i - t->n_past;
	}
	return cut;
}

int timeline_check_ids(const struct timeline *t, const int32_t *id, size_t n, size_t at, struct err *err)
{
	if (at + n > (size_t)t->cache.limit)
		return err_set(err, ERR_FIT, "%zu tokens do not fit the context of %d; start with -c %zu or more", at + n,
		               t->cache.limit, at + n);
	for (size_t i = 0; i < n; i++)
		if (id[i] < 0 || id[i] >= t->e->model.hp.n_vocab)
			return err_set(err, ERR_USAGE, "token %zu is %d, the vocabulary has 0 to %d", at + i, id[i],
			               t->e->model.hp.n_vocab - 1);
	return 0;
}

/* Forget everything after the first n tokens, or after fewer, where the cache cannot go back to n.  Returns how many of the tokens that
 * followed were generated and have to be decoded again one by one, as far as the new sequence has them. */
static int32_t truncate_to(struct timeline *t, int32_t n)
{
	int32_t keep = n < t->n_past ? n : t->n_past, replay = 0;

	if (t->n_past > n || t->adopted) {
		pthread_mutex_lock(&t->e->lock);      /* the cache may need the backend to go back */
		keep = cache_rewind(&t->cache, keep, &replay);
		pthread_mutex_unlock(&t->e->lock);
	}
	timeline_forget(t, keep);
	t->adopted = 0;
	return replay;
}

/* Tokens that want[0 .. n) has in common with the sequence. */
static int32_t tokens_in_common(const struct timeline *t, const int32_t *want, size_t n)
{
	int32_t same = 0;

	while (same < t->n_past && (size_t)same < n && t->tokens.id[same] == want[same])
		same++;
	return same;
}

/* After a rollback to the end of the last prefill: bring its logits back. */
static void restore_read_logits(struct timeline *t)
{
	float *logits = t->logits;

	if (t->kept_at != t->n_past || t->logits_at == t->n_past)
		return;
	t->logits = t->kept_logits;
	t->kept_logits = logits;
	t->logits_at = t->n_past;
	t->kept_at = -1;
}

/* Compute tokens n_past .. n of t->tokens: decode the first `replay` one by one, prefill the others. */
static int read_tokens(struct timeline *t, int32_t n, int32_t replay, timeline_progress_fn *progress, void *ud, struct err *err)
{
	int32_t from = t->n_past;

	while (t->n_past < n) {
		int32_t left = n - t->n_past, m = replay > 0 ? 1 : chunk_of(t, left), cut = replay > 0 ? m : cut_at_message(t, n, m);

		if (progress)
			progress(t->n_past - from, n - from, ud);
		if (timeline_run_step(t, t->tokens.id + t->n_past, cut, replay > 0 ? STEP_GENERATE : STEP_READ, replay <= 0 && cut == left,
		             cut == left ? WANT_LAST : WANT_NONE, err))
			return -1;
		if (cut < m)
			cache_keep_states(&t->cache);
		replay--;
	}
	if (n > from && progress)
		progress(n - from, n - from, ud);
	return 0;
}

int32_t timeline_sync(struct timeline *t, const int32_t *want, size_t n, timeline_progress_fn *progress, void *ud,
                      struct err *err)
{
	double start = now_seconds();
	int32_t same, common, replay;
	int failed, needs;

	if (timeline_settle(t, err) || timeline_check_ids(t, want, n, 0, err))
		return -1;
	common = tokens_in_common(t, want, n);
	/* The logits after the last token are needed, too: without them the last token is computed again. */
	needs = n && (size_t)common == n && t->logits_at != common && t->kept_at != common;
	replay = truncate_to(t, common - needs);
	if ((size_t)t->n_past == n)
		restore_read_logits(t);
	if (n && (size_t)t->n_past == n && t->logits_at != (int32_t)n)
		replay = truncate_to(t, (int32_t)n - 1);
	same = t->n_past;
	replay = replay < common - same ? replay : common - same;
	if (t->logits_at != same)
		t->logits_at = -1;
	tokens_append(&t->tokens, want + same, n - (size_t)same);
	t->stats.reused_tokens = same;
	t->stats.decode_tokens = t->stats.drafted = t->stats.accepted = 0;
	t->stats.decode_seconds = 0;
	t->stats.policy_seconds = 0;
	failed = read_tokens(t, (int32_t)n, replay, progress, ud, err);
	if (failed)
		truncate_to(t, t->n_past);
	t->stats.prefill_tokens = t->n_past > same ? t->n_past - same : 0;
	t->stats.prefill_seconds = now_seconds() - start;
	return failed ? -1 : same;
}

const float *timeline_logits(const struct timeline *t)
{
	return t->logits_at == t->n_past && (size_t)t->n_past == t->tokens.n ? t->logits : NULL;
}

/* Open t->cache, and what depends on its chunk.  The caller holds a copy of the cache before. */
static int switch_open(struct timeline *t, struct forward *forward, float **nll, struct err *err)
{
	struct cache *c = &t->cache;
	struct memory_budget budget = memory_budget_of(c->be);
	const struct hparams *hp = &t->e->model.hp;
	uint64_t need = cache_size(c).memory + forward_bytes(hp, c->batch, head_rows(hp)), have = budget.available;
	struct str text = { 0 };
	int failed;

	if (limit_check(c, cache_size(c).least, err))
		return -1;
	if (need > have) {
		memory_budget_text(&budget, &text);
		err_set(err, ERR_FIT, "cache policy '%s' needs %.0f MiB beside the current one, %s", c->policy.def->name,
		        (double)need / (1 << 20), text.p);
		str_free(&text);
		return -1;
	}
	failed = cache_open(c, err) || !(*nll = try_alloc((size_t)c->chunk, sizeof **nll, "surprise", err)) ||
	         forward_init(forward, &t->e->model, c, c->chunk, head_rows(hp), err);
	t->e->be->ops->sync(t->e->be);
	if (failed) {
		free(*nll);
		cache_close(c);
	}
	return failed ? -1 : 0;
}

int timeline_switch_kv(struct timeline *t, const char *kv, struct err *err)
{
	struct cache *c = &t->cache, old, now;
	struct forward forward = { .m = NULL };
	struct policy policy;
	float *nll = NULL;
	int32_t kept = 0, generated = 0;

	if (policy_parse(&policy, kv, err) || timeline_settle(t, err))
		return -1;
	old = *c;
	pthread_mutex_lock(&t->e->lock);
	/* Opened in its final place, because parts of a cache point into it. */
	*c = (struct cache){ .policy = policy, .hp = old.hp, .model = old.model, .be = old.be, .type = old.type, .batch = old.batch, .ctx = old.ctx, .memory = old.memory,
	                     .evictions_fn = old.evictions_fn, .evictions_ud = old.evictions_ud };
	if (switch_open(t, &forward, &nll, err)) {
		*c = old;
		pthread_mutex_unlock(&t->e->lock);
		return -1;
	}
	if (cache_keeps_all(c) && cache_keeps_all(&old) && t->n_past > 0) {
		kept = cache_take_store(c, &old, t->n_past) ? 0 : t->n_past;
	}
	if (t->e->be->ops->sync(t->e->be))
		kept = 0;   /* key sketches could not be computed: all is prefilled again */
	while (generated < kept && !(t->marks.p[generated] & MARK_GENERATED))
		generated++;
	if (generated < kept) {
		str_addf(&t->mixed, "%s", t->mixed.n ? ", " : "");
		policy_identity(&old.policy, &t->mixed);
		t->mixed_from = generated;
	}
	now = *c;
	*c = old;
	observers_close(t);   /* they belong to the old cache */
	cache_close(c);
	*c = now;
	forward_release(&t->forward);
	t->forward = forward;
	free(t->nll);
	t->nll = nll;
	pthread_mutex_unlock(&t->e->lock);
	timeline_forget(t, kept);
	t->adopted = 1;
	t->logits_at = t->kept_at = t->read_end = -1;
	t->n_watch = 0;
	stats_of_cache(t);
	return 0;
}

int timeline_extend(struct timeline *t, const int32_t *id, size_t n, int stepwise, timeline_logits_fn *fn, void *ud,
                    struct err *err)
{
	const struct hparams *hp = &t->e->model.hp;
	int32_t most = t->forward.head_rows, end;
	float *rows = NULL;   /* [most][n_vocab] logits of several tokens */

	if (timeline_check_ids(t, id, n, t->tokens.n, err))
		return -1;
	if (t->adopted && t->tokens.n)
		return err_set(err, ERR_USAGE, "the cache policy was changed; sync the sequence first");
	if (timeline_decode_pending(t, err))
		return -1;
	if (fn && !stepwise && !(rows = try_alloc((size_t)most * (size_t)hp->n_vocab, sizeof *rows, "logits of several tokens", err)))
		return -1;
	tokens_append(&t->tokens, id, n);
	end = (int32_t)t->tokens.n;
	while (t->n_past < end) {
		int32_t at = t->n_past, left = end - at, m = stepwise ? 1 : chunk_of(t, left);

		enum want want = fn && !stepwise ? WANT_ALL : m == left || stepwise ? WANT_LAST : WANT_NONE;

		if (timeline_run_step(t, t->tokens.id + at, m, stepwise ? STEP_GENERATE : STEP_READ, m == left, want, err))
			goto failed;
		if (stepwise && fn) {
			fn(at, t->logits, ud);
			continue;
		}
		for (int32_t row = 0; fn && row < m; row += most) {
			int32_t k = m - row < most ? m - row : most;

			if (run_logits(t, row, k, rows, err))
				goto failed;
			for (int32_t i = 0; i < k; i++)
				fn(at + row + i, rows + (size_t)i * (size_t)hp->n_vocab, ud);
		}
	}
	free(rows);
	return 0;
failed:
	free(rows);
	truncate_to(t, t->n_past);
	return -1;
}

int timeline_pin(struct timeline *t, int32_t n, struct err *err)
{
	int32_t kept;

	if (n < 0)
		return err_set(err, ERR_USAGE, "%d tokens cannot be pinned", n);
	if (!t->cache.policy.def->retention->pin)
		return 0;
	if (timeline_settle(t, err))
		return -1;
	pthread_mutex_lock(&t->e->lock);
	kept = cache_pin(&t->cache, n, err);
	pthread_mutex_unlock(&t->e->lock);
	if (kept < 0)
		return -1;
	timeline_forget(t, kept);
	return 0;
}

void timeline_on_evictions(struct timeline *t, timeline_evictions_fn *fn, void *ud)
{
	t->cache.evictions_fn = fn;
	t->cache.evictions_ud = ud;
}

uint64_t timeline_read_bytes(const struct timeline *t, int32_t pos, int decode)
{
	return cache_read_bytes(&t->cache, pos, decode);
}

void timeline_measure(struct timeline *t, int on)
{
	t->measure = on;
}

void timeline_cancel(struct timeline *t)
{
	atomic_store(&t->cancel, 1);
}

void timeline_resume(struct timeline *t)
{
	atomic_store(&t->cancel, 0);
}

/* ---- observers ---- */

int timeline_attention(struct timeline *t, int32_t id, int32_t layer, int32_t head, float *p, struct err *err)
{
	const struct hparams *hp = t->cache.hp;
	struct observe_token *o;
	int failed;

	if (layer < 0 || layer >= hp->n_layer || head < -1 || head >= hp->n_kv_head)
		return err_set(err, ERR_USAGE, "there is no layer %d with a KV head %d: the model has layers 0 to %d with heads 0 to %d", layer,
		               head, hp->n_layer - 1, hp->n_kv_head - 1);
	if (timeline_decode_pending(t, err))   /* its attention is not asked for */
		return -1;
	pthread_mutex_lock(&t->e->lock);
	failed = observe_token_open(&o, &t->cache, layer, head, p, t->n_past + 1, err);
	t->e->be->ops->sync(t->e->be);
	pthread_mutex_unlock(&t->e->lock);
	if (failed)
		return -1;
	failed = timeline_extend(t, &id, 1, 1, NULL, NULL, err);
	pthread_mutex_lock(&t->e->lock);
	observe_token_close(o);
	pthread_mutex_unlock(&t->e->lock);
	return failed;
}

int timeline_evidence_begin(struct timeline *t, struct err *err)
{
	int failed;

	timeline_evidence_end(t);
	if (timeline_settle(t, err))
		return -1;
	if (t->recovery)
		return err_set(err, ERR_USAGE, "evidence cannot be summed while selection policies are watched");
	pthread_mutex_lock(&t->e->lock);
	failed = observe_evidence_open(&t->evidence, &t->cache, err);
	t->e->be->ops->sync(t->e->be);   /* clears a failure, which is in err */
	pthread_mutex_unlock(&t->e->lock);
	return failed;
}

void timeline_evidence_end(struct timeline *t)
{
	timeline_settle(t, &(struct err){0});
	pthread_mutex_lock(&t->e->lock);
	observe_evidence_close(t->evidence);
	t->evidence = NULL;
	pthread_mutex_unlock(&t->e->lock);
}

void timeline_evidence(struct timeline *t, int32_t first, int32_t n, float *out)
{
	timeline_settle(t, &(struct err){0});
	if (t->evidence)
		observe_evidence_sums(t->evidence, first, n, out);
	else
		memset(out, 0, (size_t)(n > 0 ? n : 0) * sizeof *out);
}

int timeline_rows_begin(struct timeline *t, int32_t block, int32_t last, int32_t most, struct err *err)
{
	int failed;

	timeline_rows_end(t);
	if (timeline_settle(t, err))
		return -1;
	if (!cache_keeps_all(&t->cache) || t->cache.selects.def)
		return err_set(err, ERR_USAGE, "rows of attention are kept under the cache policy 'full' alone");
	pthread_mutex_lock(&t->e->lock);
	failed = observe_rows_open(&t->rows, &t->cache, block, last, most, err);
	t->e->be->ops->sync(t->e->be);   /* clears a failure, which is in err */
	pthread_mutex_unlock(&t->e->lock);
	return failed;
}

void timeline_rows_end(struct timeline *t)
{
	pthread_mutex_lock(&t->e->lock);
	observe_rows_close(t->rows);
	t->rows = NULL;
	pthread_mutex_unlock(&t->e->lock);
}

int timeline_recovery(const struct timeline *t, int i, struct recovered *out)
{
	return observe_recovery_get(t->recovery, i, out);
}

int timeline_recovery_ages(const struct timeline *t, int i, struct recovered_ages *out)
{
	return observe_recovery_ages(t->recovery, i, out);
}

int timeline_recovery_layer(const struct timeline *t, int i, int32_t layer, struct recovered_layer *out)
{
	return observe_recovery_layer(t->recovery, i, layer, out);
}

int64_t timeline_query_cosine(const struct timeline *t, int32_t layer, double *cosine)
{
	return observe_query_cosine(t->recovery, layer, cosine);
}

const int32_t *timeline_tokens(const struct timeline *t, size_t *n)
{
	*n = t->tokens.n;
	return t->tokens.id;
}

void timeline_policy(const struct timeline *t, struct str *out)
{
	policy_whole(&t->cache.policy, out);
}

void timeline_stats(const struct timeline *t, struct timeline_stats *out)
{
	const struct retention_ops *r = t->cache.policy.def->retention;
	*out = t->stats;
	out->n_tokens = (int32_t)t->tokens.n;
	out->kv_used_bytes = cache_used_bytes(&t->cache);
	out->kv_resident_bytes = cache_resident_bytes(&t->cache);
	kv_ahead_stats(&t->cache.kv, &out->kv_fetched, &out->kv_overlap);
	out->rings = (struct ring_stats){ .seen = t->n_past, .oldest = -1 };
	if (r->ring_stats)
		r->ring_stats(&t->cache, &out->rings);
	if (out->endless)
		out->ctx = out->rings.pinned + out->rings.n_ring * out->rings.ring_slots;
}
