/* tests/cuda/t_cuda_ops.c - norms, rotations, KV entries, copies and query_drift of the CUDA backend, on the
 * emulated device (tests/cuda/emulator/host.cuh) or on a GPU.
 *
 * Results are compared with computations in double made here; KV entries must have the bits of the reference
 * conversion. Calls that share one launch must give the same bits as separate launches, and the steps of consecutive
 * tokens must have the same launches. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/emulator/gpu_host.h"
#include "kernels/common/quant.h"
#include "tests/cuda/cuda_test.h"
#include "tests/lib/levels.h"

enum { GUARDS = 3 }; /* rows of guards after every result */
#define GUARD 12345.5f

static float *randoms(size_t n, float lo, float hi)
{
	float *x = must_alloc(n * sizeof *x);

	for (size_t i = 0; i < n; i++)
		x[i] = test_randf(lo, hi);
	return x;
}

static struct tensor guarded(struct backend *be, int32_t n, int32_t cols, const float *x)
{
	struct tensor t = tensor_new(be, DT_F32, n + GUARDS, cols, NULL);
	size_t all = (size_t)(n + GUARDS) * (size_t)cols;
	float *g = must_alloc(all * sizeof *g);

	for (size_t i = 0; i < all; i++)
		g[i] = GUARD;
	if (x)
		memcpy(g, x, (size_t)n * (size_t)cols * sizeof *g);
	be->ops->write(be, &t, 0, g, all * sizeof *g);
	free(g);
	return t;
}

static float *result(struct backend *be, struct tensor *t, const char *what)
{
	size_t all = (size_t)t->rows * (size_t)t->cols, n = (size_t)(t->rows - GUARDS) * (size_t)t->cols;
	float *x = must_alloc(all * sizeof *x);

	be->ops->read(be, t, 0, x, all * sizeof *x);
	for (size_t i = n; i < all; i++)
		if (x[i] != GUARD) {
			test_fail(__FILE__, __LINE__, "%s wrote past its last row", what);
			break;
		}
	return x;
}

/* ---- the backend itself ---- */

TEST(cuda_table_is_full)
{
	struct backend *be = open_cuda();
	void *const *entry = (void *const *)(const void *)be->ops;
	char text[96];
	uint64_t available, total;

	/* The first two members of the table are the name and the list of missing features. */
	for (size_t i = 2; i < sizeof *be->ops / sizeof(void *); i++)
		CHECK_MSG(entry[i] != NULL, "entry %d of the table is NULL", (int)i);
	CHECK_STR(be->ops->name, "cuda");
	be->ops->describe(be, text, sizeof text);
	be->ops->memory(be, &available, &total);
	if (test_cuda_is_device()) {
		CHECK_MSG(!strncmp(text, "cuda ", 5) && strstr(text, " GB, sm_"), "%s", text);
		CHECK(total > 0 && available > 0 && available <= total);
	} else {
		CHECK_STR(text, "cuda host, 4 GB, sm_90");
		CHECK(total == (uint64_t)4 << 30 && available <= total && available > total / 2);
	}
	finish(be);
}

TEST(cuda_other_interface)
{
	struct backend *be = NULL;
	char err[160] = "";

	CUDA_HOST_ONLY(); /* backend_open() always asks for its own version number */
	CHECK(weir_cuda_open(&be, NULL, BACKEND_ABI + 1, err) < 0);
	CHECK(be == NULL && strstr(err, "build both again"));
}

TEST(cuda_memory_runs_out_and_comes_back)
{
	struct backend *be;
	struct tensor a = { .type = DT_F32, .rows = 1024, .cols = 1024 },
		      b = { .type = DT_F32, .rows = 1200, .cols = 1024 };
	uint64_t available, total;

	CUDA_HOST_ONLY();
	gpu_host_memory(8 << 20);
	be = open_cuda();
	gpu_host_memory((uint64_t)4 << 30);
	CHECK(be->ops->alloc(be, &a) == 0);
	be->ops->memory(be, &available, &total);
	CHECK_INT(available, 4 << 20);
	CHECK(be->ops->alloc(be, &b) < 0);
	CHECK(b.data == NULL);
	CHECK_STR(be->err, "cannot get 5 MiB of GPU memory for a tensor of 1200 x 1024: 4 MiB are free");
	CHECK(be->ops->sync(be) < 0);
	CHECK(be->ops->sync(be) == 0);
	be->ops->drop(be, &a);
	CHECK(be->ops->alloc(be, &b) == 0);
	be->ops->drop(be, &b);
	b.cols = 0;
	CHECK(be->ops->alloc(be, &b) < 0);
	CHECK(be->ops->sync(be) < 0);
	finish(be);
}

/* A request for more than the device's memory is refused, with both numbers in the error, and no memory is lost. */
TEST(cuda_more_than_there_is)
{
	struct backend *be = open_cuda();
	struct tensor much = { .type = DT_U8, .rows = 1 << 20 }, little = { .type = DT_F32, .rows = 3, .cols = 5 };
	uint64_t available, total, now;
	float x[15], y[15];

	be->ops->memory(be, &available, &total);
	much.cols = (int32_t)(total >> 20) + 64;
	CHECK(be->ops->alloc(be, &much) < 0);
	CHECK(much.data == NULL);
	CHECK_MSG(strstr(be->err, "cannot get ") && strstr(be->err, " MiB are free"), "%s", be->err);
	CHECK(be->ops->sync(be) < 0);
	CHECK(be->ops->sync(be) == 0);
	be->ops->memory(be, &now, &total);
	CHECK_MSG(now + (64 << 20) > available, "%.0f MiB of %.0f are left", (double)now / (1 << 20),
	          (double)available / (1 << 20));
	CHECK(be->ops->alloc(be, &little) == 0);
	for (int i = 0; i < 15; i++)
		x[i] = (float)i;
	be->ops->write(be, &little, 0, x, sizeof x);
	be->ops->read(be, &little, 0, y, sizeof y);
	CHECK(!memcmp(x, y, sizeof x));
	be->ops->drop(be, &little);
	finish(be);
}

TEST(cuda_write_and_read)
{
	struct backend *be = open_cuda();
	size_t n = 300000;
	struct tensor t = tensor_new(be, DT_U8, 1, (int32_t)n, NULL);
	unsigned char *x = must_alloc(n), *y = must_alloc(n);

	be->ops->read(be, &t, 0, y, n);
	CHECK(!memcmp(x, y, n)); /* a new tensor is zero */
	for (int i = 0; i < 200; i++) {
		size_t off = test_rand() % n, m = test_rand() % (i % 8 ? 100 : n) % (n - off + 1);

		for (size_t k = 0; k < m; k++)
			x[off + k] = (unsigned char)test_rand();
		be->ops->write(be, &t, off, x + off, m);
		if (i % 20 == 0) {
			be->ops->read(be, &t, off / 2, y + off / 2, n - off / 2);
			CHECK(!memcmp(x + off / 2, y + off / 2, n - off / 2));
		}
	}
	be->ops->read(be, &t, 0, y, n);
	CHECK(!memcmp(x, y, n));
	CHECK(be->ops->sync(be) == 0);
	be->ops->write(be, &t, n - 1, x, 2);
	CHECK(be->ops->sync(be) < 0);
	CHECK(strstr(be->err, "are not within a plain tensor"));
	be->ops->read(be, &t, n, y, 1);
	CHECK(be->ops->sync(be) < 0);
	be->ops->drop(be, &t);
	free(x);
	free(y);
	finish(be);
}

/* Copies larger than the staging buffers. The caller may change its bytes as soon as write() returns. */
TEST(cuda_large_copies)
{
	struct backend *be = open_cuda();
	static const size_t sizes[] = { 1, 65535, 65536, 65537, 8 << 20, (8 << 20) + 1, (16 << 20) - 3, 40000001 };

	for (size_t i = 0; i < LEN(sizes); i++) {
		size_t n = sizes[i];
		struct tensor t = tensor_new(be, DT_U8, 1, (int32_t)n + 7, NULL);
		unsigned char *x = must_alloc(n), *y = must_alloc(n + 7);

		for (size_t k = 0; k < n; k++)
			x[k] = (unsigned char)(k * 2654435761u >> 13);
		be->ops->write(be, &t, 3, x, n);
		memset(x, 0, n); /* the caller may change its bytes now */
		be->ops->read(be, &t, 0, y, n + 7);
		for (size_t k = 0; k < n + 7; k++) {
			unsigned char want = k < 3 || k >= n + 3 ? 0 : (unsigned char)((k - 3) * 2654435761u >> 13);

			if (y[k] != want) {
				test_fail(__FILE__, __LINE__, "%zu bytes: byte %zu is %d, not %d", n, k, y[k], want);
				break;
			}
		}
		be->ops->drop(be, &t);
		free(x);
		free(y);
	}
	finish(be);
}

/* In one step, make more small writes than fit the staging region, between kernels that use the written bytes. */
TEST(cuda_many_writes_in_one_step)
{
	enum { N = 600, COLS = 8192 };
	struct backend *be = open_cuda();
	struct tensor a = tensor_new(be, DT_F32, 1, COLS, NULL), b = tensor_new(be, DT_F32, N, COLS, NULL);
	float *x = must_alloc(COLS * 4), *got = must_alloc(COLS * 4);

	for (int i = 0; i < N; i++) {
		for (int k = 0; k < COLS; k++)
			x[k] = (float)(i * 3 + k);
		be->ops->write(be, &a, 0, x, COLS * 4);
		be->ops->copy(be, &b, i, &a, 0, 1);
	}
	for (int i = 0; i < N; i += 37) {
		be->ops->read(be, &b, (size_t)i * COLS * 4, got, COLS * 4);
		for (int k = 0; k < COLS; k += 11)
			CHECK(got[k] == (float)(i * 3 + k));
	}
	be->ops->drop(be, &a);
	be->ops->drop(be, &b);
	free(x);
	free(got);
	finish(be);
}

/* ---- norms ---- */

static void norm_double(float *out, const float *x, const float *w, int32_t n, int32_t cols, int32_t group, float eps)
{
	for (int32_t g = 0; g < n * (cols / group); g++) {
		const float *a = x + (size_t)g * (size_t)group;
		double sum = 0;

		for (int32_t i = 0; i < group; i++)
			sum += (double)a[i] * a[i];
		for (int32_t i = 0; i < group; i++)
			out[(size_t)g * (size_t)group + (size_t)i] = (float)(a[i] / sqrt(sum / group + eps) * w[i]);
	}
}

static void norm_case(struct backend *be, int32_t n, int32_t cols, int32_t group, float size, int in_place)
{
	size_t all = (size_t)n * (size_t)cols;
	float *x = randoms(all, -size, size), *w = randoms((size_t)group, 0.5f, 2.0f), *want = must_alloc(all * 4),
	      *got;
	struct tensor tx = guarded(be, n, cols, x), tw = tensor_new(be, DT_F32, 1, group, w),
		      to = guarded(be, n, cols, NULL);

	norm_double(want, x, w, n, cols, group, 1e-5f);
	be->ops->rmsnorm(be, in_place ? &tx : &to, &tx, &tw, group, 1e-5f, n);
	got = result(be, in_place ? &tx : &to, "rmsnorm");
	CHECK_MSG(test_nmse(got, want, all) < 1e-12, "rmsnorm of %d x %d in groups of %d: %g", n, cols, group,
	          test_nmse(got, want, all));
	be->ops->drop(be, &tx);
	be->ops->drop(be, &tw);
	be->ops->drop(be, &to);
	free(x);
	free(w);
	free(want);
	free(got);
}

TEST(cuda_rmsnorm)
{
	static const int32_t shape[][3] = { { 1, 576, 576 },     { 3, 1, 1 },         { 5, 33, 33 },
		                            { 2, 4096, 4096 },   { 1, 20000, 20000 }, { 1, 16388, 16388 },
		                            { 2, 17001, 17001 }, { 7, 192, 64 },      { 3, 384, 128 },
		                            { 2, 400, 80 },      { 4, 21, 7 },        { 2, 2048, 1024 },
		                            { 1, 512, 512 },     { 9, 6, 3 } };
	struct backend *be = open_cuda();

	for (size_t i = 0; i < LEN(shape); i++)
		for (int in_place = 0; in_place < 2; in_place++) {
			norm_case(be, shape[i][0], shape[i][1], shape[i][2], 1.0f, in_place);
			norm_case(be, shape[i][0], shape[i][1], shape[i][2], 1e-4f, in_place);
			norm_case(be, shape[i][0], shape[i][1], shape[i][2], 1e4f, in_place);
		}
	finish(be);
}

static void layernorm_case(struct backend *be, int32_t n, int32_t cols, float size, int in_place)
{
	size_t all = (size_t)n * (size_t)cols;
	float *x = randoms(all, -size, 2 * size), *w = randoms((size_t)cols, 0.5f, 2),
	      *b = randoms((size_t)cols, -1, 1), *want = must_alloc(all * 4), *got;
	struct tensor tx = guarded(be, n, cols, x), tw = tensor_new(be, DT_F32, 1, cols, w),
		      tb = tensor_new(be, DT_F32, 1, cols, b), to = guarded(be, n, cols, NULL);

	for (size_t at = 0; at < all; at += (size_t)cols) {
		double mean = 0, squares = 0;

		for (int32_t i = 0; i < cols; i++)
			mean += (double)x[at + (size_t)i] / cols;
		for (int32_t i = 0; i < cols; i++)
			squares += (x[at + (size_t)i] - mean) * (x[at + (size_t)i] - mean);
		for (int32_t i = 0; i < cols; i++)
			want[at + (size_t)i] =
				(float)((x[at + (size_t)i] - mean) / sqrt(squares / cols + 1e-5f) * w[i] + b[i]);
	}
	be->ops->layernorm(be, in_place ? &tx : &to, &tx, &tw, &tb, 1e-5f, n);
	got = result(be, in_place ? &tx : &to, "layernorm");
	CHECK_MSG(test_nmse(got, want, all) < 1e-12, "layernorm of %d x %d: %g", n, cols, test_nmse(got, want, all));
	be->ops->drop(be, &tx);
	be->ops->drop(be, &tw);
	be->ops->drop(be, &tb);
	be->ops->drop(be, &to);
	free(x);
	free(w);
	free(b);
	free(want);
	free(got);
}

TEST(cuda_layernorm)
{
	static const int32_t shape[][2] = { { 1, 384 },  { 3, 1 },   { 5, 33 }, { 70, 1024 },
		                            { 2, 4100 }, { 9, 256 }, { 4, 31 } };
	struct backend *be = open_cuda();

	for (size_t i = 0; i < LEN(shape); i++)
		for (int in_place = 0; in_place < 2; in_place++) {
			layernorm_case(be, shape[i][0], shape[i][1], 1.0f, in_place);
			layernorm_case(be, shape[i][0], shape[i][1], 1e4f, in_place);
		}
	finish(be);
}

TEST(cuda_gelu)
{
	static const int32_t shape[][2] = { { 1, 1536 }, { 3, 1 }, { 5, 33 }, { 70, 1024 }, { 2, 4100 } };
	struct backend *be = open_cuda();

	for (size_t i = 0; i < LEN(shape); i++) {
		int32_t n = shape[i][0], cols = shape[i][1];
		size_t all = (size_t)n * (size_t)cols;
		float *x = randoms(all, -9, 9), *got;
		struct tensor tx = guarded(be, n, cols, x);

		be->ops->gelu(be, &tx, n);
		got = result(be, &tx, "gelu");
		for (size_t k = 0; k < all; k++) {
			double want = x[k] * 0.5 * erfc(-x[k] / sqrt(2.0));

			CHECK_MSG(fabs(got[k] - want) < 1e-6 * fabs(want) + 1e-9, "gelu(%g) = %g, not %g", (double)x[k],
			          (double)got[k], want);
		}
		be->ops->drop(be, &tx);
		free(x);
		free(got);
	}
	finish(be);
}

/* ---- rotations ---- */

TEST(cuda_relative)
{
	static const int32_t shape[][4] = { { 1, 1, 1, 1 }, { 5, 2, 13, 30 }, { 40, 6, 64, 60 }, { 33, 3, 96, 8 } };
	struct backend *be = open_cuda();

	for (size_t s = 0; s < LEN(shape); s++) {
		int32_t n = shape[s][0], heads = shape[s][1], dim = shape[s][2], rows = shape[s][3], row[80];
		size_t cols = (size_t)(heads * dim);
		float *q = randoms((size_t)n * cols, -2, 2), *k = randoms((size_t)n * cols, -2, 2),
		      *keys = randoms((size_t)rows * cols, -2, 2), *queries = randoms((size_t)rows * cols, -2, 2), *got;
		struct tensor t[] = { guarded(be, n, (int32_t)cols, q), guarded(be, n, (int32_t)cols, k),
			              guarded(be, rows, (int32_t)cols, keys), guarded(be, rows, (int32_t)cols, queries),
			              guarded(be, n * heads, n, NULL) };

		for (int32_t i = 0; i < 2 * n - 1; i++)
			row[i] = i * 7 % rows;
		be->ops->relative(be,
		                  &(struct relative_args){ .out = &t[4],
		                                           .q = &t[0],
		                                           .k = &t[1],
		                                           .keys = &t[2],
		                                           .queries = &t[3],
		                                           .row = row,
		                                           .n_head = heads,
		                                           .head_dim = dim,
		                                           .scale = 0.125f },
		                  n);
		got = result(be, &t[4], "relative");
		for (int32_t i = 0; i < n * n * heads; i++) {
			size_t j = (size_t)(i % n), h = (size_t)(i / n % heads), at = (size_t)(i / n / heads);
			const float *key = keys + (size_t)row[at - j + (size_t)n - 1] * cols + h * (size_t)dim,
				    *query = queries + (key - keys);
			double want = 0;

			for (size_t d = 0; d < (size_t)dim; d++)
				want += (double)q[at * cols + h * (size_t)dim + d] * key[d] +
				        (double)k[j * cols + h * (size_t)dim + d] * query[d];
			CHECK_MSG(fabs(got[i] - want * 0.125) < 2e-5, "%d: %g, not %g", i, (double)got[i],
			          want * 0.125);
		}
		for (size_t i = 0; i < LEN(t); i++)
			be->ops->drop(be, &t[i]);
		free(q);
		free(k);
		free(keys);
		free(queries);
		free(got);
	}
	finish(be);
}

static void rope_double(float *out, const float *x, const float *table, int32_t n, int32_t cols, int32_t dim,
                        int32_t dims, int neox)
{
	memmove(out, x, (size_t)n * (size_t)cols * sizeof *out);
	for (int32_t i = 0; i < n; i++)
		for (int32_t h = 0; h < cols; h += dim)
			for (int32_t j = 0; j < dims / 2; j++) {
				size_t at = (size_t)i * (size_t)cols + (size_t)h, p = at + (size_t)(neox ? j : 2 * j),
				       q = p + (size_t)(neox ? dims / 2 : 1);
				double c = table[i * dims + 2 * j], s = table[i * dims + 2 * j + 1], a = out[p],
				       b = out[q];

				out[p] = (float)(a * c - b * s);
				out[q] = (float)(a * s + b * c);
			}
}

static float *random_table(int32_t n, int32_t dims)
{
	float *t = must_alloc((size_t)n * (size_t)(dims ? dims : 1) * sizeof *t);

	for (int32_t i = 0; i < n * dims; i += 2) {
		float a = test_randf(-4, 4);

		t[i] = cosf(a);
		t[i + 1] = sinf(a);
	}
	return t;
}

TEST(cuda_rope)
{
	static const int32_t shape[][4] = { { 1, 9, 64, 64 },  { 5, 3, 128, 128 },  { 3, 2, 80, 80 }, { 2, 5, 96, 32 },
		                            { 7, 1, 256, 64 }, { 2, 3, 10, 6 },     { 4, 2, 5, 2 },   { 1, 1, 2, 2 },
		                            { 2, 2, 64, 0 },   { 1, 2, 4000, 4000 } };
	struct backend *be = open_cuda();

	for (size_t s = 0; s < LEN(shape); s++)
		for (int mode = 0; mode < 4; mode++) {
			int32_t n = shape[s][0], dim = shape[s][2], dims = shape[s][3], cols = shape[s][1] * dim;
			size_t all = (size_t)n * (size_t)cols;
			float *x = randoms(all, -2, 2), *table = random_table(n, dims), *want = must_alloc(all * 4),
			      *got;
			struct tensor tx = guarded(be, n, cols, x), to = guarded(be, n, cols, NULL);
			struct tensor tt = tensor_new(be, DT_F32, n, dims ? dims : 1, table);

			rope_double(want, x, table, n, cols, dim, dims, mode & 1);
			be->ops->rope(be, mode & 2 ? &tx : &to, &tx, &tt, dim, dims, mode & 1, n);
			got = result(be, mode & 2 ? &tx : &to, "rope");
			CHECK_MSG(test_nmse(got, want, all) < 1e-12, "rope of %d x %d heads of %d, %d turned: %g", n,
			          cols / dim, dim, dims, test_nmse(got, want, all));
			be->ops->drop(be, &tx);
			be->ops->drop(be, &to);
			be->ops->drop(be, &tt);
			free(x);
			free(table);
			free(want);
			free(got);
		}
	finish(be);
}

/* ---- KV entries ---- */

static const enum dtype cache_types[] = { DT_F16, DT_F32, DT_BF16, DT_Q8_0 };

/* Convert a row to the bytes that the CPU backend would store. */
static void put_reference(enum dtype type, void *out, const float *x, int32_t dim)
{
	dtype_from_f32(type, out, x, dim);
	for (int32_t b = 0; type == DT_Q8_0 && b < dim / 32; b++) {
		struct block_q8_0 *block = (struct block_q8_0 *)out + b;
		int finite = 1;

		for (int i = 0; i < 32; i++)
			finite &= fabsf(x[32 * b + i]) <= 65504.0f;
		if (!finite) {
			block->d = 0x7e00;
			memset(block->qs, 0, sizeof block->qs);
		}
	}
}

TEST(cuda_kv_put)
{
	static const int32_t shape[][5] = { { 3, 64, 20, 0, 1 },  { 2, 128, 9, 3, 6 }, { 1, 256, 4, 0, 4 },
		                            { 5, 32, 16, 15, 1 }, { 2, 96, 7, 2, 5 },  { 2, 7, 5, 1, 3 } };
	struct backend *be = open_cuda();

	for (size_t s = 0; s < LEN(shape); s++)
		for (int t = 0; t < 4; t++) {
			int32_t heads = shape[s][0], dim = shape[s][1], cap = shape[s][2], row0 = shape[s][3],
				n = shape[s][4], cols = heads * dim;
			size_t row, all, bytes;
			float *x;
			struct tensor plane = { .type = cache_types[t], .rows = heads * cap, .cols = dim }, tx;
			unsigned char *want, *got;

			if (plane.type == DT_Q8_0 && dim % 32)
				continue;
			x = randoms((size_t)n * (size_t)cols, -3, 3);
			/* Values that a cache may get: zero, the smallest and the largest f16, values beyond f16, NaN
			 * and infinity. */
			x[0] = 0;
			x[1] = 1e-7f;
			x[2] = 6e-8f;
			x[3] = -65519.0f;
			x[4] = t == 3 ? 1 : 70000.0f;
			x[5] = n > 1 ? NAN : 1;
			x[6] = n > 2 ? -INFINITY : 2;
			memset(x + (size_t)(n - 1) * (size_t)cols + (size_t)(cols - dim), 0, (size_t)dim * 4 * (n > 3));
			row = (size_t)dtype_bytes(plane.type, (uint64_t)dim);
			all = (size_t)(heads * cap);
			bytes = all * row;
			want = must_alloc(bytes);
			got = must_alloc(bytes);
			CHECK(be->ops->alloc(be, &plane) == 0);
			for (size_t i = 0; i < bytes; i++)
				want[i] = (unsigned char)test_rand();
			be->ops->write(be, &plane, 0, want, bytes);
			tx = tensor_new(be, DT_F32, n, cols, x);
			for (int32_t i = 0; i < n; i++)
				for (int32_t h = 0; h < heads; h++)
					put_reference(plane.type, want + ((size_t)(h * cap + row0 + i)) * row,
					              x + (size_t)(i * cols + h * dim), dim);
			be->ops->kv_put(be, &plane, &tx, heads, row0, n);
			be->ops->read(be, &plane, 0, got, bytes);
			for (size_t i = 0; i < bytes; i++)
				if (want[i] != got[i] && !(plane.type == DT_F16 &&
				                           i / row % (size_t)cap == (size_t)row0 && i % row / 2 == 5)) {
					test_fail(__FILE__, __LINE__,
					          "%s heads of %d: byte %zu of row %zu is %02x, not %02x",
					          dtype_info(plane.type)->name, dim, i % row, i / row, got[i], want[i]);
					break;
				}
			be->ops->drop(be, &plane);
			be->ops->drop(be, &tx);
			free(x);
			free(want);
			free(got);
		}
	finish(be);
}

/* ---- a layer's calls, joined ---- */

struct layer {
	int32_t n_head, n_kv, dim, dims, cap, row0, n, frames;
	int neox, norms;
	enum dtype type;
};
struct made {
	float *q, *k, *frame[3];
	unsigned char *kp, *vp;
	size_t n_q, n_k, plane;
};

/* Make the same calls as the engine does between two products of a layer. apart: 1 = wait after each call, so that no
 * calls share a launch. */
static struct made layer_run(const struct layer *l, const float *q, const float *k, const float *v,
                             const float *const table[3], const float *wq, const float *wk, int apart)
{
	struct backend *be = open_cuda();
	const struct backend_ops *op = be->ops;
	struct tensor tq = tensor_new(be, DT_F32, l->n, l->n_head * l->dim, q),
		      tk = tensor_new(be, DT_F32, l->n, l->n_kv * l->dim, k);
	struct tensor tv = tensor_new(be, DT_F32, l->n, l->n_kv * l->dim, v),
		      twq = tensor_new(be, DT_F32, 1, l->dim, wq);
	struct tensor twk = tensor_new(be, DT_F32, 1, l->dim, wk),
		      kp = tensor_new(be, l->type, l->n_kv * l->cap, l->dim, NULL);
	struct tensor vp = tensor_new(be, l->type, l->n_kv * l->cap, l->dim, NULL), tt[3], tf[3];
	struct made m = { .n_q = (size_t)(l->n * l->n_head * l->dim), .n_k = (size_t)(l->n * l->n_kv * l->dim) };
	struct gpu_host_counts counts;

#define STEP(call)                                                                                                     \
	do {                                                                                                           \
		call;                                                                                                  \
		if (apart)                                                                                             \
			CHECK(op->sync(be) == 0);                                                                      \
	} while (0)
	m.plane = (size_t)dtype_bytes(l->type, (uint64_t)(l->n_kv * l->cap * l->dim));
	for (int i = 0; i < 3; i++) {
		tt[i] = tensor_new(be, DT_F32, l->n, l->dims, table[i]);
		tf[i] = tensor_new(be, DT_F32, l->n, l->n_head * l->dim, NULL);
	}
	CHECK(op->sync(be) == 0);
	gpu_host_forget();
	if (l->norms) {
		STEP(op->rmsnorm(be, &tq, &tq, &twq, l->dim, 1e-6f, l->n));
		STEP(op->rmsnorm(be, &tk, &tk, &twk, l->dim, 1e-6f, l->n));
	}
	if (l->frames) {
		STEP(op->rope(be, &tk, &tk, &tt[0], l->dim, l->dims, l->neox, l->n));
		STEP(op->kv_put(be, &kp, &tk, l->n_kv, l->row0, l->n));
		STEP(op->kv_put(be, &vp, &tv, l->n_kv, l->row0, l->n));
		for (int i = 0; i < l->frames; i++)
			STEP(op->rope(be, &tf[i], &tq, &tt[i], l->dim, l->dims, l->neox, l->n));
	} else {
		STEP(op->rope(be, &tq, &tq, &tt[0], l->dim, l->dims, l->neox, l->n));
		STEP(op->rope(be, &tk, &tk, &tt[0], l->dim, l->dims, l->neox, l->n));
		STEP(op->kv_put(be, &kp, &tk, l->n_kv, l->row0, l->n));
		STEP(op->kv_put(be, &vp, &tv, l->n_kv, l->row0, l->n));
	}
	CHECK(op->sync(be) == 0);
	gpu_host_stats(&counts);
	if (!apart && !test_cuda_is_device())
		CHECK_INT(counts.launches, 1);
	m.q = must_alloc(m.n_q * 4);
	m.k = must_alloc(m.n_k * 4);
	m.kp = must_alloc(m.plane);
	m.vp = must_alloc(m.plane);
	op->read(be, &tq, 0, m.q, m.n_q * 4);
	op->read(be, &tk, 0, m.k, m.n_k * 4);
	op->read(be, &kp, 0, m.kp, m.plane);
	op->read(be, &vp, 0, m.vp, m.plane);
	for (int i = 0; i < 3; i++) {
		m.frame[i] = must_alloc(m.n_q * 4);
		op->read(be, &tf[i], 0, m.frame[i], m.n_q * 4);
	}
#undef STEP
	struct tensor *all[] = { &tq, &tk, &tv, &twq, &twk, &kp, &vp, &tt[0], &tt[1], &tt[2], &tf[0], &tf[1], &tf[2] };
	for (size_t i = 0; i < LEN(all); i++)
		op->drop(be, all[i]);
	finish(be);
	return m;
}

static void made_free(struct made *m)
{
	free(m->q);
	free(m->k);
	free(m->kp);
	free(m->vp);
	for (int i = 0; i < 3; i++)
		free(m->frame[i]);
}

TEST(cuda_joined_calls_change_no_bit)
{
	for (int round = 0; round < 48; round++) {
		struct layer l = { .n_kv = 1 + round % 3,
			           .dim = (int32_t[]){ 64, 96, 32, 128 }[round % 4],
			           .cap = 40,
			           .n = round % 5 ? 1 : 9,
			           .frames = round % 4,
			           .neox = round % 2,
			           .norms = round / 2 % 2,
			           .type = cache_types[round / 4 % 4] };
		struct made a, b;
		float *q, *k, *v, *wq, *wk, *table[3], *want;

		l.n_head = l.n_kv * (1 + round % 4);
		l.dims = round % 3 ? l.dim : l.dim / 2;
		l.row0 = (int32_t)(test_rand() % (uint64_t)(l.cap - l.n));
		q = randoms((size_t)(l.n * l.n_head * l.dim), -2, 2);
		k = randoms((size_t)(l.n * l.n_kv * l.dim), -2, 2);
		v = randoms((size_t)(l.n * l.n_kv * l.dim), -2, 2);
		wq = randoms((size_t)l.dim, 0.5f, 1.5f);
		wk = randoms((size_t)l.dim, 0.5f, 1.5f);
		for (int i = 0; i < 3; i++)
			table[i] = random_table(l.n, l.dims);
		a = layer_run(&l, q, k, v, (const float *const *)table, wq, wk, 1);
		b = layer_run(&l, q, k, v, (const float *const *)table, wq, wk, 0);
		CHECK(!memcmp(a.q, b.q, a.n_q * 4));
		CHECK(!memcmp(a.k, b.k, a.n_k * 4));
		CHECK(!memcmp(a.kp, b.kp, a.plane));
		CHECK(!memcmp(a.vp, b.vp, a.plane));
		for (int i = 0; i < 3; i++)
			CHECK_MSG(!memcmp(a.frame[i], b.frame[i], a.n_q * 4), "round %d, frame %d", round, i);
		/* The result matches a computation in double. */
		want = must_alloc(b.n_k * 4);
		memcpy(want, k, b.n_k * 4);
		if (l.norms)
			norm_double(want, k, wk, l.n, l.n_kv * l.dim, l.dim, 1e-6f);
		rope_double(want, want, table[0], l.n, l.n_kv * l.dim, l.dim, l.dims, l.neox);
		CHECK(test_nmse(b.k, want, b.n_k) < 1e-12);
		free(want);
		made_free(&a);
		made_free(&b);
		free(q);
		free(k);
		free(v);
		free(wq);
		free(wk);
		for (int i = 0; i < 3; i++)
			free(table[i]);
	}
}

/* Random calls on few tensors: calls that share a launch give the same result as the same calls one after the other. */
TEST(cuda_random_calls_in_any_order)
{
	enum { T = 4, DIM = 32, HEADS = 2, N = 2, CAP = 8 };

	for (int round = 0; round < 60; round++) {
		struct backend *be[2];
		struct tensor x[2][T], plane[2][2], table[2][2], w[2];
		float *init = randoms(N * HEADS * DIM, -1, 1), *tab = random_table(N, DIM),
		      *ww = randoms(DIM, 0.5f, 1.5f);
		float got[2][N * HEADS * DIM];
		uint16_t cache[2][HEADS * CAP * DIM];

		for (int b = 0; b < 2; b++) {
			be[b] = open_cuda();
			for (int i = 0; i < T; i++)
				x[b][i] = tensor_new(be[b], DT_F32, N, HEADS * DIM, init);
			for (int i = 0; i < 2; i++) {
				plane[b][i] = tensor_new(be[b], DT_F16, HEADS * CAP, DIM, NULL);
				table[b][i] = tensor_new(be[b], DT_F32, N, DIM, tab);
			}
			w[b] = tensor_new(be[b], DT_F32, 1, DIM, ww);
		}
		for (int step = 0; step < 24; step++) {
			int kind = (int)(test_rand() % 8), from = (int)(test_rand() % T),
			    to = (int)(test_rand() % 3 ? (uint64_t)from : test_rand() % T);
			int p = (int)(test_rand() % 2), n = (int)(test_rand() % 8 ? N : 1),
			    dims = test_rand() % 6 ? DIM : DIM / 2;
			int row0 = (int)(test_rand() % (CAP - N + 1));

			for (int b = 0; b < 2; b++) {
				const struct backend_ops *op = be[b]->ops;
				struct tensor half = table[b][p];

				half.cols = dims;
				if (kind < 2)
					op->rmsnorm(be[b], &x[b][to], &x[b][from], &w[b], DIM, 1e-6f, n);
				else if (kind < 5)
					op->rope(be[b], &x[b][to], &x[b][from], &half, DIM, dims, p, n);
				else if (kind < 7)
					op->kv_put(be[b], &plane[b][p], &x[b][from], HEADS, row0, n);
				else
					op->copy(be[b], &x[b][to], 0, &x[b][from], 1, 1);
				if (b)
					CHECK_MSG(op->sync(be[b]) == 0, "%s", be[b]->err);
			}
		}
		for (int i = 0; i < T; i++) {
			for (int b = 0; b < 2; b++)
				be[b]->ops->read(be[b], &x[b][i], 0, got[b], sizeof got[b]);
			CHECK_MSG(!memcmp(got[0], got[1], sizeof got[0]), "round %d, tensor %d", round, i);
		}
		for (int i = 0; i < 2; i++) {
			for (int b = 0; b < 2; b++)
				be[b]->ops->read(be[b], &plane[b][i], 0, cache[b], sizeof cache[b]);
			CHECK_MSG(!memcmp(cache[0], cache[1], sizeof cache[0]), "round %d, plane %d", round, i);
		}
		for (int b = 0; b < 2; b++) {
			for (int i = 0; i < T; i++)
				be[b]->ops->drop(be[b], &x[b][i]);
			for (int i = 0; i < 2; i++) {
				be[b]->ops->drop(be[b], &plane[b][i]);
				be[b]->ops->drop(be[b], &table[b][i]);
			}
			be[b]->ops->drop(be[b], &w[b]);
			finish(be[b]);
		}
		free(init);
		free(tab);
		free(ww);
	}
}

/* Run the same step for STEP_TOKENS tokens and compare the results with double. Returns the device's counters. */
enum { STEP_LAYERS = 3, STEP_TOKENS = 20 };
static struct gpu_host_counts same_step_values(void)
{
	enum { DIM = 64, HEADS = 4, CAP = 64 };
	struct backend *be = open_cuda();
	float *x = randoms(HEADS * DIM, -1, 1), *w = randoms(HEADS * DIM, 0.5f, 1.5f);
	struct tensor tx = tensor_new(be, DT_F32, 1, HEADS * DIM, x), ty = tensor_new(be, DT_F32, 1, HEADS * DIM, NULL);
	struct tensor tw = tensor_new(be, DT_F32, 1, HEADS * DIM, w),
		      plane = tensor_new(be, DT_F32, HEADS * CAP, DIM, NULL);
	struct tensor table = tensor_new(be, DT_F32, 1, DIM, NULL);
	struct gpu_host_counts counts;
	float *got = must_alloc((size_t)HEADS * CAP * DIM * 4), want[HEADS * DIM];

	CHECK(be->ops->sync(be) == 0);
	gpu_host_forget();
	for (int32_t token = 0; token < STEP_TOKENS; token++) {
		float *t = random_table(1, DIM);

		be->ops->write(be, &table, 0, t, DIM * 4);
		for (int l = 0; l < STEP_LAYERS; l++) {
			be->ops->rmsnorm(be, &ty, &tx, &tw, HEADS * DIM, 1e-6f, 1);
			be->ops->rope(be, &ty, &ty, &table, DIM, DIM, 1, 1);
			be->ops->kv_put(be, &plane, &ty, HEADS, token, 1);
		}
		be->ops->read(be, &plane, 0, got, (size_t)HEADS * CAP * DIM * 4);
		norm_double(want, x, w, 1, HEADS * DIM, HEADS * DIM, 1e-6f);
		rope_double(want, want, t, 1, HEADS * DIM, DIM, DIM, 1);
		for (int h = 0; h < HEADS; h++)
			CHECK_MSG(test_nmse(got + (h * CAP + token) * DIM, want + h * DIM, DIM) < 1e-12, "token %d",
			          token);
		free(t);
	}
	gpu_host_stats(&counts);
	be->ops->drop(be, &tx);
	be->ops->drop(be, &ty);
	be->ops->drop(be, &tw);
	be->ops->drop(be, &plane);
	be->ops->drop(be, &table);
	free(x);
	free(w);
	free(got);
	finish(be);
	return counts;
}

TEST(cuda_same_step_has_its_own_values)
{
	same_step_values();
}

TEST(cuda_same_step_is_replayed)
{
	struct gpu_host_counts counts;

	CUDA_HOST_ONLY();
	counts = same_step_values();
	CHECK_INT(counts.built, 1);
	CHECK_INT(counts.replayed, 18);
	/* Only one row number per layer changes from step to step. */
	CHECK_INT(counts.updated, 18 * STEP_LAYERS);
	CHECK_INT(counts.launches, 20 * 2 * STEP_LAYERS);
}

/* ---- has the query turned away? ---- */

TEST(cuda_query_drift)
{
	enum { ROWS = 3, COL = 5 };
	static const int32_t shape[][2] = { { 1, 64 }, { 32, 128 }, { 9, 64 }, { 5, 7 }, { 3, 600 } };
	struct backend *be = open_cuda();

	for (int s = 0; s < 5; s++)
		for (int kind = 0; kind < 6; kind++) {
			int32_t heads = shape[s][0], dim = shape[s][1];
			float *q = randoms((size_t)(2 * heads * dim), -1, 1),
			      *then = randoms((size_t)(ROWS * dim), -1, 1), now[ROWS][600], cosine[8];
			struct tensor tq = tensor_new(be, DT_F32, 2, heads * dim, q),
				      tt = tensor_new(be, DT_F32, ROWS, dim, NULL);
			struct tensor tn = tensor_new(be, DT_F32, ROWS, dim, NULL),
				      tf = tensor_new(be, DT_I32, 1, 8, NULL);
			struct tensor tc = tensor_new(be, DT_F32, 1, 8, NULL), ts = tensor_new(be, DT_I32, 1, 8, NULL);
			double ab = 0, aa = 0, bb = 0, want;
			int32_t flag[8], shown[8];

			for (int32_t d = 0; d < dim; d++) {
				double mean = 0;

				for (int32_t h = 0; h < heads; h++)
					mean += (double)q[(heads + h) * dim + d];
				mean = (float)(mean / heads);
				/* The old query has the same direction, the opposite direction, is zero, or has a
				 * NaN. */
				then[2 * dim + d] = kind == 1   ? (float)mean * 3
				                    : kind == 2 ? (float)-mean
				                    : kind == 3 ? 0
				                                : then[2 * dim + d];
				if (kind == 4 && d == 1)
					then[2 * dim + d] = NAN;
				ab += mean * then[2 * dim + d];
				aa += mean * mean;
				bb += (double)then[2 * dim + d] * then[2 * dim + d];
			}
			want = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
			be->ops->write(be, &tt, 0, then, (size_t)(ROWS * dim) * 4);
			be->ops->query_drift(be, &(struct query_drift_args){ .now = &tn,
			                                                     .q = &tq,
			                                                     .q_row = 1,
			                                                     .row = 2,
			                                                     .n_head = heads,
			                                                     .head_dim = dim,
			                                                     .flag = kind == 5 ? NULL : &tf,
			                                                     .shown = &ts,
			                                                     .cosine = &tc,
			                                                     .col = COL,
			                                                     .then = &tt,
			                                                     .least = want + (s % 2 ? 1e-6 : -1e-6) });
			be->ops->read(be, &tn, 0, now, (size_t)(ROWS * dim) * 4);
			be->ops->read(be, &tf, 0, flag, sizeof flag);
			be->ops->read(be, &ts, 0, shown, sizeof shown);
			be->ops->read(be, &tc, 0, cosine, sizeof cosine);
			CHECK(!memcmp(shown, flag, sizeof flag));
			CHECK(((float *)now)[2 * dim - 1] == 0);
			for (int32_t d = 0; d < dim; d++) {
				double mean = 0;

				for (int32_t h = 0; h < heads; h++)
					mean += (double)q[(heads + h) * dim + d];
				CHECK(((float *)now)[2 * dim + d] == (float)(mean / heads));
			}
			if (kind != 5)
				CHECK_MSG(fabs(cosine[COL] - want) < 1e-6, "%d heads of %d, %d: cosine %g, not %g",
				          heads, dim, kind, cosine[COL], want);
			CHECK_INT(flag[COL], kind == 5 ? 0 : kind == 4 && want != 0 ? flag[COL] : s % 2);
			for (int i = 0; i < 8; i++)
				CHECK(i == COL || (!flag[i] && cosine[i] == 0));
			be->ops->drop(be, &tq);
			be->ops->drop(be, &tt);
			be->ops->drop(be, &tn);
			be->ops->drop(be, &tf);
			be->ops->drop(be, &ts);
			be->ops->drop(be, &tc);
			free(q);
			free(then);
		}
	finish(be);
}

/* ---- copies, refusals ---- */

TEST(cuda_copy)
{
	struct backend *be = open_cuda();
	static const int32_t cols[] = { 1, 3, 4, 64, 577 };

	for (int i = 0; i < 5; i++) {
		int32_t c = cols[i];
		float *x = randoms((size_t)(9 * c), -1, 1), *got;
		struct tensor a = guarded(be, 9, c, x), b = guarded(be, 7, c, NULL);

		be->ops->copy(be, &b, 0, &a, 2, 7);
		be->ops->copy(be, &a, 0, &a, 5, 4);
		got = result(be, &b, "copy");
		CHECK(!memcmp(got, x + 2 * c, (size_t)(7 * c) * 4));
		free(got);
		got = result(be, &a, "copy");
		CHECK(!memcmp(got, x + 5 * c, (size_t)(4 * c) * 4));
		CHECK(!memcmp(got + 4 * c, x + 4 * c, (size_t)(5 * c) * 4));
		free(got);
		free(x);
		be->ops->drop(be, &a);
		be->ops->drop(be, &b);
	}
	finish(be);
}

TEST(cuda_axpby)
{
	struct backend *be = open_cuda();

	for (int round = 0; round < 10; round++) {
		int32_t n = 1 + (int32_t)(test_rand() % 5), cols = 1 + (int32_t)(test_rand() % 700), all = n * cols;
		float a = 0.1f + (float)round, b = round % 3 ? 0.75f : 0, *x = randoms((size_t)all, -1, 1),
		      *y = randoms((size_t)all, -1, 1), *got;
		struct tensor tx = tensor_new(be, DT_F32, n, cols, x), ty = guarded(be, n, cols, y);
		int same = round == 4;

		be->ops->axpby(be, &ty, a, same ? &ty : &tx, b, n);
		got = result(be, &ty, "axpby");
		for (int32_t i = 0; i < all; i++) {
			float scaled = a * (same ? y[i] : x[i]), want = b != 0 ? scaled + b * y[i] : scaled;

			CHECK(got[i] == want);
		}
		free(got);
		free(x);
		free(y);
		be->ops->drop(be, &tx);
		be->ops->drop(be, &ty);
	}
	finish(be);
}

TEST(cuda_columns)
{
	struct backend *be = open_cuda();

	for (int round = 0; round < 12; round++) {
		int32_t rows = 1 + (int32_t)(test_rand() % 70), cols = 1 + (int32_t)(test_rand() % 300),
			wide = rows + round % 3;
		int32_t n = round ? 1 + (int32_t)(test_rand() % 200) : 1, col[200], sent[200];
		float *x = randoms((size_t)(rows * cols), -1, 1), *got;
		struct tensor a = tensor_new(be, DT_F32, rows, cols, x), b = guarded(be, n, wide, NULL);

		for (int32_t i = 0; i < n; i++)
			col[i] = sent[i] = (int32_t)(test_rand() % (uint64_t)cols);
		be->ops->columns(be, &b, &a, sent, n);
		memset(sent, 0x7f, sizeof sent); /* columns() has copied the list */
		got = result(be, &b, "columns");
		for (int32_t i = 0; i < n * wide; i++)
			CHECK(got[i] == (i % wide < rows ? x[i % wide * cols + col[i / wide]] : GUARD));
		free(got);
		free(x);
		be->ops->drop(be, &a);
		be->ops->drop(be, &b);
	}
	finish(be);
}

/* Values are coarse, so that many are equal; some are NaN, infinite or -0. */
TEST(cuda_largest)
{
	static const int32_t shape[][3] = { { 1, 1, 1 },     { 7, 7, 2 },       { 300, 40, 3 },
		                            { 16384, 1, 2 }, { 16385, 511, 2 }, { 50000, 40, 1 } };
	struct backend *be = open_cuda(), *cpu = open_level("c", 1);

	for (int round = 0; round < 4 * (int)LEN(shape); round++) {
		int32_t cols = shape[round / 4][0], k = shape[round / 4][1], n = shape[round / 4][2];
		float *x = randoms((size_t)n * (size_t)cols, -40, 40), *got, *want;
		struct tensor tx, mx, out = guarded(be, n, LARGEST_COLS(k), NULL),
				      one = guarded(cpu, n, LARGEST_COLS(k), NULL);

		for (int32_t i = 0; round % 4 && i < n * cols; i++)
			x[i] = round % 4 == 3 ? -0.0f : floorf(x[i]) / 8;
		for (int32_t i = 0; round % 4 > 1 && i < n * cols; i += 1 + (int32_t)(test_rand() % 9))
			x[i] = (const float[]){ 0, -INFINITY, round % 4 == 2 ? INFINITY : 0, NAN }[test_rand() % 4];
		tx = tensor_new(be, DT_F32, n, cols, x);
		mx = tensor_new(cpu, DT_F32, n, cols, x);
		be->ops->largest(be, &out, &tx, k, n);
		cpu->ops->largest(cpu, &one, &mx, k, n);
		got = result(be, &out, "largest");
		want = result(cpu, &one, "largest");
		CHECK_MSG(!memcmp(got, want, (size_t)n * (size_t)LARGEST_COLS(k) * sizeof *got),
		          "round %d: other values or columns than on the CPU", round);
		for (int32_t i = 0; i + 1 < k; i++)
			CHECK(want[i] > want[i + 1] || (want[i] == want[i + 1] && want[k + i] < want[k + i + 1]));
		for (int32_t i = 0; i < k; i++)
			CHECK(isnan(x[(int32_t)want[k + i]]) ? isinf(want[i]) : x[(int32_t)want[k + i]] == want[i]);
		free(got);
		free(want);
		free(x);
		be->ops->drop(be, &tx);
		be->ops->drop(be, &out);
		cpu->ops->drop(cpu, &mx);
		cpu->ops->drop(cpu, &one);
	}
	finish(be);
	finish(cpu);
}

/* Compare odd sizes with computations in double. If the tokens are divided among several calls, the bits are the
 * same. */
TEST(cuda_short_convolution)
{
	static const int32_t size[][3] = { { 1, 1, 2 }, { 2, 33, 4 }, { 7, 300, 3 }, { 33, 513, 3 }, { 5, 17, 64 } };
	struct backend *be = open_cuda();

	for (size_t k = 0; k < LEN(size); k++) {
		int32_t n = size[k][0], cols = size[k][1], taps = size[k][2], first = n / 2, cut[3] = { 0, first, n };
		float *in = randoms((size_t)n * 3 * (size_t)cols, -1, 1),
		      *w = randoms((size_t)cols * (size_t)taps, -1, 1);
		float *before = randoms((size_t)(taps - 1) * (size_t)cols, -1, 1), *got[2];
		struct tensor tw = tensor_new(be, DT_F32, cols, taps, w);

		for (int parts = 0; parts < 2; parts++) {
			struct tensor state[2] = { tensor_new(be, DT_F32, taps - 1, cols, before),
				                   tensor_new(be, DT_F32, taps - 1, cols, before) };
			int now = 0;

			got[parts] = must_alloc(4 * (size_t)n * (size_t)cols + 4);
			for (int p = parts ? 0 : 1; p < 2; p++) {
				int32_t from = parts ? cut[p] : 0, m = cut[p + 1] - from;
				struct tensor x, out;

				if (!m)
					continue;
				x = tensor_new(be, DT_F32, m, 3 * cols, in + (size_t)from * 3 * (size_t)cols);
				out = tensor_new(be, DT_F32, m, cols, NULL);
				be->ops->short_conv(be,
				                    &(struct short_conv){ .out = &out,
				                                          .in = &x,
				                                          .w = &tw,
				                                          .state = &state[now],
				                                          .next = &state[!now],
				                                          .taps = taps },
				                    m);
				now = !now;
				be->ops->read(be, &out, 0, got[parts] + (size_t)from * (size_t)cols,
				              4 * (size_t)m * (size_t)cols);
				be->ops->drop(be, &x);
				be->ops->drop(be, &out);
			}
			be->ops->drop(be, &state[0]);
			be->ops->drop(be, &state[1]);
		}
		CHECK(!memcmp(got[0], got[1], 4 * (size_t)n * (size_t)cols));
		for (int32_t i = 0; i < n; i++)
			for (int32_t c = 0; c < cols; c++) {
				double sum = 0;

				for (int32_t t = 0; t < taps; t++) {
					int32_t at = i - taps + 1 + t;

					sum += (double)w[c * taps + t] *
					       (at < 0 ? (double)before[(taps - 1 + at) * cols + c]
					               : (double)in[3 * at * cols + c] *
					                         (double)in[(3 * at + 2) * cols + c]);
				}
				CHECK(fabs((double)got[0][i * cols + c] - sum * (double)in[(3 * i + 1) * cols + c]) <
				      1e-5 * taps);
			}
		be->ops->drop(be, &tw);
		for (int p = 0; p < 2; p++)
			free(got[p]);
		free(in);
		free(w);
		free(before);
	}
	be->ops->short_conv(be,
	                    &(struct short_conv){ .out = &(struct tensor){ .cols = 1 },
	                                          .in = &(struct tensor){ .cols = 3 },
	                                          .w = &(struct tensor){ .rows = 1 },
	                                          .state = &(struct tensor){ .rows = 1 },
	                                          .next = &(struct tensor){ .rows = 1 },
	                                          .taps = 2 },
	                    1);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "short_conv of 1 tokens got operands of the wrong shape"));
	finish(be);
}

/* Run the delta rule, state spaces, ungated convolutions and gates on a backend, with the tokens split into two calls.
 * out: all results, one after the other. */
enum {
	TOKENS = 7,
	HEADS = 6,
	KEYS = 2,
	KEY_DIM = 37,
	DIM = 45,
	WIDTH = HEADS * DIM,
	QKV = 2 * KEYS * KEY_DIM + WIDTH,
	STATE = HEADS * KEY_DIM * DIM
};
struct recurrent_data {
	float *qkv, *alpha, *beta, *decay, *dt, *state, *w, *bias, *conv;
};

static void recurrent_of(struct backend *be, const struct recurrent_data *d, int32_t first, float *out)
{
	struct tensor decay = tensor_new(be, DT_F32, 1, HEADS, d->decay), dt = tensor_new(be, DT_F32, 1, HEADS, d->dt);
	struct tensor w = tensor_new(be, DT_F32, QKV, 4, d->w), bias = tensor_new(be, DT_F32, 1, QKV, d->bias),
		      delta[2], space[2], conv[2];

	for (int i = 0; i < 2; i++) {
		delta[i] = tensor_new(be, DT_F32, HEADS * KEY_DIM, DIM, d->state);
		space[i] = tensor_new(be, DT_F32, HEADS * KEY_DIM, DIM, d->state);
		conv[i] = tensor_new(be, DT_F32, 3, QKV, d->conv);
	}
	for (int32_t p = 0, at = 0, now = 0; p < 2; p++) {
		int32_t n = p ? TOKENS - first : first;
		float *to = out + at * (3 * WIDTH + QKV);

		if (!n)
			continue;
		struct tensor qkv = tensor_new(be, DT_F32, n, QKV, d->qkv + at * QKV),
			      alpha = tensor_new(be, DT_F32, n, HEADS, d->alpha + at * HEADS);
		struct tensor beta = tensor_new(be, DT_F32, n, HEADS, d->beta + at * HEADS),
			      ruled = tensor_new(be, DT_F32, n, WIDTH, NULL);
		struct tensor spaced = tensor_new(be, DT_F32, n, WIDTH, NULL),
			      mixed = tensor_new(be, DT_F32, n, QKV, NULL), x = tensor_new(be, DT_F32, n, WIDTH, NULL);

		be->ops->delta_rule(be,
		                    &(struct delta_rule){ .out = &ruled,
		                                          .qkv = &qkv,
		                                          .alpha = &alpha,
		                                          .beta = &beta,
		                                          .decay = &decay,
		                                          .dt = &dt,
		                                          .state = &delta[now],
		                                          .next = &delta[!now],
		                                          .n_key_head = KEYS,
		                                          .n_value_head = HEADS,
		                                          .key_dim = KEY_DIM,
		                                          .value_dim = DIM,
		                                          .grouped = first % 2 },
		                    n);
		be->ops->state_space(be,
		                     &(struct state_space){ .out = &spaced,
		                                            .xbc = &qkv,
		                                            .step = &alpha,
		                                            .decay = &decay,
		                                            .bias = &dt,
		                                            .skip = &decay,
		                                            .state = &space[now],
		                                            .next = &space[!now],
		                                            .n_head = HEADS,
		                                            .n_group = KEYS,
		                                            .state_dim = KEY_DIM,
		                                            .head_dim = DIM },
		                     n);
		be->ops->short_conv(be,
		                    &(struct short_conv){ .out = &mixed,
		                                          .in = &qkv,
		                                          .w = &w,
		                                          .bias = &bias,
		                                          .state = &conv[now],
		                                          .next = &conv[!now],
		                                          .taps = 4 },
		                    n);
		be->ops->copy(be, &x, 0, &ruled, 0, n);
		be->ops->read(be, &ruled, 0, to, 4 * (size_t)(n * WIDTH));
		be->ops->read(be, &spaced, 0, to + n * WIDTH, 4 * (size_t)(n * WIDTH));
		be->ops->read(be, &mixed, 0, to + 2 * n * WIDTH, 4 * (size_t)(n * QKV));
		be->ops->gate(be, &x, &spaced, (enum gate_kind)(first % 3), n);
		be->ops->read(be, &x, 0, to + 2 * n * WIDTH + n * QKV, 4 * (size_t)(n * WIDTH));
		for (int i = 0; i < 7; i++)
			be->ops->drop(be, (struct tensor *[]){ &qkv, &alpha, &beta, &ruled, &spaced, &mixed, &x }[i]);
		at += n;
		now = !now;
	}
	be->ops->read(be, &delta[1 - (first % TOKENS != 0)], 0, out + TOKENS * (3 * WIDTH + QKV), 4 * STATE);
	for (int i = 0; i < 10; i++)
		be->ops->drop(be, (struct tensor *[]){ &decay, &dt, &w, &bias, &delta[0], &delta[1], &space[0],
		                                       &space[1], &conv[0], &conv[1] }[i]);
	finish(be);
}

TEST(cuda_recurrent_layers)
{
	enum { ALL = TOKENS * (3 * WIDTH + QKV) + STATE };
	struct recurrent_data d = { randoms(TOKENS * QKV, -1, 1),   randoms(TOKENS * HEADS, -3, 3),
		                    randoms(TOKENS * HEADS, -3, 3), randoms(HEADS, -2, -0.01f),
		                    randoms(HEADS, -2, 2),          randoms(STATE, -1, 1),
		                    randoms(QKV * 4, -1, 1),        randoms(QKV, -1, 1),
		                    randoms(3 * QKV, -1, 1) };
	float *want = must_alloc(ALL * sizeof *want), *got = must_alloc(ALL * sizeof *got);

	for (int32_t first = 0; first < TOKENS; first += 3) {
		struct backend *cpu = NULL;
		char err[160] = "";

		CHECK_MSG(!backend_open(&cpu, "cpu", &(struct backend_options){ .threads = 1 }, err), "%s", err);
		recurrent_of(cpu, &d, first, want);
		recurrent_of(open_cuda(), &d, first, got);
		CHECK_MSG(test_nmse(got, want, ALL) < 1e-11, "%d tokens first: error %.3g", (int)first,
		          test_nmse(got, want, ALL));
	}
	for (int i = 0; i < 11; i++)
		free((float *[]){ want, got, d.qkv, d.alpha, d.beta, d.decay, d.dt, d.state, d.w, d.bias, d.conv }[i]);
}

/* Rows are copied in any order, and added to any row. Several rows added to the same row are added in the order of the
 * list. */
TEST(cuda_rows_taken_and_added)
{
	struct backend *be = open_cuda();
	static const int32_t row[] = { 4, 0, 4, 2, 4 };
	static const float weight[] = { 0.5f, 2, 1e8f, -1, -1e8f };
	enum { COLS = 131 };
	float *x = randoms(5 * COLS, -1, 1), *y = randoms(6 * COLS, -1, 1), *got;
	struct tensor tx = tensor_new(be, DT_F32, 5, COLS, x), ty = tensor_new(be, DT_F32, 6, COLS, y),
		      out = guarded(be, 5, COLS, NULL);

	be->ops->take_rows(be, &out, &tx, row, 5);
	got = result(be, &out, "take_rows");
	for (int i = 0; i < 5; i++)
		CHECK(!memcmp(got + i * COLS, x + row[i] * COLS, COLS * sizeof *x));
	free(got);
	be->ops->add_rows(be, &ty, &tx, row, weight, 5);
	for (int i = 0; i < 5; i++)
		for (int c = 0; c < COLS; c++)
			y[row[i] * COLS + c] = y[row[i] * COLS + c] + weight[i] * x[i * COLS + c];
	got = must_alloc(6 * COLS * sizeof *got);
	be->ops->read(be, &ty, 0, got, 6 * COLS * sizeof *got);
	CHECK(test_nmse(got, y, 6 * COLS) < 1e-10);
	be->ops->take_rows(be, &out, &tx, &(int32_t){ 5 }, 1);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "take_rows got row 5 of 5"));
	be->ops->add_rows(be, &ty, &tx, &(int32_t){ -1 }, weight, 1);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "add_rows got row -1 of 6"));
	be->ops->take_rows(be, &tx, &tx, row, 1);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "take_rows of 1 rows got operands of the wrong shape"));
	free(got);
	free(x);
	free(y);
	be->ops->drop(be, &tx);
	be->ops->drop(be, &ty);
	be->ops->drop(be, &out);
	finish(be);
}

static void refused(struct backend *be, const char *why)
{
	CHECK(be->ops->sync(be) < 0);
	CHECK_MSG(strstr(be->err, why) != NULL, "\"%s\" does not say \"%s\"", be->err, why);
}

TEST(cuda_refuses_as_the_processor_does)
{
	struct backend *be = open_cuda(), *cpu = NULL;
	char err[160];

	CHECK(backend_open(&cpu, "cpu", NULL, err) == 0);
	for (int i = 0; i < 2; i++) {
		struct backend *b = i ? cpu : be;
		struct tensor x = tensor_new(b, DT_F32, 2, 96, NULL), w = tensor_new(b, DT_F32, 1, 40, NULL);
		struct tensor plane = tensor_new(b, DT_F16, 3 * 4, 32, NULL), odd = tensor_new(b, DT_F32, 1, 30, NULL);
		struct tensor q8 = { .type = DT_Q8_0, .rows = 4, .cols = 16, .data = plane.data };

		b->ops->rmsnorm(b, &x, &x, &w, 40, 1e-5f, 1);
		refused(b, "internal: rmsnorm got 96 columns in groups of 40");
		b->ops->rmsnorm(b, &x, &x, &w, 96, 1e-5f, 1);
		refused(b, "internal: rmsnorm got an operand of the wrong shape");
		b->ops->rmsnorm(b, &x, &x, &w, 40, 1e-5f, 3);
		refused(b, "internal: rmsnorm got an operand of the wrong shape");
		b->ops->layernorm(b, &x, &x, &w, &w, 1e-5f, 1);
		refused(b, "internal: layernorm of 1 rows got operands of the wrong shape");
		b->ops->gelu(b, &x, 3);
		refused(b, "internal: gelu of 3 rows got an operand of the wrong shape");
		b->ops->axpby(b, &x, 1, &w, 1, 1);
		refused(b, "internal: axpby got an operand of the wrong shape");
		b->ops->rope(b, &x, &x, &w, 32, 40, 0, 1);
		refused(b, "internal: rope got 96 columns, heads of 32, 40 of them rotated");
		b->ops->rope(b, &x, &x, &w, 32, 32, 0, 1);
		refused(b, "internal: rope got an operand of the wrong shape");
		b->ops->kv_put(b, &plane, &x, 2, 0, 1);
		refused(b, "internal: kv_put got a plane of the wrong shape");
		b->ops->kv_put(b, &plane, &x, 3, 3, 2);
		refused(b, "internal: slots 3 + 2 do not fit a cache of 4");
		b->ops->kv_put(b, &q8, &x, 4, 0, 1);
		refused(b, "a q8_0 cache needs heads of a multiple of 32 values, not 16; use --kv-type f16");
		b->ops->query_drift(b, &(struct query_drift_args){ .now = &w, .q = &x, .n_head = 3, .head_dim = 32 });
		refused(b, "internal: query_drift of 3 heads of 32 values got operands of the wrong shape");
		b->ops->copy(b, &x, 0, &odd, 0, 1);
		refused(b, "internal: copy of 1 rows 0 to 0 does not fit");
		b->ops->copy(b, &x, 1, &x, 0, 2);
		refused(b, "internal: copy of 2 rows 0 to 1 does not fit");
		b->ops->columns(b, &odd, &x, &(int32_t){ 0 }, 2);
		refused(b, "internal: 2 columns of 2 do not fit");
		b->ops->columns(b, &plane, &x, &(int32_t){ 0 }, 1);
		refused(b, "internal: 1 columns of 2 do not fit");
		b->ops->largest(b, &w, &x, 20, 2);
		refused(b, "internal: largest 20 of 2 rows got operands of the wrong shape");
		b->ops->drop(b, &x);
		b->ops->drop(b, &w);
		b->ops->drop(b, &plane);
		b->ops->drop(b, &odd);
		finish(b);
	}
}

TEST(cuda_cancelled_and_failed_do_nothing)
{
	struct backend *be = open_cuda();
	backend_flag cancel = 1;
	float ones[64], got[64];
	struct tensor x, w;
	struct gpu_host_counts counts;
	int told = !test_cuda_is_device();

	for (int i = 0; i < 64; i++)
		ones[i] = 1;
	x = tensor_new(be, DT_F32, 1, 64, ones);
	w = tensor_new(be, DT_F32, 1, 64, ones);
	CHECK(be->ops->sync(be) == 0);
	gpu_host_forget();
	be->cancel = &cancel;
	be->ops->rmsnorm(be, &x, &x, &w, 64, 1e-5f, 1);
	be->ops->rope(be, &x, &x, &w, 64, 64, 1, 1);
	be->ops->kv_put(be, &w, &x, 1, 0, 1);
	CHECK(be->ops->sync(be) == 0);
	be->cancel = NULL;
	be->ops->rmsnorm(be, &x, &x, &w, 63, 1e-5f, 1);
	be->ops->rope(be, &x, &x, &w, 64, 64, 1, 1);
	CHECK(be->ops->sync(be) < 0);
	gpu_host_stats(&counts);
	/* the refused calls launched nothing; on a GPU, where this counter is not available, the unchanged values below
	 * show it */
	CHECK_INT(counts.launches, 0);
	for (int i = 0; i < 2; i++) {
		be->ops->read(be, i ? &w : &x, 0, got, sizeof got);
		CHECK(!memcmp(got, ones, sizeof got));
	}
	be->ops->rmsnorm(be, &x, &x, &w, 64, 1e-5f, 1);
	CHECK(be->ops->sync(be) == 0);
	gpu_host_stats(&counts);
	CHECK_INT(counts.launches, told);
	be->ops->read(be, &x, 0, got, sizeof got);
	for (int i = 0; i < 64; i++)
		CHECK(fabsf(got[i] - 0.999995f) < 1e-6f);
	be->ops->drop(be, &x);
	be->ops->drop(be, &w);
	finish(be);
}
