/* kernels/cpu_key_sketch.c - key_sketch: Hadamard transform, clipping and coding of keys (layout: key_sketch.h).
 *
 * The cancel flag is not polled: the work is short, and a sketch must never be out of step with its plane. */
#include <math.h>
#include <string.h>

#include "kernels/cpu.h"
#include "kernels/cpu_select.h"
#include "kernels/quant.h"

enum {
	SMALL_SKETCH = 16 << 10,     /* values up to which one thread is faster than two */
	SKETCH_TASK = 64,            /* keys of a task: whole panels */
};

/* ---- transform and clipping ---- */

uint64_t cpu_key_sketch_bytes(const struct backend *be, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits)
{
	(void)be;
	return sketch_bytes(n_kv_head, cap, head_dim, bits);
}

/* Four floats at a time, by hand: the compiler does not vectorise loops this short. */
typedef float float4 __attribute__((vector_size(16)));
typedef int32_t int4 __attribute__((vector_size(16)));

static inline float4 load4(const float *x)
{
	float4 v;

	memcpy(&v, x, sizeof v);
	return v;
}

static inline void store4(float *x, float4 v)
{
	memcpy(x, &v, sizeof v);
}

static inline float4 select4(int4 mask, float4 yes, float4 no)
{
	return (float4)(((int4)yes & mask) | ((int4)no & ~mask));
}

static inline float sum4(float4 v)
{
	return (v[0] + v[2]) + (v[1] + v[3]);
}

/* Hadamard transform of n values, a power of two >= 4, without its norm: the steps inside four values, then between fours. */
static void hadamard_fours(float *x, int32_t n)
{
	for (int32_t i = 0; i < n; i += 4) {
		float a = x[i] + x[i + 1], b = x[i] - x[i + 1], c = x[i + 2] + x[i + 3], d = x[i + 2] - x[i + 3];

		x[i] = a + c;
		x[i + 1] = b + d;
		x[i + 2] = a - c;
		x[i + 3] = b - d;
	}
	for (int32_t h = 4; h < n; h *= 2)
		for (int32_t i = 0; i < n; i += 2 * h)
			for (int32_t j = i; j < i + h; j += 4) {
				float4 a = load4(x + j), b = load4(x + j + h);

				store4(x + j, a + b);
				store4(x + j + h, a - b);
			}
}

void sketch_hadamard(float *x, int32_t dim)
{
	for (int32_t n; dim > 0; x += n, dim -= n) {
		float norm;

		for (n = 1; n <= dim / 2;)
			n *= 2;
		if (n >= 4) {
			hadamard_fours(x, n);
		} else if (n == 2) {
			float a = x[0], b = x[1];

			x[0] = a + b;
			x[1] = a - b;
		}
		norm = 1.0f / sqrtf((float)n);
		for (int32_t i = 0; i < n; i++)
			x[i] *= norm;
	}
}

/* Least squares by alternation, three times: codes for a range, then the range for these codes. */
static void clip_group(float *x, int32_t n)
{
	const float4 round = { 12582912.0f, 12582912.0f, 12582912.0f, 12582912.0f };   /* 1.5 * 2^23: adding and subtracting it rounds */
	const float4 none = { 0 }, most = { 3, 3, 3, 3 };
	float low = x[0], high = x[0], step;

	for (int32_t i = 1; i < n; i++) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	step = (high - low) / 3;
	for (int turn = 0; turn < 3; turn++) {
		float4 sx = none, sc = none, scc = none, scx = none;
		float inv = 1 / step, det;

		if (!(step > 1e-30f && step < 1e30f))
			return;
		for (int32_t i = 0; i < n; i += 4) {
			float4 v = load4(x + i), c = (v - low) * inv;

			c = select4(c > none, c, none);
			c = select4(c < most, c, most);
			c = (c + round) - round;
			sx += v;
			sc += c;
			scc += c * c;
			scx += c * v;
		}
		det = (float)n * sum4(scc) - sum4(sc) * sum4(sc);
		if (!(det > 0))
			return;
		step = ((float)n * sum4(scx) - sum4(sc) * sum4(sx)) / det;
		low = (sum4(sx) - step * sum4(sc)) / (float)n;
	}
	high = low + 3 * step;
	for (int32_t i = 0; i < n; i++) {
		x[i] = x[i] < low ? low : x[i];
		x[i] = x[i] > high ? high : x[i];
	}
}

void sketch_clip(float *x, int32_t dim, int32_t bits)
{
	for (int32_t g = 0; bits == 2 && g < sketch_groups(dim); g++)
		if (sketch_values(dim, g) % 4 == 0)
			clip_group(x + g * SKETCH_GROUP, sketch_values(dim, g));
}

/* ---- coding ---- */

struct sketch_job {
	const struct select_fns *fns;
	struct cpu *c;
	uint8_t *sketch;
	const struct tensor *plane;
	int32_t cap, bits, dim, slot0, slot1, blocks, first;   /* blocks of SKETCH_TASK keys, from block `first` on */
	size_t row_bytes, head_bytes, part_bytes;
};

/* Code the keys of a whole panel. */
static void sketch_panel(const struct sketch_job *j, uint8_t *panel, const uint8_t *rows, float *x)
{
	size_t ld = align64((size_t)j->dim * sizeof *x) / sizeof *x;

	for (int32_t k = 0; k < SKETCH_PANEL; k++)
		j->fns->row_to_f32(j->plane->type, x + (size_t)k * ld, rows + (size_t)k * j->row_bytes, j->dim);
	j->fns->panel(x, ld, x + SKETCH_PANEL * ld, j->dim, j->bits);
	for (int32_t k = 0; k < SKETCH_PANEL; k++)
		j->fns->key_code(panel, k, x + (size_t)k * ld, j->dim, j->bits);
}

static void sketch_task(void *arg, int task, int worker)
{
	const struct sketch_job *j = arg;
	int32_t head = task / j->blocks, block = j->first + task % j->blocks;
	int32_t k0 = block * SKETCH_TASK, k1 = min32(k0 + SKETCH_TASK, j->slot1);
	const uint8_t *rows = (const uint8_t *)j->plane->data + (size_t)head * (size_t)j->cap * j->row_bytes;
	uint8_t *sketch = j->sketch + (size_t)head * j->head_bytes;
	size_t panel_bytes = sketch_panel_bytes(j->dim, j->bits);
	float *x = (float *)((char *)j->c->scratch.p + (size_t)worker * j->part_bytes);

	for (int32_t k = k0 > j->slot0 ? k0 : j->slot0; k < k1; k++) {
		uint8_t *panel = sketch + (size_t)(k / SKETCH_PANEL) * panel_bytes;

		if (k % SKETCH_PANEL == 0 && k + SKETCH_PANEL <= k1) {
			sketch_panel(j, panel, rows + (size_t)k * j->row_bytes, x);
			k += SKETCH_PANEL - 1;
			continue;
		}
		j->fns->row_to_f32(j->plane->type, x, rows + (size_t)k * j->row_bytes, j->dim);
		sketch_hadamard(x, j->dim);
		sketch_clip(x, j->dim, j->bits);
		j->fns->key_code(panel, k % SKETCH_PANEL, x, j->dim, j->bits);
	}
}

void cpu_key_sketch(struct backend *be, struct tensor *sketch, const struct tensor *plane, int32_t n_kv_head, int32_t cap,
                  int32_t bits, int32_t slot0, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct sketch_job j = { .fns = c->fns->select, .c = c, .plane = plane, .cap = cap, .bits = bits, .slot0 = slot0 };
	int32_t tasks;

	if (be->failed || key_sketch_check(be, sketch, plane, n_kv_head, cap, bits, slot0, n) < 0 || n == 0)
		return;
	j.dim = plane->cols;
	j.sketch = sketch->data;
	j.slot1 = slot0 + n;
	j.row_bytes = row_bytes(plane);
	j.head_bytes = (size_t)ceil_div(cap, SKETCH_PANEL) * sketch_panel_bytes(j.dim, bits);
	j.first = slot0 / SKETCH_TASK;
	j.blocks = ceil_div(j.slot1, SKETCH_TASK) - j.first;
	j.part_bytes = 2 * SKETCH_PANEL * align64((size_t)j.dim * sizeof(float)) + 64;
	if (cpu_buffer_grow(c, &c->scratch, j.part_bytes * (size_t)c->base.threads) < 0)
		return;
	tasks = n_kv_head * j.blocks;
	if ((int64_t)n * n_kv_head * j.dim <= SMALL_SKETCH)
		for (int32_t t = 0; t < tasks; t++)
			sketch_task(&j, t, 0);
	else
		pool_run(c->pool, sketch_task, &j, tasks);
}
