/* kernels/cuda/cuda_attn.cuh (private to kernels/cuda/) - declarations that the attention kernels share: arguments, and
 * the merging of partial results.
 *
 * Terms:
 * - Query: one query head at one token. The queries of a KV head are numbered token by token.
 * - Tile: the queries that one thread block computes.
 * - Column: a slot that an attn() call may read. Columns are numbered in the order of the call's segments (struct
 *   attn_segment).
 * - Active column: a column that at least one token of a launch reads. Columns before a window, columns of tokens after
 *   the launch and columns of skipped segments are not active. Active columns have numbers of their own, without gaps.
 * - Span: the consecutive active columns that one thread block reads.
 * - Partial result of a tile over one span: for each query the maximum score, the sum of exponentials and the weighted
 *   sum of V.
 *
 * With more than one span, each block writes its partial result to `state`. The block of a tile that finishes last
 * merges them, in the order of the spans. So the bits of the result do not depend on which block finishes last.
 *
 * Exponentials are computed as powers of 2, so stored maxima are maxima of score * log2(e). */
#ifndef WEIR_CUDA_ATTN_CUH
#define WEIR_CUDA_ATTN_CUH

#include "kernels/cuda/cuda.cuh"

enum {
	ATTN_SEGMENTS = 16,   /* maximum number of segments of one launch */
	ATTN_DIMS = 256,      /* maximum number of dimensions of V that one block sums */
	ATTN_PARTIALS = 1024, /* maximum number of partial results of one tile */
	/* maximum number of queries of a KV head that attn_decode computes; attn_prefill computes more */
	DECODE_QUERIES = 32,
};
#define LOG2_E 1.44269504f
#define LN_2   0.69314718f

/* A segment of an attn() call (struct attn_segment): queries and the slots that they read. */
struct launch_segment {
	const float *q;       /* f32 [n][n_head * head_dim] */
	const int32_t *slots; /* [n_kv_head][ld] list of slots; NULL: the slots from slot0 on */
	int32_t ld, slot0, n_slots;
	int32_t col;                /* column of the segment's first slot */
	struct cuda_predicate when; /* the segment is skipped if this predicate is false */
};

/* Arguments of an attention kernel. */
struct attn_launch {
	const uint8_t *k, *v;
	float *out;
	/* Partial results, [KV head][tile][partial result]. A partial result has sums of V [queries of a tile][dims],
	 * then maxima and sums of exponentials [queries of a tile][2]. */
	float *state;
	uint32_t *left;           /* [KV head][tile] number of finished blocks; 0 between calls */
	float *score, *max, *sum; /* outputs for a probe (struct attn_seen), or NULL */
	int64_t stride;           /* number of floats in a row of scores */
	int64_t row_bytes;        /* size of a slot in a plane in bytes */
	/* number of slots per KV head in a plane; values per head; query heads; query heads per KV head */
	int32_t cap, head_dim, n_head, group;
	int32_t queries, n; /* number of queries of a KV head, and number of tokens */
	int32_t tiles;      /* number of tiles of queries times number of chunks of head_dim */
	int32_t dims;       /* number of dimensions of a chunk of head_dim */
	/* `col0` is the number of this launch's first active column (see the top of this file). `cols` is the number of
	 * active columns of this launch. */
	int32_t col0, cols;
	/* `span` is the number of active columns of a span, a multiple of `step`. `spans` is the number of spans. */
	int32_t span, spans;
	/* index of this launch's first partial result in `state`, and number of partial results of a tile in all
	 * launches of the call */
	int32_t partial0, partials;
	int32_t step; /* the number of columns of a span is a multiple of this number (attn_shape.least_rows) */
	/* `last` is 1 if seg[n_seg - 1] ends with the slots of the call's own tokens, to which the causal mask
	 * applies. */
	int32_t n_seg, last;
	/* 1: some segments may be skipped, because they have a predicate (attn_segment.when). Then each block evaluates
	 * the predicates, and the columns of the segments that are not skipped are divided among the blocks. */
	int32_t maybe;
	float scale, softcap; /* if softcap > 0, scores become softcap * tanh(score / softcap) */
	/* [n_kv_head][bias_ld] biases that are added to the scores of segment number bias_seg of this launch, or
	 * NULL */
	const float *bias;
	int32_t bias_ld, bias_seg;
	const float *sinks; /* f32 [n_head] scores of the attention sinks, or NULL */
	/* If window > 0, a token sees its own column and the window - 1 columns before it. If window is 0, there is no
	 * window. `total` is the number of columns of all segments. */
	int32_t window, total;
	struct launch_segment seg[ATTN_SEGMENTS];
};

/* What attention stores for a probe (struct attn_probe). `score` [n][n_head][stride] has the scaled scores of the
 * columns that a token sees. `max` and `sum` [n][n_head] have the maximum score and the sum of exp(score - max). All
 * three are f32. `zero` has 16 bytes of counters, which are 0 between calls. `first` is 1 for the first measured tokens
 * of a call. */
struct attn_seen {
	float *score, *max, *sum;
	void *zero;
	size_t stride;
	int first;
};

/* Consecutive tokens of an attn() call that are computed together. The operands of the call are checked. */
struct attn_plan {
	struct cuda *c;
	enum dtype type;
	int exact;            /* 1: do not round queries to 16 bits, because a probe reads the scores */
	int biased;           /* number of the call's segments (struct attn_segment) that have a bias, 0 or 1 */
	struct attn_launch a; /* arguments; segments, spans and memory are set for each launch */
	int32_t grid_spans;   /* number of spans of the grid, a power of two */
};

/* How a kernel divides its work. A tile has `queries` queries. If `queries` is 0, the kernel cannot compute this call.
 * A block sums `dims` dimensions of V. The number of columns of a span is a multiple of `least_rows`. */
struct attn_shape {
	int32_t queries, dims, least_rows;
};
struct attn_shape attn_decode_shape(const struct attn_plan *);
struct attn_shape attn_prefill_shape(const struct attn_plan *);
struct attn_shape attn_f32_shape(const struct attn_plan *);
void attn_decode_start(const struct attn_plan *);
void attn_prefill_start(const struct attn_plan *);
void attn_f32_start(const struct attn_plan *);

/* Return 2^x by the device's instruction: exact to 2 units in the last place; subnormal results are 0. */
static __device__ inline float power2(float x)
{
#ifdef __CUDACC__
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
#else
	return exp2f(x);
#endif
}

/* Return the index of a query in arrays of [token][n_head], such as scores and outputs. */
static __device__ inline int64_t attn_query_row(const struct attn_launch &a, int32_t kv, int32_t query)
{
	return (int64_t)(query / a.group) * a.n_head + kv * a.group + query % a.group;
}

/* Return the index after the last slot that `query` sees among the slots in segment p of the launch. */
static __device__ inline int32_t attn_limit(const struct attn_launch &a, int32_t p, int32_t query)
{
	return a.last && p == a.n_seg - 1 ? a.seg[p].n_slots - (a.n - 1 - query / a.group) : a.seg[p].n_slots;
}

/* Return the index of the first slot of the launch's segment p that is in the query's window. */
static __device__ inline int32_t attn_first(const struct attn_launch &a, int32_t p, int32_t query)
{
	return a.window ? max(0, a.total - (a.n - 1 - query / a.group) - a.window - a.seg[p].col) : 0;
}

/* Return the score. If the model has a soft cap, the score is capped. */
static __device__ inline float attn_capped(const struct attn_launch &a, float score)
{
	return a.softcap > 0 ? a.softcap * tanhf(score / a.softcap) : score;
}

/* Return the bias of slot i of the launch's segment p. */
static __device__ inline float attn_bias(const struct attn_launch &a, int32_t p, int32_t kv, int32_t i)
{
	return a.bias && p == a.bias_seg && i < a.seg[p].n_slots ? a.bias[(int64_t)kv * a.bias_ld + i] : 0;
}

/* Return the number that the attention sink adds to the softmax denominator: exp(sink - most). `at` is the index of the
 * pair of token and query head. */
static __device__ inline float attn_sink(const struct attn_launch &a, int64_t at, float most)
{
	return a.sinks ? power2(a.sinks[at % a.n_head] * LOG2_E - most) : 0;
}

/* The span of a thread block consists of the active columns from c0 to c1 - 1. The block's tile has `partials` partial
 * results. */
struct attn_split {
	int32_t c0, c1, partials;
};

/* Return the number of slots of segment p that are read, or 0 if the segment is skipped. */
static __device__ inline int32_t attn_slots(const struct attn_launch &a, int32_t p)
{
	return !a.maybe || predicate_holds(a.seg[p].when) ? a.seg[p].n_slots : 0;
}

/* Return the active columns of span number blockIdx.x. If there is no such span, c0 equals c1. */
static __device__ inline struct attn_split attn_split_of(const struct attn_launch &a)
{
	int32_t cols = a.cols, span = a.span, i = (int32_t)blockIdx.x;
	struct attn_split s = { 0, 0, a.partials };

	if (a.maybe) {
		cols = 0;
		for (int32_t p = 0; p < a.n_seg; p++)
			cols += attn_slots(a, p);
		span = ((cols - 1) / (int32_t)gridDim.x / a.step + 1) * a.step;
		s.partials = (cols - 1) / span + 1;
	}
	if (i < (cols - 1) / span + 1) {
		s.c0 = a.col0 + i * span;
		s.c1 = min(s.c0 + span, a.col0 + cols);
	}
	return s;
}

/* Return the byte offset of a segment's slot i in its plane. If a list of slots has a number outside of the plane, use
 * the last slot, because the host cannot check lists that kernels wrote. */
static __device__ inline int64_t attn_row(const struct attn_launch &a, const struct launch_segment &s, int32_t kv,
                                          int32_t i)
{
	int32_t slot = s.slot0 + i;

	if (s.slots) {
		slot = s.slots[(int64_t)kv * s.ld + i];
		slot = (uint32_t)slot < (uint32_t)a.cap ? slot : a.cap - 1;
	}
	return ((int64_t)kv * a.cap + slot) * a.row_bytes;
}

/* Return the address in a.state of partial result number `partial` of a tile. A tile has `tile_queries` queries. */
static __device__ inline float *attn_partial(const struct attn_launch &a, int32_t tile_queries, int32_t kv,
                                             int32_t tile, int32_t partial)
{
	return a.state + ((int64_t)(kv * a.tiles + tile) * a.partials + partial) * tile_queries * (a.dims + 2);
}

/* Compute the weights by which the partial results of one query are multiplied before they are added up. There is one
 * weight per partial result. `ml` has the maximum score and the sum of exponentials of each partial result. If `seen`
 * is 1, also store the query's maximum and sum for a probe. Called by all lanes of a warp. */
static __device__ inline void attn_weights(const struct attn_launch &a, float *weight, const float *ml,
                                           int64_t partial_size, int64_t at, int32_t partials, int seen)
{
	int32_t lane = (int32_t)threadIdx.x % WARP;
	float most = -INFINITY, sum = 0;

	for (int32_t s = lane; s < partials; s += WARP)
		most = fmaxf(most, weight[s] = __ldcg(ml + s * partial_size));
	most = warp_max(most);
	for (int32_t s = lane; s < partials; s += WARP) {
		float l = __ldcg(ml + s * partial_size + 1);

		weight[s] = l == 0 ? 0 : power2(weight[s] - most);
		sum += l * weight[s];
	}
	sum = warp_sum(sum) + attn_sink(a, at, most);
	for (int32_t s = lane; s < partials; s += WARP)
		weight[s] /= sum;
	if (seen && lane == 0) {
		a.max[at] = most * LN_2;
		a.sum[at] = sum;
	}
}

/* Merge the partial results of a tile. Every block of the tile calls this function at its end, with all threads; the
 * last block to call it does the work. `query0` is the first query of the tile. The block sums `dims` dimensions of V,
 * beginning with d0. */
static __device__ inline void attn_merge(const struct attn_launch &a, int32_t tile_queries, int32_t kv, int32_t tile,
                                         int32_t query0, int32_t d0, int32_t dims, int32_t partials)
{
	SHARED(uint32_t, done, [1]);
	SHARED(float, weight, [ATTN_PARTIALS]);
	int32_t n = min(tile_queries, a.queries - query0), each = ATTN_PARTIALS / partials,
		warps = (int32_t)blockDim.x / WARP;
	int64_t partial_size = (int64_t)tile_queries * (a.dims + 2);
	const float *partial = attn_partial(a, tile_queries, kv, tile, 0);

	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		done[0] = atomicAdd(&a.left[kv * a.tiles + tile], 1u) + 1;
		if (done[0] == (uint32_t)partials)
			a.left[kv * a.tiles + tile] = 0;
	}
	__syncthreads();
	if (done[0] != (uint32_t)partials)
		return;
	__threadfence();
	/* Shared memory has room for the weights of `each` queries, so each pass merges up to `each` queries. */
	for (int32_t q0 = 0; q0 < n; q0 += each) {
		int32_t some = min(each, n - q0), wide = a.head_dim % 4 ? 1 : 4, pieces = dims / wide;

		for (int32_t q = (int32_t)threadIdx.x / WARP; q < some; q += warps)
			attn_weights(a, weight + q * partials, partial + tile_queries * a.dims + 2 * (q0 + q),
			             partial_size, attn_query_row(a, kv, query0 + q0 + q), partials,
			             a.score && d0 == 0);
		__syncthreads();
		for (int32_t i = (int32_t)threadIdx.x; i < some * pieces; i += (int32_t)blockDim.x) {
			int32_t q = i / pieces, d = i % pieces * wide;
			const float *from = partial + (q0 + q) * a.dims + d, *w = weight + q * partials;
			float *to = a.out + attn_query_row(a, kv, query0 + q0 + q) * a.head_dim + d0 + d;
			float4 x = make_float4(0, 0, 0, 0);

			if (wide == 1) {
				for (int32_t s = 0; s < partials; s++)
					x.x = fmaf(__ldcg(from + s * partial_size), w[s], x.x);
				*to = x.x;
				continue;
			}
#pragma unroll 8
			for (int32_t s = 0; s < partials; s++) {
				float4 y = __ldcg((const float4 *)(from + s * partial_size));

				x.x = fmaf(y.x, w[s], x.x);
				x.y = fmaf(y.y, w[s], x.y);
				x.z = fmaf(y.z, w[s], x.z);
				x.w = fmaf(y.w, w[s], x.w);
			}
			*(float4 *)to = x;
		}
		__syncthreads();
	}
}

#endif
