/* kernels/cpu.c - the CPU backend: memory, shapes, splitting over threads, epilogues.
 *
 * Arithmetic is in the leaf functions of the chosen level (cpu_fns.h).  This file decides which thread computes what,
 * under one rule: work is split by outputs (rows, columns, spans of keys merged in ascending order) and never
 * inside a sum, so that a result does not depend on the number of threads, on the tiles, or on how many tokens
 * one call carries.
 *
 * Decoding is a chain of short operations.  Those that cost less than waking a thread (norms, rotations, cache
 * writes of one token) run on the caller; the products and long attention are handed to the pool. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/backend.h"
#include "kernels/cpu_fns.h"
#include "kernels/cpu_pool.h"

enum { LAYOUT_PLAIN, LAYOUT_PACKED, LAYOUT_HOST };

enum {
	MAX_PARTS = 8,               /* products of one hand-over */
	COL_STEP = 128,              /* columns per leaf call: results stay in the first cache level */
	ACT_BYTES = 256 << 10,       /* activations of one column tile: half of a small second level */
	TASK_BYTES = 24 << 10,       /* weights x columns below which splitting does not pay */
	SMALL_ROWS = 32 << 10,       /* values that one thread handles faster than two */
	SMALL_ATTN = 64 << 10,       /* the same for attention, multiply-adds */
	TILE_QUERIES = 48,           /* (token, head) pairs of one attention tile */
	STATE_BYTES = 64 << 20,      /* most memory for partial attention states */
	MAP_BYTES = 1 << 20,         /* allocations from here on are mapped */
	HUGE_PAGE = 2 << 20,
};

struct buffer { void *p; size_t size; };

struct cpu {
	struct backend base;
	const struct cpu_fns *fns;
	struct pool *pool;
	int threads;
	struct buffer act;           /* quantised inputs */
	struct buffer scratch;       /* one part per thread */
	struct buffer state;         /* partial attention */
};

static struct cpu *cpu_of(struct backend *be)
{
	return (struct cpu *)be;     /* base is the first member */
}

static int fail(struct backend *be, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct backend *be, const char *fmt, ...)
{
	va_list ap;

	if (be->failed)
		return -1;
	be->failed = 1;
	va_start(ap, fmt);
	vsnprintf(be->err, sizeof be->err, fmt, ap);
	va_end(ap);
	return -1;
}

static int cancelled(const struct cpu *c)
{
	return c->base.cancel && atomic_load_explicit(c->base.cancel, memory_order_relaxed) != 0;
}

static int32_t min32(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

static int32_t ceil_div(int32_t a, int32_t b)
{
	return a / b + (a % b != 0);
}

static size_t align64(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

/* ---- memory ---- */

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

static void mem_free(void *p)
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

/* Make room; old contents are lost.  0, or -1 with the error set. */
static int buffer_grow(struct cpu *c, struct buffer *b, size_t size)
{
	if (size <= b->size)
		return 0;
	size += size / 4;
	mem_free(b->p);
	b->size = 0;
	b->p = mem_get(size, 1);
	if (!b->p)
		return fail(&c->base, "cannot get %zu bytes of memory for working buffers", size);
	b->size = size;
	return 0;
}

static size_t row_bytes(const struct tensor *t)
{
	return (size_t)dtype_bytes(t->type, (uint64_t)t->cols);
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

static int cpu_alloc(struct backend *be, struct tensor *t)
{
	size_t n = tensor_bytes(t);

	if (be->failed)
		return -1;
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
	if (!n)
		return fail(be, "cannot allocate a tensor of %d x %d", (int)t->rows, (int)t->cols);
	t->data = mem_get(n, 1);
	if (!t->data)
		return fail(be, "cannot get %zu bytes of memory for a tensor of %d x %d", n, (int)t->rows, (int)t->cols);
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

static int cpu_adopt(struct backend *be, struct tensor *t, const void *host, int as_table)
{
	struct cpu *c = cpu_of(be);
	size_t n = tensor_bytes(t), packed;

	if (be->failed)
		return -1;
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
	if (!n)
		return fail(be, "cannot take a weight of %d x %d", (int)t->rows, (int)t->cols);
	/* Float vectors (norm weights, biases) stay plain: they are read by element. */
	packed = as_table || (t->rows == 1 && dtype_info(t->type)->block == 1) ? 0 :
	         c->fns->pack_bytes(t->type, t->cols);
	if (packed) {
		struct pack_job j = { .fns = c->fns, .t = t, .host = host, .panel_bytes = packed };
		size_t total;

		j.panels = ceil_div(t->rows, c->fns->panel);
		j.per_task = ceil_div(j.panels, c->threads * 8);
		if (__builtin_mul_overflow(packed, (size_t)j.panels, &total) || !(t->data = mem_get(total, 0)))
			return fail(be, "cannot get %zu bytes of memory for a weight of %d x %d", n, (int)t->rows,
			            (int)t->cols);
		t->layout = LAYOUT_PACKED;
		pool_run(c->pool, pack_task, &j, ceil_div(j.panels, j.per_task));
		return 0;
	}
	/* Files may place a tensor at an odd address; leaf functions want natural alignment. */
	if ((uintptr_t)host % 4) {
		t->data = mem_get(n, 0);
		if (!t->data)
			return fail(be, "cannot get %zu bytes of memory for a weight of %d x %d", n, (int)t->rows,
			            (int)t->cols);
		memcpy(t->data, host, n);
		return 0;
	}
	/* Nobody writes through it: write() refuses this layout. */
	t->data = (void *)(uintptr_t)host;
	t->layout = LAYOUT_HOST;
	return 0;
}

static void cpu_drop(struct backend *be, struct tensor *t)
{
	(void)be;
	if (t->layout != LAYOUT_HOST)
		mem_free(t->data);
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
}

static int range_ok(struct backend *be, const struct tensor *t, size_t off, size_t n)
{
	size_t size = tensor_bytes(t);

	if (t->data && t->layout != LAYOUT_PACKED && off <= size && n <= size - off)
		return 1;
	fail(be, "internal: bytes %zu + %zu are not within a plain tensor of %d x %d", off, n, (int)t->rows,
	     (int)t->cols);
	return 0;
}

static void cpu_write(struct backend *be, struct tensor *t, size_t off, const void *src, size_t n)
{
	if (be->failed || !range_ok(be, t, off, n))
		return;
	if (t->layout == LAYOUT_HOST) {
		fail(be, "internal: write to a tensor that lies in the model file");
		return;
	}
	memcpy((char *)t->data + off, src, n);
}

static void cpu_read(struct backend *be, const struct tensor *t, size_t off, void *dst, size_t n)
{
	if (!be->failed && range_ok(be, t, off, n))
		memcpy(dst, (const char *)t->data + off, n);
}

static int cpu_sync(struct backend *be)
{
	return be->failed ? -1 : 0;
}

/* ---- operations on rows ---- */

/* An f32 operand with at least n rows (and `cols` columns unless 0); sets the error otherwise. */
static float *rows_of(struct backend *be, const struct tensor *t, int32_t n, int32_t cols, const char *op)
{
	if (t && t->data && t->type == DT_F32 && t->layout != LAYOUT_PACKED && n >= 0 && n <= t->rows &&
	    (!cols || t->cols == cols))
		return t->data;
	fail(be, "internal: %s got an operand of the wrong shape", op);
	return NULL;
}

struct row_job {
	struct cpu *c;
	float *out;
	const float *x, *w;
	const struct tensor *table;
	const int32_t *id;
	int32_t n, cols, per_task;
	int32_t group, heads, head_dim, dims, neox, cap, row0;
	float eps;
	void *plane;
	enum dtype type;
	struct act *act;
};

/* Run a row-wise job: on the caller when it is small, else in tasks of a few rows. */
static void run_rows(struct row_job *j, pool_fn *fn)
{
	if ((int64_t)j->n * j->cols <= SMALL_ROWS || j->n == 1) {
		j->per_task = j->n;
		if (j->n > 0)
			fn(j, 0, 0);
		return;
	}
	j->per_task = ceil_div(j->n, j->c->threads * 4);
	pool_run(j->c->pool, fn, j, ceil_div(j->n, j->per_task));
}

#define FOR_TASK_ROWS(i, j, task) \
	for (int32_t i = (task) * (j)->per_task, end_ = min32(i + (j)->per_task, (j)->n); i < end_; i++)

static void embed_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;
	size_t rb = row_bytes(j->table);

	(void)worker;
	FOR_TASK_ROWS(i, j, task)
		dtype_to_f32(j->table->type, j->out + (size_t)i * (size_t)j->cols,
		             (const char *)j->table->data + (size_t)j->id[i] * rb, j->cols);
}

static void cpu_embed(struct backend *be, struct tensor *out, const struct tensor *table, const int32_t *id,
                      int32_t n)
{
	struct row_job j = { .c = cpu_of(be), .table = table, .id = id, .n = n, .cols = table->cols };

	if (be->failed || !(j.out = rows_of(be, out, n, table->cols, "embed")))
		return;
	if (table->layout == LAYOUT_PACKED) {
		fail(be, "internal: embed got a repacked table");
		return;
	}
	for (int32_t i = 0; i < n; i++)
		if (id[i] < 0 || id[i] >= table->rows) {
			fail(be, "token id %d is not within a vocabulary of %d", (int)id[i], (int)table->rows);
			return;
		}
	run_rows(&j, embed_task);
}

static void rmsnorm_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;

	(void)worker;
	FOR_TASK_ROWS(i, j, task)
		for (int32_t g = 0; g < j->cols; g += j->group) {
			size_t at = (size_t)i * (size_t)j->cols + (size_t)g;

			j->c->fns->rmsnorm(j->out + at, j->x + at, j->w, j->group, j->eps);
		}
}

static void cpu_rmsnorm(struct backend *be, struct tensor *out, const struct tensor *x, const struct tensor *w,
                        int32_t group, float eps, int32_t n)
{
	struct row_job j = { .c = cpu_of(be), .n = n, .cols = x->cols, .group = group, .eps = eps };

	if (be->failed || !(j.x = rows_of(be, x, n, 0, "rmsnorm")) ||
	    !(j.out = rows_of(be, out, n, x->cols, "rmsnorm")) || !(j.w = rows_of(be, w, 1, group, "rmsnorm")))
		return;
	if (group <= 0 || x->cols % group) {
		fail(be, "internal: rmsnorm got %d columns in groups of %d", (int)x->cols, (int)group);
		return;
	}
	run_rows(&j, rmsnorm_task);
}

static void rope_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;

	(void)worker;
	FOR_TASK_ROWS(i, j, task)
		j->c->fns->rope(j->out + (size_t)i * (size_t)j->cols, j->x + (size_t)i * (size_t)j->dims, j->heads,
		                j->head_dim, j->dims, j->neox);
}

static void cpu_rope(struct backend *be, struct tensor *x, const struct tensor *table, int32_t head_dim,
                     int32_t dims, int neox, int32_t n)
{
	struct row_job j = { .c = cpu_of(be), .n = n, .cols = x->cols, .head_dim = head_dim, .dims = dims, .neox = neox };

	if (be->failed || !(j.out = rows_of(be, x, n, 0, "rope")) || !(j.x = rows_of(be, table, n, dims, "rope")))
		return;
	if (head_dim <= 0 || x->cols % head_dim || dims > head_dim || dims % 2) {
		fail(be, "internal: rope got %d columns, heads of %d, %d of them rotated", (int)x->cols, (int)head_dim,
		     (int)dims);
		return;
	}
	j.heads = x->cols / head_dim;
	run_rows(&j, rope_task);
}

static void kv_put_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;
	size_t dim = (size_t)j->head_dim;

	(void)worker;
	FOR_TASK_ROWS(i, j, task)
		for (int32_t h = 0; h < j->heads; h++) {
			size_t at = ((size_t)h * (size_t)j->cap + (size_t)j->row0 + (size_t)i) * dim;
			const float *x = j->x + (size_t)i * (size_t)j->cols + (size_t)h * dim;

			if (j->type == DT_F32)
				memcpy((float *)j->plane + at, x, dim * sizeof *x);
			else
				j->c->fns->to_f16((uint16_t *)j->plane + at, x, j->head_dim);
		}
}

static void cpu_kv_put(struct backend *be, struct tensor *plane, const struct tensor *x, int32_t n_kv_head,
                       int32_t row0, int32_t n)
{
	struct row_job j = { .c = cpu_of(be), .n = n, .cols = x->cols, .heads = n_kv_head, .row0 = row0,
	                     .plane = plane->data, .type = plane->type, .head_dim = plane->cols };

	if (be->failed || !(j.x = rows_of(be, x, n, 0, "kv_put")))
		return;
	if (!plane->data || (plane->type != DT_F16 && plane->type != DT_F32) || n_kv_head <= 0 ||
	    plane->rows % n_kv_head || (int64_t)n_kv_head * plane->cols != x->cols) {
		fail(be, "internal: kv_put got a plane of the wrong shape");
		return;
	}
	j.cap = plane->rows / n_kv_head;
	if (row0 < 0 || n > j.cap - row0) {
		fail(be, "internal: rows %d + %d do not fit a cache of %d", (int)row0, (int)n, (int)j.cap);
		return;
	}
	run_rows(&j, kv_put_task);
}

/* ---- products ---- */

static void quantize_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;
	struct act *a = j->act;
	size_t cols = (size_t)j->cols;

	(void)worker;
	FOR_TASK_ROWS(i, j, task)
		j->c->fns->quantize(a->q + (size_t)i * cols, a->d + (size_t)i * (cols / 32),
		                    a->sum + (size_t)i * (cols / 16), a->x + (size_t)i * cols, j->cols);
}

/* Fill in the quantised form of a->x. */
static int act_quantize(struct cpu *c, struct act *a)
{
	struct row_job j = { .c = c, .n = a->n, .cols = a->cols, .act = a };
	size_t values = (size_t)a->n * (size_t)a->cols;
	size_t q = align64(values), d = align64(values / 32 * sizeof(float)), s = align64(values / 16 * sizeof(int32_t));

	if (a->cols % 32)
		return fail(&c->base, "internal: %d columns are not whole blocks of 32", (int)a->cols);
	if (buffer_grow(c, &c->act, q + d + s) < 0)
		return -1;
	a->q = c->act.p;
	a->d = (float *)((char *)c->act.p + q);
	a->sum = (int32_t *)((char *)c->act.p + q + d);
	run_rows(&j, quantize_task);
	return 0;
}

struct weight {
	const uint8_t *data;
	enum dtype type;
	int packed;
	size_t row_bytes, panel_bytes;
};

struct part {                    /* one product, or the two of a gated unit */
	struct weight w, up;
	float *out;
	const float *bias;
	int accumulate;
	int32_t rows, panels;
};

struct product_job {
	struct cpu *c;
	struct act x;
	struct part part[MAX_PARTS];
	int n_parts, glu;
	int32_t panels;              /* of all parts */
	int32_t panel_tasks;         /* ranges of panels */
	int32_t col_tile, col_tiles;
	size_t tile_floats;          /* result tile, per thread */
};

/* Columns from c0: leaves always start at column 0. */
static struct act act_from(const struct act *a, int32_t c0, int32_t n)
{
	struct act v = *a;
	size_t i = (size_t)c0, cols = (size_t)a->cols;

	v.x += i * cols;
	if (v.q) {
		v.q += i * cols;
		v.d += i * (cols / 32);
		v.sum += i * (cols / 16);
	}
	v.n = n;
	return v;
}

static void weight_times(const struct cpu_fns *f, const struct weight *w, int32_t panel, int32_t n_rows,
                         const struct act *x, float *tile)
{
	if (w->packed)
		f->matmul_panel(w->type, w->data + (size_t)panel * w->panel_bytes, x, 0, x->n, tile, f->panel);
	else
		f->matmul_rows(w->type, w->data + (size_t)panel * (size_t)f->panel * w->row_bytes, w->row_bytes, n_rows,
		               x, 0, x->n, tile, f->panel);
}

/* Move a tile [n][panel] into the output rows. */
static void store_tile(const struct part *p, const float *tile, int32_t panel, int32_t r0, int32_t nr, int32_t c0,
                       int32_t n)
{
	for (int32_t c = 0; c < n; c++, tile += panel) {
		float *out = p->out + (size_t)(c0 + c) * (size_t)p->rows + r0;

		if (p->bias && p->accumulate)
			for (int32_t r = 0; r < nr; r++)
				out[r] += tile[r] + p->bias[r0 + r];
		else if (p->bias)
			for (int32_t r = 0; r < nr; r++)
				out[r] = tile[r] + p->bias[r0 + r];
		else if (p->accumulate)
			for (int32_t r = 0; r < nr; r++)
				out[r] += tile[r];
		else
			memcpy(out, tile, (size_t)nr * sizeof *out);
	}
}

static void product_task(void *arg, int task, int worker)
{
	const struct product_job *j = arg;
	const struct cpu_fns *f = j->c->fns;
	int32_t range = task % j->panel_tasks, panel = f->panel;
	int32_t c0 = task / j->panel_tasks * j->col_tile, c1 = min32(c0 + j->col_tile, j->x.n);
	int32_t p = (int32_t)((int64_t)j->panels * range / j->panel_tasks);
	int32_t left = (int32_t)((int64_t)j->panels * (range + 1) / j->panel_tasks) - p;
	float *tile = (float *)j->c->scratch.p + (size_t)worker * j->tile_floats;
	float *tile_up = tile + (size_t)panel * COL_STEP;
	const struct part *part = j->part;

	for (; left > 0; left--, p++) {
		int32_t r0, nr;

		while (p >= part->panels) {
			p -= part->panels;
			part++;
		}
		r0 = p * panel;
		nr = min32(panel, part->rows - r0);
		for (int32_t c = c0; c < c1; c += COL_STEP) {
			struct act x = act_from(&j->x, c, min32(COL_STEP, c1 - c));

			if (cancelled(j->c))
				return;
			weight_times(f, &part->w, p, nr, &x, tile);
			if (j->glu) {
				weight_times(f, &part->up, p, nr, &x, tile_up);
				/* Whole panels, so that the level never takes its tail path. */
				f->silu_mul(tile, tile_up, x.n * panel);
			}
			store_tile(part, tile, panel, r0, nr, c, x.n);
		}
	}
}

static int weight_set(struct cpu *c, struct weight *w, const struct tensor *t, const struct tensor *x)
{
	if (!t || !t->data || t->cols != x->cols)
		return fail(&c->base, "internal: matmul got a weight of the wrong shape");
	w->data = t->data;
	w->type = t->type;
	w->packed = t->layout == LAYOUT_PACKED;
	w->row_bytes = row_bytes(t);
	w->panel_bytes = w->packed ? c->fns->pack_bytes(t->type, t->cols) : w->row_bytes * (size_t)c->fns->panel;
	return 0;
}

/* Choose tiles for the parts and run them. */
static void product_run(struct product_job *j)
{
	struct cpu *c = j->c;
	int32_t n = j->x.n, tasks, room;
	size_t column;
	double work = 0;
	int q8 = 0, f32 = 0;

	j->panels = 0;
	for (int i = 0; i < j->n_parts; i++) {
		struct part *p = &j->part[i];

		p->panels = ceil_div(p->rows, c->fns->panel);
		j->panels += p->panels;
		work += (double)p->panels * (double)(p->w.panel_bytes + (j->glu ? p->up.panel_bytes : 0)) * n;
		*(c->fns->wants_q8(p->w.type) ? &q8 : &f32) = 1;
		if (j->glu)
			*(c->fns->wants_q8(p->up.type) ? &q8 : &f32) = 1;
	}
	if (q8 && !j->x.q && act_quantize(c, &j->x) < 0)
		return;
	j->tile_floats = (size_t)c->fns->panel * COL_STEP * (j->glu ? 2 : 1);
	if (buffer_grow(c, &c->scratch, j->tile_floats * sizeof(float) * (size_t)c->threads) < 0)
		return;

	/* Column tiles of equal size whose activations stay in the second cache level. */
	column = (size_t)j->x.cols * (f32 ? 4 : 1) + (q8 ? (size_t)j->x.cols * 3 / 8 : 0);
	room = (int32_t)(ACT_BYTES / column);
	if (room < 16)
		room = 16;
	j->col_tiles = ceil_div(n, room);
	j->col_tile = ceil_div(ceil_div(n, j->col_tiles), 16) * 16;
	j->col_tiles = ceil_div(n, j->col_tile);

	/* A few tasks per thread let a thread that was held up hand over its share. */
	tasks = c->threads * (n == 1 ? 4 : 8);
	if (work / TASK_BYTES < tasks)
		tasks = (int32_t)(work / TASK_BYTES) + 1;
	j->panel_tasks = min32(ceil_div(tasks, j->col_tiles), j->panels);
	if (c->threads == 1)
		j->panel_tasks = 1;
	pool_run(c->pool, product_task, j, j->panel_tasks * j->col_tiles);
}

static void cpu_matmul(struct backend *be, const struct matmul *m, int32_t n_m, const struct tensor *x, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct product_job j;

	if (be->failed || n <= 0 || n_m <= 0 || cancelled(c))
		return;
	j.c = c;
	j.glu = 0;
	j.x = (struct act){ .x = rows_of(be, x, n, 0, "matmul"), .n = n, .cols = x->cols };
	if (!j.x.x)
		return;
	for (int32_t i = 0; i < n_m; ) {
		for (j.n_parts = 0; i < n_m && j.n_parts < MAX_PARTS; i++) {
			struct part *p = &j.part[j.n_parts++];

			if (weight_set(c, &p->w, m[i].w, x) < 0)
				return;
			p->rows = m[i].w->rows;
			p->accumulate = m[i].accumulate;
			p->bias = NULL;
			p->out = rows_of(be, m[i].out, n, p->rows, "matmul");
			if (m[i].bias)
				p->bias = rows_of(be, m[i].bias, 1, p->rows, "matmul");
			if (be->failed)
				return;
		}
		product_run(&j);
	}
}

static void cpu_matmul_glu(struct backend *be, struct tensor *out, const struct tensor *gate, const struct tensor *up,
                           const struct tensor *x, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct product_job j;
	struct part *p = &j.part[0];

	if (be->failed || n <= 0 || cancelled(c))
		return;
	j.c = c;
	j.glu = 1;
	j.n_parts = 1;
	j.x = (struct act){ .x = rows_of(be, x, n, 0, "matmul_glu"), .n = n, .cols = x->cols };
	if (!j.x.x || weight_set(c, &p->w, gate, x) < 0 || weight_set(c, &p->up, up, x) < 0)
		return;
	if (gate->rows != up->rows) {
		fail(be, "internal: matmul_glu got gate and up of different shapes");
		return;
	}
	p->rows = gate->rows;
	p->bias = NULL;
	p->accumulate = 0;
	p->out = rows_of(be, out, n, p->rows, "matmul_glu");
	if (p->out)
		product_run(&j);
}

/* ---- attention ---- */

/* Units of work: (KV head, tile of tokens), or with few of these (decoding) also one span of keys, whose partial states
 * are merged by whoever finishes the last span.  Both ways do the same merges in the same order. */
struct attn_job {
	struct cpu *c;
	const struct attn_args *a;
	const float *q;
	float *out;
	int32_t n, group, tokens, tiles, spans;
	int32_t n_q;                 /* most queries of a tile */
	size_t row_bytes;            /* of a K or V row */
	size_t part_bytes;           /* scratch of one thread */
	/* Split over spans: */
	struct attn_state *st;       /* [tile][head][span][n_q] */
	float *acc;                  /* the same x head_dim */
	_Atomic int32_t *left;       /* [tile][head]: spans to go */
};

/* One thread's working memory, cut from its part of the scratch buffer. */
struct attn_mem {
	const float **q;
	int32_t *limit;
	struct attn_state *run, *add;
	float *leaf;
};

static size_t attn_mem_cut(char *base, struct attn_mem *m, const struct cpu_fns *f, int32_t n_q, int32_t dim)
{
	size_t at = 0, n = (size_t)n_q, acc = align64(n * (size_t)dim * sizeof(float));
	size_t q = at, limit = q + align64(n * sizeof *m->q), st = limit + align64(n * sizeof *m->limit);
	size_t sums = st + align64(2 * n * sizeof *m->run), leaf = sums + 2 * acc;

	if (base) {
		m->q = (const float **)(base + q);
		m->limit = (int32_t *)(base + limit);
		m->run = (struct attn_state *)(base + st);
		m->add = m->run + n;
		for (size_t i = 0; i < n; i++) {
			m->run[i].acc = (float *)(base + sums) + i * (size_t)dim;
			m->add[i].acc = (float *)(base + sums + acc) + i * (size_t)dim;
		}
		m->leaf = (float *)(base + leaf);
	}
	return leaf + align64(f->attn_scratch(dim, n_q) * sizeof(float));
}

/* Queries of one tile and head; returns their number. */
static int32_t attn_queries(const struct attn_job *j, int32_t tile, int32_t head, struct attn_mem *m)
{
	int32_t t0 = tile * j->tokens, t1 = min32(t0 + j->tokens, j->n), n_q = 0;
	size_t dim = (size_t)j->a->head_dim;

	for (int32_t i = t0; i < t1; i++)
		for (int32_t g = 0; g < j->group; g++) {
			size_t h = (size_t)head * (size_t)j->group + (size_t)g;

			m->q[n_q] = j->q + ((size_t)i * (size_t)j->a->n_head + h) * dim;
			m->limit[n_q++] = j->a->n_past + i + 1;
		}
	return n_q;
}

/* Run one span for the queries that see it; returns the first of them. */
static int32_t attn_span(const struct attn_job *j, int32_t head, int32_t span, const struct attn_mem *m, int32_t n_q,
                         struct attn_state *st)
{
	const struct attn_args *a = j->a;
	size_t plane = (size_t)head * (size_t)a->cap * j->row_bytes;
	struct attn_tile t = {
		.head_dim = a->head_dim, .kv_type = a->k->type, .scale = a->scale, .scratch = m->leaf,
		.k = (const char *)a->k->data + plane, .v = (const char *)a->v->data + plane,
		.k0 = span * ATTN_SPAN,
	};
	int32_t q0 = 0;

	t.k1 = min32(t.k0 + ATTN_SPAN, m->limit[n_q - 1]);
	while (q0 < n_q && m->limit[q0] <= t.k0)
		q0++;
	for (int32_t r = q0; r < n_q; r++) {
		st[r].m = -INFINITY;
		st[r].l = 0;
		memset(st[r].acc, 0, (size_t)a->head_dim * sizeof(float));
	}
	t.q = m->q + q0;
	t.limit = m->limit + q0;
	t.st = st + q0;
	t.n_q = n_q - q0;
	if (t.n_q > 0)
		j->c->fns->attn(&t);
	return q0;
}

static void attn_finish(const struct attn_job *j, int32_t tile, int32_t head, int32_t query,
                        const struct attn_state *st)
{
	int32_t dim = j->a->head_dim, token = tile * j->tokens + query / j->group;
	size_t h = (size_t)head * (size_t)j->group + (size_t)(query % j->group);
	float *out = j->out + ((size_t)token * (size_t)j->a->n_head + h) * (size_t)dim, inv = 1.0f / st->l;

	for (int32_t d = 0; d < dim; d++)
		out[d] = st->acc[d] * inv;
}

static void attn_tile_task(void *arg, int task, int worker)
{
	const struct attn_job *j = arg;
	/* Late tiles see more keys: start with the longest. */
	int32_t tile = j->tiles - 1 - task / j->a->n_kv_head, head = task % j->a->n_kv_head, n_q, spans;
	struct attn_mem m;

	attn_mem_cut((char *)j->c->scratch.p + (size_t)worker * j->part_bytes, &m, j->c->fns, j->n_q, j->a->head_dim);
	n_q = attn_queries(j, tile, head, &m);
	spans = ceil_div(m.limit[n_q - 1], ATTN_SPAN);
	for (int32_t s = 0; s < spans; s++) {
		if (cancelled(j->c))
			return;
		if (s == 0) {
			attn_span(j, head, s, &m, n_q, m.run);
			continue;
		}
		for (int32_t r = attn_span(j, head, s, &m, n_q, m.add); r < n_q; r++)
			j->c->fns->attn_merge(&m.run[r], &m.add[r], j->a->head_dim);
	}
	for (int32_t r = 0; r < n_q; r++)
		attn_finish(j, tile, head, r, &m.run[r]);
}

static void attn_span_task(void *arg, int task, int worker)
{
	const struct attn_job *j = arg;
	int32_t unit = task / j->spans, span = task % j->spans;
	int32_t tile = unit / j->a->n_kv_head, head = unit % j->a->n_kv_head, n_q, dim = j->a->head_dim;
	size_t first = (size_t)unit * (size_t)j->spans * (size_t)j->n_q;
	struct attn_state *st = j->st + first + (size_t)span * (size_t)j->n_q;
	struct attn_mem m;

	if (cancelled(j->c))
		return;
	attn_mem_cut((char *)j->c->scratch.p + (size_t)worker * j->part_bytes, &m, j->c->fns, j->n_q, dim);
	n_q = attn_queries(j, tile, head, &m);
	for (int32_t r = 0; r < n_q; r++)
		st[r].acc = j->acc + (first + (size_t)span * (size_t)j->n_q + (size_t)r) * (size_t)dim;
	if (m.limit[n_q - 1] > span * ATTN_SPAN)
		attn_span(j, head, span, &m, n_q, st);
	if (atomic_fetch_sub_explicit(&j->left[unit], 1, memory_order_acq_rel) != 1)
		return;
	for (int32_t r = 0; r < n_q; r++) {
		struct attn_state *run = j->st + first + r;
		int32_t spans = ceil_div(m.limit[r], ATTN_SPAN);

		for (int32_t s = 1; s < spans; s++)
			j->c->fns->attn_merge(run, run + (size_t)s * (size_t)j->n_q, dim);
		attn_finish(j, tile, head, r, run);
	}
}

/* Room for the partial states; 0 when splitting over spans would take too much. */
static int attn_split(struct attn_job *j)
{
	struct cpu *c = j->c;
	size_t units = (size_t)j->tiles * (size_t)j->a->n_kv_head, states = units * (size_t)j->spans * (size_t)j->n_q;
	size_t st = align64(states * sizeof *j->st), left = align64(units * sizeof *j->left);
	size_t acc = align64(states * (size_t)j->a->head_dim * sizeof(float));

	if (c->threads == 1 || j->spans == 1 || units >= (size_t)c->threads * 2 || st + left + acc > STATE_BYTES)
		return 0;
	if (buffer_grow(c, &c->state, st + left + acc) < 0)
		return 0;
	j->st = c->state.p;
	j->acc = (float *)((char *)c->state.p + st);
	j->left = (_Atomic int32_t *)((char *)c->state.p + st + acc);
	for (size_t i = 0; i < units; i++)
		atomic_init(&j->left[i], j->spans);
	return 1;
}

static int plane_ok(const struct tensor *t, const struct attn_args *a)
{
	return t && t->data && t->layout == LAYOUT_PLAIN && (t->type == DT_F16 || t->type == DT_F32) &&
	       t->cols == a->head_dim && (int64_t)a->n_kv_head * a->cap <= t->rows;
}

static void cpu_attn(struct backend *be, const struct attn_args *a, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct attn_job j = { .c = c, .a = a, .n = n };
	struct attn_mem m;
	int64_t width = (int64_t)a->n_head * a->head_dim, units;
	double work;
	int split;

	if (be->failed || n <= 0 || cancelled(c))
		return;
	if (a->head_dim <= 0 || a->n_kv_head <= 0 || a->n_head % a->n_kv_head || width > INT32_MAX ||
	    !plane_ok(a->k, a) || !plane_ok(a->v, a) || a->k->type != a->v->type || a->n_past < 0 ||
	    n > a->cap - a->n_past) {
		fail(be, "internal: attention over %d + %d rows got operands of the wrong shape", (int)a->n_past, (int)n);
		return;
	}
	if (!(j.q = rows_of(be, a->q, n, (int32_t)width, "attn")) || !(j.out = rows_of(be, a->out, n, (int32_t)width, "attn")))
		return;
	j.group = a->n_head / a->n_kv_head;
	j.tokens = j.group < TILE_QUERIES ? TILE_QUERIES / j.group : 1;
	if (j.tokens > n)
		j.tokens = n;
	j.tiles = ceil_div(n, j.tokens);
	j.n_q = j.tokens * j.group;
	j.spans = ceil_div(a->n_past + n, ATTN_SPAN);
	j.row_bytes = row_bytes(a->k);
	j.part_bytes = attn_mem_cut(NULL, &m, c->fns, j.n_q, a->head_dim);
	if (buffer_grow(c, &c->scratch, j.part_bytes * (size_t)c->threads) < 0)
		return;
	split = attn_split(&j);
	if (be->failed)
		return;
	units = (int64_t)j.tiles * a->n_kv_head * (split ? j.spans : 1);
	work = (double)n * (double)width * 2 * (a->n_past + n);
	if (work < SMALL_ATTN)
		for (int32_t t = 0; t < (int32_t)units; t++)
			(split ? attn_span_task : attn_tile_task)(&j, t, 0);
	else
		pool_run(c->pool, split ? attn_span_task : attn_tile_task, &j, (int)units);
}

/* ---- opening ---- */

static void cpu_close(struct backend *be)
{
	struct cpu *c = cpu_of(be);

	if (!be)
		return;
	pool_close(c->pool);
	mem_free(c->act.p);
	mem_free(c->scratch.p);
	mem_free(c->state.p);
	free(c);
}

static void cpu_describe(const struct backend *be, char *out, size_t cap)
{
	const struct cpu *c = (const struct cpu *)be;

	snprintf(out, cap, "cpu %s, %d thread%s", c->fns->name, c->threads, c->threads == 1 ? "" : "s");
}

static const struct backend_ops cpu_ops = {
	.name = "cpu",
	.close = cpu_close,
	.describe = cpu_describe,
	.alloc = cpu_alloc,
	.adopt = cpu_adopt,
	.drop = cpu_drop,
	.write = cpu_write,
	.read = cpu_read,
	.sync = cpu_sync,
	.embed = cpu_embed,
	.rmsnorm = cpu_rmsnorm,
	.matmul = cpu_matmul,
	.matmul_glu = cpu_matmul_glu,
	.rope = cpu_rope,
	.kv_put = cpu_kv_put,
	.attn = cpu_attn,
};

int cpu_backend_open(struct backend **out, const struct backend_options *opt, char err[160])
{
	const char *level = getenv("WEIR_CPU");
	struct cpu *c;

	if (level && *level && strcmp(level, "c") && strcmp(level, "avx2") && strcmp(level, "avx512")) {
		snprintf(err, 160, "unknown CPU level '%.40s' in WEIR_CPU; use c, avx2 or avx512", level);
		return -1;
	}
	c = calloc(1, sizeof *c);
	if (!c) {
		snprintf(err, 160, "out of memory");
		return -1;
	}
	c->base.ops = &cpu_ops;
	c->fns = cpu_fns_best();
	c->threads = opt->threads > 0 ? opt->threads : pool_cpus();
	if (c->threads > POOL_MAX_THREADS)
		c->threads = POOL_MAX_THREADS;
	c->pool = pool_open(c->threads);
	if (!c->pool) {
		snprintf(err, 160, "cannot start %d threads: %s; ask for fewer", c->threads, strerror(errno));
		free(c);
		return -1;
	}
	*out = &c->base;
	return 0;
}
