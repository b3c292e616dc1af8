/* engine/timeline/sampler.h (private to engine/timeline) - chooses a token by its logits: a pure function of logits,
 * settings, history and generator state. Equal inputs give equal tokens on every machine that runs the same build. */
#ifndef WEIR_SAMPLER_H
#define WEIR_SAMPLER_H

#include "engine/engine.h"

/* Scratch for one token of the vocabulary. */
struct candidate {
	float logit;
	int32_t id;
};

/* Choose a token. Order: penalties; top-k, top-p and min-p at temperature 1; the temperature; the draw. Temperature 0
 * chooses the largest logit after the penalties. A logit of -infinity masks its token. history: the sequence with the
 * prompt. scratch: [n_vocab] struct candidate. Return the id; -1 = a logit is NaN or +infinity, or all are
 * -infinity. */
int32_t sample(struct sampling *, const float *logits, int32_t n_vocab, const int32_t *history, size_t n_history,
               void *scratch);

#endif
