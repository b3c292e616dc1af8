/* engine/timeline/sampler.h (private to engine/) - chooses a token by logits: a pure function of logits, parameters,
 * history and generator state. Equal inputs give equal tokens on every machine that runs the same build. */
#ifndef WEIR_SAMPLER_H
#define WEIR_SAMPLER_H

#include "engine/engine.h"

/* Size of the scratch per token of the vocabulary. */
struct candidate {
	float logit;
	int32_t id;
};

/* Order: penalties, top-k, top-p and min-p at temperature 1, then the temperature, then the draw. With temperature 0
 * the largest logit after the penalties is chosen. history: the sequence, with the prompt. scratch: n_vocab struct
 * candidate. Returns the id, or -1 when a logit is NaN or
 * +infinity, or all are -infinity (a logit of -infinity masks its token). */
int32_t sample(struct sampling *, const float *logits, int32_t n_vocab, const int32_t *history, size_t n_history,
               void *scratch);

#endif
