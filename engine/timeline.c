/* engine/timeline.c - one token sequence and its KV rows: sync, step, extend, cancel.
 *
 * Invariant between calls: tokens[0 .. n_past) have their rows in the cache; at most one more token, just
 * sampled, waits for its row (computed when the next one is wanted, so that a token reaches the screen
 * without waiting for its successor).  n_past moves only after a whole chunk succeeded: an error or a cancel
 * leaves the sequence as it was before that chunk. */
#include "engine/timeline.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/memory.h"
#include "engine/sampler.h"

enum { BATCH_DEFAULT = 512, CTX_DEFAULT_MAX = 32768, HEAD_ROWS = 32 };

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
			if (hp->head_dim % dtype_info(*out)->block)
				return err_set(err, ERR_USAGE, "KV type '%s' needs heads of a multiple of %d values, this model's have %d; "
				               "use f16", name, dtype_info(*out)->block, hp->head_dim);
			return 0;
		}
	return err_set(err, ERR_USAGE, "unknown KV type '%s' (f16, f32, bf16, q8_0)", name);
}

/* What is watched beside full attention. */
static int watch_describe(struct policy *p, const struct timeline_options *o, struct err *err)
{
	if (p->par.def != &policy_full && o->kv && *o->kv)
		return err_set(err, ERR_USAGE, "policies are watched under 'full', not under '%s'", o->kv);
	if (o->n_watch > WATCH_MAX)
		return err_set(err, ERR_USAGE, "%d policies cannot be watched at once, the limit is %d", o->n_watch, WATCH_MAX);
	p->par = (struct kv_params){ .def = &policy_watch };
	for (; p->n_watch < o->n_watch; p->n_watch++)
		if (policy_parse(&p->watch[p->n_watch], o->watch[p->n_watch], err))
			return -1;
	return 0;
}

/* A policy with its settings, not yet opened. */
static int policy_describe(struct policy *p, const struct engine *e, const struct timeline_options *o, int32_t ctx,
                           struct err *err)
{
	*p = (struct policy){ .hp = &e->model.hp, .be = e->be, .ctx = ctx };
	p->batch = o->batch ? o->batch : BATCH_DEFAULT;
	p->batch = p->batch < ctx ? p->batch : ctx;
	if (kv_type_parse(o->kv_type, p->hp, &p->type, err) || policy_parse(&p->par, o->kv, err) ||
	    (o->n_watch > 0 && watch_describe(p, o, err)))
		return -1;
	p->def = p->par.def;
	return 0;
}

/* Buffers, logits of timeline_extend() and of the last token, candidates for sampling; of a device: buffers, and what it keeps. */
static uint64_t scratch_bytes(const struct hparams *hp, int32_t batch, const struct room *room)
{
	uint64_t buffers = forward_bytes(hp, batch, HEAD_ROWS);

	if (room->total)
		return buffers + room->kept;
	return buffers + (uint64_t)hp->n_vocab * (HEAD_ROWS * 4 + 4 + sizeof(struct candidate));
}

static uint64_t policy_bytes(struct policy *p, int32_t ctx)
{
	p->ctx = ctx;
	return p->def->bytes(p);
}

/* The largest context whose cache takes no more than that; 0 = none. */
static int32_t ctx_that_fits(struct policy *p, uint64_t bytes, int32_t most)
{
	int32_t lo = 0, hi = most;

	while (lo < hi) {
		int32_t mid = lo + (hi - lo) / 2 + 1;

		if (policy_bytes(p, mid) <= bytes)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

int timeline_need(const struct engine *e, const struct timeline_options *o, struct timeline_need *need,
                  struct err *err)
{
	const struct hparams *hp = &e->model.hp;
	struct room room;
	struct policy p;
	int32_t most;

	memset(need, 0, sizeof *need);
	if (!e->be)
		return err_set(err, ERR_USAGE, "the model was opened without its weights");
	if (o->ctx < 0 || o->batch < 0)
		return err_set(err, ERR_USAGE, "a context of %d tokens in chunks of %d makes no sense", o->ctx, o->batch);
	most = INT32_MAX / hp->n_kv_head;   /* rows of a plane are counted in 31 bits */
	if (most > CTX_MAX)
		most = CTX_MAX;
	need->ctx = o->ctx ? o->ctx : hp->ctx_train < CTX_DEFAULT_MAX ? hp->ctx_train : CTX_DEFAULT_MAX;
	if (policy_describe(&p, e, o, need->ctx, err))
		return -1;
	room = room_of(e->be);
	need->scratch_bytes = scratch_bytes(hp, p.batch, &room);
	need->free_bytes = room.available;
	need->device_bytes = room.total;
	need->ctx_fits = need->free_bytes <= need->scratch_bytes ? 0 :
	                 ctx_that_fits(&p, need->free_bytes - need->scratch_bytes, most);
	/* By default the trained length, but no more than half of what is free and what suits a conversation. */
	if (!o->ctx && need->ctx > need->ctx_fits / 2 && need->ctx_fits >= 512)
		need->ctx = need->ctx_fits / 2 / 256 * 256;
	need->kv_bytes = policy_bytes(&p, need->ctx);
	return 0;
}

static int fit_check(const struct timeline_need *n, struct err *err)
{
	struct room room = { .available = n->free_bytes, .total = n->device_bytes };
	double need = (double)(n->kv_bytes + n->scratch_bytes) / (1 << 20);
	struct str have = {0};

	if (n->free_bytes >= n->scratch_bytes && n->free_bytes - n->scratch_bytes >= n->kv_bytes)
		return 0;
	room_text(&room, &have);
	if (n->ctx_fits >= 16)
		err_set(err, ERR_FIT, "a context of %d tokens needs %.0f MiB, %s; -c %d fits", n->ctx, need, have.p, n->ctx_fits);
	else
		err_set(err, ERR_FIT, "a context of %d tokens needs %.0f MiB, %s; no -c fits, %s", n->ctx, need, have.p,
		        n->device_bytes ? "use --device cpu" : "free some memory");
	str_free(&have);
	return -1;
}

int timeline_open(struct timeline **out, struct engine *e, const struct timeline_options *o, struct err *err)
{
	struct timeline_need need;
	struct timeline *t;
	struct policy p;
	int32_t n_vocab = e->model.hp.n_vocab;
	int failed;

	if (timeline_need(e, o, &need, err) || policy_describe(&p, e, o, need.ctx, err) || fit_check(&need, err))
		return -1;
	t = xcalloc(1, sizeof *t);
	t->e = e;
	t->policy = p;
	t->logits_at = t->mixed_from = -1;
	pthread_mutex_lock(&e->lock);
	failed = !(t->logits = try_alloc((size_t)n_vocab, sizeof *t->logits, "logits", err)) ||
	         !(t->scratch = try_alloc((size_t)n_vocab, sizeof *t->scratch, "sampling", err)) ||
	         policy_open(&t->policy, err) ||
	         !(t->nll = try_alloc((size_t)t->policy.chunk, sizeof *t->nll, "surprise", err)) ||
	         forward_init(&t->forward, &e->model, &t->policy, t->policy.chunk, HEAD_ROWS, err);
	e->be->ops->sync(e->be);   /* what failed is in err; other timelines go on */
	pthread_mutex_unlock(&e->lock);
	if (failed) {
		timeline_close(t);
		return -1;
	}
	t->stats = (struct timeline_stats){
		.ctx = t->policy.limit == ENDLESS ? t->policy.ctx : t->policy.limit, .endless = t->policy.limit == ENDLESS,
		.batch = t->policy.chunk, .kv_bytes = need.kv_bytes, .scratch_bytes = need.scratch_bytes,
		.kv_bytes_per_token = kv_token_bytes(&e->model.hp, t->policy.type),
	};
	policy_text(&t->policy.par, t->stats.kv, sizeof t->stats.kv);
	snprintf(t->stats.kv_type, sizeof t->stats.kv_type, "%s", o->kv_type ? o->kv_type : "f16");
	*out = t;
	return 0;
}

void timeline_close(struct timeline *t)
{
	if (!t)
		return;
	timeline_unwatch_attention(t);
	pthread_mutex_lock(&t->e->lock);
	forward_release(&t->forward);
	policy_close(&t->policy);
	pthread_mutex_unlock(&t->e->lock);
	tokens_free(&t->tokens);
	str_free(&t->marks);
	str_free(&t->mixed);
	str_free(&t->begun);
	free(t->nll);
	free(t->logits);
	free(t->scratch);
	free(t);
}

/* ---- computing ---- */

/* Between these two the backend works for this timeline alone. */
static void backend_take(struct timeline *t)
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

static int backend_give(struct timeline *t, struct err *err)
{
	int failed = backend_result(t, err);

	pthread_mutex_unlock(&t->e->lock);
	return failed;
}

/* How surprised the model was by each token of a call: logits of its predecessor, HEAD_ROWS rows at a time. */
static int chunk_nll(struct timeline *t, const int32_t *id, int32_t n, struct err *err)
{
	size_t n_vocab = (size_t)t->e->model.hp.n_vocab;
	float *rows = NULL;

	t->nll[0] = t->logits_at == t->n_past ? (float)-engine_logprob(t->logits, (int32_t)n_vocab, id[0]) : 0;
	if (n > 1 && !(rows = try_alloc(HEAD_ROWS * n_vocab, sizeof *rows, "logits of several tokens", err)))
		return -1;
	for (int32_t row = 0; row < n - 1; row += HEAD_ROWS) {
		int32_t k = n - 1 - row < HEAD_ROWS ? n - 1 - row : HEAD_ROWS;

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
	t->n_past = n < t->n_past ? n : t->n_past;
	if (t->tokens.n > (size_t)t->n_past)
		t->tokens.n = (size_t)t->n_past;
	if (t->marks.n > (size_t)t->n_past)
		t->marks.n = (size_t)t->n_past;
	if (t->logits_at > t->n_past)
		t->logits_at = -1;
	if (t->begun_n > t->n_past)
		t->begun_n = t->n_past;
	if (t->mixed_from < t->n_past)
		return;
	t->mixed_from = -1;
	str_clear(&t->mixed);
}

/* The tokens of a call that succeeded, before n_past moves: what their rows, and those of tokens to come, depend on. */
static void mark(struct timeline *t, const struct step *st)
{
	const struct policy *p = &t->policy;

	for (int32_t i = 0; i < st->n; i++) {
		char m = p->marked && st->decode ? MARK_GENERATED : MARK_READ;

		if (p->marked && !st->decode && i == st->n - 1 && (st->last || p->calls_matter))
			m = MARK_READ_END;
		if (p->marked && st->pos + i == p->region)
			m |= MARK_STREAM;
		str_add(&t->marks, &m, 1);
	}
}

enum want { WANT_NONE, WANT_LAST, WANT_ALL };

/* Run id[0..n) as one call and compute the logits after its last token, unless none are wanted; WANT_ALL lets run_logits()
 * ask for the others, too.  On failure nothing of the timeline moves; on success n_past does. */
static int run_chunk(struct timeline *t, const int32_t *id, int32_t n, int decode, int last, enum want want,
                     struct err *err)
{
	struct step st = { .pos = t->n_past, .n = n, .decode = decode, .last = last };
	struct policy *p = &t->policy;
	struct backend *be = t->e->be;
	int failed = 0;

	t->loaded = 0;
	t->in_policy = t->in_attention = 0;
	t->forward.clock = t->measure && decode ? &t->in_policy : NULL;
	kv_measure(t->forward.clock ? &t->in_attention : NULL);
	if (p->wants_nll)
		want = WANT_ALL;          /* the next call's first token wants its own */
	backend_take(t);
	if (decode || last)
		timeline_look(t, n);
	forward_run(&t->forward, id, &st, want == WANT_ALL ? n : want == WANT_LAST);
	if (p->wants_nll && !atomic_load(&t->cancel)) {
		failed = chunk_nll(t, id, n, err);
		st.nll = t->nll;
	}
	if (want) {
		t->logits_at = -1;   /* a cancel may leave half of the new ones */
		forward_logits(&t->forward, n - 1, 1, t->logits);
	}
	if (!failed && !(failed = backend_result(t, err)) && p->def->end) {
		double start = now_seconds();

		p->def->end(p, &st);
		t->in_policy += now_seconds() - start;
		if (be->ops->sync(be)) {
			failed = err_set(err, ERR_FAIL, "computation failed: %s", be->err);
			timeline_forget(t, p->def->rewind(p, 0));   /* rows may have moved half way */
		}
	}
	be->cancel = NULL;
	pthread_mutex_unlock(&t->e->lock);
	kv_measure(NULL);
	if (t->watched)
		kv_tap_set(NULL);
	if (failed)
		return -1;
	if (t->forward.clock)
		t->stats.policy_seconds += t->in_policy - t->in_attention;
	mark(t, &st);
	t->n_past += n;
	if (want)
		t->logits_at = t->n_past;
	return 0;
}

/* Logits of n rows of the chunk that ran last. */
static int run_logits(struct timeline *t, int32_t row, int32_t n, float *out, struct err *err)
{
	backend_take(t);
	forward_logits(&t->forward, row, n, out);
	return backend_give(t, err);
}

/* Tokens of the next call when so many are left to read: what a policy looks at at the end of a read lies in one call. */
static int32_t chunk_of(const struct timeline *t, int32_t left)
{
	const struct policy *p = &t->policy;

	if (left <= p->chunk)
		return left;
	return left < p->chunk + p->tail && p->tail <= p->chunk / 2 ? left - p->tail : p->chunk;
}

static int check_ids(const struct timeline *t, const int32_t *id, size_t n, size_t at, struct err *err)
{
	if (at + n > (size_t)t->policy.limit)
		return err_set(err, ERR_FIT, "%zu tokens do not fit the context of %d; start with -c %zu or more", at + n,
		               t->policy.limit, at + n);
	for (size_t i = 0; i < n; i++)
		if (id[i] < 0 || id[i] >= t->e->model.hp.n_vocab)
			return err_set(err, ERR_USAGE, "token %zu is %d, the vocabulary has 0 to %d", at + i, id[i],
			               t->e->model.hp.n_vocab - 1);
	return 0;
}

/* Forget everything after the first n tokens; after those that the policy cannot go back to, more. */
static void truncate_to(struct timeline *t, int32_t n)
{
	int32_t keep = n < t->n_past ? n : t->n_past;

	if (t->n_past > n || t->adopted) {
		pthread_mutex_lock(&t->e->lock);      /* policies may ask the backend for what they need to go back */
		keep = t->policy.def->rewind(&t->policy, keep);
		pthread_mutex_unlock(&t->e->lock);
	}
	timeline_forget(t, keep);
	t->adopted = 0;
}

int32_t timeline_sync(struct timeline *t, const int32_t *want, size_t n, timeline_progress_fn *progress, void *ud,
                      struct err *err)
{
	double start = now_seconds();
	int32_t same = 0;

	if (check_ids(t, want, n, 0, err))
		return -1;
	while (same < t->n_past && (size_t)same < n && t->tokens.id[same] == want[same])
		same++;
	/* The logits after the last token are needed: keep them if they are there, else compute that token again. */
	if (n && (size_t)same == n && t->logits_at != (int32_t)n)
		same--;
	/* A policy that goes back looks at the end of what is read again: some of it must be left to read. */
	if (t->policy.marked && (t->n_past > same || t->adopted) && n && (size_t)same == n)
		same--;
	truncate_to(t, same);
	same = t->n_past;
	if (t->logits_at != same)
		t->logits_at = -1;
	tokens_append(&t->tokens, want + same, n - (size_t)same);
	t->stats.reused_tokens = same;
	t->stats.prefill_tokens = (int32_t)n - same;
	t->stats.decode_tokens = 0;
	t->stats.decode_seconds = 0;
	t->stats.policy_seconds = 0;
	while ((size_t)t->n_past < n) {
		int32_t left = (int32_t)n - t->n_past, m = chunk_of(t, left);

		if (progress)
			progress(t->n_past - same, (int32_t)n - same, ud);
		if (run_chunk(t, t->tokens.id + t->n_past, m, 0, m == left, m == left ? WANT_LAST : WANT_NONE, err)) {
			truncate_to(t, t->n_past);
			t->stats.prefill_tokens = t->n_past - same;
			t->stats.prefill_seconds = now_seconds() - start;
			return -1;
		}
	}
	if (n > (size_t)same && progress)
		progress((int32_t)n - same, (int32_t)n - same, ud);
	t->stats.prefill_seconds = now_seconds() - start;
	return same;
}

const float *timeline_logits(const struct timeline *t)
{
	return t->logits_at == t->n_past && (size_t)t->n_past == t->tokens.n ? t->logits : NULL;
}

/* Open t->policy, and what depends on its chunk; the one before is in other hands. */
static int switch_open(struct timeline *t, struct forward *forward, float **nll, struct err *err)
{
	struct policy *p = &t->policy;
	uint64_t need = p->def->bytes(p) + forward_bytes(p->hp, p->batch, HEAD_ROWS), have = memory_free();
	int failed;

	if (need > have)
		return err_set(err, ERR_FIT, "cache policy '%s' needs %.0f MiB beside the one at work, %.0f MiB are free",
		               p->def->name, (double)need / (1 << 20), (double)have / (1 << 20));
	failed = policy_open(p, err) || !(*nll = try_alloc((size_t)p->chunk, sizeof **nll, "surprise", err)) ||
	         forward_init(forward, &t->e->model, p, p->chunk, HEAD_ROWS, err);
	t->e->be->ops->sync(t->e->be);
	if (failed) {
		free(*nll);
		policy_close(p);
	}
	return failed ? -1 : 0;
}

int timeline_switch_kv(struct timeline *t, const char *kv, struct err *err)
{
	struct policy *p = &t->policy, old = *p, now;
	struct forward forward = { .m = NULL };
	struct kv_params par;
	float *nll = NULL;
	int32_t kept = 0, generated = 0;

	if (policy_parse(&par, kv, err))
		return -1;
	timeline_unwatch_attention(t);
	pthread_mutex_lock(&t->e->lock);
	/* In its place from the start: parts of a policy point into it. */
	*p = (struct policy){ .par = par, .def = par.def, .hp = old.hp, .be = old.be, .type = old.type, .batch = old.batch,
	                      .ctx = old.ctx, .rows_fn = old.rows_fn, .rows_ud = old.rows_ud };
	if (switch_open(t, &forward, &nll, err)) {
		*p = old;
		pthread_mutex_unlock(&t->e->lock);
		return -1;
	}
	if (p->def->adopt && old.def->planes && t->n_past > 0) {
		p->def->adopt(p, old.def->planes(&old), t->n_past);
		kept = t->n_past;
	}
	if (t->e->be->ops->sync(t->e->be))
		kept = 0;   /* copies of keys that failed: all is read again */
	while (generated < kept && !(t->marks.p[generated] & MARK_GENERATED))
		generated++;
	if (generated < kept) {
		str_addf(&t->mixed, "%s", t->mixed.n ? ", " : "");
		policy_identity(&old.par, &t->mixed);
		t->mixed_from = generated;
	}
	now = *p;
	*p = old;
	policy_close(p);
	*p = now;
	forward_release(&t->forward);
	t->forward = forward;
	free(t->nll);
	t->nll = nll;
	pthread_mutex_unlock(&t->e->lock);
	timeline_forget(t, kept);
	t->adopted = 1;
	t->logits_at = -1;
	t->stats.ctx = p->limit == ENDLESS ? p->ctx : p->limit;
	t->stats.endless = p->limit == ENDLESS;
	t->stats.batch = p->chunk;
	t->stats.kv_bytes = p->def->bytes(p);
	policy_text(&p->par, t->stats.kv, sizeof t->stats.kv);
	return 0;
}

/* Give the token sampled last its row, so that n_past == tokens.n and the logits are those after it. */
static int settle_pending(struct timeline *t, struct err *err)
{
	if ((size_t)t->n_past == t->tokens.n)
		return 0;
	return run_chunk(t, t->tokens.id + t->n_past, 1, 1, 0, WANT_LAST, err);
}

int timeline_extend(struct timeline *t, const int32_t *id, size_t n, int stepwise, timeline_logits_fn *fn, void *ud,
                    struct err *err)
{
	const struct hparams *hp = &t->e->model.hp;
	float *rows = NULL;   /* of several tokens at once */
	int32_t end;

	if (check_ids(t, id, n, t->tokens.n, err))
		return -1;
	if (t->adopted && t->tokens.n)
		return err_set(err, ERR_USAGE, "the cache policy was changed; sync the sequence first");
	if (settle_pending(t, err))
		return -1;
	if (fn && !stepwise && !(rows = try_alloc((size_t)HEAD_ROWS * (size_t)hp->n_vocab, sizeof *rows, "logits of several tokens", err)))
		return -1;
	tokens_append(&t->tokens, id, n);
	end = (int32_t)t->tokens.n;
	while (t->n_past < end) {
		int32_t at = t->n_past, left = end - at, m = stepwise ? 1 : chunk_of(t, left);

		enum want want = fn && !stepwise ? WANT_ALL : m == left || stepwise ? WANT_LAST : WANT_NONE;

		if (run_chunk(t, t->tokens.id + at, m, stepwise, m == left, want, err))
			goto failed;
		if (stepwise && fn) {
			fn(at, t->logits, ud);
			continue;
		}
		for (int32_t row = 0; fn && row < m; row += HEAD_ROWS) {
			int32_t k = m - row < HEAD_ROWS ? m - row : HEAD_ROWS;

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

int timeline_step(struct timeline *t, struct sampling *s, struct step_out *out, struct err *err)
{
	double start = now_seconds();

	if (!t->tokens.n)
		return err_set(err, ERR_USAGE, "there is nothing to continue: the sequence is empty");
	if (t->tokens.n >= (size_t)t->policy.limit)
		return err_set(err, ERR_FIT, "the context of %d tokens is full; start with a larger -c", t->policy.limit);
	if (settle_pending(t, err))
		return -1;
	if (t->logits_at != t->n_past)
		return err_set(err, ERR_USAGE, "the sequence was stopped early; sync it first");
	if (atomic_load(&t->cancel))
		return err_set(err, ERR_CANCELLED, "stopped");
	out->id = sample(s, t->logits, t->e->model.hp.n_vocab, t->tokens.id, t->tokens.n, t->scratch);
	if (out->id < 0)
		return err_set(err, ERR_FAIL, "the model produced invalid numbers (NaN or infinity) at token %zu; "
		               "check the file with --check-tensors", t->tokens.n);
	t->stats.decode_seconds += now_seconds() - start;
	t->stats.decode_tokens++;
	if (vocab_is_end(t->e->vocab, out->id))
		return 0;
	tokens_add(&t->tokens, out->id);
	return 1;
}

int timeline_pin(struct timeline *t, int32_t n, struct err *err)
{
	struct policy *p = &t->policy;
	int32_t kept;

	if (n < 0)
		return err_set(err, ERR_USAGE, "%d tokens cannot be pinned", n);
	if (!p->def->pin)
		return 0;
	pthread_mutex_lock(&t->e->lock);
	kept = p->def->pin(p, n, err);
	pthread_mutex_unlock(&t->e->lock);
	if (kept < 0)
		return -1;
	timeline_forget(t, kept);
	return 0;
}

void timeline_watch_rows(struct timeline *t, timeline_rows_fn *fn, void *ud)
{
	t->policy.rows_fn = fn;
	t->policy.rows_ud = ud;
}

uint64_t timeline_read_bytes(const struct timeline *t, int32_t pos, int decode)
{
	const struct policy *p = &t->policy;

	return p->def->read_bytes ? p->def->read_bytes(p, pos, decode) : kv_token_bytes(p->hp, p->type) * (uint64_t)pos;
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

int timeline_recovered(const struct timeline *t, int i, struct recovered *out)
{
	return watch_recovered(&t->policy, i, out);
}

const int32_t *timeline_tokens(const struct timeline *t, size_t *n)
{
	*n = t->tokens.n;
	return t->tokens.id;
}

void timeline_policy(const struct timeline *t, struct str *out)
{
	policy_whole(&t->policy.par, out);
}

void timeline_stats(const struct timeline *t, struct timeline_stats *out)
{
	const struct policy *p = &t->policy;

	*out = t->stats;
	out->n_tokens = (int32_t)t->tokens.n;
	out->rows = (struct timeline_rows){ .seen = t->n_past, .oldest = -1 };
	if (p->def->rows)
		p->def->rows(p, &out->rows);
	if (out->endless)
		out->ctx = out->rows.pinned + out->rows.n_ring * out->rows.ring_rows;
}
