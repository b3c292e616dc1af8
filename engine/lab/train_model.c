/* engine/lab/train_model.c - checks that a model can be trained, loads its weights as floats, and allocates the
 * memory of training. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lab/train.h"

static const struct {
	const char *name;
	enum layer_tensor tensor;
} targets[TRAIN_TARGETS] = {
	{ "attn_q", TENSOR_Q },      { "attn_k", TENSOR_K },
	{ "attn_v", TENSOR_V },      { "attn_output", TENSOR_ATTN_OUT },
	{ "ffn_gate", TENSOR_GATE }, { "ffn_up", TENSOR_UP },
	{ "ffn_down", TENSOR_DOWN },
};

const char *train_target_name(enum train_target p)
{
	return targets[p].name;
}

/* Allocate n zeroed floats, which trainer_close() frees. Return NULL on error. */
static float *train_floats(struct trainer *t, size_t n, struct err *err)
{
	float *v = try_alloc(n, sizeof *v, "training", err);

	if (!v)
		return NULL;
	t->owned = xrealloc(t->owned, (t->n_owned + 1) * sizeof *t->owned);
	return t->owned[t->n_owned++] = v;
}

/* ---- what can be trained ---- */

/* Return the name of the first property of a layer that training does not support, or NULL if it supports all of
 * them. */
static const char *odd_layer(const struct hparams *hp, const struct layer_spec *s)
{
	const struct attn_spec *a = &s->attn;

	if (a->kind != ATTN_SOFTMAX)
		return "a recurrent state";
	if (s->ffn.kind != FFN_DENSE || s->ffn.shared || s->ffn.dense)
		return "experts";
	if (a->window)
		return "a sliding window";
	if (a->n_head != hp->n_head || a->n_kv_head != hp->n_kv_head || a->head_dim != hp->head_dim ||
	    s->ffn.width != hp->n_ff)
		return "another shape than others";
	if (s->ffn.act != ACT_SILU || a->softcap != 0 || a->sinks || a->gated || a->v_norm || a->borrows ||
	    a->rope != 0 || s->residual_scale != 1)
		return "operations that training does not know";
	return NULL;
}

/* Return the first tensor in a layer that training does not support, or NULL if it supports all of them. */
static const struct gguf_tensor *odd_tensor(const struct gguf *g)
{
	for (uint64_t i = 0; i < g->n_tensor; i++) {
		const struct view *v = &g->tensor[i].name;
		int known = v->n < 4 || memcmp(v->p, "blk.", 4);

		for (int k = 0; !known && k < TRAIN_TARGETS + 2; k++) {
			const char *name = k < TRAIN_TARGETS    ? targets[k].name
			                   : k == TRAIN_TARGETS ? "attn_norm"
			                                        : "ffn_norm";
			char end[40];
			size_t n = (size_t)snprintf(end, sizeof end, ".%s.weight", name);

			known = v->n > n && !memcmp(v->p + v->n - n, end, n);
		}
		if (!known)
			return &g->tensor[i];
	}
	return NULL;
}

/* Check that training supports the model: its layers, their tensors, and the operations around the layers. */
static int plain_check(const struct engine *e, struct err *err)
{
	const struct hparams *hp = &e->model.hp;
	const struct gguf_tensor *odd = odd_tensor(e->gguf);
	const char *why = NULL;

	for (int32_t i = 0; !why && i < hp->n_layer; i++)
		why = odd_layer(hp, model_layer_spec(hp, i));
	if (!why && (hp->n_input || hp->temperature != 0 || hp->embd_scale != 1 || hp->logit_scale != 1 ||
	             hp->logit_softcap != 0 || hp->rope[0].freq_long))
		why = "operations that training does not know";
	if (why)
		return gguf_err(e->gguf, err, "it cannot be trained: its layers have %s; models of Llama's kind can",
		                why);
	return odd ? gguf_err(e->gguf, err, "it cannot be trained: its layers have '%.*s'; models of Llama's kind can",
	                      (int)(MIN(odd->name.n, 60)), odd->name.p)
	           : 0;
}

/* ---- parameters ---- */

struct loader {
	struct trainer *t;
	struct err *err;
};

/* Load the first n values of a tensor as floats. If `trains` is 1, also allocate the parameter's gradient and
 * moments. */
static int param_load(struct loader *l, struct train_param *p, const char *name, size_t n, int trains)
{
	struct trainer *t = l->t;
	const struct gguf_tensor *g = gguf_tensor_find(t->e->gguf, name);
	int64_t count = g ? g->ne[0] * g->ne[1] : 0;

	if (!g || (uint64_t)count < n)
		return gguf_err(t->e->gguf, l->err, "tensor '%s' is missing", name);
	*p = (struct train_param){ .n = n };
	/* Load only the first n values, because a padded embedding has more rows than the vocabulary has tokens. */
	if (!(p->w = train_floats(t, n, l->err)))
		return -1;
	dtype_to_f32(g->type, p->w, g->data, (int64_t)n);
	if (!trains)
		return 0;
	return (p->g = train_floats(t, n, l->err)) && (p->m = train_floats(t, n, l->err)) &&
	                       (p->v = train_floats(t, n, l->err))
	               ? 0
	               : -1;
}

/* Return a random number, uniform from -1 to 1. */
static float random_value(uint64_t *state)
{
	return (float)((double)(random_next(state) >> 11) * 0x1p-52 - 1);
}

/* Allocate a trained parameter of n values. The values are random, uniform from -width to width, or 0 if `state` is
 * NULL. */
static int param_fresh(struct loader *l, struct train_param *p, size_t n, double width, uint64_t *state)
{
	struct trainer *t = l->t;

	*p = (struct train_param){ .n = n };
	if (!(p->w = train_floats(t, n, l->err)) || !(p->g = train_floats(t, n, l->err)) ||
	    !(p->m = train_floats(t, n, l->err)) || !(p->v = train_floats(t, n, l->err)))
		return -1;
	for (size_t i = 0; state && i < n; i++)
		p->w[i] = (float)(width * (double)random_value(state));
	return 0;
}

/* Load a matrix. If an adapter is trained, also initialise the matrix's adapter (Hu et al. 2021): A is uniform from -1
 * / sqrt(cols) to 1 / sqrt(cols), B is 0. So the adapter has no effect at first. */
static int load_matrix(struct loader *l, struct train_matrix *m, const char *name, int32_t rows, int32_t cols,
                       uint64_t *state)
{
	const struct train_settings *s = &l->t->s;

	m->rows = rows;
	m->cols = cols;
	m->rank = s->rank;
	m->scale = s->rank ? (float)(s->alpha / s->rank) : 0;
	if (param_load(l, &m->w, name, (size_t)rows * (size_t)cols, !s->rank))
		return -1;
	return s->rank && (param_fresh(l, &m->a, (size_t)s->rank * (size_t)cols, 1 / sqrt(cols), state) ||
	                   param_fresh(l, &m->b, (size_t)rows * (size_t)s->rank, 0, NULL))
	               ? -1
	               : 0;
}

static int load_layer(struct loader *l, struct train_layer *out, int32_t i, uint64_t *state)
{
	const struct trainer *t = l->t;
	int32_t q = t->n_head * t->head_dim, kv = t->n_kv_head * t->head_dim;
	const int32_t shape[TRAIN_TARGETS][2] = { { q, t->n_embd },      { kv, t->n_embd },      { kv, t->n_embd },
		                                  { t->n_embd, q },      { t->n_ff, t->n_embd }, { t->n_ff, t->n_embd },
		                                  { t->n_embd, t->n_ff } };
	char name[64];

	for (int p = 0; p < TRAIN_TARGETS; p++) {
		snprintf(name, sizeof name, "blk.%d.%s.weight", i, targets[p].name);
		if (load_matrix(l, &out->m[p], name, shape[p][0], shape[p][1], state))
			return -1;
	}
	snprintf(name, sizeof name, "blk.%d.attn_norm.weight", i);
	if (param_load(l, &out->attn_norm, name, (size_t)t->n_embd, !t->s.rank))
		return -1;
	snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", i);
	return param_load(l, &out->ffn_norm, name, (size_t)t->n_embd, !t->s.rank);
}

/* ---- memory of a pass ---- */

static int acts_alloc(struct trainer *t, struct train_acts *a, struct err *err)
{
	size_t n = (size_t)t->s.context, wide = n * (size_t)t->n_embd, q = n * (size_t)(t->n_head * t->head_dim),
	       kv = n * (size_t)(t->n_kv_head * t->head_dim), ff = n * (size_t)t->n_ff;
	const struct {
		float **at;
		size_t n;
	} all[] = {
		{ &a->x, wide },
		{ &a->x_mid, wide },
		{ &a->attn_in, wide },
		{ &a->ffn_in, wide },
		{ &a->attn_inv, n },
		{ &a->ffn_inv, n },
		{ &a->q, q },
		{ &a->k, kv },
		{ &a->v, kv },
		{ &a->attn, q },
		{ &a->prob, n * n * (size_t)t->n_head },
		{ &a->gate, ff },
		{ &a->up, ff },
		{ &a->h, ff },
	};

	for (size_t i = 0; i < LEN(all); i++)
		if (!(*all[i].at = train_floats(t, all[i].n, err)))
			return -1;
	for (int i = 0; t->s.rank && i < TRAIN_TARGETS; i++)
		if (!(a->low[i] = train_floats(t, n * (size_t)t->s.rank, err)))
			return -1;
	return 0;
}

/* Allocate the memory of the forward and backward passes, and compute the angles of RoPE. */
static int buffers_alloc(struct trainer *t, struct err *err)
{
	size_t n = (size_t)t->s.context, m = n - (size_t)t->s.fixed, wide = m * (size_t)t->n_embd,
	       q = m * (size_t)(t->n_head * t->head_dim), kv = m * (size_t)(t->n_kv_head * t->head_dim),
	       ff = m * (size_t)t->n_ff;
	const struct {
		float **at;
		size_t n;
	} all[] = {
		{ &t->x, n * (size_t)t->n_embd },
		{ &t->x_normed, n * (size_t)t->n_embd },
		{ &t->x_inv, n },
		{ &t->logits, LOGIT_ROWS * (size_t)t->n_vocab },
		{ &t->dx, wide },
		{ &t->dnorm, wide },
		{ &t->dq, q },
		{ &t->dk, kv },
		{ &t->dv, kv },
		{ &t->dattn, q },
		{ &t->dprob, m * n * (size_t)t->n_head },
		{ &t->dgate, ff },
		{ &t->dup, ff },
		{ &t->dh, ff },
		{ &t->dlow, m * (size_t)(t->s.rank ? t->s.rank : 1) },
		{ &t->angles, n * (size_t)t->rope->dims },
	};

	for (size_t i = 0; i < LEN(all); i++)
		if (!(*all[i].at = train_floats(t, all[i].n, err)))
			return -1;
	for (int32_t i = 0; i < t->n_layer; i++)
		if (acts_alloc(t, &t->layer[i].acts, err))
			return -1;
	for (size_t pos = 0; pos < n; pos++)
		for (int32_t j = 0; j < t->rope->dims / 2; j++) {
			double angle = (double)pos * t->rope->freq[j];

			t->angles[pos * (size_t)t->rope->dims + 2 * (size_t)j] = (float)(cos(angle) * t->rope->mscale);
			t->angles[pos * (size_t)t->rope->dims + 2 * (size_t)j + 1] =
				(float)(sin(angle) * t->rope->mscale);
		}
	return 0;
}

/* Append a parameter to t->param, if it is trained. */
static void param_add(struct trainer *t, struct train_param *p)
{
	if (!p->g)
		return;
	t->param = xrealloc(t->param, (t->n_param + 1) * sizeof *t->param);
	t->param[t->n_param++] = p;
}

int train_model_load(struct trainer *t, struct err *err)
{
	const struct hparams *hp = &t->e->model.hp;
	struct loader l = { t, err };
	uint64_t state = t->s.seed;
	size_t vocab = (size_t)hp->n_vocab * (size_t)hp->n_embd;

	if (plain_check(t->e, err))
		return -1;
	t->n_layer = hp->n_layer;
	t->n_embd = hp->n_embd;
	t->n_ff = hp->n_ff;
	t->n_head = hp->n_head;
	t->n_kv_head = hp->n_kv_head;
	t->head_dim = hp->head_dim;
	t->n_vocab = hp->n_vocab;
	t->eps = hp->eps;
	t->rope = &hp->rope[0];
	t->attn_scale = model_layer_spec(hp, 0)->attn.scale;
	t->layer = xcalloc((size_t)t->n_layer, sizeof *t->layer);
	if (param_load(&l, &t->embd, "token_embd.weight", vocab, !t->s.rank) ||
	    param_load(&l, &t->out_norm, "output_norm.weight", (size_t)hp->n_embd, !t->s.rank) ||
	    (gguf_tensor_find(t->e->gguf, "output.weight") &&
	     param_load(&l, &t->out.w, "output.weight", vocab, !t->s.rank)))
		return -1;
	for (int32_t i = 0; i < t->n_layer; i++)
		if (load_layer(&l, &t->layer[i], i, &state))
			return -1;
	param_add(t, &t->embd);
	param_add(t, &t->out_norm);
	param_add(t, &t->out.w);
	for (int32_t i = 0; i < t->n_layer; i++) {
		struct train_layer *layer = &t->layer[i];

		param_add(t, &layer->attn_norm);
		param_add(t, &layer->ffn_norm);
		for (int p = 0; p < TRAIN_TARGETS; p++) {
			param_add(t, &layer->m[p].w);
			param_add(t, &layer->m[p].a);
			param_add(t, &layer->m[p].b);
		}
	}
	return buffers_alloc(t, err);
}
