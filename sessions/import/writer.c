/* sessions/import/writer.c - writes a document's text with marks (offsets of pages and headings), block by block.
 *
 * Between two texts, a converter may ask for several gaps (blank, line break, blank line); the widest of these gaps is
 * written. The cells of a table are first written as lines. When the row ends they are joined with " | ". If a row
 * contains a table, a heading or long text, its cells remain lines, because its table is only the layout of a page. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* maximum size in bytes of a row of data; a table with a longer row is the layout of a page */
#define ROW_BYTES_MAX 8192
#define ROWS_MAX      1000 /* maximum number of equal rows that are written */

void writer_gap(struct writer *w, enum gap gap)
{
	const struct table *t = w->tables > 0 && w->tables <= WRITER_TABLES ? &w->table[w->tables - 1] : NULL;

	/* between two rows write only a line break, even if the first cell begins with a paragraph or heading */
	if (gap == GAP_BLOCK && t && t->n_cell && w->doc->text.n == t->row)
		gap = GAP_LINE;
	if (gap > w->gap)
		w->gap = gap;
}

void writer_line(struct writer *w, int begun)
{
	if (w->pre)
		writer_text(w, "\n", 1);
	else if (w->heading)
		writer_gap(w, GAP_SPACE);
	else
		writer_gap(w, w->gap >= GAP_LINE && begun ? GAP_BLOCK : GAP_LINE);
}

static void append_text(struct writer *w, const char *s, size_t n)
{
	if (w->doc->text.n + n > DOC_BYTES_MAX)
		w->full = 1;
	else
		str_add(&w->doc->text, s, n);
}

/* Write what comes before the next text: the pending gap and page mark, and a list item's indent and label. */
static void begin_text(struct writer *w)
{
	struct str *t = &w->doc->text;
	int line = w->gap >= GAP_LINE || !t->n;

	if (w->gap && t->n) {
		size_t newlines = w->gap == GAP_BLOCK ? 2 : w->gap == GAP_LINE;
		/* a text with kept white space may already end with newlines */
		for (size_t i = 0; newlines && i < 2 && t->n > i && t->p[t->n - 1 - i] == '\n'; i++)
			newlines--;
		if (w->gap == GAP_SPACE)
			append_text(w, " ", 1);
		else
			append_text(w, "\n\n", newlines);
	}
	if (w->page_due) {
		doc_mark(w->doc, MARK_PAGE, 0, t->n, str_text(&w->page), w->page.n);
		w->page_due = 0;
	}
	if (w->heading && w->heading_at == SIZE_MAX)
		w->heading_at = t->n;
	for (int i = 0; line && i < w->quotes; i++)
		append_text(w, "> ", 2);
	if (w->prefix.n) {
		append_text(w, w->prefix.p, w->prefix.n);
		str_clear(&w->prefix);
	}
	w->gap = GAP_NONE;
}

/* If s begins with white space or an invisible character, return its length; else return 0. *space is set to 1 for
 * white space, including no-break spaces. */
static size_t blank_at(const char *s, size_t n, int *space)
{
	static const struct {
		const char *s;
		unsigned char n, space;
	} blank[] = {
		{ "\xc2\xa0", 2, 1 },     { "\xc2\xad", 2, 0 },     { "\xe2\x80\x8b", 3, 0 }, { "\xef\xbb\xbf", 3, 0 },
		{ "\xe2\x80\xaf", 3, 1 }, { "\xe2\x80\xa8", 3, 1 }, { "\xe2\x80\xa9", 3, 1 },
	};

	*space = 1;
	if (byte_is_blank(*s))
		return 1;
	if ((unsigned char)*s < 0xc2)
		return 0;
	for (size_t i = 0; i < LEN(blank); i++)
		if (n >= blank[i].n && !memcmp(s, blank[i].s, blank[i].n)) {
			*space = blank[i].space;
			return blank[i].n;
		}
	return 0;
}

/* Write text with its white space, without carriage returns. */
static void text_kept(struct writer *w, const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t from = i;
		while (i < n && s[i] != '\r')
			i++;
		/* skip newlines at the start of a block, because begin_text() writes the newlines of the gap */
		while (from < i && s[from] == '\n' && (w->gap >= GAP_LINE || !w->doc->text.n))
			from++;
		if (from < i) {
			begin_text(w);
			append_text(w, s + from, i - from);
		}
		i++;
	}
}

void writer_text(struct writer *w, const char *s, size_t n)
{
	if (w->full)
		return;
	if (w->pre) {
		text_kept(w, s, n);
		return;
	}
	for (size_t i = 0; i < n;) {
		size_t from = i, len;
		int space;
		while (i < n && !blank_at(s + i, n - i, &space))
			i++;
		if (i > from) {
			begin_text(w);
			append_text(w, s + from, i - from);
		}
		while (i < n && (len = blank_at(s + i, n - i, &space))) {
			if (space)
				writer_gap(w, GAP_SPACE);
			i += len;
		}
	}
}

/* ---- formulas ---- */

void writer_raise(struct writer *w, const char *s, size_t n)
{
	const struct str *t = &w->doc->text;
	int sign = n && (*s == '-' || *s == '+'), minus = n > 3 && !memcmp(s, "\xe2\x88\x92", 3);
	size_t first = minus ? 3 : (size_t)sign;

	if (first >= n || s[first] < '0' || s[first] > '9' || !t->n || w->gap || w->prefix.n)
		return;
	/* write '^' only once for a superscript that consists of several runs of text */
	if (t->n != w->raised_end && (byte_is_word(t->p[t->n - 1]) || t->p[t->n - 1] == ')'))
		writer_text(w, "^", 1);
	w->raised_end = t->n + n;
}

size_t writer_part_begin(struct writer *w, const char *sign)
{
	if (*sign && w->doc->text.n) {
		w->gap = w->gap > GAP_SPACE ? w->gap : GAP_NONE;
		writer_text(w, sign, strlen(sign));
	}
	return w->doc->text.n;
}

void writer_part_end(struct writer *w, size_t begin)
{
	struct str *t = &w->doc->text;
	size_t at = begin;

	while (at < t->n && byte_is_word(t->p[at]))
		at++;
	/* A single word needs no brackets. Write no brackets either if a line or a mark begins in this part of the
	 * formula, because inserting '(' would shift stored offsets. */
	if (at >= t->n || byte_is_blank(t->p[begin]) || memchr(t->p + begin, '\n', t->n - begin) || w->full ||
	    (w->doc->n_mark && w->doc->mark[w->doc->n_mark - 1].at > begin))
		return;
	append_text(w, "()", 2);
	if (w->full)
		return;
	memmove(t->p + begin + 1, t->p + begin, t->n - 2 - begin);
	t->p[begin] = '(';
}

void writer_page(struct writer *w, const char *label, size_t n)
{
	/* an empty page begins at the same offset as the page after it */
	if (w->page_due)
		doc_mark(w->doc, MARK_PAGE, 0, w->doc->text.n, str_text(&w->page), w->page.n);
	str_clear(&w->page);
	str_add(&w->page, label, n);
	w->page_due = 1;
}

void writer_heading_begin(struct writer *w, int level)
{
	writer_heading_end(w);
	writer_gap(w, GAP_BLOCK);
	w->heading = level;
	w->heading_at = SIZE_MAX;
}

void writer_heading_end(struct writer *w)
{
	const struct str *t = &w->doc->text;

	if (w->heading && w->heading_at != SIZE_MAX && w->heading_at < t->n)
		doc_mark(w->doc, MARK_HEADING, w->heading, w->heading_at, t->p + w->heading_at, t->n - w->heading_at);
	if (w->heading)
		writer_gap(w, GAP_BLOCK);
	w->heading = 0;
}

/* ---- tables ---- */

static struct table *table_now(struct writer *w)
{
	return w->tables > 0 && w->tables <= WRITER_TABLES ? &w->table[w->tables - 1] : NULL;
}

void writer_table_begin(struct writer *w)
{
	struct table *outer = table_now(w), *t;

	if (outer)
		outer->nested = 1;
	w->tables++;
	writer_gap(w, GAP_BLOCK);
	t = table_now(w);
	if (t)
		t->n_cell = 0;
}

void writer_table_end(struct writer *w)
{
	if (!w->tables)
		return;
	writer_row_end(w);
	w->tables--;
	writer_gap(w, GAP_BLOCK);
}

void writer_row_begin(struct writer *w)
{
	struct table *t = table_now(w);

	writer_row_end(w);
	writer_gap(w, GAP_LINE);
	if (t) {
		t->row = w->doc->text.n;
		t->mark = w->doc->n_mark;
		t->n_cell = 0;
		t->nested = 0;
	}
}

void writer_cell_begin(struct writer *w)
{
	struct table *t = table_now(w);

	writer_gap(w, GAP_LINE);
	if (!t)
		return;
	if (!t->n_cell) {
		t->row = w->doc->text.n;
		t->mark = w->doc->n_mark;
	}
	GROW(t->cell, t->n_cell, t->cap);
	t->cell[t->n_cell++] = w->doc->text.n;
}

void writer_row_keep(struct writer *w)
{
	for (int i = 0; i < w->tables && i < WRITER_TABLES; i++)
		w->table[i].nested = 1;
}

/* Append s[n] as one line, without blanks at its ends. Returns 0 if the line is empty. */
static int add_cell(struct str *out, const char *s, size_t n)
{
	int gap = 0;
	size_t at = out->n;

	for (size_t i = 0; i < n; i++) {
		if (byte_is_blank(s[i])) {
			gap = 1;
			continue;
		}
		if (gap && out->n > at)
			str_add(out, " ", 1);
		gap = 0;
		str_add(out, s + i, 1);
	}
	return out->n > at;
}

/* Join the cells of a row, which were written as lines, into one line. */
static void join_cells(struct writer *w, const struct table *t)
{
	struct str *text = &w->doc->text, row = { 0 };
	size_t from = t->row, filled = 0;

	/* skip the newlines that were written before the row's first text */
	while (from < text->n && text->p[from] == '\n')
		from++;
	for (size_t i = 0; i < t->n_cell; i++) {
		size_t a = t->cell[i], b = i + 1 < t->n_cell ? t->cell[i + 1] : text->n;
		if (i)
			str_adds(&row, " | ");
		if (a < b && add_cell(&row, text->p + a, b - a))
			filled = row.n;
	}
	text->n = from;
	/* if a page begins inside the row, move its mark to the beginning of the row */
	for (size_t i = t->mark; i < w->doc->n_mark; i++)
		w->doc->mark[i].at = from;
	/* leave out empty cells at the end of the row */
	append_text(w, str_text(&row), filled);
	str_free(&row);
}

static int has_heading(const struct writer *w, size_t from)
{
	for (size_t i = from; i < w->doc->n_mark; i++)
		if (w->doc->mark[i].kind == MARK_HEADING)
			return 1;
	return 0;
}

static int is_data(const struct writer *w, const struct table *t)
{
	return w->doc->text.n > t->row && (w->sheet || w->doc->text.n - t->row <= ROW_BYTES_MAX);
}

void writer_row_end(struct writer *w)
{
	struct table *t = table_now(w);

	if (t && t->n_cell > 1 && !t->nested && is_data(w, t) && !has_heading(w, t->mark) && !w->heading)
		join_cells(w, t), w->gap = GAP_LINE;
	if (t && t->n_cell) {
		writer_gap(w, GAP_LINE);
		t->n_cell = 0;
	}
}

void writer_cell_repeat(struct writer *w, long times)
{
	const struct table *t = table_now(w);
	struct str cell = { 0 };

	if (!t || !t->n_cell || t->nested || t->cell[t->n_cell - 1] >= w->doc->text.n)
		return;
	str_add(&cell, w->doc->text.p + t->cell[t->n_cell - 1], w->doc->text.n - t->cell[t->n_cell - 1]);
	for (; times > 0 && w->doc->text.n - t->row <= ROW_BYTES_MAX && !w->full; times--) {
		writer_cell_begin(w);
		writer_text(w, cell.p, cell.n);
	}
	str_free(&cell);
}

void writer_row_repeat(struct writer *w, long times)
{
	const struct table *t = table_now(w);
	struct str row = { 0 };

	if (times <= 0 || !t || t->n_cell || t->row >= w->doc->text.n || has_heading(w, t->mark))
		return;
	str_add(&row, w->doc->text.p + t->row, w->doc->text.n - t->row);
	if (times >= ROWS_MAX)
		doc_note(w->doc, "%ld equal rows of a table are shown %d times", times + 1, ROWS_MAX);
	w->pre++;
	for (long i = 0; i < times && i < ROWS_MAX - 1 && !w->full; i++) {
		writer_gap(w, GAP_LINE);
		writer_text(w, row.p, row.n);
	}
	w->pre--;
	writer_gap(w, GAP_LINE);
	str_free(&row);
}

void writer_end(struct writer *w)
{
	writer_heading_end(w);
	if (w->page_due)
		doc_mark(w->doc, MARK_PAGE, 0, w->doc->text.n, str_text(&w->page), w->page.n);
	if (w->full)
		doc_note(w->doc, "the text is longer than %u MiB: the rest was left out", DOC_BYTES_MAX >> 20);
	str_free(&w->prefix);
	str_free(&w->page);
	for (int i = 0; i < WRITER_TABLES; i++)
		free(w->table[i].cell);
}
