/* sessions/import/html_table.c - writes the tables of a page as rows of cells. rowspan and colspan become empty
 * cells. */
#include "sessions/import/html_elements.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Return the grid of the innermost table; NULL if there is none, or too many are open. */
static struct html_grid *grid_now(struct html *h)
{
	int i = h->w->tables - 1;

	return i >= 0 && i < WRITER_TABLES ? &h->grid[i] : NULL;
}

/* Write empty cells for the next columns into which cells of rows above reach. */
static void skip_columns(struct html *h, struct html_grid *g)
{
	for (; g->column < HTML_COLUMNS && g->below[g->column]; g->column++) {
		g->below[g->column]--;
		writer_cell_begin(h->w);
	}
}

/* Return the value of rowspan or colspan; 1 if the attribute is missing or no number. */
static long span_of(const GumboNode *node, const char *name, long most)
{
	const char *s = html_attr(node, name);
	long span = s ? strtol(s, NULL, 10) : 1;

	/* rowspan=0 means up to the end of the group of rows */
	return span < 0 || (!span && *name == 'c') || !s || !byte_is_digit(s[strspn(s, " ")]) ? 1
	       : !span || span > most                                                         ? most
	                                                                                      : span;
}

void html_cell_begin(struct html *h, struct html_frame *f, const GumboNode *node)
{
	struct html_grid *g = grid_now(h);
	long rows = span_of(node, "rowspan", 65534);

	f->span = span_of(node, "colspan", HTML_COLUMNS);
	if (g)
		skip_columns(h, g);
	writer_cell_begin(h->w);
	for (long i = 0; g && i < f->span && g->column < HTML_COLUMNS; i++)
		g->below[g->column++] = rows - 1;
}

void html_cell_end(struct html *h, const struct html_frame *f)
{
	for (long i = 1; i < f->span; i++)
		writer_cell_begin(h->w);
	writer_gap(h->w, GAP_LINE);
}

void html_row_begin(struct html *h)
{
	struct html_grid *g = grid_now(h);

	writer_row_begin(h->w);
	if (g)
		g->column = 0;
}

void html_row_end(struct html *h)
{
	struct html_grid *g = grid_now(h);

	for (; g && g->column < HTML_COLUMNS; g->column++)
		g->below[g->column] -= g->below[g->column] > 0;
	writer_row_end(h->w);
}

void html_rows_begin(struct html *h)
{
	struct html_grid *g = grid_now(h);

	if (g)
		*g = (struct html_grid){ 0 };
}
