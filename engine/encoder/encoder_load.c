/* engine/encoder/encoder_load.c - reads an encoder's metadata and weights from a GGUF file. Keys, tensor names and the
 * computation of each family are the same as in llama.cpp's converter and models (conversion/bert.py,
 * src/models/bert.cpp, gguf-py/gguf/tensor_mapping.py).
 *
 * An unknown tensor in the file is an error: ignoring a weight could give wrong vectors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/encoder/encoder_load.h"

enum { LAYERS_MAX = 1024, WIDTH_MAX = 1 << 17, HEADS_MAX = 4096 };

/* The supported families of encoders. The models nomic-embed-text have the family nomic-bert, the models
 * jina-embeddings-v2 the family jina-bert-v2. The GELU of jina-bert-v2 is the tanh approximation. */
static const struct encoder_family families[] = {
	{ .name = "bert", .position = POSITION_LEARNED, .biases = 1 },
	{ .name = "nomic-bert", .position = POSITION_ROPE, .gated = 1, .act = ACT_SILU },
	{ .name = "jina-bert-v2", .position = POSITION_ALIBI, .gated = 1, .act = ACT_GELU, .biases = 1 },
	{ .name = "deberta-v2", .position = POSITION_RELATIVE, .biases = 1, .gelu_head = 1 },
};

/* ---- keys ---- */

struct key {
	char name[64];
};
/* Return the key "FAMILY.name". */
static struct key key_of(const struct encoder *e, const char *name)
{
	struct key k;

	snprintf(k.name, sizeof k.name, "%s.%s", e->family->name, name);
	return k;
}

int load_int(const struct encoder *e, const char *name, int64_t min, int64_t max, int32_t *out, struct err *err)
{
	struct key key = key_of(e, name);
	int64_t v;
	int got = gguf_int(e->gguf, key.name, min, max, &v, err);

	if (!got)
		return gguf_err(e->gguf, err, "'%s' is missing", key.name);
	*out = (int32_t)v;
	return got < 0 ? -1 : 0;
}

int load_float(const struct encoder *e, const char *name, double min, double max, double standard, double *out,
               struct err *err)
{
	struct key key = key_of(e, name);
	int got;

	*out = standard;
	got = gguf_float(e->gguf, key.name, out, err);
	if (got < 0)
		return -1;
	if (!(*out >= min && *out <= max))
		return gguf_err(e->gguf, err, "'%s' is %s, and must be %g to %g", key.name,
		                got ? "out of range" : "missing", min, max);
	return 0;
}

const struct encoder_family *encoder_family_of(const struct gguf *g, struct err *err)
{
	struct view name = { "", 0 };

	if (gguf_string(g, "general.architecture", &name, err) < 0)
		return NULL;
	for (size_t i = 0; i < LEN(families); i++)
		if (view_is(name, families[i].name))
			return &families[i];
	gguf_err(
		g, err,
		"'%.*s' is not a family of encoders that is supported (supported: bert, nomic-bert, jina-bert-v2, deberta-v2)",
		(int)(MIN(name.n, 40)), name.p);
	return NULL;
}

static int load_keys(struct encoder *e, struct err *err)
{
	const struct gguf *g = e->gguf;
	int32_t pooling = POOL_MEAN;
	struct view tokenizer = { "", 0 };
	int causal = 0;
	double eps;

	if (!(e->family = encoder_family_of(g, err)) || gguf_string(g, "general.name", &e->name, err) < 0 ||
	    gguf_string(g, "tokenizer.ggml.model", &tokenizer, err) < 0 ||
	    load_int(e, "block_count", 1, LAYERS_MAX, &e->n_layer, err) ||
	    load_int(e, "context_length", 1, 1 << 24, &e->trained, err) ||
	    load_int(e, "embedding_length", 1, WIDTH_MAX, &e->n_embd, err) ||
	    load_int(e, "feed_forward_length", 1, WIDTH_MAX, &e->n_ff, err) ||
	    load_int(e, "attention.head_count", 1, HEADS_MAX, &e->n_head, err) ||
	    (gguf_find(g, key_of(e, "pooling_type").name) && load_int(e, "pooling_type", 0, 4, &pooling, err)) ||
	    gguf_bool(g, key_of(e, "attention.causal").name, &causal, err) < 0 ||
	    load_float(e, "attention.layer_norm_epsilon", 1e-14, 0.1, NAN, &eps, err))
		return -1;
	if (causal)
		return gguf_err(g, err, "'%s' is true, which is not supported", key_of(e, "attention.causal").name);
	if (e->n_embd % e->n_head || (e->family->position == POSITION_ROPE && e->n_embd / e->n_head % 2))
		return gguf_err(g, err, "'%s' is %d, and must divide the embedding_length, %d%s",
		                key_of(e, "attention.head_count").name, e->n_head, e->n_embd,
		                e->family->position == POSITION_ROPE ? ", into even parts" : "");
	/* The converter writes no pooling_type for rerankers. They are recognised by this tensor, which only rerankers
	 * have. */
	if (gguf_tensor_find(g, "cls.output.weight"))
		pooling = POOL_RANK;
	if (pooling == POOL_NONE)
		return gguf_err(
			g, err,
			"'%s' is 0, and must be 1 (mean), 2 (first token), 3 (last token) or 4 (reranker) for one vector or score a text",
			key_of(e, "pooling_type").name);
	e->pairs_typed = pooling == POOL_RANK && view_is(tokenizer, "bert");
	e->longest = MIN(e->trained, (int32_t)ENCODER_BATCH);
	e->eps = (float)eps;
	e->pooling = (enum pooling)pooling;
	return 0;
}

/* ---- tensors ---- */

const struct gguf_tensor *load_find(struct loader *l, const char *prefix, const char *name, int32_t rows, int32_t cols)
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

/* Load rows row0 .. row0 + rows - 1 of a tensor to the backend, as a matrix. If `as_table` is 1, the matrix is an
 * embedding table, from which single rows are read. */
static void load_rows(struct loader *l, struct tensor *out, const struct gguf_tensor *t, int32_t row0, int32_t rows,
                      int as_table)
{
	if (!t || l->failed)
		return;
	*out = (struct tensor){ .type = t->type, .rows = rows, .cols = (int32_t)t->ne[0] };
	if (l->e->be->ops->load_weight(l->e->be, out,
	                               (const char *)t->data +
	                                       dtype_bytes(t->type, (uint64_t)row0 * (uint64_t)t->ne[0]),
	                               as_table))
		load_failed(l);
}

void load_alloc(struct loader *l, struct tensor *t, enum dtype type, int32_t rows, int32_t cols)
{
	*t = (struct tensor){ .type = type, .rows = rows, .cols = cols };
	if (!l->failed && l->e->be->ops->alloc(l->e->be, t))
		load_failed(l);
}

/* Load n values of a vector as f32, beginning with the value at index `from`. The parameter `all` is the number of
 * values that the vector must have in the file. */
static void load_vector_part(struct loader *l, struct tensor *out, const char *prefix, const char *name, int32_t from,
                             int32_t n, int32_t all)
{
	const struct gguf_tensor *t = load_find(l, prefix, name, 1, all);
	float *v;

	if (!t)
		return;
	load_alloc(l, out, DT_F32, 1, n);
	if (l->failed)
		return;
	v = xcalloc((size_t)all, sizeof *v);
	dtype_to_f32(t->type, v, t->data, all);
	l->e->be->ops->write(l->e->be, out, 0, v + from, (size_t)n * sizeof *v);
	free(v);
}

static void load_vector(struct loader *l, struct tensor *out, const char *prefix, const char *name, int32_t n)
{
	load_vector_part(l, out, prefix, name, 0, n, n);
}

static void load_norm(struct loader *l, struct encoder_norm *n, const char *prefix, const char *name)
{
	char full[40];

	snprintf(full, sizeof full, "%s.weight", name);
	load_vector(l, &n->w, prefix, full, l->e->n_embd);
	snprintf(full, sizeof full, "%s.bias", name);
	load_vector(l, &n->b, prefix, full, l->e->n_embd);
}

/* Load a matrix [rows][cols] and its bias. The tensor in the file may be `parts` such matrices, one below the other;
 * load the matrix with index `part`. If `parts` is 1, the tensor is the matrix itself. */
static void load_part(struct loader *l, struct encoder_linear *m, const char *prefix, const char *name, int32_t rows,
                      int32_t cols, int bias, int32_t part, int32_t parts)
{
	char full[40];

	snprintf(full, sizeof full, "%s.weight", name);
	load_rows(l, &m->w, load_find(l, prefix, full, rows * parts, cols), rows * part, rows, 0);
	snprintf(full, sizeof full, "%s.bias", name);
	if (bias)
		load_vector_part(l, &m->b, prefix, full, rows * part, rows, rows * parts);
}

static void load_linear(struct loader *l, struct encoder_linear *m, const char *prefix, const char *name, int32_t rows,
                        int32_t cols, int bias)
{
	load_part(l, m, prefix, name, rows, cols, bias, 0, 1);
}

int load_has(const struct loader *l, const char *prefix, const char *name)
{
	char full[80];

	snprintf(full, sizeof full, "%s%s", prefix, name);
	return gguf_tensor_find(l->e->gguf, full) != NULL;
}

/* Load the matrices of the feed-forward. A file may have `gate` and `up` as one tensor "ffn_up", in which the rows of
 * `gate` come first. */
static void load_feed_forward(struct loader *l, struct encoder_layer *y, const char *p)
{
	const struct encoder_family *f = l->e->family;
	int32_t n = l->e->n_embd, n_ff = l->e->n_ff;
	struct encoder_linear gate = { .w = { .rows = 0 } };
	int fused = f->gated && !load_has(l, p, "ffn_gate.weight");

	if (f->gated)
		load_part(l, &gate, p, fused ? "ffn_up" : "ffn_gate", n_ff, n, 0, 0, 1 + fused);
	y->gate = gate.w;
	load_part(l, &y->up, p, "ffn_up", n_ff, n, !f->gated, fused, 1 + fused);
	load_linear(l, &y->down, p, "ffn_down", n, n_ff, f->biases);
}

static void load_layer(struct loader *l, int32_t i)
{
	struct encoder_layer *y = &l->e->layer[i];
	struct encoder_linear *const qkv[] = { &y->q, &y->k, &y->v };
	static const char *const name[] = { "attn_q", "attn_k", "attn_v" };
	int32_t n = l->e->n_embd;
	int biases = l->e->family->biases, fused;
	char p[24];

	snprintf(p, sizeof p, "blk.%d.", i);
	fused = load_has(l, p, "attn_qkv.weight");
	for (int32_t k = 0; k < 3; k++)
		load_part(l, qkv[k], p, fused ? "attn_qkv" : name[k], n, n, biases, fused ? k : 0, fused ? 3 : 1);
	load_linear(l, &y->out, p, "attn_output", n, n, biases);
	load_norm(l, &y->attn_norm, p, "attn_output_norm");
	load_feed_forward(l, y, p);
	load_norm(l, &y->ffn_norm, p, "layer_output_norm");
}

/* Return the values of a tensor [rows][cols] as f32 in host memory, to be freed by the caller. Return NULL after an
 * error. */
static float *load_host(struct loader *l, const char *name, int32_t rows, int32_t cols)
{
	const struct gguf_tensor *t = load_find(l, "", name, rows, cols);
	float *v;

	if (!t)
		return NULL;
	v = xcalloc((size_t)rows * (size_t)cols, sizeof *v);
	dtype_to_f32(t->type, v, t->data, (int64_t)rows * cols);
	return v;
}

/* Load the head of a reranker. Refuse a file without cls.weight: its converter left out a layer that the score depends
 * on. */
static void load_ranker(struct loader *l)
{
	struct encoder_ranker *r = &l->e->ranker;
	int32_t n = l->e->n_embd;

	r->dense = load_host(l, "cls.weight", n, n);
	r->dense_bias = load_host(l, "cls.bias", 1, n);
	r->out = load_host(l, "cls.output.weight", 1, n);
	r->out_bias = load_host(l, "cls.output.bias", 1, 1);
	if (load_has(l, "", "reader.weight"))
		r->places = load_host(l, "reader.weight", 2, n);
}

static void load_buffers(struct loader *l)
{
	struct encoder *e = l->e;
	size_t rows;

	e->batch = ENCODER_BATCH;
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
	const struct gguf_tensor *t;

	if (load_keys(e, err))
		return -1;
	l.used = xcalloc((size_t)g->n_tensor + 1, 1);
	e->layer = xcalloc((size_t)e->n_layer, sizeof *e->layer);
	t = load_find(&l, "", "token_embd.weight", 0, e->n_embd);
	load_rows(&l, &e->embd, t, 0, t ? (int32_t)t->ne[1] : 0, 1);
	e->n_vocab = e->embd.rows;
	positions_load(&l);
	load_norm(&l, &e->embd_norm, "", "token_embd_norm");
	for (int32_t i = 0; i < e->n_layer; i++)
		load_layer(&l, i);
	if (e->pooling == POOL_RANK)
		load_ranker(&l);
	load_buffers(&l);
	position_tables_load(&l);
	for (uint64_t i = 0; i < g->n_tensor && !l.failed; i++)
		if (!l.used[i])
			l.failed = gguf_err(g, err, "byte %llu: tensor '%.*s' is not part of a %s model of %d layers",
			                    (unsigned long long)g->tensor[i].off, (int)g->tensor[i].name.n,
			                    g->tensor[i].name.p, e->family->name, e->n_layer);
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
	struct tensor *const all[] = { &e->embd,     &e->position, &e->embd_norm.w, &e->embd_norm.b, &e->x,
		                       &e->q,        &e->k,        &e->v,           &e->attn,        &e->hidden,
		                       &e->k_plane,  &e->v_plane,  &e->rope,        &e->rope_at,     &e->slots,
		                       &e->distance, &e->scores };

	for (size_t i = 0; i < LEN(all); i++)
		tensor_release(e, all[i]);
	for (int32_t i = 0; e->layer && i < e->n_layer; i++) {
		struct encoder_layer *l = &e->layer[i];
		struct tensor *const of[] = { &l->q.w,         &l->q.b,         &l->k.w,        &l->k.b,
			                      &l->v.w,         &l->v.b,         &l->out.w,      &l->out.b,
			                      &l->attn_norm.w, &l->attn_norm.b, &l->ffn_norm.w, &l->ffn_norm.b,
			                      &l->up.w,        &l->up.b,        &l->down.w,     &l->down.b,
			                      &l->gate,        &l->relative_k,  &l->relative_q };

		for (size_t k = 0; k < LEN(of); k++)
			tensor_release(e, of[k]);
	}
	free(e->layer);
	free(e->ranker.dense);
	free(e->ranker.dense_bias);
	free(e->ranker.out);
	free(e->ranker.out_bias);
	free(e->ranker.places);
	free(e->relative);
	free(e->id);
	free(e->at);
	free(e->host);
}
