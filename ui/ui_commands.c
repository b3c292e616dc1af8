/* ui/ui_commands.c - runs the screen's own commands: panes, cache panel, search, copying, themes. */
#include "ui/screen/theme.h"
#include "engine/base/utf8.h"
#include "ui/ui_private.h"

#include <stdio.h>
#include <string.h>

/* Show the next form of the cache (F2): bar or side panel, whole screen, hidden. Small screens skip the bar. */
void ui_panel_next(struct ui *u)
{
	str_clear(&u->say);
	if (u->pane == CACHE) {
		pane_close(u);
		u->panel = 0;
	} else if (!u->panel && (u->w >= SIDE_FROM || (u->w >= BAR_COLS && u->h >= BAR_ROWS))) {
		u->panel = 1;
		ui_sayf(u, "F2 again: on the whole screen, with a legend");
	} else {
		pane_open(u, CACHE);
	}
}

void ui_open_help(struct ui *u, const char *words)
{
	pane_open(u, HELP);
	help_pane_find(u->panes[HELP], words);
	ui_lay_out(u);
}

void ui_open_text(struct ui *u, const char *title, const char *text, size_t n)
{
	text_pane_post(u->panes[TEXT], title, text, n);
	pane_open(u, TEXT);
	ui_lay_out(u);
}

void ui_open_sessions(struct ui *u)
{
	pane_open(u, SESSIONS);
	ui_lay_out(u);
}

void ui_ask_delete(struct ui *u, int64_t session)
{
	if (u->pane != SESSIONS)
		pane_open(u, SESSIONS);
	sessions_pane_ask(u->panes[SESSIONS], session);
	u->dirty = 1;
	ui_lay_out(u);
}

void ui_open_documents(struct ui *u, const char *where)
{
	pane_open(u, DOCUMENTS);
	if (where && *where)
		documents_pane_goto(u->panes[DOCUMENTS], where);
	ui_lay_out(u);
}

void ui_show_document(struct ui *u, size_t document, size_t from, size_t to)
{
	pane_open(u, DOCUMENTS);
	documents_pane_show(u->panes[DOCUMENTS], document, from, to);
	ui_lay_out(u);
}

void ui_source_open(struct ui *u, size_t turn, size_t i)
{
	const struct ui_source *all, *s;
	size_t n = transcript_turn_sources(u->transcript, turn, &all);

	if (i >= n)
		return;
	s = &all[i];
	u->source_turn = turn;
	u->next_source = (i + 1) % n;
	documents_pane_sources(u->panes[DOCUMENTS], all, n);
	if (s->document == SIZE_MAX) {
		ui_sayf(u, SOURCE_GONE, i + 1, s->name);
		return;
	}
	ui_show_document(u, s->document, s->from, s->to);
	if (!s->sent)
		ui_sayf(u, "source [%zu] of %zu: found, but not sent to the model", i + 1, n);
	else if (s->share < 0)
		ui_sayf(u, "source [%zu] of %zu", i + 1, n);
	else
		ui_sayf(u, "source [%zu] of %zu: %.0f %% of the attention", i + 1, n, 100 * (double)s->share);
}

void ui_source_next(struct ui *u)
{
	const struct ui_source *all;
	size_t turn = u->pane == DOCUMENTS && u->source_turn ? u->source_turn : transcript_turn(u->transcript);

	if (!transcript_turn_sources(u->transcript, turn, &all)) {
		ui_sayf(u, !u->n_document ? "no document is open, so there is no source; /open FILE adds one"
		           : !transcript_messages(u->transcript)
		                   ? "nothing was asked yet; answers about documents have sources"
		           : ui_working(u) ? "there are no sources yet"
		           : turn == transcript_last_turn(u->transcript)
		                   ? "the last answer has no sources in the documents"
		                   : "this answer has no sources in the documents");
		return;
	}
	ui_source_open(u, turn, turn == u->source_turn ? u->next_source : 0);
}

void ui_open_panel(struct ui *u, const char *how)
{
	int layer = 0;

	if (!how || !*how) {
		ui_panel_next(u);
	} else if (!strcmp(how, "off")) {
		u->panel = 0;
		if (u->pane == CACHE)
			pane_close(u);
	} else if (!strcmp(how, "bar")) {
		u->panel = 1;
		if (u->pane == CACHE)
			pane_close(u);
	} else {
		pane_open(u, CACHE);
		if (sscanf(how, "layer %4d", &layer) == 1)
			cache_pane_layer(u->panes[CACHE], layer);
	}
	u->dirty = 1;
	ui_lay_out(u);
}

int ui_search(struct ui *u, const char *words)
{
	if (u->pane)
		pane_close(u);
	u->searching = 0;
	u->search_down = 0;
	edit_set(&u->pattern, words, strlen(words));
	u->focus = ON_LINE;
	ui_search_run(u, -1);
	if (!u->found)
		ui_search_off(u);
	u->dirty = 1;
	return u->found > INT32_MAX ? INT32_MAX : (int)u->found;
}

/* Parse text as a number >= 1; -1 = it is not one. */
static long number(const char *text)
{
	long v = 0;

	if (!*text)
		return -1;
	for (; byte_is_digit(*text) && v < 1000000; text++)
		v = v * 10 + (*text - '0');
	return *text || !v ? -1 : v;
}

int ui_copy(struct ui *u, const char *what, struct err *e)
{
	size_t messages = transcript_messages(u->transcript);
	struct str s = { 0 };
	long n = 1;
	int there;

	if (!strcmp(what, "all")) {
		there = transcript_copy_all(u->transcript, &s);
	} else if (!strcmp(what, "code") || !strncmp(what, "code ", 5)) {
		n = what[4] ? number(what + 5) : 1;
		there = n > 0 && transcript_copy_code(u->transcript, (size_t)n, &s);
		if (!there && n == 1)
			err_set(e, ERR_USAGE, "there is no block of code to copy");
		else if (!there)
			err_set(e, ERR_USAGE,
			        "there is no block of code '%.40s'; /copy code takes the last one, /copy code 2 the one before",
			        what + 5);
	} else if (!*what) {
		there = messages > 0 && transcript_copy_message(u->transcript, messages - 1, &s);
	} else {
		n = number(what);
		there = n > 0 && (size_t)n <= messages && transcript_copy_message(u->transcript, (size_t)n - 1, &s);
		if (!there)
			err_set(e, ERR_USAGE,
			        "/copy knows no '%.40s'; it takes a number from 1 to %zu, code, code N "
			        "or all",
			        what, messages);
	}
	if (there && s.n) {
		todo_add(u, UI_COPY, s.p, s.n, 0, 0);
	} else if (there || !*what || !strcmp(what, "all")) {
		there = 0;
		err_set(e, ERR_USAGE, "there is nothing to copy yet");
	}
	str_free(&s);
	return there ? 0 : -1;
}

static void use_theme(struct ui *u, int at)
{
	const char *name = theme_at((size_t)at);

	u->theme = at;
	cache_pane_color(u->panes[CACHE], u->color && strcmp(name, "mono") != 0);
	todo_add(u, UI_THEME, name, strlen(name), 0, 0);
}

int ui_theme(struct ui *u, const char *name, struct err *e)
{
	struct str all = { 0 };
	int n = 0, at = -1;

	for (; theme_at((size_t)n); n++) {
		str_addf(&all, "%s%s", !n ? "" : theme_at((size_t)n + 1) ? ", " : " or ", theme_at((size_t)n));
		if (!strcmp(name, theme_at((size_t)n)))
			at = n;
	}
	if (*name && at < 0) {
		err_set(e, ERR_USAGE, "there is no theme '%.40s': %s", name, all.p);
		str_free(&all);
		return -1;
	}
	str_free(&all);
	u->theme_chosen = 1;
	use_theme(u, *name ? at : (u->theme + 1) % n);
	ui_sayf(u, "theme: %s", theme_at((size_t)u->theme));
	return 0;
}

void ui_background(struct ui *u, int light)
{
	if (!u->theme_chosen)
		use_theme(u, light ? PAPER : DUSK);
}

void ui_raw(struct ui *u, int on)
{
	int raw = on < 0 ? !transcript_is_raw(u->transcript) : on;

	transcript_raw(u->transcript, raw);
	u->moved = 1;
	ui_sayf(u, raw ? "raw answers" : "formatted answers");
}

void ui_mouse(struct ui *u, int on)
{
	u->mouse = on < 0 ? !u->mouse : on;
	todo_add(u, UI_MOUSE, NULL, 0, on < 0, u->mouse);
	if (on < 0)
		ui_sayf(u, u->mouse ? "the mouse is weir's: dragging copies, a click opens sources and presses keys"
		                    : "the mouse is the terminal's: it selects there; F8 gives it to weir");
}
