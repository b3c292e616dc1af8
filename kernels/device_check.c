/* kernels/device_check.c - checks a device: every operation, on random operands, against the CPU backend.
 *
 * The same calls run on both backends, with the same operands (struct trial). On the CPU, quantised weights are
 * converted to f32 first, because the CPU's own products of quantised weights round activations to 8 bits. So the
 * results of both backends differ by rounding only: one wrong element among a thousand is found. */
#include "kernels/device_check.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/common/quant.h"

enum { RESULTS = 256, HELD = 48, VALUES = 1 << 18 };
#define NEAR  1e-5 /* normalised mean square error of results that differ by rounding; f16 products have 1e-7 */
#define EXACT 0.0

struct result {
	char name[48];
	size_t at, n; /* values at .. at + n - 1 of trial.value */
	double limit; /* largest normalised mean square error */
};

/* The calls of one backend. */
struct trial {
	struct backend *be;
	uint64_t random;
	struct tensor held[HELD]; /* tensors to drop */
	int n_held;
	void *bytes[HELD]; /* data of weights, which stay mapped until drop() */
	struct result result[RESULTS];
	int n_results;
	float *value; /* [VALUES] */
	size_t n_values;
	const struct trial *want; /* the device's: the reference; NULL = this is the reference */
	int rc;                   /* result of device_check() so far; once it is not 0, nothing more is compared */
	char why[160];
};

/* ---- operands and results ---- */

/* Return a number from -1 to 1 (xorshift64*). */
static float random_next(struct trial *t)
{
	t->random ^= t->random >> 12;
	t->random ^= t->random << 25;
	t->random ^= t->random >> 27;
	return (float)((t->random * 2685821657736338717u) >> 40) / (float)(1 << 23) - 1;
}

static void held_drop(struct trial *t)
{
	for (int i = 0; i < t->n_held; i++) {
		t->be->ops->drop(t->be, &t->held[i]);
		free(t->bytes[i]);
	}
	t->n_held = 0;
}

static struct tensor hold(struct trial *t, struct tensor made, void *bytes)
{
	if (t->n_held == HELD)
		abort(); /* a trial function holds too many tensors */
	t->bytes[t->n_held] = bytes;
	t->held[t->n_held++] = made;
	return made;
}

/* Return random values from lo to hi in a type that dtype_from_f32() makes. The caller frees them. */
static void *randoms(struct trial *t, enum dtype type, size_t n, float lo, float hi)
{
	float *x = malloc(n * sizeof *x);
	void *to = malloc((size_t)dtype_bytes(type, n));

	for (size_t i = 0; x && to && i < n; i++)
		x[i] = lo + (hi - lo) * (random_next(t) + 1) / 2;
	if (x && to)
		dtype_from_f32(type, to, x, (int64_t)n);
	free(x);
	return to;
}

static struct tensor tensor_put(struct trial *t, enum dtype type, int32_t rows, int32_t cols, float lo, float hi)
{
	struct tensor made = { .type = type, .rows = rows, .cols = cols };
	size_t n = (size_t)rows * (size_t)cols;
	void *x = type < DT_COUNT ? randoms(t, type, n, lo, hi) : NULL;

	if (!t->be->ops->alloc(t->be, &made) && x)
		t->be->ops->write(t->be, &made, 0, x, (size_t)dtype_bytes(type, n));
	free(x);
	return hold(t, made, NULL);
}

static struct tensor floats(struct trial *t, int32_t rows, int32_t cols)
{
	return tensor_put(t, DT_F32, rows, cols, -1, 1);
}

static struct tensor zeros(struct trial *t, enum dtype type, int32_t rows, int32_t cols)
{
	return tensor_put(t, type, rows, cols, 0, 0);
}

static struct tensor numbers(struct trial *t, int32_t rows, int32_t cols, const int32_t *number)
{
	struct tensor made = zeros(t, DT_I32, rows, cols);

	t->be->ops->write(t->be, &made, 0, number, (size_t)rows * (size_t)cols * sizeof *number);
	return made;
}

/* Set the scales of one block of random bytes, so that its values are about as large as those of a model. */
static void block_scale(enum dtype type, uint8_t *block, float scale)
{
	static const struct {
		int32_t d, min; /* offsets of the scale and of the scale of minima; -1 = none */
	} at[DT_COUNT] = {
		[DT_Q2_K] = { offsetof(struct block_q2_k, d), offsetof(struct block_q2_k, dmin) },
		[DT_Q3_K] = { offsetof(struct block_q3_k, d), -1 },
		[DT_Q4_K] = { offsetof(struct block_q4_k, d), offsetof(struct block_q4_k, dmin) },
		[DT_Q5_K] = { offsetof(struct block_q5_k, d), offsetof(struct block_q5_k, dmin) },
		[DT_Q6_K] = { offsetof(struct block_q6_k, d), -1 },
		[DT_IQ4_NL] = { offsetof(struct block_iq4_nl, d), -1 },
		[DT_IQ4_XS] = { offsetof(struct block_iq4_xs, d), -1 },
	};
	uint16_t d = f32_to_f16(scale);

	if (type == DT_MXFP4) {
		block[0] = (uint8_t)(118 + block[0] % 4);
		return;
	}
	memcpy(block + at[type].d, &d, sizeof d);
	if (at[type].min >= 0)
		memcpy(block + at[type].min, &d, sizeof d);
}

/* Return random weights of a type as a model file stores them. The caller frees them. */
static void *weight_bytes(struct trial *t, enum dtype type, size_t n)
{
	size_t size = (size_t)dtype_bytes(type, n), block = (size_t)dtype_info(type)->block_bytes;
	uint8_t *w;

	if (type <= DT_Q8_0)
		return randoms(t, type, n, -0.1f, 0.1f);
	w = malloc(size);
	for (size_t i = 0; w && i < size; i++)
		w[i] = (uint8_t)(int)(128 + 127 * random_next(t));
	for (size_t i = 0; w && i < size; i += block)
		block_scale(type, w + i, 0.002f + 0.001f * random_next(t));
	return w;
}

static struct tensor weight(struct trial *t, enum dtype type, int32_t rows, int32_t cols, int as_table)
{
	struct tensor made = { .type = type, .rows = rows, .cols = cols };
	size_t n = (size_t)rows * (size_t)cols;
	void *w = weight_bytes(t, type, n);

	if (!t->want) {
		float *x = malloc(n * sizeof *x);

		if (x && w)
			dtype_to_f32(type, x, w, (int64_t)n);
		free(w);
		w = x;
		made.type = DT_F32;
	}
	if (w)
		t->be->ops->load_weight(t->be, &made, w, as_table);
	return hold(t, made, w);
}

/* Return the normalised mean square error; NaN if a result is not a number. */
static double distance(const float *got, const float *want, size_t n)
{
	double error = 0, size = 0;

	for (size_t i = 0; i < n; i++) {
		double d = (double)got[i] - (double)want[i];

		error += d * d;
		size += (double)want[i] * (double)want[i];
	}
	return size > 0 ? error / size : error;
}

static void compare(struct trial *t, const struct result *got)
{
	const struct result *r = &t->want->result[got - t->result];
	double error = distance(t->value + r->at, t->want->value + r->at, r->n);

	if (error <= r->limit)
		return;
	snprintf(t->why, sizeof t->why, "%s differs from the CPU's result (error %.1g)", r->name, error);
	t->rc = 1;
}

/* Record the first n rows of a tensor, f32 or i32, as a result of the operation `name`. Compare it with the
 * reference. */
static void result_add(struct trial *t, const char *name, const struct tensor *from, int32_t n, double limit)
{
	struct result *r = &t->result[t->n_results];
	size_t count = (size_t)n * (size_t)from->cols;

	if (t->rc)
		return;
	if (t->n_results == RESULTS || t->n_values + count > VALUES) {
		snprintf(t->why, sizeof t->why, "internal: the check has too many results");
		t->rc = -1;
		return;
	}
	snprintf(r->name, sizeof r->name, "%s", name);
	r->at = t->n_values;
	r->n = count;
	r->limit = limit;
	t->be->ops->read(t->be, from, 0, t->value + r->at, count * sizeof *t->value);
	for (size_t i = r->at; from->type == DT_I32 && i < r->at + count; i++) {
		int32_t number;

		memcpy(&number, &t->value[i], sizeof number);
		t->value[i] = (float)number;
	}
	t->n_values += count;
	t->n_results++;
	if (t->be->ops->sync(t->be)) {
		snprintf(t->why, sizeof t->why, "%s failed: %.100s", name, t->be->err);
		t->rc = -1;
	} else if (t->want) {
		compare(t, r);
	}
}

/* ---- operations ---- */

static void try_rows(struct trial *t)
{
	static const int32_t col[] = { 5, 0, 299, 64 }, row[] = { 6, 1, 3 };
	static const float factor[] = { 0.5f, -2, 1.25f };
	const struct backend_ops *op = t->be->ops;
	struct tensor x = floats(t, 7, 300), y = floats(t, 7, 300), out = zeros(t, DT_F32, 7, 300);
	struct tensor w = floats(t, 1, 300), b = floats(t, 1, 300), w60 = floats(t, 1, 60), table = floats(t, 7, 40);

	op->copy(t->be, &out, 2, &x, 1, 4);
	result_add(t, "copy", &out, 7, EXACT);
	op->columns(t->be, &out, &x, col, LEN(col));
	result_add(t, "columns", &out, LEN(col), EXACT);
	op->take_rows(t->be, &out, &x, row, LEN(row));
	result_add(t, "take_rows", &out, LEN(row), EXACT);
	op->add_rows(t->be, &out, &x, row, factor, LEN(row));
	result_add(t, "add_rows", &out, 7, NEAR);
	op->axpby(t->be, &y, 0.5f, &x, -2, 7);
	result_add(t, "axpby", &y, 7, NEAR);
	op->rmsnorm(t->be, &out, &x, &w, 300, 1e-5f, 7);
	result_add(t, "rmsnorm", &out, 7, NEAR);
	op->rmsnorm(t->be, &out, &x, &w60, 60, 1e-5f, 7);
	result_add(t, "rmsnorm of heads", &out, 7, NEAR);
	op->layernorm(t->be, &out, &x, &w, &b, 1e-5f, 7);
	result_add(t, "layernorm", &out, 7, NEAR);
	op->gelu(t->be, &out, 7);
	result_add(t, "gelu", &out, 7, NEAR);
	for (int neox = 0; neox < 2; neox++) {
		op->rope(t->be, &out, &x, &table, 60, 40, neox, 7);
		result_add(t, "rope", &out, 7, NEAR);
	}
	for (int kind = GATE_SILU; kind <= GATE_GELU; kind++) {
		struct tensor gate = floats(t, 7, 300);

		op->gate(t->be, &x, &gate, (enum gate_kind)kind, 7);
		result_add(t, "gate", &x, 7, NEAR);
	}
	held_drop(t);
}

static void try_recurrent(struct trial *t)
{
	const struct backend_ops *op = t->be->ops;
	struct tensor in = floats(t, 5, 3 * 40), u = floats(t, 5, 40), w = floats(t, 40, 4), bias = floats(t, 1, 40),
		      state = floats(t, 3, 40), next = zeros(t, DT_F32, 3, 40), out = zeros(t, DT_F32, 5, 40);
	struct tensor qkv = floats(t, 5, 2 * 2 * 16 + 4 * 8), alpha = floats(t, 5, 4), beta = floats(t, 5, 4),
		      decay = tensor_put(t, DT_F32, 1, 4, -2, -0.1f), dt = floats(t, 1, 4);
	struct tensor s = floats(t, 4 * 16, 8), s_next = zeros(t, DT_F32, 4 * 16, 8), y = zeros(t, DT_F32, 5, 32),
		      xbc = floats(t, 5, 32 + 2 * 2 * 16);

	op->short_conv(t->be,
	               &(struct short_conv){
			       .out = &out, .in = &in, .w = &w, .state = &state, .next = &next, .taps = 4 },
	               5);
	result_add(t, "short_conv", &out, 5, NEAR);
	op->short_conv(
		t->be,
		&(struct short_conv){
			.out = &out, .in = &u, .w = &w, .bias = &bias, .state = &state, .next = &next, .taps = 4 },
		5);
	result_add(t, "short_conv", &out, 5, NEAR);
	result_add(t, "short_conv", &next, 3, NEAR);
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
	result_add(t, "delta_rule", &y, 5, NEAR);
	result_add(t, "delta_rule", &s_next, 4 * 16, NEAR);
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
	result_add(t, "state_space", &y, 5, NEAR);
	result_add(t, "state_space", &s_next, 4 * 16, NEAR);
	held_drop(t);
}

/* Products of one, three and twenty tokens: a device has another kernel for each. */
static void try_type(struct trial *t, enum dtype type)
{
	static const int32_t tokens[] = { 1, 3, 20 }, id[] = { 3, 0, 39 };
	const struct backend_ops *op = t->be->ops;
	struct tensor w = weight(t, type, 40, 256, 0), gate = weight(t, type, 40, 256, 0), bias = floats(t, 1, 40),
		      x = floats(t, 20, 256), out = floats(t, 20, 40), table = weight(t, type, 40, 256, 1),
		      rows = zeros(t, DT_F32, LEN(id), 256);
	char name[48];

	for (size_t i = 0; i < LEN(tokens); i++) {
		struct matmul m[] = { { .out = &out, .w = &w, .bias = &bias, .accumulate = i == 1 } };

		snprintf(name, sizeof name, "matmul of %s", dtype_info(type)->name);
		op->matmul(t->be, m, 1, &x, tokens[i]);
		result_add(t, name, &out, tokens[i], NEAR);
		snprintf(name, sizeof name, "matmul_glu of %s", dtype_info(type)->name);
		op->matmul_glu(t->be, &out, &(struct matmul_glu){ .gate = &gate, .up = &w, .act = (int)type % 2 }, &x,
		               tokens[i]);
		result_add(t, name, &out, tokens[i], NEAR);
	}
	op->embed(t->be, &rows, &table, id, LEN(id));
	snprintf(name, sizeof name, "embed of %s", dtype_info(type)->name);
	result_add(t, name, &rows, LEN(id), NEAR);
	held_drop(t);
}

enum { CAP = 320, FILLED = 300, HEADS = 4, KV_HEADS = 2, DIM = 64 };

/* Return a plane of random keys or values of a type, written by kv_put(). */
static struct tensor plane_put(struct trial *t, enum dtype type)
{
	struct tensor plane = zeros(t, type, KV_HEADS * CAP, DIM), x = floats(t, FILLED, KV_HEADS * DIM);

	t->be->ops->kv_put(t->be, &plane, &x, KV_HEADS, 0, FILLED - 1);
	t->be->ops->kv_put(t->be, &plane, &x, KV_HEADS, FILLED - 1, 1);
	return plane;
}

/* A list of every third slot for each KV head. */
static struct tensor list_put(struct trial *t)
{
	int32_t slot[KV_HEADS * (FILLED / 3)];

	for (int32_t h = 0; h < KV_HEADS; h++)
		for (int32_t i = 0; i < FILLED / 3; i++)
			slot[h * (FILLED / 3) + i] = 3 * i + h;
	return numbers(t, KV_HEADS, FILLED / 3, slot);
}

/* Attention of one token to a list of slots and of twenty tokens to all, with what models ask for. */
static void try_attention(struct trial *t, enum dtype type)
{
	const struct backend_ops *op = t->be->ops;
	struct tensor k = plane_put(t, type), v = plane_put(t, type), q = floats(t, 20, HEADS * DIM),
		      list = list_put(t), bias = floats(t, KV_HEADS, FILLED / 3), sinks = floats(t, 1, HEADS),
		      out = zeros(t, DT_F32, 20, HEADS * DIM), mass = zeros(t, DT_F32, KV_HEADS, FILLED),
		      spread = zeros(t, DT_F32, 1, 1);
	struct attn_part part[] = { { .q = &q, .slots = &list, .bias = &bias, .n_slots = FILLED / 3 },
		                    { .q = &q, .slot0 = 290, .n_slots = FILLED - 290 } },
			 whole = { .q = &q, .n_slots = FILLED };
	float one[20] = { 1 };
	struct attn_args a = { .out = &out,
		               .k = &k,
		               .v = &v,
		               .part = part,
		               .n_part = 2,
		               .n_head = HEADS,
		               .n_kv_head = KV_HEADS,
		               .head_dim = DIM,
		               .cap = CAP,
		               .scale = 0.125f };
	char name[48];

	snprintf(name, sizeof name, "attention to entries of %s", dtype_info(type)->name);
	op->attn(t->be, &a, 1);
	result_add(t, name, &out, 1, NEAR);
	a.part = &whole;
	a.n_part = 1;
	a.softcap = 20;
	a.sinks = &sinks;
	a.window = 150;
	op->attn(t->be, &a, 20);
	result_add(t, name, &out, 20, NEAR);
	op->attn_each(t->be,
	              &(struct attn_args){ .out = &out,
	                                   .k = &k,
	                                   .v = &v,
	                                   .part = &whole,
	                                   .n_part = 1,
	                                   .n_head = HEADS,
	                                   .n_kv_head = KV_HEADS,
	                                   .head_dim = DIM,
	                                   .cap = CAP,
	                                   .scale = 0.125f },
	              1);
	result_add(t, "attn_each", &out, 1, NEAR);
	a.window = 0;
	a.bidirectional = 1;
	op->attn(t->be, &a, 20);
	result_add(t, name, &out, 20, NEAR);
	a.bidirectional = 0;
	a.probe = &(struct attn_probe){
		.mass = &mass, .weight = one, .reduce = REDUCE_MEAN, .spread = &spread, .share = 0.9f
	};
	op->attn(t->be, &a, 1);
	result_add(t, "attention mass", &mass, KV_HEADS, NEAR);
	result_add(t, "spread of attention", &spread, 1, 1e-3); /* exact to 2 % */
	held_drop(t);
}

static void try_selection(struct trial *t, int32_t bits)
{
	const struct backend_ops *op = t->be->ops;
	struct tensor k = plane_put(t, DT_F16), q = floats(t, 1, HEADS * DIM),
		      score = zeros(t, DT_F32, KV_HEADS, FILLED), given = floats(t, KV_HEADS, FILLED),
		      slots = zeros(t, DT_I32, KV_HEADS, 40), bias = zeros(t, DT_F32, KV_HEADS, 40),
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
		sketch = zeros(t, DT_U8, 1, (int32_t)op->key_sketch_bytes(t->be, KV_HEADS, CAP, DIM, bits));
		op->key_sketch(t->be, &sketch, &k, KV_HEADS, CAP, bits, 0, FILLED);
		scan.keys = &sketch;
	}
	op->key_scan(t->be, &scan);
	result_add(t, bits < 16 ? "key_sketch and key_scan" : "key_scan", &score, KV_HEADS, bits < 16 ? 1e-4 : NEAR);
	best.pool = bits == 16 ? 7 : 1;
	best.order = bits == 8 ? BEST_FIRST : SLOT_ORDER;
	op->topk(t->be, &best);
	result_add(t, "topk", &slots, KV_HEADS, EXACT);
	best = (struct topk_args){ .slots = &slots,
		                   .score = &given,
		                   .n_kv_head = KV_HEADS,
		                   .n = 40,
		                   .k = 24,
		                   .pool = 1,
		                   .sample = 16,
		                   .bias = &bias };
	op->topk(t->be, &best); /* the sample is everything that was not selected */
	result_add(t, "topk with a sample", &slots, KV_HEADS, EXACT);
	result_add(t, "topk with a sample", &bias, KV_HEADS, NEAR);
	best.n = FILLED;
	op->topk(t->be, &best); /* rounding may move a sampled slot */
	result_add(t, "topk with a sample", &slots, KV_HEADS, 1e-3);
	held_drop(t);
}

static void try_pages(struct trial *t)
{
	enum { PAGE = 16, PAGES = (CAP + PAGE - 1) / PAGE };
	static const int32_t page[] = { 0, 2, 7, 1, 2, 18 };
	const struct backend_ops *op = t->be->ops;
	struct tensor k = plane_put(t, DT_F16), q = floats(t, 1, HEADS * DIM),
		      score = zeros(t, DT_F32, KV_HEADS, PAGES), bounds = zeros(t, DT_F32, KV_HEADS * PAGES, 2 * DIM),
		      pages = numbers(t, KV_HEADS, 3, page), slots = zeros(t, DT_I32, KV_HEADS, 3 * PAGE);
	struct tensor now = zeros(t, DT_F32, 2, DIM), then = floats(t, 2, DIM), flag = zeros(t, DT_I32, 1, 2),
		      cosine = zeros(t, DT_F32, 1, 2);

	op->page_bounds(t->be, &bounds, &k, KV_HEADS, CAP, PAGE, 0, FILLED);
	result_add(t, "page_bounds", &bounds, KV_HEADS * PAGES, EXACT);
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
	result_add(t, "page_scan", &score, KV_HEADS, NEAR);
	op->page_slots(t->be, &slots, &pages, KV_HEADS, PAGE, 2 * PAGE + 5);
	result_add(t, "page_slots", &slots, KV_HEADS, EXACT);
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
	result_add(t, "query_drift", &now, 2, NEAR);
	result_add(t, "query_drift", &flag, 1, EXACT);
	result_add(t, "query_drift", &cosine, 1, NEAR);
	held_drop(t);
}

/* Moves within a plane, and entries that are fetched from host memory. */
static void try_moves(struct trial *t)
{
	enum { ROWS = 16, WANTED = 8 };
	static const int32_t move[KV_HEADS][9] = { { 10, 20, 0, 20, 10, 1, 5, 6, -1 },
		                                   { 7, 9, 1, -1, 0, 0, 9, 7, -1 } };
	static const int32_t slot[KV_HEADS][WANTED] = { { 1, 5, 9, 77, 78, 79, 200, 299 },
		                                        { 0, 2, 4, 6, 8, 10, 12, 14 } };
	const struct backend_ops *op = t->be->ops;
	struct tensor k = plane_put(t, DT_F32), shift = floats(t, 2, DIM), moves = numbers(t, KV_HEADS, 9, move[0]),
		      copy = zeros(t, DT_F32, KV_HEADS * CAP, DIM);
	struct tensor far = { .type = DT_F32, .rows = KV_HEADS * CAP, .cols = DIM },
		      near_k = zeros(t, DT_F32, KV_HEADS * ROWS, DIM), near_v = zeros(t, DT_F32, KV_HEADS * ROWS, DIM),
		      map = zeros(t, DT_I32, KV_HEADS, (int32_t)fetch_map_cols(CAP, ROWS)),
		      want = numbers(t, KV_HEADS, WANTED, slot[0]), list = zeros(t, DT_I32, KV_HEADS, WANTED),
		      count = zeros(t, DT_I32, KV_HEADS, FETCH_COUNTS);
	struct fetch_args fetch = { .k = &near_k,
		                    .v = &near_v,
		                    .from_k = &far,
		                    .from_v = &far,
		                    .map = &map,
		                    .slots = &want,
		                    .list = &list,
		                    .count = &count,
		                    .n_kv_head = KV_HEADS,
		                    .cap = CAP,
		                    .rows = ROWS,
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
	result_add(t, "kv_move", &k, 32, NEAR);
	op->alloc_host(t->be, &far);
	far = hold(t, far, NULL);
	op->fetch_rows(t->be, &far, &k, KV_HEADS, CAP, 0, FILLED);
	op->fetch_rows(t->be, &copy, &far, KV_HEADS, CAP, 3, 50);
	result_add(t, "fetch_rows", &copy, 64, NEAR);
	op->fetch_slots(t->be, &fetch);
	op->fetch_wait(t->be);
	fetch.ahead = 0;
	op->fetch_slots(t->be, &fetch);
	result_add(t, "fetch_slots", &list, KV_HEADS, EXACT);
	result_add(t, "fetch_slots", &near_k, KV_HEADS * ROWS, NEAR);
	held_drop(t);
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
	struct attn_part part = { .q = &b->q, .n_slots = pos + 1 };

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
	                              .part = &part,
	                              .n_part = 1,
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

/* Decode tokens one by one. A device runs the launches of the first singly, builds CUDA graphs for the second, and
 * replays them with other arguments from the third on. */
static void try_model(struct trial *t)
{
	enum { TOKENS = 4 };
	struct layer_weights layer[2];
	struct tokens b = { floats(t, 1, 256),
		            floats(t, 1, 256),
		            floats(t, 1, 256),
		            floats(t, 1, 128),
		            floats(t, 1, 128),
		            floats(t, 1, 256),
		            floats(t, 1, 512),
		            floats(t, 1, DIM),
		            floats(t, 1, 80),
		            weight(t, DT_Q6_K, 80, 256, 0),
		            weight(t, DT_Q4_K, 80, 256, 1) };
	struct matmul head = { .out = &b.logits, .w = &b.head };

	for (size_t i = 0; i < LEN(layer); i++)
		layer[i] = (struct layer_weights){
			floats(t, 1, 256),
			weight(t, DT_Q4_K, 256, 256, 0),
			weight(t, DT_Q4_K, 128, 256, 0),
			weight(t, DT_Q6_K, 128, 256, 0),
			weight(t, DT_Q4_K, 256, 256, 0),
			weight(t, DT_Q4_K, 512, 256, 0),
			weight(t, DT_Q4_K, 512, 256, 0),
			weight(t, DT_Q6_K, 256, 512, 0),
			zeros(t, DT_F16, KV_HEADS * CAP, DIM),
			zeros(t, DT_F16, KV_HEADS * CAP, DIM),
		};
	for (int32_t pos = 0; pos < TOKENS; pos++) {
		t->be->ops->embed(t->be, &b.x, &b.table, &pos, 1);
		for (size_t i = 0; i < LEN(layer); i++)
			layer_run(t, &layer[i], &b, pos);
		t->be->ops->matmul(t->be, &head, 1, &b.x, 1);
		result_add(t, "a tiny model", &b.logits, 1, 1e-4);
	}
	held_drop(t);
}

static void try_all(struct trial *t)
{
	static const enum dtype entries[] = { DT_F16, DT_F32, DT_BF16, DT_Q8_0 };

	try_rows(t);
	try_recurrent(t);
	for (int type = 0; type < DT_COUNT; type++)
		try_type(t, (enum dtype)type);
	for (size_t i = 0; i < LEN(entries); i++)
		try_attention(t, entries[i]);
	for (int32_t bits = 2; bits <= 16; bits *= 2)
		try_selection(t, bits);
	try_pages(t);
	try_moves(t);
	try_model(t);
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
