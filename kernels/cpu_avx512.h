/* kernels/cpu_avx512.h (private to kernels/cpu_avx512*.c) - what the files of the AVX-512 level share. */
#ifndef WEIR_CPU_AVX512_H
#define WEIR_CPU_AVX512_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/cpu_fns.h"

size_t avx512_pack_bytes(enum dtype, int32_t cols);
void avx512_pack(enum dtype, void *panel, const void *rows, size_t row_bytes, int32_t n_rows, int32_t cols);
uint64_t avx512_multiply(int32_t rounds);
extern const uint8_t avx512_widths[];
struct pack_format avx512_format(enum dtype);
void avx512_matmul_panels(enum dtype, const void *panels, int32_t n, const struct cols *, float *out, int32_t ldo);
void avx512_matmul_rows(enum dtype, const void *w, size_t row_bytes, int32_t n_rows, const struct act *x, int32_t c0,
                        int32_t c1, float *out, int32_t ldo);
size_t avx512_attn_scratch(int32_t head_dim, int32_t n_q);
void avx512_attn(const struct attn_tile *);
void avx512_attn_merge(struct attn_state *a, const struct attn_state *b, int32_t head_dim);
void avx512_probe_mass(const struct probe_tile *);
void avx512_probe_share(float *out, const float *score, int32_t n, float m, float l);
void avx512_probe_above(const float *p, int32_t n, float least, float *sum, int32_t *count);

#ifdef __AVX512F__
#include <immintrin.h>

/* exp(x) to about one unit in the last place.  x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial for exp(r), and
 * scalef, which also does the gradual end below and infinity above.  NaN stays NaN. */
static inline __m512 avx512_exp(__m512 x)
{
	__m512 n, r, p;

	/* Past these ends the result no longer changes; min and max pass a NaN in the second place on. */
	x = _mm512_max_ps(_mm512_set1_ps(-110.0f), _mm512_min_ps(_mm512_set1_ps(110.0f), x));
	n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341f)), 8);
	r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145751953125f), x);
	r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860682030941723e-6f), r);
	p = _mm512_set1_ps(1.0f / 720);
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
	return _mm512_scalef_ps(p, n);
}

/* 2^x for x <= 0 to about one and a half units in the last place; 2^0 = 1 exactly.  NaN stays NaN. */
static inline __m512 avx512_exp2(__m512 x)
{
	__m512 n, r, p;

	/* -inf would become NaN below. */
	x = _mm512_max_ps(_mm512_set1_ps(-200.0f), x);
	n = _mm512_roundscale_ps(x, 8);
	r = _mm512_sub_ps(x, n);
	p = _mm512_set1_ps(0.00133822637f);
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.00966734067f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0555037968f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.240223363f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693147182f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
	return _mm512_scalef_ps(p, n);
}

static inline __mmask16 avx512_lanes(int32_t n)
{
	return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}
#endif

#endif
