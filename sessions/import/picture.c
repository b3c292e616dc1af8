/* sessions/import/picture.c - pictures as documents: PNG, JPEG, and TIFF with one or more pages. Their text is
 * recognised (ocr.h). */
#include "sessions/import/ocr.h"

#include <stdio.h>
#include <string.h>

#define PAGES_MAX 1000

static uint32_t number_at(const unsigned char *p, int bytes, int big)
{
	uint32_t v = 0;

	for (int i = 0; i < bytes; i++)
		v |= (uint32_t)p[i] << 8 * (big ? bytes - 1 - i : i);
	return v;
}

/* Count the pictures of a TIFF. Each picture has a directory, which ends with the offset of the next directory. In a
 * damaged file these offsets may form a cycle. */
static int32_t count_pages(const unsigned char *p, size_t n)
{
	int big = n > 1 && *p == 'M';
	uint32_t at, seen[PAGES_MAX];
	int32_t pages = 0;

	if (n < 8 || (memcmp(p, "II*", 3) != 0 && memcmp(p, "MM\0*", 4) != 0))
		return 1;
	at = number_at(p + 4, 4, big);
	while (at && at + 2ull <= n && pages < PAGES_MAX) {
		uint64_t end = at + 2ull + 12ull * number_at(p + at, 2, big);
		for (int32_t i = 0; i < pages; i++)
			if (seen[i] == at)
				return pages;
		seen[pages++] = at;
		if (end + 4 > n)
			break;
		at = number_at(p + end, 4, big);
	}
	return MAX(pages, 1);
}

static int recognise_all(struct ocr *o, const char *name, struct doc *d, struct err *e)
{
	for (int32_t i = 1; i <= o->pages && d->text.n < DOC_BYTES_MAX; i++) {
		char label[16];
		size_t begin = d->text.n;
		if (begin) {
			str_adds(&d->text, "\n\n");
			begin = d->text.n;
		}
		if (ocr_page(o, name, i, &d->text, e))
			return -1;
		if (d->text.n == begin && begin)
			d->text.n = begin -= 2;
		doc_mark(d, MARK_PAGE, PAGE_RECOGNISED, begin, label, (size_t)snprintf(label, sizeof label, "%d", i));
	}
	return 0;
}

int picture_convert(const char *name, const char *p, size_t n, struct doc *d, struct err *e)
{
	int32_t pages = count_pages((const unsigned char *)p, n);
	struct str note = { 0 };
	struct err why = { 0 };
	struct ocr o;
	int rc;

	if (ocr_open(&o, p, n, 0, pages, &note, &why))
		return err_set(e, ERR_DOCUMENT, "document '%s' is a picture; %s", name, why.msg);
	rc = recognise_all(&o, name, d, e);
	if (!rc && !d->text.n && o.failed)
		rc = err_set(e, ERR_DOCUMENT, "document '%s' is a picture that cannot be recognised: %s", name, o.why);
	else if (!rc && !d->text.n)
		rc = err_set(e, ERR_DOCUMENT, "document '%s' is a picture in which no text is recognised", name);
	if (!rc) {
		if (note.n)
			doc_note(d, "%s", note.p);
		doc_note(d, "the text was recognised (%s): it may hold errors", o.languages);
		ocr_note(&o, d);
	}
	str_free(&note);
	ocr_close(&o);
	return rc;
}
