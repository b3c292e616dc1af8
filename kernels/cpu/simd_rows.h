/* kernels/cpu/simd_rows.h (private to the SIMD code) - leaf functions for rows of activations; compiled once for each
 * instruction set. */
#ifndef WEIR_CPU_SIMD_ROWS_H
#define WEIR_CPU_SIMD_ROWS_H

#include "kernels/cpu/lanes.h"

#ifdef LANES
static int wants_q8(enum dtype type)
{
	return type != DT_F32 && type != DT_F16 && type != DT_BF16;
}

enum { PER_BLOCK = 32 / LANES }; /* number of vectors for a block of 32 values */

/* Return 256 (v - q), the residual of rounding v to q, clamped to a byte. */
INLINE bytes32 low_plane(const vec v[PER_BLOCK], const vec_int q[PER_BLOCK])
{
	vec_int lo[PER_BLOCK];

	UNROLL for (int i = 0; i < PER_BLOCK; i++)
	{
		lo[i] = vec_int_of((v[i] - vec_of_int(q[i])) * 256.0f);
		lo[i] = vec_int_max(vec_int_min(lo[i], vec_int_splat(127)), vec_int_splat(-127));
	}
	return bytes32_of(lo, 1);
}

/* Quantise a row, with the same bits as c_quantize() in c.c. Magnitudes are compared as integers, where infinity and
 * NaN are the largest. A block with infinity or NaN gets the scale NaN and values of zero. */
static void quantize(const struct act *a, int32_t row)
{
	size_t blocks = (size_t)a->cols / 32;

	for (size_t b = (size_t)row * blocks, end = b + blocks; b < end; b++) {
		vec_int tops = vec_int_splat(0), q[PER_BLOCK];
		vec v[PER_BLOCK];
		bytes32 q8, lo8;
		int32_t top, squares;
		float scale, inv;

		UNROLL for (int i = 0; i < PER_BLOCK; i++)
		{
			v[i] = vec_load(a->x + b * 32 + LANES * i);
			tops = vec_int_max(tops, (vec_int)v[i] & 0x7fffffff);
		}
		top = vec_int_largest(tops);
		memcpy(&scale, &top, sizeof scale);
		scale /= 127.0f;
		/* Set a subnormal scale to 0, because 1 / scale would overflow. The values of the block then count as
		 * zeros. */
		if (scale < 1.17549435e-38f)
			scale = 0;
		inv = scale > 0 ? 1.0f / scale : 0;
		UNROLL for (int i = 0; i < PER_BLOCK; i++)
		{
			v[i] = v[i] * inv;
			q[i] = top < 0x7f800000 ? vec_int_of(v[i]) : vec_int_splat(0);
		}
		q8 = bytes32_of(q, 1);
		bytes32_half_sums(a->sum + 2 * b, q8);
		squares = bytes32_sum_of_squares(q8);
		a->d[b] = top < 0x7f800000 ? scale : NAN;
		a->wide[b] = squares > 0 && (a->all_wide || squares < ACT_WIDE_BELOW);
		a->lo_sum[2 * b] = a->lo_sum[2 * b + 1] = 0;
		lo8 = (bytes32){ 0 };
		if (a->wide[b]) {
			lo8 = low_plane(v, q);
			bytes32_half_sums(a->lo_sum + 2 * b, lo8);
		}
		bytes32_store(a->q + b * 32, q8);
		bytes32_store(a->lo + b * 32, lo8);
	}
}

/* The sum of squares is in double, so that it cannot overflow and hardly depends on the order of addition. */
static void rmsnorm(float *out, const float *x, const float *w, int32_t n, float eps)
{
	struct squares s = { { 0 }, { 0 } };
	float scale;

	for (int32_t i = 0; i < n; i += LANES)
		squares_add(&s, vec_load_part(x + i, n - i));
	scale = (float)(1.0 / sqrt(squares_sum(&s) / n + eps));
	for (int32_t i = 0; i < n; i += LANES)
		vec_store_part(out + i, n - i, vec_load_part(x + i, n - i) * scale * vec_load_part(w + i, n - i));
}

/* Compute act(gate) * up. silu(g) = g / (1 + exp(-g)). gelu(g) = g / (1 + exp(-2u)) with u = sqrt(2/pi) (g + 0.044715
 * g^3), because 1 + tanh(u) = 2 / (1 + exp(-2u)). exp() is called only with negative numbers, so it cannot overflow,
 * and results for large negative g underflow gradually. */
static void glu(enum activation act, float *gate, const float *up, int32_t n)
{
	for (int32_t i = 0; i < n; i += LANES) {
		vec g = vec_load_part(gate + i, n - i);
		vec x = g, u = vec_load_part(up + i, n - i);

		if (act == ACT_SILU_CLAMPED) {
			g = vec_min(vec_splat(CLAMP_LIMIT), g);
			u = vec_max(vec_splat(-CLAMP_LIMIT), vec_min(vec_splat(CLAMP_LIMIT), u)) + 1.0f;
			x = g * CLAMP_SLOPE;
		}
		if (act == ACT_GELU)
			x = g * (1.5957691216057308f + 0.07135481282553243f * (g * g));
		vec e = vec_exp((vec)((vec_int)x | vec_int_splat(INT32_MIN)));
		vec s = vec_select(vec_negative(g), g * e, g) / (1.0f + e);

		vec_store_part(gate + i, n - i, s * u);
	}
}

/* First compute `near`, the mean of x up to the rounding error of a float sum. Then compute `rest`, the mean of x -
 * near, which is this error. Subtract both from x. */
static void layernorm(float *out, const float *x, const float *w, const float *b, int32_t n, float eps)
{
	struct squares s = { { 0 }, { 0 } };
	vec sum = vec_splat(0), left = vec_splat(0);
	float near, rest, scale;
	double mean;

	for (int32_t i = 0; i < n; i += LANES)
		sum = sum + vec_load_part(x + i, n - i);
	near = vec_sum(sum) / (float)n;
	for (int32_t i = 0; i < n; i += LANES) {
		vec d = vec_load_or(vec_splat(near), x + i, n - i) - near;

		left = left + d;
		squares_add(&s, d);
	}
	rest = vec_sum(left) / (float)n;
	mean = (double)rest;
	scale = (float)(1.0 / sqrt(squares_sum(&s) / n - mean * mean + eps));
	for (int32_t i = 0; i < n; i += LANES) {
		vec d = vec_load_part(x + i, n - i) - near - rest;

		vec_store_part(out + i, n - i,
		               vec_fma(d * scale, vec_load_part(w + i, n - i), vec_load_part(b + i, n - i)));
	}
}

/* Return erfc(t) for t >= 0. It is u exp(-t^2 + P(u)) with u = 1 / (1 + t / 2) ("erfcc" of Press et al., Numerical
 * Recipes). The relative error is about 1e-6 for t < 3. */
INLINE vec vec_erfc(vec t)
{
	static const float term[] = { -0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f, -0.18628806f,
		                      0.09678418f,  0.37409196f, 1.00002368f,  -1.26551223f };
	vec u = 1.0f / (1.0f + 0.5f * t), p = vec_splat(0.17087277f);

	UNROLL for (int i = 0; i < 9; i++) p = vec_fma(p, u, vec_splat(term[i]));
	return u * vec_exp(p - t * t);
}

/* gelu(x) = x / 2 erfc(-x / sqrt(2)); for negative arguments erfc(-t) = 2 - erfc(t) */
static void gelu(float *x, int32_t n)
{
	for (int32_t i = 0; i < n; i += LANES) {
		vec v = vec_load_part(x + i, n - i);
		vec size = (vec)((vec_int)v & 0x7fffffff);
		vec half = vec_erfc(vec_min(vec_splat(20), size * 0.70710678f)) * 0.5f;

		vec_store_part(x + i, n - i, v * vec_select(vec_negative(v), half, 1.0f - half));
	}
}

/* Update one vector of columns of the state, beginning at column c; if `four` is 1, update four vectors. */
INLINE void delta_columns(const struct delta_tile *t, int32_t c, int four)
{
	enum { FOUR = 4 };
	vec was[FOUR], out[FOUR], decay = vec_splat(t->decay);
	int32_t left = t->cols - c;
	int n = four ? FOUR : 1;

	UNROLL for (int j = 0; j < n; j++) was[j] = out[j] = vec_splat(0);
	for (int32_t i = 0; t->corrects && i < t->key_dim; i++) {
		const float *s = t->state + (size_t)i * t->stride + c;
		vec k = vec_splat(t->k[i]);

		UNROLL for (int j = 0; j < n; j++) was[j] =
			vec_fma(k, decay * (four ? vec_load(s + j * LANES) : vec_load_part(s, left)), was[j]);
	}
	UNROLL for (int j = 0; j < n; j++) was[j] =
		((four ? vec_load(t->v + c + j * LANES) : vec_load_part(t->v + c, left)) - was[j]) * t->beta;
	for (int32_t i = 0; i < t->key_dim; i++) {
		float *s = t->state + (size_t)i * t->stride + c;
		vec k = vec_splat(t->k[i]), q = vec_splat(t->q[i]);

		UNROLL for (int j = 0; j < n; j++)
		{
			vec x = vec_fma(k, was[j], decay * (four ? vec_load(s + j * LANES) : vec_load_part(s, left)));

			if (four)
				vec_store(s + j * LANES, x);
			else
				vec_store_part(s, left, x);
			out[j] = vec_fma(q, x, out[j]);
		}
	}
	UNROLL for (int j = 0; j < n; j++) if (four) vec_store(t->out + c + j * LANES, out[j]);
	else vec_store_part(t->out + c, left, out[j]);
}

static void delta(const struct delta_tile *t)
{
	int32_t c = 0;

	for (; c + 4 * LANES <= t->cols; c += 4 * LANES)
		delta_columns(t, c, 1);
	for (; c < t->cols; c += LANES)
		delta_columns(t, c, 0);
}

/* Rotate the pairs (2 j, 2 j + 1). */
static void rope_adjacent(float *x, const float *table, int32_t dims)
{
	for (int32_t i = 0; i < dims; i += LANES) {
		vec t = vec_load_part(table + i, dims - i);

		vec_store_part(x + i, dims - i, vec_complex_mul(vec_load_part(x + i, dims - i), t));
	}
}

/* Rotate the pairs (j, half + j). */
static void rope_halves(float *x, const float *table, int32_t half)
{
	for (int32_t j = 0; j < half; j += LANES) {
		int32_t n = half - j;
		vec t0 = vec_load_part(table + 2 * j, 2 * n);
		vec t1 = n > LANES / 2 ? vec_load_part(table + 2 * j + LANES, 2 * n - LANES) : t0;
		vec a = vec_load_part(x + j, n), b = vec_load_part(x + half + j, n), c, s;

		vec_split_pairs(t0, t1, &c, &s);
		vec_store_part(x + j, n, vec_fms(a, c, b * s));
		vec_store_part(x + half + j, n, vec_fma(b, c, a * s));
	}
}

static void rope(float *x, const float *table, int32_t heads, int32_t head_dim, int32_t dims, int neox)
{
	for (int32_t h = 0; h < heads; h++, x += head_dim)
		if (neox)
			rope_halves(x, table, dims / 2);
		else
			rope_adjacent(x, table, dims);
}

static void to_f16(uint16_t *out, const float *x, int32_t n)
{
	int32_t i = 0;

	for (; i + LANES <= n; i += LANES)
		vec_store_f16_part(out + i, LANES, vec_load(x + i));
	if (i < n)
		vec_store_f16_part(out + i, n - i, vec_load_part(x + i, n - i));
}

/* Vectors of unsigned 64-bit words. Sums of unsigned words may overflow without undefined behaviour. */
typedef uint64_t words __attribute__((vector_size(4 * LANES)));

static uint64_t read_sum(const void *p, size_t n)
{
	const char *at = p;
	size_t step = 4 * sizeof(words), i = 0;
	words s[4] = { { 0 } };
	uint64_t sum = 0, word;

	for (; i + step <= n; i += step)
		UNROLL for (size_t k = 0; k < 4; k++)
		{
			words w;

			memcpy(&w, at + i + k * sizeof w, sizeof w);
			s[k] += w;
		}
	s[0] = (s[0] + s[1]) + (s[2] + s[3]);
	for (int k = 0; k < LANES / 2; k++)
		sum += s[0][k];
	for (; i + 8 <= n; i += 8) {
		memcpy(&word, at + i, 8);
		sum += word;
	}
	return sum;
}
#endif

#endif
