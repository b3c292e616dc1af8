/* kernels/cpu_avx2_matmul.c - products with packed quantised weights and with float rows, AVX2.
 *
 * The AVX-512 kernels with half the lanes (see cpu_avx512_matmul.c for the arithmetic, which is the same operation
 * by operation): a panel is 8 rows.  Without VNNI four products are summed in two steps, vpmaddubsw into 16-bit
 * pairs and vpmaddwd into 32 bits.  The pairs saturate, so the types differ in how many may be added
 * before they are widened: a stored value of at most m makes a pair of at most 2 * 127 * m,
 *
 *     m <= 15   eight groups, a whole block      m <= 31   four      m <= 63   two
 *     bytes     one, and signed: |w| times the activation with w's sign (2 * 128 * 127 still fits) */
#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include "kernels/cpu_avx2.h"
#include "kernels/cpu_pack.h"
#include "kernels/quant.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum {
	PANEL = 8, UNIT = 32,
	TILE = 4,         /* columns in registers */
	CHUNK = 64,       /* blocks whose column factors are prepared at a time */
};

/* Bytes and table values stay signed here, without an offset. */
INLINE struct pack_format format_of(enum dtype type)
{
	struct pack_format f = pack_format_of(type);

	if (f.bytes || f.lookup)
		f.offset = 0;
	return f;
}

size_t avx2_pack_bytes(enum dtype type, int32_t cols)
{
	return cpu_pack_bytes(type, PANEL, cols);
}

void avx2_pack(enum dtype type, void *panel, const void *rows, size_t row_bytes, int32_t n_rows, int32_t cols)
{
	cpu_pack(type, PANEL, 0, panel, rows, row_bytes, n_rows, cols);
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

/* Rows `first` and up = columns c0 and up of the plane q or lo. */
INLINE void factors_fill(struct factors *p, struct pack_format f, int tile, int first, const struct act *x, int is_lo,
                         int32_t c0, int32_t b0, int32_t nb)
{
	size_t blocks = (size_t)x->cols / 32, at = (size_t)c0 * blocks + (size_t)b0;

	for (int c = first; c < first + tile; c++, at += blocks) {
		const int32_t *sum = (is_lo ? x->lo_sum : x->sum) + 2 * at;

		for (int32_t b = 0; b < nb; b++)
			p->d[c][b] = is_lo ? x->d[at + (size_t)b] * (1.0f / 256) : x->d[at + (size_t)b];
		for (int32_t i = 0; i < nb * f.halves && (f.has_min || f.offset); i++) {
			int32_t s = f.halves == 2 ? sum[i] : sum[2 * i] + sum[2 * i + 1];

			p->ds[c][i] = p->d[c][i / f.halves] * (float)s;
			p->start[c][i] = -f.offset * s;
		}
	}
}

/* A bit per wide block of one column. */
INLINE uint64_t wide_blocks(const struct act *x, int32_t c, int32_t b0, int32_t nb)
{
	const uint8_t *w = x->wide + (size_t)c * ((size_t)x->cols / 32) + b0;
	uint64_t bits = 0, v;

	for (int32_t b = 0; b < nb; b += 8) {
		v = 0;
		memcpy(&v, w + b, nb - b < 8 ? (size_t)(nb - b) : 8);
		/* Eight bytes of 0 or 1: the product gathers them in the top byte. */
		bits |= (v * 0x0102040810204080 >> 56) << b;
	}
	return bits;
}

/* (x >> n) or (x << -n) in 16-bit lanes: the caller masks what crosses into the neighbour byte. */
INLINE __m256i shift(__m256i x, int n)
{
	return n > 0 ? _mm256_srli_epi16(x, n) : n < 0 ? _mm256_slli_epi16(x, -n) : x;
}

INLINE __m256i load(const uint8_t *p)
{
	return _mm256_loadu_si256((const void *)p);
}

/* 8 rows x values 4 g .. 4 g + 3 of a block as bytes. */
INLINE __m256i block_group(struct pack_format f, const uint8_t *q, int g, __m256i table)
{
	__m256i x = _mm256_setzero_si256();
	int at = 0;

	if (f.bytes)
		return load(q + g * UNIT);
	if (f.nibbles) {
		x = _mm256_and_si256(shift(load(q + g % 4 * UNIT), g / 4 * 4), _mm256_set1_epi8(15));
		at = 4;
		q += 4 * UNIT;
	}
	if (f.lookup)
		x = _mm256_shuffle_epi8(table, x);
	if (f.twos) {
		x = _mm256_or_si256(x, _mm256_and_si256(shift(load(q + g / 4 * UNIT), g % 4 * 2 - at),
		                                        _mm256_set1_epi8((char)(3 << at))));
		at += 2;
		q += 2 * UNIT;
	}
	if (f.ones)
		x = _mm256_or_si256(x, _mm256_and_si256(shift(load(q), g - at), _mm256_set1_epi8((char)(1 << at))));
	return x;
}

/* Groups whose 16-bit pairs may be added up. */
INLINE int safe_groups(struct pack_format f)
{
	int bits = f.nibbles * 4 + f.twos * 2 + f.ones;

	return f.bytes || f.lookup ? 1 : bits <= 4 ? 8 / f.halves : bits == 5 ? 4 : 2;
}

INLINE __m256 half8(const uint8_t *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

INLINE __m256 byte8(const uint8_t *p, int is_signed)
{
	__m128i v = _mm_loadl_epi64((const void *)p);

	return _mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v));
}

/* Scales and minima of the 8 rows in one block (per half block when there are two).  Products of a half and a small
 * integer are exact in f32. */
INLINE void block_scales(enum dtype type, struct pack_format f, const uint8_t *head, const uint8_t *sub, int32_t b,
                         __m256 dw[2], __m256 mw[2])
{
	if (f.group < 8) {
		dw[0] = half8(head + (f.group == 2 ? b * 2 * PANEL : 0));
		if (f.has_min)
			mw[0] = half8(head + 2 * PANEL);
		return;
	}
	__m256 d = half8(head);

	sub += b * (f.sub / 2) * PANEL;
	if (type == DT_Q2_K) {
		__m256 dmin = _mm256_sub_ps(_mm256_setzero_ps(), half8(head + 2 * PANEL));

		for (int h = 0; h < 2; h++) {
			__m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(sub + h * PANEL)));

			dw[h] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_and_si256(v, _mm256_set1_epi32(15))));
			mw[h] = _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(_mm256_srli_epi32(v, 4)));
		}
	} else if (f.has_min) {
		dw[0] = _mm256_mul_ps(d, byte8(sub, 0));
		mw[0] = _mm256_mul_ps(_mm256_sub_ps(_mm256_setzero_ps(), half8(head + 2 * PANEL)), byte8(sub + PANEL, 0));
	} else {
		for (int h = 0; h < f.halves; h++)
			dw[h] = _mm256_mul_ps(d, byte8(sub + h * PANEL, 1));
	}
}

INLINE __m256i four(const int8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof v);
	return _mm256_set1_epi32(v);
}

struct weights {
	const uint8_t *panel;
	__m256i table;                   /* of types with lookup */
};

/* acc += block b times `tile` columns.  q, d, ds and start point at this block in the first column; the next column is ldx
 * or a row of struct factors further. */
INLINE void block_times(enum dtype type, int tile, const struct weights *w, int32_t b, const int8_t *q, size_t ldx,
                        const float *d, const float *ds, const int32_t *start, __m256 *acc)
{
	const struct pack_format f = format_of(type);
	const size_t group_bytes = (size_t)pack_group_units(f) * UNIT, block_bytes = (size_t)pack_block_units(f) * UNIT;
	const int per = 8 / f.halves;        /* groups of four values under one scale */
	const int safe = safe_groups(f);
	const __m256i ones = _mm256_set1_epi16(1);
	int32_t in = b % f.group;
	const uint8_t *head = w->panel + (size_t)(b / f.group) * group_bytes, *sub = head + UNIT;
	const uint8_t *quants = sub + f.sub * UNIT + (size_t)in * block_bytes;
	__m256 dw[2], mw[2];
	__m256i sum[TILE], pairs[TILE];

	block_scales(type, f, head, sub, in, dw, mw);
	UNROLL for (int g = 0; g < 8; g++) {
		const int h = g / per;
		__m256i v = block_group(f, quants, g, w->table), size = _mm256_abs_epi8(v);

		if (g % per == 0)
			UNROLL for (int c = 0; c < tile; c++)
				sum[c] = f.offset ? _mm256_set1_epi32(start[c * 2 * CHUNK + h]) : _mm256_setzero_si256();
		UNROLL for (int c = 0; c < tile; c++) {
			__m256i a = four(q + (size_t)c * ldx + 4 * g);

			a = f.bytes || f.lookup ? _mm256_maddubs_epi16(size, _mm256_sign_epi8(a, v)) : _mm256_maddubs_epi16(v, a);
			pairs[c] = g % safe == 0 ? a : _mm256_add_epi16(pairs[c], a);
			if (g % safe == safe - 1)
				sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(pairs[c], ones));
		}
		if (g % per < per - 1)
			continue;
		UNROLL for (int c = 0; c < tile; c++) {
			acc[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[c]),
			                         _mm256_mul_ps(dw[h], _mm256_set1_ps(d[c * CHUNK])), acc[c]);
			if (f.has_min)
				acc[c] = _mm256_fmadd_ps(mw[h], _mm256_set1_ps(ds[c * 2 * CHUNK + h]), acc[c]);
		}
	}
}

/* sums += blocks b0 .. b0 + nb times `tile` columns of one plane. */
INLINE void tile_times(enum dtype type, int tile, const struct weights *w, int32_t b0, int32_t nb, const int8_t *q,
                       size_t ldx, const struct factors *p, __m256 *sums)
{
	const int halves = format_of(type).halves;
	__m256 acc[TILE];

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
INLINE __m256 wide_times(enum dtype type, const struct weights *w, const struct act *x, int32_t c, int32_t b0, uint64_t wide,
                         __m256 acc)
{
	const struct pack_format f = format_of(type);
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
	const struct pack_format f = format_of(type);
	struct weights w = { .panel = panel };
	struct factors p;
	__m256 sums[TILE], lo[TILE];
	size_t ldx = (size_t)x->cols, at = (size_t)c0 * ldx;
	int32_t blocks = x->cols / 32;

	if (f.lookup)
		w.table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)iq4_values));
	for (int c = 0; c < tile; c++)
		sums[c] = lo[c] = _mm256_setzero_ps();
	for (int32_t b0 = 0; b0 < blocks; b0 += CHUNK) {
		int32_t nb = min32(blocks - b0, CHUNK), n_wide = 0;
		uint64_t wide[TILE];

		for (int c = 0; c < tile; c++) {
			wide[c] = wide_blocks(x, c0 + c, b0, nb);
			for (uint64_t v = wide[c]; v; v &= v - 1)
				n_wide++;
		}
		factors_fill(&p, f, tile, 0, x, 0, c0, b0, nb);
		if (tile == 1 && n_wide > nb / 2) {
			/* Weights are read once: the planes are the two columns of a tile. */
			__m256 both[TILE] = { sums[0], lo[0] };

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
		_mm256_storeu_ps(out + (size_t)(c0 + c) * (size_t)ldo, _mm256_add_ps(sums[c], lo[c]));
}

INLINE void panel_type(enum dtype type, const uint8_t *panel, const struct act *x, int32_t c0, int32_t c1, float *out,
                       int32_t ldo)
{
	for (; c0 + 4 <= c1; c0 += 4)
		panel_columns(type, 4, panel, x, c0, out, ldo);
	for (; c0 + 2 <= c1; c0 += 2)
		panel_columns(type, 2, panel, x, c0, out, ldo);
	if (c0 < c1)
		panel_columns(type, 1, panel, x, c0, out, ldo);
}

void avx2_matmul_panel(enum dtype type, const void *panel, const struct act *x, int32_t c0, int32_t c1, float *out,
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
	default:        break;               /* plain rows: avx2_matmul_rows */
	}
}

/* ---- float weights ---- */

/* 8 floats of a row. */
INLINE __m256 float8(enum dtype type, const uint8_t *row)
{
	if (type == DT_F32)
		return _mm256_loadu_ps((const float *)(const void *)row);
	__m128i h = _mm_loadu_si128((const void *)row);

	return type == DT_F16 ? _mm256_cvtph_ps(h) : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* The last n < 8 floats of a row, zeros after them; nothing past the row is read. */
INLINE __m256 float_tail(enum dtype type, const uint8_t *row, int32_t n)
{
	uint8_t bytes[32] = { 0 };

	memcpy(bytes, row, (size_t)n * (type == DT_F32 ? 4 : 2));
	return float8(type, bytes);
}

/* nr rows x nc columns.  Every element is 8 interleaved sums and then one fixed tree. */
INLINE void rows_tile(enum dtype type, int nr, int nc, const uint8_t *w, size_t row_bytes, const float *x, int32_t cols,
                      float *out, int32_t ldo)
{
	size_t size = type == DT_F32 ? 4 : 2;
	int32_t j = 0;
	__m256 acc[4][2], wv[4];

	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int c = 0; c < nc; c++)
			acc[r][c] = _mm256_setzero_ps();
	for (; j + 8 <= cols; j += 8) {
		UNROLL for (int r = 0; r < nr; r++)
			wv[r] = float8(type, w + (size_t)r * row_bytes + (size_t)j * size);
		UNROLL for (int c = 0; c < nc; c++) {
			__m256 v = _mm256_loadu_ps(x + (size_t)c * (size_t)cols + j);

			UNROLL for (int r = 0; r < nr; r++)
				acc[r][c] = _mm256_fmadd_ps(wv[r], v, acc[r][c]);
		}
	}
	if (j < cols) {
		UNROLL for (int r = 0; r < nr; r++)
			wv[r] = float_tail(type, w + (size_t)r * row_bytes + (size_t)j * size, cols - j);
		UNROLL for (int c = 0; c < nc; c++) {
			__m256 v = _mm256_maskload_ps(x + (size_t)c * (size_t)cols + j, avx2_lanes(cols - j));

			UNROLL for (int r = 0; r < nr; r++)
				acc[r][c] = _mm256_fmadd_ps(wv[r], v, acc[r][c]);
		}
	}
	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int c = 0; c < nc; c++)
			out[(size_t)c * (size_t)ldo + (size_t)r] = avx2_sum(acc[r][c]);
}

INLINE void rows_type(enum dtype type, const uint8_t *w, size_t row_bytes, int32_t n_rows, const struct act *x,
                      int32_t c0, int32_t c1, float *out, int32_t ldo)
{
	int32_t cols = x->cols, r = 0;

	for (; r + 4 <= n_rows; r += 4, w += 4 * row_bytes) {
		int32_t c = c0;

		for (; c + 2 <= c1; c += 2)
			rows_tile(type, 4, 2, w, row_bytes, x->x + (size_t)c * (size_t)cols, cols,
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

void avx2_matmul_rows(enum dtype type, const void *w, size_t row_bytes, int32_t n_rows, const struct act *x, int32_t c0,
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
typedef int weir_no_avx2_matmul;             /* a C file must hold something */
#endif
