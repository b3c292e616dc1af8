/* kernels/cuda/gpu_cuda.cu - gpu.h by the CUDA runtime and cuBLAS.
 *
 * One stream, and one beside it (gpu_enqueue_beside), which wait for each other by events.  Launches are queued as parts of a step (gpu_queue.h) until a part is full or the host waits.  Then staged bytes are
 * copied to the device, and the part is submitted: as plain launches the first time its topology occurs, as a graph later, with
 * changed arguments updated.  A step with a cuBLAS product is a long one (prefill): from the product on, launches go to the
 * device directly, so that it has work while the host prepares the next call.
 *
 * Transfers use pinned memory: the region that gpu_stage() fills, and for large pieces two buffers, one of which is filled or emptied
 * while the other is transferred.
 *
 * Memory is plain cudaMalloc().  After an error that the device cannot recover from (an illegal address), every call fails with it. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/gpu_queue.h"

static const size_t PINNED_BYTES = 8 << 20;
enum { WORKSPACE_BYTES = 32 << 20, KERNELS_MOST = 512, OLDEST_MAJOR = 8 };

/* The device's graph of a step. */
struct replay {
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaGraphNode_t *node;
};

/* A piece of gpu_alloc_host(). */
struct pinned { void *p; struct pinned *next; };

struct gpu {
	int device;
	char name[80];
	int major, minor;
	cudaStream_t stream, beside;
	cudaEvent_t forked, joined;   /* what the stream beside waits for, and the other one for it */
	int forks;                 /* launches beside since the last gpu_join() */
	cublasHandle_t blas;       /* NULL until the first product */
	void *workspace;
	unsigned char *stage, *stage_device;
	size_t n_stage, sent;      /* bytes of the region: filled; submitted for copying */
	unsigned char *pinned[2];
	cudaEvent_t pinned_done[2];
	struct gpu_step queue, queue_beside;   /* the second goes out with the part that is being queued */
	struct pinned *pinned_memory;
	struct gpu_graphs graphs;
	int direct;                /* launches are not queued until the step ends */
	int busy;                  /* the stream may have work since it was last known to be idle */
	struct { const void *fn; unsigned shared; } kernel[KERNELS_MOST];   /* dynamic shared memory that kernels are allowed so far */
	int n_kernels;
	int failed, dead;          /* a failure to report; the device cannot continue */
	char fail[160];
};

/* ---- errors ---- */

static void fail(struct gpu *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct gpu *g, const char *fmt, ...)
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
static int check(struct gpu *g, cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return 0;
	(void)cudaGetLastError();
	if (e == cudaErrorMemoryAllocation)
		fail(g, "out of GPU memory (%s); use a shorter context, a smaller model or --device cpu", what);
	else if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction || e == cudaErrorUnsupportedPtxVersion ||
	         e == cudaErrorInvalidPtx)
		fail(g, "weir-cuda.so has no code for '%.40s' (sm_%d%d); build it with 'make CUDA_ARCH=native'", g->name, g->major, g->minor);
	else if (cudaStreamQuery(g->stream) != cudaErrorNotReady && cudaGetLastError() != cudaSuccess) {
		fail(g, "the GPU failed (%s: %s) and cannot continue; restart weir, or use --device cpu", what, cudaGetErrorName(e));
		g->dead = 1;
	} else
		fail(g, "the GPU failed (%s: %s, %.60s); use --device cpu", what, cudaGetErrorName(e), cudaGetErrorString(e));
	return -1;
}

/* Call before giving work to the stream.  CUDA's current device is set per thread, and several threads may use a backend one after
 * the other. */
static int enter(struct gpu *g)
{
	g->busy = 1;
	return g->dead ? -1 : check(g, cudaSetDevice(g->device), "cudaSetDevice");
}

/* ---- small writes: a kernel copies staged bytes into place ---- */

struct write_args { unsigned char *dst; const unsigned char *src; size_t n; };

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
		snprintf(err, 160, "there is no NVIDIA driver; install one for CUDA %s or newer, or use --device cpu", needs);
	else
		snprintf(err, 160, "the NVIDIA driver is too old: it knows CUDA %s, and %s is needed; update it, or use --device cpu", has,
		         needs);
	return -1;
}

/* The first device that is new enough. */
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
		snprintf(err, 160, "CUDA does not start (%s: %.80s); use --device cpu", cudaGetErrorName(e), cudaGetErrorString(e));
		return -1;
	}
	for (g->device = 0; g->device < n; g->device++) {
		e = cudaGetDeviceProperties(&p, g->device);
		if (e != cudaSuccess) {
			snprintf(err, 160, "cannot ask GPU %d what it is (%s); use --device cpu", g->device, cudaGetErrorName(e));
			return -1;
		}
		if (p.major >= OLDEST_MAJOR)
			break;
	}
	if (g->device == n) {
		snprintf(err, 160, "GPU '%.60s' is too old: compute capability %d.%d, and %d.0 is needed; use --device cpu", p.name, p.major,
		         p.minor, OLDEST_MAJOR);
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

static int device_start(struct gpu *g)
{
	struct cudaFuncAttributes a;

	if (check(g, cudaSetDevice(g->device), "cudaSetDevice") < 0 ||
	    check(g, cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking), "cudaStreamCreate") < 0 ||
	    check(g, cudaStreamCreateWithFlags(&g->beside, cudaStreamNonBlocking), "cudaStreamCreate") < 0 ||
	    check(g, cudaEventCreateWithFlags(&g->forked, cudaEventDisableTiming), "cudaEventCreate") < 0 ||
	    check(g, cudaEventCreateWithFlags(&g->joined, cudaEventDisableTiming), "cudaEventCreate") < 0 ||
	    check(g, cudaFuncGetAttributes(&a, (const void *)write_bytes), "cudaFuncGetAttributes") < 0 ||
	    check(g, cudaMallocHost((void **)&g->stage, GPU_STAGE_BYTES), "pinned memory") < 0 ||
	    check(g, cudaMalloc((void **)&g->stage_device, GPU_STAGE_BYTES), "staging memory") < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		if (check(g, cudaMallocHost((void **)&g->pinned[i], PINNED_BYTES), "pinned memory") < 0 ||
		    check(g, cudaEventCreateWithFlags(&g->pinned_done[i], cudaEventDisableTiming), "cudaEventCreate") < 0)
			return -1;
	return 0;
}

static void replay_drop(void *p)
{
	struct replay *r = (struct replay *)p;

	if (r->exec)
		cudaGraphExecDestroy(r->exec);
	if (r->graph)
		cudaGraphDestroy(r->graph);
	free(r->node);
	free(r);
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
	g->graphs.drop = replay_drop;
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
	check(g, cudaFreeHost(one->p), "cudaFreeHost");
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

/* ---- launches ---- */

/* More than 48 KiB of static and dynamic shared memory together must be allowed once per kernel.  The static part is not known here,
 * so any dynamic memory is allowed explicitly. */
static int shared_allow(struct gpu *g, const struct gpu_launch *l)
{
	int i;

	if (!l->shared)
		return 0;
	for (i = 0; i < g->n_kernels && g->kernel[i].fn != l->fn; i++)
		;
	if (i < g->n_kernels && g->kernel[i].shared >= l->shared)
		return 0;
	if (check(g, cudaFuncSetAttribute(l->fn, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)l->shared), "shared memory") < 0)
		return -1;
	if (i == g->n_kernels && i == KERNELS_MOST)
		return 0;                  /* table full: allowed again at the next launch */
	g->kernel[i].fn = l->fn;
	g->kernel[i].shared = l->shared;
	g->n_kernels += i == g->n_kernels;
	return 0;
}

static void launch_plain(struct gpu *g, const struct gpu_launch *l, const void *args, cudaStream_t stream)
{
	void *param[1] = { (void *)args };
	cudaError_t e;

	if (shared_allow(g, l) < 0)
		return;
	e = cudaLaunchKernel(l->fn, dim3(l->grid[0], l->grid[1], l->grid[2]), dim3(l->block), param, l->shared, stream);
	if (e != cudaSuccess) {
		char name[48];

		gpu_launch_name(l, name, sizeof name);
		check(g, e, name);
	}
}

static struct cudaKernelNodeParams node_params(const struct gpu_step *s, int i, void *param[1])
{
	const struct gpu_launch *l = &s->node[i].launch;
	struct cudaKernelNodeParams p = {};

	param[0] = s->arg + s->node[i].at;
	p.func = (void *)l->fn;
	p.gridDim = dim3(l->grid[0], l->grid[1], l->grid[2]);
	p.blockDim = dim3(l->block);
	p.sharedMemBytes = l->shared;
	p.kernelParams = param;
	return p;
}

/* Build a graph that is a chain of the step's kernels.  NULL = CUDA refused; the step then runs as plain launches. */
static struct replay *replay_build(struct gpu *g, const struct gpu_step *s)
{
	struct replay *r = (struct replay *)calloc(1, sizeof *r);
	cudaError_t e = cudaSuccess;

	if (!r)
		return NULL;
	r->node = (cudaGraphNode_t *)calloc((size_t)s->n, sizeof *r->node);
	if (!r->node || (e = cudaGraphCreate(&r->graph, 0)) != cudaSuccess)
		goto none;
	for (int i = 0; i < s->n; i++) {
		void *param[1];
		struct cudaKernelNodeParams p = node_params(s, i, param);

		if (shared_allow(g, &s->node[i].launch) < 0)
			goto none;
		e = cudaGraphAddKernelNode(&r->node[i], r->graph, i ? &r->node[i - 1] : NULL, i > 0, &p);
		if (e != cudaSuccess)
			goto none;
	}
	e = cudaGraphInstantiate(&r->exec, r->graph, 0);
	if (e == cudaSuccess)
		return r;
none:
	(void)cudaGetLastError();
	replay_drop(r);
	return NULL;
}

/* Update the graph with the changed arguments of s, and `before` with them.  0, or -1: CUDA rejected the update; rebuild the graph.
 * Only changed nodes are touched: the device idles meanwhile. */
static int replay_update(struct replay *r, struct gpu_step *before, const struct gpu_step *s)
{
	for (int i = 0; i < s->n; i++) {
		void *param[1];
		struct cudaKernelNodeParams p;

		if (!gpu_step_changed(before, s, i))
			continue;
		p = node_params(s, i, param);
		if (cudaGraphExecKernelNodeSetParams(r->exec, r->node[i], &p) != cudaSuccess) {
			(void)cudaGetLastError();
			return -1;
		}
		gpu_step_take(before, s, i);
	}
	return 0;
}

/* Copy to the device what was staged since the last copy. */
static void stage_send(struct gpu *g)
{
	if (g->sent == g->n_stage)
		return;
	check(g, cudaMemcpyAsync(g->stage_device + g->sent, g->stage + g->sent, g->n_stage - g->sent, cudaMemcpyHostToDevice, g->stream),
	      "a copy to the GPU");
	g->sent = g->n_stage;
}

/* Launch what is queued beside, behind all that the stream has been given. */
static void submit_beside(struct gpu *g)
{
	struct gpu_step *s = &g->queue_beside;

	if (s->n && !g->failed && enter(g) == 0 && check(g, cudaEventRecord(g->forked, g->stream), "cudaEventRecord") == 0 &&
	    check(g, cudaStreamWaitEvent(g->beside, g->forked, 0), "cudaStreamWaitEvent") == 0)
		for (int i = 0; i < s->n && !g->failed; i++)
			launch_plain(g, &s->node[i].launch, s->arg + s->node[i].at, g->beside);
	gpu_step_clear(s);
}

/* Submit the queue. */
static void submit(struct gpu *g)
{
	struct gpu_step *s = &g->queue;
	struct gpu_graph *graph = NULL;
	enum gpu_way way;

	if (!s->n) {
		submit_beside(g);
		return;
	}
	if (!g->failed && enter(g) == 0) {
		stage_send(g);
		way = gpu_graphs_find(&g->graphs, s, &graph);
		if (way == GPU_BUILD)
			graph->exec = replay_build(g, s);
		else if (way == GPU_REPLAY && replay_update((struct replay *)graph->exec, &graph->step, s) < 0) {
			gpu_graphs_forget(&g->graphs, graph);
			graph = NULL;
		}
		if (graph && graph->exec) {
			check(g, cudaGraphLaunch(((struct replay *)graph->exec)->exec, g->stream), "cudaGraphLaunch");
		} else {
			if (graph)
				gpu_graphs_forget(&g->graphs, graph);
			for (int i = 0; i < s->n && !g->failed; i++)
				launch_plain(g, &s->node[i].launch, s->arg + s->node[i].at, g->stream);
		}
	}
	gpu_step_clear(s);
	s->part++;
	submit_beside(g);
}

/* The device is idle: the step is over. */
static void step_end(struct gpu *g)
{
	g->n_stage = g->sent = 0;
	g->queue.part = 0;
	g->direct = g->busy = 0;
}

/* Submit the queue and wait.  `busy` saves the call to CUDA where an earlier read already waited. */
static void wait_all(struct gpu *g)
{
	submit(g);
	if (g->busy && enter(g) == 0)
		check(g, cudaStreamSynchronize(g->stream), "cudaStreamSynchronize");
	step_end(g);
}

void gpu_enqueue(struct gpu *g, const struct gpu_launch *l, const void *args, size_t n)
{
	if (g->failed)
		return;
	if (g->direct) {
		if (enter(g) == 0) {
			stage_send(g);
			launch_plain(g, l, args, g->stream);
		}
		return;
	}
	if (g->queue.n >= gpu_part_most(g->queue.part))
		submit(g);
	if (gpu_step_add(&g->queue, l, args, n) < 0)
		fail(g, "out of memory for what is to be launched");
}

/* They go out when the part is full or the host waits: so late, they do not cut it in two. */
void gpu_enqueue_beside(struct gpu *g, const struct gpu_launch *l, const void *args, size_t n, const void *const *writes, int n_writes)
{
	(void)writes;
	(void)n_writes;
	if (g->failed)
		return;
	g->forks++;
	if (gpu_step_add(&g->queue_beside, l, args, n) < 0)
		fail(g, "out of memory for what is to be launched");
	if (g->direct)
		submit_beside(g);
}

void gpu_join(struct gpu *g)
{
	if (!g->forks)
		return;
	submit(g);
	g->forks = 0;
	if (enter(g) == 0 && check(g, cudaEventRecord(g->joined, g->beside), "cudaEventRecord") == 0)
		check(g, cudaStreamWaitEvent(g->stream, g->joined, 0), "cudaStreamWaitEvent");
}

void *gpu_last(struct gpu *g, const void *fn, size_t n, unsigned **grid_x)
{
	return g->failed || g->direct ? NULL : gpu_step_last(&g->queue, fn, n, grid_x);
}

/* ---- memory ---- */

void *gpu_alloc(struct gpu *g, size_t n)
{
	void *p = NULL;

	if (enter(g) < 0)
		return NULL;
	if (cudaMalloc(&p, n ? n : 1) != cudaSuccess) {
		(void)cudaGetLastError();
		return NULL;
	}
	if (check(g, cudaMemsetAsync(p, 0, n, g->stream), "cudaMemset") == 0)
		return p;
	cudaFree(p);
	return NULL;
}

/* With unified addressing, which every device has that is new enough, its address is the same for both. */
void *gpu_alloc_host(struct gpu *g, size_t n)
{
	struct pinned *one = (struct pinned *)calloc(1, sizeof *one);

	if (!one || enter(g) < 0 || cudaMallocHost(&one->p, n ? n : 1) != cudaSuccess) {
		(void)cudaGetLastError();
		free(one);
		return NULL;
	}
	memset(one->p, 0, n);
	one->next = g->pinned_memory;
	g->pinned_memory = one;
	return one->p;
}

void gpu_free(struct gpu *g, void *p)
{
	struct pinned **at = &g->pinned_memory;

	if (!p)
		return;
	submit(g);
	if (enter(g) == 0) {
		check(g, cudaStreamSynchronize(g->stream), "cudaStreamSynchronize");
		check(g, cudaStreamSynchronize(g->beside), "cudaStreamSynchronize");
	}
	while (*at && (*at)->p != p)
		at = &(*at)->next;
	if (*at)
		pinned_drop(g, at);
	else
		check(g, cudaFree(p), "cudaFree");
}

uint64_t gpu_memory_free(struct gpu *g)
{
	size_t available = 0, total = 0;

	if (enter(g) < 0 || cudaMemGetInfo(&available, &total) != cudaSuccess)
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
		fail(g, "cannot stage %zu bytes behind %zu in one step", n, at);
		return NULL;
	}
	memcpy(g->stage + at, src, n);
	g->n_stage = at + n;
	return g->stage_device + at;
}

static void write_small(struct gpu *g, void *dst, const void *src, size_t n)
{
	struct write_args a;
	struct gpu_launch l = { (const void *)(void (*)(struct write_args))write_bytes, NULL, { 1, 1, 1 }, 256, 0, "write_bytes" };

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
	submit(g);
	if (enter(g) < 0)
		return;
	for (size_t at = 0, m; at < n && !g->failed; at += m, i = !i) {
		m = n - at < PINNED_BYTES ? n - at : PINNED_BYTES;
		if (check(g, cudaEventSynchronize(g->pinned_done[i]), "cudaEventSynchronize") < 0)
			return;
		memcpy(g->pinned[i], (const char *)src + at, m);
		if (check(g, cudaMemcpyAsync((char *)dst + at, g->pinned[i], m, cudaMemcpyDefault, g->stream), "a copy to the GPU") == 0)
			check(g, cudaEventRecord(g->pinned_done[i], g->stream), "cudaEventRecord");
	}
}

static int read_start(struct gpu *g, int i, const char *src, size_t n)
{
	if (check(g, cudaMemcpyAsync(g->pinned[i], src, n, cudaMemcpyDefault, g->stream), "a copy from the GPU") < 0)
		return -1;
	return check(g, cudaEventRecord(g->pinned_done[i], g->stream), "cudaEventRecord");
}

void gpu_read(struct gpu *g, void *dst, const void *src, size_t n)
{
	size_t at = 0, m = n < PINNED_BYTES ? n : PINNED_BYTES, next;
	int i = 0;

	submit(g);
	if (!g->failed && n && enter(g) == 0 && read_start(g, 0, (const char *)src, m) == 0)
		for (; m; at += m, m = next, i = !i) {
			/* Transfer the next piece while this one is copied out. */
			next = n - at - m < PINNED_BYTES ? n - at - m : PINNED_BYTES;
			if (next && read_start(g, !i, (const char *)src + at + m, next) < 0)
				break;
			if (check(g, cudaEventSynchronize(g->pinned_done[i]), "cudaEventSynchronize") < 0)
				break;
			memcpy((char *)dst + at, g->pinned[i], m);
		}
	if (n && !g->failed)
		step_end(g);           /* the last piece arrived after all earlier work */
	else
		wait_all(g);
}

/* ---- products ---- */

static int blas_ok(struct gpu *g, cublasStatus_t s, const char *what)
{
	if (s == CUBLAS_STATUS_SUCCESS)
		return 1;
	if (s == CUBLAS_STATUS_ALLOC_FAILED)
		fail(g, "out of GPU memory (cuBLAS); use a shorter context, a smaller model or --device cpu");
	else
		fail(g, "cuBLAS failed (%s: %s); use --device cpu", what, cublasGetStatusName(s));
	return 0;
}

/* A fixed workspace and no reduced-precision reductions: the same bits every time, sums in f32. */
static int blas_start(struct gpu *g)
{
	if (g->blas)
		return 0;
	if (!blas_ok(g, cublasCreate(&g->blas), "cublasCreate")) {
		g->blas = NULL;
		return -1;
	}
	if (check(g, cudaMalloc(&g->workspace, WORKSPACE_BYTES), "cuBLAS's workspace") < 0 ||
	    !blas_ok(g, cublasSetStream(g->blas, g->stream), "cublasSetStream") ||
	    !blas_ok(g, cublasSetWorkspace(g->blas, g->workspace, WORKSPACE_BYTES), "cublasSetWorkspace") ||
	    !blas_ok(g, cublasSetMathMode(g->blas, (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
	             "cublasSetMathMode")) {
		/* A handle without our stream would, after the failure is cleared, compute in a stream that does not wait for ours. */
		cublasDestroy(g->blas);
		cudaFree(g->workspace);
		g->blas = NULL;
		g->workspace = NULL;
		return -1;
	}
	return 0;
}

/* cuBLAS is column-major: out^T = (w^T)^T x^T. */
void gpu_gemm(struct gpu *g, float *out, int ld_out, const void *w, const void *x, int m, int n, int k)
{
	const float one = 1, zero = 0;

	if (g->failed || n < 1)
		return;
	submit(g);
	if (enter(g) < 0 || blas_start(g) < 0)
		return;
	g->direct = 1;
	blas_ok(g, cublasGemmEx(g->blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, w, CUDA_R_16F, k, x, CUDA_R_16F, k, &zero, out, CUDA_R_32F,
	                        ld_out, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT), "cublasGemmEx");
}

int gpu_sync(struct gpu *g, char err[160])
{
	int failed;

	wait_all(g);
	failed = g->failed || g->dead;
	if (failed)
		snprintf(err, 160, "%s", g->fail);
	g->failed = g->dead;
	return failed ? -1 : 0;
}
