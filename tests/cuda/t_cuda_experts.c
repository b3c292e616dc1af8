/* tests/cuda/t_cuda_experts.c - route and experts of the CUDA backend, on the emulated device or on a GPU. The choice of
 * experts is compared with the CPU's, their products with the same products one by one (experts_each()). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/common/operands.h"
#include "tests/cuda/cuda_test.h"
#include "tests/lib/levels.h"

/* ---- the choice ---- */

enum { TOKENS = 3 };

/* A case: kind 0: a softmax of the experts of a token, 1: of all experts, 2: sigmoids with a bias; with factors and a
 * shared expert if `more` is 1. Scores are coarse, so that many are equal, and some or all of a token's are NaN. */
struct choice {
	int32_t n_expert, n_used;
	int kind, more;
	float *score, *bias, *scale, shared[TOKENS];
};

static void choice_fill(struct choice *c)
{
	c->score = must_alloc((size_t)(TOKENS * c->n_expert) * sizeof(float));
	c->bias = must_alloc((size_t)c->n_expert * sizeof(float));
	c->scale = must_alloc((size_t)c->n_expert * sizeof(float));
	for (int32_t i = 0; i < TOKENS * c->n_expert; i++) {
		float x = floorf(test_randf(-40, 40)) / 8;

		c->score[i] = (i >= c->n_expert && test_rand() % 8 == 0) || i >= 2 * c->n_expert ? NAN : x;
	}
	for (int32_t e = 0; e < c->n_expert; e++) {
		c->bias[e] = floorf(test_randf(-4, 4)) / 8;
		c->scale[e] = test_randf(0.5f, 2);
	}
	for (int i = 0; i < TOKENS; i++)
		c->shared[i] = test_randf(-3, 3);
}

/* Compute a case on a backend. Return route_args.out, which the caller frees. */
static float *choice_run(struct backend *be, const struct choice *c)
{
	size_t values = TOKENS * (size_t)ROUTE_COLS(c->n_used);
	float *got = must_alloc(values * sizeof *got);
	struct tensor out = tensor_new(be, DT_F32, TOKENS, ROUTE_COLS(c->n_used), NULL),
		      score = tensor_new(be, DT_F32, TOKENS, c->n_expert, c->score),
		      bias = tensor_new(be, DT_F32, 1, c->n_expert, c->bias),
		      scale = tensor_new(be, DT_F32, 1, c->n_expert, c->scale),
		      shared = tensor_new(be, DT_F32, TOKENS, 1, c->shared);
	struct tensor *all[] = { &out, &score, &bias, &scale, &shared };

	be->ops->route(be,
	               &(struct route_args){ .out = &out,
	                                     .score = &score,
	                                     .bias = c->kind == 2 ? &bias : NULL,
	                                     .scale = c->more ? &scale : NULL,
	                                     .shared = c->more ? &shared : NULL,
	                                     .n_used = c->n_used,
	                                     .whole = c->kind == 1,
	                                     .sigmoid = c->kind == 2 },
	               TOKENS);
	be->ops->read(be, &out, 0, got, values * sizeof *got);
	CHECK_MSG(be->ops->sync(be) == 0, "%s", be->err);
	for (size_t i = 0; i < LEN(all); i++)
		be->ops->drop(be, all[i]);
	return got;
}

/* 1 if both values have the same bits or are NaN. On a GPU, exp() may differ in the last bits of a double. */
static int same_value(float a, float b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b);
	return test_cuda_is_device() ? fabsf(a - b) <= 1e-6f * fabsf(b) : a == b;
}

TEST(choice_of_experts_is_the_cpus)
{
	static const int32_t shape[][2] = { { 1, 1 }, { 5, 2 }, { 33, 33 }, { 128, 8 }, { EXPERTS_MAX, 10 } };
	struct backend *be = open_cuda(), *cpu = open_level("c", 1);

	for (size_t s = 0; s < LEN(shape); s++)
		for (int k = 0; k < 6; k++) {
			struct choice c = { shape[s][0], shape[s][1], k / 2, k % 2, NULL, NULL, NULL, { 0 } };
			float *got, *want;

			choice_fill(&c);
			got = choice_run(be, &c);
			want = choice_run(cpu, &c);
			for (int32_t i = 0; i < TOKENS * ROUTE_COLS(c.n_used); i++)
				CHECK_MSG(same_value(got[i], want[i]),
				          "%d of %d experts, kind %d, value %d: %g, not %g", c.n_used, c.n_expert, k, i,
				          (double)got[i], (double)want[i]);
			free(got);
			free(want);
			free(c.score);
			free(c.bias);
			free(c.scale);
		}
	be->ops->close(be);
	cpu->ops->close(cpu);
}

/* ---- the products ---- */

enum { EXPERTS = 5, WIDTH = 160, COLS = 96, SHARED_WIDTH = 224, MOST = 8, TENSORS = 7 * (EXPERTS + 1) };

/* Tensors of a test, and the bytes of weights, which must stay until the weights are dropped. */
static struct {
	struct tensor *t[TENSORS];
	void *bytes[TENSORS];
	int n;
} held;

static void weight_make(struct backend *be, struct tensor *t, enum dtype type, int32_t rows, int32_t cols)
{
	size_t n = (size_t)rows * (size_t)cols;
	float *x = must_alloc(n * sizeof *x);
	void *bytes = must_alloc((size_t)dtype_bytes(type, n));

	for (size_t i = 0; i < n; i++)
		x[i] = test_randf(-0.2f, 0.2f);
	CHECK_INT(dtype_from_f32(type, bytes, x, (int64_t)n), 0);
	*t = (struct tensor){ .type = type, .rows = rows, .cols = cols };
	CHECK_INT(be->ops->load_weight(be, t, bytes, 0), 0);
	held.bytes[held.n] = bytes;
	held.t[held.n++] = t;
	free(x);
}

static void bias_make(struct backend *be, struct tensor *t, int32_t cols)
{
	float x[SHARED_WIDTH];

	for (int32_t i = 0; i < cols; i++)
		x[i] = test_randf(-1, 1);
	*t = tensor_new(be, DT_F32, 1, cols, x);
	held.bytes[held.n] = NULL;
	held.t[held.n++] = t;
}

static void expert_make(struct backend *be, struct expert *e, enum dtype type, int32_t width, int biases)
{
	*e = (struct expert){ 0 };
	weight_make(be, &e->gate, type, width, COLS);
	weight_make(be, &e->up, type, width, COLS);
	weight_make(be, &e->down, type, COLS, width);
	if (!biases)
		return;
	bias_make(be, &e->gate_bias, width);
	bias_make(be, &e->up_bias, width);
	bias_make(be, &e->down_bias, COLS);
}

static void experts_compare(struct backend *be, struct experts_args *a, int32_t n, const char *what)
{
	size_t bytes = (size_t)n * COLS * sizeof(float);
	float got[MOST * COLS], want[MOST * COLS];

	be->ops->experts(be, a, n);
	be->ops->read(be, a->out, 0, got, bytes);
	experts_each(be, a, n);
	be->ops->read(be, a->out, 0, want, bytes);
	CHECK_MSG(be->ops->sync(be) == 0, "%s", be->err);
	if (test_cuda_is_device())
		CHECK_MSG(test_nmse(got, want, n * COLS) < 1e-10, "%s: %d tokens differ", what, n);
	else
		CHECK_MSG(!memcmp(got, want, bytes), "%s: %d tokens differ", what, n);
}

/* Experts of one type of weights: every second type has biases and no shared expert. */
static void experts_try(struct backend *be, enum dtype type, int kind)
{
	struct expert expert[EXPERTS], shared;
	float host[MOST * ROUTE_COLS(3)], weight[MOST], x[MOST * COLS], route[MOST][ROUTE_COLS(3)];
	int32_t token[MOST];
	struct tensor table, tx, tr, out = tensor_new(be, DT_F32, MOST, COLS, NULL),
				     hidden = tensor_new(be, DT_F32, MOST, SHARED_WIDTH, NULL),
				     in = tensor_new(be, DT_F32, MOST, COLS, NULL),
				     part = tensor_new(be, DT_F32, MOST, COLS, NULL);
	struct tensor *all[] = { &table, &tx, &tr, &out, &hidden, &in, &part };
	struct experts_args a = { .out = &out,
		                  .x = &tx,
		                  .route = &tr,
		                  .expert = expert,
		                  .shared = kind % 2 ? NULL : &shared,
		                  .table = &table,
		                  .n_expert = EXPERTS,
		                  .n_used = 3,
		                  .act = (enum activation)(kind % 3),
		                  .hidden = &hidden,
		                  .in = &in,
		                  .part = &part,
		                  .host = host,
		                  .weight = weight,
		                  .token = token };

	held.n = 0;
	for (int e = 0; e < EXPERTS; e++)
		expert_make(be, &expert[e], type, WIDTH, kind % 2);
	expert_make(be, &shared, type, SHARED_WIDTH, 0);
	for (size_t i = 0; i < LEN(x); i++)
		x[i] = test_randf(-2, 2);
	for (int i = 0; i < MOST; i++) {
		int first = (int)(test_rand() % 3);

		for (int k = 0; k < 3; k++) {
			route[i][k] = (float)(first + k);
			route[i][3 + k] = test_randf(0, 1);
		}
		route[i][6] = test_randf(0, 1);
	}
	tx = tensor_new(be, DT_F32, MOST, COLS, x);
	tr = tensor_new(be, DT_F32, MOST, ROUTE_COLS(3), &route[0][0]);
	CHECK_INT(be->ops->expert_table(be, &table, expert, EXPERTS), 0);
	experts_compare(be, &a, 1, dtype_info(type)->name);
	experts_compare(be, &a, 3, dtype_info(type)->name);
	experts_compare(be, &a, MOST, dtype_info(type)->name);
	for (int i = 0; i < held.n; i++) {
		be->ops->drop(be, held.t[i]);
		free(held.bytes[i]);
	}
	for (size_t i = 0; i < LEN(all); i++)
		be->ops->drop(be, all[i]);
}

TEST(experts_have_the_bits_of_single_products)
{
	static const enum dtype type[] = { DT_F16, DT_Q4_0, DT_F32, DT_Q8_0, DT_BF16, DT_Q5_1 };
	struct backend *be = open_cuda();

	for (size_t i = 0; i < LEN(type); i++)
		experts_try(be, type[i], (int)i);
	be->ops->close(be);
}

TEST(operands_are_checked)
{
	struct backend *be = open_cuda();
	struct tensor x = tensor_new(be, DT_F32, 2, 8, NULL), out = tensor_new(be, DT_F32, 2, ROUTE_COLS(2), NULL);

	be->ops->route(be, &(struct route_args){ .out = &out, .score = &x, .n_used = 3 }, 2);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "route of 2 tokens got operands of the wrong shape"));
	be->ops->route(be, &(struct route_args){ .out = &out, .score = &x, .bias = &out, .n_used = 2 }, 2);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "route of 2 tokens got operands of the wrong shape"));
	be->ops->experts(be, &(struct experts_args){ .out = &x, .x = &x, .route = &out, .n_expert = 8, .n_used = 2 },
	                 2);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "experts of 2 tokens got operands of the wrong shape"));
	be->ops->drop(be, &x);
	be->ops->drop(be, &out);
	be->ops->close(be);
}
