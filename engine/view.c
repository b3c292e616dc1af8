/* engine/view.c - what a cache holds and what was attended, in a few columns, for a panel.
 *
 * The sources are the rings' bookkeeping and the panel's observer (observe_panel.c), which the first view attaches.
 *
 * A stream of 8,000 slots for 90 pairs of layer and KV head is 700,000 token numbers and as many sums of mass; most of a view's time is
 * waiting for memory.  Both lie slot by slot, the heads of a slot together, and are read head by head: in blocks of slots that stay in a
 * near CPU cache.  Neighbours that fall into the same column are added up before the column is written. */
#include "engine/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/rings.h"

enum { SINKS = 4, BLOCK = 128 };

struct work {
	struct cache_view *out;
	const struct cache *p;
	struct retained_view in;
	const struct selector *sel;             /* of generated tokens; NULL: they read everything that is kept */
	const struct observe_panel *panel;      /* what the last generated token selected; NULL before the first view */
	int32_t heads;             /* that evict by themselves: pairs of layer and KV head, or layers, all without a window */
	int32_t pinned, past;      /* tokens with KV entries: pinned ones, all */
	uint64_t factor;           /* token * factor >> shift = its column */
	int shift;
	int64_t kept[1 + RINGS_MOST][VIEW_COLS];   /* tokens that the heads together keep, by place */
	double ring[1 + RINGS_MOST];               /* attention mass by place */
	double *heat;              /* [n_layer][VIEW_COLS]: attention mass, or entries read */
	int32_t *list;             /* [cap_list] slots of one KV head */
	int32_t cap_list;
};

/* ---- columns ---- */

static int32_t column(const struct work *w, int32_t token)
{
	return (int32_t)((uint32_t)token * w->factor >> w->shift);
}

/* Division by a factor is exact for 31 bits: shift = 31 + ceil(log2(per_col)), factor rounded up. */
static void columns_set(struct work *w, int32_t n_tokens, int32_t cols)
{
	struct cache_view *v = w->out;
	int32_t per;

	cols = cols < 1 ? 1 : cols > VIEW_COLS ? VIEW_COLS : cols;
	per = n_tokens / cols + (n_tokens % cols != 0);
	v->n_tokens = n_tokens;
	v->per_col = per = per ? per : 1;
	v->cols = n_tokens / per + (n_tokens % per != 0);
	for (w->shift = 31; (int64_t)1 << (w->shift - 31) < per; w->shift++)
		;
	w->factor = (((uint64_t)1 << w->shift) + (uint64_t)per - 1) / (uint64_t)per;
}

/* How many of the first n tokens are in a column. */
static int32_t column_tokens(const struct cache_view *v, int32_t col, int32_t n)
{
	int64_t left = n - (int64_t)col * v->per_col;

	return left < 0 ? 0 : left < v->per_col ? (int32_t)left : v->per_col;
}

/* An iterator over tokens first .. end by columns: tokens at .. at + n are in column col. */
struct piece { int32_t col, n, at, end; };

static int piece_next(const struct work *w, struct piece *p)
{
	int64_t end;

	p->at += p->n;
	if (p->at >= p->end)
		return 0;
	p->col = column(w, p->at);
	end = ((int64_t)p->col + 1) * w->out->per_col;
	p->n = (int32_t)(end < p->end ? end - p->at : p->end - p->at);
	return 1;
}

static struct piece pieces(const struct work *w, int32_t first, int32_t end)
{
	return (struct piece){ .at = first > 0 ? first : 0, .end = end < w->out->n_tokens ? end : w->out->n_tokens };
}

/* Count tokens first .. end as kept by all heads at that place. */
static void keep_range(struct work *w, int place, int32_t first, int32_t end)
{
	for (struct piece p = pieces(w, first, end); piece_next(w, &p); )
		w->kept[place][p.col] += (int64_t)p.n * w->heads;
}

static double *heat_row(struct work *w, int32_t layer)
{
	return w->heat + (size_t)layer * VIEW_COLS;
}

/* 0 for nothing, 255 for the whole, 1 .. 254 for a part. */
static uint8_t part_byte(int64_t part, int64_t whole)
{
	int64_t b = whole > 0 ? (255 * part + whole / 2) / whole : 0;

	if (part <= 0)
		return 0;
	return part >= whole ? 255 : b < 1 ? 1 : b > 254 ? 254 : (uint8_t)b;
}

static uint8_t heat_byte(double x, double most)
{
	double b;

	if (!(x > 0) || !(most > 0))
		return 0;
	b = 255 + 32 * log2(x / most);
	return b >= 254.5 ? 255 : b >= 1.5 ? (uint8_t)(b + 0.5) : 1;   /* not a number: 1 */
}

/* ---- rings ---- */

static int32_t layer_of(const struct work *w, int32_t head)
{
	return w->p->kv.full[w->heads == w->p->kv.n_full ? head : head / w->p->hp->n_kv_head];
}

/* The sum of n values that lie `apart` floats apart.  Four partial sums, so that additions overlap. */
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

/* Add slots slot .. end of ring i in one head; `times` heads keep the same tokens. */
static void add_head(struct work *w, int32_t i, int32_t head, int32_t slot, int32_t end, int64_t times)
{
	const struct rings *r = w->in.rings;
	const float *sum = w->in.observed ? r->mass + head : NULL;
	double *heat = heat_row(w, layer_of(w, head)), all = 0;
	uint32_t per = (uint32_t)w->out->per_col;

	for (int32_t n; slot < end; slot += n) {
		const int32_t *id = r->id + (size_t)slot * (size_t)r->heads + (size_t)head;
		int32_t col = column(w, *id);
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

/* Add slots slot .. end of ring i.  Where no mass is summed all heads keep the same tokens. */
static void add_ring(struct work *w, int32_t i, int32_t slot, int32_t end)
{
	int32_t heads = w->in.observed ? w->heads : 1;

	for (int32_t at = slot; at < end; at += BLOCK)
		for (int32_t h = 0; h < heads; h++)
			add_head(w, i, h, at, at + BLOCK < end ? at + BLOCK : end, w->heads / heads);
}

/* The same while the rings fill: slot s holds token sinks + s, and the newest tokens count as the newest ring's. */
static void add_filling(struct work *w, int32_t i, int32_t first, int32_t end)
{
	const struct rings *r = w->in.rings;

	keep_range(w, 1 + i, first, end);
	if (!w->in.observed)
		return;
	for (struct piece p = pieces(w, first, end); piece_next(w, &p); ) {
		const float *sum = r->mass + (size_t)(p.at - r->s.sinks) * (size_t)r->heads;

		for (int32_t h = 0; h < w->heads; h++) {
			double s = sum_of(sum + h, p.n, r->heads);

			heat_row(w, layer_of(w, h))[p.col] += s;
			w->ring[1 + i] += s;
		}
	}
}

/* Add the tokens that wait behind the rings to the newest ring, which they will join. */
static void add_waiting(struct work *w)
{
	const struct rings *r = w->in.rings;

	keep_range(w, 1, r->t, w->out->n_tokens);
	for (int32_t i = 0; w->in.observed && i < w->in.waiting; i++) {
		int32_t col = column(w, r->t + i);

		for (int32_t h = 0; col < w->out->cols && h < w->heads; h++) {
			double s = (double)r->mass[(size_t)(r->size + i) * (size_t)r->heads + (size_t)h];

			heat_row(w, layer_of(w, h))[col] += s;
			w->ring[1] += s;
		}
	}
}

static void view_rings(struct work *w)
{
	const struct rings *r = w->in.rings;
	struct cache_view *v = w->out;
	double sum = 0;

	keep_range(w, 0, 0, r->s.sinks);
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

/* The largest heat behind the first SINKS tokens; of all tokens, where that is 0. */
static double heat_most(struct work *w)
{
	struct cache_view *v = w->out;

	for (int32_t first = (SINKS + v->per_col - 1) / v->per_col; ; first = 0) {
		double most = 0;

		for (int32_t i = 0; i < w->p->hp->n_layer; i++)
			for (int32_t c = first; c < v->cols; c++)
				most = heat_row(w, i)[c] > most ? heat_row(w, i)[c] : most;
		if (most > 0 || !first)
			return most;
	}
}

static void heat_scored(struct work *w)
{
	const struct rings *r = w->in.rings;
	struct cache_view *v = w->out;
	double most = heat_most(w);

	for (int32_t i = 0; i < v->n_layer; i++)
		for (int32_t c = 0; c < v->cols; c++)
			v->heat[i][c] = heat_byte(heat_row(w, layer_entries(w->p->hp, i))[c], most);
	v->watched = VIEW_MASS;
	v->most = ema_value(&r->ema, (float)(most * w->p->kv.n_full / w->heads), r->t + w->in.waiting);
}

/* ---- selected entries ---- */

/* w->list = the slots that a part lists for one KV head.  Returns their number; 0 where the list does not have as many. */
static int32_t list_read(struct work *w, const struct attn_part *part, int32_t head)
{
	struct backend *be = w->p->be;
	int32_t n = part->n_slots;

	if (n < 1 || n > part->slots->cols || head >= part->slots->rows)
		return 0;
	if (n > w->cap_list) {
		w->list = xrealloc(w->list, (size_t)n * sizeof *w->list);
		w->cap_list = n;
	}
	memset(w->list, 0xff, (size_t)n * sizeof *w->list);
	be->ops->read(be, part->slots, 4 * (size_t)head * (size_t)part->slots->cols, w->list, 4 * (size_t)n);
	return n;
}

/* Add to to[col] how many entries of a part the KV heads of a layer read, in a region of `limit` slots. */
static void add_part(struct work *w, const struct attn_part *part, int32_t limit, double *to)
{
	int32_t heads = w->p->hp->n_kv_head;

	for (int32_t h = 0; part->slots && h < heads; h++) {
		int32_t n = list_read(w, part, h);

		for (int32_t i = 0; i < n; i++)
			if (w->list[i] >= 0 && w->list[i] < limit)
				to[column(w, w->list[i])]++;
	}
	if (part->slots || part->slot0 >= limit)
		return;
	for (struct piece p = pieces(w, part->slot0, part->n_slots < limit - part->slot0 ? part->slot0 + part->n_slots : limit);
	     piece_next(w, &p); )
		to[p.col] += (double)p.n * heads;
}

/* What generated tokens will read until the next prefill, where the policy fixes that; else what the last one read. */
static int parts_of(const struct work *w, int32_t layer, int32_t region, struct attn_part part[SELECT_PARTS])
{
	const struct selector *s = w->sel;
	const struct attn_part *read;
	int32_t window = kv_window(&w->p->kv, layer);
	int n;

	if (window) {   /* what the next token will read: the newest, all but its own */
		int32_t most = window - 1 < w->past ? window - 1 : w->past;

		part[0] = (struct attn_part){ .slot0 = w->past - most, .n_slots = most };
		return 1;
	}
	if (s->ops->holds)
		return s->ops->holds(s, layer, region, part);
	n = observe_panel_parts(w->panel, layer, &read);
	memcpy(part, read, (size_t)n * sizeof *part);
	return n;
}

/* Is parts_of() known?  *region: its slots at most; becomes the slots when the token selected. */
static int known(const struct work *w, int32_t *region)
{
	int32_t at = w->panel ? observe_panel_region(w->panel) : 0;

	if (w->sel->ops->holds) {
		*region = w->past;
		return w->past > 0;
	}
	if (at < 1 || at > *region)
		return 0;
	*region = at;
	return 1;
}

/* Add the entries of the region that each layer reads to the heat, and those in the windows of layers.  Returns the entries read per KV head,
 * all layers without a window together. */
static int64_t add_selected(struct work *w, int32_t region)
{
	struct attn_part part[SELECT_PARTS];
	double count[VIEW_COLS];
	int64_t entries = 0;

	for (int32_t i = 0; i < w->p->hp->n_layer; i++) {
		int n = parts_of(w, i, region, part);

		memset(count, 0, sizeof count);
		for (int k = 0; k < n; k++) {
			add_part(w, &part[k], w->p->kv.place[i] < 0 ? w->past : region, count);
			entries += w->p->kv.place[i] < 0 ? 0 : part[k].n_slots;
		}
		for (int32_t c = 0; c < w->out->cols; c++) {
			heat_row(w, i)[c] += count[c];
			if (w->sel->ops->holds)
				w->kept[0][c] += (int64_t)count[c];
		}
	}
	return entries;
}

/* Add what a generated token reads of a stream in layers without a window: all that is kept there, by all heads alike where no mass is
 * summed. */
static void add_stream_read(struct work *w)
{
	double share = (double)w->p->hp->n_kv_head / w->heads;

	for (int32_t c = 0; c < w->out->cols; c++) {
		int64_t kept = 0;

		for (int i = 1; i <= RINGS_MOST; i++)
			kept += w->kept[i][c];
		for (int32_t i = 0; kept && i < w->p->kv.n_full; i++)
			heat_row(w, w->p->kv.full[i])[c] += (double)kept * share;
	}
}

/* The share of the first SINKS tokens in the attention mass that a selector sums. */
static void view_sums(struct work *w)
{
	const struct selector *s = w->sel;
	struct cache_view *v = w->out;
	double all = 0, sinks = 0;

	for (int32_t i = 0; i < w->p->hp->n_layer; i++)
		for (int32_t h = 0; h < w->p->hp->n_kv_head; h++) {
			const float *sum = s->ops->sums(s, i, h);
			float head = 0;

			for (int32_t r = 0; sum && r < w->past; r++) {
				head += sum[r];
				if (r == SINKS - 1 || (r == w->past - 1 && r < SINKS))
					sinks += (double)head;
			}
			all += (double)head;
		}
	if (!(all > 0) || !isfinite(all))
		return;
	v->share[0] = 1;
	v->sink = (float)(sinks / all);
}

/* Comes after view_rings(), whose heat is there already where it shows attention mass. */
static void view_selected(struct work *w)
{
	const struct selector *s = w->sel;
	struct cache_view *v = w->out;
	int32_t n_layer = w->p->hp->n_layer, n_full = w->p->kv.n_full, region = w->in.rings ? w->pinned : w->past;
	int scored = v->watched == VIEW_MASS;
	int64_t entries;

	v->watched_pinned = w->in.rings ? VIEW_SELECTED : VIEW_NONE;
	v->watched = scored ? VIEW_MASS : VIEW_SELECTED;
	memset(w->heat, 0, (size_t)n_layer * VIEW_COLS * sizeof *w->heat);
	if (!known(w, &region)) {
		if (s->ops->holds)
			keep_range(w, 0, 0, v->n_tokens);
		return;
	}
	entries = add_selected(w, region);
	if (w->in.rings && !scored)
		add_stream_read(w);
	for (int32_t i = 0; i < v->n_layer; i++)
		for (int32_t c = 0; c < v->cols; c++) {
			int64_t all = (int64_t)column_tokens(v, c, w->past) * w->p->hp->n_kv_head;
			uint8_t b = heat_byte(heat_row(w, i)[c], (double)all);

			v->heat[i][c] = b > v->heat[i][c] ? b : v->heat[i][c];
		}
	entries = entries < (int64_t)region * n_full ? (entries + n_full / 2) / n_full : 0;
	v->selected = (int32_t)entries;
	if (w->panel && !s->ops->holds) {
		double cosine, spread;

		v->refreshed = observe_panel_fresh(w->panel, &cosine);
		v->cosine = (float)cosine;
		*(s->ops->replaced ? &v->recovered : &v->estimated) = (float)observe_panel_share(w->panel);
		v->sampled = observe_panel_sample(w->panel, &spread);
		if (v->estimated >= 0)
			v->spread = (float)spread;
	}
	if (s->ops->sums)
		view_sums(w);
	/* The pending token will be read. */
	if (s->ops->holds)
		keep_range(w, 0, w->past, v->n_tokens);
}

/* ---- together ---- */

/* The parts of the timeline that a view reads. */
static void work_set(struct work *w, const struct timeline *t)
{
	const struct retention_ops *r = t->cache.policy.def->retention;

	w->p = &t->cache;
	w->past = t->n_past;
	w->panel = t->panel;
	w->sel = t->cache.selecting ? &t->cache.sel : NULL;
	if (r->view)
		r->view(&t->cache, &w->in);
}

static void view_kept(struct work *w)
{
	struct cache_view *v = w->out;

	for (int32_t c = 0; c < v->cols; c++) {
		int64_t sum = 0;
		int most = 0;

		for (int i = 0; i <= RINGS_MOST; i++) {
			sum += w->kept[i][c];
			most = w->kept[i][c] > w->kept[most][c] ? i : most;
		}
		v->kept[c] = part_byte(sum, (int64_t)column_tokens(v, c, v->n_tokens) * w->heads);
		v->where[c] = sum > 0 ? (uint8_t)most : VIEW_EVICTED;
	}
}

static void view_make(struct timeline *t, struct work *w)
{
	int32_t n_layer = w->p->hp->n_layer;

	w->heads = w->in.rings ? w->in.rings->heads : n_layer * w->p->hp->n_kv_head;
	if (w->in.rings) {
		w->pinned = w->in.rings->s.sinks < w->past ? w->in.rings->s.sinks : w->past;
		w->out->pinned = w->in.rings->s.sinks < w->out->n_tokens ? w->in.rings->s.sinks : w->out->n_tokens;
		view_rings(w);
		if (w->in.observed)
			heat_scored(w);
	} else if (!w->sel || !w->sel->ops->holds) {
		keep_range(w, 0, 0, w->out->n_tokens);
	}
	if (w->sel)
		view_selected(w);
	view_kept(w);
}

/* The backend failed: nothing is known of attention and selection. */
static void view_blank(struct cache_view *v)
{
	memset(v->heat, 0, sizeof v->heat);
	v->selected = -1;
}

void timeline_view(struct timeline *t, int32_t cols, struct cache_view *out)
{
	double start = now_seconds();
	struct cache *c = &t->cache;
	struct work *w = xcalloc(1, sizeof *w);
	int32_t n_layer = c->hp->n_layer, slots;

	timeline_settle(t, &(struct err){0});
	t->viewed = 1;
	memset(out, 0, sizeof *out);
	out->n_layer = n_layer < VIEW_LAYERS ? n_layer : VIEW_LAYERS;
	out->sink = -1;
	out->refreshed = -1;
	out->cosine = -2;
	out->recovered = out->estimated = out->spread = -1;
	w->out = out;
	work_set(w, t);
	out->selected = w->sel ? -1 : 0;
	columns_set(w, (int32_t)t->tokens.n, cols);
	w->heat = xcalloc((size_t)n_layer * VIEW_COLS, sizeof *w->heat);
	pthread_mutex_lock(&t->e->lock);
	if (c->policy.def->retention->mass_read)
		c->policy.def->retention->mass_read(c);
	view_make(t, w);
	/* Under `full` there is nothing to observe, and a view does not slow it down. */
	if (!t->panel && (w->in.rings || (w->sel && !w->sel->ops->holds)))
		t->panel = observe_panel_open(c);
	if (t->panel) {
		slots = w->in.rings ? w->in.rings->s.sinks + w->in.rings->size : w->past;
		if (w->in.rings)
			out->now_layers = observe_panel_regions(t->panel, out->now);
		slots = slots < w->past ? slots : w->past;
		observe_panel_measure(t->panel, slots > 0 ? slots : 1);
	}
	if (c->be->ops->sync(c->be))
		view_blank(out);
	pthread_mutex_unlock(&t->e->lock);
	free(w->heat);
	free(w->list);
	free(w);
	out->seconds = now_seconds() - start;
}

/* ---- how much of attention is read ---- */

/* Does the policy select anew for each token, by a scan that tells how much it found? */
static int tells_read(const struct timeline *t)
{
	const struct selector_ops *ops = t->cache.selecting ? t->cache.sel.ops : NULL;

	return ops && ops->scan && !ops->replaced;
}

void timeline_attention_read_measure(struct timeline *t)
{
	timeline_settle(t, &(struct err){0});
	if (!tells_read(t))
		return;
	pthread_mutex_lock(&t->e->lock);
	if (!t->panel)
		t->panel = observe_panel_open(&t->cache);
	if (t->panel)
		observe_panel_measure(t->panel, 0);
	pthread_mutex_unlock(&t->e->lock);
}

void timeline_attention_read(const struct timeline *t, struct attention_read *out)
{
	double share = t->panel && tells_read(t) ? observe_panel_share(t->panel) : -1, spread = -1;

	*out = (struct attention_read){ .known = share >= 0, .exact = (float)share };
	if (out->known && observe_panel_sample(t->panel, &spread)) {
		out->sampled = (float)(1 - share);
		out->spread = (float)spread;
	}
}

/* ---- token by token ---- */

/* count[i] += pairs of layer and KV head that will read token first + i, for n tokens. */
static void count_held(struct work *w, int32_t first, int32_t n, int32_t *count)
{
	struct attn_part part[SELECT_PARTS];

	for (int32_t i = 0; i < w->p->hp->n_layer; i++) {
		int n_part = parts_of(w, i, w->past, part);

		for (int k = 0; k < n_part; k++) {
			const struct attn_part *x = &part[k];
			int32_t heads = w->p->hp->n_kv_head, from = x->slot0 > first ? x->slot0 : first;

			for (int32_t h = 0; x->slots && h < heads; h++) {
				int32_t listed = list_read(w, x, h);

				for (int32_t j = 0; j < listed; j++)
					if (w->list[j] >= first && w->list[j] - first < n)
						count[w->list[j] - first]++;
			}
			for (int32_t slot = from; !x->slots && slot < x->slot0 + x->n_slots && slot - first < n; slot++)
				count[slot - first] += heads;
		}
	}
}

static uint8_t ring_kept(const struct rings *r, int32_t token)
{
	if (token < r->s.sinks || token >= r->t || rings_filling(r))
		return 255;
	return token < r->oldest ? 0 : part_byte(r->held[token & r->mask], r->heads);
}

void timeline_kept(struct timeline *t, int32_t first, int32_t n, uint8_t *out)
{
	struct work w = { 0 };
	int32_t n_tokens = (int32_t)t->tokens.n, pairs = t->cache.hp->n_layer * t->cache.hp->n_kv_head, *count, before;

	if (n <= 0)
		return;
	timeline_settle(t, &(struct err){0});
	work_set(&w, t);
	for (int32_t i = 0; i < n; i++) {
		int64_t token = (int64_t)first + i;

		out[i] = token < 0 || token >= n_tokens ? 0 : w.in.rings ? ring_kept(w.in.rings, (int32_t)token) : 255;
	}
	if (first < 0) {
		before = first > -n ? -first : n;
		out += before;
		n -= before;
		first = 0;
	}
	n = n < w.past - first ? n : w.past - first;
	if (!w.sel || !w.sel->ops->holds || n <= 0)
		return;
	count = xcalloc((size_t)n, sizeof *count);
	pthread_mutex_lock(&t->e->lock);
	count_held(&w, first, n, count);
	if (!t->e->be->ops->sync(t->e->be))
		for (int32_t i = 0; i < n; i++)
			out[i] = part_byte(count[i], pairs);
	pthread_mutex_unlock(&t->e->lock);
	free(w.list);
	free(count);
}
