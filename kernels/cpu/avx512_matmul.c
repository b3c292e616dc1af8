/* kernels/cpu/avx512_matmul.c - products with packed quantised weights, AVX-512 with VNNI.
 *
 * A panel is 16 rows, one 32-bit lane a row (pack.h). vpdpbusd multiplies four unsigned weights of every row with the
 * same four signed activations, so there is no sum across lanes. Per block of 32 and column
 *
 *     i   = sum of stored * q - offset * sum of q          exact, in integers
 *     acc = fma(float(i), d_w * d_x, acc)                  twice when there is a scale per half block
 *     acc = fma(min_w, d_x * sum of q, acc)                types with a minimum
 *
 * and the same for lo with d_x / 256 over the column's wide blocks, in a sum of its own that is added last. That is the
 * whole sequence whatever the number of columns: a product for one token and the same token among 512 give the same
 * bits. Up to TILE columns live in registers while a block's weights are taken apart once. Wide blocks are few and
 * scattered: they come as units, the few columns that are wide in one block, unless most blocks are wide (cols.h). A
 * block that is not wide has lo = 0 and adds nothing there: both ways give the same bits.
 *
 * Of eleven instructions for a block and column of Q4_1 on the two multiplying units of Zen 4 (eight vpdpbusd, one
 * product of scales, two fma) eight are the multiply-adds that count: 73 % of the arithmetic is the ceiling of this
 * sequence, and 94 to 96 % of that ceiling is reached.
 *
 * Whether lines of weights are fetched FETCH_AHEAD bytes ahead was measured. One column: weights lie in one stream,
 * which the processor follows by itself, and asking for lines as well made decoding with Q4_1 a fifth slower on Zen 4.
 * The K types spend so many instructions on the small scales that a Zen 5 has too few loads under way at a time, and is
 * a quarter faster if asked; a Zen 4 reads 24 GB/s if asked and 32 if not (one thread; two threads are as fast as the
 * memory either way). With 2 to FEW columns (a step that checks guessed tokens) a block takes longer still, and lines
 * are fetched ahead for all types: on two threads of a Zen 4 four columns of Q4_K take 1.27 times instead of 1.55 times
 * as long as one column, of Q4_1 1.23 instead of 1.24 to 1.5. More columns find the weights in the L2 cache.
 *
 * The kernels are one function, inlined with the type and the number of columns as constants. */
#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <cpuid.h>
#include <pthread.h>

#include "kernels/cpu/avx512.h"
#include "kernels/cpu/cols.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/pack.h"
#include "kernels/common/quant.h"

enum {
	PANEL = 16,
	UNIT = 64,
	TILE = 12 /* columns in registers */,
	FETCH_AHEAD = 4096 /* bytes */,
	FEW = 16 /* columns of a step that reads weights from memory */
};

/* Twelve columns keep the multipliers busy while a block's weights are taken apart; eight do not quite. */
const uint8_t avx512_widths[] = { 1, 2, 4, 6, 8, TILE, 0 };

struct pack_format avx512_format(enum dtype type)
{
	return pack_format_of(type);
}

size_t avx512_pack_bytes(enum dtype type, int32_t cols)
{
	return cpu_pack_bytes(type, PANEL, cols);
}

void avx512_pack(enum dtype type, void *panel, const void *rows, size_t row_bytes, int32_t n_rows, int32_t cols)
{
	cpu_pack(type, PANEL, 0x80, panel, rows, row_bytes, n_rows, cols);
}

/* ---- quantised weights ---- */

/* (x >> n) or (x << -n) in 16-bit lanes: the caller masks what crosses into the neighbour byte. */
INLINE __m512i shift(__m512i x, int n)
{
	return n > 0 ? _mm512_srli_epi16(x, (unsigned)n) : n < 0 ? _mm512_slli_epi16(x, (unsigned)-n) : x;
}

/* 16 rows x values 4 g .. 4 g + 3 of a block as unsigned bytes; table = nibble_values() + 128 in every lane. */
INLINE __m512i block_group(struct pack_format f, const uint8_t *q, int g, __m512i table)
{
	__m512i x = _mm512_setzero_si512();
	int at = 0;

	if (f.bytes)
		return _mm512_loadu_si512(q + g * UNIT);
	if (f.nibbles) {
		x = _mm512_and_si512(shift(_mm512_loadu_si512(q + g % 4 * UNIT), g / 4 * 4), _mm512_set1_epi8(15));
		at = 4;
		q += 4 * UNIT;
	}
	if (f.lookup)
		x = _mm512_shuffle_epi8(table, x);
	if (f.twos) {
		/* 0xf8 = a | (b & c) */
		x = _mm512_ternarylogic_epi32(x, shift(_mm512_loadu_si512(q + g / 4 * UNIT), g % 4 * 2 - at),
		                              _mm512_set1_epi8((char)(3 << at)), 0xf8);
		at += 2;
		q += 2 * UNIT;
	}
	if (f.ones)
		x = _mm512_ternarylogic_epi32(x, shift(_mm512_loadu_si512(q), g - at),
		                              _mm512_set1_epi8((char)(1 << at)), 0xf8);
	return x;
}

INLINE __m512 half16(const uint8_t *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

INLINE __m512 bfloat16(const uint8_t *p)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p)), 16));
}

INLINE __m512 byte16(const uint8_t *p, int is_signed)
{
	__m128i v = _mm_loadu_si128((const void *)p);

	return _mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(v) : _mm512_cvtepu8_epi32(v));
}

/* Scales and minima of the 16 rows in one block (per half block when there are two).  Products of a half and a small
 * integer are exact in f32. */
INLINE void block_scales(enum dtype type, struct pack_format f, const uint8_t *head, const uint8_t *sub, int32_t b,
                         __m512 dw[2], __m512 mw[2])
{
	if (f.group < 8) {
		head += f.group == 2 ? b * 2 * PANEL : 0;
		dw[0] = f.bf16 ? bfloat16(head) : half16(head);
		if (f.has_min)
			mw[0] = half16(head + 2 * PANEL);
		return;
	}
	__m512 d = half16(head);

	sub += b * (f.sub / 2) * PANEL;
	if (type == DT_Q2_K) {
		__m512 dmin = _mm512_sub_ps(_mm512_setzero_ps(), half16(head + 2 * PANEL));

		for (int h = 0; h < 2; h++) {
			__m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(sub + h * PANEL)));

			dw[h] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_and_si512(v, _mm512_set1_epi32(15))));
			mw[h] = _mm512_mul_ps(dmin, _mm512_cvtepi32_ps(_mm512_srli_epi32(v, 4)));
		}
	} else if (f.has_min) {
		dw[0] = _mm512_mul_ps(d, byte16(sub, 0));
		mw[0] = _mm512_mul_ps(_mm512_sub_ps(_mm512_setzero_ps(), half16(head + 2 * PANEL)),
		                      byte16(sub + PANEL, 0));
	} else {
		for (int h = 0; h < f.halves; h++)
			dw[h] = _mm512_mul_ps(d, byte16(sub + h * PANEL, 1));
	}
}

INLINE __m512i four(const int8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof v);
	return _mm512_set1_epi32(v);
}

static int is_zen4;

static void processor_look(void)
{
	unsigned a = 0, b = 0, c = 0, d = 0;

	/* "AuthenticAMD", family 0x19: of these only Zen 4 has AVX-512. */
	if (__get_cpuid(0, &a, &b, &c, &d) && b == 0x68747541 && __get_cpuid(1, &a, &b, &c, &d))
		is_zen4 = (a >> 8 & 15) + (a >> 20 & 255) == 0x19;
}

static int zen4(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, processor_look);
	return is_zen4;
}

struct weights {
	const uint8_t *panel;
	__m512i table; /* of types with lookup */
};

INLINE __m512 by_ds(const struct cols_block *k, int h, int c)
{
	return _mm512_set1_ps(((const float *)k->by)[h * k->width + c]);
}

INLINE __m512i by_start(const struct cols_block *k, int h, int c)
{
	return _mm512_set1_epi32(((const int32_t *)k->by)[h * k->width + c]);
}

/* acc += block b times `tile` columns; ahead: fetch lines FETCH_AHEAD bytes ahead. */
INLINE void block_times(enum dtype type, int tile, int ahead, const struct weights *w, int32_t b,
                        const struct cols_block *k, __m512 *acc)
{
	const struct pack_format f = pack_format_of(type);
	const size_t group_bytes = (size_t)pack_group_units(f) * UNIT, block_bytes = (size_t)pack_block_units(f) * UNIT;
	const int per = 8 / f.halves; /* groups of four values under one scale */
	int32_t in = b % f.group;
	const uint8_t *head = w->panel + (size_t)(b / f.group) * group_bytes, *sub = head + UNIT;
	const uint8_t *quants = sub + f.sub * UNIT + (size_t)in * block_bytes;
	__m512 dw[2], mw[2];
	__m512i sum[TILE];

	/* One unit more than the block has: the group's scales. */
	if (ahead)
		UNROLL for (int i = 0; i < pack_block_units(f) + 1; i++)
			_mm_prefetch((const char *)quants + FETCH_AHEAD + UNIT * i, _MM_HINT_T0);
	block_scales(type, f, head, sub, in, dw, mw);
	UNROLL for (int g = 0; g < 8; g++)
	{
		const int h = g / per;
		__m512i v = block_group(f, quants, g, w->table);

		if (g % per == 0)
			UNROLL for (int c = 0; c < tile; c++) sum[c] =
				f.offset ? by_start(k, h, c) : _mm512_setzero_si512();
		UNROLL for (int c = 0; c < tile; c++) sum[c] =
			_mm512_dpbusd_epi32(sum[c], v, four(k->q + 32 * c + 4 * g));
		if (g % per < per - 1)
			continue;
		UNROLL for (int c = 0; c < tile; c++)
		{
			acc[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[c]),
			                         _mm512_mul_ps(dw[h], _mm512_set1_ps(k->d[c])), acc[c]);
			if (f.has_min)
				acc[c] = _mm512_fmadd_ps(mw[h], by_ds(k, h, c), acc[c]);
		}
	}
}

/* out[16 c ..] = one panel times a tile of columns. */
INLINE void tile_times(enum dtype type, int tile, int ahead, const struct weights *w, int32_t blocks, const uint8_t *p,
                       float *out)
{
	const size_t step = cols_block_bytes(pack_format_of(type), tile);
	__m512 acc[TILE];

	UNROLL for (int c = 0; c < tile; c++) acc[c] = _mm512_setzero_ps();
	for (int32_t b = 0; b < blocks; b++, p += step) {
		struct cols_block k = cols_block_at(p, tile);

		block_times(type, tile, ahead, w, b, &k, acc);
	}
	UNROLL for (int c = 0; c < tile; c++) _mm512_store_ps(out + PANEL * c, acc[c]);
}

/* lo[16 col ..] += a unit. */
INLINE void unit_times(enum dtype type, int n, const struct weights *w, const struct cols_unit *u, float *lo)
{
	struct cols_block k = cols_block_at(u->p, n);
	__m512 acc[TILE];

	UNROLL for (int c = 0; c < n; c++) acc[c] = _mm512_load_ps(lo + PANEL * u->col[c]);
	block_times(type, n, 0, w, u->block, &k, acc);
	UNROLL for (int c = 0; c < n; c++) _mm512_store_ps(lo + PANEL * u->col[c], acc[c]);
}

INLINE void panels_type(enum dtype type, const uint8_t *panels, int32_t n_panels, const struct cols *k, float *out,
                        int32_t ldo)
{
	_Alignas(64) float result[COLS_RESULTS * PANEL];
	size_t panel_bytes = cpu_pack_bytes(type, PANEL, k->blocks * 32);
	float *lo = result + PANEL * k->lo_at;
	struct weights w = { .panel = panels };
	const int few = k->n > 1 && k->n <= FEW, one = pack_format_of(type).group == 8 && !zen4();

	if (pack_format_of(type).lookup)
		w.table = _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)nibble_values(type))),
		                           _mm512_set1_epi8((char)0x80));
	for (int32_t i = 0; i < n_panels; i++) {
		float *o = out + PANEL * i;

		w.panel = panels + (size_t)i * panel_bytes;
		for (int32_t t = 0; t < k->n_tiles; t++) {
			float *r = result + PANEL * k->tile[t].at;

			switch (k->tile[t].width) {
			/* Two copies: a flag inside would make one column a tenth slower. */
			case 1:
				if (one)
					tile_times(type, 1, 1, &w, k->blocks, k->tile[t].p, r);
				else
					tile_times(type, 1, 0, &w, k->blocks, k->tile[t].p, r);
				break;
			case 2: tile_times(type, 2, few, &w, k->blocks, k->tile[t].p, r); break;
			case 4: tile_times(type, 4, few, &w, k->blocks, k->tile[t].p, r); break;
			case 6: tile_times(type, 6, few, &w, k->blocks, k->tile[t].p, r); break;
			case 8: tile_times(type, 8, few, &w, k->blocks, k->tile[t].p, r); break;
			default: tile_times(type, TILE, few, &w, k->blocks, k->tile[t].p, r); break;
			}
		}
		for (int32_t c = 0; c <= k->n && !k->lo_tiled; c++)
			_mm512_store_ps(lo + PANEL * c, _mm512_setzero_ps());
		for (int32_t u = 0; u < k->n_units; u++)
			switch (k->unit[u].width) {
			case 1: unit_times(type, 1, &w, &k->unit[u], lo); break;
			case 2: unit_times(type, 2, &w, &k->unit[u], lo); break;
			case 4: unit_times(type, 4, &w, &k->unit[u], lo); break;
			case 6: unit_times(type, 6, &w, &k->unit[u], lo); break;
			case 8: unit_times(type, 8, &w, &k->unit[u], lo); break;
			default: unit_times(type, TILE, &w, &k->unit[u], lo); break;
			}
		for (int32_t c = 0; c < k->n; c++, o += ldo)
			_mm512_storeu_ps(o, _mm512_add_ps(_mm512_load_ps(result + PANEL * c),
			                                  _mm512_load_ps(lo + PANEL * c)));
	}
}

void avx512_matmul_panels(enum dtype type, const void *panels, int32_t n, const struct cols *k, float *out, int32_t ldo)
{
	switch (type) {
	case DT_Q4_0: panels_type(DT_Q4_0, panels, n, k, out, ldo); break;
	case DT_Q4_1: panels_type(DT_Q4_1, panels, n, k, out, ldo); break;
	case DT_Q5_0: panels_type(DT_Q5_0, panels, n, k, out, ldo); break;
	case DT_Q5_1: panels_type(DT_Q5_1, panels, n, k, out, ldo); break;
	case DT_Q8_0: panels_type(DT_Q8_0, panels, n, k, out, ldo); break;
	case DT_Q2_K: panels_type(DT_Q2_K, panels, n, k, out, ldo); break;
	case DT_Q3_K: panels_type(DT_Q3_K, panels, n, k, out, ldo); break;
	case DT_Q4_K: panels_type(DT_Q4_K, panels, n, k, out, ldo); break;
	case DT_Q5_K: panels_type(DT_Q5_K, panels, n, k, out, ldo); break;
	case DT_Q6_K: panels_type(DT_Q6_K, panels, n, k, out, ldo); break;
	case DT_IQ4_NL: panels_type(DT_IQ4_NL, panels, n, k, out, ldo); break;
	case DT_IQ4_XS: panels_type(DT_IQ4_XS, panels, n, k, out, ldo); break;
	case DT_MXFP4: panels_type(DT_MXFP4, panels, n, k, out, ldo); break;
	default: break; /* plain rows: simd_float.h */
	}
}

/* The empty asm makes the compiler believe that the sums are used and change. */
uint64_t avx512_multiply(int32_t rounds)
{
	__m512i sum[TILE], w = _mm512_set1_epi8(3);

	/* Unrolled, too, or the sums live in memory and the probe measures stores. */
	UNROLL for (int c = 0; c < TILE; c++) sum[c] = _mm512_setzero_si512();
	for (int32_t i = 0; i < rounds; i++)
		UNROLL for (int c = 0; c < TILE; c++)
		{
			sum[c] = _mm512_dpbusd_epi32(sum[c], w, w);
			__asm__ volatile("" : "+v"(sum[c]));
		}
	return (uint64_t)rounds * TILE * 64;
}

#else
typedef int weir_no_avx512_matmul; /* a C file must hold something */
#endif
