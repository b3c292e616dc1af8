/* kernels/cpu/lanes.h (private to the SIMD code) - vectors of LANES floats, for any instruction set. The compiler flags
 * of the including file decide the width of a vector.
 *
 * The operators + - * / & | << >> work on vectors as on numbers. lanes_x86.h and lanes_neon.h, included below, define
 * all other operations, the constants LANES (floats in a vector) and REGISTERS (number of vector registers), and
 * these types:
 * - vec, vec_int: a vector of floats; of 32-bit integers.
 * - vec_mask: true or false for each lane.
 * - vec8: eight floats, whatever LANES is; no operators.
 * - bytes32: 32 quantised activations.
 * - struct dots: sums of byte products.
 *
 * Sums across lanes depend on LANES, so instruction sets with different vectors sum floats in different orders. */
#ifndef WEIR_CPU_LANES_H
#define WEIR_CPU_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "kernels/cpu/fns.h"

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__ /* clang ignores "GCC unroll" without a warning */
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#define ROLLED _Pragma("GCC unroll 1")
#endif

enum { LINE = 64 }; /* bytes of a cache line */

#include "kernels/cpu/lanes_x86.h"
#include "kernels/cpu/lanes_neon.h"

#ifdef LANES
#ifndef __AVX512F__
/* ---- operations for which AVX-512 has instructions (lanes_x86.h) ---- */

/* Return 2^n, for -126 <= n <= 127. */
INLINE vec power(vec_int n)
{
	return (vec)((n + 127) << 23);
}

INLINE vec vec_times_power(vec x, vec n)
{
	vec_int i = vec_int_of(n), half = i >> 1;

	return x * power(half) * power(i - half);
}

#ifndef PICKS
INLINE int32_t mask_pick(int32_t *row, float *value, vec_int at, vec v, vec_mask m)
{
	int32_t n = 0;

	for (unsigned bits = mask_bits(m); bits; bits &= bits - 1, n++) {
		row[n] = at[__builtin_ctz(bits)];
		value[n] = v[__builtin_ctz(bits)];
	}
	return n;
}
#endif

INLINE int32_t mask_keep(int32_t *out, const int32_t *row, vec_mask m)
{
	int32_t n = 0;

	for (unsigned bits = mask_bits(m); bits; bits &= bits - 1)
		out[n++] = row[__builtin_ctz(bits)];
	return n;
}
#endif

INLINE size_t kv_row_bytes(enum dtype type, int32_t dim)
{
	return type == DT_F32    ? (size_t)dim * 4
	       : type == DT_Q8_0 ? (size_t)dim / 32 * 34
	       : type == DT_Q4_0 ? (size_t)dim / 32 * 18
	                         : (size_t)dim * 2;
}

/* Prefetch for a product that reads nr rows of float weights in parallel and has reached column j. The hardware
 * prefetcher cannot follow nr rows that are shorter than LONG_ROW bytes. In this case, prefetch the nr rows after these
 * rows in memory, which makes the product 1.5 times as fast. For longer rows, prefetch the same rows, LONG_ROW bytes
 * ahead. */
INLINE void rows_fetch(enum dtype type, int nr, const uint8_t *w, size_t row_bytes, int32_t j)
{
	enum { LONG_ROW = 4096 };
	const size_t at = (size_t)j * (type == DT_F32 ? 4 : 2);

	if (at % 64 != 0)
		return;
	UNROLL for (int r = 0; r < nr; r++)
		line_fetch(w + (row_bytes < LONG_ROW ? (size_t)nr * (row_bytes + at) + 64 * (size_t)r
	                                             : (size_t)r * row_bytes + at + LONG_ROW));
}

/* Return n rounded up to a multiple of the vector length. */
INLINE size_t lanes_round(int32_t n)
{
	return ((size_t)n + LANES - 1) & ~(size_t)(LANES - 1);
}

/* Return exp(x), with an error of about one unit in the last place. Write x = n ln 2 + r with |r| <= ln 2 / 2; the
 * result is 2^n times a polynomial for exp(r). The result underflows gradually and overflows to infinity. NaN stays
 * NaN. */
INLINE vec vec_exp(vec x)
{
	vec n, r, p;

	/* Outside of these limits, exp(x) is 0 or infinity anyway. vec_min and vec_max return a NaN if it is the second
	 * argument, so x is the second argument. */
	x = vec_max(vec_splat(-110.0f), vec_min(vec_splat(110.0f), x));
	n = vec_round(x * 1.44269504088896341f);
	r = vec_fma(n, vec_splat(-0.693145751953125f), x);
	r = vec_fma(n, vec_splat(-1.42860682030941723e-6f), r);
	p = vec_splat(1.0f / 720);
	p = vec_fma(p, r, vec_splat(1.0f / 120));
	p = vec_fma(p, r, vec_splat(1.0f / 24));
	p = vec_fma(p, r, vec_splat(1.0f / 6));
	p = vec_fma(p, r, vec_splat(0.5f));
	p = vec_fma(p, r, vec_splat(1.0f));
	p = vec_fma(p, r, vec_splat(1.0f));
	return vec_times_power(p, n);
}

/* Return 2^x for x <= 0, with an error of about 1.5 units in the last place; 2^0 = 1 exactly. NaN stays NaN. */
INLINE vec vec_exp2(vec x)
{
	vec n, r, p;

	/* Without this limit, the subtraction below would change -inf to NaN. */
	x = vec_max(vec_splat(-200.0f), x);
	n = vec_round(x);
	r = x - n;
	p = vec_splat(0.00133822637f);
	p = vec_fma(p, r, vec_splat(0.00966734067f));
	p = vec_fma(p, r, vec_splat(0.0555037968f));
	p = vec_fma(p, r, vec_splat(0.240223363f));
	p = vec_fma(p, r, vec_splat(0.693147182f));
	p = vec_fma(p, r, vec_splat(1.0f));
	return vec_times_power(p, n);
}

/* Unit of the scores in attn_state and attn_tile. A probability is score_exp(score - m) / l. */
#ifdef __AVX512F__
/* scores are multiplied by log2(e), so that a probability is 2^(score - m) / l */
#define SCORE_UNIT 1.44269504088896341f

INLINE vec score_exp(vec x)
{
	return vec_exp2(x);
}

INLINE double score_log(double x)
{
	return log2(x);
}
#else
#define SCORE_UNIT 1.0f /* scores are not multiplied: a probability is e^(score - m) / l */

INLINE vec score_exp(vec x)
{
	return vec_exp(x);
}

INLINE double score_log(double x)
{
	return log(x);
}
#endif
#endif

#endif
