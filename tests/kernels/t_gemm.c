/* tests/kernels/t_gemm.c - products of float matrices in host memory, compared with products in double at every CPU
 * level. Tested are odd sizes and strides, products with and without adding to C, several products in a call, and
 * several numbers of threads. WEIR_GEMM_SPEED=1: also measure the speed. */
#include <math.h>
#include <time.h>

#include "tests/lib/levels.h"

struct product {
	struct gemm g;
	float *a, *b, *c, *was;
	size_t size;
};

static float *randoms(size_t n)
{
	float *x = must_alloc(n * sizeof *x);

	for (size_t i = 0; i < n; i++)
		x[i] = test_randf(-1, 1);
	return x;
}

static int32_t size_random(int32_t most)
{
	return 1 + (int32_t)(test_rand() % (uint64_t)(test_rand() % 3 ? 40 : most));
}

static struct product product_random(void)
{
	struct product p = { .g = { .m = size_random(420),
		                    .n = size_random(560),
		                    .k = size_random(600),
		                    .accumulate = (int)(test_rand() % 2) } };
	size_t m = (size_t)p.g.m, n = (size_t)p.g.n, k = (size_t)p.g.k, gap = test_rand() % 5;
	int a_turned = (int)(test_rand() % 2), b_turned = (int)(test_rand() % 2);

	p.g.alpha = test_rand() % 2 ? 1 : test_randf(-2, 2);
	p.g.a_row = a_turned ? 1 : k + gap;
	p.g.a_col = a_turned ? m + gap : 1;
	p.g.b_row = b_turned ? 1 : n + gap;
	p.g.b_col = b_turned ? k + gap : 1;
	p.g.c_row = n + gap;
	p.size = m * p.g.c_row;
	p.g.a = p.a = randoms((m + gap) * (k + gap));
	p.g.b = p.b = randoms((n + gap) * (k + gap));
	p.was = randoms(p.size);
	p.c = must_alloc(p.size * sizeof *p.c);
	p.g.c = p.c;
	return p;
}

static void product_free(struct product *p)
{
	free(p->a);
	free(p->b);
	free(p->c);
	free(p->was);
}

static void product_check(const struct product *p, const char *level)
{
	const struct gemm *g = &p->g;
	double worst = 0;

	for (int32_t i = 0; i < g->m; i++)
		for (int32_t j = 0; j < (int32_t)g->c_row; j++) {
			size_t at = (size_t)i * g->c_row + (size_t)j;
			double sum = 0;

			for (int32_t k = 0; j < g->n && k < g->k; k++)
				sum += (double)g->a[(size_t)i * g->a_row + (size_t)k * g->a_col] *
				       (double)g->b[(size_t)k * g->b_row + (size_t)j * g->b_col];
			sum = (double)g->alpha * sum + (g->accumulate || j >= g->n ? (double)p->was[at] : 0);
			worst = fmax(worst, fabs(sum - (double)p->c[at]));
		}
	CHECK_MSG(worst < 1e-4, "%s, %d x %d x %d: off by %g", level, g->m, g->n, g->k, worst);
}

TEST(products_agree_with_double)
{
	for (int l = 0; l < N_LEVELS; l++) {
		struct backend *be = open_level(levels[l], 1), *three = open_level(levels[l], 3);

		for (int round = 0; be && three && round < test_rounds(25); round++) {
			struct product p[3];
			struct gemm g[3];
			float *one[3];

			for (int i = 0; i < 3; i++) {
				p[i] = product_random();
				g[i] = p[i].g;
				memcpy(p[i].c, p[i].was, p[i].size * sizeof *p[i].c);
			}
			CHECK(!backend_gemm(be, g, 3));
			for (int i = 0; i < 3; i++) {
				product_check(&p[i], levels[l]);
				one[i] = must_alloc(p[i].size * sizeof *one[i]);
				memcpy(one[i], p[i].c, p[i].size * sizeof *one[i]);
				memcpy(p[i].c, p[i].was, p[i].size * sizeof *p[i].c);
			}
			for (int i = 2; i >= 0; i--)
				CHECK(!backend_gemm(three, &g[i], 1));
			for (int i = 0; i < 3; i++) {
				CHECK_MSG(!memcmp(one[i], p[i].c, p[i].size * sizeof *one[i]),
				          "%s: three threads give other bits", levels[l]);
				free(one[i]);
				product_free(&p[i]);
			}
		}
		if (be)
			finish(be);
		if (three)
			finish(three);
	}
}

TEST(speed_where_it_is_asked_for)
{
	static const int32_t sizes[][3] = {
		{ 512, 576, 576 }, { 512, 1536, 576 }, { 512, 576, 1536 }, { 576, 1536, 512 }, { 512, 512, 64 }
	};
	struct backend *be = NULL;
	char why[160];

	if (!getenv("WEIR_GEMM_SPEED"))
		SKIP("WEIR_GEMM_SPEED is not set");
	CHECK(!backend_open(&be, "cpu", NULL, why));
	for (int i = 0; i < 5; i++) {
		int32_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
		float *a = randoms((size_t)(m * k)), *b = randoms((size_t)(n * k)), *c = randoms((size_t)(m * n));
		double best = 1e9;

		for (int r = 0; r < 12; r++) {
			struct timespec from, to;
			double s;

			clock_gettime(CLOCK_MONOTONIC, &from);
			backend_gemm(be,
			             &(struct gemm){ .c = c,
			                             .a = a,
			                             .b = b,
			                             .m = m,
			                             .n = n,
			                             .k = k,
			                             .a_row = (size_t)k,
			                             .a_col = 1,
			                             .b_row = 1,
			                             .b_col = (size_t)k,
			                             .c_row = (size_t)n,
			                             .alpha = 1 },
			             1);
			clock_gettime(CLOCK_MONOTONIC, &to);
			s = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
			best = MIN(s, best);
		}
		printf("%d x %d x %d: %.1f GFLOP/s\n", m, n, k, 2e-9 * m * n * k / best);
		free(a);
		free(b);
		free(c);
	}
	finish(be);
}
