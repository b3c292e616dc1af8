/* ui/transcript/markdown_table.c - lays out Markdown tables, with wrapped cells.
 *
 * If a table is too wide, its columns become narrower, the widest columns first. A column stays as wide as its longest
 * word; but a word that is longer than WORD_MOST columns counts as WORD_MOST columns. If that is not enough, each row
 * is written as a list: its cells are below each other, all but the first one indented. */
#include "ui/text/text.h"
#include "ui/transcript/lines.h"

#include <stdlib.h>
#include <string.h>

/* A column of the table is at least as wide as its longest word; but if this word is longer than WORD_MOST, at least
 * WORD_MOST. BETWEEN is the width of a separator, which is a blank, a bar and a blank. */
enum { WORD_MOST = 12, BETWEEN = 3 };

void table_free(struct table *t)
{
	free(t->spans.p);
	free(t->cell);
	*t = (struct table){ 0 };
}

static void put_bar(struct lines *l)
{
	if (l->ascii)
		lines_own(l, " | ", 3, ST_RULE);
	else
		lines_own(l, " \u2502 ", 5, ST_RULE);
}

static void put_blanks(struct lines *l, int n)
{
	static const char blanks[] = "                                ";

	for (; n > 0; n -= (int)sizeof blanks - 1)
		lines_own(l, blanks, n < (int)sizeof blanks - 1 ? (size_t)n : sizeof blanks - 1, ST_TEXT);
}

/* Return the width that a cell has without wrapping. *word receives the width of its longest word. */
static int cell_cols(const struct lines *l, const struct table_cell *c, int *word)
{
	int most = 0, cols;
	size_t stop;

	*word = 0;
	for (size_t at = c->from; at < c->to;) {
		at = cut_next(l->text.p, at, c->to, WIDTH_MOST, &stop, &cols);
		if (cols > most)
			most = cols;
	}
	for (size_t at = c->from, end; at < c->to; at = end + 1) {
		const char *blank = memchr(l->text.p + at, ' ', c->to - at);

		end = blank ? (size_t)(blank - l->text.p) : c->to;
		cols = end - at > WORD_MOST * 4 ? WORD_MOST : (int)text_width(l->text.p + at, end - at);
		if (cols > *word)
			*word = cols;
	}
	return most;
}

/* Choose column widths with which the table fits into `width` columns. Returns 1, or 0 if there are none. */
static int share_width(const struct lines *l, const struct table *t, int width, int *w)
{
	int total = ((int)t->cols - 1) * BETWEEN, least[TABLE_COLUMNS];

	for (unsigned c = 0; c < t->cols; c++)
		w[c] = least[c] = 1;
	for (size_t i = 0; i < t->n_cell; i++) {
		int word, cols = cell_cols(l, &t->cell[i], &word), c = (int)(i % t->cols);

		if (cols > w[c])
			w[c] = cols;
		if (word > WORD_MOST)
			word = WORD_MOST;
		if (word > least[c])
			least[c] = word;
	}
	for (unsigned c = 0; c < t->cols; c++)
		total += w[c];
	while (total > width) {
		int widest = 0, next = 0, n = 0, less;

		/* Narrow the widest columns, all by the same amount. Stop if the table fits, or if they are as narrow
		 * as the next widest column or as their own minimum. */
		for (unsigned c = 0; c < t->cols; c++)
			if (w[c] > least[c] && w[c] > widest)
				widest = w[c];
		if (!widest)
			return 0;
		for (unsigned c = 0; c < t->cols; c++) {
			if (w[c] == widest && w[c] > least[c]) {
				n++;
				next = MAX(least[c], next);
			} else if (w[c] < widest && w[c] > next) {
				next = w[c];
			}
		}
		less = (total - width + n - 1) / n < widest - next ? (total - width + n - 1) / n : widest - next;
		for (unsigned c = 0; c < t->cols && total > width; c++)
			if (w[c] == widest && w[c] > least[c]) {
				int k = less < total - width ? less : total - width;
				w[c] -= k;
				total -= k;
			}
	}
	return 1;
}

static uint32_t cell_source(const struct table *t, const struct table_cell *c, size_t at)
{
	for (size_t i = c->span; i < c->span + c->n_span; i++) {
		const struct span *s = &t->spans.p[i];
		if (s->source != NO_SOURCE && at < (size_t)s->from + s->n)
			return s->source + (uint32_t)(at > s->from ? at - s->from : 0);
	}
	return NO_SOURCE;
}

static void row_in_columns(struct lines *l, const struct table *t, const struct table_cell *cell, const int *w,
                           table_line_fn *begin, void *ud)
{
	size_t at[TABLE_COLUMNS], span[TABLE_COLUMNS];
	int left = 1;

	for (unsigned c = 0; c < t->cols; c++) {
		at[c] = cell[c].from;
		span[c] = cell[c].span;
	}
	while (left) {
		uint32_t source = NO_SOURCE;

		for (unsigned c = 0; c < t->cols; c++) {
			if (at[c] < cell[c].to && source == NO_SOURCE)
				source = cell_source(t, &cell[c], at[c]);
		}
		begin(ud, source);
		left = 0;
		for (unsigned c = 0; c < t->cols; c++) {
			size_t from = at[c], stop = from;
			int cols = 0, before = 0;

			if (c)
				put_bar(l);
			if (from < cell[c].to)
				at[c] = wrap_next(l->text.p, from, cell[c].to, w[c], &stop, &cols);
			if (t->align[c] == ALIGN_RIGHT)
				before = w[c] - cols;
			else if (t->align[c] == ALIGN_CENTER)
				before = (w[c] - cols) / 2;
			if (stop > from) {
				put_blanks(l, before);
				lines_put(l, &t->spans, &span[c], from, stop);
			} else {
				before = 0;
			}
			if (c + 1 < t->cols)
				put_blanks(l, w[c] - cols - before);
			left |= at[c] < cell[c].to;
		}
	}
}

static void table_rule(struct lines *l, const struct table *t, const int *w, table_line_fn *begin, void *ud)
{
	struct str s = { 0 };

	for (unsigned c = 0; c < t->cols; c++) {
		if (c)
			str_adds(&s, l->ascii ? "-+-" : "\u2500\u253c\u2500");
		for (int i = 0; i < w[c]; i++)
			str_adds(&s, l->ascii ? "-" : "\u2500");
	}
	begin(ud, NO_SOURCE);
	lines_own(l, s.p, s.n, ST_RULE);
	str_free(&s);
}

/* Lay out a row without columns: its cells are below each other. */
static void row_as_text(struct lines *l, const struct table *t, const struct table_cell *cell, int width,
                        table_line_fn *begin, void *ud)
{
	for (unsigned c = 0; c < t->cols; c++) {
		size_t span = cell[c].span, next;
		int room = c ? width - 2 : width;

		if (room < 2)
			room = width;
		for (size_t at = cell[c].from; at < cell[c].to; at = next) {
			size_t stop;
			int cols;

			next = wrap_next(l->text.p, at, cell[c].to, room, &stop, &cols);
			begin(ud, cell_source(t, &cell[c], at));
			if (room == width - 2)
				lines_own(l, "  ", 2, ST_TEXT);
			lines_put(l, &t->spans, &span, at, stop);
		}
	}
}

void table_lay_out(struct lines *l, const struct table *t, int width, table_line_fn *begin, void *ud)
{
	int w[TABLE_COLUMNS];
	int fits;

	if (!t->cols || t->cols > TABLE_COLUMNS || t->n_cell < t->cols)
		return;
	fits = !t->sparse && share_width(l, t, width, w);
	for (size_t row = 0; row + t->cols <= t->n_cell; row += t->cols) {
		if (fits)
			row_in_columns(l, t, t->cell + row, w, begin, ud);
		else
			row_as_text(l, t, t->cell + row, width, begin, ud);
		if (!row && fits)
			table_rule(l, t, w, begin, ud);
	}
}
