/* sessions/import/marks_text.c - finds the pages and headings of a text. Each kind of text has its own rules for
 * headings. */
#include "sessions/import/marks.h"

#include <stdio.h>
#include <string.h>

/* Mark pages at form feeds, which stay in the text. */
static void mark_pages(struct doc *d)
{
	const char *p = d->text.p, *end = p + d->text.n, *ff = memchr(p, '\f', d->text.n);
	size_t asked = 0;
	char number[16];
	int page = 1;

	if (!ff)
		return;
	doc_mark(d, MARK_PAGE, 0, 0, "1", 1);
	for (; ff && !marks_stopped((size_t)(ff - p), &asked); ff = memchr(ff + 1, '\f', (size_t)(end - ff) - 1)) {
		const char *rest = ff + 1;
		while (rest < end && (unsigned char)*rest <= ' ' && *rest != '\f')
			rest++;
		if (rest == end)
			return;
		doc_mark(d, MARK_PAGE, 0, (size_t)(ff + 1 - p), number,
		         (size_t)snprintf(number, sizeof number, "%d", ++page));
	}
}

/* Find the function that marks the headings of a text. It is chosen by the ending of the text's name, or by the first
 * command if that shows LaTeX. */
static void (*marker_of(const struct doc *d))(struct doc *)
{
	static const struct {
		const char *ending;
		void (*mark)(struct doc *);
	} kinds[] = {
		{ "rst", mark_rst }, { "rest", mark_rst }, { "org", mark_org },   { "adoc", mark_adoc },
		{ "tex", mark_tex }, { "ltx", mark_tex },  { "latex", mark_tex }, { "asciidoc", mark_adoc },
	};
	const char *dot = d->name ? strrchr(d->name, '.') : NULL;

	if (d->type == DOC_MARKDOWN)
		return mark_markdown;
	for (size_t i = 0; dot && i < LEN(kinds); i++)
		if (!strcasecmp(dot + 1, kinds[i].ending))
			return kinds[i].mark;
	if (text_is_vim_help(d->text.p, d->text.n))
		return mark_vim_help;
	return text_is_tex(d->text.p, d->text.n) ? mark_tex : mark_plain;
}

void doc_mark_text(struct doc *d)
{
	if (!d->text.n)
		return;
	mark_pages(d);
	if (d->type == DOC_TEXT || d->type == DOC_MARKDOWN)
		marker_of(d)(d);
}

void doc_mark_again(struct doc *d)
{
	d->type = doc_type_of(d->name ? d->name : "", NULL, str_text(&d->text), d->text.n);
	/* doc_type_of() recognises Markdown and source code by the name. Any other document, such as a PDF, is stored
	 * as plain text. */
	if (d->type != DOC_MARKDOWN && d->type != DOC_SOURCE)
		d->type = DOC_TEXT;
	doc_mark_text(d);
	marks_sort(d);
}
