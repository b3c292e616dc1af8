/* tests/kernels/t_pool.c - the CPU backend's threads: every task runs exactly once, whichever threads are asleep. Also
 * the probes of bandwidth and arithmetic.
 *
 * Runs alone: the probes measure the machine. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "kernels/backend.h"
#include "kernels/cpu/fns.h"
#include "kernels/cpu/pool.h"
#include "tests/lib/test.h"

enum { STRESS_TASKS = 97 };
struct stress {
	_Atomic int hits[STRESS_TASKS];
	int plain[STRESS_TASKS];
	int threads, bad;
};

static void stress_task(void *arg, int task, int worker)
{
	struct stress *s = arg;

	if (worker < 0 || worker >= s->threads)
		s->bad = 1;
	atomic_fetch_add_explicit(&s->hits[task], 1, memory_order_relaxed);
	s->plain[task]++; /* not atomic on purpose: the pool must order this write before the caller's read */
}

TEST(pool_runs_every_task_once)
{
	static const int threads[] = { 1, 2, 3, 7, 16 };

	for (int k = 0; k < 5; k++) {
		struct pool *p = pool_open(threads[k]);
		int runs = 0, tasks[] = { 0, 1, 2, 3, 5, 17, STRESS_TASKS };

		CHECK(p != NULL);
		if (!p)
			return;
		CHECK_INT(pool_threads(p), threads[k]);
		for (int round = 0; round < 300; round++)
			for (int t = 0; t < 7; t++, runs++) {
				struct stress s = { .threads = threads[k] };
				int wrong = 0;

				pool_run(p, stress_task, &s, tasks[t]);
				for (int i = 0; i < STRESS_TASKS; i++)
					wrong += atomic_load(&s.hits[i]) != (i < tasks[t]) ||
					         s.plain[i] != (i < tasks[t]);
				CHECK_MSG(!wrong && !s.bad, "%d threads, %d tasks", threads[k], tasks[t]);
				/* Sometimes wait until the workers have fallen asleep. */
				if (round % 100 == 99)
					nanosleep(&(struct timespec){ .tv_nsec = 300000 }, NULL);
			}
		pool_close(p);
	}
	pool_close(NULL);
	CHECK(pool_cpus() >= 1);
}

struct slow {
	_Atomic int done, worker_ran;
};
static int gave_up; /* 1 = the worker did not run within twenty seconds */

static void slow_task(void *arg, int task, int worker)
{
	struct slow *s = arg;

	(void)task;
	/* Sleep long enough for a waiting thread to stop spinning. */
	nanosleep(&(struct timespec){ .tv_nsec = worker ? 3000000 : 1000000 }, NULL);
	if (worker)
		atomic_store(&s->worker_ran, 1);
	/* The caller's thread waits until the worker has run a task, so that both threads get tasks even on a busy
	 * machine. */
	for (int i = 0; !worker && !gave_up && !atomic_load(&s->worker_ran); i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		gave_up = i == 20000;
	}
	atomic_fetch_add(&s->done, 1);
}

TEST(pool_waits_for_a_slow_worker)
{
	struct pool *p = pool_open(2);
	int shared = 0;

	CHECK(p != NULL);
	if (!p)
		return;
	for (int round = 0; round < 60; round++) {
		struct slow s = { 0 };

		pool_run(p, slow_task, &s, 2 + round % 3);
		CHECK_INT(atomic_load(&s.done), 2 + round % 3);
		shared += atomic_load(&s.worker_ran);
	}
	/* The worker sleeps between its tasks and must be woken for new ones. */
	CHECK_MSG(shared == 60, "the worker took part in %d of 60 runs", shared);
	pool_close(p);
}

/* ---- the probes of the machine, against the same work timed here ---- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Return the bytes per second that one thread reads: the best of seven passes over memory that has been written. */
static double bandwidth_here(size_t bytes)
{
	const struct cpu_fns *f = cpu_fns_best();
	uint8_t *data = aligned_alloc(2 << 20, bytes);
	uint64_t sum = 0;
	double best = 0;

	if (!data)
		return 0;
#ifdef MADV_HUGEPAGE
	madvise(data, bytes, MADV_HUGEPAGE);
#endif
	memset(data, 1, bytes);
	for (int i = 0; i < 7; i++) {
		double start = now(), speed;

		sum += f->read_sum(data, bytes);
		speed = (double)bytes / (now() - start);
		best = MAX(speed, best);
	}
	free(data);
	CHECK(sum == 7 * (bytes / 8) * 0x0101010101010101u);
	return best;
}

/* Return the multiply-adds per second of one thread. */
static double arithmetic_here(void)
{
	const struct cpu_fns *f = cpu_fns_best();
	double best = 0;

	for (int i = 0; i < 7; i++) {
		double start = now(), speed;
		uint64_t done = f->multiply(1 << 20);

		speed = (double)done / (now() - start);
		best = MAX(speed, best);
	}
	return best;
}

/* Check a probe. For one thread, the probe must return the figure that is measured here, up to a factor of two. For two
 * threads, it is expected to return one to two times its figure for one thread. Up to four times are allowed, because
 * each thread's half of the memory may fit a cache that the whole does not fit. Other programs can only lower the
 * figures, so the best of several tries counts. */
static void check_probe(const char *what, double (*here)(void), double (*probe)(int threads))
{
	double best = 0, one = 0, two = 0;
	int right = 0;

	for (int i = 0; i < 40 && !right; i++) {
		best = fmax(best, here());
		one = fmax(one, probe(1));
		two = fmax(two, probe(2));
		right = one > best / 2 && one < best * 2 && two > one * 0.8 && two < one * 4;
	}
	test_note("%s: %.1f G/s here, one thread %.1f, two %.1f", what, best / 1e9, one / 1e9, two / 1e9);
	CHECK_MSG(right, "%s: %g/s measured here, the probe says %g with one thread and %g with two", what, best, one,
	          two);
}

static double here_bandwidth(void)
{
	return bandwidth_here(64 << 20);
}
static double probe_bandwidth(int threads)
{
	return backend_bandwidth(threads, 64 << 20);
}

TEST(bandwidth_is_what_threads_read)
{
	check_probe("bytes read", here_bandwidth, probe_bandwidth);
	CHECK(backend_bandwidth(1, 1) > 0);
}

TEST(arithmetic_is_what_threads_multiply)
{
	check_probe("multiply-adds", arithmetic_here, backend_arithmetic);
}
