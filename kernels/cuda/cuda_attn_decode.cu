/* kernels/cuda/cuda_attn_decode.cu - attention of few queries (decode): the slots are divided among thread blocks.
 * Terms: cuda_attn.cuh.
 *
 * A block of 4 warps computes up to 8 queries of a KV head over a span of slots. All these queries share each read of
 * K and V. A warp reads the rows of 16 slots at a time, from the cache to registers (cuda_attn_rows.cuh). The slots may
 * come from a list.
 *
 * Precision. A tensor core product has room for 16 queries, and a block has only 8. So the other 8 rows of the operand
 * hold the rounding errors of the queries, or of the probabilities. With f16 planes the result is therefore as exact as
 * in f32 (NMSE 1e-13; bf16 1e-11), at no extra cost. q8_0 is converted to f16 in registers, which rounds (NMSE 5e-8).
 *
 * One launch. Memory traffic: K and V once per 8 queries (from L2 after the first 8), and the partial results. */
#include "kernels/cuda/cuda_attn_rows.cuh"

enum { QUERIES = 8, WARPS = 4, THREADS = WARPS * WARP, STEP = 16 };

/* Load the tile's queries to shared memory, as operands of tensor core products. `s` is a segment of the launch, and
 * s.q has its queries. Each query is scaled by a power of two (query_unit()). Set by[i] to the factor that converts
 * products of query i to scores. */
template <class F, int DIM>
static __device__ inline void load_queries(uint4 (*qs)[WARP], float *by, const struct attn_launch &a,
                                           const struct launch_segment &s, int32_t kv, int32_t query0)
{
	int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;

	__syncthreads();
	for (int32_t i = warp; i < QUERIES; i += WARPS) {
		int32_t query = query0 + i;
		float unit = query_unit(s.q + attn_query_row(a, kv, query) * DIM, query < a.queries ? DIM : 0);

		if (lane == 0)
			by[i] = unit;
	}
	__syncthreads();
	for (int32_t i = (int32_t)threadIdx.x; i < DIM / 16 * WARP; i += THREADS) {
		int32_t step = i / WARP, g = i % WARP / 4, query = query0 + g;
		float x[4] = { 0, 0, 0, 0 };
		uint32_t w[4];

		if (query < a.queries) {
			const float *q = s.q + attn_query_row(a, kv, query) * DIM + k_dim<DIM>(step, i % 4);

			for (int e = 0; e < 4; e++)
				x[e] = q[e] * by[g];
		}
		for (int e = 0; e < 2; e++) {
			float2 hi;

			w[2 * e] = F::pack(x[2 * e], x[2 * e + 1]);
			hi = F::unpack(w[2 * e]);
			w[2 * e + 1] = F::pack(x[2 * e] - hi.x, x[2 * e + 1] - hi.y);
		}
		qs[step][i % WARP] = make_uint4(w[0], w[1], w[2], w[3]);
	}
	__syncthreads();
	if (threadIdx.x < QUERIES)
		by[threadIdx.x] = a.scale / by[threadIdx.x];
	__syncthreads();
}

/* Constants of the kernel for planes of format P and head_dim DIM */
template <class P, int DIM> struct decode_of {
	typedef typename P::format F;
	enum {
		STEPS = DIM / 16, /* number of tensor core products for one score */
		TILES = DIM / 8,  /* number of blocks of 8 dimensions of V */
		/* 1: there are enough registers to load K of the next 16 rows before V of the current 16 rows is
		 * used */
		AHEAD = DIM <= 128 && !P::CODED,
		SLICE = v_slice<DIM>::DIMS,
		SLICES = v_slice<DIM>::COUNT,
	};
};

/* The functions below are parts of the kernel attn_decode and are called by all lanes of a warp. A row is a slot of the
 * launch's segment p; rows are numbered within the segment. A step computes 16 rows. Lane 4 g + t works for query g of
 * the tile.
 *
 * Some parameters are common to these functions. In lane k, `now` is the byte offset of row k % 16 of the step in its
 * plane. `i` is the number of the step's first row. `seen` is the number of the first row that the causal mask hides
 * from the lane's query. */

/* Load 16 rows of K. Lane 4 g + t loads a quarter of the dimensions of rows g and g + 8. In lane k, `at` is the byte
 * offset of row k % 16. */
template <class P, int DIM>
static __device__ __forceinline__ void decode_load_k(k_words<DIM> (&k)[2], const struct attn_launch &a, int64_t at)
{
	int32_t lane = (int32_t)threadIdx.x % WARP;

#pragma unroll
	for (int j = 0; j < 2; j++)
		load_k<P, DIM>(k[j], a.k + __shfl_sync(FULL_WARP, at, 8 * j + lane / 4), lane % 4);
}

/* Load the SLICE dimensions from d on of 16 rows of V. Lane 4 g + t loads an eighth of these dimensions of the rows 2t,
 * 2t + 1, 2t + 8 and 2t + 9. In lane k, `at` is the byte offset of row k % 16. */
template <class P, int SLICE>
static __device__ __forceinline__ void decode_load_v(v_words<SLICE> (&v)[4], const struct attn_launch &a, int64_t at,
                                                     int32_t d)
{
	int32_t lane = (int32_t)threadIdx.x % WARP, t = lane % 4;

#pragma unroll
	for (int r = 0; r < 4; r++) {
		int64_t row = __shfl_sync(FULL_WARP, at, 2 * t + r % 2 + r / 2 * 8);

		load_v<P, SLICE>(v[r], a.v + row + P::bytes(d), lane / 4);
	}
}

/* Compute the products of the tile's queries with K of a step's 16 rows: c[0] for the first 8 rows, c[1] for the other
 * 8. If AHEAD is 1, the caller has already loaded K to `k`; otherwise this function loads K. */
template <class P, int DIM>
static __device__ __forceinline__ void decode_scores(float (&c)[2][4], k_words<DIM> (&k)[2], const uint4 (*qs)[WARP],
                                                     const struct attn_launch &a, int64_t now)
{
	typedef decode_of<P, DIM> D;
	int32_t lane = (int32_t)threadIdx.x % WARP, g = lane / 4, t = lane % 4;

#pragma unroll
	for (int j = 0; j < 2; j++) {
		if (!D::AHEAD)
			load_k<P, DIM>(k[j], a.k + __shfl_sync(FULL_WARP, now, 8 * j + g), t);
		c[j][0] = c[j][1] = c[j][2] = c[j][3] = 0;
#pragma unroll
		for (int step = 0; step < D::STEPS; step++) {
			uint4 q = qs[step][lane];
			uint32_t q4[4] = { q.x, q.y, q.z, q.w };

			mma16(typename D::F(), c[j], q4, k[j].w[2 * step], k[j].w[2 * step + 1]);
		}
	}
}

/* Multiply V of a step's 16 rows by the exponentials of their scores, `e`, and add the products to `acc`. Rows from i1
 * on are outside of the span. Row number `all` is the first row that the causal mask hides from any query of the
 * tile, so the mask is applied from the step of this row on. */
template <class P, int DIM>
static __device__ __forceinline__ void decode_values(float (&acc)[DIM / 8][4],
                                                     v_words<decode_of<P, DIM>::SLICE> (&v)[4], const float (&e)[2][2],
                                                     const struct attn_launch &a, int64_t now, int32_t i, int32_t i1,
                                                     int32_t all, int32_t seen)
{
	typedef decode_of<P, DIM> D;
	typedef typename D::F F;
	enum { SLICE = D::SLICE };
	int32_t t = (int32_t)threadIdx.x % 4;
	uint32_t pr[4];

#pragma unroll
	for (int j = 0; j < 2; j++) {
		float2 hi;

		pr[2 * j] = F::pack(e[j][0], e[j][1]);
		hi = F::unpack(pr[2 * j]);
		pr[2 * j + 1] = F::pack(e[j][0] - hi.x, e[j][1] - hi.y);
	}
#pragma unroll
	for (int slice = 0; slice < D::SLICES; slice++) {
		float(*to)[4] = acc + slice * (SLICE / 8);

		if (!D::AHEAD)
			decode_load_v<P, SLICE>(v, a, now, slice * SLICE);
		if (i + STEP > min(i1, all)) {
#pragma unroll
			for (int r = 0; r < 4; r++) {
				int there = i + 2 * t + r % 2 + r / 2 * 8 < i1;

#pragma unroll
				for (int n = 0; n < SLICE / 16; n++)
					v[r].w[n] = there ? v[r].w[n] : 0;
			}
			add_odd<F, SLICE>(to, v, seen - i, 0);
		}
#pragma unroll
		for (int n = 0; n < SLICE / 16; n++) {
			mma16(F(), to[2 * n], pr, __byte_perm(v[0].w[n], v[1].w[n], 0x5410),
			      __byte_perm(v[2].w[n], v[3].w[n], 0x5410));
			mma16(F(), to[2 * n + 1], pr, __byte_perm(v[0].w[n], v[1].w[n], 0x7632),
			      __byte_perm(v[2].w[n], v[3].w[n], 0x7632));
		}
	}
}

/* Write this warp's results to shared memory: the weighted sums of V to `sums`, the maximum m and the sum of
 * exponentials l of each query to `ml`. */
template <int DIM>
static __device__ __forceinline__ void decode_store(float (*sums)[QUERIES][DIM], float (*ml)[QUERIES][2],
                                                    const float (&acc)[DIM / 8][4], float m, float l)
{
	int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP, g = lane / 4, t = lane % 4;

	l += __shfl_xor_sync(FULL_WARP, l, 1);
	l += __shfl_xor_sync(FULL_WARP, l, 2);
	if (t == 0) {
		ml[warp][g][0] = m;
		ml[warp][g][1] = l;
	}
#pragma unroll
	for (int n = 0; n < DIM / 16; n++)
#pragma unroll
		for (int j = 0; j < 2; j++)
#pragma unroll
			for (int b = 0; b < 2; b++)
				sums[warp][g][v_dim<DIM>(n, 2 * t + b, j)] = acc[2 * n + j][b] + acc[2 * n + j][b + 2];
}

/* Add up the results of the warps. Write the sum to the output or, with several spans, to this block's partial
 * result. */
template <int DIM>
static __device__ __forceinline__ void decode_end(const struct attn_launch &a, const float (*sums)[QUERIES][DIM],
                                                  const float (*ml)[QUERIES][2], int32_t kv, int32_t tile, int32_t n,
                                                  int32_t partials)
{
	for (int32_t i = (int32_t)threadIdx.x; i < n * DIM; i += THREADS) {
		int32_t q = i / DIM, d = i % DIM;
		int64_t at = attn_query_row(a, kv, tile * QUERIES + q);
		float all = 0, sum = 0, most = -INFINITY;

		for (int y = 0; y < WARPS; y++)
			most = fmaxf(most, ml[y][q][0]);
		for (int y = 0; y < WARPS; y++)
			if (ml[y][q][1] != 0) {
				float w = power2(ml[y][q][0] - most);

				all += ml[y][q][1] * w;
				sum += sums[y][q][d] * w;
			}
		if (partials == 1) {
			all += attn_sink(a, at, most);
			a.out[at * DIM + d] = sum / all;
			if (a.score && d == 0) {
				a.max[at] = most * LN_2;
				a.sum[at] = all;
			}
		} else {
			float *partial = attn_partial(a, QUERIES, kv, tile, a.partial0 + (int32_t)blockIdx.x);

			partial[q * DIM + d] = sum;
			if (d < 2)
				partial[QUERIES * DIM + 2 * q + d] = d ? all : most;
		}
	}
}

/* Row numbers of a segment of the launch. The thread block reads the rows from `from` to i1 - 1. The lane's query sees
 * the rows from `low` to seen - 1. Row number `all` is the first row that the causal mask hides from any query of the
 * tile. */
struct decode_rows {
	int32_t from, i1, all, low, seen;
};

/* Return the row numbers of segment p for this thread. `at0` is the number of the segment's first active column
 * (cuda_attn.cuh), and `query` is the lane's query. */
static __device__ __forceinline__ struct decode_rows decode_rows_of(const struct attn_launch &a, int32_t p,
                                                                    const struct attn_split &split, int32_t at0,
                                                                    int32_t query0, int32_t query)
{
	int32_t last_query = min(query0 + QUERIES, a.queries) - 1;
	struct decode_rows r;

	r.from = max(max(0, split.c0 - at0), attn_first(a, p, query0));
	r.i1 = min(min(attn_slots(a, p), split.c1 - at0), attn_limit(a, p, last_query));
	r.all = attn_limit(a, p, query0);
	r.low = attn_first(a, p, query);
	r.seen = query < a.queries ? min(r.i1, attn_limit(a, p, query)) : 0;
	return r;
}

/* Compute scores from the products c of a step's 16 rows. Set x to log2(e) times each score, or to -infinity for a
 * hidden row. Return the query's new maximum of x; m is the old maximum. Also store the scores if a probe needs
 * them. */
static __device__ __forceinline__ float decode_mask(float (&x)[2][2], float m, const float (&c)[2][4],
                                                    const struct attn_launch &a, int32_t p, int32_t kv, int32_t i,
                                                    const struct decode_rows &r, int64_t query_row, float scale)
{
	int32_t t = (int32_t)threadIdx.x % 4;

#pragma unroll
	for (int j = 0; j < 2; j++)
#pragma unroll
		for (int b = 0; b < 2; b++) {
			int32_t at = i + 8 * j + 2 * t + b;

			x[j][b] = attn_capped(a, (c[j][b] + c[j][b + 2]) * scale) + attn_bias(a, p, kv, at);
			if (a.score && at >= r.low && at < r.seen)
				a.score[query_row * a.stride + a.seg[p].col + at] = x[j][b];
			x[j][b] = at >= r.low && at < r.seen ? x[j][b] * LOG2_E : -INFINITY;
			m = fmaxf(m, x[j][b]);
		}
	m = fmaxf(m, __shfl_xor_sync(FULL_WARP, m, 1));
	return fmaxf(m, __shfl_xor_sync(FULL_WARP, m, 2));
}

/* Multiply the query's weighted sums of V by w, which rescales them to a new maximum score. w is usually 1. */
template <int DIM> static __device__ __forceinline__ void decode_rescale(float (&acc)[DIM / 8][4], float w)
{
	if (!__any_sync(FULL_WARP, w != 1))
		return;
#pragma unroll
	for (int n = 0; n < DIM / 8; n++)
#pragma unroll
		for (int b = 0; b < 4; b++)
			acc[n][b] *= w;
}

/* Kernel. The x, y and z sizes of its grid are the numbers of spans, KV heads and tiles of queries. */
template <class P, int DIM> static __global__ __launch_bounds__(THREADS) void attn_decode(struct attn_launch a)
{
	typedef decode_of<P, DIM> D;
	SHARED(uint4, qs, [D::STEPS][WARP]);
	SHARED(float, by, [QUERIES]);
	SHARED(float, sums, [WARPS][QUERIES][DIM]);
	SHARED(float, ml, [WARPS][QUERIES][2]);
	int32_t kv = (int32_t)blockIdx.y, tile = (int32_t)blockIdx.z, query0 = tile * QUERIES, at0 = a.col0;
	int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP, g = lane / 4, t = lane % 4,
		query = query0 + g;
	struct attn_split split = attn_split_of(a);
	int32_t last_query = min(query0 + QUERIES, a.queries) - 1;
	int64_t query_row = query < a.queries ? attn_query_row(a, kv, query) : -1;
	float acc[D::TILES][4], m = -INFINITY, l = 0;

	if (split.c0 >= split.c1)
		return;
#pragma unroll
	for (int i = 0; i < D::TILES; i++)
		acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0;
	for (int32_t p = 0; p < a.n_seg; at0 += attn_slots(a, p), p++) {
		const struct launch_segment &s = a.seg[p];
		struct decode_rows r = decode_rows_of(a, p, split, at0, query0, query);
		int32_t from = r.from, i1 = r.i1;
		int64_t now, next;
		k_words<DIM> k[2];
		float scale;

		if (from >= i1)
			continue;
		load_queries<typename D::F, DIM>(qs, by, a, s, kv, query0);
		scale = by[g];
		from += warp * STEP;
		/* `now` and `next` are the byte offsets of rows of this step and of the next step. Lane k has the
		 * offset of row k % 16. The offsets are computed one step ahead, because the slot number must first be
		 * read from the list. */
		now = attn_row(a, s, kv, min(from + lane % STEP, i1 - 1));
		next = attn_row(a, s, kv, min(from + WARPS * STEP + lane % STEP, i1 - 1));
		if (D::AHEAD && from < i1)
			decode_load_k<P, DIM>(k, a, now);
		for (int32_t i = from; i < i1; i += WARPS * STEP) {
			v_words<D::SLICE> v[4];
			float c[2][4], x[2][2], e[2][2], most, base, w;

			if (D::AHEAD)
				decode_load_v<P, D::SLICE>(v, a, now, 0);
			decode_scores<P, DIM>(c, k, qs, a, now);
			if (D::AHEAD && i + WARPS * STEP < i1)
				decode_load_k<P, DIM>(k, a, next);
			most = decode_mask(x, m, c, a, p, kv, i, r, query_row, scale);
			/* Keep this loop inline. In a function of its own, it would make the kernel for head_dim 256
			 * spill more registers (nvcc 13, sm_90). */
			base = most == -INFINITY ? 0 : most;
			w = power2(m - base);
			l *= w;
#pragma unroll
			for (int j = 0; j < 2; j++)
#pragma unroll
				for (int b = 0; b < 2; b++) {
					int32_t at = i + 8 * j + 2 * t + b;

					e[j][b] = at >= r.low && at < r.seen ? power2(x[j][b] - base) : 0;
					l += e[j][b];
				}
			decode_rescale<DIM>(acc, w);
			m = most;
			decode_values<P, DIM>(acc, v, e, a, now, i, i1, r.all, r.seen);
			now = next;
			next = attn_row(a, s, kv, min(i + 2 * WARPS * STEP + lane % STEP, i1 - 1));
		}
	}
	decode_store<DIM>(sums, ml, acc, m, l);
	__syncthreads();
	decode_end<DIM>(a, sums, ml, kv, tile, last_query - query0 + 1, split.partials);
	if (split.partials > 1)
		attn_merge(a, QUERIES, kv, tile, query0, 0, DIM, split.partials);
}

struct attn_shape attn_decode_shape(const struct attn_plan *p)
{
	/* A span has at least two steps of 16 rows for each warp. With only one step for each warp, merging the partial
	 * results would take longer than computing them. */
	struct attn_shape s = { QUERIES, p->a.head_dim, 2 * WARPS * STEP };
	int32_t d = p->a.head_dim;

	if (p->type == DT_F32 || p->a.queries > DECODE_QUERIES ||
	    (d != 64 && d != 80 && d != 96 && d != 128 && d != 256))
		s.queries = 0;
	return s;
}

template <int TYPE> static void decode_start(const struct attn_plan *p)
{
	typedef typename plane_of<TYPE>::type P;
	const struct attn_launch *a = &p->a;
	unsigned x = (unsigned)p->grid_spans, y = (unsigned)(a->n_head / a->group), z = (unsigned)a->tiles;

	/* head_dim 80 does not occur with q8_0, because 80 is not a multiple of 32. For q8_0, 64 stands in its place,
	 * so that the template compiles. */
	switch (a->head_dim) {
	case 64: cuda_launch(p->c, attn_decode<P, 64>, x, y, z, THREADS, 0, *a); break;
	case 80: cuda_launch(p->c, attn_decode < P, P::CODED ? 64 : 80 >, x, y, z, THREADS, 0, *a); break;
	case 96: cuda_launch(p->c, attn_decode<P, 96>, x, y, z, THREADS, 0, *a); break;
	case 128: cuda_launch(p->c, attn_decode<P, 128>, x, y, z, THREADS, 0, *a); break;
	default: cuda_launch(p->c, attn_decode<P, 256>, x, y, z, THREADS, 0, *a);
	}
}

void attn_decode_start(const struct attn_plan *p)
{
	switch (p->type) {
	case DT_F16: decode_start<DT_F16>(p); break;
	case DT_BF16: decode_start<DT_BF16>(p); break;
	default: decode_start<DT_Q8_0>(p);
	}
}
