/* engine/token/token_hash.c - lookups in the two hash tables of a vocabulary: from a text to an id, and from a pair of
 * ids to a merge.
 *
 * The hash function multiplies eight bytes per step and XORs the halves of the 128-bit product. Its seed is drawn at
 * random for each loaded vocabulary, so that a hostile file cannot contain texts that collide. */
#include "engine/token/token_private.h"

#include <string.h>

static inline uint64_t multiply_fold(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	wide r = (wide)a * b;
	return (uint64_t)r ^ (uint64_t)(r >> 64);
}

static inline uint64_t load8(const char *p)
{
	uint64_t x;
	memcpy(&x, p, 8);
	return x;
}

static inline uint32_t load4(const char *p)
{
	uint32_t x;
	memcpy(&x, p, 4);
	return x;
}

uint64_t hash_bytes(const uint64_t seed[2], const char *p, size_t n)
{
	uint64_t h = seed[0] ^ n;
	uint64_t tail = 0;

	for (; n > 8; p += 8, n -= 8)
		h = multiply_fold(h ^ load8(p), seed[1]);
	if (n >= 4)
		tail = (uint64_t)load4(p) << 32 | load4(p + n - 4);
	else if (n)
		tail = (uint64_t)(unsigned char)p[0] << 16 | (uint64_t)(unsigned char)p[n / 2] << 8 |
		       (unsigned char)p[n - 1];
	return multiply_fold(h ^ tail, seed[1]);
}

int32_t vocab_lookup(const struct vocab *v, const char *p, size_t n)
{
	uint64_t h = hash_bytes(v->seed, p, n);

	for (uint32_t i = (uint32_t)(h >> 32) & v->by_text_mask;; i = (i + 1) & v->by_text_mask) {
		struct text_slot s = v->by_text[i];
		uint32_t id;
		if (!s.id1)
			return -1;
		id = s.id1 - 1;
		if (s.hash == (uint32_t)h && v->off[id + 1] - v->off[id] == n && !memcmp(v->text + v->off[id], p, n))
			return (int32_t)id;
	}
}

uint32_t pair_hash(const struct vocab *v, int32_t left, int32_t right)
{
	uint64_t both = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
	return (uint32_t)(multiply_fold(both ^ v->seed[0], v->seed[1]) >> 20);
}

const struct pair_slot *vocab_pair(const struct vocab *v, int32_t left, int32_t right)
{
	for (uint32_t i = pair_hash(v, left, right) & v->pair_mask;; i = (i + 1) & v->pair_mask) {
		const struct pair_slot *p = &v->pair[i];
		if (!p->to1)
			return NULL;
		if (p->left == left && p->right == right)
			return p;
	}
}
