/* kernels/cpu/simd_blocks.h (private to simd_matmul.h and amx.c) - computes the scales of a panel's blocks, and defines
 * the vectors in which a panel is read, with one lane for each row. */
#ifndef WEIR_CPU_SIMD_BLOCKS_H
#define WEIR_CPU_SIMD_BLOCKS_H

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/pack.h"
#include "kernels/common/quant.h"

#ifdef LANES
/* These headers define:
 * - PANEL, UNIT, TILE: rows of a panel; bytes of a unit; maximum number of columns in a tile.
 * - WIDTHS(X): X(n) for each possible number n of columns in a tile, ascending, up to TILE.
 * - COLS_AHEAD: weights are prefetched for products of 2 to COLS_AHEAD columns.
 * - SIGNED: 1 = bytes and table values are stored signed, without an offset.
 * - WORDS: 1 = weights of bytes are multiplied with columns of 16-bit words (cols.h).
 * - panel_vec, panel_int: vectors with a float, or a 32-bit integer, for each row of a panel.
 * - byte_vec: bytes of stored values.
 * - half_sums(): the integer products of half a block, or of the whole block. */
#include "kernels/cpu/matmul_x86.h"
#include "kernels/cpu/matmul_neon.h"

/* Compute the scales dw and minima mw of a panel's rows in block b of a group of blocks; two of each if the type has
 * scales per half block. A half float times a small integer is exact in f32. */
INLINE void block_scales(enum dtype type, struct pack_format f, const uint8_t *head, const uint8_t *sub, int32_t b,
                         panel_vec dw[2], panel_vec mw[2])
{
	panel_vec d, dmin;

	if (f.group < 8) {
		head += f.group == 2 ? b * 2 * PANEL : 0;
		dw[0] = panel_row(f.bf16 ? DT_BF16 : DT_F16, head);
		if (f.has_min)
			mw[0] = panel_row(DT_F16, head + 2 * PANEL);
		return;
	}
	d = panel_row(DT_F16, head);
	if (f.has_min)
		dmin = panel_minus(panel_row(DT_F16, head + 2 * PANEL));
	sub += b * (f.sub / 2) * PANEL;
	if (type == DT_Q2_K) {
		UNROLL for (int h = 0; h < 2; h++)
		{
			dw[h] = panel_mul(d, panel_nibbles(sub + h * PANEL, 0));
			mw[h] = panel_mul(dmin, panel_nibbles(sub + h * PANEL, 1));
		}
	} else if (f.has_min) {
		dw[0] = panel_mul(d, panel_unsigned(sub));
		mw[0] = panel_mul(dmin, panel_unsigned(sub + PANEL));
	} else {
		UNROLL for (int h = 0; h < f.halves; h++) dw[h] = panel_mul(d, panel_signed(sub + h * PANEL));
	}
}
#endif

#endif
