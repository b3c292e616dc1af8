/* kernels/cpu/cols.c - arranges quantised activation columns for the leaf functions of products (layout: cols.h) */
#include <string.h>

#include "kernels/cpu/cols.h"

#define INLINE static inline __attribute__((always_inline))

/* One column of quantised activations (struct act): the column's values or its residuals. The scales d[] are multiplied
 * with `part`, which is 1 for values and 1 / 256 for residuals. */
struct source {
	const int8_t *q;
	const float *d;
	const int32_t *sum;
	float part;
};

static struct source source_of(const struct act *x, int32_t col, int is_lo)
{
	size_t at = (size_t)col * (size_t)x->cols;

	return (struct source){
		.q = (is_lo ? x->lo : x->q) + at,
		.d = x->d + at / 32,
		.sum = (is_lo ? x->lo_sum : x->sum) + at / 16,
		.part = is_lo ? 1.0f / 256 : 1,
	};
}

/* One block of a column of zeros. */
static const struct source zeros = { (const int8_t[32]){ 0 }, &(const float){ 0 }, (const int32_t[2]){ 0 }, 0 };

/* Return the 32 bits that a tile (cols.h) stores after the scales of block b:
 * - If the weight type has a minimum, they are the float d * sum.
 * - If the weight type has an offset, they are the integer -offset * sum.
 *
 * Here `sum` is the sum of the column's values in the block. If weights have two scales per block, it is the sum of the
 * values in half h of the block. */
INLINE uint32_t source_by(const struct source *s, struct pack_format f, int32_t b, int h, float d)
{
	int32_t sum = f.halves == 2 ? s->sum[2 * b + h] : s->sum[2 * b] + s->sum[2 * b + 1];
	float ds = d * (float)sum;
	uint32_t bits = (uint32_t)(-f.offset * sum);

	if (f.has_min)
		memcpy(&bits, &ds, sizeof bits);
	return bits;
}

/* Return the width of the narrowest tile (group of columns) with room for `left` columns, or of the widest tile if no
 * tile has room for them. */
static int tile_width(const uint8_t *widths, int32_t left)
{
	while (widths[1] && *widths < left)
		widths++;
	return *widths;
}

/* Write the first `blocks` blocks of column s as column number i of the tile at p (cols.h). */
INLINE void column_blocks(uint8_t *p, struct pack_format f, int width, int i, const struct source *s, int32_t blocks)
{
	size_t step = cols_block_bytes(f, width), next = 4 * (size_t)width;
	uint8_t *q = p + 32 * i;

	p += 32 * (size_t)width + 4 * (size_t)i;
	for (int32_t b = 0; b < blocks; b++, p += step, q += step) {
		float d = s->d[b] * s->part;

		memcpy(q, s->q + 32 * (size_t)b, 32);
		memcpy(p, &d, sizeof d);
		for (int h = 0; h < f.halves && (f.has_min || f.offset); h++) {
			uint32_t by = source_by(s, f, b, h, d);

			memcpy(p + next * (size_t)(1 + h), &by, sizeof by);
		}
	}
}

/* Write column `col` of x as column number i of a tile of 16-bit words (cols.h). */
static void column_words(uint8_t *p, int width, int i, const struct act *x, int32_t col)
{
	const size_t at = (size_t)col * (size_t)x->cols;
	const int8_t *q = x->q + at, *lo = x->lo + at;
	const float *d = x->d + at / 32;

	for (int32_t b = 0; b < x->cols / 32; b++, q += 32, lo += 32, p += 68 * (size_t)width) {
		int16_t *w = (int16_t *)(void *)(p + 64 * (size_t)i);
		float scale = d[b] / 256;

		for (int j = 0; j < 32; j += 4) {
			w[j] = (int16_t)(256 * q[j] + lo[j]);
			w[j + 1] = (int16_t)(256 * q[j + 2] + lo[j + 2]);
			w[j + 2] = (int16_t)(256 * q[j + 1] + lo[j + 1]);
			w[j + 3] = (int16_t)(256 * q[j + 3] + lo[j + 3]);
		}
		memcpy(p + 64 * (size_t)width + 4 * (size_t)i, &scale, sizeof scale);
	}
}

/* Arrange all columns as tiles of 16-bit words (cols.h). */
static void words_prepare(struct cols *k, const uint8_t *widths, const struct act *x, int32_t c0, uint8_t *p)
{
	for (int32_t c = 0, width; c < k->n; c += width) {
		size_t bytes;

		width = tile_width(widths, k->n - c);
		bytes = (size_t)k->blocks * cols_block_bytes(k->format, width);
		if (width > k->n - c)
			memset(p, 0, bytes);
		for (int i = 0; i < width && c + i < k->n; i++)
			column_words(p, width, i, x, c0 + c + i);
		k->tile[k->n_tiles].p = p;
		k->tile[k->n_tiles].width = width;
		k->tile[k->n_tiles++].at = c;
		p += bytes;
	}
}

/* Call column_blocks(). It is inlined here four times, each time with constants for the members `halves` and `has_min`
 * of f, so that its loop has no conditions. */
static void tile_column(uint8_t *p, struct pack_format f, int width, int i, const struct source *s, int32_t blocks)
{
	if (f.halves == 1 && f.has_min)
		column_blocks(p, (struct pack_format){ .halves = 1, .has_min = 1 }, width, i, s, blocks);
	else if (f.has_min)
		column_blocks(p, (struct pack_format){ .halves = 2, .has_min = 1 }, width, i, s, blocks);
	else if (f.halves == 1)
		column_blocks(p, (struct pack_format){ .halves = 1, .offset = f.offset }, width, i, s, blocks);
	else
		column_blocks(p, (struct pack_format){ .halves = 2, .offset = f.offset }, width, i, s, blocks);
}

static int32_t count_wide(const struct act *x, int32_t c0, int32_t n)
{
	size_t blocks = (size_t)x->cols / 32;
	const uint8_t *w = x->wide + (size_t)c0 * blocks;
	int32_t count = 0;

	for (size_t i = 0; i < blocks * (size_t)n; i++)
		count += w[i];
	return count;
}

/* Arrange residuals as units (cols.h). For each block, find the columns whose block is wide (struct act), and write the
 * residuals of these columns side by side. A unit has as many columns as fit a tile. p has room for COLS_SET columns of
 * each block and their padding. Return the number of units. */
static int32_t units_fill(struct cols_unit *u, struct pack_format f, const uint8_t *widths, const struct act *x,
                          int32_t c0, int32_t n, uint8_t *p)
{
	int32_t blocks = x->cols / 32, units = 0;

	for (int32_t b = 0; b < blocks; b++) {
		uint8_t col[COLS_SET];
		int32_t wide = 0;

		for (int32_t c = 0; c < n; c++) {
			col[wide] = (uint8_t)c;
			wide += x->wide[(size_t)(c0 + c) * (size_t)blocks + (size_t)b];
		}
		for (int32_t i = 0; i < wide; i += u->width, units++, u++) {
			int width = tile_width(widths, wide - i);

			*u = (struct cols_unit){ .p = p, .block = b, .width = width };
			for (int j = 0; j < width; j++) {
				struct source s = zeros;

				u->col[j] = (uint8_t)n;
				if (i + j < wide) {
					u->col[j] = col[i + j];
					s = source_of(x, c0 + col[i + j], 1);
					s.q += 32 * (size_t)b;
					s.d += b;
					s.sum += 2 * (size_t)b;
				}
				tile_column(p, f, width, j, &s, 1);
			}
			p += cols_block_bytes(f, width);
		}
	}
	return units;
}

/* Return the size of a set of arranged columns (tiles and units, cols.h) in bytes. A block takes at most 44 bytes per
 * column. Residuals double the number of columns. Padding adds fewer than COLS_WIDEST columns, once for the columns and
 * once for the residuals. */
static size_t tiles_bytes(int32_t cols)
{
	return ((size_t)cols / 32 * 44 * (2 * COLS_SET + 2 * COLS_WIDEST) + 63) & ~(size_t)63;
}

/* Maximum number of units for one block. All units except the last one have TILE columns, and TILE is at least 4 for
 * every instruction set. */
enum { MOST_UNITS = COLS_SET / 4 };

size_t cols_scratch(int32_t cols)
{
	return tiles_bytes(cols) + (size_t)cols / 32 * MOST_UNITS * sizeof(struct cols_unit);
}

void cols_prepare(struct cols *k, struct pack_format f, const uint8_t *widths, const struct act *x, int32_t c0,
                  int32_t n, void *scratch)
{
	uint8_t *p = scratch;
	int32_t n_wide, all;

	k->format = f;
	k->n = n;
	k->blocks = x->cols / 32;
	k->n_tiles = k->n_units = k->lo_tiled = 0;
	if (f.words) {
		words_prepare(k, widths, x, c0, p);
		return;
	}
	n_wide = count_wide(x, c0, n);
	k->lo_tiled = n_wide > k->blocks * n / 2;
	all = k->lo_tiled ? 2 * n : n;
	for (int32_t c = 0, width; c < all; c += width) {
		width = tile_width(widths, all - c);
		for (int i = 0; i < width && c + i < all; i++) {
			struct source s = source_of(x, c0 + (c + i) % n, c + i >= n);

			tile_column(p, f, width, i, &s, k->blocks);
		}
		for (int i = all - c; i < width; i++)
			for (int32_t b = 0; b < k->blocks; b++)
				tile_column(p + (size_t)b * cols_block_bytes(f, width), f, width, i, &zeros, 1);
		k->tile[k->n_tiles].p = p;
		k->tile[k->n_tiles].width = width;
		k->tile[k->n_tiles++].at = c;
		p += (size_t)k->blocks * cols_block_bytes(f, width);
		k->lo_at = k->lo_tiled ? n : c + width;
	}
	if (n_wide && !k->lo_tiled) {
		struct cols_unit *u = (struct cols_unit *)(void *)((uint8_t *)scratch + tiles_bytes(x->cols));

		k->n_units = units_fill(u, f, widths, x, c0, n, p);
		k->unit = u;
	}
}
