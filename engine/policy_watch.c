/* engine/policy_watch.c - how much of full attention a selector would have recovered.
 *
 * Everything stays and is read, so the sequence follows full attention.  Beside it every watched selector is asked at each
 * generated token which rows it would have read, and the probability that lies on those rows is summed: mean over
 * query heads, layers and tokens.  For each, the best that as many rows could do (per KV head), and what sinks and newest
 * rows would have got.
 *
 * A selector that looks at its own attention (h2o) gets it: its rows are attended once more, into a buffer that
 * nobody reads. */
#include "engine/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/select.h"

enum { REFERENCE_SINKS = 4 };

struct watched {
	struct selector sel;
	struct recovered sum, call;   /* of all calls that succeeded; of the one that runs */
};

struct watch {
	struct kv kv;
	struct rope rope;
	struct selector all;       /* lends its kv to select_alloc() */
	struct tensor q, out;      /* f32 [chunk][n_head * head_dim] */
	struct tensor score;       /* f32 [n_kv_head][ctx]: logarithm of the mean probability over the group */
	struct tensor best;        /* i32 [n_kv_head][ctx] */
	float *p;                  /* [n_kv_head][ctx] the same on the host, exponentiated */
	/* What earlier generated tokens looked at, for guesses: [n_layer][n_kv_head][ctx] */
	float *now, *last, *sum;   /* of this call; of the one before; of all since something was read */
	int64_t before;            /* generated tokens in sum */
	struct tensor guess;       /* f32 [n_kv_head][ctx] */
	struct { int32_t n; double last, mean; } guessed;   /* in this layer, with n rows; n = 0: not yet */
	int32_t *rows;             /* [ctx] */
	struct watched *one;       /* [n] */
	int n;
};

static uint64_t watch_bytes(const struct policy *p)
{
	uint64_t ctx = (uint64_t)p->ctx, width = (uint64_t)p->hp->n_head * (uint64_t)p->hp->head_dim;
	uint64_t sum = kv_bytes(p->hp, p->type, p->ctx) + rope_bytes(p->hp, p->batch) + 8 * (uint64_t)p->batch * width +
	               (16 + 12 * (uint64_t)p->hp->n_layer) * ctx * (uint64_t)p->hp->n_kv_head + 4 * ctx;

	for (int i = 0; i < p->n_watch; i++)
		if (p->watch[i].def->select)
			sum += p->watch[i].def->select->bytes(&p->watch[i], p->hp, p->be, p->ctx);
	return sum;
}

static int watch_init(struct policy *p, struct err *err)
{
	struct watch *w = p->state = xcalloc(1, sizeof *w);
	const struct hparams *hp = p->hp;
	int32_t width = hp->n_head * hp->head_dim;
	size_t rows = (size_t)hp->n_layer * (size_t)hp->n_kv_head * (size_t)p->ctx;

	p->limit = p->ctx;
	p->chunk = p->batch;
	w->all = (struct selector){ .par = &p->par, .kv = &w->kv };
	w->one = xcalloc((size_t)p->n_watch, sizeof *w->one);
	if (kv_init(&w->kv, p->be, hp, p->type, p->ctx, err) || rope_init(&w->rope, hp, p->be, p->chunk, err) ||
	    select_alloc(&w->all, &w->q, DT_F32, p->chunk, width, err) ||
	    select_alloc(&w->all, &w->out, DT_F32, p->chunk, width, err) ||
	    select_alloc(&w->all, &w->score, DT_F32, hp->n_kv_head, p->ctx, err) ||
	    select_alloc(&w->all, &w->best, DT_I32, hp->n_kv_head, p->ctx, err) ||
	    select_alloc(&w->all, &w->guess, DT_F32, hp->n_kv_head, p->ctx, err) ||
	    !(w->now = try_alloc(rows, sizeof *w->now, "probabilities", err)) ||
	    !(w->last = try_alloc(rows, sizeof *w->last, "probabilities", err)) ||
	    !(w->sum = try_alloc(rows, sizeof *w->sum, "probabilities", err)) ||
	    !(w->p = try_alloc((size_t)hp->n_kv_head * (size_t)p->ctx, sizeof *w->p, "probabilities", err)) ||
	    !(w->rows = try_alloc((size_t)p->ctx, sizeof *w->rows, "rows", err)))
		return -1;
	for (; w->n < p->n_watch; w->n++) {
		const struct kv_params *par = &p->watch[w->n];

		if (!par->def->select)
			return err_set(err, ERR_USAGE, "cache policy '%s' does not choose among kept rows: it cannot be watched",
			               par->def->name);
		if (select_open(&w->one[w->n].sel, par->def->select, par, &w->kv, 1, err))
			return -1;
		if (p->tail < w->one[w->n].sel.tail)
			p->tail = w->one[w->n].sel.tail;
	}
	return 0;
}

static void watch_release(struct policy *p)
{
	struct watch *w = p->state;

	for (int i = 0; i < w->n; i++)
		select_close(&w->one[i].sel);
	if (w->kv.be) {
		select_drop(&w->all, &w->q);
		select_drop(&w->all, &w->out);
		select_drop(&w->all, &w->score);
		select_drop(&w->all, &w->best);
		select_drop(&w->all, &w->guess);
	}
	kv_release(&w->kv);
	rope_release(&w->rope);
	free(w->one);
	free(w->p);
	free(w->now);
	free(w->last);
	free(w->sum);
	free(w->rows);
	free(w);
}

static void watch_begin(struct policy *p, const struct step *st)
{
	struct watch *w = p->state;

	rope_set(&w->rope, st->pos, st->n);
	for (int i = 0; i < w->n; i++)
		w->one[i].call = (struct recovered){ 0 };
}

/* ---- one generated token ---- */

/* The true probabilities of every row, mean over the heads of a group.  A scan is made for ranking, its scale may be off by
 * some 1e-4; probabilities sum to 1. */
static void true_row(struct policy *p, int32_t layer, int32_t n_rows)
{
	struct watch *w = p->state;
	const struct hparams *hp = p->hp;

	p->be->ops->key_scan(p->be, &(struct scan_args){
		.out = &w->score, .q = &w->q, .keys = &w->kv.k[layer], .n_head = hp->n_head, .n_kv_head = hp->n_kv_head,
		.head_dim = hp->head_dim, .cap = p->ctx, .n_rows = n_rows, .bits = 16,
		.scale = model_layer_spec(hp, layer)->attn.scale, .reduce = REDUCE_MEAN,
	});
	for (int32_t h = 0; h < hp->n_kv_head; h++) {
		float *row = w->p + (size_t)h * (size_t)p->ctx;
		double sum = 0;

		p->be->ops->read(p->be, &w->score, 4 * (size_t)h * (size_t)p->ctx, row, 4 * (size_t)n_rows);
		for (int32_t i = 0; i < n_rows; i++)
			sum += (double)(row[i] = expf(row[i]));
		for (int32_t i = 0; i < n_rows && sum > 0; i++)
			row[i] = (float)((double)row[i] / sum);
	}
}

static double mass_between(const float *p, int32_t from, int32_t to)
{
	double sum = 0;

	for (int32_t i = from; i < to; i++)
		sum += (double)p[i];
	return sum;
}

static double mass_listed(struct policy *p, const struct tensor *list, int32_t head, int32_t n)
{
	struct watch *w = p->state;
	const float *row = w->p + (size_t)head * (size_t)p->ctx;
	double sum = 0;

	p->be->ops->read(p->be, list, 4 * (size_t)head * (size_t)list->cols, w->rows, 4 * (size_t)n);
	for (int32_t i = 0; i < n; i++)
		if (w->rows[i] >= 0 && w->rows[i] < p->ctx)
			sum += (double)row[w->rows[i]];
	return sum;
}

/* The mass on the n rows that other tokens found most probable, the own row among them. */
static double mass_guessed(struct policy *p, const float *from, int32_t n, int32_t n_rows)
{
	struct watch *w = p->state;
	double sum = 0;

	for (int32_t h = 0; h < p->hp->n_kv_head; h++)
		p->be->ops->write(p->be, &w->guess, 4 * (size_t)h * (size_t)p->ctx, from + (size_t)h * (size_t)p->ctx, 4 * (size_t)n_rows);
	p->be->ops->topk(p->be, &(struct topk_args){
		.rows = &w->best, .score = &w->guess, .n_kv_head = p->hp->n_kv_head, .n = n_rows, .k = n, .pool = 1, .last = 1,
	});
	for (int32_t h = 0; h < p->hp->n_kv_head; h++)
		sum += mass_listed(p, &w->best, h, n);
	return sum;
}

/* Several policies read as many rows: guess once for them. */
static void add_guesses(struct policy *p, struct recovered *to, int32_t layer, int32_t n, int32_t n_rows)
{
	struct watch *w = p->state;
	double unit = 1.0 / ((double)p->hp->n_kv_head * p->hp->n_layer);
	size_t at = (size_t)layer * (size_t)p->hp->n_kv_head * (size_t)p->ctx;

	if (!w->before)
		return;
	if (n >= n_rows) {
		to->last_row += 1.0 / p->hp->n_layer;
		to->mean_row += 1.0 / p->hp->n_layer;
		return;
	}
	if (w->guessed.n != n) {
		w->guessed.n = n;
		w->guessed.last = unit * mass_guessed(p, w->last + at, n, n_rows);
		w->guessed.mean = unit * mass_guessed(p, w->sum + at, n, n_rows);
	}
	to->last_row += w->guessed.last;
	to->mean_row += w->guessed.mean;
}

static void add_recovered(struct policy *p, struct recovered *to, int32_t layer, const struct attn_part *part, int n_part,
                          int32_t n_rows)
{
	struct watch *w = p->state;
	double unit = 1.0 / ((double)p->hp->n_kv_head * p->hp->n_layer);
	int32_t n = 0, sinks;

	for (int i = 0; i < n_part; i++)
		n += part[i].n_rows;
	sinks = n < REFERENCE_SINKS ? n : REFERENCE_SINKS;
	if (n < n_rows)
		p->be->ops->topk(p->be, &(struct topk_args){
			.rows = &w->best, .score = &w->score, .n_kv_head = p->hp->n_kv_head, .n = n_rows, .k = n, .pool = 1,
		});
	for (int32_t h = 0; h < p->hp->n_kv_head; h++) {
		const float *row = w->p + (size_t)h * (size_t)p->ctx;

		for (int i = 0; i < n_part; i++)
			to->mass += unit * (part[i].rows ? mass_listed(p, part[i].rows, h, part[i].n_rows)
			                                 : mass_between(row, part[i].row0, part[i].row0 + part[i].n_rows));
		to->oracle += unit * (n < n_rows ? mass_listed(p, &w->best, h, n) : mass_between(row, 0, n_rows));
		to->recent += unit * (n < n_rows ? mass_between(row, 0, sinks) + mass_between(row, n_rows - (n - sinks), n_rows)
		                                 : mass_between(row, 0, n_rows));
	}
	add_guesses(p, to, layer, n, n_rows);
	to->rows += (double)n / p->hp->n_layer;
	to->read += (double)n_rows / p->hp->n_layer;
}

/* ---- calls ---- */

/* The tokens of a read attend everything; the first selector that watches them does so at no further cost. */
static void attend_read(struct policy *p, const struct step *st, int32_t layer, const struct qkv *x, int32_t n_rows)
{
	struct watch *w = p->state;
	struct attn_part all[SELECT_PARTS];
	const struct attn_probe *probe;
	int attended = 0;

	select_whole(&w->q, n_rows, all);
	for (int i = 0; i < w->n; i++) {
		struct selector *s = &w->one[i].sel;

		if (!s->ops->probe || !(probe = s->ops->probe(s, st, layer, n_rows)))
			continue;
		kv_attend(&w->kv, layer, attended ? &w->out : x->out, all, 1, st->n, probe);
		attended = 1;
	}
	if (!attended)
		kv_attend(&w->kv, layer, x->out, all, 1, st->n, NULL);
}

/* This token's row, for guesses about the next.  Rows that are not there yet have no probability. */
static void keep_row(struct policy *p, int32_t layer, int32_t n_rows)
{
	struct watch *w = p->state;
	size_t row = (size_t)p->ctx, heads = (size_t)p->hp->n_kv_head;

	for (size_t h = 0; h < heads; h++) {
		float *to = w->now + ((size_t)layer * heads + h) * row;

		memcpy(to, w->p + h * row, (size_t)n_rows * sizeof *to);
		memset(to + n_rows, 0, (row - (size_t)n_rows) * sizeof *to);
	}
	w->guessed.n = 0;
}

static void attend_generated(struct policy *p, const struct step *st, int32_t layer, const struct qkv *x, int32_t n_rows)
{
	struct watch *w = p->state;
	struct attn_part part[SELECT_PARTS];
	const struct attn_probe *probe;

	select_whole(&w->q, n_rows, part);
	kv_attend(&w->kv, layer, x->out, part, 1, 1, NULL);
	if (w->n) {
		true_row(p, layer, n_rows);
		keep_row(p, layer, n_rows);
	}
	for (int i = 0; i < w->n; i++) {
		struct selector *s = &w->one[i].sel;
		int n_part = s->ops->choose(s, st, layer, &w->q, x->q, n_rows, part);

		kv_choose(&w->kv, part, n_part);
		n_part = select_settle(s, part, n_part);
		add_recovered(p, &w->one[i].call, layer, part, n_part, n_rows);
		if (s->ops->probe && (probe = s->ops->probe(s, st, layer, n_rows)))
			kv_attend(&w->kv, layer, &w->out, part, n_part, 1, probe);
	}
}

static void watch_attend(struct policy *p, const struct step *st, int32_t layer, const struct qkv *x)
{
	struct watch *w = p->state;
	int32_t n_rows = st->pos + st->n;

	kv_rotate(&w->kv, layer, &w->q, x->q, &w->rope, st->n);
	kv_rotate(&w->kv, layer, x->k, x->k, &w->rope, st->n);
	kv_put(&w->kv, layer, x->k, x->v, st->pos, st->n);
	for (int i = 0; i < w->n; i++)
		if (w->one[i].sel.ops->note)
			w->one[i].sel.ops->note(&w->one[i].sel, layer, st->pos, st->n);
	(st->decode ? attend_generated : attend_read)(p, st, layer, x, n_rows);
	for (int i = 0; i < w->n; i++)
		if (w->one[i].sel.ops->seen)
			w->one[i].sel.ops->seen(&w->one[i].sel, st, layer, &w->q, x->q, n_rows);
}

static void remember_rows(struct policy *p, int decode)
{
	struct watch *w = p->state;
	size_t n = (size_t)p->hp->n_layer * (size_t)p->hp->n_kv_head * (size_t)p->ctx;
	float *last = w->last;

	if (!decode || !w->n) {
		w->before = 0;
		return;
	}
	w->last = w->now;
	w->now = last;
	for (size_t i = 0; i < n; i++)
		w->sum[i] = (w->before ? w->sum[i] : 0) + w->last[i];
	w->before++;
}

static void watch_end(struct policy *p, const struct step *st)
{
	struct watch *w = p->state;

	for (int i = 0; i < w->n; i++) {
		struct recovered *sum = &w->one[i].sum, *call = &w->one[i].call;

		if (w->one[i].sel.ops->end)
			w->one[i].sel.ops->end(&w->one[i].sel, st, st->pos + st->n);
		sum->mass += call->mass;
		sum->oracle += call->oracle;
		sum->recent += call->recent;
		sum->rows += call->rows;
		sum->read += call->read;
		sum->steps += st->decode;
		sum->last_row += call->last_row;
		sum->mean_row += call->mean_row;
		sum->guesses += st->decode && w->before;
	}
	remember_rows(p, st->decode);
}

static int32_t watch_rewind(struct policy *p, int32_t n)
{
	struct watch *w = p->state;
	int32_t least = n;

	w->before = 0;   /* they may have looked at what is forgotten */
	for (int i = 0; i < w->n; i++) {
		int32_t m = w->one[i].sel.ops->rewind(&w->one[i].sel, n);

		least = m < least ? m : least;
	}
	/* Those that could have kept more must hear of it, too. */
	for (int i = 0; least < n && i < w->n; i++)
		w->one[i].sel.ops->rewind(&w->one[i].sel, least);
	return least;
}

int watch_recovered(const struct policy *p, int i, struct recovered *out)
{
	const struct watch *w = p->state;

	if (p->def != &policy_watch || i < 0 || i >= w->n)
		return -1;
	*out = w->one[i].sum;
	return 0;
}

static const struct param watch_params[] = { { .key = NULL } };

const struct policy_def policy_watch = {
	.name = "full", .help = "full attention, watched", .params = watch_params, .bytes = watch_bytes, .init = watch_init,
	.release = watch_release, .begin = watch_begin, .attend = watch_attend, .end = watch_end, .rewind = watch_rewind,
};
