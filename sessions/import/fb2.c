/* sessions/import/fb2.c - converts FictionBook 2: one XML file, which may be in a zip archive.
 *
 * The book's title becomes a heading; its authors and annotation follow. Titles of sections become headings whose level
 * is the depth of the section. Verses are lines. Notes follow at the end, as "[1] text". Pictures and other binary data
 * are left out. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 500

struct fb2 {
	struct writer *w;
	int in_info;              /* 1: inside <title-info>, the description of the book itself */
	int in_text;              /* 1: inside a body or the annotation, whose text is written */
	struct str title, author; /* the book's title and authors, from the description */
	/* the string that receives the text, title or author; NULL: neither of them is being read */
	struct str *into;
	int headed; /* 1: title and author have been written */
	/* `notes` is 1 if the current <body> contains notes; `sections` is the number of open <section> elements */
	int notes, sections;
	/* number of open elements inside poems, quotations and the like, whose titles are not headings */
	int inner;
	int in_title, skip; /* `skip` is the number of open elements inside a title that repeats the book's title */
	struct str label;   /* title of a note */
	/* `link` is 1 if the next text is a note's number. `bracket` is 1 if "[" was written and "]" must follow. */
	int raised, link, bracket;
};

static int is_any(const char *name, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(name, *names))
			return 1;
	return 0;
}

/* ---- the description ---- */

static void write_head(struct fb2 *x)
{
	if (x->headed || !(x->title.n || x->author.n))
		return;
	x->headed = 1;
	if (x->title.n) {
		writer_heading_begin(x->w, 1);
		writer_text(x->w, x->title.p, x->title.n);
		writer_heading_end(x->w);
	}
	writer_text(x->w, str_text(&x->author), x->author.n);
	writer_gap(x->w, GAP_BLOCK);
}

static void info_start(struct fb2 *x, const char *name)
{
	static const char *const names[] = { "first-name", "middle-name", "last-name", "nickname", NULL };

	if (!strcmp(name, "annotation")) {
		write_head(x);
		x->in_text = 1;
	} else if (!strcmp(name, "book-title")) {
		x->into = &x->title;
	} else if (!strcmp(name, "author")) {
		x->into = &x->author;
		if (x->author.n)
			str_adds(&x->author, ",");
	} else if (!strcmp(name, "translator")) {
		x->into = NULL;
	} else if (x->into == &x->author && is_any(name, names) && x->author.n) {
		str_adds(&x->author, " ");
	}
}

static void info_end(struct fb2 *x, const char *name)
{
	if (!strcmp(name, "annotation"))
		x->in_text = 0;
	else if (!strcmp(name, "book-title") || !strcmp(name, "author"))
		x->into = NULL;
	else if (!strcmp(name, "title-info"))
		x->in_info = 0;
	writer_gap(x->w, GAP_BLOCK);
}

/* ---- titles and notes ---- */

/* Put the label of a note, such as "1" or "[1]", before its text. */
static void label_note(struct fb2 *x)
{
	const char *s = str_text(&x->label);
	size_t n = x->label.n;

	while (n && byte_is_blank(s[n - 1]))
		n--;
	while (n && byte_is_blank(*s))
		s++, n--;
	writer_gap(x->w, GAP_BLOCK);
	str_clear(&x->w->prefix);
	if (n)
		str_addf(&x->w->prefix, *s == '[' ? "%.*s " : "[%.*s] ", (int)n, s);
	str_clear(&x->label);
}

static void title_start(struct fb2 *x)
{
	if (!x->sections && !x->notes && x->title.n) {
		x->skip = 1;
	} else if (!x->inner) {
		x->in_title = 1;
		if (!x->notes || !x->sections)
			writer_heading_begin(x->w, MIN(x->sections + 1, 6));
	}
}

static void title_end(struct fb2 *x)
{
	if (!x->in_title)
		return;
	x->in_title = 0;
	writer_heading_end(x->w);
	if (x->notes && x->sections)
		label_note(x);
}

static void link_end(struct fb2 *x)
{
	if (x->bracket)
		writer_text(x->w, "]", 1);
	x->link = x->bracket = 0;
}

/* ---- the text ---- */

static const char *const inner[] = { "poem", "stanza", "cite", "epigraph", "annotation", NULL };
static const char *const blocks[] = { "p",    "subtitle", "text-author", "empty-line", "section",    "image",
	                              "poem", "stanza",   "cite",        "epigraph",   "annotation", NULL };

static void block(struct fb2 *x, const char *name)
{
	if (!strcmp(name, "v"))
		writer_gap(x->w, GAP_LINE);
	else if (is_any(name, blocks))
		writer_gap(x->w, x->w->heading ? GAP_SPACE : GAP_BLOCK);
}

static void element_start(struct fb2 *x, const char *name, const struct xml_attr *a, size_t n)
{
	x->inner += is_any(name, inner);
	block(x, name);
	if (!strcmp(name, "section"))
		x->sections++;
	else if (!strcmp(name, "title"))
		title_start(x);
	else if (!strcmp(name, "table"))
		writer_table_begin(x->w);
	else if (!strcmp(name, "tr"))
		writer_row_begin(x->w);
	else if (!strcmp(name, "td") || !strcmp(name, "th"))
		writer_cell_begin(x->w);
	else if (!strcmp(name, "sup"))
		x->raised = !x->link;
	else if (!strcmp(name, "a"))
		x->link = xml_attr_is(a, n, "type", "note");
}

static void element_end(struct fb2 *x, const char *name)
{
	x->inner -= is_any(name, inner) && x->inner;
	block(x, name);
	if (!strcmp(name, "section"))
		x->sections -= x->sections > 0;
	else if (!strcmp(name, "title"))
		title_end(x);
	else if (!strcmp(name, "table"))
		writer_table_end(x->w);
	else if (!strcmp(name, "tr"))
		writer_row_end(x->w);
	else if (!strcmp(name, "sup"))
		x->raised = 0;
	else if (!strcmp(name, "a"))
		link_end(x);
	else if (!strcmp(name, "body"))
		x->in_text = 0;
}

static void body_start(struct fb2 *x, const struct xml_attr *a, size_t n)
{
	const struct xml_attr *name = xml_attr(a, n, "name");

	write_head(x);
	x->in_text = 1;
	x->notes = name && (memmem(name->value, name->n, "note", 4) || memmem(name->value, name->n, "comment", 7));
	x->sections = x->inner = 0;
	writer_gap(x->w, GAP_BLOCK);
}

static void on_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct fb2 *x = ud;

	if (x->skip)
		x->skip++;
	else if (x->in_text)
		element_start(x, name, a, n);
	else if (!strcmp(name, "body"))
		body_start(x, a, n);
	else if (x->in_info)
		info_start(x, name);
	else
		x->in_info = !strcmp(name, "title-info");
}

static void on_end(void *ud, const char *name)
{
	struct fb2 *x = ud;

	if (x->skip && --x->skip)
		return;
	if (x->in_text)
		element_end(x, name);
	if (x->in_info)
		info_end(x, name);
}

static void on_text(void *ud, const char *s, size_t n)
{
	struct fb2 *x = ud;

	if (x->in_title && x->notes && x->sections) {
		if (x->label.n < NAME_BYTES_MAX)
			str_add(&x->label, s, n);
	} else if (x->in_text && !x->skip) {
		if (x->link && !x->bracket && *s != '[') {
			writer_text(x->w, "[", 1);
			x->bracket = 1;
		}
		x->link = 0;
		if (x->raised)
			writer_raise(x->w, s, n);
		x->raised = 0;
		writer_text(x->w, s, n);
	} else if (x->into && x->into->n < NAME_BYTES_MAX) {
		str_add(x->into, s, n);
	}
}

/* ---- the file ---- */

static int want_book(const char *name)
{
	size_t n = strlen(name);

	return n > 4 && !strcasecmp(name + n - 4, ".fb2");
}

static int read_book(struct fb2 *x, const char *p, size_t n, struct err *e)
{
	static const struct xml_handler handler = { .start = on_start, .end = on_end, .text = on_text };
	struct str text = { 0 };
	struct err why = { 0 };
	const char *xml = xml_decode(p, n, &text);

	xml_parse("FictionBook", xml, text.n - (size_t)(xml - str_text(&text)), &handler, x, &why);
	write_head(x);
	writer_end(x->w);
	str_free(&text);
	return doc_finish(x->w->doc, 0, &why, e);
}

int fb2_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct writer w = { .doc = d };
	struct fb2 x = { .w = &w };
	struct zip zip = { 0 };
	int rc, packed = n > 4 && !memcmp(p, "PK\3\4", 4);

	if (packed && zip_read(&zip, p, n, want_book, e))
		rc = -1;
	else if (packed && !zip.n)
		rc = err_set(e, ERR_DOCUMENT, "is damaged: it lacks a book (.fb2)");
	else
		rc = read_book(&x, packed ? zip.entry->p : p, packed ? zip.entry->n : n, e);
	if (zip.n > 1)
		doc_note(d, "%zu books are in the archive: the first was read", zip.n);
	zip_free(&zip);
	str_free(&x.title);
	str_free(&x.author);
	str_free(&x.label);
	return rc;
}
