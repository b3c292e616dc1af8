/* kernels/cuda/cuda_topk_sample.cu - a sample of the slots that topk has not selected (cuda_topk.cuh).
 *
 * As on the CPU (cpu/topk.c), a slot is sampled with a probability proportional to exp(score). The probabilities are
 * added slot by slot; a slot is sampled if its probability increases the rounded sum. A thread block computes one KV
 * head. Each thread has a range of neighbouring slots, and gets the sum of all probabilities before its range by a
 * prefix sum over the block. */
#include "kernels/cuda/cuda_topk.cuh"

enum { SAMPLE_THREADS = 1024 };

struct sample_args {
	const float *score; /* [n_kv_head][score_cols] scores of all slots */
	/* [n_kv_head][slots_cols] the k selected slots in ascending order, then the sampled slots */
	int32_t *slots;
	float *bias; /* [n_kv_head][bias_cols] biases of the sampled slots */
	int64_t score_cols, slots_cols, bias_cols;
	int32_t n, k, sample;
};

/* Return the sum of x over the threads before this one. Set *all to the sum over all threads. Called by all threads of
 * a block. */
static __device__ inline double block_before(double *sum, double x, double *all)
{
	int32_t t = (int32_t)threadIdx.x;
	double own = x;

	__syncthreads();
	sum[t] = x;
	for (int32_t away = 1; away < SAMPLE_THREADS; away *= 2) {
		double y;

		__syncthreads();
		y = t >= away ? sum[t - away] : 0;
		__syncthreads();
		own += y;
		sum[t] = own;
	}
	__syncthreads();
	*all = sum[SAMPLE_THREADS - 1];
	return t ? sum[t - 1] : 0;
}

/* Return the index of the first of k ascending slots that is `slot` or higher. */
static __device__ inline int32_t index_of(const int32_t *slots, int32_t k, int32_t slot)
{
	int32_t lo = 0, hi = k;

	while (lo < hi) {
		int32_t mid = (lo + hi) / 2;

		if (slots[mid] < slot)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Return exp(score - top) of slot i, or 0 if the slot is selected. *next is the index of the first selected slot that
 * is i or higher. If slot i itself is selected, increase *next. */
static __device__ inline double weight_of_slot(const struct sample_args &a, const float *score, const int32_t *slots,
                                               float top, int32_t i, int32_t *next)
{
	float x = score[i];

	if (*next < a.k && slots[*next] == i) {
		++*next;
		return 0;
	}
	return x > -INFINITY ? (double)expf(x - top) : 0;
}

static __global__ void __launch_bounds__(SAMPLE_THREADS) topk_sample(struct sample_args a)
{
	SHARED(double, sums, [SAMPLE_THREADS]);
	SHARED(float, most, [SAMPLE_THREADS / WARP]);
	int32_t head = (int32_t)blockIdx.x, t = (int32_t)threadIdx.x, per = (a.n - 1) / SAMPLE_THREADS + 1;
	int32_t first = min(t * per, a.n), end = min(first + per, a.n), next, from, taken = 0, at;
	const float *score = a.score + head * a.score_cols;
	int32_t *slots = a.slots + head * a.slots_cols;
	float *bias = a.bias + head * a.bias_cols, top = -INFINITY;
	double all, sum = 0, scale, begin, count;

	for (int32_t i = t; i < a.k; i += SAMPLE_THREADS) {
		top = fmaxf(top, score[slots[i]]);
		bias[i] = 0;
	}
	top = warp_max(top);
	if (t % WARP == 0)
		most[t / WARP] = top;
	__syncthreads();
	for (int32_t i = 0; i < SAMPLE_THREADS / WARP; i++)
		top = fmaxf(top, most[i]);
	top = top > -INFINITY ? top : 0;
	from = index_of(slots, a.k, first);
	next = from;
	for (int32_t i = first; i < end; i++)
		sum += weight_of_slot(a, score, slots, top, i, &next);
	block_before(sums, sum, &all);
	scale = all > 0 ? a.sample / all : 0;
	sum = 0;
	next = from;
	for (int32_t i = first; i < end; i++)
		sum += fmin(1.0, scale * weight_of_slot(a, score, slots, top, i, &next));
	begin = block_before(sums, sum, &all);
	/* The first pass counts the slots that this thread samples. The second pass writes these slots, after the slots
	 * of all threads before this one. */
	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			at = (int32_t)block_before(sums, (double)taken, &count);
		sum = begin;
		next = from;
		for (int32_t i = first; i < end; i++) {
			double step = fmin(1.0, scale * weight_of_slot(a, score, slots, top, i, &next)),
			       before = floor(sum + 0.5);

			sum += step;
			if (floor(sum + 0.5) <= before)
				continue;
			if (!pass) {
				taken++;
			} else if (at < a.sample) {
				slots[a.k + at] = i;
				bias[a.k + at++] = (float)-log(step);
			}
		}
	}
	for (int32_t i = (int32_t)count + t; i < a.sample; i += SAMPLE_THREADS) {
		slots[a.k + i] = slots[a.k - 1];
		bias[a.k + i] = SAMPLE_NONE;
	}
}

void topk_sample_rest(struct cuda *c, const struct topk_job *j, int32_t heads)
{
	struct sample_args a = {};

	a.score = j->a.score;
	a.score_cols = j->a.score_cols;
	a.slots = j->a.slots;
	a.slots_cols = j->a.slots_cols;
	a.bias = j->bias;
	a.bias_cols = j->bias_cols;
	a.n = j->a.n;
	a.k = j->a.k;
	a.sample = j->sample;
	cuda_launch(c, topk_sample, (unsigned)heads, 1, 1, SAMPLE_THREADS, 0, a);
}
