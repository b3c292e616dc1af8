/* ui/ui_acts.c - carries out the actions of the key bindings: focus, closing, stopping, quitting, scrolling,
 * copying. */
#include "ui/ui_private.h"

#include <string.h>

/* ---- panes and focus ---- */

/* Move the focus (F6) in this order: the open pane or the transcript, the cache panel, the input line. */
static void next_focus(struct ui *u)
{
	int panel = u->lay.side || u->lay.bar;

	if (pane_state(u, PANE_FIELD))
		return; /* the search field has the focus already */
	u->searching = 0;
	if (u->focus == ON_LINE)
		u->focus = u->pane ? ON_PANE : ON_TRANSCRIPT;
	else if (u->focus != ON_PANEL && panel)
		u->focus = ON_PANEL;
	else
		focus_line(u);
}

/* ---- F3 ---- */

/* Open the search (F3) of the pane or transcript, or go to its next match. The transcript is searched upwards from the
 * newest text. */
static void find(struct ui *u, int step)
{
	char c = !pane_state(u, PANE_MATCHES) ? '/' : step > 0 ? 'n' : 'N';
	struct key k = { .code = K_CHAR, .cp = c, .bytes = &c, .n = 1 };

	if (pane_has(u, PANE_SEARCHES))
		pane_key(u, &k);
	else if (!u->pane && u->pattern.text.n)
		ui_search_run(u, u->search_down ? step : -step);
	else if (!u->searching)
		ui_search_open(u, 0);
}

/* ---- stopping and quitting ---- */

/* Move the queued messages back into the input line, in front of its text. */
static void unqueue_all(struct ui *u)
{
	struct str s = { 0 };

	if (!u->n_queue)
		return;
	queue_lines(u, &s);
	if (!input_empty())
		/* in the restored line, each long paste stays one character; input_whole() would expand the pastes */
		str_addf(&s, "\n%s", input_text(NULL));
	while (u->n_queue)
		queue_remove(u, u->n_queue - 1);
	input_restore(s.p);
	focus_line(u);
	str_free(&s);
}

static void stop_work(struct ui *u)
{
	todo_add(u, UI_STOP, NULL, 0, 0, 0);
	unqueue_all(u);
}

static void quit(struct ui *u)
{
	if (!input_empty())
		input_abandon();
	todo_add(u, UI_QUIT, NULL, 0, 0, 0);
}

static void edit_last(struct ui *u)
{
	struct str s = { 0 };

	if (!u->last_question.n) {
		ui_sayf(u, "no question has been asked yet");
		return;
	}
	str_adds(&s, "/edit ");
	str_add(&s, u->last_question.p, u->last_question.n);
	if (!input_empty())
		input_abandon();
	focus_line(u);
	input_set(s.p, s.n);
	str_free(&s);
}

static void back(struct ui *u)
{
	int once = u->esc_once && u->now - u->esc_at <= ESC_SECONDS;

	u->esc_once = 0;
	if (u->focus == ON_TRANSCRIPT) {
		focus_line(u);
	} else if (u->pane) {
		pane_close(u);
	} else if (u->pattern.text.n) {
		ui_search_off(u);
	} else if (ui_working(u)) {
		stop_work(u);
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
		stop_work(u);
	} else if (u->searching) {
		ui_search_off(u);
	} else if (pane_state(u, PANE_FIELD)) {
		/* Give the key to the pane, which may close its field. If the pane does not use the key, close the
		 * pane. */
		if (!pane_key(u, k))
			pane_close(u);
	} else if (u->focus != ON_LINE) {
		focus_line(u);
	} else if (!input_empty() || input_offers()) {
		input_abandon();
	} else if (u->pane) {
		pane_close(u);
	} else if (u->quit_once && u->now - u->quit_at <= QUIT_SECONDS) {
		u->quit_once = 0;
		quit(u);
	} else {
		focus_line(u);
		ui_sayf(u, "Ctrl-C again quits");
		u->say_until = u->now + QUIT_SECONDS;
		u->say_new = 0;
		u->quit_once = 1;
		u->quit_at = u->now;
	}
}

/* ---- the acts ---- */

static void copy_out(struct ui *u, int there, struct str *s, const char *what)
{
	if (there && s->n)
		todo_add(u, UI_COPY, s->p, s->n, 0, 0);
	else
		ui_sayf(u, "there is no %s to copy yet", what);
	str_free(s);
}

static void editor(struct ui *u)
{
	struct str text = { 0 };

	input_whole(&text);
	todo_add(u, UI_EDITOR, str_text(&text), text.n, 0, 0);
	str_free(&text);
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

static void page(struct ui *u, double pages)
{
	/* If a pane is open, do nothing: a pane that scrolls has handled the key already. */
	if (!u->pane) {
		transcript_page(u->transcript, pages);
		u->moved = 1;
	}
}

static void jump(struct ui *u)
{
	uint64_t here = transcript_position(u->transcript);

	if (!u->has_mark) {
		ui_sayf(u, "no place is marked yet; m marks one");
		return;
	}
	transcript_go(u->transcript, u->mark);
	u->mark = here;
}

/* Do what a key does while the input line is empty. */
static void act_without_input(struct ui *u, enum act what)
{
	switch (what) {
	case ACT_TOP_EMPTY: transcript_top(u->transcript); break;
	case ACT_END_EMPTY: transcript_end_follow(u->transcript); break;
	case ACT_VARIANT: ui_submit_command(u, "/variant next"); break;
	case ACT_VARIANT_BACK: ui_submit_command(u, "/variant previous"); break;
	case ACT_UNQUEUE:
		input_set(u->queue[u->n_queue - 1].p, u->queue[u->n_queue - 1].n);
		queue_remove(u, u->n_queue - 1);
		break;
	default:
		if (ui_working(u))
			ui_sayf(u, "still %s: Ctrl-C stops it", u->work.verb.n ? u->work.verb.p : "at work");
		else
			quit(u);
	}
}

int ui_act(struct ui *u, enum act what, const struct key *k)
{
	struct str s = { 0 };
	size_t n;

	if (what > ACT_PANE) {
		pane_toggle(u, (enum pane_id)(what - ACT_PANE));
		return 1;
	}
	switch (what) {
	case ACT_NONE: return 0;
	case ACT_PANEL: ui_panel_next(u); break;
	case ACT_FIND: find(u, 1); break;
	case ACT_FIND_BACK: find(u, -1); break;
	case ACT_NEXT: next_focus(u); break;
	case ACT_SOURCE: ui_source_next(u); break;
	case ACT_MOUSE: ui_mouse(u, -1); break;
	case ACT_QUIT: quit(u); break;
	case ACT_NEW: ui_submit_command(u, "/new"); break;
	case ACT_THEME: ui_theme(u, "", NULL); break;
	case ACT_RAW: ui_raw(u, -1); break;
	case ACT_EDITOR: editor(u); break;
	case ACT_STOP: stop(u, k); break;
	case ACT_BACK: back(u); break;
	case ACT_SUSPEND: todo_add(u, UI_SUSPEND, NULL, 0, 0, 0); break;
	case ACT_REPAINT: todo_add(u, UI_REPAINT, NULL, 0, 0, 0); break;

	case ACT_UP: transcript_scroll(u->transcript, -1); break;
	case ACT_DOWN: transcript_scroll(u->transcript, 1); break;
	case ACT_HALF_UP: transcript_page(u->transcript, -0.5); break;
	case ACT_HALF_DOWN: transcript_page(u->transcript, 0.5); break;
	case ACT_PAGE_UP: page(u, -1); break;
	case ACT_PAGE_DOWN: page(u, 1); break;
	case ACT_TOP: transcript_top(u->transcript); break;
	case ACT_END: transcript_end_follow(u->transcript); break;
	case ACT_QUESTION_UP: transcript_question(u->transcript, -1); break;
	case ACT_QUESTION_DOWN: transcript_question(u->transcript, 1); break;
	case ACT_MARK:
		u->mark = transcript_position(u->transcript);
		u->has_mark = 1;
		break;
	case ACT_JUMP: jump(u); break;
	case ACT_FOLD: transcript_fold(u->transcript); break;

	case ACT_TOP_EMPTY:
	case ACT_END_EMPTY:
	case ACT_VARIANT:
	case ACT_VARIANT_BACK:
	case ACT_UNQUEUE:
	case ACT_QUIT_EMPTY:
		if (!input_empty() || (what == ACT_UNQUEUE && !u->n_queue))
			return 0;
		act_without_input(u, what);
		break;

	case ACT_FIND_DOWN: ui_search_open(u, 1); break;
	case ACT_FIND_UP: ui_search_open(u, 0); break;
	case ACT_AGAIN: ui_search_run(u, u->search_down ? 1 : -1); break;
	case ACT_AGAIN_BACK: ui_search_run(u, u->search_down ? -1 : 1); break;
	case ACT_COPY: copy_out(u, transcript_copy_focus(u->transcript, &s), &s, "message"); break;
	case ACT_COPY_LAST:
		n = transcript_messages(u->transcript);
		copy_out(u, n > 0 && transcript_copy_message(u->transcript, n - 1, &s), &s, "message");
		break;
	case ACT_COPY_CODE: copy_out(u, transcript_copy_code(u->transcript, 1, &s), &s, "block of code"); break;
	case ACT_RETRY:
		focus_line(u);
		ui_submit_command(u, "/regen");
		break;
	case ACT_LINE: focus_line(u); break;
	case ACT_PANE: break;
	}
	if (what >= ACT_UP)
		u->moved = 1;
	return 1;
}
