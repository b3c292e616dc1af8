/* app/tui/worker_events.c - the queue of events from the worker thread to the main thread. */
#include "app/tui/worker_private.h"

#include <stdlib.h>
#include <unistd.h>

void event_free(struct event *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->n_doc; i++) {
		free(e->doc[i].name);
		str_free(&e->doc[i].text);
		marks_free(e->doc[i].mark, e->doc[i].n_mark);
	}
	free(e->doc);
	free(e->span);
	free(e->source);
	str_free(&e->text);
	str_free(&e->note);
	free(e);
}

/* Make worker_fd() readable. The caller holds the lock. */
void worker_signal(struct worker *w)
{
	if (!w->signalled && write(w->signal_fd, "", 1) == 1)
		w->signalled = 1;
}

void worker_post(struct worker *w, struct event *e)
{
	pthread_mutex_lock(&w->lock);
	*w->event_end = e;
	w->event_end = &e->next;
	worker_signal(w);
	pthread_mutex_unlock(&w->lock);
}

struct event *event_new(enum event_what what, const char *text, size_t n)
{
	struct event *e = xcalloc(1, sizeof *e);

	e->what = what;
	str_add(&e->text, text ? text : "", n);
	return e;
}

void worker_post_text(struct worker *w, enum event_what what, const char *text, size_t n)
{
	struct event *e = event_new(what, text, n);

	if (w->holding && (what == EV_NOTICE || what == EV_ERROR)) {
		*w->held_end = e;
		w->held_end = &e->next;
	} else {
		worker_post(w, e);
	}
}

void worker_release_held(struct worker *w)
{
	struct event *e;

	w->holding = 0;
	while ((e = w->held)) {
		w->held = e->next;
		e->next = NULL;
		worker_post(w, e);
	}
	w->held_end = &w->held;
}

void worker_drop_held(struct worker *w)
{
	struct event *e;

	while ((e = w->held)) {
		w->held = e->next;
		event_free(e);
	}
	w->held_end = &w->held;
}

void worker_post_piece(struct worker *w, enum event_what what, const char *bytes, size_t n, size_t at)
{
	struct event *last;

	pthread_mutex_lock(&w->lock);
	for (last = w->event; last && last->next;)
		last = last->next;
	if (last && last->what == what && last->text.n < STREAM_SHOWN) {
		str_add(&last->text, bytes, n);
		pthread_mutex_unlock(&w->lock);
		return;
	}
	pthread_mutex_unlock(&w->lock);
	last = event_new(what, bytes, n);
	last->at = at;
	worker_post(w, last);
}
