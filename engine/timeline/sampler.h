/* engine/timeline/sampler.h (private to engine/timeline) - chooses a token by its logits.
 *
 * The result depends only on logits, settings, earlier tokens and the state of the random generator. Equal inputs
 * give equal tokens on every machine that runs the same build. */
#ifndef WEIR_SAMPLER_H
#define WEIR_SAMPLER_H

#include "engine/engine.h"

/* Scratch memory of sample() for one token of the vocabulary. */
struct candidate {
	float logit;
	int32_t id;
};

/* Choose a token and return its id. The order is: penalties; top-k, top-p and min-p, at temperature 1; the temperature;
 * a random draw. At temperature 0 the token with the largest logit after the penalties is chosen. A token with logit
 * -infinity is never chosen. `history` has all tokens, prompt included. `scratch` has n_vocab elements. Return -1 if a
 * logit is NaN or +infinity, or if all logits are -infinity. */
int32_t sample(struct sampling *, const float *logits, int32_t n_vocab, const int32_t *history, size_t n_history,
               void *scratch);

/* Return how many of the largest logits decide which token sample() chooses, or 0 if all logits do. */
int32_t sample_needs(const struct sampling *);
/* Choose the token that sample() chooses, by the k largest logits: largest [LARGEST_COLS(k)] is a row as
 * backend_ops.largest writes it. k is at least MIN(sample_needs(), n_vocab). */
int32_t sample_largest(struct sampling *, const float *largest, int32_t k, int32_t n_vocab, void *scratch);

#endif
