/* app/retrieval/named_place.c - finds the page, chapter or section that a question names (retrieval_private.h).
 *
 * "What is on page 30?" shares no word with page 30, so a search by words fails. Instead, the name in the question is
 * compared with the page and heading marks of the document. A name is a word such as "page" or "chapter" with a number
 * such as "30", "4.3.1" or "IV", or a Chinese or Japanese form like "第3章". */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/base.h"
#include "engine/base/sentences.h"
#include "engine/base/utf8.h"

enum { PARTS = 6, PASSAGE_BYTES = 1000, QUOTE_BYTES = 300 };

/* PLACE_ANY: the name is a number alone, or a Chinese or Japanese form that does not name a page. */
enum place_kind { PLACE_ANY, PLACE_PAGE, PLACE_CHAPTER, PLACE_SECTION, PLACE_APPENDIX, PLACE_PART, PLACE_BOOK };

/* The name of a place, such as "page 30" or "chapter 4.3.1". */
struct place_name {
	enum place_kind kind;
	int part[PARTS], n; /* part[0 .. n) are the numbers in the name: 4, 3 and 1 for "4.3.1" */
};

static const struct {
	const char *word;
	enum place_kind kind;
} words[] = {
	{ "page", PLACE_PAGE },        { "seite", PLACE_PAGE },        { "página", PLACE_PAGE },
	{ "pagina", PLACE_PAGE },      { "страница", PLACE_PAGE },     { "странице", PLACE_PAGE },
	{ "chapter", PLACE_CHAPTER },  { "kapitel", PLACE_CHAPTER },   { "chapitre", PLACE_CHAPTER },
	{ "capítulo", PLACE_CHAPTER }, { "глава", PLACE_CHAPTER },     { "главе", PLACE_CHAPTER },
	{ "section", PLACE_SECTION },  { "abschnitt", PLACE_SECTION }, { "sección", PLACE_SECTION },
	{ "раздел", PLACE_SECTION },   { "разделе", PLACE_SECTION },   { "appendix", PLACE_APPENDIX },
	{ "anhang", PLACE_APPENDIX },  { "annexe", PLACE_APPENDIX },   { "part", PLACE_PART },
	{ "teil", PLACE_PART },        { "book", PLACE_BOOK },
};
/* Chinese and Japanese words for page and chapter, which follow the number. */
static const struct {
	const char *unit;
	enum place_kind kind;
} units[] = { { "页", PLACE_PAGE }, { "頁", PLACE_PAGE }, { "ページ", PLACE_PAGE }, { "章", PLACE_ANY },
	      { "节", PLACE_ANY },  { "節", PLACE_ANY },  { "回", PLACE_ANY } };

/* If s begins with the word, in upper or lower case, return the number of bytes that match; else return 0. The
 * parameter `word` is in lower case. */
static size_t prefix_bytes(const char *s, size_t n, const char *word)
{
	size_t at = 0, left = strlen(word);

	while (left && at < n) {
		int32_t has, wants;
		int some = utf8_decode(s + at, n - at, &has), step = utf8_decode(word, left, &wants);

		if (some <= 0 || step <= 0 || utf8proc_tolower(has) != wants)
			return 0;
		at += (size_t)some;
		word += step;
		left -= (size_t)step;
	}
	return left ? 0 : at;
}

static int read_roman(const char *s, size_t n, int *value)
{
	static const char digits[] = "IVXLCDM";
	static const int worth[] = { 1, 5, 10, 50, 100, 500, 1000 };
	size_t i = 0;
	int before = 0;

	for (*value = 0; i < n && s[i] && strchr(digits, s[i]); i++) {
		int v = worth[strchr(digits, s[i]) - digits];

		*value += v > before && before ? v - 2 * before : v;
		before = v;
		if (i > 12)
			return 0;
	}
	return (int)i;
}

/* Parse an Arabic, dotted or Roman number: "30", "4.3.1", "IV". Returns its length in bytes; 0 if there is none. */
static size_t read_number(const char *s, size_t n, struct place_name *out)
{
	size_t i = 0, first;
	int value;

	out->n = 0;
	while (out->n < PARTS) {
		for (first = i, value = 0; i < n && byte_is_digit(s[i]) && i - first < 6; i++)
			value = 10 * value + s[i] - '0';
		if (i == first)
			break;
		out->part[out->n++] = value;
		if (i + 1 >= n || s[i] != '.' || !byte_is_digit(s[i + 1]))
			break;
		i++;
	}
	/* A lone "I" before a blank is the pronoun: "In this chapter I want". */
	if (!out->n && (i = (size_t)read_roman(s, n, &value)) && !(i == 1 && i < n && s[i] == ' '))
		out->part[out->n++] = value;
	return out->n && (i == n || !(byte_is_letter(s[i]) || byte_is_digit(s[i]))) ? i
	       : out->n && i < n && (unsigned char)s[i] >= 0xe3                     ? i
	                                                                            : 0;
}

/* Parse a name such as "page 30" or "chapter IV" at s. Returns 1; 0 if there is none. */
static int read_name(const char *s, size_t n, struct place_name *out)
{
	*out = (struct place_name){ .kind = PLACE_ANY };
	for (size_t w = 0; w < LEN(words); w++) {
		size_t k = prefix_bytes(s, n, words[w].word);

		if (!k || k == n || s[k] != ' ')
			continue;
		out->kind = words[w].kind;
		return read_number(s + k + 1, n - k - 1, out) > 0;
	}
	if (n > 3 && !memcmp(s, "第", 3))
		s += 3, n -= 3;
	else if (!n || !byte_is_digit(*s))
		return 0;
	for (size_t k = read_number(s, n, out), u = 0; k && u < LEN(units); u++)
		if (prefix_bytes(s + k, n - k, units[u].unit)) {
			out->kind = units[u].kind;
			return 1;
		}
	return 0;
}

/* 1 if a heading has the number that the question names: "4.3.1 Title", "CHAPTER IV". If heading and question both have
 * a word such as "chapter", the two words must also mean the same. */
static int heading_has(const char *text, const struct place_name *want)
{
	struct place_name has;
	size_t n = strlen(text);

	if (!read_name(text, n, &has)) {
		has.kind = PLACE_ANY;
		if (!read_number(text, n, &has))
			return 0;
	}
	if (has.n != want->n || memcmp(has.part, want->part, (size_t)has.n * sizeof *has.part))
		return 0;
	return has.kind == PLACE_ANY || want->kind == PLACE_ANY || has.kind == want->kind;
}

/* Return the byte at which page or section i ends: where the next page begins, or the next heading of the same or a
 * higher level. */
static size_t place_end(const struct document *d, size_t i)
{
	for (size_t k = i + 1; k < d->n_mark; k++)
		if (d->mark[k].kind == d->mark[i].kind && d->mark[k].at > d->mark[i].at &&
		    d->mark[k].level <= d->mark[i].level)
			return d->mark[k].at;
	return d->n_body;
}

/* Find the page or section with the name `want`. If several have this name, take the longest one, because the others
 * are entries of a table of contents. Returns 1 if found, else 0. */
static int find_place(const struct document *d, const struct place_name *want, size_t *from, size_t *to)
{
	int found = 0, page = want->kind == PLACE_PAGE;

	*from = *to = 0;
	for (size_t i = 0; i < d->n_mark; i++) {
		const struct mark *m = &d->mark[i];
		char *end;
		size_t until;

		if (m->kind != (page ? MARK_PAGE : MARK_HEADING) || !m->text || !*m->text)
			continue;
		if (page ? want->n != 1 || strtol(m->text, &end, 10) != want->part[0] || *end
		         : !heading_has(m->text, want))
			continue;
		until = place_end(d, i);
		if (!found || until - m->at > *to - *from) {
			*from = m->at;
			*to = until;
		}
		found = 1;
	}
	return found && *from < *to;
}

size_t cut_end(const char *body, size_t from, size_t to, size_t most)
{
	size_t end;

	if (to - from <= most)
		return to;
	for (int lines = 0; lines < 2; lines++)
		for (end = from + most; end > from + most / 3; end--)
			if (lines ? body[end] == '\n' : sentence_ends(body, to, end))
				return end;
	return from + utf8_complete(body + from, most);
}

/* 1 for a space or control character. */
static int is_blank_or_control(char c)
{
	return (unsigned char)c <= ' ';
}

int named_place(const struct conversation *conv, const char *question, size_t n, struct source *out, size_t *end)
{
	struct place_name want;
	size_t from = 0, to = 0, found = 0;

	for (size_t i = 0; i < n && !found; i++) {
		/* A name must not begin inside a word or number. But it may follow a character from U+3000 on, because
		 * Chinese and Japanese write no blanks between words. */
		if (i && (unsigned char)question[i] < 0xe3 &&
		    ((byte_is_letter(question[i]) && byte_is_letter(question[i - 1])) ||
		     (byte_is_digit(question[i]) && (byte_is_digit(question[i - 1]) || question[i - 1] == '.'))))
			continue;
		if (!read_name(question + i, n - i, &want))
			continue;
		for (size_t k = 0; k < conv->n_doc; k++) {
			const char *body = conv->doc[k].text.p + conv->doc[k].body, *line;

			if (!find_place(&conv->doc[k], &want, &from, &to) || found++)
				continue;
			while (from < to && is_blank_or_control(body[from]))
				from++;
			*end = to;
			to = cut_end(body, from, to, PASSAGE_BYTES);
			while (to > from && is_blank_or_control(body[to - 1]))
				to--;
			*out = (struct source){ .doc = k, .from = from, .to = to, .quote = from };
			/* the quote begins after the heading line of a section, or with the first text of a page */
			line = want.kind == PLACE_PAGE ? NULL : memchr(body + from, '\n', to - from);
			for (out->quote = line ? (size_t)(line - body) : from;
			     out->quote < to && is_blank_or_control(body[out->quote]); out->quote++)
				;
			out->quote_end = cut_end(body, out->quote, to, QUOTE_BYTES);
			if (from >= to || out->quote >= out->quote_end)
				return 0;
		}
	}
	/* If several documents have the page or section, the question is ambiguous. */
	return found == 1;
}
