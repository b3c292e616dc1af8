/* tests/app/svg.c - a screen of cells as an SVG file.
 *
 * A cell is 10 wide and 20 high. Backgrounds and block characters become one path for each colour, under the text;
 * other characters become one <text> for each run of cells that look alike, stretched to the width of its cells, so
 * that columns are aligned in every monospace font. Each element is on its own line, so that a change of the screen
 * gives a readable diff. */
#include "tests/app/svg.h"

#include "ui/screen/theme.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_W = 10, CELL_H = 20, MARGIN = 15, COLOURS = 258, OWN_TEXT = 256, OWN_BACK = 257 };

/* ---- colours ---- */

/* Write the name of a colour in the palette of a dark or a light terminal. Colours 16 to 255 are the same in every
 * terminal. */
static void colour_name(int light, int colour, char out[8])
{
	static const char *const palette[2][16] = {
		{ "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4", "#6e7681",
		  "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc" },
		{ "#24292f", "#cf222e", "#116329", "#9a6700", "#0969da", "#8250df", "#1b7c83", "#6e7781", "#57606a",
		  "#a40e26", "#1a7f37", "#bf8700", "#218bff", "#a475f9", "#3192aa", "#8c959f" },
	};
	static const int step[6] = { 0, 95, 135, 175, 215, 255 };

	if (colour == OWN_TEXT) {
		snprintf(out, 8, light ? "#24292f" : "#d7dde4");
	} else if (colour == OWN_BACK) {
		snprintf(out, 8, light ? "#ffffff" : "#0d1117");
	} else if (colour < 16) {
		snprintf(out, 8, "%s", palette[light][colour]);
	} else if (colour < 232) {
		colour -= 16;
		snprintf(out, 8, "#%02x%02x%02x", step[colour / 36], step[colour / 6 % 6], step[colour % 6]);
	} else {
		uint8_t grey = (uint8_t)(8 + 10 * (colour - 232));
		snprintf(out, 8, "#%02x%02x%02x", grey, grey, grey);
	}
}

/* Return the look of a cell. Explicit colours replace the terminal's default colours, and the two colours of a reversed
 * cell are swapped. */
static struct look look_of(const struct theme *theme, const struct cell *c)
{
	struct look look = theme_look(theme, c->style, c->back, 256);
	int16_t fg = look.fg < 0 ? OWN_TEXT : look.fg, bg = look.bg < 0 ? OWN_BACK : look.bg;

	look.fg = look.attrs & LOOK_REVERSE ? bg : fg;
	look.bg = look.attrs & LOOK_REVERSE ? fg : bg;
	return look;
}

static int looks_equal(struct look a, struct look b)
{
	return a.fg == b.fg && a.bg == b.bg && a.attrs == b.attrs;
}

/* ---- rectangles ---- */

/* Rectangles of one colour and opacity, as the data of a path. */
struct layer {
	int used;
	struct str path;
};
enum { STRENGTHS = 4 };
struct picture {
	const struct grid *grid;
	const struct theme *theme;
	int light;
	struct layer back[COLOURS], block[COLOURS][STRENGTHS + 1]; /* block: [colour][opacity in quarters] */
	struct str text;
};

static void add_rect(struct layer *l, int x, int y, int w, int h)
{
	l->used = 1;
	str_addf(&l->path, "M%d %dh%dv%dh-%dz", x, y, w, h, w);
}

/* Describe a block character by its opacity in quarters and the rows that it fills, in 20ths of the cell. Returns 0 if
 * the character is no block. */
static int block_of(int32_t cp, int *strength, int *top, int *high)
{
	*strength = STRENGTHS;
	*top = 0;
	*high = CELL_H;
	if (cp == 0x2580) { /* upper half */
		*high = CELL_H / 2;
	} else if (cp >= 0x2581 && cp <= 0x2588) { /* lower eighths, full */
		*high = CELL_H * (cp - 0x2580) / 8;
		*top = CELL_H - *high;
	} else if (cp >= 0x2591 && cp <= 0x2593) { /* light, medium and dark shade */
		*strength = cp - 0x2590;
	} else {
		return 0;
	}
	return 1;
}

static void paint_row(struct picture *p, int y)
{
	const struct cell *row = p->grid->cell + (size_t)y * (size_t)p->grid->w;

	for (int x = 0, n; x < p->grid->w; x += n) {
		struct look look = look_of(p->theme, row + x);
		for (n = 1; x + n < p->grid->w && look_of(p->theme, row + x + n).bg == look.bg; n++)
			;
		if (look.bg != OWN_BACK)
			add_rect(&p->back[look.bg], x * CELL_W, y * CELL_H, n * CELL_W, CELL_H);
	}
	for (int x = 0, n, strength, top, high; x < p->grid->w; x += n) {
		int16_t fg = look_of(p->theme, row + x).fg;
		n = 1;
		if (!block_of(row[x].cp, &strength, &top, &high))
			continue;
		while (x + n < p->grid->w && row[x + n].cp == row[x].cp && look_of(p->theme, row + x + n).fg == fg)
			n++;
		add_rect(&p->block[fg][strength], x * CELL_W, y * CELL_H + top, n * CELL_W, high);
	}
}

/* ---- text ---- */

static int is_blank(const struct cell *c)
{
	int strength, top, high;

	return (c->cp == ' ' && !c->mark[0]) || block_of(c->cp, &strength, &top, &high);
}

static void add_character(struct str *out, int32_t cp)
{
	char s[4];

	switch (cp) {
	case '&': str_adds(out, "&amp;"); break;
	case '<': str_adds(out, "&lt;"); break;
	case '>': str_adds(out, "&gt;"); break;
	default: str_add(out, s, (size_t)utf8_encode(cp, s));
	}
}

static void add_run(struct picture *p, int x, int y, int n, struct look look)
{
	const struct cell *c = p->grid->cell + (size_t)y * (size_t)p->grid->w + x;
	char colour[8];

	colour_name(p->light, look.fg, colour);
	str_addf(&p->text, "<text x=\"%d\" y=\"%d\" textLength=\"%d\" fill=\"%s\"", x * CELL_W, y * CELL_H + 15,
	         n * CELL_W, colour);
	if (look.attrs & LOOK_BOLD)
		str_adds(&p->text, " font-weight=\"bold\"");
	if (look.attrs & LOOK_ITALIC)
		str_adds(&p->text, " font-style=\"italic\"");
	if (look.attrs & LOOK_UNDER)
		str_adds(&p->text, " text-decoration=\"underline\"");
	if (look.attrs & LOOK_FAINT)
		str_adds(&p->text, " opacity=\".7\"");
	str_adds(&p->text, ">");
	for (int i = 0; i < n; i++) {
		if (!c[i].width)
			continue;
		add_character(&p->text, c[i].cp);
		for (int k = 0; k < CLEAN_MARKS_MAX && c[i].mark[k]; k++)
			add_character(&p->text, c[i].mark[k]);
	}
	str_adds(&p->text, "</text>\n");
}

/* Write the text of row y. Two blanks end a run, so that the text after a gap gets a position of its own. */
static void write_row(struct picture *p, int y)
{
	const struct cell *row = p->grid->cell + (size_t)y * (size_t)p->grid->w;
	int w = p->grid->w;

	for (int x = 0, n; x < w; x += n) {
		struct look look = look_of(p->theme, row + x);
		int end;

		n = 1;
		if (is_blank(row + x))
			continue;
		while (x + n < w && looks_equal(look_of(p->theme, row + x + n), look) &&
		       !(is_blank(row + x + n) &&
		         (x + n + 1 == w || is_blank(row + x + n + 1) || row[x + n].cp != ' ')))
			n++;
		for (end = n; is_blank(row + x + end - 1); end--)
			;
		add_run(p, x, y, end, look);
	}
}

/* ---- the file ---- */

static void add_layer(struct layer *l, int light, int colour, int strength, struct str *out)
{
	char name[8];

	colour_name(light, colour, name);
	if (l->used)
		str_addf(out, "<path fill=\"%s\"%s d=\"%s\"/>\n", name,
		         strength == 1   ? " opacity=\".25\""
		         : strength == 2 ? " opacity=\".5\""
		         : strength == 3 ? " opacity=\".75\""
		                         : "",
		         l->path.p);
	str_free(&l->path);
}

void svg_draw(const struct grid *g, const char *theme, const char *about, struct str *out)
{
	struct picture *p = xcalloc(1, sizeof *p);
	int w = g->w * CELL_W + 2 * MARGIN, h = g->h * CELL_H + 2 * MARGIN;
	char back[8];

	p->grid = g;
	p->theme = theme_find(theme, NULL);
	p->light = !strcmp(theme, "light") || !strcmp(theme, "paper");
	for (int y = 0; y < g->h; y++) {
		paint_row(p, y);
		write_row(p, y);
	}
	colour_name(p->light, OWN_BACK, back);
	str_addf(
		out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n",
		w, h, w, h);
	str_addf(out, "<title>%s</title>\n", about);
	str_addf(out, "<rect width=\"%d\" height=\"%d\" rx=\"10\" fill=\"%s\"/>\n", w, h, back);
	str_addf(out, "<g transform=\"translate(%d %d)\" shape-rendering=\"crispEdges\">\n", MARGIN, MARGIN);
	for (int c = 0; c < COLOURS; c++)
		add_layer(&p->back[c], p->light, c, STRENGTHS, out);
	for (int c = 0; c < COLOURS; c++)
		for (int s = 1; s <= STRENGTHS; s++)
			add_layer(&p->block[c][s], p->light, c, s, out);
	colour_name(p->light, OWN_TEXT, back);
	if (g->cursor_y >= 0)
		str_addf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" opacity=\".6\"/>\n",
		         g->cursor_x * CELL_W, g->cursor_y * CELL_H, CELL_W, CELL_H, back);
	str_addf(
		out,
		"</g>\n<g transform=\"translate(%d %d)\" xml:space=\"preserve\" font-size=\"16.6\""
		" font-family=\"ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace\">\n%s</g>\n</svg>\n",
		MARGIN, MARGIN, str_text(&p->text));
	str_free(&p->text);
	free(p);
}
