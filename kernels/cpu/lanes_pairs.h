/* kernels/cpu/lanes_pairs.h (private to the SIMD code) - vectors whose 32-bit lanes hold a pair of 16-bit integers, lo
 * | hi << 16. One instruction multiplies the pairs of two vectors and adds both products in 32 bits, which is twice as
 * many multiply-adds as for floats. PAIRS is 1 where such an instruction exists: AVX2 (vpmaddwd, vpaddd) and AVX-512
 * (vpdpwssd). NEON multiplies 16-bit integers no faster than floats, so PAIRS is 0 for NEON. */
#ifndef WEIR_CPU_LANES_PAIRS_H
#define WEIR_CPU_LANES_PAIRS_H

#include "kernels/cpu/lanes.h"

#if defined(LANES) && defined(__AVX2__)
#define PAIRS 1

/* Return, for each of eight rows of n 16-bit floats, the bits of the row's largest magnitude. */
INLINE __m256i halves_top8(const uint8_t *plane, const size_t off[8], int32_t n)
{
	const __m256i size = _mm256_set1_epi16(0x7fff);
	__m256i top[8];
	__m128i m;

	UNROLL for (int i = 0; i < 8; i++)
	{
		const uint8_t *p = plane + off[i];
		int32_t j = 0;

		top[i] = _mm256_setzero_si256();
		for (; j + 16 <= n; j += 16)
			top[i] =
				_mm256_max_epu16(top[i],
			                         _mm256_and_si256(_mm256_loadu_si256((const void *)(p + 2 * j)), size));
		if (j < n) {
			uint16_t part[16] = { 0 };

			memcpy(part, p + 2 * j, (size_t)(n - j) * 2);
			top[i] = _mm256_max_epu16(top[i],
			                          _mm256_and_si256(_mm256_loadu_si256((const void *)part), size));
		}
	}
	UNROLL for (int i = 0; i < 4; i++) top[i] =
		_mm256_max_epu16(_mm256_unpacklo_epi16(top[i], top[i + 4]), _mm256_unpackhi_epi16(top[i], top[i + 4]));
	UNROLL for (int i = 0; i < 2; i++) top[i] =
		_mm256_max_epu16(_mm256_unpacklo_epi16(top[i], top[i + 2]), _mm256_unpackhi_epi16(top[i], top[i + 2]));
	top[0] = _mm256_max_epu16(_mm256_unpacklo_epi16(top[0], top[1]), _mm256_unpackhi_epi16(top[0], top[1]));
	m = _mm_max_epu16(_mm256_castsi256_si128(top[0]), _mm256_extracti128_si256(top[0], 1));
	return _mm256_cvtepu16_epi32(m);
}

#ifdef __AVX512F__
INLINE vec_int halves_top(const uint8_t *plane, const size_t off[LANES], int32_t n)
{
	return (vec_int)_mm512_inserti64x4(_mm512_castsi256_si512(halves_top8(plane, off, n)),
	                                   halves_top8(plane, off + 8, n), 1);
}

/* Return pairs: in each lane, the low 16 bits of lo, with the low 16 bits of hi above them. */
INLINE vec vec_pairs(vec lo, vec hi)
{
	__m512i h = _mm512_slli_epi32(_mm512_castps_si512(hi), 16);

	return _mm512_castsi512_ps(_mm512_mask_mov_epi16(h, 0x55555555, _mm512_castps_si512(lo)));
}

/* Return sum + (lo of a) * (lo of b) + (hi of a) * (hi of b), in each lane. */
INLINE vec_int pairs_fma(vec_int sum, vec_int a, vec_int b)
{
	return (vec_int)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}
#else
INLINE vec_int halves_top(const uint8_t *plane, const size_t off[LANES], int32_t n)
{
	return (vec_int)halves_top8(plane, off, n);
}

INLINE vec vec_pairs(vec lo, vec hi)
{
	__m256i h = _mm256_slli_epi32(_mm256_castps_si256(hi), 16);

	return _mm256_castsi256_ps(_mm256_blend_epi16(h, _mm256_castps_si256(lo), 0x55));
}

INLINE vec_int pairs_fma(vec_int sum, vec_int a, vec_int b)
{
	return sum + (vec_int)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}
#endif
#endif

#ifndef PAIRS
#define PAIRS 0
#endif

#endif
