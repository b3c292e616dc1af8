/* kernels/cpu/kv_row.c - converts keys and values to the types of a KV cache, and back.
 *
 * In q4_0 the Hadamard transform of a key or value is stored. It spreads outliers over all values. So the values of a
 * block of 32 have a nearly normal distribution, and four bits represent them with a squared error of 0.64 %. */
#include <math.h>
#include <string.h>

#include "kernels/common/quant.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/select.h"

/* ---- q4_0 ---- */

/* A vector of four floats. The loops are written with this type, because compilers do not vectorise loops that are so
 * short. */
typedef float float4 __attribute__((vector_size(16)));
typedef int32_t int4 __attribute__((vector_size(16)));

/* a block of 32 values x[], stored as a scale and codes from -8 to 7: a value is about scale * code */
struct block4 {
	float4 x[8], code[8];
	float scale;
};

static float4 four(float x)
{
	return (float4){ x, x, x, x };
}

static float4 pick(int4 mask, float4 yes, float4 no)
{
	return (float4)(((int4)yes & mask) | ((int4)no & ~mask));
}

static float sum_of(float4 x)
{
	return (x[0] + x[2]) + (x[1] + x[3]);
}

/* Compute the codes for the scale 1 / inv. Then compute the scale with the smallest squared error for these codes.
 * Return the squared error of a block of zeros minus the squared error of this scale and these codes. */
static float codes_fit(struct block4 *b, float inv)
{
	/* 1.5 * 2^23: adding this number and subtracting it again rounds to the nearest integer */
	const float4 round = four(12582912.0f), least = four(-8), most = four(7);
	float4 products = four(0), squares = four(0);

	for (int i = 0; i < 8; i++) {
		float4 c = (b->x[i] * inv + round) - round;

		c = pick(c < most, c, most);
		c = pick(c > least, c, least);
		b->code[i] = c;
		products += b->x[i] * c;
		squares += c * c;
	}
	b->scale = sum_of(products) / sum_of(squares);
	return sum_of(products) * b->scale;
}

static void codes_store(struct block_q4_0 *out, const struct block4 *b)
{
	out->d = f32_to_f16(b->scale);
	for (int i = 0; i < 16; i++)
		out->qs[i] = (uint8_t)((int)b->code[i / 4][i % 4] + 8) |
		             (uint8_t)(((int)b->code[4 + i / 4][i % 4] + 8) << 4);
}

/* Write 32 finite values x as a block of q4_0. Try a few scales, and use the one with the smallest squared error. */
static void block_q4_0(struct block_q4_0 *out, const float *x)
{
	/* The scales that are tried. With the scale top / largest[i], the value of largest magnitude (`top`) gets the
	 * code largest[i]. Then all codes are limited to the range from -8 to 7. */
	static const float largest[] = { -7.2f, -7.8f, -8.4f, -9.0f };
	struct block4 b, best;
	float top = 0, most = 0;

	for (int i = 0; i < 32; i++)
		top = fabsf(x[i]) > fabsf(top) ? x[i] : top;
	memset(out, 0x88, sizeof *out);
	out->d = 0;
	/* The smallest scale in f16 is 6e-8, so a block of values up to 1e-7 becomes zeros. */
	if (!(fabsf(top) > 1e-7f))
		return;
	memcpy(b.x, x, sizeof b.x);
	for (size_t i = 0; i < LEN(largest); i++) {
		float fit = codes_fit(&b, largest[i] / top);

		if (fit > most) {
			most = fit;
			best = b;
		}
	}
	if (most > 0)
		codes_store(out, &best);
}

/* ---- rows ---- */

/* 1 if all 32 values are finite and within the range of f16. */
static int block_fits(const float *x)
{
	int fits = 1;

	for (int i = 0; i < 32; i++)
		fits &= fabsf(x[i]) <= 65504.0f;
	return fits;
}

/* Convert n values to blocks of q8_0 or q4_0; both types begin a block with its scale. */
static void blocks(enum dtype type, uint8_t *out, const float *x, int32_t n)
{
	const size_t bytes = (size_t)dtype_info(type)->block_bytes;
	const uint16_t nan = 0x7e00;

	for (; n > 0; n -= 32, x += 32, out += bytes) {
		if (!block_fits(x)) {
			memset(out, 0, bytes);
			memcpy(out, &nan, sizeof nan);
		} else if (type == DT_Q4_0) {
			block_q4_0((struct block_q4_0 *)(void *)out, x);
		} else {
			dtype_from_f32(type, out, x, 32);
		}
	}
}

void cpu_kv_row(const struct cpu_fns *f, enum dtype type, void *out, const float *x, int32_t n, float *work)
{
	if (kv_transformed(type)) {
		if (work != x)
			memcpy(work, x, (size_t)n * sizeof *x);
		hadamard(work, n);
		x = work;
	}
	switch (type) {
	case DT_F32: memcpy(out, x, (size_t)n * sizeof *x); break;
	case DT_F16: f->to_f16(out, x, n); break;
	case DT_BF16: dtype_from_f32(type, out, x, n); break;
	default: blocks(type, out, x, n); break;
	}
}

void cpu_kv_floats(const struct select_fns *f, enum dtype type, float *out, const void *row, int32_t n)
{
	f->row_to_f32(type, out, row, n);
	if (kv_transformed(type))
		hadamard(out, n);
}
