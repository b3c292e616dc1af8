/* engine/timeline/view_selected.c - finds out which KV entries were read by generated tokens, and counts these entries
 * by column (view.h). */
#include "engine/timeline/view.h"
#include "engine/observe/observe.h"

#include <math.h>
#include <string.h>

int32_t view_list_read(struct view_work *w, const struct attn_segment *seg, int32_t head)
{
	struct backend *be = w->p->be;
	int32_t n = kv_list_length(&w->p->kv, seg, head);

	if (n < 1 || n > seg->slots->cols || head >= seg->slots->rows)
		return 0;
	if (n > w->cap_list) {
		w->list = xrealloc(w->list, (size_t)n * sizeof *w->list);
		w->cap_list = n;
	}
	memset(w->list, 0xff, (size_t)n * sizeof *w->list);
	be->ops->read(be, seg->slots, 4 * (size_t)head * (size_t)seg->slots->cols, w->list, 4 * (size_t)n);
	return n;
}

/* Count the entries that the KV heads of a layer read, and add the count of each column `col` to to[col]. Entries count
 * if they are in `seg` (a range, or a list of slots per head) and in slots below `limit`. */
static void add_segment(struct view_work *w, const struct attn_segment *seg, int32_t limit, double *to)
{
	int32_t heads = w->p->hp->n_kv_head;

	for (int32_t h = 0; seg->slots && h < heads; h++) {
		int32_t n = view_list_read(w, seg, h);

		for (int32_t i = 0; i < n; i++)
			if (w->list[i] >= 0 && w->list[i] < limit)
				to[view_column(w, w->list[i])]++;
	}
	if (seg->slots || seg->slot0 >= limit)
		return;
	for (struct view_piece p =
	             view_pieces(w, seg->slot0, seg->n_slots < limit - seg->slot0 ? seg->slot0 + seg->n_slots : limit);
	     view_piece_next(w, &p);)
		to[p.col] += (double)p.n * heads;
}

int view_segments(const struct view_work *w, int32_t layer, int32_t region, struct attn_segment seg[SELECT_SEGMENTS])
{
	const struct selector *s = w->sel;
	const struct attn_segment *read;
	int32_t window = kv_window(&w->p->kv, layer);
	int n;

	if (window) { /* the slots that the next token will read, except its own slot */
		int32_t most = window - 1 < w->past ? window - 1 : w->past;

		seg[0] = (struct attn_segment){ .slot0 = w->past - most, .n_slots = most };
		return 1;
	}
	if (s->ops->holds)
		return s->ops->holds(s, layer, region, seg);
	n = observe_panel_segments(w->panel, layer, &read);
	memcpy(seg, read, (size_t)n * sizeof *seg);
	return n;
}

/* 1 if it is known which entries the last token read. In this case, set *region to the number of slots from which the
 * token selected these entries. Before the call, *region is the number of slots from which a token could select now. */
static int segments_known(const struct view_work *w, int32_t *region)
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

/* Add to heat[] the number of entries that each layer reads: the selected entries or, in a layer with a sliding window,
 * all entries of the window. Return the number of entries read per KV head, summed over the layers without a window. */
static int64_t add_selected(struct view_work *w, int32_t region)
{
	struct attn_segment seg[SELECT_SEGMENTS];
	double count[VIEW_COLS];
	int64_t entries = 0;

	for (int32_t i = 0; i < w->p->hp->n_layer; i++) {
		int n = view_segments(w, i, region, seg);

		memset(count, 0, sizeof count);
		for (int k = 0; k < n; k++) {
			add_segment(w, &seg[k], w->p->kv.full_index[i] < 0 ? w->past : region, count);
			entries += w->p->kv.full_index[i] < 0 ? 0 : seg[k].n_slots;
		}
		for (int32_t c = 0; c < w->out->cols; c++) {
			view_heat_row(w, i)[c] += count[c];
			if (w->sel->ops->holds)
				w->kept[0][c] += (int64_t)count[c];
		}
	}
	return entries;
}

/* Add to heat[] the entries in the ring buffers, because a generated token reads all of these. w->kept[] has only the
 * sum over all layers without a sliding window. Each of these layers gets an equal share of the sum. */
static void add_stream_read(struct view_work *w)
{
	double share = (double)w->p->hp->n_kv_head / w->heads;

	for (int32_t c = 0; c < w->out->cols; c++) {
		int64_t kept = 0;

		for (int i = 1; i <= RINGS_MOST; i++)
			kept += w->kept[i][c];
		for (int32_t i = 0; kept && i < w->p->kv.n_full; i++)
			view_heat_row(w, w->p->kv.full[i])[c] += (double)kept * share;
	}
}

/* Set out->sink to the share of the first VIEW_SINKS tokens in the attention mass that the selector has summed. */
static void view_sums(struct view_work *w)
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
				if (r == VIEW_SINKS - 1 || (r == w->past - 1 && r < VIEW_SINKS))
					sinks += (double)head;
			}
			all += (double)head;
		}
	if (!(all > 0) || !isfinite(all))
		return;
	v->share[0] = 1;
	v->sink = (float)(sinks / all);
}

void view_selected(struct view_work *w)
{
	const struct selector *s = w->sel;
	struct cache_view *v = w->out;
	int32_t n_layer = w->p->hp->n_layer, n_full = w->p->kv.n_full, region = w->in.rings ? w->pinned : w->past;
	int scored = v->watched == VIEW_MASS;
	int64_t entries;

	v->watched_pinned = w->in.rings ? VIEW_SELECTED : VIEW_NONE;
	v->watched = scored ? VIEW_MASS : VIEW_SELECTED;
	memset(w->heat, 0, (size_t)n_layer * VIEW_COLS * sizeof *w->heat);
	if (!segments_known(w, &region)) {
		if (s->ops->holds)
			view_keep_range(w, 0, 0, v->n_tokens);
		return;
	}
	entries = add_selected(w, region);
	if (w->in.rings && !scored)
		add_stream_read(w);
	for (int32_t i = 0; i < v->n_layer; i++)
		for (int32_t c = 0; c < v->cols; c++) {
			int64_t all = (int64_t)view_column_tokens(v, c, w->past) * w->p->hp->n_kv_head;
			uint8_t b = view_heat_byte(view_heat_row(w, i)[c], (double)all);

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
	/* Count the pending token as kept, because the next token will read it. */
	if (s->ops->holds)
		view_keep_range(w, 0, w->past, v->n_tokens);
}
