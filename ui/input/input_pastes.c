/* ui/input/input_pastes.c - long pastes. A long paste is one character of the input line, drawn as "[pasted 40 lines]".
 *
 * So readline moves over, deletes and restores a paste as one character. The characters are from a private-use area
 * of Unicode. Pastes are kept until the program ends, because readline's undo lists, kill ring and history may still
 * contain their characters. */
#include "ui/input/input.h"
#include "ui/input/input_private.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	PASTE_FIRST = 0x10e000,
	/* maximum number of pastes; each paste is one of the characters U+10E000 .. U+10EFFF */
	PASTES_MOST = 4096,
	PASTES_BYTES = 256 << 20, /* maximum number of bytes of all pastes together */
	LINES_SHOWN = 8,
	/* maximum number of bytes of a short paste; a paste with more bytes, or with more lines than LINES_SHOWN, is
	 * long */
	BYTES_SHOWN = 1500,
};

static struct {
	struct str *at;
	size_t n, cap, bytes;
} pastes;

static size_t lines_of(const char *text, size_t n)
{
	size_t lines = 1;

	for (size_t i = 0; i + 1 < n; i++) /* a line break at the end of the text does not begin another line */
		lines += text[i] == '\n';
	return lines;
}

int paste_is_long(const char *text, size_t n)
{
	return n > BYTES_SHOWN || lines_of(text, n) > LINES_SHOWN;
}

int paste_is_mark(int32_t cp)
{
	return cp >= PASTE_FIRST && cp < PASTE_FIRST + PASTES_MOST;
}

int paste_keep(const char *text, size_t n, char out[5])
{
	if (pastes.n == PASTES_MOST || pastes.bytes + n > PASTES_BYTES)
		return 0;
	pastes.bytes += n;
	GROW(pastes.at, pastes.n, pastes.cap);
	pastes.at[pastes.n] = (struct str){ 0 };
	str_add(&pastes.at[pastes.n], text, n);
	out[utf8_encode(PASTE_FIRST + (int32_t)pastes.n++, out)] = 0;
	return 1;
}

/* Return the paste that a character represents, or NULL. */
static const struct str *paste_of(int32_t cp)
{
	return cp >= PASTE_FIRST && cp < PASTE_FIRST + (int32_t)pastes.n ? &pastes.at[cp - PASTE_FIRST] : NULL;
}

int paste_label(int32_t cp, char out[32])
{
	const struct str *s = paste_of(cp);
	size_t lines = s ? lines_of(s->p, s->n) : 0;

	if (!s)
		return 0;
	return lines > 1 ? snprintf(out, 32, "[pasted %zu lines]", lines)
	                 : snprintf(out, 32, "[pasted %zu KB]", (s->n + 1023) / 1024);
}

void pastes_expand(const char *in, size_t n, struct str *out)
{
	size_t done = 0;

	for (size_t i = 0, len; i < n; i += len) {
		const struct str *s;
		int32_t cp;

		len = (size_t)utf8_decode(in + i, n - i, &cp);
		s = paste_of(cp);
		if (!s)
			continue;
		str_add(out, in + done, i - done);
		str_add(out, s->p, s->n);
		done = i + len;
	}
	str_add(out, in + done, n - done);
}

void pastes_forget(void)
{
	for (size_t i = 0; i < pastes.n; i++)
		str_free(&pastes.at[i]);
	free(pastes.at);
	pastes.at = NULL;
	pastes.n = pastes.cap = pastes.bytes = 0;
}
