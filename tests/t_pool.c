/* tests/t_pool.c - the CPU backend's threads: every task once, whoever sleeps; the bandwidth probe. */
#include <stdatomic.h>
#include <time.h>

#include "kernels/backend.h"
#include "kernels/cpu_pool.h"
#include "tests/test.h"

enum { STRESS_TASKS = 97 };
struct stress { _Atomic int hits[STRESS_TASKS]; int plain[STRESS_TASKS]; int threads, bad; };

static void stress_task(void *arg, int task, int worker)
{
	struct stress *s = arg;

	if (worker < 0 || worker >= s->threads)
		s->bad = 1;
	atomic_fetch_add_explicit(&s->hits[task], 1, memory_order_relaxed);
	s->plain[task]++;      /* seen by the caller without more ado: the pool orders it */
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
					wrong += atomic_load(&s.hits[i]) != (i < tasks[t]) || s.plain[i] != (i < tasks[t]);
				CHECK_MSG(!wrong && !s.bad, "%d threads, %d tasks", threads[k], tasks[t]);
				/* Let the workers fall asleep now and then. */
				if (round % 100 == 99)
					nanosleep(&(struct timespec){ .tv_nsec = 300000 }, NULL);
			}
		pool_close(p);
	}
	pool_close(NULL);
	CHECK(pool_cpus() >= 1);
}

struct slow { _Atomic int done; int worker_ran; };

static void slow_task(void *arg, int task, int worker)
{
	struct slow *s = arg;

	(void)task;
	/* Long enough that whoever waits gives up spinning. */
	nanosleep(&(struct timespec){ .tv_nsec = worker ? 3000000 : 1000000 }, NULL);
	if (worker)
		s->worker_ran = 1;
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
		shared += s.worker_ran;
	}
	/* The worker sleeps between its tasks and must be woken for new ones. */
	CHECK_MSG(shared > 30, "the worker took part in %d of 60 runs", shared);
	pool_close(p);
}

TEST(bandwidth_is_a_figure)
{
	double b = backend_bandwidth(2, 64 << 20), one = backend_bandwidth(1, 1);

	CHECK(b > 1e8 && b < 1e14);
	CHECK(one > 0);
	test_note("two threads read %.1f GB/s", b / 1e9);
}

TEST(arithmetic_is_a_figure)
{
	double two = backend_arithmetic(2), one = backend_arithmetic(1);

	CHECK(one > 1e7 && one < 1e14);
	CHECK(two > 1e7 && two < 1e14);
	test_note("two threads do %.1f multiply-adds a nanosecond, one %.1f", two / 1e9, one / 1e9);
}
