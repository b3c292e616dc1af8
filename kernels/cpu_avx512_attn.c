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

enum {
	RUN = 6, KEYS = ATTN_BLOCK, LINE = 64,
	FEWEST = 3,      /* queries up to which keys go from their rows straight into scores */
	SHARE = 7,      /* queries from which converting values once pays */
};

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
INLINE void transpose_f16(__m512 out[8], const uint8_t *const rows[16], int32_t j)
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
		out[2 * i] = _mm512_cvtph_ps(_mm512_castsi512_si256(c[i]));
		out[2 * i + 1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(c[i], 1));
	}
}

/* 16 keys x 4 floats -> 4 dimensions of 16 floats. */
INLINE void transpose_f32(__m512 out[4], const uint8_t *const rows[16], int32_t j)
{
	__m512 a[4], b[4];

	UNROLL for (int i = 0; i < 4; i++)
		a[i] = _mm512_castsi512_ps(four_rows(rows, i, (size_t)j * 4));
	b[0] = _mm512_unpacklo_ps(a[0], a[1]);
	b[1] = _mm512_unpackhi_ps(a[0], a[1]);
	b[2] = _mm512_unpacklo_ps(a[2], a[3]);
	b[3] = _mm512_unpackhi_ps(a[2], a[3]);
	UNROLL for (int i = 0; i < 2; i++) {
		__m512d x = _mm512_castps_pd(b[i]), y = _mm512_castps_pd(b[i + 2]);

		out[2 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
		out[2 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
	}
}

/* STEP dimensions from j of 16 keys. */
#define STEP(half) ((half) ? 8 : 4)
INLINE void transpose(int half, __m512 out[8], const uint8_t *const rows[16], int32_t j)
{
	if (half)
		transpose_f16(out, rows, j);
	else
		transpose_f32(out, rows, j);
}

/* One dimension past the last full step. */
static __m512 one_dimension(int half, const uint8_t *const rows[16], int32_t j)
{
	float x[16];

	for (int i = 0; i < 16; i++)
		dtype_to_f32(half ? DT_F16 : DT_F32, x + i, rows[i] + (size_t)j * (half ? 2 : 4), 1);
	return _mm512_loadu_ps(x);
}

/* Rows of keys k .. k + 15 of the block at kb.  Past the n-th they repeat the last: defined, and masked later. */
INLINE void key_rows(const uint8_t *rows[16], const struct attn_tile *t, size_t row_bytes, int32_t kb, int32_t k, int32_t n)
{
	const uint8_t *row = (const uint8_t *)t->k + (size_t)kb * row_bytes;

	for (int i = 0; i < 16; i++)
		rows[i] = row + (size_t)(k + i < n ? k + i : n - 1) * row_bytes;
}

/* Keys kb .. kb + n into out [head_dim][64].  Meanwhile the block's values are fetched. */
INLINE void transpose_block(int half, float *out, const struct attn_tile *t, int32_t kb, int32_t n)
{
	size_t row_bytes = (size_t)t->head_dim * (half ? 2 : 4);
	const char *ahead = (const char *)t->v + (size_t)kb * row_bytes;

	for (int32_t k = 0; k < KEYS; k += 16, out += 16) {
		const uint8_t *rows[16];
		int32_t j = 0;

		key_rows(rows, t, row_bytes, kb, k, n);
		for (; j + STEP(half) <= t->head_dim; j += STEP(half), ahead += 4 * LINE) {
			__m512 d[8];

			UNROLL for (int i = 0; i < 4; i++)
				_mm_prefetch(ahead + i * LINE, _MM_HINT_T0);
			transpose(half, d, rows, j);
			UNROLL for (int i = 0; i < 8; i++)
				if (i < STEP(half))
					_mm512_storeu_ps(out + (size_t)(j + i) * KEYS, d[i]);
		}
		for (; j < t->head_dim; j++)
			_mm512_storeu_ps(out + (size_t)j * KEYS, one_dimension(half, rows, j));
	}
}

static void keys_transpose(float *out, const struct attn_tile *t, int32_t kb, int32_t n)
{
	if (t->kv_type == DT_F16)
		transpose_block(1, out, t, kb, n);
	else
		transpose_block(0, out, t, kb, n);
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
	const char *next = (const char *)t->k + (size_t)(kb + KEYS) * (size_t)dim * 2;

	for (int32_t k = 0; k < n; k++, row += (size_t)dim * 2)
		for (int32_t j = 0; j < dim; j += 16, out += 16, next += LINE / 2) {
			_mm_prefetch(next, _MM_HINT_T0);
			_mm512_storeu_ps(out, value16(row + (size_t)j * 2, 1, lanes(dim - j)));
		}
}

/* ---- a run of queries over one block ---- */

struct block {
	const float *keys;       /* [head_dim][64] */
	const uint8_t *v;        /* first row of values */
	const char *next;        /* keys of the next block, fetched meanwhile, or NULL */
	size_t v_stride;         /* bytes */
	int32_t dim, n;          /* n: keys this run sees */
	float scale;
};

/* Scores of a run from transposed keys. */
INLINE void run_scores(int nr, const struct block *b, const float *const *q, __m512 s[RUN][4])
{
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
}

/* The same scores, the same operations in the same order, straight from the rows: with FEW queries the way through
 * memory costs more than it saves.  32 keys at a time, or the chains would be too few to keep the units busy. */
INLINE void few_scores(int nr, int half, const struct attn_tile *t, int32_t kb, int32_t n, const float *const *q,
                       __m512 out[RUN][4])
{
	size_t row_bytes = (size_t)t->head_dim * (half ? 2 : 4);
	const char *ahead = (const char *)t->v + (size_t)kb * row_bytes;

	UNROLL for (int k = 0; k < 4; k += 2) {
		const uint8_t *rows[2][16];
		__m512 s[RUN][2], d[2][8];
		int32_t j = 0;

		UNROLL for (int r = 0; r < nr; r++)
			s[r][0] = s[r][1] = _mm512_setzero_ps();
		key_rows(rows[0], t, row_bytes, kb, 16 * k, n);
		key_rows(rows[1], t, row_bytes, kb, 16 * k + 16, n);
		for (; j + STEP(half) <= t->head_dim; j += STEP(half), ahead += 8 * LINE) {
			UNROLL for (int i = 0; i < 8; i++)
				_mm_prefetch(ahead + i * LINE, _MM_HINT_T0);
			transpose(half, d[0], rows[0], j);
			transpose(half, d[1], rows[1], j);
			UNROLL for (int i = 0; i < 8; i++)
				UNROLL for (int r = 0; r < nr; r++) {
					if (i >= STEP(half))
						break;
					__m512 v = _mm512_set1_ps(q[r][j + i]);

					s[r][0] = _mm512_fmadd_ps(v, d[0][i], s[r][0]);
					s[r][1] = _mm512_fmadd_ps(v, d[1][i], s[r][1]);
				}
		}
		for (; j < t->head_dim; j++) {
			d[0][0] = one_dimension(half, rows[0], j);
			d[1][0] = one_dimension(half, rows[1], j);
			UNROLL for (int r = 0; r < nr; r++) {
				s[r][0] = _mm512_fmadd_ps(_mm512_set1_ps(q[r][j]), d[0][0], s[r][0]);
				s[r][1] = _mm512_fmadd_ps(_mm512_set1_ps(q[r][j]), d[1][0], s[r][1]);
			}
		}
		UNROLL for (int r = 0; r < nr; r++) {
			out[r][k] = s[r][0];
			out[r][k + 1] = s[r][1];
		}
	}
}

/* p[k] = exp(score - m) of the n keys seen; returns what the old sums must be multiplied with. */
INLINE float softmax_step(const struct block *b, struct attn_state *st, __m512 s[4], float p[KEYS])
{
	const __m512 none = _mm512_set1_ps(-INFINITY);
	__m512 scale = _mm512_set1_ps(b->scale), m;
	float old = st->m, max, fix;

	UNROLL for (int i = 0; i < 4; i++) {
		__mmask16 seen = b->n <= 16 * i ? 0 : lanes(b->n - 16 * i);

		s[i] = _mm512_mask_mul_ps(none, seen, s[i], scale);
	}
	max = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(s[0], s[1]), _mm512_max_ps(s[2], s[3])));
	max = max > old ? max : old;
	m = _mm512_set1_ps(max);
	UNROLL for (int i = 0; i < 4; i++) {
		s[i] = avx512_exp(_mm512_sub_ps(s[i], m));
		_mm512_storeu_ps(p + 16 * i, s[i]);
	}
	fix = old > -INFINITY ? _mm512_cvtss_f32(avx512_exp(_mm512_set1_ps(old - max))) : 0;
	st->m = max;
	/* Unseen keys weigh exp(-inf) = 0. */
	st->l = st->l * fix + _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
	return fix;
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

		if (b->next)
			UNROLL for (int i = 0; i < nv; i += half ? 2 : 1)
				_mm_prefetch(b->next + (v - b->v) + i * (half ? LINE / 2 : LINE), _MM_HINT_T0);
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

INLINE void run_finish(int nr, int half, const struct block *b, struct attn_state *st, __m512 s[RUN][4])
{
	float p[RUN][KEYS], fix[RUN];
	int32_t j = 0;

	UNROLL for (int r = 0; r < nr; r++)
		fix[r] = softmax_step(b, st + r, s[r], p[r]);
	for (; j + 64 <= b->dim; j += 64)
		run_values(nr, 4, half, b, st, p, fix, j, 0xffff);
	for (; j < b->dim; j += 16)
		run_values(nr, 1, half, b, st, p, fix, j, lanes(b->dim - j));
}

INLINE void run_many(int nr, int half, const struct block *b, const float *const *q, struct attn_state *st)
{
	__m512 s[RUN][4];

	run_scores(nr, b, q, s);
	run_finish(nr, half, b, st, s);
}

INLINE void run_few(int nr, int half, const struct attn_tile *t, int32_t kb, int32_t n, const struct block *b,
                    const float *const *q, struct attn_state *st)
{
	__m512 s[RUN][4];

	few_scores(nr, half, t, kb, n, q, s);
	run_finish(nr, half, b, st, s);
}

/* Instances: the values are halves or floats, up to six queries. */
#define MANY(nr, half) static void many_##nr##_##half(const struct block *b, const float *const *q, struct attn_state *st) \
	{ run_many(nr, half, b, q, st); }
#define FEW(nr, half) static void few_##nr##_##half(const struct attn_tile *t, int32_t kb, int32_t n, \
	const struct block *b, const float *const *q, struct attn_state *st) { run_few(nr, half, t, kb, n, b, q, st); }
MANY(1, 0) MANY(2, 0) MANY(3, 0) MANY(4, 0) MANY(5, 0) MANY(6, 0)
MANY(1, 1) MANY(2, 1) MANY(3, 1) MANY(4, 1) MANY(5, 1) MANY(6, 1)
FEW(1, 0) FEW(2, 0) FEW(3, 0)
FEW(1, 1) FEW(2, 1) FEW(3, 1)

typedef void many_fn(const struct block *, const float *const *, struct attn_state *);
typedef void few_fn(const struct attn_tile *, int32_t, int32_t, const struct block *, const float *const *,
                    struct attn_state *);
static many_fn *const many[2][RUN] = {
	{ many_1_0, many_2_0, many_3_0, many_4_0, many_5_0, many_6_0 },
	{ many_1_1, many_2_1, many_3_1, many_4_1, many_5_1, many_6_1 },
};
static few_fn *const few[2][FEWEST] = {
	{ few_1_0, few_2_0, few_3_0 },
	{ few_1_1, few_2_1, few_3_1 },
};

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
		int half = t->kv_type == DT_F16;
		int32_t n = t->k1 - kb < KEYS ? t->k1 - kb : KEYS;
		struct block b = {
			.keys = keys, .dim = t->head_dim, .scale = t->scale, .v_stride = (size_t)t->head_dim * (half ? 2 : 4),
		};

		while (first < t->n_q && t->limit[first] <= kb)
			first++;
		if (first == t->n_q)
			return;
		n = keys_seen(t, t->n_q - 1, kb, n);
		b.v = (const uint8_t *)t->v + (size_t)kb * b.v_stride;
		b.next = (const char *)t->k + (size_t)(kb + KEYS) * b.v_stride;
		if (t->n_q - first <= FEWEST && keys_seen(t, first, kb, n) == n) {
			b.n = n;
			few[half][t->n_q - first - 1](t, kb, n, &b, t->q + first, t->st + first);
			continue;
		}
		keys_transpose(keys, t, kb, n);
		if (half && t->n_q - first >= SHARE) {
			values_convert(values, t, kb, n);
			b.v = (const uint8_t *)values;
			b.v_stride = round16(t->head_dim) * sizeof(float);
			b.next = NULL;
			half = 0;
		}
		for (int32_t r = first; r < t->n_q;) {
			int nr = 1;

			b.n = keys_seen(t, r, kb, n);
			while (nr < RUN && r + nr < t->n_q && keys_seen(t, r + nr, kb, n) == b.n)
				nr++;
			many[half][nr - 1](&b, t->q + r, t->st + r);
			b.next = NULL;
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
