/* kernels/cuda/cuda_attn_f32.cu - attention computed in f32, for every plane type, every head_dim and any number of
 * tokens. Terms: cuda_attn.cuh.
 *
 * Used for f32 planes, and for each head_dim for which there is no tensor core kernel (cuda_attn_decode.cu,
 * cuda_attn_prefill.cu). A block of 8 warps computes 8 or 32 queries; warp w has queries w, w + 8, ... The block reads
 * the rows of 32 slots at a time. Each lane computes the scores of one row, so a warp finds maxima and sums without a
 * barrier. K and V are loaded through shared memory, 64 dimensions at a time. A block sums at most 256 dimensions of V.
 * For a larger head_dim, additional blocks sum the other dimensions and compute the scores again.
 *
 * One launch. Memory traffic: K and V once per tile of queries. */
#include "kernels/cuda/cuda_attn.cuh"

/* PIECE is the number of dimensions that are in shared memory at a time. PITCH is the number of floats of a row in
 * shared memory, padded against bank conflicts. */
enum { TILE_ROWS = 32, WARPS = 8, THREADS = WARPS * WARP, PIECE = 64, PITCH = PIECE + 4 };

template <int TYPE> static __device__ inline float plane_value(const uint8_t *row, int32_t d)
{
	if (TYPE == DT_F32)
		return ((const float *)row)[d];
	if (TYPE == DT_F16)
		return __half2float(((const __half *)row)[d]);
	if (TYPE == DT_BF16)
		return __uint_as_float((uint32_t)((const uint16_t *)row)[d] << 16);
	row += d / 32 * 34;
	return __half2float(*(const __half *)row) * (float)((const int8_t *)row)[2 + d % 32];
}

/* Load 64 dimensions, from d0 on, of 32 rows, from i0 on, of a segment. Values outside of the segment or of head_dim
 * become 0. */
template <int TYPE>
static __device__ inline void load_rows(float (*to)[PITCH], const struct attn_launch &a, const uint8_t *plane,
                                        const struct launch_segment &s, int32_t kv, int32_t i0, int32_t i1, int32_t d0)
{
	int32_t r0 = (int32_t)threadIdx.x / PIECE, d = d0 + (int32_t)threadIdx.x % PIECE;

	for (int32_t r = r0; r < TILE_ROWS; r += THREADS / PIECE)
		to[r][d - d0] =
			i0 + r < i1 && d < a.head_dim ? plane_value<TYPE>(plane + attn_row(a, s, kv, i0 + r), d) : 0;
}

/* The functions below are parts of the kernel attn_f32. A row is a slot of the launch's part; rows are numbered within
 * the segment. Each lane computes the score of one row, i0 + lane.
 *
 * Warp w computes queries w, w + WARPS, ... of the tile. In the warp's arrays, these queries have the indexes j = 0, 1,
 * ... Query j sees rows low[j] .. seen[j] - 1.
 *
 * V is summed in pieces of 64 dimensions. Lane k sums dimensions 2k and 2k + 1 of every piece. */

/* Set `dot` to the products of the warp's queries with K of the 32 rows from i0 on. Called by all threads of a
 * block. */
template <int TYPE, int QUERIES>
static __device__ __forceinline__ void f32_scores(float (&dot)[QUERIES / WARPS], float (*qs)[PITCH],
                                                  float (*rows)[PITCH], const struct attn_launch &a,
                                                  const struct launch_segment &s, int32_t kv, int32_t query0,
                                                  int32_t i0, int32_t i1)
{
	enum { EACH = QUERIES / WARPS };
	int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;

#pragma unroll
	for (int j = 0; j < EACH; j++)
		dot[j] = 0;
	for (int32_t from = 0; from < a.head_dim; from += PIECE) {
		__syncthreads();
		for (int32_t x = (int32_t)threadIdx.x; x < QUERIES * PIECE; x += THREADS) {
			int32_t query = query0 + x / PIECE, d = from + x % PIECE;

			qs[x / PIECE][x % PIECE] = query < a.queries && d < a.head_dim
			                                   ? s.q[attn_query_row(a, kv, query) * a.head_dim + d]
			                                   : 0;
		}
		load_rows<TYPE>(rows, a, a.k, s, kv, i0, i1, from);
		__syncthreads();
		for (int32_t d = 0; d < PIECE; d += 4) {
			float4 k = *(const float4 *)&rows[lane][d];

#pragma unroll
			for (int j = 0; j < EACH; j++) {
				float4 q = *(const float4 *)&qs[warp + WARPS * j][d];

				dot[j] = fmaf(q.x, k.x, fmaf(q.y, k.y, fmaf(q.z, k.z, fmaf(q.w, k.w, dot[j]))));
			}
		}
	}
}

/* Do one step of the running softmax. Update the maximum m and the sum l of each query. Rescale the query's earlier
 * weighted sums of V in `acc`. Set ps to exp(score - m). Also store the scores if a probe needs them. */
template <int EACH, int PIECES>
static __device__ __forceinline__ void f32_softmax(float (*ps)[TILE_ROWS], float (&acc)[EACH][PIECES][2],
                                                   float (&m)[EACH], float (&l)[EACH], const float (&dot)[EACH],
                                                   const struct attn_launch &a, int32_t p, int32_t kv, int32_t query0,
                                                   int32_t d0, int32_t i0, const int32_t (&low)[EACH],
                                                   const int32_t (&seen)[EACH])
{
	int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;

#pragma unroll
	for (int j = 0; j < EACH; j++) {
		int32_t query = query0 + warp + WARPS * j;
		int there = i0 + lane >= low[j] && i0 + lane < seen[j];
		float x = attn_capped(a, dot[j] * a.scale) + attn_bias(a, p, kv, i0 + lane), most, base, w, e;

		if (there && a.score && d0 == 0)
			a.score[attn_query_row(a, kv, query) * a.stride + a.seg[p].col + i0 + lane] = x;
		x = there ? x * LOG2_E : -INFINITY;
		most = fmaxf(m[j], warp_max(x));
		base = most == -INFINITY ? 0 : most;
		e = there ? power2(x - base) : 0;
		w = power2(m[j] - base);
		m[j] = most;
		l[j] = l[j] * w + e;
#pragma unroll
		for (int piece = 0; piece < PIECES; piece++) {
			acc[j][piece][0] *= w;
			acc[j][piece][1] *= w;
		}
		ps[warp + WARPS * j][lane] = e;
	}
}

/* Multiply V of the 32 rows from i0 on by the exponentials ps, for `dims` dimensions from d0 on, and add the products
 * to `acc`. Called by all threads of a block. */
template <int TYPE, int EACH, int PIECES>
static __device__ __forceinline__ void f32_values(float (&acc)[EACH][PIECES][2], const float (*ps)[TILE_ROWS],
                                                  float (*rows)[PITCH], const struct attn_launch &a,
                                                  const struct launch_segment &s, int32_t kv, int32_t d0, int32_t dims,
                                                  int32_t i0, int32_t i1, const int32_t (&low)[EACH],
                                                  const int32_t (&seen)[EACH])
{
	int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;

#pragma unroll
	for (int piece = 0; piece < PIECES; piece++) {
		if (piece * PIECE >= dims)
			continue;
		__syncthreads();
		load_rows<TYPE>(rows, a, a.v, s, kv, i0, i1, d0 + piece * PIECE);
		__syncthreads();
		/* Skip hidden rows. It is not enough to multiply them by 0, because 0 times NaN is NaN. */
		for (int32_t r = 0; r < TILE_ROWS; r++) {
			float2 v = *(const float2 *)&rows[r][2 * lane];

#pragma unroll
			for (int j = 0; j < EACH; j++)
				if (i0 + r >= low[j] && i0 + r < seen[j]) {
					float e = ps[warp + WARPS * j][r];

					acc[j][piece][0] = fmaf(e, v.x, acc[j][piece][0]);
					acc[j][piece][1] = fmaf(e, v.y, acc[j][piece][1]);
				}
		}
	}
}

/* Write this warp's sums to the output or, with several spans, to this block's partial result. */
template <int QUERIES, int PIECES>
static __device__ __forceinline__ void f32_end(const struct attn_launch &a,
                                               const float (&acc)[QUERIES / WARPS][PIECES][2],
                                               const float (&m)[QUERIES / WARPS], const float (&l)[QUERIES / WARPS],
                                               int32_t kv, int32_t tile, int32_t query0, int32_t d0, int32_t dims,
                                               int32_t partials)
{
	int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;

#pragma unroll
	for (int j = 0; j < QUERIES / WARPS; j++) {
		int32_t q = warp + WARPS * j, query = query0 + q;
		float sum = warp_sum(l[j]), by = 1;
		float *to;

		if (query >= a.queries)
			continue;
		if (partials == 1) {
			int64_t at = attn_query_row(a, kv, query);

			sum += attn_sink(a, at, m[j]);
			by = 1 / sum;

			to = a.out + at * a.head_dim + d0;
			if (a.score && d0 == 0 && lane == 0) {
				a.max[at] = m[j] * LN_2;
				a.sum[at] = sum;
			}
		} else {
			float *partial = attn_partial(a, QUERIES, kv, tile, a.partial0 + (int32_t)blockIdx.x),
			      *ml = partial + QUERIES * a.dims + 2 * q;

			to = partial + q * a.dims;
			if (lane == 0) {
				ml[0] = m[j];
				ml[1] = sum;
			}
		}
#pragma unroll
		for (int piece = 0; piece < PIECES; piece++)
#pragma unroll
			for (int e = 0; e < 2; e++)
				if (piece * PIECE + 2 * lane + e < dims)
					to[piece * PIECE + 2 * lane + e] = acc[j][piece][e] * by;
	}
}

template <int TYPE, int QUERIES> static __global__ __launch_bounds__(THREADS) void attn_f32(struct attn_launch a)
{
	enum { EACH = QUERIES / WARPS, PIECES = ATTN_DIMS / PIECE };
	SHARED(float4, qs4, [QUERIES][PITCH / 4]);
	SHARED(float4, rows4, [TILE_ROWS][PITCH / 4]);
	SHARED(float, ps, [QUERIES][TILE_ROWS]);
	int32_t kv = (int32_t)blockIdx.y, chunks = (a.head_dim + a.dims - 1) / a.dims, at0 = a.col0;
	int32_t tile = (int32_t)blockIdx.z, chunk = tile % chunks, query0 = tile / chunks * QUERIES,
		d0 = chunk * a.dims;
	int32_t dims = min(a.dims, a.head_dim - d0), warp = (int32_t)threadIdx.x / WARP;
	struct attn_split split = attn_split_of(a);
	int32_t last_query = min(query0 + QUERIES, a.queries) - 1;
	float acc[EACH][PIECES][2], m[EACH], l[EACH];
	/* qs4 and rows4 are arrays of float4 for their alignment: rows are read four values at a time. */
	float(*qs)[PITCH] = (float(*)[PITCH])qs4, (*rows)[PITCH] = (float(*)[PITCH])rows4;

	if (split.c0 >= split.c1)
		return;
#pragma unroll
	for (int j = 0; j < EACH; j++) {
		m[j] = -INFINITY;
		l[j] = 0;
#pragma unroll
		for (int p = 0; p < PIECES; p++)
			acc[j][p][0] = acc[j][p][1] = 0;
	}
	for (int32_t p = 0; p < a.n_seg; at0 += attn_slots(a, p), p++) {
		const struct launch_segment &s = a.seg[p];
		int32_t i1 = min(min(attn_slots(a, p), split.c1 - at0), attn_limit(a, p, last_query)), seen[EACH],
			low[EACH];

#pragma unroll
		for (int j = 0; j < EACH; j++) {
			int32_t query = query0 + warp + WARPS * j;

			seen[j] = query < a.queries ? min(i1, attn_limit(a, p, query)) : 0;
			low[j] = attn_first(a, p, query);
		}
		for (int32_t i0 = max(max(0, split.c0 - at0), attn_first(a, p, query0)); i0 < i1; i0 += TILE_ROWS) {
			float dot[EACH];

			f32_scores<TYPE, QUERIES>(dot, qs, rows, a, s, kv, query0, i0, i1);
			f32_softmax<EACH, PIECES>(ps, acc, m, l, dot, a, p, kv, query0, d0, i0, low, seen);
			f32_values<TYPE, EACH, PIECES>(acc, ps, rows, a, s, kv, d0, dims, i0, i1, low, seen);
		}
	}
	f32_end<QUERIES, PIECES>(a, acc, m, l, kv, tile, query0, d0, dims, split.partials);
	if (split.partials > 1)
		attn_merge(a, QUERIES, kv, tile, query0, d0, dims, split.partials);
}

struct attn_shape attn_f32_shape(const struct attn_plan *p)
{
	struct attn_shape s = { p->a.queries <= 8 ? 8 : 32, ATTN_DIMS, 64 };

	return s;
}

template <int TYPE> static void f32_start(const struct attn_plan *p)
{
	const struct attn_launch *a = &p->a;
	unsigned x = (unsigned)p->grid_spans, y = (unsigned)(a->n_head / a->group), z = (unsigned)a->tiles;

	if (a->queries <= 8)
		cuda_launch(p->c, attn_f32<TYPE, 8>, x, y, z, THREADS, 0, *a);
	else
		cuda_launch(p->c, attn_f32<TYPE, 32>, x, y, z, THREADS, 0, *a);
}

void attn_f32_start(const struct attn_plan *p)
{
	switch (p->type) {
	case DT_F32: f32_start<DT_F32>(p); break;
	case DT_F16: f32_start<DT_F16>(p); break;
	case DT_BF16: f32_start<DT_BF16>(p); break;
	default: f32_start<DT_Q8_0>(p);
	}
}
