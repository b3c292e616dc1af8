/* sessions/import/mime.c - header fields, transfer encodings, charsets and parts of mail messages. Malformed syntax
 * stays in the text undecoded. */
#include "sessions/import/mime.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- encodings ---- */

static int digit_of(char c, int base)
{
	static const char b64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at;

	if (base == 16)
		return byte_is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
	at = c ? strchr(b64, c == '-' ? '+' : c == '_' ? '/' : c) : NULL;
	return at ? (int)(at - b64) : -1;
}

static void decode_base64(const char *p, size_t n, struct str *out)
{
	uint32_t bits = 0;
	int have = 0;

	for (size_t i = 0; i < n && p[i] != '='; i++) {
		int v = digit_of(p[i], 64);

		if (v < 0)
			continue;
		bits = bits << 6 | (uint32_t)v;
		have += 6;
		if (have >= 8) {
			have -= 8;
			str_add(out, &(char){ (char)(bits >> have) }, 1);
		}
	}
}

/* Decode quoted-printable text. In a header, pass '_' as `space`, because it stands for a blank. In a body, pass 0. */
static void decode_quoted(const char *p, size_t n, char space, struct str *out)
{
	for (size_t i = 0; i < n; i++) {
		size_t end = i + 1;

		if (p[i] == '=' && i + 2 < n && digit_of(p[i + 1], 16) >= 0 && digit_of(p[i + 2], 16) >= 0) {
			str_add(out, &(char){ (char)(digit_of(p[i + 1], 16) << 4 | digit_of(p[i + 2], 16)) }, 1);
			i += 2;
			continue;
		}
		while (p[i] == '=' && end < n && (p[end] == ' ' || p[end] == '\t' || p[end] == '\r'))
			end++;
		if (p[i] == '=' && (end == n || p[end] == '\n'))
			i = end; /* a soft line break: the next line continues this one */
		else
			str_add(out, space && p[i] == space ? " " : p + i, 1);
	}
}

static int is_utf8(const char *p, size_t n)
{
	int32_t cp = 0;

	for (size_t i = 0; i < n && cp >= 0;)
		i += (size_t)utf8_decode(p + i, n - i, &cp);
	return cp >= 0;
}

void mime_text(const char *p, size_t n, const char *label, struct str *out)
{
	const struct charset *c = charset_by_label(label, strlen(label));
	struct str text = { 0 };
	size_t replaced;

	/* try UTF-8 first: many messages in UTF-8 name no charset, or name ASCII or ISO-8859-1 */
	if (!c || !strcmp(c->name, "Windows-1252"))
		c = is_utf8(p, n) ? NULL : c ? c : charset_guess(p, n);
	if (!c && !is_utf8(p, n))
		c = charset_by_label("windows-1252", 12);
	if (!c || charset_decode(c, p, n, &text, &replaced))
		str_add(&text, p, n);
	text_tidy(&text);
	str_add(out, str_text(&text), text.n);
	str_free(&text);
}

/* ---- header fields ---- */

static size_t line_end(const char *p, size_t n, size_t at)
{
	const char *end = memchr(p + at, '\n', n - at);

	return end ? (size_t)(end - p) + 1 : n;
}

struct mime mime_split(const char *p, size_t n)
{
	size_t at = 0;

	while (at < n) {
		size_t end = line_end(p, n, at);

		if (p[at] == '\n' || (p[at] == '\r' && at + 1 < n && p[at + 1] == '\n'))
			return (struct mime){ p, p + end, at, n - end };
		at = end;
	}
	return (struct mime){ p, p + n, n, 0 };
}

int mime_field(const struct mime *m, const char *name, struct str *out)
{
	const char *p = m->head;
	size_t n = m->n_head, k = strlen(name);

	for (size_t at = 0, end; at < n; at = end) {
		end = line_end(p, n, at);
		if (end - at <= k || p[at + k] != ':' || strncasecmp(p + at, name, k) != 0)
			continue;
		while (end < n && (p[end] == ' ' || p[end] == '\t'))
			end = line_end(p, n, end);
		for (at += k + 1; at < end && byte_is_blank(p[at]); at++)
			;
		str_add(out, "", 0);
		for (; at < end; at++)
			if (p[at] != '\r' && p[at] != '\n' && p[at])
				str_add(out, p + at, 1);
		while (out->n && byte_is_blank(out->p[out->n - 1]))
			out->p[--out->n] = 0;
		return 1;
	}
	return 0;
}

/* Decode "=?CHARSET?B?TEXT?=" at s. Returns its length, or 0 if there is none at s. */
static size_t decode_word(const char *s, size_t n, struct str *label, struct str *bytes)
{
	const char *charset = s + 2, *kind, *text, *end, *language;

	if (n < 8 || memcmp(s, "=?", 2) != 0 || !(kind = memchr(charset, '?', MIN(n - 2, 60))) ||
	    (size_t)(kind - s) + 4 > n || kind[2] != '?')
		return 0;
	text = kind + 3;
	if (!(end = memmem(text, n - (size_t)(text - s), "?=", 2)))
		return 0;
	language = memchr(charset, '*', (size_t)(kind - charset));
	str_clear(label);
	str_add(label, charset, (size_t)((language ? language : kind) - charset));
	if ((kind[1] | 32) == 'b')
		decode_base64(text, (size_t)(end - text), bytes);
	else if ((kind[1] | 32) == 'q')
		decode_quoted(text, (size_t)(end - text), '_', bytes);
	else
		return 0;
	return (size_t)(end - s) + 2;
}

/* Append the encoded words in s and the text between them. Neighbouring words with the same charset are decoded
 * together, because a character may be split between them. */
static void decode_words(const char *s, size_t n, struct str *out)
{
	struct str bytes = { 0 }, label = { 0 }, last = { 0 }, plain = { 0 };

	for (size_t i = 0; i < n;) {
		size_t at = bytes.n, blanks = 0, k;

		while (bytes.n && i + blanks < n && byte_is_blank(s[i + blanks]))
			blanks++;
		k = decode_word(s + i + blanks, n - i - blanks, &label, &bytes);
		if (bytes.n && (!k || (at && strcasecmp(str_text(&label), str_text(&last)) != 0))) {
			mime_text(bytes.p, k ? at : bytes.n, str_text(&last), out);
			memmove(bytes.p, bytes.p + at, k ? bytes.n - at : 0);
			bytes.n = k ? bytes.n - at : 0;
		}
		if (k) {
			if (plain.n)
				mime_text(plain.p, plain.n, "", out);
			str_clear(&plain);
			str_clear(&last);
			str_adds(&last, str_text(&label));
			i += blanks + k;
		} else {
			str_add(&plain, s + i++, 1);
		}
	}
	if (plain.n)
		mime_text(plain.p, plain.n, "", out);
	if (bytes.n)
		mime_text(bytes.p, bytes.n, str_text(&last), out);
	str_free(&bytes);
	str_free(&label);
	str_free(&last);
	str_free(&plain);
}

int mime_header(const struct mime *m, const char *name, struct str *out)
{
	struct str raw = { 0 };
	int found = mime_field(m, name, &raw);

	if (found)
		decode_words(str_text(&raw), raw.n, out);
	str_free(&raw);
	return found;
}

int mime_is(const char *value, const char *type)
{
	return !strncasecmp(value, type, strlen(type));
}

/* ---- parameters ---- */

/* Append the value of "; NAME=" in s. Returns 0 if it is missing. */
static int raw_param(const char *s, const char *name, struct str *out)
{
	size_t k = strlen(name);
	int quoted = 0;

	for (; *s; s++) {
		if (*s == '"')
			quoted = !quoted;
		if (quoted || *s != ';')
			continue;
		s += 1 + strspn(s + 1, " \t");
		if (strncasecmp(s, name, k) != 0 || s[k + strspn(s + k, " \t")] != '=') {
			s--;
			continue;
		}
		s += k + strspn(s + k, " \t") + 1;
		s += strspn(s, " \t");
		str_add(out, "", 0);
		if (*s != '"') {
			str_add(out, s, strcspn(s, "; \t"));
			return 1;
		}
		for (s++; *s && *s != '"'; s++) {
			s += *s == '\\' && s[1];
			str_add(out, s, 1);
		}
		return 1;
	}
	return 0;
}

/* Decode percent escapes, such as "%20", in the value of a parameter, or in one part of a value that is split into
 * several. Append the result to *out. If `first` is 1, the value may begin with a charset, as in "utf-8''a%20b"; the
 * charset is appended to *label. */
static void add_percent(const char *s, int first, struct str *label, struct str *out)
{
	const char *mark = first ? strchr(s, '\'') : NULL, *second = mark ? strchr(mark + 1, '\'') : NULL;

	if (second) {
		str_add(label, s, (size_t)(mark - s));
		s = second + 1;
	}
	for (; *s; s++) {
		int v = *s == '%' && s[1] && s[2] ? digit_of(s[1], 16) * 16 + digit_of(s[2], 16) : -1;

		if (v >= 0 && digit_of(s[1], 16) >= 0 && digit_of(s[2], 16) >= 0) {
			str_add(out, &(char){ (char)v }, 1);
			s += 2;
		} else {
			str_add(out, s, 1);
		}
	}
}

/* Append the value of a parameter that is written as "NAME*=", or in parts as "NAME*0=", "NAME*1*=" and so on. */
static int long_param(const char *value, const char *name, struct str *out)
{
	struct str key = { 0 }, bytes = { 0 }, label = { 0 }, part = { 0 };
	int found = 0;

	for (int i = -1; i < 100; i++) {
		int percent = 1, is;

		str_clear(&key);
		str_clear(&part);
		if (i < 0)
			str_addf(&key, "%s*", name);
		else
			str_addf(&key, "%s*%d*", name, i);
		if (!(is = raw_param(value, key.p, &part)) && i >= 0) {
			percent = 0;
			key.p[--key.n] = 0;
			is = raw_param(value, key.p, &part);
		}
		if (is && percent)
			add_percent(str_text(&part), i <= 0, &label, &bytes);
		else if (is)
			str_add(&bytes, str_text(&part), part.n);
		found |= is;
		if (i < 0 ? is : !is)
			break;
	}
	if (found)
		mime_text(str_text(&bytes), bytes.n, str_text(&label), out);
	str_free(&key);
	str_free(&bytes);
	str_free(&label);
	str_free(&part);
	return found;
}

int mime_param(const char *value, const char *name, struct str *out)
{
	struct str raw = { 0 };
	int found = raw_param(value, name, &raw);

	if (found)
		decode_words(str_text(&raw), raw.n, out);
	else
		found = long_param(value, name, out);
	str_free(&raw);
	return found;
}

/* ---- bodies ---- */

void mime_decode(const struct mime *m, struct str *out)
{
	struct str how = { 0 };

	mime_field(m, "Content-Transfer-Encoding", &how);
	if (mime_is(str_text(&how), "base64"))
		decode_base64(m->body, m->n_body, out);
	else if (mime_is(str_text(&how), "quoted-printable"))
		decode_quoted(m->body, m->n_body, 0, out);
	else
		str_add(out, m->body, m->n_body);
	str_free(&how);
}

/* Return the offset of the next line "--BOUNDARY", or n. *next receives the offset of the line after it. *last receives
 * 1 if no further part follows. */
static size_t find_boundary(const char *p, size_t n, size_t at, const char *boundary, size_t *next, int *last)
{
	size_t k = strlen(boundary);

	for (size_t end; at < n; at = end) {
		end = line_end(p, n, at);
		if (end - at < k + 2 || memcmp(p + at, "--", 2) != 0 || memcmp(p + at + 2, boundary, k) != 0)
			continue;
		*last = end - at >= k + 4 && !memcmp(p + at + 2 + k, "--", 2);
		if (!*last && end - at > k + 2 && !byte_is_blank(p[at + 2 + k]))
			continue;
		*next = end;
		return at;
	}
	*next = n;
	*last = 1;
	return n;
}

int mime_next(const struct mime *m, const char *boundary, size_t *at, struct mime *part)
{
	size_t from, next, end;
	int last = 0;

	if (!*boundary || (!*at && find_boundary(m->body, m->n_body, 0, boundary, at, &last) == m->n_body) || last ||
	    *at >= m->n_body)
		return 0;
	from = *at;
	end = find_boundary(m->body, m->n_body, from, boundary, &next, &last);
	*at = last ? m->n_body : next;
	*part = mime_split(m->body + from, end - from);
	return 1;
}
