/* kernels/cpu/host.c - work that runs on the host with every backend: tasks and convolutions. */
#include "kernels/cpu/cpu.h"

struct each {
	void (*fn)(void *arg, int task);
	void *arg;
};

static void each_task(void *arg, int task, int worker)
{
	struct each *e = arg;

	(void)worker;
	e->fn(e->arg, task);
}

void backend_each(struct backend *be, void (*fn)(void *arg, int task), void *arg, int n)
{
	struct each e = { fn, arg };

	if (be->ops == &cpu_ops) {
		pool_run(cpu_of(be)->pool, each_task, &e, n);
		return;
	}
	for (int i = 0; i < n; i++)
		fn(arg, i);
}

const struct cpu_fns *cpu_host_fns(struct backend *be)
{
	static _Atomic(const struct cpu_fns *) best;
	const struct cpu_fns *fns = be->ops == &cpu_ops ? cpu_of(be)->fns : best;

	if (!fns)
		best = fns = cpu_fns_best();
	return fns;
}

void conv_row(struct backend *be, const struct conv3_args *a)
{
	cpu_host_fns(be)->conv(a);
}

void conv_row_grad(struct backend *be, const struct conv3_grad_args *a)
{
	cpu_host_fns(be)->conv_grad(a);
}
