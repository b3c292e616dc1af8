/* app/summary/sections.c - splits texts into sections (summary.h). */
#include "app/summary/summary.h"
#include "engine/base/sentences.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
	/* number of heading levels (1 to 6) plus 1; a heading of level 6 still ranks above a paragraph break */
	LEVELS = 7,
	TRIES = 12, /* maximum number of tries to find how many bytes of the text have the wanted number of tokens */
};

/* 1 for white space other than the vertical tab. */
static int is_text_blank(char c)
{
	return byte_is_blank(c) && c != '\v';
}

/* Return the index of the first heading at byte `at` or later, or n_heading. */
static size_t heading_from(const struct summary_text *t, size_t at)
{
	size_t lo = 0, hi = t->n_heading;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->heading[mid].at < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

size_t section_end(const struct summary_text *t, size_t from, size_t least, size_t most)
{
	size_t best = from, next = heading_from(t, from + least);
	int best_rank = 0;

	if (t->n - from <= most)
		return t->n;
	for (size_t at = from + (least ? least : 1); at <= from + most; at++) {
		int rank = (int)text_break(t->text, t->n, at);

		for (; next < t->n_heading && t->heading[next].at <= at; next++)
			if (t->heading[next].at == at && rank)
				rank = BREAK_PARAGRAPH + 1 + LEVELS - t->heading[next].level;
		if (rank && rank >= best_rank) {
			best = at;
			best_rank = rank;
		}
	}
	return best > from ? best : from + most;
}

/* Return the number of tokens of n bytes of text; -1 on error. */
static long tokens_of(const struct engine *engine, const char *text, size_t n, struct err *e)
{
	struct tokens id = { 0 };
	long count = engine_tokenize(engine, text, n, 0, &id, e) < 0 ? -1 : (long)id.n;

	tokens_free(&id);
	return count;
}

/* Measure the part of the text that begins at byte `from` and has at most `tokens` tokens, usually more than 7/8 of
 * that number. *out receives the number of bytes of the part. Returns 0 or -1. */
static int bytes_of(const struct engine *engine, const struct summary_text *t, size_t from, int32_t tokens, size_t *out,
                    struct err *e)
{
	size_t left = t->n - from, fits = 1, too_many = left + 1, bytes = (size_t)tokens * 4;

	for (int i = 0; i < TRIES; i++) {
		long n;

		bytes = bytes < left ? utf8_complete(t->text + from, bytes) : left;
		bytes += !bytes;
		n = tokens_of(engine, t->text + from, bytes, e);
		if (n < 0)
			return -1;
		if (n > tokens)
			too_many = bytes;
		else
			fits = bytes;
		if (n <= tokens && (bytes == left || n > tokens - tokens / 8))
			break;
		bytes = bytes * (size_t)tokens / (size_t)(n ? n : 1);
		if (bytes <= fits || bytes >= too_many)
			bytes = fits + (too_many - fits) / 2;
	}
	*out = fits;
	return 0;
}

/* 1 if one of the bytes [from, to) is not blank. */
static int has_text(const struct summary_text *t, size_t from, size_t to)
{
	while (from < to && is_text_blank(t->text[from]))
		from++;
	return from < to;
}

/* Return the text of the heading above the first word after byte `from`, or NULL. */
static const char *heading_of(const struct summary_text *t, size_t from)
{
	size_t i;

	while (from < t->n && is_text_blank(t->text[from]))
		from++;
	i = heading_from(t, from + 1);
	return i ? t->heading[i - 1].text : NULL;
}

int sections_cut(const struct engine *engine, const struct summary_text *text, size_t n_text, int32_t tokens,
                 struct section **out, size_t *n, struct err *e)
{
	struct section *list = NULL;
	size_t cap = 0;

	*n = 0;
	for (size_t k = 0; k < n_text; k++) {
		const struct summary_text *t = &text[k];

		for (size_t from = 0, to, most; from < t->n; from = to) {
			if (bytes_of(engine, t, from, tokens, &most, e) < 0) {
				free(list);
				return -1;
			}
			/* If the rest is 1 to 1.5 sections long, split it near the middle. Otherwise the last section
			 * could be tiny. */
			if (t->n - from > most && t->n - from < most + most / 2)
				to = section_end(t, from, (t->n - from) / 3, 2 * (t->n - from) / 3);
			else
				to = section_end(t, from, most / 2, most);
			if (!has_text(t, from, to))
				continue;
			GROW(list, *n, cap);
			list[(*n)++] =
				(struct section){ .text = k, .from = from, .to = to, .heading = heading_of(t, from) };
		}
	}
	*out = list;
	return 0;
}
