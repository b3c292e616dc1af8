/* sessions/import/text.c - decodes plain text: UTF-8, UTF-16 with or without a byte order mark, ISO-2022-JP, a
 * guessed encoding, or as the last resort Windows-1252.
 *
 * Binary files are recognised by their first bytes, and refused with their kind. Guessed encodings and replaced bytes
 * are reported in notices. */
#include "sessions/import/import_private.h"

#include <stdlib.h>
#include <string.h>

void doc_free(struct doc *d)
{
	marks_free(d->mark, d->n_mark);
	free(d->name);
	origin_free(&d->origin);
	str_free(&d->text);
	str_free(&d->notices);
	str_free(&d->left_out);
	*d = (struct doc){ 0 };
}

/* A long path is shown by its last 180 bytes only, so that a message has room for the reason. */
const char *doc_shown(const char *path)
{
	size_t n = strlen(path);

	return n > 180 ? path + n - 180 : path;
}

int doc_refuse(struct err *e, const char *path, const char *why)
{
	return err_set(e, ERR_DOCUMENT, "document '%s' %s", doc_shown(path), why);
}

/* ---- text ---- */

/* Counts from reading bytes as UTF-8. `bad` is the number of invalid sequences, `nul` the number of NUL bytes, and
 * `runs` the number of sequences of neighbouring NUL bytes. `control` is the number of other control characters that
 * are rare in texts. */
struct survey {
	size_t bad, multibyte, nul, runs, control;
};

/* 1 if the file has so many NUL bytes that it is binary data. A text file may have a few sequences of NULs, of any
 * length: a log has them if it was truncated while a program wrote to it. But its other bytes must be text: few control
 * characters, and little invalid UTF-8. */
static int has_binary_nuls(const struct survey *s, size_t n)
{
	size_t rest = n - s->nul;

	return s->nul > n / 256 &&
	       (rest < 16 || s->runs > 1 + rest / 512 || s->control > rest / 256 || s->bad > rest / 64);
}

static struct survey survey_bytes(const char *p, size_t n)
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
		/* some control characters occur in real texts and logs, so they do not show binary data: tab, line and
		 * page ends, bell, backspace, escape */
		if (c && c < 0x20 && !(c >= 7 && c <= 13) && c != 27)
			s.control++;
		s.nul += !c;
		s.runs += !c && (!i || p[i - 1]);
		i++;
	}
	return s;
}

/* Return the encoding of a text that is not valid UTF-8; NULL if it is UTF-8 with damaged bytes. */
static const struct charset *foreign_charset(const struct survey *s, const char *p, size_t n)
{
	const struct charset *c = s->multibyte < 10 * s->bad ? charset_guess(p, n) : NULL;

	/* text in another encoding rarely contains valid multi-byte sequences of UTF-8: if there are many, the text is
	 * UTF-8 with damaged bytes */
	return c ? c : 8 * s->multibyte < s->bad ? charset_by_label("windows-1252", 12) : NULL;
}

/* Result of tidy(). `used` is the number of bytes written, `bad` the number of invalid sequences, `nul` the number of
 * NUL characters. */
struct tidied {
	size_t used, bad, nul;
};

/* Write the text to the buffer `to` as valid UTF-8, with \n line ends and without NULs. If `to` is NULL, only count.
 * Within a line, one NUL becomes a blank, and several NULs in a row become a line end. If keep_cr is 1, a CR without LF
 * stays; if it is 0, such a CR becomes a line end. */
static struct tidied tidy(int keep_cr, const char *p, size_t n, char *to)
{
	struct tidied t = { 0 };
	int after_cr = 0, nuls = 0, last = '\n';

	for (size_t i = 0; i < n;) {
		char s[4];
		int32_t cp;
		int len;
		i += (size_t)utf8_decode(p + i, n - i, &cp);
		t.bad += cp < 0;
		if (!cp) {
			t.nul++;
			nuls++;
			continue;
		}
		if (cp < 0)
			cp = 0xfffd;
		if (nuls && last != '\n' && last != '\r' && cp != '\n' && cp != '\r') {
			if (to)
				to[t.used] = nuls > 1 ? '\n' : ' ';
			t.used++;
		}
		nuls = 0;
		last = cp;
		/* write a CR only when it is known that no LF follows */
		if (after_cr && cp != '\n') {
			if (to)
				to[t.used] = keep_cr ? '\r' : '\n';
			t.used++;
		}
		after_cr = cp == '\r';
		if (after_cr)
			continue;
		len = utf8_encode(cp, s);
		if (to)
			memcpy(to + t.used, s, (size_t)len);
		t.used += (size_t)len;
	}
	if (after_cr) {
		if (to)
			to[t.used] = keep_cr ? '\r' : '\n';
		t.used++;
	}
	return t;
}

void text_tidy(struct str *s)
{
	struct str text = { 0 };

	if (!s->n)
		return;
	text.n = tidy(1, s->p, s->n, NULL).used;
	text.cap = text.n + 1;
	text.p = xmalloc(text.cap);
	tidy(1, s->p, s->n, text.p);
	text.p[text.n] = 0;
	str_free(s);
	*s = text;
}

static int is_white_space(const char *p, size_t n)
{
	while (n && strchr(" \t\n\r\f\v", *p) && *p)
		p++, n--;
	return !n;
}

/* Return the length of the byte order mark and set *c to its charset. *c is NULL if the charset is UTF-8 or if there is
 * no mark. */
static size_t order_mark(const char *p, size_t n, const struct charset **c)
{
	*c = NULL;
	if (n >= 2 && !memcmp(p, "\xff\xfe", 2))
		*c = &charset_utf16le;
	else if (n >= 2 && !memcmp(p, "\xfe\xff", 2))
		*c = &charset_utf16be;
	else
		return n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3) ? 3 : 0;
	return 2;
}

/* Recognise UTF-16 without a byte order mark. Such a text has NUL bytes, which are the high bytes of ASCII characters.
 * They are either all at even or all at odd offsets. It has a blank or newline, no control characters and no unpaired
 * surrogates. Returns NULL if the text is not UTF-16. */
static const struct charset *unmarked_utf16(const char *p, size_t n)
{
	size_t nul[2] = { 0 }, low, blanks = 0;

	for (size_t i = 0; i < n; i++)
		nul[i & 1] += !p[i];
	if (n % 2 || nul[0] + nul[1] < n / 256 || (nul[0] && nul[1]))
		return NULL;
	/* if the NULs are at even offsets, the first byte of each pair is the high byte, so the low byte is at index
	 * 1 */
	low = nul[0] > 0;
	for (size_t i = 0, pair = 0; i < n; i += 2) {
		unsigned high = (unsigned char)p[i + !low], c = high << 8 | (unsigned char)p[i + low];
		int first = high >= 0xd8 && high < 0xdc, second = high >= 0xdc && high < 0xe0;

		if ((c < 0x20 && !(c >= 7 && c <= 13) && c != 27) || c >= 0xfffe || (pair != 0) != second)
			return NULL;
		pair = first;
		blanks += c == ' ' || c == '\n';
	}
	return !blanks ? NULL : low ? &charset_utf16be : &charset_utf16le;
}

/* 1 for ISO-2022-JP, which is common in old mail. It is ASCII in which escape sequences enclose Japanese letters; each
 * letter is two ASCII bytes. */
static int is_iso2022jp(const char *p, size_t n, const struct survey *s)
{
	return !s->bad && !s->multibyte && (memmem(p, n, "\033$B", 3) || memmem(p, n, "\033$@", 3)) &&
	       (memmem(p, n, "\033(B", 3) || memmem(p, n, "\033(J", 3));
}

/* Find the encoding of p[0 .. n), a text without its byte order mark. `marked` is 1 if the text had a byte order mark
 * of UTF-8. *c receives the encoding; NULL means UTF-8. Returns 0, or -1 if the bytes are not text. */
static int find_charset(const char *name, const char *p, size_t n, int marked, const struct charset **c, struct err *e)
{
	struct survey s = survey_bytes(p, n);

	if (s.nul > n / 256 && !marked && (*c = unmarked_utf16(p, n)))
		return 0;
	if (is_iso2022jp(p, n, &s))
		*c = charset_by_label("iso-2022-jp", 11);
	if (*c)
		return 0;
	if (has_binary_nuls(&s, n))
		return doc_refuse(e, name, "is a binary file, not a text (it has NUL bytes)");
	/* do not count a character that the end of the text truncates */
	if (s.multibyte && utf8_complete(p, n) < n)
		s.bad--;
	if (!s.bad || marked)
		return 0;
	if (8 * s.multibyte < s.bad && s.control + s.nul > n / 64)
		return doc_refuse(e, name, "is a binary file, not a text (it has control characters and is not UTF-8)");
	*c = foreign_charset(&s, p, n);
	return 0;
}

/* Make the document's text from bytes that should be UTF-8. */
static int take_utf8(const char *name, const char *p, size_t n, struct doc *out, struct tidied *t, struct err *e)
{
	const char *slash = strrchr(name, '/');
	/* if the text has no LF, each CR is a line end */
	int keep_cr = memchr(p, '\n', n) != NULL;
	struct survey s = survey_bytes(p, n);
	char *text;

	*t = tidy(keep_cr, p, n, NULL);
	s.bad = 0;
	if (has_binary_nuls(&s, n))
		return doc_refuse(e, name, "is a binary file, not a text (it has NUL characters)");
	text = try_alloc(t->used + 1, 1, "a document", e);
	if (!text)
		return -1;
	tidy(keep_cr, p, n, text);
	text[t->used] = 0;
	if (is_white_space(text, t->used)) {
		free(text);
		return doc_refuse(e, name, t->used ? "is empty: it holds only white space" : "is empty");
	}
	out->text = (struct str){ .p = text, .n = t->used, .cap = t->used + 1 };
	slash = slash && slash[1] ? slash + 1 : name;
	out->name = xstrndup(slash, strlen(slash));
	return 0;
}

int text_decode(const char *name, const char *p, size_t n, struct doc *out, struct err *e)
{
	const struct charset *c;
	struct tidied t = { 0 };
	struct str utf8 = { 0 }, why = { 0 };
	size_t mark, replaced = 0;
	int rc;

	*out = (struct doc){ 0 };
	if (!n)
		return doc_refuse(e, name, "is empty");
	if (foreign_why(p, n, &why)) {
		doc_refuse(e, name, why.p);
		str_free(&why);
		return -1;
	}

	mark = order_mark(p, n, &c);
	if (!c && find_charset(name, p + mark, n - mark, mark > 0, &c, e))
		return -1;
	if (c && charset_decode(c, p + mark, n - mark, &utf8, &replaced))
		rc = doc_refuse(e, name, "is in an encoding that iconv lacks on this machine");
	else if (c)
		rc = take_utf8(name, str_text(&utf8), utf8.n, out, &t, e);
	else
		rc = take_utf8(name, p + mark, n - mark, out, &t, e);
	str_free(&utf8);
	if (rc)
		return -1;

	out->bytes = n;
	out->encoding = c ? c->name : "UTF-8";
	replaced += t.bad;
	if (c && !mark)
		str_addf(&out->notices, "not UTF-8: read as %s, a guess\n", c->name);
	if (replaced)
		str_addf(&out->notices, "%zu byte sequence%s that cannot be %s replaced by U+FFFD\n", replaced,
		         replaced == 1 ? "" : "s", replaced == 1 ? "decoded was" : "decoded were");
	if (t.nul)
		str_addf(&out->notices, "%zu NUL character%s left out\n", t.nul, t.nul == 1 ? " was" : "s were");
	return 0;
}
