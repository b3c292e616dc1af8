/* kernels/cpu/simd_float.h (private to the SIMD code) - products with rows of floats: float weights, and vectors of
 * relative positions. Compiled once for each instruction set. Rows are read in place. An output element is computed as LANES interleaved sums, which are added in
 * a fixed order at the end. So its bits do not depend on how many rows and columns are multiplied together. */
#ifndef WEIR_CPU_SIMD_FLOAT_H
#define WEIR_CPU_SIMD_FLOAT_H

#include "kernels/cpu/lanes.h"

#ifdef LANES
enum {
	FLOAT_ROWS = 4,                      /* number of rows that are multiplied together */
	FLOAT_COLS = REGISTERS > 16 ? 6 : 2, /* number of columns that are multiplied with FLOAT_ROWS rows */
};

/* Add to acc[r][c] the products of the LANES values from j on of row r and column c, for nr rows and nc columns. n is
 * the number of values that a row has from j on. */
INLINE void float_step(enum dtype type, int nr, int nc, const uint8_t *w, size_t row_bytes, const float *x,
                       int32_t cols, int32_t j, int32_t n, vec acc[FLOAT_ROWS][FLOAT_COLS])
{
	vec row[FLOAT_ROWS];

	UNROLL for (int r = 0; r < nr; r++) row[r] = vec_row(type, w + (size_t)r * row_bytes, j, n);
	UNROLL for (int c = 0; c < nc; c++)
	{
		vec v = vec_load_part(x + (size_t)c * (size_t)cols + j, n);

		UNROLL for (int r = 0; r < nr; r++) acc[r][c] = vec_fma(row[r], v, acc[r][c]);
	}
}

INLINE void float_tile(enum dtype type, int nr, int nc, const uint8_t *w, size_t row_bytes, const float *x,
                       int32_t cols, float *out, int32_t ldo)
{
	vec acc[FLOAT_ROWS][FLOAT_COLS];
	int32_t j = 0;

	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int c = 0; c < nc; c++) acc[r][c] = vec_zero();
	for (; j + LANES <= cols; j += LANES) {
		rows_fetch(type, nr, w, row_bytes, j);
		float_step(type, nr, nc, w, row_bytes, x, cols, j, LANES, acc);
	}
	if (j < cols)
		float_step(type, nr, nc, w, row_bytes, x, cols, j, cols - j, acc);
	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int c = 0; c < nc; c++)
		out[(size_t)c * (size_t)ldo + (size_t)r] = vec_sum(acc[r][c]);
}

INLINE void float_rows(enum dtype type, const uint8_t *w, size_t row_bytes, int32_t n_rows, const struct act *x,
                       int32_t c0, int32_t c1, float *out, int32_t ldo)
{
	int32_t cols = x->cols, r = 0;

	for (; r + FLOAT_ROWS <= n_rows; r += FLOAT_ROWS, w += FLOAT_ROWS * row_bytes) {
		int32_t c = c0;

		for (; c + FLOAT_COLS <= c1; c += FLOAT_COLS)
			float_tile(type, FLOAT_ROWS, FLOAT_COLS, w, row_bytes, x->x + (size_t)c * (size_t)cols, cols,
			           out + (size_t)c * (size_t)ldo + r, ldo);
		for (; c < c1; c++)
			float_tile(type, FLOAT_ROWS, 1, w, row_bytes, x->x + (size_t)c * (size_t)cols, cols,
			           out + (size_t)c * (size_t)ldo + r, ldo);
	}
	for (; r < n_rows; r++, w += row_bytes)
		for (int32_t c = c0; c < c1; c++)
			float_tile(type, 1, 1, w, row_bytes, x->x + (size_t)c * (size_t)cols, cols,
			           out + (size_t)c * (size_t)ldo + r, ldo);
}

static void matmul_rows(enum dtype type, const void *w, size_t row_bytes, int32_t n_rows, const struct act *x,
                        int32_t c0, int32_t c1, float *out, int32_t ldo)
{
	switch (type) {
	case DT_F32: float_rows(DT_F32, w, row_bytes, n_rows, x, c0, c1, out, ldo); break;
	case DT_F16: float_rows(DT_F16, w, row_bytes, n_rows, x, c0, c1, out, ldo); break;
	case DT_BF16: float_rows(DT_BF16, w, row_bytes, n_rows, x, c0, c1, out, ldo); break;
	default: break; /* every quantised type is packed */
	}
}

enum { RELATIVE_PAIRS = REGISTERS > 16 ? 8 : 4 }; /* number of sums that are computed together */

/* Compute the scores of query i + p and key j + p for p < n_pairs. These pairs have the same relative position. */
INLINE void relative_pairs(const struct relative_tile *t, int n_pairs, int32_t i, int32_t j)
{
	size_t at = (size_t)t->row[i - j] * t->stride;
	const float *q = t->q + (size_t)i * t->stride, *k = t->k + (size_t)j * t->stride;
	vec sum[RELATIVE_PAIRS];

	UNROLL for (int p = 0; p < n_pairs; p++) sum[p] = vec_zero();
	for (int32_t d = 0; d < t->dim; d += LANES) {
		int32_t n = t->dim - d;
		vec key = vec_load_part(t->keys + at + d, n), query = vec_load_part(t->queries + at + d, n);

		UNROLL for (int p = 0; p < n_pairs; p++)
		{
			size_t row = (size_t)p * t->stride + (size_t)d;

			sum[p] = vec_fma(vec_load_part(q + row, n), key, sum[p]);
			sum[p] = vec_fma(vec_load_part(k + row, n), query, sum[p]);
		}
	}
	UNROLL for (int p = 0; p < n_pairs; p++) t->out[(size_t)(i + p) * t->out_stride + (size_t)(j + p)] =
		t->scale * vec_sum(sum[p]);
}

/* The pairs of one relative position are computed one after the other, so that its vectors are read from the memory
 * once. */
static void relative(const struct relative_tile *t)
{
	for (int32_t d = t->first - t->n + 1; d < t->last; d++) {
		int32_t i = MAX(t->first, d), end = MIN(t->last, t->n + d);

		for (; i + RELATIVE_PAIRS <= end; i += RELATIVE_PAIRS)
			relative_pairs(t, RELATIVE_PAIRS, i, i - d);
		for (; i < end; i++)
			relative_pairs(t, 1, i, i - d);
	}
}
#endif

#endif
