/* kernels/cpu/cols.h (private to kernels/) - quantised input of matrix products, arranged for SIMD code. A column is
 * an input row of the product: the activations of one token. A set of columns is arranged once and then multiplied
 * with all rows of the weight.
 *
 * The columns are cut into tiles. A tile of `width` columns has, for every block of 32 values:
 * - int8 q[width][32]: the values;
 * - f32 d[width]: their scales;
 * - f32 ds[halves][width]: scale * sum of q, for weight types with a minimum. Or int32 start[halves][width]:
 *   (-offset) * sum of q, for weight types with an offset.
 *
 * The last tile is padded with columns of zeros.
 *
 * A block coded in 16 bits also has residuals (lo of struct act). If most blocks have residuals, the residuals are
 * additional columns of the tiles. Otherwise the residuals are arranged as units: a unit has the residuals of a few
 * columns in one block, in the layout of a tile. The results are the same in both cases.
 *
 * For weight types that are multiplied as 16-bit words (pack_format.words), a tile has int16 q[width][32] instead: 256
 * q + lo, with the second and the third of every four values swapped. Then d is scale / 256, and there are no
 * residuals. */
#ifndef WEIR_CPU_COLS_H
#define WEIR_CPU_COLS_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/cpu/fns.h"
#include "kernels/cpu/pack.h"

enum {
	COLS_SET = 48,    /* maximum number of columns that are prepared at a time, without residual columns */
	COLS_WIDEST = 16, /* maximum number of columns of a tile, at any level */
	/* maximum number of result columns of a set: its columns, their residual columns, and padding */
	COLS_RESULTS = 2 * COLS_SET + 16,
};

struct cols_unit {
	const uint8_t *p; /* values and scales of the residuals, laid out as a tile of one block */
	int32_t block, width;
	/* [width]: the column of the product to which each residual belongs; struct cols.n for padding */
	uint8_t col[COLS_WIDEST];
};

struct cols {
	struct pack_format format; /* format of the weights that the columns are prepared for */
	int32_t n;                 /* number of columns of the product */
	int32_t blocks;            /* number of blocks of 32 values in a column */
	/* Index of the first result of a residual column. A product with the set gives n results for the columns. From
	 * lo_at on, it gives n results for the residual columns, and one result for the padding of units. */
	int32_t lo_at;
	int32_t lo_tiled; /* 1 = the tiles contain the residual columns; 0 = residuals are in units */
	int32_t n_tiles, n_units;
	struct {
		const uint8_t *p;
		int32_t width, at;
	} tile[COLS_RESULTS];         /* at: index of the tile's first result */
	const struct cols_unit *unit; /* [n_units]: the units, in ascending order of blocks */
};

/* One block of a tile or a unit, as a leaf function reads it. */
struct cols_block {
	const int8_t *q; /* [width][32]: values of the columns; int16 if pack_format.words is set */
	const float *d;  /* [width]: scales of the columns */
	const void *by;  /* [halves][width]: ds or start, as described above; unused if pack_format.words is set */
};

static inline __attribute__((always_inline)) struct cols_block cols_block_at(struct pack_format f, const uint8_t *p,
                                                                             int width)
{
	const int values = (f.words ? 64 : 32) * width;

	return (struct cols_block){ (const int8_t *)p, (const float *)(const void *)(p + values),
		                    p + values + 4 * width };
}

/* Return the bytes of one block in a tile. */
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

/* Return the bytes of scratch for a set of COLS_SET columns of `cols` values. */
size_t cols_scratch(int32_t cols);
/* Arrange n <= COLS_SET columns of x from c0 on. widths: the possible numbers of columns in a tile, in ascending order,
 * then 0. scratch is 64-byte aligned and must live as long as the columns are used. */
void cols_prepare(struct cols *, struct pack_format, const uint8_t *widths, const struct act *x, int32_t c0, int32_t n,
                  void *scratch);

#endif
