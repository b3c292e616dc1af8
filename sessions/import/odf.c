/* sessions/import/odf.c - converts OpenDocument texts, spreadsheets and presentations (OpenDocument 1.3, part 3,
 * chapters 3 to 9).
 *
 * Writes the text that a reader sees: deleted text, comments and hidden text are left out. Footnotes and endnotes
 * appear as "[1]" where they are referred to; their text follows at the end. The pages of a text are taken from the
 * page breaks that the file stores. If page breaks are missing in the file, the text has no pages. Each slide is a
 * page. A sheet's name becomes a heading. */
#include "sessions/import/odf.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_CHARACTERS_MAX 8000

/* ---- the text ---- */

/* 1 if the element is a drawn shape. Like a text box, a shape can contain paragraphs. */
static int is_shape(const char *name)
{
	static const char *const names[] = { "custom-shape", "rect",      "ellipse", "circle",
		                             "line",         "polyline",  "polygon", "regular-polygon",
		                             "path",         "connector", "caption", "measure" };

	for (size_t i = 0; i < LEN(names); i++)
		if (!strcmp(name, names[i]))
			return 1;
	return 0;
}

static int is_skipped(const struct odf *x, const char *name, const struct xml_attr *a, size_t n_attr)
{
	static const char *const names[] = { "tracked-changes", "annotation", "note-citation", "ruby-text", "number",
		                             "hidden-text", "desc", "script", "forms", "covered-table-cell",
		                             "event-listeners", "content-validations", "binary-data",
		                             /* "document" is a document that is embedded in a flat file */
		                             "document" };
	/* frames that every slide repeats */
	static const char *const furniture[] = { "page-number", "header", "footer", "date-time" };
	size_t n = strlen(name);

	for (size_t i = 0; i < LEN(furniture) && !strcmp(name, "frame"); i++)
		if (xml_attr_is(a, n_attr, "class", furniture[i]))
			return 1;
	if (!strcmp(name, "title")) /* skip the title of a picture, but write the title of the document */
		return x->flow.frames > 0;
	for (size_t i = 0; i < LEN(names); i++)
		if (!strcmp(name, names[i]))
			return 1;
	/* an element whose name ends in "-source" is the template of an index */
	return n > 7 && !strcmp(name + n - 7, "-source");
}

static void inline_start(struct odf *x, const char *name, const struct xml_attr *a, size_t n)
{
	struct odf_look look;

	if (!strcmp(name, "span")) {
		odf_style(x->styles, "text", xml_attr(a, n, "style-name"), &look);
		odf_hide_begin(x, look.hidden);
		x->raised |= look.raised;
	} else if (!strcmp(name, "s")) {
		odf_blanks(x, xml_number(xml_attr(a, n, "c"), 1));
	} else if (!strcmp(name, "tab")) {
		odf_blanks(x, 1);
	} else if (!strcmp(name, "line-break")) {
		odf_line_break(x);
	} else if (!strcmp(name, "soft-page-break")) {
		if (x->w == x->document && x->flows == 0)
			odf_page(x, 0);
	} else if (!strcmp(name, "note")) {
		odf_note_begin(x);
	} else if (!strcmp(name, "object")) {
		odf_object(x, xml_attr(a, n, "href"));
	}
}

static void body_start(struct odf *x, const char *name, const struct xml_attr *a, size_t n)
{
	if (!strcmp(name, "text") && !x->page) {
		x->is_text = 1;
		odf_page(x, 0);
	} else if (!strcmp(name, "spreadsheet")) {
		x->spreadsheet = x->document->sheet = 1;
	} else if (!strcmp(name, "page")) {
		writer_gap(x->w, GAP_BLOCK);
		odf_page(x, 0);
	} else if (!strcmp(name, "notes")) {
		x->lead = "Notes: ";
	} else if (!strcmp(name, "section")) {
		odf_hide_begin(x, xml_attr_is(a, n, "display", "none"));
	} else if (!strcmp(name, "frame")) {
		x->flow.frames++;
		x->next_is_title = xml_attr_is(a, n, "class", "title");
	} else if (!strcmp(name, "text-box")) {
		odf_box_begin(x);
	} else if (is_shape(name)) {
		odf_box_begin(x);
		x->flow.frames = 1;
	} else if (!strcmp(name, "note-body")) {
		odf_note_body_begin(x);
	}
}

static void on_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct odf *x = ud;

	if (!x->in_body) {
		x->in_body = !strcmp(name, "body");
		return;
	}
	if (x->skip || is_skipped(x, name, a, n)) {
		if (!x->skip && !strcmp(name, "covered-table-cell"))
			odf_cells_covered(x, xml_attr(a, n, "number-columns-repeated"));
		x->comments += !x->skip && !strcmp(name, "annotation");
		x->skip++;
	} else if (!strcmp(name, "p") || !strcmp(name, "h")) {
		odf_paragraph_begin(x, *name == 'h', a, n);
	} else if (!strcmp(name, "list")) {
		odf_list_begin(x, a, n);
	} else if (!strcmp(name, "list-item") || !strcmp(name, "list-header")) {
		odf_item_begin(x, !strcmp(name, "list-header"), xml_attr(a, n, "start-value"));
	} else if (!strcmp(name, "table")) {
		odf_table_begin(x, a, n);
	} else if (!strcmp(name, "table-row")) {
		odf_row_begin(x, xml_attr(a, n, "number-rows-repeated"));
	} else if (!strcmp(name, "table-cell")) {
		odf_cell_begin(x, a, n);
	} else {
		body_start(x, name, a, n);
		inline_start(x, name, a, n);
	}
}

static void on_end(void *ud, const char *name)
{
	struct odf *x = ud;

	if (!x->in_body)
		return;
	if (x->skip) {
		x->skip--;
	} else if (!strcmp(name, "body")) {
		x->in_body = 0;
	} else if (!strcmp(name, "p") || !strcmp(name, "h")) {
		odf_paragraph_end(x);
	} else if (!strcmp(name, "list")) {
		odf_list_end(x);
	} else if (!strcmp(name, "table")) {
		odf_table_end(x);
	} else if (!strcmp(name, "table-row")) {
		odf_row_end(x);
	} else if (!strcmp(name, "table-cell")) {
		odf_cell_end(x);
	} else if (!strcmp(name, "span") || !strcmp(name, "section")) {
		odf_hide_end(x);
		x->raised = 0;
	} else if (!strcmp(name, "notes")) {
		x->lead = NULL;
	} else if (!strcmp(name, "frame")) {
		x->flow.frames -= x->flow.frames > 0;
		x->next_is_title = 0;
	} else if (!strcmp(name, "text-box") || is_shape(name)) {
		odf_box_end(x);
	} else if (!strcmp(name, "note-body")) {
		odf_note_body_end(x);
	}
}

static void on_text(void *ud, const char *s, size_t n)
{
	struct odf *x = ud;

	if (x->in_body && !x->skip)
		odf_shown(x, s, n);
}

/* ---- the file ---- */

static void meta_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct odf *x = ud;

	if (!strcmp(name, "document-statistic"))
		x->pages = xml_number(xml_attr(a, n, "page-count"), 0);
}

/* 1 if a page has more than PAGE_CHARACTERS_MAX characters, which means that page breaks are missing. `end` is the end
 * of the last page. */
static int has_overlong_page(const struct doc *d, size_t end)
{
	for (size_t i = d->n_mark; i-- > 0;) {
		if (d->mark[i].kind != MARK_PAGE)
			continue;
		if (d->mark[i].at < end &&
		    utf8_characters(d->text.p + d->mark[i].at, end - d->mark[i].at) > PAGE_CHARACTERS_MAX)
			return 1;
		end = d->mark[i].at;
	}
	return 0;
}

/* Delete the page marks if page breaks are missing. A program may save a document before its layout is finished. It
 * then stores only the first page breaks, and a page count that agrees with them. So an overlong page also shows that
 * page breaks are missing. */
static void check_pages(struct odf *x, const struct zip_entry *content, size_t end)
{
	static const struct xml_handler handler = { .start = meta_start };
	const struct zip_entry *meta = x->zip.n ? zip_find(&x->zip, "meta.xml") : content;

	if (meta)
		xml_parse(meta->name, meta->p, meta->n, &handler, x, NULL);
	if (x->is_text && (x->document->doc->pages != x->pages || has_overlong_page(x->document->doc, end)))
		doc_forget_pages(x->document->doc);
}

static int want_odf_entry(const char *name)
{
	static const char object[] = "/content.xml";
	size_t n = strlen(name);

	return !strcmp(name, "content.xml") || !strcmp(name, "styles.xml") || !strcmp(name, "meta.xml") ||
	       !strcmp(name, "META-INF/manifest.xml") ||
	       (n > sizeof object - 1 && !strcmp(name + n - (sizeof object - 1), object));
}

/* Find the content and the styles of the document. A zip archive has a separate file for each of them. A single XML
 * file (.fodt) contains both. */
static int find_parts(struct odf *x, char *p, size_t n, struct zip_entry *content, struct zip_entry *styles,
                      struct err *e)
{
	const struct zip_entry *z;
	char *name = content->name;

	*content = *styles = (struct zip_entry){ .name = name, .p = p, .n = n };
	if (n < 4 || memcmp(p, "PK\3\4", 4) != 0)
		return 0;
	if (zip_read(&x->zip, p, n, want_odf_entry, e))
		return -1;
	if ((z = zip_find(&x->zip, "META-INF/manifest.xml")) && z->n && memmem(z->p, z->n, "encryption-data", 15))
		return err_set(e, ERR_DOCUMENT, "is encrypted: its text cannot be read without the password");
	if (!(z = zip_find(&x->zip, "content.xml")))
		return err_set(e, ERR_DOCUMENT, "is damaged: it lacks 'content.xml'");
	*content = *z;
	*styles = (struct zip_entry){ 0 };
	if ((z = zip_find(&x->zip, "styles.xml")))
		*styles = *z;
	return 0;
}

static int read_odf(struct odf *x, char *p, size_t n, struct doc *d, struct err *e)
{
	static const struct xml_handler handler = { .start = on_start, .end = on_end, .text = on_text };
	char name[] = "content.xml";
	struct zip_entry content = { .name = name }, styles = { 0 };
	const struct str *notes = &x->notes->doc->text;
	struct err why = { 0 };
	size_t end;

	if (find_parts(x, p, n, &content, &styles, e))
		return -1;
	x->counters = odf_lists_new();
	x->styles = odf_styles_read(styles.p && styles.p != content.p ? &styles : NULL, &content);
	xml_parse(content.name, content.p, content.n, &handler, x, &why);
	if (x->document->heading)
		writer_heading_end(x->document);
	end = d->text.n;
	x->document->pre = 1;
	writer_gap(x->document, GAP_BLOCK);
	str_clear(&x->document->prefix);
	writer_text(x->document, str_text(notes), notes->n);
	writer_end(x->document);
	check_pages(x, &content, end);
	doc_note_left_out(d, x->comments, "comment");
	return doc_finish(d, x->hidden, &why, e);
}

int odf_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct doc notes = { 0 };
	struct writer document = { .doc = d }, notes_writer = { .doc = &notes };
	struct odf *x = xcalloc(1, sizeof *x);
	int rc;

	x->w = x->document = &document;
	x->notes = &notes_writer;
	rc = read_odf(x, (char *)(uintptr_t)p, n, d, e);
	writer_end(&notes_writer);
	doc_free(&notes);
	odf_styles_free(x->styles);
	odf_lists_free(x->counters);
	zip_free(&x->zip);
	for (size_t i = 0; i < LEN(x->cells); i++)
		free(x->cells[i].value);
	free(x->sheet);
	free(x);
	return rc;
}
