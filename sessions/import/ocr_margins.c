/* sessions/import/ocr_margins.c - leaves running heads, feet and page numbers out of recognised pages (ocr.h).
 *
 * Only the first and the last line of a page are examined. Lines are compared by their letters without digits, so that
 * "Title 14" and "Title 15" are equal. For PDF pages with text, pdf_margins.c does this by the places of lines on the
 * page. */
#include "sessions/import/ocr.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define NEAR         8 /* number of pages before a page, and after it, that are compared with it */
#define TIMES        3 /* minimum number of pages that must have such a line or page number, so that it is left out */
#define LETTERS_MIN  4
#define NUMBER_CHARS 7 /* maximum length of a page number in characters: "- 123 -" */

/* The first or the last line of a page. */
struct edge {
	size_t from, n; /* offset and length of the line in the page's text */
	uint64_t hash;  /* hash of the line's letters; 0 = the line has fewer letters than LETTERS_MIN */
	int is_number;
};

static void edge_read(struct edge *e, const char *p)
{
	uint64_t h = 1469598103934665603u;
	size_t letters = 0, digits = 0;

	for (size_t i = e->from; i < e->from + e->n; i++) {
		if (byte_is_letter(p[i]) || (unsigned char)p[i] >= 0x80) {
			h = (h ^ (unsigned char)(byte_is_upper(p[i]) ? p[i] + 32 : p[i])) * 1099511628211u;
			letters++;
		}
		digits += byte_is_digit(p[i]);
	}
	e->hash = letters >= LETTERS_MIN ? h | 1 : 0;
	e->is_number = digits && !letters && e->n <= NUMBER_CHARS;
}

/* Find the first or the last line of a page. If the page has only one line, return an empty edge, so that the line
 * stays. */
static struct edge edge_of(const struct str *page, int last)
{
	const char *end = page->n ? memchr(page->p, '\n', page->n) : NULL;
	struct edge e = { 0 };

	if (!end)
		return e;
	e.n = (size_t)(end - page->p);
	if (last) {
		e.from = (size_t)((const char *)memrchr(page->p, '\n', page->n) + 1 - page->p);
		e.n = page->n - e.from;
	}
	edge_read(&e, page->p);
	return e;
}

/* The array e[] has the first lines of all pages, or the last lines of all pages. Return 1 if at least TIMES of the
 * lines e[i - NEAR] to e[i + NEAR] have the same letters as line e[i]. Set *before to 1 if one of these lines is on a
 * page before page i. */
static int recurs(const struct edge *e, size_t n, size_t i, int *before)
{
	int times = 0;

	*before = 0;
	for (size_t k = i > NEAR ? i - NEAR : 0; k < n && k <= i + NEAR; k++) {
		times += e[i].hash && e[k].hash == e[i].hash;
		*before |= k < i && e[k].hash == e[i].hash;
	}
	return times >= TIMES;
}

static void cut_line(struct str *page, const struct edge *e)
{
	size_t to = e->from + e->n, from = e->from;

	while (to < page->n && page->p[to] == '\n')
		to++;
	while (to == page->n && from && page->p[from - 1] == '\n')
		from--;
	memmove(page->p + from, page->p + to, page->n - to);
	page->n -= to - from;
	page->p[page->n] = 0;
}

size_t ocr_leave_out_margins(struct str *page, size_t n, struct str *left_out)
{
	struct edge *e = xcalloc(n + 1, sizeof *e);
	size_t count = 0;

	for (int last = 0; last < 2; last++) {
		size_t numbers = 0;
		for (size_t i = 0; i < n; i++) {
			e[i] = edge_of(&page[i], last);
			numbers += (size_t)e[i].is_number;
		}
		for (size_t i = 0; i < n; i++) {
			int before;
			if (!(e[i].is_number && numbers >= TIMES) && !(recurs(e, n, i, &before) && before))
				continue;
			str_addf(left_out, "%zu\t%.*s\n", i + 1, (int)e[i].n, page[i].p + e[i].from);
			cut_line(&page[i], &e[i]);
			count++;
		}
	}
	free(e);
	return count;
}
