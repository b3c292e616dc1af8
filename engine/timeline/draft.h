/* engine/timeline/draft.h (private to engine/timeline/timeline*.c) - guesses the next tokens from the tokens so far
 * (draft.c).
 *
 * A draft is guessed token by token. Each guess looks for the earlier places whose tokens are those at the end of the
 * sequence and of the draft so far; the tokens that followed there vote, and a place votes with a weight of four to the
 * power of its matching tokens ("prompt lookup", Saxena 2023, looks once and takes all tokens of a draft from one
 * place). A guess is classed by the length of its match and by how many places agree, and each class has a running
 * share of guesses that were right. Guesses decide what is computed ahead, never what is sampled. */
#ifndef WEIR_DRAFT_H
#define WEIR_DRAFT_H

#include <stddef.h>
#include <stdint.h>

enum {
	DRAFT_MOST = 15,   /* tokens of a draft: with the pending token they are the widest VERIFY step */
	DRAFT_LENGTHS = 6, /* classes of the longest match: 1, 2, 3, 4 to 7, 8 to 13, and 14 or more tokens */
	/* classes of votes: one place alone; several that agree; more than half of them agree; half or fewer */
	DRAFT_VOTES = 4,
	DRAFT_CLASSES = DRAFT_LENGTHS * DRAFT_VOTES,
};

/* The places of each token and of each pair of tokens, the newest first, as chains through places with the same
 * hash. */
struct draft_index {
	struct draft_chains {
		/* [cap] the place before with the same hash of the one or two tokens up to and with it, -1 = none */
		int32_t *before;
		int32_t *newest; /* [n_newest] the newest place of each hash, -1 = none */
	} of[2];                 /* of single tokens, of pairs */
	size_t n, cap, n_newest;
};

/* Tokens changed from place n on (0: all): what is known of them is forgotten. */
void draft_index_cut(struct draft_index *, const int32_t *id, size_t n);
/* Index id[0 .. n), of which the first draft_index.n are indexed. */
void draft_index_grow(struct draft_index *, const int32_t *id, size_t n);
void draft_index_free(struct draft_index *);

struct draft {
	int32_t n, id[DRAFT_MOST];
	uint8_t class[DRAFT_MOST]; /* length of the match * DRAFT_VOTES + votes */
};

/* How many tokens a draft should have: the number with the most tokens a second, by what steps of each size took and by
 * how often guesses were right. */
struct draft_pace {
	double seconds[DRAFT_MOST + 2]; /* of a step of so many tokens, a running mean; 0 = not measured */
	/* share of guesses that were right, where all before them in the draft were */
	double right[DRAFT_CLASSES];
	int32_t idle; /* steps without a draft */
};

/* Guess the tokens that follow id[0 .. n), all indexed: `most` of them, or until it is unlikely that all are right. */
void draft_guess(const struct draft_index *, const struct draft_pace *, const int32_t *id, size_t n, int32_t most,
                 struct draft *out);

void draft_pace_reset(struct draft_pace *);
/* How many tokens of the draft are worth computing, from the first on. */
int32_t draft_pace_length(struct draft_pace *, const struct draft *);
/* A step of n tokens took so long. */
void draft_pace_took(struct draft_pace *, int32_t n, double seconds);
/* A guess of that class was right, or another token was sampled. */
void draft_pace_learn(struct draft_pace *, int class, int right);

#endif
