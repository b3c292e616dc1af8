/* app/tui/tui.c - the full screen's event loop: keys to the ui, its actions to the worker, the worker's events to the ui.
 *
 *     terminal -> ui_feed()   ui_action() -> worker_do(), display_..., the store
 *     worker   -> worker_take(), worker_status(), worker_cache() -> ui_entry(), ui_status(), ui_cache() ...
 *     ui_draw() -> display_show(), at most 30 times a second and only after a change
 *
 * Main never waits for the engine or the session log: lists and searches read through a connection of their own. */
#include "app/tui/tui.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/tui/tui_private.h"
#include "app/tui/worker.h"

#define FRAME (1.0 / 30)
#define KEY_FRAME (1.0 / 120)  /* after a key: typing shows at once, also while an answer is drawn */
#define MEMORY_EVERY 1.0       /* seconds between two readings of the memory of the process */
enum { READ_MOST = 65536, STREAM_ENTRY = 16384 };

int tui_wanted(const struct options *o)
{
	const char *term = getenv("TERM");

	return !o->line && !o->json && isatty(0) && isatty(1) && term && display_usable(term);
}

/* ---- from the worker to the ui ---- */

static void post_documents(struct tui *t, const struct event *e)
{
	struct ui_document *d = xcalloc(e->n_doc + 1, sizeof *d);

	for (size_t i = 0; i < e->n_doc; i++)
		d[i] = (struct ui_document){
			.name = e->doc[i].name, .text = e->doc[i].text.p ? e->doc[i].text.p : "", .n = e->doc[i].text.n, .bytes = e->doc[i].bytes,
			.tokens = e->doc[i].tokens, .first = e->doc[i].first, .mark = e->doc[i].mark, .n_mark = e->doc[i].n_mark,
		};
	ui_documents(t->ui, d, e->n_doc);
	t->n_mark = 0;
	for (size_t i = 0; i < e->n_doc && t->n_mark < MARKS_MOST; i++) {
		if (d[i].first < 0)
			continue;
		t->mark[t->n_mark].first = d[i].first;
		t->mark[t->n_mark].n = d[i].tokens;
		snprintf(t->mark[t->n_mark++].name, sizeof t->mark[0].name, "%.60s", d[i].name);
	}
	free(d);
}

/* The entry of an answer begins with its first text: the sources of the question stand above it. */
static void begin_answer(struct tui *t)
{
	if (t->answer_due)
		ui_entry(t->ui, UI_ASSISTANT, "", 0);
	t->answer_due = 0;
}

static void handle_event(struct tui *t, const struct event *e)
{
	const char *text = e->text.p ? e->text.p : "";

	if (t->streams && e->what != EV_STREAM && e->what != EV_SURPRISE && e->what <= EV_ERROR) {
		ui_entry_end(t->ui, NULL);
		t->streams = 0;
	}
	switch (e->what) {
	case EV_MESSAGES:
		ui_clear(t->ui);
		break;
	case EV_CUT:
		ui_cut(t->ui, e->messages);
		break;
	case EV_MESSAGE:
		ui_entry(t->ui, e->role == ROLE_USER ? UI_USER : UI_ASSISTANT, text, e->text.n);
		ui_entry_end(t->ui, e->note.n ? e->note.p : NULL);
		break;
	case EV_QUESTION:
		if (e->text.n) {
			ui_entry(t->ui, UI_USER, text, e->text.n);
			ui_entry_end(t->ui, NULL);
		}
		t->answer_due = 1;
		break;
	case EV_STREAM:
		/* A growing entry is laid out again each time: a long text goes on in another one. */
		if (e->begins || !t->streams || t->streams > STREAM_ENTRY) {
			if (t->streams)
				ui_entry_end(t->ui, NULL);
			ui_text(t->ui, e->at, e->begins || !e->at);
			t->streams = 0;
		}
		ui_piece(t->ui, text, e->text.n);
		t->streams += e->text.n + 1;
		break;
	case EV_PIECE:
		begin_answer(t);
		ui_piece(t->ui, text, e->text.n);
		break;
	case EV_SURPRISE:
		ui_text_heat(t->ui, e->at, e->span, e->n_span);
		break;
	case EV_RETURNED:
		ui_messages_end(t->ui, e->messages);
		break;
	case EV_TURNED:
		begin_answer(t);
		ui_entry_end(t->ui, e->note.n ? e->note.p : NULL);
		break;
	case EV_DRAFT:
		ui_draft(t->ui, text, e->text.n);
		break;
	case EV_NOTICE:
	case EV_ERROR:
		ui_entry(t->ui, e->what == EV_NOTICE ? UI_NOTICE : UI_ERROR, text, e->text.n);
		ui_entry_end(t->ui, NULL);
		break;
	case EV_DOCUMENTS:
		post_documents(t, e);
		break;
	case EV_PLACE:
		ui_show_document(t->ui, e->place.doc, e->place.from, e->place.to);
		break;
	case EV_LOOK:
		ui_open_text(t->ui, e->note.p, text, e->text.n);
		break;
	case EV_SOURCES:
		ui_sources(t->ui, e->source, e->n_source);
		break;
	case EV_SESSIONS:
		t->relist = 1;   /* once the status is known */
		break;
	case EV_IDLE:
		break;
	case EV_QUIT:
		t->left = 1;
		break;
	}
}

static uint64_t memory_used(void)
{
	char buf[128], *at;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof buf - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	buf[n] = 0;
	at = strchr(buf, ' ');
	return at ? strtoull(at, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void post_status(struct tui *t, const struct worker_status *s)
{
	struct ui_work work = {
		.verb = s->verb, .done = s->done, .total = s->total, .had = s->had, .tps = s->tps, .left = s->left,
		.open = s->open,
	};
	struct ui_status status = {
		.model = s->model, .session = s->kept_on_disk ? s->session : s->read_only ? "read only" : NULL, .kv = s->kv, .seen = s->seen, .kept = s->kept,
		.ctx = s->ctx, .evicted = s->evicted, .thinned = s->thinned, .tps = s->last_tps, .kv_bytes = s->kv_bytes,
	};

	if (t->still)
		status.tps = work.tps = 0;
	if (s->known) {
		if (!t->still && now_seconds() - t->memory_at >= MEMORY_EVERY) {
			t->memory = memory_used();
			t->memory_at = now_seconds();
		}
		status.memory = t->memory;
		ui_status(t->ui, &status);
	}
	t->working = s->working;
	t->session = s->session_id;
	memcpy(t->hidden, s->hidden, sizeof t->hidden);
	t->n_hidden = s->n_hidden;
	if (s->prefill_tps > 0)
		t->prefill_tps = s->prefill_tps;
	ui_work(t->ui, s->working ? &work : NULL);
}

static void take_events(struct tui *t)
{
	const struct cache_report *panel;
	struct event *e;
	struct worker_status s;

	while ((e = worker_take(t->worker))) {
		handle_event(t, e);
		event_free(e);
	}
	if (worker_status(t->worker, &s))
		post_status(t, &s);
	if (t->relist)
		tui_list(t);
	t->relist = 0;
	if (worker_cache(t->worker, &panel)) {
		struct ui_cache cache = panel->cache;

		for (cache.n_mark = 0; cache.n_mark < t->n_mark; cache.n_mark++) {
			cache.mark[cache.n_mark].first = t->mark[cache.n_mark].first;
			cache.mark[cache.n_mark].n = t->mark[cache.n_mark].n;
			cache.mark[cache.n_mark].name = t->mark[cache.n_mark].name;
		}
		if (t->still)
			cache.seconds = cache.decode_seconds = cache.in_rate = cache.moved_rate = cache.out_rate = 0;
		ui_cache(t->ui, &cache);
		for (size_t i = 0; panel->lensed && i < panel->n_lens; i++)
			if (panel->lens[i].text)
				ui_text_lens(t->ui, panel->lens[i].from, panel->lens[i].span, panel->lens[i].n);
			else
				ui_lens(t->ui, panel->lens[i].which, panel->lens[i].span, panel->lens[i].n);
	}
}

/* ---- from the ui to the worker ---- */

static void suspend(struct tui *t)
{
	if (!t->display)
		return;
	display_pause(t->display);
	signals_prompt(0);      /* the default action, for one signal */
	raise(SIGTSTP);
	signals_prompt(1);
	display_resume(t->display);
	tui_measure(t);
	/* The terminal is blank, though the picture is the same. */
	display_show(t->display, ui_draw(t->ui, now_seconds()));
}

static void edit(struct tui *t, const char *draft, size_t n)
{
	struct str text = {0};
	struct err e = {0};

	if (!t->display)
		return;
	str_add(&text, draft, n);
	display_pause(t->display);
	if (external_edit(&text, &e) < 0)
		ui_say(t->ui, e.msg);
	else
		ui_draft(t->ui, text.p ? text.p : "", text.n);
	display_resume(t->display);
	tui_measure(t);
	str_free(&text);
}

static void copy(struct tui *t, const char *text, size_t n)
{
	const char *how = external_copy(text, n);
	struct str s = {0};

	if (!how && t->display && display_copy(t->display, text, n) == 0)
		how = "the terminal";
	if (how) {
		str_adds(&s, "copied ");
		human_bytes(&s, n);
		str_addf(&s, " by %s", how);
	} else {
		str_adds(&s, "too long for the terminal's clipboard; install wl-copy, xclip or xsel, or use /export");
	}
	ui_say(t->ui, s.p);
	str_free(&s);
}

static void handle_action(struct tui *t, const struct ui_action *a)
{
	struct str text = {0};

	/* The ui keeps the text until its next call only. */
	str_add(&text, a->text ? a->text : "", a->n);
	switch (a->what) {
	case UI_SEND:
		tui_take(t, &text);
		break;
	case UI_STOP:
		worker_stop(t->worker);
		break;
	case UI_QUIT:
		t->left = 1;
		break;
	case UI_SUSPEND:
		suspend(t);
		break;
	case UI_REPAINT:
		if (t->display)
			display_repaint(t->display);
		tui_measure(t);
		break;
	case UI_EDITOR:
		edit(t, text.p, text.n);
		break;
	case UI_COPY:
		copy(t, text.p, text.n);
		break;
	case UI_LIST:
		t->listed = 1;
		tui_list(t);
		break;
	case UI_PREVIEW:
		tui_preview(t, a->id);
		break;
	case UI_FIND:
		tui_find(t, text.p);
		break;
	case UI_SWITCH:
		worker_do(t->worker, JOB_SWITCH, a->id, NULL, 0);
		break;
	case UI_RENAME:
		worker_do(t->worker, JOB_RENAME, a->id, text.p, text.n);
		break;
	case UI_FORK:
		worker_do(t->worker, JOB_FORK, a->id, NULL, 0);
		break;
	case UI_DELETE:
		worker_do(t->worker, JOB_DELETE, a->id, NULL, 0);
		break;
	case UI_UNDELETE:
		worker_do(t->worker, JOB_UNDELETE, a->id, NULL, 0);
		break;
	case UI_PANEL:
		worker_panel(t->worker, a->on);
		break;
	case UI_MOUSE:
		if (t->display)
			display_mouse(t->display, a->on);
		break;
	case UI_THEME:
		if (t->display && display_theme(t->display, text.p) == 0)
			display_repaint(t->display);
		break;
	}
	str_free(&text);
}

static void take_actions(struct tui *t)
{
	struct ui_action a;

	while (!t->left && ui_action(t->ui, &a))
		handle_action(t, &a);
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

static void take_signals(struct tui *t)
{
	signals_drain();
	if (signals_take_int())
		ui_feed(t->ui, "\003", 1, now_seconds());
	if (signals_take_resize())
		tui_measure(t);
	if (signals_take_stop())
		suspend(t);
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
		t->left = 1;   /* the terminal is lost; the conversation is saved */
	}
	free(buf);
}

/* What was typed before the screen was up, while the terminal still made line feeds of Enter: line by line, as it was typed. */
static void take_typed_ahead(struct tui *t)
{
	struct pollfd fd = {.fd = t->fd, .events = POLLIN};
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

static double frame(const struct tui *t)
{
	return t->typed ? KEY_FRAME : FRAME;
}

static void draw(struct tui *t)
{
	const struct grid *g;

	if (!ui_dirty(t->ui))
		return;
	g = ui_draw(t->ui, now_seconds());
	t->drawn = now_seconds();
	t->typed = 0;
	if (t->display)
		display_show(t->display, g);
}

int tui_step(struct tui *t, double seconds)
{
	struct pollfd fds[3] = {
		{.fd = worker_fd(t->worker), .events = POLLIN}, {.fd = signals_fd(), .events = POLLIN}, {.fd = t->fd, .events = POLLIN},
	};
	double now = now_seconds(), wake = ui_wake(t->ui), save = draft_save(t, now), until = now + seconds;

	take_actions(t);
	if (t->left)
		return 0;
	if (save > 0 && save < until)
		until = save;
	if (wake > 0 && wake < until)
		until = wake;
	if (ui_dirty(t->ui) && t->drawn + frame(t) < until)
		until = t->drawn + frame(t);
	seconds = until > now ? until - now : 0;
	if (poll(fds, t->fd < 0 ? 2 : 3, (int)(seconds * 1000 + 0.999)) < 0 && errno != EINTR)
		t->left = 1;
	if (fds[1].revents || signals_quit())
		take_signals(t);
	if (fds[2].revents && t->fd >= 0)
		take_keys(t);
	take_events(t);
	ui_tick(t->ui, now_seconds());
	take_actions(t);
	if (now_seconds() - t->drawn >= frame(t))
		draw(t);
	return !t->left;
}

int tui_idle(const struct tui *t)
{
	return !worker_busy(t->worker) && !t->working;
}

void tui_feed(struct tui *t, const char *bytes, size_t n)
{
	ui_feed(t->ui, bytes, n, now_seconds());
	take_actions(t);
}

void tui_dump(struct tui *t, int with_styles, struct str *out)
{
	ui_dump(t->ui, now_seconds(), with_styles, out);
}

void tui_resize(struct tui *t, int w, int h)
{
	ui_resize(t->ui, w, h);
}

/* ---- life ---- */

static void notice_again(const char *line, size_t n, void *ud)
{
	notice(ud, "%.*s", (int)n, line);
}

/* While the chat is still main's: the banner, the note about resuming, and the documents to read. */
static void greet(struct tui *t, const char *note)
{
	struct chat *c = t->chat;

	if (!c->o.quiet && !c->t.n_msg) {
		chat_banner(c);
		tui_welcome(t);
	}
	say_again(notice_again, c);   /* they stand behind the screen */
	if (!c->o.quiet && note && *note)
		notice(c, "[%s]", note);
	chat_look_at_files(c);
	if (!c->t.n_msg && c->t.n_doc)
		worker_do(t->worker, JOB_READ, 0, NULL, 0);
}

int tui_open(struct tui **out, struct chat *c, int fd, int w, int h, const char *note, struct err *e)
{
	struct tui *t = xcalloc(1, sizeof *t);
	struct ui_options uo = {.w = w, .h = h};
	struct display_options dopt = {.color = color_wanted(c->o.color, 1), .ask_background = !strcmp(c->o.theme, "auto")};
	struct str history = {0};
	int rc = -1;

	t->chat = c;
	t->fd = fd;
	c->interactive = 1;
	tui_commands(t);
	if (!user_path(&history, DIR_STATE, "history", NULL))
		make_parents(history.p);
	uo.history = fd < 0 ? NULL : history.p;
	uo.commands = t->commands;
	uo.settings = t->settings;
	uo.utc = uo.ascii = 0;
	uo.color = !strcmp(c->o.color, "always");
	if (fd >= 0) {
		signals_save_terminal(fd, display_reset());   /* before the screen changes it */
		if (display_open(&t->display, fd, &dopt, e) < 0)
			goto done;
		display_size(t->display, &uo.w, &uo.h);
		uo.ascii = !display_utf8(t->display);
		uo.color = display_colors(t->display) >= 256;   /* two layers of the heat in one row are told apart by shades */
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
	greet(t, note);
	if (worker_start(t->worker, e) < 0)
		goto done;
	take_events(t);
	draft_restore(t);
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
	free(t);
}

/* Text that libraries print would tear the picture: while it stands, standard error goes nowhere if it is a terminal. */
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
	struct err e = {0};
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC), keep, rc;

	if (fd < 0)
		fd = fcntl(0, F_DUPFD_CLOEXEC, 3);
	signals_note(1);
	keep = hide_stderr();
	rc = tui_open(&t, c, fd, 0, 0, note, &e);
	if (!rc) {
		signals_prompt(1);
		while (tui_step(t, 3600)) { }
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
