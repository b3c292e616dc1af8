/* tests/cuda/t_cuda_matmul.c - weights and products of the CUDA backend, on the emulated device
 * (tests/cuda/emulator/host.cuh) or on a GPU.
 *
 * Results are compared with products in double, computed here from the reference conversion of the weights. Products of
 * few tokens are computed in f32; for quantised weights, activations are rounded to 16 bits per block. Bound: NMSE <
 * 1e-9 (measured: 1e-14 for float weights, 2e-10 to 3e-10 for quantised ones). Products of many tokens are computed in
 * f16. Bound: NMSE < 1e-6 (measured: 4e-8 to 1e-7). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulator/gpu_host.h"
#include "kernels/common/quant.h"
#include "tests/cuda/cuda_test.h"
#include "tests/lib/levels.h"

#define GUARD 12345.5f
#define FEW   1e-9
#define MANY  1e-6

extern size_t cuda_tile_bytes;

static float *random_floats(size_t n, float lo, float hi)
{
	float *x = must_alloc(n * sizeof *x);

	for (size_t i = 0; i < n; i++)
		x[i] = test_randf(lo, hi);
	return x;
}

/* Set *d and *m to the byte offsets of the scale and the minimum in a block of this type; -1 = it has none. */
static void half_fields(enum dtype type, int *d, int *m)
{
	*d = 0;
	*m = -1;
	switch (type) {
	case DT_Q4_1:
	case DT_Q5_1:
	case DT_Q4_K:
	case DT_Q5_K: *m = 2; break;
	case DT_Q2_K:
		*d = offsetof(struct block_q2_k, d);
		*m = offsetof(struct block_q2_k, dmin);
		break;
	case DT_Q3_K: *d = offsetof(struct block_q3_k, d); break;
	case DT_Q6_K: *d = offsetof(struct block_q6_k, d); break;
	default: break;
	}
}

/* Make random weights in the format of model files: random bits with moderate scales, so that all quantization levels
 * occur. odd: 1 = the weights begin at an odd address. The caller frees *memory. */
static uint8_t *random_weight(enum dtype type, int32_t rows, int32_t cols, void **memory, int odd)
{
	size_t n = (size_t)rows * (size_t)cols, size = (size_t)dtype_bytes(type, n),
	       block = (size_t)dtype_info(type)->block_bytes;
	uint8_t *w = must_alloc(size + 1);
	int d, m;

	*memory = w;
	w += odd;
	if (dtype_info(type)->block == 1) {
		float *x = random_floats(n, -0.1f, 0.1f);
		void *even = must_alloc(size);

		dtype_from_f32(type, even, x, (int64_t)n);
		memcpy(w, even, size);
		free(even);
		free(x);
		return w;
	}
	for (size_t i = 0; i < size; i++)
		w[i] = (uint8_t)test_rand();
	half_fields(type, &d, &m);
	for (size_t i = 0; i < size; i += block) {
		uint16_t s = f32_to_f16(test_randf(-0.003f, 0.003f)), o = f32_to_f16(test_randf(-0.003f, 0.003f));

		if (type == DT_MXFP4)
			w[i] = (uint8_t)(112 + test_rand() % 9); /* the scale of MXFP4 is a power of two */
		else
			memcpy(w + i + d, &s, 2);
		if (m >= 0)
			memcpy(w + i + m, &o, 2);
	}
	return w;
}

static struct tensor floats_new(struct backend *be, int32_t rows, int32_t cols, const float *x)
{
	return tensor_new(be, DT_F32, rows, cols, x);
}

/* Make an output tensor of n tokens, filled with x or guards, and one more row of guards. */
static struct tensor out_new(struct backend *be, int32_t n, int32_t cols, const float *x)
{
	float *f = must_alloc((size_t)(n + 1) * (size_t)cols * sizeof *f);
	struct tensor t;

	for (size_t i = 0; i < (size_t)(n + 1) * (size_t)cols; i++)
		f[i] = x && i < (size_t)n * (size_t)cols ? x[i] : GUARD;
	t = floats_new(be, n + 1, cols, f);
	free(f);
	return t;
}

/* Read the output, and check the guards after it. */
static float *out_read(struct backend *be, const struct tensor *t)
{
	size_t n = (size_t)t->rows * (size_t)t->cols;
	float *f = must_alloc(n * sizeof *f);

	be->ops->read(be, t, 0, f, n * sizeof *f);
	for (size_t i = n - (size_t)t->cols; i < n; i++)
		if (f[i] != GUARD) {
			test_fail(__FILE__, __LINE__, "a guard was overwritten");
			break;
		}
	return f;
}

struct weight {
	enum dtype type;
	int32_t rows, cols;
	void *memory;
	const uint8_t *host;
	float *f; /* the weights as floats, by the reference conversion */
	struct tensor t;
};

static void weight_make(struct backend *be, struct weight *w, enum dtype type, int32_t rows, int32_t cols, int odd)
{
	size_t n = (size_t)rows * (size_t)cols;
	void *even = must_alloc((size_t)dtype_bytes(type, n));

	*w = (struct weight){ .type = type, .rows = rows, .cols = cols };
	w->host = random_weight(type, rows, cols, &w->memory, odd);
	w->f = must_alloc(n * sizeof *w->f);
	memcpy(even, w->host, (size_t)dtype_bytes(type, n));
	dtype_to_f32(type, w->f, even, (int64_t)n);
	free(even);
	w->t = (struct tensor){ .type = type, .rows = rows, .cols = cols };
	CHECK_MSG(be->ops->load_weight(be, &w->t, w->host, 0) == 0, "%s", be->err);
}

static void weight_free(struct backend *be, struct weight *w)
{
	be->ops->drop(be, &w->t);
	free(w->memory);
	free(w->f);
}

/* Compute out[n][rows] in double. energy (may be NULL): set to the sum of the squared terms of each output, which is
 * the expected square of a sum of random terms. */
static void product(double *out, double *energy, const struct weight *w, const float *x, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		for (int32_t r = 0; r < w->rows; r++) {
			const float *a = w->f + (size_t)r * (size_t)w->cols, *b = x + (size_t)i * (size_t)w->cols;
			double s = 0, e = 0;

			for (int32_t j = 0; j < w->cols; j++) {
				double term = (double)a[j] * b[j];

				s += term;
				e += term * term;
			}
			out[(size_t)i * (size_t)w->rows + (size_t)r] = s;
			if (energy)
				energy[(size_t)i * (size_t)w->rows + (size_t)r] = e;
		}
}

/* Return the squared error divided by the squared signal, or by `energy` if given. */
static double nmse(const float *a, const double *b, const double *energy, size_t n)
{
	double err = 0, sum = 0;

	for (size_t i = 0; i < n; i++) {
		err += (a[i] - b[i]) * (a[i] - b[i]);
		sum += energy ? energy[i] : b[i] * b[i];
	}
	return err == 0 ? 0 : err / sum;
}

/* Return the bound for a product. The bound is larger if there are few outputs, because a single output may have three
 * times the usual error. */
static double bound(int32_t n, size_t outputs)
{
	return (n <= 8 ? FEW : MANY) * (outputs < 40 ? 6 : 1);
}

/* Compute one product of n tokens. Returns its error divided by the bound. */
static double one_product(struct backend *be, struct weight *w, const float *x, int32_t n)
{
	struct tensor tx = floats_new(be, n, w->cols, x), out = out_new(be, n, w->rows, NULL);
	double *want = must_alloc((size_t)n * (size_t)w->rows * sizeof *want),
	       *energy = must_alloc((size_t)n * (size_t)w->rows * sizeof *want), off;
	float *got;

	be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &w->t }, 1, &tx, n);
	got = out_read(be, &out);
	CHECK_MSG(be->ops->sync(be) == 0, "%s", be->err);
	product(want, energy, w, x, n);
	off = nmse(got, want, energy, (size_t)n * (size_t)w->rows);
	free(got);
	free(want);
	free(energy);
	be->ops->drop(be, &tx);
	be->ops->drop(be, &out);
	return off;
}

/* ---- every type ---- */

TEST(every_type_and_number_of_tokens)
{
	static const int32_t tokens[] = { 1, 2, 3, 8, 9, 33 };
	struct backend *be = open_cuda();

	for (int t = 0; t <= DT_MXFP4; t++) {
		int32_t block = dtype_info((enum dtype)t)->block;
		int32_t shape[][2] = { { 37, block == 256  ? 768
			                     : block == 32 ? 352
			                                   : 328 },
			               { 1, block == 1 ? 40 : block },
			               { 3, block == 1    ? 2000
			                    : block == 32 ? 1120
			                                  : 1280 } };
		double few = 0, many = 0;

		for (int s = 0; s < 3; s++) {
			struct weight w;

			weight_make(be, &w, (enum dtype)t, shape[s][0], shape[s][1], s & 1);
			for (size_t i = 0; i < LEN(tokens); i++) {
				int32_t n = tokens[i];
				float *x = random_floats((size_t)n * (size_t)w.cols, -1, 1);
				double off = one_product(be, &w, x, n), *worst = n <= 8 ? &few : &many;

				CHECK_MSG(off < bound(n, (size_t)n * (size_t)w.rows),
				          "%s %d x %d, %d tokens: NMSE %.2g", dtype_info((enum dtype)t)->name,
				          (int)w.rows, (int)w.cols, (int)n, off);
				if (n * w.rows >= 40)
					*worst = fmax(*worst, off);
				free(x);
			}
			weight_free(be, &w);
		}
		test_note("%-6s NMSE: up to 8 tokens %.1e, more %.1e", dtype_info((enum dtype)t)->name, few, many);
	}
	finish(be);
}

/* Float weights whose rows are not a multiple of 16 bytes, and quantised weights whose rows are longer than one tile of
 * shared memory. */
TEST(ragged_and_long_rows)
{
	static const struct {
		enum dtype type;
		int32_t rows, cols, n;
	} c[] = {
		{ DT_F32, 5, 7, 3 },       { DT_F32, 18, 1001, 2 },  { DT_F16, 5, 1, 1 },
		{ DT_F16, 33, 1003, 4 },   { DT_F16, 33, 1004, 9 },  { DT_F16, 20, 1020, 1 },
		{ DT_BF16, 17, 517, 5 },   { DT_BF16, 17, 517, 12 }, { DT_F32, 3, 9, 10 },
		{ DT_Q8_0, 3, 33056, 1 },  { DT_Q4_0, 5, 33056, 2 }, { DT_Q4_K, 3, 33280, 1 },
		{ DT_Q5_1, 4, 8256, 7 },   { DT_Q3_K, 19, 4352, 8 }, { DT_Q8_0, 5, 17 * 512, 3 },
		{ DT_IQ4_XS, 2, 8448, 4 },
	};
	struct backend *be = open_cuda();

	for (size_t i = 0; i < LEN(c); i++) {
		struct weight w;
		float *x = random_floats((size_t)c[i].n * (size_t)c[i].cols, -1, 1);
		double off;

		weight_make(be, &w, c[i].type, c[i].rows, c[i].cols, 0);
		off = one_product(be, &w, x, c[i].n);
		CHECK_MSG(off < bound(c[i].n, (size_t)c[i].n * (size_t)c[i].rows), "%s %d x %d, %d tokens: NMSE %.2g",
		          dtype_info(c[i].type)->name, (int)c[i].rows, (int)c[i].cols, (int)c[i].n, off);
		weight_free(be, &w);
		free(x);
	}
	finish(be);
}

/* Weights with so many rows that a thread block prepares x, or a tile of x, once and then computes several groups of
 * rows. */
TEST(many_rows)
{
	static const struct {
		enum dtype type;
		int32_t rows, cols, n;
	} c[] = {
		{ DT_Q4_0, 1251, 96, 1 },
		{ DT_F16, 700, 72, 1 },
		{ DT_Q4_K, 561, 4352, 8 },
		{ DT_Q8_0, 1500, 64, 2 },
	};
	struct backend *be = open_cuda();

	for (size_t i = 0; i < LEN(c); i++) {
		struct weight w;
		float *x = random_floats((size_t)c[i].n * (size_t)c[i].cols, -1, 1);
		double off;

		weight_make(be, &w, c[i].type, c[i].rows, c[i].cols, 0);
		off = one_product(be, &w, x, c[i].n);
		CHECK_MSG(off < FEW, "%s %d x %d, %d tokens: NMSE %.2g", dtype_info(c[i].type)->name, (int)c[i].rows,
		          (int)c[i].cols, (int)c[i].n, off);
		weight_free(be, &w);
		free(x);
	}
	finish(be);
}

/* Products with weights that are converted to f16 in several pieces. */
TEST(pieces_of_a_weight)
{
	size_t whole;
	struct backend *be;

	CUDA_HOST_ONLY();
	be = open_cuda();
	whole = cuda_tile_bytes;

	cuda_tile_bytes = 130 * 256 * 2;
	for (int t = 0; t <= DT_MXFP4; t += 3) {
		struct weight w;
		float *x = random_floats(11 * 256, -1, 1);
		double off;

		weight_make(be, &w, (enum dtype)t, 300, 256, 0);
		off = one_product(be, &w, x, 11);
		CHECK_MSG(off < MANY, "%s: NMSE %.2g", dtype_info((enum dtype)t)->name, off);
		weight_free(be, &w);
		free(x);
	}
	cuda_tile_bytes = whole;
	finish(be);
}

/* ---- groups ---- */

/* Compute three products (q, k and v) in one call: with different weight types, some with a bias, some added to the old
 * output. */
static void group_case(struct backend *be, const enum dtype types[3], int32_t cols, int32_t n)
{
	static const int32_t rows[3] = { 40, 17, 1 };
	struct weight w[3];
	struct tensor out[3], bias[3], tx;
	struct matmul m[3];
	float *x = random_floats((size_t)n * (size_t)cols, -1, 1), *b[3], *old[3];

	tx = floats_new(be, n, cols, x);
	for (int i = 0; i < 3; i++) {
		weight_make(be, &w[i], types[i], rows[i], cols, 0);
		b[i] = random_floats((size_t)rows[i], -1, 1);
		old[i] = random_floats((size_t)n * (size_t)rows[i], -1, 1);
		out[i] = out_new(be, n, rows[i], i ? old[i] : NULL);
		bias[i] = floats_new(be, 1, rows[i], b[i]);
		m[i] = (struct matmul){
			.out = &out[i], .w = &w[i].t, .bias = i < 2 ? &bias[i] : NULL, .accumulate = i > 0
		};
	}
	be->ops->matmul(be, m, 3, &tx, n);
	for (int i = 0; i < 3; i++) {
		size_t size = (size_t)n * (size_t)rows[i];
		double *want = must_alloc(size * sizeof *want), *energy = must_alloc(size * sizeof *want), off;
		float *got = out_read(be, &out[i]);

		product(want, energy, &w[i], x, n);
		for (size_t j = 0; j < size; j++)
			want[j] += (i < 2 ? b[i][j % (size_t)rows[i]] : 0) + (i ? old[i][j] : 0);
		off = nmse(got, want, energy, size);
		CHECK_MSG(off < bound(n, size), "part %d, %s, %d tokens: NMSE %.2g", i, dtype_info(types[i])->name,
		          (int)n, off);
		/* A product that is computed alone has the same bits as in the group. */
		if (!i) {
			struct tensor alone = out_new(be, n, rows[0], NULL);
			float *one;

			m[0].out = &alone;
			be->ops->matmul(be, m, 1, &tx, n);
			one = out_read(be, &alone);
			CHECK(!memcmp(one, got, size * sizeof *got));
			free(one);
			be->ops->drop(be, &alone);
		}
		free(got);
		free(want);
		free(energy);
	}
	for (int i = 0; i < 3; i++) {
		weight_free(be, &w[i]);
		be->ops->drop(be, &out[i]);
		be->ops->drop(be, &bias[i]);
		free(b[i]);
		free(old[i]);
	}
	be->ops->drop(be, &tx);
	free(x);
}

TEST(groups_with_bias_and_sum)
{
	static const enum dtype types[][3] = {
		{ DT_F16, DT_F16, DT_F16 },
		{ DT_Q4_K, DT_Q4_K, DT_Q6_K },
		{ DT_Q8_0, DT_F16, DT_Q5_1 },
		{ DT_F32, DT_IQ4_NL, DT_BF16 },
	};
	static const int32_t tokens[] = { 1, 2, 5, 9, 20 };
	struct backend *be = open_cuda();

	for (size_t t = 0; t < LEN(types); t++)
		for (size_t i = 0; i < LEN(tokens); i++)
			group_case(be, types[t], 512, tokens[i]);
	finish(be);
}

/* A call with more products than one launch takes. */
TEST(many_products_of_one_input)
{
	struct backend *be = open_cuda();
	struct weight w[11];
	struct tensor out[11], tx;
	struct matmul m[11];

	for (int32_t n = 1; n < 12; n += 9) {
		float *x = random_floats((size_t)n * 256, -1, 1);

		tx = floats_new(be, n, 256, x);
		for (int i = 0; i < 11; i++) {
			weight_make(be, &w[i], (enum dtype)(i + 1), 20 + i, 256, 0);
			out[i] = out_new(be, n, 20 + i, NULL);
			m[i] = (struct matmul){ .out = &out[i], .w = &w[i].t };
		}
		be->ops->matmul(be, m, 11, &tx, n);
		for (int i = 0; i < 11; i++) {
			double *want = must_alloc((size_t)n * (size_t)w[i].rows * sizeof *want);
			float *got = out_read(be, &out[i]);

			product(want, NULL, &w[i], x, n);
			CHECK(nmse(got, want, NULL, (size_t)n * (size_t)w[i].rows) <
			      bound(n, (size_t)n * (size_t)w[i].rows));
			free(got);
			free(want);
			weight_free(be, &w[i]);
			be->ops->drop(be, &out[i]);
		}
		be->ops->drop(be, &tx);
		free(x);
	}
	finish(be);
}

static void gated_case(struct backend *be, const enum dtype types[2], int32_t rows, int32_t cols, int32_t n)
{
	const enum activation act = n % 3 == 1 ? ACT_SILU : n % 3 ? ACT_GELU : ACT_SILU_CLAMPED;
	const int biased = n % 3 == 0 || n % 4 == 1;
	size_t size = (size_t)n * (size_t)rows;
	float *x = random_floats((size_t)n * (size_t)cols, -3, 3), *got;
	double *g = must_alloc(size * sizeof *g), *u = must_alloc(size * sizeof *u), off;
	double *g2 = must_alloc(size * sizeof *g), *u2 = must_alloc(size * sizeof *u);
	float *bias[2] = { random_floats((size_t)rows, -9, 9), random_floats((size_t)rows, -9, 9) };
	struct tensor tx = floats_new(be, n, cols, x), out = out_new(be, n, rows, NULL);
	struct tensor tb[2] = { floats_new(be, 1, rows, bias[0]), floats_new(be, 1, rows, bias[1]) };
	struct weight gate, up;

	weight_make(be, &gate, types[0], rows, cols, 0);
	weight_make(be, &up, types[1], rows, cols, 0);
	be->ops->matmul_glu(be, &out,
	                    &(struct matmul_glu){ .gate = &gate.t,
	                                          .up = &up.t,
	                                          .act = act,
	                                          .gate_bias = biased ? &tb[0] : NULL,
	                                          .up_bias = biased ? &tb[1] : NULL },
	                    &tx, n);
	got = out_read(be, &out);
	product(g, g2, &gate, x, n);
	product(u, u2, &up, x, n);
	/* The rounding error of each factor is multiplied by the other factor. */
	for (size_t j = 0; j < size; j++) {
		double gj = g[j] += biased ? (double)bias[0][j % (size_t)rows] : 0, s;

		u[j] += biased ? (double)bias[1][j % (size_t)rows] : 0;
		if (act == ACT_SILU_CLAMPED) {
			gj = fmin(gj, 7);
			u[j] = fmax(-7, fmin(7, u[j])) + 1;
		}
		s = act == ACT_SILU_CLAMPED
		            ? gj / (1 + exp(-1.702 * gj))
		            : g[j] / (1 + exp(act == ACT_SILU ? -g[j]
		                                              : -2 * 0.7978845608028654 *
		                                                        (g[j] + 0.044715 * g[j] * g[j] * g[j])));

		u2[j] = s * s * u2[j] + u[j] * u[j] * g2[j];
		g[j] = s * u[j];
	}
	off = nmse(got, g, u2, size);
	CHECK_MSG(off < bound(n, size), "%s and %s, %d rows, %d tokens: NMSE %.2g", dtype_info(types[0])->name,
	          dtype_info(types[1])->name, (int)rows, (int)n, off);
	weight_free(be, &gate);
	weight_free(be, &up);
	be->ops->drop(be, &tx);
	be->ops->drop(be, &out);
	for (int i = 0; i < 2; i++) {
		be->ops->drop(be, &tb[i]);
		free(bias[i]);
	}
	free(x);
	free(got);
	free(g);
	free(u);
	free(g2);
	free(u2);
}

TEST(gated_unit)
{
	static const enum dtype types[][2] = {
		{ DT_F16, DT_F16 },  { DT_Q4_K, DT_Q4_K }, { DT_Q8_0, DT_Q8_0 },
		{ DT_Q4_K, DT_F16 }, { DT_BF16, DT_Q6_K }, { DT_F32, DT_F32 },
	};
	static const int32_t tokens[] = { 1, 2, 3, 8, 9, 19 };
	struct backend *be = open_cuda();

	for (size_t t = 0; t < LEN(types); t++)
		for (size_t i = 0; i < LEN(tokens); i++)
			gated_case(be, types[t], t % 2 ? 35 : 48, 768, tokens[i]);
	/* Weights with so many rows that a thread block computes several groups of rows of both matrices, then weights
	 * with rows longer than one tile. */
	gated_case(be, types[0], 1105, 72, 1);
	gated_case(be, types[2], 1105, 96, 1);
	gated_case(be, types[1], 561, 4352, 8);
	finish(be);
}

/* ---- range ---- */

/* Activations that are too large or too small for f16, with tokens of different magnitude in one call. */
TEST(large_and_tiny_activations)
{
	static const float scale[] = { 1, 1e8f, 1e-9f, 3e4f, 1e-25f, 1e25f, 70000, 6e-8f, 1, 1e-30f };
	static const enum dtype types[] = { DT_F16, DT_BF16, DT_Q4_K, DT_Q8_0 };
	struct backend *be = open_cuda();

	for (size_t t = 0; t < LEN(types); t++)
		for (int32_t n = 8; n <= 10; n += 2) {
			float *x = random_floats((size_t)n * 512, -1, 1), *got;
			double *want = must_alloc((size_t)n * 33 * sizeof *want);
			struct tensor tx, out = out_new(be, n, 33, NULL);
			struct weight w;

			for (int32_t i = 0; i < n * 512; i++)
				x[i] *= scale[i / 512];
			tx = floats_new(be, n, 512, x);
			weight_make(be, &w, types[t], 33, 512, 0);
			be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &w.t }, 1, &tx, n);
			got = out_read(be, &out);
			product(want, NULL, &w, x, n);
			for (int32_t i = 0; i < n; i++) {
				double off = nmse(got + i * 33, want + i * 33, NULL, 33);

				CHECK_MSG(off < bound(n, 33), "%s, %d tokens, x of %g: NMSE %.2g",
				          dtype_info(types[t])->name, (int)n, scale[i], off);
			}
			weight_free(be, &w);
			be->ops->drop(be, &tx);
			be->ops->drop(be, &out);
			free(x);
			free(got);
			free(want);
		}
	finish(be);
}

/* Weights beyond f16. */
TEST(large_and_tiny_weights)
{
	static const float scale[] = { 1e20f, 1e-20f, 3e38f, 1e-37f, 65504 };
	struct backend *be = open_cuda();

	for (int b = 0; b < 2; b++)
		for (size_t s = 0; s < LEN(scale); s++)
			for (int32_t n = 3; n <= 12; n += 9) {
				enum dtype type = b ? DT_BF16 : DT_F32;
				size_t size = 34 * 256;
				float *f = random_floats(size, -1, 1),
				      *x = random_floats((size_t)n * 256, -1e-2f, 1e-2f);
				struct weight w = {
					.type = type, .rows = 34, .cols = 256, .f = f, .memory = must_alloc(size * 4)
				};
				double off;

				for (size_t i = 0; i < size; i++)
					f[i] *= scale[s];
				dtype_from_f32(type, w.memory, f, (int64_t)size);
				dtype_to_f32(type, f, w.memory, (int64_t)size);
				w.t = (struct tensor){ .type = type, .rows = 34, .cols = 256 };
				CHECK(be->ops->load_weight(be, &w.t, w.memory, 0) == 0);
				off = one_product(be, &w, x, n);
				CHECK_MSG(off < bound(n, 34 * (size_t)n), "%s of %g, %d tokens: NMSE %.2g",
				          dtype_info(type)->name, scale[s], (int)n, off);
				weight_free(be, &w);
				free(x);
			}
	finish(be);
}

/* Infinite and NaN activations affect only their own token. */
TEST(not_a_number_stays_where_it_is)
{
	static const enum dtype types[] = { DT_F16, DT_Q4_0, DT_Q6_K };
	struct backend *be = open_cuda();

	for (size_t t = 0; t < LEN(types); t++)
		for (int32_t n = 4; n <= 12; n += 8) {
			float *x = random_floats((size_t)n * 256, -1, 1), *got;
			double *want = must_alloc((size_t)n * 20 * sizeof *want);
			struct tensor tx, out = out_new(be, n, 20, NULL);
			struct weight w;

			weight_make(be, &w, types[t], 20, 256, 0);
			product(want, NULL, &w, x, n);
			x[256 + 77] = NAN;
			x[2 * 256 + 3] = INFINITY;
			tx = floats_new(be, n, 256, x);
			be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &w.t }, 1, &tx, n);
			got = out_read(be, &out);
			for (int32_t i = 0; i < n; i++)
				if (i == 1 || i == 2)
					CHECK(!isfinite(got[i * 20]) && !isfinite(got[i * 20 + 19]));
				else
					CHECK(nmse(got + i * 20, want + i * 20, NULL, 20) < bound(n, 20));
			weight_free(be, &w);
			be->ops->drop(be, &tx);
			be->ops->drop(be, &out);
			free(x);
			free(got);
			free(want);
		}
	finish(be);
}

TEST(zeros_give_zero)
{
	struct backend *be = open_cuda();

	for (int t = 0; t <= DT_MXFP4; t++)
		for (int32_t n = 1; n <= 9; n += 8) {
			float *x = must_alloc((size_t)n * 256 * sizeof *x), *got;
			struct tensor tx, out = out_new(be, n, 18, NULL);
			struct weight w;

			memset(x, 0, (size_t)n * 256 * sizeof *x);
			weight_make(be, &w, (enum dtype)t, 18, 256, 0);
			tx = floats_new(be, n, 256, x);
			be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &w.t }, 1, &tx, n);
			got = out_read(be, &out);
			for (int32_t i = 0; i < n * 18; i++)
				if (got[i] != 0)
					test_fail(__FILE__, __LINE__, "%s: %g", dtype_info((enum dtype)t)->name,
					          got[i]);
			weight_free(be, &w);
			be->ops->drop(be, &tx);
			be->ops->drop(be, &out);
			free(x);
			free(got);
		}
	finish(be);
}

/* ---- embed, and weights in two roles ---- */

TEST(embed_gives_the_references_floats)
{
	static const int32_t id[] = { 0, 9, 3, 3, 7 };
	struct backend *be = open_cuda();

	for (int t = 0; t <= DT_MXFP4; t++)
		for (int ragged = 0; ragged < (dtype_info((enum dtype)t)->block == 1 ? 2 : 1); ragged++) {
			int32_t cols = ragged ? 131 : 512;
			struct tensor table = { .type = (enum dtype)t, .rows = 10, .cols = cols },
				      out = out_new(be, 5, cols, NULL);
			struct weight w;
			float *got;

			weight_make(be, &w, (enum dtype)t, 10, cols, 0);
			CHECK(be->ops->load_weight(be, &table, w.host, 1) == 0);
			CHECK(be->ops->sync(be) == 0);
			be->ops->embed(be, &out, &table, id, 5);
			got = out_read(be, &out);
			for (int i = 0; i < 5; i++)
				CHECK_MSG(!memcmp(got + i * cols, w.f + id[i] * cols, (size_t)cols * sizeof *got), "%s",
				          dtype_info((enum dtype)t)->name);
			/* Free the product's weights before the embedding that shares its rows. */
			weight_free(be, &w);
			free(got);
			be->ops->embed(be, &out, &table, id + 1, 1);
			free(out_read(be, &out));
			be->ops->drop(be, &table);
			be->ops->drop(be, &out);
		}
	finish(be);
}

/* An embedding table that is also the output weight takes device memory only once. */
TEST(a_weight_in_two_roles_lies_there_once)
{
	struct backend *be = open_cuda();
	struct tensor table = { .type = DT_Q8_0, .rows = 4000, .cols = 256 }, other = table, again = table;
	void *memory;
	const uint8_t *host = random_weight(DT_Q8_0, 4000, 256, &memory, 0);
	uint64_t before, one, two, three, all;

	CHECK(be->ops->load_weight(be, &table, host, 1) == 0);
	CHECK(be->ops->sync(be) == 0);
	be->ops->drop(be, &table);
	be->ops->memory(be, &before, &all);
	CHECK(be->ops->load_weight(be, &table, host, 1) == 0);
	be->ops->memory(be, &one, &all);
	CHECK(be->ops->load_weight(be, &other, host, 0) == 0);
	be->ops->memory(be, &two, &all);
	CHECK(be->ops->load_weight(be, &again, host, 0) == 0);
	be->ops->memory(be, &three, &all);
	CHECK(one < before && two == one);
	test_note("free MiB: %llu, with a table %llu, and a product %llu, and another %llu",
	          (unsigned long long)before >> 20, (unsigned long long)one >> 20, (unsigned long long)two >> 20,
	          (unsigned long long)three >> 20);
	be->ops->drop(be, &table);
	be->ops->drop(be, &other);
	be->ops->drop(be, &again);
	CHECK(be->ops->sync(be) == 0);
	be->ops->memory(be, &one, &all);
	CHECK(one == before);
	free(memory);
	finish(be);
}

/* ---- refusals, launches ---- */

TEST(wrong_shapes_are_refused)
{
	struct backend *be = open_cuda();
	struct weight w;
	struct tensor x = floats_new(be, 2, 64, NULL), narrow = floats_new(be, 2, 32, NULL),
		      out = floats_new(be, 2, 5, NULL), bad;
	int32_t id = 9;

	weight_make(be, &w, DT_Q8_0, 6, 64, 0);
	be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &w.t }, 1, &x, 1);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "internal: matmul got an operand of the wrong shape"));
	be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &w.t }, 1, &narrow, 1);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "internal: matmul got a weight of the wrong shape"));
	be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &w.t }, 1, &x, 3);
	CHECK(be->ops->sync(be) < 0);
	be->ops->embed(be, &x, &w.t, &id, 1);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "token id 9 is not within a vocabulary of 6"));
	be->ops->read(be, &w.t, 0, &id, 4);
	CHECK(be->ops->sync(be) < 0);
	bad = (struct tensor){ .type = DT_Q4_K, .rows = 3, .cols = 64 };
	CHECK(be->ops->load_weight(be, &bad, w.host, 0) < 0);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "cannot take a weight of 3 x 64"));
	CHECK(be->ops->sync(be) == 0);
	weight_free(be, &w);
	be->ops->drop(be, &x);
	be->ops->drop(be, &narrow);
	be->ops->drop(be, &out);
	finish(be);
}

static int launches(struct backend *be)
{
	static uint64_t before;
	struct gpu_host_counts c;
	uint64_t n;

	CHECK_MSG(be->ops->sync(be) == 0, "%s", be->err);
	gpu_host_stats(&c);
	n = c.launches + c.products - before;
	before = c.launches + c.products;
	return (int)n;
}

/* Check the number of kernel launches that an operation takes. */
TEST(launches_of_an_operation)
{
	struct weight w[4];
	struct backend *be;
	struct tensor x, q, k, v;
	struct matmul m[3];

	CUDA_HOST_ONLY();
	be = open_cuda();
	x = floats_new(be, 16, 256, NULL);
	q = floats_new(be, 16, 64, NULL);
	k = floats_new(be, 16, 32, NULL);
	v = floats_new(be, 16, 32, NULL);
	weight_make(be, &w[0], DT_Q4_K, 64, 256, 0);
	weight_make(be, &w[1], DT_Q4_K, 32, 256, 0);
	weight_make(be, &w[2], DT_Q6_K, 32, 256, 0);
	weight_make(be, &w[3], DT_F16, 64, 256, 0);
	m[0] = (struct matmul){ .out = &q, .w = &w[0].t };
	m[1] = (struct matmul){ .out = &k, .w = &w[1].t };
	m[2] = (struct matmul){ .out = &v, .w = &w[2].t };
	be->ops->matmul(be, m, 3, &x, 16);
	be->ops->matmul(be, m, 3, &x, 2);
	launches(be);
	be->ops->matmul(be, m, 3, &x, 1);
	CHECK_INT(launches(be), 1);
	be->ops->matmul(be, m, 3, &x, 8);
	CHECK_INT(launches(be), 2);
	be->ops->matmul_glu(be, &q, &(struct matmul_glu){ .gate = &w[0].t, .up = &w[3].t, .act = ACT_SILU }, &x, 1);
	CHECK_INT(launches(be), 1);
	be->ops->matmul(be, m, 3, &x, 16);
	CHECK_INT(launches(be), 10);
	m[0].w = &w[3].t;
	be->ops->matmul(be, m, 1, &x, 8);
	CHECK_INT(launches(be), 1);
	be->ops->matmul(be, m, 1, &x, 9);
	CHECK_INT(launches(be), 3);
	for (int i = 0; i < 4; i++)
		weight_free(be, &w[i]);
	be->ops->drop(be, &x);
	be->ops->drop(be, &q);
	be->ops->drop(be, &k);
	be->ops->drop(be, &v);
	finish(be);
}

/* Results do not depend on the order in which blocks and warps run. The emulated device runs them in a given order, a
 * GPU in a different order each time. */
TEST(the_same_bits_in_any_order)
{
	static const enum dtype types[] = { DT_F16, DT_Q4_K, DT_Q6_K };
	struct backend *be;

	for (size_t t = 0; t < LEN(types); t++)
		for (int32_t n = 1; n <= 13; n += 6) {
			float *x = random_floats((size_t)n * 512, -1, 1), *first = NULL;
			struct weight w = { 0 };

			for (unsigned order = 0; order < 4; order++) {
				struct tensor tx, out;
				float *got;

				gpu_host_order(order);
				be = open_cuda();
				if (w.host) {
					w.t = (struct tensor){ .type = w.type, .rows = w.rows, .cols = w.cols };
					CHECK(be->ops->load_weight(be, &w.t, w.host, 0) == 0);
				} else {
					weight_make(be, &w, types[t], 45, 512, 0);
				}
				tx = floats_new(be, n, 512, x);
				out = out_new(be, n, 45, NULL);
				be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &w.t }, 1, &tx, n);
				got = out_read(be, &out);
				if (first)
					CHECK(!memcmp(first, got, (size_t)n * 45 * sizeof *got));
				if (!first)
					first = got;
				else
					free(got);
				be->ops->drop(be, &tx);
				be->ops->drop(be, &out);
				be->ops->drop(be, &w.t);
				finish(be);
			}
			free(first);
			free(w.memory);
			free(w.f);
			free(x);
		}
	gpu_host_order(2);
}
