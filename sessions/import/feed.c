/* sessions/import/feed.c - converts feeds of news: RSS 0.9 to 2.0 and Atom. The title of the feed becomes a heading of
 * level 1. The title of each entry becomes a heading of level 2, followed by the entry's date and text. Texts are HTML
 * inside XML. */
#include "sessions/import/import_private.h"

#include <string.h>

#define TITLE_BYTES_MAX 1000

/* At first the data of the feed itself; later the data of the current entry. */
struct feed {
	struct writer *w;
	int level; /* level of the next heading: 1 for the title of the feed, 2 for the title of an entry */
	struct str title, date, summary, text;
	/* the string that receives the text: title, date, summary or text; NULL: none of them is being read */
	struct str *into;
	int depth; /* number of open elements inside the element whose text is being read */
	/* 1: the element that is being read has plain text or XHTML elements; 0: it has escaped HTML */
	int plain;
};

static int is_entry(const char *name)
{
	return !strcmp(name, "item") || !strcmp(name, "entry");
}

/* Write the title, date and text that were read, and clear the strings for the next entry. `level` is the heading level
 * of the next entry's title. */
static void entry_write(struct feed *x, int level)
{
	const struct str *text = x->text.n ? &x->text : &x->summary;

	if (x->title.n) {
		writer_heading_begin(x->w, x->level);
		writer_text(x->w, x->title.p, x->title.n);
		writer_heading_end(x->w);
	}
	writer_text(x->w, str_text(&x->date), x->date.n);
	writer_gap(x->w, GAP_BLOCK);
	if (text->n)
		html_convert(x->w, text->p, text->n, NULL);
	writer_gap(x->w, GAP_BLOCK);
	str_clear(&x->title);
	str_clear(&x->date);
	str_clear(&x->summary);
	str_clear(&x->text);
	x->level = level;
}

/* Return the string that receives the text of the element `name`; NULL: the element is ignored, or its string already
 * has text. */
static struct str *field_of(struct feed *x, const char *name)
{
	static const struct {
		const char *name;
		size_t at;
	} fields[] = {
		{ "title", offsetof(struct feed, title) },      { "pubDate", offsetof(struct feed, date) },
		{ "published", offsetof(struct feed, date) },   { "updated", offsetof(struct feed, date) },
		{ "date", offsetof(struct feed, date) },        { "description", offsetof(struct feed, summary) },
		{ "subtitle", offsetof(struct feed, summary) }, { "summary", offsetof(struct feed, summary) },
		{ "content", offsetof(struct feed, text) },     { "encoded", offsetof(struct feed, text) },
	};

	for (size_t i = 0; i < LEN(fields); i++)
		if (!strcmp(name, fields[i].name)) {
			struct str *s = (struct str *)(void *)((char *)x + fields[i].at);

			return s->n ? NULL : s;
		}
	return NULL;
}

static int is_html(const struct feed *x)
{
	return x->into == &x->summary || x->into == &x->text;
}

static void on_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct feed *x = ud;

	if (x->into) {
		x->depth++;
		if (is_html(x))
			str_addf(x->into, "<%s>", name);
	} else if (is_entry(name)) {
		entry_write(x, 2);
	} else if ((x->into = field_of(x, name))) {
		x->depth = 0;
		x->plain = xml_attr_is(a, n, "type", "xhtml") || xml_attr_is(a, n, "type", "text");
	}
}

static void on_end(void *ud, const char *name)
{
	struct feed *x = ud;

	if (!x->into) {
		if (is_entry(name))
			entry_write(x, 2);
	} else if (!x->depth--) {
		x->into = NULL;
	} else if (is_html(x)) {
		str_addf(x->into, "</%s>", name);
	}
}

static void on_text(void *ud, const char *s, size_t n)
{
	struct feed *x = ud;

	if (!x->into || (!is_html(x) && x->into->n >= TITLE_BYTES_MAX))
		return;
	if (!x->plain || !is_html(x)) {
		str_add(x->into, s, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (s[i] == '<')
			str_adds(x->into, "&lt;");
		else if (s[i] == '&')
			str_adds(x->into, "&amp;");
		else
			str_add(x->into, s + i, 1);
}

int feed_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	static const struct xml_handler handler = { .start = on_start, .end = on_end, .text = on_text };
	struct writer w = { .doc = d };
	struct feed x = { .w = &w, .level = 1 };
	struct str text = { 0 };
	struct err why = { 0 };
	const char *xml = xml_decode(p, n, &text);

	xml_parse("feed", xml, text.n - (size_t)(xml - str_text(&text)), &handler, &x, &why);
	entry_write(&x, 2);
	writer_end(&w);
	str_free(&text);
	str_free(&x.title);
	str_free(&x.date);
	str_free(&x.summary);
	str_free(&x.text);
	return doc_finish(d, 0, &why, e);
}
