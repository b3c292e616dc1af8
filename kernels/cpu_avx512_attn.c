/* kernels/cpu_avx512_attn.c - attention over one KV head, AVX-512.
 *
 * Keys are taken in blocks of 64.  A block's keys are transposed into floats, 64 lanes of keys per dimension, so a
 * score is a plain chain of multiply-adds over the dimensions with no sum across lanes; values are added row by
 * row with the dimensions in lanes.  Decode and prefill run this same code: one query or hundreds, each output
 * element sees the same operations in the same order.
 *
 *     scratch   keys [head_dim][64], then values [64][head_dim rounded up to 16] when many queries share them
 *
 * Queries that see equally many keys of a block are handled up to six at a time, which is what fills the registers:
 * 6 x 4 sums.  A query never reads past its limit: what lies there may be anything. */
#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <math.h>
#include <string.h>
#include "kernels/cpu_avx512.h"
#include "kernels/quant.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum { RUN = 6, KEYS = ATTN_BLOCK, SHARE = 12 };   /* SHARE: queries from which converting values once pays */

static size_t round16(int32_t n)
{
	return ((size_t)n + 15) & ~(size_t)15;
}

size_t avx512_attn_scratch(int32_t head_dim, int32_t n_q)
{
	(void)n_q;
	return 2 * KEYS * round16(head_dim);
}

/* ---- keys: transpose ---- */

/* Lane L of the result = 16 bytes of row 4 L of rows. */
INLINE __m512i four_rows(const uint8_t *const rows[16], int first, size_t off)
{
	__m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(rows[first] + off)));

	x = _mm512_mask_broadcast_i32x4(x, 0x00f0, _mm_loadu_si128((const void *)(rows[first + 4] + off)));
	x = _mm512_mask_broadcast_i32x4(x, 0x0f00, _mm_loadu_si128((const void *)(rows[first + 8] + off)));
	return _mm512_mask_broadcast_i32x4(x, 0xf000, _mm_loadu_si128((const void *)(rows[first + 12] + off)));
}

/* 16 keys x 8 halves -> 8 dimensions of 16 floats. */
INLINE void transpose_f16(float *out, const uint8_t *const rows[16], int32_t j)
{
	const __m512i split = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
	__m512i a[4], b[4], c[4];

	UNROLL for (int i = 0; i < 4; i++)
		a[i] = four_rows(rows, i, (size_t)j * 2);
	b[0] = _mm512_unpacklo_epi16(a[0], a[1]);
	b[1] = _mm512_unpackhi_epi16(a[0], a[1]);
	b[2] = _mm512_unpacklo_epi16(a[2], a[3]);
	b[3] = _mm512_unpackhi_epi16(a[2], a[3]);
	c[0] = _mm512_unpacklo_epi32(b[0], b[2]);
	c[1] = _mm512_unpackhi_epi32(b[0], b[2]);
	c[2] = _mm512_unpacklo_epi32(b[1], b[3]);
	c[3] = _mm512_unpackhi_epi32(b[1], b[3]);
	/* 128-bit lane L of c[i]: keys 4 L .. 4 L + 3 of dimension 2 i, then of 2 i + 1. */
	UNROLL for (int i = 0; i < 4; i++) {
		c[i] = _mm512_permutexvar_epi64(split, c[i]);
		_mm512_storeu_ps(out + (2 * i) * KEYS, _mm512_cvtph_ps(_mm512_castsi512_si256(c[i])));
		_mm512_storeu_ps(out + (2 * i + 1) * KEYS, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(c[i], 1)));
	}
}

/* 16 keys x 4 floats -> 4 dimensions of 16 floats. */
INLINE void transpose_f32(float *out, const uint8_t *const rows[16], int32_t j)
{
	__m512 a[4], b[4];

	UNROLL for (int i = 0; i < 4; i++)
		a[i] = _mm512_castsi512_ps(four_rows(rows, i, (size_t)j * 4));
	b[0] = _mm512_unpacklo_ps(a[0], a[1]);
	b[1] = _mm512_unpackhi_ps(a[0], a[1]);
	b[2] = _mm512_unpacklo_ps(a[2], a[3]);
	b[3] = _mm512_unpackhi_ps(a[2], a[3]);
	_mm512_storeu_ps(out, _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b[0]), _mm512_castps_pd(b[2]))));
	_mm512_storeu_ps(out + KEYS, _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b[0]), _mm512_castps_pd(b[2]))));
	_mm512_storeu_ps(out + 2 * KEYS,
	                 _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b[1]), _mm512_castps_pd(b[3]))));
	_mm512_storeu_ps(out + 3 * KEYS,
	                 _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b[1]), _mm512_castps_pd(b[3]))));
}

/* Keys kb .. kb + n into out [head_dim][64].  Lanes past n repeat the last key: defined, and masked later. */
static void keys_transpose(float *out, const struct attn_tile *t, int32_t kb, int32_t n)
{
	size_t size = t->kv_type == DT_F16 ? 2 : 4, row_bytes = (size_t)t->head_dim * size;
	int32_t step = t->kv_type == DT_F16 ? 8 : 4;

	for (int32_t k = 0; k < KEYS; k += 16, out += 16) {
		const uint8_t *rows[16];
		int32_t j = 0;

		for (int i = 0; i < 16; i++)
			rows[i] = (const uint8_t *)t->k + (size_t)(kb + (k + i < n ? k + i : n - 1)) * row_bytes;
		if (t->kv_type == DT_F16)
			for (; j + step <= t->head_dim; j += step)
				transpose_f16(out + (size_t)j * KEYS, rows, j);
		else
			for (; j + step <= t->head_dim; j += step)
				transpose_f32(out + (size_t)j * KEYS, rows, j);
		for (; j < t->head_dim; j++)
			for (int i = 0; i < 16; i++)
				dtype_to_f32(t->kv_type, out + (size_t)j * KEYS + i, rows[i] + (size_t)j * size, 1);
	}
}

/* ---- values ---- */

INLINE __m512 value16(const uint8_t *p, int half, __mmask16 mask)
{
	if (half)
		return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p));
	return _mm512_maskz_loadu_ps(mask, p);
}

static __mmask16 lanes(int32_t n)
{
	return n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);
}

static void values_convert(float *out, const struct attn_tile *t, int32_t kb, int32_t n)
{
	int32_t dim = t->head_dim;
	const uint8_t *row = (const uint8_t *)t->v + (size_t)kb * (size_t)dim * 2;

	for (int32_t k = 0; k < n; k++, row += (size_t)dim * 2)
		for (int32_t j = 0; j < dim; j += 16, out += 16)
			_mm512_storeu_ps(out, value16(row + (size_t)j * 2, 1, lanes(dim - j)));
}

/* ---- a run of queries over one block ---- */

struct block {
	const float *keys;       /* [head_dim][64] */
	const uint8_t *v;        /* first row of values */
	size_t v_stride;         /* bytes */
	int32_t dim, n;          /* n: keys this run sees */
	float scale;
};

/* p[r][k] = exp(score - m), and what the old sums must be multiplied with. */
INLINE void run_scores(int nr, const struct block *b, const float *const *q, struct attn_state *st, float p[RUN][KEYS],
                       float fix[RUN])
{
	__m512 s[RUN][4];
	const float *keys = b->keys;

	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < 4; i++)
			s[r][i] = _mm512_setzero_ps();
	for (int32_t j = 0; j < b->dim; j++, keys += KEYS) {
		__m512 k[4];

		UNROLL for (int i = 0; i < 4; i++)
			k[i] = _mm512_loadu_ps(keys + 16 * i);
		UNROLL for (int r = 0; r < nr; r++) {
			__m512 v = _mm512_set1_ps(q[r][j]);

			UNROLL for (int i = 0; i < 4; i++)
				s[r][i] = _mm512_fmadd_ps(v, k[i], s[r][i]);
		}
	}
	UNROLL for (int r = 0; r < nr; r++) {
		const __m512 none = _mm512_set1_ps(-INFINITY);
		__m512 scale = _mm512_set1_ps(b->scale), m;
		float old = st[r].m, max;

		UNROLL for (int i = 0; i < 4; i++) {
			__mmask16 seen = b->n <= 16 * i ? 0 : lanes(b->n - 16 * i);

			s[r][i] = _mm512_mask_mul_ps(none, seen, s[r][i], scale);
		}
		max = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(s[r][0], s[r][1]), _mm512_max_ps(s[r][2], s[r][3])));
		max = max > old ? max : old;
		m = _mm512_set1_ps(max);
		UNROLL for (int i = 0; i < 4; i++) {
			s[r][i] = avx512_exp(_mm512_sub_ps(s[r][i], m));
			_mm512_storeu_ps(p[r] + 16 * i, s[r][i]);
		}
		fix[r] = old > -INFINITY ? _mm512_cvtss_f32(avx512_exp(_mm512_set1_ps(old - max))) : 0;
		st[r].m = max;
		/* Unseen keys weigh exp(-inf) = 0. */
		st[r].l = st[r].l * fix[r] + _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s[r][0], s[r][1]),
		                                                                _mm512_add_ps(s[r][2], s[r][3])));
	}
}

/* nv vectors of dimensions from j: acc = acc * fix + sum over keys of p * v. */
INLINE void run_values(int nr, int nv, int half, const struct block *b, struct attn_state *st, float p[RUN][KEYS],
                       const float fix[RUN], int32_t j, __mmask16 mask)
{
	__m512 acc[RUN][4];
	const uint8_t *v = b->v + (size_t)j * (half ? 2 : 4);

	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < nv; i++)
			acc[r][i] = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, st[r].acc + j + 16 * i), _mm512_set1_ps(fix[r]));
	for (int32_t k = 0; k < b->n; k++, v += b->v_stride) {
		__m512 x[4];

		UNROLL for (int i = 0; i < nv; i++)
			x[i] = value16(v + i * (half ? 32 : 64), half, mask);
		UNROLL for (int r = 0; r < nr; r++) {
			__m512 w = _mm512_set1_ps(p[r][k]);

			UNROLL for (int i = 0; i < nv; i++)
				acc[r][i] = _mm512_fmadd_ps(w, x[i], acc[r][i]);
		}
	}
	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < nv; i++)
			_mm512_mask_storeu_ps(st[r].acc + j + 16 * i, mask, acc[r][i]);
}

INLINE void run_all(int nr, int half, const struct block *b, const float *const *q, struct attn_state *st)
{
	float p[RUN][KEYS], fix[RUN];
	int32_t j = 0;

	run_scores(nr, b, q, st, p, fix);
	for (; j + 64 <= b->dim; j += 64)
		run_values(nr, 4, half, b, st, p, fix, j, 0xffff);
	for (; j < b->dim; j += 16)
		run_values(nr, 1, half, b, st, p, fix, j, lanes(b->dim - j));
}

INLINE void run_half(int nr, int half, const struct block *b, const float *const *q, struct attn_state *st)
{
	switch (nr) {
	case 1:  run_all(1, half, b, q, st); break;
	case 2:  run_all(2, half, b, q, st); break;
	case 3:  run_all(3, half, b, q, st); break;
	case 4:  run_all(4, half, b, q, st); break;
	case 5:  run_all(5, half, b, q, st); break;
	default: run_all(6, half, b, q, st); break;
	}
}

static void run_f16(int nr, const struct block *b, const float *const *q, struct attn_state *st)
{
	run_half(nr, 1, b, q, st);
}

static void run_f32(int nr, const struct block *b, const float *const *q, struct attn_state *st)
{
	run_half(nr, 0, b, q, st);
}

static int32_t keys_seen(const struct attn_tile *t, int32_t r, int32_t kb, int32_t n)
{
	return t->limit[r] - kb < n ? t->limit[r] - kb : n;
}

void avx512_attn(const struct attn_tile *t)
{
	float *keys = t->scratch, *values = keys + KEYS * round16(t->head_dim);
	int32_t first = 0;

	for (int32_t r = 0; r < t->n_q; r++) {
		t->st[r].m = -INFINITY;
		t->st[r].l = 0;
		memset(t->st[r].acc, 0, (size_t)t->head_dim * sizeof(float));
	}
	for (int32_t kb = t->k0; kb < t->k1; kb += KEYS) {
		int32_t n = t->k1 - kb < KEYS ? t->k1 - kb : KEYS, r;
		size_t size = t->kv_type == DT_F16 ? 2 : 4;
		struct block b = {
			.keys = keys, .dim = t->head_dim, .scale = t->scale, .v_stride = (size_t)t->head_dim * size,
		};
		int half = t->kv_type == DT_F16;

		while (first < t->n_q && t->limit[first] <= kb)
			first++;
		if (first == t->n_q)
			return;
		n = keys_seen(t, t->n_q - 1, kb, n);
		b.v = (const uint8_t *)t->v + (size_t)kb * b.v_stride;
		keys_transpose(keys, t, kb, n);
		if (half && t->n_q - first >= SHARE) {
			values_convert(values, t, kb, n);
			b.v = (const uint8_t *)values;
			b.v_stride = round16(t->head_dim) * sizeof(float);
			half = 0;
		}
		for (r = first; r < t->n_q;) {
			int nr = 1;

			b.n = keys_seen(t, r, kb, n);
			while (nr < RUN && r + nr < t->n_q && keys_seen(t, r + nr, kb, n) == b.n)
				nr++;
			if (half)
				run_f16(nr, &b, t->q + r, t->st + r);
			else
				run_f32(nr, &b, t->q + r, t->st + r);
			r += nr;
		}
	}
}

void avx512_attn_merge(struct attn_state *a, const struct attn_state *b, int32_t head_dim)
{
	float m = a->m > b->m ? a->m : b->m;
	/* An empty state weighs nothing; exp(-inf - -inf) would be NaN. */
	float fa = a->m > -INFINITY ? _mm512_cvtss_f32(avx512_exp(_mm512_set1_ps(a->m - m))) : 0;
	float fb = b->m > -INFINITY ? _mm512_cvtss_f32(avx512_exp(_mm512_set1_ps(b->m - m))) : 0;

	a->m = m;
	a->l = a->l * fa + b->l * fb;
	for (int32_t j = 0; j < head_dim; j += 16) {
		__mmask16 mask = lanes(head_dim - j);
		__m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, a->acc + j), _mm512_set1_ps(fa));

		x = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, b->acc + j), _mm512_set1_ps(fb), x);
		_mm512_mask_storeu_ps(a->acc + j, mask, x);
	}
}
#else
typedef int weir_no_avx512_attn;             /* a C file must hold something */
#endif
