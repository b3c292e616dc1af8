/* kernels/cpu/relative.c - scores of relative positions, which attention adds to its own scores. A task computes the
 * scores of one head for some queries. */
#include "kernels/cpu/cpu.h"

enum { QUERIES = 32 }; /* number of queries in a task */

struct relative_job {
	struct cpu *c;
	const struct relative_args *a;
	int32_t n, chunks; /* number of tokens, and of tasks per head */
};

static void relative_task(void *arg, int task, int worker)
{
	const struct relative_job *j = arg;
	const struct relative_args *a = j->a;
	int32_t head = task / j->chunks, first = task % j->chunks * QUERIES;
	size_t at = (size_t)head * (size_t)a->head_dim;

	(void)worker;
	if (cpu_cancelled(j->c))
		return;
	j->c->fns->relative(&(struct relative_tile){
		.out = (float *)a->out->data + (size_t)head * (size_t)a->out->cols,
		.q = (const float *)a->q->data + at,
		.k = (const float *)a->k->data + at,
		.keys = (const float *)a->keys->data + at,
		.queries = (const float *)a->queries->data + at,
		.out_stride = (size_t)a->n_head * (size_t)a->out->cols,
		.stride = (size_t)a->q->cols,
		.row = a->row + j->n - 1,
		.first = first,
		.last = MIN(first + QUERIES, j->n),
		.n = j->n,
		.dim = a->head_dim,
		.scale = a->scale,
	});
}

void cpu_relative(struct backend *be, const struct relative_args *a, int32_t n)
{
	struct relative_job j = { .c = cpu_of(be), .a = a, .n = n, .chunks = ceil_div(n, QUERIES) };

	if (be->failed || n < 1 || cpu_cancelled(j.c) || relative_check(be, a, n) < 0)
		return;
	pool_run(j.c->pool, relative_task, &j, a->n_head * j.chunks);
}
