/* engine/timeline/draft.h (private to engine/timeline) - drafts for speculative decoding: the next tokens, guessed from
 * earlier tokens of the sequence.
 *
 * A draft is guessed token by token. An earlier position in the sequence matches if the m tokens before it equal the
 * last m tokens of the sequence (m >= 1). Each matching position votes for the token at this position. A match of m
 * tokens has weight 4^m. ("Prompt lookup", Saxena 2023, copies a whole draft from one position.)
 *
 * Guesses are divided into classes by the length of the longest match and by how many votes agree. For each class the
 * share of right guesses is measured. These shares and the measured times of steps decide how long a draft is. */
#ifndef WEIR_DRAFT_H
#define WEIR_DRAFT_H

#include <stddef.h>
#include <stdint.h>

enum {
	/* maximum number of tokens of a draft; a VERIFY step computes one more, the last sampled token */
	DRAFT_MOST = 15,
	/* number of classes by length of the longest match: 1, 2, 3, 4 to 7, 8 to 13, 14 or more tokens */
	DRAFT_LENGTHS = 6,
	/* Number of classes by votes. The last tokens of the sequence may also occur earlier. Each earlier occurrence
	 * votes for the token that follows it. Class 0: there is only one vote. Class 1: there are several votes, all
	 * for the guessed token. Class 2: more than half of the votes, but not all, are for the guessed token. Class 3:
	 * at most half of the votes are for the guessed token. */
	DRAFT_VOTES = 4,
	DRAFT_CLASSES = DRAFT_LENGTHS * DRAFT_VOTES,
};

/* Index of the positions of each token, and of each pair of tokens, in the sequence. It consists of hash chains with
 * the newest occurrence first. */
struct draft_index {
	struct draft_chains {
		/* [cap] for each token, the previous occurrence with the same hash; -1: there is none */
		int32_t *before;
		int32_t *newest; /* [n_newest] for each hash, its newest occurrence; -1: there is none */
	} of[2];                 /* of[0] is for single tokens, of[1] for pairs of tokens */
	/* The first n tokens of the sequence are indexed. before[] has `cap` elements. newest[] has n_newest elements,
	 * a power of two. */
	size_t n, cap, n_newest;
};

/* Shorten the index to the first n tokens. id[] is the sequence before it was shortened. */
void draft_index_cut(struct draft_index *, const int32_t *id, size_t n);
/* Extend the index to the n tokens id[]. The index already has the first draft_index.n of these tokens. */
void draft_index_grow(struct draft_index *, const int32_t *id, size_t n);
void draft_index_free(struct draft_index *);

struct draft {
	int32_t n, id[DRAFT_MOST];
	/* [n] class of each guess. It combines two numbers: DRAFT_VOTES * (class by length of the longest match) +
	 * (class by votes). */
	uint8_t class[DRAFT_MOST];
};

/* Measurements by which the length of a draft is chosen. The best length has the largest expected number of tokens per
 * second. */
struct draft_pace {
	double seconds[DRAFT_MOST + 2]; /* seconds[n] is the mean time of a step of n tokens; 0: not measured */
	/* running share of right guesses in each class. A guess is counted only if all earlier guesses of its draft
	 * were right */
	double right[DRAFT_CLASSES];
	int32_t idle; /* number of steps since the last step with a draft */
};

/* Guess the tokens that follow the n tokens id[]. All these tokens must be in the index. Stop after `most` guesses, or
 * earlier if it becomes unlikely that all guesses are right. */
void draft_guess(const struct draft_index *, const struct draft_pace *, const int32_t *id, size_t n, int32_t most,
                 struct draft *out);

void draft_pace_reset(struct draft_pace *);
/* Return how many tokens of the draft, from the first one on, should be computed. This number gives the largest
 * expected number of tokens per second. */
int32_t draft_pace_length(struct draft_pace *, const struct draft *);
/* Record that a step of n tokens took this many seconds. */
void draft_pace_took(struct draft_pace *, int32_t n, double seconds);
/* Record whether one guess of this class was right. */
void draft_pace_learn(struct draft_pace *, int class, int right);

#endif
