/* engine/lab/predictor_train.c - trains the predictor network (policies/predictor.h) on a model's own attention.
 *
 * An example is a section of the attention in one KV head. The example's input is a table: the rows are consecutive
 * tokens, the columns are consecutive blocks of KV entries. The example's target is the row of the next generated
 * token. The loss is the squared error. At an edge where the table continues, the two outermost columns do not count in
 * the loss, because their neighbours are missing.
 *
 * The optimiser is Adam with batches of 16; the learning rate falls from 5e-4 to 5e-6 along a cosine. After each
 * epoch the network is tested on held-out examples; the best network is kept. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lab/lab.h"
#include "engine/lab/predictor_grad.h"
#include "engine/lab/rows.h"

#define RATE 5e-4
enum {
	COLS = 64,       /* number of columns of an example for training */
	COLS_HELD = 256, /* number of columns of a held-out example */
	BATCH = 16,
	/* The gradient of a batch is the sum of this many parts of the batch, added in a fixed order. So results do not
	 * depend on the number of threads. */
	PARTS = 8,
	/* Examples omit the first and the last FORCED entries of a sequence, because `predict` always reads them. */
	FORCED = 64,
};

/* Examples, taken from the rows that observe_rows.c has recorded. `x` has the inputs, [most][rows * cols]. The other
 * arrays are [most][cols]. `target` and `mass` have the rows of the next token, copied from `top` and `mass` of
 * struct observe_rows. `weight` has a factor for each column's squared error. */
struct examples {
	int32_t n, most, cols;
	float *x, *target, *mass, *weight;
};

/* The gradient and the loss of a part of a batch. */
struct part {
	struct predictor_scratch scratch;
	struct predictor grad;
	double loss;
};

struct predictor_trainer {
	struct engine *e;
	struct predictor_settings s;
	struct predictor_key key;
	struct examples train, held;
	/* `net` is the network in training. `best` is the network with the best test results after any epoch. */
	struct predictor net, best;
	float m[PREDICTOR_WEIGHTS], v[PREDICTOR_WEIGHTS]; /* the moments of the optimiser Adam */
	/* root mean square of the targets, by which the targets are divided; 0: not computed yet */
	double unit;
	int32_t epoch, steps;
	double best_found; /* test result predictor_found.net of the network `best` */
	int32_t *order;    /* [train.n] examples in random order */
	struct part part[PARTS];
	int32_t batch0, batch_n; /* the current batch: batch_n examples of order[], from order[batch0] on */
	uint64_t rng;
};

static int32_t random_below(struct predictor_trainer *t, int32_t n)
{
	return (int32_t)(random_next(&t->rng) % (uint64_t)n);
}

/* Return a random number whose distribution is nearly normal, with variance s^2. */
static float random_weight(struct predictor_trainer *t, double s)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += (double)(random_next(&t->rng) >> 11) * 0x1p-53;
	return (float)(s * (sum - 6));
}

static int examples_init(struct examples *ex, int32_t most, int32_t rows, int32_t cols, struct err *err)
{
	size_t n = (size_t)most, width = (size_t)cols;

	*ex = (struct examples){ .most = most, .cols = cols };
	return !(ex->x = try_alloc(n * (size_t)rows, width * sizeof *ex->x, "rows of attention to train on", err)) ||
	                       !(ex->target =
	                                 try_alloc(n, width * sizeof *ex->x, "rows of attention to train on", err)) ||
	                       !(ex->mass =
	                                 try_alloc(n, width * sizeof *ex->x, "rows of attention to train on", err)) ||
	                       !(ex->weight = try_alloc(n, width * sizeof *ex->x, "rows of attention to train on", err))
	               ? -1
	               : 0;
}

static void examples_free(struct examples *ex)
{
	free(ex->x);
	free(ex->target);
	free(ex->mass);
	free(ex->weight);
}

/* Set the initial weights. Without training the output is 0.3 times the newest row plus 0.7 times the mean of the rows,
 * which predicts well. Channel 0 of the second convolution copies all rows. Channel 1 copies only the newest row: from
 * the other rows a large constant is subtracted before the ReLU. The other channels have small random weights. */
static void weights_begin(struct predictor_trainer *t)
{
	enum { CENTRE = 4, BELOW = 7, IMAGE = 0, CONSTANT = 1, LAST = 1 };
	const float more = 1e4f;
	struct predictor *p = &t->net;

	for (int i = 0; i < 9 * PREDICTOR_INNER; i++)
		p->w1[i] = i % PREDICTOR_INNER <= CONSTANT ? 0 : random_weight(t, sqrt(2.0 / 9));
	for (int i = 0; i < 9 * PREDICTOR_INNER * PREDICTOR_OUTER; i++)
		p->w2[i] = i % PREDICTOR_OUTER <= LAST || i / PREDICTOR_OUTER % PREDICTOR_INNER == CONSTANT
		                   ? 0
		                   : random_weight(t, sqrt(2.0 / (9 * PREDICTOR_INNER)));
	for (int i = 0; i < PREDICTOR_OUTER; i++)
		p->w3[i] = random_weight(t, 0.1 * sqrt(1.0 / PREDICTOR_OUTER));
	p->w1[CENTRE * PREDICTOR_INNER + IMAGE] = 1;
	p->b1[CONSTANT] = 1;
	p->w2[(CENTRE * PREDICTOR_INNER + IMAGE) * PREDICTOR_OUTER + IMAGE] = 1;
	p->w2[(CENTRE * PREDICTOR_INNER + IMAGE) * PREDICTOR_OUTER + LAST] = 1;
	p->w2[(BELOW * PREDICTOR_INNER + CONSTANT) * PREDICTOR_OUTER + LAST] = -more;
	p->w3[IMAGE] = 0.7f;
	p->w3[LAST] = 0.3f * (float)t->s.rows;
}

int predictor_trainer_open(struct predictor_trainer **out, struct engine *e, const struct predictor_settings *s,
                           struct err *err)
{
	struct predictor_trainer *t = xcalloc(1, sizeof *t);
	int failed;

	t->e = e;
	t->s = *s;
	t->key = (struct predictor_key){ e->model.hp.fingerprint, s->block, s->rows };
	t->rng = s->seed;
	failed = examples_init(&t->train, s->crops, s->rows, COLS, err) ||
	         examples_init(&t->held, s->crops / 24 + 1, s->rows, COLS_HELD, err) ||
	         !(t->order = try_alloc((size_t)s->crops, sizeof *t->order, "rows of attention to train on", err));
	for (int i = 0; !failed && i < PARTS; i++)
		failed = predictor_scratch_init(&t->part[i].scratch, s->rows, COLS, err);
	if (failed) {
		predictor_trainer_close(t);
		return -1;
	}
	weights_begin(t);
	*out = t;
	return 0;
}

void predictor_trainer_close(struct predictor_trainer *t)
{
	if (!t)
		return;
	examples_free(&t->train);
	examples_free(&t->held);
	for (int i = 0; i < PARTS; i++)
		predictor_scratch_free(&t->part[i].scratch);
	free(t->order);
	free(t);
}

/* ---- examples ---- */

/* Copy one example from the recorded attention of a KV head. The target is row number `row`, the input is the rows
 * before it. The columns begin at a random column of the recorded rows. */
static void example_take(struct predictor_trainer *t, struct examples *ex, const struct observe_rows *o,
                         const struct rows_shape *sh, int32_t row, int32_t head)
{
	int32_t H = t->s.rows, slots = sh->first + row, from = (FORCED + sh->block - 1) / sh->block,
		to = (slots - FORCED) / sh->block;
	int32_t w = to - from < ex->cols ? to - from : ex->cols, x0 = from + random_below(t, to - from - w + 1),
		i = ex->n++;
	size_t at = (size_t)i * (size_t)ex->cols, bytes = (size_t)w * sizeof(float);

	for (int32_t k = row - H < 0 ? H - row : 0; k < H; k++)
		memcpy(ex->x + ((size_t)i * (size_t)H + (size_t)k) * (size_t)ex->cols,
		       observe_rows_top(o, row - H + k, head) + x0, bytes);
	memcpy(ex->target + at, observe_rows_top(o, row, head) + x0, bytes);
	memcpy(ex->mass + at, observe_rows_mass(o, row, head) + x0, bytes);
	for (int32_t x = 0; x < w; x++)
		ex->weight[at + (size_t)x] = (x >= 2 || x0 == from) && (x < w - 2 || x0 + w == to) ? 1 : 0;
}

int32_t predictor_trainer_add(struct predictor_trainer *t, const struct timeline *tl, int32_t n, int held_out)
{
	struct examples *ex = held_out ? &t->held : &t->train;
	const struct observe_rows *kept = timeline_rows(tl);
	struct rows_shape sh;
	int32_t least, before = ex->n, heads;

	if (!kept)
		return 0;
	observe_rows_shape(kept, &sh);
	/* Take rows of generated tokens in which at least 4 columns can be selected. (`predict` always reads the first
	 * and the newest columns.) `least` is the first row that satisfies both conditions. */
	least = (2 * FORCED + sh.block * 4) - sh.first;
	least = MAX(least, sh.read);
	heads = sh.heads - t->s.dense * sh.per_layer;
	/* if `predict` reads all entries in all layers, use the rows of all layers */
	heads = heads > 0 ? heads : sh.heads;
	for (int32_t i = 0; i < n && ex->n < ex->most && least < sh.rows; i++)
		example_take(t, ex, kept, &sh, least + random_below(t, sh.rows - least),
		             sh.heads - heads + random_below(t, heads));
	return ex->n - before;
}

/* ---- an epoch ---- */

static void scale(float *x, size_t n, double by)
{
	for (size_t i = 0; i < n; i++)
		x[i] = (float)((double)x[i] * by);
}

/* Divide inputs and targets of the training examples by the root mean square of the targets. Attention probabilities
 * are small, and the network would have to learn biases as small as these, which takes long. Weight each example by
 * about the inverse of its input's mean square. Without weights, training would mostly improve heads with sharp
 * attention, whose blocks are easy to find. */
static void unit_set(struct predictor_trainer *t)
{
	size_t n = (size_t)t->train.n * COLS;
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)t->train.target[i] * (double)t->train.target[i];
	t->unit = sum > 0 && isfinite(sum) ? sqrt(sum / (double)n) : 1;
	scale(t->train.target, n, 1 / t->unit);
	scale(t->train.x, n * (size_t)t->s.rows, 1 / t->unit);
	for (int32_t i = 0; i < t->train.n; i++) {
		const float *x = t->train.x + (size_t)i * COLS * (size_t)t->s.rows;

		sum = 0;
		for (int32_t k = 0; k < t->s.rows * COLS; k++)
			sum += (double)x[k] * (double)x[k];
		scale(t->train.weight + (size_t)i * COLS, COLS, 1 / (sum / (t->s.rows * COLS) + 0.01));
	}
}

/* Scale the biases of a network that was trained on scaled probabilities, so that the network works on unscaled
 * probabilities. This is exact, because the network's only nonlinearity is the ReLU: if inputs and biases are
 * multiplied by c, so is the output. */
static void unit_undo(const struct predictor_trainer *t, struct predictor *p)
{
	scale(p->b1, PREDICTOR_INNER, t->unit);
	scale(p->b2, PREDICTOR_OUTER, t->unit);
	scale(p->b3, 1, t->unit);
}

/* Compute gradient and loss of one part of the batch, as a task of a thread. */
static void part_run(void *arg, int task)
{
	struct predictor_trainer *t = arg;
	struct part *part = &t->part[task];

	memset(&part->grad, 0, sizeof part->grad);
	part->loss = 0;
	predictor_scratch_weights(&part->scratch, &t->net);
	for (int32_t i = task; i < t->batch_n; i += PARTS) {
		size_t at = (size_t)t->order[t->batch0 + i] * COLS;

		part->loss +=
			predictor_gradient(&t->net, t->e->be, &part->scratch, t->train.x + at * (size_t)t->s.rows,
		                           t->s.rows, COLS, t->train.target + at, t->train.weight + at, &part->grad);
	}
}

/* Update the network by the gradient of the batch (Adam). */
static void adam(struct predictor_trainer *t, double rate)
{
	float *w = (float *)&t->net;

	t->steps++;
	for (int i = 0; i < PREDICTOR_WEIGHTS; i++) {
		double g = 0, m, v;

		for (int k = 0; k < PARTS; k++)
			g += (double)((const float *)&t->part[k].grad)[i];
		g /= (double)t->batch_n * COLS;
		t->m[i] = (float)(0.9 * (double)t->m[i] + 0.1 * g);
		t->v[i] = (float)(0.999 * (double)t->v[i] + 0.001 * g * g);
		m = (double)t->m[i] / (1 - pow(0.9, t->steps));
		v = (double)t->v[i] / (1 - pow(0.999, t->steps));
		w[i] = (float)((double)w[i] - rate * m / (sqrt(v) + 1e-8));
	}
}

/* ---- testing ---- */

struct ranked {
	float score;
	int32_t col;
};

static int by_score(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->score != y->score ? (x->score < y->score) - (x->score > y->score)
	                            : (x->col < y->col) - (x->col > y->col);
}

/* Return the attention mass that falls on the k columns with the largest scores. */
static double found(const float *score, const float *mass, int32_t n, int32_t k)
{
	struct ranked r[COLS_HELD];
	double sum = 0;

	for (int32_t i = 0; i < n; i++)
		r[i] = (struct ranked){ isfinite(score[i]) ? score[i] : -INFINITY, i };
	qsort(r, (size_t)n, sizeof *r, by_score);
	for (int32_t i = 0; i < k; i++)
		sum += (double)mass[r[i].col];
	return sum;
}

/* Arguments of test_one(). one[i] receives the result for held-out example i. `r` is a buffer for attn_image_init(). */
struct testing {
	const struct predictor_trainer *t;
	const struct predictor *net;
	struct predictor_found *one;
	float *r;
};

/* Test the network on one held-out example. */
static void test_one(void *arg, int task)
{
	struct testing *w = arg;
	const struct predictor_trainer *t = w->t;
	const struct examples *ex = &t->held;
	size_t at = (size_t)task * COLS_HELD, size = (size_t)t->s.rows * COLS_HELD;
	const float *mass = ex->mass + at;
	float out[COLS_HELD], mean[COLS_HELD] = { 0 }, mixed[COLS_HELD];
	struct attn_image m;
	int32_t n = COLS_HELD, k;

	while (n > 1 && ex->weight[at + (size_t)n - 1] == 0 && mass[n - 1] == 0 && ex->weight[at + (size_t)n - 2] == 0)
		n--; /* skip unused columns at the end: the example may have fewer than COLS_HELD columns */
	k = n / 10 > 1 ? n / 10 : 1;
	attn_image_init(&m, ex->x + at * (size_t)t->s.rows, w->r + (size_t)task * size, t->s.rows, COLS_HELD);
	predictor_run(w->net, t->e->be, &m, 0, n, out);
	for (int32_t y = 0; y < t->s.rows; y++)
		for (int32_t x = 0; x < n; x++)
			mean[x] += attn_image_row(&m, y)[x] / (float)t->s.rows;
	for (int32_t x = 0; x < n; x++)
		mixed[x] = 0.3f * attn_image_row(&m, t->s.rows - 1)[x] + 0.7f * mean[x];
	w->one[task] = (struct predictor_found){ .net = found(out, mass, n, k),
		                                 .last = found(attn_image_row(&m, t->s.rows - 1), mass, n, k),
		                                 .mean = found(mean, mass, n, k),
		                                 .mixed = found(mixed, mass, n, k),
		                                 .best = found(mass, mass, n, k) };
}

/* Test the network on all held-out examples, and set *out to the results. */
static int test_all(struct predictor_trainer *t, const struct predictor *net, struct predictor_found *out,
                    struct err *err)
{
	struct testing w = { .t = t, .net = net };
	struct predictor_found sum = { 0 };

	w.one = try_alloc((size_t)t->held.n, sizeof *w.one, "predictions", err);
	w.r = try_alloc((size_t)t->held.n * (size_t)t->s.rows, COLS_HELD * sizeof *w.r, "predictions", err);
	if (w.one && w.r)
		backend_each(t->e->be, test_one, &w, t->held.n);
	for (int32_t i = 0; w.one && w.r && i < t->held.n; i++) {
		sum.net += w.one[i].net;
		sum.last += w.one[i].last;
		sum.mean += w.one[i].mean;
		sum.mixed += w.one[i].mixed;
		sum.best += w.one[i].best;
	}
	*out = (struct predictor_found){ sum.net / sum.best, sum.last / sum.best, sum.mean / sum.best,
		                         sum.mixed / sum.best, sum.best / t->held.n };
	free(w.one);
	free(w.r);
	return w.one && w.r ? 0 : -1;
}

/* Test the network after an epoch, and keep it if it is the best. The caller has the engine's lock. */
static int epoch_end(struct predictor_trainer *t, struct predictor_epoch *out, struct err *err)
{
	struct predictor net = t->net;

	unit_undo(t, &net);
	if (test_all(t, &net, &out->found, err))
		return -1;
	out->best = !(out->found.net <= t->best_found);
	if (out->best) {
		t->best_found = out->found.net;
		t->best = net;
	}
	return 0;
}

int predictor_trainer_epoch(struct predictor_trainer *t, predictor_progress_fn *fn, void *ud,
                            struct predictor_epoch *out, struct err *err)
{
	int32_t batches = (t->train.n + BATCH - 1) / BATCH;
	double loss = 0;
	int failed = 0;

	if (!t->train.n || !t->held.n)
		return err_set(
			err, ERR_USAGE,
			"there is nothing to train on: the texts have no attention between the first and the last %d tokens",
			FORCED);
	if (t->unit <= 0)
		unit_set(t);
	for (int32_t i = 0; i < t->train.n; i++) {
		int32_t k = random_below(t, i + 1);

		t->order[i] = t->order[k];
		t->order[k] = i;
	}
	pthread_mutex_lock(&t->e->lock);
	t->e->be->cancel = NULL;
	for (int32_t b = 0; t->epoch && !failed && b < batches; b++) {
		double done = ((double)t->epoch - 1 + (double)b / batches) / t->s.epochs;

		t->batch0 = b * BATCH;
		t->batch_n = t->train.n - t->batch0 < BATCH ? t->train.n - t->batch0 : BATCH;
		backend_each(t->e->be, part_run, t, PARTS);
		for (int k = 0; k < PARTS; k++)
			loss += t->part[k].loss;
		adam(t, RATE / 100 + (RATE - RATE / 100) * (0.5 + 0.5 * cos(3.14159265358979 * done)));
		if (fn && fn(b + 1, batches, ud))
			failed = err_set(err, ERR_CANCELLED, "stopped");
	}
	*out = (struct predictor_epoch){ .loss = loss / ((double)t->train.n * COLS) };
	failed = failed || epoch_end(t, out, err);
	pthread_mutex_unlock(&t->e->lock);
	t->epoch += !failed;
	return failed ? -1 : 0;
}

int predictor_trainer_save(struct predictor_trainer *t, struct str *path, struct err *err)
{
	return t->epoch ? predictor_save(&t->best, &t->key, path, err)
	                : err_set(err, ERR_USAGE, "nothing has been trained");
}
