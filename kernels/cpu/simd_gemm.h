/* kernels/cpu/simd_gemm.h (private to the SIMD code) - gemm_tile(): one tile of a product of float matrices in host
 * memory (gemm.c); compiled once for each instruction set. A tile has GEMM_ROWS rows of two vectors each. The sums of a
 * tile, two vectors of B and one vector of A stay in registers. */
#ifndef WEIR_CPU_SIMD_GEMM_H
#define WEIR_CPU_SIMD_GEMM_H

#include "kernels/cpu/lanes.h"

#ifdef LANES
enum { GEMM_ROWS = REGISTERS == 16 ? 6 : 12, GEMM_COLS = 2 * LANES };

static void gemm_tile(int32_t k, const float *a, const float *b, float *c, size_t c_row, float alpha, int accumulate)
{
	vec sum[GEMM_ROWS][2], by = vec_splat(alpha);

	UNROLL for (int i = 0; i < GEMM_ROWS; i++) sum[i][0] = sum[i][1] = vec_zero();
	ROLLED for (int32_t p = 0; p < k; p++, a += GEMM_ROWS, b += GEMM_COLS)
	{
		vec b0 = vec_load(b), b1 = vec_load(b + LANES);

		UNROLL for (int i = 0; i < GEMM_ROWS; i++)
		{
			vec x = vec_splat(a[i]);

			sum[i][0] = vec_fma(x, b0, sum[i][0]);
			sum[i][1] = vec_fma(x, b1, sum[i][1]);
		}
	}
	UNROLL for (int i = 0; i < GEMM_ROWS; i++, c += c_row) UNROLL for (int v = 0; v < 2; v++)
		vec_store(c + LANES * v, vec_fma(by, sum[i][v], accumulate ? vec_load(c + LANES * v) : vec_zero()));
}
#endif

#endif
