/* kernels/cpu/lanes_x86.h (private to lanes.h) - the vectors of lanes.h on x86: AVX2 with 8 lanes, AVX-512 with 16.
 * vec_min and vec_max return the second argument if either is NaN. A function whose name ends in _part loads or stores
 * only the first n elements, at most LANES; a load sets the other lanes to zero. */
#ifndef WEIR_CPU_LANES_X86_H
#define WEIR_CPU_LANES_X86_H

#ifdef __AVX2__
#include <immintrin.h>

#ifdef __AVX512F__
#define LANES     16
#define REGISTERS 32
#define X86(name) _mm512_##name
typedef __m512 vec;
typedef __m512i x86_int;
typedef __mmask16 vec_mask;
#else
#define LANES     8
#define REGISTERS 16
#define X86(name) _mm256_##name
typedef __m256 vec;
typedef __m256i x86_int;
/* A lane is true if its sign bit is set. mask_count() and vec_add_in() need masks in which all bits of a true lane are
 * set. Comparisons give such masks, but vec_negative() does not. */
typedef __m256i vec_mask;
#endif
typedef int32_t vec_int __attribute__((vector_size(4 * LANES)));
typedef __m256 vec8;
typedef __m256i bytes32;

/* ---- one instruction each ---- */

#define vec_zero            X86(setzero_ps)
#define vec_splat           X86(set1_ps)
#define vec_load            X86(loadu_ps)
#define vec_store           X86(storeu_ps)
#define vec_fma             X86(fmadd_ps) /* a * b + c */
#define vec_fms             X86(fmsub_ps) /* a * b - c */
#define vec_min             X86(min_ps)
#define vec_max             X86(max_ps)
#define vec_of_int(i)       X86(cvtepi32_ps)((x86_int)(i))
#define vec_int_of(x)       ((vec_int)X86(cvtps_epi32)(x))  /* round x to the nearest integer */
#define vec_int_below(x)    ((vec_int)X86(cvttps_epi32)(x)) /* round x towards zero */
#define vec_int_splat(i)    ((vec_int)X86(set1_epi32)(i))
#define vec_int_min(a, b)   ((vec_int)X86(min_epi32)((x86_int)(a), (x86_int)(b)))
#define vec_int_max(a, b)   ((vec_int)X86(max_epi32)((x86_int)(a), (x86_int)(b)))

#define vec8_zero           _mm256_setzero_ps
#define vec8_splat          _mm256_set1_ps
#define vec8_load           _mm256_loadu_ps
#define vec8_store          _mm256_storeu_ps
#define vec8_mul            _mm256_mul_ps
#define vec8_fma            _mm256_fmadd_ps

#define bytes32_store(p, v) _mm256_storeu_si256((void *)(p), v)

/* Prefetch into the first- and the second-level cache. These macros are assembly, because compilers drop a loop that
 * has only _mm_prefetch. */
#define line_fetch(p)       __asm__ volatile("prefetcht0 %0" : : "m"(*(const uint8_t *)(p)))
#define line_fetch_far(p)   __asm__ volatile("prefetcht1 %0" : : "m"(*(const uint8_t *)(p)))
/* Keep x in a register, so that the compiler does not load or compute it again at each use. */
#define IN_REGISTER(x)      __asm__("" : "+v"(x))

/* ---- any width ---- */

INLINE __m256i first8(int32_t n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE vec8 vec8_load_part(const float *p, int32_t n)
{
	return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first8(n));
}

/* Add neighbouring lanes of a, and neighbouring lanes of b. In the result, sums of a and sums of b alternate. Three
 * such steps sum the lanes of eight vectors: vec8_add2, then vec8_add4, then vec8_add8. */
INLINE vec8 vec8_add2(vec8 a, vec8 b)
{
	return _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
}

INLINE vec8 vec8_add4(vec8 a, vec8 b)
{
	__m256d x = _mm256_castps_pd(a), y = _mm256_castps_pd(b);

	return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)), _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
}

INLINE vec8 vec8_add8(vec8 a, vec8 b)
{
	return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

/* Load the codes of the values from j to j + 7 of a q4_0 vector as floats from -8 to 7. */
INLINE vec8 vec8_codes(const uint8_t *row, int32_t j)
{
	__m256i q = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(row + j / 32 * 18 + 2 + j % 16)));

	q = _mm256_and_si256(_mm256_srli_epi32(q, j % 32 / 16 * 4), _mm256_set1_epi32(15));
	return _mm256_cvtepi32_ps(_mm256_sub_epi32(q, _mm256_set1_epi32(8)));
}

/* Load the values from j to j + 7 of a key or value vector as floats. There are n values from j on; lanes after these
 * are zero. q8_0 and q4_0 vectors consist of whole blocks. */
INLINE vec8 vec8_row(enum dtype type, const uint8_t *row, int32_t j, int32_t n)
{
	uint16_t part[8] = { 0 };
	const void *at = row + 2 * (size_t)j;
	__m128i h;

	if (type == DT_Q8_0) {
		const uint8_t *block = row + j / 32 * 34;
		uint16_t d;

		h = _mm_loadl_epi64((const void *)(block + 2 + j % 32));
		memcpy(&d, block, 2);
		return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(h)),
		                     _mm256_cvtph_ps(_mm_set1_epi16((short)d)));
	}
	if (type == DT_Q4_0) {
		uint16_t d;

		memcpy(&d, row + j / 32 * 18, 2);
		return _mm256_mul_ps(vec8_codes(row, j), _mm256_cvtph_ps(_mm_set1_epi16((short)d)));
	}
	if (type == DT_F32)
		return vec8_load_part((const float *)(const void *)row + j, n);
	if (n < 8)
		at = memcpy(part, at, (size_t)n * 2);
	h = _mm_loadu_si128(at);
	return type == DT_F16 ? _mm256_cvtph_ps(h)
	                      : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* Return x times t as complex numbers: two neighbouring lanes are one number. */
INLINE vec vec_complex_mul(vec x, vec t)
{
	return X86(fmaddsub_ps)(x, X86(moveldup_ps)(t), X86(permute_ps)(x, 0xb1) * X86(movehdup_ps)(t));
}

INLINE vec_int vec_int_load(const void *p)
{
	vec_int x;

	memcpy(&x, p, sizeof x);
	return x;
}

/* Set out[0] and out[1] to the sums of the lower and of the upper 16 bytes. */
INLINE void bytes32_half_sums(int32_t out[2], bytes32 v)
{
	__m256i s = _mm256_sad_epu8(_mm256_xor_si256(v, _mm256_set1_epi8((char)0x80)), _mm256_setzero_si256());

	s = _mm256_add_epi64(s, _mm256_shuffle_epi32(s, 0x4e));
	out[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(s)) - 16 * 128;
	out[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(s, 1)) - 16 * 128;
}

INLINE int32_t sum_int8(__m256i x)
{
	__m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* Return the sum of the squares of 32 bytes. The bytes are from -127 to 127, so two squares fit 16 bits. */
INLINE int32_t bytes32_sum_of_squares(bytes32 v)
{
	__m256i size = _mm256_abs_epi8(v);

	return sum_int8(_mm256_madd_epi16(_mm256_maddubs_epi16(size, size), _mm256_set1_epi16(1)));
}

/* Transpose 4 x 4 values within each 128 bits. This is the first half of a transposition. */
INLINE void transpose4(vec out[4], const vec x[4])
{
	vec a[4];

	UNROLL for (int i = 0; i < 2; i++)
	{
		a[i] = X86(unpacklo_ps)(x[2 * i], x[2 * i + 1]);
		a[i + 2] = X86(unpackhi_ps)(x[2 * i], x[2 * i + 1]);
	}
	UNROLL for (int i = 0; i < 4; i += 2)
	{
		out[i] = X86(castpd_ps)(X86(unpacklo_pd)(X86(castps_pd)(a[i]), X86(castps_pd)(a[i + 1])));
		out[i + 1] = X86(castpd_ps)(X86(unpackhi_pd)(X86(castps_pd)(a[i]), X86(castps_pd)(a[i + 1])));
	}
}

#ifdef __AVX512F__
/* ---- AVX-512 ---- */

#define vec_round(x)           _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define vec_times_power        _mm512_scalef_ps /* x * 2^n for integers n; underflow is gradual */
#define vec_select(m, yes, no) _mm512_mask_blend_ps(m, no, yes)
#define vec_add_in(m, a, b)    _mm512_mask_add_ps(a, m, a, b) /* a + b in the lanes of m, a in all other lanes */
#define vec_at_least(x, t)     _mm512_cmp_ps_mask(x, t, _CMP_GE_OQ)
#define vec_negative(x)        _mm512_movepi32_mask((__m512i)(x)) /* the mask of the lanes whose sign bit is set */
#define vec_sum                _mm512_reduce_add_ps
#define vec_largest            _mm512_reduce_max_ps
#define vec_int_sum(x)         _mm512_reduce_add_epi32((__m512i)(x))
#define vec_int_largest(x)     _mm512_reduce_max_epi32((__m512i)(x))
#define LANE_NUMBERS           ((vec_int){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 })
#define mask_bits(m)           ((unsigned)(m))
#define mask_count(c, m)       ((vec_int)_mm512_mask_add_epi32((__m512i)(c), m, (__m512i)(c), _mm512_set1_epi32(1)))

INLINE vec_mask mask_first(int32_t n)
{
	return n >= 16 ? 0xffff : n <= 0 ? 0 : (vec_mask)((1u << n) - 1);
}

INLINE vec vec_load_part(const float *p, int32_t n)
{
	return _mm512_maskz_loadu_ps(mask_first(n), p);
}

INLINE vec vec_load_or(vec other, const float *p, int32_t n)
{
	return _mm512_mask_loadu_ps(other, mask_first(n), p);
}

INLINE void vec_store_part(float *p, int32_t n, vec x)
{
	_mm512_mask_storeu_ps(p, mask_first(n), x);
}

INLINE void vec_store_f16_part(uint16_t *p, int32_t n, vec x)
{
	_mm256_mask_storeu_epi16(p, mask_first(n), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* Do what vec8_codes() does, but load LANES values. */
INLINE vec vec_codes(const uint8_t *row, int32_t j)
{
	__m512i q = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(row + j / 32 * 18 + 2)));

	/* The permutation reads the low four bits of each lane. */
	return _mm512_permutexvar_ps(_mm512_srli_epi32(q, (unsigned)(j % 32 / 16 * 4)),
	                             _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7));
}

/* Do what vec8_row() does, but load LANES values. */
INLINE vec vec_row(enum dtype type, const uint8_t *row, int32_t j, int32_t n)
{
	const void *at = row + 2 * (size_t)j;
	__m256i h;

	if (type == DT_Q8_0) {
		const uint8_t *block = row + j / 32 * 34;
		__m512i q = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(block + 2 + j % 32)));
		uint16_t d;

		memcpy(&d, block, 2);
		return _mm512_cvtepi32_ps(q) * _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128((int)d)));
	}
	if (type == DT_Q4_0) {
		uint16_t d;

		memcpy(&d, row + j / 32 * 18, 2);
		return vec_codes(row, j) * _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128((int)d)));
	}
	if (type == DT_F32)
		return n >= 16 ? vec_load((const float *)(const void *)row + j)
		               : vec_load_part((const float *)(const void *)row + j, n);
	h = n >= 16 ? _mm256_loadu_si256(at) : _mm256_maskz_loadu_epi16(mask_first(n), at);
	return type == DT_F16 ? _mm512_cvtph_ps(h)
	                      : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* Set out[i] to the sum of the lanes of x[i]. */
INLINE void vec_store_sums(float out[4], const vec x[4])
{
	__m256 h[4];

	UNROLL for (int i = 0; i < 4; i++) h[i] =
		_mm256_add_ps(_mm512_castps512_ps256(x[i]), _mm512_extractf32x8_ps(x[i], 1));
	h[0] = _mm256_hadd_ps(_mm256_hadd_ps(h[0], h[1]), _mm256_hadd_ps(h[2], h[3]));
	_mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(h[0]), _mm256_extractf128_ps(h[0], 1)));
}

/* A sum of squares in double. */
struct squares {
	__m512d lo, hi;
};

INLINE void squares_add(struct squares *s, vec x)
{
	__m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(x)), hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));

	s->lo = _mm512_fmadd_pd(lo, lo, s->lo);
	s->hi = _mm512_fmadd_pd(hi, hi, s->hi);
}

INLINE double squares_sum(const struct squares *s)
{
	return _mm512_reduce_add_pd(s->lo + s->hi);
}

/* Split the floats of t0 and t1: the floats at even positions go to *first, the floats at odd positions to *second. */
INLINE void vec_split_pairs(vec t0, vec t1, vec *first, vec *second)
{
	const vec_int even = LANE_NUMBERS * 2;

	*first = _mm512_permutex2var_ps(t0, (__m512i)even, t1);
	*second = _mm512_permutex2var_ps(t0, (__m512i)(even + 1), t1);
}

/* Transpose: set lane k of out[i] to lane i of x[k]. */
INLINE void vec_transpose(vec out[LANES], const vec x[LANES])
{
	vec a[LANES];

	UNROLL for (int i = 0; i < LANES; i += 4) transpose4(a + i, x + i);
	UNROLL for (int i = 0; i < 4; i++)
	{
		vec even0 = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88),
		    even1 = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
		vec odd0 = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd),
		    odd1 = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);

		out[i] = _mm512_shuffle_f32x4(even0, even1, 0x88);
		out[i + 4] = _mm512_shuffle_f32x4(odd0, odd1, 0x88);
		out[i + 8] = _mm512_shuffle_f32x4(even0, even1, 0xdd);
		out[i + 12] = _mm512_shuffle_f32x4(odd0, odd1, 0xdd);
	}
}

/* Narrow 32 integers to bytes: to signed bytes if is_signed is 1, otherwise to unsigned bytes. The values must fit. */
INLINE bytes32 bytes32_of(const vec_int v[2], int is_signed)
{
	(void)is_signed;
	return _mm256_set_m128i(_mm512_cvtepi32_epi8((__m512i)v[1]), _mm512_cvtepi32_epi8((__m512i)v[0]));
}

/* Dot products of unsigned codes (2, 4 or 8 bits, each in a byte) and signed bytes. dots_add() adds four products to
 * each lane; dots_sum() returns the sums. dots_sum() must be called after at most DOTS_MOST units of a key sketch (64
 * bytes each, key_sketch.h) have been added. These units have SKETCH_GROUP values of each key, and the sums of so many
 * products fit the 32-bit lanes. */
struct dots {
	vec_int sum;
};
#define DOTS_MOST(bits) (2 * (bits))

INLINE void dots_add(struct dots *s, int bits, vec_int code, vec_int four)
{
	(void)bits;
	s->sum = (vec_int)_mm512_dpbusd_epi32((__m512i)s->sum, (__m512i)code, (__m512i)four);
}

INLINE vec_int dots_sum(const struct dots *s, int bits)
{
	(void)bits;
	return s->sum;
}

/* For each lane whose bit in the mask `m` is 1, write the lane of the vector `at` to row[] and the lane of the vector
 * `v` to value[], without gaps. Return the number of these lanes. The lanes are compressed in a register first, because
 * a compressing store is slow on some processors. */
INLINE int32_t mask_pick(int32_t *row, float *value, vec_int at, vec v, vec_mask m)
{
	__m512i r = _mm512_maskz_compress_epi32(m, (__m512i)at);
	int32_t n = __builtin_popcount(m);

	v = _mm512_maskz_compress_ps(m, v);
	_mm256_storeu_ps(value, _mm512_castps512_ps256(v));
	_mm256_storeu_si256((void *)row, _mm512_castsi512_si256(r));
	if (n > 8) {
		_mm256_storeu_ps(value + 8, _mm512_extractf32x8_ps(v, 1));
		_mm256_storeu_si256((void *)(row + 8), _mm512_extracti64x4_epi64(r, 1));
	}
	return n;
}

/* Copy to `out` the elements of `row` whose lanes are selected by m, without gaps. Return the number of copied
 * elements. Elements of `out` after these are not written. */
INLINE int32_t mask_keep(int32_t *out, const int32_t *row, vec_mask m)
{
	int32_t n = __builtin_popcount(m);

	_mm512_mask_storeu_epi32(out, mask_first(n), _mm512_maskz_compress_epi32(m, _mm512_maskz_loadu_epi32(m, row)));
	return n;
}

#else
/* ---- AVX2: the operations that are above for AVX-512 ---- */

#define vec_round(x)           _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define vec_select(m, yes, no) _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(m))
#define vec_add_in(m, a, b)    _mm256_add_ps(a, _mm256_and_ps(b, _mm256_castsi256_ps(m)))
#define vec_at_least(x, t)     _mm256_castps_si256(_mm256_cmp_ps(x, t, _CMP_GE_OQ))
#define vec_negative(x)        _mm256_castps_si256(x)
#define vec_int_sum(x)         sum_int8((__m256i)(x))
#define vec_load_part          vec8_load_part
#define vec_row                vec8_row
#define vec_codes              vec8_codes
#define LANE_NUMBERS           ((vec_int){ 0, 1, 2, 3, 4, 5, 6, 7 })
#define mask_first             first8
#define mask_bits(m)           ((unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(m)))
#define mask_count(c, m)       ((c) - (vec_int)(m))

/* vec_sum and vec_largest combine the two halves of the vector, then the halves of the result, then the last two
 * lanes. */
#define ACROSS(name, op)                                                                                               \
	INLINE float name(vec x)                                                                                       \
	{                                                                                                              \
		__m128 s = _mm_##op##_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));                      \
		s = _mm_##op##_ps(s, _mm_movehl_ps(s, s));                                                             \
		return _mm_cvtss_f32(_mm_##op##_ss(s, _mm_movehdup_ps(s)));                                            \
	}
ACROSS(vec_sum, add)
ACROSS(vec_largest, max)

INLINE int32_t vec_int_largest(vec_int x)
{
	__m128i m = _mm_max_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));

	m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
	return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

INLINE vec vec_load_or(vec other, const float *p, int32_t n)
{
	return n >= 8 ? vec_load(p) : vec_select(first8(n), _mm256_maskload_ps(p, first8(n)), other);
}

INLINE void vec_store_part(float *p, int32_t n, vec x)
{
	if (n >= 8)
		vec_store(p, x);
	else
		_mm256_maskstore_ps(p, first8(n), x);
}

INLINE void vec_store_f16_part(uint16_t *p, int32_t n, vec x)
{
	__m128i h = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);

	if (n >= 8)
		_mm_storeu_si128((void *)p, h);
	else
		memcpy(p, &h, (size_t)n * sizeof *p);
}

INLINE void vec_store_sums(float out[4], const vec x[4])
{
	__m256 h = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));

	_mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)));
}

struct squares {
	__m256d lo, hi;
};

INLINE void squares_add(struct squares *s, vec x)
{
	__m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(x)), hi = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));

	s->lo = _mm256_fmadd_pd(lo, lo, s->lo);
	s->hi = _mm256_fmadd_pd(hi, hi, s->hi);
}

INLINE double squares_sum(const struct squares *s)
{
	__m256d x = s->lo + s->hi;

	return (x[0] + x[1]) + (x[2] + x[3]);
}

INLINE void vec_split_pairs(vec t0, vec t1, vec *first, vec *second)
{
	__m256d even = _mm256_castps_pd(_mm256_shuffle_ps(t0, t1, 0x88)),
		odd = _mm256_castps_pd(_mm256_shuffle_ps(t0, t1, 0xdd));

	*first = _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8));
	*second = _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xd8));
}

INLINE void vec_transpose(vec out[LANES], const vec x[LANES])
{
	vec a[LANES];

	UNROLL for (int i = 0; i < LANES; i += 4) transpose4(a + i, x + i);
	UNROLL for (int i = 0; i < 4; i++)
	{
		out[i] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x20);
		out[i + 4] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x31);
	}
}

INLINE bytes32 bytes32_of(const vec_int v[4], int is_signed)
{
	__m256i a = _mm256_packs_epi32((__m256i)v[0], (__m256i)v[1]),
		b = _mm256_packs_epi32((__m256i)v[2], (__m256i)v[3]);

	a = is_signed ? _mm256_packs_epi16(a, b) : _mm256_packus_epi16(a, b);
	return _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* For each mask of four bits, the byte shuffle that moves the selected lanes to the front */
static const uint8_t four_lanes[16][16] __attribute__((aligned(16))) = {
#define LANE(i) 4 * (i), 4 * (i) + 1, 4 * (i) + 2, 4 * (i) + 3
#define FOUR(a, b, c, d)                                                                                               \
	{                                                                                                              \
		LANE(a), LANE(b), LANE(c), LANE(d)                                                                     \
	}
	FOUR(0, 0, 0, 0), FOUR(0, 0, 0, 0), FOUR(1, 0, 0, 0), FOUR(0, 1, 0, 0), FOUR(2, 0, 0, 0), FOUR(0, 2, 0, 0),
	FOUR(1, 2, 0, 0), FOUR(0, 1, 2, 0), FOUR(3, 0, 0, 0), FOUR(0, 3, 0, 0), FOUR(1, 3, 0, 0), FOUR(0, 1, 3, 0),
	FOUR(2, 3, 0, 0), FOUR(0, 2, 3, 0), FOUR(1, 2, 3, 0), FOUR(0, 1, 2, 3),
#undef FOUR
#undef LANE
};

#define PICKS           1
/* For each lane whose bit in the mask `m` is 1, write the lane of the vector `at` to row[] and the lane of the vector
 * `v` to value[], without gaps. Return the number of these lanes. The code has no branches, because the processor could
 * not predict them. */
INLINE int32_t mask_pick(int32_t *row, float *value, vec_int at, vec v, vec_mask m)
{
	unsigned bits = mask_bits(m), low = bits & 15, high = bits >> 4;
	int32_t n = __builtin_popcount(low);
	__m128i front = _mm_load_si128((const void *)four_lanes[low]),
		back = _mm_load_si128((const void *)four_lanes[high]);
	__m256i numbers = (__m256i)at, values = _mm256_castps_si256(v);

	_mm_storeu_si128((void *)row, _mm_shuffle_epi8(_mm256_castsi256_si128(numbers), front));
	_mm_storeu_si128((void *)value, _mm_shuffle_epi8(_mm256_castsi256_si128(values), front));
	_mm_storeu_si128((void *)(row + n), _mm_shuffle_epi8(_mm256_extracti128_si256(numbers, 1), back));
	_mm_storeu_si128((void *)(value + n), _mm_shuffle_epi8(_mm256_extracti128_si256(values, 1), back));
	return n + __builtin_popcount(high);
}

#define LOOKS_UP        1
/* Transpose two units of a key sketch: one unit of panel `one`, and the unit of panel `two` with the same index. row[j]
 * receives byte j of each of 32 keys: first the 16 keys of panel `one`, then the 16 keys of panel `two`. */
INLINE void unit_rows(vec_int row[4], const uint8_t *one, const uint8_t *two)
{
	const __m256i turn = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0, 4, 8, 12, 1, 5,
	                                      9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	__m256i x[4], lo[2], hi[2];

	UNROLL for (int i = 0; i < 4; i++)
	{
		x[i] = _mm256_castsi128_si256(_mm_loadu_si128((const void *)(one + 16 * i)));
		x[i] = _mm256_shuffle_epi8(_mm256_inserti128_si256(x[i], _mm_loadu_si128((const void *)(two + 16 * i)),
		                                                   1),
		                           turn);
	}
	UNROLL for (int i = 0; i < 2; i++)
	{
		lo[i] = _mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
		hi[i] = _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
	}
	row[0] = (vec_int)_mm256_unpacklo_epi64(lo[0], lo[1]);
	row[1] = (vec_int)_mm256_unpackhi_epi64(lo[0], lo[1]);
	row[2] = (vec_int)_mm256_unpacklo_epi64(hi[0], hi[1]);
	row[3] = (vec_int)_mm256_unpackhi_epi64(hi[0], hi[1]);
}

/* Look up each byte of `code` (0 to 15) in a table of 16 bytes. */
INLINE vec_int looked_up(const uint8_t *table, vec_int code)
{
	return (vec_int)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table)),
	                                    (__m256i)code);
}

INLINE vec_int bytes_add(vec_int a, vec_int b)
{
	return (vec_int)_mm256_add_epi8((__m256i)a, (__m256i)b);
}

/* Sums of bytes for 32 keys. Two neighbouring keys share a 16-bit lane. A lane of `odd` is the sum for the second key.
 * A lane of `all` is the sum for the first key + 256 * the sum for the second key, modulo 2^16. */
struct lookups {
	__m256i all, odd;
};

INLINE void lookups_add(struct lookups *s, vec_int bytes)
{
	s->all = _mm256_add_epi16(s->all, (__m256i)bytes);
	s->odd = _mm256_add_epi16(s->odd, _mm256_srli_epi16((__m256i)bytes, 8));
}

/* Set sum[i] to the sums of bytes for the keys from 4 i to 4 i + 3 of both panels. */
INLINE void lookups_sum(vec_int sum[4], const struct lookups *s)
{
	__m256i even = _mm256_sub_epi16(s->all, _mm256_slli_epi16(s->odd, 8)), none = _mm256_setzero_si256();
	__m256i lo = _mm256_unpacklo_epi16(even, s->odd), hi = _mm256_unpackhi_epi16(even, s->odd);

	sum[0] = (vec_int)_mm256_unpacklo_epi16(lo, none);
	sum[1] = (vec_int)_mm256_unpackhi_epi16(lo, none);
	sum[2] = (vec_int)_mm256_unpacklo_epi16(hi, none);
	sum[3] = (vec_int)_mm256_unpackhi_epi16(hi, none);
}

/* Load four half floats (f16) of each of two panels as floats. vec_store_both() stores four floats of each panel. */
INLINE vec vec_both(const uint8_t *one, const uint8_t *two)
{
	return _mm256_cvtph_ps(
		_mm_unpacklo_epi64(_mm_loadl_epi64((const void *)one), _mm_loadl_epi64((const void *)two)));
}

INLINE void vec_store_both(float *one, float *two, vec x)
{
	_mm_storeu_ps(two, _mm256_extractf128_ps(x, 1));
	_mm_storeu_ps(one, _mm256_castps256_ps128(x));
}

/* Dot products of unsigned codes (2, 4 or 8 bits, each in a byte) and signed bytes. Each 32-bit lane has two 16-bit
 * sums, each of half of the products. An eight-bit code is split into two four-bit codes. dots_sum() must be called
 * after at most DOTS_MOST units of the key sketch. With four-bit codes, these units have at most 32 values of each key,
 * which give 16 products for each sum. Such a sum fits 16 bits (15 * 127 * 16 < 2^15). */
struct dots {
	__m256i low, high;
};
#define DOTS_MOST(bits) ((bits) == 2 ? 4 : (bits))

INLINE void dots_add(struct dots *s, int bits, vec_int code, vec_int four)
{
	vec_int low = bits == 8 ? code & 0x0f0f0f0f : code;

	s->low = _mm256_add_epi16(s->low, _mm256_maddubs_epi16((__m256i)low, (__m256i)four));
	if (bits == 8)
		s->high = _mm256_add_epi16(s->high,
		                           _mm256_maddubs_epi16((__m256i)(code >> 4 & 0x0f0f0f0f), (__m256i)four));
}

INLINE vec_int dots_sum(const struct dots *s, int bits)
{
	const __m256i one = _mm256_set1_epi16(1);
	vec_int low = (vec_int)_mm256_madd_epi16(s->low, one);

	return bits == 8 ? low + ((vec_int)_mm256_madd_epi16(s->high, one) << 4) : low;
}
#endif
#endif

#endif
