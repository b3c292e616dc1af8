/* kernels/cuda/gpu_queue.h (private to kernels/cuda/) - launches gathered into a step, and which graph can replay it.
 *
 * A decode step is some hundred small kernels, the same from token to token but for a few arguments (a row, a length).  A graph of
 * the step is started at once, after its changed arguments are put in.  What a graph stands for is the step's topology: its
 * kernels in order, their grids, blocks, shared memory and the sizes of their arguments.
 *
 * A step goes to the device in parts, each a graph of its own, the first of them short: the device computes one while the host
 * gathers the next and puts in its arguments, which for a small model takes as long as the computing.
 *
 * Building a graph costs more than launching its kernels, and most topologies come once (a prompt is read in steps of
 * many shapes).  So a topology is remembered the first time, built the second time, and replayed from then on.  Few of either kind
 * are kept; the least recently used goes.
 *
 * Bytes that kernels read (gpu_stage) and small writes lie in one region, which goes to the device before the step; a small
 * write is a kernel that copies from there, so that a step is nothing but kernels. */
#ifndef WEIR_CUDA_GPU_QUEUE_H
#define WEIR_CUDA_GPU_QUEUE_H

#include "kernels/cuda/gpu.h"

enum {
	GPU_STAGE_BYTES = 16 << 20,    /* of one step */
	GPU_STAGE_MOST = 1 << 20,      /* of one call */
	GPU_WRITE_SMALL = 64 << 10,    /* up to here a write is a kernel, while half of the region is left */
	GPU_ARGS_MOST = 1024           /* bytes of arguments */
};

struct gpu_node {
	struct gpu_launch launch;
	size_t at, size;           /* its arguments among the step's bytes; `at` is a multiple of 16 */
};
struct gpu_step {
	struct gpu_node *node;
	int n, cap;
	int part;                  /* so many parts of the step came before */
	unsigned char *arg;
	size_t n_arg, cap_arg;
};

/* Launches that part i of a step gathers at most. */
int  gpu_part_most(int i);
/* 0, or -1 without memory. */
int  gpu_step_add(struct gpu_step *, const struct gpu_launch *, const void *args, size_t n);
/* gpu_last() of a step. */
void *gpu_step_last(struct gpu_step *, const void *fn, size_t n, unsigned **grid_x);
int  gpu_step_copy(struct gpu_step *to, const struct gpu_step *from);
void gpu_step_clear(struct gpu_step *);
void gpu_step_free(struct gpu_step *);
uint64_t gpu_step_hash(const struct gpu_step *);
/* The same topology, at the same place? */
int  gpu_step_same(const struct gpu_step *, const struct gpu_step *);
/* Of two steps with the same topology: have node i's arguments changed? */
int  gpu_step_changed(const struct gpu_step *, const struct gpu_step *, int i);
/* And those of `from` into `to`. */
void gpu_step_take(struct gpu_step *to, const struct gpu_step *from, int i);

/* What a launch is called in messages: "rope_args", out of its name. */
void gpu_launch_name(const struct gpu_launch *, char *out, size_t cap);

enum { GPU_GRAPHS = 64, GPU_SEEN = 128, GPU_GRAPH_LEAST = 4 };   /* of fewer kernels no graph is made */
enum gpu_way { GPU_PLAIN, GPU_BUILD, GPU_REPLAY };
struct gpu_graph {
	struct gpu_step step;      /* as it was last run */
	uint64_t hash, used;
	void *exec;                /* the implementation's; NULL until built */
};
struct gpu_graphs {
	struct gpu_graph graph[GPU_GRAPHS], seen[GPU_SEEN];
	uint64_t clock;
	void (*drop)(void *exec);
};
/* How to run a step.  GPU_BUILD: *out is free for its graph, with the step in it; set exec, or forget it.  GPU_REPLAY: *out
 * has run before, with out->step; gpu_step_take() into it what has changed. */
enum gpu_way gpu_graphs_find(struct gpu_graphs *, const struct gpu_step *, struct gpu_graph **out);
void gpu_graphs_forget(struct gpu_graphs *, struct gpu_graph *);
void gpu_graphs_free(struct gpu_graphs *);

#endif
