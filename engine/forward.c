/* engine/forward.c - one decoder layer after the other, a straight line of backend operations.
 *
 * Families differ by optional parts (biases, per-head norms) and by the pairing of rotary dimensions; a part
 * runs when its weight is there.  Where tokens stand and what they read is the policy's part. */
#include "engine/forward.h"

#include <stdlib.h>
#include <string.h>

/* The buffers: where they are in struct forward and their shape.  Returns how many there are. */
struct buffer_def { struct tensor *t; int32_t rows, cols; };
static int forward_buffers(struct forward *g, const struct hparams *hp, struct buffer_def out[16])
{
	int32_t q = hp->n_head * hp->head_dim, kv = hp->n_kv_head * hp->head_dim;
	const struct buffer_def all[] = {
		{ &g->x, g->batch, hp->n_embd }, { &g->norm, g->batch, hp->n_embd }, { &g->q, g->batch, q },
		{ &g->k, g->batch, kv }, { &g->v, g->batch, kv }, { &g->attn, g->batch, q }, { &g->ffn, g->batch, hp->n_ff },
		{ &g->head_in, g->head_rows, hp->n_embd }, { &g->logits, g->head_rows, hp->n_vocab },
	};

	_Static_assert(sizeof all <= 16 * sizeof all[0], "out is too small");
	memcpy(out, all, sizeof all);
	return (int)(sizeof all / sizeof all[0]);
}

uint64_t forward_bytes(const struct hparams *hp, int32_t batch, int32_t head_rows)
{
	struct forward g = { .batch = batch, .head_rows = head_rows };
	struct buffer_def buf[16];
	uint64_t sum = 0;
	int n = forward_buffers(&g, hp, buf);

	for (int i = 0; i < n; i++)
		sum += 4 * (uint64_t)buf[i].rows * (uint64_t)buf[i].cols;
	return sum;
}

int forward_init(struct forward *g, const struct model *m, struct cache *cache, int32_t batch, int32_t head_rows,
               struct err *err)
{
	const struct hparams *hp = &m->hp;
	struct buffer_def buf[16];
	int n;

	*g = (struct forward){ .m = m, .be = m->be, .cache = cache, .batch = batch, .head_rows = head_rows };
	n = forward_buffers(g, hp, buf);
	for (int i = 0; i < n; i++) {
		*buf[i].t = (struct tensor){ .type = DT_F32, .rows = buf[i].rows, .cols = buf[i].cols };
		if (g->be->ops->alloc(g->be, buf[i].t)) {
			err_set(err, ERR_FIT, "cannot allocate buffers for %d tokens at a time: %s", batch, g->be->err);
			forward_release(g);
			return -1;
		}
	}
	return 0;
}

void forward_release(struct forward *g)
{
	struct buffer_def buf[16];
	int n;

	if (!g->be)
		return;
	if (g->one)
		forward_release(g->one);
	free(g->one);
	n = forward_buffers(g, &g->m->hp, buf);
	for (int i = 0; i < n; i++)
		if (buf[i].t->data)
			g->be->ops->drop(g->be, buf[i].t);
	memset(g, 0, sizeof *g);
}

/* x -> q, k, v, unrotated. */
static void attention_in(struct forward *g, const struct layer *l, int32_t n)
{
	const struct hparams *hp = &g->m->hp;
	struct backend *be = g->be;
	const struct backend_ops *op = be->ops;

	op->rmsnorm(be, &g->norm, &g->x, &l->attn_norm, hp->n_embd, hp->eps, n);
	op->matmul(be, (struct matmul[]){
		{ .out = &g->q, .w = &l->wq, .bias = l->bq.data ? &l->bq : NULL },
		{ .out = &g->k, .w = &l->wk, .bias = l->bk.data ? &l->bk : NULL },
		{ .out = &g->v, .w = &l->wv, .bias = l->bv.data ? &l->bv : NULL },
	}, 3, &g->norm, n);
	if (l->q_norm.data)
		op->rmsnorm(be, &g->q, &g->q, &l->q_norm, hp->head_dim, hp->eps, n);
	if (l->k_norm.data)
		op->rmsnorm(be, &g->k, &g->k, &l->k_norm, hp->head_dim, hp->eps, n);
}

static void attention(struct forward *g, int32_t layer)
{
	double start = g->clock ? now_seconds() : 0;

	cache_attend(g->cache, layer, &(struct qkv){ &g->q, &g->k, &g->v, &g->attn });
	if (g->clock)
		*g->clock += now_seconds() - start;
}

/* What was attended, into the residual stream. */
static void attention_out(struct forward *g, const struct layer *l, int32_t n)
{
	g->be->ops->matmul(g->be, &(struct matmul){ .out = &g->x, .w = &l->wo, .bias = l->bo.data ? &l->bo : NULL,
	                                            .accumulate = 1 }, 1, &g->attn, n);
}

static void feed_forward(struct forward *g, const struct layer *l, int32_t n)
{
	const struct backend_ops *op = g->be->ops;

	op->rmsnorm(g->be, &g->norm, &g->x, &l->ffn_norm, g->m->hp.n_embd, g->m->hp.eps, n);
	op->matmul_glu(g->be, &g->ffn, &l->gate, &l->up, &g->norm, n);
	op->matmul(g->be, &(struct matmul){ .out = &g->x, .w = &l->down, .accumulate = 1 }, 1, &g->ffn, n);
}

/* ---- drafted tokens ----
 *
 * A product of several tokens sums in another order than that of one.  So that each token of a VERIFY step gets the bits it would have
 * alone, products and norms take the tokens one by one. */

static int one_ready(struct forward *g)
{
	struct err err;

	if (g->one)
		return 1;
	g->one = xcalloc(1, sizeof *g->one);
	if (!forward_init(g->one, g->m, g->cache, 1, 1, &err))
		return 1;
	free(g->one);              /* the backend's failure is sticky: sync() tells it */
	g->one = NULL;
	return 0;
}

static void verify_layer(struct forward *g, const struct layer *l, int32_t layer, int32_t n)
{
	struct backend *be = g->be;
	const struct backend_ops *op = be->ops;
	struct forward *one = g->one;

	for (int32_t i = 0; i < n; i++) {
		op->copy(be, &one->x, 0, &g->x, i, 1);
		attention_in(one, l, 1);
		op->copy(be, &g->q, i, &one->q, 0, 1);
		op->copy(be, &g->k, i, &one->k, 0, 1);
		op->copy(be, &g->v, i, &one->v, 0, 1);
	}
	attention(g, layer);
	for (int32_t i = 0; i < n; i++) {
		op->copy(be, &one->x, 0, &g->x, i, 1);
		op->copy(be, &one->attn, 0, &g->attn, i, 1);
		attention_out(one, l, 1);
		feed_forward(one, l, 1);
		op->copy(be, &g->x, i, &one->x, 0, 1);
	}
}

void forward_run(struct forward *g, const int32_t *id, const struct step *st, int32_t rows)
{
	const backend_flag *cancel = g->be->cancel;
	double start = g->clock ? now_seconds() : 0;
	int32_t n = st->n, last = g->m->hp.n_layer - 1;
	int verify = st->kind == STEP_VERIFY && n > 1;

	g->first = 0;
	cache_begin(g->cache, st);
	if (g->clock)
		*g->clock += now_seconds() - start;
	if (verify && !one_ready(g))
		return;
	g->be->ops->embed(g->be, &g->x, &g->m->embd, id, st->n);
	for (int32_t i = 0; i <= last; i++) {
		const struct layer *l = &g->m->layer[i];

		if (cancel && *cancel)
			return;
		if (verify) {
			verify_layer(g, l, i, n);
			continue;
		}
		attention_in(g, l, n);
		attention(g, i);
		/* In the last layer the keys and values of all tokens are in the cache now; nobody asks what becomes of tokens
		 * whose logits are not wanted. */
		if (i == last && rows < n && rows <= 1) {
			g->first = n - rows;
			if (!rows)
				return;
			g->be->ops->copy(g->be, &g->x, 0, &g->x, n - 1, 1);
			g->be->ops->copy(g->be, &g->attn, 0, &g->attn, n - 1, 1);
			n = rows;
		}
		attention_out(g, l, n);
		feed_forward(g, l, n);
	}
}

void forward_logits(struct forward *g, int32_t row0, int32_t n, float *out)
{
	const struct hparams *hp = &g->m->hp;
	const struct backend_ops *op = g->be->ops;

	op->copy(g->be, &g->head_in, 0, &g->x, row0 - g->first, n);
	op->rmsnorm(g->be, &g->head_in, &g->head_in, &g->m->out_norm, hp->n_embd, hp->eps, n);
	op->matmul(g->be, &(struct matmul){ .out = &g->logits, .w = &g->m->output }, 1, &g->head_in, n);
	op->read(g->be, &g->logits, 0, out, (size_t)n * (size_t)hp->n_vocab * sizeof(float));
}
