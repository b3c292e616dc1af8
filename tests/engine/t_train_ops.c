/* tests/engine/t_train_ops.c - every operation of training at odd sizes: compares forward results with double, and
 * gradients with central differences in double. */
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lab/train.h"

/* An operation in double: y[0 .. n_y) is a function of the inputs in[]. */
enum { INPUTS = 4 };
struct op {
	int32_t rows, cols, heads, dims, neox, rank, out;
	double eps;
	size_t n[INPUTS], n_y;
	const float *angles;
	float scale;
	void (*f)(const struct op *, double *const in[INPUTS], double *y);
};

static int32_t random_size(int32_t most)
{
	return 1 + (int32_t)(test_rand() % (uint64_t)most);
}

static float *randoms(size_t n, float width)
{
	float *x = calloc(n ? n : 1, sizeof *x);

	for (size_t i = 0; i < n; i++)
		x[i] = test_randf(-width, width);
	return x;
}

static double *doubles(const float *x, size_t n)
{
	double *d = calloc(n ? n : 1, sizeof *d);

	for (size_t i = 0; i < n; i++)
		d[i] = (double)x[i];
	return d;
}

/* Compare y with the function in double, and got[k] (if not NULL), the gradient of sum(c * y) with respect to input k,
 * with central differences. */
static void compare(const char *name, const struct op *o, float *const in[INPUTS], const float *y, const float *c,
                    float *const got[INPUTS])
{
	double *d[INPUTS], *at = calloc(o->n_y, sizeof *at), *low = calloc(o->n_y, sizeof *low);
	const double h = 1e-5;
	double worst = 0;

	for (int k = 0; k < INPUTS; k++)
		d[k] = doubles(in[k], o->n[k]);
	o->f(o, d, at);
	for (size_t i = 0; i < o->n_y; i++)
		worst = fmax(worst, fabs((double)y[i] - at[i]) / (1 + fabs(at[i])));
	CHECK_MSG(worst < 1e-5, "%s: forward is off by %g", name, worst);
	for (int k = 0; k < INPUTS; k++) {
		worst = 0;
		for (size_t i = 0; got[k] && i < o->n[k]; i++) {
			double was = d[k][i], want = 0;

			d[k][i] = was + h;
			o->f(o, d, at);
			d[k][i] = was - h;
			o->f(o, d, low);
			d[k][i] = was;
			for (size_t j = 0; j < o->n_y; j++)
				want += (double)c[j] * (at[j] - low[j]) / (2 * h);
			worst = fmax(worst, fabs((double)got[k][i] - want) / (1 + fabs(want)));
		}
		CHECK_MSG(worst < 2e-5, "%s: the gradient by input %d is off by %g", name, k, worst);
	}
	for (int k = 0; k < INPUTS; k++)
		free(d[k]);
	free(at);
	free(low);
}

static void norm_in_double(const struct op *o, double *const in[INPUTS], double *y)
{
	for (int32_t r = 0; r < o->rows; r++) {
		const double *x = in[0] + r * o->cols;
		double sum = 0;

		for (int32_t i = 0; i < o->cols; i++)
			sum += x[i] * x[i];
		for (int32_t i = 0; i < o->cols; i++)
			y[r * o->cols + i] = x[i] / sqrt(sum / o->cols + o->eps) * in[1][i];
	}
}

TEST(norm)
{
	for (int round = 0; round < test_rounds(30); round++) {
		struct op o = {
			.rows = random_size(7), .cols = random_size(40), .eps = (double)1e-5f, .f = norm_in_double
		};
		float *in[INPUTS] = { 0 }, *got[INPUTS] = { 0 }, *y, *c, *inv = randoms((size_t)o.rows, 1);

		o.n[0] = o.n_y = (size_t)(o.rows * o.cols);
		o.n[1] = (size_t)o.cols;
		in[0] = randoms(o.n[0], 2);
		in[1] = randoms(o.n[1], 2);
		y = randoms(o.n_y, 1);
		c = randoms(o.n_y, 1);
		got[0] = randoms(o.n[0], 0);
		got[1] = randoms(o.n[1], 0);
		train_norm(y, inv, in[0], in[1], o.cols, 1e-5f, 0, o.rows);
		train_norm_back(got[0], c, in[0], inv, in[1], o.cols, 0, o.rows);
		train_norm_back_weights(got[1], c, in[0], inv, o.cols, o.rows, 0, o.cols / 2);
		train_norm_back_weights(got[1], c, in[0], inv, o.cols, o.rows, o.cols / 2, o.cols);
		compare("norm", &o, in, y, c, got);
		for (int k = 0; k < 2; k++)
			free(in[k]), free(got[k]);
		free(y), free(c), free(inv);
	}
}

static void rope_in_double(const struct op *o, double *const in[INPUTS], double *y)
{
	int32_t dim = o->cols / o->heads;

	memcpy(y, in[0], o->n_y * sizeof *y);
	for (int32_t i = 0; i < o->rows * o->heads; i++)
		for (int32_t j = 0; j < o->dims / 2; j++) {
			int32_t a = i * dim + (o->neox ? j : 2 * j),
				b = i * dim + (o->neox ? j + o->dims / 2 : 2 * j + 1);
			double cs = (double)o->angles[i / o->heads * o->dims + 2 * j],
			       sn = (double)o->angles[i / o->heads * o->dims + 2 * j + 1];

			y[a] = in[0][a] * cs - in[0][b] * sn;
			y[b] = in[0][a] * sn + in[0][b] * cs;
		}
}

TEST(rotation_with_both_pairings)
{
	for (int round = 0; round < test_rounds(30); round++) {
		struct op o = {
			.rows = random_size(6), .heads = random_size(4), .neox = round % 2, .f = rope_in_double
		};
		int32_t half = random_size(5), dim = 2 * half + (int32_t)(test_rand() % 3);
		float *in[INPUTS] = { 0 }, *got[INPUTS] = { 0 }, *y, *angles;

		o.dims = 2 * half;
		o.cols = o.heads * dim;
		o.n[0] = o.n_y = (size_t)(o.rows * o.cols);
		/* arbitrary values: cos and sin times a factor */
		o.angles = angles = randoms((size_t)(o.rows * o.dims), 1);
		in[0] = randoms(o.n[0], 2);
		y = randoms(o.n_y, 0);
		memcpy(y, in[0], o.n_y * sizeof *y);
		got[0] = randoms(o.n[0], 1);
		train_rope(y, angles, o.heads, dim, o.dims, o.neox, 0, 0, o.rows);
		{
			float *c = randoms(o.n_y, 1);

			memcpy(got[0], c, o.n_y * sizeof *c);
			train_rope(got[0], angles, o.heads, dim, o.dims, o.neox, 1, 0, o.rows);
			compare("rotation", &o, in, y, c, got);
			free(c);
		}
		free(in[0]), free(got[0]), free(y), free(angles);
	}
}

static void glu_in_double(const struct op *o, double *const in[INPUTS], double *y)
{
	for (size_t i = 0; i < o->n_y; i++)
		y[i] = in[0][i] / (1 + exp(-in[0][i])) * in[1][i];
}

TEST(gated_feed_forward)
{
	for (int round = 0; round < test_rounds(20); round++) {
		struct op o = { .n_y = (size_t)random_size(60), .f = glu_in_double };
		float *in[INPUTS] = { randoms(o.n_y, 5), randoms(o.n_y, 2) },
		      *got[INPUTS] = { randoms(o.n_y, 1), randoms(o.n_y, 1) };
		float *y = randoms(o.n_y, 1), *c = randoms(o.n_y, 1);

		o.n[0] = o.n[1] = o.n_y;
		train_glu(y, in[0], in[1], o.n_y);
		train_glu_back(got[0], got[1], c, in[0], in[1], o.n_y);
		compare("gated feed-forward", &o, in, y, c, got);
		for (int k = 0; k < 2; k++)
			free(in[k]), free(got[k]);
		free(y), free(c);
	}
}

static void softmax_in_double(const struct op *o, double *const in[INPUTS], double *y)
{
	double sum = 0;

	for (size_t i = 0; i < o->n_y; i++)
		sum += y[i] = exp((double)o->scale * in[0][i]);
	for (size_t i = 0; i < o->n_y; i++)
		y[i] /= sum;
}

TEST(softmax)
{
	for (int round = 0; round < test_rounds(20); round++) {
		struct op o = { .n_y = (size_t)random_size(50), .scale = test_randf(0.1f, 1), .f = softmax_in_double };
		float *in[INPUTS] = { randoms(o.n_y, 4) }, *got[INPUTS] = { 0 }, *y = randoms(o.n_y, 0),
		      *c = randoms(o.n_y, 1);

		o.n[0] = o.n_y;
		for (size_t i = 0; i < o.n_y; i++)
			y[i] = o.scale * in[0][i];
		train_softmax(y, (int32_t)o.n_y);
		got[0] = randoms(o.n_y, 0);
		memcpy(got[0], c, o.n_y * sizeof *c);
		train_softmax_back(got[0], y, (int32_t)o.n_y, o.scale);
		compare("softmax", &o, in, y, c, got);
		free(in[0]), free(got[0]), free(y), free(c);
	}
}

/* Cross-entropy. o->heads: the token; y[0]: the loss. */
static void cross_in_double(const struct op *o, double *const in[INPUTS], double *y)
{
	double sum = 0;

	for (int32_t i = 0; i < o->cols; i++)
		sum += exp(in[0][i]);
	y[0] = log(sum) - in[0][o->heads];
}

TEST(cross_entropy)
{
	for (int round = 0; round < test_rounds(20); round++) {
		struct op o = { .cols = random_size(70), .n_y = 1, .f = cross_in_double };
		float c = test_randf(0.1f, 2), y, *in[INPUTS] = { 0 }, *got[INPUTS] = { 0 };

		o.heads = random_size(o.cols) - 1;
		o.n[0] = (size_t)o.cols;
		in[0] = randoms(o.n[0], 6);
		got[0] = randoms(o.n[0], 0);
		memcpy(got[0], in[0], o.n[0] * sizeof(float));
		y = (float)train_cross_entropy(got[0], o.cols, o.heads, c);
		compare("cross-entropy", &o, in, &y, &c, got);
		free(in[0]), free(got[0]);
	}
}

/* A linear layer with a LoRA adapter. in: x, W, A, B. */
static void linear_in_double(const struct op *o, double *const in[INPUTS], double *y)
{
	for (int32_t r = 0; r < o->rows; r++)
		for (int32_t i = 0; i < o->out; i++) {
			double sum = 0;

			for (int32_t k = 0; k < o->cols; k++) {
				double w = in[1][i * o->cols + k];

				for (int32_t q = 0; q < o->rank; q++)
					w += (double)o->scale * in[3][i * o->rank + q] * in[2][q * o->cols + k];
				sum += in[0][r * o->cols + k] * w;
			}
			y[r * o->out + i] = sum;
		}
}

TEST(linear_layers_with_and_without_an_adapter)
{
	struct backend *be = NULL;
	char why[160];

	CHECK_MSG(!backend_open(&be, "cpu", &(struct backend_options){ .threads = 2 }, why), "%s", why);
	for (int round = 0; be && round < test_rounds(30); round++) {
		struct op o = { .rows = random_size(20),
			        .cols = random_size(30),
			        .out = random_size(30),
			        .rank = round % 2 ? random_size(5) : 0,
			        .scale = test_randf(0.5f, 2),
			        .f = linear_in_double };
		float *in[INPUTS], *got[INPUTS], *y, *c, *low, *dlow;
		struct train_matrix m = { .rows = o.out, .cols = o.cols, .rank = o.rank, .scale = o.scale };

		o.n_y = (size_t)(o.rows * o.out);
		o.n[0] = (size_t)(o.rows * o.cols);
		o.n[1] = (size_t)(o.out * o.cols);
		o.n[2] = (size_t)(o.rank * o.cols);
		o.n[3] = (size_t)(o.out * o.rank);
		for (int k = 0; k < INPUTS; k++) {
			in[k] = randoms(o.n[k], 1);
			got[k] = randoms(o.n[k], 0);
		}
		y = randoms(o.n_y, 1);
		c = randoms(o.n_y, 1);
		low = randoms((size_t)(o.rows * o.rank), 1);
		dlow = randoms((size_t)(o.rows * o.rank), 1);
		m.w = (struct train_param){ .w = in[1], .g = got[1] };
		if (o.rank) {
			m.a = (struct train_param){ .w = in[2], .g = got[2] };
			m.b = (struct train_param){ .w = in[3], .g = got[3] };
		}
		train_linear(be, &m, in[0], low, y, o.rows);
		train_linear_back(be, &m, in[0], low, c, dlow, got[0], 0, o.rows);
		compare("linear layer", &o, in, y, c, got);
		for (int k = 0; k < INPUTS; k++)
			free(in[k]), free(got[k]);
		free(y), free(c), free(low), free(dlow);
	}
	if (be)
		be->ops->close(be);
}
