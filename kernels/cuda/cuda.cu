/* kernels/cuda/cuda.cu - the CUDA backend: opening, errors, memory, the table of operations. See cuda.cuh for the
 * other files. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda_quant.cuh"

/* Wait for the device. Report the error of a failed operand check or, if there is none, the device's error. Clear both
 * errors. */
int cuda_sync(struct backend *be)
{
	char err[160];
	int failed;

	if (gpu_sync(cuda_of(be)->gpu, err) < 0)
		backend_fail(be, "%s", err);
	failed = be->failed;
	be->failed = 0;
	return failed ? -1 : 0;
}

float *cuda_rows_of(struct backend *be, const struct tensor *t, int32_t n, int32_t cols, const char *op)
{
	if (t && t->data && t->type == DT_F32 && t->layout == LAYOUT_PLAIN && n >= 0 && n <= t->rows &&
	    (!cols || t->cols == cols))
		return (float *)t->data;
	backend_fail(be, "internal: %s got an operand of the wrong shape", op);
	return NULL;
}

/* ---- memory ---- */

/* Set the error "cannot get ... of GPU memory", and return -1. n is the number of bytes that could not be allocated. */
static int no_memory(struct cuda *c, const char *what, uint64_t n)
{
	return backend_fail(&c->base, "cannot get %llu MiB of GPU memory for %s: %llu MiB are free",
	                    (unsigned long long)(n + 1048575) >> 20, what,
	                    (unsigned long long)gpu_memory_free(c->gpu) >> 20);
}

int cuda_buffer_grow(struct cuda *c, struct cuda_buffer *b, size_t n)
{
	if (c->base.failed)
		return -1;
	if (n > b->size) {
		gpu_free(c->gpu, b->p);
		b->size = n + n / 4;
		b->p = gpu_alloc(c->gpu, b->size);
		if (!b->p) {
			b->size = n; /* out of memory: try again with n bytes, without the extra quarter */
			b->p = gpu_alloc(c->gpu, n);
		}
		if (!b->p) {
			b->size = 0;
			return no_memory(c, "working buffers", n);
		}
	}
	gpu_forget(c->gpu, b->p, n);
	return 0;
}

/* Return the size of a tensor in bytes, or 0 for an invalid shape. */
static size_t tensor_bytes(const struct tensor *t)
{
	size_t n;

	if ((unsigned)t->type >= DT_ALL || t->rows <= 0 || t->cols <= 0 || t->cols % dtype_info(t->type)->block)
		return 0;
	if (__builtin_mul_overflow((size_t)dtype_bytes(t->type, (uint64_t)t->cols), (size_t)t->rows, &n))
		return 0;
	return n;
}

/* Allocate a tensor of t's shape on the device or, if `host` is 1, in host memory. */
static int tensor_alloc(struct backend *be, struct tensor *t, int host)
{
	struct cuda *c = cuda_of(be);
	size_t n = tensor_bytes(t);
	char what[64];

	if (be->failed)
		return -1;
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
	if (!n)
		return backend_fail(be, "cannot allocate a tensor of %d x %d", (int)t->rows, (int)t->cols);
	t->data = host ? gpu_alloc_host(c->gpu, n) : gpu_alloc(c->gpu, n);
	if (t->data)
		return 0;
	if (host)
		return backend_fail(be, "cannot get %llu MiB of the machine's memory that the GPU can read",
		                    (unsigned long long)(n + 1048575) >> 20);
	snprintf(what, sizeof what, "a tensor of %d x %d", (int)t->rows, (int)t->cols);
	return no_memory(c, what, n);
}

int cuda_alloc(struct backend *be, struct tensor *t)
{
	return tensor_alloc(be, t, 0);
}
int cuda_alloc_host(struct backend *be, struct tensor *t)
{
	return tensor_alloc(be, t, 1);
}

int cuda_alloc_file(struct backend *be, struct tensor *t, int fd, uint64_t off)
{
	(void)fd;
	(void)off;
	t->data = NULL;
	return backend_fail(be, "a GPU does not compute with tensors in a file");
}

void cuda_give_back(struct backend *be, const struct tensor *t, size_t off, size_t n)
{
	(void)be;
	(void)t;
	(void)off;
	(void)n;
}

void cuda_drop(struct backend *be, struct tensor *t)
{
	struct cuda *c = cuda_of(be);

	if (t->data && cuda_weight_release(c, t->data))
		gpu_free(c->gpu, t->data);
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
}

/* 1 if the n bytes from offset `off` on are inside a plain tensor. Otherwise set the error and return 0. */
static int range_ok(struct backend *be, const struct tensor *t, size_t off, size_t n)
{
	size_t size = tensor_bytes(t);

	if (t->data && t->layout == LAYOUT_PLAIN && off <= size && n <= size - off)
		return 1;
	backend_fail(be, "internal: bytes %zu + %zu are not within a plain tensor of %d x %d", off, n, (int)t->rows,
	             (int)t->cols);
	return 0;
}

void cuda_write(struct backend *be, struct tensor *t, size_t off, const void *src, size_t n)
{
	if (!be->failed && range_ok(be, t, off, n))
		gpu_write(cuda_of(be)->gpu, (char *)t->data + off, src, n);
}

void cuda_read(struct backend *be, const struct tensor *t, size_t off, void *dst, size_t n)
{
	if (!be->failed && range_ok(be, t, off, n))
		gpu_read(cuda_of(be)->gpu, dst, (const char *)t->data + off, n);
}

/* ---- the table ---- */

static void cuda_close(struct backend *be)
{
	struct cuda *c = cuda_of(be);

	if (!be)
		return;
	struct cuda_buffer *all[] = { &c->attn, &c->probe,   &c->scan,    &c->topk,    &c->moves,   &c->acts,
		                      &c->tile, &c->product, &c->experts, &c->largest, &c->counters };

	for (struct cuda_buffer *b : all)
		gpu_free(c->gpu, b->p);
	gpu_close(c->gpu);
	free(c);
}

static void cuda_describe(const struct backend *be, char *out, size_t cap)
{
	const struct gpu_info *i = &((const struct cuda *)be)->info;

	/* Round to the nearest GiB, because a card that is sold as 80 GB has a little less than 80 GiB. */
	snprintf(out, cap, "cuda %s, %llu GB, sm_%d%d", i->name, (unsigned long long)((i->memory + (1u << 29)) >> 30),
	         i->major, i->minor);
}

static void cuda_memory(const struct backend *be, uint64_t *available, uint64_t *total)
{
	const struct cuda *c = (const struct cuda *)be;

	*available = gpu_memory_free(c->gpu);
	*total = c->info.memory;
}

static void cuda_attn_each(struct backend *be, const struct attn_args *a, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		cuda_attn(be, a + i, 1);
}

static void cuda_read_blocks(struct backend *be, const struct read_blocks_args *a, int32_t n)
{
	(void)a;
	(void)n;
	backend_fail(be, "a GPU reads prompts whole; use --device cpu");
}

/* clang-format off */
static const struct backend_ops cuda_ops = {
	"cuda", LACKS_BLOCKS | LACKS_KV_APART, cuda_close, cuda_describe, cuda_memory,
	cuda_alloc, cuda_alloc_file, cuda_give_back, cuda_alloc_host, cuda_load_weight, cuda_expert_table, cuda_drop, cuda_write, cuda_read, cuda_sync, cuda_copy, cuda_columns,
	cuda_embed, cuda_rmsnorm, cuda_layernorm, cuda_axpby, cuda_matmul, cuda_matmul_glu, cuda_take_rows, cuda_add_rows, cuda_route, cuda_experts, cuda_short_conv, cuda_delta_rule, cuda_state_space, cuda_gate, cuda_gelu, cuda_rope, cuda_kv_put, cuda_attn, cuda_attn_each, cuda_relative, cuda_read_blocks,
	cuda_key_sketch_bytes, cuda_key_sketch, cuda_key_scan, cuda_topk, cuda_kv_move,
	cuda_fetch_range, cuda_fetch_slots, cuda_fetch_wait,
	cuda_page_bounds, cuda_page_scan, cuda_page_slots, cuda_query_drift,
	cuda_largest,
};
/* clang-format on */

extern "C" int weir_cuda_open(struct backend **out, const struct backend_options *opt, int abi, char err[160])
{
	struct cuda *c;

	(void)opt;
	*out = NULL;
	err[0] = 0;
	if (abi != BACKEND_ABI) {
		snprintf(err, 160,
		         "weir-cuda.so was built for another version of weir (interface %d, here %d); build both again",
		         BACKEND_ABI, abi);
		return -1;
	}
	c = (struct cuda *)calloc(1, sizeof *c);
	if (!c) {
		snprintf(err, 160, "out of memory");
		return -1;
	}
	if (gpu_open(&c->gpu, &c->info, err) < 0) {
		free(c);
		return -1;
	}
	c->base.ops = &cuda_ops;
	c->base.threads = 1;
	c->base.device = 1;
	snprintf(c->base.identity, sizeof c->base.identity, "%s, sm_%d%d, driver %d, runtime %d", c->info.name,
	         c->info.major, c->info.minor, c->info.driver, c->info.runtime);
	*out = &c->base;
	return 0;
}
