/* tests/cuda/emulator/gpu_host.h (private to tests/) - controls and counters of the emulated device. */
#ifndef WEIR_CUDA_GPU_HOST_H
#define WEIR_CUDA_GPU_HOST_H

#include <stdint.h>

/* Counts since the program began, or since gpu_host_forget(). */
struct gpu_host_counts {
	uint64_t launches;     /* kernels that ran */
	uint64_t most_threads; /* largest number of threads of a launch */
	uint64_t steps;        /* parts of steps that ran, the sum of the next three counts */
	uint64_t plain;        /* parts run as plain launches */
	uint64_t built;        /* parts run as new graphs */
	uint64_t replayed;     /* parts run as graphs of an earlier step */
	uint64_t updated;      /* kernels of replayed graphs whose arguments were updated */
	uint64_t products;     /* calls of gpu_gemm() */
	uint64_t waits;        /* calls of gpu_read() and gpu_sync() that wait for a device */
	uint64_t bytes_read;   /* bytes that gpu_read() copied from device memory */
};

#ifdef __cplusplus
extern "C" {
#endif
void gpu_host_stats(struct gpu_host_counts *out);
void gpu_host_forget(void);
/* Set the order in which warps, lanes and blocks run: 0 = ascending, 1 = descending, other values = random, with this
 * value as seed. The default is 2, or the environment variable WEIR_CUDA_ORDER. */
void gpu_host_order(unsigned seed);
/* Set the bytes of memory of devices opened from now on; the default is 4 GiB. */
void gpu_host_memory(uint64_t bytes);
#ifdef __cplusplus
}
#endif

#endif
