/* engine/sampler.h (private to engine/) - from logits to a token: a pure function of logits, parameters, history and
 * generator state.  Equal inputs give equal tokens on every machine that runs the same build. */
#ifndef WEIR_SAMPLER_H
#define WEIR_SAMPLER_H

#include "engine/engine.h"

/* Scratch per entry of the vocabulary. */
struct candidate { float logit; int32_t id; };

/* Order: penalties, top-k, top-p and min-p on the model's own distribution, then temperature, then the draw.
 * logits [n_vocab] are not changed; scratch: n_vocab struct candidate.  Returns the id, or -1 when a logit is NaN or +infinity
 * (-infinity is a legal mask as long as one logit is finite). */
int32_t sample(struct sampling *, const float *logits, int32_t n_vocab, const int32_t *history, size_t n_history,
               void *scratch);

#endif
