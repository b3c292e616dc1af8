/* tests/cuda/t_cuda_attn.c - attention of the CUDA backend, on the emulated device (tests/cuda/emulator/host.cuh)
 * or on a GPU.
 *
 * Results are compared with attention in double (attn_ref.h). Each code path has an upper bound for the normalised mean
 * squared error (NMSE):
 *
 *     f32 planes, odd head_dims, and few queries over f16      1e-10    (f32 arithmetic, or as good)
 *     few queries over bf16, many over bf16                    1e-8     (16 bits of queries and probabilities)
 *     q8_0, many queries over f16                              1e-6     (11 bits of either)
 *
 * Any order of blocks, warps and lanes must give the same bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulator/gpu_host.h"
#include "kernels/common/quant.h"
#include "tests/lib/attn_ref.h"
#include "tests/cuda/cuda_test.h"

/* These functions are weak, because they are missing if a GPU is tested. */
void gpu_host_order(unsigned) __attribute__((weak));
void gpu_host_stats(struct gpu_host_counts *) __attribute__((weak));

/* maximum number of queries of a KV head for which the code path for few queries is taken */
enum { FEW = 32 };

/* Return n, or with WEIR_SOAK=N the N-fold of n, at most 20 n: the number of shapes to test. */
static int rounds(int n)
{
	const char *soak = getenv("WEIR_SOAK");
	long factor = soak ? strtol(soak, NULL, 10) : 1;

	return n * (int)(factor < 1 ? 1 : MIN(20, factor));
}

static double bound_of(const struct shape *s, int probed)
{
	int fast = s->dim == 64 || s->dim == 80 || s->dim == 96 || s->dim == 128 || s->dim == 256;
	int few = s->n * (s->n_head / s->n_kv) <= FEW;

	if (s->type == DT_F32 || !fast)
		return 1e-10;
	return s->type == DT_BF16 ? 1e-8 : s->type == DT_Q8_0 ? 1e-6 : few || probed ? 1e-10 : 1e-6;
}

static struct shape shape_small(int round)
{
	static const int32_t dims[] = { 64, 128, 80, 96, 256, 64, 40, 20, 300, 128 };
	static const int32_t groups[] = { 3, 1, 4, 7, 8, 5, 16, 2 }, tokens[] = { 1, 1, 2, 5, 9, 33, 70 };
	static const int32_t lengths[] = { 1, 15, 16, 17, 63, 64, 65, 129 };
	struct shape s = { .type = attn_types[round % 4] /* a GPU has no q4_0 */, .dim = dims[below(10)] };

	if (s.type == DT_Q8_0 && s.dim % 32)
		s.dim = 64;
	s.n_kv = 1 + below(2);
	s.n_head = s.n_kv * groups[below(8)];
	s.n = tokens[below(7)];
	if (s.n > 9 && s.n_head / s.n_kv > 4)
		s.n_head = s.n_kv * 3;
	s.n_seg = 1 + below(3);
	s.spread = below(2) ? 2 : 0.3f;
	for (int p = 0; p < s.n_seg; p++) {
		s.n_rows[p] = below(2) ? lengths[below(8)] : below(100);
		s.list[p] = below(2);
	}
	if (round % 6 == 0)
		s.n_rows[0] = 400 + below(200);
	if (s.n_rows[s.n_seg - 1] < s.n)
		s.n_rows[s.n_seg - 1] = s.n + below(30);
	s.cap = 700;
	return s;
}

/* Return a random shape with features that few models have: a sliding window, a soft cap, sinks. */
static struct shape shape_few(int round)
{
	struct shape s = shape_small(round);

	if (round % 3 != 2) {
		for (int p = 0; p < s.n_seg; p++)
			s.list[p] = 0;
		s.window = 1 + below(round % 2 ? 400 : 40);
	}
	if (round % 3)
		s.softcap = test_randf(0.5f, 50);
	s.sinks = round % 2;
	s.biased = round % 3 == 2;
	return s;
}

/* ---- output ---- */

TEST(parts_lists_and_types_match_double)
{
	double worst[3] = { 0 };

	for (int round = 0; round < rounds(30) + rounds(36); round++) {
		struct shape s = round < rounds(30) ? shape_small(round) : shape_few(round - rounds(30));
		struct world w = world_new(&s);
		size_t all = (size_t)s.n * (size_t)(s.n_head * s.dim);
		double *ref = must_alloc(all * sizeof *ref),
		       *p = must_alloc((size_t)(s.n * s.n_head) * (size_t)w.cols * sizeof *p);
		double bound = bound_of(&s, 0), e;
		float *got = must_alloc(all * 4);
		struct backend *be = open_cuda();
		struct stage g;

		w.bidirectional = !s.window && round % 2;
		g = stage_new(be, &w);
		world_double(&w, ref, p);
		stage_run(&g, 0, s.n, NULL, got);
		e = nmse(got, ref, all);
		CHECK_MSG(e < bound, "%s: nmse %g", describe(&s), e);
		worst[bound < 1e-9   ? 0
		      : bound < 1e-7 ? 1
		                     : 2] = fmax(worst[bound < 1e-9   ? 0
		                                       : bound < 1e-7 ? 1
		                                                      : 2],
		                                 e);
		stage_free(&g);
		finish(be);
		world_free(&w);
		free(ref);
		free(p);
		free(got);
	}
	test_note("attention, worst nmse: f32 or as good %.1e, bf16 %.1e, f16 %.1e", worst[0], worst[1], worst[2]);
}

/* Shapes with more segments than one launch takes, some of them empty; with a group of more than FEW heads; with a
 * token that sees a single row. */
TEST(odd_shapes_match_double)
{
	/* clang-format off */
	static const struct shape list[] = {
		{ 3, 1, 64, 300, 1, DT_F16, 16, { 5, 0, 17, 40, 3, 64, 0, 0, 9, 1, 30, 2, 2, 55, 4, 8 }, { 0, 1, 1, 0, 0, 1 }, 2, .window = 0 },
		{ 40, 1, 64, 300, 1, DT_F16, 2, { 200, 60 }, { 1, 0 }, 2, .window = 0 },
		{ 1, 1, 64, 20, 1, DT_F16, 1, { 1 }, { 0 }, 2, .window = 0 },
		{ 2, 2, 1, 20, 3, DT_F32, 1, { 20 }, { 0 }, 2, .window = 0 },
		{ 6, 2, 560, 90, 3, DT_F32, 2, { 60, 20 }, { 1, 0 }, 2, .window = 0 },
		{ 4, 1, 128, 600, 12, DT_F16, 1, { 600 }, { 0 }, 2, .window = 0 },
		{ 2, 1, 64, 2000, 1, DT_F16, 2, { 1500, 300 }, { 0, 0 }, 2, .window = 0 },
		{ 2, 1, 64, 2000, 20, DT_F16, 2, { 1500, 300 }, { 0, 0 }, 2, .window = 0 },
		{ 2, 1, 32, 2000, 2, DT_Q8_0, 2, { 900, 300 }, { 1, 0 }, 2, .window = 0 },
	};
	/* clang-format on */

	for (size_t i = 0; i < LEN(list); i++) {
		const struct shape *s = &list[i];
		struct world w = world_new(s);
		size_t all = (size_t)s->n * (size_t)(s->n_head * s->dim);
		double *ref = must_alloc(all * sizeof *ref),
		       *p = must_alloc((size_t)(s->n * s->n_head) * (size_t)w.cols * sizeof *p), e;
		float *got = must_alloc(all * 4);
		struct backend *be = open_cuda();
		struct stage g = stage_new(be, &w);

		world_double(&w, ref, p);
		stage_run(&g, 0, s->n, NULL, got);
		e = nmse(got, ref, all);
		CHECK_MSG(e < bound_of(s, 0), "%s: nmse %g", describe(s), e);
		stage_free(&g);
		finish(be);
		world_free(&w);
		free(ref);
		free(p);
		free(got);
	}
}

static const struct shape steady[] = {
	{ 9, 3, 64, 700, 1, DT_F16, 2, { 512, 30 }, { 1, 0 }, 2, .window = 0 },
	{ 6, 2, 128, 700, 3, DT_BF16, 3, { 100, 213, 64 }, { 0, 1, 1 }, 2, .window = 0 },
	{ 6, 1, 64, 700, 19, DT_F16, 2, { 400, 230 }, { 1, 0 }, 2, .window = 0 },
	{ 2, 2, 40, 700, 19, DT_F32, 2, { 64, 320 }, { 1, 0 }, 2, .window = 0 },
	{ 2, 1, 64, 700, 18, DT_Q8_0, 1, { 600 }, { 0 }, 2, .window = 0 },
};
enum { N_STEADY = LEN(steady) };

/* Neither the order of blocks nor the replay of steps changes the bits. Counters of one launch do not affect the next
 * launch. */
TEST(same_bits_every_time)
{
	for (int i = 0; i < N_STEADY; i++) {
		const struct shape *s = &steady[i];
		struct world w = world_new(s);
		size_t all = (size_t)s->n * (size_t)(s->n_head * s->dim), cells = (size_t)(s->n_kv * w.cols);
		float *want = NULL, *mass = NULL, need = 0, weight[19];

		for (int t = 0; t < 19; t++)
			weight[t] = t % 5 == 3 ? 0 : test_randf(0.1f, 1);
		for (unsigned order = 0; order < 8; order += 4) {
			struct backend *be;
			struct stage g;

			if (gpu_host_order)
				gpu_host_order(order);
			be = open_cuda();
			g = stage_new(be, &w);
			for (int again = 0; again < 2; again++) {
				struct tensor sum = tensor_new(be, DT_F32, s->n_kv, w.cols, NULL),
					      width = tensor_new(be, DT_F32, 1, 1, NULL);
				struct attn_probe p = { .mass = &sum,
					                .weight = weight,
					                .reduce = REDUCE_MEAN,
					                .spread = &width,
					                .share = 0.9f };
				float *got = must_alloc(all * 4), *m = must_alloc(cells * 4), b;

				stage_run(&g, 0, s->n, again || s->n > 9 ? &p : NULL, got);
				if (!again && s->n <= 9)
					stage_run(&g, 0, s->n, &p, got);
				be->ops->read(be, &sum, 0, m, cells * 4);
				be->ops->read(be, &width, 0, &b, 4);
				if (!want) {
					want = got;
					mass = m;
					need = b;
					CHECK(need > 0);
				} else {
					CHECK_MSG(!memcmp(got, want, all * 4) && !memcmp(m, mass, cells * 4) &&
					                  b == need,
					          "order %u, run %d: %s", order, again, describe(s));
					free(got);
					free(m);
				}
				be->ops->drop(be, &sum);
				be->ops->drop(be, &width);
			}
			stage_free(&g);
			finish(be);
		}
		if (gpu_host_order)
			gpu_host_order(2);
		free(want);
		free(mass);
		world_free(&w);
	}
}

/* ---- special values ---- */

/* A token must read neither rows of later tokens nor rows that are not listed, not even to multiply them by 0, because
 * 0 * NaN is NaN. */
TEST(never_reads_what_is_not_seen)
{
	static const struct {
		int32_t n, dim;
		enum dtype type;
	} cases[] = {
		{ 7, 64, DT_F32 }, { 7, 64, DT_F16 }, { 40, 64, DT_F16 }, { 7, 128, DT_BF16 }, { 40, 128, DT_BF16 },
	};

	for (size_t i = 0; i < LEN(cases); i++) {
		struct shape s = { 3, 1,           cases[i].dim, 600, cases[i].n, cases[i].type,
			           2, { 70, 109 }, { 1, 0 },     2,   .window = 0 };
		size_t width = 3 * (size_t)s.dim, size = s.type == DT_F32 ? 4 : 2, row = (size_t)s.dim * size;
		struct world w = world_new(&s);
		float *ref = must_alloc((size_t)s.n * width * 4), *got = must_alloc((size_t)s.n * width * 4);

		w.row0[1] = 80;
		for (int k = 0; k < 73; k++)
			w.rows[0][k] = k;
		for (int32_t seen = 1; seen <= s.n; seen += s.n / 2) {
			struct backend *be = open_cuda();
			struct stage g = stage_new(be, &w);

			stage_run(&g, 0, s.n, NULL, ref);
			for (int32_t r = 70; r < s.cap; r++) {
				uint8_t bad[128 * 4];

				if (r >= 80 && r < 80 + 109 - (s.n - seen))
					continue;
				memset(bad, 0xff, sizeof bad); /* NaN in each type */
				be->ops->write(be, &g.k, (size_t)r * row, bad, row);
				be->ops->write(be, &g.v, (size_t)r * row, bad, row);
			}
			stage_run(&g, 0, s.n, NULL, got);
			CHECK_MSG(!memcmp(got, ref, (size_t)seen * width * 4), "%s: the first %d", describe(&s),
			          (int)seen);
			if (seen < s.n)
				CHECK(isnan(got[(size_t)seen * width]));
			/* Restore the keys, so that only the values are NaN. */
			for (int32_t r = 80 + 109 - (s.n - seen); r < 80 + 109; r++)
				be->ops->write(be, &g.k, (size_t)r * row, (uint8_t *)w.kb + (size_t)r * row, row);
			stage_run(&g, 0, s.n, NULL, got);
			CHECK_MSG(!memcmp(got, ref, (size_t)seen * width * 4), "%s: the first %d, by values",
			          describe(&s), (int)seen);
			for (size_t d = 0; seen < s.n && d < width; d++)
				CHECK(isnan(got[(size_t)seen * width + d]));
			stage_free(&g);
			finish(be);
		}
		world_free(&w);
		free(ref);
		free(got);
	}
}

TEST(carries_not_a_number)
{
	for (int kind = 0; kind < 3; kind++)
		for (int where = 0; where < 4; where++) {
			struct shape s = { 3, 1,       64,    600, kind == 2 ? 20 : 2, kind ? DT_F16 : DT_F32,
				           1, { 552 }, { 0 }, 2,   .window = 0 };
			struct backend *be = open_cuda();
			struct world w = world_new(&s);
			struct stage g;
			uint32_t nan32 = 0xffffffff;
			size_t size = kind ? 2 : 4;
			float got[20 * 192];

			w.row0[0] = 0;
			switch (where) {
			case 0: w.q[0][3] = NAN; break;
			case 1: memcpy((uint8_t *)w.kb + (520 * 64 + 9) * size, &nan32, size); break;
			case 2: memcpy((uint8_t *)w.kb + 10 * 64 * size, &nan32, size); break;
			default: memcpy((uint8_t *)w.vb + 3 * 64 * size, &nan32, size); break;
			}
			g = stage_new(be, &w);
			stage_run(&g, 0, s.n, NULL, got);
			CHECK_MSG(isnan(got[0]), "place %d of %s", where, describe(&s));
			if (where == 0)
				for (int32_t i = 64; i < s.n * 192; i++)
					CHECK_MSG(!isnan(got[i]), "a query's NaN reached another's value %d of %s",
					          (int)i, describe(&s));
			stage_free(&g);
			finish(be);
			world_free(&w);
		}
}

/* Scores that are far apart must not overflow, and the largest score must not get lost. This also holds for large
 * queries, which some code paths round to 16 bits. */
TEST(survives_extreme_scores)
{
	for (int kind = 0; kind < 4; kind++) {
		struct shape s = { 1, 1,        64,    1100, kind == 2 ? 40 : 1, kind ? DT_F16 : DT_F32,
			           1, { 1051 }, { 0 }, 2,    .window = 0 };
		struct backend *be = open_cuda();
		struct world w = world_new(&s);
		struct stage g;
		float got[40 * 64], size = kind == 3 ? 1e9f : 100;
		uint16_t big = f32_to_f16(1000);

		w.row0[0] = 0;
		for (int j = 0; j < 64; j++) {
			for (int i = 0; i < s.n; i++)
				w.q[0][i * 64 + j] = size;
			if (kind)
				((uint16_t *)w.kb)[700 * 64 + j] = big;
			else
				((float *)w.kb)[700 * 64 + j] = 1000;
		}
		g = stage_new(be, &w);
		stage_run(&g, 0, s.n, NULL, got);
		for (int j = 0; j < s.n * 64; j++)
			CHECK_MSG(got[j] == w.v[700 * 64 + j % 64], "%s: %g, expected %g", describe(&s), got[j],
			          w.v[700 * 64 + j % 64]);
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

	for (int round = 0; round < rounds(18) + rounds(18); round++) {
		struct shape s = round < rounds(18) ? shape_small(round * 5 + 1) : shape_few(round * 5 + 1);
		struct world w = world_new(&s);
		size_t all = (size_t)s.n * (size_t)(s.n_head * s.dim), per = (size_t)s.n_head * (size_t)w.cols;
		double *out = must_alloc(all * sizeof *out), *p = must_alloc((size_t)s.n * per * sizeof *p),
		       holding = 0, worst = 0;
		int whole = kinds[round % 6].whole, rows = whole ? 1 : s.n_kv, heads = s.n_head / rows;
		int32_t skip = round % 4 == 1                  ? below(w.cols - s.n + 1)
		               : s.n_seg > 1 && round % 4 == 3 ? s.n_rows[0]
		                                               : 0;
		int32_t cols = w.cols - skip;
		int elsewhere = 0; /* 1 = the sums of earlier calls are in a separate tensor */
		float *got = must_alloc(all * 4), *weight = must_alloc((size_t)s.n * 4), *m,
		      share = round % 3 ? 0.9f : 0.5f;
		float width[3] = { GUARD, 1000, GUARD };
		size_t stride = (size_t)cols + 5, cells = stride * (size_t)(rows + 3);
		struct backend *be = open_cuda();
		struct stage g = stage_new(be, &w);
		struct tensor sum, from, need;
		struct attn_probe probe;

		world_double(&w, out, p);
		m = must_alloc(cells * 4);
		for (int32_t i = 0; i < s.n; i++) {
			weight[i] = below(3) ? test_randf(0.1f, 2) : 0;
			elsewhere |= weight[i] != 0 && round % 3 == 1;
			for (int32_t h = 0; h < s.n_head && weight[i] != 0; h++)
				holding += columns_holding(p + (size_t)i * per + (size_t)h * (size_t)w.cols,
				                           w.cols - (s.n - 1 - i), share);
		}
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
			.whole_layer = whole,
			.spread = round % 4 == 2 ? NULL : &need,
			.spread_col = 1,
			.share = share,
			.skip = skip,
		};
		stage_run(&g, 0, s.n, &probe, got);
		/* The output is the same as without a probe, also for tokens of weight 0. */
		CHECK_MSG(nmse(got, out, all) < bound_of(&s, 0), "nmse %g: %s", nmse(got, out, all), describe(&s));
		be->ops->read(be, &sum, 0, m, cells * 4);
		be->ops->read(be, &need, 0, width, 12);
		for (size_t i = 0; i < cells; i++) {
			int32_t r = (int32_t)(i / stride) - 2, c = (int32_t)(i % stride);
			int written = probe.mass && r >= 0 && r < rows && c < cols;
			double before = elsewhere && !written ? 7 : elsewhere && c >= cols - s.n ? 0 : 0.25, x = before;

			if (written)
				for (int32_t t = 0; t < s.n; t++)
					x += weight[t] *
					     reduced(p + (size_t)t * per + (size_t)(r * heads) * (size_t)w.cols +
					                     (size_t)(skip + c),
					             (size_t)w.cols, heads, probe.reduce);
			worst = fmax(worst, fabs(m[i] - x));
			if (x == before)
				CHECK_MSG(m[i] == (float)before, "wrote row %d column %d", (int)r, (int)c);
		}
		/* Keys of q8_0 are rounded a second time when they are read, so the bound is larger. */
		CHECK_MSG(worst < (s.type == DT_Q8_0   ? 4e-4
		                   : s.type == DT_BF16 ? 4e-5
		                                       : 6e-6),
		          "mass off by %g: round %d, %s", worst, round, describe(&s));
		CHECK(width[0] == GUARD && width[2] == GUARD);
		if (probe.spread)
			CHECK_MSG(fabs(width[1] - 1000 - holding) <= 0.02 * holding + 1e-9, "need %g, expected %g: %s",
			          width[1] - 1000, holding, describe(&s));
		else
			CHECK(width[1] == 1000);
		be->ops->drop(be, &sum);
		be->ops->drop(be, &from);
		be->ops->drop(be, &need);
		stage_free(&g);
		finish(be);
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

	for (int i = 0; i < 6; i++) {
		struct backend *be = open_cuda();
		struct world w = world_new(&s);
		struct stage g = stage_new(be, &w);
		struct tensor need = tensor_new(be, DT_F32, 1, 1, NULL);
		float got[64], x, one = 1;

		stage_run(&g, 0, 1, &(struct attn_probe){ .weight = &one, .spread = &need, .share = share[i] }, got);
		be->ops->read(be, &need, 0, &x, 4);
		CHECK_MSG(fabsf(x - 2000 * share[i]) <= 2, "%g rows hold %g", x / 2, share[i]);
		be->ops->drop(be, &need);
		stage_free(&g);
		finish(be);
		world_free(&w);
	}
}

/* ---- conditions ---- */

/* Segments are skipped or not, depending on a flag on the device. Output and mass equal those of a call without the
 * skipped segments, and the grid is the same whether segments are skipped or not. */
TEST(parts_hang_on_flags)
{
	for (int kind = 0; kind < 3; kind++)
		for (int32_t is = 0; is < 2; is++) {
			struct shape s = { 4,
				           2,
				           kind == 1 ? 40 : 64,
				           1400,
				           1,
				           kind == 2 ? DT_F32 : DT_F16,
				           3,
				           { 1200, 70, 33 },
				           { 0, 1, 0 },
				           2,
				           .window = 0 };
			struct world w = world_new(&s);
			size_t width = (size_t)(s.n_head * s.dim);
			double *ref, *p, one_ref[256];
			float got[256], mass_got[2 * 40], one = 1, need_got;
			struct backend *be = open_cuda();
			struct stage g = stage_new(be, &w);
			struct tensor q[3], flag = tensor_new(be, DT_I32, 1, 2, (const int32_t[]){ 7, is }),
					    out = tensor_new(be, DT_F32, 1, (int32_t)width, NULL),
					    mass = tensor_new(be, DT_F32, 2, 40, NULL),
					    need = tensor_new(be, DT_F32, 1, 1, NULL);
			struct attn_segment seg[3];
			struct attn_probe probe = { .mass = &mass,
				                    .weight = &one,
				                    .reduce = REDUCE_MAX,
				                    .spread = &need,
				                    .share = 0.9f,
				                    .skip = 1200 + 70 };
			struct world left = w;
			int32_t gone = is ? 1 : 0, skipped;
			double holding = 0;

			/* Make `left`, the same data without the segment that is skipped. */
			left.s.n_seg = 2;
			for (int i = gone; i < 2; i++) {
				left.s.n_rows[i] = w.s.n_rows[i + 1];
				left.s.list[i] = w.s.list[i + 1];
				left.q[i] = w.q[i + 1];
				left.row0[i] = w.row0[i + 1];
				left.rows[i] = w.rows[i + 1];
			}
			left.cols = w.cols - w.s.n_rows[gone];
			ref = one_ref;
			p = must_alloc((size_t)(s.n_head * left.cols) * sizeof *p);
			world_double(&left, ref, p);
			for (int i = 0; i < 3; i++) {
				q[i] = tensor_new(be, DT_F32, 1, (int32_t)width, w.q[i]);
				seg[i] = (struct attn_segment){ .q = &q[i],
					                        .slots = s.list[i] ? &g.rows[i] : NULL,
					                        .slot0 = s.list[i] ? 0 : w.row0[i],
					                        .n_slots = s.n_rows[i] };
			}
			seg[0].when = (struct predicate){ &flag, 1, 1, NULL };
			seg[1].when = (struct predicate){ &flag, 1, 0, NULL };
			g.args.out = &out;
			g.args.k = &g.k;
			g.args.v = &g.v;
			g.args.seg = seg;
			g.args.n_seg = 3;
			for (int again = 0; again < 3; again++) {
				g.args.probe = again == 2 ? &probe : NULL;
				be->ops->attn(be, &g.args, 1);
				be->ops->read(be, &out, 0, got, width * 4);
				CHECK_MSG(nmse(got, ref, width) < bound_of(&s, 0), "flag %d, run %d, nmse %g: %s",
				          (int)is, again, nmse(got, ref, width), describe(&s));
			}
			be->ops->read(be, &mass, 0, mass_got, sizeof mass_got);
			be->ops->read(be, &need, 0, &need_got, sizeof need_got);
			skipped = left.cols - s.n_rows[2];
			for (int32_t h = 0; h < 2; h++)
				for (int32_t c = 0; c < 40; c++) {
					double x = c < s.n_rows[2] ? reduced(p + 2 * h * left.cols + skipped + c,
					                                     (size_t)left.cols, 2, REDUCE_MAX)
					                           : 0;

					CHECK_MSG(fabs(mass_got[h * 40 + c] - x) < 4e-6,
					          "flag %d: mass %g, expected %g", (int)is, mass_got[h * 40 + c], x);
				}
			for (int32_t h = 0; h < s.n_head; h++)
				holding += columns_holding(p + h * left.cols, left.cols, 0.9);
			CHECK_MSG(fabs(need_got - holding) <= 0.02 * holding, "flag %d: need %g, expected %g", (int)is,
			          need_got, holding);
			for (int i = 0; i < 3; i++)
				be->ops->drop(be, &q[i]);
			be->ops->drop(be, &flag);
			be->ops->drop(be, &out);
			be->ops->drop(be, &mass);
			be->ops->drop(be, &need);
			stage_free(&g);
			finish(be);
			world_free(&w);
			free(p);
		}
}

/* ---- choices ---- */

/* Attention that selects slots in the same call gives the same bits as attention after a separate selection. */
TEST(same_bits_as_selecting_first)
{
	static const struct {
		int32_t dim, group, n_kv, n, best, more, bits, pool;
	} list[] = {
		{ 64, 3, 2, 700, 90, 20, 2, 1 },
		{ 128, 4, 1, 300, 300, 0, 4, 1 },
		{ 80, 1, 2, 150, 1, 3, 8, 7 },
		{ 64, 2, 1, 40, 8, 0, 16, 1 },
	};

	for (size_t i = 0; i < LEN(list); i++) {
		int32_t n_kv = list[i].n_kv, dim = list[i].dim, heads = n_kv * list[i].group, n = list[i].n,
			more = list[i].more, cap = n + more + 5;
		struct shape s = { heads, n_kv, dim, cap, 1, DT_F16, 1, { n }, { 0 }, 2, .window = 0 };
		struct world w = world_new(&s);
		struct backend *be = open_cuda();
		struct stage g = stage_new(be, &w);
		struct tensor q = tensor_new(be, DT_F32, 1, heads * dim, w.q[0]),
			      out = tensor_new(be, DT_F32, 1, heads * dim, NULL),
			      score = tensor_new(be, DT_F32, n_kv, cap, NULL),
			      rows = tensor_new(be, DT_I32, n_kv, list[i].best, NULL), copy = { 0 };
		/* clang-format off */
		struct scan_args scan = {
			.out = &score, .q = &q, .keys = &g.k, .n_head = heads, .n_kv_head = n_kv, .head_dim = dim, .cap = cap, .n_slots = n,
			.bits = list[i].bits, .scale = 1 / sqrtf((float)dim),
		};
		/* clang-format on */
		struct topk_args topk = {
			.slots = &rows,
			.score = &score,
			.n_kv_head = n_kv,
			.n = n,
			.k = list[i].best,
			.pool = list[i].pool,
			.last = 1,
		};
		struct attn_selection choice = { &scan, &topk };
		struct attn_segment seg[2] = { { .q = &q, .slots = &rows, .n_slots = list[i].best },
			                       { .q = &q, .slot0 = n, .n_slots = more } };
		float *got[2] = { must_alloc((size_t)(heads * dim) * 4), must_alloc((size_t)(heads * dim) * 4) };

		if (list[i].bits < 16) {
			copy = tensor_new(be, DT_U8, 1,
			                  (int32_t)be->ops->key_sketch_bytes(be, n_kv, cap, dim, list[i].bits), NULL);
			be->ops->key_sketch(be, &copy, &g.k, n_kv, cap, list[i].bits, 0, n);
			scan.keys = &copy;
		}
		g.args.out = &out;
		g.args.k = &g.k;
		g.args.v = &g.v;
		g.args.seg = seg;
		g.args.n_seg = more ? 2 : 1;
		be->ops->key_scan(be, &scan);
		be->ops->topk(be, &topk);
		for (int at_once = 0; at_once < 2; at_once++) {
			seg[0].selection = at_once ? &choice : NULL;
			be->ops->attn(be, &g.args, 1);
			be->ops->read(be, &out, 0, got[at_once], (size_t)(heads * dim) * 4);
			/* Reset the list: in the second round the call itself must fill it. */
			be->ops->write(be, &rows, 0, w.rows[0], (size_t)(n_kv * list[i].best) * 4);
		}
		CHECK_MSG(be->ops->sync(be) == 0, "%s", be->err);
		CHECK_MSG(!memcmp(got[0], got[1], (size_t)(heads * dim) * 4), "case %zu differs", i);
		/* A selection that does not match its segment is refused. */
		for (int wrong = 0; wrong < 4; wrong++) {
			struct tensor other = score;

			scan.out = wrong == 0 ? &other : &score;
			scan.n_kv_head = wrong == 1 ? n_kv + 1 : n_kv;
			scan.n_slots = wrong == 2 ? n - 1 : n;
			topk.k = wrong == 3 ? list[i].best + 1 : list[i].best;
			be->ops->attn(be, &g.args, 1);
			CHECK_MSG(be->ops->sync(be) < 0 && strstr(be->err, "internal: "), "wrong selection %d: '%s'",
			          wrong, be->err);
		}
		be->ops->drop(be, &q);
		be->ops->drop(be, &out);
		be->ops->drop(be, &score);
		be->ops->drop(be, &rows);
		if (copy.data)
			be->ops->drop(be, &copy);
		free(got[0]);
		free(got[1]);
		stage_free(&g);
		finish(be);
		world_free(&w);
	}
}

/* ---- refusals and launches ---- */

static void refused(struct backend *be, const char *part)
{
	int rc = be->ops->sync(be);

	CHECK_MSG(rc < 0 && strstr(be->err, part), "'%s' is not in: %s", part, rc < 0 ? be->err : "(no error)");
}

TEST(refuses_what_does_not_fit)
{
	struct shape s = { 4, 2, 64, 100, 2, DT_F16, 2, { 20, 30 }, { 1, 0 }, 1, .window = 0 };
	static const int32_t wrong[] = { 100, -1, INT32_MAX, INT32_MIN };
	struct backend *be = open_cuda();
	struct world w = world_new(&s);
	struct stage g = stage_new(be, &w);
	float got[2 * 256], weight[2] = { 1, 1 };
	struct tensor sum = tensor_new(be, DT_F32, 2, 50, NULL), flag = tensor_new(be, DT_I32, 1, 1, NULL);
	struct tensor other = tensor_new(be, DT_F32, 2, 51, NULL);
	struct attn_probe p = { .mass = &sum, .weight = weight };
	struct attn_segment seg = { .n_slots = 4, .when = { &flag, 0, 0 } };

	/* A list is on the device, so a wrong row number is not reported; it must be read as a row inside the cache. */
	for (int i = 0; i < 4; i++) {
		be->ops->write(be, &g.rows[0], 19 * 4, &wrong[i], 4);
		stage_run(&g, 0, 2, NULL, got);
		CHECK(be->ops->sync(be) == 0 && !isnan(got[0]));
	}
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
	/* Predicates are refused in a call with several tokens, because each token would need a separate decision. */
	g.args.seg = &seg;
	g.args.n_seg = 1;
	be->ops->attn(be, &g.args, 2);
	refused(be, "conditions that do not fit");
	seg.when.col = 1;
	be->ops->attn(be, &g.args, 1);
	refused(be, "conditions that do not fit");
	be->ops->drop(be, &sum);
	be->ops->drop(be, &other);
	be->ops->drop(be, &flag);
	stage_free(&g);
	finish(be);
	world_free(&w);
}

/* Attention takes one launch whose grid does not change from token to token, so that the graph of a step is
 * replayed. */
TEST(takes_one_launch)
{
	enum { LAYERS = 5 };
	struct shape s = { 6, 2, 64, 700, 1, DT_F16, 2, { 400, 30 }, { 1, 0 }, 1, .window = 0 };
	struct backend *be;
	struct world w;
	struct stage g;
	struct gpu_host_counts before, after;
	struct tensor q, out;
	struct attn_segment seg[2];
	uint64_t replayed = 0;

	CUDA_HOST_ONLY();
	be = open_cuda();
	w = world_new(&s);
	g = stage_new(be, &w);
	q = tensor_new(be, DT_F32, 1, 6 * 64, w.q[0]);
	out = tensor_new(be, DT_F32, 1, 6 * 64, NULL);
	seg[0] = (struct attn_segment){ .q = &q, .slots = &g.rows[0], .n_slots = 400 };
	seg[1] = (struct attn_segment){ .q = &q, .slot0 = 100, .n_slots = 30 };
	g.args.out = &out;
	g.args.k = &g.k;
	g.args.v = &g.v;
	g.args.seg = seg;
	g.args.n_seg = 2;
	for (int32_t i = 0; i < 6; i++) {
		seg[1].n_slots = 30 + i;
		gpu_host_stats(&before);
		for (int layer = 0; layer < LAYERS; layer++)
			be->ops->attn(be, &g.args, 1);
		CHECK(be->ops->sync(be) == 0);
		gpu_host_stats(&after);
		CHECK_INT(after.launches - before.launches, LAYERS);
		replayed += after.replayed - before.replayed;
	}
	CHECK(replayed >= 3);
	be->ops->drop(be, &q);
	be->ops->drop(be, &out);
	stage_free(&g);
	finish(be);
	world_free(&w);
}
