/* sessions/import/document.c - imports a document of any format: chooses the converter by type, then sets the
 * document's name and encoding, and marks its paragraphs. */
#include "sessions/import/import_private.h"

#include <stdlib.h>
#include <string.h>

static void set_name(struct doc *d, const char *path)
{
	const char *slash = strrchr(path, '/');

	free(d->name);
	slash = slash && slash[1] ? slash + 1 : path;
	d->name = xstrndup(slash, strlen(slash));
}

/* Find the encoding of an HTML page: the one that the server names (mime), else the one that the page declares. Returns
 * NULL if neither names an encoding, or if the page begins with a byte order mark. */
static const struct charset *html_charset(const char *mime, const char *p, size_t n)
{
	const char *at = mime ? strstr(mime, "charset=") : NULL;
	const struct charset *c = at ? charset_by_label(at + 8, strcspn(at + 8, "; ")) : NULL;

	if (n >= 2 && (!memcmp(p, "\xff\xfe", 2) || !memcmp(p, "\xfe\xff", 2)))
		return NULL;
	if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		return NULL;
	return c ? c : charset_declared(p, n);
}

/* Count the characters that have several bytes in UTF-8. Returns 0 if the text is not valid UTF-8. */
static size_t utf8_multibyte(const char *p, size_t n)
{
	size_t multibyte = 0;
	int32_t cp;

	for (size_t i = 0; i < n;) {
		size_t k = (size_t)utf8_decode(p + i, n - i, &cp);

		if (cp < 0)
			return 0;
		multibyte += k > 1;
		i += k;
	}
	return multibyte;
}

/* Decode the page to UTF-8. Many pages are UTF-8 but declare another encoding. So valid UTF-8 with more than 2
 * multi-byte characters is taken for UTF-8. If the declared encoding is Chinese, Japanese or Korean, there must be more
 * than 16 such characters: a short text in these encodings may be valid UTF-8 by chance. */
static int html_text(const char *name, const char *mime, const char *p, size_t n, struct doc *text, struct err *e)
{
	const struct charset *c = html_charset(mime, p, n);
	size_t multibyte = c ? utf8_multibyte(p, n) : 0, replaced = 0;
	struct str utf8 = { 0 };
	int rc;

	if (!c || !strcmp(c->name, "UTF-8") || multibyte > (charset_is_wide(c) ? 16 : 2) ||
	    charset_decode(c, p, n, &utf8, &replaced) || (multibyte && replaced)) {
		str_free(&utf8);
		return text_decode(name, p, n, text, e);
	}
	rc = text_decode(name, str_text(&utf8), utf8.n, text, e);
	str_free(&utf8);
	if (rc)
		return -1;
	text->encoding = c->name;
	if (replaced)
		doc_note(text, "%zu byte sequence%s cannot be decoded as %s: replaced by U+FFFD", replaced,
		         replaced == 1 ? " that" : "s that", c->name);
	return 0;
}

/* Decode a document to UTF-8, and convert it in the jail. Used for formats whose files are text in any encoding. */
static int import_decoded(enum doc_type type, const char *name, const char *mime, const char *p, size_t n,
                          struct doc *out, struct err *e)
{
	struct doc text;
	int rc;

	if (type == DOC_HTML ? html_text(name, mime, p, n, &text, e) : text_decode(name, p, n, &text, e))
		return -1;
	rc = helper_convert(type, doc_shown(name), text.text.p, text.text.n, out, e);
	if (!rc) {
		out->encoding = text.encoding;
		str_add(&out->notices, str_text(&text.notices), text.notices.n);
	}
	doc_free(&text);
	return rc;
}

int doc_may_be_printed(const char *name, enum doc_type type)
{
	return type != DOC_SOURCE && !doc_is_table(name);
}

static int import_text(enum doc_type type, const char *name, const char *p, size_t n, struct doc *out, struct err *e)
{
	if (text_decode(name, p, n, out, e))
		return -1;
	out->type = type;
	if (doc_may_be_printed(name, type))
		doc_clean_printed(out);
	doc_shorten_data(out);
	if (type == DOC_TEXT && man_is_source(out->text.p, out->text.n)) {
		man_read(out);
	} else {
		if (type == DOC_TEXT && doc_may_be_printed(name, type))
			doc_join_divided(out);
		doc_mark_text(out);
	}
	if (out->text.n > strspn(str_text(&out->text), "\n "))
		return 0;
	doc_free(out);
	return doc_refuse(e, name, "holds no text");
}

/* Unpack a gzip file and import its contents. The name without ".gz" tells the type of the contents. */
static int import_gzip(const char *name, const char *mime, const char *p, size_t n, struct doc *out, struct err *e)
{
	size_t len = strlen(name);
	struct doc raw;
	char *inner;
	int rc;

	if (helper_convert(DOC_GZIP, doc_shown(name), p, n, &raw, e))
		return -1;
	if (len > 3 && !strcasecmp(name + len - 3, ".gz"))
		len -= 3;
	inner = xstrndup(name, len);
	if (raw.text.n >= 2 && !memcmp(raw.text.p, "\x1f\x8b", 2))
		rc = err_set(e, ERR_DOCUMENT, "document '%s' is compressed twice: unpack it first", doc_shown(name));
	else
		rc = document_import(inner, mime && strstr(mime, "gzip") ? NULL : mime, str_text(&raw.text), raw.text.n,
		                     out, e);
	free(inner);
	doc_free(&raw);
	return rc;
}

int document_import(const char *name, const char *mime, const char *p, size_t n, struct doc *out, struct err *e)
{
	enum doc_type type = doc_type_of(name, mime, p, n);
	int rc;

	*out = (struct doc){ 0 };
	switch (type) {
	case DOC_HTML:
	case DOC_NOTEBOOK:
	case DOC_SUBTITLES: rc = import_decoded(type, name, mime, p, n, out, e); break;
	case DOC_GZIP: rc = import_gzip(name, mime, p, n, out, e); break;
	case DOC_EPUB:
	case DOC_DOCX:
	case DOC_ODF:
	case DOC_RTF:
	case DOC_MAIL:
	case DOC_XLSX:
	case DOC_PICTURE:
	case DOC_PPTX:
	case DOC_FB2:
	case DOC_FEED:
	case DOC_PDF: rc = helper_convert(type, doc_shown(name), p, n, out, e); break;
	default: rc = import_text(type, name, p, n, out, e);
	}
	if (rc)
		return -1;
	set_name(out, name);
	out->bytes = n;
	if (!out->encoding)
		out->encoding = "UTF-8";
	if (type != DOC_GZIP)
		doc_mark_paragraphs(out);
	/* after a stop, the document may lack marks, so it is dropped */
	if (import_stopped()) {
		doc_free(out);
		return import_refuse_stopped(doc_shown(name), e);
	}
	return 0;
}

int doc_decode(const char *name, const void *bytes, size_t n, struct doc *out, struct err *e)
{
	return document_import(name, NULL, bytes, n, out, e);
}
