/* kernels/cuda/gpu.h (private to kernels/cuda/) - the device below the CUDA backend: memory, a queue of kernel
 * launches, matrix products. gpu_cuda.cu and gpu_cuda_launch.cu implement it with the CUDA runtime and cuBLAS. For
 * tests, tests/cuda/emulator/gpu_host.cc emulates it on the processor.
 *
 * Calls take effect in the order in which they are made. Launches and small copies are queued. The queue is submitted
 * in three cases: when it has several dozen entries; when the host waits (gpu_read, gpu_sync); before a call that is
 * not queued (a large copy, gpu_gemm). If the same sequence of kernels, grids and blocks was submitted before, even
 * with other arguments, it is submitted as a CUDA graph. A graph costs the host little time. Decode steps repeat such a
 * sequence if their grids rarely change. So if a grid's size depends on a number such as the length of the context,
 * round the number up to a power of two.
 *
 * After a failure, all calls do nothing until gpu_sync() reports the failure as a sentence and clears it. */
#ifndef WEIR_CUDA_GPU_H
#define WEIR_CUDA_GPU_H

#include <stddef.h>
#include <stdint.h>

struct gpu;
struct gpu_info {
	char name[80];       /* name of the device, such as "NVIDIA H100 80GB HBM3"; "host" for the emulator */
	int major, minor;    /* compute capability */
	int processors;      /* number of multiprocessors */
	int shared_max;      /* maximum size of a block's shared memory in bytes */
	int driver, runtime; /* versions of the driver and the runtime, such as 13000 for 13.0 */
	uint64_t memory;     /* size of device memory in bytes */
};

/* Open the first device that is new enough. Return 0, or -1 with a sentence about what is missing: a driver, a device,
 * or a newer device. */
int gpu_open(struct gpu **out, struct gpu_info *info, char err[160]);
void gpu_close(struct gpu *);

/* Allocate n zeroed bytes on the device. Return NULL if memory is short. */
void *gpu_alloc(struct gpu *, size_t n);
/* Allocate n zeroed bytes of host memory that kernels and copies can access by the same address. Return NULL if memory
 * is short. The bytes do not count as device memory. */
void *gpu_alloc_host(struct gpu *, size_t n);
/* Wait until no queued call uses the memory, then free it. p is from gpu_alloc() or gpu_alloc_host(). */
void gpu_free(struct gpu *, void *p);
uint64_t gpu_memory_free(struct gpu *);

/* Copy n bytes to the device. The caller may reuse src on return. */
void gpu_write(struct gpu *, void *dst, const void *src, size_t n);
/* Copy n bytes from the device, after all earlier calls. The function returns when the bytes have arrived. It does not
 * wait if src is in memory of gpu_alloc_host() and no call was queued since the last wait. */
void gpu_read(struct gpu *, void *dst, const void *src, size_t n);
/* Copy n host bytes (at most 1 MiB) to the device, for kernels of the current step. Return their device address, or
 * NULL after a failure. The address is 16-byte aligned and valid until gpu_sync() or gpu_read(). The same sequence of
 * calls gives the same addresses in every step. */
const void *gpu_stage(struct gpu *, const void *src, size_t n);

/* A launch of fn(args), a kernel that takes one struct by value. `call` runs fn as a plain function, for the
 * emulator. */
struct gpu_launch {
	const void *fn;
	void (*call)(const void *fn, const void *args);
	unsigned grid[3];
	unsigned block;   /* number of threads of a block, all in x */
	unsigned shared;  /* size of dynamic shared memory in bytes */
	const char *name; /* name for messages; may be NULL */
};
/* Queue a launch. `args` is the kernel's struct of n bytes, which is copied. */
void gpu_enqueue(struct gpu *, const struct gpu_launch *, const void *args, size_t n);
/* Give access to the last launch, so that an operation can be merged into it. If the last call queued a launch of fn,
 * and the launch is not submitted yet, return the address of its arguments (n bytes), and set *grid_x to the address of
 * its grid's x size. The caller may change the arguments and the size until the next call. Otherwise return NULL. */
void *gpu_last(struct gpu *, const void *fn, size_t n, unsigned **grid_x);

/* Queue a launch in a second stream, so that copies run while kernels compute.
 * - The launch runs after all earlier calls and all earlier launches of the second stream.
 * - Later calls, also gpu_read() and gpu_sync(), do not wait for the launch; gpu_join() does.
 * - The arguments must not point to staged bytes.
 * - `writes` has n_writes addresses: one in each allocation that the launch writes, and one in each allocation that it
 *   reads and that must stay unchanged. Until gpu_join() no other call may use these allocations; the emulator checks
 *   this. */
void gpu_enqueue_beside(struct gpu *, const struct gpu_launch *, const void *args, size_t n, const void *const *writes,
                        int n_writes);
/* Make later calls wait for all launches of the second stream. */
void gpu_join(struct gpu *);

/* Declare that the n bytes at p will be written before they are read. The emulator fills these bytes with random
 * values, so that tests find a read before the write. */
void gpu_forget(struct gpu *, void *p, size_t n);

/* Compute out = x w^T by cuBLAS, with sums in f32. `out` is f32 [n][ld_out] with ld_out >= m. `x` is f16 [n][k]. `w` is
 * f16 [m][k]. */
void gpu_gemm(struct gpu *, float *out, int ld_out, const void *w, const void *x, int m, int n, int k);

/* Submit the queue and wait. Return 0, or -1 with the first failure since the last gpu_sync(). The failure is then
 * cleared. */
int gpu_sync(struct gpu *, char err[160]);

#endif
