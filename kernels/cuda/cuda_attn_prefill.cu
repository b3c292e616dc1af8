/* kernels/cuda/cuda_attn_prefill.cu - attention of many queries (prefill) on the tensor cores. Terms: cuda_attn.cuh.
 *
 * A block of 4 warps computes 64 queries of a KV head, 16 per warp. K and V are loaded through shared memory in tiles
 * of 32 or 64 rows (slots). The next tile is loaded while the current one is computed; q8_0 is converted to f16 on the
 * way. Rows in shared memory are padded, so that eight lanes that read at the same time use different banks. A warp
 * skips a tile if the causal mask hides all rows of the tile.
 *
 * Precision. Queries and probabilities are rounded to f16 (11 bits), an error of about 1e-7 (NMSE). For a probe, and
 * with bf16 planes, the rounding errors are multiplied, too, and their products are added to the results.
 *
 * One launch. Memory traffic: K and V once per 64 queries, mostly from L2. */
#include "kernels/cuda/cuda_attn_rows.cuh"

enum { QUERIES = 64, WARPS = 4, THREADS = WARPS * WARP, WARP_QUERIES = 16 };

/* Shapes of tiles and of shared memory. */
template <int DIM> struct tile_of {
	enum {
		ROWS = DIM > 128 ? 32 : 64,
		STEPS = DIM / 16,
		/* number of values per row of K; a row takes 64 bytes more than a multiple of 128, to avoid bank
		 * conflicts */
		K_PITCH = (DIM + 31) / 64 * 64 + 32,
		/* number of values per row of V; 8 values of padding avoid bank conflicts */
		V_PITCH = DIM + 8,
		/* size of the rounded queries in bytes; the rounding errors of the queries take the same number of
		 * bytes */
		Q_BYTES = WARPS * STEPS * WARP * 16,
		K_BYTES = ROWS * K_PITCH * 2,
		V_BYTES = ROWS * V_PITCH * 2,
	};
};

struct prefill_args {
	struct attn_launch a;
	int32_t exact;   /* 1: also multiply the rounding errors of queries and probabilities, and add these products */
	int32_t buffers; /* number of tiles that shared memory holds, 1 or 2 */
};

/* Load the tile's queries to shared memory, as operands of tensor core products. `s` is a segment of the launch, and
 * s.q has its queries. Each query is scaled by a power of two (query_unit()). Set by[i] to the factor that converts
 * products of query i to scores. If `exact` is 1, also load the rounding errors of the queries. */
template <class F, int DIM>
static __device__ inline void load_queries(uint4 *qs, float *by, const struct attn_launch &a,
                                           const struct launch_segment &s, int32_t kv, int32_t query0, int exact)
{
	enum { STEPS = DIM / 16 };
	int32_t warp = (int32_t)threadIdx.x / WARP;

	__syncthreads();
	for (int32_t i = warp; i < QUERIES; i += WARPS) {
		int32_t query = query0 + i;
		float unit = query_unit(s.q + attn_query_row(a, kv, query) * DIM, query < a.queries ? DIM : 0);

		if (threadIdx.x % WARP == 0)
			by[i] = unit;
	}
	__syncthreads();
	for (int32_t i = (int32_t)threadIdx.x; i < WARPS * STEPS * WARP; i += THREADS) {
		int32_t w = i / (STEPS * WARP), step = i / WARP % STEPS, g = i % WARP / 4, t = i % 4;
		uint32_t hi[4], lo[4];

		for (int r = 0; r < 2; r++) {
			int32_t q = w * WARP_QUERIES + g + 8 * r;
			const float *from = s.q + attn_query_row(a, kv, query0 + q) * DIM + k_dim<DIM>(step, t);

			for (int e = 0; e < 2; e++) {
				float x = query0 + q < a.queries ? from[2 * e] * by[q] : 0,
				      y = query0 + q < a.queries ? from[2 * e + 1] * by[q] : 0;
				float2 there;

				hi[2 * e + r] = F::pack(x, y);
				there = F::unpack(hi[2 * e + r]);
				lo[2 * e + r] = F::pack(x - there.x, y - there.y);
			}
		}
		qs[i] = make_uint4(hi[0], hi[1], hi[2], hi[3]);
		if (exact)
			qs[WARPS * STEPS * WARP + i] = make_uint4(lo[0], lo[1], lo[2], lo[3]);
	}
	__syncthreads();
	if (threadIdx.x < QUERIES)
		by[threadIdx.x] = a.scale / by[threadIdx.x];
	__syncthreads();
}

/* Start loading ROWS rows of a segment, from row i on, to shared memory. Rows from i1 on become zeros. */
template <class P, int DIM>
static __device__ inline void load_tile(uint8_t *ks, uint8_t *vs, const struct attn_launch &a,
                                        const struct launch_segment &s, int32_t kv, int32_t i, int32_t i1)
{
	typedef tile_of<DIM> T;
	enum { PIECES = DIM / 8 };

#pragma unroll 4
	for (int32_t x = (int32_t)threadIdx.x; x < T::ROWS * PIECES; x += THREADS) {
		int32_t r = x / PIECES, d = x % PIECES * 8, there = i + r < i1;
		int64_t row = attn_row(a, s, kv, there ? i + r : i1 - 1);
		uint8_t *k = ks + (r * T::K_PITCH + d) * 2, *v = vs + (r * T::V_PITCH + d) * 2;

		if (P::CODED) {
			*(uint4 *)k = there ? P::load8(a.k + row, d) : make_uint4(0, 0, 0, 0);
			*(uint4 *)v = there ? P::load8(a.v + row, d) : make_uint4(0, 0, 0, 0);
		} else {
			copy16(k, a.k + row + 2 * d, there);
			copy16(v, a.v + row + 2 * d, there);
		}
	}
	copies_end();
}

/* Compute c, the products of the warp's 16 queries with the tile's rows of K. A tensor core product computes 8 rows. If
 * `exact` is 1, multiply the queries' rounding errors by K, too, and add the results. */
template <class F, int DIM>
static __device__ inline void tile_scores(float (*c)[4], const uint4 *qs, const uint8_t *ks, int exact, int32_t g,
                                          int32_t t)
{
	typedef tile_of<DIM> T;
	int32_t lane = 4 * g + t;

#pragma unroll
	for (int n = 0; n < T::ROWS / 8; n++)
		c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll
	for (int step = 0; step < T::STEPS; step += 2) {
		int two = step + 1 < T::STEPS;
		uint4 q = qs[step * WARP + lane], r = two ? qs[(step + 1) * WARP + lane] : q;
		uint32_t q0[4] = { q.x, q.y, q.z, q.w }, q1[4] = { r.x, r.y, r.z, r.w };

#pragma unroll
		for (int n = 0; n < T::ROWS / 8; n++) {
			const uint8_t *row = ks + (8 * n + g) * T::K_PITCH * 2;

			if (two) {
				uint4 k = shared_rows<F>::load8(row, 16 * step + 8 * t);

				mma16(F(), c[n], q0, k.x, k.y);
				mma16(F(), c[n], q1, k.z, k.w);
			} else {
				uint2 k = shared_rows<F>::load4(row, 16 * step + 4 * t);

				mma16(F(), c[n], q0, k.x, k.y);
			}
		}
	}
	if (!exact)
		return;
	qs += WARPS * T::STEPS * WARP;
#pragma unroll
	for (int step = 0; step < T::STEPS; step++) {
		uint4 q = qs[step * WARP + lane];
		uint32_t q0[4] = { q.x, q.y, q.z, q.w };

#pragma unroll
		for (int n = 0; n < T::ROWS / 8; n++) {
			uint2 k = shared_rows<F>::load4(ks + (8 * n + g) * T::K_PITCH * 2, k_dim<DIM>(step, t));

			mma16(F(), c[n], q0, k.x, k.y);
		}
	}
}

/* The functions below are parts of the kernel attn_prefill and are called by all lanes of a warp. A row is a slot of
 * the launch's segment; rows are numbered within the segment. A tile of K and V begins at row i.
 *
 * Lane 4 g + t works for queries g and g + 8 of the warp. In the lane's arrays, these two queries have the indexes r =
 * 0 and r = 1. Query r sees rows low[r] .. seen[r] - 1. The array c[n][b] has the scores of query r = b / 2; the score
 * c[n][b] is for row i + 8 n + 2 t + b % 2. */

/* Scale the scores. If the model has a softcap, cap them. */
template <int BLOCKS>
static __device__ __forceinline__ void prefill_scale(float (&c)[BLOCKS][4], const struct attn_launch &a,
                                                     const float (&scale)[2])
{
#pragma unroll
	for (int n = 0; n < BLOCKS; n++)
#pragma unroll
		for (int b = 0; b < 4; b++)
			c[n][b] *= scale[b / 2];
	if (a.softcap > 0)
#pragma unroll
		for (int n = 0; n < BLOCKS; n++)
#pragma unroll
			for (int b = 0; b < 4; b++)
				c[n][b] = attn_capped(a, c[n][b]);
}

/* Store the scores for a probe. */
template <int BLOCKS>
static __device__ __forceinline__ void prefill_keep(const float (&c)[BLOCKS][4], const struct attn_launch &a,
                                                    const struct launch_segment &s, const int64_t (&query_row)[2],
                                                    int32_t i, const int32_t (&low)[2], const int32_t (&seen)[2],
                                                    int32_t t)
{
#pragma unroll
	for (int n = 0; n < BLOCKS; n++)
#pragma unroll
		for (int b = 0; b < 4; b++) {
			int32_t at = i + 8 * n + 2 * t + b % 2;

			if (at >= low[b / 2] && at < seen[b / 2])
				a.score[query_row[b / 2] * a.stride + s.col + at] = c[n][b];
		}
}

/* Do one step of the running softmax. Update the maximum m and the sum l of each query. Rescale the query's earlier
 * weighted sums of V in `acc`. Replace the query's scores in c by exp(score - m). */
template <int DIM>
static __device__ __forceinline__ void prefill_softmax(float (&c)[tile_of<DIM>::ROWS / 8][4], float (&acc)[DIM / 8][4],
                                                       float (&m)[2], float (&l)[2], int32_t i, int32_t i1, int32_t all,
                                                       int32_t high, const int32_t (&low)[2], const int32_t (&seen)[2],
                                                       int32_t t)
{
	typedef tile_of<DIM> T;
	enum { BLOCKS = T::ROWS / 8 };
	float most[2] = { m[0], m[1] }, base[2], w[2];

#pragma unroll
	for (int n = 0; n < BLOCKS; n++)
#pragma unroll
		for (int b = 0; b < 4; b++)
			c[n][b] *= LOG2_E;
	/* Only three kinds of tiles have rows that a query does not see: tiles with the call's own tokens, tiles in
	 * which a window begins, and the last tile. */
	if (i + T::ROWS > min(i1, all) || i < high)
#pragma unroll
		for (int n = 0; n < BLOCKS; n++)
#pragma unroll
			for (int b = 0; b < 4; b++)
				c[n][b] = i + 8 * n + 2 * t + b % 2 >= low[b / 2] &&
				                          i + 8 * n + 2 * t + b % 2 < seen[b / 2]
				                  ? c[n][b]
				                  : -INFINITY;
#pragma unroll
	for (int n = 0; n < BLOCKS; n++)
#pragma unroll
		for (int b = 0; b < 4; b++)
			most[b / 2] = fmaxf(most[b / 2], c[n][b]);
#pragma unroll
	for (int r = 0; r < 2; r++) {
		most[r] = fmaxf(most[r], __shfl_xor_sync(FULL_WARP, most[r], 1));
		most[r] = fmaxf(most[r], __shfl_xor_sync(FULL_WARP, most[r], 2));
		base[r] = most[r] == -INFINITY ? 0 : most[r];
		w[r] = power2(m[r] - base[r]);
		l[r] *= w[r];
		m[r] = most[r];
	}
	if (__any_sync(FULL_WARP, w[0] != 1 || w[1] != 1))
#pragma unroll
		for (int n = 0; n < DIM / 8; n++)
#pragma unroll
			for (int b = 0; b < 4; b++)
				acc[n][b] *= w[b / 2];
#pragma unroll
	for (int n = 0; n < BLOCKS; n++)
#pragma unroll
		for (int b = 0; b < 4; b++) {
			c[n][b] = power2(c[n][b] - base[b / 2]);
			l[b / 2] += c[n][b];
		}
}

/* Multiply V of the tile's rows by the probabilities c, and add the products to `acc`. */
template <class F, int DIM>
static __device__ __forceinline__ void prefill_values(float (&acc)[DIM / 8][4],
                                                      const float (&c)[tile_of<DIM>::ROWS / 8][4], const uint8_t *v,
                                                      int exact, int32_t i, int32_t all, const int32_t (&seen)[2],
                                                      int32_t g, int32_t t)
{
	typedef tile_of<DIM> T;
	enum { SLICE = v_slice<DIM>::DIMS, SLICES = v_slice<DIM>::COUNT, BLOCKS = T::ROWS / 8 };

#pragma unroll
	for (int b = 0; b < BLOCKS / 2; b++) {
		uint32_t hi[4], lo[4];
		v_words<SLICE> x[4];

#pragma unroll
		for (int y = 0; y < 4; y++) {
			float e0 = c[2 * b + y / 2][y % 2 * 2], e1 = c[2 * b + y / 2][y % 2 * 2 + 1];

			hi[y] = F::pack(e0, e1);
			if (exact) {
				float2 there = F::unpack(hi[y]);

				lo[y] = F::pack(e0 - there.x, e1 - there.y);
			}
		}
#pragma unroll
		for (int slice = 0; slice < SLICES; slice++) {
			float(*to)[4] = acc + slice * (SLICE / 8);

#pragma unroll
			for (int y = 0; y < 4; y++)
				load_v<shared_rows<F>, SLICE>(
					x[y],
					v + ((16 * b + 2 * t + y % 2 + y / 2 * 8) * T::V_PITCH + slice * SLICE) * 2, g);
			if (i + T::ROWS > all)
				add_odd<F, SLICE>(to, x, seen[0] - i - 16 * b, seen[1] - i - 16 * b);
#pragma unroll
			for (int n = 0; n < SLICE / 16; n++) {
				uint32_t b0 = __byte_perm(x[0].w[n], x[1].w[n], 0x5410),
					 b1 = __byte_perm(x[2].w[n], x[3].w[n], 0x5410);
				uint32_t b2 = __byte_perm(x[0].w[n], x[1].w[n], 0x7632),
					 b3 = __byte_perm(x[2].w[n], x[3].w[n], 0x7632);

				mma16(F(), to[2 * n], hi, b0, b1);
				mma16(F(), to[2 * n + 1], hi, b2, b3);
				if (exact) {
					mma16(F(), to[2 * n], lo, b0, b1);
					mma16(F(), to[2 * n + 1], lo, b2, b3);
				}
			}
		}
	}
}

/* Write this warp's sums to the output or, with several spans, to this block's partial result. */
template <int DIM>
static __device__ __forceinline__ void prefill_end(const struct attn_launch &a, const float (&acc)[DIM / 8][4],
                                                   const float (&m)[2], float (&l)[2], const int64_t (&query_row)[2],
                                                   int32_t kv, int32_t tile, int32_t partials, int32_t warp, int32_t g,
                                                   int32_t t)
{
	for (int r = 0; r < 2; r++) {
		float by_sum, *to, *partial = NULL;

		l[r] += __shfl_xor_sync(FULL_WARP, l[r], 1);
		l[r] += __shfl_xor_sync(FULL_WARP, l[r], 2);
		if (query_row[r] < 0)
			continue;
		if (partials == 1)
			l[r] += attn_sink(a, query_row[r], m[r]);
		by_sum = partials == 1 ? 1 / l[r] : 1;
		if (partials == 1) {
			to = a.out + query_row[r] * DIM;
			if (a.score && t == 0) {
				a.max[query_row[r]] = m[r] * LN_2;
				a.sum[query_row[r]] = l[r];
			}
		} else {
			int32_t q = warp * WARP_QUERIES + g + 8 * r;

			partial = attn_partial(a, QUERIES, kv, tile, a.partial0 + (int32_t)blockIdx.x);
			to = partial + q * DIM;
			if (t == 0) {
				partial[QUERIES * DIM + 2 * q] = m[r];
				partial[QUERIES * DIM + 2 * q + 1] = l[r];
			}
		}
#pragma unroll
		for (int n = 0; n < DIM / 16; n++)
#pragma unroll
			for (int b = 0; b < 2; b++)
				*(float2 *)(to + v_dim<DIM>(n, 2 * t + b, 0)) =
					make_float2(acc[2 * n][b + 2 * r] * by_sum, acc[2 * n + 1][b + 2 * r] * by_sum);
	}
}

/* Ranges of row numbers in a segment of the launch. The thread block reads the rows from `from` to i1 - 1. All queries
 * of the tile see the rows from `high` to all - 1. The lane's query r sees the rows from low[r] to seen[r] - 1. The
 * queries of the warp see only rows before row number `end`. */
struct prefill_rows {
	int32_t from, i1, high, all, end, low[2], seen[2];
};

/* Return the row numbers of segment p for this thread. `at0` is the number of the segment's first active column
 * (cuda_attn.cuh). `first` is the first query of the warp. */
static __device__ __forceinline__ struct prefill_rows prefill_rows_of(const struct attn_launch &a, int32_t p,
                                                                      const struct attn_split &split, int32_t at0,
                                                                      int32_t query0, int32_t first)
{
	int32_t last_query = min(query0 + QUERIES, a.queries) - 1, g = (int32_t)threadIdx.x % WARP / 4;
	struct prefill_rows rows;

	rows.from = max(max(0, split.c0 - at0), attn_first(a, p, query0));
	rows.i1 = min(min(attn_slots(a, p), split.c1 - at0), attn_limit(a, p, last_query));
	rows.high = attn_first(a, p, last_query);
	rows.all = attn_limit(a, p, query0);
	rows.end = 0;
	if (first < a.queries)
		rows.end = min(rows.i1, attn_limit(a, p, min(first + WARP_QUERIES, a.queries) - 1));
	for (int r = 0; r < 2; r++) {
		int32_t query = first + g + 8 * r;

		rows.low[r] = attn_first(a, p, query);
		rows.seen[r] = query < a.queries ? min(rows.i1, attn_limit(a, p, query)) : 0;
	}
	return rows;
}

/* Wait until the tile of rows from i on is in shared memory. With one buffer, load the tile now. With two buffers, this
 * tile is already being loaded; start loading the next tile into the other buffer. Called by all threads of a block; a
 * barrier must follow. */
template <class P, int DIM>
static __device__ __forceinline__ void prefill_tile(uint8_t *ks, uint8_t *vs, const struct attn_launch &a,
                                                    const struct launch_segment &s, int32_t kv, int32_t i, int32_t i1,
                                                    int32_t buffers, int32_t buffer)
{
	typedef tile_of<DIM> T;
	int32_t other = buffer ^ 1;

	if (buffers == 1) {
		load_tile<P, DIM>(ks, vs, a, s, kv, i, i1);
		copies_wait<0>();
	} else if (i + T::ROWS < i1) {
		load_tile<P, DIM>(ks + other * T::K_BYTES, vs + other * T::V_BYTES, a, s, kv, i + T::ROWS, i1);
		copies_wait<1>();
	} else {
		copies_wait<0>();
	}
}

template <class P, int DIM> static __global__ __launch_bounds__(THREADS) void attn_prefill(struct prefill_args args)
{
	typedef typename P::format F;
	typedef tile_of<DIM> T;
	enum { STEPS = T::STEPS, TILES = DIM / 8, BLOCKS = T::ROWS / 8 };
	SHARED_DYNAMIC(uint8_t, memory);
	SHARED(float, by, [QUERIES]);
	const struct attn_launch &a = args.a;
	int32_t kv = (int32_t)blockIdx.y, tile = (int32_t)gridDim.z - 1 - (int32_t)blockIdx.z;
	int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP, g = lane / 4, t = lane % 4;
	int32_t query0 = tile * QUERIES, at0 = a.col0;
	struct attn_split split = attn_split_of(a);
	int32_t first = query0 + warp * WARP_QUERIES;
	uint4 *qs = (uint4 *)memory;
	uint8_t *ks = memory + T::Q_BYTES * (args.exact ? 2 : 1), *vs = ks + args.buffers * T::K_BYTES;
	float acc[TILES][4], m[2] = { -INFINITY, -INFINITY }, l[2] = { 0, 0 };
	int64_t query_row[2];

	if (split.c0 >= split.c1)
		return;
	for (int r = 0; r < 2; r++)
		query_row[r] = first + g + 8 * r < a.queries ? attn_query_row(a, kv, first + g + 8 * r) : -1;
#pragma unroll
	for (int n = 0; n < TILES; n++)
		acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
	for (int32_t p = 0; p < a.n_seg; at0 += attn_slots(a, p), p++) {
		const struct launch_segment &s = a.seg[p];
		struct prefill_rows rows = prefill_rows_of(a, p, split, at0, query0, first);
		int32_t buffer = 0;
		float scale[2];

		if (rows.from >= rows.i1)
			continue;
		load_queries<F, DIM>(qs, by, a, s, kv, query0, args.exact);
		for (int r = 0; r < 2; r++)
			scale[r] = by[warp * WARP_QUERIES + g + 8 * r];
		if (args.buffers > 1)
			load_tile<P, DIM>(ks, vs, a, s, kv, rows.from, rows.i1);
		for (int32_t i = rows.from; i < rows.i1; i += T::ROWS) {
			const uint8_t *k = ks + buffer * T::K_BYTES, *v = vs + buffer * T::V_BYTES;
			float c[BLOCKS][4];

			prefill_tile<P, DIM>(ks, vs, a, s, kv, i, rows.i1, args.buffers, buffer);
			__syncthreads();
			if (i < rows.end) {
				tile_scores<F, DIM>(c, qs + warp * STEPS * WARP, k, args.exact, g, t);
				prefill_scale<BLOCKS>(c, a, scale);
				if (a.score)
					prefill_keep<BLOCKS>(c, a, s, query_row, i, rows.low, rows.seen, t);
				prefill_softmax<DIM>(c, acc, m, l, i, rows.i1, rows.all, rows.high, rows.low, rows.seen,
				                     t);
				prefill_values<F, DIM>(acc, c, v, args.exact, i, rows.all, rows.seen, g, t);
			}
			__syncthreads();
			buffer ^= args.buffers > 1;
		}
	}
	prefill_end<DIM>(a, acc, m, l, query_row, kv, tile, split.partials, warp, g, t);
	if (split.partials > 1)
		attn_merge(a, QUERIES, kv, tile, query0, 0, DIM, split.partials);
}

template <int DIM> static size_t shared_bytes_of(int exact, int buffers)
{
	typedef tile_of<DIM> T;

	return (size_t)T::Q_BYTES * (exact ? 2 : 1) + (size_t)buffers * (size_t)(T::K_BYTES + T::V_BYTES);
}

/* Return the size of dynamic shared memory for a head_dim in bytes, or SIZE_MAX if there is no kernel for this
 * head_dim. */
static size_t tile_bytes(int32_t dim, int exact, int buffers)
{
	switch (dim) {
	case 64: return shared_bytes_of<64>(exact, buffers);
	case 80: return shared_bytes_of<80>(exact, buffers);
	case 96: return shared_bytes_of<96>(exact, buffers);
	case 128: return shared_bytes_of<128>(exact, buffers);
	case 256: return shared_bytes_of<256>(exact, buffers);
	}
	return SIZE_MAX;
}

/* Return the value of prefill_args.exact. It is 1 for probes and for bf16. */
static int is_exact(const struct attn_plan *p)
{
	return p->exact || p->type == DT_BF16;
}

/* maximum size of the kernel's static shared memory in bytes */
enum { SHARED_REST = 1024 + ATTN_PARTIALS * 4 };

struct attn_shape attn_prefill_shape(const struct attn_plan *p)
{
	struct attn_shape s = { QUERIES, p->a.head_dim, 256 };

	/* This kernel has no code for biases (attn_segment.bias), because only calls with few queries have biases. */
	if (p->type == DT_F32 || p->biased ||
	    tile_bytes(p->a.head_dim, is_exact(p), 1) > (size_t)p->c->info.shared_max - SHARED_REST)
		s.queries = 0;
	return s;
}

template <int TYPE> static void prefill_start(const struct attn_plan *p)
{
	typedef typename plane_of<TYPE>::type P;
	struct prefill_args m = {};
	unsigned x = (unsigned)p->grid_spans, y = (unsigned)(p->a.n_head / p->a.group), z = (unsigned)p->a.tiles, bytes;

	m.a = p->a;
	m.exact = is_exact(p);
	m.buffers = tile_bytes(p->a.head_dim, m.exact, 2) > (size_t)p->c->info.shared_max - SHARED_REST ? 1 : 2;
	bytes = (unsigned)tile_bytes(p->a.head_dim, m.exact, m.buffers);
	/* head_dim 80 does not occur with q8_0, because 80 is not a multiple of 32. For q8_0, 64 stands in its place,
	 * so that the template compiles. */
	switch (p->a.head_dim) {
	case 64: cuda_launch(p->c, attn_prefill<P, 64>, x, y, z, THREADS, bytes, m); break;
	case 80: cuda_launch(p->c, attn_prefill < P, P::CODED ? 64 : 80 >, x, y, z, THREADS, bytes, m); break;
	case 96: cuda_launch(p->c, attn_prefill<P, 96>, x, y, z, THREADS, bytes, m); break;
	case 128: cuda_launch(p->c, attn_prefill<P, 128>, x, y, z, THREADS, bytes, m); break;
	default: cuda_launch(p->c, attn_prefill<P, 256>, x, y, z, THREADS, bytes, m);
	}
}

void attn_prefill_start(const struct attn_plan *p)
{
	switch (p->type) {
	case DT_F16: prefill_start<DT_F16>(p); break;
	case DT_BF16: prefill_start<DT_BF16>(p); break;
	default: prefill_start<DT_Q8_0>(p);
	}
}
