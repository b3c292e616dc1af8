/* app/tui/tui.c - the event loop of the full screen, in the main thread.
 *
 * Keys from the terminal are passed to the ui. The ui returns requests (ui_action()), which are carried out by the
 * worker (the thread that runs the chat), on the terminal, or in the store. Events, status and cache figures of the
 * worker are passed to the ui, which then draws, at most 30 times a second. The main thread never waits for the worker:
 * lists and searches read the store through a separate connection. */
#include "app/tui/tui.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/tui/tui_private.h"

#define FRAME       (1.0 / 30)
/* minimum number of seconds between two drawings after a key; less than for an answer, so that typing feels
 * immediate */
#define KEY_FRAME   (1.0 / 120)
/* For an inline screen: number of seconds to wait after the terminal's size has changed, before anything is written.
 * tmux may report a change as late as 0.25 s after it has wrapped the shown text. */
#define RESIZE_REST 0.3
enum { READ_MOST = 65536 };

int tui_wanted(const struct options *o)
{
	const char *term = getenv("TERM");

	return !o->line && !o->json && isatty(0) && isatty(1) && term && display_usable(term);
}

int tui_refuses_inline(const struct options *o, struct err *e)
{
	const char *term = getenv("TERM");

	if (!option_said(o, option_find("inline", 6, CMD_CHAT)) || !isatty(0) || !isatty(1) ||
	    (term && display_usable(term)))
		return 0;
	return err_set(e, ERR_USAGE, "the terminal '%s' cannot move the cursor, which --inline needs (TERM)",
	               term ? term : "");
}

/* ---- the loop ---- */

void tui_measure(struct tui *t)
{
	int w, h;

	if (!t->display)
		return;
	display_size(t->display, &w, &h);
	ui_resize(t->ui, w, h);
}

void tui_repaint(struct tui *t)
{
	if (t->display)
		display_repaint(t->display);
	tui_measure(t);
}

/* Record a change of the terminal's size. Hide an inline screen, because the size may change again at once. */
static void wait_for_size(struct tui *t)
{
	t->resized = now_seconds();
	if (t->display)
		display_hide(t->display);
}

static void take_signals(struct tui *t)
{
	signals_drain();
	if (signals_take_int())
		ui_feed(t->ui, "\003", 1, now_seconds());
	if (signals_take_resize()) {
		tui_repaint(t);
		wait_for_size(t);
	}
	if (signals_take_stop())
		tui_suspend(t);
	if (signals_quit()) {
		t->signal = signals_quit();
		t->left = 1;
	}
}

static void take_keys(struct tui *t)
{
	char *buf = xmalloc(READ_MOST);
	ssize_t n = read(t->fd, buf, READ_MOST);

	if (n > 0) {
		ui_feed(t->ui, buf, (size_t)n, now_seconds());
		t->typed = 1;
	} else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
		/* the terminal does not exist any more, so end the program; the conversation is saved already */
		t->left = 1;
	}
	free(buf);
}

/* Read the lines that were typed before the screen opened. The terminal was in line mode, so Enter arrives as a
 * newline. */
static void take_typed_ahead(struct tui *t)
{
	struct pollfd fd = { .fd = t->fd, .events = POLLIN };
	char *buf, *line, *end;
	ssize_t n;

	if (t->fd < 0 || poll(&fd, 1, 0) <= 0)
		return;
	buf = xmalloc(READ_MOST);
	n = read(t->fd, buf, READ_MOST);
	for (line = buf; n > 0 && line < buf + n; line = end) {
		end = memchr(line, '\n', (size_t)(buf + n - line));
		if (end)
			*end = '\r';
		end = end ? end + 1 : buf + n;
		ui_feed(t->ui, line, (size_t)(end - line), now_seconds());
	}
	t->typed = n > 0;
	free(buf);
}

/* Return the earliest time at which the next frame may be drawn. */
static double frame_due(const struct tui *t)
{
	double due = t->drawn + (t->typed ? KEY_FRAME : FRAME);

	return ui_is_inline(t->ui) ? MAX(due, t->resized + RESIZE_REST) : due;
}

void tui_show(struct tui *t)
{
	const struct grid *g = ui_draw(t->ui, now_seconds());

	t->drawn = now_seconds();
	t->typed = 0;
	/* If display_show() fails, the terminal's size has just changed, and SIGWINCH will follow. */
	if (!t->display || display_show(t->display, g))
		ui_shown(t->ui, t->display ? display_above(t->display) : 0);
	else
		wait_for_size(t);
}

static void screen_draw(struct tui *t)
{
	if (ui_dirty(t->ui))
		tui_show(t);
}

int tui_step(struct tui *t, double seconds)
{
	struct pollfd fds[3] = {
		{ .fd = worker_fd(t->worker), .events = POLLIN },
		{ .fd = signals_fd(), .events = POLLIN },
		{ .fd = t->fd, .events = POLLIN },
	};
	double now = now_seconds(), wake = ui_wake(t->ui), save = draft_save(t, now), until = now + seconds;

	tui_take_actions(t);
	if (t->left)
		return 0;
	if (save > 0 && save < until)
		until = save;
	if (wake > 0 && wake < until)
		until = wake;
	if (t->copy.running && now + 0.02 < until)
		until = now + 0.02;
	if (ui_dirty(t->ui) && frame_due(t) < until)
		until = frame_due(t);
	seconds = until > now ? until - now : 0;
	if (poll(fds, t->fd < 0 ? 2 : 3, (int)(seconds * 1000 + 0.999)) < 0 && errno != EINTR)
		t->left = 1;
	if (fds[1].revents || signals_quit())
		take_signals(t);
	if (fds[2].revents && t->fd >= 0)
		take_keys(t);
	tui_take_events(t);
	tui_copy_end(t, 0);
	ui_tick(t->ui, now_seconds());
	tui_take_actions(t);
	if (now_seconds() >= frame_due(t))
		screen_draw(t);
	return !t->left;
}

int tui_idle(const struct tui *t)
{
	return !worker_busy(t->worker) && !t->working;
}

void tui_feed(struct tui *t, const char *bytes, size_t n)
{
	ui_feed(t->ui, bytes, n, now_seconds());
	tui_take_actions(t);
}

void tui_dump(struct tui *t, int with_styles, struct str *out)
{
	ui_dump(t->ui, now_seconds(), with_styles, out);
}

void tui_resize(struct tui *t, int w, int h)
{
	ui_resize(t->ui, w, h);
}

/* ---- opening and closing ---- */

static void notice_again(const char *line, size_t n, void *ud)
{
	notice(ud, "%.*s", (int)n, line);
}

/* Show the banner and the note about the resumed session, and queue the prefill of the documents. Call this before the
 * worker's thread starts. */
static void screen_greet(struct tui *t, const char *note)
{
	struct chat *c = t->chat;

	if (!c->o.quiet && !c->conv.n_msg) {
		chat_banner(c);
		if (c->o.command != CMD_TOUR)
			tui_welcome(t);
	}
	/* say() may have written lines before the screen was opened. The full screen covers them: show them on it. */
	if (!c->o.inlined)
		say_again(notice_again, c);
	if (!c->o.quiet && note && *note)
		notice(c, "[%s]", note);
	chat_look_at_files(c);
	if (!c->conv.n_msg && c->conv.n_doc)
		worker_do(t->worker, JOB_READ, 0, NULL, 0);
}

int tui_open(struct tui **out, struct chat *c, int fd, int w, int h, const char *note, struct err *e)
{
	struct tui *t = xcalloc(1, sizeof *t);
	struct ui_options uo = { .w = w, .h = h };
	struct display_options dopt = { .color = color_wanted(c->o.color, 1),
		                        .ask_background = !strcmp(c->o.theme, "auto") };
	struct str history = { 0 };
	int rc = -1;

	t->chat = c;
	t->fd = fd;
	c->interactive = 1;
	tui_commands(t);
	if (fd >= 0 && !c->o.private_talk && !user_path(&history, DIR_STATE, "history", NULL)) {
		make_parents(history.p);
		uo.history = history.p;
	}
	uo.commands = t->commands;
	uo.settings = t->settings;
	uo.utc = uo.ascii = 0;
	uo.color = !strcmp(c->o.color, "always");
	if (fd >= 0) {
		dopt.inlined = uo.inlined = c->o.inlined;
		/* save the terminal before the display changes its settings */
		signals_save_terminal(fd, display_reset());
		if (display_open(&t->display, fd, &dopt, e) < 0)
			goto done;
		display_size(t->display, &uo.w, &uo.h);
		uo.ascii = !display_utf8(t->display);
		/* with 256 colours, two shades in one screen row can show the heat of two layers */
		uo.color = display_colors(t->display) >= 256;
	}
	t->still = fd < 0;
	if (ui_open(&t->ui, &uo, e) < 0)
		goto done;
	tui_store(t);
	if (worker_open(&t->worker, c, e) < 0)
		goto done;
	if (t->still)
		worker_still(t->worker);
	tui_look(t);
	screen_greet(t, note);
	if (worker_start(t->worker, e) < 0)
		goto done;
	tui_take_events(t);
	draft_restore(t);
	if (c->o.command == CMD_TOUR)
		tour_begin(t);
	take_typed_ahead(t);
	rc = 0;
done:
	str_free(&history);
	if (rc < 0)
		tui_close(t);
	else
		*out = t;
	return rc;
}

void tui_close(struct tui *t)
{
	if (!t)
		return;
	if (t->ui && t->signal)
		draft_save(t, INFINITY);
	else
		draft_forget(t);
	worker_close(t->worker);
	if (t->ui)
		tui_copy_end(t, 1);
	if (t->ui && t->display && ui_is_inline(t->ui))
		for (ui_finish(t->ui); ui_dirty(t->ui);)
			tui_show(t);
	if (t->signal)
		t->chat->rc = 128 + t->signal;
	if (t->ui)
		ui_close(t->ui);
	str_free(&t->saved);
	if (t->display)
		display_close(t->display);
	if (t->store)
		store_close(t->store);
	free(t->commands);
	user_prompts_free(t->prompts, t->n_prompt);
	free(t->settings);
	str_free(&t->roles);
	str_free(&t->encoders);
	free(t);
}

/* While the screen is open, redirect standard error to /dev/null if it is the terminal. Otherwise messages of libraries
 * would overwrite the screen. */
static int hide_stderr(void)
{
	int keep = -1, nowhere;

	if (!isatty(2))
		return -1;
	nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	keep = fcntl(2, F_DUPFD_CLOEXEC, 3);
	if (nowhere >= 0 && keep >= 0)
		dup2(nowhere, 2);
	if (nowhere >= 0)
		close(nowhere);
	return keep;
}

int tui_run(struct chat *c, const char *note)
{
	struct tui *t;
	struct err e = { 0 };
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC), keep, rc;

	if (fd < 0)
		fd = fcntl(0, F_DUPFD_CLOEXEC, 3);
	signals_note(1);
	keep = hide_stderr();
	rc = tui_open(&t, c, fd, 0, 0, note, &e);
	if (!rc) {
		signals_prompt(1);
		while (tui_step(t, 3600)) {
		}
		tui_close(t);
		signals_prompt(0);
	}
	if (keep >= 0) {
		dup2(keep, 2);
		close(keep);
	}
	close(fd);
	if (rc < 0)
		return fail(&e);
	chat_goodbye(c);
	return c->rc;
}
