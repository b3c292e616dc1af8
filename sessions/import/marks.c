/* sessions/import/marks.c - finds and stores marks: offsets of a document's pages, headings and paragraphs. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADING_BYTES_MAX 200 /* longest text of a mark */
#define HEADING_LINE_MAX  80  /* longest line that can be a heading of plain text */

void doc_note_comments(struct doc *d, size_t comments)
{
	if (comments)
		doc_note(d, "%zu comment%s left out", comments, comments == 1 ? "" : "s");
}

void doc_note(struct doc *d, const char *fmt, ...)
{
	char s[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s, sizeof s, fmt, ap);
	va_end(ap);
	str_addf(&d->notices, "%s\n", s);
}

/* Copy a mark's text as one line of at most HEADING_BYTES_MAX bytes, cut between characters. */
static char *mark_text(const char *s, size_t n)
{
	struct str out = { 0 };

	if (n > HEADING_BYTES_MAX)
		n = utf8_complete(s, HEADING_BYTES_MAX);
	for (size_t i = 0; i < n; i++) {
		char c = (unsigned char)s[i] <= ' ' ? ' ' : s[i];
		if (c != ' ' || (out.n && out.p[out.n - 1] != ' '))
			str_add(&out, &c, 1);
	}
	while (out.n && out.p[out.n - 1] == ' ')
		out.p[--out.n] = 0;
	if (!out.p)
		str_adds(&out, "");
	return out.p;
}

void doc_mark(struct doc *d, enum mark_kind kind, int level, size_t at, const char *text, size_t n)
{
	/* The array doubles when n_mark + 1 is a power of two. */
	if (!(d->n_mark & (d->n_mark + 1)) || !d->mark)
		d->mark = xrealloc(d->mark, (2 * d->n_mark + 2) * sizeof *d->mark);
	d->mark[d->n_mark++] =
		(struct mark){ .kind = kind, .level = level, .at = at, .text = text ? mark_text(text, n) : NULL };
	if (kind == MARK_PAGE && d->pages < INT32_MAX)
		d->pages++;
}

int doc_finish(struct doc *d, size_t hidden, const struct err *why, struct err *e)
{
	if (hidden)
		doc_note(d, HIDDEN_TEXT, hidden, hidden == 1 ? " was" : "s were");
	if (why->code && !d->text.n) {
		*e = *why;
		return -1;
	}
	if (why->code)
		doc_note(d, "the document %s: the text ends there", why->msg);
	return d->text.n ? 0 : err_set(e, ERR_DOCUMENT, "holds no text");
}

void doc_forget_pages(struct doc *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n_mark; i++) {
		if (d->mark[i].kind == MARK_PAGE)
			free(d->mark[i].text);
		else
			d->mark[n++] = d->mark[i];
	}
	d->n_mark = n;
	d->pages = 0;
}

const struct mark *marks_at(const struct mark *mark, size_t n, enum mark_kind kind, size_t at)
{
	const struct mark *found = NULL;
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (mark[mid].at <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo > 0 && !found; lo--) {
		const struct mark *m = &mark[lo - 1];

		if (m->last[m->kind])
			return m->last[kind] ? &mark[m->last[kind] - 1] : NULL;
		found = m->kind == kind ? m : NULL;
	}
	return found;
}

static void number_marks(struct mark *mark, size_t n)
{
	uint32_t last[MARK_KINDS] = { 0 };

	for (size_t i = 0; i < n && i < UINT32_MAX; i++) {
		last[mark[i].kind] = (uint32_t)i + 1;
		memcpy(mark[i].last, last, sizeof last);
	}
}

const struct mark *doc_mark_at(const struct doc *d, enum mark_kind kind, size_t at)
{
	return marks_at(d->mark, d->n_mark, kind, at);
}

size_t marks_copy(const struct mark *mark, size_t n, struct mark **out)
{
	size_t k = 0;

	*out = xcalloc(n + 1, sizeof **out);
	for (size_t i = 0; i < n; i++) {
		if (mark[i].kind == MARK_PARAGRAPH)
			continue;
		(*out)[k] = mark[i];
		(*out)[k++].text = xstrndup(mark[i].text ? mark[i].text : "", mark[i].text ? strlen(mark[i].text) : 0);
	}
	number_marks(*out, k);
	return k;
}

void marks_free(struct mark *mark, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(mark[i].text);
	free(mark);
}

/* Skip newlines at the beginning of a range. */
static struct range skip_newlines(const struct str *t, struct range r)
{
	while (r.from < r.to && t->p[r.from] == '\n')
		r.from++;
	return r;
}

void doc_keep(struct doc *d, const struct range *range, size_t n)
{
	struct str *t = &d->text;
	size_t to = 0, m = 0, kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct range r = skip_newlines(t, range[i]);
		size_t len = r.to - r.from;
		if (to && len) {
			size_t gap = r.from - to < 2 ? r.from - to : 2;
			memcpy(t->p + to, "\n\n", gap);
			to += gap;
		}
		for (; m < d->n_mark && d->mark[m].at < r.to; m++) {
			struct mark k = d->mark[m];
			if (k.at < r.from && k.kind != MARK_PAGE) {
				free(k.text);
				continue;
			}
			k.at = k.at < r.from ? to : k.at - r.from + to;
			d->mark[kept++] = k;
		}
		memmove(t->p + to, t->p + r.from, len);
		to += len;
	}
	for (; m < d->n_mark; m++)
		if (d->mark[m].kind == MARK_PAGE) {
			d->mark[m].at = to;
			d->mark[kept++] = d->mark[m];
		} else {
			free(d->mark[m].text);
		}
	d->n_mark = kept;
	t->n = to;
	if (t->p)
		t->p[to] = 0;
}

/* ---- lines ---- */

/* 1 if the user has stopped the import. Asks only once per MiB of text: *asked is the offset of the last time. */
static int stopped_at(size_t at, size_t *asked)
{
	if (at - *asked < 1 << 20)
		return 0;
	*asked = at;
	return import_stopped();
}

struct line {
	const char *s;
	size_t n;
}; /* a line of text, without the white space around it */

static struct line line_at(const struct str *t, size_t at, size_t *next)
{
	const char *s = t->p + at, *end = memchr(s, '\n', t->n - at);
	struct line l = { s, end ? (size_t)(end - s) : t->n - at };

	*next = at + l.n + (end != NULL);
	while (l.n && (unsigned char)*l.s <= ' ')
		l.s++, l.n--;
	while (l.n && (unsigned char)l.s[l.n - 1] <= ' ')
		l.n--;
	return l;
}

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

/* ---- plain text ---- */

/* Mark pages at form feeds, which stay in the text. */
static void mark_pages(struct doc *d)
{
	const char *p = d->text.p, *end = p + d->text.n, *ff = memchr(p, '\f', d->text.n);
	size_t asked = 0;
	char number[16];
	int page = 1;

	if (!ff)
		return;
	doc_mark(d, MARK_PAGE, 0, 0, "1", 1);
	for (; ff && !stopped_at((size_t)(ff - p), &asked); ff = memchr(ff + 1, '\f', (size_t)(end - ff) - 1)) {
		const char *rest = ff + 1;
		while (rest < end && (unsigned char)*rest <= ' ' && *rest != '\f')
			rest++;
		if (rest == end)
			return;
		doc_mark(d, MARK_PAGE, 0, (size_t)(ff + 1 - p), number,
		         (size_t)snprintf(number, sizeof number, "%d", ++page));
	}
}

static int all_of(struct line l, char c)
{
	for (size_t i = 0; i < l.n; i++)
		if (l.s[i] != c)
			return 0;
	return l.n >= 2;
}

/* Return the level of a title that is underlined with one repeated character, as in reStructuredText and AsciiDoc; 0
 * if it is not. seen: underline characters in order of appearance; each new one is one level deeper. */
static int underlined_level(struct line title, struct line under, char seen[6])
{
	size_t width = utf8_characters(title.s, title.n);
	int level = 0;

	if (under.n < 3 || !strchr("=-~^*+#\"'`_", *under.s) || !all_of(under, *under.s))
		return 0;
	/* Chinese and Japanese letters are two columns wide, so the underline may have twice as many characters. */
	if (under.n + 1 < width || under.n > 2 * width + 2 || title.n > HEADING_LINE_MAX ||
	    memchr(title.s, '|', title.n) || all_of(title, *title.s))
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

static void mark_headings(struct doc *d)
{
	char seen[6] = { 0 };
	int blank_before = 1;
	size_t asked = 0;

	for (size_t at = 0, next; at < d->text.n && !stopped_at(at, &asked); at = next) {
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
		blank_before = !l.n || (blank_before && (all_of(l, *l.s) || (*l.s == '[' && l.s[l.n - 1] == ']')));
	}
}

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

static void mark_markdown(struct doc *d)
{
	char fence = 0;
	size_t fence_n = 0, asked = 0;

	for (size_t at = 0, next; at < d->text.n && !stopped_at(at, &asked); at = next) {
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
			level = all_of(under, '=') ? 1 : all_of(under, '-') ? 2 : 0;
		}
		if (level)
			doc_mark(d, MARK_HEADING, level, at, title.s, title.n);
	}
}

void doc_mark_text(struct doc *d)
{
	if (!d->text.n)
		return;
	mark_pages(d);
	if (d->type == DOC_MARKDOWN)
		mark_markdown(d);
	else if (d->type == DOC_TEXT)
		mark_headings(d);
}

/* ---- paragraphs ---- */

static int by_place(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->kind > y->kind) - (x->kind < y->kind);
}

/* Sort the marks by offset; at equal offsets pages come first, then headings, then paragraphs. */
static void sort_kinds(struct doc *d)
{
	/* The sort must be stable, which qsort() is not: empty pages have the next page's offset and must keep their
	 * order. */
	struct mark *copy = xmalloc(d->n_mark * sizeof *copy), *at[3];
	size_t n[3] = { 0 }, to = 0;
	memcpy(copy, d->mark, d->n_mark * sizeof *copy);
	for (size_t i = 0; i < d->n_mark; i++)
		n[d->mark[i].kind]++;
	at[0] = d->mark, at[1] = at[0] + n[0], at[2] = at[1] + n[1];
	for (size_t i = 0; i < d->n_mark; i++)
		*at[copy[i].kind]++ = copy[i];
	/* Each kind is sorted already: merge the three. */
	memcpy(copy, d->mark, d->n_mark * sizeof *copy);
	at[0] = copy, at[1] = copy + n[0], at[2] = at[1] + n[1];
	while (to < d->n_mark) {
		int best = -1;
		for (int k = 0; k < 3; k++)
			if (n[k] && (best < 0 || at[k]->at < at[best]->at))
				best = k;
		d->mark[to++] = *at[best]++;
		n[best]--;
	}
	free(copy);
}

static void sort_marks(struct doc *d)
{
	int sorted = 1;

	for (size_t i = 1; i < d->n_mark && sorted; i++)
		sorted = by_place(&d->mark[i - 1], &d->mark[i]) <= 0;
	if (!sorted)
		sort_kinds(d);
	number_marks(d->mark, d->n_mark);
}

void doc_mark_paragraphs(struct doc *d)
{
	int inside = 0;
	size_t asked = 0;

	for (size_t at = 0, next; at < d->text.n && !stopped_at(at, &asked); at = next) {
		struct line l = line_at(&d->text, at, &next);
		if (l.n && (!inside || d->text.p[at] == '\f'))
			doc_mark(d, MARK_PARAGRAPH, 0, (size_t)(l.s - d->text.p), NULL, 0);
		inside = l.n != 0;
	}
	sort_marks(d);
}

void doc_mark_again(struct doc *d)
{
	d->type = doc_type_of(d->name ? d->name : "", NULL, str_text(&d->text), d->text.n);
	/* The name tells the type of Markdown and source code. Any other text, such as that of a PDF, is plain
	 * text by now. */
	if (d->type != DOC_MARKDOWN && d->type != DOC_SOURCE)
		d->type = DOC_TEXT;
	doc_mark_text(d);
	sort_marks(d);
}
