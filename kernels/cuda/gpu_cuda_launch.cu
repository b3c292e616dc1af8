/* kernels/cuda/gpu_cuda_launch.cu - launches of gpu.h by the CUDA runtime.
 *
 * Launches are queued as parts of a step (gpu_queue.h) until a part is full or the host waits. Then staged bytes are
 * copied to the device, and the part is submitted. When the topology of a part (its kernels and grids, gpu_queue.h)
 * occurs for the first time, the part is submitted as single launches. Later it is submitted as a graph whose changed
 * arguments are updated.
 *
 * A step with a cuBLAS product is long (prefill). After the product, the launches of the step go to the device at once
 * instead of being queued. So the device computes while the host prepares the next call. */
#include <stdlib.h>

#include "kernels/cuda/gpu_cuda.cuh"

/* ---- single launches ---- */

/* Allow a kernel its dynamic shared memory, by cudaFuncSetAttribute(). CUDA requires this if static and dynamic shared
 * memory together exceed 48 KiB. The static size is not known, so this is done for every kernel with dynamic shared
 * memory, once for each size. Return 0, or -1 with the error set. */
static int shared_allow(struct gpu *g, const struct gpu_launch *l)
{
	int i;

	if (!l->shared)
		return 0;
	for (i = 0; i < g->n_kernels && g->kernel[i].fn != l->fn; i++)
		;
	if (i < g->n_kernels && g->kernel[i].shared >= l->shared)
		return 0;
	if (gpu_check(g, cudaFuncSetAttribute(l->fn, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)l->shared),
	              "shared memory") < 0)
		return -1;
	if (i == g->n_kernels && i == GPU_KERNELS_MOST)
		return 0; /* the table is full: the next launch of this kernel calls cudaFuncSetAttribute() again */
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
		gpu_check(g, e, name);
	}
}

/* ---- graphs ---- */

/* The CUDA graph of a part of a step. */
struct replay {
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaGraphNode_t *node; /* [number of launches] the node of each launch */
};

void gpu_replay_drop(void *p)
{
	struct replay *r = (struct replay *)p;

	if (r->exec)
		cudaGraphExecDestroy(r->exec);
	if (r->graph)
		cudaGraphDestroy(r->graph);
	free(r->node);
	free(r);
}

/* Return launch i as parameters of a graph node. `param` is memory for p.kernelParams. */
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

/* Build a graph that runs the step's kernels one after another. Return NULL if CUDA refuses to build it; the caller
 * then launches each kernel separately. */
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
	gpu_replay_drop(r);
	return NULL;
}

/* Update a graph to the arguments of step `s`. `before` has the arguments of the graph's last run; it is updated, too.
 * Only kernels whose arguments changed are updated, because the device is idle during the updates. Return 0, or -1 if
 * CUDA rejects the update; the graph must then be rebuilt. */
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

/* ---- the queue ---- */

/* Copy the bytes staged since the last copy to the device. */
static void stage_send(struct gpu *g)
{
	if (g->sent == g->n_stage)
		return;
	gpu_check(g,
	          cudaMemcpyAsync(g->stage_device + g->sent, g->stage + g->sent, g->n_stage - g->sent,
	                          cudaMemcpyHostToDevice, g->stream),
	          "a copy to the GPU");
	g->sent = g->n_stage;
}

/* Launch the queue of the second stream, after all work that was submitted to the first stream so far. */
static void submit_beside(struct gpu *g)
{
	struct gpu_step *s = &g->queue_beside;

	if (s->n && !g->failed && gpu_enter(g) == 0 &&
	    gpu_check(g, cudaEventRecord(g->forked, g->stream), "cudaEventRecord") == 0 &&
	    gpu_check(g, cudaStreamWaitEvent(g->beside, g->forked, 0), "cudaStreamWaitEvent") == 0)
		for (int i = 0; i < s->n && !g->failed; i++)
			launch_plain(g, &s->node[i].launch, s->arg + s->node[i].at, g->beside);
	gpu_step_clear(s);
}

void gpu_submit(struct gpu *g)
{
	struct gpu_step *s = &g->queue;
	struct gpu_graph *graph = NULL;
	enum gpu_way way;

	if (!s->n) {
		submit_beside(g);
		return;
	}
	if (!g->failed && gpu_enter(g) == 0) {
		stage_send(g);
		way = gpu_graphs_find(&g->graphs, s, &graph);
		if (way == GPU_BUILD)
			graph->exec = replay_build(g, s);
		else if (way == GPU_REPLAY && replay_update((struct replay *)graph->exec, &graph->step, s) < 0) {
			gpu_graphs_forget(&g->graphs, graph);
			graph = NULL;
		}
		if (graph && graph->exec) {
			gpu_check(g, cudaGraphLaunch(((struct replay *)graph->exec)->exec, g->stream),
			          "cudaGraphLaunch");
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

void gpu_step_over(struct gpu *g)
{
	g->n_stage = g->sent = 0;
	g->queue.part = 0;
	g->direct = g->busy = 0;
}

/* If g->busy is 0, the stream is idle, because gpu_read() has waited. Then do not call CUDA again. */
void gpu_wait(struct gpu *g)
{
	gpu_submit(g);
	if (g->busy && gpu_enter(g) == 0)
		gpu_check(g, cudaStreamSynchronize(g->stream), "cudaStreamSynchronize");
	gpu_step_over(g);
}

void gpu_enqueue(struct gpu *g, const struct gpu_launch *l, const void *args, size_t n)
{
	if (g->failed)
		return;
	if (g->direct) {
		if (gpu_enter(g) == 0) {
			stage_send(g);
			launch_plain(g, l, args, g->stream);
		}
		return;
	}
	if (g->queue.n >= gpu_part_most(g->queue.part))
		gpu_submit(g);
	if (gpu_step_add(&g->queue, l, args, n) < 0)
		gpu_fail(g, "out of memory for what is to be launched");
}

/* Queue the launch. It is submitted together with the current part of the step, because submitting the launch at once
 * would end this part early (gpu_queue.h). */
void gpu_enqueue_beside(struct gpu *g, const struct gpu_launch *l, const void *args, size_t n,
                        const void *const *writes, int n_writes)
{
	(void)writes;
	(void)n_writes;
	if (g->failed)
		return;
	g->forks++;
	if (gpu_step_add(&g->queue_beside, l, args, n) < 0)
		gpu_fail(g, "out of memory for what is to be launched");
	if (g->direct)
		submit_beside(g);
}

void gpu_join(struct gpu *g)
{
	if (!g->forks)
		return;
	gpu_submit(g);
	g->forks = 0;
	if (gpu_enter(g) == 0 && gpu_check(g, cudaEventRecord(g->joined, g->beside), "cudaEventRecord") == 0)
		gpu_check(g, cudaStreamWaitEvent(g->stream, g->joined, 0), "cudaStreamWaitEvent");
}

void *gpu_last(struct gpu *g, const void *fn, size_t n, unsigned **grid_x)
{
	return g->failed || g->direct ? NULL : gpu_step_last(&g->queue, fn, n, grid_x);
}
