/* sessions/import/odf_text.c - writes pages, paragraphs, frames, notes and formulas of an OpenDocument file. */
#include "sessions/import/odf.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pages ---- */

void odf_page(struct odf *x, long number)
{
	char label[24];

	x->page = number > 0 && number < 1000000 ? (int)number : x->page + 1;
	writer_page(x->document, label, (size_t)snprintf(label, sizeof label, "%d", x->page));
}

void odf_page_break(struct odf *x, long number)
{
	/* 1: page 1 has no text yet, so that a break before the first paragraph does not begin a second page */
	int first = x->document->page_due && !x->document->doc->n_mark;

	if (x->flows || x->tables || x->spreadsheet || (first && number <= 0))
		return;
	if (first)
		x->document->page_due = 0;
	odf_page(x, number);
}

/* ---- hidden text ---- */

void odf_hide_begin(struct odf *x, int hidden)
{
	if (x->open < ODF_DEPTH_MAX) {
		x->hides[x->open] = (unsigned char)hidden;
		x->hide += hidden;
	}
	x->open++;
}

void odf_hide_end(struct odf *x)
{
	if (x->open && --x->open < ODF_DEPTH_MAX)
		x->hide -= x->hides[x->open];
}

/* ---- paragraphs ---- */

static int outline_level(const struct odf_flow *f)
{
	return f->numbered < LIST_LEVELS ? f->numbered - 1 : LIST_LEVELS - 1;
}

static void begin_heading(struct odf *x)
{
	struct odf_flow *f = &x->flow;
	struct list_level *outline = odf_outline(x->styles);

	writer_heading_begin(x->w, MIN(f->heading, 6));
	str_clear(&x->w->prefix);
	if (f->lists) {
		odf_item_label(x);
	} else if (f->numbered) {
		list_levels_count(outline, outline_level(f));
		list_label(outline, outline_level(f), &x->w->prefix);
	}
}

/* Begin the paragraph. Called at the paragraph's first text. */
static void begin_paragraph(struct odf *x)
{
	struct odf_flow *f = &x->flow;

	if (f->begun)
		return;
	f->begun = 1;
	odf_cells_open(x);
	if (f->heading) {
		begin_heading(x);
	} else if (f->lists) {
		writer_gap(x->w, f->last_was_item ? GAP_LINE : GAP_BLOCK);
		if (x->w == x->document)
			str_clear(&x->w->prefix);
		odf_item_label(x);
	} else {
		writer_gap(x->w, f->kept && f->last_was_kept ? GAP_LINE : GAP_BLOCK);
	}
	if (x->lead)
		str_adds(&x->w->prefix, x->lead);
	x->lead = NULL;
	f->last_was_item = f->lists && !f->heading;
	f->last_was_kept = f->kept;
	x->w->pre = f->kept;
	f->blank = f->kept;
}

void odf_paragraph_begin(struct odf *x, int is_heading, const struct xml_attr *a, size_t n)
{
	struct odf_flow *f = &x->flow;
	struct odf_look look;
	const struct xml_attr *start = xml_attr(a, n, "start-value");

	odf_style(x->styles, "paragraph", xml_attr(a, n, "style-name"), &look);
	if (f->paragraphs++)
		writer_gap(x->w, GAP_LINE);
	if (f->break_after || look.break_before)
		odf_page_break(x, look.page_number);
	f->break_after = look.break_after;
	f->begun = f->numbered = 0;
	f->kept = look.kept;
	f->heading = is_heading ? (int)xml_number(xml_attr(a, n, "outline-level"), 1) : look.level;
	if (f->title)
		f->heading = 1;
	if (f->heading < 1)
		f->heading = is_heading;
	if (is_heading && !xml_attr_is(a, n, "is-list-header", "true"))
		f->numbered = f->heading;
	if (f->numbered && f->numbered <= LIST_LEVELS && (start || xml_attr_is(a, n, "restart-numbering", "true")))
		odf_outline(x->styles)[f->numbered - 1].count = list_start(start) - 1;
	odf_list_adopt(x, look.list);
	odf_hide_begin(x, look.hidden);
}

void odf_paragraph_end(struct odf *x)
{
	struct odf_flow *f = &x->flow;

	if (x->w->heading)
		writer_heading_end(x->w);
	/* count list items and numbered headings even if they have no text */
	if (!f->begun && !x->hide && f->lists)
		odf_item_without_text(x);
	else if (!f->begun && !x->hide && f->numbered)
		list_levels_count(odf_outline(x->styles), outline_level(f));
	/* an empty paragraph separates lists and blocks */
	if (!f->begun && !f->kept)
		writer_gap(x->w, GAP_BLOCK);
	if (f->begun && x->w == x->document)
		str_clear(&x->w->prefix);
	x->w->pre = 0;
	/* keep blank lines inside program text */
	if (!f->begun && f->kept && f->last_was_kept)
		writer_gap(x->w, GAP_BLOCK);
	writer_gap(x->w, GAP_LINE);
	f->paragraphs -= f->paragraphs > 0;
	f->begun = 1;
	odf_hide_end(x);
}

/* Write text whose white space is kept. Each white space in the XML counts as one blank; the file stores further blanks
 * as <text:s> elements. */
static void shown_kept(struct odf *x, const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t from = i;

		while (i < n && !byte_is_xml_blank(s[i]))
			i++;
		if (i > from)
			writer_text(x->w, s + from, i - from), x->flow.blank = 0;
		for (; i < n && byte_is_xml_blank(s[i]); i++) {
			if (!x->flow.blank)
				writer_text(x->w, " ", 1);
			x->flow.blank = 1;
		}
	}
}

void odf_shown(struct odf *x, const char *s, size_t n)
{
	if (!n || !x->flow.paragraphs)
		return;
	if (x->hide) {
		x->hidden += utf8_characters(s, n);
		return;
	}
	begin_paragraph(x);
	if (x->raised)
		writer_raise(x->w, s, n);
	x->raised = 0;
	if (x->w->pre)
		shown_kept(x, s, n);
	else
		writer_text(x->w, s, n);
}

void odf_blanks(struct odf *x, long count)
{
	if (x->hide || !x->flow.paragraphs)
		return;
	begin_paragraph(x);
	for (long i = 0; i < count && i < 200 && (!i || x->w->pre); i++)
		writer_text(x->w, " ", 1);
}

void odf_line_break(struct odf *x)
{
	if (x->hide)
		return;
	writer_line(x->w, x->flow.begun);
	x->flow.blank = 0; /* keep white space after the line break */
}

/* ---- frames, notes, objects ---- */

static void flow_begin(struct odf *x)
{
	if (x->flows < ODF_DEPTH_MAX)
		x->outer[x->flows] = x->flow;
	x->flows++;
	x->flow = (struct odf_flow){ .title = x->next_is_title };
	x->next_is_title = 0;
	x->w->pre = 0;
}

void odf_box_end(struct odf *x)
{
	if (!x->flows)
		return;
	if (--x->flows < ODF_DEPTH_MAX)
		x->flow = x->outer[x->flows];
	x->w->pre = x->flow.begun && x->flow.kept;
}

void odf_box_begin(struct odf *x)
{
	if (x->w->heading)
		writer_heading_end(x->w);
	if (x->flow.begun)
		writer_gap(x->w, GAP_LINE);
	flow_begin(x);
}

void odf_note_begin(struct odf *x)
{
	char s[32];

	if (x->w == x->notes || x->hide || !x->flow.paragraphs)
		return;
	odf_shown(x, s, (size_t)snprintf(s, sizeof s, "[%zu]", ++x->note));
}

void odf_note_body_begin(struct odf *x)
{
	flow_begin(x);
	if (x->w == x->notes)
		return;
	x->w = x->notes;
	writer_gap(x->w, GAP_BLOCK);
	str_clear(&x->w->prefix);
	str_addf(&x->w->prefix, "[%zu] ", x->note);
}

void odf_note_body_end(struct odf *x)
{
	x->w = x->document;
	odf_box_end(x);
}

/* 1 if the bytes are valid UTF-8, which html_convert() requires. */
static int is_utf8(const char *p, size_t n)
{
	int32_t cp;

	for (size_t i = 0; i < n;) {
		i += (size_t)utf8_decode(p + i, n - i, &cp);
		if (cp <= 0)
			return 0;
	}
	return 1;
}

/* Write a formula, which is a separate MathML file. */
void odf_object(struct odf *x, const struct xml_attr *href)
{
	struct str path = { 0 };
	const struct zip_entry *z;

	if (!href || x->hide)
		return;
	if (href->n > 2 && !memcmp(href->value, "./", 2))
		str_add(&path, href->value + 2, href->n - 2);
	else
		str_add(&path, href->value, href->n);
	str_adds(&path, path.n && path.p[path.n - 1] == '/' ? "content.xml" : "/content.xml");
	z = zip_find(&x->zip, path.p);
	if (z && memmem(z->p, MIN(z->n, 4096), "MathML", 6) && is_utf8(z->p, z->n)) {
		begin_paragraph(x);
		x->hidden += html_convert(x->w, z->p, z->n, NULL);
		x->w->gap = x->w->gap > GAP_SPACE ? x->w->gap : GAP_NONE;
	}
	str_free(&path);
}
