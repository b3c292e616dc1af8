/* engine/lab/observe_rows.c - records rows of attention, to train the predictor network of `predict`. A row is recorded
 * for each of the last tokens of a prefill and for every decoded token, in each KV head of the layers without a sliding
 * window. A column is a block of KV entries.
 *
 * Each row is recorded in two forms. `top`, the input of the network: the largest probability over the block's entries
 * and over the query heads that share the KV head. `mass`: the share of attention on the block, mean over these query
 * heads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/lab/lab.h"
#include "engine/lab/rows.h"
#include "engine/observe/observe.h"

struct observe_rows {
	struct observer base; /* must be the first member */
	struct cache *c;
	/* `block` is the number of KV entries of a block. `last` is the maximum number of tokens of a prefill that are
	 * recorded. `most` is the maximum number of rows. */
	int32_t block, last, most;
	int32_t cols, heads; /* `cols` is the number of blocks, `heads` the number of KV heads of all recorded layers */
	/* `score` has the logarithms of a token's probabilities, f32 [n_kv_head][ctx]. `query` has the token's
	 * queries, f32 [1][n_head * head_dim]. */
	struct tensor score, query;
	float *p; /* [ctx] scores of one head, on the host */
	/* [most][heads][cols] recorded rows. A row of `top` has the largest probability in each block. A row of `mass`
	 * has the sum of the probabilities in each block. */
	float *top, *mass;
	/* `n` is the number of recorded rows. The first `read` of these rows are from the prefill. */
	int32_t n, read;
	int32_t first; /* number of slots to which the token of row 0 attends; the token of row i attends to i more */
	int32_t step;  /* number of rows that the current step adds */
};

/* Return the index of a layer among the recorded layers, or -1 if the layer is not recorded because it has a sliding
 * window. */
static int32_t full_index(const struct observe_rows *o, int32_t layer)
{
	int32_t index = 0;

	if (layer_window(o->c->hp, layer))
		return -1;
	while (layer-- > 0)
		index += !layer_window(o->c->hp, layer);
	return index;
}

/* Return row i of a KV head in `rows`, which is o->top or o->mass. `head` counts the KV heads of all recorded
 * layers. */
static float *row_at(const struct observe_rows *o, float *rows, int32_t i, int32_t head)
{
	return rows + ((size_t)i * (size_t)o->heads + (size_t)head) * (size_t)o->cols;
}

/* Fill row i of one layer's KV heads with the attention of a token to the first n_slots slots. q_row is the row of the
 * token's queries in the step. If `reduce` is REDUCE_MAX, fill o->top; if it is REDUCE_MEAN, fill o->mass. */
static void row_keep(struct observe_rows *o, const struct attention *a, int32_t q_row, int32_t n_slots, int32_t i,
                     enum reduce reduce)
{
	const struct hparams *hp = o->c->hp;
	struct backend *be = o->c->be;
	float *rows = reduce == REDUCE_MAX ? o->top : o->mass;
	int32_t index = full_index(o, a->layer);

	be->ops->copy(be, &o->query, 0, a->r->q, q_row, 1);
	be->ops->key_scan(be, &(struct scan_args){
				      .out = &o->score,
				      .q = &o->query,
				      .keys = &o->c->kv.k[a->layer],
				      .n_head = hp->n_head,
				      .n_kv_head = hp->n_kv_head,
				      .head_dim = hp->head_dim,
				      .cap = o->c->ctx,
				      .n_slots = n_slots,
				      .bits = 16,
				      .scale = model_layer_spec(hp, a->layer)->attn.scale,
				      .reduce = reduce,
			      });
	for (int32_t h = 0; h < hp->n_kv_head; h++) {
		float *row = row_at(o, rows, i, index * hp->n_kv_head + h);

		be->ops->read(be, &o->score, 4 * (size_t)h * (size_t)o->c->ctx, o->p, 4 * (size_t)n_slots);
		memset(row, 0, (size_t)o->cols * sizeof *row);
		for (int32_t k = 0; k < n_slots; k++) {
			float x = expf(o->p[k]), *to = &row[k / o->block];

			*to = reduce == REDUCE_MEAN ? *to + x : x > *to ? x : *to;
		}
	}
}

static void rows_attended(struct observer *base, const struct attention *a)
{
	struct observe_rows *o = (struct observe_rows *)base;
	const struct step *st = a->st;
	int32_t n = MIN(st->n, o->last);

	if (full_index(o, a->layer) < 0 || o->c->be->failed)
		return;
	if (step_generates(st)) {
		o->step = o->n < o->most;
		for (int mean = 0; mean < 2 && o->step; mean++)
			row_keep(o, a, 0, a->r->n_slots, o->n, mean ? REDUCE_MEAN : REDUCE_MAX);
		return;
	}
	o->step = st->last ? n : 0;
	for (int32_t i = 0; i < o->step; i++)
		row_keep(o, a, st->n - n + i, a->r->n_slots - (n - 1 - i), i, REDUCE_MAX);
}

static void rows_commit(struct observer *base, const struct step *st)
{
	struct observe_rows *o = (struct observe_rows *)base;

	if (step_generates(st)) {
		o->n += o->step;
		return;
	}
	o->n = o->read = o->step;
	o->first = st->pos + st->n - o->n + 1;
}

static int32_t rows_rewind(struct observer *base, int32_t n)
{
	struct observe_rows *o = (struct observe_rows *)base;

	o->n = o->read = 0;
	return n;
}

static const struct observer_ops rows_ops = { rows_attended, rows_commit, rows_rewind, NULL };

static void rows_close(struct observer *base)
{
	struct observe_rows *o = (struct observe_rows *)base;

	observer_remove(&o->c->observers, base);
	cache_drop(o->c, &o->score);
	cache_drop(o->c, &o->query);
	free(o->p);
	free(o->top);
	free(o->mass);
	free(o);
}

/* Open the observer, or return NULL on error. The caller has the engine's lock. */
static struct observer *rows_open(struct cache *c, int32_t block, int32_t last, int32_t most, struct err *err)
{
	struct observe_rows *o = xcalloc(1, sizeof *o);
	size_t size;

	*o = (struct observe_rows){ .base.ops = &rows_ops,
		                    .c = c,
		                    .block = block,
		                    .last = last,
		                    .most = most,
		                    .cols = (c->ctx + block - 1) / block,
		                    .heads = layers_unwindowed(c->hp) * c->hp->n_kv_head };
	size = (size_t)most * (size_t)o->heads * (size_t)o->cols;
	if (!o->heads)
		err_set(err, ERR_USAGE, "every layer of this model has a window: there is nothing to predict");
	if (!o->heads || cache_alloc(c, &o->score, DT_F32, c->hp->n_kv_head, c->ctx, err) ||
	    cache_alloc(c, &o->query, DT_F32, 1, (int64_t)c->hp->n_head * c->hp->head_dim, err) ||
	    !(o->p = try_alloc((size_t)c->ctx, sizeof *o->p, "rows of attention", err)) ||
	    !(o->top = try_alloc(size, sizeof *o->top, "rows of attention", err)) ||
	    !(o->mass = try_alloc(size, sizeof *o->mass, "rows of attention", err))) {
		rows_close(&o->base);
		return NULL;
	}
	observer_add(&c->observers, &o->base);
	return &o->base;
}

int timeline_rows_begin(struct timeline *tl, int32_t block, int32_t last, int32_t most, struct err *err)
{
	if (timeline_settle(tl, err))
		return -1;
	if (!cache_keeps_all(&tl->cache) || tl->cache.selects.def)
		return err_set(err, ERR_USAGE, "rows of attention are kept under the cache policy 'full' alone");
	pthread_mutex_lock(&tl->e->lock);
	timeline_lab_close(tl);
	tl->lab = rows_open(&tl->cache, block, last, most, err);
	tl->lab_close = rows_close;
	tl->e->be->ops->sync(tl->e->be); /* the failure is already in *err; sync() clears it in the backend */
	pthread_mutex_unlock(&tl->e->lock);
	return tl->lab ? 0 : -1;
}

const struct observe_rows *timeline_rows(const struct timeline *tl)
{
	return tl->lab && tl->lab->ops == &rows_ops ? (const struct observe_rows *)tl->lab : NULL;
}

void observe_rows_shape(const struct observe_rows *o, struct rows_shape *out)
{
	*out = (struct rows_shape){ .block = o->block,
		                    .rows = o->n,
		                    .read = o->read,
		                    .heads = o->heads,
		                    .per_layer = o->c->hp->n_kv_head,
		                    .first = o->first };
}

const float *observe_rows_top(const struct observe_rows *o, int32_t row, int32_t head)
{
	return row_at(o, o->top, row, head);
}

const float *observe_rows_mass(const struct observe_rows *o, int32_t row, int32_t head)
{
	return row_at(o, o->mass, row, head);
}
