/* kernels/cpu_avx512_probe.c - what tokens looked at, AVX-512.
 *
 * Scores are in powers of two, as cpu_avx512_attn.c leaves them. */
#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <math.h>
#include "kernels/cpu_avx512.h"

#define INLINE static inline __attribute__((always_inline))

/* The largest of p_h = 2^(s - m_h) / l_h is one power: that of the largest s - (m_h + log2 l_h). */
static void mass_max(const struct probe_tile *t)
{
	float least[PROBE_HEADS];
	__m512 weight = _mm512_set1_ps(t->weight);

	for (int32_t h = 0; h < t->heads; h++)
		least[h] = (float)(t->m[h] + log2((double)t->l[h]));
	for (int32_t c = 0; c < t->n; c += 16) {
		__mmask16 mask = avx512_lanes(t->n - c);
		__m512 x = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, t->score + c), _mm512_set1_ps(least[0]));

		for (int32_t h = 1; h < t->heads; h++)
			x = _mm512_max_ps(x, _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, t->score + (size_t)h * t->stride + c),
			                                   _mm512_set1_ps(least[h])));
		x = _mm512_fmadd_ps(weight, avx512_exp2(x), _mm512_maskz_loadu_ps(mask, t->out + c));
		_mm512_mask_storeu_ps(t->out + c, mask, x);
	}
}

INLINE __m512 share16(const struct probe_tile *t, int32_t h, int32_t c, __mmask16 mask, float inv)
{
	__m512 s = _mm512_maskz_loadu_ps(mask, t->score + (size_t)h * t->stride + c);

	return _mm512_mul_ps(avx512_exp2(_mm512_sub_ps(s, _mm512_set1_ps(t->m[h]))), _mm512_set1_ps(inv));
}

static void mass_mean(const struct probe_tile *t, const float *inv)
{
	__m512 weight = _mm512_set1_ps(t->weight / (float)t->heads);

	for (int32_t c = 0; c < t->n; c += 16) {
		__mmask16 mask = avx512_lanes(t->n - c);
		__m512 x = _mm512_setzero_ps();

		for (int32_t h = 0; h < t->heads; h++)
			x = _mm512_add_ps(x, share16(t, h, c, mask, inv[h]));
		x = _mm512_fmadd_ps(weight, x, _mm512_maskz_loadu_ps(mask, t->out + c));
		_mm512_mask_storeu_ps(t->out + c, mask, x);
	}
}

/* Sorted by insertion, sixteen columns at once: min and max move a value to its place. */
static void mass_median(const struct probe_tile *t, const float *inv)
{
	__m512 weight = _mm512_set1_ps(t->weight / 2);

	for (int32_t c = 0; c < t->n; c += 16) {
		__mmask16 mask = avx512_lanes(t->n - c);
		__m512 p[PROBE_HEADS], x;

		for (int32_t h = 0; h < t->heads; h++) {
			x = share16(t, h, c, mask, inv[h]);
			for (int32_t i = 0; i < h; i++) {
				__m512 low = _mm512_min_ps(p[i], x);

				x = _mm512_max_ps(p[i], x);
				p[i] = low;
			}
			p[h] = x;
		}
		x = _mm512_add_ps(p[(t->heads - 1) / 2], p[t->heads / 2]);
		x = _mm512_fmadd_ps(weight, x, _mm512_maskz_loadu_ps(mask, t->out + c));
		_mm512_mask_storeu_ps(t->out + c, mask, x);
	}
}

void avx512_probe_mass(const struct probe_tile *t)
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

void avx512_probe_share(float *out, const float *score, int32_t n, float m, float l)
{
	__m512 inv = _mm512_set1_ps(1 / l), most = _mm512_set1_ps(m);

	for (int32_t c = 0; c < n; c += 16) {
		__mmask16 mask = avx512_lanes(n - c);
		__m512 x = avx512_exp2(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, score + c), most));

		_mm512_mask_storeu_ps(out + c, mask, _mm512_mul_ps(x, inv));
	}
}

void avx512_probe_above(const float *p, int32_t n, float least, float *sum, int32_t *count)
{
	__m512 at = _mm512_set1_ps(least), s[4];
	int32_t c = 0, found = 0;

	for (int i = 0; i < 4; i++)
		s[i] = _mm512_setzero_ps();
	for (; c + 64 <= n; c += 64)
		for (int i = 0; i < 4; i++) {
			__m512 x = _mm512_loadu_ps(p + c + 16 * i);
			__mmask16 above = _mm512_cmp_ps_mask(x, at, _CMP_GE_OQ);

			s[i] = _mm512_mask_add_ps(s[i], above, s[i], x);
			found += __builtin_popcount(above);
		}
	for (; c < n; c += 16) {
		__mmask16 mask = avx512_lanes(n - c);
		__m512 x = _mm512_maskz_loadu_ps(mask, p + c);
		__mmask16 above = _mm512_mask_cmp_ps_mask(mask, x, at, _CMP_GE_OQ);

		s[0] = _mm512_mask_add_ps(s[0], above, s[0], x);
		found += __builtin_popcount(above);
	}
	*sum = _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
	*count = found;
}
#else
typedef int weir_no_avx512_probe;            /* a C file must hold something */
#endif
