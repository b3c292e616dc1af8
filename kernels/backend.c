/* kernels/backend.c - opening a backend by name, and the probes of memory bandwidth and of arithmetic. */
#include "kernels/backend.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kernels/cpu_fns.h"
#include "kernels/cpu_pool.h"
#include "kernels/plugin.h"

static const struct {
	const char *name;
	int (*open)(struct backend **, const struct backend_options *, char err[160]);
} backends[] = {
	{ "cpu", cpu_backend_open },
	{ "cuda", plugin_cuda_open },
};
enum { N_BACKENDS = sizeof backends / sizeof backends[0] };

int backend_open(struct backend **out, const char *name, const struct backend_options *opt, char err[160])
{
	static const struct backend_options defaults;
	char names[64] = "";

	*out = NULL;
	err[0] = 0;
	/* Why not the other one: whoever wants to know opens it by name. */
	if (!strcmp(name, "auto"))
		return plugin_cuda_open(out, opt ? opt : &defaults, err) ? backend_open(out, "cpu", opt, err) : 0;
	for (int i = 0; i < N_BACKENDS; i++) {
		if (!strcmp(name, backends[i].name))
			return backends[i].open(out, opt ? opt : &defaults, err);
		snprintf(names + strlen(names), sizeof names - strlen(names), "%s'%s'", i ? ", " : "",
		         backends[i].name);
	}
	snprintf(err, 160, "unknown device '%.40s'; there are 'auto', %s", name, names);
	return -1;
}

struct probe {
	const struct cpu_fns *fns;
	uint8_t *data;
	uint64_t part;              /* bytes per thread */
	_Atomic uint64_t sum;       /* keeps the reads alive */
};

static void probe_fill(void *arg, int task, int worker)
{
	struct probe *p = arg;

	(void)worker;
	memset(p->data + (uint64_t)task * p->part, task + 1, p->part);
}

static void probe_read(void *arg, int task, int worker)
{
	struct probe *p = arg;

	(void)worker;
	atomic_fetch_add(&p->sum, p->fns->read_sum(p->data + (uint64_t)task * p->part, p->part));
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double backend_bandwidth(int threads, uint64_t bytes)
{
	struct probe p = { .fns = cpu_fns_best() };
	struct pool *pool;
	double best = 0;
	uint64_t size;

	pool = pool_open(threads > 0 ? threads : pool_cpus());
	if (!pool)
		return 0;
	threads = pool_threads(pool);
	p.part = (bytes / (uint64_t)threads + 4095) / 4096 * 4096;
	if (p.part < 4096)
		p.part = 4096;
	size = p.part * (uint64_t)threads;
	p.data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p.data == MAP_FAILED) {
		pool_close(pool);
		return 0;
	}
#ifdef MADV_HUGEPAGE
	madvise(p.data, size, MADV_HUGEPAGE);
#endif
	pool_run(pool, probe_fill, &p, threads);
	for (int pass = 0; pass < 7; pass++) {
		double t0 = seconds(), dt;

		pool_run(pool, probe_read, &p, threads);
		dt = seconds() - t0;
		if (dt > 0 && (double)size / dt > best)
			best = (double)size / dt;
	}
	munmap(p.data, size);
	pool_close(pool);
	return best;
}

struct multiply_probe { const struct cpu_fns *fns; int32_t rounds; _Atomic uint64_t done; };

static void probe_multiply(void *arg, int task, int worker)
{
	struct multiply_probe *p = arg;

	(void)task;
	(void)worker;
	atomic_fetch_add(&p->done, p->fns->multiply(p->rounds));
}

static double multiply_pass(struct multiply_probe *p, struct pool *pool)
{
	double t0 = seconds();

	atomic_store(&p->done, 0);
	pool_run(pool, probe_multiply, p, pool_threads(pool));
	return seconds() - t0;
}

double backend_arithmetic(int threads)
{
	struct multiply_probe p = { .fns = cpu_fns_best(), .rounds = 1 << 10 };
	struct pool *pool;
	double best = 0;

	pool = pool_open(threads > 0 ? threads : pool_cpus());
	if (!pool)
		return 0;
	while (p.rounds < 1 << 28 && multiply_pass(&p, pool) < 4e-3)
		p.rounds *= 2;
	for (int pass = 0; pass < 7; pass++) {
		double dt = multiply_pass(&p, pool);

		if (dt > 0 && (double)atomic_load(&p.done) / dt > best)
			best = (double)atomic_load(&p.done) / dt;
	}
	pool_close(pool);
	return best;
}
