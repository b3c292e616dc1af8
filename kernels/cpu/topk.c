/* kernels/cpu/topk.c - topk: exactly the k highest of n scores per KV head, without sorting.
 *
 * First, a sample of the scores gives a bound. Almost surely, more than k scores reach this bound. One pass collects
 * the candidates, which are the scores that reach the bound. Then an interval of floats is narrowed until exactly k
 * candidates reach the float in its middle. If no float is left between the interval's ends, several scores are equal
 * to the k-th highest. If scores are max-pooled, slots with a higher score before pooling are selected first. If these
 * scores are equal, too, later slots are selected first. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/select.h"

enum {
	SMALL_TOPK = 64 << 10, /* up to this number of scores, one thread is faster than two */
	SAMPLE = 512,
	/* SAMPLE is the number of scores in a sample. SAMPLE_FROM is the minimum number of scores for which a sample is
	 * taken. */
	SAMPLE_FROM = 4 * SAMPLE,
	SHORT_RUN = 24, /* up to this many entries, insertion sort is faster than radix sort */
};

struct order {
	uint32_t key;
	int32_t slot;
};

/* Scratch memory of one thread. Every array has 16 spare entries for whole vectors. */
struct topk_mem {
	/* `pooled` [n] has the scores after pooling, and `tmp` [n + 2 * half] is scratch memory of pooling. Both are
	 * empty without pooling. */
	float *pooled, *tmp;
	int32_t *slot; /* [n] the candidates: slots whose score reaches a bound */
	float *value;  /* [n] scores of the candidates; in sample_rest(), exponentials of the scores of all slots */
	/* [n / SAMPLE_BLOCK + 1] for each block of slots, the sum of exp(score); only if topk_args.sample is set */
	float *sum;
	/* [n] the ties, which are the candidates whose score equals the threshold, as indices in slot[] */
	int32_t *tie;
	float *tie_score; /* [n] for each element of tie[], the score before pooling */
	/* [k] each: the selected entries and copies of them, for sorting; empty if topk_args.order is not BEST_FIRST */
	struct order *order[2], *spare;
};

static void *array_cut(char *base, size_t *at, size_t n, size_t size)
{
	size_t from = *at;

	*at += align64((n + 16) * size);
	return base ? base + from : NULL;
}

static size_t mem_cut(char *base, struct topk_mem *m, const struct topk_args *a, int32_t half)
{
	size_t at = 0, n = (size_t)a->n, pooled = half ? n : 0, k = a->order ? (size_t)a->k : 0;

	m->pooled = array_cut(base, &at, pooled, sizeof(float));
	m->tmp = array_cut(base, &at, pooled + 2 * (size_t)half, sizeof(float));
	m->slot = array_cut(base, &at, n, sizeof(int32_t));
	m->value = array_cut(base, &at, n + SAMPLE_BLOCK, sizeof(float));
	m->sum = array_cut(base, &at, a->sample ? n / SAMPLE_BLOCK + 1 : 0, sizeof(float));
	m->tie = array_cut(base, &at, pooled, sizeof(int32_t));
	m->tie_score = array_cut(base, &at, pooled, sizeof(float));
	m->order[0] = array_cut(base, &at, k, sizeof(struct order));
	m->order[1] = array_cut(base, &at, k, sizeof(struct order));
	m->spare = array_cut(base, &at, k, sizeof(struct order));
	return at;
}

/* Return x, or -inf for NaN, which ranks lowest. */
static float score_of(float x)
{
	return x > -INFINITY ? x : -INFINITY;
}

/* rank_of() maps floats to integers in the same order. of_rank() maps these integers back to floats. */
static int32_t rank_of(float x)
{
	int32_t i;

	x += 0.0f; /* converts -0 to 0 */
	memcpy(&i, &x, 4);
	return i < 0 ? i ^ 0x7fffffff : i;
}

static float of_rank(int32_t i)
{
	float x;

	i = i < 0 ? i ^ 0x7fffffff : i;
	memcpy(&x, &i, 4);
	return x;
}

/* Return a threshold t for n values: at least `want` and at most `want + slack` of them are t or higher, and *ties is
 * 0. If equal values make this impossible, more values are t or higher. Then the caller must keep *ties of the values
 * that are equal to t, and reject the other values that are equal to t. All values are from `least` to `top`; none is
 * NaN. */
static float threshold(const struct select_fns *f, const float *x, int32_t n, int32_t want, int32_t slack, float least,
                       float top, int32_t *ties)
{
	int64_t lo = rank_of(least), hi = (int64_t)rank_of(top) + 1;
	/* number of values that are at least lo, and number of values that are at least hi */
	int32_t reach = n, above = 0;

	*ties = 0;
	if (n <= want + slack)
		return least;
	for (int turn = 0; hi - lo > 1; turn++) {
		int64_t mid = lo + (hi - lo) / 2;
		int32_t c;

		/* Bisection and interpolation alternate: bisection always makes progress, interpolation needs few
		 * steps. */
		if (turn % 2) {
			double part = (double)(reach - want) / (reach - above);

			mid = lo + (int64_t)((double)(hi - lo) * part);
			mid = mid <= lo ? lo + 1 : mid >= hi ? hi - 1 : mid;
		}
		c = f->count(x, n, of_rank((int32_t)mid));
		if (c >= want && c <= want + slack)
			return of_rank((int32_t)mid);
		if (c > want) {
			lo = mid;
			reach = c;
		} else {
			hi = mid;
			above = c;
		}
	}
	*ties = want - above;
	return of_rank((int32_t)lo);
}

/* Return a bound for the values x[] from index i0 to i1 - 1. Almost surely, more than `want` of these values are equal
 * to the bound or higher. */
static float likely_bound(const struct select_fns *f, const float *x, int32_t i0, int32_t i1, int32_t want)
{
	int32_t n = i1 - i0, step = n / SAMPLE, rank, ties;
	float sample[SAMPLE], top = -INFINITY;
	double share = (double)want / n;

	if (n < SAMPLE_FROM)
		return -INFINITY;
	/* Of the `want` highest scores, about SAMPLE * share are in the sample. Go 3.5 standard deviations further down
	 * in the sample, so that almost surely enough scores reach the bound. */
	rank = (int32_t)(SAMPLE * share + 3.5 * sqrt(SAMPLE * share * (1 - share))) + 3;
	if (rank >= SAMPLE / 2)
		return -INFINITY;
	for (int32_t i = 0; i < SAMPLE; i++) {
		sample[i] = score_of(x[i0 + i * step]);
		top = MAX(sample[i], top);
	}
	return threshold(f, sample, SAMPLE, rank, SAMPLE / 64, -INFINITY, top, &ties);
}

/* Keep `ties` of the candidates whose value equals t. Reject the other candidates with this value by setting their
 * value to NaN. Prefer higher scores before pooling and, if these are equal, later slots. */
static void ties_break(const struct select_fns *f, const struct topk_mem *m, int32_t n, float t, int32_t ties,
                       const float *score, int pooled)
{
	int32_t equal = 0, less = 0, tied = 0;
	float bound = t, top = -INFINITY;

	for (int32_t i = 0; i < n; i++)
		equal += m->value[i] == t;
	if (equal == ties)
		return;
	if (!pooled) {
		for (int32_t i = 0; equal > ties; i++)
			if (m->value[i] == t) {
				m->value[i] = NAN;
				equal--;
			}
		return;
	}
	equal = 0;
	for (int32_t i = 0; i < n; i++)
		if (m->value[i] == t) {
			float s = score_of(score[m->slot[i]]);

			m->tie[equal] = i;
			m->tie_score[equal++] = s;
			top = MAX(s, top);
		}
	bound = threshold(f, m->tie_score, equal, ties, 0, -INFINITY, top, &tied);
	for (int32_t i = 0; i < equal; i++)
		if (m->tie_score[i] < bound)
			m->value[m->tie[i]] = NAN;
		else
			less += m->tie_score[i] == bound;
	/* `less` is the number of candidates whose score before pooling equals the bound. If `tied` is not 0, keep the
	 * last `tied` of these candidates and reject the others. */
	for (int32_t i = 0; tied && less > tied; i++)
		if (m->tie_score[i] == bound) {
			m->value[m->tie[i]] = NAN;
			less--;
		}
}

/* Sort by key with a stable radix sort, least significant byte first. Return the array that has the result. */
static struct order *radix_sort(struct order *from, struct order *to, int32_t n)
{
	int32_t count[4][256];

	memset(count, 0, sizeof count);
	for (int32_t i = 0; i < n; i++)
		for (int b = 0; b < 4; b++)
			count[b][from[i].key >> (8 * b) & 255]++;
	for (int b = 0; b < 4; b++) {
		struct order *swap = from;
		int32_t at = 0;

		if (count[b][from[0].key >> (8 * b) & 255] == n)
			continue;
		for (int d = 0; d < 256; d++) {
			int32_t c = count[b][d];

			count[b][d] = at;
			at += c;
		}
		for (int32_t i = 0; i < n; i++)
			to[count[b][from[i].key >> (8 * b) & 255]++] = from[i];
		from = to;
		to = swap;
	}
	return from;
}

/* Return the sort key of a score. A higher score has a smaller key. */
static uint32_t order_of(float x)
{
	return ~((uint32_t)rank_of(score_of(x)) ^ 0x80000000u);
}

/* Sort entries with equal pooled scores by their scores before pooling. */
static void sort_run(const struct topk_mem *m, struct order *run, int32_t n, const float *score)
{
	for (int32_t i = 0; i < n; i++)
		run[i].key = order_of(score[run[i].slot]);
	if (n > SHORT_RUN) {
		struct order *sorted = radix_sort(run, m->spare, n);

		if (sorted != run)
			memcpy(run, sorted, (size_t)n * sizeof *run);
		return;
	}
	for (int32_t i = 1; i < n; i++) {
		struct order x = run[i];
		int32_t j = i;

		for (; j > 0 && run[j - 1].key > x.key; j--)
			run[j] = run[j - 1];
		run[j] = x;
	}
}

/* Sort the selected slots by descending score. If scores are equal, the later slot comes first. The array slot[] is in
 * ascending order; its slots are copied in descending order, which the stable sort keeps for equal scores. */
static void best_first(const struct topk_mem *m, int32_t *slot, int32_t k, const float *score, const float *pooled)
{
	struct order *order;

	for (int32_t i = 0; i < k; i++) {
		int32_t r = slot[k - 1 - i];

		m->order[0][i].slot = r;
		m->order[0][i].key = order_of((pooled ? pooled : score)[r]);
	}
	order = radix_sort(m->order[0], m->order[1], k);
	for (int32_t i = 0, end; pooled && i < k; i = end) {
		uint32_t key = order[i].key;

		for (end = i + 1; end < k && order[end].key == key; end++)
			;
		if (end - i > 1)
			sort_run(m, order + i, end - i, score);
	}
	for (int32_t i = 0; i < k; i++)
		slot[i] = order[i].slot;
}

/* Append a sample of the slots that are not selected. The k selected slots slot[] are in ascending order. Each other
 * slot has a probability of being sampled. The probabilities are added up slot by slot, and a slot is sampled if adding
 * its probability increases the rounded sum. So the sample is spread over the sequence, and a repeated call samples the
 * same slots. */
static void sample_rest(const struct topk_job *j, const struct topk_mem *m, const float *score, int32_t *slot,
                        float *bias)
{
	const struct topk_args *a = j->a;
	int32_t blocks = (a->n + SAMPLE_BLOCK - 1) / SAMPLE_BLOCK, taken = 0;
	float top = -INFINITY, *p = m->value, least; /* a slot whose score is at least `least` is always sampled */
	double quarter[4] = { 0 }, all, sum = 0, next = 0.5, scale;

	for (int32_t i = 0; i < a->k; i++)
		top = score[slot[i]] > top ? score[slot[i]] : top;
	top = top > -INFINITY ? top : 0;
	memset(bias, 0, (size_t)a->k * sizeof *bias);
	slot += a->k;
	bias += a->k;
	j->fns->exps(p, score, a->n, top);
	for (int32_t i = 0; i < a->k; i++)
		p[slot[i - a->k]] = 0;
	j->fns->block_sums(m->sum, p, blocks);
	for (int32_t b = 0; b < blocks; b++)
		quarter[b % 4] += (double)m->sum[b];
	all = (quarter[0] + quarter[1]) + (quarter[2] + quarter[3]);
	scale = all > 0 ? a->sample / all : 0;
	least = top - (float)log(scale);
	for (int32_t b = 0; b < blocks && scale > 0 && taken < a->sample; b++) {
		double here = scale * (double)m->sum[b], end = sum + here, upto[SAMPLE_BLOCK];
		int32_t first = b * SAMPLE_BLOCK, at = 0;

		if (end < next) {
			sum = end;
			continue;
		}
		/* Find the position in the block where the rounded sum increases. The search has no branch, because a
		 * branch would be mispredicted. */
		for (int32_t i = 0; i < SAMPLE_BLOCK; i++) {
			double step = scale * (double)p[first + i];

			upto[i] = sum += MIN(step, 1);
		}
		for (int32_t i = 0; i < SAMPLE_BLOCK; i++)
			at += upto[i] < next;
		for (; at < SAMPLE_BLOCK && taken < a->sample; at++) {
			if (upto[at] < next)
				continue;
			next++;
			slot[taken] = first + at;
			bias[taken++] = scale * (double)p[first + at] < 1 ? least - score[first + at] : 0;
			/* If the probabilities of a block sum to less than 1, no second slot of the block can be
			 * sampled. */
			if (here < 1) {
				sum = end;
				break;
			}
		}
	}
	for (; taken < a->sample; taken++) {
		slot[taken] = slot[-1];
		bias[taken] = SAMPLE_NONE;
	}
}

void topk_head(const struct topk_job *j, int32_t head, int worker)
{
	const struct topk_args *a = j->a;
	const struct select_fns *f = j->fns;
	const float *score = (const float *)a->score->data + (size_t)head * (size_t)a->score->cols, *x = score;
	int32_t *out = (int32_t *)a->slots->data + (size_t)head * (size_t)a->slots->cols;
	int32_t first = MIN(a->first, a->k), last = MIN(MIN(a->last, a->n - first), a->k - first);
	int32_t want = a->k - first - last, i0 = first, i1 = a->n - last;
	struct topk_mem m;

	mem_cut((char *)j->c->scratch.p + (size_t)worker * j->thread_bytes, &m, a, j->half);
	if (j->half) {
		f->pool(m.pooled, score, a->n, j->half, m.tmp);
		x = m.pooled;
	}
	for (int32_t i = 0; i < first; i++)
		out[i] = i;
	for (int32_t i = 0; i < last; i++)
		out[first + want + i] = i1 + i;
	if (want == i1 - i0) {
		for (int32_t i = 0; i < want; i++)
			out[first + i] = i0 + i;
	} else if (want > 0) {
		float least = likely_bound(f, x, i0, i1, want), top, t;
		int32_t n = f->pick(m.slot, m.value, &top, x, i0, i1, least), ties;

		if (n < want) {
			least = -INFINITY;
			n = f->pick(m.slot, m.value, &top, x, i0, i1, least);
		}
		t = threshold(f, m.value, n, want, 0, least, top, &ties);
		if (ties)
			ties_break(f, &m, n, t, ties, score, j->half > 0);
		f->keep(out + first, m.slot, m.value, n, t);
	}
	if (a->order)
		best_first(&m, out, a->k, score, j->half ? m.pooled : NULL);
	if (a->sample)
		sample_rest(j, &m, score, out, (float *)a->bias->data + (size_t)head * (size_t)a->bias->cols);
}

int topk_plan(struct backend *be, const struct topk_args *a, struct topk_job *j)
{
	struct cpu *c = cpu_of(be);
	struct topk_mem m;

	*j = (struct topk_job){ .fns = c->fns->select, .c = c, .a = a };
	if (be->failed || topk_check(be, a) < 0)
		return -1;
	j->half = MIN(a->pool / 2, a->n - 1);
	j->thread_bytes = mem_cut(NULL, &m, a, j->half);
	return 0;
}

static void topk_task(void *arg, int head, int worker)
{
	topk_head(arg, head, worker);
}

void cpu_topk(struct backend *be, const struct topk_args *a)
{
	struct cpu *c = cpu_of(be);
	struct topk_job j;

	if (topk_plan(be, a, &j) < 0 || !predicate_holds(&a->when) ||
	    cpu_buffer_grow(c, &c->scratch, j.thread_bytes * (size_t)c->base.threads) < 0)
		return;
	if ((int64_t)a->n * a->n_kv_head <= SMALL_TOPK)
		for (int32_t h = 0; h < a->n_kv_head; h++)
			topk_head(&j, h, 0);
	else
		pool_run(c->pool, topk_task, &j, a->n_kv_head);
}
