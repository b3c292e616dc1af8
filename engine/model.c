/* engine/model.c - reads hyper-parameters, binds weights.
 *
 * Nothing from the file is used before its range was checked, and a tensor the forward pass would not
 * use is an error: ignoring it could mean computing something else than the model's author did. */
#include "engine/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROPE_FACTORS "rope_freqs.weight"
/* Of a scaling factor: beyond, frequencies are no longer numbers that a model was trained with. */
#define FACTOR_MIN 1e-3
#define FACTOR_MAX 1e6
enum { HEADS_MAX = 4096, HEAD_DIM_MAX = 1024 };

const struct arch archs[] = {
	{ .name = "llama" },    /* Llama 1-3.x, Mistral, SmolLM2, TinyLlama */
	{ .name = "qwen2", .neox = 1, .qkv_bias = 1 },
	{ .name = "qwen3", .neox = 1, .qk_norm = 1 },
	{ .name = NULL },
};

/* ---- hyper-parameters ---- */

struct reader { const struct gguf *g; const struct arch *arch; struct err *err; char key[96]; };

static const char *arch_key(struct reader *r, const char *suffix)
{
	snprintf(r->key, sizeof r->key, "%s.%s", r->arch->name, suffix);
	return r->key;
}

static int has_key(struct reader *r, const char *suffix)
{
	return gguf_find(r->g, arch_key(r, suffix)) != NULL;
}

/* "'KEY' REST", with its byte offset where the key is in the file. */
__attribute__((format(printf, 3, 4)))
static int bad_key(struct reader *r, const char *suffix, const char *rest, ...)
{
	const struct gguf_value *v = gguf_find(r->g, arch_key(r, suffix));
	char text[240];
	va_list ap;

	va_start(ap, rest);
	vsnprintf(text, sizeof text, rest, ap);
	va_end(ap);
	if (!v)
		return gguf_err(r->g, r->err, "'%s' %s", r->key, text);
	return gguf_err(r->g, r->err, "byte %llu: '%s' %s", (unsigned long long)v->off, r->key, text);
}

/* An integer of the architecture's own keys.  fallback < min means the key is required. */
static int read_int(struct reader *r, const char *suffix, int64_t min, int64_t max, int64_t fallback,
                    int32_t *out)
{
	int64_t v = fallback;
	int got = gguf_int(r->g, arch_key(r, suffix), min, max, &v, r->err);

	if (got < 0)
		return -1;
	if (!got && fallback < min)
		return bad_key(r, suffix, "is missing");
	*out = (int32_t)v;
	return 0;
}

/* The same for a number with a fraction; NaN is outside of every range. */
static int read_real(struct reader *r, const char *suffix, double min, double max, double fallback, double *out)
{
	double v = fallback;
	int got = gguf_float(r->g, arch_key(r, suffix), &v, r->err);

	if (got < 0)
		return -1;
	if (!got && fallback < min)
		return bad_key(r, suffix, "is missing");
	if (!(v >= min && v <= max))
		return bad_key(r, suffix, "is %g, and must be %g to %g", v, min, max);
	*out = v;
	return 0;
}

/* Head counts may be one number or one per layer; only equal ones are supported. */
static int read_heads(struct reader *r, const char *suffix, int32_t n_layer, int64_t fallback, int32_t *out)
{
	const struct gguf_value *v = gguf_find(r->g, arch_key(r, suffix));

	if (!v || v->type != GGUF_ARRAY)
		return read_int(r, suffix, 1, HEADS_MAX, fallback, out);
	if (v->elem != GGUF_I32 && v->elem != GGUF_U32)
		return bad_key(r, suffix, "is an array of %s, and must be one of u32 or i32", gguf_type_name(v->elem));
	if (v->n != (uint64_t)n_layer)
		return bad_key(r, suffix, "has %llu values for %d layers", (unsigned long long)v->n, n_layer);
	for (uint64_t i = 0; i < v->n; i++) {
		long long h = gguf_array_int(v, i), first = gguf_array_int(v, 0);
		if (h < 1 || h > HEADS_MAX)
			return bad_key(r, suffix, "holds %lld, and must hold 1 to %d", h, HEADS_MAX);
		if (h != first)
			return bad_key(r, suffix, "is %lld for one layer and %lld for another, which is not supported",
			               first, h);
	}
	*out = (int32_t)gguf_array_int(v, 0);
	return 0;
}

/* Size of a head: given, or what the width divided by the heads leaves.  Keys and values must have the same. */
static int read_head_dim(struct reader *r, struct hparams *hp)
{
	int32_t dim = hp->n_embd / hp->n_head, value;

	if (!has_key(r, "attention.key_length")) {
		if (hp->n_embd % hp->n_head)
			return bad_key(r, "attention.head_count", "is %d, and must divide the embedding_length, %d",
			               hp->n_head, hp->n_embd);
		if (dim < 2 || dim > HEAD_DIM_MAX || dim % 2)
			return bad_key(r, "attention.head_count",
			               "is %d for an embedding_length of %d: heads of %d, and they must be even, 2 to %d",
			               hp->n_head, hp->n_embd, dim, HEAD_DIM_MAX);
	} else if (read_int(r, "attention.key_length", 2, HEAD_DIM_MAX, 0, &dim)) {
		return -1;
	} else if (dim % 2) {
		return bad_key(r, "attention.key_length", "is %d, and must be even", dim);
	}
	if (read_int(r, "attention.value_length", 2, HEAD_DIM_MAX, dim, &value))
		return -1;
	if (value != dim)
		return bad_key(r, "attention.value_length", "is %d, and must equal the size of the keys, %d", value,
		               dim);
	hp->head_dim = dim;
	return 0;
}

/* ---- rotary positions ---- */

/* YaRN (Peng et al. 2023, arXiv 2309.00071): low dimensions turn often within the trained context and stay as
 * they are, high ones are interpolated, a linear ramp joins them; cos and sin grow by 0.1 ln(factor) + 1. */
static int yarn_scale(struct reader *r, struct hparams *hp, double factor)
{
	int32_t original = 0;
	double attn = 1, fast = 32, slow = 1, lo, hi;
	const double two_pi = 6.283185307179586;

	if (read_int(r, "rope.scaling.original_context_length", 1, CTX_MAX, hp->ctx_train, &original) ||
	    read_real(r, "rope.scaling.attn_factor", 1e-3, 1e3, 1, &attn) ||
	    read_real(r, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32, &fast) ||
	    read_real(r, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1, &slow))
		return -1;
	lo = floor(hp->rope_dims * log(original / (fast * two_pi)) / (2 * log(hp->rope_base)));
	hi = ceil(hp->rope_dims * log(original / (slow * two_pi)) / (2 * log(hp->rope_base)));
	lo = fmax(lo, 0);
	hi = fmin(hi, hp->rope_dims - 1);
	for (int32_t j = 0; j < hp->rope_dims / 2; j++) {
		double ramp = fmin(1, fmax(0, (j - lo) / fmax(0.001, hi - lo)));
		hp->rope_freq[j] *= 1 - ramp + ramp / factor;
	}
	hp->rope_mscale = attn * (factor > 1 ? 0.1 * log(factor) + 1 : 1);
	return 0;
}

/* Llama 3: the converter stored one divisor per pair. */
static int rope_factors(struct reader *r, struct hparams *hp)
{
	const struct gguf_tensor *t = gguf_tensor_find(r->g, ROPE_FACTORS);

	if (!t)
		return 0;
	if (t->type != DT_F32 || t->n_dims != 1 || t->ne[0] != hp->rope_dims / 2)
		return gguf_err(r->g, r->err,
		                "byte %llu: tensor '" ROPE_FACTORS "' is %lld values of %s, and must be %d of F32",
		                (unsigned long long)t->off, (long long)t->ne[0], dtype_info(t->type)->name,
		                hp->rope_dims / 2);
	for (int32_t j = 0; j < hp->rope_dims / 2; j++) {
		float f;
		memcpy(&f, (const char *)t->data + 4 * (size_t)j, 4);
		if (!(f >= FACTOR_MIN && f <= FACTOR_MAX))
			return gguf_err(r->g, r->err,
			                "byte %llu: tensor '" ROPE_FACTORS "' holds %g, and must hold %g to %g",
			                (unsigned long long)t->at + 4 * (unsigned)j, f, FACTOR_MIN, FACTOR_MAX);
		hp->rope_freq[j] /= f;
	}
	hp->rope_scaling = "llama3";
	return 0;
}

static int rope_read(struct reader *r, struct hparams *hp)
{
	/* The older name of the same number; without a type it means what it always did. */
	const char *factor_key = has_key(r, "rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
	struct view type = { "linear", 6 };
	double factor = 1;
	int got;

	if (read_int(r, "rope.dimension_count", 2, hp->head_dim, hp->head_dim, &hp->rope_dims) ||
	    read_real(r, "rope.freq_base", 2, 1e12, 10000, &hp->rope_base))
		return -1;
	if (hp->rope_dims % 2)
		return bad_key(r, "rope.dimension_count", "is %d, and must be even", hp->rope_dims);
	hp->rope_freq = xcalloc((size_t)hp->rope_dims / 2, sizeof *hp->rope_freq);
	for (int32_t j = 0; j < hp->rope_dims / 2; j++)
		hp->rope_freq[j] = pow(hp->rope_base, -2.0 * j / hp->rope_dims);
	hp->rope_mscale = 1;
	hp->rope_scaling = "none";
	if (rope_factors(r, hp))
		return -1;

	got = gguf_string(r->g, arch_key(r, "rope.scaling.type"), &type, r->err);
	if (got < 0)
		return -1;
	if ((!got && !has_key(r, factor_key)) || view_is(type, "none"))
		return 0;
	if (read_real(r, factor_key, FACTOR_MIN, FACTOR_MAX, 1, &factor))
		return -1;
	if (view_is(type, "linear")) {
		for (int32_t j = 0; j < hp->rope_dims / 2; j++)
			hp->rope_freq[j] /= factor;
		hp->rope_scaling = "linear";
		return 0;
	}
	if (view_is(type, "yarn")) {
		hp->rope_scaling = "yarn";
		return yarn_scale(r, hp, factor);
	}
	return bad_key(r, "rope.scaling.type",
	               "is '%.*s', and must be none, linear or yarn: others are not supported",
	               (int)(type.n < 40 ? type.n : 40), type.p);
}

/* ---- all together ---- */

static const struct arch *arch_find(const struct gguf *g, struct err *err)
{
	struct view name;
	struct str list = { 0 };
	int got = gguf_string(g, "general.architecture", &name, err);

	if (got < 0)
		return NULL;
	if (!got) {
		gguf_err(g, err, "'general.architecture' is missing");
		return NULL;
	}
	for (const struct arch *a = archs; a->name; a++)
		if (view_is(name, a->name))
			return a;
	for (const struct arch *a = archs; a->name; a++)
		str_addf(&list, "%s%s", list.n ? ", " : "", a->name);
	gguf_err(g, err, "architecture '%.*s' is not supported (supported: %s)",
	         (int)(name.n < 40 ? name.n : 40), name.p, list.p);
	str_free(&list);
	return NULL;
}

int hparams_read(struct hparams *hp, const struct gguf *g, struct err *err)
{
	struct reader r = { .g = g, .err = err };
	int32_t experts, used;
	double eps;

	memset(hp, 0, sizeof *hp);
	if (!(r.arch = hp->arch = arch_find(g, err)))
		return -1;
	if (read_int(&r, "block_count", 1, 1024, 0, &hp->n_layer) ||
	    read_int(&r, "context_length", 1, INT32_MAX, 0, &hp->ctx_train) ||
	    read_int(&r, "embedding_length", 1, 1 << 17, 0, &hp->n_embd) ||
	    read_int(&r, "feed_forward_length", 1, 1 << 20, 0, &hp->n_ff) ||
	    read_heads(&r, "attention.head_count", hp->n_layer, 0, &hp->n_head) ||
	    read_heads(&r, "attention.head_count_kv", hp->n_layer, hp->n_head, &hp->n_kv_head) ||
	    read_int(&r, "expert_count", 0, INT32_MAX, 0, &experts) ||
	    read_int(&r, "expert_used_count", 0, INT32_MAX, 0, &used) ||
	    read_real(&r, "attention.layer_norm_rms_epsilon", 1e-12, 0.1, 0, &eps))
		return -1;
	if (experts || used)
		return bad_key(&r, experts ? "expert_count" : "expert_used_count",
		               "is %d: mixture-of-experts models are not supported", experts ? experts : used);
	if (hp->n_head % hp->n_kv_head)
		return bad_key(&r, "attention.head_count_kv", "is %d, and must divide the head_count, %d",
		               hp->n_kv_head, hp->n_head);
	hp->eps = (float)eps;
	/* A sane bound for buffers; a context that large is chosen with -c, never by the file alone. */
	if (hp->ctx_train > CTX_MAX)
		hp->ctx_train = CTX_MAX;
	if (read_head_dim(&r, hp) || rope_read(&r, hp)) {
		hparams_free(hp);
		return -1;
	}
	return 0;
}

void hparams_free(struct hparams *hp)
{
	free(hp->rope_freq);
	hp->rope_freq = NULL;
}

/* ---- weights ---- */

struct binder {
	struct model *m;
	const struct gguf *g;
	const struct bind_watch *watch;
	struct err *err;
	uint8_t *used;     /* [n_tensor] */
	int failed;
};

/* The tensor 'name' (or 'blk.LAYER.name'), checked to be [rows][cols]; NULL and failed unless optional. */
static const struct gguf_tensor *bind_find(struct binder *b, int32_t layer, const char *name, int32_t rows,
                                           int32_t cols, int optional)
{
	const struct gguf_tensor *t;
	char full[80];

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
	if (t->ne[0] != cols || t->ne[1] < rows || t->ne[2] != 1 || t->ne[3] != 1 ||
	    /* Embeddings may be padded beyond the vocabulary; nothing else may be larger than needed. */
	    (t->ne[1] != rows && (layer >= 0 || rows == 1))) {
		b->failed = gguf_err(b->g, b->err,
		                     "byte %llu: tensor '%s' has the shape %lld x %lld x %lld x %lld, and must have %d x %d",
		                     (unsigned long long)t->off, full, (long long)t->ne[0], (long long)t->ne[1],
		                     (long long)t->ne[2], (long long)t->ne[3], cols, rows);
		return NULL;
	}
	return t;
}

static void bind_count(struct binder *b, const struct gguf_tensor *t, uint64_t times_read)
{
	b->m->weight_bytes += t->bytes;
	b->m->n_params += (uint64_t)(t->ne[0] * t->ne[1]);
	b->m->bytes_per_token += t->bytes * times_read;
}

static void bind_no_room(struct binder *b, const struct gguf_tensor *t)
{
	b->failed = err_set(b->err, ERR_FIT,
	                    "cannot load the weights '%.*s': %s; free some memory or use a smaller model",
	                    (int)t->name.n, t->name.p, b->m->be->err);
}

static void bind_adopt(struct binder *b, struct tensor *out, const struct gguf_tensor *t, int32_t rows,
                       int as_table)
{
	struct backend *be = b->m->be;

	*out = (struct tensor){ .type = t->type, .rows = rows, .cols = (int32_t)t->ne[0] };
	if (!be)
		return;
	if (be->ops->load_weight(be, out, t->data, as_table))
		bind_no_room(b, t);
	else if (b->watch && b->watch->fn)
		b->watch->fn(b->m->weight_bytes, b->watch->total, b->watch->ud);
}

static void bind_weight(struct binder *b, struct tensor *out, int32_t layer, const char *name, int32_t rows,
                        int32_t cols)
{
	const struct gguf_tensor *t = bind_find(b, layer, name, rows, cols, 0);

	if (t) {
		bind_count(b, t, 1);
		bind_adopt(b, out, t, rows, 0);
	}
}

/* Norms and biases are small: always copied, as f32. */
static void bind_vector(struct binder *b, struct tensor *out, int32_t layer, const char *name, int32_t n,
                        int optional)
{
	const struct gguf_tensor *t = bind_find(b, layer, name, 1, n, optional);
	struct backend *be = b->m->be;
	float *v;

	if (!t)
		return;
	bind_count(b, t, 1);
	*out = (struct tensor){ .type = DT_F32, .rows = 1, .cols = n };
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
	dtype_to_f32(t->type, v, t->data, n);
	be->ops->write(be, out, 0, v, (size_t)n * sizeof *v);
	free(v);
}

static void bind_layer(struct binder *b, int32_t i)
{
	const struct hparams *hp = &b->m->hp;
	struct layer *l = &b->m->layer[i];
	int32_t q = hp->n_head * hp->head_dim, kv = hp->n_kv_head * hp->head_dim;
	int bias = !hp->arch->qkv_bias, norm = !hp->arch->qk_norm;   /* optional? */

	bind_vector(b, &l->attn_norm, i, "attn_norm.weight", hp->n_embd, 0);
	bind_weight(b, &l->wq, i, "attn_q.weight", q, hp->n_embd);
	bind_weight(b, &l->wk, i, "attn_k.weight", kv, hp->n_embd);
	bind_weight(b, &l->wv, i, "attn_v.weight", kv, hp->n_embd);
	bind_vector(b, &l->bq, i, "attn_q.bias", q, bias);
	bind_vector(b, &l->bk, i, "attn_k.bias", kv, bias);
	bind_vector(b, &l->bv, i, "attn_v.bias", kv, bias);
	bind_vector(b, &l->q_norm, i, "attn_q_norm.weight", hp->head_dim, norm);
	bind_vector(b, &l->k_norm, i, "attn_k_norm.weight", hp->head_dim, norm);
	bind_weight(b, &l->wo, i, "attn_output.weight", hp->n_embd, q);
	bind_vector(b, &l->bo, i, "attn_output.bias", hp->n_embd, 1);
	bind_vector(b, &l->ffn_norm, i, "ffn_norm.weight", hp->n_embd, 0);
	bind_weight(b, &l->gate, i, "ffn_gate.weight", hp->n_ff, hp->n_embd);
	bind_weight(b, &l->up, i, "ffn_up.weight", hp->n_ff, hp->n_embd);
	bind_weight(b, &l->down, i, "ffn_down.weight", hp->n_embd, hp->n_ff);
}

/* The rotary divisors, used above, and tables of old converters that the engine computes itself. */
static int is_redundant(const struct gguf_tensor *t)
{
	static const char *const suffix[] = { ".attn_rot_embd.weight", ".rotary_emb.inv_freq" };

	if (view_is(t->name, ROPE_FACTORS))
		return 1;
	for (size_t i = 0; i < sizeof suffix / sizeof suffix[0]; i++) {
		size_t n = strlen(suffix[i]);
		if (t->name.n >= n && !memcmp(t->name.p + t->name.n - n, suffix[i], n))
			return 1;
	}
	return 0;
}

int model_bind(struct model *m, const struct gguf *g, struct backend *be, const struct bind_watch *watch, struct err *err)
{
	struct binder b = { .m = m, .g = g, .watch = watch, .err = err };
	const struct gguf_tensor *embd, *out;
	int32_t rows = m->hp.n_vocab, cols = m->hp.n_embd;

	*m = (struct model){ .hp = m->hp, .be = be };
	m->layer = xcalloc((size_t)m->hp.n_layer, sizeof *m->layer);
	b.used = xcalloc(g->n_tensor + 1, 1);
	embd = bind_find(&b, -1, "token_embd.weight", rows, cols, 0);
	out = bind_find(&b, -1, "output.weight", rows, cols, 1);
	m->tied = !out;
	if (!b.failed) {
		bind_count(&b, embd, m->tied);
		bind_adopt(&b, &m->embd, embd, rows, 1);
		if (out)
			bind_count(&b, out, 1);
		bind_adopt(&b, &m->output, out ? out : embd, rows, 0);
	}
	bind_vector(&b, &m->out_norm, -1, "output_norm.weight", cols, 0);
	for (int32_t i = 0; i < m->hp.n_layer && !b.failed; i++)
		bind_layer(&b, i);
	for (uint64_t i = 0; i < g->n_tensor && !b.failed; i++)
		if (!b.used[i] && !is_redundant(&g->tensor[i]))
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

void model_release(struct model *m)
{
	struct backend *be = m->be;

	for (int32_t i = 0; m->layer && i < m->hp.n_layer; i++) {
		struct layer *l = &m->layer[i];
		struct tensor *all[] = { &l->attn_norm, &l->wq, &l->wk, &l->wv, &l->bq, &l->bk, &l->bv, &l->q_norm, &l->k_norm,
		                         &l->wo, &l->bo, &l->ffn_norm, &l->gate, &l->up, &l->down };
		for (size_t j = 0; j < sizeof all / sizeof all[0]; j++)
			if (all[j]->data)
				be->ops->drop(be, all[j]);
	}
	if (m->embd.data)
		be->ops->drop(be, &m->embd);
	if (m->output.data)
		be->ops->drop(be, &m->output);
	if (m->out_norm.data)
		be->ops->drop(be, &m->out_norm);
	free(m->layer);
	m->layer = NULL;
	m->be = NULL;
}
