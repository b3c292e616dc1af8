/* kernels/cpu_avx512_matmul.c - products with packed quantised weights and with float rows, AVX-512 with VNNI.
 *
 * Quantised: a panel is 16 rows, one 32-bit lane a row (cpu_pack.h).  vpdpbusd multiplies four unsigned
 * weights of every row with the same four signed activations, so there is no sum across lanes.  Per block of 32 and
 * column
 *
 *     i   = sum of stored * q - offset * sum of q          exact, in integers
 *     acc = fma(float(i), d_w * d_x, acc)                  twice when there is a scale per half block
 *     acc = fma(min_w, d_x * sum of q, acc)                types with a minimum
 *
 * and the same for lo with d_x / 256 over the column's wide blocks, in a sum of its own that is added last.  That is the whole
 * sequence whatever the number of columns: a product for one token and the same token among 512 give the same
 * bits.  Up to TILE columns live in registers while a block's weights are taken apart once; wide blocks are few
 * and scattered, so their second pass goes column by column unless most blocks are wide.  (A block that is not
 * wide has lo = 0 and adds nothing there: both ways give the same bits.)
 *
 * No prefetching: weights lie in one stream, which the processor follows by itself; asking for lines as well
 * made decoding a fifth slower.
 *
 * The kernels are one function, inlined with the type and the number of columns as constants. */
#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include "kernels/cpu_avx512.h"
#include "kernels/cpu_pack.h"
#include "kernels/quant.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum {
	PANEL = 16, UNIT = 64,
	TILE = 8,         /* columns in registers */
	CHUNK = 64,       /* blocks whose column factors are prepared at a time */
};

size_t avx512_pack_bytes(enum dtype type, int32_t cols)
{
	return cpu_pack_bytes(type, PANEL, cols);
}

void avx512_pack(enum dtype type, void *panel, const void *rows, size_t row_bytes, int32_t n_rows, int32_t cols)
{
	cpu_pack(type, PANEL, 0x80, panel, rows, row_bytes, n_rows, cols);
}

static int32_t min32(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* ---- quantised weights ---- */

/* Per column and block of one plane (q or lo): the scale, scale * sum for minima, and where the integer sums start. */
struct factors {
	float d[TILE][CHUNK];
	float ds[TILE][2 * CHUNK];       /* per half block when the type has two */
	int32_t start[TILE][2 * CHUNK];
};

/* sums at i .. i + 15 per block, or per half block: both halves of a block added up unless the type keeps them apart. */
INLINE __m512i block_sums(struct pack_format f, const int32_t *sum, int32_t i, int32_t n)
{
	const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
	const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
	__mmask32 there = n - i >= 16 ? ~0u : (__mmask32)((1ull << (3 - f.halves) * (n - i)) - 1);
	__m512i a, b;

	if (f.halves == 2)
		return _mm512_maskz_loadu_epi32((__mmask16)there, sum + i);
	a = _mm512_maskz_loadu_epi32((__mmask16)there, sum + 2 * i);
	b = _mm512_maskz_loadu_epi32((__mmask16)(there >> 16), sum + 2 * i + 16);
	return _mm512_add_epi32(_mm512_permutex2var_epi32(a, even, b), _mm512_permutex2var_epi32(a, odd, b));
}

/* Rows `first` and up = columns c0 and up of the plane q or lo. */
INLINE void factors_fill(struct factors *p, struct pack_format f, int tile, int first, const struct act *x, int is_lo,
                         int32_t c0, int32_t b0, int32_t nb)
{
	const int32_t *sum = is_lo ? x->lo_sum : x->sum;
	const __m512 part = _mm512_set1_ps(is_lo ? 1.0f / 256 : 1);

	const __m512i low = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
	size_t blocks = (size_t)x->cols / 32, at = (size_t)c0 * blocks + (size_t)b0;

	for (int c = first; c < first + tile; c++, at += blocks) {
		for (int32_t b = 0; b < nb; b += 16) {
			__mmask16 mask = nb - b >= 16 ? 0xffff : (__mmask16)((1u << (nb - b)) - 1);

			_mm512_storeu_ps(p->d[c] + b, _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x->d + at + b), part));
		}
		for (int32_t i = 0; i < nb * f.halves && (f.has_min || f.offset); i += 16) {
			__m512i s = block_sums(f, sum + 2 * at, i, nb * f.halves);

			if (f.has_min) {
				__m512 d = f.halves == 1 ? _mm512_loadu_ps(p->d[c] + i)
				                         : _mm512_permutexvar_ps(low, _mm512_castps256_ps512(_mm256_loadu_ps(p->d[c] + i / 2)));

				_mm512_storeu_ps(p->ds[c] + i, _mm512_mul_ps(d, _mm512_cvtepi32_ps(s)));
			}
			if (f.offset)
				_mm512_storeu_si512(p->start[c] + i, _mm512_mullo_epi32(s, _mm512_set1_epi32(-f.offset)));
		}
	}
}

/* A bit per wide block of one column. */
INLINE uint64_t wide_blocks(const struct act *x, int32_t c, int32_t b0, int32_t nb)
{
	__m512i v = _mm512_maskz_loadu_epi8(~(__mmask64)0 >> (64 - nb), x->wide + (size_t)c * ((size_t)x->cols / 32) + b0);

	return _mm512_test_epi8_mask(v, v);
}

/* (x >> n) or (x << -n) in 16-bit lanes: the caller masks what crosses into the neighbour byte. */
INLINE __m512i shift(__m512i x, int n)
{
	return n > 0 ? _mm512_srli_epi16(x, (unsigned)n) : n < 0 ? _mm512_slli_epi16(x, (unsigned)-n) : x;
}

/* 16 rows x values 4 g .. 4 g + 3 of a block as unsigned bytes; table = iq4_values + 128 in every lane. */
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
		x = _mm512_ternarylogic_epi32(x, shift(_mm512_loadu_si512(q), g - at), _mm512_set1_epi8((char)(1 << at)),
		                              0xf8);
	return x;
}

INLINE __m512 half16(const uint8_t *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
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
		dw[0] = half16(head + (f.group == 2 ? b * 2 * PANEL : 0));
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
		mw[0] = _mm512_mul_ps(_mm512_sub_ps(_mm512_setzero_ps(), half16(head + 2 * PANEL)), byte16(sub + PANEL, 0));
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

struct weights {
	const uint8_t *panel;
	__m512i table;                   /* of types with lookup */
};

/* acc += block b times `tile` columns.  q, d, ds and start point at this block in the first column; the next column is ldx
 * or a row of struct factors further. */
INLINE void block_times(enum dtype type, int tile, const struct weights *w, int32_t b, const int8_t *q, size_t ldx,
                        const float *d, const float *ds, const int32_t *start, __m512 *acc)
{
	const struct pack_format f = pack_format_of(type);
	const size_t group_bytes = (size_t)pack_group_units(f) * UNIT, block_bytes = (size_t)pack_block_units(f) * UNIT;
	const int per = 8 / f.halves;        /* groups of four values under one scale */
	int32_t in = b % f.group;
	const uint8_t *head = w->panel + (size_t)(b / f.group) * group_bytes, *sub = head + UNIT;
	const uint8_t *quants = sub + f.sub * UNIT + (size_t)in * block_bytes;
	__m512 dw[2], mw[2];
	__m512i sum[TILE];

	block_scales(type, f, head, sub, in, dw, mw);
	UNROLL for (int g = 0; g < 8; g++) {
		const int h = g / per;
		__m512i v = block_group(f, quants, g, w->table);

		if (g % per == 0)
			UNROLL for (int c = 0; c < tile; c++)
				sum[c] = f.offset ? _mm512_set1_epi32(start[c * 2 * CHUNK + h]) : _mm512_setzero_si512();
		UNROLL for (int c = 0; c < tile; c++)
			sum[c] = _mm512_dpbusd_epi32(sum[c], v, four(q + (size_t)c * ldx + 4 * g));
		if (g % per < per - 1)
			continue;
		UNROLL for (int c = 0; c < tile; c++) {
			acc[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[c]),
			                         _mm512_mul_ps(dw[h], _mm512_set1_ps(d[c * CHUNK])), acc[c]);
			if (f.has_min)
				acc[c] = _mm512_fmadd_ps(mw[h], _mm512_set1_ps(ds[c * 2 * CHUNK + h]), acc[c]);
		}
	}
}

/* sums += blocks b0 .. b0 + nb times `tile` columns of one plane. */
INLINE void tile_times(enum dtype type, int tile, const struct weights *w, int32_t b0, int32_t nb, const int8_t *q,
                       size_t ldx, const struct factors *p, __m512 *sums)
{
	const int halves = pack_format_of(type).halves;
	__m512 acc[TILE];

	q += (size_t)b0 * 32;
	UNROLL for (int c = 0; c < tile; c++)
		acc[c] = sums[c];
	for (int32_t b = 0; b < nb; b++, q += 32)
		block_times(type, tile, w, b0 + b, q, ldx, p->d[0] + b, p->ds[0] + b * halves, p->start[0] + b * halves,
		            acc);
	UNROLL for (int c = 0; c < tile; c++)
		sums[c] = acc[c];
}

/* The low plane of one column's wide blocks, a bit for each from b0: factors as in factors_fill. */
INLINE __m512 wide_times(enum dtype type, const struct weights *w, const struct act *x, int32_t c, int32_t b0, uint64_t wide,
                         __m512 acc)
{
	const struct pack_format f = pack_format_of(type);
	size_t at = (size_t)c * ((size_t)x->cols / 32);

	for (; wide; wide &= wide - 1) {
		int32_t b = b0 + __builtin_ctzll(wide);
		const int32_t *lo = x->lo_sum + 2 * (at + (size_t)b);
		int32_t s[2] = { f.halves == 1 ? lo[0] + lo[1] : lo[0], lo[1] };
		float d = x->d[at + (size_t)b] * (1.0f / 256);
		float ds[2] = { d * (float)s[0], d * (float)s[1] };
		int32_t start[2] = { -f.offset * s[0], -f.offset * s[1] };

		block_times(type, 1, w, b, x->lo + (at + (size_t)b) * 32, 0, &d, ds, start, &acc);
	}
	return acc;
}

INLINE void panel_columns(enum dtype type, int tile, const uint8_t *panel, const struct act *x, int32_t c0, float *out,
                          int32_t ldo)
{
	const struct pack_format f = pack_format_of(type);
	struct weights w = { .panel = panel };
	struct factors p;
	__m512 sums[TILE], lo[TILE];
	size_t ldx = (size_t)x->cols, at = (size_t)c0 * ldx;
	int32_t blocks = x->cols / 32;

	if (f.lookup)
		w.table = _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)iq4_values)),
		                           _mm512_set1_epi8((char)0x80));
	for (int c = 0; c < tile; c++)
		sums[c] = lo[c] = _mm512_setzero_ps();
	for (int32_t b0 = 0; b0 < blocks; b0 += CHUNK) {
		int32_t nb = min32(blocks - b0, CHUNK), n_wide = 0;
		uint64_t wide[TILE];

		for (int c = 0; c < tile; c++) {
			wide[c] = wide_blocks(x, c0 + c, b0, nb);
			n_wide += __builtin_popcountll(wide[c]);
		}
		factors_fill(&p, f, tile, 0, x, 0, c0, b0, nb);
		if (tile == 1 && n_wide > nb / 2) {
			/* Weights are read once: the planes are the two columns of a tile. */
			__m512 both[TILE] = { sums[0], lo[0] };

			factors_fill(&p, f, 1, 1, x, 1, c0, b0, nb);
			tile_times(type, 2, &w, b0, nb, x->q + at, (size_t)((uintptr_t)x->lo - (uintptr_t)x->q), &p, both);
			sums[0] = both[0];
			lo[0] = both[1];
			continue;
		}
		tile_times(type, tile, &w, b0, nb, x->q + at, ldx, &p, sums);
		if (n_wide > nb * tile / 2) {
			factors_fill(&p, f, tile, 0, x, 1, c0, b0, nb);
			tile_times(type, tile, &w, b0, nb, x->lo + at, ldx, &p, lo);
		} else {
			for (int c = 0; c < tile; c++)
				lo[c] = wide_times(type, &w, x, c0 + c, b0, wide[c], lo[c]);
		}
	}
	for (int c = 0; c < tile; c++)
		_mm512_storeu_ps(out + (size_t)(c0 + c) * (size_t)ldo, _mm512_add_ps(sums[c], lo[c]));
}

INLINE void panel_type(enum dtype type, const uint8_t *panel, const struct act *x, int32_t c0, int32_t c1, float *out,
                       int32_t ldo)
{
	for (; c0 + 8 <= c1; c0 += 8)
		panel_columns(type, 8, panel, x, c0, out, ldo);
	for (; c0 + 4 <= c1; c0 += 4)
		panel_columns(type, 4, panel, x, c0, out, ldo);
	for (; c0 + 2 <= c1; c0 += 2)
		panel_columns(type, 2, panel, x, c0, out, ldo);
	if (c0 < c1)
		panel_columns(type, 1, panel, x, c0, out, ldo);
}

void avx512_matmul_panel(enum dtype type, const void *panel, const struct act *x, int32_t c0, int32_t c1, float *out,
                         int32_t ldo)
{
	switch (type) {
	case DT_Q4_0:   panel_type(DT_Q4_0, panel, x, c0, c1, out, ldo); break;
	case DT_Q4_1:   panel_type(DT_Q4_1, panel, x, c0, c1, out, ldo); break;
	case DT_Q5_0:   panel_type(DT_Q5_0, panel, x, c0, c1, out, ldo); break;
	case DT_Q5_1:   panel_type(DT_Q5_1, panel, x, c0, c1, out, ldo); break;
	case DT_Q8_0:   panel_type(DT_Q8_0, panel, x, c0, c1, out, ldo); break;
	case DT_Q2_K:   panel_type(DT_Q2_K, panel, x, c0, c1, out, ldo); break;
	case DT_Q3_K:   panel_type(DT_Q3_K, panel, x, c0, c1, out, ldo); break;
	case DT_Q4_K:   panel_type(DT_Q4_K, panel, x, c0, c1, out, ldo); break;
	case DT_Q5_K:   panel_type(DT_Q5_K, panel, x, c0, c1, out, ldo); break;
	case DT_Q6_K:   panel_type(DT_Q6_K, panel, x, c0, c1, out, ldo); break;
	case DT_IQ4_NL: panel_type(DT_IQ4_NL, panel, x, c0, c1, out, ldo); break;
	case DT_IQ4_XS: panel_type(DT_IQ4_XS, panel, x, c0, c1, out, ldo); break;
	default:        break;               /* plain rows: avx512_matmul_rows */
	}
}

/* ---- float weights ---- */

/* 16 floats of a row; lanes outside the mask are zero and not read. */
INLINE __m512 float16(enum dtype type, const uint8_t *row, int32_t j, __mmask16 mask)
{
	if (type == DT_F32)
		return _mm512_maskz_loadu_ps(mask, (const float *)(const void *)row + j);
	__m256i h = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)(const void *)row + j);

	return type == DT_F16 ? _mm512_cvtph_ps(h)
	                      : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* nr rows x nc columns.  Every element is 16 interleaved sums and then one fixed tree. */
INLINE void rows_tile(enum dtype type, int nr, int nc, const uint8_t *w, size_t row_bytes, const float *x, int32_t cols,
                      float *out, int32_t ldo)
{
	__m512 acc[4][6];

	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int c = 0; c < nc; c++)
			acc[r][c] = _mm512_setzero_ps();
	for (int32_t j = 0; j < cols; j += 16) {
		__mmask16 mask = cols - j >= 16 ? 0xffff : (__mmask16)((1u << (cols - j)) - 1);
		__m512 wv[4];

		UNROLL for (int r = 0; r < nr; r++)
			wv[r] = float16(type, w + (size_t)r * row_bytes, j, mask);
		UNROLL for (int c = 0; c < nc; c++) {
			__m512 v = _mm512_maskz_loadu_ps(mask, x + (size_t)c * (size_t)cols + j);

			UNROLL for (int r = 0; r < nr; r++)
				acc[r][c] = _mm512_fmadd_ps(wv[r], v, acc[r][c]);
		}
	}
	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int c = 0; c < nc; c++)
			out[(size_t)c * (size_t)ldo + (size_t)r] = _mm512_reduce_add_ps(acc[r][c]);
}

INLINE void rows_type(enum dtype type, const uint8_t *w, size_t row_bytes, int32_t n_rows, const struct act *x,
                      int32_t c0, int32_t c1, float *out, int32_t ldo)
{
	int32_t cols = x->cols, r = 0;

	for (; r + 4 <= n_rows; r += 4, w += 4 * row_bytes) {
		int32_t c = c0;

		for (; c + 6 <= c1; c += 6)
			rows_tile(type, 4, 6, w, row_bytes, x->x + (size_t)c * (size_t)cols, cols,
			          out + (size_t)c * (size_t)ldo + r, ldo);
		for (; c < c1; c++)
			rows_tile(type, 4, 1, w, row_bytes, x->x + (size_t)c * (size_t)cols, cols,
			          out + (size_t)c * (size_t)ldo + r, ldo);
	}
	for (; r < n_rows; r++, w += row_bytes)
		for (int32_t c = c0; c < c1; c++)
			rows_tile(type, 1, 1, w, row_bytes, x->x + (size_t)c * (size_t)cols, cols,
			          out + (size_t)c * (size_t)ldo + r, ldo);
}

void avx512_matmul_rows(enum dtype type, const void *w, size_t row_bytes, int32_t n_rows, const struct act *x, int32_t c0,
                        int32_t c1, float *out, int32_t ldo)
{
	switch (type) {
	case DT_F32:  rows_type(DT_F32, w, row_bytes, n_rows, x, c0, c1, out, ldo); break;
	case DT_F16:  rows_type(DT_F16, w, row_bytes, n_rows, x, c0, c1, out, ldo); break;
	case DT_BF16: rows_type(DT_BF16, w, row_bytes, n_rows, x, c0, c1, out, ldo); break;
	default:      break;                 /* every quantised type is packed */
	}
}
#else
typedef int weir_no_avx512_matmul;           /* a C file must hold something */
#endif
