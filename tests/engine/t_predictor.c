/* tests/engine/t_predictor.c - the network of `predict`: compares the forward pass with double arithmetic written from
 * the definition, at every CPU level, and incremental updates with a computation from the whole image. */
#include "tests/lib/levels.h"

#include <math.h>

#include "engine/policies/predictor.h"
#include "engine/lab/predictor_grad.h"

static void random_net(struct predictor *p)
{
	float *w = (float *)p;

	for (int i = 0; i < PREDICTOR_WEIGHTS; i++)
		w[i] = test_randf(-0.3f, 0.3f);
}

struct held {
	struct attn_image m;
	float *a, *r;
};

static struct held image_new(int32_t rows, int32_t cap)
{
	struct held h = { .a = must_alloc((size_t)rows * (size_t)cap * sizeof(float)),
		          .r = must_alloc((size_t)rows * (size_t)cap * sizeof(float)) };

	attn_image_init(&h.m, h.a, h.r, rows, cap);
	return h;
}

static void image_free(struct held *h)
{
	free(h->a);
	free(h->r);
}

/* Push a row: the first n columns are like attention probabilities, the others 0. */
static void push_random(struct attn_image *m, int32_t n)
{
	float *row = attn_image_push(m);

	for (int32_t x = 0; x < m->cap; x++)
		row[x] = x < n ? powf(test_randf(0, 1), 4) : 0;
}

static double pixel(const struct attn_image *m, int32_t t, int32_t x, int32_t from, int32_t to)
{
	return t >= 0 && t < m->rows && x >= from && x < to ? (double)attn_image_row(m, t)[x] : 0;
}

static void naive(const struct predictor *p, const struct attn_image *m, int32_t from, int32_t to, double *out)
{
	int32_t n = to - from, rows = m->rows;
	/* the first layer's output, with a border of zeros */
	double *inner = must_alloc((size_t)(rows + 2) * (size_t)(n + 2) * 16 * sizeof *inner);

	for (int32_t t = 0; t < rows; t++)
		for (int32_t x = 0; x < n; x++)
			for (int c = 0; c < 16; c++) {
				double sum = (double)p->b1[c];

				for (int dy = 0; dy < 3; dy++)
					for (int dx = 0; dx < 3; dx++)
						sum += pixel(m, t + dy - 1, from + x + dx - 1, from, to) *
						       (double)p->w1[(dy * 3 + dx) * 16 + c];
				inner[((t + 1) * (n + 2) + x + 1) * 16 + c] = fmax(sum, 0);
			}
	for (int32_t x = 0; x < n; x++) {
		out[x] = (double)p->b3[0];
		for (int32_t t = 0; t < rows; t++)
			for (int o = 0; o < 32; o++) {
				double sum = (double)p->b2[o];

				for (int dy = 0; dy < 3; dy++)
					for (int dx = 0; dx < 3; dx++)
						for (int c = 0; c < 16; c++)
							sum += inner[((t + dy) * (n + 2) + x + dx) * 16 + c] *
							       (double)p->w2[((dy * 3 + dx) * 16 + c) * 32 + o];
				out[x] += (double)p->w3[o] * fmax(sum, 0) / rows;
			}
	}
	free(inner);
}

TEST(there_are_4833_weights)
{
	CHECK_INT(PREDICTOR_WEIGHTS, (1 * 9 + 1) * 16 + (16 * 9 + 1) * 32 + 32 + 1);
	CHECK_INT(sizeof(struct predictor), 4833 * sizeof(float));
}

TEST(the_forward_pass_agrees_with_double)
{
	static const struct {
		int32_t rows, cap, from, to;
	} as[] = {
		{ 64, 1, 0, 1 },   { 64, 2, 0, 2 },   { 64, 3, 0, 3 },     { 64, 5, 4, 5 },    { 64, 40, 4, 37 },
		{ 64, 32, 0, 32 }, { 64, 64, 0, 64 }, { 64, 101, 3, 101 }, { 1, 7, 0, 7 },     { 2, 1, 0, 1 },
		{ 3, 9, 2, 9 },    { 5, 33, 0, 33 },  { 16, 66, 0, 65 },   { 128, 10, 1, 10 },
	};

	for (int l = 0; l < N_LEVELS; l++) {
		struct backend *be = open_level(levels[l], 1);

		for (size_t i = 0; be && i < LEN(as); i++) {
			struct held h = image_new(as[i].rows, as[i].cap);
			struct predictor p;
			double want[128], worst = 0;
			float got[128];

			random_net(&p);
			/* Images with ever more rows, until all rows have been replaced. */
			for (int32_t n = 0, most = as[i].rows + 3; n < most; n += 1 + most / 4) {
				for (int32_t k = 0; n && k < 1 + most / 4; k++)
					push_random(&h.m, as[i].cap);
				attn_image_changed(&h.m);
				predictor_run(&p, be, &h.m, as[i].from, as[i].to, got);
				naive(&p, &h.m, as[i].from, as[i].to, want);
				for (int32_t x = 0; x < as[i].to - as[i].from; x++)
					worst = fmax(worst, fabs(want[x] - (double)got[x]));
			}
			CHECK_MSG(worst < 1e-5, "%s, %d rows, columns %d to %d: off by %g", levels[l], as[i].rows,
			          as[i].from, as[i].to, worst);
			image_free(&h);
		}
		if (be)
			finish(be);
	}
}

/* Random updates: one or several rows between two predictions, added columns, sometimes an emptied image or changed
 * columns. */
TEST(what_is_kept_equals_the_whole_image)
{
	int64_t checked = 0;

	for (int l = 0; l < N_LEVELS; l++) {
		struct backend *be = open_level(levels[l], 1);

		for (int round = 0; be && round < 9; round++) {
			static const int32_t heights[] = { 64, 64, 16, 1, 2, 3, 4, 7 };
			int32_t rows = heights[test_rand() % 8], cap = 90, to = 1 + (int32_t)(test_rand() % 40),
				from = 0;
			struct held kept = image_new(rows, cap), whole = image_new(rows, cap);
			struct predictor p;

			random_net(&p);
			for (int step = 0; step < 60 && to < cap; step++) {
				float one[90], two[90];
				double worst = 0, want[90];

				for (int32_t k = (int32_t)(test_rand() % 8 ? 1 : test_rand() % 5); k > 0; k--)
					push_random(&kept.m, to);
				if (test_rand() % 3 == 0)
					to += (int32_t)(test_rand() % 4);
				if (test_rand() % 30 == 0)
					from = (int32_t)(test_rand() % (uint64_t)to);
				if (test_rand() % 40 == 0)
					attn_image_clear(&kept.m, cap);
				to = MIN(to, cap);
				for (int32_t t = 0; t < rows; t++)
					memcpy(attn_image_row(&whole.m, t), attn_image_row(&kept.m, t),
					       (size_t)cap * sizeof(float));
				attn_image_changed(&whole.m);
				predictor_run(&p, be, &kept.m, from, to, one);
				predictor_run(&p, be, &whole.m, from, to, two);
				CHECK_MSG(!memcmp(one, two, (size_t)(to - from) * sizeof *one),
				          "%s, %d rows, step %d: other bits in columns %d to %d", levels[l], rows, step,
				          from, to);
				if (step % 20 == 19) {
					naive(&p, &kept.m, from, to, want);
					for (int32_t x = 0; x < to - from; x++)
						worst = fmax(worst, fabs(want[x] - (double)one[x]));
					CHECK_MSG(worst < 1e-5, "%s: off by %g", levels[l], worst);
				}
				checked += to - from;
			}
			image_free(&kept);
			image_free(&whole);
		}
		if (be)
			finish(be);
	}
	test_note("%lld predictions", (long long)checked);
	CHECK(checked > 10000);
}

/* ---- training ---- */

/* Return the loss of one image, computed in double. */
static double naive_loss(const struct predictor *p, const struct attn_image *m, const float *target,
                         const float *weight)
{
	double out[64], sum = 0;

	naive(p, m, 0, m->cap, out);
	for (int32_t x = 0; x < m->cap; x++)
		sum += (double)weight[x] * (out[x] - (double)target[x]) * (out[x] - (double)target[x]);
	return sum;
}

/* Weights are multiples of 2^-20, so that changing one by 2^-12 is exact. By such a change, the inputs of few ReLUs
 * change their sign. */
TEST(the_gradient_agrees_with_differences)
{
	static const struct {
		int32_t rows, cols;
	} as[] = { { 6, 9 }, { 1, 1 }, { 2, 3 }, { 16, 20 }, { 3, 2 } };

	for (int l = 0; l < N_LEVELS; l++) {
		struct backend *be = open_level(levels[l], 1);

		for (size_t i = 0; be && i < LEN(as); i++) {
			struct held h = image_new(as[i].rows, as[i].cols);
			struct predictor p, grad = { 0 };
			struct predictor_scratch s;
			struct err err = { 0 };
			float target[64], weight[64], *w = (float *)&p, *g = (float *)&grad;
			double loss, most = 0;
			int bad = 0, checked = 0;

			random_net(&p);
			for (int k = 0; k < PREDICTOR_WEIGHTS; k++)
				w[k] = ldexpf(roundf(ldexpf(w[k], 20)), -20);
			for (int32_t t = 0; t < as[i].rows; t++)
				push_random(&h.m, as[i].cols);
			for (int32_t x = 0; x < as[i].cols; x++) {
				target[x] = test_randf(0, 1);
				weight[x] = x % 4 == 3 ? 0 : 1;
			}
			CHECK_MSG(!predictor_scratch_init(&s, as[i].rows + 2, as[i].cols + 3, &err), "%s", err.msg);
			predictor_scratch_weights(&s, &p);
			loss = predictor_gradient(&p, be, &s, h.a, as[i].rows, as[i].cols, target, weight, &grad);
			CHECK_MSG(fabs(loss - naive_loss(&p, &h.m, target, weight)) < 1e-4 * (1 + loss), "%s: loss %g",
			          levels[l], loss);
			for (int k = 0; k < PREDICTOR_WEIGHTS; k++)
				most = fmax(most, fabs((double)g[k]));
			for (int k = 0; k < PREDICTOR_WEIGHTS; k += k >= 4768 || k < 160 ? 7 : 41) {
				const float step = 0x1p-12f;
				float was = w[k];
				double up, down;

				w[k] = was + step;
				up = naive_loss(&p, &h.m, target, weight);
				w[k] = was - step;
				down = naive_loss(&p, &h.m, target, weight);
				w[k] = was;
				bad += fabs((up - down) / (2 * (double)step) - (double)g[k]) >
				       2e-3 * (most / 10 + fabs((double)g[k]));
				checked++;
			}
			CHECK_MSG(bad <= checked / 50, "%s, %d x %d: %d of %d gradients differ, the largest is %g",
			          levels[l], as[i].rows, as[i].cols, bad, checked, most);
			predictor_scratch_free(&s);
			image_free(&h);
		}
		if (be)
			finish(be);
	}
}
