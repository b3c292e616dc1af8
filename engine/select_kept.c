/* engine/select_kept.c - rivals that choose from the attention of what was read: `h2o`, `h2o+`, `snapkv`.
 *
 * Their authors drop the rows that are not chosen.  Here nothing is freed: the list is what generated tokens read, so
 * the methods can be compared, and the next text that is read sees everything and chooses anew.
 *
 *     h2o      half of K are the rows with the largest sum of probabilities over all tokens so far, half are the newest.
 *              As a generated token comes, the newest half moves by one, and the row that falls out of it replaces
 *              the weakest of the heavy ones if its sum is at least as large.
 *     h2o+     the same, but sums begin with the last 64 tokens that were read, and the first layers read everything
 *     snapkv   K rows at the end of what is read: the last `window` tokens and those that they looked at most,
 *              pooled; whatever comes later is added, nothing leaves
 *
 * Sums are kept on the host: a step adds K numbers per KV head. */
#include "engine/select.h"

#include <stdlib.h>
#include <string.h>

#include "engine/serialize.h"

enum { PLUS_TOKENS = 64 };

struct kept {
	struct tensor *mass;       /* [n_layer] f32 [n_kv_head][cap]: what this call's tokens looked at */
	struct tensor *rows;       /* [n_layer] i32 [n_kv_head][most]: the chosen ones, ascending */
	struct attn_probe probe;
	float *weight;             /* [weight_cap] */
	int32_t weight_cap;
	int chosen;                /* else everything is read */
	int32_t n, recent;         /* chosen rows; h2o: newest rows beside them */
	int32_t from;              /* snapkv: the first row beside them */
	float *sum;                /* h2o: [n_layer][n_kv_head][cap] */
	int32_t *heavy;            /* h2o: [n_layer][n_kv_head][most], as rows[] */
	float *buf;                /* [cap] */
	int32_t most;
};

static int is_snap(const struct kv_params *par)
{
	return par->kept == KEPT_SNAPKV;
}

static uint64_t kept_bytes(const struct kv_params *par, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	uint64_t heads = (uint64_t)hp->n_layer * (uint64_t)hp->n_kv_head, most = (uint64_t)select_most(par->k, cap);

	return 4 * heads * ((uint64_t)cap + most) * (is_snap(par) ? 1 : 2);
}

static int kept_init(struct selector *s, struct err *err)
{
	struct kept *f = s->state = xcalloc(1, sizeof *f);
	const struct hparams *hp = s->kv->hp;
	int32_t cap = s->kv->cap;
	size_t heads = (size_t)hp->n_layer * (size_t)hp->n_kv_head;

	s->tail = is_snap(s->par) ? s->par->window : s->par->kept == KEPT_H2O_PLUS ? PLUS_TOKENS : 1;
	f->most = select_most(s->par->k, cap);
	f->mass = xcalloc((size_t)hp->n_layer, sizeof *f->mass);
	f->rows = xcalloc((size_t)hp->n_layer, sizeof *f->rows);
	if (!(f->buf = try_alloc((size_t)cap, sizeof *f->buf, "sums of probabilities", err)))
		return -1;
	if (!is_snap(s->par) &&
	    (!(f->sum = try_alloc(heads * (size_t)cap, sizeof *f->sum, "sums of probabilities", err)) ||
	     !(f->heavy = try_alloc(heads * (size_t)f->most, sizeof *f->heavy, "chosen rows", err))))
		return -1;
	if (f->sum)
		memset(f->sum, 0, heads * (size_t)cap * sizeof *f->sum);
	for (int32_t i = 0; i < hp->n_layer; i++)
		if (select_alloc(s, &f->mass[i], DT_F32, hp->n_kv_head, cap, err) ||
		    select_alloc(s, &f->rows[i], DT_I32, hp->n_kv_head, f->most, err))
			return -1;
	return 0;
}

static void kept_release(struct selector *s)
{
	struct kept *f = s->state;

	for (int32_t i = 0; i < s->kv->n_layer; i++) {
		if (f->mass)
			select_drop(s, &f->mass[i]);
		if (f->rows)
			select_drop(s, &f->rows[i]);
	}
	free(f->mass);
	free(f->rows);
	free(f->weight);
	free(f->sum);
	free(f->heavy);
	free(f->buf);
}

static int32_t kept_tail(const struct kept *f, const struct selector *s, int32_t n_rows)
{
	return is_snap(s->par) ? n_rows - f->from : f->recent + 1;
}

static int kept_choose(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                       const struct tensor *raw, int32_t n_rows, struct attn_part part[SELECT_PARTS])
{
	struct kept *f = s->state;
	int32_t tail = kept_tail(f, s, n_rows), n = 0;

	if (!f->chosen || layer < s->par->dense)
		return select_whole(q, n_rows, part);
	if (f->n > 0)
		part[n++] = (struct attn_part){ .q = q, .rows = &f->rows[layer], .n_rows = f->n };
	part[n++] = (struct attn_part){ .q = q, .row0 = n_rows - tail, .n_rows = tail };
	return n;
}

/* ---- what was looked at ---- */

/* Tokens at the end of a call whose attention counts. */
static int32_t counted(const struct selector *s, const struct step *st)
{
	if (s->par->kept == KEPT_H2O)
		return st->n;
	if (st->decode)
		return !is_snap(s->par);
	if (!st->last)
		return 0;
	return st->n < s->tail ? st->n : s->tail;
}

static const struct attn_probe *kept_probe(struct selector *s, const struct step *st, int32_t layer, int32_t n_rows)
{
	struct kept *f = s->state;
	int32_t n = counted(s, st), cols = st->decode && f->chosen ? f->n + kept_tail(f, s, n_rows) : n_rows;

	if (!n || layer < s->par->dense)
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
		.reduce = is_snap(s->par) && s->par->window > 1 ? REDUCE_MEAN : REDUCE_MAX,
	};
	return &f->probe;
}

static const float *mass_row(struct selector *s, int32_t layer, int32_t head, int32_t n)
{
	struct kept *f = s->state;

	s->kv->be->ops->read(s->kv->be, &f->mass[layer], 4 * (size_t)head * (size_t)f->mass[layer].cols, f->buf, 4 * (size_t)n);
	return f->buf;
}

/* The k best of the first n columns of mass[layer] go to rows[layer]. */
static void choose_rows(struct selector *s, int32_t layer, int32_t n, int32_t k, int32_t pool)
{
	struct kept *f = s->state;

	s->kv->be->ops->topk(s->kv->be, &(struct topk_args){
		.rows = &f->rows[layer], .score = &f->mass[layer], .n_kv_head = s->kv->hp->n_kv_head, .n = n, .k = k, .pool = pool,
	});
}

/* ---- snapkv ---- */

/* Average over `kernel` neighbours; what lies outside counts as 0, as published. */
static void pool_average(struct selector *s, int32_t layer, int32_t n, int32_t kernel)
{
	struct kept *f = s->state;
	struct backend *be = s->kv->be;
	float *out = xcalloc((size_t)n, sizeof *out);

	for (int32_t h = 0; h < s->kv->hp->n_kv_head; h++) {
		const float *x = mass_row(s, layer, h, n);

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

static void snap_end(struct selector *s, const struct step *st, int32_t n_rows)
{
	struct kept *f = s->state;
	int32_t k = kv_rows_of(s->par->k, n_rows), window = counted(s, st), pool = s->par->pool;

	if (st->decode)
		return;
	f->chosen = st->last && k < n_rows;
	if (!f->chosen)
		return;
	window = window < k ? window : k;
	f->from = n_rows - window;
	f->n = k - window;
	for (int32_t i = s->par->dense; f->n > 0 && i < s->kv->n_layer; i++) {
		if (s->par->pool_kind == KIND_AVG)
			pool_average(s, i, f->from, pool);
		choose_rows(s, i, f->from, f->n, s->par->pool_kind == KIND_AVG ? 1 : pool);
	}
}

/* ---- h2o ---- */

static void heavy_choose(struct selector *s, int32_t layer, int32_t n_rows)
{
	struct kept *f = s->state;
	struct kv *kv = s->kv;
	size_t heads = (size_t)kv->hp->n_kv_head, first = (size_t)layer * heads;

	for (size_t h = 0; h < heads; h++)
		kv->be->ops->write(kv->be, &f->mass[layer], 4 * h * (size_t)kv->cap, f->sum + (first + h) * (size_t)kv->cap,
		                   4 * (size_t)n_rows);
	choose_rows(s, layer, n_rows - f->recent, f->n, 1);
	kv->be->ops->read(kv->be, &f->rows[layer], 0, f->heavy + first * (size_t)f->most, 4 * heads * (size_t)f->most);
}

/* The row that left the newest ones stands up against the weakest of the heavy ones. */
static void heavy_admit(struct kept *f, const float *sum, int32_t *heavy, int32_t row)
{
	int32_t weakest = 0;

	for (int32_t i = 1; i < f->n; i++)
		if (sum[heavy[i]] < sum[heavy[weakest]])
			weakest = i;
	if (sum[row] < sum[heavy[weakest]])
		return;
	memmove(heavy + weakest, heavy + weakest + 1, (size_t)(f->n - weakest - 1) * sizeof *heavy);
	heavy[f->n - 1] = row;
}

/* Add what this call's tokens looked at. */
static void heavy_add(struct selector *s, const struct step *st, int32_t layer, int32_t n_rows)
{
	struct kept *f = s->state;
	int listed = st->decode && f->chosen;
	int32_t tail = listed ? f->recent + 1 : n_rows, n = listed ? f->n : 0;

	for (int32_t h = 0; h < s->kv->hp->n_kv_head; h++) {
		size_t at = (size_t)layer * (size_t)s->kv->hp->n_kv_head + (size_t)h;
		float *sum = f->sum + at * (size_t)s->kv->cap;
		int32_t *heavy = f->heavy + at * (size_t)f->most;
		const float *x = mass_row(s, layer, h, n + tail);

		if (s->par->kept == KEPT_H2O_PLUS && !st->decode)
			memset(sum, 0, (size_t)n_rows * sizeof *sum);
		for (int32_t i = 0; i < n; i++)
			sum[heavy[i]] += x[i];
		for (int32_t i = 0; i < tail; i++)
			sum[n_rows - tail + i] += x[n + i];
		if (n)
			heavy_admit(f, sum, heavy, n_rows - f->recent - 1);
	}
	if (n)
		s->kv->be->ops->write(s->kv->be, &f->rows[layer], 0, f->heavy + (size_t)layer * (size_t)s->kv->hp->n_kv_head *
		                      (size_t)f->most, 4 * (size_t)s->kv->hp->n_kv_head * (size_t)f->most);
}

static void heavy_end(struct selector *s, const struct step *st, int32_t n_rows)
{
	struct kept *f = s->state;
	int32_t k = kv_rows_of(s->par->k, n_rows), from = s->par->dense;

	if (counted(s, st))
		for (int32_t i = from; i < s->kv->n_layer; i++)
			heavy_add(s, st, i, n_rows);
	if (!st->decode)
		f->chosen = 0;
	if (f->chosen || (!st->decode && !st->last) || k >= n_rows)
		return;
	f->chosen = 1;
	f->n = k / 2;
	f->recent = k - f->n;
	for (int32_t i = from; f->n > 0 && i < s->kv->n_layer; i++)
		heavy_choose(s, i, n_rows);
}

/* ---- both ---- */

static void kept_end(struct selector *s, const struct step *st, int32_t n_rows)
{
	if (is_snap(s->par))
		snap_end(s, st, n_rows);
	else
		heavy_end(s, st, n_rows);
}

static int32_t kept_rewind(struct selector *s, int32_t n)
{
	struct kept *f = s->state;

	f->chosen = 0;
	if (f->sum)
		memset(f->sum, 0, (size_t)s->kv->n_layer * (size_t)s->kv->hp->n_kv_head * (size_t)s->kv->cap * sizeof *f->sum);
	/* h2o: the sums hold what the forgotten tokens looked at, too. */
	return s->par->kept == KEPT_H2O || n < s->tail ? 0 : n - s->tail + 1;
}

static uint64_t kept_read_bytes(const struct selector *s, int32_t n_rows)
{
	double k = kv_rows_of(s->par->k, n_rows), layers = s->kv->n_layer;
	double dense = s->par->dense < s->kv->n_layer ? s->par->dense / layers : 1;

	return select_row_bytes(s, k >= n_rows ? n_rows : dense * n_rows + (1 - dense) * k);
}

/* ---- for those who look ---- */

static int kept_holds(const struct selector *s, int32_t layer, int32_t n_rows, struct attn_part part[SELECT_PARTS])
{
	struct kept *f = s->state;
	int32_t tail = is_snap(s->par) ? n_rows - f->from : f->recent, n = 0;

	if (!f->chosen || layer < s->par->dense)
		return select_whole(NULL, n_rows, part);
	if (f->n > 0)
		part[n++] = (struct attn_part){ .rows = &f->rows[layer], .n_rows = f->n };
	part[n++] = (struct attn_part){ .row0 = n_rows - tail, .n_rows = tail };
	return n;
}

static const float *kept_sums(const struct selector *s, int32_t layer, int32_t head)
{
	const struct kept *f = s->state;

	return f->sum && layer >= s->par->dense
	       ? f->sum + ((size_t)layer * (size_t)s->kv->hp->n_kv_head + (size_t)head) * (size_t)s->kv->cap : NULL;
}

/* ---- saving ---- */

/* The rows that were chosen: within the region, and no more than its columns. */
static void chosen_archive(struct selector *s, struct serializer *a, int32_t n_rows)
{
	struct kept *f = s->state;
	struct kv *kv = s->kv;
	int32_t heads = kv->hp->n_kv_head, n = f->n, beside = is_snap(s->par) ? f->from : f->recent;

	serialize_i32(a, &n, 0, f->most < n_rows ? f->most : n_rows, "the number of chosen rows");
	serialize_i32(a, &beside, is_snap(s->par) ? n : 0, is_snap(s->par) ? n_rows : n_rows - n, "the rows beside those chosen");
	for (int32_t i = s->par->dense; i < kv->n_layer && !a->bad; i++)
		for (int32_t h = 0; h < heads; h++) {
			size_t at = (size_t)h * (size_t)f->most;

			serialize_tensor_i32(a, kv->be, &f->rows[i], at, (uint64_t)n, 0, n_rows - 1, "a chosen row");
			if (serialize_loading(a) && f->heavy && !a->bad)
				kv->be->ops->read(kv->be, &f->rows[i], 4 * at, f->heavy + (size_t)i * (size_t)heads * (size_t)f->most + at,
				                  4 * (size_t)n);
		}
	if (!serialize_loading(a) || a->bad)
		return;
	f->n = n;
	if (is_snap(s->par))
		f->from = beside;
	else
		f->recent = beside;
}

static void kept_archive(struct selector *s, struct serializer *a, int32_t n_rows)
{
	struct kept *f = s->state;
	size_t heads = (size_t)s->kv->n_layer * (size_t)s->kv->hp->n_kv_head;
	int32_t chosen = f->chosen;

	if (serialize_loading(a))
		f->chosen = 0;
	for (size_t i = 0; f->sum && i < heads; i++)
		serialize_bytes(a, f->sum + i * (size_t)s->kv->cap, (uint64_t)n_rows * sizeof *f->sum);
	serialize_i32(a, &chosen, 0, 1, "whether rows were chosen");
	if (chosen && !a->bad)
		chosen_archive(s, a, n_rows);
	if (!a->bad)
		f->chosen = chosen;
}

const struct selector_ops select_kept = {
	.bytes = kept_bytes, .init = kept_init, .release = kept_release, .choose = kept_choose, .probe = kept_probe,
	.end = kept_end, .rewind = kept_rewind, .read_bytes = kept_read_bytes, .archive = kept_archive,
	.holds = kept_holds, .sums = kept_sums,
};
