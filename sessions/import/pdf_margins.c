/* sessions/import/pdf_margins.c - finds running heads, running feet and page numbers.
 *
 * They are in the margins of a page, in letters that are not much larger than the letters of the text.
 *
 * A page number stands alone or beside a running head, and it counts the pages: if another page is k pages later, the
 * number at the same place there is larger by k. A number that does not count the pages is text. A number after a word
 * other than "page" is text, too: "Invoice No. 4711".
 *
 * A running head or foot is a line that recurs at the same place. The first such line stays in the text, unless it
 * repeats a title. */
#include "sessions/import/pdf.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* height of the zones at a page's top and bottom that contain heads and feet, divided by the page's height */
#define MARGIN 0.15f
#define LARGE  1.25f /* lines whose letters are larger than this many times the usual size are not heads or feet */
#define SAME   3.0f  /* two lines are at the same place if their positions differ by fewer points than this */

/* EDGE is the maximum number of rows that are examined in a margin, counted from the page's edge. PIECES is the maximum
 * number of lines in these rows. Each page is compared with NEAR pages before it and NEAR pages after it. A document is
 * short if it has fewer than FEW_PAGES pages. A number is no page number if it exceeds the page's index in the file by
 * OFFSET_MOST or more, as numbers of invoices do. Numbers from YEAR_FIRST to YEAR_LAST are taken for years. */
enum { EDGE = 6, PIECES = 16, NEAR = 6, FEW_PAGES = 10, OFFSET_MOST = 2500, YEAR_FIRST = 1700, YEAR_LAST = 2100 };

/* A line in the margin of a page. */
struct candidate {
	uint32_t page, line;
	int bottom;
	/* `text` is a hash of the line's text with '#' in place of the page number; `letters` is a hash of its letters
	 * only */
	uint64_t text, letters;
	size_t n_letters;
	/* Numbers that may be the page number: number[0] is at the end of the line, number[1] at its beginning; -1 =
	 * none. */
	long number[2];
	int bare[2];   /* 1: except number[i], the line has only signs, words for "page" and the number of pages */
	int counts;    /* 1: number[0] or number[1] is a page number */
	int is_number; /* 1: the line has nothing but its page number, so it is left out */
	int recurs;    /* 1: the line is a running head or foot */
	int first;     /* 1: the line is the first occurrence of a running head or foot */
};

struct margins {
	struct pdf *f;
	struct candidate *c;
	size_t n, cap;
	size_t *page; /* page[n_page + 1] has the index of each page's first candidate */
	/* letters[n_letters] has, for each line that is not a candidate, a hash of the line's letters; sorted */
	uint64_t *letters;
	size_t n_letters;
};

/* ---- numbers ---- */

/* Return the value of a decimal number of at most five digits, or of a Roman numeral below 400. Return -1 for anything
 * else. */
static long number_value(const char *p, size_t n)
{
	static const struct {
		const char *sign;
		int value;
	} roman[] = { { "c", 100 }, { "xc", 90 }, { "l", 50 }, { "xl", 40 }, { "x", 10 },
		      { "ix", 9 },  { "v", 5 },   { "iv", 4 }, { "i", 1 } };
	long v = 0;
	size_t at = 0;
	int times = 0;

	if (n && byte_is_digit(*p)) {
		for (; at < n && at < 5 && byte_is_digit(p[at]); at++)
			v = 10 * v + (p[at] - '0');
		return at == n ? v : -1;
	}
	for (size_t i = 0; i < LEN(roman) && at < n;) {
		size_t k = strlen(roman[i].sign);
		if (n - at >= k && !strncasecmp(p + at, roman[i].sign, k) && times < (k == 1 && i % 4 == 0 ? 3 : 1)) {
			v += roman[i].value;
			at += k;
			times++;
		} else {
			i++;
			times = 0;
		}
	}
	return n && at == n ? v : -1;
}

/* 1 for a word that precedes a page number ("page"), or that is between it and the number of pages ("of"). */
static int is_page_word(const char *p, size_t n)
{
	static const char words[] =
		" page pages pg p pp seite s página pagina pág pag strana strona sida side str стр страница sayfa "
		"第 页 頁 ページ of von de di sur av af od из z / ";
	char word[20];

	if (!n || n > 16)
		return 0;
	word[0] = ' ';
	for (size_t i = 0; i < n; i++)
		word[i + 1] = byte_is_upper(p[i]) ? p[i] + 32 : p[i];
	word[n + 1] = ' ';
	word[n + 2] = 0;
	return strstr(words, word) != NULL;
}

/* Return the length of the sign at p if it may be beside a page number, such as '-', '|' or a bracket; 0 for anything
 * else. */
static size_t ornament(const char *p, size_t n)
{
	static const char *const signs[] = { "-",
		                             "|",
		                             "/",
		                             "[",
		                             "]",
		                             "(",
		                             ")",
		                             ".",
		                             ":",
		                             ",",
		                             "~",
		                             "*",
		                             "\xc2\xb7",
		                             "\xe2\x80\x93",
		                             "\xe2\x80\x94",
		                             "\xe2\x80\xa2",
		                             "\xe2\x88\x92",
		                             "\xe2\x80\x90" };

	for (size_t i = 0; i < LEN(signs); i++)
		if (n >= strlen(signs[i]) && !memcmp(p, signs[i], strlen(signs[i])))
			return strlen(signs[i]);
	return 0;
}

/* One part of a line: a word, a number or a sign. */
struct token {
	const char *p;
	size_t n;
	long value; /* value of a number; -1: the token is not a number */
	int sign;
};

/* Read the first token at p, of n bytes, into *t. Return how many bytes were read. A sign ends the word before it in
 * three cases: the sign is '/'; it is not ASCII; or a blank or the end follows it. So "3.1" is one token. */
static size_t next_token(const char *p, size_t n, struct token *t)
{
	size_t at = 0, from;

	while (at < n && p[at] == ' ')
		at++;
	from = at;
	*t = (struct token){ .p = p + from, .value = -1 };
	if (at < n && (at += ornament(p + at, n - at)) > from)
		t->sign = 1;
	else
		while (at < n && p[at] != ' ' &&
		       !(ornament(p + at, n - at) &&
		         (at + 1 == n || p[at + 1] == ' ' || p[at] == '/' || (unsigned char)p[at] >= 0x80)))
			at++;
	t->n = p + at - t->p;
	if (!t->sign)
		t->value = number_value(t->p, t->n);
	return at;
}

enum { TOKENS = 64 };

/* 1 for a sign that separates a running head from its page number. The sign '|' also stands for a wide gap between the
 * two. */
static int parts_number(const struct token *t)
{
	return t->sign && !strchr(".:,-()[]", *t->p);
}

/* 1 if v may be the number of a page. `page` is the index of that page in the file. */
static int may_be_page(long v, uint32_t page)
{
	return v >= 0 && v < (long)page + OFFSET_MOST && (v < YEAR_FIRST || v > YEAR_LAST || page > YEAR_FIRST / 2);
}

/* Find numbers that may be page numbers in a line of n tokens: number[0] at its end and number[1] at its beginning.
 * Such a number is alone, after a word for "page", or beside a sign that separates it from the rest of the line. In
 * "No. | 12" the dot shows that 12 is not a page number. index[side] receives the index of the number's token. */
static void find_numbers(struct candidate *c, const struct token *t, size_t n, size_t index[2])
{
	size_t words = 0, numbers = 0;

	c->number[0] = c->number[1] = -1;
	for (size_t i = 0; i < n; i++) {
		words += !t[i].sign && t[i].value < 0 && !is_page_word(t[i].p, t[i].n);
		numbers += t[i].value >= 0;
	}
	for (int side = 0; side < 2; side++) {
		int of = 0, bare;
		for (size_t k = 0; k < n; k++) {
			size_t i = side ? k : n - 1 - k, inner = side ? i + 1 : i - 1;
			int has_inner = side ? i + 1 < n : i > 0;
			if (t[i].sign)
				continue;
			if (is_page_word(t[i].p, t[i].n) && t[i].value < 0)
				continue;
			if (t[i].value < 0)
				break;
			/* "page 3 of 9", "3/9": skip the 9, which is the number of pages */
			if (!side && i > 1 && t[i - 2].value >= 0 &&
			    (is_page_word(t[i - 1].p, t[i - 1].n) || *t[i - 1].p == '/')) {
				of = 1;
				continue;
			}
			bare = !words && numbers == 1 + (size_t)of;
			if (may_be_page(t[i].value, c->page) &&
			    (bare || (i > 0 && is_page_word(t[i - 1].p, t[i - 1].n)) ||
			     (has_inner && parts_number(&t[inner]) &&
			      (side || i < 2 || !strchr(".:#", t[i - 2].p[t[i - 2].n - 1]))))) {
				c->number[side] = t[i].value;
				c->bare[side] = bare;
				index[side] = i;
			}
			break;
		}
	}
}

static uint64_t hash_bytes(uint64_t h, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * 1099511628211u;
	return (h ^ ' ') * 1099511628211u;
}

uint64_t pdf_letters_hash(const char *p, size_t n, size_t *letters)
{
	uint64_t h = 1469598103934665603u;
	size_t i = 0, digits = 0, most = 0;

	*letters = 0;
	while (i < n && (byte_is_digit(p[i]) || strchr(". |", p[i])))
		digits = byte_is_digit(p[i++]) ? digits + 1 : 0, most = MAX(most, digits);
	for (i = most > 3 ? 0 : i; i < n; i++) {
		char c = byte_is_upper(p[i]) ? p[i] + 32 : p[i];
		if (!byte_is_word(c))
			continue;
		*letters += byte_is_letter(c) && !utf8_continues(c);
		h = (h ^ (unsigned char)c) * 1099511628211u;
	}
	return h;
}

/* ---- lines in the margins ---- */

static const struct pdf_line *line_of(const struct margins *m, const struct candidate *c)
{
	return &m->f->line[c->line];
}

/* Find the numbers of line c that may be page numbers, and hash the text and the letters of the line. If `side` is -1,
 * no page number is known yet, so both hashes are of the whole line. Otherwise number[side] is the page number, and '#'
 * is hashed in its place. Side 0 is the line's end: only the letters before the number are hashed. Side 1 is the line's
 * beginning: only the letters after the number are hashed. */
static void hash_text(const struct margins *m, struct candidate *c, int side)
{
	const struct pdf_line *l = line_of(m, c);
	const char *p = m->f->text.p + l->at, *end = p + l->n;
	struct token t[TOKENS];
	size_t n = 0, index[2] = { SIZE_MAX, SIZE_MAX };

	for (size_t at = 0; at < l->n && n < TOKENS; n++)
		at += next_token(p + at, l->n - at, &t[n]);
	find_numbers(c, t, n, index);
	c->text = 1469598103934665603u;
	for (size_t i = 0; i < n; i++)
		c->text = side >= 0 && i == index[side] ? hash_bytes(c->text, "#", 1)
		                                        : hash_bytes(c->text, t[i].p, t[i].n);
	if (side == 0)
		end = t[index[0]].p;
	else if (side == 1)
		p = t[index[1]].p + t[index[1]].n;
	c->letters = pdf_letters_hash(p, (size_t)(end - p), &c->n_letters);
}

struct margin_line {
	float y;
	uint32_t line;
};

static int by_y(const void *a, const void *b)
{
	const struct margin_line *x = a, *y = b;

	return x->y != y->y ? (x->y > y->y) - (x->y < y->y) : (x->line > y->line) - (x->line < y->line);
}

/* Add the lines in the margins of a page, from the edge inwards. `s` is a buffer with one entry for each line of the
 * page. */
static void add_candidates(struct margins *m, uint32_t page, struct margin_line *s)
{
	const struct pdf_page *pg = &m->f->page[page];

	for (int bottom = 0; bottom < 2; bottom++) {
		size_t n = 0, rows = 0;
		float base = 0;
		for (size_t i = pg->line; i < pg->line + pg->n_line; i++) {
			const struct pdf_line *l = &m->f->line[i];
			if (l->upright &&
			    (bottom ? l->box.y1 > (1 - MARGIN) * pg->height : l->box.y0 < MARGIN * pg->height))
				s[n++] = (struct margin_line){ bottom ? -l->box.y1 : l->box.y1, (uint32_t)i };
		}
		qsort(s, n, sizeof *s, by_y);
		for (size_t i = 0; i < n; i++) {
			const struct pdf_line *l = &m->f->line[s[i].line];
			if (!i || s[i].y - base > 0.5f * l->size) {
				base = s[i].y;
				if (rows++ == EDGE)
					break;
			}
			if (l->size > LARGE * m->f->body || l->n > 300 || i >= PIECES)
				continue;
			GROW(m->c, m->n, m->cap);
			m->c[m->n] = (struct candidate){ .page = page, .line = s[i].line, .bottom = bottom };
			hash_text(m, &m->c[m->n], -1);
			m->n++;
		}
	}
}

/* 1 if two lines of different pages are at the same place: at the same height, with the same left end, right end or
 * centre. The place may also be mirrored, as on left and right pages of a book. */
static int same_place(const struct margins *m, const struct candidate *a, const struct candidate *b)
{
	const struct pdf_box *x = &line_of(m, a)->box, *y = &line_of(m, b)->box;
	float width = m->f->page[b->page].width, other = m->f->page[a->page].width;

	if (a->bottom != b->bottom || x->y1 - y->y1 > SAME || y->y1 - x->y1 > SAME)
		return 0;
	return (x->x0 - y->x0 < SAME && y->x0 - x->x0 < SAME) || (x->x1 - y->x1 < SAME && y->x1 - x->x1 < SAME) ||
	       (x->x0 + x->x1 - y->x0 - y->x1 < 2 * SAME && y->x0 + y->x1 - x->x0 - x->x1 < 2 * SAME) ||
	       (other - x->x1 - y->x0 < SAME && y->x0 - other + x->x1 < SAME) ||
	       (width - y->x1 - x->x0 < SAME && x->x0 - width + y->x1 < SAME);
}

/* Find page numbers. If another page is k pages later, the page number there must be larger by k. Two numbers are
 * compared only if they are at the same place, or if both are bare (struct candidate). */
static void find_page_numbers(struct margins *m)
{
	for (size_t i = 0; i < m->n; i++) {
		struct candidate *c = &m->c[i];
		uint32_t from = c->page > NEAR ? c->page - NEAR : 0,
			 to = MIN(c->page + NEAR + 1, (uint32_t)m->f->n_page);
		for (int side = 0; side < 2 && !c->counts; side++) {
			int found = 0;
			for (uint32_t p = from; p < to && c->number[side] >= 0; p++)
				for (size_t k = m->page[p]; k < m->page[p + 1] && p != c->page; k++) {
					const struct candidate *o = &m->c[k];
					long want = c->number[side] + (long)p - (long)c->page;
					if (want >= 0 && (o->number[0] == want || o->number[1] == want) &&
					    ((c->bare[side] && (o->bare[0] || o->bare[1])) || same_place(m, c, o))) {
						found++;
						break;
					}
				}
			/* A number beside other text must fit the numbers of 4 other pages, because it may be an
			 * invoice's number. A bare number must fit the numbers of 2 pages. */
			if (found < (c->bare[side] ? 2 : 4))
				continue;
			c->counts = 1;
			c->is_number = c->bare[side];
			hash_text(m, c, side);
		}
	}
}

static int by_text(const void *a, const void *b)
{
	const struct candidate *const *x = a, *const *y = b;

	return (*x)->text != (*y)->text       ? ((*x)->text > (*y)->text) - ((*x)->text < (*y)->text)
	       : (*x)->bottom != (*y)->bottom ? (*x)->bottom - (*y)->bottom
	                                      : (*x > *y) - (*x < *y);
}

/* Count the pages that have a line at the same position as line c, but with a different text. */
static size_t count_others(const struct margins *m, const struct candidate *c)
{
	size_t others = 0;

	for (uint32_t p = 0; p < m->f->n_page; p++)
		for (size_t k = m->page[p]; k < m->page[p + 1]; k++)
			if (m->c[k].text != c->text && same_place(m, c, &m->c[k])) {
				others++;
				break;
			}
	return others;
}

/* 1 if n equal lines at the same place, sorted by page, are a running head or foot. In a short document, half of the
 * pages must have the line, and no page may have a line with another text at that place. In a longer document, the line
 * must be on 1/5 of all pages, or on 2/5 of the pages from its first page to its last. */
static int is_running(const struct margins *m, struct candidate *const *c, size_t n)
{
	size_t pages = m->f->n_page, span = c[n - 1]->page - c[0]->page + 1;

	if (n < 3)
		return 0;
	if (pages < FEW_PAGES)
		return n * 2 >= pages && !count_others(m, c[0]);
	return n * 5 >= span * 2 || n * 5 >= pages;
}

static void find_recurring(struct margins *m)
{
	struct candidate **s = xmalloc((m->n + 1) * sizeof(struct candidate *));

	for (size_t i = 0; i < m->n; i++)
		s[i] = &m->c[i];
	qsort(s, m->n, sizeof(struct candidate *), by_text);
	for (size_t i = 0, to; i < m->n; i = to) {
		/* find the end of a sequence s[i] .. s[to - 1] of lines with the same text at the same position;
		 * between two successive lines of the sequence, there are only a few pages */
		for (to = i + 1; to < m->n && s[to]->text == s[i]->text &&
		                 s[to]->page - s[to - 1]->page <= MAX(2 * NEAR, m->f->n_page / 5) &&
		                 same_place(m, s[to - 1], s[to]);
		     to++)
			;
		if (!is_running(m, s + i, to - i))
			continue;
		for (size_t k = i; k < to; k++)
			s[k]->recurs = 1;
		s[i]->first = 1;
	}
	free(s);
}

/* ---- titles of sections as heads ---- */

static int by_hash(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Collect the hashes of the letters of all lines that are no candidates. */
static void collect_letters(struct margins *m)
{
	const struct pdf *f = m->f;
	unsigned char *margin = xcalloc(f->n_line + 1, 1);
	size_t letters;

	for (size_t i = 0; i < m->n; i++)
		margin[m->c[i].line] = 1;
	m->letters = xmalloc((f->n_line + 1) * sizeof *m->letters);
	for (size_t i = 0; i < f->n_line; i++)
		if (!margin[i] && f->line[i].n < 300)
			m->letters[m->n_letters++] =
				pdf_letters_hash(f->text.p + f->line[i].at, f->line[i].n, &letters);
	qsort(m->letters, m->n_letters, sizeof *m->letters, by_hash);
	free(margin);
}

/* 1 if a line that is not a candidate has the same letters as c, which means that c repeats a title. */
static int stands_elsewhere(const struct margins *m, const struct candidate *c)
{
	return c->n_letters >= 4 && bsearch(&c->letters, m->letters, m->n_letters, sizeof c->letters, by_hash);
}

/* Find running heads that repeat the title of a section, and therefore recur on few pages. Such a head is beside a page
 * number, or at the height of other heads on at least half of the nearby pages. */
static void find_section_heads(struct margins *m)
{
	for (size_t i = 0; i < m->n; i++) {
		struct candidate *c = &m->c[i];
		size_t heads = 0, pages = 0;
		if (c->recurs || c->is_number || c->n_letters < 4 || !stands_elsewhere(m, c))
			continue;
		for (uint32_t p = c->page > NEAR ? c->page - NEAR : 0; p < m->f->n_page && p <= c->page + NEAR; p++) {
			int head = 0;
			for (size_t k = m->page[p]; k < m->page[p + 1]; k++) {
				const struct pdf_box *a = &line_of(m, c)->box, *b = &line_of(m, &m->c[k])->box;
				head |= m->c[k].bottom == c->bottom && (m->c[k].recurs || m->c[k].counts) &&
				        a->y1 - b->y1 < SAME && b->y1 - a->y1 < SAME;
			}
			heads += head != 0;
			pages++;
		}
		c->recurs = c->counts || (heads >= 3 && heads * 2 >= pages);
	}
}

/* ---- leaving out ---- */

static void keep_line(const struct pdf *f, size_t i)
{
	if (f->line[i].left_out == LEFT_LINE)
		f->line[i].left_out = 0;
}

/* Keep a line that was taken for a head or foot if the line above or below it stays and is not separated from it by a
 * blank line. Such lines belong to one block, for example a form that is on each page. */
static void keep_blocks(const struct pdf *f, const struct pdf_page *pg)
{
	for (size_t i = pg->line + pg->n_line; i-- > pg->line + 1;)
		if (!f->line[i].gap && !f->line[i].left_out)
			keep_line(f, i - 1);
	for (size_t i = pg->line + 1; i < pg->line + pg->n_line; i++)
		if (!f->line[i].gap && !f->line[i - 1].left_out)
			keep_line(f, i);
}

/* Mark page numbers, running heads and running feet, so that they are left out. The first occurrence of a head or foot
 * stays, unless its words also occur outside of the margins. If a page would lose all its lines, only its page numbers
 * are left out. */
static void leave_out(struct margins *m)
{
	for (uint32_t p = 0; p < m->f->n_page; p++) {
		const struct pdf_page *pg = &m->f->page[p];
		size_t left = pg->n_line, numbers = 0;
		for (size_t k = m->page[p]; k < m->page[p + 1]; k++) {
			struct candidate *c = &m->c[k];
			int out = c->is_number || (c->recurs && (!c->first || stands_elsewhere(m, c)));
			m->f->line[c->line].running = c->recurs && !out;
			if (!out || m->f->line[c->line].left_out)
				continue;
			m->f->line[c->line].left_out = c->is_number ? LEFT_NUMBER : LEFT_LINE;
			numbers += c->is_number;
			left--;
		}
		if (left != pg->n_line)
			keep_blocks(m->f, pg);
		for (size_t k = m->page[p]; k < m->page[p + 1] && !left && numbers < pg->n_line; k++)
			keep_line(m->f, m->c[k].line);
	}
}

void pdf_leave_out_margins(struct pdf *f)
{
	struct margins m = { .f = f };
	struct margin_line *s;
	size_t most = 0;

	if (f->n_page < 3)
		return;
	for (size_t i = 0; i < f->n_page; i++)
		most = MAX(most, f->page[i].n_line);
	s = xmalloc((most + 1) * sizeof *s);
	m.page = xcalloc(f->n_page + 1, sizeof *m.page);
	for (uint32_t i = 0; i < f->n_page; i++) {
		m.page[i] = m.n;
		add_candidates(&m, i, s);
	}
	m.page[f->n_page] = m.n;
	find_page_numbers(&m);
	find_recurring(&m);
	collect_letters(&m);
	find_section_heads(&m);
	leave_out(&m);
	free(s);
	free(m.page);
	free(m.c);
	free(m.letters);
}
