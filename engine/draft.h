/* engine/draft.h (private to engine/timeline*.c) - guesses the next tokens from the tokens so far (draft.c).
 *
 * The tokens behind the longest earlier occurrence of the newest ones are the draft ("prompt lookup", Saxena 2023; here over the whole
 * sequence, the most recent of the longest matches).  Guesses decide what is computed ahead, never what is sampled. */
#ifndef WEIR_DRAFT_H
#define WEIR_DRAFT_H

#include <stddef.h>
#include <stdint.h>

enum {
	DRAFT_MOST = 7,            /* tokens of a draft: with the pending token they are a tile of eight columns */
	DRAFT_LENGTHS = 4,         /* classes of matches: 2, 3, 4 to 7, and 8 or more tokens */
};

struct draft_index {
	int32_t *before;           /* [n] the place before with the same two tokens up to and with it, -1 = none */
	size_t n, cap;
	int32_t *newest;           /* [n_newest] a hash of two tokens: the newest place that has it, -1 = none */
	size_t n_newest;
};

/* Tokens changed from place n on (0: all): what is known of them is forgotten. */
void   draft_index_cut(struct draft_index *, const int32_t *id, size_t n);
/* Index id[0 .. n), of which the first draft_index.n are indexed. */
void   draft_index_grow(struct draft_index *, const int32_t *id, size_t n);
void   draft_index_free(struct draft_index *);
/* Guess up to `most` tokens that follow id[0 .. n), all indexed.  Returns how many; *match: tokens of the match, 0 = none. */
int32_t draft_find(const struct draft_index *, const int32_t *id, size_t n, int32_t most, int32_t out[DRAFT_MOST], int32_t *match);

/* How many tokens a draft should have: the number with the most tokens a second, as far as steps of each size were measured and drafts were
 * right. */
struct draft_pace {
	double seconds[DRAFT_MOST + 2];    /* of a step of so many tokens, a running mean; 0 = not measured */
	double right[DRAFT_LENGTHS];       /* share of drafted tokens that were sampled, where all before them were */
	int32_t idle;                      /* steps without a draft */
};
void    draft_pace_reset(struct draft_pace *);
/* Tokens to draft behind a match of that length, 0 .. most. */
int32_t draft_pace_length(struct draft_pace *, int32_t match, int32_t most);
/* A step of n tokens took so long. */
void    draft_pace_took(struct draft_pace *, int32_t n, double seconds);
/* Of a draft behind such a match, `accepted` tokens were sampled, and then, if `missed`, another one. */
void    draft_pace_learn(struct draft_pace *, int32_t match, int32_t accepted, int missed);

#endif
