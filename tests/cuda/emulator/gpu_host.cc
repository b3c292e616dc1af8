/* tests/cuda/emulator/gpu_host.cc - implements gpu.h, for tests, by a device that is emulated on the processor: its
 * memory and its queue. host_run.cc runs the kernels.
 *
 * The emulation is slow and strict:
 * - Queued work runs when the host waits, not before.
 * - Device memory is inaccessible outside of kernels (its pages are protected), and every allocation has guards
 *   around it.
 * - gpu_forget() fills memory with garbage; staged bytes become garbage after the step.
 * - A kernel's arguments must not point into host memory.
 * - Graphs are selected as on a device (gpu_queue.h); a replayed step runs with the arguments of the updated graph.
 * - A launch of the second stream (gpu_enqueue_beside) runs at once, or as late as at gpu_join(); gpu_host_order()
 *   decides which. If another call uses the memory that the launch writes before gpu_join(), this is reported. */
#include "tests/cuda/emulator/gpu_host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cuda/gpu_queue.h"
#include "tests/cuda/emulator/host.cuh"
#include "tests/cuda/emulator/host_run.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { GUARD = 256, GUARD_BYTE = 0x5c, QUEUE_MOST = 16384 };

/* An allocation: a guard, the bytes, a guard. host: 1 = the allocation is host memory that kernels can access. beside:
 * 1 = launches of the second stream write to it. */
struct piece { unsigned char *p; size_t size; int host, beside; };

/* One entry of the queue. Kernels, gpu_forget() and small writes are launches of a step; for gpu_forget() and small
 * writes, a function stands in place of a kernel. Every other entry ends a step. */
/* DO_BESIDE: the entry has only launches of the second stream */
enum action_kind { DO_STEP, DO_WRITE, DO_PRODUCT, DO_BESIDE, DO_JOIN };
struct action {
	enum action_kind kind;
	/* DO_STEP: first: the entry's first launch in `queue`; n: number of its launches; part: part of the step */
	int first, n, part;
	int beside;                /* number of launches of the second stream that may run when this entry is reached */
	unsigned char *p, *bytes;
	size_t size;
	const void *w, *x;
	int ld, m, rows, k;
};

struct gpu {
	unsigned char *arena;
	size_t arena_size, top;    /* size of the arena; the bytes from offset `top` on were never allocated */
	size_t page, in_use;
	uint64_t memory;
	int open;                  /* 1: the pages of the arena are accessible */
	struct piece *piece;       /* allocations, sorted by address */
	int n_pieces, cap_pieces;
	unsigned char *stage;
	size_t n_stage;
	struct gpu_step queue, beside; /* beside: launches of the second stream, in order */
	/* Of the launches in `beside`, the first beside_run have run, and the first beside_due may run. */
	int beside_run, beside_due;
	struct action *action;
	int n_actions, cap_actions;
	int parts;                 /* parts of the queued step so far */
	struct gpu_graphs graphs;
	unsigned order;
	const char *wrong;         /* WEIR_CUDA_WRONG: kernels whose arguments have a type of this name do nothing; NULL = none */
	int failed;
	char fail[160];
};

static struct gpu_host_counts stats;
static unsigned first_order = 2;
static int order_set;
static uint64_t next_memory = (uint64_t)4 << 30;

extern "C" void gpu_host_stats(struct gpu_host_counts *out) { *out = stats; }
extern "C" void gpu_host_forget(void) { memset(&stats, 0, sizeof stats); }
extern "C" void gpu_host_order(unsigned seed) { first_order = seed; order_set = 1; }
extern "C" void gpu_host_memory(uint64_t bytes) { next_memory = bytes; }

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

/* ---- memory ---- */

static void pages(struct gpu *g, int open)
{
	if (open == g->open)
		return;
	g->open = open;
	if (g->top && mprotect(g->arena, g->top, open ? PROT_READ | PROT_WRITE : PROT_NONE) < 0)
		fail(g, "the host cannot open or close the pages of its device");
}

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
static size_t piece_room(const struct piece *p) { return round_up(p->size, GUARD); }

/* Return the index of the allocation that contains p, or -1. */
static int piece_of(const struct gpu *g, const void *p)
{
	int lo = 0, hi = g->n_pieces;

	while (lo < hi) {
		int mid = (lo + hi) / 2;

		if (g->piece[mid].p <= (const unsigned char *)p)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > 0 && (const unsigned char *)p < g->piece[lo - 1].p + g->piece[lo - 1].size ? lo - 1 : -1;
}

static int within(const struct gpu *g, const void *p, size_t n)
{
	int i = piece_of(g, p);

	return i >= 0 && n <= (size_t)(g->piece[i].p + g->piece[i].size - (const unsigned char *)p);
}

static int guard_ok(const unsigned char *p, const unsigned char *end)
{
	for (; p < end; p++)
		if (*p != GUARD_BYTE)
			return 0;
	return 1;
}

static void guards_set(const struct piece *p)
{
	memset(p->p - GUARD, GUARD_BYTE, GUARD);
	memset(p->p + p->size, GUARD_BYTE, piece_room(p) - p->size + GUARD);
	ASAN_POISON_MEMORY_REGION(p->p - GUARD, GUARD);
	ASAN_POISON_MEMORY_REGION(p->p + p->size, piece_room(p) - p->size + GUARD);
}

/* Check the guards of all allocations; the pages must be accessible. */
static void guards_check(struct gpu *g)
{
	for (int i = 0; i < g->n_pieces; i++) {
		const struct piece *p = &g->piece[i];
		unsigned char *end = p->p + piece_room(p) + GUARD;
		int before, after;

		ASAN_UNPOISON_MEMORY_REGION(p->p - GUARD, GUARD);
		ASAN_UNPOISON_MEMORY_REGION(p->p + p->size, (size_t)(end - p->p) - p->size);
		before = guard_ok(p->p - GUARD, p->p);
		after = guard_ok(p->p + p->size, end);
		guards_set(p);
		if (!before || !after)
			fail(g, "something wrote %s a piece of %zu bytes of device memory", before ? "behind" : "in front of", p->size);
	}
}

static void *arena_get(size_t *size)
{
	void *p = MAP_FAILED;

	for (*size = (size_t)64 << 30; *size >= (size_t)1 << 28; *size /= 2) {
		p = mmap(NULL, *size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p != MAP_FAILED)
			return p;
	}
	return NULL;
}

static void *alloc(struct gpu *g, size_t n, int host)
{
	size_t room = round_up(n, GUARD), at = 0, top;
	struct piece *p;
	int i;

	if (!host && (n > g->memory || g->in_use > g->memory - n))
		return NULL;
	if (g->n_pieces == g->cap_pieces) {
		int cap = g->cap_pieces ? 2 * g->cap_pieces : 64;
		void *q = realloc(g->piece, (size_t)cap * sizeof *g->piece);

		if (!q)
			return NULL;
		g->piece = (struct piece *)q;
		g->cap_pieces = cap;
	}
	/* Find the first gap that is large enough. */
	for (i = 0; i < g->n_pieces; i++) {
		size_t begins = (size_t)(g->piece[i].p - GUARD - g->arena);

		if (begins - at >= room + 2 * GUARD)
			break;
		at = (size_t)(g->piece[i].p - g->arena) + piece_room(&g->piece[i]) + GUARD;
	}
	if (at + room + 2 * GUARD > g->arena_size)
		return NULL;
	top = round_up(at + room + 2 * GUARD, g->page);
	pages(g, 1);
	if (top > g->top) {
		if (mprotect(g->arena + g->top, top - g->top, PROT_READ | PROT_WRITE) < 0) {
			pages(g, 0);
			return NULL;
		}
	}
	memmove(g->piece + i + 1, g->piece + i, (size_t)(g->n_pieces - i) * sizeof *g->piece);
	g->n_pieces++;
	p = &g->piece[i];
	p->p = g->arena + at + GUARD;
	p->size = n;
	p->host = host;
	p->beside = 0;
	g->in_use += host ? 0 : n;
	ASAN_UNPOISON_MEMORY_REGION(p->p - GUARD, room + 2 * GUARD);
	if (at < g->top)
		memset(p->p, 0, at + room + 2 * GUARD <= g->top ? room : g->top - at - GUARD > room ? room : g->top - at - GUARD);
	guards_set(p);
	if (top > g->top)
		g->top = top;
	pages(g, 0);
	return p->p;
}

void *gpu_alloc(struct gpu *g, size_t n) { return alloc(g, n, 0); }
void *gpu_alloc_host(struct gpu *g, size_t n) { return alloc(g, n, 1); }

/* ---- running the queue ---- */

struct move_args { unsigned char *dst; const unsigned char *src; uint64_t n; };
static void move_bytes(struct move_args a) { memcpy(a.dst, a.src, a.n); }
static void garbage_bytes(struct move_args a) { memset(a.dst, 0xff, a.n); }
static void move_call(const void *fn, const void *args)
{
	((void (*)(struct move_args))fn)(*(const struct move_args *)args);
}

static int is_kernel(const struct gpu_launch *l)
{
	return l->call != move_call;
}

/* 1 if the eight bytes of an argument are an address and not two counts side by side, which can look like one (for
 * example, 25,331 and 25,331). A program and its mappings are above 0x500000000000; the shadow memory of the thread
 * sanitizer is below. The heap of the address sanitizer is below, too. So with this sanitizer, a value is taken for
 * numbers if its low half is below 2^20. */
static int is_address(uintptr_t v)
{
#ifdef __SANITIZE_ADDRESS__
	return v >> 47 == 0 && v >= 0x100080000000 && (uint32_t)v >> 20 != 0;
#else
	return v >> 47 == 0 && v >= 0x500000000000;
#endif
}

/* Report arguments that point into the program's own memory, which a device cannot access. */
static void arguments_check(struct gpu *g, const struct gpu_launch *l, const unsigned char *args, size_t n)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		unsigned char here;
		uintptr_t v;
		char name[48];

		memcpy(&v, args + i, 8);
		if (!is_address(v))
			continue;
		if (v - (uintptr_t)g->stage < GPU_STAGE_BYTES)
			continue;
		if (v - (uintptr_t)g->arena < g->arena_size) {
			/* a pointer one past the end is allowed */
			if (piece_of(g, (void *)v) >= 0 || piece_of(g, (void *)(v - 1)) >= 0)
				continue;
			gpu_launch_name(l, name, sizeof name);
			fail(g, "kernel %s: the argument at byte %zu points at device memory that was freed", name, i);
		} else if (mincore((void *)(v & ~(uintptr_t)(g->page - 1)), 1, &here) == 0) {
			gpu_launch_name(l, name, sizeof name);
			fail(g, "kernel %s: the argument at byte %zu points at memory of the host", name, i);
		}
	}
}

/* 1 if the kernel is to do nothing (WEIR_CUDA_WRONG). */
static int is_wrong(const struct gpu *g, const struct gpu_launch *l)
{
	char name[48];

	if (!g->wrong)
		return 0;
	gpu_launch_name(l, name, sizeof name);
	return !strcmp(name, g->wrong);
}

static void run_launch(struct gpu *g, const struct gpu_launch *l, const unsigned char *args, size_t n)
{
	char err[160];
	unsigned char copy[1024] __attribute__((aligned(16)));
	uint64_t threads = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2] * l->block;

	memcpy(copy, args, n);
	if (!is_kernel(l)) {
		l->call(l->fn, copy);
		return;
	}
	arguments_check(g, l, copy, n);
	if (g->failed || is_wrong(g, l))
		return;
	stats.launches++;
	if (threads > stats.most_threads)
		stats.most_threads = threads;
	if (g->order > 1)
		g->order = g->order * 1664525u + 1013904223u;
	if (g->order < 2 && first_order > 1)
		g->order += 2;
	if (host_run(l, copy, g->order, err) < 0)
		fail(g, "%s", err);
}

static void run_step(struct gpu *g, const struct action *a)
{
	struct gpu_step s = {};
	struct gpu_graph *graph;

	s.part = a->part;
	for (int i = 0; i < a->n; i++) {
		const struct gpu_node *node = &g->queue.node[a->first + i];

		if (gpu_step_add(&s, &node->launch, g->queue.arg + node->at, node->size) < 0)
			fail(g, "out of memory for the queue");
	}
	stats.steps++;
	switch (gpu_graphs_find(&g->graphs, &s, &graph)) {
	case GPU_PLAIN:
		stats.plain++;
		break;
	case GPU_BUILD:
		stats.built++;
		graph->exec = g;       /* any value but NULL */
		break;
	case GPU_REPLAY:
		stats.replayed++;
		for (int i = 0; i < s.n; i++)
			if (gpu_step_changed(&graph->step, &s, i)) {
				gpu_step_take(&graph->step, &s, i);
				stats.updated += is_kernel(&s.node[i].launch);
			}
		gpu_step_free(&s);
		if (gpu_step_copy(&s, &graph->step) < 0)
			fail(g, "out of memory for the queue");
		break;
	}
	for (int i = 0; i < s.n && !g->failed; i++)
		run_launch(g, &s.node[i].launch, s.arg + s.node[i].at, s.node[i].size);
	gpu_step_free(&s);
}

static void run_product(struct gpu *g, const struct action *a)
{
	float *row = (float *)malloc((size_t)a->k * 2 * sizeof *row), *y = row + a->k;
	const __half *w = (const __half *)a->w, *x = (const __half *)a->x;

	stats.products++;
	if (!row) {
		fail(g, "out of memory for a product");
		return;
	}
	for (int i = 0; i < a->m; i++) {
		for (int k = 0; k < a->k; k++)
			row[k] = __half2float(w[(size_t)i * (size_t)a->k + (size_t)k]);
		for (int j = 0; j < a->rows; j++) {
			float sum = 0;

			for (int k = 0; k < a->k; k++)
				y[k] = __half2float(x[(size_t)j * (size_t)a->k + (size_t)k]);
			for (int k = 0; k < a->k; k++)
				sum += row[k] * y[k];
			((float *)a->p)[(size_t)j * (size_t)a->ld + (size_t)i] = sum;
		}
	}
	free(row);
}

/* Run the launches of the second stream that may run. */
static void run_beside(struct gpu *g)
{
	for (; g->beside_run < g->beside_due; g->beside_run++) {
		const struct gpu_node *node = &g->beside.node[g->beside_run];

		if (!g->failed)
			run_launch(g, &node->launch, g->beside.arg + node->at, node->size);
	}
	if (g->beside_run < g->beside.n)
		return;
	gpu_step_clear(&g->beside);
	g->beside_run = g->beside_due = 0;
}

/* 1 if a launch of the second stream runs at once: always for order 0, never for order 1, else at random. */
static int beside_now(struct gpu *g)
{
	return g->order < 2 ? !g->order : (int)(g->order >> 20 & 1);
}

static void run_all(struct gpu *g)
{
	pages(g, 1);
	for (int i = 0; i < g->n_actions; i++) {
		struct action *a = &g->action[i];

		if (!g->failed && a->kind == DO_STEP)
			run_step(g, a);
		else if (!g->failed && a->kind == DO_WRITE)
			memcpy(a->p, a->bytes, a->size);
		else if (!g->failed && a->kind == DO_PRODUCT)
			run_product(g, a);
		if (a->kind == DO_JOIN)
			run_beside(g);
		g->beside_due += a->beside;
		if (a->beside && beside_now(g))
			run_beside(g);
		free(a->bytes);
	}
	g->n_actions = 0;
	gpu_step_clear(&g->queue);
	guards_check(g);
	pages(g, 0);
}

/* Run the queue. Afterwards staged bytes are garbage. */
static void finish(struct gpu *g)
{
	run_all(g);
	memset(g->stage, 0xff, g->n_stage);
	g->n_stage = 0;
	g->parts = 0;
}

static struct action *action_add(struct gpu *g, enum action_kind kind)
{
	struct action *a;

	if (g->n_actions == g->cap_actions) {
		int cap = g->cap_actions ? 2 * g->cap_actions : 64;
		void *q = realloc(g->action, (size_t)cap * sizeof *g->action);

		if (!q) {
			fail(g, "out of memory for the queue");
			return NULL;
		}
		g->action = (struct action *)q;
		g->cap_actions = cap;
	}
	a = &g->action[g->n_actions++];
	memset(a, 0, sizeof *a);
	a->kind = kind;
	return a;
}

/* ---- gpu.h ---- */

int gpu_open(struct gpu **out, struct gpu_info *info, char err[160])
{
	const char *order = getenv("WEIR_CUDA_ORDER");
	struct gpu *g = (struct gpu *)calloc(1, sizeof *g);

	*out = NULL;
	if (g) {
		g->page = (size_t)sysconf(_SC_PAGESIZE);
		g->arena = (unsigned char *)arena_get(&g->arena_size);
		g->stage = (unsigned char *)aligned_alloc(256, GPU_STAGE_BYTES);
	}
	if (!g || !g->arena || !g->stage) {
		snprintf(err, 160, "out of memory for a device on the host");
		gpu_close(g);
		return -1;
	}
	g->memory = next_memory;
	g->wrong = getenv("WEIR_CUDA_WRONG");
	g->order = !order_set && order ? (unsigned)strtoul(order, NULL, 10) : first_order;
	memset(info, 0, sizeof *info);
	snprintf(info->name, sizeof info->name, "host");
	info->major = 9;
	info->processors = 4;
	info->shared_max = HOST_SHARED_MAX;
	info->driver = info->runtime = 13000;
	info->memory = g->memory;
	*out = g;
	return 0;
}

void gpu_close(struct gpu *g)
{
	if (!g)
		return;
	for (int i = 0; i < g->n_actions; i++)
		free(g->action[i].bytes);
	if (g->arena) {
		ASAN_UNPOISON_MEMORY_REGION(g->arena, g->top);
		munmap(g->arena, g->arena_size);
	}
	gpu_graphs_free(&g->graphs);
	gpu_step_free(&g->queue);
	gpu_step_free(&g->beside);
	free(g->action);
	free(g->piece);
	free(g->stage);
	free(g);
}

void gpu_free(struct gpu *g, void *p)
{
	int i;

	if (!p)
		return;
	gpu_join(g);
	run_all(g);
	i = piece_of(g, p);
	if (i < 0 && g->n_pieces)              /* an allocation of size 0 */
		for (i = g->n_pieces - 1; i >= 0 && g->piece[i].p != p; i--)
			;
	if (i < 0 || g->piece[i].p != p) {
		fail(g, "something frees device memory that is not there");
		return;
	}
	g->in_use -= g->piece[i].host ? 0 : g->piece[i].size;
	ASAN_POISON_MEMORY_REGION(p, g->piece[i].size);
	memmove(g->piece + i, g->piece + i + 1, (size_t)(g->n_pieces - i - 1) * sizeof *g->piece);
	g->n_pieces--;
}

uint64_t gpu_memory_free(struct gpu *g)
{
	return g->memory - g->in_use;
}

/* 1 if p is in memory that launches of the second stream may be writing. */
static int is_beside(const struct gpu *g, const void *p)
{
	int i = piece_of(g, p);

	return i >= 0 && g->piece[i].beside;
}

static void not_beside(struct gpu *g, const void *p, const char *what)
{
	if (is_beside(g, p))
		fail(g, "%s uses memory that launches beside may still be writing: gpu_join() is missing", what);
}

static void launch_not_beside(struct gpu *g, const struct gpu_launch *l, const unsigned char *args, size_t n)
{
	char name[48], what[80];

	for (size_t i = 0; i + 8 <= n; i += 8) {
		uintptr_t v;

		memcpy(&v, args + i, 8);
		if (v - (uintptr_t)g->arena >= g->arena_size || !is_beside(g, (void *)v))
			continue;
		gpu_launch_name(l, name, sizeof name);
		snprintf(what, sizeof what, "kernel %s", name);
		not_beside(g, (void *)v, what);
	}
}

void gpu_read(struct gpu *g, void *dst, const void *src, size_t n)
{
	int i = piece_of(g, src);

	not_beside(g, src, "a read");
	stats.waits += g->n_actions || i < 0 || !g->piece[i].host;
	stats.bytes_read += i < 0 || !g->piece[i].host ? n : 0;
	finish(g);
	if (g->failed)
		return;
	if (!within(g, src, n)) {
		fail(g, "a read of %zu bytes is not within a piece of device memory", n);
		return;
	}
	pages(g, 1);
	memcpy(dst, src, n);
	pages(g, 0);
}

const void *gpu_stage(struct gpu *g, const void *src, size_t n)
{
	size_t at = round_up(g->n_stage, 16);

	if (g->failed)
		return NULL;
	if (n > GPU_STAGE_MOST || at + n > GPU_STAGE_BYTES) {
		fail(g, "cannot stage %zu bytes behind %zu in one step", n, at);
		return NULL;
	}
	memcpy(g->stage + at, src, n);
	g->n_stage = at + n;
	return g->stage + at;
}

void gpu_enqueue_beside(struct gpu *g, const struct gpu_launch *l, const void *args, size_t n, const void *const *writes, int n_writes)
{
	struct action *a = g->failed ? NULL : g->n_actions ? &g->action[g->n_actions - 1] : action_add(g, DO_BESIDE);

	if (!a)
		return;
	a->beside++;
	for (int i = 0; i < n_writes; i++) {
		int at = piece_of(g, writes[i]);

		if (at < 0)
			fail(g, "something beside writes what is not a piece of memory");
		else
			g->piece[at].beside = 1;
	}
	if (gpu_step_add(&g->beside, l, args, n) < 0)
		fail(g, "out of memory for the queue");
}

void gpu_join(struct gpu *g)
{
	if (!g->failed)
		action_add(g, DO_JOIN);
	for (int i = 0; i < g->n_pieces; i++)
		g->piece[i].beside = 0;
}

void gpu_enqueue(struct gpu *g, const struct gpu_launch *l, const void *args, size_t n)
{
	struct action *a = g->n_actions ? &g->action[g->n_actions - 1] : NULL;

	launch_not_beside(g, l, (const unsigned char *)args, n);
	if (g->failed)
		return;
	if (g->queue.n >= QUEUE_MOST) {
		run_all(g);
		a = NULL;
	}
	if (!a || a->kind != DO_STEP || a->n >= gpu_part_most(a->part)) {
		a = action_add(g, DO_STEP);
		if (!a)
			return;
		a->first = g->queue.n;
		a->part = g->parts++;
	}
	a->n++;
	if (gpu_step_add(&g->queue, l, args, n) < 0) {
		a->n--;
		fail(g, "out of memory for the queue");
	}
}

void *gpu_last(struct gpu *g, const void *fn, size_t n, unsigned **grid_x)
{
	if (g->failed || !g->n_actions || g->action[g->n_actions - 1].kind != DO_STEP)
		return NULL;
	return gpu_step_last(&g->queue, fn, n, grid_x);
}

static void move(struct gpu *g, void (*fn)(struct move_args), void *dst, const void *src, size_t n)
{
	struct gpu_launch l = { (const void *)fn, move_call, { 1, 1, 1 }, 1, 0, NULL };
	struct move_args a = { (unsigned char *)dst, (const unsigned char *)src, n };

	gpu_enqueue(g, &l, &a, sizeof a);
}

void gpu_write(struct gpu *g, void *dst, const void *src, size_t n)
{
	struct action *a;

	not_beside(g, dst, "a write");
	if (g->failed || !n)
		return;
	if (!within(g, dst, n)) {
		fail(g, "a write of %zu bytes is not within a piece of device memory", n);
		return;
	}
	if (n <= GPU_WRITE_SMALL && g->n_stage + n <= GPU_STAGE_BYTES / 2) {
		move(g, move_bytes, dst, gpu_stage(g, src, n), n);
		return;
	}
	a = action_add(g, DO_WRITE);
	if (!a)
		return;
	a->p = (unsigned char *)dst;
	a->size = n;
	a->bytes = (unsigned char *)malloc(n);
	if (a->bytes)
		memcpy(a->bytes, src, n);
	else
		fail(g, "out of memory for a write of %zu bytes", n);
}

void gpu_forget(struct gpu *g, void *p, size_t n)
{
	if (g->failed || !n)
		return;
	if (within(g, p, n))
		move(g, garbage_bytes, p, NULL, n);
	else
		fail(g, "%zu bytes to forget are not within a piece of device memory", n);
}

void gpu_gemm(struct gpu *g, float *out, int ld_out, const void *w, const void *x, int m, int n, int k)
{
	struct action *a;

	if (g->failed || n < 1)
		return;
	if (m < 1 || k < 1 || ld_out < m || !within(g, w, (size_t)m * (size_t)k * 2) || !within(g, x, (size_t)n * (size_t)k * 2) ||
	    !within(g, out, ((size_t)(n - 1) * (size_t)ld_out + (size_t)m) * 4)) {
		fail(g, "a product of %d x %d x %d is not within pieces of device memory", m, n, k);
		return;
	}
	a = action_add(g, DO_PRODUCT);
	if (a) {
		a->p = (unsigned char *)out;
		a->ld = ld_out;
		a->w = w;
		a->x = x;
		a->m = m;
		a->rows = n;
		a->k = k;
	}
}

int gpu_sync(struct gpu *g, char err[160])
{
	int failed;

	stats.waits += g->n_actions > 0;
	finish(g);
	failed = g->failed;
	if (failed)
		snprintf(err, 160, "%s", g->fail);
	g->failed = 0;
	return failed ? -1 : 0;
}
