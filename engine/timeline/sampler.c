/* engine/timeline/sampler.c - chooses the next token, greedily or at random.
 *
 * The random generator is xoshiro256** (Blackman and Vigna 2018), seeded by splitmix64. Unlike the C library's
 * generator it gives the same numbers on every system, and its state can be saved. Of tokens with equal logits, the
 * token with the lowest id comes first. */
#include "engine/timeline/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The default temperature is low, because that keeps small models on topic and close to the words of documents. There
 * is no repetition penalty, because it would suppress names and numbers that an answer must repeat. */
const struct sampling sampling_default = {
	.temperature = 0.3f,
	.top_k = 40,
	.top_p = 0.9f,
	.min_p = 0.05f,
	.repeat_penalty = 1,
	.presence_penalty = 0,
	.frequency_penalty = 0,
	.repeat_last = 64,
};

void sampling_seed(struct sampling *s, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		s->rng[i] = random_next(&seed);
}

static uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

/* Return a random number, uniform from 0 (included) to 1 (excluded). */
static double draw(struct sampling *p)
{
	uint64_t *s = p->rng, r = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return (double)(r >> 11) * 0x1p-53;
}

/* ---- loops over the whole vocabulary ---- */

typedef float four __attribute__((vector_size(16)));
typedef int32_t four_bits __attribute__((vector_size(16)));

enum {
	BLOCKS = 1024, /* maximum number of blocks into which candidates() divides the vocabulary */
	/* number of floats per iteration of a loop; the size of a block of candidates() is a multiple of this number */
	ROUND = 16,
};

static four load4(const float *x)
{
	four v;

	memcpy(&v, x, sizeof v);
	return v;
}

/* 1 if no logit is NaN or +infinity. */
static int logits_valid(const float *x, int32_t n)
{
	const four limit = { INFINITY, INFINITY, INFINITY, INFINITY };
	four_bits good = { -1, -1, -1, -1 };
	int32_t i = 0, all;

	for (; i + ROUND <= n; i += ROUND)
		good &= (load4(x + i) < limit) & (load4(x + i + 4) < limit) & (load4(x + i + 8) < limit) &
		        (load4(x + i + 12) < limit);
	all = good[0] & good[1] & good[2] & good[3];
	for (; i < n; i++)
		all &= x[i] < INFINITY;
	return all != 0;
}

static four max4(four a, four b)
{
	four_bits more = a > b;

	return (four)(((four_bits)a & more) | ((four_bits)b & ~more));
}

/* Return the largest of n values, or -infinity for n = 0. NaN is ignored. */
static float largest(const float *x, int32_t n)
{
	const four least = { -INFINITY, -INFINITY, -INFINITY, -INFINITY };
	four a = least, b = least, c = least, d = least;
	float best = -INFINITY;
	int32_t i = 0;

	for (; i + ROUND <= n; i += ROUND) {
		a = max4(load4(x + i), a);
		b = max4(load4(x + i + 4), b);
		c = max4(load4(x + i + 8), c);
		d = max4(load4(x + i + 12), d);
	}
	a = max4(max4(a, b), max4(c, d));
	for (int l = 0; l < 4; l++)
		best = MAX(a[l], best);
	for (; i < n; i++)
		best = MAX(x[i], best);
	return best;
}

static int penalises(const struct sampling *p)
{
	return p->repeat_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0;
}

/* Lower the logits of tokens that occur among the last repeat_last tokens of the answer (-1 = in the whole answer).
 * Tokens of the prompt are not penalised, because an answer has to use its words. A positive logit is divided by
 * repeat_penalty, a negative logit is multiplied by it (Keskar et al. 2019). Then presence_penalty is subtracted once,
 * and frequency_penalty once per occurrence. count[n_vocab] is scratch memory, which need not be zeroed. */
static void penalise(const struct sampling *p, float *logit, int32_t *count, int32_t n_vocab, const int32_t *history,
                     size_t n)
{
	size_t prompt = p->answer > 0 ? (size_t)p->answer : 0;

	prompt = MIN(prompt, n);
	history += prompt;
	n -= prompt;
	if (p->repeat_last >= 0 && n > (size_t)p->repeat_last) {
		history += n - (size_t)p->repeat_last;
		n = (size_t)p->repeat_last;
	}
	for (size_t i = 0; i < n; i++)
		if (history[i] >= 0 && history[i] < n_vocab)
			count[history[i]] = 0;
	for (size_t i = 0; i < n; i++)
		if (history[i] >= 0 && history[i] < n_vocab)
			count[history[i]]++;
	for (size_t i = 0; i < n; i++) {
		int32_t id = history[i];
		if (id < 0 || id >= n_vocab || !count[id])
			continue;
		logit[id] = logit[id] > 0 ? logit[id] / p->repeat_penalty : logit[id] * p->repeat_penalty;
		logit[id] -= p->presence_penalty + p->frequency_penalty * (float)count[id];
		count[id] = 0;
	}
}

/* ---- the k largest logits ---- */

static int better(const float *value, int32_t a, int32_t b)
{
	return value[a] > value[b] || (value[a] == value[b] && a < b);
}

static int by_value(const void *a, const void *b, void *value)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return better(value, y, x) - better(value, x, y);
}

/* Restore the heap of the k ids id[] after id[at] has changed. The root of the heap, id[0], is the id with the smallest
 * value. */
static void sift_down(const float *value, int32_t *id, int32_t k, int32_t at)
{
	for (int32_t child; (child = 2 * at + 1) < k; at = child) {
		int32_t t = id[at];
		if (child + 1 < k && better(value, id[child], id[child + 1]))
			child++;
		if (!better(value, t, id[child]))
			return;
		id[at] = id[child];
		id[child] = t;
	}
}

/* Of the n ids id[], move the k ids with the largest values to the beginning of id[]. They form a heap, whose root
 * id[0] is the id with the smallest of these k values. */
static void keep_best(const float *value, int32_t *id, int32_t n, int32_t k)
{
	for (int32_t i = k / 2 - 1; i >= 0; i--)
		sift_down(value, id, k, i);
	for (int32_t i = k; i < n; i++)
		if (better(value, id[i], id[0])) {
			id[0] = id[i];
			sift_down(value, id, k, 0);
		}
}

/* Write the ids of the k largest logits to id[], largest first, and return their number. If k is 0, write the ids of
 * all logits. Skip logits that are more than `far` below the largest logit. To sort fewer logits, divide the vocabulary
 * into blocks and find the maximum of each block. None of the k largest logits is below the k-th largest block maximum,
 * so only logits that are at least this maximum are sorted. */
static int32_t candidates(const float *logit, int32_t n_vocab, int32_t k, float far, int32_t *id)
{
	int32_t len = (n_vocab / BLOCKS / ROUND + 1) * ROUND, blocks = (n_vocab + len - 1) / len, n = 0;
	float top[BLOCKS], best, bound;

	for (int32_t b = 0; b < blocks; b++) {
		top[b] = largest(logit + (size_t)b * (size_t)len, b < blocks - 1 ? len : n_vocab - b * len);
		id[b] = b;
	}
	best = largest(top, blocks);
	if (!isfinite(best))
		return 0;
	bound = best - far;
	if (k > 0 && k < blocks) {
		keep_best(top, id, blocks, k);
		bound = top[id[0]] > bound ? top[id[0]] : bound;
	}
	for (int32_t b = 0; b < blocks; b++)
		if (top[b] >= bound)
			for (int32_t i = b * len; i < n_vocab && i < (b + 1) * len; i++)
				if (logit[i] >= bound)
					id[n++] = i;
	if (k <= 0 || k > n)
		k = n;
	if (k < n)
		keep_best(logit, id, n, k);
	qsort_r(id, (size_t)k, sizeof *id, by_value, (void *)(uintptr_t)logit);
	return k;
}

static int32_t greedy(const float *logits, int32_t n_vocab)
{
	float best = largest(logits, n_vocab);
	int32_t id = 0;

	if (!isfinite(best))
		return -1;
	while (logits[id] != best)
		id++;
	return id;
}

/* Ignore tokens whose logits are more than this below the largest logit. Each would be drawn less than once in 10^21
 * draws. */
static const float far_below = 50;

/* Draw one of n tokens. id[] has their ids, the token with the largest logit first. */
static int32_t draw_token(struct sampling *p, const float *logit, const int32_t *id, int32_t n)
{
	float top = logit[id[0]];
	double sum = 0, kept = 0, r;

	for (int32_t i = 0; i < n; i++)
		sum += exp((double)logit[id[i]] - top);
	for (int32_t i = 0; i < n; i++) {
		double q = exp((double)logit[id[i]] - top);
		if (i > 0 && (kept >= p->top_p * sum || q < p->min_p)) {
			n = i;
			break;
		}
		kept += q;
	}
	sum = 0;
	for (int32_t i = 0; i < n; i++)
		sum += exp(((double)logit[id[i]] - top) / p->temperature);
	r = draw(p) * sum;
	for (int32_t i = 0; i < n; i++) {
		r -= exp(((double)logit[id[i]] - top) / p->temperature);
		if (r < 0)
			return id[i];
	}
	return id[n - 1];
}

int32_t sample(struct sampling *p, const float *logits, int32_t n_vocab, const int32_t *history, size_t n_history,
               void *scratch)
{
	float *logit = scratch;
	int32_t *id = (int32_t *)(void *)(logit + n_vocab), n;

	if (!logits_valid(logits, n_vocab))
		return -1;
	if (p->temperature <= 0 && !penalises(p))
		return greedy(logits, n_vocab);
	memcpy(logit, logits, (size_t)n_vocab * sizeof *logit);
	if (penalises(p))
		penalise(p, logit, id, n_vocab, history, n_history);
	if (p->temperature <= 0)
		return greedy(logit, n_vocab);
	n = candidates(logit, n_vocab, p->top_k, far_below, id);
	return n ? draw_token(p, logit, id, n) : -1;
}

int32_t sample_needs(const struct sampling *p)
{
	if (penalises(p))
		return 0;
	return p->temperature <= 0 ? 1 : MAX(p->top_k, 0);
}

int32_t sample_largest(struct sampling *p, const float *largest, int32_t k, int32_t n_vocab, void *scratch)
{
	float *logit = scratch, bound = largest[0] - far_below;
	int32_t *id = (int32_t *)(void *)(logit + n_vocab), n = 0;

	if (!isfinite(largest[0]))
		return -1;
	for (; n < MIN(k, sample_needs(p)) && largest[n] >= bound; n++) {
		id[n] = (int32_t)largest[k + n];
		logit[id[n]] = largest[n];
	}
	return p->temperature <= 0 ? id[0] : draw_token(p, logit, id, n);
}

double engine_logprob(const float *logits, int32_t n_vocab, int32_t id)
{
	double sum = 0;
	float top = logits[0];

	for (int32_t i = 1; i < n_vocab; i++)
		if (logits[i] > top)
			top = logits[i];
	for (int32_t i = 0; i < n_vocab; i++)
		sum += exp((double)logits[i] - top);
	return (double)logits[id] - top - log(sum);
}
