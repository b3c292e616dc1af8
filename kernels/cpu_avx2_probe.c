/* kernels/cpu_avx2_probe.c - what tokens looked at, AVX2. */
#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <math.h>
#include "kernels/cpu_avx2.h"

#define INLINE static inline __attribute__((always_inline))

INLINE __m256 load(const float *x, int32_t n)
{
	return n >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, avx2_lanes(n));
}

INLINE void store(float *out, int32_t n, __m256 x)
{
	if (n >= 8)
		_mm256_storeu_ps(out, x);
	else
		_mm256_maskstore_ps(out, avx2_lanes(n), x);
}

/* The largest of p_h = exp(s - m_h) / l_h is one power: that of the largest s - (m_h + log l_h). */
static void mass_max(const struct probe_tile *t)
{
	float least[PROBE_HEADS];
	__m256 weight = _mm256_set1_ps(t->weight);

	for (int32_t h = 0; h < t->heads; h++)
		least[h] = (float)(t->m[h] + log((double)t->l[h]));
	for (int32_t c = 0; c < t->n; c += 8) {
		__m256 x = _mm256_sub_ps(load(t->score + c, t->n - c), _mm256_set1_ps(least[0]));

		for (int32_t h = 1; h < t->heads; h++)
			x = _mm256_max_ps(x, _mm256_sub_ps(load(t->score + (size_t)h * t->stride + c, t->n - c),
			                                   _mm256_set1_ps(least[h])));
		store(t->out + c, t->n - c, _mm256_fmadd_ps(weight, avx2_exp(x), load(t->out + c, t->n - c)));
	}
}

INLINE __m256 share8(const struct probe_tile *t, int32_t h, int32_t c, float inv)
{
	__m256 s = load(t->score + (size_t)h * t->stride + c, t->n - c);

	return _mm256_mul_ps(avx2_exp(_mm256_sub_ps(s, _mm256_set1_ps(t->m[h]))), _mm256_set1_ps(inv));
}

static void mass_mean(const struct probe_tile *t, const float *inv)
{
	__m256 weight = _mm256_set1_ps(t->weight / (float)t->heads);

	for (int32_t c = 0; c < t->n; c += 8) {
		__m256 x = _mm256_setzero_ps();

		for (int32_t h = 0; h < t->heads; h++)
			x = _mm256_add_ps(x, share8(t, h, c, inv[h]));
		store(t->out + c, t->n - c, _mm256_fmadd_ps(weight, x, load(t->out + c, t->n - c)));
	}
}

/* Sorted by insertion, eight columns at once: min and max move a value to its place. */
static void mass_median(const struct probe_tile *t, const float *inv)
{
	__m256 weight = _mm256_set1_ps(t->weight / 2);

	for (int32_t c = 0; c < t->n; c += 8) {
		__m256 p[PROBE_HEADS], x;

		for (int32_t h = 0; h < t->heads; h++) {
			x = share8(t, h, c, inv[h]);
			for (int32_t i = 0; i < h; i++) {
				__m256 low = _mm256_min_ps(p[i], x);

				x = _mm256_max_ps(p[i], x);
				p[i] = low;
			}
			p[h] = x;
		}
		x = _mm256_add_ps(p[(t->heads - 1) / 2], p[t->heads / 2]);
		store(t->out + c, t->n - c, _mm256_fmadd_ps(weight, x, load(t->out + c, t->n - c)));
	}
}

void avx2_probe_mass(const struct probe_tile *t)
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

void avx2_probe_share(float *out, const float *score, int32_t n, float m, float l)
{
	__m256 inv = _mm256_set1_ps(1 / l), most = _mm256_set1_ps(m);

	for (int32_t c = 0; c < n; c += 8)
		store(out + c, n - c, _mm256_mul_ps(avx2_exp(_mm256_sub_ps(load(score + c, n - c), most)), inv));
}

void avx2_probe_above(const float *p, int32_t n, float least, float *sum, int32_t *count)
{
	__m256 at = _mm256_set1_ps(least), s[4];
	int32_t c = 0, found = 0;

	for (int i = 0; i < 4; i++)
		s[i] = _mm256_setzero_ps();
	for (; c + 32 <= n; c += 32)
		for (int i = 0; i < 4; i++) {
			__m256 x = _mm256_loadu_ps(p + c + 8 * i), above = _mm256_cmp_ps(x, at, _CMP_GE_OQ);

			s[i] = _mm256_add_ps(s[i], _mm256_and_ps(x, above));
			found += __builtin_popcount((unsigned)_mm256_movemask_ps(above));
		}
	for (; c < n; c += 8) {
		__m256 seen = _mm256_castsi256_ps(avx2_lanes(n - c)), x = load(p + c, n - c);
		__m256 above = _mm256_and_ps(seen, _mm256_cmp_ps(x, at, _CMP_GE_OQ));

		s[0] = _mm256_add_ps(s[0], _mm256_and_ps(x, above));
		found += __builtin_popcount((unsigned)_mm256_movemask_ps(above));
	}
	*sum = avx2_sum(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
	*count = found;
}
#else
typedef int weir_no_avx2_probe;              /* a C file must hold something */
#endif
