/* sessions/import/pdf_headings.c - finds the headings of a PDF. A heading is a line that the PDF's outline names, or a
 * line in larger letters than the text. It may also be a line after a blank line that begins with a number or looks
 * like a title. */
#include "sessions/import/pdf.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define LARGER  1.17f /* minimum size of a heading's letters, divided by the usual size */
#define SMALLER 0.93f /* maximum size of a footnote's letters, divided by the usual size */

enum { LINES_MOST = 3, BYTES_MOST = 200, SIZES = 256, PARTS_MOST = 5 };

struct pdf_headings {
	const struct pdf *f;
	size_t next;                  /* index of the first outline entry that is on the current page or a later one */
	unsigned char level[SIZES];   /* level[s] is the level of headings whose letters have s half points */
	int last[PARTS_MOST], n_last; /* last[n_last] are the parts of the last heading's number: 4, 2, 1 for "4.2.1" */
};

/* ---- numbers in sequence ---- */

/* Parse a number such as "6.2.1" at the start of a line, and store its parts in part[]. Returns how many parts there
 * are. Sets *n to the number of bytes parsed. */
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

/* Return the level of a heading without a blank line before it. The heading's number must be the one that follows the
 * number of the last heading: "4.1 Nesting" after "4", "4.4 Trees" after "4.3". Return 0 for other lines. */
static int next_number(const struct pdf_headings *h, const char *p, size_t n)
{
	int part[PARTS_MOST], same = 0;
	size_t number;
	int parts = number_parts(p, n, part, &number);

	while (same < parts && same < h->n_last && part[same] == h->last[same])
		same++;
	return parts > 1 && h->n_last && same == parts - 1 &&
	                       part[same] == (same < h->n_last ? h->last[same] + 1 : 1) && number + 2 < n &&
	                       p[number] == ' ' && heading_title(p + number + 1, n - number - 1)
	               ? parts
	               : 0;
}

/* ---- larger letters ---- */

static int size_class(float size)
{
	return size * 2 < 1 ? 0 : size * 2 >= SIZES ? SIZES - 1 : (int)(size * 2 + 0.5f);
}

/* Count the lines from line i on that look like one heading: they have the same size, and no blank line separates them.
 * Returns at most LINES_MOST + 1. Sets *bytes to the length of these lines. */
static size_t lines_alike(const struct pdf *f, const struct pdf_page *pg, size_t i, size_t *bytes)
{
	size_t n = 1, end = pg->line + pg->n_line;

	*bytes = f->line[i].n;
	while (i + n < end && n <= LINES_MOST && !f->line[i + n].left_out && !f->line[i + n].row &&
	       !f->line[i + n].gap && size_class(f->line[i + n].size) == size_class(f->line[i].size))
		*bytes += 1 + f->line[i + n++].n;
	return n;
}

/* If a heading in large letters begins at line i, return its number of lines. Otherwise return 0. */
static size_t large_lines(const struct pdf *f, const struct pdf_page *pg, size_t i)
{
	const struct pdf_line *l = &f->line[i];
	size_t bytes, letters, n;

	if (l->row || !l->upright || l->size < LARGER * f->body)
		return 0;
	n = lines_alike(f, pg, i, &bytes);
	if (n > LINES_MOST || bytes > BYTES_MOST)
		return 0;
	pdf_letters_hash(f->text.p + l->at, l->n, &letters);
	return letters >= 2 ? n : 0;
}

/* Set the levels of headings in large letters: level 1 for the largest letters, level 2 for the next smaller size, and
 * so on. */
static void find_levels(struct pdf_headings *h)
{
	const struct pdf *f = h->f;
	unsigned char seen[SIZES] = { 0 };
	int level = 0, last = 2 * SIZES;

	for (size_t k = 0; k < f->n_page; k++)
		for (size_t i = f->page[k].line; i < f->page[k].line + f->page[k].n_line; i++)
			if (!f->line[i].left_out && f->line[i].gap && large_lines(f, &f->page[k], i))
				seen[size_class(f->line[i].size)] = 1;
	for (int s = SIZES - 1; s >= 0; s--) {
		if (seen[s] && s * 12 < last * 11) { /* a size within 1/12 of the last size gets the same level */
			level += level < 6;
			last = s;
		}
		h->level[s] = (unsigned char)MAX(level, 1);
	}
}

/* 1 if the line is more than 3/4 as wide as the next line of its block. Such a line is text that begins with a
 * number. */
static int fills_block(const struct pdf *f, const struct pdf_page *pg, size_t i)
{
	const struct pdf_line *l = &f->line[i], *next = l + 1;

	return i + 1 < pg->line + pg->n_line && !next->gap &&
	       4 * (l->box.x1 - l->box.x0) > 3 * (next->box.x1 - next->box.x0);
}

/* ---- the outline ---- */

/* 1 if the line is the title of an outline entry. Only letters and digits are compared, and a number before the title
 * in the line is ignored. */
static int is_title(const char *line, size_t n, const char *title, size_t n_title)
{
	size_t a = 0, b = 0;

	for (int skipped = 0;;) {
		while (a < n && !byte_is_word(line[a]))
			a++;
		while (b < n_title && !byte_is_word(title[b]))
			b++;
		if (b == n_title || a == n)
			return a == n && b == n_title;
		if ((line[a] | 32) == (title[b] | 32)) {
			a++, b++;
			continue;
		}
		if (skipped++)
			return 0;
		for (a = b = 0; a < n && (byte_is_digit(line[a]) || line[a] == '.'); a++)
			;
	}
}

/* If the lines of page pg from line i on are the title of an outline entry, return how many lines the title has, and
 * set *level to the level of the entry. Return 0 if the lines are not such a title. */
static size_t outline_lines(struct pdf_headings *h, const struct pdf_page *pg, size_t i, int *level)
{
	const struct pdf *f = h->f;
	uint32_t page = (uint32_t)(pg - f->page);
	struct str s = { 0 };
	size_t found = 0;

	while (h->next < f->n_entry && f->entry[h->next].page < page)
		h->next++;
	for (size_t n = 0; n < LINES_MOST && !found && i + n < pg->line + pg->n_line && h->next < f->n_entry; n++) {
		const struct pdf_line *l = &f->line[i + n];
		if ((n && l->gap) || l->left_out)
			break;
		str_add(&s, " ", n > 0);
		str_add(&s, f->text.p + l->at, l->n);
		for (size_t k = h->next; k < f->n_entry && f->entry[k].page == page && k < h->next + 64 && !found; k++)
			if (is_title(s.p, s.n, f->titles.p + f->entry[k].at, f->entry[k].n)) {
				*level = f->entry[k].level;
				found = n + 1;
			}
	}
	str_free(&s);
	return found;
}

/* ---- headings ---- */

static int by_page(const void *a, const void *b)
{
	const struct pdf_entry *x = a, *y = b;

	return x->page != y->page ? (x->page > y->page) - (x->page < y->page) : (x->at > y->at) - (x->at < y->at);
}

struct pdf_headings *pdf_headings_begin(const struct pdf *f)
{
	struct pdf_headings *h = xcalloc(1, sizeof *h);

	h->f = f;
	if (f->n_entry)
		qsort(f->entry, f->n_entry, sizeof *f->entry, by_page);
	find_levels(h);
	return h;
}

size_t pdf_heading(struct pdf_headings *h, const struct pdf_page *pg, size_t i, int *level)
{
	const struct pdf *f = h->f;
	const struct pdf_line *l = &f->line[i];
	const char *p = f->text.p + l->at;
	size_t n, end = pg->line + pg->n_line, number;
	int by_number;

	if (l->running || (l->row && !l->gap))
		return 0;
	by_number = heading_level(p, l->n);
	if (!(n = outline_lines(h, pg, i, level))) {
		if (l->gap && (n = large_lines(f, pg, i))) {
			*level = by_number > 1 && byte_is_digit(*p) ? by_number : h->level[size_class(l->size)];
		} else if (l->gap && by_number && !l->row && l->size > SMALLER * f->body && !fills_block(f, pg, i)) {
			*level = by_number;
			n = 1;
		} else if (!l->gap && i + 1 < end && (*level = next_number(h, p, l->n))) {
			n = 1;
		}
	}
	/* "Chapter 4" alone on a line: the title of the chapter follows */
	if (n == 1 && heading_number_level(p, l->n) && i + 1 < end && !l[1].left_out && !l[1].row &&
	    l[1].size >= l->size) {
		size_t title = large_lines(f, pg, i + 1);
		n += title ? title : heading_title(f->text.p + l[1].at, l[1].n) && (i + 2 == end || l[2].gap);
	}
	if (n)
		h->n_last = number_parts(p, l->n, h->last, &number);
	return n;
}

void pdf_headings_end(struct pdf_headings *h)
{
	free(h);
}
