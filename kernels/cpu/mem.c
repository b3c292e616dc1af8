/* kernels/cpu/mem.c - memory of the CPU backend: tensors, weights repacked for the instruction set, copies of rows.
 *
 * Decode reads all weights in order, and attention over selected slots reads the cache at random. With 4 KiB pages, TLB
 * misses make both several per cent slower. So weights share large chunks of memory, which can consist of huge pages;
 * KV planes share other chunks. A chunk is unmapped when its last block is dropped. Very large tensors, small tensors
 * and working buffers have memory of their own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"
#include "kernels/os.h"

#define HUGE_PAGE   ((size_t)2 << 20)
#define MAP_BYTES   ((size_t)1 << 20) /* blocks of this size or more are mapped; smaller blocks come from the heap */
#define CHUNK_BYTES ((size_t)32 << 20)
#define CHUNK_MOST  ((size_t)8 << 20) /* blocks of this size or more get a mapping of their own */
#define COPY_BYTES  ((size_t)1 << 20) /* number of bytes that one task copies */
/* Maximum number of bytes that one task packs. A weight's plain bytes are dropped from memory after packing. If a
 * weight is larger than this number, each task drops the bytes that it has packed, so that little of the weight is in
 * memory twice. A smaller weight is dropped as a whole, because each drop interrupts the other threads. */
#define PACK_BYTES  ((size_t)8 << 20)
#define PLANE_LEAST ((size_t)64 << 10) /* tensors of this size or more share chunks */
enum { COMMIT_PAGES = 4 };

/* Header of a chunk, a mapping that several weights or several KV planes share. */
struct cpu_chunk {
	size_t size, used;
	size_t committed; /* number of bytes whose pages are committed: a multiple of HUGE_PAGE, or the whole chunk */
	int blocks;       /* number of blocks that were not dropped yet */
};

/* Header in front of every block. It takes one cache line. */
struct mem_head {
	void *base;
	size_t mapped; /* size of the mapping in bytes; 0: the block is from the heap or a chunk */
	struct cpu_chunk *chunk;
	/* 1: the block is mapped from a file, and this header is in an additional page before the mapping */
	int in_file;
};
_Static_assert(sizeof(struct mem_head) <= 64, "a header takes one cache line");

static void *map_pages(size_t size)
{
	size_t extra = size >= HUGE_PAGE ? HUGE_PAGE : 0, head;
	char *p;

	p = mmap(NULL, size + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (extra) {
		head = -(uintptr_t)p & (HUGE_PAGE - 1);
		if (head)
			munmap(p, head);
		if (extra - head)
			munmap(p + head + size, extra - head);
		p += head;
		os_huge_pages(p, size);
	}
	return p;
}

struct commit_job {
	char *p;
	size_t size;
	_Atomic int failed;
};

/* Commit one huge page of the job. The job's last page may be shorter. */
static void commit_task(void *arg, int task, int worker)
{
	struct commit_job *j = arg;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), at = (size_t)task * HUGE_PAGE, n = MIN(HUGE_PAGE, j->size - at);
	char *p = j->p + at;

	(void)worker;
	if (!os_populate(p, n))
		return;
	if (errno == ENOMEM || errno == EFAULT) {
		j->failed = 1;
		return;
	}
	for (size_t i = 0; i < n; i += page)
		((volatile char *)p)[i] = ((volatile char *)p)[i];
}

/* Make the system allocate the pages of the `size` bytes at p now. These pages are still zero. Without this call, a
 * later access could fail, or wait in the middle of an answer. Clearing the pages takes most of the time, so all
 * threads do this. p is the beginning of a page. Return 0, or -1 if memory is short. */
static int commit_pages(struct cpu *c, char *p, size_t size)
{
	struct commit_job j = { .p = p, .size = size };

	pool_run(c->pool, commit_task, &j, (int)((size + HUGE_PAGE - 1) / HUGE_PAGE));
	return j.failed ? -1 : 0;
}

/* Return a 64-byte aligned block with memory of its own, or NULL. If `fresh` is 1, the block is zeroed and its pages
 * are committed. If `fresh` is 0, the contents of the block are undefined, for a caller that writes the whole block at
 * once. */
static void *mem_get(struct cpu *c, size_t size, int fresh)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), total;
	struct mem_head *h;
	char *base;

	if (size > SIZE_MAX / 2)
		return NULL;
	total = align64(size) + 64;
	if (total < MAP_BYTES) {
		base = aligned_alloc(64, total);
		if (!base)
			return NULL;
		if (fresh)
			memset(base, 0, total);
		h = (struct mem_head *)base;
		h->mapped = 0;
	} else {
		total = (total + page - 1) & ~(page - 1);
		base = map_pages(total);
		if (!base)
			return NULL;
		if (fresh && commit_pages(c, base, total) < 0) {
			munmap(base, total);
			return NULL;
		}
		h = (struct mem_head *)base;
		h->mapped = total;
	}
	h->base = base;
	h->chunk = NULL;
	h->in_file = 0;
	return base + 64;
}

/* Commit the first `end` bytes of a chunk. If some of these bytes are not committed yet, commit at least one huge page
 * per thread, so that all threads have work, but at most COMMIT_PAGES huge pages for this reason. Return 0, or -1 if
 * memory is short. */
static int chunk_commit(struct cpu *c, struct cpu_chunk *k, size_t end)
{
	size_t from = k->committed, to = MAX(end, from + (size_t)MIN(c->base.threads, COMMIT_PAGES) * HUGE_PAGE);

	if (end <= from)
		return 0;
	to = MIN((to + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1), k->size);
	if (commit_pages(c, (char *)k + from, to - from) < 0)
		return -1;
	k->committed = to;
	return 0;
}

/* Return a block as mem_get() does, but take a block of less than CHUNK_MOST bytes from *chunk, or from a new chunk if
 * *chunk is full. The memory of a chunk is always zero, because it is never reused. */
static void *chunk_get(struct cpu *c, struct cpu_chunk **chunk, size_t size, int fresh)
{
	struct cpu_chunk *k = *chunk;
	struct mem_head *h;

#ifdef __SANITIZE_ADDRESS__
	/* give each block memory of its own, so that AddressSanitizer finds accesses outside of the block */
	return mem_get(c, size, fresh);
#endif
	if (size >= CHUNK_MOST)
		return mem_get(c, size, fresh);
	size = align64(size) + 64;
	if (!k || size > k->size - k->used) {
		k = map_pages(CHUNK_BYTES);
		if (!k)
			return NULL;
		k->size = CHUNK_BYTES;
		k->used = 64;
		k->committed = 0;
		k->blocks = 0;
		*chunk = k;
	}
	if (fresh && chunk_commit(c, k, k->used + size) < 0)
		return NULL;
	h = (struct mem_head *)((char *)k + k->used);
	h->base = h;
	h->mapped = 0;
	h->in_file = 0;
	h->chunk = k;
	k->used += size;
	k->blocks++;
	return (char *)h + 64;
}

void cpu_mem_free(struct cpu *c, void *p)
{
	struct cpu_chunk *k;
	struct mem_head *h;

	if (!p)
		return;
	h = (struct mem_head *)((char *)p - 64);
	k = h->chunk;
	if (k) {
		if (--k->blocks > 0)
			return;
		if (c->weights == k)
			c->weights = NULL;
		if (c->planes == k)
			c->planes = NULL;
		munmap(k, k->size);
	} else if (h->mapped) {
		munmap(h->base, h->mapped);
	} else {
		free(h->base);
	}
}

int cpu_buffer_grow(struct cpu *c, struct buffer *b, size_t size)
{
	if (size <= b->size)
		return 0;
	size += size / 4;
	cpu_mem_free(c, b->p);
	b->size = 0;
	b->p = mem_get(c, size, 1);
	if (!b->p)
		return backend_fail(&c->base, "cannot get %zu bytes of memory for working buffers", size);
	b->size = size;
	return 0;
}

/* Return the size of a tensor in bytes, or 0 if its shape is invalid. */
static size_t tensor_bytes(const struct tensor *t)
{
	size_t n;

	if ((unsigned)t->type >= DT_ALL || t->rows <= 0 || t->cols <= 0 || t->cols % dtype_info(t->type)->block)
		return 0;
	if (__builtin_mul_overflow(row_bytes(t), (size_t)t->rows, &n))
		return 0;
	return n;
}

static int no_memory(struct backend *be, size_t n, const struct tensor *t)
{
	return backend_fail(be, "cannot get %zu bytes of memory for a tensor of %d x %d", n, (int)t->rows,
	                    (int)t->cols);
}

int cpu_alloc(struct backend *be, struct tensor *t)
{
	struct cpu *c = cpu_of(be);
	size_t n = tensor_bytes(t);

	if (be->failed)
		return -1;
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
	if (!n)
		return backend_fail(be, "cannot allocate a tensor of %d x %d", (int)t->rows, (int)t->cols);
	t->data = n < PLANE_LEAST ? mem_get(c, n, 1) : chunk_get(c, &c->planes, n, 1);
	return t->data ? 0 : no_memory(be, n, t);
}

int cpu_alloc_file(struct backend *be, struct tensor *t, int fd, uint64_t off)
{
	size_t n = tensor_bytes(t), page = (size_t)sysconf(_SC_PAGESIZE);
	struct mem_head *h;
	char *base;

	if (be->failed)
		return -1;
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
	if (!n || off % FILE_ALIGN)
		return backend_fail(be, "cannot map a tensor of %d x %d", (int)t->rows, (int)t->cols);
	/* Reserve one page more than the tensor needs: struct mem_head is at the end of this page, before the pages of
	 * the file. */
	base = mmap(NULL, n + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return no_memory(be, n, t);
	if (mmap(base + page, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)off) == MAP_FAILED) {
		backend_fail(be, "cannot map %zu bytes of a file: %s", n, strerror(errno));
		munmap(base, n + page);
		return -1;
	}
	/* Selected slots are spread over the keys and values: do not let the system read neighbouring pages. */
	madvise(base + page, n, MADV_RANDOM);
	t->data = base + page;
	h = (struct mem_head *)((char *)t->data - 64);
	*h = (struct mem_head){ .base = base, .mapped = n + page, .in_file = 1 };
	return 0;
}

void cpu_give_back(struct backend *be, const struct tensor *t, size_t off, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = tensor_bytes(t), from = off & ~(page - 1);

	(void)be;
	if (!t->data || !((const struct mem_head *)((const char *)t->data - 64))->in_file || off > size ||
	    n > size - off)
		return;
	/* The mapping is shared, so nothing is lost: the page cache keeps changed pages until they are written to
	 * the file. */
	madvise((char *)t->data + from, off + n - from, MADV_DONTNEED);
}

struct pack_job {
	const struct cpu_fns *fns;
	const struct tensor *t;
	const uint8_t *host;
	const struct backend *be;
	size_t panel_bytes;
	int32_t panels, per_task;
	int drops; /* 1: a task informs the engine which bytes of the model file it has packed (backend.host_read) */
};

static void pack_task(void *arg, int task, int worker)
{
	const struct pack_job *j = arg;
	const struct tensor *t = j->t;
	int32_t p1 = MIN((task + 1) * j->per_task, j->panels);
	size_t rb = row_bytes(t);

	(void)worker;
	for (int32_t p = task * j->per_task; p < p1; p++) {
		int32_t r0 = p * j->fns->panel;

		j->fns->pack(t->type, (char *)t->data + (size_t)p * j->panel_bytes, j->host + (size_t)r0 * rb, rb,
		             MIN(j->fns->panel, t->rows - r0), t->cols);
	}
	if (j->drops) {
		int32_t r0 = task * j->per_task * j->fns->panel, r1 = MIN(p1 * j->fns->panel, t->rows);

		j->be->host_read(j->host + (size_t)r0 * rb, (size_t)(r1 - r0) * rb, j->be->host_read_ud);
	}
}

struct copy_job {
	char *to;
	const char *from;
	size_t n;
	const struct backend *be;
};

static void copy_task(void *arg, int task, int worker)
{
	const struct copy_job *j = arg;
	size_t at = (size_t)task * COPY_BYTES, n = j->n - at < COPY_BYTES ? j->n - at : COPY_BYTES;

	(void)worker;
	memcpy(j->to + at, j->from + at, n);
	if (j->be->host_read)
		j->be->host_read(j->from + at, n, j->be->host_read_ud);
}

/* Copy a weight's plain rows into anonymous memory with huge pages, or return NULL. The mapped file has pages of 4 KiB.
 * Each of these pages costs a TLB miss, and the hardware prefetcher stops at the end of a page. */
static void *copy_weight(struct cpu *c, const void *host, size_t n)
{
	struct copy_job j = { .to = chunk_get(c, &c->weights, n, 0), .from = host, .n = n, .be = &c->base };

	if (j.to)
		pool_run(c->pool, copy_task, &j, (int)((n + COPY_BYTES - 1) / COPY_BYTES));
	return j.to;
}

int cpu_load_weight(struct backend *be, struct tensor *t, const void *host, int as_table)
{
	struct cpu *c = cpu_of(be);
	size_t n = tensor_bytes(t), packed, total;
	void *copy = NULL;

	if (be->failed)
		return -1;
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
	if (!n || t->type >= DT_COUNT)
		return backend_fail(be, "cannot take a weight of %d x %d", (int)t->rows, (int)t->cols);
	/* Some files place a tensor at an odd address, but leaf functions need natural alignment. */
	if ((uintptr_t)host % 4) {
		copy = mem_get(c, n, 0);
		if (!copy)
			return no_memory(be, n, t);
		host = memcpy(copy, host, n);
	}
	/* Float vectors (norm weights, biases) are not packed: operations read their elements directly. */
	packed = as_table || (t->rows == 1 && dtype_info(t->type)->block == 1) ? 0
	                                                                       : c->fns->pack_bytes(t->type, t->cols);
	if (packed) {
		struct pack_job j = { .fns = c->fns, .t = t, .host = host, .be = be, .panel_bytes = packed };

		j.panels = ceil_div(t->rows, c->fns->panel);
		j.per_task = MIN(ceil_div(j.panels, c->base.threads * 8), (int32_t)(1 + PACK_BYTES / packed));
		j.drops = be->host_read && n > PACK_BYTES;
		if (!__builtin_mul_overflow(packed, (size_t)j.panels, &total))
			t->data = chunk_get(c, &c->weights, total, 0);
		if (t->data) {
			t->layout = LAYOUT_PACKED;
			pool_run(c->pool, pack_task, &j, ceil_div(j.panels, j.per_task));
			if (be->host_read)
				be->host_read(host, n, be->host_read_ud);
		}
		cpu_mem_free(c, copy);
		return t->data ? 0 : no_memory(be, n, t);
	}
	if (!copy && !as_table && t->rows > 1)
		copy = copy_weight(c, host, n);
	if (copy)
		host = copy;
	/* The cast drops const; write() refuses LAYOUT_HOST. */
	t->data = (void *)(uintptr_t)host;
	t->layout = copy ? LAYOUT_PLAIN : LAYOUT_HOST;
	return 0;
}

void cpu_drop(struct backend *be, struct tensor *t)
{
	if (t->layout != LAYOUT_HOST)
		cpu_mem_free(cpu_of(be), t->data);
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
}

static int range_ok(struct backend *be, const struct tensor *t, size_t off, size_t n)
{
	size_t size = tensor_bytes(t);

	if (t->data && t->layout != LAYOUT_PACKED && off <= size && n <= size - off)
		return 1;
	backend_fail(be, "internal: bytes %zu + %zu are not within a plain tensor of %d x %d", off, n, (int)t->rows,
	             (int)t->cols);
	return 0;
}

void cpu_write(struct backend *be, struct tensor *t, size_t off, const void *src, size_t n)
{
	if (be->failed || !range_ok(be, t, off, n))
		return;
	if (t->layout == LAYOUT_HOST) {
		backend_fail(be, "internal: write to a tensor that lies in the model file");
		return;
	}
	memcpy((char *)t->data + off, src, n);
}

void cpu_read(struct backend *be, const struct tensor *t, size_t off, void *dst, size_t n)
{
	if (!be->failed && range_ok(be, t, off, n))
		memcpy(dst, (const char *)t->data + off, n);
}

void cpu_copy(struct backend *be, struct tensor *dst, int32_t dst_row, const struct tensor *src, int32_t src_row,
              int32_t n)
{
	size_t row = (size_t)src->cols * sizeof(float);

	if (be->failed || n < 1 || copy_check(be, dst, dst_row, src, src_row, n) < 0)
		return;
	memmove((char *)dst->data + (size_t)dst_row * row, (const char *)src->data + (size_t)src_row * row,
	        (size_t)n * row);
}

void cpu_columns(struct backend *be, struct tensor *out, const struct tensor *src, const int32_t *col, int32_t n)
{
	const float *from = src->data;
	float *to = out->data;

	if (be->failed || n < 1 || columns_check(be, out, src, n) < 0)
		return;
	/* Copy row by row, because the values of a row are close to each other in memory. */
	for (int32_t r = 0; r < src->rows; r++, from += src->cols)
		for (int32_t i = 0; i < n; i++)
			to[(size_t)i * (size_t)out->cols + (size_t)r] = from[col[i]];
}
