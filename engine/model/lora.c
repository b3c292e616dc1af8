/* engine/model/lora.c - reads LoRA adapters (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models").
 *
 * For a weight matrix W [rows][cols] an adapter has two matrices, A [rank][cols] and B [rows][rank]. The model computes
 * with W + (scale * alpha / rank) B A. The product B A is not added to W, because W may be quantized. Instead, the
 * forward pass applies A and then B, which is cheap because rank is small. The factor (scale * alpha / rank) is
 * multiplied into B when the adapter is loaded. */
#include "engine/model/lora.h"
#include "engine/base/utf8.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/base.h"

enum { RANK_MOST = 1024 };

struct adapter {
	struct model *m;
	struct gguf *g;
	double factor; /* factor on the product of A and B: scale * alpha, or `scale` alone if the file has no alpha */
	int by_rank;   /* 1: for each matrix, `factor` is divided by the rank of the matrices A and B */
	struct err *err;
};

/* The matrices that an adapter can change. `at` is the offset of the matrix in struct layer, `target` the index in
 * layer.lora[]. */
static const struct {
	size_t at;
	enum lora_target target;
} targets[] = {
	{ offsetof(struct layer, wq), LORA_Q },      { offsetof(struct layer, wk), LORA_K },
	{ offsetof(struct layer, wv), LORA_V },      { offsetof(struct layer, wo), LORA_OUT },
	{ offsetof(struct layer, gate), LORA_GATE }, { offsetof(struct layer, up), LORA_UP },
	{ offsetof(struct layer, down), LORA_DOWN },
};

static int target_of(size_t at)
{
	for (size_t i = 0; i < LEN(targets); i++)
		if (targets[i].at == at)
			return targets[i].target;
	return -1;
}

/* Pass the f32 values v of the tensor `out` to the backend. If the backend copies the values, free v. */
static int load_values(struct adapter *a, struct tensor *out, float *v)
{
	struct model *m = a->m;

	if (m->be->ops->load_weight(m->be, out, v, 0)) {
		free(v);
		return err_set(a->err, ERR_FIT,
		               "cannot load the adapter '%s': %s; free some memory or use a smaller model", a->g->path,
		               m->be->err);
	}
	if (out->data != v) {
		free(v);
		return 0;
	}
	m->converted = xrealloc(m->converted, (m->n_converted + 1) * sizeof *m->converted);
	m->converted[m->n_converted++] = v;
	return 0;
}

/* Load `rows` rows of t, from row row0 on, into `out` as f32, multiplied by `factor`. */
static int load_rows(struct adapter *a, struct tensor *out, const struct gguf_tensor *t, int32_t row0, int32_t rows,
                     double factor)
{
	int32_t cols = (int32_t)t->ne[0];
	size_t n = (size_t)rows * (size_t)cols;
	const char *data = (const char *)t->data + (uint64_t)row0 * dtype_bytes(t->type, (uint64_t)cols);
	float *v;

	*out = (struct tensor){ .type = DT_F32, .rows = rows, .cols = cols };
	a->m->weight_bytes += n * sizeof *v;
	a->m->bytes_per_token += n * sizeof *v;
	if (!a->m->be)
		return 0;
	if (!(v = try_alloc(n, sizeof *v, "an adapter", a->err)))
		return -1;
	dtype_to_f32(t->type, v, data, (int64_t)n);
	for (size_t i = 0; i < n; i++)
		v[i] = (float)(factor * (double)v[i]);
	return load_values(a, out, v);
}

static int tensor_err(const struct adapter *a, const struct gguf_tensor *t, const char *why)
{
	return gguf_err(a->g, a->err, "byte %llu: tensor '%.*s' %s", (unsigned long long)t->off,
	                (int)(MIN(t->name.n, 80)), t->name.p, why);
}

/* If `name` has the form "blk.LAYER.NAME.lora_a", return LAYER and set *rest to NAME. Otherwise return -1. */
static int layer_of(struct view name, struct view *rest)
{
	static const char prefix[] = "blk.", suffix[] = ".lora_a";
	size_t p = sizeof prefix - 1, s = sizeof suffix - 1, i = p;
	int32_t layer = 0;

	if (name.n < p + s || memcmp(name.p, prefix, p) || memcmp(name.p + name.n - s, suffix, s))
		return -1;
	while (i < name.n && byte_is_digit(name.p[i]) && layer < 100000)
		layer = layer * 10 + (name.p[i++] - '0');
	if (i == p || i >= name.n - s || name.p[i] != '.')
		return -1;
	*rest = (struct view){ name.p + i + 1, name.n - s - i - 1 };
	return layer;
}

/* Return the matrix B that belongs by its name to matrix A (the tensor t), or NULL if the file does not have it. */
static const struct gguf_tensor *other_half(const struct adapter *a, const struct gguf_tensor *t)
{
	char name[128];

	if (t->name.n >= sizeof name)
		return NULL;
	snprintf(name, sizeof name, "%.*sb", (int)t->name.n - 1, t->name.p);
	return gguf_tensor_find(a->g, name);
}

/* Load matrix A (the tensor t) and matrix B of the adapter. They change one matrix of the model, whose rows may be
 * divided among several tensors of struct layer (QKV). Each of these tensors then gets all of A, and the rows of B for
 * its own rows. */
static int load_pair(struct adapter *a, const struct gguf_tensor *t)
{
	struct view name;
	int32_t layer = layer_of(t->name, &name), rows, cols, row0 = 0, rank;
	const struct gguf_tensor *b = other_half(a, t);
	size_t at;
	double factor;

	if (layer < 0 || layer >= a->m->hp.n_layer || !model_matrix(a->m, layer, name, 0, &at, &rows, &cols))
		return tensor_err(a, t, "changes what is no matrix of this model's layers");
	if (!b)
		return tensor_err(a, t, "has no second half, '.lora_b'");
	if (t->ne[1] < 1 || t->ne[1] > RANK_MOST || t->ne[0] != cols || t->ne[2] != 1 || t->ne[3] != 1)
		return tensor_err(a, t, "is of another shape than the model's matrix asks for");
	rank = (int32_t)t->ne[1];
	factor = a->by_rank ? a->factor / rank : a->factor;
	if (rank > a->m->hp.lora_rank)
		a->m->hp.lora_rank = rank;
	for (int part = 0; model_matrix(a->m, layer, name, part, &at, &rows, &cols); part++, row0 += rows) {
		int target = target_of(at);
		struct lora *l = target < 0 ? NULL : &a->m->layer[layer].lora[target];

		if (!l || (target >= LORA_GATE && model_layer_spec(&a->m->hp, layer)->ffn.dense))
			return tensor_err(
				a, t,
				"changes a matrix that adapters cannot change here; they can those of attention and of dense feed-forwards");
		if (b->ne[0] != rank || b->ne[1] < row0 + rows || b->ne[2] != 1 || b->ne[3] != 1)
			return tensor_err(a, b, "is of another shape than the model's matrix asks for");
		if (load_rows(a, &l->a, t, 0, rank, 1) || load_rows(a, &l->b, b, row0, rows, factor))
			return -1;
	}
	return b->ne[1] == row0 ? 0 : tensor_err(a, b, "is of another shape than the model's matrix asks for");
}

static int ends_with(struct view v, const char *end)
{
	size_t n = strlen(end);

	return v.n >= n && !memcmp(v.p + v.n - n, end, n);
}

/* Check that the file is an adapter for the model's family. Compute a->factor, by which the adapter's matrices B are
 * multiplied when they are loaded (load_pair()). */
static int read_keys(struct adapter *a, double scale)
{
	struct view type = { "", 0 }, kind = { "", 0 }, arch = { "", 0 };
	double alpha = 0;

	if (gguf_string(a->g, "general.type", &type, a->err) < 0 ||
	    gguf_string(a->g, "adapter.type", &kind, a->err) < 0 ||
	    gguf_string(a->g, "general.architecture", &arch, a->err) < 0 ||
	    gguf_float(a->g, "adapter.lora.alpha", &alpha, a->err) < 0)
		return -1;
	if (!view_is(type, "adapter") || !view_is(kind, "lora"))
		return gguf_err(a->g, a->err, "it is no LoRA adapter%s",
		                type.n && !view_is(type, "model") ? "" : "; -m opens models");
	if (!view_is(arch, a->m->hp.arch->name))
		return gguf_err(a->g, a->err, "the adapter is for a model of the family '%.*s', this one is '%s'",
		                (int)(MIN(arch.n, 40)), arch.p, a->m->hp.arch->name);
	if (!(alpha >= 0 && alpha <= 1e6))
		return gguf_err(a->g, a->err, "'adapter.lora.alpha' is %g", alpha);
	a->by_rank = alpha > 0;
	a->factor = alpha > 0 ? alpha * scale : scale;
	return 0;
}

static int load_all(struct adapter *a, double scale)
{
	struct model *m = a->m;

	if (read_keys(a, scale))
		return -1;
	if (!a->g->n_tensor)
		return gguf_err(a->g, a->err, "the adapter changes nothing");
	m->lora_hash = hash64(0, &scale, sizeof scale);
	m->lora_hash = hash64(m->lora_hash, &a->factor, sizeof a->factor);
	for (uint64_t i = 0; i < a->g->n_tensor; i++) {
		const struct gguf_tensor *t = &a->g->tensor[i];
		const struct gguf_tensor *b = ends_with(t->name, ".lora_a") ? t : NULL;

		m->lora_hash = hash64(m->lora_hash, t->name.p, t->name.n);
		m->lora_hash = hash64(m->lora_hash, t->data, (size_t)t->bytes);
		if (b                                ? load_pair(a, t)
		    : !ends_with(t->name, ".lora_b") ? tensor_err(a, t, "is no part of a LoRA adapter")
		                                     : 0)
			return -1;
	}
	return 0;
}

int lora_load(struct model *m, const char *path, double scale, struct err *err)
{
	struct adapter a = { .m = m, .err = err };
	int rc;

	if (gguf_open_file(&a.g, path, err))
		return -1;
	rc = gguf_check_weights(a.g, err) || load_all(&a, scale) ? -1 : 0;
	gguf_close(a.g);
	return rc;
}

void lora_release(struct model *m, struct layer *l)
{
	for (int i = 0; i < LORA_TARGETS; i++) {
		if (l->lora[i].a.data)
			m->be->ops->drop(m->be, &l->lora[i].a);
		if (l->lora[i].b.data)
			m->be->ops->drop(m->be, &l->lora[i].b);
	}
}
