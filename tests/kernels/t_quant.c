/* tests/kernels/t_quant.c - weight types: their table, half floats, and the reference conversions, compared with values
 * computed by another implementation of the file format (tests/vectors/dequant.bin). */
#include "kernels/common/quant.h"
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>

static uint32_t bits_of(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static float float_of(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

/* ---- the table ---- */

TEST(dtype_table)
{
	/* clang-format off */
	static const struct { const char *name; uint32_t id; int block, bytes; } want[DT_COUNT] = {
		[DT_F32] = { "F32", 0, 1, 4 }, [DT_F16] = { "F16", 1, 1, 2 }, [DT_BF16] = { "BF16", 30, 1, 2 },
		[DT_Q4_0] = { "Q4_0", 2, 32, 18 }, [DT_Q4_1] = { "Q4_1", 3, 32, 20 },
		[DT_Q5_0] = { "Q5_0", 6, 32, 22 }, [DT_Q5_1] = { "Q5_1", 7, 32, 24 },
		[DT_Q8_0] = { "Q8_0", 8, 32, 34 }, [DT_Q2_K] = { "Q2_K", 10, 256, 84 },
		[DT_Q3_K] = { "Q3_K", 11, 256, 110 }, [DT_Q4_K] = { "Q4_K", 12, 256, 144 },
		[DT_Q5_K] = { "Q5_K", 13, 256, 176 }, [DT_Q6_K] = { "Q6_K", 14, 256, 210 },
		[DT_IQ4_NL] = { "IQ4_NL", 20, 32, 18 }, [DT_IQ4_XS] = { "IQ4_XS", 23, 256, 136 },
		[DT_MXFP4] = { "MXFP4", 39, 32, 17 },
	};
	/* clang-format on */
	for (int t = 0; t < DT_COUNT; t++) {
		const struct dtype_info *i = dtype_info((enum dtype)t);
		const char *name = NULL;
		CHECK_STR(i->name, want[t].name);
		CHECK_INT(i->block, want[t].block);
		CHECK_INT(i->block_bytes, want[t].bytes);
		CHECK_INT(i->ggml_id, want[t].id);
		CHECK_INT(dtype_from_ggml(want[t].id, &name), t);
		CHECK_STR(name ? name : "", want[t].name);
		CHECK_INT(dtype_bytes((enum dtype)t, 512), 512 / want[t].block * want[t].bytes);
		CHECK_INT(dtype_bytes((enum dtype)t, 0), 0);
		CHECK_INT(dtype_bytes((enum dtype)t, UINT64_C(1) << 40),
		          (UINT64_C(1) << 40) / (uint64_t)want[t].block * (uint64_t)want[t].bytes);
	}
}

TEST(dtype_refused)
{
	/* Types that are known but unsupported, withdrawn types, and unassigned numbers. */
	static const struct {
		uint32_t id;
		const char *name;
	} no[] = {
		{ 9, "Q8_1" },        { 15, "Q8_K" },       { 16, "IQ2_XXS" },    { 17, "IQ2_XS" },
		{ 18, "IQ3_XXS" },    { 19, "IQ1_S" },      { 21, "IQ3_S" },      { 22, "IQ2_S" },
		{ 24, "I8" },         { 25, "I16" },        { 26, "I32" },        { 27, "I64" },
		{ 28, "F64" },        { 29, "IQ1_M" },      { 40, "NVFP4" },      { 41, "Q1_0" },
		{ 4, "Q4_2" },        { 5, "Q4_3" },        { 31, "Q4_0_4_4" },   { 32, "Q4_0_4_8" },
		{ 33, "Q4_0_8_8" },   { 36, "IQ4_NL_4_4" }, { 37, "IQ4_NL_4_8" }, { 38, "IQ4_NL_8_8" },
		{ 42, NULL },         { 255, NULL },        { 0x7fffffff, NULL }, { 0x80000000, NULL },
		{ 0xffffffff, NULL },
	};
	for (size_t i = 0; i < LEN(no); i++) {
		const char *name = "stale";
		CHECK_INT(dtype_from_ggml(no[i].id, &name), -1);
		CHECK_STR(name ? name : "(none)", no[i].name ? no[i].name : "(none)");
	}
}

/* ---- half floats ---- */

/* Return the value of a finite f16 by its definition. */
static double half_value(uint16_t h)
{
	int e = h >> 10 & 31, m = h & 0x3ff;
	double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
	return h & 0x8000 ? -v : v;
}

/* Return the f16 nearest to f by binary search: the bits of non-negative f16 values ascend with their values. */
static uint16_t slow_f16(float f)
{
	uint16_t sign = (uint16_t)(bits_of(f) >> 16 & 0x8000);
	double v = fabs((double)f);
	if (v >= 65520) /* half way between the largest f16 and 65536 */
		return sign | 0x7c00;
	int lo = 0, hi = 0x7c00; /* invariant: value(lo) <= v < value(hi) */
	while (hi - lo > 1) {
		int mid = (lo + hi) / 2;
		if (half_value((uint16_t)mid) <= v)
			lo = mid;
		else
			hi = mid;
	}
	double down = v - half_value((uint16_t)lo), up = (hi == 0x7c00 ? 65536 : half_value((uint16_t)hi)) - v;
	return (uint16_t)(sign | (down > up || (down == up && (lo & 1)) ? hi : lo));
}

TEST(half_all)
{
	for (uint32_t h = 0; h < 65536; h++) {
		float f = f16_to_f32((uint16_t)h);
		if ((h & 0x7c00) == 0x7c00) {
			if (h & 0x3ff) {
				CHECK(isnan(f));
				CHECK_INT(f32_to_f16(f), h | 0x200);
			} else {
				CHECK_INT(bits_of(f), h & 0x8000 ? 0xff800000 : 0x7f800000);
				CHECK_INT(f32_to_f16(f), h);
			}
			continue;
		}
		CHECK_MSG((double)f == half_value((uint16_t)h) && !signbit(f) == !(h & 0x8000), "half %04x became %a",
		          h, (double)f);
		CHECK_INT(f32_to_f16(f), h);
		CHECK_INT(slow_f16(f), h);
	}
}

TEST(half_rounding)
{
	/* Test every f16 and every midpoint between two, each with the two neighbouring floats. */
	for (uint32_t h = 0; h < 0x7c00; h++) {
		double next = h + 1 == 0x7c00 ? 65536 : half_value((uint16_t)(h + 1));
		float at[2] = { (float)half_value((uint16_t)h), (float)((half_value((uint16_t)h) + next) / 2) };
		for (int i = 0; i < 2; i++)
			for (int d = -2; d <= 2; d++) {
				float f = float_of(bits_of(at[i]) + (uint32_t)(bits_of(at[i]) || d > 0 ? d : 0));
				for (int s = 0; s < 2; s++, f = -f)
					CHECK_MSG(f32_to_f16(f) == slow_f16(f), "%a became %04x, expected %04x",
					          (double)f, f32_to_f16(f), slow_f16(f));
			}
	}
	for (int i = 0; i < 2000000; i++) {
		uint32_t u = (uint32_t)test_rand();
		if (i & 1) /* every other random float is in the range of f16 */
			u = (u & 0x807fffff) | (uint32_t)(100 + test_rand() % 45) << 23;
		float f = float_of(u);
		if (isnan(f))
			CHECK_INT(f32_to_f16(f), (u >> 16 & 0x8000) | 0x7e00 | (u >> 13 & 0x3ff));
		else
			CHECK_MSG(f32_to_f16(f) == slow_f16(f), "%a became %04x, expected %04x", (double)f,
			          f32_to_f16(f), slow_f16(f));
	}
	CHECK_INT(f32_to_f16(65519.996f), 0x7bff);
	CHECK_INT(f32_to_f16(65520.0f), 0x7c00);
	CHECK_INT(f32_to_f16(-INFINITY), 0xfc00);
	CHECK_INT(f32_to_f16(-0.0f), 0x8000);
	CHECK_INT(f32_to_f16(0x1p-25f), 0);
	CHECK_INT(f32_to_f16(0x1.000002p-25f), 1);
	CHECK_INT(f32_to_f16(0x1.8p-24f), 2);
	CHECK_INT(f32_to_f16(float_of(1)), 0);
}

TEST(bf16)
{
	for (uint32_t h = 0; h < 65536; h++)
		CHECK_INT(bits_of(bf16_to_f32((uint16_t)h)), h << 16);
	for (int i = 0; i < 200000; i++) {
		uint32_t u = (uint32_t)test_rand();
		if (i % 4 == 0)
			u = (u & 0xffff0000) | 0x8000; /* a tie */
		float f = float_of(u);
		uint16_t got;
		CHECK_INT(dtype_from_f32(DT_BF16, &got, &f, 1), 0);
		if (isnan(f)) {
			CHECK(isnan(bf16_to_f32(got)));
			continue;
		}
		uint32_t down = u >> 16, rest = u & 0xffff;
		uint32_t want = down + (rest > 0x8000 || (rest == 0x8000 && (down & 1)));
		CHECK_INT(got, want);
	}
}

/* ---- blocks ---- */

/* Call fn(type, blocks, expected floats, number of values) for each type in the reference file. */
static void each_vector(void (*fn)(enum dtype, const uint8_t *, const float *, int64_t))
{
	size_t n, seen = 0;
	char *text = test_read(test_file("tests/vectors/dequant.bin"), &n);
	CHECK(text);
	if (!text)
		return;
	int done[DT_ALL] = { 0 };
	for (size_t at = 0; at + 12 <= n;) {
		uint32_t head[3];
		const char *name;
		memcpy(head, text + at, sizeof head);
		size_t blocks = at + 12, floats = blocks + (head[2] + 3) / 4 * 4;
		at = floats + (size_t)head[1] * 4;
		CHECK(at <= n);
		int t = dtype_from_ggml(head[0], &name);
		CHECK(t >= 0);
		if (at > n || t < 0)
			break;
		CHECK_INT(dtype_bytes((enum dtype)t, head[1]), head[2]);
		/* Copy the blocks and the expected floats to allocations of exactly their size, so that a sanitizer
		 * detects a read past the end. */
		uint8_t *b = malloc(head[2]);
		float *want = malloc((size_t)head[1] * 4);
		memcpy(b, text + blocks, head[2]);
		memcpy(want, text + floats, (size_t)head[1] * 4);
		fn((enum dtype)t, b, want, head[1]);
		free(b);
		free(want);
		seen += !done[t]++;
	}
	free(text);
	CHECK_INT(seen, DT_COUNT + 2); /* plus two ternary types */
}

static void check_exact(enum dtype t, const uint8_t *blocks, const float *want, int64_t n)
{
	float *out = malloc((size_t)n * sizeof *out);
	dtype_to_f32(t, out, blocks, n);
	for (int64_t i = 0; i < n; i++)
		CHECK_MSG(bits_of(out[i]) == bits_of(want[i]), "%s value %lld: %a, expected %a", dtype_info(t)->name,
		          (long long)i, (double)out[i], (double)want[i]);
	free(out);
}

static void check_ternary(enum dtype t, const uint8_t *blocks, const float *want, int64_t n)
{
	if (!dtype_ternary(t))
		return;
	void *q2 = malloc(dtype_bytes(DT_Q2_K, (uint64_t)n));
	float *out = malloc((size_t)n * sizeof *out);
	dtype_ternary_to_q2_k(t, q2, blocks, n);
	dtype_to_f32(DT_Q2_K, out, q2, n);
	for (int64_t i = 0; i < n; i++) /* 0 is accepted for -0 */
		CHECK_MSG(out[i] == want[i], "%s value %lld as Q2_K: %a, expected %a", dtype_info(t)->name,
		          (long long)i, (double)out[i], (double)want[i]);
	free(q2);
	free(out);
}

TEST(ternary_weights_are_the_same_as_q2_k)
{
	each_vector(check_ternary);
}

TEST(dequant_bit_exact)
{
	each_vector(check_exact);
}

static void check_unpack(enum dtype t, const uint8_t *blocks, const float *want, int64_t n)
{
	static const int range[DT_ALL][2] = {
		[DT_Q4_0] = { -8, 7 },       [DT_Q4_1] = { 0, 15 },
		[DT_Q5_0] = { -16, 15 },     [DT_Q5_1] = { 0, 31 },
		[DT_Q8_0] = { -128, 127 },   [DT_Q2_K] = { 0, 3 },
		[DT_Q3_K] = { -4, 3 },       [DT_Q4_K] = { 0, 15 },
		[DT_Q5_K] = { 0, 31 },       [DT_Q6_K] = { -32, 31 },
		[DT_IQ4_NL] = { -127, 113 }, [DT_IQ4_XS] = { -127, 113 },
		[DT_MXFP4] = { -12, 12 },    [DT_TQ1_0] = { -1, 1 },
		[DT_TQ2_0] = { -1, 2 }, /* the values are random bits, which also contain the unused fourth code */
	};
	if (dtype_info(t)->block == 1)
		return;
	int64_t per = dtype_info(t)->block / 32;
	int lo = 127, hi = -128;
	for (int64_t i = 0; i < n / 32; i++) {
		int8_t q[32], again[32];
		float scale[2], min[2], s[2], m[2];
		quant_unpack32(t, blocks, (int32_t)i, q, scale, min);
		/* Unpacking from the start of the super-block that contains the value gives the same result. */
		quant_unpack32(t, blocks + i / per * dtype_info(t)->block_bytes, (int32_t)(i % per), again, s, m);
		CHECK(!memcmp(q, again, 32) && !memcmp(scale, s, sizeof s) && !memcmp(min, m, sizeof m));
		for (int j = 0; j < 32; j++) {
			lo = MIN(q[j], lo);
			hi = MAX(q[j], hi);
			CHECK_MSG(scale[j / 16] * (float)q[j] + min[j / 16] == want[32 * i + j], "%s value %lld: %d",
			          dtype_info(t)->name, (long long)(32 * i + j), q[j]);
		}
	}
	CHECK_INT(lo, range[t][0]);
	CHECK_INT(hi, range[t][1]);
}

TEST(unpack_agrees)
{
	each_vector(check_unpack);
}

/* ---- quantisers ---- */

TEST(from_f32_error)
{
	/* Largest allowed error. It is relative to the range of the block for types with an offset, and to the block's
	 * largest magnitude for other types. The error is half a level plus the rounding of the f16 scale; for types
	 * without an offset, values at one end may also be clipped by up to a level. */
	static const struct {
		enum dtype t;
		int offset;
		double share;
	} type[] = {
		{ DT_Q4_0, 0, 1.01 / 8 },  { DT_Q5_0, 0, 1.01 / 16 }, { DT_Q8_0, 0, 0.51 / 127 },
		{ DT_Q4_1, 1, 0.51 / 15 }, { DT_Q5_1, 1, 0.51 / 31 },
	};
	float x[256], y[256];
	uint8_t buf[1024];
	for (int round = 0; round < 2000; round++) {
		float size = powf(10, test_randf(-3, 3)), middle = round % 3 == 0 ? size * 2 : 0;
		for (int j = 0; j < 256; j++)
			x[j] = middle + test_randf(-size, size);
		if (round % 7 == 0) /* a constant block and a block of zeros */
			for (int j = 0; j < 64; j++)
				x[j] = j < 32 ? size : 0;
		for (size_t k = 0; k < LEN(type); k++) {
			CHECK_INT(dtype_from_f32(type[k].t, buf, x, 256), 0);
			dtype_to_f32(type[k].t, y, buf, 256);
			for (int b = 0; b < 8; b++) {
				double lo = x[32 * b], hi = lo, worst = 0;
				for (int j = 32 * b; j < 32 * b + 32; j++) {
					lo = fmin(lo, (double)x[j]);
					hi = fmax(hi, (double)x[j]);
					worst = fmax(worst, fabs((double)x[j] - (double)y[j]));
				}
				double top = fmax(fabs(lo), fabs(hi));
				double limit =
					type[k].share * (type[k].offset ? hi - lo : top) + top * 0x1p-10 + 0x1p-24;
				CHECK_MSG(worst <= limit, "%s: error %g of %g allowed", dtype_info(type[k].t)->name,
				          worst, limit);
			}
		}
	}
	for (int t = 0; t < DT_COUNT; t++) {
		int simple = t <= DT_Q8_0;
		CHECK_INT(dtype_from_f32((enum dtype)t, buf, x, 256), simple ? 0 : -1);
		if (t == DT_F32) {
			CHECK(!memcmp(buf, x, sizeof x));
		} else if (t == DT_F16) {
			dtype_to_f32(DT_F16, y, buf, 256);
			for (int j = 0; j < 256; j++)
				CHECK(bits_of(y[j]) == bits_of(f16_to_f32(slow_f16(x[j]))));
		}
	}
}

/* Values that the type can represent exactly must be converted without error. So the test detects an error of one
 * level, of a scale or of a sign. */
TEST(from_f32_grid)
{
	static const enum dtype type[] = { DT_Q4_0, DT_Q4_1, DT_Q5_0, DT_Q5_1, DT_Q8_0 };
	float x[32], y[32];
	uint8_t buf[64];
	for (size_t k = 0; k < LEN(type); k++)
		for (int sign = -1; sign <= 1; sign += 2) {
			int levels = type[k] <= DT_Q4_1 ? 16 : type[k] <= DT_Q5_1 ? 32 : 255;
			for (int j = 0; j < 32; j++) {
				int q = j == 0 ? 0 : j == 1 ? levels - 1 : (int)(test_rand() % (uint64_t)levels);
				x[j] = 0.25f * (float)(sign * (q - levels / 2));
			}
			dtype_from_f32(type[k], buf, x, 32);
			dtype_to_f32(type[k], y, buf, 32);
			for (int j = 0; j < 32; j++)
				CHECK_MSG(x[j] == y[j], "%s: %g became %g", dtype_info(type[k])->name, (double)x[j],
				          (double)y[j]);
		}
}

/* Infinities, huge values and NaN affect at most their own block of 32, and nothing is written past the row. */
TEST(from_f32_of_values_that_do_not_fit)
{
	enum { N = 96, GUARD = 0x5a };
	static const float odd[] = { NAN, INFINITY, -INFINITY, -3e38f, 3e38f };
	float x[N], y[N], clean[N];
	uint8_t want[4 * N + 8], got[4 * N + 8];

	for (int j = 0; j < N; j++)
		x[j] = (float)(j % 32) - 11;
	for (int t = 0; t < DT_COUNT; t++) {
		size_t block = (size_t)dtype_bytes((enum dtype)t, 32);

		if (dtype_from_f32((enum dtype)t, want, x, N))
			continue;
		dtype_to_f32((enum dtype)t, clean, want, N);
		for (size_t k = 0; k < LEN(odd); k++) {
			float kept = x[35];

			memset(got, GUARD, sizeof got);
			x[35] = odd[k];
			CHECK_INT(dtype_from_f32((enum dtype)t, got, x, N), 0);
			x[35] = kept;
			CHECK_MSG(!memcmp(got, want, block) && !memcmp(got + 2 * block, want + 2 * block, block),
			          "%s: %g changes another block", dtype_info((enum dtype)t)->name, (double)odd[k]);
			for (size_t i = 3 * block; i < sizeof got; i++)
				CHECK_MSG(got[i] == GUARD, "%s: %g writes behind the row",
				          dtype_info((enum dtype)t)->name, (double)odd[k]);
			dtype_to_f32((enum dtype)t, y, got, N);
			for (int j = 0; j < N; j++)
				CHECK_MSG(j / 32 == 1 || bits_of(y[j]) == bits_of(clean[j]), "%s: %g changes value %d",
				          dtype_info((enum dtype)t)->name, (double)odd[k], j);
			/* The type F32 can represent all of these values; types with blocks and scales cannot. */
			if (t == DT_F32)
				CHECK(bits_of(y[35]) == bits_of(odd[k]));
			else if (t == DT_F16)
				CHECK(k == 0 ? isnan(y[35]) : isinf(y[35]) && (y[35] > 0) == (odd[k] > 0));
			else if (t == DT_BF16)
				CHECK(k == 0 ? isnan(y[35]) : fabsf(y[35]) >= 3e38f && (y[35] > 0) == (odd[k] > 0));
		}
	}
}
