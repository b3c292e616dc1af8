/* sessions/import/pdf_headings.c - finds headings in the text of a PDF: short lines between blank lines. A heading
 * may have up to three lines, and its number may be apart from its title. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <string.h>

/* Return the end of the line at `at` if the line looks like a title; 0 if not. A blank line before it is skipped. */
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

/* 1 for "4." or "12.", the number of a top-level section. */
static int is_section_number(const char *s, size_t n)
{
	size_t digits = 0;

	while (digits < n && byte_is_digit(s[digits]))
		digits++;
	return digits && digits <= 2 && n == digits + 1 && s[digits] == '.' && s[0] != '0';
}

/* A heading's number may be printed alone, with a blank line before its title. Find the title for the number of n
 * bytes at `at`. Returns the title's end; 0 if there is none, or if the next number follows the title: then both
 * are list items. */
static size_t spread_title(const struct str *page, size_t at, size_t n, int *level)
{
	const char *p = page->p, *stop;
	size_t next = at + n + 1, end;
	int single = is_section_number(p + at, n);

	*level = single ? 1 : n > 2 ? heading_number_level(p + at, n) : 0;
	if (!*level || p[at] < '0' || p[at] > '9' || next >= page->n || p[next] != '\n' ||
	    !(end = title_end(page, next)) || end + 1 >= page->n || p[end + 1] != '\n')
		return 0;
	next = end + 2;
	stop = next < page->n ? memchr(p + next, '\n', page->n - next) : NULL;
	return single && stop && is_section_number(p + next, (size_t)(stop - p) - next) ? 0 : end;
}

enum { HEADING_LINES = 3, HEADING_LINE_BYTES = 80 };

/* 1 if the line can continue a title: its words begin with capitals or are short ("of"), and it does not end like a
 * sentence. */
static int continues_title(const char *p, size_t n)
{
	static const char small[] = " a an and at by for from in into of on or the to with ";

	if (!n || n > HEADING_LINE_BYTES || byte_is_digit(p[0]) || strchr(".,;:?!", p[n - 1]))
		return 0;
	for (size_t i = 0; i < n;) {
		size_t len = 0;
		char word[16];

		while (i + len < n && p[i + len] != ' ')
			len++;
		if (len && byte_is_lower(p[i])) {
			snprintf(word, sizeof word, " %.*s ", len < 10 ? (int)len : 0, p + i);
			if (len >= 10 || !strstr(small, word))
				return 0;
		}
		i += len + 1;
	}
	return 1;
}

/* 1 if the line has no small letters. A title in capitals ends with its line, since tables list names in capitals
 * line by line. */
static int in_capitals(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (byte_is_lower(p[i]))
			return 0;
	return 1;
}

/* Return the length of a heading that begins at `at`, in bytes. It has up to HEADING_LINES lines, the first of n
 * bytes. */
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

/* ---- numbers in sequence ----
 *
 * A heading's number may be printed inside a paragraph ("4.1 Nesting"), or far from its title ("6.3"). There it
 * counts as a heading only if it follows the number of the heading before. */

enum { PARTS_MOST = 5, MARKS_BACK = 32, BLOCKS_ON = 40 }; /* limits of the search: headings before, blocks after */

/* Parse the numbers of "6.2.1" at the start of a line into part[]. Returns how many numbers there are; *n: bytes
 * parsed. */
static int number_parts(const char *s, size_t len, int part[PARTS_MOST], size_t *n)
{
	int parts = 0;
	size_t i = 0;

	while (i < len && parts < PARTS_MOST && byte_is_digit(s[i])) {
		size_t from = i;

		for (part[parts] = 0; i < len && byte_is_digit(s[i]) && i - from < 3; i++)
			part[parts] = 10 * part[parts] + (s[i] - '0');
		parts++;
		if (i == len || s[i] != '.')
			break;
		i++;
	}
	*n = i;
	return parts;
}

/* 1 if the line begins with the number that follows the last numbered heading: "4.1" after "4", "4.4" after "4.3". */
static int is_next_number(const struct doc *d, const char *s, size_t n)
{
	int now[PARTS_MOST], last[PARTS_MOST], parts = number_parts(s, n, now, &n), before = 0, same = 0;

	for (size_t i = d->n_mark, back = 0; i-- && back < MARKS_BACK && !before; back++)
		if (d->mark[i].kind == MARK_HEADING)
			before = number_parts(d->mark[i].text, strlen(d->mark[i].text), last, &n);
	while (same < parts && same < before && now[same] == last[same])
		same++;
	return parts > 1 && before && same == parts - 1 && now[same] == (same < before ? last[same] + 1 : 1);
}

/* Return the level of a heading ("4.1 Nesting Algorithm") that is printed inside a paragraph, between two sentences;
 * 0 if the line at `at` is no heading. */
static int title_in_block(const struct doc *d, const struct str *page, size_t at, size_t n)
{
	const char *p = page->p + at;
	int part[PARTS_MOST], parts;
	size_t number;

	if (at < 2 || !strchr(".!?:)\"", p[-2]) || at + n + 1 >= page->n || p[n + 1] < 'A' || p[n + 1] > 'Z')
		return 0;
	parts = number_parts(p, n, part, &number);
	return number + 2 < n && p[number] == ' ' && heading_title(p + number + 1, n - number - 1) &&
	                       continues_title(p + number + 1, n - number - 1) && is_next_number(d, p, n)
	               ? parts
	               : 0;
}

/* pdftotext may print the number of a heading in one column and its title in another. For the number of *n bytes at
 * `at`, find a later line that looks like its title: a blank line precedes it, and text follows. Returns the offset
 * of the title and sets *n to its length; 0 if there is no title. */
static size_t title_elsewhere(const struct doc *d, const struct str *page, size_t at, size_t *n)
{
	const char *p = page->p, *end;
	int blocks = 0;

	if (!heading_number_level(p + at, *n) || at + *n + 1 >= page->n || p[at + *n + 1] != '\n' ||
	    !is_next_number(d, p + at, *n))
		return 0;
	for (at += *n; blocks++ < BLOCKS_ON && (end = memmem(p + at, page->n - at, "\n\n", 2));) {
		size_t from = (size_t)(end - p) + 2, len, behind;

		end = memchr(p + from, '\n', page->n - from);
		len = end ? (size_t)(end - p) - from : 0;
		if (heading_number_level(p + from, len))
			return 0; /* the title belongs to this number */
		behind = from + len + 2;
		if (len && behind < page->n && p[behind - 1] == '\n' && memchr(p + from, ' ', len) &&
		    heading_title(p + from, len) && !heading_level(p + from, len) && continues_title(p + from, len) &&
		    (end = memchr(p + behind, '\n', page->n - behind)) &&
		    (size_t)(end - p) - behind > HEADING_LINE_BYTES / 2) {
			*n = len;
			return from;
		}
		at = from;
	}
	return 0;
}

/* If the line of n bytes at `at` begins a heading, mark it. Returns the end of the heading, or of the line. */
static size_t mark_line(struct doc *d, const struct str *page, size_t at, size_t n, int alone, int *ends_block)
{
	const char *p = page->p;
	int level = alone && n ? heading_number_level(p + at, n) : 0;
	size_t title = level ? title_end(page, at + n + 1) : 0, len = n;

	*ends_block = 0;
	if (!title && n && (title = spread_title(page, at, n, &level)) && !alone)
		str_adds(&d->text, "\n"); /* make it begin a block */
	if (title) {
		doc_mark(d, MARK_HEADING, level, d->text.n, p + at, title - at);
		*ends_block = 1;
		return title;
	}
	if (n && !alone && (level = title_in_block(d, page, at, n))) {
		str_adds(&d->text, "\n");
		doc_mark(d, MARK_HEADING, level, d->text.n, p + at, n);
		*ends_block = 1;
		return at + n;
	}
	if (n && (title = title_elsewhere(d, page, at, &len))) {
		struct str whole = { 0 };

		if (!alone)
			str_adds(&d->text, "\n");
		str_addf(&whole, "%.*s %.*s", (int)n, p + at, (int)len, p + title);
		doc_mark(d, MARK_HEADING, heading_number_level(p + at, n), d->text.n, whole.p, whole.n);
		str_free(&whole);
		*ends_block = 1;
		return at + n;
	}
	level = alone && n ? heading_level(p + at, n) : 0;
	/* "1." and "Introduction" may be separate blocks. */
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
	struct str page = { 0 };
	int alone = 1;

	str_add(&page, d->text.p + from, d->text.n - from);
	d->text.n = from;
	for (size_t at = 0, end; at < page.n; at = end + 1) {
		const char *nl = memchr(page.p + at, '\n', page.n - at);
		size_t n = nl ? (size_t)(nl - page.p) - at : page.n - at;
		int ends_block;

		end = mark_line(d, &page, at, n, alone, &ends_block);
		str_add(&d->text, page.p + at, end - at + (end < page.n));
		/* Put the text after a heading into a block of its own. */
		if (ends_block && end + 1 < page.n && page.p[end + 1] != '\n')
			str_adds(&d->text, "\n");
		alone = ends_block || !n;
	}
	str_free(&page);
}
