/* kernels/cpu/simd_matmul.h (private to the SIMD code) - products with packed quantised weights; compiled once for
 * each instruction set.
 *
 * A panel is PANEL rows of the weight, each in one 32-bit lane (pack.h). One instruction, or a few, multiply four
 * stored values of every row with the same four activations of a column, so nothing is summed across lanes. For each
 * block of 32 values, the sum of products is exact in integers. This sum is then multiplied by the scales of weight and
 * input, and added to the result in f32. For weight types with a minimum, minimum * scale * sum of inputs is added,
 * too. The residuals lo of inputs coded in 16 bits (struct act) take the same steps, into a second sum, which is added
 * last.
 *
 * The steps are the same for any number of columns, so one token alone has the same bits as among 512 tokens. Up to
 * TILE columns stay in registers while a block's weights are unpacked once. A leaf function is inlined with the type
 * and the number of columns as constants. */
#ifndef WEIR_CPU_SIMD_MATMUL_H
#define WEIR_CPU_SIMD_MATMUL_H

#include "kernels/cpu/cols.h"
#include "kernels/cpu/simd_blocks.h"

#ifdef LANES
enum { FETCH_AHEAD = 4096 }; /* number of bytes by which weights are prefetched ahead of their use */

#define NUMBER(n) n,
static const uint8_t tile_widths[] = { WIDTHS(NUMBER) 0 };
#undef NUMBER

INLINE struct pack_format panel_format_of(enum dtype type)
{
	struct pack_format f = pack_format_of(type);

	if (SIGNED && (f.bytes || f.lookup))
		f.offset = 0;
	f.words = WORDS && f.bytes;
	return f;
}

static struct pack_format panel_format(enum dtype type)
{
	return panel_format_of(type);
}

static size_t panel_bytes(enum dtype type, int32_t cols)
{
	return cpu_pack_bytes(type, PANEL, cols);
}

static void panel_pack(enum dtype type, void *panel, const void *rows, size_t row_bytes, int32_t n_rows, int32_t cols)
{
	cpu_pack(type, PANEL, SIGNED ? 0 : 0x80, panel, rows, row_bytes, n_rows, cols);
}

/* Add the product of block b of a panel with column c to acc[c], for `tile` columns. If `ahead` is 1, prefetch the
 * weights that are FETCH_AHEAD bytes after these. */
INLINE void block_times(enum dtype type, int tile, int ahead, const uint8_t *panel, byte_vec table, int32_t b,
                        const uint8_t *cols, panel_vec *acc)
{
	const struct pack_format f = panel_format_of(type);
	const struct cols_block k = cols_block_at(f, cols, tile);
	const size_t group_bytes = (size_t)pack_group_units(f) * UNIT, block_bytes = (size_t)pack_block_units(f) * UNIT;
	int32_t in = b % f.group;
	const uint8_t *head = panel + (size_t)(b / f.group) * group_bytes, *sub = head + UNIT;
	const uint8_t *quants = sub + f.sub * UNIT + (size_t)in * block_bytes;
	panel_vec dw[2], mw[2];
	panel_int sum[TILE];

	/* Prefetch one cache line more than the size of a block, so that the scales that lie between two groups are
	 * prefetched, too. */
	if (ahead && !f.words)
		UNROLL for (int i = 0; i < pack_block_units(f) * UNIT + LINE; i += LINE)
			line_fetch(quants + FETCH_AHEAD + i);
	block_scales(type, f, head, sub, in, dw, mw);
	UNROLL for (int h = 0; h < f.halves; h++)
	{
		UNROLL for (int c = 0; c < tile; c++) sum[c] =
			panel_int_splat(f.offset ? ((const int32_t *)k.by)[h * tile + c] : 0);
		half_sums(f, tile, quants, h, table, k.q, sum);
		UNROLL for (int c = 0; c < tile; c++)
		{
			acc[c] = panel_fma(panel_of_int(sum[c]), panel_mul(dw[h], panel_splat(k.d[c])), acc[c]);
			if (f.has_min)
				acc[c] = panel_fma(mw[h], panel_splat(((const float *)k.by)[h * tile + c]), acc[c]);
		}
	}
}

/* Set the PANEL floats from out[PANEL * c] on to the product of a panel with column c of a tile. */
INLINE void tile_times(enum dtype type, int tile, int ahead, const uint8_t *panel, byte_vec table, int32_t blocks,
                       const uint8_t *cols, float *out)
{
	const size_t step = cols_block_bytes(panel_format_of(type), tile);
	panel_vec acc[TILE];

	UNROLL for (int c = 0; c < tile; c++) acc[c] = panel_splat(0);
	for (int32_t b = 0; b < blocks; b++, cols += step)
		block_times(type, tile, ahead, panel, table, b, cols, acc);
	UNROLL for (int c = 0; c < tile; c++) panel_store(out + PANEL * c, acc[c]);
}

/* Multiply one block of the panel's weights, number u->block, by the n residual columns that unit u has for this block
 * (cols.h). Residual column i belongs to column u->col[i] of the input. Its product is added to the results of column
 * u->col[i] in lo[]. */
INLINE void unit_times(enum dtype type, int n, const uint8_t *panel, byte_vec table, const struct cols_unit *u,
                       float *lo)
{
	panel_vec acc[TILE];

	UNROLL for (int c = 0; c < n; c++) acc[c] = panel_load(lo + PANEL * u->col[c]);
	block_times(type, n, 0, panel, table, u->block, u->p, acc);
	UNROLL for (int c = 0; c < n; c++) panel_store(lo + PANEL * u->col[c], acc[c]);
}

INLINE void panels_type(enum dtype type, const uint8_t *panel, int32_t n_panels, const struct cols *k, float *out,
                        int32_t ldo)
{
	const struct pack_format f = panel_format_of(type);
	const int few = k->n > 1 && k->n <= COLS_AHEAD, one = COLS_AHEAD > 0 && one_column_ahead(f);
	_Alignas(64) float result[COLS_RESULTS * PANEL];
	float *lo = result + PANEL * k->lo_at;
	size_t bytes = panel_bytes(type, k->blocks * 32);
	byte_vec table = byte_splat(0);

	if (f.lookup)
		table = byte_table(nibble_values(type));
	for (int32_t i = 0; i < n_panels; i++, panel += bytes) {
		float *o = out + PANEL * i;

		for (int32_t t = 0; t < k->n_tiles; t++) {
			const uint8_t *cols = k->tile[t].p;
			float *r = result + PANEL * k->tile[t].at;

			switch (k->tile[t].width) {
				/* For one column, the loop exists twice, with and without prefetch: a condition inside
				 * the loop would make the product a tenth slower. */
#define TIMES(n)                                                                                                       \
	case n:                                                                                                        \
		if (n == 1 && one)                                                                                     \
			tile_times(type, n, 1, panel, table, k->blocks, cols, r);                                      \
		else                                                                                                   \
			tile_times(type, n, n > 1 && few, panel, table, k->blocks, cols, r);                           \
		break;
				WIDTHS(TIMES)
#undef TIMES
			}
		}
		if (f.words) {
			for (int32_t c = 0; c < k->n; c++, o += ldo)
				panel_store(o, panel_load(result + PANEL * c));
			continue;
		}
		for (int32_t c = 0; c <= k->n && !k->lo_tiled; c++)
			panel_store(lo + PANEL * c, panel_splat(0));
		for (int32_t u = 0; u < k->n_units; u++)
			switch (k->unit[u].width) {
#define TIMES(n)                                                                                                       \
	case n: unit_times(type, n, panel, table, &k->unit[u], lo); break;
				WIDTHS(TIMES)
#undef TIMES
			}
		for (int32_t c = 0; c < k->n; c++, o += ldo)
			panel_store(o, panel_add(panel_load(result + PANEL * c), panel_load(lo + PANEL * c)));
	}
}

static void matmul_panels(enum dtype type, const void *packed, int32_t n, const struct cols *k, float *out, int32_t ldo)
{
	switch (type) {
	case DT_Q4_0: panels_type(DT_Q4_0, packed, n, k, out, ldo); break;
	case DT_Q4_1: panels_type(DT_Q4_1, packed, n, k, out, ldo); break;
	case DT_Q5_0: panels_type(DT_Q5_0, packed, n, k, out, ldo); break;
	case DT_Q5_1: panels_type(DT_Q5_1, packed, n, k, out, ldo); break;
	case DT_Q8_0: panels_type(DT_Q8_0, packed, n, k, out, ldo); break;
	case DT_Q2_K: panels_type(DT_Q2_K, packed, n, k, out, ldo); break;
	case DT_Q3_K: panels_type(DT_Q3_K, packed, n, k, out, ldo); break;
	case DT_Q4_K: panels_type(DT_Q4_K, packed, n, k, out, ldo); break;
	case DT_Q5_K: panels_type(DT_Q5_K, packed, n, k, out, ldo); break;
	case DT_Q6_K: panels_type(DT_Q6_K, packed, n, k, out, ldo); break;
	case DT_IQ4_NL: panels_type(DT_IQ4_NL, packed, n, k, out, ldo); break;
	case DT_IQ4_XS: panels_type(DT_IQ4_XS, packed, n, k, out, ldo); break;
	case DT_MXFP4: panels_type(DT_MXFP4, packed, n, k, out, ldo); break;
	default: break; /* plain rows are multiplied in simd_float.h */
	}
}

/* Entries of struct cpu_fns. */
#define MATMUL_FNS                                                                                                     \
	.panel = PANEL, .pack_bytes = panel_bytes, .pack = panel_pack, .multiply = multiply,                           \
	.packed = { panel_format, tile_widths, matmul_panels }
#endif

#endif
