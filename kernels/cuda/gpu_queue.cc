/* kernels/cuda/gpu_queue.cc - steps and the choice of a graph. Plain C++, shared by gpu_cuda_launch.cu and the
 * emulator. */
#include "kernels/cuda/gpu_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int array_grow(void **p, size_t *cap, size_t want, size_t size)
{
	size_t n = *cap ? *cap : 64;
	void *q;

	while (n < want)
		n *= 2;
	if (n == *cap)
		return 0;
	q = realloc(*p, n * size);
	if (!q)
		return -1;
	*p = q;
	*cap = n;
	return 0;
}

static int step_reserve(struct gpu_step *s, int n, size_t n_arg)
{
	size_t cap = (size_t)s->cap;
	void *node = s->node, *arg = s->arg;
	int r = array_grow(&node, &cap, (size_t)n, sizeof *s->node);

	s->node = (struct gpu_node *)node;
	s->cap = (int)cap;
	if (r < 0 || array_grow(&arg, &s->cap_arg, n_arg, 1) < 0)
		return -1;
	s->arg = (unsigned char *)arg;
	return 0;
}

int gpu_part_most(int i) { return i < 2 ? 16 << i : 64; }

int gpu_step_add(struct gpu_step *s, const struct gpu_launch *l, const void *args, size_t n)
{
	size_t at = (s->n_arg + 15) & ~(size_t)15;
	struct gpu_node *node;

	if (step_reserve(s, s->n + 1, at + n) < 0)
		return -1;
	node = &s->node[s->n++];
	node->launch = *l;
	node->at = at;
	node->size = n;
	memcpy(s->arg + at, args, n);
	s->n_arg = at + n;
	return 0;
}

void *gpu_step_last(struct gpu_step *s, const void *fn, size_t n, unsigned **grid_x)
{
	struct gpu_node *node = s->n ? &s->node[s->n - 1] : NULL;

	if (!node || node->launch.fn != fn || node->size != n)
		return NULL;
	*grid_x = &node->launch.grid[0];
	return s->arg + node->at;
}

int gpu_step_copy(struct gpu_step *to, const struct gpu_step *from)
{
	if (step_reserve(to, from->n, from->n_arg) < 0)
		return -1;
	if (from->n)
		memcpy(to->node, from->node, (size_t)from->n * sizeof *to->node);
	/* Copy the arguments of each node separately, because the padding between them is uninitialised. */
	for (int i = 0; i < from->n; i++)
		memcpy(to->arg + from->node[i].at, from->arg + from->node[i].at, from->node[i].size);
	to->n = from->n;
	to->part = from->part;
	to->n_arg = from->n_arg;
	return 0;
}

void gpu_step_clear(struct gpu_step *s)
{
	s->n = 0;
	s->n_arg = 0;
}

void gpu_step_free(struct gpu_step *s)
{
	free(s->node);
	free(s->arg);
	memset(s, 0, sizeof *s);
}

static uint64_t hash_mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

uint64_t gpu_step_hash(const struct gpu_step *s)
{
	uint64_t h = hash_mix((uint64_t)s->part, (uint64_t)s->n);

	for (int i = 0; i < s->n; i++) {
		const struct gpu_launch *l = &s->node[i].launch;

		h = hash_mix(h, (uint64_t)(uintptr_t)l->fn);
		h = hash_mix(h, (uint64_t)l->grid[0] << 32 | l->grid[1]);
		h = hash_mix(h, (uint64_t)l->grid[2] << 32 | l->block);
		h = hash_mix(h, (uint64_t)l->shared << 32 | s->node[i].size);
	}
	return h;
}

int gpu_step_same(const struct gpu_step *a, const struct gpu_step *b)
{
	if (a->n != b->n || a->part != b->part)
		return 0;
	for (int i = 0; i < a->n; i++) {
		const struct gpu_launch *k = &a->node[i].launch, *l = &b->node[i].launch;

		if (k->fn != l->fn || memcmp(k->grid, l->grid, sizeof k->grid) || k->block != l->block || k->shared != l->shared ||
		    a->node[i].size != b->node[i].size)
			return 0;
	}
	return 1;
}

int gpu_step_changed(const struct gpu_step *a, const struct gpu_step *b, int i)
{
	return memcmp(a->arg + a->node[i].at, b->arg + b->node[i].at, a->node[i].size) != 0;
}

void gpu_step_take(struct gpu_step *to, const struct gpu_step *from, int i)
{
	memcpy(to->arg + to->node[i].at, from->arg + from->node[i].at, from->node[i].size);
}

/* Cut the name of the argument type out of l->name, the compiler's signature of cuda_args_name(): "... [with A =
 * rope_args]". */
void gpu_launch_name(const struct gpu_launch *l, char *out, size_t cap)
{
	const char *p = l->name ? l->name : "?", *q = strstr(p, "A = ");

	if (!q && (q = strstr(p, "A=")))
		p = q + 2;
	else if (q)
		p = q + 4;
	if (!strncmp(p, "(anonymous namespace)::", 23))
		p += 23;
	snprintf(out, cap, "%.*s", (int)strcspn(p, "];"), p);
}

void gpu_graphs_forget(struct gpu_graphs *g, struct gpu_graph *one)
{
	if (one->exec && g->drop)
		g->drop(one->exec);
	one->exec = NULL;
	one->used = 0;
	gpu_step_free(&one->step);
}

static struct gpu_graph *graph_find(struct gpu_graph *list, int n, const struct gpu_step *s, uint64_t hash)
{
	for (int i = 0; i < n; i++)
		if (list[i].used && list[i].hash == hash && gpu_step_same(&list[i].step, s))
			return &list[i];
	return NULL;
}

/* Empty and return the least recently used entry. */
static struct gpu_graph *graph_place(struct gpu_graphs *g, struct gpu_graph *list, int n)
{
	struct gpu_graph *oldest = list;

	for (int i = 1; i < n; i++)
		if (list[i].used < oldest->used)
			oldest = &list[i];
	gpu_graphs_forget(g, oldest);
	return oldest;
}

enum gpu_way gpu_graphs_find(struct gpu_graphs *g, const struct gpu_step *s, struct gpu_graph **out)
{
	uint64_t hash = gpu_step_hash(s);
	struct gpu_graph *seen, *one;

	*out = NULL;
	if (s->n < GPU_GRAPH_LEAST)
		return GPU_PLAIN;
	one = graph_find(g->graph, GPU_GRAPHS, s, hash);
	if (one) {
		one->used = ++g->clock;
		*out = one;
		return GPU_REPLAY;
	}
	seen = graph_find(g->seen, GPU_SEEN, s, hash);
	one = seen ? graph_place(g, g->graph, GPU_GRAPHS) : graph_place(g, g->seen, GPU_SEEN);
	if (seen)
		gpu_graphs_forget(g, seen);
	if (gpu_step_copy(&one->step, s) < 0) {
		gpu_step_free(&one->step);
		return GPU_PLAIN;
	}
	one->hash = hash;
	one->used = ++g->clock;
	if (!seen)
		return GPU_PLAIN;
	*out = one;
	return GPU_BUILD;
}

void gpu_graphs_free(struct gpu_graphs *g)
{
	for (int i = 0; i < GPU_GRAPHS; i++)
		gpu_graphs_forget(g, &g->graph[i]);
	for (int i = 0; i < GPU_SEEN; i++)
		gpu_graphs_forget(g, &g->seen[i]);
}
