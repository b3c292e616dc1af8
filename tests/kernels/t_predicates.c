/* tests/kernels/t_predicates.c - predicates that a backend evaluates (struct predicate), and the operation that sets
 * their flags (query_drift). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/attn.h"
#include "tests/lib/levels.h"

enum { HEADS = 4, KV = 2, DIM = 32, CAP = 128, ROWS = 100 };

static struct tensor random_tensor(struct backend *be, enum dtype type, int32_t rows, int32_t cols)
{
	float *x = must_alloc((size_t)rows * (size_t)cols * sizeof *x);
	struct tensor t;

	for (int32_t i = 0; i < rows * cols; i++)
		x[i] = test_randf(-1, 1);
	t = tensor_new(be, type, rows, cols, x);
	free(x);
	return t;
}

static struct tensor ints(struct backend *be, int32_t rows, int32_t cols, const int32_t *x)
{
	struct tensor t = { .type = DT_I32, .rows = rows, .cols = cols };

	CHECK_INT(be->ops->alloc(be, &t), 0);
	if (x)
		be->ops->write(be, &t, 0, x, 4 * (size_t)rows * (size_t)cols);
	return t;
}

static void drop_all(struct backend *be, struct tensor **t, size_t n)
{
	for (size_t i = 0; i < n; i++)
		be->ops->drop(be, t[i]);
	be->ops->close(be);
}

TEST(parts_are_read_when_their_condition_holds)
{
	struct backend *be = open_level("c", 2);
	const int32_t flags[2] = { 1, 0 };
	int32_t list[KV * 8];
	float got[HEADS * DIM], want[HEADS * DIM], mass_got[KV * CAP], mass_want[KV * CAP], weight = 1;
	struct tensor q = random_tensor(be, DT_F32, 1, HEADS * DIM), k = random_tensor(be, DT_F32, KV * CAP, DIM),
		      v = random_tensor(be, DT_F32, KV * CAP, DIM), out = tensor_new(be, DT_F32, 1, HEADS * DIM, NULL),
		      flag = ints(be, 1, 2, flags), rows, mass = tensor_new(be, DT_F32, KV, CAP, NULL);
	struct tensor *all[] = { &q, &k, &v, &out, &flag, &rows, &mass };

	for (int i = 0; i < KV * 8; i++)
		list[i] = 3 * i % 60;
	rows = ints(be, KV, 8, list);
	for (int is = 0; is < 2; is++) {
		struct attn_segment seg[3] = {
			{ .q = &q, .slots = &rows, .n_slots = 8, .when = { &flag, is, 1 } },
			{ .q = &q, .slot0 = 10, .n_slots = 20, .when = { &flag, is, 0 } },
			{ .q = &q, .slot0 = 60, .n_slots = 40 },
		}, one[2] = { seg[is], seg[2] };
		/* The probe skips the slots of the segments with predicates, whether these segments are read or not. */
		struct attn_probe probe = { .mass = &mass, .weight = &weight, .reduce = REDUCE_MAX, .skip = 28 };
		struct attn_args a = { .out = &out,
			               .k = &k,
			               .v = &v,
			               .seg = seg,
			               .n_seg = 3,
			               .n_head = HEADS,
			               .n_kv_head = KV,
			               .head_dim = DIM,
			               .cap = CAP,
			               .scale = 0.2f,
			               .probe = &probe };

		memset(mass_got, 0, sizeof mass_got);
		be->ops->write(be, &mass, 0, mass_got, sizeof mass_got);
		be->ops->attn(be, &a, 1);
		be->ops->read(be, &out, 0, got, sizeof got);
		be->ops->read(be, &mass, 0, mass_got, sizeof mass_got);
		one[0].when.flag = NULL;
		a.seg = one;
		a.n_seg = 2;
		probe.skip = one[0].n_slots;
		memset(mass_want, 0, sizeof mass_want);
		be->ops->write(be, &mass, 0, mass_want, sizeof mass_want);
		be->ops->attn(be, &a, 1);
		be->ops->read(be, &out, 0, want, sizeof want);
		be->ops->read(be, &mass, 0, mass_want, sizeof mass_want);
		CHECK_MSG(be->ops->sync(be) == 0, "%s", be->err);
		CHECK(!memcmp(got, want, sizeof got));
		CHECK(!memcmp(mass_got, mass_want, sizeof mass_got));
		CHECK(mass_got[0] > 0);
	}
	/* Predicates are refused in a call with several tokens, because each token would need a separate decision. */
	be->ops->attn(be,
	              &(struct attn_args){
			      .out = &out,
			      .k = &k,
			      .v = &v,
			      .n_head = HEADS,
			      .n_kv_head = KV,
			      .head_dim = DIM,
			      .cap = CAP,
			      .seg = &(struct attn_segment){ .q = &q, .n_slots = 8, .when = { &flag, 0, 1 } },
			      .n_seg = 1 },
	              2);
	CHECK(be->ops->sync(be) < 0);
	/* A predicate whose flag is outside of its tensor. */
	be->ops->attn(be,
	              &(struct attn_args){
			      .out = &out,
			      .k = &k,
			      .v = &v,
			      .n_head = HEADS,
			      .n_kv_head = KV,
			      .head_dim = DIM,
			      .cap = CAP,
			      .seg = &(struct attn_segment){ .q = &q, .n_slots = 8, .when = { &flag, 2, 1 } },
			      .n_seg = 1 },
	              1);
	CHECK(be->ops->sync(be) < 0);
	drop_all(be, all, 7);
}

/* If a call has no probe, the backend must not use attn_met.probe, which is then uninitialised. */
TEST(conditions_leave_an_absent_probe_alone)
{
	int32_t flags[1] = { 1 };
	struct tensor flag = { .data = flags, .type = DT_I32, .rows = 1, .cols = 1 };
	struct attn_segment seg[2] = { { .n_slots = 8, .when = { &flag, 0, 0 } }, { .n_slots = 20 } };
	struct attn_args a = { .seg = seg, .n_seg = 2 };
	struct attn_met m, garbage;

	memset(&garbage, 0x80, sizeof garbage); /* `skip` would overflow */
	m = garbage;
	CHECK_INT(attn_segments_met(&m, &a), 0);
	CHECK_INT(m.a.n_seg, 1);
	CHECK_INT(m.a.seg[0].n_slots, 20);
	CHECK(!m.a.probe);
	CHECK(!memcmp(&m.probe, &garbage.probe, sizeof m.probe));
}

TEST(scans_and_selections_wait_for_their_condition)
{
	struct backend *be = open_level("c", 2);
	const int32_t flags[1] = { 1 };
	float mark[KV * CAP], got[KV * CAP];
	int32_t rows[KV * 8];
	struct tensor q = random_tensor(be, DT_F32, 1, HEADS * DIM), k = random_tensor(be, DT_F16, KV * CAP, DIM),
		      flag = ints(be, 1, 1, flags), out, list = ints(be, KV, 8, NULL);
	struct tensor *all[] = { &q, &k, &flag, &out, &list };

	for (int i = 0; i < KV * CAP; i++)
		mark[i] = (float)i;
	out = tensor_new(be, DT_F32, KV, CAP, mark);
	for (int is = 0; is < 2; is++) {
		be->ops->key_scan(be, &(struct scan_args){ .out = &out,
		                                           .q = &q,
		                                           .keys = &k,
		                                           .n_head = HEADS,
		                                           .n_kv_head = KV,
		                                           .head_dim = DIM,
		                                           .cap = CAP,
		                                           .n_slots = ROWS,
		                                           .bits = 16,
		                                           .scale = 0.2f,
		                                           .when = { &flag, 0, is } });
		be->ops->topk(be, &(struct topk_args){ .slots = &list,
		                                       .score = &out,
		                                       .n_kv_head = KV,
		                                       .n = ROWS,
		                                       .k = 8,
		                                       .pool = 1,
		                                       .when = { &flag, 0, is } });
		be->ops->read(be, &out, 0, got, sizeof got);
		be->ops->read(be, &list, 0, rows, sizeof rows);
		CHECK_INT(be->ops->sync(be), 0);
		CHECK_INT(!memcmp(got, mark, sizeof got), !is);
		CHECK_INT(rows[7] > 0, is);
	}
	drop_all(be, all, 5);
}

TEST(query_drift_matches_double)
{
	struct backend *be = open_level("c", 1);

	for (int round = 0; round < 200; round++) {
		enum { ROW = 2, COL = 1 };
		float x[3 * HEADS * DIM], y[4 * DIM], now[4 * DIM], same;
		int32_t turned;
		double ab = 0, aa = 0, bb = 0, c;
		struct tensor q, then, out = tensor_new(be, DT_F32, 4, DIM, NULL), flag = ints(be, 1, 2, NULL),
				       cosine = tensor_new(be, DT_F32, 1, 2, NULL);
		struct tensor *all[] = { &q, &then, &out, &flag, &cosine };

		for (int i = 0; i < 3 * HEADS * DIM; i++)
			x[i] = round == 7 ? 0 : test_randf(-1, 1);
		for (int d = 0; d < 4 * DIM; d++)
			y[d] = test_randf(-1, 1) + x[d % DIM + HEADS * DIM];
		q = tensor_new(be, DT_F32, 3, HEADS * DIM, x);
		then = tensor_new(be, DT_F32, 4, DIM, y);
		be->ops->query_drift(be, &(struct query_drift_args){ .now = &out,
		                                                     .q = &q,
		                                                     .q_row = 1,
		                                                     .row = ROW,
		                                                     .n_head = HEADS,
		                                                     .head_dim = DIM,
		                                                     .flag = &flag,
		                                                     .cosine = &cosine,
		                                                     .col = COL,
		                                                     .then = &then,
		                                                     .least = 0.5 });
		be->ops->read(be, &out, 0, now, sizeof now);
		be->ops->read(be, &flag, 4 * COL, &turned, 4);
		be->ops->read(be, &cosine, 4 * COL, &same, 4);
		CHECK_MSG(be->ops->sync(be) == 0, "%s", be->err);
		for (int d = 0; d < DIM; d++) {
			double sum = 0;

			for (int h = 0; h < HEADS; h++)
				sum += (double)x[(HEADS + h) * DIM + d];
			sum /= HEADS;
			CHECK(fabs(sum - (double)now[ROW * DIM + d]) < 1e-6 && now[d] == 0);
			ab += sum * (double)y[ROW * DIM + d];
			aa += sum * sum;
			bb += (double)y[ROW * DIM + d] * (double)y[ROW * DIM + d];
		}
		c = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
		CHECK_MSG(fabs(c - (double)same) < 1e-5, "round %d: cosine %g, expected %g", round, (double)same, c);
		if (fabs(c - 0.5) > 1e-4)
			CHECK_INT(turned, c <= 0.5);
		for (int i = 0; i < 5; i++)
			be->ops->drop(be, all[i]);
	}
	be->ops->close(be);
}
