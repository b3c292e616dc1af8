/* ui/ui_keys.c - what each key does.
 *
 * A key goes through these, until one uses it:
 *   1. what holds whatever is open: Ctrl-C, Ctrl-Z, Ctrl-L, the mouse, a paste, the letter behind Ctrl-X
 *   2. the search line, while it is open
 *   3. the pane that has the focus
 *   4. the popup of completions, a search of the history, vi's insert mode: Esc, Enter, Tab and arrows are theirs
 *   5. the table of bindings, for the place that has the focus
 *   6. the input line
 *
 * So Esc always goes one step back: popup, search, pane, answer.  Nothing that was typed is ever lost on the way. */
#include "ui/ui_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the queue: messages typed while an answer runs ---- */

void queue_remove(struct ui *u, size_t i)
{
	str_free(&u->queue[i]);
	u->n_queue--;
	memmove(&u->queue[i], &u->queue[i + 1], (u->n_queue - i) * sizeof u->queue[0]);
	memset(&u->queue[u->n_queue], 0, sizeof u->queue[0]);
}

static int in_words(const char *words, const char *word, size_t n)
{
	for (const char *w = words; *w;) {
		size_t len = strcspn(w, " ");
		if (len == n && !memcmp(w, word, n))
			return 1;
		w += len + strspn(w + len, " ");
	}
	return 0;
}

static size_t word_of(const char *text, size_t n)
{
	size_t word = 0;

	while (word < n && !strchr(" \t\n\r", text[word]))
		word++;
	return word;
}

const struct ui_command *command_of(const struct ui *u, const char *text, size_t n)
{
	size_t word = word_of(text, n);

	for (const struct ui_command *c = u->commands; c && c->name; c++)
		if (in_words(c->name, text, word) || in_words(c->aliases, text, word))
			return c;
	return NULL;
}

static void draft_back(struct ui *u, const char *text, size_t n)
{
	input_set(text, n);
	u->focus = ON_LINE;
}

/* A message or command that the user has ended.  What cannot go now waits in the queue, or comes back into the line. */
static void submit(struct ui *u, const char *text, size_t n)
{
	int busy = ui_closed(u) || u->n_queue, is_command = n > 1 && text[0] == '/' && text[1] != '/';
	size_t i = 0;

	while (i < n && strchr(" \t\n\r", text[i]))
		i++;
	if (i == n)
		return;
	if (is_command && busy) {
		const struct ui_command *c = command_of(u, text, n);
		size_t word = word_of(text, n);
		struct str name = {0};

		clean_line(text, word < 40 ? word : 40, &name);
		if (c && c->busy == BUSY_ALLOWED) {
			todo_add(u, UI_SEND, text, n, 0, 0);
		} else if (!c || c->busy == BUSY_REFUSED) {
			draft_back(u, text, n);
			if (c)
				ui_sayf(u, "%s has to wait until the answer is there; Esc stops it", name.p);
			else
				ui_sayf(u, "there is no command %s; F1 lists them", name.p);
		}
		str_free(&name);
		if (!c || c->busy != BUSY_QUEUED)
			return;
	}
	if (u->n_queue == QUEUE_MOST) {
		draft_back(u, text, n);
		ui_sayf(u, "%d messages wait already", QUEUE_MOST);
		return;
	}
	str_add(&u->queue[u->n_queue++], text, n);
	if (is_command)
		return;
	/* The answer is what one wants to see next. */
	if (u->pane)
		pane_close(u);
	if (!busy) {
		transcript_end_follow(u->talk);
		u->moved = 1;
	}
}

static void submit_command(struct ui *u, const char *command)
{
	struct str draft = {0};
	size_t n;
	const char *text = input_text(&n);

	/* One that is refused comes back as a draft; the user's own must not make way for it. */
	str_add(&draft, text, n);
	submit(u, command, strlen(command));
	input_set(draft.n ? draft.p : "", draft.n);
	str_free(&draft);
}

static void line_key(struct ui *u, const struct key *k)
{
	struct str s = {0};

	input_key(k);
	if (input_take(&s))
		submit(u, s.p ? s.p : "", s.n);
	str_free(&s);
}

/* ---- search in the talk ---- */

void ui_search_run(struct ui *u, int step)
{
	const struct str *s = &u->pattern.text;

	u->found = u->found_at = 0;
	u->found = transcript_search(u->talk, s->n ? s->p : NULL, step, &u->found_at);
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

static void to_line(struct ui *u)
{
	if (u->pattern.text.n)
		ui_search_off(u);
	u->focus = ON_LINE;
}

static void search_open(struct ui *u, int down)
{
	if (u->pane)
		pane_close(u);
	ui_search_off(u);
	u->searching = 1;
	u->search_down = down;
	u->focus = ON_TALK;
}

static void search_key(struct ui *u, const struct key *k)
{
	int had = u->found > 0, cancel = k->code == K_ESC || (k->code == K_CHAR && k->mods == KEY_CTRL && k->cp == 'g');

	if (cancel || (k->code == K_BACKSPACE && !u->pattern.text.n)) {
		ui_search_off(u);
		u->focus = ON_LINE;
	} else if (k->code == K_ENTER) {
		u->searching = 0;
		if (!u->found) {
			if (u->pattern.text.n)
				ui_sayf(u, "not found");
			to_line(u);
		}
	} else if (k->code == K_UP || k->code == K_DOWN) {
		ui_search_run(u, k->code == K_UP ? -1 : 1);
	} else if (edit_key(&u->pattern, k) == 1) {
		/* The first letter finds a place, the following ones narrow it. */
		ui_search_run(u, had || !u->search_down ? 0 : 1);
	}
}

/* ---- panes and focus ---- */

/* What F2 does: the bar, everything, nothing.  Where the screen has no room for the bar it is left out. */
void ui_panel_next(struct ui *u)
{
	if (u->pane == CACHE) {
		pane_close(u);
		u->panel = 0;
	} else if (!u->panel && (u->w >= SIDE_FROM || (u->w >= BAR_COLS && u->h >= BAR_ROWS))) {
		u->panel = 1;
		ui_sayf(u, "F2 shows all of it; F6 twice, then ?: what the numbers mean");
	} else {
		pane_open(u, CACHE);
	}
}

static void toggle(struct ui *u, enum pane pane)
{
	if (u->pane == pane)
		pane_close(u);
	else
		pane_open(u, pane);
}

static void next_focus(struct ui *u)
{
	int panel = u->lay.side || u->lay.bar;

	if (u->focus == ON_LINE)
		u->focus = u->pane ? ON_PANE : ON_TALK;
	else if (u->focus != ON_PANEL && panel)
		u->focus = ON_PANEL;
	else
		to_line(u);
}

static enum pane_key pane_key_to(struct ui *u, const struct key *k, struct ui_action *act)
{
	switch (u->pane) {
	case SESSIONS:  return sessions_pane_key(u->sessions, k, act);
	case DOCUMENTS: return docs_pane_key(u->docs, k);
	case HELP:      return help_pane_key(u->help, k);
	case CACHE:     return cache_pane_key(u->cache, k);
	case NO_PANE:   break;
	}
	return PANE_NOT_MINE;
}

void pane_act(struct ui *u, const struct ui_action *a)
{
	if (a->what == UI_SWITCH && (ui_closed(u) || u->n_queue)) {
		ui_sayf(u, "another session has to wait until the answer is there; Ctrl-C stops it");
		return;
	}
	todo_add(u, a->what, a->text, a->text ? a->n : 0, a->id, a->on);
	if (a->what == UI_DELETE)
		u->gone_until = u->now + DELETE_UNDO;
	if (a->what == UI_SWITCH)
		pane_close(u);
}

static int pane_key(struct ui *u, const struct key *k)
{
	struct ui_action a = {0};

	if (u->pane == SESSIONS) {
		u->typed = 1;
		u->typed_until = u->now + TYPED_SECONDS;
	}
	switch (pane_key_to(u, k, &a)) {
	case PANE_NOT_MINE:
		return 0;
	case PANE_USED:
		return 1;
	case PANE_CLOSE:
		pane_close(u);
		return 1;
	case PANE_ACTION:
		pane_act(u, &a);
	}
	return 1;
}

/* The small forms of the cache have few keys of their own, and all ways lead back. */
static int panel_key(struct ui *u, const struct key *k)
{
	if (k->code == K_TAB || k->code == K_ENTER || cache_pane_key(u->cache, k) == PANE_CLOSE)
		to_line(u);
	return k->code != K_F && k->mods == 0;
}

/* The same key as if it had been typed: '/' opens the search of a pane. */
static void pane_char(struct ui *u, char c)
{
	struct key k = {.code = K_CHAR, .cp = c, .bytes = &c, .n = 1};

	u->focus = ON_PANE;
	pane_key(u, &k);
}

/* ---- stopping and leaving ---- */

static void quit(struct ui *u)
{
	if (!input_empty())
		input_abandon();
	todo_add(u, UI_QUIT, NULL, 0, 0, 0);
}

static void edit_last(struct ui *u)
{
	struct str s = {0};

	if (!u->last_question.n) {
		ui_sayf(u, "there is no question yet");
		return;
	}
	str_adds(&s, "/edit ");
	str_add(&s, u->last_question.p, u->last_question.n);
	if (!input_empty())
		input_abandon();
	to_line(u);
	input_set(s.p, s.n);
	str_free(&s);
}

static void back(struct ui *u)
{
	int once = u->esc_once && u->now - u->esc_at <= ESC_SECONDS;

	u->esc_once = 0;
	if (u->focus == ON_TALK) {
		to_line(u);
	} else if (u->pane) {
		pane_close(u);
	} else if (ui_working(u)) {
		todo_add(u, UI_STOP, NULL, 0, 0, 0);
	} else if (input_empty() && u->last_question.n) {
		if (once) {
			edit_last(u);
		} else {
			u->esc_once = 1;
			u->esc_at = u->now;
		}
	}
}

static void stop(struct ui *u, const struct key *k)
{
	if (ui_working(u)) {
		todo_add(u, UI_STOP, NULL, 0, 0, 0);
	} else if (u->searching) {
		ui_search_off(u);
		u->focus = ON_LINE;
	} else if (u->focus == ON_PANE) {
		/* A field that is open in it first. */
		if (!pane_key(u, k))
			pane_close(u);
	} else if (!input_empty() || input_offers()) {
		input_abandon();
		u->focus = u->focus == ON_TALK ? ON_LINE : u->focus;
	} else if (u->pane) {
		pane_close(u);
	} else if (u->quit_once && u->now - u->quit_at <= QUIT_SECONDS) {
		u->quit_once = 0;
		quit(u);
	} else {
		to_line(u);
		ui_sayf(u, "Ctrl-C again quits");
		u->say_until = u->now + QUIT_SECONDS;
		u->say_new = 0;
		u->quit_once = 1;
		u->quit_at = u->now;
	}
}

/* ---- the deeds of the table ---- */

static void copy_out(struct ui *u, int there, struct str *s, const char *what)
{
	if (there && s->n)
		todo_add(u, UI_COPY, s->p, s->n, 0, 0);
	else
		ui_sayf(u, "there is no %s to copy", what);
	str_free(s);
}

static void editor(struct ui *u)
{
	size_t n;
	const char *text = input_text(&n);

	todo_add(u, UI_EDITOR, text, n, 0, 0);
	u->focus = ON_LINE;
}

void ui_edit(struct ui *u, const char *text)
{
	if (*text) {
		todo_add(u, UI_EDITOR, text, strlen(text), 0, 0);
		u->focus = ON_LINE;
	} else {
		editor(u);
	}
}

static void page(struct ui *u, const struct key *k, double pages)
{
	if (u->pane && u->focus == ON_LINE) {
		struct ui_action none;
		pane_key_to(u, k, &none);
	} else {
		transcript_page(u->talk, pages);
		u->moved = 1;
	}
}

static void jump(struct ui *u)
{
	uint64_t here = transcript_place(u->talk);

	if (!u->has_place) {
		ui_sayf(u, "no place is marked yet: m marks one");
		return;
	}
	transcript_go(u->talk, u->place);
	u->place = here;
}

/* 0: it means nothing here, the key goes on to the line. */
static int act(struct ui *u, enum act what, const struct key *k)
{
	struct str s = {0};
	size_t n;

	switch (what) {
	case ACT_NONE:       return 0;
	case ACT_HELP:       toggle(u, HELP); break;
	case ACT_PANEL:      ui_panel_next(u); break;
	case ACT_FIND:
		if (u->pane == DOCUMENTS || u->pane == HELP)
			pane_char(u, '/');
		else
			search_open(u, 0);
		break;
	case ACT_SESSIONS:   toggle(u, SESSIONS); break;
	case ACT_DOCUMENTS:  toggle(u, DOCUMENTS); break;
	case ACT_NEXT:       next_focus(u); break;
	case ACT_MOUSE:      ui_mouse(u); break;
	case ACT_QUIT:       quit(u); break;
	case ACT_NEW:        submit_command(u, "/new"); break;
	case ACT_THEME:      ui_theme(u, "", NULL); break;
	case ACT_RAW:        ui_raw(u); break;
	case ACT_EDITOR:     editor(u); break;
	case ACT_STOP:       stop(u, k); break;
	case ACT_BACK:       back(u); break;
	case ACT_SUSPEND:    todo_add(u, UI_SUSPEND, NULL, 0, 0, 0); break;
	case ACT_REPAINT:    todo_add(u, UI_REPAINT, NULL, 0, 0, 0); break;

	case ACT_UP:         transcript_scroll(u->talk, -1); break;
	case ACT_DOWN:       transcript_scroll(u->talk, 1); break;
	case ACT_HALF_UP:    transcript_page(u->talk, -0.5); break;
	case ACT_HALF_DOWN:  transcript_page(u->talk, 0.5); break;
	case ACT_PAGE_UP:    page(u, k, -1); break;
	case ACT_PAGE_DOWN:  page(u, k, 1); break;
	case ACT_TOP:        transcript_top(u->talk); break;
	case ACT_END:        transcript_end_follow(u->talk); break;
	case ACT_QUESTION_UP:   transcript_question(u->talk, -1); break;
	case ACT_QUESTION_DOWN: transcript_question(u->talk, 1); break;
	case ACT_MARK:       u->place = transcript_place(u->talk); u->has_place = 1; break;
	case ACT_JUMP:       jump(u); break;
	case ACT_FOLD:       transcript_fold(u->talk); break;

	case ACT_TOP_EMPTY:  if (!input_empty()) return 0; transcript_top(u->talk); break;
	case ACT_END_EMPTY:  if (!input_empty()) return 0; transcript_end_follow(u->talk); break;
	case ACT_HELP_EMPTY: if (!input_empty()) return 0; pane_open(u, HELP); break;
	case ACT_NEXT_EMPTY: if (!input_empty()) return 0; next_focus(u); break;
	case ACT_UNQUEUE:
		if (!input_empty() || !u->n_queue)
			return 0;
		input_set(u->queue[u->n_queue - 1].p, u->queue[u->n_queue - 1].n);
		queue_remove(u, u->n_queue - 1);
		break;
	case ACT_QUIT_EMPTY:
		if (!input_empty())
			return 0;
		if (ui_working(u))
			ui_sayf(u, "still %s: Ctrl-C stops it", u->work.verb.n ? u->work.verb.p : "at work");
		else
			quit(u);
		break;

	case ACT_FIND_DOWN:  search_open(u, 1); break;
	case ACT_FIND_UP:    search_open(u, 0); break;
	case ACT_AGAIN:      ui_search_run(u, u->search_down ? 1 : -1); break;
	case ACT_AGAIN_BACK: ui_search_run(u, u->search_down ? -1 : 1); break;
	case ACT_COPY:
		n = transcript_messages(u->talk);
		copy_out(u, u->focus == ON_TALK ? transcript_copy_focus(u->talk, &s)
		                                : n > 0 && transcript_copy_message(u->talk, n - 1, &s), &s, "message");
		break;
	case ACT_COPY_CODE:  copy_out(u, transcript_copy_code(u->talk, 1, &s), &s, "block of code"); break;
	case ACT_EDIT:       edit_last(u); break;
	case ACT_RETRY:      to_line(u); submit_command(u, "/retry"); break;
	case ACT_LINE:       to_line(u); break;
	}
	if (what >= ACT_UP)
		u->moved = 1;
	return 1;
}

/* As the table calls it: "F1", "Ctrl-G", "Alt-Enter", "PgUp", "j".  At most 23 bytes. */
static void key_name(const struct key *k, int leader, char out[24])
{
	static const char *const names[] = {
		[K_ENTER] = "Enter", [K_TAB] = "Tab", [K_BACKSPACE] = "Backspace", [K_ESC] = "Esc", [K_UP] = "Up",
		[K_DOWN] = "Down", [K_LEFT] = "Left", [K_RIGHT] = "Right", [K_HOME] = "Home", [K_END] = "End",
		[K_PAGE_UP] = "PgUp", [K_PAGE_DOWN] = "PgDn", [K_INSERT] = "Insert", [K_DELETE] = "Delete",
	};
	const char *before = leader ? "Ctrl-X " : "";
	char one[8] = "";
	int32_t cp = k->cp;
	unsigned mods = k->mods;

	out[0] = 0;
	if (k->code == K_CHAR && cp > 0x20 && cp < 0x7f) {
		mods &= ~(unsigned)KEY_SHIFT;   /* it is in the letter */
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
	snprintf(out, 24, "%s%s%s%s", before, mods & KEY_CTRL ? "Ctrl-" : "", mods & KEY_ALT ? "Alt-" : "", one);
}

static int named(const char *keys, const char *name)
{
	size_t n = strlen(name);

	for (const char *k = keys; n && *k;) {
		size_t len = strcspn(k, ",");
		if (!len)   /* the comma itself is no key of ours */
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
		/* A pane has looked at the key already: what it did not want has its meaning everywhere or none. */
		int here = b->where == ANYWHERE || (u->focus == ON_LINE && b->where & IN_INPUT) ||
		           (u->focus == ON_TALK && b->where & IN_TALK);
		if (here && b->act && named(b->keys, name) && act(u, (enum act)b->act, k))
			return 1;
	}
	return 0;
}

/* ---- routing ---- */

static void mouse_key(struct ui *u, const struct key *k)
{
	const struct layout *l = &u->lay;
	int on_body = k->y < l->body, up = k->cp == 4;

	if (k->cp == 4 || k->cp == 5) {
		struct ui_action none;
		struct key arrow = {.code = up ? K_UP : K_DOWN};
		if (!u->pane) {
			transcript_scroll(u->talk, up ? -3 : 3);
			u->moved = 1;
		} else if (pane_key_to(u, k, &none) == PANE_NOT_MINE) {
			for (int i = 0; i < 3; i++)
				pane_key_to(u, &arrow, &none);
		}
	} else if (k->cp == 1 && !u->searching) {
		/* Not into the talk, whose keys are letters: a stray click must not make commands of what is typed. */
		if (on_body && u->pane) {
			u->focus = ON_PANE;
			pane_key(u, k);
		} else if (!on_body) {
			to_line(u);
		}
	}
}

static int is_ctrl(const struct key *k, int32_t letter)
{
	return k->code == K_CHAR && k->mods == KEY_CTRL && k->cp == letter;
}

/* While the line has something open these belong to it. */
static int line_first(const struct key *k)
{
	switch (k->code) {
	case K_ESC:
		return input_offers() || input_wants_escape();
	case K_ENTER: case K_TAB: case K_UP: case K_DOWN:
		return input_offers() > 0;
	default:
		return is_ctrl(k, 'g') && input_wants_abort();
	}
}

void ui_key(const struct key *k, void *ud)
{
	struct ui *u = ud;
	int leader = u->leader;
	struct key x = {.code = K_CHAR, .mods = KEY_CTRL, .cp = 'x', .bytes = "\x18", .n = 1};

	if (k->code == K_FOCUS || k->code == K_UNKNOWN)
		return;
	u->dirty = 1;
	if (k->code != K_ESC)
		u->esc_once = 0;
	if (!is_ctrl(k, 'c'))
		u->quit_once = 0;
	if (k->code == K_MOUSE) {
		mouse_key(u, k);
		return;
	}
	u->leader = 0;
	if (is_ctrl(k, 'c')) {
		stop(u, k);
		return;
	}
	if (is_ctrl(k, 'z') || is_ctrl(k, 'l')) {
		bound(u, k, 0);
		return;
	}
	if (leader) {
		if (bound(u, k, 1) || k->code == K_ESC)
			return;
		/* readline has keys behind Ctrl-X, too. */
		if (u->focus == ON_LINE) {
			if (!input_wants_escape())   /* a search of the history has none, and vi no Ctrl-X */
				input_key(&x);
			line_key(u, k);
		}
		return;
	}
	if (is_ctrl(k, 'x') && !u->searching) {
		u->leader = 1;
		return;
	}
	if (u->searching) {
		/* F keys leave it; all else is typed into it. */
		if (k->code != K_F) {
			search_key(u, k);
			return;
		}
		ui_search_off(u);
		u->focus = ON_LINE;
	}
	/* F keys mean the same everywhere. */
	if (u->focus == ON_PANE && k->code != K_F && pane_key(u, k))
		return;
	if (u->focus == ON_PANEL && k->code != K_F && k->code != K_PASTE && panel_key(u, k))
		return;
	if (u->focus == ON_LINE && line_first(k)) {
		line_key(u, k);
		return;
	}
	if (bound(u, k, 0))
		return;
	if (k->code == K_PASTE)
		u->focus = ON_LINE;
	if (u->focus == ON_LINE)
		line_key(u, k);
}
