/* kernels/cpu/recurrent.c - operations of layers that have a state instead of a KV cache: short convolutions, the gated
 * delta rule, state spaces, gates. A task computes some columns for all tokens, in token order. So a result does not
 * depend on the number of threads, or on the division of a prefill into steps. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

/* up to SMALL_CONV values, one thread is faster than two */
enum { COLUMNS_A_TASK = 256, SMALL_CONV = 16 << 10 };

/* ---- short convolutions ---- */

struct conv_job {
	const struct short_conv *a;
	const struct cpu_fns *fns;
	int32_t n, cols, gated;
};

/* Return the convolution inputs u of token i, beginning with the input of column `from`. The caller reads the inputs up
 * to column to - 1. If i < 0, the token is before this call, and its inputs are in the tensor `state`. In the gated
 * form, the inputs of this call's tokens are computed and written to to_row. All other inputs are returned in place,
 * without a copy. */
static const float *conv_inputs(const struct conv_job *j, int32_t i, int32_t from, int32_t to, float *to_row)
{
	const struct short_conv *a = j->a;
	size_t row = (size_t)j->cols, n = (size_t)(to - from);
	const float *b;

	if (i < 0)
		return (const float *)a->state->data + (size_t)(a->taps - 1 + i) * row + (size_t)from;
	b = (const float *)a->in->data + (size_t)i * (j->gated ? 3 : 1) * row + (size_t)from;
	if (!j->gated)
		return b;
	for (size_t c = 0; c < n; c++)
		to_row[c] = b[c] * b[2 * row + c];
	return to_row;
}

static void conv_task(void *arg, int task, int worker)
{
	const struct conv_job *j = arg;
	const struct short_conv *a = j->a;
	int32_t from = task * COLUMNS_A_TASK, to = MIN(from + COLUMNS_A_TASK, j->cols), taps = a->taps;
	size_t row = (size_t)j->cols, n = (size_t)(to - from);
	const float *w = (const float *)a->w->data + (size_t)from * (size_t)taps;
	float u[COLUMNS_A_TASK], one[COLUMNS_A_TASK];

	(void)worker;
	for (size_t c = 0; c < n; c++)
		one[c] = 1;
	for (int32_t i = 0; i < j->n; i++) {
		float *out = (float *)a->out->data + (size_t)i * row + (size_t)from;
		const float *gate = (const float *)a->in->data + ((size_t)i * 3 + 1) * row + (size_t)from;

		memset(out, 0, n * sizeof *out);
		for (int32_t k = 0; k < taps; k++) {
			const float *x = conv_inputs(j, i - taps + 1 + k, from, to, u);

			for (size_t c = 0; c < n; c++)
				out[c] += w[c * (size_t)taps + (size_t)k] * x[c];
		}
		for (size_t c = 0; a->bias && c < n; c++)
			out[c] += ((const float *)a->bias->data)[(size_t)from + c];
		if (!j->gated)
			j->fns->glu(ACT_SILU, out, one, (int32_t)n);
		for (size_t c = 0; j->gated && c < n; c++)
			out[c] *= gate[c];
	}
	for (int32_t k = 0; k < taps - 1; k++)
		memcpy((float *)a->next->data + (size_t)k * row + (size_t)from,
		       conv_inputs(j, j->n - taps + 1 + k, from, to, u), n * sizeof *u);
}

void cpu_short_conv(struct backend *be, const struct short_conv *a, int32_t n)
{
	struct conv_job j = {
		.a = a, .fns = cpu_of(be)->fns, .n = n, .cols = a->out->cols, .gated = a->in->cols != a->out->cols
	};
	int tasks = ceil_div(j.cols, COLUMNS_A_TASK);

	if (be->failed || n < 1 || short_conv_check(be, a, n) < 0)
		return;
	if ((int64_t)n * j.cols > SMALL_CONV) {
		pool_run(cpu_of(be)->pool, conv_task, &j, tasks);
		return;
	}
	for (int t = 0; t < tasks; t++)
		conv_task(&j, t, 0);
}

/* ---- the gated delta rule ---- */

enum { VALUES_A_TASK = 64 };

struct delta_job {
	const struct delta_rule *a;
	const struct cpu *c;
	int32_t n, blocks;
};

/* Set out to x scaled to the length `length`. */
static void vector_scale(float *out, const float *x, int32_t n, double length)
{
	double sum = 1e-6, scale;

	for (int32_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	scale = length / sqrt(sum);
	for (int32_t i = 0; i < n; i++)
		out[i] = (float)((double)x[i] * scale);
}

static double softplus(double x)
{
	return x > 40 ? x : log1p(exp(x));
}

/* Compute up to VALUES_A_TASK columns of one value head, for all tokens. */
static void delta_task(void *arg, int task, int worker)
{
	const struct delta_job *j = arg;
	const struct delta_rule *a = j->a;
	int32_t head = task / j->blocks, from = task % j->blocks * VALUES_A_TASK,
		cols = MIN(VALUES_A_TASK, a->value_dim - from);
	int32_t key_head = a->grouped ? head / (a->n_value_head / a->n_key_head) : head % a->n_key_head;
	size_t keys = (size_t)a->n_key_head * (size_t)a->key_dim, stride = (size_t)a->value_dim,
	       heads = (size_t)a->n_value_head;
	size_t at = (size_t)head * (size_t)a->key_dim * stride + (size_t)from;
	const float *alpha = a->alpha->data, *beta = a->beta->data, *decay = a->decay->data, *dt = a->dt->data;
	float q[DELTA_KEY], k[DELTA_KEY];
	struct delta_tile t = { .state = (float *)a->next->data + at,
		                .stride = stride,
		                .key_dim = a->key_dim,
		                .cols = cols,
		                .q = q,
		                .k = k,
		                .corrects = 1 };

	(void)worker;
	for (int32_t i = 0; i < a->key_dim; i++)
		memcpy(t.state + (size_t)i * stride, (const float *)a->state->data + at + (size_t)i * stride,
		       (size_t)cols * sizeof(float));
	for (int32_t i = 0; i < j->n; i++) {
		const float *row = (const float *)a->qkv->data + (size_t)i * (size_t)a->qkv->cols;
		size_t at_head = (size_t)i * heads + (size_t)head, value = (size_t)head * stride + (size_t)from;

		if (cpu_cancelled(j->c))
			return;
		vector_scale(q, row + (size_t)key_head * (size_t)a->key_dim, a->key_dim, 1 / sqrt((double)a->key_dim));
		vector_scale(k, row + keys + (size_t)key_head * (size_t)a->key_dim, a->key_dim, 1);
		t.decay = (float)exp((double)decay[head] * softplus((double)alpha[at_head] + (double)dt[head]));
		t.beta = (float)(1 / (1 + exp(-(double)beta[at_head])));
		t.v = row + 2 * keys + value;
		t.out = (float *)a->out->data + (size_t)i * heads * stride + value;
		j->c->fns->delta(&t);
	}
}

void cpu_delta_rule(struct backend *be, const struct delta_rule *a, int32_t n)
{
	struct delta_job j = { .a = a, .c = cpu_of(be), .n = n };
	int tasks;

	if (be->failed || n < 1 || delta_rule_check(be, a, n) < 0)
		return;
	j.blocks = ceil_div(a->value_dim, VALUES_A_TASK);
	tasks = a->n_value_head * j.blocks;
	if ((int64_t)n * a->state->rows * a->value_dim > SMALL_CONV) {
		pool_run(cpu_of(be)->pool, delta_task, &j, tasks);
		return;
	}
	for (int t = 0; t < tasks; t++)
		delta_task(&j, t, 0);
}

/* ---- state spaces ---- */

struct space_job {
	const struct state_space *a;
	const struct cpu *c;
	int32_t n, blocks;
};

/* Compute up to VALUES_A_TASK columns of one head, for all tokens. */
static void space_task(void *arg, int task, int worker)
{
	const struct space_job *j = arg;
	const struct state_space *a = j->a;
	int32_t head = task / j->blocks, from = task % j->blocks * VALUES_A_TASK,
		cols = MIN(VALUES_A_TASK, a->head_dim - from);
	size_t stride = (size_t)a->head_dim, heads = (size_t)a->n_head, values = heads * stride,
	       dim = (size_t)a->state_dim;
	size_t at = (size_t)head * dim * stride + (size_t)from, group = (size_t)(head / (a->n_head / a->n_group));
	const float *step = a->step->data, skip = ((const float *)a->skip->data)[head];
	double decay = (double)((const float *)a->decay->data)[head],
	       bias = (double)((const float *)a->bias->data)[head];
	struct delta_tile t = {
		.state = (float *)a->next->data + at, .stride = stride, .key_dim = a->state_dim, .cols = cols
	};

	(void)worker;
	for (size_t i = 0; i < dim; i++)
		memcpy(t.state + i * stride, (const float *)a->state->data + at + i * stride,
		       (size_t)cols * sizeof(float));
	for (int32_t i = 0; i < j->n; i++) {
		const float *row = (const float *)a->xbc->data + (size_t)i * (size_t)a->xbc->cols;
		double dt = softplus((double)step[(size_t)i * heads + (size_t)head] + bias);

		if (cpu_cancelled(j->c))
			return;
		t.k = row + values + group * dim;
		t.q = row + values + ((size_t)a->n_group + group) * dim;
		t.v = row + (size_t)head * stride + (size_t)from;
		t.decay = (float)exp(decay * dt);
		t.beta = (float)dt;
		t.out = (float *)a->out->data + (size_t)i * values + (size_t)head * stride + (size_t)from;
		j->c->fns->delta(&t);
		for (int32_t c = 0; c < cols; c++)
			t.out[c] += skip * t.v[c];
	}
}

void cpu_state_space(struct backend *be, const struct state_space *a, int32_t n)
{
	struct space_job j = { .a = a, .c = cpu_of(be), .n = n };
	int tasks;

	if (be->failed || n < 1 || state_space_check(be, a, n) < 0)
		return;
	j.blocks = ceil_div(a->head_dim, VALUES_A_TASK);
	tasks = a->n_head * j.blocks;
	if ((int64_t)n * a->state->rows * a->head_dim > SMALL_CONV) {
		pool_run(cpu_of(be)->pool, space_task, &j, tasks);
		return;
	}
	for (int t = 0; t < tasks; t++)
		space_task(&j, t, 0);
}

/* ---- gates ---- */

struct gate_job {
	struct row_job rows;
	enum gate_kind kind;
	float *gate;
};

static void gate_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;
	const struct gate_job *g = arg; /* the member `rows` comes first in struct gate_job */

	(void)worker;
	FOR_TASK_ROWS(i, j, task) {
		float *x = j->out + (size_t)i * (size_t)j->cols, *gate = g->gate + (size_t)i * (size_t)j->cols;

		if (g->kind == GATE_SIGMOID) {
			for (int32_t c = 0; c < j->cols; c++)
				x[c] *= 1 / (1 + expf(-gate[c]));
			continue;
		}
		j->c->fns->glu(g->kind == GATE_GELU ? ACT_GELU : ACT_SILU, gate, x, j->cols);
		memcpy(x, gate, (size_t)j->cols * sizeof *x);
	}
}

void cpu_gate(struct backend *be, struct tensor *x, struct tensor *gate, enum gate_kind kind, int32_t n)
{
	struct gate_job j = { .rows = { .c = cpu_of(be), .n = n, .cols = x->cols, .out = x->data },
		              .kind = kind,
		              .gate = gate->data };

	if (be->failed || n < 1 || gate_check(be, x, gate, n) < 0)
		return;
	cpu_run_rows(&j.rows, gate_task);
}
