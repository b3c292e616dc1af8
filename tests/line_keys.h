/* tests/line_keys.h - an input line for tests: bytes of a terminal go in, a small screen comes out. */
#ifndef WEIR_LINE_KEYS_H
#define WEIR_LINE_KEYS_H

#include "ui/input.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>

static int line_unused;         /* keys of the last type() that the line had no use for */

__attribute__((unused))
static void line_on_key(const struct key *k, void *ud)
{
	(void)ud;
	line_unused += !input_key(k);
}

/* What a terminal sends; ends as if nothing more came. */
__attribute__((unused))
static void type_n(const char *bytes, size_t n)
{
	struct keys keys = {0};

	line_unused = 0;
	/* In small pieces: many bytes at once would count as a paste. */
	for (size_t i = 0; i < n; i += 8)
		keys_feed(&keys, bytes + i, n - i < 8 ? n - i : 8, 1, line_on_key, NULL);
	keys_tick(&keys, 100, line_on_key, NULL);
	keys_free(&keys);
}

__attribute__((unused))
static void type(const char *bytes)
{
	type_n(bytes, strlen(bytes));
}

__attribute__((unused))
static void paste_n(const char *text, size_t n)
{
	input_key(&(struct key){.code = K_PASTE, .bytes = text, .n = n});
}

__attribute__((unused))
static const char *line_text(void)
{
	return input_text(NULL);
}

/* The message that Enter ended, or "(none)". */
__attribute__((unused))
static const char *taken(void)
{
	static struct str s;

	return input_take(&s) ? s.p ? s.p : "" : "(none)";
}

static struct grid line_grid;
static int line_x, line_y;      /* the cursor, counted from the line's first row */

/* The line on a screen of w columns, at most h rows of it. */
__attribute__((unused))
static const char *screen(int w, int h)
{
	static struct str s;
	int rows = input_rows(w, h);
	struct area a;

	grid_resize(&line_grid, w, rows);
	a = area_of(&line_grid);
	input_draw(&a, "> ");
	line_x = line_grid.cursor_x;
	line_y = line_grid.cursor_y;
	str_clear(&s);
	grid_dump(&line_grid, 0, &s);
	return s.p;
}

/* The popup in w columns and h rows, with the styles of its cells if wanted. */
__attribute__((unused))
static const char *popup(int w, int h, int styles)
{
	static struct str s;
	struct area a;

	grid_resize(&line_grid, w, h);
	a = area_of(&line_grid);
	input_draw_offers(&a);
	str_clear(&s);
	grid_dump(&line_grid, styles, &s);
	return s.p;
}

#define CHECK_CURSOR(x, y) do { CHECK_INT(line_x, x); CHECK_INT(line_y, y); } while (0)

#endif
