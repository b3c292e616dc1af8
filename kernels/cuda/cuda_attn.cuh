/* kernels/cuda/cuda_attn.cuh (private to kernels/cuda/) - one call of attention as its kernels see it.
 *
 * Queries are the pairs (token, head of the group) of one KV head, token by token; a thread block computes a tile of
 * them. Columns are the KV slots of all parts in order; a block reads a span of them. With more than one span, each
 * block writes its partial result (max, sum, sums of V) to its place in `state`, and the block that finishes last
 * merges these in order: the bits do not depend on which block that is. "slot" in the names below is such a place, not
 * a slot of the cache.
 *
 * Exponentials are powers of 2: maxima are those of score * log2(e). */
#ifndef WEIR_CUDA_ATTN_CUH
#define WEIR_CUDA_ATTN_CUH

#include "kernels/cuda/cuda.cuh"

enum {
	ATTN_PARTS = 16,     /* of one launch */
	ATTN_DIMS = 256,     /* dims of V that one block sums */
	ATTN_SLOTS = 1024,   /* partial results of one tile, at most */
	DECODE_QUERIES = 32, /* queries of a KV head up to which attn_decode is used */
};
#define LOG2_E 1.44269504f
#define LN_2   0.69314718f

struct attn_seg {
	const float *q;       /* f32 [n][n_head * head_dim] */
	const int32_t *slots; /* [n_kv_head][ld], or NULL */
	int32_t ld, slot0, n_slots;
	int32_t col; /* the call's column of its first slot */
	struct cuda_predicate when;
};

struct attn_launch {
	const uint8_t *k, *v;
	float *out;
	/* [KV head][tile][slot]: [queries of a tile][dims] sums, [queries of a tile][2] max and sum */
	float *state;
	uint32_t *left;           /* [KV head][tile]: blocks that are done; zero between calls */
	float *score, *max, *sum; /* for a probe, else NULL (struct attn_seen) */
	int64_t stride;           /* of scores */
	int64_t row_bytes;
	int32_t cap, head_dim, n_head, group;
	int32_t queries, n;   /* queries of a KV head; tokens */
	int32_t tiles;        /* tiles of queries times chunks of head_dim */
	int32_t dims;         /* of a chunk */
	int32_t col0, cols;   /* the columns of this launch */
	int32_t span, spans;  /* columns of a span, whole steps; number of spans */
	int32_t slot0, slots; /* slot of the first span; slots of the whole call */
	int32_t step;         /* a span is a multiple of this many columns */
	int32_t n_part, last; /* last: part[n_part - 1] holds the call's own tokens, under the causal mask */
	int32_t maybe;        /* parts have predicates: blocks read the flags before they know spans and slots */
	float scale, softcap; /* scores become softcap * tanh(score / softcap); 0 = as they are */
	const float *bias;    /* [n_kv_head][bias_ld], added to the scores of part bias_part, or NULL */
	int32_t bias_ld, bias_part;
	const float *sinks; /* f32 [n_head] scores of the sinks, or NULL */
	/* each token sees so many columns, its own included, of all `total`; 0 = all of them */
	int32_t window, total;
	struct attn_seg part[ATTN_PARTS];
};

/* What attention leaves for a probe: scaled scores f32 [n][n_head][stride] of the columns that a token sees; max and
 * sum of exp(score - max), f32 [n][n_head]. zero: 16 bytes that are zero between calls. first: these are the call's
 * first measured tokens. */
struct attn_seen {
	float *score, *max, *sum;
	void *zero;
	size_t stride;
	int first;
};

/* Some tokens of a call whose shapes were checked. */
struct attn_plan {
	struct cuda *c;
	enum dtype type;
	int exact;            /* a probe reads the scores: no rounding of queries to 16 bits */
	int biased;           /* parts with biases: 1 at most */
	struct attn_launch a; /* parts, spans and memory are filled in per launch */
	int32_t grid_spans;   /* a power of two */
};

/* How a kernel divides its work: queries of a tile (0 = the kernel cannot compute this call), dims of a chunk, fewest
 * columns of a span. */
struct attn_shape {
	int32_t queries, dims, least_rows;
};
struct attn_shape attn_decode_shape(const struct attn_plan *);
struct attn_shape attn_prefill_shape(const struct attn_plan *);
struct attn_shape attn_f32_shape(const struct attn_plan *);
void attn_decode_start(const struct attn_plan *);
void attn_prefill_start(const struct attn_plan *);
void attn_f32_start(const struct attn_plan *);

/* 2^x by the device's instruction, within 2 units in the last place; results below the normal numbers are 0. */
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

/* Index of a query's (token, head) in scores and in rows of head_dim. */
static __device__ inline int64_t attn_place(const struct attn_launch &a, int32_t kv, int32_t query)
{
	return (int64_t)(query / a.group) * a.n_head + kv * a.group + query % a.group;
}

/* Slots of the launch's part p that a query sees. */
static __device__ inline int32_t attn_limit(const struct attn_launch &a, int32_t p, int32_t query)
{
	return a.last && p == a.n_part - 1 ? a.part[p].n_slots - (a.n - 1 - query / a.group) : a.part[p].n_slots;
}

/* The first slot of the launch's part p that a query's window has. */
static __device__ inline int32_t attn_first(const struct attn_launch &a, int32_t p, int32_t query)
{
	return a.window ? max(0, a.total - (a.n - 1 - query / a.group) - a.window - a.part[p].col) : 0;
}

static __device__ inline float attn_capped(const struct attn_launch &a, float score)
{
	return a.softcap > 0 ? a.softcap * tanhf(score / a.softcap) : score;
}

/* What is added to the score of slot i of the launch's part p. */
static __device__ inline float attn_bias(const struct attn_launch &a, int32_t p, int32_t kv, int32_t i)
{
	return a.bias && p == a.bias_part && i < a.part[p].n_slots ? a.bias[(int64_t)kv * a.bias_ld + i] : 0;
}

/* What the sink of the head at that place adds to the sum of exp(score - most). */
static __device__ inline float attn_sink(const struct attn_launch &a, int64_t at, float most)
{
	return a.sinks ? power2(a.sinks[at % a.n_head] * LOG2_E - most) : 0;
}

/* Columns c0 .. c1 - 1 that a block reads, without the parts whose predicate is false, and the number of slots in
 * `state`. */
struct attn_split {
	int32_t c0, c1, slots;
};

static __device__ inline int32_t attn_slots(const struct attn_launch &a, int32_t p)
{
	return !a.maybe || predicate_holds(a.part[p].when) ? a.part[p].n_slots : 0;
}

/* The split of span blockIdx.x; c0 = c1 where there is no such span and the block has nothing to do. */
static __device__ inline struct attn_split attn_split_of(const struct attn_launch &a)
{
	int32_t cols = a.cols, span = a.span, i = (int32_t)blockIdx.x;
	struct attn_split s = { 0, 0, a.slots };

	if (a.maybe) {
		cols = 0;
		for (int32_t p = 0; p < a.n_part; p++)
			cols += attn_slots(a, p);
		span = ((cols - 1) / (int32_t)gridDim.x / a.step + 1) * a.step;
		s.slots = (cols - 1) / span + 1;
	}
	if (i < (cols - 1) / span + 1) {
		s.c0 = a.col0 + i * span;
		s.c1 = min(s.c0 + span, a.col0 + cols);
	}
	return s;
}

/* Byte offset of slot i of a part in its plane. Lists are written by other kernels; entries outside of the cache are
 * clamped. */
static __device__ inline int64_t attn_row(const struct attn_launch &a, const struct attn_seg &s, int32_t kv, int32_t i)
{
	int32_t slot = s.slot0 + i;

	if (s.slots) {
		slot = s.slots[(int64_t)kv * s.ld + i];
		slot = (uint32_t)slot < (uint32_t)a.cap ? slot : a.cap - 1;
	}
	return ((int64_t)kv * a.cap + slot) * a.row_bytes;
}

static __device__ inline float *attn_slot(const struct attn_launch &a, int32_t tile_queries, int32_t kv, int32_t tile,
                                          int32_t slot)
{
	return a.state + ((int64_t)(kv * a.tiles + tile) * a.slots + slot) * tile_queries * (a.dims + 2);
}

/* The weight of each slot's partial result in a query's output, weight[slots]; for the lanes of a warp. */
static __device__ inline void attn_weights(const struct attn_launch &a, float *weight, const float *ml,
                                           int64_t slot_size, int64_t at, int32_t slots, int seen)
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
	sum = warp_sum(sum) + attn_sink(a, at, most);
	for (int32_t s = lane; s < slots; s += WARP)
		weight[s] /= sum;
	if (seen && lane == 0) {
		a.max[at] = most * LN_2;
		a.sum[at] = sum;
	}
}

/* The end of every kernel, for all threads of a block, after its slot is written: the last block of the tile merges all
 * slots. query0: the tile's first query; d0, dims: the chunk of head_dim; slots: their number. */
static __device__ inline void attn_merge(const struct attn_launch &a, int32_t tile_queries, int32_t kv, int32_t tile,
                                         int32_t query0, int32_t d0, int32_t dims, int32_t slots)
{
	SHARED(uint32_t, done, [1]);
	SHARED(float, weight, [ATTN_SLOTS]);
	int32_t n = min(tile_queries, a.queries - query0), each = ATTN_SLOTS / slots,
		warps = (int32_t)blockDim.x / WARP;
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
	/* As many queries at a time as there is shared memory for weights. */
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
