/* kernels/cuda/cuda_gemv.cu - products of one to eight tokens. Each weight is read once; memory bandwidth limits the
 * speed.
 *
 * A warp computes two rows of a product for all tokens. A lane reads 16 contiguous bytes of a weight's row at a time,
 * and starts up to four such reads before it uses the first. With 16 warps per multiprocessor this keeps memory busy.
 * Products of the same x (q, k and v; gate and up) share a launch: a thread block finds the product that it computes by
 * its block number.
 *
 * Float weights are converted to f32, if necessary, and multiplied in f32. x is read through L1.
 *
 * Quantised weights: on an H100, memory delivers about 27 weights of 4 bits per clock and multiprocessor. That leaves
 * fewer than five operations per weight, too few to convert it to float. So x is quantised instead. A block of 32
 * values is converted to a scale and 16-bit integers, |q| <= 32,639, stored as two bytes (q = 256 high + low) for
 * __dp4a(). Four weights then take two __dp4a() and about two operations to unpack. The sums of a block are exact;
 * rounding x adds noise of about 4e-10 (NMSE). If a block of x has NaN or infinity, the scale of the block is NaN, so
 * that only the outputs of the block's token are affected.
 *
 * With one token, every thread block quantises x itself, in shared memory, while its first weights are prefetched to
 * L2. With more tokens, a launch of acts_quantise() quantises x once for all blocks.
 *
 * Launches: 1, or 2 for several tokens and quantised weights. */
#include "kernels/cuda/cuda_gemv_rows.cuh"

/* `x` is f32 [tokens][cols]. `out` receives the arrays that acts_make() writes, for each token. */
struct acts_args {
	const float *x;
	uint8_t *out;
	int32_t cols;
};

enum { ACTS_BLOCKS = 64 }; /* number of blocks of 32 values per thread block */

__global__ void acts_quantise(struct acts_args a)
{
	int blocks = a.cols / 32, block = (int)blockIdx.x * ACTS_BLOCKS;

	acts_make(a.out + (size_t)blockIdx.y * (size_t)blocks * ACT_BYTES, blocks,
	          a.x + (size_t)blockIdx.y * (size_t)a.cols, block, min(ACTS_BLOCKS, blocks - block));
}

/* Compute the products for up to N tokens. A gated unit takes two passes: `gate` in pass 0 and `up` in pass 1. */
template <int N> __global__ void __launch_bounds__(WARPS *WARP, 2) gemv(struct gemv_args a)
{
	SHARED_DYNAMIC(uint8_t, acts);
	int p = 0, ready = -1, lane = (int)(threadIdx.x % WARP), warp = (int)(threadIdx.x / WARP);

	while (p + 1 < a.n_products && !a.glu && blockIdx.x >= a.product[p + 1].first)
		p++;
	const struct gemv_product &product = a.product[p];
	int rows = product.w.rows, mine = lane % N;

#pragma unroll 1
	for (uint32_t g = 0; g < product.per; g++) {
		int64_t top = ((int64_t)(blockIdx.x - product.first) * product.per + g) * GROUP;
		int row0 = (int)top + warp * ROWS, row = row0 + lane / N;
		/* A lane stores at most one output. It loads the old value before it computes, so that the load
		 * overlaps with the products. */
		float *out = product.out + (size_t)mine * (size_t)rows + (size_t)row, old = 0, bias = 0, value = 0;
		int stores = lane < ROWS * N && mine < a.n && row < rows;
		float acc[ROWS][N];

		if (top >= rows)
			break;
		if (stores && product.accumulate)
			old = *out;
		if (stores && product.bias && !a.glu)
			bias = product.bias[row];
#pragma unroll 1
		for (int pass = 0; pass <= a.glu; pass++) {
			float before = value;

			rows_times<N>(a, a.product[p + pass].w, a.product[p + pass].w.p, row0, acts, &ready, acc);
#pragma unroll
			for (int r = 0; r < ROWS; r++)
#pragma unroll
				for (int t = 0; t < N; t++) {
					float sum = warp_sum(acc[r][t]);

					if (lane == r * N + t)
						value = sum;
				}
			if (a.glu && stores && a.product[pass].bias)
				value += a.product[pass].bias[row];
			if (pass)
				value = gated(a.act, before, value);
		}
		if (stores)
			*out = product.accumulate       ? old + (value + bias)
			       : product.bias && !a.glu ? value + bias
			                                : value;
	}
}

int cuda_gemv(struct cuda *c, struct gemv_args *a)
{
	int width = a->n > 4 ? 8 : a->n > 2 ? 4 : a->n, quantised = 0;
	unsigned blocks = 0, shared = 0;
	int64_t groups = 0;

	for (int i = 0; i < a->n_products; i++) {
		quantised |= quant_is(a->product[i].w.type);
		/* gate and up have the same number of rows; the same thread blocks compute both */
		if (!a->glu || i == 0)
			groups += (a->product[i].w.rows + GROUP - 1) / GROUP;
	}
	/* With many rows, a thread block computes several groups of rows, because each block takes time to quantise x.
	 * There are still at least four blocks per multiprocessor, to balance the work. */
	for (int i = 0; i < a->n_products; i++) {
		int64_t per = groups / (4 * (int64_t)c->info.processors + 1);
		struct gemv_product *p = &a->product[i];

		p->per = (uint32_t)MIN(MAX(per, 1), 4);
		p->first = blocks;
		if (!a->glu || i == 0)
			blocks += cuda_blocks(p->w.rows, GROUP * (int64_t)p->per);
	}
	a->tile = MIN(SHARED_BYTES / ACT_BYTES / width / 32 * 32 * 32, a->cols);
	if (quantised)
		shared = (unsigned)(a->tile / 32 * a->n * ACT_BYTES);
	if (quantised && a->n > 1) {
		struct acts_args q = {};
		int32_t in = a->cols / 32;

		if (cuda_buffer_grow(c, &c->acts, (size_t)a->n * (size_t)in * ACT_BYTES) < 0)
			return -1;
		q.x = a->x;
		q.out = (uint8_t *)c->acts.p;
		q.cols = a->cols;
		a->acts = q.out;
		cuda_launch(c, acts_quantise, cuda_blocks(in, ACTS_BLOCKS), (unsigned)a->n, 1, WARPS * WARP, 0, q);
	}
	switch (width) {
	case 1: cuda_launch(c, gemv<1>, blocks, 1, 1, WARPS * WARP, shared, *a); break;
	case 2: cuda_launch(c, gemv<2>, blocks, 1, 1, WARPS * WARP, shared, *a); break;
	case 4: cuda_launch(c, gemv<4>, blocks, 1, 1, WARPS * WARP, shared, *a); break;
	default: cuda_launch(c, gemv<8>, blocks, 1, 1, WARPS * WARP, shared, *a); break;
	}
	return 0;
}
