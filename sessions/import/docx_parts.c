/* sessions/import/docx_parts.c - parts of a DOCX beside its text: documents of other formats that are inserted
 * (<w:altChunk>), comments, and diagrams. */
#include "sessions/import/docx.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_DEPTH_MAX 2 /* levels of DOCX files inserted in each other */

static int ends_in(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);

	return n > k && !strcasecmp(name + n - k, ending);
}

static int is_diagram(const char *name)
{
	return !strncasecmp(name, "word/diagrams/data", 18) && ends_in(name, ".xml");
}

int docx_parts_want(const char *name)
{
	static const char *const chunks[] = { ".htm", ".html", ".xhtml", ".mht", ".mhtml", ".txt", ".rtf", ".docx" };

	for (size_t i = 0; i < LEN(chunks); i++)
		if (ends_in(name, chunks[i]))
			return 1;
	return is_diagram(name) || !strcasecmp(name, "word/comments.xml") ||
	       !strcasecmp(name, "word/_rels/document.xml.rels");
}

/* ---- web archives (MHTML) ---- */

/* Find a header of a MIME part by its name, in any case. Returns the header's value, which ends at the line end; NULL:
 * the part has no such header. */
static const char *mime_header(const char *p, const char *end, const char *name)
{
	size_t k = strlen(name);

	for (; p && p < end && *p != '\n' && *p != '\r'; p = memchr(p, '\n', (size_t)(end - p)), p += p != NULL)
		if ((size_t)(end - p) > k && !strncasecmp(p, name, k) && p[k] == ':')
			return p + k + 1 + strspn(p + k + 1, " \t");
	return NULL;
}

/* Return the byte behind the blank line that ends the headers at p. */
static const char *mime_body(const char *p, const char *end)
{
	const char *a = memmem(p, (size_t)(end - p), "\n\r\n", 3), *b = memmem(p, (size_t)(end - p), "\n\n", 2);

	if (a && (!b || a < b))
		return a + 3;
	return b ? b + 2 : end;
}

static int hex(char c)
{
	return byte_is_digit(c)       ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
	                              : -1;
}

static void decode_quoted(struct str *out, const char *p, const char *end)
{
	for (; p < end; p++) {
		char c = *p;

		if (c == '=' && end - p > 2 && hex(p[1]) >= 0 && hex(p[2]) >= 0) {
			c = (char)(hex(p[1]) * 16 + hex(p[2]));
			p += 2;
		} else if (c == '=') { /* a line end that is not part of the text */
			p += end - p > 1 && p[1] == '\r';
			p += end - p > 1 && p[1] == '\n';
			continue;
		}
		str_add(out, &c, 1);
	}
}

static void decode_base64(struct str *out, const char *p, const char *end)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned bits = 0;
	int n = 0;

	for (; p < end && *p != '='; p++) {
		const char *at = *p ? strchr(digits, *p) : NULL;

		if (!at)
			continue;
		bits = bits << 6 | (unsigned)(at - digits);
		if ((n += 6) >= 8) {
			char c = (char)(bits >> (n -= 8));
			str_add(out, &c, 1);
		}
	}
}

static void decode_part(struct str *out, const char *head, const char *p, const char *end)
{
	const char *how = mime_header(head, p, "Content-Transfer-Encoding");

	if (how && !strncasecmp(how, "quoted-printable", 16))
		decode_quoted(out, p, end);
	else if (how && !strncasecmp(how, "base64", 6))
		decode_base64(out, p, end);
	else
		str_add(out, p, (size_t)(end - p));
}

/* Append the HTML of a web archive: the first part with the type text/html. */
static void unpack_mhtml(struct str *out, const char *p, const char *end)
{
	const char *body = mime_body(p, end), *name = memmem(p, (size_t)(body - p), "boundary=", 9), *type;
	struct str mark = { 0 };

	if (!name) {
		decode_part(out, p, body, end);
		return;
	}
	name += 9 + (name[9] == '"');
	str_adds(&mark, "--");
	str_add(&mark, name, strcspn(name, "\"; \r\n"));
	for (p = body; (p = memmem(p, (size_t)(end - p), mark.p, mark.n)); p = body) {
		p += mark.n;
		p += strspn(p, " \t\r");
		p += p < end && *p == '\n';
		body = mime_body(p, end);
		type = mime_header(p, body, "Content-Type");
		if (type && !strncasecmp(type, "text/html", 9)) {
			const char *to = memmem(body, (size_t)(end - body), mark.p, mark.n);
			decode_part(out, p, body, to ? to : end);
			break;
		}
	}
	str_free(&mark);
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

int docx_chunk(struct writer *w, const struct zip *zip, const struct xml_attr *id)
{
	struct str text = { 0 }, html = { 0 };
	const struct zip_entry *z;
	struct opc parts;

	opc_read(&parts, zip, "word/document.xml");
	z = opc_by_id(&parts, id);
	opc_free(&parts);
	if (!z || !z->n)
		return -1;
	if (z->n > 4 && !memcmp(z->p, "PK\3\4", 4))
		return write_converted(w, docx_import, z);
	if (z->n > 5 && !memcmp(z->p, "{\\rtf", 5))
		return write_converted(w, rtf_import, z);
	if (ends_in(z->name, ".mht") || ends_in(z->name, ".mhtml")) {
		unpack_mhtml(&html, z->p, z->p + z->n);
		if (!html.n)
			return -1;
	}
	writer_gap(w, GAP_BLOCK);
	charset_decode_page(html.n ? html.p : z->p, html.n ? html.n : z->n, &text);
	if (ends_in(z->name, ".txt"))
		write_plain(w, &text);
	else
		html_convert(w, str_text(&text), text.n);
	writer_gap(w, GAP_BLOCK);
	str_free(&html);
	str_free(&text);
	return 0;
}

/* ---- what is not written ---- */

void docx_note_parts(struct doc *d, const struct zip *zip)
{
	doc_note_left_out(d, opc_elements(zip, "word/comments.xml", "comment"), "comment");
	doc_note_left_out(d, opc_count(zip, "word/diagrams/data", "t"), "SmartArt diagram");
}
