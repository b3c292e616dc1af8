/* app/retrieval/contents.c - recognises tables of contents among the passages: they have the words of many questions
 * and answer none. */
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/utf8.h"
#include "sessions/import/import.h"

/* A passage is a table of contents if at least TITLES_LEAST of its lines are headings of the document, and at least 1 /
 * SHARE_OF_LINES of its lines are. */
enum { TITLES_LEAST = 4, SHARE_OF_LINES = 2, TITLE_BYTES = 3 };

/* 1 if the byte may be part of what comes before a title: blanks, also no-break ones, bullets, and numbers such as
 * "2.1." or "|2.1|". */
static int leads(char c)
{
	return byte_is_blank(c) || byte_is_digit(c) || c == '\xc2' || c == '\xa0' || (c && strchr("-*|.()#>", c));
}

/* Return the title in a line or heading, without its number, and without dots and a page number at its end. */
static struct quote title_in(const char *p, size_t n)
{
	while (n && leads(*p))
		p++, n--;
	while (n && (byte_is_blank(p[n - 1]) || byte_is_digit(p[n - 1]) || strchr(".|", p[n - 1])))
		n--;
	return (struct quote){ p, n };
}

/* 1 if a line, which begins at byte `at` of the document's body, has the title of a heading that is at another
 * place. */
static int is_title(const struct document *d, struct quote line, size_t at)
{
	struct quote title = title_in(line.p, line.n), heading;

	for (size_t i = 0; title.n >= TITLE_BYTES && i < d->n_mark; i++) {
		const struct mark *m = &d->mark[i];
		if (m->kind != MARK_HEADING || !m->text || (m->at >= at && m->at < at + line.n))
			continue;
		heading = title_in(m->text, strlen(m->text));
		if (heading.n == title.n && !memcmp(heading.p, title.p, title.n))
			return 1;
	}
	return 0;
}

int passage_is_contents(const struct document *d, size_t from, size_t to)
{
	const char *body = d->text.p + d->body;
	size_t lines = 0, titles = 0;

	for (size_t at = from, next; at < to; at = next) {
		const char *end = memchr(body + at, '\n', to - at);
		size_t n = end ? (size_t)(end - body) - at : to - at;

		next = at + n + 1;
		if (title_in(body + at, n).n < TITLE_BYTES)
			continue;
		lines++;
		titles += (size_t)is_title(d, (struct quote){ body + at, n }, at);
	}
	return titles >= TITLES_LEAST && titles * SHARE_OF_LINES >= lines;
}
