/* engine/model/weights.c - binds the weights of a model: checks names and shapes, and passes the data to the backend.
 *
 * It is an error if the forward pass would not use a tensor. Otherwise a model of an unknown variant would load, and
 * would be computed wrongly. */
#include "engine/model/weights.h"
#include "engine/model/lora.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors of a layer ---- */

/* Numbers of rows or columns that depend on the model. size_of() computes them. */
enum size {
	SIZE_NONE,
	SIZE_ONE,
	SIZE_EMBD,
	SIZE_Q,
	SIZE_KV,
	SIZE_Q_NORM,
	SIZE_K_NORM,
	SIZE_FFN,
	SIZE_HEADS,
	SIZE_EXPERTS,
	SIZE_TAPS,
	SIZE_CONV_IN,
	SIZE_ROW,
	SIZE_Q_GATED,
	SIZE_CONV,
	SIZE_MIXED,
	SIZE_VALUE_HEADS,
	SIZE_VALUE,
	SIZE_SHARED,
	SIZE_BETA_ALPHA,
	SIZE_DENSE,
	SIZE_INPUT
};
enum { PARTS = 3 };

static const struct weight_def {
	const char *name; /* the tensor's name after "blk.LAYER." */
	enum size cols;
	/* the members of struct layer among which the tensor's rows are divided, in this order */
	struct {
		size_t at;      /* offset in struct layer */
		enum size rows; /* number of rows; SIZE_ONE if the part is a vector (a norm or a bias) */
	} part[PARTS];
	/* 1: the tensor has a matrix or a bias for each expert; part[].at is then an offset in struct expert */
	int stacked;
	int values; /* 1: the values are converted to f32, whatever their type in the file */
	int number; /* 1: the tensor is one number; part[0].at is then the offset of a float */
} layer_tensors[LAYER_TENSORS] = {
#define FIELD(name) offsetof(struct layer, name)
	[TENSOR_ATTN_NORM] = { "attn_norm.weight", SIZE_EMBD, { { FIELD(attn_norm), SIZE_ONE } } },
	[TENSOR_Q] = { "attn_q.weight", SIZE_EMBD, { { FIELD(wq), SIZE_Q_GATED } } },
	[TENSOR_K] = { "attn_k.weight", SIZE_EMBD, { { FIELD(wk), SIZE_KV } } },
	[TENSOR_V] = { "attn_v.weight", SIZE_EMBD, { { FIELD(wv), SIZE_KV } } },
	[TENSOR_Q_BIAS] = { "attn_q.bias", SIZE_Q, { { FIELD(bq), SIZE_ONE } } },
	[TENSOR_K_BIAS] = { "attn_k.bias", SIZE_KV, { { FIELD(bk), SIZE_ONE } } },
	[TENSOR_V_BIAS] = { "attn_v.bias", SIZE_KV, { { FIELD(bv), SIZE_ONE } } },
	[TENSOR_Q_NORM] = { "attn_q_norm.weight", SIZE_Q_NORM, { { FIELD(q_norm), SIZE_ONE } } },
	[TENSOR_K_NORM] = { "attn_k_norm.weight", SIZE_K_NORM, { { FIELD(k_norm), SIZE_ONE } } },
	[TENSOR_ATTN_OUT] = { "attn_output.weight", SIZE_Q, { { FIELD(wo), SIZE_EMBD } } },
	[TENSOR_ATTN_OUT_BIAS] = { "attn_output.bias", SIZE_EMBD, { { FIELD(bo), SIZE_ONE } } },
	[TENSOR_ATTN_POST_NORM] = { "post_attention_norm.weight", SIZE_EMBD, { { FIELD(attn_post_norm), SIZE_ONE } } },
	[TENSOR_FFN_NORM] = { "ffn_norm.weight", SIZE_EMBD, { { FIELD(ffn_norm), SIZE_ONE } } },
	[TENSOR_GATE] = { "ffn_gate.weight", SIZE_EMBD, { { FIELD(gate), SIZE_DENSE } } },
	[TENSOR_UP] = { "ffn_up.weight", SIZE_EMBD, { { FIELD(up), SIZE_DENSE } } },
	[TENSOR_DOWN] = { "ffn_down.weight", SIZE_DENSE, { { FIELD(down), SIZE_EMBD } } },
	[TENSOR_FFN_POST_NORM] = { "post_ffw_norm.weight", SIZE_EMBD, { { FIELD(ffn_post_norm), SIZE_ONE } } },
	[TENSOR_QKV] = { "attn_qkv.weight",
	                 SIZE_EMBD,
	                 { { FIELD(wq), SIZE_Q }, { FIELD(wk), SIZE_KV }, { FIELD(wv), SIZE_KV } } },
	[TENSOR_GATE_UP] = { "ffn_up.weight", SIZE_EMBD, { { FIELD(gate), SIZE_FFN }, { FIELD(up), SIZE_FFN } } },
	[TENSOR_SINKS] = { "attn_sinks.weight", SIZE_HEADS, { { FIELD(sinks), SIZE_ONE } } },
	[TENSOR_POST_ATTN_FFN_NORM] = { "post_attention_norm.weight", SIZE_EMBD, { { FIELD(ffn_norm), SIZE_ONE } } },
	[TENSOR_ROUTER] = { "ffn_gate_inp.weight", SIZE_EMBD, { { FIELD(router), SIZE_EXPERTS } } },
	[TENSOR_PROBS_BIAS] = { "exp_probs_b.bias", SIZE_EXPERTS, { { FIELD(probs_bias), SIZE_ONE } } },
	[TENSOR_CONV_IN] = { "shortconv.in_proj.weight", SIZE_EMBD, { { FIELD(conv_in), SIZE_CONV_IN } } },
	[TENSOR_CONV] = { "shortconv.conv.weight", SIZE_TAPS, { { FIELD(conv), SIZE_EMBD } }, .values = 1 },
	[TENSOR_DELTA_IN] = { "attn_qkv.weight", SIZE_EMBD, { { FIELD(delta_in), SIZE_CONV } } },
	[TENSOR_DELTA_GATE] = { "attn_gate.weight", SIZE_EMBD, { { FIELD(delta_gate), SIZE_MIXED } } },
	[TENSOR_DELTA_CONV] = { "ssm_conv1d.weight", SIZE_TAPS, { { FIELD(conv), SIZE_CONV } }, .values = 1 },
	[TENSOR_DELTA_ALPHA] = { "ssm_alpha.weight", SIZE_EMBD, { { FIELD(delta_alpha), SIZE_VALUE_HEADS } } },
	[TENSOR_DELTA_BETA] = { "ssm_beta.weight", SIZE_EMBD, { { FIELD(delta_beta), SIZE_VALUE_HEADS } } },
	[TENSOR_SPACE_IN] = { "ssm_in.weight",
	                      SIZE_EMBD,
	                      { { FIELD(delta_gate), SIZE_MIXED },
	                        { FIELD(delta_in), SIZE_CONV },
	                        { FIELD(delta_alpha), SIZE_VALUE_HEADS } } },
	[TENSOR_SPACE_CONV_BIAS] = { "ssm_conv1d.bias", SIZE_CONV, { { FIELD(conv_bias), SIZE_ONE } } },
	[TENSOR_SPACE_DECAY] = { "ssm_a", SIZE_ROW, { { FIELD(delta_decay), SIZE_VALUE_HEADS } }, .values = 1 },
	[TENSOR_SPACE_SKIP] = { "ssm_d", SIZE_ROW, { { FIELD(space_skip), SIZE_VALUE_HEADS } }, .values = 1 },
	[TENSOR_SPACE_NORM] = { "ssm_norm.weight", SIZE_MIXED, { { FIELD(delta_norm), SIZE_ONE } } },
	[TENSOR_DELTA_BETA_ALPHA] = { "ssm_ba.weight", SIZE_EMBD, { { FIELD(delta_beta_alpha), SIZE_BETA_ALPHA } } },
	[TENSOR_DELTA_DT] = { "ssm_dt.bias", SIZE_VALUE_HEADS, { { FIELD(delta_dt), SIZE_ONE } } },
	[TENSOR_DELTA_DECAY] = { "ssm_a", SIZE_VALUE_HEADS, { { FIELD(delta_decay), SIZE_ONE } } },
	[TENSOR_DELTA_NORM] = { "ssm_norm.weight", SIZE_VALUE, { { FIELD(delta_norm), SIZE_ONE } } },
	[TENSOR_DELTA_OUT] = { "ssm_out.weight", SIZE_MIXED, { { FIELD(delta_out), SIZE_EMBD } } },
	[TENSOR_SHARED_GATE] = { "ffn_gate_shexp.weight", SIZE_EMBD, { { FIELD(shared_gate), SIZE_SHARED } } },
	[TENSOR_SHARED_UP] = { "ffn_up_shexp.weight", SIZE_EMBD, { { FIELD(shared_up), SIZE_SHARED } } },
	[TENSOR_SHARED_DOWN] = { "ffn_down_shexp.weight", SIZE_SHARED, { { FIELD(shared_down), SIZE_EMBD } } },
	[TENSOR_SHARED_ROUTER] = { "ffn_gate_inp_shexp.weight", SIZE_EMBD, { { FIELD(shared_router), SIZE_ROW } } },
	[TENSOR_CONV_OUT] = { "shortconv.out_proj.weight", SIZE_EMBD, { { FIELD(conv_out), SIZE_EMBD } } },
	[TENSOR_ROUTER_SCALE] = { "ffn_gate_inp.scale", SIZE_EMBD, { { FIELD(router_scale), SIZE_ONE } } },
	[TENSOR_EXPERT_SCALES] = { "ffn_down_exps.scale", SIZE_EXPERTS, { { FIELD(expert_scales), SIZE_ONE } } },
	[TENSOR_DENSE_POST_NORM] = { "post_ffw_norm_1.weight", SIZE_EMBD, { { FIELD(dense_post_norm), SIZE_ONE } } },
	[TENSOR_EXPERTS_NORM] = { "pre_ffw_norm_2.weight", SIZE_EMBD, { { FIELD(experts_norm), SIZE_ONE } } },
	[TENSOR_EXPERTS_POST_NORM] = { "post_ffw_norm_2.weight",
	                               SIZE_EMBD,
	                               { { FIELD(experts_post_norm), SIZE_ONE } } },
	[TENSOR_OUT_SCALE] = { "layer_output_scale.weight", SIZE_ROW, { { FIELD(out_scale), SIZE_ONE } }, .number = 1 },
	[TENSOR_INPUT_GATE] = { "inp_gate.weight", SIZE_EMBD, { { FIELD(input_gate), SIZE_INPUT } } },
	[TENSOR_INPUT_OUT] = { "proj.weight", SIZE_INPUT, { { FIELD(input_out), SIZE_EMBD } } },
	[TENSOR_INPUT_NORM] = { "post_norm.weight", SIZE_EMBD, { { FIELD(input_norm), SIZE_ONE } } },
	[TENSOR_ROUTER_BIAS] = { "ffn_gate_inp.bias", SIZE_EXPERTS, { { FIELD(router_bias), SIZE_ONE } } },
#undef FIELD
#define FIELD(name) offsetof(struct expert, name)
	[TENSOR_GATE_EXPS] = { "ffn_gate_exps.weight", SIZE_EMBD, { { FIELD(gate), SIZE_FFN } }, 1 },
	[TENSOR_UP_EXPS] = { "ffn_up_exps.weight", SIZE_EMBD, { { FIELD(up), SIZE_FFN } }, 1 },
	[TENSOR_GATE_UP_EXPS] = { "ffn_gate_up_exps.weight",
	                          SIZE_EMBD,
	                          { { FIELD(gate), SIZE_FFN }, { FIELD(up), SIZE_FFN } },
	                          1 },
	[TENSOR_DOWN_EXPS] = { "ffn_down_exps.weight", SIZE_FFN, { { FIELD(down), SIZE_EMBD } }, 1 },
	[TENSOR_GATE_EXPS_BIAS] = { "ffn_gate_exps.bias", SIZE_FFN, { { FIELD(gate_bias), SIZE_ONE } }, 1 },
	[TENSOR_UP_EXPS_BIAS] = { "ffn_up_exps.bias", SIZE_FFN, { { FIELD(up_bias), SIZE_ONE } }, 1 },
	[TENSOR_DOWN_EXPS_BIAS] = { "ffn_down_exps.bias", SIZE_EMBD, { { FIELD(down_bias), SIZE_ONE } }, 1 },
#undef FIELD
};

static int32_t size_of(const struct hparams *hp, const struct layer_spec *s, enum size size)
{
	const struct attn_spec *a = &s->attn;
	int32_t layer = (int32_t)(s - hp->spec);

	switch (size) {
	case SIZE_NONE: return 0;
	case SIZE_EMBD: return hp->n_embd;
	case SIZE_Q: return a->n_head * a->head_dim;
	case SIZE_KV: return a->n_kv_head * a->head_dim;
	case SIZE_Q_NORM: return a->qk_norm_whole ? a->n_head * a->head_dim : a->head_dim;
	case SIZE_K_NORM: return a->qk_norm_whole ? a->n_kv_head * a->head_dim : a->head_dim;
	case SIZE_FFN: return s->ffn.width;
	case SIZE_DENSE: return s->ffn.dense ? s->ffn.dense : s->ffn.width;
	case SIZE_INPUT: return hp->n_input;
	case SIZE_HEADS: return a->n_head;
	case SIZE_EXPERTS: return s->ffn.n_expert;
	case SIZE_TAPS: return a->taps;
	case SIZE_Q_GATED: return a->n_head * a->head_dim * (a->gated ? 2 : 1);
	case SIZE_CONV: return layer_conv(hp, layer);
	case SIZE_MIXED: return layer_mixed(hp, layer);
	case SIZE_VALUE_HEADS: return a->n_value_head;
	case SIZE_BETA_ALPHA: return 2 * a->n_value_head;
	case SIZE_VALUE: return a->value_dim;
	case SIZE_SHARED: return s->ffn.shared;
	case SIZE_CONV_IN: return 3 * hp->n_embd;
	default: return 1;
	}
}

static struct tensor *tensor_at(void *in, size_t at)
{
	return (struct tensor *)(void *)((char *)in + at);
}

/* ---- binding ---- */

struct binder {
	struct model *m;
	struct gguf *g;
	const struct bind_watch *watch;
	struct err *err;
	uint8_t *used; /* [n_tensor] 1: bind_find() has returned the tensor */
	int failed;
};

/* Return the tensor 'name', or 'blk.LAYER.name' if layer >= 0, and check that its shape is [rows][cols]. If n_expert >
 * 0, the shape must be [n_expert][rows][cols], or [n_expert][cols] if rows = 1. If the tensor is missing, return NULL.
 * If a tensor that is not optional is missing, or the tensor has a wrong shape, return NULL and set `failed`. */
static const struct gguf_tensor *bind_find(struct binder *b, int32_t layer, const char *name, int32_t n_expert,
                                           int32_t rows, int32_t cols, int optional)
{
	const struct gguf_tensor *t;
	int64_t planes = n_expert > 0 && rows > 1 ? n_expert : 1;
	char full[80];

	if (n_expert > 0 && rows == 1)
		rows = n_expert;

	if (b->failed)
		return NULL;
	if (layer >= 0)
		snprintf(full, sizeof full, "blk.%d.%s", layer, name);
	else
		snprintf(full, sizeof full, "%s", name);
	t = gguf_tensor_find(b->g, full);
	if (!t) {
		if (!optional)
			b->failed = gguf_err(b->g, b->err, "tensor '%s' is missing", full);
		return NULL;
	}
	b->used[t - b->g->tensor] = 1;
	if (t->ne[0] != cols || t->ne[1] < rows || t->ne[2] != planes || t->ne[3] != 1 ||
	    /* A matrix outside of the layers may have more rows than the given number, because the embedding may have
	     * more rows than the vocabulary has tokens. All other tensors must have exactly this shape. */
	    (t->ne[1] != rows && (layer >= 0 || rows == 1))) {
		b->failed = gguf_err(
			b->g, b->err,
			"byte %llu: tensor '%s' has the shape %lld x %lld x %lld x %lld, and must have %d x %d x %lld",
			(unsigned long long)t->off, full, (long long)t->ne[0], (long long)t->ne[1], (long long)t->ne[2],
			(long long)t->ne[3], cols, rows, (long long)planes);
		return NULL;
	}
	return t;
}

/* Return the size of a tensor after loading, in bytes. Loading converts ternary types to Q2_K. */
static uint64_t bytes_loaded(const struct gguf_tensor *t)
{
	return dtype_ternary(t->type) ? dtype_bytes(DT_Q2_K, (uint64_t)(t->ne[0] * t->ne[1] * t->ne[2])) : t->bytes;
}

/* Add a tensor to the model's counts of bytes and weights. times_read is how many times the computation of one token
 * reads the whole tensor. */
static void bind_count(struct binder *b, const struct gguf_tensor *t, uint64_t times_read)
{
	b->m->weight_bytes += bytes_loaded(t);
	b->m->n_params += (uint64_t)(t->ne[0] * t->ne[1] * t->ne[2]);
	b->m->bytes_per_token += bytes_loaded(t) * times_read;
}

/* Count a tensor that has the matrices of all experts. One token reads n_used / n_expert of its bytes. */
static void bind_count_expert(struct binder *b, const struct gguf_tensor *t, const struct ffn_spec *f)
{
	bind_count(b, t, 0);
	b->m->bytes_per_token += bytes_loaded(t) / (uint64_t)f->n_expert * (uint64_t)f->n_used;
}

static void bind_no_room(struct binder *b, const struct gguf_tensor *t)
{
	b->failed =
		err_set(b->err, ERR_FIT, "cannot load the weights '%.*s': %s; free some memory or use a smaller model",
	                (int)t->name.n, t->name.p, b->m->be->err);
}

/* Convert n ternary weights to Q2_K, and return them in new memory. If memory is exhausted, set `failed` and return
 * NULL. */
static void *bind_convert(struct binder *b, const struct gguf_tensor *t, const char *data, int64_t n)
{
	void *to = try_alloc((size_t)dtype_bytes(DT_Q2_K, (uint64_t)n), 1, "ternary weights", b->err);

	if (to)
		dtype_ternary_to_q2_k(t->type, to, data, n);
	else
		b->failed = -1;
	return to;
}

/* Pass `rows` rows of t, from row row0 on, to the backend, as the tensor `out`. If as_table is 1, `out` is a table from
 * which the forward pass reads single rows. */
static void bind_adopt(struct binder *b, struct tensor *out, const struct gguf_tensor *t, int32_t row0, int32_t rows,
                       int as_table)
{
	struct backend *be = b->m->be;
	void *converted = NULL;
	int failed;
	const char *data = (const char *)t->data + (uint64_t)row0 * dtype_bytes(t->type, (uint64_t)t->ne[0]);

	*out = (struct tensor){ .type = t->type, .rows = rows, .cols = (int32_t)t->ne[0] };
	if (!be)
		return;
	if (be->host_read && !as_table)
		gguf_read_ahead(b->g, data, dtype_bytes(t->type, (uint64_t)t->ne[0]) * (uint64_t)rows);
	if (dtype_ternary(t->type)) {
		out->type = DT_Q2_K;
		converted = bind_convert(b, t, data, (int64_t)rows * t->ne[0]);
		if (!converted)
			return;
		if (be->host_read)
			be->host_read(data, dtype_bytes(t->type, (uint64_t)t->ne[0]) * (uint64_t)rows,
			              be->host_read_ud);
		data = converted;
	}
	failed = be->ops->load_weight(be, out, data, as_table);
	if (converted && (failed || out->data != converted)) {
		free(converted);
	} else if (converted) {
		b->m->converted = xrealloc(b->m->converted, (b->m->n_converted + 1) * sizeof *b->m->converted);
		b->m->converted[b->m->n_converted++] = converted;
	}
	if (failed)
		bind_no_room(b, t);
	else if (b->watch && b->watch->fn)
		b->watch->fn(b->m->weight_bytes, b->watch->total, b->watch->ud);
}

/* Copy values to the backend as f32. This is used for norms, biases and convolutions, which are small. */
static void bind_values(struct binder *b, struct tensor *out, const struct gguf_tensor *t, const void *data,
                        int32_t rows, int32_t cols)
{
	struct backend *be = b->m->be;
	int64_t n = (int64_t)rows * cols;
	float *v;

	*out = (struct tensor){ .type = DT_F32, .rows = rows, .cols = cols };
	if (!be)
		return;
	if (be->ops->alloc(be, out)) {
		bind_no_room(b, t);
		return;
	}
	if (!(v = try_alloc((size_t)n, sizeof *v, "a norm or bias", b->err))) {
		b->failed = -1;
		return;
	}
	dtype_to_f32(t->type, v, data, n);
	be->ops->write(be, out, 0, v, (size_t)n * sizeof *v);
	free(v);
}

/* Make a vector of n ones: the weights of a norm that has none in the file. */
static void bind_ones(struct binder *b, struct tensor *out, int32_t n)
{
	struct backend *be = b->m->be;
	float *v;

	*out = (struct tensor){ .type = DT_F32, .rows = 1, .cols = n };
	if (!be || b->failed)
		return;
	if (be->ops->alloc(be, out)) {
		b->failed = err_set(b->err, ERR_FIT, "cannot load the weights: %s", be->err);
		return;
	}
	v = xcalloc((size_t)n, sizeof *v);
	for (int32_t i = 0; i < n; i++)
		v[i] = 1;
	be->ops->write(be, out, 0, v, (size_t)n * sizeof *v);
	free(v);
}

static void bind_number(struct binder *b, float *out, int32_t layer, const char *name, int optional)
{
	const struct gguf_tensor *t = bind_find(b, layer, name, 0, 1, 1, optional);

	if (t && t->type != DT_F32)
		b->failed = gguf_err(b->g, b->err, "byte %llu: tensor '%.*s' must be of F32",
		                     (unsigned long long)t->off, (int)t->name.n, t->name.p);
	else if (t)
		memcpy(out, t->data, sizeof *out);
}

static void bind_vector(struct binder *b, struct tensor *out, int32_t layer, const char *name, int32_t n, int optional)
{
	const struct gguf_tensor *t = bind_find(b, layer, name, 0, 1, n, optional);

	if (!t)
		return;
	bind_count(b, t, 1);
	bind_values(b, out, t, t->data, 1, n);
}

/* Bind tensor d of layer i, which consists of one matrix, or of several matrices whose rows follow one another in the
 * file. */
static void bind_matrices(struct binder *b, int32_t i, const struct weight_def *d, int optional)
{
	const struct hparams *hp = &b->m->hp;
	const struct layer_spec *s = model_layer_spec(hp, i);
	const struct gguf_tensor *t;
	int32_t rows[PARTS], all = 0, row0 = 0;

	for (int p = 0; p < PARTS; p++)
		all += rows[p] = size_of(hp, s, d->part[p].rows);
	if (!(t = bind_find(b, i, d->name, 0, all, size_of(hp, s, d->cols), optional)))
		return;
	bind_count(b, t, 1);
	if (d->values) {
		bind_values(b, tensor_at(&b->m->layer[i], d->part[0].at), t, t->data, rows[0], size_of(hp, s, d->cols));
		return;
	}
	for (int p = 0; p < PARTS && rows[p] && !b->failed; row0 += rows[p++])
		bind_adopt(b, tensor_at(&b->m->layer[i], d->part[p].at), t, row0, rows[p], 0);
}

/* Bind tensor d of layer i, which has a matrix or a bias for each expert. */
static void bind_experts(struct binder *b, int32_t i, const struct weight_def *d, int optional)
{
	const struct hparams *hp = &b->m->hp;
	const struct layer_spec *s = model_layer_spec(hp, i);
	int32_t rows[PARTS], all = 0, cols = size_of(hp, s, d->cols), n = s->ffn.n_expert;
	struct layer *l = &b->m->layer[i];
	const struct gguf_tensor *t;

	for (int p = 0; p < PARTS; p++)
		all += rows[p] = size_of(hp, s, d->part[p].rows);
	t = bind_find(b, i, d->name, n, all, cols, optional);

	if (!t)
		return;
	bind_count_expert(b, t, &s->ffn);
	if (!l->expert)
		l->expert = xcalloc((size_t)n, sizeof *l->expert);
	for (int32_t e = 0; e < n && !b->failed; e++) {
		int32_t row0 = e * all;

		if (all == 1)
			bind_values(b, tensor_at(&l->expert[e], d->part[0].at), t,
			            (const char *)t->data + (uint64_t)e * dtype_bytes(t->type, (uint64_t)cols), 1,
			            cols);
		for (int p = 0; p < PARTS && all > 1 && rows[p] && !b->failed; row0 += rows[p++])
			bind_adopt(b, tensor_at(&l->expert[e], d->part[p].at), t, row0, rows[p], 0);
	}
}

/* Prepare the backend for the experts of a layer, all of whose tensors are bound. */
static void bind_table(struct binder *b, int32_t i)
{
	struct layer *l = &b->m->layer[i];
	struct backend *be = b->m->be;

	if (l->expert && be && !b->failed &&
	    be->ops->expert_table(be, &l->expert_table, l->expert, model_layer_spec(&b->m->hp, i)->ffn.n_expert))
		b->failed = err_set(b->err, ERR_FIT, "cannot load the weights: %s", be->err);
}

static void bind_layer(struct binder *b, int32_t i)
{
	const struct hparams *hp = &b->m->hp;
	const struct layer_spec *s = model_layer_spec(hp, i);

	b->m->layer[i].out_scale = 1;
	if (s->attn.v_norm && !s->attn.borrows)
		bind_ones(b, &b->m->layer[i].v_norm, s->attn.head_dim);
	for (int t = 0; t < LAYER_TENSORS; t++) {
		const struct weight_def *d = &layer_tensors[t];
		int optional = !(s->required & TENSOR_BIT(t));

		if (optional && !(s->optional & TENSOR_BIT(t)))
			continue;
		if (d->stacked)
			bind_experts(b, i, d, optional);
		else if (d->number)
			bind_number(b, (float *)(void *)((char *)&b->m->layer[i] + d->part[0].at), i, d->name,
			            optional);
		else if (d->part[0].rows == SIZE_ONE)
			bind_vector(b, tensor_at(&b->m->layer[i], d->part[0].at), i, d->name, size_of(hp, s, d->cols),
			            optional);
		else
			bind_matrices(b, i, d, optional);
	}
	bind_table(b, i);
}

/* 1 if the tensor needs no binding. These are:
 * - RoPE factors, which rope_freqs.c reads;
 * - all tensors of unused layers (hparams.n_unused);
 * - tables of RoPE angles in old files;
 * - weights for keys and values, in layers that read another layer's KV entries instead. */
static int is_redundant(const struct model *m, const struct gguf_tensor *t)
{
	char layer[24];
	static const char *const borrowed[] = { "attn_k.weight", "attn_v.weight", "attn_k_norm.weight" };
	static const char *const suffix[] = { ".attn_rot_embd.weight", ".rotary_emb.inv_freq" };

	if (view_is(t->name, ROPE_FACTORS) || view_is(t->name, ROPE_FACTORS_SHORT) ||
	    view_is(t->name, ROPE_FACTORS_LONG))
		return 1;
	for (int32_t i = m->hp.n_layer; i < m->hp.n_layer + m->hp.n_unused; i++) {
		snprintf(layer, sizeof layer, "blk.%d.", i);
		if (t->name.n >= strlen(layer) && !memcmp(t->name.p, layer, strlen(layer)))
			return 1;
	}
	for (int32_t i = layers_with_entries(&m->hp); i < m->hp.n_layer; i++)
		for (size_t k = 0; k < LEN(borrowed); k++) {
			char name[48];

			snprintf(name, sizeof name, "blk.%d.%s", i, borrowed[k]);
			if (view_is(t->name, name))
				return 1;
		}
	for (size_t i = 0; i < LEN(suffix); i++) {
		size_t n = strlen(suffix[i]);
		if (t->name.n >= n && !memcmp(t->name.p + t->name.n - n, suffix[i], n))
			return 1;
	}
	return 0;
}

/* Bind the tensors from which per-layer inputs are computed. */
static void bind_inputs(struct binder *b)
{
	struct model *m = b->m;
	int32_t cols = m->hp.n_layer * m->hp.n_input;
	const struct gguf_tensor *embd = bind_find(b, -1, "per_layer_token_embd.weight", 0, m->hp.n_vocab, cols, 0);
	const struct gguf_tensor *in = bind_find(b, -1, "per_layer_model_proj.weight", 0, cols, m->hp.n_embd, 0);

	bind_vector(b, &m->input_norm, -1, "per_layer_proj_norm.weight", m->hp.n_input, 0);
	if (b->failed)
		return;
	bind_count(b, embd, 0);
	bind_adopt(b, &m->input_embd, embd, 0, m->hp.n_vocab, 1);
	bind_count(b, in, 1);
	bind_adopt(b, &m->input_in, in, 0, cols, 0);
}

int model_bind(struct model *m, struct gguf *g, struct backend *be, const struct bind_watch *watch, struct err *err)
{
	struct binder b = { .m = m, .g = g, .watch = watch, .err = err };
	const struct gguf_tensor *embd, *out;
	const char *out_norm;
	int32_t rows = m->hp.n_vocab, cols = m->hp.n_embd;

	*m = (struct model){ .hp = m->hp, .be = be };
	m->layer = xcalloc((size_t)m->hp.n_layer, sizeof *m->layer);
	if (!g->n_tensor)
		return gguf_err(
			g, err,
			"it holds a vocabulary and no weights; 'weir inspect tokens' and 'weir inspect chat' can use it");
	b.used = xcalloc(g->n_tensor + 1, 1);
	embd = bind_find(&b, -1, "token_embd.weight", 0, rows, cols, 0);
	out = bind_find(&b, -1, "output.weight", 0, rows, cols, 1);
	m->tied = !out;
	if (!b.failed) {
		bind_count(&b, embd, m->tied);
		bind_adopt(&b, &m->embd, embd, 0, rows, 1);
		if (out)
			bind_count(&b, out, 1);
		bind_adopt(&b, &m->output, out ? out : embd, 0, rows, 0);
	}
	if (m->hp.n_input)
		bind_inputs(&b);
	out_norm = m->hp.arch->out_norm && gguf_tensor_find(g, m->hp.arch->out_norm) ? m->hp.arch->out_norm
	                                                                             : "output_norm.weight";
	bind_vector(&b, &m->out_norm, -1, out_norm, cols, 0);
	for (int32_t i = 0; i < m->hp.n_layer && !b.failed; i++)
		bind_layer(&b, i);
	for (uint64_t i = 0; i < g->n_tensor && !b.failed; i++)
		if (!b.used[i] && !is_redundant(m, &g->tensor[i]))
			b.failed = gguf_err(g, err, "byte %llu: tensor '%.*s' is not part of a %s model of %d layers",
			                    (unsigned long long)g->tensor[i].off, (int)g->tensor[i].name.n,
			                    g->tensor[i].name.p, m->hp.arch->name, m->hp.n_layer);
	free(b.used);
	if (!b.failed && be && be->ops->sync(be))
		b.failed = err_set(err, ERR_FIT, "cannot load the weights: %s", be->err);
	if (b.failed)
		model_release(m);
	return b.failed;
}

int model_matrix(const struct model *m, int32_t layer, struct view name, int p, size_t *at, int32_t *rows,
                 int32_t *cols)
{
	const struct layer_spec *s = model_layer_spec(&m->hp, layer);

	for (int t = 0; t < LAYER_TENSORS; t++) {
		const struct weight_def *d = &layer_tensors[t];

		if (!((s->required | s->optional) & TENSOR_BIT(t)) || !d->name || !view_is(name, d->name) ||
		    d->stacked || d->values || d->number || d->part[0].rows == SIZE_ONE)
			continue;
		if (p >= PARTS || d->part[p].rows == SIZE_NONE)
			return 0;
		*at = d->part[p].at;
		*rows = size_of(&m->hp, s, d->part[p].rows);
		*cols = size_of(&m->hp, s, d->cols);
		return 1;
	}
	return 0;
}

static void release_tensors(struct model *m, int32_t layer, const struct weight_def *d, int part)
{
	struct layer *l = &m->layer[layer];
	int32_t n = d->stacked ? l->expert ? model_layer_spec(&m->hp, layer)->ffn.n_expert : 0 : 1;

	for (int32_t i = 0; i < n && !d->number; i++) {
		struct tensor *w = tensor_at(d->stacked ? (void *)&l->expert[i] : (void *)l, d->part[part].at);

		if (w->data)
			m->be->ops->drop(m->be, w);
	}
}

void model_release(struct model *m)
{
	struct tensor *const all[] = {
		&m->embd, &m->output, &m->out_norm, &m->input_embd, &m->input_in, &m->input_norm
	};
	struct backend *be = m->be;

	for (int32_t i = 0; m->layer && i < m->hp.n_layer; i++) {
		struct layer *l = &m->layer[i];
		for (int t = 0; t < LAYER_TENSORS; t++)
			for (int p = 0; p < PARTS && layer_tensors[t].part[p].rows != SIZE_NONE; p++)
				release_tensors(m, i, &layer_tensors[t], p);
		if (l->v_norm.data)
			be->ops->drop(be, &l->v_norm);
		if (l->expert_table.data)
			be->ops->drop(be, &l->expert_table);
		lora_release(m, l);
		free(l->expert);
	}
	for (size_t i = 0; i < LEN(all); i++)
		if (all[i]->data)
			be->ops->drop(be, all[i]);
	for (size_t i = 0; i < m->n_converted; i++)
		free(m->converted[i]);
	free(m->converted);
	m->converted = NULL;
	m->n_converted = 0;
	free(m->layer);
	m->layer = NULL;
	m->be = NULL;
}
