/* tests/cuda/t_cuda_select_ops.c - selection operations of the CUDA backend, on the emulated device
 * (tests/cuda/emulator/host.cuh) or on a GPU.
 *
 * Key sketches, page bounds and selected slots must have the bits of the CPU. Scores and rotated keys are compared with
 * plain double arithmetic, or with the CPU within rounding. Operations whose result could depend on the order of blocks
 * are run twice. */
#include "tests/cuda/emulator/gpu_host.h"
#include "tests/lib/select_ref.h"
#include "tests/cuda/cuda_test.h"

/* The CPU backend and the CUDA backend, which get the same data. */
struct pair {
	struct backend *cpu, *gpu;
};

static int pair_open(struct pair *p)
{
	p->cpu = open_level("c", 2);
	p->gpu = open_cuda();
	return p->cpu && p->gpu;
}

static void pair_close(struct pair *p)
{
	finish(p->cpu);
	finish(p->gpu);
}

/* Return how many kernels the emulated device has run since the last call of this function. */
static int launches(void)
{
	struct gpu_host_counts counts;

	gpu_host_stats(&counts);
	gpu_host_forget();
	return (int)counts.launches;
}

static const struct shape more_shapes[] = {
	{ 64, 3, 3, 1, 40 },     { 64, 3, 2, 260, 272 },   { 32, 1, 2, 17, 17 },   { 40, 2, 1, 33, 50 },
	{ 80, 4, 2, 525, 540 },  { 128, 8, 1, 300, 300 },  { 64, 5, 2, 140, 141 }, { 96, 7, 1, 64, 64 },
	{ 6, 2, 2, 31, 33 },     { 1, 1, 1, 16, 16 },      { 33, 3, 1, 100, 100 }, { 100, 6, 1, 130, 131 },
	{ 256, 4, 1, 290, 300 }, { 128, 16, 1, 150, 150 }, { 64, 9, 1, 90, 99 },   { 2, 1, 2, 3, 3 },
	{ 64, 1, 2, 257, 300 },  { 1100, 2, 1, 20, 20 },
};
enum { N_MORE = LEN(more_shapes) };
static const enum dtype kv_types[] = { DT_F16, DT_F32, DT_BF16, DT_Q8_0 };

static enum dtype type_for(int i, int32_t dim)
{
	enum dtype t = kv_types[i % 4];

	return t == DT_Q8_0 && dim % 32 ? DT_F16 : t;
}

/* Run a scan twice, check that both results are equal and that the guards are intact, and return the scores
 * [n_kv][n]. */
static float *scan_twice(struct backend *be, struct scan_args a, int32_t n, int pages)
{
	float *got[2];

	for (int i = 0; i < 2; i++) {
		struct tensor out = guarded(be, DT_F32, a.n_kv_head, n);

		a.out = &out;
		if (pages)
			be->ops->page_scan(be, &a);
		else
			be->ops->key_scan(be, &a);
		got[i] = unguarded(be, &out);
	}
	CHECK_MSG(!memcmp(got[0], got[1], (size_t)a.n_kv_head * (size_t)n * sizeof(float)),
	          "other bits when done again");
	free(got[1]);
	return got[0];
}

/* ---- sketches ---- */

TEST(sketches_have_the_bits_of_the_cpu)
{
	for (int si = 0; si < N_MORE; si++)
		for (int bits = 2; bits <= 8; bits *= si % 2 ? 4 : 2) {
			const struct shape *s = &more_shapes[si];
			size_t n_keys = (size_t)s->n_kv * (size_t)s->cap * (size_t)s->dim;
			float *x = random_keys(s->n_kv, s->cap, s->dim), *held = must_alloc(n_keys * sizeof *held);
			enum dtype type = type_for(si + bits, s->dim);
			struct pair p;
			uint8_t *got[3];

			if (!pair_open(&p))
				return;
			for (int32_t k = 0; k < s->n_kv * s->cap; k += 7) /* some keys are constant, some large */
				for (int32_t i = 0; i < s->dim; i++)
					x[k * s->dim + i] = k % 3 == 0   ? 0.25f
					                    : k % 3 == 1 ? 0
					                                 : x[k * s->dim + i] * 100;
			for (int i = 0; i < 3; i++) {
				struct backend *be = i ? p.gpu : p.cpu;
				struct tensor plane = plane_new(be, type, s->n_kv, s->cap, s->dim, x, held),
					      copy = sketch_new(be, &plane, s, bits, i == 1);

				got[i] = tensor_read(be, &copy);
				be->ops->drop(be, &plane);
				be->ops->drop(be, &copy);
			}
			CHECK_MSG(sketches_equal(got[0], got[1], s->n_kv, s->cap, s->n, s->dim, bits),
			          "dim %d, %d bits, %s: another sketch", (int)s->dim, bits, dtype_info(type)->name);
			CHECK_MSG(sketches_equal(got[1], got[2], s->n_kv, s->cap, s->n, s->dim, bits),
			          "dim %d, %d bits: slot by slot is another sketch", (int)s->dim, bits);
			for (int i = 0; i < 3; i++)
				free(got[i]);
			free(x);
			free(held);
			pair_close(&p);
		}
}

/* Overwritten entries leave no trace in the sketch, even if there were more old entries than new ones. */
TEST(sketches_follow_a_rewound_cache)
{
	struct shape s = { 40, 1, 2, 523, 530 }, most = { 40, 1, 2, 530, 530 };
	static const int32_t ends[] = { 530, 300, 511, 513, 256, 255, 523 };
	struct backend *be = open_cuda();

	for (int bits = 2; be && bits <= 8; bits *= 2) {
		size_t n = (size_t)s.n_kv * (size_t)s.cap * (size_t)s.dim;
		float *held = must_alloc(n * sizeof *held), *x[2];
		struct tensor plane[2], copy[2];
		uint8_t *got[2];
		int32_t at = 0;

		for (int i = 0; i < 2; i++) {
			x[i] = random_keys(s.n_kv, s.cap, s.dim);
			plane[i] = plane_new(be, DT_F16, s.n_kv, s.cap, s.dim, x[i], held);
			copy[i] = sketch_new(be, &plane[i], i ? &s : &most, bits, i);
		}
		for (size_t i = 0; i < LEN(ends); i++) {
			at = at < ends[i] ? at : ends[i] - 1 - (int32_t)(test_rand() % 30);
			be->ops->key_sketch(be, &copy[0], &plane[1], s.n_kv, s.cap, bits, at, ends[i] - at);
			at = ends[i];
		}
		for (int i = 0; i < 2; i++)
			got[i] = tensor_read(be, &copy[i]);
		CHECK(sketches_equal(got[0], got[1], s.n_kv, s.cap, s.n, s.dim, bits));
		for (int i = 0; i < 2; i++) {
			free(got[i]);
			be->ops->drop(be, &copy[i]);
			free(x[i]);
			be->ops->drop(be, &plane[i]);
		}
		free(held);
	}
	if (be)
		finish(be);
}

/* ---- scans ---- */

/* Up to a constant for each head, the scores equal those of the CPU. The constants differ because the CPU's sum of
 * exponentials is less precise. */
TEST(scans_of_sketches_agree_with_the_cpu_and_doubles)
{
	double worst = 0;

	for (int si = 0; si < N_MORE; si++)
		for (int bits = 2; bits <= 8; bits *= si % 3 ? 4 : 2) {
			const struct shape *s = &more_shapes[si];
			int32_t n_head = s->group * s->n_kv;
			size_t n_keys = (size_t)s->n_kv * (size_t)s->cap * (size_t)s->dim,
			       n_out = (size_t)s->n_kv * (size_t)s->n;
			float *x = random_keys(s->n_kv, s->cap, s->dim), *held = must_alloc(n_keys * sizeof *held);
			float *q = random_query(n_head * s->dim, si & 1),
			      *turned = must_alloc((size_t)n_head * (size_t)s->dim * sizeof *turned);
			double *want = must_alloc(n_out * sizeof *want), slack[8];
			struct pair p;

			if (!pair_open(&p))
				return;
			for (int32_t h = 0; h < n_head; h++) {
				memcpy(turned + h * s->dim, q + h * s->dim, (size_t)s->dim * sizeof *q);
				hadamard(turned + h * s->dim, s->dim);
			}
			for (int how = REDUCE_MAX; how <= REDUCE_MEAN; how++) {
				float *got[2];
				int bad = 0, off = 0;

				for (int i = 0; i < 2; i++) {
					struct backend *be = i ? p.gpu : p.cpu;
					struct tensor plane = plane_new(be, DT_F16, s->n_kv, s->cap, s->dim, x, held);
					struct tensor copy = sketch_new(be, &plane, s, bits, 0),
						      qt = tensor_new(be, DT_F32, 1, n_head * s->dim, q);

					got[i] = scan_twice(be,
					                    (struct scan_args){ .q = &qt,
					                                        .keys = &copy,
					                                        .n_head = n_head,
					                                        .n_kv_head = s->n_kv,
					                                        .head_dim = s->dim,
					                                        .cap = s->cap,
					                                        .n_slots = s->n,
					                                        .bits = bits,
					                                        .scale = 0.125f,
					                                        .reduce = (enum reduce)how },
					                    s->n, 0);
					be->ops->drop(be, &plane);
					be->ops->drop(be, &copy);
					be->ops->drop(be, &qt);
				}
				round_keys(held, held, s->n_kv, s->cap, s->n, s->dim, bits, 0);
				scan_plain(want, slack, held, turned, n_head, s->n_kv, s->dim, s->cap, s->n, 0.125f,
				           (enum reduce)how, bits == 2 ? 254 : 254 * 100);
				for (size_t i = 0; i < n_out; i++) {
					size_t first = i - i % (size_t)s->n;
					double same = (double)got[1][i] - got[0][i] -
					              (s->group == 1 ? (double)got[1][first] - got[0][first] : 0);

					bad += !(fabs(got[1][i] - want[i]) <=
					         2 * slack[i / (size_t)s->n] + 1e-5 + 1e-5 * fabs(want[i]));
					off += !(fabs(same) <=
					         (s->group == 1 ? 1e-6 : 1.5e-3) * (1 + fabs((double)got[0][i])));
					worst = fmax(worst, fabs((double)got[1][i] - got[0][i]));
				}
				CHECK_MSG(
					!bad && !off,
					"dim %d, group %d, %d keys, %d bits, %s: %d of %zu scores are off, %d not as the CPU's",
					(int)s->dim, (int)s->group, (int)s->n, bits, how ? "mean" : "max", bad, n_out,
					off);
				free(got[0]);
				free(got[1]);
			}
			free(turned);
			free(x);
			free(held);
			free(q);
			free(want);
			pair_close(&p);
		}
	test_note("scores of sketches differ from the CPU's by %.1e at most", worst);
}

TEST(scans_of_planes_agree_with_doubles)
{
	for (int si = 0; si < N_MORE; si++)
		for (int how = REDUCE_MAX; how <= REDUCE_MEAN; how++) {
			const struct shape *s = &more_shapes[si];
			int32_t n_head = s->group * s->n_kv;
			enum dtype type = type_for(si + how, s->dim);
			size_t n_out = (size_t)s->n_kv * (size_t)s->n;
			float *x = random_keys(s->n_kv, s->cap, s->dim), *q = random_query(n_head * s->dim, si & 1),
			      *got;
			float *held = must_alloc((size_t)s->n_kv * (size_t)s->cap * (size_t)s->dim * sizeof *held);
			double *want = must_alloc(n_out * sizeof *want), slack[8];
			struct backend *be = open_cuda();
			struct tensor plane, qt;
			int bad = 0;

			if (!be)
				return;
			plane = plane_new(be, type, s->n_kv, s->cap, s->dim, x, held);
			qt = tensor_new(be, DT_F32, 1, n_head * s->dim, q);
			got = scan_twice(be,
			                 (struct scan_args){ .q = &qt,
			                                     .keys = &plane,
			                                     .n_head = n_head,
			                                     .n_kv_head = s->n_kv,
			                                     .head_dim = s->dim,
			                                     .cap = s->cap,
			                                     .n_slots = s->n,
			                                     .bits = 16,
			                                     .scale = 0.125f,
			                                     .reduce = (enum reduce)how },
			                 s->n, 0);
			scan_plain(want, slack, held, q, n_head, s->n_kv, s->dim, s->cap, s->n, 0.125f,
			           (enum reduce)how, 1e7);
			for (size_t i = 0; i < n_out; i++)
				bad += !(fabs(got[i] - want[i]) <=
				         slack[i / (size_t)s->n] + 1e-5 + 1e-6 * fabs(want[i]));
			CHECK_MSG(!bad, "%s, dim %d, group %d, %d keys, %s: %d scores are off", dtype_info(type)->name,
			          (int)s->dim, (int)s->group, (int)s->n, how ? "mean" : "max", bad);
			free(got);
			free(x);
			free(q);
			free(held);
			free(want);
			be->ops->drop(be, &plane);
			be->ops->drop(be, &qt);
			finish(be);
		}
}

TEST(pages_agree_with_the_cpu)
{
	static const int32_t sizes[] = { 16, 8, 64, 32, 24 };

	for (int si = 0; si < N_MORE; si++) {
		const struct shape *s = &more_shapes[si];
		int32_t size = sizes[si % 5], n_head = s->group * s->n_kv, pages = (s->n + size - 1) / size,
			most = (s->cap + size - 1) / size;
		size_t n_out = (size_t)s->n_kv * (size_t)pages;
		enum dtype type = type_for(si, s->dim);
		float *x = random_keys(s->n_kv, s->cap, s->dim), *q = random_query(n_head * s->dim, 1), *got[2][3],
		      *b[2];
		float *held = must_alloc((size_t)s->n_kv * (size_t)s->cap * (size_t)s->dim * sizeof *held);
		struct pair p;

		if (!pair_open(&p))
			return;
		for (int i = 0; i < 2; i++) {
			struct backend *be = i ? p.gpu : p.cpu;
			struct tensor plane = plane_new(be, type, s->n_kv, s->cap, s->dim, x, held);
			struct tensor bounds = tensor_new(be, DT_F32, s->n_kv * most, 2 * s->dim, NULL),
				      qt = tensor_new(be, DT_F32, 1, n_head * s->dim, q);

			for (int32_t at = 0, n; at < s->n; at += n) {
				n = i == 0 ? s->n : at % 3 ? 1 : 150;
				n = n < s->n - at ? n : s->n - at;
				be->ops->page_bounds(be, &bounds, &plane, s->n_kv, s->cap, size, at, n);
			}
			b[i] = tensor_read(be, &bounds);
			for (int how = 0; how < 3; how++)
				got[i][how] =
					scan_twice(be,
				                   (struct scan_args){ .q = &qt,
				                                       .keys = &bounds,
				                                       .n_head = n_head,
				                                       .n_kv_head = s->n_kv,
				                                       .head_dim = s->dim,
				                                       .cap = s->cap,
				                                       .n_slots = s->n,
				                                       .scale = 0.25f,
				                                       .page = size,
				                                       .raw = how == 2,
				                                       .reduce = how == 1 ? REDUCE_MEAN : REDUCE_MAX },
				                   pages, 1);
			be->ops->drop(be, &plane);
			be->ops->drop(be, &bounds);
			be->ops->drop(be, &qt);
		}
		CHECK_MSG(!memcmp(b[0], b[1], (size_t)s->n_kv * (size_t)most * 2 * (size_t)s->dim * sizeof(float)),
		          "bounds of dim %d differ", (int)s->dim);
		for (int how = 0; how < 3; how++) {
			int off = 0;

			for (size_t i = 0; i < n_out; i++)
				off += !(fabs((double)got[1][how][i] - got[0][how][i]) <=
				         (how == 2 ? 2e-6 : 1.5e-3) * (1 + fabs((double)got[0][how][i])));
			CHECK_MSG(!off, "%d page scores of dim %d are off (%d)", off, (int)s->dim, how);
			free(got[0][how]);
			free(got[1][how]);
		}
		free(b[0]);
		free(b[1]);
		free(x);
		free(q);
		free(held);
		pair_close(&p);
	}
}

TEST(pages_become_slots)
{
	struct backend *be = open_cuda();

	if (!be)
		return;
	page_rows_agree(be);
	finish(be);
}

/* Attention over selected pages is one step per token, and the same step is replayed for every token: the host reads
 * nothing between the launches, and no grid changes while the last page fills up. */
TEST(pages_are_read_in_one_step)
{
	enum { DIM = 8, KV = 2, GROUP = 2, CAP = 600, K = 7, FIRST = 520, TOKENS = 40 };
	float *x = random_keys(KV, CAP, DIM), *q = random_query(GROUP * KV * DIM, 0),
	      *held = must_alloc(KV * CAP * DIM * sizeof *held);
	float got[GROUP * KV * DIM];
	struct backend *be;
	struct tensor plane, bounds, qt, score, page, rows, out;
	struct gpu_host_counts counts;

	CUDA_HOST_ONLY();
	be = open_cuda();
	plane = plane_new(be, DT_F16, KV, CAP, DIM, x, held);
	bounds = tensor_new(be, DT_F32, KV * ((CAP + 15) / 16), 2 * DIM, NULL);
	qt = tensor_new(be, DT_F32, 1, GROUP * KV * DIM, q);
	out = tensor_new(be, DT_F32, 1, GROUP * KV * DIM, NULL);
	score = tensor_new(be, DT_F32, KV, (CAP + 15) / 16, NULL);
	page = tensor_new(be, DT_I32, KV, K, NULL);
	rows = tensor_new(be, DT_I32, KV, K * 16, NULL);
	be->ops->page_bounds(be, &bounds, &plane, KV, CAP, 16, 0, FIRST - 1);
	be->ops->sync(be);
	gpu_host_forget();
	for (int32_t n = FIRST; n < FIRST + TOKENS; n++) {
		struct attn_segment seg = { .q = &qt, .slots = &rows, .n_slots = (K - 1) * 16 + (n - 1) % 16 + 1 };

		be->ops->page_bounds(be, &bounds, &plane, KV, CAP, 16, n - 1, 1);
		be->ops->page_scan(be, &(struct scan_args){ .out = &score,
		                                            .q = &qt,
		                                            .keys = &bounds,
		                                            .n_head = GROUP * KV,
		                                            .n_kv_head = KV,
		                                            .head_dim = DIM,
		                                            .cap = CAP,
		                                            .n_slots = n,
		                                            .scale = 0.25f,
		                                            .page = 16 });
		be->ops->topk(be, &(struct topk_args){ .slots = &page,
		                                       .score = &score,
		                                       .n_kv_head = KV,
		                                       .n = (n + 15) / 16,
		                                       .k = K,
		                                       .pool = 1,
		                                       .first = 1,
		                                       .last = 4 });
		be->ops->page_slots(be, &rows, &page, KV, 16, seg.n_slots);
		be->ops->attn(be,
		              &(struct attn_args){ .out = &out,
		                                   .k = &plane,
		                                   .v = &plane,
		                                   .seg = &seg,
		                                   .n_seg = 1,
		                                   .n_head = GROUP * KV,
		                                   .n_kv_head = KV,
		                                   .head_dim = DIM,
		                                   .cap = CAP,
		                                   .scale = 0.25f },
		              1);
		be->ops->read(be, &out, 0, got, sizeof got);
	}
	gpu_host_stats(&counts);
	CHECK_INT(counts.steps, TOKENS);
	CHECK_INT(counts.built, 1);
	CHECK_INT(counts.replayed, TOKENS - 2);
	struct tensor *all[] = { &plane, &bounds, &qt, &out, &score, &page, &rows };

	for (int i = 0; i < 7; i++)
		be->ops->drop(be, all[i]);
	free(x);
	free(q);
	free(held);
	finish(be);
}

/* ---- the top k ---- */

/* Check the top k of n scores. ordered: an enum topk_order; < 0 = a random one. */
static void k_of_n(struct backend *be, int32_t n, int32_t k, int kind, int32_t heads, int ordered)
{
	static const int32_t pools[] = { 1, 7, 3, 5, 31, 9999 };
	int32_t pool = pools[test_rand() % 6];
	int32_t first = test_rand() % 2 ? 0 : (int32_t)(test_rand() % 9),
		last = test_rand() % 2 ? 0 : (int32_t)(test_rand() % 70);
	enum topk_order order = ordered < 0 ? (enum topk_order)(test_rand() % 2) : (enum topk_order)ordered;
	float *x = must_alloc((size_t)heads * (size_t)(n + 3) * sizeof *x);
	int32_t *want = must_alloc((size_t)heads * (size_t)k * sizeof *want), *got;
	struct tensor score, rows;

	/* The plain computation takes n * pool steps: limit the pool. */
	if (n > 1000 && pool > 100)
		pool = n > 5000 ? 35 : 31;
	for (int h = 0; h < heads; h++) {
		random_scores(x + h * (n + 3), n, kind);
		topk_plain(want + h * k, x + h * (n + 3), n, k, pool, first, last, order != SLOT_ORDER);
	}
	score = tensor_new(be, DT_F32, heads, n + 3, x);
	rows = guarded(be, DT_I32, heads, k);
	be->ops->topk(be, &(struct topk_args){ .slots = &rows,
	                                       .score = &score,
	                                       .n_kv_head = heads,
	                                       .n = n,
	                                       .k = k,
	                                       .pool = pool,
	                                       .first = first,
	                                       .last = last,
	                                       .order = order });
	got = unguarded(be, &rows);
	CHECK_MSG(!memcmp(got, want, (size_t)heads * (size_t)k * sizeof *got),
	          "kind %d, %d of %d, pool %d, first %d, last %d, order %d", kind, (int)k, (int)n, (int)pool,
	          (int)first, (int)last, (int)order);
	CHECK_MSG(be->ops->sync(be) == 0, "%s", be->err);
	be->ops->drop(be, &score);
	free(got);
	free(want);
	free(x);
}

static void one_topk(struct backend *be, int32_t n, int kind, int ki, int32_t heads)
{
	int32_t k = ki == 0 ? 1 : ki == 1 ? n : ki == 2 ? n / 15 + 1 : 1 + (int32_t)(test_rand() % (uint64_t)n);

	k_of_n(be, n, k, kind, heads, -1);
}

TEST(topk_agrees_with_sorting)
{
	static const int32_t sizes[] = { 1, 2, 15, 17, 64, 511, 1000, 1025, 2049, 5000 };
	struct backend *be = open_cuda();

	if (!be)
		return;
	for (int si = 0; si < 10; si++)
		for (int kind = 0; kind < 8; kind++)
			for (int ki = 0; ki < (sizes[si] > 1000 ? 2 : 4); ki++)
				one_topk(be, sizes[si], kind, sizes[si] > 1000 ? (kind + ki) % 4 : ki, si % 3 + 1);
	finish(be);
}

TEST(a_sample_stands_for_the_rest)
{
	static const int32_t sizes[] = { 2, 65, 700, 1025, 2049, 5001 };
	struct backend *be = open_cuda();

	if (!be)
		return;
	for (int si = 0; si < 6; si++)
		for (int kind = si > 3 ? si % 2 : 0; kind<8; kind += si> 3 ? 3 : 1) {
			int32_t n = sizes[si], k = 1 + (int32_t)(test_rand() % (uint64_t)(n - 1));

			sample_holds(be, "cuda", n, k, 1 + (int32_t)(test_rand() % (uint64_t)(n - k)), kind);
			sample_holds(be, "cuda", n, n / 16 + 1, n - n / 16 - 1 < 128 ? n - n / 16 - 1 : 128, kind);
		}
	finish(be);
}

/* The top k of more slots than one thread block can process. */
TEST(topk_of_many_slots)
{
	struct backend *be = open_cuda();

	if (!be)
		return;
	for (int kind = 0; kind < 8; kind++) {
		one_topk(be, 16385 + (int32_t)(test_rand() % 9000), kind, 2 + kind % 2, 1 + kind % 2);
		one_topk(be, 4096 * 5 + (kind % 3 - 1), kind, kind % 4, 1);
	}
	finish(be);
}

/* Selected slots in the order of their scores, for k too large for the counting kernel: full and partial tiles, one
 * merge and several merges, equal scores. */
TEST(topk_of_many_in_order)
{
	static const int32_t k[] = { 2048, 2049, 4096, 4097, 5000, 6145, 8192, 8193, 12288, 16384, 16385, 20000 };
	struct backend *be = open_cuda();

	if (!be)
		return;
	for (int i = 0; i < 12; i++) {
		int32_t n = k[i] + (i % 3 ? (int32_t)(test_rand() % 9000) : 0);

		k_of_n(be, n, k[i], i % 4 ? i % 8 : 1, 1 + i % 2, BEST_FIRST);
	}
	finish(be);
}

/* ---- both at once ---- */

/* A selection inside attention gives the same slots as a scan followed by topk: for few and many slots, with and
 * without a predicate. */
TEST(selection_is_scan_and_topk)
{
	/* launches[0]: number of launches of the selection; launches[1]: of scan and topk called separately. */
	/* clang-format off */
	static const struct { int32_t n, pool; int bits, launches[2]; } cases[] = {
		{ 300, 1, 2, { 2, 3 } }, { 300, 7, 4, { 2, 3 } }, { 1500, 35, 8, { 9, 9 } }, { 700, 1, 16, { 2, 3 } }, { 16500, 1, 2, { 3, 5 } },
		{ 16500, 5, 2, { 5, 5 } }, { 40, 1, 2, { 3, 3 } } };
	enum { DIM = 8, KV = 2, GROUP = 2, K = 40 };

	for (int c = 0; c < 7; c++)
		for (int met = 0; met < (cases[c].n < 1000 ? 3 : 1); met++) {
			int32_t n = cases[c].n, bits = cases[c].bits, flag[2] = { 5, met != 1 };
			struct shape s = { DIM, GROUP, KV, n, n };
			float *x = random_keys(KV, n, DIM), *held = must_alloc((size_t)KV * (size_t)n * DIM * sizeof *held);
			float *q = random_query(GROUP * KV * DIM, 0), *score[2];
			int32_t *row[2];
			struct backend *be = open_cuda();
			struct tensor plane, copy, qt, out, flags;

			if (!be)
				return;
			plane = plane_new(be, DT_F16, KV, n, DIM, x, held);
			copy = sketch_new(be, &plane, &s, bits < 16 ? bits : 2, 0);
			qt = tensor_new(be, DT_F32, 1, GROUP * KV * DIM, q);
			out = tensor_new(be, DT_F32, 1, GROUP * KV * DIM, NULL);
			flags = tensor_new(be, DT_I32, 1, 2, flag);
			for (int way = 0; way < 2; way++) {
				struct tensor scores = guarded(be, DT_F32, KV, n), rows = guarded(be, DT_I32, KV, K);
				struct predicate when = { met ? &flags : NULL, 1, 1, NULL };
				struct scan_args scan = { .out = &scores, .q = &qt, .keys = bits < 16 ? &copy : &plane, .n_head = GROUP * KV, .n_kv_head = KV,
					.head_dim = DIM, .cap = n, .n_slots = n, .bits = bits, .scale = 0.25f, .when = when };
				struct topk_args topk = { .slots = &rows, .score = &scores, .n_kv_head = KV, .n = n, .k = K, .pool = cases[c].pool, .last = 1,
					.when = when };
				struct attn_selection choice = { &scan, &topk };
				struct attn_segment seg = { .q = &qt, .slots = &rows, .selection = &choice, .n_slots = K };

				be->ops->sync(be);
				gpu_host_forget();
				if (way) {
					be->ops->key_scan(be, &scan);
					be->ops->topk(be, &topk);
					be->ops->sync(be);
					if (!test_cuda_is_device())
						CHECK_INT(launches(), cases[c].launches[1]);
				} else {
					be->ops->attn(be, &(struct attn_args){ .out = &out, .k = &plane, .v = &plane, .seg = &seg, .n_seg = 1,
					                                       .n_head = GROUP * KV, .n_kv_head = KV, .head_dim = DIM, .cap = n,
					                                       .scale = 0.25f }, 1);
					be->ops->sync(be);
					if (!test_cuda_is_device())
						CHECK_INT(launches(), cases[c].launches[0] + 1);
				}
				score[way] = unguarded(be, &scores);
				row[way] = unguarded(be, &rows);
			}
			CHECK_MSG(!memcmp(score[0], score[1], (size_t)KV * (size_t)n * sizeof(float)), "scores of case %d differ", c);
			CHECK_MSG(!memcmp(row[0], row[1], KV * K * sizeof(int32_t)), "slots of case %d differ", c);
			CHECK((row[0][0] == GUARD_ROW) == (met == 1) && (score[0][0] == GUARD) == (met == 1));
			for (int i = 0; i < 2; i++) {
				free(score[i]);
				free(row[i]);
			}
			free(x);
			free(held);
			free(q);
			be->ops->drop(be, &plane);
			be->ops->drop(be, &copy);
			be->ops->drop(be, &qt);
			be->ops->drop(be, &out);
			be->ops->drop(be, &flags);
			finish(be);
		}
}

/* A scan of a sketch selects the same slots as on the CPU, unless the lowest selected and the highest unselected score
 * are nearly equal. */
TEST(slots_are_those_of_the_cpu)
{
	enum { DIM = 64, N = 1500, K = 128 };
	int other = 0, far = 0;

	for (int group = 1; group <= 4; group += 3)
		for (int bits = 2; bits <= 8; bits *= 2) {
			struct shape s = { DIM, group, 2, N, N };
			float *x = random_keys(2, N, DIM), *held = must_alloc(2 * N * DIM * sizeof *held), *q = random_query(2 * group * DIM, 1);
			float *score = NULL;
			int32_t *row[2];
			struct pair p;

			if (!pair_open(&p))
				return;
			for (int i = 0; i < 2; i++) {
				struct backend *be = i ? p.gpu : p.cpu;
				struct tensor plane = plane_new(be, DT_F16, 2, N, DIM, x, held), copy = sketch_new(be, &plane, &s, bits, 0);
				struct tensor qt = tensor_new(be, DT_F32, 1, 2 * group * DIM, q), out = tensor_new(be, DT_F32, 2, N, NULL);
				struct tensor rows = tensor_new(be, DT_I32, 2, K, NULL);

				be->ops->key_scan(be, &(struct scan_args){ .out = &out, .q = &qt, .keys = &copy, .n_head = 2 * group, .n_kv_head = 2,
				                                           .head_dim = DIM, .cap = N, .n_slots = N, .bits = bits, .scale = 0.125f });
				be->ops->topk(be, &(struct topk_args){ .slots = &rows, .score = &out, .n_kv_head = 2, .n = N, .k = K, .pool = 1 });
				row[i] = tensor_read(be, &rows);
				if (i)
					score = tensor_read(be, &out);
				be->ops->drop(be, &plane);
				be->ops->drop(be, &copy);
				be->ops->drop(be, &qt);
				be->ops->drop(be, &out);
				be->ops->drop(be, &rows);
			}
			for (int h = 0; h < 2; h++) {
				float least = INFINITY;

				for (int i = 0; i < K; i++)
					least = fminf(least, score[h * N + row[1][h * K + i]]);
				other += K - overlap(row[0] + h * K, row[1] + h * K, K);
				for (int i = 0; i < K; i++)
					far += score[h * N + row[0][h * K + i]] < least - (group == 1 ? 1e-5f : 1e-3f);
			}
			free(row[0]);
			free(row[1]);
			free(score);
			free(x);
			free(held);
			free(q);
			pair_close(&p);
		}
	test_note("%d of %d slots are others than the CPU's", other, 2 * 3 * 2 * K);
	CHECK_INT(far, 0);
}

/* ---- moves ---- */

/* Make random moves: sources are arbitrary, so there are cycles and chains. meet: 0 = all targets are distinct. */
static void random_moves(int32_t *m, int32_t heads, int32_t n, int32_t cap, int32_t turns, int meet)
{
	int32_t *to = must_alloc((size_t)cap * sizeof *to);

	for (int h = 0; h < heads; h++) {
		for (int32_t i = 0; i < cap; i++)
			to[i] = i;
		for (int32_t i = 0; i < n; i++) {
			int32_t j = i + (int32_t)(test_rand() % (uint64_t)(cap - i)), swap = to[i], *e = m + h * (3 * n + 1) + 3 * i;

			to[i] = to[j];
			to[j] = swap;
			e[0] = test_rand() % 9 ? (int32_t)(test_rand() % (uint64_t)cap) : -1;
			e[1] = meet ? to[i] % (cap / 8) : to[i];
			e[2] = (int32_t)(test_rand() % (uint64_t)(turns + 1)) - 1;
		}
	}
	/* clang-format on */
	free(to);
}

TEST(moves_are_those_of_the_cpu)
{
	static const struct {
		int32_t dim, dims, n;
	} cases[] = { { 64, 64, 5 },   { 40, 24, 30 },   { 128, 128, 900 }, { 32, 32, 1 },
		      { 80, 20, 333 }, { 64, 64, 1000 }, { 1, 0, 100 },     { 96, 96, 40 } };
	enum { HEADS = 3, CAP = 1100, TURNS = 6 };
	double worst = 0;

	for (int ci = 0; ci < 8; ci++)
		for (int ty = 0; ty < 4; ty++) {
			int32_t dim = cases[ci].dim, dims = cases[ci].dims, n = cases[ci].n;
			size_t all = (size_t)HEADS * CAP * (size_t)dim, bytes = (size_t)dtype_bytes(kv_types[ty], all);
			float *x, *held, *table, *y[2];
			uint8_t *after[2];
			int32_t *m;
			struct pair p;
			double err = 0, large = 0;

			if ((kv_types[ty] == DT_Q8_0 && dim % 32) || !pair_open(&p))
				continue;
			x = random_keys(HEADS, CAP, dim);
			held = must_alloc(all * sizeof *held);
			table = must_alloc((size_t)TURNS * (size_t)(dims + 2) * sizeof *table);
			m = must_alloc((size_t)HEADS * (size_t)(3 * n + 1) * sizeof *m);
			for (int32_t i = 0; i < TURNS * dims; i += 2) {
				float angle = test_randf(-3, 3);

				table[i] = cosf(angle);
				table[i + 1] = sinf(angle);
			}
			random_moves(m, HEADS, n, CAP, TURNS, ci == 1);
			for (int values = dims == 0; values < 2; values++) {
				for (int i = 0; i < 2; i++) {
					struct backend *be = i ? p.gpu : p.cpu;
					struct tensor plane = plane_new(be, kv_types[ty], HEADS, CAP, dim, x, held),
						      move, turn;

					move = tensor_new(be, DT_I32, HEADS, 3 * n + 1, m);
					turn = tensor_new(be, DT_F32, TURNS, dims ? dims : 1, table);
					be->ops->kv_move(be, &plane,
					                 &(struct kv_moves){ .move = &move,
					                                     .shift = values ? NULL : &turn,
					                                     .n = n,
					                                     .n_kv_head = HEADS,
					                                     .head_dim = dim,
					                                     .dims = dims,
					                                     .cap = CAP,
					                                     .neox = ci % 2 });
					after[i] = tensor_read(be, &plane);
					be->ops->drop(be, &plane);
					be->ops->drop(be, &move);
					be->ops->drop(be, &turn);
				}
				if (values) {
					CHECK_MSG(!memcmp(after[0], after[1], bytes),
					          "%s, dim %d, %d moves: other slots", dtype_info(kv_types[ty])->name,
					          (int)dim, (int)n);
				} else {
					for (int i = 0; i < 2; i++) {
						y[i] = must_alloc(all * sizeof *y[i]);
						dtype_to_f32(kv_types[ty], y[i], after[i], (int64_t)all);
					}
					for (size_t i = 0; i < all; i++) {
						err += ((double)y[0][i] - y[1][i]) * ((double)y[0][i] - y[1][i]);
						large += (double)y[0][i] * y[0][i];
					}
					worst = fmax(worst, err / large);
					CHECK_MSG(err <= large * (kv_types[ty] == DT_F32 ? 1e-14 : 1e-8),
					          "%s, dim %d, %d moves: NMSE %g", dtype_info(kv_types[ty])->name,
					          (int)dim, (int)n, err / large);
					free(y[0]);
					free(y[1]);
				}
				free(after[0]);
				free(after[1]);
			}
			free(x);
			free(held);
			free(table);
			free(m);
			pair_close(&p);
		}
	test_note("turned keys: NMSE %.1e at most", worst);
}

/* Moves of the keys and values of all layers, if they are queued together, take few launches and give the same result
 * as separate moves. */
TEST(moves_of_layers_join)
{
	enum { LAYERS = 40, HEADS = 2, CAP = 40, DIM = 16, N = 5, TURNS = 3, ALL = HEADS * CAP * DIM };
	struct tensor plane[2][2 * LAYERS], move, turn;
	int32_t *m = must_alloc((size_t)LAYERS * HEADS * (3 * N) * sizeof *m), one[HEADS * (3 * N + 1)];
	float table[TURNS * DIM], *x, *held = must_alloc(ALL * sizeof *held);
	struct pair p;

	if (!pair_open(&p))
		return;
	for (int i = 0; i < TURNS * DIM; i += 2) {
		table[i] = cosf((float)i);
		table[i + 1] = sinf((float)i);
	}
	for (int layer = 0; layer < LAYERS; layer++) {
		random_moves(one, HEADS, N, CAP, TURNS, 0);
		for (int h = 0; h < HEADS; h++)
			memcpy(m + (layer * HEADS + h) * 3 * N, one + h * (3 * N + 1), 3 * N * sizeof *m);
	}
	x = random_keys(HEADS, CAP, DIM);
	for (int i = 0; i < 2; i++) {
		struct backend *be = i ? p.gpu : p.cpu;

		for (int k = 0; k < 2 * LAYERS; k++)
			plane[i][k] = plane_new(be, k % 2 ? DT_F16 : DT_F32, HEADS, CAP, DIM, x, held);
		move = tensor_new(be, DT_I32, LAYERS * HEADS, 3 * N, m);
		turn = tensor_new(be, DT_F32, TURNS, DIM, table);
		be->ops->sync(be);
		launches();
		/* Move the keys of all layers, then the values, so that planes of the same kind are adjacent in the
		 * queue. */
		for (int k = 0; k < 2 * LAYERS; k++) {
			int layer = k % LAYERS, key = k < LAYERS;

			be->ops->kv_move(be, &plane[i][2 * layer + !key],
			                 &(struct kv_moves){ .move = &move,
			                                     .move_row = layer * HEADS,
			                                     .shift = key && layer % 3 ? &turn : NULL,
			                                     .n = N,
			                                     .n_kv_head = HEADS,
			                                     .head_dim = DIM,
			                                     .dims = DIM,
			                                     .cap = CAP,
			                                     .neox = 1 });
		}
		be->ops->kv_move(be, &plane[i][2 * LAYERS - 1],
		                 &(struct kv_moves){
					 .move = &move, .n = N, .n_kv_head = HEADS, .head_dim = DIM, .cap = CAP });
		be->ops->sync(be);
		if (i && !test_cuda_is_device())
			CHECK_INT(launches(), 3);
		be->ops->drop(be, &move);
		be->ops->drop(be, &turn);
	}
	for (int k = 0; k < 2 * LAYERS; k++) {
		void *got[2];
		size_t n = (size_t)dtype_bytes(plane[0][k].type, ALL);
		float far = 0;

		for (int i = 0; i < 2; i++)
			got[i] = tensor_read(i ? p.gpu : p.cpu, &plane[i][k]);
		if (k % 2)
			CHECK_MSG(!memcmp(got[0], got[1], n), "values of layer %d", k / 2);
		for (int i = 0; k % 2 == 0 && i < ALL; i++)
			far = fmaxf(far, fabsf(((float *)got[0])[i] - ((float *)got[1])[i]));
		CHECK_MSG(far < 1e-5f, "keys of layer %d are off by %g", k / 2, (double)far);
		for (int i = 0; i < 2; i++) {
			(i ? p.gpu : p.cpu)->ops->drop(i ? p.gpu : p.cpu, &plane[i][k]);
			free(got[i]);
		}
	}
	free(m);
	free(x);
	free(held);
	pair_close(&p);
}

/* Moves to or from slots outside of the plane are skipped; all other moves are done. */
TEST(moves_stay_inside)
{
	static const int32_t list[] = { 0, 5,  -1, -2, 1, -1, 16, 1, -1, 1,         -1,        -1,
		                        1, 16, -1, 2,  6, 2,  3,  7, -3, INT32_MIN, INT32_MAX, INT32_MAX };
	enum { N = LEN(list) / 3 };
	struct backend *be = open_cuda();
	float x[16 * 8], turn[2 * 8] = { 0 }, *after;
	struct tensor plane, move, turns;

	if (!be)
		return;
	for (int i = 0; i < 16 * 8; i++)
		x[i] = (float)i;
	plane = tensor_new(be, DT_F32, 16, 8, x);
	move = tensor_new(be, DT_I32, 1, 3 * N, list);
	turns = tensor_new(be, DT_F32, 2, 8, turn);
	be->ops->kv_move(
		be, &plane,
		&(struct kv_moves){
			.move = &move, .shift = &turns, .n = N, .n_kv_head = 1, .head_dim = 8, .dims = 8, .cap = 16 });
	after = tensor_read(be, &plane);
	for (int i = 0; i < 16; i++)
		CHECK_MSG(after[8 * i] == (i == 5   ? 0
		                           : i == 7 ? 24
		                                    : 8 * i),
		          "slot %d begins with %g", i, (double)after[8 * i]);
	free(after);
	be->ops->drop(be, &plane);
	be->ops->drop(be, &move);
	be->ops->drop(be, &turns);
	finish(be);
}

/* ---- what is refused, what must not crash ---- */

TEST(bad_operands_are_refused)
{
	struct backend *be = open_cuda();

	if (!be)
		return;
	refuses_bad_operands(be);
	finish(be);
}

/* With NaN in keys and queries, the operations end without a crash, and the selected slots are valid. */
TEST(numbers_that_are_none)
{
	for (int where = 0; where < 5; where++)
		for (int bits = 2; bits <= 16; bits *= 2) {
			enum { N = 100, DIM = 48, K = 20 };
			struct backend *be = open_cuda();
			struct shape s = { DIM, 2, 1, N, N };
			struct tensor plane, copy, qt, score, rows;
			float *x, *held, *q;
			int32_t *got, last = -1;

			if (!be)
				return;
			x = random_keys(1, N, DIM);
			q = random_query(2 * DIM, 0);
			held = must_alloc(N * DIM * sizeof *held);
			for (int i = 0; i < DIM * N; i += 7 * DIM)
				x[i + i % DIM] = where == 0 ? NAN : where == 1 ? INFINITY : where == 2 ? -3e38f : x[i];
			if (where == 3)
				q[5] = NAN;
			for (int i = 0; where == 4 && i < 2 * DIM; i++)
				q[i] = 0;
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
			be->ops->topk(
				be,
				&(struct topk_args){
					.slots = &rows, .score = &score, .n_kv_head = 1, .n = N, .k = K, .pool = 1 });
			got = tensor_read(be, &rows);
			for (int i = 0; i < K; i++) {
				CHECK(got[i] > last && got[i] < N && (where != 4 || got[i] == N - K + i));
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
