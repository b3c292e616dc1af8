/* app/lab/random.h - for app/lab only: pseudo-random numbers that are equal on every machine. */
#ifndef WEIR_EVAL_RANDOM_H
#define WEIR_EVAL_RANDOM_H

#include "engine/base/base.h"

struct rng {
	uint64_t state;
};
uint64_t rng_next(struct rng *);
uint32_t rng_below(struct rng *, uint32_t n); /* returns a number from 0 to n - 1; n > 0 */
/* Return the generator of one sample, which does not depend on other samples, tasks and lengths. */
struct rng rng_for(uint64_t seed, const char *task, int32_t len, int32_t sample);

#endif
