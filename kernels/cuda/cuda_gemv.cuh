/* kernels/cuda/cuda_gemv.cuh (private to kernels/cuda/) - products of at most eight tokens: what cuda_matmul.cu
 * asks of cuda_gemv.cu. */
#ifndef WEIR_CUDA_GEMV_CUH
#define WEIR_CUDA_GEMV_CUH

#include "kernels/cuda/cuda_quant.cuh"

enum { GEMV_PARTS = 8, GEMV_TOKENS = 8 }; /* maximum number of products, and of tokens, in one launch */

/* One product. The caller leaves `first` and `per` to cuda_gemv(). */
struct gemv_part {
	struct weight_rows w;
	float *out;        /* [n][rows] */
	const float *bias; /* [rows], or NULL */
	int32_t accumulate;
	uint32_t first, per; /* number of the product's first block in the launch; groups of rows per block */
};

struct gemv_args {
	struct gemv_part part[GEMV_PARTS];
	const float *x;      /* [n][cols] */
	const uint8_t *acts; /* quantised x, if n > 1 and some weight is quantised */
	int32_t n_parts, n, cols;
	int32_t tile; /* columns of x in shared memory at a time */
	int32_t glu;  /* 1: parts 0 and 1 are gate and up; part 0's output is act(gate) * up */
	int32_t act;  /* enum activation */
};

/* Compute products of a->n <= GEMV_TOKENS tokens. Return 0, or -1 with the error set. */
int cuda_gemv(struct cuda *, struct gemv_args *a);

/* ACT_SILU, or ACT_GELU in the form x / (1 + exp(-2u)) (cpu/simd_rows.h). */
static __device__ __forceinline__ float activate(int32_t act, float x)
{
	return x / (1.0f + expf(act == ACT_GELU ? -x * (1.5957691216057308f + 0.07135481282553243f * (x * x)) : -x));
}

/* Return act(gate) * up. */
static __device__ __forceinline__ float gated(int32_t act, float gate, float up)
{
	if (act != ACT_SILU_CLAMPED)
		return activate(act, gate) * up;
	gate = fminf(gate, CLAMP_LIMIT);
	return gate / (1.0f + expf(-CLAMP_SLOPE * gate)) * (fminf(fmaxf(up, -CLAMP_LIMIT), CLAMP_LIMIT) + 1.0f);
}

#endif
