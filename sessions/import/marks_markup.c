/* sessions/import/marks_markup.c - finds the headings of Markdown, reStructuredText, Org and AsciiDoc. */
#include "sessions/import/marks.h"
#include "engine/base/utf8.h"

#include <string.h>

/* ---- Markdown ---- */

/* Return the level of a Markdown heading, "## Title ##": the number of '#'. *l becomes the title. */
static int atx_level(struct line *l)
{
	int level = 0;

	while (level < (int)l->n && l->s[level] == '#')
		level++;
	if (!level || level > 6 || (level < (int)l->n && l->s[level] != ' ' && l->s[level] != '\t'))
		return 0;
	l->s += level;
	l->n -= (size_t)level;
	while (l->n && l->s[l->n - 1] == '#')
		l->n--;
	while (l->n && (unsigned char)*l->s <= ' ')
		l->s++, l->n--;
	return l->n ? level : 0;
}

void mark_markdown(struct doc *d)
{
	char fence = 0;
	size_t fence_n = 0, asked = 0;

	for (size_t at = 0, next; at < d->text.n && !marks_stopped(at, &asked); at = next) {
		struct line l = line_at(&d->text, at, &next), title = l, under = { 0 };
		size_t indent = (size_t)(l.s - d->text.p) - at, run = 0, ignored;
		int level = 0;
		while (run < l.n && (l.s[run] == '`' || l.s[run] == '~') && l.s[run] == l.s[0])
			run++;
		if (fence) {
			if (run >= fence_n && l.s[0] == fence && run == l.n)
				fence = 0;
			continue;
		}
		if (run >= 3) {
			fence = l.s[0];
			fence_n = run;
			continue;
		}
		if (indent > 3 || !l.n)
			continue;
		level = atx_level(&title);
		if (!level && next < d->text.n && l.s[0] != '-' && l.s[0] != '>' && l.s[0] != '|') {
			under = line_at(&d->text, next, &ignored);
			level = line_is_all(under, '=') ? 1 : line_is_all(under, '-') ? 2 : 0;
		}
		if (level)
			doc_mark(d, MARK_HEADING, level, at, title.s, title.n);
	}
}

/* ---- reStructuredText ---- */

#define ADORNMENTS_MAX 16

/* Return the character of an adornment, which is a line of one repeated punctuation mark at the left margin. Return 0
 * for other lines. */
static char adornment(const struct str *t, size_t at, struct line l)
{
	return l.n && l.s == t->p + at && line_is_all(l, *l.s) && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", *l.s)
	               ? *l.s
	               : 0;
}

/* Return the level of an adornment. seen[] has the adornments in the order of their first use; each new one is one
 * level deeper. */
static int adornment_level(char seen[ADORNMENTS_MAX], char of)
{
	int i = 0;

	while (i < ADORNMENTS_MAX - 1 && seen[i] && seen[i] != of)
		i++;
	seen[i] = of;
	return MIN(i + 1, 6);
}

/* 1 if a line of `n` characters is long enough to adorn the title: at least as long as the title, or at least four
 * characters. The second case is needed because many adornments are shorter than their titles. */
static int adorns(size_t n, struct line title)
{
	return title.n && (n >= 4 || n >= utf8_characters(title.s, title.n));
}

/* 1 if the line is not a title, because it begins an item of a list, a comment, a line block or a Python session. */
static int begins_item(struct line l)
{
	return (l.n > 1 && strchr("-*+|", l.s[0]) && l.s[1] == ' ') || (l.n > 2 && !memcmp(l.s, ".. ", 3)) ||
	       (l.n > 3 && !memcmp(l.s, ">>> ", 4));
}

/* Find a title whose first line, at byte `at`, is l. The line l is the title itself, or the adornment above it. Set
 * *title to the title, and *end to the end of the adornment below it. Returns the title's level; 0 if there is no
 * title. */
static int rst_title(const struct str *t, size_t at, struct line l, size_t next, char *seen, struct line *title,
                     size_t *end)
{
	char above = adornment(t, at, l);
	size_t under_at = next;
	struct line under;

	*title = l;
	if (above && next < t->n)
		*title = line_at(t, next, &under_at);
	if (under_at >= t->n)
		return 0;
	under = line_at(t, under_at, end);
	if (above ? adornment(t, under_at, under) != above || under.n != l.n
	          : !adornment(t, under_at, under) || l.s != t->p + at || begins_item(l))
		return 0;
	return adorns(under.n, *title) ? adornment_level(seen, above ? (char)(above | 0x80) : *under.s) : 0;
}

void mark_rst(struct doc *d)
{
	char seen[ADORNMENTS_MAX] = { 0 };
	int begins = 1; /* 1: a title may begin in this line, because the line before it ends a paragraph */
	size_t asked = 0;

	for (size_t at = 0, next; at < d->text.n && !marks_stopped(at, &asked); at = next) {
		struct line l = line_at(&d->text, at, &next), title;
		size_t end;
		int level =
			begins && l.n && next < d->text.n ? rst_title(&d->text, at, l, next, seen, &title, &end) : 0;

		if (level) {
			doc_mark(d, MARK_HEADING, level, at, title.s, title.n);
			next = end;
		}
		begins = level || !l.n || (l.n > 2 && l.s == d->text.p + at && !memcmp(l.s, ".. ", 3));
	}
}

/* ---- Org ---- */

/* Remove the keyword of a task, its priority and the tags from the headline *l. `todo` has the keywords that the text
 * itself defines. */
static void strip_headline(struct line *l, const struct str *todo)
{
	size_t word = 0, tags;
	struct str key = { 0 };

	while (word < l->n && l->s[word] != ' ')
		word++;
	str_addf(&key, " %.*s ", (int)MIN(word, 64), l->s);
	if (word && word < l->n && memmem(str_text(todo), todo->n, key.p, key.n))
		l->s += word + 1, l->n -= word + 1;
	str_free(&key);
	if (l->n > 4 && !memcmp(l->s, "[#", 2) && l->s[3] == ']')
		l->s += 4, l->n -= 4;
	if (l->n && l->s[l->n - 1] == ':') {
		tags = l->n;
		while (tags && (byte_is_word(l->s[tags - 1]) || strchr("_@#%:", l->s[tags - 1])))
			tags--;
		if (tags && l->s[tags] == ':' && l->s[tags - 1] == ' ')
			l->n = tags;
	}
}

/* Store the keywords of tasks that a line "#+TODO: NEXT(n) | LATER" names, with blanks around each of them. */
static void note_keywords(struct line l, struct str *todo)
{
	for (size_t i = 0, end; i < l.n && todo->n < 1024; i = end + 1) {
		for (end = i; end < l.n && l.s[end] != ' ' && l.s[end] != '('; end++)
			;
		if (byte_is_word(l.s[i]) && (!i || l.s[i - 1] == ' '))
			str_addf(todo, " %.*s ", (int)MIN(end - i, 64), l.s + i);
	}
}

/* 1 if the line begins with the key, in upper or lower case. *l then becomes the rest of the line. */
static int org_key(struct line *l, const char *key)
{
	size_t n = strlen(key);

	if (l->n < n || strncasecmp(l->s, key, n) != 0)
		return 0;
	*l = (struct line){ l->s + n, l->n - n };
	return 1;
}

void mark_org(struct doc *d)
{
	int code = 0;
	size_t asked = 0;
	struct str todo = { 0 };

	str_adds(&todo, " TODO DONE ");
	for (size_t at = 0, next; at < d->text.n && !marks_stopped(at, &asked); at = next) {
		struct line l = line_at(&d->text, at, &next);
		size_t stars = 0;

		if (code || org_key(&l, "#+begin_src") || org_key(&l, "#+begin_example")) {
			code = !org_key(&l, "#+end_");
		} else if (org_key(&l, "#+title:")) {
			doc_mark(d, MARK_HEADING, 1, at, l.s, l.n);
		} else if (org_key(&l, "#+todo:") || org_key(&l, "#+seq_todo:")) {
			note_keywords(l, &todo);
		} else {
			while (stars < l.n && l.s[stars] == '*')
				stars++;
			if (!stars || l.s != d->text.p + at || stars + 1 >= l.n || l.s[stars] != ' ')
				continue;
			l = (struct line){ l.s + stars + 1, l.n - stars - 1 };
			strip_headline(&l, &todo);
			doc_mark(d, MARK_HEADING, (int)MIN(stars, 6), at, l.s, l.n);
		}
	}
	str_free(&todo);
}

/* ---- AsciiDoc ---- */

/* Return the length of a line that begins or ends a block of code, literal text or comment; 0 for other lines. */
static size_t adoc_fence(struct line l)
{
	if (l.n >= 3 && !memcmp(l.s, "```", 3))
		return 3;
	return l.n >= 4 && strchr("-.+/", *l.s) && line_is_all(l, *l.s) ? l.n : 0;
}

/* Return the level of a title that the line `under` underlines; 0 if it is no such title. */
static int adoc_underlined(struct line title, struct line under)
{
	static const char signs[] = "=-~^+";
	size_t width = utf8_characters(title.s, title.n), word = 0;
	const char *sign = under.n > 1 ? strchr(signs, *under.s) : NULL;

	while (word < title.n && !byte_is_word(title.s[word]))
		word++;
	return sign && line_is_all(under, *sign) && under.n + 1 >= width && under.n <= width + 1 && word < title.n &&
	                       !strchr(".[|/", *title.s)
	               ? (int)(sign - signs) + 1
	               : 0;
}

/* Return the level of "== Title ==" or "## Title"; 0 for other lines. *l becomes the title. */
static int adoc_level(struct line *l)
{
	size_t level = 0, end;

	while (level < l->n && l->s[level] == *l->s)
		level++;
	if (!strchr("=#", *l->s) || level > 6 || level + 1 >= l->n || l->s[level] != ' ')
		return 0;
	end = l->n;
	while (end > level && l->s[end - 1] == *l->s)
		end--;
	if (l->n - end == level && l->s[end - 1] == ' ')
		l->n = end;
	*l = (struct line){ l->s + level + 1, l->n - level - 1 };
	return (int)level;
}

/* Remove an anchor, "[[name]]", at the beginning or end of a title. */
static void strip_anchor(struct line *l)
{
	const char *open = memmem(l->s, l->n, "[[", 2),
		   *close = open ? memmem(open, l->n - (size_t)(open - l->s), "]]", 2) : NULL;

	if (close && open == l->s)
		*l = (struct line){ close + 2, l->n - (size_t)(close + 2 - l->s) };
	else if (close && close + 2 == l->s + l->n)
		l->n = (size_t)(open - l->s);
}

/* 1 for a line that may precede a title directly: an attribute list, a comment, or a directive such as "ifdef::x[]". */
static int adoc_parts(struct line l)
{
	return (l.s[l.n - 1] == ']' && (*l.s == '[' || memmem(l.s, l.n, "::", 2))) ||
	       (l.n > 1 && !memcmp(l.s, "//", 2));
}

void mark_adoc(struct doc *d)
{
	int begins = 1; /* 1: a title may begin in this line, because the line before it ends a paragraph */
	size_t fence = 0, asked = 0;
	char of = 0;

	for (size_t at = 0, next; at < d->text.n && !marks_stopped(at, &asked); at = next) {
		struct line l = line_at(&d->text, at, &next), title = l, under = { 0 };
		int level = 0;

		if (fence) {
			begins = l.n == fence && line_is_all(l, of);
			fence = begins ? 0 : fence;
			continue;
		}
		if (l.s != d->text.p + at) { /* an indented line is literal */
			begins = !l.n;
			continue;
		}
		if (begins && l.n && !(level = adoc_level(&title)) && next < d->text.n) {
			size_t end;
			under = line_at(&d->text, next, &end);
			level = adoc_underlined(l, under);
			next = level ? end : next;
		}
		strip_anchor(&title);
		if (level && title.n)
			doc_mark(d, MARK_HEADING, level, at, title.s, title.n);
		else if ((fence = adoc_fence(l)))
			of = *l.s;
		begins = level || !l.n || adoc_parts(l);
	}
}
