/* sessions/import/man.c - makes the source of manual pages readable: macros of man(7), tables of tbl(1) and requests of
 * roff. man_escapes.c has the escapes of roff, man_mdoc.c the macros of mdoc(7).
 *
 * The text is written as man(1) shows it on a terminal, but without indents: paragraphs, list items and headings are
 * blocks, the rows of tables are lines. Escapes become the characters that they print. */
#include "sessions/import/man.h"
#include "engine/base/utf8.h"

#include <string.h>

#define TITLE_WITHIN 65536 /* the title must come within this number of bytes; definitions of macros may precede it */

/* ---- text ---- */

void page_blank(struct page *page)
{
	if (!page->glue && page->spacing != SPACING_OFF)
		writer_gap(&page->w, GAP_SPACE);
	page->glue = 0;
	if (page->spacing == SPACING_ENDS)
		page->spacing = SPACING_OFF;
}

void page_text(struct page *page, struct part t)
{
	str_clear(&page->line);
	page_escapes(page, t, &page->line);
	if (page->line.n)
		writer_text(&page->w, page->line.p, page->line.n);
	page->glue |= t.n > 1 && !memcmp(t.s + t.n - 2, "\\c", 2);
}

/* Begin a heading. It ends what is open: tables, lists, kept white space. */
static void page_heading(struct page *page, int level)
{
	page->w.pre = 0;
	while (page->w.tables)
		writer_table_end(&page->w);
	page->table = page->lists = page->spread = page->tag = 0;
	page->displays = 0;
	writer_heading_begin(&page->w, level);
}

void page_item(struct page *page)
{
	int empty = page->tag_end == page->w.doc->text.n;

	writer_gap(&page->w, empty ? GAP_LINE : GAP_BLOCK);
	page->tag = 1;
}

/* End the tag of a list item. A tag that is only a sign, such as a bullet, stays on the line of the item's text. */
static void tag_end(struct page *page)
{
	page->tag = 0;
	page->tag_end = page->w.doc->text.n;
	writer_gap(&page->w, GAP_LINE);
}

/* ---- macros ---- */

/* Return the length of the word at s. A quoted word ends at a quotation mark (two in a row are part of the word), any
 * other word at a blank. A comment also ends the word. */
static size_t word_length(const char *s, size_t n, int quoted)
{
	size_t i = 0;

	while (i < n && (quoted ? s[i] != '"' || (i + 1 < n && s[i + 1] == '"') : !byte_is_blank(s[i])) &&
	       !(s[i] == '\\' && i + 1 < n && s[i + 1] == '"'))
		i += s[i] == '\\' || (quoted && s[i] == '"') ? 2 : 1;
	return MIN(i, n);
}

/* 1 if byte `at` is a backslash that ends a line of the source, so that the next line continues it. */
static int is_continued(struct part line, size_t at)
{
	return line.s[at] == '\\' && at + 1 < line.n && line.s[at + 1] == '\n';
}

/* Split a line into words. If `tabs` is 1, a tab is the macro ".Ta". */
static void split_words(struct part line, int tabs, struct words *w)
{
	static const struct part tab = { .s = "Ta", .n = 2 };
	size_t at = 0;

	w->n = 0;
	while (w->n < WORDS_MAX) {
		int quoted, tabbed = 0;

		for (; at < line.n && (byte_is_blank(line.s[at]) || is_continued(line, at)); at++)
			tabbed |= tabs && line.s[at] == '\t';
		if (at >= line.n || (line.s[at] == '\\' && at + 1 < line.n && line.s[at + 1] == '"'))
			return;
		if (tabbed) {
			w->at[w->n++] = tab;
			continue;
		}
		quoted = line.s[at] == '"';
		at += (size_t)quoted;
		w->at[w->n] = (struct part){ line.s + at, word_length(line.s + at, line.n - at, quoted), quoted };
		at += w->at[w->n++].n;
		at += quoted && at < line.n && line.s[at] == '"';
	}
}

/* Write the words with index `from` and higher. If `glue` is 1, write no blanks between them. */
static void put_words(struct page *page, const struct words *w, size_t from, int glue)
{
	for (size_t i = from; i < w->n; i++) {
		page->glue |= glue && i > from;
		page_blank(page);
		page_text(page, w->at[i]);
	}
}

/* Write the title of a page, such as "ls(1)": its name and its section. */
static void put_title(struct page *page, struct words *w)
{
	static const char brackets[] = "()";

	page_heading(page, 1);
	if (w->n > 1)
		page_text(page, w->at[1]);
	if (w->n > 2) {
		writer_text(&page->w, brackets, 1);
		page_text(page, w->at[2]);
		writer_text(&page->w, brackets + 1, 1);
	}
	writer_heading_end(&page->w);
}

/* Write the address of ".UR" or ".MT". It comes after the text that is linked. */
static void put_link(struct page *page, const struct words *w)
{
	struct part link = page->link;

	page->link.n = 0;
	if (link.n) {
		page_blank(page);
		writer_text(&page->w, "<", 1);
		page_text(page, link);
		writer_text(&page->w, ">", 1);
		page->glue = 1;
	}
	put_words(page, w, 1, 0);
	page->glue = 0;
}

static void man_macro(struct page *page, const struct words *w)
{
	static const char silent[] = "HP PD DT AT UC IX EQ EN INDENT UNINDENT";
	struct part name = w->at[0];

	if (!byte_is_upper(*name.s) || part_is_one_of(name, silent))
		return;
	if (part_is_one_of(name, "PP P LP Sp YS")) {
		writer_gap(&page->w, GAP_BLOCK);
	} else if (part_is_one_of(name, "RS RE")) {
		writer_gap(&page->w, GAP_LINE);
	} else if (part_is_one_of(name, "EX Vb EE Ve")) {
		writer_gap(&page->w, GAP_BLOCK);
		page->w.pre = part_is_one_of(name, "EX Vb");
	} else if (part_is(name, "IP")) {
		page_item(page);
		if (w->n > 1)
			page_text(page, w->at[1]);
		/* without a tag, the item is a paragraph; a tag that is only a sign, such as a bullet, stays on the
		 * line of the item's text */
		page->tag = w->n > 1 && page->line.n > 3;
	} else if (part_is_one_of(name, "TP TQ")) {
		page_item(page);
	} else if (part_is_one_of(name, "UR MT")) {
		page->link = w->n > 1 ? w->at[1] : (struct part){ 0 };
	} else if (part_is_one_of(name, "UE ME")) {
		put_link(page, w);
	} else if (part_is(name, "OP")) {
		page_blank(page);
		writer_text(&page->w, "[", 1);
		page->glue = 1;
		put_words(page, w, 1, 0);
		writer_text(&page->w, "]", 1);
	} else {
		if (part_is(name, "SY"))
			writer_gap(&page->w, GAP_LINE);
		put_words(page, w, 1, part_is_one_of(name, "BR BI IB IR RB RI"));
	}
}

/* ---- tables ---- */

enum { TABLE_NONE, TABLE_FORMATS, TABLE_ROWS, TABLE_CELL };

static void table_begin(struct page *page)
{
	writer_table_begin(&page->w);
	page->table = TABLE_FORMATS;
	page->tab = '\t';
}

/* Read one of the lines that describe a table: the options, which end with ';', or the formats of the columns, which
 * end with '.'. */
static void table_format(struct page *page, struct part line)
{
	const char *tab = memmem(line.s, line.n, "tab", 3), *end = line.s + line.n;

	if (line.n && end[-1] == ';') {
		while (tab && tab < end && *tab != '(')
			tab++;
		if (tab && tab + 1 < end)
			page->tab = tab[1];
	}
	if (line.n && end[-1] == '.')
		page->table = TABLE_ROWS;
}

static void table_cell(struct page *page, struct part cell)
{
	writer_cell_begin(&page->w);
	page->glue = 1;
	if (part_is(cell, "T{"))
		page->table = TABLE_CELL;
	else if (!part_is_one_of(cell, "_ = \\_ \\= \\^"))
		page_text(page, cell);
}

/* Write a row. "T{" begins a cell of several lines, which ends with "T}". */
static void table_row(struct page *page, struct part line)
{
	int begun = page->table == TABLE_CELL;

	if (begun && (line.n < 2 || memcmp(line.s, "T}", 2) != 0)) {
		page_blank(page);
		page_text(page, line);
		return;
	}
	page->table = TABLE_ROWS;
	if (part_is_one_of(line, "_ ="))
		return;
	if (!begun)
		writer_row_begin(&page->w);
	for (int first = 1; first || line.n; first = 0) {
		const char *tab = memchr(line.s, page->tab, line.n);
		size_t n = tab ? (size_t)(tab - line.s) : line.n;

		if (!(first && begun))
			table_cell(page, (struct part){ .s = line.s, .n = n });
		line.s += n + (tab != NULL);
		line.n -= n + (tab != NULL);
	}
}

/* ---- lines ---- */

static void put_text_line(struct page *page, struct part line)
{
	if (page->table == TABLE_FORMATS) {
		table_format(page, line);
	} else if (page->table) {
		table_row(page, line);
	} else if (!line.n && !page->w.pre) {
		writer_gap(&page->w, GAP_BLOCK);
	} else {
		if (!page->w.pre && byte_is_blank(*line.s))
			writer_gap(&page->w, GAP_LINE);
		if (page->heading)
			page_heading(page, page->heading);
		page_blank(page);
		page_text(page, line);
		if (page->heading)
			writer_heading_end(&page->w);
		page->heading = 0;
	}
}

/* Return by how many the open braces of conditions change in a line. */
static int count_braces(struct part line)
{
	int n = 0;

	for (size_t i = 0; i + 1 < line.n; i++)
		if (line.s[i] == '\\') {
			i++;
			n += (line.s[i] == '{') - (line.s[i] == '}');
		}
	return n;
}

static void put_line(struct page *page, struct part line);

/* If a condition is true, write the rest of its line, which begins at `at`. "\{" begins several lines. */
static void put_if(struct page *page, struct part line, const char *at, int true)
{
	struct part rest = { .s = at, .n = (size_t)(line.s + line.n - at) };

	if (!true) {
		page->skipping = MAX(count_braces(rest), 0);
		return;
	}
	while (rest.n &&
	       (byte_is_blank(*rest.s) || is_continued(rest, 0) || (rest.n > 1 && !memcmp(rest.s, "\\{", 2)))) {
		size_t n = byte_is_blank(*rest.s) ? 1 : 2;
		rest.s += n;
		rest.n -= n;
	}
	if (rest.n && !part_is(rest, "\\") && page->conditions++ < CONDITIONS_MAX)
		put_line(page, rest);
	page->conditions = 0;
}

/* 1 if a condition is true: "n", because the page is shown on a terminal, or a register that is not 0. */
static int is_true(struct page *page, struct part condition)
{
	int not = condition.n && *condition.s == '!';
	const struct definition *d = NULL;
	struct part name;

	condition.s += not ;
	condition.n -= (size_t) not ;
	if (condition.n > 2 && !memcmp(condition.s, "\\n", 2) &&
	    man_name(condition.s + 2, condition.n - 2, &name) == condition.n - 2)
		d = page_definition(page, 'n', name);
	return (d ? !part_is(d->value, "0") : part_is_one_of(condition, "n 1 o \\n(.g")) != not ;
}

/* Handle a request of roff that changes how the following lines are read. */
static void put_request(struct page *page, struct part line, const struct words *w)
{
	struct part name = w->at[0], condition = w->n > 1 ? w->at[1] : (struct part){ .s = "" };
	const char *end = condition.s + condition.n;

	page->defining = part_is_one_of(name, "de de1 am ig");
	if (part_is_one_of(name, "if ie") && w->n > 1) {
		page->last_if = is_true(page, condition);
		put_if(page, line, end + (condition.quoted && end < line.s + line.n), page->last_if);
	} else if (part_is_one_of(name, "ds nr") && w->n > 2) {
		struct part value = { .s = w->at[2].s, .n = (size_t)(line.s + line.n - w->at[2].s) };
		page_define(page, *name.s == 'd' ? '*' : 'n', condition, *name.s == 'd' ? value : w->at[2]);
	} else if (part_is(name, "el")) {
		put_if(page, line, name.s + name.n, !page->last_if);
	} else if (part_is(name, "nf")) {
		writer_gap(&page->w, GAP_LINE);
		page->w.pre = 1;
	} else if (part_is(name, "fi")) {
		page->w.pre = 0;
		writer_gap(&page->w, GAP_LINE);
	} else if (part_is_one_of(name, "br in ti")) {
		writer_gap(&page->w, GAP_LINE);
	} else if (part_is(name, "sp") && !(w->n > 1 && *w->at[1].s == '-')) {
		writer_gap(&page->w, GAP_BLOCK);
	}
}

/* 1 if the macro begins or ends a section or a table. */
static int put_division(struct page *page, struct words *w)
{
	struct part name = w->at[0];

	if (part_is_one_of(name, "SH Sh SS Ss")) {
		page->defining = 0;
		page->heading = (name.s[1] | 32) == 'h' ? 2 : 3;
		if (w->n < 2)
			return 1;
		page->synopsis = part_is(w->at[1], "SYNOPSIS");
		page_heading(page, page->heading);
		if (page->mdoc)
			mdoc_words(page, w, 1);
		else
			put_words(page, w, 1, 0);
		writer_heading_end(&page->w);
		page->heading = 0;
	} else if (page->defining) {
		page->defining = *name.s != '.';
	} else if (part_is(name, "TS")) {
		table_begin(page);
	} else if (part_is(name, "T&")) {
		page->table = page->table ? TABLE_FORMATS : TABLE_NONE;
	} else if (part_is(name, "TE")) {
		if (page->table)
			writer_table_end(&page->w);
		page->table = TABLE_NONE;
	} else if (part_is(name, page->mdoc ? "Dt" : "TH")) {
		if (!page->table)
			put_title(page, w);
	} else {
		return 0;
	}
	return 1;
}

/* Write what a line prints. */
static void put_line(struct page *page, struct part line)
{
	struct words w;

	if (page->skipping) {
		page->skipping = MAX(page->skipping + count_braces(line), 0);
		return;
	}
	if (!line.n || !strchr(".'", *line.s)) {
		if (!page->defining)
			put_text_line(page, line);
		return;
	}
	split_words((struct part){ .s = line.s + 1, .n = line.n - 1 }, mdoc_in_columns(page), &w);
	if (!w.n || !w.at[0].n || put_division(page, &w))
		return;
	if (!byte_is_upper(*w.at[0].s) && *w.at[0].s != '%')
		put_request(page, line, &w);
	else if (page->mdoc)
		mdoc_macro(page, &w);
	else
		man_macro(page, &w);
}

/* Write what a line of the source prints. Then end the tag of a list item. If white space is kept, also end the
 * line. */
static void put_source_line(struct page *page, struct part line)
{
	size_t before = page->w.doc->text.n;
	int kept = page->w.pre, blank = !line.n && !page->defining && !page->skipping;

	page->glue |= kept;
	put_line(page, line);
	if (page->w.doc->text.n > before && page->tag && !page->spread && !page->glue)
		tag_end(page);
	if (kept && page->w.pre && !page->glue && (blank || page->w.doc->text.n > before))
		writer_text(&page->w, "\n", 1);
}

/* ---- pages ---- */

int man_is_source(const char *p, size_t n)
{
	const char *end = p + MIN(n, TITLE_WITHIN);

	while (p < end && *p == '\n')
		p++;
	if (p == end || !strchr(".'", *p))
		return 0;
	for (; p && end - p > 4; p = memchr(p, '\n', (size_t)(end - p))) {
		p += *p == '\n';
		if (end - p > 4 && (!memcmp(p, ".TH ", 4) || !memcmp(p, ".Dd ", 4) || !memcmp(p, ".Dt ", 4)))
			return p[1] == 'T' ? 1 : 2;
	}
	return 0;
}

void man_read(struct doc *d)
{
	struct str source = d->text;
	struct page page = { .w = { .doc = d }, .mdoc = man_is_source(source.p, source.n) == 2 };
	const char *p = source.p, *end = p + source.n, *line_end;

	d->text = (struct str){ 0 };
	for (; p < end; p = line_end + 1) {
		line_end = memchr(p, '\n', (size_t)(end - p));
		while (line_end && line_end > p && line_end[-1] == '\\' && (line_end < p + 2 || line_end[-2] != '\\'))
			line_end = memchr(line_end + 1, '\n', (size_t)(end - line_end) - 1);
		line_end = line_end ? line_end : end;
		put_source_line(&page, (struct part){ .s = p, .n = (size_t)(line_end - p) });
	}
	while (page.w.tables)
		writer_table_end(&page.w);
	writer_end(&page.w);
	str_free(&page.line);
	str_free(&source);
}
