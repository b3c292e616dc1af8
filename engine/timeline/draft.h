/* engine/timeline/draft.h (private to engine/timeline) - drafts for speculative decoding: guesses the next tokens
 * from the tokens so far (draft.c).
 *
 * A place is an index in the sequence. A draft is guessed token by token: the earlier places where the sequence
 * matches its end, with the draft so far, vote for the token that followed there. A place has weight 4^m for m
 * matching tokens. ("Prompt lookup", Saxena 2023, in contrast takes a whole draft from one place.) A guess has a
 * class by the length of its longest match and by how many places agree; each class has a running share of right
 * guesses. Drafts decide what is computed ahead, never what is sampled. */
#ifndef WEIR_DRAFT_H
#define WEIR_DRAFT_H

#include <stddef.h>
#include <stdint.h>

enum {
	DRAFT_MOST = 15,   /* tokens of a draft; with the pending token they fill the widest VERIFY step */
	DRAFT_LENGTHS = 6, /* classes of the longest match: 1, 2, 3, 4 to 7, 8 to 13, 14 or more tokens */
	/* classes of votes: one place; several that all agree; more than half agree; half or fewer agree */
	DRAFT_VOTES = 4,
	DRAFT_CLASSES = DRAFT_LENGTHS * DRAFT_VOTES,
};

/* An index of the places of each token and of each pair of tokens: hash chains, the newest place first. */
struct draft_index {
	struct draft_chains {
		/* [cap] next older place with the same hash of its last one or two tokens; -1 = none */
		int32_t *before;
		int32_t *newest; /* [n_newest] newest place of each hash; -1 = none */
	} of[2];                 /* chains of single tokens, chains of pairs */
	size_t n, cap, n_newest; /* n: indexed tokens; n_newest: a power of two */
};

/* Remove the places from n on, whose tokens change. */
void draft_index_cut(struct draft_index *, const int32_t *id, size_t n);
/* Add places up to n; id[0 .. draft_index.n) is indexed already. */
void draft_index_grow(struct draft_index *, const int32_t *id, size_t n);
void draft_index_free(struct draft_index *);

struct draft {
	int32_t n, id[DRAFT_MOST];
	uint8_t class[DRAFT_MOST]; /* class of the match * DRAFT_VOTES + class of the votes */
};

/* Measurements that decide the length of a draft: the length with the most expected tokens per second. */
struct draft_pace {
	double seconds[DRAFT_MOST + 2]; /* [n] running mean of the seconds of a step of n tokens; 0 = not measured */
	/* running share of right guesses of each class, given that all earlier guesses of the draft were right */
	double right[DRAFT_CLASSES];
	int32_t idle; /* steps since the last draft */
};

/* Guess the tokens that follow id[0 .. n), all of which are indexed. Stop at `most` tokens, or when it is unlikely
 * that all guesses are right. */
void draft_guess(const struct draft_index *, const struct draft_pace *, const int32_t *id, size_t n, int32_t most,
                 struct draft *out);

void draft_pace_reset(struct draft_pace *);
/* Return how many first tokens of the draft are worth computing. */
int32_t draft_pace_length(struct draft_pace *, const struct draft *);
/* Record the seconds of a step of n tokens. */
void draft_pace_took(struct draft_pace *, int32_t n, double seconds);
/* Record whether a guess of that class was right. */
void draft_pace_learn(struct draft_pace *, int class, int right);

#endif
