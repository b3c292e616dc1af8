/* tests/engine/t_select_policies.c - policies that retain every entry and read selected ones: which entries, how many, when they are selected anew,
 * and that nothing of it depends on threads, on calls that failed, or on what was there before.
 *
 * Two kinds of tests.  Some drive a selector alone over a cache of known keys and check its lists; others run a tiny
 * random model whose attention is peaked. */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/cache.h"
#include "tests/lib/mkgguf.h"
#include "tests/lib/predictor.h"
#include "tests/lib/scored.h"

/* ---- a selector over known keys ---- */

enum { DIM = 32 };

struct bench {
	struct backend *be;
	struct hparams hp;
	struct kv_store kv;
	struct policy par;
	struct selector sel;
	struct tensor q, raw, k;   /* f32 [n][cols] */
	float *keys;               /* [n][n_kv_head * DIM] */
	int32_t n;
};

static double freq[DIM / 2];   /* of rotary positions, radians per position */
static const struct arch test_arch = { .name = "test" };

static struct tensor new_tensor(struct backend *be, int32_t rows, int32_t cols)
{
	struct tensor t = { .type = DT_F32, .rows = rows, .cols = cols };

	if (be->ops->alloc(be, &t))
		test_skip("no memory: %s", be->err);
	return t;
}

static void bench_open(struct bench *b, const char *policy, int32_t n_layer, int32_t group, int32_t n_kv_head, int32_t cap, int own)
{
	struct err err = { 0 };
	char why[160];

	memset(b, 0, sizeof *b);
	if (backend_open(&b->be, "cpu", &(struct backend_options){ .threads = 2 }, why))
		test_skip("%s", why);
	b->hp = (struct hparams){ .arch = &test_arch, .n_layer = n_layer, .n_head = group * n_kv_head, .n_kv_head = n_kv_head,
	                          .head_dim = DIM, .n_rope = 1, .rope = { { .dims = DIM, .freq = freq, .mscale = 1 } } };
	for (int i = 0; i < DIM / 2; i++)
		freq[i] = pow(10000, -2.0 * i / DIM);
	layer_specs_plain(&b->hp);
	if (policy_parse(&b->par, policy, &err) || kv_init(&b->kv, b->be, &b->hp, DT_F32, &(struct kv_shape){ .cap = cap, .ctx = cap, .step = cap }, &err) ||
	    select_open(&b->sel, &b->par, &b->kv, own, &err))
		test_skip("%s: %s", policy, err.msg);
	b->q = new_tensor(b->be, 64, b->hp.n_head * DIM);
	b->raw = new_tensor(b->be, 64, b->hp.n_head * DIM);
	b->k = new_tensor(b->be, cap, n_kv_head * DIM);
	b->keys = calloc((size_t)cap, (size_t)n_kv_head * DIM * sizeof *b->keys);
}

static void bench_close(struct bench *b)
{
	CHECK_MSG(!b->be->ops->sync(b->be), "%s", b->be->err);
	b->be->ops->drop(b->be, &b->q);
	b->be->ops->drop(b->be, &b->raw);
	b->be->ops->drop(b->be, &b->k);
	select_close(&b->sel);
	kv_release(&b->kv);
	b->be->ops->close(b->be);
	free(b->hp.spec);
	free(b->keys);
}

/* Entries b->n .. b->n + n come from b->keys, in all layers. */
static void put_rows(struct bench *b, int32_t n)
{
	size_t width = (size_t)b->hp.n_kv_head * DIM;

	b->be->ops->write(b->be, &b->k, 0, b->keys + (size_t)b->n * width, (size_t)n * width * sizeof *b->keys);
	for (int32_t l = 0; l < b->hp.n_layer; l++) {
		kv_put(&b->kv, l, &b->k, &b->k, b->n, n);
		if (b->sel.ops->note)
			b->sel.ops->note(&b->sel, l, b->n, n);
	}
	b->n += n;
}

static void random_keys(struct bench *b, int32_t from, int32_t n)
{
	size_t width = (size_t)b->hp.n_kv_head * DIM;

	for (size_t i = (size_t)from * width; i < (size_t)(from + n) * width; i++)
		b->keys[i] = test_randf(-2, 2);
}

static void set_query(struct bench *b, struct tensor *t, const float *x)
{
	b->be->ops->write(b->be, t, 0, x, (size_t)b->hp.n_head * DIM * sizeof *x);
}

static void random_query(struct bench *b, float *x)
{
	for (int32_t i = 0; i < b->hp.n_head * DIM; i++)
		x[i] = test_randf(-2, 2);
	set_query(b, &b->q, x);
	set_query(b, &b->raw, x);
}

/* The entries that one KV head reads, in order of reading. */
static int32_t listed(struct bench *b, const struct attn_part *part, int n_part, int32_t head, int32_t *rows)
{
	int32_t n = 0;

	for (int i = 0; i < n_part; i++) {
		if (part[i].slots)
			b->be->ops->read(b->be, part[i].slots, 4 * (size_t)head * (size_t)part[i].slots->cols, rows + n,
			                 4 * (size_t)part[i].n_slots);
		for (int32_t r = 0; !part[i].slots && r < part[i].n_slots; r++)
			rows[n + r] = part[i].slot0 + r;
		n += part[i].n_slots;
	}
	return n;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* No slot twice, none outside, the token's own among them. */
static void check_rows(const int32_t *rows, int32_t n, int32_t n_rows, const char *what)
{
	int32_t *r = malloc((size_t)n * sizeof *r);

	memcpy(r, rows, (size_t)n * sizeof *r);
	qsort(r, (size_t)n, sizeof *r, by_number);
	for (int32_t i = 1; i < n; i++)
		CHECK_MSG(r[i] > r[i - 1], "%s: slot %d twice", what, r[i]);
	CHECK_MSG(n > 0 && r[0] >= 0 && r[n - 1] == n_rows - 1, "%s: entries %d to %d of %d", what, n ? r[0] : -1,
	          n ? r[n - 1] : -1, n_rows);
	free(r);
}

/* Largest softmax probability of the group for each slot of one KV head, in double. */
static void true_scores(const struct bench *b, const float *q, int32_t head, int32_t n_rows, double *out)
{
	int32_t group = b->hp.n_head / b->hp.n_kv_head;
	double *s = calloc((size_t)n_rows, sizeof *s);

	for (int32_t i = 0; i < n_rows; i++)
		out[i] = 0;
	for (int32_t g = 0; g < group; g++) {
		const float *x = q + (size_t)(head * group + g) * DIM;
		double sum = 0;

		for (int32_t i = 0; i < n_rows; i++) {
			const float *k = b->keys + ((size_t)i * (size_t)b->hp.n_kv_head + (size_t)head) * DIM;

			s[i] = 0;
			for (int d = 0; d < DIM; d++)
				s[i] += (double)x[d] * (double)k[d];
			sum += s[i] = exp(s[i] / sqrt((double)DIM));
		}
		for (int32_t i = 0; i < n_rows; i++)
			out[i] = fmax(out[i], s[i] / sum);
	}
	free(s);
}

/* Is the list made of the top k slots, the last one given? */
static void check_best(const double *score, const int32_t *rows, int32_t k, int32_t n_rows, double slack)
{
	double worst_in = INFINITY, best_out = 0;
	char *in = calloc((size_t)n_rows, 1);

	for (int32_t i = 0; i < k; i++)
		in[rows[i]] = 1;
	for (int32_t i = 0; i < n_rows - 1; i++) {
		if (in[i])
			worst_in = fmin(worst_in, score[i]);
		else
			best_out = fmax(best_out, score[i]);
	}
	CHECK_MSG(worst_in * (1 + slack) >= best_out, "a slot of %g was selected before one of %g", worst_in, best_out);
	free(in);
}

static struct step decode_at(int32_t pos) { return (struct step){ .kind = STEP_GENERATE, .pos = pos, .n = 1, .tried = 1 }; }
static struct step read_of(int32_t pos, int32_t n) { return (struct step){ .kind = STEP_READ, .pos = pos, .n = n, .tried = n, .last = 1 }; }

static int choose(struct bench *b, const struct step *st, int32_t layer, struct attn_part *part)
{
	int n = b->sel.ops->select(&b->sel, st, layer, &b->q, &b->raw, b->n, part);

	kv_select(b->sel.kv, part, n);
	return kv_parts_met(&b->kv, part, n);
}

static void end_call(struct bench *b, const struct step *st)
{
	if (b->sel.ops->end)
		b->sel.ops->end(&b->sel, st, b->n);
}

TEST(sift_reads_the_top_entries)
{
	static const struct { const char *policy; double slack; } as[] = {
		{ "sift:k=24,bits=16,split=even", 1e-4 }, { "sift:k=24,bits=8,split=even", 0.2 }, { "sift:k=24,bits=4,split=even", 1e9 },
		{ "sift:k=24,split=even", 1e9 },
	};
	double found[4] = { 0 }, best[4] = { 0 };

	for (size_t c = 0; c < 4; c++) {
		struct attn_part part[SELECT_PARTS];
		struct bench b;
		float q[6 * DIM];
		int32_t rows[300];
		double score[300];

		bench_open(&b, as[c].policy, 2, 3, 2, 300, 1);
		random_keys(&b, 0, 300);
		put_rows(&b, 200);
		for (int32_t n = 200; n < 230; n++) {
			struct step st = decode_at(n);

			put_rows(&b, 1);
			random_query(&b, q);
			CHECK_INT(choose(&b, &st, n % 2, part), 1);
			for (int32_t h = 0; h < 2; h++) {
				CHECK_INT(listed(&b, part, 1, h, rows), 24);
				for (int i = 1; i < 24; i++)
					CHECK(rows[i] > rows[i - 1]);
				check_rows(rows, 24, b.n, as[c].policy);
				true_scores(&b, q, h, b.n, score);
				check_best(score, rows, 24, b.n, as[c].slack);
				for (int i = 0; i < 24; i++)
					found[c] += score[rows[i]];
				qsort(score, (size_t)b.n, sizeof *score, by_size);
				for (int i = 0; i < 24; i++)
					best[c] += score[i];
			}
			end_call(&b, &st);
		}
		bench_close(&b);
	}
	/* Fewer bits find nearly as much; the token's own slot is among the 24 whatever its score. */
	test_note("found by 16, 8, 4, 2 bits: %.4f, %.4f, %.4f, %.4f", found[0] / best[0], found[1] / best[1], found[2] / best[2],
	          found[3] / best[3]);
	CHECK(found[0] > 0.98 * best[0] && found[1] > 0.98 * best[1] && found[2] > 0.97 * best[2] && found[3] > 0.9 * best[3]);
}

TEST(a_region_without_the_token_itself_forces_no_slot)
{
	struct attn_part part[SELECT_PARTS];
	struct step st = decode_at(500);
	struct bench b;
	float q[4 * DIM];
	int32_t rows[64];
	double score[64];

	bench_open(&b, "sift:k=8,bits=16,split=even", 1, 2, 2, 64, 0);
	random_keys(&b, 0, 64);
	for (int i = 0; i < DIM; i++)
		b.keys[63 * 2 * DIM + i] = b.keys[63 * 2 * DIM + DIM + i] = 0;
	put_rows(&b, 64);
	random_query(&b, q);
	CHECK_INT(choose(&b, &st, 0, part), 1);
	for (int32_t h = 0; h < 2; h++) {
		CHECK_INT(listed(&b, part, 1, h, rows), 8);
		true_scores(&b, q, h, 64, score);
		check_best(score, rows, 8, 64, 1e-4);
		for (int i = 0; i < 8; i++)
			CHECK(rows[i] != 63);
	}
	bench_close(&b);
}

TEST(sets_serve_several_steps)
{
	struct attn_part part[SELECT_PARTS];
	struct bench b;
	float q[2 * DIM];
	int32_t rows[200], chosen[200];

	bench_open(&b, "sift:k=16,every=4,split=even", 1, 2, 1, 200, 1);
	random_keys(&b, 0, 200);
	put_rows(&b, 100);
	for (int32_t t = 0; t < 12; t++) {
		struct step st = decode_at(100 + t);
		int n_part;

		put_rows(&b, 1);
		random_query(&b, q);
		/* A call that fails leaves nothing behind: the same step is asked twice. */
		if (t % 3 == 1)
			choose(&b, &st, 0, part);
		n_part = choose(&b, &st, 0, part);
		end_call(&b, &st);
		/* Steps count from 0: the first has no set, then every fourth position selects. */
		int32_t since = (101 + t) % 4 && t ? t < 3 ? t : (101 + t) % 4 : 0;
		CHECK_INT(listed(&b, part, n_part, 0, rows), 16 + since);
		check_rows(rows, 16 + since, b.n, "sift:every=4");
		if (since)
			CHECK(!memcmp(rows, chosen, 16 * sizeof *rows));
		memcpy(chosen, rows, sizeof chosen);
	}
	bench_close(&b);
}

/* Two heads over twenty keys whose scores are given; the sets and their order are worked out by hand. */
TEST(refresh_selects_by_pooled_probability)
{
	static const struct { const char *policy; int32_t best_first[6], set[6]; } as[] = {
		{ "recycled:k=6,pool=7,stride=100", { 11, 9, 8, 14, 12, 10 }, { 8, 9, 10, 11, 12, 14 } },
		{ "recycled:k=6,pool=1,stride=100", { 11, 17, 4, 9, 18, 5 }, { 4, 5, 9, 11, 17, 18 } },
		{ "recycled:k=6,pool=1,stride=100,scan=kv", { 11, 17, 4, 9, 18, 5 }, { 4, 5, 9, 11, 17, 18 } },
	};

	for (size_t c = 0; c < 3; c++) {
		struct attn_part part[SELECT_PARTS];
		struct step st = read_of(0, 20);
		struct bench b;
		float q[2 * DIM] = { 0 };
		int32_t rows[40];

		/* own = 0: the toy forces no slot. */
		bench_open(&b, as[c].policy, 1, 2, 1, 40, 0);
		for (int j = 0; j < 20; j++)
			for (int h = 0; h < 2; h++)
				b.keys[j * DIM + h] = (float)((7 * j + 5 * h * j + 3 * h) % 13) / 4;
		q[0] = q[DIM + 1] = sqrtf(DIM);
		put_rows(&b, 20);
		b.be->ops->write(b.be, &b.q, 19 * sizeof q, q, sizeof q);
		b.sel.ops->seen(&b.sel, &st, 0, &b.q, &b.q, 20);
		end_call(&b, &st);
		st = decode_at(20);
		CHECK_INT(choose(&b, &st, 0, part), 1);
		CHECK_INT(listed(&b, part, 1, 0, rows), 6);
		for (int i = 0; i < 6; i++)
			CHECK_MSG(rows[i] == as[c].best_first[i], "%s: place %d has slot %d, expected %d", as[c].policy, i, rows[i],
			          as[c].best_first[i]);
		qsort(rows, 6, sizeof *rows, by_number);
		CHECK(!memcmp(rows, as[c].set, sizeof as[c].set));
		bench_close(&b);
	}
}

/* After every token that comes, the weakest entry of the set is dropped; those of generated tokens stay until there is nothing else. */
TEST(refresh_drops_the_weakest)
{
	struct attn_part part[SELECT_PARTS];
	struct step st = read_of(0, 50);
	struct bench b;
	float q[2 * DIM];
	int32_t first[8], rows[200];

	bench_open(&b, "refresh:k=8,s=-2,qc=5,pool=1", 1, 2, 1, 200, 1);
	random_keys(&b, 0, 200);
	put_rows(&b, 50);
	random_query(&b, q);
	b.be->ops->write(b.be, &b.q, 49 * sizeof q, q, sizeof q);
	b.sel.ops->seen(&b.sel, &st, 0, &b.q, &b.q, 50);
	end_call(&b, &st);
	for (int32_t t = 1; t < 30; t++) {
		int32_t left = 8 - (t - 1) > 0 ? 8 - (t - 1) : 0, since = t < 9 ? t : 9;
		int n_part;

		st = decode_at(49 + t);
		put_rows(&b, 1);
		random_query(&b, q);
		n_part = choose(&b, &st, 0, part);
		end_call(&b, &st);
		CHECK_INT(listed(&b, part, n_part, 0, rows), left + since);
		CHECK_INT(left + since, 9);
		check_rows(rows, 9, b.n, "refresh:s=-2");
		if (t == 1)
			memcpy(first, rows, sizeof first);
		CHECK(!memcmp(first, rows, (size_t)left * sizeof *rows));
		for (int32_t i = 0; i < since; i++)
			CHECK_INT(rows[left + i], b.n - since + i);
	}
	bench_close(&b);
}

TEST(forced_slots_are_dropped_last)
{
	struct attn_part part[SELECT_PARTS];
	struct step st = read_of(0, 60);
	struct bench b;
	float q[2 * DIM];
	int32_t rows[80];

	bench_open(&b, "recycled:k=12,stride=100,sinks=2,recent=4", 1, 2, 1, 100, 1);
	random_keys(&b, 0, 100);
	put_rows(&b, 60);
	random_query(&b, q);
	b.be->ops->write(b.be, &b.q, 59 * sizeof q, q, sizeof q);
	b.sel.ops->seen(&b.sel, &st, 0, &b.q, &b.q, 60);
	end_call(&b, &st);
	for (int32_t t = 1; t < 7; t++) {
		int found = 0, n_part, n;

		st = decode_at(59 + t);
		put_rows(&b, 1);
		n_part = choose(&b, &st, 0, part);
		n = listed(&b, part, n_part, 0, rows);
		CHECK_INT(n, 13);
		for (int i = 0; i < n; i++)
			found += rows[i] < 2 || (rows[i] >= 56 && rows[i] < 60);
		CHECK_INT(found, 6);
		end_call(&b, &st);
	}
	bench_close(&b);
}

/* A layer selects anew when its query has drifted, and only at the steps where it is asked. */
TEST(refresh_asks_the_query)
{
	struct attn_part part[SELECT_PARTS];
	struct step st = read_of(0, 50);
	struct bench b;
	float q[2 * DIM] = { 0 };
	/* Direction of the mean query at each step after the read; the set is new where it differs at a multiple of 3. */
	static const int turn[] = { 0, 0, 1, 0, 1, 1, 1, 1, 0, 1, 0, 0, 0 };
	static const int fresh[] = { 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1 };

	bench_open(&b, "refresh:k=8,qc=3,s=0.5", 1, 2, 1, 200, 1);
	random_keys(&b, 0, 200);
	put_rows(&b, 50);
	q[0] = q[DIM] = 1;
	b.be->ops->write(b.be, &b.q, 49 * sizeof q, q, sizeof q);
	b.be->ops->write(b.be, &b.raw, 49 * sizeof q, q, sizeof q);
	b.sel.ops->seen(&b.sel, &st, 0, &b.q, &b.raw, 50);
	end_call(&b, &st);
	for (int t = 1; t < 13; t++) {
		int n_part;

		memset(q, 0, sizeof q);
		q[turn[t]] = q[DIM + turn[t]] = 1;
		set_query(&b, &b.q, q);
		set_query(&b, &b.raw, q);
		st = decode_at(49 + t);
		put_rows(&b, 1);
		if (t == 6)
			choose(&b, &st, 0, part);   /* a call that failed */
		n_part = choose(&b, &st, 0, part);
		end_call(&b, &st);
		CHECK_MSG((n_part == 1) == fresh[t], "step %d: %d parts", t, n_part);
	}
	bench_close(&b);
}

TEST(quest_reads_whole_pages)
{
	static const struct { const char *kv; int32_t page; int raw; } as[] = {
		{ "quest:k=96", 16, 0 }, { "quest:k=96,bound=raw", 16, 1 }, { "quest:k=96,page=8", 8, 0 }, { "quest:k=96,page=8,bound=raw", 8, 1 },
		{ "quest:k=160,page=32", 32, 0 }, { "quest:k=96,page=32,bound=raw", 32, 1 }, { "quest:k=256,page=64,bound=raw", 64, 1 },
		{ "quest:k=256,page=64", 64, 0 },
	};

	for (size_t c = 0; c < sizeof as / sizeof *as; c++) {
		const char *kv = as[c].kv;
		int32_t page = as[c].page, k = strstr(kv, "k=96") ? 96 : strstr(kv, "k=160") ? 160 : 256;
		struct attn_part part[SELECT_PARTS];
		struct bench b;
		float q[4 * DIM];
		int32_t rows[400];

		bench_open(&b, kv, 3, 2, 2, 430, 1);
		random_keys(&b, 0, 430);
		put_rows(&b, 300);
		for (int32_t n = 300; n < 400; n++) {
			struct step st = decode_at(n);
			int32_t want = k - page + n % page + 1;

			put_rows(&b, 1);
			random_query(&b, q);
			CHECK_INT(choose(&b, &st, 2, part), 1);
			for (int32_t h = 0; h < 2; h++) {
				CHECK_INT(listed(&b, part, 1, h, rows), want);
				check_rows(rows, want, b.n, kv);
				for (int i = 0; i < want; i++)
					CHECK(rows[i] % page == i % page && (!i || rows[i] > rows[i - 1]));
				/* The first page, and all of the newest 49 slots. */
				if (!as[c].raw)
					CHECK(rows[0] == 0 && rows[want - 49] == n - 48);
			}
			CHECK_INT(choose(&b, &st, 0, part), 1);
			CHECK_MSG((part[0].slots == NULL) == as[c].raw, "%s: the first layer", kv);
			end_call(&b, &st);
		}
		bench_close(&b);
	}
}

TEST(the_split_follows_need)
{
	const double need[6] = { 1, 2, 3, 4, 5, 6 }, wide[4] = { 1, 1, 1, 1000 }, one[2] = { 5, 5 };
	int32_t k[8];
	int64_t sum = 0;

	select_split(k, need, 6, 700, 100000);
	for (int i = 0; i < 6; i++) {
		CHECK_INT(k[i], 200 * (i + 1));
		sum += k[i];
	}
	CHECK_INT(sum, 6 * 700);
	/* Between a quarter and three times the mean. */
	select_split(k, wide, 4, 400, 100000);
	CHECK_INT(k[3], 1200);
	CHECK_INT(k[0] + k[1] + k[2], 400);
	CHECK(k[0] >= 100 && k[1] >= 100 && k[2] >= 100);
	/* Never above the region; what it cannot use goes to the others. */
	select_split(k, wide, 4, 400, 500);
	CHECK_INT(k[3], 500);
	CHECK_INT(k[0] + k[1] + k[2], 1100);
	/* Everything fits, nothing is known, nonsense is known. */
	select_split(k, need, 6, 700, 600);
	CHECK(k[0] == 600 && k[5] == 600);
	select_split(k, NULL, 6, 700, 1000);
	CHECK(k[0] == 700 && k[5] == 700);
	select_split(k, (double[]){ 1, NAN }, 2, 70, 1000);
	CHECK(k[0] == 70 && k[1] == 70);
	select_split(k, one, 2, 1, 1000);
	CHECK(k[0] == 1 && k[1] == 1);
	for (int round = 0; round < 200; round++) {
		double any[8];
		int32_t mean = 1 + (int32_t)(test_rand() % 900), most = 1 + (int32_t)(test_rand() % 3000);

		for (int i = 0; i < 8; i++)
			any[i] = exp((double)test_randf(-4, 6));
		select_split(k, any, 8, mean, most);
		sum = 0;
		for (int i = 0; i < 8; i++) {
			CHECK(k[i] >= (mean < most ? mean / 4 : most) && k[i] >= 1 && k[i] <= most && k[i] <= 3 * mean);
			sum += k[i];
		}
		CHECK_MSG(sum == 8 * (int64_t)(mean < most ? mean : most), "mean %d, region %d: %lld", mean, most, (long long)sum);
	}
}

/* ---- published definitions, computed plainly ---- */

enum { READ = 64 };   /* tokens of the step that ends a prefill: rows of bench.q */

/* The last READ tokens of a prefill attend everything before them: their queries go to q [READ][n_head * DIM]. */
static void end_prefill(struct bench *b, float *q, struct tensor *out)
{
	struct attn_part part[SELECT_PARTS];
	const struct attn_probe *probe;
	struct step st = read_of(b->n, READ);

	put_rows(b, READ);
	for (int32_t i = 0; i < READ * b->hp.n_head * DIM; i++)
		q[i] = test_randf(-2, 2);
	b->be->ops->write(b->be, &b->q, 0, q, (size_t)READ * (size_t)b->hp.n_head * DIM * sizeof *q);
	select_whole(&b->q, b->n, part);
	probe = b->sel.ops->probe ? b->sel.ops->probe(&b->sel, &st, 0, b->n) : NULL;
	kv_attend(&b->kv, 0, out, part, 1, READ, probe);
	if (b->sel.ops->seen)
		b->sel.ops->seen(&b->sel, &st, 0, &b->q, &b->q, b->n);
	end_call(b, &st);
}

/* One generated token: what it reads of KV head h goes to rows[h], ascending.  Returns how much that is. */
static int32_t generate(struct bench *b, const float *q, struct tensor *out, int32_t rows[2][600])
{
	struct attn_part part[SELECT_PARTS];
	const struct attn_probe *probe;
	struct step st = decode_at(b->n);
	int32_t n = 0;
	int n_part;

	put_rows(b, 1);
	set_query(b, &b->q, q);
	n_part = choose(b, &st, 0, part);
	for (int32_t h = 0; h < 2; h++) {
		n = listed(b, part, n_part, h, rows[h]);
		qsort(rows[h], (size_t)n, sizeof **rows, by_number);
	}
	probe = b->sel.ops->probe ? b->sel.ops->probe(&b->sel, &st, 0, b->n) : NULL;
	kv_attend(&b->kv, 0, out, part, n_part, 1, probe);
	end_call(b, &st);
	return n;
}

/* The largest (or mean) probability of a group's heads on each listed slot; slots NULL: on the first n. */
static void group_row(const struct bench *b, const float *q, int32_t head, const int32_t *slots, int32_t n, int mean, double *out)
{
	int32_t group = b->hp.n_head / b->hp.n_kv_head;
	double *s = calloc((size_t)n, sizeof *s);

	memset(out, 0, (size_t)n * sizeof *out);
	for (int32_t g = 0; g < group; g++) {
		const float *x = q + (size_t)(head * group + g) * DIM;
		double sum = 0;

		for (int32_t i = 0; i < n; i++) {
			const float *k = b->keys + ((size_t)(slots ? slots[i] : i) * (size_t)b->hp.n_kv_head + (size_t)head) * DIM;

			s[i] = 0;
			for (int d = 0; d < DIM; d++)
				s[i] += (double)x[d] * (double)k[d];
			sum += s[i] = exp(s[i] / sqrt((double)DIM));
		}
		for (int32_t i = 0; i < n; i++)
			out[i] = mean ? out[i] + s[i] / sum / group : fmax(out[i], s[i] / sum);
	}
	free(s);
}

/* The k best of n scores after pooling, ascending. */
static void pooled_best(const double *x, int32_t n, int32_t k, int32_t pool, int average, int32_t *out)
{
	struct scored *all = calloc((size_t)n, sizeof *all);

	scored_pool(x, n, pool, average, all);
	for (int32_t i = 0; i < k; i++)
		out[i] = all[i].slot;
	qsort(out, (size_t)k, sizeof *out, by_number);
	free(all);
}

static int32_t in_common(const int32_t *a, const int32_t *b, int32_t n)
{
	int32_t both = 0;

	for (int32_t i = 0, j = 0; i < n && j < n; )
		if (a[i] == b[j])
			both++, i++, j++;
		else if (a[i] < b[j])
			i++;
		else
			j++;
	return both;
}

/* SnapKV and RefreshKV at pools of all widths: the set that the first generated token reads. */
TEST(sets_follow_pools_of_any_width)
{
	static const struct { const char *policy; int32_t window, pool; int average; } as[] = {
		{ "snapkv:k=96,pool=1", 32, 1, 0 }, { "snapkv:k=96,pool=9", 32, 9, 0 }, { "snapkv:k=96,pool=15,window=64", 64, 15, 0 },
		{ "snapkv:k=96,pool=31,window=1", 1, 31, 0 }, { "snapkv:k=96,pool=63", 32, 63, 0 }, { "snapkv:k=96,pool=21,kind=avg", 32, 21, 1 },
		{ "refresh:k=96,pool=1", 0, 1, 0 }, { "refresh:k=96,pool=17", 0, 17, 0 }, { "recycled:k=96,pool=63", 0, 63, 0 },
		{ "recycled:k=96,pool=31", 0, 31, 0 },
	};
	enum { BEFORE = 300, ALL = BEFORE + READ };

	for (size_t c = 0; c < sizeof as / sizeof *as; c++) {
		static float q[READ * 4 * DIM];
		static int32_t rows[2][600];
		static double sum[ALL], row[ALL];
		int32_t want[200], window = as[c].window, width = 4 * DIM;
		struct tensor out;
		struct bench b;

		bench_open(&b, as[c].policy, 1, 2, 2, 600, 1);
		out = new_tensor(b.be, READ, width);
		random_keys(&b, 0, 600);
		put_rows(&b, BEFORE);
		end_prefill(&b, q, &out);
		generate(&b, q, &out, rows);
		for (int32_t h = 0; h < 2; h++) {
			int32_t n = window ? ALL - window : ALL, k = 96 - window, first = window ? READ - window : READ - 1;

			memset(sum, 0, sizeof sum);
			for (int32_t i = first; i < READ; i++) {
				group_row(&b, q + i * width, h, NULL, BEFORE + i + 1, window > 1, row);
				for (int32_t j = 0; j <= BEFORE + i; j++)
					sum[j] += row[j];
			}
			pooled_best(sum, n, k, as[c].pool, as[c].average, want);
			/* refresh always selects the token's own slot, which may take the last place. */
			CHECK_MSG(in_common(rows[h], want, k) >= k - !window, "%s: %d of %d slots are those of the definition", as[c].policy,
			          in_common(rows[h], want, k), k);
		}
		b.be->ops->drop(b.be, &out);
		bench_close(&b);
	}
}

/* H2O+ by its definition: the mass of the last 64 tokens, which at the end are all generated ones. */
TEST(heavy_hitters_of_a_window_that_moves)
{
	enum { BEFORE = 150, STEPS_ON = 150, K = 48, HEAVY = K / 2, RECENT = K - HEAVY, MOST = 600 };
	static float q[READ * 4 * DIM];
	static int32_t rows[2][MOST];
	static double window[2][64][MOST], sum[2][MOST], row[MOST];
	int32_t heavy[2][HEAVY], width = 4 * DIM, oldest = 0, differ = 0, changed = 0;
	struct tensor out;
	struct bench b;

	bench_open(&b, "h2o+:k=48,dense=0", 1, 2, 2, MOST, 1);
	out = new_tensor(b.be, READ, width);
	random_keys(&b, 0, MOST);
	put_rows(&b, BEFORE);
	end_prefill(&b, q, &out);
	memset(window, 0, sizeof window);
	memset(sum, 0, sizeof sum);
	for (int32_t h = 0; h < 2; h++) {
		for (int32_t i = 0; i < 64; i++) {
			group_row(&b, q + (READ - 64 + i) * width, h, NULL, b.n - 63 + i, 0, window[h][i]);
			for (int32_t j = 0; j < b.n; j++)
				sum[h][j] += window[h][i][j];
		}
		pooled_best(sum[h], b.n - RECENT, HEAVY, 1, 0, heavy[h]);
	}
	for (int32_t t = 0; t < STEPS_ON; t++, oldest = (oldest + 1) % 64) {
		float x[4 * DIM];
		int32_t n, want[K + 1];

		for (int32_t i = 0; i < width; i++)
			x[i] = test_randf(-2, 2);
		n = generate(&b, x, &out, rows);
		CHECK_INT(n, K + 1);
		for (int32_t h = 0; h < 2; h++) {
			int32_t lightest = 0, offered = b.n - RECENT - 1;

			memcpy(want, heavy[h], sizeof heavy[h]);
			for (int32_t i = 0; i <= RECENT; i++)
				want[HEAVY + i] = b.n - 1 - RECENT + i;
			differ += memcmp(want, rows[h], sizeof want) != 0;
			group_row(&b, x, h, want, K + 1, 0, row);
			for (int32_t j = 0; j < b.n; j++)
				sum[h][j] -= window[h][oldest][j];
			memset(window[h][oldest], 0, sizeof window[h][oldest]);
			for (int32_t i = 0; i <= K; i++) {
				window[h][oldest][want[i]] = row[i];
				sum[h][want[i]] += row[i];
			}
			for (int32_t i = 1; i < HEAVY; i++)
				if (sum[h][heavy[h][i]] < sum[h][heavy[h][lightest]])
					lightest = i;
			if (sum[h][offered] < sum[h][heavy[h][lightest]])
				continue;
			changed++;
			memmove(heavy[h] + lightest, heavy[h] + lightest + 1, (size_t)(HEAVY - lightest - 1) * sizeof **heavy);
			heavy[h][HEAVY - 1] = offered;
		}
	}
	CHECK_MSG(!differ, "%d of %d lists differ from the definition", differ, 2 * STEPS_ON);
	CHECK_MSG(changed > 9, "only %d entries were admitted", changed);
	b.be->ops->drop(b.be, &out);
	bench_close(&b);
}

/* A vector of DIM values rotated by a position; values 2 i and 2 i + 1 are a pair. */
static void turn(const float *x, double pos, double *out)
{
	for (int i = 0; i < DIM / 2; i++) {
		double angle = pos * freq[i], a = (double)x[2 * i], c = (double)x[2 * i + 1];

		out[2 * i] = a * cos(angle) - c * sin(angle);
		out[2 * i + 1] = a * sin(angle) + c * cos(angle);
	}
}

/* StreamingLLM: scores are those of keys and a query that stand where they would within the cache. */
TEST(streaming_can_count_positions_within_the_cache)
{
	enum { SINKS = 4, SIZE = 20, ALL = 200 };
	static const char *const as[] = { "streaming++:size=20,stride=1000", "streaming++:size=20,stride=1000,positions=cache" };

	for (int c = 0; c < 2; c++) {
		static float raw[ALL][DIM];
		struct attn_part part[SELECT_PARTS];
		struct step st = decode_at(ALL - 1);
		float x[DIM], turned[DIM];
		double key[DIM], query[DIM], worst = 0;
		int rank = 0;
		struct bench b;

		bench_open(&b, as[c], 1, 1, 1, ALL, 1);
		for (int i = 0; i < ALL; i++) {
			for (int d = 0; d < DIM; d++)
				raw[i][d] = test_randf(-2, 2);
			turn(raw[i], i, key);
			for (int d = 0; d < DIM; d++)
				b.keys[i * DIM + d] = (float)key[d];
		}
		put_rows(&b, ALL);
		random_query(&b, x);
		turn(x, ALL - 1, query);
		for (int d = 0; d < DIM; d++)
			turned[d] = (float)query[d];
		set_query(&b, &b.q, turned);
		CHECK_INT(choose(&b, &st, 0, part), 2);
		CHECK_INT(part[0].n_slots, SINKS);
		CHECK_INT(part[1].n_slots, SIZE);
		for (int i = 0; i < 2; i++) {
			float got[DIM];

			b.be->ops->read(b.be, part[i].q, 0, got, sizeof got);
			for (int32_t slot = part[i].slot0; slot < part[i].slot0 + part[i].n_slots; slot++, rank++) {
				double want = 0, score = 0;

				turn(raw[slot], c ? rank : slot, key);
				turn(x, c ? SINKS + SIZE - 1 : ALL - 1, query);
				for (int d = 0; d < DIM; d++) {
					want += key[d] * query[d];
					score += (double)b.keys[slot * DIM + d] * (double)got[d];
				}
				worst = fmax(worst, fabs(score - want));
			}
		}
		CHECK_MSG(worst < 1e-3, "%s: a score is off by %g", as[c], worst);
		bench_close(&b);
	}
}

/* ---- a tiny random model ---- */

enum { N_VOCAB = 288, N_LAYER = 4, N_EMBD = 128, N_HEAD = 4, N_KV = 2, CTX = 512 };

/* The same weights in every test and engine. */
static void put_random(struct mk *m, uint64_t *seed, const char *name, int32_t rows, int32_t cols, float scale)
{
	size_t n = (size_t)rows * (size_t)cols;
	float *v = calloc(n, sizeof *v);

	for (size_t i = 0; i < n; i++) {
		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		v[i] = scale > 0 ? scale * ((float)(*seed >> 40) / (1 << 23) - 1) / sqrtf((float)cols) : 1;
	}
	mk_tensor(m, name, rows == 1 ? 1 : 2, (int64_t[]){ cols, rows }, 0, v, n * sizeof *v);
	free(v);
}

/* Weights like a trained model's, but queries and keys are larger: attention that is flat would hide what is not read. */
static struct engine *open_tiny(int threads)
{
	static const struct { const char *name; int32_t rows, cols; float scale; } layer[] = {
		{ "attn_norm", 1, N_EMBD, 0 }, { "attn_q", N_EMBD, N_EMBD, 3.5f }, { "attn_k", N_EMBD / 2, N_EMBD, 3.5f },
		{ "attn_v", N_EMBD / 2, N_EMBD, 1.7f }, { "attn_output", N_EMBD, N_EMBD, 1.7f }, { "ffn_norm", 1, N_EMBD, 0 },
		{ "ffn_gate", 64, N_EMBD, 1.7f }, { "ffn_up", 64, N_EMBD, 1.7f }, { "ffn_down", N_EMBD, 64, 1.7f },
	};
	const char *dir = getenv("TMPDIR");
	struct engine *e = NULL;
	struct str file = { 0 };
	struct err err = { 0 };
	struct mk m = { 0 };
	uint64_t seed = 1;
	char path[300], name[80];
	int fd, rc;

	mk_string(&m, "general.architecture", "llama");
	mk_u32(&m, "llama.block_count", N_LAYER);
	mk_u32(&m, "llama.context_length", CTX);
	mk_u32(&m, "llama.embedding_length", N_EMBD);
	mk_u32(&m, "llama.feed_forward_length", 64);
	mk_u32(&m, "llama.attention.head_count", N_HEAD);
	mk_u32(&m, "llama.attention.head_count_kv", N_KV);
	mk_f32(&m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
	mk_vocab(&m, N_VOCAB);
	put_random(&m, &seed, "token_embd.weight", N_VOCAB, N_EMBD, 8);
	put_random(&m, &seed, "output_norm.weight", 1, N_EMBD, 0);
	for (int l = 0; l < N_LAYER; l++)
		for (size_t i = 0; i < sizeof layer / sizeof layer[0]; i++) {
			snprintf(name, sizeof name, "blk.%d.%s.weight", l, layer[i].name);
			put_random(&m, &seed, name, layer[i].rows, layer[i].cols, layer[i].scale);
		}
	mk_finish(&m, &file);
	snprintf(path, sizeof path, "%s/weir-select-XXXXXX", dir && strlen(dir) < 200 ? dir : "/tmp");
	if ((fd = mkstemp(path)) < 0 || write(fd, file.p, file.n) != (ssize_t)file.n)
		test_skip("no temporary file");
	close(fd);
	str_free(&file);
	rc = engine_open(&e, &(struct engine_options){ .model_path = path, .threads = threads }, &err);
	unlink(path);
	if (rc)
		test_skip("cannot open the tiny model: %s", err.msg);
	predictor_put_for(e);
	return e;
}

static struct timeline *open_policy(struct engine *e, const char *kv, int32_t batch)
{
	struct timeline *t = NULL;
	struct err err = { 0 };

	if (timeline_open(&t, e, &(struct timeline_options){ .ctx = CTX, .kv = kv, .batch = batch }, &err))
		test_skip("%s: %s", kv, err.msg);
	return t;
}

static void random_ids(int32_t *id, size_t n)
{
	/* Words that come again, so that earlier tokens are worth attending. */
	for (size_t i = 0; i < n; i++)
		id[i] = 3 + (int32_t)(test_rand() % 40);
}

struct kept_logits { float *row; size_t n; };
static void keep(int32_t pos, const float *logits, void *ud)
{
	struct kept_logits *k = ud;

	memcpy(k->row + k->n++ * N_VOCAB, logits, N_VOCAB * sizeof *logits);
}

enum { PROMPT = 200, STEPS = 40 };
struct answer { float row[STEPS][N_VOCAB]; };

/* Read the prompt, then the rest as if generated. */
static void run_on(struct timeline *t, const int32_t *id, struct answer *out)
{
	struct kept_logits k = { .row = out->row[0] };
	struct err err = { 0 };

	CHECK_MSG(timeline_sync(t, id, PROMPT, NULL, NULL, &err) >= 0, "%s", err.msg);
	CHECK_MSG(!timeline_extend(t, id + PROMPT, STEPS, 1, keep, &k, &err), "%s", err.msg);
	CHECK_INT(k.n, STEPS);
}

static void run_policy(struct engine *e, const char *kv, const int32_t *id, struct answer *out)
{
	struct timeline *t = open_policy(e, kv, 0);

	run_on(t, id, out);
	timeline_close(t);
}

static int same(const struct answer *a, const struct answer *b)
{
	return !memcmp(a, b, sizeof *a);
}

static double difference(const struct answer *a, const struct answer *b)
{
	return test_nmse(a->row[0], b->row[0], (size_t)STEPS * N_VOCAB);
}

static struct answer full, got, other;

TEST(enough_entries_are_full_attention_bit_for_bit)
{
	static const char *const as[] = {
		"sift:k=240", "sift:k=240,bits=8,every=3", "sift:k=1/1", "refresh:k=240", "refresh:k=240,scan=kv,qc=0,stride=3",
		"recycled:k=240", "streaming++:size=240", "quest:k=240", "quest:k=240,bound=raw", "h2o:k=240", "h2o+:k=240",
		"snapkv:k=240", "snapkv:k=240,window=1,kind=avg", "predict:k=240", "predict:k=240,block=1,by=last",
		/* every step selects and reads everything */
		"refresh:k=16,qc=0,stride=1,scan=kv", "recycled:k=16,stride=1", "streaming++:size=16,stride=1", "refresh:k=16,qc=1,s=2,scan=kv",
		/* no layer selects */
		"sift:k=16,dense=4", "refresh:k=16,dense=4", "recycled:k=16,dense=5", "streaming++:size=16,dense=4,positions=cache", "quest:k=48,dense=4",
		"h2o:k=16,dense=4", "h2o+:k=16,dense=4", "snapkv:k=40,dense=4", "predict:k=64,dense=4",
	};
	struct engine *e = open_tiny(2);
	int32_t id[PROMPT + STEPS];

	random_ids(id, PROMPT + STEPS);
	run_policy(e, "full", id, &full);
	for (size_t i = 0; i < sizeof as / sizeof as[0]; i++) {
		run_policy(e, as[i], id, &got);
		CHECK_MSG(same(&got, &full), "%s differs from full by %g", as[i], difference(&got, &full));
	}
	engine_close(e);
}

static const char *const choosing[] = {
	"sift:k=24", "sift:k=16,sample=12", "sift:k=1/8,bits=4,split=even", "sift:k=24,bits=16", "sift:k=24,every=3", "sift:k=24,dense=1", "refresh:k=24",
	"refresh:k=1/8,scan=kv,query=post,group=mean", "refresh:k=24,qc=0,stride=4,group=first,sinks=2,recent=4",
	"refresh:k=24,s=-2", "refresh:k=24,update=no", "recycled:k=24,stride=5", "streaming++:size=24,stride=7",
	"quest:k=96", "quest:k=48,bound=raw", "h2o:k=24", "h2o+:k=24", "snapkv:k=40", "snapkv:k=24,window=1",
	"snapkv:k=80,window=64,pool=5,kind=avg", "snapkv:k=40,pool=63,dense=1", "refresh:k=24,dense=2,pool=15", "h2o:k=24,dense=1",
	"streaming++:size=24,stride=7,positions=cache,dense=1", "quest:k=96,dense=1", "quest:k=96,page=8", "quest:k=96,page=32,bound=raw",
	"quest:k=128,page=64,bound=raw",
	"predict:k=64,first=16,last=16,dense=0", "predict:k=24,block=1,first=2,last=4,by=mixed,rows=40,calibrate=3,dense=1",
};
enum { N_CHOOSING = sizeof choosing / sizeof choosing[0] };

/* Twice, with other threads, and in other chunks: the same bits. */
TEST(results_do_not_depend_on_threads_or_chunks)
{
	int32_t id[PROMPT + STEPS];
	struct engine *e[3];

	random_ids(id, PROMPT + STEPS);
	for (int i = 0; i < 3; i++)
		e[i] = open_tiny(i + 1);
	run_policy(e[0], "full", id, &full);
	for (size_t i = 0; i < N_CHOOSING; i++) {
		struct timeline *t;

		run_policy(e[0], choosing[i], id, &got);
		CHECK_MSG(!same(&got, &full), "%s reads everything", choosing[i]);
		CHECK_MSG(difference(&got, &full) < 1.5, "%s is far off: %g", choosing[i], difference(&got, &full));
		for (int j = 0; j < 3; j++) {
			run_policy(e[j], choosing[i], id, &other);
			CHECK_MSG(same(&got, &other), "%s: %d threads", choosing[i], j + 1);
		}
		/* 128 + 72 tokens: the last call holds all that a policy observes (h2o adds in another order). */
		t = open_policy(e[1], choosing[i], 128);
		run_on(t, id, &other);
		timeline_close(t);
		CHECK_MSG(strstr(choosing[i], "h2o:") ? difference(&got, &other) < 1e-3 : same(&got, &other), "%s: chunks", choosing[i]);
	}
	for (int i = 0; i < 3; i++)
		engine_close(e[i]);
}

TEST(a_threshold_above_one_is_a_fixed_stride)
{
	struct engine *e = open_tiny(2);
	int32_t id[PROMPT + STEPS];

	random_ids(id, PROMPT + STEPS);
	run_policy(e, "refresh:k=24,qc=5,s=1.5", id, &got);
	run_policy(e, "recycled:k=24,stride=5,scan=k", id, &other);
	CHECK(same(&got, &other));
	run_policy(e, "refresh:k=24,qc=0,stride=5", id, &other);
	CHECK(same(&got, &other));
	/* As published, a step that selects reads everything. */
	run_policy(e, "recycled:k=24,stride=5", id, &got);
	CHECK(!same(&got, &other));
	run_policy(e, "refresh:k=24,qc=0,stride=5,scan=kv", id, &other);
	CHECK(same(&got, &other));
	run_policy(e, "refresh:k=24,qc=5,s=0", id, &other);
	CHECK(!same(&got, &other));
	/* Below -1 it is never done. */
	run_policy(e, "refresh:k=24,qc=5,s=-2", id, &got);
	run_policy(e, "refresh:k=24,update=no", id, &other);
	CHECK(same(&got, &other));
	run_policy(e, "recycled:k=24,stride=41", id, &other);
	CHECK(same(&got, &other));
	engine_close(e);
}

/* The first generated token reads the same entries under both; afterwards one grows and the other drops its weakest. */
TEST(refresh_that_never_comes_begins_as_snapkv)
{
	struct engine *e = open_tiny(2);
	int32_t id[PROMPT + STEPS];
	double first;

	random_ids(id, PROMPT + STEPS);
	run_policy(e, "refresh:k=24,s=-2,pool=1", id, &got);
	run_policy(e, "snapkv:k=24,window=1,pool=1", id, &other);
	first = test_nmse(got.row[0], other.row[0], N_VOCAB);
	CHECK_MSG(first < 1e-9, "the first token differs by %g", first);
	CHECK(difference(&got, &other) > 1e-6);
	engine_close(e);
}

/* Whatever was there before a rewind, the same as if it had never been. */
TEST(a_rewound_sequence_is_like_a_fresh_one)
{
	struct engine *e = open_tiny(2);
	int32_t id[PROMPT + STEPS], before[PROMPT + STEPS];
	struct err err = { 0 };

	random_ids(id, PROMPT + STEPS);
	for (size_t i = 0; i < N_CHOOSING; i++)
		/* Another end, another middle, the same prompt again, and one token less. */
		for (int way = 0; way < 4; way++) {
			struct timeline *t = open_policy(e, choosing[i], 0);
			size_t from = way == 0 ? 190 : way == 1 ? 77 : PROMPT, n = way == 3 ? PROMPT - 1 : PROMPT;

			memcpy(before, id, sizeof id);
			random_ids(before + from, PROMPT + STEPS - from);
			CHECK_MSG(timeline_sync(t, before, PROMPT, NULL, NULL, &err) >= 0, "%s", err.msg);
			CHECK_MSG(!timeline_extend(t, before + PROMPT, 9, 1, NULL, NULL, &err), "%s", err.msg);
			if (n < PROMPT)
				CHECK_MSG(timeline_sync(t, id, n, NULL, NULL, &err) >= 0, "%s", err.msg);
			run_on(t, id, &other);
			timeline_close(t);
			if (way == 3) {   /* two reads */
				t = open_policy(e, choosing[i], 0);
				CHECK_MSG(timeline_sync(t, id, n, NULL, NULL, &err) >= 0, "%s", err.msg);
				run_on(t, id, &got);
				timeline_close(t);
			} else if (!way) {
				run_policy(e, choosing[i], id, &got);
			}
			CHECK_MSG(same(&got, &other), "%s, way %d: %g", choosing[i], way, difference(&got, &other));
		}
	engine_close(e);
}

/* Turns of a conversation: every prefill attends everything and selects anew. */
TEST(several_reads_follow_one_another)
{
	static float a[N_VOCAB], b[N_VOCAB], f[N_VOCAB];
	struct engine *e = open_tiny(2);
	int32_t id[300];
	struct err err = { 0 };

	random_ids(id, 300);
	for (size_t i = 0; i < N_CHOOSING; i++)
		for (int twice = 0; twice < 2; twice++) {
			struct timeline *t = open_policy(e, choosing[i], 0), *whole = twice ? NULL : open_policy(e, "full", 0);
			struct kept_logits k;

			for (size_t at = 0; at < 300; at += 60) {
				CHECK_INT(timeline_sync(t, id, at + 50, NULL, NULL, &err), at);
				k = (struct kept_logits){ .row = twice ? b : a };
				for (size_t s = 0; s < 10; s++, k.n = 0)
					CHECK_MSG(!timeline_extend(t, id + at + 50 + s, 1, 1, keep, &k, &err), "%s: %s", choosing[i], err.msg);
			}
			if (whole) {
				CHECK_INT(timeline_sync(whole, id, 299, NULL, NULL, &err), 0);
				k = (struct kept_logits){ .row = f };
				CHECK(!timeline_extend(whole, id + 299, 1, 1, keep, &k, &err));
				CHECK_MSG(test_nmse(a, f, N_VOCAB) < 2, "%s is far off: %g", choosing[i], test_nmse(a, f, N_VOCAB));
			} else {
				CHECK_MSG(!memcmp(a, b, sizeof a), "%s: not the same twice", choosing[i]);
			}
			timeline_close(t);
			timeline_close(whole);
		}
	engine_close(e);
}

/* From the first token on, as if each had been generated: nothing was read, nothing was measured. */
TEST(a_sequence_may_begin_with_generated_tokens)
{
	struct engine *e = open_tiny(2);
	int32_t id[PROMPT];
	static float logits[PROMPT * N_VOCAB];

	random_ids(id, PROMPT);
	for (size_t i = 0; i < N_CHOOSING; i++) {
		struct timeline *t = open_policy(e, choosing[i], 0);
		struct kept_logits k = { .row = logits };
		struct err err = { 0 };

		CHECK_MSG(!timeline_extend(t, id, PROMPT, 1, keep, &k, &err), "%s: %s", choosing[i], err.msg);
		CHECK_INT(k.n, PROMPT);
		for (size_t j = 0; j < PROMPT * N_VOCAB; j++)
			if (!isfinite(logits[j])) {
				CHECK_MSG(0, "%s: not a number at token %zu", choosing[i], j / N_VOCAB);
				break;
			}
		timeline_close(t);
	}
	engine_close(e);
}

TEST(no_selection_recovers_more_than_the_oracle)
{
	struct engine *e = open_tiny(2);
	struct timeline *t = NULL;
	struct recovered r;
	struct err err = { 0 };
	int32_t id[PROMPT + STEPS];
	const char *all[N_CHOOSING + 2];

	random_ids(id, PROMPT + STEPS);
	run_policy(e, "full", id, &full);
	memcpy(all, choosing, sizeof choosing);
	all[N_CHOOSING] = "sift:k=300";
	all[N_CHOOSING + 1] = "sift:k=24,bits=16,split=even";
	if (timeline_open(&t, e, &(struct timeline_options){ .ctx = CTX, .watch = all, .n_watch = N_CHOOSING + 2 }, &err))
		test_skip("%s", err.msg);
	run_on(t, id, &got);
	CHECK_MSG(same(&got, &full), "watching changes the result");
	for (int i = 0; i < N_CHOOSING + 2; i++) {
		CHECK_INT(timeline_recovery(t, i, &r), 0);
		CHECK_INT(r.steps, STEPS);
		test_note("%-60s %.1f entries of %.1f: %.4f, oracle %.4f, sinks and newest %.4f", all[i], r.selected / STEPS, r.all / STEPS,
		          r.mass / STEPS, r.oracle / STEPS, r.recent / STEPS);
		CHECK_MSG(r.mass <= r.oracle * (1 + 1e-6) && r.mass > 0 && r.recent <= r.oracle * (1 + 1e-6), "%s", all[i]);
		CHECK(r.oracle <= STEPS * 1.0001 && r.selected <= r.all);
	}
	CHECK_INT(timeline_recovery(t, N_CHOOSING, &r), 0);
	CHECK_MSG(fabs(r.mass / STEPS - 1) < 1e-4 && r.selected == r.all, "everything holds %g", r.mass / STEPS);
	CHECK_INT(timeline_recovery(t, N_CHOOSING + 2, &r), -1);
	CHECK_INT(timeline_recovery(t, -1, &r), -1);
	timeline_close(t);
	CHECK(timeline_open(&t, e, &(struct timeline_options){ .ctx = CTX, .kv = "sift", .watch = all, .n_watch = 1 }, &err) < 0);
	CHECK_INT(err.code, ERR_USAGE);
	all[0] = "full";
	CHECK(timeline_open(&t, e, &(struct timeline_options){ .ctx = CTX, .watch = all, .n_watch = 1 }, &err) < 0);
	CHECK_INT(err.code, ERR_USAGE);
	t = open_policy(e, "full", 0);
	CHECK_INT(timeline_recovery(t, 0, &r), -1);
	timeline_close(t);
	engine_close(e);
}

TEST(settings_are_checked_and_named)
{
	static const char *const wrong[] = { "sift:bits=3", "sift:bits=", "sift:k=0", "sift:k=9/8", "snapkv:window=2", "refresh:pool=4", "snapkv:pool=65", "auto:pool=2",
	                                     "refresh:s=3", "recycled:qc=5", "quest:page=4", "quest:page=24", "quest:page=128", "sink:dense=1", "streaming++:size=0", "streaming++:positions=rank" };
	struct policy par;
	struct err err = { 0 };
	char text[160];

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		CHECK_MSG(kv_policy_check(wrong[i], &err) < 0 && err.code == ERR_USAGE, "%s was taken", wrong[i]);
	for (size_t i = 0; i < N_CHOOSING; i++) {
		char again[160];

		CHECK_MSG(!policy_parse(&par, choosing[i], &err), "%s", err.msg);
		policy_text(&par, text, sizeof text);
		CHECK(!policy_parse(&par, text, &err));
		policy_text(&par, again, sizeof again);
		CHECK_STR(again, text);
	}
	CHECK(!policy_parse(&par, "sift:bits=2,split=need,k=512", &err));
	policy_text(&par, text, sizeof text);
	CHECK_STR(text, "sift");
}

/* ---- the default model ---- */

struct losses { const int32_t *id; double sum; int32_t n_vocab; size_t n, at; };
static void lose(int32_t pos, const float *logits, void *ud)
{
	struct losses *l = ud;

	/* The logits after token pos speak about the next one. */
	if (++l->at < l->n)
		l->sum -= engine_logprob(logits, l->n_vocab, l->id[l->at]);
}

TEST(sift_keeps_what_the_default_model_knows)
{
	enum { LONG = 1500, SCORED = 64 };
	static const char *const as[] = { "full", "sift:k=512", "sift:k=192" };
	const char *path = test_model();
	size_t n;
	char *book = test_read(test_file("tests/vectors/books/kim.txt"), &n);
	struct engine *e = NULL;
	struct tokens ids = { 0 };
	struct err err = { 0 };
	double loss[3];

	if (!book || engine_open(&e, &(struct engine_options){ .model_path = path, .threads = 2 }, &err))
		test_skip("%s", book ? err.msg : "no book");
	CHECK(!engine_tokenize(e, book, n, 0, &ids, &err));
	CHECK(ids.n >= LONG + SCORED);
	for (size_t i = 0; i < 3 && ids.n >= LONG + SCORED; i++) {
		struct losses l = { .id = ids.id + LONG, .n_vocab = engine_info(e)->n_vocab, .n = SCORED };
		struct timeline *t = NULL;

		if (timeline_open(&t, e, &(struct timeline_options){ .ctx = 2048, .kv = as[i] }, &err))
			test_skip("%s", err.msg);
		CHECK(timeline_sync(t, ids.id, LONG, NULL, NULL, &err) == 0);
		CHECK_MSG(!timeline_extend(t, ids.id + LONG, SCORED, 1, lose, &l, &err), "%s", err.msg);
		loss[i] = l.sum / (SCORED - 1);
		timeline_close(t);
		test_note("%-28s nll %.4f, perplexity %+.2f %%", as[i], loss[i], 100 * (exp(loss[i] - loss[0]) - 1));
	}
	/* A window of 63 tokens says little about methods; that is measured elsewhere.  Here a broken selection would show. */
	CHECK(fabs(loss[1] - loss[0]) < 0.05);
	CHECK(fabs(loss[2] - loss[0]) < 0.15);
	tokens_free(&ids);
	free(book);
	engine_close(e);
}

/* Drafted tokens under watched policies: each is summed up as if it had come alone. */
TEST(drafted_tokens_are_recovered_one_by_one)
{
	struct engine *e = open_tiny(2);
	struct timeline *a = NULL, *b = NULL;
	struct timeline_options o = { .ctx = CTX, .watch = choosing, .n_watch = N_CHOOSING };
	struct recovered r, s;
	struct err err = { 0 };
	int32_t id[PROMPT + STEPS], at = PROMPT;

	random_ids(id, PROMPT + STEPS);
	CHECK(!timeline_open(&a, e, &o, &err) && !timeline_open(&b, e, &o, &err));
	CHECK(timeline_sync(a, id, PROMPT, NULL, NULL, &err) == 0 && timeline_sync(b, id, PROMPT, NULL, NULL, &err) == 0);
	while (at < PROMPT + STEPS) {
		const float *logits;
		int32_t n = timeline_verify(a, id + at, PROMPT + STEPS - at < 3 ? PROMPT + STEPS - at : 3, &logits, &err);

		CHECK_MSG(n > 0 && !timeline_accept(a, n, &err), "%d: %s", n, err.msg);
		CHECK(!timeline_extend(b, id + at, (size_t)n, 1, NULL, NULL, &err));
		at += n;
	}
	for (int i = 0; i < N_CHOOSING; i++) {
		CHECK(!timeline_recovery(a, i, &r) && !timeline_recovery(b, i, &s));
		CHECK_MSG(r.steps == s.steps && r.mass == s.mass && r.oracle == s.oracle && r.recent == s.recent && r.selected == s.selected &&
		          r.mean_row == s.mean_row && r.last_row == s.last_row && r.guesses == s.guesses,
		          "%s: %lld steps and %g, not %lld and %g", choosing[i], (long long)r.steps, r.mass, (long long)s.steps, s.mass);
	}
	timeline_close(a);
	timeline_close(b);
	engine_close(e);
}
