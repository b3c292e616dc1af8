/* tests/kernels/t_select_ops.c - the operations of selection: key sketches, scans, page bounds, the top k, moves of KV
 * entries.
 *
 * Every operation is compared with plain double arithmetic, at every level and at odd sizes. Sketches and their scores
 * must have the same bits at all levels, and all results must have the same bits for any number of threads. Small
 * examples have known answers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/select_ref.h"

/* ---- sketches and scans ---- */

TEST(sketch_takes_what_it_should)
{
	for (int l = 0; l < N_LEVELS; l++) {
		struct backend *be = open_level(levels[l], 1);

		if (!be)
			continue;
		/* A key of 64 values at 2 bits takes 18 bytes; keys come in whole blocks of 256, each with a mean. */
		CHECK_INT(be->ops->key_sketch_bytes(be, 3, 7680, 64, 2), 3 * (7680 * 18 + 30 * 320));
		CHECK_INT(be->ops->key_sketch_bytes(be, 3, 7680, 64, 4), 3 * (7680 * 34 + 30 * 320));
		CHECK_INT(be->ops->key_sketch_bytes(be, 3, 7681, 64, 8), 3 * (7936 * 66 + 31 * 320));
		CHECK_INT(be->ops->key_sketch_bytes(be, 1, 1, 40, 2), 256 * (2 + 12) + 192);
		CHECK_INT(be->ops->key_sketch_bytes(be, 1, 1, 40, 3), 0);
		CHECK_INT(be->ops->key_sketch_bytes(be, 0, 1, 40, 2), 0);
		CHECK(be->ops->key_sketch_bytes(be, INT32_MAX, INT32_MAX, INT32_MAX, 8) == 0);
		finish(be);
	}
}

/* A sketch depends only on its keys. Keys that are added one at a time give the same bits as keys added together. This
 * also holds for keys with NaN, and for a sketch that contained other keys before, even more keys. */
TEST(sketch_does_not_depend_on_steps)
{
	static const int32_t dims[] = { 1, 2, 5, 12, 31, 40, 64, 66, 96, 128, 130 };
	enum { CAP = 600, KV = 2 };

	for (int l = 0; l < N_LEVELS; l++)
		for (size_t d = 0; d < LEN(dims); d++)
			for (int32_t bits = 2; bits <= 8; bits *= 2) {
				struct backend *be = open_level(levels[l], 2);
				int32_t dim = dims[d], n = 1 + (int32_t)(test_rand() % CAP),
					most = n + (int32_t)(test_rand() % (uint64_t)(CAP + 1 - n)), size;
				float *x = random_keys(KV, CAP, dim), *other = random_keys(KV, CAP, dim);
				struct tensor plane, old, copy[2];
				uint8_t *got[2];

				if (!be) {
					free(x);
					free(other);
					continue;
				}
				for (int32_t i = 0; i < KV * CAP * dim; i++)
					if (test_rand() % 500 == 0)
						x[i] = test_rand() % 2 ? NAN : test_rand() % 2 ? INFINITY : 1e30f;
				/* some keys are constant over their dimensions */
				for (int32_t k = 0; k < KV * CAP; k += 7)
					for (int32_t i = 0; i < dim; i++)
						x[k * dim + i] = k % 3 ? 0.25f : 0;
				plane = tensor_new(be, DT_F32, KV * CAP, dim, x);
				old = tensor_new(be, DT_F32, KV * CAP, dim, other);
				size = (int32_t)be->ops->key_sketch_bytes(be, KV, CAP, dim, bits);
				for (int i = 0; i < 2; i++)
					copy[i] = tensor_new(be, DT_U8, 1, size, NULL);
				be->ops->key_sketch(be, &copy[0], &plane, KV, CAP, bits, 0, most);
				be->ops->key_sketch(be, &copy[0], &plane, KV, CAP, bits, n / 2, n - n / 2);
				be->ops->key_sketch(be, &copy[1], &old, KV, CAP, bits, 0, most);
				for (int32_t k = 0; k < n; k++)
					be->ops->key_sketch(be, &copy[1], &plane, KV, CAP, bits, k, 1);
				for (int i = 0; i < 2; i++) {
					got[i] = tensor_read(be, &copy[i]);
					be->ops->drop(be, &copy[i]);
				}
				CHECK_MSG(sketches_equal(got[0], got[1], KV, CAP, n, dim, bits),
				          "%s, %d of %d keys of %d, %d bits", levels[l], n, most, dim, bits);
				be->ops->drop(be, &plane);
				be->ops->drop(be, &old);
				free(got[0]);
				free(got[1]);
				free(x);
				free(other);
				finish(be);
			}
}

/* The Hadamard transform preserves dot products, and is its own inverse. */
TEST(keys_are_turned)
{
	for (int32_t dim = 1; dim <= 130; dim++) {
		float *x = random_keys(1, 2, dim), *old = must_alloc(2 * (size_t)dim * sizeof *old);
		double before = 0, after = 0, size = 0;

		memcpy(old, x, 2 * (size_t)dim * sizeof *old);
		hadamard(x, dim);
		hadamard(x + dim, dim);
		for (int32_t i = 0; i < dim; i++) {
			before += (double)old[i] * old[dim + i];
			after += (double)x[i] * x[dim + i];
			size += fabs((double)old[i]) * fabs((double)old[dim + i]) +
			        fabs((double)x[i]) * fabs((double)x[dim + i]);
		}
		CHECK_MSG(fabs(before - after) <= 1e-5 * size, "dim %d: %g became %g", (int)dim, before, after);
		hadamard(x, dim);
		for (int32_t i = 0; i < dim; i++)
			CHECK(fabs((double)x[i] - old[i]) <= 1e-4);
		free(x);
		free(old);
	}
}

/* For keys around a mean, the squared error of the codes is near the optimum for a normal distribution, and errors of
 * products with any query average to 0. */
TEST(codes_are_good_and_unbiased)
{
	enum { DIM = 64, N = 2048 };
	static const double most[] = { 0.16, 0.014, 0.0003 };

	for (int b = 0; b < 3; b++) {
		float *x = must_alloc(N * DIM * sizeof *x), *y = must_alloc(N * DIM * sizeof *y),
		      *q = random_query(DIM, 0), centre[DIM];
		double error = 0, all = 0, bias = 0, spread = 0, with = 0;

		for (int i = 0; i < DIM; i++)
			centre[i] = 5 * bell();
		for (int i = 0; i < N * DIM; i++)
			x[i] = centre[i % DIM] + bell();
		round_keys(y, x, 1, N, N, DIM, 2 << b, 1);
		for (int k = 0; k < N; k++) {
			double off = 0, part = 0;

			for (int i = 0; i < DIM; i++) {
				double v = x[k * DIM + i] - centre[i], d = y[k * DIM + i] - x[k * DIM + i];

				error += d * d;
				all += v * v;
				off += d * q[i];
				part += v * d;
			}
			bias += off;
			spread += off * off;
			with += part;
		}
		test_note(
			"%d bits: squared error %.4f of the keys; products off by %.4f on average, of a spread of %.3f",
			2 << b, error / all, bias / N, sqrt(spread / N));
		CHECK(error < most[b] * all);
		CHECK(fabs(bias / N) < 4 * sqrt(spread / N) / sqrt(N));
		/* The error is orthogonal to the key, so products are not scaled up or down. */
		CHECK(fabs(with) < 0.01 * all);
		free(x);
		free(y);
		free(q);
	}
}

TEST(sketch_scans_agree_with_doubles_and_between_levels)
{
	static const enum dtype types[] = { DT_F16, DT_F32, DT_BF16, DT_Q8_0, DT_Q4_0 };

	for (int si = 0; si < N_SHAPES; si++)
		for (int bits = 2; bits <= 8; bits *= 2) {
			const struct shape *s = &select_shapes[si];
			enum dtype type = types[(si + bits) % LEN(types)];
			int32_t n_head = s->group * s->n_kv;
			size_t n_keys = (size_t)s->n_kv * (size_t)s->cap * (size_t)s->dim,
			       n_out = (size_t)s->n_kv * (size_t)s->n;
			float *x = random_keys(s->n_kv, s->cap, s->dim), *held = must_alloc(n_keys * sizeof *held);
			float *q = random_query(n_head * s->dim, si & 1), *first[2] = { NULL, NULL };
			float *turned = must_alloc((size_t)n_head * (size_t)s->dim * sizeof *turned);
			double *want[2] = { must_alloc(n_out * sizeof **want), must_alloc(n_out * sizeof **want) },
			       slack[2][8];
			uint8_t *bytes = NULL;

			/* Queries and keys are rounded after the Hadamard transform. */
			for (int32_t h = 0; h < n_head; h++) {
				memcpy(turned + h * s->dim, q + h * s->dim, (size_t)s->dim * sizeof *q);
				hadamard(turned + h * s->dim, s->dim);
			}
			if (s->dim % dtype_info(type)->block)
				type = DT_F16;
			for (int l = 0; l < N_LEVELS; l++)
				for (int threads = 1; threads <= 3; threads++) {
					struct backend *be = open_level(levels[l], threads);
					struct tensor plane, copy, qt;
					uint8_t *have;

					if (!be)
						continue;
					plane = plane_new(be, type, s->n_kv, s->cap, s->dim, x, held);
					copy = sketch_new(be, &plane, s, bits, threads != 1);
					qt = tensor_new(be, DT_F32, 1, n_head * s->dim, q);
					have = tensor_read(be, &copy);
					if (!bytes) {
						bytes = have;
						round_keys(held, held, s->n_kv, s->cap, s->n, s->dim, bits, 0);
						for (int how = REDUCE_MAX; how <= REDUCE_MEAN; how++)
							scan_plain(want[how], slack[how], held, turned, n_head, s->n_kv,
							           s->dim, s->cap, s->n, 0.125f, (enum reduce)how,
							           bits == 2 ? 20 : 254 * 100);
					} else
						CHECK_MSG(sketches_equal(bytes, have, s->n_kv, s->cap, s->n, s->dim,
						                         bits),
						          "%s: sketch of dim %d, %d bits, %d threads", levels[l],
						          (int)s->dim, bits, threads);
					if (bytes != have)
						free(have);
					for (int how = REDUCE_MAX; how <= REDUCE_MEAN; how++) {
						struct tensor out = guarded(be, DT_F32, s->n_kv, s->n);
						/* clang-format off */
						struct scan_args a = {
							.out = &out, .q = &qt, .keys = &copy, .n_head = n_head, .n_kv_head = s->n_kv,
							.head_dim = s->dim, .cap = s->cap, .n_slots = s->n, .bits = bits, .scale = 0.125f,
							.reduce = (enum reduce)how,
						};
						/* clang-format on */
						float *got;
						int bad = 0;

						be->ops->key_scan(be, &a);
						got = unguarded(be, &out);
						/* A score may have an error from rounding the query, and the
						 * normalisation of the scores may add an error of the same size. */
						for (size_t i = 0; i < n_out; i++)
							bad += !(fabs(got[i] - want[how][i]) <=
							         2 * slack[how][i / (size_t)s->n] + 1.5e-3 +
							                 1e-5 * fabs(want[how][i]));
						CHECK_MSG(
							!bad,
							"%s: dim %d, group %d, %d keys, %d bits, %s: %d of %zu scores are off",
							levels[l], (int)s->dim, (int)s->group, (int)s->n, bits,
							how ? "mean" : "max", bad, n_out);
						if (!first[how])
							first[how] = got;
						else
							CHECK_MSG(!memcmp(first[how], got, n_out * sizeof *got),
							          "%s: other bits: dim %d, %d bits, %d threads",
							          levels[l], (int)s->dim, bits, threads);
						if (first[how] != got)
							free(got);
					}
					be->ops->drop(be, &plane);
					be->ops->drop(be, &copy);
					be->ops->drop(be, &qt);
					finish(be);
				}
			free(bytes);
			free(turned);
			free(first[0]);
			free(first[1]);
			free(x);
			free(held);
			free(q);
			free(want[0]);
			free(want[1]);
		}
}

TEST(plane_scans_agree_with_doubles)
{
	static const enum dtype types[] = { DT_F16, DT_F32, DT_BF16, DT_Q8_0, DT_Q4_0 };

	for (int si = 0; si < N_SHAPES; si++)
		for (size_t ty = 0; ty < LEN(types); ty++) {
			const struct shape *s = &select_shapes[si];
			int32_t n_head = s->group * s->n_kv;
			size_t n_out = (size_t)s->n_kv * (size_t)s->n;
			float *x, *held, *q;
			double *want, slack[8];

			if (s->dim % dtype_info(types[ty])->block)
				continue;
			x = random_keys(s->n_kv, s->cap, s->dim);
			held = must_alloc((size_t)s->n_kv * (size_t)s->cap * (size_t)s->dim * sizeof *held);
			q = random_query(n_head * s->dim, si & 1);
			want = must_alloc(n_out * sizeof *want);
			for (int l = 0; l < N_LEVELS; l++) {
				float *first[2] = { NULL, NULL };

				for (int threads = 1; threads <= 3; threads++) {
					struct backend *be = open_level(levels[l], threads);
					struct tensor plane, qt;

					if (!be)
						continue;
					plane = plane_new(be, types[ty], s->n_kv, s->cap, s->dim, x, held);
					qt = tensor_new(be, DT_F32, 1, n_head * s->dim, q);
					for (int how = REDUCE_MAX; how <= REDUCE_MEAN; how++) {
						struct tensor out = guarded(be, DT_F32, s->n_kv, s->n);
						/* clang-format off */
						struct scan_args a = {
							.out = &out, .q = &qt, .keys = &plane, .n_head = n_head, .n_kv_head = s->n_kv,
							.head_dim = s->dim, .cap = s->cap, .n_slots = s->n, .bits = 16, .scale = 0.125f,
							.reduce = (enum reduce)how,
						};
						/* clang-format on */
						float *got;
						int bad = 0;

						be->ops->key_scan(be, &a);
						got = unguarded(be, &out);
						scan_plain(want, slack, held, q, n_head, s->n_kv, s->dim, s->cap, s->n,
						           a.scale, a.reduce, 1e6);
						for (size_t i = 0; i < n_out; i++)
							bad += !(fabs(got[i] - want[i]) <=
							         slack[i / (size_t)s->n] + 1.5e-3 +
							                 1e-5 * fabs(want[i]));
						CHECK_MSG(!bad,
						          "%s: %s, dim %d, group %d, %d keys, %s: %d scores are off",
						          levels[l], dtype_info(types[ty])->name, (int)s->dim,
						          (int)s->group, (int)s->n, how ? "mean" : "max", bad);
						if (!first[how])
							first[how] = got;
						else
							CHECK_MSG(!memcmp(first[how], got, n_out * sizeof *got),
							          "%s: other bits with %d threads", levels[l], threads);
						if (first[how] != got)
							free(got);
					}
					be->ops->drop(be, &plane);
					be->ops->drop(be, &qt);
					finish(be);
				}
				free(first[0]);
				free(first[1]);
			}
			free(x);
			free(held);
			free(q);
			free(want);
		}
}

/* Select 512 of 7,680 keys in two ways: by the scores of the sketch, and by exact products of the query with the coded
 * keys. Both selections must be nearly the same, because rounding the query to bytes adds almost no error. */
TEST(bytes_are_enough_for_queries)
{
	enum { DIM = 64, N = 7680, GROUP = 3, K = 512 };
	struct backend *be = open_level(levels[N_LEVELS - 1], 2);
	int32_t least[2][3];

	if (!be)
		be = open_level("c", 2);
	for (int outliers = 0; outliers < 2; outliers++)
		for (int b = 0; b < 3; b++) {
			int32_t bits = 2 << b, exact = 0;

			least[outliers][b] = K;
			for (int round = 0; round < 4; round++) {
				struct shape s = { DIM, GROUP, 1, N, N };
				float *x = random_keys(1, N, DIM), *held = must_alloc(N * DIM * sizeof *held);
				float *q = random_query(GROUP * DIM, outliers);
				struct tensor plane = plane_new(be, DT_F16, 1, N, DIM, x, held),
					      copy = sketch_new(be, &plane, &s, bits, 0), sharp;
				struct tensor qt = tensor_new(be, DT_F32, 1, GROUP * DIM, q),
					      score = tensor_new(be, DT_F32, 1, N, NULL);
				struct tensor rows = tensor_new(be, DT_I32, 1, K, NULL);
				int32_t *got[3];

				round_keys(x, held, 1, N, N, DIM, bits, 1);
				sharp = tensor_new(be, DT_F32, N, DIM, x);
				for (int i = 0; i < 3; i++) {
					/* clang-format off */
					struct scan_args a = {
						.out = &score, .q = &qt, .keys = i == 0 ? &copy : i == 1 ? &sharp : &plane, .n_head = GROUP, .n_kv_head = 1,
						.head_dim = DIM, .cap = N, .n_slots = N, .bits = i ? 16 : bits, .scale = 0.125f,
					};
					/* clang-format on */
					struct topk_args t = { .slots = &rows,
						               .score = &score,
						               .n_kv_head = 1,
						               .n = N,
						               .k = K,
						               .pool = 1 };

					be->ops->key_scan(be, &a);
					be->ops->topk(be, &t);
					got[i] = tensor_read(be, &rows);
				}
				int32_t same = overlap(got[0], got[1], K);

				least[outliers][b] = same < least[outliers][b] ? same : least[outliers][b];
				exact += overlap(got[0], got[2], K);
				for (int i = 0; i < 3; i++)
					free(got[i]);
				be->ops->drop(be, &plane);
				be->ops->drop(be, &copy);
				be->ops->drop(be, &sharp);
				be->ops->drop(be, &qt);
				be->ops->drop(be, &score);
				be->ops->drop(be, &rows);
				free(x);
				free(held);
				free(q);
			}
			test_note(
				"%d bits, queries %s outliers: of the best %d, %d agree with exact queries, %.0f with exact keys too",
				(int)bits, outliers ? "with" : "without", K, (int)least[outliers][b], exact / 4.0);
			CHECK(least[outliers][b] >= (bits == 2 ? K * 95 / 100 : K * 99 / 100));
		}
	finish(be);
}

/* ---- pages ---- */

TEST(page_bounds_and_scores)
{
	static const int32_t sizes[] = { 16, 8, 64, 32, 24, 16, 40 };

	for (int si = 0; si < N_SHAPES; si++)
		for (int l = 0; l < N_LEVELS; l++) {
			const struct shape *s = &select_shapes[si];
			int32_t size = sizes[si % 7], n_head = s->group * s->n_kv, pages = (s->n + size - 1) / size,
				most = (s->cap + size - 1) / size;
			size_t n_out = (size_t)s->n_kv * (size_t)pages, width = 2 * (size_t)s->dim;
			float *x = random_keys(s->n_kv, s->cap, s->dim), *q = random_query(n_head * s->dim, 1),
			      *first = NULL;
			float *held = must_alloc((size_t)s->n_kv * (size_t)s->cap * (size_t)s->dim * sizeof *held);
			double *want = must_alloc(n_out * sizeof *want), *raw = must_alloc(n_out * sizeof *raw);

			for (int threads = 1; threads <= 3; threads++) {
				struct backend *be = open_level(levels[l], threads);
				struct tensor plane, bounds, qt;
				float *b;
				int wrong = 0;

				if (!be)
					continue;
				plane = plane_new(be, si % 2 ? DT_F16 : DT_F32, s->n_kv, s->cap, s->dim, x, held);
				bounds = tensor_new(be, DT_F32, s->n_kv * most, 2 * s->dim, NULL);
				qt = tensor_new(be, DT_F32, 1, n_head * s->dim, q);
				for (int32_t at = 0; at < s->n;) {
					int32_t n = threads == 1 ? s->n : at % 3 ? 1 : 50;

					n = n < s->n - at ? n : s->n - at;
					be->ops->page_bounds(be, &bounds, &plane, s->n_kv, s->cap, size, at, n);
					at += n;
				}
				b = tensor_read(be, &bounds);
				for (int32_t h = 0; h < s->n_kv; h++)
					for (int32_t p = 0; p < pages; p++) {
						const float *page = b + ((size_t)h * (size_t)most + (size_t)p) * width;

						for (int32_t d = 0; d < s->dim; d++) {
							float lo = INFINITY, hi = -INFINITY;

							for (int32_t k = size * p; k < size * p + size && k < s->n;
							     k++) {
								float v =
									held[((size_t)h * (size_t)s->cap + (size_t)k) *
								                     (size_t)s->dim +
								             (size_t)d];

								lo = fminf(lo, v);
								hi = fmaxf(hi, v);
							}
							wrong += page[d] != lo || page[s->dim + d] != hi;
						}
					}
				CHECK_MSG(!wrong, "%s: %d bounds of pages of %d, dim %d, are wrong", levels[l], wrong,
				          (int)size, (int)s->dim);
				for (int how = 0; how < 3; how++) {
					struct tensor out = guarded(be, DT_F32, s->n_kv, pages);
					/* clang-format off */
					struct scan_args a = {
						.out = &out, .q = &qt, .keys = &bounds, .n_head = n_head, .n_kv_head = s->n_kv, .head_dim = s->dim,
						.cap = s->cap, .n_slots = s->n, .scale = 0.25f, .page = size, .raw = how == 2,
						.reduce = how == 1 ? REDUCE_MEAN : REDUCE_MAX,
					};
					/* clang-format on */
					float *got;

					be->ops->page_scan(be, &a);
					got = unguarded(be, &out);
					wrong = 0;
					for (int32_t h = 0; h < s->n_kv; h++) {
						double l_sum[8] = { 0 }, top[8];

						for (int32_t r = 0; r < s->group; r++)
							top[r] = -INFINITY;
						for (int pass = 0; pass < 3; pass++)
							for (int32_t p = 0; p < pages; p++) {
								const float *page =
									b +
									((size_t)h * (size_t)most + (size_t)p) * width;
								double best = -INFINITY, sum = 0, large = -INFINITY;

								for (int32_t r = 0; r < s->group; r++) {
									const float *v =
										q + (size_t)(h * s->group + r) *
											    (size_t)s->dim;
									double bound = 0;

									for (int32_t d = 0; d < s->dim; d++)
										bound += fmax((double)v[d] * page[d],
										              (double)v[d] *
										                      page[s->dim + d]);
									bound *= a.scale;
									if (pass == 0)
										top[r] = fmax(top[r], bound);
									else if (pass == 1)
										l_sum[r] += exp(bound - top[r]);
									else
										best = fmax(best,
										            bound - top[r] -
										                    log(l_sum[r]));
									if (pass == 2)
										sum += exp(bound - top[r] -
										           log(l_sum[r]));
									large = fmax(large, bound);
								}
								want[(size_t)h * (size_t)pages + (size_t)p] =
									how == 2 ? large
									: how    ? log(sum / s->group)
										 : best;
							}
					}
					for (size_t i = 0; i < n_out; i++)
						wrong += !(fabs(got[i] - want[i]) <= 1.5e-3 + 1e-5 * fabs(want[i]));
					CHECK_MSG(!wrong, "%s: %d page scores of dim %d are wrong (%d)", levels[l],
					          wrong, (int)s->dim, how);
					if (how == 0) {
						if (!first)
							first = must_alloc(n_out * sizeof *got),
							memcpy(first, got, n_out * sizeof *got);
						CHECK(!memcmp(first, got, n_out * sizeof *got));
					}
					free(got);
				}
				free(b);
				be->ops->drop(be, &plane);
				be->ops->drop(be, &bounds);
				be->ops->drop(be, &qt);
				finish(be);
			}
			free(first);
			free(x);
			free(q);
			free(held);
			free(want);
			free(raw);
		}
}

/* q = (1, -2, .5, 0) over the bounds (-1, -.5, 0, -3) .. (2, 1.5, .25, 3): 2 + 1 + .125 + 0. */
TEST(page_bound_toy)
{
	static const float keys[2][4] = { { -1, 1.5f, 0, 3 }, { 2, -0.5f, 0.25f, -3 } }, q[4] = { 1, -2, 0.5f, 0 };

	for (int l = 0; l < N_LEVELS; l++) {
		struct backend *be = open_level(levels[l], 1);
		struct tensor plane, bounds, qt, out;
		float got = 0;

		if (!be)
			continue;
		plane = tensor_new(be, DT_F32, 2, 4, keys);
		bounds = tensor_new(be, DT_F32, 1, 8, NULL);
		qt = tensor_new(be, DT_F32, 1, 4, q);
		out = tensor_new(be, DT_F32, 1, 1, NULL);
		be->ops->page_bounds(be, &bounds, &plane, 1, 2, 16, 0, 2);
		be->ops->page_scan(be, &(struct scan_args){ .out = &out,
		                                            .q = &qt,
		                                            .keys = &bounds,
		                                            .n_head = 1,
		                                            .n_kv_head = 1,
		                                            .head_dim = 4,
		                                            .cap = 2,
		                                            .n_slots = 2,
		                                            .scale = 1,
		                                            .page = 16,
		                                            .raw = 1 });
		be->ops->read(be, &out, 0, &got, sizeof got);
		CHECK_MSG(got == 3.125f, "the bound is %g", got);
		be->ops->drop(be, &plane);
		be->ops->drop(be, &bounds);
		be->ops->drop(be, &qt);
		be->ops->drop(be, &out);
		finish(be);
	}
}

TEST(pages_become_slots)
{
	for (int l = 0; l < N_LEVELS; l++) {
		struct backend *be = open_level(levels[l], 1 + l);

		if (!be)
			continue;
		page_rows_agree(be);
		finish(be);
	}
}

/* ---- the top k ---- */

TEST(topk_agrees_with_sorting)
{
	static const int32_t sizes[] = { 1, 2, 15, 16, 17, 64, 100, 511, 1000, 2048, 2049, 5000, 7680 };
	static const int32_t pools[] = { 1, 7, 3, 5, 31, 9999 };
	enum { HEADS = 3 };

	for (int si = 0; si < 13; si++)
		for (int kind = 0; kind < 8; kind++)
			for (int ki = 5 - test_rounds(5); ki < 5; ki++) {
				int32_t n = sizes[si], pool = pools[test_rand() % 6];
				int32_t k = ki == 0   ? 1
				            : ki == 1 ? n
				            : ki == 2 ? n / 15 + 1
				                      : 1 + (int32_t)(test_rand() % (uint64_t)n);
				int32_t first = test_rand() % 2 ? 0 : (int32_t)(test_rand() % 9);
				int32_t last = test_rand() % 2 ? 0 : (int32_t)(test_rand() % 70);
				int best = (int)(test_rand() % 2);
				float *x = must_alloc((size_t)HEADS * (size_t)(n + 3) * sizeof *x);
				int32_t *want = must_alloc((size_t)HEADS * (size_t)k * sizeof *want);

				/* The plain computation takes n * pool steps: limit a wide pool. */
				if (n > 1000 && pool > 100)
					pool = 31;
				for (int h = 0; h < HEADS; h++) {
					random_scores(x + h * (n + 3), n, kind);
					topk_plain(want + h * k, x + h * (n + 3), n, k, pool, first, last, best);
				}
				for (int l = 0; l < N_LEVELS; l++) {
					struct backend *be = open_level(levels[l], 1 + (int)(test_rand() % 3));
					struct tensor score, rows;
					int32_t *got;

					if (!be)
						continue;
					score = tensor_new(be, DT_F32, HEADS, n + 3, x);
					rows = guarded(be, DT_I32, HEADS, k);
					be->ops->topk(be,
					              &(struct topk_args){ .slots = &rows,
					                                   .score = &score,
					                                   .n_kv_head = HEADS,
					                                   .n = n,
					                                   .k = k,
					                                   .pool = pool,
					                                   .first = first,
					                                   .last = last,
					                                   .order = best ? BEST_FIRST : SLOT_ORDER });
					got = unguarded(be, &rows);
					CHECK_MSG(!memcmp(got, want, (size_t)HEADS * (size_t)k * sizeof *got),
					          "%s: kind %d, %d of %d, pool %d, first %d, last %d, best first %d",
					          levels[l], kind, (int)k, (int)n, (int)pool, (int)first, (int)last,
					          best);
					free(got);
					be->ops->drop(be, &score);
					finish(be);
				}
				free(x);
				free(want);
			}
}

/* Attention over the top k and the weighted sample is an unbiased estimate of attention over all slots; sample_holds()
 * checks this. */
TEST(a_sample_stands_for_the_rest)
{
	static const int32_t sizes[] = { 2, 3, 63, 64, 65, 129, 700, 2048, 5001 };

	for (int si = 0; si < 9; si++)
		for (int kind = 0; kind < 8; kind++)
			for (int l = 0; l < N_LEVELS; l++)
				for (int threads = 1; threads <= 3; threads += 2) {
					struct backend *be = open_level(levels[l], threads);
					int32_t n = sizes[si], k = 1 + (int32_t)(test_rand() % (uint64_t)(n - 1));
					int32_t sample = 1 + (int32_t)(test_rand() % (uint64_t)(n - k));

					if (!be)
						continue;
					sample_holds(be, levels[l], n, k, sample, kind);
					sample_holds(be, levels[l], n, n / 16 + 1,
					             n - n / 16 - 1 < 128 ? n - n / 16 - 1 : 128, kind);
					finish(be);
				}
}

/* Two query heads and 20 keys with scores z_h[j] = ((7 j + 5 h j + 3 h) mod 13) / 4, whose top k with and without
 * pooling is known. */
TEST(topk_toy)
{
	static const float raw[] = { .01499f, .04962f, .01107f, .06372f, .14221f,
		                     .11075f, .08625f, .10505f, .05231f, .13489f };
	static const int32_t plain[] = { 4, 5, 9, 11, 17, 18 }, pooled[] = { 8, 9, 10, 11, 12, 14 };
	static const int32_t last_out[] = { 11, 9, 8, 14, 12, 10 };

	for (int l = 0; l < N_LEVELS; l++) {
		struct backend *be = open_level(levels[l], 1);
		struct tensor score, rows, plane, qt;
		float key[20][2], q[4] = { 1, 0, 0, 1 }, p[20];
		int32_t got[6];

		if (!be)
			continue;
		/* Keys of two values, and queries that each pick one of them, give these scores. */
		for (int j = 0; j < 20; j++)
			for (int h = 0; h < 2; h++)
				key[j][h] = (float)((7 * j + 5 * h * j + 3 * h) % 13) / 4;
		plane = tensor_new(be, DT_F32, 20, 2, key);
		qt = tensor_new(be, DT_F32, 1, 4, q);
		score = tensor_new(be, DT_F32, 1, 20, NULL);
		rows = tensor_new(be, DT_I32, 1, 6, NULL);
		be->ops->key_scan(be, &(struct scan_args){ .out = &score,
		                                           .q = &qt,
		                                           .keys = &plane,
		                                           .n_head = 2,
		                                           .n_kv_head = 1,
		                                           .head_dim = 2,
		                                           .cap = 20,
		                                           .n_slots = 20,
		                                           .bits = 16,
		                                           .scale = 1 });
		be->ops->read(be, &score, 0, p, sizeof p);
		for (int j = 0; j < 10; j++)
			CHECK_MSG(fabsf(expf(p[j]) - raw[j]) < 1e-4f, "%s: key %d has %g", levels[l], j, expf(p[j]));
		for (int way = 0; way < 3; way++) {
			const int32_t *want = way == 0 ? plain : way == 1 ? pooled : last_out;

			be->ops->topk(be, &(struct topk_args){ .slots = &rows,
			                                       .score = &score,
			                                       .n_kv_head = 1,
			                                       .n = 20,
			                                       .k = 6,
			                                       .pool = way ? 7 : 1,
			                                       .order = way == 2 ? BEST_FIRST : SLOT_ORDER });
			be->ops->read(be, &rows, 0, got, sizeof got);
			CHECK_MSG(!memcmp(got, want, sizeof got), "%s: way %d gave %d %d %d %d %d %d", levels[l], way,
			          (int)got[0], (int)got[1], (int)got[2], (int)got[3], (int)got[4], (int)got[5]);
		}
		be->ops->drop(be, &plane);
		be->ops->drop(be, &qt);
		be->ops->drop(be, &score);
		be->ops->drop(be, &rows);
		finish(be);
	}
}

/* ---- moves ---- */

TEST(moves_read_before_they_write)
{
	static const enum dtype types[] = { DT_F16, DT_F32, DT_BF16, DT_Q8_0, DT_Q4_0 };
	static const struct {
		int32_t dim, dims, n;
	} cases[] = {
		{ 64, 64, 5 }, { 40, 24, 30 }, { 128, 128, 900 }, { 32, 32, 1 }, { 80, 20, 333 }, { 64, 64, 1000 }
	};
	enum { HEADS = 3, CAP = 1100, TURNS = 6 };

	for (int ci = 0; ci < 6; ci++)
		for (size_t ty = 0; ty < LEN(types); ty++)
			for (int l = 0; l < N_LEVELS; l++)
				for (int values = 0; values < 2; values++) {
					int32_t dim = cases[ci].dim, dims = cases[ci].dims, n = cases[ci].n, moved = 0,
						off = 0;
					int neox = ci % 2;
					size_t rb = (size_t)dtype_bytes(types[ty], (uint64_t)dim),
					       all = (size_t)HEADS * CAP * (size_t)dim;
					struct backend *be;
					struct tensor plane, move, turn;
					float *x, *held, *table;
					int32_t *m, *to;
					uint8_t *before, *after;

					if (dim % dtype_info(types[ty])->block)
						continue;
					be = open_level(levels[l], 1 + l);
					if (!be)
						continue;
					x = random_keys(HEADS, CAP, dim);
					held = must_alloc(all * sizeof *held);
					plane = plane_new(be, types[ty], HEADS, CAP, dim, x, held);
					before = tensor_read(be, &plane);
					table = must_alloc((size_t)TURNS * (size_t)dims * sizeof *table);
					for (int32_t i = 0; i < TURNS * dims; i += 2) {
						float angle = test_randf(-3, 3);

						table[i] = cosf(angle);
						table[i + 1] = sinf(angle);
					}
					/* Make random moves with distinct targets and arbitrary sources, so that cycles
					 * and chains occur. */
					m = must_alloc((size_t)HEADS * (size_t)(3 * n + 1) * sizeof *m);
					to = must_alloc(CAP * sizeof *to);
					for (int h = 0; h < HEADS; h++) {
						for (int32_t i = 0; i < CAP; i++)
							to[i] = i;
						for (int32_t i = 0; i < n; i++) {
							int32_t j = i + (int32_t)(test_rand() % (uint64_t)(CAP - i)),
								swap = to[i];
							int32_t *e = m + h * (3 * n + 1) + 3 * i;

							to[i] = to[j];
							to[j] = swap;
							e[0] = test_rand() % 9 ? (int32_t)(test_rand() % CAP) : -1;
							e[1] = to[i];
							e[2] = (int32_t)(test_rand() % (TURNS + 1)) - 1;
						}
					}
					move = tensor_new(be, DT_I32, HEADS, 3 * n + 1, m);
					turn = tensor_new(be, DT_F32, TURNS, dims, table);
					be->ops->kv_move(be, &plane,
					                 &(struct kv_moves){ .move = &move,
					                                     .shift = values ? NULL : &turn,
					                                     .n = n,
					                                     .n_kv_head = HEADS,
					                                     .head_dim = dim,
					                                     .dims = dims,
					                                     .cap = CAP,
					                                     .neox = neox });
					after = tensor_read(be, &plane);
					for (int h = 0; h < HEADS; h++) {
						for (int32_t i = 0; i < CAP; i++)
							to[i] = -1;
						for (int32_t i = 0; i < n; i++)
							if (m[h * (3 * n + 1) + 3 * i] >= 0)
								to[m[h * (3 * n + 1) + 3 * i + 1]] = i;
						for (int32_t k = 0; k < CAP; k++) {
							const int32_t *e = m + h * (3 * n + 1) + 3 * MAX(0, to[k]);
							size_t row = (size_t)h * CAP + (size_t)k,
							       from = (size_t)h * CAP + (size_t)(to[k] < 0 ? k : e[0]);
							float got[128], *src = held + from * (size_t)dim;
							double err = 0, size = 0, large = 0;

							if (to[k] < 0 || values || e[2] < 0) {
								moved += memcmp(after + row * rb, before + from * rb,
								                rb) != 0;
								continue;
							}
							dtype_to_f32(types[ty], got, after + row * rb, dim);
							if (kv_transformed(types[ty]))
								hadamard(got, dim);
							for (int32_t i = 0; i < dim; i++) {
								double want = src[i], other, c, s;
								int32_t pair, mate;

								if (i < dims) {
									pair = neox ? i % (dims / 2) : i / 2;
									mate = neox ? (i + dims / 2) % dims : i ^ 1;
									other = src[mate];
									c = table[e[2] * dims + 2 * pair];
									s = table[e[2] * dims + 2 * pair + 1];
									want = mate > i ? want * c - other * s
									                : want * c + other * s;
								}
								err = fmax(err, fabs(got[i] - want));
								size = fmax(size, fabs(want));
								large = fmax(large, fabs(got[i]));
							}
							off += !(err <= size * (types[ty] == DT_Q4_0  ? 0.3
							                        : types[ty] == DT_F32 ? 1e-6
							                        : types[ty] == DT_F16 ? 1e-3
							                                              : 4.5e-3));
						}
					}
					CHECK_MSG(
						!moved && !off,
						"%s %s, dim %d: %d slots are not what they should be, %d turned ones are off",
						levels[l], dtype_info(types[ty])->name, (int)dim, moved, off);
					free(x);
					free(held);
					free(before);
					free(after);
					free(table);
					free(m);
					free(to);
					be->ops->drop(be, &plane);
					be->ops->drop(be, &move);
					be->ops->drop(be, &turn);
					finish(be);
				}
}

/* ---- what is refused, what must not crash ---- */

TEST(bad_operands_are_refused)
{
	struct backend *be = open_level("c", 1);
	int32_t bad[][3] = { { -2, 0, -1 }, { 16, 0, -1 }, { 0, -1, -1 }, { 0, 16, -1 }, { 0, 1, 2 }, { 0, 1, -2 } };
	struct tensor plane = tensor_new(be, DT_F16, 32, 8, NULL), turn = tensor_new(be, DT_F32, 2, 8, NULL);

	refuses_bad_operands(be);
	/* Moves to or from slots outside of the plane must be refused. */
	for (int i = 0; i < 6; i++) {
		struct tensor move = tensor_new(be, DT_I32, 2, 3, NULL);

		be->ops->write(be, &move, 12, bad[i], 12);
		be->ops->kv_move(be, &plane,
		                 &(struct kv_moves){ .move = &move,
		                                     .shift = &turn,
		                                     .n = 1,
		                                     .n_kv_head = 2,
		                                     .head_dim = 8,
		                                     .dims = 8,
		                                     .cap = 16 });
		must_fail(be, "a bad move");
		be->ops->drop(be, &move);
	}
	be->ops->drop(be, &plane);
	be->ops->drop(be, &turn);
	be->ops->close(be);
}

/* With NaN in keys and queries, the operations end without a crash, and the selected slots are valid. */
TEST(numbers_that_are_none)
{
	for (int l = 0; l < N_LEVELS; l++)
		for (int where = 0; where < 4; where++)
			for (int bits = 2; bits <= 16; bits *= 2) {
				enum { N = 100, DIM = 48, K = 20 };
				struct backend *be = open_level(levels[l], 2);
				struct shape s = { DIM, 2, 1, N, N };
				struct tensor plane, copy, qt, score, rows;
				float *x, *held, *q;
				int32_t *got, last = -1;

				if (!be)
					continue;
				x = random_keys(1, N, DIM);
				q = random_query(2 * DIM, 0);
				held = must_alloc(N * DIM * sizeof *held);
				for (int i = 0; i < DIM * N; i += 7 * DIM)
					x[i + i % DIM] = where == 0   ? NAN
					                 : where == 1 ? INFINITY
					                 : where == 2 ? -3e38f
					                              : x[i];
				if (where == 3)
					q[5] = NAN;
				plane = plane_new(be, DT_F32, 1, N, DIM, x, held);
				copy = sketch_new(be, &plane, &s, bits < 16 ? bits : 2, 0);
				qt = tensor_new(be, DT_F32, 1, 2 * DIM, q);
				score = tensor_new(be, DT_F32, 1, N, NULL);
				rows = tensor_new(be, DT_I32, 1, K, NULL);
				be->ops->key_scan(be, &(struct scan_args){ .out = &score,
				                                           .q = &qt,
				                                           .keys = bits < 16 ? &copy : &plane,
				                                           .n_head = 2,
				                                           .n_kv_head = 1,
				                                           .head_dim = DIM,
				                                           .cap = N,
				                                           .n_slots = N,
				                                           .bits = bits,
				                                           .scale = 1 });
				be->ops->topk(be, &(struct topk_args){ .slots = &rows,
				                                       .score = &score,
				                                       .n_kv_head = 1,
				                                       .n = N,
				                                       .k = K,
				                                       .pool = 1 });
				got = tensor_read(be, &rows);
				for (int i = 0; i < K; i++) {
					CHECK(got[i] > last && got[i] < N);
					last = got[i];
				}
				free(got);
				free(x);
				free(q);
				free(held);
				be->ops->drop(be, &plane);
				be->ops->drop(be, &copy);
				be->ops->drop(be, &qt);
				be->ops->drop(be, &score);
				be->ops->drop(be, &rows);
				finish(be);
			}
}
