/* tests/kernels/t_kernels.c - the CPU backend at every level this machine has: opening, memory and errors, and the
 * operations on rows (products: t_matmul.c, attention: t_attn.c).
 *
 * Each result is compared with a plain computation in double, and the levels are compared with one another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/weights.h"

/* ---- opening, memory, errors ---- */

TEST(open_names_and_levels)
{
	struct backend *be = NULL;
	char err[160], text[64];

	CHECK(backend_open(&be, "abacus", NULL, err) < 0);
	CHECK(be == NULL);
	CHECK_STR(err, "unknown device 'abacus'; there are 'auto', 'cpu', 'cuda'");
	setenv("WEIR_CPU", "mmx", 1);
	CHECK(backend_open(&be, "cpu", NULL, err) < 0);
	CHECK_STR(err, strcmp(levels[1], "neon") ? "unknown CPU level 'mmx' in WEIR_CPU; use c, avx2, avx512 or amx"
	                                         : "unknown CPU level 'mmx' in WEIR_CPU; use c, neon or neon-dot");
	setenv("WEIR_CPU", "c", 1);
	CHECK(!strncmp(backend_cpu_level(), "c (", 3));
	unsetenv("WEIR_CPU");
	test_note("cpu level %s", backend_cpu_level());
	CHECK(backend_open(&be, "cpu", NULL, err) == 0);
	if (!be)
		return;
	be->ops->describe(be, text, sizeof text);
	CHECK(!strncmp(text, "cpu ", 4));
	CHECK_STR(be->ops->name, "cpu");
	finish(be);
}

TEST(alloc_is_zeroed_and_aligned)
{
	struct backend *be = open_level("c", 2);
	static const int32_t rows[] = { 1, 7, 300, 3000 };

	for (int i = 0; i < 4; i++) {
		struct tensor t = tensor_new(be, DT_F32, rows[i], 257, NULL);
		size_t n = (size_t)rows[i] * 257;
		float *x = must_alloc(n * 4);
		int clean = 1;

		CHECK((uintptr_t)t.data % 64 == 0);
		be->ops->read(be, &t, 0, x, n * 4);
		for (size_t k = 0; k < n; k++)
			clean &= x[k] == 0;
		CHECK(clean);
		free(x);
		be->ops->drop(be, &t);
		CHECK(t.data == NULL);
		be->ops->drop(be, &t);
	}
	finish(be);
}

TEST(first_error_sticks)
{
	struct backend *be = open_level("c", 1);
	struct tensor big = { .type = DT_F32, .rows = 1 << 30, .cols = 1 << 30 }, ok, odd;
	char first[160];
	float v = 1;

	ok = tensor_new(be, DT_F32, 1, 4, NULL);
	CHECK(be->ops->alloc(be, &big) < 0);
	CHECK(be->failed);
	CHECK(strstr(be->err, "4611686018427387904 bytes") != NULL);
	memcpy(first, be->err, sizeof first);
	be->ops->write(be, &ok, 16, &v, 4);
	odd = (struct tensor){ .type = DT_Q4_0, .rows = 1, .cols = 33 };
	CHECK(be->ops->alloc(be, &odd) < 0);
	CHECK(be->ops->sync(be) < 0);
	CHECK_STR(be->err, first);
	be->ops->drop(be, &ok);
	be->ops->close(be);

	be = open_level("c", 1);
	ok = tensor_new(be, DT_F32, 1, 4, NULL);
	be->ops->write(be, &ok, 16, &v, 4);
	CHECK(be->ops->sync(be) < 0);
	be->ops->drop(be, &ok);
	be->ops->close(be);

	be = open_level("c", 1);
	CHECK(be->ops->alloc(be, &odd) < 0);
	be->ops->close(be);
}

TEST(a_reported_error_is_over)
{
	struct backend *be = open_level("c", 1);
	struct tensor big = { .type = DT_F32, .rows = 1 << 30, .cols = 1 << 30 },
		      ok = tensor_new(be, DT_F32, 1, 4, NULL);
	float v[4] = { 1, 2, 3, 4 }, back[4] = { 0 };

	CHECK(be->ops->alloc(be, &big) < 0);
	CHECK(be->ops->sync(be) < 0);
	CHECK(be->ops->sync(be) == 0);
	be->ops->write(be, &ok, 0, v, sizeof v);
	be->ops->read(be, &ok, 0, back, sizeof back);
	CHECK(!memcmp(v, back, sizeof v));
	be->ops->drop(be, &ok);
	finish(be);
}

TEST(wrong_shapes_are_refused)
{
	struct backend *be;
	struct tensor x, w, out, small;
	float zeros[64 * 8] = { 0 };

	for (int i = 0; i < 9; i++) {
		be = open_level("c", 2);
		x = tensor_new(be, DT_F32, 2, 64, NULL);
		out = tensor_new(be, DT_F32, 2, 8, NULL);
		small = tensor_new(be, DT_F32, 1, 7, NULL);
		w = weight_new(be, DT_F32, 8, i == 0 ? 32 : 64, zeros);
		switch (i) {
		case 0:
		case 1: be->ops->matmul(be, &(struct matmul){ .out = i ? &small : &out, .w = &w }, 1, &x, 1); break;
		case 2: be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &w }, 1, &x, 3); break;
		case 3: be->ops->embed(be, &x, &w, (int32_t[]){ 8 }, 1); break;
		case 4: be->ops->rmsnorm(be, &x, &x, &small, 64, 1e-5f, 1); break;
		case 5: be->ops->layernorm(be, &x, &x, &small, &small, 1e-5f, 1); break;
		case 6: be->ops->layernorm(be, &small, &small, &small, &small, 1e-5f, 2); break;
		case 7: be->ops->layernorm(be, &out, &x, &x, &x, 1e-5f, 1); break;
		case 8: be->ops->gelu(be, &x, 3); break;
		}
		CHECK_MSG(be->ops->sync(be) < 0, "case %d", i);
		be->ops->drop(be, &x);
		be->ops->drop(be, &w);
		be->ops->drop(be, &out);
		be->ops->drop(be, &small);
		be->ops->close(be);
	}
}

/* ---- row operations ---- */

TEST(copy_moves_rows_and_refuses_what_does_not_fit)
{
	struct backend *be = open_level("c", 1);
	float x[6 * 3];
	struct tensor a, b;

	for (int i = 0; i < 18; i++)
		x[i] = (float)i;
	a = tensor_new(be, DT_F32, 6, 3, x);
	b = guarded(be, 4, 3);
	be->ops->copy(be, &b, 1, &a, 3, 3);
	be->ops->copy(be, &a, 0, &a, 5, 1);
	be->ops->read(be, &a, 0, x, sizeof x);
	CHECK(x[0] == 15 && x[2] == 17 && x[3] == 3 && x[17] == 17);
	be->ops->read(be, &b, 12, x, 36);
	CHECK(x[0] == 9 && x[8] == 17);
	CHECK_INT(be->ops->sync(be), 0);
	be->ops->copy(be, &b, 3, &a, 0, 3);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "does not fit"));
	free(result(be, &b, "copy"));
	be->ops->drop(be, &a);
	be->ops->close(be);
}

TEST(embed_every_type)
{
	static const int32_t id[] = { 4, 0, 10, 4, 7, 1, 2, 3, 5, 6, 8, 9, 10, 10, 0 };
	enum { N = LEN(id), COLS = 512, ROWS = 11 };

	for (int t = 0; t < DT_COUNT; t++) {
		struct backend *be = open_level("c", 2);
		uint8_t *w = random_weight((enum dtype)t, ROWS, COLS);
		struct tensor table = { .type = (enum dtype)t, .rows = ROWS, .cols = COLS };
		struct tensor out = guarded(be, N, COLS);
		float *ref = must_alloc(ROWS * COLS * 4), *got;

		CHECK(be->ops->load_weight(be, &table, w, 1) == 0);
		be->ops->embed(be, &out, &table, id, N);
		dtype_to_f32((enum dtype)t, ref, w, ROWS * COLS);
		got = result(be, &out, "embed");
		for (int i = 0; i < N; i++)
			CHECK_MSG(!memcmp(got + i * COLS, ref + id[i] * COLS, COLS * 4), "%s row %d",
			          dtype_info((enum dtype)t)->name, i);
		be->ops->drop(be, &table);
		finish(be);
		free(w);
		free(ref);
		free(got);
	}
}

TEST(rmsnorm_matches_double)
{
	/* own: 1 = each group of a row has different weights */
	static const struct {
		int32_t cols, group, n;
		int own;
	} shape[] = {
		{ 576, 576, 1, 0 }, { 576, 64, 3, 0 },    { 32, 32, 5, 0 },   { 100, 100, 2, 0 },
		{ 7, 7, 4, 0 },     { 576, 576, 130, 0 }, { 576, 192, 3, 1 }, { 35, 7, 5, 1 },
	};

	for (int l = 0; l < N_LEVELS; l++)
		for (size_t s = 0; s < LEN(shape); s++) {
			struct backend *be = open_level(levels[l], 2);
			int32_t cols = shape[s].cols, group = shape[s].group, n = shape[s].n,
				weights = shape[s].own ? cols : group;
			size_t all = (size_t)n * (size_t)cols;
			float *x, *w, *ref, *got, *again;
			struct tensor tx, tw, out;

			if (!be)
				continue;
			x = random_floats(all, -3, 3);
			w = random_floats((size_t)weights, 0.5f, 2);
			ref = must_alloc(all * 4);
			for (size_t g = 0; g < all; g += (size_t)group) {
				double sum = 0;

				for (int32_t j = 0; j < group; j++)
					sum += (double)x[g + (size_t)j] * x[g + (size_t)j];
				for (int32_t j = 0; j < group; j++)
					ref[g + (size_t)j] = (float)(x[g + (size_t)j] / sqrt(sum / group + 1e-5) *
					                             w[(g + (size_t)j) % (size_t)weights]);
			}
			tx = tensor_new(be, DT_F32, n + 1, cols, NULL);
			be->ops->drop(be, &tx);
			tx = guarded(be, n, cols);
			be->ops->write(be, &tx, 0, x, all * 4);
			tw = tensor_new(be, DT_F32, 1, weights, w);
			out = guarded(be, n, cols);
			be->ops->rmsnorm(be, &out, &tx, &tw, group, 1e-5f, n);
			be->ops->rmsnorm(be, &tx, &tx, &tw, group, 1e-5f, n);
			got = result(be, &out, "rmsnorm");
			again = result(be, &tx, "rmsnorm in place");
			CHECK_MSG(test_nmse(got, ref, all) < 1e-12, "%s %dx%d: %g", levels[l], (int)n, (int)cols,
			          test_nmse(got, ref, all));
			CHECK(!memcmp(got, again, all * 4));
			be->ops->drop(be, &tw);
			finish(be);
			free(x);
			free(w);
			free(ref);
			free(got);
			free(again);
		}
}

/* The field `off` is added to every value, so that the mean is far larger than the deviation. */
TEST(layernorm_matches_double)
{
	static const struct {
		int32_t cols, n;
		float size, off;
		double limit;
	} shape[] = {
		{ 384, 1, 3, 0, 1e-12 },    { 384, 130, 3, 1, 1e-12 },  { 7, 4, 1, 0, 1e-12 },
		{ 1, 3, 1, 0, 1e-12 },      { 33, 5, 1e-4f, 0, 1e-12 }, { 100, 2, 1e4f, 0, 1e-12 },
		{ 1024, 3, 1, 1000, 1e-8 }, { 61, 70, 2, -50, 1e-10 },
	};

	for (int l = 0; l < N_LEVELS; l++)
		for (size_t s = 0; s < LEN(shape); s++) {
			struct backend *be = open_level(levels[l], 2);
			int32_t cols = shape[s].cols, n = shape[s].n;
			size_t all = (size_t)n * (size_t)cols;
			float *x, *w, *b, *ref, *got, *again;
			struct tensor tx, tw, tb, out;

			if (!be)
				continue;
			x = random_floats(all, shape[s].off - shape[s].size, shape[s].off + shape[s].size);
			w = random_floats((size_t)cols, 0.5f, 2);
			b = random_floats((size_t)cols, -1, 1);
			ref = must_alloc(all * 4);
			for (size_t g = 0; g < all; g += (size_t)cols) {
				double sum = 0, squares = 0;

				for (int32_t j = 0; j < cols; j++)
					sum += (double)x[g + (size_t)j];
				for (int32_t j = 0; j < cols; j++)
					squares += pow(x[g + (size_t)j] - sum / cols, 2);
				for (int32_t j = 0; j < cols; j++)
					ref[g + (size_t)j] = (float)((x[g + (size_t)j] - sum / cols) /
					                                     sqrt(squares / cols + 1e-5f) * w[j] +
					                             b[j]);
			}
			tx = tensor_new(be, DT_F32, n, cols, x);
			tw = tensor_new(be, DT_F32, 1, cols, w);
			tb = tensor_new(be, DT_F32, 1, cols, b);
			out = guarded(be, n, cols);
			be->ops->layernorm(be, &out, &tx, &tw, &tb, 1e-5f, n);
			be->ops->layernorm(be, &tx, &tx, &tw, &tb, 1e-5f, n);
			got = result(be, &out, "layernorm");
			again = must_alloc(all * 4);
			be->ops->read(be, &tx, 0, again, all * 4);
			CHECK_MSG(test_nmse(got, ref, all) < shape[s].limit, "%s %dx%d: %g", levels[l], (int)n,
			          (int)cols, test_nmse(got, ref, all));
			CHECK(!memcmp(got, again, all * 4));
			be->ops->drop(be, &tx);
			be->ops->drop(be, &tw);
			be->ops->drop(be, &tb);
			finish(be);
			free(x);
			free(w);
			free(b);
			free(ref);
			free(got);
			free(again);
		}
}

TEST(gelu_matches_double)
{
	static const int32_t cols_of[] = { 1536, 1, 7, 61, 16, 33 };

	for (int l = 0; l < N_LEVELS; l++)
		for (size_t s = 0; s < LEN(cols_of); s++) {
			struct backend *be = open_level(levels[l], 2);
			int32_t cols = cols_of[s], n = s ? 5 : 60;
			size_t all = (size_t)n * (size_t)cols;
			float *x, *got, special[] = { 0, -0.0f, INFINITY, NAN, 1e30f, -1e30f, 1e-30f };
			struct tensor tx;

			if (!be)
				continue;
			x = random_floats(all, -9, 9);
			if (cols == 7)
				memcpy(x, special, sizeof special);
			tx = guarded(be, n, cols);
			be->ops->write(be, &tx, 0, x, all * 4);
			be->ops->gelu(be, &tx, n);
			got = result(be, &tx, "gelu");
			for (size_t i = 0; i < all; i++) {
				double want = x[i] * 0.5 * erfc(-x[i] / sqrt(2.0));

				CHECK_MSG(isnan(want) ? isnan(got[i])
				                      : (float)want == got[i] ||
				                                fabs(got[i] - want) < 2e-6 * fabs(want) + 1e-9,
				          "%s gelu(%g) = %g, not %g", levels[l], (double)x[i], (double)got[i], want);
			}
			finish(be);
			free(x);
			free(got);
		}
}

/* Scores of relative positions at ragged sizes; the relative positions have any rows. */
TEST(relative_matches_double)
{
	static const struct {
		int32_t n, heads, dim, rows;
	} shape[] = { { 1, 1, 1, 1 },   { 2, 3, 64, 4 },    { 5, 2, 13, 30 },
		      { 17, 1, 96, 8 }, { 130, 6, 64, 60 }, { 67, 4, 32, 9 } };

	for (int l = 0; l < N_LEVELS; l++)
		for (size_t s = 0; s < LEN(shape); s++) {
			struct backend *be = open_level(levels[l], 2);
			int32_t n = shape[s].n, heads = shape[s].heads, dim = shape[s].dim, rows = shape[s].rows;
			int32_t cols = heads * dim, row[2 * 130];
			size_t all = (size_t)n * (size_t)cols, of = (size_t)rows * (size_t)cols;
			float *q, *k, *keys, *queries, *got;
			struct tensor tq, tk, tkeys, tqueries, out;
			struct relative_args a = { .out = &out,
				                   .q = &tq,
				                   .k = &tk,
				                   .keys = &tkeys,
				                   .queries = &tqueries,
				                   .row = row,
				                   .n_head = heads,
				                   .head_dim = dim,
				                   .scale = 0.125f };
			double worst = 0;

			if (!be)
				continue;
			q = random_floats(all, -2, 2);
			k = random_floats(all, -2, 2);
			keys = random_floats(of, -2, 2);
			queries = random_floats(of, -2, 2);
			for (int32_t i = 0; i < 2 * n - 1; i++)
				row[i] = i * 7 % rows;
			tq = tensor_new(be, DT_F32, n, cols, q);
			tk = tensor_new(be, DT_F32, n, cols, k);
			tkeys = tensor_new(be, DT_F32, rows, cols, keys);
			tqueries = tensor_new(be, DT_F32, rows, cols, queries);
			out = guarded(be, n * heads, n);
			be->ops->relative(be, &a, n);
			got = result(be, &out, "relative");
			for (int32_t i = 0; i < n; i++)
				for (int32_t j = 0; j < n; j++)
					for (int32_t h = 0; h < heads; h++) {
						size_t r = (size_t)row[i - j + n - 1];
						double sum = 0;

						for (size_t d = (size_t)h * (size_t)dim, e = d + (size_t)dim; d < e;
						     d++)
							sum += (double)q[(size_t)i * (size_t)cols + d] *
							               keys[r * (size_t)cols + d] +
							       (double)k[(size_t)j * (size_t)cols + d] *
							               queries[r * (size_t)cols + d];
						worst = fmax(worst, fabs(got[(i * heads + h) * n + j] - sum * 0.125));
					}
			CHECK_MSG(worst < 2e-5, "%s, %d tokens: %g", levels[l], (int)n, worst);
			row[0] = rows;
			be->ops->relative(be, &a, n);
			CHECK(be->ops->sync(be) < 0 && strstr(be->err, "internal: relative of"));
			be->ops->drop(be, &tq);
			be->ops->drop(be, &tk);
			be->ops->drop(be, &tkeys);
			be->ops->drop(be, &tqueries);
			finish(be);
			free(q);
			free(k);
			free(keys);
			free(queries);
			free(got);
		}
}

TEST(rope_matches_double)
{
	static const struct {
		int32_t heads, head_dim, dims, n;
		int neox;
	} shape[] = {
		{ 9, 64, 64, 1, 0 }, { 3, 64, 64, 5, 1 }, { 2, 80, 80, 3, 1 }, { 2, 96, 32, 3, 1 },
		{ 2, 96, 32, 3, 0 }, { 1, 32, 6, 2, 1 },  { 1, 10, 10, 2, 0 }, { 9, 64, 64, 100, 0 },
	};

	for (int l = 0; l < N_LEVELS; l++)
		for (size_t s = 0; s < LEN(shape); s++) {
			struct backend *be = open_level(levels[l], 2);
			int32_t dim = shape[s].head_dim, dims = shape[s].dims, n = shape[s].n;
			int32_t cols = shape[s].heads * dim;
			size_t all = (size_t)n * (size_t)cols;
			float *x, *table, *ref, *got;
			struct tensor tx, tt;

			if (!be)
				continue;
			x = random_floats(all, -2, 2);
			table = must_alloc((size_t)n * (size_t)dims * 4);
			for (int32_t i = 0; i < n * dims / 2; i++) {
				double a = test_randf(0, 6.3f);

				table[2 * i] = (float)cos(a);
				table[2 * i + 1] = (float)sin(a);
			}
			ref = must_alloc(all * 4);
			memcpy(ref, x, all * 4);
			for (int32_t i = 0; i < n; i++)
				for (int32_t h = 0; h < shape[s].heads; h++)
					for (int32_t j = 0; j < dims / 2; j++) {
						size_t at = (size_t)i * (size_t)cols + (size_t)(h * dim);
						size_t a = at + (size_t)(shape[s].neox ? j : 2 * j);
						size_t b = at + (size_t)(shape[s].neox ? j + dims / 2 : 2 * j + 1);
						double c = table[i * dims + 2 * j], sn = table[i * dims + 2 * j + 1];

						ref[a] = (float)(x[a] * c - x[b] * sn);
						ref[b] = (float)(x[a] * sn + x[b] * c);
					}
			tx = guarded(be, n, cols);
			be->ops->write(be, &tx, 0, x, all * 4);
			tt = tensor_new(be, DT_F32, n, dims, table);
			be->ops->rope(be, &tx, &tx, &tt, dim, dims, shape[s].neox, n);
			got = result(be, &tx, "rope");
			CHECK_MSG(test_nmse(got, ref, all) < 1e-12, "%s shape %zu: %g", levels[l], s,
			          test_nmse(got, ref, all));
			be->ops->drop(be, &tt);
			finish(be);
			free(x);
			free(table);
			free(ref);
			free(got);
		}
}

TEST(kv_put_converts_and_places)
{
	enum { HEADS = 3, CAP = 40, ROW0 = 5, N = 17 };
	static const int32_t dim_list[] = { 64, 20, 7 };

	for (int l = 0; l < N_LEVELS; l++)
		for (int d = 0; d < 3; d++)
			for (int f16 = 0; f16 < 2; f16++) {
				struct backend *be = open_level(levels[l], 2);
				int32_t dim = dim_list[d];
				size_t size = f16 ? 2 : 4, rows = HEADS * CAP, bytes = rows * (size_t)dim * size;
				float *x;
				uint8_t *ref, *got;
				struct tensor tx, plane;

				if (!be)
					continue;
				x = random_floats((size_t)(N * HEADS * dim), -4, 4);
				x[0] = 1e6f;
				x[1] = 3e-8f;
				x[2] = -0.0f;
				x[3] = 65519.0f;
				ref = must_alloc(bytes);
				memset(ref, 0, bytes);
				for (int i = 0; i < N; i++)
					for (int h = 0; h < HEADS; h++)
						for (int j = 0; j < dim; j++) {
							size_t at = ((size_t)(h * CAP + ROW0 + i) * (size_t)dim +
							             (size_t)j) *
							            size;
							float v = x[(i * HEADS + h) * dim + j];
							uint16_t half = f32_to_f16(v);

							memcpy(ref + at, f16 ? (void *)&half : (void *)&v, size);
						}
				tx = tensor_new(be, DT_F32, N, HEADS * dim, x);
				plane = tensor_new(be, f16 ? DT_F16 : DT_F32, HEADS * CAP, dim, NULL);
				be->ops->kv_put(be, &plane, &tx, HEADS, ROW0, N);
				got = must_alloc(bytes);
				be->ops->read(be, &plane, 0, got, bytes);
				CHECK_MSG(!memcmp(got, ref, bytes), "%s dim %d f16 %d", levels[l], (int)dim, f16);
				be->ops->drop(be, &tx);
				be->ops->drop(be, &plane);
				finish(be);
				free(x);
				free(ref);
				free(got);
			}
}

TEST(axpby_at_every_size)
{
	static const struct {
		int32_t n, cols;
		float a, b;
		int same;
	} c[] = {
		{ 1, 1, 1, 1, 0 },          { 3, 7, 0.22f, 1, 0 },    { 2, 64, 12, 0, 0 },
		{ 5, 33, -1.5f, 0.25f, 1 }, { 40, 2048, 0.1f, 1, 0 }, { 0, 8, 1, 1, 0 },
	};

	for (size_t i = 0; i < LEN(c); i++) {
		struct backend *be = open_level("c", i % 2 ? 2 : 1);
		size_t n = (size_t)c[i].n * (size_t)c[i].cols, all = (size_t)(c[i].n + 1) * (size_t)c[i].cols;
		float *x = must_alloc(all * sizeof *x), *y = must_alloc(all * sizeof *y),
		      *got = must_alloc(all * sizeof *got);
		struct tensor tx, ty;

		for (size_t k = 0; k < all; k++) {
			x[k] = (float)(test_rand() % 2001) / 1000 - 1;
			/* if b is 0, y must not be read: fill it with NaN */
			y[k] = c[i].b != 0 ? (float)(test_rand() % 2001) / 1000 - 1 : NAN;
		}
		tx = tensor_new(be, DT_F32, c[i].n + 1, c[i].cols, x);
		ty = tensor_new(be, DT_F32, c[i].n + 1, c[i].cols, y);
		be->ops->axpby(be, &ty, c[i].a, c[i].same ? &ty : &tx, c[i].b, c[i].n);
		be->ops->read(be, &ty, 0, got, all * sizeof *got);
		for (size_t k = 0; k < n; k++) {
			float from = c[i].same ? y[k] : x[k], scaled = c[i].a * from;
			float want = c[i].b != 0 ? scaled + c[i].b * y[k] : scaled;

			CHECK_MSG(got[k] == want, "case %zu, value %zu: %g, expected %g", i, k, (double)got[k],
			          (double)want);
		}
		CHECK(!memcmp(got + n, y + n, (all - n) * sizeof *got)); /* the row after the results is unchanged */
		be->ops->drop(be, &tx);
		be->ops->drop(be, &ty);
		free(x);
		free(y);
		free(got);
		finish(be);
	}
}

TEST(columns_become_rows)
{
	struct backend *be = open_level("c", 1);
	static const int32_t col[] = { 4, 0, 6, 4 };
	float x[3 * 7];
	struct tensor a, b;

	for (int i = 0; i < 21; i++)
		x[i] = (float)i;
	a = tensor_new(be, DT_F32, 3, 7, x);
	b = guarded(be, 4, 5);
	be->ops->columns(be, &b, &a, col, 4);
	be->ops->read(be, &b, 0, x, 20 * sizeof *x);
	for (int i = 0; i < 20; i++)
		CHECK(x[i] == (i % 5 < 3 ? (float)(i % 5 * 7 + col[i / 5]) : 0));
	be->ops->columns(be, &b, &a, col, 0);
	CHECK_INT(be->ops->sync(be), 0);
	be->ops->columns(be, &b, &a, col, 6);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "6 columns of 3 do not fit"));
	be->ops->columns(be, &a, &b, col, 1);
	CHECK_INT(be->ops->sync(be), 0);
	free(result(be, &b, "columns"));
	be->ops->drop(be, &a);
	be->ops->close(be);
}

/* take_rows() copies rows in any order. add_rows() adds to any rows; several rows with the same target are added in the
 * order of the list. */
TEST(rows_taken_and_added)
{
	struct backend *be = open_level("c", 1);
	static const int32_t row[] = { 4, 0, 4, 2, 4 };
	static const float weight[] = { 0.5f, 2, 1e8f, -1, -1e8f };
	enum { COLS = 131 };
	float *x = random_floats(5 * COLS, -1, 1), *y = random_floats(6 * COLS, -1, 1), *got;
	struct tensor tx = tensor_new(be, DT_F32, 5, COLS, x), ty = tensor_new(be, DT_F32, 6, COLS, y),
		      out = guarded(be, 5, COLS);

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
	out = tensor_new(be, DT_F32, 5, COLS, NULL);
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
