/* kernels/device_check.c - checks every operation of a device on random operands, by comparison with the CPU backend.
 *
 * The same calls run on both backends, with the same operands (struct trial). On the CPU, quantised weights are
 * converted to f32 first, because the CPU's own products of quantised weights round activations to 8 bits. So the
 * results of both backends differ by rounding only, and the check finds a single wrong element among a thousand. */
#include "kernels/device_check.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/common/quant.h"
#include "kernels/device_trial.h"

/* ---- operations ---- */

static void try_rows(struct trial *t)
{
	static const int32_t col[] = { 5, 0, 299, 64 }, row[] = { 6, 1, 3 },
			     relative[] = { 0, 0, 1, 1, 2, 3, 6, 4, 5, 5, 3, 3, 0 };
	static const float factor[] = { 0.5f, -2, 1.25f };
	const struct backend_ops *op = t->be->ops;
	struct tensor x = trial_floats(t, 7, 300), y = trial_floats(t, 7, 300), out = trial_zeros(t, DT_F32, 7, 300);
	struct tensor w = trial_floats(t, 1, 300), b = trial_floats(t, 1, 300), w60 = trial_floats(t, 1, 60),
		      table = trial_floats(t, 7, 40), scores = trial_zeros(t, DT_F32, 35, 7),
		      largest = trial_zeros(t, DT_F32, 7, LARGEST_COLS(20));

	op->copy(t->be, &out, 2, &x, 1, 4);
	trial_result(t, "copy", &out, 7, EXACT);
	op->columns(t->be, &out, &x, col, LEN(col));
	trial_result(t, "columns", &out, LEN(col), EXACT);
	op->largest(t->be, &largest, &x, 20, 7);
	trial_result(t, "largest", &largest, 7, EXACT);
	op->take_rows(t->be, &out, &x, row, LEN(row));
	trial_result(t, "take_rows", &out, LEN(row), EXACT);
	op->add_rows(t->be, &out, &x, row, factor, LEN(row));
	trial_result(t, "add_rows", &out, 7, NEAR);
	op->axpby(t->be, &y, 0.5f, &x, -2, 7);
	trial_result(t, "axpby", &y, 7, NEAR);
	op->rmsnorm(t->be, &out, &x, &w, 300, 1e-5f, 7);
	trial_result(t, "rmsnorm", &out, 7, NEAR);
	op->rmsnorm(t->be, &out, &x, &w60, 60, 1e-5f, 7);
	trial_result(t, "rmsnorm of heads", &out, 7, NEAR);
	op->layernorm(t->be, &out, &x, &w, &b, 1e-5f, 7);
	trial_result(t, "layernorm", &out, 7, NEAR);
	op->gelu(t->be, &out, 7);
	trial_result(t, "gelu", &out, 7, NEAR);
	op->relative(t->be,
	             &(struct relative_args){ .out = &scores,
	                                      .q = &x,
	                                      .k = &y,
	                                      .keys = &x,
	                                      .queries = &y,
	                                      .row = relative,
	                                      .n_head = 5,
	                                      .head_dim = 60,
	                                      .scale = 0.5f },
	             7);
	trial_result(t, "relative", &scores, 35, NEAR);
	for (int neox = 0; neox < 2; neox++) {
		op->rope(t->be, &out, &x, &table, 60, 40, neox, 7);
		trial_result(t, "rope", &out, 7, NEAR);
	}
	for (int kind = GATE_SILU; kind <= GATE_GELU; kind++) {
		struct tensor gate = trial_floats(t, 7, 300);

		op->gate(t->be, &x, &gate, (enum gate_kind)kind, 7);
		trial_result(t, "gate", &x, 7, NEAR);
	}
	trial_drop(t);
}

/* The experts of a few tokens, and of more tokens than a device computes in one launch. */
static void try_experts(struct trial *t)
{
	enum { N = 5, USED = 2 };
	static const int32_t tokens[] = { 1, 3, 20 };
	const struct backend_ops *op = t->be->ops;
	struct tensor score = trial_floats(t, 20, N), bias = trial_floats(t, 1, N), one = trial_floats(t, 20, 1),
		      x = trial_floats(t, 20, 64), out = trial_zeros(t, DT_F32, 20, 64),
		      route = trial_zeros(t, DT_F32, 20, ROUTE_COLS(USED)), in = trial_zeros(t, DT_F32, 20, 64),
		      part = trial_zeros(t, DT_F32, 20, 64), hidden = trial_zeros(t, DT_F32, 20, 96), table = { 0 };
	float host[20 * ROUTE_COLS(USED)], weight[20];
	struct expert expert[N + 1];
	int32_t token[20];

	for (int e = 0; e <= N; e++) {
		expert[e] = (struct expert){ .gate = trial_weight(t, DT_Q8_0, 96, 64, 0),
			                     .up = trial_weight(t, DT_Q8_0, 96, 64, 0),
			                     .down = trial_weight(t, DT_Q4_0, 64, 96, 0) };
		if (e < N)
			expert[e].up_bias = trial_floats(t, 1, 96);
	}
	op->expert_table(t->be, &table, expert, N);
	trial_hold(t, table, NULL);
	for (int i = 0; i < 6; i++) {
		int32_t n = tokens[i % 3];

		op->route(t->be,
		          &(struct route_args){ .out = &route,
		                                .score = &score,
		                                .bias = i % 2 ? &bias : NULL,
		                                .scale = i == 1 ? &bias : NULL,
		                                .shared = i == 2 ? &one : NULL,
		                                .n_used = USED,
		                                .whole = i < 3,
		                                .sigmoid = i == 5 },
		          n);
		trial_result(t, "route", &route, n, NEAR);
		op->experts(t->be,
		            &(struct experts_args){ .out = &out,
		                                    .x = &x,
		                                    .route = &route,
		                                    .expert = expert,
		                                    .shared = i < 4 ? &expert[N] : NULL,
		                                    .table = &table,
		                                    .n_expert = N,
		                                    .n_used = USED,
		                                    .act = (enum activation)(i % 3),
		                                    .hidden = &hidden,
		                                    .in = &in,
		                                    .part = &part,
		                                    .host = host,
		                                    .weight = weight,
		                                    .token = token },
		            n);
		trial_result(t, "experts", &out, n, NEAR);
	}
	trial_drop(t);
}

static void try_recurrent(struct trial *t)
{
	const struct backend_ops *op = t->be->ops;
	struct tensor in = trial_floats(t, 5, 3 * 40), u = trial_floats(t, 5, 40), w = trial_floats(t, 40, 4),
		      bias = trial_floats(t, 1, 40), state = trial_floats(t, 3, 40),
		      next = trial_zeros(t, DT_F32, 3, 40), out = trial_zeros(t, DT_F32, 5, 40);
	struct tensor qkv = trial_floats(t, 5, 2 * 2 * 16 + 4 * 8), alpha = trial_floats(t, 5, 4),
		      beta = trial_floats(t, 5, 4), decay = trial_tensor(t, DT_F32, 1, 4, -2, -0.1f),
		      dt = trial_floats(t, 1, 4);
	struct tensor s = trial_floats(t, 4 * 16, 8), s_next = trial_zeros(t, DT_F32, 4 * 16, 8),
		      y = trial_zeros(t, DT_F32, 5, 32), xbc = trial_floats(t, 5, 32 + 2 * 2 * 16);

	op->short_conv(t->be,
	               &(struct short_conv){
			       .out = &out, .in = &in, .w = &w, .state = &state, .next = &next, .taps = 4 },
	               5);
	trial_result(t, "short_conv", &out, 5, NEAR);
	op->short_conv(
		t->be,
		&(struct short_conv){
			.out = &out, .in = &u, .w = &w, .bias = &bias, .state = &state, .next = &next, .taps = 4 },
		5);
	trial_result(t, "short_conv", &out, 5, NEAR);
	trial_result(t, "short_conv", &next, 3, NEAR);
	op->delta_rule(t->be,
	               &(struct delta_rule){ .out = &y,
	                                     .qkv = &qkv,
	                                     .alpha = &alpha,
	                                     .beta = &beta,
	                                     .decay = &decay,
	                                     .dt = &dt,
	                                     .state = &s,
	                                     .next = &s_next,
	                                     .n_key_head = 2,
	                                     .n_value_head = 4,
	                                     .key_dim = 16,
	                                     .value_dim = 8 },
	               5);
	trial_result(t, "delta_rule", &y, 5, NEAR);
	trial_result(t, "delta_rule", &s_next, 4 * 16, NEAR);
	op->state_space(t->be,
	                &(struct state_space){ .out = &y,
	                                       .xbc = &xbc,
	                                       .step = &alpha,
	                                       .decay = &decay,
	                                       .bias = &dt,
	                                       .skip = &dt,
	                                       .state = &s,
	                                       .next = &s_next,
	                                       .n_head = 4,
	                                       .n_group = 2,
	                                       .state_dim = 16,
	                                       .head_dim = 8 },
	                5);
	trial_result(t, "state_space", &y, 5, NEAR);
	trial_result(t, "state_space", &s_next, 4 * 16, NEAR);
	trial_drop(t);
}

/* Try products of one, three and twenty tokens: a device may have a different kernel for each of these numbers. */
static void try_products(struct trial *t, enum dtype type)
{
	static const int32_t tokens[] = { 1, 3, 20 }, id[] = { 3, 0, 39 };
	const struct backend_ops *op = t->be->ops;
	struct tensor w = trial_weight(t, type, 40, 256, 0), gate = trial_weight(t, type, 40, 256, 0),
		      bias = trial_floats(t, 1, 40), x = trial_floats(t, 20, 256), out = trial_floats(t, 20, 40),
		      table = trial_weight(t, type, 40, 256, 1), rows = trial_zeros(t, DT_F32, LEN(id), 256);
	char name[48];

	for (size_t i = 0; i < LEN(tokens); i++) {
		struct matmul m[] = { { .out = &out, .w = &w, .bias = &bias, .accumulate = i == 1 } };

		snprintf(name, sizeof name, "matmul of %s", dtype_info(type)->name);
		op->matmul(t->be, m, 1, &x, tokens[i]);
		trial_result(t, name, &out, tokens[i], NEAR);
		snprintf(name, sizeof name, "matmul_glu of %s", dtype_info(type)->name);
		op->matmul_glu(t->be, &out, &(struct matmul_glu){ .gate = &gate, .up = &w, .act = (int)type % 2 }, &x,
		               tokens[i]);
		trial_result(t, name, &out, tokens[i], NEAR);
	}
	op->embed(t->be, &rows, &table, id, LEN(id));
	snprintf(name, sizeof name, "embed of %s", dtype_info(type)->name);
	trial_result(t, name, &rows, LEN(id), NEAR);
	trial_drop(t);
}

enum { CAP = 320, FILLED = 300, HEADS = 4, KV_HEADS = 2, DIM = 64 };

/* Return a plane of random keys or values of a type, written by kv_put(). */
static struct tensor plane_put(struct trial *t, enum dtype type)
{
	struct tensor plane = trial_zeros(t, type, KV_HEADS * CAP, DIM), x = trial_floats(t, FILLED, KV_HEADS * DIM);

	t->be->ops->kv_put(t->be, &plane, &x, KV_HEADS, 0, FILLED - 1);
	t->be->ops->kv_put(t->be, &plane, &x, KV_HEADS, FILLED - 1, 1);
	return plane;
}

/* Return a list of slots for each KV head: the slots 3 i + h for i = 0, 1, ..., where h is the number of the head. */
static struct tensor list_put(struct trial *t)
{
	int32_t slot[KV_HEADS * (FILLED / 3)];

	for (int32_t h = 0; h < KV_HEADS; h++)
		for (int32_t i = 0; i < FILLED / 3; i++)
			slot[h * (FILLED / 3) + i] = 3 * i + h;
	return trial_numbers(t, KV_HEADS, FILLED / 3, slot);
}

/* Try the attention of one token to a list of slots, and of twenty tokens to all slots: with bias, softcap, sinks and
 * window, without a causal mask, and with a probe. */
static void try_entries(struct trial *t, enum dtype type)
{
	const struct backend_ops *op = t->be->ops;
	struct tensor k = plane_put(t, type), v = plane_put(t, type), q = trial_floats(t, 20, HEADS * DIM),
		      list = list_put(t), bias = trial_floats(t, KV_HEADS, FILLED / 3),
		      sinks = trial_floats(t, 1, HEADS), out = trial_zeros(t, DT_F32, 20, HEADS * DIM),
		      mass = trial_zeros(t, DT_F32, KV_HEADS, FILLED), spread = trial_zeros(t, DT_F32, 1, 1);
	struct attn_segment seg[] = { { .q = &q, .slots = &list, .bias = &bias, .n_slots = FILLED / 3 },
		                      { .q = &q, .slot0 = 290, .n_slots = FILLED - 290 } },
			    whole = { .q = &q, .n_slots = FILLED };
	float one[20] = { 1 };
	struct attn_args a = { .out = &out,
		               .k = &k,
		               .v = &v,
		               .seg = seg,
		               .n_seg = 2,
		               .n_head = HEADS,
		               .n_kv_head = KV_HEADS,
		               .head_dim = DIM,
		               .cap = CAP,
		               .scale = 0.125f };
	char name[48];

	snprintf(name, sizeof name, "attention to entries of %s", dtype_info(type)->name);
	op->attn(t->be, &a, 1);
	trial_result(t, name, &out, 1, NEAR);
	a.seg = &whole;
	a.n_seg = 1;
	a.softcap = 20;
	a.sinks = &sinks;
	a.window = 150;
	op->attn(t->be, &a, 20);
	trial_result(t, name, &out, 20, NEAR);
	op->attn_each(t->be,
	              &(struct attn_args){ .out = &out,
	                                   .k = &k,
	                                   .v = &v,
	                                   .seg = &whole,
	                                   .n_seg = 1,
	                                   .n_head = HEADS,
	                                   .n_kv_head = KV_HEADS,
	                                   .head_dim = DIM,
	                                   .cap = CAP,
	                                   .scale = 0.125f },
	              1);
	trial_result(t, "attn_each", &out, 1, NEAR);
	a.window = 0;
	a.bidirectional = 1;
	op->attn(t->be, &a, 20);
	trial_result(t, name, &out, 20, NEAR);
	a.bidirectional = 0;
	a.probe = &(struct attn_probe){
		.mass = &mass, .weight = one, .reduce = REDUCE_MEAN, .spread = &spread, .share = 0.9f
	};
	op->attn(t->be, &a, 1);
	trial_result(t, "attention mass", &mass, KV_HEADS, NEAR);
	/* the limit is 1e-3, because the spread itself is exact to 2 % only */
	trial_result(t, "spread of attention", &spread, 1, 1e-3);
	trial_drop(t);
}

static void try_sketches(struct trial *t, int32_t bits)
{
	const struct backend_ops *op = t->be->ops;
	struct tensor k = plane_put(t, DT_F16), q = trial_floats(t, 1, HEADS * DIM),
		      score = trial_zeros(t, DT_F32, KV_HEADS, FILLED), given = trial_floats(t, KV_HEADS, FILLED),
		      slots = trial_zeros(t, DT_I32, KV_HEADS, 40), bias = trial_zeros(t, DT_F32, KV_HEADS, 40),
		      sketch = { .type = DT_U8, .rows = 1 };
	struct scan_args scan = { .out = &score,
		                  .q = &q,
		                  .keys = &k,
		                  .n_head = HEADS,
		                  .n_kv_head = KV_HEADS,
		                  .head_dim = DIM,
		                  .cap = CAP,
		                  .n_slots = FILLED,
		                  .bits = bits,
		                  .scale = 0.125f,
		                  .reduce = bits == 8 ? REDUCE_MEAN : REDUCE_MAX };
	struct topk_args best = {
		.slots = &slots, .score = &given, .n_kv_head = KV_HEADS, .n = FILLED, .k = 40, .pool = 1, .first = 4
	};

	if (bits < 16) {
		sketch = trial_zeros(t, DT_U8, 1, (int32_t)op->key_sketch_bytes(t->be, KV_HEADS, CAP, DIM, bits));
		op->key_sketch(t->be, &sketch, &k, KV_HEADS, CAP, bits, 0, FILLED);
		scan.keys = &sketch;
	}
	op->key_scan(t->be, &scan);
	trial_result(t, bits < 16 ? "key_sketch and key_scan" : "key_scan", &score, KV_HEADS, bits < 16 ? 1e-4 : NEAR);
	best.pool = bits == 16 ? 7 : 1;
	best.order = bits == 8 ? BEST_FIRST : SLOT_ORDER;
	op->topk(t->be, &best);
	trial_result(t, "topk", &slots, KV_HEADS, EXACT);
	best = (struct topk_args){ .slots = &slots,
		                   .score = &given,
		                   .n_kv_head = KV_HEADS,
		                   .n = 40,
		                   .k = 24,
		                   .pool = 1,
		                   .sample = 16,
		                   .bias = &bias };
	/* 24 of the 40 slots are selected, so the 16 sampled slots are all slots that are not selected */
	op->topk(t->be, &best);
	trial_result(t, "topk with a sample", &slots, KV_HEADS, EXACT);
	trial_result(t, "topk with a sample", &bias, KV_HEADS, NEAR);
	best.n = FILLED;
	/* Now 16 slots are sampled out of many. Rounding on the device may change which slots are sampled, so the limit
	 * is not EXACT. */
	op->topk(t->be, &best);
	trial_result(t, "topk with a sample", &slots, KV_HEADS, 1e-3);
	trial_drop(t);
}

static void try_pages(struct trial *t)
{
	enum { PAGE = 16, PAGES = (CAP + PAGE - 1) / PAGE };
	static const int32_t page[] = { 0, 2, 7, 1, 2, 18 };
	const struct backend_ops *op = t->be->ops;
	struct tensor k = plane_put(t, DT_F16), q = trial_floats(t, 1, HEADS * DIM),
		      score = trial_zeros(t, DT_F32, KV_HEADS, PAGES),
		      bounds = trial_zeros(t, DT_F32, KV_HEADS * PAGES, 2 * DIM),
		      pages = trial_numbers(t, KV_HEADS, 3, page), slots = trial_zeros(t, DT_I32, KV_HEADS, 3 * PAGE);
	struct tensor now = trial_zeros(t, DT_F32, 2, DIM), then = trial_floats(t, 2, DIM),
		      flag = trial_zeros(t, DT_I32, 1, 2), cosine = trial_zeros(t, DT_F32, 1, 2);

	op->page_bounds(t->be, &bounds, &k, KV_HEADS, CAP, PAGE, 0, FILLED);
	trial_result(t, "page_bounds", &bounds, KV_HEADS * PAGES, EXACT);
	op->page_scan(t->be, &(struct scan_args){ .out = &score,
	                                          .q = &q,
	                                          .keys = &bounds,
	                                          .n_head = HEADS,
	                                          .n_kv_head = KV_HEADS,
	                                          .head_dim = DIM,
	                                          .cap = CAP,
	                                          .n_slots = FILLED,
	                                          .scale = 0.125f,
	                                          .page = PAGE });
	trial_result(t, "page_scan", &score, KV_HEADS, NEAR);
	op->page_slots(t->be, &slots, &pages, KV_HEADS, PAGE, 2 * PAGE + 5);
	trial_result(t, "page_slots", &slots, KV_HEADS, EXACT);
	op->query_drift(t->be, &(struct query_drift_args){ .now = &now,
	                                                   .q = &q,
	                                                   .row = 1,
	                                                   .n_head = HEADS,
	                                                   .head_dim = DIM,
	                                                   .flag = &flag,
	                                                   .cosine = &cosine,
	                                                   .col = 1,
	                                                   .then = &then,
	                                                   .least = 0.5 });
	trial_result(t, "query_drift", &now, 2, NEAR);
	trial_result(t, "query_drift", &flag, 1, EXACT);
	trial_result(t, "query_drift", &cosine, 1, NEAR);
	trial_drop(t);
}

/* Try moves within a plane, and copies of entries from host memory to a cache. */
static void try_moves(struct trial *t)
{
	enum { LINES = 16, WANTED = 8 };
	static const int32_t move[KV_HEADS][9] = { { 10, 20, 0, 20, 10, 1, 5, 6, -1 },
		                                   { 7, 9, 1, -1, 0, 0, 9, 7, -1 } };
	static const int32_t slot[KV_HEADS][WANTED] = { { 1, 5, 9, 77, 78, 79, 200, 299 },
		                                        { 0, 2, 4, 6, 8, 10, 12, 14 } };
	const struct backend_ops *op = t->be->ops;
	struct tensor k = plane_put(t, DT_F32), shift = trial_floats(t, 2, DIM),
		      moves = trial_numbers(t, KV_HEADS, 9, move[0]),
		      copy = trial_zeros(t, DT_F32, KV_HEADS * CAP, DIM);
	struct tensor far = { .type = DT_F32, .rows = KV_HEADS * CAP, .cols = DIM },
		      cache_k = trial_zeros(t, DT_F32, KV_HEADS * LINES, DIM),
		      cache_v = trial_zeros(t, DT_F32, KV_HEADS * LINES, DIM),
		      map = trial_zeros(t, DT_I32, KV_HEADS, (int32_t)fetch_map_cols(CAP, LINES)),
		      want = trial_numbers(t, KV_HEADS, WANTED, slot[0]),
		      list = trial_zeros(t, DT_I32, KV_HEADS, WANTED),
		      count = trial_zeros(t, DT_I32, KV_HEADS, FETCH_COUNTS);
	struct fetch_args fetch = { .k = &cache_k,
		                    .v = &cache_v,
		                    .from_k = &far,
		                    .from_v = &far,
		                    .map = &map,
		                    .slots = &want,
		                    .list = &list,
		                    .count = &count,
		                    .n_kv_head = KV_HEADS,
		                    .cap = CAP,
		                    .lines = LINES,
		                    .n = WANTED,
		                    .ahead = 1 };

	op->kv_move(t->be, &k,
	            &(struct kv_moves){ .move = &moves,
	                                .shift = &shift,
	                                .n = 3,
	                                .n_kv_head = KV_HEADS,
	                                .head_dim = DIM,
	                                .dims = DIM,
	                                .cap = CAP,
	                                .neox = 1 });
	trial_result(t, "kv_move", &k, 32, NEAR);
	op->alloc_host(t->be, &far);
	far = trial_hold(t, far, NULL);
	op->fetch_range(t->be, &far, &k, KV_HEADS, CAP, 0, FILLED);
	op->fetch_range(t->be, &copy, &far, KV_HEADS, CAP, 3, 50);
	trial_result(t, "fetch_range", &copy, 64, NEAR);
	op->fetch_slots(t->be, &fetch);
	op->fetch_wait(t->be);
	fetch.ahead = 0;
	op->fetch_slots(t->be, &fetch);
	trial_result(t, "fetch_slots", &list, KV_HEADS, EXACT);
	trial_result(t, "fetch_slots", &cache_k, KV_HEADS * LINES, NEAR);
	trial_drop(t);
}

/* ---- tokens of a tiny model ---- */

struct layer_weights {
	struct tensor norm, q, k, v, o, gate, up, down, keys, values;
};
struct tokens {
	struct tensor x, y, q, k, v, attn, hidden, rope, logits, head, table;
};

static void layer_run(struct trial *t, struct layer_weights *l, struct tokens *b, int32_t pos)
{
	const struct backend_ops *op = t->be->ops;
	struct matmul qkv[] = { { .out = &b->q, .w = &l->q },
		                { .out = &b->k, .w = &l->k },
		                { .out = &b->v, .w = &l->v } },
		      o = { .out = &b->x, .w = &l->o, .accumulate = 1 },
		      down = { .out = &b->x, .w = &l->down, .accumulate = 1 };
	struct attn_segment seg = { .q = &b->q, .n_slots = pos + 1 };

	op->rmsnorm(t->be, &b->y, &b->x, &l->norm, 256, 1e-5f, 1);
	op->matmul(t->be, qkv, LEN(qkv), &b->y, 1);
	op->rope(t->be, &b->q, &b->q, &b->rope, DIM, DIM, 1, 1);
	op->rope(t->be, &b->k, &b->k, &b->rope, DIM, DIM, 0, 1);
	op->kv_put(t->be, &l->keys, &b->k, KV_HEADS, pos, 1);
	op->kv_put(t->be, &l->values, &b->v, KV_HEADS, pos, 1);
	op->attn(t->be,
	         &(struct attn_args){ .out = &b->attn,
	                              .k = &l->keys,
	                              .v = &l->values,
	                              .seg = &seg,
	                              .n_seg = 1,
	                              .n_head = HEADS,
	                              .n_kv_head = KV_HEADS,
	                              .head_dim = DIM,
	                              .cap = CAP,
	                              .scale = 0.125f },
	         1);
	op->matmul(t->be, &o, 1, &b->attn, 1);
	op->rmsnorm(t->be, &b->y, &b->x, &l->norm, 256, 1e-5f, 1);
	op->matmul_glu(t->be, &b->hidden, &(struct matmul_glu){ .gate = &l->gate, .up = &l->up, .act = ACT_SILU },
	               &b->y, 1);
	op->matmul(t->be, &down, 1, &b->hidden, 1);
}

/* Decode tokens one by one. For the first token, a device runs its kernels one by one. For the second token, it builds
 * CUDA graphs. From the third token on, it replays the graphs with other arguments. */
static void try_model(struct trial *t)
{
	enum { TOKENS = 4 };
	struct layer_weights layer[2];
	struct tokens b = { trial_floats(t, 1, 256),
		            trial_floats(t, 1, 256),
		            trial_floats(t, 1, 256),
		            trial_floats(t, 1, 128),
		            trial_floats(t, 1, 128),
		            trial_floats(t, 1, 256),
		            trial_floats(t, 1, 512),
		            trial_floats(t, 1, DIM),
		            trial_floats(t, 1, 80),
		            trial_weight(t, DT_Q6_K, 80, 256, 0),
		            trial_weight(t, DT_Q4_K, 80, 256, 1) };
	struct matmul head = { .out = &b.logits, .w = &b.head };

	for (size_t i = 0; i < LEN(layer); i++)
		layer[i] = (struct layer_weights){
			trial_floats(t, 1, 256),
			trial_weight(t, DT_Q4_K, 256, 256, 0),
			trial_weight(t, DT_Q4_K, 128, 256, 0),
			trial_weight(t, DT_Q6_K, 128, 256, 0),
			trial_weight(t, DT_Q4_K, 256, 256, 0),
			trial_weight(t, DT_Q4_K, 512, 256, 0),
			trial_weight(t, DT_Q4_K, 512, 256, 0),
			trial_weight(t, DT_Q6_K, 256, 512, 0),
			trial_zeros(t, DT_F16, KV_HEADS * CAP, DIM),
			trial_zeros(t, DT_F16, KV_HEADS * CAP, DIM),
		};
	for (int32_t pos = 0; pos < TOKENS; pos++) {
		t->be->ops->embed(t->be, &b.x, &b.table, &pos, 1);
		for (size_t i = 0; i < LEN(layer); i++)
			layer_run(t, &layer[i], &b, pos);
		t->be->ops->matmul(t->be, &head, 1, &b.x, 1);
		trial_result(t, "a tiny model", &b.logits, 1, 1e-4);
	}
	trial_drop(t);
}

/* ---- all of it ---- */

static void try_types(struct trial *t)
{
	for (int type = 0; type < DT_COUNT && !t->rc; type++)
		try_products(t, (enum dtype)type);
}

static void try_attention(struct trial *t)
{
	static const enum dtype entries[] = { DT_F16, DT_F32, DT_BF16, DT_Q8_0 };

	for (size_t i = 0; i < LEN(entries) && !t->rc; i++)
		try_entries(t, entries[i]);
}

static void try_selection(struct trial *t)
{
	for (int32_t bits = 2; bits <= 16 && !t->rc; bits *= 2)
		try_sketches(t, bits);
}

/* Try everything up to the first result that is wrong; what takes longest comes last. */
static void try_all(struct trial *t)
{
	static void (*const part[])(struct trial *) = { try_rows,      try_experts,   try_recurrent,
		                                        try_attention, try_selection, try_pages,
		                                        try_moves,     try_model,     try_types };

	for (size_t i = 0; i < LEN(part) && !t->rc; i++)
		part[i](t);
}

int device_check(struct backend *be, char why[160])
{
	struct trial *t = calloc(2, sizeof *t);
	int rc = -1;

	snprintf(why, 160, "out of memory");
	if (t && !backend_open(&t[0].be, "cpu", &(struct backend_options){ .threads = 1 }, why)) {
		t[1].be = be;
		t[1].want = &t[0];
		for (int i = 0; i < 2; i++) {
			t[i].random = 0x9e3779b97f4a7c15u;
			t[i].value = calloc(VALUES, sizeof *t[i].value);
		}
		for (int i = 0; i < 2 && t[0].value && t[1].value && (!i || !t[0].rc); i++) {
			try_all(&t[i]);
			snprintf(why, 160, "%s", t[i].why);
			rc = t[i].rc;
		}
		t[0].be->ops->close(t[0].be);
		free(t[0].value);
		free(t[1].value);
	}
	free(t);
	return rc;
}
