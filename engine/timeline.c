/* engine/timeline.c - one token sequence and its KV rows: sync, step, extend, cancel.
 *
 * Invariant between calls: tokens[0 .. n_past) have their rows in the cache; at most one more token, just
 * sampled, waits for its row (computed when the next one is wanted, so that a token reaches the screen
 * without waiting for its successor).  n_past moves only after a whole chunk succeeded: an error or a cancel
 * leaves the sequence as it was before that chunk. */
#include "engine/engine_private.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph.h"
#include "engine/memory.h"
#include "engine/sampler.h"

enum { BATCH_DEFAULT = 512, CTX_DEFAULT_MAX = 32768, HEAD_ROWS = 32 };

struct timeline {
	struct engine *e;
	struct kv kv;
	struct graph graph;
	struct tokens tokens;
	int32_t n_past, ctx, batch;
	float *logits;             /* [n_vocab] after token n_past - 1, when logits_at == n_past */
	int32_t logits_at;
	struct candidate *scratch; /* [n_vocab] */
	atomic_int cancel;
	struct timeline_stats stats;
};

/* ---- memory ---- */

static int kv_type_parse(const char *name, enum dtype *out, struct err *err)
{
	if (!name || !strcmp(name, "f16"))
		*out = DT_F16;
	else if (!strcmp(name, "f32"))
		*out = DT_F32;
	else
		return err_set(err, ERR_USAGE, "unknown KV type '%s' (f16, f32)", name);
	return 0;
}

/* Buffers, logits of timeline_extend() and of the last token, candidates for sampling. */
static uint64_t scratch_bytes(const struct hparams *hp, int32_t batch)
{
	return graph_bytes(hp, batch, HEAD_ROWS) +
	       (uint64_t)hp->n_vocab * (HEAD_ROWS * 4 + 4 + sizeof(struct candidate));
}

static int32_t batch_size(const struct timeline_options *o, int32_t ctx)
{
	int32_t batch = o->batch ? o->batch : BATCH_DEFAULT;
	return batch < ctx ? batch : ctx;
}

int timeline_need(const struct engine *e, const struct timeline_options *o, struct timeline_need *need,
                  struct err *err)
{
	const struct hparams *hp = &e->model.hp;
	uint64_t per_token, fits;
	int32_t most;
	enum dtype type = DT_F16;

	memset(need, 0, sizeof *need);
	if (!e->be)
		return err_set(err, ERR_USAGE, "the model was opened without its weights");
	if (kv_type_parse(o->kv_type, &type, err))
		return -1;
	if (o->ctx < 0 || o->batch < 0)
		return err_set(err, ERR_USAGE, "a context of %d tokens in chunks of %d makes no sense", o->ctx, o->batch);
	most = INT32_MAX / hp->n_kv_head;   /* rows of a plane are counted in 31 bits */
	if (most > CTX_MAX)
		most = CTX_MAX;
	need->ctx = o->ctx ? o->ctx : hp->ctx_train < CTX_DEFAULT_MAX ? hp->ctx_train : CTX_DEFAULT_MAX;
	per_token = kv_token_bytes(hp, type);
	need->scratch_bytes = scratch_bytes(hp, batch_size(o, need->ctx));
	need->free_bytes = memory_free();
	fits = need->free_bytes > need->scratch_bytes ? (need->free_bytes - need->scratch_bytes) / per_token : 0;
	need->ctx_fits = fits > (uint64_t)most ? most : (int32_t)fits;
	/* By default the trained length, but no more than half of what is free and what suits a conversation. */
	if (!o->ctx && need->ctx > need->ctx_fits / 2 && need->ctx_fits >= 512)
		need->ctx = need->ctx_fits / 2 / 256 * 256;
	if (size_mul(per_token, (uint64_t)need->ctx, &need->kv_bytes))
		need->kv_bytes = UINT64_MAX;
	return 0;
}

static int fit_check(const struct timeline_need *n, struct err *err)
{
	const double mib = 1 << 20;

	if (n->free_bytes >= n->scratch_bytes && n->free_bytes - n->scratch_bytes >= n->kv_bytes)
		return 0;
	if (n->ctx_fits >= 16)
		return err_set(err, ERR_FIT, "a context of %d tokens needs %.0f MiB, %.0f MiB are free; -c %d fits", n->ctx,
		               (double)(n->kv_bytes + n->scratch_bytes) / mib, (double)n->free_bytes / mib, n->ctx_fits);
	return err_set(err, ERR_FIT, "a context of %d tokens needs %.0f MiB, %.0f MiB are free; no -c fits, free some memory",
	               n->ctx, (double)(n->kv_bytes + n->scratch_bytes) / mib, (double)n->free_bytes / mib);
}

int timeline_open(struct timeline **out, struct engine *e, const struct timeline_options *o, struct err *err)
{
	struct timeline_need need;
	struct timeline *t;
	enum dtype type = DT_F16;
	int32_t n_vocab = e->model.hp.n_vocab;
	int failed;

	if (timeline_need(e, o, &need, err) || kv_type_parse(o->kv_type, &type, err) || fit_check(&need, err))
		return -1;
	t = xcalloc(1, sizeof *t);
	t->e = e;
	t->ctx = need.ctx;
	t->batch = batch_size(o, t->ctx);
	t->logits_at = -1;
	pthread_mutex_lock(&e->lock);
	failed = !(t->logits = try_alloc((size_t)n_vocab, sizeof *t->logits, "logits", err)) ||
	         !(t->scratch = try_alloc((size_t)n_vocab, sizeof *t->scratch, "sampling", err)) ||
	         kv_init(&t->kv, e->be, &e->model.hp, type, t->ctx, err) ||
	         graph_init(&t->graph, &e->model, &t->kv, t->batch, HEAD_ROWS, err);
	e->be->ops->sync(e->be);   /* what failed is in err; other timelines go on */
	pthread_mutex_unlock(&e->lock);
	if (failed) {
		timeline_close(t);
		return -1;
	}
	t->stats = (struct timeline_stats){
		.ctx = t->ctx, .batch = t->batch, .kv_bytes = need.kv_bytes, .scratch_bytes = need.scratch_bytes,
		.kv_bytes_per_token = kv_token_bytes(&e->model.hp, type),
	};
	snprintf(t->stats.kv, sizeof t->stats.kv, "full");
	snprintf(t->stats.kv_type, sizeof t->stats.kv_type, "%s", type == DT_F32 ? "f32" : "f16");
	*out = t;
	return 0;
}

void timeline_close(struct timeline *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->e->lock);
	graph_release(&t->graph);
	kv_release(&t->kv);
	pthread_mutex_unlock(&t->e->lock);
	tokens_free(&t->tokens);
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

static int backend_give(struct timeline *t, struct err *err)
{
	struct backend *be = t->e->be;
	int failed = be->ops->sync(be);

	be->cancel = NULL;
	if (atomic_load(&t->cancel))
		failed = err_set(err, ERR_CANCELLED, "stopped");
	else if (failed)
		err_set(err, ERR_FAIL, "computation failed: %s", be->err);
	pthread_mutex_unlock(&t->e->lock);
	return failed;
}

/* Run id[0..n) as one chunk.  Nothing of the timeline moves; the caller advances n_past. */
static int run_chunk(struct timeline *t, const int32_t *id, int32_t n, struct err *err)
{
	backend_take(t);
	graph_forward(&t->graph, id, n, t->n_past);
	return backend_give(t, err);
}

/* The same, and the logits after its last token. */
static int run_last_chunk(struct timeline *t, const int32_t *id, int32_t n, struct err *err)
{
	t->logits_at = -1;   /* a cancel may leave half of the new ones */
	backend_take(t);
	graph_forward(&t->graph, id, n, t->n_past);
	graph_logits(&t->graph, n - 1, 1, t->logits);
	if (backend_give(t, err))
		return -1;
	t->logits_at = t->n_past + n;
	return 0;
}

/* Logits of n rows of the chunk that ran last. */
static int run_logits(struct timeline *t, int32_t row, int32_t n, float *out, struct err *err)
{
	backend_take(t);
	graph_logits(&t->graph, row, n, out);
	return backend_give(t, err);
}

static int check_ids(const struct timeline *t, const int32_t *id, size_t n, size_t at, struct err *err)
{
	if (at + n > (size_t)t->ctx)
		return err_set(err, ERR_FIT, "%zu tokens do not fit the context of %d; start with -c %zu or more", at + n, t->ctx,
		               at + n);
	for (size_t i = 0; i < n; i++)
		if (id[i] < 0 || id[i] >= t->e->model.hp.n_vocab)
			return err_set(err, ERR_USAGE, "token %zu is %d, the vocabulary has 0 to %d", at + i, id[i],
			               t->e->model.hp.n_vocab - 1);
	return 0;
}

/* Forget everything after the first n tokens. */
static void truncate_to(struct timeline *t, int32_t n)
{
	if (t->n_past > n)
		t->n_past = n;
	if (t->tokens.n > (size_t)n)
		t->tokens.n = (size_t)n;
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
	truncate_to(t, same);
	if (t->logits_at != same || (size_t)same != n)
		t->logits_at = -1;
	tokens_append(&t->tokens, want + same, n - (size_t)same);
	t->stats.reused_tokens = same;
	t->stats.prefill_tokens = (int32_t)n - same;
	t->stats.decode_tokens = 0;
	t->stats.decode_seconds = 0;
	while ((size_t)t->n_past < n) {
		int32_t m = (int32_t)n - t->n_past < t->batch ? (int32_t)n - t->n_past : t->batch;
		const int32_t *id = t->tokens.id + t->n_past;
		if (progress)
			progress(t->n_past - same, (int32_t)n - same, ud);
		if (t->n_past + m == (int32_t)n ? run_last_chunk(t, id, m, err) : run_chunk(t, id, m, err)) {
			truncate_to(t, t->n_past);
			t->stats.prefill_tokens = t->n_past - same;
			t->stats.prefill_seconds = now_seconds() - start;
			return -1;
		}
		t->n_past += m;
	}
	if (n > (size_t)same && progress)
		progress((int32_t)n - same, (int32_t)n - same, ud);
	t->stats.prefill_seconds = now_seconds() - start;
	return same;
}

/* Give the token sampled last its row, so that n_past == tokens.n and the logits are those after it. */
static int settle_pending(struct timeline *t, struct err *err)
{
	if ((size_t)t->n_past == t->tokens.n)
		return 0;
	if (run_last_chunk(t, t->tokens.id + t->n_past, 1, err))
		return -1;
	t->n_past++;
	return 0;
}

int timeline_extend(struct timeline *t, const int32_t *id, size_t n, timeline_logits_fn *fn, void *ud,
                    struct err *err)
{
	const struct hparams *hp = &t->e->model.hp;
	float *rows;
	int32_t end;

	if (check_ids(t, id, n, t->tokens.n, err) || settle_pending(t, err))
		return -1;
	if (!(rows = try_alloc((size_t)HEAD_ROWS * (size_t)hp->n_vocab, sizeof *rows, "logits of several tokens", err)))
		return -1;
	tokens_append(&t->tokens, id, n);
	end = (int32_t)t->tokens.n;
	while (t->n_past < end) {
		int32_t m = end - t->n_past < t->batch ? end - t->n_past : t->batch;
		if (run_chunk(t, t->tokens.id + t->n_past, m, err))
			goto failed;
		for (int32_t row = 0; row < m; row += HEAD_ROWS) {
			int32_t k = m - row < HEAD_ROWS ? m - row : HEAD_ROWS;
			if (run_logits(t, row, k, rows, err))
				goto failed;
			for (int32_t i = 0; fn && i < k; i++)
				fn(t->n_past + row + i, rows + (size_t)i * (size_t)hp->n_vocab, ud);
			if (row + k == m)
				memcpy(t->logits, rows + (size_t)(k - 1) * (size_t)hp->n_vocab, (size_t)hp->n_vocab * sizeof *rows);
		}
		t->n_past += m;
		t->logits_at = t->n_past;
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
	if (t->tokens.n >= (size_t)t->ctx)
		return err_set(err, ERR_FIT, "the context of %d tokens is full; start with a larger -c", t->ctx);
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

void timeline_cancel(struct timeline *t)
{
	atomic_store(&t->cancel, 1);
}

void timeline_resume(struct timeline *t)
{
	atomic_store(&t->cancel, 0);
}

const int32_t *timeline_tokens(const struct timeline *t, size_t *n)
{
	*n = t->tokens.n;
	return t->tokens.id;
}

void timeline_stats(const struct timeline *t, struct timeline_stats *out)
{
	*out = t->stats;
	out->n_tokens = (int32_t)t->tokens.n;
}
