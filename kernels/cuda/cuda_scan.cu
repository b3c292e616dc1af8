/* kernels/cuda/cuda_scan.cu - key_scan: scores of all keys of a layer for one token.
 *
 * There are 2 launches. The first launch computes raw scores and, for each tile (a range of keys), their maximum and
 * the sum of exponentials. The second launch computes the log softmax of every query head and reduces it over the
 * group. page_scan (cuda_compare.cu) uses the same launches.
 *
 * Key sketches (low-bit codes of keys, kernels/common/key_sketch.h): tensor cores multiply a panel of 16 keys with 8
 * queries, in bytes. A word of the panel, shifted and masked, is an operand. So a key takes only a few instructions,
 * and memory bandwidth limits the scan. A key of 128 values at 2 bits has 34 bytes, which are read once for 8 query
 * heads. Products are summed as integers, so raw scores have the same bits as on the CPU.
 *
 * Planes (the keys themselves): eight lanes read a row, 8 values each at a time; a warp reads 16 rows at a time. Sums
 * are floats.
 *
 * The number of blocks is computed from the number of keys, rounded up to a power of two. */
#include "kernels/cuda/cuda_select.cuh"

enum {
	SCAN_THREADS = 256,
	SCAN_WARPS = SCAN_THREADS / WARP,
	SCAN_HEADS = 8,  /* maximum number of query heads that a block computes */
	FINISH_EACH = 4, /* number of keys that a thread computes in the second launch */
	FINISH_ROWS = SCAN_THREADS * FINISH_EACH
};

/* Clear the counters scan_launch.zero, which later launches use. The first block of each KV head clears the counters of
 * this head. */
static __device__ inline void scan_clear(const struct scan_launch &a)
{
	if (a.zero && blockIdx.x == 0 && blockIdx.z == 0)
		for (int32_t i = (int32_t)threadIdx.x; i < a.n_zero; i += SCAN_THREADS)
			a.zero[(int64_t)blockIdx.y * a.n_zero + i] = 0;
}

/* A running softmax: the largest raw score so far, and the sum of exp((score - max) * mult). */
struct softmax {
	float max, sum;
};

/* Merge the softmax of other keys into *a. */
static __device__ inline void softmax_join(struct softmax *a, float max, float sum, float mult)
{
	float top = fmaxf(a->max, max);

	a->sum = a->sum * scan_exp(a->max - top, mult) + sum * scan_exp(max - top, mult);
	a->max = top;
}

/* Merge into *a the softmax of another lane, whose number is this lane's number xor `distance`. */
static __device__ inline void softmax_shuffle(struct softmax *a, int distance, float mult)
{
	float max = __shfl_xor_sync(FULL_WARP, a->max, distance), sum = __shfl_xor_sync(FULL_WARP, a->sum, distance);

	softmax_join(a, max, sum, mult);
}

/* Merge part[head][warp] over the warps of a block, and store the maximum and the sum of the tile for each head. */
static __device__ inline void scan_tile_end(const struct scan_launch &a, struct softmax (*part)[SCAN_WARPS],
                                            const float *mult, int32_t head0, int32_t n_q)
{
	int32_t r = (int32_t)threadIdx.x;

	__syncthreads();
	if (r < n_q) {
		struct softmax all = part[r][0];
		int64_t at = (int64_t)(head0 + r) * a.tiles + blockIdx.x;

		for (int32_t w = 1; w < SCAN_WARPS; w++)
			softmax_join(&all, part[r][w].max, part[r][w].sum, mult[r]);
		a.max[at] = all.max;
		a.sum[at] = all.sum;
		if (blockIdx.x == 0)
			a.mult[head0 + r] = mult[r];
	}
}

/* ---- sketches ---- */

/* A tensor core product of a warp, in bytes: C[16][8] += A[16][32] B[32][8]. A is unsigned, B is signed. Lane 4 g + t
 * holds these elements:
 * - a[0] has row g of A, columns 4t .. 4t + 3. a[1] has row g + 8, same columns.
 * - a[2] has row g of A, columns 4t + 16 .. 4t + 19. a[3] has row g + 8, same columns.
 * - b0 has column g of B, rows 4t .. 4t + 3. b1 has column g, rows 4t + 16 .. 4t + 19.
 * - c[0] and c[1] have row g of C, columns 2t and 2t + 1. c[2] and c[3] have row g + 8, same columns. */
#ifdef __CUDACC__
static __device__ inline void mma_bytes(int32_t c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	asm volatile(
		"mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
static void mma_bytes(int32_t c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	uint32_t(*box)[6] = host_lanes(), lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;

	memcpy(box[lane], a, 16);
	box[lane][4] = b0;
	box[lane][5] = b1;
	__syncwarp();
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t k = 0; k < 32; k++) {
			uint32_t x = box[4 * g + k % 16 / 4][i / 2 + k / 16 * 2] >> (k % 4 * 8) & 255;
			uint32_t y = box[4 * (2 * t + i % 2) + k % 16 / 4][4 + k / 16] >> (k % 4 * 8) & 255;

			c[i] += (int32_t)x * (int8_t)y;
		}
	__syncwarp();
}
#endif

/* Quantise a transformed query x to integers q, so that scale * x is about mult * q. Return mult. Called by all lanes
 * of a warp.
 *
 * If `wide` is 0, an integer q is the byte hi. If `wide` is 1, it is 256 hi + lo. hi and lo [groups * 64] are outputs;
 * `lo` is not written if `wide` is 0. sum [groups][SCAN_HEADS] gets, for each group of 64 integers, their sum times
 * `most`, the largest code of a key. */
static __device__ inline float query_bytes(const float *x, int8_t *hi, int8_t *lo, int32_t *sum, int32_t dim,
                                           float scale, int wide, int32_t most)
{
	/* 1.5 * 2^23: adding and subtracting this number rounds to the nearest integer */
	const float round = 12582912.0f;
	int32_t lane = (int32_t)threadIdx.x % WARP;
	uint32_t bits = 0;
	float d, inv;

	/* First compute `bits`, the largest magnitude of a query value, as the bits of a float. For a two-bit key
	 * sketch (`wide` is 0), `bits` is instead the largest sum of the magnitudes of four query values with the
	 * indices i, i + 4, i + 8 and i + 12. These are multiplied with codes in the same byte of a key, and on the CPU
	 * the sum of the four products must fit in a byte. */
	for (int32_t i = lane; i < dim; i += WARP) {
		float size = fabsf(__fmul_rn(x[i], scale));

		for (int32_t k = i + 4; !wide && i % 16 < 4 && k < i + 16 && k < dim; k += 4)
			size = __fadd_rn(size, fabsf(__fmul_rn(x[k], scale)));
		bits = max(bits, __float_as_uint(size));
	}
	bits = __reduce_max_sync(FULL_WARP, bits);
	d = __fdiv_rn(__uint_as_float(bits), wide ? 127.0f : 40.0f);
	/* For a subnormal d, 1 / d would overflow, so treat the query as zeros. */
	if (d < 1.17549435e-38f)
		d = 0;
	/* Bytes cannot represent NaN or infinity. The factor NaN makes all scores NaN. */
	if (bits >= 0x7f800000u)
		d = NAN;
	inv = d > 0 ? __fdiv_rn(1.0f, d) : 0;
	for (int32_t g = 0; g * SKETCH_GROUP < dim; g++) {
		int32_t whole = 0, rest = 0;

		for (int32_t i = g * SKETCH_GROUP + lane; i < (g + 1) * SKETCH_GROUP; i += WARP) {
			float v = i < dim && d > 0 ? __fmul_rn(__fmul_rn(x[i], scale), inv) : 0;
			float r = __fsub_rn(__fadd_rn(v, round), round);

			hi[i] = (int8_t)(int32_t)r;
			whole += (int32_t)r;
			if (wide) {
				float low = __fsub_rn(__fadd_rn(__fmul_rn(__fsub_rn(v, r), 256.0f), round), round);

				low = low > 127 ? 127 : low;
				lo[i] = (int8_t)(int32_t)low;
				rest += (int32_t)low;
			}
		}
		whole = __reduce_add_sync(FULL_WARP, whole);
		rest = __reduce_add_sync(FULL_WARP, rest);
		if (lane == 0)
			sum[g * SCAN_HEADS] = most * (wide ? 256 * whole + rest : whole);
	}
	return wide ? d / 256 : d;
}

/* Return q . mean * unit: the part of the score that is the same for all keys of a block. Sixteen partial sums are
 * added in the same order as on the CPU. Called by all lanes of a warp. */
static __device__ inline float mean_score(const float *q, const float *mean, int32_t dim, float unit)
{
	int32_t lane = (int32_t)threadIdx.x % WARP;
	float sum = 0;

	for (int32_t i = lane; i < dim && lane < 16; i += 16)
		sum = fmaf(q[i], mean[i], sum);
	for (int d = 8; d > 0; d /= 2)
		sum = __fadd_rn(sum, __shfl_xor_sync(FULL_WARP, sum, d));
	return __fmul_rn(sum, unit);
}

/* Compute the scores of two panels of 16 keys with eight queries. `other` is the byte offset of the second panel.
 * `base` has, for each query, the score of the mean of the keys' block. Both panels are loaded before either is used.
 *
 * Lane 4 g + t gets the scores of queries 2t and 2t + 1 with keys g and g + 8 of both panels. For panel p, s[p][0] and
 * s[p][1] are the scores of the two queries with key g; s[p][2] and s[p][3] are their scores with key g + 8. */
template <int BITS>
static __device__ inline void panel_scores(float s[2][4], const uint8_t *panel, int64_t other, const uint16_t *scales,
                                           const uint2 *frag, const int32_t *sum, const float *base, int32_t dim)
{
	constexpr int WORDS = BITS / 2, WIDE = BITS != 2, GROUP_BYTES = SKETCH_GROUP * BITS * 2;
	constexpr uint32_t MASK = ((1u << BITS) - 1) * 0x01010101u;
	int32_t lane = (int32_t)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
	float scale[2][2];

	for (int i = 0; i < 8; i++)
		s[i / 4][i % 4] = base[2 * t + i % 2];
	for (int i = 0; i < 4; i++)
		scale[i / 2][i % 2] = half_of(__ldg(scales + (other ? SKETCH_PANEL * (i / 2) : 0) + g + 8 * (i % 2)));
#pragma unroll(BITS == 8 ? 1 : 2)
	for (int32_t d = 0; d < dim; d += SKETCH_GROUP) {
		int32_t units = (min(dim - d, (int32_t)SKETCH_GROUP) * BITS + 31) / 32;
		uint32_t word[2][2][WORDS];

		for (int p = 0; p < 2; p++) {
			const uint32_t *unit =
				(const uint32_t *)(panel + p * other + (int64_t)(d / SKETCH_GROUP) * GROUP_BYTES);

			for (int i = 0; i < WORDS; i++)
				for (int k = 0; k < 2; k++)
					word[p][k][i] =
						t + 4 * i < units ? __ldg(unit + 16 * (t + 4 * i) + g + 8 * k) : 0;
		}
		for (int p = 0; p < 2; p++) {
			int32_t dot[4] = { 0 }, low[4] = { 0 };

			/* The 64 values of a group may be multiplied in any order. This loop and query_offset() must
			 * use the same order. */
			for (int h = 0; h < 2; h++) {
				constexpr int PAIR = BITS == 8;
				const int w0 = BITS == 2 ? 0 : BITS == 4 ? h : 2 * h, w1 = w0 + PAIR;
				const int s0 = BITS == 2 ? 4 * h : 0, s1 = BITS == 2 ? s0 + 2 : BITS == 4 ? 4 : 0;
				uint32_t a[4] = { word[p][0][w0] >> s0 & MASK, word[p][1][w0] >> s0 & MASK,
					          word[p][0][w1] >> s1 & MASK, word[p][1][w1] >> s1 & MASK };
				uint2 b = frag[h * WARP + lane];

				mma_bytes(dot, a, b.x, b.y);
				if (WIDE) {
					b = frag[(2 + h) * WARP + lane];
					mma_bytes(low, a, b.x, b.y);
				}
			}
			for (int i = 0; i < 4; i++) {
				int32_t x = WIDE ? dot[i] * 256 + low[i] : dot[i];

				s[p][i] = fmaf(scale[p][i / 2], (float)(2 * x - sum[2 * t + i % 2]), s[p][i]);
			}
		}
		frag += (WIDE ? 4 : 2) * WARP;
		sum += SCAN_HEADS;
	}
}

/* Lane t holds four consecutive query values of a group of 64 in each word of operand B. Return the index of the first
 * of these values in the group. `part` is the number of the word, 0 or 1. `h` is the number of the tensor core
 * product. */
template <int BITS> static __device__ inline int32_t query_offset(int h, int part, int32_t t)
{
	return BITS == 2   ? 16 * t + 8 * h + 4 * part
	       : BITS == 4 ? 8 * (t + 4 * h) + 4 * part
	                   : 4 * (t + 4 * (2 * h + part));
}

static size_t scan_sketch_shared(int32_t dim, int32_t bits, int32_t tile)
{
	size_t groups = (size_t)sketch_groups(dim), planes = bits == 2 ? 1 : 2;

	/* the sizes of the members of struct sketch_memory, in the order of the members */
	return groups * planes * 2 * WARP * sizeof(uint2) + groups * SCAN_HEADS * sizeof(int32_t) +
	       planes * SCAN_HEADS * groups * SKETCH_GROUP + (size_t)SCAN_HEADS * (size_t)dim * sizeof(float) +
	       (size_t)(tile / SKETCH_BLOCK) * SCAN_HEADS * sizeof(float);
}

/* Return the number of thread blocks per multiprocessor, for __launch_bounds__. With more blocks, a thread would have
 * too few registers to load a panel at once. */
template <int BITS> constexpr int scan_blocks()
{
	return BITS == 4 ? 2 : 3;
}
enum { RANGE_BLOCKS = 2 };

/* Dynamic shared memory of scan_sketch. */
struct sketch_memory {
	uint2 *frag;        /* [groups][planes][2][WARP] queries as operands of products */
	int32_t *sum;       /* [groups][SCAN_HEADS] sums of a query's bytes, times the largest code */
	int8_t *bytes;      /* [planes][SCAN_HEADS][stride] queries as bytes */
	float *transformed; /* [SCAN_HEADS][dim] queries after the Hadamard transform */
	float *base;        /* [blocks of the tile][SCAN_HEADS] scores of the blocks' means */
	int32_t groups, stride;
};

static __device__ __forceinline__ struct sketch_memory sketch_memory_of(uint2 *frag, int32_t dim, int32_t planes)
{
	struct sketch_memory m;

	m.groups = (dim - 1) / SKETCH_GROUP + 1;
	m.stride = m.groups * SKETCH_GROUP;
	m.frag = frag;
	m.sum = (int32_t *)(frag + m.groups * planes * 2 * WARP);
	m.bytes = (int8_t *)(m.sum + m.groups * SCAN_HEADS);
	m.transformed = (float *)(m.bytes + planes * SCAN_HEADS * m.stride);
	m.base = m.transformed + SCAN_HEADS * dim;
	return m;
}

/* Prepare one query per warp; queries with an index of n_q or more are zeros. Compute the query's bytes, their factor
 * mult, and the query's scores with the means of the blocks of the keys from k0 to k1 - 1. */
template <int BITS>
static __device__ __forceinline__ void sketch_queries(const struct sketch_memory &m, const struct scan_launch &a,
                                                      const uint8_t *keys, float *mult, int32_t head0, int32_t n_q,
                                                      int32_t k0, int32_t k1)
{
	constexpr int PLANES = BITS == 2 ? 1 : 2;
	int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;
	const float *q = a.q + (int64_t)(head0 + warp) * a.dim;
	float *x = m.transformed + warp * a.dim, d;

	for (int32_t i = lane; i < a.dim; i += WARP)
		x[i] = warp < n_q ? q[i] : 0;
	sketch_hadamard_warp(x, a.dim);
	d = query_bytes(x, m.bytes + warp * m.stride, m.bytes + (SCAN_HEADS * (PLANES - 1) + warp) * m.stride,
	                m.sum + warp, a.dim, a.scale, PLANES == 2, (1 << BITS) - 1);
	if (lane == 0)
		mult[warp] = d;
	for (int32_t k = k0; k < k1; k += SKETCH_BLOCK) {
		const float *mean = (const float *)(keys + (int64_t)(k / SKETCH_BLOCK) * a.block_bytes);
		float score = 0;

		if (warp < n_q)
			score = mean_score(q, mean, a.dim, d > 0 ? __fdiv_rn(a.scale, d) : 0);
		if (lane == 0)
			m.base[(k - k0) / SKETCH_BLOCK * SCAN_HEADS + warp] = score;
	}
}

/* Arrange the bytes of the queries as operands of products. Called by all threads of a block. */
template <int BITS> static __device__ __forceinline__ void sketch_operands(const struct sketch_memory &m)
{
	constexpr int PLANES = BITS == 2 ? 1 : 2;

	for (int32_t i = (int32_t)threadIdx.x; i < m.groups * PLANES * 2 * WARP; i += SCAN_THREADS) {
		int32_t l = i % WARP, h = i / WARP % 2, p = i / (2 * WARP) % PLANES, g = i / (2 * WARP * PLANES);
		const int8_t *from = m.bytes + (p * SCAN_HEADS + l / 4) * m.stride + g * SKETCH_GROUP;

		m.frag[i] = make_uint2(*(const uint32_t *)(from + query_offset<BITS>(h, 0, l % 4)),
		                       *(const uint32_t *)(from + query_offset<BITS>(h, 1, l % 4)));
	}
}

/* Store the scores of two panels, and add them to this lane's running softmax of queries 2t and 2t + 1. Keys from k1
 * on are ignored. */
static __device__ __forceinline__ void sketch_panels_end(const struct scan_launch &a, float (&s)[2][4],
                                                         struct softmax (&soft)[2], const float *mult, int32_t head0,
                                                         int32_t n_q, int32_t k, int32_t k1)
{
	int32_t lane = (int32_t)threadIdx.x % WARP, t = lane % 4;

	for (int i = 0; i < 8; i++) {
		int32_t key = k + i / 4 * SKETCH_PANEL + i / 2 % 2 * 8 + lane / 4, r = 2 * t + i % 2;

		if (key < k1 && r < n_q)
			a.score[(int64_t)(head0 + r) * a.ld + key] = s[i / 4][i % 4];
		if (key >= k1)
			s[i / 4][i % 4] = -INFINITY;
	}
	for (int i = 0; i < 2; i++) {
		float m = mult[2 * t + i], top;

		top = fmaxf(soft[i].max, fmaxf(fmaxf(s[0][i], s[0][2 + i]), fmaxf(s[1][i], s[1][2 + i])));
		soft[i].sum = soft[i].sum * scan_exp(soft[i].max - top, m) + scan_exp(s[0][i] - top, m) +
		              scan_exp(s[0][2 + i] - top, m) + scan_exp(s[1][i] - top, m) +
		              scan_exp(s[1][2 + i] - top, m);
		soft[i].max = top;
	}
}

template <int BITS>
static __global__ void __launch_bounds__(SCAN_THREADS, scan_blocks<BITS>()) scan_sketch(struct scan_launch a)
{
	SHARED_DYNAMIC(uint2, frag);
	SHARED(struct softmax, part, [SCAN_HEADS][SCAN_WARPS]);
	SHARED(float, mult, [SCAN_HEADS]);
	struct sketch_memory m = sketch_memory_of(frag, a.dim, BITS == 2 ? 1 : 2);
	int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP, t = lane % 4;
	int32_t r0 = (int32_t)blockIdx.z * SCAN_HEADS, n_q = min(a.group - r0, (int32_t)SCAN_HEADS),
		head0 = (int32_t)blockIdx.y * a.group + r0;
	int32_t k0 = (int32_t)blockIdx.x * a.tile, k1 = min(k0 + a.tile, a.n);
	const uint8_t *keys = a.keys + (int64_t)blockIdx.y * a.head_bytes;
	struct softmax soft[2] = { { -INFINITY, 0 }, { -INFINITY, 0 } };

	if (!predicate_holds(a.when))
		return;
	scan_clear(a);
	if (k0 >= a.n)
		return;
	sketch_queries<BITS>(m, a, keys, mult, head0, n_q, k0, k1);
	__syncthreads();
	sketch_operands<BITS>(m);
	__syncthreads();
	for (int32_t k = k0 + warp * 2 * SKETCH_PANEL; k < k1; k += SCAN_WARPS * 2 * SKETCH_PANEL) {
		const uint8_t *block = keys + (int64_t)(k / SKETCH_BLOCK) * a.block_bytes;
		const uint16_t *scales = (const uint16_t *)(block + a.mean_bytes);
		const uint8_t *panel = block + a.mean_bytes + 2 * SKETCH_BLOCK +
		                       (int64_t)(k % SKETCH_BLOCK / SKETCH_PANEL) * a.panel_bytes;
		float s[2][4];

		/* If there is no second panel, the first panel is computed twice, and its second result is dropped. */
		panel_scores<BITS>(s, panel, k + SKETCH_PANEL < k1 ? a.panel_bytes : 0, scales + k % SKETCH_BLOCK,
		                   m.frag, m.sum, m.base + (k - k0) / SKETCH_BLOCK * SCAN_HEADS, a.dim);
		sketch_panels_end(a, s, soft, mult, head0, n_q, k, k1);
	}
	for (int i = 0; i < 2; i++) {
		for (int d = 4; d < WARP; d *= 2)
			softmax_shuffle(&soft[i], d, mult[2 * t + i]);
		if (lane < 4)
			part[2 * t + i][warp] = soft[i];
	}
	scan_tile_end(a, part, mult, head0, n_q);
}

/* ---- planes ---- */

enum { ROW_LANES = 8, ROW_KEYS = 4, WARP_KEYS = ROW_KEYS * WARP / ROW_LANES };

/* Add up R partial sums over eight lanes. If R >= 8, each lane gets R / 8 of the R totals. If R < 8, each lane gets one
 * total, and 8 / R lanes get the same total. Return the index of the lane's first total. */
template <int R> static __device__ inline int32_t fold_lanes(float *v, int32_t lane)
{
	int32_t first = 0;

	for (int d = ROW_LANES / 2, n = R; d > 0; d /= 2) {
		if (n > 1) {
			int up = (lane & d) != 0;

			n /= 2;
			for (int i = 0; i < R / 2; i++)
				if (i < n) {
					float give = up ? v[i] : v[i + n], keep = up ? v[i + n] : v[i];

					v[i] = keep + __shfl_xor_sync(FULL_WARP, give, d);
				}
			first += up ? n : 0;
		} else {
			v[0] += __shfl_xor_sync(FULL_WARP, v[0], d);
		}
	}
	return first;
}

enum { ANY_TYPE = -1 }; /* template argument TYPE for rows that row_eight_of() cannot read: rare and slow */

/* Write the scaled queries to q [HEADS][width]; columns from a.dim on and heads from n_q on become 0. Called by all
 * threads of a block. */
template <int HEADS>
static __device__ __forceinline__ void rows_queries(float *q, const struct scan_launch &a, int32_t head0, int32_t n_q,
                                                    int32_t width)
{
	int32_t head_dim = a.pages ? a.dim / 2 : a.dim;

	for (int32_t i = (int32_t)threadIdx.x; i < HEADS * width; i += SCAN_THREADS) {
		int32_t r = i / width, d = i % width;
		float x = r < n_q && d < a.dim ? a.q[(int64_t)(head0 + r) * head_dim + d % head_dim] * a.scale : 0;

		/* A page's row has the minima of its keys, then the maxima. Negative query values multiply the minima
		 * and positive query values the maxima, which gives an upper bound of the product. */
		if (a.pages)
			x = d < head_dim ? x > 0 ? 0 : x : x > 0 ? x : 0;
		q[i] = x;
	}
}

/* Add the products of all queries with ROW_KEYS keys to acc [HEADS][ROW_KEYS]. The keys are key0, key0 + WARP /
 * ROW_LANES, and so on. A key number after the last key is replaced by the last key. ROW_LANES lanes share a key, and
 * `at` is the number of this lane among these. A lane multiplies every eighth group of eight values, from group `at`
 * on. */
template <int HEADS, int TYPE>
static __device__ __forceinline__ void rows_dots(float (&acc)[HEADS * ROW_KEYS], const uint8_t *keys, const float *q,
                                                 const struct scan_launch &a, int32_t key0, int32_t k1, int32_t width,
                                                 int32_t at)
{
	for (int32_t d = at * 8; d - at * 8 < width; d += ROW_LANES * 8) {
		float x[ROW_KEYS][8];

		if (d >= width)
			continue;
#pragma unroll
		for (int j = 0; j < ROW_KEYS; j++) {
			const uint8_t *row = keys + (int64_t)min(key0 + j * (WARP / ROW_LANES), k1 - 1) * a.row_bytes;

			if (TYPE == ANY_TYPE)
				row_eight(x[j], row, a.type, d, a.dim, a.whole);
			else
				row_eight_of<TYPE>(x[j], row, d);
		}
		for (int r = 0; r < HEADS; r++) {
			float4 q0 = *(const float4 *)(q + r * width + d), q1 = *(const float4 *)(q + r * width + d + 4);

			for (int j = 0; j < ROW_KEYS; j++) {
				float s = acc[r * ROW_KEYS + j];

				s = fmaf(q0.x, x[j][0], s), s = fmaf(q0.y, x[j][1], s), s = fmaf(q0.z, x[j][2], s),
				s = fmaf(q0.w, x[j][3], s);
				s = fmaf(q1.x, x[j][4], s), s = fmaf(q1.y, x[j][5], s), s = fmaf(q1.z, x[j][6], s),
				s = fmaf(q1.w, x[j][7], s);
				acc[r * ROW_KEYS + j] = s;
			}
		}
	}
}

/* TYPE is a template argument, because a branch between the loads of a pass would prevent the compiler from issuing all
 * of them together. */
template <int HEADS, int TYPE>
static __global__ void __launch_bounds__(SCAN_THREADS, RANGE_BLOCKS) scan_rows(struct scan_launch a)
{
	/* R is the number of partial sums of a lane. HAVE is the number of totals that a lane has after fold_lanes().
	 * SAME is the number of lanes that have the same total. SHARE is the number of lanes whose totals are for the
	 * same query head. */
	constexpr int R = HEADS * ROW_KEYS, HAVE = R > (int)ROW_LANES ? R / ROW_LANES : 1,
		      SAME = R < (int)ROW_LANES ? ROW_LANES / R : 1;
	constexpr int SHARE = ROW_LANES / HEADS;
	SHARED_DYNAMIC(float, q); /* [HEADS][width] queries, with zeros after `dim` values */
	SHARED(struct softmax, part, [SCAN_HEADS][SCAN_WARPS]);
	SHARED(float, mult, [SCAN_HEADS]);
	int32_t thread = (int32_t)threadIdx.x, lane = thread % WARP, warp = thread / WARP, at = lane % ROW_LANES;
	int32_t r0 = (int32_t)blockIdx.z * HEADS, n_q = min(a.group - r0, (int32_t)HEADS),
		head0 = (int32_t)blockIdx.y * a.group + r0;
	int32_t k0 = (int32_t)blockIdx.x * a.tile, k1 = min(k0 + a.tile, a.n), width = (a.dim + 7) / 8 * 8;
	const uint8_t *keys = a.keys + (int64_t)blockIdx.y * a.head_bytes;
	struct softmax soft = { -INFINITY, 0 };

	if (!predicate_holds(a.when))
		return;
	scan_clear(a);
	if (k0 >= a.n)
		return;
	rows_queries<HEADS>(q, a, head0, n_q, width);
	if (thread < SCAN_HEADS)
		mult[thread] = 1;
	__syncthreads();
	for (int32_t k = k0 + warp * WARP_KEYS; k < k1; k += SCAN_WARPS * WARP_KEYS) {
		float acc[R] = { 0 };
		int32_t first, key0 = k + lane / ROW_LANES;
		float top = soft.max;

		rows_dots<HEADS, TYPE>(acc, keys, q, a, key0, k1, width, at);
		first = fold_lanes<R>(acc, at);
		for (int i = 0; i < HAVE; i++) {
			int32_t r = (first + i) / ROW_KEYS, key = key0 + (first + i) % ROW_KEYS * (WARP / ROW_LANES);

			if (key >= k1)
				acc[i] = -INFINITY;
			else if (r < n_q && at % SAME == 0)
				a.score[(int64_t)(head0 + r) * a.ld + key] = acc[i];
			top = fmaxf(top, acc[i]);
		}
		soft.sum *= scan_exp(soft.max - top, 1);
		soft.max = top;
		for (int i = 0; i < HAVE; i++)
			soft.sum += scan_exp(acc[i] - top, 1);
	}
	/* If several lanes have the same score, only the first of them adds its exponential to the sum. */
	if (at % SAME != 0)
		soft.sum = 0;
	for (int d = 1; d < SHARE; d *= 2)
		softmax_shuffle(&soft, d, 1);
	for (int d = ROW_LANES; d < WARP; d *= 2)
		softmax_shuffle(&soft, d, 1);
	if (lane < ROW_LANES && at % SHARE == 0)
		part[at / SHARE][warp] = soft;
	scan_tile_end(a, part, mult, head0, n_q);
}

typedef void scan_fn(struct scan_launch);

template <int TYPE> static scan_fn *rows_fn(int32_t heads)
{
	return heads == 1   ? scan_rows<1, TYPE>
	       : heads == 2 ? scan_rows<2, TYPE>
	       : heads == 4 ? scan_rows<4, TYPE>
	                    : scan_rows<8, TYPE>;
}

/* Return the kernel of the first launch. Set *heads to the number of query heads that a block computes. */
static scan_fn *scan_fn_of(const struct scan_launch *l, int32_t *heads)
{
	*heads = SCAN_HEADS;
	if (l->bits != 16)
		return l->bits == 2 ? scan_sketch<2> : l->bits == 4 ? scan_sketch<4> : scan_sketch<8>;
	if (!l->whole)
		return scan_rows<SCAN_HEADS, ANY_TYPE>;
	for (*heads = 1; *heads < l->group && *heads < SCAN_HEADS;)
		*heads *= 2;
	return l->type == DT_F32    ? rows_fn<DT_F32>(*heads)
	       : l->type == DT_F16  ? rows_fn<DT_F16>(*heads)
	       : l->type == DT_BF16 ? rows_fn<DT_BF16>(*heads)
	                            : rows_fn<DT_Q8_0>(*heads);
}

/* ---- the second launch ---- */

/* Compute the output of the scan. A block computes FINISH_ROWS keys of a KV head. */
static __global__ void scan_finish(struct scan_scores s)
{
	SHARED_DYNAMIC(float, lse); /* the results of scan_totals(): lse [group], then factor [group] */
	int32_t k0 = (int32_t)blockIdx.x * FINISH_ROWS, k1 = min(k0 + FINISH_ROWS, s.n), head = (int32_t)blockIdx.y;
	float out[FINISH_EACH];

	if (k0 >= s.n || !predicate_holds(s.when))
		return;
	scan_totals(s, head, lse, lse + s.group);
	scan_outputs<FINISH_EACH>(out, s, head, k0 + (int32_t)threadIdx.x, SCAN_THREADS, lse, lse + s.group);
	for (int j = 0; j < FINISH_EACH; j++)
		if (k0 + (int32_t)threadIdx.x + j * SCAN_THREADS < k1)
			s.out[head * s.out_cols + k0 + (int32_t)threadIdx.x + j * SCAN_THREADS] = out[j];
}

/* ---- operations ---- */

int scan_first(struct cuda *c, const struct scan_args *a, struct scan_launch *l, struct scan_scores *s)
{
	size_t heads = (size_t)a->n_head, at = 0, score, max, sum, mult, shared;
	int32_t power = cuda_power(l->n), blocks, chunk, each, step;
	scan_fn *fn;
	int64_t room;

	l->q = cuda_rows_of(&c->base, a->q, 1, a->n_head * a->head_dim, "a scan of keys");
	if (!l->q)
		return -1;
	l->group = a->n_head / a->n_kv_head;
	l->scale = a->scale;
	fn = scan_fn_of(l, &chunk);
	/* Launch no more blocks than the device can run at the same time. All blocks have the same number of keys,
	 * except that the last block may have fewer. */
	each = l->bits == 2   ? scan_blocks<2>()
	       : l->bits == 4 ? scan_blocks<4>()
	       : l->bits == 8 ? scan_blocks<8>()
	                      : RANGE_BLOCKS;
	room = (int64_t)c->info.processors * each / ((int64_t)a->n_kv_head * cuda_blocks(l->group, chunk));
	/* number of keys that a block scans in one pass */
	step = SCAN_WARPS * (l->bits == 16 ? WARP_KEYS : 2 * SKETCH_PANEL);
	blocks = (power - 1) / step + 1;
	if (blocks > room)
		blocks = room > 1 ? (int32_t)room : 1;
	l->tile = ((l->n - 1) / blocks / step + 1) * step;
	l->tiles = (l->n - 1) / l->tile + 1;
	l->ld = ((int64_t)l->n + 31) / 32 * 32;
	/* Reserve memory for the number of keys, rounded up to a power of two, so that the buffer rarely grows. */
	score = scratch_cut(&at, heads * (size_t)MAX(power, 32), sizeof(float));
	max = scratch_cut(&at, heads * (size_t)blocks, sizeof(float));
	sum = scratch_cut(&at, heads * (size_t)blocks, sizeof(float));
	mult = scratch_cut(&at, heads, sizeof(float));
	if (cuda_buffer_grow(c, &c->scan, at) < 0)
		return -1;
	l->score = (float *)((char *)c->scan.p + score);
	l->max = (float *)((char *)c->scan.p + max);
	l->sum = (float *)((char *)c->scan.p + sum);
	l->mult = (float *)((char *)c->scan.p + mult);
	shared = l->bits != 16 ? scan_sketch_shared(l->dim, l->bits, l->tile)
	                       : (size_t)chunk * (((size_t)l->dim + 7) / 8 * 8) * sizeof(float);
	if (shared > (size_t)c->info.shared_max - 4096)
		return backend_fail(&c->base, "internal: keys of %d values are too long for a scan", (int)a->head_dim);
	cuda_launch(c, fn, (unsigned)blocks, (unsigned)a->n_kv_head, cuda_blocks(l->group, chunk), SCAN_THREADS,
	            (unsigned)shared, *l);
	s->score = l->score;
	s->max = l->max;
	s->sum = l->sum;
	s->mult = l->mult;
	s->out = (float *)a->out->data;
	s->ld = l->ld;
	s->out_cols = a->out->cols;
	s->n = l->n;
	s->group = l->group;
	s->tile = l->tile;
	s->tiles = l->tiles;
	s->mean = a->reduce == REDUCE_MEAN;
	return 0;
}

int scan_start(struct cuda *c, const struct scan_args *a, struct scan_scores *s, uint32_t *zero, int32_t n_zero)
{
	struct scan_launch l = {};

	memset(s, 0, sizeof *s);
	if (key_scan_check(&c->base, a) < 0)
		return -1;
	if (a->n_slots == 0)
		return 1;
	l.keys = (const uint8_t *)a->keys->data;
	l.n = a->n_slots;
	l.dim = a->head_dim;
	l.bits = a->bits;
	l.when = s->when = cuda_predicate_of(&a->when);
	l.zero = zero;
	l.n_zero = n_zero;
	if (a->bits == 16) {
		l.type = a->keys->type;
		l.whole = row_whole(a->keys->type, l.dim);
		l.row_bytes = (int64_t)dtype_bytes(a->keys->type, (uint64_t)l.dim);
		l.head_bytes = a->cap * l.row_bytes;
	} else {
		l.panel_bytes = (int32_t)sketch_panel_bytes(l.dim, l.bits);
		l.block_bytes = (int32_t)sketch_block_bytes(l.dim, l.bits);
		l.mean_bytes = (int32_t)sketch_mean_bytes(l.dim);
		l.head_bytes = (int64_t)sketch_blocks(a->cap) * l.block_bytes;
	}
	return scan_first(c, a, &l, s);
}

void scan_end(struct cuda *c, const struct scan_args *a, const struct scan_scores *s)
{
	cuda_launch(c, scan_finish, cuda_blocks(cuda_power(s->n), FINISH_ROWS), (unsigned)a->n_kv_head, 1, SCAN_THREADS,
	            (unsigned)(2 * (size_t)s->group * sizeof(float)), *s);
}

void cuda_key_scan(struct backend *be, const struct scan_args *a)
{
	struct scan_scores s;

	if (!cuda_stopped(be) && scan_start(cuda_of(be), a, &s, NULL, 0) == 0)
		scan_end(cuda_of(be), a, &s);
}
