/* kernels/cuda/cuda_rows.cu - layernorm, gelu, relative, axpby, copy, columns, take_rows, add_rows: operations on rows of
 * floats.
 * Each operation takes 1 launch. */
#include "kernels/cuda/cuda.cuh"

/* ---- layer norms, GELU ---- */

enum { NORM_THREADS = 256 };

struct layernorm_args {
	float *out;
	const float *x, *w, *b;
	int32_t cols;
	float eps;
};

/* Return the sum of x over all threads of a block. All threads of the block must call this function. `part` is scratch
 * memory with one float per warp. */
static __device__ float block_sum(float x, float *part)
{
	int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;

	x = warp_sum(x);
	__syncthreads();
	if (lane == 0)
		part[warp] = x;
	__syncthreads();
	return warp_sum(lane < (int)blockDim.x / WARP ? part[lane] : 0.0f);
}

/* Normalise one row per thread block. */
__global__ void __launch_bounds__(NORM_THREADS) layernorm_kernel(struct layernorm_args a)
{
	SHARED(float, part, [WARP]);
	const float *x = a.x + (size_t)blockIdx.x * (size_t)a.cols;
	float *out = a.out + (size_t)blockIdx.x * (size_t)a.cols, sum = 0, squares = 0, left = 0, mean, scale;
	int step = (int)blockDim.x;

	for (int i = (int)threadIdx.x; i < a.cols; i += step)
		sum += x[i];
	mean = block_sum(sum, part) / (float)a.cols;
	for (int i = (int)threadIdx.x; i < a.cols; i += step) {
		float d = x[i] - mean;

		left += d;
		squares += d * d;
	}
	/* Compute `left`, the mean of x[i] - mean over the row, which is the rounding error of `mean`. The square of
	 * this error is subtracted from the variance. */
	left = block_sum(left, part) / (float)a.cols;
	squares = block_sum(squares, part) / (float)a.cols - left * left;
	scale = __fdiv_rn(1.0f, __fsqrt_rn(squares + a.eps));
	for (int i = (int)threadIdx.x; i < a.cols; i += step)
		out[i] = fmaf((x[i] - mean - left) * scale, a.w[i], a.b[i]);
}

void cuda_layernorm(struct backend *be, struct tensor *out, const struct tensor *x, const struct tensor *w,
                    const struct tensor *b, float eps, int32_t n)
{
	struct layernorm_args a = {};
	int32_t threads = MIN((x->cols + WARP - 1) / WARP * WARP, (int32_t)NORM_THREADS);

	if (cuda_stopped(be) || layernorm_check(be, out, x, w, b, n) < 0 || n < 1)
		return;
	a.out = (float *)out->data;
	a.x = (const float *)x->data;
	a.w = (const float *)w->data;
	a.b = (const float *)b->data;
	a.cols = x->cols;
	a.eps = eps;
	cuda_launch(cuda_of(be), layernorm_kernel, (unsigned)n, 1, 1, (unsigned)threads, 0, a);
}

struct gelu_args {
	float *x;
	int64_t n;
};

__global__ void gelu_kernel(struct gelu_args a)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (int64_t)gridDim.x * blockDim.x)
		a.x[i] *= 0.5f * erfcf(a.x[i] * -0.70710678f);
}

void cuda_gelu(struct backend *be, struct tensor *x, int32_t n)
{
	struct gelu_args a = {};
	unsigned blocks;

	if (cuda_stopped(be) || gelu_check(be, x, n) < 0 || n < 1)
		return;
	a.x = (float *)x->data;
	a.n = (int64_t)n * x->cols;
	blocks = cuda_blocks(a.n, 256);
	cuda_launch(cuda_of(be), gelu_kernel, MIN(blocks, 2048u), 1, 1, 256, 0, a);
}

/* ---- scores of relative positions ---- */

struct relative_kernel_args {
	float *out;
	const float *q, *k, *keys, *queries;
	const int32_t *row;
	int64_t out_cols;
	int32_t n, n_head, dim;
	float scale;
};

/* blockIdx.x is the query, blockIdx.y the head. A warp computes one key at a time. */
__global__ void relative_kernel(struct relative_kernel_args a)
{
	int32_t i = (int32_t)blockIdx.x, warps = (int32_t)blockDim.x / WARP, lane = (int32_t)threadIdx.x % WARP;
	int64_t cols = (int64_t)a.n_head * a.dim, head = (int64_t)blockIdx.y * a.dim;
	const float *q = a.q + i * cols + head;
	float *out = a.out + ((int64_t)i * a.n_head + blockIdx.y) * a.out_cols;

	for (int32_t j = (int32_t)threadIdx.x / WARP; j < a.n; j += warps) {
		int64_t row = a.row[i - j + a.n - 1] * cols + head;
		const float *k = a.k + j * cols + head;
		float sum = 0;

		for (int32_t d = lane; d < a.dim; d += WARP)
			sum += q[d] * a.keys[row + d] + k[d] * a.queries[row + d];
		sum = warp_sum(sum);
		if (lane == 0)
			out[j] = a.scale * sum;
	}
}

void cuda_relative(struct backend *be, const struct relative_args *a, int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct relative_kernel_args k = {};

	if (cuda_stopped(be) || n < 1 || relative_check(be, a, n) < 0)
		return;
	k.out = (float *)a->out->data;
	k.q = (const float *)a->q->data;
	k.k = (const float *)a->k->data;
	k.keys = (const float *)a->keys->data;
	k.queries = (const float *)a->queries->data;
	k.row = (const int32_t *)gpu_stage(c->gpu, a->row, (size_t)(2 * n - 1) * sizeof *a->row);
	k.out_cols = a->out->cols;
	k.n = n;
	k.n_head = a->n_head;
	k.dim = a->head_dim;
	k.scale = a->scale;
	if (k.row)
		cuda_launch(c, relative_kernel, (unsigned)n, (unsigned)a->n_head, 1, 4 * WARP, 0, k);
}

/* ---- sums ---- */

struct axpby_args {
	float *y;
	const float *x;
	int64_t n;
	float a, b;
};

/* Round as the CPU does, without fused multiply-add. */
__global__ void axpby_kernel(struct axpby_args a)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n;
	     i += (int64_t)gridDim.x * blockDim.x) {
		float x = __fmul_rn(a.a, a.x[i]);

		a.y[i] = a.b != 0 ? __fadd_rn(x, __fmul_rn(a.b, a.y[i])) : x;
	}
}

void cuda_axpby(struct backend *be, struct tensor *y, float a, const struct tensor *x, float b, int32_t n)
{
	struct axpby_args g = {};
	unsigned blocks;

	if (cuda_stopped(be) || !(g.x = cuda_rows_of(be, x, n, 0, "axpby")) ||
	    !(g.y = cuda_rows_of(be, y, n, x->cols, "axpby")) || n < 1)
		return;
	g.n = (int64_t)n * x->cols;
	g.a = a;
	g.b = b;
	blocks = cuda_blocks(g.n, 256);
	cuda_launch(cuda_of(be), axpby_kernel, MIN(blocks, 2048u), 1, 1, 256, 0, g);
}

/* ---- copies ---- */

struct copy_args {
	float *dst;
	const float *src;
	int64_t n;
};

__global__ void copy_fours(struct copy_args a)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (int64_t)gridDim.x * blockDim.x)
		((float4 *)a.dst)[i] = ((const float4 *)a.src)[i];
}
__global__ void copy_ones(struct copy_args a)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (int64_t)gridDim.x * blockDim.x)
		a.dst[i] = a.src[i];
}

void cuda_copy(struct backend *be, struct tensor *dst, int32_t dst_row, const struct tensor *src, int32_t src_row,
               int32_t n)
{
	struct copy_args a = {};
	unsigned blocks;
	int fours;

	if (cuda_stopped(be) || n < 1 || copy_check(be, dst, dst_row, src, src_row, n) < 0)
		return;
	a.dst = (float *)dst->data + (size_t)dst_row * (size_t)src->cols;
	a.src = (const float *)src->data + (size_t)src_row * (size_t)src->cols;
	a.n = (int64_t)n * src->cols;
	if (a.dst == a.src)
		return;
	fours = a.n % 4 == 0 && ((uintptr_t)a.dst | (uintptr_t)a.src) % 16 == 0;
	if (fours)
		a.n /= 4;
	blocks = cuda_blocks(a.n, 256);
	cuda_launch(cuda_of(be), fours ? copy_fours : copy_ones, MIN(blocks, 2048u), 1, 1, 256, 0, a);
}

/* ---- columns ---- */

struct columns_args {
	float *out;
	const float *src;
	const int32_t *col;
	int64_t out_cols, src_cols;
	int32_t n, rows;
};

/* Copy the columns. Neighbouring threads read columns of the same row, which are close to each other in memory. */
__global__ void columns_kernel(struct columns_args a)
{
	int32_t i = (int32_t)(blockIdx.y * blockDim.x + threadIdx.x), row = (int32_t)blockIdx.x;

	if (i < a.n)
		a.out[i * a.out_cols + row] = a.src[row * a.src_cols + a.col[i]];
}

void cuda_columns(struct backend *be, struct tensor *out, const struct tensor *src, const int32_t *col, int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct columns_args a = {};

	if (cuda_stopped(be) || n < 1 || columns_check(be, out, src, n) < 0)
		return;
	a.out = (float *)out->data;
	a.src = (const float *)src->data;
	a.col = (const int32_t *)gpu_stage(c->gpu, col, (size_t)n * sizeof *col);
	a.out_cols = out->cols;
	a.src_cols = src->cols;
	a.n = n;
	a.rows = src->rows;
	if (a.col)
		cuda_launch(c, columns_kernel, (unsigned)src->rows, cuda_blocks(cuda_power(n), 64), 1, 64, 0, a);
}

/* ---- rows by their numbers ---- */

struct rows_args {
	float *out;
	const float *x, *weight;
	const int32_t *row;
	int64_t cols;
	int32_t n;
};

__global__ void take_rows_kernel(struct rows_args a)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;

	if (c < a.cols)
		a.out[i * a.cols + c] = a.x[a.row[i] * a.cols + c];
}

/* Add all rows of one column per thread, in order, because several rows may have the same target. */
__global__ void add_rows_kernel(struct rows_args a)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

	for (int32_t i = 0; i < a.n && c < a.cols; i++)
		a.out[a.row[i] * a.cols + c] += a.weight[i] * a.x[i * a.cols + c];
}

void cuda_take_rows(struct backend *be, struct tensor *out, const struct tensor *x, const int32_t *row, int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct rows_args a = {};

	if (cuda_stopped(be) || n < 1 || rows_check(be, "take_rows", out, n, x, x->rows, row, n) < 0)
		return;
	a.out = (float *)out->data;
	a.x = (const float *)x->data;
	a.row = (const int32_t *)gpu_stage(c->gpu, row, (size_t)n * sizeof *row);
	a.cols = x->cols;
	if (a.row)
		cuda_launch(c, take_rows_kernel, cuda_blocks(x->cols, 128), (unsigned)n, 1, 128, 0, a);
}

void cuda_add_rows(struct backend *be, struct tensor *out, const struct tensor *x, const int32_t *row,
                   const float *weight, int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct rows_args a = {};

	if (cuda_stopped(be) || n < 1 || rows_check(be, "add_rows", out, 0, x, out->rows, row, n) < 0)
		return;
	a.out = (float *)out->data;
	a.x = (const float *)x->data;
	a.row = (const int32_t *)gpu_stage(c->gpu, row, (size_t)n * sizeof *row);
	a.weight = (const float *)gpu_stage(c->gpu, weight, (size_t)n * sizeof *weight);
	a.cols = x->cols;
	a.n = n;
	if (a.row && a.weight)
		cuda_launch(c, add_rows_kernel, cuda_blocks(x->cols, 128), 1, 1, 128, 0, a);
}
