/* app/retrieval/text_words.c - the words of a text (retrieval_private.h). */
#include <string.h>
#include <strings.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/base.h"
#include "engine/base/utf8.h"

static const char *const spelled[] = { "zero",  "one",   "two",  "three", "four",   "five",  "six",
	                               "seven", "eight", "nine", "ten",   "eleven", "twelve" };

/* 1 if byte c may stand between two digits of a number: "12,500", "2.5", "5:30". */
static int is_point(char c)
{
	return c == '.' || c == ',' || c == ':';
}

/* 1 if bytes p[0] and p[1] of text p[0 .. n) belong to the same word. */
static int word_goes_on(const char *p, size_t n)
{
	if (n > 2 && is_point(p[1]))
		return byte_is_digit(p[0]) && byte_is_digit(p[2]);
	if (is_point(p[0]))
		return 1;
	/* in Chinese and Japanese there is no blank that separates a number from the characters around it */
	if ((byte_is_digit(p[0]) && (unsigned char)p[1] >= 0x80) ||
	    (byte_is_digit(p[1]) && (unsigned char)p[0] >= 0x80))
		return 0;
	return byte_is_word(p[1]);
}

int word_next(const char *text, size_t n, size_t *i, struct word *w)
{
	size_t at = *i, end;

	while (at < n && !byte_is_word(text[at]))
		at++;
	for (end = at; end < n && (end == at || word_goes_on(text + end - 1, n - end + 1));)
		end++;
	*w = (struct word){ text + at, end - at };
	*i = end;
	return end > at;
}

/* 1 if the '.' or ',' at byte `at` of a number groups its digits by three, as in "12,500". */
static int groups_thousands(struct word w, size_t at)
{
	size_t digits = 0;

	while (at + 1 + digits < w.n && byte_is_digit(w.p[at + 1 + digits]))
		digits++;
	return w.p[at] != ':' && digits == 3;
}

void word_key(struct word w, struct str *out)
{
	for (size_t k = 0; k < LEN(spelled); k++)
		if (strlen(spelled[k]) == w.n && !strncasecmp(spelled[k], w.p, w.n)) {
			str_addf(out, "%zu", k);
			return;
		}
	for (size_t k = 0, number = byte_is_digit(w.p[0]); k < w.n; k++) {
		char c = byte_is_upper(w.p[k]) ? (char)(w.p[k] + 'a' - 'A') : w.p[k];

		if (!number || byte_is_digit(c))
			str_add(out, &c, 1);
		else if (is_point(c) && !groups_thousands(w, k))
			str_adds(out, ".");
	}
}

int sentence_begins(const char *text, size_t at)
{
	while (at && (text[at - 1] == ' ' || text[at - 1] == '"' || text[at - 1] == '\'' || text[at - 1] == '(' ||
	              text[at - 1] == '*'))
		at--;
	return !at || memchr("\n.!?:", text[at - 1], 5);
}
