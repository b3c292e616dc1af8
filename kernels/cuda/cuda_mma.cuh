/* kernels/cuda/cuda_mma.cuh (private to kernels/cuda/) - tensor core products of a warp, and asynchronous copies to
 * shared memory.
 *
 * A product of a warp is C[16][8] += A[16][16] B[16][8]. A and B are in f16 or bf16, C is in f32. Lane 4 g + t holds
 * these elements:
 * - a[0] has row g of A, columns 2t and 2t + 1. a[1] has row g + 8, same columns.
 * - a[2] has row g of A, columns 2t + 8 and 2t + 9. a[3] has row g + 8, same columns.
 * - b0 has column g of B, rows 2t and 2t + 1. b1 has column g, rows 2t + 8 and 2t + 9.
 * - c[0] and c[1] have row g of C, columns 2t and 2t + 1. c[2] and c[3] have row g + 8, same columns.
 *
 * A word of A or B has two values, the first one in its low half. */
#ifndef WEIR_CUDA_MMA_CUH
#define WEIR_CUDA_MMA_CUH

#include "kernels/cuda/language.cuh"
#ifdef __CUDACC__
#include <cuda_bf16.h>
#endif

/* The 16-bit formats f16 and bf16, two values to a word. */
struct as_f16 {
	static __device__ inline uint32_t pack(float lo, float hi)
	{
		__half2 h = __floats2half2_rn(lo, hi);
		uint32_t w;

		memcpy(&w, &h, sizeof w);
		return w;
	}
	static __device__ inline float2 unpack(uint32_t w)
	{
		return make_float2(__half2float(__ushort_as_half((unsigned short)(w & 0xffff))),
		                   __half2float(__ushort_as_half((unsigned short)(w >> 16))));
	}
	/* exponent bits of infinity and NaN */
	enum { ODD = 0x7c00 };
};
struct as_bf16 {
	static __device__ inline uint32_t pack(float lo, float hi)
	{
		__nv_bfloat162 h = __floats2bfloat162_rn(lo, hi);
		uint32_t w;

		memcpy(&w, &h, sizeof w);
		return w;
	}
	static __device__ inline float2 unpack(uint32_t w)
	{
		return make_float2(__uint_as_float(w << 16), __uint_as_float(w & 0xffff0000u));
	}
	enum { ODD = 0x7f80 };
};

#ifdef __CUDACC__

/* Compute one product C += A B (see the top of this file). Called by all lanes of a warp. */
static __device__ inline void mma16(as_f16, float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	asm volatile(
		"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ inline void mma16(as_bf16, float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	asm volatile(
		"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Start copying 16 bytes from device memory to shared memory, or writing zeros if `there` is 0. copies_wait() waits for
 * the copy. */
static __device__ inline void copy16(void *shared, const void *from, int there)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)),
	             "l"(from), "r"(there ? 16 : 0)
	             : "memory");
}

/* End a group of copies. The group has all copies that this thread has started since its last copies_end(). */
static __device__ inline void copies_end(void)
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Wait until all groups of this thread except the last LEFT groups are complete. Other threads see the copied bytes
 * after a barrier. */
template <int LEFT> static __device__ inline void copies_wait(void)
{
	asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

#else

/* Compute the product in plain C++. The lanes exchange their operands through host_lanes(). */
template <class F> static inline void mma16(F, float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	uint32_t(*box)[6] = host_lanes(), lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
	float rows[2][16], cols[2][16];

	memcpy(box[lane], a, 16);
	box[lane][4] = b0;
	box[lane][5] = b1;
	__syncwarp();
	for (uint32_t k = 0; k < 16; k += 2)
		for (uint32_t i = 0; i < 2; i++) {
			float2 x = F::unpack(box[g * 4 + k % 8 / 2][i + k / 8 * 2]),
			       y = F::unpack(box[(2 * t + i) * 4 + k % 8 / 2][4 + k / 8]);

			rows[i][k] = x.x;
			rows[i][k + 1] = x.y;
			cols[i][k] = y.x;
			cols[i][k + 1] = y.y;
		}
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 16; k++)
			c[i] += rows[i / 2][k] * cols[i % 2][k];
	__syncwarp();
}

/* In the emulator, a copy is not complete before copies_wait(), so that tests find a missing wait. */
static inline void copy16(void *shared, const void *from, int there)
{
	host_copy(shared, from, there);
}
static inline void copies_end(void)
{
	host_copies_end();
}
template <int LEFT> static inline void copies_wait(void)
{
	host_copies_wait(LEFT);
}

#endif
#endif
