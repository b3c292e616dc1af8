/* tests/kernels/t_fused_select_attn.c - attention that selects its slots in the same call gives the same bits as
 * attention after a separate selection, for any number of threads. Several tokens in one call give the same bits as one
 * token after the other. */
#include <math.h>

#include "tests/lib/levels.h"

struct case_of {
	int32_t dim, group, n_kv, n, cap, best, bits, more, pool;
	enum dtype type;
	int probe;
	float *q, *k, *v; /* [n_kv * group * dim], [n + more][n_kv * dim] */
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
		.dim = dims[test_rand() % 5],
		.group = 1 + (int32_t)(test_rand() % 7),
		.n_kv = 1 + (int32_t)(test_rand() % 4),
		.n = 1 + (int32_t)(test_rand() % (round % 4 ? 700 : 6000)),
		.bits = bits[test_rand() % 5],
		.pool = test_rand() % 3 ? 1 : 7,
		.type = types[test_rand() % 3],
		.probe = test_rand() % 3 == 0,
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
	struct tensor t = tensor_new(be, DT_F32, n, width, x),
		      plane = tensor_new(be, c->type, c->n_kv * c->cap, c->dim, NULL);

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
		o.copy = tensor_new(be, DT_U8, 1,
		                    (int32_t)be->ops->key_sketch_bytes(be, c->n_kv, c->cap, c->dim, c->bits), NULL);
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

/* Return the output of attention over the selected slots and `more` other slots. at_once: 1 = attention makes the
 * selection in the same call, 0 = the selection is made before the call. */
static float *attend(struct operands *o, const struct case_of *c, int at_once)
{
	struct backend *be = o->be;
	int32_t heads = c->n_kv * c->group, cols = c->best + c->more;
	float scale = 1 / sqrtf((float)c->dim),
	      *out = must_alloc(((size_t)(heads * c->dim) + (size_t)(c->n_kv * cols)) * sizeof *out);
	/* clang-format off */
	struct scan_args scan = {
		.out = &o->score, .q = &o->q, .keys = c->bits < 16 ? &o->copy : &o->k, .n_head = heads, .n_kv_head = c->n_kv,
		.head_dim = c->dim, .cap = c->cap, .n_slots = c->n, .bits = c->bits, .scale = scale,
	};
	/* clang-format on */
	struct topk_args topk = {
		.slots = &o->rows,
		.score = &o->score,
		.n_kv_head = c->n_kv,
		.n = c->n,
		.k = c->best,
		.pool = c->pool,
		.last = 1,
	};
	struct attn_selection choice = { .scan = &scan, .topk = &topk };
	struct attn_segment seg[2] = {
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
	be->ops->attn(be,
	              &(struct attn_args){
			      .out = &o->out,
			      .k = &o->k,
			      .v = &o->v,
			      .seg = seg,
			      .n_seg = c->more ? 2 : 1,
			      .n_head = heads,
			      .n_kv_head = c->n_kv,
			      .head_dim = c->dim,
			      .cap = c->cap,
			      .scale = scale,
			      .probe = c->probe ? &probe : NULL,
		      },
	              1);
	CHECK_MSG(!be->failed, "%s", be->err);
	be->ops->read(be, &o->out, 0, out, (size_t)(heads * c->dim) * sizeof *out);
	for (int32_t h = 0; c->probe && h < c->n_kv; h++)
		be->ops->read(be, &o->mass, (size_t)h * (size_t)o->mass.cols * sizeof(float),
		              out + heads * c->dim + h * cols, (size_t)cols * sizeof *out);
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
				/* Repeat the call, because the order in which threads finish differs from call to
				 * call. */
				for (int again = 0; again < 3; again++) {
					got = attend(&o, &c, 1);
					CHECK_MSG(
						!memcmp(got, want, n * sizeof *got),
						"%s, %d threads: %d of %d slots and %d more, %d heads of %d, %d bits, probe %d differ",
						levels[l], threads, (int)c.best, (int)c.n, (int)c.more,
						(int)(c.n_kv * c.group), (int)c.dim, (int)c.bits, c.probe);
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

/* ---- several tokens ---- */

/* Several tokens in one call. From the first c.n slots, a token reads a list of its own, all slots, two ranges, or a
 * list and a range (see `segments`). Of the later slots, it reads its own slot and all slots before it. */
struct tokens_case {
	struct case_of c;
	int32_t m, window, k[ATTN_EACH_MOST], sample;
	/* what a token reads of the first c.n slots: 0 = a list, 1 = all slots, 2 = two ranges, 3 = a list and a
	 * range */
	int segments;
	float softcap;
};

static struct tokens_case tokens_random(int round)
{
	struct tokens_case t = { .c = case_random(round),
		                 .m = 1 + (int32_t)(test_rand() % ATTN_EACH_MOST),
		                 .segments = (int)(test_rand() % 4),
		                 .softcap = test_rand() % 4 ? 0 : 20 };
	struct case_of *c = &t.c;
	int same = test_rand() % 3 > 0;

	case_free(c);
	c->more = t.m + (int32_t)(test_rand() % 700);
	c->cap = c->n + c->more + (int32_t)(test_rand() % 70);
	if (test_rand() % 3 == 0 && c->dim % 32 == 0)
		c->type = test_rand() % 2 ? DT_Q8_0 : DT_Q4_0;
	case_fill(c);
	free(c->q);
	c->q = random_values((size_t)t.m * (size_t)(c->n_kv * c->group * c->dim), 2);
	for (int32_t i = 0; i < t.m; i++)
		t.k[i] = same ? c->best : 1 + (int32_t)(test_rand() % (uint64_t)c->n);
	if (c->best < c->n && test_rand() % 2 && same)
		t.sample = 1 + (int32_t)(test_rand() % 50);
	if ((t.segments == 1 || t.segments == 2) && test_rand() % 3 == 0)
		t.window = 1 + (int32_t)(test_rand() % (uint64_t)(c->n + c->more));
	return t;
}

struct token_operands {
	struct tensor q, out, score, rows, bias;
	struct scan_args scan;
	struct topk_args topk;
	struct attn_selection selection;
	struct attn_segment seg[3];
};

static struct attn_args token_args(struct operands *o, const struct tokens_case *t, int32_t i, struct token_operands *x)
{
	const struct case_of *c = &t->c;
	int32_t heads = c->n_kv * c->group, n = 0, piece = c->n / 2, late = c->more - (t->m - 1 - i);
	float scale = 1 / sqrtf((float)c->dim);

	x->scan = (struct scan_args){
		.out = &x->score,
		.q = &x->q,
		.keys = c->bits < 16 ? &o->copy : &o->k,
		.n_head = heads,
		.n_kv_head = c->n_kv,
		.head_dim = c->dim,
		.cap = c->cap,
		.n_slots = c->n,
		.bits = c->bits,
		.scale = scale,
	};
	x->topk = (struct topk_args){ .slots = &x->rows,
		                      .score = &x->score,
		                      .n_kv_head = c->n_kv,
		                      .n = c->n,
		                      .k = t->k[i],
		                      .pool = 1,
		                      .sample = t->sample,
		                      .bias = t->sample ? &x->bias : NULL };
	x->selection = (struct attn_selection){ &x->scan, &x->topk };
	if (t->segments % 3 == 0)
		x->seg[n++] = (struct attn_segment){ .q = &x->q,
			                             .slots = &x->rows,
			                             .n_slots = t->k[i] + t->sample,
			                             .selection = &x->selection,
			                             .bias = x->topk.bias,
			                             .sample = t->sample };
	if (t->segments > 1 && piece)
		x->seg[n++] = (struct attn_segment){ .q = &x->q, .n_slots = piece };
	if (t->segments == 2)
		x->seg[n++] = (struct attn_segment){ .q = &x->q, .slot0 = piece, .n_slots = c->n - piece + late };
	else
		x->seg[n++] = (struct attn_segment){ .q = &x->q,
			                             .slot0 = t->segments == 1 ? 0 : c->n,
			                             .n_slots = (t->segments == 1 ? c->n : 0) + late };
	return (struct attn_args){ .out = &x->out,
		                   .k = &o->k,
		                   .v = &o->v,
		                   .seg = x->seg,
		                   .n_seg = n,
		                   .n_head = heads,
		                   .n_kv_head = c->n_kv,
		                   .head_dim = c->dim,
		                   .cap = c->cap,
		                   .scale = scale,
		                   .softcap = t->softcap,
		                   .window = t->window };
}

static float *attend_tokens(struct backend *be, const struct tokens_case *t, int together)
{
	const struct case_of *c = &t->c;
	struct operands o = operands_new(be, c);
	struct token_operands *x = must_alloc((size_t)t->m * sizeof *x);
	struct attn_args a[ATTN_EACH_MOST];
	int32_t width = c->n_kv * c->group * c->dim;
	float *out = must_alloc((size_t)(t->m * width) * sizeof *out);

	for (int32_t i = 0; i < t->m; i++) {
		x[i].q = tensor_new(be, DT_F32, 1, width, c->q + (size_t)i * (size_t)width);
		x[i].out = tensor_new(be, DT_F32, 1, width, NULL);
		x[i].score = tensor_new(be, DT_F32, c->n_kv, c->cap, NULL);
		x[i].rows = tensor_new(be, DT_I32, c->n_kv, t->k[i] + t->sample, NULL);
		x[i].bias = tensor_new(be, DT_F32, c->n_kv, t->k[i] + t->sample, NULL);
		a[i] = token_args(&o, t, i, x + i);
	}
	for (int32_t i = 0; i < t->m && !together; i++)
		be->ops->attn(be, a + i, 1);
	if (together)
		be->ops->attn_each(be, a, t->m);
	CHECK_MSG(!be->failed, "%s", be->err);
	for (int32_t i = 0; i < t->m; i++) {
		be->ops->read(be, &x[i].out, 0, out + (size_t)i * (size_t)width, (size_t)width * sizeof *out);
		be->ops->drop(be, &x[i].q);
		be->ops->drop(be, &x[i].out);
		be->ops->drop(be, &x[i].score);
		be->ops->drop(be, &x[i].rows);
		be->ops->drop(be, &x[i].bias);
	}
	free(x);
	operands_free(&o, c);
	return out;
}

TEST(tokens_together_have_the_bits_they_have_alone)
{
	for (int round = 0; round < test_rounds(40); round++) {
		struct tokens_case t = tokens_random(round);
		const struct case_of *c = &t.c;

		for (int l = 0; l < N_LEVELS; l++) {
			float *want = NULL;

			for (int threads = 1; threads <= 3; threads++) {
				struct backend *be = open_level(levels[l], threads);
				float *got;

				if (!be)
					break;
				if (!want)
					want = attend_tokens(be, &t, 0);
				for (int again = 0; again < 2; again++) {
					got = attend_tokens(be, &t, 1);
					CHECK_MSG(
						!memcmp(got, want,
					                (size_t)(t.m * c->n_kv * c->group * c->dim) * sizeof *got),
						"%s, %d threads: %d tokens, parts %d, %d of %d slots and %d more, sample %d, %d heads of %d, %d bits, type %d, window %d differ",
						levels[l], threads, (int)t.m, t.segments, (int)c->best, (int)c->n,
						(int)c->more, (int)t.sample, (int)(c->n_kv * c->group), (int)c->dim,
						(int)c->bits, (int)c->type, (int)t.window);
					free(got);
				}
				finish(be);
			}
			free(want);
		}
		case_free(&t.c);
	}
}

/* A selection that does not match its segment is refused before anything is computed. */
TEST(wrong_selections_are_refused)
{
	struct backend *be = open_level("c", 2);
	struct case_of c = {
		.dim = 64, .group = 2, .n_kv = 2, .n = 40, .cap = 64, .best = 8, .bits = 2, .pool = 1, .type = DT_F16
	};
	struct operands o;

	case_fill(&c);
	o = operands_new(be, &c);

	for (int wrong = 0; wrong < 6; wrong++) {
		/* clang-format off */
		struct scan_args scan = {
			.out = wrong == 0 ? &o.mass : &o.score, .q = &o.q, .keys = &o.copy, .n_head = 4, .n_kv_head = wrong == 1 ? 1 : 2,
			.head_dim = 64, .cap = 64, .n_slots = wrong == 2 ? 39 : 40, .bits = wrong == 3 ? 3 : 2, .scale = 0.125f,
		};
		/* clang-format on */
		struct topk_args topk = {
			.slots = &o.rows,
			.score = &o.score,
			.n_kv_head = 2,
			.n = 40,
			.k = wrong == 4 ? 7 : 8,
			.pool = wrong == 5 ? 2 : 1,
		};
		struct attn_selection choice = { .scan = &scan, .topk = &topk };
		struct attn_segment seg = { .q = &o.q, .slots = &o.rows, .n_slots = 8, .selection = &choice };

		be->ops->attn(be,
		              &(struct attn_args){
				      .out = &o.out,
				      .k = &o.k,
				      .v = &o.v,
				      .seg = &seg,
				      .n_seg = 1,
				      .n_head = 4,
				      .n_kv_head = 2,
				      .head_dim = 64,
				      .cap = 64,
				      .scale = 0.125f,
			      },
		              1);
		CHECK_MSG(be->failed, "wrong selection %d was taken", wrong);
		CHECK(be->ops->sync(be) < 0 && strstr(be->err, "internal: "));
	}
	operands_free(&o, &c);
	case_free(&c);
	finish(be);
}
