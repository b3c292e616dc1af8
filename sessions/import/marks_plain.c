/* sessions/import/marks_plain.c - finds the headings of plain text by their words, numbers, capitals and underlines. */
#include "sessions/import/marks.h"
#include "engine/base/utf8.h"

#include <string.h>

#define HEADING_LINE_MAX 80 /* longest line that can be a heading of plain text */

/* 1 if s begins with a capital letter (Latin, Greek, Cyrillic), or with a letter of a script without capitals. */
static int begins_title(const char *s, size_t n)
{
	int32_t cp;

	if (!n)
		return 0;
	if ((unsigned char)*s < 0x80)
		return byte_is_upper(*s);
	utf8_decode(s, n, &cp);
	return (cp >= 0xc0 && cp <= 0xde) || (cp >= 0x100 && cp < 0x180) || (cp >= 0x386 && cp <= 0x3ab) ||
	       (cp >= 0x400 && cp <= 0x42f) || (cp >= 0x590 && cp < 0x2000) || (cp >= 0x3040 && cp < 0xfe00);
}

/* Return the level of a heading with a word for a division and its number ("CHAPTER IV", "Kapitel 3"); 0 for other
 * lines. */
static int word_division(const char *s, size_t n)
{
	static const struct {
		const char *word;
		int level;
	} words[] = {
		{ "part", 1 },      { "book", 1 },       { "volume", 1 },   { "chapter", 2 },   { "appendix", 2 },
		{ "act", 2 },       { "section", 3 },    { "scene", 3 },    { "teil", 1 },      { "kapitel", 2 },
		{ "anhang", 2 },    { "partie", 1 },     { "chapitre", 2 }, { "annexe", 2 },    { "parte", 1 },
		{ "capítulo", 2 },  { "apéndice", 2 },   { "capitolo", 2 }, { "appendice", 2 }, { "deel", 1 },
		{ "hoofdstuk", 2 }, { "rozdział", 2 },   { "kapitola", 2 }, { "Часть", 1 },     { "Глава", 2 },
		{ "ГЛАВА", 2 },     { "Приложение", 2 },
	};

	for (size_t i = 0; i < LEN(words); i++) {
		size_t k = strlen(words[i].word), at;
		if (n < k + 2 || strncasecmp(s, words[i].word, k) || s[k] != ' ' || !begins_title(s, n))
			continue;
		for (at = k + 1; at < n && (byte_is_digit(s[at]) || (s[at] && strchr("IVXLCDM", s[at]))); at++)
			;
		if (at == k + 1 && n == k + 2 && byte_is_upper(s[at])) /* a letter as the number: "Appendix B" */
			at++;
		if (at > k + 1 && (at == n || strchr(" .:-,", s[at])))
			return words[i].level;
	}
	return 0;
}

static size_t skip_any(const char *s, size_t n, const char *const *any)
{
	size_t at = 0;

	for (int more = 1; more;) {
		more = 0;
		for (size_t i = 0; any[i]; i++) {
			size_t k = strlen(any[i]);
			if (n - at >= k && !memcmp(s + at, any[i], k)) {
				at += k;
				more = 1;
			}
		}
	}
	return at;
}

/* Return the level of an East Asian division ("第3章 ...", "第十二节", "제 3 장"); 0 for other lines. */
static int east_asian_division(const char *s, size_t n)
{
	static const char *const digits[] = { "0",  "1",  "2",  "3",  "4",  "5",  "6",  "7",  "8",  "9",  " ",  "一",
		                              "二", "三", "四", "五", "六", "七", "八", "九", "十", "百", "零", NULL };
	static const struct {
		const char *of;
		int level;
	} units[] = {
		{ "部", 1 }, { "篇", 1 }, { "編", 1 }, { "卷", 1 }, { "巻", 1 }, { "부", 1 },
		{ "章", 2 }, { "回", 2 }, { "장", 2 }, { "节", 3 }, { "節", 3 }, { "절", 3 },
	};
	size_t at;

	if (n < 7 || (memcmp(s, "第", 3) != 0 && memcmp(s, "제", 3) != 0) || !(at = skip_any(s + 3, n - 3, digits)))
		return 0;
	for (size_t i = 0; i < LEN(units); i++)
		if (n - 3 - at >= 3 && !memcmp(s + 3 + at, units[i].of, 3))
			return units[i].level;
	return 0;
}

static int division_level(const char *s, size_t n)
{
	int level = word_division(s, n);

	return level ? level : east_asian_division(s, n);
}

/* Return the level of a heading that begins with its number ("3 Methods", "3.1. Results"); 0 for other lines. */
static int numbered_level(const char *s, size_t n)
{
	size_t i = 0, digits = 0;
	int level = 1;

	for (; i < n && (byte_is_digit(s[i]) || (s[i] == '.' && i && byte_is_digit(s[i - 1]))); i++) {
		digits = byte_is_digit(s[i]) ? digits + 1 : 0;
		if (digits > 2)
			return 0;
		if (s[i] == '.' && i + 1 < n && byte_is_digit(s[i + 1]))
			level++;
	}
	if (!i || i + 3 > n || s[i] != ' ' || s[0] == '0')
		return 0;
	while (i < n && s[i] == ' ')
		i++;
	/* Exclude "2 July 2011" and "3.94 MB[1]". */
	if (i + 2 > n || !begins_title(s + i, n - i) || memchr(s + i, '|', n - i) ||
	    strchr(".,;:!?]0123456789", s[n - 1]))
		return 0;
	return MIN(level, 6);
}

static int known_heading(const char *s, size_t n)
{
	static const char *const known[] = {
		"Abstract",     "Introduction",      "Background",
		"Related Work", "Methods",           "Materials and Methods",
		"Results",      "Discussion",        "Conclusion",
		"Conclusions",  "Acknowledgments",   "Acknowledgements",
		"References",   "Bibliography",      "Appendix",
		"Contents",     "Table of Contents", "Preface",
		"Foreword",     "Summary",           "Index",
		"Glossary",     "Prologue",          "Epilogue",
	};

	for (size_t i = 0; i < LEN(known); i++)
		if (strlen(known[i]) == n && byte_is_upper(*s) && !strncasecmp(s, known[i], n))
			return 1;
	return 0;
}

/* 1 if the line looks like one of a table of contents, where dots lead to a page number. */
static int has_leaders(const char *s, size_t n)
{
	return memmem(s, n, " . . ", 5) || memmem(s, n, "....", 4);
}

int heading_number_level(const char *s, size_t n)
{
	size_t i = 0, parts = 0;
	int level;

	if (n < 2 || n > 40)
		return 0;
	/* "Chapter 4", "第4章" without a title */
	if ((level = division_level(s, n)) && !memchr(s, '|', n)) {
		size_t words = 0;
		for (size_t k = 0; k < n; k++)
			words += s[k] == ' ';
		return words < 2 || (words == 2 && !memcmp(s, "제", 3)) ? level : 0;
	}
	/* "3.1", "3.1.2.", "A.2" */
	if (byte_is_upper(s[0]) && n > 2 && s[1] == '.')
		i = 2, parts = 1;
	while (i < n) {
		size_t digits = 0;
		while (i < n && byte_is_digit(s[i]))
			i++, digits++;
		if (!digits || digits > 2)
			return 0;
		parts++;
		if (i < n && s[i++] != '.')
			return 0;
	}
	return parts < 2 || parts > 5 || s[0] == '0' ? 0 : (int)parts;
}

int heading_title(const char *s, size_t n)
{
	return n > 1 && n <= HEADING_LINE_MAX && begins_title(s, n) && !memchr(s, '|', n) && !has_leaders(s, n) &&
	       !strchr(".,;:", s[n - 1]);
}

int heading_level(const char *s, size_t n)
{
	size_t letters = 0, small = 0;
	int level;

	if (n < 3 || n > HEADING_LINE_MAX || has_leaders(s, n))
		return 0;
	if ((level = division_level(s, n)) || (level = numbered_level(s, n)))
		return level;
	if (known_heading(s, n))
		return 1;
	/* A line of capitals is a heading, as in old books. */
	for (size_t i = 0; i < n; i++) {
		letters += byte_is_upper(s[i]) || byte_is_lower(s[i]);
		small += byte_is_lower(s[i]);
	}
	return !small && letters >= 5 && letters * 4 >= n * 3 && !memchr(s, '|', n) && !strchr(",;", s[n - 1]) ? 2 : 0;
}

/* Return the level of a title that is underlined with one repeated character, as in reStructuredText and AsciiDoc; 0
 * if it is not. seen: underline characters in order of appearance; each new one is one level deeper. */
static int underlined_level(struct line title, struct line under, char seen[6])
{
	size_t width = utf8_characters(title.s, title.n);
	int level = 0;

	if (under.n < 3 || !strchr("=-~^*+#\"'`_", *under.s) || !line_is_all(under, *under.s))
		return 0;
	/* Chinese and Japanese letters are two columns wide, so the underline may have twice as many characters. */
	if (under.n + 1 < width || under.n > 2 * width + 2 || title.n > HEADING_LINE_MAX ||
	    memchr(title.s, '|', title.n) || line_is_all(title, *title.s))
		return 0;
	if (under.n > width + 2 && width == title.n)
		return 0;
	while (level < 5 && seen[level] && seen[level] != *under.s)
		level++;
	seen[level] = *under.s;
	return level + 1;
}

/* Return the level of "== Title ==": the number of '=' before the title. *l becomes the title. */
static int equals_level(struct line *l)
{
	size_t level = 0;

	while (level < l->n && l->s[level] == '=')
		level++;
	if (!level || level > 6 || level + 1 >= l->n || l->s[level] != ' ' ||
	    !begins_title(l->s + level + 1, l->n - level - 1))
		return 0;
	l->s += level + 1;
	l->n -= level + 1;
	while (l->n > 1 && (l->s[l->n - 1] == '=' || l->s[l->n - 1] == ' '))
		l->n--;
	return (int)level;
}

void mark_plain(struct doc *d)
{
	char seen[6] = { 0 };
	int blank_before = 1;
	size_t asked = 0;

	for (size_t at = 0, next; at < d->text.n && !marks_stopped(at, &asked); at = next) {
		struct line l = line_at(&d->text, at, &next), after = { 0 }, title = l;
		size_t ignored;
		int level = 0;
		blank_before |= d->text.p[at] == '\f';
		if (blank_before && l.n && next < d->text.n)
			after = line_at(&d->text, next, &ignored);
		if (blank_before && l.n && !(level = equals_level(&title)))
			level = !after.n ? heading_level(l.s, l.n) : underlined_level(l, after, seen);
		if (level)
			doc_mark(d, MARK_HEADING, level, (size_t)(title.s - d->text.p), title.s, title.n);
		/* A title may also come directly after a line of one repeated character, or after AsciiDoc's
		 * "[[anchor]]" or "[preface]". */
		blank_before = !l.n || (blank_before && (line_is_all(l, *l.s) || (*l.s == '[' && l.s[l.n - 1] == ']')));
	}
}
