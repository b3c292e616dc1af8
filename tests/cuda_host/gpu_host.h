/* tests/cuda_host/gpu_host.h (private to tests/) - what the host's device tells about itself. */
#ifndef WEIR_CUDA_GPU_HOST_H
#define WEIR_CUDA_GPU_HOST_H

#include <stdint.h>

/* Since the program began, or since it was last asked to forget. */
struct gpu_host_counts {
	uint64_t launches;         /* kernels run */
	uint64_t most_threads;     /* of one launch */
	uint64_t steps;            /* times that something gathered was run */
	uint64_t plain;            /* of these: as plain launches, */
	uint64_t built;            /* as graphs built for it, */
	uint64_t replayed;         /* as graphs of an earlier step, */
	uint64_t updated;          /* in which so many kernels had new arguments */
	uint64_t products;         /* gpu_gemm */
};

#ifdef __cplusplus
extern "C" {
#endif
void gpu_host_stats(struct gpu_host_counts *out);
void gpu_host_forget(void);
/* Which warps, lanes and blocks go first: 0 = in order, 1 = the other way round, else a number to draw from.  At first 2, or
 * what the environment variable WEIR_CUDA_ORDER says. */
void gpu_host_order(unsigned seed);
/* Bytes of memory of a device opened from now on; at first 4 GiB. */
void gpu_host_memory(uint64_t bytes);
#ifdef __cplusplus
}
#endif

#endif
