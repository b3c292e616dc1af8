/* sessions/import/pdf_headings.c - headings in the text of a PDF: short lines that stand alone, with a number before them or a second line behind
 * them. */
#include "sessions/import/import.h"

#include <stdio.h>
#include <string.h>

/* Where the line ends that begins a block and looks like a title, behind the number of its heading; 0: there is none. */
static size_t title_end(const struct str *page, size_t at)
{
	const char *p = page->p, *end;
	size_t n;

	if (at < page->n && p[at] == '\n')
		at++;
	end = at < page->n ? memchr(p + at, '\n', page->n - at) : NULL;
	n = end ? (size_t)(end - p) - at : at < page->n ? page->n - at : 0;
	return heading_title(p + at, n) ? at + n : 0;
}

/* "4." or "12.", the number of a section without others before it. */
static int is_section_number(const char *s, size_t n)
{
	size_t digits = 0;

	while (digits < n && s[digits] >= '0' && s[digits] <= '9')
		digits++;
	return digits && digits <= 2 && n == digits + 1 && s[digits] == '.' && s[0] != '0';
}

/* A number with an empty line behind it and a title that is a block of its own are a heading wherever the number stands, also right behind a
 * paragraph: where the title ends; 0: they are none.  The items of a numbered list have the next number behind them. */
static size_t spread_title(const struct str *page, size_t at, size_t n, int *level)
{
	const char *p = page->p, *stop;
	size_t next = at + n + 1, end;
	int single = is_section_number(p + at, n);

	*level = single ? 1 : n > 2 ? heading_number_level(p + at, n) : 0;
	if (!*level || p[at] < '0' || p[at] > '9' || next >= page->n || p[next] != '\n' || !(end = title_end(page, next)) || end + 1 >= page->n ||
	    p[end + 1] != '\n')
		return 0;
	next = end + 2;
	stop = next < page->n ? memchr(p + next, '\n', page->n - next) : NULL;
	return single && stop && is_section_number(p + next, (size_t)(stop - p) - next) ? 0 : end;
}

enum { HEADING_LINES = 3, HEADING_LINE_BYTES = 80 };

/* Could this line go on with a title?  Each word has a capital, or is a short one like "of", and it does not end like a sentence. */
static int continues_title(const char *p, size_t n)
{
	static const char small[] = " a an and at by for from in into of on or the to with ";

	if (!n || n > HEADING_LINE_BYTES || (p[0] >= '0' && p[0] <= '9') || strchr(".,;:?!", p[n - 1]))
		return 0;
	for (size_t i = 0; i < n;) {
		size_t len = 0;
		char word[16];

		while (i + len < n && p[i + len] != ' ')
			len++;
		if (len && p[i] >= 'a' && p[i] <= 'z') {
			snprintf(word, sizeof word, " %.*s ", len < 10 ? (int)len : 0, p + i);
			if (len >= 10 || !strstr(small, word))
				return 0;
		}
		i += len + 1;
	}
	return 1;
}

/* A heading in capitals alone ends with its line, and what follows may belong to it: names in capitals stand below each other in tables. */
static int in_capitals(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] >= 'a' && p[i] <= 'z')
			return 0;
	return 1;
}

/* A heading that is too long for one line: how many bytes it has in all; its first line has n. */
static size_t heading_bytes(const struct str *page, size_t at, size_t n)
{
	size_t end = at + n;

	for (int lines = 1; lines < HEADING_LINES && end + 1 < page->n; lines++) {
		const char *line = page->p + end + 1, *stop = memchr(line, '\n', page->n - end - 1);
		size_t len = stop ? (size_t)(stop - line) : page->n - end - 1;

		if (!continues_title(line, len))
			break;
		end += 1 + len;
	}
	return end - at;
}

/* The line at `at` of the page, of n bytes: where it ends, or the heading that it begins. */
static size_t mark_line(struct doc *d, const struct str *page, size_t at, size_t n, int alone, int *ends_block)
{
	const char *p = page->p;
	int level = alone && n ? heading_number_level(p + at, n) : 0;
	size_t title = level ? title_end(page, at + n + 1) : 0;

	*ends_block = 0;
	if (!title && n && (title = spread_title(page, at, n, &level)) && !alone)
		str_adds(&d->text, "\n");   /* it begins a block */
	if (title) {
		doc_mark(d, MARK_HEADING, level, d->text.n, p + at, title - at);
		*ends_block = 1;
		return title;
	}
	level = alone && n ? heading_level(p + at, n) : 0;
	/* "1." and "Introduction" may stand in blocks of their own. */
	if (level && (at + n + 1 >= page->n || p[at + n + 1] == '\n' || level < 6)) {
		*ends_block = !in_capitals(p + at, n);
		if (level < 6 && *ends_block)
			n = heading_bytes(page, at, n);
		doc_mark(d, MARK_HEADING, level, d->text.n, p + at, n);
	}
	return at + n;
}

void pdf_mark_headings(struct doc *d, size_t from)
{
	struct str page = {0};
	int alone = 1;

	str_add(&page, d->text.p + from, d->text.n - from);
	d->text.n = from;
	for (size_t at = 0, end; at < page.n; at = end + 1) {
		const char *nl = memchr(page.p + at, '\n', page.n - at);
		size_t n = nl ? (size_t)(nl - page.p) - at : page.n - at;
		int ends_block;

		end = mark_line(d, &page, at, n, alone, &ends_block);
		str_add(&d->text, page.p + at, end - at + (end < page.n));
		/* The text that follows a heading is a block of its own. */
		if (ends_block && end + 1 < page.n && page.p[end + 1] != '\n')
			str_adds(&d->text, "\n");
		alone = ends_block || !n;
	}
	str_free(&page);
}
