/* kernels/cuda/gpu.h (private to kernels/cuda/) - a device as the backend sees it: memory, a queue of kernels, one product.
 *
 * gpu_cuda.cu implements it with the CUDA runtime and cuBLAS; tests/cuda_host/gpu_host.cc emulates it on the processor for tests.
 *
 * Everything is done in the order of the calls.  Kernels and small copies are gathered until there are some dozens or something has
 * to be waited for (gpu_read, gpu_sync); then they go to the device at once, as a CUDA graph when the same sequence came before: its
 * kernels, grids and blocks the same, whatever their arguments.  A decode step of the engine is such a sequence, so launching
 * costs the processor little; for that, grids must not change from one token to the next (round what they depend on up to a power of two).
 *
 * The first failure sticks: later calls do nothing until gpu_sync() reports it, in words. */
#ifndef WEIR_CUDA_GPU_H
#define WEIR_CUDA_GPU_H

#include <stddef.h>
#include <stdint.h>

struct gpu;
struct gpu_info {
	char name[80];             /* "NVIDIA H100 80GB HBM3"; "host" */
	int major, minor;          /* compute capability */
	int processors;            /* multiprocessors */
	int shared_max;            /* bytes of shared memory a block may have at most */
	int driver, runtime;       /* versions, 13000 = 13.0 */
	uint64_t memory;           /* bytes */
};

/* 0, or -1 with a sentence that names what is missing: no driver, no device, a device or driver too old. */
int  gpu_open(struct gpu **out, struct gpu_info *info, char err[160]);
void gpu_close(struct gpu *);

/* Zeroed device memory, NULL when there is none; gpu_memory_free() says how much there is, in bytes. */
void *gpu_alloc(struct gpu *, size_t n);
void gpu_free(struct gpu *, void *p);          /* waits for what may still use it */
uint64_t gpu_memory_free(struct gpu *);

/* Bytes to the device; src may be changed on return. */
void gpu_write(struct gpu *, void *dst, const void *src, size_t n);
/* Bytes from the device, after everything before.  Returns when they are there. */
void gpu_read(struct gpu *, void *dst, const void *src, size_t n);
/* A copy of n host bytes (at most 1 MiB) that kernels of the same step can read, 16-byte aligned; gone after gpu_sync() or gpu_read().
 * The same address as in the last step for the same sequence of calls.  NULL: failed. */
const void *gpu_stage(struct gpu *, const void *src, size_t n);

/* fn(args): a kernel with one struct of n bytes by value.  call: runs it as a plain function, for the host. */
struct gpu_launch {
	const void *fn;
	void (*call)(const void *fn, const void *args);
	unsigned grid[3];
	unsigned block;            /* threads, in x */
	unsigned shared;           /* bytes of dynamic shared memory */
	const char *name;          /* for messages; may be NULL */
};
void gpu_enqueue(struct gpu *, const struct gpu_launch *, const void *args, size_t n);
/* The last launch, when it is one of fn that still waits and nothing was asked for since: its n bytes of arguments and its grid's x,
 * which may be changed until the next call.  Else NULL.  So an operation can join the one before it. */
void *gpu_last(struct gpu *, const void *fn, size_t n, unsigned **grid_x);

/* These bytes are not read before they are written again.  The host fills them with garbage. */
void gpu_forget(struct gpu *, void *p, size_t n);

/* out f32 [n][ld_out >= m] = x [n][k] w^T, w [m][k], both f16, products summed in f32.  By cuBLAS. */
void gpu_gemm(struct gpu *, float *out, int ld_out, const void *w, const void *x, int m, int n, int k);

/* Start what is gathered and wait: 0, or -1 with the first failure since the last call, cleared. */
int  gpu_sync(struct gpu *, char err[160]);

#endif
