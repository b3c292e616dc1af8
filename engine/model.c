/* engine/model.c - reads hyper-parameters, binds weights.
 *
 * Nothing from the file is used before its range was checked, and a tensor the forward pass would not
 * use is an error: ignoring it could mean computing something else than the model's author did. */
#include "engine/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* An integer of the architecture's own keys.  fallback < min means the key is required. */
static int read_int(struct reader *r, const char *suffix, int64_t min, int64_t max, int64_t fallback, int32_t *out)
{
	int64_t v = fallback;
	int got = gguf_int(r->g, arch_key(r, suffix), min, max, &v, r->err);

	if (got < 0)
		return -1;
	if (!got && fallback < min)
		return gguf_err(r->g, r->err, "key '%s' is missing", r->key);
	*out = (int32_t)v;
	return 0;
}

/* Head counts may be one number or one per layer; only equal ones are supported. */
static int read_heads(struct reader *r, const char *suffix, int32_t n_layer, int64_t fallback, int32_t *out)
{
	const struct gguf_value *v = gguf_find(r->g, arch_key(r, suffix));

	if (!v || v->type != GGUF_ARRAY)
		return read_int(r, suffix, 1, 4096, fallback, out);
	if (v->elem != GGUF_I32 && v->elem != GGUF_U32)
		return gguf_err(r->g, r->err, "key '%s' must hold integers", r->key);
	if (v->n != (uint64_t)n_layer)
		return gguf_err(r->g, r->err, "key '%s' has %llu values for %d layers", r->key,
		                (unsigned long long)v->n, n_layer);
	for (uint64_t i = 0; i < v->n; i++) {
		int64_t h = gguf_array_int(v, i);
		if (h < 1 || h > 4096)
			return gguf_err(r->g, r->err, "key '%s' holds %lld, allowed are 1 to 4096", r->key, (long long)h);
		if (h != gguf_array_int(v, 0))
			return gguf_err(r->g, r->err, "key '%s' differs between layers, which is not supported", r->key);
	}
	*out = (int32_t)gguf_array_int(v, 0);
	return 0;
}

static int read_positive(struct reader *r, const char *suffix, double fallback, double *out)
{
	double v = fallback;
	int got = gguf_float(r->g, arch_key(r, suffix), &v, r->err);

	if (got < 0)
		return -1;
	if (!got && fallback <= 0)
		return gguf_err(r->g, r->err, "key '%s' is missing", r->key);
	if (!(v > 0) || !(v < 1e12))
		return gguf_err(r->g, r->err, "key '%s' is %g, it must be positive and finite", r->key, v);
	*out = v;
	return 0;
}

/* YaRN (Peng et al. 2023, arXiv 2309.00071): low dimensions turn often within the trained context and stay as
 * they are, high ones are interpolated, a linear ramp joins them; cos and sin grow by 0.1 ln(factor) + 1. */
static int yarn_scale(struct reader *r, struct hparams *hp, double factor)
{
	int32_t original = 0;
	double attn = 1, fast = 32, slow = 1, lo, hi;
	const double two_pi = 6.283185307179586;

	if (read_int(r, "rope.scaling.original_context_length", 1, 1 << 26, hp->ctx_train, &original) ||
	    read_positive(r, "rope.scaling.attn_factor", 1, &attn) ||
	    read_positive(r, "rope.scaling.yarn_beta_fast", 32, &fast) ||
	    read_positive(r, "rope.scaling.yarn_beta_slow", 1, &slow))
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

static int rope_read(struct reader *r, struct hparams *hp)
{
	const struct gguf_tensor *factors = gguf_tensor_find(r->g, "rope_freqs.weight");
	struct view type = {0};
	double factor = 1;
	int got;

	if (read_int(r, "rope.dimension_count", 2, 1 << 16, hp->head_dim, &hp->rope_dims) ||
	    read_positive(r, "rope.freq_base", 10000, &hp->rope_base))
		return -1;
	if (hp->rope_dims % 2 || hp->rope_dims > hp->head_dim)
		return gguf_err(r->g, r->err, "key '%s.rope.dimension_count' is %d, it must be even and at most the head size %d",
		                r->arch->name, hp->rope_dims, hp->head_dim);
	if (hp->rope_base <= 1)
		return gguf_err(r->g, r->err, "key '%s.rope.freq_base' is %g, it must be above 1", r->arch->name, hp->rope_base);
	hp->rope_freq = xcalloc((size_t)hp->rope_dims / 2, sizeof *hp->rope_freq);
	for (int32_t j = 0; j < hp->rope_dims / 2; j++)
		hp->rope_freq[j] = pow(hp->rope_base, -2.0 * j / hp->rope_dims);
	hp->rope_mscale = 1;
	hp->rope_scaling = "none";

	/* Llama 3: the converter stored one divisor per pair. */
	if (factors) {
		if (factors->type != DT_F32 || factors->n_dims != 1 || factors->ne[0] != hp->rope_dims / 2)
			return gguf_err(r->g, r->err, "tensor 'rope_freqs.weight' must be %d F32 values", hp->rope_dims / 2);
		for (int32_t j = 0; j < hp->rope_dims / 2; j++) {
			float f;
			memcpy(&f, (const char *)factors->data + 4 * (size_t)j, 4);
			if (!(f > 0) || !isfinite(f))
				return gguf_err(r->g, r->err, "tensor 'rope_freqs.weight' holds %g at %d, it must be positive", f, j);
			hp->rope_freq[j] /= f;
		}
		hp->rope_scaling = "llama3";
	}

	got = gguf_string(r->g, arch_key(r, "rope.scaling.type"), &type, r->err);
	if (got < 0)
		return -1;
	if (!got && !gguf_find(r->g, arch_key(r, "rope.scale_linear")))
		return 0;
	if (got && type.n == 4 && !memcmp(type.p, "none", 4))
		return 0;
	if (read_positive(r, gguf_find(r->g, arch_key(r, "rope.scaling.factor")) ? "rope.scaling.factor" : "rope.scale_linear",
	                  1, &factor))
		return -1;
	if (!got || (type.n == 6 && !memcmp(type.p, "linear", 6))) {
		for (int32_t j = 0; j < hp->rope_dims / 2; j++)
			hp->rope_freq[j] /= factor;
		hp->rope_scaling = "linear";
		return 0;
	}
	if (type.n == 4 && !memcmp(type.p, "yarn", 4)) {
		hp->rope_scaling = "yarn";
		return yarn_scale(r, hp, factor);
	}
	return gguf_err(r->g, r->err, "rope scaling '%.*s' is not supported (supported: none, linear, yarn and Llama 3 factors)",
	                (int)(type.n < 40 ? type.n : 40), type.p);
}

static const struct arch *arch_find(const struct gguf *g, struct err *err)
{
	struct view name;
	int got = gguf_string(g, "general.architecture", &name, err);
	char list[128] = "";
	size_t at = 0;

	if (got < 0)
		return NULL;
	if (!got) {
		gguf_err(g, err, "key 'general.architecture' is missing");
		return NULL;
	}
	for (const struct arch *a = archs; a->name; a++) {
		if (name.n == strlen(a->name) && !memcmp(name.p, a->name, name.n))
			return a;
		at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", a->name);
	}
	gguf_err(g, err, "architecture '%.*s' is not supported (supported: %s)", (int)(name.n < 40 ? name.n : 40), name.p, list);
	return NULL;
}

int hparams_read(struct hparams *hp, const struct gguf *g, int32_t n_vocab, struct err *err)
{
	struct reader r = { .g = g, .err = err };
	int32_t experts = 0, key_len = 0, value_len = 0;
	double eps = 0;

	memset(hp, 0, sizeof *hp);
	if (!(r.arch = hp->arch = arch_find(g, err)))
		return -1;
	hp->n_vocab = n_vocab;
	if (read_int(&r, "block_count", 1, 1024, 0, &hp->n_layer) ||
	    read_int(&r, "context_length", 1, INT32_MAX, 0, &hp->ctx_train) ||
	    read_int(&r, "embedding_length", 1, 1 << 17, 0, &hp->n_embd) ||
	    read_int(&r, "feed_forward_length", 1, 1 << 20, 0, &hp->n_ff) ||
	    read_heads(&r, "attention.head_count", hp->n_layer, 0, &hp->n_head) ||
	    read_heads(&r, "attention.head_count_kv", hp->n_layer, hp->n_head, &hp->n_kv_head) ||
	    read_int(&r, "expert_count", 0, INT32_MAX, 0, &experts) ||
	    read_positive(&r, "attention.layer_norm_rms_epsilon", 0, &eps))
		return -1;
	if (experts)
		return gguf_err(g, err, "key '%s.expert_count' is %d: mixture-of-experts models are not supported", r.arch->name, experts);
	if (hp->n_head % hp->n_kv_head)
		return gguf_err(g, err, "key '%s.attention.head_count' is %d, not a multiple of head_count_kv %d", r.arch->name,
		                hp->n_head, hp->n_kv_head);
	if (hp->n_embd % hp->n_head && !gguf_find(g, arch_key(&r, "attention.key_length")))
		return gguf_err(g, err, "key '%s.embedding_length' is %d, not a multiple of head_count %d", r.arch->name,
		                hp->n_embd, hp->n_head);
	if (read_int(&r, "attention.key_length", 2, 1024, hp->n_embd / hp->n_head, &key_len) ||
	    read_int(&r, "attention.value_length", 2, 1024, key_len, &value_len))
		return -1;
	if (key_len != value_len || key_len < 2 || key_len > 1024 || key_len % 2)
		return gguf_err(g, err, "heads of %d (keys) and %d (values) are not supported: both must be equal, even and at most 1024",
		                key_len, value_len);
	if (eps > 0.1)
		return gguf_err(g, err, "key '%s.attention.layer_norm_rms_epsilon' is %g, allowed is up to 0.1", r.arch->name, eps);
	hp->head_dim = key_len;
	hp->eps = (float)eps;
	/* A sane bound for buffers; a context that large is chosen with -c, never by the file alone. */
	if (hp->ctx_train > 1 << 26)
		hp->ctx_train = 1 << 26;
	if (rope_read(&r, hp)) {
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
	struct err *err;
	uint8_t *used;     /* [n_tensor] */
	int failed;
};

/* The tensor 'name' (or 'blk.LAYER.name'), checked to be [rows][cols]; NULL and failed unless optional. */
static const struct gguf_tensor *bind_find(struct binder *b, int32_t layer, const char *name, int32_t rows, int32_t cols,
                                           int optional)
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
		b->failed = gguf_err(b->g, b->err, "tensor '%s' has shape %lld x %lld x %lld x %lld, expected %d x %d", full,
		                     (long long)t->ne[0], (long long)t->ne[1], (long long)t->ne[2], (long long)t->ne[3], cols, rows);
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

static void bind_adopt(struct binder *b, struct tensor *out, const struct gguf_tensor *t, int32_t rows, int as_table)
{
	struct backend *be = b->m->be;

	*out = (struct tensor){ .type = t->type, .rows = rows, .cols = (int32_t)t->ne[0] };
	if (be && be->ops->adopt(be, out, t->data, as_table))
		b->failed = gguf_err(b->g, b->err, "tensor '%.*s': %s", (int)t->name.n, t->name.p, be->err);
}

static void bind_weight(struct binder *b, struct tensor *out, int32_t layer, const char *name, int32_t rows, int32_t cols)
{
	const struct gguf_tensor *t = bind_find(b, layer, name, rows, cols, 0);

	if (t) {
		bind_count(b, t, 1);
		bind_adopt(b, out, t, rows, 0);
	}
}

/* Norms and biases are small: always copied, as f32. */
static void bind_vector(struct binder *b, struct tensor *out, int32_t layer, const char *name, int32_t n, int optional)
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
		b->failed = gguf_err(b->g, b->err, "tensor '%.*s': %s", (int)t->name.n, t->name.p, be->err);
		return;
	}
	v = xmalloc((size_t)n * sizeof *v);
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

/* Old converters stored tables the engine computes itself. */
static int is_redundant(const struct gguf_tensor *t)
{
	static const char *const suffix[] = { "rope_freqs.weight", "attn_rot_embd.weight", "rotary_emb.inv_freq" };

	for (size_t i = 0; i < sizeof suffix / sizeof suffix[0]; i++) {
		size_t n = strlen(suffix[i]);
		if (t->name.n >= n && !memcmp(t->name.p + t->name.n - n, suffix[i], n))
			return 1;
	}
	return 0;
}

int model_bind(struct model *m, const struct gguf *g, struct backend *be, struct err *err)
{
	struct binder b = { .m = m, .g = g, .err = err };
	const struct gguf_tensor *embd, *out;
	int32_t rows = m->hp.n_vocab, cols = m->hp.n_embd;

	m->be = be;
	m->layer = xcalloc((size_t)m->hp.n_layer, sizeof *m->layer);
	b.used = xcalloc(g->n_tensor + 1, 1);
	embd = bind_find(&b, -1, "token_embd.weight", rows, cols, 0);
	out = bind_find(&b, -1, "output.weight", rows, cols, 1);
	m->tied = !out;
	if (embd) {
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
			b.failed = gguf_err(g, err, "tensor '%.*s' is not part of a %s model of %d layers", (int)g->tensor[i].name.n,
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
