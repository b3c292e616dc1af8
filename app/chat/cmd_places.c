/* app/chat/cmd_places.c - /outline lists a document's headings; /goto PLACE opens a document at a place.
 *
 * PLACE is a page label ("12", "xii"), a heading's number ("#3"), a percentage ("40%"), or words of a heading or of the
 * text. It is looked for in all documents, or in one document whose name comes before it. */
#include "app/chat/chat_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	GOTO_LINES = 20, /* number of text lines that /goto shows in line mode */
	GOTO_COLUMNS = 78,
	OUTLINE_MOST = 300, /* maximum number of headings that are listed, of all documents together */
};

static const char *body_of(const struct document *d)
{
	return d->text.p + d->body;
}

/* ---- /outline ---- */

static size_t outline_of(const struct document *d, struct str *s, size_t most)
{
	size_t number = 0, listed = 0;

	for (size_t i = 0; i < d->n_mark; i++) {
		const struct mark *m = &d->mark[i];
		struct document_place at;
		struct str cell = { 0 };

		if (m->kind != MARK_HEADING)
			continue;
		number++;
		if (listed == most)
			continue;
		listed++;
		document_place(d, m->at, m->at, &at);
		str_addf(&cell, "%*s%s", 2 * (m->level > 1 ? m->level - 1 : 0), "", m->text);
		str_addf(s, "\n%4zu  ", number);
		table_cell(s, cell.p, 56);
		if (at.page)
			str_addf(s, "  p. %.20s", at.page);
		while (s->n && s->p[s->n - 1] == ' ')
			s->p[--s->n] = 0;
		str_free(&cell);
	}
	if (listed < number)
		str_addf(s, "\n      ... and %zu more", number - listed);
	return number;
}

/* Append the pages of a document, as ", 320 pages (i to 311)"; nothing if it has no pages. */
static void pages_of(const struct document *d, struct str *s)
{
	const char *first = NULL, *last = NULL;
	size_t n = 0;

	for (size_t i = 0; i < d->n_mark; i++)
		if (d->mark[i].kind == MARK_PAGE) {
			n++;
			if (*d->mark[i].text) {
				first = first ? first : d->mark[i].text;
				last = d->mark[i].text;
			}
		}
	if (n)
		str_addf(s, ", %zu page%s", n, n == 1 ? "" : "s");
	if (n > 1 && first)
		str_addf(s, " (%.20s to %.20s)", first, last);
}

void slash_outline(struct chat *c, char *arg)
{
	struct str s = { 0 }, name = { 0 };
	struct err e = { 0 };
	size_t from = 0, to = c->conv.n_doc;

	unquote(arg, &name);
	if (name.n) {
		long i = document_of(c, name.p, &e);
		from = i < 0 ? 0 : (size_t)i;
		to = i < 0 ? 0 : from + 1;
	} else if (!to) {
		err_set(&e, ERR_USAGE, "there is no document; /open FILE adds one");
	}
	for (size_t i = from; i < to; i++) {
		const struct document *d = &c->conv.doc[i];
		struct str lines = { 0 };
		size_t n = outline_of(d, &lines, OUTLINE_MOST / (to - from));

		str_addf(&s, "%s%s", s.n ? "\n" : "", d->name);
		pages_of(d, &s);
		if (n)
			str_add(&s, lines.p, lines.n);
		else
			str_adds(&s, ": no headings");
		str_free(&lines);
	}
	if (e.code)
		chat_error(c, &e);
	else
		notice(c, "%s", s.p);
	str_free(&s);
	str_free(&name);
}

/* ---- /goto ---- */

/* A place of /goto: bytes [from, to) of the body of document number `doc`. `certain` is 1 if the place was given as a
 * page, heading or percentage, and 0 if it was found by words of the text. */
struct found_place {
	size_t doc, from, to;
	int certain;
};

static int same_letters(const char *a, const char *b, size_t n)
{
	return !strncasecmp(a, b, n);
}

/* Return the end of the line that contains byte `at`. */
static size_t line_end(const struct document *d, size_t at)
{
	const char *p = body_of(d) + at, *nl = memchr(p, '\n', d->n_body - at);

	return nl ? (size_t)(nl - body_of(d)) : d->n_body;
}

static size_t skip_blanks(const struct document *d, size_t at)
{
	while (at < d->n_body && (unsigned char)body_of(d)[at] <= ' ')
		at++;
	return at < d->n_body ? at : 0;
}

static int at_mark(const struct document *d, const struct mark *m, struct found_place *out)
{
	out->from = skip_blanks(d, m->at);
	out->to = m->kind == MARK_HEADING ? line_end(d, out->from) : out->from;
	out->certain = 1;
	return 1;
}

static int find_page(const struct document *d, const char *label, struct found_place *out)
{
	for (size_t i = 0; i < d->n_mark; i++)
		if (d->mark[i].kind == MARK_PAGE && !strcasecmp(d->mark[i].text, label))
			return at_mark(d, &d->mark[i], out);
	return 0;
}

static int find_heading_number(const struct document *d, size_t number, struct found_place *out)
{
	for (size_t i = 0; i < d->n_mark; i++)
		if (d->mark[i].kind == MARK_HEADING && !--number)
			return at_mark(d, &d->mark[i], out);
	return 0;
}

/* Find a heading by its words. A heading with exactly these words is best; otherwise return the first heading that
 * begins with them; otherwise the first heading that contains them. */
static int find_heading(const struct document *d, const char *words, struct found_place *out)
{
	size_t n = strlen(words);
	const struct mark *best = NULL;
	int best_rank = 0;

	for (size_t i = 0; i < d->n_mark; i++) {
		const struct mark *m = &d->mark[i];
		int rank;

		if (m->kind != MARK_HEADING)
			continue;
		rank = !strcasecmp(m->text, words)       ? 3
		       : same_letters(m->text, words, n) ? 2
		       : strcasestr(m->text, words)      ? 1
		                                         : 0;
		if (rank > best_rank) {
			best = m;
			best_rank = rank;
		}
	}
	return best ? at_mark(d, best, out) : 0;
}

static int find_words(const struct document *d, const char *words, struct found_place *out)
{
	size_t n = strlen(words);
	const char *p = body_of(d);

	for (size_t at = 0; n && at + n <= d->n_body; at++)
		if (same_letters(p + at, words, n)) {
			*out = (struct found_place){ .doc = out->doc, .from = at, .to = at + n };
			return 1;
		}
	return 0;
}

/* Find a place such as "12", "p. 12", "page xii", "#3", "40%" or words in a document. Returns 1 if found. */
static int find_in(const struct document *d, const char *place, struct found_place *out)
{
	const char *p = place;
	char *end;
	double percent = strtod(place, &end);
	long number;

	if (end != place && *end == '%' && !end[1] && percent >= 0 && percent <= 100) {
		out->from = skip_blanks(d, utf8_complete(body_of(d), (size_t)((double)d->n_body * percent / 100)));
		out->to = out->from;
		out->certain = 1;
		return 1;
	}
	if (*p == '#' && (number = number_of(p + 1)))
		return find_heading_number(d, (size_t)number, out);
	if (same_letters(p, "page ", 5))
		p += 5;
	else if (same_letters(p, "p.", 2))
		p += 2;
	else if ((*p == 'p' || *p == 'P') && number_of(p + 1))
		p++;
	while (*p == ' ')
		p++;
	if (*p && find_page(d, p, out))
		return 1;
	if (p == place && (number = number_of(p)) && find_heading_number(d, (size_t)number, out))
		return 1;
	return find_heading(d, place, out) || find_words(d, place, out);
}

/* Find a place in documents [from, to). Pages and headings take precedence over words of the text. Returns 1 if
 * found, 0 if not, -1 if several documents have that page or heading. */
static int find_place(struct chat *c, size_t from, size_t to, const char *place, struct found_place *out, struct err *e)
{
	size_t certain = 0, found = 0;

	for (size_t i = from; i < to; i++) {
		struct found_place here = { .doc = i };

		if (!find_in(&c->conv.doc[i], place, &here))
			continue;
		if (!found++ || (here.certain && !out->certain))
			*out = here;
		certain += (size_t)here.certain;
	}
	if (certain > 1)
		return err_set(e, ERR_USAGE, "%zu documents have '%.60s'; name one: /goto %zu %.60s", certain, place,
		               out->doc + 1, place);
	return found > 0;
}

/* Find the place of "/goto DOCUMENT [PLACE]", where DOCUMENT is a name or number. Returns 1 if found, 0 if not, -1 on
 * error. */
static int find_named(struct chat *c, char *arg, struct found_place *out, struct err *e)
{
	size_t n = word_end(arg, strlen(arg), 0);
	struct str name = { 0 };
	struct err none = { 0 };
	char *word = xstrndup(arg, n);
	long i;
	int rc = 0;

	unquote(word, &name);
	i = name.n ? document_of(c, name.p, &none) : -1;
	str_free(&name);
	free(word);
	if (i < 0)
		return 0;
	arg += n + strspn(arg + n, " \t");
	if (*arg) {
		rc = find_place(c, (size_t)i, (size_t)i + 1, arg, out, e);
	} else {
		*out = (struct found_place){ .doc = (size_t)i };
		rc = 1;
	}
	return rc;
}

/* Append the place for the user: 'report.pdf, p. 12, "Methods"'. */
static void describe_place(const struct document *d, const struct found_place *at, struct str *s)
{
	struct document_place place;

	document_place(d, at->from, at->from + 1, &place);
	str_adds(s, d->name);
	if (place.page)
		str_addf(s, ", p. %.20s", place.page);
	if (place.heading)
		str_addf(s, ", \"%.100s\"", place.heading);
}

/* Append about twenty lines of the document's text, from byte `from` on. */
static void add_text(const struct document *d, size_t from, struct str *s)
{
	const char *p = body_of(d);
	size_t at = from;

	for (int lines = 0; at < d->n_body && lines < GOTO_LINES;) {
		size_t end = line_end(d, at), most = (size_t)(GOTO_LINES - lines) * GOTO_COLUMNS;

		if (end - at > most)
			end = at + utf8_complete(p + at, most);
		str_adds(s, "\n");
		str_add(s, p + at, end - at);
		lines += 1 + (int)((end - at) / GOTO_COLUMNS);
		at = end + (end < d->n_body && p[end] == '\n');
	}
	while (s->n && (s->p[s->n - 1] == '\n' || s->p[s->n - 1] == '\f'))
		s->p[--s->n] = 0;
	if (at < d->n_body)
		str_adds(s, "\n...");
}

void slash_goto(struct chat *c, char *arg)
{
	struct found_place at = { .doc = 0 };
	struct err e = { 0 };
	int rc = 0;

	if (!c->conv.n_doc)
		err_set(&e, ERR_USAGE, "there is no document; /open FILE adds one");
	else if (!*arg)
		err_set(&e, ERR_USAGE,
		        "/goto wants a page, a heading or its number, a percentage, or words; /outline lists the headings");
	else if (!(rc = find_place(c, 0, c->conv.n_doc, arg, &at, &e)))
		rc = find_named(c, arg, &at, &e);
	if (!e.code && !rc)
		err_set(&e, ERR_USAGE, "no document has the page, heading or words '%.60s'", arg);
	if (e.code) {
		chat_error(c, &e);
	} else if (c->front->document) {
		c->front->document(c, at.doc, at.from, at.to);
	} else {
		const struct document *d = &c->conv.doc[at.doc];
		struct str s = { 0 };

		describe_place(d, &at, &s);
		add_text(d, at.from, &s);
		notice(c, "%s", s.p);
		str_free(&s);
	}
}
