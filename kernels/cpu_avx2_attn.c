/* kernels/cpu_avx2_attn.c - attention over one KV head, AVX2.
 *
 * The AVX-512 version with half the lanes and half the registers, and the same definition of a score: eight chains of
 * multiply-adds, one per dimension modulo 8, added in a fixed tree.  A few queries take keys straight from their rows,
 * many take them transposed, up to three queries at a time; both give the same bits. */
#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <math.h>
#include <string.h>
#include "kernels/cpu_avx2.h"
#include "kernels/quant.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define ROLLED _Pragma("GCC unroll 1")

enum {
	RUN = 3, KEYS = ATTN_BLOCK, LINE = 64, LANES = 8,
	OFFSETS = ATTN_SPAN + KEYS + 8,
	FEWEST = 6,      /* most queries of a tile that all read keys from their rows */
};

/* A span as the code below sees it. */
struct span {
	const uint8_t *k, *v;
	const size_t *off;       /* [k1 - k0 + KEYS + 8] offset of each key's row; past the end to be fetched ahead, not read */
	size_t row_bytes;
	float *keys, *values;
	float scale;
};

/* One block of it: keys kb .. kb + n of the span. */
struct block {
	const struct span *sp;
	const size_t *off;       /* of its first key */
	float *const *score;     /* of the run's queries, or NULL */
	int32_t kb, n;
};

static size_t round8(int32_t n)
{
	return ((size_t)n + 7) & ~(size_t)7;
}

/* Keys [head_dim][64], values [64][head_dim rounded up to 8], offsets of the span's rows. */
size_t avx2_attn_scratch(int32_t head_dim, int32_t n_q)
{
	(void)n_q;
	return 2 * KEYS * round8(head_dim) + OFFSETS * sizeof(size_t) / sizeof(float);
}

/* The lines of a row are fetched into the second-level cache: few misses can be on their way into the first, and they
 * would hold up everything else.  (A loop of nothing but _mm_prefetch would be taken for empty.) */
INLINE void fetch(const uint8_t *row, size_t bytes)
{
	if (__builtin_constant_p(bytes))
		UNROLL for (size_t i = 0; i < bytes; i += LINE)
			__asm__ volatile("prefetcht1 %0" : : "m"(row[i]));
	else
		ROLLED for (size_t i = 0; i < bytes; i += LINE)
			__asm__ volatile("prefetcht1 %0" : : "m"(row[i]));
}

/* Rows of q8_0 are few bytes for their work: misses are rare, and the first cache is the better place. */
INLINE void fetch_near(const uint8_t *row, size_t bytes)
{
	ROLLED for (size_t i = 0; i < bytes; i += LINE)
		__asm__ volatile("prefetcht0 %0" : : "m"(row[i]));
}

INLINE size_t bytes_of(enum dtype type, int32_t dim)
{
	return type == DT_F32 ? (size_t)dim * 4 : type == DT_Q8_0 ? (size_t)dim / 32 * 34 : (size_t)dim * 2;
}

/* ---- rows as floats ---- */

INLINE __m256 halves(enum dtype type, __m128i h)
{
	return type == DT_F16 ? _mm256_cvtph_ps(h) :
	       _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* Dimensions 8 c .. 8 c + 7 of a row. */
INLINE __m256 row8(enum dtype type, const uint8_t *row, int32_t c)
{
	if (type == DT_Q8_0) {
		const uint8_t *b = row + c / 4 * 34;
		__m128i q = _mm_loadl_epi64((const void *)(b + 2 + c % 4 * 8));
		uint16_t d;

		memcpy(&d, b, 2);
		return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)), _mm256_cvtph_ps(_mm_set1_epi16((short)d)));
	}
	if (type == DT_F32)
		return _mm256_loadu_ps((const float *)(const void *)row + 8 * c);
	return halves(type, _mm_loadu_si128((const void *)(row + 16 * c)));
}

/* The n < 8 dimensions from 8 c on; zeros in the other lanes. */
INLINE __m256 row_rest(enum dtype type, const uint8_t *row, int32_t c, int32_t n)
{
	uint16_t h[8] = { 0 };

	if (type == DT_F32)
		return _mm256_maskload_ps((const float *)(const void *)row + 8 * c, avx2_lanes(n));
	memcpy(h, row + 16 * c, (size_t)n * 2);
	return halves(type, _mm_loadu_si128((const void *)h));
}

INLINE void rows_convert_as(enum dtype type, float *out, const uint8_t *rows, const size_t *off, int32_t n, int32_t dim)
{
	for (int32_t k = 0; k < n; k++) {
		const uint8_t *row = rows + off[k];
		int32_t c = 0;

		for (; c < dim / LANES; c++, out += LANES)
			_mm256_storeu_ps(out, row8(type, row, c));
		if (dim % LANES) {
			_mm256_storeu_ps(out, row_rest(type, row, c, dim % LANES));
			out += LANES;
		}
	}
}

/* n rows as floats [n][dim rounded up to 8]. */
static void rows_convert(enum dtype type, float *out, const uint8_t *rows, const size_t *off, int32_t n, int32_t dim)
{
	switch (type) {
	case DT_F32:  rows_convert_as(DT_F32, out, rows, off, n, dim); break;
	case DT_F16:  rows_convert_as(DT_F16, out, rows, off, n, dim); break;
	case DT_BF16: rows_convert_as(DT_BF16, out, rows, off, n, dim); break;
	default:      rows_convert_as(DT_Q8_0, out, rows, off, n, dim); break;
	}
}

/* ---- keys: transpose ---- */

/* 8 keys x 8 values -> 8 dimensions of 8 floats. */
INLINE void transpose8(enum dtype type, float *out, const uint8_t *const rows[8], int32_t c)
{
	__m256 a[8], b[8];

	UNROLL for (int i = 0; i < 8; i++)
		a[i] = row8(type, rows[i], c);
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

/* The block's keys into sp->keys [dim][64].  Lanes past the n-th repeat the last: defined, and masked later.  Meanwhile
 * its values are fetched. */
INLINE void transpose_block(enum dtype type, const struct block *b, int32_t dim)
{
	float *out = b->sp->keys;

	for (int32_t k = 0; k < KEYS; k += 8, out += 8) {
		const uint8_t *rows[8];
		int32_t c = 0;

		for (int i = 0; i < 8; i++) {
			size_t off = b->off[k + i < b->n ? k + i : b->n - 1];

			rows[i] = b->sp->k + off;
			if (k + i < b->n)
				fetch(b->sp->v + off, b->sp->row_bytes);
		}
		for (; c < dim / LANES; c++)
			transpose8(type, out + (size_t)c * LANES * KEYS, rows, c);
		for (int i = 0; i < 8 && dim % LANES; i++) {
			float x[8];

			_mm256_storeu_ps(x, row_rest(type, rows[i], c, dim % LANES));
			for (int32_t j = 0; j < dim % LANES; j++)
				out[(size_t)(c * LANES + j) * KEYS + (size_t)i] = x[j];
		}
	}
}

static void keys_transpose(const struct attn_tile *t, const struct block *b)
{
	switch (t->kv_type) {
	case DT_F32:  transpose_block(DT_F32, b, t->head_dim); break;
	case DT_F16:  transpose_block(DT_F16, b, t->head_dim); break;
	case DT_BF16: transpose_block(DT_BF16, b, t->head_dim); break;
	default:      transpose_block(DT_Q8_0, b, t->head_dim); break;
	}
}

/* ---- scores ---- */

/* Sums of two keys' lanes, pairs of them, four keys' and eight keys'. */
INLINE __m256 add2(__m256 a, __m256 b)
{
	return _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
}

INLINE __m256 add4(__m256 a, __m256 b)
{
	__m256d x = _mm256_castps_pd(a), y = _mm256_castps_pd(b);

	return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)), _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
}

INLINE __m256 add8(__m256 a, __m256 b)
{
	return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

/* The eight chains of one key, for each query. */
INLINE void row_chains(int nr, enum dtype type, int32_t dim, const uint8_t *row, const float *const q[RUN], __m256 s[RUN])
{
	int32_t c = 0;

	UNROLL for (int r = 0; r < nr; r++)
		s[r] = _mm256_setzero_ps();
	ROLLED for (; c < dim / LANES; c++) {
		__m256 k = row8(type, row, c);

		UNROLL for (int r = 0; r < nr; r++)
			s[r] = _mm256_fmadd_ps(_mm256_loadu_ps(q[r] + LANES * c), k, s[r]);
	}
	if (dim % LANES) {
		__m256 k = row_rest(type, row, c, dim % LANES);

		UNROLL for (int r = 0; r < nr; r++)
			s[r] = _mm256_fmadd_ps(_mm256_maskload_ps(q[r] + LANES * c, avx2_lanes(dim % LANES)), k, s[r]);
	}
}

/* The same for heads of 64. */
INLINE void row_chains64(int nr, enum dtype type, const uint8_t *row, const float *const q[RUN], __m256 s[RUN])
{
	UNROLL for (int r = 0; r < nr; r++)
		s[r] = _mm256_setzero_ps();
	UNROLL for (int32_t c = 0; c < 8; c++) {
		__m256 k = row8(type, row, c);

		UNROLL for (int r = 0; r < nr; r++)
			s[r] = _mm256_fmadd_ps(_mm256_loadu_ps(q[r] + LANES * c), k, s[r]);
	}
}

/* Four keys with heads of 64: sums are taken as soon as two of them are there. */
INLINE void four_keys64(int nr, enum dtype type, const uint8_t *const rows[4], const float *const q[RUN],
                        __m256 s[RUN])
{
	__m256 a[RUN], b[RUN];

	row_chains64(nr, type, rows[0], q, a);
	row_chains64(nr, type, rows[1], q, b);
	UNROLL for (int r = 0; r < nr; r++)
		s[r] = add2(a[r], b[r]);
	row_chains64(nr, type, rows[2], q, a);
	row_chains64(nr, type, rows[3], q, b);
	UNROLL for (int r = 0; r < nr; r++)
		s[r] = add4(s[r], add2(a[r], b[r]));
}

/* Four keys with heads of any size. */
INLINE void four_keys(int nr, enum dtype type, int32_t dim, const uint8_t *const rows[4], const float *const q[RUN],
                      __m256 s[RUN])
{
	__m256 a[4][RUN];

	ROLLED for (int i = 0; i < 4; i++)
		row_chains(nr, type, dim, rows[i], q, a[i]);
	UNROLL for (int r = 0; r < nr; r++)
		s[r] = add4(add2(a[0][r], a[1][r]), add2(a[2][r], a[3][r]));
}

/* Scores of a few queries from the rows; meanwhile the next block's keys are fetched (q8_0: its values). */
INLINE void few_scores(int nr, enum dtype type, int32_t dim, const struct block *b, const float *const q[RUN],
                       float p[RUN][KEYS])
{
	size_t clamped[KEYS];
	const size_t *off = b->off;
	int32_t k = 0;

	/* Keys past the last repeat it: defined, and masked later. */
	if (b->n % 8) {
		for (int32_t i = 0; i < KEYS; i++)
			clamped[i] = b->off[i < b->n ? i : b->n - 1];
		off = clamped;
	}
	ROLLED do {
		const uint8_t *rows[8];
		__m256 lo[RUN], hi[RUN];

		UNROLL for (int i = 0; i < 8; i++) {
			rows[i] = b->sp->k + off[k + i];
			if (type == DT_Q8_0)
				fetch_near(b->sp->v + off[k + i], bytes_of(type, dim));
			else
				fetch(b->sp->k + b->off[KEYS + k + i], bytes_of(type, dim));
		}
		if (dim == 64) {
			four_keys64(nr, type, rows, q, lo);
			four_keys64(nr, type, rows + 4, q, hi);
		} else {
			four_keys(nr, type, dim, rows, q, lo);
			four_keys(nr, type, dim, rows + 4, q, hi);
		}
		UNROLL for (int r = 0; r < nr; r++)
			_mm256_store_ps(p[r] + k, add8(lo[r], hi[r]));
	} while ((k += 8) < b->n);
}

/* One chain of dimensions l, l + 8, ... for nr queries and 16 keys. */
INLINE void key_chain(int nr, int32_t dim, const float *keys, const float *const *q, int32_t l, __m256 s[RUN][2])
{
	UNROLL for (int r = 0; r < nr; r++)
		s[r][0] = s[r][1] = _mm256_setzero_ps();
#define STEP(j) \
	{ \
		__m256 k0 = _mm256_loadu_ps(keys + (size_t)(j) * KEYS), k1 = _mm256_loadu_ps(keys + (size_t)(j) * KEYS + 8); \
		UNROLL for (int r = 0; r < nr; r++) { \
			__m256 v = _mm256_set1_ps(q[r][j]); \
			s[r][0] = _mm256_fmadd_ps(v, k0, s[r][0]); \
			s[r][1] = _mm256_fmadd_ps(v, k1, s[r][1]); \
		} \
	}
	if (dim == 64)
		UNROLL for (int32_t j = 0; j < 64; j += LANES)
			STEP(l + j)
	else
		ROLLED for (int32_t j = l; j < dim; j += LANES)
			STEP(j)
#undef STEP
}

/* Chains l .. l + 3. */
INLINE void four_chains(int nr, int32_t dim, const float *keys, const float *const *q, int32_t l, __m256 s[RUN][2])
{
	__m256 a[RUN][2], b[RUN][2];

	key_chain(nr, dim, keys, q, l, a);
	key_chain(nr, dim, keys, q, l + 2, b);
	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < 2; i++)
			s[r][i] = _mm256_add_ps(a[r][i], b[r][i]);
	key_chain(nr, dim, keys, q, l + 1, a);
	key_chain(nr, dim, keys, q, l + 3, b);
	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < 2; i++)
			s[r][i] = _mm256_add_ps(s[r][i], _mm256_add_ps(a[r][i], b[r][i]));
}

/* Scores of many queries from transposed keys. */
INLINE void many_scores(int nr, int32_t dim, const struct block *b, const float *const *q, float p[RUN][KEYS])
{
	int32_t k = 0;

	ROLLED do {
		__m256 lo[RUN][2], hi[RUN][2];

		four_chains(nr, dim, b->sp->keys + k, q, 0, lo);
		four_chains(nr, dim, b->sp->keys + k, q, 4, hi);
		UNROLL for (int r = 0; r < nr; r++)
			UNROLL for (int i = 0; i < 2; i++)
				_mm256_store_ps(p[r] + k + 8 * i, _mm256_add_ps(lo[r][i], hi[r][i]));
	} while ((k += 16) < b->n);
}

/* ---- softmax and values ---- */

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

/* Sums in p -> exp(score - m), also of the keys that are not seen: 0.  Returns what the old sums are multiplied with. */
static __attribute__((noinline)) float softmax_step(const struct block *b, struct attn_state *st, float p[KEYS],
                                                    float *score)
{
	__m256 max8v = _mm256_set1_ps(-INFINITY), sum = _mm256_setzero_ps(), scale = _mm256_set1_ps(b->sp->scale), m;
	float old = st->m, max, fix;

	for (int i = 0; i < KEYS; i += 8) {
		__m256i seen = avx2_lanes(b->n - i);
		__m256 s = _mm256_mul_ps(_mm256_maskload_ps(p + i, seen), scale);

		if (score)
			_mm256_maskstore_ps(score + b->kb + i, seen, s);
		s = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), s, _mm256_castsi256_ps(seen));
		_mm256_store_ps(p + i, s);
		max8v = _mm256_max_ps(s, max8v);
	}
	max = max8(max8v);
	max = max > old ? max : old;
	m = _mm256_set1_ps(max);
	for (int i = 0; i < KEYS; i += 8) {
		__m256 e = avx2_exp(_mm256_sub_ps(_mm256_load_ps(p + i), m));

		_mm256_store_ps(p + i, e);
		sum = _mm256_add_ps(sum, e);
	}
	/* Late blocks seldom hold a new maximum. */
	fix = max == old ? 1 : old > -INFINITY ? exp1(old - max) : 0;
	st->m = max;
	st->l = st->l * fix + avx2_sum(sum);
	return fix;
}

/* nv vectors of dimensions from j: acc = acc * fix + sum over keys of p * v.  Rows at off are read, those 64 further
 * on in the plane at `ahead` are fetched. */
INLINE void run_values(int nr, int nv, enum dtype type, const uint8_t *v, const size_t *off, int32_t n,
                       const uint8_t *ahead, struct attn_state *st, float p[RUN][KEYS], const float fix[RUN], int32_t j)
{
	__m256 acc[RUN][4];
	size_t part = type == DT_F32 ? 4 : type == DT_Q8_0 ? 1 : 2, from = part * (size_t)j;

	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < nv; i++)
			acc[r][i] = _mm256_mul_ps(_mm256_loadu_ps(st[r].acc + j + 8 * i), _mm256_set1_ps(fix[r]));
	for (int32_t k = 0; k < n; k++) {
		const uint8_t *row = v + off[k];
		__m256 w[RUN];

		if (ahead && type == DT_Q8_0)
			fetch_near(ahead + off[KEYS + k] + from, part * 8 * (size_t)nv);
		else if (ahead)
			fetch(ahead + off[KEYS + k] + from, part * 8 * (size_t)nv);
		UNROLL for (int r = 0; r < nr; r++)
			w[r] = _mm256_set1_ps(p[r][k]);
		UNROLL for (int i = 0; i < nv; i++) {
			__m256 x = row8(type, row, j / 8 + i);

			UNROLL for (int r = 0; r < nr; r++)
				acc[r][i] = _mm256_fmadd_ps(w[r], x, acc[r][i]);
		}
	}
	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < nv; i++)
			_mm256_storeu_ps(st[r].acc + j + 8 * i, acc[r][i]);
}

/* Dimensions past the last full vector. */
INLINE void rest_values(int nr, enum dtype type, int32_t dim, const uint8_t *v, const size_t *off, int32_t n,
                        struct attn_state *st, float p[RUN][KEYS], const float fix[RUN])
{
	int32_t j = dim / LANES * LANES;
	__m256i mask = avx2_lanes(dim - j);

	for (int r = 0; r < nr; r++) {
		__m256 acc = _mm256_mul_ps(_mm256_maskload_ps(st[r].acc + j, mask), _mm256_set1_ps(fix[r]));

		for (int32_t k = 0; k < n; k++)
			acc = _mm256_fmadd_ps(_mm256_set1_ps(p[r][k]), row_rest(type, v + off[k], j / 8, dim - j), acc);
		_mm256_maskstore_ps(st[r].acc + j, mask, acc);
	}
}

INLINE void run_finish(int nr, enum dtype type, int32_t dim, const struct block *b, const uint8_t *v, const size_t *off,
                       const uint8_t *ahead, struct attn_state *st, float p[RUN][KEYS])
{
	float fix[RUN];
	int32_t j = 0;

	for (int r = 0; r < nr; r++)
		fix[r] = softmax_step(b, st + r, p[r], b->score ? b->score[r] : NULL);
	for (; j + 32 <= dim; j += 32)
		run_values(nr, 4, type, v, off, b->n, ahead, st, p, fix, j);
	for (; j + 8 <= dim; j += 8)
		run_values(nr, 1, type, v, off, b->n, ahead, st, p, fix, j);
	if (j < dim)
		rest_values(nr, type, dim, v, off, b->n, st, p, fix);
}

/* ---- instances: one to three queries of each type, three on floats; heads of 64 and of any other size ---- */

INLINE void run_few(int nr, enum dtype type, int32_t dim, const struct block *b, const float *const *qs,
                    struct attn_state *st)
{
	float p[RUN][KEYS] __attribute__((aligned(64)));
	const float *q[RUN];

	UNROLL for (int r = 0; r < nr; r++)
		q[r] = qs[r];
	few_scores(nr, type, dim, b, q, p);
	run_finish(nr, type, dim, b, b->sp->v, b->off, type == DT_Q8_0 ? b->sp->k : b->sp->v, st, p);
}

INLINE void run_three(int32_t dim, const struct block *b, const float *const *q, const size_t *off, struct attn_state *st)
{
	float p[RUN][KEYS] __attribute__((aligned(64)));

	many_scores(RUN, dim, b, q, p);
	run_finish(RUN, DT_F32, dim, b, (const uint8_t *)b->sp->values, off, NULL, st, p);
}

typedef void few_fn(int32_t dim, const struct block *, const float *const *, struct attn_state *);

#define FEW_FN(nr, type) static void few_##nr##_##type(int32_t dim, const struct block *b, const float *const *q, \
	struct attn_state *st) \
	{ if (dim == 64) run_few(nr, DT_##type, 64, b, q, st); else run_few(nr, DT_##type, dim, b, q, st); }
#define FEW_OF(type) FEW_FN(1, type) FEW_FN(2, type) FEW_FN(3, type)
FEW_OF(F32) FEW_OF(F16) FEW_OF(BF16) FEW_OF(Q8_0)

static void few(enum dtype type, int nr, int32_t dim, const struct block *b, const float *const *q, struct attn_state *st)
{
	static few_fn *const fn[4][RUN] = {
		{ few_1_F32, few_2_F32, few_3_F32 },
		{ few_1_F16, few_2_F16, few_3_F16 },
		{ few_1_BF16, few_2_BF16, few_3_BF16 },
		{ few_1_Q8_0, few_2_Q8_0, few_3_Q8_0 },
	};

	fn[type == DT_F32 ? 0 : type == DT_F16 ? 1 : type == DT_BF16 ? 2 : 3][nr - 1](dim, b, q, st);
}

static void three(int32_t dim, const struct block *b, const float *const *q, const size_t *off, struct attn_state *st)
{
	if (dim == 64)
		run_three(64, b, q, off, st);
	else
		run_three(dim, b, q, off, st);
}

static int32_t keys_seen(const struct attn_tile *t, int32_t r, int32_t k, int32_t n)
{
	return t->limit[r] - k < n ? t->limit[r] - k : n;
}

/* One block of keys from k on, for the queries from `first` on.  Queries that see as many of them go together: three
 * where there are, and the rest from the rows. */
static void block_run(const struct attn_tile *t, struct block *b, int32_t first, int32_t k)
{
	size_t off[KEYS], stride = round8(t->head_dim) * sizeof(float);
	int32_t n = b->n, many = t->n_q - first > FEWEST;

	if (many) {
		keys_transpose(t, b);
		rows_convert(t->kv_type, b->sp->values, b->sp->v, b->off, n, t->head_dim);
		for (size_t i = 0; i < KEYS; i++)
			off[i] = i * stride;
	}
	for (int32_t r = first; r < t->n_q;) {
		int nr = 1;

		b->n = keys_seen(t, r, k, n);
		b->score = t->score ? t->score + r : NULL;
		while (nr < RUN && r + nr < t->n_q && keys_seen(t, r + nr, k, n) == b->n)
			nr++;
		if (many && nr == RUN)
			three(t->head_dim, b, t->q + r, off, t->st + r);
		else
			few(t->kv_type, nr, t->head_dim, b, t->q + r, t->st + r);
		r += nr;
	}
}

void avx2_attn(const struct attn_tile *t)
{
	size_t *off = (size_t *)(void *)t->scratch, row_bytes = (size_t)dtype_bytes(t->kv_type, (uint64_t)t->head_dim);
	struct span sp = { .k = t->k, .v = t->v, .off = off, .row_bytes = row_bytes, .scale = t->scale };
	int32_t n_keys = t->k1 - t->k0, first = 0;

	sp.keys = t->scratch + OFFSETS * sizeof(size_t) / sizeof(float);
	sp.values = sp.keys + KEYS * round8(t->head_dim);
	for (int32_t i = 0; i < n_keys; i++)
		off[i] = attn_row(t, t->k0 + i) * row_bytes;
	/* The next span's rows, where they are known without looking; a list's first block nobody has fetched. */
	for (int32_t i = n_keys; i < n_keys + KEYS + 8; i++)
		off[i] = t->rows ? off[n_keys - 1] : off[n_keys - 1] + (size_t)(i - n_keys + 1) * row_bytes;
	for (int32_t i = 0; t->rows && i < KEYS && i < n_keys; i++) {
		fetch(sp.k + off[i], row_bytes);
		fetch(sp.v + off[i], row_bytes);
	}
	for (int32_t r = 0; r < t->n_q; r++) {
		t->st[r].m = -INFINITY;
		t->st[r].l = 0;
		memset(t->st[r].acc, 0, (size_t)t->head_dim * sizeof(float));
	}
	for (int32_t k = t->k0; k < t->k1; k += KEYS) {
		struct block b = { .sp = &sp, .off = off + (k - t->k0), .kb = k - t->k0 };

		while (first < t->n_q && t->limit[first] <= k)
			first++;
		if (first == t->n_q)
			return;
		b.n = keys_seen(t, t->n_q - 1, k, t->k1 - k < KEYS ? t->k1 - k : KEYS);
		block_run(t, &b, first, k);
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
