/* sessions/import/pdf_scan.c - recognises the pages of a PDF that have no readable text, and puts the text into the
 * document (ocr.h). */
#include "sessions/import/ocr.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define RANGES_NAMED 12 /* maximum number of page ranges that a notice lists */

/* The pages of a document, in order, with the text that was recognised. */
struct scan {
	const struct doc *d;
	size_t *mark; /* [n] for each page, the index of its mark in d->mark */
	struct str *text;
	size_t n;
};

/* Append the numbers of the pages that are in this state, as in "3, 17-19, 40". Returns the number of these pages. */
static size_t list_pages(const struct doc *d, enum page_state state, struct str *out)
{
	size_t count = 0, page = 0, first = 0, ranges = 0;

	for (size_t i = 0; i <= d->n_mark; i++) {
		const struct mark *m = i < d->n_mark ? &d->mark[i] : NULL;
		if (m && m->kind != MARK_PAGE)
			continue;
		page++;
		if (m && m->level == (int)state) {
			count++;
			first = first ? first : page;
			continue;
		}
		if (first && ++ranges <= RANGES_NAMED)
			str_addf(out, page - 1 > first ? "%s%zu-%zu" : "%s%zu", ranges > 1 ? ", " : "", first,
			         page - 1);
		else if (first && ranges == RANGES_NAMED + 1)
			str_adds(out, ", ...");
		first = 0;
	}
	return count;
}

/* Add a notice about the pages that still have no readable text. `advice` tells what to install, or is "". */
static void note_pages(struct doc *d, const char *advice)
{
	struct str list = { 0 };
	size_t n = list_pages(d, PAGE_EMPTY, &list);

	if (n)
		doc_note(d, "%zu of %d pages hold%s no text%s: %s%s%s", n, d->pages, n == 1 ? "s" : "",
		         *advice ? " (scanned?)" : "", list.p, *advice ? "; " : "", advice);
	str_clear(&list);
	n = list_pages(d, PAGE_UNREADABLE, &list);
	if (n)
		doc_note(d, "page%s %s hold%s unreadable glyphs%s%s", n == 1 ? "" : "s", list.p, n == 1 ? "s" : "",
		         *advice ? "; " : "", advice);
	str_free(&list);
}

static void note_recognised(struct doc *d, const char *languages)
{
	struct str list = { 0 };
	size_t n = list_pages(d, PAGE_RECOGNISED, &list);

	if (n)
		doc_note(d, "the text of page%s %s was recognised (%s): it may hold errors", n == 1 ? "" : "s", list.p,
		         languages);
	str_free(&list);
}

/* ---- the text with recognised pages ---- */

static void find_pages(struct scan *s)
{
	s->mark = xmalloc((s->d->n_mark + 1) * sizeof *s->mark);
	for (size_t i = 0; i < s->d->n_mark; i++)
		if (s->d->mark[i].kind == MARK_PAGE)
			s->mark[s->n++] = i;
	s->text = xcalloc(s->n + 1, sizeof *s->text);
}

static void begin_block(struct str *t)
{
	while (t->n && byte_is_blank(t->p[t->n - 1]))
		t->n--;
	if (t->n)
		str_adds(t, "\n\n");
}

/* Append recognised text. Mark its headings: lines between blank lines that look like headings. */
static void add_recognised(struct doc *out, const struct str *text)
{
	int gap = 1;

	for (size_t i = 0; i < text->n;) {
		const char *p = text->p + i, *end = memchr(p, '\n', text->n - i);
		size_t n = end ? (size_t)(end - p) : text->n - i;
		int level =
			gap && n && (!end || end + 1 == text->p + text->n || end[1] == '\n') ? heading_level(p, n) : 0;
		if (level)
			doc_mark(out, MARK_HEADING, level, out->text.n, p, n);
		gap = !n;
		str_add(&out->text, p, n + (end != NULL));
		i += n + (end != NULL);
	}
}

/* Append page i of the document as it is, with its headings. */
static void copy_page(struct doc *out, const struct scan *s, size_t i)
{
	const struct doc *d = s->d;
	size_t first = s->mark[i], from = d->mark[first].at, to = i + 1 < s->n ? d->mark[s->mark[i + 1]].at : d->text.n;

	for (size_t k = first + 1; k < d->n_mark && d->mark[k].kind != MARK_PAGE; k++) {
		const struct mark *m = &d->mark[k];
		if (m->kind == MARK_HEADING && m->at >= from && m->at < to)
			doc_mark(out, MARK_HEADING, m->level, out->text.n + m->at - from, m->text, strlen(m->text));
	}
	if (to > from) /* needed because a jailed process may have sent the marks in any order */
		str_add(&out->text, d->text.p + from, to - from);
}

/* Replace the text of the recognised pages by the text in s->text. */
static void put_pages(struct doc *d, const struct scan *s)
{
	struct doc out = { 0 };
	/* 1: the text of the last page that has text was recognised by OCR */
	int after = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct mark *m = &d->mark[s->mark[i]];
		int recognised = s->text[i].n > 0;
		if (recognised || (after && m->level == PAGE_TEXT))
			begin_block(&out.text);
		doc_mark(&out, MARK_PAGE, recognised ? PAGE_RECOGNISED : m->level, out.text.n, m->text,
		         strlen(m->text));
		if (recognised)
			add_recognised(&out, &s->text[i]);
		else
			copy_page(&out, s, i);
		after = recognised || (after && m->level == PAGE_EMPTY);
	}
	str_free(&d->text);
	marks_free(d->mark, d->n_mark);
	d->text = out.text;
	d->mark = out.mark;
	d->n_mark = out.n_mark;
}

static int recognise_pages(struct scan *s, struct ocr *o, const char *name, struct err *e)
{
	size_t bytes = s->d->text.n;

	for (size_t i = 0; i < s->n && bytes < DOC_BYTES_MAX; i++) {
		if (s->d->mark[s->mark[i]].level < PAGE_EMPTY)
			continue;
		if (ocr_page(o, name, (int32_t)i + 1, &s->text[i], e))
			return -1;
		bytes += s->text[i].n + 2;
	}
	return 0;
}

/* ---- the document ---- */

static int refuse_empty(const char *name, const struct doc *d, const char *advice, struct err *e)
{
	return err_set(e, ERR_DOCUMENT,
	               "document '%s' holds no text on its %d page%s: they are pictures (scanned?); %s", name, d->pages,
	               d->pages == 1 ? "" : "s", advice);
}

static int recognise_with(struct ocr *o, const char *name, struct doc *d, struct err *e)
{
	struct scan s = { .d = d };
	int rc;

	find_pages(&s);
	rc = recognise_pages(&s, o, name, e);
	if (!rc) {
		size_t lines = ocr_leave_out_margins(s.text, s.n, &d->left_out);
		put_pages(d, &s);
		if (lines)
			doc_note(d, "%zu line%s of running heads, feet and page numbers of recognised pages left out",
			         lines, lines == 1 ? "" : "s");
	}
	for (size_t i = 0; i < s.n; i++)
		str_free(&s.text[i]);
	free(s.text);
	free(s.mark);
	return rc;
}

int pdf_recognise(const char *name, const char *p, size_t n, struct doc *d, struct err *e)
{
	int32_t pages = 0;
	struct str note = { 0 };
	struct err why = { 0 };
	struct ocr o;
	int rc;

	for (size_t i = 0; i < d->n_mark; i++)
		pages += d->mark[i].kind == MARK_PAGE && d->mark[i].level >= PAGE_EMPTY;
	if (!pages)
		return 0;
	if (ocr_open(&o, p, n, 1, pages, &note, &why)) {
		note_pages(d, why.msg);
		str_free(&note);
		return d->text.n ? 0 : refuse_empty(name, d, why.msg, e);
	}
	rc = recognise_with(&o, name, d, e);
	if (!rc && note.n)
		doc_note(d, "%s", note.p);
	if (!rc) {
		note_recognised(d, o.languages);
		note_pages(d, "");
		ocr_note(&o, d);
		if (!d->text.n)
			rc = o.failed ? refuse_empty(name, d, o.why, e)
			              : refuse_empty(name, d, "tesseract recognises none", e);
	}
	ocr_close(&o);
	str_free(&note);
	return rc;
}
