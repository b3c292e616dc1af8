/* kernels/cuda/gpu.h (private to kernels/cuda/) - the device under the backend: memory, a queue of kernels, one
 * product.
 *
 * gpu_cuda.cu and gpu_cuda_launch.cu implement it with the CUDA runtime and cuBLAS; tests/cuda/emulator/gpu_host.cc
 * emulates it on the processor for tests.
 *
 * Calls take effect in their order. Kernels and small copies are queued until some dozens have gathered or the host
 * waits (gpu_read, gpu_sync); then the queue is submitted, as a CUDA graph when the same sequence of kernels, grids and
 * blocks came before, whatever their arguments. A decode step is such a sequence, so it costs the host little. For
 * that, grids must not change from one token to the next: round what they depend on up to a power of two.
 *
 * The first failure sticks: later calls do nothing until gpu_sync() reports it in a sentence and clears it. */
#ifndef WEIR_CUDA_GPU_H
#define WEIR_CUDA_GPU_H

#include <stddef.h>
#include <stdint.h>

struct gpu;
struct gpu_info {
	char name[80];       /* "NVIDIA H100 80GB HBM3"; "host" */
	int major, minor;    /* compute capability */
	int processors;      /* multiprocessors */
	int shared_max;      /* bytes of shared memory a block may have at most */
	int driver, runtime; /* versions, 13000 = 13.0 */
	uint64_t memory;     /* bytes */
};

/* Open the first device that is new enough. 0, or -1 with a sentence that names what is missing: driver, device, or
 * newer ones. */
int gpu_open(struct gpu **out, struct gpu_info *info, char err[160]);
void gpu_close(struct gpu *);

/* Zeroed device memory, or NULL; gpu_memory_free() = free bytes. */
void *gpu_alloc(struct gpu *, size_t n);
/* Zeroed memory of the host, not counted as the device's, that kernels and copies use by the same address; or NULL. */
void *gpu_alloc_host(struct gpu *, size_t n);
void gpu_free(struct gpu *, void *p); /* either; waits for what may still use it */
uint64_t gpu_memory_free(struct gpu *);

/* Copy n bytes to the device.  src can be reused on return. */
void gpu_write(struct gpu *, void *dst, const void *src, size_t n);
/* Copy n bytes from the device after all earlier calls; returns when they have arrived. */
void gpu_read(struct gpu *, void *dst, const void *src, size_t n);
/* Stage n host bytes (at most 1 MiB) for kernels of the same step: their address on the device, 16-byte aligned, valid
 * until gpu_sync() or gpu_read(). The same sequence of calls gives the same addresses in every step. NULL = failed. */
const void *gpu_stage(struct gpu *, const void *src, size_t n);

/* fn(args): a kernel with one struct by value.  call: runs the kernel as a plain function, for the emulator. */
struct gpu_launch {
	const void *fn;
	void (*call)(const void *fn, const void *args);
	unsigned grid[3];
	unsigned block;   /* threads, in x */
	unsigned shared;  /* bytes of dynamic shared memory */
	const char *name; /* for messages; may be NULL */
};
/* Queue a launch; args: its struct of n bytes, copied. */
void gpu_enqueue(struct gpu *, const struct gpu_launch *, const void *args, size_t n);
/* The last call, if it queued a launch of fn that is not submitted yet: pointers to its n bytes of arguments and to its
 * grid's x, which may be changed until the next call. Else NULL. So an operation can join the launch of the one before
 * it. */
void *gpu_last(struct gpu *, const void *fn, size_t n, unsigned **grid_x);

/* A queue beside that one, so that copies run while kernels compute. A launch in it comes after all earlier calls and
 * after the launches before it in its own queue; later calls do not wait for it, nor do gpu_read() and gpu_sync(),
 * until gpu_join(). Its arguments must not point at staged bytes. writes [n_writes]: addresses in the pieces of memory
 * that it writes, or reads and must find unchanged: until gpu_join() nothing else may use these pieces. The emulator
 * holds callers to that. */
void gpu_enqueue_beside(struct gpu *, const struct gpu_launch *, const void *args, size_t n, const void *const *writes,
                        int n_writes);
/* Later calls come after all launches beside. */
void gpu_join(struct gpu *);

/* Declares that these bytes are written before they are read again.  The emulator fills them with garbage. */
void gpu_forget(struct gpu *, void *p, size_t n);

/* out f32 [n][ld_out >= m] = x [n][k] w^T, w [m][k], both f16, products summed in f32.  By cuBLAS. */
void gpu_gemm(struct gpu *, float *out, int ld_out, const void *w, const void *x, int m, int n, int k);

/* Submit the queue and wait.  0, or -1 with the first failure since the last call, which is cleared. */
int gpu_sync(struct gpu *, char err[160]);

#endif
