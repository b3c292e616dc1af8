/* kernels/cuda/cuda_topk.cu - topk: exactly the k highest of n scores per KV head; scan and topk in one call
 * (cuda_select).
 *
 * Forced slots (struct topk_launch) are selected without a comparison. Below, k is the number of all other slots to
 * select. The scores are counted in bins. The counts show which bin has the k-th highest score. All slots in higher
 * bins are selected. The slots of this bin are compared by score, then by score before pooling, then by slot number,
 * one byte at a time, to find the lowest selected slot. No two slots are equal in all three, so the result does not
 * depend on the order of threads.
 *
 * A call takes these launches:
 * - Up to SMALL slots: one launch, with a block per KV head and all scores in shared memory.
 * - More slots: three launches, which clear the counts, count, and take. In the last launch, topk_take, every block
 *   lists its slots in the bin of the k-th highest score or in higher bins. The last block of a KV head finds the
 *   lowest selected slot and writes the selected slots.
 * - BEST_FIRST, up to COUNTED selected slots: one more launch, in which every selected slot counts the slots that rank
 *   before it.
 * - BEST_FIRST, more selected slots: two or more launches. In the first, each block sorts TILE slots. Each of the
 *   others merges pairs of sorted runs.
 * - A wide pooling window: one more launch for each doubling of the window, and one to finish.
 * - A sample of the other slots: one more launch (cuda_topk_sample.cu).
 *
 * cuda_select() is for policies that select slots for every token. It takes 2 or 3 launches. The scan's first launch
 * also clears the counts. The second launch computes the scan's output and counts; for up to SMALL slots it makes the
 * whole selection. The third launch is topk_take. */
#include "kernels/cuda/cuda_topk.cuh"

/* ---- few slots: one block per KV head ---- */

/* Arguments of topk_small and topk_count. If the template argument SCAN is 1, the kernels compute the scores from s,
 * and also write these as the output of the scan. */
struct topk_small_args {
	struct topk_launch a;
	struct scan_scores s;
};

/* Compute the order values (order_of()) of all scores of a KV head. Called by all threads of a block. */
template <int SCAN>
static __device__ __forceinline__ void small_orders(uint32_t *order, const struct topk_small_args &args, int32_t head)
{
	const struct topk_launch &a = args.a;
	const struct scan_scores &s = args.s;
	const float *score = a.score + head * a.score_cols;
	int32_t thread = (int32_t)threadIdx.x;

	if (!SCAN) {
		for (int32_t i = thread; i < a.n; i += SMALL_THREADS)
			order[i] = a.pooled ? order_of(a.pooled[(int64_t)head * a.n + i]) : order_of(score[i]);
		return;
	}
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
}

/* Max-pool the scores: replace each order value by the largest order value in its window. Called by all threads of a
 * block; ends with a barrier. */
static __device__ __forceinline__ void small_pool(uint32_t *order, const struct topk_launch &a)
{
	constexpr int PER = SMALL / SMALL_THREADS;
	uint32_t top[PER];

	for (int j = 0; j < PER; j++) {
		int32_t i = (int32_t)threadIdx.x + j * SMALL_THREADS;

		top[j] = 0;
		for (int32_t o = max(0, i - a.half); i < a.n && o <= min(a.n - 1, i + a.half); o++)
			top[j] = max(top[j], order[o]);
	}
	__syncthreads();
	for (int j = 0; j < PER; j++)
		if ((int32_t)threadIdx.x + j * SMALL_THREADS < a.n)
			order[(int32_t)threadIdx.x + j * SMALL_THREADS] = top[j];
	__syncthreads();
}

/* Select the slots of a KV head in one block. */
template <int SCAN> static __global__ void __launch_bounds__(SMALL_THREADS, 1) topk_small(struct topk_small_args args)
{
	/* [n] for each slot, an integer that compares as the slot's score does (order_of()). If SCAN is 1, the arrays
	 * lse and factor of scan_totals() follow. */
	SHARED_DYNAMIC(uint32_t, order);
	SHARED(uint32_t, count, [BINS]);
	SHARED(uint32_t, found, [2]);
	const struct topk_launch &a = args.a;
	int32_t head = (int32_t)blockIdx.x, thread = (int32_t)threadIdx.x, base = 0;
	const float *score = a.score + head * a.score_cols;
	int32_t *slots = a.slots + head * a.slots_cols;
	struct least least;

	if (!predicate_holds(a.when))
		return;
	for (int32_t i = thread; i < BINS; i += SMALL_THREADS)
		count[i] = 0;
	small_orders<SCAN>(order, args, head);
	__syncthreads();
	if (a.half && !a.pooled)
		small_pool(order, a);
	for (int32_t i = a.i0 + thread; i < a.i1; i += SMALL_THREADS)
		atomicAdd(&count[bin_of(order[i])], 1u);
	__syncthreads();
	find_bin<0>(count, (uint32_t)a.want, found);
	least = select_least(
		[&](auto see) {
			for (int32_t i = a.i0 + thread; i < a.i1; i += SMALL_THREADS)
				if (bin_of(order[i]) == found[0])
					see(order[i], i);
		},
		score, a.half > 0, (uint32_t)a.want - found[1]);
	write_forced(a, slots);
	for (int32_t i0 = a.i0; i0 < a.i1; i0 += SMALL_THREADS) {
		int32_t i = i0 + thread, all,
			in = i < a.i1 && bin_of(order[i]) >= found[0] && is_in(least, order[i], score, i);
		int32_t at = block_rank(in, &all);

		if (in && base + at < a.want)
			slots[a.first + base + at] = i;
		base += all;
	}
}

/* ---- many slots ---- */

/* Clear the counts of a KV head. */
static __global__ void topk_clear(struct topk_launch a)
{
	for (int32_t i = (int32_t)threadIdx.x; i < COUNTS; i += TAKE_THREADS)
		a.count[(int64_t)blockIdx.x * COUNTS + i] = 0;
}

/* Add 1 to *done for each of the `blocks` blocks of a KV head that calls this function. Return 1 in the last block to
 * call it, otherwise 0. The last block then sees everything that the other blocks wrote before their calls. Called by
 * all threads of a block. */
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

/* Count the slots in each bin. If SCAN is 1, the kernel first computes the slots' scores from `args.s`, the results of
 * a scan's first launch. The last block of a KV head finds the bin of the k-th highest score. */
template <int SCAN> static __global__ void __launch_bounds__(TAKE_THREADS) topk_count(struct topk_small_args args)
{
	SHARED_DYNAMIC(float, lse);
	SHARED(uint32_t, count, [BINS]);
	SHARED(uint32_t, found, [2]);
	const struct topk_launch &a = args.a;
	const struct scan_scores &s = args.s;
	int32_t head = (int32_t)blockIdx.y, thread = (int32_t)threadIdx.x, k0 = (int32_t)blockIdx.x * a.chunk,
		k1 = min(k0 + a.chunk, a.n);
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

/* Each block has written a list of slots in its chunk (its range of slots). Return entry p of the concatenation of
 * these lists. */
static __device__ inline uint2 listed_at(const struct topk_launch &a, const uint2 *list, const int32_t *start,
                                         int32_t p)
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

/* List the slots of a chunk whose scores are in bin `bin` or higher, in order. Return their number. */
static __device__ __forceinline__ int32_t take_list(const struct topk_launch &a, int32_t head, int32_t chunk,
                                                    uint32_t bin, uint2 *list)
{
	int32_t thread = (int32_t)threadIdx.x, base = 0, k0 = max(chunk * a.chunk, a.i0),
		k1 = min(chunk * a.chunk + a.chunk, a.i1);

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

/* Set start[c] to the number of entries in the lists of all chunks before chunk c, and start[a.chunks] to the number of
 * all entries. Called by the first warp. */
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

/* Count the listed entries in bin `bin`, by adding to *n_close. Copy up to CLOSE of these entries to the array
 * `close`. */
static __device__ __forceinline__ void take_close(const struct topk_launch &a, const uint2 *list, const int32_t *start,
                                                  int32_t n, uint32_t bin, uint2 *close, uint32_t *n_close)
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

/* Write those slots that reach the threshold `least` to slots[]. The slots come from n list entries. */
static __device__ __forceinline__ void take_write(const struct topk_launch &a, const uint2 *list, const int32_t *start,
                                                  int32_t n, const struct least &least, const float *score,
                                                  int32_t *slots)
{
	int32_t thread = (int32_t)threadIdx.x, base = 0;

	for (int32_t p0 = 0; p0 < n; p0 += EACH * TAKE_THREADS) {
		uint2 e[EACH];

		for (int j = 0; j < EACH; j++)
			e[j] = listed_at(a, list, start, min(p0 + j * TAKE_THREADS + thread, n - 1));
		for (int j = 0; j < EACH; j++) {
			int32_t all, at,
				in = p0 + j * TAKE_THREADS + thread < n && is_in(least, e[j].x, score, (int32_t)e[j].y);

			at = block_rank(in, &all);
			if (in && base + at < a.want)
				slots[a.first + base + at] = (int32_t)e[j].y;
			base += all;
		}
	}
}

/* List the slots in the bin of the k-th highest score and in higher bins. The last block of a KV head finds the
 * lowest selected slot and writes the selected slots. */
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
		least = select_least(
			[&](auto see) {
				for (uint32_t i = threadIdx.x; i < n_close[0]; i += TAKE_THREADS)
					see(close[i].x, (int32_t)close[i].y);
			},
			score, a.half > 0, (uint32_t)a.want - above);
	else
		least = select_least(
			[&](auto see) {
				for (int32_t p = thread; p < n; p += TAKE_THREADS) {
					uint2 e = listed_at(a, list, start, p);

					if (bin_of(e.x) == bin)
						see(e.x, (int32_t)e.y);
				}
			},
			score, a.half > 0, (uint32_t)a.want - above);
	write_forced(a, slots);
	take_write(a, list, start, n, least, score, slots);
}

/* ---- no selection ---- */

/* Write the selected slots if no scores are needed, because all slots from i0 to i1 - 1 are selected, or none of these
 * slots is. */
static __global__ void topk_all(struct topk_launch a)
{
	int32_t i = (int32_t)(blockIdx.x * TAKE_THREADS + threadIdx.x);

	if (i < a.k && predicate_holds(a.when))
		a.slots[(int32_t)blockIdx.y * a.slots_cols + i] = i < a.first + a.want ? i : a.n - a.k + i;
}

/* ---- operations ---- */

/* Check the operands, allocate memory and fill in *j. Return 0, or -1 with the error set. */
static int topk_plan(struct cuda *c, const struct topk_args *t, struct topk_job *j)
{
	struct topk_launch *a = &j->a;
	size_t heads, n, at = 0, count, listed, list, order, sort, pool;
	int32_t last, wide;
	char *base;

	memset(j, 0, sizeof *j);
	if (topk_check(&c->base, t) < 0)
		return -1;
	j->sample = t->sample;
	if (t->sample) {
		j->bias = (float *)t->bias->data;
		j->bias_cols = t->bias->cols;
	}
	a->n = t->n;
	a->k = t->k;
	a->half = MIN(t->pool / 2, t->n - 1);
	a->first = MIN(t->first, t->k);
	last = MIN(t->last, t->k - a->first);
	a->want = t->k - a->first - last;
	a->i0 = a->first;
	a->i1 = t->n - last;
	a->score = (const float *)t->score->data;
	a->score_cols = t->score->cols;
	a->slots = (int32_t *)t->slots->data;
	a->slots_cols = t->slots->cols;
	a->when = cuda_predicate_of(&t->when);
	wide = a->half > NEAR_POOL;
	for (a->chunk = CHUNK; (a->n - 1) / a->chunk >= CHUNKS;)
		a->chunk *= 2;
	a->chunks = (a->n - 1) / a->chunk + 1;
	/* Sizes are powers of two, so that memory rarely grows. */
	heads = (size_t)t->n_kv_head;
	n = (size_t)cuda_power(t->n);
	count = scratch_cut(&at, a->n > SMALL ? heads * COUNTS : 0, sizeof(uint32_t));
	listed = scratch_cut(&at, a->n > SMALL ? heads * CHUNKS : 0, sizeof(int32_t));
	list = scratch_cut(&at, a->n > SMALL ? heads * n : 0, sizeof(uint2));
	order = scratch_cut(&at, t->order ? heads * (size_t)cuda_power(t->k) : 0, sizeof(int32_t));
	sort = scratch_cut(&at, t->order && t->k > COUNTED ? 2 * heads * (size_t)cuda_power(t->k) : 0,
	                   sizeof(struct ranked));
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

/* Launch the selection. If `s` is not NULL, it has the results of a scan's first launch, from which the selection's
 * kernels compute the scores. If it is NULL, the scores are in memory. */
static void topk_run(struct cuda *c, struct topk_job *j, int32_t heads, const struct scan_scores *s)
{
	struct topk_small_args args = {};
	unsigned shared = s ? (unsigned)(2 * (size_t)s->group * sizeof(float)) : 0;
	struct topk_launch *a = &j->a;

	if (j->pool[0])
		topk_pool_wide(c, j, heads);
	args.a = *a;
	if (s)
		args.s = *s;
	if (a->want == 0 || a->want == a->i1 - a->i0) {
		cuda_launch(c, topk_all, cuda_blocks(cuda_power(a->k), TAKE_THREADS), (unsigned)heads, 1, TAKE_THREADS,
		            0, *a);
	} else if (a->n <= SMALL) {
		shared += (unsigned)cuda_power(MAX(a->n, 1024)) * (unsigned)sizeof(uint32_t);
		cuda_launch(c, s ? topk_small<1> : topk_small<0>, (unsigned)heads, 1, 1, SMALL_THREADS, shared, args);
	} else {
		unsigned chunks = (unsigned)cuda_power(a->chunks);

		if (!s)
			cuda_launch(c, topk_clear, (unsigned)heads, 1, 1, TAKE_THREADS, 0, *a);
		cuda_launch(c, s ? topk_count<1> : topk_count<0>, chunks, (unsigned)heads, 1, TAKE_THREADS, shared,
		            args);
		cuda_launch(c, topk_take, chunks, (unsigned)heads, 1, TAKE_THREADS, 0, *a);
	}
	if (j->out)
		topk_order_slots(c, j, heads);
	if (j->sample)
		topk_sample_rest(c, j, heads);
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
	/* Scan and selection cannot share launches if their predicates differ, if no slot is selected by its score,
	 * or if pooling needs scores that other blocks compute. */
	same = scan->when.flag == topk->when.flag && scan->when.col == topk->when.col && scan->when.is == topk->when.is;
	if (!same || j.a.want == 0 || j.a.want == j.a.i1 - j.a.i0 || j.a.half > NEAR_POOL ||
	    (j.a.half && j.a.n > SMALL)) {
		cuda_key_scan(be, scan);
		cuda_topk(be, topk);
		return;
	}
	if (scan_start(c, scan, &s, j.a.count, j.a.count ? COUNTS : 0) == 0)
		topk_run(c, &j, topk->n_kv_head, &s);
}
