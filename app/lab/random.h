/* app/lab/random.h - inside app/lab: pseudo-random numbers, equal on every machine. */
#ifndef WEIR_EVAL_RANDOM_H
#define WEIR_EVAL_RANDOM_H

#include "engine/base/base.h"

struct rng {
	uint64_t state;
};
uint64_t rng_next(struct rng *);
uint32_t rng_below(struct rng *, uint32_t n); /* 0 .. n - 1; n > 0 */
/* A generator for one sample, independent of those of other samples, tasks and lengths. */
struct rng rng_for(uint64_t seed, const char *task, int32_t len, int32_t sample);

#endif
