/* engine/forward.c - one decoder layer after the other, a straight line of backend operations.
 *
 * Families differ by optional parts (biases, per-head norms) and by the pairing of rotary dimensions; a part
 * runs when its weight is there.  Where tokens stand and what they read is the policy's part. */
#include "engine/forward.h"

#include <stdlib.h>
#include <string.h>

/* The buffers: where they are in struct forward and their shape.  Returns how many there are. */
struct buffer_def { struct tensor *t; int32_t rows, cols; };
static int forward_buffers(struct forward *f, const struct hparams *hp, struct buffer_def out[16])
{
	int32_t q = hp->n_head * hp->head_dim, kv = hp->n_kv_head * hp->head_dim;
	const struct buffer_def all[] = {
		{ &f->x, f->batch, hp->n_embd }, { &f->norm, f->batch, hp->n_embd }, { &f->q, f->batch, q },
		{ &f->k, f->batch, kv }, { &f->v, f->batch, kv }, { &f->attn, f->batch, q }, { &f->ffn, f->batch, hp->n_ff },
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

int forward_init(struct forward *f, const struct model *m, struct policy *policy, int32_t batch, int32_t head_rows,
               struct err *err)
{
	const struct hparams *hp = &m->hp;
	struct buffer_def buf[16];
	int n;

	*f = (struct forward){ .m = m, .be = m->be, .policy = policy, .batch = batch, .head_rows = head_rows };
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
	n = forward_buffers(f, &f->m->hp, buf);
	for (int i = 0; i < n; i++)
		if (buf[i].t->data)
			f->be->ops->drop(f->be, buf[i].t);
	memset(f, 0, sizeof *f);
}

static void attention(struct forward *f, const struct step *st, const struct layer *l, int32_t layer)
{
	const struct hparams *hp = &f->m->hp;
	struct backend *be = f->be;
	const struct backend_ops *op = be->ops;
	int32_t n = st->n;
	double start;

	op->rmsnorm(be, &f->norm, &f->x, &l->attn_norm, hp->n_embd, hp->eps, n);
	op->matmul(be, (struct matmul[]){
		{ .out = &f->q, .w = &l->wq, .bias = l->bq.data ? &l->bq : NULL },
		{ .out = &f->k, .w = &l->wk, .bias = l->bk.data ? &l->bk : NULL },
		{ .out = &f->v, .w = &l->wv, .bias = l->bv.data ? &l->bv : NULL },
	}, 3, &f->norm, n);
	if (l->q_norm.data)
		op->rmsnorm(be, &f->q, &f->q, &l->q_norm, hp->head_dim, hp->eps, n);
	if (l->k_norm.data)
		op->rmsnorm(be, &f->k, &f->k, &l->k_norm, hp->head_dim, hp->eps, n);
	start = f->clock ? now_seconds() : 0;
	f->policy->def->attend(f->policy, st, layer, &(struct qkv){ &f->q, &f->k, &f->v, &f->attn });
	if (f->clock)
		*f->clock += now_seconds() - start;
}

/* What was attended, into the residual stream. */
static void attention_out(struct forward *f, const struct layer *l, int32_t n)
{
	f->be->ops->matmul(f->be, &(struct matmul){ .out = &f->x, .w = &l->wo, .bias = l->bo.data ? &l->bo : NULL,
	                                            .accumulate = 1 }, 1, &f->attn, n);
}

static void feed_forward(struct forward *f, const struct layer *l, int32_t n)
{
	const struct backend_ops *op = f->be->ops;

	op->rmsnorm(f->be, &f->norm, &f->x, &l->ffn_norm, f->m->hp.n_embd, f->m->hp.eps, n);
	op->matmul_glu(f->be, &f->ffn, &l->gate, &l->up, &f->norm, n);
	op->matmul(f->be, &(struct matmul){ .out = &f->x, .w = &l->down, .accumulate = 1 }, 1, &f->ffn, n);
}

void forward_run(struct forward *f, const int32_t *id, const struct step *st, int32_t rows)
{
	const backend_flag *cancel = f->be->cancel;
	double start = f->clock ? now_seconds() : 0;
	int32_t n = st->n;

	f->first = 0;
	f->policy->def->begin(f->policy, st);
	if (f->clock)
		*f->clock += now_seconds() - start;
	f->be->ops->embed(f->be, &f->x, &f->m->embd, id, st->n);
	for (int32_t i = 0; i < f->m->hp.n_layer; i++) {
		if (cancel && *cancel)
			return;
		attention(f, st, &f->m->layer[i], i);
		/* In the last layer the keys and values of all tokens are in the cache now; nobody asks what becomes of tokens
		 * whose logits are not wanted. */
		if (i == f->m->hp.n_layer - 1 && rows < n && rows <= 1) {
			f->first = n - rows;
			if (!rows)
				return;
			f->be->ops->copy(f->be, &f->x, 0, &f->x, n - 1, 1);
			f->be->ops->copy(f->be, &f->attn, 0, &f->attn, n - 1, 1);
			n = rows;
		}
		attention_out(f, &f->m->layer[i], n);
		feed_forward(f, &f->m->layer[i], n);
	}
}

void forward_logits(struct forward *f, int32_t row0, int32_t n, float *out)
{
	const struct hparams *hp = &f->m->hp;
	const struct backend_ops *op = f->be->ops;

	op->copy(f->be, &f->head_in, 0, &f->x, row0 - f->first, n);
	op->rmsnorm(f->be, &f->head_in, &f->head_in, &f->m->out_norm, hp->n_embd, hp->eps, n);
	op->matmul(f->be, &(struct matmul){ .out = &f->logits, .w = &f->m->output }, 1, &f->head_in, n);
	op->read(f->be, &f->logits, 0, out, (size_t)n * (size_t)hp->n_vocab * sizeof(float));
}
