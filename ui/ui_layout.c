/* ui/ui_layout.c - computes which rows and columns each part of the screen gets. */
#include "ui/ui_private.h"

#include <string.h>

static int within(int v, int lo, int hi)
{
	return v < lo ? lo : MIN(hi, v);
}

int panel_seen(const struct ui *u)
{
	return pane_has(u, PANE_IS_CACHE) ? 2 : u->lay.side || u->lay.bar;
}

int ui_flows(const struct ui *u)
{
	return u->inlined && u->pane == NO_PANE && u->focus != ON_TRANSCRIPT && !u->searching && !u->pattern.text.n &&
	       !transcript_position(u->transcript);
}

void ui_lay_out(struct ui *u)
{
	struct layout *l = &u->lay;
	const struct ui_source *source;
	int left = u->h, wide = u->w >= SIDE_FROM && !ui_flows(u);

	memset(l, 0, sizeof *l);
	l->line = u->searching ? 1 : within(input_rows(u->w, within(u->h / 3, 1, 10)), 1, within(u->h / 3, 1, 10));
	left -= l->line;
	l->status = left >= 2;
	left -= l->status;
	/* on a screen with fewer rows than HINTS_FROM, show hints only in states that are hard to leave without them */
	l->hints = u->h >= HINTS_FROM ||
	           (u->h >= HINTS_LEAST && (u->pane != NO_PANE || u->focus != ON_LINE || u->searching || u->leader));
	left -= l->hints;
	l->sources = ui_flows(u) && left > TRANSCRIPT_LEAST &&
	             transcript_turn_sources(u->transcript, transcript_last_turn(u->transcript), &source) > 0;
	left -= l->sources;
	/* give the bar at least one row even if there are no figures yet, because figures are computed only while the
	 * bar is visible */
	if (u->panel && !wide && u->w >= BAR_COLS && u->h >= BAR_ROWS && !pane_has(u, PANE_IS_CACHE) &&
	    left > TRANSCRIPT_LEAST)
		l->bar = within(cache_pane_rows(u->panes[CACHE], u->w), 1, left - TRANSCRIPT_LEAST);
	left -= l->bar;
	if (ui_working(u) && u->n_queue)
		l->queue = within((int)u->n_queue, 0,
		                  left > TRANSCRIPT_LEAST ? within(left - TRANSCRIPT_LEAST, 0, QUEUE_ROWS) : 0);
	l->body = left - l->queue;
	if (u->panel && wide && (u->pane == NO_PANE || pane_has(u, PANE_SHARES)))
		l->side = within(u->w * 2 / 5, 40, 48);
	if (u->focus == ON_PANEL && !l->side && !l->bar)
		u->focus = ON_LINE;
	if (panel_seen(u) != u->panel_told) {
		u->panel_told = panel_seen(u);
		todo_add(u, UI_PANEL, NULL, 0, 0, u->panel_told);
	}
}
