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

/* Put n blocks of 32 quantised values of every token into shared memory, from block number `block` on. A single token
 * is quantised by this function; several tokens were quantised by acts_quantise() before. */
static __device__ __forceinline__ void acts_fill(uint8_t *out, const struct gemv_args &a, int block, int n)
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

/* ---- the kernel ---- */

/* Multiply rows row0 and row0 + 1 of w by x, and set acc to the products. For quantised weights, shared memory has
 * a.tile columns of x at a time. *ready is the first of these columns, or -1 if none is loaded yet. */
template <int N>
static __device__ __forceinline__ void rows_times(const struct gemv_args &a, const struct weight_rows &w, int row0,
                                                  uint8_t *acts, int *ready, float (&acc)[ROWS][N])
{
	const uint8_t *row[ROWS];

#pragma unroll
	for (int r = 0; r < ROWS; r++) {
		/* A row number after the last row is replaced by the last row. The result of such a row is not
		 * stored. */
		row[r] = w.p + (size_t)min(row0 + r, w.rows - 1) * w.stride;
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

			rows_times<N>(a, a.product[p + pass].w, row0, acts, &ready, acc);
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
