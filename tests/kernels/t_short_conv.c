/* tests/kernels/t_short_conv.c - the gated short convolution of recurrent layers: compared with computations in double
 * for several widths and numbers of taps, and for several divisions of the tokens among calls. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "tests/lib/levels.h"

struct conv {
	int32_t n, cols, taps;
	float *in, *w, *state;
};

static float *randoms(size_t n)
{
	float *x = must_alloc((n + 1) * sizeof *x);

	for (size_t i = 0; i < n; i++)
		x[i] = test_randf(-1, 1);
	return x;
}

/* Compute out [n][cols] and the next state [taps - 1][cols], in calls of `step` tokens with `threads` threads. */
static void run(const struct conv *c, int32_t step, int threads, float *out, float *next)
{
	struct backend *be = open_level("c", threads);
	struct tensor w = tensor_new(be, DT_F32, c->cols, c->taps, c->w), state[2];
	int now = 0;

	for (int i = 0; i < 2; i++)
		state[i] = tensor_new(be, DT_F32, c->taps - 1, c->cols, c->state);
	for (int32_t at = 0, n; at < c->n; at += n, now = !now) {
		n = c->n - at < step ? c->n - at : step;
		struct tensor in = tensor_new(be, DT_F32, n, 3 * c->cols, c->in + (size_t)at * 3 * (size_t)c->cols);
		struct tensor to = tensor_new(be, DT_F32, n, c->cols, NULL);

		be->ops->short_conv(be,
		                    &(struct short_conv){ .out = &to,
		                                          .in = &in,
		                                          .w = &w,
		                                          .state = &state[now],
		                                          .next = &state[!now],
		                                          .taps = c->taps },
		                    n);
		be->ops->read(be, &to, 0, out + (size_t)at * (size_t)c->cols, 4 * (size_t)n * (size_t)c->cols);
		be->ops->drop(be, &in);
		be->ops->drop(be, &to);
	}
	be->ops->read(be, &state[now], 0, next, 4 * (size_t)(c->taps - 1) * (size_t)c->cols);
	CHECK_MSG(!be->ops->sync(be), "%s", be->err);
	be->ops->drop(be, &w);
	be->ops->drop(be, &state[0]);
	be->ops->drop(be, &state[1]);
	be->ops->close(be);
}

static double gated(const struct conv *c, int32_t i, int32_t col)
{
	if (i < 0)
		return (double)c->state[(c->taps - 1 + i) * c->cols + col];
	return (double)c->in[(3 * i) * c->cols + col] * (double)c->in[(3 * i + 2) * c->cols + col];
}

TEST(it_is_the_convolution_of_double_at_every_size)
{
	static const int32_t size[][3] = { { 1, 1, 2 }, { 1, 5, 3 },    { 2, 33, 4 },    { 7, 300, 3 },
		                           { 3, 1, 9 }, { 64, 513, 3 }, { 40, 2048, 3 }, { 5, 17, 64 } };

	for (size_t k = 0; k < LEN(size); k++) {
		struct conv c = { .n = size[k][0], .cols = size[k][1], .taps = size[k][2] };
		size_t n = (size_t)c.n * (size_t)c.cols, kept = (size_t)(c.taps - 1) * (size_t)c.cols;
		float *out, *next, *again, *state;

		c.in = randoms(3 * n);
		c.w = randoms((size_t)c.cols * (size_t)c.taps);
		c.state = randoms(kept);
		out = randoms(n);
		next = randoms(kept);
		again = randoms(n);
		state = randoms(kept);
		run(&c, c.n, 1, out, next);
		for (int32_t i = 0; i < c.n; i++)
			for (int32_t col = 0; col < c.cols; col++) {
				double sum = 0;

				for (int32_t t = 0; t < c.taps; t++)
					sum += (double)c.w[col * c.taps + t] * gated(&c, i - c.taps + 1 + t, col);
				sum *= (double)c.in[(3 * i + 1) * c.cols + col];
				CHECK_MSG(fabs((double)out[i * c.cols + col] - sum) < 1e-5 * c.taps,
				          "size %zu, token %d, column %d: %g, expected %g", k, i, col,
				          (double)out[i * c.cols + col], sum);
			}
		for (int32_t t = 0; t < c.taps - 1; t++)
			for (int32_t col = 0; col < c.cols; col++)
				CHECK(next[t * c.cols + col] == (float)gated(&c, c.n - c.taps + 1 + t, col));
		/* The bits are the same in any number of calls and threads. */
		for (int32_t step = 1; step <= c.n; step += 1 + step / 2) {
			run(&c, step, 1 + step % 3, again, state);
			CHECK_MSG(!memcmp(out, again, n * sizeof *out) && !memcmp(next, state, kept * sizeof *next),
			          "size %zu in calls of %d", k, step);
		}
		free(c.in);
		free(c.w);
		free(c.state);
		free(out);
		free(next);
		free(again);
		free(state);
	}
}

TEST(wrong_shapes_are_refused)
{
	struct backend *be = open_level("c", 1);
	struct tensor in = tensor_new(be, DT_F32, 2, 24, NULL), out = tensor_new(be, DT_F32, 2, 8, NULL),
		      w = tensor_new(be, DT_F32, 8, 3, NULL);
	struct tensor state = tensor_new(be, DT_F32, 2, 8, NULL), next = tensor_new(be, DT_F32, 2, 8, NULL),
		      wide = tensor_new(be, DT_F32, 2, 25, NULL);
	const struct short_conv right = { .out = &out, .in = &in, .w = &w, .state = &state, .next = &next, .taps = 3 };
	struct short_conv wrong[6];

	for (size_t i = 0; i < LEN(wrong); i++)
		wrong[i] = right;
	wrong[0].in = &wide;
	wrong[1].taps = 4;
	wrong[2].next = &state;
	wrong[3].state = &w;
	wrong[4].w = &state;
	wrong[5].taps = 1;
	be->ops->short_conv(be, &right, 2);
	CHECK_MSG(!be->ops->sync(be), "%s", be->err);
	for (size_t i = 0; i < LEN(wrong); i++) {
		be->ops->short_conv(be, &wrong[i], 2);
		CHECK_MSG(be->ops->sync(be) &&
		                  strstr(be->err, "short_conv of 2 tokens got operands of the wrong shape"),
		          "%zu: %s", i, be->err);
	}
	be->ops->short_conv(be, &right, 3);
	CHECK(be->ops->sync(be));
	for (size_t i = 0; i < 6; i++)
		be->ops->drop(be, (struct tensor *[]){ &in, &out, &w, &state, &next, &wide }[i]);
	be->ops->close(be);
}
