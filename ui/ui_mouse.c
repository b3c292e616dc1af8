/* ui/ui_mouse.c - the mouse: wheel, clicks on sources, hints and panes, selecting text.
 *
 * While a program uses the mouse, the terminal itself selects text only with Shift. So this file implements selection
 * by dragging. The text is copied when the button is released, with wrapped lines joined again. */
#include "ui/ui_private.h"

static int is_in(const struct area *a, int x, int y)
{
	return a->w > 0 && x >= a->x && x < a->x + a->w && y >= a->y && y < a->y + a->h;
}

/* ---- selecting ---- */

/* Set [*from, *to) to the selected cells of row y. Returns 0 if no cell of the row is selected. */
static int selected(const struct ui *u, int y, int *from, int *to)
{
	const struct area *in = &u->select.in;
	int back = u->select.to_y < u->select.y || (u->select.to_y == u->select.y && u->select.to_x < u->select.x);
	int x0 = back ? u->select.to_x : u->select.x, y0 = back ? u->select.to_y : u->select.y;
	int x1 = back ? u->select.x : u->select.to_x, y1 = back ? u->select.y : u->select.to_y;

	if (!u->select.dragged || y < y0 || y > y1)
		return 0;
	*from = y == y0 ? x0 : in->x;
	*to = y == y1 ? x1 + 1 : in->x + in->w;
	return *to > *from;
}

void select_draw(struct ui *u)
{
	struct area all = area_of(&u->grid);
	int from, to;

	for (int y = u->select.in.y; y < u->select.in.y + u->select.in.h; y++)
		if (selected(u, y, &from, &to))
			area_restyle(&all, from, y, to - from, ST_SELECTED);
}

void select_end(struct ui *u)
{
	if (u->select.held && !u->pane)
		transcript_end_follow(u->transcript);
	u->select.pressed = u->select.dragged = u->select.held = 0;
	u->dirty = 1;
}

/* Append the text of cells [from, to) of screen row y, without trailing blanks. */
static void add_cells(const struct ui *u, int y, int from, int to, struct str *out)
{
	const struct cell *row = u->grid.cell + (size_t)y * (size_t)u->grid.w;
	size_t end = out->n;
	char utf8[4];

	for (int x = from; x < to && x < u->grid.w; x++) {
		if (!row[x].cp)
			continue; /* skip the right half of a wide character */
		str_add(out, utf8, (size_t)utf8_encode(row[x].cp, utf8));
		for (int m = 0; m < CLEAN_MARKS_MAX && row[x].mark[m]; m++)
			str_add(out, utf8, (size_t)utf8_encode(row[x].mark[m], utf8));
		if (row[x].cp != ' ')
			end = out->n;
	}
	out->n = end;
}

static void copy_selected(struct ui *u)
{
	const struct area *in = &u->select.in;
	struct str s = { 0 };
	int from, to, lines = 0;

	for (int y = in->y; y < in->y + in->h; y++) {
		int joins = lines && !u->pane && in->y == u->body.y ? transcript_row_continues(u->transcript, y) : 0;

		if (!selected(u, y, &from, &to))
			continue;
		while (joins && from < to && u->grid.cell[(size_t)y * (size_t)u->grid.w + (size_t)from].cp == ' ')
			from++; /* skip the indent of a wrapped line */
		str_adds(&s, !lines++ || joins == 2 ? "" : joins ? " " : "\n");
		add_cells(u, y, from, to, &s);
	}
	while (s.n && s.p[s.n - 1] == '\n') /* drop empty rows at the end */
		s.n--;
	if (s.n)
		todo_add(u, UI_COPY, s.p, s.n, 0, 0);
	str_free(&s);
}

static void drag(struct ui *u, int x, int y)
{
	const struct area *in = &u->select.in;

	if (!u->select.pressed)
		return;
	x = x < in->x ? in->x : x >= in->x + in->w ? in->x + in->w - 1 : x;
	y = y < in->y ? in->y : y >= in->y + in->h ? in->y + in->h - 1 : y;
	if (!u->select.dragged && x == u->select.x && y == u->select.y)
		return;
	if (!u->select.dragged && !u->pane)
		u->select.held = transcript_hold(u->transcript);
	u->select.dragged = 1;
	u->select.to_x = x;
	u->select.to_y = y;
}

/* ---- clicks ---- */

/* Handle a press of the mouse button. Returns 1 if a key hint was clicked, and sets *of_hint to the hint's key. */
static int button_pressed(struct ui *u, const struct key *k, struct key *of_hint)
{
	const struct layout *l = &u->lay;
	struct area line = { &u->grid, 0, u->h - l->hints - l->line, u->w, l->line };

	select_end(u);
	if (l->hints && k->y == u->h - 1)
		return hint_at(u, k->x, of_hint);
	u->select.in = is_in(&u->body, k->x, k->y) ? u->body : line;
	u->select.pressed = is_in(&u->select.in, k->x, k->y);
	u->select.x = k->x;
	u->select.y = k->y;
	/* a click in a pane selects text; it does not enter browse mode */
	if (k->y < l->body && u->pane)
		pane_key(u, k);
	else if (k->y >= l->body)
		focus_line(u);
	if (u->chosen)
		u->select.pressed = 0;
	return 0;
}

/* Handle the release of the mouse button: copy the text that was selected by dragging, or open the source or unfold the
 * message that was clicked. */
static void button_released(struct ui *u, const struct key *k)
{
	int clicked = u->select.pressed && k->y < u->lay.body && !u->pane;
	size_t source, turn;

	drag(u, k->x, k->y);
	if (u->select.dragged)
		copy_selected(u);
	else if (clicked && (source = transcript_source_at(u->transcript, k->x, k->y, &turn)))
		ui_source_open(u, turn, source - 1);
	else if (clicked)
		transcript_unfold_at(u->transcript, k->y);
	select_end(u);
}

int mouse_key(struct ui *u, const struct key *k, struct key *of_hint)
{
	int up = k->cp == 4;

	if (k->cp == 4 || k->cp == 5) {
		struct key arrow = { .code = up ? K_UP : K_DOWN };

		select_end(u);
		if (!u->pane) {
			transcript_scroll(u->transcript, up ? -3 : 3);
			u->moved = 1;
		} else if (pane_try(u, k) == PANE_NOT_MINE) {
			for (int i = 0; i < 3; i++)
				pane_try(u, &arrow);
		}
	} else if (k->cp == 1 && !u->searching) {
		return button_pressed(u, k, of_hint);
	} else if (k->cp == 6) {
		drag(u, k->x, k->y);
	} else if (k->cp == 0) {
		button_released(u, k);
	}
	return 0;
}
