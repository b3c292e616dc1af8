/* tests/engine/t_selectors.c - selectors over a cache of known keys: which entries they list for a token, when a new
 * set is selected, and whether sets match the published definitions. */
#include "tests/lib/test.h"
#include "engine/policies/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/engine.h"
#include "tests/lib/scored.h"

/* ---- a selector over known keys ---- */

enum { DIM = 32 };

struct bench {
	struct backend *be;
	struct hparams hp;
	struct kv_store kv;
	struct policy par;
	struct selector sel;
	struct tensor q, raw, k; /* f32 [n][cols] */
	float *keys;             /* [n][n_kv_head * DIM] */
	int32_t n;
};

static double freq[DIM / 2]; /* rotary frequencies, radians per position */
static const struct arch test_arch = { .name = "test" };

static struct tensor new_tensor(struct backend *be, int32_t rows, int32_t cols)
{
	struct tensor t = { .type = DT_F32, .rows = rows, .cols = cols };

	if (be->ops->alloc(be, &t))
		test_skip("no memory: %s", be->err);
	return t;
}

static void bench_open(struct bench *b, const char *policy, int32_t n_layer, int32_t group, int32_t n_kv_head,
                       int32_t cap, int own)
{
	struct err err = { 0 };
	char why[160];

	memset(b, 0, sizeof *b);
	if (backend_open(&b->be, "cpu", &(struct backend_options){ .threads = 2 }, why))
		test_skip("%s", why);
	b->hp = (struct hparams){ .arch = &test_arch,
		                  .n_layer = n_layer,
		                  .n_head = group * n_kv_head,
		                  .n_kv_head = n_kv_head,
		                  .head_dim = DIM,
		                  .n_rope = 1,
		                  .rope = { { .dims = DIM, .freq = freq, .mscale = 1 } } };
	for (int i = 0; i < DIM / 2; i++)
		freq[i] = pow(10000, -2.0 * i / DIM);
	layer_specs_plain(&b->hp);
	if (policy_parse(&b->par, policy, &err) ||
	    kv_init(&b->kv, b->be, &b->hp, (struct kv_types){ DT_F32, DT_F32 },
	            &(struct kv_shape){ .cap = cap, .ctx = cap, .step = cap }, &err) ||
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

/* Append n entries to all layers, with the keys b->keys. */
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

/* Set rows[] to the slots that one KV head reads, in order of reading. Returns their number. */
static int32_t listed(struct bench *b, const struct attn_segment *seg, int n_seg, int32_t head, int32_t *rows)
{
	int32_t n = 0;

	for (int i = 0; i < n_seg; i++) {
		if (seg[i].slots)
			b->be->ops->read(b->be, seg[i].slots, 4 * (size_t)head * (size_t)seg[i].slots->cols, rows + n,
			                 4 * (size_t)seg[i].n_slots);
		for (int32_t r = 0; !seg[i].slots && r < seg[i].n_slots; r++)
			rows[n + r] = seg[i].slot0 + r;
		n += seg[i].n_slots;
	}
	return n;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* Check that no slot occurs twice, none is out of range, and the token's own slot is included. */
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

/* For each slot of one KV head, set out[] to the largest softmax probability among the query heads that share it, in
 * double. */
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

/* Check that the list has the top k slots; the last slot is always included. */
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

static struct step decode_at(int32_t pos)
{
	return (struct step){ .kind = STEP_GENERATE, .pos = pos, .n = 1, .tried = 1 };
}
static struct step read_of(int32_t pos, int32_t n)
{
	return (struct step){ .kind = STEP_READ, .pos = pos, .n = n, .tried = n, .last = 1 };
}

static int choose(struct bench *b, const struct step *st, int32_t layer, struct attn_segment *seg)
{
	int n = b->sel.ops->select(&b->sel, st, layer, &b->q, &b->raw, b->n, seg);

	kv_select(b->sel.kv, seg, n);
	return kv_segments_met(&b->kv, seg, n, NULL);
}

static void end_call(struct bench *b, const struct step *st)
{
	if (b->sel.ops->end)
		b->sel.ops->end(&b->sel, st, b->n);
}

TEST(sift_reads_the_top_entries)
{
	static const struct {
		const char *policy;
		double slack;
	} as[] = {
		{ "sift:k=24,bits=16,split=even", 1e-4 },
		{ "sift:k=24,bits=8,split=even", 0.2 },
		{ "sift:k=24,bits=4,split=even", 1e9 },
		{ "sift:k=24,split=even", 1e9 },
	};
	double found[4] = { 0 }, best[4] = { 0 };

	for (size_t c = 0; c < 4; c++) {
		struct attn_segment seg[SELECT_SEGMENTS];
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
			CHECK_INT(choose(&b, &st, n % 2, seg), 1);
			for (int32_t h = 0; h < 2; h++) {
				CHECK_INT(listed(&b, seg, 1, h, rows), 24);
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
	/* Sketches with fewer bits find nearly as much mass. */
	test_note("found by 16, 8, 4, 2 bits: %.4f, %.4f, %.4f, %.4f", found[0] / best[0], found[1] / best[1],
	          found[2] / best[2], found[3] / best[3]);
	CHECK(found[0] > 0.98 * best[0] && found[1] > 0.98 * best[1] && found[2] > 0.97 * best[2] &&
	      found[3] > 0.9 * best[3]);
}

TEST(a_region_without_the_token_itself_forces_no_slot)
{
	struct attn_segment seg[SELECT_SEGMENTS];
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
	CHECK_INT(choose(&b, &st, 0, seg), 1);
	for (int32_t h = 0; h < 2; h++) {
		CHECK_INT(listed(&b, seg, 1, h, rows), 8);
		true_scores(&b, q, h, 64, score);
		check_best(score, rows, 8, 64, 1e-4);
		for (int i = 0; i < 8; i++)
			CHECK(rows[i] != 63);
	}
	bench_close(&b);
}

/* Two heads over twenty keys with given scores; the expected sets were computed by hand. */
TEST(refresh_selects_by_pooled_probability)
{
	static const struct {
		const char *policy;
		int32_t best_first[6], set[6];
	} as[] = {
		{ "recycled:k=6,pool=7,stride=100", { 11, 9, 8, 14, 12, 10 }, { 8, 9, 10, 11, 12, 14 } },
		{ "recycled:k=6,pool=1,stride=100", { 11, 17, 4, 9, 18, 5 }, { 4, 5, 9, 11, 17, 18 } },
		{ "recycled:k=6,pool=1,stride=100,scan=kv", { 11, 17, 4, 9, 18, 5 }, { 4, 5, 9, 11, 17, 18 } },
	};

	for (size_t c = 0; c < 3; c++) {
		struct attn_segment seg[SELECT_SEGMENTS];
		struct step st = read_of(0, 20);
		struct bench b;
		float q[2 * DIM] = { 0 };
		int32_t rows[40];

		/* own = 0: no slot is forced into the set. */
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
		CHECK_INT(choose(&b, &st, 0, seg), 1);
		CHECK_INT(listed(&b, seg, 1, 0, rows), 6);
		for (int i = 0; i < 6; i++)
			CHECK_MSG(rows[i] == as[c].best_first[i], "%s: place %d has slot %d, expected %d", as[c].policy,
			          i, rows[i], as[c].best_first[i]);
		qsort(rows, 6, sizeof *rows, by_number);
		CHECK(!memcmp(rows, as[c].set, sizeof as[c].set));
		bench_close(&b);
	}
}

/* Each new token drops the weakest entry of the set. Entries of generated tokens are dropped only when no others are
 * left. */
TEST(refresh_drops_the_weakest)
{
	struct attn_segment seg[SELECT_SEGMENTS];
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
		int32_t left = 8 - (t - 1) > 0 ? 8 - (t - 1) : 0, since = MIN(t, 9);
		int n_seg;

		st = decode_at(49 + t);
		put_rows(&b, 1);
		random_query(&b, q);
		n_seg = choose(&b, &st, 0, seg);
		end_call(&b, &st);
		CHECK_INT(listed(&b, seg, n_seg, 0, rows), left + since);
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

/* A layer selects a new set if its query has drifted, but only at every third step. */
TEST(refresh_asks_the_query)
{
	struct attn_segment seg[SELECT_SEGMENTS];
	struct step st = read_of(0, 50);
	struct bench b;
	float q[2 * DIM] = { 0 };
	/* Direction of the mean query at each step after the prefill. A new set is expected at multiples of 3 if the
	 * direction has changed since the last selection. */
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
		int n_seg;

		memset(q, 0, sizeof q);
		q[turn[t]] = q[DIM + turn[t]] = 1;
		set_query(&b, &b.q, q);
		set_query(&b, &b.raw, q);
		st = decode_at(49 + t);
		put_rows(&b, 1);
		if (t == 6)
			choose(&b, &st, 0, seg); /* a call that failed */
		n_seg = choose(&b, &st, 0, seg);
		end_call(&b, &st);
		CHECK_MSG((n_seg == 1) == fresh[t], "step %d: %d parts", t, n_seg);
	}
	bench_close(&b);
}

TEST(quest_reads_whole_pages)
{
	/* clang-format off */
	static const struct { const char *kv; int32_t page; int raw; } as[] = {
		{ "quest:k=96", 16, 0 }, { "quest:k=96,bound=raw", 16, 1 }, { "quest:k=96,page=8", 8, 0 }, { "quest:k=96,page=8,bound=raw", 8, 1 },
		{ "quest:k=160,page=32", 32, 0 }, { "quest:k=96,page=32,bound=raw", 32, 1 }, { "quest:k=256,page=64,bound=raw", 64, 1 },
		{ "quest:k=256,page=64", 64, 0 },
	};
	/* clang-format on */

	for (size_t c = 0; c < LEN(as); c++) {
		const char *kv = as[c].kv;
		int32_t page = as[c].page, k = strstr(kv, "k=96") ? 96 : strstr(kv, "k=160") ? 160 : 256;
		struct attn_segment seg[SELECT_SEGMENTS];
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
			CHECK_INT(choose(&b, &st, 2, seg), 1);
			for (int32_t h = 0; h < 2; h++) {
				CHECK_INT(listed(&b, seg, 1, h, rows), want);
				check_rows(rows, want, b.n, kv);
				for (int i = 0; i < want; i++)
					CHECK(rows[i] % page == i % page && (!i || rows[i] > rows[i - 1]));
				/* The first page and the newest 49 slots are always read. */
				if (!as[c].raw)
					CHECK(rows[0] == 0 && rows[want - 49] == n - 48);
			}
			CHECK_INT(choose(&b, &st, 0, seg), 1);
			CHECK_MSG((seg[0].slots == NULL) == as[c].raw, "%s: the first layer", kv);
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
	/* Each layer gets between a quarter and three times the mean. */
	select_split(k, wide, 4, 400, 100000);
	CHECK_INT(k[3], 1200);
	CHECK_INT(k[0] + k[1] + k[2], 400);
	CHECK(k[0] >= 100 && k[1] >= 100 && k[2] >= 100);
	/* No layer gets more entries than the region has; the other layers get the entries that are left over. */
	select_split(k, wide, 4, 400, 500);
	CHECK_INT(k[3], 500);
	CHECK_INT(k[0] + k[1] + k[2], 1100);
	/* Three cases: everything fits; the needs are unknown (NULL); the needs are invalid. */
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
		CHECK_MSG(sum == 8 * (int64_t)(MIN(mean, most)), "mean %d, region %d: %lld", mean, most,
		          (long long)sum);
	}
}

/* ---- published definitions, computed plainly ---- */

enum { READ = 64 }; /* tokens of the last chunk of a prefill: rows of bench.q */

/* Run the last chunk of a prefill, READ tokens with random queries, which are also stored in q [READ][n_head * DIM]. */
static void end_prefill(struct bench *b, float *q, struct tensor *out)
{
	struct attn_segment seg[SELECT_SEGMENTS];
	const struct attn_probe *probe;
	struct step st = read_of(b->n, READ);

	put_rows(b, READ);
	for (int32_t i = 0; i < READ * b->hp.n_head * DIM; i++)
		q[i] = test_randf(-2, 2);
	b->be->ops->write(b->be, &b->q, 0, q, (size_t)READ * (size_t)b->hp.n_head * DIM * sizeof *q);
	select_whole(&b->q, b->n, seg);
	probe = b->sel.ops->probe ? b->sel.ops->probe(&b->sel, &st, 0, b->n) : NULL;
	kv_attend(&b->kv, 0, &(struct kv_call){ .out = out, .seg = seg, .n_seg = 1, .probe = probe }, READ);
	if (b->sel.ops->seen)
		b->sel.ops->seen(&b->sel, &st, 0, &b->q, &b->q, b->n);
	end_call(b, &st);
}

/* Decode a token. Sets rows[h] to the slots that KV head h reads, ascending. Returns their number. */
static int32_t generate(struct bench *b, const float *q, struct tensor *out, int32_t rows[2][600])
{
	struct attn_segment seg[SELECT_SEGMENTS];
	const struct attn_probe *probe;
	struct step st = decode_at(b->n);
	int32_t n = 0;
	int n_seg;

	put_rows(b, 1);
	set_query(b, &b->q, q);
	n_seg = choose(b, &st, 0, seg);
	for (int32_t h = 0; h < 2; h++) {
		n = listed(b, seg, n_seg, h, rows[h]);
		qsort(rows[h], (size_t)n, sizeof **rows, by_number);
	}
	probe = b->sel.ops->probe ? b->sel.ops->probe(&b->sel, &st, 0, b->n) : NULL;
	kv_attend(&b->kv, 0, &(struct kv_call){ .out = out, .seg = seg, .n_seg = n_seg, .probe = probe }, 1);
	end_call(b, &st);
	return n;
}

/* For each of n slots (NULL: the first n), set out[] to the attention of a token with queries q: the largest
 * probability among the query heads that share the KV head, or (mean) their mean. */
static void group_row(const struct bench *b, const float *q, int32_t head, const int32_t *slots, int32_t n, int mean,
                      double *out)
{
	int32_t group = b->hp.n_head / b->hp.n_kv_head;

	scored_row(q + (size_t)(head * group) * DIM, group, DIM, b->keys + (size_t)head * DIM,
	           (size_t)b->hp.n_kv_head * DIM, 1 / sqrt((double)DIM), slots, n, mean, out);
}

/* Set out[] to the k best slots after pooling of n scores, ascending. */
static void pooled_best(const double *x, int32_t n, int32_t k, int32_t pool, int32_t *out)
{
	struct scored *all = calloc((size_t)n, sizeof *all);

	scored_pool(x, n, pool, all);
	for (int32_t i = 0; i < k; i++)
		out[i] = all[i].slot;
	qsort(out, (size_t)k, sizeof *out, by_number);
	free(all);
}

static int32_t in_common(const int32_t *a, const int32_t *b, int32_t n)
{
	int32_t both = 0;

	for (int32_t i = 0, j = 0; i < n && j < n;)
		if (a[i] == b[j])
			both++, i++, j++;
		else if (a[i] < b[j])
			i++;
		else
			j++;
	return both;
}

/* SnapKV and RefreshKV with pools of many widths: the set that the first generated token reads. */
TEST(sets_follow_pools_of_any_width)
{
	/* clang-format off */
	static const struct { const char *policy; int32_t window, pool; } as[] = {
		{ "snapkv:k=96,pool=1", 32, 1 }, { "snapkv:k=96,pool=9", 32, 9 }, { "snapkv:k=96,pool=15,window=64", 64, 15 },
		{ "snapkv:k=96,pool=31,window=1", 1, 31 }, { "snapkv:k=96,pool=63", 32, 63 }, { "snapkv:k=96,pool=21", 32, 21 },
		{ "refresh:k=96,pool=1", 0, 1 }, { "refresh:k=96,pool=17", 0, 17 }, { "recycled:k=96,pool=63", 0, 63 },
		{ "recycled:k=96,pool=31", 0, 31 },
	};
	/* clang-format on */
	enum { BEFORE = 300, ALL = BEFORE + READ };

	for (size_t c = 0; c < LEN(as); c++) {
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
			int32_t n = window ? ALL - window : ALL, k = 96 - window,
				first = window ? READ - window : READ - 1;

			memset(sum, 0, sizeof sum);
			for (int32_t i = first; i < READ; i++) {
				group_row(&b, q + i * width, h, NULL, BEFORE + i + 1, window > 1, row);
				for (int32_t j = 0; j <= BEFORE + i; j++)
					sum[j] += row[j];
			}
			pooled_best(sum, n, k, as[c].pool, want);
			/* refresh always selects the token's own slot, so one other slot may be missing. */
			CHECK_MSG(in_common(rows[h], want, k) >= k - !window,
			          "%s: %d of %d slots are those of the definition", as[c].policy,
			          in_common(rows[h], want, k), k);
		}
		b.be->ops->drop(b.be, &out);
		bench_close(&b);
	}
}

/* H2O+ by its definition: the mass of the last 64 tokens, which at the end are all generated tokens. */
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
		pooled_best(sum[h], b.n - RECENT, HEAVY, 1, heavy[h]);
	}
	for (int32_t t = 0; t < STEPS_ON; t++, oldest = (oldest + 1) % 64) {
		float x[4 * DIM];
		int32_t n, want[K + 1];

		for (int32_t i = 0; i < width; i++)
			x[i] = test_randf(-3, 3);
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
			memmove(heavy[h] + lightest, heavy[h] + lightest + 1,
			        (size_t)(HEAVY - lightest - 1) * sizeof **heavy);
			heavy[h][HEAVY - 1] = offered;
		}
	}
	CHECK_MSG(!differ, "%d of %d lists differ from the definition", differ, 2 * STEPS_ON);
	CHECK_MSG(changed > 9, "only %d entries were admitted", changed);
	b.be->ops->drop(b.be, &out);
	bench_close(&b);
}
