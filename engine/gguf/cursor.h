/* engine/gguf/cursor.h (private to engine/) - reads little-endian numbers and bytes, and never reads past the end of a
 * buffer.
 *
 * A read past the end fails: it returns zero (or NULL), and the cursor records the field's name, offset and size. All
 * later reads fail, too. So a parser can read a whole record before it tests cursor.failed once. */
#ifndef WEIR_CURSOR_H
#define WEIR_CURSOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const uint8_t *base;
	/* `size` is the number of bytes of `base`; `pos` is the offset of the next read, at most `size` */
	uint64_t size, pos;
	const char *failed;   /* name of the first field whose read failed, or NULL */
	uint64_t failed_at;   /* offset of the field whose read failed */
	uint64_t failed_need; /* number of bytes of the field whose read failed */
};

static inline uint64_t cursor_left(const struct cursor *c)
{
	return c->size - c->pos;
}

/* Return the address of the next n bytes and advance. If fewer bytes are left, return NULL. (A test by pos + n could
 * overflow.) */
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

/* Return the unsigned little-endian number in the n bytes at p, n <= 8. */
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
