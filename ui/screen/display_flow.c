/* ui/screen/display_flow.c - shows an inline grid (grid.flows): rows on the terminal's normal screen, below what was
 * written before, without ncurses.
 *
 * The region consists of the rows that may still change: the last rows of the conversation, and the fixed rows below
 * them, such as the input line. The cursor moves only relative to the region's first row. So the region may be anywhere
 * on the screen, for example below output of the shell. Line feeds at the bottom scroll rows into the terminal's
 * scrollback. To add a row above the fixed rows, a line feed makes room at the bottom, and a line is inserted above the
 * fixed rows. So the fixed rows need not be written again.
 *
 * In terminals that cannot insert lines, the fixed rows are written again. After a resize, the region is erased and
 * written again. Rows that have scrolled away are never changed. */
#include "ui/screen/display_private.h"

#include "engine/base/utf8.h"
#include "ui/ui.h"

#include <term.h>

#include <stdlib.h>
#include <string.h>

enum {
	/* if at most this number of unchanged cells are between two changed cells, they are written again: moving the
	 * cursor over them would take more bytes */
	SHORT_GAP = 4,
	/* minimum number of bytes of a frame that is enclosed in FRAME_ON and FRAME_OFF */
	FRAME_FROM = 256,
	KEPT_ROWS = 512, /* an even number, because keep_row() drops half of the rows */
};

/* ---- which terminal ---- */

static int begins_with(const char *s, const char *prefix)
{
	return s && !strncmp(s, prefix, strlen(prefix));
}

static int string_begins(const char *name, const char *with)
{
	const char *s = tigetstr(name);

	return s != (const char *)-1 && begins_with(s, with);
}

void flow_look_up(struct display *d)
{
	TERMINAL *current = cur_term;
	int status;

	if (setupterm(d->entry, d->fd, &status) == OK) {
		d->flow.can = string_begins("cuu", "\33[%p1%dA") && string_begins("cuf", "\33[%p1%dC") &&
		              string_begins("ed", "\33[J") && string_begins("el", "\33[K");
		d->has_alternate = terminal_has_alternate();
		d->flow.inserts = string_begins("il1", "\33[L") && string_begins("dl1", "\33[M");
		d->flow.colours = tigetnum("colors") == 256 ? 256 : tigetnum("colors") >= 8 ? 8 : 0;
		d->flow.attrs =
			(string_begins("dim", "\33[2m") ? A_DIM : 0) | (string_begins("sitm", "\33[3m") ? A_ITALIC : 0);
	}
	if (cur_term && cur_term != current)
		del_curterm(set_curterm(current));
}

int display_can_flow(const struct display *d)
{
	return d->flow.can;
}

/* 1 if the terminal probably wraps the rows of its screen when it becomes narrower; 0 if it is known to truncate
 * them. */
static int rewraps(void)
{
	static const char *const cuts[] = { "linux", "screen", "vt", "st-", "rxvt" };
	const char *term = getenv("TERM");

	if (getenv("TMUX"))
		return 1;
	for (size_t i = 0; i < LEN(cuts); i++)
		if (begins_with(term, cuts[i]))
			return 0;
	return !getenv("XTERM_VERSION");
}

/* ---- moving ---- */

static void pen_set(struct display *d, struct str *out, const struct look *l, attr_t attrs)
{
	const char *plain = d->flow.fg < 0 && d->flow.bg < 0 && !d->flow.pen ? "" : "0;";
	static const struct {
		attr_t attr;
		int number;
	} sgr[] = { { A_BOLD, 1 }, { A_DIM, 2 }, { A_ITALIC, 3 }, { A_UNDERLINE, 4 }, { A_REVERSE, 7 } };

	if (d->flow.fg == l->fg && d->flow.bg == l->bg && d->flow.pen == attrs)
		return;
	d->flow.fg = l->fg;
	d->flow.bg = l->bg;
	d->flow.pen = attrs;
	if (l->fg < 0 && l->bg < 0 && !attrs) {
		str_adds(out, "\33[m");
		return;
	}
	str_addf(out, "\33[%s", plain);
	for (size_t i = 0; i < LEN(sgr); i++)
		if (attrs & sgr[i].attr)
			str_addf(out, "%d;", sgr[i].number);
	if (l->fg >= 8)
		str_addf(out, "38;5;%d;", l->fg);
	else if (l->fg >= 0)
		str_addf(out, "%d;", 30 + l->fg);
	if (l->bg >= 8)
		str_addf(out, "48;5;%d;", l->bg);
	else if (l->bg >= 0)
		str_addf(out, "%d;", 40 + l->bg);
	out->p[out->n - 1] = 'm';
}

static void pen_plain(struct display *d, struct str *out)
{
	pen_set(d, out, &(struct look){ -1, -1, 0 }, 0);
}

static void step(struct str *out, int n, char how)
{
	if (n == 1)
		str_addf(out, "\33[%c", how);
	else if (n > 1)
		str_addf(out, "\33[%d%c", n, how);
}

static void go(struct display *d, struct str *out, int x, int y)
{
	step(out, d->flow.y - y, 'A');
	step(out, y - d->flow.y, 'B');
	/* after a character in the last column, terminals disagree about where the cursor is */
	if (x != d->flow.x && (!x || d->flow.x >= d->flow.shown.w || (x < d->flow.x && d->flow.x - x > x))) {
		str_adds(out, "\r");
		d->flow.x = 0;
	}
	step(out, d->flow.x - x, 'D');
	step(out, x - d->flow.x, 'C');
	d->flow.x = x;
	d->flow.y = y;
}

/* ---- rows ---- */

static int is_empty(const struct display *d, const struct cell *c)
{
	struct look l = theme_look(d->theme, c->style, c->back, d->colours);

	return c->cp == ' ' && !c->mark[0] && l.bg < 0 && !(l.attrs & (LOOK_REVERSE | LOOK_UNDER));
}

static int row_end(const struct display *d, const struct cell *c, int w)
{
	while (w && is_empty(d, &c[w - 1]))
		w--;
	return w;
}

static void put_cell(struct display *d, struct str *out, const struct cell *c, int width)
{
	struct look l = theme_look(d->theme, c->style, c->back, d->colours);
	int good = cell_is_showable(d, c->cp, width);
	char utf8[4];

	pen_set(d, out, &l, cell_attrs(d, c->style, &l));
	if (!good && !d->utf8)
		str_add(out, "?", 1);
	else
		str_add(out, utf8, (size_t)utf8_encode(good ? c->cp : REPLACEMENT, utf8));
	for (int i = 0; good && d->utf8 && i < CLEAN_MARKS_MAX && c->mark[i]; i++)
		if (cell_is_showable(d, c->mark[i], 0))
			str_add(out, utf8, (size_t)utf8_encode(c->mark[i], utf8));
	if (!good && width == 2)
		str_add(out, " ", 1);
	d->flow.x += width;
}

/* Write the cells in which row y of the grid differs from row y of the region. */
static void put_row(struct display *d, struct str *out, const struct grid *g, int y)
{
	const struct cell *new = g->cell + (size_t)y *(size_t)g->w;
	struct cell *old = d->flow.shown.cell + (size_t)y * (size_t)g->w;
	int end = row_end(d, new, g->w), had = row_end(d, old, g->w), width;

	for (int x = 0; x < end; x += width) {
		int pair = new[x].width == 2 && x + 1 < g->w && !new[x + 1].width;

		width = pair ? 2 : 1;
		if (!memcmp(&new[x], &old[x], (size_t)width * sizeof *new))
			continue;
		/* if only a few unchanged cells come before this one, write them again, because that takes fewer bytes
		 * than moving the cursor */
		if (d->flow.y == y && d->flow.x < x && x - d->flow.x <= SHORT_GAP)
			for (int i = d->flow.x, wide; i < x; i += wide) {
				wide = new[i].width == 2 ? 2 : 1;
				put_cell(d, out, &new[i], wide);
			}
		go(d, out, x, y);
		put_cell(d, out, &new[x], width);
	}
	if (had > end) {
		go(d, out, end, y);
		pen_plain(d, out);
		str_adds(out, "\33[K");
	}
	memcpy(old, new, (size_t)g->w * sizeof *new);
}

/* Change the height of the region to h rows. If it grows, insert blank rows before row `at`. If it shrinks, delete
 * rows, beginning with row `at`. */
static void region_height(struct display *d, int w, int h, int at)
{
	struct grid *s = &d->flow.shown, old = *s;
	int moved = h - old.h;

	*s = (struct grid){ 0 };
	grid_resize(s, w, h);
	for (int y = 0; y < old.h && old.w == w; y++) {
		int to = y < at ? y : y + moved;

		if (to < h && (moved >= 0 || y < at || y >= at - moved))
			memcpy(s->cell + (size_t)to * (size_t)w, old.cell + (size_t)y * (size_t)w,
			       (size_t)w * sizeof *s->cell);
	}
	grid_free(&old);
}

/* Write the rows of the grid from row `from` on, with line feeds between them. The cursor is in row `from`; this row
 * and all rows below it are blank. */
static void put_rows_below(struct display *d, struct str *out, const struct grid *g, int from)
{
	for (int y = from; y < g->h; y++) {
		if (y > from) {
			pen_plain(d, out);
			str_adds(out, "\r\n");
			d->flow.x = 0;
			d->flow.y = y;
		}
		put_row(d, out, g, y);
	}
}

/* Erase the region from row y on. */
static void erase_from(struct display *d, struct str *out, int y)
{
	go(d, out, 0, y);
	pen_plain(d, out);
	str_adds(out, "\33[J");
}

/* ---- rows that scroll away ---- */

/* Write the last n of the kept rows at the cursor, and begin a new region below them. */
static void put_kept(struct display *d, struct str *out, int n)
{
	const struct grid *k = &d->flow.kept;
	struct grid again = { .w = k->w, .h = n };

	grid_free(&d->flow.shown);
	d->flow.x = d->flow.y = d->flow.below = d->flow.over = 0;
	if (!n)
		return;
	again.cell = k->cell + (size_t)(d->flow.n_kept - n) * (size_t)k->w;
	region_height(d, k->w, n, 0);
	put_rows_below(d, out, &again, 0);
	pen_plain(d, out);
	str_adds(out, "\r\n");
	grid_free(&d->flow.shown);
	d->flow.x = d->flow.y = 0;
}

/* Cover `over` rows above the region with rows of the region, and show those again that were covered before and are
 * covered no longer. */
static void region_cover(struct display *d, struct str *out, int over)
{
	struct grid *s = &d->flow.shown, k = d->flow.kept;
	int had = d->flow.over, more = over - had;

	k.cell += (size_t)(d->flow.n_kept - MAX(had, over)) * (size_t)k.w;
	for (int y = 0; y < -more; y++)
		put_row(d, out, &k, y);
	if (more)
		region_height(d, s->w, s->h + more, 0);
	if (more > 0)
		memcpy(s->cell, k.cell, (size_t)more * (size_t)k.w * sizeof *s->cell);
	d->flow.y += more;
	d->flow.over = over;
}

int display_above(const struct display *d)
{
	return d->flow.above;
}

/* Return the number of rows of a terminal of h rows that are above the region, if the region and the empty rows below
 * it end at the bottom. */
static int rows_above(const struct display *d, int h)
{
	return MAX(h - (d->flow.shown.h - d->flow.over) - d->flow.below, 0);
}

/* Erase the region. `w` is the number of columns of the terminal, which may have changed since the region was
 * written. */
static void region_erase(struct display *d, struct str *out, int w)
{
	const struct grid *s = &d->flow.shown;
	int up = d->flow.y, wraps = w < s->w && rewraps();

	for (int y = 0; wraps && y < d->flow.y; y++)
		up += MAX(row_end(d, s->cell + (size_t)y * (size_t)s->w, s->w) - 1, 0) / w;
	up += wraps ? MAX(d->flow.x - 1, 0) / w : 0;
	str_adds(out, "\r");
	step(out, up, 'A');
	pen_plain(d, out);
	str_adds(out, "\33[J");
	put_kept(d, out, d->flow.over);
	d->flow.above = 0;
}

/* Change the width of the kept rows, by truncating or extending them. */
static void kept_width(struct grid *k, int w)
{
	struct grid old = *k;

	*k = (struct grid){ 0 };
	grid_resize(k, w, KEPT_ROWS);
	for (int y = 0; y < old.h; y++)
		memcpy(k->cell + (size_t)y * (size_t)w, old.cell + (size_t)y * (size_t)old.w,
		       (size_t)MIN(w, old.w) * sizeof *k->cell);
	grid_free(&old);
}

/* Keep a copy of a final row, for put_kept() and region_cover(). */
static void keep_row(struct display *d, const struct cell *row, int w)
{
	struct grid *k = &d->flow.kept;
	size_t half = (size_t)(KEPT_ROWS / 2) * (size_t)w;

	if (k->w != w)
		kept_width(k, w);
	if (d->flow.n_kept == KEPT_ROWS) {
		memcpy(k->cell, k->cell + half, half * sizeof *k->cell);
		d->flow.n_kept = KEPT_ROWS / 2;
	}
	memcpy(k->cell + (size_t)d->flow.n_kept++ * (size_t)w, row, (size_t)w * sizeof *k->cell);
}

/* Restore the normal screen after a pane covered it, on terminals without an alternate screen: write those of the kept
 * rows that were on it. */
static void bring_back(struct display *d, struct str *out)
{
	str_adds(out, "\33[H\33[J");
	put_kept(d, out, MIN(d->flow.n_kept, rows_above(d, d->flow.shown_at)));
	d->flow.above = 0;
}

static void drop_final(struct display *d, const struct grid *g)
{
	struct grid *s = &d->flow.shown;

	for (int y = 0; y < g->final; y++)
		keep_row(d, g->cell + (size_t)y * (size_t)g->w, g->w);
	memmove(s->cell, s->cell + (size_t)g->final * (size_t)s->w,
	        (size_t)(s->h - g->final) * (size_t)s->w * sizeof *s->cell);
	s->h -= g->final;
	d->flow.y -= g->final;
	d->flow.above = MIN(MIN(d->flow.above + g->final, d->flow.n_kept), rows_above(d, d->flow.h));
}

/* ---- a frame ---- */

/* Make the region as high as the grid. Returns the first row that must be written with put_rows_below(), because it and
 * all rows below it are blank. Returns the height of the grid if there is no such row. */
static int region_fit(struct display *d, struct str *out, const struct grid *g)
{
	int had = d->flow.shown.h, text = had - d->flow.fixed, more = g->h - had, at = MIN(text, g->h - g->fixed);

	d->flow.below = MAX(d->flow.below - more, 0);
	if (!had) {
		pen_plain(d, out);
		str_adds(out, "\r\33[J");
		d->flow.x = d->flow.y = 0;
		region_height(d, g->w, g->h, 0);
		return 0;
	}
	if (!more && g->fixed == d->flow.fixed)
		return g->h;
	if (g->fixed == d->flow.fixed && d->flow.inserts && g->h <= d->flow.h) {
		pen_plain(d, out);
		if (more > 0) {
			go(d, out, 0, had - 1);
			for (int i = 0; i < more; i++)
				str_adds(out, "\n");
			d->flow.y += more;
		}
		go(d, out, 0, at);
		step(out, more, 'L');
		step(out, -more, 'M');
		region_height(d, g->w, g->h, at);
		return g->h;
	}
	/* Update the rows above row `at` first. When the rows below them are written, the terminal may scroll them
	 * away. */
	for (int y = 0; y < at; y++)
		put_row(d, out, g, y);
	erase_from(d, out, at);
	region_height(d, g->w, at, at);
	region_height(d, g->w, g->h, at);
	return at;
}

int flow_show(struct display *d, const struct grid *g)
{
	struct str out = { 0 };
	int w, h, below, cursor = g->cursor_y >= 0;

	display_size(d, &w, &h);
	if (w != g->w)
		return 0;
	if (!d->flow.on)
		flow_begin(d);
	d->flow.h = h;
	if (d->flow.was_covered) { /* ncurses has left the cursor in the first column */
		str_adds(&out, "\r");
		d->flow.x = 0;
	}
	if (d->flow.was_covered && !d->has_alternate)
		bring_back(d, &out);
	else if (d->flow.shown.h && (d->all || w != d->flow.shown.w || h != d->flow.shown_at))
		region_erase(d, &out, w);
	d->all = d->clear = d->flow.was_covered = 0;
	d->flow.shown_at = h;
	region_cover(d, &out, MIN(g->over, d->flow.above));
	below = region_fit(d, &out, g);
	for (int y = 0; y < below; y++)
		put_row(d, &out, g, y);
	if (below < g->h)
		put_rows_below(d, &out, g, below);
	d->flow.fixed = g->fixed;
	go(d, &out, cursor ? g->cursor_x : 0, cursor ? g->cursor_y : g->final);
	if (cursor != d->cursor)
		str_adds(&out, cursor ? "\33[?25h" : "\33[?25l");
	d->cursor = cursor;
	drop_final(d, g);
	if (out.n >= FRAME_FROM)
		display_say(d, FRAME_ON);
	display_say(d, str_text(&out));
	if (out.n >= FRAME_FROM)
		display_say(d, FRAME_OFF);
	str_free(&out);
	return 1;
}

/* ---- beginning and ending ---- */

void flow_begin(struct display *d)
{
	struct termios t = d->before;

	t.c_iflag &= ~(tcflag_t)(INLCR | IGNCR | ICRNL | ISTRIP | IXON | BRKINT);
	t.c_oflag &= ~(tcflag_t)ONLCR;
	t.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
	t.c_cc[VMIN] = 1;
	t.c_cc[VTIME] = 0;
	tcsetattr(d->fd, TCSADRAIN, &t);
	display_reset_shows(1);
	display_say(d, PASTE_ON);
	d->flow.on = 1;
	d->flow.fg = d->flow.bg = -1;
	d->flow.pen = 0;
	d->cursor = -1;
	if (d->want_colours)
		d->colours = d->flow.colours;
	d->attrs = d->flow.attrs;
}

void flow_cover(struct display *d)
{
	struct str out = { 0 };

	pen_plain(d, &out);
	display_say(d, str_text(&out));
	str_free(&out);
	d->flow.on = 0;
	d->flow.was_covered = 1;
}

void display_hide(struct display *d)
{
	struct str out = { 0 };
	int w, h;

	if (!d->flow.on || !d->flow.shown.h)
		return;
	display_size(d, &w, &h);
	region_erase(d, &out, w);
	display_say(d, str_text(&out));
	str_free(&out);
}

void flow_end(struct display *d)
{
	struct str out = { 0 };
	int w, h;

	display_size(d, &w, &h);
	if (d->flow.shown.h)
		region_erase(d, &out, w);
	pen_plain(d, &out);
	str_adds(&out, "\33[?25h" PASTE_OFF);
	display_say(d, str_text(&out));
	str_free(&out);
	tcsetattr(d->fd, TCSADRAIN, &d->before);
	d->flow.on = 0;
}
