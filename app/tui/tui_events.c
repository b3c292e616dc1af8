/* app/tui/tui_events.c - shows the worker's events, its status and its cache figures on the screen. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/tui/tui_private.h"

#define MEMORY_EVERY 1.0 /* seconds between two measurements of the process's memory */
enum { STREAM_ENTRY = 16384 };

static void post_documents(struct tui *t, const struct event *e)
{
	struct ui_document *d = xcalloc(e->n_doc + 1, sizeof *d);

	for (size_t i = 0; i < e->n_doc; i++)
		d[i] = (struct ui_document){
			.name = e->doc[i].name,
			.text = str_text(&e->doc[i].text),
			.n = e->doc[i].text.n,
			.bytes = e->doc[i].bytes,
			.tokens = e->doc[i].tokens,
			.first = e->doc[i].first,
			.mark = e->doc[i].mark,
			.n_mark = e->doc[i].n_mark,
		};
	ui_documents(t->ui, d, e->n_doc);
	t->tour.documents = (int)e->n_doc;
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

/* Begin the answer's entry in the transcript only when its first text arrives, so that the sources come above it. */
static void begin_answer(struct tui *t)
{
	if (t->answer_due)
		ui_entry(t->ui, UI_ASSISTANT, "", 0);
	t->answer_due = 0;
}

static void handle_event(struct tui *t, const struct event *e)
{
	const char *text = str_text(&e->text);

	if (t->streams && e->what != EV_STREAM && e->what != EV_SURPRISE && e->what <= EV_ERROR) {
		ui_entry_end(t->ui, NULL);
		t->streams = 0;
	}
	switch (e->what) {
	case EV_MESSAGES: ui_clear(t->ui); break;
	case EV_CUT: ui_cut(t->ui, e->messages); break;
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
		/* with each text that is appended to an entry, the whole entry is laid out again: so begin a new entry
		 * when this one has more than STREAM_ENTRY bytes */
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
	case EV_SURPRISE: ui_text_heat(t->ui, e->at, e->span, e->n_span); break;
	case EV_RETURNED: ui_messages_end(t->ui, e->messages); break;
	case EV_TURNED:
		begin_answer(t);
		ui_entry_end(t->ui, e->note.n ? e->note.p : NULL);
		t->tour.answers++;
		break;
	case EV_DRAFT: ui_draft(t->ui, text, e->text.n); break;
	case EV_NOTICE:
	case EV_ERROR:
		ui_entry(t->ui, e->what == EV_NOTICE ? UI_NOTICE : UI_ERROR, text, e->text.n);
		ui_entry_end(t->ui, NULL);
		break;
	case EV_DOCUMENTS: post_documents(t, e); break;
	case EV_PLACE: ui_show_document(t->ui, e->place.doc, e->place.from, e->place.to); break;
	case EV_LOOK: ui_open_text(t->ui, e->note.p, text, e->text.n); break;
	case EV_SAY: ui_say(t->ui, text); break;
	case EV_SOURCES: ui_sources(t->ui, e->at, e->source, e->n_source); break;
	case EV_UNSUPPORTED: ui_underline(t->ui, text); break;
	case EV_SESSIONS:
		t->relist = 1; /* list the sessions again, after the worker's newest status is shown */
		break;
	case EV_IDLE: break;
	case EV_QUIT: t->left = 1; break;
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
		.verb = s->verb,
		.done = s->done,
		.total = s->total,
		.had = s->had,
		.tps = s->tps,
		.left = s->left,
		.open = s->open,
	};
	/* clang-format off */
	struct ui_status status = {
		.model = s->model, .session = s->kept_on_disk ? s->session : s->read_only ? "read only" : NULL, .kv = s->kv, .seen = s->seen, .kept = s->kept,
		.ctx = s->ctx, .evicted = s->evicted, .thinned = s->thinned, .tps = s->last_tps, .kv_bytes = s->kv_bytes,
	};
	/* clang-format on */

	if (t->still)
		status.tps = work.tps = 0;
	if (s->known) {
		if (!t->still && now_seconds() - t->memory_at >= MEMORY_EVERY) {
			t->memory = memory_used();
			t->memory_at = now_seconds();
		}
		status.memory = t->memory;
		t->served = s->served;
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

void tui_take_events(struct tui *t)
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
	tour_go_on(t);
	if (worker_cache(t->worker, &panel)) {
		struct ui_cache cache = panel->cache;

		for (cache.n_mark = 0; cache.n_mark < t->n_mark; cache.n_mark++) {
			cache.mark[cache.n_mark].first = t->mark[cache.n_mark].first;
			cache.mark[cache.n_mark].n = t->mark[cache.n_mark].n;
			cache.mark[cache.n_mark].name = t->mark[cache.n_mark].name;
		}
		if (t->still)
			cache.seconds = cache.every = cache.in_rate = cache.moved_rate = cache.out_rate = 0;
		ui_cache(t->ui, &cache);
		for (size_t i = 0; panel->lensed && i < panel->n_lens; i++)
			if (panel->lens[i].text)
				ui_text_lens(t->ui, panel->lens[i].from, panel->lens[i].span, panel->lens[i].n);
			else
				ui_lens(t->ui, panel->lens[i].which, panel->lens[i].span, panel->lens[i].n);
	}
}
