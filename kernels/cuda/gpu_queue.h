/* kernels/cuda/gpu_queue.h (private to kernels/cuda/) - queued launches, and the CUDA graphs that replay them.
 *
 * A step is the launches between two waits of the host. A decode step is some hundred small kernels, the same from
 * token to token except for a few arguments (a slot, a length). A step is submitted in parts; the first parts are
 * short, so that the device soon has work.
 *
 * The topology of a part is everything except the values of its arguments: its kernels with their grids, blocks, shared
 * memory and sizes of arguments. For a topology that occurs again, a CUDA graph is built, which runs all launches at
 * once; before each run, changed arguments are updated. When a topology occurs for the first time, it is only
 * remembered: building a graph costs more than launching its kernels, and prefill has many topologies that occur only
 * once. The tables of topologies and of graphs have a fixed size and drop their least recently used entry.
 *
 * Staged bytes (gpu_stage) and small writes are collected in one region, which is copied to the device before the
 * part runs. A small write is a kernel that copies from this region, so a step consists of kernels only. */
#ifndef WEIR_CUDA_GPU_QUEUE_H
#define WEIR_CUDA_GPU_QUEUE_H

#include "kernels/cuda/gpu.h"

enum {
	GPU_STAGE_BYTES = 16 << 20, /* size of the region for staged bytes */
	GPU_STAGE_MOST = 1 << 20,   /* maximum number of bytes of one gpu_stage() call */
	/* maximum size in bytes of a write that goes through the region of staged bytes; while the region is more than
	 * half full, all writes bypass it */
	GPU_WRITE_SMALL = 64 << 10
};

struct gpu_node {
	struct gpu_launch launch;
	/* The arguments of the launch are in gpu_step.arg: `size` bytes at offset `at`, which is a multiple of 16. */
	size_t at, size;
};
struct gpu_step {
	struct gpu_node *node;
	int n, cap;
	int part;           /* index of this part within the step */
	unsigned char *arg; /* arguments of all nodes */
	size_t n_arg, cap_arg;
};

/* Return the maximum number of launches in part i of a step. */
int gpu_part_most(int i);
/* Append a launch. Return 0, or -1 if memory is short. */
int gpu_step_add(struct gpu_step *, const struct gpu_launch *, const void *args, size_t n);
/* Do what gpu_last() does, with the last launch of this step. */
void *gpu_step_last(struct gpu_step *, const void *fn, size_t n, unsigned **grid_x);
/* Copy the launches and their arguments. Return 0, or -1 if memory is short. */
int gpu_step_copy(struct gpu_step *to, const struct gpu_step *from);
void gpu_step_clear(struct gpu_step *);
void gpu_step_free(struct gpu_step *);
uint64_t gpu_step_hash(const struct gpu_step *); /* Return a hash of the step's topology. */
/* 1 if both steps have the same topology and the same part number. */
int gpu_step_same(const struct gpu_step *, const struct gpu_step *);
/* 1 if node i has different arguments in the two steps, which have the same topology */
int gpu_step_changed(const struct gpu_step *, const struct gpu_step *, int i);
/* Copy the arguments of node i from `from` to `to`. */
void gpu_step_take(struct gpu_step *to, const struct gpu_step *from, int i);

/* Write the name of a launch for messages: "rope_args". */
void gpu_launch_name(const struct gpu_launch *, char *out, size_t cap);

/* GPU_GRAPHS is the maximum number of CUDA graphs. GPU_SEEN is the maximum number of topologies that are remembered
 * without a graph. A part of a step gets a graph only if it has at least GPU_GRAPH_LEAST launches. */
enum { GPU_GRAPHS = 64, GPU_SEEN = 128, GPU_GRAPH_LEAST = 4 };
enum gpu_way { GPU_PLAIN, GPU_BUILD, GPU_REPLAY };
struct gpu_graph {
	struct gpu_step step; /* launches, with the arguments of the last run */
	/* `hash` is a hash of the step's topology: its kernels and grids, without the values of arguments. `used` is
	 * the value of gpu_graphs.clock when the entry was last used; 0 means that the entry is empty. */
	uint64_t hash, used;
	void *exec; /* the CUDA graph; NULL: not built yet */
};
struct gpu_graphs {
	/* `seen` has topologies that occurred, but have no graph yet */
	struct gpu_graph graph[GPU_GRAPHS], seen[GPU_SEEN];
	uint64_t clock;           /* number of gpu_graphs_find() calls that used an entry */
	void (*drop)(void *exec); /* frees a CUDA graph */
};
/* Decide how to run a step:
 * - GPU_PLAIN: run it as single launches.
 * - GPU_BUILD: build a graph. *out is a new entry that has the step. The caller sets its exec, or calls
 *   gpu_graphs_forget().
 * - GPU_REPLAY: run the graph of *out. out->step has the arguments of the graph's last run; the caller calls
 *   gpu_step_take() for each argument that changed. */
enum gpu_way gpu_graphs_find(struct gpu_graphs *, const struct gpu_step *, struct gpu_graph **out);
void gpu_graphs_forget(struct gpu_graphs *, struct gpu_graph *); /* empty an entry */
void gpu_graphs_free(struct gpu_graphs *);

#endif
