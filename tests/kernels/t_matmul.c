/* tests/kernels/t_matmul.c - products of the CPU backend, at every level this machine has: products with weights of
 * every type, gated products, products with NaN and infinity, and cancelled products.
 *
 * Each result is compared with a plain computation in double, and the levels are compared with one another. The engine
 * relies on equal bits, so the bits must be the same for any number of threads and for any division of tokens among
 * calls. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/weights.h"

/* ---- helpers ---- */

static int is_float(enum dtype t)
{
	return t == DT_F32 || t == DT_F16 || t == DT_BF16;
}

/* Round x as a quantised product does: to int8 with one scale per block of 32. A block also gets a second int8 for the
 * remainder of each value if one value of the block is far above the others, or if all_wide is 1. */
static void round_activations(float *out, const float *x, size_t n, int all_wide)
{
	for (size_t b = 0; b < n; b += 32) {
		float amax = 0, d, id;
		long squares = 0;

		for (size_t j = b; j < b + 32; j++)
			amax = fmaxf(amax, fabsf(x[j]));
		d = amax / 127.0f;
		id = d > 0 ? 1.0f / d : 0;
		for (size_t j = b; j < b + 32; j++)
			squares += lrintf(x[j] * id) * lrintf(x[j] * id);
		for (size_t j = b; j < b + 32; j++) {
			float q = (float)lrintf(x[j] * id), lo = (float)lrintf((x[j] * id - q) * 256);

			lo = lo > 127 ? 127 : lo < -127 ? -127 : lo;
			out[j] = d * (all_wide || squares < ACT_WIDE_BELOW ? q + lo / 256 : q);
		}
	}
}

/* Compute out[n][rows] = x w^T in double, with the activations rounded as for weights of this type. */
static void product(float *out, enum dtype type, const void *w, int32_t rows, int32_t cols, const float *x, int32_t n,
                    int all_wide)
{
	size_t nw = (size_t)rows * (size_t)cols, nx = (size_t)n * (size_t)cols;
	float *wf = must_alloc(nw * sizeof *wf), *xr = must_alloc(nx * sizeof *xr);

	dtype_to_f32(type, wf, w, (int64_t)nw);
	if (is_float(type))
		memcpy(xr, x, nx * sizeof *xr);
	else
		round_activations(xr, x, nx, all_wide);
	for (int32_t c = 0; c < n; c++)
		for (int32_t r = 0; r < rows; r++) {
			const float *a = wf + (size_t)r * (size_t)cols, *b = xr + (size_t)c * (size_t)cols;
			double s = 0;

			for (int32_t j = 0; j < cols; j++)
				s += (double)a[j] * b[j];
			out[(size_t)c * (size_t)rows + (size_t)r] = (float)s;
		}
	free(wf);
	free(xr);
}

static float *matmul_once(struct backend *be, const struct tensor *w, const float *x, int32_t n)
{
	struct tensor tx = tensor_new(be, DT_F32, n, w->cols, x), out = guarded(be, n, w->rows);

	be->ops->matmul(be, &(struct matmul){ .out = &out, .w = w }, 1, &tx, n);
	be->ops->drop(be, &tx);
	return result(be, &out, "matmul");
}

/* ---- products ---- */

TEST(matmul_every_type)
{
	static const int32_t n_list[] = { 1, 2, 3, 5, 7, 13, 64, 100 };
	static const int32_t rows_list[] = { 1, 5, 16, 33, 100 };

	for (int t = 0; t < DT_COUNT; t++) {
		enum dtype type = (enum dtype)t;
		int32_t block = dtype_info(type)->block;
		double worst[N_LEVELS] = { 0 };

		for (int k = 4 - test_rounds(4); k < 4; k++) {
			int32_t cols = block == 256 ? (k + 1) * 256 : (int32_t[]){ 32, 96, 288, 576 }[k];

			for (size_t i = 0; i < LEN(n_list); i++) {
				int32_t n = n_list[i], rows = rows_list[(i + (size_t)k) % 5];
				size_t all = (size_t)n * (size_t)rows;
				uint8_t *w = random_weight(type, rows, cols);
				float *x = random_floats((size_t)n * (size_t)cols, -1, 1), *ref = must_alloc(all * 4);
				float *base = NULL;

				product(ref, type, w, rows, cols, x, n, type == DT_Q8_0);
				for (int l = 0; l < N_LEVELS; l++) {
					struct backend *be = open_level(levels[l], 2);
					struct tensor tw;
					float *got;
					double e;

					if (!be)
						continue;
					tw = weight_new(be, type, rows, cols, w);
					got = matmul_once(be, &tw, x, n);
					e = test_nmse(got, ref, all);
					if (e > worst[l])
						worst[l] = e;
					CHECK_MSG(e < 1e-10, "%s %s rows %d cols %d n %d: nmse %g", levels[l],
					          dtype_info(type)->name, (int)rows, (int)cols, (int)n, e);
					if (base)
						CHECK_MSG(test_nmse(got, base, all) < 1e-10, "%s differs from c",
						          levels[l]);
					be->ops->drop(be, &tw);
					finish(be);
					if (base)
						free(got);
					else
						base = got;
				}
				free(base);
				free(w);
				free(x);
				free(ref);
			}
		}
		test_note("%-6s worst nmse: %s %.1e %s %.1e %s %.1e", dtype_info(type)->name, levels[0], worst[0],
		          levels[1], worst[1], levels[2], worst[2]);
	}
}

/* With narrow = 1, products with Q8_0 weights round activations to 8 bits, as those of other quantised types do. */
TEST(narrow_products_use_8_bits)
{
	static const int32_t n_list[] = { 1, 2, 7, 13, 100 }, rows_list[] = { 33, 16, 100, 1, 50 };

	for (int k = 0; k < 5; k++) {
		int32_t n = n_list[k], rows = rows_list[k], cols = 32 * (k + 1);
		size_t all = (size_t)n * (size_t)rows;
		uint8_t *w = random_weight(DT_Q8_0, rows, cols);
		float *x = random_floats((size_t)n * (size_t)cols, -1, 1), *ref = must_alloc(all * 4);

		product(ref, DT_Q8_0, w, rows, cols, x, n, 0);
		for (int l = 0; l < N_LEVELS; l++) {
			struct backend *be = open_level(levels[l], 2);
			struct tensor tw, tx, out;
			float *got;

			if (!be)
				continue;
			tw = weight_new(be, DT_Q8_0, rows, cols, w);
			tx = tensor_new(be, DT_F32, n, cols, x);
			out = guarded(be, n, rows);
			be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &tw, .narrow = 1 }, 1, &tx, n);
			got = result(be, &out, "matmul");
			CHECK_MSG(test_nmse(got, ref, all) < 1e-10, "%s rows %d cols %d n %d: nmse %g", levels[l],
			          (int)rows, (int)cols, (int)n, test_nmse(got, ref, all));
			be->ops->drop(be, &tx);
			be->ops->drop(be, &tw);
			finish(be);
			free(got);
		}
		free(w);
		free(x);
		free(ref);
	}
}

/* The error from rounding the activations must be small compared with the error from quantising the weights. */
TEST(matmul_is_near_the_exact_product)
{
	static const enum dtype types[] = { DT_Q4_1, DT_Q8_0, DT_Q6_K, DT_Q4_K, DT_IQ4_XS };

	for (int l = 0; l < N_LEVELS; l++)
		for (int t = 0; t < 5; t++) {
			struct backend *be = open_level(levels[l], 1);
			enum { ROWS = 64, COLS = 512, N = 4 };
			uint8_t *w;
			float *x, *wf, *got, ref[ROWS * N];
			struct tensor tw;
			double e;

			if (!be)
				continue;
			w = random_weight(types[t], ROWS, COLS);
			x = random_floats(N * COLS, -1, 1);
			wf = must_alloc(ROWS * COLS * 4);
			dtype_to_f32(types[t], wf, w, ROWS * COLS);
			product(ref, DT_F32, wf, ROWS, COLS, x, N, 0);
			tw = weight_new(be, types[t], ROWS, COLS, w);
			got = matmul_once(be, &tw, x, N);
			e = test_nmse(got, ref, ROWS * N);
			CHECK_MSG(e < 1e-4, "%s %s: nmse %g", levels[l], dtype_info(types[t])->name, e);
			be->ops->drop(be, &tw);
			finish(be);
			free(w);
			free(wf);
			free(x);
			free(got);
		}
}

TEST(matmul_groups_bias_and_accumulate)
{
	enum { COLS = 256, N_M = 11 };
	static const int32_t n_list[] = { 1, 6, 150 };
	/* More products than one run of the thread pool takes, with mixed types. If one weight is Q8_0, the input of
	 * all products is coded in two bytes per value. */
	static const struct {
		enum dtype type;
		int32_t rows;
		int bias, accumulate;
	} spec[N_M] = {
		{ DT_Q4_1, 192, 1, 0 }, { DT_Q8_0, 64, 0, 1 }, { DT_F32, 17, 1, 1 },  { DT_F16, 1, 0, 0 },
		{ DT_Q6_K, 40, 1, 1 },  { DT_Q4_1, 3, 0, 0 },  { DT_BF16, 16, 1, 0 }, { DT_Q5_0, 31, 0, 1 },
		{ DT_Q4_K, 65, 0, 0 },  { DT_Q4_0, 8, 1, 1 },  { DT_F32, 100, 0, 0 },
	};

	for (int l = 0; l < N_LEVELS; l++)
		for (int k = 0; k < 3; k++) {
			struct backend *be = open_level(levels[l], 3);
			struct tensor tx, w[N_M], out[N_M], bias[N_M];
			struct matmul m[N_M];
			uint8_t *data[N_M];
			float *x, *ref[N_M];
			int32_t n = n_list[k];

			if (!be)
				continue;
			x = random_floats((size_t)n * COLS, -1, 1);
			tx = tensor_new(be, DT_F32, n, COLS, x);
			for (int i = 0; i < N_M; i++) {
				int32_t rows = spec[i].rows;
				size_t all = (size_t)n * (size_t)rows;
				float *start = random_floats(all, -5, 5), *b = random_floats((size_t)rows, -2, 2);

				data[i] = random_weight(spec[i].type, rows, COLS);
				w[i] = weight_new(be, spec[i].type, rows, COLS, data[i]);
				out[i] = guarded(be, n, rows);
				be->ops->write(be, &out[i], 0, start, all * 4);
				bias[i] = tensor_new(be, DT_F32, 1, rows, b);
				m[i] = (struct matmul){ .out = &out[i],
					                .w = &w[i],
					                .bias = spec[i].bias ? &bias[i] : NULL,
					                .accumulate = spec[i].accumulate };
				ref[i] = must_alloc(all * 4);
				product(ref[i], spec[i].type, data[i], rows, COLS, x, n, 1);
				for (size_t e = 0; e < all; e++) {
					if (spec[i].bias)
						ref[i][e] += b[e % (size_t)rows];
					if (spec[i].accumulate)
						ref[i][e] += start[e];
				}
				free(start);
				free(b);
			}
			be->ops->matmul(be, m, N_M, &tx, n);
			for (int i = 0; i < N_M; i++) {
				float *got = result(be, &out[i], "matmul");
				double e = test_nmse(got, ref[i], (size_t)n * (size_t)spec[i].rows);

				CHECK_MSG(e < 1e-10, "%s product %d n %d: nmse %g", levels[l], i, (int)n, e);
				be->ops->drop(be, &w[i]);
				be->ops->drop(be, &bias[i]);
				free(data[i]);
				free(ref[i]);
				free(got);
			}
			be->ops->drop(be, &tx);
			finish(be);
			free(x);
		}
}

static float *glu_once(struct backend *be, const struct tensor *gate, const struct tensor *up, const float *x,
                       int32_t n)
{
	struct tensor tx = tensor_new(be, DT_F32, n, gate->cols, x), out = guarded(be, n, gate->rows);

	be->ops->matmul_glu(be, &out, &(struct matmul_glu){ .gate = gate, .up = up, .act = ACT_SILU }, &tx, n);
	be->ops->drop(be, &tx);
	return result(be, &out, "matmul_glu");
}

TEST(glu_matches_double)
{
	static const enum dtype pair[][2] = {
		{ DT_Q4_1, DT_Q4_1 }, { DT_Q4_K, DT_Q6_K }, { DT_F32, DT_F16 }, { DT_Q8_0, DT_BF16 }
	};
	static const int32_t n_list[] = { 1, 5, 33, 140 }, rows_list[] = { 1, 50, 96, 200 };
	enum { COLS = 256 };

	for (int p = 0; p < 4; p++)
		for (int k = 0; k < 4; k++) {
			int32_t n = n_list[k], rows = rows_list[(k + p) % 4];
			size_t all = (size_t)n * (size_t)rows;
			uint8_t *g = random_weight(pair[p][0], rows, COLS), *u = random_weight(pair[p][1], rows, COLS);
			float *x = random_floats((size_t)n * COLS, -8, 8);
			float *rg = must_alloc(all * 4), *ru = must_alloc(all * 4);

			product(rg, pair[p][0], g, rows, COLS, x, n, pair[p][0] == DT_Q8_0);
			product(ru, pair[p][1], u, rows, COLS, x, n, pair[p][0] == DT_Q8_0);
			for (size_t i = 0; i < all; i++)
				rg[i] = (float)(rg[i] / (1 + exp(-(double)rg[i])) * ru[i]);
			for (int l = 0; l < N_LEVELS; l++) {
				struct backend *be = open_level(levels[l], 2);
				struct tensor tg, tu;
				float *got;

				if (!be)
					continue;
				tg = weight_new(be, pair[p][0], rows, COLS, g);
				tu = weight_new(be, pair[p][1], rows, COLS, u);
				got = glu_once(be, &tg, &tu, x, n);
				CHECK_MSG(test_nmse(got, rg, all) < 1e-10, "%s pair %d n %d rows %d: nmse %g",
				          levels[l], p, (int)n, (int)rows, test_nmse(got, rg, all));
				be->ops->drop(be, &tg);
				be->ops->drop(be, &tu);
				finish(be);
				free(got);
			}
			free(g);
			free(u);
			free(x);
			free(rg);
			free(ru);
		}
}

/* Ways to divide N_CUT tokens among calls. Each is compared with one call for all tokens on one thread. */
static const int32_t cuts[][5] = { { 40 }, { 1, 39 }, { 16, 24 }, { 39, 1 }, { 7, 1, 2, 13, 17 } };
enum { N_CUT = 40, N_CUTS = 5 };

TEST(products_same_bits_for_threads_and_cuts)
{
	enum { ROWS = 100 };

	for (int l = 0; l < N_LEVELS; l++)
		for (int t = 0; t < DT_COUNT; t++) {
			int32_t cols = dtype_info((enum dtype)t)->block == 256 ? 512 : 416;
			uint8_t *g = random_weight((enum dtype)t, ROWS, cols);
			uint8_t *u = random_weight((enum dtype)t, ROWS, cols);
			float *x = random_floats(N_CUT * (size_t)cols, -1, 1), *mm = NULL, *glu = NULL;

			for (int threads = 1; threads <= 3; threads++) {
				struct backend *be = open_level(levels[l], threads);
				struct tensor tg, tu;

				if (!be)
					continue;
				tg = weight_new(be, (enum dtype)t, ROWS, cols, g);
				tu = weight_new(be, (enum dtype)t, ROWS, cols, u);
				for (int c = 0; c < N_CUTS; c++)
					for (int32_t i = 0, k = 0; i < N_CUT; i += cuts[c][k++]) {
						int32_t n = cuts[c][k];
						const float *xi = x + (size_t)i * (size_t)cols;
						float *a = matmul_once(be, &tg, xi, n),
						      *b = glu_once(be, &tg, &tu, xi, n);

						if (!mm) {
							mm = a;
							glu = b;
							continue;
						}
						CHECK_MSG(!memcmp(a, mm + i * ROWS, (size_t)n * ROWS * 4),
						          "%s %s: matmul of %d tokens from %d, %d threads", levels[l],
						          dtype_info((enum dtype)t)->name, (int)n, (int)i, threads);
						CHECK_MSG(!memcmp(b, glu + i * ROWS, (size_t)n * ROWS * 4),
						          "%s %s: glu of %d tokens from %d, %d threads", levels[l],
						          dtype_info((enum dtype)t)->name, (int)n, (int)i, threads);
						free(a);
						free(b);
					}
				be->ops->drop(be, &tg);
				be->ops->drop(be, &tu);
				finish(be);
			}
			free(mm);
			free(glu);
			free(g);
			free(u);
			free(x);
		}
}

/* Inputs whose large values are in no block, in few blocks, in the same blocks of all tokens, and in most blocks. This
 * covers all code for the second byte of wide blocks. Many tokens at once must give the same bits as each token alone,
 * and every level must give the bits of plain C. */
TEST(products_same_bits_with_wide_blocks)
{
	enum { ROWS = 40, N = 61 };

	for (int t = 0; t < DT_COUNT; t++) {
		int32_t cols = dtype_info((enum dtype)t)->block == 256 ? 768 : 608;
		uint8_t *w = random_weight((enum dtype)t, ROWS, cols);
		float *x = random_floats(N * (size_t)cols, -1, 1), *want = NULL;

		for (int32_t i = 0; i < N * cols / 32; i++) {
			int32_t token = i / (cols / 32), b = i % (cols / 32);
			double share = token < 10 ? 0 : token < 40 ? 0.1 : token < 50 ? 0.9 : 0.4;

			if (test_randf(0, 1) < share || (b == 3 && token >= 10))
				x[(size_t)i * 32 + 7] = 40;
		}
		for (int l = 0; l < N_LEVELS; l++) {
			struct backend *be = open_level(levels[l], 1 + 2 * (t % 2));
			struct tensor tw;
			float *all;
			double worst = 0, size = 0;

			if (!be)
				continue;
			tw = weight_new(be, (enum dtype)t, ROWS, cols, w);
			all = matmul_once(be, &tw, x, N);
			for (int32_t i = 0; i < N; i++) {
				float *one = matmul_once(be, &tw, x + (size_t)i * (size_t)cols, 1);

				CHECK_MSG(!memcmp(one, all + (size_t)i * ROWS, sizeof(float) * ROWS), "%s %s: token %d",
				          levels[l], dtype_info((enum dtype)t)->name, (int)i);
				free(one);
			}
			for (int32_t i = 0; want && i < N * ROWS; i++) {
				worst = fmax(worst, fabs((double)all[i] - want[i]));
				size = fmax(size, fabs((double)want[i]));
			}
			CHECK_MSG(worst <= 1e-5 * size, "%s %s: off by %g of %g", levels[l],
			          dtype_info((enum dtype)t)->name, worst, size);
			be->ops->drop(be, &tw);
			finish(be);
			if (want)
				free(all);
			else
				want = all;
		}
		free(want);
		free(w);
		free(x);
	}
}

/* The weights are far larger than one task, and there are more columns than in one tile, to test how products are
 * divided into tasks. */
TEST(products_same_bits_for_large_shapes)
{
	enum { ROWS = 700, COLS = 2048, N = 300 };

	for (int l = 1; l < N_LEVELS; l++) {
		uint8_t *w = random_weight(DT_Q4_0, ROWS, COLS);
		float *x = random_floats((size_t)N * COLS, -1, 1), *all = NULL;

		for (int threads = 1; threads <= 5; threads += 2) {
			struct backend *be = open_level(levels[l], threads);
			struct tensor tw;
			float *got;

			if (!be)
				break;
			tw = weight_new(be, DT_Q4_0, ROWS, COLS, w);
			got = matmul_once(be, &tw, x, N);
			if (!all)
				all = got;
			CHECK_MSG(!memcmp(got, all, sizeof(float) * ROWS * N), "%s, %d threads", levels[l], threads);
			if (got != all)
				free(got);
			for (int i = 0; i < N; i += 61) {
				got = matmul_once(be, &tw, x + (size_t)i * COLS, 1);
				CHECK_MSG(!memcmp(got, all + (size_t)i * ROWS, sizeof(float) * ROWS), "%s token %d",
				          levels[l], i);
				free(got);
			}
			be->ops->drop(be, &tw);
			finish(be);
		}
		free(w);
		free(x);
		free(all);
	}
}

TEST(load_weight_takes_odd_addresses)
{
	enum { ROWS = 20, COLS = 64 };
	static const enum dtype types[] = { DT_F32, DT_F16, DT_Q4_1, DT_Q8_0 };

	for (int l = 0; l < N_LEVELS; l++)
		for (int t = 0; t < 4; t++) {
			struct backend *be = open_level(levels[l], 2);
			size_t size = (size_t)dtype_bytes(types[t], ROWS * COLS);
			uint8_t *w, *odd;
			float *x, *a, *b;

			if (!be)
				continue;
			w = random_weight(types[t], ROWS, COLS);
			odd = must_alloc(size + 8);
			memcpy(odd + 3, w, size);
			x = random_floats(COLS * 2, -1, 1);
			struct tensor even_w = weight_new(be, types[t], ROWS, COLS, w);
			struct tensor odd_w = weight_new(be, types[t], ROWS, COLS, odd + 3);
			a = matmul_once(be, &even_w, x, 2);
			b = matmul_once(be, &odd_w, x, 2);
			CHECK(!memcmp(a, b, ROWS * 2 * 4));
			be->ops->drop(be, &even_w);
			be->ops->drop(be, &odd_w);
			finish(be);
			free(a);
			free(b);
			free(w);
			free(odd);
			free(x);
		}
}

/* ---- special values ---- */

/* the pieces of a weight that were reported as read */
static struct {
	const uint8_t *host;
	uint8_t seen[64];
	size_t piece;
	int calls;
} told;

static void host_was_read(const void *p, size_t n, void *ud)
{
	size_t first = (size_t)((const uint8_t *)p - told.host) / told.piece,
	       last = ((size_t)((const uint8_t *)p - told.host) + n) / told.piece;

	CHECK(ud == &told && first <= last && last <= sizeof told.seen);
	for (size_t i = first; i < last && i < sizeof told.seen; i++)
		__atomic_store_n(&told.seen[i], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&told.calls, 1, __ATOMIC_RELAXED);
}

/* If a weight is repacked, backend.host_read() is called for all bytes that have been read. If a weight stays in place,
 * the function is not called. */
TEST(the_owner_learns_what_was_read)
{
	struct backend *be = open_level(levels[1], 3);
	uint8_t *w;
	struct tensor t;

	if (!be)
		SKIP("no level here repacks weights");
	w = random_weight(DT_Q4_K, 1024, 256);
	be->host_read = host_was_read;
	be->host_read_ud = &told;
	memset(&told, 0, sizeof told);
	told.host = w;
	told.piece = 16 * (size_t)dtype_bytes(DT_Q4_K, 256);
	t = weight_new(be, DT_Q4_K, 1024, 256, w);
	CHECK(told.calls > 0);
	for (size_t i = 0; i < sizeof told.seen; i++)
		CHECK_MSG(told.seen[i], "rows from %zu on were not told of", 16 * i);
	be->ops->drop(be, &t);
	told.calls = 0;
	CHECK(!be->ops->load_weight(be, &t, w, 1) && !told.calls);
	be->ops->drop(be, &t);
	be->host_read = NULL;
	free(w);
	be->ops->close(be);
}

TEST(not_a_number_reaches_the_output)
{
	static const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };
	enum { COLS = 256, ROWS = 40 };

	for (int l = 0; l < N_LEVELS; l++)
		for (int b = 0; b < 4; b++) {
			struct backend *be = open_level(levels[l], 2);
			float *x, *got, ones[COLS];
			struct tensor tx, tw, out;

			if (!be)
				continue;
			for (int j = 0; j < COLS; j++)
				ones[j] = 1;
			/* All values of row 0 are finite. Row 1 has one bad value, each time at another place. */
			x = random_floats(2 * COLS, 0.5f, 1);
			x[COLS + 37 * b + 5] = bad[b];
			tx = tensor_new(be, DT_F32, 2, COLS, x);
			tw = tensor_new(be, DT_F32, 1, COLS, ones);
			out = guarded(be, 2, COLS);
			be->ops->rmsnorm(be, &out, &tx, &tw, COLS, 1e-5f, 2);
			got = result(be, &out, "rmsnorm");
			CHECK(isfinite(got[0]) && isfinite(got[COLS - 1]));
			CHECK_MSG(isnan(got[COLS + 37 * b + 5]), "%s rmsnorm of %g", levels[l], bad[b]);
			free(got);
			for (int t = 0; t < DT_COUNT; t++) {
				uint8_t *w = random_weight((enum dtype)t, ROWS, COLS);
				struct tensor wt = weight_new(be, (enum dtype)t, ROWS, COLS, w);
				int clean = 1, seen = 1;

				got = matmul_once(be, &wt, x, 2);
				for (int r = 0; r < ROWS; r++) {
					clean &= isfinite(got[r]) != 0;
					seen &= !isfinite(got[ROWS + r]);
				}
				CHECK_MSG(clean && seen, "%s %s matmul of %g: clean %d seen %d", levels[l],
				          dtype_info((enum dtype)t)->name, bad[b], clean, seen);
				free(got);
				got = glu_once(be, &wt, &wt, x, 2);
				for (int r = 0; r < ROWS; r++)
					clean &= isfinite(got[r]) != 0;
				CHECK_MSG(clean, "%s %s glu", levels[l], dtype_info((enum dtype)t)->name);
				if (isnan(bad[b]))
					CHECK_MSG(isnan(got[ROWS]), "%s %s glu of %g", levels[l],
					          dtype_info((enum dtype)t)->name, bad[b]);
				free(got);
				be->ops->drop(be, &wt);
				free(w);
			}
			be->ops->drop(be, &tx);
			be->ops->drop(be, &tw);
			finish(be);
			free(x);
		}
}

TEST(tiny_huge_and_zero_inputs)
{
	static const float size[] = { 0, 1e-45f, 1e-38f, 1e-30f, 1e20f, 1e30f, 3e38f };
	enum { COLS = 64, ROWS = 16 };

	for (int l = 0; l < N_LEVELS; l++)
		for (int s = 0; s < 7; s++) {
			struct backend *be = open_level(levels[l], 1);
			uint8_t *w;
			float *x, *got, w1[COLS];
			struct tensor tw, tx, tn, out;
			int finite = 1;

			if (!be)
				continue;
			w = random_weight(DT_Q8_0, ROWS, COLS);
			x = random_floats(COLS, -1, 1);
			for (int j = 0; j < COLS; j++) {
				x[j] *= size[s];
				w1[j] = 1;
			}
			tw = weight_new(be, DT_Q8_0, ROWS, COLS, w);
			got = matmul_once(be, &tw, x, 1);
			for (int r = 0; r < ROWS; r++)
				finite &= size[s] > 1e38f || isfinite(got[r]);
			CHECK_MSG(finite, "%s matmul at %g", levels[l], size[s]);
			if (size[s] == 0)
				CHECK(got[0] == 0);
			free(got);
			tx = tensor_new(be, DT_F32, 1, COLS, x);
			tn = tensor_new(be, DT_F32, 1, COLS, w1);
			out = guarded(be, 1, COLS);
			be->ops->rmsnorm(be, &out, &tx, &tn, COLS, 1e-6f, 1);
			got = result(be, &out, "rmsnorm");
			for (int j = 0; j < COLS; j++)
				finite &= isfinite(got[j]) != 0;
			/* At the fast levels, squares that exceed the range of a float may overflow. */
			CHECK_MSG(finite || size[s] > 1e18f, "%s rmsnorm at %g", levels[l], size[s]);
			free(got);
			be->ops->drop(be, &tx);
			be->ops->drop(be, &tn);
			be->ops->drop(be, &tw);
			finish(be);
			free(w);
			free(x);
		}
}

/* ---- leaves below the backend ---- */

TEST(quantize_same_at_every_level)
{
	static const struct cpu_fns *fns[N_LEVELS];
	enum { COLS = 32 * 37, BLOCKS = COLS / 32 };
	struct {
		int8_t q[COLS], lo[COLS];
		uint8_t wide[BLOCKS];
		float d[BLOCKS];
		int32_t sum[2 * BLOCKS], lo_sum[2 * BLOCKS];
	} out[2];

	memset(out, 0, sizeof out);
	for (int l = 0; l < N_LEVELS; l++) {
		setenv("WEIR_CPU", levels[l], 1);
		fns[l] = cpu_fns_best();
	}
	unsetenv("WEIR_CPU");
	for (int round = 0; round < 50; round++) {
		float *x = random_floats(COLS, -3, 3);
		int n_wide = 0;

		/* Blocks with ties, with zeros, with one huge value, with tiny values, and with one value far above the
		 * others. */
		for (int j = 0; j < 32; j++) {
			x[j] = (float)(j - 16) * 0.5f;
			x[32 + j] = 0;
			x[64 + j] = j == round % 32 ? 1e30f : 1;
			x[96 + j] *= 1e-37f;
			x[128 + j] *= 1e-42f;
			x[160 + j] *= j == round % 32 ? 30.0f : 1;
		}
		x[31] = 127;
		for (int l = 0; l < N_LEVELS; l++) {
			struct act a[2];

			for (int i = 0; i < 2; i++)
				a[i] = (struct act){ .q = out[i].q,
					             .lo = out[i].lo,
					             .wide = out[i].wide,
					             .d = out[i].d,
					             .sum = out[i].sum,
					             .lo_sum = out[i].lo_sum,
					             .x = x,
					             .n = 1,
					             .cols = COLS,
					             .all_wide = round % 2 };
			fns[l]->quantize(&a[l > 0], 0);
			if (l > 0)
				CHECK_MSG(!memcmp(&out[0], &out[1], sizeof out[0]), "%s differs from c", levels[l]);
		}
		for (int b = 0; b < BLOCKS; b++) {
			int32_t sums[4] = { 0 };

			n_wide += out[0].wide[b];
			for (int j = 0; j < 32; j++) {
				int q = out[0].q[b * 32 + j], lo = out[0].lo[b * 32 + j];
				double got = (double)out[0].d[b] * (q + lo / 256.0);
				double step = out[0].d[b] * (out[0].wide[b] ? 1 / 256.0 : 1);

				/* The second byte represents at most 127 / 256 of a coarse step. So at the ends of its
				 * range, the error is up to one fine step instead of half a fine step. */
				double most = step * (out[0].wide[b] ? 1.01 : 0.5001) + 1.6e-36;

				CHECK_MSG(fabs(got - x[b * 32 + j]) <= most, "block %d value %d", b, j);
				CHECK(out[0].wide[b] || !lo);
				sums[j / 16] += q;
				sums[2 + j / 16] += lo;
			}
			CHECK(sums[0] == out[0].sum[2 * b] && sums[1] == out[0].sum[2 * b + 1]);
			CHECK(sums[2] == out[0].lo_sum[2 * b] && sums[3] == out[0].lo_sum[2 * b + 1]);
		}
		CHECK(out[0].wide[2] && !out[0].wide[1]);
		CHECK_MSG(round % 2 ? n_wide >= BLOCKS - 3 : n_wide < BLOCKS / 2, "%d blocks are wide", n_wide);
		free(x);
	}
}

/* Return 1 + tanh(u) for GELU's approximation, precise even near 0. */
static double one_and_tanh(double x)
{
	return 2 / (1 + exp(-2 * 0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

TEST(activations_match_double)
{
	enum { N = 4096 };

	for (int l = 0; l < 2 * N_LEVELS; l++) {
		const struct cpu_fns *f;
		const enum activation act = l < N_LEVELS ? ACT_SILU : ACT_GELU;
		float *g = random_floats(N, -90, 90), *u = random_floats(N, -1, 1), *ref = must_alloc(N * 4);

		setenv("WEIR_CPU", levels[l % N_LEVELS], 1);
		f = cpu_fns_best();
		unsetenv("WEIR_CPU");
		for (int i = 0; i < N; i++) {
			if (i % 2)
				g[i] /= 30;
			double x = g[i];
			ref[i] = (float)((act == ACT_SILU ? x / (1 + exp(-x)) : 0.5 * x * one_and_tanh(x)) * u[i]);
		}
		f->glu(act, g, u, N);
		CHECK_MSG(test_nmse(g, ref, N) < 1e-12, "%s: %g", levels[l % N_LEVELS], test_nmse(g, ref, N));
		for (int i = 0; i < N; i++)
			/* The exponent in GELU grows with the cube of x, and the rounding error grows with the
			 * exponent. */
			if (fabsf(g[i] - ref[i]) > (act == ACT_SILU ? 1e-6f : 1e-5f) * fabsf(ref[i]) + 1e-30f) {
				test_fail(__FILE__, __LINE__, "%s: %g, expected %g", levels[l % N_LEVELS], g[i],
				          ref[i]);
				break;
			}
		for (int i = 0; i < 16; i++) {
			g[i] = (float[]){ NAN, 1000, -1000, 0, 88.8f, -88.8f, -104, 3e38f }[i % 8];
			u[i] = 1;
		}
		f->glu(act, g, u, 16);
		for (int i = 0; i < 16; i += 8) {
			CHECK(isnan(g[i]));
			CHECK(g[i + 1] == 1000 && fabsf(g[i + 2]) < 1e-30f && g[i + 3] == 0 && g[i + 7] == 3e38f);
			CHECK(fabsf(g[i + 5]) < 1e-30f && fabsf(g[i + 6]) < 1e-30f);
		}
		free(g);
		free(u);
		free(ref);
	}
}

TEST(clamped_activation_matches_double)
{
	enum { N = 4096 };

	for (int l = 0; l < N_LEVELS; l++) {
		const struct cpu_fns *f;
		float *g = random_floats(N, -30, 12), *u = random_floats(N, -12, 12), *ref = must_alloc(N * 4);

		setenv("WEIR_CPU", levels[l], 1);
		f = cpu_fns_best();
		unsetenv("WEIR_CPU");
		for (int i = 0; i < N; i++) {
			double x = fmin(g[i], 7), y = fmax(-7, fmin(7, u[i]));

			ref[i] = (float)(x / (1 + exp(-1.702 * x)) * (y + 1));
		}
		f->glu(ACT_SILU_CLAMPED, g, u, N);
		CHECK_MSG(test_nmse(g, ref, N) < 1e-12, "%s: %g", levels[l], test_nmse(g, ref, N));
		free(g);
		free(u);
		free(ref);
	}
}

/* Biases of gate and up, at sizes that are no multiple of a vector, for one token and for many tokens. */
TEST(glu_with_biases_matches_double)
{
	enum { ROWS = 53, COLS = 40 };

	for (int l = 0; l < N_LEVELS; l++)
		for (int32_t n = 1; n <= 29; n += 14) {
			struct backend *be = open_level(levels[l], 2);
			float *w[2], *b[2], *x, *got, *ref;
			struct tensor tw[2], tb[2], tx, out;

			if (!be)
				continue;
			x = random_floats((size_t)n * COLS, -1, 1);
			ref = must_alloc((size_t)n * ROWS * 4);
			tx = tensor_new(be, DT_F32, n, COLS, x);
			out = guarded(be, n, ROWS);
			for (int k = 0; k < 2; k++) {
				w[k] = random_floats(ROWS * COLS, -1, 1);
				b[k] = random_floats(ROWS, -2, 2);
				tw[k] = weight_new(be, DT_F32, ROWS, COLS, w[k]);
				tb[k] = tensor_new(be, DT_F32, 1, ROWS, b[k]);
			}
			for (int32_t i = 0; i < n; i++)
				for (int32_t r = 0; r < ROWS; r++) {
					double g[2] = { b[0][r], b[1][r] };

					for (int k = 0; k < 2; k++)
						for (int32_t c = 0; c < COLS; c++)
							g[k] += (double)w[k][r * COLS + c] * x[i * COLS + c];
					ref[i * ROWS + r] = (float)(g[0] / (1 + exp(-g[0])) * g[1]);
				}
			be->ops->matmul_glu(be, &out,
			                    &(struct matmul_glu){ .gate = &tw[0],
			                                          .up = &tw[1],
			                                          .gate_bias = &tb[0],
			                                          .up_bias = &tb[1] },
			                    &tx, n);
			got = result(be, &out, "matmul_glu");
			CHECK_MSG(test_nmse(got, ref, (size_t)n * ROWS) < 1e-11, "%s, %d tokens: %g", levels[l], n,
			          test_nmse(got, ref, (size_t)n * ROWS));
			for (int k = 0; k < 2; k++) {
				be->ops->drop(be, &tw[k]);
				be->ops->drop(be, &tb[k]);
				free(w[k]);
				free(b[k]);
			}
			be->ops->drop(be, &tx);
			finish(be);
			free(got);
			free(ref);
			free(x);
		}
}

/* ---- cancel ---- */

TEST(cancel_returns_early)
{
	enum { ROWS = 4096, COLS = 4096, N = 64 };
	struct backend *be = open_level("c", 2);
	_Atomic int flag = 0;
	struct tensor x = tensor_new(be, DT_F32, N, COLS, NULL), out = tensor_new(be, DT_F32, N, ROWS, NULL);
	uint8_t *w = must_alloc((size_t)dtype_bytes(DT_Q4_0, (uint64_t)ROWS * COLS));
	struct tensor tw = weight_new(be, DT_Q4_0, ROWS, COLS, w);
	double before;
	float first = 7;

	be->cancel = &flag;
	atomic_store(&flag, 1);
	be->ops->write(be, &out, 0, &first, 4);
	before = cpu_seconds();
	be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &tw }, 1, &x, N);
	be->ops->matmul_glu(be, &out, &(struct matmul_glu){ .gate = &tw, .up = &tw, .act = ACT_GELU }, &x, N);
	/* Without the cancel, 3e9 multiply-adds in plain C would take seconds. */
	CHECK(cpu_seconds() - before < 0.4);
	CHECK(be->ops->sync(be) == 0);
	be->ops->read(be, &out, 0, &first, 4);
	CHECK(first == 7);
	atomic_store(&flag, 0);
	be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &tw }, 1, &x, 1);
	be->ops->read(be, &out, 0, &first, 4);
	CHECK(first == 0);
	be->ops->drop(be, &x);
	be->ops->drop(be, &out);
	be->ops->drop(be, &tw);
	finish(be);
	free(w);
}

struct canceller {
	_Atomic int flag;
	struct timespec delay;
};

static void *cancel_later(void *arg)
{
	struct canceller *c = arg;

	nanosleep(&c->delay, NULL);
	atomic_store(&c->flag, 1);
	return NULL;
}

TEST(cancel_stops_a_running_product)
{
	enum { ROWS = 4096, COLS = 4096, N = 128 };
	struct backend *be = open_level("c", 2);
	struct canceller c = { .delay = { .tv_nsec = 20000000 } };
	struct tensor x = tensor_new(be, DT_F32, N, COLS, NULL), out = tensor_new(be, DT_F32, N, ROWS, NULL);
	uint8_t *w = must_alloc((size_t)dtype_bytes(DT_Q4_0, (uint64_t)ROWS * COLS));
	struct tensor tw = weight_new(be, DT_Q4_0, ROWS, COLS, w);
	double before, part;
	pthread_t thread;

	before = cpu_seconds();
	be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &tw }, 1, &x, N / 8);
	part = cpu_seconds() - before;
	be->cancel = &c.flag;
	CHECK(pthread_create(&thread, NULL, cancel_later, &c) == 0);
	before = cpu_seconds();
	be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &tw }, 1, &x, N);
	before = cpu_seconds() - before;
	pthread_join(thread, NULL);
	CHECK_MSG(before < 6 * part, "%.2f s of processor time, an eighth of the product takes %.2f s", before, part);
	be->ops->drop(be, &x);
	be->ops->drop(be, &out);
	be->ops->drop(be, &tw);
	finish(be);
	free(w);
}
