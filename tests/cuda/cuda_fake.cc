/* tests/cuda/cuda_fake.cc - a simulated CUDA runtime for gpu_cuda*.cu: streams, graphs, copies and failures.
 *
 * Work in a stream is done when the host waits, not before. So a test fails if a buffer is changed before it is copied.
 * New memory contains garbage. host_run() runs the kernels; after a kernel with a mistake every later call fails, as
 * after an illegal address. The counters are those of gpu_host.h, so that the same tests run on the emulated device and
 * on this runtime. */
#include "tests/cuda/cuda_fake.h"

#include <deque>
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#include "kernels/cuda/cuda.cuh"
#include "tests/cuda/emulator/gpu_host.h"
#include "tests/cuda/emulator/host_run.h"

/* gpu_enqueue() is wrapped below to record the size of a kernel's arguments, because the calls of the CUDA runtime do
 * not contain it. */
#define gpu_enqueue gpu_enqueue_real
#include "kernels/cuda/gpu_cuda_launch.cu"
#include "kernels/cuda/gpu_cuda.cu"
#undef gpu_enqueue

typedef std::vector<unsigned char> bytes;
struct known { void (*call)(const void *, const void *); size_t n; const char *name; };
struct fake_node { cudaGraph_t graph; size_t at; };
struct piece_of_work { const void *fn; dim3 grid, block; unsigned shared; bytes args; };
struct task { int kind; cudaStream_t other; void *dst; const void *src; size_t n; int value; piece_of_work work; const void *w, *x; int m, cols, k, ld; };
enum { SET, COPY, LAUNCH, PRODUCT, WAIT };   /* WAIT: wait for the first n tasks of another stream */
struct fake_stream { std::deque<task> todo; size_t done; };
struct fake_event { cudaStream_t stream; size_t upto; };
struct fake_graph { std::vector<piece_of_work> work; std::vector<fake_node *> node; };
struct fake_exec { cudaGraph_t of; std::vector<piece_of_work> work; int launched; };
struct fake_blas { cudaStream_t stream; };

struct fake_cuda fake_cuda;
static struct gpu_host_counts counts;
static uint64_t memory, next_memory = (uint64_t)4 << 30, taken;
static int held, device, order = 2;
static cudaError_t last, broken;
/* The maps are made at their first use, because tests register themselves before main(). */
static std::map<const void *, known> &kernels(void) { static std::map<const void *, known> m; return m; }
static std::map<const void *, unsigned> &allowed(void) { static std::map<const void *, unsigned> m; return m; }
static std::map<void *, size_t> &sizes(void) { static std::map<void *, size_t> m; return m; }

extern "C" void fake_cuda_good(void)
{
	fake_cuda = { 13000, 13000, 1, 9, 1, 1, 0, 1, 0 };
	broken = last = cudaSuccess;
}
extern "C" int fake_cuda_held(void) { return held; }
extern "C" int fake_cuda_device(void) { return device; }
__attribute__((constructor)) static void begin(void) { fake_cuda_good(); }

extern "C" void gpu_host_stats(struct gpu_host_counts *out) { *out = counts; }
extern "C" void gpu_host_forget(void) { memset(&counts, 0, sizeof counts); }
extern "C" void gpu_host_order(unsigned seed) { order = (int)seed; }
/* Set the memory of the device for a test. Allocations that gpu_cuda.cu makes for itself do not count. */
extern "C" void gpu_host_memory(uint64_t n) { next_memory = n; }

void gpu_enqueue(struct gpu *g, const struct gpu_launch *l, const void *args, size_t n)
{
	kernels()[l->fn] = { l->call, n, l->name };
	gpu_enqueue_real(g, l, args, n);
}

static cudaError_t say(cudaError_t e)
{
	if (broken)
		e = broken;
	if (e && e != cudaErrorNotReady)
		last = e;
	return e;
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t e = broken ? broken : last;

	last = cudaSuccess;
	return e;
}
const char *cudaGetErrorName(cudaError_t e)
{
	return e == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError";
}
const char *cudaGetErrorString(cudaError_t) { return "a failure"; }

/* ---- devices ---- */

cudaError_t cudaDriverGetVersion(int *v) { *v = fake_cuda.driver; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *v) { *v = fake_cuda.runtime; return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *n)
{
	*n = fake_cuda.devices;
	return say(fake_cuda.devices < 0 ? cudaErrorInvalidValue : fake_cuda.devices ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int d)
{
	memset(p, 0, sizeof *p);
	snprintf(p->name, sizeof p->name, "host");
	p->major = d ? 9 : fake_cuda.major;
	p->multiProcessorCount = 4;
	p->sharedMemPerBlockOptin = HOST_SHARED_MAX;
	p->totalGlobalMem = memory = next_memory;
	return say(cudaSuccess);
}
cudaError_t cudaSetDevice(int d) { device = d; return say(cudaSuccess); }
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *, const void *)
{
	return say(fake_cuda.image == 1 ? cudaSuccess : fake_cuda.image ? cudaErrorInvalidDeviceFunction : cudaErrorNoKernelImageForDevice);
}
cudaError_t cudaFuncSetAttribute(const void *fn, enum cudaFuncAttribute, int n)
{
	allowed()[fn] = (unsigned)n;
	return say(n > HOST_SHARED_MAX ? cudaErrorInvalidValue : cudaSuccess);
}

/* ---- memory ---- */

static void *get(size_t n)
{
	void *p = aligned_alloc(256, (n + 255) / 256 * 256);

	memset(p, 0xff, n < 1 << 20 ? n : 1 << 20);
	held++;
	return p;
}
cudaError_t cudaMalloc(void **p, size_t n)
{
	if (n == WORKSPACE_BYTES && !fake_cuda.workspace)
		return say(cudaErrorMemoryAllocation);
	if (n != GPU_STAGE_BYTES && n != WORKSPACE_BYTES) {
		if (n > memory - taken)
			return say(cudaErrorMemoryAllocation);
		taken += n;
	}
	*p = get(n);
	sizes()[*p] = n;
	return say(cudaSuccess);
}
cudaError_t cudaFree(void *p)
{
	if (p) {
		size_t n = sizes()[p];

		taken -= n != GPU_STAGE_BYTES && n != WORKSPACE_BYTES ? n : 0;
		sizes().erase(p);
		held--;
		free(p);
	}
	return say(cudaSuccess);
}
cudaError_t cudaMallocHost(void **p, size_t n) { *p = get(n); return say(cudaSuccess); }
cudaError_t cudaFreeHost(void *p)
{
	held -= p != NULL;
	free(p);
	return say(cudaSuccess);
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
	*available = memory - taken;
	*total = memory;
	return say(cudaSuccess);
}

/* ---- streams ---- */

static void run(const piece_of_work &p)
{
	const known &k = kernels()[p.fn];
	struct gpu_launch l = { p.fn, k.call, { p.grid.x, p.grid.y, p.grid.z }, p.block.x, p.shared, k.name };
	int own = p.fn == (const void *)(void (*)(struct write_args))write_bytes;
	char err[160];

	counts.launches += !own;
	if ((uint64_t)l.grid[0] * l.grid[1] * l.grid[2] * l.block > counts.most_threads)
		counts.most_threads = (uint64_t)l.grid[0] * l.grid[1] * l.grid[2] * l.block;
	if (!own && fake_cuda.break_launch && !--fake_cuda.break_launch)
		broken = cudaErrorIllegalAddress;
	if (broken)
		return;
	if (host_run(&l, p.args.data(), (unsigned)order, err) < 0) {
		fprintf(stderr, "    %s\n", err);
		broken = cudaErrorIllegalAddress;
	}
}

static void do_upto(cudaStream_t, size_t);

static void do_task(const task &t)
{
	if (t.kind == WAIT)
		do_upto(t.other, t.n);
	if (broken)
		return;
	if (t.kind == SET)
		memset(t.dst, t.value, t.n);
	else if (t.kind == COPY)
		memcpy(t.dst, t.src, t.n);
	else if (t.kind == LAUNCH)
		run(t.work);
	else if (t.kind == PRODUCT)
		for (int j = 0; j < t.cols; j++)
			for (int i = 0; i < t.m; i++) {
				float sum = 0;

				for (int k = 0; k < t.k; k++)
					sum += __half2float(((const __half *)t.w)[(size_t)i * (size_t)t.k + (size_t)k]) *
					       __half2float(((const __half *)t.x)[(size_t)j * (size_t)t.k + (size_t)k]);
				((float *)t.dst)[(size_t)j * (size_t)t.ld + (size_t)i] = sum;
			}
}

/* Do the tasks of a stream until n tasks are done since the stream was created. */
static void do_upto(cudaStream_t s, size_t n)
{
	while (s->done < n && s->todo.size()) {
		task t = s->todo.front();

		s->todo.pop_front();
		s->done++;
		do_task(t);
	}
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) { *s = new fake_stream{ {}, 0 }; held++; return say(cudaSuccess); }
cudaError_t cudaStreamDestroy(cudaStream_t s) { delete s; held--; return say(cudaSuccess); }
cudaError_t cudaStreamQuery(cudaStream_t s) { return say(s && s->todo.size() ? cudaErrorNotReady : cudaSuccess); }
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
	fake_cuda.waits++;
	do_upto(s, s->done + s->todo.size());
	return say(cudaSuccess);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) { *e = new fake_event{ NULL, 0 }; held++; return say(cudaSuccess); }
cudaError_t cudaEventDestroy(cudaEvent_t e) { delete e; held--; return say(cudaSuccess); }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) { e->stream = s; e->upto = s->done + s->todo.size(); return say(cudaSuccess); }
cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
	if (e->stream)
		do_upto(e->stream, e->upto);
	return say(cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
	if (e->stream)
		s->todo.push_back({ WAIT, e->stream, NULL, NULL, e->upto, 0, {}, NULL, NULL, 0, 0, 0, 0 });
	return say(cudaSuccess);
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t s)
{
	s->todo.push_back({ SET, NULL, p, NULL, n, value, {}, NULL, NULL, 0, 0, 0, 0 });
	return say(cudaSuccess);
}
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind, cudaStream_t s)
{
	s->todo.push_back({ COPY, NULL, dst, src, n, 0, {}, NULL, NULL, 0, 0, 0, 0 });
	return say(cudaSuccess);
}

/* ---- kernels and graphs ---- */

static piece_of_work work_of(const void *fn, dim3 grid, dim3 block, unsigned shared, void **args)
{
	if (fn == (const void *)(void (*)(struct write_args))write_bytes)
		kernels()[fn] = { cuda_call<struct write_args>, sizeof(struct write_args), "write_bytes" };
	const unsigned char *p = (const unsigned char *)args[0];

	return { fn, grid, block, shared, bytes(p, p + kernels()[fn].n) };
}
static int too_much(const void *fn, unsigned shared) { return shared > (48u << 10) && allowed()[fn] < shared; }

cudaError_t cudaLaunchKernel(const void *fn, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s)
{
	if (too_much(fn, (unsigned)shared))
		return say(cudaErrorInvalidValue);
	s->todo.push_back({ LAUNCH, NULL, NULL, NULL, 0, 0, work_of(fn, grid, block, (unsigned)shared, args), NULL, NULL, 0, 0, 0, 0 });
	return say(cudaSuccess);
}
cudaError_t cudaGraphCreate(cudaGraph_t *g, unsigned) { *g = new fake_graph; held++; return say(cudaSuccess); }
cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
	for (fake_node *n : g->node)
		delete n;
	delete g;
	held--;
	return say(cudaSuccess);
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *after, size_t n,
                                   const struct cudaKernelNodeParams *p)
{
	/* Only chains of kernels are supported. */
	if (n != (g->node.size() ? 1u : 0u) || (n && *after != g->node.back()) || too_much(p->func, p->sharedMemBytes))
		return say(cudaErrorInvalidValue);
	*node = new fake_node{ g, g->work.size() };
	g->node.push_back(*node);
	g->work.push_back(work_of(p->func, p->gridDim, p->blockDim, p->sharedMemBytes, p->kernelParams));
	return say(cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long)
{
	if (!fake_cuda.graphs)
		return say(cudaErrorInvalidValue);
	*x = new fake_exec{ g, g->work, 0 };
	held++;
	counts.built++;
	return say(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x) { delete x; held--; return say(cudaSuccess); }
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t x, cudaGraphNode_t n, const struct cudaKernelNodeParams *p)
{
	piece_of_work &w = x->work[n->at];

	if (fake_cuda.graphs == 2 || n->graph != x->of || w.fn != p->func)
		return say(cudaErrorInvalidValue);
	w = work_of(p->func, p->gridDim, p->blockDim, p->sharedMemBytes, p->kernelParams);
	counts.updated += p->func != (void *)(void (*)(struct write_args))write_bytes;
	return say(cudaSuccess);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s)
{
	for (const piece_of_work &w : x->work)
		s->todo.push_back({ LAUNCH, NULL, NULL, NULL, 0, 0, w, NULL, NULL, 0, 0, 0, 0 });
	counts.steps++;
	counts.replayed += x->launched;
	x->launched = 1;
	return say(cudaSuccess);
}

/* ---- cuBLAS ---- */

cublasStatus_t cublasCreate(cublasHandle_t *h) { *h = new fake_blas{ NULL }; held++; return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasDestroy(cublasHandle_t h) { delete h; held--; return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t s) { h->stream = s; return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *, size_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetMathMode(cublasHandle_t, enum cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
const char *cublasGetStatusName(cublasStatus_t) { return "CUBLAS_STATUS"; }
/* Matrices are column-major, as cuBLAS specifies. Read as rows, this is c [n][ldc] = b [n][ldb] a [m][lda]^T. */
cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void *, const void *a,
                            cudaDataType, int lda, const void *b, cudaDataType, int ldb, const void *, void *c, cudaDataType, int ldc,
                            cublasComputeType_t, cublasGemmAlgo_t)
{
	if (ta != CUBLAS_OP_T || tb != CUBLAS_OP_N || lda != k || ldb != k || ldc < m)
		return CUBLAS_STATUS_INVALID_VALUE;
	struct task t = { PRODUCT, NULL, c, NULL, 0, 0, {}, a, b, m, n, k, ldc };

	/* The default stream does not wait for a stream that was created with cudaStreamNonBlocking. */
	if (h->stream)
		h->stream->todo.push_back(t);
	else
		do_task(t);
	counts.products++;
	return CUBLAS_STATUS_SUCCESS;
}
