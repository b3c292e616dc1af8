/* kernels/cpu/pool.c - worker threads that stay alive between runs.
 *
 * Decoding one token starts about 150 runs of 10-50 microseconds each, so starting a run must cost far less than
 * a system call. Workers spin for a short while after their last task before they sleep.
 *
 * One 64-bit word, the ticket, decides which thread runs which task. Its upper half is the number of tasks in the
 * current run, its lower half the next task. A thread takes a task by fetch_add of 1 and reads both numbers from the
 * returned value. If the task number is below the number of tasks, the thread runs this task. The run cannot end before
 * the thread reports the task as finished, so fn and arg stay valid. Otherwise no task is left.
 *
 * A worker that wakes late, or not at all, delays no run, because the other threads do its tasks. So the pool is fast
 * even if other programs use the processors. */
#include "kernels/cpu/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "kernels/macros.h"
#include "kernels/os.h"

/* Times in nanoseconds since a thread began to spin. After QUIET_NS the thread yields the processor between checks.
 * After SPIN_NS it stops spinning. If the pool has more threads than there are processors, it stops already after
 * SPIN_NS_CROWDED. */
enum { QUIET_NS = 5000, SPIN_NS = 50000, SPIN_NS_CROWDED = 2000 };

struct worker {
	struct pool *pool;
	pthread_t thread;
	int id;
	int avoids; /* the processor that the worker has moved away from, or -1 */
};

struct pool {
	int n_threads;
	int64_t spin_ns;
	_Atomic int quit;

	/* All fields that change at the start and end of a run share one cache line. Between processors without a
	 * shared cache, moving a cache line takes a quarter of a microsecond, so a run should move only one line to the
	 * other processor and back. */
	_Alignas(64) _Atomic uint64_t ticket;
	pool_fn *fn; /* fn and arg are written before the ticket is published */
	void *arg;
	_Atomic uint32_t done; /* number of tasks that workers have finished in this run */
	_Atomic int sleepers;  /* number of workers that sleep or are about to sleep */
	_Atomic int caller_waits;
	_Atomic int caller_cpu;

	_Alignas(64) pthread_mutex_t lock;
	pthread_cond_t work, finished;
	struct worker worker[]; /* [n_threads - 1] */
};

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int ticket_open(uint64_t t)
{
	return (uint32_t)t < (uint32_t)(t >> 32);
}

/* Take and run tasks until no task is left. Return the number of tasks run, which the caller must report. After this
 * thread has taken a task, the run cannot end before this report, so all tasks that the thread takes are of the same
 * run. */
static uint32_t run_tasks(struct pool *p, int id)
{
	uint32_t n = 0;
	uint64_t t;

	/* Without this load before the fetch_add, idle threads would increase the counter without end. */
	while (ticket_open(atomic_load_explicit(&p->ticket, memory_order_relaxed))) {
		t = atomic_fetch_add_explicit(&p->ticket, 1, memory_order_acquire);
		if (!ticket_open(t))
			break;
		p->fn(p->arg, (int)(uint32_t)t, id);
		n++;
	}
	return n;
}

static void tasks_report(struct pool *p, uint32_t n)
{
	if (!n)
		return;
	atomic_fetch_add(&p->done, n);
	if (atomic_load(&p->caller_waits)) {
		pthread_mutex_lock(&p->lock);
		pthread_cond_signal(&p->finished);
		pthread_mutex_unlock(&p->lock);
	}
}

static int worker_idle(struct pool *p)
{
	return !ticket_open(atomic_load(&p->ticket)) && !atomic_load(&p->quit);
}

/* Move the worker off the caller's processor: restrict the worker to all other processors. On a busy machine both
 * threads may alternate on one processor for a long time, and then a pool of two is slower than one thread. */
static void step_aside(struct pool *p, struct worker *w)
{
	int cpu = atomic_load_explicit(&p->caller_cpu, memory_order_relaxed);

	if (cpu != w->avoids && os_cpu_leave(cpu))
		w->avoids = cpu;
}

/* Spin for up to spin_ns until ready() is true. After a while also yield the processor between checks, because the
 * awaited thread may need the processor. Return 1 if ready() became true, otherwise 0. `w` is NULL for the caller of
 * pool_run(). */
static int spin_until(struct pool *p, struct worker *w, int (*ready)(struct pool *, uint32_t), uint32_t n)
{
	int64_t start = 0, now;

	for (int quiet = 1;;) {
		for (int i = 0; i < 32; i++) {
			if (ready(p, n))
				return 1;
			if (!quiet)
				break;
			cpu_relax();
		}
		if (!quiet) {
			if (w)
				step_aside(p, w);
			sched_yield();
		}
		now = now_ns();
		if (start == 0)
			start = now;
		if (now - start >= p->spin_ns)
			return 0;
		quiet = now - start < QUIET_NS;
	}
}

static int work_ready(struct pool *p, uint32_t n)
{
	(void)n;
	return ticket_open(atomic_load_explicit(&p->ticket, memory_order_relaxed));
}

static int done_ready(struct pool *p, uint32_t n)
{
	return atomic_load_explicit(&p->done, memory_order_acquire) == n;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct pool *p = w->pool;
	char name[16];

	snprintf(name, sizeof name, "weir-cpu%d", w->id);
	os_thread_name(name);
	while (!atomic_load_explicit(&p->quit, memory_order_relaxed)) {
		tasks_report(p, run_tasks(p, w->id));
		if (spin_until(p, w, work_ready, 0))
			continue;
		/* No wake-up is lost. The caller writes its ticket, then reads `sleepers`. A worker increases
		 * `sleepers`, then reads the ticket. All four accesses are sequentially consistent, so the caller reads
		 * the worker's write, or the worker reads the caller's write. */
		pthread_mutex_lock(&p->lock);
		atomic_fetch_add(&p->sleepers, 1);
		while (worker_idle(p))
			pthread_cond_wait(&p->work, &p->lock);
		atomic_fetch_sub(&p->sleepers, 1);
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

static void wait_done(struct pool *p, uint32_t n)
{
	if (spin_until(p, NULL, done_ready, n))
		return;
	pthread_mutex_lock(&p->lock);
	atomic_exchange(&p->caller_waits, 1); /* swapped, not stored, as the ticket in pool_run() */
	while (atomic_load(&p->done) != n)
		pthread_cond_wait(&p->finished, &p->lock);
	atomic_store(&p->caller_waits, 0);
	pthread_mutex_unlock(&p->lock);
}

void pool_run(struct pool *p, pool_fn *fn, void *arg, int n_tasks)
{
	uint32_t mine;

	if (n_tasks <= 1 || p->n_threads == 1) {
		for (int t = 0; t < n_tasks; t++)
			fn(arg, t, 0);
		return;
	}
	p->fn = fn;
	p->arg = arg;
	atomic_store_explicit(&p->caller_cpu, os_cpu(), memory_order_relaxed);
	atomic_store_explicit(&p->done, 0, memory_order_relaxed);
	/* The next task to take is 1, because the caller itself runs task 0. The ticket is swapped, not stored, because
	 * QEMU on x86-64 executes a load of ARM code before an earlier sequentially consistent store, so that a wake-up
	 * was lost there. On x86-64, swap and store are the same instruction. */
	atomic_exchange(&p->ticket, (uint64_t)n_tasks << 32 | 1);
	if (atomic_load(&p->sleepers) > 0) {
		pthread_mutex_lock(&p->lock);
		pthread_cond_broadcast(&p->work);
		pthread_mutex_unlock(&p->lock);
	}
	fn(arg, 0, 0);
	mine = 1 + run_tasks(p, 0);
	wait_done(p, (uint32_t)n_tasks - mine);
}

void pool_await(const _Atomic int32_t *flag)
{
	for (int i = 0; !atomic_load_explicit(flag, memory_order_acquire); i++)
		if (i < 1000)
			cpu_relax();
		else
			sched_yield();
}

static void stop_workers(struct pool *p, int n_started)
{
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->quit, 1);
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	for (int i = 0; i < n_started; i++)
		pthread_join(p->worker[i].thread, NULL);
}

static void pool_free(struct pool *p)
{
	pthread_cond_destroy(&p->finished);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

struct pool *pool_open(int threads)
{
	struct pool *p;
	sigset_t all, old;
	size_t size;
	int err = 0, started = 0;

	if (threads < 1)
		threads = 1;
	if (threads > POOL_MAX_THREADS)
		threads = POOL_MAX_THREADS;
	size = sizeof *p + (size_t)(threads - 1) * sizeof p->worker[0];
	size = (size + 63) / 64 * 64;
	p = aligned_alloc(64, size);
	if (!p) {
		errno = ENOMEM;
		return NULL;
	}
	p->fn = NULL;
	p->arg = NULL;
	p->n_threads = threads;
	p->spin_ns = threads <= pool_cpus() ? SPIN_NS : SPIN_NS_CROWDED;
	atomic_init(&p->caller_cpu, -1);
	atomic_init(&p->ticket, 0);
	atomic_init(&p->done, 0);
	atomic_init(&p->sleepers, 0);
	atomic_init(&p->caller_waits, 0);
	atomic_init(&p->quit, 0);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->finished, NULL);

	/* Workers inherit a signal mask that blocks all signals except those that a thread causes itself, such as
	 * SIGBUS. The other threads of the program handle signals. If SIGBUS (the model file was truncated) were
	 * blocked, it would kill the program before the signal handler could report the reason. */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (; started < threads - 1; started++) {
		struct worker *w = &p->worker[started];

		w->pool = p;
		w->id = started + 1;
		w->avoids = -1;
		err = pthread_create(&w->thread, NULL, worker_main, w);
		if (err)
			break;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		stop_workers(p, started);
		pool_free(p);
		errno = err;
		return NULL;
	}
	return p;
}

void pool_close(struct pool *p)
{
	if (!p)
		return;
	stop_workers(p, p->n_threads - 1);
	pool_free(p);
}

int pool_threads(const struct pool *p)
{
	return p->n_threads;
}

/* Return the number of whole processors in the control group's quota, or 0 without a quota. */
static int cgroup_cpus(void)
{
	long long quota = 0, period = 0;
	FILE *f;

	f = fopen("/sys/fs/cgroup/cpu.max", "re");
	if (f) {
		if (fscanf(f, "%19lld %19lld", &quota, &period) != 2)
			quota = 0;
		fclose(f);
	} else if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re"))) {
		if (fscanf(f, "%19lld", &quota) != 1)
			quota = 0;
		fclose(f);
		f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re");
		if (f) {
			if (fscanf(f, "%19lld", &period) != 1)
				period = 0;
			fclose(f);
		}
	}
	if (quota <= 0 || period <= 0)
		return 0;
	quota = (quota - 1) / period + 1;
	return quota > POOL_MAX_THREADS ? POOL_MAX_THREADS : (int)quota;
}

int pool_cpus(void)
{
	int n = os_cpus(), quota = cgroup_cpus();

	if (quota > 0 && n > quota)
		n = quota;
	if (n < 1)
		n = 1;
	return MIN(POOL_MAX_THREADS, n);
}
