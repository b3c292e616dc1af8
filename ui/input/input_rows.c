/* ui/input/input_rows.c - the rows that the input line takes on the screen.
 *
 * Wrapped at cells, not between words: what is typed must not jump.  A character is what the cursor stops at: a base
 * with its marks.  What cannot be shown as it is has a name, as in clean_line(): ^I, <U+202E>; a name is as little
 * split as a wide character, and on a screen too narrow for one U+FFFD stands for it. */
#include "ui/input/input_private.h"
#include "ui/text/text.h"

#include "ui/text/chars.h"

#include <stdio.h>
#include <string.h>

/* Marks that are handed on with a base, joiners among them; the rest of a pile belongs to it, but is not seen. */
enum { MARKS = 2 * CLEAN_MARKS_MAX };

struct place { size_t len; int width, named; char show[4 + 4 * MARKS + 8]; size_t n_show; };

static void show(struct place *p, const char *s, size_t n, int width)
{
	memcpy(p->show, s, n);
	p->n_show = n;
	p->width = width;
}

static void show_name(struct place *p, int32_t cp)
{
	enum char_class class = cp < 0 ? CH_NONE : char_class(cp);
	char s[16];
	int n;

	p->named = 1;
	if (class == CH_PRIVATE || class == CH_NONE) {
		show(p, "\xef\xbf\xbd", 3, 1);
		return;
	}
	n = cp < 0x80 ? snprintf(s, sizeof s, "^%c", (char)(cp ^ 0x40)) :
	                snprintf(s, sizeof s, cp < 0x100 ? "<%02X>" : "<U+%04X>", (unsigned)cp);
	show(p, s, (size_t)n, n);
}

/* What stands at s; n > 0, and it is no newline. */
static void look(const char *s, size_t n, int cols, struct place *p)
{
	char label[32];
	int32_t cp;
	int width;

	p->named = 0;
	if (s[0] >= 0x20 && s[0] < 0x7f && (n == 1 || !(s[1] & 0x80))) {
		p->len = 1;
		show(p, s, 1, 1);
		return;
	}
	p->len = (size_t)utf8_decode(s, n, &cp);
	width = paste_label(cp, label);
	if (width && width <= cols) {
		p->named = 1;
		show(p, label, (size_t)width, width);
		return;
	}
	width = cp < 0 ? -1 : char_width(cp);
	if (width > 0) {
		show(p, s, p->len, width);
	} else if (!width && char_class(cp) == CH_MARK) {
		show(p, "\u25cc", 3, 1);   /* a mark without a base */
		memcpy(p->show + 3, s, p->len);
		p->n_show += p->len;
	} else {
		show_name(p, cp);
	}
	for (int marks = 0; p->len < n; marks++) {
		size_t len = (size_t)utf8_decode(s + p->len, n - p->len, &cp);
		if (cp < 0 || char_width(cp) != 0)
			break;
		if (marks < MARKS) {
			memcpy(p->show + p->n_show, s + p->len, len);
			p->n_show += len;
		}
		p->len += len;
	}
	if (p->width > cols) {
		p->named = 1;
		show(p, "\xef\xbf\xbd", 3, 1);
	}
}

void wrap_row_at(const struct wrapped *w, size_t from, struct wrap_row *r)
{
	int cols = from ? w->cols : w->first, col = 0;
	struct place p;
	size_t i = from;

	r->from = from;
	for (; i < w->n && w->text[i] != '\n'; i += p.len) {
		look(w->text + i, w->n - i, cols, &p);
		if (col + p.width > cols) {
			r->to = r->next = i;
			return;
		}
		col += p.width;
	}
	r->to = i;
	/* A cursor behind a full last row stands in a row of its own; before a line break it may hang over the edge. */
	r->next = i < w->n ? i + 1 : i > from && col == cols ? i : NO_ROW;
}

/* Where the line that byte `at` is in begins. */
static size_t line_start(const struct wrapped *w, size_t at)
{
	const char *nl = at ? memrchr(w->text, '\n', at) : NULL;

	return nl ? (size_t)(nl - w->text) + 1 : 0;
}

size_t wrap_rows_to(const struct wrapped *w, size_t at, size_t *from, size_t want)
{
	size_t left = want;   /* filled from the end */

	for (;;) {
		size_t start = line_start(w, at), n = 0, skip;
		struct wrap_row r;

		for (r.next = start; r.next != NO_ROW && (!n || r.next <= at); n++)
			wrap_row_at(w, r.next, &r);
		skip = n > left ? n - left : 0;
		left -= n - skip;
		r.next = start;
		for (size_t i = 0; i < n; i++) {
			wrap_row_at(w, r.next, &r);
			if (i >= skip)
				from[left + i - skip] = r.from;
		}
		if (!start || !left)
			break;
		at = start - 1;
	}
	memmove(from, from + left, (want - left) * sizeof *from);
	return want - left;
}

int wrap_count(const struct wrapped *w, size_t from, int most)
{
	struct wrap_row r = {.next = from};
	int n = 0;

	for (; n < most && r.next != NO_ROW; n++)
		wrap_row_at(w, r.next, &r);
	return n;
}

int wrap_col(const struct wrapped *w, const struct wrap_row *r, size_t at)
{
	int cols = r->from ? w->cols : w->first, col = 0;
	struct place p;

	for (size_t i = r->from; i < r->to; i += p.len) {
		look(w->text + i, w->n - i, cols, &p);
		if (at < i + p.len)
			break;
		col += p.width;
	}
	return col;
}

size_t wrap_byte(const struct wrapped *w, const struct wrap_row *r, int want)
{
	int cols = r->from ? w->cols : w->first, col = 0;
	struct place p;
	size_t i = r->from;

	for (; i < r->to; i += p.len) {
		look(w->text + i, w->n - i, cols, &p);
		/* Behind the last character of a row that goes on is the next row. */
		if (want < col + p.width || (i + p.len >= r->to && r->next == r->to))
			break;
		col += p.width;
	}
	return i;
}

void wrap_draw(const struct wrapped *w, const struct wrap_row *r, const struct area *a, int x, int y, unsigned style)
{
	int cols = r->from ? w->cols : w->first;
	struct place p;

	for (size_t i = r->from; i < r->to; i += p.len) {
		look(w->text + i, w->n - i, cols, &p);
		x = area_text(a, x, y, p.named ? ST_FAINT : style, p.show, p.n_show);
	}
}
