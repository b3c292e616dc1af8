/* app/eval/random.c - pseudo-random numbers, equal on every machine. */
#include "app/eval/random.h"

/* splitmix64: short, and the same everywhere. */
uint64_t rng_next(struct rng *r)
{
	uint64_t x = r->state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
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
