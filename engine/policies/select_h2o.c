/* engine/policies/select_h2o.c - the policies `h2o` and `h2o+`: decoded tokens read k entries. Half of them are the
 * entries with the largest attention mass ("heavy"), half are the newest ones.
 *
 * `h2o`: attention mass is the sum of attention from all tokens so far. With each decoded token, one entry drops out of
 * the newest half. It replaces the heavy entry with the smallest mass, unless its own mass is even smaller.
 * `h2o+`: the same, but only attention from the last 64 tokens counts, and the first layers read everything.
 *
 * The published method (H2O) evicts all other entries. Here the other entries stay in the cache, but decoded tokens do
 * not read them. This allows comparison with other policies. The next prefill attends to everything, and then selects
 * anew.
 *
 * The host sums the mass: about k numbers per token and KV head. After a prefill, h2o+ scans the keys once more with
 * the queries of the last tokens. */
#include "engine/policies/select_mass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/policies/mass_window.h"
#include "engine/cache/serialize.h"

struct h2o_params {
	struct entry_count k;
	int32_t dense;
	int rolling; /* 1: the policy is h2o+; 0: it is h2o */
};

struct h2o {
	/* mass.slots has the slots of the heavy entries, those with the largest attention mass */
	struct step_mass mass;
	int selected; /* 1: decoded tokens read only selected entries; 0: they read all entries */
	/* number of newest slots that are read besides the heavy entries, not counting the token's own slot, which is
	 * also read */
	int32_t recent;
	/* [n_layer][n_kv_head][mass.most]: slots of the heavy entries in host memory, copied from or to mass.slots in
	 * the backend */
	int32_t *heavy;
	int changed; /* 1: the host has changed heavy[], and mass.slots is out of date */
	/* [n_layer][n_kv_head][cap]: attention mass of each slot: the attention from all tokens (h2o), or from the
	 * tokens in the window (h2o+) */
	float *sum;
	/* only for h2o+: for each of the last tokens, the attention that it gave to each slot; sum[] is the sum over
	 * these tokens */
	struct mass_window window;
	/* only for h2o+: f32 [n_layer * WINDOW_TOKENS][n_head * head_dim]: queries of the last tokens of the current
	 * prefill */
	struct tensor query;
	struct tensor one_query; /* f32 [1][n_head * head_dim]: copy of one row of `query` */
};

static const struct h2o_params *par_of(const struct selector *s)
{
	return s->par;
}

/* Return the size of `query` and `one_query`, which only h2o+ has, in bytes. */
static uint64_t query_bytes(const struct hparams *hp)
{
	return 4 * (WINDOW_TOKENS * (uint64_t)hp->n_layer + 1) * (uint64_t)hp->n_head * (uint64_t)hp->head_dim;
}

static uint64_t h2o_bytes(const void *values, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	const struct h2o_params *par = values;
	uint64_t heads = (uint64_t)hp->n_layer * (uint64_t)hp->n_kv_head, most = (uint64_t)select_most(par->k, cap);

	return step_mass_bytes(hp, par->k, cap) + 4 * heads * ((uint64_t)cap + most) +
	       (par->rolling ? mass_window_bytes(heads, cap) + query_bytes(hp) : 0);
}

static int rolling_init(struct selector *s, struct err *err)
{
	struct h2o *f = s->state;
	const struct hparams *hp = s->kv->hp;
	int64_t width = (int64_t)hp->n_head * hp->head_dim;

	return mass_window_init(&f->window, hp->n_layer * hp->n_kv_head, s->kv->cap, err) ||
	                       select_alloc(s, &f->query, DT_F32, (int64_t)hp->n_layer * WINDOW_TOKENS, width, err) ||
	                       select_alloc(s, &f->one_query, DT_F32, 1, width, err)
	               ? -1
	               : 0;
}

static int h2o_init(struct selector *s, struct err *err)
{
	struct h2o *f = s->state = xcalloc(1, sizeof *f);
	size_t heads = (size_t)s->kv->n_layer * (size_t)s->kv->hp->n_kv_head, sums = heads * (size_t)s->kv->cap;

	s->tail = par_of(s)->rolling ? WINDOW_TOKENS : 1;
	if (step_mass_init(&f->mass, s, par_of(s)->k, err) ||
	    !(f->sum = try_alloc(sums, sizeof *f->sum, "sums of probabilities", err)) ||
	    !(f->heavy = try_alloc(heads * (size_t)f->mass.most, sizeof *f->heavy, "selected slots", err)))
		return -1;
	memset(f->sum, 0, sums * sizeof *f->sum);
	return par_of(s)->rolling ? rolling_init(s, err) : 0;
}

static void h2o_release(struct selector *s)
{
	struct h2o *f = s->state;

	step_mass_release(&f->mass, s);
	select_drop(s, &f->query);
	select_drop(s, &f->one_query);
	mass_window_release(&f->window);
	free(f->sum);
	free(f->heavy);
}

/* Return the host's copy of a layer's heavy slots: [n_kv_head][mass.most]. */
static int32_t *heavy_of(const struct selector *s, int32_t layer)
{
	const struct h2o *f = s->state;

	return f->heavy + (size_t)layer * (size_t)s->kv->hp->n_kv_head * (size_t)f->mass.most;
}

/* Return the size in bytes of the array that heavy_of() returns. */
static size_t heavy_size(const struct selector *s)
{
	return (size_t)s->kv->hp->n_kv_head * (size_t)((const struct h2o *)s->state)->mass.most * sizeof(int32_t);
}

/* Copy the heavy slots to the backend if the host has changed them. This function is called just before the backend
 * needs the slots: a copy at the time of the change would make the commit of a step wait. */
static void heavy_write(const struct selector *s)
{
	struct h2o *f = s->state;

	for (int32_t i = par_of(s)->dense; f->changed && i < s->kv->n_layer; i++)
		if (select_serves(s, i))
			s->kv->be->ops->write(s->kv->be, &f->mass.slots[i], 0, heavy_of(s, i), heavy_size(s));
	f->changed = 0;
}

/* List in seg[] what a token reads: the heavy slots and the newest n_tail slots. */
static int h2o_segments(const struct selector *s, int32_t layer, const struct tensor *q, int32_t n_tail,
                        int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	struct h2o *f = s->state;
	int n = 0;

	if (!f->selected || layer < par_of(s)->dense)
		return select_whole(q, n_slots, seg);
	heavy_write(s);
	if (f->mass.n > 0)
		seg[n++] = (struct attn_segment){ .q = q, .slots = &f->mass.slots[layer], .n_slots = f->mass.n };
	seg[n++] = (struct attn_segment){ .q = q, .slot0 = n_slots - n_tail, .n_slots = n_tail };
	return n;
}

static int h2o_select(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                      const struct tensor *raw, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	return h2o_segments(s, layer, q, ((struct h2o *)s->state)->recent + 1, n_slots, seg);
}

/* ---- attention mass ---- */

/* Return the number of tokens at the end of the step whose attention is summed. */
static int32_t tokens_counted(const struct selector *s, const struct step *st)
{
	if (!par_of(s)->rolling || step_generates(st))
		return st->n;
	if (!st->last)
		return 0;
	return MIN(st->n, s->tail);
}

static const struct attn_probe *h2o_probe(struct selector *s, const struct step *st, int32_t layer, int32_t n_slots)
{
	struct h2o *f = s->state;
	int32_t n = tokens_counted(s, st),
		cols = step_generates(st) && f->selected ? f->mass.n + f->recent + 1 : n_slots;

	if (!n || layer < par_of(s)->dense || (f->window.row && !step_generates(st)))
		return NULL;
	return step_mass_probe(&f->mass, s, st, layer, n, cols, REDUCE_MAX);
}

static float *sums_of(const struct selector *s, int32_t layer, int32_t head)
{
	const struct h2o *f = s->state;

	return f->sum + ((size_t)layer * (size_t)s->kv->hp->n_kv_head + (size_t)head) * (size_t)s->kv->cap;
}

/* Select the heavy entries of a layer by their sums. */
static void heavy_select(struct selector *s, int32_t layer, int32_t n_slots)
{
	struct h2o *f = s->state;

	step_mass_sums(&f->mass, layer, n_slots);
	for (int32_t h = 0; h < s->kv->hp->n_kv_head; h++)
		step_mass_set_head(&f->mass, s, layer, h, sums_of(s, layer, h), n_slots);
	step_mass_select(&f->mass, s, layer, n_slots - f->recent, 1);
	s->kv->be->ops->read(s->kv->be, &f->mass.slots[layer], 0, heavy_of(s, layer), heavy_size(s));
}

/* A slot has just dropped out of the newest half. Let it replace the heavy slot with the smallest mass, if its own mass
 * is at least as large. */
static void heavy_admit(struct h2o *f, const float *sum, int32_t *heavy, int32_t slot)
{
	int32_t lightest = 0;

	for (int32_t i = 1; i < f->mass.n; i++)
		if (sum[heavy[i]] < sum[heavy[lightest]])
			lightest = i;
	if (sum[slot] < sum[heavy[lightest]])
		return;
	memmove(heavy + lightest, heavy + lightest + 1, (size_t)(f->mass.n - lightest - 1) * sizeof *heavy);
	heavy[f->mass.n - 1] = slot;
}

/* Called after the attention of the step's tokens. For decoded tokens, copy the sums to where the host can read them
 * without waiting (step_mass_show()). For prefill tokens under h2o+, store the queries of the last tokens until the
 * step is committed. */
static void h2o_seen(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                     const struct tensor *raw, int32_t n_slots)
{
	struct h2o *f = s->state;
	int32_t n = tokens_counted(s, st);

	if (step_generates(st) && layer >= par_of(s)->dense)
		step_mass_show(&f->mass, s, layer);
	else if (f->window.row && n && layer >= par_of(s)->dense)
		s->kv->be->ops->copy(s->kv->be, &f->query, layer * WINDOW_TOKENS, q, st->n - n, n);
}

/* Under h2o+, compute the attention of one token to the first n slots of a layer, and add it to the window and to the
 * sums. The token's query is row i of the layer's stored queries. The attention of a KV head is the largest
 * probability among the query heads that share it. */
static void window_scan(struct selector *s, int32_t layer, int32_t i, int32_t n)
{
	struct h2o *f = s->state;
	const struct hparams *hp = s->kv->hp;

	s->kv->be->ops->copy(s->kv->be, &f->one_query, 0, &f->query, layer * WINDOW_TOKENS + i, 1);
	s->kv->be->ops->key_scan(s->kv->be, &(struct scan_args){
						    .out = step_mass_sums(&f->mass, layer, n),
						    .q = &f->one_query,
						    .keys = &s->kv->k[layer],
						    .n_head = hp->n_head,
						    .n_kv_head = hp->n_kv_head,
						    .head_dim = hp->head_dim,
						    .cap = s->kv->cap,
						    .n_slots = n,
						    .bits = 16,
						    .scale = model_layer_spec(hp, layer)->attn.scale,
						    .reduce = REDUCE_MAX,
					    });
	for (int32_t h = 0; h < hp->n_kv_head; h++) {
		const float *x = step_mass_head(&f->mass, s, layer, h, n);
		float *sum = sums_of(s, layer, h),
		      *row = mass_window_enter(&f->window, layer * hp->n_kv_head + h, sum, n);

		for (int32_t k = 0; k < n; k++)
			sum[k] += row[k] = expf(x[k]);
	}
}

/* Under h2o+, empty the window, then fill it with the last n tokens of a prefill. */
static void window_restart(struct selector *s, int32_t n, int32_t n_slots)
{
	struct h2o *f = s->state;

	memset(f->sum, 0, (size_t)s->kv->n_layer * (size_t)s->kv->hp->n_kv_head * (size_t)s->kv->cap * sizeof *f->sum);
	mass_window_clear(&f->window);
	for (int32_t i = 0; i < n; i++) {
		int32_t slots = n_slots - (n - 1 - i);

		for (int32_t layer = par_of(s)->dense; layer < s->kv->n_layer; layer++)
			if (select_serves(s, layer))
				window_scan(s, layer, i, slots);
		mass_window_move(&f->window, slots);
	}
}

static void mass_add(float *sum, float *row, int32_t slot, float x)
{
	sum[slot] += x;
	if (row)
		row[slot] = x;
}

/* Add the attention of this step's tokens to the sums of a layer. */
static void heavy_add(struct selector *s, const struct step *st, int32_t layer, int32_t n_slots)
{
	struct h2o *f = s->state;
	int listed = step_generates(st) && f->selected;
	int32_t tail = listed ? f->recent + 1 : n_slots, n = listed ? f->mass.n : 0;

	for (int32_t h = 0; h < s->kv->hp->n_kv_head; h++) {
		float *sum = sums_of(s, layer, h), *row = NULL;
		int32_t *heavy = heavy_of(s, layer) + (size_t)h * (size_t)f->mass.most;
		const float *x = step_mass_head(&f->mass, s, layer, h, n + tail);

		if (f->window.row)
			row = mass_window_enter(&f->window, layer * s->kv->hp->n_kv_head + h, sum, n_slots);
		for (int32_t i = 0; i < n; i++)
			mass_add(sum, row, heavy[i], x[i]);
		for (int32_t i = 0; i < tail; i++)
			mass_add(sum, row, n_slots - tail + i, x[n + i]);
		if (n)
			heavy_admit(f, sum, heavy, n_slots - f->recent - 1);
	}
}

/* Add the attention of this step's tokens to the sums of all layers. */
static void all_add(struct selector *s, const struct step *st, int32_t n_slots)
{
	struct h2o *f = s->state;

	for (int32_t i = par_of(s)->dense; i < s->kv->n_layer; i++)
		if (select_serves(s, i))
			heavy_add(s, st, i, n_slots);
	f->changed |= step_generates(st) && f->selected && f->mass.n;
	if (f->window.row)
		mass_window_move(&f->window, n_slots);
}

static void h2o_end(struct selector *s, const struct step *st, int32_t n_slots)
{
	struct h2o *f = s->state;
	int32_t k = entry_count_of(par_of(s)->k, n_slots), from = par_of(s)->dense, n = tokens_counted(s, st);

	if (n && f->window.row && !step_generates(st)) {
		window_restart(s, n, n_slots);
	} else if (n) {
		all_add(s, st, n_slots);
	}
	if (!step_generates(st))
		f->selected = 0;
	if (f->selected || (!step_generates(st) && !st->last) || k >= n_slots)
		return;
	f->selected = 1;
	f->changed = 0; /* heavy_select() below updates both heavy[] and mass.slots, so they will be equal */
	f->mass.n = k / 2;
	f->recent = k - f->mass.n;
	for (int32_t i = from; f->mass.n > 0 && i < s->kv->n_layer; i++)
		if (select_serves(s, i))
			heavy_select(s, i, n_slots);
}

static int32_t h2o_rewind(struct selector *s, int32_t n)
{
	struct h2o *f = s->state;

	f->selected = 0;
	mass_window_clear(&f->window);
	memset(f->sum, 0, (size_t)s->kv->n_layer * (size_t)s->kv->hp->n_kv_head * (size_t)s->kv->cap * sizeof *f->sum);
	/* Under h2o, the sums include removed tokens and cannot be corrected, so all tokens are prefilled again. Under
	 * h2o+, the sums are of the last s->tail tokens only, so only these tokens are prefilled again. */
	return !par_of(s)->rolling || n < s->tail ? 0 : n - s->tail;
}

/* Return 1: drafted tokens are verified one at a time, because each token may change what the next one reads. */
static int32_t h2o_verify_most(const struct selector *s, int32_t pos, int32_t n_slots)
{
	return 1;
}

static int h2o_steps_matter(const struct selector *s)
{
	return !par_of(s)->rolling;
}

static int32_t h2o_entries(const struct selector *s, int32_t n_slots)
{
	return (int32_t)select_mean(s, par_of(s)->dense, entry_count_of(par_of(s)->k, n_slots), n_slots);
}

static uint64_t h2o_read_bytes(const struct selector *s, int32_t n_slots)
{
	double k = entry_count_of(par_of(s)->k, n_slots);

	return select_entry_bytes(s, k >= n_slots ? n_slots : select_mean(s, par_of(s)->dense, k, n_slots));
}

/* ---- for observers ---- */

static int h2o_holds(const struct selector *s, int32_t layer, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	return h2o_segments(s, layer, NULL, ((const struct h2o *)s->state)->recent, n_slots, seg);
}

static const float *h2o_sums(const struct selector *s, int32_t layer, int32_t head)
{
	return layer >= par_of(s)->dense ? sums_of(s, layer, head) : NULL;
}

/* ---- saving ---- */

static void selected_archive(struct selector *s, struct serializer *a, int32_t n_slots)
{
	struct h2o *f = s->state;

	if (!serialize_loading(a))
		heavy_write(s);
	f->changed = 0;
	serialize_i32(a, &f->mass.n, 0, MIN(f->mass.most, n_slots), "the number of selected slots");
	serialize_i32(a, &f->recent, 0, n_slots - f->mass.n, "the slots beside those selected");
	for (int32_t i = par_of(s)->dense; i < s->kv->n_layer && !a->bad; i++) {
		step_mass_archive(&f->mass, s, a, i, n_slots);
		if (serialize_loading(a) && !a->bad)
			s->kv->be->ops->read(s->kv->be, &f->mass.slots[i], 0, heavy_of(s, i), heavy_size(s));
	}
}

static void h2o_archive(struct selector *s, struct serializer *a, int32_t n_slots)
{
	struct h2o *f = s->state;
	size_t heads = (size_t)s->kv->n_layer * (size_t)s->kv->hp->n_kv_head;
	int32_t selected = f->selected;

	if (serialize_loading(a))
		f->selected = 0;
	for (size_t i = 0; i < heads; i++)
		serialize_bytes(a, f->sum + i * (size_t)s->kv->cap, (uint64_t)n_slots * sizeof *f->sum);
	if (f->window.row && !a->bad)
		mass_window_archive(&f->window, a, par_of(s)->dense * s->kv->hp->n_kv_head, n_slots);
	serialize_i32(a, &selected, 0, 1, "whether slots were selected");
	if (selected && !a->bad)
		selected_archive(s, a, n_slots);
	if (!a->bad)
		f->selected = selected;
}

/* clang-format off */
static const struct selector_ops h2o_ops = {
	.bytes = h2o_bytes, .init = h2o_init, .release = h2o_release, .select = h2o_select, .probe = h2o_probe, .seen = h2o_seen,
	.end = h2o_end, .rewind = h2o_rewind, .verify_most = h2o_verify_most, .entries = h2o_entries, .read_bytes = h2o_read_bytes,
	.archive = h2o_archive, .steps_matter = h2o_steps_matter, .holds = h2o_holds, .sums = h2o_sums,
};
/* clang-format on */

static const struct param h2o_params[] = { PARAM_K(struct h2o_params, "512"),
	                                   REMOVED("dense", "0", 0),
	                                   { .key = NULL } };
static const struct param h2o_plus_params[] = { PARAM_K(struct h2o_params, "512"),
	                                        PARAM_DENSE(struct h2o_params, "2"),
	                                        { .key = NULL } };
static void h2o_plus_preset(void *values)
{
	((struct h2o_params *)values)->rolling = 1;
}
const struct policy_def policy_h2o = {
	.name = "h2o",
	.help = "k entries are read: half those of the largest attention mass so far, half the newest; the others stay unread (H2O)",
	.params = h2o_params,
	.retention = &retain_all,
	.selector = &h2o_ops,
	.observes_all = 1,
};
const struct policy_def policy_h2o_plus = {
	.name = "h2o+",
	.help = "h2o by the attention mass of the last 64 tokens, which move on as tokens are generated",
	.params = h2o_plus_params,
	.preset = h2o_plus_preset,
	.retention = &retain_all,
	.selector = &h2o_ops,
};
