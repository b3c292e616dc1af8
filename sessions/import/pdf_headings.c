/* sessions/import/pdf_headings.c - headings in the text of a PDF: short lines that stand alone, with a number before them or a second line behind
 * them. */
#include "sessions/import/import.h"

#include <stdio.h>
#include <string.h>

/* Where the line ends that begins a block and looks like a title, behind the number of its heading; 0: there is none. */
static size_t title_end(const struct doc *d, size_t at)
{
	const char *p = d->text.p, *end;
	size_t n;

	if (at < d->text.n && p[at] == '\n')
		at++;
	end = at < d->text.n ? memchr(p + at, '\n', d->text.n - at) : NULL;
	n = end ? (size_t)(end - p) - at : at < d->text.n ? d->text.n - at : 0;
	return heading_title(p + at, n) ? at + n : 0;
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
static size_t heading_bytes(const struct doc *d, size_t at, size_t n)
{
	size_t end = at + n;

	for (int lines = 1; lines < HEADING_LINES && end + 1 < d->text.n; lines++) {
		const char *line = d->text.p + end + 1, *stop = memchr(line, '\n', d->text.n - end - 1);
		size_t len = stop ? (size_t)(stop - line) : d->text.n - end - 1;

		if (!continues_title(line, len))
			break;
		end += 1 + len;
	}
	return end - at;
}

/* The text that follows a heading, which ends here, is a block of its own. */
static void end_heading(struct doc *d, size_t end)
{
	if (end + 1 >= d->text.n || d->text.p[end] != '\n' || d->text.p[end + 1] == '\n')
		return;
	str_adds(&d->text, "\n");
	memmove(d->text.p + end + 1, d->text.p + end, d->text.n - end - 1);
}

void pdf_mark_headings(struct doc *d, size_t from)
{
	for (size_t at = from; at < d->text.n;) {
		const char *p = d->text.p;
		const char *end = memchr(p + at, '\n', d->text.n - at);
		size_t n = end ? (size_t)(end - p) - at : d->text.n - at, title = 0;
		int alone = at < 2 || p[at - 2] == '\n' || at == from;
		int level = alone && n ? heading_number_level(p + at, n) : 0;
		if (level)
			title = title_end(d, at + n + 1);
		if (title) {
			doc_mark(d, MARK_HEADING, level, at, p + at, title - at);
			end_heading(d, title);
			at = title + 1;
			continue;
		}
		level = alone && n ? heading_level(p + at, n) : 0;
		/* "1." and "Introduction" may stand in blocks of their own. */
		if (level && (at + n + 1 >= d->text.n || p[at + n + 1] == '\n' || level < 6)) {
			int title_case = !in_capitals(p + at, n);

			if (level < 6 && title_case)
				n = heading_bytes(d, at, n);
			doc_mark(d, MARK_HEADING, level, at, p + at, n);
			if (title_case)
				end_heading(d, at + n);
		}
		at += n + 1;
	}
}
