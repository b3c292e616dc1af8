/* ui/ui.c - the full screen: opens and closes it, handles timeouts, draws.
 *
 * The parts of the screen, from top to bottom: the transcript or the open pane, queued messages, the cache bar, the
 * status row, the input line or the search line, key hints. Wide screens have no cache bar, but a cache panel at the
 * right of the transcript.
 *
 * Each part draws into an area of a grid of cells. After a change everything is drawn; display.c writes only the cells
 * that differ. */
#include "ui/ui_private.h"
#include "ui/text/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- open and close ---- */

static int is_open; /* readline's state is global, so a process can have only one screen */

static int screen_side(int v)
{
	return v < 1 ? 1 : MIN(SCREEN_MOST, v);
}

int ui_open(struct ui **out, const struct ui_options *o, struct err *e)
{
	struct ui *u;

	if (is_open)
		return err_set(e, ERR_FAIL, "the screen is open already");
	u = xcalloc(1, sizeof *u);
	is_open = 1;
	u->commands = o->commands;
	u->ascii = o->ascii;
	u->w = screen_side(o->w);
	u->h = screen_side(o->h);
	grid_resize(&u->grid, u->w, u->h);
	u->transcript = transcript_new();
	transcript_ascii(u->transcript, o->ascii);
	panes_open(u, o);
	u->color = o->color;
	u->inlined = o->inlined;
	input_open(o->history, o->commands, o->settings);
	u->theme = DUSK;
	u->dirty = 1;
	*out = u;
	return 0;
}

void ui_close(struct ui *u)
{
	if (!u)
		return;
	input_close();
	transcript_free(u->transcript);
	panes_close(u);
	keys_free(&u->keys);
	grid_free(&u->grid);
	while (u->n_queue)
		queue_remove(u, u->n_queue - 1);
	for (size_t i = 0; i < u->n_todo; i++)
		str_free(&u->todo[i].text);
	free(u->todo);
	str_free(&u->given);
	str_free(&u->last_question);
	edit_free(&u->pattern);
	str_free(&u->say);
	str_free(&u->work.verb);
	str_free(&u->status.model);
	str_free(&u->status.session);
	str_free(&u->status.kv);
	free(u);
	is_open = 0;
}

/* ---- actions ---- */

int ui_action(struct ui *u, struct ui_action *out)
{
	memset(out, 0, sizeof *out);
	str_free(&u->given);
	if (u->n_todo) {
		struct todo *t = &u->todo[0];
		out->what = t->what;
		out->id = t->id;
		out->on = t->on;
		u->given = t->text;
		u->n_todo--;
		memmove(u->todo, u->todo + 1, u->n_todo * sizeof *u->todo);
	} else if (u->n_queue && !ui_closed(u)) {
		const struct ui_command *c = command_of(u, u->queue[0].p, u->queue[0].n);
		out->what = UI_SEND;
		str_add(&u->given, u->queue[0].p, u->queue[0].n);
		/* The worker thread begins this message now, but reports only a moment later that it is busy. Until
		 * then, hold the other queued messages back. */
		u->begun = !c || c->busy != BUSY_ALLOWED;
		u->begun_until = u->now + BEGIN_SECONDS;
		queue_remove(u, 0);
		u->dirty = 1;
	} else {
		return 0;
	}
	out->text = str_text(&u->given);
	out->n = u->given.n;
	return 1;
}

void ui_resize(struct ui *u, int w, int h)
{
	w = screen_side(w);
	h = screen_side(h);
	u->dirty = 1;
	if (w == u->w && h == u->h)
		return;
	u->w = w;
	u->h = h;
	u->moved = 1;
	select_end(u);
	ui_lay_out(u);
}

/* ---- time ---- */

static void say_tick(struct ui *u)
{
	if (!u->say.n)
		return;
	if (u->say_new) {
		u->say_new = 0;
		u->say_until = u->now + SAY_SECONDS;
	} else if (u->now >= u->say_until) {
		str_clear(&u->say);
		u->dirty = 1;
	}
}

/* Handle bytes from the terminal. The caller passes the time as `now`, so that tests can set the clock. */
void ui_feed(struct ui *u, const char *bytes, size_t n, double now)
{
	u->now = now;
	/* If the terminal does not mark pastes, treat many bytes that arrive together as a paste, because nobody
	 * types that fast. */
	if (n >= KEYS_BURST && !u->keys.marks_pastes)
		untyped_note(bytes, n);
	keys_feed(&u->keys, bytes, n, now, ui_key, u);
	ui_lay_out(u);
}

void ui_tick(struct ui *u, double now)
{
	u->now = now;
	keys_tick(&u->keys, now, ui_key, u);
	say_tick(u);
	if (u->typed && now >= u->typed_until) {
		u->typed = 0;
		pane_pause(u);
	}
	if (u->begun && now >= u->begun_until) {
		u->begun = 0;
		u->dirty = 1;
	}
	if (u->undo_until > 0 && now >= u->undo_until) {
		u->undo_until = 0;
		sessions_pane_undo_over(u->panes[SESSIONS]);
		u->dirty |= u->pane == SESSIONS;
	}
	ui_lay_out(u);
}

double ui_wake(const struct ui *u)
{
	double at = keys_wake(&u->keys);

	if (u->say.n && !u->say_new && (at == 0 || u->say_until < at))
		at = u->say_until;
	if (u->begun && (at == 0 || u->begun_until < at))
		at = u->begun_until;
	if (u->typed && (at == 0 || u->typed_until < at))
		at = u->typed_until;
	if (u->undo_until > 0 && (at == 0 || u->undo_until < at))
		at = u->undo_until;
	return at;
}

/* ---- drawing ---- */

int ui_dirty(const struct ui *u)
{
	return u->dirty || (u->pane == NO_PANE && (u->lay.body > 0 || u->inlined) && transcript_changed(u->transcript));
}

/* Draw "12 new lines" if the transcript has text below the visible part. */
static void draw_below(struct ui *u, const struct area *a)
{
	size_t below = transcript_below(u->transcript), lines;
	char text[64];
	int n, cols;

	if (!below)
		u->fresh = 0;
	else if (!u->moved && below > u->below)
		u->fresh += below - u->below;
	if (u->fresh > below)
		u->fresh = below;
	u->below = below;
	u->moved = 0;
	if (!below)
		return;
	lines = u->fresh ? u->fresh : below;
	n = snprintf(text, sizeof text, " %s %zu%s line%s ", u->ascii ? "v" : "\xe2\x96\xbc", lines,
	             u->fresh ? " new" : "", lines == 1 ? "" : "s");
	cols = (int)text_width(text, (size_t)n);
	if (cols <= a->w)
		area_text(a, a->w - cols, a->h - 1, ST_NOTICE | STYLE_REVERSE, text, (size_t)n);
}

static void draw_transcript(struct ui *u, const struct area *a)
{
	static const char hello[] = "Write a question and press Enter. /open FILE adds a document, F1 shows keys.";

	if (a->w < 1 || a->h < 1)
		return;
	transcript_gutter(u->transcript, (u->lay.side || u->lay.bar) && cache_pane_colored(u->panes[CACHE]));
	transcript_draw(u->transcript, a);
	u->body = *a;
	draw_below(u, a);
	if (!transcript_count(u->transcript))
		area_text(a, 0, a->h - 1, ST_FAINT, hello, sizeof hello - 1);
}

/* Draw a title into the upper border of an area. It begins at column x and takes at most w columns. The text must have
 * no control characters. */
static void draw_title(const struct ui *u, const struct area *a, int x, int w, unsigned style, const struct str *title)
{
	int cols = (int)text_width(str_text(title), title->n);

	if (!cols || w < 3)
		return;
	cols = cols < w - 2 ? cols : w - 2;
	area_cell(a, x, 0, ' ', ST_RULE, 0);
	area_cell(a, put_left(a, x + 1, 0, cols, style, title->p, title->n, u->ascii), 0, ' ', ST_RULE, 0);
}

/* Draw the open pane, with border and title if there is room. */
static void draw_pane(struct ui *u, const struct area *a)
{
	struct pane *p = pane_shown(u);
	struct str left = { 0 }, right = { 0 };
	struct area inner = area_inner(a);
	int cols;

	p->framed = a->w >= FRAME_COLS && a->h >= FRAME_ROWS;
	u->body = p->framed ? inner : *a;
	p->ops->draw(p, &u->body);
	if (!p->framed)
		return;
	area_frame(a, ST_RULE, u->ascii);
	p->ops->title(p, &left, &right);
	cols = right.n ? (int)text_width(right.p, right.n) + 2 : 0;
	draw_title(u, a, 2, a->w - 5 - cols, ST_TITLE, &left);
	draw_title(u, a, a->w - 2 - cols, cols, ST_FAINT, &right);
	str_free(&left);
	str_free(&right);
}

void ui_draw_line(struct ui *u, const struct area *a)
{
	int x = u->grid.cursor_x, y = u->grid.cursor_y;

	if (u->searching) {
		search_draw(u, a);
		return;
	}
	input_draw(a, input_commands() ? ": " : "> ");
	if (u->focus == ON_LINE && !pane_state(u, PANE_FIELD))
		return;
	u->grid.cursor_x = x;
	u->grid.cursor_y = y;
	for (int i = 0; i < a->h; i++)
		area_restyle(a, 0, i, a->w, ST_FAINT);
}

static void draw(struct ui *u)
{
	const struct layout *l = &u->lay;
	struct area all, part, body;
	int y = 0, x, cursor_x, cursor_y;

	if (u->grid.w != u->w || u->grid.h != u->h)
		grid_resize(&u->grid, u->w, u->h);
	u->grid.flows = u->grid.final = 0;
	grid_clear(&u->grid);
	all = area_of(&u->grid);
	u->grid.cursor_y = -1;
	if (l->side) {
		x = u->w - l->side;
		for (int i = 0; u->pane == NO_PANE && i < l->body; i++)
			area_cell(&all, x - 1, i, u->ascii ? '|' : 0x2502, ST_RULE, 0);
		part = area_part(&all, x, 0, l->side, l->body);
		cache_pane_draw_side(u->panes[CACHE], &part);
	}
	if (l->bar) {
		part = area_part(&all, 0, l->body + l->queue, u->w, l->bar);
		cache_pane_draw_bar(u->panes[CACHE], &part);
	}
	u->grid.cursor_y = -1;
	body = area_part(&all, 0, 0, l->side ? u->w - l->side - 1 : u->w, l->body);
	if (u->pane == NO_PANE)
		draw_transcript(u, &body);
	else
		draw_pane(u, &body);
	/* Hide the pane's cursor if typed keys do not go to the pane. */
	if (u->focus != ON_PANE && !pane_state(u, PANE_FIELD))
		u->grid.cursor_y = -1;

	y = l->body;
	part = area_part(&all, 0, y, u->w, l->queue);
	queue_draw(u, &part);
	y += l->queue + l->bar;
	if (l->status) {
		part = area_part(&all, 0, y, u->w, 1);
		status_draw(u, &part);
	}
	part = area_part(&all, 0, y + l->status, u->w, l->line);
	ui_draw_line(u, &part);
	if (l->hints) {
		part = area_part(&all, 0, u->h - 1, u->w, 1);
		hints_draw(u, &part);
	}
	select_draw(u);
	if (u->focus == ON_LINE && input_offers() > 0) {
		part = area_part(&all, 0, 0, u->w, y);
		cursor_x = u->grid.cursor_x;
		cursor_y = u->grid.cursor_y;
		input_draw_offers(&part, u->ascii);
		u->grid.cursor_x = cursor_x;
		u->grid.cursor_y = cursor_y;
	}
}

const struct grid *ui_draw(struct ui *u, double now)
{
	u->now = now;
	say_tick(u);
	if (ui_dirty(u)) {
		ui_lay_out(u);
		if (ui_flows(u))
			ui_flow_draw(u);
		else
			draw(u);
	}
	u->dirty = 0;
	return &u->grid;
}

void ui_dump(struct ui *u, double now, int with_styles, struct str *out)
{
	grid_dump(ui_draw(u, now), with_styles, out);
}
