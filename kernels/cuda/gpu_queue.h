/* kernels/cuda/gpu_queue.h (private to kernels/cuda/) - launches queued into a step, and the graph that can replay the
 * step.
 *
 * A decode step is some hundred small kernels, the same from token to token but for a few arguments (a slot, a length).
 * A graph of the step is launched as one after its changed arguments are updated. A graph belongs to a topology: the
 * kernels in order, their grids, blocks, shared memory and the sizes of their arguments.
 *
 * A step is submitted in parts, each a graph of its own, the first ones short: the device computes one part while the
 * host queues the next and updates its arguments, which for a small model takes as long as the computing.
 *
 * Building a graph costs more than launching its kernels, and most topologies occur once (prefill comes in steps of
 * many shapes). So a topology is remembered the first time, its graph is built the second time and replayed from then
 * on. A fixed number of both is kept; the least recently used one is dropped.
 *
 * Bytes that kernels read (gpu_stage) and small writes lie in one region, which is copied to the device before the
 * step; a small write is a kernel that copies from this region, so a step consists of kernels alone. */
#ifndef WEIR_CUDA_GPU_QUEUE_H
#define WEIR_CUDA_GPU_QUEUE_H

#include "kernels/cuda/gpu.h"

enum {
	GPU_STAGE_BYTES = 16 << 20, /* of one step */
	GPU_STAGE_MOST = 1 << 20,   /* of one call */
	GPU_WRITE_SMALL = 64 << 10  /* bytes up to which a write is a kernel, while half of the region is free */
};

struct gpu_node {
	struct gpu_launch launch;
	size_t at, size; /* its arguments: `size` bytes at offset `at` (a multiple of 16) of gpu_step.arg */
};
struct gpu_step {
	struct gpu_node *node;
	int n, cap;
	int part;           /* index of this part of the step */
	unsigned char *arg; /* arguments of all nodes */
	size_t n_arg, cap_arg;
};

/* Most launches of part i of a step. */
int gpu_part_most(int i);
/* Append a launch.  0, or -1 without memory. */
int gpu_step_add(struct gpu_step *, const struct gpu_launch *, const void *args, size_t n);
/* gpu_last() on a step. */
void *gpu_step_last(struct gpu_step *, const void *fn, size_t n, unsigned **grid_x);
int gpu_step_copy(struct gpu_step *to, const struct gpu_step *from);
void gpu_step_clear(struct gpu_step *);
void gpu_step_free(struct gpu_step *);
uint64_t gpu_step_hash(const struct gpu_step *);
/* 1: the same topology and the same part of a step. */
int gpu_step_same(const struct gpu_step *, const struct gpu_step *);
/* For two steps of the same topology: 1 = node i has other arguments. */
int gpu_step_changed(const struct gpu_step *, const struct gpu_step *, int i);
/* Copy the arguments of node i from `from` to `to`. */
void gpu_step_take(struct gpu_step *to, const struct gpu_step *from, int i);

/* The name of a launch for messages, "rope_args". */
void gpu_launch_name(const struct gpu_launch *, char *out, size_t cap);

enum { GPU_GRAPHS = 64, GPU_SEEN = 128, GPU_GRAPH_LEAST = 4 }; /* fewest kernels of a graph */
enum gpu_way { GPU_PLAIN, GPU_BUILD, GPU_REPLAY };
struct gpu_graph {
	struct gpu_step step; /* with the arguments of its last run */
	uint64_t hash, used;  /* of the topology; clock of the last use, 0 = empty */
	void *exec;           /* the device's graph; NULL until built */
};
struct gpu_graphs {
	struct gpu_graph graph[GPU_GRAPHS], seen[GPU_SEEN];
	uint64_t clock;
	void (*drop)(void *exec);
};
/* How to run a step. GPU_PLAIN: as launches. GPU_BUILD: *out is a new entry with the step; set exec, or call
 * gpu_graphs_forget(). GPU_REPLAY: *out has run before, with the arguments in out->step; update those that changed by
 * gpu_step_take(). */
enum gpu_way gpu_graphs_find(struct gpu_graphs *, const struct gpu_step *, struct gpu_graph **out);
void gpu_graphs_forget(struct gpu_graphs *, struct gpu_graph *);
void gpu_graphs_free(struct gpu_graphs *);

#endif
