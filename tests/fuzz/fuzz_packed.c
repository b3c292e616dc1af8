/* tests/fuzz/fuzz_packed.c - libFuzzer target: packed KV entries. Whatever the packed bytes are, unpacked values are
 * finite or missing; whatever the entries are, they are refused or come back nearly.
 *
 * 	make fuzz
 * 	build/fuzz/fuzz_packed
 *
 * The first byte chooses the head dimension, the second the number of tokens, the third how many of them stay exact.
 * The rest, repeated, is first the packed bytes and then the entries. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/base.h"
#include "engine/engine_snapshot.h"
#include "kernels/common/quant.h"

enum { HEADS = 2, MISSING = 0xffff };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void fill(void *out, uint64_t bytes, const uint8_t *data, size_t n)
{
	for (uint64_t i = 0; i < bytes; i++)
		((uint8_t *)out)[i] = data[i % n];
}

static int all_finite(const uint16_t *x, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		if ((x[i] & 0x7c00) == 0x7c00)
			return 0;
	return 1;
}

static int all_missing(const uint16_t *x, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		if (x[i] != MISSING)
			return 0;
	return 1;
}

/* Return the mean of the squares of n values, or of the differences of two rows. */
static double squares(const uint16_t *x, const uint16_t *y, int32_t n)
{
	double sum = 0;

	for (int32_t i = 0; i < n; i++) {
		double d = (double)f16_to_f32(x[i]) - (y ? (double)f16_to_f32(y[i]) : 0);

		sum += d * d;
	}
	return sum / n;
}

/* Check one head that was packed and unpacked: exact rows are equal, missing rows are missing, and others differ by at
 * most a quarter of the largest row, which bounds the mean, too. The least scale is 2^-17. */
static void check_head(struct entries_packing how, const uint16_t *in, const uint16_t *out)
{
	double largest = 0;

	if (memcmp(in, out, (size_t)(how.exact * how.dim) * sizeof *in))
		abort();
	for (int32_t t = how.exact; t < how.n; t++)
		if (!all_missing(in + t * how.dim, how.dim))
			largest = fmax(largest, squares(in + t * how.dim, NULL, how.dim));
	for (int32_t t = how.exact; t < how.n; t++) {
		const uint16_t *a = in + t * how.dim, *b = out + t * how.dim;

		if (all_missing(a, how.dim) ? !all_missing(b, how.dim)
		                            : !all_finite(b, how.dim) || squares(a, b, how.dim) > largest / 16 + 1e-10)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const int32_t dims[] = { 32, 64, 96, 128, 256, 512 };
	struct entries_packing how;
	uint16_t *in, *out;
	uint64_t bytes, packed;
	uint8_t *p;
	int kept = 1;

	if (n < 4)
		return 0;
	how.dim = dims[data[0] % LEN(dims)];
	how.n = 1 + data[1] % 40;
	how.exact = data[2] % how.n;
	bytes = (uint64_t)(how.dim * how.n) * HEADS * sizeof *in;
	packed = entries_packed_bytes(how, bytes);
	in = xmalloc(bytes);
	out = xmalloc(bytes);
	p = xmalloc(packed);
	fill(p, packed, data + 3, n - 3);
	entries_unpack(how, p, out, bytes);
	for (int32_t i = 0; i < HEADS * how.n; i++)
		if (i % how.n >= how.exact && !all_finite(out + i * how.dim, how.dim) &&
		    !all_missing(out + i * how.dim, how.dim))
			abort();
	fill(in, bytes, data + 3, n - 3);
	for (int32_t i = 0; i < HEADS * how.n; i++)
		kept &= i % how.n < how.exact || all_finite(in + i * how.dim, how.dim) ||
		        all_missing(in + i * how.dim, how.dim);
	if (entries_pack(how, in, bytes, p) != kept - 1)
		abort();
	entries_unpack(how, p, out, bytes);
	for (int h = 0; kept && h < HEADS; h++)
		check_head(how, in + h * how.n * how.dim, out + h * how.n * how.dim);
	free(in);
	free(out);
	free(p);
	return 0;
}
