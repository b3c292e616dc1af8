/* engine/observe/observe_panel.c - figures of attention for the cache view (engine/timeline/view.c): the entries that
 * the last decoded token selected; their share of attention; in a bounded cache, the shares of attention on the pinned
 * prefix and the rings.
 *
 * To measure a layer, its attention is computed again, or all keys are scanned. Therefore each refresh of the view
 * measures only a few layers, and the next refresh continues with the layers after them. The view shows the mean over
 * the layers, with each layer's latest measurement. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/cache/rings.h"
#include "engine/observe/observe.h"

/* maximum number of slots scanned per refresh of the cache view; but at least one layer is always scanned */
enum { SCAN_SLOTS = 1 << 16 };
/* maximum number of slots whose attention is computed again per refresh; but at least one layer is always measured */
enum { ATTEND_SLOTS = 1 << 13 };

struct layer_selection {
	/* segments (ranges or lists of slots) that the last decoded token selected */
	struct attn_segment seg[SELECT_SEGMENTS];
	/* i32 [n_kv_head][..]: copies of the lists of slots in seg[], allocated on first use */
	struct tensor list[SELECT_SEGMENTS];
	/* n_seg is the number of elements of seg[]; if `wanted` is 1, the next step measures the share of attention and
	 * sets `now` */
	int n_seg, wanted;
	/* Share of attention on the selected entries, or -1 if it is unknown. `now` is the share measured in the
	 * current step. `share` is the share measured in the last committed step in which it was measured. */
	double now, share;
};
/* Shares of a layer's attention: element 0 is the share on the pinned prefix, element i the share on ring i. The array
 * `now` has the shares measured in the current step. The array `share` has the shares of the last committed step in
 * which they were measured. If `wanted` is 1, the next step measures the shares. */
struct layer_regions {
	/* if element 0 of an array is negative, the shares are unknown */
	double now[1 + RINGS_MOST], share[1 + RINGS_MOST];
	int wanted;
};
/* The attention mass of a layer. A cell has the mass of 1 << mass_shift tokens. */
enum { MASS_CELLS = 4096 };
/* weight of the old value of a running average when a new measurement is added */
static const float MASS_KEEP = 0.7f;
struct layer_mass {
	/* [MASS_CELLS] `now` has the attention mass in the current step, `mean` the running average of `now`. Both are
	 * NULL before the first measurement. */
	float *now, *mean;
	int now_known, mean_known;
};
struct observe_panel {
	struct observer base; /* must be the first member */
	struct cache *c;
	struct token_attention one;
	struct layer_selection *sel;  /* [n_layer] */
	struct layer_regions *region; /* [n_layer] */
	struct layer_mass *mass;      /* [n_layer] */
	int mass_shift;
	/* The next refresh of the view scans the keys of a few layers from layer next_scan on, and computes the
	 * attention of a few layers from layer next_attend on. */
	int32_t next_scan, next_attend;
	/* number of slots from which the last decoded token selected the entries in sel[]; 0: no token has selected
	 * entries yet */
	int32_t at;
	/* number of slots from which the token of the current step selects; 0: the token does not select */
	int32_t n_slots;
	int32_t fresh;
	double cosine;
	float *score;  /* [cap] logarithm of each slot's probability in one head; on the host */
	int32_t *slot; /* [cap] list of slots of one head, on the host */
};

/* ---- selections, and the attention on selected entries ---- */

/* Copy the token's selection, including its lists of slots, because the selector may overwrite its lists in the next
 * layer or step. */
static void selection_note(struct observe_panel *p, const struct attention *a)
{
	struct layer_selection *l = &p->sel[a->layer];
	struct backend *be = p->c->be;

	l->n_seg = a->r->n_region;
	p->n_slots = a->r->n_slots;
	memcpy(l->seg, a->r->seg, (size_t)l->n_seg * sizeof *l->seg);
	for (int i = 0; i < l->n_seg; i++) {
		struct tensor from, to;

		if (!l->seg[i].slots)
			continue;
		if (l->list[i].cols < l->seg[i].slots->cols) {
			cache_drop(p->c, &l->list[i]);
			if (cache_alloc(p->c, &l->list[i], DT_I32, l->seg[i].slots->rows, l->seg[i].slots->cols, NULL))
				return;
		}
		/* copy() copies the bits of f32 values unchanged, so it can copy i32 values, too */
		from = *l->seg[i].slots;
		to = l->list[i];
		from.type = to.type = DT_F32;
		be->ops->copy(be, &to, 0, &from, 0, from.rows);
		l->seg[i].slots = &l->list[i];
	}
}

/* Return the probability that falls on the slots of these segments (ranges or lists of slots), without randomly sampled
 * slots. p->score has the logarithm of each slot's probability. */
static double share_of_head(struct observe_panel *p, int32_t head, int32_t n_slots, const struct attn_segment *seg,
                            int n_seg)
{
	struct backend *be = p->c->be;
	double sum = 0;

	for (int i = 0; i < n_seg; i++) {
		const struct attn_segment *x = &seg[i];
		int32_t n = x->n_slots - x->sample < n_slots ? x->n_slots - x->sample : n_slots,
			last = x->slot0 + n < n_slots ? x->slot0 + n : n_slots;

		if (x->slots) {
			memset(p->slot, 0xff, (size_t)n * sizeof *p->slot);
			be->ops->read(be, x->slots, 4 * (size_t)head * (size_t)x->slots->cols, p->slot, 4 * (size_t)n);
		}
		for (int32_t k = 0; x->slots && k < n; k++)
			if (p->slot[k] >= 0 && p->slot[k] < n_slots)
				sum += (double)expf(p->score[p->slot[k]]);
		for (int32_t slot = x->slot0; !x->slots && slot < last; slot++)
			sum += (double)expf(p->score[slot]);
	}
	return sum;
}

double observe_panel_share_on(struct observe_panel *p, const struct scan_args *by, const struct attn_segment *seg,
                              int n_seg)
{
	struct scan_args scan = *by;
	struct backend *be = p->c->be;
	int32_t heads = scan.n_kv_head, n = scan.n_slots;
	double sum = 0;

	if (n_seg == 1 && !seg->slots && seg->slot0 == 0 && seg->n_slots >= n)
		return 1;
	/* use the mean over the query heads of a KV head, because only then do the probabilities of all slots sum to
	 * 1 */
	scan.reduce = REDUCE_MEAN;
	be->ops->key_scan(be, &scan);
	for (int32_t h = 0; h < heads; h++) {
		memset(p->score, 0, (size_t)n * sizeof *p->score);
		be->ops->read(be, scan.out, 4 * (size_t)h * (size_t)scan.out->cols, p->score, 4 * (size_t)n);
		sum += share_of_head(p, h, n, seg, n_seg) / heads;
	}
	/* a scan is not exact: the sum may exceed 1 by about 1e-4 */
	return sum >= 0 ? MIN(sum, 1) : -1;
}

/* Measure the share of attention on the selected entries. If several tokens use one selection, measure it only just
 * before the selection is replaced. */
static void selection_measure(struct observe_panel *p, const struct attention *a)
{
	struct layer_selection *l = &p->sel[a->layer];
	const struct selector *s = &p->c->sel;
	struct attn_segment seg[SELECT_SEGMENTS];
	struct scan_args scan;
	int n = l->n_seg;

	if (!l->wanted || !s->ops->scan)
		return;
	memcpy(seg, l->seg, (size_t)n * sizeof *seg);
	if (s->ops->replaced && !(n = s->ops->replaced(s, a->layer, a->r->q, a->r->n_slots, seg)))
		return;
	l->wanted = 0;
	scan = s->ops->scan(s, a->layer, a->r->q, a->r->n_slots);
	l->now = observe_panel_share_on(p, &scan, seg, n);
}

/* ---- attention on the pinned prefix and on the rings ---- */

static double sum_of(const float *x, int32_t n)
{
	float s[8] = { 0 };
	double sum = 0;

	for (int32_t i = 0; i < n; i++)
		s[i % 8] += x[i];
	for (int i = 0; i < 8; i++)
		sum += (double)s[i];
	return sum;
}

/* Count the slots that the token read (the columns of p->one): cols[0] of them are in the pinned prefix, cols[i] in
 * ring i. Ring 1 has the newest tokens. */
static void region_columns(const struct observe_panel *p, const struct attention *a, const struct retained_view *v,
                           int32_t cols[1 + RINGS_MOST])
{
	const struct rings *r = v->rings;
	int32_t left = p->one.n_col - p->one.n_region,
		more = rings_filling(r) ? 0 : v->waiting + a->st->index + a->st->n;

	memset(cols, 0, (1 + RINGS_MOST) * sizeof *cols);
	cols[0] = p->one.n_region;
	for (int32_t i = 0; i < r->s.n; i++) {
		int32_t here = r->s.w + (i ? 0 : more);

		cols[1 + i] = here < left && i + 1 < r->s.n ? here : left;
		left -= cols[1 + i];
	}
}

/* Merge cells in pairs in all layers: replace each pair by its sum, so that a cell stands for twice as many tokens. */
static void mass_fold(struct observe_panel *p)
{
	p->mass_shift++;
	for (int32_t i = 0; i < p->c->hp->n_layer; i++)
		for (int k = 0; k < 2 && p->mass[i].mean; k++) {
			float *x = k ? p->mass[i].now : p->mass[i].mean;

			for (int c = 0; c < MASS_CELLS; c++)
				x[c] = 2 * c + 1 < MASS_CELLS ? x[2 * c] + x[2 * c + 1] : 0;
		}
}

/* Add one head's attention (p->one.share) to the cells of the tokens that the head attends to. */
static void mass_add(struct observe_panel *p, int32_t layer)
{
	struct layer_mass *m = &p->mass[layer];

	for (int32_t i = 0; i < p->one.n_col; i++) {
		int32_t token = p->one.token[i];

		while (token >= 0 && token >> p->mass_shift >= MASS_CELLS)
			mass_fold(p);
		if (token >= 0 && p->one.share[i] > 0)
			m->now[token >> p->mass_shift] += p->one.share[i];
	}
}

static void regions_measure(struct observe_panel *p, const struct attention *a, const struct retained_view *v)
{
	struct layer_regions *l = &p->region[a->layer];
	struct layer_mass *m = &p->mass[a->layer];
	int32_t cols[1 + RINGS_MOST] = { 0 };
	double all = 0;

	l->wanted = 0;
	memset(l->now, 0, sizeof l->now);
	if (!m->now) {
		m->now = xcalloc(MASS_CELLS, sizeof *m->now);
		m->mean = xcalloc(MASS_CELLS, sizeof *m->mean);
	}
	memset(m->now, 0, MASS_CELLS * sizeof *m->now);
	token_attention_take(&p->one, a, NULL);
	if (v->rings)
		region_columns(p, a, v, cols);
	else
		cols[0] = p->one.n_col;
	for (int32_t h = 0; h < p->c->hp->n_kv_head; h++) {
		token_attention_head(&p->one, a, h, 1);
		mass_add(p, a->layer);
		l->now[0] += sum_of(p->one.share, cols[0]);
		for (int32_t i = RINGS_MOST, at = cols[0]; i > 0; at += cols[i--])
			l->now[i] += sum_of(p->one.share + at, cols[i]);
	}
	for (int32_t i = 0; i <= RINGS_MOST; i++)
		all += l->now[i];
	for (int32_t i = 0; i <= RINGS_MOST; i++)
		l->now[i] /= all;
	m->now_known = all > 0 && isfinite(all);
	for (int c = 0; m->now_known && c < MASS_CELLS; c++)
		m->now[c] /= (float)all;
	if (!m->now_known)
		l->now[0] = -1;
}

/* Update the running average after a commit. */
static void mass_commit(struct layer_mass *m)
{
	float keep = m->mean_known ? MASS_KEEP : 0;

	if (!m->now_known)
		return;
	for (int c = 0; c < MASS_CELLS; c++)
		m->mean[c] = keep * m->mean[c] + (1 - keep) * m->now[c];
	m->mean_known = 1;
	m->now_known = 0;
}

/* Remove all tokens but the first n. */
static void mass_rewind(struct observe_panel *p, struct layer_mass *m, int32_t n)
{
	m->now_known = 0;
	for (int c = (n + (1 << p->mass_shift) - 1) >> p->mass_shift; m->mean && c < MASS_CELLS; c++)
		m->mean[c] = 0;
	m->mean_known &= n > 0;
}

/* ---- the observer ---- */

/* 1 if the step checks several drafted tokens, some of which may be rejected. Such steps are not measured; the view
 * keeps its last figures. */
static int is_verify_step(const struct step *st)
{
	return st->kind == STEP_VERIFY && st->tried > 1;
}

static void panel_attended(struct observer *o, const struct attention *a)
{
	struct observe_panel *p = (struct observe_panel *)o;
	struct retained_view v = { 0 };

	if (is_verify_step(a->st))
		return;
	if (a->layer == 0)
		p->n_slots = 0;
	if (layer_window(p->c->hp, a->layer))
		return;
	if (p->c->selecting && step_generates(a->st) && a->r->n_region) {
		p->sel[a->layer].now = -1;
		selection_note(p, a);
		selection_measure(p, a);
	}
	if (p->c->policy.def->retention->view)
		p->c->policy.def->retention->view(p->c, &v);
	/* If tokens select from the whole cache, the view shows no shares of prefix and rings. */
	if ((v.rings || !p->c->selecting) && p->region[a->layer].wanted)
		regions_measure(p, a, &v);
}

static void forget_selection(struct observe_panel *p)
{
	p->at = 0;
	p->fresh = -1;
	for (int32_t i = 0; i < p->c->hp->n_layer; i++)
		p->sel[i].now = p->sel[i].share = -1;
}

static void panel_commit(struct observer *o, const struct step *st)
{
	struct observe_panel *p = (struct observe_panel *)o;
	const struct selector *s = &p->c->sel;
	int32_t n = 0;
	double sum = 0;

	if (is_verify_step(st))
		return;
	for (int32_t i = 0; i < p->c->hp->n_layer; i++) {
		if (p->region[i].now[0] >= 0)
			memcpy(p->region[i].share, p->region[i].now, sizeof p->region[i].share);
		p->region[i].now[0] = -1;
		mass_commit(&p->mass[i]);
	}
	if (!p->n_slots || !step_generates(st)) {
		forget_selection(p);
		return;
	}
	p->at = p->n_slots;
	p->fresh = -1;
	for (int32_t i = 0; i < p->c->hp->n_layer; i++) {
		struct layer_selection *l = &p->sel[i];
		struct select_status status =
			s->ops->status ? s->ops->status(s, i) : (struct select_status){ .fresh = -1, .cosine = -2 };

		l->n_seg = kv_segments_met(&p->c->kv, l->seg, l->n_seg, NULL);
		if (l->now >= 0)
			l->share = l->now;
		l->now = -1;
		if (status.fresh >= 0)
			p->fresh = MAX(p->fresh, 0) + status.fresh;
		if (status.cosine >= -1) {
			sum += status.cosine;
			n++;
		}
	}
	if (n)
		p->cosine = sum / n;
}

static int32_t panel_rewind(struct observer *o, int32_t n)
{
	struct observe_panel *p = (struct observe_panel *)o;

	forget_selection(p);
	for (int32_t i = 0; i < p->c->hp->n_layer; i++) {
		p->region[i].now[0] = -1;
		mass_rewind(p, &p->mass[i], n);
	}
	return n;
}

static const struct observer_ops panel_ops = { panel_attended, panel_commit, panel_rewind, NULL };

struct observe_panel *observe_panel_open(struct cache *c)
{
	struct observe_panel *p = xcalloc(1, sizeof *p);
	struct err err;

	*p = (struct observe_panel){ .base.ops = &panel_ops, .c = c, .cosine = -2 };
	p->sel = xcalloc((size_t)c->hp->n_layer, sizeof *p->sel);
	p->region = xcalloc((size_t)c->hp->n_layer, sizeof *p->region);
	p->mass = xcalloc((size_t)c->hp->n_layer, sizeof *p->mass);
	if (token_attention_open(&p->one, c, &err) ||
	    !(p->score = try_alloc((size_t)c->kv.cap, sizeof *p->score, "scores", &err)) ||
	    !(p->slot = try_alloc((size_t)c->kv.cap, sizeof *p->slot, "slots", &err))) {
		observe_panel_close(p);
		return NULL;
	}
	forget_selection(p);
	for (int32_t i = 0; i < c->hp->n_layer; i++)
		p->region[i].now[0] = p->region[i].share[0] = -1;
	observer_add(&c->observers, &p->base);
	return p;
}

void observe_panel_close(struct observe_panel *p)
{
	if (!p)
		return;
	observer_remove(&p->c->observers, &p->base);
	if (p->one.kv)
		token_attention_close(&p->one);
	for (int32_t i = 0; i < p->c->hp->n_layer; i++) {
		for (int k = 0; k < SELECT_SEGMENTS; k++)
			cache_drop(p->c, &p->sel[i].list[k]);
		free(p->mass[i].now);
		free(p->mass[i].mean);
	}
	free(p->mass);
	free(p->sel);
	free(p->region);
	free(p->score);
	free(p->slot);
	free(p);
}

void observe_panel_measure(struct observe_panel *p, int32_t slots)
{
	int32_t n_layer = p->c->hp->n_layer;
	int32_t scan = SCAN_SLOTS / (p->at > 0 ? p->at : SCAN_SLOTS), attend = ATTEND_SLOTS / (slots > 0 ? slots : 1);

	scan = scan < 1 ? 1 : MIN(scan, n_layer);
	for (int32_t i = 0; i < n_layer; i++)
		p->sel[i].wanted = (i - p->next_scan + n_layer) % n_layer < scan;
	p->next_scan = (p->next_scan + scan) % n_layer;
	if (!slots)
		return;
	attend = attend < 1 ? 1 : MIN(attend, n_layer);
	for (int32_t i = 0; i < n_layer; i++)
		p->region[i].wanted = (i - p->next_attend + n_layer) % n_layer < attend;
	p->next_attend = (p->next_attend + attend) % n_layer;
}

/* ---- results for the cache view ---- */

int32_t observe_panel_region(const struct observe_panel *p)
{
	return p->at;
}

int observe_panel_segments(const struct observe_panel *p, int32_t layer, const struct attn_segment **seg)
{
	*seg = p->sel[layer].seg;
	return p->sel[layer].n_seg;
}

double observe_panel_share(const struct observe_panel *p)
{
	double sum = 0;
	int32_t n = 0;

	for (int32_t i = 0; i < p->c->hp->n_layer; i++)
		if (p->sel[i].share >= 0) {
			sum += p->sel[i].share;
			n++;
		}
	return n ? sum / n : -1;
}

int32_t observe_panel_sample(const struct observe_panel *p, double *spread)
{
	double share = observe_panel_share(p);
	int32_t n = 0;

	for (int32_t i = 0; i < p->c->hp->n_layer; i++)
		if (p->sel[i].n_seg > 0 && p->sel[i].seg->sample > n)
			n = p->sel[i].seg->sample;
	*spread = n && share >= 0 ? (1 - share) / sqrt(n) : -1;
	return n;
}

int32_t observe_panel_fresh(const struct observe_panel *p, double *cosine)
{
	*cosine = p->cosine;
	return p->fresh;
}

int observe_panel_mass(const struct observe_panel *p, int32_t layer, const float **cell, int32_t *n, int *shift)
{
	*cell = p->mass[layer].mean;
	*n = MASS_CELLS;
	*shift = p->mass_shift;
	return p->mass[layer].mean_known;
}

int32_t observe_panel_regions(const struct observe_panel *p, float share[1 + RINGS_MOST])
{
	double sum[1 + RINGS_MOST] = { 0 };
	int32_t n = 0;

	for (int32_t i = 0; i < p->c->hp->n_layer; i++) {
		if (p->region[i].share[0] < 0)
			continue;
		n++;
		for (int32_t k = 0; k <= RINGS_MOST; k++)
			sum[k] += p->region[i].share[k];
	}
	for (int32_t k = 0; k <= RINGS_MOST; k++)
		share[k] = n ? (float)(sum[k] / n) : 0;
	return n;
}
