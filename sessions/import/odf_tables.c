/* sessions/import/odf_tables.c - writes tables of an OpenDocument file. */
#include "sessions/import/odf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMPTY_CELLS_MAX 64

void odf_cells_open(struct odf *x)
{
	if (x->sheet) {
		char *name = x->sheet;

		x->sheet = NULL;
		writer_heading_begin(x->w, 1);
		writer_text(x->w, name, strlen(name));
		writer_heading_end(x->w);
		free(name);
	}
	for (int i = 0; i < x->tables && i < WRITER_TABLES && x->w == x->document; i++) {
		struct odf_cells *t = &x->cells[i];

		if (!t->row_begun)
			writer_row_begin(x->w);
		t->row_begun = 1;
		if (t->cell_begun)
			continue;
		for (long k = 0; k < t->empty && k < EMPTY_CELLS_MAX; k++)
			writer_cell_begin(x->w);
		t->empty = 0;
		writer_cell_begin(x->w);
		t->cell_begun = 1;
	}
}

static struct odf_cells *cells_now(struct odf *x)
{
	return x->tables > 0 && x->tables <= WRITER_TABLES ? &x->cells[x->tables - 1] : NULL;
}

void odf_table_begin(struct odf *x, const struct xml_attr *a, size_t n)
{
	struct odf_look look;
	const struct xml_attr *name = xml_attr(a, n, "name");

	odf_style(x->styles, "table", xml_attr(a, n, "style-name"), &look);
	odf_hide_begin(x, look.hidden);
	if (look.break_before)
		odf_page_break(x, look.page_number);
	if (x->spreadsheet && !x->tables && name && name->n) {
		free(x->sheet);
		x->sheet = xstrndup(name->value, name->n);
	} else if (x->tables) {
		odf_cells_open(x);
	}
	if (x->w == x->document)
		writer_table_begin(x->w);
	if (x->tables++ < WRITER_TABLES) {
		free(x->cells[x->tables - 1].value);
		x->cells[x->tables - 1] = (struct odf_cells){ 0 };
	}
}

void odf_table_end(struct odf *x)
{
	if (x->w == x->document)
		writer_table_end(x->w);
	x->tables -= x->tables > 0;
	odf_hide_end(x);
}

static long repeat_count(const struct xml_attr *a)
{
	long v = xml_number(a, 1);

	return v < 1 ? 1 : v < 1 << 24 ? v : 1 << 24;
}

void odf_row_begin(struct odf *x, const struct xml_attr *rows)
{
	struct odf_cells *t = cells_now(x);

	if (t) {
		free(t->value);
		*t = (struct odf_cells){ .rows = repeat_count(rows) };
	}
}

void odf_row_end(struct odf *x)
{
	struct odf_cells *t = cells_now(x);

	if (!t || x->w != x->document)
		return;
	/* a row without text separates blocks of a sheet */
	if (!t->row_begun) {
		writer_gap(x->w, x->spreadsheet ? GAP_BLOCK : GAP_LINE);
		return;
	}
	writer_row_end(x->w);
	writer_row_repeat(x->w, t->rows - 1);
	t->row_begun = 0;
}

/* Store a copy of the cell's value. The copy is written if the cell has no text, because some programs write only
 * values. */
static void keep_value(struct odf_cells *t, const struct xml_attr *a, size_t n)
{
	static const char *const names[] = { "string-value", "date-value", "time-value", "boolean-value", "value" };
	const struct xml_attr *v = NULL;

	for (size_t i = 0; i < LEN(names) && !v; i++)
		v = xml_attr(a, n, names[i]);
	t->value = v ? xstrndup(v->value, v->n) : NULL;
	t->percent = xml_attr_is(a, n, "value-type", "percentage");
}

/* Write the value of the cell as its text. */
static void write_value(struct odf *x, struct odf_cells *t)
{
	char percent[40];
	char *value = t->value;

	t->value = NULL;
	odf_paragraph_begin(x, 0, NULL, 0);
	if (t->percent && snprintf(percent, sizeof percent, "%.10g%%", strtod(value, NULL) * 100) > 0)
		odf_shown(x, percent, strlen(percent));
	else
		odf_shown(x, value, strlen(value));
	odf_paragraph_end(x);
	free(value);
}

void odf_cell_begin(struct odf *x, const struct xml_attr *a, size_t n)
{
	struct odf_cells *t = cells_now(x);

	if (t) {
		t->cell_begun = 0;
		t->times = repeat_count(xml_attr(a, n, "number-columns-repeated"));
		free(t->value);
		keep_value(t, a, n);
	}
}

void odf_cell_end(struct odf *x)
{
	struct odf_cells *t = cells_now(x);

	if (!t || x->w != x->document)
		return;
	if (!t->cell_begun && t->value)
		write_value(x, t);
	if (t->cell_begun)
		writer_cell_repeat(x->w, t->times - 1);
	else
		t->empty += t->times;
	t->cell_begun = 1; /* text between two cells belongs to the first cell */
}

void odf_cells_covered(struct odf *x, const struct xml_attr *times)
{
	if (cells_now(x))
		cells_now(x)->empty += repeat_count(times);
}
