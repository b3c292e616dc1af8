/* sessions/import/pptx.c - converts PowerPoint presentations (PresentationML and DrawingML, ECMA-376 part 1, chapters
 * 19 and 21).
 *
 * Each slide becomes a page. Its title becomes a heading; its shapes follow in the order of the file, with lists and
 * tables; then the speaker notes follow, after "Notes: ". Dates, footers and slide numbers are left out. */
#include "sessions/import/pptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLIDES_MAX 10000

enum part { PART_TITLE, PART_BODY, PART_NOTES }; /* which part of a slide is being written */

struct pptx {
	struct writer *w;
	struct zip zip;
	struct opc parts;    /* relationships of the presentation: the ids of its slides and other parts */
	unsigned char *done; /* done[i] is 1 if entry i of the archive is a slide that was read */
	size_t slides, hidden, missing;
	struct err why; /* the reason why a slide is damaged */
	enum part part;

	/* state of the shape that is being read; skip: number of open elements inside an element without text */
	int skip; /* number of open elements inside an element without text */
	int in_shape, is_title, is_furniture, is_list;
	struct pptx_placeholder placeholder; /* the placeholder of the slide layout that the shape fills */
	struct pptx_layout layout;           /* what the slide inherits from its layout */
	enum bullet inherited[LIST_LEVELS];  /* for each level, the bullet that the list styles of the shape set */
	int in_styles;                       /* 1: inside the list styles of the shape */
	int style_level;
	struct list_level number[LIST_LEVELS];

	/* state of the paragraph that is being read */
	int begun, in_text, raised, last_was_item;
	long level;
	enum bullet bullet;
	const char *lead; /* text to write before the next text, "Notes: "; NULL: none */
};

/* ---- paragraphs ---- */

static int is_written(const struct pptx *x)
{
	if (x->part == PART_NOTES)
		return x->in_shape && x->is_list;
	return !x->is_furniture && x->is_title == (x->part == PART_TITLE);
}

static enum bullet bullet_of(const struct pptx *x)
{
	enum bullet bullet;

	if (x->is_title || x->part == PART_NOTES)
		return BULLET_NONE;
	if (x->bullet != BULLET_INHERITED)
		return x->bullet;
	if (x->inherited[x->level] != BULLET_INHERITED)
		return x->inherited[x->level];
	bullet = x->is_list ? pptx_layout_bullet(&x->layout, &x->placeholder, x->level) : BULLET_NONE;
	return bullet == BULLET_INHERITED ? BULLET_SIGN : bullet;
}

/* Set the text that the writer puts before a list item: indent and number, or "- ". */
static void begin_item(struct pptx *x, enum bullet bullet)
{
	struct str *prefix = &x->w->prefix;

	for (long i = 0; i < x->level; i++)
		str_adds(prefix, "  ");
	if (bullet == BULLET_NUMBER) {
		list_levels_count(x->number, (int)x->level);
		list_label(x->number, (int)x->level, prefix);
	} else {
		list_levels_restart(x->number, (int)x->level);
		str_adds(prefix, "- ");
	}
}

/* Begin the paragraph. Called at the paragraph's first text. */
static void begin_paragraph(struct pptx *x)
{
	enum bullet bullet = bullet_of(x);
	int item = bullet == BULLET_SIGN || bullet == BULLET_NUMBER;

	if (x->begun)
		return;
	x->begun = 1;
	if (x->is_title && x->part == PART_TITLE && !x->w->heading)
		writer_heading_begin(x->w, 1);
	else if (!x->is_title)
		writer_gap(x->w, item && x->last_was_item ? GAP_LINE : GAP_BLOCK);
	str_clear(&x->w->prefix);
	if (x->lead)
		str_adds(&x->w->prefix, x->lead);
	x->lead = NULL;
	if (item)
		begin_item(x, bullet);
	else if (x->level == 0)
		list_levels_begin(x->number);
	x->last_was_item = item;
}

static void write_text(struct pptx *x, const char *s, size_t n)
{
	if (!n || !is_written(x))
		return;
	begin_paragraph(x);
	if (x->raised)
		writer_raise(x->w, s, n);
	x->raised = 0;
	writer_text(x->w, s, n);
}

static void paragraph_start(struct pptx *x)
{
	x->begun = 0;
	x->level = 0;
	x->bullet = BULLET_INHERITED;
}

static void paragraph_end(struct pptx *x)
{
	if (!is_written(x))
		return;
	/* a title of several paragraphs becomes one heading */
	writer_gap(x->w, x->w->heading ? GAP_SPACE : GAP_LINE);
	str_clear(&x->w->prefix);
}

/* ---- lists ---- */

static long level_of(const struct xml_attr *a)
{
	long level = xml_number(a, 0);

	return level < 0 ? 0 : MIN(level, LIST_LEVELS - 1);
}

/* Read how the items of a list are numbered: "arabicPeriod", "alphaLcParenR", "romanUcPeriod". */
static void take_number(struct pptx *x, const struct xml_attr *a, size_t n)
{
	const struct xml_attr *type = xml_attr(a, n, "type");
	struct list_level *l = &x->number[x->level];
	char s[32] = "";

	if (type)
		memcpy(s, type->value, MIN(type->n, sizeof s - 1));
	l->format = strstr(s, "alphaLc")   ? LIST_LETTER
	            : strstr(s, "alphaUc") ? LIST_CAPITAL_LETTER
	            : strstr(s, "romanLc") ? LIST_ROMAN
	            : strstr(s, "romanUc") ? LIST_CAPITAL_ROMAN
	                                   : LIST_DECIMAL;
	snprintf(l->pattern, sizeof l->pattern, "%s%%%ld%s", strstr(s, "ParenBoth") ? "(" : "", x->level + 1,
	         strstr(s, "Paren")    ? ")"
	         : strstr(s, "Period") ? "."
	                               : "");
	if (list_start(xml_attr(a, n, "startAt")) != l->start) {
		l->start = list_start(xml_attr(a, n, "startAt"));
		l->count = l->start - 1;
	}
}

static void take_bullet(struct pptx *x, enum bullet bullet)
{
	if (x->in_styles)
		x->inherited[x->style_level] = bullet;
	else
		x->bullet = bullet;
}

/* Read a property of a paragraph, or of a level of the shape's list styles. */
static int property_start(struct pptx *x, const char *name, const struct xml_attr *a, size_t n)
{
	if (!strcmp(name, "lstStyle")) {
		x->in_styles = 1;
	} else if (!strcmp(name, "pPr")) {
		x->level = level_of(xml_attr(a, n, "lvl"));
	} else if (x->in_styles && !strncmp(name, "lvl", 3) && name[3] >= '1' && name[3] <= '9') {
		x->style_level = name[3] - '1';
	} else if (!strcmp(name, "buNone")) {
		take_bullet(x, BULLET_NONE);
	} else if (!strcmp(name, "buChar") || !strcmp(name, "buBlip")) {
		take_bullet(x, BULLET_SIGN);
	} else if (!strcmp(name, "buAutoNum")) {
		take_bullet(x, BULLET_NUMBER);
		if (!x->in_styles)
			take_number(x, a, n);
	} else {
		return 0;
	}
	return 1;
}

/* ---- shapes ---- */

static void shape_start(struct pptx *x)
{
	x->in_shape = 1;
	x->is_title = x->is_furniture = x->is_list = 0;
	memset(x->inherited, 0, sizeof x->inherited);
	list_levels_begin(x->number);
	x->last_was_item = 0;
}

static void shape_end(struct pptx *x)
{
	if (x->w->heading)
		writer_heading_end(x->w);
	writer_gap(x->w, GAP_BLOCK);
	shape_start(x);
	x->in_shape = 0;
}

/* Read from <p:ph> which placeholder of the slide layout the shape fills. In a body placeholder, paragraphs are list
 * items by default. */
static void take_placeholder(struct pptx *x, const struct xml_attr *a, size_t n)
{
	static const char *const furniture[] = { "dt", "ftr", "hdr", "sldNum", "sldImg" };

	pptx_placeholder_read(&x->placeholder, a, n);
	x->is_title = xml_attr_is(a, n, "type", "title") || xml_attr_is(a, n, "type", "ctrTitle");
	x->is_list = !xml_attr(a, n, "type") || xml_attr_is(a, n, "type", "body") || xml_attr_is(a, n, "type", "obj");
	for (size_t i = 0; i < LEN(furniture); i++)
		x->is_furniture |= xml_attr_is(a, n, "type", furniture[i]);
}

static void table_start(struct pptx *x, const char *name)
{
	if (x->part != PART_BODY)
		return;
	if (!strcmp(name, "tbl")) {
		writer_table_begin(x->w);
		x->is_list = 0;
	} else if (!strcmp(name, "tr")) {
		writer_row_begin(x->w);
	} else if (!strcmp(name, "tc")) {
		writer_cell_begin(x->w);
	}
}

static void table_end(struct pptx *x, const char *name)
{
	if (x->part != PART_BODY)
		return;
	if (!strcmp(name, "tbl"))
		writer_table_end(x->w);
	else if (!strcmp(name, "tr"))
		writer_row_end(x->w);
}

static void slide_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct pptx *x = ud;

	if (x->skip || !strcmp(name, "Fallback")) {
		x->skip++;
	} else if (!strcmp(name, "sld")) {
		x->hidden +=
			x->part == PART_TITLE && (xml_attr_is(a, n, "show", "0") || xml_attr_is(a, n, "show", "false"));
	} else if (!strcmp(name, "sp") || !strcmp(name, "graphicFrame")) {
		shape_start(x);
	} else if (!strcmp(name, "ph")) {
		take_placeholder(x, a, n);
	} else if (property_start(x, name, a, n)) {
		return;
	} else if (!strcmp(name, "p")) {
		paragraph_start(x);
	} else if (!strcmp(name, "rPr")) {
		x->raised = xml_number(xml_attr(a, n, "baseline"), 0) > 0;
	} else if (!strcmp(name, "t")) {
		x->in_text = 1;
	} else if (!strcmp(name, "br") && is_written(x)) {
		writer_line(x->w, x->begun);
	} else {
		table_start(x, name);
	}
}

static void slide_end(void *ud, const char *name)
{
	struct pptx *x = ud;

	if (x->skip)
		x->skip--;
	else if (!strcmp(name, "sp") || !strcmp(name, "graphicFrame"))
		shape_end(x);
	else if (!strcmp(name, "lstStyle"))
		x->in_styles = 0;
	else if (!strcmp(name, "p"))
		paragraph_end(x);
	else if (!strcmp(name, "t"))
		x->in_text = 0;
	else if (!strcmp(name, "r"))
		x->raised = 0;
	else
		table_end(x, name);
}

static void slide_text(void *ud, const char *s, size_t n)
{
	struct pptx *x = ud;

	if (x->in_text && !x->skip)
		write_text(x, s, n);
}

/* ---- slides ---- */

static int read_part(struct pptx *x, const struct zip_entry *z, enum part part, struct err *why)
{
	static const struct xml_handler handler = { .start = slide_start, .end = slide_end, .text = slide_text };
	int rc;

	x->part = part;
	x->skip = x->in_styles = x->in_text = x->raised = 0;
	shape_end(x);
	rc = xml_parse(z->name, z->p, z->n, &handler, x, why);
	while (x->w->tables)
		writer_table_end(x->w);
	return rc;
}

static void read_slide(struct pptx *x, const struct zip_entry *z)
{
	const struct zip_entry *notes;
	struct opc parts;
	char label[24];

	opc_read(&parts, &x->zip, z->name);
	pptx_layout_read(&x->layout, &parts);
	writer_page(x->w, label, (size_t)snprintf(label, sizeof label, "%zu", x->slides));
	read_part(x, z, PART_TITLE, NULL);
	if (read_part(x, z, PART_BODY, &x->why))
		doc_note(x->w->doc, "the document %s: the text of this slide ends there", x->why.msg);
	if ((notes = opc_by_type(&parts, "notesSlide"))) {
		x->lead = "Notes: ";
		read_part(x, notes, PART_NOTES, NULL);
		x->lead = NULL;
	}
	opc_free(&parts);
}

static void presentation_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct pptx *x = ud;
	const struct zip_entry *z = NULL;

	if (strcmp(name, "sldId") || x->w->full || x->slides >= SLIDES_MAX)
		return;
	/* the element has two attributes with the name id: a number, and the id of a relationship */
	for (size_t i = 0; i < n && !z; i++)
		z = !strcmp(a[i].name, "id") ? opc_by_id(&x->parts, &a[i]) : NULL;
	x->slides++;
	x->missing += !z;
	if (!z || x->done[z - x->zip.entry])
		return;
	x->done[z - x->zip.entry] = 1;
	read_slide(x, z);
}

/* ---- the file ---- */

static void add_notes(struct pptx *x)
{
	struct doc *d = x->w->doc;

	if (x->hidden)
		doc_note(d, "%zu hidden slide%s in the text", x->hidden, x->hidden == 1 ? " is" : "s are");
	if (x->missing)
		doc_note(d, "%zu slide%s missing in the file", x->missing, x->missing == 1 ? " is" : "s are");
	doc_note_left_out(d, opc_count(&x->zip, "ppt/charts/chart", "chartSpace"), "chart");
	doc_note_left_out(d, opc_count(&x->zip, "ppt/diagrams/data", "t"), "SmartArt diagram");
	doc_note_left_out(d, opc_elements(&x->zip, "ppt/comments", "cm"), "comment");
}

static int read_pptx(struct pptx *x, const char *p, size_t n, struct err *e)
{
	static const struct xml_handler presentation = { .start = presentation_start };
	const struct zip_entry *z;
	struct doc *d = x->w->doc;
	struct err why = { 0 };

	if (zip_read(&x->zip, p, n, opc_want, e))
		return -1;
	if (!(z = opc_main(&x->zip, "ppt/presentation.xml")))
		return err_set(e, ERR_DOCUMENT, "is damaged: it lacks 'ppt/presentation.xml'");
	x->done = xcalloc(x->zip.n, 1);
	opc_read(&x->parts, &x->zip, z->name);
	xml_parse(z->name, z->p, z->n, &presentation, x, &why);
	writer_end(x->w);
	opc_properties(&x->zip, d);
	add_notes(x);
	return doc_finish(d, 0, why.code || d->text.n ? &why : &x->why, e);
}

int pptx_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct writer w = { .doc = d };
	struct pptx x = { .w = &w };
	int rc = read_pptx(&x, p, n, e);

	opc_free(&x.parts);
	zip_free(&x.zip);
	free(x.done);
	return rc;
}
