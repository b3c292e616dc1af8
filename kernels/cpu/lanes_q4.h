/* kernels/cpu/lanes_q4.h (private to the SIMD code) - dot products of a query with keys of q4_0, in integers; only for
 * x86.
 *
 * A query is rounded to signed bytes with one factor. The query is transformed like the keys (Hadamard), so none of its
 * values is far above the others. The rounding error of a query is therefore small compared with the rounding error of
 * a key in four bits. A dot product is exact within a block of 32 values, and blocks are added in floats in ascending
 * order. So the bits of a score depend only on its query and key. */
#ifndef WEIR_CPU_LANES_Q4_H
#define WEIR_CPU_LANES_Q4_H

#include "kernels/cpu/lanes.h"

#if defined(LANES) && defined(__AVX2__)
#define Q4_DOTS 1

/* Layout of a query that is coded as signed bytes. For every two blocks (64 values), it has:
 * - 32 bytes: values 0 .. 15 of both blocks
 * - 32 bytes: values 16 .. 31 of both blocks
 * - eight 32-bit integers: initial values of the sums of q4_dot()
 *
 * At the end is a float, the factor that converts the bytes to values. */
enum { Q4_PAIR = 96 };
INLINE size_t q4_query_bytes(int32_t dim)
{
	return (size_t)(dim + 63) / 64 * Q4_PAIR + sizeof(float);
}

/* Return the factor of a coded query's bytes. */
INLINE float q4_unit(const uint8_t *query, int32_t dim)
{
	float unit;

	memcpy(&unit, query + q4_query_bytes(dim) - sizeof unit, sizeof unit);
	return unit;
}

/* Unpack a block of q4_0 to codes from 0 to 15. If `two` is 1, also unpack the block after it. code[0] has values 0 to
 * 15 of both blocks, code[1] has values 16 to 31. */
INLINE void q4_codes(const uint8_t *block, int two, bytes32 code[2])
{
	const __m256i low = _mm256_set1_epi8(15);
	__m128i first = _mm_loadu_si128((const void *)(block + 2));
	__m256i x = two ? _mm256_set_m128i(_mm_loadu_si128((const void *)(block + 20)), first)
	                : _mm256_set_m128i(_mm_setzero_si128(), first);

	code[0] = _mm256_and_si256(x, low);
	code[1] = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
}

/* Return the scale of the block in lanes 0 to 3. If `two` is 1, return the scale of the block after it in lanes 4 to 7;
 * otherwise these lanes are 0. */
INLINE vec8 q4_scales(const uint8_t *block, int two)
{
	uint16_t d[2] = { 0 };

	memcpy(d, block, 2);
	if (two)
		memcpy(d + 1, block + 18, 2);
	return _mm256_cvtph_ps(_mm_unpacklo_epi64(_mm_set1_epi16((short)d[0]), _mm_set1_epi16((short)d[1])));
}

/* Add the products of codes and the query's bytes q[64] to the lanes of `sum`. Lanes 0 to 3 are for the first block,
 * lanes 4 to 7 for the second. */
INLINE __m256i q4_dot(__m256i sum, const bytes32 code[2], const void *q)
{
	const __m256i *b = q;
#ifdef __AVX512F__
	return _mm256_dpbusd_epi32(_mm256_dpbusd_epi32(sum, code[0], _mm256_loadu_si256(b)), code[1],
	                           _mm256_loadu_si256(b + 1));
#else
	/* at most 4 * 15 * 127, which fits 16 bits */
	__m256i x = _mm256_add_epi16(_mm256_maddubs_epi16(code[0], _mm256_loadu_si256(b)),
	                             _mm256_maddubs_epi16(code[1], _mm256_loadu_si256(b + 1)));

	return _mm256_add_epi32(sum, _mm256_madd_epi16(x, _mm256_set1_epi16(1)));
#endif
}

/* Encode a query of `dim` values as signed bytes (layout: top of this file). If a value is NaN or infinite, the factor
 * of the bytes becomes NaN, so all scores become NaN. */
static void q4_query(uint8_t *out, const float *x, int32_t dim)
{
	const bytes32 eight[2] = { _mm256_set1_epi8(8), _mm256_set1_epi8(8) };
	vec most = vec_zero(), bad = vec_zero();
	float top, unit;

	for (int32_t j = 0; j < dim; j += LANES) {
		vec v = vec_load(x + j);

		most = vec_max(vec_max(v, vec_zero() - v), most);
		bad = vec_fma(v, vec_zero(), bad);
	}
	top = vec_largest(most);
	unit = top / 127 + vec_sum(bad);
	memset(out, 0, q4_query_bytes(dim) - sizeof unit);
	memcpy(out + q4_query_bytes(dim) - sizeof unit, &unit, sizeof unit);
	/* The values of a query below 1e-30 count as zeros. */
	top = top > 1e-30f && top < INFINITY ? 127 / top : 0;
	for (int32_t j = 0; j < dim; j += 32) {
		vec_int v[32 / LANES];
		bytes32 q;
		uint8_t *to = out + j / 64 * Q4_PAIR + j % 64 / 2;

		UNROLL for (int i = 0; i < 32 / LANES; i++) v[i] = vec_int_of(vec_load(x + j + LANES * i) * top);
		q = bytes32_of(v, 1);
		_mm_storeu_si128((void *)to, _mm256_castsi256_si128(q));
		_mm_storeu_si128((void *)(to + 32), _mm256_extracti128_si256(q, 1));
	}
	/* The value of a q4_0 key is its code - 8, but q4_dot() multiplies the codes. So the sums of q4_dot() begin
	 * with -8 times the sums of the query's bytes. */
	for (uint8_t *pair = out; pair + Q4_PAIR <= out + q4_query_bytes(dim) - sizeof unit; pair += Q4_PAIR)
		_mm256_storeu_si256((void *)(pair + 64), _mm256_sub_epi32(_mm256_setzero_si256(),
		                                                          q4_dot(_mm256_setzero_si256(), eight, pair)));
}

/* Compute eight partial sums of the dot product of one key with each of nr queries, which are coded as bytes. A query
 * begins `stride` bytes after the query before it. */
INLINE void q4_chains(int nr, int32_t dim, const uint8_t *row, const uint8_t *query, size_t stride, vec8 *s)
{
	int32_t j = 0;

	ROLLED do
	{
		const int two = dim - j > 32;
		const vec8 scale = q4_scales(row, two);
		bytes32 code[2];

		q4_codes(row, two, code);
		UNROLL for (int r = 0; r < nr; r++)
		{
			const uint8_t *q = query + (size_t)r * stride;
			vec8 x = _mm256_cvtepi32_ps(q4_dot(_mm256_loadu_si256((const void *)(q + 64)), code, q));

			s[r] = j ? vec8_fma(x, scale, s[r]) : vec8_mul(x, scale);
		}
		row += 36;
		query += Q4_PAIR;
	}
	while ((j += 64) < dim)
		;
}

/* Compute the scores of four keys for each of nr queries. The eight partial sums of q4_chains() are added across lanes
 * as in four_scores64(): s[r] then has two partial sums for each key. */
INLINE void q4_four(int nr, int32_t dim, const uint8_t *const rows[4], const uint8_t *query, size_t stride, vec8 *s)
{
	vec8 a[4], b[4];

	q4_chains(nr, dim, rows[0], query, stride, a);
	q4_chains(nr, dim, rows[1], query, stride, b);
	UNROLL for (int r = 0; r < nr; r++) s[r] = vec8_add2(a[r], b[r]);
	q4_chains(nr, dim, rows[2], query, stride, a);
	q4_chains(nr, dim, rows[3], query, stride, b);
	UNROLL for (int r = 0; r < nr; r++) s[r] = vec8_add4(s[r], vec8_add2(a[r], b[r]));
}
#elif defined(LANES)
/* Other processors multiply q4_0 keys as floats. */
#define Q4_DOTS 0
INLINE size_t q4_query_bytes(int32_t dim)
{
	(void)dim;
	return 0;
}
INLINE float q4_unit(const uint8_t *query, int32_t dim)
{
	(void)query;
	(void)dim;
	return 0;
}
INLINE void q4_four(int nr, int32_t dim, const uint8_t *const rows[4], const uint8_t *query, size_t stride, vec8 *s)
{
	(void)nr;
	(void)dim;
	(void)rows;
	(void)query;
	(void)stride;
	(void)s;
}
static void q4_query(uint8_t *out, const float *x, int32_t dim)
{
	(void)out;
	(void)x;
	(void)dim;
}
#endif

#endif
