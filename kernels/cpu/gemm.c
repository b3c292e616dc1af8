/* kernels/cpu/gemm.c - products C = A B of float matrices in host memory, for training. A task computes one block of C.
 * It copies its rows of A and its columns of B into buffers that fit a cache, GEMM_DEPTH values of each row and column
 * at a time. Then gemm_tile() (fns.h), which exists for each instruction set, multiplies the copies tile by tile.
 *
 * Each element of C is summed in a fixed order. So its bits are the same for any number of threads and any other
 * products in the call. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

/* GEMM_DEPTH is the maximum number of columns of A and rows of B that are copied at a time. GEMM_BLOCK_ROWS and
 * GEMM_BLOCK_COLS are the size of a block of C. GEMM_TILE_MOST is the maximum number of elements that gemm_tile()
 * computes, in any instruction set. Together, the copies take up to 0.5 MB, which is about the size of a second-level
 * cache. */
enum { GEMM_DEPTH = 256, GEMM_BLOCK_ROWS = 192, GEMM_BLOCK_COLS = 256, GEMM_TILE_MOST = 16 * 64 };

struct gemm_run {
	const struct cpu_fns *fns;
	const struct gemm *g;
	int n;
	float *scratch; /* [workers][scratch_floats] scratch memory of each thread */
	size_t scratch_floats;
};

static int32_t round_up(int32_t n, int32_t to)
{
	return ceil_div(n, to) * to;
}

static int blocks_of(const struct gemm *g)
{
	return ceil_div(g->m, GEMM_BLOCK_ROWS) * ceil_div(g->n, GEMM_BLOCK_COLS);
}

/* Copy `lines` lines (rows of A or columns of B) of `depth` values from `x` to `out`, in groups of `wide` lines. In a
 * group, the first values of all lines come first, then the second values, and so on. The last group is filled up with
 * zeros. In `x`, a line begins `line` floats after the line before it, and a value of a line is `step` floats after the
 * value before it. */
static void lines_pack(float *out, const float *x, size_t line, size_t step, int32_t lines, int32_t depth, int32_t wide)
{
	for (int32_t l = 0; l < lines; l += wide, out += (size_t)wide * (size_t)depth) {
		int32_t n = MIN(wide, lines - l);
		const float *from = x + (size_t)l * line;

		if (n < wide)
			memset(out, 0, (size_t)wide * (size_t)depth * sizeof *out);
		if (line == 1)
			for (int32_t p = 0; p < depth; p++)
				memcpy(out + (size_t)p * (size_t)wide, from + (size_t)p * step,
				       (size_t)n * sizeof *out);
		else
			for (int32_t p = 0; p < depth; p++)
				for (int32_t i = 0; i < n; i++)
					out[(size_t)p * (size_t)wide + (size_t)i] =
						from[(size_t)i * line + (size_t)p * step];
	}
}

/* Compute one tile of C. Only the first `rows` rows and `cols` columns of the tile are inside C. */
static void tile_multiply(const struct cpu_fns *f, const float *a, const float *b, int32_t depth, float *c,
                          size_t c_row, int32_t rows, int32_t cols, float alpha, int accumulate)
{
	float whole[GEMM_TILE_MOST];

	if (rows == f->gemm_rows && cols == f->gemm_cols) {
		f->gemm_tile(depth, a, b, c, c_row, alpha, accumulate);
		return;
	}
	for (int32_t i = 0; accumulate && i < rows; i++)
		memcpy(whole + i * f->gemm_cols, c + (size_t)i * c_row, (size_t)cols * sizeof *c);
	f->gemm_tile(depth, a, b, whole, (size_t)f->gemm_cols, alpha, accumulate);
	for (int32_t i = 0; i < rows; i++)
		memcpy(c + (size_t)i * c_row, whole + i * f->gemm_cols, (size_t)cols * sizeof *c);
}

static void gemm_task(void *arg, int task, int worker)
{
	const struct gemm_run *r = arg;
	const struct cpu_fns *f = r->fns;
	const struct gemm *g = r->g;
	float *a = r->scratch + (size_t)worker * r->scratch_floats,
	      *b = a + (size_t)round_up(GEMM_BLOCK_ROWS, f->gemm_rows) * GEMM_DEPTH;
	int32_t across, i0, j0, m, n;

	for (; task >= blocks_of(g); g++)
		task -= blocks_of(g);
	across = ceil_div(g->n, GEMM_BLOCK_COLS);
	i0 = task / across * GEMM_BLOCK_ROWS;
	j0 = task % across * GEMM_BLOCK_COLS;
	m = MIN(GEMM_BLOCK_ROWS, g->m - i0);
	n = MIN(GEMM_BLOCK_COLS, g->n - j0);
	for (int32_t p = 0; p < g->k; p += GEMM_DEPTH) {
		int32_t depth = MIN(GEMM_DEPTH, g->k - p);

		lines_pack(a, g->a + (size_t)i0 * g->a_row + (size_t)p * g->a_col, g->a_row, g->a_col, m, depth,
		           f->gemm_rows);
		lines_pack(b, g->b + (size_t)j0 * g->b_col + (size_t)p * g->b_row, g->b_col, g->b_row, n, depth,
		           f->gemm_cols);
		for (int32_t j = 0; j < n; j += f->gemm_cols)
			for (int32_t i = 0; i < m; i += f->gemm_rows)
				tile_multiply(f, a + (size_t)i * (size_t)depth, b + (size_t)j * (size_t)depth, depth,
				              g->c + (size_t)(i0 + i) * g->c_row + (size_t)(j0 + j), g->c_row,
				              MIN(f->gemm_rows, m - i), MIN(f->gemm_cols, n - j), g->alpha,
				              g->accumulate || p);
	}
}

int backend_gemm(struct backend *be, const struct gemm *g, int n)
{
	struct gemm_run r = { .fns = cpu_host_fns(be), .g = g, .n = n };
	struct cpu *c = be->ops == &cpu_ops ? cpu_of(be) : NULL;
	size_t workers = c ? (size_t)pool_threads(c->pool) : 1;
	float *own = NULL;
	int tasks = 0;

	for (int i = 0; i < n; i++)
		tasks += blocks_of(&g[i]);
	r.scratch_floats =
		(size_t)(round_up(GEMM_BLOCK_ROWS, r.fns->gemm_rows) + round_up(GEMM_BLOCK_COLS, r.fns->gemm_cols)) *
		GEMM_DEPTH;
	if (c ? cpu_buffer_grow(c, &c->scratch, workers * r.scratch_floats * sizeof *own)
	      : !(own = malloc(r.scratch_floats * sizeof *own)))
		return -1;
	r.scratch = c ? c->scratch.p : own;
	if (c)
		pool_run(c->pool, gemm_task, &r, tasks);
	for (int i = 0; !c && i < tasks; i++)
		gemm_task(&r, i, 0);
	free(own);
	return 0;
}
