/* kernels/cpu/amx_planes.h (private to simd_attn_prompt.h) - products of 16-bit integers by AMX, which multiplies
 * bytes.
 *
 * The 16-bit integers of simd_attn_prompt.h are stored in pairs. In this file they are split into two planes: the low
 * bytes, which are unsigned, and the high bytes, which are signed. Lane i of the low plane has the four low bytes of
 * pairs i and i + LANES. Lane i of the high plane has their four high bytes. The planes are stored in place of these
 * pairs. A product of two integers a and b is computed from their bytes:
 *     a * b = a_low * b_low + 2^8 * (a_low * b_high + a_high * b_low) + 2^16 * a_high * b_high
 * So four instructions multiply N_RUN rows (queries, or their weights) with 16 columns (keys, or dimensions of values).
 * The sums of products are exact modulo 2^32, like the sums of pairs_fma(). */
#ifndef WEIR_CPU_AMX_PLANES_H
#define WEIR_CPU_AMX_PLANES_H

#ifdef PLANES
#include "kernels/cpu/amx_tiles.h"

enum { PLANE_PAIRS = 2 * LANES }; /* number of pairs of a row that planes_split() processes at a time */

/* Set the shapes of this thread's tile registers. tmm0 has the sums of a_low * b_low, tmm1 the sums of a_low * b_high +
 * a_high * b_low, and tmm2 the sums of a_high * b_high. tmm3 and tmm4 have the low and the high plane of the rows. tmm5
 * and tmm6 have those of the columns. */
static void planes_begin(void)
{
	static const struct tile_config t = {
		.palette = 1,
		.bytes = { 64, 64, 64, 64, 64, 64, 64 },
		.rows = { N_RUN, N_RUN, N_RUN, N_RUN, N_RUN, LANES, LANES },
	};

	tiles_begin(&t);
}

/* Split two vectors of pairs, at a and at b, into planes: all low bytes go to a, all high bytes to b. */
INLINE void planes_split(float *a, float *b)
{
	const x86_int low = _mm512_set1_epi16(0xff), x = (x86_int)vec_load(a), y = (x86_int)vec_load(b);

	vec_store(a, (vec)((x & low) | _mm512_slli_epi16(y, 8)));
	vec_store(b, (vec)(_mm512_srli_epi16(x, 8) | _mm512_andnot_si512(low, y)));
}

/* Split a row of n pairs of 16-bit integers into planes of bytes, in place. n is a multiple of PLANE_PAIRS. */
INLINE void planes_of_row(float *row, int32_t n)
{
	for (int32_t i = 0; i < n; i += PLANE_PAIRS)
		planes_split(row + i, row + i + LANES);
}

/* Split the columns of a matrix [n][ld] of pairs of 16-bit integers into planes of bytes, in place. n is a multiple of
 * PLANE_PAIRS. */
static void planes_of_columns(float *rows, int32_t n, int32_t ld)
{
	for (int32_t i = 0; i < n; i++)
		if (i % PLANE_PAIRS < LANES)
			for (int32_t j = 0; j < ld; j += LANES)
				planes_split(rows + (size_t)i * (size_t)ld + j,
				             rows + (size_t)(i + LANES) * (size_t)ld + j);
}

/* Multiply the N_RUN rows at `a` with the LANES columns at `b`. Both are split into planes. A row has n pairs of
 * integers, a multiple of PLANE_PAIRS. sum[0], sum[1] and sum[2] receive the contents of the registers tmm0, tmm1 and
 * tmm2 (see planes_begin()). The indices of sum[i] are row and column. */
INLINE void planes_times(int32_t n, const int32_t *a, size_t a_ld, const float *b, size_t ld,
                         int32_t sum[3][N_RUN][LANES])
{
	__asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2" ::);
	for (int32_t i = 0; i < n; i += PLANE_PAIRS, a += PLANE_PAIRS, b += PLANE_PAIRS * ld)
		__asm__ volatile("tileloadd (%0,%3,1), %%tmm3\n\t"
		                 "tileloadd 64(%0,%3,1), %%tmm4\n\t"
		                 "tileloadd (%1,%4,1), %%tmm5\n\t"
		                 "tileloadd (%2,%4,1), %%tmm6\n\t"
		                 "tdpbuud %%tmm5, %%tmm3, %%tmm0\n\t"
		                 "tdpbusd %%tmm6, %%tmm3, %%tmm1\n\t"
		                 "tdpbssd %%tmm6, %%tmm4, %%tmm2\n\t"
		                 "tdpbsud %%tmm5, %%tmm4, %%tmm1"
		                 :
		                 : "r"(a), "r"(b), "r"(b + LANES * ld), "r"(4 * a_ld), "r"(4 * ld)
		                 : "memory");
	__asm__ volatile("tilestored %%tmm0, (%0,%3,1)\n\t"
	                 "tilestored %%tmm1, (%1,%3,1)\n\t"
	                 "tilestored %%tmm2, (%2,%3,1)"
	                 :
	                 : "r"(sum[0]), "r"(sum[1]), "r"(sum[2]), "r"((size_t)64)
	                 : "memory");
}

/* Multiply the matrix a[N_RUN][n] with the matrix b[n][ld]. Both consist of pairs of 16-bit integers, split into
 * planes. A vector has LANES pairs. For each r < nr and c < nc, sum[r][c] receives the products of row r of `a` with
 * the LANES columns of `b` that begin at column LANES * c. The rows of `a` from nr to N_RUN - 1 are read, too; their
 * sums are not used. */
INLINE void pairs_times(int nr, int nc, int32_t n, const int32_t *a, size_t a_ld, const float *b, size_t ld,
                        vec_int sum[N_RUN][8])
{
	int32_t part[8][3][N_RUN][LANES] __attribute__((aligned(64)));

	UNROLL for (int c = 0; c < nc; c++) planes_times(n, a, a_ld, b + LANES * c, ld, part[c]);
	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int c = 0; c < nc; c++)
	{
		x86_int low = _mm512_load_si512(part[c][0][r]), mixed = _mm512_load_si512(part[c][1][r]);
		x86_int high = _mm512_load_si512(part[c][2][r]);

		high = _mm512_add_epi32(_mm512_slli_epi32(high, 8), mixed);
		sum[r][c] = (vec_int)_mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
	}
}
#endif

#endif
