/* sessions/import/text.c - plain text: UTF-8, UTF-16 with a byte order mark, or Windows-1252 as the last resort.
 *
 * Bytes that are not text are recognised by their first bytes and refused by name; whatever had to be guessed or replaced is said
 * in a notice. */
#include "sessions/import/import.h"

#include <stdlib.h>
#include <string.h>

void doc_free(struct doc *d)
{
	marks_free(d->mark, d->n_mark);
	free(d->name);
	origin_free(&d->origin);
	str_free(&d->text);
	str_free(&d->notices);
	*d = (struct doc){0};
}

/* The end of a path tells files apart; a path that fills the message would push the reason out of it. */
const char *doc_shown(const char *path)
{
	size_t n = strlen(path);

	return n > 180 ? path + n - 180 : path;
}

int doc_refuse(struct err *e, const char *path, const char *why)
{
	return err_set(e, ERR_DOCUMENT, "document '%s' %s", doc_shown(path), why);
}

/* ---- what is not text ---- */

struct magic { const char *bytes; unsigned char n, at; const char *why; };

static const struct magic magics[] = {
#define MAGIC(bytes, at, why) { bytes, sizeof bytes - 1, at, why }
	MAGIC("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0,
	      "is an old Office file, which is not supported: convert it with catdoc or save it as text"),
	MAGIC("{\\rtf", 0, "is an RTF file; RTF documents are not supported: save it as text"),
	MAGIC("BOOKMOBI", 60, "is a Mobipocket e-book, which is not supported: convert it to text"),
	MAGIC("AT&TFORM", 0, "is a DjVu file, which is not supported: convert it with djvutxt"),
	MAGIC("GGUF", 0, "is a model (GGUF), not a document; use -m to choose a model"),
	MAGIC("SQLite format 3\0", 0, "is an SQLite database, not a document"),
	MAGIC("\x7f" "ELF", 0, "is a program, not a document"),
	MAGIC("BZh", 0, "is compressed (bzip2): unpack it first"),
	MAGIC("\xfd" "7zXZ\0", 0, "is compressed (xz): unpack it first"),
	MAGIC("\x28\xb5\x2f\xfd", 0, "is compressed (zstd): unpack it first"),
	MAGIC("7z\xbc\xaf\x27\x1c", 0, "is a 7z archive: unpack it first"),
	MAGIC("\x89PNG\r\n\x1a\n", 0, "is an image (PNG), not a text"),
	MAGIC("\xff\xd8\xff", 0, "is an image (JPEG), not a text"),
	MAGIC("GIF8", 0, "is an image (GIF), not a text"),
	MAGIC("\0\0\xfe\xff", 0, "is UTF-32 text, which is not supported: convert it with iconv -f UTF-32 -t UTF-8"),
	MAGIC("\xff\xfe\0\0", 0, "is UTF-32 text, which is not supported: convert it with iconv -f UTF-32 -t UTF-8"),
#undef MAGIC
};

static const char *zip_kind(const char *p, size_t n)
{
	static const char odt[] = "mimetypeapplication/vnd.oasis.opendocument";

	/* The first entry of these is stored and begins at byte 30. */
	if (n >= 30 + sizeof odt - 1 && !memcmp(p + 30, odt, sizeof odt - 1))
		return "is an OpenDocument file, which is not supported yet: convert it with odt2txt or pandoc -t plain";
	if (memmem(p, n, "[Content_Types].xml", 19))
		return "is an Office file (not a text document), which is not supported: export it as text";
	return "is a zip archive: unpack it first";
}

static const char *not_text(const char *p, size_t n)
{
	if (n >= 4 && !memcmp(p, "PK\3\4", 4))
		return zip_kind(p, n);
	for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
		const struct magic *m = &magics[i];
		if (n >= (size_t)m->at + m->n && !memcmp(p + m->at, m->bytes, m->n))
			return m->why;
	}
	return NULL;
}

/* ---- text ---- */

enum encoding { ENC_UTF8, ENC_UTF16LE, ENC_UTF16BE, ENC_CP1252 };
static const char *const encoding_name[] = { "UTF-8", "UTF-16LE", "UTF-16BE", "Windows-1252" };

/* What a look over the bytes as UTF-8 shows. */
struct survey { size_t bad, multibyte, nul, control, lf, lone_cr; };

static struct survey survey(const char *p, size_t n)
{
	struct survey s = { 0 };

	for (size_t i = 0; i < n;) {
		unsigned char c = (unsigned char)p[i];
		int32_t cp;
		if (c >= 0x80) {
			i += (size_t)utf8_decode(p + i, n - i, &cp);
			if (cp < 0)
				s.bad++;
			else
				s.multibyte++;
			continue;
		}
		/* Tabs, ends of lines and pages, bells, backspaces and escapes are found in real texts and logs. */
		if (c < 0x20 && !(c >= 7 && c <= 13) && c != 27)
			s.control++;
		s.nul += !c;
		s.lf += c == '\n';
		s.lone_cr += c == '\r' && (i + 1 == n || p[i + 1] != '\n');
		i++;
	}
	return s;
}

/* 0x80-0x9f of Windows-1252; 0 = not assigned. */
static const uint16_t cp1252[32] = {
	0x20ac, 0, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017d, 0,
	0, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0, 0x017e, 0x0178,
};

/* One code point of p[0..n), n > 0: its length in bytes; *cp = -1 where there is none. */
static size_t next_char(enum encoding enc, const char *p, size_t n, int32_t *cp)
{
	unsigned char c = (unsigned char)p[0];
	unsigned hi, lo;
	int be = enc == ENC_UTF16BE;

	switch (enc) {
	case ENC_UTF8:
		return (size_t)utf8_decode(p, n, cp);
	case ENC_CP1252:
		*cp = c < 0x80 || c > 0x9f ? c : cp1252[c - 0x80] ? cp1252[c - 0x80] : -1;
		return 1;
	case ENC_UTF16LE: case ENC_UTF16BE:
		break;
	}
	*cp = -1;
	if (n < 2)
		return 1;
	hi = (unsigned)(unsigned char)p[!be] << 8 | (unsigned char)p[be];
	if (hi < 0xd800 || hi > 0xdfff) {
		*cp = (int32_t)hi;
		return 2;
	}
	if (hi > 0xdbff || n < 4)
		return 2;
	lo = (unsigned)(unsigned char)p[2 + !be] << 8 | (unsigned char)p[2 + be];
	if (lo < 0xdc00 || lo > 0xdfff)
		return 2;
	*cp = (int32_t)(0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00));
	return 4;
}

/* Decode to UTF-8 with \n line ends; to == NULL only counts.  Returns the bytes. */
static size_t decode(enum encoding enc, int keep_cr, const char *p, size_t n, char *to, size_t *replaced, size_t *nul)
{
	size_t used = 0;
	int after_cr = 0;

	*replaced = *nul = 0;
	for (size_t i = 0; i < n;) {
		char s[4];
		int32_t cp;
		int len;
		i += next_char(enc, p + i, n - i, &cp);
		*nul += cp == 0;
		*replaced += cp < 0;
		if (cp <= 0)
			cp = 0xfffd;
		/* A CR is written when it is known that no LF follows. */
		if (after_cr && cp != '\n') {
			if (to)
				to[used] = keep_cr ? '\r' : '\n';
			used++;
		}
		after_cr = cp == '\r';
		if (after_cr)
			continue;
		len = utf8_encode(cp, s);
		if (to)
			memcpy(to + used, s, (size_t)len);
		used += (size_t)len;
	}
	if (after_cr) {
		if (to)
			to[used] = keep_cr ? '\r' : '\n';
		used++;
	}
	return used;
}

static int blank(const char *p, size_t n)
{
	while (n && strchr(" \t\n\r\f\v", *p) && *p)
		p++, n--;
	return !n;
}

/* A text in an encoding that was guessed by its letters. */
static int decode_foreign(const char *name, const struct charset *c, const char *p, size_t n, struct doc *out, struct err *e)
{
	struct str utf8 = {0};
	size_t replaced;
	int r;

	if (charset_decode(c, p, n, &utf8, &replaced)) {
		str_free(&utf8);
		return doc_refuse(e, name, "is in an encoding that iconv lacks on this machine");
	}
	r = text_decode(name, utf8.p ? utf8.p : "", utf8.n, out, e);
	str_free(&utf8);
	if (r)
		return -1;
	out->bytes = n;
	out->encoding = c->name;
	str_addf(&out->notices, "not UTF-8: read as %s, a guess\n", c->name);
	if (replaced)
		str_addf(&out->notices, "%zu byte%s that cannot be decoded %s replaced by U+FFFD\n", replaced, replaced == 1 ? "" : "s",
		         replaced == 1 ? "was" : "were");
	return 0;
}

int text_decode(const char *name, const char *p, size_t n, struct doc *out, struct err *e)
{
	const char *slash = strrchr(name, '/'), *why;
	const struct charset *foreign;
	struct survey s;
	enum encoding enc = ENC_UTF8;
	size_t size = n, bom = 0, replaced, nul, used;
	int keep_cr = 1;
	char *text;

	*out = (struct doc){ 0 };
	if (!n)
		return doc_refuse(e, name, "is empty");
	why = not_text(p, n);
	if (why)
		return doc_refuse(e, name, why);

	if (n >= 2 && !memcmp(p, "\xff\xfe", 2))
		enc = ENC_UTF16LE, bom = 2;
	else if (n >= 2 && !memcmp(p, "\xfe\xff", 2))
		enc = ENC_UTF16BE, bom = 2;
	else if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		bom = 3;
	p += bom;
	n -= bom;
	if (enc == ENC_UTF8) {
		s = survey(p, n);
		if (s.nul > n / 256)
			return doc_refuse(e, name, "is a binary file, not a text (it has NUL bytes)");
		/* Good UTF-8 hardly comes about by chance: bad bytes beside it are damage, and reading all of the text as another
		 * encoding would be the greater one.  A last character cut in half is no sign of anything. */
		if (s.multibyte && utf8_complete(p, n) < n)
			s.bad--;
		if (s.bad && !bom && 8 * s.multibyte < s.bad) {
			if (s.control > n / 64)
				return doc_refuse(e, name, "is a binary file, not a text (it has control characters and is not UTF-8)");
			enc = ENC_CP1252;
		}
		foreign = s.bad && !bom && s.multibyte < 10 * s.bad ? charset_guess(p, n) : NULL;
		if (foreign)
			return decode_foreign(name, foreign, p, n, out, e);
		keep_cr = s.lf || !s.lone_cr;   /* no LF at all: CR ends the lines */
	}

	used = decode(enc, keep_cr, p, n, NULL, &replaced, &nul);
	if (nul > n / 256)
		return doc_refuse(e, name, "is a binary file, not a text (it has NUL characters)");
	text = try_alloc(used + 1, 1, "a document", e);
	if (!text)
		return -1;
	decode(enc, keep_cr, p, n, text, &replaced, &nul);
	text[used] = 0;
	if (blank(text, used)) {
		free(text);
		return doc_refuse(e, name, used ? "is empty: it holds only white space" : "is empty");
	}

	out->bytes = size;
	out->text.p = text;
	out->text.n = used;
	out->text.cap = used + 1;
	out->encoding = encoding_name[enc];
	slash = slash && slash[1] ? slash + 1 : name;
	out->name = xstrndup(slash, strlen(slash));
	if (enc == ENC_CP1252)
		str_adds(&out->notices, "not UTF-8: read as Windows-1252, a guess\n");
	if (replaced)
		str_addf(&out->notices, "%zu byte sequence%s that cannot be %s replaced by U+FFFD\n", replaced,
		         replaced == 1 ? "" : "s", replaced == 1 ? "decoded was" : "decoded were");
	if (nul)
		str_addf(&out->notices, "%zu NUL character%s replaced by U+FFFD\n", nul, nul == 1 ? " was" : "s were");
	return 0;
}
