/* tests/kernels/t_amx.c - the CPU level amx: its products must equal those of the level avx512 bit for bit. On a processor
 * without AMX, AMX instructions are emulated (tests/lib/amx_emulator.h). So the machine code of the kernels itself is
 * tested. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/amx_emulator.h"
#include "tests/lib/weights.h"

/* Return 1 if this machine has the level avx512, which the level amx needs. */
static int has_avx512(void)
{
	struct backend *be = open_level("avx512", 1);

	if (be)
		finish(be);
	return be != NULL;
}

static void need_amx(void)
{
	const char *why;

	if (!has_avx512())
		SKIP("no AVX-512");
	amx_emulate(AMX_RIGHT);
	why = backend_amx();
	CHECK_STR(why, "yes");
}

/* ---- the choice of the level; these tests come first, because a process asks for AMX only once ---- */

/* Check, in a child process with this kind of AMX, that backend_amx() returns `want` and that the level is avx512. */
static void falls_back(enum amx_kind kind, const char *want)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		amx_emulate(kind);
		CHECK_STR(backend_amx(), want);
		CHECK_STR(cpu_fns_best()->name, "avx512");
		CHECK(!strncmp(backend_cpu_level(), "avx512 (avx512, avx2, ", 22));
		_exit(test_failures() != 0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

TEST(amx_that_is_refused_or_wrong_is_not_used)
{
	if (!has_avx512())
		SKIP("no AVX-512");
	falls_back(AMX_REFUSED, "no, because the test refuses permission");
	if (amx_native())
		SKIP("the processor has AMX: its sums cannot be made wrong");
	falls_back(AMX_WRONG, "no, because its sums were wrong when weir checked them");
}

TEST(amx_is_above_avx512)
{
	unsigned long before;

	need_amx();
	CHECK_STR(backend_cpu_level(), "amx (amx, avx512, avx2, c available)");
	CHECK_STR(cpu_fns_best()->name, "avx512, amx");
	before = amx_emulated();
	CHECK(amx_native() || before > 0);
	setenv("WEIR_CPU", "avx512", 1);
	CHECK_STR(backend_amx(), "no, because WEIR_CPU=avx512 turns it off");
	CHECK_STR(cpu_fns_best()->name, "avx512");
	unsetenv("WEIR_CPU");
}

/* ---- products ---- */

/* Return n inputs of a product. Some values are far above the others, so that their blocks are coded in 16 bits. */
static float *spiky_floats(size_t n)
{
	float *x = random_floats(n, -1, 1);

	for (size_t i = 0; i < n; i += 1 + test_rand() % 200)
		x[i] *= 40;
	return x;
}

/* Compute two products of the same input x: a plain one, with a bias and added to `start` (out[0]), and a gated one
 * (out[1]). */
static void products(const char *level, int threads, enum dtype type[2], int32_t rows, int32_t cols, uint8_t *w[2],
                     const float *x, int32_t n, const float *start, float *out[2])
{
	struct backend *be = open_level(level, threads);
	struct tensor tw[2], tx, bias, plain = guarded(be, n, rows), glu = guarded(be, n, rows);

	tx = tensor_new(be, DT_F32, n, cols, x);
	bias = tensor_new(be, DT_F32, 1, rows, x);
	be->ops->write(be, &plain, 0, start, (size_t)n * (size_t)rows * 4);
	for (int i = 0; i < 2; i++)
		tw[i] = weight_new(be, type[i], rows, cols, w[i]);
	be->ops->matmul(be, &(struct matmul){ .out = &plain, .w = &tw[0], .bias = &bias, .accumulate = 1 }, 1, &tx, n);
	be->ops->matmul_glu(be, &glu, &(struct matmul_glu){ .gate = &tw[0], .up = &tw[1], .act = ACT_SILU }, &tx, n);
	out[0] = result(be, &plain, "matmul");
	out[1] = result(be, &glu, "matmul_glu");
	for (int i = 0; i < 2; i++)
		be->ops->drop(be, &tw[i]);
	be->ops->drop(be, &tx);
	be->ops->drop(be, &bias);
	finish(be);
}

/* Compare products at level amx with those at level avx512 bit for bit, and with those of plain C within rounding. */
static void compare(enum dtype type[2], int32_t rows, int32_t cols, int32_t n)
{
	size_t all = (size_t)n * (size_t)rows;
	uint8_t *w[2] = { random_weight(type[0], rows, cols), random_weight(type[1], rows, cols) };
	float *x = spiky_floats((size_t)n * (size_t)cols + (size_t)rows), *start = random_floats(all, -5, 5);
	float *c[2], *want[2], *got[2];

	products("c", 1, type, rows, cols, w, x, n, start, c);
	products("avx512", 1, type, rows, cols, w, x, n, start, want);
	for (int threads = 1; threads <= 3; threads += 2) {
		products("amx", threads, type, rows, cols, w, x, n, start, got);
		for (int i = 0; i < 2; i++) {
			double e = test_nmse(got[i], c[i], all);

			CHECK_MSG(!memcmp(got[i], want[i], all * 4),
			          "%s and %s, %d x %d, %d tokens: product %d differs", dtype_info(type[0])->name,
			          dtype_info(type[1])->name, (int)rows, (int)cols, (int)n, i);
			CHECK_MSG(e < 1e-10, "%s, %d x %d, %d tokens: product %d differs from c by %g",
			          dtype_info(type[0])->name, (int)rows, (int)cols, (int)n, i, e);
			free(got[i]);
		}
	}
	for (int i = 0; i < 2; i++) {
		free(w[i]);
		free(c[i]);
		free(want[i]);
	}
	free(x);
	free(start);
}

TEST(products_have_the_bits_of_avx512)
{
	static const int32_t n_list[] = { 8, 11, 16, 21, 48, 61, 130 };
	static const int32_t rows_list[] = { 1, 16, 33, 100, 340 };

	need_amx();
	for (int t = 0; t < DT_COUNT; t++) {
		const int block = dtype_info((enum dtype)t)->block;

		for (size_t i = 0; i < LEN(n_list); i++) {
			/* up to 40 blocks: two whole slabs of 16 blocks, and a part of a third */
			int32_t cols = block == 256 ? 256 * (1 + (int32_t)i % 5)
			                            : (int32_t[]){ 32, 512, 544, 1184, 96, 1024, 1056 }[i];

			compare((enum dtype[]){ (enum dtype)t, (enum dtype)t }, rows_list[((size_t)t + i) % 5], cols,
			        n_list[i]);
		}
	}
}

/* Weight types of different layouts in one task. If one of the types is Q8_0, all activations have 16 bits. */
TEST(mixed_products_have_the_bits_of_avx512)
{
	static const enum dtype pair[][2] = {
		{ DT_Q4_K, DT_Q6_K }, { DT_Q8_0, DT_Q4_1 }, { DT_Q4_0, DT_Q8_0 },
		{ DT_Q2_K, DT_Q3_K }, { DT_Q6_K, DT_F16 },  { DT_F32, DT_Q5_1 },
	};

	need_amx();
	for (size_t i = 0; i < LEN(pair); i++)
		for (int32_t n = 8; n <= 100; n = n * 2 + 3)
			compare((enum dtype[]){ pair[i][0], pair[i][1] }, 70, 768, n);
}

/* Values at the ends of their ranges give the largest sums. */
TEST(extreme_products_have_the_bits_of_avx512)
{
	enum { ROWS = 40, COLS = 512, N = 20 };
	enum dtype type[2] = { DT_Q8_0, DT_Q8_0 };
	float *x, *start, *want[2], *got[2];
	uint8_t *w[2];

	need_amx();
	x = random_floats(N * COLS, 1, 1);
	start = random_floats(N * ROWS, 0, 0);
	w[0] = random_weight(DT_Q8_0, ROWS, COLS);
	w[1] = random_weight(DT_Q8_0, ROWS, COLS);
	for (int i = 0; i < ROWS * COLS / 32; i++)
		memset(w[0] + 34 * i + 2, i % 3 ? 0x80 : 0x7f, 32);
	for (int i = 0; i < N * COLS; i++)
		x[i] = i / 32 % 5 ? -1 : 1;
	products("avx512", 1, type, ROWS, COLS, w, x, N, start, want);
	products("amx", 2, type, ROWS, COLS, w, x, N, start, got);
	for (int i = 0; i < 2; i++) {
		CHECK(!memcmp(got[i], want[i], N * ROWS * 4));
		free(w[i]);
		free(want[i]);
		free(got[i]);
	}
	free(x);
	free(start);
}

/* Products of few tokens, as in decoding and short VERIFY steps, use no AMX. */
TEST(few_tokens_execute_no_amx)
{
	enum { ROWS = 32, COLS = 256, N = 7 };
	enum dtype type[2] = { DT_Q4_1, DT_Q4_1 };
	uint8_t *w[2];
	float *x, *start, *got[2];
	unsigned long before;

	need_amx();
	x = random_floats(N * COLS, -1, 1);
	start = random_floats(N * ROWS, 0, 0);
	w[0] = random_weight(DT_Q4_1, ROWS, COLS);
	w[1] = random_weight(DT_Q4_1, ROWS, COLS);
	before = amx_emulated();
	products("amx", 2, type, ROWS, COLS, w, x, N, start, got);
	CHECK_INT(amx_emulated(), before);
	test_note("%lu instructions emulated", before);
	for (int i = 0; i < 2; i++) {
		free(w[i]);
		free(got[i]);
	}
	free(x);
	free(start);
}
