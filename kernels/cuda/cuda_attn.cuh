/* kernels/cuda/cuda_attn.cuh (private to kernels/cuda/) - one call of attention as its kernels see it.
 *
 * Queries are the pairs (token, head of the group) of one KV head, in this order; a block takes a tile of them.  Columns
 * are the rows of all parts, one after the other; a block takes a span of them.  Where there is more than one span,
 * blocks leave (max, sum, sums of V) in slots of `state`, and who finishes last merges the slots in their order: the bits do not
 * depend on who that was.
 *
 * Exponentials are powers of 2: maxima are those of score * log2(e). */
#ifndef WEIR_CUDA_ATTN_CUH
#define WEIR_CUDA_ATTN_CUH

#include "kernels/cuda/cuda.cuh"

enum {
	ATTN_PARTS = 16,             /* of one launch */
	ATTN_DIMS = 256,             /* of one block */
	ATTN_SLOTS = 1024,           /* of one tile, at most */
	DECODE_QUERIES = 32,            /* of a KV head: up to here they are taken by eights, straight from the planes */
};
#define LOG2_E 1.44269504f
#define LN_2 0.69314718f

struct attn_seg {
	const float *q;              /* f32 [n][n_head * head_dim] */
	const int32_t *rows;         /* [n_kv_head][ld], or NULL */
	int32_t ld, row0, n_rows;
	int32_t col;                 /* its first column of the call */
	struct cuda_predicate when;
};

struct attn_launch {
	const uint8_t *k, *v;
	float *out;
	float *state;                /* [kv head][tile][slot]: [queries of a tile][dims] sums, [queries of a tile][2] max and sum */
	uint32_t *left;              /* [kv head][tile]: blocks that are done; zero between calls */
	float *score, *max, *sum;    /* for a probe, or NULL (struct attn_seen) */
	int64_t stride;              /* of scores */
	int64_t row_bytes;
	int32_t cap, head_dim, n_head, group;
	int32_t queries, n;          /* of a KV head; tokens */
	int32_t tiles;               /* all, of chunks of head_dim too */
	int32_t dims;                /* of a chunk */
	int32_t col0, cols;          /* the columns of this launch */
	int32_t span, spans;         /* columns of a span, whole steps; number of spans */
	int32_t slot0, slots;        /* the first span's slot; all slots of the call */
	int32_t step;                /* of columns, in every kernel */
	int32_t n_part, last;        /* last: of part[n_part - 1] tokens see different rows */
	int32_t maybe;               /* parts have conditions: spans and slots are not known before the flags are read */
	float scale;
	struct attn_seg part[ATTN_PARTS];
};

/* Scores for a probe: f32 [n][n_head][stride], scaled, not of columns that a token does not see; max and sum of exp(score - max)
 * f32 [n][n_head].  zero: 16 bytes that are zero between calls.  first: of the tokens of a call that are looked at. */
struct attn_seen {
	float *score, *max, *sum;
	void *zero;
	size_t stride;
	int first;
};

/* Tokens of a call whose shapes were checked, on their way to the kernels. */
struct attn_plan {
	struct cuda *c;
	enum dtype type;
	int exact;                   /* scores are wanted for themselves */
	struct attn_launch a;        /* all but parts, spans and memory */
	int32_t grid_spans;          /* a power of two */
};

/* How a kernel divides its work: queries of a tile, dims of a chunk, 0 = it cannot do this call. */
struct attn_shape { int32_t queries, dims, least_rows; };
struct attn_shape attn_decode_shape(const struct attn_plan *);
struct attn_shape attn_prefill_shape(const struct attn_plan *);
struct attn_shape attn_f32_shape(const struct attn_plan *);
void attn_decode_start(const struct attn_plan *);
void attn_prefill_start(const struct attn_plan *);
void attn_f32_start(const struct attn_plan *);

/* 2^x by the device's own instruction, to 2 units in the last place; 0 below the normal numbers. */
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

/* The (token, head) of a query, as scores and rows of head_dim are numbered. */
static __device__ inline int64_t attn_place(const struct attn_launch &a, int32_t kv, int32_t query)
{
	return (int64_t)(query / a.group) * a.n_head + kv * a.group + query % a.group;
}

/* Rows of the launch's part p that a query sees. */
static __device__ inline int32_t attn_limit(const struct attn_launch &a, int32_t p, int32_t query)
{
	return a.last && p == a.n_part - 1 ? a.part[p].n_rows - (a.n - 1 - query / a.group) : a.part[p].n_rows;
}

/* What a block reads: columns c0 .. c1, not counting parts whose condition is not fulfilled; and how many slots there are. */
struct attn_split { int32_t c0, c1, slots; };

static __device__ inline int32_t attn_rows(const struct attn_launch &a, int32_t p)
{
	return !a.maybe || predicate_holds(a.part[p].when) ? a.part[p].n_rows : 0;
}

/* Of span blockIdx.x; empty where it is none, and the block has nothing to do. */
static __device__ inline struct attn_split attn_split_of(const struct attn_launch &a)
{
	int32_t cols = a.cols, span = a.span, i = (int32_t)blockIdx.x;
	struct attn_split s = { 0, 0, a.slots };

	if (a.maybe) {
		cols = 0;
		for (int32_t p = 0; p < a.n_part; p++)
			cols += attn_rows(a, p);
		span = ((cols - 1) / (int32_t)gridDim.x / a.step + 1) * a.step;
		s.slots = (cols - 1) / span + 1;
	}
	if (i < (cols - 1) / span + 1) {
		s.c0 = a.col0 + i * span;
		s.c1 = min(s.c0 + span, a.col0 + cols);
	}
	return s;
}

/* Where row i of a part lies, in bytes.  A list is what other kernels wrote: whatever it says, reads stay inside the plane. */
static __device__ inline int64_t attn_row(const struct attn_launch &a, const struct attn_seg &s, int32_t kv, int32_t i)
{
	int32_t row = s.row0 + i;

	if (s.rows) {
		row = s.rows[(int64_t)kv * s.ld + i];
		row = (uint32_t)row < (uint32_t)a.cap ? row : a.cap - 1;
	}
	return ((int64_t)kv * a.cap + row) * a.row_bytes;
}

static __device__ inline float *attn_slot(const struct attn_launch &a, int32_t tile_queries, int32_t kv, int32_t tile, int32_t slot)
{
	return a.state + ((int64_t)(kv * a.tiles + tile) * a.slots + slot) * tile_queries * (a.dims + 2);
}

/* What each slot of a query counts for in the whole; for the lanes of a warp.  weight[slots]. */
static __device__ inline void attn_weights(const struct attn_launch &a, float *weight, const float *ml, int64_t slot_size, int64_t at,
                                           int32_t slots, int seen)
{
	int32_t lane = (int32_t)threadIdx.x % WARP;
	float most = -INFINITY, sum = 0;

	for (int32_t s = lane; s < slots; s += WARP)
		most = fmaxf(most, weight[s] = __ldcg(ml + s * slot_size));
	most = warp_max(most);
	for (int32_t s = lane; s < slots; s += WARP) {
		float l = __ldcg(ml + s * slot_size + 1);

		weight[s] = l == 0 ? 0 : power2(weight[s] - most);
		sum += l * weight[s];
	}
	sum = warp_sum(sum);
	for (int32_t s = lane; s < slots; s += WARP)
		weight[s] /= sum;
	if (seen && lane == 0) {
		a.max[at] = most * LN_2;
		a.sum[at] = sum;
	}
}

/* The end of every kernel, for all threads of a block: this block's slot is written; the last block of the tile merges.
 * query0: the tile's first; d0, dims: the chunk of head_dim; slots: how many there are. */
static __device__ inline void attn_merge(const struct attn_launch &a, int32_t tile_queries, int32_t kv, int32_t tile, int32_t query0,
                                         int32_t d0, int32_t dims, int32_t slots)
{
	SHARED(uint32_t, done, [1]);
	SHARED(float, weight, [ATTN_SLOTS]);
	int32_t n = min(tile_queries, a.queries - query0), each = ATTN_SLOTS / slots, warps = (int32_t)blockDim.x / WARP;
	int64_t slot_size = (int64_t)tile_queries * (a.dims + 2);
	const float *slot = attn_slot(a, tile_queries, kv, tile, 0);

	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		done[0] = atomicAdd(&a.left[kv * a.tiles + tile], 1u) + 1;
		if (done[0] == (uint32_t)slots)
			a.left[kv * a.tiles + tile] = 0;
	}
	__syncthreads();
	if (done[0] != (uint32_t)slots)
		return;
	__threadfence();
	/* As many queries at a time as there is room for weights. */
	for (int32_t q0 = 0; q0 < n; q0 += each) {
		int32_t some = min(each, n - q0), wide = a.head_dim % 4 ? 1 : 4, pieces = dims / wide;

		for (int32_t q = (int32_t)threadIdx.x / WARP; q < some; q += warps)
			attn_weights(a, weight + q * slots, slot + tile_queries * a.dims + 2 * (q0 + q), slot_size,
			             attn_place(a, kv, query0 + q0 + q), slots, a.score && d0 == 0);
		__syncthreads();
		for (int32_t i = (int32_t)threadIdx.x; i < some * pieces; i += (int32_t)blockDim.x) {
			int32_t q = i / pieces, d = i % pieces * wide;
			const float *from = slot + (q0 + q) * a.dims + d, *w = weight + q * slots;
			float *to = a.out + attn_place(a, kv, query0 + q0 + q) * a.head_dim + d0 + d;
			float4 x = make_float4(0, 0, 0, 0);

			if (wide == 1) {
				for (int32_t s = 0; s < slots; s++)
					x.x = fmaf(__ldcg(from + s * slot_size), w[s], x.x);
				*to = x.x;
				continue;
			}
#pragma unroll 8
			for (int32_t s = 0; s < slots; s++) {
				float4 y = __ldcg((const float4 *)(from + s * slot_size));

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
