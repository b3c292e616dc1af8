/* ui/input/input_rows.c - wraps the input line into rows. Rows end after any character, not only between words, so that
 * text does not jump while typing.
 *
 * A character here is a base with its combining marks. Characters that cannot be shown are replaced by a name, as in
 * clean_line(): ^I, <U+202E>. A name is never split; if a row is too narrow for it, U+FFFD is shown. */
#include "ui/input/input_private.h"
#include "ui/text/text.h"

#include "ui/text/chars.h"

#include <stdio.h>
#include <string.h>

/* maximum number of combining marks that are drawn with a character; further marks stay in the text but are not
 * drawn */
enum { MARKS = 2 * CLEAN_MARKS_MAX };

/* How the input line draws one character of its text. `len` is the number of bytes of the character with its marks, and
 * `width` the number of its columns. show[n_show] has the bytes that are drawn. `named` is 1 if something else is drawn
 * instead of the character, such as "^A", the label of a paste, or U+FFFD. */
struct drawn_char {
	size_t len;
	int width, named;
	char show[4 + 4 * MARKS + 8];
	size_t n_show;
};

static void set_shown(struct drawn_char *p, const char *s, size_t n, int width)
{
	memcpy(p->show, s, n);
	p->n_show = n;
	p->width = width;
}

static void set_shown_name(struct drawn_char *p, int32_t cp)
{
	enum char_class class = cp < 0 ? CH_NONE : char_class(cp);
	char s[16];
	int n;

	p->named = 1;
	if (class == CH_PRIVATE || class == CH_NONE) {
		set_shown(p, "\xef\xbf\xbd", 3, 1);
		return;
	}
	n = cp < 0x80 ? snprintf(s, sizeof s, "^%c", (char)(cp ^ 0x40))
	              : snprintf(s, sizeof s, cp < 0x100 ? "<%02X>" : "<U+%04X>", (unsigned)cp);
	set_shown(p, s, (size_t)n, n);
}

/* Find the length, width and shown text of the character at s. It has at most n bytes (n > 0), and is not a newline.
 * `cols` is the number of columns of the row. */
static void row_cell(const char *s, size_t n, int cols, struct drawn_char *p)
{
	char label[32];
	int32_t cp;
	int width;

	p->named = 0;
	if (s[0] >= 0x20 && s[0] < 0x7f && (n == 1 || !(s[1] & 0x80))) {
		p->len = 1;
		set_shown(p, s, 1, 1);
		return;
	}
	p->len = (size_t)utf8_decode(s, n, &cp);
	width = paste_label(cp, label);
	if (width && width <= cols) {
		p->named = 1;
		set_shown(p, label, (size_t)width, width);
		return;
	}
	width = cp < 0 ? -1 : char_width(cp);
	if (width > 0) {
		set_shown(p, s, p->len, width);
	} else if (!width && char_class(cp) == CH_MARK) {
		set_shown(p, "\u25cc", 3, 1); /* the mark has no base character, so draw it on a dotted circle */
		memcpy(p->show + 3, s, p->len);
		p->n_show += p->len;
	} else {
		set_shown_name(p, cp);
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
		set_shown(p, "\xef\xbf\xbd", 3, 1);
	}
}

void wrap_row_at(const struct wrapped *w, size_t from, struct wrap_row *r)
{
	int cols = from ? w->cols : w->first, col = 0;
	struct drawn_char p;
	size_t i = from;

	r->from = from;
	for (; i < w->n && w->text[i] != '\n'; i += p.len) {
		row_cell(w->text + i, w->n - i, cols, &p);
		if (col + p.width > cols) {
			r->to = r->next = i;
			return;
		}
		col += p.width;
	}
	r->to = i;
	/* If the last row of the text is full, add an empty row for the cursor. A full row before a newline needs no
	 * such row: there the cursor stands right of the last column. */
	r->next = i < w->n ? i + 1 : i > from && col == cols ? i : NO_ROW;
}

/* Return the start of the line (text between newlines) that contains byte `at`. */
static size_t line_start(const struct wrapped *w, size_t at)
{
	const char *nl = at ? memrchr(w->text, '\n', at) : NULL;

	return nl ? (size_t)(nl - w->text) + 1 : 0;
}

size_t wrap_rows_to(const struct wrapped *w, size_t at, size_t *from, size_t want)
{
	size_t left = want; /* fill the array from[], beginning with its last element */

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
	struct wrap_row r = { .next = from };
	int n = 0;

	for (; n < most && r.next != NO_ROW; n++)
		wrap_row_at(w, r.next, &r);
	return n;
}

int wrap_col(const struct wrapped *w, const struct wrap_row *r, size_t at)
{
	int cols = r->from ? w->cols : w->first, col = 0;
	struct drawn_char p;

	for (size_t i = r->from; i < r->to; i += p.len) {
		row_cell(w->text + i, w->n - i, cols, &p);
		if (at < i + p.len)
			break;
		col += p.width;
	}
	return col;
}

size_t wrap_byte(const struct wrapped *w, const struct wrap_row *r, int want)
{
	int cols = r->from ? w->cols : w->first, col = 0;
	struct drawn_char p;
	size_t i = r->from;

	for (; i < r->to; i += p.len) {
		row_cell(w->text + i, w->n - i, cols, &p);
		/* In a wrapped row, stay on the last character: the offset after it belongs to the next row. */
		if (want < col + p.width || (i + p.len >= r->to && r->next == r->to))
			break;
		col += p.width;
	}
	return i;
}

void wrap_draw(const struct wrapped *w, const struct wrap_row *r, const struct area *a, int x, int y, unsigned style)
{
	int cols = r->from ? w->cols : w->first;
	struct drawn_char p;

	for (size_t i = r->from; i < r->to; i += p.len) {
		row_cell(w->text + i, w->n - i, cols, &p);
		x = area_text(a, x, y, p.named ? ST_FAINT : style, p.show, p.n_show);
	}
}
