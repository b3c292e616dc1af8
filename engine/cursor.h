/* engine/cursor.h (private to engine/) - bounded reading of little-endian bytes.
 *
 * Every read names its field.  A read that would pass the end yields zero (or NULL), moves nothing, and
 * records field, offset and need; after that first failure every read fails.  So a parser reads a whole
 * record in a straight line and asks once: cursor.failed. */
#ifndef WEIR_CURSOR_H
#define WEIR_CURSOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const uint8_t *base;
	uint64_t size, pos;      /* pos <= size, always */
	const char *failed;      /* field whose read failed first; NULL = none so far */
	uint64_t failed_at;      /* where that field begins */
	uint64_t failed_need;    /* the bytes it wanted */
};

static inline uint64_t cursor_left(const struct cursor *c)
{
	return c->size - c->pos;
}

/* The next n bytes, or NULL.  Never compares pos + n, which a hostile n would wrap. */
static inline const uint8_t *cursor_bytes(struct cursor *c, uint64_t n, const char *field)
{
	const uint8_t *p;
	if (c->failed)
		return NULL;
	if (n > cursor_left(c)) {
		c->failed = field;
		c->failed_at = c->pos;
		c->failed_need = n;
		return NULL;
	}
	p = c->base + c->pos;
	c->pos += n;
	return p;
}

/* Unsigned little-endian number of n <= 8 bytes. */
static inline uint64_t bytes_le(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;
	while (n--)
		v = v << 8 | p[n];
	return v;
}

static inline uint32_t cursor_u32(struct cursor *c, const char *field)
{
	const uint8_t *p = cursor_bytes(c, 4, field);
	return p ? (uint32_t)bytes_le(p, 4) : 0;
}

static inline uint64_t cursor_u64(struct cursor *c, const char *field)
{
	const uint8_t *p = cursor_bytes(c, 8, field);
	return p ? bytes_le(p, 8) : 0;
}

#endif
