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
 * With qc the backend compares the queries and decides (struct predicate): at such a step the scan, the choice, and the parts
 * that are attended, the new set's or the old one's, all hang on its flag, which the host sees when the step is over. */
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
	struct tensor mean[2];     /* f32 [n_layer][head_dim]: of the query that chose, as in picks.slot */
	struct tensor turned;      /* i32 [1][n_layer]: has the query turned away? */
	struct tensor cosine;      /* f32 [1][n_layer] */
	int32_t *flag;             /* [n_layer], the host's */
	float *same;
	uint8_t *compared;         /* [n_layer]: in the call that runs the backend decides */
	int32_t start;             /* tokens of the sequence when the last read ended: steps count from there */
	int64_t asked, chose;      /* how often layers were asked for a set, and chose a new one */
};

static uint64_t refresh_bytes(const struct kv_params *par, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	return 4 * (uint64_t)hp->n_kv_head * (uint64_t)cap + 8 * (uint64_t)hp->n_layer * (uint64_t)hp->head_dim +
	       picks_bytes(hp, select_most(par->k, cap));
}

static int refresh_init(struct selector *s, struct err *err)
{
	struct refresh *r = s->state = xcalloc(1, sizeof *r);
	const struct hparams *hp = s->kv->hp;
	int32_t width = hp->n_head * hp->head_dim;

	r->flag = xcalloc((size_t)hp->n_layer, sizeof *r->flag);
	r->same = xcalloc((size_t)hp->n_layer, sizeof *r->same);
	r->compared = xcalloc((size_t)hp->n_layer, 1);
	return select_alloc(s, &r->score, DT_F32, hp->n_kv_head, s->kv->cap, err) ||
	       select_alloc(s, &r->mean[0], DT_F32, hp->n_layer, hp->head_dim, err) ||
	       select_alloc(s, &r->mean[1], DT_F32, hp->n_layer, hp->head_dim, err) ||
	       select_alloc(s, &r->turned, DT_I32, 1, hp->n_layer, err) ||
	       select_alloc(s, &r->cosine, DT_F32, 1, hp->n_layer, err) ||
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
	select_drop(s, &r->mean[0]);
	select_drop(s, &r->mean[1]);
	select_drop(s, &r->turned);
	select_drop(s, &r->cosine);
	picks_release(&r->picks, s);
	free(r->flag);
	free(r->same);
	free(r->compared);
}

/* ---- the query ---- */

/* The mean over the heads of query i of the call, for the set that is being chosen; and whether it has turned away from that of the
 * set in use. */
static void query_drift(struct selector *s, int32_t layer, const struct tensor *q, const struct tensor *raw, int32_t i, int compare)
{
	struct refresh *r = s->state;
	const struct hparams *hp = s->kv->hp;
	int cur = r->picks.cur[layer];

	s->kv->be->ops->query_drift(s->kv->be, &(struct query_drift_args){
		.now = &r->mean[!cur], .then = &r->mean[cur], .q = s->par->query == QUERY_PRE ? raw : q, .q_row = i, .row = layer,
		.n_head = hp->n_head, .head_dim = hp->head_dim, .flag = compare ? &r->turned : NULL, .cosine = &r->cosine, .col = layer,
		.least = s->par->s,
	});
}

/* The query of each group's first head alone. */
static const struct tensor *first_heads(struct selector *s, const struct tensor *q, int32_t i)
{
	struct refresh *r = s->state;
	const struct hparams *hp = s->kv->hp;
	struct tensor from = *q, to = r->first;              /* with a row for every head */

	from.rows *= hp->n_head;
	to.rows = hp->n_kv_head;
	from.cols = to.cols = hp->head_dim;
	for (int32_t h = 0; h < hp->n_kv_head; h++)
		s->kv->be->ops->copy(s->kv->be, &to, h, &from, i * hp->n_head + h * (hp->n_head / hp->n_kv_head), 1);
	return &r->first;
}

/* ---- choosing ---- */

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

/* The k best rows by the probabilities of row i of the call's queries over the region, if it is so. */
static void pick(struct selector *s, struct pick *new, int32_t layer, const struct tensor *q, int32_t i, int32_t n_q, struct predicate when)
{
	struct refresh *r = s->state;
	struct backend *be = s->kv->be;
	const struct hparams *hp = s->kv->hp;
	int first = s->par->group == GROUP_FIRST;
	int32_t own = s->own;
	const struct tensor *one = q;
	struct scan_args scan;

	if (first) {
		one = first_heads(s, q, i);
	} else if (n_q > 1) {
		be->ops->copy(be, &r->q, 0, q, i, 1);
		one = &r->q;
	}
	scan = region_scan(s, layer, one, new->at);
	scan.when = when;
	if (first)
		scan.n_head = hp->n_kv_head;
	be->ops->key_scan(be, &scan);
	/* Rows leave a set from its end: those that are always chosen go to the front. */
	be->ops->topk(be, &(struct topk_args){
		.rows = &new->rows, .score = &r->score, .n_kv_head = hp->n_kv_head, .n = new->at, .k = new->k,
		.pool = s->par->pool > 0 ? s->par->pool : POOL,
		.first = s->par->sinks, .last = s->par->recent > own ? s->par->recent : own,
		.order = s->par->sinks > 0 || s->par->recent > own ? FORCED_FIRST : BEST_FIRST, .when = when,
	});
}

/* A new set of this layer. */
static struct pick *pick_now(struct selector *s, int32_t layer, const struct tensor *q, const struct tensor *raw, int32_t i,
                             int32_t n_q, int32_t n_rows)
{
	struct refresh *r = s->state;
	struct pick *new = picks_new(&r->picks, layer, n_rows, kv_rows_of(s->par->k, n_rows));

	r->chose += n_q == 1;
	select_fresh(s, layer, 1);
	if (s->par->qc)
		query_drift(s, layer, q, raw, i, 0);
	pick(s, new, layer, q, i, n_q, (struct predicate){ 0 });
	return new;
}

/* The set, less what has left for the tokens since, and these. */
static int set_parts(const struct pick *set, const struct tensor *q, int32_t n_rows, struct attn_part *part)
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

/* The backend decides whether to choose anew: both ways are described. */
static int either_parts(struct selector *s, const struct pick *set, int32_t layer, const struct tensor *q, const struct tensor *raw,
                        int32_t n_rows, struct attn_part part[SELECT_PARTS])
{
	struct refresh *r = s->state;
	struct predicate turned = { &r->turned, layer, 1 };
	int n, scan_kv = s->par->scan == SCAN_KV;

	query_drift(s, layer, q, raw, 0, 1);
	r->compared[layer] = 1;
	if (s->par->update == UPDATE_YES) {
		struct pick *new = picks_spare(&r->picks, layer, n_rows, kv_rows_of(s->par->k, n_rows));

		pick(s, new, layer, q, 0, 1, turned);
		n = scan_kv ? select_whole(q, n_rows, part) : set_parts(new, q, n_rows, part);
	} else if (scan_kv) {
		n = select_whole(q, n_rows, part);
	} else {
		return set_parts(set, q, n_rows, part);
	}
	part[0].when = turned;
	turned.is = 0;
	for (int i = n, end = n += set_parts(set, q, n_rows, part + n); i < end; i++)
		part[i].when = turned;
	return n;
}

static int refresh_choose(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                          const struct tensor *raw, int32_t n_rows, struct attn_part part[SELECT_PARTS])
{
	struct refresh *r = s->state;
	int32_t every = s->par->qc ? s->par->qc : s->par->stride;
	const struct pick *set;

	picks_enter(&r->picks, layer);
	r->compared[layer] = 0;
	select_fresh(s, layer, 0);
	if (kv_rows_of(s->par->k, n_rows) >= n_rows)
		return select_whole(q, n_rows, part);
	r->asked++;
	set = picks_get(&r->picks, layer);
	if (!set->at || set->at > n_rows)
		return set_parts(pick_now(s, layer, q, raw, 0, 1, n_rows), q, n_rows, part);
	if (every < 1 || (st->pos + 1 - r->start) % every)
		return set_parts(set, q, n_rows, part);
	/* What the set has got until now; where the backend decides that is asked either way. */
	if (select_wants_share(s, layer))
		select_share(s, layer, region_scan(s, layer, q, n_rows), part, set_parts(set, q, n_rows, part));
	if (s->par->qc)
		return either_parts(s, set, layer, q, raw, n_rows, part);
	if (s->par->update == UPDATE_YES)
		set = pick_now(s, layer, q, raw, 0, 1, n_rows);
	return s->par->scan == SCAN_KV ? select_whole(q, n_rows, part) : set_parts(set, q, n_rows, part);
}

static void refresh_seen(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                         const struct tensor *raw, int32_t n_rows)
{
	struct refresh *r = s->state;

	if (st->decode)
		return;
	picks_enter(&r->picks, layer);
	r->compared[layer] = 0;
	if (st->last && kv_rows_of(s->par->k, n_rows) < n_rows)
		pick_now(s, layer, q, raw, st->n - 1, st->n, n_rows);
}

/* What the backend decided in this call. */
static void learn_turns(struct selector *s)
{
	struct refresh *r = s->state;
	struct backend *be = s->kv->be;
	size_t n = (size_t)r->picks.n_layer;

	if (!memchr(r->compared, 1, n))
		return;
	be->ops->read(be, &r->turned, 0, r->flag, n * sizeof *r->flag);
	be->ops->read(be, &r->cosine, 0, r->same, n * sizeof *r->same);
	for (size_t i = 0; i < n && !be->failed; i++) {
		if (!r->compared[i])
			continue;
		if (s->looks)
			s->looks->layer[i].cosine = (double)r->same[i];
		r->compared[i] = 0;
		if (!r->flag[i] || s->par->update != UPDATE_YES)
			continue;
		r->picks.fresh[i] = 1;
		r->chose++;
		select_fresh(s, (int32_t)i, 1);
	}
}

static void refresh_end(struct selector *s, const struct step *st, int32_t n_rows)
{
	struct refresh *r = s->state;

	learn_turns(s);
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
	uint64_t dim = (uint64_t)s->kv->hp->head_dim;

	(void)n_rows;
	archive_i32(a, &r->start, 0, INT32_MAX, "the end of what was read");
	archive_i64(a, &r->asked, 0, INT64_MAX, "how often sets were asked for");
	archive_i64(a, &r->chose, 0, INT64_MAX, "how often sets were chosen");
	picks_archive(&r->picks, s, a);
	for (int32_t i = 0; i < r->picks.n_layer; i++)
		archive_floats(a, s->kv->be, &r->mean[r->picks.cur[i]], (uint64_t)i * dim, dim);
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
