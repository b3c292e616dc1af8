/* engine/base/hash64.c - a 64-bit checksum that detects accidental damage (base.h). */
#include "engine/base/base.h"

#include <string.h>

/* Return the XOR of the two halves of the 128-bit product of a and b. */
static inline uint64_t multiply_fold(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	wide r = (wide)a * b;

	return (uint64_t)r ^ (uint64_t)(r >> 64);
}

/* Return the first n <= 8 bytes of p as a 64-bit number; missing bytes count as 0. */
static inline uint64_t load_word(const uint8_t *p, size_t n)
{
	uint64_t x = 0;

	memcpy(&x, p, n);
	return x;
}

/* Four independent accumulators let the processor overlap multiplications. Each step first changes its accumulator by
 * an invertible operation and then adds a product. So a product of zero does not erase earlier input. */
uint64_t hash64(uint64_t seed, const void *bytes, size_t n)
{
	static const uint64_t odd[4] = { 0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x94d049bb133111ebu,
		                         0xd6e8feb86659fd93u };
	const uint8_t *p = bytes;
	uint64_t h[4], out = seed ^ multiply_fold(n ^ odd[0], odd[1]);

	for (int i = 0; i < 4; i++)
		h[i] = seed + odd[i];
	for (; n >= 32; p += 32, n -= 32)
		for (int i = 0; i < 4; i++)
			h[i] = (h[i] << 23 | h[i] >> 41) * odd[3 - i] +
			       multiply_fold(load_word(p + 8 * i, 8) ^ odd[i], odd[3 - i] ^ h[i]);
	for (; n;) {
		size_t m = MIN(n, 8);

		h[0] = (h[0] << 23 | h[0] >> 41) * odd[3] + multiply_fold(load_word(p, m) ^ odd[1], odd[2] ^ h[0]);
		p += m;
		n -= m;
	}
	for (int i = 0; i < 4; i++)
		out = multiply_fold(out ^ h[i], odd[i]) + (out << 7 | out >> 57);
	return out ^ out >> 29;
}
