/* engine/timeline/view.c - the cache view (engine_view.h), for display. It shows which tokens the cache keeps, and how
 * much attention the tokens got. The sequence is divided into columns of tokens, and the numbers are summed for each
 * column.
 *
 * The numbers come from the ring buffers of the cache and from an observer of attention (observe_panel.c). */
#include "engine/timeline/view.h"
#include "engine/observe/observe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- columns ---- */

/* Set the number of tokens per column. Also set factor and shift for a fast division: token / per_col = token * factor
 * >> shift. The result is exact for 31-bit tokens, because shift = 31 + ceil(log2(per_col)) and factor is rounded
 * up. */
static void columns_set(struct view_work *w, int32_t n_tokens, int32_t cols)
{
	struct cache_view *v = w->out;
	int32_t per;

	cols = cols < 1 ? 1 : MIN(VIEW_COLS, cols);
	per = n_tokens / cols + (n_tokens % cols != 0);
	v->n_tokens = n_tokens;
	v->per_col = per = per ? per : 1;
	v->cols = n_tokens / per + (n_tokens % per != 0);
	for (w->shift = 31; (int64_t)1 << (w->shift - 31) < per; w->shift++)
		;
	w->factor = (((uint64_t)1 << w->shift) + (uint64_t)per - 1) / (uint64_t)per;
}

int32_t view_column_tokens(const struct cache_view *v, int32_t col, int32_t n)
{
	int64_t left = n - (int64_t)col * v->per_col;

	return left < 0 ? 0 : left < v->per_col ? (int32_t)left : v->per_col;
}

int view_piece_next(const struct view_work *w, struct view_piece *p)
{
	int64_t end;

	p->at += p->n;
	if (p->at >= p->end)
		return 0;
	p->col = view_column(w, p->at);
	end = ((int64_t)p->col + 1) * w->out->per_col;
	p->n = (int32_t)(end < p->end ? end - p->at : p->end - p->at);
	return 1;
}

struct view_piece view_pieces(const struct view_work *w, int32_t first, int32_t end)
{
	return (struct view_piece){ .at = MAX(first, 0), .end = MIN(end, w->out->n_tokens) };
}

void view_keep_range(struct view_work *w, int tier, int32_t first, int32_t end)
{
	for (struct view_piece p = view_pieces(w, first, end); view_piece_next(w, &p);)
		w->kept[tier][p.col] += (int64_t)p.n * w->heads;
}

double *view_heat_row(struct view_work *w, int32_t layer)
{
	return w->heat + (size_t)layer * VIEW_COLS;
}

/* Convert the fraction part / whole to a byte. The result is 0 only if part = 0, and 255 only if part = whole. */
static uint8_t part_byte(int64_t part, int64_t whole)
{
	int64_t b = whole > 0 ? (255 * part + whole / 2) / whole : 0;

	if (part <= 0)
		return 0;
	return part >= whole ? 255 : b < 1 ? 1 : b > 254 ? 254 : (uint8_t)b;
}

uint8_t view_heat_byte(double x, double most)
{
	double b;

	if (!(x > 0) || !(most > 0))
		return 0;
	b = 255 + 32 * log2(x / most);
	return b >= 254.5 ? 255 : b >= 1.5 ? (uint8_t)(b + 0.5) : 1; /* if b is NaN, the result is 1 */
}

/* ---- the view ---- */

/* Set the fields of w that come from the timeline. */
static void work_set(struct view_work *w, const struct timeline *tl)
{
	const struct retention_ops *r = tl->cache.policy.def->retention;

	w->p = &tl->cache;
	w->past = tl->n_past;
	w->panel = tl->panel;
	w->sel = tl->cache.selecting ? &tl->cache.sel : NULL;
	if (r->view)
		r->view(&tl->cache, &w->in);
}

/* Set out->kept[] and out->where[] from the counts in w->kept. */
static void view_kept(struct view_work *w)
{
	struct cache_view *v = w->out;

	for (int32_t c = 0; c < v->cols; c++) {
		int64_t sum = 0;
		int most = 0;

		for (int i = 0; i <= RINGS_MOST; i++) {
			sum += w->kept[i][c];
			most = w->kept[i][c] > w->kept[most][c] ? i : most;
		}
		v->kept[c] = part_byte(sum, (int64_t)view_column_tokens(v, c, v->n_tokens) * w->heads);
		v->where[c] = sum > 0 ? (uint8_t)most : VIEW_EVICTED;
	}
}

static void view_make(struct timeline *tl, struct view_work *w)
{
	int32_t n_layer = w->p->hp->n_layer;

	w->heads = w->in.rings ? w->in.rings->heads : n_layer * w->p->hp->n_kv_head;
	if (w->in.rings) {
		w->pinned = MIN(w->in.rings->s.sinks, w->past);
		w->out->pinned = MIN(w->in.rings->s.sinks, w->out->n_tokens);
		view_rings(w);
		if (w->in.observed)
			view_rings_heat(w);
	} else if (!w->sel || !w->sel->ops->holds) {
		view_keep_range(w, 0, 0, w->out->n_tokens);
	}
	if (w->sel)
		view_selected(w);
	view_kept(w);
	if (!w->sel && w->out->watched == VIEW_NONE && w->panel)
		view_measured_heat(w);
}

/* The backend failed: mark attention and selection as unknown. */
static void view_blank(struct cache_view *v)
{
	memset(v->heat, 0, sizeof v->heat);
	v->selected = -1;
}

void timeline_view(struct timeline *tl, int32_t cols, struct cache_view *out)
{
	double start = now_seconds();
	struct cache *c = &tl->cache;
	struct view_work *w = xcalloc(1, sizeof *w);
	int32_t n_layer = c->hp->n_layer, slots;

	timeline_settle(tl, &(struct err){ 0 });
	tl->viewed = 1;
	memset(out, 0, sizeof *out);
	out->n_layer = MIN(n_layer, VIEW_LAYERS);
	out->sink = -1;
	out->refreshed = -1;
	out->cosine = -2;
	out->recovered = out->estimated = out->spread = -1;
	w->out = out;
	work_set(w, tl);
	out->selected = w->sel ? -1 : 0;
	columns_set(w, (int32_t)tl->tokens.n, cols);
	w->heat = xcalloc((size_t)n_layer * VIEW_COLS, sizeof *w->heat);
	pthread_mutex_lock(&tl->e->lock);
	if (c->policy.def->retention->mass_read)
		c->policy.def->retention->mass_read(c);
	view_make(tl, w);
	if (!tl->panel && !(w->sel && w->sel->ops->holds))
		tl->panel = observe_panel_open(c);
	if (tl->panel) {
		slots = w->in.rings ? w->in.rings->s.sinks + w->in.rings->size : w->past;
		if (w->in.rings)
			out->now_layers = observe_panel_regions(tl->panel, out->now);
		slots = MIN(slots, w->past);
		observe_panel_measure(tl->panel, slots > 0 ? slots : 1);
	}
	if (c->be->ops->sync(c->be))
		view_blank(out);
	pthread_mutex_unlock(&tl->e->lock);
	free(w->heat);
	free(w->list);
	free(w);
	out->seconds = now_seconds() - start;
}

double timeline_strides(const struct timeline *tl, float *stride, int32_t n)
{
	const struct selector *s = tl->cache.selecting ? &tl->cache.sel : NULL;
	int64_t tokens = 0, selections = 0;

	for (int32_t i = 0; i < n; i++) {
		struct select_status st = { 0 };

		if (s && s->ops->status && i < tl->cache.hp->n_layer)
			st = s->ops->status(s, i);
		stride[i] = st.selections ? (float)((double)st.tokens / (double)st.selections) : 0;
		tokens += st.selections ? st.tokens : 0;
		selections += st.selections;
	}
	return selections ? (double)tokens / (double)selections : 0;
}

/* ---- the share of attention that the selected entries get ---- */

/* 1 if the share of attention on the selected entries can be measured. This requires a selector that scans keys and
 * selects anew for each token. */
static int share_is_measurable(const struct timeline *tl)
{
	const struct selector_ops *ops = tl->cache.selecting ? tl->cache.sel.ops : NULL;

	return ops && ops->scan && !ops->replaced;
}

void timeline_attention_read_measure(struct timeline *tl)
{
	timeline_settle(tl, &(struct err){ 0 });
	if (!share_is_measurable(tl))
		return;
	pthread_mutex_lock(&tl->e->lock);
	if (!tl->panel)
		tl->panel = observe_panel_open(&tl->cache);
	if (tl->panel)
		observe_panel_measure(tl->panel, 0);
	pthread_mutex_unlock(&tl->e->lock);
}

void timeline_attention_read(const struct timeline *tl, struct attention_read *out)
{
	double share = tl->panel && share_is_measurable(tl) ? observe_panel_share(tl->panel) : -1, spread = -1;

	*out = (struct attention_read){ .known = share >= 0, .exact = (float)share };
	if (out->known && observe_panel_sample(tl->panel, &spread)) {
		out->sampled = (float)(1 - share);
		out->spread = (float)spread;
	}
}

/* ---- which share of a token's entries is kept or read ---- */

/* For each of the n tokens from token `first` on, add to count[i] for token first + i the number of pairs (layer, KV
 * head) in which generated tokens read the token's entry. */
static void count_held(struct view_work *w, int32_t first, int32_t n, int32_t *count)
{
	struct attn_segment seg[SELECT_SEGMENTS];

	for (int32_t i = 0; i < w->p->hp->n_layer; i++) {
		int n_seg = view_segments(w, i, w->past, seg);

		for (int k = 0; k < n_seg; k++) {
			const struct attn_segment *x = &seg[k];
			int32_t heads = w->p->hp->n_kv_head, from = MAX(x->slot0, first);

			for (int32_t h = 0; x->slots && h < heads; h++) {
				int32_t listed = view_list_read(w, x, h);

				for (int32_t j = 0; j < listed; j++)
					if (w->list[j] >= first && w->list[j] - first < n)
						count[w->list[j] - first]++;
			}
			for (int32_t slot = from; !x->slots && slot < x->slot0 + x->n_slots && slot - first < n; slot++)
				count[slot - first] += heads;
		}
	}
}

/* Return the share of heads in which a token's KV entry is still kept, as a byte: 255 means all heads, 0 means none.
 * The policy must have ring buffers. A head is a pair (layer, KV head), or a whole layer. */
static uint8_t ring_kept(const struct rings *r, int32_t token)
{
	if (token < r->s.sinks || token >= r->t || rings_filling(r))
		return 255;
	return token < r->oldest ? 0 : part_byte(r->held[token & r->mask], r->heads);
}

void timeline_kept(struct timeline *tl, int32_t first, int32_t n, uint8_t *out)
{
	struct view_work w = { 0 };
	int32_t n_tokens = (int32_t)tl->tokens.n, pairs = tl->cache.hp->n_layer * tl->cache.hp->n_kv_head, *count,
		before;

	if (n <= 0)
		return;
	timeline_settle(tl, &(struct err){ 0 });
	work_set(&w, tl);
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
	pthread_mutex_lock(&tl->e->lock);
	count_held(&w, first, n, count);
	if (!tl->e->be->ops->sync(tl->e->be))
		for (int32_t i = 0; i < n; i++)
			out[i] = part_byte(count[i], pairs);
	pthread_mutex_unlock(&tl->e->lock);
	free(w.list);
	free(count);
}
