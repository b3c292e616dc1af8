/* kernels/cpu/pool.h (private to kernels/) - the CPU backend's threads. A pool of n threads has n - 1 workers; the
 * thread that calls pool_run() computes as worker 0. */
#ifndef WEIR_CPU_POOL_H
#define WEIR_CPU_POOL_H

#include <stddef.h>
#include <stdint.h>

enum { POOL_MAX_THREADS = 256 };

struct pool;
typedef void pool_fn(void *arg, int task, int worker);

/* Start a pool. Return NULL with errno set if memory or threads are short. */
struct pool *pool_open(int threads);
void pool_close(struct pool *);
int pool_threads(const struct pool *);
/* Run fn(arg, t, worker) once for every t from 0 to n_tasks - 1, and wait for all of these tasks. Tasks start in
 * ascending order. Results must not depend on which thread runs which task. `worker` is from 0 to threads - 1, and
 * selects scratch memory. */
void pool_run(struct pool *, pool_fn *fn, void *arg, int n_tasks);
/* Inside a task, wait until *flag is not 0. *flag must be set by a task with a lower number, because such a task has
 * already started. */
void pool_await(const _Atomic int32_t *flag);
/* Return the number of processors that this process may use according to its affinity mask and the CPU quota of its
 * control group. */
int pool_cpus(void);

#endif
