/* engine/timeline/draft.h (private to engine/timeline) - drafts for speculative decoding: the next tokens, guessed
 * from the earlier tokens of the sequence.
 *
 * A draft is guessed token by token. Every earlier place where the last tokens (draft included) occur votes for the
 * token that followed there. A match of m tokens has weight 4^m. ("Prompt lookup", Saxena 2023, takes a whole draft
 * from one place.)
 *
 * Guesses are divided into classes: by the length of the longest match, and by how many places agree. For each class
 * the share of right guesses is measured. Drafts change only the speed: sampling gives the same tokens with or
 * without them. */
#ifndef WEIR_DRAFT_H
#define WEIR_DRAFT_H

#include <stddef.h>
#include <stdint.h>

enum {
	DRAFT_MOST = 15,   /* most tokens of a draft; the widest VERIFY step has one more */
	DRAFT_LENGTHS = 6, /* classes by the longest match: 1, 2, 3, 4 to 7, 8 to 13, 14 or more tokens */
	/* classes by votes: only one place; several places that all agree; over half agree; at most half agree */
	DRAFT_VOTES = 4,
	DRAFT_CLASSES = DRAFT_LENGTHS * DRAFT_VOTES,
};

/* Where each token and each pair of tokens occurs in the sequence: hash chains, newest place first. */
struct draft_index {
	struct draft_chains {
		/* [cap]: index of the occurrence before, with the same hash; -1 = none */
		int32_t *before;
		int32_t *newest; /* [n_newest] newest place of each hash; -1 = none */
	} of[2];                 /* chains of single tokens, chains of pairs */
	size_t n, cap, n_newest; /* n: indexed tokens; n_newest: a power of two */
};

/* Remove the places from n on, whose tokens change. */
void draft_index_cut(struct draft_index *, const int32_t *id, size_t n);
/* Extend the index to id[0..n). The tokens before draft_index.n are in it already. */
void draft_index_grow(struct draft_index *, const int32_t *id, size_t n);
void draft_index_free(struct draft_index *);

struct draft {
	int32_t n, id[DRAFT_MOST];
	uint8_t class[DRAFT_MOST]; /* class of the match * DRAFT_VOTES + class of the votes */
};

/* Measurements from which the best length of a draft is computed: the one with the most expected tokens per
 * second. */
struct draft_pace {
	double seconds[DRAFT_MOST + 2]; /* [n]: mean seconds of a step of n tokens; 0 = not measured */
	/* for each class, the running share of right guesses; counted while all earlier guesses of the draft are
	 * right */
	double right[DRAFT_CLASSES];
	int32_t idle; /* steps since the last draft */
};

/* Guess the tokens after id[0..n), which are all indexed. Stop at `most` tokens, or when the draft is unlikely to be
 * right as a whole. */
void draft_guess(const struct draft_index *, const struct draft_pace *, const int32_t *id, size_t n, int32_t most,
                 struct draft *out);

void draft_pace_reset(struct draft_pace *);
/* Return how many tokens of the draft, from its beginning, are worth computing. */
int32_t draft_pace_length(struct draft_pace *, const struct draft *);
/* Record the seconds of a step of n tokens. */
void draft_pace_took(struct draft_pace *, int32_t n, double seconds);
/* Record whether a guess of that class was right. */
void draft_pace_learn(struct draft_pace *, int class, int right);

#endif
