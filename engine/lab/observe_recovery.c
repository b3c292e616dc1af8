/* engine/lab/observe_recovery.c - measures which share of full attention falls on the KV entries that selection
 * policies would read ("recovery").
 *
 * The sequence is computed with full attention. For each decoded token, every watched selector also selects entries.
 * The probability that full attention gives to the selected entries is summed, as a mean over query heads and layers.
 * For comparison the same is measured for other sets of the same size (struct recovered): the most probable entries per
 * KV head; the first and the newest entries; two guesses from earlier tokens.
 *
 * Some selectors (h2o) need the attention of tokens that read only the selected entries. For such a selector the tokens
 * attend once more, to its selected entries only, and the result is discarded. */
#include "engine/base/memory_budget.h"
#include "engine/cache/cache.h"
#include "engine/lab/lab.h"
#include "engine/observe/observe.h"
#include "engine/policies/policy.h"
#include "engine/timeline/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* recovered.recent is the share of attention on this many entries at the start of the sequence, plus the newest
 * entries */
enum { REFERENCE_SINKS = 4 };

/* A policy that is watched. */
struct watched {
	struct policy policy;
	struct selector sel;
	/* `sum` has the results of all committed steps, added up. `call` has the results of the current step. */
	struct recovered sum, call;
	struct recovered_ages ages; /* only for policies that use a selection for several tokens */
	struct watched_layer {
		struct recovered_layer sum;
		int32_t age; /* number of tokens since the last selection */
		int whole;   /* 1: in the current step the policy reads all entries in this layer */
		double mass; /* probability that falls on the selected entries in the current step */
	} * layer;           /* [n_layer] */
};

struct observe_recovery {
	struct observer base; /* must be the first member */
	struct cache *c;
	/* f32 [chunk][n_head * head_dim]: output of attention that is computed only for a probe; the output is
	 * discarded */
	struct tensor out;
	/* f32 [n_kv_head][ctx] logarithm of each entry's probability, which is averaged over the query heads of a KV
	 * head */
	struct tensor score;
	struct tensor best; /* i32 [n_kv_head][ctx]: slots with the largest scores */
	float *p;           /* [n_kv_head][ctx] probabilities, computed from `score`, on the host */
	/* [n_layer][n_kv_head][ctx] attention probabilities of decoded tokens, by which the attention of the next token
	 * is guessed. `now` has the probabilities of the current step, and `last` those of the previous step. `sum` has
	 * the sums over all decoded tokens since the last prefill. */
	float *now, *last, *sum;
	int64_t before; /* number of decoded tokens whose probabilities are in `sum` */
	/* f32 [n_kv_head][ctx]: probabilities of earlier tokens (w->last or w->sum), of which topk() finds the
	 * largest */
	struct tensor guess;
	/* For the current layer, how much of the token's probability falls on n entries that are guessed from earlier
	 * tokens. `last` is the result if the n largest elements of w->last are guessed. `mean` is the result if the n
	 * largest elements of w->sum are guessed. If n is 0, the results are not computed yet. */
	struct {
		int32_t n;
		double last, mean;
	} guessed;
	int32_t *slots; /* [ctx] list of slots of one head, on the host */
	float *bias;    /* [ctx] biases of the slots in `slots` (attn_segment.bias) */
	/* [n_layer][n_head * head_dim] unrotated queries of the current token (query) and of the previous token
	 * (query_before) */
	float *query, *query_before;
	/* [n_layer][n_head] sum of the cosines between the queries of consecutive tokens, over `pairs` pairs of
	 * tokens */
	double *cosine;
	int64_t pairs;
	struct watched *one; /* [n] watched policies */
	int n;
};

/* ---- one generated token ---- */

/* Set w->p to the probability of each entry, averaged over the query heads that share a KV head. A scan is not exact:
 * its probabilities sum to 1 +- 1e-4. So scale the probabilities to the sum 1. */
static void exact_probabilities(struct observe_recovery *w, const struct tensor *q, int32_t layer, int32_t n_slots)
{
	const struct hparams *hp = w->c->hp;

	w->c->be->ops->key_scan(w->c->be, &(struct scan_args){
						  .out = &w->score,
						  .q = q,
						  .keys = &w->c->kv.k[layer],
						  .n_head = hp->n_head,
						  .n_kv_head = hp->n_kv_head,
						  .head_dim = hp->head_dim,
						  .cap = w->c->ctx,
						  .n_slots = n_slots,
						  .bits = 16,
						  .scale = model_layer_spec(hp, layer)->attn.scale,
						  .reduce = REDUCE_MEAN,
					  });
	for (int32_t h = 0; h < hp->n_kv_head; h++) {
		float *row = w->p + (size_t)h * (size_t)w->c->ctx;
		double sum = 0;

		w->c->be->ops->read(w->c->be, &w->score, 4 * (size_t)h * (size_t)w->c->ctx, row, 4 * (size_t)n_slots);
		for (int32_t i = 0; i < n_slots; i++)
			sum += (double)(row[i] = expf(row[i]));
		for (int32_t i = 0; i < n_slots && sum > 0; i++)
			row[i] = (float)((double)row[i] / sum);
	}
}

/* Return the probability that falls on the slots from index `from` up to, but not including, index `to`. */
static double mass_between(const float *p, int32_t from, int32_t to)
{
	double sum = 0;

	for (int32_t i = from; i < to; i++)
		sum += (double)p[i];
	return sum;
}

/* Return the probability that falls on the first n slots of a KV head's list. `bias` has the biases of the listed
 * slots, or is NULL. Skip slots with the bias SAMPLE_NONE, because they only fill up a sample. */
static double mass_listed(struct observe_recovery *w, const struct tensor *list, const struct tensor *bias,
                          int32_t head, int32_t n)
{
	const float *row = w->p + (size_t)head * (size_t)w->c->ctx;
	double sum = 0;

	w->c->be->ops->read(w->c->be, list, 4 * (size_t)head * (size_t)list->cols, w->slots, 4 * (size_t)n);
	if (bias)
		w->c->be->ops->read(w->c->be, bias, 4 * (size_t)head * (size_t)bias->cols, w->bias, 4 * (size_t)n);
	for (int32_t i = 0; i < n; i++)
		if (w->slots[i] >= 0 && w->slots[i] < w->c->ctx && !(bias && w->bias[i] <= SAMPLE_NONE))
			sum += (double)row[w->slots[i]];
	return sum;
}

/* Guess the n entries to which the token attends most: the entries with the largest values in `from`, and the token's
 * own entry. Return the probability that falls on these entries, summed over all KV heads. */
static double mass_guessed(struct observe_recovery *w, const float *from, int32_t n, int32_t n_slots)
{
	double sum = 0;

	for (int32_t h = 0; h < w->c->hp->n_kv_head; h++)
		w->c->be->ops->write(w->c->be, &w->guess, 4 * (size_t)h * (size_t)w->c->ctx,
		                     from + (size_t)h * (size_t)w->c->ctx, 4 * (size_t)n_slots);
	w->c->be->ops->topk(w->c->be, &(struct topk_args){
					      .slots = &w->best,
					      .score = &w->guess,
					      .n_kv_head = w->c->hp->n_kv_head,
					      .n = n_slots,
					      .k = n,
					      .pool = 1,
					      .last = 1,
				      });
	for (int32_t h = 0; h < w->c->hp->n_kv_head; h++)
		sum += mass_listed(w, &w->best, NULL, h, n);
	return sum;
}

/* Guess in two ways to which n entries the token attends most, and add the probability that falls on the guessed
 * entries to *to. For to->last_row, guess the n entries to which the previous token gave the highest probabilities. For
 * to->mean_row, guess the n entries with the highest mean probability since the prefill. Store both results in
 * w->guessed, where other watched policies that also read n entries find them. */
static void add_guesses(struct observe_recovery *w, struct recovered *to, int32_t layer, int32_t n, int32_t n_slots)
{
	double unit = 1.0 / ((double)w->c->hp->n_kv_head * layers_unwindowed(w->c->hp));
	size_t at = (size_t)layer * (size_t)w->c->hp->n_kv_head * (size_t)w->c->ctx;

	if (!w->before)
		return;
	if (n >= n_slots) {
		to->last_row += 1.0 / layers_unwindowed(w->c->hp);
		to->mean_row += 1.0 / layers_unwindowed(w->c->hp);
		return;
	}
	if (w->guessed.n != n) {
		w->guessed.n = n;
		w->guessed.last = unit * mass_guessed(w, w->last + at, n, n_slots);
		w->guessed.mean = unit * mass_guessed(w, w->sum + at, n, n_slots);
	}
	to->last_row += w->guessed.last;
	to->mean_row += w->guessed.mean;
}

/* Measure one layer for the watched policy `one`, and add the results to one->call (struct recovered). Add the
 * probability that falls on the segments (ranges or lists of slots) that the policy selects. Also add the probability
 * that falls on other sets of entries, each with as many entries as the policy selects. */
static void add_recovered(struct observe_recovery *w, struct watched *one, int32_t layer,
                          const struct attn_segment *seg, int n_seg, int32_t n_slots)
{
	double unit = 1.0 / ((double)w->c->hp->n_kv_head * layers_unwindowed(w->c->hp)), before = one->call.mass;
	struct recovered *to = &one->call;
	int32_t n = 0, sinks;

	for (int i = 0; i < n_seg; i++)
		n += seg[i].n_slots;
	sinks = MIN(n, REFERENCE_SINKS);
	if (n < n_slots)
		w->c->be->ops->topk(w->c->be, &(struct topk_args){
						      .slots = &w->best,
						      .score = &w->score,
						      .n_kv_head = w->c->hp->n_kv_head,
						      .n = n_slots,
						      .k = n,
						      .pool = 1,
					      });
	for (int32_t h = 0; h < w->c->hp->n_kv_head; h++) {
		const float *row = w->p + (size_t)h * (size_t)w->c->ctx;

		for (int i = 0; i < n_seg; i++)
			to->mass +=
				unit * (seg[i].slots ? mass_listed(w, seg[i].slots, seg[i].bias, h, seg[i].n_slots)
			                             : mass_between(row, seg[i].slot0, seg[i].slot0 + seg[i].n_slots));
		to->oracle +=
			unit * (n < n_slots ? mass_listed(w, &w->best, NULL, h, n) : mass_between(row, 0, n_slots));
		to->recent += unit * (n < n_slots ? mass_between(row, 0, sinks) +
		                                            mass_between(row, n_slots - (n - sinks), n_slots)
		                                  : mass_between(row, 0, n_slots));
	}
	add_guesses(w, to, layer, n, n_slots);
	one->layer[layer].mass = (to->mass - before) * layers_unwindowed(w->c->hp);
	one->layer[layer].whole = n == n_slots;
	to->selected += (double)n / layers_unwindowed(w->c->hp);
	to->all += (double)n_slots / layers_unwindowed(w->c->hp);
}

/* ---- the observer ---- */

/* Compute the attention of the step's tokens to these segments (ranges or lists of slots) again, so that the probe can
 * record it. The output of attention, w->out, is discarded. */
static void probed_attend(struct observe_recovery *w, const struct attention *a, const struct attn_segment *seg,
                          int32_t n_seg, const struct attn_probe *probe)
{
	kv_attend(&w->c->kv, a->layer,
	          &(struct kv_call){ .out = &w->out,
	                             .seg = seg,
	                             .n_seg = n_seg,
	                             .prompt = !step_generates(a->st),
	                             .sinks = a->x->sinks,
	                             .probe = probe },
	          a->st->n);
}

/* In a prefill, for each selector that has a probe (recorder of attention), compute the attention of the step's tokens
 * to all entries again, with this probe. */
static void observe_read(struct observe_recovery *w, const struct attention *a)
{
	struct attn_segment all[SELECT_SEGMENTS];
	const struct attn_probe *probe;

	select_whole(a->r->q, a->r->n_slots, all);
	for (int i = 0; i < w->n; i++) {
		struct selector *s = &w->one[i].sel;

		if (s->ops->probe && (probe = s->ops->probe(s, a->st, a->layer, a->r->n_slots)))
			probed_attend(w, a, all, 1, probe);
	}
}

/* Copy this token's probabilities to w->now, for guesses about the next token. Unused slots get 0. */
static void keep_probabilities(struct observe_recovery *w, int32_t layer, int32_t n_slots)
{
	size_t row = (size_t)w->c->ctx, heads = (size_t)w->c->hp->n_kv_head;

	for (size_t h = 0; h < heads; h++) {
		float *to = w->now + ((size_t)layer * heads + h) * row;

		memcpy(to, w->p + h * row, (size_t)n_slots * sizeof *to);
		memset(to + n_slots, 0, (row - (size_t)n_slots) * sizeof *to);
	}
	w->guessed.n = 0;
}

/* Copy this token's unrotated queries to w->query. */
static void keep_query(struct observe_recovery *w, const struct attention *a)
{
	size_t width = (size_t)w->c->hp->n_head * (size_t)w->c->hp->head_dim;

	w->c->be->ops->read(w->c->be, a->x->q, 0, w->query + (size_t)a->layer * width, width * sizeof *w->query);
}

/* Measure in one layer how much of this decoded token's attention falls on the entries that each policy would read. */
static void observe_generated(struct observe_recovery *w, const struct attention *a)
{
	struct attn_segment seg[SELECT_SEGMENTS];
	const struct attn_probe *probe;

	keep_query(w, a);
	exact_probabilities(w, a->r->q, a->layer, a->r->n_slots);
	keep_probabilities(w, a->layer, a->r->n_slots);
	for (int i = 0; i < w->n; i++) {
		struct selector *s = &w->one[i].sel;
		int n_seg = s->ops->select(s, a->st, a->layer, a->r->q, a->x->q, a->r->n_slots, seg);

		kv_select(&w->c->kv, seg, n_seg);
		n_seg = kv_segments_met(&w->c->kv, seg, n_seg, NULL);
		add_recovered(w, &w->one[i], a->layer, seg, n_seg, a->r->n_slots);
		if (s->ops->probe && (probe = s->ops->probe(s, a->st, a->layer, a->r->n_slots)))
			probed_attend(w, a, seg, n_seg, probe);
	}
}

static void recovery_attended(struct observer *o, const struct attention *a)
{
	struct observe_recovery *w = (struct observe_recovery *)o;

	for (int i = 0; i < w->n; i++) {
		struct selector *s = &w->one[i].sel;

		if (a->layer == 0)
			w->one[i].call = (struct recovered){ 0 };
		if (s->ops->note && select_serves(s, a->layer))
			s->ops->note(s, a->layer, a->st->pos, a->st->n);
	}
	if (layer_window(w->c->hp, a->layer))
		return;
	(step_generates(a->st) ? observe_generated : observe_read)(w, a);
	for (int i = 0; i < w->n; i++)
		if (w->one[i].sel.ops->seen)
			w->one[i].sel.ops->seen(&w->one[i].sel, a->st, a->layer, a->r->q, a->x->q, a->r->n_slots);
}

/* After a decoded token, set w->last to the token's probabilities (w->now), and add these to w->sum. After a prefill,
 * begin new sums. */
static void remember_probabilities(struct observe_recovery *w, int generated)
{
	size_t n = (size_t)w->c->hp->n_layer * (size_t)w->c->hp->n_kv_head * (size_t)w->c->ctx;
	float *last = w->last;

	if (!generated || !w->n) {
		w->before = 0;
		return;
	}
	w->last = w->now;
	w->now = last;
	for (size_t i = 0; i < n; i++)
		w->sum[i] = (w->before ? w->sum[i] : 0) + w->last[i];
	w->before++;
}

/* Add to w->cosine, for each query head, the cosine between the queries of this token and of the previous token. */
static void compare_queries(struct observe_recovery *w, int generated)
{
	const struct hparams *hp = w->c->hp;
	float *before = w->query_before;

	if (generated && w->before) {
		for (int32_t i = 0; i < hp->n_layer * hp->n_head; i++) {
			const float *x = w->query + (size_t)i * (size_t)hp->head_dim,
				    *y = before + (size_t)i * (size_t)hp->head_dim;
			double xy = 0, xx = 0, yy = 0;

			for (int32_t d = 0; d < hp->head_dim; d++) {
				xy += (double)x[d] * (double)y[d];
				xx += (double)x[d] * (double)x[d];
				yy += (double)y[d] * (double)y[d];
			}
			w->cosine[i] += xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
		}
		w->pairs++;
	}
	if (generated) {
		w->query_before = w->query;
		w->query = before;
	}
}

/* After the commit of a step, update the age of each layer's selection, which is the number of tokens since the
 * selection was made. Add the probability that falls on the selected entries to one->ages.mass[age]. */
static void count_ages(struct observe_recovery *w, struct watched *one, int generated)
{
	for (int32_t i = 0; one->sel.ops->status && i < w->c->hp->n_layer; i++) {
		struct watched_layer *l = &one->layer[i];
		struct select_status status = one->sel.ops->status(&one->sel, i);

		if (!select_serves(&one->sel, i) || status.fresh < 0)
			continue;
		l->age = !generated || status.fresh ? 0 : l->age < RECOVERY_AGES - 1 ? l->age + 1 : l->age;
		if (!generated || (l->whole && !status.fresh))
			continue;
		one->ages.mass[l->age] += l->mass;
		one->ages.n[l->age]++;
		l->sum.tokens++;
		l->sum.selected += status.fresh;
	}
}

static void recovery_commit(struct observer *o, const struct step *st)
{
	struct observe_recovery *w = (struct observe_recovery *)o;
	int generated = step_generates(st);

	for (int i = 0; i < w->n; i++) {
		struct recovered *sum = &w->one[i].sum, *call = &w->one[i].call;

		if (w->one[i].sel.ops->end)
			w->one[i].sel.ops->end(&w->one[i].sel, st, st->pos + st->n);
		count_ages(w, &w->one[i], generated);
		sum->mass += call->mass;
		sum->oracle += call->oracle;
		sum->recent += call->recent;
		sum->selected += call->selected;
		sum->all += call->all;
		sum->steps += generated;
		sum->last_row += call->last_row;
		sum->mean_row += call->mean_row;
		sum->guesses += generated && w->before;
	}
	compare_queries(w, generated);
	remember_probabilities(w, generated);
}

static int32_t recovery_rewind(struct observer *o, int32_t n)
{
	struct observe_recovery *w = (struct observe_recovery *)o;
	int32_t least = n;

	w->before = 0; /* w->sum may include tokens that are removed, so begin new sums */
	for (int i = 0; i < w->n; i++) {
		int32_t m = w->one[i].sel.ops->rewind(&w->one[i].sel, n);

		least = MIN(m, least);
	}
	/* If a selector has rolled back to fewer than n tokens, roll all selectors back to the same number. */
	for (int i = 0; least < n && i < w->n; i++)
		w->one[i].sel.ops->rewind(&w->one[i].sel, least);
	return least;
}

static const struct observer_ops recovery_ops = { recovery_attended, recovery_commit, recovery_rewind, NULL };

/* Open the selector of a policy, and add the policy to the watched policies. */
static int selector_watch(struct observe_recovery *w, const struct policy *p, struct err *err)
{
	struct watched *one = &w->one[w->n];

	if (!p->def->selector || p->def->selector->repeat)
		return err_set(err, ERR_USAGE,
		               "cache policy '%s' does not select entries token by token: it cannot be watched",
		               p->def->name);
	one->policy = *p;
	one->layer = xcalloc((size_t)w->c->hp->n_layer, sizeof *one->layer);
	if (select_open(&one->sel, &one->policy, &w->c->kv, 1, err)) {
		free(one->layer);
		return -1;
	}
	if (w->c->tail < one->sel.tail)
		w->c->tail = one->sel.tail;
	w->n++;
	return 0;
}

static void recovery_close(struct observer *o)
{
	struct observe_recovery *w = (struct observe_recovery *)o;

	observer_remove(&w->c->observers, o);
	for (int i = 0; i < w->n; i++) {
		select_close(&w->one[i].sel);
		free(w->one[i].layer);
	}
	cache_drop(w->c, &w->out);
	cache_drop(w->c, &w->score);
	cache_drop(w->c, &w->best);
	cache_drop(w->c, &w->guess);
	free(w->one);
	free(w->p);
	free(w->now);
	free(w->last);
	free(w->sum);
	free(w->slots);
	free(w->bias);
	free(w->query);
	free(w->query_before);
	free(w->cosine);
	free(w);
}

/* Return the memory that watching n policies takes, in bytes. */
static uint64_t recovery_bytes(const struct cache *c, const struct policy *watch, int n)
{
	uint64_t ctx = (uint64_t)c->ctx, width = (uint64_t)c->hp->n_head * (uint64_t)c->hp->head_dim;
	uint64_t sum = 8 * (uint64_t)c->chunk * width +
	               (16 + 12 * (uint64_t)c->hp->n_layer) * ctx * (uint64_t)c->hp->n_kv_head + 8 * ctx +
	               8 * (uint64_t)c->hp->n_layer * (width + (uint64_t)c->hp->n_head);

	for (int i = 0; i < n; i++)
		if (watch[i].def->selector)
			sum += watch[i].def->selector->bytes(watch[i].values, c->hp, c->be, c->ctx);
	return sum;
}

/* Check that the memory for watching n policies is free. Otherwise fail with ERR_FIT. */
static int fit_check(const struct cache *c, const struct policy *watch, int n, struct err *err)
{
	struct memory_budget budget = memory_budget_of(c->be);
	uint64_t need = recovery_bytes(c, watch, n);
	struct str have = { 0 };

	if (need <= budget.available)
		return 0;
	memory_budget_text(&budget, &have);
	err_set(err, ERR_FIT, "watching %d policies over %d tokens needs %.0f MiB, %s; use a smaller -c", n, c->ctx,
	        (double)need / (1 << 20), have.p);
	str_free(&have);
	return -1;
}

/* Open the observer, or return NULL on error. The caller has the engine's lock. */
static struct observer *recovery_open(struct cache *c, const struct policy *watch, int n, struct err *err)
{
	struct observe_recovery *w = xcalloc(1, sizeof *w);
	int32_t heads = c->hp->n_kv_head;
	size_t rows = (size_t)c->hp->n_layer * (size_t)heads * (size_t)c->ctx,
	       queries = (size_t)c->hp->n_layer * (size_t)c->hp->n_head;
	int failed;

	w->base.ops = &recovery_ops;
	w->c = c;
	w->one = xcalloc((size_t)n, sizeof *w->one);
	w->query = xcalloc(queries * (size_t)c->hp->head_dim, sizeof *w->query);
	w->query_before = xcalloc(queries * (size_t)c->hp->head_dim, sizeof *w->query_before);
	w->cosine = xcalloc(queries, sizeof *w->cosine);
	/* If the cache has no buffer c->q, allocate it. The cache then rotates queries in this buffer, and leaves the
	 * unrotated queries for the observer. */
	failed = (!c->q.data && cache_alloc(c, &c->q, DT_F32, c->chunk, widest_queries(c->hp), err)) ||
	         cache_alloc(c, &w->out, DT_F32, c->chunk, (int64_t)c->hp->n_head * c->hp->head_dim, err) ||
	         cache_alloc(c, &w->score, DT_F32, heads, c->ctx, err) ||
	         cache_alloc(c, &w->best, DT_I32, heads, c->ctx, err) ||
	         cache_alloc(c, &w->guess, DT_F32, heads, c->ctx, err) ||
	         !(w->now = try_alloc(rows, sizeof *w->now, "probabilities", err)) ||
	         !(w->last = try_alloc(rows, sizeof *w->last, "probabilities", err)) ||
	         !(w->sum = try_alloc(rows, sizeof *w->sum, "probabilities", err)) ||
	         !(w->p = try_alloc((size_t)heads * (size_t)c->ctx, sizeof *w->p, "probabilities", err)) ||
	         !(w->slots = try_alloc((size_t)c->ctx, sizeof *w->slots, "slots", err)) ||
	         !(w->bias = try_alloc((size_t)c->ctx, sizeof *w->bias, "slots", err));
	for (int i = 0; !failed && i < n; i++)
		failed = selector_watch(w, &watch[i], err);
	if (failed) {
		recovery_close(&w->base);
		return NULL;
	}
	observer_add(&c->observers, &w->base);
	return &w->base;
}

int timeline_watch(struct timeline *tl, const char *const *kv, int n, struct err *err)
{
	struct policy watch[WATCH_MAX];

	if (strcmp(tl->cache.policy.def->name, "full"))
		return err_set(err, ERR_USAGE, "policies are watched under 'full', not under '%s'",
		               tl->cache.policy.def->name);
	if (n < 1 || n > WATCH_MAX)
		return err_set(err, ERR_USAGE, "%d policies cannot be watched at once, the limit is %d", n, WATCH_MAX);
	if (tl->tokens.n)
		return err_set(err, ERR_USAGE, "policies are watched from the first token on, not behind %zu tokens",
		               tl->tokens.n);
	for (int i = 0; i < n; i++)
		if (policy_parse(&watch[i], kv[i], err))
			return -1;
	pthread_mutex_lock(&tl->e->lock);
	timeline_lab_close(tl);
	tl->lab = fit_check(&tl->cache, watch, n, err) ? NULL : recovery_open(&tl->cache, watch, n, err);
	tl->lab_close = recovery_close;
	tl->e->be->ops->sync(tl->e->be); /* the failure is already in *err; sync() clears it in the backend */
	pthread_mutex_unlock(&tl->e->lock);
	return tl->lab ? 0 : -1;
}

/* ---- results ---- */

/* Return the observer, or NULL if nothing is watched. */
static const struct observe_recovery *recovery_of(const struct timeline *tl)
{
	return tl->lab && tl->lab->ops == &recovery_ops ? (const struct observe_recovery *)tl->lab : NULL;
}

/* Return watched policy i, or NULL if there is no policy i. */
static const struct watched *watched_at(const struct timeline *tl, int i)
{
	const struct observe_recovery *w = recovery_of(tl);

	return w && i >= 0 && i < w->n ? &w->one[i] : NULL;
}

int timeline_recovery(const struct timeline *tl, int i, struct recovered *out)
{
	const struct watched *one = watched_at(tl, i);

	if (!one)
		return -1;
	*out = one->sum;
	return 0;
}

int timeline_recovery_ages(const struct timeline *tl, int i, struct recovered_ages *out)
{
	const struct watched *one = watched_at(tl, i);

	if (!one || !one->sel.ops->status)
		return -1;
	*out = one->ages;
	return 0;
}

int timeline_recovery_layer(const struct timeline *tl, int i, int32_t layer, struct recovered_layer *out)
{
	const struct watched *one = watched_at(tl, i);

	if (!one || !one->sel.ops->status || layer < 0 || layer >= tl->cache.hp->n_layer)
		return -1;
	*out = one->layer[layer].sum;
	return 0;
}

int64_t timeline_query_cosine(const struct timeline *tl, int32_t layer, double *cosine)
{
	const struct observe_recovery *w = recovery_of(tl);
	size_t n;

	if (!w || layer < 0 || layer >= w->c->hp->n_layer)
		return -1;
	n = (size_t)w->c->hp->n_head;
	memcpy(cosine, w->cosine + (size_t)layer * n, n * sizeof *cosine);
	return layer_window(w->c->hp, layer) ? 0 : w->pairs;
}
