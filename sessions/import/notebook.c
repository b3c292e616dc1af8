/* sessions/import/notebook.c - converts Jupyter notebooks (nbformat 3 and 4). Texts are written as they are; code and
 * its outputs are written between the fences of Markdown.
 *
 * If the file has an output in several formats, the plainest is written. Pictures and other outputs without text are
 * counted in a notice. If the file is truncated, its complete cells are converted. */
#include "sessions/import/import_private.h"
#include "engine/base/json.h"

#include <string.h>

struct notebook {
	struct doc *doc;
	struct str language;
	size_t pictures, other; /* number of pictures, and of other outputs, that are left out */
};

/* Append a string, or the strings of a list. Returns -1 if the value is neither of these. */
static int add_source(struct jv v, struct str *out)
{
	struct jv it = { 0 };

	if (!v.p || *v.p != '[')
		return v.p ? jv_text(v, out) : -1;
	while (jv_next(v, &it, NULL))
		jv_text(it, out);
	return 0;
}

static void trim(struct str *s)
{
	while (s->n && strchr(" \t\n\r", s->p[s->n - 1]))
		s->p[--s->n] = 0;
}

static void add_block(struct notebook *b, const struct str *s)
{
	if (b->doc->text.n)
		str_adds(&b->doc->text, "\n\n");
	str_add(&b->doc->text, str_text(s), s->n);
}

/* Write s between fences that are longer than any sequence of backticks in s. */
static void add_fenced(struct notebook *b, const char *label, const char *language, struct str *s)
{
	struct str block = { 0 };
	size_t most = 2, run = 0;

	trim(s);
	for (size_t i = 0; i < s->n; i++) {
		run = s->p[i] == '`' ? run + 1 : 0;
		most = run > most ? run : most;
	}
	if (s->n) {
		str_adds(&block, label);
		for (size_t i = 0; i <= most; i++)
			str_adds(&block, "`");
		str_addf(&block, "%s\n", language);
		str_add(&block, s->p, s->n);
		str_adds(&block, "\n");
		for (size_t i = 0; i <= most; i++)
			str_adds(&block, "`");
		add_block(b, &block);
	}
	str_free(&block);
}

/* ---- outputs ---- */

/* Convert an HTML output without a plain form, such as a table. */
static void add_html(const struct str *html, struct str *out)
{
	struct doc d = { 0 };
	struct writer w = { .doc = &d };

	html_convert(&w, str_text(html), html->n, NULL);
	writer_end(&w);
	str_add(out, str_text(&d.text), d.text.n);
	doc_free(&d);
}

static int has_picture(struct jv data)
{
	static const char *const kinds[] = { "image/png", "image/jpeg", "image/svg+xml", "image/gif", "png",
		                             "jpeg",      "svg" };

	for (size_t i = 0; i < LEN(kinds); i++)
		if (jv_get(data, kinds[i]).p)
			return 1;
	return 0;
}

/* Append the plainest format of a cell's output. `data` is an object that has the output in several formats, by media
 * type. In nbformat 3, `data` is the output itself. */
static void add_data(struct notebook *b, struct jv data, struct str *out)
{
	static const char *const kinds[] = { "text/plain", "text",  "text/markdown",
		                             "text/latex", "latex", "application/json" };
	struct str html = { 0 };
	int picture = has_picture(data);
	size_t at = out->n;

	for (size_t i = 0; i < LEN(kinds) && out->n == at; i++) {
		struct jv form = jv_get(data, kinds[i]);

		if (form.p && add_source(form, out))
			str_add(out, form.p, (size_t)(form.end - form.p));
	}
	/* drop the plain form of a picture or a widget, because it only names a class: "<Figure size 640x480>" */
	if ((picture || jv_get(data, "text/html").p) && out->n > at && out->p[at] == '<')
		out->p[out->n = at] = 0;
	if (out->n == at && (!add_source(jv_get(data, "text/html"), &html) || !add_source(jv_get(data, "html"), &html)))
		add_html(&html, out);
	b->pictures += picture != 0;
	b->other += !picture && out->n == at;
	str_free(&html);
}

static void add_error(struct jv output, struct str *out)
{
	struct jv it = { 0 }, lines = jv_get(output, "traceback");
	size_t at = out->n;

	while (jv_next(lines, &it, NULL)) {
		jv_text(it, out);
		str_adds(out, "\n");
	}
	if (out->n > at)
		return;
	jv_text(jv_get(output, "ename"), out);
	str_adds(out, ": ");
	jv_text(jv_get(output, "evalue"), out);
}

/* Append an output to *out. Consecutive prints of a program are one text. */
static void add_output(struct notebook *b, struct jv output, struct str *out)
{
	struct jv kind = jv_get(output, "output_type"), data = jv_get(output, "data");
	int stream = jv_is(kind, "stream");

	if (!stream && out->n && out->p[out->n - 1] != '\n')
		str_adds(out, "\n");
	if (stream)
		add_source(jv_get(output, "text"), out);
	else if (jv_is(kind, "error") || jv_is(kind, "pyerr"))
		add_error(output, out);
	else
		add_data(b, data.p ? data : output, out);
}

/* ---- cells ---- */

static void add_code(struct notebook *b, struct jv cell, struct str *source)
{
	struct jv it = { 0 }, outputs = jv_get(cell, "outputs");
	struct str out = { 0 };

	add_fenced(b, "", str_text(&b->language), source);
	while (jv_next(outputs, &it, NULL))
		add_output(b, it, &out);
	add_fenced(b, "Output:\n\n", "", &out);
	str_free(&out);
}

static void add_cell(struct notebook *b, struct jv cell)
{
	struct jv kind = jv_get(cell, "cell_type"), text = jv_get(cell, "source");
	struct str source = { 0 }, heading = { 0 };
	double level = 1;

	add_source(text.p ? text : jv_get(cell, "input"), &source);
	if (jv_is(kind, "code")) {
		add_code(b, cell, &source);
	} else {
		trim(&source);
		if (jv_is(kind, "heading") && source.n) {
			jv_number(jv_get(cell, "level"), &level);
			for (int i = 0; i < 6 && (i < 1 || i < level); i++)
				str_adds(&heading, "#");
			str_adds(&heading, " ");
			str_add(&heading, source.p, source.n);
		}
		if (source.n)
			add_block(b, heading.n ? &heading : &source);
	}
	str_free(&source);
	str_free(&heading);
}

static void add_cells(struct notebook *b, struct jv root)
{
	struct jv sheet = { 0 }, cell = { 0 }, sheets = jv_get(root, "worksheets"), cells = jv_get(root, "cells");

	while (jv_next(cells, &cell, NULL))
		add_cell(b, cell);
	while (jv_next(sheets, &sheet, NULL)) { /* in nbformat 3, the cells are in worksheets */
		cell = (struct jv){ 0 };
		while (jv_next(jv_get(sheet, "cells"), &cell, NULL))
			add_cell(b, cell);
	}
}

int notebook_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct notebook b = { .doc = d };
	struct jv root = jv_parse(p, n), about = jv_get(root, "metadata");
	enum doc_type type = d->type;

	if (jv_text(jv_get(jv_get(about, "kernelspec"), "language"), &b.language))
		jv_text(jv_get(jv_get(about, "language_info"), "name"), &b.language);
	if (b.language.n > 20 || strcspn(str_text(&b.language), "`\n ") < b.language.n)
		str_clear(&b.language);
	add_cells(&b, root);
	str_free(&b.language);
	if (!json_valid(p, n))
		doc_note(d, "the notebook is damaged or cut off: the text ends there");
	if (b.pictures)
		doc_note(d, "%zu picture%s among the outputs %s left out", b.pictures, b.pictures == 1 ? "" : "s",
		         b.pictures == 1 ? "was" : "were");
	if (b.other)
		doc_note(d, "%zu output%s without text %s left out", b.other, b.other == 1 ? "" : "s",
		         b.other == 1 ? "was" : "were");
	text_tidy(&d->text);
	doc_clean_printed(d);
	doc_shorten_data(d);
	d->type = DOC_MARKDOWN;
	doc_mark_text(d);
	d->type = type;
	return d->text.n ? 0 : err_set(e, ERR_DOCUMENT, "holds no text");
}
