/* engine/select_mass.c - selection by the attention mass of the prefill: `h2o`, `h2o+`, `snapkv`, published methods to compare with.
 *
 * Their authors evict the entries that are not selected.  Here all entries stay and only generated tokens read the selected ones, so the
 * methods compare with selection, and the next prefill attends everything and selects anew.
 *
 *     h2o      half of k are the heavy entries, those of the largest attention mass of all tokens so far; half are the newest.  With each
 *              generated token the newest half moves by one, and the entry that falls out of it replaces the lightest heavy entry
 *              if its mass is at least as large.
 *     h2o+     the same, but the mass is that of the last 64 tokens alone, a window that moves on with each generated token, and the
 *              first layers read everything
 *     snapkv   k entries at the end of the prefill: the last `window` tokens, and those with the largest pooled mass of these tokens'
 *              attention; later tokens are all added
 *
 * Mass is summed on the host: a step adds k numbers per KV head.  h2o+ keeps what each token of its window has attended to, and subtracts
 * it when the token leaves; for the tokens of a prefill their queries scan the keys once more. */
#include "engine/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/mass_window.h"
#include "engine/serialize.h"
#include "engine/cache.h"

enum { KIND_MAX, KIND_AVG };
enum { KEPT_H2O, KEPT_H2O_PLUS, KEPT_SNAPKV };
struct mass_params {
	struct entry_count k;
	int32_t dense, window, pool;
	int pool_kind, kept;
};

struct kept {
	struct tensor *mass;       /* [n_layer] f32 [n_kv_head][cap]: attention mass of this step's tokens */
	struct tensor *slots;      /* [n_layer] i32 [n_kv_head][most]: selected, ascending */
	struct attn_probe probe;
	float *weight;             /* [weight_cap] */
	int32_t weight_cap;
	int selected;              /* 0: everything is read */
	int32_t n, recent;         /* slots selected by mass; h2o: newest slots beside them */
	int32_t from;              /* snapkv: slots from here on are read beside them */
	float *sum;                /* h2o: [n_layer][n_kv_head][cap] */
	struct mass_window window; /* h2o+: what sum[] consists of; by layer and KV head */
	struct tensor query;       /* f32 [n_layer * WINDOW_TOKENS][n_head * head_dim]: the last queries of a prefill */
	struct tensor one_query;   /* f32 [1][n_head * head_dim] */
	int32_t *heavy;            /* h2o: [n_layer][n_kv_head][most]: slots[], on the host */
	float *buf;                /* [cap] */
	int32_t most;
};

static const struct mass_params *par_of(const struct selector *s)
{
	return s->par;
}

static int is_snap(const struct mass_params *par)
{
	return par->kept == KEPT_SNAPKV;
}

/* h2o+: of the queries of a prefill's last tokens, and of one of them. */
static uint64_t query_bytes(const struct hparams *hp)
{
	return 4 * (WINDOW_TOKENS * (uint64_t)hp->n_layer + 1) * (uint64_t)hp->n_head * (uint64_t)hp->head_dim;
}

static uint64_t kept_bytes(const void *values, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	const struct mass_params *par = values;
	uint64_t heads = (uint64_t)hp->n_layer * (uint64_t)hp->n_kv_head, most = (uint64_t)select_most(par->k, cap);

	return 4 * heads * ((uint64_t)cap + most) * (is_snap(par) ? 1 : 2) +
	       (par->kept == KEPT_H2O_PLUS ? mass_window_bytes(heads, cap) + query_bytes(hp) : 0);
}

static int rolling_init(struct selector *s, struct err *err)
{
	struct kept *f = s->state;
	const struct hparams *hp = s->kv->hp;
	int64_t width = (int64_t)hp->n_head * hp->head_dim;

	return mass_window_init(&f->window, hp->n_layer * hp->n_kv_head, s->kv->cap, err) ||
	       select_alloc(s, &f->query, DT_F32, (int64_t)hp->n_layer * WINDOW_TOKENS, width, err) ||
	       select_alloc(s, &f->one_query, DT_F32, 1, width, err) ? -1 : 0;
}

static int kept_init(struct selector *s, struct err *err)
{
	struct kept *f = s->state = xcalloc(1, sizeof *f);
	const struct hparams *hp = s->kv->hp;
	int32_t cap = s->kv->cap;
	size_t heads = (size_t)hp->n_layer * (size_t)hp->n_kv_head;

	s->tail = is_snap(par_of(s)) ? par_of(s)->window : par_of(s)->kept == KEPT_H2O_PLUS ? WINDOW_TOKENS : 1;
	f->most = select_most(par_of(s)->k, cap);
	f->mass = xcalloc((size_t)hp->n_layer, sizeof *f->mass);
	f->slots = xcalloc((size_t)hp->n_layer, sizeof *f->slots);
	if (!(f->buf = try_alloc((size_t)cap, sizeof *f->buf, "sums of probabilities", err)))
		return -1;
	if (!is_snap(par_of(s)) &&
	    (!(f->sum = try_alloc(heads * (size_t)cap, sizeof *f->sum, "sums of probabilities", err)) ||
	     !(f->heavy = try_alloc(heads * (size_t)f->most, sizeof *f->heavy, "selected slots", err))))
		return -1;
	if (f->sum)
		memset(f->sum, 0, heads * (size_t)cap * sizeof *f->sum);
	if (par_of(s)->kept == KEPT_H2O_PLUS && rolling_init(s, err))
		return -1;
	for (int32_t i = 0; i < hp->n_layer; i++)
		if (select_alloc(s, &f->mass[i], DT_F32, hp->n_kv_head, cap, err) ||
		    select_alloc(s, &f->slots[i], DT_I32, hp->n_kv_head, f->most, err))
			return -1;
	return 0;
}

static void kept_release(struct selector *s)
{
	struct kept *f = s->state;

	for (int32_t i = 0; i < s->kv->n_layer; i++) {
		if (f->mass)
			select_drop(s, &f->mass[i]);
		if (f->slots)
			select_drop(s, &f->slots[i]);
	}
	select_drop(s, &f->query);
	select_drop(s, &f->one_query);
	free(f->mass);
	free(f->slots);
	free(f->weight);
	mass_window_release(&f->window);
	free(f->sum);
	free(f->heavy);
	free(f->buf);
}

static int32_t kept_tail(const struct kept *f, const struct selector *s, int32_t n_slots)
{
	return is_snap(par_of(s)) ? n_slots - f->from : f->recent + 1;
}

static int kept_select(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                       const struct tensor *raw, int32_t n_slots, struct attn_part part[SELECT_PARTS])
{
	struct kept *f = s->state;
	int32_t tail = kept_tail(f, s, n_slots), n = 0;

	if (!f->selected || layer < par_of(s)->dense)
		return select_whole(q, n_slots, part);
	if (f->n > 0)
		part[n++] = (struct attn_part){ .q = q, .slots = &f->slots[layer], .n_slots = f->n };
	part[n++] = (struct attn_part){ .q = q, .slot0 = n_slots - tail, .n_slots = tail };
	return n;
}

/* ---- attention mass ---- */

/* Tokens at the end of a step whose attention counts. */
static int32_t counted(const struct selector *s, const struct step *st)
{
	if (par_of(s)->kept == KEPT_H2O)
		return st->n;
	if (step_generates(st))
		return !is_snap(par_of(s));
	if (!st->last)
		return 0;
	return st->n < s->tail ? st->n : s->tail;
}

static const struct attn_probe *kept_probe(struct selector *s, const struct step *st, int32_t layer, int32_t n_slots)
{
	struct kept *f = s->state;
	int32_t n = counted(s, st), cols = step_generates(st) && f->selected ? f->n + kept_tail(f, s, n_slots) : n_slots;

	if (!n || layer < par_of(s)->dense || (f->window.row && !step_generates(st)))
		return NULL;
	if (f->weight_cap < st->n) {
		f->weight = xrealloc(f->weight, (size_t)st->n * sizeof *f->weight);
		f->weight_cap = st->n;
	}
	for (int32_t i = 0; i < st->n; i++)
		f->weight[i] = i >= st->n - n;
	select_zero(s, &f->mass[layer], s->kv->hp->n_kv_head, cols);
	f->probe = (struct attn_probe){
		.mass = &f->mass[layer], .weight = f->weight,
		.reduce = is_snap(par_of(s)) && par_of(s)->window > 1 ? REDUCE_MEAN : REDUCE_MAX,
	};
	return &f->probe;
}

/* The mass of the first n columns of mass[layer] in one KV head, valid until the next call. */
static const float *mass_of_head(struct selector *s, int32_t layer, int32_t head, int32_t n)
{
	struct kept *f = s->state;

	s->kv->be->ops->read(s->kv->be, &f->mass[layer], 4 * (size_t)head * (size_t)f->mass[layer].cols, f->buf, 4 * (size_t)n);
	return f->buf;
}

/* slots[layer] = the k best of the first n columns of mass[layer]. */
static void select_best(struct selector *s, int32_t layer, int32_t n, int32_t k, int32_t pool)
{
	struct kept *f = s->state;

	s->kv->be->ops->topk(s->kv->be, &(struct topk_args){
		.slots = &f->slots[layer], .score = &f->mass[layer], .n_kv_head = s->kv->hp->n_kv_head, .n = n, .k = k, .pool = pool,
	});
}

/* ---- snapkv ---- */

/* Average over `kernel` neighbours; those outside count as 0, as published. */
static void pool_average(struct selector *s, int32_t layer, int32_t n, int32_t kernel)
{
	struct kept *f = s->state;
	struct backend *be = s->kv->be;
	float *out = xcalloc((size_t)n, sizeof *out);

	for (int32_t h = 0; h < s->kv->hp->n_kv_head; h++) {
		const float *x = mass_of_head(s, layer, h, n);

		for (int32_t i = 0; i < n; i++) {
			double sum = 0;

			for (int32_t j = i - kernel / 2; j <= i + kernel / 2; j++)
				sum += j >= 0 && j < n ? (double)x[j] : 0;
			out[i] = (float)(sum / kernel);
		}
		be->ops->write(be, &f->mass[layer], 4 * (size_t)h * (size_t)f->mass[layer].cols, out, 4 * (size_t)n);
	}
	free(out);
}

static void snap_end(struct selector *s, const struct step *st, int32_t n_slots)
{
	struct kept *f = s->state;
	int32_t k = entry_count_of(par_of(s)->k, n_slots), window = counted(s, st), pool = par_of(s)->pool;

	if (step_generates(st))
		return;
	f->selected = st->last && k < n_slots;
	if (!f->selected)
		return;
	window = window < k ? window : k;
	f->from = n_slots - window;
	f->n = k - window;
	for (int32_t i = par_of(s)->dense; f->n > 0 && i < s->kv->n_layer; i++) {
		if (par_of(s)->pool_kind == KIND_AVG)
			pool_average(s, i, f->from, pool);
		select_best(s, i, f->from, f->n, par_of(s)->pool_kind == KIND_AVG ? 1 : pool);
	}
}

/* ---- h2o ---- */

/* Select the heavy entries of a layer. */
static void heavy_select(struct selector *s, int32_t layer, int32_t n_slots)
{
	struct kept *f = s->state;
	struct kv_store *kv = s->kv;
	size_t heads = (size_t)kv->hp->n_kv_head, first = (size_t)layer * heads;

	for (size_t h = 0; h < heads; h++)
		kv->be->ops->write(kv->be, &f->mass[layer], 4 * h * (size_t)kv->cap, f->sum + (first + h) * (size_t)kv->cap,
		                   4 * (size_t)n_slots);
	select_best(s, layer, n_slots - f->recent, f->n, 1);
	kv->be->ops->read(kv->be, &f->slots[layer], 0, f->heavy + first * (size_t)f->most, 4 * heads * (size_t)f->most);
}

/* The slot that fell out of the newest ones replaces the lightest heavy one if its mass is at least as large. */
static void heavy_admit(struct kept *f, const float *sum, int32_t *heavy, int32_t slot)
{
	int32_t lightest = 0;

	for (int32_t i = 1; i < f->n; i++)
		if (sum[heavy[i]] < sum[heavy[lightest]])
			lightest = i;
	if (sum[slot] < sum[heavy[lightest]])
		return;
	memmove(heavy + lightest, heavy + lightest + 1, (size_t)(f->n - lightest - 1) * sizeof *heavy);
	heavy[f->n - 1] = slot;
}

/* h2o+: keep the queries of the last tokens of a prefill until it is committed. */
static void kept_seen(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q, const struct tensor *raw,
                      int32_t n_slots)
{
	struct kept *f = s->state;
	int32_t n = counted(s, st);

	if (f->window.row && n && !step_generates(st) && layer >= par_of(s)->dense)
		s->kv->be->ops->copy(s->kv->be, &f->query, layer * WINDOW_TOKENS, q, st->n - n, n);
}

static float *sums_of(const struct selector *s, int32_t layer, int32_t head)
{
	const struct kept *f = s->state;

	return f->sum + ((size_t)layer * (size_t)s->kv->hp->n_kv_head + (size_t)head) * (size_t)s->kv->cap;
}

/* h2o+: token i of those whose queries were kept enters the window in one layer; it attends to n slots, largest of each group. */
static void window_scan(struct selector *s, int32_t layer, int32_t i, int32_t n)
{
	struct kept *f = s->state;
	const struct hparams *hp = s->kv->hp;

	s->kv->be->ops->copy(s->kv->be, &f->one_query, 0, &f->query, layer * WINDOW_TOKENS + i, 1);
	s->kv->be->ops->key_scan(s->kv->be, &(struct scan_args){
		.out = &f->mass[layer], .q = &f->one_query, .keys = &s->kv->k[layer], .n_head = hp->n_head, .n_kv_head = hp->n_kv_head,
		.head_dim = hp->head_dim, .cap = s->kv->cap, .n_slots = n, .bits = 16, .scale = model_layer_spec(hp, layer)->attn.scale,
		.reduce = REDUCE_MAX,
	});
	for (int32_t h = 0; h < hp->n_kv_head; h++) {
		const float *x = mass_of_head(s, layer, h, n);
		float *sum = sums_of(s, layer, h), *row = mass_window_enter(&f->window, layer * hp->n_kv_head + h, sum, n);

		for (int32_t k = 0; k < n; k++)
			sum[k] += row[k] = expf(x[k]);
	}
}

/* h2o+ after a prefill whose last n tokens count: they are the window. */
static void window_restart(struct selector *s, int32_t n, int32_t n_slots)
{
	struct kept *f = s->state;

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

/* Add the attention of this step's tokens to the sums. */
static void heavy_add(struct selector *s, const struct step *st, int32_t layer, int32_t n_slots)
{
	struct kept *f = s->state;
	int listed = step_generates(st) && f->selected;
	int32_t tail = listed ? f->recent + 1 : n_slots, n = listed ? f->n : 0;

	for (int32_t h = 0; h < s->kv->hp->n_kv_head; h++) {
		size_t at = (size_t)layer * (size_t)s->kv->hp->n_kv_head + (size_t)h;
		float *sum = sums_of(s, layer, h), *row = f->window.row ? mass_window_enter(&f->window, (int32_t)at, sum, n_slots) : NULL;
		int32_t *heavy = f->heavy + at * (size_t)f->most;
		const float *x = mass_of_head(s, layer, h, n + tail);

		for (int32_t i = 0; i < n; i++)
			mass_add(sum, row, heavy[i], x[i]);
		for (int32_t i = 0; i < tail; i++)
			mass_add(sum, row, n_slots - tail + i, x[n + i]);
		if (n)
			heavy_admit(f, sum, heavy, n_slots - f->recent - 1);
	}
	if (n)
		s->kv->be->ops->write(s->kv->be, &f->slots[layer], 0, f->heavy + (size_t)layer * (size_t)s->kv->hp->n_kv_head *
		                      (size_t)f->most, 4 * (size_t)s->kv->hp->n_kv_head * (size_t)f->most);
}

static void heavy_end(struct selector *s, const struct step *st, int32_t n_slots)
{
	struct kept *f = s->state;
	int32_t k = entry_count_of(par_of(s)->k, n_slots), from = par_of(s)->dense, n = counted(s, st);

	if (n && f->window.row && !step_generates(st)) {
		window_restart(s, n, n_slots);
	} else if (n) {
		for (int32_t i = from; i < s->kv->n_layer; i++)
			if (select_serves(s, i))
				heavy_add(s, st, i, n_slots);
		if (f->window.row)
			mass_window_move(&f->window, n_slots);
	}
	if (!step_generates(st))
		f->selected = 0;
	if (f->selected || (!step_generates(st) && !st->last) || k >= n_slots)
		return;
	f->selected = 1;
	f->n = k / 2;
	f->recent = k - f->n;
	for (int32_t i = from; f->n > 0 && i < s->kv->n_layer; i++)
		if (select_serves(s, i))
			heavy_select(s, i, n_slots);
}

/* ---- both ---- */

static void kept_end(struct selector *s, const struct step *st, int32_t n_slots)
{
	if (is_snap(par_of(s)))
		snap_end(s, st, n_slots);
	else
		heavy_end(s, st, n_slots);
}

static int32_t kept_rewind(struct selector *s, int32_t n)
{
	struct kept *f = s->state;

	f->selected = 0;
	mass_window_clear(&f->window);
	if (f->sum)
		memset(f->sum, 0, (size_t)s->kv->n_layer * (size_t)s->kv->hp->n_kv_head * (size_t)s->kv->cap * sizeof *f->sum);
	/* h2o: the sums hold the attention of forgotten tokens, too, so all is prefilled again. */
	return par_of(s)->kept == KEPT_H2O || n < s->tail ? 0 : n - s->tail;
}

/* h2o: each token may change what the next one reads. */
static int32_t kept_verify_most(const struct selector *s, int32_t pos, int32_t n_slots)
{
	return is_snap(par_of(s)) ? VERIFY_MOST : 1;
}

static int kept_steps_matter(const struct selector *s)
{
	return par_of(s)->kept == KEPT_H2O;
}

static int32_t kept_entries(const struct selector *s, int32_t n_slots)
{
	return (int32_t)select_mean(s, par_of(s)->dense, entry_count_of(par_of(s)->k, n_slots), n_slots);
}

static uint64_t kept_read_bytes(const struct selector *s, int32_t n_slots)
{
	double k = entry_count_of(par_of(s)->k, n_slots);

	return select_entry_bytes(s, k >= n_slots ? n_slots : select_mean(s, par_of(s)->dense, k, n_slots));
}

/* ---- for observers ---- */

static int kept_holds(const struct selector *s, int32_t layer, int32_t n_slots, struct attn_part part[SELECT_PARTS])
{
	struct kept *f = s->state;
	int32_t tail = is_snap(par_of(s)) ? n_slots - f->from : f->recent, n = 0;

	if (!f->selected || layer < par_of(s)->dense)
		return select_whole(NULL, n_slots, part);
	if (f->n > 0)
		part[n++] = (struct attn_part){ .slots = &f->slots[layer], .n_slots = f->n };
	part[n++] = (struct attn_part){ .slot0 = n_slots - tail, .n_slots = tail };
	return n;
}

static const float *kept_sums(const struct selector *s, int32_t layer, int32_t head)
{
	const struct kept *f = s->state;

	return f->sum && layer >= par_of(s)->dense ? sums_of(s, layer, head) : NULL;
}

/* ---- saving ---- */

/* The selected slots: within the region, and no more than its columns. */
static void selected_archive(struct selector *s, struct serializer *a, int32_t n_slots)
{
	struct kept *f = s->state;
	struct kv_store *kv = s->kv;
	int32_t heads = kv->hp->n_kv_head, n = f->n, beside = is_snap(par_of(s)) ? f->from : f->recent;

	serialize_i32(a, &n, 0, f->most < n_slots ? f->most : n_slots, "the number of selected slots");
	serialize_i32(a, &beside, is_snap(par_of(s)) ? n : 0, is_snap(par_of(s)) ? n_slots : n_slots - n, "the slots beside those selected");
	for (int32_t i = par_of(s)->dense; i < kv->n_layer && !a->bad; i++)
		for (int32_t h = 0; h < heads; h++) {
			size_t at = (size_t)h * (size_t)f->most;

			serialize_tensor_i32(a, kv->be, &f->slots[i], at, (uint64_t)n, 0, n_slots - 1, "a selected slot");
			if (serialize_loading(a) && f->heavy && !a->bad)
				kv->be->ops->read(kv->be, &f->slots[i], 4 * at, f->heavy + (size_t)i * (size_t)heads * (size_t)f->most + at,
				                  4 * (size_t)n);
		}
	if (!serialize_loading(a) || a->bad)
		return;
	f->n = n;
	if (is_snap(par_of(s)))
		f->from = beside;
	else
		f->recent = beside;
}

static void kept_archive(struct selector *s, struct serializer *a, int32_t n_slots)
{
	struct kept *f = s->state;
	size_t heads = (size_t)s->kv->n_layer * (size_t)s->kv->hp->n_kv_head;
	int32_t selected = f->selected;

	if (serialize_loading(a))
		f->selected = 0;
	for (size_t i = 0; f->sum && i < heads; i++)
		serialize_bytes(a, f->sum + i * (size_t)s->kv->cap, (uint64_t)n_slots * sizeof *f->sum);
	if (f->window.row && !a->bad)
		mass_window_archive(&f->window, a, par_of(s)->dense * s->kv->hp->n_kv_head, n_slots);
	serialize_i32(a, &selected, 0, 1, "whether slots were selected");
	if (selected && !a->bad)
		selected_archive(s, a, n_slots);
	if (!a->bad)
		f->selected = selected;
}

static const struct selector_ops kept_ops = {
	.bytes = kept_bytes, .init = kept_init, .release = kept_release, .select = kept_select, .probe = kept_probe, .seen = kept_seen,
	.end = kept_end, .rewind = kept_rewind, .verify_most = kept_verify_most, .entries = kept_entries, .read_bytes = kept_read_bytes,
	.archive = kept_archive, .steps_matter = kept_steps_matter, .holds = kept_holds, .sums = kept_sums,
};

#define AT(field) offsetof(struct mass_params, field)
static const struct param h2o_params[] = { PARAM_K(struct mass_params, "512"), PARAM_DENSE(struct mass_params, "0"), { .key = NULL } };
static const struct param h2o_plus_params[] = { PARAM_K(struct mass_params, "512"), PARAM_DENSE(struct mass_params, "2"), { .key = NULL } };
static void h2o_preset(void *values) { ((struct mass_params *)values)->kept = KEPT_H2O; }
static void h2o_plus_preset(void *values) { ((struct mass_params *)values)->kept = KEPT_H2O_PLUS; }
const struct policy_def policy_h2o = {
	.name = "h2o", .help = "k entries are read: half those of the largest attention mass so far, half the newest; the others stay unread (H2O)",
	.params = h2o_params, .preset = h2o_preset, .retention = &retain_all, .selector = &kept_ops, .observes_all = 1,
};
const struct policy_def policy_h2o_plus = {
	.name = "h2o+", .help = "h2o by the attention mass of the last 64 tokens, which move on as tokens are generated", .params = h2o_plus_params, .preset = h2o_plus_preset,
	.retention = &retain_all, .selector = &kept_ops,
};

static const struct param snapkv_params[] = {
	PARAM_K(struct mass_params, "512"),
	{ "window", PARAM_INT, AT(window), 0, 0, "1|32|64", "32",
	  "last tokens whose attention selects; 1: largest of a group, else the mean" },
	PARAM_POOL(struct mass_params, "neighbours pooled before selecting"),
	{ "kind", PARAM_CHOICE, AT(pool_kind), 0, 0, "max|avg", "max", "how they are pooled" },
	PARAM_DENSE(struct mass_params, "0"),
	{ .key = NULL },
};
static void snapkv_preset(void *values) { ((struct mass_params *)values)->kept = KEPT_SNAPKV; }
const struct policy_def policy_snapkv = {
	.name = "snapkv", .help = "k entries selected once at the end of the prefill, and all that comes later; the others stay unread (SnapKV)",
	.params = snapkv_params, .preset = snapkv_preset, .retention = &retain_all, .selector = &kept_ops,
};
