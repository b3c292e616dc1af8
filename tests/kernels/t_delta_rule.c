/* tests/kernels/t_delta_rule.c - the gated delta rule, state spaces, ungated convolutions and gates of recurrent
 * layers: compared with computations in double at every CPU level, for several numbers and sizes of heads and for
 * several divisions of the tokens among calls. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "tests/lib/levels.h"


/* Open a backend at this level, or at level "c" (plain C) if this machine does not have the level. */
static struct backend *open_best(const char *level, int threads)
{
	struct backend *be = open_level(level, threads);

	return be ? be : open_level("c", threads);
}

static float *randoms(size_t n, double lo, double hi)
{
	float *x = must_alloc((n + 1) * sizeof *x);

	for (size_t i = 0; i < n; i++)
		x[i] = test_randf((float)lo, (float)hi);
	return x;
}

struct rule {
	int32_t n, keys, values, key_dim, value_dim;
	int grouped;
	float *qkv, *alpha, *beta, *decay, *dt, *state;
};

static size_t row_of(const struct rule *r)
{
	return (size_t)(2 * r->keys * r->key_dim + r->values * r->value_dim);
}
static size_t out_of(const struct rule *r)
{
	return (size_t)(r->values * r->value_dim);
}
static size_t state_of(const struct rule *r)
{
	return out_of(r) * (size_t)r->key_dim;
}

/* Run the rule in calls of `step` tokens. */
static void run(const struct rule *r, const char *level, int32_t step, int threads, float *out, float *next)
{
	struct backend *be = open_best(level, threads);
	struct tensor decay = tensor_new(be, DT_F32, 1, r->values, r->decay),
		      dt = tensor_new(be, DT_F32, 1, r->values, r->dt), state[2];
	int now = 0;

	for (int i = 0; i < 2; i++)
		state[i] = tensor_new(be, DT_F32, r->values * r->key_dim, r->value_dim, r->state);
	for (int32_t at = 0, n; at < r->n; at += n, now = !now) {
		n = r->n - at < step ? r->n - at : step;
		struct tensor qkv = tensor_new(be, DT_F32, n, (int32_t)row_of(r), r->qkv + (size_t)at * row_of(r));
		struct tensor alpha = tensor_new(be, DT_F32, n, r->values, r->alpha + at * r->values);
		struct tensor beta = tensor_new(be, DT_F32, n, r->values, r->beta + at * r->values);
		struct tensor to = tensor_new(be, DT_F32, n, (int32_t)out_of(r), NULL);

		be->ops->delta_rule(be,
		                    &(struct delta_rule){ .out = &to,
		                                          .qkv = &qkv,
		                                          .alpha = &alpha,
		                                          .beta = &beta,
		                                          .decay = &decay,
		                                          .dt = &dt,
		                                          .state = &state[now],
		                                          .next = &state[!now],
		                                          .n_key_head = r->keys,
		                                          .n_value_head = r->values,
		                                          .key_dim = r->key_dim,
		                                          .value_dim = r->value_dim,
		                                          .grouped = r->grouped },
		                    n);
		be->ops->read(be, &to, 0, out + (size_t)at * out_of(r), 4 * (size_t)n * out_of(r));
		for (int i = 0; i < 4; i++)
			be->ops->drop(be, (struct tensor *[]){ &qkv, &alpha, &beta, &to }[i]);
	}
	be->ops->read(be, &state[now], 0, next, 4 * state_of(r));
	CHECK_MSG(!be->ops->sync(be), "%s", be->err);
	for (int i = 0; i < 4; i++)
		be->ops->drop(be, (struct tensor *[]){ &decay, &dt, &state[0], &state[1] }[i]);
	be->ops->close(be);
}

static double length_of(const float *x, int32_t n)
{
	double sum = 1e-6;

	for (int32_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return sqrt(sum);
}

/* Compute the rule by its definition, with the whole state matrix of each value head. */
static void in_double(const struct rule *r, float *out, float *next)
{
	double *s = must_alloc(state_of(r) * sizeof *s);
	size_t dim = (size_t)r->value_dim;

	for (size_t i = 0; i < state_of(r); i++)
		s[i] = (double)r->state[i];
	for (int32_t t = 0; t < r->n; t++)
		for (int32_t h = 0; h < r->values; h++) {
			int32_t from = r->grouped ? h / (r->values / r->keys) : h % r->keys;
			const float *q = r->qkv + (size_t)t * row_of(r) + from * r->key_dim,
				    *k = q + r->keys * r->key_dim;
			const float *v = r->qkv + (size_t)t * row_of(r) + 2 * r->keys * r->key_dim + h * r->value_dim;
			double g = exp((double)r->decay[h] *
			               log1p(exp((double)r->alpha[t * r->values + h] + (double)r->dt[h])));
			double b = 1 / (1 + exp(-(double)r->beta[t * r->values + h])),
			       q_unit = 1 / length_of(q, r->key_dim), k_unit = 1 / length_of(k, r->key_dim);

			for (size_t c = 0; c < dim; c++) {
				double *at = s + (size_t)h * (size_t)r->key_dim * dim + c, was = 0, sum = 0;

				for (size_t i = 0; i < (size_t)r->key_dim; i++)
					was += (at[i * dim] *= g) * (double)k[i] * k_unit;
				for (size_t i = 0; i < (size_t)r->key_dim; i++)
					sum += (at[i * dim] += b * ((double)v[c] - was) * (double)k[i] * k_unit) *
					       (double)q[i] * q_unit;
				out[(size_t)t * out_of(r) + (size_t)h * dim + c] = (float)(sum / sqrt(r->key_dim));
			}
		}
	for (size_t i = 0; i < state_of(r); i++)
		next[i] = (float)s[i];
	free(s);
}

TEST(it_is_the_rule_in_double_at_every_size)
{
	static const struct rule size[] = {
		{ .n = 1, .keys = 1, .values = 1, .key_dim = 1, .value_dim = 1 },
		{ .n = 3, .keys = 2, .values = 4, .key_dim = 5, .value_dim = 7 },
		{ .n = 9, .keys = 2, .values = 6, .key_dim = 8, .value_dim = 33, .grouped = 1 },
		{ .n = 40, .keys = 1, .values = 2, .key_dim = 128, .value_dim = 128 },
		{ .n = 5, .keys = 3, .values = 3, .key_dim = 256, .value_dim = 65 },
		{ .n = 70, .keys = 2, .values = 4, .key_dim = 17, .value_dim = 100 },
	};

	for (size_t i = 0; i < LEN(size); i++) {
		struct rule r = size[i];
		size_t n = (size_t)r.n, bytes = n * out_of(&r) * sizeof(float), kept = state_of(&r) * sizeof(float);
		float *want = must_alloc(bytes), *got = must_alloc(bytes), *again = must_alloc(bytes);
		float *state = must_alloc(kept), *next = must_alloc(kept), *later = must_alloc(kept);

		r.qkv = randoms(n * row_of(&r), -1, 1);
		r.alpha = randoms(n * (size_t)r.values, -3, 3);
		r.beta = randoms(n * (size_t)r.values, -3, 3);
		r.decay = randoms((size_t)r.values, -2, -0.01);
		r.dt = randoms((size_t)r.values, -2, 2);
		r.state = randoms(state_of(&r), -1, 1);
		in_double(&r, want, state);
		for (int l = 0; l < N_LEVELS; l++) {
			run(&r, levels[l], r.n, 1, got, next);
			CHECK_MSG(test_nmse(got, want, n * out_of(&r)) < 1e-11, "size %zu, %s: error %.3g", i,
			          levels[l], test_nmse(got, want, n * out_of(&r)));
			CHECK_MSG(test_nmse(next, state, state_of(&r)) < 1e-11, "size %zu, %s: state %.3g", i,
			          levels[l], test_nmse(next, state, state_of(&r)));
			for (int32_t step = 1; step <= r.n; step += 1 + step) {
				run(&r, levels[l], step, 1 + step % 3, again, later);
				CHECK_MSG(!memcmp(got, again, bytes) && !memcmp(next, later, kept),
				          "size %zu, %s in calls of %d", i, levels[l], step);
			}
		}
		for (int k = 0; k < 12; k++)
			free((float *[]){ want, got, again, state, next, later, r.qkv, r.alpha, r.beta, r.decay, r.dt,
			                  r.state }[k]);
	}
}

TEST(a_convolution_without_gates_ends_in_silu)
{
	enum { N = 9, COLS = 700, TAPS = 4 };
	float *bias = randoms(COLS, -1, 1);
	float *in = randoms(N * COLS, -2, 2), *w = randoms(COLS * TAPS, -1, 1),
	      *state = randoms((TAPS - 1) * COLS, -2, 2), *got = randoms(N * COLS, 0, 0);

	for (int l = 0; l < N_LEVELS; l++) {
		struct backend *be = open_best(levels[l], 2);
		struct tensor x = tensor_new(be, DT_F32, N, COLS, in), weights = tensor_new(be, DT_F32, COLS, TAPS, w),
			      to = tensor_new(be, DT_F32, N, COLS, NULL);
		struct tensor add = tensor_new(be, DT_F32, 1, COLS, bias);
		struct tensor before = tensor_new(be, DT_F32, TAPS - 1, COLS, state),
			      after = tensor_new(be, DT_F32, TAPS - 1, COLS, NULL);

		be->ops->short_conv(be,
		                    &(struct short_conv){ .out = &to,
		                                          .in = &x,
		                                          .w = &weights,
		                                          .state = &before,
		                                          .next = &after,
		                                          .taps = TAPS,
		                                          .bias = l ? &add : NULL },
		                    N);
		be->ops->read(be, &to, 0, got, 4 * N * COLS);
		CHECK_MSG(!be->ops->sync(be), "%s", be->err);
		for (int i = 0; i < N; i++)
			for (int c = 0; c < COLS; c++) {
				double sum = l ? (double)bias[c] : 0;

				for (int t = 0; t < TAPS; t++)
					sum += (double)w[c * TAPS + t] *
					       (double)(i - TAPS + 1 + t < 0 ? state[(i + t) * COLS + c]
					                                     : in[(i - TAPS + 1 + t) * COLS + c]);
				CHECK(fabs((double)got[i * COLS + c] - sum / (1 + exp(-sum))) < 2e-6);
			}
		be->ops->read(be, &after, 0, got, 4 * (TAPS - 1) * COLS);
		CHECK(!memcmp(got, in + (N - TAPS + 1) * COLS, 4 * (TAPS - 1) * COLS));
		for (int i = 0; i < 6; i++)
			be->ops->drop(be, (struct tensor *[]){ &x, &weights, &to, &before, &after, &add }[i]);
		be->ops->close(be);
	}
	for (int i = 0; i < 5; i++)
		free((float *[]){ in, w, state, got, bias }[i]);
}

struct space {
	int32_t n, heads, groups, rows, cols;
	float *xbc, *step, *decay, *bias, *skip, *state;
};

static void run_space(const struct space *s, const char *level, int32_t cut, int threads, float *out, float *next)
{
	struct backend *be = open_best(level, threads);
	int32_t width = s->heads * s->cols, row = width + 2 * s->groups * s->rows, now = 0;
	struct tensor decay = tensor_new(be, DT_F32, 1, s->heads, s->decay),
		      bias = tensor_new(be, DT_F32, 1, s->heads, s->bias);
	struct tensor skip = tensor_new(be, DT_F32, s->heads, 1, s->skip), state[2];

	for (int i = 0; i < 2; i++)
		state[i] = tensor_new(be, DT_F32, s->heads * s->rows, s->cols, s->state);
	for (int32_t at = 0, n; at < s->n; at += n, now = !now) {
		n = s->n - at < cut ? s->n - at : cut;
		struct tensor xbc = tensor_new(be, DT_F32, n, row, s->xbc + at * row),
			      step = tensor_new(be, DT_F32, n, s->heads, s->step + at * s->heads);
		struct tensor to = tensor_new(be, DT_F32, n, width, NULL);

		be->ops->state_space(be,
		                     &(struct state_space){ .out = &to,
		                                            .xbc = &xbc,
		                                            .step = &step,
		                                            .decay = &decay,
		                                            .bias = &bias,
		                                            .skip = &skip,
		                                            .state = &state[now],
		                                            .next = &state[!now],
		                                            .n_head = s->heads,
		                                            .n_group = s->groups,
		                                            .state_dim = s->rows,
		                                            .head_dim = s->cols },
		                     n);
		be->ops->read(be, &to, 0, out + at * width, 4 * (size_t)(n * width));
		for (int i = 0; i < 3; i++)
			be->ops->drop(be, (struct tensor *[]){ &xbc, &step, &to }[i]);
	}
	be->ops->read(be, &state[now], 0, next, 4 * (size_t)(width * s->rows));
	CHECK_MSG(!be->ops->sync(be), "%s", be->err);
	for (int i = 0; i < 5; i++)
		be->ops->drop(be, (struct tensor *[]){ &decay, &bias, &skip, &state[0], &state[1] }[i]);
	be->ops->close(be);
}

TEST(it_is_the_state_space_in_double_at_every_size)
{
	static const struct space size[] = {
		{ .n = 1, .heads = 1, .groups = 1, .rows = 1, .cols = 1 },
		{ .n = 4, .heads = 6, .groups = 2, .rows = 5, .cols = 9 },
		{ .n = 33, .heads = 4, .groups = 1, .rows = 128, .cols = 64 },
		{ .n = 7, .heads = 2, .groups = 2, .rows = 256, .cols = 70 },
	};

	for (size_t k = 0; k < LEN(size); k++) {
		struct space s = size[k];
		int32_t width = s.heads * s.cols, row = width + 2 * s.groups * s.rows;
		size_t values = (size_t)(s.n * width), kept = (size_t)(width * s.rows);
		float *want = must_alloc(values * sizeof *want), *got = must_alloc(values * sizeof *got),
		      *again = must_alloc(values * sizeof *again);
		float *next = must_alloc(kept * sizeof *next), *later = must_alloc(kept * sizeof *later);
		double *d = must_alloc(kept * sizeof *d);

		s.xbc = randoms((size_t)(s.n * row), -1, 1);
		s.step = randoms((size_t)(s.n * s.heads), -3, 3);
		s.decay = randoms((size_t)s.heads, -2, -0.01);
		s.bias = randoms((size_t)s.heads, -2, 2);
		s.skip = randoms((size_t)s.heads, -1, 1);
		s.state = randoms(kept, -1, 1);
		for (size_t i = 0; i < kept; i++)
			d[i] = (double)s.state[i];
		for (int32_t t = 0; t < s.n; t++)
			for (int32_t h = 0; h < s.heads; h++) {
				const float *x = s.xbc + t * row + h * s.cols,
					    *b = s.xbc + t * row + width + h / (s.heads / s.groups) * s.rows,
					    *c = b + s.groups * s.rows;
				double dt = log1p(exp((double)s.step[t * s.heads + h] + (double)s.bias[h])),
				       g = exp((double)s.decay[h] * dt);

				for (int32_t j = 0; j < s.cols; j++) {
					double sum = (double)s.skip[h] * (double)x[j];

					for (int32_t i = 0; i < s.rows; i++) {
						double *at = &d[(h * s.rows + i) * s.cols + j];

						*at = g * *at + (double)b[i] * dt * (double)x[j];
						sum += (double)c[i] * *at;
					}
					want[t * width + h * s.cols + j] = (float)sum;
				}
			}
		for (int l = 0; l < N_LEVELS; l++) {
			run_space(&s, levels[l], s.n, 1, got, next);
			CHECK_MSG(test_nmse(got, want, values) < 1e-11, "size %zu, %s: error %.3g", k, levels[l],
			          test_nmse(got, want, values));
			for (int32_t cut = 1; cut <= s.n; cut += 1 + cut) {
				run_space(&s, levels[l], cut, 1 + cut % 3, again, later);
				CHECK_MSG(!memcmp(got, again, values * sizeof *got) &&
				                  !memcmp(next, later, kept * sizeof *next),
				          "size %zu, %s in calls of %d", k, levels[l], cut);
			}
		}
		for (int i = 0; i < 11; i++)
			free((float *[]){ want, got, again, next, later, s.xbc, s.step, s.decay, s.bias, s.skip,
			                  s.state }[i]);
		free(d);
	}
}

TEST(gates_of_every_size)
{
	for (int k = 0; k < 12; k++) {
		struct backend *be = open_best(levels[k % N_LEVELS], 1 + k % 3);
		int32_t n = 1 + k * k, cols = 1 + 97 * k;
		size_t values = (size_t)n * (size_t)cols;
		float *x = randoms(values, -3, 3), *g = randoms(values, -9, 9), *got = randoms(values, 0, 0);
		struct tensor to = tensor_new(be, DT_F32, n, cols, x), gate = tensor_new(be, DT_F32, n, cols, g);

		g[0] = -200;
		be->ops->write(be, &gate, 0, g, 4);
		be->ops->gate(be, &to, &gate, (enum gate_kind)(k % 3), n);
		be->ops->read(be, &to, 0, got, 4 * values);
		CHECK_MSG(!be->ops->sync(be), "%s", be->err);
		for (size_t i = 0; i < values; i++) {
			double at = (double)g[i],
			       u = k % 3 == GATE_GELU ? 2 * sqrt(2 / acos(-1)) * (at + 0.044715 * at * at * at) : at;
			double want = (double)x[i] * (k % 3 == GATE_SIGMOID ? 1 : at) / (1 + exp(-u));

			CHECK_MSG(fabs((double)got[i] - want) < 1e-5, "%d values: %g, expected %g", (int)values,
			          (double)got[i], want);
		}
		be->ops->drop(be, &to);
		be->ops->drop(be, &gate);
		be->ops->close(be);
		free(x);
		free(g);
		free(got);
	}
}

TEST(wrong_shapes_are_refused)
{
	struct backend *be = open_level("c", 1);
	struct tensor qkv = tensor_new(be, DT_F32, 2, 2 * 3 + 4 * 5, NULL), out = tensor_new(be, DT_F32, 2, 20, NULL),
		      heads = tensor_new(be, DT_F32, 2, 4, NULL);
	struct tensor one = tensor_new(be, DT_F32, 1, 4, NULL), state = tensor_new(be, DT_F32, 12, 5, NULL),
		      next = tensor_new(be, DT_F32, 12, 5, NULL);
	const struct delta_rule right = { .out = &out,
		                          .qkv = &qkv,
		                          .alpha = &heads,
		                          .beta = &heads,
		                          .decay = &one,
		                          .dt = &one,
		                          .state = &state,
		                          .next = &next,
		                          .n_key_head = 1,
		                          .n_value_head = 4,
		                          .key_dim = 3,
		                          .value_dim = 5 };
	struct delta_rule wrong[6];

	for (size_t i = 0; i < 6; i++)
		wrong[i] = right;
	wrong[0].next = &state;
	wrong[1].n_key_head = 3;
	wrong[2].key_dim = 4;
	wrong[3].alpha = &one;
	wrong[4].out = &qkv;
	wrong[5].decay = &heads;
	be->ops->delta_rule(be, &right, 2);
	CHECK_MSG(!be->ops->sync(be), "%s", be->err);
	for (size_t i = 0; i < 6; i++) {
		be->ops->delta_rule(be, &wrong[i], 2);
		CHECK_MSG(be->ops->sync(be) &&
		                  strstr(be->err, "delta_rule of 2 tokens got operands of the wrong shape"),
		          "%zu: %s", i, be->err);
	}
	be->ops->gate(be, &out, &qkv, 0, 2);
	CHECK(be->ops->sync(be) && strstr(be->err, "gate of 2 rows got operands of the wrong shape"));
	for (size_t i = 0; i < 6; i++)
		be->ops->drop(be, (struct tensor *[]){ &qkv, &out, &heads, &one, &state, &next }[i]);
	be->ops->close(be);
}
