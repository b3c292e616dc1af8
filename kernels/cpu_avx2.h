/* kernels/cpu_avx2.h (private to kernels/cpu_avx2*.c) - what the files of the AVX2 level share. */
#ifndef WEIR_CPU_AVX2_H
#define WEIR_CPU_AVX2_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/cpu_fns.h"

size_t avx2_pack_bytes(enum dtype, int32_t cols);
void avx2_pack(enum dtype, void *panel, const void *rows, size_t row_bytes, int32_t n_rows, int32_t cols);
uint64_t avx2_multiply(int32_t rounds);
extern const uint8_t avx2_widths[];
struct pack_format avx2_format(enum dtype);
void avx2_matmul_panels(enum dtype, const void *panels, int32_t n, const struct cols *, float *out, int32_t ldo);
void avx2_matmul_rows(enum dtype, const void *w, size_t row_bytes, int32_t n_rows, const struct act *x, int32_t c0,
                      int32_t c1, float *out, int32_t ldo);
size_t avx2_attn_scratch(int32_t head_dim, int32_t n_q);
void avx2_attn(const struct attn_tile *);
void avx2_attn_merge(struct attn_state *a, const struct attn_state *b, int32_t head_dim);
void avx2_probe_mass(const struct probe_tile *);
void avx2_probe_share(float *out, const float *score, int32_t n, float m, float l);
void avx2_probe_above(const float *p, int32_t n, float least, float *sum, int32_t *count);

#ifdef __AVX2__
#include <immintrin.h>

/* Lanes 0 .. n - 1, for maskload and maskstore. */
static inline __m256i avx2_lanes(int32_t n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline float avx2_sum(__m256 x)
{
	__m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));

	s = _mm_add_ps(s, _mm_movehl_ps(s, s));
	return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* 2^n for integers -126 <= n <= 127. */
static inline __m256 avx2_power(__m256i n)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* exp(x) to about one unit in the last place.  x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial for exp(r), and 2^n in
 * two steps so that the gradual end below and infinity above come out by themselves.  NaN stays NaN. */
static inline __m256 avx2_exp(__m256 x)
{
	__m256 n, r, p;
	__m256i i, half;

	/* Past these ends the result no longer changes; min and max pass a NaN in the second place on. */
	x = _mm256_max_ps(_mm256_set1_ps(-110.0f), _mm256_min_ps(_mm256_set1_ps(110.0f), x));
	n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504088896341f)),
	                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693145751953125f), x);
	r = _mm256_fnmadd_ps(n, _mm256_set1_ps(1.42860682030941723e-6f), r);
	p = _mm256_set1_ps(1.0f / 720);
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
	i = _mm256_cvtps_epi32(n);
	half = _mm256_srai_epi32(i, 1);
	return _mm256_mul_ps(_mm256_mul_ps(p, avx2_power(half)), avx2_power(_mm256_sub_epi32(i, half)));
}
#endif

#endif
