/* sessions/import/man.c - makes the source of manual pages readable: macros of man(7) and mdoc(7), escapes of roff.
 *
 * A line of the source becomes a line of the text, so that line numbers stay true. A macro becomes its arguments.
 * A comment, a definition or a request becomes an empty line. Escapes become the characters that they print. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TITLE_WITHIN 65536 /* the title comes within these bytes; definitions of macros may be before it */
#define WORDS_MAX    64    /* most words of a macro that are read */

/* A part of a line. */
struct part {
	const char *s;
	size_t n;
};

static int is_word(struct part w, const char *word)
{
	return strlen(word) == w.n && !memcmp(word, w.s, w.n);
}

/* 1 if w is one of the words, which are separated by blanks. */
static int is_one_of(struct part w, const char *words)
{
	while (*words) {
		size_t n = strcspn(words, " ");
		if (n == w.n && !memcmp(words, w.s, n))
			return 1;
		words += n + (words[n] == ' ');
	}
	return 0;
}

/* ---- escapes ---- */

/* Return the length in bytes of the first `count` characters of s[0..n). */
static size_t characters(const char *s, size_t n, size_t count)
{
	size_t at = 0;
	int32_t cp;

	for (; count && at < n; count--)
		at += (size_t)utf8_decode(s + at, n - at, &cp);
	return at;
}

/* Read the name of a font, string, character or register: one character, two characters after '(', or any number of
 * characters in brackets. Returns how many bytes were read, with '(' or brackets. */
static size_t name_at(const char *s, size_t n, struct part *name)
{
	const char *close = n && *s == '[' ? memchr(s, ']', n) : NULL;
	size_t skip = n && (*s == '(' || close);

	*name = (struct part){ s + skip, close ? (size_t)(close - s) - 1 : characters(s + skip, n - skip, 1 + skip) };
	return skip + name->n + (close != NULL);
}

/* Append the text of the special character or string with this name. Returns 0 if the name is unknown. */
static int put_character(struct part name, struct str *out)
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
		{ "R\"", "\"" }, { "C`", "\"" }, { "C'", "\"" }, { "PI", "π" },
	};
	char utf8[4];

	for (size_t i = 0; i < LEN(known); i++)
		if (is_word(name, known[i].name)) {
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
static size_t put_escape(const char *s, size_t n, struct str *out)
{
	struct part name;
	const char *close;
	size_t used;

	if (n < 2 || s[1] == '"' || s[1] == '#') /* a lone backslash, or a comment */
		return n;
	if (strchr("([", s[1])) {
		used = 1 + name_at(s + 1, n - 1, &name);
		if (!put_character(name, out))
			str_add(out, s, used);
		return used;
	}
	if (strchr("*fFmMgnks", s[1])) {
		used = 2 + (s[1] == 's' && n > 2 && strchr("+-", s[2]));
		used += name_at(s + used, n - used, &name);
		if (s[1] == '*')
			put_character(name, out);
		return used;
	}
	if (strchr("hvwoDlLbXxSHANR", s[1]) && n > 3 && s[2] == '\'') {
		close = memchr(s + 3, '\'', n - 3);
		return close ? (size_t)(close - s) + 1 : n;
	}
	used = 1 + characters(s + 1, n - 1, 1);
	if (strchr("eE\\", s[1]))
		str_adds(out, "\\");
	else if (strchr("~0", s[1]))
		str_adds(out, " ");
	else if (!strchr("&|^%)/,c:{}!durpaz", s[1]))
		str_add(out, s + 1, used - 1); /* the escape of a single character, such as "\-", "\'" or "\ " */
	return used;
}

static void put_text(struct part t, struct str *out)
{
	for (size_t at = 0; at < t.n;) {
		const char *escape = memchr(t.s + at, '\\', t.n - at);
		size_t to = escape ? (size_t)(escape - t.s) : t.n;

		str_add(out, t.s + at, to - at);
		at = escape ? to + put_escape(escape, t.n - to, out) : to;
	}
}

/* ---- macros ---- */

/* The words of a macro. Quotation marks around a word let it contain blanks. */
struct words {
	struct part at[WORDS_MAX];
	size_t n;
};

/* Return the length of the word at s. A quoted word ends at a quotation mark, any other word at a blank. A comment also
 * ends the word. */
static size_t word_length(const char *s, size_t n, int quoted)
{
	size_t i = 0;

	while (i < n && (quoted ? s[i] != '"' : !byte_is_blank(s[i])) &&
	       !(s[i] == '\\' && i + 1 < n && s[i + 1] == '"'))
		i += s[i] == '\\' ? 2 : 1;
	return MIN(i, n);
}

static void split_words(struct part line, struct words *w)
{
	size_t at = 0;

	w->n = 0;
	while (w->n < WORDS_MAX) {
		int quoted;

		while (at < line.n && byte_is_blank(line.s[at]))
			at++;
		if (at >= line.n || (line.s[at] == '\\' && at + 1 < line.n && line.s[at + 1] == '"'))
			return;
		quoted = line.s[at] == '"';
		at += (size_t)quoted;
		w->at[w->n] = (struct part){ line.s + at, word_length(line.s + at, line.n - at, quoted) };
		at += w->at[w->n++].n;
		at += quoted && at < line.n && line.s[at] == '"';
	}
}

/* Append the words with index `from` and higher, separated by the string `between`. */
static void put_words(const struct words *w, size_t from, const char *between, struct str *out)
{
	for (size_t i = from; i < w->n; i++) {
		if (i > from)
			str_adds(out, between);
		put_text(w->at[i], out);
	}
}

/* State of man_read(). */
struct page {
	int mdoc; /* 1: the page has macros of mdoc(7); 0: of man(7) */
	/* 1: inside the definition of a macro; the definition ends with ".." or at the next heading */
	int defining;
	/* in a table of tbl(1): 1 = the formats of the columns, 2 = the rows; 0 = outside of tables */
	int table;
	int heading;       /* level, if the next text line is a heading; else 0 */
	struct part named; /* mdoc: the name that ".Nm" stands for */
};

/* Append the title of a page, such as "ls(1)": its name and its section. */
static void put_title(const struct words *w, struct str *out)
{
	if (w->n < 2)
		return;
	put_text(w->at[1], out);
	if (w->n > 2) {
		str_adds(out, "(");
		put_text(w->at[2], out);
		str_adds(out, ")");
	}
}

static void put_man_macro(const struct words *w, struct str *out)
{
	static const char silent[] =
		"PP P LP HP TP TQ RS RE PD DT AT UC EX EE UE ME YS Vb Ve Sp IX TS TE EQ EN INDENT UNINDENT";

	if (!byte_is_upper(*w->at[0].s) || is_one_of(w->at[0], silent))
		return;
	if (is_word(w->at[0], "IP") && w->n > 1)
		put_text(w->at[1], out);
	else
		put_words(w, 1, is_one_of(w->at[0], "BR BI IB IR RB RI") ? "" : " ", out);
}

/* Append a word of an mdoc macro. If the word is an option, append a dash before it. If *glue is 1, no blank is written
 * before the word. */
static void put_mdoc_word(struct part word, int option, int *glue, struct str *out)
{
	int closes = word.n == 1 && strchr(".,:;)]?!", *word.s), opens = word.n == 1 && strchr("([", *word.s);

	if (!*glue && !closes)
		str_adds(out, " ");
	if (option && !closes)
		str_adds(out, "-");
	put_text(word, out);
	*glue = opens;
}

/* Append what the words of an mdoc macro print. A word may itself be a macro: it stands for a sign, or for a font,
 * which is left out. */
static void put_mdoc_macro(struct page *page, const struct words *w, struct str *out)
{
	static const char called[] =
		"Ad An Ap Aq Ar Bq Brq Bx Cd Cm Dq Dv Em Er Ev Fa Fl Fn Fr Ft Fx Ic In Li Lk Ms Mt Nm No Ns "
		"Nx Oc Oo Op Ox Pa Pc Pf Po Pq Ql Qq Sq Sx Sy Tn Ux Va Vt Xc Xo Xr";
	static const char silent[] = "Bl El Bd Ed Pp Lp Dd Os Bk Ek Rs Re Ud Bt";
	int glue = 1, dash = 0;

	if (!(byte_is_upper(*w->at[0].s) || *w->at[0].s == '%') || is_one_of(w->at[0], silent))
		return;
	for (size_t i = 0; i < w->n; i++) {
		int last = i + 1 == w->n || is_one_of(w->at[i + 1], called);
		if (is_word(w->at[i], "Nm") && !last && !page->named.n) {
			page->named = w->at[i + 1];
		} else if (is_word(w->at[i], "Nm") && last && page->named.n < 64 && out->n < DOC_BYTES_MAX) {
			put_mdoc_word(page->named, 0, &glue, out);
		} else if (is_word(w->at[i], "Xr") && i + 2 < w->n) {
			put_mdoc_word(w->at[i + 1], 0, &glue, out);
			str_adds(out, "(");
			put_text(w->at[i + 2], out);
			str_adds(out, ")");
			i += 2;
		} else if (i && !is_one_of(w->at[i], called)) {
			put_mdoc_word(w->at[i], dash, &glue, out);
		}
		glue |= is_one_of(w->at[i], "Ns Ap");
		dash = is_word(w->at[i], "Fl") || (dash && !is_one_of(w->at[i], called));
	}
}

/* Append a text line. In tables "T{" and "T}" enclose a cell of several lines, and "." ends the formats of the
 * columns. */
static void put_text_line(struct page *page, struct part line, struct str *out)
{
	if (page->table == 1) {
		page->table += line.n && line.s[line.n - 1] == '.';
		return;
	}
	if (page->table && line.n > 1 && !memcmp(line.s, "T}", 2))
		line.s += 2, line.n -= 2;
	if (page->table && line.n > 1 && !memcmp(line.s + line.n - 2, "T{", 2))
		line.n -= 2;
	put_text(line, out);
}

/* Append what a line prints. If the line or the text line after it is a heading, return its level; else 0. */
static int put_line(struct page *page, struct part line, struct str *out)
{
	struct words w;

	if (!line.n || !strchr(".'", *line.s)) {
		if (!page->defining)
			put_text_line(page, line, out);
		return 0;
	}
	split_words((struct part){ line.s + 1, line.n - 1 }, &w);
	if (!w.n || !w.at[0].n)
		return 0;
	if (is_one_of(w.at[0], "SH Sh SS Ss TE TS T&"))
		page->table = is_one_of(w.at[0], "TS T&");
	if (is_one_of(w.at[0], "SH Sh SS Ss")) {
		page->defining = 0;
		put_words(&w, 1, " ", out);
		return (w.at[0].s[1] | 32) == 'h' ? 2 : 3;
	}
	if (page->defining) {
		page->defining = *w.at[0].s != '.';
		return 0;
	}
	page->defining = is_one_of(w.at[0], "de de1 am ig");
	/* The condition `n` of a macro such as ".if n" is true if the page is shown on a terminal, not printed. */
	if (w.n > 2 && is_one_of(w.at[0], "if ie") && is_word(w.at[1], "n") && *w.at[2].s == '.')
		return put_line(page, (struct part){ w.at[2].s, (size_t)(line.s + line.n - w.at[2].s) }, out);
	if (is_one_of(w.at[0], page->mdoc ? "Dt" : "TH")) {
		put_title(&w, out);
		return 1;
	}
	if (page->mdoc)
		put_mdoc_macro(page, &w, out);
	else
		put_man_macro(&w, out);
	return 0;
}

/* ---- pages ---- */

int man_is_source(const char *p, size_t n)
{
	const char *end = p + MIN(n, TITLE_WITHIN);

	while (p < end && *p == '\n')
		p++;
	if (p == end || !strchr(".'", *p))
		return 0;
	for (; p && end - p > 4; p = memchr(p, '\n', (size_t)(end - p))) {
		p += *p == '\n';
		if (end - p > 4 && (!memcmp(p, ".TH ", 4) || !memcmp(p, ".Dd ", 4) || !memcmp(p, ".Dt ", 4)))
			return p[1] == 'T' ? 1 : 2;
	}
	return 0;
}

void man_read(struct doc *d)
{
	struct page page = { .mdoc = man_is_source(d->text.p, d->text.n) == 2 };
	struct str out = { 0 };
	const char *p = d->text.p, *end = p + d->text.n, *line_end;

	for (; p < end; p = line_end + 1) {
		size_t from = out.n;
		int level;

		line_end = memchr(p, '\n', (size_t)(end - p));
		line_end = line_end ? line_end : end;
		level = put_line(&page, (struct part){ p, (size_t)(line_end - p) }, &out);
		page.heading = level ? level : page.heading;
		if (page.heading && out.n > from) {
			doc_mark(d, MARK_HEADING, page.heading, from, out.p + from, out.n - from);
			page.heading = 0;
		}
		if (line_end < end)
			str_adds(&out, "\n");
	}
	str_free(&d->text);
	d->text = out;
}
