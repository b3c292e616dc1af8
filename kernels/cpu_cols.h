/* kernels/cpu_cols.h (private to kernels/) - quantised columns of a product, arranged for the level's kernels.
 *
 * A product walks over many panels with the same columns.  What the kernels need of a column per block (its values, its
 * scale, the factor of a minimum, where integer sums start) is worked out once per set of columns here and laid out so
 * that everything of one block lies at constant distances from one pointer: a kernel then spends its instructions on
 * multiplying.
 *
 * The columns are cut into tiles.  A tile of `width` columns has for every block
 *
 *     int8  q[width][32]       values of the block
 *     f32   d[width]           scale
 *     f32   ds[halves][width]  scale * sum of q: types with a minimum;   or
 *     int32 start[halves][width]   - offset * sum of q: types with an offset
 *
 * Columns that the last tile lacks are zeros.  Low planes (struct act) come in one of two ways, which give the same bits:
 * as further columns, when most blocks are wide, or as units, each a few columns that are wide in one block. */
#ifndef WEIR_CPU_COLS_H
#define WEIR_CPU_COLS_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/cpu_fns.h"
#include "kernels/cpu_pack.h"

enum {
	COLS_SET = 48,               /* columns prepared at a time, planes not counted */
	COLS_UNIT = 8,               /* columns of a unit of wide blocks */
	COLS_RESULTS = 2 * COLS_SET + 16,   /* of a set: columns, low planes, padding */
};

struct cols_unit {               /* one block of n columns: 1, 2, 4 or 8 */
	int32_t block, n;
	const int8_t *q[COLS_UNIT];  /* the low plane's values */
	float d[COLS_UNIT];
	uint32_t by[2][COLS_UNIT];   /* ds or start, as in a tile */
	uint8_t col[COLS_UNIT];
};

struct cols {
	struct pack_format format;   /* of the weights that they are for */
	int32_t n;                   /* columns of the product */
	int32_t blocks;              /* of 32 */
	int32_t lo_at;               /* where the results of low planes start, after those of the columns */
	int32_t lo_tiled;            /* they are columns of the tiles */
	int32_t n_tiles, n_units;
	struct { const uint8_t *p; int32_t width, at; } tile[COLS_RESULTS];   /* at = its first result */
	const struct cols_unit *unit;                                     /* blocks ascend within a column */
};

/* Bytes of one block in a tile. */
static inline size_t cols_block_bytes(struct pack_format f, int width)
{
	return (size_t)width * (36 + (f.has_min || f.offset ? 4 * (size_t)f.halves : 0));
}

/* Do the columns prepared for one format serve another? */
static inline int cols_serve(const struct cols *k, struct pack_format f)
{
	return k->format.halves == f.halves && k->format.has_min == f.has_min && k->format.offset == f.offset;
}

/* Bytes of scratch that a set of up to COLS_SET columns needs. */
size_t cols_scratch(int32_t cols);
/* Arrange n <= COLS_SET columns from c0; widths ascend and end with 0: the tile widths that the kernels have.  scratch is
 * 64-byte aligned. */
void cols_prepare(struct cols *, struct pack_format, const uint8_t *widths, const struct act *x, int32_t c0, int32_t n,
                  void *scratch);

#endif
