/* kernels/cuda/cuda_select.cuh (private to kernels/cuda/) - selection of slots: declarations and device code that
 * these files share.
 *
 *     cuda_key_sketch.cu   key sketches
 *     cuda_scan.cu         scores of keys
 *     cuda_topk.cu         the k highest scores; scan and topk in one call
 *     cuda_topk_sample.cu  a sample of the slots that are not selected
 *     cuda_topk_order.cu   max-pooling of scores with wide windows; ordering of the selected slots
 *     cuda_kv_move.cu      moves KV entries inside a plane
 *     cuda_compare.cu      operations that only the policies quest and refresh use: pages, drift of queries */
#ifndef WEIR_CUDA_SELECT_CUH
#define WEIR_CUDA_SELECT_CUH

#include "kernels/cuda/cuda.cuh"
#ifdef __CUDACC__
#include <cuda_bf16.h>
#endif

extern "C" {
#include "kernels/common/key_sketch.h"
}

/* Reserve n values of `size` bytes at the end of a scratch buffer and return their offset. *at is the length of the
 * buffer so far. */
static inline size_t scratch_cut(size_t *at, size_t n, size_t size)
{
	size_t from = *at;

	*at += align256(n * size);
	return from;
}

/* ---- scores before and after softmax ---- */

/* Results of a scan's first launch, from which the second launch computes the output (cuda_scan.cu). There are n keys,
 * divided into tiles of `tile` keys. A KV head has `group` query heads. */
struct scan_scores {
	const float *score; /* [n_head][ld] raw scores; a raw score times `mult` is a score */
	/* [n_head][tiles] for each tile, the largest raw score `max`, and the sum of exp((score - max) * mult) */
	const float *max, *sum;
	const float *mult; /* [n_head] factor that converts a raw score to a score */
	float *out;        /* [n_kv_head][out_cols] the output of the scan */
	int64_t ld, out_cols;
	int32_t n, group, tile, tiles, raw, mean;
	struct cuda_predicate when;
};

/* Arguments of a scan's first launch. If `bits` is 2, 4 or 8, the launch scans a key sketch. If `bits` is 16, it scans
 * rows of a plane or, if `pages` is 1, page bounds. `zero` [n_kv_head][n_zero] has words that the launch clears; it may
 * be NULL. */
struct scan_launch {
	const uint8_t *keys;
	const float *q;
	float *score, *max, *sum, *mult; /* results of the launch; struct scan_scores describes them */
	uint32_t *zero;
	int64_t ld, head_bytes, row_bytes;
	int32_t n, group, tile, tiles, dim, bits, panel_bytes, block_bytes, mean_bytes, type, whole, pages, n_zero;
	float scale;
	struct cuda_predicate when;
};

/* Return exp(x * mult) for x <= 0, or 0 for NaN. */
static __device__ inline float scan_exp(float x, float mult)
{
	float y = x * (mult * 1.44269504f);

	return y <= 0 ? exp2f(y) : 0;
}

/* Compute two numbers for each query head r of a KV head. lse[r] is the log of the sum of exponentials over all keys.
 * factor[r] is the head's s.mult. Called by all threads of a block; ends with a barrier. */
static __device__ inline void scan_totals(const struct scan_scores &s, int32_t head, float *lse, float *factor)
{
	int32_t lane = (int32_t)threadIdx.x % WARP, warps = (int32_t)blockDim.x / WARP;

	for (int32_t r = (int32_t)threadIdx.x / WARP; r < s.group; r += warps) {
		int64_t h = (int64_t)head * s.group + r;
		const float *max = s.max + h * s.tiles, *sum = s.sum + h * s.tiles;
		float mult = s.mult[h], top = -INFINITY, l = 0;

		if (!s.raw) {
			for (int32_t i = lane; i < s.tiles; i += WARP)
				top = fmaxf(top, max[i]);
			top = warp_max(top);
			for (int32_t i = lane; i < s.tiles; i += WARP)
				l += sum[i] * scan_exp(max[i] - top, mult);
			l = warp_sum(l);
		}
		if (lane == 0) {
			factor[r] = mult;
			lse[r] = s.raw ? 0 : (float)((double)top * (double)mult + (double)logf(l));
		}
	}
	__syncthreads();
}

/* Compute the output of the N keys k, k + step, and so on. A key's output is the maximum of the log softmax over the
 * query heads of the group, or the log of the mean softmax. A key number after the last key is replaced by the last
 * key. */
template <int N>
static __device__ inline void scan_outputs(float out[N], const struct scan_scores &s, int32_t head, int32_t k,
                                           int32_t step, const float *lse, const float *factor)
{
	const float *score = s.score + (int64_t)head * s.group * s.ld;
	float sum[N];

	for (int j = 0; j < N; j++) {
		out[j] = fmaf(score[min(k + j * step, s.n - 1)], factor[0], -lse[0]);
		sum[j] = 0;
	}
	for (int32_t r = 1; r < s.group; r++)
		for (int j = 0; j < N; j++) {
			float y = fmaf(score[r * s.ld + min(k + j * step, s.n - 1)], factor[r], -lse[r]);

			out[j] = y > out[j] ? y : out[j];
		}
	if (!s.mean)
		return;
	for (int32_t r = 0; r < s.group; r++)
		for (int j = 0; j < N; j++)
			sum[j] += scan_exp(fmaf(score[r * s.ld + min(k + j * step, s.n - 1)], factor[r], -lse[r]) -
			                           out[j],
			                   1);
	for (int j = 0; j < N; j++)
		out[j] += logf(sum[j] / (float)s.group);
}

/* Check key_scan()'s operands, allocate memory and start the first launch. The launch also clears the words `zero`
 * [n_kv_head][n_zero], unless `zero` is NULL. Return 0, 1 if there are no keys, or -1 with the error set. */
int scan_start(struct cuda *, const struct scan_args *, struct scan_scores *, uint32_t *zero, int32_t n_zero);

/* Allocate memory and start the first launch of a scan over l->n rows of l->keys; the caller has checked the operands.
 * Set *s to the addresses of the launch's results. Return 0, or -1 with the error set. */
int scan_first(struct cuda *, const struct scan_args *, struct scan_launch *l, struct scan_scores *s);
/* Start the second launch, which writes the output. */
void scan_end(struct cuda *, const struct scan_args *, const struct scan_scores *);

/* ---- keys in a sketch ---- */

/* Apply the Hadamard transform to a key or query of dim values in shared memory. The operations and their order are
 * those of hadamard() on the CPU, and no operations are fused, so the bits are the same. Called by all lanes of
 * a warp. */
static __device__ inline void sketch_hadamard_warp(float *x, int32_t dim)
{
	int32_t lane = (int32_t)threadIdx.x % WARP;

	__syncwarp();
	for (int32_t n; dim > 0; x += n, dim -= n) {
		float norm;

		for (n = 1; n <= dim / 2;)
			n *= 2;
		for (int32_t h = 1; h < n; h *= 2) {
			for (int32_t i = lane; i < n / 2; i += WARP) {
				float *p = x + (i & ~(h - 1)) * 2 + (i & (h - 1)), a = p[0], b = p[h];

				p[0] = a + b;
				p[h] = a - b;
			}
			__syncwarp();
		}
		norm = __fdiv_rn(1.0f, __fsqrt_rn((float)n));
		for (int32_t i = lane; i < n; i += WARP)
			x[i] = __fmul_rn(x[i], norm);
	}
	__syncwarp();
}

/* ---- rows of planes ---- */

/* Convert the bits of an f16 to a float. */
static __device__ inline float half_of(uint32_t bits)
{
	return __half2float(__ushort_as_half((unsigned short)bits));
}

static __device__ inline float row_value(const uint8_t *row, int32_t type, int32_t i)
{
	if (type == DT_F32)
		return ((const float *)row)[i];
	if (type == DT_F16)
		return half_of(((const uint16_t *)row)[i]);
	if (type == DT_BF16)
		return __uint_as_float((uint32_t)((const uint16_t *)row)[i] << 16);
	row += i / 32 * 34;
	return half_of(*(const uint16_t *)row) * (float)((const int8_t *)row)[2 + i % 32];
}

/* Read the eight values from i on of a row. i and the row's length are multiples of 8. Rows are aligned to 16 bytes,
 * rows of Q8_0 to 2 bytes. */
template <int TYPE> static __device__ inline void row_eight_of(float x[8], const uint8_t *row, int32_t i)
{
	if (TYPE == DT_F32) {
		float4 a = __ldg((const float4 *)(row + 4 * (int64_t)i)),
		       b = __ldg((const float4 *)(row + 4 * (int64_t)i + 16));

		x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
		x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
	} else if (TYPE == DT_Q8_0) {
		const uint16_t *b = (const uint16_t *)(row + i / 32 * 34), *code = b + 1 + i % 32 / 2;
		float d = half_of(b[0]);

		for (int32_t j = 0; j < 4; j++) {
			x[2 * j] = d * (float)(int8_t)(code[j] & 255);
			x[2 * j + 1] = d * (float)(int8_t)(code[j] >> 8);
		}
	} else {
		uint4 v = __ldg((const uint4 *)(row + 2 * (int64_t)i));
		uint32_t w[4] = { v.x, v.y, v.z, v.w };

		for (int32_t j = 0; j < 4; j++) {
			x[2 * j] = TYPE == DT_F16 ? half_of(w[j] & 0xffff) : __uint_as_float(w[j] << 16);
			x[2 * j + 1] = TYPE == DT_F16 ? half_of(w[j] >> 16) : __uint_as_float(w[j] & 0xffff0000u);
		}
	}
}

/* Read the eight values from i on of a row of any type. Values from index `dim` on are read as 0. `whole` is 1 if
 * row_eight_of() can read the row. */
static __device__ inline void row_eight(float x[8], const uint8_t *row, int32_t type, int32_t i, int32_t dim, int whole)
{
	if (!whole || i + 8 > dim)
		for (int32_t j = 0; j < 8; j++)
			x[j] = i + j < dim ? row_value(row, type, i + j) : 0;
	else if (type == DT_F32)
		row_eight_of<DT_F32>(x, row, i);
	else if (type == DT_Q8_0)
		row_eight_of<DT_Q8_0>(x, row, i);
	else if (type == DT_F16)
		row_eight_of<DT_F16>(x, row, i);
	else
		row_eight_of<DT_BF16>(x, row, i);
}

static inline int row_whole(enum dtype type, int32_t dim)
{
	return type == DT_Q8_0 || dim % 8 == 0;
}

#endif
