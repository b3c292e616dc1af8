/* sessions/import/html_css.c - parses style sheets: declarations and media queries.
 *
 * Only the properties of struct css_values are read, such as display, visibility and font-size. Media queries are
 * evaluated for a screen that is WIDTH wide, with a mouse. */
#include "sessions/import/html_css.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH 1280 /* width of the window, in pixels */

/* ---- text ---- */

const char *css_skip_blanks(const char *p, const char *end)
{
	while (p < end && byte_is_blank(*p))
		p++;
	return p;
}

const char *css_trim_end(const char *p, const char *end)
{
	while (end > p && byte_is_blank(end[-1]))
		end--;
	return end;
}

const char *css_scan(const char *p, const char *end, const char *stop)
{
	int depth = 0;
	char quote = 0;

	for (; p < end; p++) {
		if (*p == '\\') {
			p += p + 1 < end;
		} else if (quote) {
			quote = *p == quote || *p == '\n' ? 0 : quote;
		} else if (!depth && *p && strchr(stop, *p)) {
			return p;
		} else if (*p == '"' || *p == '\'') {
			quote = *p;
		} else if (*p == '(' || *p == '[') {
			depth++;
		} else if (*p == ')' || *p == ']') {
			depth -= depth > 0;
		}
	}
	return end;
}

const char *css_block_end(const char *p, const char *end)
{
	for (int level = 1; p < end; p++) {
		p = css_scan(p, end, "{}");
		if (p == end)
			break;
		level += *p == '{' ? 1 : -1;
		if (!level)
			return p;
	}
	return end;
}

static int is_name(char c)
{
	return byte_is_word(c) || c == '-' || c == '_';
}

const char *css_name_end(const char *p, const char *end)
{
	while (p < end && (is_name(*p) || (*p == '\\' && p + 1 < end)))
		p += 1 + (*p == '\\');
	return p;
}

size_t css_lower(char *out, size_t cap, const char *p, const char *end)
{
	size_t n = 0;

	for (; p < end && n < cap - 1; p++)
		out[n++] = byte_is_upper(*p) ? (char)(*p + 32) : *p;
	out[n] = 0;
	return n;
}

int css_is_word(const char *p, const char *end, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(end - p) == n && !strncasecmp(p, word, n);
}

void css_strip_comments(struct str *out, const char *p, size_t n)
{
	static const char *const marks[] = { "<!--", "-->", "<![CDATA[", "]]>" };
	const char *end = p + n;
	char quote = 0;

	while (p < end) {
		size_t mark = 0;

		if (!quote && end - p > 1 && p[0] == '/' && p[1] == '*') {
			const char *to = memmem(p + 2, (size_t)(end - p) - 2, "*/", 2);
			str_adds(out, " ");
			p = to ? to + 2 : end;
			continue;
		}
		for (size_t i = 0; i < LEN(marks) && !quote && !mark; i++)
			if (*p == *marks[i] && (size_t)(end - p) >= strlen(marks[i]) &&
			    !memcmp(p, marks[i], strlen(marks[i])))
				mark = strlen(marks[i]);
		p += mark;
		if (mark)
			continue; /* another comment may follow */
		if (quote)
			quote = *p == quote || *p == '\n' ? 0 : quote;
		else if (*p == '"' || *p == '\'')
			quote = *p;
		str_add(out, p++, 1);
	}
}

/* ---- declarations ---- */

/* Evaluate a value of font-size, in lower case. A relative size such as "2em" gives CSS_INHERITS, but 0 in any unit
 * gives CSS_HIDES. */
static enum css_value size_value(const char *s)
{
	char *unit;
	double v;

	if (!strcmp(s, "inherit") || !strcmp(s, "unset") || !strcmp(s, "smaller") || !strcmp(s, "larger"))
		return CSS_INHERITS;
	if (!byte_is_digit(*s) && *s != '.' && *s != '+' && *s != '-')
		return CSS_SHOWS;
	v = strtod(s, &unit);
	if (v < 0 || unit == s)
		return CSS_UNSET;
	if (v == 0)
		return CSS_HIDES;
	return *unit == '%' || !strncmp(unit, "em", 2) || !strncmp(unit, "ex", 2) || !strncmp(unit, "ch", 2)
	               ? CSS_INHERITS
	               : CSS_SHOWS;
}

/* Evaluate the size in a value of `font`, such as "italic 700 0/0 a". The size is the first word that is "0" or a
 * number with a unit; other numbers are weights. Splits s into words. */
static enum css_value font_value(char *s)
{
	for (char *word, *rest = s; (word = strtok_r(NULL, " \t\r\n\f/", &rest));) {
		size_t n = strspn(word, "0123456789");

		if ((byte_is_digit(*word) || *word == '.') && (word[n] || *word == '0'))
			return size_value(word);
	}
	return !strcmp(s, "inherit") || !strcmp(s, "unset") ? CSS_INHERITS : CSS_SHOWS;
}

/* Evaluate a value of display, in lower case. */
static enum css_value display_value(const char *s)
{
	static const char *const blocks[] = { "block", "flex", "grid", "table", "list-item", "flow-root" };

	for (size_t i = 0; i < LEN(blocks); i++)
		if (!strcmp(s, blocks[i]))
			return CSS_BLOCK;
	return !strcmp(s, "none") ? CSS_HIDES : CSS_SHOWS;
}

/* Set a property's value. A value without !important does not replace a value with !important. */
static void set_value(struct css_values *v, int property, enum css_value is, int important)
{
	if (is == CSS_UNSET || (v->important[property] && !important))
		return;
	v->is[property] = (unsigned char)is;
	v->important[property] = important != 0;
}

/* Add one declaration, "display: none !important", to *v. */
static void declaration(struct css_values *v, const char *p, const char *end)
{
	const char *colon = memchr(p, ':', (size_t)(end - p)), *name_end, *mark;
	char s[80];
	int important = 0;

	if (!colon)
		return;
	name_end = css_trim_end(p, colon);
	p = css_skip_blanks(p, name_end);
	colon = css_skip_blanks(colon + 1, end);
	end = css_trim_end(colon, end);
	if (end - colon > 10 && !strncasecmp(end - 9, "important", 9)) {
		mark = css_trim_end(colon, end - 9);
		if (mark > colon && mark[-1] == '!') {
			important = 1;
			end = css_trim_end(colon, mark - 1);
		}
	}
	css_lower(s, sizeof s, colon, end);
	if (!*s)
		return;
	if (css_is_word(p, name_end, "display"))
		set_value(v, CSS_DISPLAY, display_value(s), important);
	else if (css_is_word(p, name_end, "list-style") || css_is_word(p, name_end, "list-style-type"))
		set_value(v, CSS_MARKER, html_has_word(s, "none", 4) ? CSS_HIDES : CSS_SHOWS, important);
	else if (css_is_word(p, name_end, "float"))
		set_value(v, CSS_FLOAT, !strcmp(s, "left") || !strcmp(s, "right") ? CSS_BLOCK : CSS_SHOWS, important);
	else if (css_is_word(p, name_end, "position") && (!strcmp(s, "absolute") || !strcmp(s, "fixed")))
		set_value(v, CSS_FLOAT, CSS_BLOCK, important);
	else if (css_is_word(p, name_end, "visibility"))
		set_value(v, CSS_VISIBILITY,
		          !strcmp(s, "hidden") || !strcmp(s, "collapse")   ? CSS_HIDES
		          : !strcmp(s, "visible") || !strcmp(s, "initial") ? CSS_SHOWS
		          : !strcmp(s, "inherit") || !strcmp(s, "unset")   ? CSS_INHERITS
		                                                           : CSS_UNSET,
		          important);
	else if (css_is_word(p, name_end, "font-size"))
		set_value(v, CSS_SIZE, size_value(s), important);
	else if (css_is_word(p, name_end, "font"))
		set_value(v, CSS_SIZE, font_value(s), important);
}

void css_declarations(struct css_values *v, const char *p, const char *end)
{
	while (p < end) {
		const char *to = css_scan(p, end, ";{");

		if (to < end && *to == '{') { /* skip a nested rule */
			to = css_block_end(to + 1, end);
		} else {
			declaration(v, p, to);
		}
		p = to + (to < end);
	}
}

/* ---- media queries ---- */

/* Evaluate one condition of a media query: "min-width: 600px", "width >= 40em" or "hover: hover". */
static enum css_match feature(const char *s)
{
	static const struct {
		const char *name;
		enum css_match is;
	} known[] = {
		{ "orientation: landscape", CSS_YES },
		{ "orientation:landscape", CSS_YES },
		{ "orientation: portrait", CSS_NO },
		{ "orientation:portrait", CSS_NO },
		{ "hover: hover", CSS_YES },
		{ "hover:hover", CSS_YES },
		{ "color", CSS_YES },
	};
	int min = !strncmp(s, "min-", 4), max = !strncmp(s, "max-", 4), less, or_equal;
	char *unit;
	double v;

	for (size_t i = 0; i < LEN(known); i++)
		if (!strcmp(s, known[i].name))
			return known[i].is;
	s += min || max ? 4 : 0;
	if (strncmp(s, "width", 5))
		return CSS_UNSURE;
	s += 5 + strspn(s + 5, " ");
	less = *s == '<';
	or_equal = s[1] == '=';
	if (min || max ? *s != ':' : !less && *s != '>')
		return CSS_UNSURE;
	s += 1 + (!min && !max && or_equal);
	v = strtod(s, &unit);
	if (unit == s)
		return CSS_UNSURE;
	if (!strncmp(unit, "em", 2) || !strncmp(unit, "rem", 3))
		v *= 16;
	else if (strncmp(unit, "px", 2) && v != 0)
		return CSS_UNSURE;
	if (min || max)
		or_equal = 1, less = max;
	return (less ? WIDTH < v : WIDTH > v) || (or_equal && v == WIDTH) ? CSS_YES : CSS_NO;
}

/* Evaluate one query of a list, in lower case: "only screen and (min-width: 600px)". */
static enum css_match query(char *s)
{
	enum css_match is = CSS_YES;
	int not = 0;

	while (*(s += strspn(s, " \t\r\n\f"))) {
		size_t n = strcspn(s, *s == '(' ? ")" : " \t\r\n\f(");
		char end = s[n];

		if (*s == '(') {
			char *f = s + 1 + strspn(s + 1, " \t");

			s[n] = 0;
			is = MIN(is, memchr(f, '(', strlen(f)) ? CSS_UNSURE : feature(f));
			s += n + (end != 0);
			continue;
		}
		s[n] = 0;
		if (!strcmp(s, "not"))
			not = 1;
		else if (!strcmp(s, "or"))
			return CSS_UNSURE;
		else if (strcmp(s, "and") && strcmp(s, "only") && strcmp(s, "all") && strcmp(s, "screen"))
			is = CSS_NO; /* the query asks for another medium, such as "print" */
		s[n] = end;
		s += n;
	}
	return not ? CSS_YES - is : is;
}

enum css_match css_media_matches(const char *p, const char *end)
{
	enum css_match is = CSS_NO;

	p = css_skip_blanks(p, end);
	if (p == end)
		return CSS_YES;
	while (p < end) {
		const char *to = css_scan(p, end, ",");
		char s[200];
		enum css_match one;

		one = css_lower(s, sizeof s, p, to) < sizeof s - 1 ? query(s) : CSS_UNSURE;
		is = MAX(is, one);
		p = to + (to < end);
	}
	return is;
}
