/* ui/transcript/transcript_underline.c - underlines words of an answer: numbers and names that its sources do not have.
 * When a row is drawn, the words are searched in its text, and in a little text before and after it. */
#include "ui/transcript/transcript_private.h"

#include <string.h>

#include "engine/base/utf8.h"

void transcript_underline(struct transcript *t, const char *words)
{
	size_t i = t->n;

	while (i && t->entry[i - 1].role != UI_ASSISTANT && t->entry[i - 1].role != UI_USER)
		i--;
	if (!i || t->entry[i - 1].role != UI_ASSISTANT)
		return;
	i = entry_first(t, i - 1);
	t->dirty = 1;
	do {
		str_clear(&t->entry[i].underlined);
		str_adds(&t->entry[i].underlined, words);
	} while (t->entry[i++].more);
}

/* 1 if text[at .. at + n) neither begins nor ends inside a longer word. `all` is the length of the text. */
static int is_whole(const char *text, size_t all, size_t at, size_t n)
{
	return (!at || !byte_is_word(text[at - 1])) && (at + n == all || !byte_is_word(text[at + n]));
}

/* Underline a word of n bytes where it overlaps a run, which is drawn at column x of row y. */
static void underline_word(const struct entry *e, const struct run *r, const char *word, size_t n, const struct area *a,
                           int x, int y)
{
	const char *text = str_text(&e->clean), *shown = e->lines.text.p + r->from, *p;
	size_t from = r->source, end = MIN(from + r->n, e->clean.n);

	for (size_t at = from > n ? from - n : 0; at < end; at++) {
		size_t lo, hi;

		p = memmem(text + at, MIN(end + n, e->clean.n) - at, word, n);
		if (!p)
			return;
		at = (size_t)(p - text);
		lo = MAX(at, from), hi = MIN(at + n, end);
		if (lo < hi && is_whole(text, e->clean.n, at, n))
			area_add_style(a, x + (int)text_width(shown, lo - from), y,
			               (int)text_width(shown + (lo - from), hi - lo), STYLE_UNDER);
	}
}

void entry_draw_underlines(const struct entry *e, const struct run *r, const struct area *a, int x, int y)
{
	for (const char *p = str_text(&e->underlined); *p;) {
		size_t n = strcspn(p, "\n");

		if (n)
			underline_word(e, r, p, n, a, x, y);
		p += n + (p[n] == '\n');
	}
}
