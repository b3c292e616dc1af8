/* kernels/cpu_avx2_choose.c - choosing rows, AVX2.
 *
 * The AVX-512 version with half the lanes: a panel is two vectors of eight keys.  Byte products are summed over a
 * group in sixteen bits, where four-bit codes just fit (15 * 127 * 16 < 2^15); eight-bit codes are taken as two of
 * four. */
#include "kernels/cpu_choose.h"

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <math.h>
#include "kernels/cpu_avx2.h"
#define PANEL_LANES 8
#include "kernels/cpu_panel.h"
#include "kernels/quant.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum { HEADS = 4, ROW_HEADS = 2, ROWS = 4, AHEAD = 5 << 10, LINE = 64 };

/* ---- rows as floats ---- */

/* Eight halves of which n are there. */
INLINE __m128i halves(const uint8_t *p, int32_t n)
{
	uint16_t h[8] = { 0 };

	if (n >= 8)
		return _mm_loadu_si128((const void *)p);
	memcpy(h, p, (size_t)n * sizeof *h);
	return _mm_loadu_si128((const void *)h);
}

/* Values j .. j + 7 of a row of which n are left. */
INLINE __m256 row8(enum dtype type, const uint8_t *row, int32_t j, int32_t n)
{
	switch (type) {
	case DT_F16:
		return _mm256_cvtph_ps(halves(row + 2 * (size_t)j, n));
	case DT_BF16:
		return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves(row + 2 * (size_t)j, n)), 16));
	case DT_Q8_0: {
		const struct block_q8_0 *b = (const struct block_q8_0 *)(const void *)row + j / 32;
		__m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(b->qs + j % 32)));

		return _mm256_mul_ps(_mm256_cvtepi32_ps(q), _mm256_set1_ps(_cvtsh_ss(b->d)));
	}
	default:
		if (n >= 8)
			return _mm256_loadu_ps((const float *)(const void *)row + j);
		return _mm256_maskload_ps((const float *)(const void *)row + j, avx2_lanes(n));
	}
}

INLINE void to_f32(enum dtype type, float *out, const void *in, int32_t n)
{
	for (int32_t j = 0; j < n; j += 8)
		_mm256_maskstore_ps(out + j, avx2_lanes(n - j), row8(type, in, j, n - j));
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
	const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
	const __m256 most = _mm256_set1_ps((float)((1 << bits) - 1)), none = _mm256_setzero_ps();

	for (int32_t g = 0; g < sketch_groups(dim); g++, x += SKETCH_GROUP) {
		int32_t n = sketch_values(dim, g);
		__m256 v[SKETCH_GROUP / 8], lo, hi, inv, min;
		__m128 l, h;
		uint16_t scale, base;
		uint8_t code[SKETCH_GROUP];
		float d;

		lo = hi = _mm256_set1_ps(x[0]);
		UNROLL for (int i = 0; i < SKETCH_GROUP / 8; i++) {
			__m256i mask = avx2_lanes(n - 8 * i);

			v[i] = _mm256_blendv_ps(_mm256_set1_ps(x[0]), _mm256_maskload_ps(x + 8 * i, mask), _mm256_castsi256_ps(mask));
			lo = _mm256_min_ps(lo, v[i]);
			hi = _mm256_max_ps(hi, v[i]);
		}
		l = _mm_min_ps(_mm256_castps256_ps128(lo), _mm256_extractf128_ps(lo, 1));
		h = _mm_max_ps(_mm256_castps256_ps128(hi), _mm256_extractf128_ps(hi, 1));
		l = _mm_min_ps(l, _mm_movehl_ps(l, l));
		h = _mm_max_ps(h, _mm_movehl_ps(h, h));
		l = _mm_min_ss(l, _mm_movehdup_ps(l));
		h = _mm_max_ss(h, _mm_movehdup_ps(h));
		scale = _cvtss_sh((_mm_cvtss_f32(h) - _mm_cvtss_f32(l)) / (float)((1 << bits) - 1), _MM_FROUND_TO_NEAREST_INT);
		base = _cvtss_sh(_mm_cvtss_f32(l), _MM_FROUND_TO_NEAREST_INT);
		d = _cvtsh_ss(scale);
		inv = _mm256_set1_ps(d > 0 ? 1.0f / d : 0);
		min = _mm256_set1_ps(_cvtsh_ss(base));
		UNROLL for (int half = 0; half < SKETCH_GROUP / 32; half++) {
			__m256i c[4];

			UNROLL for (int i = 0; i < 4; i++) {
				/* max(NaN, 0) is 0 in this order. */
				__m256 f = _mm256_max_ps(_mm256_mul_ps(_mm256_sub_ps(v[4 * half + i], min), inv), none);

				c[i] = _mm256_and_si256(_mm256_cvtps_epi32(_mm256_min_ps(f, most)), avx2_lanes(n - 32 * half - 8 * i));
			}
			c[0] = _mm256_packus_epi16(_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3]));
			_mm256_storeu_si256((void *)(code + 32 * half), _mm256_permutevar8x32_epi32(c[0], order));
		}
		panel = sketch_store(panel, lane, scale, base, code, n, bits);
	}
}

INLINE __m256i four_bytes(const int8_t *q)
{
	int32_t w;

	memcpy(&w, q, 4);
	return _mm256_set1_epi32(w);
}

/* Keys are read once, in order, but a page's end stops the processor's own looking ahead. */
INLINE void fetch(const uint8_t *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += LINE)
		_mm_prefetch((const char *)p + AHEAD + i, _MM_HINT_T0);
}

/* Sums of one query head over 32 values (with 2 bits a group): of codes, and of the high halves of eight-bit ones. */
struct sums { __m256i low, high; };

INLINE void add_products(struct sums *s, int bits, __m256i code, __m256i high, const int8_t *q)
{
	__m256i four = four_bytes(q);

	s->low = _mm256_add_epi16(s->low, _mm256_maddubs_epi16(code, four));
	if (bits == 8)
		s->high = _mm256_add_epi16(s->high, _mm256_maddubs_epi16(high, four));
}

INLINE __m256i sums_total(const struct sums *s, int bits)
{
	const __m256i one = _mm256_set1_epi16(1);
	__m256i t = _mm256_madd_epi16(s->low, one);

	return bits == 8 ? _mm256_add_epi32(t, _mm256_slli_epi32(_mm256_madd_epi16(s->high, one), 4)) : t;
}

INLINE void unit_dots(int nr, int bits, int wide, const uint8_t *unit, const int8_t *hi, const int8_t *lo, size_t stride,
                      struct sums dot[HEADS], struct sums low[HEADS])
{
	const __m256i mask = _mm256_set1_epi8(bits == 2 ? 3 : 15);
	__m256i c = _mm256_loadu_si256((const void *)unit), high = _mm256_and_si256(_mm256_srli_epi32(c, 4), mask);

	UNROLL for (int s = 0; s < 4; s++) {
		__m256i code;

		if (s * bits >= 8)
			break;
		code = _mm256_and_si256(s ? _mm256_srli_epi32(c, s * bits) : c, mask);

		UNROLL for (int r = 0; r < nr; r++) {
			add_products(&dot[r], bits, code, high, hi + (size_t)r * stride + 4 * s);
			if (wide)
				add_products(&low[r], bits, code, high, lo + (size_t)r * stride + 4 * s);
		}
	}
}

/* Query heads r0 .. r0 + nr over the tile's panels, eight keys at a time. */
INLINE void scan_panels(int nr, int bits, int wide, const struct scan_tile *t, int32_t r0)
{
	size_t panel_bytes = sketch_panel_bytes(t->dim, bits);
	const uint8_t *panel = (const uint8_t *)t->keys + (size_t)(t->k0 / SKETCH_PANEL) * panel_bytes;
	int32_t groups = sketch_groups(t->dim);
	size_t stride = (size_t)groups * SKETCH_GROUP, from = (size_t)r0 * stride;
	const int8_t *hi = t->hi + from, *lo = wide ? t->lo + from : hi;
	const float *sum = t->sum + (size_t)r0 * (size_t)groups;
	float *score = t->score + (size_t)r0 * t->ld;

	for (int32_t k = t->k0; k < t->k1; k += 8) {
		int32_t half = k % SKETCH_PANEL / 8;
		const uint8_t *at = panel;
		__m256 s[HEADS];

		if (!half)
			fetch(panel, panel_bytes);
		UNROLL for (int r = 0; r < nr; r++)
			s[r] = _mm256_setzero_ps();
		for (int32_t g = 0; g < groups; g++) {
			__m256 scale = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(at + 16 * half)));
			__m256 min = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(at + 32 + 16 * half)));
			const int8_t *h = hi + (size_t)g * SKETCH_GROUP, *l = lo + (size_t)g * SKETCH_GROUP;
			int32_t units = sketch_units(sketch_values(t->dim, g), bits);
			__m256i all[HEADS];

			UNROLL for (int r = 0; r < nr; r++)
				all[r] = _mm256_setzero_si256();
			at += 64;
			for (int32_t u = 0, to; u < units; u = to) {
				struct sums dot[HEADS], low[HEADS];

				/* More products of larger codes would not fit 16 bits. */
				to = bits == 2 || u + bits > units ? units : u + bits;
				UNROLL for (int r = 0; r < nr; r++)
					dot[r].low = dot[r].high = low[r].low = low[r].high = _mm256_setzero_si256();
				for (; u < to; u++, at += 64)
					unit_dots(nr, bits, wide, at + 32 * half, h + 32 / bits * u, l + 32 / bits * u, stride, dot, low);
				UNROLL for (int r = 0; r < nr; r++) {
					__m256i more = sums_total(&dot[r], bits);

					if (wide)
						more = _mm256_add_epi32(_mm256_slli_epi32(more, 8), sums_total(&low[r], bits));
					all[r] = _mm256_add_epi32(all[r], more);
				}
			}
			UNROLL for (int r = 0; r < nr; r++) {
				s[r] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(all[r]), s[r]);
				s[r] = _mm256_fmadd_ps(min, _mm256_set1_ps(sum[r * groups + g]), s[r]);
			}
		}
		UNROLL for (int r = 0; r < nr; r++)
			_mm256_storeu_ps(score + (size_t)r * t->ld + (size_t)k, s[r]);
		panel += half ? panel_bytes : 0;
	}
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

static float largest(__m256 x)
{
	__m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));

	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

static void find_max(const struct scan_tile *t)
{
	for (int32_t r = 0; r < t->n_q; r++) {
		const float *s = t->score + (size_t)r * t->ld;
		__m256 m = _mm256_set1_ps(-INFINITY);
		int32_t k = t->k0;
		float max;

		for (; k + 8 <= t->k1; k += 8)
			m = _mm256_max_ps(_mm256_loadu_ps(s + k), m);
		max = largest(m);
		for (; k < t->k1; k++)
			max = s[k] > max ? s[k] : max;
		t->max[r] = max;
	}
}

static void scan_sketch(const struct scan_tile *t)
{
	panels_fn *const *fn = panels[t->bits == 2 ? 0 : t->bits == 4 ? 1 : 2][t->lo != NULL];

	for (int32_t r = 0; r < t->n_q; r += HEADS)
		fn[t->n_q - r < HEADS ? t->n_q - r - 1 : HEADS - 1](t, r);
	find_max(t);
}

/* ---- rows of a plane ---- */

INLINE void rows_dot(int nr, enum dtype type, const struct scan_tile *t, int32_t r0)
{
	size_t dim = (size_t)t->dim, row_bytes = type == DT_F32 ? 4 * dim : type == DT_Q8_0 ? 34 * dim / 32 : 2 * dim;
	size_t stride = ((size_t)t->dim + 15) & ~(size_t)15;
	const float *q = t->q + (size_t)r0 * stride;
	float *score = t->score + (size_t)r0 * t->ld;

	for (int32_t k = t->k0; k < t->k1; k += ROWS) {
		const uint8_t *row[ROWS];
		__m256 s[ROW_HEADS][ROWS];

		UNROLL for (int i = 0; i < ROWS; i++)
			row[i] = (const uint8_t *)t->keys + (size_t)(k + i < t->k1 ? k + i : t->k1 - 1) * row_bytes;
		fetch(row[0], ROWS * row_bytes);
		UNROLL for (int r = 0; r < nr; r++)
			UNROLL for (int i = 0; i < ROWS; i++)
				s[r][i] = _mm256_setzero_ps();
		for (int32_t j = 0; j < t->dim; j += 8) {
			__m256 x[ROWS];

			UNROLL for (int i = 0; i < ROWS; i++)
				x[i] = row8(type, row[i], j, t->dim - j);
			UNROLL for (int r = 0; r < nr; r++) {
				__m256 v = _mm256_loadu_ps(q + (size_t)r * stride + j);

				UNROLL for (int i = 0; i < ROWS; i++)
					s[r][i] = _mm256_fmadd_ps(v, x[i], s[r][i]);
			}
		}
		UNROLL for (int r = 0; r < nr; r++) {
			__m256 h = _mm256_hadd_ps(_mm256_hadd_ps(s[r][0], s[r][1]), _mm256_hadd_ps(s[r][2], s[r][3]));

			_mm_storeu_ps(score + (size_t)r * t->ld + (size_t)k,
			              _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)));
		}
	}
}

#define DOTS(nr, type) static void dots_##nr##_##type(const struct scan_tile *t, int32_t r0) \
	{ rows_dot(nr, type, t, r0); }
#define DOTS2(type) DOTS(1, type) DOTS(2, type)
DOTS2(DT_F32) DOTS2(DT_F16) DOTS2(DT_BF16) DOTS2(DT_Q8_0)
#define TYPE2(type) { dots_1_##type, dots_2_##type }
static panels_fn *const dots[4][ROW_HEADS] = { TYPE2(DT_F32), TYPE2(DT_F16), TYPE2(DT_BF16), TYPE2(DT_Q8_0) };

static void scan_rows(const struct scan_tile *t)
{
	panels_fn *const *fn = dots[t->type == DT_F32 ? 0 : t->type == DT_F16 ? 1 : t->type == DT_BF16 ? 2 : 3];

	for (int32_t r = 0; r < t->n_q; r += ROW_HEADS)
		fn[t->n_q - r < ROW_HEADS ? 0 : 1](t, r);
	find_max(t);
}

/* ---- probabilities ---- */

/* sum + exp(x), x <= 0; mult is CHOOSE_LOG2E times a factor of x. */
INLINE __m256 add_exp(__m256 sum, __m256 x, __m256 mult)
{
	const __m256i mantissa = _mm256_set1_epi32(0x7fffff), one = _mm256_set1_epi32(0x3f800000);
	__m256i i = _mm256_cvttps_epi32(_mm256_fmadd_ps(x, mult, _mm256_set1_ps(CHOOSE_ONE)));
	__m256 m, p;

	i = _mm256_max_epi32(i, _mm256_setzero_si256());
	m = _mm256_castsi256_ps(_mm256_or_si256(_mm256_and_si256(i, mantissa), one));
	p = _mm256_fmadd_ps(_mm256_set1_ps(CHOOSE_EXP_3), m, _mm256_set1_ps(CHOOSE_EXP_2));
	p = _mm256_fmadd_ps(p, m, _mm256_set1_ps(CHOOSE_EXP_1));
	p = _mm256_fmadd_ps(p, m, _mm256_set1_ps(CHOOSE_EXP_0));
	return _mm256_fmadd_ps(_mm256_castsi256_ps(i), p, sum);
}

INLINE __m256 log_above(__m256 x)
{
	__m256i bits = _mm256_castps_si256(x);
	__m256i e = _mm256_sub_epi32(_mm256_srai_epi32(bits, 23), _mm256_set1_epi32(127));
	__m256 one = _mm256_set1_ps(1.0f), t, r;

	bits = _mm256_or_si256(_mm256_and_si256(bits, _mm256_set1_epi32(0x7fffff)), _mm256_castps_si256(one));
	t = _mm256_sub_ps(_mm256_castsi256_ps(bits), one);
	r = _mm256_fmadd_ps(_mm256_set1_ps(CHOOSE_LOG_3), t, _mm256_set1_ps(CHOOSE_LOG_2));
	r = _mm256_fmadd_ps(r, t, _mm256_set1_ps(CHOOSE_LOG_1));
	r = _mm256_fmadd_ps(r, t, _mm256_set1_ps(CHOOSE_LOG_0));
	r = _mm256_fmadd_ps(_mm256_mul_ps(t, _mm256_sub_ps(one, t)), r, t);
	return _mm256_mul_ps(_mm256_add_ps(r, _mm256_cvtepi32_ps(e)), _mm256_set1_ps(CHOOSE_LN2));
}

static float sum_exp(const float *s, int32_t n, float max, float mult)
{
	__m256 l0 = _mm256_setzero_ps(), l1 = l0, m = _mm256_set1_ps(max), a = _mm256_set1_ps(mult * CHOOSE_LOG2E);
	float lane[16];

	for (int32_t i = 0; i < n; i += 16) {
		l0 = add_exp(l0, _mm256_sub_ps(_mm256_loadu_ps(s + i), m), a);
		l1 = add_exp(l1, _mm256_sub_ps(_mm256_loadu_ps(s + i + 8), m), a);
	}
	_mm256_storeu_ps(lane, l0);
	_mm256_storeu_ps(lane + 8, l1);
	return fold16(lane);
}

INLINE __m256 head_score(const float *s, const float *mult, const float *lse, int32_t r)
{
	return _mm256_fmsub_ps(_mm256_loadu_ps(s), _mm256_set1_ps(mult[r]), _mm256_set1_ps(lse[r]));
}

static void reduce(float *out, const float *s, size_t ld, const float *mult, const float *lse, int32_t n_q, int32_t n,
                   enum reduce how)
{
	__m256 share = _mm256_set1_ps(logf((float)n_q)), log2e = _mm256_set1_ps(CHOOSE_LOG2E);

	for (int32_t i = 0; i < n; i += 8, s += 8) {
		__m256 top = head_score(s, mult, lse, 0);

		for (int32_t r = 1; r < n_q; r++)
			top = _mm256_max_ps(head_score(s + (size_t)r * ld, mult, lse, r), top);
		if (how == REDUCE_MEAN) {
			__m256 sum = _mm256_setzero_ps();

			for (int32_t r = 0; r < n_q; r++) {
				__m256 y = _mm256_sub_ps(head_score(s + (size_t)r * ld, mult, lse, r), top);

				sum = add_exp(sum, y, log2e);
			}
			top = _mm256_add_ps(top, _mm256_sub_ps(log_above(sum), share));
		}
		if (n - i >= 8)
			_mm256_storeu_ps(out + i, top);
		else
			_mm256_maskstore_ps(out + i, avx2_lanes(n - i), top);
	}
}

/* ---- the k best ---- */

static void pool(float *out, const float *x, int32_t n, int32_t half, float *tmp)
{
	const __m256 least = _mm256_set1_ps(-INFINITY);
	int32_t w = 1, len = n + 2 * half, i = 0;

	/* Sixteen more than the length: what the last vectors take along. */
	for (int32_t j = 0; j < half; j++)
		tmp[j] = -INFINITY;
	for (int32_t j = half + n; j < len + 16; j++)
		tmp[j] = -INFINITY;
	/* max(NaN, -inf) is -inf in this order. */
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(tmp + half + i, _mm256_max_ps(_mm256_loadu_ps(x + i), least));
	for (; i < n; i++)
		tmp[half + i] = x[i] > -INFINITY ? x[i] : -INFINITY;
	/* The window doubles, then two of them overlap.  Reading ahead of what is written, so in place. */
	for (; 2 * w <= 2 * half + 1; w *= 2)
		for (i = 0; i < len - w; i += 8)
			_mm256_storeu_ps(tmp + i, _mm256_max_ps(_mm256_loadu_ps(tmp + i), _mm256_loadu_ps(tmp + i + w)));
	for (i = 0; i < n; i += 8)
		_mm256_storeu_ps(out + i, _mm256_max_ps(_mm256_loadu_ps(tmp + i), _mm256_loadu_ps(tmp + i + 2 * half + 1 - w)));
}

/* Lanes of x at or above t, as bits. */
INLINE unsigned reach(__m256 x, __m256 t)
{
	return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, t, _CMP_GE_OQ));
}

static int32_t pick(int32_t *row, float *value, float *top, const float *x, int32_t i0, int32_t i1, float least)
{
	const __m256 none = _mm256_set1_ps(-INFINITY), t = _mm256_set1_ps(least);
	__m256 most = none;
	int32_t n = 0;

	for (int32_t i = i0; i < i1; i += 8) {
		__m256i mask = avx2_lanes(i1 - i);
		/* max(NaN, -inf) is -inf in this order. */
		__m256 v = _mm256_max_ps(_mm256_maskload_ps(x + i, mask), none);
		unsigned bits = reach(v, t) & (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(mask));

		most = _mm256_max_ps(most, _mm256_blendv_ps(none, v, _mm256_castsi256_ps(mask)));
		for (; bits; bits &= bits - 1) {
			row[n] = i + __builtin_ctz(bits);
			value[n] = x[row[n]] > -INFINITY ? x[row[n]] : -INFINITY;
			n++;
		}
	}
	*top = largest(most);
	return n;
}

static int32_t count(const float *x, int32_t n, float least)
{
	const __m256 t = _mm256_set1_ps(least);
	__m256i c0 = _mm256_setzero_si256(), c1 = c0;
	int32_t c[8], i = 0, tail = 0;

	for (; i + 16 <= n; i += 16) {
		c0 = _mm256_sub_epi32(c0, _mm256_castps_si256(_mm256_cmp_ps(_mm256_loadu_ps(x + i), t, _CMP_GE_OQ)));
		c1 = _mm256_sub_epi32(c1, _mm256_castps_si256(_mm256_cmp_ps(_mm256_loadu_ps(x + i + 8), t, _CMP_GE_OQ)));
	}
	for (; i < n; i++)
		tail += x[i] >= least;
	_mm256_storeu_si256((void *)c, _mm256_add_epi32(c0, c1));
	return ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7])) + tail;
}

static int32_t keep(int32_t *out, const int32_t *row, const float *value, int32_t n, float least)
{
	const __m256 t = _mm256_set1_ps(least);
	int32_t c = 0;

	for (int32_t i = 0; i < n; i += 8) {
		__m256i mask = avx2_lanes(n - i);
		unsigned bits = reach(_mm256_maskload_ps(value + i, mask), t) &
		                (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(mask));

		for (; bits; bits &= bits - 1)
			out[c++] = row[i + __builtin_ctz(bits)];
	}
	return c;
}

const struct choose_fns choose_fns_avx2 = {
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
