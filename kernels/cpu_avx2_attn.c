/* kernels/cpu_avx2_attn.c - attention over one KV head, AVX2.
 *
 * The AVX-512 version with half the lanes and half the registers: keys of a block transposed into floats so that a score
 * is one chain of multiply-adds, values added row by row, up to three queries at a time. */
#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <math.h>
#include <string.h>
#include "kernels/cpu_avx2.h"
#include "kernels/quant.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum {
	RUN = 3, KEYS = ATTN_BLOCK, LINE = 64,
	SHARE = 6,       /* queries from which converting values once pays */
};

static size_t round8(int32_t n)
{
	return ((size_t)n + 7) & ~(size_t)7;
}

/* Keys [head_dim][64], then values [64][head_dim rounded up to 8]. */
size_t avx2_attn_scratch(int32_t head_dim, int32_t n_q)
{
	(void)n_q;
	return 2 * KEYS * round8(head_dim);
}

INLINE __m256 float8(const uint8_t *p, int half)
{
	return half ? _mm256_cvtph_ps(_mm_loadu_si128((const void *)p)) : _mm256_loadu_ps((const float *)(const void *)p);
}

/* ---- keys: transpose ---- */

/* 8 keys x 8 values -> 8 dimensions of 8 floats. */
INLINE void transpose8(float *out, const uint8_t *const rows[8], size_t off, int half)
{
	__m256 a[8], b[8];

	UNROLL for (int i = 0; i < 8; i++)
		a[i] = float8(rows[i] + off, half);
	UNROLL for (int i = 0; i < 8; i += 2) {
		b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
		b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
	}
	UNROLL for (int i = 0; i < 8; i += 4) {
		a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
		a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
		a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
		a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
	}
	UNROLL for (int i = 0; i < 4; i++) {
		_mm256_storeu_ps(out + i * KEYS, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
		_mm256_storeu_ps(out + (i + 4) * KEYS, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
	}
}

/* Keys kb .. kb + n into out [head_dim][64].  Lanes past n repeat the last key: defined, and masked later.  Meanwhile
 * the block's values are fetched: one query group alone has too little to do to hide the memory's latency. */
static void keys_transpose(float *out, const struct attn_tile *t, int32_t kb, int32_t n)
{
	int half = t->kv_type == DT_F16;
	size_t size = half ? 2 : 4, row_bytes = (size_t)t->head_dim * size;
	const char *ahead = (const char *)t->v + (size_t)kb * row_bytes;

	for (int32_t k = 0; k < KEYS; k += 8, out += 8) {
		const uint8_t *rows[8];
		int32_t j = 0;

		for (int i = 0; i < 8; i++)
			rows[i] = (const uint8_t *)t->k + (size_t)(kb + (k + i < n ? k + i : n - 1)) * row_bytes;
		for (; j + 8 <= t->head_dim; j += 8) {
			for (size_t i = 0; i < size; i += 2, ahead += 2 * LINE) {
				_mm_prefetch(ahead, _MM_HINT_T0);
				_mm_prefetch(ahead + LINE, _MM_HINT_T0);
			}
			if (half)
				transpose8(out + (size_t)j * KEYS, rows, (size_t)j * 2, 1);
			else
				transpose8(out + (size_t)j * KEYS, rows, (size_t)j * 4, 0);
		}
		for (; j < t->head_dim; j++)
			for (int i = 0; i < 8; i++)
				dtype_to_f32(t->kv_type, out + (size_t)j * KEYS + i, rows[i] + (size_t)j * size, 1);
	}
}

static void values_convert(float *out, const struct attn_tile *t, int32_t kb, int32_t n)
{
	int32_t dim = t->head_dim;
	const uint8_t *row = (const uint8_t *)t->v + (size_t)kb * (size_t)dim * 2;

	for (int32_t k = 0; k < n; k++, row += (size_t)dim * 2, out += round8(dim)) {
		int32_t j = 0;

		for (; j + 8 <= dim; j += 8)
			_mm256_storeu_ps(out + j, float8(row + (size_t)j * 2, 1));
		if (j < dim)
			dtype_to_f32(DT_F16, out + j, row + (size_t)j * 2, dim - j);
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

/* Unscaled scores of keys k .. k + 31. */
INLINE void scores32(int nr, const struct block *b, const float *const *q, float p[RUN][KEYS], int k)
{
	const float *keys = b->keys + k;
	__m256 s[RUN][4];

	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < 4; i++)
			s[r][i] = _mm256_setzero_ps();
	for (int32_t j = 0; j < b->dim; j++, keys += KEYS) {
		__m256 w[RUN];

		UNROLL for (int r = 0; r < nr; r++)
			w[r] = _mm256_set1_ps(q[r][j]);
		UNROLL for (int i = 0; i < 4; i++) {
			__m256 x = _mm256_loadu_ps(keys + 8 * i);

			UNROLL for (int r = 0; r < nr; r++)
				s[r][i] = _mm256_fmadd_ps(w[r], x, s[r][i]);
		}
	}
	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < 4; i++)
			_mm256_storeu_ps(p[r] + k + 8 * i, s[r][i]);
}

static float max8(__m256 x)
{
	__m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));

	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

static float exp1(float x)
{
	return _mm256_cvtss_f32(avx2_exp(_mm256_set1_ps(x)));
}

/* Scores in p -> exp(score - m), and what the old sums must be multiplied with. */
static float softmax_step(const struct block *b, struct attn_state *st, float p[KEYS])
{
	__m256 max8v = _mm256_set1_ps(-INFINITY), sum = _mm256_setzero_ps(), scale = _mm256_set1_ps(b->scale), m;
	float old = st->m, max, fix;

	for (int i = 0; i < KEYS; i += 8) {
		__m256 s = _mm256_mul_ps(_mm256_loadu_ps(p + i), scale);

		s = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), s, _mm256_castsi256_ps(avx2_lanes(b->n - i)));
		_mm256_storeu_ps(p + i, s);
		max8v = _mm256_max_ps(s, max8v);
	}
	max = max8(max8v);
	max = max > old ? max : old;
	m = _mm256_set1_ps(max);
	for (int i = 0; i < KEYS; i += 8) {
		__m256 e = avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(p + i), m));

		_mm256_storeu_ps(p + i, e);
		sum = _mm256_add_ps(sum, e);
	}
	fix = old > -INFINITY ? exp1(old - max) : 0;
	st->m = max;
	/* Unseen keys weigh exp(-inf) = 0. */
	st->l = st->l * fix + avx2_sum(sum);
	return fix;
}

/* nv vectors of dimensions from j: acc = acc * fix + sum over keys of p * v. */
INLINE void run_values(int nr, int nv, int half, const struct block *b, struct attn_state *st, float p[RUN][KEYS],
                       const float fix[RUN], int32_t j)
{
	__m256 acc[RUN][4];
	const uint8_t *v = b->v + (size_t)j * (half ? 2 : 4);

	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < nv; i++)
			acc[r][i] = _mm256_mul_ps(_mm256_loadu_ps(st[r].acc + j + 8 * i), _mm256_set1_ps(fix[r]));
	for (int32_t k = 0; k < b->n; k++, v += b->v_stride) {
		__m256 w[RUN];

		if (b->next)
			UNROLL for (int i = 0; i < nv; i += half ? 4 : 2)
				_mm_prefetch(b->next + (v - b->v) + i * (half ? LINE / 4 : LINE / 2), _MM_HINT_T0);
		UNROLL for (int r = 0; r < nr; r++)
			w[r] = _mm256_set1_ps(p[r][k]);
		UNROLL for (int i = 0; i < nv; i++) {
			__m256 x = float8(v + i * (half ? 16 : 32), half);

			UNROLL for (int r = 0; r < nr; r++)
				acc[r][i] = _mm256_fmadd_ps(w[r], x, acc[r][i]);
		}
	}
	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < nv; i++)
			_mm256_storeu_ps(st[r].acc + j + 8 * i, acc[r][i]);
}

/* Dimensions past the last full vector, one by one. */
static void tail_values(int nr, int half, const struct block *b, struct attn_state *st, float p[RUN][KEYS],
                        const float fix[RUN], int32_t j)
{
	for (int r = 0; r < nr; r++)
		for (int32_t i = j; i < b->dim; i++) {
			float acc = st[r].acc[i] * fix[r], x;

			for (int32_t k = 0; k < b->n; k++) {
				dtype_to_f32(half ? DT_F16 : DT_F32, &x,
				             b->v + (size_t)k * b->v_stride + (size_t)i * (half ? 2 : 4), 1);
				acc += p[r][k] * x;
			}
			st[r].acc[i] = acc;
		}
}

INLINE void run_all(int nr, int half, const struct block *b, const float *const *q, struct attn_state *st)
{
	float p[RUN][KEYS], fix[RUN];
	int32_t j = 0;

	scores32(nr, b, q, p, 0);
	scores32(nr, b, q, p, 32);
	for (int r = 0; r < nr; r++)
		fix[r] = softmax_step(b, st + r, p[r]);
	for (; j + 32 <= b->dim; j += 32)
		run_values(nr, 4, half, b, st, p, fix, j);
	for (; j + 8 <= b->dim; j += 8)
		run_values(nr, 1, half, b, st, p, fix, j);
	if (j < b->dim)
		tail_values(nr, half, b, st, p, fix, j);
}

INLINE void run_half(int nr, int half, const struct block *b, const float *const *q, struct attn_state *st)
{
	switch (nr) {
	case 1:  run_all(1, half, b, q, st); break;
	case 2:  run_all(2, half, b, q, st); break;
	default: run_all(3, half, b, q, st); break;
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

void avx2_attn(const struct attn_tile *t)
{
	float *keys = t->scratch, *values = keys + KEYS * round8(t->head_dim);
	int32_t first = 0;

	for (int32_t r = 0; r < t->n_q; r++) {
		t->st[r].m = -INFINITY;
		t->st[r].l = 0;
		memset(t->st[r].acc, 0, (size_t)t->head_dim * sizeof(float));
	}
	for (int32_t kb = t->k0; kb < t->k1; kb += KEYS) {
		int32_t n = t->k1 - kb < KEYS ? t->k1 - kb : KEYS;
		int half = t->kv_type == DT_F16;
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
		keys_transpose(keys, t, kb, n);
		if (half && t->n_q - first >= SHARE) {
			values_convert(values, t, kb, n);
			b.v = (const uint8_t *)values;
			b.v_stride = round8(t->head_dim) * sizeof(float);
			b.next = NULL;
			half = 0;
		}
		for (int32_t r = first; r < t->n_q;) {
			int nr = 1;

			b.n = keys_seen(t, r, kb, n);
			while (nr < RUN && r + nr < t->n_q && keys_seen(t, r + nr, kb, n) == b.n)
				nr++;
			if (half)
				run_f16(nr, &b, t->q + r, t->st + r);
			else
				run_f32(nr, &b, t->q + r, t->st + r);
			b.next = NULL;
			r += nr;
		}
	}
}

void avx2_attn_merge(struct attn_state *a, const struct attn_state *b, int32_t head_dim)
{
	float m = a->m > b->m ? a->m : b->m;
	/* An empty state weighs nothing; exp(-inf - -inf) would be NaN. */
	float fa = a->m > -INFINITY ? exp1(a->m - m) : 0;
	float fb = b->m > -INFINITY ? exp1(b->m - m) : 0;

	a->m = m;
	a->l = a->l * fa + b->l * fb;
	for (int32_t j = 0; j < head_dim; j += 8) {
		__m256i mask = avx2_lanes(head_dim - j);
		__m256 x = _mm256_mul_ps(_mm256_maskload_ps(a->acc + j, mask), _mm256_set1_ps(fa));

		x = _mm256_fmadd_ps(_mm256_maskload_ps(b->acc + j, mask), _mm256_set1_ps(fb), x);
		_mm256_maskstore_ps(a->acc + j, mask, x);
	}
}
#else
typedef int weir_no_avx2_attn;               /* a C file must hold something */
#endif
