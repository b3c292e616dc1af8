/* engine/timeline/timeline_open.c - opens and closes a timeline, computes how much memory it needs, changes its cache
 * policy, and keeps its statistics. */
#include "engine/timeline/timeline.h"
#include "engine/policies/policy.h"
#include "engine/observe/observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/kv_host.h"
#include "engine/base/memory_budget.h"
#include "engine/timeline/sampler.h"

/* BATCH_DEFAULT is the default number of tokens of a prefill step. CTX_DEFAULT_MAX is the maximum length of the default
 * context in tokens. The comment of head_rows() explains the constants HEAD_TILE, HEAD_ROWS_MOST and HEAD_FLOATS. */
enum { BATCH_DEFAULT = 512, CTX_DEFAULT_MAX = 32768, HEAD_TILE = 8, HEAD_ROWS_MOST = 32, HEAD_FLOATS = 1 << 20 };

/* ---- memory ---- */

/* Check that the size of a head is a multiple of the block size of both KV types, in every layer, and that the backend
 * has these types. */
static int types_check(const struct cache *c, struct err *err)
{
	const enum dtype types[] = { c->types.k, c->types.v };

	for (int32_t l = 0; l < c->hp->n_layer; l++)
		for (int i = 0; i < 2; i++) {
			int32_t dim = model_layer_spec(c->hp, l)->attn.head_dim, block = dtype_info(types[i])->block;

			if (dim % block)
				return err_set(err, ERR_USAGE,
				               "KV type '%s' needs heads of a multiple of %d values, this model's have "
				               "%d; use f16",
				               kv_type_name(types[i]), block, dim);
		}
	if ((c->types.k != c->types.v || c->types.k == DT_Q4_0) && c->be->ops->lacks & LACKS_KV_APART)
		return err_set(
			err, ERR_USAGE,
			"a GPU keeps keys and values in one type of f16, f32, bf16 and q8_0; use one of these, or "
			"--device cpu");
	return 0;
}

/* If prompt tokens must read only a part of the cache (read_share), check that policy and backend support this. */
static int share_check(const struct cache *c, const struct policy *policy, struct err *err)
{
	if (c->read_share <= 0)
		return 0;
	if (c->be->ops->lacks & LACKS_BLOCKS)
		return err_set(
			err, ERR_USAGE,
			"--read-share below 1 works on the CPU alone: a GPU reads prompts whole; use --device cpu");
	if (!policy->def->retention->keeps_all && !policy->def->compose)
		return err_set(err, ERR_USAGE,
		               "--read-share below 1 needs a cache policy that keeps everything, or auto, not '%s'",
		               policy->def->name);
	return 0;
}

/* Set the cache's settings without opening it. */
static int cache_describe(struct timeline *tl, const struct engine *e, const struct timeline_options *o, int32_t ctx,
                          struct err *err)
{
	struct cache *c = &tl->cache;

	*c = (struct cache){ .hp = model_kv(&e->model.hp),
		             .model = e->model.hp.kv ? &e->model.hp : NULL,
		             .be = e->be,
		             .ctx = ctx,
		             .memory = o->kv_memory,
		             .read_share = o->read_share < 1 ? o->read_share : 0 };
	c->batch = o->batch ? o->batch : BATCH_DEFAULT;
	c->batch = MIN(c->batch, ctx);
	return kv_types_parse(&c->types, o->kv_type, err) || types_check(c, err) ||
	                       policy_parse(&c->policy, o->kv, err) || share_check(c, &c->policy, err)
	               ? -1
	               : 0;
}

/* Return how many rows of logits are computed at once. Together these rows have about HEAD_FLOATS values, so that
 * logits need no more memory than activations. The result is a multiple of HEAD_TILE, the number of rows that the
 * matrix product computes at once. The result is at least VERIFY_MOST, the number of tokens of a VERIFY step. */
static int32_t head_rows(const struct hparams *hp)
{
	int32_t rows = HEAD_FLOATS / hp->n_vocab / HEAD_TILE * HEAD_TILE;

	return rows < VERIFY_MOST ? VERIFY_MOST : MIN(rows, HEAD_ROWS_MOST);
}

/* Return the memory that a timeline needs in addition to the cache, in bytes. On the CPU this is memory for
 * activations, logits, and candidates for sampling. On a device it is memory for activations, and memory that the
 * backend reserves there. */
static uint64_t scratch_bytes(const struct hparams *hp, int32_t batch, const struct memory_budget *budget)
{
	uint64_t buffers = forward_bytes(hp, batch, head_rows(hp));

	if (budget->total)
		return buffers + budget->reserved;
	return buffers + (uint64_t)hp->n_vocab * ((uint64_t)head_rows(hp) * 4 + 4 + sizeof(struct candidate));
}

/* Set the context to ctx tokens, and return the size of the cache with this context, in bytes. */
static uint64_t bytes_with(struct timeline *tl, int32_t ctx)
{
	tl->cache.ctx = ctx;
	return cache_size(&tl->cache).memory;
}

static int ctx_fits(struct timeline *tl, uint64_t bytes, int32_t ctx)
{
	return bytes_with(tl, ctx) <= bytes && cache_size(&tl->cache).least <= tl->cache.memory;
}

/* Return the largest context, up to `most` tokens, whose cache takes at most `bytes` bytes and obeys kv_memory. Return
 * 0 if no context fits. */
static int32_t ctx_that_fits(struct timeline *tl, uint64_t bytes, int32_t most)
{
	int32_t lo = 0, hi = most;

	while (lo < hi) {
		int32_t mid = lo + (hi - lo) / 2 + 1;

		if (ctx_fits(tl, bytes, mid))
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

/* Do the work of timeline_need(), with `tl` as scratch memory. The caller has the engine's lock, because the device is
 * asked for its free memory. */
static int need_locked(struct timeline *tl, const struct engine *e, const struct timeline_options *o,
                       struct timeline_need *need, struct err *err)
{
	const struct hparams *hp = &e->model.hp;
	struct memory_budget budget;
	int32_t most = INT32_MAX / most_kv_heads(hp); /* slots * heads must be less than 2^31 */
	uint64_t beside;

	if (most > CTX_MAX)
		most = CTX_MAX;
	need->ctx = o->ctx ? o->ctx : MIN(hp->ctx_train, CTX_DEFAULT_MAX);
	if (cache_describe(tl, e, o, need->ctx, err))
		return -1;
	budget = memory_budget_of(e->be);
	need->scratch_bytes = scratch_bytes(hp, tl->cache.batch, &budget);
	need->free_bytes = budget.available;
	need->device_bytes = budget.total;
	/* Memory that the cache cannot use: buffers, and weights that have not been loaded yet. */
	beside = need->scratch_bytes + (e->plan_only ? e->model.weight_bytes : 0);
	need->ctx_fits = need->free_bytes <= beside ? 0 : ctx_that_fits(tl, need->free_bytes - beside, most);
	/* The default context is the context length in training, at most CTX_DEFAULT_MAX. If at least 512 tokens fit
	 * into memory, the default is also at most half of the context that fits. */
	if (!o->ctx && need->ctx > need->ctx_fits / 2 && need->ctx_fits >= 512)
		need->ctx = need->ctx_fits / 2 / 256 * 256;
	need->kv_bytes = bytes_with(tl, need->ctx);
	need->held =
		tl->cache.policy.def->retention->holds ? tl->cache.policy.def->retention->holds(&tl->cache) : need->ctx;
	need->disk_bytes = cache_size(&tl->cache).disk;
	need->host_bytes = cache_size(&tl->cache).host;
	need->least_bytes = cache_size(&tl->cache).least;
	return 0;
}

int timeline_need(const struct engine *e, const struct timeline_options *o, struct timeline_need *need, struct err *err)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&e->lock;
	struct timeline *tl;
	int failed;

	memset(need, 0, sizeof *need);
	if (!e->be)
		return err_set(err, ERR_USAGE, "the model was opened without its weights");
	if (o->ctx < 0 || o->batch < 0)
		return err_set(err, ERR_USAGE, "a context of %d tokens in chunks of %d makes no sense", o->ctx,
		               o->batch);
	tl = xcalloc(1, sizeof *tl);
	pthread_mutex_lock(lock);
	failed = need_locked(tl, e, o, need, err);
	pthread_mutex_unlock(lock);
	free(tl);
	return failed;
}

/* Check that the limit kv_memory on the cache's memory is not too small. On a GPU the cache may then have to keep
 * entries in host memory. So also check that the policy supports this, and that the host has enough memory. Return 0,
 * or -1 with an error. */
static int limit_check(const struct cache *c, struct err *err)
{
	struct cache_size size = cache_size(c);
	uint64_t least = size.least, have = size.host ? memory_available() : UINT64_MAX;

	if (size.host && !cache_listed(c))
		return err_set(
			err, ERR_USAGE,
			"cache policy '%s' needs all entries in the GPU's memory, and --kv-memory allows fewer; use 'sift' (bits up to 8), "
			"or --device cpu",
			c->policy.def->name);
	if (size.host > have)
		return err_set(
			err, ERR_FIT,
			"the entries of %d tokens need %.0f MiB of the machine's memory, %.0f are free; use a smaller -c",
			c->ctx, (double)size.host / (1 << 20), (double)have / (1 << 20));
	if (least <= c->memory)
		return 0;
	return err_set(
		err, ERR_FIT,
		"a context of %d tokens under cache policy '%s' needs at least %.1f MiB in memory, for what selects entries "
		"and for one layer of them; --kv-memory allows %.1f MiB",
		c->ctx, c->policy.def->name, (double)(least + 52428) / (1 << 20), (double)c->memory / (1 << 20));
}

/* Check that cache and buffers fit into the free memory. */
static int fit_check(const struct timeline_need *n, struct err *err)
{
	struct memory_budget budget = { .available = n->free_bytes, .total = n->device_bytes };
	double need = (double)(n->kv_bytes + n->scratch_bytes) / (1 << 20);
	struct str have = { 0 };

	if (n->free_bytes >= n->scratch_bytes && n->free_bytes - n->scratch_bytes >= n->kv_bytes)
		return 0;
	memory_budget_text(&budget, &have);
	if (n->ctx_fits >= 16)
		err_set(err, ERR_FIT, "a context of %d tokens needs %.0f MiB, %s; -c %d fits", n->ctx, need, have.p,
		        n->ctx_fits);
	else
		err_set(err, ERR_FIT, "a context of %d tokens needs %.0f MiB, %s; no -c fits, %s", n->ctx, need, have.p,
		        n->device_bytes ? "use --device cpu" : "free some memory");
	str_free(&have);
	return -1;
}

/* Set the statistics that depend only on the cache's settings. */
static void stats_of_cache(struct timeline *tl)
{
	struct cache *c = &tl->cache;

	tl->stats.endless = c->limit == ENDLESS;
	tl->stats.ctx = tl->stats.endless ? c->ctx : c->limit;
	tl->stats.batch = c->chunk;
	tl->stats.kv_bytes = bytes_with(tl, c->ctx);
	tl->stats.kv_disk_bytes = cache_size(c).disk;
	tl->stats.kv_host_bytes = cache_size(c).host;
	policy_text(&c->policy, tl->stats.kv, sizeof tl->stats.kv);
}

int timeline_open(struct timeline **out, struct engine *e, const struct timeline_options *o, struct err *err)
{
	int32_t n_vocab = e->model.hp.n_vocab;
	struct timeline_need need;
	struct timeline *tl;
	int failed;

	if (e->plan_only)
		return err_set(err, ERR_USAGE, "the model was opened without its weights");
	if (timeline_need(e, o, &need, err))
		return -1;
	tl = xcalloc(1, sizeof *tl);
	tl->e = e;
	tl->logits_at = tl->unread = tl->mixed_from = tl->read_end = tl->kept_at = -1;
	pthread_mutex_lock(&e->lock);
	failed = cache_describe(tl, e, o, need.ctx, err) || limit_check(&tl->cache, err) || fit_check(&need, err) ||
	         !(tl->logits = try_alloc((size_t)n_vocab, sizeof *tl->logits, "logits", err)) ||
	         !(tl->kept_logits = try_alloc((size_t)n_vocab, sizeof *tl->kept_logits, "logits", err)) ||
	         !(tl->scratch = try_alloc((size_t)n_vocab, sizeof *tl->scratch, "sampling", err)) ||
	         !(tl->largest =
	                   try_alloc(VERIFY_MOST * LARGEST_COLS(LARGEST_MOST), sizeof *tl->largest, "sampling", err)) ||
	         cache_open(&tl->cache, err) ||
	         !(tl->nll = try_alloc((size_t)tl->cache.chunk, sizeof *tl->nll, "surprise", err)) ||
	         forward_init(&tl->forward, &e->model, &tl->cache, tl->cache.chunk, head_rows(&e->model.hp), err);
	/* clear the backend's failure, which err already describes, so that other timelines can continue */
	e->be->ops->sync(e->be);
	pthread_mutex_unlock(&e->lock);
	if (failed) {
		timeline_close(tl);
		return -1;
	}
	tl->stats = (struct timeline_stats){
		.scratch_bytes = need.scratch_bytes,
		.kv_bytes_per_token = kv_token_bytes(tl->cache.hp, tl->cache.types),
	};
	stats_of_cache(tl);
	kv_types_text(tl->cache.types, tl->stats.kv_type);
	*out = tl;
	return 0;
}

void timeline_lab_close(struct timeline *tl)
{
	if (tl->lab)
		tl->lab_close(tl->lab);
	tl->lab = NULL;
}

/* Close all observers. The caller has the engine's lock, and closes the cache afterwards. */
static void observers_close(struct timeline *tl)
{
	observe_panel_close(tl->panel);
	observe_evidence_close(tl->evidence);
	timeline_lab_close(tl);
	tl->panel = NULL;
	tl->evidence = NULL;
}

void timeline_close(struct timeline *tl)
{
	if (!tl)
		return;
	pthread_mutex_lock(&tl->e->lock);
	observers_close(tl);
	forward_release(&tl->forward);
	cache_close(&tl->cache);
	pthread_mutex_unlock(&tl->e->lock);
	tokens_free(&tl->tokens);
	tokens_free(&tl->draft);
	draft_index_free(&tl->drafts);
	str_free(&tl->marks);
	str_free(&tl->mixed);
	str_free(&tl->begun);
	free(tl->nll);
	free(tl->logits);
	free(tl->kept_logits);
	free(tl->draft_logits);
	free(tl->scratch);
	free(tl->largest);
	free(tl);
}

/* ---- changing the cache policy ---- */

/* Open tl->cache, which already has the settings of the new policy. Also allocate *forward and *nll, the buffers whose
 * size depends on the policy. The caller has a copy of the old cache. */
static int switch_open(struct timeline *tl, struct forward *forward, float **nll, struct err *err)
{
	struct cache *c = &tl->cache;
	struct memory_budget budget = memory_budget_of(c->be);
	const struct hparams *hp = &tl->e->model.hp;
	uint64_t need = cache_size(c).memory + forward_bytes(hp, c->batch, head_rows(hp)), have = budget.available;
	struct str text = { 0 };
	int failed;

	if (limit_check(c, err))
		return -1;
	if (need > have) {
		memory_budget_text(&budget, &text);
		err_set(err, ERR_FIT, "cache policy '%s' needs %.0f MiB beside the current one, %s",
		        c->policy.def->name, (double)need / (1 << 20), text.p);
		str_free(&text);
		return -1;
	}
	failed = cache_open(c, err) || !(*nll = try_alloc((size_t)c->chunk, sizeof **nll, "surprise", err)) ||
	         forward_init(forward, &tl->e->model, c, c->chunk, head_rows(hp), err);
	tl->e->be->ops->sync(tl->e->be);
	if (failed) {
		free(*nll);
		cache_close(c);
	}
	return failed ? -1 : 0;
}

int timeline_switch_kv(struct timeline *tl, const char *kv, struct err *err)
{
	struct cache *c = &tl->cache, old, now;
	struct forward forward = { .m = NULL };
	struct policy policy;
	float *nll = NULL;
	int32_t kept = 0, generated = 0;
	int takes;

	if (policy_parse(&policy, kv, err) || share_check(c, &policy, err) || timeline_settle(tl, err))
		return -1;
	old = *c;
	pthread_mutex_lock(&tl->e->lock);
	/* Open the new cache in tl->cache itself, because parts of a cache have pointers to its struct. */
	*c = (struct cache){ .policy = policy,
		             .hp = old.hp,
		             .model = old.model,
		             .be = old.be,
		             .types = old.types,
		             .batch = old.batch,
		             .ctx = old.ctx,
		             .memory = old.memory,
		             .read_share = old.read_share,
		             .evictions_fn = old.evictions_fn,
		             .evictions_ud = old.evictions_ud };
	takes = cache_keeps_all(c) && cache_keeps_all(&old) && tl->n_past > 0 && !kv_check_readable(&old.kv, NULL);
	c->takes_store = takes && old.kv.disk;
	if (switch_open(tl, &forward, &nll, err)) {
		*c = old;
		pthread_mutex_unlock(&tl->e->lock);
		return -1;
	}
	if (takes)
		kept = cache_take_store(c, &old, tl->n_past) ? 0 : tl->n_past;
	if (tl->e->be->ops->sync(tl->e->be))
		kept = 0; /* computing key sketches failed, so all tokens must be prefilled again */
	while (generated < kept && !(tl->marks.p[generated] & MARK_GENERATED))
		generated++;
	if (generated < kept) {
		str_addf(&tl->mixed, "%s", tl->mixed.n ? ", " : "");
		policy_identity(&old.policy, &tl->mixed);
		tl->mixed_from = generated;
	}
	now = *c;
	*c = old;
	observers_close(tl); /* the observers belong to the old cache */
	cache_close(c);
	*c = now;
	forward_release(&tl->forward);
	tl->forward = forward;
	free(tl->nll);
	tl->nll = nll;
	pthread_mutex_unlock(&tl->e->lock);
	timeline_forget(tl, kept);
	tl->adopted = 1;
	tl->logits_at = tl->unread = tl->kept_at = tl->read_end = -1;
	stats_of_cache(tl);
	return 0;
}

/* ---- statistics ---- */

void timeline_on_evictions(struct timeline *tl, timeline_evictions_fn *fn, void *ud)
{
	tl->cache.evictions_fn = fn;
	tl->cache.evictions_ud = ud;
}

uint64_t timeline_read_bytes(const struct timeline *tl, int32_t pos, int decode)
{
	return cache_read_bytes(&tl->cache, pos, decode);
}

void timeline_measure(struct timeline *tl, int on)
{
	tl->measure = on;
}

const int32_t *timeline_tokens(const struct timeline *tl, size_t *n)
{
	*n = tl->tokens.n;
	return tl->tokens.id;
}

void timeline_policy(const struct timeline *tl, struct str *out)
{
	policy_whole(&tl->cache.policy, out);
}

void timeline_stats(const struct timeline *tl, struct timeline_stats *out)
{
	const struct retention_ops *r = tl->cache.policy.def->retention;
	*out = tl->stats;
	out->n_tokens = (int32_t)tl->tokens.n;
	out->kv_used_bytes = cache_used_bytes(&tl->cache);
	out->kv_resident_bytes = cache_resident_bytes(&tl->cache);
	kv_ahead_stats(&tl->cache.kv, &out->kv_fetched, &out->kv_overlap);
	if (tl->cache.kv.host)
		kv_host_stats(&tl->cache.kv, &out->kv_fetched, &out->kv_overlap);
	out->rings = (struct ring_stats){ .seen = tl->n_past, .oldest = -1 };
	if (r->ring_stats)
		r->ring_stats(&tl->cache, &out->rings);
	if (out->endless)
		out->ctx = out->rings.pinned + out->rings.n_ring * out->rings.ring_slots;
}
