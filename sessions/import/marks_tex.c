/* sessions/import/marks_tex.c - finds the headings of LaTeX: \title, \part, \chapter, \section and deeper ones.
 *
 * The text stays as it is written. Comments, verbatim text and definitions of commands have no headings; the text of a
 * mark is the title without the commands in it. */
#include "sessions/import/marks.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define ARGUMENT_MAX 600 /* maximum number of bytes of a heading's argument */

/* A command: its name without the backslash. At the end of the text, n is 0. */
struct command {
	const char *name;
	size_t n;
};

static int is_named(struct command c, const char *const *names)
{
	for (; *names; names++)
		if (strlen(*names) == c.n && !memcmp(*names, c.name, c.n))
			return 1;
	return 0;
}

/* Read the name after the backslash at p[-1]: letters, or one character of any other kind. */
static struct command command_at(const char *p, const char *end)
{
	struct command c = { p, 0 };
	int32_t cp;

	while (p + c.n < end && (byte_is_upper(p[c.n]) || byte_is_lower(p[c.n]) || p[c.n] == '@'))
		c.n++;
	if (!c.n && p < end)
		c.n = (size_t)utf8_decode(p, (size_t)(end - p), &cp);
	return c;
}

static const char *skip_line(const char *p, const char *end)
{
	const char *line = memchr(p, '\n', (size_t)(end - p));

	return line ? line + 1 : end;
}

static const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && (byte_is_blank(*p) || *p == '%'))
		p = *p == '%' ? skip_line(p, end) : p + 1;
	return p;
}

/* Return the address of the byte after the group that begins at p. The group begins with the character `open` and ends
 * with the matching character `close`. Return NULL if the group does not end within ARGUMENT_MAX bytes. */
static const char *group_end(const char *p, const char *end, char open, char close)
{
	int depth = 0, braces = 0;

	end = (size_t)(end - p) > ARGUMENT_MAX ? p + ARGUMENT_MAX : end;
	while (p < end) {
		char c = *p++;

		if (c == '\\' && p < end)
			p++;
		else if (c == '%')
			p = skip_line(p, end);
		else if (c == open && !braces)
			depth++;
		else if (c == close && !braces && !--depth)
			return p;
		else if (open == '[')
			braces += (c == '{') - (c == '}');
	}
	return NULL;
}

/* ---- titles ---- */

/* State of tex_title(). */
struct title {
	struct str text;
	int32_t accent; /* combining character for the next letter; 0: there is none */
	int math;       /* 1: between dollar signs, where a command such as "\alpha" is the name of a sign */
};

static void title_add(struct title *t, const char *s, size_t n)
{
	char mark[4];

	str_add(&t->text, s, n);
	if (n && t->accent)
		str_add(&t->text, mark, (size_t)utf8_encode(t->accent, mark));
	t->accent = n ? 0 : t->accent;
}

/* Return the combining character of an accent such as \" or \c; 0 for other commands. */
static int32_t accent_of(struct command c)
{
	static const char names[] = "`'^\"~=.ucvHkrdb";
	static const int32_t marks[] = { 0x300, 0x301, 0x302, 0x308, 0x303, 0x304, 0x307, 0x306,
		                         0x327, 0x30c, 0x30b, 0x328, 0x30a, 0x323, 0x331 };
	const char *at = c.n == 1 ? strchr(names, *c.name) : NULL;

	return at && *at ? marks[at - names] : 0;
}

/* Append the letter or word for which a command stands. Returns 0 if the command stands for none. */
static int title_sign(struct title *t, struct command c)
{
	static const struct {
		const char *name, *text;
	} signs[] = {
		{ "ss", "ß" },      { "ae", "æ" },        { "AE", "Æ" },  { "oe", "œ" },    { "OE", "Œ" },
		{ "o", "ø" },       { "O", "Ø" },         { "l", "ł" },   { "L", "Ł" },     { "aa", "å" },
		{ "AA", "Å" },      { "i", "i" },         { "j", "j" },   { "TeX", "TeX" }, { "LaTeX", "LaTeX" },
		{ "dots", "..." },  { "ldots", "..." },   { "S", "§" },   { "&", "&" },     { "%", "%" },
		{ "$", "$" },       { "#", "#" },         { "_", "_" },   { "{", "{" },     { "}", "}" },
		{ "\\", " " },      { " ", " " },         { "\n", " " },  { ",", " " },     { "quad", " " },
		{ "newline", " " }, { "linebreak", " " }, { "par", " " }, { "-", "" },      { "/", "" },
	};

	for (size_t i = 0; i < LEN(signs); i++)
		if (strlen(signs[i].name) == c.n && !memcmp(signs[i].name, c.name, c.n)) {
			title_add(t, signs[i].text, strlen(signs[i].text));
			return 1;
		}
	return 0;
}

/* Append to a title the text for which command c stands. p is the address after the command's name. Returns the address
 * at which the title continues. */
static const char *title_command(struct title *t, struct command c, const char *p, const char *end)
{
	static const char *const dropped[] = { "label", "footnote", "thanks", "index",          "cite", "footnotemark",
		                               "ref",   "vspace",   "hspace", "texorpdfstring", NULL };
	int letters = c.n > 1 || byte_is_letter(*c.name);
	const char *after = NULL;

	if (!t->math && accent_of(c)) {
		t->accent = accent_of(c);
		return letters ? skip_blanks(p, end) : p;
	}
	if (!title_sign(t, c) && letters && t->math)
		title_add(t, c.name, c.n);
	if (!letters)
		return p;
	p = skip_blanks(p, end);
	/* The argument of a dropped command is skipped. For \texorpdfstring{signs}{words}, this is the first argument;
	 * the second one becomes part of the title. */
	if (is_named(c, dropped) && p < end && (*p == '{' || *p == '['))
		after = group_end(p, end, *p, *p == '{' ? '}' : ']');
	return after ? after : p;
}

/* Append a title in Unicode NFC, without commands, braces and comments. */
static void tex_title(const char *p, const char *end, struct str *out)
{
	struct title t = { 0 };
	utf8proc_uint8_t *nfc;

	while (p < end) {
		size_t n = 1;
		int32_t cp;

		if (*p == '%') {
			p = skip_line(p, end);
		} else if (*p == '\\' && p + 1 < end) {
			struct command c = command_at(p + 1, end);
			p = title_command(&t, c, c.name + c.n, end);
		} else if (strchr("{}$\\", *p)) {
			t.math ^= *p++ == '$';
		} else if (end - p > 1 && (!memcmp(p, "``", 2) || !memcmp(p, "''", 2))) {
			title_add(&t, "\"", 1);
			p += 2;
		} else {
			n = (size_t)utf8_decode(p, (size_t)(end - p), &cp);
			title_add(&t, *p == '~' ? " " : p, n);
			p += n;
		}
	}
	nfc = t.text.n ? utf8proc_NFC((const utf8proc_uint8_t *)t.text.p) : NULL;
	str_adds(out, nfc ? (const char *)nfc : str_text(&t.text));
	free(nfc);
	str_free(&t.text);
}

/* ---- headings ---- */

/* Return the level of a command that begins a heading; 0 for other commands. `below` is 1 if the text has chapters, so
 * that its sections are one level deeper. */
static int heading_command(struct command c, int below)
{
	static const char *const divisions[] = { "section", "subsection", "subsubsection", "paragraph" };
	static const char *const tops[] = { "title", "part", NULL }, *const chapter[] = { "chapter", NULL };

	for (size_t i = 0; i < LEN(divisions); i++)
		if (is_named(c, (const char *const[]){ divisions[i], NULL }))
			return (int)i + 2 + below;
	return is_named(c, tops) ? 1 : is_named(c, chapter) ? 2 : 0;
}

/* 1 if the text contains a parameter such as "#1", because it is part of a command's definition. */
static int has_parameter(const char *p, const char *end)
{
	for (; p + 1 < end; p++)
		if (*p == '\\')
			p++;
		else if (*p == '#' && byte_is_digit(p[1]))
			return 1;
	return 0;
}

/* Mark the heading whose command is c. Returns the position after the heading. */
static const char *mark_heading(struct doc *d, struct command c, int level, const char *end)
{
	const char *p = c.name + c.n, *after;
	struct str title = { 0 };

	p = skip_blanks(p + (p < end && *p == '*'), end);
	if (p < end && *p == '[') {
		after = group_end(p, end, '[', ']');
		p = after ? skip_blanks(after, end) : end;
	}
	after = p < end && *p == '{' ? group_end(p, end, '{', '}') : NULL;
	if (!after || has_parameter(p, after))
		return c.name + c.n;
	tex_title(p + 1, after - 1, &title);
	if (strspn(str_text(&title), " \t\n") < title.n)
		doc_mark(d, MARK_HEADING, level, (size_t)(c.name - 1 - d->text.p), title.p, title.n);
	str_free(&title);
	return after;
}

/* Return the end of an environment whose text is verbatim or not printed. Its \begin ends at p. For other environments,
 * return p. */
static const char *skip_verbatim(const char *p, const char *end)
{
	static const char *const names[] = { "verbatim", "Verbatim", "lstlisting",  "minted",
		                             "comment",  "alltt",    "filecontents" };
	char close[32];

	for (size_t i = 0; i < LEN(names); i++) {
		size_t n = strlen(names[i]);

		if ((size_t)(end - p) < n + 2 || *p != '{' || memcmp(p + 1, names[i], n) != 0 ||
		    !strchr("}*", p[n + 1]))
			continue;
		n = (size_t)snprintf(close, sizeof close, "\\end{%s%s}", names[i], p[n + 1] == '*' ? "*" : "");
		p = memmem(p, (size_t)(end - p), close, n);
		return p ? p + n : end;
	}
	return p;
}

/* Return the end of \verb|text|, whose name ends at p. */
static const char *skip_verb(const char *p, const char *end)
{
	const char *line = skip_line(p, end), *close;

	p += p < end && *p == '*';
	if (p >= line || byte_is_letter(*p))
		return p;
	close = memchr(p + 1, *p, (size_t)(line - p) - 1);
	return close ? close + 1 : line;
}

void mark_tex(struct doc *d)
{
	static const char *const begins[] = { "begin", NULL }, *const verb[] = { "verb", "lstinline", NULL },
				 *const ends[] = { "end", NULL };
	const char *p = d->text.p, *end = p + d->text.n;
	int below = memmem(p, d->text.n, "\\chapter", 8) != NULL, level;
	size_t asked = 0;

	while (p < end && !marks_stopped((size_t)(p - d->text.p), &asked)) {
		struct command c;

		if (*p != '\\') {
			p = *p == '%' ? skip_line(p, end) : p + 1;
			continue;
		}
		c = command_at(p + 1, end);
		p = c.name + c.n;
		if ((level = heading_command(c, below)))
			p = mark_heading(d, c, level, end);
		else if (is_named(c, begins))
			p = skip_verbatim(p, end);
		else if (is_named(c, verb))
			p = skip_verb(p, end);
		else if (is_named(c, ends) && end - p > 9 && !memcmp(p, "{document}", 10))
			return;
	}
}

int text_is_tex(const char *p, size_t n)
{
	const char *end = p + n;

	p = skip_blanks(p, end);
	return end - p > 14 && (!memcmp(p, "\\documentclass", 14) || !memcmp(p, "\\documentstyle", 14));
}
