/* kernels/cpu_avx512_attn.c - attention over one KV head, AVX-512.
 *
 * Keys are taken in blocks of 64.  A score is defined as eight chains of multiply-adds, one per dimension modulo 8,
 * whose sums are added in pairs (0 2) (1 3) (4 6) (5 7), (02 13) (46 57), and these two.  There are two ways to do
 * exactly that, so that decode and prefill give the same bits:
 *
 *     few queries    dimensions in lanes, straight from the rows; eight keys' chains are added across lanes at once
 *     many           the block's keys transposed into floats, keys in lanes, six queries at a time
 *
 * Values are added row by row with the dimensions in lanes; for many queries they are converted to floats first.
 *
 *     scratch   keys [head_dim][64], values [64][head_dim rounded up to 16], offsets of the span's rows
 *
 * A query never reads past its limit: what lies there may be anything.  Scores are in powers of two (attn_state.m). */
#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <math.h>
#include <string.h>
#include "kernels/cpu_avx512.h"
#include "kernels/quant.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define ROLLED _Pragma("GCC unroll 1")

enum {
	RUN = 6, KEYS = ATTN_BLOCK, LINE = 64, LANES = 8,
	OFFSETS = ATTN_SPAN + KEYS + 8,
	FEW = 4,        /* most queries of a run that reads keys from their rows */
	HELD = 3,       /* most of them that stay in registers, with heads of 64 */
	FEWEST = 8,     /* most queries of a tile that is worked off in such runs alone */
};

/* A span as the code below sees it. */
struct span {
	const uint8_t *k, *v;
	const size_t *off;       /* [k1 - k0 + KEYS + 8] offset of each key's row; past the end to be fetched ahead, not read */
	size_t row_bytes;
	float *keys, *values;
	float scale;             /* to powers of two */
};

/* One block of it: keys kb .. kb + n of the span. */
struct block {
	const struct span *sp;
	const size_t *off;       /* of its first key */
	float *const *score;     /* of the run's queries, or NULL */
	int32_t kb, n;
};

static size_t round16(int32_t n)
{
	return ((size_t)n + 15) & ~(size_t)15;
}

size_t avx512_attn_scratch(int32_t head_dim, int32_t n_q)
{
	(void)n_q;
	return 2 * KEYS * round16(head_dim) + OFFSETS * sizeof(size_t) / sizeof(float);
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

/* Dimensions 8 c .. 8 c + 7 of a row, and their lanes when a last part is short. */
INLINE __m256 row8(enum dtype type, const uint8_t *row, int32_t c, __mmask8 mask)
{
	if (type == DT_Q8_0) {
		const uint8_t *b = row + c / 4 * 34;
		__m128i q = _mm_loadl_epi64((const void *)(b + 2 + c % 4 * 8));
		uint16_t d;

		memcpy(&d, b, 2);
		return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)), _mm256_cvtph_ps(_mm_set1_epi16((short)d)));
	}
	if (type == DT_F32)
		return mask == 0xff ? _mm256_loadu_ps((const float *)(const void *)row + 8 * c) :
		                      _mm256_maskz_loadu_ps(mask, (const float *)(const void *)row + 8 * c);
	__m128i h = mask == 0xff ? _mm_loadu_si128((const void *)(row + 16 * c)) : _mm_maskz_loadu_epi16(mask, row + 16 * c);

	if (type == DT_F16)
		return _mm256_cvtph_ps(h);
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* Dimensions j .. j + 15 (j a multiple of 16). */
INLINE __m512 row16(enum dtype type, const uint8_t *row, int32_t j, __mmask16 mask)
{
	if (type == DT_Q8_0) {
		const uint8_t *b = row + j / 32 * 34;
		__m512i q = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(b + 2 + j % 32)));
		uint16_t d;

		memcpy(&d, b, 2);
		return _mm512_mul_ps(_mm512_cvtepi32_ps(q),
		                     _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128((int)d))));
	}
	if (type == DT_F32)
		return mask == 0xffff ? _mm512_loadu_ps((const float *)(const void *)row + j) :
		                        _mm512_maskz_loadu_ps(mask, (const float *)(const void *)row + j);
	__m256i h = mask == 0xffff ? _mm256_loadu_si256((const void *)(row + 2 * j)) :
	                             _mm256_maskz_loadu_epi16(mask, row + 2 * j);

	if (type == DT_F16)
		return _mm512_cvtph_ps(h);
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

INLINE void rows_convert_as(enum dtype type, float *out, const uint8_t *rows, const size_t *off, int32_t n, int32_t dim,
                            const uint8_t *next)
{
	for (int32_t k = 0; k < n; k++) {
		fetch(next + off[KEYS + k], bytes_of(type, dim));
		for (int32_t j = 0; j < dim; j += 16, out += 16)
			_mm512_storeu_ps(out, row16(type, rows + off[k], j, avx512_lanes(dim - j)));
	}
}

/* n rows as floats [n][dim rounded up to 16]; meanwhile the rows 64 further on of another plane are fetched. */
static void rows_convert(enum dtype type, float *out, const uint8_t *rows, const size_t *off, int32_t n, int32_t dim,
                         const uint8_t *next)
{
	switch (type) {
	case DT_F32:  rows_convert_as(DT_F32, out, rows, off, n, dim, next); break;
	case DT_F16:  rows_convert_as(DT_F16, out, rows, off, n, dim, next); break;
	case DT_BF16: rows_convert_as(DT_BF16, out, rows, off, n, dim, next); break;
	default:      rows_convert_as(DT_Q8_0, out, rows, off, n, dim, next); break;
	}
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

/* Keys into out [dim][64] from rows at off.  Past the n-th they repeat the last: defined, and masked later.
 * Meanwhile the block's values are fetched. */
INLINE void transpose_block(int half, float *out, const uint8_t *k, const size_t *off, int32_t n, int32_t dim,
                            const uint8_t *v, size_t row_bytes)
{
	int32_t step = half ? 8 : 4;

	for (int32_t first = 0; first < KEYS; first += 16, out += 16) {
		const uint8_t *rows[16];
		int32_t j = 0;

		for (int i = 0; i < 16; i++) {
			rows[i] = k + off[first + i < n ? first + i : n - 1];
			if (first + i < n)
				fetch(v + off[first + i], row_bytes);
		}
		for (; j + step <= dim; j += step) {
			__m512 d[8];

			if (half)
				transpose_f16(d, rows, j);
			else
				transpose_f32(d, rows, j);
			UNROLL for (int i = 0; i < 8; i++)
				if (i < step)
					_mm512_storeu_ps(out + (size_t)(j + i) * KEYS, d[i]);
		}
		for (; j < dim; j++)
			for (int i = 0; i < 16; i++)
				dtype_to_f32(half ? DT_F16 : DT_F32, out + (size_t)j * KEYS + i, rows[i] + (size_t)j * (half ? 2 : 4), 1);
	}
}

/* Halves and floats from where they lie; other types by way of floats, in the room of the values. */
static void keys_transpose(const struct attn_tile *t, const struct block *b)
{
	const struct span *sp = b->sp;
	size_t off[KEYS];

	if (t->kv_type == DT_F16) {
		transpose_block(1, sp->keys, sp->k, b->off, b->n, t->head_dim, sp->v, sp->row_bytes);
	} else if (t->kv_type == DT_F32) {
		transpose_block(0, sp->keys, sp->k, b->off, b->n, t->head_dim, sp->v, sp->row_bytes);
	} else {
		rows_convert(t->kv_type, sp->values, sp->k, b->off, b->n, t->head_dim, sp->v);
		for (int i = 0; i < KEYS; i++)
			off[i] = (size_t)i * round16(t->head_dim) * sizeof(float);
		transpose_block(0, sp->keys, (const uint8_t *)sp->values, off, b->n, t->head_dim, (const uint8_t *)sp->values, 0);
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
INLINE void row_chains(int nr, enum dtype type, int32_t dim, const uint8_t *row, const float *const q[FEW], __m256 s[FEW])
{
	int32_t c = 0;

	UNROLL for (int r = 0; r < nr; r++)
		s[r] = _mm256_setzero_ps();
	ROLLED for (; c < dim / LANES; c++) {
		__m256 k = row8(type, row, c, 0xff);

		UNROLL for (int r = 0; r < nr; r++)
			s[r] = _mm256_fmadd_ps(_mm256_loadu_ps(q[r] + LANES * c), k, s[r]);
	}
	if (dim % LANES) {
		__mmask8 mask = (__mmask8)((1u << dim % LANES) - 1);
		__m256 k = row8(type, row, c, mask);

		UNROLL for (int r = 0; r < nr; r++)
			s[r] = _mm256_fmadd_ps(_mm256_maskz_loadu_ps(mask, q[r] + LANES * c), k, s[r]);
	}
}

struct queries64 { const float *p[FEW]; __m256 held[HELD][8]; };

/* The same for heads of 64, most queries in registers. */
INLINE void row_chains64(int nr, enum dtype type, const uint8_t *row, const struct queries64 *q, __m256 s[FEW])
{
	UNROLL for (int r = 0; r < nr; r++)
		s[r] = _mm256_setzero_ps();
	UNROLL for (int32_t c = 0; c < 8; c++) {
		__m256 k = row8(type, row, c, 0xff);

		UNROLL for (int r = 0; r < nr; r++)
			s[r] = _mm256_fmadd_ps(r < HELD ? q->held[r][c] : _mm256_loadu_ps(q->p[r] + LANES * c), k, s[r]);
	}
}

/* Four keys with heads of 64: sums are taken as soon as two of them are there. */
INLINE void four_keys64(int nr, enum dtype type, const uint8_t *const rows[4], const struct queries64 *q,
                        __m256 s[FEW])
{
	__m256 a[FEW], b[FEW];

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
INLINE void four_keys(int nr, enum dtype type, int32_t dim, const uint8_t *const rows[4], const float *const q[FEW],
                      __m256 s[FEW])
{
	__m256 a[4][FEW];

	ROLLED for (int i = 0; i < 4; i++)
		row_chains(nr, type, dim, rows[i], q, a[i]);
	UNROLL for (int r = 0; r < nr; r++)
		s[r] = add4(add2(a[0][r], a[1][r]), add2(a[2][r], a[3][r]));
}

/* Scores of a few queries from the rows; meanwhile the next block's keys are fetched (q8_0: its values). */
INLINE void few_scores(int nr, enum dtype type, int32_t dim, const struct block *b, const float *const q[FEW],
                       float p[RUN][KEYS])
{
	size_t clamped[KEYS];
	const size_t *off = b->off;
	struct queries64 q64;
	int32_t k = 0;

	/* Keys past the last repeat it: defined, and masked later. */
	if (b->n % 8) {
		for (int32_t i = 0; i < KEYS; i++)
			clamped[i] = b->off[i < b->n ? i : b->n - 1];
		off = clamped;
	}
	if (dim == 64)
		UNROLL for (int r = 0; r < nr; r++) {
			q64.p[r] = q[r];
			UNROLL for (int c = 0; c < 8; c++)
				if (r < HELD)
					q64.held[r][c] = _mm256_loadu_ps(q[r] + LANES * c);
		}
	ROLLED do {
		const uint8_t *rows[8];
		__m256 lo[FEW], hi[FEW];

		UNROLL for (int i = 0; i < 8; i++) {
			rows[i] = b->sp->k + off[k + i];
			if (type == DT_Q8_0)
				fetch_near(b->sp->v + off[k + i], bytes_of(type, dim));
			else
				fetch(b->sp->k + b->off[KEYS + k + i], bytes_of(type, dim));
		}
		if (dim == 64) {
			four_keys64(nr, type, rows, &q64, lo);
			four_keys64(nr, type, rows + 4, &q64, hi);
		} else {
			four_keys(nr, type, dim, rows, q, lo);
			four_keys(nr, type, dim, rows + 4, q, hi);
		}
		UNROLL for (int r = 0; r < nr; r++)
			_mm256_store_ps(p[r] + k, add8(lo[r], hi[r]));
	} while ((k += 8) < b->n);
}

/* One chain of dimensions l, l + 8, ... for nr queries and 32 keys. */
INLINE void key_chain(int nr, int32_t dim, const float *keys, const float *const *q, int32_t l, __m512 s[RUN][2])
{
	UNROLL for (int r = 0; r < nr; r++)
		s[r][0] = s[r][1] = _mm512_setzero_ps();
#define STEP(j) \
	{ \
		__m512 k0 = _mm512_loadu_ps(keys + (size_t)(j) * KEYS), k1 = _mm512_loadu_ps(keys + (size_t)(j) * KEYS + 16); \
		UNROLL for (int r = 0; r < nr; r++) { \
			__m512 v = _mm512_set1_ps(q[r][j]); \
			s[r][0] = _mm512_fmadd_ps(v, k0, s[r][0]); \
			s[r][1] = _mm512_fmadd_ps(v, k1, s[r][1]); \
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
INLINE void four_chains(int nr, int32_t dim, const float *keys, const float *const *q, int32_t l, __m512 s[RUN][2])
{
	__m512 a[RUN][2], b[RUN][2];

	key_chain(nr, dim, keys, q, l, a);
	key_chain(nr, dim, keys, q, l + 2, b);
	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < 2; i++)
			s[r][i] = _mm512_add_ps(a[r][i], b[r][i]);
	key_chain(nr, dim, keys, q, l + 1, a);
	key_chain(nr, dim, keys, q, l + 3, b);
	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < 2; i++)
			s[r][i] = _mm512_add_ps(s[r][i], _mm512_add_ps(a[r][i], b[r][i]));
}

/* Scores of many queries from transposed keys. */
INLINE void many_scores(int nr, int32_t dim, const struct block *b, const float *const *q, float p[RUN][KEYS])
{
	int32_t k = 0;

	ROLLED do {
		__m512 lo[RUN][2], hi[RUN][2];

		four_chains(nr, dim, b->sp->keys + k, q, 0, lo);
		four_chains(nr, dim, b->sp->keys + k, q, 4, hi);
		UNROLL for (int r = 0; r < nr; r++)
			UNROLL for (int i = 0; i < 2; i++)
				_mm512_store_ps(p[r] + k + 16 * i, _mm512_add_ps(lo[r][i], hi[r][i]));
	} while ((k += 32) < b->n);
}

/* ---- softmax and values ---- */

/* Sums in p -> 2^(score - m), also of the keys that are not seen: 0.  Returns what the old sums are multiplied with. */
static __attribute__((noinline)) float softmax_step(const struct block *b, struct attn_state *st, float p[KEYS],
                                                    float *score)
{
	const __m512 none = _mm512_set1_ps(-INFINITY);
	__m512 scale = _mm512_set1_ps(b->sp->scale), s[4], m;
	float old = st->m, max, fix;

	UNROLL for (int i = 0; i < 4; i++) {
		__mmask16 seen = avx512_lanes(b->n - 16 * i);

		s[i] = _mm512_mask_mul_ps(none, seen, _mm512_maskz_loadu_ps(seen, p + 16 * i), scale);
		if (score)
			_mm512_mask_storeu_ps(score + b->kb + 16 * i, seen, s[i]);
	}
	max = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(s[0], s[1]), _mm512_max_ps(s[2], s[3])));
	max = max > old ? max : old;
	m = _mm512_set1_ps(max);
	UNROLL for (int i = 0; i < 4; i++) {
		s[i] = avx512_exp2(_mm512_sub_ps(s[i], m));
		_mm512_store_ps(p + 16 * i, s[i]);
	}
	/* Late blocks seldom hold a new maximum. */
	fix = max == old ? 1 : old > -INFINITY ? _mm512_cvtss_f32(avx512_exp2(_mm512_set1_ps(old - max))) : 0;
	st->m = max;
	st->l = st->l * fix + _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
	return fix;
}

/* nv vectors of dimensions from j: acc = acc * fix + sum over keys of p * v.  Rows at off are read, those 64 further
 * on in the plane at `ahead` are fetched. */
INLINE void run_values(int nr, int nv, enum dtype type, const uint8_t *v, const size_t *off, int32_t n,
                       const uint8_t *ahead, struct attn_state *st, float p[RUN][KEYS], const float fix[RUN], int32_t j,
                       __mmask16 mask)
{
	__m512 acc[RUN][4];
	size_t part = type == DT_F32 ? 4 : type == DT_Q8_0 ? 1 : 2, from = part * (size_t)j;

	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < nv; i++)
			acc[r][i] = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, st[r].acc + j + 16 * i), _mm512_set1_ps(fix[r]));
	for (int32_t k = 0; k < n; k++) {
		const uint8_t *row = v + off[k];
		__m512 x[4];

		if (ahead && type == DT_Q8_0)
			fetch_near(ahead + off[KEYS + k] + from, part * 16 * (size_t)nv);
		else if (ahead)
			fetch(ahead + off[KEYS + k] + from, part * 16 * (size_t)nv);
		UNROLL for (int i = 0; i < nv; i++)
			x[i] = row16(type, row, j + 16 * i, mask);
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

/* The same for 64 dimensions of up to three queries in half vectors: converting these costs less, and there are registers
 * for all sums. */
INLINE void run_values64(int nr, enum dtype type, const uint8_t *v, const size_t *off, int32_t n,
                         const uint8_t *ahead, struct attn_state *st, float p[RUN][KEYS], const float fix[RUN], int32_t j)
{
	__m256 acc[3][8];
	size_t part = type == DT_Q8_0 ? 1 : 2, from = part * (size_t)j;

	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < 8; i++)
			acc[r][i] = _mm256_mul_ps(_mm256_loadu_ps(st[r].acc + j + 8 * i), _mm256_set1_ps(fix[r]));
	ROLLED for (int32_t k = 0; k < n; k++) {
		const uint8_t *row = v + off[k];
		__m256 w[3];

		if (type == DT_Q8_0)
			fetch_near(ahead + off[KEYS + k] + from, part * 64);
		else
			fetch(ahead + off[KEYS + k] + from, part * 64);
		UNROLL for (int r = 0; r < nr; r++)
			w[r] = _mm256_set1_ps(p[r][k]);
		UNROLL for (int i = 0; i < 8; i++) {
			__m256 x = row8(type, row, j / 8 + i, 0xff);

			UNROLL for (int r = 0; r < nr; r++)
				acc[r][i] = _mm256_fmadd_ps(w[r], x, acc[r][i]);
		}
	}
	UNROLL for (int r = 0; r < nr; r++)
		UNROLL for (int i = 0; i < 8; i++)
			_mm256_storeu_ps(st[r].acc + j + 8 * i, acc[r][i]);
}

INLINE void run_finish(int nr, enum dtype type, int32_t dim, const struct block *b, const uint8_t *v, const size_t *off,
                       const uint8_t *ahead, struct attn_state *st, float p[RUN][KEYS])
{
	float fix[RUN];
	int32_t j = 0;

	UNROLL for (int r = 0; r < nr; r++)
		fix[r] = softmax_step(b, st + r, p[r], b->score ? b->score[r] : NULL);
	for (; j + 64 <= dim; j += 64)
		if (nr <= 3 && type != DT_F32)
			run_values64(nr, type, v, off, b->n, ahead, st, p, fix, j);
		else
			run_values(nr, 4, type, v, off, b->n, ahead, st, p, fix, j, 0xffff);
	for (; j < dim; j += 16)
		run_values(nr, 1, type, v, off, b->n, ahead, st, p, fix, j, avx512_lanes(dim - j));
}

/* ---- instances: one to four queries of each type, six on floats; heads of 64 and of any other size ---- */

INLINE void run_few(int nr, enum dtype type, int32_t dim, const struct block *b, const float *const *qs,
                    struct attn_state *st)
{
	float p[RUN][KEYS] __attribute__((aligned(64)));
	const float *q[FEW];

	UNROLL for (int r = 0; r < nr; r++)
		q[r] = qs[r];
	few_scores(nr, type, dim, b, q, p);
	run_finish(nr, type, dim, b, b->sp->v, b->off, type == DT_Q8_0 ? b->sp->k : b->sp->v, st, p);
}

INLINE void run_six(int32_t dim, const struct block *b, const float *const *q, const size_t *off, struct attn_state *st)
{
	float p[RUN][KEYS] __attribute__((aligned(64)));

	many_scores(RUN, dim, b, q, p);
	run_finish(RUN, DT_F32, dim, b, (const uint8_t *)b->sp->values, off, NULL, st, p);
}

typedef void few_fn(int32_t dim, const struct block *, const float *const *, struct attn_state *);

#define FEW_FN(nr, type) static void few_##nr##_##type(int32_t dim, const struct block *b, const float *const *q, \
	struct attn_state *st) \
	{ if (dim == 64) run_few(nr, DT_##type, 64, b, q, st); else run_few(nr, DT_##type, dim, b, q, st); }
#define FEW_OF(type) FEW_FN(1, type) FEW_FN(2, type) FEW_FN(3, type) FEW_FN(4, type)
FEW_OF(F32) FEW_OF(F16) FEW_OF(BF16) FEW_OF(Q8_0)

static void few(enum dtype type, int nr, int32_t dim, const struct block *b, const float *const *q, struct attn_state *st)
{
	static few_fn *const fn[4][FEW] = {
		{ few_1_F32, few_2_F32, few_3_F32, few_4_F32 },
		{ few_1_F16, few_2_F16, few_3_F16, few_4_F16 },
		{ few_1_BF16, few_2_BF16, few_3_BF16, few_4_BF16 },
		{ few_1_Q8_0, few_2_Q8_0, few_3_Q8_0, few_4_Q8_0 },
	};

	fn[type == DT_F32 ? 0 : type == DT_F16 ? 1 : type == DT_BF16 ? 2 : 3][nr - 1](dim, b, q, st);
}

static void six(int32_t dim, const struct block *b, const float *const *q, const size_t *off, struct attn_state *st)
{
	if (dim == 64)
		run_six(64, b, q, off, st);
	else
		run_six(dim, b, q, off, st);
}

static int32_t keys_seen(const struct attn_tile *t, int32_t r, int32_t k, int32_t n)
{
	return t->limit[r] - k < n ? t->limit[r] - k : n;
}

/* One block of keys from k on, for the queries from `first` on.  Queries that see as many of them go together: six where
 * there are, and the rest from the rows. */
static void block_run(const struct attn_tile *t, struct block *b, int32_t first, int32_t k)
{
	const struct span *sp = b->sp;
	size_t off[KEYS], stride = round16(t->head_dim) * sizeof(float);
	int32_t n = b->n, many = t->n_q - first > FEWEST;

	if (many) {
		keys_transpose(t, b);
		rows_convert(t->kv_type, sp->values, sp->v, b->off, n, t->head_dim, sp->k);
		for (size_t i = 0; i < KEYS; i++)
			off[i] = i * stride;
	}
	for (int32_t r = first; r < t->n_q;) {
		int nr = 1;

		b->n = keys_seen(t, r, k, n);
		b->score = t->score ? t->score + r : NULL;
		while (nr < RUN && r + nr < t->n_q && keys_seen(t, r + nr, k, n) == b->n)
			nr++;
		if (many && nr == RUN) {
			six(t->head_dim, b, t->q + r, off, t->st + r);
		} else {
			nr = nr > FEW ? FEW : nr;
			few(t->kv_type, nr, t->head_dim, b, t->q + r, t->st + r);
		}
		r += nr;
	}
}

void avx512_attn(const struct attn_tile *t)
{
	size_t *off = (size_t *)(void *)t->scratch, row_bytes = (size_t)dtype_bytes(t->kv_type, (uint64_t)t->head_dim);
	struct span sp = {
		.k = t->k, .v = t->v, .off = off, .row_bytes = row_bytes, .scale = t->scale * 1.44269504088896341f,
	};
	int32_t n_keys = t->k1 - t->k0, first = 0;

	sp.keys = t->scratch + OFFSETS * sizeof(size_t) / sizeof(float);
	sp.values = sp.keys + KEYS * round16(t->head_dim);
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

void avx512_attn_merge(struct attn_state *a, const struct attn_state *b, int32_t head_dim)
{
	float m = a->m > b->m ? a->m : b->m;
	/* An empty state weighs nothing; exp(-inf - -inf) would be NaN. */
	float fa = a->m > -INFINITY ? _mm512_cvtss_f32(avx512_exp2(_mm512_set1_ps(a->m - m))) : 0;
	float fb = b->m > -INFINITY ? _mm512_cvtss_f32(avx512_exp2(_mm512_set1_ps(b->m - m))) : 0;

	a->m = m;
	a->l = a->l * fa + b->l * fb;
	for (int32_t j = 0; j < head_dim; j += 16) {
		__mmask16 mask = avx512_lanes(head_dim - j);
		__m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, a->acc + j), _mm512_set1_ps(fa));

		x = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, b->acc + j), _mm512_set1_ps(fb), x);
		_mm512_mask_storeu_ps(a->acc + j, mask, x);
	}
}
#else
typedef int weir_no_avx512_attn;             /* a C file must hold something */
#endif
