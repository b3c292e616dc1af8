/* kernels/machine.c - measures the machine's memory bandwidth and arithmetic rate, with which the speed of the engine
 * is compared. Each measurement opens a thread pool, repeats a pass and keeps the time of the fastest pass. A pass runs
 * read_sum() or multiply() of the best instruction set (fns.h). */
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kernels/backend.h"
#include "kernels/cpu/fns.h"
#include "kernels/cpu/pool.h"
#include "kernels/os.h"

enum { PASSES = 7 };
/* duration of the shortest pass in seconds: a shorter pass would mainly measure how long threads take to start */
#define LEAST_PASS 4e-3

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- memory bandwidth ---- */

struct bandwidth_run {
	const struct cpu_fns *fns;
	uint8_t *data;
	uint64_t part;        /* number of bytes that one thread reads */
	_Atomic uint64_t sum; /* sum of all bytes read; it is computed so that the compiler does not remove the reads */
};

/* Write every page of the buffer. Pages that were never written all map to the same page of zeros, which would be read
 * from the L1 cache. */
static void fill_task(void *arg, int task, int worker)
{
	struct bandwidth_run *r = arg;

	(void)worker;
	memset(r->data + (uint64_t)task * r->part, task + 1, r->part);
}

static void read_task(void *arg, int task, int worker)
{
	struct bandwidth_run *r = arg;

	(void)worker;
	atomic_fetch_add(&r->sum, r->fns->read_sum(r->data + (uint64_t)task * r->part, r->part));
}

double backend_bandwidth(int threads, uint64_t bytes)
{
	struct bandwidth_run r = { .fns = cpu_fns_best() };
	struct pool *pool;
	double best = 0;
	uint64_t size;

	pool = pool_open(threads > 0 ? threads : pool_cpus());
	if (!pool)
		return 0;
	threads = pool_threads(pool);
	r.part = (bytes / (uint64_t)threads + 4095) / 4096 * 4096;
	if (r.part < 4096)
		r.part = 4096;
	size = r.part * (uint64_t)threads;
	r.data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r.data == MAP_FAILED) {
		pool_close(pool);
		return 0;
	}
	os_huge_pages(r.data, size);
	pool_run(pool, fill_task, &r, threads);
	for (int pass = 0; pass < PASSES; pass++) {
		double t0 = seconds(), dt;

		pool_run(pool, read_task, &r, threads);
		dt = seconds() - t0;
		if (dt > 0 && (double)size / dt > best)
			best = (double)size / dt;
	}
	munmap(r.data, size);
	pool_close(pool);
	return best;
}

/* ---- arithmetic ---- */

struct multiply_run {
	const struct cpu_fns *fns;
	int32_t rounds;        /* argument of multiply(): rounds per thread and pass */
	_Atomic uint64_t done; /* number of multiply-adds that all threads did in the last pass */
};

static void multiply_task(void *arg, int task, int worker)
{
	struct multiply_run *r = arg;

	(void)task;
	(void)worker;
	atomic_fetch_add(&r->done, r->fns->multiply(r->rounds));
}

/* Run one pass. Return the seconds that it took. */
static double multiply_pass(struct multiply_run *r, struct pool *pool)
{
	double t0 = seconds();

	atomic_store(&r->done, 0);
	pool_run(pool, multiply_task, r, pool_threads(pool));
	return seconds() - t0;
}

double backend_arithmetic(int threads)
{
	struct multiply_run r = { .fns = cpu_fns_best(), .rounds = 1 << 10 };
	struct pool *pool;
	double best = 0;

	pool = pool_open(threads > 0 ? threads : pool_cpus());
	if (!pool)
		return 0;
	while (r.rounds < 1 << 28 && multiply_pass(&r, pool) < LEAST_PASS)
		r.rounds *= 2;
	for (int pass = 0; pass < PASSES; pass++) {
		double dt = multiply_pass(&r, pool);

		if (dt > 0 && (double)atomic_load(&r.done) / dt > best)
			best = (double)atomic_load(&r.done) / dt;
	}
	pool_close(pool);
	return best;
}
