/* engine/timeline/view_rings.c - counts by column which tokens the ring buffers of a cache keep, and sums their
 * attention mass (view.h).
 *
 * With 8,000 slots and 90 pairs (layer, KV head), 700,000 token numbers and as many sums of mass are read. So memory
 * access limits the speed. Both arrays (rings.id, rings.mass) are [slot][head]. They are read head by head, in blocks
 * of slots that fit the L1 or L2 cache. Neighbouring slots of the same column are summed before the column's sum is
 * written. */
#include "engine/timeline/view.h"
#include "engine/observe/observe.h"

#include <math.h>

enum { BLOCK = 128 }; /* number of slots per block */

/* Return the layer of a head. A head is a pair (layer, KV head), or a whole layer if evictions are decided per
 * layer. */
static int32_t layer_of(const struct view_work *w, int32_t head)
{
	return w->p->kv.full[w->heads == w->p->kv.n_full ? head : head / w->p->hp->n_kv_head];
}

/* Return the sum of the n floats x[0], x[apart], x[2 * apart], and so on. Four partial sums let additions overlap. */
static double sum_of(const float *x, int32_t n, int32_t apart)
{
	float s[4] = { 0 };
	int32_t i = 0;

	for (; i + 4 <= n; i += 4)
		for (int k = 0; k < 4; k++)
			s[k] += x[(size_t)(i + k) * (size_t)apart];
	for (; i < n; i++)
		s[0] += x[(size_t)i * (size_t)apart];
	return (double)(s[0] + s[1]) + (double)(s[2] + s[3]);
}

/* Count the tokens in the slots from `slot` to `end` - 1 of ring buffer i for one head, and sum the tokens' attention
 * mass. `times` is the number of heads that keep the same tokens. Each count is multiplied by it. */
static void add_head(struct view_work *w, int32_t i, int32_t head, int32_t slot, int32_t end, int64_t times)
{
	const struct rings *r = w->in.rings;
	const float *sum = w->in.observed ? r->mass + head : NULL;
	double *heat = view_heat_row(w, layer_of(w, head)), all = 0;
	uint32_t per = (uint32_t)w->out->per_col;

	for (int32_t n; slot < end; slot += n) {
		const int32_t *id = r->id + (size_t)slot * (size_t)r->heads + (size_t)head;
		int32_t col = view_column(w, *id);
		uint32_t first = (uint32_t)col * per;

		for (n = 1; slot + n < end && (uint32_t)id[(size_t)n * (size_t)r->heads] - first < per; n++)
			;
		if (col >= w->out->cols)
			continue;
		w->kept[1 + i][col] += n * times;
		if (sum) {
			double s = sum_of(sum + (size_t)slot * (size_t)r->heads, n, r->heads);

			heat[col] += s;
			all += s;
		}
	}
	w->ring[1 + i] += all;
}

/* Count the tokens in the slots from `slot` to `end` - 1 of ring buffer i, for all heads. If there is no attention
 * mass, all heads keep the same tokens, so one head is counted for all. */
static void add_ring(struct view_work *w, int32_t i, int32_t slot, int32_t end)
{
	int32_t heads = w->in.observed ? w->heads : 1;

	for (int32_t at = slot; at < end; at += BLOCK)
		for (int32_t h = 0; h < heads; h++)
			add_head(w, i, h, at, at + BLOCK < end ? at + BLOCK : end, w->heads / heads);
}

/* Add the tokens from `first` to `end` - 1 to the counts of ring buffer i. The buffers must not be full yet: then slot
 * s has token sinks + s. */
static void add_filling(struct view_work *w, int32_t i, int32_t first, int32_t end)
{
	const struct rings *r = w->in.rings;

	view_keep_range(w, 1 + i, first, end);
	if (!w->in.observed)
		return;
	for (struct view_piece p = view_pieces(w, first, end); view_piece_next(w, &p);) {
		const float *sum = r->mass + (size_t)(p.at - r->s.sinks) * (size_t)r->heads;

		for (int32_t h = 0; h < w->heads; h++) {
			double s = sum_of(sum + h, p.n, r->heads);

			view_heat_row(w, layer_of(w, h))[p.col] += s;
			w->ring[1 + i] += s;
		}
	}
}

/* The newest tokens may still wait to be inserted in a ring buffer. Count them as tokens of the newest buffer. */
static void add_waiting(struct view_work *w)
{
	const struct rings *r = w->in.rings;

	view_keep_range(w, 1, r->t, w->out->n_tokens);
	for (int32_t i = 0; w->in.observed && i < w->in.waiting; i++) {
		int32_t col = view_column(w, r->t + i);

		for (int32_t h = 0; col < w->out->cols && h < w->heads; h++) {
			double s = (double)r->mass[(size_t)(r->size + i) * (size_t)r->heads + (size_t)h];

			view_heat_row(w, layer_of(w, h))[col] += s;
			w->ring[1] += s;
		}
	}
}

void view_rings(struct view_work *w)
{
	const struct rings *r = w->in.rings;
	struct cache_view *v = w->out;
	double sum = 0;

	view_keep_range(w, 0, 0, r->s.sinks);
	for (int32_t i = 0; i < r->s.n; i++) {
		int32_t fill = rings_fill(r, i), end = rings_filling(r) ? r->t - i * r->s.w : (r->s.n - i) * r->s.w;

		if (fill > 0)
			(rings_filling(r) ? add_filling : add_ring)(w, i, end - fill, end);
	}
	if (r->t >= r->s.sinks)
		add_waiting(w);
	for (int32_t i = 0; i < r->s.n; i++)
		sum += w->ring[1 + i];
	w->in.observed &= sum > 0 && isfinite(sum);
	for (int32_t i = 0; w->in.observed && i < r->s.n; i++)
		v->share[1 + i] = (float)(w->ring[1 + i] / sum);
}

/* Return the largest attention mass in w->heat, without the columns of the first VIEW_SINKS tokens. If this would be 0,
 * include these columns. */
static double heat_most(struct view_work *w)
{
	struct cache_view *v = w->out;

	for (int32_t first = (VIEW_SINKS + v->per_col - 1) / v->per_col;; first = 0) {
		double most = 0;

		for (int32_t i = 0; i < w->p->hp->n_layer; i++)
			for (int32_t c = first; c < v->cols; c++)
				most = view_heat_row(w, i)[c] > most ? view_heat_row(w, i)[c] : most;
		if (most > 0 || !first)
			return most;
	}
}

/* Set v->heat from w->heat. If with_evicted is 0, a column whose tokens are all evicted gets 0, because its attention
 * mass may date from before the eviction. */
static void heat_take(struct view_work *w, int with_evicted)
{
	struct cache_view *v = w->out;
	double most = heat_most(w);

	for (int32_t i = 0; i < v->n_layer; i++)
		for (int32_t c = 0; c < v->cols; c++)
			v->heat[i][c] = with_evicted || v->kept[c]
			                        ? view_heat_byte(view_heat_row(w, layer_entries(w->p->hp, i))[c], most)
			                        : 0;
}

void view_measured_heat(struct view_work *w)
{
	int known = 0;

	for (int32_t i = 0; i < w->p->hp->n_layer; i++) {
		const float *cell;
		int32_t n;
		int shift;

		if (!observe_panel_mass(w->panel, i, &cell, &n, &shift))
			continue;
		known = 1;
		for (int32_t k = 0; k < n && (int64_t)k << shift < w->out->n_tokens; k++)
			view_heat_row(w, i)[view_column(w, k << shift)] += (double)cell[k];
	}
	if (!known)
		return;
	heat_take(w, 0);
	w->out->watched = VIEW_MEASURED;
}

void view_rings_heat(struct view_work *w)
{
	heat_take(w, 1);
	w->out->watched = VIEW_MASS;
}
