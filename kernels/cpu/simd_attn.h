/* kernels/cpu/simd_attn.h (private to the SIMD code) - attention over one KV head; compiled once for each instruction
 * set.
 *
 * Keys are read in blocks of 64. With few queries, a lane holds a dimension: keys are read in place, and sums are added
 * across lanes. With many queries, a lane holds a key: the block's keys are first converted to floats and transposed.
 * Both ways sum a dot product in the same eight chains (partial sums; dimension d belongs to chain d % 8) and add the
 * chains in the same order. So calls with any number of tokens give the same bits. If keys or values are q4_0, both are
 * always read in place. (Prompts may use simd_attn_prompt.h instead.)
 *
 * The weighted sum of values is computed row by row, with a dimension in each lane. For many queries the values are
 * converted to floats first.
 *
 * A query never reads keys past its limit: that memory may contain anything. Scores are in the unit SCORE_UNIT. */
#ifndef WEIR_CPU_SIMD_ATTN_H
#define WEIR_CPU_SIMD_ATTN_H

#include "kernels/cpu/lanes_q4.h"
#include "kernels/common/quant.h"

#ifdef LANES
enum {
	KEYS = ATTN_BLOCK,
	CHAINS = 8,
	OFFSETS = ATTN_SPAN + KEYS + 8,
	RUN = REGISTERS > 16 ? 6 : 3, /* maximum number of queries that are computed together if keys are transposed */
	/* maximum number of queries that are computed together if keys are read in place */
	FEW = REGISTERS > 16 ? 4 : 3,
	/* maximum number of queries that stay in registers while keys are read, for head_dim 64 */
	HELD = REGISTERS > 16 ? 3 : 0,
	/* Up to this number of queries, always read keys in place. For more queries, converting a block first saves
	 * time. */
	FEWEST = 28,
};

/* One span (up to ATTN_SPAN keys) of a tile. */
struct span {
	const uint8_t *k, *v;
	size_t k_bytes, v_bytes; /* size of a stored key, and of a stored value, in bytes */
	/* [n_q][coded_bytes] the queries as signed bytes (lanes_q4.h), if keys are q4_0 and Q4_DOTS is 1 */
	uint8_t *coded;
	size_t coded_bytes;
	/* one block as floats: keys [dim][KEYS], values [KEYS][dim rounded up to LANES] */
	float *keys, *values;
	const float *bias; /* bias of the span's keys, or NULL */
	/* factor of the dot products, and softcap of the scores; both are multiplied by SCORE_UNIT; if `cap` is 0,
	 * there is no softcap */
	float scale, cap;
};

/* One block of a span, for a run of queries (queries that are computed together). The block has n keys, from key kb
 * on. */
struct block {
	const struct span *sp;
	/* [2 * KEYS + 8] byte offsets of the rows of the block's keys and values; rows with offsets past the end of the
	 * span are only prefetched */
	const size_t *k_off, *v_off;
	const uint8_t *coded; /* coded queries of the run */
	float *const *score;  /* kept scores of the run's queries, or NULL */
	int32_t kb, n;
	int32_t low; /* the queries of the run do not see the first `low` keys of the block */
};

static size_t attn_scratch(int32_t head_dim, int32_t n_q)
{
	return 2 * KEYS * lanes_round(head_dim) + 2 * OFFSETS * sizeof(size_t) / sizeof(float) +
	       (size_t)n_q * q4_query_bytes(head_dim) / sizeof(float);
}

/* 1 if rows of the type have so few bytes that cache misses are rare. */
INLINE int few_bytes(enum dtype type)
{
	return type == DT_Q8_0 || type == DT_Q4_0;
}

/* Prefetch a row to the second-level cache: the first level allows few misses at a time, so prefetches to it would
 * delay other loads. Rows of few bytes seldom miss, so prefetch them to the first level. */
INLINE void row_fetch(enum dtype type, const uint8_t *row, size_t bytes)
{
	if (few_bytes(type))
		ROLLED for (size_t i = 0; i < bytes; i += LINE) line_fetch(row + i);
	else if (__builtin_constant_p(bytes))
		UNROLL for (size_t i = 0; i < bytes; i += LINE) line_fetch_far(row + i);
	else
		ROLLED for (size_t i = 0; i < bytes; i += LINE) line_fetch_far(row + i);
}

/* ---- many queries: keys transposed, values as floats ---- */

/* Load the LANES dimensions from j on of LANES keys and transpose them. A key has n dimensions from j on; if n < LANES,
 * the missing dimensions are zero. */
INLINE void tile_transpose(enum dtype type, float *out, const uint8_t *const rows[LANES], int32_t j, int32_t n)
{
	vec x[LANES], d[LANES];

	UNROLL for (int i = 0; i < LANES; i++) x[i] = vec_row(type, rows[i], j, n);
	vec_transpose(d, x);
	UNROLL for (int i = 0; i < LANES; i++) vec_store(out + (size_t)(j + i) * KEYS, d[i]);
}

/* Load and transpose the block's keys into sp->keys [dim][64], and prefetch the block's values. In place of missing
 * keys, copy the last key; the scores of the copies are masked later. */
INLINE void keys_transpose_as(enum dtype type, const struct block *b, int32_t dim)
{
	float *out = b->sp->keys;

	for (int32_t k = 0; k < KEYS; k += LANES, out += LANES) {
		const uint8_t *rows[LANES];
		int32_t j = 0;

		for (int32_t i = 0; i < LANES; i++) {
			rows[i] = b->sp->k + b->k_off[k + i < b->n ? k + i : b->n - 1];
			if (k + i < b->n)
				row_fetch(DT_F32, b->sp->v + b->v_off[k + i], b->sp->v_bytes);
		}
		for (; j + LANES <= dim; j += LANES)
			tile_transpose(type, out, rows, j, LANES);
		if (j < dim)
			tile_transpose(type, out, rows, j, dim - j);
	}
}

static void keys_transpose(enum dtype type, const struct block *b, int32_t dim)
{
	switch (type) {
	case DT_F32: keys_transpose_as(DT_F32, b, dim); break;
	case DT_F16: keys_transpose_as(DT_F16, b, dim); break;
	case DT_BF16: keys_transpose_as(DT_BF16, b, dim); break;
	default: keys_transpose_as(DT_Q8_0, b, dim); break;
	}
}

INLINE void values_convert_as(enum dtype type, const struct block *b, int32_t dim)
{
	float *out = b->sp->values;

	for (int32_t k = 0; k < b->n; k++, out += lanes_round(dim)) {
		const uint8_t *row = b->sp->v + b->v_off[k];
		int32_t j = 0;

		row_fetch(DT_F32, b->sp->k + b->k_off[KEYS + k], b->sp->k_bytes);
		for (; j + LANES <= dim; j += LANES)
			vec_store(out + j, vec_row(type, row, j, LANES));
		if (j < dim)
			vec_store(out + j, vec_row(type, row, j, dim - j));
	}
}

/* Convert the block's values to floats [n][dim rounded up to LANES], and prefetch the next block's keys. */
static void values_convert(enum dtype type, const struct block *b, int32_t dim)
{
	switch (type) {
	case DT_F32: values_convert_as(DT_F32, b, dim); break;
	case DT_F16: values_convert_as(DT_F16, b, dim); break;
	case DT_BF16: values_convert_as(DT_BF16, b, dim); break;
	default: values_convert_as(DT_Q8_0, b, dim); break;
	}
}

/* ---- scores ---- */

/* Compute the eight chains (partial sums) of one key's score, for each of nr queries. */
INLINE void row_chains(int nr, enum dtype type, int32_t dim, const uint8_t *row, const float *const q[FEW], vec8 s[FEW])
{
	int32_t j = 0;

	UNROLL for (int r = 0; r < nr; r++) s[r] = vec8_zero();
	ROLLED for (; j + CHAINS <= dim; j += CHAINS)
	{
		vec8 k = vec8_row(type, row, j, CHAINS);

		UNROLL for (int r = 0; r < nr; r++) s[r] = vec8_fma(vec8_load(q[r] + j), k, s[r]);
	}
	if (j < dim) {
		vec8 k = vec8_row(type, row, j, dim - j);

		UNROLL for (int r = 0; r < nr; r++) s[r] = vec8_fma(vec8_load_part(q[r] + j, dim - j), k, s[r]);
	}
}

struct queries64 {
	const float *p[FEW];
	vec8 held[HELD + 1][8];
};

/* Multiply one key with nr queries, for head_dim 64. Up to HELD queries stay in registers. The chains (partial sums)
 * are the same as in row_chains(). */
INLINE void row_chains64(int nr, enum dtype type, const uint8_t *row, const struct queries64 *q, vec8 s[FEW])
{
	UNROLL for (int r = 0; r < nr; r++) s[r] = vec8_zero();
	UNROLL for (int32_t c = 0; c < 8; c++)
	{
		vec8 k = vec8_row(type, row, CHAINS * c, CHAINS);

		UNROLL for (int r = 0; r < nr; r++) s[r] =
			vec8_fma(r < HELD ? q->held[r][c] : vec8_load(q->p[r] + CHAINS * c), k, s[r]);
	}
}

/* Compute the scores of four keys for head_dim 64. The eight partial sums of each score are added across lanes:
 * vec8_add2() does this in part as soon as two keys are computed, vec8_add4() at the end. */
INLINE void four_scores64(int nr, enum dtype type, const uint8_t *const rows[4], const struct queries64 *q, vec8 s[FEW])
{
	vec8 a[FEW], b[FEW];

	row_chains64(nr, type, rows[0], q, a);
	row_chains64(nr, type, rows[1], q, b);
	UNROLL for (int r = 0; r < nr; r++) s[r] = vec8_add2(a[r], b[r]);
	row_chains64(nr, type, rows[2], q, a);
	row_chains64(nr, type, rows[3], q, b);
	UNROLL for (int r = 0; r < nr; r++) s[r] = vec8_add4(s[r], vec8_add2(a[r], b[r]));
}

/* Compute the scores of four keys for any head_dim. The partial sums of each score are added across lanes in the same
 * order as in four_scores64(). */
INLINE void four_scores(int nr, enum dtype type, int32_t dim, const uint8_t *const rows[4], const float *const q[FEW],
                        vec8 s[FEW])
{
	vec8 a[4][FEW];

	ROLLED for (int i = 0; i < 4; i++) row_chains(nr, type, dim, rows[i], q, a[i]);
	UNROLL for (int r = 0; r < nr; r++) s[r] = vec8_add4(vec8_add2(a[0][r], a[1][r]), vec8_add2(a[2][r], a[3][r]));
}

/* Compute the scores of a few queries; keys are read in place. Also prefetch the keys of the next block or, if keys
 * have few bytes, the values of this block. */
INLINE void few_scores(int nr, enum dtype type, int32_t dim, const struct block *b, const float *const q[FEW],
                       float p[RUN][KEYS])
{
	size_t clamped[KEYS];
	const size_t *off = b->k_off;
	struct queries64 q64;
	float unit[FEW];
	int32_t k = 0;

	UNROLL for (int r = 0; Q4_DOTS && type == DT_Q4_0 && r < nr; r++) unit[r] =
		q4_unit(b->coded + (size_t)r * b->sp->coded_bytes, dim);
	/* In place of missing keys, use copies of the block's last key; their scores are masked later. */
	if (b->n % 8) {
		for (int32_t i = 0; i < KEYS; i++)
			clamped[i] = b->k_off[i < b->n ? i : b->n - 1];
		off = clamped;
	}
	if (dim == 64)
		UNROLL for (int r = 0; r < nr; r++)
		{
			q64.p[r] = q[r];
			UNROLL for (int c = 0; c < 8; c++) if (r < HELD) q64.held[r][c] = vec8_load(q[r] + CHAINS * c);
		}
	ROLLED do
	{
		const uint8_t *rows[8];
		vec8 lo[FEW], hi[FEW];

		UNROLL for (int i = 0; i < 8; i++)
		{
			rows[i] = b->sp->k + off[k + i];
			if (few_bytes(type))
				row_fetch(type, b->sp->v + b->v_off[k + i], b->sp->v_bytes);
			else
				row_fetch(type, b->sp->k + b->k_off[KEYS + k + i], kv_row_bytes(type, dim));
		}
		if (Q4_DOTS && type == DT_Q4_0) {
			q4_four(nr, dim, rows, b->coded, b->sp->coded_bytes, lo);
			q4_four(nr, dim, rows + 4, b->coded, b->sp->coded_bytes, hi);
		} else if (dim == 64) {
			four_scores64(nr, type, rows, &q64, lo);
			four_scores64(nr, type, rows + 4, &q64, hi);
		} else {
			four_scores(nr, type, dim, rows, q, lo);
			four_scores(nr, type, dim, rows + 4, q, hi);
		}
		UNROLL for (int r = 0; r < nr; r++)
		{
			vec8 s = vec8_add8(lo[r], hi[r]);

			vec8_store(p[r] + k, Q4_DOTS && type == DT_Q4_0 ? vec8_mul(s, vec8_splat(unit[r])) : s);
		}
	}
	while ((k += 8) < b->n)
		;
}

/* Compute one chain (the sum over dimensions l, l + 8, ...) for nr queries and two vectors of keys. */
INLINE void key_chain(int nr, int32_t dim, const float *keys, const float *const *q, int32_t l, vec s[RUN][2])
{
	UNROLL for (int r = 0; r < nr; r++) s[r][0] = s[r][1] = vec_zero();
#define STEP(j)                                                                                                        \
	{                                                                                                              \
		vec k0 = vec_load(keys + (size_t)(j)*KEYS), k1 = vec_load(keys + (size_t)(j)*KEYS + LANES);            \
		UNROLL for (int r = 0; r < nr; r++)                                                                    \
		{                                                                                                      \
			vec v = vec_splat(q[r][j]);                                                                    \
			s[r][0] = vec_fma(v, k0, s[r][0]);                                                             \
			s[r][1] = vec_fma(v, k1, s[r][1]);                                                             \
		}                                                                                                      \
	}
	if (dim == 64)
		UNROLL for (int32_t j = 0; j < 64; j += CHAINS)
			STEP(l + j) else ROLLED for (int32_t j = l; j < dim; j += CHAINS) STEP(j)
#undef STEP
}

/* Set s to the sum of the chains from l to l + 3. key_chain() computes a chain. */
INLINE void four_chains(int nr, int32_t dim, const float *keys, const float *const *q, int32_t l, vec s[RUN][2])
{
	vec a[RUN][2], b[RUN][2];

	key_chain(nr, dim, keys, q, l, a);
	key_chain(nr, dim, keys, q, l + 2, b);
	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < 2; i++) s[r][i] = a[r][i] + b[r][i];
	key_chain(nr, dim, keys, q, l + 1, a);
	key_chain(nr, dim, keys, q, l + 3, b);
	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < 2; i++) s[r][i] = s[r][i] + (a[r][i] + b[r][i]);
}

/* Compute scores of many queries from transposed keys. */
INLINE void many_scores(int nr, int32_t dim, const struct block *b, const float *const *q, float p[RUN][KEYS])
{
	int32_t k = 0;

	ROLLED do
	{
		vec lo[RUN][2], hi[RUN][2];

		four_chains(nr, dim, b->sp->keys + k, q, 0, lo);
		four_chains(nr, dim, b->sp->keys + k, q, 4, hi);
		UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < 2; i++)
			vec_store(p[r] + k + LANES * i, lo[r][i] + hi[r][i]);
	}
	while ((k += 2 * LANES) < b->n)
		;
}

/* ---- softmax and values ---- */

static float exp1(float x)
{
	return score_exp(vec_splat(x))[0];
}

/* Return the sum of a block's vectors, in an order that depends on LANES. */
INLINE vec block_sum(const vec x[KEYS / LANES])
{
	vec sum = x[0];

	if (LANES == 16)
		return (x[0] + x[1]) + (x[2] + x[3]);
	UNROLL for (int i = 1; i < KEYS / LANES; i++) sum += x[i];
	return sum;
}

/* Return cap * tanh(s / cap). exp is called with negative numbers only. */
static __attribute__((noinline)) vec score_capped(vec s, float cap)
{
	/* s and cap have the same unit, so s / cap has no unit. The factor SCORE_UNIT converts the quotient to the unit
	 * that score_exp() expects. */
	vec e = score_exp((vec)((vec_int)(s * (2 * SCORE_UNIT / cap)) | vec_int_splat(INT32_MIN)));
	vec t = cap * (1.0f - e) / (1.0f + e);

	return vec_select(vec_negative(s), -t, t);
}

/* Do a step of the running softmax, where m is the new maximum. Replace the score of each key in p[] by exp(score - m),
 * or by 0 if the key is hidden. Return the factor by which the old sums must be multiplied. */
static __attribute__((noinline)) float softmax_step(const struct block *b, struct attn_state *st, float p[KEYS],
                                                    float *score)
{
	const vec none = vec_splat(-INFINITY);
	vec s[KEYS / LANES], most = none, m;
	float old = st->m, max, fix;

	UNROLL for (int i = 0; i < KEYS / LANES; i++)
	{
		int32_t n = b->n - LANES * i;

		s[i] = vec_load_part(p + LANES * i, n) * b->sp->scale;
		if (b->sp->cap > 0)
			s[i] = score_capped(s[i], b->sp->cap);
		if (b->sp->bias)
			s[i] += vec_load_part(b->sp->bias + b->kb + LANES * i, n) * SCORE_UNIT;
		if (b->low > LANES * i)
			s[i] = vec_select(mask_first(b->low - LANES * i), none, s[i]);
		if (score)
			vec_store_part(score + b->kb + LANES * i, n, s[i]);
		s[i] = vec_select(mask_first(n), s[i], none);
		most = vec_max(s[i], most);
	}
	max = vec_largest(most);
	max = MAX(max, old);
	m = vec_splat(max);
	UNROLL for (int i = 0; i < KEYS / LANES; i++)
	{
		s[i] = score_exp(s[i] - m);
		vec_store(p + LANES * i, s[i]);
	}
	/* Usually the maximum has not changed, and no exponential is needed. */
	fix = max == old ? 1 : old > -INFINITY ? exp1(old - max) : 0;
	st->m = max;
	st->l = st->l * fix + vec_sum(block_sum(s));
	return fix;
}

/* Arguments for adding the values of a block of keys to the attention outputs of some queries. For each query r, set
 * st[r].acc to st[r].acc * fix[r] + the sum of p[r][k] * value k over all n keys k. Value k is the row at byte offset
 * off[k] of `v`. While value k is added, the row of the key KEYS (64) positions later may be prefetched. */
struct value_run {
	const struct block *b;
	const uint8_t *v;
	const size_t *off;
	struct attn_state *st;
	float (*p)[KEYS];
	float fix[RUN];
	int32_t n;
};

/* Prefetch n dimensions, from j on, of value k + KEYS, the value 64 keys after key k. If values have few bytes,
 * prefetch all of key k + KEYS instead. */
INLINE void value_fetch(enum dtype type, const struct value_run *u, size_t k, int32_t j, int n)
{
	const struct block *b = u->b;
	size_t part = type == DT_F32 ? 4 : 2;

	if (!few_bytes(type))
		row_fetch(type, u->v + u->off[KEYS + k] + part * (size_t)j, part * (size_t)n);
	else if (j == 0)
		row_fetch(type, b->sp->k + b->k_off[KEYS + k], b->sp->k_bytes);
}

/* Add the values of the keys to the outputs of nr queries (struct value_run), in dimensions j to j + nv * LANES - 1.
 * Only n dimensions from j on exist; skip the other dimensions. */
INLINE void run_values(int nr, int nv, int ahead, enum dtype type, const struct value_run *u, int32_t j, int32_t n)
{
	vec acc[RUN][4];

	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < nv; i++) acc[r][i] =
		vec_load_part(u->st[r].acc + j + LANES * i, n) * u->fix[r];
	for (int32_t k = 0; k < u->n; k++) {
		vec w[RUN];

		if (ahead)
			value_fetch(type, u, (size_t)k, j, LANES * nv);
		UNROLL for (int r = 0; r < nr; r++) w[r] = vec_splat(u->p[r][k]);
		UNROLL for (int i = 0; i < nv; i++)
		{
			vec x = vec_row(type, u->v + u->off[k], j + LANES * i, n);

			IN_REGISTER(x);
			UNROLL for (int r = 0; r < nr; r++) acc[r][i] = vec_fma(w[r], x, acc[r][i]);
		}
	}
	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < nv; i++)
		vec_store_part(u->st[r].acc + j + LANES * i, n, acc[r][i]);
}

/* Add the values of the keys to the outputs of up to three queries, as run_values() does, in 64 dimensions from j on.
 * It uses vectors of eight floats, because converting values to them costs less, and all sums fit in registers. */
INLINE void run_values64(int nr, enum dtype type, const struct value_run *u, int32_t j)
{
	vec8 acc[3][8];

	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < 8; i++) acc[r][i] =
		vec8_mul(vec8_load(u->st[r].acc + j + 8 * i), vec8_splat(u->fix[r]));
	ROLLED for (int32_t k = 0; k < u->n; k++)
	{
		vec8 w[3];

		value_fetch(type, u, (size_t)k, j, 64);
		UNROLL for (int r = 0; r < nr; r++) w[r] = vec8_splat(u->p[r][k]);
		UNROLL for (int i = 0; i < 8; i++)
		{
			vec8 x = vec8_row(type, u->v + u->off[k], j + 8 * i, 8);

			UNROLL for (int r = 0; r < nr; r++) acc[r][i] = vec8_fma(w[r], x, acc[r][i]);
		}
	}
	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < 8; i++)
		vec8_store(u->st[r].acc + j + 8 * i, acc[r][i]);
}

/* Add the q4_0 values of the keys, times the softmax weights, to the outputs of nr queries, as run_values() does, for
 * the nb blocks of 32 dimensions from j on. Multiply the scale of a block once into the softmax weight, instead of into
 * each of the block's 32 values. */
INLINE void run_codes(int nr, int nb, const struct value_run *u, int32_t j)
{
	enum { PER = 32 / LANES };
	float w[2][FEW][KEYS] __attribute__((aligned(64)));
	vec acc[FEW][2 * PER];

	UNROLL for (int i = 0; i < nb; i++)
	{
		uint16_t scale[KEYS] = { 0 };

		for (int32_t k = 0; k < u->n; k++)
			memcpy(scale + k, u->v + u->off[k] + kv_row_bytes(DT_Q4_0, j + 32 * i), 2);
		UNROLL for (int32_t k = 0; k < KEYS; k += LANES)
		{
			vec d = vec_row(DT_F16, (const uint8_t *)scale, k, LANES);

			UNROLL for (int r = 0; r < nr; r++) vec_store(w[i][r] + k, d * vec_load(u->p[r] + k));
		}
	}
	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < nb * PER; i++) acc[r][i] =
		vec_load(u->st[r].acc + j + LANES * i) * u->fix[r];
	ROLLED for (int32_t k = 0; k < u->n; k++)
	{
		value_fetch(DT_Q4_0, u, (size_t)k, j, 32 * nb);
		UNROLL for (int i = 0; i < nb * PER; i++)
		{
			vec x = vec_codes(u->v + u->off[k] + kv_row_bytes(DT_Q4_0, j), LANES * i);

			IN_REGISTER(x);
			UNROLL for (int r = 0; r < nr; r++) acc[r][i] =
				vec_fma(vec_splat(w[i / PER][r][k]), x, acc[r][i]);
		}
	}
	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < nb * PER; i++)
		vec_store(u->st[r].acc + j + LANES * i, acc[r][i]);
}

INLINE void run_finish(int nr, int ahead, enum dtype type, int32_t dim, const struct block *b, struct value_run *u)
{
	int32_t j = 0;

	UNROLL for (int r = 0; r < nr; r++) u->fix[r] =
		softmax_step(b, u->st + r, u->p[r], b->score ? b->score[r] : NULL);
	u->n = b->n;
	if (ahead && type == DT_Q4_0) {
		for (; LANES > 8 && j + 64 <= dim; j += 64)
			run_codes(nr, 2, u, j);
		for (; j < dim; j += 32)
			run_codes(nr, 1, u, j);
		return;
	}
	if (LANES > 8 && nr <= 3 && ahead && type != DT_F32)
		for (; j + 64 <= dim; j += 64)
			run_values64(nr, type, u, j);
	for (; j + 4 * LANES <= dim; j += 4 * LANES)
		run_values(nr, 4, ahead, type, u, j, LANES);
	for (; j + LANES <= dim; j += LANES)
		run_values(nr, 1, ahead, type, u, j, LANES);
	if (j < dim)
		run_values(nr, 1, ahead, type, u, j, dim - j);
}

/* ---- instances: 1 to FEW queries over rows in place, for each type; RUN queries over converted blocks ---- */

INLINE void run_scores(int nr, enum dtype type, int32_t dim, const struct block *b, const float *const *qs,
                       float p[RUN][KEYS])
{
	const float *q[FEW];

	UNROLL for (int r = 0; r < nr; r++) q[r] = qs[r];
	few_scores(nr, type, dim, b, q, p);
}

INLINE void run_sums(int nr, enum dtype type, int32_t dim, const struct block *b, struct attn_state *st,
                     float p[RUN][KEYS])
{
	struct value_run u = { .b = b, .v = b->sp->v, .off = b->v_off, .st = st, .p = p };

	run_finish(nr, 1, type, dim, b, &u);
}

INLINE void run_many(int32_t dim, const struct block *b, const float *const *q, const size_t *off,
                     struct attn_state *st)
{
	float p[RUN][KEYS] __attribute__((aligned(64)));
	struct value_run u = { .b = b, .v = (const uint8_t *)b->sp->values, .off = off, .st = st, .p = p };

	many_scores(RUN, dim, b, q, p);
	run_finish(RUN, 0, DT_F32, dim, b, &u);
}

typedef void scores_fn(int32_t dim, const struct block *, const float *const *, float (*)[KEYS]);
typedef void sums_fn(int32_t dim, const struct block *, struct attn_state *, float (*)[KEYS]);

#define FEW_FN(nr, type)                                                                                               \
	static void scores_##nr##_##type(int32_t dim, const struct block *b, const float *const *q, float(*p)[KEYS])   \
	{                                                                                                              \
		if (nr <= FEW && dim == 64)                                                                            \
			run_scores(nr, DT_##type, 64, b, q, p);                                                        \
		else if (nr <= FEW)                                                                                    \
			run_scores(nr, DT_##type, dim, b, q, p);                                                       \
	}                                                                                                              \
	static void sums_##nr##_##type(int32_t dim, const struct block *b, struct attn_state *st, float(*p)[KEYS])     \
	{                                                                                                              \
		if (nr <= FEW && dim == 64)                                                                            \
			run_sums(nr, DT_##type, 64, b, st, p);                                                         \
		else if (nr <= FEW)                                                                                    \
			run_sums(nr, DT_##type, dim, b, st, p);                                                        \
	}
#define FEW_OF(type) FEW_FN(1, type) FEW_FN(2, type) FEW_FN(3, type) FEW_FN(4, type)
FEW_OF(F32)
FEW_OF(F16)
FEW_OF(BF16)
FEW_OF(Q8_0)
FEW_OF(Q4_0)

/* Return the index of a type in the tables of few(). */
static int type_row(enum dtype type)
{
	return type == DT_F32 ? 0 : type == DT_F16 ? 1 : type == DT_BF16 ? 2 : type == DT_Q8_0 ? 3 : 4;
}

static void few(const struct attn_tile *t, int nr, const struct block *b, const float *const *q, struct attn_state *st)
{
#define FEW4(name, type)                                                                                               \
	{                                                                                                              \
		name##_1_##type, name##_2_##type, name##_3_##type, name##_4_##type                                     \
	}
	static scores_fn *const scores[][4] = { FEW4(scores, F32), FEW4(scores, F16), FEW4(scores, BF16),
		                                FEW4(scores, Q8_0), FEW4(scores, Q4_0) };
	static sums_fn *const sums[][4] = { FEW4(sums, F32), FEW4(sums, F16), FEW4(sums, BF16), FEW4(sums, Q8_0),
		                            FEW4(sums, Q4_0) };
	float p[RUN][KEYS] __attribute__((aligned(64)));

	scores[type_row(t->k_type)][nr - 1](t->head_dim, b, q, p);
	sums[type_row(t->v_type)][nr - 1](t->head_dim, b, st, p);
}

static void many(int32_t dim, const struct block *b, const float *const *q, const size_t *off, struct attn_state *st)
{
	if (dim == 64)
		run_many(64, b, q, off, st);
	else
		run_many(dim, b, q, off, st);
}

static int32_t keys_seen(const struct attn_tile *t, int32_t r, int32_t k, int32_t n)
{
	return t->limit[r] - k < n ? t->limit[r] - k : n;
}

static int32_t keys_below(const struct attn_tile *t, int32_t r, int32_t k)
{
	return t->from && t->from[r] > k ? t->from[r] - k : 0;
}

/* Compute one block of keys from k on for the queries from `first` on. Consecutive queries that see the same keys are
 * computed together: RUN queries over transposed keys, or up to FEW queries over rows in place. */
static void block_run(const struct attn_tile *t, struct block *b, int32_t first, int32_t k)
{
	size_t off[KEYS], stride = lanes_round(t->head_dim) * sizeof(float);
	int32_t n = b->n, transposed = t->n_q - first > FEWEST && t->k_type != DT_Q4_0 && t->v_type != DT_Q4_0;

	if (transposed) {
		keys_transpose(t->k_type, b, t->head_dim);
		values_convert(t->v_type, b, t->head_dim);
		for (size_t i = 0; i < KEYS; i++)
			off[i] = i * stride;
	}
	for (int32_t r = first; r < t->n_q;) {
		int nr = 1;

		b->n = keys_seen(t, r, k, n);
		b->low = keys_below(t, r, k);
		if (b->low >= b->n || !attn_reads(t, r, k)) {
			/* the query reads none of these keys: its window begins later, or it does not read the block */
			r++;
			continue;
		}
		b->score = t->score ? t->score + r : NULL;
		while (nr < RUN && r + nr < t->n_q && keys_seen(t, r + nr, k, n) == b->n &&
		       keys_below(t, r + nr, k) == b->low && attn_reads(t, r + nr, k))
			nr++;
		if (transposed && nr == RUN) {
			many(t->head_dim, b, t->q + r, off, t->st + r);
		} else {
			nr = MIN(FEW, nr);
			b->coded = b->sp->coded + (size_t)r * b->sp->coded_bytes;
			few(t, nr, b, t->q + r, t->st + r);
		}
		r += nr;
	}
}

/* Write the byte offsets of the rows of the keys from k0 to k1 - 1 and, for prefetching, of the KEYS + 8 rows after
 * these. If the slots are a list, the rows after key k1 - 1 are unknown, so repeat the last offset. */
static void row_offsets(const struct attn_tile *t, size_t bytes, size_t *off)
{
	int32_t n = t->k1 - t->k0;

	for (int32_t i = 0; i < n; i++)
		off[i] = attn_row(t, t->k0 + i) * bytes;
	for (int32_t i = n; i < n + KEYS + 8; i++)
		off[i] = t->rows ? off[n - 1] : off[n - 1] + (size_t)(i - n + 1) * bytes;
}

/* If the keys are q4_0, convert the queries to signed bytes (lanes_q4.h). */
static void queries_code(const struct attn_tile *t, struct span *sp)
{
	sp->coded_bytes = q4_query_bytes(t->head_dim);
	for (int32_t r = 0; Q4_DOTS && t->k_type == DT_Q4_0 && r < t->n_q; r++)
		q4_query(sp->coded + (size_t)r * sp->coded_bytes, t->q[r], t->head_dim);
}

static void attn(const struct attn_tile *t)
{
	size_t *k_off = (size_t *)(void *)t->scratch, *v_off = k_off + OFFSETS;
	struct span sp = { .k = t->k,
		           .v = t->v,
		           .k_bytes = kv_row_bytes(t->k_type, t->head_dim),
		           .v_bytes = kv_row_bytes(t->v_type, t->head_dim),
		           .scale = t->scale * SCORE_UNIT,
		           .cap = t->softcap * SCORE_UNIT,
		           .bias = t->bias ? t->bias + t->k0 : NULL };
	int32_t first = 0;

	sp.keys = t->scratch + 2 * OFFSETS * sizeof(size_t) / sizeof(float);
	sp.values = sp.keys + KEYS * lanes_round(t->head_dim);
	sp.coded = (uint8_t *)(sp.values + KEYS * lanes_round(t->head_dim));
	queries_code(t, &sp);
	row_offsets(t, sp.k_bytes, k_off);
	if (sp.k_bytes == sp.v_bytes)
		v_off = k_off;
	else
		row_offsets(t, sp.v_bytes, v_off);
	/* Prefetch the first block of a list. */
	for (int32_t i = 0; t->rows && i < KEYS && i < t->k1 - t->k0; i++) {
		row_fetch(DT_F32, sp.k + k_off[i], sp.k_bytes);
		row_fetch(DT_F32, sp.v + v_off[i], sp.v_bytes);
	}
	for (int32_t r = 0; r < t->n_q; r++) {
		t->st[r].m = -INFINITY;
		t->st[r].l = 0;
		memset(t->st[r].acc, 0, (size_t)t->head_dim * sizeof(float));
	}
	for (int32_t k = t->k0; k < t->k1; k += KEYS) {
		struct block b = {
			.sp = &sp, .k_off = k_off + (k - t->k0), .v_off = v_off + (k - t->k0), .kb = k - t->k0
		};

		while (first < t->n_q && t->limit[first] <= k)
			first++;
		if (first == t->n_q)
			return;
		b.n = keys_seen(t, t->n_q - 1, k, t->k1 - k < KEYS ? t->k1 - k : KEYS);
		block_run(t, &b, first, k);
	}
}

static void attn_merge(struct attn_state *a, const struct attn_state *b, int32_t head_dim)
{
	float m = MAX(a->m, b->m);
	/* An empty state has weight 0, because exp(-inf - -inf) would be NaN. */
	float fa = a->m > -INFINITY ? exp1(a->m - m) : 0;
	float fb = b->m > -INFINITY ? exp1(b->m - m) : 0;

	a->m = m;
	a->l = a->l * fa + b->l * fb;
	for (int32_t j = 0; j < head_dim; j += LANES) {
		vec x = vec_load_part(a->acc + j, head_dim - j) * fa;

		vec_store_part(a->acc + j, head_dim - j,
		               vec_fma(vec_load_part(b->acc + j, head_dim - j), vec_splat(fb), x));
	}
}
#endif

#endif
