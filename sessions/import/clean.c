/* sessions/import/clean.c - removes from a plain text what only a terminal or a printer understands: escape sequences,
 * overstruck characters, earlier states of a progress line. Also removes the data of addresses that contain a whole
 * file, such as a picture ("data:image/png;base64,...").
 *
 * A carriage return ends a line, as a newline does. A line is left out only if it is a state of a progress line and the
 * next line is a later state of the same progress line. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define ESC        '\033'
#define DATA_SHORT 64 /* maximum number of bytes of data that stay in a "data:" address */

/* ---- escape sequences ---- */

/* Return the length of the control sequence at p. The first `intro` bytes of the sequence are ESC [ or U+009B. A
 * malformed sequence ends before the first byte that cannot belong to it. */
static size_t control_length(const char *p, size_t n, size_t intro)
{
	size_t i = intro;

	while (i < n && p[i] >= 0x20 && p[i] <= 0x3f)
		i++;
	return i < n && p[i] >= 0x40 && p[i] <= 0x7e ? i + 1 : i;
}

/* Return the length of a control string. It begins with two bytes, such as ESC ] or ESC P, and ends with BEL or ESC \.
 * Return 2 if the string does not end before the next ESC. If `lines` is 1, the string may contain newlines. */
static size_t string_length(const char *p, size_t n, int lines)
{
	for (size_t i = 2; i < n; i++) {
		if (p[i] == '\a')
			return i + 1;
		if (p[i] == ESC)
			return i + 1 < n && p[i + 1] == '\\' ? i + 2 : 2;
		if (p[i] == '\n' && !lines)
			return 2;
	}
	return 2;
}

static size_t escape_length(const char *p, size_t n)
{
	size_t i = 1;

	if (*p != ESC)
		return control_length(p, n, 2);
	if (n < 2)
		return 1;
	if (p[1] == '[')
		return control_length(p, n, 2);
	if (strchr("]PX^_", p[1]))
		return string_length(p, n, p[1] != ']');
	while (i < n && p[i] >= 0x20 && p[i] <= 0x2f)
		i++;
	return i < n && p[i] >= 0x30 && p[i] <= 0x7e ? i + 1 : 1;
}

static int is_escape(const char *p, size_t n)
{
	return *p == ESC || (n > 1 && !memcmp(p, "\xc2\x9b", 2));
}

/* Return the character to write in place of an escape sequence that moves the cursor, so that words do not run
 * together; 0: none. */
static char moved_by(const char *p, size_t n)
{
	char last = p[n - 1];

	if (n < 3 || (*p == ESC && p[1] != '['))
		return 0;
	if (last == 'G')
		return n == 3 || (n == 4 && p[2] == '1') ? '\r' : ' ';
	return last == 'C' ? ' ' : strchr("BEHf", last) ? '\n' : 0;
}

/* Delete escape sequences, and control characters that print nothing. Returns the number of sequences. */
static size_t delete_escapes(struct str *t)
{
	size_t to = 0, count = 0;

	for (size_t i = 0; i < t->n;) {
		char c = t->p[i];

		if (is_escape(t->p + i, t->n - i)) {
			size_t len = escape_length(t->p + i, t->n - i);
			char move = moved_by(t->p + i, len);

			if (move && to && (t->p[to - 1] != '\n' || move == ' '))
				t->p[to++] = move;
			i += len;
			count++;
			continue;
		}
		if (c != '\a' && c != '\016' && c != '\017')
			t->p[to++] = c;
		i++;
	}
	t->n = to;
	return count;
}

/* ---- lines ---- */

/* State of "printing" lines, which means computing the text that a terminal would show. `cell` has the characters of
 * the current line. `struck` is the number of overstruck characters that were left out, and `states` the number of
 * progress states that were left out. */
struct printer {
	int32_t *cell;
	size_t cap;
	struct str line, next;
	size_t struck, states;
};

/* Append to `out` what a terminal shows of s[n], a text with backspaces: for "_\bx" and "x\bx" it shows x. */
static void print_cells(struct printer *r, const char *s, size_t n, struct str *out)
{
	size_t at = 0, used = 0;
	char utf8[4];

	for (size_t i = 0; i < n;) {
		int32_t cp;

		i += (size_t)utf8_decode(s + i, n - i, &cp);
		if (cp == '\b') {
			at -= at > 0;
			continue;
		}
		if (at == used) {
			GROW(r->cell, used, r->cap);
			used++;
		} else {
			r->struck++;
			cp = cp == '_' ? r->cell[at] : cp;
		}
		r->cell[at++] = cp;
	}
	for (size_t i = 0; i < used; i++)
		str_add(out, utf8, (size_t)utf8_encode(r->cell[i], utf8));
}

static int is_blank_line(const struct str *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (!byte_is_blank(s->p[i]))
			return 0;
	return 1;
}

/* 1 if `over` is printed over `line` only to underline it or to make it bold. */
static int is_overstrike(const struct str *line, const struct str *over)
{
	for (size_t i = 0; i < over->n; i++)
		if (over->p[i] != ' ' && over->p[i] != '_' && (i >= line->n || over->p[i] != line->p[i]))
			return 0;
	return 1;
}

/* 1 if the line looks like a state of a progress line: "10%", "3/40", "1.2 MB/s", a bar, or a spinner of Braille
 * dots. */
static int is_state(const char *p, size_t n)
{
	static const char *const signs[] = { "B/s", "it/s", "===", "###", "\xe2\x96\x88", "ETA" };

	for (size_t i = 1; i < n; i++) {
		size_t end = i + 1;

		if (!byte_is_digit(p[i - 1]))
			continue;
		if (p[i] == '%')
			return 1;
		while (end < n && byte_is_digit(p[end]))
			end++;
		/* "3/40" is a state, but a date such as "1/2/2026" is not */
		if (p[i] == '/' && end > i + 1 && (end == n || p[end] != '/')) {
			size_t from = i;
			while (from && byte_is_digit(p[from - 1]))
				from--;
			if (!from || p[from - 1] != '/')
				return 1;
		}
	}
	for (size_t i = 0; i < LEN(signs); i++)
		if (memmem(p, n, signs[i], strlen(signs[i])))
			return 1;
	return n > 3 && !memcmp(p, "\xe2\xa0", 2); /* Braille dots, U+2800 and later */
}

/* 1 if the letters at the beginnings of `a` and `b` are equal. Only ASCII letters are compared. The number of equal
 * letters must be at least half of the letters of the text that has fewer. */
static int is_similar(const struct str *a, const struct str *b)
{
	size_t i = 0, k = 0, alike = 0, letters_a = 0, letters_b = 0;

	for (size_t m = 0; m < a->n; m++)
		letters_a += byte_is_upper(a->p[m]) || byte_is_lower(a->p[m]);
	for (size_t m = 0; m < b->n; m++)
		letters_b += byte_is_upper(b->p[m]) || byte_is_lower(b->p[m]);
	for (;; i++, k++, alike++) {
		while (i < a->n && !byte_is_upper(a->p[i]) && !byte_is_lower(a->p[i]))
			i++;
		while (k < b->n && !byte_is_upper(b->p[k]) && !byte_is_lower(b->p[k]))
			k++;
		if (i == a->n || k == b->n || a->p[i] != b->p[k])
			break;
	}
	return 2 * alike >= MIN(letters_a, letters_b);
}

/* 1 if the only difference of the lines is a spinner at their beginning or end: "| wait", "/ wait". */
static int is_turn(const struct str *a, const struct str *b)
{
	static const char dash[] = "|/-\\";

	if (a->n != b->n || a->n < 2)
		return 0;
	return (!memcmp(a->p + 1, b->p + 1, a->n - 1) && strchr(dash, a->p[0]) && strchr(dash, b->p[0])) ||
	       (!memcmp(a->p, b->p, a->n - 1) && strchr(dash, a->p[a->n - 1]) && strchr(dash, b->p[b->n - 1]));
}

static int is_same(const struct str *a, const struct str *b)
{
	return a->n == b->n && !memcmp(str_text(a), str_text(b), a->n);
}

/* Write to `to` what a terminal shows of the line s[n], which has carriage returns or backspaces. Returns the length of
 * the result, which is at most n. */
static size_t print_line(struct printer *r, const char *s, size_t n, char *to)
{
	struct str swap;
	size_t used = 0;

	str_clear(&r->line);
	for (size_t from = 0, end; from <= n; from = end + 1) {
		const char *cr = from < n ? memchr(s + from, '\r', n - from) : NULL;

		end = cr ? (size_t)(cr - s) : n;
		str_clear(&r->next);
		print_cells(r, s + from, end - from, &r->next);
		if (is_blank_line(&r->next))
			continue;
		if (r->line.n && !is_blank_line(&r->line)) {
			if (is_same(&r->line, &r->next) || is_overstrike(&r->line, &r->next)) {
				r->struck++;
				continue;
			}
			if (is_turn(&r->line, &r->next) ||
			    (is_state(r->line.p, r->line.n) && is_similar(&r->line, &r->next))) {
				r->states++;
			} else {
				memcpy(to + used, r->line.p, r->line.n);
				used += r->line.n;
				to[used++] = '\n';
			}
		}
		swap = r->line;
		r->line = r->next;
		r->next = swap;
	}
	if (r->line.n)
		memcpy(to + used, r->line.p, r->line.n);
	return used + r->line.n;
}

/* Replace each line that has carriage returns or backspaces by what a terminal shows of it. */
static void print_lines(struct str *t, struct printer *r)
{
	struct str copy = { 0 };
	size_t to = 0;

	for (size_t at = 0, next; at < t->n; at = next) {
		const char *end = memchr(t->p + at, '\n', t->n - at);
		size_t n = end ? (size_t)(end - t->p) - at : t->n - at;

		next = at + n + (end != NULL);
		if (memchr(t->p + at, '\r', n) || memchr(t->p + at, '\b', n)) {
			str_clear(&copy);
			str_add(&copy, t->p + at, n);
			to += print_line(r, copy.p, n, t->p + to);
		} else {
			memmove(t->p + to, t->p + at, n);
			to += n;
		}
		if (end)
			t->p[to++] = '\n';
	}
	t->n = to;
	str_free(&copy);
}

/* Replace the text by what a terminal shows of it. Returns the number of escape sequences that were left out; r counts
 * what else was left out. */
static size_t print_text(struct str *t, struct printer *r)
{
	size_t escapes = 0;

	if (t->n) {
		escapes = delete_escapes(t);
		print_lines(t, r);
		t->p[t->n] = 0;
	}
	free(r->cell);
	str_free(&r->line);
	str_free(&r->next);
	return escapes;
}

void printed_clean(struct str *text)
{
	struct printer r = { 0 };

	print_text(text, &r);
}

void doc_clean_printed(struct doc *d)
{
	struct printer r = { 0 };
	size_t escapes = print_text(&d->text, &r);

	if (escapes)
		doc_note(d, "%zu escape sequence%s left out", escapes, escapes == 1 ? " was" : "s were");
	if (r.struck)
		doc_note(d, "%zu overstruck character%s left out", r.struck, r.struck == 1 ? " was" : "s were");
	if (r.states)
		doc_note(d, "%zu earlier state%s of a progress line %s left out", r.states, r.states == 1 ? "" : "s",
		         r.states == 1 ? "was" : "were");
}

/* ---- pictures ---- */

static int is_base64(char c)
{
	return byte_is_alnum(c) || c == '+' || c == '/' || c == '=' || c == '-' || c == '_' || c == '%';
}

/* Return the end of the base64 text at p. The text continues on the next line if that line has only base64
 * characters. */
static const char *base64_end(const char *p, const char *end)
{
	for (;;) {
		const char *stop, *line;

		while (p < end && is_base64(*p))
			p++;
		for (stop = line = p; line < end && byte_is_xml_blank(*line); line++)
			;
		if (line == end || stop[-1] == '=' || !memchr(stop, '\n', (size_t)(line - stop)))
			return stop;
		for (p = line; p < end && is_base64(*p); p++)
			;
		if ((p < end && !strchr("\n\r\"'>)", *p)) || (p - line < 20 && !(p < end && strchr("\"'>)", *p))))
			return stop;
	}
}

/* Return the end of the data in a "data:" address, and set *comma to the comma before the data. p is the text after
 * "data:". Return NULL if the text is no such address. */
static const char *data_end(const char *p, const char *end, const char **comma)
{
	const char *at = p;

	while (at < end && at - p < 120 && (byte_is_alnum(*at) || (*at && strchr("/+.-;=_", *at))))
		at++;
	if (at == end || *at != ',')
		return NULL;
	*comma = at++;
	if (at - p > 8 && !memcmp(at - 8, ";base64,", 8))
		return base64_end(at, end);
	while (at < end && (unsigned char)*at > ' ' && !strchr("\"'<>)", *at))
		at++;
	return at;
}

void doc_shorten_data(struct doc *d)
{
	const char *p = str_text(&d->text), *end = p + d->text.n, *at, *from = p;
	size_t to = 0, count = 0, bytes = 0;

	while ((at = memmem(from, (size_t)(end - from), "data:", 5))) {
		const char *comma = NULL, *stop = at > p && byte_is_word(at[-1]) ? NULL : data_end(at + 5, end, &comma);
		const char *kept = stop && stop - comma > DATA_SHORT ? comma : (at += 5);

		memmove(d->text.p + to, from, (size_t)(kept - from));
		to += (size_t)(kept - from);
		from = kept == comma ? stop : kept;
		count += kept == comma;
		bytes += kept == comma ? (size_t)(stop - comma) : 0;
	}
	if (!count)
		return;
	memmove(d->text.p + to, from, (size_t)(end - from));
	d->text.n = to + (size_t)(end - from);
	d->text.p[d->text.n] = 0;
	doc_note(d, "%zu file%s inside the text (data: addresses, %zu bytes) %s left out", count, count == 1 ? "" : "s",
	         bytes, count == 1 ? "was" : "were");
}
