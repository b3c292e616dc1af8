/* engine/encoder/encoder_load.c - reads an encoder's metadata and weights from a GGUF file. Tensor names are those
 * of llama.cpp's converter.
 *
 * An unknown tensor in the file is an error: ignoring a weight could give wrong vectors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/encoder/encoder.h"

enum { LAYERS_MAX = 1024, WIDTH_MAX = 1 << 17, HEADS_MAX = 4096, LONGEST_MAX = 8192 };

/* ---- keys ---- */

static int load_int(const struct gguf *g, const char *key, int64_t min, int64_t max, int32_t *out, struct err *err)
{
	int64_t v;
	int got = gguf_int(g, key, min, max, &v, err);

	if (!got)
		return gguf_err(g, err, "'%s' is missing", key);
	*out = (int32_t)v;
	return got < 0 ? -1 : 0;
}

static int load_keys(struct encoder *e, struct err *err)
{
	const struct gguf *g = e->gguf;
	struct view name = { "", 0 };
	int32_t pooling = POOL_MEAN;
	int causal = 0, got;
	double eps = 0;

	if (gguf_string(g, "general.architecture", &name, err) < 0)
		return -1;
	if (gguf_string(g, "general.name", &e->name, err) < 0)
		return -1;
	if (!view_is(name, "bert"))
		return gguf_err(g, err, "'%.*s' is not a family of encoders that is supported (supported: bert)",
		                (int)(MIN(name.n, 40)), name.p);
	if (load_int(g, "bert.block_count", 1, LAYERS_MAX, &e->n_layer, err) ||
	    load_int(g, "bert.context_length", 1, INT32_MAX, &e->longest, err) ||
	    load_int(g, "bert.embedding_length", 1, WIDTH_MAX, &e->n_embd, err) ||
	    load_int(g, "bert.feed_forward_length", 1, WIDTH_MAX, &e->n_ff, err) ||
	    load_int(g, "bert.attention.head_count", 1, HEADS_MAX, &e->n_head, err) ||
	    (gguf_find(g, "bert.pooling_type") && load_int(g, "bert.pooling_type", 0, 4, &pooling, err)) ||
	    gguf_bool(g, "bert.attention.causal", &causal, err) < 0)
		return -1;
	got = gguf_float(g, "bert.attention.layer_norm_epsilon", &eps, err);
	if (got < 0)
		return -1;
	if (!(eps >= 1e-14 && eps <= 0.1))
		return gguf_err(g, err, "'bert.attention.layer_norm_epsilon' is %s, and must be 1e-14 to 0.1",
		                got ? "out of range" : "missing");
	if (causal)
		return gguf_err(g, err, "'bert.attention.causal' is true, which is not supported");
	if (e->n_embd % e->n_head)
		return gguf_err(g, err, "'bert.attention.head_count' is %d, and must divide the embedding_length, %d",
		                e->n_head, e->n_embd);
	if (pooling != POOL_MEAN && pooling != POOL_FIRST && pooling != POOL_LAST)
		return gguf_err(
			g, err,
			"'bert.pooling_type' is %d, and must be 1 (mean), 2 (first token) or 3 (last token) for one vector a text",
			pooling);
	e->eps = (float)eps;
	e->pooling = (enum pooling)pooling;
	return 0;
}

/* ---- tensors ---- */

struct loader {
	struct encoder *e;
	uint8_t *used; /* [n_tensor] 1 = load_find() has returned the tensor */
	struct err *err;
	int failed;
};

/* Return the tensor named prefix + name and check its shape [rows][cols]; rows = 0 allows any number of rows. If
 * it is missing or has another shape, set l->failed and return NULL. */
static const struct gguf_tensor *load_find(struct loader *l, const char *prefix, const char *name, int32_t rows,
                                           int32_t cols)
{
	const struct gguf *g = l->e->gguf;
	const struct gguf_tensor *t;
	char full[80];

	if (l->failed)
		return NULL;
	snprintf(full, sizeof full, "%s%s", prefix, name);
	if (!(t = gguf_tensor_find(g, full))) {
		l->failed = gguf_err(g, l->err, "tensor '%s' is missing", full);
		return NULL;
	}
	l->used[t - g->tensor] = 1;
	if (t->type < DT_COUNT && t->ne[0] == cols && (rows ? t->ne[1] == rows : t->ne[1] <= INT32_MAX) &&
	    t->ne[2] == 1 && t->ne[3] == 1)
		return t;
	if (t->type >= DT_COUNT)
		l->failed = gguf_err(g, l->err, "tensor '%s' is of a type that encoders do not use", full);
	else
		l->failed =
			gguf_err(g, l->err, "byte %llu: tensor '%s' has the shape %lld x %lld, and must have %d x %d",
		                 (unsigned long long)t->off, full, (long long)t->ne[0], (long long)t->ne[1], cols,
		                 rows ? rows : 1);
	return NULL;
}

static void load_failed(struct loader *l)
{
	l->failed = err_set(l->err, ERR_FIT, "cannot load the encoder: %s; free some memory or use a smaller model",
	                    l->e->be->err);
}

/* Load a matrix to the backend. as_table: 1 for an embedding table, from which single rows are read. */
static void load_matrix(struct loader *l, struct tensor *out, const char *prefix, const char *name, int32_t rows,
                        int32_t cols, int as_table)
{
	const struct gguf_tensor *t = load_find(l, prefix, name, rows, cols);

	if (!t)
		return;
	*out = (struct tensor){ .type = t->type, .rows = (int32_t)t->ne[1], .cols = cols };
	if (l->e->be->ops->load_weight(l->e->be, out, t->data, as_table))
		load_failed(l);
}

static void load_alloc(struct loader *l, struct tensor *t, enum dtype type, int32_t rows, int32_t cols)
{
	*t = (struct tensor){ .type = type, .rows = rows, .cols = cols };
	if (!l->failed && l->e->be->ops->alloc(l->e->be, t))
		load_failed(l);
}

/* Copy a vector of n values as f32. */
static void load_vector(struct loader *l, struct tensor *out, const char *prefix, const char *name, int32_t n)
{
	const struct gguf_tensor *t = load_find(l, prefix, name, 1, n);
	float *v;

	if (!t)
		return;
	load_alloc(l, out, DT_F32, 1, n);
	if (l->failed)
		return;
	v = xcalloc((size_t)n, sizeof *v);
	dtype_to_f32(t->type, v, t->data, n);
	l->e->be->ops->write(l->e->be, out, 0, v, (size_t)n * sizeof *v);
	free(v);
}

static void load_norm(struct loader *l, struct encoder_norm *n, const char *prefix, const char *name)
{
	char full[40];

	snprintf(full, sizeof full, "%s.weight", name);
	load_vector(l, &n->w, prefix, full, l->e->n_embd);
	snprintf(full, sizeof full, "%s.bias", name);
	load_vector(l, &n->b, prefix, full, l->e->n_embd);
}

static void load_linear(struct loader *l, struct encoder_linear *m, const char *prefix, const char *name, int32_t rows,
                        int32_t cols)
{
	char full[40];

	snprintf(full, sizeof full, "%s.weight", name);
	load_matrix(l, &m->w, prefix, full, rows, cols, 0);
	snprintf(full, sizeof full, "%s.bias", name);
	load_vector(l, &m->b, prefix, full, rows);
}

/* Load the position embeddings. The embedding of token type 0 is added to each here, once, because all tokens of a
 * single text have type 0. */
static void load_positions(struct loader *l)
{
	struct encoder *e = l->e;
	const struct gguf_tensor *t = load_find(l, "", "position_embd.weight", e->longest, e->n_embd), *type = NULL;
	size_t n = (size_t)e->n_embd;
	float *v, *add;

	if (gguf_tensor_find(e->gguf, "token_types.weight"))
		type = load_find(l, "", "token_types.weight", 0, e->n_embd);
	load_alloc(l, &e->position, DT_F32, e->longest, e->n_embd);
	if (l->failed)
		return;
	v = xcalloc(((size_t)e->longest + 1) * n, sizeof *v);
	add = v + (size_t)e->longest * n;
	dtype_to_f32(t->type, v, t->data, (int64_t)e->longest * e->n_embd);
	if (type)
		dtype_to_f32(type->type, add, type->data, e->n_embd);
	for (size_t i = 0; i < (size_t)e->longest * n; i++)
		v[i] += add[i % n];
	e->be->ops->write(e->be, &e->position, 0, v, (size_t)e->longest * n * sizeof *v);
	free(v);
}

static void load_layer(struct loader *l, int32_t i)
{
	struct encoder_layer *y = &l->e->layer[i];
	int32_t n = l->e->n_embd;
	char p[24];

	snprintf(p, sizeof p, "blk.%d.", i);
	load_linear(l, &y->q, p, "attn_q", n, n);
	load_linear(l, &y->k, p, "attn_k", n, n);
	load_linear(l, &y->v, p, "attn_v", n, n);
	load_linear(l, &y->out, p, "attn_output", n, n);
	load_norm(l, &y->attn_norm, p, "attn_output_norm");
	load_linear(l, &y->up, p, "ffn_up", l->e->n_ff, n);
	load_linear(l, &y->down, p, "ffn_down", n, l->e->n_ff);
	load_norm(l, &y->ffn_norm, p, "layer_output_norm");
}

static void load_buffers(struct loader *l)
{
	struct encoder *e = l->e;
	size_t rows;

	e->batch = MAX(e->longest, (int32_t)ENCODER_BATCH);
	rows = (size_t)e->batch;
	load_alloc(l, &e->x, DT_F32, e->batch, e->n_embd);
	load_alloc(l, &e->q, DT_F32, e->batch, e->n_embd);
	load_alloc(l, &e->k, DT_F32, e->batch, e->n_embd);
	load_alloc(l, &e->v, DT_F32, e->batch, e->n_embd);
	load_alloc(l, &e->attn, DT_F32, e->batch, e->n_embd);
	load_alloc(l, &e->hidden, DT_F32, e->batch, e->n_ff);
	load_alloc(l, &e->k_plane, DT_F16, e->n_head * e->batch, e->n_embd / e->n_head);
	load_alloc(l, &e->v_plane, DT_F16, e->n_head * e->batch, e->n_embd / e->n_head);
	if (!l->failed && (!(e->id = try_alloc(rows, sizeof *e->id, "token ids", l->err)) ||
	                   !(e->at = try_alloc(rows, sizeof *e->at, "positions", l->err)) ||
	                   !(e->host = try_alloc(rows * (size_t)e->n_embd, sizeof *e->host, "hidden states", l->err))))
		l->failed = -1;
}

int encoder_load(struct encoder *e, struct err *err)
{
	struct loader l = { .e = e, .err = err };
	const struct gguf *g = e->gguf;

	if (load_keys(e, err))
		return -1;
	if (e->longest > LONGEST_MAX)
		return gguf_err(g, err, "'bert.context_length' is %d, and at most %d are supported", e->longest,
		                LONGEST_MAX);
	l.used = xcalloc((size_t)g->n_tensor + 1, 1);
	e->layer = xcalloc((size_t)e->n_layer, sizeof *e->layer);
	load_matrix(&l, &e->embd, "", "token_embd.weight", 0, e->n_embd, 1);
	e->n_vocab = e->embd.rows;
	load_positions(&l);
	load_norm(&l, &e->embd_norm, "", "token_embd_norm");
	for (int32_t i = 0; i < e->n_layer; i++)
		load_layer(&l, i);
	for (uint64_t i = 0; i < g->n_tensor && !l.failed; i++)
		if (!l.used[i])
			l.failed = gguf_err(g, err, "byte %llu: tensor '%.*s' is not part of a bert model of %d layers",
			                    (unsigned long long)g->tensor[i].off, (int)g->tensor[i].name.n,
			                    g->tensor[i].name.p, e->n_layer);
	load_buffers(&l);
	free(l.used);
	if (!l.failed && e->be->ops->sync(e->be))
		load_failed(&l);
	return l.failed ? -1 : gguf_check_there(g, err);
}

static void tensor_release(struct encoder *e, struct tensor *t)
{
	if (t->data)
		e->be->ops->drop(e->be, t);
}

void encoder_release(struct encoder *e)
{
	struct tensor *const all[] = { &e->embd, &e->position, &e->embd_norm.w, &e->embd_norm.b,
		                       &e->x,    &e->q,        &e->k,           &e->v,
		                       &e->attn, &e->hidden,   &e->k_plane,     &e->v_plane };

	for (size_t i = 0; i < LEN(all); i++)
		tensor_release(e, all[i]);
	for (int32_t i = 0; e->layer && i < e->n_layer; i++) {
		struct encoder_layer *l = &e->layer[i];
		struct tensor *const of[] = { &l->q.w,         &l->q.b,         &l->k.w,        &l->k.b,
			                      &l->v.w,         &l->v.b,         &l->out.w,      &l->out.b,
			                      &l->attn_norm.w, &l->attn_norm.b, &l->ffn_norm.w, &l->ffn_norm.b,
			                      &l->up.w,        &l->up.b,        &l->down.w,     &l->down.b };

		for (size_t k = 0; k < LEN(of); k++)
			tensor_release(e, of[k]);
	}
	free(e->layer);
	free(e->id);
	free(e->at);
	free(e->host);
}
