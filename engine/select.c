/* engine/select.c - what the selectors share: tensors, sets that serve several steps, the split of rows among layers. */
#include "engine/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/archive.h"

enum { LOOK_ROWS = 1 << 16 };   /* rows that are scanned to measure shares, for each look, or those of one layer */

int select_open(struct selector *s, const struct selector_ops *ops, const struct kv_params *par, struct kv *kv, int own,
                struct err *err)
{
	*s = (struct selector){ .ops = ops, .par = par, .kv = kv, .own = own, .tail = 1 };
	if (!ops->init(s, err))
		return 0;
	select_close(s);
	return -1;
}

static void looks_close(struct selector *s)
{
	struct looks *l = s->looks;

	for (int32_t i = 0; l && l->list && i < s->kv->n_layer; i++)
		select_drop(s, &l->list[i]);
	if (l) {
		free(l->list);
		free(l->layer);
		free(l->score);
		free(l->rows);
	}
	free(l);
	s->looks = NULL;
}

void select_close(struct selector *s)
{
	looks_close(s);
	if (s->state)
		s->ops->release(s);
	free(s->state);
	memset(s, 0, sizeof *s);
}

/* ---- tensors ---- */

int select_alloc(const struct selector *s, struct tensor *t, enum dtype type, int64_t rows, int64_t cols, struct err *err)
{
	struct backend *be = s->kv->be;

	if (rows > INT32_MAX || cols > INT32_MAX || rows <= 0 || cols <= 0)
		return err_set(err, ERR_FIT, "cache policy '%s' cannot address a context of %d tokens; use a smaller -c",
		               s->par->def ? s->par->def->name : "?", s->kv->cap);
	*t = (struct tensor){ .type = type, .rows = (int32_t)rows, .cols = (int32_t)cols };
	if (be->ops->alloc(be, t)) {
		t->data = NULL;
		return err_set(err, ERR_FIT, "cannot allocate what chooses rows among %d tokens: %s", s->kv->cap, be->err);
	}
	return 0;
}

void select_drop(const struct selector *s, struct tensor *t)
{
	if (t->data)
		s->kv->be->ops->drop(s->kv->be, t);
	*t = (struct tensor){ 0 };
}

void select_zero(const struct selector *s, struct tensor *t, int32_t rows, int32_t n)
{
	static const float zero[1024];
	struct backend *be = s->kv->be;

	for (int32_t r = 0; r < rows; r++)
		for (int32_t c = 0, m; c < n; c += m) {
			m = n - c < 1024 ? n - c : 1024;
			be->ops->write(be, t, 4 * ((size_t)r * (size_t)t->cols + (size_t)c), zero, 4 * (size_t)m);
		}
}

int select_whole(const struct tensor *q, int32_t n_rows, struct attn_part part[SELECT_PARTS])
{
	part[0] = (struct attn_part){ .q = q, .n_rows = n_rows };
	return 1;
}

uint64_t select_row_bytes(const struct selector *s, double rows)
{
	return (uint64_t)(rows * (double)kv_token_bytes(s->kv->hp, s->kv->type));
}

int32_t select_most(struct kv_rows k, int32_t cap)
{
	int32_t n = kv_rows_of(k, cap);

	return n < cap ? n : cap;
}

/* ---- who looks ---- */

/* The layers whose share is measured until the next look: the more, the fewer rows are scanned for it. */
static void want_shares(struct selector *s)
{
	struct looks *l = s->looks;
	int32_t n_layer = s->kv->n_layer, n = LOOK_ROWS / (l->at > 0 ? l->at : LOOK_ROWS);

	n = n < 1 ? 1 : n < n_layer ? n : n_layer;
	for (int32_t i = 0; i < n_layer; i++)
		l->layer[i].wanted = (i - l->next + n_layer) % n_layer < n;
	l->next = (l->next + n) % n_layer;
}

void select_look(struct selector *s)
{
	int32_t n_layer = s->kv->n_layer;
	struct looks *l;
	struct err err;

	if (s->looks) {
		want_shares(s);
		return;
	}
	l = s->looks = xcalloc(1, sizeof *l);
	l->layer = xcalloc((size_t)n_layer, sizeof *l->layer);
	for (int32_t i = 0; i < n_layer; i++)
		l->layer[i].now = l->layer[i].share = -1;
	want_shares(s);
	l->refreshed = -1;
	l->cosine = -2;
	if (!s->ops->shared || !s->ops->shared(s))
		return;
	l->list = xcalloc((size_t)n_layer, sizeof *l->list);
	for (int32_t i = 0; i < n_layer; i++)
		if (select_alloc(s, &l->list[i], DT_I32, s->kv->hp->n_kv_head, s->ops->shared(s), &err)) {
			looks_close(s);
			return;
		}
}

int select_choose(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q, const struct tensor *raw,
                  int32_t n_rows, struct attn_part part[SELECT_PARTS])
{
	struct look *look = s->looks ? &s->looks->layer[layer] : NULL;
	int n;

	if (!look)
		return s->ops->choose(s, st, layer, q, raw, n_rows, part);
	s->looks->at = 0;
	look->fresh = -1;
	look->cosine = -2;
	look->now = -1;
	n = s->ops->choose(s, st, layer, q, raw, n_rows, part);
	memcpy(look->part, part, (size_t)n * sizeof *part);
	look->n_part = n;
	look->n_rows = n_rows;
	return n;
}

void select_seen(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q, const struct tensor *raw,
                 int32_t n_rows)
{
	struct look *look = s->looks && st->decode ? &s->looks->layer[layer] : NULL;

	if (look && look->n_rows == n_rows && look->wanted && s->ops->scan)
		select_share(s, layer, s->ops->scan(s, layer, q, n_rows), look->part, look->n_part);
	if (look)
		look->n_rows = 0;
	if (s->ops->seen)
		s->ops->seen(s, st, layer, q, raw, n_rows);
}

/* ---- shares ---- */

/* On the rows that these parts have of one KV head, of which l->score has the probabilities' logarithms. */
static double head_share(struct selector *s, int32_t head, int32_t n_rows, const struct attn_part *part, int n_part)
{
	struct looks *l = s->looks;
	struct backend *be = s->kv->be;
	double sum = 0;

	for (int i = 0; i < n_part; i++) {
		const struct attn_part *p = &part[i];
		int32_t n = p->n_rows < n_rows ? p->n_rows : n_rows, last = p->row0 + n < n_rows ? p->row0 + n : n_rows;

		if (p->rows) {
			memset(l->rows, 0xff, (size_t)n * sizeof *l->rows);
			be->ops->read(be, p->rows, 4 * (size_t)head * (size_t)p->rows->cols, l->rows, 4 * (size_t)n);
		}
		for (int32_t k = 0; p->rows && k < n; k++)
			if (l->rows[k] >= 0 && l->rows[k] < n_rows)
				sum += (double)expf(l->score[l->rows[k]]);
		for (int32_t row = p->row0; !p->rows && row < last; row++)
			sum += (double)expf(l->score[row]);
	}
	return sum;
}

void select_share(struct selector *s, int32_t layer, struct scan_args scan, const struct attn_part *part, int n_part)
{
	struct looks *l = s->looks;
	struct backend *be = s->kv->be;
	int32_t heads = scan.n_kv_head, n = scan.n_rows;
	double sum = 0;

	l->layer[layer].wanted = 0;
	if (n_part == 1 && !part->rows && part->row0 == 0 && part->n_rows >= n) {
		l->layer[layer].now = 1;
		return;
	}
	if (l->cap < n) {
		l->cap = n + n / 4;
		l->score = xrealloc(l->score, (size_t)l->cap * sizeof *l->score);
		l->rows = xrealloc(l->rows, (size_t)l->cap * sizeof *l->rows);
	}
	/* The mean over a group's heads, whatever rows are chosen by: it is what sums to 1 over all rows. */
	scan.reduce = REDUCE_MEAN;
	be->ops->key_scan(be, &scan);
	for (int32_t h = 0; h < heads; h++) {
		memset(l->score, 0, (size_t)n * sizeof *l->score);
		be->ops->read(be, scan.out, 4 * (size_t)h * (size_t)scan.out->cols, l->score, 4 * (size_t)n);
		sum += head_share(s, h, n, part, n_part) / heads;
	}
	/* A scan is made for ranking: its sums may be off by some 1e-4. */
	if (sum >= 0)
		l->layer[layer].now = sum < 1 ? sum : 1;
}

double select_shares(const struct selector *s)
{
	double sum = 0;
	int32_t n = 0;

	for (int32_t i = 0; s->looks && i < s->kv->n_layer; i++)
		if (s->looks->layer[i].share >= 0) {
			sum += s->looks->layer[i].share;
			n++;
		}
	return n ? sum / n : -1;
}

void select_looked(struct selector *s, int32_t n_rows)
{
	struct looks *l = s->looks;
	int32_t n = 0;
	double sum = 0;

	if (!l)
		return;
	l->at = n_rows;
	l->refreshed = -1;
	for (int32_t i = 0; !n_rows && i < s->kv->n_layer; i++)
		l->layer[i].now = l->layer[i].share = -1;
	for (int32_t i = 0; n_rows && i < s->kv->n_layer; i++) {
		struct look *look = &l->layer[i];

		look->n_part = select_settle(s, look->part, look->n_part);
		if (look->now >= 0)
			look->share = look->now;
		look->now = -1;
		if (look->fresh >= 0)
			l->refreshed = (l->refreshed > 0 ? l->refreshed : 0) + look->fresh;
		if (look->cosine >= -1) {
			sum += look->cosine;
			n++;
		}
	}
	if (n)
		l->cosine = sum / n;
}

int select_settle(const struct selector *s, struct attn_part *part, int n_part)
{
	struct backend *be = s->kv->be;
	int n = 0;

	for (int i = 0; i < n_part; i++) {
		const struct predicate *w = &part[i].when;
		int32_t flag = w->is;

		if (w->flag)
			be->ops->read(be, w->flag, 4 * (size_t)w->col, &flag, sizeof flag);
		if (flag != w->is)
			continue;
		part[n] = part[i];
		part[n++].when.flag = NULL;
	}
	return n;
}

/* ---- the split ---- */

/* Rows of one layer at that scale, not rounded. */
static double split_part(double scale, double need, double low, double high)
{
	double x = scale * need;

	return x < low ? low : x > high ? high : x;
}

static double split_sum(double scale, const double *need, int32_t n_layer, double low, double high)
{
	double sum = 0;

	for (int32_t i = 0; i < n_layer; i++)
		sum += split_part(scale, need[i], low, high);
	return sum;
}

void select_split(int32_t *k, const double *need, int32_t n_layer, int32_t mean, int32_t most)
{
	double high = 3.0 * mean < most ? 3.0 * mean : most, low = mean / 4 > 1 ? mean / 4 : 1, lo = 0, hi = 1;
	int32_t left = 0;
	int usable = need && mean < most;

	for (int32_t i = 0; usable && i < n_layer; i++)
		usable = need[i] > 0 && isfinite(need[i]);
	for (int32_t i = 0; i < n_layer; i++)
		k[i] = mean < most ? mean : most;
	if (!usable)
		return;
	/* The sum grows with the scale, up to n_layer * high, which is enough. */
	while (split_sum(hi, need, n_layer, low, high) < (double)n_layer * mean)
		hi *= 2;
	for (int i = 0; i < 100; i++) {
		double mid = (lo + hi) / 2;

		if (split_sum(mid, need, n_layer, low, high) < (double)n_layer * mean)
			lo = mid;
		else
			hi = mid;
	}
	for (int32_t i = 0; i < n_layer; i++) {
		k[i] = (int32_t)split_part(hi, need[i], low, high);
		left += mean - k[i];
	}
	/* What rounding took goes to the layers that lost most, a row each. */
	for (; left > 0; left--) {
		int32_t best = -1;
		double most_lost = -1;

		for (int32_t i = 0; i < n_layer; i++) {
			double lost = split_part(hi, need[i], low, high) - k[i];

			if (k[i] < most && lost > most_lost) {
				most_lost = lost;
				best = i;
			}
		}
		if (best < 0)
			break;
		k[best]++;
	}
}

/* ---- sets ---- */

uint64_t picks_bytes(const struct hparams *hp, int32_t most)
{
	return 8 * (uint64_t)hp->n_layer * (uint64_t)hp->n_kv_head * (uint64_t)most;
}

int picks_init(struct picks *p, const struct selector *s, int32_t most, struct err *err)
{
	int32_t n_layer = s->kv->n_layer;

	p->n_layer = n_layer;
	p->slot = xcalloc((size_t)n_layer, sizeof *p->slot);
	p->cur = xcalloc((size_t)n_layer, 1);
	p->fresh = xcalloc((size_t)n_layer, 1);
	for (int32_t i = 0; i < 2 * n_layer; i++)
		if (select_alloc(s, &p->slot[i / 2][i % 2].rows, DT_I32, s->kv->hp->n_kv_head, most, err))
			return -1;
	return 0;
}

void picks_release(struct picks *p, const struct selector *s)
{
	for (int32_t i = 0; p->slot && i < 2 * p->n_layer; i++)
		select_drop(s, &p->slot[i / 2][i % 2].rows);
	free(p->slot);
	free(p->cur);
	free(p->fresh);
	*p = (struct picks){ 0 };
}

struct pick *picks_spare(struct picks *p, int32_t layer, int32_t at, int32_t k)
{
	struct pick *new = &p->slot[layer][!p->cur[layer]];

	new->at = at;
	new->k = k;
	return new;
}

struct pick *picks_new(struct picks *p, int32_t layer, int32_t at, int32_t k)
{
	p->fresh[layer] = 1;
	return picks_spare(p, layer, at, k);
}

void picks_commit(struct picks *p)
{
	for (int32_t i = 0; i < p->n_layer; i++) {
		p->cur[i] ^= p->fresh[i];
		p->fresh[i] = 0;
	}
}

void picks_forget(struct picks *p, int32_t n)
{
	for (int32_t i = 0; i < p->n_layer; i++) {
		p->fresh[i] = 0;
		if (p->slot[i][p->cur[i]].at > n)
			p->slot[i][p->cur[i]].at = 0;
	}
}

void picks_archive(struct picks *p, const struct selector *s, struct archive *a)
{
	for (int32_t i = 0; i < p->n_layer; i++) {
		struct pick *set;
		int32_t at, k;

		if (archive_loads(a))
			p->cur[i] = p->fresh[i] = 0;
		set = &p->slot[i][p->cur[i]];
		at = set->at;
		k = set->k;
		set->at = archive_loads(a) ? 0 : at;
		archive_i32(a, &at, 0, s->kv->cap, "a set of rows");
		if (!at || a->bad)
			continue;
		archive_i32(a, &k, 1, at < set->rows.cols ? at : set->rows.cols, "the size of a set of rows");
		for (int32_t h = 0; h < s->kv->hp->n_kv_head && !a->bad; h++)
			archive_list(a, s->kv->be, &set->rows, (uint64_t)h * (uint64_t)set->rows.cols, (uint64_t)k, 0, at - 1,
			             "a row of a set");
		if (a->bad)
			return;
		set->at = at;
		set->k = k;
	}
}
