/* ui/ui_keys.c - passes each key to the first of these that uses it:
 *
 *     1. the keys that mean the same everywhere: Ctrl-C, Ctrl-Z, Ctrl-L, the mouse, the letter after Ctrl-X;
 *     2. an open text field: the search line, or a field or question of the open pane;
 *     3. in browse mode (F6), the part of the screen with the focus;
 *     4. an open popup of completions, a history search, vi's insert mode: Esc, Enter, Tab and arrows;
 *     5. the open pane: PgUp, PgDn, Esc, and keys that type nothing while the input line is empty;
 *     6. the table of key bindings;
 *     7. the input line.
 *
 * So letters are typed into the input line even if a pane is open. In browse mode they are commands; a letter that
 * is no command ends browse mode and is typed. */
#include "ui/ui_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Write the name of a key in the form of the table of bindings: "F1", "Ctrl-G", "Alt-Enter", "PgUp", "j". */
static void key_name(const struct key *k, int leader, char out[24])
{
	static const char *const names[] = {
		[K_ENTER] = "Enter",   [K_TAB] = "Tab",       [K_BACKSPACE] = "Backspace", [K_ESC] = "Esc",
		[K_UP] = "Up",         [K_DOWN] = "Down",     [K_LEFT] = "Left",           [K_RIGHT] = "Right",
		[K_HOME] = "Home",     [K_END] = "End",       [K_PAGE_UP] = "PgUp",        [K_PAGE_DOWN] = "PgDn",
		[K_INSERT] = "Insert", [K_DELETE] = "Delete",
	};
	const char *before = leader ? "Ctrl-X " : "";
	char one[8] = "";
	int32_t cp = k->cp;
	unsigned mods = k->mods;

	out[0] = 0;
	if (k->code == K_CHAR && cp > 0x20 && cp < 0x7f) {
		mods &= ~(unsigned)KEY_SHIFT; /* do not count Shift, because the letter itself is upper case */
		one[0] = mods & KEY_CTRL && cp >= 'a' && cp <= 'z' ? (char)(cp - 32) : (char)cp;
	} else if (k->code == K_CHAR && cp == ' ') {
		memcpy(one, "Space", 6);
	} else if (k->code == K_F && cp > 0 && cp < 64) {
		snprintf(one, sizeof one, "F%d", (int)cp);
	} else if (k->code == K_ENTER && mods == KEY_CTRL) {
		one[0] = 'J';
	} else if (k->code >= K_ENTER && k->code <= K_DELETE) {
		snprintf(out, 24, "%s%s%s%s%s", before, mods & KEY_CTRL ? "Ctrl-" : "", mods & KEY_ALT ? "Alt-" : "",
		         mods & KEY_SHIFT ? "Shift-" : "", names[k->code]);
		return;
	} else {
		return;
	}
	snprintf(out, 24, "%s%s%s%s%s", before, mods & KEY_CTRL ? "Ctrl-" : "", mods & KEY_ALT ? "Alt-" : "",
	         k->code == K_F && mods & KEY_SHIFT ? "Shift-" : "", one);
}

static int named(const char *keys, const char *name)
{
	size_t n = strlen(name);

	for (const char *k = keys; n && *k;) {
		size_t len = strcspn(k, ",");
		/* An empty name ends the list. Names are separated by commas, so a comma cannot be a name. */
		if (!len)
			return 0;
		if (len == n && !memcmp(k, name, n))
			return 1;
		k += len;
		k += strspn(k, ", ");
	}
	return 0;
}

static int bound(struct ui *u, const struct key *k, int leader)
{
	char name[24];

	key_name(k, leader, name);
	for (const struct binding *b = bindings; b->keys; b++) {
		/* skip the bindings of panes, because the open pane has already had the chance to use the key */
		int here = b->where == ANYWHERE || (u->focus == ON_LINE && b->where & IN_INPUT) ||
		           (u->focus == ON_TRANSCRIPT && b->where & IN_TRANSCRIPT);
		if (here && b->act && named(b->keys, name) && ui_act(u, (enum act)b->act, k))
			return 1;
	}
	return 0;
}

/* ---- routing ---- */

static void line_key(struct ui *u, const struct key *k)
{
	struct str s = { 0 };

	input_key(k);
	if (input_take(&s))
		ui_submit(u, str_text(&s), s.n);
	str_free(&s);
}

/* 1 if the key is a character or a paste. */
static int is_typed(const struct key *k)
{
	return k->code == K_PASTE || (k->code == K_CHAR && !(k->mods & (KEY_CTRL | KEY_ALT)));
}

/* Pass a key to the cache bar or side panel. Tab, Enter, Esc and q return to the input line. */
static int panel_key(struct ui *u, const struct key *k)
{
	enum pane_key did =
		k->code == K_TAB || k->code == K_ENTER ? PANE_CLOSE : pane_ops[CACHE]->key(u->panes[CACHE], k, NULL);

	if (did == PANE_CLOSE)
		focus_line(u);
	return did != PANE_NOT_MINE;
}

/* Pass a key to the part that has the focus in browse mode. */
static int browse_key(struct ui *u, const struct key *k)
{
	if (u->focus == ON_PANEL)
		return panel_key(u, k);
	if (k->code == K_ESC && !pane_state(u, PANE_MATCHES)) {
		focus_line(u);
		return 1;
	}
	return pane_key(u, k);
}

/* 1 if the open pane gets this key before the input line gets it. */
static int is_for_pane(const struct key *k)
{
	if (k->code == K_PAGE_UP || k->code == K_PAGE_DOWN || k->code == K_ESC)
		return 1;
	return input_empty() && k->code >= K_ENTER && k->code <= K_DELETE && k->code != K_BACKSPACE &&
	       k->code != K_DELETE && !(k->mods & (KEY_CTRL | KEY_ALT));
}

static int is_ctrl(const struct key *k, int32_t letter)
{
	return k->code == K_CHAR && k->mods == KEY_CTRL && k->cp == letter;
}

/* 1 if a popup or a search of the input line gets this key before the pane does. */
static int line_first(const struct key *k)
{
	switch (k->code) {
	case K_ESC: return input_offers() || input_wants_escape();
	case K_ENTER:
	case K_TAB:
	case K_UP:
	case K_DOWN: return input_offers() > 0;
	default: return is_ctrl(k, 'g') && input_wants_abort();
	}
}

static void route(struct ui *u, const struct key *k)
{
	int leader = u->leader;
	struct key x = { .code = K_CHAR, .mods = KEY_CTRL, .cp = 'x', .bytes = "\x18", .n = 1 };

	if (k->code == K_BACKGROUND)
		ui_background(u, k->cp);
	if (k->code == K_FOCUS || k->code == K_UNKNOWN || k->code == K_BACKGROUND)
		return;
	u->dirty = 1;
	if (k->code != K_ESC)
		u->esc_once = 0;
	if (!is_ctrl(k, 'c'))
		u->quit_once = 0;
	if (k->code == K_MOUSE) {
		if (mouse_key(u, k, &x))
			route(u, &x);
		return;
	}
	select_end(u);
	u->leader = 0;
	if (is_ctrl(k, 'c')) {
		ui_act(u, ACT_STOP, k);
		return;
	}
	if (is_ctrl(k, 'z') || is_ctrl(k, 'l')) {
		bound(u, k, 0);
		return;
	}
	if (leader) {
		if (bound(u, k, 1) || k->code == K_ESC)
			return;
		/* pass Ctrl-X and the key to readline, because readline has bindings after Ctrl-X, too */
		if (u->focus == ON_LINE) {
			if (!input_wants_escape()) /* in a history search or in vi's insert mode, omit Ctrl-X */
				input_key(&x);
			line_key(u, k);
		}
		return;
	}
	if (is_ctrl(k, 'x') && !u->searching) {
		u->leader = 1;
		return;
	}
	/* F keys work even while the search line has the focus */
	if (u->searching && k->code != K_F) {
		ui_search_key(u, k);
		return;
	}
	if (k->code != K_F && pane_state(u, PANE_FIELD) && pane_key(u, k))
		return;
	if (k->code != K_F && (u->focus == ON_PANE || u->focus == ON_PANEL) && browse_key(u, k))
		return;
	if (u->focus == ON_LINE && line_first(k)) {
		line_key(u, k);
		return;
	}
	if (u->focus == ON_LINE && u->pane && is_for_pane(k) && pane_key(u, k))
		return;
	if (bound(u, k, 0))
		return;
	if (is_typed(k))
		focus_line(u);
	if (u->focus == ON_LINE)
		line_key(u, k);
}

void ui_key(const struct key *k, void *ud)
{
	struct ui *u = ud;

	u->asked = 0;
	/* The message in the status row has been drawn, so remove it. The row then shows the session's name again. */
	if (u->say.n && !u->say_new && k->code != K_MOUSE) {
		str_clear(&u->say);
		u->dirty = 1;
	}
	route(u, k);
	if (u->chosen)
		ui_do_chosen(u);
}
