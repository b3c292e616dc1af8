/* sessions/import/records.c - reads the output of a jailed parser (jailed.c), which is a document in the form of
 * records.
 *
 * A record is a letter, four bytes of length, and that many bytes. The letters:
 *
 *     T  text;
 *     M  mark: kind, level, 8 bytes of offset, label;
 *     P  number of pages;
 *     N  notices for the user;
 *     L  lines left out;
 *     E  why the parser failed;
 *     Z  end of the output.
 *
 * The records are untrusted: lengths, offsets and UTF-8 are checked. */
#include "sessions/import/child.h"
#include "engine/base/utf8.h"

#include <string.h>

#define MARKS_MAX 2000000u

int valid_text(const char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		int32_t cp;
		i += (size_t)utf8_decode(p + i, n - i, &cp);
		if (cp <= 0)
			return 0;
	}
	return 1;
}

static int take_mark(struct doc *d, const char *p, size_t n)
{
	uint64_t at;

	if (n < 10 || p[0] < 0 || p[0] > MARK_HEADING || p[1] < 0 || p[1] > 6 || d->n_mark >= MARKS_MAX ||
	    !valid_text(p + 10, n - 10))
		return -1;
	memcpy(&at, p + 2, 8);
	if (at > d->text.n || (at < d->text.n && utf8_continues(d->text.p[at])))
		return -1;
	doc_mark(d, (enum mark_kind)p[0], p[1], (size_t)at, p + 10, n - 10);
	return 0;
}

static int take_record(struct records *r, char tag, const char *p, size_t n, int raw)
{
	struct doc *d = r->d;

	switch (tag) {
	case 'T':
		if (n > DOC_BYTES_MAX || d->text.n || !(raw || valid_text(p, n)))
			return -1;
		str_add(&d->text, p, n);
		return 0;
	case 'M': return take_mark(d, p, n);
	case 'P':
		if (n != 4)
			return -1;
		memcpy(&d->pages, p, 4);
		return d->pages < 0 ? -1 : 0;
	case 'N':
		if (n > 65536 || !valid_text(p, n))
			return -1;
		str_add(&d->notices, p, n);
		return 0;
	case 'L':
		if (n > DOC_BYTES_MAX || !valid_text(p, n))
			return -1;
		str_add(&d->left_out, p, n);
		return 0;
	case 'E':
		if (n > sizeof((struct err *)0)->msg || !valid_text(p, n) || r->error.n)
			return -1;
		str_add(&r->error, p, n);
		return 0;
	case 'Z': r->end = 1; return 0;
	}
	return -1;
}

int take_records(struct records *r, const char *p, size_t n, int raw)
{
	int32_t pages = 0;

	while (n >= 5 && !r->end) {
		uint32_t len;
		memcpy(&len, p + 1, 4);
		if (len > n - 5 || take_record(r, *p, p + 5, len, raw))
			return -1;
		if (*p == 'P')
			pages = r->d->pages;
		p += 5 + len;
		n -= 5 + (size_t)len;
	}
	r->d->pages = pages; /* doc_mark() has changed the number of pages: restore the number from the record */
	return r->end && !n ? 0 : -1;
}

int child_document(struct child *c, const char *name, int raw, struct doc *d, struct err *e)
{
	struct records r = { .d = d };
	char why[160];
	int rc = 0;

	if (take_records(&r, c->p, c->n, raw)) {
		child_describe(c, why, sizeof why);
		rc = err_set(e, ERR_DOCUMENT, "document '%s' cannot be read: %s", name, why);
	} else if (r.error.n) {
		rc = err_set(e, ERR_DOCUMENT, "document '%s' %s", name, r.error.p);
	}
	str_free(&r.error);
	return rc;
}
