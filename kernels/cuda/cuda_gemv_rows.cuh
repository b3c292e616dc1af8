/* kernels/cuda/cuda_gemv_rows.cuh (private to kernels/cuda/) - device code that multiplies rows of a weight by up to
 * eight tokens: quantised x, and what a warp computes (cuda_gemv.cu explains both). */
#ifndef WEIR_CUDA_GEMV_ROWS_CUH
#define WEIR_CUDA_GEMV_ROWS_CUH

#include "kernels/cuda/cuda_gemv.cuh"

/* WARPS is the number of warps of a thread block. ROWS is the number of rows that a warp computes at a time. GROUP is
 * the number of rows that a block computes at a time. */
enum { WARPS = 8, ROWS = 2, GROUP = WARPS * ROWS };
/* SHARED_BYTES is the maximum size of shared memory for x. ACT_BYTES is the size of 32 quantised values of x: 64 bytes
 * of integers and a struct act_meta. */
enum { SHARED_BYTES = 80 << 10, ACT_BYTES = 80 };

/* nvcc allocates registers best if all loops are inlined into one function. A host compiler takes a minute for such a
 * function, so the emulated build keeps the loops in functions. */
#ifdef __CUDACC__
#define LOOP_INLINE __forceinline__
#else
#define LOOP_INLINE __attribute__((noinline))
#endif

/* Load 16 bytes of a weight without keeping them in L1, because they are read only once. */
static __device__ __forceinline__ uint4 load_stream(const uint8_t *p)
{
#ifdef __CUDACC__
	uint4 v;

	asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
	             : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
	             : "l"(p));
	return v;
#else
	return *(const uint4 *)p;
#endif
}

static __device__ __forceinline__ void prefetch(const uint8_t *p)
{
#ifdef __CUDACC__
	asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
	(void)*(const volatile uint8_t *)p;
#endif
}

/* ---- quantised x ----
 *
 * One token has five arrays, each with 16 bytes per block of 32 values: high bytes of values 0 .. 15; high bytes of
 * values 16 .. 31; low bytes of values 0 .. 15; low bytes of values 16 .. 31; struct act_meta. So lanes that read
 * neighbouring blocks have no bank conflicts. */

struct __align__(16) act_meta
{
	float d;
	int32_t sum[2]; /* sums of q over the values from 0 to 15 and from 16 to 31 */
	float total;    /* d * (sum[0] + sum[1]) */
};

/* Quantise n blocks of 32 values of x, from block number `block` on. Eight lanes share a block of values. The arrays in
 * `out` have room for `blocks` blocks. Called by all threads of a thread block. */
static __device__ __forceinline__ void acts_make(uint8_t *out, int blocks, const float *x, int block, int n)
{
	for (int t0 = (int)(threadIdx.x / WARP) * WARP; t0 < 8 * n; t0 += (int)blockDim.x) {
		int t = t0 + (int)(threadIdx.x % WARP), j = t & 7, at = block + (t >> 3), q[4], sum, other;
		float4 v =
			t < 8 * n ? __ldg((const float4 *)x + 8 * (size_t)block + (size_t)t) : make_float4(0, 0, 0, 0);
		unsigned most = max(max(__float_as_uint(v.x) & 0x7fffffffu, __float_as_uint(v.y) & 0x7fffffffu),
		                    max(__float_as_uint(v.z) & 0x7fffffffu, __float_as_uint(v.w) & 0x7fffffffu));
		float d, by, top;
		uint32_t high, low;

		for (int lanes = 1; lanes < 8; lanes *= 2)
			most = max(most, __shfl_xor_sync(FULL_WARP, most, lanes));
		if (most >= 0x7f800000u)
			v = make_float4(0, 0, 0, 0);
		/* If the largest value of a block is very large or very small, scale the block by a power of two first:
		 * the reciprocal of such a value is not in the range of f32. */
		top = __uint_as_float(most);
		by = most > 0x5f000000u ? 0x1p-64f : most < 0x1f000000u ? 0x1p64f : 1.0f;
		d = most >= 0x7f800000u ? __uint_as_float(0x7fc00000u) : top * (1.0f / 32639.0f);
		top *= by;
		/* Adding 1.5 * 2^23 rounds a float to an integer. The integer is then in the float's low bits. */
		float inv = top > 0 && most < 0x7f800000u ? 32639.0f / top : 0.0f, magic = 12582912.0f;

		q[0] = __float_as_int(__fadd_rn(__fmul_rn(v.x * by, inv), magic));
		q[1] = __float_as_int(__fadd_rn(__fmul_rn(v.y * by, inv), magic));
		q[2] = __float_as_int(__fadd_rn(__fmul_rn(v.z * by, inv), magic));
		q[3] = __float_as_int(__fadd_rn(__fmul_rn(v.w * by, inv), magic));
		low = __byte_perm(__byte_perm((uint32_t)q[0], (uint32_t)q[1], 0x0040),
		                  __byte_perm((uint32_t)q[2], (uint32_t)q[3], 0x0040), 0x5410);
		high = __byte_perm(__byte_perm((uint32_t)q[0] + 128u, (uint32_t)q[1] + 128u, 0x0051),
		                   __byte_perm((uint32_t)q[2] + 128u, (uint32_t)q[3] + 128u, 0x0051), 0x5410);
		/* Each q[i] is an integer plus 0x4b400000, the bits of 1.5 * 2^23. So the sum of four q[i] has this
		 * constant four times. */
		sum = (int)((uint32_t)q[0] + (uint32_t)q[1] + (uint32_t)q[2] + (uint32_t)q[3] - 4u * 0x4b400000u);
		sum += __shfl_xor_sync(FULL_WARP, sum, 1);
		sum += __shfl_xor_sync(FULL_WARP, sum, 2);
		other = __shfl_xor_sync(FULL_WARP, sum, 4);
		if (t < 8 * n) {
			uint8_t *p = out + 16 * ((size_t)(j >> 2) * (size_t)blocks + (size_t)at) + 4 * (j & 3);

			*(uint32_t *)p = high;
			*(uint32_t *)(p + 32 * (size_t)blocks) = low;
			if (!j)
				((struct act_meta *)(out + 64 * (size_t)blocks))[at] = { d,
					                                                 { sum, other },
					                                                 d * (float)(sum + other) };
		}
	}
}

/* Put n blocks of 32 quantised values of every token into shared memory, from block number `block` on. A single token
 * is quantised by this function; several tokens were quantised by acts_quantise() before. `a` has the members x, acts,
 * n and cols of struct gemv_args. */
template <class A> static __device__ __forceinline__ void acts_fill(uint8_t *out, const A &a, int block, int n)
{
	int blocks = a.cols / 32;

	if (a.n == 1) {
		acts_make(out, n, a.x + 32 * (size_t)block, 0, n);
		return;
	}
	for (int i = (int)threadIdx.x; i < 5 * n * a.n; i += (int)blockDim.x) {
		/* number of the array in a.acts; a token has five arrays, so token t has the arrays from 5 t to 5 t +
		 * 4 */
		int plane = i / n;

		((uint4 *)out)[i] =
			__ldg((const uint4 *)a.acts + (size_t)plane * (size_t)blocks + (size_t)(block + i % n));
	}
}

/* ---- quantised rows ---- */

static __device__ __forceinline__ uint32_t word_of(const uint4 &v, int i)
{
	return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* A chunk is the part of a row that a lane reads at a time. `m` has 16 bytes with the low bits of 16, 32 or 64 weights.
 * `e` has the other bits of these weights, and `h` has their scales (planes main, extra and head in cuda_quant.cuh). */
struct chunk {
	uint4 m, h;
	uint2 e;
};

/* Return the index of the block of 32 weights to which chunk i belongs. If a chunk has two blocks, return the index of
 * the first. */
template <int T> static __device__ __forceinline__ int chunk_block(int i)
{
	return quant_main_bits(T) == 8 ? i >> 1 : quant_main_bits(T) == 4 ? i : 2 * i;
}

/* Load chunk i of a row. */
template <int T>
static __device__ __forceinline__ struct chunk chunk_load(const struct weight_rows &w, const uint8_t *row, int i)
{
	struct chunk c;
	int block = chunk_block<T>(i);

	c.m = load_stream(row + 16 * (size_t)i);
	c.e = make_uint2(0, 0);
	if (quant_extra_bits(T) && quant_main_bits(T) == 4 && quant_extra_bits(T) == 1)
		c.e.x = load_u32(row + w.extra + 4 * (size_t)block);
	else if (quant_extra_bits(T))
		c.e = __ldg((const uint2 *)(row + w.extra + 8 * (size_t)i));
	c.h = quant_head<T>(row, w.head, w.head2, block);
	return c;
}

/* Multiply chunk i of each of ROWS rows by the activations (`acts`) of n tokens. Add the product of row r and token t
 * to acc[r][t]. If the type of the weight has 2 main bits (cuda_quant.cuh), a chunk has two blocks of 32 weights, and
 * `part` (0 or 1) is the index of the block to multiply. */
template <int T, int N>
static __device__ __forceinline__ void chunk_times(const struct chunk (&c)[ROWS], int i, int part, const uint8_t *acts,
                                                   int blocks, int n, float (&acc)[ROWS][N])
{
	constexpr int BITS = quant_main_bits(T), WORDS = BITS == 8 ? 4 : 8, SCALES = quant_scales(T);
	int block = chunk_block<T>(i) + part, half = BITS == 8 ? i & 1 : 0;
	float s[ROWS][SCALES], m[ROWS][SCALES];
	uint32_t q[ROWS][WORDS];

#pragma unroll
	for (int r = 0; r < ROWS; r++) {
#pragma unroll
		for (int k = 0; k < WORDS; k++) {
			uint32_t e = quant_extra_bits(T) == 2 ? (k < 4 ? c[r].e.x : c[r].e.y)
			             : part                   ? c[r].e.y
			                                      : c[r].e.x;
			int at = BITS == 8 ? k : BITS == 4 ? k & 3 : 2 * part + (k >> 2);

			q[r][k] = quant_levels<T>(word_of(c[r].m, at), e, k);
		}
#pragma unroll
		for (int h = 0; h < SCALES; h++)
			quant_scale<T>(c[r].h, block, h, &s[r][h], &m[r][h]);
	}
#pragma unroll
	for (int t = 0; t < N; t++) {
		const uint4 *x = (const uint4 *)acts + (size_t)min(t, n - 1) * 5 * (size_t)blocks + block;
		struct act_meta meta = *(const struct act_meta *)(x + 4 * blocks);
		uint4 high[2], low[2];

		high[0] = x[half * blocks];
		low[0] = x[(2 + half) * blocks];
		if (WORDS == 8) {
			high[1] = x[blocks];
			low[1] = x[3 * blocks];
		}
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
			int sum[2];

#pragma unroll
			for (int h = 0; h < WORDS / 4; h++) {
				int a = 0, b = 0;

#pragma unroll
				for (int k = 0; k < 4; k++) {
					a = __dp4a((int)q[r][4 * h + k], (int)word_of(high[h], k), a);
					b = __dp4a((int)q[r][4 * h + k], (int)word_of(low[h], k), b);
				}
				sum[h] = 256 * a + b;
				if (quant_offset(T))
					sum[h] -= quant_offset(T) * meta.sum[h];
			}
			if (WORDS == 8 && SCALES == 1)
				sum[0] += sum[1];
			acc[r][t] += s[r][0] * (meta.d * (float)sum[0]);
			if (SCALES == 2)
				acc[r][t] += s[r][SCALES - 1] * (meta.d * (float)sum[1]);
			if (quant_has_min(T) && SCALES == 1)
				acc[r][t] += m[r][0] * meta.total;
			else if (quant_has_min(T))
				acc[r][t] += m[r][0] * (meta.d * (float)meta.sum[0]) +
				             m[r][SCALES - 1] * (meta.d * (float)meta.sum[1]);
		}
	}
}

/* Multiply ROWS rows by x, and add the products to acc. The product covers `blocks` blocks of 32 columns, from block
 * number `block` on. A lane loads each chunk of weights AHEAD steps before it multiplies the chunk. The number of
 * registers limits AHEAD. */
template <int T, int N>
static __device__ LOOP_INLINE void rows_quant(const struct weight_rows &w, const uint8_t *const (&row)[ROWS], int block,
                                              int blocks, const uint8_t *acts, int n, float (&acc)[ROWS][N])
{
	constexpr int AHEAD = N > 4 ? 1 : N > 1 || quant_extra_bits(T) ? 2 : 4, PARTS = quant_main_bits(T) == 2 ? 2 : 1;
	int lane = (int)(threadIdx.x % WARP), chunks = blocks * quant_main_bits(T) / 4,
	    first = block * quant_main_bits(T) / 4;
	struct chunk ring[AHEAD][ROWS] = {};

#pragma unroll
	for (int u = 0; u < AHEAD; u++)
		if (lane + WARP * u < chunks)
#pragma unroll
			for (int r = 0; r < ROWS; r++)
				ring[u][r] = chunk_load<T>(w, row[r], first + lane + WARP * u);
#pragma unroll 1
	for (int i0 = lane; i0 < chunks; i0 += WARP * AHEAD)
#pragma unroll
		for (int u = 0; u < AHEAD; u++) {
			int i = i0 + WARP * u;

			if (i >= chunks)
				break;
#pragma unroll
			for (int part = 0; part < PARTS; part++)
				chunk_times<T, N>(ring[u], i, part, acts, blocks, n, acc);
			if (i + WARP * AHEAD < chunks)
#pragma unroll
				for (int r = 0; r < ROWS; r++)
					ring[u][r] = chunk_load<T>(w, row[r], first + i + WARP * AHEAD);
		}
}

/* ---- rows of floats ---- */

/* Convert 16 bytes of a row of floats to f32: 4 values of f32, or 8 of f16 or bf16. */
template <int T> static __device__ __forceinline__ void float_values(const uint4 &v, float out[8])
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		uint32_t u = word_of(v, i);

		if (T == DT_F32) {
			out[i] = __uint_as_float(u);
		} else if (T == DT_BF16) {
			out[2 * i] = __uint_as_float(u << 16);
			out[2 * i + 1] = __uint_as_float(u & 0xffff0000u);
		} else {
			out[2 * i] = half_bits(u & 0xffff);
			out[2 * i + 1] = half_bits(u >> 16);
		}
	}
}

/* Multiply two rows of floats by x, and add the products to acc. A lane loads each chunk of weights AHEAD steps before
 * it multiplies the chunk. */
template <int T, int N>
static __device__ LOOP_INLINE void rows_float(const uint8_t *const (&row)[ROWS], const float *x, int cols, int n,
                                              float (&acc)[ROWS][N])
{
	constexpr int AHEAD = N > 4 ? 2 : 4, VALUES = T == DT_F32 ? 4 : 8;
	int lane = (int)(threadIdx.x % WARP), chunks = cols / VALUES;
	uint4 ring[AHEAD][ROWS] = {};

	if (cols % VALUES) { /* a row of x ends within a chunk, so the next row is not aligned */
		for (int i = lane; i < cols; i += WARP)
#pragma unroll
			for (int r = 0; r < ROWS; r++) {
				float v = weight_float(T, row[r], i);

#pragma unroll
				for (int t = 0; t < N; t++)
					acc[r][t] = fmaf(v, __ldg(x + (size_t)min(t, n - 1) * (size_t)cols + (size_t)i),
					                 acc[r][t]);
			}
		return;
	}
#pragma unroll
	for (int u = 0; u < AHEAD; u++)
		if (lane + WARP * u < chunks)
#pragma unroll
			for (int r = 0; r < ROWS; r++)
				ring[u][r] = load_stream(row[r] + 16 * (size_t)(lane + WARP * u));
#pragma unroll 1
	for (int i0 = lane; i0 < chunks; i0 += WARP * AHEAD)
#pragma unroll
		for (int u = 0; u < AHEAD; u++) {
			int i = i0 + WARP * u;
			float v[ROWS][8];

			if (i >= chunks)
				break;
#pragma unroll
			for (int r = 0; r < ROWS; r++)
				float_values<T>(ring[u][r], v[r]);
			if (i + WARP * AHEAD < chunks)
#pragma unroll
				for (int r = 0; r < ROWS; r++)
					ring[u][r] = load_stream(row[r] + 16 * (size_t)(i + WARP * AHEAD));
#pragma unroll
			for (int t = 0; t < N; t++) {
				const float4 *at =
					(const float4 *)(x + (size_t)min(t, n - 1) * (size_t)cols + (size_t)i * VALUES);

#pragma unroll
				for (int h = 0; h < VALUES / 4; h++) {
					float4 b = __ldg(at + h);

#pragma unroll
					for (int r = 0; r < ROWS; r++) {
						acc[r][t] = fmaf(v[r][4 * h], b.x, acc[r][t]);
						acc[r][t] = fmaf(v[r][4 * h + 1], b.y, acc[r][t]);
						acc[r][t] = fmaf(v[r][4 * h + 2], b.z, acc[r][t]);
						acc[r][t] = fmaf(v[r][4 * h + 3], b.w, acc[r][t]);
					}
				}
			}
		}
}

/* ---- a warp's rows ---- */

/* Multiply rows row0 and row0 + 1 of w by x, and set acc to the products. `p` is the address of the weight's first row,
 * instead of w.p. For quantised weights, shared memory has
 * a.tile columns of x at a time. *ready is the first of these columns, or -1 if none is loaded yet. `a` has the members x, acts, n,
 * cols and tile of struct gemv_args. */
template <int N, class A>
static __device__ __forceinline__ void rows_times(const A &a, const struct weight_rows &w, const uint8_t *p, int row0,
                                                  uint8_t *acts, int *ready, float (&acc)[ROWS][N])
{
	const uint8_t *row[ROWS];

#pragma unroll
	for (int r = 0; r < ROWS; r++) {
		/* A row number after the last row is replaced by the last row. The result of such a row is not
		 * stored. */
		row[r] = p + (size_t)min(row0 + r, w.rows - 1) * w.stride;
#pragma unroll
		for (int t = 0; t < N; t++)
			acc[r][t] = 0;
	}
	if (w.type == DT_F16) {
		rows_float<DT_F16, N>(row, a.x, a.cols, a.n, acc);
		return;
	} else if (w.type == DT_BF16) {
		rows_float<DT_BF16, N>(row, a.x, a.cols, a.n, acc);
		return;
	} else if (w.type == DT_F32) {
		rows_float<DT_F32, N>(row, a.x, a.cols, a.n, acc);
		return;
	}
#pragma unroll 1
	for (int col = 0; col < a.cols; col += a.tile) {
		int block = col / 32, blocks = min(a.tile, a.cols - col) / 32;

		if (*ready != col) {
			unsigned from = (unsigned)((uint64_t)w.extra * (unsigned)col / (unsigned)a.cols),
				 to = min(w.extra, from + 2048);

#pragma unroll
			for (int r = 0; r < ROWS; r++)
				for (unsigned i = from + threadIdx.x % WARP * 32; i < to; i += WARP * 32)
					prefetch(row[r] + i);
			__syncthreads();
			acts_fill(acts, a, block, blocks);
			__syncthreads();
			*ready = col;
		}
		switch (w.type) {
#define CASE(T)                                                                                                        \
	case T: rows_quant<T, N>(w, row, block, blocks, acts, a.n, acc); break
			CASE(DT_Q4_0);
			CASE(DT_Q4_1);
			CASE(DT_Q5_0);
			CASE(DT_Q5_1);
			CASE(DT_Q8_0);
			CASE(DT_Q2_K);
			CASE(DT_Q3_K);
			CASE(DT_Q4_K);
			CASE(DT_Q5_K);
			CASE(DT_Q6_K);
			CASE(DT_IQ4_NL);
			CASE(DT_IQ4_XS);
			CASE(DT_MXFP4);
#undef CASE
		}
	}
}

#endif
