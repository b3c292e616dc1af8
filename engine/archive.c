/* engine/archive.c - the fields of archive.h.  Large ones (planes, sums) go straight between the backend and the bytes. */
#include "engine/archive.h"

#include <string.h>

void archive_fail(struct archive *a, const char *what)
{
	if (!a->bad)
		a->bad = what;
}

/* The next n bytes, or NULL when there is nothing to copy. */
static uint8_t *take(struct archive *a, uint64_t n)
{
	uint8_t *p = a->at;

	if (a->bad)
		return NULL;
	if (a->mode == ARCHIVE_MEASURE) {
		if (size_add(a->bytes, n, &a->bytes))
			archive_fail(a, "its size");
		return NULL;
	}
	if (n > a->left) {
		archive_fail(a, "its end, which comes too early");
		return NULL;
	}
	a->at += n;
	a->left -= n;
	return p;
}

void archive_bytes(struct archive *a, void *p, uint64_t n)
{
	uint8_t *at = take(a, n);

	if (!at || !n)
		return;
	if (archive_loads(a))
		memcpy(p, at, n);
	else
		memcpy(at, p, n);
}

void archive_i64(struct archive *a, int64_t *x, int64_t lo, int64_t hi, const char *what)
{
	int64_t v = *x;

	archive_bytes(a, &v, sizeof v);
	if (a->bad || !archive_loads(a))
		return;
	if (v < lo || v > hi)
		archive_fail(a, what);
	else
		*x = v;
}

void archive_i32(struct archive *a, int32_t *x, int32_t lo, int32_t hi, const char *what)
{
	int32_t v = *x;

	archive_bytes(a, &v, sizeof v);
	if (a->bad || !archive_loads(a))
		return;
	if (v < lo || v > hi)
		archive_fail(a, what);
	else
		*x = v;
}

/* Are n numbers, which need not be aligned, from lo to hi? */
static int within(const uint8_t *p, uint64_t n, int32_t lo, int32_t hi)
{
	int bad = 0;

	for (uint64_t i = 0; i < n; i++) {
		int32_t v;

		memcpy(&v, p + 4 * i, sizeof v);
		bad |= v < lo || v > hi;
	}
	return !bad;
}

void archive_i32s(struct archive *a, int32_t *x, uint64_t n, int32_t lo, int32_t hi, const char *what)
{
	uint64_t bytes;
	uint8_t *at;

	if (size_mul(n, sizeof *x, &bytes)) {
		archive_fail(a, what);
		return;
	}
	if (!(at = take(a, bytes)) || !n)
		return;
	if (!archive_loads(a))
		memcpy(at, x, bytes);
	else if (within(at, n, lo, hi))
		memcpy(x, at, bytes);
	else
		archive_fail(a, what);
}

void archive_same(struct archive *a, uint64_t x, const char *what)
{
	uint64_t v = x;

	archive_bytes(a, &v, sizeof v);
	if (archive_loads(a) && v != x)
		archive_fail(a, what);
}

void archive_list(struct archive *a, struct backend *be, struct tensor *t, uint64_t first, uint64_t n, int32_t lo, int32_t hi,
                  const char *what)
{
	uint8_t *at = take(a, 4 * n);

	if (!at || !n)
		return;
	if (!archive_loads(a))
		be->ops->read(be, t, 4 * first, at, 4 * n);
	else if (within(at, n, lo, hi))
		be->ops->write(be, t, 4 * first, at, 4 * n);
	else
		archive_fail(a, what);
}

void archive_floats(struct archive *a, struct backend *be, struct tensor *t, uint64_t first, uint64_t n)
{
	uint8_t *at = take(a, 4 * n);

	if (!at || !n)
		return;
	if (archive_loads(a))
		be->ops->write(be, t, 4 * first, at, 4 * n);
	else
		be->ops->read(be, t, 4 * first, at, 4 * n);
}

void archive_planes(struct archive *a, struct kv_store *kv, int32_t row0, int32_t n)
{
	uint8_t *at = take(a, kv_token_bytes(kv->hp, kv->type) * (uint64_t)n);

	if (!at)
		return;
	if (archive_loads(a))
		kv_rows_write(kv, row0, n, at);
	else
		kv_rows_read(kv, row0, n, at);
}

/* ---- a hash ---- */

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

/* Four sums side by side, so that one multiplication need not wait for the one before.  Each step first mixes the sum
 * in a way that can be undone, lest a product that comes out as zero forget what came before. */
uint64_t hash64(uint64_t seed, const void *bytes, size_t n)
{
	static const uint64_t odd[4] = { 0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x94d049bb133111ebu, 0xd6e8feb86659fd93u };
	const uint8_t *p = bytes;
	uint64_t h[4], out = seed ^ fold(n ^ odd[0], odd[1]);

	for (int i = 0; i < 4; i++)
		h[i] = seed + odd[i];
	for (; n >= 32; p += 32, n -= 32)
		for (int i = 0; i < 4; i++)
			h[i] = (h[i] << 23 | h[i] >> 41) * odd[3 - i] + fold(load(p + 8 * i, 8) ^ odd[i], odd[3 - i] ^ h[i]);
	for (; n; ) {
		size_t m = n < 8 ? n : 8;

		h[0] = (h[0] << 23 | h[0] >> 41) * odd[3] + fold(load(p, m) ^ odd[1], odd[2] ^ h[0]);
		p += m;
		n -= m;
	}
	for (int i = 0; i < 4; i++)
		out = fold(out ^ h[i], odd[i]) + (out << 7 | out >> 57);
	return out ^ out >> 29;
}
