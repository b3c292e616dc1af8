/* engine/token/charsmap.c - SentencePiece's "precompiled charsmap": a table of texts, called sources, that are replaced
 * when the input is normalised.
 *
 * The table in the model file has three parts: the length of the trie in bytes (a u32), the trie of all sources, and
 * the replacements, each followed by a zero byte. The trie is a double array of the library Darts-clone. In a hostile
 * file the trie may have cycles or point outside of the array, so charsmap_load() checks the whole trie. */
#include "engine/token/token_private.h"

#include <stdlib.h>
#include <string.h>

enum { SOURCE_BYTES_MAX = 256, REPLACEMENT_BYTES_MAX = 256 };

/* The trie is an array of units of 32 bits. Most units are nodes of the trie, with these fields:
 *     bits 0..7     label: the last byte of the path from the root to this node
 *     bit 8         1 = a source (a text to replace) ends at this node
 *     bit 9         1 = the offset is the field of bits 10..30, shifted left by 8
 *     bits 10..30   offset
 *     bit 31        0
 *
 * The children of the node at index i are found through its base, which is i ^ offset. The child for byte b is the unit
 * at index base ^ b, if that unit has the label b. Several nodes may have the same base, and so share their children.
 *
 * If a source ends at the node, the unit at index `base` is not a node. Its bit 31 is 1, and its other bits are the
 * offset of the replacement in m->text. */
static uint32_t label_of(uint32_t unit)
{
	return unit & 0x800000ffu;
}

static uint32_t offset_of(uint32_t unit)
{
	return unit >> 10 << ((unit & 1u << 9) >> 6);
}

static int is_end(uint32_t unit)
{
	return unit >> 8 & 1;
}

/* Check one node of the trie. Its base, the index from which its children are found, must be inside the trie. If a text
 * to be replaced ends at the node, check the replacement, too. Return NULL if the node is valid. Otherwise return the
 * end of an error message that begins with "unit N", such as "points outside of the trie". */
static const char *check_unit(const struct charsmap *m, uint32_t unit, uint32_t base)
{
	uint32_t value;

	if (base >= m->n_unit)
		return "points outside of the trie";
	if (!is_end(unit))
		return NULL;
	value = m->unit[base] & 0x7fffffffu;
	if (value >= m->n_text)
		return "has a replacement outside of the table";
	return strnlen(m->text + value, m->n_text - value) > REPLACEMENT_BYTES_MAX
	               ? "has a replacement of over 256 bytes"
	               : NULL;
}

/* Check the whole trie, depth first. Nodes with the same base share their children, which are checked only once. Return
 * NULL if the trie is valid. Otherwise return a text about the error in a unit, and set *at to the unit's index.
 *
 * height[m->n_unit] is working memory, filled with zeros by the caller. height[base] is 0 if the children at this base
 * have not been checked yet. It is ON_PATH while they are being checked; if ON_PATH is found again, there is a cycle.
 * Otherwise it is 1 + the length of the longest path below a node with this base. */
static const char *check_trie(const struct charsmap *m, uint16_t *height, uint32_t *at)
{
	enum { ON_PATH = UINT16_MAX };
	struct {
		uint32_t base, next, tallest;
	} path[SOURCE_BYTES_MAX + 1];
	uint32_t n = 1;
	const char *wrong;

	*at = 0;
	path[0].base = offset_of(m->unit[0]);
	path[0].next = 1;
	path[0].tallest = 1;
	if ((wrong = check_unit(m, m->unit[0] & ~(1u << 8), path[0].base)))
		return wrong;
	height[path[0].base] = ON_PATH;
	while (n) {
		uint32_t byte = path[n - 1].next++, i = path[n - 1].base ^ byte, base;

		if (byte > 255) {
			uint32_t tallest = path[--n].tallest;

			height[path[n].base] = (uint16_t)tallest;
			if (n)
				path[n - 1].tallest = MAX(path[n - 1].tallest, tallest + 1);
			continue;
		}
		if (i >= m->n_unit || label_of(m->unit[i]) != byte)
			continue;
		*at = i;
		base = i ^ offset_of(m->unit[i]);
		if ((wrong = check_unit(m, m->unit[i], base)))
			return wrong;
		if (height[base] == ON_PATH)
			return "is part of a cycle";
		if (n + MAX(height[base], 1u) - 1 > SOURCE_BYTES_MAX)
			return "has a source of over 256 bytes";
		if (height[base]) {
			path[n - 1].tallest = MAX(path[n - 1].tallest, height[base] + 1u);
			continue;
		}
		height[base] = ON_PATH;
		path[n].base = base;
		path[n].tallest = 1;
		path[n++].next = 1;
	}
	return NULL;
}

static uint32_t load_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int charsmap_load(struct charsmap *m, const uint8_t *p, uint64_t n, const char **wrong, uint32_t *at, struct err *err)
{
	uint16_t *height;
	uint32_t bytes = n >= 4 ? load_u32(p) : 0;

	*at = 0;
	*wrong = NULL;
	if (n < 4 || bytes < 4 || bytes % 4 || bytes > n - 4 || n > INT32_MAX)
		*wrong = "has no trie of a possible size";
	else if (bytes == n - 4 || p[n - 1])
		*wrong = "has replacements that do not end in a zero byte";
	if (*wrong)
		return -1;
	m->n_unit = bytes / 4;
	m->n_text = (uint32_t)(n - 4 - bytes);
	if (!(m->unit = try_alloc(m->n_unit, sizeof *m->unit, "the charsmap", err)) ||
	    !(m->text = try_alloc(m->n_text, 1, "the charsmap", err)) ||
	    !(height = try_alloc(m->n_unit, sizeof *height, "the charsmap", err)))
		return -1;
	for (uint32_t i = 0; i < m->n_unit; i++)
		m->unit[i] = load_u32(p + 4 + 4 * (size_t)i);
	memcpy(m->text, p + 4 + bytes, m->n_text);
	*wrong = check_trie(m, height, at);
	free(height);
	return *wrong ? -1 : 0;
}

size_t charsmap_match(const struct charsmap *m, const char *s, size_t n, const char **to)
{
	uint32_t base = m->n_unit ? offset_of(m->unit[0]) : 0;
	size_t found = 0;

	for (size_t k = 0; k < n && m->n_unit; k++) {
		unsigned char c = (unsigned char)s[k];
		uint32_t i = base ^ c;

		if (!c || i >= m->n_unit || label_of(m->unit[i]) != c)
			break;
		base = i ^ offset_of(m->unit[i]);
		if (is_end(m->unit[i])) {
			*to = m->text + (m->unit[base] & 0x7fffffffu);
			found = k + 1;
		}
	}
	return found;
}
