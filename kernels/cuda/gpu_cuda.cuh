/* kernels/cuda/gpu_cuda.cuh (private to gpu_cuda*.cu) - the state of a device, shared by gpu_cuda.cu and
 * gpu_cuda_launch.cu, and its errors. */
#ifndef WEIR_CUDA_GPU_CUDA_CUH
#define WEIR_CUDA_GPU_CUDA_CUH

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernels/cuda/gpu_queue.h"

enum { GPU_KERNELS_MOST = 512 };

/* One allocation of gpu_alloc_host(). */
struct pinned {
	void *p;
	size_t size;
	struct pinned *next;
};

struct gpu {
	int device;
	char name[80];
	int major, minor;
	cudaStream_t stream, beside; /* the first stream and the second (gpu_enqueue_beside()) */
	/* two events: the second stream waits for `forked`, and the first stream waits for `joined` */
	cudaEvent_t forked, joined;
	int forks;                           /* number of launches in the second stream since the last gpu_join() */
	cublasHandle_t blas;                 /* handle of cuBLAS; NULL until the first product */
	void *workspace;                     /* workspace of cuBLAS; NULL until the first product */
	unsigned char *stage, *stage_device; /* the staging region: host memory, and its copy on the device */
	/* number of bytes in the staging region, and number of these bytes whose copy was submitted */
	size_t n_stage, sent;
	unsigned char *pinned[2];   /* buffers for large transfers */
	cudaEvent_t pinned_done[2]; /* for each buffer, the event that its last transfer has ended */
	/* launches of the first stream, and launches of the second stream, which are submitted at the same time */
	struct gpu_step queue, queue_beside;
	struct pinned *pinned_memory; /* list of the allocations of gpu_alloc_host() */
	struct gpu_graphs graphs;
	int direct; /* 1: until the step ends, launches are not queued but submitted to the device at once */
	int busy;   /* 1: the first stream may have work */
	/* for each kernel that has used dynamic shared memory, the maximum number of bytes that cudaFuncSetAttribute()
	 * has allowed it */
	struct {
		const void *fn;
		unsigned shared;
	} kernel[GPU_KERNELS_MOST];
	int n_kernels;
	/* `failed` is 1 if a failure is not reported yet; `dead` is 1 if the device cannot continue */
	int failed, dead;
	char fail[160]; /* the failure, as a sentence */
};

/* ---- launches (gpu_cuda_launch.cu) ---- */

/* Submit the queued launches. */
void gpu_submit(struct gpu *);
/* Begin a new step. The device must be idle. */
void gpu_step_over(struct gpu *);
/* Submit the queued launches and wait. */
void gpu_wait(struct gpu *);
/* Free a CUDA graph; used as `drop` of struct gpu_graphs. */
void gpu_replay_drop(void *);

/* ---- errors ---- */

/* Record an error as a sentence, unless an earlier error is not reported yet. */
static inline void gpu_fail(struct gpu *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void gpu_fail(struct gpu *g, const char *fmt, ...)
{
	va_list ap;

	if (g->failed)
		return;
	g->failed = 1;
	va_start(ap, fmt);
	vsnprintf(g->fail, sizeof g->fail, fmt, ap);
	va_end(ap);
}

/* Return 0 if e is cudaSuccess. Otherwise record a sentence (what failed, CUDA's name for the error, what to do) and
 * return -1. `what` is the call that returned e. */
static inline int gpu_check(struct gpu *g, cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return 0;
	(void)cudaGetLastError();
	if (e == cudaErrorMemoryAllocation)
		gpu_fail(g, "out of GPU memory (%s); use a shorter context, a smaller model or --device cpu", what);
	else if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction ||
	         e == cudaErrorUnsupportedPtxVersion || e == cudaErrorInvalidPtx)
		gpu_fail(g, "weir-cuda.so has no code for '%.40s' (sm_%d%d); build it with 'make CUDA_ARCH=native'",
		         g->name, g->major, g->minor);
	else if (cudaStreamQuery(g->stream) != cudaErrorNotReady && cudaGetLastError() != cudaSuccess) {
		gpu_fail(g, "the GPU failed (%s: %s) and cannot continue; restart weir, or use --device cpu", what,
		         cudaGetErrorName(e));
		g->dead = 1;
	} else
		gpu_fail(g, "the GPU failed (%s: %s, %.60s); use --device cpu", what, cudaGetErrorName(e),
		         cudaGetErrorString(e));
	return -1;
}

/* Call this function before a call of the CUDA runtime that adds work to a stream. It selects the device, because
 * CUDA's current device is set per thread, and several threads may use a backend one after another. Return 0, or -1
 * after a failure. */
static inline int gpu_enter(struct gpu *g)
{
	g->busy = 1;
	return g->dead ? -1 : gpu_check(g, cudaSetDevice(g->device), "cudaSetDevice");
}

#endif
