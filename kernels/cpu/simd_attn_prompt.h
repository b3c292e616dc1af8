/* kernels/cpu/simd_attn_prompt.h (private to the SIMD code) - attention of a prompt's tokens over one KV head, in
 * 16-bit integers; for KV caches of f16, bf16, q8_0 and q4_0. Compiled for AVX2 and AVX-512, which multiply pairs of
 * 16-bit integers (lanes_pairs.h).
 *
 * Every query, key and value vector is rounded to integers, with a factor of its own. Softmax weights are rounded to
 * integers, too, for each block of 64 keys. Sums of products are exact in 32 bits; blocks are added in floats. So a
 * query's result does not depend on the queries computed with it. In tests, the squared rounding error is at most
 * 1.1e-7 times the squared output.
 *
 * A block of 64 keys and its values are converted once for all queries. A run is a group of up to N_RUN queries, which
 * goes through three phases: scores, softmax weights, sums of values. The phases of different runs overlap: while the
 * scores of a run are not ready, the processor sums values for the run before it.
 *
 * Different queries may read different blocks (attn_tile.blocks). Then the queries that read a block are copied side by
 * side before the block is computed. Their states are copied back afterwards. */
#ifndef WEIR_CPU_SIMD_ATTN_PROMPT_H
#define WEIR_CPU_SIMD_ATTN_PROMPT_H

#include "kernels/cpu/lanes_pairs.h"
#include "kernels/cpu/simd_attn.h"

#if defined(LANES) && PAIRS
/* Scores in this file are exponents of 2. Softmax states and kept scores, which other files read, are converted to
 * the unit SCORE_UNIT. */
#define LOG2_E 1.44269504088896341f

enum {
	KEY_BITS = 13,               /* number of bits of an integer of a key vector, without its sign */
	VALUE_BITS = 12,             /* number of bits of an integer of a value vector, without its sign */
	WEIGHT_MOST = (1 << 13) - 1, /* largest weight: 64 products of weights and values fit 32 bits */
	/* limits of the exponent of a row (key or value): a row with an exponent below LEAST_EXPONENT loses digits;
	 * values with an exponent above MOST_EXPONENT count as infinite */
	LEAST_EXPONENT = -40,
	MOST_EXPONENT = 100,
	N_RUN = REGISTERS > 16 ? 8 : 6,    /* maximum number of queries in a run */
	N_SUMS = REGISTERS > 16 ? 24 : 12, /* maximum number of vectors of sums that a run keeps in registers */
};

/* For AMX (amx_attn.c), this file is compiled with PLANES defined. Then the 16-bit integers, which are stored in pairs,
 * are split into two planes of bytes (amx_planes.h). */
#ifdef PLANES
#include "kernels/cpu/amx_planes.h"
#else
#define PLANES                            0
#define planes_of_row(row, n)             ((void)0)
#define planes_of_columns(rows, n, width) ((void)0)
#endif

/* One span (up to ATTN_SPAN keys) of a tile, as integers. */
struct prompt {
	const struct attn_tile *t;
	int32_t dim; /* head_dim rounded up to pairs of vectors */
	/* The keys and the values of a block as 16-bit integers. A pair of integers takes the memory of one float. In
	 * keys [dim / 2][64], a pair belongs to one key and two dimensions, which are LANES apart. In values [32][dim],
	 * a pair belongs to one dimension and two keys, whose numbers are LANES apart. */
	float *keys, *values;
	float *key_unit; /* [64] factor that converts the integers of a key to its values */
	/* [64] each. The integers of a row of values are multiples of 2^(value_power - VALUE_BITS). value_inverse is
	 * 2^-value_power. */
	float *value_power, *value_inverse;
	int32_t *q;    /* [n_q][dim / 2] the queries, as pairs of integers */
	float *q_unit; /* [n_q] factor that converts the integer dot products of a query to scores */
};

/* Queries that read the same block. */
struct gathered {
	struct attn_tile t;
	struct prompt u;
	int32_t *limit, *at; /* `at` is the index of each query in the tile */
	struct attn_state *st;
	float **score;
};

/* A run: nr queries, from query r0 on, which are computed together for one block of keys. Rows of values have different
 * units (prompt.value_power). So that these rows can be added as integers, the weight of a key is multiplied with
 * 2^value_power of the key's row of values. */
struct prompt_run {
	/* log2 of each weight, which is the sum of the score and prompt.value_power */
	float s[N_RUN][KEYS] __attribute__((aligned(64)));
	int32_t w[N_RUN][KEYS / 2] __attribute__((aligned(64))); /* the weights, as pairs of integers */
	float most[LANES];                                       /* largest of each query's s[] */
	/* for each query, the sum of its softmax weights before they were multiplied with 2^value_power */
	float sum[LANES];
	/* To add this block to the softmax state of a query, multiply the sums over earlier blocks with old[], and the
	 * sums over this block with add[]. Both have a factor for each query. */
	float old[LANES], add[LANES];
	int32_t r0, nr;
	int32_t low[N_RUN], seen[N_RUN]; /* query r sees the keys of the block from low[r] to seen[r] - 1 */
	int32_t keys;                    /* largest of seen[], rounded up to a multiple of 2 * LANES */
	/* 1: every query sees the whole block, and there is no softcap, bias or output of scores */
	int plain;
};

static size_t prompt_dim(int32_t head_dim)
{
	return ((size_t)head_dim + 2 * LANES - 1) & ~(size_t)(2 * LANES - 1);
}

static size_t attn_prompt_scratch(int32_t head_dim, int32_t n_q)
{
	size_t dim = prompt_dim(head_dim);

	return 2 * OFFSETS * sizeof(size_t) / sizeof(float) + KEYS * dim + 3 * KEYS +
	       (size_t)n_q * (2 * (dim / 2 + 1) + (sizeof(struct attn_state) + sizeof(float *)) / sizeof(float) + 2) +
	       4;
}

/* ---- rows of planes as integers ---- */

/* Return a constant float M, as bits, that is used to round floats to integers. After the addition x + M, the low 16
 * bits of the result are x * 2^digits, rounded to an integer. */
INLINE vec_int magic_bits(vec_int digits)
{
	return ((150 - digits) << 23) | 0x400000;
}

/* Return, for each row, a number that bounds the magnitudes of its values. For f16 and bf16: the bits of the largest
 * magnitude. For q8_0 and q4_0: the bits of the largest magnitude of a scale. */
INLINE vec_int rows_top(enum dtype type, const uint8_t *plane, const size_t *off, int32_t dim)
{
	int32_t top[LANES];

	if (type != DT_Q8_0 && type != DT_Q4_0)
		return halves_top(plane, off, dim);
	for (int i = 0; i < LANES; i++) {
		top[i] = 0;
		for (int32_t j = 0; j < dim; j += 32) {
			uint16_t d;

			memcpy(&d, plane + off[i] + kv_row_bytes(type, j), sizeof d);
			top[i] = (d & 0x7fff) > top[i] ? d & 0x7fff : top[i];
		}
	}
	return vec_int_load(top);
}

/* Return, for each row, the exponent of the bound that rows_top() returned. Set *bad to the bits of a NaN for each row
 * with a value that is not finite, and to 0 for the other rows. The NaN is chosen so that weight_exp2() keeps it. */
INLINE vec_int top_exponent(enum dtype type, vec_int top, vec_int *bad)
{
	const int mantissa = type == DT_BF16 ? 7 : 10, bias = type == DT_BF16   ? 126
	                                                      : type == DT_Q8_0 ? 7
	                                                      : type == DT_Q4_0 ? 11
	                                                                        : 14;
	const int most = (type == DT_BF16 ? 254 : 30) - bias;
	vec_int e = vec_int_max(top >> mantissa, vec_int_splat(1)) - bias;

	*bad = (e > vec_int_splat(MIN(most, MOST_EXPONENT))) & 0x7fc00000;
	return vec_int_max(vec_int_min(e, vec_int_splat(MOST_EXPONENT)), vec_int_splat(LEAST_EXPONENT));
}

/* Return the LANES dimensions of a row from j on. Dimensions after the row's end are zeros. */
INLINE vec row_part(enum dtype type, int whole, const uint8_t *row, int32_t j, int32_t dim)
{
	return whole ? vec_row(type, row, j, LANES) : j < dim ? vec_row(type, row, j, dim - j) : vec_zero();
}

INLINE void prompt_keys(enum dtype type, int whole, int32_t dim, const struct prompt *u, const size_t off[KEYS])
{
	const uint8_t *plane = u->t->k;

	ROLLED for (int32_t k = 0; k < KEYS; k += LANES, off += LANES)
	{
		vec_int bad, digits = KEY_BITS - top_exponent(type, rows_top(type, plane, off, dim), &bad);
		float magic[LANES] __attribute__((aligned(64))), *out = u->keys + k;

		vec_store(u->key_unit + k, (vec)((127 - digits) << 23 | bad));
		vec_store(magic, (vec)magic_bits(digits));
		ROLLED for (int32_t j = 0; j < dim; j += 2 * LANES, out += (size_t)LANES * KEYS)
		{
			vec x[LANES], y[LANES];

			UNROLL for (int i = 0; i < LANES; i++)
			{
				vec m = vec_splat(magic[i]);

				x[i] = vec_pairs(row_part(type, whole, plane + off[i], j, dim) + m,
				                 row_part(type, whole, plane + off[i], j + LANES, dim) + m);
			}
			vec_transpose(y, x);
			UNROLL for (int i = 0; i < LANES; i++) vec_store(out + (size_t)i * KEYS, y[i]);
		}
	}
}

INLINE void prompt_values(enum dtype type, int whole, int32_t dim, const struct prompt *u, const size_t off[KEYS])
{
	const uint8_t *plane = u->t->v;
	const int32_t wide = dim == 64 ? 64 : u->dim;
	float *out = u->values;

	ROLLED for (int32_t k = 0; k < KEYS; k += 2 * LANES, off += 2 * LANES)
	{
		float magic[2 * LANES] __attribute__((aligned(64)));

		UNROLL for (int i = 0; i < 2 * LANES; i += LANES)
		{
			vec_int bad, power = top_exponent(type, rows_top(type, plane, off + i, dim), &bad);

			vec_store(u->value_power + k + i, (vec)((vec_int)vec_of_int(power) | bad));
			vec_store(u->value_inverse + k + i, (vec)((127 - power) << 23 | bad));
			vec_store(magic + i, (vec)magic_bits(VALUE_BITS - power));
		}
		ROLLED for (int i = 0; i < LANES; i++, out += wide)
		{
			const uint8_t *a = plane + off[i], *b = plane + off[i + LANES];
			vec lo = vec_splat(magic[i]), hi = vec_splat(magic[i + LANES]);

			UNROLL for (int32_t j = 0; j < wide; j += LANES)
				vec_store(out + j, vec_pairs(row_part(type, whole, a, j, dim) + lo,
			                                     row_part(type, whole, b, j, dim) + hi));
		}
	}
}

#define OF_SHAPE(fn, type, u, off)                                                                                     \
	((u)->t->head_dim == 64         ? fn(type, 1, 64, u, off)                                                      \
	 : (u)->t->head_dim == (u)->dim ? fn(type, 1, (u)->dim, u, off)                                                \
	                                : fn(type, 0, (u)->t->head_dim, u, off))

static void prompt_keys_of(const struct prompt *u, const size_t off[KEYS])
{
	switch (u->t->k_type) {
	case DT_F16: OF_SHAPE(prompt_keys, DT_F16, u, off); break;
	case DT_BF16: OF_SHAPE(prompt_keys, DT_BF16, u, off); break;
	case DT_Q4_0: OF_SHAPE(prompt_keys, DT_Q4_0, u, off); break;
	default: OF_SHAPE(prompt_keys, DT_Q8_0, u, off); break;
	}
}

static void prompt_values_of(const struct prompt *u, const size_t off[KEYS])
{
	switch (u->t->v_type) {
	case DT_F16: OF_SHAPE(prompt_values, DT_F16, u, off); break;
	case DT_BF16: OF_SHAPE(prompt_values, DT_BF16, u, off); break;
	case DT_Q4_0: OF_SHAPE(prompt_values, DT_Q4_0, u, off); break;
	default: OF_SHAPE(prompt_values, DT_Q8_0, u, off); break;
	}
}

/* Convert the block's keys to integers and prefetch its values. Then convert the values and prefetch the next block's
 * keys. In place of missing keys, convert the last key; the scores of these copies are masked later. */
static void prompt_block(const struct prompt *u, const size_t *k_off, const size_t *v_off, int32_t n)
{
	const uint8_t *k = u->t->k, *v = u->t->v;
	size_t k_bytes = kv_row_bytes(u->t->k_type, u->t->head_dim),
	       v_bytes = kv_row_bytes(u->t->v_type, u->t->head_dim), keys[KEYS], values[KEYS];

	for (int32_t i = 0; i < KEYS; i++) {
		keys[i] = k_off[i < n ? i : n - 1];
		values[i] = v_off[i < n ? i : n - 1];
	}
	for (int32_t i = 0; i < n; i++)
		row_fetch(DT_F32, v + values[i], v_bytes);
	prompt_keys_of(u, keys);
	for (int32_t i = 0; i < n; i++)
		row_fetch(DT_F32, k + k_off[KEYS + i], k_bytes);
	prompt_values_of(u, values);
	planes_of_columns(u->keys, u->dim / 2, KEYS);
	planes_of_columns(u->values, KEYS / 2, u->dim);
}

/* Convert query r to pairs of integers. Set q_unit[r] to the factor that converts integer products to scores. The
 * integers are at most 2^15, and their vector has a length of at most 2^18 / sqrt(dim). The vector of a key is at most
 * 2^13 sqrt(dim) long, so no product exceeds 32 bits (Cauchy-Schwarz). */
static void prompt_query(const struct prompt *u, int32_t r)
{
	const float most = (float)(1 << (31 - KEY_BITS)), *q = u->t->q[r];
	const int32_t dim = u->t->head_dim;
	const vec magic = (vec)magic_bits(vec_int_splat(0));
	float *out = (float *)u->q + (size_t)r * (size_t)(u->dim / 2), length, target;
	vec sum = vec_zero(), factor;

	for (int32_t j = 0; j < dim; j += LANES) {
		vec x = vec_load_part(q + j, dim - j);

		sum = vec_fma(x, x, sum);
	}
	length = sqrtf(vec_sum(sum));
	/* rounding can increase each value by up to one half, so leave room for that */
	target = fminf(most / sqrtf((float)u->dim), 32767) - 0.5f * sqrtf((float)u->dim) - 1;
	/* A query that is shorter than 1e-18 counts as zeros. A query that is longer than 1e18, or has values that
	 * are not finite, gives NaN. */
	u->q_unit[r] = length <= 1e18f ? length / target * u->t->scale * LOG2_E : NAN;
	factor = vec_splat(length > 1e-18f && length <= 1e18f ? target / length : 0);
	for (int32_t j = 0; j < u->dim; j += 2 * LANES) {
		vec lo = vec_load_part(q + j, dim - j), hi = vec_load_part(q + j + LANES, dim - j - LANES);

		vec_store(out + j / 2, vec_pairs(vec_fma(lo, factor, magic), vec_fma(hi, factor, magic)));
	}
	planes_of_row(out, u->dim / 2);
}

/* ---- products: a run's scores, and its weighted values ---- */

#if !PLANES
/* Multiply matrix a [nr][n] with the first nc vectors of each row of matrix b [n][ld]. The elements of both are pairs
 * of 16-bit integers, and the product of two pairs is their dot product. Set sum[r][c] to row r of the result in the
 * columns of vector c. A vector has LANES columns. */
INLINE void pairs_times(int nr, int nc, int32_t n, const int32_t *a, size_t a_ld, const float *b, size_t ld,
                        vec_int sum[N_RUN][8])
{
	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int c = 0; c < nc; c++) sum[r][c] = vec_int_splat(0);
	ROLLED for (int32_t j = 0; j < n; j++, b += ld)
	{
		vec_int x[8];

		UNROLL for (int c = 0; c < nc; c++) x[c] = vec_int_load(b + LANES * c);
		UNROLL for (int r = 0; r < nr; r++)
		{
			vec_int v = vec_int_splat(a[(size_t)r * a_ld + (size_t)j]);

			UNROLL for (int c = 0; c < nc; c++)
			{
				sum[r][c] = pairs_fma(sum[r][c], v, x[c]);
				IN_REGISTER(sum[r][c]);
			}
		}
	}
}
#endif

/* Number of vectors of sums that are kept in registers for each of nr queries. */
#define SUMS_OF(nr) ((nr)*KEYS / LANES <= N_SUMS ? KEYS / LANES : (nr)*4 <= N_SUMS ? 4 : 2)

/* Compute the scores of nc vectors of keys from k on. */
INLINE void scores_part(int nr, int nc, int plain, const struct prompt *u, int32_t k, struct prompt_run *run,
                        vec most[N_RUN])
{
	const size_t ld = (size_t)(u->dim / 2);
	vec_int sum[N_RUN][8];

	pairs_times(nr, nc, u->dim / 2, u->q + (size_t)run->r0 * ld, ld, u->keys + k, KEYS, sum);
	UNROLL for (int r = 0; r < nr; r++)
	{
		vec unit = vec_splat(u->q_unit[run->r0 + r]);

		UNROLL for (int c = 0; c < nc; c++)
		{
			const int32_t at = k + LANES * c;
			vec s = vec_of_int(sum[r][c]) * vec_load(u->key_unit + at);

			if (plain) {
				s = vec_fma(s, unit, vec_load(u->value_power + at));
				most[r] = vec_max(s, most[r]);
			}
			vec_store(run->s[r] + at, s);
		}
	}
}

INLINE void scores_of(int nr, const struct prompt *u, struct prompt_run *run)
{
	const int nc = SUMS_OF(nr);
	vec most[N_RUN];

	UNROLL for (int r = 0; r < nr; r++) most[r] = vec_splat(-INFINITY);
	if (run->plain) {
		ROLLED for (int32_t k = 0; k < KEYS; k += nc * LANES) scores_part(nr, nc, 1, u, k, run, most);
		UNROLL for (int r = 0; r < nr; r++) run->most[r] = vec_largest(most[r]);
	} else {
		ROLLED for (int32_t k = 0; k < run->keys; k += nc * LANES) scores_part(nr, nc, 0, u, k, run, most);
	}
}

/* Add the weighted values to the states' sums, for nc vectors of dimensions from j on. */
INLINE void values_part(int nr, int nc, const struct prompt *u, int32_t j, const struct prompt_run *run)
{
	const int32_t left = u->t->head_dim - j;
	const struct attn_state *st = u->t->st + run->r0;
	vec_int sum[N_RUN][8];

	pairs_times(nr, nc, PLANES ? KEYS / 2 : run->keys / 2, run->w[0], KEYS / 2, u->values + j, (size_t)u->dim, sum);
	UNROLL for (int r = 0; r < nr; r++)
	{
		float *acc = st[r].acc + j;
		vec old = vec_splat(run->old[r]), add = vec_splat(run->add[r]);

		UNROLL for (int c = 0; c < nc; c++)
		{
			vec x = vec_of_int(sum[r][c]) * add;

			if (left >= nc * LANES)
				vec_store(acc + LANES * c, vec_fma(vec_load(acc + LANES * c), old, x));
			else
				vec_store_part(acc + LANES * c, left - LANES * c,
				               vec_fma(vec_load_part(acc + LANES * c, left - LANES * c), old, x));
		}
	}
}

INLINE void values_of(int nr, const struct prompt *u, const struct prompt_run *run)
{
	const int nc = SUMS_OF(nr);
	int32_t j = 0;

	for (; j + nc * LANES <= u->dim; j += nc * LANES)
		values_part(nr, nc, u, j, run);
	for (; nc > 2 && j < u->dim; j += 2 * LANES)
		values_part(nr, 2, u, j, run);
}

#define RUN_FNS(nr)                                                                                                    \
	static void scores_##nr(const struct prompt *u, struct prompt_run *run)                                        \
	{                                                                                                              \
		scores_of(nr, u, run);                                                                                 \
	}                                                                                                              \
	static void values_##nr(const struct prompt *u, const struct prompt_run *run)                                  \
	{                                                                                                              \
		values_of(nr, u, run);                                                                                 \
	}
/* clang-format off */
RUN_FNS(1) RUN_FNS(2) RUN_FNS(3) RUN_FNS(4) RUN_FNS(5) RUN_FNS(6)
#if REGISTERS > 16
RUN_FNS(7) RUN_FNS(8)
#define BY_RUN(name) { name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8 }
#else
#define BY_RUN(name) { name##_1, name##_2, name##_3, name##_4, name##_5, name##_6 }
#endif
	/* clang-format on */

	/* ---- weights ---- */

	/* Convert the scores of query r, which are integer products, to exponents of 2: apply scale, softcap and bias,
	 * and mask the keys that the query does not see. If scores are to be kept, store them. k0 is the block's first
	 * key. */
	static __attribute__((noinline)) void scores_finish(const struct prompt *u, int32_t k0, int32_t r,
                                                            struct prompt_run *run)
{
	const struct attn_tile *t = u->t;
	const vec none = vec_splat(-INFINITY), unit = vec_splat(u->q_unit[run->r0 + r]);
	const int32_t low = run->low[r], n = run->seen[r];
	float *s = run->s[r];
	vec most = none;

	for (int32_t i = 0; i < run->keys; i += LANES) {
		vec x = vec_load(s + i), power = vec_load(u->value_power + i), score = x * unit;

		x = vec_fma(x, unit, power);
		if (t->softcap > 0)
			score = score_capped(score * (SCORE_UNIT / LOG2_E), t->softcap * SCORE_UNIT) *
			        (LOG2_E / SCORE_UNIT);
		if (t->bias)
			score += vec_load_part(t->bias + k0 + i, n - i) * LOG2_E;
		if (t->softcap > 0 || t->bias)
			x = score + power;
		if (t->score)
			vec_store_part(t->score[run->r0 + r] + (k0 - t->k0) + i, n - i,
			               vec_select(mask_first(low - i), none, score * (SCORE_UNIT / LOG2_E)));
		x = vec_select(mask_first(low - i), none, vec_select(mask_first(n - i), x, none));
		most = vec_max(x, most);
		vec_store(s + i, x);
	}
	run->most[r] = vec_largest(most);
}

/* Return 2^x for x <= 0, with a relative error of at most 3e-6. For x below -126, return 2^-126. */
INLINE vec weight_exp2(vec x)
{
	const vec shift = vec_splat(12582912.0f); /* x + shift has x, rounded to an integer, in its low bits */
	vec t, r, p;

	x = vec_max(vec_splat(-126.0f), x);
	t = x + shift;
	r = x - (t - shift);
	p = vec_splat(0.00958285536f);
	p = vec_fma(p, r, vec_splat(0.0559064367f));
	p = vec_fma(p, r, vec_splat(0.240240986f));
	p = vec_fma(p, r, vec_splat(0.693124192f));
	p = vec_fma(p, r, vec_splat(1.0f));
	return (vec)((vec_int)p + ((vec_int)t << 23));
}

/* Compute the weights of query r from its exponents (prompt_run.s). */
INLINE void weights_of(int plain, const struct prompt *u, int32_t r, struct prompt_run *run)
{
	const vec most = vec_splat(run->most[r]), magic = (vec)magic_bits(vec_int_splat(0)),
		  unit = vec_splat((float)WEIGHT_MOST);
	const int32_t low = run->low[r], n = run->seen[r], keys = plain ? KEYS : run->keys;
	vec sum = vec_zero();

	ROLLED for (int32_t k = 0; k < keys; k += 2 * LANES)
	{
		vec p[2];

		UNROLL for (int i = 0; i < 2; i++)
		{
			const int32_t at = k + LANES * i;
			vec inverse =
				plain ? vec_load(u->value_inverse + at) : vec_load_part(u->value_inverse + at, n - at);

			if (!plain)
				inverse = vec_select(mask_first(low - at), vec_zero(), inverse);
			p[i] = weight_exp2(vec_load(run->s[r] + at) - most);
			sum = vec_fma(p[i], inverse, sum);
			p[i] = vec_fma(p[i], unit, magic);
		}
		vec_store((float *)run->w[r] + k / 2, vec_pairs(p[0], p[1]));
	}
	if (PLANES && keys < KEYS)
		memset(run->w[r] + keys / 2, 0, (size_t)(KEYS - keys) * 2);
	planes_of_row((float *)run->w[r], KEYS / 2);
	run->sum[r] = vec_sum(sum);
	if (!plain && low >= n) { /* the query sees none of the block's keys, because its window begins after them */
		run->sum[r] = 0;
		memset(run->w[r], 0, sizeof run->w[r]);
	}
}

/* Merge the maxima and sums of a block into the softmax states of the run's queries. */
static void weights_merge(const struct prompt *u, struct prompt_run *run)
{
	struct attn_state *st = u->t->st + run->r0;
	float m[LANES] = { 0 };
	vec before, block, most;

	for (int r = 0; r < run->nr; r++)
		m[r] = st[r].m;
	/* Limit both maxima to finite values, because the difference of two infinities is NaN. */
	before = vec_max(vec_splat(-3e38f), vec_load(m));
	block = vec_max(vec_splat(-3e38f), vec_load(run->most));
	most = vec_max(before, block);
	before = vec_exp2(before - most);
	block = vec_exp2(block - most);
	vec_store(m, most);
	vec_store(run->old, before);
	vec_store(run->sum, block * vec_load(run->sum));
	vec_store(run->add, block * (1.0f / (WEIGHT_MOST << VALUE_BITS)));
	for (int r = 0; r < run->nr; r++) {
		st[r].m = m[r];
		st[r].l = st[r].l * run->old[r] + run->sum[r];
	}
}

static void run_weights(const struct prompt *u, int32_t k0, struct prompt_run *run)
{
	for (int r = run->nr; r < LANES; r++)
		run->most[r] = run->sum[r] = 0;
	if (run->plain) {
		ROLLED for (int r = 0; r < run->nr; r++) weights_of(1, u, r, run);
	} else {
		ROLLED for (int r = 0; r < run->nr; r++)
		{
			scores_finish(u, k0, r, run);
			weights_of(0, u, r, run);
		}
	}
	weights_merge(u, run);
}

/* ---- blocks ---- */

/* Set up a run of up to N_RUN queries, beginning at query r0, for a block of n keys that begins at key k0. */
static void run_begin(const struct attn_tile *t, int32_t r0, int32_t k0, int32_t n, struct prompt_run *run)
{
	run->r0 = r0;
	run->nr = t->n_q - r0 < N_RUN ? t->n_q - r0 : N_RUN;
	run->plain = t->softcap <= 0 && !t->bias && !t->score;
	for (int r = 0; r < run->nr; r++) {
		run->low[r] = keys_below(t, r0 + r, k0);
		run->seen[r] = keys_seen(t, r0 + r, k0, n);
		run->plain &= run->low[r] == 0 && run->seen[r] == KEYS;
	}
	run->keys = (run->seen[run->nr - 1] + 2 * LANES - 1) & ~(2 * LANES - 1);
}

/* Compute a block of n keys from k0 on, for the queries from `first` on. */
static void prompt_runs(const struct prompt *u, int32_t first, int32_t k0, int32_t n)
{
	static void (*const scores[N_RUN])(const struct prompt *, struct prompt_run *) = BY_RUN(scores);
	static void (*const values[N_RUN])(const struct prompt *, const struct prompt_run *) = BY_RUN(values);
	struct prompt_run two[2];
	struct prompt_run *run = two, *before = NULL;

	for (int32_t r = first; r < u->t->n_q; r += N_RUN) {
		run_begin(u->t, r, k0, n, run);
		scores[run->nr - 1](u, run);
		if (before)
			values[before->nr - 1](u, before);
		run_weights(u, k0, run);
		before = run;
		run = run == two ? two + 1 : two;
	}
	values[before->nr - 1](u, before);
}

/* Place the arrays for gathered queries in the memory that begins at p. */
static void gathered_init(struct gathered *g, const struct prompt *u, float *p)
{
	size_t n = (size_t)u->t->n_q;

	g->t = *u->t;
	g->u = *u;
	g->u.t = &g->t;
	g->u.q = (int32_t *)p;
	g->u.q_unit = p + n * (size_t)(u->dim / 2);
	g->limit = (int32_t *)(g->u.q_unit + n);
	g->at = g->limit + n;
	/* The states have pointers, which must be aligned to 8 bytes. */
	g->st = (struct attn_state *)(((uintptr_t)(g->at + n) + 7) & ~(uintptr_t)7);
	g->score = (float **)(g->st + n);
	g->t.st = g->st;
	g->t.limit = g->limit;
	g->t.score = u->t->score ? (float *const *)g->score : NULL;
}

/* Copy the queries that read the block of key k, beginning with query number `first`. The copies are side by side,
 * without gaps. Return their number. */
static int32_t gather(struct gathered *g, const struct prompt *u, int32_t first, int32_t k)
{
	const struct attn_tile *t = u->t;
	const size_t ld = (size_t)(u->dim / 2);
	int32_t n = 0;

	for (int32_t r = first; r < t->n_q; r++) {
		if (!attn_reads(t, r, k))
			continue;
		for (size_t j = 0; j < ld; j += LANES)
			vec_store((float *)g->u.q + (size_t)n * ld + j,
			          vec_load((const float *)u->q + (size_t)r * ld + j));
		g->u.q_unit[n] = u->q_unit[r];
		g->limit[n] = t->limit[r];
		g->st[n] = t->st[r];
		if (t->score)
			g->score[n] = t->score[r];
		g->at[n++] = r;
	}
	g->t.n_q = n;
	return n;
}

static void attn_prompt(const struct attn_tile *t)
{
	struct prompt u = { .t = t, .dim = (int32_t)prompt_dim(t->head_dim) };
	size_t *k_off = (size_t *)(void *)t->scratch, *v_off = k_off + OFFSETS;
	int32_t first = 0;
	struct gathered g;

	u.keys = t->scratch + 2 * OFFSETS * sizeof(size_t) / sizeof(float);
	u.values = u.keys + KEYS / 2 * (size_t)u.dim;
	u.key_unit = u.values + KEYS / 2 * (size_t)u.dim;
	u.value_power = u.key_unit + KEYS;
	u.value_inverse = u.value_power + KEYS;
	u.q_unit = u.value_inverse + KEYS;
	u.q = (int32_t *)(u.q_unit + t->n_q);
	row_offsets(t, kv_row_bytes(t->k_type, t->head_dim), k_off);
	row_offsets(t, kv_row_bytes(t->v_type, t->head_dim), v_off);
	if (t->blocks)
		gathered_init(&g, &u, u.q_unit + t->n_q + (size_t)t->n_q * (size_t)(u.dim / 2));
	for (int32_t r = 0; r < t->n_q; r++) {
		if (!t->blocks || t->blocks[r])
			prompt_query(&u, r);
		t->st[r].m = -INFINITY;
		t->st[r].l = 0;
		memset(t->st[r].acc, 0, (size_t)t->head_dim * sizeof(float));
	}
	for (int32_t k = t->k0; k < t->k1; k += KEYS) {
		int32_t n;

		while (first < t->n_q && t->limit[first] <= k)
			first++;
		if (first == t->n_q)
			break;
		n = keys_seen(t, t->n_q - 1, k, t->k1 - k < KEYS ? t->k1 - k : KEYS);
		if (t->blocks && !gather(&g, &u, first, k))
			continue;
		prompt_block(&u, k_off + (k - t->k0), v_off + (k - t->k0), n);
		if (!t->blocks) {
			prompt_runs(&u, first, k, n);
			continue;
		}
		prompt_runs(&g.u, 0, k, n);
		for (int32_t i = 0; i < g.t.n_q; i++)
			t->st[g.at[i]] = g.st[i];
	}
	for (int32_t r = 0; r < t->n_q; r++)
		t->st[r].m *= SCORE_UNIT / LOG2_E;
}
#endif

#endif
