/* ui/transcript/transcript_draw.c - draws the transcript: text, search matches, folded entries, notes. */
#include "ui/transcript/transcript_private.h"

/* free the lines of entries far from the screen if the layout takes more than this many bytes */
#define LAID_MOST ((size_t)32 << 20)

static void draw_matches(const struct transcript *t, size_t i, const struct run *r, const struct area *a, int x, int y)
{
	const struct entry *e = &t->entry[i];
	const char *p = e->lines.text.p + r->from;
	size_t from = r->source, end = (size_t)r->source + r->n;
	const struct match *m = find_first(t, i, from);
	size_t first, last;

	for (; m && find_in(t, m, i, &first, &last) && first < end; m++) {
		size_t lo = MAX(first, from), hi = MIN(last, end);
		int shown = t->find.has_shown && t->find.shown.entry == m->entry && t->find.shown.from == m->from;

		if (hi > lo)
			area_restyle(a, x + (int)text_width(p, lo - from), y, (int)text_width(p + (lo - from), hi - lo),
			             ST_MATCH | (shown ? STYLE_BOLD : 0));
	}
}

/* Find the cache region (sinks, prefix, ring) that contains the row's first word, and draw a bar in the region's
 * colour. If the word is evicted, draw a dot. */
static void draw_gutter(const struct entry *e, size_t line, const struct area *a, int y)
{
	const struct text_line *l = &e->lines.line[line];
	const struct kept *k = NULL;

	for (size_t r = l->run; r < (size_t)l->run + l->n_run && !k; r++)
		if (e->lines.run[r].source != NO_SOURCE && e->lines.run[r].n)
			k = entry_kept_at(e, e->lines.run[r].source);
	if (!k || (!k->part && k->what != KEPT_NOT))
		return;
	if (k->what == KEPT_NOT)
		area_cell(a, 0, y, 0x00b7, ST_EVICTED, 0);
	else
		area_cell(a, 0, y, 0x258e,
		          ST_PART + (unsigned)(k->part <= PARTS_OF_CACHE ? k->part - 1 : PARTS_OF_CACHE - 1), 0);
}

static void draw_text(const struct transcript *t, size_t i, size_t line, const struct area *a, int y)
{
	const struct entry *e = &t->entry[i];
	int x = e->role == UI_USER ? MARK_COLS : 0;
	const struct text_line *l;

	if (x && !line && !e->part)
		area_text(a, 0, y, ST_QUESTION, "> ", MARK_COLS);
	if (line >= e->lines.n_line)
		return;
	lines_draw(&e->lines, line, a, x, y);
	l = &e->lines.line[line];
	for (size_t k = l->run; k < (size_t)l->run + l->n_run; k++) {
		const struct run *r = &e->lines.run[k];
		if (r->source != NO_SOURCE) {
			if (e->n_kept)
				entry_draw_lens(e, r, a, x, y);
			if (e->underlined.n)
				entry_draw_underlines(e, r, a, x, y);
			if (t->find.n)
				draw_matches(t, i, r, a, x, y);
		}
		x += r->cols;
	}
}

/* Draw, after the first line of a folded entry, how many lines are hidden. The number is an estimate for an entry that
 * was not laid out yet. */
static void draw_fold(const struct transcript *t, size_t i, const struct area *a, int y)
{
	const struct entry *e = &t->entry[i];
	size_t hidden = e->lines.n_line ? e->lines.n_line - 1 : 0;
	struct str s = { 0 };
	int x = e->role == UI_USER ? MARK_COLS : 0;

	for (size_t k = i; t->entry[k].more; k++)
		hidden += entry_open_rows(t, &t->entry[k + 1]) + t->entry[k].gap;
	if (!hidden || !e->lines.n_line)
		return;
	str_addf(&s, " [+%zu %s]", hidden, hidden == 1 ? "line" : "lines");
	for (size_t k = e->lines.line[0].run; k < (size_t)e->lines.line[0].run + e->lines.line[0].n_run; k++)
		x += e->lines.run[k].cols;
	if (x > a->w - (int)s.n)
		x = a->w > (int)s.n ? a->w - (int)s.n : 0;
	area_text(a, x, y, ST_FAINT, s.p, s.n);
	str_free(&s);
}

static void forget_far_lines(struct transcript *t, size_t first, size_t last)
{
	size_t laid = 0;

	for (size_t i = 0; i < t->n; i++)
		laid += t->entry[i].lines.text.n;
	for (size_t i = 0; laid > LAID_MOST && i + 1 < t->n; i++) {
		if (i + 1 >= first && i <= last + 1)
			continue;
		laid -= t->entry[i].lines.text.n;
		entry_drop_lines(&t->entry[i]);
	}
}

/* Maximum width of the text column, because longer lines are hard to read. */
enum { COLUMN_MOST = 100 };

struct area transcript_column(const struct area *all, int gutter)
{
	return area_part(all, gutter, 0, MIN(all->w - gutter, COLUMN_MOST), all->h);
}

void transcript_width(struct transcript *t, int w)
{
	w = MIN(w, COLUMN_MOST);
	if (t->w == w || w < 1)
		return;
	t->w = w;
	transcript_anew(t);
}

static void draw_row(struct transcript *t, size_t i, size_t line, const struct area *all, const struct area *a, int y)
{
	struct entry *e = &t->entry[i];

	if ((e->n_lens || e->n_heat) && !e->lens_fits)
		entry_fit_lens(t, e);
	if (e->folded && !line && !e->part) {
		draw_text(t, i, 0, a, y);
		draw_fold(t, i, a, y);
	} else if (!e->folded && line < e->rows) {
		draw_text(t, i, line, a, y);
		if (a->x > all->x && line < e->lines.n_line)
			draw_gutter(e, line, all, y);
	} else if (!e->folded && line < e->rows + e->note_rows) {
		lines_draw(&e->note_lines, line - e->rows, a, 0, y);
	}
}

size_t transcript_rows(struct transcript *t, size_t i, size_t line, const struct area *all, const struct area *a)
{
	for (int y = 0; y < a->h && i < t->n; y++) {
		while (i < t->n && line >= entry_rows_laid(t, i)) {
			i++;
			line = 0;
		}
		if (i < t->n)
			draw_row(t, i, line++, all, a, y);
	}
	return i;
}

void transcript_draw(struct transcript *t, const struct area *all)
{
	const struct area a = transcript_column(all, all->w > 2 * GUTTER_COLS ? t->gutter : 0);

	transcript_width(t, a.w);
	t->h = a.h > 0 ? a.h : 1;
	t->dirty = 0;
	area_clear(all, ST_TEXT);
	if (!t->n)
		return;
	transcript_settle(t);
	entry_lay_out(t, &t->entry[t->n - 1]); /* the last entry may have grown */
	find_update(t);
	forget_far_lines(t, t->top, transcript_rows(t, t->top, t->line, all, &a));
}
