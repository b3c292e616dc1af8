/* ui/transcript/transcript_sources.c - stores the sources of each turn, and finds which source a screen row names. */
#include "ui/transcript/transcript_private.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Return the turn of an entry: 1 + the index of the last question at or before it. */
static size_t turn_of(const struct transcript *t, size_t entry)
{
	for (size_t i = entry < t->n ? entry + 1 : t->n; i; i--)
		if (t->entry[i - 1].role == UI_USER && !t->entry[i - 1].part)
			return i;
	return 0;
}

size_t transcript_last_turn(const struct transcript *t)
{
	return t->n ? turn_of(t, t->n - 1) : 0;
}

size_t transcript_turn(const struct transcript *t)
{
	size_t entry, turn;

	if (!t->n)
		return 0;
	entry = transcript_focus(t);
	turn = turn_of(t, entry);
	/* If the last visible entry is a question, its answer is below the screen. The visible answer then belongs to
	 * the turn before it. */
	if (turn == entry + 1 && t->jumped >= t->n && !t->follow && entry > t->top && turn_of(t, entry - 1))
		turn = turn_of(t, entry - 1);
	return turn;
}

void transcript_sources(struct transcript *t, size_t message, const struct ui_source *s, size_t n)
{
	size_t turn = message == SIZE_MAX      ? transcript_last_turn(t)
	              : message < t->n_message ? t->message[message] + 1
	                                       : 0;
	struct entry *e = turn ? &t->entry[turn - 1] : NULL;

	if (!e || e->role != UI_USER)
		return;
	free(e->source);
	e->source = n ? xcalloc(n, sizeof *s) : NULL;
	e->n_source = n;
	if (n)
		memcpy(e->source, s, n * sizeof *s);
}

size_t transcript_turn_sources(const struct transcript *t, size_t turn, const struct ui_source **out)
{
	const struct entry *e = turn && turn <= t->n ? &t->entry[turn - 1] : NULL;

	*out = e ? e->source : NULL;
	return e ? e->n_source : 0;
}

/* Return the number in brackets ("[1]") at column x of a line, or else the first number in brackets of the line; 0 =
 * there is none. */
static size_t number_in(const struct lines *l, size_t line, int x)
{
	struct str s = { 0 };
	size_t found = 0;

	for (size_t k = l->line[line].run; k < (size_t)l->line[line].run + l->line[line].n_run; k++)
		str_add(&s, l->text.p + l->run[k].from, l->run[k].n);
	for (size_t i = 0; i + 2 < s.n; i++) {
		size_t n = 0, k = i + 1;

		for (; s.p[i] == '[' && k < s.n && k < i + 3 && byte_is_digit(s.p[k]); k++)
			n = 10 * n + (size_t)(s.p[k] - '0');
		if (n && k < s.n && s.p[k] == ']' && (!found || (int)text_width(s.p, i) <= x))
			found = n;
	}
	str_free(&s);
	return found;
}

size_t transcript_source_at(struct transcript *t, int x, int y, size_t *turn)
{
	size_t entry, line, found = 0;

	x -= t->gutter;
	*turn = 0;
	if (!t->n || y < 0 || y >= t->h)
		return 0;
	transcript_settle(t);
	entry = t->top;
	line = t->line;
	transcript_move(t, &entry, &line, y);
	*turn = turn_of(t, entry);
	/* a line about a source may be wrapped: if this row has no number, look in the rows above it */
	for (line++; t->entry[entry].role == UI_NOTICE && line <= t->entry[entry].lines.n_line && !found && line > 0;
	     line--, x = 0)
		found = number_in(&t->entry[entry].lines, line - 1, x);
	return found;
}
