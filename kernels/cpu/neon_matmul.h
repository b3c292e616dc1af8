/* kernels/cpu/neon_matmul.h (private to neon.c, neon_dot.c) - products with packed quantised weights, NEON; compiled
 * once a level.
 *
 * The arithmetic is that of avx512_matmul.c, operation by operation, so a column's result is the same among any number
 * of columns. A panel is 8 rows (pack.h), two vectors. Products are of signed bytes: bytes and table values stay
 * signed, without an offset, and the other stored values are at most 63. */
#ifndef WEIR_CPU_NEON_MATMUL_H
#define WEIR_CPU_NEON_MATMUL_H

#include "kernels/cpu/cols.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/pack.h"
#include "kernels/common/quant.h"

#ifdef __aarch64__
enum { PANEL = 8, UNIT = 32, TILE = 4 /* columns in registers */ };

static const uint8_t widths[] = { 1, 2, TILE, 0 };

INLINE struct pack_format format_of(enum dtype type)
{
	struct pack_format f = pack_format_of(type);

	if (f.bytes || f.lookup)
		f.offset = 0;
	return f;
}

static struct pack_format format(enum dtype type)
{
	return format_of(type);
}

static size_t pack_bytes(enum dtype type, int32_t cols)
{
	return cpu_pack_bytes(type, PANEL, cols);
}

static void pack(enum dtype type, void *panel, const void *rows, size_t row_bytes, int32_t n_rows, int32_t cols)
{
	cpu_pack(type, PANEL, 0, panel, rows, row_bytes, n_rows, cols);
}

/* x >> n or x << -n in bytes. */
INLINE uint8x16_t shift(uint8x16_t x, int n)
{
	return n < 0 ? x << -n : x >> n;
}

/* 4 rows x values 4 g .. 4 g + 3 of a block as bytes; q: the rows' half of the block's first unit. */
INLINE int8x16_t block_group(struct pack_format f, const uint8_t *q, int g, int8x16_t table)
{
	uint8x16_t x = vdupq_n_u8(0);
	int at = 0;

	if (f.bytes)
		return vreinterpretq_s8_u8(vld1q_u8(q + g * UNIT));
	if (f.nibbles) {
		x = vld1q_u8(q + g % 4 * UNIT);
		x = g < 4 ? x & 15 : x >> 4;
		at = 4;
		q += 4 * UNIT;
	}
	if (f.lookup)
		return vqtbl1q_s8(table, x);
	if (f.twos) {
		x |= shift(vld1q_u8(q + g / 4 * UNIT), g % 4 * 2 - at) & (uint8_t)(3 << at);
		at += 2;
		q += 2 * UNIT;
	}
	if (f.ones)
		x |= shift(vld1q_u8(q), g - at) & (uint8_t)(1 << at);
	return vreinterpretq_s8_u8(x);
}

INLINE vec8 bytes8(int16x8_t v)
{
	return (vec8){ { vec_of_int(vmovl_s16(vget_low_s16(v))), vec_of_int(vmovl_high_s16(v)) } };
}

INLINE vec8 unsigned8(uint8x8_t v)
{
	return bytes8(vreinterpretq_s16_u16(vmovl_u8(v)));
}

INLINE vec8 minus(vec8 x)
{
	return (vec8){ { -x.v[0], -x.v[1] } };
}

/* Scales and minima of the 8 rows in one block (per half block when there are two).  Products of a half and a small
 * integer are exact in f32. */
INLINE void block_scales(enum dtype type, struct pack_format f, const uint8_t *head, const uint8_t *sub, int32_t b,
                         vec8 dw[2], vec8 mw[2])
{
	if (f.group < 8) {
		head += f.group == 2 ? b * 2 * PANEL : 0;
		dw[0] = vec8_row(f.bf16 ? DT_BF16 : DT_F16, head, 0, 8);
		if (f.has_min)
			mw[0] = vec8_row(DT_F16, head, PANEL, 8);
		return;
	}
	vec8 d = vec8_row(DT_F16, head, 0, 8), dmin;

	if (f.has_min)
		dmin = minus(vec8_row(DT_F16, head, PANEL, 8));
	sub += b * (f.sub / 2) * PANEL;
	if (type == DT_Q2_K) {
		UNROLL for (int h = 0; h < 2; h++)
		{
			uint8x8_t v = vld1_u8(sub + h * PANEL);

			dw[h] = vec8_mul(d, unsigned8(v & 15));
			mw[h] = vec8_mul(dmin, unsigned8(v >> 4));
		}
	} else if (f.has_min) {
		dw[0] = vec8_mul(d, unsigned8(vld1_u8(sub)));
		mw[0] = vec8_mul(dmin, unsigned8(vld1_u8(sub + PANEL)));
	} else {
		UNROLL for (int h = 0; h < f.halves; h++) dw[h] =
			vec8_mul(d, bytes8(vmovl_s8(vld1_s8((const int8_t *)sub + h * PANEL))));
	}
}

/* s + four bytes of each row times bytes 4 lane .. 4 lane + 3 of x. */
INLINE vec_int dot4_lane(vec_int s, int8x16_t w, int8x16_t x, int lane)
{
	return dot4(s, w, (int8x16_t)vdupq_n_s32(((int32x4_t)x)[lane]));
}

struct weights {
	const uint8_t *panel;
	int8x16_t table; /* of types with lookup */
};

/* acc += block b times `tile` columns. */
INLINE void block_times(enum dtype type, int tile, const struct weights *w, int32_t b, const struct cols_block *k,
                        vec8 *acc)
{
	const struct pack_format f = format_of(type);
	const size_t group_bytes = (size_t)pack_group_units(f) * UNIT, block_bytes = (size_t)pack_block_units(f) * UNIT;
	const int per = 8 / f.halves; /* groups of four values under one scale */
	int32_t in = b % f.group;
	const uint8_t *head = w->panel + (size_t)(b / f.group) * group_bytes, *sub = head + UNIT;
	const uint8_t *quants = sub + f.sub * UNIT + (size_t)in * block_bytes;
	vec8 dw[2], mw[2];
	vec_int sum[TILE][2];
	int8x16_t x[TILE];

	block_scales(type, f, head, sub, in, dw, mw);
	UNROLL for (int g = 0; g < 8; g++)
	{
		const int h = g / per;

		UNROLL for (int c = 0; c < tile; c++)
		{
			if (g % 4 == 0)
				x[c] = vld1q_s8(k->q + 32 * c + 4 * g);
			if (g % per == 0)
				sum[c][0] = sum[c][1] =
					vec_int_splat(f.offset ? ((const int32_t *)k->by)[h * k->width + c] : 0);
		}
		UNROLL for (int i = 0; i < 2; i++)
		{
			int8x16_t v = block_group(f, quants + UNIT / 2 * i, g, w->table);

			UNROLL for (int c = 0; c < tile; c++) sum[c][i] = dot4_lane(sum[c][i], v, x[c], g % 4);
		}
		if (g % per < per - 1)
			continue;
		UNROLL for (int c = 0; c < tile; c++) UNROLL for (int i = 0; i < 2; i++)
		{
			acc[c].v[i] = vec_fma(vec_of_int(sum[c][i]), dw[h].v[i] * k->d[c], acc[c].v[i]);
			if (f.has_min)
				acc[c].v[i] = vec_fma(mw[h].v[i], vec_splat(((const float *)k->by)[h * k->width + c]),
				                      acc[c].v[i]);
		}
	}
}

/* out[8 c ..] = one panel times a tile of columns. */
INLINE void tile_times(enum dtype type, int tile, const struct weights *w, int32_t blocks, const uint8_t *p, float *out)
{
	const size_t step = cols_block_bytes(format_of(type), tile);
	vec8 acc[TILE];

	UNROLL for (int c = 0; c < tile; c++) acc[c] = vec8_zero();
	for (int32_t b = 0; b < blocks; b++, p += step) {
		struct cols_block k = cols_block_at(p, tile);

		block_times(type, tile, w, b, &k, acc);
	}
	UNROLL for (int c = 0; c < tile; c++) vec8_store(out + PANEL * c, acc[c]);
}

/* lo[8 col ..] += a unit. */
INLINE void unit_times(enum dtype type, int n, const struct weights *w, const struct cols_unit *u, float *lo)
{
	struct cols_block k = cols_block_at(u->p, n);
	vec8 acc[TILE];

	UNROLL for (int c = 0; c < n; c++) acc[c] = vec8_load(lo + PANEL * u->col[c]);
	block_times(type, n, w, u->block, &k, acc);
	UNROLL for (int c = 0; c < n; c++) vec8_store(lo + PANEL * u->col[c], acc[c]);
}

INLINE void panels_type(enum dtype type, const uint8_t *packed, int32_t n_panels, const struct cols *k, float *out,
                        int32_t ldo)
{
	_Alignas(64) float result[COLS_RESULTS * PANEL];
	size_t panel_bytes = cpu_pack_bytes(type, PANEL, k->blocks * 32);
	float *lo = result + PANEL * k->lo_at;
	struct weights w = { .panel = packed };

	if (format_of(type).lookup)
		w.table = vld1q_s8(nibble_values(type));
	for (int32_t i = 0; i < n_panels; i++) {
		float *o = out + PANEL * i;

		w.panel = packed + (size_t)i * panel_bytes;
		for (int32_t t = 0; t < k->n_tiles; t++) {
			float *r = result + PANEL * k->tile[t].at;

			switch (k->tile[t].width) {
			case 1: tile_times(type, 1, &w, k->blocks, k->tile[t].p, r); break;
			case 2: tile_times(type, 2, &w, k->blocks, k->tile[t].p, r); break;
			default: tile_times(type, TILE, &w, k->blocks, k->tile[t].p, r); break;
			}
		}
		for (int32_t c = 0; c <= k->n && !k->lo_tiled; c++)
			vec8_store(lo + PANEL * c, vec8_zero());
		for (int32_t u = 0; u < k->n_units; u++)
			switch (k->unit[u].width) {
			case 1: unit_times(type, 1, &w, &k->unit[u], lo); break;
			case 2: unit_times(type, 2, &w, &k->unit[u], lo); break;
			default: unit_times(type, TILE, &w, &k->unit[u], lo); break;
			}
		for (int32_t c = 0; c < k->n; c++, o += ldo)
			UNROLL for (int j = 0; j < PANEL; j += LANES)
				vec_store(o + j, vec_load(result + PANEL * c + j) + vec_load(lo + PANEL * c + j));
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
	default: break; /* plain rows: simd_float.h */
	}
}

/* The empty asm makes the compiler believe that the sums are used and change. */
static uint64_t multiply(int32_t rounds)
{
	vec_int sum[4 * TILE];
	int8x16_t w = vdupq_n_s8(3);

	UNROLL for (int c = 0; c < 4 * TILE; c++) sum[c] = vec_int_splat(0);
	for (int32_t i = 0; i < rounds; i++)
		UNROLL for (int c = 0; c < 4 * TILE; c++)
		{
			sum[c] = dot4(sum[c], w, w);
			__asm__ volatile("" : "+w"(sum[c]), "+w"(w));
		}
	return (uint64_t)rounds * 4 * TILE * 16;
}

/* The level's products, for its struct cpu_fns. */
#define NEON_FNS                                                                                                       \
	.panel = PANEL, .pack_bytes = pack_bytes, .pack = pack, .format = format, .widths = widths,                    \
	.matmul_panels = matmul_panels, .multiply = multiply
#endif

#endif
