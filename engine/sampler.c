/* engine/sampler.c - greedy and random choice of the next token.
 *
 * Randomness is xoshiro256** (Blackman and Vigna 2018), seeded through splitmix64: our own, so that a seed means the
 * same tokens everywhere and a saved state continues exactly.  Ties go to the lower id. */
#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Cool, because small models wander off when they are not, and because questions to documents want what is written; cool
 * small models in turn repeat themselves, hence the mild penalty. */
const struct sampling sampling_default = {
	.temperature = 0.3f, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f,
	.repeat_penalty = 1.1f, .presence_penalty = 0, .frequency_penalty = 0, .repeat_last = 64,
};

void sampling_seed(struct sampling *s, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t z = (seed += 0x9e3779b97f4a7c15u);
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
		s->rng[i] = z ^ (z >> 31);
	}
}

static uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

/* Uniform in [0, 1). */
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

/* 1 when no logit is NaN or +inf: looks at exponent bits so that the compiler can do many at once. */
static int logits_valid(const float *logits, int32_t n)
{
	uint32_t bad = 0;

	for (int32_t i = 0; i < n; i++) {
		uint32_t u;
		memcpy(&u, &logits[i], 4);
		bad |= (u == 0x7f800000u) | ((u & 0x7fffffffu) > 0x7f800000u);
	}
	return !bad;
}

/* Lower what was said lately: logits of seen tokens are divided (or multiplied, when negative) by repeat_penalty
 * (Keskar et al. 2019), and lose presence_penalty once and frequency_penalty per occurrence.  While counting,
 * c[i].id, which is i, holds -count instead. */
static void penalise(const struct sampling *p, struct candidate *c, int32_t n_vocab, const int32_t *history,
                     size_t n)
{
	if (p->repeat_penalty == 1 && p->presence_penalty == 0 && p->frequency_penalty == 0)
		return;
	if (p->repeat_last >= 0 && n > (size_t)p->repeat_last) {
		history += n - (size_t)p->repeat_last;
		n = (size_t)p->repeat_last;
	}
	for (size_t i = 0; i < n; i++)
		if (history[i] >= 0 && history[i] < n_vocab) {
			int32_t *id = &c[history[i]].id;
			*id = *id < 0 ? *id - 1 : -1;
		}
	for (size_t i = 0; i < n; i++) {
		struct candidate *seen;
		if (history[i] < 0 || history[i] >= n_vocab || (seen = &c[history[i]])->id >= 0)
			continue;
		seen->logit = seen->logit > 0 ? seen->logit / p->repeat_penalty : seen->logit * p->repeat_penalty;
		seen->logit -= p->presence_penalty + p->frequency_penalty * (float)-seen->id;
		seen->id = history[i];
	}
}

static int better(struct candidate a, struct candidate b)
{
	return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static int compare_candidate(const void *a, const void *b)
{
	return better(*(const struct candidate *)b, *(const struct candidate *)a) -
	       better(*(const struct candidate *)a, *(const struct candidate *)b);
}

/* Restore the heap below c[at]: the worst of c[0..k) is on top. */
static void sift_down(struct candidate *c, int32_t k, int32_t at)
{
	for (int32_t child; (child = 2 * at + 1) < k; at = child) {
		struct candidate t = c[at];
		if (child + 1 < k && better(c[child], c[child + 1]))
			child++;
		if (!better(t, c[child]))
			return;
		c[at] = c[child];
		c[child] = t;
	}
}

/* Bring the k best of c[0..n) to the front, sorted; returns how many there are. */
static int32_t keep_best(struct candidate *c, int32_t n, int32_t k)
{
	if (k <= 0 || k > n)
		k = n;
	if (k < n) {
		for (int32_t i = k / 2 - 1; i >= 0; i--)
			sift_down(c, k, i);
		for (int32_t i = k; i < n; i++)
			if (better(c[i], c[0])) {
				c[0] = c[i];
				sift_down(c, k, 0);
			}
	}
	qsort(c, (size_t)k, sizeof *c, compare_candidate);
	return k;
}

int32_t sample(struct sampling *p, const float *logits, int32_t n_vocab, const int32_t *history, size_t n_history,
               struct candidate *c)
{
	int32_t n, best = 0;
	double sum = 0, kept = 0, r;
	float top;

	if (!logits_valid(logits, n_vocab))
		return -1;
	if (p->temperature <= 0) {
		for (int32_t i = 1; i < n_vocab; i++)
			if (logits[i] > logits[best])
				best = i;
		return isfinite(logits[best]) ? best : -1;
	}
	for (int32_t i = 0; i < n_vocab; i++)
		c[i] = (struct candidate){ logits[i], i };
	penalise(p, c, n_vocab, history, n_history);
	top = c[0].logit;
	for (int32_t i = 1; i < n_vocab; i++)
		if (c[i].logit > top)
			top = c[i].logit;
	if (!isfinite(top))
		return -1;

	/* What is 50 nats behind the best is never drawn (1 in 10^21): leave it out before sorting. */
	n = 0;
	for (int32_t i = 0; i < n_vocab; i++)
		if (c[i].logit >= top - 50)
			c[n++] = c[i];
	n = keep_best(c, n, p->top_k);
	for (int32_t i = 0; i < n; i++)
		sum += exp((double)c[i].logit - top);
	for (int32_t i = 0; i < n; i++) {
		double q = exp((double)c[i].logit - top);
		if (i > 0 && (kept >= p->top_p * sum || q < p->min_p)) {
			n = i;
			break;
		}
		kept += q;
	}
	sum = 0;
	for (int32_t i = 0; i < n; i++)
		sum += exp(((double)c[i].logit - top) / p->temperature);
	r = draw(p) * sum;
	for (int32_t i = 0; i < n; i++) {
		r -= exp(((double)c[i].logit - top) / p->temperature);
		if (r < 0)
			return c[i].id;
	}
	return c[n - 1].id;
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
