/* sessions/import/properties.c - writes the title and the author that a file's metadata name before the text of the
 * document, as "Title: ..." and "Author: ...", if the beginning of the text does not have them. So a question about the
 * author finds them, and an answer can quote them. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
	/* sizes in bytes */
	BEGINNING = 2000,
	VALUE_MOST = 300,
};

/* Append the words of a text in lower case, with one blank before each and after the last: " the grey lamp ". */
static void words_of(const char *s, size_t n, struct str *out)
{
	str_adds(out, " ");
	for (size_t i = 0; i < n; i++) {
		char c = byte_is_upper(s[i]) ? (char)(s[i] + 32) : byte_is_word(s[i]) ? s[i] : ' ';

		if (c != ' ' || out->p[out->n - 1] != ' ')
			str_add(out, &c, 1);
	}
	if (out->p[out->n - 1] != ' ')
		str_adds(out, " ");
}

/* 1 if the beginning of the text, given by words_of(), has the words of the value: one after the other or, if
 * `scattered` is 1, in any order, because "Austen, Jane" and "JANE AUSTEN" are the same person. */
static int has_words(const struct str *beginning, const struct str *value, int scattered)
{
	struct str words = { 0 };
	int has = 1;

	words_of(value->p, value->n, &words);
	if (!scattered)
		has = strstr(beginning->p, words.p) != NULL;
	for (char *p = words.p, *next; has && scattered && (next = strchr(p + 1, ' ')); p = next) {
		char after = next[1];

		next[1] = 0;
		has = strstr(beginning->p, p) != NULL;
		next[1] = after;
	}
	str_free(&words);
	return has;
}

/* 1 for a name of one ASCII word, as of an account ("admin"), and for names that programs write. */
static int is_account(const struct str *name)
{
	static const char *const programs[] = { " user", "anonymous", "unknown", "unspecified" };

	for (size_t i = 0; i < LEN(programs); i++)
		if (strcasestr(name->p, programs[i]))
			return 1;
	for (size_t i = 0; i < name->n; i++)
		if (name->p[i] == ' ' || (unsigned char)name->p[i] >= 0x80)
			return 0;
	return 1;
}

/* Append a value as one line of valid UTF-8 with single blanks, truncated between characters. */
static void tidy(const struct str *value, struct str *out)
{
	struct str s = { 0 };

	str_add(&s, value->p, value->n);
	text_tidy(&s);
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] > ' ')
			str_add(out, &s.p[i], 1);
		else if (out->n && out->p[out->n - 1] != ' ')
			str_adds(out, " ");
	if (out->n > VALUE_MOST)
		out->n = utf8_complete(out->p, VALUE_MOST);
	while (out->n && out->p[out->n - 1] == ' ')
		out->n--;
	if (out->p)
		out->p[out->n] = 0;
	str_free(&s);
}

void properties_write(struct doc *d, const struct properties *of, int is_book)
{
	struct str title = { 0 }, author = { 0 }, beginning = { 0 }, head = { 0 };

	words_of(str_text(&d->text), MIN(d->text.n, BEGINNING), &beginning);
	tidy(&of->title, &title);
	tidy(&of->author, &author);
	if (title.n && is_book && !has_words(&beginning, &title, 0))
		str_addf(&head, "Title: %s\n", title.p);
	if (author.n && (is_book || !is_account(&author)) && !has_words(&beginning, &author, 1))
		str_addf(&head, "Author: %s\n", author.p);
	if (head.n && d->text.n && d->text.n + head.n < DOC_BYTES_MAX) {
		str_adds(&head, "\n");
		/* the first page begins with these lines; a heading follows them */
		for (size_t i = 0; i < d->n_mark; i++)
			if (d->mark[i].kind != MARK_PAGE || d->mark[i].at)
				d->mark[i].at += head.n;
		str_add(&head, d->text.p, d->text.n);
		str_free(&d->text);
		d->text = head;
		head = (struct str){ 0 };
	}
	str_free(&head);
	str_free(&beginning);
	str_free(&title);
	str_free(&author);
}

/* ---- properties in XML ---- */

void properties_start(struct properties *of, const char *name, const struct xml_attr *a, size_t n)
{
	of->into = NULL;
	if (!strcmp(name, "title") && !of->title.n) {
		of->into = &of->title;
	} else if (!strcmp(name, "creator") && (!xml_attr(a, n, "role") || xml_attr_is(a, n, "role", "aut"))) {
		of->into = &of->author;
		if (of->author.n)
			str_adds(&of->author, ", ");
	}
}

void properties_text(struct properties *of, const char *s, size_t n)
{
	if (of->into && of->into->n < VALUE_MOST)
		str_add(of->into, s, n);
}

void properties_free(struct properties *of)
{
	str_free(&of->title);
	str_free(&of->author);
}
