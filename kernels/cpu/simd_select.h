/* kernels/cpu/simd_select.h (private to the SIMD code) - operations on scores: probabilities, selection of the k
 * highest scores, selection of the blocks that a prompt's query reads; compiled once for each instruction set. */
#ifndef WEIR_CPU_SIMD_SELECT_H
#define WEIR_CPU_SIMD_SELECT_H

#include "kernels/cpu/simd_scan.h"

#ifdef LANES
/* ---- probabilities ---- */

/* Return sum + exp(f * x), for f * x <= 0. `mult` must be CHOOSE_LOG2E * f. (Method: select.h.) */
INLINE vec add_exp(vec sum, vec x, vec mult)
{
	vec_int i = vec_int_max(vec_int_below(vec_fma(x, mult, vec_splat(CHOOSE_ONE))), vec_int_splat(0));
	vec m = (vec)((i & 0x7fffff) | 0x3f800000), p;

	p = vec_fma(vec_splat(CHOOSE_EXP_3), m, vec_splat(CHOOSE_EXP_2));
	p = vec_fma(p, m, vec_splat(CHOOSE_EXP_1));
	p = vec_fma(p, m, vec_splat(CHOOSE_EXP_0));
	return vec_fma((vec)i, p, sum);
}

INLINE vec log_above(vec x)
{
	vec_int bits = (vec_int)x;
	vec t = (vec)((bits & 0x7fffff) | 0x3f800000) - 1.0f, r;

	r = vec_fma(vec_splat(CHOOSE_LOG_3), t, vec_splat(CHOOSE_LOG_2));
	r = vec_fma(r, t, vec_splat(CHOOSE_LOG_1));
	r = vec_fma(r, t, vec_splat(CHOOSE_LOG_0));
	r = vec_fma(t * (1.0f - t), r, t);
	return (r + vec_of_int((bits >> 23) - 127)) * CHOOSE_LN2;
}

static float sum_exp(const float *s, int32_t n, float max, float mult)
{
	vec a = vec_splat(mult * CHOOSE_LOG2E), l[16 / LANES];
	float lane[16];

	UNROLL for (int k = 0; k < 16 / LANES; k++) l[k] = vec_zero();
	for (int32_t i = 0; i < n; i += 16)
		UNROLL for (int k = 0; k < 16 / LANES; k++) l[k] = add_exp(l[k], vec_load(s + i + LANES * k) - max, a);
	UNROLL for (int k = 0; k < 16 / LANES; k++) vec_store(lane + LANES * k, l[k]);
	return fold16(lane);
}

static void exps(float *out, const float *s, int32_t n, float max)
{
	const vec a = vec_splat(CHOOSE_LOG2E);
	int32_t i = 0;

	for (; i < n; i += LANES)
		vec_store(out + i, vec_select(mask_first(n - i),
		                              add_exp(vec_zero(), vec_load_part(s + i, n - i) - max, a), vec_zero()));
	for (; i % SAMPLE_BLOCK; i += LANES)
		vec_store(out + i, vec_zero());
}

static void block_sums(float *out, const float *x, int32_t blocks)
{
	const vec8 one = vec8_splat(1);
	int32_t b = 0;

	for (; b + 8 <= blocks; b += 8, x += 8 * SAMPLE_BLOCK) {
		vec8 s[8];

		UNROLL for (int i = 0; i < 8; i++) s[i] =
			vec8_fma(vec8_load(x + SAMPLE_BLOCK * i), one, vec8_load(x + SAMPLE_BLOCK * i + 8));
		UNROLL for (int i = 0; i < 8; i += 2) s[i] = vec8_add2(s[i], s[i + 1]);
		vec8_store(out + b, vec8_add8(vec8_add4(s[0], s[2]), vec8_add4(s[4], s[6])));
	}
	for (; b < blocks; b++, x += SAMPLE_BLOCK)
		out[b] = sum_of_block(x);
}

INLINE vec head_score(const float *s, const float *mult, const float *lse, int32_t r)
{
	return vec_fms(vec_load(s), vec_splat(mult[r]), vec_splat(lse[r]));
}

static void reduce(float *out, const float *s, size_t ld, const float *mult, const float *lse, int32_t n_q, int32_t n,
                   enum reduce how)
{
	vec share = vec_splat(logf((float)n_q)), log2e = vec_splat(CHOOSE_LOG2E);

	for (int32_t i = 0; i < n; i += LANES, s += LANES) {
		vec top = head_score(s, mult, lse, 0);

		for (int32_t r = 1; r < n_q; r++)
			top = vec_max(head_score(s + (size_t)r * ld, mult, lse, r), top);
		if (how == REDUCE_MEAN) {
			vec sum = vec_zero();

			for (int32_t r = 0; r < n_q; r++)
				sum = add_exp(sum, head_score(s + (size_t)r * ld, mult, lse, r) - top, log2e);
			top = top + (log_above(sum) - share);
		}
		vec_store_part(out + i, n - i, top);
	}
}

/* ---- the k highest scores ---- */

static void pool(float *out, const float *x, int32_t n, int32_t half, float *tmp)
{
	const vec least = vec_splat(-INFINITY);
	int32_t w = 1, len = n + 2 * half;

	/* The loops below load and store whole vectors, so they access up to 16 values after the end of tmp[]. */
	for (int32_t i = 0; i < half; i++)
		tmp[i] = -INFINITY;
	for (int32_t i = half + n; i < len + 16; i++)
		tmp[i] = -INFINITY;
	/* With this order of arguments, the maximum of NaN and -inf is -inf. */
	for (int32_t i = 0; i < n; i += LANES)
		vec_store_part(tmp + half + i, n - i, vec_max(vec_load_part(x + i, n - i), least));
	/* Each step doubles the window w: tmp[i] is the maximum of w values from value i on. The result combines two
	 * overlapping windows. */
	for (; 2 * w <= 2 * half + 1; w *= 2)
		for (int32_t i = 0; i < len - w; i += LANES)
			vec_store(tmp + i, vec_max(vec_load(tmp + i), vec_load(tmp + i + w)));
	for (int32_t i = 0; i < n; i += LANES)
		vec_store(out + i, vec_max(vec_load(tmp + i), vec_load(tmp + i + 2 * half + 1 - w)));
}

static int32_t pick(int32_t *row, float *value, float *top, const float *x, int32_t i0, int32_t i1, float least)
{
	const vec none = vec_splat(-INFINITY), t = vec_splat(least);
	vec_int at = i0 + LANE_NUMBERS;
	vec most = none, v;
	int32_t n = 0, i = i0;

	/* With this order of arguments, the maximum of NaN and -inf is -inf. */
	for (; i + LANES <= i1; i += LANES, at += LANES) {
		v = vec_max(vec_load(x + i), none);
		most = vec_max(most, v);
		n += mask_pick(row + n, value + n, at, v, vec_at_least(v, t));
	}
	if (i < i1) {
		vec_mask seen = mask_first(i1 - i);

		v = vec_max(vec_load_or(none, x + i, i1 - i), none);
		most = vec_max(most, v);
		n += mask_pick(row + n, value + n, at, v, vec_at_least(v, t) & seen);
	}
	*top = vec_largest(most);
	return n;
}

static int32_t count(const float *x, int32_t n, float least)
{
	const vec t = vec_splat(least);
	vec_int c0 = vec_int_splat(0), c1 = c0;
	int32_t i = 0;

	for (; i + 2 * LANES <= n; i += 2 * LANES) {
		c0 = mask_count(c0, vec_at_least(vec_load(x + i), t));
		c1 = mask_count(c1, vec_at_least(vec_load(x + i + LANES), t));
	}
	for (; i < n; i += LANES)
		c0 = mask_count(c0, vec_at_least(vec_load_part(x + i, n - i), t) & mask_first(n - i));
	return vec_int_sum(c0 + c1);
}

static int32_t keep(int32_t *out, const int32_t *row, const float *value, int32_t n, float least)
{
	const vec t = vec_splat(least);
	int32_t c = 0;

	for (int32_t i = 0; i < n; i += LANES)
		c += mask_keep(out + c, row + i, vec_at_least(vec_load_part(value + i, n - i), t) & mask_first(n - i));
	return c;
}

/* ---- blocks that a prompt's query reads ---- */

/* Compute scores, as exponents of 2, from nc * LANES columns of b->moments, from column c on. A column describes a
 * block of keys or a single key. Store the score of the block's farthest key, or of the single key, to b->key. Store
 * the mean score of the block's other keys to b->weight, and half the variance of their scores to b->variance. */
INLINE void columns_of(int nc, const struct block_query *b, size_t c)
{
	const size_t plane = (size_t)b->dim * b->ld;
	const float *mean = b->moments + c, unit = b->scale * 1.44269504f, half = b->scale / 2;
	vec sum[4], squares[4], key[4];

	UNROLL for (int i = 0; i < nc; i++) sum[i] = squares[i] = key[i] = vec_zero();
	ROLLED for (int32_t d = 0; d < b->dim; d++, mean += b->ld)
	{
		const float x = b->q[d] * unit;
		const vec one = vec_splat(x), two = vec_splat(x * b->q[d] * half);

		UNROLL for (int i = 0; i < nc; i++)
		{
			sum[i] = vec_fma(one, vec_load(mean + LANES * i), sum[i]);
			squares[i] = vec_fma(two, vec_load(mean + plane + LANES * i), squares[i]);
			key[i] = vec_fma(one, vec_load(mean + 2 * plane + LANES * i), key[i]);
		}
	}
	UNROLL for (int i = 0; i < nc; i++)
	{
		vec_store(b->weight + c + LANES * i, sum[i]);
		vec_store(b->variance + c + LANES * i, squares[i]);
		vec_store(b->key + c + LANES * i, key[i]);
	}
}

/* Return the sum of those weights among the first n that are at least `least`. */
static float weights_above(const float *w, size_t n, float least)
{
	const vec t = vec_splat(least);
	vec sum = vec_zero();

	for (size_t c = 0; c < n; c += LANES) {
		vec x = vec_load(w + c);

		sum += vec_select(vec_at_least(x, t), x, vec_zero());
	}
	return vec_sum(sum);
}

static void block_query(const struct block_query *b)
{
	const int32_t end = READ_FIRST + b->own;
	const size_t n = lanes_round(end);
	float *w = b->weight, rest, least;
	vec most = vec_splat(-INFINITY), sum = vec_zero(), top;
	int32_t low = -1, high = BLOCK_LEVELS;
	size_t c = 0;

	for (; c + 4 * LANES <= n; c += 4 * LANES)
		columns_of(4, b, c);
	for (; c < n; c += LANES)
		columns_of(1, b, c);
	for (c = 0; c < n; c++) {
		float x = b->variance[c], root = 2 * sqrtf(b->logs[c] * x);

		w[c] += x < b->logs[c] ? b->logs[c] + x : root;
	}
	for (c = 0; c < READ_FIRST; c++)
		w[c] = -INFINITY;
	for (c = (size_t)end; c < n; c++)
		w[c] = b->key[c] = -INFINITY;
	for (c = 0; c < n; c += LANES)
		most = vec_max(vec_load(w + c), vec_max(vec_load(b->key + c), most));
	top = vec_splat(vec_largest(most));
	for (c = 0; c < n; c += LANES) {
		vec x = vec_exp2(vec_load(w + c) - top) + vec_exp2(vec_load(b->key + c) - top);

		vec_store(w + c, x);
		sum += x;
	}
	/* The columns from 0 to READ_FIRST and column end - 1 are always selected. `rest` is the weight that further
	 * selected columns must add to reach the share b->share of the total weight. */
	rest = b->share * vec_sum(sum) - w[end - 1];
	for (c = 0; c <= READ_FIRST; c++) {
		rest -= w[c];
		w[c] = 0;
	}
	w[end - 1] = 0;
	/* Invariant: the columns of the levels from 0 to `high` together have enough weight; the columns of the levels
	 * from 0 to `low` have too little. If even the last level gives too little weight, or a sum is NaN, all blocks
	 * are read. */
	while (high - low > 1) {
		int32_t mid = (low + high) / 2;

		if (weights_above(w, n, block_level(mid)) >= rest)
			high = mid;
		else
			low = mid;
	}
	least = rest <= 0 ? INFINITY : block_level(high);
	for (int32_t i = 0; i <= b->own; i++)
		if (!i || i >= b->own - 1 || high == BLOCK_LEVELS || w[READ_FIRST + i] >= least)
			b->out[i / 8] |= (uint8_t)(1 << i % 8);
}

static const struct select_fns select_fns = {
	.row_to_f32 = row_to_f32,
	.panel = panel_keys,
#ifdef LOOKS_UP
	.looks_up = 1,
#endif
	.scan_sketch = scan_sketch,
	.scan_rows = scan_rows,
	.sum_exp = sum_exp,
	.exps = exps,
	.block_sums = block_sums,
	.reduce = reduce,
	.block_query = block_query,
	.pool = pool,
	.pick = pick,
	.count = count,
	.keep = keep,
};
#endif

#endif
