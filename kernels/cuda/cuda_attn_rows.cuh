/* kernels/cuda/cuda_attn_rows.cuh (private to kernels/cuda/) - reads rows of K, V and queries as operands of tensor
 * core products.
 *
 * A dot product may add the dimensions in any order, if both operands use the same order. The order chosen here lets a
 * lane read 8 consecutive values of a row, 16 bytes, at a time. Lane 4 g + t reads for i = 0, 1, ...:
 *
 *     dimensions 32 i + 8 t .. 32 i + 8 t + 7 of K of row g
 *     dimensions 64 i + 8 g .. 64 i + 8 g + 7 of V of rows 2t, 2t + 1, 2t + 8 and 2t + 9 */
#ifndef WEIR_CUDA_ATTN_ROWS_CUH
#define WEIR_CUDA_ATTN_ROWS_CUH

#include "kernels/cuda/cuda_attn.cuh"
#include "kernels/cuda/cuda_mma.cuh"

/* Reads rows of f16 or bf16 values in device memory. Kernels take this struct or blocks_q8_0 as a template argument.
 * The constant CODED is 1 if values must be converted after they are read. */
template <class F> struct plain {
	typedef F format;
	enum { CODED = 0 };
	static __device__ inline int32_t bytes(int32_t d)
	{
		return 2 * d;
	}
	static __device__ inline uint4 load8(const uint8_t *row, int32_t d)
	{
		return __ldg((const uint4 *)(row + 2 * d));
	}
	static __device__ inline uint2 load4(const uint8_t *row, int32_t d)
	{
		return __ldg((const uint2 *)(row + 2 * d));
	}
	static __device__ inline uint32_t load2(const uint8_t *row, int32_t d)
	{
		return __ldg((const uint32_t *)(row + 2 * d));
	}
};
/* Reads rows of f16 or bf16 in shared memory. */
template <class F> struct shared_rows {
	typedef F format;
	static __device__ inline uint4 load8(const uint8_t *row, int32_t d)
	{
		return *(const uint4 *)(row + 2 * d);
	}
	static __device__ inline uint2 load4(const uint8_t *row, int32_t d)
	{
		return *(const uint2 *)(row + 2 * d);
	}
	static __device__ inline uint32_t load2(const uint8_t *row, int32_t d)
	{
		return *(const uint32_t *)(row + 2 * d);
	}
};
/* Reads rows of q8_0 in device memory, converted to f16: blocks of 32 codes with a scale. */
struct blocks_q8_0 {
	typedef as_f16 format;
	enum { CODED = 1 };
	static __device__ inline int32_t bytes(int32_t d)
	{
		return d / 32 * 34;
	}
	static __device__ inline uint32_t load2(const uint8_t *row, int32_t d)
	{
		const uint8_t *b = row + d / 32 * 34;
		float scale = __half2float(*(const __half *)b);
		char2 c = *(const char2 *)(b + 2 + d % 32);

		return as_f16::pack(scale * (float)c.x, scale * (float)c.y);
	}
	static __device__ inline uint2 load4(const uint8_t *row, int32_t d)
	{
		return make_uint2(load2(row, d), load2(row, d + 2));
	}
	/* Convert two of the four codes in a word to f16; `pick` (of __byte_perm()) selects these codes. The f16 with
	 * the upper byte 0x64 and the lower byte code + 128 has the value 1152 + code. Subtracting 1152 is exact;
	 * multiplying by the scale rounds once. */
	static __device__ inline uint32_t two(uint32_t codes, uint32_t pick, __half2 scale)
	{
		uint32_t w = __byte_perm(codes ^ 0x80808080u, 0x64646464u, pick);
		__half2 h, base = __floats2half2_rn(1152, 1152);

		memcpy(&h, &w, sizeof h);
		h = __hmul2(__hsub2(h, base), scale);
		memcpy(&w, &h, sizeof w);
		return w;
	}
	static __device__ inline uint4 load8(const uint8_t *row, int32_t d)
	{
		const uint8_t *b = row + d / 32 * 34;
		const uint16_t *c = (const uint16_t *)(b + 2 + d % 32);
		uint32_t lo = __ldg(c) | (uint32_t)__ldg(c + 1) << 16, hi = __ldg(c + 2) | (uint32_t)__ldg(c + 3) << 16;
		__half2 scale = __half2half2(__ushort_as_half(__ldg((const uint16_t *)b)));

		return make_uint4(two(lo, 0x4140, scale), two(lo, 0x4342, scale), two(hi, 0x4140, scale),
		                  two(hi, 0x4342, scale));
	}
};
/* Selects the struct that reads planes of element type TYPE. */
template <int TYPE> struct plane_of {
	typedef plain<as_f16> type;
};
template <> struct plane_of<DT_BF16> {
	typedef plain<as_bf16> type;
};
template <> struct plane_of<DT_Q8_0> {
	typedef blocks_q8_0 type;
};

/* 1 if one of the word's two values is infinity or NaN */
template <class F> static __device__ inline int odd(uint32_t w)
{
	return (w & F::ODD) == F::ODD || (w >> 16 & F::ODD) == F::ODD;
}
/* Replace infinity and NaN by 0 in both values of the word. */
template <class F> static __device__ inline uint32_t without_odd(uint32_t w)
{
	return ((w & F::ODD) == F::ODD ? 0 : w & 0xffffu) | ((w >> 16 & F::ODD) == F::ODD ? 0 : w & 0xffff0000u);
}

/* V is processed DIMS dimensions at a time. DIMS is the largest number that fits in registers. */
template <int DIM> struct v_slice {
	enum { DIMS = DIM > 128 ? DIM / 2 : DIM, COUNT = DIM / DIMS };
};

/* The values of one row of V that one lane holds, two per word. Eight lanes share a row, so a lane has 8 of every 64
 * dimensions. If 32 or more dimensions remain, the lane has 4 of the next 32. If 16 remain after this, the lane has 2
 * of these. */
template <int DIM> struct v_words {
	enum { FULL = DIM / 64, REST = DIM % 64, COUNT = DIM / 16 };
	uint32_t w[COUNT];
};

/* Load lane g's values of a row of V. `row` is the address of the row. */
template <class P, int DIM> static __device__ inline void load_v(v_words<DIM> &v, const uint8_t *row, int32_t g)
{
	typedef v_words<DIM> V;

#pragma unroll
	for (int i = 0; i < V::FULL; i++) {
		uint4 x = P::load8(row, 64 * i + 8 * g);

		v.w[4 * i] = x.x;
		v.w[4 * i + 1] = x.y;
		v.w[4 * i + 2] = x.z;
		v.w[4 * i + 3] = x.w;
	}
	if (V::REST & 32) {
		uint2 x = P::load4(row, 64 * V::FULL + 4 * g);

		v.w[4 * V::FULL % V::COUNT] = x.x;
		v.w[(4 * V::FULL + 1) % V::COUNT] = x.y;
	}
	if (V::REST & 16)
		v.w[V::COUNT - 1] = P::load2(row, DIM - 16 + 2 * g);
}

/* Return the dimension of value j of word w in lane g. */
template <int DIM> static __device__ __forceinline__ int32_t v_dim(int32_t w, int32_t g, int32_t j)
{
	typedef v_words<DIM> V;

	if (w < 4 * V::FULL)
		return w / 4 * 64 + 8 * g + w % 4 * 2 + j;
	if ((V::REST & 32) && w < 4 * V::FULL + 2)
		return 64 * V::FULL + 4 * g + w % 4 * 2 + j;
	return DIM - 16 + 2 * g + j;
}

/* The values of one row of K that one lane holds, two per word. Four lanes share a row, so a lane has 8 of every 32
 * dimensions. If the row ends with 16 more dimensions, the lane has 4 of these 16. */
template <int DIM> struct k_words {
	uint32_t w[DIM / 8];
};

/* Load lane t's values of a row of K. `row` is the address of the row. */
template <class P, int DIM> static __device__ inline void load_k(k_words<DIM> &k, const uint8_t *row, int32_t t)
{
#pragma unroll
	for (int i = 0; i < DIM / 32; i++) {
		uint4 x = P::load8(row, 32 * i + 8 * t);

		k.w[4 * i] = x.x;
		k.w[4 * i + 1] = x.y;
		k.w[4 * i + 2] = x.z;
		k.w[4 * i + 3] = x.w;
	}
	if (DIM % 32) {
		uint2 x = P::load4(row, DIM - 16 + 4 * t);

		k.w[DIM / 8 - 2] = x.x;
		k.w[DIM / 8 - 1] = x.y;
	}
}

/* A product with K takes 16 dimensions per step, 4 from each lane. Return the first dimension of lane t in step s. */
template <int DIM> static __device__ __forceinline__ int32_t k_dim(int32_t s, int32_t t)
{
	return s < DIM / 32 * 2 ? s / 2 * 32 + 8 * t + s % 2 * 4 : DIM - 16 + 4 * t;
}

/* Prepare 16 rows of V for queries that do not see all of them. Query g sees the first seen0 rows, and query g + 8 sees
 * the first seen1 rows. In a hidden row, infinity or NaN times probability 0 would be NaN. So such values, which are
 * rare, are set to 0 in v. They are added to `acc` separately, for the queries that see the row. Called by all lanes of
 * a warp. */
template <class F, int DIM>
static __device__ inline void add_odd(float (*acc)[4], v_words<DIM> *v, int32_t seen0, int32_t seen1)
{
	uint32_t one = F::pack(1, 1), ones[4] = { one, one, one, one };
	int32_t t = (int32_t)threadIdx.x % 4, found = 0;

#pragma unroll
	for (int r = 0; r < 4; r++)
#pragma unroll
		for (int n = 0; n < DIM / 16; n++)
			found |= odd<F>(v[r].w[n]);
	if (!__any_sync(FULL_WARP, found))
		return;
#pragma unroll 1
	for (int32_t row = 0; row < 16; row++)
#pragma unroll
		for (int n = 0; n < DIM / 16; n++)
#pragma unroll
			for (int j = 0; j < 2; j++) {
				uint32_t x = row < 8   ? row % 2 ? v[1].w[n] : v[0].w[n]
				               : row % 2 ? v[3].w[n]
				                       : v[2].w[n];
				float c[4] = { 0, 0, 0, 0 };

				x = j ? x >> 16 : x & 0xffffu;
				x = row % 8 / 2 == t && odd<F>(x) ? x << row % 2 * 16 : 0;
				mma16(F(), c, ones, row < 8 ? x : 0, row < 8 ? 0 : x);
				for (int b = 0; b < 4; b++)
					acc[2 * n + j][b] += row < (b < 2 ? seen0 : seen1) ? c[b] : 0;
			}
#pragma unroll
	for (int r = 0; r < 4; r++)
#pragma unroll
		for (int n = 0; n < DIM / 16; n++)
			v[r].w[n] = without_odd<F>(v[r].w[n]);
}

/* Return the power of two that scales a query's largest value to the range from 1 to 2, so that 16-bit operands neither
 * overflow nor underflow. Called by all lanes of a warp. */
static __device__ inline float query_unit(const float *q, int32_t dim)
{
	float most = 0;
	int32_t e;

	for (int32_t d = (int32_t)threadIdx.x % WARP; d < dim; d += WARP)
		most = fmaxf(most, fabsf(q[d]));
	most = warp_max(most);
	e = (int32_t)(__float_as_uint(most) >> 23 & 255) - 127;
	e = most > 0 && e < 128 ? max(min(e, 100), -100) : 0;
	return __uint_as_float((uint32_t)(127 - e) << 23);
}

#endif
