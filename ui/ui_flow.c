/* ui/ui_flow.c - the inline form of the screen: the conversation scrolls into the terminal's own scrollback. Below the
 * conversation are, from top to bottom: unfinished text, the input line, queued messages, the status row, the sources
 * of the last answer, the cache as a bar, key hints.
 *
 * The input line, which has the cursor, is above all rows that fill the whole width. If the terminal becomes narrower,
 * it wraps each full row into two rows. All full rows are below the cursor, so the rows above the cursor do not
 * move. */
#include "ui/text/text.h"
#include "ui/ui_private.h"

#include <string.h>

enum {
	FLOW_LIVE = 12,  /* maximum number of rows of unfinished text above the input line */
	FLOW_MOST = 200, /* maximum number of rows that one frame passes to the terminal's scrollback */
	GAP_ROWS = 10,   /* a screen with fewer rows than this has no empty row above the input line */
};

int ui_is_inline(const struct ui *u)
{
	return u->inlined;
}

void ui_inline(struct ui *u, int on)
{
	u->inlined = on;
	u->dirty = 1;
	ui_lay_out(u);
}

void ui_shown(struct ui *u, int above)
{
	u->flow_above = above;
	if (!u->grid.flows || !u->grid.final)
		return;
	transcript_flow_take(u->transcript, (size_t)(u->grid.final - u->flow_note));
	u->grid.final = 0;
	u->dirty = 1;
}

void ui_finish(struct ui *u)
{
	if (u->pane != NO_PANE)
		pane_close(u);
	if (u->searching || u->pattern.text.n)
		ui_search_off(u);
	focus_line(u);
	input_restore(""); /* closes the popup */
	transcript_end_follow(u->transcript);
	ui_entry_end(u, NULL);
	u->dirty = 1;
}

/* Draw the sources of the last answer, which may itself have scrolled away: "Sources: [1] lease.pdf 83% [2]
 * notes.md". */
static void draw_sources(const struct ui *u, const struct area *a)
{
	const struct ui_source *s;
	size_t n = transcript_turn_sources(u->transcript, transcript_last_turn(u->transcript), &s);
	struct str text = { 0 };
	int x = area_text(a, 1, 0, ST_HINT_KEY, "F7", 2) + 1;

	for (size_t i = 0; i < n; i++) {
		str_addf(&text, "%s[%zu] ", i ? "  " : "", i + 1);
		clean_line(s[i].name, strlen(s[i].name), &text);
		if (s[i].share >= 0)
			str_addf(&text, " %s", num_percent((double)s[i].share).s);
	}
	put_left(a, x, 0, a->w - x, ST_HINT, text.p, text.n, u->ascii);
	str_free(&text);
}

/* Draw the rows below the conversation. */
static void draw_fixed(struct ui *u, int y)
{
	const struct layout *l = &u->lay;
	struct area all = area_of(&u->grid), part = area_part(&all, 0, y, u->w, l->line);

	u->grid.cursor_y = -1;
	ui_draw_line(u, &part);
	y += l->line;
	part = area_part(&all, 0, y, u->w, l->queue);
	queue_draw(u, &part);
	y += l->queue;
	if (l->status) {
		part = area_part(&all, 0, y, u->w, 1);
		status_draw(u, &part);
	}
	y += l->status;
	if (l->sources) {
		part = area_part(&all, 0, y, u->w, 1);
		draw_sources(u, &part);
	}
	y += l->sources;
	if (l->bar) {
		int at_x = u->grid.cursor_x, at_y = u->grid.cursor_y;
		part = area_part(&all, 0, y, u->w, l->bar);
		cache_pane_draw_bar(u->panes[CACHE], &part);
		u->grid.cursor_x = at_x;
		u->grid.cursor_y = at_y;
	}
	y += l->bar;
	if (l->hints) {
		part = area_part(&all, 0, y, u->w, 1);
		hints_draw(u, &part);
	}
}

static void draw_popup(struct ui *u, int y)
{
	struct area all = area_of(&u->grid), part = area_part(&all, 0, 0, u->w, y);
	int at_x = u->grid.cursor_x, at_y = u->grid.cursor_y;

	input_draw_offers(&part, u->ascii);
	u->grid.cursor_x = at_x;
	u->grid.cursor_y = at_y;
}

void ui_flow_draw(struct ui *u)
{
	static const char skipped[] = "[earlier messages are not repeated here; PgUp shows them]";
	const struct layout *l = &u->lay;
	int fixed = l->line + l->queue + l->status + l->sources + l->bar + l->hints, room = MAX(u->h - fixed, 0);
	int gap = u->h >= GAP_ROWS && room > 0, offers = u->focus == ON_LINE ? MIN(input_offers(), POPUP_ROWS) : 0;
	int note, rows, over = 0, fin;
	struct flow_size size = { .w = u->w, .page = room, .most = FLOW_MOST };
	struct area all, part;
	size_t final;

	size.live = (size_t)MIN(FLOW_LIVE, room - gap);
	rows = (int)transcript_flow(u->transcript, &size, &final, &note);
	u->flow_note = note;
	rows += note + gap;
	fin = (int) final + note;
	/* The popup is drawn over the unfinished text and, where this has too few rows, over the rows above it. While
	 * it is open, finished text waits. If there are too few rows above, rows are added. */
	if (offers && !note && rows <= room) {
		fin = 0;
		over = MIN(MAX(MIN(offers, room) - rows, 0), u->flow_above);
	}
	rows = MAX(rows + over, fin + MIN(room, offers));
	grid_resize(&u->grid, u->w, MAX(rows + fixed, 1));
	u->grid.flows = 1;
	u->grid.final = fin;
	u->grid.over = over;
	u->grid.fixed = fixed + gap;
	all = area_of(&u->grid);
	if (note)
		area_text(&all, 0, 0, ST_NOTICE, skipped, sizeof skipped - 1);
	part = area_part(&all, 0, over + note, u->w, rows - over - note - gap);
	transcript_flow_draw(u->transcript, &part);
	u->body = area_part(&all, 0, 0, 0, 0);
	draw_fixed(u, rows);
	if (offers)
		draw_popup(u, rows);
}
