/* sessions/import/xlsx.c - converts Excel workbooks (SpreadsheetML, ECMA-376 part 1, chapter 18).
 *
 * Each sheet is a page whose label and heading are the sheet's name. A row is a line of cells. For a formula, the
 * result that the file stores is written. Columns that are empty in the whole sheet are left out; empty rows separate
 * blocks. The texts of text boxes follow below the cells. */
#include "sessions/import/xlsx.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX     16384
#define ROWS_MAX        1048576
#define SHEETS_MAX      10000
#define EMPTY_CELLS_MAX 64
#define NAMED_MAX       5 /* maximum number of hidden sheets that the notice names */

struct cell {
	int32_t row, column; /* row number and column number, from 1 */
	/* offset of the cell's text in xlsx.text; the text ends where the next cell's text begins */
	size_t at;
};

struct xlsx {
	struct writer *w;
	struct zip zip;
	struct opc parts; /* relationships of the workbook: the ids of its sheets and other parts */
	struct xlsx_styles styles;
	struct str strings; /* texts that several cells may share (shared strings), one after the other */
	size_t *string;     /* [n_string] offsets in `strings` at which the texts begin */
	size_t n_string, string_cap;
	struct str hidden; /* names of hidden sheets */
	/* done[i] is 1 if entry i of the archive is a sheet or drawing that was read */
	unsigned char *done;
	/* `unknown` is the number of formulas for which the file stores no result */
	size_t sheets, n_hidden, hidden_rows, missing, unknown;
	struct err why; /* why a sheet is damaged */

	/* the sheet that is being read */
	struct cell *cell;
	size_t n_cell, cell_cap;
	struct str text;
	struct str boxes; /* texts of the text boxes of the sheet */

	/* row and column of the cell that is being read */
	int32_t row, column;
	/* `skip` is the number of open elements inside phonetic hints, which are not written */
	int in_row, in_value, in_inline, reading, formula, skip;
	char type;
	long style;
	struct str value;
};

/* ---- texts that cells share ---- */

static void strings_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct xlsx *x = ud;

	(void)a, (void)n;
	if (!strcmp(name, "si")) {
		GROW(x->string, x->n_string, x->string_cap);
		x->string[x->n_string++] = x->strings.n;
	} else if (!strcmp(name, "rPh")) {
		x->skip++;
	}
	x->reading = !strcmp(name, "t") && !x->skip;
}

static void strings_end(void *ud, const char *name)
{
	struct xlsx *x = ud;

	x->reading = 0;
	x->skip -= !strcmp(name, "rPh") && x->skip;
}

static void strings_text(void *ud, const char *s, size_t n)
{
	struct xlsx *x = ud;

	if (x->reading && x->n_string)
		str_add(&x->strings, s, n);
}

/* ---- cells ---- */

/* Set row and column from a reference such as "B7". Without a reference, the cell is in the next column. */
static void take_place(struct xlsx *x, const struct xml_attr *ref)
{
	long row = 0, column = 0;
	size_t i = 0, n = ref ? ref->n : 0;

	for (; i < n && byte_is_upper(ref->value[i]) && column <= COLUMNS_MAX; i++)
		column = column * 26 + (ref->value[i] - 'A' + 1);
	for (; i < n && byte_is_digit(ref->value[i]) && row <= ROWS_MAX; i++)
		row = row * 10 + (ref->value[i] - '0');
	x->column++;
	if (i == n && column >= 1 && column <= COLUMNS_MAX && row >= 1 && row <= ROWS_MAX) {
		x->column = (int32_t)column;
		x->row = (int32_t)row;
	}
	x->column = MIN(x->column, COLUMNS_MAX);
}

static char type_of(const struct xml_attr *a, size_t n)
{
	const struct xml_attr *t = xml_attr(a, n, "t");

	return !t || !t->n ? 'n' : t->n == 3 && !memcmp(t->value, "str", 3) ? 'f' : *t->value;
}

/* Append the cell's value to the sheet's text. */
static void add_value(struct xlsx *x)
{
	long i = x->type == 's' ? strtol(str_text(&x->value), NULL, 10) : -1;

	if (x->type == 'n') {
		xlsx_number(&x->styles, x->style, str_text(&x->value), &x->text);
	} else if (x->type == 'b') {
		str_adds(&x->text, *str_text(&x->value) == '1' ? "TRUE" : "FALSE");
	} else if (x->type != 's') {
		xlsx_string(str_text(&x->value), x->value.n, &x->text);
	} else if (i >= 0 && (size_t)i < x->n_string) {
		size_t from = x->string[i], to = (size_t)i + 1 < x->n_string ? x->string[i + 1] : x->strings.n;

		xlsx_string(str_text(&x->strings) + from, to - from, &x->text);
	}
}

static int is_blank(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!byte_is_blank(s[i]))
			return 0;
	return 1;
}

static void cell_end(struct xlsx *x)
{
	size_t at = x->text.n;

	x->in_value = x->in_inline = 0;
	x->unknown += x->formula && !x->value.n;
	if (x->text.n > DOC_BYTES_MAX)
		x->w->full = 1;
	if (!x->value.n || x->w->full)
		return;
	add_value(x);
	if (is_blank(str_text(&x->text) + at, x->text.n - at)) {
		x->text.n = at;
		return;
	}
	GROW(x->cell, x->n_cell, x->cell_cap);
	x->cell[x->n_cell++] = (struct cell){ x->row, x->column, at };
}

static void row_start(struct xlsx *x, const struct xml_attr *a, size_t n)
{
	long row = xml_number(xml_attr(a, n, "r"), x->row + 1L);

	x->in_row = 1;
	x->row = row >= 1 && row <= ROWS_MAX ? (int32_t)row : MIN(x->row + 1, ROWS_MAX);
	x->column = 0;
	x->hidden_rows += xml_attr_is(a, n, "hidden", "1") || xml_attr_is(a, n, "hidden", "true");
}

static void sheet_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct xlsx *x = ud;

	if (!strcmp(name, "row")) {
		row_start(x, a, n);
	} else if (!x->in_row) {
		return;
	} else if (!strcmp(name, "c")) {
		take_place(x, xml_attr(a, n, "r"));
		x->type = type_of(a, n);
		x->style = xml_number(xml_attr(a, n, "s"), 0);
		x->formula = x->in_value = x->in_inline = 0;
		str_clear(&x->value);
	} else if (!strcmp(name, "rPh")) {
		x->skip++;
	} else {
		x->formula |= !strcmp(name, "f");
		x->in_inline |= !strcmp(name, "is");
		x->in_value = !strcmp(name, "v") || (!strcmp(name, "t") && x->in_inline && !x->skip);
	}
}

static void sheet_end(void *ud, const char *name)
{
	struct xlsx *x = ud;

	x->in_value = 0;
	if (!strcmp(name, "row"))
		x->in_row = 0;
	else if (!strcmp(name, "c") && x->in_row)
		cell_end(x);
	else if (!strcmp(name, "rPh"))
		x->skip -= x->skip > 0;
}

static void sheet_text(void *ud, const char *s, size_t n)
{
	struct xlsx *x = ud;

	if (x->in_value)
		str_add(&x->value, s, n);
}

/* ---- sheets ---- */

/* Number the columns that have at least one cell, from 1 on. column[i] is 0 if column i has no cell. */
static void number_columns(const struct xlsx *x, int32_t column[COLUMNS_MAX + 1])
{
	int32_t n = 0;

	memset(column, 0, (COLUMNS_MAX + 1) * sizeof *column);
	for (size_t i = 0; i < x->n_cell; i++)
		column[x->cell[i].column] = 1;
	for (int i = 1; i <= COLUMNS_MAX; i++)
		column[i] = column[i] ? ++n : 0;
}

static void write_cells(struct xlsx *x)
{
	int32_t column[COLUMNS_MAX + 1];
	int32_t row = 0, last = 0;

	number_columns(x, column);
	writer_table_begin(x->w);
	for (size_t i = 0; i < x->n_cell; i++) {
		const struct cell *c = &x->cell[i];
		size_t end = i + 1 < x->n_cell ? c[1].at : x->text.n;

		if (!i || c->row != row) {
			writer_row_end(x->w);
			if (i && c->row != row + 1)
				writer_gap(x->w, GAP_BLOCK);
			writer_row_begin(x->w);
			last = 0;
		}
		for (int32_t k = last + 1; k < column[c->column] && k - last <= EMPTY_CELLS_MAX; k++)
			writer_cell_begin(x->w);
		writer_cell_begin(x->w);
		writer_text(x->w, x->text.p + c->at, end - c->at);
		row = c->row;
		last = column[c->column];
	}
	writer_table_end(x->w);
}

/* Read the text boxes of a sheet. */
static void read_boxes(struct xlsx *x, const struct zip_entry *sheet)
{
	const struct zip_entry *z;
	struct opc parts;

	str_clear(&x->boxes);
	opc_read(&parts, &x->zip, sheet->name);
	z = opc_by_type(&parts, "drawing");
	if (z && !x->done[z - x->zip.entry]) {
		x->done[z - x->zip.entry] = 1;
		xlsx_boxes(z, &x->boxes);
	}
	while (x->boxes.n && x->boxes.p[x->boxes.n - 1] == '\n')
		x->boxes.n--;
	opc_free(&parts);
}

static void write_boxes(struct xlsx *x)
{
	writer_gap(x->w, GAP_BLOCK);
	x->w->pre++;
	writer_text(x->w, str_text(&x->boxes), x->boxes.n);
	x->w->pre--;
	writer_gap(x->w, GAP_BLOCK);
}

static void write_sheet(struct xlsx *x, const struct xml_attr *name)
{
	writer_page(x->w, name ? name->value : "", name ? name->n : 0);
	writer_heading_begin(x->w, 1);
	if (name)
		writer_text(x->w, name->value, name->n);
	writer_heading_end(x->w);
	write_cells(x);
	write_boxes(x);
}

static void note_hidden(struct xlsx *x, const struct xml_attr *name)
{
	if (x->n_hidden++ < NAMED_MAX && name)
		str_addf(&x->hidden, "%s'%.*s'", x->hidden.n ? ", " : "",
		         (int)utf8_complete(name->value, MIN(name->n, 60)), name->value);
}

static void read_sheet(struct xlsx *x, const struct zip_entry *z, const struct xml_attr *a, size_t n)
{
	static const struct xml_handler handler = { .start = sheet_start, .end = sheet_end, .text = sheet_text };
	const struct xml_attr *name = xml_attr(a, n, "name");
	struct err why = { 0 };

	x->n_cell = 0;
	x->row = x->in_row = x->in_value = x->skip = 0;
	str_clear(&x->text);
	xml_parse(z->name, z->p, z->n, &handler, x, &why);
	read_boxes(x, z);
	if (!x->n_cell && !x->boxes.n) {
		x->why = why.code ? why : x->why;
		return;
	}
	write_sheet(x, name);
	if (why.code)
		doc_note(x->w->doc, "the document %s: the text of this sheet ends there", why.msg);
	if (xml_attr_is(a, n, "state", "hidden") || xml_attr_is(a, n, "state", "veryHidden"))
		note_hidden(x, name);
}

static void workbook_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct xlsx *x = ud;

	if (!strcmp(name, "workbookPr")) {
		x->styles.from_1904 = xml_attr_is(a, n, "date1904", "1") || xml_attr_is(a, n, "date1904", "true");
	} else if (!strcmp(name, "sheet") && !x->w->full && x->sheets++ < SHEETS_MAX) {
		const struct zip_entry *z = opc_by_id(&x->parts, xml_attr(a, n, "id"));

		x->missing += !z;
		if (!z || x->done[z - x->zip.entry])
			return;
		x->done[z - x->zip.entry] = 1;
		read_sheet(x, z, a, n);
	}
}

/* ---- the file ---- */

static void add_notes(struct xlsx *x)
{
	struct doc *d = x->w->doc;

	if (x->n_hidden)
		doc_note(d, "%zu hidden sheet%s in the text: %s%s", x->n_hidden, x->n_hidden == 1 ? " is" : "s are",
		         str_text(&x->hidden), x->n_hidden > NAMED_MAX ? " and others" : "");
	if (x->hidden_rows)
		doc_note(d, "%zu hidden row%s in the text", x->hidden_rows, x->hidden_rows == 1 ? " is" : "s are");
	if (x->unknown)
		doc_note(
			d,
			"%zu formula%s no result in the file and %s left out: a spreadsheet program that saves it adds them",
			x->unknown, x->unknown == 1 ? " has" : "s have", x->unknown == 1 ? "was" : "were");
	if (x->missing)
		doc_note(d, "%zu sheet%s missing in the file", x->missing, x->missing == 1 ? " is" : "s are");
	doc_note_left_out(d, opc_count(&x->zip, "xl/charts/chart", "chartSpace"), "chart");
	doc_note_left_out(d, opc_count(&x->zip, "xl/diagrams/data", "t"), "SmartArt diagram");
	doc_note_left_out(d, opc_elements(&x->zip, "xl/comments", "comment"), "comment");
}

static int read_xlsx(struct xlsx *x, const char *p, size_t n, struct err *e)
{
	static const struct xml_handler strings = { .start = strings_start, .end = strings_end, .text = strings_text },
					workbook = { .start = workbook_start };
	const struct zip_entry *z, *book;
	struct doc *d = x->w->doc;
	struct err why = { 0 };

	if (zip_read(&x->zip, p, n, opc_want, e))
		return -1;
	if (!(book = opc_main(&x->zip, "xl/workbook.xml")))
		return err_set(e, ERR_DOCUMENT, "is damaged: it lacks 'xl/workbook.xml'");
	x->done = xcalloc(x->zip.n, 1);
	opc_read(&x->parts, &x->zip, book->name);
	xlsx_styles_read(&x->styles, opc_by_type(&x->parts, "styles"));
	if ((z = opc_by_type(&x->parts, "sharedStrings")))
		xml_parse(z->name, z->p, z->n, &strings, x, &x->why);
	xml_parse(book->name, book->p, book->n, &workbook, x, &why);
	writer_end(x->w);
	add_notes(x);
	return doc_finish(d, 0, why.code || d->text.n ? &why : &x->why, e);
}

int xlsx_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct writer w = { .doc = d, .sheet = 1 };
	struct xlsx x = { .w = &w };
	int rc = read_xlsx(&x, p, n, e);

	xlsx_styles_free(&x.styles);
	opc_free(&x.parts);
	zip_free(&x.zip);
	str_free(&x.strings);
	str_free(&x.hidden);
	str_free(&x.text);
	str_free(&x.boxes);
	str_free(&x.value);
	free(x.string);
	free(x.done);
	free(x.cell);
	return rc;
}
