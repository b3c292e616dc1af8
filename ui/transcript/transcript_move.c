/* ui/transcript/transcript_move.c - which rows of the transcript are visible: scrolling, jumping to questions,
 * folding. A position is an entry and an offset in its text, so that it stays valid when the width changes or text
 * is added. */
#include "ui/transcript/transcript_private.h"

#include <string.h>

int transcript_is_before(size_t entry, size_t line, size_t entry2, size_t line2)
{
	return entry < entry2 || (entry == entry2 && line < line2);
}

void transcript_move(struct transcript *t, size_t *entry, size_t *line, long rows)
{
	while (rows > 0) {
		size_t here = entry_rows_laid(t, *entry);
		if (*line + (size_t)rows < here) {
			*line += (size_t)rows;
			return;
		}
		if (*entry + 1 >= t->n) {
			*line = here ? here - 1 : 0;
			return;
		}
		rows -= here > *line ? (long)(here - *line) : 0;
		++*entry;
		*line = 0;
	}
	while (rows < 0) {
		if (*line >= (size_t)-rows) {
			*line -= (size_t)-rows;
			return;
		}
		rows += (long)*line;
		*line = 0;
		if (!*entry)
			return;
		--*entry;
		*line = entry_rows_laid(t, *entry);
	}
}

void transcript_bottom(struct transcript *t, size_t *entry, size_t *line)
{
	*entry = *line = 0;
	if (!t->n)
		return;
	*entry = t->n - 1;
	*line = entry_rows_laid(t, *entry);
	transcript_move(t, entry, line, -(long)t->h);
}

void transcript_at(struct transcript *t, size_t entry, size_t line)
{
	struct entry *e = &t->entry[entry];

	entry_lay_out(t, e);
	t->follow = 0;
	t->top = entry;
	t->line = line;
	t->pos_stamp = t->stamp;
	t->pos_n = e->laid_n;
	t->behind = line >= e->lines.n_line;
	t->source = t->behind ? (uint32_t)(line - e->lines.n_line) : e->lines.line[line].source;
	t->dirty = 1;
}

/* Return the index of the line that shows byte `source`. */
static size_t line_of(const struct lines *l, uint32_t source)
{
	size_t lo = 0, hi = l->n_line;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (l->line[mid].source < source)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < l->n_line && l->line[lo].source == source)
		return lo;
	return lo ? lo - 1 : 0;
}

void transcript_settle(struct transcript *t)
{
	struct entry *e;
	size_t rows;

	if (!t->n) {
		t->top = t->line = 0;
		return;
	}
	if (t->follow) {
		transcript_bottom(t, &t->top, &t->line);
		return;
	}
	e = &t->entry[t->top];
	rows = entry_rows_laid(t, t->top);
	if (t->pos_stamp != t->stamp || t->pos_n != e->laid_n) {
		t->line = t->behind ? e->lines.n_line + t->source : line_of(&e->lines, t->source);
		t->pos_stamp = t->stamp;
		t->pos_n = e->laid_n;
	}
	if (t->line >= rows)
		t->line = rows ? rows - 1 : 0;
}

/* 1 if the whole transcript fits on the screen. */
static int fits_screen(struct transcript *t)
{
	size_t entry, line;

	transcript_bottom(t, &entry, &line);
	return !entry && !line;
}

void transcript_scroll(struct transcript *t, int lines)
{
	size_t entry, line, end, end_line;

	if (!t->n || !lines)
		return;
	transcript_settle(t);
	t->jumped = SIZE_MAX;
	t->dirty = 1;
	entry = t->top;
	line = t->line;
	transcript_move(t, &entry, &line, lines);
	transcript_bottom(t, &end, &end_line);
	if (lines > 0 ? !transcript_is_before(entry, line, end, end_line) : !end && !end_line)
		t->follow = 1;
	else
		transcript_at(t, entry, line);
}

void transcript_page(struct transcript *t, double pages)
{
	/* a whole page keeps one row of the previous page */
	double rows = pages * (t->h > 2 && (pages == 1 || pages == -1) ? t->h - 1 : t->h);

	if (rows > 1e6 || rows < -1e6)
		rows = rows > 0 ? 1e6 : -1e6;
	if (rows > -1 && rows < 1)
		rows = pages > 0 ? 1 : pages < 0 ? -1 : 0;
	transcript_scroll(t, (int)rows);
}

void transcript_top(struct transcript *t)
{
	if (!t->n)
		return;
	t->jumped = SIZE_MAX;
	t->dirty = 1;
	if (fits_screen(t))
		t->follow = 1;
	else
		transcript_at(t, 0, 0);
}

void transcript_end_follow(struct transcript *t)
{
	t->jumped = SIZE_MAX;
	t->follow = t->dirty = 1;
}

/* Encode the position: bits 33 and up: entry + 1; bit 32: `behind`; bits 0 to 31: `source` (see struct
 * transcript). */
uint64_t transcript_position(const struct transcript *t)
{
	if (t->follow || !t->n)
		return 0;
	return (uint64_t)(t->top + 1) << 33 | (uint64_t)(t->behind & 1) << 32 | t->source;
}

void transcript_go(struct transcript *t, uint64_t position)
{
	size_t entry = (size_t)(position >> 33);

	if (!position) {
		transcript_end_follow(t);
		return;
	}
	if (entry > t->n)
		return;
	t->top = entry - 1;
	t->behind = position >> 32 & 1;
	t->source = (uint32_t)position;
	t->pos_stamp = 0;
	t->follow = 0;
	t->jumped = SIZE_MAX;
	t->dirty = 1;
}

int transcript_question(struct transcript *t, int step)
{
	size_t i;

	if (!t->n || !step)
		return 0;
	transcript_settle(t);
	if (t->jumped < t->n)
		i = t->jumped;
	else if (t->follow)
		/* start after the last entry, so that one step up reaches the last question, whether it is visible or
		 * not */
		i = t->n;
	else
		i = t->top + (step < 0 && t->line > 0);
	do {
		if (step < 0 ? i == 0 : i + 1 >= t->n)
			return 0;
		i += step < 0 ? (size_t)-1 : 1;
	} while (t->entry[i].role != UI_USER || t->entry[i].part);
	transcript_at(t, i, 0);
	t->jumped = i;
	return 1;
}

/* Return the first run of a line that shows text of the entry and not a bullet or bar; if `last` is 1, the last such
 * run. NULL = there is none. */
static const struct run *text_run(const struct lines *l, size_t line, int last)
{
	const struct run *found = NULL;

	for (size_t k = l->line[line].run; k < (size_t)l->line[line].run + l->line[line].n_run && (last || !found); k++)
		if (l->run[k].source != NO_SOURCE && l->run[k].n)
			found = &l->run[k];
	return found;
}

int transcript_row_continues(struct transcript *t, int y)
{
	const struct run *before, *here;
	const struct entry *e;
	size_t entry, line;

	if (!t->n || y < 1 || y >= t->h)
		return 0;
	transcript_settle(t);
	entry = t->top;
	line = t->line;
	transcript_move(t, &entry, &line, y);
	e = &t->entry[entry];
	if (!line || line >= e->lines.n_line || e->folded)
		return 0;
	before = text_run(&e->lines, line - 1, 1);
	here = text_run(&e->lines, line, 0);
	if (!before || !here || here->source < before->source + before->n || here->source > e->clean.n ||
	    memchr(e->clean.p + before->source + before->n, '\n', here->source - before->source - before->n))
		return 0;
	return here->source > before->source + before->n ? 1 : 2;
}

int transcript_hold(struct transcript *t)
{
	if (!t->n || !t->follow)
		return 0;
	transcript_settle(t);
	transcript_at(t, t->top, t->line);
	return 1;
}

static size_t last_seen(const struct transcript *t)
{
	size_t i = t->top, rows;

	if (t->follow || !t->n)
		return t->n ? t->n - 1 : 0;
	rows = (size_t)t->h + t->line;
	/* An entry is not visible if the screen has room only for the empty row before it. */
	for (; i + 1 < t->n && rows > entry_rows(t, i); i++)
		rows -= entry_rows(t, i);
	return i;
}

size_t transcript_focus(const struct transcript *t)
{
	return t->jumped < t->n ? t->jumped : entry_first(t, last_seen(t));
}

void transcript_fold_last(struct transcript *t)
{
	if (!t->n)
		return;
	entry_fold(t, entry_first(t, t->n - 1), 1);
	t->dirty = 1;
}

int transcript_unfold_at(struct transcript *t, int y)
{
	size_t entry, line;

	if (!t->n || y < 0 || y >= t->h)
		return 0;
	transcript_settle(t);
	entry = t->top;
	line = t->line;
	transcript_move(t, &entry, &line, y);
	if (!t->entry[entry].folded || line)
		return 0;
	entry_fold(t, entry_first(t, entry), 0);
	t->dirty = 1;
	return 1;
}

void transcript_fold(struct transcript *t)
{
	size_t i;

	if (!t->n)
		return;
	transcript_settle(t);
	i = transcript_focus(t);
	for (size_t k = last_seen(t) + 1, none = t->jumped >= t->n; none && k-- > t->top;)
		if (t->entry[k].folded) {
			i = entry_first(t, k);
			break;
		}
	entry_fold(t, i, !t->entry[i].folded);
	t->jumped = i; /* if the key is pressed again, the same entry is folded or unfolded */
	if (!t->follow && entry_first(t, t->top) == i)
		transcript_at(t, i, 0);
	t->dirty = 1;
}

size_t transcript_below(const struct transcript *t)
{
	size_t rows = 0, shown = (size_t)t->h;

	if (t->follow || !t->n)
		return 0;
	for (size_t i = t->top; i < t->n; i++)
		rows += entry_rows(t, i);
	rows -= MIN(t->line, rows);
	return rows > shown ? rows - shown : 0;
}
