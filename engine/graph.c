/* engine/graph.c - one decoder layer after the other, a straight line of backend operations.
 *
 * Families differ by optional parts (biases, per-head norms) and by the pairing of rotary dimensions; a part
 * runs when its weight is there.  The rotary table is computed here, in double and once per call for all
 * layers: a float angle at position 10^6 would be off by 0.06 rad. */
#include "engine/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void graph_shapes(struct graph *g, const struct hparams *hp)
{
	int32_t q = hp->n_head * hp->head_dim, kv = hp->n_kv_head * hp->head_dim;
	struct { struct tensor *t; int32_t rows, cols; } all[] = {
		{ &g->x, g->batch, hp->n_embd }, { &g->norm, g->batch, hp->n_embd }, { &g->q, g->batch, q },
		{ &g->k, g->batch, kv }, { &g->v, g->batch, kv }, { &g->attn, g->batch, q }, { &g->ffn, g->batch, hp->n_ff },
		{ &g->rope, g->batch, hp->rope_dims }, { &g->head_in, g->head_rows, hp->n_embd },
		{ &g->logits, g->head_rows, hp->n_vocab },
	};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		*all[i].t = (struct tensor){ .type = DT_F32, .rows = all[i].rows, .cols = all[i].cols };
}

static struct tensor *graph_tensor(struct graph *g, int i)
{
	struct tensor *all[] = { &g->x, &g->norm, &g->q, &g->k, &g->v, &g->attn, &g->ffn, &g->rope, &g->head_in, &g->logits };
	return i < (int)(sizeof all / sizeof all[0]) ? all[i] : NULL;
}

uint64_t graph_bytes(const struct hparams *hp, int32_t batch, int32_t head_rows)
{
	struct graph g = { .batch = batch, .head_rows = head_rows };
	uint64_t sum = 0;

	graph_shapes(&g, hp);
	for (int i = 0; graph_tensor(&g, i); i++)
		sum += 4 * (uint64_t)graph_tensor(&g, i)->rows * (uint64_t)graph_tensor(&g, i)->cols;
	return sum;
}

int graph_init(struct graph *g, const struct model *m, struct kv *kv, int32_t batch, int32_t head_rows, struct err *err)
{
	const struct hparams *hp = &m->hp;
	size_t host;

	*g = (struct graph){ .m = m, .be = m->be, .kv = kv, .batch = batch, .head_rows = head_rows };
	graph_shapes(g, hp);
	for (int i = 0; graph_tensor(g, i); i++)
		if (g->be->ops->alloc(g->be, graph_tensor(g, i))) {
			err_set(err, ERR_FIT, "cannot allocate buffers for %d tokens at a time: %s", batch, g->be->err);
			graph_release(g);
			return -1;
		}
	host = (size_t)batch * (size_t)hp->rope_dims;
	if (host < (size_t)head_rows * (size_t)hp->n_embd)
		host = (size_t)head_rows * (size_t)hp->n_embd;
	if (!(g->host = try_alloc(host, sizeof *g->host, "rotary angles", err))) {
		graph_release(g);
		return -1;
	}
	return 0;
}

void graph_release(struct graph *g)
{
	if (!g->be)
		return;
	for (int i = 0; graph_tensor(g, i); i++)
		if (graph_tensor(g, i)->data)
			g->be->ops->drop(g->be, graph_tensor(g, i));
	free(g->host);
	memset(g, 0, sizeof *g);
}

static void rope_table(struct graph *g, int32_t n, int32_t n_past)
{
	const struct hparams *hp = &g->m->hp;

	for (int32_t i = 0; i < n; i++)
		for (int32_t j = 0; j < hp->rope_dims / 2; j++) {
			double angle = (double)(n_past + i) * hp->rope_freq[j];
			float *cs = g->host + (size_t)i * (size_t)hp->rope_dims + 2 * j;
			cs[0] = (float)(cos(angle) * hp->rope_mscale);
			cs[1] = (float)(sin(angle) * hp->rope_mscale);
		}
	g->be->ops->write(g->be, &g->rope, 0, g->host, (size_t)n * (size_t)hp->rope_dims * sizeof(float));
}

static void attention(struct graph *g, const struct layer *l, int32_t layer, int32_t n, int32_t n_past)
{
	const struct hparams *hp = &g->m->hp;
	struct backend *be = g->be;
	const struct backend_ops *op = be->ops;
	struct kv *kv = g->kv;

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
	op->rope(be, &g->q, &g->rope, hp->head_dim, hp->rope_dims, hp->arch->neox, n);
	op->rope(be, &g->k, &g->rope, hp->head_dim, hp->rope_dims, hp->arch->neox, n);
	op->kv_put(be, &kv->k[layer], &g->k, hp->n_kv_head, n_past, n);
	op->kv_put(be, &kv->v[layer], &g->v, hp->n_kv_head, n_past, n);
	op->attn(be, &(struct attn_args){
		.out = &g->attn, .q = &g->q, .k = &kv->k[layer], .v = &kv->v[layer], .n_head = hp->n_head,
		.n_kv_head = hp->n_kv_head, .head_dim = hp->head_dim, .cap = kv->cap, .n_past = n_past,
		.scale = (float)(1 / sqrt(hp->head_dim)),
	}, n);
	op->matmul(be, &(struct matmul){ .out = &g->x, .w = &l->wo, .bias = l->bo.data ? &l->bo : NULL, .accumulate = 1 }, 1,
	           &g->attn, n);
}

static void feed_forward(struct graph *g, const struct layer *l, int32_t n)
{
	const struct backend_ops *op = g->be->ops;

	op->rmsnorm(g->be, &g->norm, &g->x, &l->ffn_norm, g->m->hp.n_embd, g->m->hp.eps, n);
	op->matmul_glu(g->be, &g->ffn, &l->gate, &l->up, &g->norm, n);
	op->matmul(g->be, &(struct matmul){ .out = &g->x, .w = &l->down, .accumulate = 1 }, 1, &g->ffn, n);
}

void graph_forward(struct graph *g, const int32_t *id, int32_t n, int32_t n_past)
{
	const _Atomic int *cancel = g->be->cancel;

	rope_table(g, n, n_past);
	g->be->ops->embed(g->be, &g->x, &g->m->embd, id, n);
	for (int32_t i = 0; i < g->m->hp.n_layer; i++) {
		if (cancel && *cancel)
			return;
		attention(g, &g->m->layer[i], i, n, n_past);
		feed_forward(g, &g->m->layer[i], n);
	}
}

void graph_logits(struct graph *g, int32_t row0, int32_t n, float *out)
{
	const struct hparams *hp = &g->m->hp;
	const struct backend_ops *op = g->be->ops;
	size_t row = (size_t)hp->n_embd * sizeof(float);

	op->read(g->be, &g->x, (size_t)row0 * row, g->host, (size_t)n * row);
	op->write(g->be, &g->head_in, 0, g->host, (size_t)n * row);
	op->rmsnorm(g->be, &g->head_in, &g->head_in, &g->m->out_norm, hp->n_embd, hp->eps, n);
	op->matmul(g->be, &(struct matmul){ .out = &g->logits, .w = &g->m->output }, 1, &g->head_in, n);
	op->read(g->be, &g->logits, 0, out, (size_t)n * (size_t)hp->n_vocab * sizeof(float));
}
