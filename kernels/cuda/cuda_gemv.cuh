/* kernels/cuda/cuda_gemv.cuh (private to kernels/cuda/) - interface of cuda_gemv.cu: products of at most eight tokens;
 * activation functions. */
#ifndef WEIR_CUDA_GEMV_CUH
#define WEIR_CUDA_GEMV_CUH

#include "kernels/cuda/cuda_quant.cuh"

enum { GEMV_PRODUCTS = 8, GEMV_TOKENS = 8 }; /* maximum numbers of products and of tokens in one launch */

/* One product. cuda_gemv() sets `first` and `per`. */
struct gemv_product {
	struct weight_rows w;
	float *out;         /* [n][rows] */
	const float *bias;  /* [rows] bias, or NULL */
	int32_t accumulate; /* 1: add to `out` */
	/* number of the product's first thread block, and number of groups of rows that a block computes */
	uint32_t first, per;
};

struct gemv_args {
	struct gemv_product product[GEMV_PRODUCTS];
	const float *x;      /* [n][cols] */
	const uint8_t *acts; /* x, quantised by acts_quantise(); set only if n > 1 and some weight is quantised */
	int32_t n_products, n, cols;
	int32_t tile; /* number of columns of x that are in shared memory at a time */
	/* 1: a gated unit. product[0] has the gate weight, and product[1] has the up weight. The product act(gate) * up
	 * is written to product[0].out. */
	int32_t glu;
	int32_t act; /* the activation function, an enum activation */
};

/* Compute products of a->n <= GEMV_TOKENS tokens. Return 0, or -1 with the error set. */
int cuda_gemv(struct cuda *, struct gemv_args *a);

/* Return x / (1 + exp(-x)) for ACT_SILU. For ACT_GELU, return the tanh approximation, computed as x / (1 + exp(-2u)),
 * as in cpu/simd_rows.h. */
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
