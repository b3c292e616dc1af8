/* kernels/cuda/gpu_cuda.cuh (private to gpu_cuda*.cu) - the state of a device that gpu_cuda.cu and gpu_cuda_launch.cu
 * share, and its errors. */
#ifndef WEIR_CUDA_GPU_CUDA_CUH
#define WEIR_CUDA_GPU_CUDA_CUH

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernels/cuda/gpu_queue.h"

enum { GPU_KERNELS_MOST = 512 };

/* A piece of gpu_alloc_host(). */
struct pinned {
	void *p;
	struct pinned *next;
};

struct gpu {
	int device;
	char name[80];
	int major, minor;
	cudaStream_t stream, beside;
	cudaEvent_t forked, joined; /* what the stream beside waits for, and the other one for it */
	int forks;                  /* launches beside since the last gpu_join() */
	cublasHandle_t blas;        /* NULL until the first product */
	void *workspace;
	unsigned char *stage, *stage_device;
	size_t n_stage, sent; /* bytes of the region: filled; submitted for copying */
	unsigned char *pinned[2];
	cudaEvent_t pinned_done[2];
	struct gpu_step queue, queue_beside; /* the second goes out with the part that is being queued */
	struct pinned *pinned_memory;
	struct gpu_graphs graphs;
	int direct; /* launches are not queued until the step ends */
	int busy;   /* the stream may have work since it was last known to be idle */
	/* dynamic shared memory that kernels are allowed so far */
	struct {
		const void *fn;
		unsigned shared;
	} kernel[GPU_KERNELS_MOST];
	int n_kernels;
	int failed, dead; /* a failure to report; the device cannot continue */
	char fail[160];
};

/* ---- launches (gpu_cuda_launch.cu) ---- */

/* Submit what is queued. */
void gpu_submit(struct gpu *);
/* The device is idle: the step is over. */
void gpu_step_over(struct gpu *);
/* Submit what is queued and wait. */
void gpu_wait(struct gpu *);
/* The device's graph of a step, which gpu_graphs keeps, is given back. */
void gpu_replay_drop(void *);

/* ---- errors ---- */

static inline void fail(struct gpu *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void fail(struct gpu *g, const char *fmt, ...)
{
	va_list ap;

	if (g->failed)
		return;
	g->failed = 1;
	va_start(ap, fmt);
	vsnprintf(g->fail, sizeof g->fail, fmt, ap);
	va_end(ap);
}

/* 0, or -1 with the failure recorded as a sentence: what failed, CUDA's name for it, what to do. */
static inline int check(struct gpu *g, cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return 0;
	(void)cudaGetLastError();
	if (e == cudaErrorMemoryAllocation)
		fail(g, "out of GPU memory (%s); use a shorter context, a smaller model or --device cpu", what);
	else if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction ||
	         e == cudaErrorUnsupportedPtxVersion || e == cudaErrorInvalidPtx)
		fail(g, "weir-cuda.so has no code for '%.40s' (sm_%d%d); build it with 'make CUDA_ARCH=native'",
		     g->name, g->major, g->minor);
	else if (cudaStreamQuery(g->stream) != cudaErrorNotReady && cudaGetLastError() != cudaSuccess) {
		fail(g, "the GPU failed (%s: %s) and cannot continue; restart weir, or use --device cpu", what,
		     cudaGetErrorName(e));
		g->dead = 1;
	} else
		fail(g, "the GPU failed (%s: %s, %.60s); use --device cpu", what, cudaGetErrorName(e),
		     cudaGetErrorString(e));
	return -1;
}

/* Call before giving work to the stream. CUDA's current device is set per thread, and several threads may use a backend
 * one after the other. */
static inline int enter(struct gpu *g)
{
	g->busy = 1;
	return g->dead ? -1 : check(g, cudaSetDevice(g->device), "cudaSetDevice");
}

#endif
