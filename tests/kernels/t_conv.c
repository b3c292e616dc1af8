/* tests/kernels/t_conv.c - convolutions in host memory and their gradients: compared with double at every CPU level, at
 * odd sizes. Also: rows that are NULL count as zeros, an element does not depend on the length of its row, and each
 * task runs once. */
#include <math.h>

#include "tests/lib/levels.h"

static float *randoms(size_t n)
{
	float *x = must_alloc(n * sizeof *x);

	for (size_t i = 0; i < n; i++)
		x[i] = test_randf(-1, 1);
	return x;
}

struct image {
	float *in[3], *w, *bias, *d;
	int32_t n_in, n_out, n;
};

static struct image image_random(void)
{
	static const int32_t ins[] = { 1, 2, 3, 5, 7, 16, 17, 32 };
	struct image m = { .n_in = ins[test_rand() % 8],
		           .n_out = test_rand() % 2 ? 16 : 32,
		           .n = 1 + (int32_t)(test_rand() % 40) };
	size_t n_in = (size_t)m.n_in, n_out = (size_t)m.n_out, n = (size_t)m.n;

	for (int dy = 0; dy < 3; dy++)
		m.in[dy] = test_rand() % 5 ? randoms((n + 2) * n_in) : NULL;
	m.w = randoms(9 * n_in * n_out);
	m.bias = test_rand() % 3 ? randoms(n_out) : NULL;
	m.d = randoms(n * n_out);
	return m;
}

static void image_free(struct image *m)
{
	for (int dy = 0; dy < 3; dy++)
		free(m->in[dy]);
	free(m->w);
	free(m->bias);
	free(m->d);
}

static double pixel(const struct image *m, int t, int32_t x, int32_t i)
{
	return m->in[t / 3] ? (double)m->in[t / 3][(x + t % 3) * m->n_in + i] : 0;
}

TEST(a_row_agrees_with_double)
{
	for (int l = 0; l < N_LEVELS; l++) {
		struct backend *be = open_level(levels[l], 1);

		for (int round = 0; be && round < test_rounds(200); round++) {
			struct image m = image_random();
			size_t n_out = (size_t)m.n_out;
			float *out = must_alloc((size_t)m.n * n_out * sizeof *out),
			      *part = must_alloc((size_t)m.n * n_out * sizeof *part);
			int32_t from = (int32_t)(test_rand() % (uint64_t)m.n),
				n = 1 + (int32_t)(test_rand() % (uint64_t)(m.n - from));
			struct conv3_args a = { .out = out,
				                .in = { m.in[0], m.in[1], m.in[2] },
				                .w = m.w,
				                .bias = m.bias,
				                .n_in = m.n_in,
				                .n_out = m.n_out,
				                .n = m.n };
			double worst = 0;

			conv_row(be, &a);
			for (int32_t x = 0; x < m.n; x++)
				for (int32_t o = 0; o < m.n_out; o++) {
					double sum = m.bias ? (double)m.bias[o] : 0;

					for (int t = 0; t < 9; t++)
						for (int32_t i = 0; i < m.n_in; i++)
							sum += pixel(&m, t, x, i) *
							       (double)m.w[(t * m.n_in + i) * m.n_out + o];
					worst = fmax(worst, fabs(sum - (double)out[x * m.n_out + o]));
				}
			CHECK_MSG(worst < 2e-5, "%s, %d to %d channels, %d pixels: off by %g", levels[l], m.n_in,
			          m.n_out, m.n, worst);
			a.out = part;
			a.n = n;
			for (int dy = 0; dy < 3; dy++)
				a.in[dy] = m.in[dy] ? m.in[dy] + from * m.n_in : NULL;
			conv_row(be, &a);
			CHECK_MSG(!memcmp(part, out + (size_t)from * n_out, (size_t)n * n_out * sizeof *out),
			          "%s: %d pixels of %d have other bits", levels[l], n, m.n);
			free(out);
			free(part);
			image_free(&m);
		}
		if (be)
			finish(be);
	}
}

TEST(a_gradient_agrees_with_double)
{
	for (int l = 0; l < N_LEVELS; l++) {
		struct backend *be = open_level(levels[l], 1);

		for (int round = 0; be && round < test_rounds(200); round++) {
			struct image m = image_random();
			size_t size = 9 * (size_t)m.n_in * (size_t)m.n_out;
			float *dw = randoms(size), *was = must_alloc(size * sizeof *was);
			double worst = 0;

			memcpy(was, dw, size * sizeof *dw);
			conv_row_grad(be, &(struct conv3_grad_args){ .dw = dw,
			                                             .in = { m.in[0], m.in[1], m.in[2] },
			                                             .d = m.d,
			                                             .n_in = m.n_in,
			                                             .n_out = m.n_out,
			                                             .n = m.n });
			for (int t = 0; t < 9; t++)
				for (int32_t i = 0; i < m.n_in; i++)
					for (int32_t o = 0; o < m.n_out; o++) {
						size_t at = (size_t)((t * m.n_in + i) * m.n_out + o);
						double sum = (double)was[at];

						for (int32_t x = 0; x < m.n; x++)
							sum += pixel(&m, t, x, i) * (double)m.d[x * m.n_out + o];
						worst = fmax(worst, fabs(sum - (double)dw[at]));
					}
			CHECK_MSG(worst < 2e-5, "%s, %d to %d channels, %d pixels: off by %g", levels[l], m.n_in,
			          m.n_out, m.n, worst);
			free(dw);
			free(was);
			image_free(&m);
		}
		if (be)
			finish(be);
	}
}

static void count(void *arg, int task)
{
	((int *)arg)[task]++;
}

TEST(each_task_runs_once)
{
	for (int threads = 1; threads <= 4; threads++) {
		struct backend *be = NULL;
		int done[100] = { 0 };
		char why[160];

		if (backend_open(&be, "cpu", &(struct backend_options){ .threads = threads }, why))
			SKIP("%s", why);
		backend_each(be, count, done, 0);
		backend_each(be, count, done, 97);
		for (int i = 0; i < 100; i++)
			CHECK_INT(done[i], i < 97);
		finish(be);
	}
}
