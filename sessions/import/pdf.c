/* sessions/import/pdf.c - writes the text of a PDF, line by line, and joins words that were divided at line ends. The
 * text is as untrusted as the PDF, so all of this happens in the jail. */
#include "sessions/import/divided.h"
#include "sessions/import/pdf.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If a hyphen divides a word at a line end, and both halves occur elsewhere in the text as words, the hyphen is kept.
 * For this, each half must have at least PART_LETTERS letters. */
#define PART_LETTERS 4

/* ---- words divided at the end of a line ---- */

static int small_letter(const char *p, size_t n)
{
	int32_t cp;

	if (!n)
		return 0;
	utf8_decode(p, n, &cp);
	return (cp >= 'a' && cp <= 'z') || (cp >= 0xdf && cp < 0x250 && cp != 0xf7) || (cp >= 0x3ac && cp <= 0x3ce) ||
	       (cp >= 0x430 && cp <= 0x45f);
}

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

/* Collect the words of all lines. "well-known" gives "well" and "well-known". A word at a line end is left out if it
 * may be divided there. */
static void words_collect(struct words_known *w, const struct pdf *f)
{
	int divided = 0;

	for (size_t i = 0; i < f->n_line; i++) {
		const char *p = f->text.p + f->line[i].at;
		size_t n = f->line[i].n;
		for (size_t at = 0, k; at < n && !f->line[i].left_out; at += k + 1) {
			size_t before = at > 1 && p[at - 1] == '-' ? word_before(p, at - 1) : 0;
			k = word_after(p + at, n - at);
			if (!k || (!at && divided) || (at + k + 1 == n && p[n - 1] == '-'))
				continue;
			words_know(w, before ? word_hash(word_hash(0, p + at - 1 - before, before + 1), p + at, k)
			                     : word_hash(0, p + at, k));
		}
		divided = n && (p[n - 1] == '-' || (unsigned char)p[n - 1] >= 0x80);
	}
	words_sort(w);
}

/* 1 for a word such as "and". If such a word follows a hyphen, the hyphen may stand for the rest of a word: "Vor- und
 * Nachteile". */
static int suspends(const char *p, size_t n)
{
	static const char words[] = " und oder bzw sowie bis and or to en of et ou y o e ed och eller og i a oraz lub ";
	char word[16];

	if (!n || n > 8)
		return 0;
	snprintf(word, sizeof word, " %.*s ", (int)n, p);
	return strstr(words, word) != NULL;
}

/* 1 if the line ends with a web, mail or file address. */
static int ends_in_address(const char *p, size_t n)
{
	size_t at = n;

	while (at && p[at - 1] != ' ')
		at--;
	return memmem(p + at, n - at, "://", 3) || memmem(p + at, n - at, "www.", 4) || memchr(p + at, '@', n - at) ||
	       memchr(p + at, '/', n - at);
}

enum line_end { END_LINE, END_DIVIDED, END_HYPHEN, END_BLANK };

/* Tell how line l is joined to the next line, judging by the hyphen at the end of line l. Set *hyphen to the length of
 * this hyphen in bytes, or to 0 if line l does not end with one. Return one of these:
 * - END_LINE: the lines are not joined.
 * - END_DIVIDED: the hyphen divides a word, so the lines are joined without it.
 * - END_HYPHEN: the hyphen is part of the word, so the lines are joined with it.
 * - END_BLANK: the hyphen stands for the rest of a word ("Vor- und"), so the lines are joined with a blank. */
static enum line_end line_end(const struct pdf *f, const struct words_known *w, const struct pdf_line *l,
                              const struct pdf_line *next, size_t *hyphen)
{
	const char *p = f->text.p + l->at, *q = f->text.p + next->at;
	size_t mark = 0, a, b;
	uint64_t compound, solid;

	if (l->n > 2 && p[l->n - 1] == '-')
		mark = 1;
	else if (l->n > 3 && !memcmp(p + l->n - 2, "\xc2\xad", 2))
		mark = 2;
	else if (l->n > 4 && !memcmp(p + l->n - 3, "\xe2\x80\x90", 3))
		mark = 3;
	*hyphen = mark;
	if (!mark || !byte_is_word(p[l->n - mark - 1]))
		return END_LINE;
	if (mark == 2)
		return END_DIVIDED;
	if (byte_is_digit(*q) || (!small_letter(q, next->n) && begins_with_letter(q, next->n)))
		return END_HYPHEN;
	if (!small_letter(q, next->n))
		return END_LINE;
	a = word_before(p, l->n - mark);
	b = word_after(q, next->n);
	if (!a || ends_in_address(p, l->n) || (b < next->n && q[b] == '-' && suspends(q, b)))
		return END_HYPHEN;
	compound = word_hash(word_hash(word_hash(0, p + l->n - mark - a, a), "-", 1), q, b);
	solid = word_hash(word_hash(0, p + l->n - mark - a, a), q, b);
	if (suspends(q, b))
		return words_have(w, compound, 1) ? END_HYPHEN : END_BLANK;
	if (words_have(w, solid, 1))
		return END_DIVIDED;
	/* if both halves occur in the text as words, take the word for a compound, because syllables are seldom
	 * words */
	return words_have(w, compound, 1) || (a >= PART_LETTERS && b >= PART_LETTERS &&
	                                      words_have(w, word_hash(0, p + l->n - mark - a, a), 2) &&
	                                      words_have(w, word_hash(0, q, b), 2))
	               ? END_HYPHEN
	               : END_DIVIDED;
}

/* ---- writing ---- */

struct writing {
	struct pdf *f;
	struct words_known words;
	struct pdf_headings *headings;
	struct doc *d;
	size_t left_out;
	enum line_end end; /* how the last line that was written ended; it may be on the page before */
};

/* Return the next line after line i that is written; NULL: none. */
static const struct pdf_line *line_after(const struct pdf *f, size_t i)
{
	while (++i < f->n_line)
		if (!f->line[i].left_out)
			return &f->line[i];
	return NULL;
}

/* 1 if the paragraph of line l may continue in the line `next`. This is so if there is no blank line between them. It
 * is also so if two conditions hold: `next` is higher on its page, because it is in another column or on another page;
 * and its letters have about the same size. */
static int goes_on(const struct pdf_line *l, const struct pdf_line *next)
{
	return !l->row && !next->row &&
	       (!next->gap || (next->box.y0 < l->box.y0 && next->size < 1.1f * l->size && l->size < 1.1f * next->size));
}

static void write_lines(struct writing *w, const struct pdf_page *pg)
{
	const struct pdf *f = w->f;
	struct str *t = &w->d->text;
	/* `heading` is the number of lines of the current heading that are not written yet. `from` is 1 + the offset at
	 * which the heading's text begins; 0 if none of the heading is written yet. */
	size_t heading = 0, hyphen, from = 0;
	int level = 0, gap = 1;

	for (size_t i = pg->line; i < pg->line + pg->n_line; i++) {
		const struct pdf_line *l = &f->line[i], *next;
		gap |= l->gap;
		if (l->left_out) {
			str_addf(&w->d->left_out, "%zu\t%.*s\n", (size_t)(pg - f->page) + 1, (int)l->n,
			         f->text.p + l->at);
			w->left_out++;
			continue;
		}
		if (!heading && w->end == END_LINE && (heading = pdf_heading(w->headings, pg, i, &level)))
			gap = 1;
		if (w->end == END_BLANK)
			str_adds(t, " ");
		else if (w->end == END_LINE && t->n)
			str_adds(t, gap ? "\n\n" : "\n");
		if (heading && !from)
			from = t->n + 1;
		next = line_after(f, i);
		w->end = next && goes_on(l, next) ? line_end(f, &w->words, l, next, &hyphen) : END_LINE;
		str_add(t, f->text.p + l->at, l->n - (w->end == END_DIVIDED ? hyphen : 0));
		gap = 0;
		if (heading && !--heading) {
			doc_mark(w->d, MARK_HEADING, level, from - 1, t->p + from - 1, t->n - from + 1);
			from = 0;
			gap = 1; /* the text after a heading is a block of its own */
		}
	}
}

/* 1 for a character that common texts do not contain: Latin Extended-B, private use, U+FFFD. pdftotext often prints
 * such characters for a font that does not say which characters its glyphs stand for. */
static int is_rare(int32_t cp)
{
	return (cp >= 0x180 && cp < 0x250) || (cp >= 0xe000 && cp < 0xf900) || cp == 0xfffd || cp >= 0xf0000;
}

/* Return PAGE_UNREADABLE if at least 3 letters of the page are rare characters (is_rare), and these are more than a
 * third of the page's letters. A readable page has fewer rare characters, even in a language that uses such
 * characters. */
static enum page_state page_state(const struct pdf *f, const struct pdf_page *pg)
{
	size_t letters = 0, rare = 0;

	for (size_t i = pg->line; i < pg->line + pg->n_line; i++) {
		const char *p = f->text.p + f->line[i].at;
		for (size_t at = 0; at < f->line[i].n;) {
			int32_t cp;
			at += (size_t)utf8_decode(p + at, f->line[i].n - at, &cp);
			letters += cp >= 0x80 || byte_is_letter((char)cp);
			rare += is_rare(cp);
		}
	}
	return !pg->n_line ? PAGE_EMPTY : rare >= 3 && rare * 3 > letters ? PAGE_UNREADABLE : PAGE_TEXT;
}

/* 1 for a dynamic form (XFA), whose pages only say that another program must show the form. */
static int is_dynamic_form(const struct doc *d)
{
	return d->text.n < 4096 && !strncmp(str_text(&d->text), "Please wait...", 14) &&
	       strstr(d->text.p, "this message is not eventually replaced");
}

static void write_pages(struct pdf *f, struct doc *d)
{
	struct writing w = { .f = f, .d = d };
	char label[16];

	words_collect(&w.words, f);
	w.headings = pdf_headings_begin(f);
	for (size_t i = 0; i < f->n_page; i++) {
		size_t from = d->text.n, m = d->n_mark;
		doc_mark(d, MARK_PAGE, page_state(f, &f->page[i]), from, label,
		         (size_t)snprintf(label, sizeof label, "%zu", i + 1));
		write_lines(&w, &f->page[i]);
		/* move the page's mark to the first text of the page, after the newlines */
		while (from < d->text.n && d->text.p[from] == '\n')
			from++;
		d->mark[m].at = from;
	}
	pdf_headings_end(w.headings);
	free(w.words.hash);
	if (w.left_out)
		doc_note(d, "%zu line%s of running heads, feet and page numbers left out", w.left_out,
		         w.left_out == 1 ? "" : "s");
	if (is_dynamic_form(d))
		doc_note(d,
		         "this is a dynamic form (XFA): its text is not in the pages; print it to a PDF and read that");
	if (f->replaced)
		doc_note(d, "%zu byte sequence%s cannot be decoded: replaced by U+FFFD", f->replaced,
		         f->replaced == 1 ? " that" : "s that");
}

/* Return the font size that the majority of the letters has, rounded to a quarter of a point. */
static float usual_size(const struct pdf *f)
{
	enum { STEPS = 400 };
	size_t letters[STEPS] = { 0 }, best = 40;

	for (size_t i = 0; i < f->n_line; i++)
		letters[MIN((size_t)(f->line[i].size * 4 + 0.5f), STEPS - 1)] += f->line[i].n;
	for (size_t i = 0; i < STEPS; i++)
		if (letters[i] > letters[best])
			best = i;
	return (float)best / 4;
}

int pdf_end(struct pdf *f, struct doc *d, struct err *e)
{
	int rc = 0;

	pdf_read_rest(f);
	if (f->text.n > DOC_BYTES_MAX) {
		rc = err_set(e, ERR_DOCUMENT, "holds more than %u MiB of text", DOC_BYTES_MAX >> 20);
	} else if (!f->n_page) {
		rc = err_set(e, ERR_DOCUMENT, "holds no pages");
	} else {
		f->body = usual_size(f);
		pdf_leave_out_margins(f);
		write_pages(f, d);
		properties_write(d, &(struct properties){ .author = f->author }, 0);
	}
	str_free(&f->text);
	str_free(&f->author);
	str_free(&f->titles);
	free(f->line);
	free(f->page);
	free(f->entry);
	free(f->piece);
	*f = (struct pdf){ 0 };
	return rc;
}

int pdf_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct pdf f = { 0 };

	pdf_feed(&f, p, n);
	return pdf_end(&f, d, e);
}
