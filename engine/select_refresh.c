/* engine/select_refresh.c - `refresh`: a set of K rows per KV head that serves until it is chosen anew from the whole
 * cache; `recycled`, the same at a fixed stride; `streaming++`, which chooses by place alone.
 *
 * The set is chosen from the probabilities of one token, the last one read or the current one: reduced over the heads of
 * a group, max-pooled, the K best.  A step between reads the set and the tokens since; after it, the lowest-scored row of the
 * set leaves for the token that came.  As a set is stored best row first, leaving is a shorter list.  Positions stay
 * the original ones.  Generated rows are not computed again.
 *
 * When: every `stride` tokens; or (qc) each layer for itself, when every qc tokens its query, averaged over the heads,
 * has turned away from that of its last choice: cosine s or less.
 * How: scan=kv attends everything at such a step, as published; scan=k reads the keys alone and attends the new set.
 *
 * The query is looked at on the host, which costs nothing where the backend is the CPU and only at steps that qc
 * names; a backend on a device would keep the mean and the decision there. */
#include "engine/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/archive.h"

enum { POOL = 7 };

struct refresh {
	struct tensor score;       /* f32 [n_kv_head][cap] */
	struct tensor q;           /* f32 [1][n_head * head_dim]: one token's query */
	struct tensor first;       /* f32 [1][n_kv_head * head_dim]: that of each group's first head */
	struct picks picks;
	float *host;               /* [n_head * head_dim] */
	float *mean[2];            /* [n_layer][head_dim]: of the query that chose, as in picks.slot */
	float *now;                /* [head_dim] of the current one */
	int32_t start;             /* tokens of the sequence when the last read ended: steps count from there */
	int32_t *order;            /* [2 * most] */
	int64_t asked, chose;      /* how often layers were asked for a set, and chose a new one */
};

static uint64_t refresh_bytes(const struct kv_params *par, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	return 4 * (uint64_t)hp->n_kv_head * (uint64_t)cap + picks_bytes(hp, select_most(par->k, cap));
}

static int refresh_init(struct selector *s, struct err *err)
{
	struct refresh *r = s->state = xcalloc(1, sizeof *r);
	const struct hparams *hp = s->kv->hp;
	int32_t width = hp->n_head * hp->head_dim;

	r->host = xcalloc((size_t)width, sizeof *r->host);
	r->order = xcalloc(2 * (size_t)select_most(s->par->k, s->kv->cap), sizeof *r->order);
	r->now = xcalloc((size_t)hp->head_dim, sizeof *r->now);
	for (int i = 0; i < 2; i++)
		r->mean[i] = xcalloc((size_t)hp->n_layer * (size_t)hp->head_dim, sizeof *r->mean[i]);
	return select_alloc(s, &r->score, DT_F32, hp->n_kv_head, s->kv->cap, err) ||
	       select_alloc(s, &r->q, DT_F32, 1, width, err) ||
	       select_alloc(s, &r->first, DT_F32, 1, hp->n_kv_head * hp->head_dim, err) ||
	       picks_init(&r->picks, s, select_most(s->par->k, s->kv->cap), err) ? -1 : 0;
}

static void refresh_release(struct selector *s)
{
	struct refresh *r = s->state;

	select_drop(s, &r->score);
	select_drop(s, &r->q);
	select_drop(s, &r->first);
	picks_release(&r->picks, s);
	free(r->host);
	free(r->now);
	free(r->order);
	free(r->mean[0]);
	free(r->mean[1]);
}

/* ---- the query ---- */

/* Row i of the call's queries. */
static const float *query_row(struct selector *s, const struct tensor *q, int32_t i)
{
	struct refresh *r = s->state;
	size_t bytes = 4 * (size_t)s->kv->hp->n_head * (size_t)s->kv->hp->head_dim;

	s->kv->be->ops->read(s->kv->be, q, (size_t)i * bytes, r->host, bytes);
	return r->host;
}

static void mean_query(struct selector *s, const struct tensor *q, const struct tensor *raw, int32_t i, float *mean)
{
	const struct hparams *hp = s->kv->hp;
	const float *x = query_row(s, s->par->query == QUERY_PRE ? raw : q, i);

	for (int32_t d = 0; d < hp->head_dim; d++) {
		double sum = 0;

		for (int32_t h = 0; h < hp->n_head; h++)
			sum += (double)x[h * hp->head_dim + d];
		mean[d] = (float)(sum / hp->n_head);
	}
}

static double cosine(const float *a, const float *b, int32_t n)
{
	double ab = 0, aa = 0, bb = 0, c;

	for (int32_t i = 0; i < n; i++) {
		ab += (double)a[i] * (double)b[i];
		aa += (double)a[i] * (double)a[i];
		bb += (double)b[i] * (double)b[i];
	}
	if (aa <= 0 || bb <= 0)
		return 0;
	c = ab / sqrt(aa * bb);
	return c > 1 ? 1 : c < -1 ? -1 : c;
}

/* ---- choosing ---- */

/* Rows leave a set from its end: those that are always chosen go to the front. */
static void keep_forced(struct selector *s, struct pick *set)
{
	struct refresh *r = s->state;
	struct backend *be = s->kv->be;
	int32_t newest = set->at - s->par->recent;

	for (int32_t h = 0; h < s->kv->hp->n_kv_head; h++) {
		size_t at = 4 * (size_t)h * (size_t)set->rows.cols, bytes = 4 * (size_t)set->k;
		int32_t n = 0;

		be->ops->read(be, &set->rows, at, r->order, bytes);
		for (int pass = 0; pass < 2; pass++)
			for (int32_t i = 0; i < set->k; i++)
				if ((r->order[i] < s->par->sinks || r->order[i] >= newest) == !pass)
					r->order[set->k + n++] = r->order[i];
		be->ops->write(be, &set->rows, at, r->order + set->k, bytes);
	}
}

/* All keys, by the queries of all heads. */
static struct scan_args region_scan(const struct selector *s, int32_t layer, const struct tensor *q, int32_t n_rows)
{
	struct refresh *r = s->state;
	const struct hparams *hp = s->kv->hp;

	return (struct scan_args){
		.out = &r->score, .q = q, .keys = &s->kv->k[layer], .n_head = hp->n_head, .n_kv_head = hp->n_kv_head,
		.head_dim = hp->head_dim, .cap = s->kv->cap, .n_rows = n_rows, .bits = 16,
		.scale = (float)(1.0 / sqrt((double)hp->head_dim)),
		.reduce = s->par->group == GROUP_MEAN ? REDUCE_MEAN : REDUCE_MAX,
	};
}

/* A new set of this layer from the probabilities of row i of the call's queries over the region. */
static struct pick *pick(struct selector *s, int32_t layer, const struct tensor *q, const struct tensor *raw, int32_t i,
                         int32_t n_q, int32_t n_rows)
{
	struct refresh *r = s->state;
	struct backend *be = s->kv->be;
	const struct hparams *hp = s->kv->hp;
	int first = s->par->group == GROUP_FIRST;
	int32_t k = kv_rows_of(s->par->k, n_rows), own = s->own;
	struct pick *new = picks_new(&r->picks, layer, n_rows, k);
	const struct tensor *one = q;
	struct scan_args scan;

	r->chose += n_q == 1;
	select_fresh(s, layer, 1);
	if (first || n_q > 1) {
		const float *x = query_row(s, q, i);
		size_t head = (size_t)hp->head_dim, group = (size_t)(hp->n_head / hp->n_kv_head);

		one = first ? &r->first : &r->q;
		for (int32_t h = 0; first && h < hp->n_kv_head; h++)
			memmove(r->host + (size_t)h * head, x + (size_t)h * group * head, head * sizeof *x);
		be->ops->write(be, first ? &r->first : &r->q, 0, r->host, 4 * head * (size_t)(first ? hp->n_kv_head : hp->n_head));
	}
	scan = region_scan(s, layer, one, n_rows);
	if (first)
		scan.n_head = hp->n_kv_head;
	be->ops->key_scan(be, &scan);
	be->ops->topk(be, &(struct topk_args){
		.rows = &new->rows, .score = &r->score, .n_kv_head = hp->n_kv_head, .n = n_rows, .k = k,
		.pool = s->par->pool > 0 ? s->par->pool : POOL,
		.first = s->par->sinks, .last = s->par->recent > own ? s->par->recent : own, .best_first = 1,
	});
	if (s->par->sinks > 0 || s->par->recent > own)
		keep_forced(s, new);
	if (s->par->qc)
		mean_query(s, q, raw, i, r->mean[!r->picks.cur[layer]] + (size_t)layer * (size_t)hp->head_dim);
	return new;
}

/* Is it time to choose anew, by the stride or by the query? */
static int due(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q, const struct tensor *raw)
{
	struct refresh *r = s->state;
	int32_t every = s->par->qc ? s->par->qc : s->par->stride, dim = s->kv->hp->head_dim;
	const float *then = r->mean[r->picks.cur[layer]] + (size_t)layer * (size_t)dim;
	double same;

	if (every < 1 || (st->pos + 1 - r->start) % every)
		return 0;
	if (!s->par->qc)
		return 1;
	mean_query(s, q, raw, 0, r->now);
	same = cosine(r->now, then, dim);
	if (s->looks)
		s->looks->layer[layer].cosine = same;
	return same <= s->par->s;
}

/* The set, less what has left for the tokens since, and these. */
static int set_parts(const struct pick *set, const struct tensor *q, int32_t n_rows, struct attn_part part[SELECT_PARTS])
{
	int32_t since = n_rows - set->at, gone = since > 1 ? since - 1 : 0, n = 0;

	if (gone < set->k)
		part[n++] = (struct attn_part){ .q = q, .rows = &set->rows, .n_rows = set->k - gone };
	if (since > set->k + 1)
		since = set->k + 1;
	if (since > 0)
		part[n++] = (struct attn_part){ .q = q, .row0 = n_rows - since, .n_rows = since };
	return n;
}

static int refresh_choose(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                          const struct tensor *raw, int32_t n_rows, struct attn_part part[SELECT_PARTS])
{
	struct refresh *r = s->state;
	const struct pick *set;

	picks_enter(&r->picks, layer);
	select_fresh(s, layer, 0);
	if (kv_rows_of(s->par->k, n_rows) >= n_rows)
		return select_whole(q, n_rows, part);
	r->asked++;
	set = picks_get(&r->picks, layer);
	if (!set->at || set->at > n_rows)
		return set_parts(pick(s, layer, q, raw, 0, 1, n_rows), q, n_rows, part);
	if (!due(s, st, layer, q, raw))
		return set_parts(set, q, n_rows, part);
	if (select_wants_share(s, layer))
		select_share(s, layer, region_scan(s, layer, q, n_rows), part, set_parts(set, q, n_rows, part));
	if (s->par->update == UPDATE_YES)
		set = pick(s, layer, q, raw, 0, 1, n_rows);
	return s->par->scan == SCAN_KV ? select_whole(q, n_rows, part) : set_parts(set, q, n_rows, part);
}

static void refresh_seen(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                         const struct tensor *raw, int32_t n_rows)
{
	struct refresh *r = s->state;

	if (st->decode)
		return;
	picks_enter(&r->picks, layer);
	if (st->last && kv_rows_of(s->par->k, n_rows) < n_rows)
		pick(s, layer, q, raw, st->n - 1, st->n, n_rows);
}

static void refresh_end(struct selector *s, const struct step *st, int32_t n_rows)
{
	struct refresh *r = s->state;

	if (!st->decode) {
		r->start = st->pos + st->n;
		for (int32_t i = 0; i < r->picks.n_layer; i++)
			if (!r->picks.fresh[i])
				picks_get(&r->picks, i)->at = 0;
	}
	picks_commit(&r->picks);
}

static int32_t refresh_rewind(struct selector *s, int32_t n)
{
	struct refresh *r = s->state;

	picks_forget(&r->picks, 0);
	return n;
}

static uint64_t refresh_read_bytes(const struct selector *s, int32_t n_rows)
{
	const struct refresh *r = s->state;
	double k = kv_rows_of(s->par->k, n_rows), often = r->asked ? (double)r->chose / (double)r->asked : 0;

	if (!s->par->qc)
		often = 1.0 / s->par->stride;
	if (k >= n_rows)
		return select_row_bytes(s, n_rows);
	/* A choosing step scans the keys, which are half of a row, and attends the new set or everything. */
	return select_row_bytes(s, k + often * (n_rows / 2.0 + (s->par->scan == SCAN_KV ? n_rows - k : 0)));
}

static void refresh_archive(struct selector *s, struct archive *a, int32_t n_rows)
{
	struct refresh *r = s->state;
	size_t dim = (size_t)s->kv->hp->head_dim;

	(void)n_rows;
	archive_i32(a, &r->start, 0, INT32_MAX, "the end of what was read");
	archive_i64(a, &r->asked, 0, INT64_MAX, "how often sets were asked for");
	archive_i64(a, &r->chose, 0, INT64_MAX, "how often sets were chosen");
	picks_archive(&r->picks, s, a);
	for (int32_t i = 0; i < r->picks.n_layer; i++)
		archive_bytes(a, r->mean[r->picks.cur[i]] + (size_t)i * dim, dim * sizeof(float));
}

const struct selector_ops select_refresh = {
	.bytes = refresh_bytes, .init = refresh_init, .release = refresh_release, .choose = refresh_choose,
	.seen = refresh_seen, .end = refresh_end, .rewind = refresh_rewind,
	.read_bytes = refresh_read_bytes, .archive = refresh_archive,
};

/* ---- streaming++: sinks and the newest rows, everything at every stride-th step ---- */

struct streaming { int32_t start; };

static uint64_t streaming_read_bytes(const struct selector *s, int32_t n_rows)
{
	double some = s->par->size + s->par->sinks, often = 1.0 / s->par->stride;

	return select_row_bytes(s, some >= n_rows ? n_rows : often * n_rows + (1 - often) * some);
}

static uint64_t streaming_bytes(const struct kv_params *par, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	return 0;
}

static int streaming_init(struct selector *s, struct err *err)
{
	s->state = xcalloc(1, sizeof(struct streaming));
	return 0;
}

static void streaming_release(struct selector *s)
{
}

static int streaming_choose(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                            const struct tensor *raw, int32_t n_rows, struct attn_part part[SELECT_PARTS])
{
	const struct streaming *t = s->state;
	int32_t sinks = s->par->sinks, size = s->par->size;

	if (n_rows - sinks <= size || (st->pos + 1 - t->start) % s->par->stride == 0)
		return select_whole(q, n_rows, part);
	part[0] = (struct attn_part){ .q = q, .n_rows = sinks };
	part[sinks > 0] = (struct attn_part){ .q = q, .row0 = n_rows - size, .n_rows = size };
	return 1 + (sinks > 0);
}

static void streaming_end(struct selector *s, const struct step *st, int32_t n_rows)
{
	struct streaming *t = s->state;

	if (!st->decode)
		t->start = st->pos + st->n;
}

static int32_t streaming_rewind(struct selector *s, int32_t n)
{
	return n;
}

static void streaming_archive(struct selector *s, struct archive *a, int32_t n_rows)
{
	struct streaming *t = s->state;

	(void)n_rows;
	archive_i32(a, &t->start, 0, INT32_MAX, "the end of what was read");
}

const struct selector_ops select_streaming = {
	.bytes = streaming_bytes, .init = streaming_init, .release = streaming_release, .choose = streaming_choose,
	.end = streaming_end, .rewind = streaming_rewind, .read_bytes = streaming_read_bytes,
	.archive = streaming_archive,
};
