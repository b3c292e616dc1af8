/* engine/timeline/sampler.h (private to engine/timeline) - chooses a token by its logits.
 *
 * The result depends only on logits, settings, earlier tokens and the generator's state. Equal inputs give equal
 * tokens on every machine that runs the same build. */
#ifndef WEIR_SAMPLER_H
#define WEIR_SAMPLER_H

#include "engine/engine.h"

/* Scratch for one token of the vocabulary. */
struct candidate {
	float logit;
	int32_t id;
};

/* Choose a token and return its id. First penalties are applied, then top-k, top-p and min-p (as at temperature 1),
 * then the temperature; then the token is drawn. At temperature 0 the largest logit after the penalties wins. A logit
 * of -infinity excludes its token. history: all tokens, prompt included. scratch: [n_vocab] struct candidate. Return
 * -1 if a logit is NaN or +infinity, or if all are -infinity. */
int32_t sample(struct sampling *, const float *logits, int32_t n_vocab, const int32_t *history, size_t n_history,
               void *scratch);

#endif
