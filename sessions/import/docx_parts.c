/* sessions/import/docx_parts.c - parts of a DOCX beside its text: documents of other formats that are inserted
 * (<w:altChunk>), comments, and diagrams. */
#include "sessions/import/docx.h"
#include "sessions/import/mime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_DEPTH_MAX 2 /* maximum depth of DOCX files inside DOCX files */

static int ends_in(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);

	return n > k && !strcasecmp(name + n - k, ending);
}

int docx_is_chunk(const char *name)
{
	static const char *const chunks[] = { ".htm", ".html", ".xhtml", ".mht", ".mhtml", ".txt", ".rtf", ".docx" };

	for (size_t i = 0; i < LEN(chunks); i++)
		if (ends_in(name, chunks[i]))
			return 1;
	return 0;
}

/* ---- web archives (MHTML) ---- */

/* Append the HTML of a web archive: the first of its parts that has the type text/html. If the archive has no parts,
 * append its body. */
static void unpack_mhtml(struct str *out, const char *p, size_t n)
{
	struct mime whole = mime_split(p, n), part;
	struct str type = { 0 }, boundary = { 0 };
	size_t at = 0;

	mime_field(&whole, "Content-Type", &type);
	if (!mime_param(str_text(&type), "boundary", &boundary))
		mime_decode(&whole, out);
	while (boundary.n && !out->n && mime_next(&whole, boundary.p, &at, &part)) {
		str_clear(&type);
		if (mime_field(&part, "Content-Type", &type) && mime_is(type.p, "text/html"))
			mime_decode(&part, out);
	}
	str_free(&type);
	str_free(&boundary);
}

/* ---- inserted documents ---- */

/* Write a converted document: its text and its headings. */
static void write_doc(struct writer *w, const struct doc *d)
{
	size_t base;

	writer_gap(w, GAP_BLOCK);
	w->pre++;
	writer_text(w, str_text(&d->text), d->text.n);
	w->pre--;
	base = w->doc->text.n - MIN(d->text.n, w->doc->text.n);
	for (size_t i = 0; i < d->n_mark && !w->full; i++) {
		const struct mark *m = &d->mark[i];
		if (m->kind == MARK_HEADING)
			doc_mark(w->doc, MARK_HEADING, m->level, base + m->at, m->text, strlen(m->text));
	}
}

static int write_converted(struct writer *w, int convert(const char *, size_t, struct doc *, struct err *),
                           const struct zip_entry *z)
{
	static int depth;
	struct doc d = { 0 };
	int rc = -1;

	if (depth < CHUNK_DEPTH_MAX) {
		depth++;
		rc = convert(z->p, z->n, &d, NULL);
		depth--;
	}
	if (!rc)
		write_doc(w, &d);
	doc_free(&d);
	return rc;
}

static void write_plain(struct writer *w, const struct str *text)
{
	w->pre++;
	writer_text(w, str_text(text), text->n);
	w->pre--;
}

int docx_chunk(struct writer *w, const struct opc *rels, const struct xml_attr *id)
{
	const struct zip_entry *z = opc_by_id(rels, id);
	struct str text = { 0 }, html = { 0 };

	if (!z || !z->n)
		return -1;
	if (z->n > 4 && !memcmp(z->p, "PK\3\4", 4))
		return write_converted(w, docx_import, z);
	if (z->n > 5 && !memcmp(z->p, "{\\rtf", 5))
		return write_converted(w, rtf_import, z);
	if (ends_in(z->name, ".mht") || ends_in(z->name, ".mhtml")) {
		unpack_mhtml(&html, z->p, z->n);
		if (!html.n) {
			str_free(&html);
			return -1;
		}
	}
	writer_gap(w, GAP_BLOCK);
	charset_decode_page(html.n ? html.p : z->p, html.n ? html.n : z->n, &text);
	if (ends_in(z->name, ".txt"))
		write_plain(w, &text);
	else
		html_convert(w, str_text(&text), text.n, NULL);
	writer_gap(w, GAP_BLOCK);
	str_free(&html);
	str_free(&text);
	return 0;
}

/* ---- comments and diagrams ---- */

void docx_note_parts(struct doc *d, const struct zip *zip)
{
	doc_note_left_out(d, opc_elements(zip, "word/comments.xml", "comment"), "comment");
	doc_note_left_out(d, opc_count(zip, "word/diagrams/data", "t"), "SmartArt diagram");
}
