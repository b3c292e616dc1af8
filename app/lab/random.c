/* app/lab/random.c - pseudo-random numbers that are equal on every machine. */
#include "app/lab/random.h"

/* Return the next number of splitmix64. */
uint64_t rng_next(struct rng *r)
{
	return random_next(&r->state);
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
	return (uint32_t)((rng_next(r) >> 32) * n >> 32);
}

struct rng rng_for(uint64_t seed, const char *task, int32_t len, int32_t sample)
{
	struct rng r = { seed };

	for (; *task; task++)
		r.state = rng_next(&r) ^ (unsigned char)*task;
	r.state = rng_next(&r) ^ (uint64_t)len;
	r.state = rng_next(&r) ^ (uint64_t)sample;
	return r;
}
