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
/* Run a kernel that sums 0 .. 255 with this mistake. Return 0 and its result, or -1 and the device's message. */
int wrong_run(enum wrong, float *sum, char err[160]);

/* Compare what kernels compute with plain code, for each operation of the language. Return 0, or the line of the
 * first difference. */
int language_check(void);

/* Launches whose numbers are added up: kind = which kernel, arg = its argument; then how often each argument came,
 * in order. */
struct wrong_queue;
struct wrong_queue *queue_open(void);
void queue_close(struct wrong_queue *);
void queue_launch(struct wrong_queue *, int kind, unsigned grid, unsigned long long arg);
/* Wait; return the sum over launches i since the last call of (i + 1) * (kind + 1) * grid * arg. */
unsigned long long queue_sum(struct wrong_queue *);

#ifdef __cplusplus
}
#endif

#endif
