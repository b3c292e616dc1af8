/* kernels/cuda/cuda_probe.cu - attention mass and spread (struct attn_probe), from the scores that the attention
 * kernels stored.
 *
 * The mass takes 1 launch, with a thread per slot. For each token in order, the thread reduces the probabilities of
 * several heads to one number and adds it.
 *
 * The spread is the smallest number of slots whose probabilities sum to a share. It takes 1 launch, with a block per
 * token and head. The block counts and sums the probabilities in bins of 1/64 octave, as integers, so that the order of
 * additions does not matter. It then adds up the bins from the highest one until the sum reaches the share. In the last
 * of these bins, every probability counts as the mean of the bin. */
#include "kernels/cuda/cuda_attn.cuh"

enum {
	THREADS = 256,
	FEW_HEADS = 16, /* maximum number of heads whose median is computed in registers */
	STEPS = 64,     /* number of bins per octave; an octave is a factor of two of the probability */
	OCTAVES = 32,   /* number of octaves with bins: probabilities of 2^-32 or less are not counted */
	BINS = STEPS * OCTAVES,
	EACH = BINS / THREADS,
};
#define ONE 1099511627776.0 /* the integer for probability 1: 2^40 */

/* ---- mass ---- */

struct mass_args {
	const float *score, *max, *sum, *weight;
	const float *from; /* the attention mass before this launch; NULL: `out` has it */
	float *out;
	/* `own` is the first column of the call's own tokens. The array `from` has no mass for these columns, so their
	 * mass begins at 0. */
	int64_t stride, ld, own;
	/* Attention mass is measured for `cols` columns. It is not measured for the `skip` columns before them. */
	int32_t cols, skip;
	int32_t n; /* number of tokens; the last token does not see the last `hidden` columns */
	int32_t hidden;
	/* `n_head` is the number of query heads. The probabilities of `heads` query heads are reduced to one number. */
	int32_t n_head, heads;
	int32_t reduce; /* enum reduce */
	float one;      /* weight of a single token, if `weight` is NULL */
};

/* Return the probability of a column, computed from its score. */
static __device__ inline float share_of(float score, float max, float sum)
{
	return expf(score - max) / sum;
}

/* Sort the n elements of p in place and return the median. */
static __device__ inline float median_of(float *p, int32_t n)
{
	for (int32_t i = 1; i < n; i++)
		for (int32_t k = i; k > 0 && p[k] < p[k - 1]; k--) {
			float x = p[k];

			p[k] = p[k - 1];
			p[k - 1] = x;
		}
	return (p[(n - 1) / 2] + p[n / 2]) / 2;
}

/* Add the mass of one column (slot) per thread. HEADS is the maximum number of heads for REDUCE_MEDIAN, and 1 for other
 * reductions. */
template <int HEADS> static __global__ __launch_bounds__(THREADS) void probe_mass(struct mass_args a)
{
	int32_t col = (int32_t)(blockIdx.x * THREADS + threadIdx.x), head0 = (int32_t)blockIdx.y * a.heads;
	float *to = a.out + (int64_t)blockIdx.y * a.ld + col, x;

	if (col >= a.cols)
		return;
	x = !a.from ? *to : col < a.own ? a.from[(int64_t)blockIdx.y * a.ld + col] : 0;
	for (int32_t i = 0; i < a.n; i++) {
		int64_t at = (int64_t)i * a.n_head + head0;
		const float *score = a.score + at * a.stride + a.skip + col;
		float most = 0, sum = 0, p[HEADS];

		if (col >= a.cols - a.hidden - (a.n - 1 - i))
			continue;
		for (int32_t h = 0; h < a.heads; h++) {
			float y = share_of(score[h * a.stride], a.max[at + h], a.sum[at + h]);

			sum += y;
			if (!(y <= most))
				most = y;
			if (HEADS > 1)
				p[h] = y;
		}
		if (HEADS > 1)
			most = median_of(p, a.heads);
		x += (a.weight ? a.weight[i] : a.one) * (a.reduce == REDUCE_MEAN ? sum / (float)a.heads : most);
	}
	*to = x;
}

static void mass_run(struct cuda *c, const struct attn_args *a, int32_t n, int32_t cols, int32_t t0, int32_t t1,
                     const struct attn_seen *seen)
{
	const struct attn_probe *p = a->probe;
	struct mass_args m = {};
	unsigned x, rows;

	m.score = seen->score;
	m.max = seen->max;
	m.sum = seen->sum;
	m.stride = (int64_t)seen->stride;
	m.out = (float *)p->mass->data + (size_t)p->mass_row * (size_t)p->mass->cols;
	m.ld = p->mass->cols;
	if (p->from && seen->first)
		m.from = (const float *)p->from->data + (size_t)p->mass_row * (size_t)p->mass->cols;
	m.own = cols - p->skip - n;
	m.cols = cols - p->skip;
	m.skip = p->skip;
	m.n = t1 - t0;
	m.hidden = n - t1;
	m.n_head = a->n_head;
	m.heads = p->whole_layer ? a->n_head : a->n_head / a->n_kv_head;
	m.reduce = p->reduce;
	m.one = p->weight[t0];
	if (m.n > 1 && !(m.weight = (const float *)gpu_stage(c->gpu, p->weight + t0, (size_t)m.n * sizeof(float))))
		return;
	if (m.cols <= 0)
		return;
	x = cuda_blocks(cuda_power(m.cols), THREADS);
	rows = (unsigned)(a->n_head / m.heads);
	if (p->reduce != REDUCE_MEDIAN || m.heads == 1)
		cuda_launch(c, probe_mass<1>, x, rows, 1, THREADS, 0, m);
	else if (m.heads <= FEW_HEADS)
		cuda_launch(c, probe_mass<FEW_HEADS>, x, rows, 1, THREADS, 0, m);
	else
		cuda_launch(c, probe_mass<PROBE_HEADS>, x, rows, 1, THREADS, 0, m);
}

/* ---- spread ---- */

struct spread_args {
	const float *score, *max, *sum;
	unsigned long long *total; /* sum of columns_holding() over all tokens and heads; 0 between calls */
	uint32_t *left;            /* number of finished blocks; 0 between calls */
	float *out;
	int64_t stride;
	int32_t cols, n, n_head;
	float share;
};

/* Return the attention spread: the number of columns, taken in descending order of probability, whose probabilities sum
 * to `share`. Counting begins at bin b; the bins before it have n columns, whose probabilities sum to `below`, less
 * than `share`. In the bin in which the sum reaches `share`, columns are counted by the same formula as on the CPU. */
static __device__ inline int32_t columns_holding(const uint32_t *count, const unsigned long long *sum, int32_t b,
                                                 double below, int32_t n, double share)
{
	double mean, more, here;

	for (;; b++) {
		here = (double)sum[b] / ONE;
		if ((float)(below + here) >= (float)share)
			break;
		below += here;
		n += (int32_t)count[b];
	}
	mean = here / (double)count[b];
	more = ceil((share - below) / mean - 1e-3);
	more = more < 1 ? 1 : more;
	return more < (double)count[b] ? n + (int32_t)more : n + (int32_t)count[b];
}

/* Compute the attention spread for one token and query head: the number of columns whose probabilities sum to a.share.
 * The thread block that finishes last adds the sum of all blocks' numbers to the output. */
static __global__ __launch_bounds__(THREADS) void probe_spread(struct spread_args a)
{
	SHARED(uint32_t, count, [BINS]);
	SHARED(unsigned long long, sum, [BINS]);
	SHARED(unsigned long long, sums, [THREADS]);
	SHARED(uint32_t, counts, [THREADS]);
	int32_t at = (int32_t)blockIdx.x, seen = a.cols - (a.n - 1 - at / a.n_head);
	const float *score = a.score + (int64_t)at * a.stride;
	float max = a.max[at], all = a.sum[at];
	unsigned long long below = 0;
	int32_t n = 0, i;

	for (int32_t b = (int32_t)threadIdx.x; b < BINS; b += THREADS) {
		count[b] = 0;
		sum[b] = 0;
	}
	__syncthreads();
	for (int32_t i = (int32_t)threadIdx.x; i < seen; i += THREADS) {
		float p = share_of(score[i], max, all), b = -log2f(p) * STEPS;

		if (!(p > 0) || !(b < BINS))
			continue;
		atomicAdd(&count[b > 0 ? (int32_t)b : 0], 1u);
		atomicAdd(&sum[b > 0 ? (int32_t)b : 0], (unsigned long long)((double)p * ONE + 0.5));
	}
	__syncthreads();
	sums[threadIdx.x] = 0;
	counts[threadIdx.x] = 0;
	for (int32_t b = 0; b < EACH; b++) {
		sums[threadIdx.x] += sum[threadIdx.x * EACH + b];
		counts[threadIdx.x] += count[threadIdx.x * EACH + b];
	}
	__syncthreads();
	if (threadIdx.x > 0)
		return;
	for (i = 0; i < THREADS && (float)((double)(below + sums[i]) / ONE) < a.share; i++) {
		below += sums[i];
		n += (int32_t)counts[i];
	}
	if (i < THREADS && counts[i])
		n = columns_holding(count, sum, i * EACH, (double)below / ONE, n, a.share);
	else
		n = seen; /* the probabilities in all bins sum to less than a.share, so count all columns */
	atomicAdd(a.total, (unsigned long long)n);
	__threadfence();
	if (atomicAdd(a.left, 1u) + 1 < gridDim.x)
		return;
	__threadfence();
	a.out[0] += (float)atomicExch(a.total, 0ull);
	a.left[0] = 0;
}

static void spread_run(struct cuda *c, const struct attn_args *a, int32_t n, int32_t cols, int32_t t0, int32_t t1,
                       const struct attn_seen *seen)
{
	const struct attn_probe *p = a->probe;
	struct spread_args m = {};

	m.score = seen->score;
	m.max = seen->max;
	m.sum = seen->sum;
	m.stride = (int64_t)seen->stride;
	m.total = (unsigned long long *)seen->zero;
	m.left = (uint32_t *)(m.total + 1);
	m.out = (float *)p->spread->data + p->spread_col;
	m.cols = cols - (n - t1);
	m.n = t1 - t0;
	m.n_head = a->n_head;
	m.share = p->share;
	cuda_launch(c, probe_spread, (unsigned)m.n * (unsigned)a->n_head, 1, 1, THREADS, 0, m);
}

void cuda_probe_run(struct cuda *c, const struct attn_args *a, int32_t n, int32_t cols, int32_t t0, int32_t t1,
                    const struct attn_seen *seen)
{
	if (a->probe->mass)
		mass_run(c, a, n, cols, t0, t1, seen);
	if (a->probe->spread)
		spread_run(c, a, n, cols, t0, t1, seen);
}
