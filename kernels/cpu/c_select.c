/* kernels/cpu/c_select.c - the selection of slots in plain C (fns.h: level "c"). Operations on key sketches take the
 * same steps as the SIMD code, with sums in sixteen lanes. Scores that are computed from keys in full precision, and
 * weights of blocks, are summed in double. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/select.h"
#include "kernels/cpu/panel.h"
#include "kernels/common/quant.h"

static void c_row_to_f32(enum dtype type, float *out, const void *in, int32_t n)
{
	dtype_to_f32(type, out, in, n);
}

/* Return the dot product of n values of one key with the query's bytes q. `unit` is the unit of the panel with the
 * first of these values. `lane` is the key's index in the panel. */
static int32_t dot_group(const uint8_t *unit, int32_t lane, int32_t n, int32_t bits, const int8_t *q)
{
	int32_t quads = 8 / bits, mask = (1 << bits) - 1, dot = 0;

	for (int32_t u = 0; u < sketch_units(n, bits); u++, unit += 64)
		for (int32_t s = 0; s < quads; s++, q += 4)
			for (int j = 0; j < 4; j++)
				dot += (unit[4 * lane + j] >> (s * bits) & mask) * q[j];
	return dot;
}

static void find_max(const struct scan_tile *t)
{
	for (int32_t r = 0; r < t->n_q; r++) {
		const float *s = t->score + (size_t)r * t->ld;
		float m = -INFINITY;

		for (int32_t k = t->k0; k < t->k1; k++)
			m = MAX(s[k], m);
		t->max[r] = m;
	}
}

/* Return the score of a block's mean key, summed in the same order as in the SIMD code. */
static float mean_score(const float *q, const float *mean, int32_t dim, float unit)
{
	float lane[16] = { 0 };

	for (int32_t i = 0; i < dim; i++)
		lane[i % 16] = fmaf(q[i], mean[i], lane[i % 16]);
	return fold16(lane) * unit;
}

static void c_scan_sketch(const struct scan_tile *t)
{
	int32_t groups = sketch_groups(t->dim), whole = sketch_units(SKETCH_GROUP, t->bits);
	size_t block_bytes = sketch_block_bytes(t->dim, t->bits), width = ((size_t)t->dim + 15) & ~(size_t)15;

	for (int32_t r = 0; r < t->n_q; r++) {
		float base = 0;

		for (int32_t k = t->k0; k < t->k1; k++) {
			const uint8_t *block = (const uint8_t *)t->keys + (size_t)(k / SKETCH_BLOCK) * block_bytes;
			int32_t in = k % SKETCH_BLOCK, lane = in % SKETCH_PANEL;
			const uint8_t *unit = block + sketch_head_bytes(t->dim) +
			                      (size_t)(in / SKETCH_PANEL) * sketch_panel_bytes(t->dim, t->bits);
			uint16_t scale;
			float s;

			if (in == 0)
				base = mean_score(t->q + (size_t)r * width, (const float *)(const void *)block, t->dim,
				                  t->unit[r]);
			memcpy(&scale, block + sketch_mean_bytes(t->dim) + 2 * in, 2);
			s = base;
			for (int32_t g = 0; g < groups; g++, unit += 64 * whole) {
				size_t q = ((size_t)r * (size_t)groups + (size_t)g) * SKETCH_GROUP;
				int32_t n = sketch_values(t->dim, g),
					dot = dot_group(unit, lane, n, t->bits, t->hi + q);

				if (t->lo)
					dot = dot * 256 + dot_group(unit, lane, n, t->bits, t->lo + q);
				s = fmaf(f16_to_f32(scale), (float)(2 * dot - t->sum[r * groups + g]), s);
			}
			t->score[(size_t)r * t->ld + (size_t)k] = s;
		}
	}
	find_max(t);
}

enum { ROW_QUERIES = 8 };

static void c_scan_rows(const struct scan_tile *t)
{
	size_t row_bytes = (size_t)dtype_bytes(t->type, (uint64_t)t->dim), stride = ((size_t)t->dim + 15) & ~(size_t)15;
	float x[32];

	for (int32_t k = t->k0; k < t->k1; k++)
		for (int32_t r0 = 0; r0 < t->n_q; r0 += ROW_QUERIES) {
			const uint8_t *row = (const uint8_t *)t->keys + (size_t)k * row_bytes;
			int32_t n_q = t->n_q - r0 < ROW_QUERIES ? t->n_q - r0 : ROW_QUERIES;
			double s[ROW_QUERIES] = { 0 };

			/* convert 32 values at a time, a multiple of the block size of every plane type */
			for (int32_t j = 0; j < t->dim; j += 32) {
				int32_t n = t->dim - j < 32 ? t->dim - j : 32;

				dtype_to_f32(t->type, x, row + dtype_bytes(t->type, (uint64_t)j), n);
				for (int32_t r = 0; r < n_q; r++) {
					const float *q = t->q + (size_t)(r0 + r) * stride + j;

					for (int32_t i = 0; i < n; i++)
						s[r] += (double)q[i] * x[i];
				}
			}
			for (int32_t r = 0; r < n_q; r++)
				t->score[(size_t)(r0 + r) * t->ld + (size_t)k] = (float)s[r];
		}
	find_max(t);
}

/* Return sum + exp(f * x), for f * x <= 0. `mult` is CHOOSE_LOG2E * f. (Method: select.h.) */
static float add_exp(float sum, float x, float mult)
{
	float y = fmaf(x, mult, CHOOSE_ONE), e, m;
	int32_t i = y > 0 ? (int32_t)y : 0, mantissa = (i & 0x7fffff) | 0x3f800000;

	memcpy(&e, &i, 4);
	memcpy(&m, &mantissa, 4);
	return fmaf(e, fmaf(fmaf(fmaf(CHOOSE_EXP_3, m, CHOOSE_EXP_2), m, CHOOSE_EXP_1), m, CHOOSE_EXP_0), sum);
}

/* Return log(x), for 1 <= x < 2^20. (Method: select.h.) */
static float log_above(float x)
{
	int32_t bits, e;
	float t, r;

	memcpy(&bits, &x, 4);
	e = (bits >> 23) - 127;
	bits = (bits & 0x7fffff) | 0x3f800000;
	memcpy(&t, &bits, 4);
	t -= 1.0f;
	r = fmaf(fmaf(fmaf(CHOOSE_LOG_3, t, CHOOSE_LOG_2), t, CHOOSE_LOG_1), t, CHOOSE_LOG_0);
	r = fmaf(t * (1.0f - t), r, t);
	return (r + (float)e) * CHOOSE_LN2;
}

static float c_sum_exp(const float *s, int32_t n, float max, float mult)
{
	float lane[16] = { 0 };

	mult *= CHOOSE_LOG2E;
	for (int32_t i = 0; i < n; i++)
		lane[i % 16] = add_exp(lane[i % 16], s[i] - max, mult);
	return fold16(lane);
}

static void c_exps(float *out, const float *s, int32_t n, float max)
{
	int32_t i = 0;

	for (; i < n; i++)
		out[i] = add_exp(0, s[i] - max, CHOOSE_LOG2E);
	for (; i % SAMPLE_BLOCK; i++)
		out[i] = 0;
}

static void c_block_sums(float *out, const float *x, int32_t blocks)
{
	for (int32_t b = 0; b < blocks; b++)
		out[b] = sum_of_block(x + b * SAMPLE_BLOCK);
}

static void c_reduce(float *out, const float *s, size_t ld, const float *mult, const float *lse, int32_t n_q, int32_t n,
                     enum reduce how)
{
	float share = logf((float)n_q);

	for (int32_t i = 0; i < n; i++) {
		float top = fmaf(s[i], mult[0], -lse[0]), sum = 0;

		for (int32_t r = 1; r < n_q; r++) {
			float y = fmaf(s[(size_t)r * ld + (size_t)i], mult[r], -lse[r]);

			top = MAX(y, top);
		}
		if (how == REDUCE_MEAN) {
			for (int32_t r = 0; r < n_q; r++) {
				float y = fmaf(s[(size_t)r * ld + (size_t)i], mult[r], -lse[r]);

				sum = add_exp(sum, y - top, CHOOSE_LOG2E);
			}
			top += log_above(sum) - share;
		}
		out[i] = top;
	}
}

/* ---- the k highest scores ---- */

static void c_pool(float *out, const float *x, int32_t n, int32_t half, float *tmp)
{
	int32_t w = 1, len = n + 2 * half;

	/* Compute the maximum over a sliding window: tmp[i] is the maximum of the w values from x[i - half] on. The
	 * width w doubles in each step. The output is then the maximum of two overlapping windows. */
	for (int32_t i = 0; i < len; i++)
		tmp[i] = -INFINITY;
	for (int32_t i = 0; i < n; i++)
		tmp[i + half] = x[i] > -INFINITY ? x[i] : -INFINITY;
	for (; 2 * w <= 2 * half + 1; w *= 2)
		for (int32_t i = 0; i + w < len; i++)
			tmp[i] = tmp[i + w] > tmp[i] ? tmp[i + w] : tmp[i];
	for (int32_t i = 0; i < n; i++) {
		float a = tmp[i], b = tmp[i + 2 * half + 1 - w];

		out[i] = MAX(a, b);
	}
}

static int32_t c_pick(int32_t *row, float *value, float *top, const float *x, int32_t i0, int32_t i1, float least)
{
	int32_t n = 0;

	*top = -INFINITY;
	for (int32_t i = i0; i < i1; i++) {
		float v = x[i] > -INFINITY ? x[i] : -INFINITY;

		*top = v > *top ? v : *top;
		row[n] = i;
		value[n] = v;
		n += v >= least;
	}
	return n;
}

static int32_t c_count(const float *x, int32_t n, float t)
{
	int32_t c = 0;

	for (int32_t i = 0; i < n; i++)
		c += x[i] >= t;
	return c;
}

static int32_t c_keep(int32_t *out, const int32_t *row, const float *value, int32_t n, float t)
{
	int32_t c = 0;

	for (int32_t i = 0; i < n; i++)
		if (value[i] >= t)
			out[c++] = row[i];
	return c;
}

static void c_block_query(const struct block_query *b)
{
	int32_t end = READ_FIRST + b->own, level = 0;
	double top = -INFINITY, all = 0, read = 0;
	float *w = b->weight;

	for (int32_t c = 0; c < end; c++) {
		double mean = 0, variance = 0, key = 0;

		for (int32_t d = 0; d < b->dim; d++) {
			const float *column = b->moments + (size_t)d * b->ld + (size_t)c;
			double x = (double)b->q[d] * b->scale;

			mean += x * column[0];
			variance += x * x * column[(size_t)b->dim * b->ld];
			key += x * column[2 * (size_t)b->dim * b->ld];
		}
		variance *= 1.4426950408889634 / 2;
		mean = mean * 1.4426950408889634 +
		       (variance < b->logs[c] ? b->logs[c] + variance : 2 * sqrt(b->logs[c] * variance));
		w[c] = c < READ_FIRST ? -INFINITY : (float)mean;
		b->key[c] = (float)(key * 1.4426950408889634);
		top = fmax(top, fmax(w[c], b->key[c]));
	}
	for (int32_t c = 0; c < end; c++) {
		w[c] = (float)(exp2(w[c] - top) + exp2(b->key[c] - top));
		all += w[c];
	}
	/* Go to lower thresholds, level by level (block_level()), until the blocks above the threshold have the wanted
	 * share of the weight. If level is BLOCK_LEVELS, no threshold is low enough, or a sum is NaN; then all blocks
	 * are read. */
	for (; level < BLOCK_LEVELS; level++) {
		read = 0;
		for (int32_t c = 0; c < end; c++)
			if (c <= READ_FIRST || c == end - 1 || w[c] >= block_level(level))
				read += w[c];
		if (read >= b->share * all)
			break;
	}
	for (int32_t i = 0; i <= b->own; i++)
		if (!i || i >= b->own - 1 || level == BLOCK_LEVELS || w[READ_FIRST + i] >= block_level(level))
			b->out[i / 8] |= (uint8_t)(1 << i % 8);
}

const struct select_fns select_fns_c = {
	.row_to_f32 = c_row_to_f32,
	.panel = panel_keys,
	.scan_sketch = c_scan_sketch,
	.scan_rows = c_scan_rows,
	.sum_exp = c_sum_exp,
	.exps = c_exps,
	.block_sums = c_block_sums,
	.reduce = c_reduce,
	.block_query = c_block_query,
	.pool = c_pool,
	.pick = c_pick,
	.count = c_count,
	.keep = c_keep,
};
