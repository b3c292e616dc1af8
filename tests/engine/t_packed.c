/* tests/engine/t_packed.c - KV entries that are packed and unpacked: near what they were, whatever they are, and safe
 * whatever the packed bytes are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_snapshot.h"
#include "kernels/common/quant.h"
#include "tests/lib/test.h"

enum { TOKENS = 64, HEADS = 3 };

struct rows {
	struct entries_packing how;
	int32_t dim;
	uint64_t bytes, packed_bytes;
	uint16_t *in, *out;
	uint8_t *packed;
};

static void rows_open(struct rows *r, int32_t dim)
{
	r->dim = dim;
	r->bytes = (uint64_t)dim * TOKENS * HEADS * 2;
	r->how = (struct entries_packing){ dim, TOKENS, 0 };
	r->packed_bytes = entries_packed_bytes(r->how, r->bytes);
	r->in = xmalloc(r->bytes);
	r->out = xmalloc(r->bytes);
	r->packed = xmalloc(r->packed_bytes);
}

static void rows_close(struct rows *r)
{
	free(r->in);
	free(r->out);
	free(r->packed);
}

/* Fill with values of about `size`; column 5 is at `offset`. */
static void rows_fill(struct rows *r, float size, float offset)
{
	for (uint64_t i = 0; i < r->bytes / 2; i++) {
		float x = 0;

		for (int k = 0; k < 4; k++)
			x += (float)(test_rand() % 2001) / 1000 - 1;
		r->in[i] = f32_to_f16(x * size + (i % (uint64_t)r->dim == 5 ? offset : 0));
	}
}

/* Return the error of the unpacked values in proportion to the values without their offset, both as roots of mean
 * squares. */
static double rows_error(const struct rows *r, float offset)
{
	double sum = 0, all = 0;

	for (uint64_t i = 0; i < r->bytes / 2; i++) {
		double x = f16_to_f32(r->in[i]), d = x - f16_to_f32(r->out[i]);

		x -= i % (uint64_t)r->dim == 5 ? offset : 0;
		sum += d * d;
		all += x * x;
	}
	return all > 0 ? sqrt(sum / all) : sqrt(sum);
}

static int rows_pass(struct rows *r)
{
	memset(r->out, 0x55, r->bytes);
	if (entries_pack(r->how, r->in, r->bytes, r->packed))
		return -1;
	entries_unpack(r->how, r->packed, r->out, r->bytes);
	return 0;
}

TEST(sizes)
{
	/* 256 tokens of the default model: 3.5 times smaller */
	CHECK_INT(entries_packed_bytes((struct entries_packing){ 64, 256, 0 }, 256 * 23040), 180 * (256 * 36 + 128));
	CHECK_INT(entries_packed_bytes((struct entries_packing){ 80, 256, 0 }, 256 * 160), 0);
	CHECK_INT(entries_packed_bytes((struct entries_packing){ 0, 256, 0 }, 256 * 160), 0);
	CHECK_INT(entries_packed_bytes((struct entries_packing){ -32, 256, 0 }, 256 * 160), 0);
	CHECK_INT(entries_packed_bytes((struct entries_packing){ 1024, 256, 0 }, 256 * 2048), 0);
	CHECK_INT(entries_packed_bytes((struct entries_packing){ 64, 255, 0 }, 256 * 128), 0);
	CHECK_INT(entries_packed_bytes((struct entries_packing){ 64, 256, 0 }, 256 * 128 + 2), 0);
	CHECK_INT(entries_packed_bytes((struct entries_packing){ 64, 256, 0 }, 0), 0);
}

TEST(values_come_back_nearly)
{
	static const int32_t dim[] = { 32, 64, 96, 128, 256, 512 };
	static const float size[] = { 1e-3f, 0.01f, 1, 300 };

	for (size_t i = 0; i < LEN(dim); i++)
		for (size_t k = 0; k < LEN(size); k++) {
			struct rows r;
			float offset = 40 * size[k];

			rows_open(&r, dim[i]);
			rows_fill(&r, size[k], offset);
			CHECK_INT(rows_pass(&r), 0);
			CHECK_MSG(rows_error(&r, offset) < 0.1, "%d values of %g: error %.3f", dim[i], (double)size[k],
			          rows_error(&r, offset));
			rows_close(&r);
		}
}

TEST(zeros_and_extremes)
{
	struct rows r;

	rows_open(&r, 64);
	memset(r.in, 0, r.bytes);
	CHECK_INT(rows_pass(&r), 0);
	CHECK_INT((int)(rows_error(&r, 0) * 1e6), 0);
	for (uint64_t i = 0; i < r.bytes / 2; i++)
		r.in[i] = 0x8000; /* -0 */
	CHECK_INT(rows_pass(&r), 0);
	CHECK_INT((int)(rows_error(&r, 0) * 1e6), 0);
	for (uint64_t i = 0; i < r.bytes / 2; i++)
		r.in[i] = test_rand() & 1 ? 0x7bff : 0xfbff; /* the largest values, of both signs */
	CHECK_INT(rows_pass(&r), 0);
	for (uint64_t i = 0; i < r.bytes / 2; i++)
		CHECK((r.out[i] & 0x7c00) != 0x7c00);
	r.in[77] = 0x7c00; /* infinity */
	CHECK_INT(rows_pass(&r), -1);
	r.in[77] = 0x7e01; /* not a number */
	CHECK_INT(rows_pass(&r), -1);
	rows_close(&r);
}

/* The first tokens, on which much attention falls, are unlike the others. */
TEST(first_tokens_stay_exact)
{
	struct rows r;

	rows_open(&r, 64);
	r.how.exact = 16;
	free(r.packed);
	CHECK_INT(entries_packed_bytes(r.how, r.bytes), HEADS * (16 * 128 + 128 + 48 * 36));
	r.packed = xmalloc(entries_packed_bytes(r.how, r.bytes));
	rows_fill(&r, 1, 0);
	for (int i = 0; i < 16 * 64; i++)
		r.in[i] = f32_to_f16(1000);
	CHECK_INT(rows_pass(&r), 0);
	for (int h = 0; h < HEADS; h++)
		CHECK(!memcmp(r.in + h * TOKENS * 64, r.out + h * TOKENS * 64, 16 * 128));
	memset(r.in, 0, 16 * 128);
	memset(r.out, 0, 16 * 128);
	CHECK(rows_error(&r, 0) < 0.1);
	rows_close(&r);
	CHECK_INT(entries_packed_bytes((struct entries_packing){ 64, 256, 256 }, 256 * 128), 0);
	CHECK_INT(entries_packed_bytes((struct entries_packing){ 64, 256, -16 }, 256 * 128), 0);
}

/* Rows that sliding-window layers have dropped stay marked, and the others are not changed by them. */
TEST(missing_rows_stay_missing)
{
	struct rows r;

	rows_open(&r, 64);
	rows_fill(&r, 1, 0);
	for (int t = 0; t < 20; t++)
		memset(r.in + t * 64, 0xff, 128);
	CHECK_INT(rows_pass(&r), 0);
	for (int i = 0; i < 20 * 64; i++)
		CHECK(r.out[i] == 0xffff);
	memset(r.in, 0, 20 * 128);
	memset(r.out, 0, 20 * 128);
	CHECK(rows_error(&r, 0) < 0.1);
	rows_close(&r);
}

TEST(any_bytes_unpack_to_finite_or_missing_rows)
{
	struct rows r;

	rows_open(&r, 96);
	for (int round = 0; round < 200; round++) {
		for (uint64_t i = 0; i < r.packed_bytes; i++)
			r.packed[i] = (uint8_t)(test_rand() % 3 ? test_rand() : 0xff);
		entries_unpack(r.how, r.packed, r.out, r.bytes);
		for (uint64_t i = 0; i < r.bytes / 2; i++)
			CHECK((r.out[i] & 0x7c00) != 0x7c00 || r.out[i] == 0xffff);
	}
	rows_close(&r);
}
