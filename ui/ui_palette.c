/* ui/ui_palette.c - runs what the user chose in the palette (the searchable list of commands, sessions and keys). */
#include "ui/ui_private.h"

#include <string.h>

void ui_do_chosen(struct ui *u)
{
	const struct palette_choice *c = palette_pane_chosen(u->panes[PALETTE]);
	size_t n = c->text ? strlen(c->text) : 0;
	struct ui_action a = { .what = UI_SWITCH, .id = c->id };
	struct key none = { .code = K_UNKNOWN };

	u->chosen = 0;
	switch (c->what) {
	case PALETTE_TEXT:
		if (c->draft || (n && c->text[n - 1] == ' ')) {
			if (!input_empty())
				input_abandon(); /* store the draft in the history */
			input_set(c->text, n);
		} else {
			ui_submit_command(u, c->text);
		}
		break;
	case PALETTE_ACT: ui_act(u, (enum act)c->act, &none); break;
	case PALETTE_DOCUMENT: ui_show_document(u, (size_t)c->id, 0, 0); break;
	case PALETTE_SESSION: pane_act(u, &a);
	}
}
