/* kernels/cpu_mem.c - memory of the CPU backend, and weights repacked for its level. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cpu.h"

enum {
	MAP_BYTES = 1 << 20,         /* allocations from here on are mapped */
	HUGE_PAGE = 2 << 20,
};

/* In front of every block, one cache line. */
struct mem_head {
	void *base;
	size_t mapped;               /* bytes of the mapping, 0 = from the heap */
};

static int commit_pages(void *p, size_t size)
{
#ifdef MADV_POPULATE_WRITE
	if (madvise(p, size, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return -1;
#endif
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < size; i += page)
		((volatile char *)p)[i] = 0;
	return 0;
}

/* Zeroed, 64-byte aligned memory, or NULL.  Pages of large blocks are committed now rather than in the middle of an
 * answer, unless the caller is about to write all of them anyway. */
static void *mem_get(size_t size, int commit)
{
	struct mem_head *h;
	size_t total;
	char *base;

	if (size > SIZE_MAX / 2)
		return NULL;
	total = align64(size) + 64;
	if (total < MAP_BYTES) {
		base = aligned_alloc(64, total);
		if (!base)
			return NULL;
		memset(base, 0, total);
		h = (struct mem_head *)base;
		h->mapped = 0;
	} else {
		total = (total + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
		base = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (base == MAP_FAILED)
			return NULL;
#ifdef MADV_HUGEPAGE
		madvise(base, total, MADV_HUGEPAGE);
#endif
		if (commit && commit_pages(base, total) < 0) {
			munmap(base, total);
			return NULL;
		}
		h = (struct mem_head *)base;
		h->mapped = total;
	}
	h->base = base;
	return base + 64;
}

void cpu_mem_free(void *p)
{
	struct mem_head *h;

	if (!p)
		return;
	h = (struct mem_head *)((char *)p - 64);
	if (h->mapped)
		munmap(h->base, h->mapped);
	else
		free(h->base);
}

int cpu_buffer_grow(struct cpu *c, struct buffer *b, size_t size)
{
	if (size <= b->size)
		return 0;
	size += size / 4;
	cpu_mem_free(b->p);
	b->size = 0;
	b->p = mem_get(size, 1);
	if (!b->p)
		return cpu_fail(&c->base, "cannot get %zu bytes of memory for working buffers", size);
	b->size = size;
	return 0;
}

/* Checks the shape too; 0 when it cannot be. */
static size_t tensor_bytes(const struct tensor *t)
{
	size_t n;

	if ((unsigned)t->type >= DT_COUNT || t->rows <= 0 || t->cols <= 0 || t->cols % dtype_info(t->type)->block)
		return 0;
	if (__builtin_mul_overflow(row_bytes(t), (size_t)t->rows, &n))
		return 0;
	return n;
}

int cpu_alloc(struct backend *be, struct tensor *t)
{
	size_t n = tensor_bytes(t);

	if (be->failed)
		return -1;
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
	if (!n)
		return cpu_fail(be, "cannot allocate a tensor of %d x %d", (int)t->rows, (int)t->cols);
	t->data = mem_get(n, 1);
	if (!t->data)
		return cpu_fail(be, "cannot get %zu bytes of memory for a tensor of %d x %d", n, (int)t->rows, (int)t->cols);
	return 0;
}

struct pack_job {
	const struct cpu_fns *fns;
	const struct tensor *t;
	const uint8_t *host;
	size_t panel_bytes;
	int32_t panels, per_task;
};

static void pack_task(void *arg, int task, int worker)
{
	const struct pack_job *j = arg;
	const struct tensor *t = j->t;
	int32_t p1 = min32((task + 1) * j->per_task, j->panels);
	size_t rb = row_bytes(t);

	(void)worker;
	for (int32_t p = task * j->per_task; p < p1; p++) {
		int32_t r0 = p * j->fns->panel;

		j->fns->pack(t->type, (char *)t->data + (size_t)p * j->panel_bytes, j->host + (size_t)r0 * rb, rb,
		             min32(j->fns->panel, t->rows - r0), t->cols);
	}
}

int cpu_adopt(struct backend *be, struct tensor *t, const void *host, int as_table)
{
	struct cpu *c = cpu_of(be);
	size_t n = tensor_bytes(t), packed;

	if (be->failed)
		return -1;
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
	if (!n)
		return cpu_fail(be, "cannot take a weight of %d x %d", (int)t->rows, (int)t->cols);
	/* Float vectors (norm weights, biases) stay plain: they are read by element. */
	packed = as_table || (t->rows == 1 && dtype_info(t->type)->block == 1) ? 0 :
	         c->fns->pack_bytes(t->type, t->cols);
	if (packed) {
		struct pack_job j = { .fns = c->fns, .t = t, .host = host, .panel_bytes = packed };
		size_t total;

		j.panels = ceil_div(t->rows, c->fns->panel);
		j.per_task = ceil_div(j.panels, c->threads * 8);
		if (__builtin_mul_overflow(packed, (size_t)j.panels, &total) || !(t->data = mem_get(total, 0)))
			return cpu_fail(be, "cannot get %zu bytes of memory for a weight of %d x %d", n, (int)t->rows,
			            (int)t->cols);
		t->layout = LAYOUT_PACKED;
		pool_run(c->pool, pack_task, &j, ceil_div(j.panels, j.per_task));
		return 0;
	}
	/* Files may place a tensor at an odd address; leaf functions want natural alignment. */
	if ((uintptr_t)host % 4) {
		t->data = mem_get(n, 0);
		if (!t->data)
			return cpu_fail(be, "cannot get %zu bytes of memory for a weight of %d x %d", n, (int)t->rows,
			            (int)t->cols);
		memcpy(t->data, host, n);
		return 0;
	}
	/* Nobody writes through it: write() refuses this layout. */
	t->data = (void *)(uintptr_t)host;
	t->layout = LAYOUT_HOST;
	return 0;
}

void cpu_drop(struct backend *be, struct tensor *t)
{
	(void)be;
	if (t->layout != LAYOUT_HOST)
		cpu_mem_free(t->data);
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
}

static int range_ok(struct backend *be, const struct tensor *t, size_t off, size_t n)
{
	size_t size = tensor_bytes(t);

	if (t->data && t->layout != LAYOUT_PACKED && off <= size && n <= size - off)
		return 1;
	cpu_fail(be, "internal: bytes %zu + %zu are not within a plain tensor of %d x %d", off, n, (int)t->rows,
	     (int)t->cols);
	return 0;
}

void cpu_write(struct backend *be, struct tensor *t, size_t off, const void *src, size_t n)
{
	if (be->failed || !range_ok(be, t, off, n))
		return;
	if (t->layout == LAYOUT_HOST) {
		cpu_fail(be, "internal: write to a tensor that lies in the model file");
		return;
	}
	memcpy((char *)t->data + off, src, n);
}

void cpu_read(struct backend *be, const struct tensor *t, size_t off, void *dst, size_t n)
{
	if (!be->failed && range_ok(be, t, off, n))
		memcpy(dst, (const char *)t->data + off, n);
}
