/* app/tui/tui_actions.c - carries out the user's requests, which the ui returns. Some requests become jobs of the
 * worker; others act on the terminal. */
#include <signal.h>

#include "app/tui/tui_private.h"

void tui_suspend(struct tui *t)
{
	if (!t->display)
		return;
	display_pause(t->display);
	signals_prompt(0); /* restore the default action of SIGTSTP, then stop the process */
	raise(SIGTSTP);
	signals_prompt(1);
	display_resume(t->display);
	tui_measure(t);
	/* draw even if the ui has not changed (ui_dirty() returns 0), because the terminal was cleared */
	tui_show(t);
}

static void edit_draft(struct tui *t, const char *draft, size_t n)
{
	struct str text = { 0 };
	struct err e = { 0 };

	if (!t->display)
		return;
	str_add(&text, draft, n);
	display_pause(t->display);
	if (external_edit(&text, t->chat->o.private_talk, &e) < 0)
		ui_say(t->ui, e.msg);
	else
		ui_draft(t->ui, str_text(&text), text.n);
	untyped_note(str_text(&text), text.n);
	display_resume(t->display);
	tui_measure(t);
	str_free(&text);
}

/* ---- copying ---- */

static void *copy_run(void *ud)
{
	struct tui *t = ud;

	t->copy.by = external_copy(t->copy.text.p, t->copy.text.n);
	atomic_store(&t->copy.done, 1);
	return NULL;
}

void tui_copy_end(struct tui *t, int wait)
{
	struct str s = { 0 }, size = { 0 };

	if (!t->copy.running || (!wait && !atomic_load(&t->copy.done)))
		return;
	pthread_join(t->copy.thread, NULL);
	t->copy.running = 0;
	human_bytes(&size, t->copy.text.n);
	if (t->copy.by)
		str_addf(&s, "copied %s by %s", size.p, t->copy.by);
	else if (t->display && display_copy(t->display, t->copy.text.p, t->copy.text.n) == 0)
		str_addf(&s, "sent %s to the terminal's clipboard, which it may ignore (OSC 52)", size.p);
	else
		str_adds(&s, "too long for the terminal's clipboard; install wl-copy, xclip or xsel, or use /export");
	ui_say(t->ui, s.p);
	str_free(&s);
	str_free(&size);
	str_free(&t->copy.text);
}

static void copy_text(struct tui *t, const char *text, size_t n)
{
	tui_copy_end(t, 1);
	str_add(&t->copy.text, text, n);
	atomic_store(&t->copy.done, 0);
	t->copy.by = NULL;
	t->copy.running = pthread_create(&t->copy.thread, NULL, copy_run, t) == 0;
	if (!t->copy.running) {
		str_free(&t->copy.text);
		ui_say(t->ui, "not copied: there is no memory for a thread");
	}
}

/* Tell the user that queued messages were dropped before the worker began them. */
static void say_dropped(struct tui *t)
{
	static const char said[] = "[stopped before it began; Up brings it back]";

	ui_entry(t->ui, UI_NOTICE, said, sizeof said - 1);
	ui_entry_end(t->ui, NULL);
}

static void handle_action(struct tui *t, const struct ui_action *a)
{
	struct str text = { 0 };

	/* copy the text, which is valid only until the next call of the ui */
	str_add(&text, a->text ? a->text : "", a->n);
	switch (a->what) {
	case UI_SEND: tui_take(t, &text); break;
	case UI_STOP:
		if (worker_stop(t->worker))
			say_dropped(t);
		break;
	case UI_QUIT: t->left = 1; break;
	case UI_SUSPEND: tui_suspend(t); break;
	case UI_REPAINT: tui_repaint(t); break;
	case UI_EDITOR: edit_draft(t, text.p, text.n); break;
	case UI_COPY: copy_text(t, text.p, text.n); break;
	case UI_LIST:
		t->listed = 1;
		tui_list(t);
		break;
	case UI_PREVIEW: tui_preview(t, a->id); break;
	case UI_FIND: tui_find(t, text.p); break;
	case UI_SWITCH: worker_do(t->worker, JOB_SWITCH, a->id, text.p, text.n); break;
	case UI_RENAME: worker_do(t->worker, JOB_RENAME, a->id, text.p, text.n); break;
	case UI_FORK: worker_do(t->worker, JOB_FORK, a->id, NULL, 0); break;
	case UI_DELETE: worker_do(t->worker, JOB_DELETE, a->id, NULL, 0); break;
	case UI_UNDELETE: worker_do(t->worker, JOB_UNDELETE, a->id, NULL, 0); break;
	case UI_PANEL:
		worker_panel(t->worker, a->on);
		t->tour.panel = a->on > 0;
		break;
	case UI_MOUSE:
		if (t->display)
			display_mouse(t->display, a->on);
		if (a->id)
			worker_do(t->worker, JOB_MOUSE, a->on, NULL, 0);
		break;
	case UI_THEME:
		if (t->display && display_theme(t->display, text.p) == 0)
			display_repaint(t->display);
		break;
	}
	str_free(&text);
}

void tui_take_actions(struct tui *t)
{
	struct ui_action a;

	while (!t->left && ui_action(t->ui, &a))
		handle_action(t, &a);
}
