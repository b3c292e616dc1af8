/* engine/view.c - what a cache holds and what was attended, in a few columns, for a panel.
 *
 * Read from what policies keep for themselves: the rings' bookkeeping, and the lists of rows that a selector chose.
 * Selectors that use one list for all layers get one for each, once somebody has looked (select_look).
 *
 * A stream of 8,000 rows for 90 pairs of layer and KV head is 700,000 tokens and as many sums, and waiting for memory is most of
 * the time that it takes.  Tokens lie by row and sums by head: rows are taken in blocks that stay in a near cache, and
 * neighbours that fall into the same column are summed up before they are added to it. */
#include "engine/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/attended.h"
#include "engine/rings.h"
#include "engine/select.h"

enum { SINKS = 4, BLOCK = 128 };

struct work {
	struct cache_view *out;
	const struct policy *p;
	struct policy_inside in;
	int32_t heads;             /* that decide what is kept: pairs, or layers */
	int32_t pinned, past;      /* tokens with rows: pinned ones, all */
	uint64_t factor;           /* token * factor >> shift = its column */
	int shift;
	int64_t kept[1 + RINGS_MOST][VIEW_COLS];   /* tokens that the heads together keep, by place */
	double ring[1 + RINGS_MOST];               /* sums of attention */
	double *heat;              /* [n_layer][VIEW_COLS]: of attention, or of rows read */
	int32_t *list;             /* rows of one KV head */
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

/* Columns of tokens first .. end, and how many of these are in each. */
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

/* All heads keep tokens first .. end there. */
static void keep_range(struct work *w, int place, int32_t first, int32_t end)
{
	for (struct piece p = pieces(w, first, end); piece_next(w, &p); )
		w->kept[place][p.col] += (int64_t)p.n * w->heads;
}

static double *heat_row(struct work *w, int32_t layer)
{
	return w->heat + (size_t)layer * VIEW_COLS;
}

/* Part of the whole in 1 .. 254, ends for nothing and all. */
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
	return w->heads == w->p->hp->n_layer ? head : head / w->p->hp->n_kv_head;
}

/* n values, so many apart.  Four sums, so that none waits for itself. */
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

/* Rows row .. end of one head, all of them in ring i. */
static void add_head(struct work *w, int32_t i, int32_t head, int32_t row, int32_t end, int64_t times)
{
	const struct rings *r = w->in.rings;
	const float *sum = w->in.observed ? r->mass + head : NULL;
	double *heat = heat_row(w, layer_of(w, head)), all = 0;
	uint32_t per = (uint32_t)w->out->per_col;

	for (int32_t n; row < end; row += n) {
		const int32_t *id = r->id + (size_t)row * (size_t)r->heads + (size_t)head;
		int32_t col = column(w, *id);
		uint32_t first = (uint32_t)col * per;

		for (n = 1; row + n < end && (uint32_t)id[(size_t)n * (size_t)r->heads] - first < per; n++)
			;
		if (col >= w->out->cols)
			continue;
		w->kept[1 + i][col] += n * times;
		if (sum) {
			double s = sum_of(sum + (size_t)row * (size_t)r->heads, n, r->heads);

			heat[col] += s;
			all += s;
		}
	}
	w->ring[1 + i] += all;
}

/* Where nothing is compared all heads keep the same tokens. */
static void add_ring(struct work *w, int32_t i, int32_t row, int32_t end)
{
	int32_t heads = w->in.observed ? w->heads : 1;

	for (int32_t at = row; at < end; at += BLOCK)
		for (int32_t h = 0; h < heads; h++)
			add_head(w, i, h, at, at + BLOCK < end ? at + BLOCK : end, w->heads / heads);
}

/* While they fill, row r is token sinks + r, and the newest tokens count as the newest ring's. */
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

/* Tokens that wait behind the rings: the newest one is where they go. */
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

/* The largest value behind the first tokens; of all, where there is none. */
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
			v->heat[i][c] = heat_byte(heat_row(w, i)[c], most);
	v->watched = VIEW_SCORE;
	v->most = ema_value(&r->ema, (float)(most * w->p->hp->n_layer / w->heads), r->t + w->in.waiting);
}

/* ---- chosen rows ---- */

/* The rows that a part has of one KV head; the count, or 0 where it is no such list. */
static int32_t list_read(struct work *w, const struct attn_part *part, int32_t head)
{
	struct backend *be = w->p->be;
	int32_t n = part->n_rows;

	if (n < 1 || n > part->rows->cols || head >= part->rows->rows)
		return 0;
	if (n > w->cap_list) {
		w->list = xrealloc(w->list, (size_t)n * sizeof *w->list);
		w->cap_list = n;
	}
	memset(w->list, 0xff, (size_t)n * sizeof *w->list);
	be->ops->read(be, part->rows, 4 * (size_t)head * (size_t)part->rows->cols, w->list, 4 * (size_t)n);
	return n;
}

/* Add to to[col] the rows of a region of `limit` that the KV heads of a layer read. */
static void add_part(struct work *w, const struct attn_part *part, int32_t limit, double *to)
{
	int32_t heads = w->p->hp->n_kv_head;

	for (int32_t h = 0; part->rows && h < heads; h++) {
		int32_t n = list_read(w, part, h);

		for (int32_t i = 0; i < n; i++)
			if (w->list[i] >= 0 && w->list[i] < limit)
				to[column(w, w->list[i])]++;
	}
	if (part->rows || part->row0 >= limit)
		return;
	for (struct piece p = pieces(w, part->row0, part->n_rows < limit - part->row0 ? part->row0 + part->n_rows : limit);
	     piece_next(w, &p); )
		to[p.col] += (double)p.n * heads;
}

/* What the policy lets generated tokens read from now on, or what the last one read. */
static int parts_of(const struct work *w, int32_t layer, int32_t region, struct attn_part part[SELECT_PARTS])
{
	struct selector *s = w->in.sel;
	const struct look *look;

	if (s->ops->holds)
		return s->ops->holds(s, layer, region, part);
	look = &s->looks->layer[layer];
	memcpy(part, look->part, (size_t)look->n_part * sizeof *part);
	return look->n_part;
}

static int known(const struct work *w, int32_t *region)
{
	const struct selector *s = w->in.sel;

	if (s->ops->holds) {
		*region = w->past;
		return w->past > 0;
	}
	if (!s->looks || s->looks->at < 1 || s->looks->at > *region)
		return 0;
	*region = s->looks->at;
	return 1;
}

/* Rows of the region that are read in each layer, added to the heat; returns rows read per KV head, all layers together. */
static int64_t add_chosen(struct work *w, int32_t region)
{
	struct attn_part part[SELECT_PARTS];
	double count[VIEW_COLS];
	int64_t rows = 0;

	for (int32_t i = 0; i < w->p->hp->n_layer; i++) {
		int n = parts_of(w, i, region, part);

		memset(count, 0, sizeof count);
		for (int k = 0; k < n; k++) {
			add_part(w, &part[k], region, count);
			rows += part[k].n_rows;
		}
		for (int32_t c = 0; c < w->out->cols; c++) {
			heat_row(w, i)[c] += count[c];
			if (w->in.sel->ops->holds)
				w->kept[0][c] += (int64_t)count[c];
		}
	}
	return rows;
}

/* What a generated token reads of a stream is what is kept: where that is not scored, the same for all heads. */
static void add_stream_read(struct work *w)
{
	double share = (double)w->p->hp->n_kv_head / w->heads;

	for (int32_t c = 0; c < w->out->cols; c++) {
		int64_t kept = 0;

		for (int i = 1; i <= RINGS_MOST; i++)
			kept += w->kept[i][c];
		for (int32_t i = 0; kept && i < w->p->hp->n_layer; i++)
			heat_row(w, i)[c] += (double)kept * share;
	}
}

/* Sums of attention that a selector has: the part on the first tokens. */
static void view_sums(struct work *w)
{
	const struct selector *s = w->in.sel;
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

/* After the rings: their heat is there already where it is a score. */
static void view_chosen(struct work *w)
{
	struct selector *s = w->in.sel;
	struct cache_view *v = w->out;
	int32_t n_layer = w->p->hp->n_layer, region = w->in.rings ? w->pinned : w->past;
	int scored = v->watched == VIEW_SCORE;
	int64_t rows;

	v->watched_pinned = w->in.rings ? VIEW_CHOSEN : VIEW_NONE;
	v->watched = scored ? VIEW_SCORE : VIEW_CHOSEN;
	if (!s->ops->holds)
		select_look(s);
	memset(w->heat, 0, (size_t)n_layer * VIEW_COLS * sizeof *w->heat);
	if (!known(w, &region)) {
		if (s->ops->holds)
			keep_range(w, 0, 0, v->n_tokens);
		return;
	}
	rows = add_chosen(w, region);
	if (w->in.rings && !scored)
		add_stream_read(w);
	for (int32_t i = 0; i < v->n_layer; i++)
		for (int32_t c = 0; c < v->cols; c++) {
			int64_t all = (int64_t)column_tokens(v, c, w->past) * w->p->hp->n_kv_head;
			uint8_t b = heat_byte(heat_row(w, i)[c], (double)all);

			v->heat[i][c] = b > v->heat[i][c] ? b : v->heat[i][c];
		}
	rows = rows < (int64_t)region * n_layer ? (rows + n_layer / 2) / n_layer : 0;
	v->chosen = (int32_t)rows;
	if (s->looks) {
		v->refreshed = s->looks->refreshed;
		v->cosine = (float)s->looks->cosine;
		*(s->ops->scan ? &v->estimated : &v->recovered) = (float)select_shares(s);
	}
	if (s->ops->sums)
		view_sums(w);
	/* The token that has no row yet will be read. */
	if (s->ops->holds)
		keep_range(w, 0, w->past, v->n_tokens);
}

/* ---- together ---- */

static void inside(const struct policy *p, struct policy_inside *in)
{
	*in = (struct policy_inside){ 0 };
	if (p->def->inside)
		p->def->inside(p, in);
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
		v->where[c] = sum > 0 ? (uint8_t)most : VIEW_GONE;
	}
}

static void view_make(struct timeline *t, struct work *w)
{
	int32_t n_layer = w->p->hp->n_layer;

	w->past = t->n_past;
	w->heads = w->in.rings ? w->in.rings->heads : n_layer * w->p->hp->n_kv_head;
	if (w->in.rings) {
		w->pinned = w->in.rings->s.sinks < w->past ? w->in.rings->s.sinks : w->past;
		w->out->pinned = w->in.rings->s.sinks < w->out->n_tokens ? w->in.rings->s.sinks : w->out->n_tokens;
		view_rings(w);
		if (w->in.observed)
			heat_scored(w);
	} else if (!w->in.sel || !w->in.sel->ops->holds) {
		keep_range(w, 0, 0, w->out->n_tokens);
	}
	if (w->in.sel)
		view_chosen(w);
	view_kept(w);
}

/* The backend said nothing: what was to be seen of chosen rows is not known. */
static void view_blank(struct cache_view *v)
{
	memset(v->heat, 0, sizeof v->heat);
	v->chosen = -1;
}

void timeline_view(struct timeline *t, int32_t cols, struct cache_view *out)
{
	double start = now_seconds();
	struct policy *p = &t->policy;
	struct work *w = xcalloc(1, sizeof *w);
	int32_t n_layer = p->hp->n_layer;

	memset(out, 0, sizeof *out);
	out->n_layer = n_layer < VIEW_LAYERS ? n_layer : VIEW_LAYERS;
	out->sink = -1;
	out->refreshed = -1;
	out->cosine = -2;
	out->recovered = out->estimated = -1;
	w->out = out;
	w->p = p;
	inside(p, &w->in);
	out->chosen = w->in.sel ? -1 : 0;
	columns_set(w, (int32_t)t->tokens.n, cols);
	w->heat = xcalloc((size_t)n_layer * VIEW_COLS, sizeof *w->heat);
	if (w->in.sel || w->in.attended)
		pthread_mutex_lock(&t->e->lock);
	if (p->def->scores)
		p->def->scores(p);
	view_make(t, w);
	if (w->in.attended) {
		out->now_layers = attended_shares(w->in.attended, out->now);
		attended_look(w->in.attended, w->in.kv, w->in.rows, w->in.chunk);
	}
	if (w->in.sel || w->in.attended) {
		if (p->be->ops->sync(p->be))
			view_blank(out);
		pthread_mutex_unlock(&t->e->lock);
	}
	free(w->heat);
	free(w->list);
	free(w);
	out->seconds = now_seconds() - start;
}

/* ---- token by token ---- */

/* How many pairs will read tokens first .. first + n. */
static void count_held(struct work *w, int32_t first, int32_t n, int32_t *count)
{
	struct attn_part part[SELECT_PARTS];

	for (int32_t i = 0; i < w->p->hp->n_layer; i++) {
		int n_part = parts_of(w, i, w->past, part);

		for (int k = 0; k < n_part; k++) {
			const struct attn_part *x = &part[k];
			int32_t heads = w->p->hp->n_kv_head, from = x->row0 > first ? x->row0 : first;

			for (int32_t h = 0; x->rows && h < heads; h++) {
				int32_t rows = list_read(w, x, h);

				for (int32_t j = 0; j < rows; j++)
					if (w->list[j] >= first && w->list[j] - first < n)
						count[w->list[j] - first]++;
			}
			for (int32_t row = from; !x->rows && row < x->row0 + x->n_rows && row - first < n; row++)
				count[row - first] += heads;
		}
	}
}

static uint8_t ring_kept(const struct rings *r, int32_t token)
{
	if (token < r->s.sinks || token >= r->t || rings_filling(r))
		return 255;
	return token < r->oldest ? 0 : part_byte(r->held[token & r->mask], r->heads);
}

void timeline_kept(const struct timeline *t, int32_t first, int32_t n, uint8_t *out)
{
	struct work w = { .p = &t->policy, .past = t->n_past };
	int32_t n_tokens = (int32_t)t->tokens.n, pairs = t->policy.hp->n_layer * t->policy.hp->n_kv_head, *count, before;

	if (n <= 0)
		return;
	inside(w.p, &w.in);
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
	if (!w.in.sel || !w.in.sel->ops->holds || n <= 0)
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
