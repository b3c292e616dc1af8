/* engine/base/hash64.c - a hash that finds accidental damage. */
#include "engine/base/base.h"

#include <string.h>

static inline uint64_t fold(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	wide r = (wide)a * b;

	return (uint64_t)r ^ (uint64_t)(r >> 64);
}

static inline uint64_t load(const uint8_t *p, size_t n)
{
	uint64_t x = 0;

	memcpy(&x, p, n);
	return x;
}

/* Four independent accumulators, so that multiplications overlap. Each step mixes its accumulator by an invertible
 * operation and adds the product: a product of zero then loses nothing of the earlier input. */
uint64_t hash64(uint64_t seed, const void *bytes, size_t n)
{
	static const uint64_t odd[4] = { 0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x94d049bb133111ebu,
		                         0xd6e8feb86659fd93u };
	const uint8_t *p = bytes;
	uint64_t h[4], out = seed ^ fold(n ^ odd[0], odd[1]);

	for (int i = 0; i < 4; i++)
		h[i] = seed + odd[i];
	for (; n >= 32; p += 32, n -= 32)
		for (int i = 0; i < 4; i++)
			h[i] = (h[i] << 23 | h[i] >> 41) * odd[3 - i] +
			       fold(load(p + 8 * i, 8) ^ odd[i], odd[3 - i] ^ h[i]);
	for (; n;) {
		size_t m = MIN(n, 8);

		h[0] = (h[0] << 23 | h[0] >> 41) * odd[3] + fold(load(p, m) ^ odd[1], odd[2] ^ h[0]);
		p += m;
		n -= m;
	}
	for (int i = 0; i < 4; i++)
		out = fold(out ^ h[i], odd[i]) + (out << 7 | out >> 57);
	return out ^ out >> 29;
}
