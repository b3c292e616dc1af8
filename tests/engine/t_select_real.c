/* tests/engine/t_select_real.c - selection policies on the queries and keys of real models with real text: compares the
 * entries that each generated token reads, in each layer and KV head, with the published definition in double.
 *
 * An observer records every query and the entries that are read; keys come from the planes, which are f32 here. The
 * definition keeps its own state. If two scores are so close that single precision may order them differently, both
 * orders are accepted. */
#include "tests/lib/test.h"
#include "engine/observe/observe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/timeline/timeline.h"
#include "tests/lib/predictor.h"
#include "tests/lib/scored.h"

enum {
	PROMPT = 400,
	STEPS = 40,
	ALL = PROMPT + STEPS,
	K = 96,
	POOL = 7,
	BLOCK = 4,
	ROWS = 64,
	LAYERS_MOST = 4,
	HEADS_MOST = 8,
	WIDTH_MOST = 1024
};
/* Relative difference below which two scores count as equal. Scores contain sums of exponentials, which have relative
 * errors of up to 7e-4 (CHOOSE_EXP, kernels/cpu/select.h) that depend on the processor. */
static const double NEAR = 1e-3;

struct real;
typedef void check_fn(struct real *, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n);

struct real {
	struct observer base; /* first */
	check_fn *check;
	const struct cache *c;
	int32_t layer[LAYERS_MOST], n_layer, group, kv, dim;
	double scale;
	float *q[LAYERS_MOST];                                  /* [ALL][n_head * dim], rotated */
	double mean[LAYERS_MOST][ALL][WIDTH_MOST / HEADS_MOST]; /* queries without rotation, mean over the heads */
	float *key;                                             /* [ALL][dim] of one head */
	int32_t pos;                                            /* position of the current token */
	/* Numbers of lists of entries. checked: all lists. fresh: those in which something was selected anew, or
	 * (predict) those compared with the definition. old: the others. */
	int checked, fresh, old;
	/* state of the definitions, by checked layer and head */
	struct state {
		int32_t list[ALL], n; /* the selected set, best first (h2o: the heavy entries, ascending) */
		int32_t at;           /* number of slots when the set was selected */
		double sum[ALL];
		/* Attention that each of the last ROWS tokens pays: to entries for h2o+, to blocks for predict. The row
		 * of the oldest token is row `next` for h2o+, row 0 for predict. */
		double row[ROWS][ALL];
		int32_t next;
	} state[LAYERS_MOST][HEADS_MOST];
	int32_t selected[LAYERS_MOST]; /* position of the token at which the last set was selected */
	struct predictor net;
};
static struct real real;

/* ---- definitions ---- */

static double query(const struct real *r, int at, int32_t head, int32_t g, int32_t pos, int32_t d)
{
	return (double)r->q[at][((size_t)pos * (size_t)r->kv + (size_t)head) * (size_t)(r->group * r->dim) +
	                        (size_t)(g * r->dim + d)];
}

/* For each slot of list[0 .. n) (NULL: the first n slots), set out[] to the attention of token pos: the largest
 * probability among the query heads that share the KV head, or (mean) their mean. */
static void row_of(const struct real *r, int at, int32_t head, int32_t pos, const int32_t *list, int32_t n, int mean,
                   double *out)
{
	const float *q = r->q[at] + ((size_t)pos * (size_t)r->kv + (size_t)head) * (size_t)(r->group * r->dim);

	scored_row(q, r->group, r->dim, r->key, (size_t)r->dim, r->scale, list, n, mean, out);
}

/* 1 if list[0 .. n) has the slots with the best scores, except that scores closer than NEAR may be swapped. forced: a
 * slot that must be in the list whatever its score; -1 = none. */
static int holds_best(const struct scored *all, int32_t n_all, const int32_t *list, int32_t n, int32_t forced)
{
	static char in[ALL];
	double worst = INFINITY, best = 0;

	memset(in, 0, sizeof in);
	for (int32_t i = 0; i < n; i++)
		in[list[i]] = 1;
	for (int32_t i = 0; i < n_all; i++)
		if (in[all[i].slot] && all[i].slot != forced)
			worst = fmin(worst, all[i].pooled);
		else if (!in[all[i].slot])
			best = fmax(best, all[i].pooled);
	return (forced < 0 || in[forced]) && worst * (1 + NEAR) >= best;
}

/* Check sift with exact keys: each token reads the k slots with the largest probability, and always its own slot. */
static void check_sift(struct real *r, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n)
{
	static double row[ALL];
	static struct scored all[ALL];

	CHECK_INT(n, K);
	row_of(r, at, head, r->pos, NULL, n_slots, 0, row);
	scored_pool(row, n_slots, 1, all);
	CHECK_MSG(holds_best(all, n_slots, list, n, n_slots - 1), "token %d, layer %d, head %d: not the top entries",
	          r->pos, r->layer[at], head);
}

/* Check Quest: a token reads the pages with the largest upper bounds of their scores. */
static void check_quest(struct real *r, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n, int raw)
{
	enum { PAGE = 16, PAGES = (ALL + PAGE - 1) / PAGE };
	double bound[PAGES], score[PAGES] = { 0 };
	struct scored all[PAGES];
	int32_t page[PAGES], pages = (n_slots + PAGE - 1) / PAGE, n_page = 0,
			     forced = raw ? 1 : 1 + (48 + PAGE - 1) / PAGE;

	for (int32_t p = 0; raw && p < pages; p++)
		score[p] = -INFINITY;
	for (int32_t g = 0; g < r->group; g++) {
		double most = -INFINITY, sum = 0;

		for (int32_t p = 0; p < pages; p++) {
			bound[p] = 0;
			for (int32_t d = 0; d < r->dim; d++) {
				double lo = INFINITY, hi = -INFINITY, x = query(r, at, head, g, r->pos, d);

				for (int32_t i = p * PAGE; i < (p + 1) * PAGE && i < n_slots; i++) {
					lo = fmin(lo, (double)r->key[i * r->dim + d]);
					hi = fmax(hi, (double)r->key[i * r->dim + d]);
				}
				bound[p] += fmax(x * lo, x * hi);
			}
			most = fmax(most, bound[p] *= r->scale);
		}
		for (int32_t p = 0; p < pages; p++)
			sum += exp(bound[p] - most);
		for (int32_t p = 0; p < pages; p++)
			score[p] = fmax(score[p], raw ? bound[p] : exp(bound[p] - most) / sum);
	}
	for (int32_t i = 0; i < n; i++)
		if (!i || list[i] / PAGE != list[i - 1] / PAGE)
			page[n_page++] = list[i] / PAGE;
	CHECK_INT(n_page, K / PAGE);
	CHECK_INT(n, (n_page - 1) * PAGE + n_slots - (pages - 1) * PAGE);
	/* Only the order of bounds counts, so map negative bounds to positive scores. */
	for (int32_t p = 0; p < pages; p++)
		all[p] = (struct scored){ p >= pages - forced || (!raw && !p) ? INFINITY
			                  : raw                               ? exp(score[p] / 8)
			                                                      : score[p],
			                  0, p };
	CHECK_MSG(holds_best(all, pages, page, n_page, pages - 1), "token %d, layer %d, head %d: not the top pages",
	          r->pos, r->layer[at], head);
}

static void check_quest_raw(struct real *r, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n)
{
	check_quest(r, at, head, n_slots, list, n, 1);
}

static void check_quest_soft(struct real *r, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n)
{
	check_quest(r, at, head, n_slots, list, n, 0);
}

/* Check SnapKV: entries are selected once, by the pooled attention mass of the prompt's last tokens. These tokens and
 * all later ones are also read. */
static void check_snapkv(struct real *r, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n)
{
	enum { WINDOW = 32, KEPT = K - WINDOW };
	struct state *s = &r->state[at][head];
	static double row[ALL], sum[ALL];
	static struct scored all[ALL];

	CHECK_INT(n, K + n_slots - PROMPT);
	for (int32_t i = KEPT; i < n; i++)
		CHECK_INT(list[i], PROMPT - WINDOW + i - KEPT);
	if (s->n) {
		CHECK_MSG(!memcmp(list, s->list, KEPT * sizeof *list), "the set changed");
		return;
	}
	memset(sum, 0, sizeof sum);
	for (int32_t pos = PROMPT - WINDOW; pos < PROMPT; pos++) {
		row_of(r, at, head, pos, NULL, pos + 1, 1, row);
		for (int32_t i = 0; i <= pos; i++)
			sum[i] += row[i];
	}
	scored_pool(sum, PROMPT - WINDOW, POOL, all);
	CHECK_MSG(holds_best(all, PROMPT - WINDOW, list, KEPT, -1), "layer %d, head %d: not the set of the definition",
	          r->layer[at], head);
	memcpy(s->list, list, KEPT * sizeof *list);
	s->n = KEPT;
}

/* H2O: half of the entries that a token reads have the most attention mass so far, half are the newest ones. An entry
 * that drops out is never selected again. h2o+ (rolling) sums the mass of the last ROWS tokens only. */
static void heavy_begin(struct real *r, int at, int32_t head, int rolling)
{
	struct state *s = &r->state[at][head];
	static double row[ALL];
	static struct scored all[ALL];

	for (int32_t pos = rolling ? PROMPT - ROWS : 0; pos < PROMPT; pos++) {
		row_of(r, at, head, pos, NULL, pos + 1, 0, row);
		for (int32_t i = 0; i <= pos; i++) {
			s->sum[i] += row[i];
			if (rolling)
				s->row[pos - (PROMPT - ROWS)][i] = row[i];
		}
	}
	scored_pool(s->sum, PROMPT - K / 2, 1, all);
	for (s->n = 0; s->n < K / 2; s->n++)
		s->list[s->n] = all[s->n].slot;
	qsort(s->list, K / 2, sizeof *s->list, by_number);
}

/* Add the attention of one more token. rolling: 1 = also subtract that of the oldest token. */
static void heavy_add(struct state *s, const int32_t *list, int32_t n, const double *row, int rolling)
{
	double *oldest = s->row[s->next];

	for (int32_t i = 0; rolling && i < ALL; i++)
		s->sum[i] -= oldest[i];
	memset(oldest, 0, sizeof s->row[0]);
	for (int32_t i = 0; i < n; i++)
		s->sum[list[i]] += oldest[list[i]] = row[i];
	s->next = (s->next + 1) % ROWS;
}

static void check_heavy(struct real *r, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n,
                        int rolling)
{
	struct state *s = &r->state[at][head];
	int32_t lightest = 0, offered = n_slots - 1 - K / 2;
	static double row[ALL];

	if (!s->n)
		heavy_begin(r, at, head, rolling);
	CHECK_INT(n, K + 1);
	for (int32_t i = 0; i <= K / 2; i++)
		CHECK_INT(list[K / 2 + i], offered + i);
	if (memcmp(list, s->list, K / 2 * sizeof *list)) {
		/* The lists may differ only in entries of equal mass. */
		double mine = 0, theirs = 0;

		for (int32_t i = 0; i < K / 2; i++) {
			mine += s->sum[s->list[i]];
			theirs += s->sum[list[i]];
		}
		CHECK_MSG(fabs(mine - theirs) < 1e-6 * mine,
		          "token %d, layer %d, head %d: heavy entries weigh %g, not %g", r->pos, r->layer[at], head,
		          theirs, mine);
		memcpy(s->list, list, K / 2 * sizeof *list);
	}
	row_of(r, at, head, r->pos, list, n, 0, row);
	heavy_add(s, list, n, row, rolling);
	for (int32_t i = 1; i < K / 2; i++)
		if (s->sum[s->list[i]] < s->sum[s->list[lightest]])
			lightest = i;
	if (s->sum[offered] < s->sum[s->list[lightest]]) {
		r->old++;
		return;
	}
	r->fresh++;
	s->list[lightest] = offered;
	qsort(s->list, K / 2, sizeof *s->list, by_number);
}

static void check_h2o(struct real *r, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n)
{
	check_heavy(r, at, head, n_slots, list, n, 0);
}

static void check_h2o_plus(struct real *r, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n)
{
	check_heavy(r, at, head, n_slots, list, n, 1);
}

/* AttentionPredictor: a token reads the blocks for which the network predicts the most attention. The network's input
 * is the largest probability in each block, for each of the last ROWS tokens. */
static void history_add(struct state *s, const int32_t *list, int32_t n, const double *row)
{
	memmove(s->row[0], s->row[1], (ROWS - 1) * sizeof s->row[0]);
	memset(s->row[ROWS - 1], 0, sizeof s->row[0]);
	for (int32_t i = 0; i < n; i++) {
		double *to = &s->row[ROWS - 1][(list ? list[i] : i) / BLOCK];

		*to = fmax(*to, row[i]);
	}
}

static void check_predict(struct real *r, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n)
{
	enum { FIRST = 8, LAST = 12, SKIPPED = FIRST / BLOCK, CALIBRATE = 5, LOOKED_AT = 7 };
	struct state *s = &r->state[at][head];
	static double row[ALL], score[ALL];
	static struct scored all[ALL];
	int32_t to = (n_slots - LAST) / BLOCK, want = (K - FIRST - LAST) / BLOCK, since = n_slots - PROMPT, block[ALL];

	for (int32_t pos = PROMPT - ROWS; !s->n && pos < PROMPT; pos++) {
		row_of(r, at, head, pos, NULL, pos + 1, 0, row);
		history_add(s, NULL, pos + 1, row);
	}
	s->n = 1;
	CHECK_INT(n, (SKIPPED + want) * BLOCK + n_slots - to * BLOCK);
	for (int32_t i = 0; i < FIRST; i++)
		CHECK_INT(list[i], i);
	for (int32_t i = 0; i < want * BLOCK; i++)
		CHECK_MSG(list[FIRST + i] == list[FIRST + i / BLOCK * BLOCK] + i % BLOCK &&
		                  list[FIRST + i] / BLOCK == list[FIRST + i / BLOCK * BLOCK] / BLOCK,
		          "part of a block");
	for (int32_t i = to * BLOCK; i < n_slots; i++)
		CHECK_INT(list[n - n_slots + i], i);
	if (since % LOOKED_AT == 1) { /* not at every token, because the network in double is slow */
		predictor_double(&r->net, s->row[0] + SKIPPED, ROWS, ALL, to - SKIPPED, score);
		for (int32_t i = 0; i < to - SKIPPED; i++)
			all[i] = (struct scored){ exp(score[i]), 0, i };
		for (int32_t i = 0; i < want; i++)
			block[i] = list[FIRST + i * BLOCK] / BLOCK - SKIPPED;
		CHECK_MSG(holds_best(all, to - SKIPPED, block, want, -1),
		          "token %d, layer %d, head %d: not the blocks that are expected", r->pos, r->layer[at], head);
		r->fresh++;
	} else {
		r->old++;
	}
	row_of(r, at, head, r->pos, since % CALIBRATE ? list : NULL, since % CALIBRATE ? n : n_slots, 0, row);
	history_add(s, since % CALIBRATE ? list : NULL, since % CALIBRATE ? n : n_slots, row);
}

/* Select the k slots with the largest pooled probabilities of token pos, best first, always with the token's own
 * slot. */
static void set_select(struct real *r, int at, int32_t head, int32_t pos, struct scored *all)
{
	struct state *s = &r->state[at][head];
	static double row[ALL];
	int own = 0;

	row_of(r, at, head, pos, NULL, pos + 1, 0, row);
	scored_pool(row, pos + 1, POOL, all);
	for (s->n = 0; s->n < K; s->n++)
		own |= (s->list[s->n] = all[s->n].slot) == pos;
	if (!own)
		s->list[K - 1] = pos;
	s->at = pos + 1;
}

/* Check RefreshKV: a token reads the selected set and all tokens since its selection. For each of these tokens the
 * weakest entry of the set is dropped. */
static void check_set(struct real *r, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n, int select)
{
	struct state *s = &r->state[at][head];
	static struct scored all[ALL];
	static double pool[ALL];
	int32_t since, left;

	if (!s->n || select)
		set_select(r, at, head, select ? r->pos : PROMPT - 1, all);
	else
		set_select(r, at, head, s->at - 1, all); /* select again, to get the scores */
	for (int32_t i = 0; i < s->at; i++)
		pool[all[i].slot] = all[i].pooled;
	since = n_slots - s->at;
	left = since > 1 ? K - (since - 1) : K;
	CHECK_INT(n, left + since);
	for (int32_t i = 0; i < left && n == left + since; i++)
		CHECK_MSG(list[i] == s->list[i] || fabs(pool[list[i]] - pool[s->list[i]]) <= NEAR * pool[s->list[i]],
		          "token %d, layer %d, head %d: place %d has slot %d (%g), not %d (%g)", r->pos, r->layer[at],
		          head, i, list[i], pool[list[i]], s->list[i], pool[s->list[i]]);
	for (int32_t i = left; i < n && n == left + since; i++)
		CHECK_INT(list[i], n_slots - n + i);
	r->fresh += select;
	r->old += !select;
}

static void check_recycled(struct real *r, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n)
{
	check_set(r, at, head, n_slots, list, n, (n_slots - PROMPT) % 5 == 0);
}

/* refresh: at every fifth token, a new set is selected if the mean query differs enough from that of the last
 * selection. */
static void check_refresh(struct real *r, int at, int32_t head, int32_t n_slots, const int32_t *list, int32_t n)
{
	int turned;

	if (head == 0 && (n_slots - PROMPT) % 5 == 0) {
		const double *a = r->mean[at][r->pos], *b = r->mean[at][r->selected[at]];
		double ab = 0, aa = 0, bb = 0;

		for (int32_t d = 0; d < r->dim; d++) {
			ab += a[d] * b[d];
			aa += a[d] * a[d];
			bb += b[d] * b[d];
		}
		if (ab / sqrt(aa * bb) <= 0.95)
			r->selected[at] = r->pos;
	}
	turned = r->selected[at] == r->pos;
	check_set(r, at, head, n_slots, list, n, turned);
}

/* ---- what is read ---- */

static void keep_queries(struct real *r, int at, const struct attention *a)
{
	size_t width = (size_t)r->kv * (size_t)r->group * (size_t)r->dim;
	static float x[WIDTH_MOST];

	for (int32_t i = 0; i < a->st->n; i++) {
		r->c->be->ops->read(r->c->be, a->r->q, (size_t)i * width * 4,
		                    r->q[at] + (size_t)(a->st->pos + i) * width, width * 4);
		r->c->be->ops->read(r->c->be, a->x->q, (size_t)i * width * 4, x, width * 4);
		for (int32_t d = 0; d < r->dim; d++) {
			double sum = 0;

			for (int32_t h = 0; h < r->kv * r->group; h++)
				sum += (double)x[h * r->dim + d];
			r->mean[at][a->st->pos + i][d] = sum / (r->kv * r->group);
		}
	}
}

static int32_t list_of(const struct real *r, const struct attn_segment *seg, int n_seg, int32_t head, int32_t *list)
{
	int32_t n = 0;

	for (int i = 0; i < n_seg; n += seg[i++].n_slots) {
		if (seg[i].slots)
			r->c->be->ops->read(r->c->be, seg[i].slots, 4 * (size_t)head * (size_t)seg[i].slots->cols,
			                    list + n, 4 * (size_t)seg[i].n_slots);
		for (int32_t k = 0; !seg[i].slots && k < seg[i].n_slots; k++)
			list[n + k] = seg[i].slot0 + k;
	}
	return n;
}

static void real_attended(struct observer *base, const struct attention *a)
{
	struct real *r = (struct real *)base;
	struct attn_segment seg[READ_SEGMENTS];
	int32_t list[2 * ALL];
	int at = 0, n_seg;

	while (at < r->n_layer && r->layer[at] != a->layer)
		at++;
	if (at == r->n_layer)
		return;
	keep_queries(r, at, a);
	if (!step_generates(a->st))
		return;
	r->pos = a->st->pos;
	memcpy(seg, a->r->seg, sizeof seg);
	n_seg = kv_segments_met(&r->c->kv, seg, a->r->n_seg, NULL);
	for (int32_t h = 0; h < r->kv; h++) {
		r->c->be->ops->read(r->c->be, &r->c->kv.k[a->layer],
		                    4 * (size_t)h * (size_t)r->c->kv.cap * (size_t)r->dim, r->key,
		                    4 * (size_t)a->r->n_slots * (size_t)r->dim);
		r->check(r, at, h, a->r->n_slots, list, list_of(r, seg, n_seg, h, list));
		r->checked++;
	}
}

static void real_commit(struct observer *base, const struct step *st)
{
}
static int32_t real_rewind(struct observer *base, int32_t n)
{
	return n;
}
static const struct observer_ops real_ops = { real_attended, real_commit, real_rewind, NULL };

/* clang-format off */
static const struct { const char *kv; check_fn *check; int dense; } checked[] = {
	{ "sift:k=96,bits=16,split=even", check_sift, 0 }, { "quest:k=96,bound=raw", check_quest_raw, 2 }, { "quest:k=96", check_quest_soft, 0 },
	{ "snapkv:k=96", check_snapkv, 0 }, { "h2o:k=96", check_h2o, 0 }, { "h2o+:k=96", check_h2o_plus, 2 },
	{ "recycled:k=96,stride=5,scan=k", check_recycled, 0 },
	{ "refresh:k=96,qc=5,s=0.95,pool=7", check_refresh, 0 },
	{ "predict:k=96,block=4,first=8,last=12", check_predict, 2 },
};
/* clang-format on */

static void read_text(struct engine *e, const int32_t *id, const char *kv, check_fn *check, int dense)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };
	const struct hparams *hp;

	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = 512, .kv = kv, .kv_type = "f32" }, &err))
		test_skip("%s: %s", kv, err.msg);
	hp = tl->cache.hp;
	memset(&real, 0, sizeof real);
	real = (struct real){ .base.ops = &real_ops,
		              .check = check,
		              .c = &tl->cache,
		              .group = hp->n_head / hp->n_kv_head,
		              .kv = hp->n_kv_head,
		              .dim = hp->head_dim,
		              .scale = (double)model_layer_spec(hp, 0)->attn.scale };
	/* Check the first layer that selects, the last one, and two between them. */
	for (int i = 0; i < LAYERS_MOST; i++) {
		int32_t layer = dense + (hp->n_layer - 1 - dense) * i / (LAYERS_MOST - 1);

		if (i && layer == real.layer[real.n_layer - 1])
			continue;
		real.q[real.n_layer] = calloc((size_t)ALL * (size_t)hp->n_head, (size_t)hp->head_dim * sizeof(float));
		real.selected[real.n_layer] = PROMPT - 1;
		real.layer[real.n_layer++] = layer;
	}
	if (predictor_find(&real.net, &(struct predictor_key){ hp->fingerprint, BLOCK, ROWS }, &err))
		test_skip("%s", err.msg);
	real.key = calloc(ALL, (size_t)hp->head_dim * sizeof(float));
	observer_add(&tl->cache.observers, &real.base);
	CHECK_MSG(timeline_sync(tl, id, PROMPT, NULL, NULL, &err) >= 0, "%s: %s", kv, err.msg);
	CHECK_MSG(!timeline_extend(tl, id + PROMPT, STEPS, 1, NULL, NULL, &err), "%s: %s", kv, err.msg);
	CHECK_INT(real.checked, STEPS * real.n_layer * real.kv);
	if (real.fresh + real.old)
		test_note("%s: %d lists, %d of them where something was selected anew", kv, real.checked, real.fresh);
	observer_remove(&tl->cache.observers, &real.base);
	for (int i = 0; i < real.n_layer; i++)
		free(real.q[i]);
	free(real.key);
	timeline_close(tl);
}

/* built_in: 1 = the program has a network of `predict` for this model. */
static void read_with(const char *path, int built_in)
{
	struct engine *e = NULL;
	struct tokens id = { 0 };
	struct err err = { 0 };
	size_t n;
	char *book = test_read(test_file("tests/vectors/books/kim.txt"), &n);

	if (!book ||
	    engine_open(&e, &(struct engine_options){ .model_path = path, .device = "cpu", .threads = 2 }, &err))
		test_skip("%s", book ? err.msg : "no book");
	CHECK(!engine_tokenize(e, book, n, 0, &id, &err) && id.n > 2000 + ALL);
	if (!built_in)
		predictor_put_for(e);
	for (size_t i = 0; i < LEN(checked); i++)
		read_text(e, id.id + 2000, checked[i].kv, checked[i].check, checked[i].dense);
	tokens_free(&id);
	free(book);
	engine_close(e);
}

TEST(a_story_model_selects_by_the_definitions)
{
	read_with(test_file("tests/vectors/stories260K/stories260K-f16.gguf"), 0);
}

TEST(the_default_model_selects_by_the_definitions)
{
	read_with(test_model(), 1);
}
