/* engine/encoder/encoder_position.c - how an encoder's family tells tokens their positions: learned embeddings, or the
 * tables for RoPE, ALiBi and relative positions. */
#include <math.h>
#include <stdlib.h>

#include "engine/encoder/encoder_load.h"

/* The embedding of the token type is added to each position here, once. All tokens of a single text have type 0. */
void positions_load(struct loader *l)
{
	struct encoder *e = l->e;
	const struct gguf_tensor *t = NULL, *type = NULL;
	size_t n = (size_t)e->n_embd, each = (size_t)e->longest * n;
	int32_t types = e->pairs_typed ? 2 : 1;
	float *v, *add;

	if (e->family->position == POSITION_LEARNED)
		t = load_find(l, "", "position_embd.weight", e->trained, e->n_embd);
	if (load_has(l, "", "token_types.weight"))
		type = load_find(l, "", "token_types.weight", e->pairs_typed ? 2 : 0, e->n_embd);
	load_alloc(l, &e->position, DT_F32, types * e->longest, e->n_embd);
	if (l->failed)
		return;
	v = xcalloc((size_t)types * (each + n), sizeof *v);
	add = v + (size_t)types * each;
	for (int32_t k = 0; t && k < types; k++)
		dtype_to_f32(t->type, v + (size_t)k * each, t->data, (int64_t)e->longest * e->n_embd);
	if (type)
		dtype_to_f32(type->type, add, type->data, (int64_t)types * e->n_embd);
	for (size_t i = 0; i < (size_t)types * each; i++)
		v[i] += add[i / each * n + i % n];
	e->be->ops->write(e->be, &e->position, 0, v, (size_t)types * each * sizeof *v);
	free(v);
}

/* Fill the table of RoPE: cos and sin of position * base^(-2 j / head_dim) for pair j. */
static void load_rope(struct loader *l)
{
	struct encoder *e = l->e;
	int32_t dim = e->n_embd / e->n_head;
	double base;
	float *v;

	if (!l->failed)
		l->failed = load_float(e, "rope.freq_base", 1, 1e9, 10000, &base, l->err);
	load_alloc(l, &e->rope, DT_F32, e->longest, dim);
	load_alloc(l, &e->rope_at, DT_F32, e->batch, dim);
	if (l->failed)
		return;
	v = xcalloc((size_t)e->longest * (size_t)dim, sizeof *v);
	for (int32_t i = 0; i < e->longest; i++)
		for (int32_t j = 0; j < dim; j += 2) {
			double angle = i * pow(base, -(double)j / dim);

			v[(size_t)i * (size_t)dim + (size_t)j] = (float)cos(angle);
			v[(size_t)i * (size_t)dim + (size_t)j + 1] = (float)sin(angle);
		}
	e->be->ops->write(e->be, &e->rope, 0, v, (size_t)e->longest * (size_t)dim * sizeof *v);
	free(v);
}

/* Return the ALiBi slope of head h of n heads: what the head subtracts from a key's score per token of distance
 * (Press et al. 2022). If n is a power of two, slope h is 2^(-8 (h + 1) / n). Otherwise let m be the largest power of
 * two below n. The first m heads have the slopes of a model with m heads. The other heads have the first, third,
 * fifth, ... slope of a model with 2 m heads. */
static double alibi_slope(int32_t h, int32_t n)
{
	int32_t two = 1;

	while (two * 2 <= n)
		two *= 2;
	return h < two ? pow(2, -8.0 * (h + 1) / two) : pow(2, -4.0 * (2 * (h - two) + 1) / two);
}

/* Fill e->slots, the lists of slots for attend_adding(). */
static void load_slots(struct loader *l)
{
	struct encoder *e = l->e;
	size_t n = (size_t)e->n_head * (size_t)e->batch;
	int32_t *slot;

	load_alloc(l, &e->slots, DT_I32, e->n_head, e->batch);
	if (l->failed)
		return;
	slot = xcalloc(n, sizeof *slot);
	for (size_t i = 0; i < n; i++)
		slot[i] = (int32_t)(i % (size_t)e->batch);
	e->be->ops->write(e->be, &e->slots, 0, slot, n * sizeof *slot);
	free(slot);
}

static void load_alibi(struct loader *l)
{
	struct encoder *e = l->e;
	size_t heads = (size_t)e->n_head, far = (size_t)e->longest;
	float *v;

	load_slots(l);
	load_alloc(l, &e->distance, DT_F32, e->n_head, 2 * e->longest);
	if (l->failed)
		return;
	v = xcalloc(heads * 2 * far, sizeof *v);
	for (size_t h = 0; h < heads; h++)
		for (size_t i = 0; i < 2 * far; i++)
			v[h * 2 * far + i] =
				(float)(-alibi_slope((int32_t)h, e->n_head) * fabs((double)i - (double)far + 1));
	e->be->ops->write(e->be, &e->distance, 0, v, heads * 2 * far * sizeof *v);
	free(v);
}

/* Return the number of the relative position of a key that is d tokens before the query (after it if d < 0). There are
 * 2 * buckets of them. Distances up to buckets / 2 have a number each. Greater ones share numbers, in proportion to the
 * logarithm of the distance, so that a distance of `far` - 1 has the last number (He et al. 2023, "DeBERTaV3"). */
static int32_t relative_position(int32_t d, int32_t buckets, int32_t far)
{
	int32_t mid = buckets / 2, near = abs(d) < mid ? mid - 1 : abs(d), at = d;

	if (near > mid)
		at = mid + (int32_t)ceil(log((double)near / mid) / log((double)(far - 1) / mid) * (mid - 1));
	if (d < 0 && at > 0)
		at = -at;
	return MAX(0, MIN(at + buckets, 2 * buckets - 1));
}

/* Compute the keys and queries of relative positions in each layer, from their embeddings. */
static void relative_layers(struct loader *l, const struct gguf_tensor *t, int32_t n)
{
	struct encoder *e = l->e;
	size_t values = (size_t)n * (size_t)e->n_embd;
	float *v = xcalloc(values, sizeof *v);

	dtype_to_f32(t->type, v, t->data, (int64_t)values);
	e->be->ops->write(e->be, &e->x, 0, v, values * sizeof *v);
	free(v);
	for (int32_t i = 0; i < e->n_layer; i++) {
		struct encoder_layer *y = &e->layer[i];

		load_alloc(l, &y->relative_k, DT_F32, n, e->n_embd);
		load_alloc(l, &y->relative_q, DT_F32, n, e->n_embd);
		if (l->failed)
			return;
		e->be->ops->matmul(e->be,
		                   (struct matmul[]){ { .out = &y->relative_k, .w = &y->k.w, .bias = &y->k.b },
		                                      { .out = &y->relative_q, .w = &y->q.w, .bias = &y->q.b } },
		                   2, &e->x, n);
	}
}

static void load_relative(struct loader *l)
{
	struct encoder *e = l->e;
	const struct gguf_tensor *t;
	int32_t buckets, far, n;

	if (l->failed || (l->failed = load_int(e, "attention.relative_buckets", 4, e->batch / 2, &buckets, l->err) ||
	                              load_int(e, "attention.relative_positions", buckets + 1, 1 << 24, &far, l->err)))
		return;
	n = 2 * buckets;
	t = load_find(l, "", "relative_embd.weight", n, e->n_embd);
	load_slots(l);
	load_alloc(l, &e->scores, DT_F32, e->n_head * e->longest, e->longest);
	if (l->failed)
		return;
	e->relative = xcalloc((size_t)(2 * e->longest - 1), sizeof *e->relative);
	for (int32_t i = 0; i < 2 * e->longest - 1; i++)
		e->relative[i] = relative_position(i - e->longest + 1, buckets, far);
	relative_layers(l, t, n);
}

void position_tables_load(struct loader *l)
{
	switch (l->e->family->position) {
	case POSITION_LEARNED: break;
	case POSITION_ROPE: load_rope(l); break;
	case POSITION_ALIBI: load_alibi(l); break;
	case POSITION_RELATIVE: load_relative(l); break;
	}
}
