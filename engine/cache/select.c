/* engine/cache/select.c - helpers of selectors: tensors, division of entries among layers, selections that several
 * tokens use. */
#include "engine/cache/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/serialize.h"
#include "engine/cache/cache.h"

int32_t entry_count_of(struct entry_count c, int32_t length)
{
	int32_t n = c.share > 0 ? (int32_t)(c.share * length) : c.n;

	return n > 0 ? n : 1;
}

int select_open(struct selector *s, const struct policy *p, struct kv_store *kv, int own, struct err *err)
{
	*s = (struct selector){
		.ops = p->def->selector, .policy = p->def->name, .par = p->values, .kv = kv, .own = own, .tail = 1
	};
	if (!s->ops->init(s, err))
		return 0;
	select_close(s);
	return -1;
}

void select_close(struct selector *s)
{
	if (s->state && s->ops->release)
		s->ops->release(s);
	free(s->state);
	memset(s, 0, sizeof *s);
}

/* ---- tensors ---- */

/* Allocate t by `alloc`, an operation of the backend. */
static int tensor_alloc(const struct selector *s, int (*alloc)(struct backend *, struct tensor *), struct tensor *t,
                        enum dtype type, int64_t rows, int64_t cols, struct err *err)
{
	struct backend *be = s->kv->be;

	if (rows > INT32_MAX || cols > INT32_MAX || rows <= 0 || cols <= 0)
		return err_set(err, ERR_FIT,
		               "cache policy '%s' cannot address a context of %d tokens; use a smaller -c", s->policy,
		               s->kv->cap);
	*t = (struct tensor){ .type = type, .rows = (int32_t)rows, .cols = (int32_t)cols };
	if (alloc(be, t)) {
		t->data = NULL;
		return err_set(err, ERR_FIT, "cannot allocate the selector of %d KV entries: %s", s->kv->cap, be->err);
	}
	return 0;
}

int select_alloc(const struct selector *s, struct tensor *t, enum dtype type, int64_t rows, int64_t cols,
                 struct err *err)
{
	return tensor_alloc(s, s->kv->be->ops->alloc, t, type, rows, cols, err);
}

int select_alloc_host(const struct selector *s, struct tensor *t, enum dtype type, int64_t rows, int64_t cols,
                      struct err *err)
{
	return tensor_alloc(s, s->kv->be->ops->alloc_host, t, type, rows, cols, err);
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

int select_whole(const struct tensor *q, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	seg[0] = (struct attn_segment){ .q = q, .n_slots = n_slots };
	return 1;
}

uint64_t select_entry_bytes(const struct selector *s, double entries)
{
	return (uint64_t)(entries * (double)kv_full_read_bytes(s->kv->hp, s->kv->types));
}

double select_mean(const struct selector *s, int32_t dense, double some, int32_t n_slots)
{
	double share = dense < s->kv->n_layer ? (double)dense / s->kv->n_layer : 1;

	return share * n_slots + (1 - share) * some;
}

int32_t select_most(struct entry_count k, int32_t cap)
{
	int32_t n = entry_count_of(k, cap);

	return MIN(n, cap);
}

int32_t select_until(int32_t pos, int32_t start, int32_t every)
{
	int32_t since = every < 1 ? -1 : (pos - start) % every;

	return since < 0 ? 1 : every - since;
}

/* ---- division of entries among layers ---- */

/* Return a layer's number of entries before rounding: scale * spread, but at least `low` and at most `high`. */
static double split_part(double scale, double spread, double low, double high)
{
	double x = scale * spread;

	return x < low ? low : MIN(high, x);
}

static double split_sum(double scale, const double *spread, int32_t n_layer, double low, double high)
{
	double sum = 0;

	for (int32_t i = 0; i < n_layer; i++)
		sum += split_part(scale, spread[i], low, high);
	return sum;
}

void select_split(int32_t *k, const double *spread, int32_t n_layer, int32_t mean, int32_t most)
{
	double high = 3.0 * mean < most ? 3.0 * mean : most, low = mean / 4 > 1 ? mean / 4 : 1, lo = 0, hi = 1;
	int32_t left = 0;
	int usable = spread && mean < most;

	for (int32_t i = 0; usable && i < n_layer; i++)
		usable = spread[i] > 0 && isfinite(spread[i]);
	for (int32_t i = 0; i < n_layer; i++)
		k[i] = MIN(mean, most);
	if (!usable)
		return;
	/* Layer i gets hi * spread[i] entries, within limits. Find by bisection the factor `hi` with which all layers
	 * together get n_layer * mean entries. The sum over the layers grows with the factor. */
	while (split_sum(hi, spread, n_layer, low, high) < (double)n_layer * mean)
		hi *= 2;
	for (int i = 0; i < 100; i++) {
		double mid = (lo + hi) / 2;

		if (split_sum(mid, spread, n_layer, low, high) < (double)n_layer * mean)
			lo = mid;
		else
			hi = mid;
	}
	for (int32_t i = 0; i < n_layer; i++) {
		k[i] = (int32_t)split_part(hi, spread[i], low, high);
		left += mean - k[i];
	}
	/* Because the layers' numbers were rounded down, a few entries are left. Give each of these entries to the
	 * layer whose number was reduced most by rounding. */
	for (; left > 0; left--) {
		int32_t best = -1;
		double most_lost = -1;

		for (int32_t i = 0; i < n_layer; i++) {
			double lost = split_part(hi, spread[i], low, high) - k[i];

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

/* ---- selections that several tokens use ---- */

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
	p->was_fresh = xcalloc((size_t)n_layer, 1);
	for (int32_t i = 0; i < 2 * n_layer; i++)
		if (select_alloc(s, &p->slot[i / 2][i % 2].slots, DT_I32, s->kv->hp->n_kv_head, most, err))
			return -1;
	return 0;
}

void picks_release(struct picks *p, const struct selector *s)
{
	for (int32_t i = 0; p->slot && i < 2 * p->n_layer; i++)
		select_drop(s, &p->slot[i / 2][i % 2].slots);
	free(p->slot);
	free(p->cur);
	free(p->fresh);
	free(p->was_fresh);
	*p = (struct picks){ 0 };
}

void picks_enter(struct picks *p, const struct step *st, int32_t layer)
{
	if (!st->index)
		p->fresh[layer] = 0;
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

void picks_commit(struct picks *p, const struct step *st)
{
	for (int32_t i = 0; i < p->n_layer; i++) {
		/* Only the last drafted token of a VERIFY step selects (verify_most()). If this token is not
		 * committed, drop the set that it selected. */
		if (st->n < st->tried)
			p->fresh[i] = 0;
		p->was_fresh[i] = p->fresh[i];
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

void picks_archive(struct picks *p, const struct selector *s, struct serializer *a)
{
	for (int32_t i = 0; i < p->n_layer; i++) {
		struct pick *set;
		int32_t at, k;

		if (serialize_loading(a))
			p->cur[i] = p->fresh[i] = 0;
		set = &p->slot[i][p->cur[i]];
		at = set->at;
		k = set->k;
		set->at = serialize_loading(a) ? 0 : at;
		serialize_i32(a, &at, 0, s->kv->cap, "a set of KV entries");
		if (!at || a->bad)
			continue;
		serialize_i32(a, &k, 1, MIN(at, set->slots.cols), "the size of a set of KV entries");
		for (int32_t h = 0; h < s->kv->hp->n_kv_head && !a->bad; h++)
			serialize_tensor_i32(a, s->kv->be, &set->slots, (uint64_t)h * (uint64_t)set->slots.cols,
			                     (uint64_t)k, 0, at - 1, "an entry of a set");
		if (a->bad)
			return;
		set->at = at;
		set->k = k;
	}
}
