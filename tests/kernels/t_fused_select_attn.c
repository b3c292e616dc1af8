/* tests/kernels/t_fused_select_attn.c - attention that selects its slots itself: the same bits as selecting first, for any threads. */
#include <math.h>

#include "tests/lib/levels.h"

struct case_of {
	int32_t dim, group, n_kv, n, cap, best, bits, more, pool;
	enum dtype type;
	int probe;
	float *q, *k, *v;            /* [n_kv * group * dim], [n + more][n_kv * dim] */
};

static float *random_values(size_t n, float size)
{
	float *x = must_alloc(n * sizeof *x);

	for (size_t i = 0; i < n; i++)
		x[i] = test_randf(-size, size);
	return x;
}

static void case_fill(struct case_of *c)
{
	size_t width = (size_t)c->n_kv * (size_t)c->dim, n = (size_t)(c->n + c->more);

	c->q = random_values(width * (size_t)c->group, 2);
	c->k = random_values(n * width, 1);
	c->v = random_values(n * width, 1);
}

static void case_free(struct case_of *c)
{
	free(c->q);
	free(c->k);
	free(c->v);
}

struct operands {
	struct backend *be;
	struct tensor q, k, v, copy, score, rows, out, mass;
	float *weight;
};

static struct case_of case_random(int round)
{
	static const int32_t dims[] = { 64, 64, 128, 80, 20 }, bits[] = { 2, 2, 4, 8, 16 };
	static const enum dtype types[] = { DT_F16, DT_F32, DT_BF16 };
	struct case_of c = {
		.dim = dims[test_rand() % 5], .group = 1 + (int32_t)(test_rand() % 7), .n_kv = 1 + (int32_t)(test_rand() % 4),
		.n = 1 + (int32_t)(test_rand() % (round % 4 ? 700 : 6000)), .bits = bits[test_rand() % 5],
		.pool = test_rand() % 3 ? 1 : 7, .type = types[test_rand() % 3], .probe = test_rand() % 3 == 0,
	};

	c.best = 1 + (int32_t)(test_rand() % (uint64_t)c.n);
	c.more = (int32_t)(test_rand() % 40);
	c.cap = c.n + c.more + (int32_t)(test_rand() % 70);
	case_fill(&c);
	return c;
}

static struct tensor plane(struct backend *be, const struct case_of *c, const float *x)
{
	int32_t width = c->n_kv * c->dim, n = c->n + c->more;
	struct tensor t = tensor_new(be, DT_F32, n, width, x), plane = tensor_new(be, c->type, c->n_kv * c->cap, c->dim, NULL);

	be->ops->kv_put(be, &plane, &t, c->n_kv, 0, n);
	be->ops->drop(be, &t);
	return plane;
}

static struct operands operands_new(struct backend *be, const struct case_of *c)
{
	int32_t heads = c->n_kv * c->group, cols = c->best + c->more + 1;
	struct operands o = { .be = be };

	o.q = tensor_new(be, DT_F32, 1, heads * c->dim, c->q);
	o.out = tensor_new(be, DT_F32, 1, heads * c->dim, NULL);
	o.k = plane(be, c, c->k);
	o.v = plane(be, c, c->v);
	o.score = tensor_new(be, DT_F32, c->n_kv, c->cap, NULL);
	o.rows = tensor_new(be, DT_I32, c->n_kv, c->best, NULL);
	o.mass = tensor_new(be, DT_F32, c->n_kv, cols, NULL);
	if (c->bits < 16) {
		o.copy = tensor_new(be, DT_U8, 1, (int32_t)be->ops->key_sketch_bytes(be, c->n_kv, c->cap, c->dim, c->bits), NULL);
		be->ops->key_sketch(be, &o.copy, &o.k, c->n_kv, c->cap, c->bits, 0, c->n);
	}
	o.weight = must_alloc(sizeof *o.weight);
	o.weight[0] = 1;
	return o;
}

static void operands_free(struct operands *o, const struct case_of *c)
{
	struct tensor *t[] = { &o->q, &o->k, &o->v, &o->score, &o->rows, &o->out, &o->mass, &o->copy };

	for (int i = 0; i < (c->bits < 16 ? 8 : 7); i++)
		o->be->ops->drop(o->be, t[i]);
	free(o->weight);
}

/* Attention over the selected slots and `more` others, the selection in the same call or before; returns the output. */
static float *attend(struct operands *o, const struct case_of *c, int at_once)
{
	struct backend *be = o->be;
	int32_t heads = c->n_kv * c->group, cols = c->best + c->more;
	float scale = 1 / sqrtf((float)c->dim), *out = must_alloc(((size_t)(heads * c->dim) + (size_t)(c->n_kv * cols)) * sizeof *out);
	struct scan_args scan = {
		.out = &o->score, .q = &o->q, .keys = c->bits < 16 ? &o->copy : &o->k, .n_head = heads, .n_kv_head = c->n_kv,
		.head_dim = c->dim, .cap = c->cap, .n_slots = c->n, .bits = c->bits, .scale = scale,
	};
	struct topk_args topk = {
		.slots = &o->rows, .score = &o->score, .n_kv_head = c->n_kv, .n = c->n, .k = c->best, .pool = c->pool, .last = 1,
	};
	struct attn_selection choice = { .scan = &scan, .topk = &topk };
	struct attn_part part[2] = {
		{ .q = &o->q, .slots = &o->rows, .n_slots = c->best, .selection = at_once ? &choice : NULL },
		{ .q = &o->q, .slot0 = c->n, .n_slots = c->more },
	};
	struct attn_probe probe = { .mass = &o->mass, .weight = o->weight };
	float *zero = must_alloc((size_t)c->n_kv * (size_t)o->mass.cols * sizeof *zero);

	be->ops->write(be, &o->mass, 0, zero, (size_t)c->n_kv * (size_t)o->mass.cols * sizeof *zero);
	free(zero);
	if (!at_once) {
		be->ops->key_scan(be, &scan);
		be->ops->topk(be, &topk);
	}
	be->ops->attn(be, &(struct attn_args){
		.out = &o->out, .k = &o->k, .v = &o->v, .part = part, .n_part = c->more ? 2 : 1, .n_head = heads,
		.n_kv_head = c->n_kv, .head_dim = c->dim, .cap = c->cap, .scale = scale, .probe = c->probe ? &probe : NULL,
	}, 1);
	CHECK_MSG(!be->failed, "%s", be->err);
	be->ops->read(be, &o->out, 0, out, (size_t)(heads * c->dim) * sizeof *out);
	for (int32_t h = 0; c->probe && h < c->n_kv; h++)
		be->ops->read(be, &o->mass, (size_t)h * (size_t)o->mass.cols * sizeof(float), out + heads * c->dim + h * cols,
		              (size_t)cols * sizeof *out);
	return out;
}

TEST(same_bits_as_selecting_first)
{
	for (int round = 0; round < test_rounds(60); round++) {
		struct case_of c = case_random(round);
		size_t n = (size_t)(c.n_kv * c.group * c.dim) + (size_t)(c.probe ? c.n_kv * (c.best + c.more) : 0);

		for (int l = 0; l < N_LEVELS; l++) {
			float *want = NULL;

			for (int threads = 1; threads <= 3; threads++) {
				struct backend *be;
				struct operands o;
				float *got;

				be = open_level(levels[l], threads);
				if (!be)
					break;
				o = operands_new(be, &c);
				if (!want)
					want = attend(&o, &c, 0);
				/* Again and again: who is first at what differs. */
				for (int again = 0; again < 3; again++) {
					got = attend(&o, &c, 1);
					CHECK_MSG(!memcmp(got, want, n * sizeof *got),
					          "%s, %d threads: %d of %d slots and %d more, %d heads of %d, %d bits, probe %d differ", levels[l],
					          threads, (int)c.best, (int)c.n, (int)c.more, (int)(c.n_kv * c.group), (int)c.dim, (int)c.bits, c.probe);
					free(got);
				}
				operands_free(&o, &c);
				finish(be);
			}
			free(want);
		}
		case_free(&c);
	}
}

/* A selection that does not fit its part is refused; nothing is read. */
TEST(wrong_selections_are_refused)
{
	struct backend *be = open_level("c", 2);
	struct case_of c = { .dim = 64, .group = 2, .n_kv = 2, .n = 40, .cap = 64, .best = 8, .bits = 2, .pool = 1, .type = DT_F16 };
	struct operands o;

	case_fill(&c);
	o = operands_new(be, &c);

	for (int wrong = 0; wrong < 6; wrong++) {
		struct scan_args scan = {
			.out = wrong == 0 ? &o.mass : &o.score, .q = &o.q, .keys = &o.copy, .n_head = 4, .n_kv_head = wrong == 1 ? 1 : 2,
			.head_dim = 64, .cap = 64, .n_slots = wrong == 2 ? 39 : 40, .bits = wrong == 3 ? 3 : 2, .scale = 0.125f,
		};
		struct topk_args topk = {
			.slots = &o.rows, .score = &o.score, .n_kv_head = 2, .n = 40, .k = wrong == 4 ? 7 : 8, .pool = wrong == 5 ? 2 : 1,
		};
		struct attn_selection choice = { .scan = &scan, .topk = &topk };
		struct attn_part part = { .q = &o.q, .slots = &o.rows, .n_slots = 8, .selection = &choice };

		be->ops->attn(be, &(struct attn_args){
			.out = &o.out, .k = &o.k, .v = &o.v, .part = &part, .n_part = 1, .n_head = 4, .n_kv_head = 2, .head_dim = 64,
			.cap = 64, .scale = 0.125f,
		}, 1);
		CHECK_MSG(be->failed, "wrong selection %d was taken", wrong);
		CHECK(be->ops->sync(be) < 0 && strstr(be->err, "internal: "));
	}
	operands_free(&o, &c);
	case_free(&c);
	finish(be);
}
