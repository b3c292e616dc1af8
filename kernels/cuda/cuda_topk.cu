/* kernels/cuda/cuda_topk.cu - topk: the k highest of n scores per KV head, exactly; and scan and topk together (cuda_select).
 *
 * Scores are sorted into bins by a monotonic function.  Counting finds the bin of the k-th highest score; only the members of this
 * bin are compared further, by the digits of their scores, then of those before pooling, then by slot numbers, until the lowest
 * selected slot is known.  In this order no two slots are equal, so the result does not depend on the order of threads.
 *
 *     up to SMALL slots    1 launch; a block per KV head, its scores in shared memory
 *     more                 3 launches: clear, count, take.  In `take` every block lists, in order, its slots of the bin and above; the
 *                          last block of a KV head finds the lowest selected slot and writes the selected slots
 *     slots in order       1 more, for up to COUNTED slots: every selected slot counts the slots that rank before it.  For more, 2 or
 *                          more: blocks sort TILE slots each, and launches merge pairs of runs until one is left
 *     wide pools           1 more for each doubling of the window
 *
 * Scores are read twice, from L2.  cuda_select(), for policies that select in every step: the scan's first launch also clears, a second
 * one computes the scan's output and counts (up to SMALL slots: does everything), then `take`: 2 or 3 launches. */
#include "kernels/cuda/cuda_select.cuh"

enum {
	SMALL = 16 << 10,            /* slots up to which one block selects */
	SMALL_THREADS = 1024, TAKE_THREADS = 512,
	BINS = 4096, CHUNK = 4096, CHUNKS = 1024,   /* slots of a block, and the most blocks of a KV head */
	NEAR_POOL = 16,              /* half window up to which pooling needs no launch of its own */
	CLOSE = 2048,                /* members of the bin that fit in shared memory */
	EACH = 4,                    /* slots that a thread loads at once */
	TILE = 2048, COUNTED = TILE, /* slots in order: up to COUNTED by counting, whose work grows with the square */
	STATE = 4, COUNTS = BINS + STATE,           /* words of a KV head: counts of bins; blocks that are done, the bin, slots above it */
};

struct topk_launch {
	const float *score;          /* [n_kv_head][score_cols] */
	const float *pooled;         /* [n_kv_head][n], or NULL: pooled when read */
	int32_t *slots;              /* [n_kv_head][slots_cols] */
	uint32_t *count;             /* [n_kv_head][COUNTS] */
	int32_t *listed;             /* [n_kv_head][CHUNKS] slots that a chunk listed */
	uint2 *list;                 /* [n_kv_head][n] their orders and numbers, from the chunk's first slot on */
	int64_t score_cols, slots_cols;
	int32_t n, k, half;
	int32_t i0, i1, want, first;                /* select `want` of slots i0 .. i1 - 1; slots below `first` and from i1 on are forced */
	int32_t chunk, chunks;
	struct cuda_predicate when;
};

/* A score as an integer in the same order; NaN ranks lowest, -0 equals 0. */
static __device__ inline uint32_t order_of(float x)
{
	uint32_t u;

	x = x > -INFINITY ? x : -INFINITY;
	u = __float_as_uint(x + 0.0f);
	return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* The bin of an order value: monotonic, below BINS.  Scores are mostly logarithms of probabilities between -32 and 0: most bins lie
 * there, all of the same width. */
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

/* pooled_order() of EACH slots from i on, `step` apart (past the last slot: the last one again).  All scores are loaded before one is
 * used. */
static __device__ inline void pooled_orders(uint32_t order[EACH], const struct topk_launch &a, int32_t head, int32_t i, int32_t step)
{
	float x[EACH];

	for (int j = 0; j < EACH; j++)
		x[j] = pooled_score(a, head, min(i + j * step, a.n - 1));
	for (int j = 0; j < EACH; j++)
		order[j] = order_of(x[j]);
}

/* ---- helpers of a block: called by all its threads ---- */

/* Number of threads before this one with `set`; *all = of the whole block.  Ends with a barrier, so it can be called again at once. */
static __device__ inline int32_t block_rank(int set, int32_t *all)
{
	SHARED(int32_t, warps, [WARP]);
	int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP, n = (int32_t)blockDim.x / WARP, before = 0, total = 0;
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

/* FAR: the count was written by other blocks and is read from L2, not from L1. */
template<int FAR> static __device__ inline uint32_t count_at(const uint32_t *p) { return FAR ? __ldcg(p) : *p; }

/* The bin that holds the want-th highest value, and the number of values above it: found[0], found[1] in shared memory.  Ends with a
 * barrier. */
template<int FAR> static __device__ inline void find_bin(const uint32_t *count, uint32_t want, uint32_t *found)
{
	SHARED(uint32_t, warps, [WARP]);
	int32_t thread = (int32_t)threadIdx.x, lane = thread % WARP, per = BINS / (int32_t)blockDim.x, top = BINS - 1 - thread * per;
	uint32_t own = 0, sum, before = 0;

	/* A thread has `per` bins, the first thread the highest. */
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

/* The lowest selected slot.  A slot of its bin or above is selected if its order is higher; or equal, and the order before pooling is
 * higher; or both equal, and the slot number is not lower.  A field of 0 is not compared. */
struct least { uint32_t order, raw; int32_t slot; };

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

/* The lowest of the best `need` candidates.  each(f) calls f(order, slot) for this thread's candidates. */
template<class EACH> static __device__ inline struct least select_least(EACH each, const float *score, int pooled, uint32_t need)
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
			settled = found[1] == found[2];   /* all candidates with these leading digits are selected */
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

/* Write the forced slots. */
static __device__ inline void write_forced(const struct topk_launch &a, int32_t *slots)
{
	for (int32_t i = (int32_t)threadIdx.x; i < a.first + a.n - a.i1; i += (int32_t)blockDim.x)
		slots[i < a.first ? i : i + a.want] = i < a.first ? i : a.i1 + i - a.first;
}

/* ---- few slots: one block per KV head ---- */

/* SCAN: scores are computed from s, and written as the scan's output too. */
struct topk_small_args { struct topk_launch a; struct scan_scores s; };

template<int SCAN> static __global__ void __launch_bounds__(SMALL_THREADS, 1) topk_small(struct topk_small_args args)
{
	SHARED_DYNAMIC(uint32_t, order);     /* [n]; then, for a scan, lse and factors of the heads */
	SHARED(uint32_t, count, [BINS]);
	SHARED(uint32_t, found, [2]);
	constexpr int PER = SMALL / SMALL_THREADS;
	const struct topk_launch &a = args.a;
	int32_t head = (int32_t)blockIdx.x, thread = (int32_t)threadIdx.x, base = 0;
	const float *score = a.score + head * a.score_cols;
	int32_t *slots = a.slots + head * a.slots_cols;
	struct least least;

	if (!predicate_holds(a.when))
		return;
	for (int32_t i = thread; i < BINS; i += SMALL_THREADS)
		count[i] = 0;
	if (SCAN) {
		const struct scan_scores &s = args.s;
		float *lse = (float *)(order + a.n);

		scan_totals(s, head, lse, lse + s.group);
		for (int32_t i0 = thread; i0 < a.n; i0 += EACH * SMALL_THREADS) {
			float x[EACH];

			scan_outputs<EACH>(x, s, head, i0, SMALL_THREADS, lse, lse + s.group);
			for (int j = 0; j < EACH; j++)
				if (i0 + j * SMALL_THREADS < a.n) {
					s.out[head * s.out_cols + i0 + j * SMALL_THREADS] = x[j];
					order[i0 + j * SMALL_THREADS] = order_of(x[j]);
				}
		}
	} else {
		for (int32_t i = thread; i < a.n; i += SMALL_THREADS)
			order[i] = a.pooled ? order_of(a.pooled[(int64_t)head * a.n + i]) : order_of(score[i]);
	}
	__syncthreads();
	if (a.half && !a.pooled) {
		uint32_t top[PER];

		for (int j = 0; j < PER; j++) {
			int32_t i = thread + j * SMALL_THREADS;

			top[j] = 0;
			for (int32_t o = max(0, i - a.half); i < a.n && o <= min(a.n - 1, i + a.half); o++)
				top[j] = max(top[j], order[o]);
		}
		__syncthreads();
		for (int j = 0; j < PER; j++)
			if (thread + j * SMALL_THREADS < a.n)
				order[thread + j * SMALL_THREADS] = top[j];
		__syncthreads();
	}
	for (int32_t i = a.i0 + thread; i < a.i1; i += SMALL_THREADS)
		atomicAdd(&count[bin_of(order[i])], 1u);
	__syncthreads();
	find_bin<0>(count, (uint32_t)a.want, found);
	least = select_least([&](auto see) {
		for (int32_t i = a.i0 + thread; i < a.i1; i += SMALL_THREADS)
			if (bin_of(order[i]) == found[0])
				see(order[i], i);
	}, score, a.half > 0, (uint32_t)a.want - found[1]);
	write_forced(a, slots);
	for (int32_t i0 = a.i0; i0 < a.i1; i0 += SMALL_THREADS) {
		int32_t i = i0 + thread, all, in = i < a.i1 && bin_of(order[i]) >= found[0] && is_in(least, order[i], score, i);
		int32_t at = block_rank(in, &all);

		if (in && base + at < a.want)
			slots[a.first + base + at] = i;
		base += all;
	}
}

/* ---- many slots ---- */

static __global__ void topk_clear(struct topk_launch a)
{
	for (int32_t i = (int32_t)threadIdx.x; i < COUNTS; i += TAKE_THREADS)
		a.count[(int64_t)blockIdx.x * COUNTS + i] = 0;
}

/* 1 in all threads of the last block of a KV head to call this; what the other blocks wrote before is then visible. */
static __device__ inline int last_block(uint32_t *done, int32_t blocks)
{
	SHARED(uint32_t, here, [1]);

	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		here[0] = atomicAdd(done, 1u) + 1 == (uint32_t)blocks;
	__syncthreads();
	if (here[0])
		__threadfence();
	return here[0] != 0;
}

/* Count the slots of each bin, of scores or (SCAN) of a scan's output; the last block finds the bin. */
template<int SCAN> static __global__ void __launch_bounds__(TAKE_THREADS) topk_count(struct topk_small_args args)
{
	SHARED_DYNAMIC(float, lse);
	SHARED(uint32_t, count, [BINS]);
	SHARED(uint32_t, found, [2]);
	const struct topk_launch &a = args.a;
	const struct scan_scores &s = args.s;
	int32_t head = (int32_t)blockIdx.y, thread = (int32_t)threadIdx.x, k0 = (int32_t)blockIdx.x * a.chunk, k1 = min(k0 + a.chunk, a.n);
	uint32_t *all = a.count + (int64_t)head * COUNTS;

	if ((int32_t)blockIdx.x >= a.chunks || !predicate_holds(a.when))
		return;
	for (int32_t i = thread; i < BINS; i += TAKE_THREADS)
		count[i] = 0;
	if (SCAN)
		scan_totals(s, head, lse, lse + s.group);
	__syncthreads();
	for (int32_t i0 = k0 + thread; i0 < k1; i0 += EACH * TAKE_THREADS) {
		uint32_t order[EACH];
		float x[EACH];

		if (SCAN) {
			scan_outputs<EACH>(x, s, head, i0, TAKE_THREADS, lse, lse + s.group);
			for (int j = 0; j < EACH; j++)
				order[j] = order_of(x[j]);
		} else {
			pooled_orders(order, a, head, i0, TAKE_THREADS);
		}
		for (int j = 0; j < EACH; j++) {
			int32_t i = i0 + j * TAKE_THREADS;

			if (SCAN && i < k1)
				s.out[head * s.out_cols + i] = x[j];
			if (i < k1 && i >= a.i0 && i < a.i1)
				atomicAdd(&count[bin_of(order[j])], 1u);
		}
	}
	__syncthreads();
	for (int32_t i = thread; i < BINS; i += TAKE_THREADS)
		if (count[i])
			atomicAdd(&all[i], count[i]);
	if (!last_block(&all[BINS], a.chunks))
		return;
	find_bin<1>(all, (uint32_t)a.want, found);
	if (thread == 0) {
		all[BINS] = 0;
		all[BINS + 1] = found[0];
		all[BINS + 2] = found[1];
	}
}

/* Entry p of the lists of all chunks. */
static __device__ inline uint2 listed_at(const struct topk_launch &a, const uint2 *list, const int32_t *start, int32_t p)
{
	int32_t lo = 0, hi = a.chunks;

	while (hi - lo > 1) {
		int32_t mid = (lo + hi) / 2;

		if (start[mid] <= p)
			lo = mid;
		else
			hi = mid;
	}
	return __ldcg(list + (int64_t)lo * a.chunk + p - start[lo]);
}

/* This block's chunk: list its slots of the bin and above, in order.  Returns their number. */
static __device__ __forceinline__ int32_t take_list(const struct topk_launch &a, int32_t head, int32_t chunk, uint32_t bin, uint2 *list)
{
	int32_t thread = (int32_t)threadIdx.x, base = 0, k0 = max(chunk * a.chunk, a.i0), k1 = min(chunk * a.chunk + a.chunk, a.i1);

	for (int32_t i0 = k0; i0 < k1; i0 += EACH * TAKE_THREADS) {
		uint32_t order[EACH];

		pooled_orders(order, a, head, i0 + thread, TAKE_THREADS);
		for (int j = 0; j < EACH; j++) {
			int32_t i = i0 + j * TAKE_THREADS + thread, all, at;
			int in = i < k1 && bin_of(order[j]) >= bin;

			at = block_rank(in, &all);
			if (in)
				list[(int64_t)chunk * a.chunk + base + at] = make_uint2(order[j], (uint32_t)i);
			base += all;
		}
	}
	return base;
}

/* start[c] = entries that the chunks before c listed, start[chunks] = all of them; for the first warp. */
static __device__ __forceinline__ void take_starts(const struct topk_launch &a, const int32_t *listed, int32_t *start)
{
	int32_t thread = (int32_t)threadIdx.x, sum = 0;

	for (int32_t c0 = 0; c0 < a.chunks; c0 += WARP) {
		int32_t own = c0 + thread < a.chunks ? __ldcg(listed + c0 + thread) : 0, to = own;

		for (int d = 1; d < WARP; d *= 2) {
			int32_t other = __shfl_up_sync(FULL_WARP, to, (unsigned)d);

			to += thread >= d ? other : 0;
		}
		if (c0 + thread < a.chunks)
			start[c0 + thread] = sum + to - own;
		sum += __shfl_sync(FULL_WARP, to, WARP - 1);
	}
	if (thread == 0)
		start[a.chunks] = sum;
}

/* Entries of the bin, as many as fit in `close`; *n_close counts all of them. */
static __device__ __forceinline__ void take_close(const struct topk_launch &a, const uint2 *list, const int32_t *start, int32_t n, uint32_t bin,
                                                  uint2 *close, uint32_t *n_close)
{
	for (int32_t p0 = (int32_t)threadIdx.x; p0 < n; p0 += EACH * TAKE_THREADS) {
		uint2 e[EACH];

		for (int j = 0; j < EACH; j++)
			e[j] = listed_at(a, list, start, min(p0 + j * TAKE_THREADS, n - 1));
		for (int j = 0; j < EACH; j++)
			if (p0 + j * TAKE_THREADS < n && bin_of(e[j].x) == bin) {
				uint32_t at = atomicAdd(n_close, 1u);

				if (at < CLOSE)
					close[at] = e[j];
			}
	}
}

/* Write the selected slots of n listed entries. */
static __device__ __forceinline__ void take_write(const struct topk_launch &a, const uint2 *list, const int32_t *start, int32_t n,
                                                  const struct least &least, const float *score, int32_t *slots)
{
	int32_t thread = (int32_t)threadIdx.x, base = 0;

	for (int32_t p0 = 0; p0 < n; p0 += EACH * TAKE_THREADS) {
		uint2 e[EACH];

		for (int j = 0; j < EACH; j++)
			e[j] = listed_at(a, list, start, min(p0 + j * TAKE_THREADS + thread, n - 1));
		for (int j = 0; j < EACH; j++) {
			int32_t all, at, in = p0 + j * TAKE_THREADS + thread < n && is_in(least, e[j].x, score, (int32_t)e[j].y);

			at = block_rank(in, &all);
			if (in && base + at < a.want)
				slots[a.first + base + at] = (int32_t)e[j].y;
			base += all;
		}
	}
}

/* List the slots of the bin and above; the last block of a KV head finds the lowest selected slot and writes the slots. */
static __global__ void __launch_bounds__(TAKE_THREADS) topk_take(struct topk_launch a)
{
	SHARED(int32_t, start, [CHUNKS + 1]);
	SHARED(uint2, close, [CLOSE]);
	SHARED(uint32_t, n_close, [1]);
	int32_t head = (int32_t)blockIdx.y, thread = (int32_t)threadIdx.x, chunk = (int32_t)blockIdx.x, listed_here, n;
	uint32_t *state = a.count + (int64_t)head * COUNTS + BINS, bin, above;
	const float *score = a.score + head * a.score_cols;
	int32_t *slots = a.slots + head * a.slots_cols, *listed = a.listed + (int64_t)head * CHUNKS;
	uint2 *list = a.list + (int64_t)head * a.n;
	struct least least;

	if (chunk >= a.chunks || !predicate_holds(a.when))
		return;
	bin = state[1];
	above = state[2];
	listed_here = take_list(a, head, chunk, bin, list);
	if (thread == 0)
		listed[chunk] = listed_here;
	if (!last_block(state, a.chunks))
		return;
	if (thread == 0)
		n_close[0] = 0;
	if (thread < WARP)
		take_starts(a, listed, start);
	__syncthreads();
	n = start[a.chunks];
	take_close(a, list, start, n, bin, close, n_close);
	__syncthreads();
	if (n_close[0] <= CLOSE)
		least = select_least([&](auto see) {
			for (uint32_t i = threadIdx.x; i < n_close[0]; i += TAKE_THREADS)
				see(close[i].x, (int32_t)close[i].y);
		}, score, a.half > 0, (uint32_t)a.want - above);
	else
		least = select_least([&](auto see) {
			for (int32_t p = thread; p < n; p += TAKE_THREADS) {
				uint2 e = listed_at(a, list, start, p);

				if (bin_of(e.x) == bin)
					see(e.x, (int32_t)e.y);
			}
		}, score, a.half > 0, (uint32_t)a.want - above);
	write_forced(a, slots);
	take_write(a, list, start, n, least, score, slots);
}

/* ---- no selection, wide pools, slots in order ---- */

/* All of slots i0 .. i1 - 1 are selected, or none. */
static __global__ void topk_all(struct topk_launch a)
{
	int32_t i = (int32_t)(blockIdx.x * TAKE_THREADS + threadIdx.x);

	if (i < a.k && predicate_holds(a.when))
		a.slots[(int32_t)blockIdx.y * a.slots_cols + i] = i < a.first + a.want ? i : a.n - a.k + i;
}

struct topk_pool_args {
	const float *from;
	float *to;
	int64_t from_cols;
	int32_t n, len, half, step, first;
};

/* Double the window: the maximum of w values from i on and of w values from i + step on.  The first time, w = 1 and the values are
 * scores, shifted by `half`. */
static __global__ void topk_pool(struct topk_pool_args a)
{
	int32_t i = (int32_t)(blockIdx.x * TAKE_THREADS + threadIdx.x);
	const float *from = a.from + (int32_t)blockIdx.y * a.from_cols;
	float x = -INFINITY;

	if (i >= a.len)
		return;
	for (int32_t j = i, turn = 0; turn < 2; j += a.step, turn++) {
		int32_t at = a.first ? j - a.half : j;

		if (at >= 0 && at < (a.first ? a.n : a.len))
			x = from[at] > x ? from[at] : x;
	}
	a.to[(int64_t)blockIdx.y * a.len + i] = x;
}

/* The maximum of two overlapping windows, which together are the whole one. */
static __global__ void topk_pool_end(struct topk_pool_args a)
{
	int32_t i = (int32_t)(blockIdx.x * TAKE_THREADS + threadIdx.x);
	const float *from = a.from + (int32_t)blockIdx.y * a.from_cols;

	if (i < a.n)
		a.to[(int64_t)blockIdx.y * a.n + i] = fmaxf(from[i], from[i + a.step]);
}

struct topk_order_args { struct topk_launch a; int32_t *out; int64_t out_cols; int32_t forced_first; };
enum { ORDER_THREADS = 256 };

/* The place of a slot is the number of slots that rank before it. */
static __global__ void __launch_bounds__(ORDER_THREADS) topk_order(struct topk_order_args args)
{
	SHARED(uint32_t, order, [ORDER_THREADS]);
	SHARED(uint32_t, raw, [ORDER_THREADS]);
	SHARED(uint32_t, rank, [ORDER_THREADS]);
	const struct topk_launch &a = args.a;
	int32_t head = (int32_t)blockIdx.y, thread = (int32_t)threadIdx.x, i = (int32_t)blockIdx.x * ORDER_THREADS + thread, better = 0;
	const int32_t *slots = a.slots + head * a.slots_cols;
	const float *score = a.score + head * a.score_cols;
	int32_t slot, own_rank;
	uint32_t own, own_raw;

	if ((int32_t)blockIdx.x * ORDER_THREADS >= a.k || !predicate_holds(a.when))
		return;
	slot = i < a.k ? slots[i] : 0;
	own = pooled_order(a, head, slot);
	own_raw = order_of(score[slot]);
	own_rank = args.forced_first && (slot < a.i0 || slot >= a.i1);
	for (int32_t j0 = 0; j0 < a.k; j0 += ORDER_THREADS) {
		int32_t n = min(a.k - j0, (int32_t)ORDER_THREADS);

		__syncthreads();
		if (thread < n) {
			int32_t r = slots[j0 + thread];

			order[thread] = pooled_order(a, head, r);
			raw[thread] = order_of(score[r]);
			rank[thread] = args.forced_first && (r < a.i0 || r >= a.i1);
		}
		__syncthreads();
		/* Rows ascend, so of equal scores the later index ranks first. */
		for (int32_t j = 0; j < n; j++) {
			int32_t above = (int32_t)rank[j] - own_rank;

			better += above > 0 || (above == 0 && (order[j] > own || (order[j] == own && (raw[j] > own_raw || (raw[j] == own_raw && j0 + j > i)))));
		}
	}
	if (i < a.k)
		args.out[head * args.out_cols + better] = slot;
}

/* A slot's sort key, the highest bits first: forced; order; order before pooling; slot number.  All keys differ, and all are above the
 * padding, 0. */
struct ranked { uint64_t high, low; };

static __device__ inline int is_better(const struct ranked &x, const struct ranked &y)
{
	return x.high > y.high || (x.high == y.high && x.low > y.low);
}

struct topk_sort_args {
	struct topk_launch a;
	struct ranked *from, *to;    /* [n_kv_head][k] */
	int32_t *out;                /* where the last merge puts the slots; else NULL */
	int64_t out_cols;
	int32_t run, forced_first;   /* run: slots that are in order already */
};

/* Bitonic sort of a block's slots in shared memory. */
static __global__ void __launch_bounds__(TAKE_THREADS) topk_sort(struct topk_sort_args args)
{
	SHARED(struct ranked, tile, [TILE]);
	const struct topk_launch &a = args.a;
	int32_t head = (int32_t)blockIdx.y, thread = (int32_t)threadIdx.x, k0 = (int32_t)blockIdx.x * TILE;
	const int32_t *slots = a.slots + head * a.slots_cols;
	const float *score = a.score + head * a.score_cols;

	if (k0 >= a.k || !predicate_holds(a.when))
		return;
	for (int32_t i = thread; i < TILE; i += TAKE_THREADS) {
		struct ranked r = { 0, 0 };

		if (k0 + i < a.k) {
			int32_t slot = slots[k0 + i];

			r.high = (uint64_t)(args.forced_first && (slot < a.i0 || slot >= a.i1)) << 32 | pooled_order(a, head, slot);
			r.low = (uint64_t)order_of(score[slot]) << 32 | (uint32_t)slot;
		}
		tile[i] = r;
	}
	for (int32_t run = 2; run <= TILE; run *= 2)
		for (int32_t step = run / 2; step; step /= 2) {
			__syncthreads();
			for (int32_t t = thread; t < TILE / 2; t += TAKE_THREADS) {
				int32_t i = 2 * t - (t & (step - 1)), falls = !(i & run);
				struct ranked x = tile[i], y = tile[i + step];

				if (falls ? is_better(y, x) : is_better(x, y)) {
					tile[i] = y;
					tile[i + step] = x;
				}
			}
		}
	__syncthreads();
	for (int32_t i = thread; i < TILE && k0 + i < a.k; i += TAKE_THREADS)
		args.to[(int64_t)head * a.k + k0 + i] = tile[i];
}

/* Merge two runs: a slot's place is its index in its own run plus the number of slots of the other run that rank before it. */
static __global__ void __launch_bounds__(TAKE_THREADS) topk_merge(struct topk_sort_args args)
{
	const struct topk_launch &a = args.a;
	int32_t head = (int32_t)blockIdx.y, i = (int32_t)(blockIdx.x * TAKE_THREADS + threadIdx.x), at = i / args.run, lo, hi, start;
	const struct ranked *from = args.from + (int64_t)head * a.k;
	struct ranked own;

	if (i >= a.k || !predicate_holds(a.when))
		return;
	own = from[i];
	start = lo = min((at ^ 1) * args.run, a.k);
	hi = min(start + args.run, a.k);
	while (lo < hi) {
		int32_t mid = (lo + hi) / 2;

		if (is_better(from[mid], own))
			lo = mid + 1;
		else
			hi = mid;
	}
	at = at / 2 * 2 * args.run + i % args.run + lo - start;
	if (args.out)
		args.out[head * args.out_cols + at] = (int32_t)(uint32_t)own.low;
	else
		args.to[(int64_t)head * a.k + at] = own;
}

/* ---- operations ---- */

struct topk_job {
	struct topk_launch a;
	int32_t *out;                /* for slots in order: where they go; NULL = `slots` are final */
	int64_t out_cols;
	int32_t forced_first;
	struct ranked *sort[2];      /* for many slots in order: [n_kv_head][k] */
	float *pool[2];              /* for wide pools: [n_kv_head][n + 2 half] */
};

/* Check the operands and get memory.  0, or -1 with the error set. */
static int topk_plan(struct cuda *c, const struct topk_args *t, struct topk_job *j)
{
	struct topk_launch *a = &j->a;
	size_t heads, n, at = 0, count, listed, list, order, sort, pool;
	int32_t last, wide;
	char *base;

	memset(j, 0, sizeof *j);
	if (topk_check(&c->base, t) < 0)
		return -1;
	a->n = t->n;
	a->k = t->k;
	a->half = min_i32(t->pool / 2, t->n - 1);
	a->first = min_i32(t->first, t->k);
	last = min_i32(min_i32(t->last, t->n - a->first), t->k - a->first);
	a->want = t->k - a->first - last;
	a->i0 = a->first;
	a->i1 = t->n - last;
	a->score = (const float *)t->score->data;
	a->score_cols = t->score->cols;
	a->slots = (int32_t *)t->slots->data;
	a->slots_cols = t->slots->cols;
	a->when = cuda_predicate_of(&t->when);
	wide = a->half > NEAR_POOL;
	for (a->chunk = CHUNK; (a->n - 1) / a->chunk >= CHUNKS; )
		a->chunk *= 2;
	a->chunks = (a->n - 1) / a->chunk + 1;
	/* By powers of two, so that memory rarely grows. */
	heads = (size_t)t->n_kv_head;
	n = (size_t)cuda_power(t->n);
	count = scratch_cut(&at, a->n > SMALL ? heads * COUNTS : 0, sizeof(uint32_t));
	listed = scratch_cut(&at, a->n > SMALL ? heads * CHUNKS : 0, sizeof(int32_t));
	list = scratch_cut(&at, a->n > SMALL ? heads * n : 0, sizeof(uint2));
	order = scratch_cut(&at, t->order ? heads * (size_t)cuda_power(t->k) : 0, sizeof(int32_t));
	sort = scratch_cut(&at, t->order && t->k > COUNTED ? 2 * heads * (size_t)cuda_power(t->k) : 0, sizeof(struct ranked));
	pool = scratch_cut(&at, wide ? 2 * heads * ((size_t)t->n + 2 * (size_t)a->half) : 0, sizeof(float));
	if (at && cuda_buffer_grow(c, &c->topk, at) < 0)
		return -1;
	base = (char *)c->topk.p;
	if (a->n > SMALL) {
		a->count = (uint32_t *)(base + count);
		a->listed = (int32_t *)(base + listed);
		a->list = (uint2 *)(base + list);
	}
	if (t->order) {
		j->forced_first = t->order == FORCED_FIRST;
		j->out = a->slots;
		j->out_cols = a->slots_cols;
		a->slots = (int32_t *)(base + order);
		a->slots_cols = a->k;
	}
	if (t->order && t->k > COUNTED) {
		j->sort[0] = (struct ranked *)(base + sort);
		j->sort[1] = j->sort[0] + heads * (size_t)t->k;
	}
	if (wide) {
		j->pool[0] = (float *)(base + pool);
		j->pool[1] = j->pool[0] + heads * ((size_t)t->n + 2 * (size_t)a->half);
	}
	return 0;
}

static void pool_wide(struct cuda *c, struct topk_job *j, int32_t heads)
{
	struct topk_launch *a = &j->a;
	struct topk_pool_args p = {};
	int32_t window = 2 * a->half + 1, w = 1, turn = 0;

	p.from = a->score;
	p.from_cols = a->score_cols;
	p.n = a->n;
	p.half = a->half;
	p.len = a->n + 2 * a->half;
	for (p.first = 1; 2 * w <= window; w *= 2, p.first = 0, turn ^= 1) {
		p.step = w;
		p.to = j->pool[turn];
		cuda_launch(c, topk_pool, cuda_blocks(p.len, TAKE_THREADS), (unsigned)heads, 1, TAKE_THREADS, 0, p);
		p.from = p.to;
		p.from_cols = p.len;
	}
	p.to = j->pool[turn];
	p.step = window - w;
	cuda_launch(c, topk_pool_end, cuda_blocks(a->n, TAKE_THREADS), (unsigned)heads, 1, TAKE_THREADS, 0, p);
	a->pooled = p.to;
}

/* Sort the selected slots from scratch to j->out. */
static void sort_slots(struct cuda *c, const struct topk_job *j, int32_t heads)
{
	struct topk_sort_args s = {};
	unsigned all = (unsigned)cuda_power(j->a.k);

	s.a = j->a;
	s.to = j->sort[0];
	s.forced_first = j->forced_first;
	cuda_launch(c, topk_sort, all / TILE, (unsigned)heads, 1, TAKE_THREADS, 0, s);
	for (s.run = TILE; s.run < s.a.k; s.run *= 2) {
		s.from = s.to;
		s.to = s.from == j->sort[0] ? j->sort[1] : j->sort[0];
		s.out = s.run >= s.a.k - s.run ? j->out : NULL;
		s.out_cols = j->out_cols;
		cuda_launch(c, topk_merge, all / TAKE_THREADS, (unsigned)heads, 1, TAKE_THREADS, 0, s);
	}
}

/* Launch the selection; s: the first launch of a scan whose output is not computed yet, or NULL. */
static void topk_run(struct cuda *c, struct topk_job *j, int32_t heads, const struct scan_scores *s)
{
	struct topk_small_args args = {};
	unsigned shared = s ? (unsigned)(2 * (size_t)s->group * sizeof(float)) : 0;
	struct topk_launch *a = &j->a;

	if (j->pool[0])
		pool_wide(c, j, heads);
	args.a = *a;
	if (s)
		args.s = *s;
	if (a->want == 0 || a->want == a->i1 - a->i0) {
		cuda_launch(c, topk_all, cuda_blocks(cuda_power(a->k), TAKE_THREADS), (unsigned)heads, 1, TAKE_THREADS, 0, *a);
	} else if (a->n <= SMALL) {
		shared += (unsigned)cuda_power(max_i32(a->n, 1024)) * (unsigned)sizeof(uint32_t);
		cuda_launch(c, s ? topk_small<1> : topk_small<0>, (unsigned)heads, 1, 1, SMALL_THREADS, shared, args);
	} else {
		unsigned chunks = (unsigned)cuda_power(a->chunks);

		if (!s)
			cuda_launch(c, topk_clear, (unsigned)heads, 1, 1, TAKE_THREADS, 0, *a);
		cuda_launch(c, s ? topk_count<1> : topk_count<0>, chunks, (unsigned)heads, 1, TAKE_THREADS, shared, args);
		cuda_launch(c, topk_take, chunks, (unsigned)heads, 1, TAKE_THREADS, 0, *a);
	}
	if (j->sort[0]) {
		sort_slots(c, j, heads);
	} else if (j->out) {
		struct topk_order_args o = {};

		o.a = *a;
		o.out = j->out;
		o.out_cols = j->out_cols;
		o.forced_first = j->forced_first;
		cuda_launch(c, topk_order, cuda_blocks(cuda_power(a->k), ORDER_THREADS), (unsigned)heads, 1, ORDER_THREADS, 0, o);
	}
}

void cuda_topk(struct backend *be, const struct topk_args *t)
{
	struct cuda *c = cuda_of(be);
	struct topk_job j;

	if (!cuda_stopped(be) && topk_plan(c, t, &j) == 0)
		topk_run(c, &j, t->n_kv_head, NULL);
}

void cuda_select(struct backend *be, const struct attn_selection *selection)
{
	const struct scan_args *scan = selection->scan;
	const struct topk_args *topk = selection->topk;
	struct cuda *c = cuda_of(be);
	struct scan_scores s;
	struct topk_job j;
	int same;

	if (cuda_stopped(be) || attn_selection_check(be, selection, topk->n_kv_head) < 0)
		return;
	if (topk_plan(c, topk, &j) < 0)
		return;
	/* Separate launches for different predicates, and for pooling over many slots, which needs scores that other blocks compute. */
	same = scan->when.flag == topk->when.flag && scan->when.col == topk->when.col && scan->when.is == topk->when.is;
	if (!same || j.a.want == 0 || j.a.want == j.a.i1 - j.a.i0 || j.a.half > NEAR_POOL || (j.a.half && j.a.n > SMALL)) {
		cuda_key_scan(be, scan);
		cuda_topk(be, topk);
		return;
	}
	if (scan_start(c, scan, &s, j.a.count, j.a.count ? COUNTS : 0) == 0)
		topk_run(c, &j, topk->n_kv_head, &s);
}
