/* engine/draft.c - guesses the next tokens from the tokens so far (draft.h). */
#include "engine/draft.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base.h"

enum {
	SAME_LEAST = 2,            /* tokens of the shortest match, */
	SAME_MOST = 32,            /* and of the longest that is told from longer ones */
	TRIED_MOST = 64,           /* earlier places that are compared */
	NEWEST_LEAST = 1 << 10,
	IDLE_MOST = 128,           /* steps without a draft after which measurements are doubted */
};
/* Before anything is measured: one token more costs this part of a step, and a drafted token is right so often. */
static const double COST_EACH = 0.1, RIGHT[DRAFT_LENGTHS] = {0.3, 0.45, 0.6, 0.8};
static const double COST_RATE = 0.1, RIGHT_RATE = 0.05;    /* of the running means */

/* ---- the index ---- */

static size_t key_of(const struct draft_index *x, const int32_t *id, size_t at)
{
	uint64_t pair = (uint64_t)(uint32_t)id[at - 1] << 32 | (uint32_t)id[at];

	return (size_t)(pair * 0x9e3779b97f4a7c15u >> 32) & (x->n_newest - 1);
}

static void link_place(struct draft_index *x, const int32_t *id, size_t at)
{
	size_t key;

	x->before[at] = -1;
	if (!at)
		return;
	key = key_of(x, id, at);
	x->before[at] = x->newest[key];
	x->newest[key] = (int32_t)at;
}

static void make_room(struct draft_index *x, const int32_t *id, size_t n)
{
	if (n > x->cap) {
		x->cap = n > 2 * x->cap ? n : 2 * x->cap;
		x->before = xrealloc(x->before, x->cap * sizeof *x->before);
	}
	if (x->newest && x->n_newest >= n)
		return;
	for (x->n_newest = x->n_newest ? x->n_newest : NEWEST_LEAST; x->n_newest < 2 * n; x->n_newest *= 2)
		;
	x->newest = xrealloc(x->newest, x->n_newest * sizeof *x->newest);
	memset(x->newest, 0xff, x->n_newest * sizeof *x->newest);
	for (size_t i = 0; i < x->n; i++)
		link_place(x, id, i);
}

void draft_index_cut(struct draft_index *x, const int32_t *id, size_t n)
{
	for (; x->n > n; x->n--)
		if (x->n > 1)
			x->newest[key_of(x, id, x->n - 1)] = x->before[x->n - 1];
}

void draft_index_grow(struct draft_index *x, const int32_t *id, size_t n)
{
	make_room(x, id, n);
	for (; x->n < n; x->n++)
		link_place(x, id, x->n);
}

void draft_index_free(struct draft_index *x)
{
	free(x->before);
	free(x->newest);
	*x = (struct draft_index){0};
}

/* Tokens that end at places a and b alike, a < b. */
static int32_t same_before(const int32_t *id, size_t a, size_t b)
{
	int32_t same = 0;

	while (same < SAME_MOST && (size_t)same <= a && id[a - (size_t)same] == id[b - (size_t)same])
		same++;
	return same;
}

int32_t draft_find(const struct draft_index *x, const int32_t *id, size_t n, int32_t most, int32_t out[DRAFT_MOST], int32_t *match)
{
	int32_t best = -1, tries = 0;

	*match = 0;
	if (n < SAME_LEAST + 1 || x->n < n)
		return 0;
	for (int32_t at = x->before[n - 1]; at >= 0 && tries < TRIED_MOST && *match < SAME_MOST; at = x->before[at], tries++) {
		int32_t same = same_before(id, (size_t)at, n - 1);

		if (same >= SAME_LEAST && same > *match) {
			*match = same;
			best = at;
		}
	}
	if (best < 0)
		return 0;
	most = most < DRAFT_MOST ? most : DRAFT_MOST;
	/* A match that overlaps what it matches repeats itself: the draft goes on with its own tokens. */
	for (int32_t i = 0; i < most; i++) {
		size_t from = (size_t)best + 1 + (size_t)i;
		out[i] = from < n ? id[from] : out[from - n];
	}
	return most > 0 ? most : 0;
}

/* ---- the length of a draft ---- */

static int class_of(int32_t match)
{
	return match < 3 ? 0 : match < 4 ? 1 : match < 8 ? 2 : 3;
}

void draft_pace_reset(struct draft_pace *p)
{
	*p = (struct draft_pace){.idle = 0};
	memcpy(p->right, RIGHT, sizeof p->right);
}

/* The price of a step of n tokens in steps of one.  Sizes that were not measured lie on the line through one that was. */
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

int32_t draft_pace_length(struct draft_pace *p, int32_t match, int32_t most)
{
	double right = p->right[class_of(match)], reached = 1, expected = 1, best = 1;
	int32_t length = 0;

	most = most < DRAFT_MOST ? most : DRAFT_MOST;
	for (int32_t k = 1; k <= most; k++) {
		double pace;

		reached *= right;
		expected += reached;
		pace = expected / cost_of(p, k + 1);
		if (pace > best) {
			best = pace;
			length = k;
		}
	}
	p->idle = length ? 0 : p->idle + 1;
	/* The machine and the text change. */
	if (p->idle >= IDLE_MOST) {
		double one = p->seconds[1];
		draft_pace_reset(p);
		p->seconds[1] = one;
	}
	return length;
}

void draft_pace_took(struct draft_pace *p, int32_t n, double seconds)
{
	double *mean = &p->seconds[n];

	if (n < 1 || n > DRAFT_MOST + 1)
		return;
	/* What another program's turn on the processor adds says nothing. */
	if (*mean > 0 && seconds > 3 * *mean)
		seconds = 3 * *mean;
	*mean = *mean > 0 ? *mean + COST_RATE * (seconds - *mean) : seconds;
}

void draft_pace_learn(struct draft_pace *p, int32_t match, int32_t accepted, int missed)
{
	double *right = &p->right[class_of(match)];

	for (int32_t i = 0; i < accepted; i++)
		*right += RIGHT_RATE * (1 - *right);
	if (missed)
		*right -= RIGHT_RATE * *right;
}
