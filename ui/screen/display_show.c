/* ui/screen/display_show.c - draws a grid: converts its cells to ncurses cells and writes the rows that changed. */
#include "ui/screen/display_private.h"

#include "ui/text/text.h"
#include "ui/ui.h"

#include <string.h>
#include <wchar.h>

static int pair_of(struct display *d, unsigned style, uint8_t back, const struct look *look)
{
	int *known_pair;
	int fg = look->fg < 0 ? d->own_fg : look->fg, bg = look->bg < 0 ? d->own_bg : look->bg;

	if (!d->colours || (look->fg < 0 && look->bg < 0))
		return 0;
	known_pair = &d->pair[style & STYLE_MASK][back];
	if (!*known_pair) {
		int pair = alloc_pair(fg, bg);
		*known_pair = MAX(0, pair) + 1;
	}
	return *known_pair - 1;
}

attr_t cell_attrs(const struct display *d, unsigned style, const struct look *look)
{
	attr_t a = 0;

	if (look->attrs & LOOK_BOLD)
		a |= A_BOLD;
	if (look->attrs & LOOK_UNDER)
		a |= A_UNDERLINE;
	if (look->attrs & LOOK_REVERSE)
		a |= A_REVERSE;
	if (look->attrs & LOOK_ITALIC)
		a |= d->attrs & A_ITALIC ? A_ITALIC : A_UNDERLINE;
	if (look->attrs & LOOK_FAINT) {
		if (d->attrs & A_DIM)
			a |= A_DIM;
		else if ((style & STYLE_MASK) == ST_EVICTED)
			/* if the terminal has no dim text, underline evicted words to distinguish them from other
			 * words */
			a |= A_UNDERLINE;
	}
	return a;
}

/* ncurses uses wcwidth(), so both wcwidth() and char_width() must return `width` */
int cell_is_showable(const struct display *d, int32_t cp, int width)
{
	if (cp < 0x7f || !d->utf8)
		return cp >= 0x20 && cp < 0x7f && width == 1;
	return char_width(cp) == width && wcwidth((wchar_t)cp) == width;
}

/* Convert a character of `width` columns to ncurses cells. If `hide` is 1, show a replacement. Returns the number of
 * cells, 1 or 2. */
static int convert_cell(struct display *d, const struct cell *c, int width, int hide, cchar_t *out)
{
	wchar_t text[CLEAN_MARKS_MAX + 2];
	unsigned style = (c->style & STYLE_MASK) < ST_COUNT ? c->style : ST_TEXT;
	uint8_t back = c->back < ST_COUNT ? c->back : 0;
	struct look look = theme_look(d->theme, style, back, d->colours);
	attr_t attrs = cell_attrs(d, style, &look);
	int pair = pair_of(d, style, back, &look), good = !hide && cell_is_showable(d, c->cp, width), n = 0;

	text[n++] = good ? (wchar_t)c->cp : d->utf8 ? REPLACEMENT : '?';
	for (int i = 0; good && d->utf8 && i < CLEAN_MARKS_MAX && c->mark[i]; i++)
		if (cell_is_showable(d, c->mark[i], 0))
			text[n++] = (wchar_t)c->mark[i];
	text[n] = 0;
	/* the short argument can hold numbers of pairs up to 255; current ncurses reads larger numbers through the last
	 * argument */
	setcchar(out, text, attrs, (short)(pair < 256 ? pair : 0), &pair);
	if (good || width < 2)
		return 1;
	setcchar(out + 1, L" ", attrs, (short)(pair < 256 ? pair : 0), &pair);
	return 2;
}

static void write_row(struct display *d, const struct grid *g, int y)
{
	cchar_t row[SIDE_MAX + 1];
	const struct cell *c = g->cell + (size_t)y * (size_t)g->w;
	int n = 0;

	for (int x = 0, width; x < g->w; x += width) {
		/* Some terminals scroll after a character in the last cell, and this cannot be turned off. For such a
		 * terminal, ncurses writes the character one column to the left and then shifts it. This would split a
		 * wide character directly before the last cell, so replace a wide character there. */
		int corner = d->awkward_corner && y == g->h - 1 && x == g->w - 3;
		width = c[x].width == 2 && x + 1 < g->w && !c[x + 1].width ? 2 : 1;
		n += convert_cell(d, &c[x], width, corner && width == 2, row + n);
	}
	mvwadd_wchnstr(stdscr, y, 0, row, n);
}

/* Show a grid on the alternate screen. */
static void show_all(struct display *d, const struct grid *g)
{
	size_t row = (size_t)g->w * sizeof *g->cell;
	int first, changed, cursor = g->cursor_y >= 0;

	set_term(d->screen);
	if (g->w != d->shown.w || g->h != d->shown.h) {
		grid_resize(&d->shown, g->w, g->h);
		resizeterm(g->h, g->w);
		d->all = d->clear = 1;
	}
	for (first = 0; !d->all && first < g->h; first++)
		if (memcmp(g->cell + (size_t)first * (size_t)g->w, d->shown.cell + (size_t)first * (size_t)g->w, row))
			break;
	changed = d->all || first < g->h;
	if (!changed && cursor == d->cursor &&
	    (!cursor || (g->cursor_x == d->shown.cursor_x && g->cursor_y == d->shown.cursor_y)))
		return;
	for (int y = first; y < g->h; y++) {
		struct cell *old = d->shown.cell + (size_t)y * (size_t)g->w;
		const struct cell *new = g->cell + (size_t)y *(size_t)g->w;
		if (!d->all && !memcmp(new, old, row))
			continue;
		write_row(d, g, y);
		memcpy(old, new, row);
	}
	d->shown.cursor_x = g->cursor_x;
	d->shown.cursor_y = g->cursor_y;
	display_say(d, FRAME_ON);
	if (d->clear)
		clearok(curscr, TRUE);
	if (cursor != d->cursor)
		curs_set(cursor);
	d->cursor = cursor;
	d->all = d->clear = 0;
	if (cursor)
		wmove(stdscr, g->cursor_y, g->cursor_x);
	wnoutrefresh(stdscr);
	doupdate();
	display_say(d, FRAME_OFF);
}

int display_show(struct display *d, const struct grid *g)
{
	if (d->paused || d->lost || g->w > SIDE_MAX || g->h > SIDE_MAX)
		return 1;
	if (g->flows && d->flow.can) {
		if (d->screen)
			display_stop(d);
		return flow_show(d, g);
	}
	if (d->flow.on)
		flow_cover(d);
	if (!d->screen && display_start(d))
		d->lost = 1; /* memory is short, or there is no terminfo entry: draw nothing more */
	if (!d->lost)
		show_all(d, g);
	return 1;
}
