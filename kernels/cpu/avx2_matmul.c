/* kernels/cpu/avx2_matmul.c - products with packed quantised weights, AVX2.
 *
 * The AVX-512 kernels with half the lanes (see avx512_matmul.c for the arithmetic, which is the same operation by
 * operation, and for what is fetched ahead): a panel is 8 rows. Without VNNI four products are summed in two steps,
 * vpmaddubsw into 16-bit pairs and vpmaddwd into 32 bits. The pairs saturate, so the types differ in how many may be
 * added before they are widened: a stored value of at most m makes a pair of at most 2 * 127 * m,
 *
 *     m <= 15   eight groups, a whole block      m <= 31   four      m <= 63   two
 *     table     one, and signed: |w| times the activation with w's sign (2 * 128 * 127 still fits)
 *
 * Bytes (Q8_0) are multiplied as 16-bit values with columns of words (cols.h) by vpmaddwd: Q8_0 wants 16 bits of every
 * activation, and two planes of bytes take twice as long. */
#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/cols.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/pack.h"
#include "kernels/common/quant.h"

enum {
	PANEL = 8,
	UNIT = 32,
	TILE = 6 /* columns in registers */,
	FETCH_AHEAD = 4096 /* bytes */,
	FEW = 16 /* columns of a step that reads weights from memory */
};

const uint8_t avx2_widths[] = { 1, 2, 4, TILE, 0 };

/* Bytes and table values stay signed here, without an offset. */
INLINE struct pack_format format_of(enum dtype type)
{
	struct pack_format f = pack_format_of(type);

	if (f.bytes || f.lookup)
		f.offset = 0;
	f.words = f.bytes;
	return f;
}

struct pack_format avx2_format(enum dtype type)
{
	return format_of(type);
}

size_t avx2_pack_bytes(enum dtype type, int32_t cols)
{
	return cpu_pack_bytes(type, PANEL, cols);
}

void avx2_pack(enum dtype type, void *panel, const void *rows, size_t row_bytes, int32_t n_rows, int32_t cols)
{
	cpu_pack(type, PANEL, 0, panel, rows, row_bytes, n_rows, cols);
}

/* ---- quantised weights ---- */

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

	return f.lookup ? 1 : bits <= 4 ? 8 / f.halves : bits == 5 ? 4 : 2;
}

INLINE __m256 half8(const uint8_t *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

INLINE __m256 bfloat8(const uint8_t *p)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16));
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
		head += f.group == 2 ? b * 2 * PANEL : 0;
		dw[0] = f.bf16 ? bfloat8(head) : half8(head);
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
		mw[0] = _mm256_mul_ps(_mm256_sub_ps(_mm256_setzero_ps(), half8(head + 2 * PANEL)),
		                      byte8(sub + PANEL, 0));
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
	__m256i table; /* of types with lookup */
	int ahead;     /* fetch lines FETCH_AHEAD bytes ahead */
};

INLINE __m256 by_ds(const struct cols_block *k, int h, int c)
{
	return _mm256_set1_ps(((const float *)k->by)[h * k->width + c]);
}

INLINE __m256i by_start(const struct cols_block *k, int h, int c)
{
	return _mm256_set1_epi32(((const int32_t *)k->by)[h * k->width + c]);
}

/* Keeps the compiler from turning a chain of sums into a tree, all of whose leaves then wait in memory: there are 16
 * registers. */
#define IN_ORDER(v) __asm__("" : "+x"(v))

/* acc += block b times `tile` columns. */
INLINE void block_times(enum dtype type, int tile, const struct weights *w, int32_t b, const struct cols_block *k,
                        __m256 *acc)
{
	const struct pack_format f = format_of(type);
	const size_t group_bytes = (size_t)pack_group_units(f) * UNIT, block_bytes = (size_t)pack_block_units(f) * UNIT;
	const int per = 8 / f.halves; /* groups of four values under one scale */
	const int safe = safe_groups(f);
	const __m256i ones = _mm256_set1_epi16(1);
	int32_t in = b % f.group;
	const uint8_t *head = w->panel + (size_t)(b / f.group) * group_bytes, *sub = head + UNIT;
	const uint8_t *quants = sub + f.sub * UNIT + (size_t)in * block_bytes;
	__m256 dw[2], mw[2];
	__m256i sum[TILE], pairs[TILE];

	/* Which steps fetch weights ahead, and why not all: avx512_matmul.c. */
	if (tile == 1 ? f.group == 8 : w->ahead)
		UNROLL for (int i = 0; i < pack_block_units(f) + 2; i += 2)
			_mm_prefetch((const char *)quants + FETCH_AHEAD + UNIT * i, _MM_HINT_T0);
	block_scales(type, f, head, sub, in, dw, mw);
	UNROLL for (int g = 0; g < 8; g++)
	{
		const int h = g / per;
		__m256i v = block_group(f, quants, g, w->table), size = _mm256_abs_epi8(v);

		if (g % per == 0)
			UNROLL for (int c = 0; c < tile; c++) sum[c] =
				f.offset ? by_start(k, h, c) : _mm256_setzero_si256();
		UNROLL for (int c = 0; c < tile; c++)
		{
			__m256i a = four(k->q + 32 * c + 4 * g);

			a = f.lookup ? _mm256_maddubs_epi16(size, _mm256_sign_epi8(a, v)) : _mm256_maddubs_epi16(v, a);
			pairs[c] = g % safe == 0 ? a : _mm256_add_epi16(pairs[c], a);
			IN_ORDER(pairs[c]);
			if (g % safe == safe - 1) {
				sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(pairs[c], ones));
				IN_ORDER(sum[c]);
			}
		}
		if (g % per < per - 1)
			continue;
		UNROLL for (int c = 0; c < tile; c++)
		{
			acc[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[c]),
			                         _mm256_mul_ps(dw[h], _mm256_set1_ps(k->d[c])), acc[c]);
			if (f.has_min)
				acc[c] = _mm256_fmadd_ps(mw[h], by_ds(k, h, c), acc[c]);
		}
	}
}

/* acc += block b of bytes times `tile` columns of words at p.  Exact: 32 products of 127 and 32,639 fit 32 bits. */
INLINE void block_times_words(enum dtype type, int tile, const struct weights *w, int32_t b, const uint8_t *p,
                              __m256 *acc)
{
	const struct pack_format f = format_of(type);
	const uint8_t *head = w->panel + (size_t)(b / f.group) * (size_t)pack_group_units(f) * UNIT;
	const uint8_t *quants = head + UNIT + (size_t)(b % f.group) * (size_t)pack_block_units(f) * UNIT;
	const float *d = (const float *)(const void *)(p + 64 * tile);
	__m256i sum[TILE];
	__m256 dw[2], mw[2];

	block_scales(type, f, head, NULL, b % f.group, dw, mw);
	UNROLL for (int c = 0; c < tile; c++) sum[c] = _mm256_setzero_si256();
	UNROLL for (int g = 0; g < 8; g++)
	{
		const __m256i v = load(quants + g * UNIT);
		const __m256i odd = _mm256_srai_epi16(v, 8), even = _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);

		UNROLL for (int c = 0; c < tile; c++)
		{
			const int8_t *q = (const int8_t *)p + 64 * c + 8 * g;

			sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(even, four(q)));
			IN_ORDER(sum[c]);
			sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(odd, four(q + 4)));
			IN_ORDER(sum[c]);
		}
	}
	UNROLL for (int c = 0; c < tile; c++) acc[c] =
		_mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[c]), _mm256_mul_ps(dw[0], _mm256_set1_ps(d[c])), acc[c]);
}

/* out[8 c ..] = one panel times a tile of columns. */
INLINE void tile_times(enum dtype type, int tile, const struct weights *w, int32_t blocks, const uint8_t *p, float *out)
{
	const size_t step = cols_block_bytes(format_of(type), tile);
	__m256 acc[TILE];

	UNROLL for (int c = 0; c < tile; c++) acc[c] = _mm256_setzero_ps();
	for (int32_t b = 0; b < blocks; b++, p += step) {
		if (format_of(type).words) {
			block_times_words(type, tile, w, b, p, acc);
			continue;
		}
		struct cols_block k = cols_block_at(p, tile);

		block_times(type, tile, w, b, &k, acc);
	}
	UNROLL for (int c = 0; c < tile; c++) _mm256_store_ps(out + PANEL * c, acc[c]);
}

/* lo[8 col ..] += a unit. */
INLINE void unit_times(enum dtype type, int n, const struct weights *w, const struct cols_unit *u, float *lo)
{
	struct cols_block k = cols_block_at(u->p, n);
	__m256 acc[TILE];

	UNROLL for (int c = 0; c < n; c++) acc[c] = _mm256_load_ps(lo + PANEL * u->col[c]);
	block_times(type, n, w, u->block, &k, acc);
	UNROLL for (int c = 0; c < n; c++) _mm256_store_ps(lo + PANEL * u->col[c], acc[c]);
}

INLINE void panels_type(enum dtype type, const uint8_t *panels, int32_t n_panels, const struct cols *k, float *out,
                        int32_t ldo)
{
	_Alignas(64) float result[COLS_RESULTS * PANEL];
	size_t panel_bytes = cpu_pack_bytes(type, PANEL, k->blocks * 32);
	float *lo = result + PANEL * k->lo_at;
	struct weights w = { .panel = panels };

	if (format_of(type).lookup)
		w.table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)nibble_values(type)));
	for (int32_t i = 0; i < n_panels; i++) {
		float *o = out + PANEL * i;

		w.panel = panels + (size_t)i * panel_bytes;
		w.ahead = k->n > 1 && k->n <= FEW;
		for (int32_t t = 0; t < k->n_tiles; t++) {
			float *r = result + PANEL * k->tile[t].at;

			switch (k->tile[t].width) {
			case 1: tile_times(type, 1, &w, k->blocks, k->tile[t].p, r); break;
			case 2: tile_times(type, 2, &w, k->blocks, k->tile[t].p, r); break;
			case 4: tile_times(type, 4, &w, k->blocks, k->tile[t].p, r); break;
			default: tile_times(type, TILE, &w, k->blocks, k->tile[t].p, r); break;
			}
		}
		if (format_of(type).words) {
			for (int32_t c = 0; c < k->n; c++, o += ldo)
				_mm256_storeu_ps(o, _mm256_load_ps(result + PANEL * c));
			continue;
		}
		for (int32_t c = 0; c <= k->n && !k->lo_tiled; c++)
			_mm256_store_ps(lo + PANEL * c, _mm256_setzero_ps());
		w.ahead = 0;
		for (int32_t u = 0; u < k->n_units; u++)
			switch (k->unit[u].width) {
			case 1: unit_times(type, 1, &w, &k->unit[u], lo); break;
			case 2: unit_times(type, 2, &w, &k->unit[u], lo); break;
			case 4: unit_times(type, 4, &w, &k->unit[u], lo); break;
			default: unit_times(type, TILE, &w, &k->unit[u], lo); break;
			}
		for (int32_t c = 0; c < k->n; c++, o += ldo)
			_mm256_storeu_ps(o, _mm256_add_ps(_mm256_load_ps(result + PANEL * c),
			                                  _mm256_load_ps(lo + PANEL * c)));
	}
}

void avx2_matmul_panels(enum dtype type, const void *panels, int32_t n, const struct cols *k, float *out, int32_t ldo)
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

/* A block of four-bit weights at a time: eight products added in pairs, then widened.  The empty asm makes the
 * compiler believe that the sums are used and change. */
uint64_t avx2_multiply(int32_t rounds)
{
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i sum[TILE], w = _mm256_set1_epi8(3);

	/* Unrolled, too, or the sums live in memory and the probe measures stores. */
	UNROLL for (int c = 0; c < TILE; c++) sum[c] = _mm256_setzero_si256();
	for (int32_t i = 0; i < rounds; i++)
		UNROLL for (int c = 0; c < TILE; c++)
		{
			__m256i pairs = _mm256_maddubs_epi16(w, w);

			UNROLL for (int g = 1; g < 8; g++)
			{
				__asm__ volatile("" : "+x"(pairs), "+x"(w));
				pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w, w));
			}
			sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(pairs, ones));
			__asm__ volatile("" : "+x"(sum[c]), "+x"(w));
		}
	return (uint64_t)rounds * TILE * 8 * 32;
}

#else
typedef int weir_no_avx2_matmul; /* a C file must hold something */
#endif
