/* kernels/cpu/compare.c - operations that only comparison policies use: pages of slots (quest), the drift of a query
 * (refresh). Operations on pages ignore the cancel flag: they are short, and page bounds must always match their
 * keys. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/select.h"

enum { SMALL_BOUNDS = 16 << 10 }; /* up to this number of values, one thread is faster than two */

struct bounds_job {
	const struct select_fns *fns;
	struct cpu *c;
	float *bounds;
	const struct tensor *plane;
	/* `pages` is the number of pages to update, from page `first` on */
	int32_t cap, page, dim, slot1, first, pages;
	size_t row_bytes, thread_bytes;
};

static void bounds_task(void *arg, int task, int worker)
{
	const struct bounds_job *j = arg;
	int32_t head = task / j->pages, at = j->first + task % j->pages, k0 = at * j->page;
	const uint8_t *rows = (const uint8_t *)j->plane->data + (size_t)head * (size_t)j->cap * j->row_bytes;
	size_t dim = (size_t)j->dim;
	size_t row = (size_t)head * (size_t)ceil_div(j->cap, j->page) + (size_t)at;
	float *min = j->bounds + row * 2 * dim, *max = min + dim;
	float *x = (float *)((char *)j->c->scratch.p + (size_t)worker * j->thread_bytes);

	for (int32_t k = k0, end = MIN(k0 + j->page, j->slot1); k < end; k++) {
		cpu_kv_floats(j->fns, j->plane->type, x, rows + (size_t)k * j->row_bytes, j->dim);
		if (k == k0) {
			memcpy(min, x, dim * sizeof *x);
			memcpy(max, x, dim * sizeof *x);
			continue;
		}
		for (size_t i = 0; i < dim; i++) {
			min[i] = MIN(x[i], min[i]);
			max[i] = MAX(x[i], max[i]);
		}
	}
}

void cpu_page_bounds(struct backend *be, struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head,
                     int32_t cap, int32_t page, int32_t slot0, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct bounds_job j = { .fns = c->fns->select, .c = c, .plane = plane, .cap = cap, .page = page };
	int32_t tasks;

	if (be->failed || page_bounds_check(be, bounds, plane, n_kv_head, cap, page, slot0, n) < 0 || n == 0)
		return;
	j.dim = plane->cols;
	j.bounds = bounds->data;
	j.slot1 = slot0 + n;
	j.first = slot0 / page;
	j.pages = ceil_div(j.slot1, page) - j.first;
	j.row_bytes = row_bytes(plane);
	j.thread_bytes = align64(((size_t)j.dim + 16) * sizeof(float));
	if (cpu_buffer_grow(c, &c->scratch, j.thread_bytes * (size_t)c->base.threads) < 0)
		return;
	tasks = n_kv_head * j.pages;
	if ((int64_t)tasks * page * j.dim <= SMALL_BOUNDS)
		for (int32_t t = 0; t < tasks; t++)
			bounds_task(&j, t, 0);
	else
		pool_run(c->pool, bounds_task, &j, tasks);
}

/* Write the list of slots on the caller's thread, because this takes less time than waking a thread. */
void cpu_page_slots(struct backend *be, struct tensor *slots, const struct tensor *pages, int32_t n_kv_head,
                    int32_t page, int32_t n)
{
	if (be->failed || page_slots_check(be, slots, pages, n_kv_head, page, n) < 0)
		return;
	for (int32_t h = 0; h < n_kv_head; h++) {
		int32_t *slot = (int32_t *)slots->data + (size_t)h * (size_t)slots->cols;
		const int32_t *from = (const int32_t *)pages->data + (size_t)h * (size_t)pages->cols;

		for (int32_t i = 0; i < n; i++)
			slot[i] = from[i / page] * page + i % page;
	}
}

void cpu_page_scan(struct backend *be, const struct scan_args *a)
{
	struct scan_job j = { .raw = a->raw, .tile = { .bits = 16, .type = DT_F32 } };

	if (be->failed)
		return;
	j.n = a->n_slots > 0 && a->page > 0 ? ceil_div(a->n_slots, a->page) : a->n_slots;
	if (page_scan_check(be, a, j.n) < 0 || j.n == 0)
		return;
	j.tile.dim = 2 * a->head_dim;
	j.keys = a->keys->data;
	j.head_bytes = (size_t)ceil_div(a->cap, a->page) * (size_t)j.tile.dim * sizeof(float);
	j.out = a->out->data;
	if (scan_prepare(be, a, &j, 1) == 0)
		scan_run(be, a, &j);
}

/* ---- refresh ---- */

/* Compute on the caller's thread, in double and in a fixed order: every instruction set gives the same bits. */
void cpu_query_drift(struct backend *be, const struct query_drift_args *a)
{
	int64_t width = (int64_t)a->n_head * a->head_dim;
	const struct tensor *t[] = { a->now, a->flag ? a->then : a->now };
	double ab = 0, aa = 0, bb = 0, same = 0;
	const float *q;
	float *now;

	if (be->failed || cpu_cancelled(cpu_of(be)))
		return;
	for (int i = 0; i < 2; i++)
		if (!t[i] || !t[i]->data || t[i]->type != DT_F32 || a->row < 0 || a->row >= t[i]->rows ||
		    t[i]->cols != a->head_dim)
			goto wrong;
	if (a->n_head < 1 || a->head_dim < 1 || width > INT32_MAX || a->q_row < 0 ||
	    (a->flag &&
	     (!predicate_ok(&(struct predicate){ .flag = a->flag, .col = a->col }) ||
	      !predicate_ok(&(struct predicate){ .flag = a->shown, .col = a->col }) || !a->cosine || !a->cosine->data ||
	      a->cosine->type != DT_F32 || a->cosine->rows < 1 || a->col >= a->cosine->cols)))
		goto wrong;
	if (!(q = cpu_rows_of(be, a->q, a->q_row + 1, (int32_t)width, "query_drift")))
		return;
	q += (size_t)a->q_row * (size_t)width;
	now = (float *)a->now->data + (size_t)a->row * (size_t)a->head_dim;
	for (int32_t d = 0; d < a->head_dim; d++) {
		double sum = 0;

		for (int32_t h = 0; h < a->n_head; h++)
			sum += (double)q[h * a->head_dim + d];
		now[d] = (float)(sum / a->n_head);
	}
	if (!a->flag)
		return;
	for (int32_t d = 0; d < a->head_dim; d++) {
		double x = (double)now[d],
		       y = (double)((const float *)a->then->data)[(size_t)a->row * (size_t)a->head_dim + (size_t)d];

		ab += x * y;
		aa += x * x;
		bb += y * y;
	}
	if (aa > 0 && bb > 0)
		same = ab / sqrt(aa * bb);
	same = same > 1 ? 1 : same < -1 ? -1 : same;
	((float *)a->cosine->data)[a->col] = (float)same;
	((int32_t *)a->flag->data)[a->col] = same <= a->least;
	if (a->shown)
		((int32_t *)a->shown->data)[a->col] = same <= a->least;
	return;
wrong:
	backend_fail(be, "internal: query_drift of %d heads of %d values got operands of the wrong shape",
	             (int)a->n_head, (int)a->head_dim);
}
