/* tests/cuda/emulator/gpu_host.h (private to tests/) - controls and counters of the emulated device. */
#ifndef WEIR_CUDA_GPU_HOST_H
#define WEIR_CUDA_GPU_HOST_H

#include <stdint.h>

/* Counted since the program began, or since gpu_host_forget(). */
struct gpu_host_counts {
	uint64_t launches;     /* kernels run */
	uint64_t most_threads; /* of one launch */
	uint64_t steps;        /* parts of steps that were run: */
	uint64_t plain;        /* ... as plain launches */
	uint64_t built;        /* ... as new graphs */
	uint64_t replayed;     /* ... as graphs of an earlier step */
	uint64_t updated;      /* kernels of replayed graphs that had new arguments */
	uint64_t products;     /* gpu_gemm */
};

#ifdef __cplusplus
extern "C" {
#endif
void gpu_host_stats(struct gpu_host_counts *out);
void gpu_host_forget(void);
/* The order in which warps, lanes and blocks run: 0 = ascending, 1 = descending, else a random seed. Initially 2, or
 * the value of the environment variable WEIR_CUDA_ORDER. */
void gpu_host_order(unsigned seed);
/* Bytes of memory of devices opened from now on; initially 4 GiB. */
void gpu_host_memory(uint64_t bytes);
#ifdef __cplusplus
}
#endif

#endif
