/* engine/lab/train_pass.c - the forward pass of one training window, and the backward pass of its loss.
 *
 * The forward pass stores the activations that the backward pass needs (struct train_acts). The rows before `from` are
 * a constant prefix, so the backward pass does not compute them. */
#include <stdlib.h>
#include <string.h>

#include "engine/lab/train.h"

/* ---- row by row, on all threads ---- */

enum { TASK_ROWS = 16, TASK_COLS = 64 };
/* Arguments of an operation on n rows (train_ops.c). An operation uses only the members that it needs. */
struct rows {
	struct trainer *t;
	float *out, *inv, *out2;
	const float *x, *w, *dy, *x2;
	int32_t cols, n, heads, back, from;
	const int32_t *id;
	double *loss;
	float weight;
};

/* Run an operation on all rows, TASK_ROWS rows in each task. */
static void each_rows(const struct rows *r, void (*fn)(void *, int))
{
	struct rows job = *r;

	backend_each(r->t->be, fn, &job, (r->n + TASK_ROWS - 1) / TASK_ROWS);
}

/* Return the index after a task's last row. */
static int32_t last_of(const struct rows *r, int task)
{
	return (task + 1) * TASK_ROWS < r->n ? (task + 1) * TASK_ROWS : r->n;
}

static void norm_rows(void *arg, int task)
{
	struct rows *r = arg;

	train_norm(r->out, r->inv, r->x, r->w, r->cols, r->t->eps, task * TASK_ROWS, last_of(r, task));
}

static void norm_back_rows(void *arg, int task)
{
	struct rows *r = arg;

	train_norm_back(r->out, r->dy, r->x, r->inv, r->w, r->cols, task * TASK_ROWS, last_of(r, task));
}

static void norm_back_cols(void *arg, int task)
{
	struct rows *r = arg;
	int32_t to = (task + 1) * TASK_COLS;

	train_norm_back_weights(r->out2, r->dy, r->x, r->inv, r->cols, r->n, task * TASK_COLS,
	                        to < r->cols ? to : r->cols);
}

static void rope_rows(void *arg, int task)
{
	struct rows *r = arg;
	const struct rope_freqs *f = r->t->rope;

	train_rope(r->out, r->t->angles + (size_t)r->from * (size_t)f->dims, r->heads, r->t->head_dim, f->dims, f->neox,
	           r->back, task * TASK_ROWS, last_of(r, task));
}

static void glu_rows(void *arg, int task)
{
	struct rows *r = arg;
	size_t at = (size_t)task * TASK_ROWS * (size_t)r->cols,
	       n = (size_t)(last_of(r, task) - task * TASK_ROWS) * (size_t)r->cols;

	if (r->back)
		train_glu_back(r->out + at, r->out2 + at, r->dy + at, r->x + at, r->x2 + at, n);
	else
		train_glu(r->out + at, r->x + at, r->x2 + at, n);
}

static void cross_rows(void *arg, int task)
{
	struct rows *r = arg;

	for (int32_t i = task * TASK_ROWS; i < last_of(r, task); i++)
		r->loss[i] = train_cross_entropy(r->out + (size_t)i * (size_t)r->cols, r->cols, r->id[i], r->weight);
}

static void norm(struct trainer *t, float *y, float *inv, const float *x, const struct train_param *w, int32_t n)
{
	each_rows(&(struct rows){ .t = t, .out = y, .inv = inv, .x = x, .w = w->w, .cols = t->n_embd, .n = n },
	          norm_rows);
}

/* Compute the gradient with respect to the norm's input x from dy, which is the gradient with respect to the norm's
 * output. Add the result to dx. If the norm's weights are trained, also add their gradient to w->g. */
static void norm_back(struct trainer *t, float *dx, const float *dy, float *inv, const float *x, struct train_param *w,
                      int32_t n)
{
	struct rows r = {
		.t = t, .out = dx, .out2 = w->g, .inv = inv, .x = x, .w = w->w, .dy = dy, .cols = t->n_embd, .n = n
	};

	each_rows(&r, norm_back_rows);
	if (w->g)
		backend_each(t->be, norm_back_cols, &r, (t->n_embd + TASK_COLS - 1) / TASK_COLS);
}

static void rope(struct trainer *t, float *x, int32_t heads, int back, int32_t from, int32_t n)
{
	each_rows(&(struct rows){ .t = t, .out = x, .heads = heads, .back = back, .from = from, .n = n }, rope_rows);
}

/* ---- products ---- */

/* Compute a product of matrices, where x and d have n rows and w is [rows][cols]:
 *     times_turned()   alpha * x w^T,  x [n][cols]
 *     times()          alpha * x w,    x [n][rows]
 *     turned_times()   alpha * d^T x,  d [n][rows], x [n][cols]
 * times_turned() and times() write the product to c, or add it to c if `adds` is 1. turned_times() adds it to c. */
static void times_turned(struct backend *be, float *c, const float *x, const float *w, int32_t n, int32_t rows,
                         int32_t cols, float alpha, int adds)
{
	backend_gemm(be,
	             &(struct gemm){ .c = c,
	                             .a = x,
	                             .b = w,
	                             .m = n,
	                             .n = rows,
	                             .k = cols,
	                             .a_row = (size_t)cols,
	                             .a_col = 1,
	                             .b_row = 1,
	                             .b_col = (size_t)cols,
	                             .c_row = (size_t)rows,
	                             .alpha = alpha,
	                             .accumulate = adds },
	             1);
}

static void times(struct backend *be, float *c, const float *x, const float *w, int32_t n, int32_t rows, int32_t cols,
                  float alpha, int adds)
{
	backend_gemm(be,
	             &(struct gemm){ .c = c,
	                             .a = x,
	                             .b = w,
	                             .m = n,
	                             .n = cols,
	                             .k = rows,
	                             .a_row = (size_t)rows,
	                             .a_col = 1,
	                             .b_row = (size_t)cols,
	                             .b_col = 1,
	                             .c_row = (size_t)cols,
	                             .alpha = alpha,
	                             .accumulate = adds },
	             1);
}

static void turned_times(struct backend *be, float *c, const float *d, const float *x, int32_t n, int32_t rows,
                         int32_t cols, float alpha)
{
	backend_gemm(be,
	             &(struct gemm){ .c = c,
	                             .a = d,
	                             .b = x,
	                             .m = rows,
	                             .n = cols,
	                             .k = n,
	                             .a_row = 1,
	                             .a_col = (size_t)rows,
	                             .b_row = (size_t)cols,
	                             .b_col = 1,
	                             .c_row = (size_t)cols,
	                             .alpha = alpha,
	                             .accumulate = 1 },
	             1);
}

void train_linear(struct backend *be, const struct train_matrix *m, const float *x, float *low, float *y, int32_t n)
{
	times_turned(be, y, x, m->w.w, n, m->rows, m->cols, 1, 0);
	if (!m->a.w)
		return;
	times_turned(be, low, x, m->a.w, n, m->rank, m->cols, 1, 0);
	times_turned(be, y, low, m->b.w, n, m->rows, m->rank, m->scale, 1);
}

void train_linear_back(struct backend *be, struct train_matrix *m, const float *x, const float *low, const float *dy,
                       float *dlow, float *dx, int adds, int32_t n)
{
	times(be, dx, dy, m->w.w, n, m->rows, m->cols, 1, adds);
	if (m->w.g)
		turned_times(be, m->w.g, dy, x, n, m->rows, m->cols, 1);
	if (!m->a.w)
		return;
	times(be, dlow, dy, m->b.w, n, m->rows, m->rank, m->scale, 0);
	turned_times(be, m->b.g, dy, low, n, m->rows, m->rank, m->scale);
	turned_times(be, m->a.g, dlow, x, n, m->rank, m->cols, 1);
	times(be, dx, dlow, m->a.w, n, m->rank, m->cols, 1, 1);
}

/* ---- forward ---- */

/* Multiply x by matrix number p of a layer. */
static void linear(struct trainer *t, struct train_layer *l, enum train_target p, const float *x, float *y, int32_t n)
{
	train_linear(t->be, &l->m[p], x, l->acts.low[p], y, n);
}

static void add(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] += x[i];
}

/* Compute a layer. Its input is l->acts.x; its output, the next layer's input, is written to `out`. */
static void layer_forward(struct trainer *t, struct train_layer *l, const struct train_mask *mask, float *out,
                          int32_t n)
{
	struct train_acts *a = &l->acts;
	size_t all = (size_t)n * (size_t)t->n_embd;

	norm(t, a->attn_in, a->attn_inv, a->x, &l->attn_norm, n);
	linear(t, l, TRAIN_Q, a->attn_in, a->q, n);
	linear(t, l, TRAIN_K, a->attn_in, a->k, n);
	linear(t, l, TRAIN_V, a->attn_in, a->v, n);
	rope(t, a->q, t->n_head, 0, 0, n);
	rope(t, a->k, t->n_kv_head, 0, 0, n);
	train_attention(t, a, mask, n);
	linear(t, l, TRAIN_OUT, a->attn, a->x_mid, n);
	add(a->x_mid, a->x, all);
	norm(t, a->ffn_in, a->ffn_inv, a->x_mid, &l->ffn_norm, n);
	linear(t, l, TRAIN_GATE, a->ffn_in, a->gate, n);
	linear(t, l, TRAIN_UP, a->ffn_in, a->up, n);
	each_rows(&(struct rows){ .t = t, .out = a->h, .x = a->gate, .x2 = a->up, .cols = t->n_ff, .n = n }, glu_rows);
	linear(t, l, TRAIN_DOWN, a->h, out, n);
	add(out, a->x_mid, all);
}

void train_forward(struct trainer *t, const int32_t *id, int32_t n, const struct train_mask *mask)
{
	float *x = t->layer[0].acts.x;
	size_t width = (size_t)t->n_embd;

	for (int32_t i = 0; i < n; i++)
		memcpy(x + (size_t)i * width, t->embd.w + (size_t)id[i] * width, width * sizeof *x);
	for (int32_t i = 0; i < t->n_layer; i++)
		layer_forward(t, &t->layer[i], mask, i + 1 < t->n_layer ? t->layer[i + 1].acts.x : t->x, n);
	norm(t, t->x_normed, t->x_inv, t->x, &t->out_norm, n);
}

/* ---- backward ---- */

/* Return pointers to the activations of row `from` and later rows. Only q, k, v and prob still begin at row 0. */
static struct train_acts acts_from(const struct trainer *t, const struct train_acts *a, const struct train_matrix *m,
                                   int32_t from)
{
	struct train_acts b = *a;
	size_t rows = (size_t)from, q = rows * (size_t)(t->n_head * t->head_dim), wide = rows * (size_t)t->n_embd,
	       ff = rows * (size_t)t->n_ff;

	b.x += wide;
	b.x_mid += wide;
	b.attn_in += wide;
	b.ffn_in += wide;
	b.attn_inv += rows;
	b.ffn_inv += rows;
	b.attn += q;
	b.gate += ff;
	b.up += ff;
	b.h += ff;
	for (int i = 0; i < TRAIN_TARGETS; i++)
		if (b.low[i])
			b.low[i] += rows * (size_t)m[i].rank;
	return b;
}

/* Convert t->dx from the gradient with respect to the layer's output to the gradient with respect to its input. Add
 * the gradients with respect to the layer's parameters to their members `g`. */
static void layer_back(struct trainer *t, struct train_layer *l, int32_t from, int32_t n)
{
	struct train_acts a = acts_from(t, &l->acts, l->m, from);
	struct train_matrix *m = l->m;
	int32_t rows = n - from;
	struct backend *be = t->be;

	train_linear_back(be, &m[TRAIN_DOWN], a.h, a.low[TRAIN_DOWN], t->dx, t->dlow, t->dh, 0, rows);
	each_rows(&(struct rows){ .t = t,
	                          .out = t->dgate,
	                          .out2 = t->dup,
	                          .dy = t->dh,
	                          .x = a.gate,
	                          .x2 = a.up,
	                          .cols = t->n_ff,
	                          .n = rows,
	                          .back = 1 },
	          glu_rows);
	train_linear_back(be, &m[TRAIN_GATE], a.ffn_in, a.low[TRAIN_GATE], t->dgate, t->dlow, t->dnorm, 0, rows);
	train_linear_back(be, &m[TRAIN_UP], a.ffn_in, a.low[TRAIN_UP], t->dup, t->dlow, t->dnorm, 1, rows);
	norm_back(t, t->dx, t->dnorm, a.ffn_inv, a.x_mid, &l->ffn_norm, rows);
	train_linear_back(be, &m[TRAIN_OUT], a.attn, a.low[TRAIN_OUT], t->dx, t->dlow, t->dattn, 0, rows);
	train_attention_back(t, &l->acts, from, n);
	rope(t, t->dq, t->n_head, 1, from, rows);
	rope(t, t->dk, t->n_kv_head, 1, from, rows);
	train_linear_back(be, &m[TRAIN_Q], a.attn_in, a.low[TRAIN_Q], t->dq, t->dlow, t->dnorm, 0, rows);
	train_linear_back(be, &m[TRAIN_K], a.attn_in, a.low[TRAIN_K], t->dk, t->dlow, t->dnorm, 1, rows);
	train_linear_back(be, &m[TRAIN_V], a.attn_in, a.low[TRAIN_V], t->dv, t->dlow, t->dnorm, 1, rows);
	norm_back(t, t->dx, t->dnorm, a.attn_inv, a.x, &l->attn_norm, rows);
}

/* Return the loss of n rows, beginning with row `from`. If weight > 0, also compute gradients: write the gradient
 * with respect to these rows of x_normed to dx, and add the gradient with respect to the output matrix to w->g. */
static double head_loss(struct trainer *t, const int32_t *next, int32_t from, int32_t n, float weight, float *dx)
{
	const float *x = t->x_normed + (size_t)from * (size_t)t->n_embd;
	struct train_param *w = t->out.w.w ? &t->out.w : &t->embd;
	double loss[LOGIT_ROWS], sum = 0;

	times_turned(t->be, t->logits, x, w->w, n, t->n_vocab, t->n_embd, 1, 0);
	each_rows(&(struct rows){ .t = t,
	                          .out = t->logits,
	                          .cols = t->n_vocab,
	                          .n = n,
	                          .id = next + from,
	                          .loss = loss,
	                          .weight = weight },
	          cross_rows);
	for (int32_t i = 0; i < n; i++)
		sum += loss[i];
	if (weight > 0) {
		times(t->be, dx, t->logits, w->w, n, t->n_vocab, t->n_embd, 1, 0);
		if (w->g)
			turned_times(t->be, w->g, t->logits, x, n, t->n_vocab, t->n_embd, 1);
	}
	return sum;
}

double train_loss(struct trainer *t, const int32_t *id, const int32_t *next, int32_t from, int32_t n, float weight)
{
	size_t width = (size_t)t->n_embd, first = (size_t)from * width;
	double sum = 0;

	for (int32_t i = from; i < n; i += LOGIT_ROWS)
		sum += head_loss(t, next, i, n - i < LOGIT_ROWS ? n - i : LOGIT_ROWS, weight,
		                 t->dnorm + (size_t)(i - from) * width);
	if (weight <= 0)
		return sum;
	memset(t->dx, 0, (size_t)(n - from) * width * sizeof *t->dx);
	norm_back(t, t->dx, t->dnorm, t->x_inv + from, t->x + first, &t->out_norm, n - from);
	for (int32_t i = t->n_layer - 1; i >= 0; i--)
		layer_back(t, &t->layer[i], from, n);
	for (int32_t i = from; t->embd.g && i < n; i++)
		add(t->embd.g + (size_t)id[i] * width, t->dx + (size_t)(i - from) * width, width);
	return sum;
}
