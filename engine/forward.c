/* engine/forward.c - the forward pass: one decoder layer after the other, a straight line of backend operations.
 *
 * A layer's spec (arch.h) and tensors say what it computes: a bias or a norm runs when its tensor is there.  The cache decides at which
 * position a token stands and which KV entries it attends. */
#include "engine/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int32_t widest_ffn(const struct hparams *hp)
{
	int32_t width = 0;

	for (int32_t i = 0; i < hp->n_layer; i++)
		if (model_layer_spec(hp, i)->ffn.width > width)
			width = model_layer_spec(hp, i)->ffn.width;
	return width;
}

/* The buffers of struct forward with their shapes.  Returns their number. */
struct buffer_def { struct tensor *t; int32_t rows, cols; };
static int forward_buffers(struct forward *f, const struct hparams *hp, struct buffer_def out[16])
{
	int32_t q = hp->n_head * hp->head_dim, kv = hp->n_kv_head * hp->head_dim, width = widest_ffn(hp);
	const struct buffer_def all[] = {
		{ &f->x, f->batch, hp->n_embd }, { &f->norm, f->batch, hp->n_embd }, { &f->q, f->batch, q },
		{ &f->k, f->batch, kv }, { &f->v, f->batch, kv }, { &f->attn, f->batch, q }, { &f->ffn, f->batch, width },
		{ &f->head_in, f->head_rows, hp->n_embd }, { &f->logits, f->head_rows, hp->n_vocab },
	};

	_Static_assert(sizeof all <= 16 * sizeof all[0], "out is too small");
	memcpy(out, all, sizeof all);
	return (int)(sizeof all / sizeof all[0]);
}

uint64_t forward_bytes(const struct hparams *hp, int32_t batch, int32_t head_rows)
{
	struct forward f = { .batch = batch, .head_rows = head_rows };
	struct buffer_def buf[16];
	uint64_t sum = 0;
	int n = forward_buffers(&f, hp, buf);

	for (int i = 0; i < n; i++)
		sum += 4 * (uint64_t)buf[i].rows * (uint64_t)buf[i].cols;
	return sum;
}

int forward_init(struct forward *f, const struct model *m, struct cache *cache, int32_t batch, int32_t head_rows,
               struct err *err)
{
	const struct hparams *hp = &m->hp;
	struct buffer_def buf[16];
	int n;

	*f = (struct forward){ .m = m, .be = m->be, .cache = cache, .batch = batch, .head_rows = head_rows };
	n = forward_buffers(f, hp, buf);
	for (int i = 0; i < n; i++) {
		*buf[i].t = (struct tensor){ .type = DT_F32, .rows = buf[i].rows, .cols = buf[i].cols };
		if (f->be->ops->alloc(f->be, buf[i].t)) {
			err_set(err, ERR_FIT, "cannot allocate buffers for %d tokens at a time: %s", batch, f->be->err);
			forward_release(f);
			return -1;
		}
	}
	return 0;
}

void forward_release(struct forward *f)
{
	struct buffer_def buf[16];
	int n;

	if (!f->be)
		return;
	if (f->one)
		forward_release(f->one);
	free(f->one);
	n = forward_buffers(f, &f->m->hp, buf);
	for (int i = 0; i < n; i++)
		if (buf[i].t->data)
			f->be->ops->drop(f->be, buf[i].t);
	memset(f, 0, sizeof *f);
}

/* The input of a block: x normed, or x itself where the layer has no norm before it. */
static const struct tensor *block_in(struct forward *f, const struct tensor *norm, int32_t n)
{
	const struct hparams *hp = &f->m->hp;

	if (!norm->data)
		return &f->x;
	f->be->ops->rmsnorm(f->be, &f->norm, &f->x, norm, hp->n_embd, hp->eps, n);
	return &f->norm;
}

/* x += residual_scale * norm(in W^T + bias), with norm and bias (may be NULL) where their tensors are there.  One product where there is
 * no norm and the scale is 1. */
static void block_out(struct forward *f, const struct layer_spec *s, const struct tensor *w, const struct tensor *bias,
                      const struct tensor *norm, const struct tensor *in, int32_t n)
{
	const struct backend_ops *op = f->be->ops;
	const struct hparams *hp = &f->m->hp;
	int direct = !norm->data && s->residual_scale == 1;

	op->matmul(f->be, &(struct matmul){ .out = direct ? &f->x : &f->norm, .w = w, .bias = bias && bias->data ? bias : NULL,
	                                    .accumulate = direct }, 1, in, n);
	if (norm->data)
		op->rmsnorm(f->be, &f->norm, &f->norm, norm, hp->n_embd, hp->eps, n);
	if (!direct)
		op->axpby(f->be, &f->x, s->residual_scale, &f->norm, 1, n);
}

static void qk_norm(struct forward *f, const struct attn_spec *a, struct tensor *x, const struct tensor *w, int32_t n)
{
	if (w->data)
		f->be->ops->rmsnorm(f->be, x, x, w, a->qk_norm_whole ? x->cols : a->head_dim, f->m->hp.eps, n);
}

/* x -> q, k, v, unrotated. */
static void attention_in(struct forward *f, const struct layer *l, int32_t layer, int32_t n)
{
	const struct attn_spec *a = &model_layer_spec(&f->m->hp, layer)->attn;
	const struct tensor *in = block_in(f, &l->attn_norm, n);

	f->be->ops->matmul(f->be, (struct matmul[]){
		{ .out = &f->q, .w = &l->wq, .bias = l->bq.data ? &l->bq : NULL },
		{ .out = &f->k, .w = &l->wk, .bias = l->bk.data ? &l->bk : NULL },
		{ .out = &f->v, .w = &l->wv, .bias = l->bv.data ? &l->bv : NULL },
	}, 3, in, n);
	qk_norm(f, a, &f->q, &l->q_norm, n);
	qk_norm(f, a, &f->k, &l->k_norm, n);
}

static void attention(struct forward *f, int32_t layer)
{
	double start = f->clock ? now_seconds() : 0;

	cache_attend(f->cache, layer, &(struct qkv){ &f->q, &f->k, &f->v, &f->attn });
	if (f->clock)
		*f->clock += now_seconds() - start;
}

static void feed_forward(struct forward *f, const struct layer_spec *s, const struct layer *l, int32_t n)
{
	const struct tensor *in = block_in(f, &l->ffn_norm, n);
	struct tensor hidden = f->ffn;

	hidden.cols = s->ffn.width;
	f->be->ops->matmul_glu(f->be, &hidden, &l->gate, &l->up, s->ffn.act, in, n);
	block_out(f, s, &l->down, NULL, &l->ffn_post_norm, &hidden, n);
}

/* x *= factor. */
static void scale(struct forward *f, struct tensor *x, float factor, int32_t n)
{
	if (factor != 1)
		f->be->ops->axpby(f->be, x, factor, x, 0, n);
}

/* What follows attention in a layer. */
static void layer_out(struct forward *f, const struct layer *l, int32_t layer, int32_t n)
{
	const struct layer_spec *s = model_layer_spec(&f->m->hp, layer);

	block_out(f, s, &l->wo, &l->bo, &l->attn_post_norm, &f->attn, n);
	feed_forward(f, s, l, n);
}

/* ---- drafted tokens ----
 *
 * A product of several tokens sums in another order than the product of one.  Products and norms of a VERIFY step take the tokens one by
 * one, so that each gets the bits that it would have alone. */

static int one_ready(struct forward *f)
{
	struct err err;

	if (f->one)
		return 1;
	f->one = xcalloc(1, sizeof *f->one);
	if (!forward_init(f->one, f->m, f->cache, 1, 1, &err))
		return 1;
	free(f->one);              /* the backend's failure is sticky: sync() reports it */
	f->one = NULL;
	return 0;
}

static void verify_layer(struct forward *f, const struct layer *l, int32_t layer, int32_t n)
{
	struct backend *be = f->be;
	const struct backend_ops *op = be->ops;
	struct forward *one = f->one;

	for (int32_t i = 0; i < n; i++) {
		op->copy(be, &one->x, 0, &f->x, i, 1);
		attention_in(one, l, layer, 1);
		op->copy(be, &f->q, i, &one->q, 0, 1);
		op->copy(be, &f->k, i, &one->k, 0, 1);
		op->copy(be, &f->v, i, &one->v, 0, 1);
	}
	attention(f, layer);
	for (int32_t i = 0; i < n; i++) {
		op->copy(be, &one->x, 0, &f->x, i, 1);
		op->copy(be, &one->attn, 0, &f->attn, i, 1);
		layer_out(one, l, layer, 1);
		op->copy(be, &f->x, i, &one->x, 0, 1);
	}
}

void forward_run(struct forward *f, const int32_t *id, const struct step *st, int32_t rows)
{
	const backend_flag *cancel = f->be->cancel;
	const struct hparams *hp = &f->m->hp;
	double start = f->clock ? now_seconds() : 0;
	int32_t n = st->n;
	int verify = st->kind == STEP_VERIFY && n > 1;

	f->first = 0;
	cache_begin(f->cache, st);
	if (f->clock)
		*f->clock += now_seconds() - start;
	if (verify && !one_ready(f))
		return;
	f->be->ops->embed(f->be, &f->x, &f->m->embd, id, st->n);
	scale(f, &f->x, hp->embd_scale, n);
	for (int32_t i = 0; i < hp->n_layer; i++) {
		const struct layer *l = &f->m->layer[i];

		if (cancel && *cancel)
			return;
		if (verify) {
			verify_layer(f, l, i, n);
			continue;
		}
		attention_in(f, l, i, n);
		attention(f, i);
		/* The last layer's KV entries are stored: only tokens whose logits are wanted go on. */
		if (i == hp->n_layer - 1 && rows < n && rows <= 1) {
			f->first = n - rows;
			if (!rows)
				return;
			f->be->ops->copy(f->be, &f->x, 0, &f->x, n - 1, 1);
			f->be->ops->copy(f->be, &f->attn, 0, &f->attn, n - 1, 1);
			n = rows;
		}
		layer_out(f, l, i, n);
	}
}

void forward_logits(struct forward *f, int32_t row0, int32_t n, float *out)
{
	const struct hparams *hp = &f->m->hp;
	const struct backend_ops *op = f->be->ops;

	op->copy(f->be, &f->head_in, 0, &f->x, row0 - f->first, n);
	op->rmsnorm(f->be, &f->head_in, &f->head_in, &f->m->out_norm, hp->n_embd, hp->eps, n);
	op->matmul(f->be, &(struct matmul){ .out = &f->logits, .w = &f->m->output }, 1, &f->head_in, n);
	scale(f, &f->logits, hp->logit_scale, n);
	op->read(f->be, &f->logits, 0, out, (size_t)n * (size_t)hp->n_vocab * sizeof(float));
	for (size_t i = 0, all = (size_t)n * (size_t)hp->n_vocab; hp->logit_softcap > 0 && i < all; i++)
		out[i] = hp->logit_softcap * tanhf(out[i] / hp->logit_softcap);
}
