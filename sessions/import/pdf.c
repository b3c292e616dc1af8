/* sessions/import/pdf.c - cleans the text that pdftotext prints.
 *
 * Splits the text into pages at form feeds, drops running heads and feet, joins words that were divided at line ends,
 * and replaces ligatures by letters. The text is as untrusted as the PDF, so it is cleaned in the jail, too. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EDGE        3  /* lines at each edge of a page that are checked for running heads and feet */
#define NEAR        4  /* a running head is searched for on this many pages before and after its page */
#define PAGES_NAMED 12 /* most pages without text listed in the notice */

struct pdf_line {
	size_t at, n;
}; /* trimmed; n = 0: blank */
struct page {
	size_t line, n_line;
	int text;
};

struct pdf {
	struct str raw; /* UTF-8, ligatures replaced */
	struct pdf_line *line;
	size_t n_line, cap_line;
	struct page *page;
	size_t n_page, cap_page;
	unsigned char *drop; /* [n_line] 1: the line repeats on other pages; 2 or 3: it will not be written */
};

/* ---- characters ---- */

static void clean_characters(struct str *out, const char *p, size_t n, size_t *replaced)
{
	static const char *const ligature[] = { "ff", "fi", "fl", "ffi", "ffl", "st", "st" };

	for (size_t i = 0; i < n;) {
		int32_t cp;
		size_t len, from = i;
		while (i < n && (unsigned char)p[i] < 0x80 &&
		       ((unsigned char)p[i] >= ' ' || p[i] == '\n' || p[i] == '\f' || p[i] == '\t'))
			i++;
		str_add(out, p + from, i - from);
		if (i == n)
			break;
		len = (size_t)utf8_decode(p + i, n - i, &cp);
		if (cp >= 0xfb00 && cp <= 0xfb06)
			str_adds(out, ligature[cp - 0xfb00]);
		else if (cp == 0xa0 || cp == 0x202f)
			str_adds(out, " ");
		else if (cp == 0xfffd || cp < 0)
			str_adds(out, "\xef\xbf\xbd");
		else if (cp >= 0x80 && cp != 0xfeff && cp != 0x200b)
			str_add(out, p + i, len);
		*replaced += cp < 0;
		i += len;
	}
}

/* ---- lines and pages ---- */

static void add_line(struct pdf *f, size_t at, size_t n)
{
	const char *p = f->raw.p;

	while (n && (unsigned char)p[at] <= ' ')
		at++, n--;
	while (n && (unsigned char)p[at + n - 1] <= ' ')
		n--;
	GROW(f->line, f->n_line, f->cap_line);
	f->line[f->n_line++] = (struct pdf_line){ at, n };
}

static void add_page(struct pdf *f, size_t at, size_t end)
{
	struct page *pg;

	GROW(f->page, f->n_page, f->cap_page);
	pg = &f->page[f->n_page++];
	*pg = (struct page){ .line = f->n_line };
	while (at < end) {
		const char *nl = memchr(f->raw.p + at, '\n', end - at);
		size_t stop = nl ? (size_t)(nl - f->raw.p) : end;
		add_line(f, at, stop - at);
		pg->text |= f->line[f->n_line - 1].n > 0;
		at = stop + 1;
	}
	pg->n_line = f->n_line - pg->line;
}

static void split_pages(struct pdf *f)
{
	size_t at = 0;

	while (at < f->raw.n) {
		const char *ff = memchr(f->raw.p + at, '\f', f->raw.n - at);
		size_t end = ff ? (size_t)(ff - f->raw.p) : f->raw.n;
		add_page(f, at, end);
		at = end + 1;
	}
	f->drop = xcalloc(f->n_line + 1, 1);
}

/* ---- running heads and feet ---- */

static int small_letter(const char *p, size_t n)
{
	int32_t cp;

	if (!n)
		return 0;
	utf8_decode(p, n, &cp);
	return (cp >= 'a' && cp <= 'z') || (cp >= 0xdf && cp < 0x250 && cp != 0xf7) || (cp >= 0x3ac && cp <= 0x3ce) ||
	       (cp >= 0x430 && cp <= 0x45f);
}

/* Return the index of the page's k-th line that is not blank, from the top or (bottom = 1) from the bottom;
 * SIZE_MAX if there is none. */
static size_t edge_line(const struct pdf *f, const struct page *pg, int bottom, int k)
{
	for (size_t i = 0; i < pg->n_line; i++) {
		size_t l = bottom ? pg->line + pg->n_line - 1 - i : pg->line + i;
		if (f->line[l].n && !k--)
			return l;
	}
	return SIZE_MAX;
}

/* Hash a line with each number replaced by '#', so that "Chapter 3 - 47" equals "Chapter 4 - 61". */
static uint64_t line_shape(const struct pdf *f, size_t l)
{
	const char *p = f->raw.p + f->line[l].at;
	uint64_t h = 1469598103934665603u;
	int digits = 0;

	for (size_t i = 0; i < f->line[l].n; i++) {
		unsigned char c = (unsigned char)p[i];
		int d = byte_is_digit(p[i]);
		if ((d && digits) || c == ' ') {
			digits = d;
			continue;
		}
		digits = d;
		h = (h ^ (d ? '#' : c)) * 1099511628211u;
	}
	return h;
}

static int is_roman(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strchr("ivxlcdm", p[i] | 32) || !p[i])
			return 0;
	return n > 0 && n < 8;
}

/* 1 if the line is only a page number: "12", "- 12 -", "xii", "Page 3 of 9". */
static int is_number(const struct pdf *f, size_t l)
{
	const char *p = f->raw.p + f->line[l].at;
	size_t n = f->line[l].n, digits = 0, letters = 0;

	if (is_roman(p, n))
		return 1;
	for (size_t i = 0; i < n; i++) {
		digits += byte_is_digit(p[i]);
		letters += (p[i] | 32) >= 'a' && (p[i] | 32) <= 'z';
	}
	return digits && n <= 20 && digits <= 8 && (!letters || (letters <= 6 && !strncasecmp(p, "page ", 5)));
}

struct seen {
	uint64_t shape;
	size_t n;
};

static int by_shape(const void *a, const void *b)
{
	uint64_t x = ((const struct seen *)a)->shape, y = ((const struct seen *)b)->shape;

	return (x > y) - (x < y);
}

/* Count the pages, among NEAR pages before and after page i, whose k-th line has the same text except for numbers
 * (line_shape). 0 for lines with fewer than 4 letters. */
static size_t count_nearby(const struct pdf *f, size_t i, size_t l, int bottom, int k)
{
	uint64_t h = line_shape(f, l);
	size_t count = 0, letters = 0, from = i > NEAR ? i - NEAR : 0;

	for (size_t c = 0; c < f->line[l].n; c++)
		letters += (unsigned char)(f->raw.p[f->line[l].at + c] | 32) >= 'a';
	for (size_t j = from; j < f->n_page && j <= i + NEAR && letters >= 4; j++) {
		size_t other = j == i ? SIZE_MAX : edge_line(f, &f->page[j], bottom, k);
		count += other != SIZE_MAX && line_shape(f, other) == h;
	}
	return count;
}

/* Find running heads and feet among the k-th lines of all pages, and set 1 in drop[]. Such a line has the same
 * text, except for numbers, on a fifth of the pages and at least three; or on three pages, two of them nearby.
 * Lines that are page numbers are dropped if half of the pages have one there. */
static void drop_edge(struct pdf *f, int bottom, int k)
{
	struct seen *s = xcalloc(f->n_page + 1, sizeof *s), *at;
	size_t n = 0, kinds = 0, numbers = 0, need = f->n_page / 5 > 3 ? f->n_page / 5 : 3;

	for (size_t i = 0; i < f->n_page; i++) {
		size_t l = edge_line(f, &f->page[i], bottom, k);
		if (l == SIZE_MAX)
			continue;
		s[n++] = (struct seen){ line_shape(f, l), 1 };
		numbers += is_number(f, l) != 0;
	}
	qsort(s, n, sizeof *s, by_shape);
	for (size_t i = 0; i < n; i++) {
		if (kinds && s[kinds - 1].shape == s[i].shape)
			s[kinds - 1].n++;
		else
			s[kinds++] = s[i];
	}
	for (size_t i = 0; i < f->n_page; i++) {
		size_t l = edge_line(f, &f->page[i], bottom, k);
		struct seen key;
		if (l == SIZE_MAX)
			continue;
		key.shape = line_shape(f, l);
		at = bsearch(&key, s, kinds, sizeof *s, by_shape);
		if ((at && (at->n >= need || (at->n >= 3 && count_nearby(f, i, l, bottom, k) >= 2))) ||
		    (is_number(f, l) && numbers >= 3 && numbers * 2 >= n))
			f->drop[l] |= 1;
	}
	free(s);
}

/* 1 if the line is a section's number and title in capitals, "2.1. SUPPORTED HARDWARE". */
static int is_capital_head(const struct pdf *f, size_t l)
{
	const char *p = f->raw.p + f->line[l].at;
	size_t n = f->line[l].n, i = 0, letters = 0;

	while (i < n && (byte_is_digit(p[i]) || p[i] == '.'))
		i++;
	if (i < 2 || i == n || p[i] != ' ')
		return 0;
	for (; i < n; i++) {
		if (small_letter(p + i, n - i))
			return 0;
		/* lead byte of most Cyrillic capitals */
		letters += (p[i] >= 'A' && p[i] <= 'Z') || (unsigned char)p[i] == 0xd0;
	}
	return letters >= 4;
}

/* Set 1 in drop[] for running heads that are section titles in capitals, "2.1. SUPPORTED HARDWARE". They change
 * from section to section, so drop_edge() does not find them. They are dropped if an eighth of the pages have one
 * at the top. */
static void drop_capital_heads(struct pdf *f)
{
	size_t n = 0;

	for (int drop = 0; drop < 2; drop++)
		for (size_t i = 0; i < f->n_page && (!drop || (n >= 3 && n * 8 >= f->n_page)); i++)
			for (int k = 0; k < EDGE; k++) {
				size_t l = edge_line(f, &f->page[i], 0, k);
				if (l == SIZE_MAX || !is_capital_head(f, l))
					continue;
				n++;
				if (drop)
					f->drop[l] |= 1;
			}
}

/* 1 if the line is only a heading's number. pdftotext may print one between the two lines of a running head. */
static int is_heading_number(const struct pdf *f, size_t l)
{
	return heading_number_level(f->raw.p + f->line[l].at, f->line[l].n) > 1;
}

/* Drop running heads and feet, from the page's edge inwards. A line further inside is dropped only if all lines
 * outside of it are; a heading's number between them is kept. */
static void drop_heads_and_feet(struct pdf *f)
{
	if (f->n_page < 3)
		return;
	for (int bottom = 0; bottom < 2; bottom++) {
		for (int k = 0; k < EDGE; k++)
			drop_edge(f, bottom, k);
		if (!bottom)
			drop_capital_heads(f);
		for (size_t i = 0; i < f->n_page; i++) {
			int gone = 1;
			for (int k = 0; k < EDGE; k++) {
				size_t l = edge_line(f, &f->page[i], bottom, k);
				if (l == SIZE_MAX)
					break;
				if (!gone)
					f->drop[l] &= 2;
				if (!f->drop[l] && gone && k && is_heading_number(f, l))
					continue;
				gone = f->drop[l] != 0;
				if (gone)
					f->drop[l] = 3; /* final, also for the pass from the other edge */
			}
		}
	}
}

/* ---- words divided at the end of a line ---- */

/* 1 if p[0..n) begins with a letter: ASCII, or U+00C0 to U+1FFF without the signs U+00D7 and U+00F7. */
static int begins_with_letter(const char *p, size_t n)
{
	int32_t cp;

	if (!n)
		return 0;
	utf8_decode(p, n, &cp);
	return (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') ||
	       (cp >= 0xc0 && cp < 0x2000 && cp != 0xd7 && cp != 0xf7);
}

/* Sorted hashes of the words that have a hyphen inside a line. They are sorted because a hostile text could put
 * all words into one bucket of a hash table. */
struct words {
	uint64_t *hash;
	size_t n;
};

static uint64_t word_hash(const char *a, size_t n_a, const char *b, size_t n_b)
{
	uint64_t h = 1469598103934665603u;

	for (size_t i = 0; i < n_a; i++)
		h = (h ^ (unsigned char)(a[i] | 32)) * 1099511628211u;
	h = (h ^ '-') * 1099511628211u;
	for (size_t i = 0; i < n_b; i++)
		h = (h ^ (unsigned char)(b[i] | 32)) * 1099511628211u;
	return h;
}

static size_t word_before(const char *p, size_t at)
{
	size_t n = 0;

	while (n < at && n < 64 && ((p[at - n - 1] | 32) >= 'a' || (unsigned char)p[at - n - 1] >= 0x80) &&
	       (unsigned char)p[at - n - 1] != '|')
		n++;
	return n;
}

static size_t word_after(const char *p, size_t n)
{
	size_t k = 0;

	while (k < n && k < 64 && (((p[k] | 32) >= 'a' && (p[k] | 32) <= 'z') || (unsigned char)p[k] >= 0x80))
		k++;
	return k;
}

static int by_hash(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int words_have(const struct words *w, uint64_t h)
{
	return bsearch(&h, w->hash, w->n, sizeof h, by_hash) != NULL;
}

static void words_collect(struct words *w, const struct str *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->p[i] == '-';
	w->hash = xcalloc(n + 1, sizeof *w->hash);
	for (size_t i = 1; i + 1 < t->n; i++)
		if (t->p[i] == '-') {
			size_t a = word_before(t->p, i), b = word_after(t->p + i + 1, t->n - i - 1);
			if (a && b)
				w->hash[w->n++] = word_hash(t->p + i - a, a, t->p + i + 1, b);
		}
	qsort(w->hash, w->n, sizeof *w->hash, by_hash);
}

/* If line l ends with a hyphen that divides a word, return the hyphen's bytes; else 0. The next line continues the
 * word. *keep = 1 if the word has a hyphen even when it is not divided. */
static size_t dividing_hyphen(const struct pdf *f, const struct words *w, const struct pdf_line *l,
                              const struct pdf_line *next, int *keep)
{
	const char *p = f->raw.p + l->at, *q = f->raw.p + next->at;
	size_t mark = 0, a, b;

	*keep = 0;
	if (l->n > 2 && p[l->n - 1] == '-')
		mark = 1;
	else if (l->n > 3 && !memcmp(p + l->n - 2, "\xc2\xad", 2))
		mark = 2;
	else if (l->n > 4 && !memcmp(p + l->n - 3, "\xe2\x80\x90", 3))
		mark = 3;
	if (!mark)
		return 0;
	a = l->n - mark;
	while (a && utf8_continues(p[a - 1]))
		a--;
	if (!a || !begins_with_letter(p + a - 1, l->n - mark - a + 1) || !next->n)
		return 0;
	if (!small_letter(q, next->n)) {
		*keep = begins_with_letter(q, next->n);
		return *keep ? mark : 0;
	}
	a = word_before(p, l->n - mark);
	b = word_after(q, next->n);
	*keep = mark != 2 && a && b && words_have(w, word_hash(p + l->n - mark - a, a, q, b));
	return mark;
}

/* ---- writing ---- */

static void write_page(const struct pdf *f, const struct words *w, const struct page *pg, struct doc *d)
{
	int blank = 1, joined = 0;

	for (size_t i = pg->line; i < pg->line + pg->n_line; i++) {
		const struct pdf_line *l = &f->line[i], *next = i + 1 < pg->line + pg->n_line ? l + 1 : NULL;
		size_t divided = 0;
		int keep = 0;
		if (!l->n || f->drop[i]) {
			blank |= !l->n;
			continue;
		}
		if (d->text.n && !joined)
			str_adds(&d->text, blank ? "\n\n" : "\n");
		if (next && next->n && !f->drop[i + 1])
			divided = dividing_hyphen(f, w, l, next, &keep);
		str_add(&d->text, f->raw.p + l->at, l->n - (keep ? 0 : divided));
		joined = divided > 0;
		blank = 0;
	}
}

/* Add the notice "14 of 311 pages hold no text (scanned?): 3, 17, ...". */
static void note_empty_pages(const struct pdf *f, struct doc *d)
{
	struct str list = { 0 };
	size_t empty = 0;

	for (size_t i = 0; i < f->n_page; i++) {
		if (f->page[i].text)
			continue;
		if (++empty <= PAGES_NAMED)
			str_addf(&list, "%s%zu", empty > 1 ? ", " : "", i + 1);
		else if (empty == PAGES_NAMED + 1)
			str_adds(&list, ", ...");
	}
	if (empty)
		doc_note(d, "%zu of %zu pages hold%s no text (scanned?): %s", empty, f->n_page, empty == 1 ? "s" : "",
		         list.p);
	str_free(&list);
}

static void write_pages(const struct pdf *f, struct doc *d)
{
	struct words w = { 0 };
	char label[16];

	words_collect(&w, &f->raw);
	for (size_t i = 0; i < f->n_page; i++) {
		size_t before = d->text.n, from, m = d->n_mark;
		doc_mark(d, MARK_PAGE, 0, before, label, (size_t)snprintf(label, sizeof label, "%zu", i + 1));
		write_page(f, &w, &f->page[i], d);
		/* The page mark belongs to its first text, after the gap. */
		for (from = before; from < d->text.n && d->text.p[from] == '\n'; from++)
			;
		d->mark[m].at = from;
		if (d->text.n)
			pdf_mark_headings(d, from);
	}
	free(w.hash);
}

int pdf_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct pdf f = { 0 };
	size_t replaced = 0, with_text = 0;
	int rc = 0;

	clean_characters(&f.raw, p, n, &replaced);
	if (f.raw.n > DOC_BYTES_MAX) {
		str_free(&f.raw);
		return err_set(e, ERR_DOCUMENT, "holds more than %u MiB of text", DOC_BYTES_MAX >> 20);
	}
	split_pages(&f);
	for (size_t i = 0; i < f.n_page; i++)
		with_text += f.page[i].text != 0;
	if (!with_text) {
		rc = err_set(
			e, ERR_DOCUMENT,
			"holds no text on its %zu page%s: they are pictures (scanned?); ocrmypdf makes text of them",
			f.n_page, f.n_page == 1 ? "" : "s");
	} else {
		drop_heads_and_feet(&f);
		write_pages(&f, d);
		/* If only heads and feet were found, they are the text. */
		if (!d->text.n) {
			memset(f.drop, 0, f.n_line);
			doc_free(d);
			d->type = DOC_PDF;
			write_pages(&f, d);
		}
		note_empty_pages(&f, d);
		if (replaced)
			doc_note(d, "%zu byte sequence%s cannot be decoded: replaced by U+FFFD", replaced,
			         replaced == 1 ? " that" : "s that");
	}
	str_free(&f.raw);
	free(f.line);
	free(f.page);
	free(f.drop);
	return rc;
}
