/* sessions/import/marks.c - stores marks (offsets of a document's pages, headings and paragraphs), and finds
 * paragraphs. */
#include "sessions/import/marks.h"
#include "engine/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADING_BYTES_MAX 200 /* maximum number of bytes of a mark's text */

void doc_note_left_out(struct doc *d, size_t n, const char *what)
{
	if (n)
		doc_note(d, "%zu %s%s left out", n, what, n == 1 ? "" : "s");
}

void doc_note(struct doc *d, const char *fmt, ...)
{
	char s[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s, sizeof s, fmt, ap);
	va_end(ap);
	str_addf(&d->notices, "%s\n", s);
}

/* Copy a mark's text as one line of at most HEADING_BYTES_MAX bytes, truncated between characters. */
static char *mark_text(const char *s, size_t n)
{
	struct str out = { 0 };

	if (n > HEADING_BYTES_MAX)
		n = utf8_complete(s, HEADING_BYTES_MAX);
	for (size_t i = 0; i < n; i++) {
		char c = (unsigned char)s[i] <= ' ' ? ' ' : s[i];
		if (c != ' ' || (out.n && out.p[out.n - 1] != ' '))
			str_add(&out, &c, 1);
	}
	while (out.n && out.p[out.n - 1] == ' ')
		out.p[--out.n] = 0;
	if (!out.p)
		str_adds(&out, "");
	return out.p;
}

void doc_mark(struct doc *d, enum mark_kind kind, int level, size_t at, const char *text, size_t n)
{
	/* double the array when n_mark + 1 is a power of two */
	if (!(d->n_mark & (d->n_mark + 1)) || !d->mark)
		d->mark = xrealloc(d->mark, (2 * d->n_mark + 2) * sizeof *d->mark);
	d->mark[d->n_mark++] =
		(struct mark){ .kind = kind, .level = level, .at = at, .text = text ? mark_text(text, n) : NULL };
	if (kind == MARK_PAGE && d->pages < INT32_MAX)
		d->pages++;
}

int doc_finish(struct doc *d, size_t hidden, const struct err *why, struct err *e)
{
	if (hidden)
		doc_note(d, HIDDEN_TEXT, hidden, hidden == 1 ? " was" : "s were");
	if (why->code && !d->text.n) {
		*e = *why;
		return -1;
	}
	if (why->code)
		doc_note(d, "the document %s: the text ends there", why->msg);
	return d->text.n ? 0 : err_set(e, ERR_DOCUMENT, "holds no text");
}

void doc_forget_pages(struct doc *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n_mark; i++) {
		if (d->mark[i].kind == MARK_PAGE)
			free(d->mark[i].text);
		else
			d->mark[n++] = d->mark[i];
	}
	d->n_mark = n;
	d->pages = 0;
}

const struct mark *marks_at(const struct mark *mark, size_t n, enum mark_kind kind, size_t at)
{
	const struct mark *found = NULL;
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (mark[mid].at <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo > 0 && !found; lo--) {
		const struct mark *m = &mark[lo - 1];

		if (m->last[m->kind])
			return m->last[kind] ? &mark[m->last[kind] - 1] : NULL;
		found = m->kind == kind ? m : NULL;
	}
	return found;
}

static void number_marks(struct mark *mark, size_t n)
{
	uint32_t last[MARK_KINDS] = { 0 };

	for (size_t i = 0; i < n && i < UINT32_MAX; i++) {
		last[mark[i].kind] = (uint32_t)i + 1;
		memcpy(mark[i].last, last, sizeof last);
	}
}

const struct mark *doc_mark_at(const struct doc *d, enum mark_kind kind, size_t at)
{
	return marks_at(d->mark, d->n_mark, kind, at);
}

size_t marks_copy(const struct mark *mark, size_t n, struct mark **out)
{
	size_t k = 0;

	*out = xcalloc(n + 1, sizeof **out);
	for (size_t i = 0; i < n; i++) {
		if (mark[i].kind == MARK_PARAGRAPH)
			continue;
		(*out)[k] = mark[i];
		(*out)[k++].text = xstrndup(mark[i].text ? mark[i].text : "", mark[i].text ? strlen(mark[i].text) : 0);
	}
	number_marks(*out, k);
	return k;
}

void marks_free(struct mark *mark, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(mark[i].text);
	free(mark);
}

/* Skip newlines at the beginning of a range. */
static struct range skip_newlines(const struct str *t, struct range r)
{
	while (r.from < r.to && t->p[r.from] == '\n')
		r.from++;
	return r;
}

void doc_keep(struct doc *d, const struct range *range, size_t n)
{
	struct str *t = &d->text;
	size_t to = 0, m = 0, kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct range r = skip_newlines(t, range[i]);
		size_t len = r.to - r.from;
		if (to && len) {
			size_t gap = r.from - to < 2 ? r.from - to : 2;
			memcpy(t->p + to, "\n\n", gap);
			to += gap;
		}
		for (; m < d->n_mark && d->mark[m].at < r.to; m++) {
			struct mark k = d->mark[m];
			if (k.at < r.from && k.kind != MARK_PAGE) {
				free(k.text);
				continue;
			}
			k.at = k.at < r.from ? to : k.at - r.from + to;
			d->mark[kept++] = k;
		}
		memmove(t->p + to, t->p + r.from, len);
		to += len;
	}
	for (; m < d->n_mark; m++)
		if (d->mark[m].kind == MARK_PAGE) {
			d->mark[m].at = to;
			d->mark[kept++] = d->mark[m];
		} else {
			free(d->mark[m].text);
		}
	d->n_mark = kept;
	t->n = to;
	if (t->p)
		t->p[to] = 0;
}

/* ---- lines ---- */

int marks_stopped(size_t at, size_t *asked)
{
	if (at - *asked < 1 << 20)
		return 0;
	*asked = at;
	return import_stopped();
}

struct line line_at(const struct str *t, size_t at, size_t *next)
{
	const char *s = t->p + at, *end = memchr(s, '\n', t->n - at);
	struct line l = { s, end ? (size_t)(end - s) : t->n - at };

	*next = at + l.n + (end != NULL);
	while (l.n && (unsigned char)*l.s <= ' ')
		l.s++, l.n--;
	while (l.n && (unsigned char)l.s[l.n - 1] <= ' ')
		l.n--;
	return l;
}

int line_is_all(struct line l, char c)
{
	for (size_t i = 0; i < l.n; i++)
		if (l.s[i] != c)
			return 0;
	return l.n >= 2;
}

/* ---- paragraphs ---- */

static int by_offset(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->kind > y->kind) - (x->kind < y->kind);
}

/* Sort the marks by offset; at equal offsets pages come first, then headings, then paragraphs. */
static void sort_kinds(struct doc *d)
{
	/* The sort must be stable, which qsort() is not: empty pages have the next page's offset and must keep their
	 * order. */
	struct mark *copy = xmalloc(d->n_mark * sizeof *copy), *at[3];
	size_t n[3] = { 0 }, to = 0;
	memcpy(copy, d->mark, d->n_mark * sizeof *copy);
	for (size_t i = 0; i < d->n_mark; i++)
		n[d->mark[i].kind]++;
	at[0] = d->mark, at[1] = at[0] + n[0], at[2] = at[1] + n[1];
	for (size_t i = 0; i < d->n_mark; i++)
		*at[copy[i].kind]++ = copy[i];
	/* The marks of each kind (page, heading, paragraph) are sorted already. Merge the three kinds. */
	memcpy(copy, d->mark, d->n_mark * sizeof *copy);
	at[0] = copy, at[1] = copy + n[0], at[2] = at[1] + n[1];
	while (to < d->n_mark) {
		int best = -1;
		for (int k = 0; k < 3; k++)
			if (n[k] && (best < 0 || at[k]->at < at[best]->at))
				best = k;
		d->mark[to++] = *at[best]++;
		n[best]--;
	}
	free(copy);
}

void marks_sort(struct doc *d)
{
	int sorted = 1;

	for (size_t i = 1; i < d->n_mark && sorted; i++)
		sorted = by_offset(&d->mark[i - 1], &d->mark[i]) <= 0;
	if (!sorted)
		sort_kinds(d);
	number_marks(d->mark, d->n_mark);
}

void doc_mark_paragraphs(struct doc *d)
{
	int inside = 0;
	size_t asked = 0;

	for (size_t at = 0, next; at < d->text.n && !marks_stopped(at, &asked); at = next) {
		struct line l = line_at(&d->text, at, &next);
		if (l.n && (!inside || d->text.p[at] == '\f'))
			doc_mark(d, MARK_PARAGRAPH, 0, (size_t)(l.s - d->text.p), NULL, 0);
		inside = l.n != 0;
	}
	marks_sort(d);
}
