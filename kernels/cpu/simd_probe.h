/* kernels/cpu/simd_probe.h (private to the SIMD code) - attention mass per key; compiled once for each instruction
 * set. Scores are in the unit SCORE_UNIT. */
#ifndef WEIR_CPU_SIMD_PROBE_H
#define WEIR_CPU_SIMD_PROBE_H

#include "kernels/cpu/lanes.h"

#ifdef LANES
/* For at most n keys from key c on, add weight * x to t->out, or keep the larger of the old value and weight * x. */
INLINE void mass_add(const struct probe_tile *t, int32_t c, int32_t n, vec weight, vec x)
{
	vec old = vec_load_part(t->out + c, n);

	vec_store_part(t->out + c, n, t->largest ? vec_max(old, weight * x) : vec_fma(weight, x, old));
}

INLINE vec head_scores(const struct probe_tile *t, int32_t h, int32_t c, int32_t n)
{
	return vec_load_part(t->score + (size_t)h * t->stride + c, n);
}

/* Compute each key's mass as its largest probability among the heads. One exponential per key is enough, because the
 * head with the largest probability p = exp(s - m) / l is also the head with the largest s - (m + log l). */
static void mass_max(const struct probe_tile *t)
{
	float least[PROBE_HEADS];
	vec weight = vec_splat(t->weight);

	for (int32_t h = 0; h < t->heads; h++)
		least[h] = (float)(t->m[h] + score_log((double)t->l[h]));
	for (int32_t c = 0; c < t->n; c += LANES) {
		int32_t n = t->n - c;
		vec x = head_scores(t, 0, c, n) - least[0];

		for (int32_t h = 1; h < t->heads; h++)
			x = vec_max(x, head_scores(t, h, c, n) - least[h]);
		mass_add(t, c, n, weight, score_exp(x));
	}
}

INLINE vec head_shares(const struct probe_tile *t, int32_t h, int32_t c, int32_t n, float inv)
{
	return score_exp(head_scores(t, h, c, n) - t->m[h]) * inv;
}

static void mass_mean(const struct probe_tile *t, const float *inv)
{
	vec weight = vec_splat(t->weight / (float)t->heads);

	for (int32_t c = 0; c < t->n; c += LANES) {
		int32_t n = t->n - c;
		vec x = vec_zero();

		for (int32_t h = 0; h < t->heads; h++)
			x += head_shares(t, h, c, n, inv[h]);
		mass_add(t, c, n, weight, x);
	}
}

/* Add to each key's attention mass the median of its probabilities in all heads. The loop sorts p[] by insertion, for
 * LANES keys at once. vec_min() and vec_max() put two probabilities in order. */
static void mass_median(const struct probe_tile *t, const float *inv)
{
	vec weight = vec_splat(t->weight / 2);

	for (int32_t c = 0; c < t->n; c += LANES) {
		int32_t n = t->n - c;
		vec p[PROBE_HEADS];

		for (int32_t h = 0; h < t->heads; h++) {
			vec x = head_shares(t, h, c, n, inv[h]);

			for (int32_t i = 0; i < h; i++) {
				vec low = vec_min(p[i], x);

				x = vec_max(p[i], x);
				p[i] = low;
			}
			p[h] = x;
		}
		mass_add(t, c, n, weight, p[(t->heads - 1) / 2] + p[t->heads / 2]);
	}
}

static void probe_mass(const struct probe_tile *t)
{
	float inv[PROBE_HEADS];

	if (t->reduce == REDUCE_MAX) {
		mass_max(t);
		return;
	}
	for (int32_t h = 0; h < t->heads; h++)
		inv[h] = 1 / t->l[h];
	if (t->reduce == REDUCE_MEAN)
		mass_mean(t, inv);
	else
		mass_median(t, inv);
}

static void probe_share(float *out, const float *score, int32_t n, float m, float l)
{
	float inv = 1 / l;

	for (int32_t c = 0; c < n; c += LANES)
		vec_store_part(out + c, n - c, score_exp(vec_load_part(score + c, n - c) - m) * inv);
}

static void probe_above(const float *p, int32_t n, float least, float *sum, int32_t *count)
{
	const vec at = vec_splat(least);
	vec s[4] = { vec_zero(), vec_zero(), vec_zero(), vec_zero() };
	int32_t c = 0, found = 0;

	for (; c + 4 * LANES <= n; c += 4 * LANES)
		UNROLL for (int i = 0; i < 4; i++)
		{
			vec x = vec_load(p + c + LANES * i);
			vec_mask above = vec_at_least(x, at);

			s[i] = vec_add_in(above, s[i], x);
			found += __builtin_popcount(mask_bits(above));
		}
	for (; c < n; c += LANES) {
		vec x = vec_load_part(p + c, n - c);
		vec_mask above = vec_at_least(x, at) & mask_first(n - c);

		s[0] = vec_add_in(above, s[0], x);
		found += __builtin_popcount(mask_bits(above));
	}
	*sum = vec_sum((s[0] + s[1]) + (s[2] + s[3]));
	*count = found;
}
#endif

#endif
