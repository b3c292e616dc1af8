/* tests/kernels/t_amx_attn.c - attention of prompts at the level amx has the bits of avx512. Where the processor lacks
 * AMX, its instructions are emulated (tests/lib/amx_emulator.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/amx_emulator.h"
#include "tests/lib/attn_ref.h"

static void need_amx(void)
{
	struct backend *be = open_level("avx512", 1);

	if (!be)
		SKIP("no AVX-512");
	finish(be);
	amx_emulate(AMX_RIGHT);
	CHECK_STR(backend_amx(), "yes");
}

/* A prompt's tokens with a head_dim of 64, 128 or 256, which AMX takes, or another one. */
static struct shape shape_of_round(int round)
{
	struct shape s = shape_of_few(round);

	s.prompt = 1;
	s.dim = (int[]){ 64, 128, 256, 64, 128, 96 }[round % 6];
	s.type = (enum dtype[]){ DT_F16, DT_Q8_0, DT_BF16, DT_F16 }[round % 4];
	s.n = 1 + below(round % 2 ? 60 : 12);
	s.n_rows[s.n_seg - 1] += s.n;
	s.cap += 100;
	return s;
}

/* Queries of which one value is far above the others: it becomes an integer near the largest one of 16 bits. */
static void peaks(const struct world *w)
{
	const struct shape *s = &w->s;

	for (int32_t i = 0; i < s->n * s->n_head; i++)
		for (int32_t j = 0; j < s->dim; j++)
			if (j != i % s->dim)
				w->q[0][i * s->dim + j] *= 1e-4f;
}

/* Each query reads every other block, and its own. */
static void blocks_some(struct world *w)
{
	const struct shape *s = &w->s;

	w->block_bytes = (s->n_rows[0] / READ_BLOCK + 8) / 8;
	w->blocks = must_alloc((size_t)(s->n * s->n_head * w->block_bytes));
	for (int32_t q = 0; q < s->n * s->n_head; q++)
		for (int32_t b = 0; b <= s->n_rows[0] / READ_BLOCK; b++)
			if (b % 2 == q % 2 || !b || b >= (s->n_rows[0] - s->n) / READ_BLOCK)
				w->blocks[q * w->block_bytes + b / 8] |= (uint8_t)(1 << b % 8);
}

/* Compute all tokens at a level; probed 1: mass [n_kv][cols] = the attention that each slot gets. */
static void attention(const char *level, int threads, const struct world *w, int probed, float *out, float *mass)
{
	const struct shape *s = &w->s;
	struct backend *be = open_level(level, threads);
	struct stage g = stage_new(be, w);
	struct tensor sum = tensor_new(be, DT_F32, s->n_kv, w->cols, NULL), spread = tensor_new(be, DT_F32, 1, 1, NULL);
	float *weight = must_alloc((size_t)s->n * sizeof *weight);

	for (int32_t i = 0; i < s->n; i++)
		weight[i] = 1;
	stage_run(&g, 0, s->n,
	          probed ? &(struct attn_probe){ .mass = &sum,
	                                         .weight = weight,
	                                         .reduce = REDUCE_MEAN,
	                                         .spread = &spread,
	                                         .share = 0.9f }
	                 : NULL,
	          out);
	be->ops->read(be, &sum, 0, mass, (size_t)(s->n_kv * w->cols) * 4);
	be->ops->drop(be, &sum);
	be->ops->drop(be, &spread);
	stage_free(&g);
	finish(be);
	free(weight);
}

TEST(prompts_have_the_bits_of_avx512)
{
	unsigned long before;

	need_amx();
	before = amx_emulated();
	for (int round = 0; round < test_rounds(48); round++) {
		struct shape s = shape_of_round(round);
		struct world w;
		size_t all, cols;
		float *want, *got, *mass[2];

		if (round % 8 == 5) {
			s.n_seg = 1;
			s.list[0] = s.window = 0;
			s.cap = s.n_rows[0] = s.n + 700;
		}
		w = world_new(&s);
		if (round % 8 == 5)
			blocks_some(&w);
		if (round % 8 == 3)
			peaks(&w);
		all = (size_t)(s.n * s.n_head * s.dim) * 4;
		cols = (size_t)(s.n_kv * w.cols) * 4;
		want = must_alloc(all);
		got = must_alloc(all);
		mass[0] = must_alloc(cols);
		mass[1] = must_alloc(cols);
		attention("avx512", 1, &w, round % 4 == 2, want, mass[0]);
		attention("amx", 1 + round % 2, &w, round % 4 == 2, got, mass[1]);
		CHECK_MSG(!memcmp(got, want, all), "%s", describe(&s));
		CHECK_MSG(!memcmp(mass[0], mass[1], cols), "mass of %s", describe(&s));
		world_free(&w);
		free(want);
		free(got);
		free(mass[0]);
		free(mass[1]);
	}
	CHECK(amx_native() || amx_emulated() > before);
	test_note("%lu instructions emulated", amx_emulated() - before);
}
