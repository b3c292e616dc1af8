/* sessions/import/docx.c - converts DOCX: paragraphs, headings, lists, tables, notes and pages of WordprocessingML.
 *
 * Writes the text that a reader sees: deleted text, field codes and hidden text are left out. If the file offers
 * alternatives of some content, the first is written. Footnotes and endnotes appear as "[1]" where they are referred
 * to; their text follows at the end. */
#include "sessions/import/docx.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STYLES_MAX 4096
#define NOTES_MAX  65536
#define DEPTH_MAX  64 /* maximum depth of nested parts of a formula */
#define BOXES_MAX  8  /* the outer paragraph of a text box is restored up to this depth of nested text boxes */

struct style {
	char *id, *based;
	int level; /* level of a heading; 0 = the style is not one of headings */
	int kept;  /* 1 = white space is kept, as in program text */
	/* list and list level of paragraphs with this style; `num` is 0 if there is no list, and -1 if the list is
	 * inherited */
	long num, ilvl;
};
struct note {
	char kind; /* 'f' is a footnote, 'e' an endnote */
	long id;
};

struct paragraph {
	int begun; /* 1 = the first text of the paragraph was written */
	/* `heading` is the level of a heading, 0 = none; `item` is 1 for a list item; `kept` is 1 if white space is
	 * kept */
	int heading, item, kept;
	long num, level;
};

struct docx {
	struct writer *w;
	struct zip zip;
	struct opc rels; /* the parts of the file to which the text refers by id */
	struct style *style;
	size_t n_style;
	struct docx_lists *lists;
	struct note *note;
	size_t n_note;

	int skip;          /* number of open elements inside an element that is skipped */
	int in_properties; /* number of open elements inside properties of a paragraph, run, table ... */
	int run_hidden, run_raised, in_text;
	size_t part[DEPTH_MAX]; /* text offsets at which the open parts of formulas begin */
	int parts, integral;
	size_t hidden;
	int rendered_pages; /* 1 = the file contains the page breaks of its last layout */
	int page;
	/* number of open paragraphs; it is more than 1 inside a text box, because a text box is inside a paragraph */
	int paragraphs;
	/* p is the innermost paragraph, and outer[] has the paragraphs around it */
	struct paragraph p, outer[BOXES_MAX];
	int last_was_item, last_was_kept;
	/* element name and id of the note whose text is being written */
	const char *note_part;
	long note_id;
	int in_note;
	size_t note_number;
	int font; /* result of symbol_font() for the font of the current run of text */
	struct docx_form form;
	size_t form_end;       /* offset in the text at which the form field begins */
	size_t chunks_missing; /* number of inserted documents that could not be read */
};

int docx_is_on(const struct xml_attr *a, size_t n)
{
	return !(xml_attr_is(a, n, "val", "0") || xml_attr_is(a, n, "val", "false") ||
	         xml_attr_is(a, n, "val", "off") || xml_attr_is(a, n, "val", "none"));
}

/* ---- styles.xml ---- */

/* 1 if pandoc, Word or LibreOffice uses this style name for program text. */
static int is_program_text(const struct xml_attr *name)
{
	static const char *const names[] = { "Source Code", "HTML Preformatted", "Preformatted Text", "Code" };

	for (size_t i = 0; i < LEN(names); i++)
		if (name->n == strlen(names[i]) && !strncasecmp(name->value, names[i], name->n))
			return 1;
	return 0;
}

static void styles_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct docx *x = ud;
	const struct xml_attr *v = xml_attr(a, n, "val");
	struct style *s = x->n_style ? &x->style[x->n_style - 1] : NULL;

	if (!strcmp(name, "style") && (v = xml_attr(a, n, "styleId")) && x->n_style < STYLES_MAX) {
		if (!x->style)
			x->style = xcalloc(STYLES_MAX, sizeof *x->style);
		x->style[x->n_style++] = (struct style){ .id = xstrndup(v->value, v->n), .num = -1 };
	} else if (!s || !v) {
		return;
	} else if (!strcmp(name, "name")) {
		if (v->n == 9 && !strncasecmp(v->value, "heading ", 8) && v->value[8] >= '1' && v->value[8] <= '9')
			s->level = v->value[8] - '0';
		else if (v->n == 5 && !strncasecmp(v->value, "title", 5))
			s->level = 1;
		s->kept = is_program_text(v);
	} else if (!strcmp(name, "basedOn") && !s->based) {
		s->based = xstrndup(v->value, v->n);
	} else if (!strcmp(name, "numId")) {
		s->num = xml_number(v, 0);
	} else if (!strcmp(name, "ilvl")) {
		s->ilvl = xml_number(v, 0);
	} else if (!strcmp(name, "outlineLvl") && !s->level) {
		long level = xml_number(v, 9);
		s->level = level >= 0 && level < 9 ? (int)level + 1 : 0;
	}
}

static const struct style *style_of(const struct docx *x, const char *id, size_t n)
{
	for (size_t i = 0; i < x->n_style; i++)
		if (strlen(x->style[i].id) == n && !memcmp(x->style[i].id, id, n))
			return &x->style[i];
	return NULL;
}

/* Apply a paragraph's style and its base styles. */
static void apply_style(struct docx *x, const char *id, size_t n)
{
	const struct style *s = style_of(x, id, n);
	int list = 0;

	x->p.heading = x->p.kept = 0;
	for (int i = 0; s && i < 8; i++) {
		if (!x->p.heading && s->level)
			x->p.heading = MIN(s->level, 6);
		x->p.kept |= s->kept;
		if (!list && s->num >= 0) {
			x->p.num = s->num;
			x->p.level = s->ilvl;
			list = 1;
		}
		s = s->based ? style_of(x, s->based, strlen(s->based)) : NULL;
	}
	x->p.item = x->p.num > 0;
}

/* ---- lists ---- */

/* Set the text that the writer puts before a list item or a numbered heading: indent and number, "2.a) ". */
static void begin_item(struct docx *x)
{
	struct str *prefix = &x->w->prefix;

	str_clear(prefix);
	for (long i = 0; i < x->p.level && i < 8 && !x->p.heading; i++)
		str_adds(prefix, "  ");
	if (!docx_lists_label(x->lists, x->p.num, x->p.level, prefix) && !x->p.heading)
		str_adds(prefix, "- ");
}

/* ---- the text ---- */

static void new_page(struct docx *x)
{
	char label[16];

	writer_page(x->w, label, (size_t)snprintf(label, sizeof label, "%d", ++x->page));
}

static int is_pre(const struct docx *x)
{
	return x->p.kept && !x->p.heading && !x->w->tables;
}

/* Begin the paragraph. Called at the paragraph's first text, when all its properties have been read. */
static void begin_paragraph(struct docx *x)
{
	if (x->p.begun)
		return;
	x->p.begun = 1;
	if (x->p.heading) {
		writer_heading_begin(x->w, x->p.heading);
		if (x->p.item)
			begin_item(x);
	} else if (x->p.item) {
		writer_gap(x->w, x->last_was_item ? GAP_LINE : GAP_BLOCK);
		begin_item(x);
	} else {
		writer_gap(x->w, x->p.kept && x->last_was_kept ? GAP_LINE : GAP_BLOCK);
	}
	x->last_was_item = x->p.item && !x->p.heading;
	x->last_was_kept = x->p.kept;
	x->w->pre = is_pre(x);
}

static void write_text(struct docx *x, const char *s, size_t n)
{
	if (!n || x->skip || x->in_properties || x->form.open)
		return;
	if (x->run_hidden) {
		x->hidden += utf8_characters(s, n);
		return;
	}
	begin_paragraph(x);
	if (x->run_raised)
		writer_raise(x->w, s, n);
	x->run_raised = 0;
	writer_text(x->w, s, n);
}

/* Write text in a symbol font, whose characters are pictures. Word stores them as U+F020 to U+F0FF, or as single
 * bytes. */
static void write_pictures(struct docx *x, const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		int32_t cp;
		size_t k = (size_t)utf8_decode(s + i, n - i, &cp);
		const char *text =
			cp >= 0xf020 && cp <= 0xf0ff ? symbol_text(x->font, (unsigned char)(cp & 0xff)) : NULL;

		if (text)
			write_text(x, text, strlen(text));
		else
			write_text(x, s + i, k);
		i += k;
	}
}

/* Write the value of a form field at the end of the field, unless the file has text for the field. */
static void write_form(struct docx *x)
{
	const char *value = form_field_value(&x->form.field);

	if (value && x->w->doc->text.n == x->form_end)
		write_text(x, value, strlen(value));
	form_field_clear(&x->form.field);
}

/* ---- formulas (OMML) ---- */

/* Return the sign to write before part `name` of a formula ("/" before a denominator). Return NULL if `name` is not a
 * part of a formula. */
static const char *part_sign(const char *name)
{
	static const char *const signs[][2] = {
		{ "num", "" }, { "den", "/" }, { "sup", "^" }, { "sub", "_" }, { "deg", "\xe2\x88\x9a" }
	};

	for (size_t i = 0; i < LEN(signs); i++)
		if (!strcmp(name, signs[i][0]))
			return signs[i][1];
	return NULL;
}

static void formula_part_begin(struct docx *x, const char *name)
{
	if (x->parts < DEPTH_MAX) {
		begin_paragraph(x);
		x->part[x->parts] = writer_part_begin(x->w, part_sign(name));
	}
	x->parts++;
}

/* Write the sign of a sum or integral, or an opening bracket. OMML stores the sign as an attribute; if the attribute is
 * missing, the sign is an integral sign. */
static void formula_sign(struct docx *x, const char *name, const struct xml_attr *a, size_t n)
{
	const struct xml_attr *v = xml_attr(a, n, "val");

	if (!strcmp(name, "naryPr")) {
		x->integral = 1;
	} else if (!strcmp(name, "chr") && x->integral && v) {
		x->integral = 0;
		write_text(x, v->value, v->n);
	} else if (!strcmp(name, "d")) {
		write_text(x, "(", 1);
	}
}

static void formula_end(struct docx *x, const char *name)
{
	if (!strcmp(name, "naryPr") && x->integral)
		write_text(x, "\xe2\x88\xab", 3);
	else if (!strcmp(name, "d"))
		write_text(x, ")", 1);
	x->integral = 0;
}

static void formula_part_end(struct docx *x)
{
	if (x->parts && --x->parts < DEPTH_MAX)
		writer_part_end(x->w, x->part[x->parts]);
}

static void write_reference(struct docx *x, char kind, long id)
{
	char s[32];

	if (x->note_part || x->n_note >= NOTES_MAX || x->skip || x->run_hidden)
		return;
	x->note = xrealloc(x->note, (x->n_note + 1) * sizeof *x->note);
	x->note[x->n_note++] = (struct note){ kind, id };
	write_text(x, s, (size_t)snprintf(s, sizeof s, "[%zu]", x->n_note));
}

static int is_skipped(const char *name)
{
	static const char *const names[] = { "del",     "moveFrom",     "Fallback", "instrText",
		                             "delText", "delInstrText", "rubyPr",   "rt" };

	for (size_t i = 0; i < LEN(names); i++)
		if (!strcmp(name, names[i]))
			return 1;
	return 0;
}

static int is_properties(const char *name)
{
	static const char *const names[] = { "pPr", "rPr", "tblPr", "trPr", "tcPr", "sectPr", "tblGrid", "sdtPr" };

	for (size_t i = 0; i < LEN(names); i++)
		if (!strcmp(name, names[i]))
			return 1;
	return 0;
}

static void apply_property(struct docx *x, const char *name, const struct xml_attr *a, size_t n)
{
	const struct xml_attr *v = xml_attr(a, n, "val");

	if (!strcmp(name, "pStyle") && v) {
		apply_style(x, v->value, v->n);
	} else if (!strcmp(name, "outlineLvl")) {
		long level = xml_number(v, 9);
		if (level >= 0 && level < 9)
			x->p.heading = level < 6 ? (int)level + 1 : 6;
	} else if (!strcmp(name, "numId")) {
		x->p.num = xml_number(v, 0);
		x->p.item = x->p.num > 0;
	} else if (!strcmp(name, "ilvl")) {
		x->p.level = xml_number(v, 0);
	} else if (!strcmp(name, "pageBreakBefore") && docx_is_on(a, n) && !x->rendered_pages && x->page) {
		new_page(x);
	} else if (!strcmp(name, "vanish") || !strcmp(name, "webHidden")) {
		x->run_hidden = docx_is_on(a, n) && strcmp(name, "webHidden") != 0;
	} else if (!strcmp(name, "rFonts")) {
		v = xml_attr(a, n, "ascii");
		x->font = v ? symbol_font(v->value, v->n) : 0;
	} else if (!strcmp(name, "vertAlign")) {
		x->run_raised = xml_attr_is(a, n, "val", "superscript");
	} else if (!strcmp(name, "position")) { /* LibreOffice's form of a superscript */
		x->run_raised = xml_number(v, 0) > 0;
	}
}

static void paragraph_start(struct docx *x)
{
	/* A text box is inside a paragraph and has its own paragraphs: keep the outer paragraph's state, and end
	 * its heading and line. */
	if (x->paragraphs && x->paragraphs <= BOXES_MAX)
		x->outer[x->paragraphs - 1] = x->p;
	if (x->paragraphs++) {
		if (x->w->heading)
			writer_heading_end(x->w);
		writer_gap(x->w, GAP_LINE);
	}
	x->p = (struct paragraph){ 0 };
	x->w->pre = 0;
}

static void paragraph_end(struct docx *x)
{
	if (x->w->heading)
		writer_heading_end(x->w);
	/* An empty paragraph separates lists and blocks. */
	if (!x->p.begun)
		writer_gap(x->w, GAP_BLOCK);
	str_clear(&x->w->prefix);
	x->w->pre = 0;
	writer_gap(x->w, GAP_LINE);
	if (x->paragraphs)
		x->paragraphs--;
	x->run_hidden = 0;
	if (x->paragraphs && x->paragraphs <= BOXES_MAX) {
		x->p = x->outer[x->paragraphs - 1];
		x->w->pre = x->p.begun && is_pre(x);
	} else {
		x->p.begun = 1;
	}
}

/* Return the low byte of a hexadecimal number such as "F06D". */
static unsigned char low_byte(const struct xml_attr *a)
{
	char s[16] = "";

	if (a->n < sizeof s)
		memcpy(s, a->value, a->n);
	return (unsigned char)(strtol(s, NULL, 16) & 0xff);
}

static void write_symbol(struct docx *x, const char *name, const struct xml_attr *a, size_t n)
{
	if (!strcmp(name, "tab")) {
		write_text(x, " ", 1);
	} else if (!strcmp(name, "sym") && xml_attr(a, n, "char")) {
		const struct xml_attr *font = xml_attr(a, n, "font");
		const char *s =
			symbol_text(font ? symbol_font(font->value, font->n) : 0, low_byte(xml_attr(a, n, "char")));

		write_text(x, s, strlen(s));
	} else if (!strcmp(name, "noBreakHyphen")) {
		write_text(x, "-", 1);
	} else if (!strcmp(name, "cr") || !strcmp(name, "br")) {
		if (xml_attr_is(a, n, "type", "page")) {
			if (!x->rendered_pages)
				new_page(x);
		} else if (!x->run_hidden) {
			writer_line(x->w, x->p.begun);
		}
	} else if (!strcmp(name, "lastRenderedPageBreak")) {
		new_page(x);
	} else if (!strcmp(name, "footnoteReference")) {
		write_reference(x, 'f', xml_number(xml_attr(a, n, "id"), -1));
	} else if (!strcmp(name, "endnoteReference")) {
		write_reference(x, 'e', xml_number(xml_attr(a, n, "id"), -1));
	} else if (!strcmp(name, "fldChar") && xml_attr_is(a, n, "fldCharType", "end")) {
		write_form(x);
	} else if (!strcmp(name, "altChunk") && !x->note_part) {
		x->chunks_missing += docx_chunk(x->w, &x->rels, xml_attr(a, n, "id")) != 0;
	}
}

static void text_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct docx *x = ud;

	if (x->note_part && !strcmp(name, x->note_part))
		x->in_note = xml_number(xml_attr(a, n, "id"), -1) == x->note_id;
	if (x->note_part && !x->in_note)
		return;
	if (x->skip || is_skipped(name)) {
		x->skip++;
		return;
	}
	if (docx_form_start(&x->form, name, a, n)) {
		x->form_end = x->w->doc->text.n;
	} else if (is_properties(name)) {
		x->in_properties++;
		if (!strcmp(name, "rPr"))
			x->run_hidden = 0;
	} else if (x->in_properties) {
		apply_property(x, name, a, n);
	} else if (!strcmp(name, "p")) {
		paragraph_start(x);
	} else if (!strcmp(name, "r")) {
		x->run_hidden = x->run_raised = x->font = 0;
	} else if (part_sign(name)) {
		formula_part_begin(x, name);
	} else if (!strcmp(name, "t")) {
		x->in_text++;
	} else if (!strcmp(name, "tbl")) {
		writer_table_begin(x->w);
	} else if (!strcmp(name, "tr")) {
		writer_row_begin(x->w);
	} else if (!strcmp(name, "tc")) {
		writer_cell_begin(x->w);
	} else {
		write_symbol(x, name, a, n);
		formula_sign(x, name, a, n);
	}
}

static void text_end(void *ud, const char *name)
{
	struct docx *x = ud;

	if (x->note_part && !x->in_note)
		return;
	if (x->note_part && !strcmp(name, x->note_part)) {
		x->in_note = 0;
		return;
	}
	if (x->skip) {
		x->skip--;
		return;
	}
	if (docx_form_end(&x->form, name)) {
		return;
	} else if (is_properties(name)) {
		x->in_properties -= x->in_properties > 0;
		/* properties of the paragraph mark do not apply to the text of the paragraph */
		if (!strcmp(name, "pPr"))
			x->run_hidden = x->run_raised = x->font = 0;
	} else if (x->in_properties) {
		return;
	} else if (part_sign(name)) {
		formula_part_end(x);
	} else if (!strcmp(name, "t")) {
		x->in_text -= x->in_text > 0;
	} else if (!strcmp(name, "p")) {
		paragraph_end(x);
	} else if (!strcmp(name, "tbl")) {
		writer_table_end(x->w);
	} else if (!strcmp(name, "tr")) {
		writer_row_end(x->w);
	} else {
		formula_end(x, name);
	}
}

static void text_text(void *ud, const char *s, size_t n)
{
	struct docx *x = ud;

	if (!x->in_text || (x->note_part && !x->in_note))
		return;
	if (x->font)
		write_pictures(x, s, n);
	else
		write_text(x, s, n);
}

static const struct xml_handler text_handler = { .start = text_start, .end = text_end, .text = text_text };

/* ---- notes ---- */

/* Find a part of the file by the type of its relationship to the text, or else by its usual name. Returns NULL if the
 * file does not have it. */
static const struct zip_entry *part_of(const struct docx *x, const char *type, const char *usual)
{
	const struct zip_entry *z = opc_by_type(&x->rels, type);

	return z ? z : zip_find(&x->zip, usual);
}

/* Append "[3] text of the note" for each reference, in order. */
static void add_notes(struct docx *x)
{
	const struct zip_entry *footnotes = part_of(x, "footnotes", "word/footnotes.xml"),
			       *endnotes = part_of(x, "endnotes", "word/endnotes.xml");

	for (size_t i = 0; i < x->n_note && !x->w->full; i++) {
		int foot = x->note[i].kind == 'f';
		const struct zip_entry *z = foot ? footnotes : endnotes;

		if (!z)
			continue;
		x->note_part = foot ? "footnote" : "endnote";
		x->note_id = x->note[i].id;
		x->in_note = x->skip = x->in_properties = x->in_text = x->paragraphs = x->last_was_item = x->parts = 0;
		writer_gap(x->w, GAP_BLOCK);
		str_clear(&x->w->prefix);
		str_addf(&x->w->prefix, "[%zu] ", i + 1);
		xml_parse(z->name, z->p, z->n, &text_handler, x, NULL);
	}
	str_clear(&x->w->prefix);
}

/* ---- the file ---- */

static int want_docx_entry(const char *name)
{
	return opc_want(name) || docx_is_chunk(name);
}

static int read_docx(struct docx *x, const char *p, size_t n, struct doc *d, struct err *e)
{
	static const struct xml_handler styles = { .start = styles_start };
	const struct zip_entry *main, *z;
	struct err why = { 0 };

	if (zip_read(&x->zip, p, n, want_docx_entry, e))
		return -1;
	if (!(main = opc_main(&x->zip, "word/document.xml")))
		return err_set(e, ERR_DOCUMENT, "is damaged: it lacks 'word/document.xml'");
	opc_read(&x->rels, &x->zip, main->name);
	if ((z = part_of(x, "styles", "word/styles.xml")))
		xml_parse(z->name, z->p, z->n, &styles, x, NULL);
	x->lists = docx_lists_read(part_of(x, "numbering", "word/numbering.xml"));
	x->rendered_pages = main->n && memmem(main->p, main->n, "lastRenderedPageBreak", 21) != NULL;
	new_page(x);
	xml_parse(main->name, main->p, main->n, &text_handler, x, &why);
	add_notes(x);
	writer_end(x->w);
	/* without any page break, the number of pages is unknown: drop the mark */
	if (x->page == 1)
		doc_forget_pages(d);
	opc_properties(&x->zip, d);
	docx_note_parts(d, &x->zip);
	if (x->chunks_missing)
		doc_note(d, "%zu inserted document%s cannot be read", x->chunks_missing,
		         x->chunks_missing == 1 ? "" : "s");
	return doc_finish(d, x->hidden, &why, e);
}

int docx_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct writer w = { .doc = d };
	struct docx x = { .w = &w };
	int rc = read_docx(&x, p, n, d, e);

	for (size_t i = 0; i < x.n_style; i++) {
		free(x.style[i].id);
		free(x.style[i].based);
	}
	free(x.style);
	docx_lists_free(x.lists);
	form_field_clear(&x.form.field);
	free(x.note);
	opc_free(&x.rels);
	zip_free(&x.zip);
	return rc;
}
