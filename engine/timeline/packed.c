/* engine/timeline/packed.c - packs fixed entries (KV entries that are still in the slots in which they were computed)
 * into 4 bits a value, and unpacks them (engine_snapshot.h). Unpacked entries are not bit-equal to the original ones,
 * but answers rarely differ.
 *
 * Keys and values are packed separately, in arrays [n][dim] for n tokens of one KV head. The packed form of an array
 * begins with the rows that are not packed. The means of the columns of all other rows follow (f16 [dim]). Then each of
 * these rows has a struct block for each GROUP of columns. To code a row, its means are subtracted, and hadamard()
 * transforms the rest, so that the values are nearly normally distributed. A code from 0 to 15 stands for
 * level_of(code) times the scale of its block.
 *
 * If a sliding-window layer has dropped an entry, all bytes of its row are 0xff. The blocks of such a row have the
 * scale 0xff. */
#include "engine/engine_snapshot.h"

#include <math.h>
#include <string.h>

#include "kernels/backend.h"

enum { GROUP = 16, DIM_MOST = 512, SCALE_MISSING = 0xff };

/* Compilers vectorise the loops of these small functions, but only if the functions are not inlined. */
#define NOINLINE __attribute__((noinline))

struct block {
	uint8_t scale; /* the block's scale: bits 7 to 14 of a positive f16, whose other bits are 0 */
	/* the low 4 bits of code[i] are for column i, the high 4 bits for column i + GROUP / 2 */
	uint8_t code[GROUP / 2];
};

/* Return the value of a scale. If the 8 bits of `scale` are placed at bits 20 to 27 of an f32, the f32 is 2^-112 times
 * the value. So multiply the f32 by 2^112. */
static inline float scale_value(uint8_t scale)
{
	uint32_t bits = (uint32_t)scale << 20;
	float x;

	memcpy(&x, &bits, sizeof x);
	return x * 0x1p112f;
}

/* Return the smallest scale whose value is at least x. */
static inline uint8_t scale_above(float x)
{
	uint32_t bits;

	x *= 0x1p-112f;
	memcpy(&bits, &x, sizeof bits);
	bits = (bits + 0xfffff) >> 20;
	return (uint8_t)MIN(bits, 0xf7);
}

/* The level of a code from 0 to 15, in units of the block's scale, is u + CURVE u^3 with u = code - 7.5. Levels are
 * closer to each other near 0, where most values are. CURVE was chosen for normally distributed values, with the
 * highest level for the largest value of a GROUP. */
#define CURVE     0.00617f
#define LEVEL_TOP (7.5f * (1 + CURVE * 7.5f * 7.5f))

static inline float level_of(int32_t code)
{
	float u = (float)code - 7.5f;

	return u * (1 + CURVE * u * u);
}

/* Compute the codes of GROUP values. The parameter `inverse` is 1 / scale. A polynomial approximates the function that
 * maps a level to its code, with an error of at most 0.03 codes. */
static NOINLINE void codes_of(const float *x, float inverse, int32_t *code)
{
	for (int i = 0; i < GROUP; i++) {
		float y = x[i] * inverse, t = y * y;
		int32_t q = (int32_t)(y * (1 - t * (0.004733f - 2.166e-5f * t)) + 8.0f);

		q = q > 0 ? q : 0;
		code[i] = q < 15 ? q : 15;
	}
}

/* Return the sum of the squared errors that codes and scale make in the values x. */
static NOINLINE float error_of(const float *x, float scale, const int32_t *code)
{
	float e[GROUP];

	for (int i = 0; i < GROUP; i++) {
		e[i] = level_of(code[i]) * scale - x[i];
		e[i] *= e[i];
	}
	for (int i = 0; i < 8; i++)
		e[i] += e[i + 8];
	for (int i = 0; i < 4; i++)
		e[i] += e[i + 4];
	return (e[0] + e[2]) + (e[1] + e[3]);
}

/* Return the smallest scale for which no value of x exceeds the highest level. */
static NOINLINE uint8_t scale_of(const float *x)
{
	float a[GROUP];

	for (int i = 0; i < GROUP; i++)
		a[i] = fabsf(x[i]);
	for (int i = 0; i < 8; i++)
		a[i] = a[i] > a[i + 8] ? a[i] : a[i + 8];
	for (int i = 0; i < 4; i++)
		a[i] = a[i] > a[i + 4] ? a[i] : a[i + 4];
	return scale_above(MAX(MAX(a[0], a[1]), MAX(a[2], a[3])) / LEVEL_TOP);
}

/* Encode GROUP values with the best of three scales: the scale from scale_of() and the two next smaller scales. The
 * best scale gives the smallest squared error. */
static void block_pack(const float *x, struct block *out)
{
	int32_t code[GROUP];
	uint8_t most = scale_of(x);
	float best = -1;

	for (int lower = 0; lower < 3 && lower <= most; lower++) {
		float scale = scale_value((uint8_t)(most - lower)), error;

		codes_of(x, scale > 0 ? 1 / scale : 0, code);
		error = error_of(x, scale, code);
		if (best >= 0 && error >= best)
			continue;
		best = error;
		out->scale = (uint8_t)(most - lower);
		for (int i = 0; i < GROUP / 2; i++)
			out->code[i] = (uint8_t)(code[i] | code[i + GROUP / 2] << 4);
	}
}

static void block_unpack(const struct block *b, float *x)
{
	float scale = scale_value(b->scale);

	for (int i = 0; i < GROUP / 2; i++) {
		x[i] = level_of(b->code[i] & 15) * scale;
		x[i + GROUP / 2] = level_of(b->code[i] >> 4) * scale;
	}
}

/* Return 1 if all values of the row are finite, 0 if the row is missing (all bytes 0xff), and -1 otherwise. */
static int row_kind(const uint16_t *row, int32_t dim)
{
	uint16_t all = 0xffff;
	int special = 0;

	for (int32_t i = 0; i < dim; i++) {
		special |= (row[i] & 0x7c00) == 0x7c00;
		all &= row[i];
	}
	return !special ? 1 : all == 0xffff ? 0 : -1;
}

static void row_pack(const uint16_t *row, const float *mean, int32_t dim, struct block *out)
{
	float x[DIM_MOST];

	if (!row_kind(row, dim)) {
		memset(out, SCALE_MISSING, sizeof *out * (size_t)(dim / GROUP));
		return;
	}
	dtype_to_f32(DT_F16, x, row, dim);
	for (int32_t i = 0; i < dim; i++)
		x[i] -= mean[i];
	hadamard(x, dim);
	for (int32_t i = 0; i < dim; i += GROUP)
		block_pack(x + i, out++);
}

static void row_unpack(const struct block *in, const float *mean, int32_t dim, uint16_t *row)
{
	float x[DIM_MOST];

	if (in->scale == SCALE_MISSING) {
		memset(row, 0xff, sizeof *row * (size_t)dim);
		return;
	}
	for (int32_t i = 0; i < dim; i += GROUP)
		block_unpack(in++, x + i);
	hadamard(x, dim);
	for (int32_t i = 0; i < dim; i++) {
		x[i] += mean[i];
		x[i] = x[i] < 65504 ? x[i] : 65504;
		x[i] = x[i] > -65504 ? x[i] : -65504;
	}
	dtype_from_f32(DT_F16, row, x, dim);
}

/* Compute the means of the columns. Skip rows that are missing. Return -1 if another row has a value that is not
 * finite. */
static int column_means(const uint16_t *row, int32_t n, int32_t dim, uint16_t *mean)
{
	float sum[DIM_MOST] = { 0 }, x[DIM_MOST];
	int32_t count = 0;

	for (; n > 0; n--, row += dim) {
		int kind = row_kind(row, dim);

		if (kind < 0)
			return -1;
		dtype_to_f32(DT_F16, x, row, dim);
		for (int32_t i = 0; i < dim && kind; i++)
			sum[i] += x[i];
		count += kind;
	}
	for (int32_t i = 0; i < dim; i++)
		sum[i] /= (float)MAX(count, 1);
	return dtype_from_f32(DT_F16, mean, sum, dim);
}

uint64_t entries_packed_bytes(struct entries_packing how, uint64_t bytes)
{
	uint64_t dim = (uint64_t)how.dim, row = dim * sizeof(uint16_t), packed = dim / GROUP * sizeof(struct block);

	if (how.dim <= 0 || how.dim > DIM_MOST || how.dim % 32 || how.exact < 0 || how.exact >= how.n || !bytes ||
	    bytes % (row * (uint64_t)how.n))
		return 0;
	return bytes / (row * (uint64_t)how.n) *
	       (row * (uint64_t)(how.exact + 1) + packed * (uint64_t)(how.n - how.exact));
}

int entries_pack(struct entries_packing how, const void *entries, uint64_t bytes, void *out)
{
	const uint16_t *row = entries, *end = row + bytes / sizeof *row;
	size_t dim = (size_t)how.dim, exact = (size_t)how.exact * dim;
	uint8_t *p = out;

	while (row < end) {
		uint16_t half[DIM_MOST];
		float mean[DIM_MOST];

		memcpy(p, row, exact * sizeof *row);
		row += exact;
		p += exact * sizeof *row;
		if (column_means(row, how.n - how.exact, how.dim, half))
			return -1;
		memcpy(p, half, dim * sizeof *half);
		p += dim * sizeof *half;
		dtype_to_f32(DT_F16, mean, half, how.dim);
		for (int32_t t = how.exact; t < how.n; t++, row += dim, p += dim / GROUP * sizeof(struct block))
			row_pack(row, mean, how.dim, (struct block *)p);
	}
	return 0;
}

void entries_unpack(struct entries_packing how, const void *packed, void *entries, uint64_t bytes)
{
	uint16_t *row = entries, *end = row + bytes / sizeof *row;
	size_t dim = (size_t)how.dim, exact = (size_t)how.exact * dim;
	const uint8_t *p = packed;

	while (row < end) {
		uint16_t half[DIM_MOST];
		float mean[DIM_MOST];

		memcpy(row, p, exact * sizeof *row);
		row += exact;
		p += exact * sizeof *row;
		memcpy(half, p, dim * sizeof *half);
		p += dim * sizeof *half;
		dtype_to_f32(DT_F16, mean, half, how.dim);
		for (int32_t t = how.exact; t < how.n; t++, row += dim, p += dim / GROUP * sizeof(struct block))
			row_unpack((const struct block *)p, mean, how.dim, row);
	}
}
