/* sessions/import/marks_plain.c - finds the headings of plain text by their words, numbers, capitals and underlines.
 * The headings of Vim's help are found by its tags and horizontal lines. */
#include "sessions/import/marks.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define HEADING_LINE_MAX 80 /* maximum number of bytes of a line that can be a heading of plain text */
/* sentences in capitals are not taken for headings if the text has at least this many times as many numbered
 * headings */
#define NUMBERED_LEAST   3
#define VIM_RULE         60 /* minimum length of a line of "=" or "-" that precedes a section of Vim's help */

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

/* Return the level of a heading that consists of a word for a division and its number ("CHAPTER IV", "Kapitel 3"); 0
 * for other lines. */
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
		if (at == k + 1 && n == k + 2 && byte_is_upper(s[at])) /* the number may be a letter: "Appendix B" */
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

/* Return the level of a heading that begins with its number ("3 Methods", "3.1. Results"); 0 for other lines. If the
 * number ends with a full stop after several parts, a part may have three digits, and the title may be a word without a
 * capital: "3.169. color". */
static int numbered_level(const char *s, size_t n)
{
	size_t i = 0, digits = 0, most = 0, first = 0;
	int level = 1, stopped;

	for (; i < n && (byte_is_digit(s[i]) || (s[i] == '.' && i && byte_is_digit(s[i - 1]))); i++) {
		digits = byte_is_digit(s[i]) ? digits + 1 : 0;
		most = MAX(most, digits);
		first = level == 1 ? MAX(first, digits) : first;
		if (s[i] == '.' && i + 1 < n && byte_is_digit(s[i + 1]))
			level++;
	}
	stopped = level > 1 && s[i - 1] == '.';
	if (!i || i + 3 > n || s[i] != ' ' || s[0] == '0' || first > 2 || most > (stopped ? 3 : 2))
		return 0;
	while (i < n && s[i] == ' ')
		i++;
	/* exclude lines such as "2 July 2011" and "3.94 MB[1]" */
	if (i + 2 > n || memchr(s + i, '|', n - i) || strchr(".,;:!?]0123456789", s[n - 1]) ||
	    !(begins_title(s + i, n - i) ||
	      (stopped && byte_is_lower(s[i]) && i + 3 <= n && !memchr(s + i, ' ', n - i))))
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

/* 1 if the line looks like an entry of a table of contents, in which dots lead to a page number. */
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
	/* a division without a title, such as "Chapter 4" or "第4章" */
	if ((level = division_level(s, n)) && !memchr(s, '|', n)) {
		size_t words = 0;
		for (size_t k = 0; k < n; k++)
			words += s[k] == ' ';
		return words < 2 || (words == 2 && !memcmp(s, "제", 3)) ? level : 0;
	}
	/* a number without a title, such as "3.1", "3.1.2." or "A.2" */
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

/* Copy a line of at most HEADING_LINE_MAX bytes, and replace no-break spaces by blanks. Returns the length of the
 * copy. */
static size_t copy_blanks(const char *s, size_t n, char *out)
{
	size_t to = 0;

	for (size_t i = 0; i < n; i++)
		if (i + 1 < n && !memcmp(s + i, "\xc2\xa0", 2))
			out[to++] = ' ', i++;
		else
			out[to++] = s[i];
	return to;
}

int heading_level(const char *line, size_t n_line)
{
	char s[HEADING_LINE_MAX];
	size_t letters = 0, small = 0, n;
	int level;

	if (n_line < 3 || n_line > HEADING_LINE_MAX || has_leaders(line, n_line))
		return 0;
	n = copy_blanks(line, n_line, s);
	if ((level = division_level(s, n)) || (level = numbered_level(s, n)))
		return level;
	if (known_heading(s, n))
		return 1;
	/* a line of capitals is a heading, as in old books */
	for (size_t i = 0; i < n; i++) {
		letters += byte_is_upper(s[i]) || byte_is_lower(s[i]);
		small += byte_is_lower(s[i]);
	}
	return !small && letters >= 5 && letters * 4 >= n * 3 && !memchr(s, '|', n) && !strchr(",;", s[n - 1]) &&
	                       !strchr("-+", *s)
	               ? 2
	               : 0;
}

/* Return the level of a title that is underlined with one repeated character, as in reStructuredText and AsciiDoc; 0
 * if it is not. `seen` has the underline characters in order of appearance; each new character is one level deeper. */
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

/* 1 if the heading is a sentence in capitals: it has no number, and ends with a full stop or exclamation mark. */
static int is_shouted(const char *s)
{
	size_t n = strlen(s);

	return n && strchr(".!", s[n - 1]) && !division_level(s, n) && memchr(s, ' ', n);
}

/* In a text whose headings are numbered, sentences in capitals are not headings: delete their marks. */
static void drop_shouted(struct doc *d)
{
	size_t numbered = 0, shouted = 0, n = 0;

	for (size_t i = 0; i < d->n_mark; i++)
		if (d->mark[i].kind == MARK_HEADING) {
			numbered += byte_is_digit(*d->mark[i].text) != 0;
			shouted += (size_t)is_shouted(d->mark[i].text);
		}
	if (numbered < NUMBERED_LEAST * shouted)
		return;
	for (size_t i = 0; i < d->n_mark; i++)
		if (d->mark[i].kind == MARK_HEADING && is_shouted(d->mark[i].text))
			free(d->mark[i].text);
		else
			d->mark[n++] = d->mark[i];
	d->n_mark = n;
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
	drop_shouted(d);
}

/* ---- Vim's help ---- */

int text_is_vim_help(const char *p, size_t n)
{
	const char *end = memchr(p, '\n', MIN(n, HEADING_LINE_MAX));
	size_t first = end ? (size_t)(end - p) : 0, last = MIN(n, HEADING_LINE_MAX * 2);

	return first > 2 && *p == '*' && memchr(p + 1, '*', first - 1) &&
	       memmem(p + n - last, last, "ft=help", 7) != NULL;
}

/* Remove the tags "*tag*" with which a line ends. A tag before the title stays: "*12.1* Sorting *sort*" becomes "*12.1*
 * Sorting". */
static struct line without_tags(struct line l)
{
	while (l.n > 2 && l.s[l.n - 1] == '*') {
		const char *star = memrchr(l.s, '*', l.n - 1);
		if (!star || memchr(star, ' ', l.n - (size_t)(star - l.s)))
			break;
		for (l.n = (size_t)(star - l.s); l.n && byte_is_blank(l.s[l.n - 1]); l.n--)
			;
	}
	return l;
}

/* Mark a title of Vim's help. If its number is a tag, write the number without stars. */
static void mark_vim_title(struct doc *d, struct line l, int level)
{
	struct str title = { 0 };

	for (size_t i = 0; i < l.n; i++)
		if (l.s[i] != '*' || !byte_is_digit(l.s[*l.s == '*']))
			str_add(&title, l.s + i, 1);
	if (title.n)
		doc_mark(d, MARK_HEADING, level, (size_t)(l.s - d->text.p), title.p, title.n);
	str_free(&title);
}

void mark_vim_help(struct doc *d)
{
	char rule = 0;
	int blank_before = 1;
	size_t asked = 0;

	for (size_t at = 0, next; at < d->text.n && !marks_stopped(at, &asked); at = next) {
		struct line l = line_at(&d->text, at, &next), title = without_tags(l);
		int flush = l.s == d->text.p + at, section = flush && l.n > 2 && !memcmp(l.s + l.n - 2, " ~", 2);

		title.n -= section ? 2 : 0;
		if (rule && title.n)
			mark_vim_title(d, title, rule == '=' ? 2 : 3);
		else if (flush && blank_before && title.n && (section || heading_level(title.s, title.n) == 2))
			mark_vim_title(d, title, 4);
		rule = flush && l.n >= VIM_RULE && strchr("=-", *l.s) && line_is_all(l, *l.s) ? *l.s : 0;
		blank_before = !l.n;
	}
}
