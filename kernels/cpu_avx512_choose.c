/* kernels/cpu_avx512_choose.c - choosing rows, AVX-512.
 *
 * A copy's panel is sixteen keys, one per lane: a byte product gives four values of all sixteen for one query head,
 * and the codes are taken apart once for up to four heads.  Rows of a plane are multiplied where they lie, four at a
 * time, and summed across at the end. */
#include "kernels/cpu_choose.h"

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <math.h>
#include "kernels/cpu_avx512.h"
#define PANEL_LANES 16
#include "kernels/cpu_panel.h"
#include "kernels/quant.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum { HEADS = 4, PANELS_MOST = 2, ROWS = 4, AHEAD = 5 << 10, LINE = 64 };

static __mmask16 lanes(int32_t n)
{
	return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}

/* ---- rows as floats ---- */

/* Values j .. j + 15 of a row; those outside the mask are zero. */
INLINE __m512 row16(enum dtype type, const uint8_t *row, int32_t j, __mmask16 mask)
{
	switch (type) {
	case DT_F16:
		return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, row + 2 * (size_t)j));
	case DT_BF16:
		return _mm512_castsi512_ps(_mm512_slli_epi32(
			_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, row + 2 * (size_t)j)), 16));
	case DT_Q8_0: {
		/* Whole blocks: the mask is full. */
		const struct block_q8_0 *b = (const struct block_q8_0 *)(const void *)row + j / 32;
		__m512i q = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(b->qs + j % 32)));

		return _mm512_mul_ps(_mm512_cvtepi32_ps(q), _mm512_set1_ps(_cvtsh_ss(b->d)));
	}
	default:
		return _mm512_maskz_loadu_ps(mask, row + 4 * (size_t)j);
	}
}

INLINE void to_f32(enum dtype type, float *out, const void *in, int32_t n)
{
	for (int32_t j = 0; j < n; j += 16)
		_mm512_mask_storeu_ps(out + j, lanes(n - j), row16(type, in, j, lanes(n - j)));
}

static void row_to_f32(enum dtype type, float *out, const void *in, int32_t n)
{
	switch (type) {
	case DT_F16:
		to_f32(DT_F16, out, in, n);
		break;
	case DT_BF16:
		to_f32(DT_BF16, out, in, n);
		break;
	case DT_Q8_0:
		to_f32(DT_Q8_0, out, in, n);
		break;
	default:
		to_f32(DT_F32, out, in, n);
	}
}

/* ---- the copy ---- */

static void key_code(uint8_t *panel, int32_t lane, const float *x, int32_t dim, int32_t bits)
{
	float most = (float)((1 << bits) - 1);

	for (int32_t g = 0; g < sketch_groups(dim); g++, x += SKETCH_GROUP) {
		int32_t n = sketch_values(dim, g);
		__m512 first = _mm512_set1_ps(x[0]), top = _mm512_set1_ps(most), none = _mm512_setzero_ps(), min, inv;
		__m512 v[SKETCH_GROUP / 16], low = first, high = first;
		uint8_t code[SKETCH_GROUP];
		uint16_t scale, base;
		float lo, hi, d;

		UNROLL for (int i = 0; i < SKETCH_GROUP / 16; i++) {
			v[i] = _mm512_mask_loadu_ps(first, lanes(n - 16 * i), x + 16 * i);
			low = _mm512_min_ps(low, v[i]);
			high = _mm512_max_ps(high, v[i]);
		}
		lo = _mm512_reduce_min_ps(low);
		hi = _mm512_reduce_max_ps(high);
		scale = _cvtss_sh((hi - lo) / most, _MM_FROUND_TO_NEAREST_INT);
		base = _cvtss_sh(lo, _MM_FROUND_TO_NEAREST_INT);

		d = _cvtsh_ss(scale);
		inv = _mm512_set1_ps(d > 0 ? 1.0f / d : 0);
		min = _mm512_set1_ps(_cvtsh_ss(base));
		UNROLL for (int i = 0; i < SKETCH_GROUP / 16; i++) {
			/* max(NaN, 0) is 0 in this order. */
			v[i] = _mm512_min_ps(_mm512_max_ps(_mm512_mul_ps(_mm512_sub_ps(v[i], min), inv), none), top);
			_mm_storeu_si128((void *)(code + 16 * i),
			                 _mm512_cvtepi32_epi8(_mm512_maskz_cvtps_epi32(lanes(n - 16 * i), v[i])));
		}
		panel = sketch_store(panel, lane, scale, base, code, n, bits);
	}
}

INLINE __m512i four_bytes(const int8_t *q)
{
	int32_t w;

	memcpy(&w, q, 4);
	return _mm512_set1_epi32(w);
}

/* Keys are read once, in order, but a page's end stops the processor's own looking ahead: a scan takes half as long again
 * without this. */
INLINE void fetch(const uint8_t *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += LINE)
		_mm_prefetch((const char *)p + AHEAD + i, _MM_HINT_T0);
}

/* One unit's products: codes apart, four values at a time, each part of the query read once for all of np panels. */
INLINE void unit_dots(int np, int nr, int bits, int wide, const uint8_t *unit, size_t panel_bytes, const int8_t *hi, const int8_t *lo,
                      size_t stride, __m512i dot[PANELS_MOST][HEADS], __m512i low[PANELS_MOST][HEADS])
{
	const __m512i mask = _mm512_set1_epi8((char)((1 << bits) - 1));
	__m512i c[PANELS_MOST];

	UNROLL for (int p = 0; p < np; p++) {
		c[p] = _mm512_loadu_si512(unit + (size_t)p * panel_bytes);
		__asm__("" : "+v"(c[p]));    /* once, not for every shift */
	}
	UNROLL for (int s = 0; s < 4; s++) {
		__m512i code[PANELS_MOST];

		if (s * bits >= 8)
			break;
		UNROLL for (int p = 0; p < np; p++)
			code[p] = bits == 8 ? c[p] : _mm512_and_si512(s ? _mm512_srli_epi32(c[p], (unsigned)(s * bits)) : c[p], mask);
		UNROLL for (int r = 0; r < nr; r++) {
			__m512i q = four_bytes(hi + (size_t)r * stride + 4 * s);

			UNROLL for (int p = 0; p < np; p++)
				dot[p][r] = _mm512_dpbusd_epi32(dot[p][r], code[p], q);
			if (wide) {
				q = four_bytes(lo + (size_t)r * stride + 4 * s);
				UNROLL for (int p = 0; p < np; p++)
					low[p][r] = _mm512_dpbusd_epi32(low[p][r], code[p], q);
			}
		}
	}
}

/* What is the same for all panels of a tile: query heads r0 .. r0 + nr. */
struct scan_heads {
	size_t panel_bytes, stride;
	int32_t groups, last;        /* of a key; units of its last group */
	const int8_t *hi, *lo;
	const float *sum;
	float *score;
	size_t ld;
};

/* np panels from key k on. */
INLINE void scan_some(int np, int nr, int bits, int wide, const struct scan_heads *h, const uint8_t *panel, int32_t k, int32_t k1,
                      __m512 max[HEADS])
{
	const int whole = SKETCH_GROUP / 32 * bits;
	const uint8_t *at = panel;
	__m512 s[PANELS_MOST][HEADS];

	fetch(panel, (size_t)np * h->panel_bytes);
	UNROLL for (int p = 0; p < np; p++)
		UNROLL for (int r = 0; r < nr; r++)
			s[p][r] = _mm512_setzero_ps();
	for (int32_t g = 0; g < h->groups; g++) {
		const uint8_t *head = at;
		const int8_t *hi = h->hi + (size_t)g * SKETCH_GROUP, *lo = h->lo + (size_t)g * SKETCH_GROUP;
		__m512i dot[PANELS_MOST][HEADS], low[PANELS_MOST][HEADS];

		UNROLL for (int p = 0; p < np; p++)
			UNROLL for (int r = 0; r < nr; r++)
				dot[p][r] = low[p][r] = _mm512_setzero_si512();
		at += 64;
		if (g + 1 < h->groups || h->last == whole) {
			UNROLL for (int u = 0; u < whole; u++)
				unit_dots(np, nr, bits, wide, at + 64 * u, h->panel_bytes, hi + 32 / bits * u, lo + 32 / bits * u, h->stride, dot,
				          low);
			at += 64 * whole;
		} else {
			for (int32_t u = 0; u < h->last; u++, at += 64)
				unit_dots(np, nr, bits, wide, at, h->panel_bytes, hi + 32 / bits * u, lo + 32 / bits * u, h->stride, dot, low);
		}
		UNROLL for (int p = 0; p < np; p++, head += h->panel_bytes) {
			__m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)head));
			__m512 min = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(head + 32)));

			UNROLL for (int r = 0; r < nr; r++) {
				if (wide)
					dot[p][r] = _mm512_add_epi32(_mm512_slli_epi32(dot[p][r], 8), low[p][r]);
				s[p][r] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(dot[p][r]), s[p][r]);
				s[p][r] = _mm512_fmadd_ps(min, _mm512_set1_ps(h->sum[r * h->groups + g]), s[p][r]);
			}
		}
	}
	UNROLL for (int p = 0; p < np; p++, k += SKETCH_PANEL) {
		__mmask16 seen = lanes(k1 - k);

		UNROLL for (int r = 0; r < nr; r++) {
			_mm512_storeu_ps(h->score + (size_t)r * h->ld + (size_t)k, s[p][r]);
			max[r] = _mm512_mask_max_ps(max[r], seen, s[p][r], max[r]);
		}
	}
}

/* Query heads r0 .. r0 + nr over the tile's panels. */
INLINE void scan_panels(int nr, int bits, int wide, const struct scan_tile *t, int32_t r0)
{
	const int np = wide && nr > 2 ? 1 : PANELS_MOST;     /* as many as there are registers for */
	int32_t groups = sketch_groups(t->dim), k = t->k0;
	size_t stride = (size_t)groups * SKETCH_GROUP, from = (size_t)r0 * stride;
	struct scan_heads h = {
		.panel_bytes = sketch_panel_bytes(t->dim, bits), .stride = stride, .groups = groups,
		.last = sketch_units(sketch_values(t->dim, groups - 1), bits), .hi = t->hi + from, .lo = wide ? t->lo + from : t->hi + from,
		.sum = t->sum + (size_t)r0 * (size_t)groups, .score = t->score + (size_t)r0 * t->ld, .ld = t->ld,
	};
	const uint8_t *panel = (const uint8_t *)t->keys + (size_t)(k / SKETCH_PANEL) * h.panel_bytes;
	__m512 max[HEADS];

	UNROLL for (int r = 0; r < nr; r++)
		max[r] = _mm512_set1_ps(-INFINITY);
	for (; k + (np - 1) * SKETCH_PANEL < t->k1; k += np * SKETCH_PANEL, panel += (size_t)np * h.panel_bytes)
		scan_some(np, nr, bits, wide, &h, panel, k, t->k1, max);
	for (; k < t->k1; k += SKETCH_PANEL, panel += h.panel_bytes)
		scan_some(1, nr, bits, wide, &h, panel, k, t->k1, max);
	UNROLL for (int r = 0; r < nr; r++)
		t->max[r0 + r] = _mm512_reduce_max_ps(max[r]);
}

#define PANELS(nr, bits, wide) static void panels_##nr##_##bits##_##wide(const struct scan_tile *t, int32_t r0) \
	{ scan_panels(nr, bits, wide, t, r0); }
#define PANELS4(bits, wide) PANELS(1, bits, wide) PANELS(2, bits, wide) PANELS(3, bits, wide) PANELS(4, bits, wide)
PANELS4(2, 0) PANELS4(2, 1) PANELS4(4, 0) PANELS4(4, 1) PANELS4(8, 0) PANELS4(8, 1)

typedef void panels_fn(const struct scan_tile *, int32_t);
#define ROW4(bits, wide) \
	{ panels_1_##bits##_##wide, panels_2_##bits##_##wide, panels_3_##bits##_##wide, panels_4_##bits##_##wide }
static panels_fn *const panels[3][2][HEADS] = {
	{ ROW4(2, 0), ROW4(2, 1) }, { ROW4(4, 0), ROW4(4, 1) }, { ROW4(8, 0), ROW4(8, 1) },
};

static void scan_sketch(const struct scan_tile *t)
{
	panels_fn *const *fn = panels[t->bits == 2 ? 0 : t->bits == 4 ? 1 : 2][t->lo != NULL];

	for (int32_t r = 0; r < t->n_q; r += HEADS)
		fn[t->n_q - r < HEADS ? t->n_q - r - 1 : HEADS - 1](t, r);
}

/* ---- rows of a plane ---- */

/* Sums of four vectors. */
INLINE __m128 sums4(const __m512 a[4])
{
	__m256 h[4];

	UNROLL for (int i = 0; i < 4; i++)
		h[i] = _mm256_add_ps(_mm512_castps512_ps256(a[i]), _mm512_extractf32x8_ps(a[i], 1));
	h[0] = _mm256_hadd_ps(_mm256_hadd_ps(h[0], h[1]), _mm256_hadd_ps(h[2], h[3]));
	return _mm_add_ps(_mm256_castps256_ps128(h[0]), _mm256_extractf128_ps(h[0], 1));
}

INLINE void rows_dot(int nr, enum dtype type, const struct scan_tile *t, int32_t r0)
{
	size_t dim = (size_t)t->dim, row_bytes = type == DT_F32 ? 4 * dim : type == DT_Q8_0 ? 34 * dim / 32 : 2 * dim;
	size_t stride = ((size_t)t->dim + 15) & ~(size_t)15;
	const float *q = t->q + (size_t)r0 * stride;
	float *score = t->score + (size_t)r0 * t->ld;

	for (int32_t k = t->k0; k < t->k1; k += ROWS) {
		const uint8_t *row[ROWS];
		__m512 s[HEADS][ROWS];

		UNROLL for (int i = 0; i < ROWS; i++)
			row[i] = (const uint8_t *)t->keys + (size_t)(k + i < t->k1 ? k + i : t->k1 - 1) * row_bytes;
		fetch(row[0], ROWS * row_bytes);
		UNROLL for (int r = 0; r < nr; r++)
			UNROLL for (int i = 0; i < ROWS; i++)
				s[r][i] = _mm512_setzero_ps();
		for (int32_t j = 0; j < t->dim; j += 16) {
			__mmask16 mask = lanes(t->dim - j);
			__m512 x[ROWS];

			UNROLL for (int i = 0; i < ROWS; i++)
				x[i] = row16(type, row[i], j, mask);
			UNROLL for (int r = 0; r < nr; r++) {
				__m512 v = _mm512_loadu_ps(q + (size_t)r * stride + j);

				UNROLL for (int i = 0; i < ROWS; i++)
					s[r][i] = _mm512_fmadd_ps(v, x[i], s[r][i]);
			}
		}
		UNROLL for (int r = 0; r < nr; r++)
			_mm_storeu_ps(score + (size_t)r * t->ld + (size_t)k, sums4(s[r]));
	}
}

#define DOTS(nr, type) static void dots_##nr##_##type(const struct scan_tile *t, int32_t r0) \
	{ rows_dot(nr, type, t, r0); }
#define DOTS4(type) DOTS(1, type) DOTS(2, type) DOTS(3, type) DOTS(4, type)
DOTS4(DT_F32) DOTS4(DT_F16) DOTS4(DT_BF16) DOTS4(DT_Q8_0)
#define TYPE4(type) { dots_1_##type, dots_2_##type, dots_3_##type, dots_4_##type }
static panels_fn *const dots[4][HEADS] = { TYPE4(DT_F32), TYPE4(DT_F16), TYPE4(DT_BF16), TYPE4(DT_Q8_0) };

static void scan_rows(const struct scan_tile *t)
{
	panels_fn *const *fn = dots[t->type == DT_F32 ? 0 : t->type == DT_F16 ? 1 : t->type == DT_BF16 ? 2 : 3];

	for (int32_t r = 0; r < t->n_q; r += HEADS)
		fn[t->n_q - r < HEADS ? t->n_q - r - 1 : HEADS - 1](t, r);
	for (int32_t r = 0; r < t->n_q; r++) {
		__m512 max = _mm512_set1_ps(-INFINITY);

		for (int32_t k = t->k0; k < t->k1; k += 16)
			max = _mm512_mask_max_ps(max, lanes(t->k1 - k), _mm512_loadu_ps(t->score + (size_t)r * t->ld + (size_t)k), max);
		t->max[r] = _mm512_reduce_max_ps(max);
	}
}

/* ---- probabilities ---- */

/* sum + exp(x), x <= 0; mult is CHOOSE_LOG2E times a factor of x. */
INLINE __m512 add_exp(__m512 sum, __m512 x, __m512 mult)
{
	const __m512i mantissa = _mm512_set1_epi32(0x7fffff), one = _mm512_set1_epi32(0x3f800000);
	__m512i i = _mm512_cvttps_epi32(_mm512_fmadd_ps(x, mult, _mm512_set1_ps(CHOOSE_ONE)));
	__m512 m, p;

	i = _mm512_max_epi32(i, _mm512_setzero_si512());
	m = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(i, mantissa, one, 0xea));   /* i & mantissa | one */
	p = _mm512_fmadd_ps(_mm512_set1_ps(CHOOSE_EXP_3), m, _mm512_set1_ps(CHOOSE_EXP_2));
	p = _mm512_fmadd_ps(p, m, _mm512_set1_ps(CHOOSE_EXP_1));
	p = _mm512_fmadd_ps(p, m, _mm512_set1_ps(CHOOSE_EXP_0));
	return _mm512_fmadd_ps(_mm512_castsi512_ps(i), p, sum);
}

INLINE __m512 log_above(__m512 x)
{
	__m512i bits = _mm512_castps_si512(x);
	__m512i e = _mm512_sub_epi32(_mm512_srai_epi32(bits, 23), _mm512_set1_epi32(127));
	__m512 one = _mm512_set1_ps(1.0f), t, r;

	bits = _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi32(0x7fffff)), _mm512_castps_si512(one));
	t = _mm512_sub_ps(_mm512_castsi512_ps(bits), one);
	r = _mm512_fmadd_ps(_mm512_set1_ps(CHOOSE_LOG_3), t, _mm512_set1_ps(CHOOSE_LOG_2));
	r = _mm512_fmadd_ps(r, t, _mm512_set1_ps(CHOOSE_LOG_1));
	r = _mm512_fmadd_ps(r, t, _mm512_set1_ps(CHOOSE_LOG_0));
	r = _mm512_fmadd_ps(_mm512_mul_ps(t, _mm512_sub_ps(one, t)), r, t);
	return _mm512_mul_ps(_mm512_add_ps(r, _mm512_cvtepi32_ps(e)), _mm512_set1_ps(CHOOSE_LN2));
}

static float sum_exp(const float *s, int32_t n, float max, float mult)
{
	__m512 l = _mm512_setzero_ps(), m = _mm512_set1_ps(max), a = _mm512_set1_ps(mult * CHOOSE_LOG2E);
	float lane[16];

	for (int32_t i = 0; i < n; i += 16)
		l = add_exp(l, _mm512_sub_ps(_mm512_loadu_ps(s + i), m), a);
	_mm512_storeu_ps(lane, l);
	return fold16(lane);
}

INLINE __m512 head_score(const float *s, const float *mult, const float *lse, int32_t r)
{
	return _mm512_fmsub_ps(_mm512_loadu_ps(s), _mm512_set1_ps(mult[r]), _mm512_set1_ps(lse[r]));
}

static void reduce(float *out, const float *s, size_t ld, const float *mult, const float *lse, int32_t n_q, int32_t n,
                   enum reduce how)
{
	__m512 share = _mm512_set1_ps(logf((float)n_q)), log2e = _mm512_set1_ps(CHOOSE_LOG2E);

	for (int32_t i = 0; i < n; i += 16, s += 16) {
		__m512 top = head_score(s, mult, lse, 0);

		for (int32_t r = 1; r < n_q; r++)
			top = _mm512_max_ps(head_score(s + (size_t)r * ld, mult, lse, r), top);
		if (how == REDUCE_MEAN) {
			__m512 sum = _mm512_setzero_ps();

			for (int32_t r = 0; r < n_q; r++) {
				__m512 y = _mm512_sub_ps(head_score(s + (size_t)r * ld, mult, lse, r), top);

				sum = add_exp(sum, y, log2e);
			}
			top = _mm512_add_ps(top, _mm512_sub_ps(log_above(sum), share));
		}
		_mm512_mask_storeu_ps(out + i, lanes(n - i), top);
	}
}

/* ---- the k best ---- */

static void pool(float *out, const float *x, int32_t n, int32_t half, float *tmp)
{
	const __m512 least = _mm512_set1_ps(-INFINITY);
	int32_t w = 1, len = n + 2 * half;

	/* Sixteen more than the length: what the last vectors take along. */
	for (int32_t i = 0; i < half; i++)
		tmp[i] = -INFINITY;
	for (int32_t i = half + n; i < len + 16; i++)
		tmp[i] = -INFINITY;
	for (int32_t i = 0; i < n; i += 16) {
		__mmask16 mask = lanes(n - i);

		/* max(NaN, -inf) is -inf in this order. */
		_mm512_mask_storeu_ps(tmp + half + i, mask, _mm512_max_ps(_mm512_mask_loadu_ps(least, mask, x + i), least));
	}
	/* The window doubles, then two of them overlap.  Reading ahead of what is written, so in place. */
	for (; 2 * w <= 2 * half + 1; w *= 2)
		for (int32_t i = 0; i < len - w; i += 16)
			_mm512_storeu_ps(tmp + i, _mm512_max_ps(_mm512_loadu_ps(tmp + i), _mm512_loadu_ps(tmp + i + w)));
	for (int32_t i = 0; i < n; i += 16)
		_mm512_storeu_ps(out + i, _mm512_max_ps(_mm512_loadu_ps(tmp + i), _mm512_loadu_ps(tmp + i + 2 * half + 1 - w)));
}

/* Those of v that reach t, and their rows, to the ends of the lists; returns how many.  Through a register: storing
 * compressed is slow on some processors.  More than half of the lanes are rare. */
INLINE int32_t pick16(int32_t *row, float *value, __m512 v, __m512i at, __mmask16 mask)
{
	__m512i r = _mm512_maskz_compress_epi32(mask, at);
	int32_t n = __builtin_popcount(mask);

	v = _mm512_maskz_compress_ps(mask, v);
	_mm256_storeu_ps(value, _mm512_castps512_ps256(v));
	_mm256_storeu_si256((void *)row, _mm512_castsi512_si256(r));
	if (n > 8) {
		_mm256_storeu_ps(value + 8, _mm512_extractf32x8_ps(v, 1));
		_mm256_storeu_si256((void *)(row + 8), _mm512_extracti64x4_epi64(r, 1));
	}
	return n;
}

static int32_t pick(int32_t *row, float *value, float *top, const float *x, int32_t i0, int32_t i1, float least)
{
	const __m512 none = _mm512_set1_ps(-INFINITY), t = _mm512_set1_ps(least);
	__m512i at = _mm512_add_epi32(_mm512_set1_epi32(i0),
	                              _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
	__m512 most = none, v;
	int32_t n = 0, i = i0;

	/* max(NaN, -inf) is -inf in this order. */
	for (; i + 16 <= i1; i += 16) {
		v = _mm512_max_ps(_mm512_loadu_ps(x + i), none);
		most = _mm512_max_ps(most, v);
		n += pick16(row + n, value + n, v, at, _mm512_cmp_ps_mask(v, t, _CMP_GE_OQ));
		at = _mm512_add_epi32(at, _mm512_set1_epi32(16));
	}
	if (i < i1) {
		__mmask16 mask = lanes(i1 - i);

		v = _mm512_max_ps(_mm512_mask_loadu_ps(none, mask, x + i), none);
		most = _mm512_max_ps(most, v);
		n += pick16(row + n, value + n, v, at, _mm512_mask_cmp_ps_mask(mask, v, t, _CMP_GE_OQ));
	}
	*top = _mm512_reduce_max_ps(most);
	return n;
}

static int32_t count(const float *x, int32_t n, float least)
{
	const __m512 t = _mm512_set1_ps(least);
	const __m512i one = _mm512_set1_epi32(1);
	__m512i c0 = _mm512_setzero_si512(), c1 = c0;
	int32_t i = 0;

	for (; i + 32 <= n; i += 32) {
		c0 = _mm512_mask_add_epi32(c0, _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i), t, _CMP_GE_OQ), c0, one);
		c1 = _mm512_mask_add_epi32(c1, _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i + 16), t, _CMP_GE_OQ), c1, one);
	}
	for (; i < n; i += 16) {
		__mmask16 mask = lanes(n - i);

		mask = _mm512_mask_cmp_ps_mask(mask, _mm512_maskz_loadu_ps(mask, x + i), t, _CMP_GE_OQ);
		c0 = _mm512_mask_add_epi32(c0, mask, c0, one);
	}
	return _mm512_reduce_add_epi32(_mm512_add_epi32(c0, c1));
}

static int32_t keep(int32_t *out, const int32_t *row, const float *value, int32_t n, float least)
{
	const __m512 t = _mm512_set1_ps(least);
	int32_t c = 0;

	for (int32_t i = 0; i < n; i += 16) {
		__mmask16 mask = lanes(n - i);
		int32_t more;

		mask = _mm512_mask_cmp_ps_mask(mask, _mm512_maskz_loadu_ps(mask, value + i), t, _CMP_GE_OQ);
		more = __builtin_popcount(mask);
		_mm512_mask_storeu_epi32(out + c, lanes(more),
		                         _mm512_maskz_compress_epi32(mask, _mm512_maskz_loadu_epi32(lanes(n - i), row + i)));
		c += more;
	}
	return c;
}

const struct choose_fns choose_fns_avx512 = {
	.row_to_f32 = row_to_f32,
	.panel = panel_ready,
	.key_code = key_code,
	.scan_sketch = scan_sketch,
	.scan_rows = scan_rows,
	.sum_exp = sum_exp,
	.reduce = reduce,
	.pool = pool,
	.pick = pick,
	.count = count,
	.keep = keep,
};
#endif
