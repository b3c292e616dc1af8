/* engine/timeline/draft.h (private to engine/timeline) - drafts for speculative decoding: the next tokens, guessed
 * from earlier tokens of the sequence.
 *
 * A draft is guessed token by token. Every earlier place in the sequence with the same last tokens votes for the
 * token that followed there. A place where m tokens match has weight 4^m. ("Prompt lookup", Saxena 2023, copies a
 * whole draft from one place.)
 *
 * Guesses are divided into classes by the length of the longest match and by how many places agree. For each class the
 * share of right guesses is measured. These shares and the measured times of steps decide how long a draft is. */
#ifndef WEIR_DRAFT_H
#define WEIR_DRAFT_H

#include <stddef.h>
#include <stdint.h>

enum {
	DRAFT_MOST = 15,   /* maximum number of tokens of a draft; a VERIFY step has one more */
	DRAFT_LENGTHS = 6, /* number of classes by longest match: 1, 2, 3, 4 to 7, 8 to 13, 14 or more tokens */
	/* Number of classes by votes. Class 0: there is only one place. Of several places, class 1: all vote for the
	 * guess; 2: more than half do; 3: at most half do. */
	DRAFT_VOTES = 4,
	DRAFT_CLASSES = DRAFT_LENGTHS * DRAFT_VOTES,
};

/* Index of where each token and each pair of tokens occurs in the sequence: hash chains, newest occurrence first. */
struct draft_index {
	struct draft_chains {
		/* [cap] previous occurrence with the same hash; -1 = none */
		int32_t *before;
		int32_t *newest; /* [n_newest] newest occurrence of each hash; -1 = none */
	} of[2];                 /* chains of single tokens, chains of pairs */
	size_t n, cap, n_newest; /* n: number of indexed tokens; n_newest: a power of two */
};

/* Shorten the index to the first n tokens. id[] is the sequence before it is shortened. */
void draft_index_cut(struct draft_index *, const int32_t *id, size_t n);
/* Extend the index to id[0..n). The index already has the first draft_index.n of these tokens. */
void draft_index_grow(struct draft_index *, const int32_t *id, size_t n);
void draft_index_free(struct draft_index *);

struct draft {
	int32_t n, id[DRAFT_MOST];
	uint8_t class[DRAFT_MOST]; /* [n] class of each guess: class by longest match * DRAFT_VOTES + class by votes */
};

/* Measurements from which the length of a draft is chosen: the length with the largest expected number of tokens per
 * second. */
struct draft_pace {
	double seconds[DRAFT_MOST + 2]; /* [n]: mean seconds of a step of n tokens; 0 = not measured */
	/* for each class, the running share of right guesses; a guess counts only if all earlier guesses of its draft
	 * were right */
	double right[DRAFT_CLASSES];
	int32_t idle; /* steps since a draft was last used */
};

/* Guess the tokens after id[0..n). The index must have all n tokens. Stop at `most` guesses, or when the whole draft
 * is unlikely to be right. */
void draft_guess(const struct draft_index *, const struct draft_pace *, const int32_t *id, size_t n, int32_t most,
                 struct draft *out);

void draft_pace_reset(struct draft_pace *);
/* Return how many tokens of the draft, from its first token on, are worth computing. */
int32_t draft_pace_length(struct draft_pace *, const struct draft *);
/* Record the seconds of a step of n tokens. */
void draft_pace_took(struct draft_pace *, int32_t n, double seconds);
/* Update the share of right guesses of a class by one guess. */
void draft_pace_learn(struct draft_pace *, int class, int right);

#endif
