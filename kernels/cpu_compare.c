/* kernels/cpu_compare.c - the operations that only comparison policies use: pages of PAGE_ROWS rows (quest).
 *
 * The cancel flag is not polled: all of this is short, and bounds must never be left behind their plane. */
#include <string.h>

#include "kernels/cpu.h"
#include "kernels/cpu_choose.h"

enum { SMALL_BOUNDS = 16 << 10 };    /* values that one thread compares faster than two */

static int bounds_ok(const struct tensor *t, int32_t n_kv_head, int32_t cap, int32_t head_dim)
{
	return t && t->data && t->type == DT_F32 && n_kv_head > 0 && cap > 0 && head_dim > 0 && head_dim <= INT32_MAX / 2 &&
	       t->cols == 2 * head_dim && (int64_t)n_kv_head * ceil_div(cap, PAGE_ROWS) <= t->rows;
}

struct bounds_job {
	const struct choose_fns *fns;
	struct cpu *c;
	float *bounds;
	const struct tensor *plane;
	int32_t cap, dim, row1, first, pages;    /* pages to do, from the first-th on */
	size_t row_bytes, part_bytes;
};

static void bounds_task(void *arg, int task, int worker)
{
	const struct bounds_job *j = arg;
	int32_t head = task / j->pages, page = j->first + task % j->pages, k0 = page * PAGE_ROWS;
	const uint8_t *rows = (const uint8_t *)j->plane->data + (size_t)head * (size_t)j->cap * j->row_bytes;
	size_t dim = (size_t)j->dim;
	size_t row = (size_t)head * (size_t)ceil_div(j->cap, PAGE_ROWS) + (size_t)page;
	float *min = j->bounds + row * 2 * dim, *max = min + dim;
	float *x = (float *)((char *)j->c->scratch.p + (size_t)worker * j->part_bytes);

	for (int32_t k = k0, end = min32(k0 + PAGE_ROWS, j->row1); k < end; k++) {
		j->fns->row_to_f32(j->plane->type, x, rows + (size_t)k * j->row_bytes, j->dim);
		if (k == k0) {
			memcpy(min, x, dim * sizeof *x);
			memcpy(max, x, dim * sizeof *x);
			continue;
		}
		for (size_t i = 0; i < dim; i++) {
			min[i] = x[i] < min[i] ? x[i] : min[i];
			max[i] = x[i] > max[i] ? x[i] : max[i];
		}
	}
}

void cpu_page_bounds(struct backend *be, struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head, int32_t cap,
                     int32_t row0, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct bounds_job j = { .fns = c->fns->choose, .c = c, .plane = plane, .cap = cap };
	int32_t tasks;

	if (be->failed)
		return;
	j.dim = plane ? plane->cols : 0;
	if (!choose_plane_ok(plane, n_kv_head, cap, j.dim) || !bounds_ok(bounds, n_kv_head, cap, j.dim) || n < 0 || row0 < 0 ||
	    n > cap - row0) {
		cpu_fail(be, "internal: page_bounds of rows %d + %d got operands of the wrong shape", (int)row0, (int)n);
		return;
	}
	if (n == 0)
		return;
	j.bounds = bounds->data;
	j.row1 = row0 + n;
	j.first = row0 / PAGE_ROWS;
	j.pages = ceil_div(j.row1, PAGE_ROWS) - j.first;
	j.row_bytes = row_bytes(plane);
	j.part_bytes = align64(((size_t)j.dim + 16) * sizeof(float));
	if (cpu_buffer_grow(c, &c->scratch, j.part_bytes * (size_t)c->base.threads) < 0)
		return;
	tasks = n_kv_head * j.pages;
	if ((int64_t)tasks * PAGE_ROWS * j.dim <= SMALL_BOUNDS)
		for (int32_t t = 0; t < tasks; t++)
			bounds_task(&j, t, 0);
	else
		pool_run(c->pool, bounds_task, &j, tasks);
}

static int page_rows_ok(const struct tensor *rows, const struct tensor *pages, int32_t n_kv_head, int32_t n)
{
	return rows && rows->data && rows->type == DT_I32 && pages && pages->data && pages->type == DT_I32 && rows->data != pages->data &&
	       n_kv_head > 0 && rows->rows >= n_kv_head && pages->rows >= n_kv_head && n >= 0 && n <= INT32_MAX / 4 && rows->cols >= n &&
	       pages->cols >= ceil_div(n, PAGE_ROWS);
}

/* A few thousand numbers: one thread has written them before the others are awake. */
void cpu_page_rows(struct backend *be, struct tensor *rows, const struct tensor *pages, int32_t n_kv_head, int32_t n)
{
	if (be->failed)
		return;
	if (!page_rows_ok(rows, pages, n_kv_head, n)) {
		cpu_fail(be, "internal: page_rows of %d rows got operands of the wrong shape", (int)n);
		return;
	}
	for (int32_t h = 0; h < n_kv_head; h++) {
		int32_t *row = (int32_t *)rows->data + (size_t)h * (size_t)rows->cols;
		const int32_t *page = (const int32_t *)pages->data + (size_t)h * (size_t)pages->cols;

		for (int32_t i = 0; i < n; i++)
			row[i] = page[i / PAGE_ROWS] * PAGE_ROWS + i % PAGE_ROWS;
	}
}

void cpu_page_scan(struct backend *be, const struct scan_args *a)
{
	struct scan_job j = { .raw = a->raw, .tile = { .bits = 16, .type = DT_F32 } };

	if (be->failed)
		return;
	j.n = a->n_rows > 0 ? ceil_div(a->n_rows, PAGE_ROWS) : a->n_rows;
	if (!scan_ok(be, a, j.n))
		return;
	if (!bounds_ok(a->keys, a->n_kv_head, a->cap, a->head_dim)) {
		cpu_fail(be, "internal: a scan of the pages of %d rows got bounds of the wrong shape", (int)a->n_rows);
		return;
	}
	if (j.n == 0)
		return;
	j.tile.dim = 2 * a->head_dim;
	j.keys = a->keys->data;
	j.head_bytes = (size_t)ceil_div(a->cap, PAGE_ROWS) * (size_t)j.tile.dim * sizeof(float);
	j.out = a->out->data;
	if (scan_prepare(be, a, &j, 1) == 0)
		scan_run(be, a, &j);
}

