/* sessions/import/rtf_text.c - writes paragraphs, lists, tables and notes of an RTF file. */
#include "sessions/import/rtf.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <string.h>

/* ---- tables ---- */

/* Open the table, row and cell around the next text. */
static void open_cell(struct rtf *x)
{
	if (!x->table)
		writer_table_begin(x->w);
	if (!x->row)
		writer_row_begin(x->w);
	if (!x->cell)
		writer_cell_begin(x->w);
	x->table = x->row = x->cell = 1;
}

void rtf_cell_end(struct rtf *x)
{
	if (x->w != x->document) {
		rtf_paragraph_end(x);
		return;
	}
	open_cell(x);
	if (x->begun)
		rtf_paragraph_end(x);
	x->cell = 0;
}

void rtf_row_end(struct rtf *x)
{
	if (x->row && x->w == x->document)
		writer_row_end(x->w);
	x->row = x->cell = 0;
}

void rtf_table_end(struct rtf *x)
{
	rtf_row_end(x);
	if (x->table)
		writer_table_end(x->document);
	x->table = 0;
}

/* ---- paragraphs ---- */

const struct rtf_font *rtf_font_now(const struct rtf *x)
{
	for (int i = 0; i < x->n_font; i++)
		if (x->font[i].number == x->g->font)
			return &x->font[i];
	return NULL;
}

static int is_program_text(const struct rtf *x)
{
	const struct rtf_font *f = rtf_font_now(x);

	return x->program || (f && f->fixed);
}

/* 1 if byte c is the beginning of a non-ASCII letter in the label of a list item. A label with such a letter is a
 * number, not a bullet. The label has n bytes. Returns 0 if the label is one character, and if c is 0xc2, 0xe2 or 0xef,
 * which begin signs. */
static int is_letter_of_label(unsigned char c, size_t n)
{
	return c >= 0xc3 && c < 0xef && c != 0xe2 && n > (c < 0xe0 ? 2u : 3u);
}

/* Let the writer put the number that the file stores for the item, "2.a) ", before the item's text. A bullet (no
 * letters or digits) becomes "- ". */
static void add_label(struct rtf *x)
{
	struct str *prefix = &x->w->prefix;
	const char *s = str_text(&x->label);
	size_t n = x->label.n;
	int word = 0;

	while (n && strchr(" \t\n", s[n - 1]))
		n--;
	while (n && strchr(" \t\n", *s))
		s++, n--;
	for (size_t i = 0; i < n; i++)
		word |= byte_is_digit(s[i]) || ((s[i] | 32) >= 'a' && (s[i] | 32) <= 'z' && n > 1) ||
		        is_letter_of_label((unsigned char)s[i], n);
	for (int i = 0; i < x->level && i < 8 && !x->heading; i++)
		str_adds(prefix, "  ");
	if (word) {
		str_add(prefix, s, n);
		str_adds(prefix, " ");
	} else if (!x->heading) {
		str_adds(prefix, "- ");
	}
	str_clear(&x->label);
}

/* 1 if the paragraph is a list item: its number or bullet is not blank. Some programs store a blank label before every
 * paragraph. */
static int is_item(const struct rtf *x)
{
	for (size_t i = 0; i < x->label.n; i++)
		if (x->label.p[i] != ' ' && x->label.p[i] != '\t')
			return 1;
	return 0;
}

static void begin_paragraph(struct rtf *x)
{
	int item = is_item(x);

	if (x->begun)
		return;
	x->begun = 1;
	if (x->w == x->document) {
		if (x->in_table)
			open_cell(x);
		else
			rtf_table_end(x);
	}
	x->kept = is_program_text(x) && !x->table && !x->heading && !item;
	if (x->heading)
		writer_heading_begin(x->w, MIN(x->heading, 6));
	else
		writer_gap(x->w, (item && x->last_was_item) || (x->kept && x->last_was_kept) ? GAP_LINE : GAP_BLOCK);
	if (item)
		add_label(x);
	x->w->pre = x->kept;
	x->last_was_item = item && !x->heading;
	x->last_was_kept = x->kept;
}

void rtf_paragraph_end(struct rtf *x)
{
	if (x->w->heading)
		writer_heading_end(x->w);
	x->w->pre = 0;
	/* an empty paragraph separates blocks */
	writer_gap(x->w, x->begun ? GAP_LINE : GAP_BLOCK);
	str_clear(&x->label);
	if (x->begun)
		str_clear(&x->w->prefix);
	x->begun = 0;
}

void rtf_paragraph_plain(struct rtf *x)
{
	x->heading = x->level = x->in_table = x->program = 0;
}

void rtf_shown(struct rtf *x, const char *s, size_t n)
{
	size_t blank = 0;

	if (!n || x->g->to == RTF_NOWHERE)
		return;
	if (x->g->to == RTF_STYLES || x->g->to == RTF_FONTS || x->g->to == RTF_ENTRY) {
		str_add(&x->name, s, x->name.n < 256 ? n : 0);
		return;
	}
	if (x->g->to == RTF_LABEL) {
		str_add(&x->label, s, x->label.n < 64 ? n : 0);
		return;
	}
	if (x->g->hidden) {
		x->hidden += utf8_characters(s, n);
		return;
	}
	while (blank < n && s[blank] == ' ')
		blank++;
	/* ignore blanks at the beginning of a paragraph, except in program text */
	if (blank == n && !x->begun && !is_program_text(x))
		return;
	begin_paragraph(x);
	if (x->g->raised)
		writer_raise(x->w, s, n);
	writer_text(x->w, s, n);
}

/* ---- notes and formulas ---- */

/* Write "[1]", and begin to collect the text of the note, which is written at the end of the document. */
void rtf_note_begin(struct rtf *x)
{
	char s[32];

	if (x->g->hidden)
		x->g->to = RTF_NOWHERE;
	if (x->w == x->notes || x->g->hidden)
		return;
	begin_paragraph(x);
	writer_text(x->w, s, (size_t)snprintf(s, sizeof s, "[%zu]", ++x->note));
	x->g->note = 1;
	x->w = x->notes;
	x->outer_last_was_item = x->last_was_item;
	x->outer_last_was_kept = x->last_was_kept;
	x->outer_heading = x->heading;
	x->outer_level = x->level;
	x->outer_in_table = x->in_table;
	x->begun = x->kept = x->heading = 0;
	writer_gap(x->w, GAP_BLOCK);
	str_clear(&x->w->prefix);
	str_addf(&x->w->prefix, "[%zu] ", x->note);
}

void rtf_note_end(struct rtf *x)
{
	rtf_paragraph_end(x);
	x->w = x->document;
	x->begun = 1;
	x->kept = x->w->pre != 0;
	x->last_was_item = x->outer_last_was_item;
	x->last_was_kept = x->outer_last_was_kept;
	x->heading = x->outer_heading;
	x->level = x->outer_level;
	x->in_table = x->outer_in_table;
}

void rtf_part_begin(struct rtf *x, const char *sign)
{
	begin_paragraph(x);
	x->g->part_at = writer_part_begin(x->w, sign);
	x->g->part = x->w == x->document;
}
