/* engine/timeline/draft.c - guesses the next tokens from the earlier tokens of the sequence (draft.h). */
#include "engine/timeline/draft.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/base.h"

enum {
	SAME_MOST = 14,        /* maximum length of a match, in tokens; a match of n tokens has weight 4^n */
	OCCURRENCES_MOST = 64, /* maximum number of earlier occurrences that vote for the next token */
	NEWEST_LEAST = 1 << 10,
	/* after this many steps without a draft, the measured times of steps with drafts are discarded as out of
	 * date */
	IDLE_MOST = 128,
};
/* Initial values, used until values are measured. COST_EACH is the time that each further token adds to a step, in
 * units of a one-token step. RIGHT is the share of right guesses in each class (draft.h). RIGHT was counted in 80
 * answers of the default model, half of them at temperature 0 (tests/measure/speculate.py). */
static const double COST_EACH = 0.2, RIGHT[DRAFT_LENGTHS][DRAFT_VOTES] = {
	{ 0.27, 0.58, 0.40, 0.16 }, { 0.43, 0.83, 0.48, 0.27 }, { 0.66, 0.92, 0.86, 0.40 },
	{ 0.77, 0.96, 0.80, 0.43 }, { 0.83, 0.99, 0.93, 0.68 }, { 0.96, 0.99, 0.98, 0.87 },
};
/* weight of a new measurement in a running mean: COST_RATE is for the mean time of a step, RIGHT_RATE for the share of
 * right guesses */
static const double COST_RATE = 0.1, RIGHT_RATE = 0.05;
/* guessing stops when the probability that all guesses are right is below this limit */
static const double CHANCE_LEAST = 0.05;
/* A longer draft is chosen only if its expected speed is higher by at least this factor, because measured times are
 * inexact. */
static const double PACE_LEAST = 1.02;

/* ---- the index ---- */

/* Hash the tokens that end at *last. With order = 1, hash that token alone. With order = 2, also hash the token before
 * it. */
static size_t key_of(const struct draft_index *x, const int32_t *last, int order)
{
	uint64_t tokens = (uint64_t)(uint32_t)last[0] | (order > 1 ? (uint64_t)(uint32_t)last[-1] << 32 : 0);

	return (size_t)(tokens * 0x9e3779b97f4a7c15u >> 32) & (x->n_newest - 1);
}

static void link_occurrence(struct draft_index *x, const int32_t *id, size_t at)
{
	for (int order = 1; order <= 2; order++) {
		struct draft_chains *c = &x->of[order - 1];
		size_t key;

		c->before[at] = -1;
		if (at + 1 < (size_t)order)
			continue;
		key = key_of(x, id + at, order);
		c->before[at] = c->newest[key];
		c->newest[key] = (int32_t)at;
	}
}

static void unlink_newest(struct draft_index *x, const int32_t *id)
{
	size_t at = --x->n;

	for (int order = 1; order <= 2; order++)
		if (at + 1 >= (size_t)order)
			x->of[order - 1].newest[key_of(x, id + at, order)] = x->of[order - 1].before[at];
}

static void make_room(struct draft_index *x, const int32_t *id, size_t n)
{
	if (n > x->cap) {
		x->cap = n > 2 * x->cap ? n : 2 * x->cap;
		for (struct draft_chains *c = x->of; c < x->of + 2; c++)
			c->before = xrealloc(c->before, x->cap * sizeof *c->before);
	}
	if (x->n_newest >= n && x->n_newest)
		return;
	for (x->n_newest = x->n_newest ? x->n_newest : NEWEST_LEAST; x->n_newest < 2 * n; x->n_newest *= 2)
		;
	for (struct draft_chains *c = x->of; c < x->of + 2; c++) {
		c->newest = xrealloc(c->newest, x->n_newest * sizeof *c->newest);
		memset(c->newest, 0xff, x->n_newest * sizeof *c->newest);
	}
	for (size_t i = 0; i < x->n; i++)
		link_occurrence(x, id, i);
}

void draft_index_cut(struct draft_index *x, const int32_t *id, size_t n)
{
	while (x->n > n)
		unlink_newest(x, id);
}

void draft_index_grow(struct draft_index *x, const int32_t *id, size_t n)
{
	make_room(x, id, n);
	for (; x->n < n; x->n++)
		link_occurrence(x, id, x->n);
}

void draft_index_free(struct draft_index *x)
{
	for (struct draft_chains *c = x->of; c < x->of + 2; c++) {
		free(c->before);
		free(c->newest);
	}
	*x = (struct draft_index){ 0 };
}

/* ---- a guess ---- */

/* The last tokens of the sequence, followed by the tokens guessed so far. */
struct ending {
	int32_t id[SAME_MOST + DRAFT_MOST];
	int32_t n;
};
/* Votes for the next token. The last tokens of the sequence may also occur earlier. Each earlier occurrence votes for
 * the token that follows it. of[] has one entry for each token with votes: its id, its number of votes, the length in
 * tokens of the longest match, and the sum of their weights. */
struct votes {
	struct vote {
		int32_t id, votes, longest;
		uint64_t weight;
	} of[OCCURRENCES_MOST];
	int32_t n, votes;
};

static int32_t same_tokens(const struct ending *e, const int32_t *id, size_t at)
{
	int32_t same = 0;

	while (same < SAME_MOST && same < e->n && (size_t)same <= at && id[at - (size_t)same] == e->id[e->n - 1 - same])
		same++;
	return same;
}

/* Collect votes for the next token. An earlier occurrence of the last `order` tokens of the sequence votes for the
 * token that follows it. */
static void collect_votes(const struct draft_index *x, const struct ending *e, int order, const int32_t *id, size_t n,
                          struct votes *v)
{
	const struct draft_chains *c = &x->of[order - 1];
	int32_t at = e->n >= order ? c->newest[key_of(x, e->id + e->n - 1, order)] : -1;

	v->n = v->votes = 0;
	for (int32_t tries = 0; at >= 0 && tries < OCCURRENCES_MOST; at = c->before[at], tries++) {
		int32_t same = same_tokens(e, id, (size_t)at), i = 0;

		/* Skip positions that match only by a hash collision. Also skip the end of the sequence, because no
		 * token follows it. */
		if (same < order || (size_t)at + 1 >= n)
			continue;
		while (i < v->n && v->of[i].id != id[at + 1])
			i++;
		if (i == v->n)
			v->of[v->n++] = (struct vote){ .id = id[at + 1] };
		v->of[i].votes++;
		v->of[i].longest = same > v->of[i].longest ? same : v->of[i].longest;
		v->of[i].weight += (uint64_t)1 << (2 * same);
		v->votes++;
	}
}

static int class_of(const struct vote *v, int32_t votes)
{
	int length = v->longest < 4 ? v->longest - 1 : v->longest < 8 ? 3 : v->longest < SAME_MOST ? 4 : 5;
	int agree = votes == 1 ? 0 : v->votes == votes ? 1 : 2 * v->votes > votes ? 2 : 3;

	return length * DRAFT_VOTES + agree;
}

void draft_guess(const struct draft_index *x, const struct draft_pace *p, const int32_t *id, size_t n, int32_t most,
                 struct draft *out)
{
	struct ending e = { .n = n < SAME_MOST ? (int32_t)n : SAME_MOST };
	struct votes v;
	double chance = 1;

	out->n = 0;
	if (!n || x->n < n)
		return;
	memcpy(e.id, id + n - (size_t)e.n, (size_t)e.n * sizeof *id);
	most = MIN(most, DRAFT_MOST);
	while (out->n < most && chance >= CHANCE_LEAST) {
		const struct vote *best = v.of;

		collect_votes(x, &e, 2, id, n, &v);
		if (!v.n)
			collect_votes(x, &e, 1, id, n, &v);
		if (!v.n)
			return;
		/* of several tokens with the same weight, take the first: the newest occurrence voted for it */
		for (int32_t i = 1; i < v.n; i++)
			best = v.of[i].weight > best->weight ? &v.of[i] : best;
		out->class[out->n] = (uint8_t)class_of(best, v.votes);
		chance *= p->right[out->class[out->n]];
		e.id[e.n++] = out->id[out->n++] = best->id;
	}
}

/* ---- the length of a draft ---- */

void draft_pace_reset(struct draft_pace *p)
{
	*p = (struct draft_pace){ .idle = 0 };
	memcpy(p->right, RIGHT, sizeof p->right);
}

/* Return the time of a step of n tokens, in units of a one-token step. If steps of n tokens were not measured,
 * extrapolate linearly from the measured step whose number of tokens is nearest to n. */
static double cost_of(const struct draft_pace *p, int32_t n)
{
	double one = p->seconds[1];

	if (n == 1 || !(one > 0))
		return 1 + COST_EACH * (n - 1);
	if (p->seconds[n] > 0)
		return p->seconds[n] / one;
	for (int32_t away = 1; away <= DRAFT_MOST; away++)
		for (int side = -1; side <= 1; side += 2) {
			int32_t m = n + side * away;
			if (m > 1 && m <= DRAFT_MOST + 1 && p->seconds[m] > 0)
				return 1 + (p->seconds[m] / one - 1) * (n - 1) / (m - 1);
		}
	return 1 + COST_EACH * (n - 1);
}

int32_t draft_pace_length(struct draft_pace *p, const struct draft *d)
{
	double chance = 1, expected = 1, best = 1;
	int32_t length = 0;

	for (int32_t k = 1; k <= d->n; k++) {
		double pace;

		chance *= p->right[d->class[k - 1]];
		expected += chance;
		pace = expected / cost_of(p, k + 1);
		if (pace > PACE_LEAST * best) {
			best = pace;
			length = k;
		}
	}
	p->idle = length ? 0 : p->idle + 1;
	/* Discard the times of steps with drafts. They are then measured again, because the machine's load may have
	 * changed. */
	if (p->idle >= IDLE_MOST) {
		memset(p->seconds + 2, 0, sizeof p->seconds - 2 * sizeof *p->seconds);
		p->idle = 0;
	}
	return length;
}

void draft_pace_took(struct draft_pace *p, int32_t n, double seconds)
{
	double *mean = &p->seconds[n];

	if (n < 1 || n > DRAFT_MOST + 1)
		return;
	/* Limit outliers: a step takes much longer if another program uses the processor. */
	if (*mean > 0 && seconds > 3 * *mean)
		seconds = 3 * *mean;
	*mean = *mean > 0 ? *mean + COST_RATE * (seconds - *mean) : seconds;
}

void draft_pace_learn(struct draft_pace *p, int class, int right)
{
	p->right[class] += RIGHT_RATE * ((right ? 1 : 0) - p->right[class]);
}
