/* app/retrieval/passages.c - cuts a document into passages (retrieval.h).
 *
 * One walk over the text gives every place between two characters a rank as the end of a passage. When a passage is
 * full it ends at the place of the highest rank in its second half, and the walk continues from there. */
#include "app/retrieval/retrieval_private.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/base.h"
#include "engine/base/utf8.h"

enum place { PLACE_NONE, PLACE_CHAR, PLACE_WORD, PLACE_LINE, PLACE_SENTENCE, PLACE_PARAGRAPH, PLACE_SECTION, PLACES };

struct cutter {
	const char *text;
	size_t n;
	const size_t *end;
	size_t n_token;
	const struct mark *mark;
	size_t n_mark;
	size_t token; /* tokens that end at or before the place where the walk is */
	size_t marks; /* pages and sections that begin before it */
	struct passage *out;
	size_t n_out, cap;
};

/* 1 for white space but the vertical tab. */
static int is_text_blank(char c)
{
	return byte_is_blank(c) && c != '\v';
}

/* A capital letter, or one and another letter, as in "J. S. Bach" and "St. Peter". */
static int is_short(const char *text, size_t end)
{
	size_t n = 0;

	while (n < end && n < 3 && !is_text_blank(text[end - 1 - n]) && text[end - 1 - n] != '.')
		n++;
	return n && n < 3 && text[end - n] >= 'A' && text[end - n] <= 'Z';
}

/* Does a sentence end before these blanks, or here, where its script has none? */
static int ends_sentence(const char *text, size_t at)
{
	/* the full stops of Chinese and Japanese */
	static const char *const wide[] = { "\xe3\x80\x82", "\xef\xbc\x81", "\xef\xbc\x9f" };
	size_t end = at;

	for (size_t i = 0; at >= 3 && i < LEN(wide); i++)
		if (!memcmp(text + at - 3, wide[i], 3))
			return 1;
	while (end && is_text_blank(text[end - 1]))
		end--;
	if (end == at)
		return 0;
	while (end && strchr("\"')]*_", text[end - 1]) && text[end - 1])
		end--;
	if (!end || (text[end - 1] != '.' && text[end - 1] != '!' && text[end - 1] != '?'))
		return 0;
	return text[end - 1] != '.' || !is_short(text, end - 1);
}

static int ends_paragraph(const char *text, size_t at)
{
	int lines = 0;

	while (at && is_text_blank(text[at - 1]))
		lines += text[--at] == '\n';
	return lines > 1;
}

/* What ends at this byte, which is neither the first nor behind the last. */
static enum place place_at(const struct cutter *c, size_t at)
{
	const char *s = c->text;

	if (utf8_continues(s[at]))
		return PLACE_NONE;
	if (c->marks < c->n_mark && c->mark[c->marks].at == at)
		return PLACE_SECTION;
	if (is_text_blank(s[at]))
		return PLACE_CHAR;
	if (s[at - 1] == '\n' && ends_paragraph(s, at))
		return PLACE_PARAGRAPH;
	if (ends_sentence(s, at))
		return PLACE_SENTENCE;
	return s[at - 1] == '\n' ? PLACE_LINE : is_text_blank(s[at - 1]) ? PLACE_WORD : PLACE_CHAR;
}

static void add_passage(struct cutter *c, size_t from, size_t to)
{
	while (from < to && is_text_blank(c->text[from]))
		from++;
	while (to > from && is_text_blank(c->text[to - 1]))
		to--;
	if (from == to)
		return;
	GROW(c->out, c->n_out, c->cap);
	c->out[c->n_out++] = (struct passage){ from, to };
}

static size_t tokens_before(const struct cutter *c, size_t at)
{
	size_t token = c->token;

	while (token < c->n_token && c->end[token] <= at)
		token++;
	return token;
}

/* The end of the passage that begins there.  c is moved along. */
static size_t passage_end(struct cutter c, size_t from)
{
	size_t best = from, first = c.token, tokens;
	enum place best_place = PLACE_NONE;

	for (size_t at = from + 1; at < c.n; at++) {
		enum place place;

		while (c.marks < c.n_mark && c.mark[c.marks].at < at)
			c.marks++;
		place = place_at(&c, at);
		c.token = tokens_before(&c, at);
		tokens = c.token - first;
		if (tokens > PASSAGE_MOST && best_place)
			return best;
		if (place == PLACE_SECTION || (place == PLACE_PARAGRAPH && tokens >= PASSAGE_LEAST) ||
		    (place == PLACE_SENTENCE && tokens >= PASSAGE_GOOD))
			return at;
		if (place && place >= best_place && tokens >= PASSAGE_LEAST) {
			best = at;
			best_place = place;
		}
	}
	return tokens_before(&c, c.n) - first > PASSAGE_MOST && best_place ? best : c.n;
}

size_t passages_cut(const char *text, size_t n, const size_t *end, size_t n_token, const struct mark *mark,
                    size_t n_mark, struct passage **out)
{
	struct cutter c = { .text = text, .n = n, .end = end, .n_token = n_token, .mark = mark, .n_mark = n_mark };

	for (size_t from = 0, to; from < n; from = to) {
		to = passage_end(c, from);
		add_passage(&c, from, to);
		c.token = tokens_before(&c, to);
		while (c.marks < c.n_mark && c.mark[c.marks].at < to)
			c.marks++;
	}
	*out = c.out;
	return c.n_out;
}
