/* tests/kernels/t_read_blocks.c - blocks of keys that a prompt's tokens read, at every level this machine has.
 * Attention to given blocks, and the selection of blocks by its definition (backend.h), are compared with computations
 * in double. The bits must be the same for any number of threads and for any division of tokens among calls. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/attn_ref.h"

/* ---- attention to given blocks ---- */

/* Choose blocks at random. Every query reads the first block and the block of its token. Some queries read no other
 * block; the others read each other block with probability 1/3. */
static void blocks_random(struct world *w)
{
	const struct shape *s = &w->s;

	w->block_bytes = (s->n_rows[0] - 1) / (8 * READ_BLOCK) + 1 + below(2);
	w->blocks = must_alloc((size_t)(s->n * s->n_head * w->block_bytes));
	memset(w->blocks, 0, (size_t)(s->n * s->n_head * w->block_bytes));
	for (int32_t q = 0; q < s->n * s->n_head; q++) {
		int32_t own = (s->n_rows[0] - s->n + q / s->n_head) / READ_BLOCK, some = below(4);

		for (int32_t b = 0; b <= own; b++)
			if (!b || b == own || (some && !below(3)))
				w->blocks[(size_t)(q * w->block_bytes + b / 8)] |= (uint8_t)(1 << b % 8);
	}
}

static struct shape one_part(int round)
{
	struct shape s = shape_random(round);

	s.n_seg = 1;
	s.list[0] = 0;
	s.n = 1 + below(round % 3 ? 40 : 4);
	s.n_rows[0] = s.n + below(round % 2 ? 1500 : 300);
	s.cap = s.n_rows[0];
	s.prompt = round % 4 < 3;
	s.softcap = round % 5 == 1 ? 20 : 0;
	s.sinks = round % 7 == 2;
	return s;
}

TEST(given_blocks_match_double)
{
	attn_matches_double(one_part, blocks_random, test_rounds(40), "attention to blocks");
}

/* With all blocks selected, the result equals full attention bit for bit. */
TEST(all_blocks_are_full_attention)
{
	for (int round = 0; round < test_rounds(24); round++) {
		struct shape s = one_part(round);
		struct world w = world_new(&s);
		size_t all = (size_t)s.n * (size_t)(s.n_head * s.dim);
		float *full = must_alloc(all * 4), *got = must_alloc(all * 4);

		for (int l = 0; l < N_LEVELS; l++) {
			struct backend *be = open_level(levels[l], 2);
			struct stage g;

			if (!be)
				continue;
			g = stage_new(be, &w);
			stage_run(&g, 0, s.n, NULL, full);
			blocks_random(&w);
			memset(w.blocks, 0xff, (size_t)(s.n * s.n_head * w.block_bytes));
			stage_run(&g, 0, s.n, NULL, got);
			CHECK_MSG(!memcmp(full, got, all * 4), "%s: %s", levels[l], describe(&s));
			free(w.blocks);
			w.blocks = NULL;
			stage_free(&g);
			finish(be);
		}
		world_free(&w);
		free(full);
		free(got);
	}
}

/* The bits depend neither on the number of threads nor on the division into calls nor on a probe. Blocks that are not
 * read add 0 to the sums of a probe. */
TEST(given_blocks_have_the_same_bits)
{
	static const int32_t steps[] = { 700, 512, 64, 7, 1 };
	const struct shape list[] = {
		{ 9, 3, 64, 1400, 700, DT_F16, 1, { 1400 }, { 0 }, 1, .window = 0, .prompt = 1 },
		{ 4, 1, 96, 900, 300, DT_Q8_0, 1, { 900 }, { 0 }, 1, .prompt = 1, .softcap = 10 },
		{ 6, 2, 40, 900, 300, DT_F32, 1, { 900 }, { 0 }, 1, .prompt = 1 },
		{ 4, 2, 128, 900, 300, DT_BF16, 1, { 900 }, { 0 }, 1, .window = 0 },
	};

	for (size_t i = 0; i < LEN(list); i++) {
		const struct shape *s = &list[i];
		struct world w = world_new(s);
		size_t width = (size_t)(s->n_head * s->dim), all = (size_t)s->n * width;
		size_t sums = (size_t)(s->n_kv * w.cols);
		float *want = must_alloc(all * 4), *got = must_alloc(all * 4), *weight = must_alloc((size_t)s->n * 4);
		float *mass = must_alloc(sums * 4), *first = must_alloc(sums * 4);
		double *ref = must_alloc(all * sizeof *ref),
		       *p = must_alloc((size_t)(s->n * s->n_head) * (size_t)w.cols * sizeof *p);

		blocks_random(&w);
		world_double(&w, ref, p);
		for (int32_t t = 0; t < s->n; t++)
			weight[t] = t % 3 == 1 ? test_randf(0.1f, 1) : 0;
		for (int l = 1; l < N_LEVELS; l++)
			for (int k = 0; k < 5; k++)
				for (int probed = 0; probed < 2; probed++) {
					struct backend *be = open_level(levels[l], 1 + k % 3);
					struct stage g;
					struct tensor sum;

					if (!be)
						continue;
					g = stage_new(be, &w);
					sum = tensor_new(be, DT_F32, s->n_kv, w.cols, NULL);
					for (int32_t t = 0; t < s->n; t += steps[k]) {
						struct attn_probe probe = { .mass = &sum,
							                    .weight = weight + t,
							                    .reduce = REDUCE_MEAN };

						stage_run(&g, t, t + steps[k] < s->n ? t + steps[k] : s->n,
						          probed ? &probe : NULL, got + (size_t)t * width);
					}
					if (!k && !probed)
						memcpy(want, got, all * 4);
					CHECK_MSG(!memcmp(want, got, all * 4), "%s, calls of %d, probe %d: %s",
					          levels[l], (int)steps[k], probed, describe(s));
					be->ops->read(be, &sum, 0, mass, sums * 4);
					if (probed && !k)
						memcpy(first, mass, sums * 4);
					CHECK_MSG(!probed || !memcmp(first, mass, sums * 4),
					          "mass: %s, calls of %d: %s", levels[l], (int)steps[k], describe(s));
					for (int32_t h = 0; probed && h < s->n_kv; h++)
						for (int32_t c = 0; c < w.cols; c++) {
							double x = 0;
							int32_t group = s->n_head / s->n_kv;

							for (int32_t t = 0; t < s->n; t++)
								for (int32_t r = 0; r < group; r++)
									x += (double)weight[t] *
									     p[(size_t)(t * s->n_head + h * group + r) *
									               (size_t)w.cols +
									       (size_t)c] /
									     group;
							CHECK_MSG(fabs(x - mass[h * w.cols + c]) < 1e-3 * (x + 1e-2),
							          "%s, mass of slot %d: %g, not %g", levels[l], (int)c,
							          (double)mass[h * w.cols + c], x);
						}
					be->ops->drop(be, &sum);
					stage_free(&g);
					finish(be);
				}
		world_free(&w);
		free(want);
		free(got);
		free(weight);
		free(mass);
		free(first);
		free(ref);
		free(p);
	}
}

/* ---- what is selected ---- */

/* Set e[] to the logarithms of a query's estimated attention: first to each of the first keys, then to each block
 * before the block of the query's token. Returns the number of elements of e[]. */
static int32_t estimates(const struct world *w, int32_t token, int32_t head, double *e)
{
	const struct shape *s = &w->s;
	int32_t own = (s->n_rows[0] - s->n + token) / READ_BLOCK, dim = s->dim;
	const float *q = w->q[0] + (size_t)(token * s->n_head + head) * (size_t)dim;
	const float *k = w->k + (size_t)(head / (s->n_head / s->n_kv)) * (size_t)s->cap * (size_t)dim;

	for (int32_t c = 0; c < READ_FIRST + own; c++) {
		int32_t k0 = c < READ_FIRST ? c : c == READ_FIRST ? READ_FIRST : (c - READ_FIRST) * READ_BLOCK;
		int32_t k1 = c < READ_FIRST ? c + 1 : (c - READ_FIRST + 1) * READ_BLOCK;
		double mean = 0, variance = 0, key = 0, m[256] = { 0 }, farthest = -1;
		int32_t far = k0;

		for (int32_t i = k0; i < k1; i++)
			for (int32_t d = 0; d < dim; d++)
				m[d] += (double)k[i * dim + d] / (k1 - k0);
		for (int32_t i = k0; i < k1; i++) {
			double x = 0;

			for (int32_t d = 0; d < dim; d++)
				x += (k[i * dim + d] - m[d]) * (k[i * dim + d] - m[d]);
			far = x > farthest ? i : far;
			farthest = fmax(x, farthest);
		}
		for (int32_t d = 0; d < dim; d++) {
			double v = 0, x = q[d] / sqrt(dim);

			key += x * k[far * dim + d];
			if (c < READ_FIRST)
				continue;
			m[d] += (m[d] - k[far * dim + d]) / (k1 - k0 - 1);
			for (int32_t i = k0; i < k1; i++)
				v += i == far ? 0 : (k[i * dim + d] - m[d]) * (k[i * dim + d] - m[d]) / (k1 - k0 - 1);
			mean += x * m[d];
			variance += x * x * v;
		}
		if (c >= READ_FIRST) {
			double n = log(k1 - k0 - 1);

			mean += variance / 2 < n ? n + variance / 2 : sqrt(2 * variance * n);
		}
		e[c] = c < READ_FIRST ? key : log(exp(key) + exp(mean));
	}
	return READ_FIRST + own;
}

/* Check that the selected blocks are those that the estimates demand. Estimates may be rounded to the next level. */
static void check_set(const struct world *w, int32_t token, int32_t head, double share, const char *level)
{
	double e[64], all = 0, read = 0, least = INFINITY, most = -INFINITY, without, near = log(2) / 8 + 1e-3;
	int32_t own = (w->s.n_rows[0] - w->s.n + token) / READ_BLOCK, n, blocks = 0;

	for (int32_t b = 0; b < 8 * w->block_bytes; b++)
		CHECK_MSG(b <= own || !world_reads(w, token, head, b * READ_BLOCK),
		          "%s: block %d behind block %d is read", level, (int)b, (int)own);
	CHECK(world_reads(w, token, head, 0) && world_reads(w, token, head, own * READ_BLOCK));
	CHECK(!own || world_reads(w, token, head, (own - 1) * READ_BLOCK));
	n = estimates(w, token, head, e);
	for (int32_t c = 0; c < n; c++) {
		int32_t b = c - READ_FIRST;
		int reads = b < 0 || world_reads(w, token, head, b * READ_BLOCK);

		all += exp(e[c]);
		read += reads ? exp(e[c]) : 0;
		if (b < 1 || b == own - 1)
			continue;
		blocks += reads;
		if (reads)
			least = fmin(least, e[c]);
		else
			most = fmax(most, e[c]);
	}
	CHECK_MSG(!own || read >= (share - 1e-5) * all, "%s, token %d of %d, head %d: %g of %g read", level, (int)token,
	          (int)w->s.n, (int)head, read, all);
	CHECK_MSG(least > most - 1e-3, "%s: a block of %g is read, one of %g is not", level, least, most);
	/* Check that without the least selected blocks the share would not be reached. */
	without = read;
	for (int32_t c = READ_FIRST + 1; c < n - 1; c++)
		if (e[c] <= least + near && world_reads(w, token, head, (c - READ_FIRST) * READ_BLOCK))
			without -= exp(e[c]);
	CHECK_MSG(!blocks || own < 3 || without < (share + 1e-5) * all, "%s, token %d, head %d: %g of %g is enough",
	          level, (int)token, (int)head, without, all);
}

/* Select the blocks for tokens t0 .. t1 - 1 of the world, and store them in the world. */
static void select_blocks(struct backend *be, struct world *w, int32_t t0, int32_t t1, float share)
{
	const struct shape *s = &w->s;
	int32_t width = s->n_head * s->dim, cols = s->n_head * w->block_bytes;
	struct tensor q = tensor_new(be, DT_F32, t1 - t0, width, w->q[0] + (size_t)t0 * (size_t)width);
	struct tensor k = tensor_new(be, s->type, s->n_kv * s->cap, s->dim, w->kb),
		      out = tensor_new(be, DT_U8, t1 - t0, cols, NULL);

	be->ops->read_blocks(be,
	                     &(struct read_blocks_args){ .out = &out,
	                                                 .q = &q,
	                                                 .keys = &k,
	                                                 .n_head = s->n_head,
	                                                 .n_kv_head = s->n_kv,
	                                                 .head_dim = s->dim,
	                                                 .cap = s->cap,
	                                                 .n_slots = s->n_rows[0] - s->n + t1,
	                                                 .scale = 1 / sqrtf((float)s->dim),
	                                                 .share = share },
	                     t1 - t0);
	be->ops->read(be, &out, 0, w->blocks + (size_t)t0 * (size_t)cols, (size_t)(t1 - t0) * (size_t)cols);
	be->ops->drop(be, &q);
	be->ops->drop(be, &k);
	be->ops->drop(be, &out);
}

TEST(sets_follow_from_estimates_whatever_the_cut)
{
	static const float shares[] = { 0.5f, 0.9f, 0.95f, 0.99f, 0 };
	int64_t read = 0, there = 0;

	for (int round = 0; round < test_rounds(15); round++) {
		struct shape s = one_part(round);
		float share = shares[round % 5];
		struct world w;
		size_t size;
		uint8_t *first;

		s.spread = (float)(1 + round % 7 * 4);
		w = world_new(&s);
		blocks_random(&w);
		size = (size_t)(s.n * s.n_head * w.block_bytes);
		first = must_alloc(size);
		for (int l = 0; l < N_LEVELS; l++)
			for (int cut = 0; cut < 3; cut++) {
				struct backend *be = open_level(levels[l], 1 + cut);

				if (!be)
					continue;
				memset(w.blocks, 0xa5, size);
				for (int32_t t = 0, to; t < s.n; t = to) {
					to = cut ? t + 1 + below(cut == 1 ? 20 : 3) : s.n;
					to = MIN(to, s.n);
					select_blocks(be, &w, t, to, share);
				}
				if (!cut)
					memcpy(first, w.blocks, size);
				CHECK_MSG(!memcmp(first, w.blocks, size), "%s, cut %d: %s", levels[l], cut,
				          describe(&s));
				for (int32_t t = 0; !cut && t < s.n; t++)
					for (int32_t h = 0; h < s.n_head; h++) {
						check_set(&w, t, h, (double)share, levels[l]);
						for (int32_t b = 0; b <= (s.n_rows[0] - s.n + t) / READ_BLOCK;
						     b++, there++)
							read += world_reads(&w, t, h, b * READ_BLOCK);
					}
				finish(be);
			}
		free(first);
		world_free(&w);
	}
	test_note("%.0f %% of the blocks are read", 100 * (double)read / (double)there);
}

/* If an estimate is not finite, its query reads every block and other queries are unchanged. */
TEST(what_is_not_finite_reads_everything)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY, -NAN };

	for (int l = 0; l < N_LEVELS; l++)
		for (int i = 0; i < 8; i++) {
			struct shape s = { 4, 2, 64, 900, 3, DT_F32, 1, { 900 }, { 0 }, 5, .prompt = 1 };
			struct backend *be = open_level(levels[l], 2);
			struct world w;

			if (!be)
				continue;
			w = world_new(&s);
			blocks_random(&w);
			if (i < 4)
				w.q[0][4 * 64 + 70] = bad[i]; /* query of token 1, head 1 */
			else
				((float *)w.kb)[300 * 64 + 5] = bad[i - 4]; /* a key that heads 0 and 1 read */
			select_blocks(be, &w, 0, 3, 0.5f);
			for (int32_t t = 0; t < 3; t++)
				for (int32_t h = 0; h < 4; h++) {
					int32_t read = 0, hit = i < 4 ? t == 1 && h == 1 : h < 2;

					for (int32_t b = 0; b < 15; b++)
						read += world_reads(&w, t, h, b * READ_BLOCK);
					CHECK_MSG((read == 15) == hit, "%s, %g, token %d, head %d: %d blocks",
					          levels[l], (double)bad[i % 4], (int)t, (int)h, (int)read);
				}
			world_free(&w);
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
	struct shape s = { 4, 2, 64, 600, 2, DT_F16, 1, { 600 }, { 0 }, 1, .prompt = 1 };
	struct backend *be = open_level("c", 1);
	struct world w = world_new(&s);
	struct stage g;
	float got[2 * 256];

	blocks_random(&w);
	w.block_bytes = 1; /* 512 of 600 slots */
	g = stage_new(be, &w);
	stage_run(&g, 0, 2, NULL, got);
	refused(be, "wrong shape");
	select_blocks(be, &w, 0, 2, 0.5f);
	refused(be, "selection of blocks of 600 slots");
	w.block_bytes = 2;
	w.s.window = 100;
	g.args.window = 100;
	stage_run(&g, 0, 2, NULL, got);
	refused(be, "wrong shape");
	g.args.window = 0;
	select_blocks(be, &w, 0, 2, 1.5f);
	refused(be, "selection of blocks of 600 slots");
	select_blocks(be, &w, 0, 2, 0.5f);
	CHECK(be->ops->sync(be) == 0);
	stage_run(&g, 0, 2, NULL, got);
	CHECK(be->ops->sync(be) == 0);
	stage_free(&g);
	finish(be);
	world_free(&w);
}
