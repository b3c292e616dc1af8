/* engine/model/rope_freqs.c - reads the RoPE frequencies of a model: the base, and the scaling for longer contexts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/hparams.h"

/* A file with a scaling factor outside of these limits is refused. */
#define FACTOR_MIN   1e-3
#define FACTOR_MAX   1e6
/* A factor of at least this value means that a pair is not rotated at all. Gemma 4's files have 1e30. */
#define FACTOR_STILL 9e29

/* Scale by YaRN (Peng et al. 2023, arXiv 2309.00071). Pairs that rotate at least yarn_beta_fast times within the
 * original context keep their frequency; they are the pairs up to number `lo`. The frequency of pairs that rotate at
 * most yarn_beta_slow times is divided by `factor`; they are the pairs from number `hi` on. For the pairs between
 * `lo` and `hi`, the multiplier of the frequency falls linearly from 1 to 1 / `factor`.
 *
 * If factor <= 1, cos and sin are multiplied by attn_factor. Otherwise they are multiplied by attn_factor * (0.1
 * ln(factor) + 1) / (0.1 log_multiplier ln(factor) + 1). */
static int yarn_scale(struct key_reader *r, struct rope_freqs *f, double factor, int32_t ctx_train)
{
	int32_t original = 0;
	double attn = 1, fast = 32, slow = 1, log_multiplier, lo, hi;
	const double two_pi = 6.283185307179586;

	if (key_int(r, "rope.scaling.original_context_length", 1, CTX_MAX, ctx_train, &original) ||
	    key_real(r, "rope.scaling.attn_factor", 1e-3, 1e3, 1, &attn) ||
	    key_real(r, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32, &fast) ||
	    key_real(r, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1, &slow) ||
	    key_real(r, "rope.scaling.yarn_log_multiplier", 0, 100, r->arch->yarn_log_multiplier, &log_multiplier))
		return -1;
	lo = f->dims * log(original / (fast * two_pi)) / (2 * log(f->base));
	hi = f->dims * log(original / (slow * two_pi)) / (2 * log(f->base));
	if (!r->arch->yarn_exact) {
		lo = floor(lo);
		hi = ceil(hi);
	}
	lo = fmax(lo, 0);
	hi = fmin(hi, f->dims - 1);
	for (int32_t j = 0; j < f->dims / 2; j++) {
		double ramp = fmin(1, fmax(0, (j - lo) / fmax(0.001, hi - lo)));
		f->freq[j] *= 1 - ramp + ramp / factor;
	}
	f->mscale = attn * (factor > 1 ? (0.1 * log(factor) + 1) / (0.1 * log_multiplier * log(factor) + 1) : 1);
	return 0;
}

/* Divide freq[dims / 2] by the values of the tensor called `name`, and return 1. Return 0 if the file has no such
 * tensor, and -1 on error. */
static int rope_divide(struct key_reader *r, struct rope_freqs *f, double *freq, const char *name, const char *scaling)
{
	const struct gguf_tensor *t = gguf_tensor_find(r->g, name);

	if (!t)
		return 0;
	if (t->type != DT_F32 || t->n_dims != 1 || t->ne[0] != f->dims / 2)
		return gguf_err(r->g, r->err, "byte %llu: tensor '%s' is %lld values of %s, and must be %d of F32",
		                (unsigned long long)t->off, name, (long long)t->ne[0], dtype_info(t->type)->name,
		                f->dims / 2);
	for (int32_t j = 0; j < f->dims / 2; j++) {
		float factor;
		memcpy(&factor, (const char *)t->data + 4 * (size_t)j, 4);
		if (!(factor >= FACTOR_MIN && (factor <= FACTOR_MAX || (factor >= FACTOR_STILL && isfinite(factor)))))
			return gguf_err(r->g, r->err, "byte %llu: tensor '%s' holds %g, and must hold %g to %g",
			                (unsigned long long)t->at + 4 * (unsigned)j, name, factor, FACTOR_MIN,
			                FACTOR_MAX);
		freq[j] = factor >= FACTOR_STILL ? 0 : freq[j] / factor;
	}
	f->scaling = scaling;
	return 1;
}

/* Scale by LongRoPE (Ding et al. 2024, arXiv 2402.13753). The file has two sets of factors: for sequences that fit the
 * original context, and for longer sequences. Return 1 on success, 0 if the file has no such factors, and -1 on
 * error. */
static int rope_long(struct key_reader *r, struct hparams *hp)
{
	struct rope_freqs *f = &hp->rope[0];
	double *more = xcalloc((size_t)f->dims, sizeof *more), published;
	int32_t original;
	int got;

	f->freq_long = more;
	memcpy(more, f->freq, (size_t)(f->dims / 2) * sizeof *more);
	got = rope_divide(r, f, f->freq, ROPE_FACTORS_SHORT, "longrope");
	if (got > 0 && !gguf_tensor_find(r->g, ROPE_FACTORS_LONG))
		return gguf_err(r->g, r->err, "tensor '" ROPE_FACTORS_LONG "' is missing");
	if (got <= 0 || rope_divide(r, f, more, ROPE_FACTORS_LONG, "longrope") < 0) {
		free(more);
		f->freq_long = NULL;
		return got > 0 ? -1 : got;
	}
	if (key_int(r, "rope.scaling.original_context_length", 2, CTX_MAX, hp->ctx_train, &original))
		return -1;
	published = original < hp->ctx_train ? sqrt(1 + log((double)hp->ctx_train / original) / log(original)) : 1;
	if (key_real(r, "rope.scaling.attn_factor", 1e-3, 1e3, published, &f->mscale))
		return -1;
	f->short_most = original;
	return 1;
}

static struct rope_freqs unscaled_freqs(int32_t dims, double base, int neox)
{
	struct rope_freqs f = { .dims = dims, .neox = neox, .base = base, .scaling = "none", .mscale = 1 };

	f.freq = xcalloc((size_t)dims / 2, sizeof *f.freq);
	for (int32_t j = 0; j < dims / 2; j++)
		f.freq[j] = pow(base, -2.0 * j / dims);
	return f;
}

int32_t rope_freqs_add(struct hparams *hp, int32_t dims, double base)
{
	if (hp->n_rope == ROPE_TABLES_MAX)
		return hp->n_rope;
	hp->rope[hp->n_rope] = unscaled_freqs(dims, base, hp->rope[0].neox);
	return hp->n_rope++;
}

int rope_freqs_read(struct key_reader *r, struct hparams *hp)
{
	/* In older files the factor's key is scale_linear. If the file has a factor but no scaling type, the scaling is
	 * linear. */
	const char *factor_key = key_has(r, "rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
	struct rope_freqs *f = &hp->rope[0];
	struct view type = { "linear", 6 };
	double factor = 1, base;
	int32_t dims;
	int got, got_long;

	if (key_int(r, "rope.dimension_count", 2, hp->head_dim, hp->head_dim, &dims) ||
	    key_real(r, "rope.freq_base", 2, 1e12, 10000, &base))
		return -1;
	if (dims % 2)
		return key_bad(r, "rope.dimension_count", "is %d, and must be even", dims);
	*f = unscaled_freqs(dims, base, hp->arch->neox);
	hp->n_rope = 1;
	if (rope_divide(r, f, f->freq, ROPE_FACTORS, "llama3") < 0 || /* Llama 3 */
	    (got_long = rope_long(r, hp)) < 0)
		return -1;

	got = gguf_string(r->g, key_name(r, "rope.scaling.type"), &type, r->err);
	if (got < 0)
		return -1;
	if ((!got && !key_has(r, factor_key)) || view_is(type, "none") || (got_long && view_is(type, "longrope")))
		return 0;
	if (key_real(r, factor_key, FACTOR_MIN, FACTOR_MAX, 1, &factor))
		return -1;
	if (view_is(type, "linear")) {
		for (int32_t j = 0; j < dims / 2; j++)
			f->freq[j] /= factor;
		f->scaling = "linear";
		return 0;
	}
	if (view_is(type, "yarn")) {
		f->scaling = "yarn";
		return yarn_scale(r, f, factor, hp->ctx_train);
	}
	return key_bad(r, "rope.scaling.type", "is '%.*s', and must be none, linear or yarn: others are not supported",
	               (int)(MIN(type.n, 40)), type.p);
}
