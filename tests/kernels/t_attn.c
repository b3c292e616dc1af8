/* tests/kernels/t_attn.c - attention of the CPU backend at every level this machine has: over segments and lists of
 * rows, over every type of cache, and with a probe.
 *
 * Results are compared with a plain computation in double. The engine relies on equal bits, so the bits must be the
 * same for any number of threads, for any division of tokens among calls, and with or without a probe. All of this is
 * also tested for tokens of a prompt, which a level may compute in narrower arithmetic. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/common/quant.h"
#include "tests/lib/attn_ref.h"
#include "tests/lib/levels.h"

/* ---- output ---- */

static struct shape of_generated(int round)
{
	struct shape s = shape_of_few(round);

	s.prompt = 0;
	return s;
}

static struct shape of_prompt(int round)
{
	struct shape s = shape_of_few(round);

	s.prompt = 1;
	return s;
}

TEST(parts_lists_and_types_match_double)
{
	attn_matches_double(of_generated, NULL, test_rounds(128), "attention");
}

TEST(prompts_match_double)
{
	attn_matches_double(of_prompt, NULL, test_rounds(128), "attention of a prompt");
}

static struct shape of_ragged(int round)
{
	struct shape s = shape_ragged(round);

	s.prompt = round % 2;
	return s;
}

TEST(lists_of_different_lengths_match_double)
{
	attn_matches_double(of_ragged, NULL, test_rounds(128), "attention over lists of different lengths");
}

static void same_bits(int prompt)
{
	static const int32_t cuts[][6] = { { 19 }, { 1, 18 }, { 7, 1, 11 }, { 2, 3, 4, 5, 5 }, { 16, 3 } };
	static const struct shape list[] = {
		{ 9, 3, 64, 700, 19, DT_F16, 1, { 600 }, { 0 }, 2, .window = 0 },
		{ 9, 3, 64, 700, 19, DT_Q8_0, 2, { 512, 30 }, { 1, 0 }, 2, .window = 0 },
		{ 6, 2, 32, 1600, 19, DT_BF16, 3, { 100, 513, 64 }, { 0, 1, 1 }, 2, .window = 0 },
		{ 14, 2, 40, 700, 19, DT_F32, 2, { 64, 520 }, { 1, 0 }, 2, .window = 0 },
		{ 8, 2, 128, 300, 19, DT_F16, 2, { 0, 140 }, { 0, 0 }, 2, .window = 0 },
		{ 5, 1, 20, 300, 19, DT_BF16, 1, { 130 }, { 0 }, 2, .window = 0 },
		{ 8, 2, 64, 1500, 19, DT_F16, 1, { 1400 }, { 0 }, 2, .window = 600 },
		{ 8, 4, 256, 1500, 19, DT_F16, 1, { 1300 }, { 0 }, 2, .window = 17, .softcap = 3 },
		{ 6, 2, 40, 700, 19, DT_F32, 1, { 640 }, { 0 }, 2, .window = 128 },
		{ 9, 3, 64, 700, 19, DT_Q4_0, 2, { 512, 30 }, { 1, 0 }, 2, .window = 0 },
		{ 8, 2, 96, 700, 19, DT_Q8_0, 1, { 600 }, { 0 }, 2, .window = 200, .apart = 1, .v_type = DT_Q4_0 },
		{ 8, 1, 160, 400, 19, DT_Q4_0, 1, { 300 }, { 0 }, 2, .softcap = 3, .apart = 1, .v_type = DT_F16 },
		{ 9, 3, 64, 700, 19, DT_F16, 2, { 600, 30 }, { 1, 0 }, 2, .ragged = 1 },
		{ 6, 2, 32, 1600, 19, DT_Q8_0, 3, { 700, 900, 64 }, { 1, 1, 0 }, 2, .ragged = 1 },
	};

	for (size_t i = 0; i < LEN(list); i++) {
		struct shape shape = list[i], *s = &shape;
		struct world w = (s->prompt = prompt, world_new(s));
		size_t width = (size_t)(s->n_head * s->dim);
		float weight[19];

		for (int t = 0; t < 19; t++)
			weight[t] = t % 5 == 3 ? 0 : test_randf(0.1f, 1);
		for (int l = 0; l < N_LEVELS; l++) {
			float *all = NULL, *mass = NULL, need = 0;

			for (int threads = 1; threads <= 3; threads++)
				for (int cut = 0; cut < 5; cut++)
					for (int probed = 0; probed < 2; probed++) {
						struct backend *be = open_level(levels[l], threads);
						struct stage g;
						struct tensor sum, width_of;
						float *got, *m, b;

						if (!be)
							continue;
						g = stage_new(be, &w);
						sum = tensor_new(be, DT_F32, s->n_kv, w.cols, NULL);
						width_of = tensor_new(be, DT_F32, 1, 1, NULL);
						got = must_alloc((size_t)s->n * width * 4);
						m = must_alloc((size_t)(s->n_kv * w.cols) * 4);
						for (int32_t t = 0, k = 0; t < s->n; t += cuts[cut][k++]) {
							struct attn_probe p = { .mass = &sum,
								                .weight = weight + t,
								                .reduce = REDUCE_MEAN,
								                .spread = &width_of,
								                .share = 0.9f };

							stage_run(&g, t, t + cuts[cut][k], probed ? &p : NULL,
							          got + (size_t)t * width);
						}
						be->ops->read(be, &sum, 0, m, (size_t)(s->n_kv * w.cols) * 4);
						be->ops->read(be, &width_of, 0, &b, 4);
						be->ops->drop(be, &sum);
						be->ops->drop(be, &width_of);
						stage_free(&g);
						finish(be);
						if (!all) {
							all = got;
							free(m);
							continue;
						}
						CHECK_MSG(!memcmp(got, all, (size_t)s->n * width * 4),
						          "%s, %d threads, cut %d, probe %d: %s", levels[l], threads,
						          cut, probed, describe(s));
						free(got);
						if (!probed || mass) {
							CHECK_MSG(!probed || (!memcmp(m, mass,
							                              (size_t)(s->n_kv * w.cols) * 4) &&
							                      b == need),
							          "mass: %s, %d threads, cut %d: %s", levels[l],
							          threads, cut, describe(s));
							free(m);
						} else {
							mass = m;
							need = b;
							CHECK(need > 0);
						}
					}
			free(all);
			free(mass);
		}
		world_free(&w);
	}
}

TEST(same_bits_for_threads_cuts_and_probes)
{
	same_bits(0);
}

TEST(prompts_have_the_same_bits_too)
{
	same_bits(1);
}

/* Compute a prompt that is longer than any tile, in calls of several sizes, into an empty cache. */
TEST(long_prompts_have_the_same_bits)
{
	static const int32_t steps[] = { 1100, 512, 300, 64, 7 };
	const struct shape list[] = {
		{ 9, 3, 64, 1200, 1100, DT_F16, 1, { 1100 }, { 0 }, 1, .prompt = 1 },
		{ 4, 1, 96, 1200, 1100, DT_Q8_0, 1, { 1100 }, { 0 }, 1, .prompt = 1, .window = 200 },
	};

	for (size_t i = 0; i < LEN(list); i++) {
		const struct shape *s = &list[i];
		struct world w = world_new(s);
		size_t width = (size_t)(s->n_head * s->dim), all = (size_t)s->n * width;
		float *want = must_alloc(all * 4), *got = must_alloc(all * 4);

		for (int l = 0; l < N_LEVELS; l++)
			for (int k = 0; k < 5; k++) {
				struct backend *be = open_level(levels[l], 1 + k % 3);
				struct stage g;

				/* skip plain C: it is slow, and it computes prompt tokens in the same way as other
				 * tokens */
				if (!be || !l) {
					if (be)
						finish(be);
					continue;
				}
				g = stage_new(be, &w);
				for (int32_t t = 0; t < s->n; t += steps[k])
					stage_run(&g, t, t + steps[k] < s->n ? t + steps[k] : s->n, NULL,
					          got + (size_t)t * width);
				if (!k)
					memcpy(want, got, all * 4);
				CHECK_MSG(!memcmp(want, got, all * 4), "%s, calls of %d: %s", levels[l], (int)steps[k],
				          describe(s));
				stage_free(&g);
				finish(be);
			}
		world_free(&w);
		free(want);
		free(got);
	}
}

/* A token must read neither keys of later tokens nor rows that are not listed, not even to multiply them by 0, because
 * 0 * NaN is NaN. */
TEST(never_reads_what_is_not_seen)
{
	struct shape s = { 3, 1, 64, 600, 7, DT_F32, 2, { 70, 509 }, { 1, 0 }, 2, .window = 0 };
	size_t width = 192;

	for (int f = 0; f < 3; f++) {
		struct world w;
		float *ref, *got;

		s.type = f ? DT_F16 : DT_F32;
		s.prompt = f == 2;
		w = world_new(&s);
		ref = must_alloc(7 * width * 4);
		got = must_alloc(7 * width * 4);
		w.row0[1] = 80;
		for (int i = 0; i < 73; i++)
			w.rows[0][i] = i;
		for (int l = 0; l < N_LEVELS; l++)
			for (int32_t seen = 1; seen <= s.n; seen++) {
				struct backend *be = open_level(levels[l], 2);
				struct stage g;
				size_t size = f ? 2 : 4, row = 64 * size;

				if (!be)
					continue;
				g = stage_new(be, &w);
				stage_run(&g, 0, s.n, NULL, ref);
				for (int32_t r = 70; r < s.cap; r++) {
					uint8_t bad[64 * 4];

					if (r >= 80 && r < 80 + 509 - (7 - seen))
						continue;
					memset(bad, 0xff, sizeof bad); /* NaN in either type */
					be->ops->write(be, &g.k, (size_t)r * row, bad, row);
					be->ops->write(be, &g.v, (size_t)r * row, bad, row);
				}
				stage_run(&g, 0, s.n, NULL, got);
				CHECK_MSG(!memcmp(got, ref, (size_t)seen * width * 4), "%s, %d tokens", levels[l],
				          (int)seen);
				if (seen < s.n)
					CHECK(isnan(got[(size_t)seen * width]));
				stage_free(&g);
				finish(be);
			}
		world_free(&w);
		free(ref);
		free(got);
	}
}

/* ---- special values ---- */

TEST(carries_not_a_number)
{
	struct shape s = { 3, 1, 64, 600, 2, DT_F32, 1, { 552 }, { 0 }, 2, .window = 0 };
	static const int at[] = { 0, 520 * 64 + 9, 10 * 64, 3 * 64 };

	for (int l = 0; l < N_LEVELS; l++)
		for (int round = 0; round < 16; round++) {
			struct backend *be = open_level(levels[l], 2);
			struct world w;
			struct stage g;
			int where = round % 4;
			/* infinity is used only in the cases where the weight of the key is not 0 */
			float got[2 * 192], bad = round & 8 && where == 3 ? INFINITY : NAN;
			void *plane;

			if (!be)
				continue;
			s.type = round & 4 ? DT_F16 : DT_F32;
			s.prompt = s.type == DT_F16;
			w = world_new(&s);
			w.row0[0] = 0;
			plane = where == 3 ? w.vb : w.kb;
			if (!where)
				w.q[0][3] = bad;
			else
				CHECK(!dtype_from_f32(s.type,
				                      (char *)plane +
				                              (size_t)at[where] * (size_t)dtype_bytes(s.type, 1),
				                      &bad, 1));
			g = stage_new(be, &w);
			stage_run(&g, 0, 2, NULL, got);
			CHECK_MSG(!isfinite(got[0]), "%s place %d, %s", levels[l], where, describe(&s));
			stage_free(&g);
			finish(be);
			world_free(&w);
		}
}

/* Scores that are far apart must not overflow, and the largest score must not get lost. */
TEST(survives_extreme_scores)
{
	struct shape s = { 1, 1, 64, 1100, 1, DT_F32, 1, { 1051 }, { 0 }, 2, .window = 0 };
	const float large = 1000;

	for (int round = 0; round < 2 * N_LEVELS; round++) {
		int l = round / 2;
		struct backend *be = open_level(levels[l], 2);
		struct world w;
		struct stage g;
		float got[64];

		if (!be)
			continue;
		s.prompt = round % 2;
		s.type = s.prompt ? DT_F16 : DT_F32;
		w = world_new(&s);
		w.row0[0] = 0;
		for (int j = 0; j < 64; j++) {
			w.q[0][j] = 100;
			CHECK(!dtype_from_f32(s.type,
			                      (char *)w.kb + (size_t)(700 * 64 + j) * (size_t)dtype_bytes(s.type, 1),
			                      &large, 1));
		}
		g = stage_new(be, &w);
		stage_run(&g, 0, 1, NULL, got);
		for (int j = 0; j < 64; j++)
			CHECK_MSG(fabsf(got[j] - w.v[700 * 64 + j]) <= (s.prompt ? 1.0f / 8192 : 0),
			          "%s: %g, expected %g", levels[l], got[j], w.v[700 * 64 + j]);
		stage_free(&g);
		finish(be);
		world_free(&w);
	}
}

/* ---- probe ---- */

TEST(probe_matches_double)
{
	static const struct {
		enum reduce reduce;
		int whole;
	} kinds[] = {
		{ REDUCE_MAX, 0 }, { REDUCE_MEAN, 0 }, { REDUCE_MEDIAN, 0 },
		{ REDUCE_MAX, 1 }, { REDUCE_MEAN, 1 }, { REDUCE_MEDIAN, 1 },
	};

	for (int round = 0; round < test_rounds(48); round++) {
		struct shape s = (round % 6 == 4 ? shape_ragged : shape_of_few)(round * 5 + 1);
		struct world w = world_new(&s);
		size_t all = (size_t)s.n * (size_t)(s.n_head * s.dim), per = (size_t)s.n_head * (size_t)w.cols;
		double *out = must_alloc(all * sizeof *out), *p = must_alloc((size_t)s.n * per * sizeof *p),
		       holding = 0;
		int whole = kinds[round % 6].whole, rows = whole ? 1 : s.n_kv, heads = s.n_head / rows;
		int32_t skip = round % 4 == 1                  ? below(w.cols - s.n + 1)
		               : s.n_seg > 1 && round % 4 == 3 ? s.n_rows[0]
		                                               : 0;
		int32_t cols = w.cols - skip;
		int largest = round % 5 == 2; /* 1 = the probe keeps the largest mass instead of the sum */
		int elsewhere = 0;            /* 1 = the sums of earlier calls are in a separate tensor */
		float *got = must_alloc(all * 4), *weight = must_alloc((size_t)s.n * 4), *m,
		      share = round % 3 ? 0.9f : 0.5f;
		size_t stride = (size_t)cols + 5, cells = stride * (size_t)(rows + 3);

		world_double(&w, out, p);
		m = must_alloc(cells * 4);
		for (int32_t i = 0; i < s.n; i++) {
			weight[i] = below(3) ? test_randf(0.1f, 2) : 0;
			elsewhere |= weight[i] != 0 && round % 3 == 1 && !largest;
			for (int32_t h = 0; h < s.n_head && weight[i] != 0; h++)
				holding += columns_holding(p + (size_t)i * per + (size_t)h * (size_t)w.cols,
				                           w.cols - (s.n - 1 - i), share);
		}
		for (int l = 0; l < N_LEVELS; l++) {
			struct backend *be = open_level(levels[l], 2);
			struct stage g;
			struct tensor sum, from, need;
			struct attn_probe probe;
			float width[3] = { GUARD, 1000, GUARD };
			double worst = 0;

			if (!be)
				continue;
			g = stage_new(be, &w);
			for (size_t i = 0; i < cells; i++)
				m[i] = 0.25f;
			from = tensor_new(be, DT_F32, rows + 3, (int32_t)stride, m);
			for (size_t i = 0; i < cells && elsewhere; i++)
				m[i] = 7;
			sum = tensor_new(be, DT_F32, rows + 3, (int32_t)stride, m);
			need = tensor_new(be, DT_F32, 1, 3, width);
			probe = (struct attn_probe){
				.mass = round % 8 == 7 ? NULL : &sum,
				.from = elsewhere ? &from : NULL,
				.mass_row = 2,
				.weight = weight,
				.reduce = kinds[round % 6].reduce,
				.largest = largest,
				.whole_layer = whole,
				.spread = round % 4 == 2 ? NULL : &need,
				.spread_col = 1,
				.share = share,
				.skip = skip,
			};
			stage_run(&g, 0, s.n, &probe, got);
			CHECK_MSG(nmse(got, out, all) < 1e-11, "%s %s", levels[l], describe(&s));
			be->ops->read(be, &sum, 0, m, cells * 4);
			be->ops->read(be, &need, 0, width, 12);
			for (size_t i = 0; i < cells; i++) {
				int32_t r = (int32_t)(i / stride) - 2, c = (int32_t)(i % stride);
				int written = probe.mass && r >= 0 && r < rows && c < cols;
				double before = elsewhere && !written          ? 7
				                : elsewhere && c >= cols - s.n ? 0
				                                               : 0.25,
				       x = before;

				if (written)
					for (int32_t t = 0; t < s.n; t++) {
						double y = weight[t] *
						           reduced(p + (size_t)t * per +
						                           (size_t)(r * heads) * (size_t)w.cols +
						                           (size_t)(skip + c),
						                   (size_t)w.cols, heads, probe.reduce);

						x = !largest ? x + y : fmax(x, y);
					}
				worst = fmax(worst, fabs(m[i] - x));
				if (x == before)
					CHECK_MSG(m[i] == (float)before, "%s wrote row %d column %d", levels[l], (int)r,
					          (int)c);
			}
			CHECK_MSG(worst < 4e-6, "%s mass off by %g: round %d, %s", levels[l], worst, round,
			          describe(&s));
			CHECK(width[0] == GUARD && width[2] == GUARD);
			if (probe.spread)
				CHECK_MSG(fabs(width[1] - 1000 - holding) <= 0.02 * holding + 1e-9,
				          "%s need %g, expected %g: %s", levels[l], width[1] - 1000, holding,
				          describe(&s));
			else
				CHECK(width[1] == 1000);
			be->ops->drop(be, &sum);
			be->ops->drop(be, &from);
			be->ops->drop(be, &need);
			stage_free(&g);
			finish(be);
		}
		world_free(&w);
		free(out);
		free(p);
		free(got);
		free(weight);
		free(m);
	}
}

/* If all scores are equal, the number of rows whose attention sums to a given share is known exactly. */
TEST(need_of_even_attention)
{
	struct shape s = { 2, 1, 32, 1000, 1, DT_F16, 1, { 1000 }, { 0 }, 0, .window = 0 };
	static const float share[] = { 0.001f, 0.25f, 0.5f, 0.9f, 0.999f, 1 };

	for (int l = 0; l < N_LEVELS; l++)
		for (int i = 0; i < 6; i++) {
			struct backend *be = open_level(levels[l], 1);
			struct world w;
			struct stage g;
			struct tensor need;
			float got[64], x, one = 1;

			if (!be)
				continue;
			w = world_new(&s);
			g = stage_new(be, &w);
			need = tensor_new(be, DT_F32, 1, 1, NULL);
			stage_run(&g, 0, 1, &(struct attn_probe){ .weight = &one, .spread = &need, .share = share[i] },
			          got);
			be->ops->read(be, &need, 0, &x, 4);
			CHECK_MSG(fabsf(x - 2000 * share[i]) <= 2, "%s: %g rows hold %g", levels[l], x / 2, share[i]);
			be->ops->drop(be, &need);
			stage_free(&g);
			finish(be);
			world_free(&w);
		}
}

/* ---- caches ---- */

TEST(put_every_type)
{
	enum { HEADS = 3, CAP = 40, ROW0 = 5, N = 17 };
	static const int32_t dims[] = { 64, 32, 96, 20, 7 };

	for (int l = 0; l < N_LEVELS; l++)
		for (int t = 0; t < N_TYPES; t++)
			for (int d = 0; d < 5; d++) {
				struct backend *be = open_level(levels[l], 2);
				int32_t dim = dims[d];
				size_t row = (size_t)dtype_bytes(attn_types[t], (uint64_t)dim),
				       bytes = HEADS * CAP * row;
				float *x;
				uint8_t *ref, *got;
				struct tensor tx, plane;

				if (!be)
					continue;
				if (dim % dtype_info(attn_types[t])->block || kv_transformed(attn_types[t])) {
					finish(be);
					continue;
				}
				x = must_alloc((size_t)(N * HEADS * dim) * 4);
				ref = must_alloc(bytes);
				got = must_alloc(bytes);
				for (int i = 0; i < N * HEADS * dim; i++)
					x[i] = i % 61 == 7 ? 0 : test_randf(-4, 4) * (i % 13 ? 1 : 100);
				for (int i = 0; i < N; i++)
					for (int h = 0; h < HEADS; h++)
						dtype_from_f32(attn_types[t], ref + (size_t)(h * CAP + ROW0 + i) * row,
						               x + (i * HEADS + h) * dim, dim);
				tx = tensor_new(be, DT_F32, N, HEADS * dim, x);
				plane = tensor_new(be, attn_types[t], HEADS * CAP, dim, NULL);
				be->ops->kv_put(be, &plane, &tx, HEADS, ROW0, N);
				be->ops->read(be, &plane, 0, got, bytes);
				CHECK_MSG(!memcmp(got, ref, bytes), "%s %s heads of %d", levels[l],
				          dtype_info(attn_types[t])->name, (int)dim);
				be->ops->drop(be, &tx);
				be->ops->drop(be, &plane);
				finish(be);
				free(x);
				free(ref);
				free(got);
			}
}

/* Keys and values of q4_0 are stored transformed, with the bits of plain C at every level. What is read back differs by
 * the rounding to four bits. */
TEST(put_transforms_rows_of_q4_0)
{
	enum { CAP = 20, ROW0 = 3, N = 9 };
	static const int32_t dims[] = { 64, 32, 96, 160, 256 };

	for (int d = 0; d < 5; d++) {
		int32_t dim = dims[d];
		size_t row = (size_t)dtype_bytes(DT_Q4_0, (uint64_t)dim), bytes = CAP * row;
		float *x = must_alloc((size_t)(N * dim) * 4), *y = must_alloc((size_t)dim * 4);
		uint8_t *first = NULL;

		for (int i = 0; i < N * dim; i++)
			x[i] = test_randf(-4, 4) * (i % 13 ? 1 : 10);
		for (int l = 0; l < N_LEVELS; l++) {
			struct backend *be = open_level(levels[l], 2);
			struct tensor tx, plane;
			uint8_t *got;

			if (!be)
				continue;
			got = must_alloc(bytes);
			tx = tensor_new(be, DT_F32, N, dim, x);
			plane = tensor_new(be, DT_Q4_0, CAP, dim, NULL);
			be->ops->kv_put(be, &plane, &tx, 1, ROW0, N);
			be->ops->read(be, &plane, 0, got, bytes);
			for (int i = 0; i < N; i++) {
				double err = 0, size = 0;

				dtype_to_f32(DT_Q4_0, y, got + (size_t)(ROW0 + i) * row, dim);
				hadamard(y, dim);
				for (int32_t j = 0; j < dim; j++) {
					err += pow((double)y[j] - (double)x[i * dim + j], 2);
					size += pow((double)x[i * dim + j], 2);
				}
				CHECK_MSG(err < 0.015 * size, "%s, heads of %d: row %d is off by %g", levels[l],
				          (int)dim, i, err / size);
			}
			CHECK_MSG(!first || !memcmp(got, first, bytes), "%s, heads of %d: other bits", levels[l],
			          (int)dim);
			first = first ? first : got;
			if (first != got)
				free(got);
			be->ops->drop(be, &tx);
			be->ops->drop(be, &plane);
			finish(be);
		}
		free(first);
		free(x);
		free(y);
	}
}

TEST(put_keeps_what_is_not_finite)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY, 1e30f };

	for (int l = 0; l < N_LEVELS; l++)
		for (int b = 0; b < 4; b++) {
			struct backend *be = open_level(levels[l], 1);
			float x[64] = { 0 }, y[64];
			struct tensor tx, plane;
			uint8_t stored[68];

			if (!be)
				continue;
			x[40] = bad[b];
			tx = tensor_new(be, DT_F32, 1, 64, x);
			plane = tensor_new(be, DT_Q8_0, 1, 64, NULL);
			be->ops->kv_put(be, &plane, &tx, 1, 0, 1);
			be->ops->read(be, &plane, 0, stored, sizeof stored);
			dtype_to_f32(DT_Q8_0, y, stored, 64);
			CHECK_MSG(y[0] == 0 && isnan(y[40]), "%s: %g became %g", levels[l], bad[b], y[40]);
			be->ops->drop(be, &tx);
			be->ops->drop(be, &plane);
			finish(be);
		}
}

/* ---- refusals ---- */

static void refused(struct backend *be, const char *part)
{
	int rc = be->ops->sync(be);

	CHECK_MSG(rc < 0 && strstr(be->err, part), "'%s' is not in: %s", part, rc < 0 ? be->err : "(no error)");
}

TEST(refuses_what_does_not_fit)
{
	struct shape s = { 4, 2, 64, 100, 2, DT_F16, 2, { 20, 30 }, { 1, 0 }, 1, .window = 0 };
	static const int32_t wrong[] = { 100, -1, INT32_MAX, INT32_MIN };
	struct backend *be = open_level("c", 1);
	struct world w = world_new(&s);
	struct stage g = stage_new(be, &w);
	float got[2 * 256], weight[2] = { 1, 1 };
	struct tensor sum = tensor_new(be, DT_F32, 2, 50, NULL), x = tensor_new(be, DT_F32, 1, 40, NULL), odd;
	struct tensor other = tensor_new(be, DT_F32, 2, 51, NULL);
	struct attn_probe p = { .mass = &sum, .weight = weight };

	stage_run(&g, 0, 2, &p, got);
	CHECK(be->ops->sync(be) == 0);
	/* Columns of the list after its last row number may contain anything. */
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 6; k++) {
			int32_t at = (int32_t[]){ 0, 19, 20, 23, 42, 45 }[k];

			be->ops->write(be, &g.rows[0], (size_t)at * 4, &wrong[i], 4);
			stage_run(&g, 0, 2, NULL, got);
			if (at % 23 < 20)
				refused(be, "is not within a cache of 100");
			be->ops->write(be, &g.rows[0], (size_t)at * 4, &w.rows[0][at], 4);
			CHECK(be->ops->sync(be) == 0);
		}
	w.s.ragged = 1;
	for (int i = 0; i < 2; i++) {
		be->ops->write(be, &g.lengths[0], 4, (int32_t[]){ i ? 21 : -1 }, 4);
		stage_run(&g, 0, 2, NULL, got);
		refused(be, "is not within a cache of 100");
	}
	w.s.ragged = 0;
	p.largest = 1;
	p.from = &other;
	stage_run(&g, 0, 2, &p, got);
	refused(be, "sums of two shapes");
	p.largest = 0;
	p.from = NULL;
	p.mass_row = 1;
	stage_run(&g, 0, 2, &p, got);
	refused(be, "sum of the wrong shape");
	p.mass_row = 0;
	p.skip = 51;
	stage_run(&g, 0, 2, &p, got);
	refused(be, "skips 51 of 50 slots");
	p.skip = 20;
	stage_run(&g, 0, 2, &p, got);
	CHECK(be->ops->sync(be) == 0);
	p.from = &sum;
	stage_run(&g, 0, 2, &p, got);
	refused(be, "sums of two shapes");
	p.from = &other;
	stage_run(&g, 0, 2, &p, got);
	refused(be, "sums of two shapes");
	p.from = NULL;
	p.spread = &sum;
	p.spread_col = 50;
	stage_run(&g, 0, 2, &p, got);
	refused(be, "no place");
	w.row0[1] = 71;
	stage_run(&g, 0, 2, NULL, got);
	refused(be, "wrong shape");
	/* A block of q8_0 is 32 values. */
	odd = (struct tensor){ .type = DT_Q8_0, .rows = 4, .cols = 40 };
	CHECK(be->ops->alloc(be, &odd) < 0);
	refused(be, "cannot allocate");
	be->ops->drop(be, &sum);
	be->ops->drop(be, &other);
	be->ops->drop(be, &x);
	stage_free(&g);
	finish(be);
	world_free(&w);
}

TEST(lists_and_bytes_are_no_weights)
{
	static const enum dtype t[] = { DT_I32, DT_U8 };
	struct backend *be = open_level("c", 1);
	const char *name;

	for (int i = 0; i < 2; i++) {
		uint8_t in[40], out[40] = { 0 };
		struct tensor x = tensor_new(be, t[i], 1, i ? 40 : 10, NULL),
			      weight = { .type = t[i], .rows = 1, .cols = 8 };

		for (int j = 0; j < 40; j++)
			in[j] = (uint8_t)(j * 7);
		be->ops->write(be, &x, 0, in, 40);
		be->ops->read(be, &x, 0, out, 40);
		CHECK(!memcmp(in, out, 40));
		be->ops->drop(be, &x);
		CHECK(be->ops->load_weight(be, &weight, in, 0) < 0);
		refused(be, "cannot take a weight");
		CHECK_STR(dtype_info(t[i])->name, i ? "U8" : "I32");
	}
	CHECK(dtype_from_ggml(26, &name) == -1 && dtype_from_ggml(UINT32_MAX, &name) == -1);
	finish(be);
}
