/* kernels/cpu/cols.h (private to kernels/) - quantised input of matrix products, arranged for SIMD code. A column is an
 * input row of the product: the activations of one token. A set of columns is arranged once and then multiplied with
 * all rows of the weight.
 *
 * The columns are divided into tiles. For every block of 32 values, a tile of `width` columns has these arrays:
 * - int8 q[width][32]: the values
 * - f32 d[width]: the scales of the values
 * - for weight types with a minimum, f32 ds[halves][width]: scale * sum of q
 * - for weight types with an offset, int32 start[halves][width]: (-offset) * sum of q
 * The last tile is padded with columns of zeros.
 *
 * A block coded in 16 bits also has residuals, the second bytes of its values (lo of struct act). If most blocks have
 * residuals, the residuals become additional columns of the tiles. Otherwise they are arranged as units: a unit has the
 * residuals of a few columns in one block, in the layout of a tile. The results are the same in both cases.
 *
 * Some weight types are multiplied as 16-bit words (pack_format.words). For these, a tile has int16 q[width][32], and
 * there are no residuals: a word is 256 q + lo, and the second and the third of every four words are swapped. d[] has
 * the scales divided by 256. */
#ifndef WEIR_CPU_COLS_H
#define WEIR_CPU_COLS_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/cpu/fns.h"
#include "kernels/cpu/pack.h"

enum {
	COLS_SET = 48,    /* maximum number of columns that are prepared at a time; residual columns are not counted */
	COLS_WIDEST = 16, /* maximum number of columns of a tile, at any level */
	/* maximum number of result columns of a set: its columns, their residual columns, and padding */
	COLS_RESULTS = 2 * COLS_SET + 16,
};

struct cols_unit {
	const uint8_t *p; /* values and scales of the residuals, laid out as a tile of one block */
	int32_t block, width;
	/* [width] the column of the product to which each residual belongs; struct cols.n for padding */
	uint8_t col[COLS_WIDEST];
};

struct cols {
	struct pack_format format; /* describes the weight type for which the columns are arranged */
	int32_t n;                 /* number of columns of the product */
	int32_t blocks;            /* number of blocks of 32 values in a column */
	/* Index of the first result for residuals. The results of a product are stored in this order: n results, one
	 * for each column; from index lo_at on, n results for the residuals of each column; one result for the padding
	 * of units. */
	int32_t lo_at;
	/* 1: the residuals are columns of the tiles; 0: the residuals are arranged as units (struct cols_unit) */
	int32_t lo_tiled;
	int32_t n_tiles, n_units;
	struct {
		const uint8_t *p;
		int32_t width, at;
	} tile[COLS_RESULTS];         /* `at` is the index of a tile's first result */
	const struct cols_unit *unit; /* [n_units] the units, in ascending order of blocks */
};

/* One block of a tile or a unit, as a leaf function reads it. */
struct cols_block {
	const int8_t *q; /* [width][32] values of the columns; int16 if pack_format.words is set */
	const float *d;  /* [width] scales of the columns */
	/* [halves][width] the sum of the values q of each column, already multiplied. For weights with a minimum, it is
	 * the float scale * sum. For weights with an offset, it is the integer -offset * sum. It is not used if
	 * pack_format.words is set. */
	const void *by;
};

static inline __attribute__((always_inline)) struct cols_block cols_block_at(struct pack_format f, const uint8_t *p,
                                                                             int width)
{
	const int values = (f.words ? 64 : 32) * width;

	return (struct cols_block){ (const int8_t *)p, (const float *)(const void *)(p + values),
		                    p + values + 4 * width };
}

/* Return the size of one block in a tile in bytes. */
static inline size_t cols_block_bytes(struct pack_format f, int width)
{
	if (f.words)
		return (size_t)width * 68;
	return (size_t)width * (36 + (f.has_min || f.offset ? 4 * (size_t)f.halves : 0));
}

/* 1 if columns arranged for k->format can also be multiplied with weights of format f */
static inline int cols_serve(const struct cols *k, struct pack_format f)
{
	return k->format.halves == f.halves && k->format.has_min == f.has_min && k->format.offset == f.offset &&
	       k->format.words == f.words;
}

/* Return the size of the scratch memory for a set of COLS_SET columns of `cols` values, in bytes. */
size_t cols_scratch(int32_t cols);
/* Arrange n <= COLS_SET columns of x, from column c0 on. `widths` has the possible numbers of columns in a tile, in
 * ascending order, then 0. `scratch` is 64-byte aligned and must stay valid as long as the columns are used. */
void cols_prepare(struct cols *, struct pack_format, const uint8_t *widths, const struct act *x, int32_t c0, int32_t n,
                  void *scratch);

#endif
