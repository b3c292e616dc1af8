/* sessions/import/man_escapes.c - the escapes of roff in manual pages: special characters, and the strings that a page
 * defines. */
#include "sessions/import/man.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

int part_is(struct part w, const char *word)
{
	return strlen(word) == w.n && !memcmp(word, w.s, w.n);
}

int part_is_one_of(struct part w, const char *words)
{
	while (*words) {
		size_t n = strcspn(words, " ");
		if (n == w.n && !memcmp(words, w.s, n))
			return 1;
		words += n + (words[n] == ' ');
	}
	return 0;
}

/* Return the length in bytes of the first `count` characters of s[0..n). */
static size_t characters(const char *s, size_t n, size_t count)
{
	size_t at = 0;
	int32_t cp;

	for (; count && at < n; count--)
		at += (size_t)utf8_decode(s + at, n - at, &cp);
	return at;
}

size_t man_name(const char *s, size_t n, struct part *name)
{
	const char *close = n && *s == '[' ? memchr(s, ']', n) : NULL;
	size_t skip = n && (*s == '(' || close);

	name->s = s + skip;
	name->n = close ? (size_t)(close - s) - 1 : characters(s + skip, n - skip, 1 + skip);
	name->quoted = 0;
	return skip + name->n + (close != NULL);
}

struct definition *page_definition(struct page *page, char kind, struct part name)
{
	for (size_t i = page ? page->n_defined : 0; i--;)
		if (page->defined[i].kind == kind && page->defined[i].name.n == name.n &&
		    !memcmp(page->defined[i].name.s, name.s, name.n))
			return &page->defined[i];
	return NULL;
}

void page_define(struct page *page, char kind, struct part name, struct part value)
{
	struct definition *d = page_definition(page, kind, name);

	/* ignore a long string: if it was used often, the text would become much longer than its source */
	if (value.n > DEFINED_BYTES)
		return;
	if (!d && page->n_defined < DEFINED_MAX)
		d = &page->defined[page->n_defined++];
	if (d)
		*d = (struct definition){ kind, name, value };
}

/* Append the text of the special character or string with this name. Returns 0 if the name is unknown. */
static int put_character(struct page *page, struct part name, struct str *out)
{
	static const struct {
		const char *name, *text;
	} known[] = {
		{ "hy", "-" },   { "en", "–" },  { "em", "—" },  { "bu", "•" },   { "aq", "'" }, { "dq", "\"" },
		{ "lq", "“" },   { "rq", "”" },  { "oq", "‘" },  { "cq", "’" },   { "ti", "~" }, { "ha", "^" },
		{ "rs", "\\" },  { "co", "©" },  { "rg", "®" },  { "tm", "™" },   { "mu", "×" }, { "<-", "←" },
		{ "->", "→" },   { "<=", "≤" },  { ">=", "≥" },  { "+-", "±" },   { "de", "°" }, { "ga", "`" },
		{ "sl", "/" },   { "ba", "|" },  { "lB", "[" },  { "rB", "]" },   { "lC", "{" }, { "rC", "}" },
		{ "la", "⟨" },   { "ra", "⟩" },  { "ss", "ß" },  { ":a", "ä" },   { ":o", "ö" }, { ":u", "ü" },
		{ "'e", "é" },   { "`e", "è" },  { "'a", "á" },  { "'i", "í" },   { "'o", "ó" }, { "~n", "ñ" },
		{ ",c", "ç" },   { "oa", "å" },  { "/o", "ø" },  { "at", "@" },   { "sh", "#" }, { "Do", "$" },
		{ "no", "¬" },   { "R", "®" },   { "Tm", "™" },  { "C+", "C++" }, { "--", "-" }, { "L\"", "\"" },
		{ "R\"", "\"" }, { "C`", "\"" }, { "C'", "\"" }, { "PI", "π" },   { "Lt", "<" }, { "Gt", ">" },
		{ "Am", "&" },   { "Ba", "|" },  { "mc", "µ" },  { "S2", "²" },   { "12", "½" }, { "Aq", "'" },
	};
	const struct definition *own = page_definition(page, '*', name);
	char utf8[4];

	if (own) {
		page_escapes(NULL, own->value, out);
		return 1;
	}
	for (size_t i = 0; i < LEN(known); i++)
		if (part_is(name, known[i].name)) {
			str_adds(out, known[i].text);
			return 1;
		}
	if (name.n >= 5 && name.n <= 7 && *name.s == 'u') {
		char *end;
		long cp = strtol(name.s + 1, &end, 16);
		if (end == name.s + name.n && cp >= ' ' && cp < 0x110000 && (cp < 0xd800 || cp > 0xdfff)) {
			str_add(out, utf8, (size_t)utf8_encode((int32_t)cp, utf8));
			return 1;
		}
	}
	return 0;
}

/* Append what an escape prints. s[0..n) begins with the escape's backslash. Returns the escape's length in bytes. */
static size_t put_escape(struct page *page, const char *s, size_t n, struct str *out)
{
	struct part name;
	const char *close;
	size_t used;

	if (n < 2 || s[1] == '"' || s[1] == '#') /* a lone backslash or a comment prints nothing */
		return n;
	if (strchr("([", s[1])) {
		used = 1 + man_name(s + 1, n - 1, &name);
		if (!put_character(page, name, out))
			str_add(out, s, used);
		return used;
	}
	if (strchr("*fFmMgnks$", s[1])) {
		used = 2 + (s[1] == 's' && n > 2 && strchr("+-", s[2]));
		used += man_name(s + used, n - used, &name);
		if (s[1] == '*')
			put_character(page, name, out);
		return used;
	}
	if (strchr("hvwoDlLbXxSHANR", s[1]) && n > 3 && s[2] == '\'') {
		close = memchr(s + 3, '\'', n - 3);
		if (s[1] == 'h' && byte_is_word(s[3] == '+' ? s[4] : s[3])) /* a motion to the right becomes a blank */
			str_adds(out, " ");
		return close ? (size_t)(close - s) + 1 : n;
	}
	used = 1 + characters(s + 1, n - 1, 1);
	if (strchr("eE\\", s[1]))
		str_adds(out, "\\");
	else if (strchr("~0t", s[1]))
		str_adds(out, " ");
	else if (!strchr("&|^%)/,c:{}!durpaz", s[1]))
		/* an escape of a single character, such as "\-", "\'" or "\ ", prints this character */
		str_add(out, s + 1, used - 1);
	return used;
}

void page_escapes(struct page *page, struct part t, struct str *out)
{
	for (size_t at = 0; at < t.n;) {
		if (t.s[at] == '\\') {
			at += put_escape(page, t.s + at, t.n - at, out);
			continue;
		}
		str_add(out, t.s + at, 1);
		/* inside quotation marks, two quotation marks stand for one */
		at += t.quoted && t.s[at] == '"' && at + 1 < t.n && t.s[at + 1] == '"' ? 2 : 1;
	}
}
