/* kernels/cpu/rows.c - operations on rows (tokens): norms, activations, sums, copies, RoPE. An output row depends only
 * on the input row with the same index, except in cpu_add_rows(), which sums rows. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

enum { SMALL_ROWS = 32 << 10 }; /* up to this number of values, one thread is faster than two */

float *cpu_rows_of(struct backend *be, const struct tensor *t, int32_t n, int32_t cols, const char *op)
{
	if (t && t->data && t->type == DT_F32 && t->layout != LAYOUT_PACKED && n >= 0 && n <= t->rows &&
	    (!cols || t->cols == cols))
		return t->data;
	backend_fail(be, "internal: %s got an operand of the wrong shape", op);
	return NULL;
}

void cpu_run_rows(struct row_job *j, pool_fn *fn)
{
	if ((int64_t)j->n * j->cols <= SMALL_ROWS || j->n == 1) {
		j->per_task = j->n;
		if (j->n > 0)
			fn(j, 0, 0);
		return;
	}
	j->per_task = ceil_div(j->n, j->c->base.threads * 4);
	pool_run(j->c->pool, fn, j, ceil_div(j->n, j->per_task));
}

static void embed_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;
	size_t rb = row_bytes(j->table);

	(void)worker;
	FOR_TASK_ROWS(i, j, task)
		dtype_to_f32(j->table->type, j->out + (size_t)i * (size_t)j->cols,
		             (const char *)j->table->data + (size_t)j->id[i] * rb, j->cols);
}

void cpu_embed(struct backend *be, struct tensor *out, const struct tensor *table, const int32_t *id, int32_t n)
{
	struct row_job j = { .c = cpu_of(be), .table = table, .id = id, .n = n, .cols = table->cols };

	if (be->failed || !(j.out = cpu_rows_of(be, out, n, table->cols, "embed")))
		return;
	if (table->layout == LAYOUT_PACKED) {
		backend_fail(be, "internal: embed got a repacked table");
		return;
	}
	for (int32_t i = 0; i < n; i++)
		if (id[i] < 0 || id[i] >= table->rows) {
			backend_fail(be, "token id %d is not within a vocabulary of %d", (int)id[i], (int)table->rows);
			return;
		}
	cpu_run_rows(&j, embed_task);
}

static void rmsnorm_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;

	(void)worker;
	FOR_TASK_ROWS(i, j, task)
		for (int32_t g = 0; g < j->cols; g += j->group) {
			size_t at = (size_t)i * (size_t)j->cols + (size_t)g;

			j->c->fns->rmsnorm(j->out + at, j->x + at, j->w + (j->w_cols > j->group ? g : 0), j->group,
			                   j->eps);
		}
}

void cpu_rmsnorm(struct backend *be, struct tensor *out, const struct tensor *x, const struct tensor *w, int32_t group,
                 float eps, int32_t n)
{
	struct row_job j = { .c = cpu_of(be),
		             .n = n,
		             .cols = x->cols,
		             .group = group,
		             .w_cols = w->cols == x->cols ? x->cols : group,
		             .eps = eps };

	if (be->failed || !(j.x = cpu_rows_of(be, x, n, 0, "rmsnorm")) ||
	    !(j.out = cpu_rows_of(be, out, n, x->cols, "rmsnorm")) ||
	    !(j.w = cpu_rows_of(be, w, 1, j.w_cols, "rmsnorm")))
		return;
	if (group <= 0 || x->cols % group) {
		backend_fail(be, "internal: rmsnorm got %d columns in groups of %d", (int)x->cols, (int)group);
		return;
	}
	cpu_run_rows(&j, rmsnorm_task);
}

static void layernorm_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;

	(void)worker;
	FOR_TASK_ROWS(i, j, task) {
		size_t at = (size_t)i * (size_t)j->cols;

		j->c->fns->layernorm(j->out + at, j->x + at, j->w, j->bias, j->cols, j->eps);
	}
}

void cpu_layernorm(struct backend *be, struct tensor *out, const struct tensor *x, const struct tensor *w,
                   const struct tensor *b, float eps, int32_t n)
{
	struct row_job j = { .c = cpu_of(be),
		             .n = n,
		             .cols = x->cols,
		             .out = out->data,
		             .x = x->data,
		             .w = w->data,
		             .bias = b->data,
		             .eps = eps };

	if (!be->failed && layernorm_check(be, out, x, w, b, n) == 0)
		cpu_run_rows(&j, layernorm_task);
}

static void gelu_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;
	size_t from = (size_t)task * (size_t)j->per_task, end = MIN(from + (size_t)j->per_task, (size_t)j->n);

	(void)worker;
	for (size_t i = from; i < end; i++)
		j->c->fns->gelu(j->out + i * (size_t)j->cols, j->cols);
}

void cpu_gelu(struct backend *be, struct tensor *x, int32_t n)
{
	struct row_job j = { .c = cpu_of(be), .n = n, .cols = x->cols, .out = x->data };

	if (!be->failed && gelu_check(be, x, n) == 0)
		cpu_run_rows(&j, gelu_task);
}

static void axpby_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;

	(void)worker;
	FOR_TASK_ROWS(i, j, task) {
		float *y = j->out + (size_t)i * (size_t)j->cols;
		const float *x = j->x + (size_t)i * (size_t)j->cols;

		for (int32_t c = 0; c < j->cols; c++)
			y[c] = j->b != 0 ? j->a * x[c] + j->b * y[c] : j->a * x[c];
	}
}

void cpu_axpby(struct backend *be, struct tensor *y, float a, const struct tensor *x, float b, int32_t n)
{
	struct row_job j = { .c = cpu_of(be), .n = n, .cols = x->cols, .a = a, .b = b };

	if (be->failed || !(j.x = cpu_rows_of(be, x, n, 0, "axpby")) ||
	    !(j.out = cpu_rows_of(be, y, n, x->cols, "axpby")))
		return;
	cpu_run_rows(&j, axpby_task);
}

void cpu_take_rows(struct backend *be, struct tensor *out, const struct tensor *x, const int32_t *row, int32_t n)
{
	size_t cols = (size_t)x->cols;

	if (be->failed || n < 1 || rows_check(be, "take_rows", out, n, x, x->rows, row, n) < 0)
		return;
	for (int32_t i = 0; i < n; i++)
		memcpy((float *)out->data + (size_t)i * cols, (const float *)x->data + (size_t)row[i] * cols,
		       cols * sizeof(float));
}

void cpu_add_rows(struct backend *be, struct tensor *out, const struct tensor *x, const int32_t *row,
                  const float *weight, int32_t n)
{
	const float *from = x->data;

	if (be->failed || n < 1 || rows_check(be, "add_rows", out, 0, x, out->rows, row, n) < 0)
		return;
	for (int32_t i = 0; i < n; i++, from += x->cols) {
		float *to = (float *)out->data + (size_t)row[i] * (size_t)x->cols;

		for (int32_t c = 0; c < x->cols; c++)
			to[c] += weight[i] * from[c];
	}
}

static void rope_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;

	(void)worker;
	FOR_TASK_ROWS(i, j, task) {
		float *out = j->out + (size_t)i * (size_t)j->cols;
		const float *x = j->x + (size_t)i * (size_t)j->cols;

		if (out != x)
			memcpy(out, x, (size_t)j->cols * sizeof *out);
		j->c->fns->rope(out, j->w + (size_t)i * (size_t)j->dims, j->heads, j->head_dim, j->dims, j->neox);
	}
}

/* Insert the values of a row into the sorted list of the k largest. Devices have a faster way; the CPU backend's is for
 * comparison. */
static void row_largest(float *out, const float *x, int32_t cols, int32_t k)
{
	for (int32_t i = 0, n = 0; i < cols; i++) {
		float v = isnan(x[i]) ? INFINITY : x[i];
		int32_t at = n < k ? n++ : k;

		for (; at > 0 && v > out[at - 1]; at--)
			if (at < k) {
				out[at] = out[at - 1];
				out[k + at] = out[k + at - 1];
			}
		if (at < k) {
			out[at] = v;
			out[k + at] = (float)i;
		}
	}
}

void cpu_largest(struct backend *be, struct tensor *out, const struct tensor *x, int32_t k, int32_t n)
{
	if (be->failed || n < 1 || largest_check(be, out, x, k, n) < 0)
		return;
	for (int32_t i = 0; i < n; i++)
		row_largest((float *)out->data + (size_t)i * (size_t)out->cols,
		            (const float *)x->data + (size_t)i * (size_t)x->cols, x->cols, k);
}

void cpu_rope(struct backend *be, struct tensor *out, const struct tensor *x, const struct tensor *table,
              int32_t head_dim, int32_t dims, int neox, int32_t n)
{
	struct row_job j = {
		.c = cpu_of(be), .n = n, .cols = x->cols, .head_dim = head_dim, .dims = dims, .neox = neox
	};

	if (be->failed || !(j.out = cpu_rows_of(be, out, n, x->cols, "rope")) ||
	    !(j.x = cpu_rows_of(be, x, n, 0, "rope")) || !(j.w = cpu_rows_of(be, table, n, dims, "rope")))
		return;
	if (head_dim <= 0 || x->cols % head_dim || dims > head_dim || dims % 2) {
		backend_fail(be, "internal: rope got %d columns, heads of %d, %d of them rotated", (int)x->cols,
		             (int)head_dim, (int)dims);
		return;
	}
	j.heads = x->cols / head_dim;
	cpu_run_rows(&j, rope_task);
}

static void kv_put_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;
	size_t dim = (size_t)j->head_dim, row = (size_t)dtype_bytes(j->type, dim);
	float *work = (float *)j->c->scratch.p + (size_t)worker * dim;

	FOR_TASK_ROWS(i, j, task)
		for (int32_t h = 0; h < j->heads; h++) {
			size_t at = ((size_t)h * (size_t)j->cap + (size_t)j->slot0 + (size_t)i) * row;

			cpu_kv_row(j->c->fns, j->type, (char *)j->plane + at,
			           j->x + (size_t)i * (size_t)j->cols + (size_t)h * dim, j->head_dim, work);
		}
}

void cpu_kv_put(struct backend *be, struct tensor *plane, const struct tensor *x, int32_t n_kv_head, int32_t slot0,
                int32_t n)
{
	struct row_job j = { .c = cpu_of(be),
		             .n = n,
		             .cols = x->cols,
		             .heads = n_kv_head,
		             .slot0 = slot0,
		             .plane = plane->data,
		             .type = plane->type,
		             .head_dim = plane->cols };

	if (be->failed || !(j.x = cpu_rows_of(be, x, n, 0, "kv_put")))
		return;
	if (plane->cols % dtype_info(plane->type)->block) {
		backend_fail(be, "a %s cache needs heads of a multiple of 32 values, not %d; use --kv-type f16",
		             plane->type == DT_Q4_0 ? "q4_0" : "q8_0", (int)plane->cols);
		return;
	}
	if (!plane->data || !kv_type_ok(plane->type) || n_kv_head <= 0 || plane->rows % n_kv_head ||
	    (int64_t)n_kv_head * plane->cols != x->cols) {
		backend_fail(be, "internal: kv_put got a plane of the wrong shape");
		return;
	}
	j.cap = plane->rows / n_kv_head;
	if (slot0 < 0 || n > j.cap - slot0) {
		backend_fail(be, "internal: slots %d + %d do not fit a cache of %d", (int)slot0, (int)n, (int)j.cap);
		return;
	}
	if (cpu_buffer_grow(j.c, &j.c->scratch, (size_t)j.c->base.threads * (size_t)plane->cols * sizeof(float)) < 0)
		return;
	cpu_run_rows(&j, kv_put_task);
}
