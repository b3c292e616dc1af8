/* engine/timeline/packed.c - packs fixed entries (KV entries that have not moved) into 4 bits a value, and unpacks them
 * (engine_snapshot.h). Unpacked entries are not bit-equal to what they were, but answers rarely differ.
 *
 * The keys, or the values, of n tokens in one KV head are an array [n][dim]. It is packed by itself. First come the
 * rows that stay exact, then the means of the columns of all other rows (f16 [dim]). Then, for each LANES rows and each
 * GROUP columns: a scale for each row (u8 [LANES], bits 7 to 14 of a positive f16) and the codes of two columns a byte
 * ([GROUP / 2][LANES]; column i in the low bits, column i + GROUP / 2 in the high bits). What is coded are the rows minus
 * the means, rotated by a Hadamard transform, which spreads large values over all columns. A code from 0 to 15 stands
 * for level_of() times the scale.
 *
 * The scale of rows of bytes 0xff, entries that a sliding-window layer has dropped, is 0xff.
 *
 * Loops run over LANES rows at once, because compilers turn such loops into vector instructions. */
#include "engine/engine_snapshot.h"

#include <string.h>

enum { LANES = 16, GROUP = 32, DIM_MOST = 512, MISSING = 0xffff, SCALE_MISSING = 0xff };

typedef float lanes[LANES];

/* Convert f16 to f32. x must be finite. */
static float half_to_float(uint16_t h)
{
	uint32_t bits = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
	float f;

	memcpy(&f, &bits, sizeof f);
	f *= 0x1p112f;
	memcpy(&bits, &f, sizeof bits);
	bits |= sign;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* Convert f32 to the nearest f16. Values beyond the largest f16 become that. */
static uint16_t half_from_float(float x)
{
	uint32_t bits, sign, small, odd;
	float a = x < 0 ? -x : x, tiny;

	memcpy(&bits, &x, sizeof bits);
	sign = bits >> 16 & 0x8000;
	a = a < 65504.0f ? a : 65504.0f;
	tiny = a + 0.5f;
	memcpy(&small, &tiny, sizeof small);
	memcpy(&bits, &a, sizeof bits);
	odd = bits >> 13 & 1;
	bits = (bits + 0xfff + odd - 0x38000000u) >> 13;
	small -= 0x3f000000u;
	return (uint16_t)(sign | (a < 0x1p-14f ? small : bits));
}

/* Rotate the columns of LANES rows: a normalised Hadamard transform of each `size` columns. It is its own inverse. */
static void rotate(lanes *x, int32_t dim, int32_t size)
{
	float norm = 1;

	for (int32_t half = 1; half < size; half *= 2) {
		for (int32_t i = 0; i < dim; i += 2 * half)
			for (int32_t j = i; j < i + half; j++)
				for (int k = 0; k < LANES; k++) {
					float a = x[j][k], b = x[j + half][k];

					x[j][k] = a + b;
					x[j + half][k] = a - b;
				}
		norm *= 0.5f;
	}
	norm = __builtin_sqrtf(norm);
	for (int32_t j = 0; j < dim; j++)
		for (int k = 0; k < LANES; k++)
			x[j][k] *= norm;
}

static int row_missing(const uint16_t *row, int32_t dim)
{
	for (int32_t i = 0; i < dim; i++)
		if (row[i] != MISSING)
			return 0;
	return 1;
}

static int row_finite(const uint16_t *row, int32_t dim)
{
	int bad = 0;

	for (int32_t i = 0; i < dim; i++)
		bad |= (row[i] & 0x7c00) == 0x7c00;
	return !bad;
}
static float scale_value(uint8_t code)
{
	return half_to_float((uint16_t)(code << 7));
}

/* Return the code of the least scale that is at least x. */
static uint8_t scale_above(float x)
{
	int32_t code = half_from_float(x) >> 7;

	code += scale_value((uint8_t)code) < x;
	return (uint8_t)MIN(code, 0xf7);
}

/* The level of a code from 0 to 15, in scales: u + CURVE u^3 with u = code - 7.5. Levels are closer to each other near 0,
 * where most values are. CURVE suits normally distributed values of which the largest of GROUP is the last level. */
#define CURVE     0.00617f
#define LEVEL_TOP (7.5f * (1 + CURVE * 7.5f * 7.5f))

static inline float level_of(int32_t code)
{
	float u = (float)code - 7.5f;

	return u * (1 + CURVE * u * u);
}

/* Return the code of x. inverse: 1 / scale. The polynomial is the inverse of level_of(), to 0.03 codes. */
static inline int32_t code_of(float x, float inverse)
{
	float y = x * inverse, t = y * y;
	int32_t q = (int32_t)(y * (1 - t * (0.004733f - 2.166e-5f * t)) + 8.0f);

	q = q > 0 ? q : 0;
	return q < 15 ? q : 15;
}

/* Set sum[] to the sums of the squared errors of GROUP columns. */
static void errors_of(lanes *restrict x, const float *restrict scale, const float *restrict inverse,
                      float *restrict sum)
{
	for (int k = 0; k < LANES; k++)
		sum[k] = 0;
	for (int i = 0; i < GROUP; i++)
		for (int k = 0; k < LANES; k++) {
			float e = level_of(code_of(x[i][k], inverse[k])) * scale[k] - x[i][k];

			sum[k] += e * e;
		}
}

/* Choose the scale of each row: the least one by which no value is cut off, or one of the two below it, if its squared
 * error is less. */
static void choose_scales(lanes *x, uint8_t *code)
{
	float top[LANES] = { 0 }, best[LANES];
	uint8_t most[LANES];

	for (int i = 0; i < GROUP; i++)
		for (int k = 0; k < LANES; k++) {
			float a = x[i][k] < 0 ? -x[i][k] : x[i][k];

			top[k] = a > top[k] ? a : top[k];
		}
	for (int k = 0; k < LANES; k++)
		most[k] = scale_above(top[k] / LEVEL_TOP);
	for (int lower = 0; lower < 3; lower++) {
		float inverse[LANES], scale[LANES], sum[LANES];

		for (int k = 0; k < LANES; k++) {
			scale[k] = scale_value((uint8_t)(MAX(most[k], lower) - lower));
			inverse[k] = scale[k] > 0 ? 1 / scale[k] : 0;
		}
		errors_of(x, scale, inverse, sum);
		for (int k = 0; k < LANES; k++)
			if (!lower || sum[k] < best[k]) {
				best[k] = sum[k];
				code[k] = (uint8_t)(MAX(most[k], lower) - lower);
			}
	}
}

static uint8_t *code_group(lanes *restrict x, const uint8_t *restrict missing, uint8_t *restrict out)
{
	float inverse[LANES];

	choose_scales(x, out);
	for (int k = 0; k < LANES; k++) {
		inverse[k] = scale_value(out[k]) > 0 ? 1 / scale_value(out[k]) : 0;
		out[k] = missing[k] ? SCALE_MISSING : out[k];
	}
	out += LANES;
	for (int i = 0; i < GROUP / 2; i++, out += LANES)
		for (int k = 0; k < LANES; k++)
			out[k] =
				(uint8_t)(code_of(x[i][k], inverse[k]) | code_of(x[i + GROUP / 2][k], inverse[k]) << 4);
	return out;
}

static const uint8_t *decode_group(const uint8_t *restrict p, lanes *restrict x, uint8_t *restrict missing)
{
	float scale[LANES];

	for (int k = 0; k < LANES; k++) {
		missing[k] = p[k] == SCALE_MISSING;
		scale[k] = scale_value(p[k]);
	}
	p += LANES;
	for (int i = 0; i < GROUP / 2; i++, p += LANES)
		for (int k = 0; k < LANES; k++) {
			x[i][k] = level_of(p[k] & 15) * scale[k];
			x[i + GROUP / 2][k] = level_of(p[k] >> 4) * scale[k];
		}
	return p;
}

/* Compute the means of the columns, as f16. Missing rows do not count. Returns -1 if a value is not finite. */
static int column_means(const uint16_t *rows, int32_t n, int32_t dim, uint16_t *mean)
{
	float sum[DIM_MOST] = { 0 };
	int32_t count = 0;

	for (int32_t t = 0; t < n; t++, rows += dim) {
		if (row_missing(rows, dim))
			continue;
		if (!row_finite(rows, dim))
			return -1;
		for (int32_t i = 0; i < dim; i++)
			sum[i] += half_to_float(rows[i]);
		count++;
	}
	for (int32_t i = 0; i < dim; i++)
		mean[i] = half_from_float(count ? sum[i] / (float)count : 0);
	return 0;
}

static uint8_t *pack_head(struct entries_packing how, const uint16_t *rows, uint8_t *out)
{
	size_t exact = (size_t)how.exact * (size_t)how.dim;
	int32_t dim = how.dim, n = how.n - how.exact;
	uint16_t mean[DIM_MOST];
	lanes x[DIM_MOST];
	uint8_t missing[LANES];

	memcpy(out, rows, exact * sizeof *rows);
	out += exact * sizeof *rows;
	rows += exact;
	if (column_means(rows, n, dim, mean))
		return NULL;
	memcpy(out, mean, sizeof *mean * (size_t)dim);
	out += sizeof *mean * (size_t)dim;
	for (int32_t t = 0; t < n; t += LANES, rows += LANES * dim) {
		for (int k = 0; k < LANES; k++) {
			missing[k] = (uint8_t)row_missing(rows + k * dim, dim);
			for (int32_t i = 0; i < dim; i++)
				x[i][k] = missing[k] ? 0 : half_to_float(rows[k * dim + i]) - half_to_float(mean[i]);
		}
		rotate(x, dim, dim & -dim);
		for (int32_t i = 0; i < dim; i += GROUP)
			out = code_group(x + i, missing, out);
	}
	return out;
}

static const uint8_t *unpack_head(struct entries_packing how, const uint8_t *p, uint16_t *rows)
{
	size_t exact = (size_t)how.exact * (size_t)how.dim;
	int32_t dim = how.dim, n = how.n - how.exact;
	float mean[DIM_MOST];
	lanes x[DIM_MOST];
	uint8_t missing[LANES];

	memcpy(rows, p, exact * sizeof *rows);
	p += exact * sizeof *rows;
	rows += exact;
	for (int32_t i = 0; i < dim; i++, p += sizeof(uint16_t)) {
		uint16_t h;

		memcpy(&h, p, sizeof h);
		mean[i] = half_to_float(h);
	}
	for (int32_t t = 0; t < n; t += LANES, rows += LANES * dim) {
		for (int32_t i = 0; i < dim; i += GROUP)
			p = decode_group(p, x + i, missing);
		rotate(x, dim, dim & -dim);
		for (int k = 0; k < LANES; k++)
			for (int32_t i = 0; i < dim; i++)
				rows[k * dim + i] = missing[k] ? MISSING : half_from_float(x[i][k] + mean[i]);
	}
	return p;
}

uint64_t entries_packed_bytes(struct entries_packing how, uint64_t bytes)
{
	uint64_t dim = (uint64_t)how.dim, row = dim * sizeof(uint16_t),
		 lanes_bytes = dim / GROUP * (LANES + LANES * GROUP / 2);

	if (how.dim <= 0 || how.dim > DIM_MOST || how.dim % GROUP || how.exact < 0 || how.exact >= how.n ||
	    how.exact % LANES || how.n % LANES || !bytes || bytes % (row * (uint64_t)how.n))
		return 0;
	return bytes / (row * (uint64_t)how.n) *
	       (row * (uint64_t)how.exact + row + (uint64_t)((how.n - how.exact) / LANES) * lanes_bytes);
}

int entries_pack(struct entries_packing how, const void *entries, uint64_t bytes, void *out)
{
	const uint16_t *rows = entries, *end = rows + bytes / sizeof *rows;
	uint8_t *p = out;

	for (; p && rows < end; rows += (size_t)how.n * (size_t)how.dim)
		p = pack_head(how, rows, p);
	return p ? 0 : -1;
}

void entries_unpack(struct entries_packing how, const void *packed, void *entries, uint64_t bytes)
{
	uint16_t *rows = entries, *end = rows + bytes / sizeof *rows;
	const uint8_t *p = packed;

	for (; rows < end; rows += (size_t)how.n * (size_t)how.dim)
		p = unpack_head(how, p, rows);
}
