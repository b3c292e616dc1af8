/* kernels/cpu/probe.c - attention with a probe, which measures how much attention each slot gets (mass), and over how
 * many slots a query's attention is spread.
 *
 * The attention of some tokens (a tile) is computed first, and its scores are kept. Then, for every slot, the
 * probabilities of the tile's tokens are added in token order. So a sum does not depend on the tiles, on the threads,
 * or on the division of tokens among calls. The output has the bits of attention without a probe.
 *
 * The spread is the smallest number of slots whose probabilities sum to a given share. Bisection finds two thresholds
 * of the probability, 1/64 octave apart: the slots above the higher threshold sum to less than the share, and the slots
 * above the lower threshold reach the share. Slots between the thresholds are counted as if each had their mean
 * probability. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/attn.h"

enum {
	RANGE = 1024,           /* number of columns in a task */
	SMALL_PROBE = 24 << 10, /* up to this number of scores, one thread is faster than two */
	STEPS = 64,
	OCTAVES = 32, /* thresholds are 2^(-step / STEPS), down to 2^-OCTAVES */
};
#define SCORE_BYTES ((size_t)16 << 20) /* maximum size of scores in bytes, unless one token needs more */

struct probe_job {
	const struct attn_job *j;
	const struct attn_probe *p;
	int32_t heads;  /* number of query heads whose attention mass is reduced to one output row */
	int32_t ranges; /* number of ranges into which the columns whose attention mass is measured are divided */
	/* index, among the kept scores of a token, of the first column whose attention mass is measured */
	int32_t first;
	/* 1: this is the call's first tile (group of tokens), so the sums start from the tensor attn_probe.from */
	int carry;
	float *spread; /* [tokens][n_head] results of spread_task() */
};

/* Set the initial sums of a range of columns: copies from the tensor attn_probe.from, or 0 for the call's own
 * tokens. */
static void mass_carry(const struct probe_job *pj, float *out, int32_t row, int32_t c0)
{
	const struct attn_probe *p = pj->p;
	int32_t left = pj->j->slots - p->skip - c0, n = MIN(RANGE, left), old = MIN(n, left - pj->j->n);

	old = MAX(old, 0);
	memcpy(out, (const float *)p->from->data + (size_t)(p->mass_row + row) * (size_t)p->from->cols + c0,
	       (size_t)old * sizeof *out);
	memset(out + old, 0, (size_t)(n - old) * sizeof *out);
}

/* Return the number of columns that token i of the call sees. */
static int32_t columns_seen(const struct attn_job *j, int32_t i)
{
	return j->slots - (j->n - 1 - i);
}

/* Add the attention mass of the tile's tokens to one range of columns of one output row. */
static void mass_task(void *arg, int task, int worker)
{
	const struct probe_job *pj = arg;
	const struct attn_job *j = pj->j;
	int32_t row = task / pj->ranges, c0 = task % pj->ranges * RANGE;
	struct probe_tile t = {
		.out = (float *)pj->p->mass->data + (size_t)(pj->p->mass_row + row) * (size_t)pj->p->mass->cols + c0,
		.stride = j->stride,
		.heads = pj->heads,
		.reduce = pj->p->reduce,
		.largest = pj->p->largest,
	};

	(void)worker;
	if (pj->carry)
		mass_carry(pj, t.out, row, c0);
	for (int32_t i = j->t0; i < j->t1; i++) {
		size_t at = (size_t)(i - j->t0) * (size_t)j->a->n_head + (size_t)row * (size_t)pj->heads;

		t.n = MIN(RANGE, columns_seen(j, i) - pj->p->skip - c0);
		t.score = j->score + at * j->stride + pj->first + c0;
		t.m = j->m + at;
		t.l = j->l + at;
		t.weight = pj->p->weight[i];
		if (t.n > 0)
			j->c->fns->probe_mass(&t);
	}
}

/* Return how many of the n probabilities p, in descending order, have the sum `share` together. */
static float columns_holding(const struct cpu_fns *f, const float *p, int32_t n, float share)
{
	int32_t low = -1, high = OCTAVES * STEPS, count_low = 0, count_high, count;
	float sum_low = 0, sum_high, sum;

	f->probe_above(p, n, exp2f(-OCTAVES), &sum_high, &count_high);
	if (!(sum_high >= share))
		return (float)n;
	while (high - low > 1) {
		int32_t mid = low + (high - low) / 2;

		f->probe_above(p, n, exp2f(-(float)mid / STEPS), &sum, &count);
		if (sum >= share) {
			high = mid;
			sum_high = sum;
			count_high = count;
		} else {
			low = mid;
			sum_low = sum;
			count_low = count;
		}
	}
	/* The probabilities between the two thresholds differ by less than a step, so all are treated as equal to their
	 * mean. The constant 1e-3 allows for the rounding of the sums. */
	if (count_high > count_low) {
		float mean = (sum_high - sum_low) / (float)(count_high - count_low);
		float more = ceilf((share - sum_low) / mean - 1e-3f);

		return fminf((float)count_high, (float)count_low + fmaxf(more, 1));
	}
	return (float)count_high;
}

/* For one token and query head, compute over how many slots the attention is spread (top of this file). The scores are
 * overwritten with probabilities, so this function must be called after mass_task(). */
static void spread_task(void *arg, int task, int worker)
{
	const struct probe_job *pj = arg;
	const struct attn_job *j = pj->j;
	int32_t n = columns_seen(j, j->t0 + task / j->a->n_head);
	float *p = j->score + (size_t)task * j->stride;

	(void)worker;
	j->c->fns->probe_share(p, p, n, j->m[task], j->l[task]);
	pj->spread[task] = columns_holding(j->c->fns, p, n, pj->p->share);
}

static void run_tasks(struct probe_job *pj, pool_fn *fn, int32_t n, int small)
{
	if (small)
		for (int32_t t = 0; t < n; t++)
			fn(pj, t, 0);
	else
		pool_run(pj->j->c->pool, fn, pj, n);
}

/* Add the attention mass and the spread of a tile of measured tokens to the outputs of the probe. */
static void probe_tile(const struct attn_job *j, float *spread, int first)
{
	const struct attn_probe *p = j->a->probe;
	int32_t heads = p->whole_layer ? j->a->n_head : j->group, all = (j->t1 - j->t0) * j->a->n_head;
	int32_t cols = j->slots - p->skip;
	struct probe_job pj = {
		.j = j,
		.p = p,
		.heads = heads,
		.ranges = ceil_div(cols, RANGE),
		.first = p->skip - j->first,
		.spread = spread,
		.carry = first && p->from,
	};
	double sum = 0;

	if (p->mass)
		run_tasks(&pj, mass_task, j->a->n_head / heads * pj.ranges, (double)all * cols < SMALL_PROBE);
	if (!p->spread)
		return;
	run_tasks(&pj, spread_task, all, (double)all * j->slots < SMALL_PROBE / 8);
	for (int32_t i = 0; i < all; i++)
		sum += spread[i];
	((float *)p->spread->data)[p->spread_col] += (float)sum;
}

void probe_run(struct attn_job *j)
{
	struct cpu *c = j->c;
	const float *weight = j->a->probe->weight;
	size_t heads = (size_t)j->a->n_head, row, small, scores;
	int32_t most;
	int first = 1, gaps = j->a->window > 0;
	float *spread;

	/* Attention mass is not measured for the first `skip` slots. If the first segments of a call (struct
	 * attn_segment) have only slots among these, the scores of these segments are not kept. The spread, however,
	 * counts all slots: if it is measured, the scores of all segments are kept. */
	j->first = 0;
	for (int32_t i = 0; i < j->a->n_seg && !j->a->probe->spread; i++) {
		if (j->first + j->a->seg[i].n_slots > j->a->probe->skip)
			break;
		j->first += j->a->seg[i].n_slots;
	}
	for (int32_t i = 0; i < j->a->n_seg; i++)
		gaps |= j->a->seg[i].lengths != NULL;
	j->stride = ((size_t)(j->slots - j->first) + 16) & ~(size_t)15;
	row = heads * j->stride * sizeof(float);
	most = j->group < TILE_QUERIES ? TILE_QUERIES / j->group : 1;
	if ((size_t)most > SCORE_BYTES / row)
		most = row < SCORE_BYTES ? (int32_t)(SCORE_BYTES / row) : 1;
	most = MIN(most, j->n);
	small = align64((size_t)most * heads * sizeof(float));
	scores = align64((size_t)most * row);
	if (cpu_buffer_grow(c, &c->probe, scores + 3 * small) < 0)
		return;
	spread = (float *)((char *)c->probe.p + scores + 2 * small);
	for (int32_t i = 0; i < j->n;) {
		int32_t to = i + 1, look = weight[i] != 0;

		while (to < j->n && (weight[to] != 0) == look && (!look || to - i < most))
			to++;
		j->score = look ? c->probe.p : NULL;
		j->m = (float *)((char *)c->probe.p + scores);
		j->l = (float *)((char *)c->probe.p + scores + small);
		/* Attention does not write the scores of keys before a window, or after the end of a list, so set all
		 * scores to -infinity first. */
		for (size_t k = 0, all = (size_t)(to - i) * heads * j->stride; look && gaps && k < all; k++)
			j->score[k] = -INFINITY;
		if (attn_run(j, i, to) < 0)
			return;
		if (look) {
			probe_tile(j, spread, first);
			first = 0;
		}
		i = to;
	}
}
