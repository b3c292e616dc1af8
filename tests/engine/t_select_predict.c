/* tests/engine/t_select_predict.c - compares `predict` over known keys with its algorithm in double: the history of a
 * prefill, the rows of ordinary and of calibrating tokens, the network, the entries that are always read. Also tests
 * where networks are loaded from. */
#include "tests/lib/test.h"
#include "engine/policies/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "engine/cache/cache.h"
#include "tests/lib/predictor.h"

enum { DIM = 32, GROUP = 3, KV = 2, HEADS = GROUP * KV, LAYERS = 3, CAP = 260, READ = 150, MOST_ROWS = 64 };

static double freq[DIM / 2];
static const struct arch test_arch = { .name = "test" };

struct bench {
	struct backend *be;
	struct hparams hp;
	struct kv_store kv;
	struct policy par;
	struct selector sel;
	struct tensor q, out, k;
	float *keys; /* [CAP][KV * DIM], the same in all layers */
	int32_t n;
	int32_t block, rows, first, last, every, dense, k_;
	int by_net;
	struct predictor net;
	double hist[LAYERS][KV][MOST_ROWS][CAP]; /* oldest first */
};

static struct tensor new_tensor(struct backend *be, int32_t rows, int32_t cols)
{
	struct tensor t = { .type = DT_F32, .rows = rows, .cols = cols };

	if (be->ops->alloc(be, &t))
		test_skip("no memory: %s", be->err);
	return t;
}

static void bench_open(struct bench *b)
{
	struct err err = { 0 };
	char why[160], policy[200];

	if (backend_open(&b->be, "cpu", &(struct backend_options){ .threads = 2 }, why))
		test_skip("%s", why);
	b->hp = (struct hparams){ .arch = &test_arch,
		                  .n_layer = LAYERS,
		                  .n_head = HEADS,
		                  .n_kv_head = KV,
		                  .head_dim = DIM,
		                  .n_rope = 1,
		                  .rope = { { .dims = DIM, .freq = freq, .mscale = 1 } } };
	layer_specs_plain(&b->hp);
	predictor_put(0, b->block, b->rows, 7);
	predictor_random(&b->net, 7);
	snprintf(policy, sizeof policy, "predict:k=%d,block=%d,rows=%d,calibrate=%d,first=%d,last=%d,dense=%d,by=%s",
	         b->k_, b->block, b->rows, b->every, b->first, b->last, b->dense, b->by_net ? "net" : "mixed");
	if (policy_parse(&b->par, policy, &err) ||
	    kv_init(&b->kv, b->be, &b->hp, (struct kv_types){ DT_F32, DT_F32 },
	            &(struct kv_shape){ .cap = CAP, .ctx = CAP, .step = CAP }, &err) ||
	    select_open(&b->sel, &b->par, &b->kv, 1, &err))
		test_skip("%s: %s", policy, err.msg);
	b->q = new_tensor(b->be, READ, HEADS * DIM);
	b->out = new_tensor(b->be, READ, HEADS * DIM);
	b->k = new_tensor(b->be, CAP, KV * DIM);
	b->keys = calloc(CAP, KV * DIM * sizeof *b->keys);
	for (int i = 0; i < CAP * KV * DIM; i++)
		b->keys[i] = test_randf(-2, 2);
}

static void bench_close(struct bench *b)
{
	CHECK_MSG(!b->be->ops->sync(b->be), "%s", b->be->err);
	b->be->ops->drop(b->be, &b->q);
	b->be->ops->drop(b->be, &b->out);
	b->be->ops->drop(b->be, &b->k);
	select_close(&b->sel);
	kv_release(&b->kv);
	b->be->ops->close(b->be);
	free(b->hp.spec);
	free(b->keys);
}

static void put_keys(struct bench *b, int32_t n)
{
	b->be->ops->write(b->be, &b->k, 0, b->keys + (size_t)b->n * KV * DIM, (size_t)n * KV * DIM * sizeof *b->keys);
	for (int32_t l = 0; l < LAYERS; l++)
		kv_put(&b->kv, l, &b->k, &b->k, b->n, n);
	b->n += n;
}

/* Set out[] to the largest softmax probability among the query heads that share the KV head, computed over the slots
 * with in[slot] set. */
static void group_probability(const struct bench *b, const float *q, int head, int32_t n, const char *in, double *out)
{
	double s[CAP];

	for (int32_t i = 0; i < n; i++)
		out[i] = 0;
	for (int g = 0; g < GROUP; g++) {
		const float *x = q + (head * GROUP + g) * DIM;
		double sum = 0;

		for (int32_t i = 0; i < n; i++) {
			s[i] = 0;
			for (int d = 0; in[i] && d < DIM; d++)
				s[i] += (double)x[d] * (double)b->keys[(i * KV + head) * DIM + d];
			sum += s[i] = in[i] ? exp(s[i] / sqrt((double)DIM)) : 0;
		}
		for (int32_t i = 0; i < n; i++)
			out[i] = fmax(out[i], s[i] / sum);
	}
}

static void add_row(struct bench *b, int layer, int head, const double *p, int32_t n)
{
	double(*h)[CAP] = b->hist[layer][head];

	memmove(h[0], h[1], (size_t)(b->rows - 1) * sizeof h[0]);
	memset(h[b->rows - 1], 0, sizeof h[0]);
	for (int32_t i = 0; i < n; i++)
		h[b->rows - 1][i / b->block] = fmax(h[b->rows - 1][i / b->block], p[i]);
}

/* Set *out to the prediction of columns from .. to. */
static void predicted(const struct bench *b, int layer, int head, int32_t known, int32_t from, int32_t to, double *out)
{
	const double(*h)[CAP] = b->hist[layer][head];

	if (b->by_net) {
		predictor_double(&b->net, h[0] + from, b->rows, CAP, to - from, out);
		return;
	}
	for (int32_t x = from; x < to; x++) {
		double sum = 0;

		for (int32_t t = 0; t < b->rows; t++)
			sum += h[t][x];
		out[x - from] = 0.3 * h[b->rows - 1][x] + 0.7 * sum / known;
	}
}

/* Set in[slot] for the slots that one head reads. Returns their number. */
static int32_t slots_read(struct bench *b, const struct attn_segment *seg, int n_seg, int head, char *in)
{
	int32_t n = 0, list[CAP];

	memset(in, 0, CAP);
	for (int i = 0; i < n_seg; n += seg[i++].n_slots) {
		if (seg[i].slots)
			b->be->ops->read(b->be, seg[i].slots, 4 * (size_t)head * (size_t)seg[i].slots->cols, list,
			                 4 * (size_t)seg[i].n_slots);
		for (int32_t k = 0; k < seg[i].n_slots; k++) {
			int32_t slot = seg[i].slots ? list[k] : seg[i].slot0 + k;

			CHECK_MSG(slot >= 0 && slot < b->n && !in[slot], "slot %d of %d is read twice or not there",
			          slot, b->n);
			if (slot >= 0 && slot < CAP)
				in[slot] = 1;
		}
	}
	return n;
}

/* Check that the selected blocks have the best predictions. */
static void check_selection(struct bench *b, int layer, int head, int32_t known, const char *in, int32_t n)
{
	int32_t from = (b->first + b->block - 1) / b->block, last = MAX(b->last, 1), to = (b->n - last) / b->block;
	int32_t want = (b->k_ - from * b->block - last) / b->block, got = 0;
	double score[CAP], worst_in = INFINITY, best_out = -INFINITY;

	want = MAX(want, 1);
	CHECK_INT(n, (from + want) * b->block + b->n - to * b->block);
	for (int32_t i = 0; i < from * b->block; i++)
		CHECK_MSG(in[i], "entry %d is one of the first", i);
	for (int32_t i = to * b->block; i < b->n; i++)
		CHECK_MSG(in[i], "entry %d is one of the newest of %d", i, b->n);
	predicted(b, layer, head, known, from, to, score);
	for (int32_t x = from; x < to; x++) {
		for (int32_t i = 1; i < b->block; i++)
			CHECK_MSG(in[x * b->block + i] == in[x * b->block], "half of block %d", x);
		got += in[x * b->block];
		if (in[x * b->block])
			worst_in = fmin(worst_in, score[x - from]);
		else
			best_out = fmax(best_out, score[x - from]);
	}
	CHECK_INT(got, want);
	CHECK_MSG(worst_in > best_out - 2e-5 * (fabs(best_out) + 1), "a block of %g was selected, one of %g was not",
	          worst_in, best_out);
}

static void random_queries(struct bench *b, float *q, int32_t n)
{
	for (int32_t i = 0; i < n * HEADS * DIM; i++)
		q[i] = test_randf(-2, 2);
	b->be->ops->write(b->be, &b->q, 0, q, (size_t)n * HEADS * DIM * sizeof *q);
}

static void prefill(struct bench *b, int32_t n)
{
	static float q[READ * HEADS * DIM];
	struct step st = { .kind = STEP_READ, .pos = b->n, .n = n, .tried = n, .last = 1 };
	int32_t seen = MIN(n, b->rows);
	char all[CAP];
	double p[CAP];

	put_keys(b, n);
	random_queries(b, q, n);
	memset(all, 1, sizeof all);
	memset(b->hist, 0, sizeof b->hist);
	for (int l = 0; l < LAYERS; l++) {
		CHECK(!b->sel.ops->probe(&b->sel, &st, l, b->n));
		b->sel.ops->seen(&b->sel, &st, l, &b->q, &b->q, b->n);
		for (int h = 0; h < KV; h++)
			for (int32_t i = 0; i < seen; i++) {
				int32_t slots = b->n - (seen - 1 - i);

				group_probability(b, q + (n - seen + i) * HEADS * DIM, h, slots, all, p);
				add_row(b, l, h, p, slots);
			}
	}
	b->sel.ops->end(&b->sel, &st, b->n);
}

static void decode(struct bench *b, int32_t since, int32_t known)
{
	float q[HEADS * DIM];
	struct step st = { .kind = STEP_GENERATE, .pos = b->n, .n = 1, .tried = 1 };
	int calibrates = since % b->every == 0;
	char in[CAP], all[CAP];
	double p[CAP];

	put_keys(b, 1);
	random_queries(b, q, 1);
	memset(all, 1, sizeof all);
	for (int l = 0; l < LAYERS; l++) {
		struct attn_segment seg[SELECT_SEGMENTS];
		int n_seg = b->sel.ops->select(&b->sel, &st, l, &b->q, &b->q, b->n, seg);

		for (int h = 0; h < KV; h++) {
			int32_t n = slots_read(b, seg, n_seg, h, in);

			if (l < b->dense) {
				CHECK_INT(n, b->n);
				continue;
			}
			check_selection(b, l, h, known, in, n);
			group_probability(b, q, h, b->n, calibrates ? all : in, p);
			add_row(b, l, h, p, b->n);
		}
		kv_attend(&b->kv, l,
		          &(struct kv_call){ .out = &b->out,
		                             .seg = seg,
		                             .n_seg = n_seg,
		                             .probe = b->sel.ops->probe(&b->sel, &st, l, b->n) },
		          1);
		b->sel.ops->seen(&b->sel, &st, l, &b->q, &b->q, b->n);
	}
	b->sel.ops->end(&b->sel, &st, b->n);
}

TEST(it_selects_by_the_algorithm)
{
	static const struct {
		int32_t k, block, rows, first, last, every, dense;
		int by_net;
	} as[] = {
		{ 64, 16, 64, 16, 16, 5, 1, 1 }, { 48, 4, 16, 8, 12, 3, 0, 1 },   { 24, 1, 16, 3, 5, 4, 2, 1 },
		{ 64, 16, 16, 0, 0, 1, 0, 1 },   { 40, 8, 64, 5, 9, 1000, 1, 1 }, { 10, 8, 64, 8, 8, 5, 2, 1 },
		{ 40, 4, 30, 4, 8, 5, 0, 0 },    { 30, 1, 64, 4, 8, 2, 1, 0 },
	};
	static struct bench b;

	for (size_t i = 0; i < LEN(as); i++) {
		memset(&b, 0, sizeof b);
		b = (struct bench){ .k_ = as[i].k,
			            .block = as[i].block,
			            .rows = as[i].rows,
			            .first = as[i].first,
			            .last = as[i].last,
			            .every = as[i].every,
			            .dense = as[i].dense,
			            .by_net = as[i].by_net };
		bench_open(&b);
		prefill(&b, READ);
		for (int32_t n = 1; n <= 16; n++)
			decode(&b, n, b.rows);
		/* A prefill starts a new history with one row per token. */
		prefill(&b, 9);
		for (int32_t n = 1; n <= 6; n++)
			decode(&b, n, 9 + n - 1 < b.rows ? 9 + n - 1 : b.rows);
		bench_close(&b);
	}
}

/* ---- where networks come from ---- */

static int found(int32_t block, int32_t rows, struct err *err)
{
	struct predictor p;

	return predictor_find(&p, &(struct predictor_key){ 1234, block, rows }, err);
}

/* Overwrite the file of the network with the key { 1234, 4, 64 } by n bytes of `bytes`. */
static void spoil(const char *path, const char *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");

	if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
		test_skip("%s cannot be written", path);
}

TEST(a_file_is_taken_only_where_all_of_it_agrees)
{
	enum { KIND = 40 }; /* byte of older files that has the kind of network */
	const struct predictor_key key = { 1234, 4, 64 };
	struct predictor p, q;
	struct str path = { 0 };
	struct err err = { 0 };
	size_t n;
	char *bytes, *copy;
	float nan = NAN;

	predictor_home();
	CHECK(found(4, 64, &err) && err.code == ERR_USAGE && strstr(err.msg, "weir eval predictor train"));
	predictor_random(&p, 3);
	CHECK_MSG(!predictor_save(&p, &key, &path, &err), "%s", err.msg);
	CHECK_MSG(!predictor_find(&q, &key, &err) && !memcmp(&p, &q, sizeof p), "%s", err.msg);
	CHECK(found(16, 64, &err) && found(4, 63, &err));
	bytes = test_read(path.p, &n);
	CHECK_INT(n, 64 + 4833 * 4);
	copy = malloc(n + 1);
	for (size_t cut = 0; cut <= n + 1; cut += cut < 70 || cut > n - 3 ? 1 : 997) {
		memcpy(copy, bytes, MIN(cut, n));
		copy[n] = 0;
		if (cut == n)
			continue;
		CHECK_MSG(predictor_parse(&q, &key, copy, cut, "x", &err) == -1, "%zu of %zu bytes", cut, n);
	}
	for (size_t at = 0; at < n; at += at < 70 ? 1 : 501) {
		memcpy(copy, bytes, n);
		copy[at] ^= 1;
		CHECK_MSG(predictor_parse(&q, &key, copy, n, "x", &err) == -1 &&
		                  strstr(err.msg, at == KIND ? "a perceptron" : "damaged"),
		          "byte %zu", at);
	}
	/* Older versions also trained other kinds of networks: 1 = a perceptron, 2 = an LSTM. */
	memcpy(copy, bytes, n);
	copy[KIND] = 2;
	CHECK(predictor_parse(&q, &key, copy, n, "x", &err) == -1 &&
	      strstr(err.msg, "'x' holds a perceptron or an LSTM"));
	CHECK(predictor_parse(&q, &(struct predictor_key){ 1235, 4, 64 }, bytes, n, "x", &err) == -1);
	CHECK(predictor_parse(&q, &(struct predictor_key){ 1234, 8, 64 }, bytes, n, "x", &err) == -1);
	CHECK(predictor_parse(&q, &(struct predictor_key){ 1234, 4, 32 }, bytes, n, "x", &err) == -1);
	CHECK(!predictor_parse(&q, &key, bytes, n, "x", &err));
	/* A NaN weight is not stored, and is refused even with a right checksum. */
	q = p;
	memcpy(&q.w2[17], &nan, sizeof nan);
	CHECK(predictor_save(&q, &key, &path, &err) == -1);
	spoil(path.p, bytes, n - 1);
	CHECK(found(4, 64, &err) && err.code == ERR_FAIL && strstr(err.msg, path.p));
	spoil(path.p, bytes, n);
	CHECK(!found(4, 64, &err));
	remove(path.p);
	CHECK(!mkdir(path.p, 0700) && found(4, 64, &err) && err.code == ERR_FAIL);
	str_free(&path);
	free(bytes);
	free(copy);
}

/* The networks of the default model are installed and valid: a file with a NaN would be refused. */
TEST(those_of_the_default_model_are_installed)
{
	static const int32_t block[] = { 1, 4, 16 };

	predictor_home();
	for (size_t i = 0; i < LEN(block); i++) {
		const struct predictor_key key = { 0x291be31757f20c57u, block[i], 64 };
		struct predictor p;
		struct err err = { 0 };

		CHECK_MSG(!predictor_find(&p, &key, &err), "%s", err.msg);
	}
}

TEST(the_default_model_needs_no_file)
{
	static const char *const kv[] = { "predict:k=160,first=32,last=32,dense=20",
		                          "predict:k=64,block=4,first=16,last=16,dense=28",
		                          "predict:k=64,block=1,first=16,last=16,dense=28" };
	struct engine *e = NULL;
	struct err err = { 0 };
	int32_t id[300];

	predictor_home();
	if (engine_open(&e, &(struct engine_options){ .model_path = test_model(), .device = "cpu", .threads = 2 },
	                &err))
		test_skip("%s", err.msg);
	for (int i = 0; i < 300; i++)
		id[i] = 1000 + i * 37 % 20000;
	for (size_t i = 0; i < LEN(kv); i++) {
		struct timeline *tl = NULL;

		CHECK_MSG(!timeline_open(&tl, e, &(struct timeline_options){ .ctx = 320, .kv = kv[i] }, &err), "%s: %s",
		          kv[i], err.msg);
		CHECK_MSG(timeline_sync(tl, id, 280, NULL, NULL, &err) == 0, "%s", err.msg);
		CHECK_MSG(!timeline_extend(tl, id + 280, 8, 1, NULL, NULL, &err), "%s", err.msg);
		CHECK(timeline_logits(tl) && isfinite(timeline_logits(tl)[0]));
		timeline_close(tl);
	}
	/* There is no network for another block size or number of rows. */
	CHECK(timeline_open(&(struct timeline *){ NULL }, e,
	                    &(struct timeline_options){ .ctx = 320, .kv = "predict:block=8" }, &err) &&
	      strstr(err.msg, "--block 8"));
	engine_close(e);
}
