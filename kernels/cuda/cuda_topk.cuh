/* kernels/cuda/cuda_topk.cuh - declarations that the files of topk share: arguments, scores as integers, counting and
 * selecting in a block.
 * - cuda_topk.cu has the selection and the operations.
 * - cuda_topk_sample.cu draws a sample of the slots that are not selected.
 * - cuda_topk_order.cu max-pools scores with wide windows before the selection, and sorts the selected slots. */
#ifndef WEIR_CUDA_TOPK_CUH
#define WEIR_CUDA_TOPK_CUH

#include "kernels/cuda/cuda_select.cuh"

enum {
	SMALL = 16 << 10, /* maximum number of slots for which one block makes the whole selection */
	SMALL_THREADS = 1024,
	TAKE_THREADS = 512,
	BINS = 4096,
	/* number of slots in a block's chunk; it is doubled until CHUNKS chunks have room for all slots */
	CHUNK = 4096,
	CHUNKS = 1024,  /* maximum number of blocks for a KV head */
	NEAR_POOL = 16, /* largest half width of a pooling window that needs no launch of its own */
	CLOSE = 2048,   /* maximum number of slots of a bin that are compared in shared memory */
	EACH = 4,       /* number of slots that a thread loads at once */
	TILE = 2048,    /* number of selected slots that a block sorts, if there are more than COUNTED */
	COUNTED = TILE, /* maximum number of slots that are ordered by counting, which takes quadratic time */
	/* COUNTS is the number of words of a KV head in topk_launch.count. The first BINS words have the number of
	 * slots in each bin. STATE words follow: the number of finished blocks, the bin of the k-th highest score, the
	 * number of slots in higher bins, and an unused word. */
	STATE = 4,
	COUNTS = BINS + STATE,
};

/* Arguments of the kernels. A slot's pooling window has `half` slots on each side of the slot; 0 means no pooling. The
 * slots are divided among `chunks` blocks, which have `chunk` slots each. */
struct topk_launch {
	const float *score; /* [n_kv_head][score_cols] scores of the slots */
	/* [n_kv_head][n] scores after max-pooling; NULL: scores are pooled when they are read */
	const float *pooled;
	int32_t *slots;  /* [n_kv_head][slots_cols] the selected slots */
	uint32_t *count; /* [n_kv_head][COUNTS] the counts of each KV head's bins, and STATE more words (see COUNTS) */
	int32_t *listed; /* [n_kv_head][CHUNKS] number of entries in each chunk's list */
	/* [n_kv_head][n] lists of pairs of order value and slot; a chunk's list begins at the index of its first
	 * slot */
	uint2 *list;
	int64_t score_cols, slots_cols;
	int32_t n, k, half;
	/* The first `first` slots and all slots from i1 on are always selected ("forced"). Of the slots from i0 to i1 -
	 * 1, `want` slots are selected by score. */
	int32_t i0, i1, want, first;
	int32_t chunk, chunks;
	struct cuda_predicate when;
};

/* Return the "order value" of a score: an integer that compares as the score does. NaN ranks lowest, and -0 equals
 * 0. */
static __device__ inline uint32_t order_of(float x)
{
	uint32_t u;

	x = x > -INFINITY ? x : -INFINITY;
	u = __float_as_uint(x + 0.0f);
	return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* Return the bin of an order value. Of two scores, the higher one has the same bin or a higher bin. Most scores are
 * logarithms of probabilities and lie between -32 and 0, so most bins divide this range evenly. */
static __device__ inline uint32_t bin_of(uint32_t order)
{
	float x;

	if (order & 0x80000000u)
		return 3584 + ((order - 0x80000000u) >> 22);
	x = __uint_as_float(~order);
	if (!(x >= -32.0f))
		return order >> 23;
	return 256 + min(3327u, (uint32_t)((x + 32.0f) * 104.0f));
}

/* Return the highest score in the pooling window of slot i. */
static __device__ inline float pooled_score(const struct topk_launch &a, int32_t head, int32_t i)
{
	const float *score = a.score + head * a.score_cols;
	float top = -INFINITY;

	if (a.pooled)
		return a.pooled[(int64_t)head * a.n + i];
	if (!a.half)
		return score[i];
	for (int32_t j = max(0, i - a.half); j <= min(a.n - 1, i + a.half); j++)
		top = score[j] > top ? score[j] : top;
	return top;
}

static __device__ inline uint32_t pooled_order(const struct topk_launch &a, int32_t head, int32_t i)
{
	return order_of(pooled_score(a, head, i));
}

/* Compute pooled_order() of the slots i, i + step, and so on. The constant EACH is the number of these slots. A slot
 * number after the last slot is replaced by the last slot. All scores are loaded before any score is used. */
static __device__ inline void pooled_orders(uint32_t order[EACH], const struct topk_launch &a, int32_t head, int32_t i,
                                            int32_t step)
{
	float x[EACH];

	for (int j = 0; j < EACH; j++)
		x[j] = pooled_score(a, head, min(i + j * step, a.n - 1));
	for (int j = 0; j < EACH; j++)
		order[j] = order_of(x[j]);
}

/* The sort key of a slot. Keys are compared by `high`, then by `low`. `high` is the order value of the score. The upper
 * half of `low` is the order value of the score before pooling, and the lower half is the slot number. All keys differ,
 * and all are above 0, the key of padding. */
struct ranked {
	uint64_t high, low;
};

/* A topk() call. */
struct topk_job {
	struct topk_launch a;
	int32_t *out; /* for BEST_FIRST, the output: the ordered slots; NULL: a.slots is the output */
	int64_t out_cols;
	int32_t sample; /* number of slots to sample from the slots that are not selected; 0: no sample */
	float *bias;    /* [n_kv_head][bias_cols] biases of the selected slots, then of the sampled slots */
	int64_t bias_cols;
	struct ranked *sort[2]; /* scratch memory to sort many slots, [n_kv_head][k] */
	float *pool[2];         /* scratch memory for wide pooling windows, [n_kv_head][n + 2 * half] */
};

/* Max-pool the scores of all slots with a wide window, into job->pool. Set job->a.pooled to the result. */
void topk_pool_wide(struct cuda *, struct topk_job *, int32_t heads);
/* Order the selected slots by score, from job->a.slots to job->out. */
void topk_order_slots(struct cuda *, const struct topk_job *, int32_t heads);
/* Append a sample of the slots that were not selected. */
void topk_sample_rest(struct cuda *, const struct topk_job *, int32_t heads);

/* ---- helpers of a block: called by all its threads ---- */

/* Return how many threads of the block before this thread have a 1 in their argument `set`. Set *all to the number of
 * all threads that have a 1. The function ends with a barrier, so that it can be called again at once. */
static __device__ inline int32_t block_rank(int set, int32_t *all)
{
	SHARED(int32_t, warps, [WARP]);
	int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP, n = (int32_t)blockDim.x / WARP,
		before = 0, total = 0;
	uint32_t mask = __ballot_sync(FULL_WARP, set);

	if (lane == 0)
		warps[warp] = __popc(mask);
	__syncthreads();
	for (int32_t w = 0; w < n; w++) {
		before += w < warp ? warps[w] : 0;
		total += warps[w];
	}
	__syncthreads();
	*all = total;
	return before + __popc(mask & ((1u << lane) - 1));
}

/* Return a count. If FAR is 1, other blocks wrote the count, so it is read from L2, not from L1. */
template <int FAR> static __device__ inline uint32_t count_at(const uint32_t *p)
{
	return FAR ? __ldcg(p) : *p;
}

/* Find the bin of the value with rank `want`, where rank 1 is the highest value. Set found[0] to this bin, and found[1]
 * to the number of values in higher bins. `found` is in shared memory. Ends with a barrier. */
template <int FAR> static __device__ inline void find_bin(const uint32_t *count, uint32_t want, uint32_t *found)
{
	SHARED(uint32_t, warps, [WARP]);
	int32_t thread = (int32_t)threadIdx.x, lane = thread % WARP, per = BINS / (int32_t)blockDim.x,
		top = BINS - 1 - thread * per;
	uint32_t own = 0, sum, before = 0;

	/* Each thread adds the counts of `per` bins; thread 0 has the highest bins. */
	for (int32_t i = 0; i < per; i++)
		own += count_at<FAR>(count + top - i);
	sum = own;
	for (int d = 1; d < WARP; d *= 2) {
		uint32_t other = __shfl_up_sync(FULL_WARP, sum, (unsigned)d);

		sum += lane >= d ? other : 0;
	}
	if (lane == WARP - 1)
		warps[thread / WARP] = sum;
	__syncthreads();
	for (int32_t w = 0; w < thread / WARP; w++)
		before += warps[w];
	before += sum - own;
	if (before < want && want <= before + own) {
		int32_t b = top;

		for (uint32_t n = count_at<FAR>(count + b); before + n < want; n = count_at<FAR>(count + --b))
			before += n;
		found[0] = (uint32_t)b;
		found[1] = before;
	}
	__syncthreads();
}

/* The threshold of a selection. A slot is selected if it equals the threshold or is higher. Slots are compared by the
 * order value of the score (`order`), then by the order value of the score before pooling (`raw`), then by slot number.
 * If `raw` or `slot` is 0, it is not used for the comparison. */
struct least {
	uint32_t order, raw;
	int32_t slot;
};

/* 1 if a slot reaches the threshold, so that it is selected. */
static __device__ inline int is_in(const struct least &t, uint32_t order, const float *score, int32_t slot)
{
	uint32_t raw;

	if (order != t.order || !(t.raw || t.slot))
		return order >= t.order;
	if (t.raw) {
		raw = order_of(score[slot]);
		if (raw != t.raw || !t.slot)
			return raw >= t.raw;
	}
	return slot >= t.slot;
}

/* Find the threshold of a selection: the `need` highest candidates reach it, and no other candidate does. The threshold
 * is found byte by byte, the highest byte first. For each byte, a histogram of its values is computed. It counts the
 * candidates whose higher bytes are equal to those of the threshold. each(f) calls f(order value, slot) for each
 * candidate of this thread. */
template <class EACH>
static __device__ inline struct least select_least(EACH each, const float *score, int pooled, uint32_t need)
{
	SHARED(uint32_t, digit, [256]);
	SHARED(uint32_t, found, [3]);
	int32_t thread = (int32_t)threadIdx.x;
	struct least t = { 0, 0, 0 };

	for (int field = 0; field < 3; field++) {
		uint32_t value = 0, mask = 0;
		int settled = 0;

		if (field == 1 && !pooled)
			continue;
		for (int shift = 24; shift >= 0 && !settled; shift -= 8) {
			for (int32_t i = thread; i < 256; i += (int32_t)blockDim.x)
				digit[i] = 0;
			__syncthreads();
			each([&](uint32_t order, int32_t slot) {
				uint32_t x = order;

				if (field) {
					uint32_t raw = pooled ? order_of(score[slot]) : 0;

					if (order != t.order || (field == 2 && pooled && raw != t.raw))
						return;
					x = field == 1 ? raw : (uint32_t)slot;
				}
				if ((x & mask) == value)
					atomicAdd(&digit[x >> shift & 255], 1u);
			});
			__syncthreads();
			if (thread < WARP) {
				uint32_t own = 0, sum, before;
				int32_t b = 255 - 8 * thread;

				for (int32_t i = 0; i < 8; i++)
					own += digit[b - i];
				sum = own;
				for (int d = 1; d < WARP; d *= 2) {
					uint32_t other = __shfl_up_sync(FULL_WARP, sum, (unsigned)d);

					sum += thread >= d ? other : 0;
				}
				before = sum - own;
				if (before < need && need <= sum) {
					for (; before + digit[b] < need; b--)
						before += digit[b];
					found[0] = (uint32_t)b;
					found[1] = need - before;
					found[2] = digit[b];
				}
			}
			__syncthreads();
			value |= found[0] << shift;
			mask |= 255u << shift;
			need = found[1];
			/* the selection is known: all candidates with these leading bytes are selected */
			settled = found[1] == found[2];
		}
		if (field == 0)
			t.order = value;
		else if (field == 1)
			t.raw = value;
		else
			t.slot = (int32_t)value;
		if (settled)
			break;
	}
	return t;
}

/* Write the forced slots, which are always selected. */
static __device__ inline void write_forced(const struct topk_launch &a, int32_t *slots)
{
	for (int32_t i = (int32_t)threadIdx.x; i < a.first + a.n - a.i1; i += (int32_t)blockDim.x)
		slots[i < a.first ? i : i + a.want] = i < a.first ? i : a.i1 + i - a.first;
}

#endif
