/* kernels/cpu/key_sketch.c - key_sketch: centring, Hadamard transform and coding of keys (layout: key_sketch.h). The
 * cancel flag is ignored: the work is short, and a key sketch must always match its keys. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/select.h"
#include "kernels/common/quant.h"

enum { SMALL_SKETCH = 16 << 10 }; /* up to this number of values, one thread is faster than two */

/* ---- one key ---- */

uint64_t cpu_key_sketch_bytes(const struct backend *be, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits)
{
	(void)be;
	return sketch_bytes(n_kv_head, cap, head_dim, bits);
}

static float sum_of(const float x[4])
{
	return (x[0] + x[2]) + (x[1] + x[3]);
}

/* Encode key x as the codes of one lane of a panel (key_sketch.h), and return its scale. x is overwritten. */
static float key_code(uint8_t *panel, int32_t lane, float *x, const float *mean, int32_t dim, int32_t bits)
{
	/* 1.5 * 2^23: adding this number and subtracting it again rounds to the nearest integer */
	const float round = 12582912.0f;
	const float top = (float)((1 << bits) - 1), middle = top / 2;
	float squares[4] = { 0 }, products[4] = { 0 }, size, product, inv;
	int32_t per = 32 / bits;

	for (int32_t i = 0; i < dim; i++)
		x[i] -= mean[i];
	hadamard(x, dim);
	for (int32_t i = 0; i < dim; i++)
		squares[i % 4] += x[i] * x[i];
	size = sum_of(squares);
	inv = sketch_inverse_step(size, dim, bits);
	panel += 4 * lane;
	for (int32_t u = 0; u * per < dim; u++, panel += 64) {
		uint32_t word = 0;

		for (int32_t i = 0; i < per && u * per + i < dim; i++) {
			float v = x[u * per + i], c = v * inv + middle;

			/* The comparisons change a NaN to 0. */
			c = MAX(c, 0);
			c = MIN(c, top);
			c = (c + round) - round;
			products[i % 4] += v * (2.0f * c - top);
			word |= (uint32_t)c << (8 * (i % 4) + i / 4 * bits);
		}
		memcpy(panel, &word, 4);
	}
	product = sum_of(products);
	return product > 0 && size < INFINITY ? size / product : 0;
}

/* ---- blocks ---- */

struct sketch_job {
	const struct select_fns *fns;
	struct cpu *c;
	uint8_t *sketch;
	const struct tensor *plane;
	/* `blocks` is the number of blocks, from block `first` on */
	int32_t cap, bits, dim, slot0, slot1, blocks, first;
	size_t row_bytes, head_bytes, block_bytes, thread_bytes;
};

/* Compute the mean of the keys of a full block. In dimensions where the mean is not finite, set it to 0. */
static void mean_of(const struct sketch_job *j, float *mean, const uint8_t *rows, float *x)
{
	memset(mean, 0, (size_t)j->dim * sizeof *mean);
	for (int32_t k = 0; k < SKETCH_BLOCK; k++) {
		cpu_kv_floats(j->fns, j->plane->type, x, rows + (size_t)k * j->row_bytes, j->dim);
		for (int32_t i = 0; i < j->dim; i++)
			mean[i] += x[i];
	}
	for (int32_t i = 0; i < j->dim; i++)
		mean[i] = fabsf(mean[i]) < INFINITY ? mean[i] / SKETCH_BLOCK : 0;
}

static void scales_store(uint8_t *to, const float *scale, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		uint16_t half = f32_to_f16(scale[i]);

		memcpy(to + 2 * i, &half, 2);
	}
}

static void sketch_task(void *arg, int task, int worker)
{
	const struct sketch_job *j = arg;
	int32_t head = task / j->blocks, block = j->first + task % j->blocks, begin = block * SKETCH_BLOCK;
	int32_t k0 = j->slot0 > begin ? j->slot0 - begin : 0, k1 = MIN(j->slot1 - begin, SKETCH_BLOCK);
	const uint8_t *rows =
		(const uint8_t *)j->plane->data + ((size_t)head * (size_t)j->cap + (size_t)begin) * j->row_bytes;
	uint8_t *to = j->sketch + (size_t)head * j->head_bytes + (size_t)block * j->block_bytes;
	uint8_t *scales = to + sketch_mean_bytes(j->dim), *panels = to + sketch_head_bytes(j->dim);
	size_t panel_bytes = sketch_panel_bytes(j->dim, j->bits),
	       ld = align64((size_t)j->dim * sizeof(float)) / sizeof(float);
	float *mean = (float *)(void *)to, *own = mean + j->dim,
	      *x = (float *)((char *)j->c->scratch.p + (size_t)worker * j->thread_bytes);
	float scale[SKETCH_PANEL];

	/* If the mean changes, all keys of the block are coded again. */
	if (k1 == SKETCH_BLOCK || *own != 0)
		k0 = 0;
	if (k1 == SKETCH_BLOCK)
		mean_of(j, mean, rows, x);
	else if (k0 == 0 && block > 0)
		mean_of(j, mean, rows - SKETCH_BLOCK * j->row_bytes, x);
	else if (k0 == 0)
		memset(mean, 0, (size_t)j->dim * sizeof *mean);
	*own = k1 == SKETCH_BLOCK;
	for (int32_t k = k0, n; k < k1; k += n) {
		n = k % SKETCH_PANEL == 0 && k + SKETCH_PANEL <= k1 ? SKETCH_PANEL : 1;
		for (int32_t i = 0; i < n; i++)
			cpu_kv_floats(j->fns, j->plane->type, x + (size_t)i * ld, rows + (size_t)(k + i) * j->row_bytes,
			              j->dim);
		if (n > 1)
			j->fns->panel(panels + (size_t)(k / SKETCH_PANEL) * panel_bytes, scale, x, ld, mean,
			              x + SKETCH_PANEL * ld, j->dim, j->bits);
		else
			scale[0] = key_code(panels + (size_t)(k / SKETCH_PANEL) * panel_bytes, k % SKETCH_PANEL, x,
			                    mean, j->dim, j->bits);
		scales_store(scales + 2 * k, scale, n);
	}
}

void cpu_key_sketch(struct backend *be, struct tensor *sketch, const struct tensor *plane, int32_t n_kv_head,
                    int32_t cap, int32_t bits, int32_t slot0, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct sketch_job j = {
		.fns = c->fns->select, .c = c, .plane = plane, .cap = cap, .bits = bits, .slot0 = slot0
	};
	int32_t tasks;

	if (be->failed || key_sketch_check(be, sketch, plane, n_kv_head, cap, bits, slot0, n) < 0 || n == 0)
		return;
	j.dim = plane->cols;
	j.sketch = sketch->data;
	j.slot1 = slot0 + n;
	j.row_bytes = row_bytes(plane);
	j.block_bytes = sketch_block_bytes(j.dim, bits);
	j.head_bytes = (size_t)sketch_blocks(cap) * j.block_bytes;
	j.first = slot0 / SKETCH_BLOCK;
	j.blocks = ceil_div(j.slot1, SKETCH_BLOCK) - j.first;
	j.thread_bytes = 2 * SKETCH_PANEL * align64((size_t)j.dim * sizeof(float)) + 64;
	if (cpu_buffer_grow(c, &c->scratch, j.thread_bytes * (size_t)c->base.threads) < 0)
		return;
	tasks = n_kv_head * j.blocks;
	if ((int64_t)n * n_kv_head * j.dim <= SMALL_SKETCH)
		for (int32_t t = 0; t < tasks; t++)
			sketch_task(&j, t, 0);
	else
		pool_run(c->pool, sketch_task, &j, tasks);
}
