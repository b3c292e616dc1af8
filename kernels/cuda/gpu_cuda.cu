/* kernels/cuda/gpu_cuda.cu - implements gpu.h with the CUDA runtime and cuBLAS: opening, memory, copies, products.
 * Launches are in gpu_cuda_launch.cu.
 *
 * Kernels run in one stream. Copies that overlap with kernels run in a second stream (gpu_enqueue_beside()). Events
 * make one stream wait for the other.
 *
 * Transfers use pinned memory: the staging region of gpu_stage(), and two buffers for large transfers. One buffer is
 * filled or emptied while the other is transferred.
 *
 * After an error that the device cannot recover from (an illegal address), every call fails with that error. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/gpu_cuda.cuh"
#include "kernels/macros.h"

static const size_t PINNED_BYTES = 8 << 20;
enum { WORKSPACE_BYTES = 32 << 20, OLDEST_MAJOR = 8 };

/* ---- small writes: a kernel copies staged bytes into place ---- */

struct write_args {
	unsigned char *dst;
	const unsigned char *src;
	size_t n;
};

__global__ void write_bytes(struct write_args a)
{
	size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x, step = (size_t)gridDim.x * blockDim.x;

	if (((size_t)a.dst | (size_t)a.src | a.n) % 16 == 0)
		for (; at < a.n / 16; at += step)
			((uint4 *)a.dst)[at] = ((const uint4 *)a.src)[at];
	else if (((size_t)a.dst | (size_t)a.src | a.n) % 4 == 0)
		for (; at < a.n / 4; at += step)
			((unsigned *)a.dst)[at] = ((const unsigned *)a.src)[at];
	else
		for (; at < a.n; at += step)
			a.dst[at] = a.src[at];
}

/* ---- opening ---- */

static void version_text(char *out, size_t cap, int v)
{
	snprintf(out, cap, "%d.%d", v / 1000, v % 1000 / 10);
}

static int no_driver(int driver, int runtime, char err[160])
{
	char has[16], needs[16];

	version_text(has, sizeof has, driver);
	version_text(needs, sizeof needs, runtime / 1000 * 1000);
	if (!driver)
		snprintf(err, 160, "there is no NVIDIA driver; install one for CUDA %s or newer, or use --device cpu",
		         needs);
	else
		snprintf(
			err, 160,
			"the NVIDIA driver is too old: it knows CUDA %s, and %s is needed; update it, or use --device cpu",
			has, needs);
	return -1;
}

/* Choose the first device that is new enough. Return 0, or -1 with a sentence in err. */
static int device_find(struct gpu *g, struct gpu_info *info, char err[160])
{
	struct cudaDeviceProp p;
	int n = 0;
	cudaError_t e;

	if (cudaDriverGetVersion(&info->driver) != cudaSuccess)
		info->driver = 0;
	if (cudaRuntimeGetVersion(&info->runtime) != cudaSuccess)
		info->runtime = CUDART_VERSION;
	if (info->driver / 1000 < info->runtime / 1000)
		return no_driver(info->driver, info->runtime, err);
	e = cudaGetDeviceCount(&n);
	if (e == cudaErrorInsufficientDriver)
		return no_driver(info->driver, info->runtime, err);
	if (e == cudaErrorNoDevice || (e == cudaSuccess && n < 1)) {
		snprintf(err, 160, "there is no NVIDIA GPU (or CUDA_VISIBLE_DEVICES hides it); use --device cpu");
		return -1;
	}
	if (e != cudaSuccess) {
		snprintf(err, 160, "CUDA does not start (%s: %.80s); use --device cpu", cudaGetErrorName(e),
		         cudaGetErrorString(e));
		return -1;
	}
	for (g->device = 0; g->device < n; g->device++) {
		e = cudaGetDeviceProperties(&p, g->device);
		if (e != cudaSuccess) {
			snprintf(err, 160, "cannot ask GPU %d what it is (%s); use --device cpu", g->device,
			         cudaGetErrorName(e));
			return -1;
		}
		if (p.major >= OLDEST_MAJOR)
			break;
	}
	if (g->device == n) {
		snprintf(err, 160,
		         "GPU '%.60s' is too old: compute capability %d.%d, and %d.0 is needed; use --device cpu",
		         p.name, p.major, p.minor, OLDEST_MAJOR);
		return -1;
	}
	snprintf(info->name, sizeof info->name, "%.79s", p.name);
	snprintf(g->name, sizeof g->name, "%.79s", p.name);
	info->major = g->major = p.major;
	info->minor = g->minor = p.minor;
	info->processors = p.multiProcessorCount;
	info->shared_max = (int)p.sharedMemPerBlockOptin;
	info->memory = p.totalGlobalMem;
	return 0;
}

/* Create the streams, events and buffers. Return 0, or -1 with the error set. */
static int device_start(struct gpu *g)
{
	struct cudaFuncAttributes a;

	if (gpu_check(g, cudaSetDevice(g->device), "cudaSetDevice") < 0 ||
	    gpu_check(g, cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking), "cudaStreamCreate") < 0 ||
	    gpu_check(g, cudaStreamCreateWithFlags(&g->beside, cudaStreamNonBlocking), "cudaStreamCreate") < 0 ||
	    gpu_check(g, cudaEventCreateWithFlags(&g->forked, cudaEventDisableTiming), "cudaEventCreate") < 0 ||
	    gpu_check(g, cudaEventCreateWithFlags(&g->joined, cudaEventDisableTiming), "cudaEventCreate") < 0 ||
	    gpu_check(g, cudaFuncGetAttributes(&a, (const void *)write_bytes), "cudaFuncGetAttributes") < 0 ||
	    gpu_check(g, cudaMallocHost((void **)&g->stage, GPU_STAGE_BYTES), "pinned memory") < 0 ||
	    gpu_check(g, cudaMalloc((void **)&g->stage_device, GPU_STAGE_BYTES), "staging memory") < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		if (gpu_check(g, cudaMallocHost((void **)&g->pinned[i], PINNED_BYTES), "pinned memory") < 0 ||
		    gpu_check(g, cudaEventCreateWithFlags(&g->pinned_done[i], cudaEventDisableTiming),
		              "cudaEventCreate") < 0)
			return -1;
	return 0;
}

int gpu_open(struct gpu **out, struct gpu_info *info, char err[160])
{
	struct gpu *g = (struct gpu *)calloc(1, sizeof *g);

	*out = NULL;
	memset(info, 0, sizeof *info);
	if (!g) {
		snprintf(err, 160, "out of memory");
		return -1;
	}
	g->graphs.drop = gpu_replay_drop;
	if (device_find(g, info, err) < 0) {
		free(g);
		return -1;
	}
	if (device_start(g) < 0) {
		snprintf(err, 160, "%s", g->fail);
		gpu_close(g);
		return -1;
	}
	*out = g;
	return 0;
}

static void pinned_drop(struct gpu *g, struct pinned **at)
{
	struct pinned *one = *at;

	*at = one->next;
	gpu_check(g, cudaFreeHost(one->p), "cudaFreeHost");
	free(one);
}

void gpu_close(struct gpu *g)
{
	if (!g)
		return;
	cudaSetDevice(g->device);
	if (g->stream)
		cudaStreamSynchronize(g->stream);
	if (g->beside)
		cudaStreamSynchronize(g->beside);
	gpu_graphs_free(&g->graphs);
	if (g->blas)
		cublasDestroy(g->blas);
	cudaFree(g->workspace);
	cudaFree(g->stage_device);
	cudaFreeHost(g->stage);
	for (int i = 0; i < 2; i++) {
		cudaFreeHost(g->pinned[i]);
		if (g->pinned_done[i])
			cudaEventDestroy(g->pinned_done[i]);
	}
	while (g->pinned_memory)
		pinned_drop(g, &g->pinned_memory);
	if (g->forked)
		cudaEventDestroy(g->forked);
	if (g->joined)
		cudaEventDestroy(g->joined);
	if (g->beside)
		cudaStreamDestroy(g->beside);
	if (g->stream)
		cudaStreamDestroy(g->stream);
	gpu_step_free(&g->queue);
	gpu_step_free(&g->queue_beside);
	free(g);
}

/* ---- memory ---- */

void *gpu_alloc(struct gpu *g, size_t n)
{
	void *p = NULL;

	if (gpu_enter(g) < 0)
		return NULL;
	if (cudaMalloc(&p, n ? n : 1) != cudaSuccess) {
		(void)cudaGetLastError();
		return NULL;
	}
	if (gpu_check(g, cudaMemsetAsync(p, 0, n, g->stream), "cudaMemset") == 0)
		return p;
	cudaFree(p);
	return NULL;
}

/* Every supported device has unified addressing: host and device use the same address. */
void *gpu_alloc_host(struct gpu *g, size_t n)
{
	struct pinned *one = (struct pinned *)calloc(1, sizeof *one);

	if (!one || gpu_enter(g) < 0 || cudaMallocHost(&one->p, n ? n : 1) != cudaSuccess) {
		(void)cudaGetLastError();
		free(one);
		return NULL;
	}
	memset(one->p, 0, n);
	one->size = n;
	one->next = g->pinned_memory;
	g->pinned_memory = one;
	return one->p;
}

void gpu_free(struct gpu *g, void *p)
{
	struct pinned **at = &g->pinned_memory;

	if (!p)
		return;
	gpu_submit(g);
	if (gpu_enter(g) == 0) {
		gpu_check(g, cudaStreamSynchronize(g->stream), "cudaStreamSynchronize");
		gpu_check(g, cudaStreamSynchronize(g->beside), "cudaStreamSynchronize");
	}
	while (*at && (*at)->p != p)
		at = &(*at)->next;
	if (*at)
		pinned_drop(g, at);
	else
		gpu_check(g, cudaFree(p), "cudaFree");
}

uint64_t gpu_memory_free(struct gpu *g)
{
	size_t available = 0, total = 0;

	if (gpu_enter(g) < 0 || cudaMemGetInfo(&available, &total) != cudaSuccess)
		return 0;
	return available;
}

void gpu_forget(struct gpu *g, void *p, size_t n)
{
	(void)g;
	(void)p;
	(void)n;
}

const void *gpu_stage(struct gpu *g, const void *src, size_t n)
{
	size_t at = (g->n_stage + 15) / 16 * 16;

	if (g->failed)
		return NULL;
	if (n > GPU_STAGE_MOST || at + n > GPU_STAGE_BYTES) {
		gpu_fail(g, "cannot stage %zu bytes behind %zu in one step", n, at);
		return NULL;
	}
	memcpy(g->stage + at, src, n);
	g->n_stage = at + n;
	return g->stage_device + at;
}

/* Write n bytes through the staging region, by a kernel. */
static void write_small(struct gpu *g, void *dst, const void *src, size_t n)
{
	struct write_args a;
	struct gpu_launch l = {
		(const void *)(void (*)(struct write_args))write_bytes, NULL, { 1, 1, 1 }, 256, 0, "write_bytes"
	};

	a.dst = (unsigned char *)dst;
	a.src = (const unsigned char *)gpu_stage(g, src, n);
	a.n = n;
	while (l.grid[0] * 4096u < n)
		l.grid[0] *= 2;
	gpu_enqueue(g, &l, &a, sizeof a);
}

void gpu_write(struct gpu *g, void *dst, const void *src, size_t n)
{
	int i = 0;

	if (g->failed || !n)
		return;
	if (n <= GPU_WRITE_SMALL && g->n_stage + n <= GPU_STAGE_BYTES / 2) {
		write_small(g, dst, src, n);
		return;
	}
	gpu_submit(g);
	if (gpu_enter(g) < 0)
		return;
	for (size_t at = 0, m; at < n && !g->failed; at += m, i = !i) {
		m = MIN(n - at, PINNED_BYTES);
		if (gpu_check(g, cudaEventSynchronize(g->pinned_done[i]), "cudaEventSynchronize") < 0)
			return;
		memcpy(g->pinned[i], (const char *)src + at, m);
		if (gpu_check(g, cudaMemcpyAsync((char *)dst + at, g->pinned[i], m, cudaMemcpyDefault, g->stream),
		              "a copy to the GPU") == 0)
			gpu_check(g, cudaEventRecord(g->pinned_done[i], g->stream), "cudaEventRecord");
	}
}

/* Start copying n bytes from the device to pinned buffer i. Return 0, or -1 with the error set. */
static int read_start(struct gpu *g, int i, const char *src, size_t n)
{
	if (gpu_check(g, cudaMemcpyAsync(g->pinned[i], src, n, cudaMemcpyDefault, g->stream), "a copy from the GPU") <
	    0)
		return -1;
	return gpu_check(g, cudaEventRecord(g->pinned_done[i], g->stream), "cudaEventRecord");
}

/* 1 if p is in memory of gpu_alloc_host(). */
static int is_pinned(const struct gpu *g, const void *p)
{
	for (const struct pinned *one = g->pinned_memory; one; one = one->next)
		if ((uintptr_t)p - (uintptr_t)one->p < one->size)
			return 1;
	return 0;
}

void gpu_read(struct gpu *g, void *dst, const void *src, size_t n)
{
	size_t at = 0, m = MIN(n, PINNED_BYTES), next;
	int i = 0;

	if (!g->failed && !g->busy && !g->queue.n && is_pinned(g, src)) {
		memcpy(dst, src, n);
		return;
	}
	gpu_submit(g);
	if (!g->failed && n && gpu_enter(g) == 0 && read_start(g, 0, (const char *)src, m) == 0)
		for (; m; at += m, m = next, i = !i) {
			/* Start transferring the next part, then copy this part to `dst`. */
			next = MIN(n - at - m, PINNED_BYTES);
			if (next && read_start(g, !i, (const char *)src + at + m, next) < 0)
				break;
			if (gpu_check(g, cudaEventSynchronize(g->pinned_done[i]), "cudaEventSynchronize") < 0)
				break;
			memcpy((char *)dst + at, g->pinned[i], m);
		}
	if (n && !g->failed)
		gpu_step_over(g); /* The last part has arrived, so the device is idle and a new step can begin. */
	else
		gpu_wait(g);
}

/* ---- products ---- */

static int blas_ok(struct gpu *g, cublasStatus_t s, const char *what)
{
	if (s == CUBLAS_STATUS_SUCCESS)
		return 1;
	if (s == CUBLAS_STATUS_ALLOC_FAILED)
		gpu_fail(g, "out of GPU memory (cuBLAS); use a shorter context, a smaller model or --device cpu");
	else
		gpu_fail(g, "cuBLAS failed (%s: %s); use --device cpu", what, cublasGetStatusName(s));
	return 0;
}

/* Open cuBLAS. With a workspace of its own, cuBLAS computes the same bits every time. Disable reductions with reduced
 * precision, so that sums are in f32. Return 0, or -1 with the error set. */
static int blas_start(struct gpu *g)
{
	if (g->blas)
		return 0;
	if (!blas_ok(g, cublasCreate(&g->blas), "cublasCreate")) {
		g->blas = NULL;
		return -1;
	}
	if (gpu_check(g, cudaMalloc(&g->workspace, WORKSPACE_BYTES), "cuBLAS's workspace") < 0 ||
	    !blas_ok(g, cublasSetStream(g->blas, g->stream), "cublasSetStream") ||
	    !blas_ok(g, cublasSetWorkspace(g->blas, g->workspace, WORKSPACE_BYTES), "cublasSetWorkspace") ||
	    !blas_ok(g,
	             cublasSetMathMode(g->blas, (cublasMath_t)(CUBLAS_DEFAULT_MATH |
	                                                       CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
	             "cublasSetMathMode")) {
		/* Close cuBLAS. If it stayed open without g->stream, later products would run in a stream that does not
		 * wait for g->stream. */
		cublasDestroy(g->blas);
		cudaFree(g->workspace);
		g->blas = NULL;
		g->workspace = NULL;
		return -1;
	}
	return 0;
}

/* Compute out^T = w x^T. cuBLAS expects column-major matrices, so it reads the row-major matrices as their
 * transposes. */
void gpu_gemm(struct gpu *g, float *out, int ld_out, const void *w, const void *x, int m, int n, int k)
{
	const float one = 1, zero = 0;

	if (g->failed || n < 1)
		return;
	gpu_submit(g);
	if (gpu_enter(g) < 0 || blas_start(g) < 0)
		return;
	g->direct = 1;
	blas_ok(g,
	        cublasGemmEx(g->blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, w, CUDA_R_16F, k, x, CUDA_R_16F, k,
	                     &zero, out, CUDA_R_32F, ld_out, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
	        "cublasGemmEx");
}

int gpu_sync(struct gpu *g, char err[160])
{
	int failed;

	gpu_wait(g);
	failed = g->failed || g->dead;
	if (failed)
		snprintf(err, 160, "%s", g->fail);
	g->failed = g->dead;
	return failed ? -1 : 0;
}
