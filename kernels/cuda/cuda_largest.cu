/* kernels/cuda/cuda_largest.cu - largest: the k largest values of rows, such as logits.
 *
 * topk() selects them. Of equal scores it takes the one with the higher number, largest() the one in the lower column,
 * so topk() gets the rows reversed.
 *
 * Launches: 4, or 6 for rows of more than SMALL columns. */
#include "kernels/cuda/cuda_topk.cuh"

enum { LARGEST_THREADS = 256 };

struct largest_job {
	float *out;          /* [n][LARGEST_COLS(k)] */
	const float *x;      /* [n][cols] */
	float *reversed;     /* [n][cols] */
	const int32_t *slot; /* [n][k] the selected values of `reversed`, best first */
	int32_t cols, k;
};

/* Reverse a row. topk() tells -0 from 0 and ranks NaN lowest, so replace -0 by 0, and NaN by infinity. */
static __global__ void largest_reverse(struct largest_job a)
{
	int32_t i = (int32_t)(blockIdx.x * LARGEST_THREADS + threadIdx.x);
	int64_t row = (int64_t)blockIdx.y * a.cols;
	float v;

	if (i >= a.cols)
		return;
	v = a.x[row + i];
	a.reversed[row + a.cols - 1 - i] = isnan(v) ? INFINITY : v == 0 ? 0 : v;
}

static __global__ void largest_write(struct largest_job a)
{
	int32_t i = (int32_t)(blockIdx.x * LARGEST_THREADS + threadIdx.x), col;
	float *out = a.out + (int64_t)blockIdx.y * LARGEST_COLS(a.k), v;

	if (i >= a.k)
		return;
	col = a.cols - 1 - a.slot[(int64_t)blockIdx.y * a.k + i];
	v = a.x[(int64_t)blockIdx.y * a.cols + col];
	out[i] = isnan(v) ? INFINITY : v;
	out[a.k + i] = (float)col;
}

void cuda_largest(struct backend *be, struct tensor *out, const struct tensor *x, int32_t k, int32_t n)
{
	struct cuda *c = cuda_of(be);
	size_t reversed = align256((size_t)n * (size_t)x->cols * sizeof(float));
	struct tensor score = {}, slots = {};
	struct topk_args t = {};
	struct largest_job a = {};

	if (cuda_stopped(be) || n < 1 || largest_check(be, out, x, k, n) < 0 ||
	    cuda_buffer_grow(c, &c->largest, reversed + (size_t)n * (size_t)k * sizeof(int32_t)) < 0)
		return;
	score.data = c->largest.p;
	score.type = DT_F32;
	score.rows = n;
	score.cols = x->cols;
	slots.data = (char *)c->largest.p + reversed;
	slots.type = DT_I32;
	slots.rows = n;
	slots.cols = k;
	a.out = (float *)out->data;
	a.x = (const float *)x->data;
	a.reversed = (float *)score.data;
	a.slot = (const int32_t *)slots.data;
	a.cols = x->cols;
	a.k = k;
	t.slots = &slots;
	t.score = &score;
	t.n_kv_head = n;
	t.n = x->cols;
	t.k = k;
	t.pool = 1;
	t.order = BEST_FIRST;
	cuda_launch(c, largest_reverse, cuda_blocks(x->cols, LARGEST_THREADS), (unsigned)n, 1, LARGEST_THREADS, 0, a);
	cuda_topk(be, &t);
	cuda_launch(c, largest_write, cuda_blocks(k, LARGEST_THREADS), (unsigned)n, 1, LARGEST_THREADS, 0, a);
}
