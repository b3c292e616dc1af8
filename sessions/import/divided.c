/* sessions/import/divided.c - joins words of plain text that hyphens divide at the ends of lines. */
#include "sessions/import/divided.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* If at least this number of divided words also occur undivided in a text, its hyphens divide words by a rule. Then
 * words are joined that the text has nowhere else. */
#define DIVIDED_LEAST 10

uint64_t word_hash(uint64_t h, const char *a, size_t n)
{
	if (!h)
		h = 1469598103934665603u;
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)(byte_is_upper(a[i]) ? a[i] + 32 : a[i])) * 1099511628211u;
	return h;
}

size_t word_before(const char *p, size_t at)
{
	size_t n = 0;

	while (n < at && n < 64 && byte_is_letter(p[at - n - 1]))
		n++;
	return n;
}

size_t word_after(const char *p, size_t n)
{
	size_t k = 0;

	while (k < n && k < 64 && byte_is_letter(p[k]))
		k++;
	return k;
}

void words_know(struct words_known *w, uint64_t hash)
{
	GROW(w->hash, w->n, w->cap);
	w->hash[w->n++] = hash;
}

static int by_hash(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void words_sort(struct words_known *w)
{
	if (w->n)
		qsort(w->hash, w->n, sizeof *w->hash, by_hash);
}

int words_have(const struct words_known *w, uint64_t h, size_t times)
{
	size_t from = 0, to = w->n;

	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (w->hash[middle] < h)
			from = middle + 1;
		else
			to = middle;
	}
	return from + times <= w->n && w->hash[from + times - 1] == h;
}

/* ---- plain text ---- */

/* A hyphen at the end of a line. */
struct division {
	size_t hyphen; /* its offset */
	size_t next;   /* offset in the next line at which the word continues */
	/* `word` is the offset at which the rest of the word ends. `end` is the offset of the next blank: the bytes
	 * before it, such as a comma, are moved with the word */
	size_t word, end;
};

/* Find the first hyphen from `at` on that may divide a word. Returns 0 if there is none. */
static int division_find(const struct str *t, size_t at, struct division *d)
{
	const char *p = t->p;

	for (const char *found; (found = memmem(p + at, t->n - at, "-\n", 2)); at = d->hyphen + 1) {
		d->hyphen = (size_t)(found - p);
		for (d->next = d->hyphen + 2; d->next < t->n && (p[d->next] == ' ' || p[d->next] == '\t'); d->next++)
			;
		d->word = d->next + word_after(p + d->next, t->n - d->next);
		for (d->end = d->word; d->end < t->n && !byte_is_blank(p[d->end]); d->end++)
			;
		if (d->word > d->next && byte_is_lower(p[d->next]) && word_before(p, d->hyphen))
			return 1;
	}
	return 0;
}

/* Hash the compound that consists of the word before p[hyphen], a hyphen, and the word q[k]. */
static uint64_t compound(const char *p, size_t hyphen, const char *q, size_t k)
{
	size_t a = word_before(p, hyphen);

	return word_hash(word_hash(word_hash(0, p + hyphen - a, a), "-", 1), q, k);
}

/* Collect the words of a text. Halves of divided words are left out. "well-known" gives three words: its parts and the
 * whole. */
static void words_of_text(const struct str *t, struct words_known *w)
{
	struct division d;
	size_t at = 0;

	for (int more = 1; more; at = d.word) {
		size_t stop;

		more = division_find(t, at, &d);
		stop = more ? d.hyphen - word_before(t->p, d.hyphen) : t->n;
		for (size_t k; at < stop; at += k + !k) {
			k = word_after(t->p + at, stop - at);
			if (k)
				words_know(w, word_hash(0, t->p + at, k));
			if (k && at && t->p[at - 1] == '-')
				words_know(w, compound(t->p, at - 1, t->p + at, k));
		}
	}
	words_sort(w);
}

/* 1 if the hyphen only divides a word, so that it must be removed: the text has the word elsewhere without the hyphen,
 * and never with it. If by_rule is 1, the word may also occur nowhere else, provided that one of its halves is not a
 * word of the text. */
static int divides(const struct str *t, const struct words_known *w, const struct division *d, int by_rule)
{
	size_t a = word_before(t->p, d->hyphen), b = d->word - d->next;
	uint64_t first = word_hash(0, t->p + d->hyphen - a, a);

	if (words_have(w, compound(t->p, d->hyphen, t->p + d->next, b), 1))
		return 0;
	return words_have(w, word_hash(first, t->p + d->next, b), 1) ||
	       (by_rule && a > 1 && (!words_have(w, first, 1) || !words_have(w, word_hash(0, t->p + d->next, b), 1)));
}

/* Return the offset of the first byte from `at` on that is not a blank within a line. */
static size_t skip_blanks(const struct str *t, size_t at)
{
	while (at < t->n && (t->p[at] == ' ' || t->p[at] == '\t'))
		at++;
	return at;
}

/* Move the rest of a divided word to the end of the word's beginning. Put the text after the word on a line of its own,
 * so that lines keep their numbers. Returns the offset at which the text continues. If the rest of the word is alone on
 * its line, this line becomes empty. An empty line would split a paragraph, so the word is then joined only if the line
 * below is empty, too. */
static size_t division_join(const struct str *t, const struct division *d, size_t from, struct str *out)
{
	size_t after = skip_blanks(t, d->end);

	if (after < t->n && t->p[after] == '\n') {
		size_t below = skip_blanks(t, after + 1);
		if (below < t->n && t->p[below] != '\n')
			return from;
	}
	str_add(out, t->p + from, d->hyphen - from);
	str_add(out, t->p + d->next, d->end - d->next);
	str_add(out, t->p + d->hyphen + 1, d->next - d->hyphen - 1);
	return after;
}

void doc_join_divided(struct doc *doc)
{
	struct str *t = &doc->text, out = { 0 };
	struct words_known w = { 0 };
	struct division d;
	size_t known = 0, from = 0;

	if (!division_find(t, 0, &d))
		return;
	words_of_text(t, &w);
	for (size_t at = 0; division_find(t, at, &d); at = d.word)
		known += (size_t)divides(t, &w, &d, 0);
	for (size_t at = 0; division_find(t, at, &d); at = MAX(d.word, from))
		if (divides(t, &w, &d, known >= DIVIDED_LEAST))
			from = division_join(t, &d, from, &out);
	str_add(&out, t->p + from, t->n - from);
	str_free(t);
	*t = out;
	free(w.hash);
}
