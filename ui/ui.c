/* ui/ui.c - the full screen: its life, its layout, what is posted to it, what it asks for.
 *
 * From top to bottom:
 *
 *     the talk, or the pane that is open over it        | the cache at the side (from SIDE_FROM columns on)
 *     messages that wait until the answer is there
 *     the cache as a bar (on narrower screens)
 *     status row
 *     input line, or the search line
 *     hints (from HINTS_FROM rows on)
 *
 * Everything is drawn anew into a grid when something has changed, and only then; display.c finds out which cells
 * that were.  The parts know nothing of each other: the transcript, the panes and the input line are asked to draw and
 * to take keys. */
#include "ui/ui_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

static int is_open;   /* readline is global, so there is one screen a process */

static int within(int v, int lo, int hi)
{
	return v < lo ? lo : v > hi ? hi : v;
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
	u->w = within(o->w, 1, SCREEN_MOST);
	u->h = within(o->h, 1, SCREEN_MOST);
	grid_resize(&u->grid, u->w, u->h);
	u->talk = transcript_new();
	transcript_ascii(u->talk, o->ascii);
	u->sessions = sessions_pane_new(o->ascii);
	u->docs = docs_pane_new(o->ascii);
	u->help = help_pane_new(o->commands, o->ascii);
	u->cache = cache_pane_new(o->ascii);
	u->color = o->color;
	cache_pane_color(u->cache, o->color);
	input_open(o->history, o->commands);
	u->dirty = 1;
	*out = u;
	return 0;
}

void ui_close(struct ui *u)
{
	if (!u)
		return;
	input_close();
	transcript_free(u->talk);
	sessions_pane_free(u->sessions);
	docs_pane_free(u->docs);
	help_pane_free(u->help);
	cache_pane_free(u->cache);
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

/* Once is enough of these, and only the newest counts. */
static int only_newest(enum ui_what what)
{
	switch (what) {
	case UI_STOP: case UI_QUIT: case UI_SUSPEND: case UI_REPAINT: case UI_LIST: case UI_PREVIEW: case UI_FIND:
	case UI_PANEL: case UI_MOUSE: case UI_THEME:
		return 1;
	default:
		return 0;
	}
}

void todo_add(struct ui *u, enum ui_what what, const char *text, size_t n, int64_t id, int on)
{
	struct todo *t = NULL;

	for (size_t i = 0; only_newest(what) && i < u->n_todo && !t; i++)
		if (u->todo[i].what == what)
			t = &u->todo[i];
	if (!t) {
		if (u->n_todo == u->cap_todo) {
			u->cap_todo = u->cap_todo ? u->cap_todo * 2 : 16;
			u->todo = xrealloc(u->todo, u->cap_todo * sizeof *u->todo);
		}
		t = &u->todo[u->n_todo++];
		memset(t, 0, sizeof *t);
	}
	t->what = what;
	t->id = id;
	t->on = on;
	str_clear(&t->text);
	if (n)
		str_add(&t->text, text, n);
}

int ui_working(const struct ui *u)
{
	return u->work.verb.n > 0 || u->begun;
}

int ui_closed(const struct ui *u)
{
	return u->begun || (u->work.verb.n > 0 && !u->work.open);
}

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
		/* What it starts is posted a moment later: another thread does it.  The next one waits until then. */
		u->begun = !c || c->busy != BUSY_ALLOWED;
		u->begun_until = u->now + BEGIN_SECONDS;
		queue_remove(u, 0);
		u->dirty = 1;
	} else {
		return 0;
	}
	out->text = u->given.p ? u->given.p : "";
	out->n = u->given.n;
	return 1;
}

/* ---- layout ---- */

/* What the application has to compute for the panel, as far as it is seen. */
static int panel_seen(const struct ui *u)
{
	return u->pane == CACHE ? 2 : u->lay.side || u->lay.bar;
}

void ui_lay_out(struct ui *u)
{
	struct layout *l = &u->lay;
	int left = u->h, wide = u->w >= SIDE_FROM;

	memset(l, 0, sizeof *l);
	l->line = u->searching ? 1 : within(input_rows(u->w, within(u->h / 3, 1, 10)), 1, within(u->h / 3, 1, 10));
	left -= l->line;
	l->status = left >= 2;
	left -= l->status;
	l->hints = u->h >= HINTS_FROM;
	left -= l->hints;
	/* A row at least, also before there is anything to show: what is seen is what the application computes. */
	if (u->panel && !wide && u->w >= BAR_COLS && u->h >= BAR_ROWS && u->pane != CACHE && left > TALK_LEAST)
		l->bar = within(cache_pane_rows(u->cache, u->w), 1, left - TALK_LEAST);
	left -= l->bar;
	if (ui_working(u) && u->n_queue)
		l->queue = within((int)u->n_queue, 0, left > TALK_LEAST ? within(left - TALK_LEAST, 0, QUEUE_ROWS) : 0);
	l->body = left - l->queue;
	/* Lists and the help want the width; a document is read beside the cache. */
	if (u->panel && wide && (u->pane == NO_PANE || u->pane == DOCUMENTS))
		l->side = within(u->w * 2 / 5, 40, 48);
	if (u->focus == ON_PANEL && !l->side && !l->bar)
		u->focus = ON_LINE;
	if (panel_seen(u) != u->panel_told) {
		u->panel_told = panel_seen(u);
		todo_add(u, UI_PANEL, NULL, 0, 0, u->panel_told);
	}
}

void pane_open(struct ui *u, enum pane pane)
{
	if (u->searching || u->pattern.text.n)
		ui_search_off(u);
	u->pane = pane;
	u->focus = ON_PANE;
	if (pane == SESSIONS) {
		sessions_pane_open(u->sessions);
		todo_add(u, UI_LIST, NULL, 0, 0, 0);
	}
	u->dirty = 1;
}

void pane_close(struct ui *u)
{
	u->pane = NO_PANE;
	u->focus = ON_LINE;
	u->dirty = 1;
}

void ui_resize(struct ui *u, int w, int h)
{
	w = within(w, 1, SCREEN_MOST);
	h = within(h, 1, SCREEN_MOST);
	if (w == u->w && h == u->h)
		return;
	u->w = w;
	u->h = h;
	grid_resize(&u->grid, w, h);
	u->moved = 1;
	u->dirty = 1;
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

/* The rules about two keys in a row count from what came in, so a clock that stands still or jumps does no harm. */
void ui_feed(struct ui *u, const char *bytes, size_t n, double now)
{
	u->now = now;
	keys_feed(&u->keys, bytes, n, now, ui_key, u);
	ui_lay_out(u);
}

void ui_tick(struct ui *u, double now)
{
	u->now = now;
	keys_tick(&u->keys, now, ui_key, u);
	say_tick(u);
	if (u->typed && now >= u->typed_until) {
		struct ui_action a = {0};
		u->typed = 0;
		if (u->pane == SESSIONS && sessions_pane_pause(u->sessions, &a) == PANE_ACTION) {
			pane_act(u, &a);
			u->dirty = 1;
		}
	}
	if (u->begun && now >= u->begun_until) {
		u->begun = 0;
		u->dirty = 1;
	}
	if (u->gone_until > 0 && now >= u->gone_until) {
		u->gone_until = 0;
		sessions_pane_gone(u->sessions);
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
	if (u->gone_until > 0 && (at == 0 || u->gone_until < at))
		at = u->gone_until;
	return at;
}

/* ---- drawing ---- */

int ui_dirty(const struct ui *u)
{
	return u->dirty || (u->pane == NO_PANE && u->lay.body > 0 && transcript_changed(u->talk));
}

/* "12 new lines", where the talk goes on below the screen. */
static void draw_below(struct ui *u, const struct area *a)
{
	size_t below = transcript_below(u->talk), lines;
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

static void draw_talk(struct ui *u, const struct area *a)
{
	static const char hello[] = "Write a question and press Enter. F1 or ? shows the keys, / begins a command.";

	if (a->w < 1 || a->h < 1)
		return;
	transcript_draw(u->talk, a);
	draw_below(u, a);
	if (!transcript_count(u->talk))
		area_text(a, 0, a->h - 1, ST_FAINT, hello, sizeof hello - 1);
}

static void draw_body(struct ui *u, const struct area *a)
{
	switch (u->pane) {
	case NO_PANE:   draw_talk(u, a); break;
	case SESSIONS:  sessions_pane_draw(u->sessions, a); break;
	case DOCUMENTS: docs_pane_draw(u->docs, a); break;
	case HELP:      help_pane_draw(u->help, a); break;
	case CACHE:     cache_pane_draw(u->cache, a); break;
	}
}

static void draw(struct ui *u)
{
	const struct layout *l = &u->lay;
	struct area all = area_of(&u->grid), part, body;
	int y = 0, x, cursor_x, cursor_y;

	ui_lay_out(u);
	grid_clear(&u->grid);
	u->grid.cursor_y = -1;
	if (l->side) {
		x = u->w - l->side;
		for (int i = 0; i < l->body; i++)
			area_cell(&all, x - 1, i, u->ascii ? '|' : 0x2502, ST_RULE, 0);
		part = area_part(&all, x, 0, l->side, l->body);
		cache_pane_draw_side(u->cache, &part);
	}
	if (l->bar) {
		part = area_part(&all, 0, l->body + l->queue, u->w, l->bar);
		cache_pane_draw_bar(u->cache, &part);
	}
	u->grid.cursor_y = -1;
	body = area_part(&all, 0, 0, l->side ? u->w - l->side - 1 : u->w, l->body);
	draw_body(u, &body);
	/* The cursor stands where the keys go. */
	if (u->focus != ON_PANE)
		u->grid.cursor_y = -1;
	cursor_x = u->grid.cursor_x;
	cursor_y = u->grid.cursor_y;

	y = l->body;
	part = area_part(&all, 0, y, u->w, l->queue);
	queue_draw(u, &part);
	y += l->queue + l->bar;
	if (l->status) {
		part = area_part(&all, 0, y, u->w, 1);
		status_draw(u, &part);
	}
	part = area_part(&all, 0, y + l->status, u->w, l->line);
	if (u->searching) {
		search_draw(u, &part);
	} else {
		input_draw(&part, input_commands() ? ": " : "> ");
		if (u->focus != ON_LINE) {
			u->grid.cursor_x = cursor_x;
			u->grid.cursor_y = cursor_y;
		}
	}
	if (l->hints) {
		part = area_part(&all, 0, u->h - 1, u->w, 1);
		hints_draw(u, &part);
	}
	if (u->focus == ON_LINE && input_offers() > 0) {
		part = area_part(&all, 0, 0, u->w, y);
		cursor_x = u->grid.cursor_x;
		cursor_y = u->grid.cursor_y;
		input_draw_offers(&part);
		u->grid.cursor_x = cursor_x;
		u->grid.cursor_y = cursor_y;
	}
}

const struct grid *ui_draw(struct ui *u, double now)
{
	u->now = now;
	say_tick(u);
	if (ui_dirty(u))
		draw(u);
	u->dirty = 0;
	return &u->grid;
}

void ui_dump(struct ui *u, double now, int with_styles, struct str *out)
{
	grid_dump(ui_draw(u, now), with_styles, out);
}

/* ---- what happens: the talk ---- */

void ui_talk_clear(struct ui *u)
{
	transcript_clear(u->talk);
	if (u->searching || u->pattern.text.n) {
		ui_search_off(u);
		u->focus = u->pane ? ON_PANE : ON_LINE;
	}
	str_clear(&u->last_question);
	u->has_place = 0;
	u->fresh = u->below = 0;
	u->dirty = 1;
}

size_t ui_entry(struct ui *u, enum ui_role role, const char *text, size_t n)
{
	if (role == UI_USER) {
		str_clear(&u->last_question);
		if (n)
			str_add(&u->last_question, text, n);
	}
	return transcript_add(u->talk, role, text, n);
}

void ui_piece(struct ui *u, const char *bytes, size_t n)
{
	if (transcript_count(u->talk))
		transcript_append(u->talk, bytes, n);
}

void ui_entry_end(struct ui *u, const char *note)
{
	if (transcript_count(u->talk))
		transcript_end(u->talk, note);
}

void ui_lens(struct ui *u, int which, const struct ui_span *span, size_t n)
{
	if (which >= 0) {
		transcript_lens(u->talk, (size_t)which, span, n);
	} else {
		docs_pane_lens(u->docs, (size_t)(-1 - (int64_t)which), span, n);
		u->dirty |= u->pane == DOCUMENTS;
	}
}

/* ---- what happens: beside the talk ---- */

static void clean_into(struct str *out, const char *text)
{
	str_clear(out);
	if (text)
		clean_line(text, strlen(text), out);
}

/* As it is shown, to find out whether that has changed. */
static int same_text(const struct str *a, const struct str *b)
{
	return a->n == b->n && (!a->n || !memcmp(a->p, b->p, a->n));
}

void ui_work(struct ui *u, const struct ui_work *w)
{
	struct str before = {0}, after = {0};

	u->dirty |= u->begun;
	u->begun = 0;
	status_work(u, 0, &before);
	clean_into(&u->work.verb, w ? w->verb : NULL);
	u->work.open = w && w->open;
	if (u->work.verb.n) {
		u->work.total = w->total > 0 ? w->total : 0;
		u->work.done = w->done < 0 ? 0 : w->done > u->work.total ? u->work.total : w->done;
		u->work.had = w->had;
		u->work.tps = w->tps;
		u->work.left = w->left;
	}
	status_work(u, 0, &after);
	if (!same_text(&before, &after))
		u->dirty = 1;
	str_free(&before);
	str_free(&after);
	ui_lay_out(u);
}

static int change(struct str *s, const char *text, const char *instead)
{
	struct str clean = {0};
	int changed;

	clean_into(&clean, text && *text ? text : instead);
	changed = !same_text(&clean, s);
	str_free(s);
	*s = clean;
	return changed;
}

void ui_status(struct ui *u, const struct ui_status *s)
{
	int changed = !u->has_status || s->seen != u->status.seen || s->kept != u->status.kept ||
	              s->ctx != u->status.ctx || s->gone != u->status.gone || s->thinned != u->status.thinned ||
	              s->tps != u->status.tps || s->memory >> 20 != u->status.memory;

	changed |= change(&u->status.model, s->model, "");
	changed |= change(&u->status.session, s->session, s->session ? "new" : "private");
	changed |= change(&u->status.kv, s->kv, "");
	u->status.seen = s->seen;
	u->status.kept = s->kept;
	u->status.ctx = s->ctx;
	u->status.gone = s->gone;
	u->status.thinned = s->thinned;
	u->status.tps = s->tps;
	u->status.memory = s->memory >> 20;   /* MiB: the bytes of a process never stand still */
	u->has_status = 1;
	u->dirty |= changed;
}

void ui_say(struct ui *u, const char *text)
{
	clean_into(&u->say, text);
	u->say_new = 1;
	u->dirty = 1;
}

void ui_sayf(struct ui *u, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	ui_say(u, text);
}

void ui_documents(struct ui *u, const struct ui_document *d, size_t n)
{
	docs_pane_post(u->docs, d, n);
	u->dirty |= u->pane == DOCUMENTS;
}

void ui_sessions(struct ui *u, const struct ui_session *s, size_t n, int64_t now)
{
	const char **names = xcalloc(n + 1, sizeof *names);
	size_t n_names = 0;
	int found = 0;

	for (size_t i = 0; i < n; i++) {
		found |= s[i].snippet && *s[i].snippet;
		if (s[i].name && *s[i].name)
			names[n_names++] = s[i].name;
	}
	/* What was found for some words is not all there is to complete. */
	if (!found)
		input_names(names, n_names);
	free(names);
	sessions_pane_post(u->sessions, s, n, now);
	u->dirty |= u->pane == SESSIONS;
}

void ui_preview(struct ui *u, int64_t id, const char *text, size_t n)
{
	sessions_pane_preview(u->sessions, id, text, n);
	u->dirty |= u->pane == SESSIONS;
}

void ui_draft(struct ui *u, const char *text, size_t n)
{
	input_set(text, n);
	u->focus = ON_LINE;
	u->dirty = 1;
	ui_lay_out(u);
}

void ui_cache(struct ui *u, const struct ui_cache *c)
{
	cache_pane_post(u->cache, c);
	ui_lay_out(u);
	u->dirty |= panel_seen(u) > 0;
}

/* ---- the screen's own commands ---- */

void ui_open_help(struct ui *u)
{
	pane_open(u, HELP);
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
	u->focus = ON_PANE;
	sessions_pane_ask(u->sessions, session);
	u->dirty = 1;
	ui_lay_out(u);
}

void ui_open_documents(struct ui *u, const char *where)
{
	pane_open(u, DOCUMENTS);
	if (where && *where)
		docs_pane_goto(u->docs, where);
	ui_lay_out(u);
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
			cache_pane_layer(u->cache, layer);
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
	ui_search_run(u, -1);
	if (u->found)
		u->focus = ON_TALK;
	else
		ui_search_off(u);
	u->dirty = 1;
	return u->found > INT32_MAX ? INT32_MAX : (int)u->found;
}

/* A number from 1 up behind `text`, or -1. */
static long number(const char *text)
{
	long v = 0;

	if (!*text)
		return -1;
	for (; *text >= '0' && *text <= '9' && v < 1000000; text++)
		v = v * 10 + (*text - '0');
	return *text || !v ? -1 : v;
}

int ui_copy(struct ui *u, const char *what, struct err *e)
{
	size_t messages = transcript_messages(u->talk);
	struct str s = {0};
	long n = 1;
	int there;

	if (!strcmp(what, "all")) {
		there = transcript_copy_all(u->talk, &s);
	} else if (!strcmp(what, "code") || !strncmp(what, "code ", 5)) {
		n = what[4] ? number(what + 5) : 1;
		there = n > 0 && transcript_copy_code(u->talk, (size_t)n, &s);
		if (!there)
			err_set(e, ERR_USAGE, "there is no such block of code '%.40s'; /copy code takes the last one, "
			        "/copy code 2 the one before", what);
	} else if (!*what) {
		there = messages > 0 && transcript_copy_message(u->talk, messages - 1, &s);
	} else {
		n = number(what);
		there = n > 0 && (size_t)n <= messages && transcript_copy_message(u->talk, (size_t)n - 1, &s);
		if (!there)
			err_set(e, ERR_USAGE, "/copy knows no '%.40s'; it takes a number from 1 to %zu, code, code N "
			        "or all", what, messages);
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

int ui_theme(struct ui *u, const char *name, struct err *e)
{
	static const char *const themes[] = {"dark", "light", "mono"};
	int n = sizeof themes / sizeof themes[0], at = *name ? 0 : (u->theme + 1) % n;

	while (*name && at < n && strcmp(name, themes[at]))
		at++;
	if (at == n)
		return err_set(e, ERR_USAGE, "there is no theme '%.40s': dark, light or mono", name);
	u->theme = at;
	cache_pane_color(u->cache, u->color && strcmp(themes[at], "mono") != 0);
	todo_add(u, UI_THEME, themes[at], strlen(themes[at]), 0, 0);
	ui_sayf(u, "theme: %s", themes[at]);
	return 0;
}

void ui_raw(struct ui *u)
{
	int raw = !transcript_is_raw(u->talk);

	transcript_raw(u->talk, raw);
	u->moved = 1;
	ui_sayf(u, raw ? "answers as they came" : "answers formatted");
}

void ui_mouse(struct ui *u)
{
	u->mouse = !u->mouse;
	todo_add(u, UI_MOUSE, NULL, 0, 0, u->mouse);
	ui_sayf(u, u->mouse ? "the mouse scrolls; Shift selects text" : "the mouse belongs to the terminal");
}
