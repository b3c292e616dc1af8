/* tests/cuda/cuda_wrong.h - kernels with one mistake each, and launches of a chosen shape (cuda_wrong.cc), for
 * t_cuda_host.c. */
#ifndef WEIR_TEST_CUDA_WRONG_H
#define WEIR_TEST_CUDA_WRONG_H

#ifdef __cplusplus
extern "C" {
#endif

enum wrong {
	RIGHT,
	NO_BARRIER,
	TWO_BARRIERS,
	ENDS_IN_WARP,
	WARP_OR_BLOCK,
	OTHER_MASK,
	LANE_OUTSIDE,
	NOT_ITSELF,
	BEHIND,
	IN_FRONT,
	FAR_AWAY,
	SHARED_BEHIND,
	DYNAMIC_BEHIND,
	SHARED_UNSET,
	HOST_POINTER,
	FREED,
	TOO_MANY_THREADS,
	TOO_MUCH_SHARED,
	DIVIDES,
	STAGED_LATE,
	NOT_WAITED,
	COPY_ODD,
	N_WRONG
};
/* Run a kernel with this mistake that sums 0 .. 255. Returns 0 and sets *sum; or -1 with the device's message in
 * err. */
int wrong_run(enum wrong, float *sum, char err[160]);

/* Compare the results of each operation of the kernel language with results of plain code. Returns 0, or the source
 * line of the first difference. */
int language_check(void);

/* A queue of launches that add up numbers. queue_launch() queues kernel number `kind` with argument `arg`. */
struct wrong_queue;
struct wrong_queue *queue_open(void);
void queue_close(struct wrong_queue *);
void queue_launch(struct wrong_queue *, int kind, unsigned grid, unsigned long long arg);
/* Wait for all launches. Return the sum of (i + 1) * (kind + 1) * grid * arg over the launches i = 0, 1, ... since the
 * last call. */
unsigned long long queue_sum(struct wrong_queue *);

#ifdef __cplusplus
}
#endif

#endif
