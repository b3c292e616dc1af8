/* ui/ui_search.c - the search in the transcript: its search line, keys and matches. */
#include "ui/ui_private.h"

#include <stdio.h>
#include <string.h>

void ui_search_run(struct ui *u, int step)
{
	const struct str *s = &u->pattern.text;

	u->found = u->found_at = 0;
	u->found = transcript_search(u->transcript, s->n ? s->p : NULL, step, &u->found_at);
	if (!s->n)
		u->found = 0;
	u->moved = 1;
}

void ui_search_off(struct ui *u)
{
	u->searching = 0;
	edit_set(&u->pattern, "", 0);
	ui_search_run(u, 0);
}

void ui_search_open(struct ui *u, int down)
{
	if (u->pane)
		pane_close(u);
	ui_search_off(u);
	u->searching = 1;
	u->search_down = down;
	u->focus = ON_LINE;
}

void ui_search_key(struct ui *u, const struct key *k)
{
	int had = u->found > 0, cancel = k->code == K_ESC || (k->code == K_CHAR && k->mods == KEY_CTRL && k->cp == 'g');

	if (cancel || (k->code == K_BACKSPACE && !u->pattern.text.n)) {
		ui_search_off(u);
	} else if (k->code == K_ENTER) {
		/* Close the search line, but keep the matches marked until Esc, so that F3 can go to the next match. */
		u->searching = 0;
		if (!u->found) {
			if (u->pattern.text.n)
				ui_sayf(u, "not found");
			ui_search_off(u);
		}
	} else if (k->code == K_UP || k->code == K_DOWN) {
		ui_search_run(u, k->code == K_UP ? -1 : 1);
	} else if (edit_key(&u->pattern, k) == 1) {
		/* With step 0, the search stays at the current match if the changed pattern still matches there. If
		 * there is no current match, step 0 searches upwards. */
		ui_search_run(u, had || !u->search_down ? 0 : 1);
	}
}

void search_draw(const struct ui *u, const struct area *a)
{
	char result[48] = "";
	int w = a->w, n = 0, x;

	if (u->pattern.text.n && u->found)
		n = snprintf(result, sizeof result, "%zu of %zu", u->found_at, u->found);
	else if (u->pattern.text.n)
		n = snprintf(result, sizeof result, "not found");
	if (n && w > n + 12)
		w -= n + 1;
	x = area_text(a, 0, 0, ST_PROMPT, u->search_down ? "/" : "?", 1);
	edit_draw(&u->pattern, a, x, 0, w - x, ST_TEXT);
	if (w < a->w)
		area_text(a, w + 1, 0, u->found ? ST_FAINT : ST_WARNING, result, (size_t)n);
}
