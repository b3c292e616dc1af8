/* kernels/cuda/cuda_topk_order.cu - max-pooling of scores with wide windows before a selection, and ordering of the
 * selected slots after a selection (cuda_topk.cuh). */
#include "kernels/cuda/cuda_topk.cuh"

/* ---- wide pools ---- */

struct topk_pool_args {
	const float *from;
	float *to;
	int64_t from_cols;
	int32_t n, len, half, step, first;
};

/* Double the window of a running maximum: set to[i] to max(from[i], from[i + step]). In the first launch, `from` has
 * the scores themselves, and element i is the score of slot i - half. */
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

/* For each slot, write the larger of the maxima of two windows. The two windows overlap, and together they are the
 * slot's pooling window. */
static __global__ void topk_pool_end(struct topk_pool_args a)
{
	int32_t i = (int32_t)(blockIdx.x * TAKE_THREADS + threadIdx.x);
	const float *from = a.from + (int32_t)blockIdx.y * a.from_cols;

	if (i < a.n)
		a.to[(int64_t)blockIdx.y * a.n + i] = fmaxf(from[i], from[i + a.step]);
}

void topk_pool_wide(struct cuda *c, struct topk_job *j, int32_t heads)
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

/* ---- slots in order ---- */

struct topk_order_args {
	struct topk_launch a;
	int32_t *out;
	int64_t out_cols;
};
enum { ORDER_THREADS = 256 };

/* For each selected slot, count the selected slots that rank before it. This number is the position of the slot in the
 * output. */
static __global__ void __launch_bounds__(ORDER_THREADS) topk_order(struct topk_order_args args)
{
	SHARED(uint32_t, order, [ORDER_THREADS]);
	SHARED(uint32_t, raw, [ORDER_THREADS]);
	const struct topk_launch &a = args.a;
	int32_t head = (int32_t)blockIdx.y, thread = (int32_t)threadIdx.x,
		i = (int32_t)blockIdx.x * ORDER_THREADS + thread, better = 0;
	const int32_t *slots = a.slots + head * a.slots_cols;
	const float *score = a.score + head * a.score_cols;
	int32_t slot;
	uint32_t own, own_raw;

	if ((int32_t)blockIdx.x * ORDER_THREADS >= a.k || !predicate_holds(a.when))
		return;
	slot = i < a.k ? slots[i] : 0;
	own = pooled_order(a, head, slot);
	own_raw = order_of(score[slot]);
	for (int32_t j0 = 0; j0 < a.k; j0 += ORDER_THREADS) {
		int32_t n = min(a.k - j0, (int32_t)ORDER_THREADS);

		__syncthreads();
		if (thread < n) {
			int32_t r = slots[j0 + thread];

			order[thread] = pooled_order(a, head, r);
			raw[thread] = order_of(score[r]);
		}
		__syncthreads();
		/* Of slots with equal scores, the slot with the higher number ranks first. This slot has the later
		 * index, because the slots are in ascending order. */
		for (int32_t j = 0; j < n; j++)
			better += order[j] > own ||
			          (order[j] == own && (raw[j] > own_raw || (raw[j] == own_raw && j0 + j > i)));
	}
	if (i < a.k)
		args.out[head * args.out_cols + better] = slot;
}

static __device__ inline int is_better(const struct ranked &x, const struct ranked &y)
{
	return x.high > y.high || (x.high == y.high && x.low > y.low);
}

struct topk_sort_args {
	struct topk_launch a;
	struct ranked *from, *to; /* [n_kv_head][k] sort keys of the selected slots, before and after a launch */
	int32_t *out;             /* output of the last merge; NULL: this is not the last merge */
	int64_t out_cols;
	int32_t run; /* number of consecutive slots that are already in order */
};

/* Sort TILE slots per block in shared memory (bitonic sort). */
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

			r.high = pooled_order(a, head, slot);
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

/* Merge pairs of sorted runs. The new index of a slot is its index in its run plus the number of slots of the pair's
 * other run that rank before it. */
static __global__ void __launch_bounds__(TAKE_THREADS) topk_merge(struct topk_sort_args args)
{
	const struct topk_launch &a = args.a;
	int32_t head = (int32_t)blockIdx.y, i = (int32_t)(blockIdx.x * TAKE_THREADS + threadIdx.x), at = i / args.run,
		lo, hi, start;
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

/* Sort all the selected slots, and write them to j->out. */
static void sort_slots(struct cuda *c, const struct topk_job *j, int32_t heads)
{
	struct topk_sort_args s = {};
	unsigned all = (unsigned)cuda_power(j->a.k);

	s.a = j->a;
	s.to = j->sort[0];
	cuda_launch(c, topk_sort, all / TILE, (unsigned)heads, 1, TAKE_THREADS, 0, s);
	for (s.run = TILE; s.run < s.a.k; s.run *= 2) {
		s.from = s.to;
		s.to = s.from == j->sort[0] ? j->sort[1] : j->sort[0];
		s.out = s.run >= s.a.k - s.run ? j->out : NULL;
		s.out_cols = j->out_cols;
		cuda_launch(c, topk_merge, all / TAKE_THREADS, (unsigned)heads, 1, TAKE_THREADS, 0, s);
	}
}

void topk_order_slots(struct cuda *c, const struct topk_job *j, int32_t heads)
{
	struct topk_order_args o = {};

	if (j->sort[0]) {
		sort_slots(c, j, heads);
		return;
	}
	o.a = j->a;
	o.out = j->out;
	o.out_cols = j->out_cols;
	cuda_launch(c, topk_order, cuda_blocks(cuda_power(j->a.k), ORDER_THREADS), (unsigned)heads, 1, ORDER_THREADS, 0,
	            o);
}
