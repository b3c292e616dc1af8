/* kernels/cpu_choose.c - choosing cached rows: the low-bit copy of the keys, page bounds, rows of pages, and moving rows.
 *
 * None of this looks at the cancel flag: it is short, and a cache must never be left half moved. */
#include <math.h>
#include <string.h>

#include "kernels/cpu.h"
#include "kernels/cpu_choose.h"
#include "kernels/quant.h"

enum {
	SMALL_COPY = 16 << 10,       /* values that one thread codes faster than two */
	SMALL_MOVE = 256 << 10,      /* bytes */
	COPY_TASK = 64, MOVE_TASK = 64,   /* rows; COPY_TASK is whole panels */
};

int choose_plane_ok(const struct tensor *t, int32_t n_kv_head, int32_t cap, int32_t head_dim)
{
	if (!t || !t->data || t->layout != LAYOUT_PLAIN || n_kv_head <= 0 || cap <= 0 || head_dim <= 0 ||
	    t->cols != head_dim || (int64_t)n_kv_head * cap > t->rows)
		return 0;
	return t->type == DT_F32 || t->type == DT_F16 || t->type == DT_BF16 || (t->type == DT_Q8_0 && head_dim % 32 == 0);
}

/* ---- the copy ---- */

uint64_t cpu_key_copy_bytes(const struct backend *be, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits)
{
	(void)be;
	return copy_bytes(n_kv_head, cap, head_dim, bits);
}

/* Four floats at a time: short loops and comparisons keep the compiler from finding that by itself. */
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

/* The steps inside four values, then those between fours. */
static void turn_fours(float *x, int32_t n)
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

void copy_turn(float *x, int32_t dim)
{
	for (int32_t n; dim > 0; x += n, dim -= n) {
		float norm;

		for (n = 1; n <= dim / 2;)
			n *= 2;
		if (n >= 4) {
			turn_fours(x, n);
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

/* Least squares in turns: codes for a range, then the range for these codes. */
static void clip_group(float *x, int32_t n)
{
	const float4 round = { 12582912.0f, 12582912.0f, 12582912.0f, 12582912.0f };   /* + and - it: to whole numbers */
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

void copy_clip(float *x, int32_t dim, int32_t bits)
{
	for (int32_t g = 0; bits == 2 && g < copy_groups(dim); g++)
		if (copy_values(dim, g) % 4 == 0)
			clip_group(x + g * COPY_GROUP, copy_values(dim, g));
}

int copy_ok(const struct backend *be, const struct tensor *t, int32_t n_kv_head, int32_t cap, int32_t head_dim,
            int32_t bits)
{
	uint64_t need = cpu_key_copy_bytes(be, n_kv_head, cap, head_dim, bits);

	return need && t && t->data && t->type == DT_U8 && t->rows > 0 && t->cols > 0 &&
	       (uint64_t)t->rows * (uint64_t)t->cols >= need;
}

struct copy_job {
	const struct choose_fns *fns;
	struct cpu *c;
	uint8_t *copy;
	const struct tensor *plane;
	int32_t cap, bits, dim, row0, row1, blocks, first;   /* blocks of COPY_TASK rows from the first-th on */
	size_t row_bytes, head_bytes, part_bytes;
};

/* Sixteen keys that fill a panel. */
static void copy_panel(const struct copy_job *j, uint8_t *panel, const uint8_t *rows, float *x)
{
	size_t ld = align64((size_t)j->dim * sizeof *x) / sizeof *x;

	for (int32_t k = 0; k < COPY_PANEL; k++)
		j->fns->row_to_f32(j->plane->type, x + (size_t)k * ld, rows + (size_t)k * j->row_bytes, j->dim);
	j->fns->panel(x, ld, x + COPY_PANEL * ld, j->dim, j->bits);
	for (int32_t k = 0; k < COPY_PANEL; k++)
		j->fns->key_code(panel, k, x + (size_t)k * ld, j->dim, j->bits);
}

static void copy_task(void *arg, int task, int worker)
{
	const struct copy_job *j = arg;
	int32_t head = task / j->blocks, block = j->first + task % j->blocks;
	int32_t k0 = block * COPY_TASK, k1 = min32(k0 + COPY_TASK, j->row1);
	const uint8_t *rows = (const uint8_t *)j->plane->data + (size_t)head * (size_t)j->cap * j->row_bytes;
	uint8_t *copy = j->copy + (size_t)head * j->head_bytes;
	size_t panel_bytes = copy_panel_bytes(j->dim, j->bits);
	float *x = (float *)((char *)j->c->scratch.p + (size_t)worker * j->part_bytes);

	for (int32_t k = k0 > j->row0 ? k0 : j->row0; k < k1; k++) {
		uint8_t *panel = copy + (size_t)(k / COPY_PANEL) * panel_bytes;

		if (k % COPY_PANEL == 0 && k + COPY_PANEL <= k1) {
			copy_panel(j, panel, rows + (size_t)k * j->row_bytes, x);
			k += COPY_PANEL - 1;
			continue;
		}
		j->fns->row_to_f32(j->plane->type, x, rows + (size_t)k * j->row_bytes, j->dim);
		copy_turn(x, j->dim);
		copy_clip(x, j->dim, j->bits);
		j->fns->key_code(panel, k % COPY_PANEL, x, j->dim, j->bits);
	}
}

void cpu_key_copy(struct backend *be, struct tensor *copy, const struct tensor *plane, int32_t n_kv_head, int32_t cap,
                  int32_t bits, int32_t row0, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct copy_job j = { .fns = c->fns->choose, .c = c, .plane = plane, .cap = cap, .bits = bits, .row0 = row0 };
	int32_t tasks;

	if (be->failed)
		return;
	j.dim = plane ? plane->cols : 0;
	if (!choose_plane_ok(plane, n_kv_head, cap, j.dim) || !copy_ok(be, copy, n_kv_head, cap, j.dim, bits) || n < 0 ||
	    row0 < 0 || n > cap - row0) {
		cpu_fail(be, "internal: key_copy of rows %d + %d with %d bits got operands of the wrong shape", (int)row0, (int)n,
		         (int)bits);
		return;
	}
	if (n == 0)
		return;
	j.copy = copy->data;
	j.row1 = row0 + n;
	j.row_bytes = row_bytes(plane);
	j.head_bytes = (size_t)ceil_div(cap, COPY_PANEL) * copy_panel_bytes(j.dim, bits);
	j.first = row0 / COPY_TASK;
	j.blocks = ceil_div(j.row1, COPY_TASK) - j.first;
	j.part_bytes = 2 * COPY_PANEL * align64((size_t)j.dim * sizeof(float)) + 64;
	if (cpu_buffer_grow(c, &c->scratch, j.part_bytes * (size_t)c->base.threads) < 0)
		return;
	tasks = n_kv_head * j.blocks;
	if ((int64_t)n * n_kv_head * j.dim <= SMALL_COPY)
		for (int32_t t = 0; t < tasks; t++)
			copy_task(&j, t, 0);
	else
		pool_run(c->pool, copy_task, &j, tasks);
}

/* ---- pages ---- */

int bounds_ok(const struct tensor *t, int32_t n_kv_head, int32_t cap, int32_t head_dim)
{
	return t && t->data && t->type == DT_F32 && n_kv_head > 0 && cap > 0 && head_dim > 0 && head_dim <= INT32_MAX / 2 &&
	       t->cols == 2 * head_dim && (int64_t)n_kv_head * ceil_div(cap, PAGE_ROWS) <= t->rows;
}

struct bounds_job {
	const struct choose_fns *fns;
	struct cpu *c;
	float *bounds;
	const struct tensor *plane;
	int32_t cap, dim, row1, first, pages;    /* pages to do, from the first-th on */
	size_t row_bytes, part_bytes;
};

static void bounds_task(void *arg, int task, int worker)
{
	const struct bounds_job *j = arg;
	int32_t head = task / j->pages, page = j->first + task % j->pages, k0 = page * PAGE_ROWS;
	const uint8_t *rows = (const uint8_t *)j->plane->data + (size_t)head * (size_t)j->cap * j->row_bytes;
	size_t dim = (size_t)j->dim;
	size_t row = (size_t)head * (size_t)ceil_div(j->cap, PAGE_ROWS) + (size_t)page;
	float *min = j->bounds + row * 2 * dim, *max = min + dim;
	float *x = (float *)((char *)j->c->scratch.p + (size_t)worker * j->part_bytes);

	for (int32_t k = k0, end = min32(k0 + PAGE_ROWS, j->row1); k < end; k++) {
		j->fns->row_to_f32(j->plane->type, x, rows + (size_t)k * j->row_bytes, j->dim);
		if (k == k0) {
			memcpy(min, x, dim * sizeof *x);
			memcpy(max, x, dim * sizeof *x);
			continue;
		}
		for (size_t i = 0; i < dim; i++) {
			min[i] = x[i] < min[i] ? x[i] : min[i];
			max[i] = x[i] > max[i] ? x[i] : max[i];
		}
	}
}

void cpu_page_bounds(struct backend *be, struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head, int32_t cap,
                     int32_t row0, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct bounds_job j = { .fns = c->fns->choose, .c = c, .plane = plane, .cap = cap };
	int32_t tasks;

	if (be->failed)
		return;
	j.dim = plane ? plane->cols : 0;
	if (!choose_plane_ok(plane, n_kv_head, cap, j.dim) || !bounds_ok(bounds, n_kv_head, cap, j.dim) || n < 0 || row0 < 0 ||
	    n > cap - row0) {
		cpu_fail(be, "internal: page_bounds of rows %d + %d got operands of the wrong shape", (int)row0, (int)n);
		return;
	}
	if (n == 0)
		return;
	j.bounds = bounds->data;
	j.row1 = row0 + n;
	j.first = row0 / PAGE_ROWS;
	j.pages = ceil_div(j.row1, PAGE_ROWS) - j.first;
	j.row_bytes = row_bytes(plane);
	j.part_bytes = align64(((size_t)j.dim + 16) * sizeof(float));
	if (cpu_buffer_grow(c, &c->scratch, j.part_bytes * (size_t)c->base.threads) < 0)
		return;
	tasks = n_kv_head * j.pages;
	if ((int64_t)tasks * PAGE_ROWS * j.dim <= SMALL_COPY)
		for (int32_t t = 0; t < tasks; t++)
			bounds_task(&j, t, 0);
	else
		pool_run(c->pool, bounds_task, &j, tasks);
}

static int page_rows_ok(const struct tensor *rows, const struct tensor *pages, int32_t n_kv_head, int32_t n)
{
	return rows && rows->data && rows->type == DT_I32 && pages && pages->data && pages->type == DT_I32 && rows->data != pages->data &&
	       n_kv_head > 0 && rows->rows >= n_kv_head && pages->rows >= n_kv_head && n >= 0 && n <= INT32_MAX / 4 && rows->cols >= n &&
	       pages->cols >= ceil_div(n, PAGE_ROWS);
}

/* A few thousand numbers: one thread has written them before the others are awake. */
void cpu_page_rows(struct backend *be, struct tensor *rows, const struct tensor *pages, int32_t n_kv_head, int32_t n)
{
	if (be->failed)
		return;
	if (!page_rows_ok(rows, pages, n_kv_head, n)) {
		cpu_fail(be, "internal: page_rows of %d rows got operands of the wrong shape", (int)n);
		return;
	}
	for (int32_t h = 0; h < n_kv_head; h++) {
		int32_t *row = (int32_t *)rows->data + (size_t)h * (size_t)rows->cols;
		const int32_t *page = (const int32_t *)pages->data + (size_t)h * (size_t)pages->cols;

		for (int32_t i = 0; i < n; i++)
			row[i] = page[i / PAGE_ROWS] * PAGE_ROWS + i % PAGE_ROWS;
	}
}

/* ---- moving rows ---- */

struct move_job {
	struct cpu *c;
	const struct kv_moves *m;
	const int32_t *move;
	const float *turn;
	char *plane;
	enum dtype type;
	size_t row_bytes, move_cols;
	char *stage;                 /* [n_kv_head][n] rows */
	char *row;                   /* one row of floats per thread */
	size_t part_bytes;
	int32_t blocks;
};

static void move_turn(const struct move_job *j, void *row, const float *turn, int worker)
{
	const struct kv_moves *m = j->m;
	float *x = (float *)(void *)(j->row + (size_t)worker * j->part_bytes);

	j->c->fns->choose->row_to_f32(j->type, x, row, m->head_dim);
	j->c->fns->rope(x, turn, 1, m->head_dim, m->dims, m->neox);
	if (j->type == DT_F16)
		j->c->fns->to_f16(row, x, m->head_dim);
	else
		dtype_from_f32(j->type, row, x, m->head_dim);
}

static void move_read(void *arg, int task, int worker)
{
	const struct move_job *j = arg;
	const struct kv_moves *m = j->m;
	int32_t head = task / j->blocks, i0 = task % j->blocks * MOVE_TASK, i1 = min32(i0 + MOVE_TASK, m->n);
	const int32_t *move = j->move + (size_t)head * j->move_cols;

	for (int32_t i = i0; i < i1; i++) {
		int32_t from = move[3 * i], turn = move[3 * i + 2];
		char *row = j->stage + ((size_t)head * (size_t)m->n + (size_t)i) * j->row_bytes;

		if (from < 0)
			continue;
		memcpy(row, j->plane + ((size_t)head * (size_t)m->cap + (size_t)from) * j->row_bytes, j->row_bytes);
		if (j->turn && turn >= 0)
			move_turn(j, row, j->turn + (size_t)turn * (size_t)m->dims, worker);
	}
}

/* A whole head: should two moves meet in one row, the later one wins. */
static void move_write(void *arg, int task, int worker)
{
	const struct move_job *j = arg;
	const struct kv_moves *m = j->m;
	const int32_t *move = j->move + (size_t)task * j->move_cols;

	(void)worker;
	for (int32_t i = 0; i < m->n; i++)
		if (move[3 * i] >= 0)
			memcpy(j->plane + ((size_t)task * (size_t)m->cap + (size_t)move[3 * i + 1]) * j->row_bytes,
			       j->stage + ((size_t)task * (size_t)m->n + (size_t)i) * j->row_bytes, j->row_bytes);
}

static int moves_ok(struct backend *be, const struct kv_moves *m, const int32_t *move)
{
	int32_t turns = m->turn ? m->turn->rows : 0;

	for (int32_t h = 0; h < m->n_kv_head; h++, move += m->move->cols)
		for (int32_t i = 0; i < m->n; i++) {
			int32_t from = move[3 * i], to = move[3 * i + 1], turn = move[3 * i + 2];

			if (from == -1)
				continue;
			if (from < 0 || from >= m->cap || to < 0 || to >= m->cap || (m->turn && (turn < -1 || turn >= turns))) {
				cpu_fail(be, "internal: cannot move row %d to %d with turn %d in a cache of %d rows", (int)from, (int)to,
				         (int)turn, (int)m->cap);
				return 0;
			}
		}
	return 1;
}

void cpu_kv_move(struct backend *be, struct tensor *plane, const struct kv_moves *m)
{
	struct cpu *c = cpu_of(be);
	struct move_job j = { .c = c, .m = m };
	size_t stage;

	if (be->failed)
		return;
	if (!choose_plane_ok(plane, m->n_kv_head, m->cap, m->head_dim) || m->n < 0 || m->n > INT32_MAX / 3 || !m->move ||
	    !m->move->data || m->move->type != DT_I32 || m->move_row < 0 || m->move->rows - m->move_row < m->n_kv_head ||
	    m->move->cols < 3 * m->n) {
		cpu_fail(be, "internal: %d moves of rows got operands of the wrong shape", (int)m->n);
		return;
	}
	if (m->turn && (!m->turn->data || m->turn->type != DT_F32 || m->turn->cols != m->dims || m->dims <= 0 ||
	                m->dims % 2 || m->dims > m->head_dim)) {
		cpu_fail(be, "internal: moves of rows got a table of turns of the wrong shape");
		return;
	}
	if (m->n == 0)
		return;
	j.move_cols = (size_t)m->move->cols;
	j.move = (const int32_t *)m->move->data + (size_t)m->move_row * j.move_cols;
	if (!moves_ok(be, m, j.move))
		return;
	j.turn = m->turn ? m->turn->data : NULL;
	j.plane = plane->data;
	j.type = plane->type;
	j.row_bytes = row_bytes(plane);
	j.part_bytes = align64(((size_t)m->head_dim + 16) * sizeof(float));
	j.blocks = ceil_div(m->n, MOVE_TASK);
	stage = align64((size_t)m->n_kv_head * (size_t)m->n * j.row_bytes);
	if (cpu_buffer_grow(c, &c->scratch, stage + j.part_bytes * (size_t)c->base.threads) < 0)
		return;
	j.stage = c->scratch.p;
	j.row = j.stage + stage;
	if (stage <= SMALL_MOVE) {
		for (int32_t t = 0; t < m->n_kv_head * j.blocks; t++)
			move_read(&j, t, 0);
		for (int32_t h = 0; h < m->n_kv_head; h++)
			move_write(&j, h, 0);
	} else {
		pool_run(c->pool, move_read, &j, m->n_kv_head * j.blocks);
		pool_run(c->pool, move_write, &j, m->n_kv_head);
	}
}
