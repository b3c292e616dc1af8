/* app/tui/worker_jobs.c - runs the jobs. Small jobs, such as renaming or deleting a session, need only the store. So
 * they can also run between two tokens of an answer. */
#include "app/tui/worker_private.h"

#include <stdlib.h>
#include <string.h>

int worker_job_is_small(enum job_what what)
{
	return what == JOB_RENAME || what == JOB_FORK || what == JOB_DELETE || what == JOB_UNDELETE ||
	       what == JOB_LOOK || what == JOB_MOUSE || what == JOB_REPORT;
}

/* 1 if JOB_UNDELETE changes the conversation on the screen. This is so if the session to restore was on the screen when
 * it was deleted, because it is then shown again. */
static int changes_conversation(const struct chat *c)
{
	return c->n_deleted && c->deleted[c->n_deleted - 1].was_here;
}

/* Remove *p from the queue and free it. The caller holds the lock. */
static void drop_job(struct worker *w, struct job **p)
{
	struct job *job = *p;

	*p = job->next;
	if (!*p)
		w->job_end = p;
	str_free(&job->text);
	free(job);
}

/* If the queue has a JOB_DELETE and a later JOB_UNDELETE that restores the same session, drop both. Returns 1 if it
 * did, else 0. */
static int cancel_deletion(struct worker *w)
{
	int cancelled = 0;

	pthread_mutex_lock(&w->lock);
	for (struct job **p = &w->job; *p; p = &(*p)->next) {
		struct job **later;

		if ((*p)->what != JOB_DELETE)
			continue;
		for (later = &(*p)->next; *later && (*later)->what != JOB_DELETE && (*later)->what != JOB_UNDELETE;)
			later = &(*later)->next;
		if (!*later || (*later)->what != JOB_UNDELETE)
			continue;
		drop_job(w, later);
		drop_job(w, p);
		cancelled = 1;
		break;
	}
	pthread_mutex_unlock(&w->lock);
	return cancelled;
}

static struct job *take_small(struct worker *w)
{
	const struct session_log *r = w->c->log;
	struct job *job = NULL;

	pthread_mutex_lock(&w->lock);
	for (struct job **p = &w->job; *p; p = &(*p)->next)
		/* A job waits for the end of the answer if it deletes the session of this answer, or if it restores
		 * another session to the screen. */
		if (worker_job_is_small((*p)->what) && !((*p)->what == JOB_DELETE && r && (*p)->id == r->session) &&
		    !((*p)->what == JOB_UNDELETE && changes_conversation(w->c))) {
			job = *p;
			*p = job->next;
			if (!*p)
				w->job_end = p;
			break;
		}
	pthread_mutex_unlock(&w->lock);
	return job;
}

static void run_small(struct worker *w, struct job *job)
{
	struct chat *c = w->c;
	struct err e = { 0 };
	int64_t id;

	if (job->what == JOB_REPORT)
		return; /* the caller reports the cache */
	if (job->what == JOB_LOOK) {
		chat_take(c, &job->text);
		return;
	}
	if (job->what == JOB_MOUSE) {
		chat_mouse(c, job->id != 0);
		return;
	}
	if (job->what == JOB_RENAME)
		chat_delete_due(c, 1); /* a deleted session that is still on the disk may have this name */
	if (!c->log || (c->log->failed && !c->log->read_only))
		chat_no_sessions(c, &e);
	else if (job->what == JOB_RENAME && job->id == c->log->session)
		session_log_rename(c->log, &c->conv, job->text.p, &e);
	else if (job->what == JOB_RENAME)
		session_rename(c->log->store, job->id, job->text.p, &e);
	else if (job->what == JOB_FORK && !session_fork(c->log->store, job->id, 0, NULL, &id, &e))
		session_leave(c->log->store, id);
	else if (job->what == JOB_DELETE)
		chat_delete(c, job->id);
	else if (job->what == JOB_UNDELETE)
		chat_undelete(c);
	if (e.code)
		chat_error(c, &e);
	worker_report_sessions(w);
	worker_post_text(w, EV_SESSIONS, "", 0);
}

void worker_delete_due(struct worker *w)
{
	size_t before = w->c->n_deleted;

	if (!before)
		return;
	chat_delete_due(w->c, 0);
	if (w->c->n_deleted == before)
		return;
	worker_report_sessions(w);
	worker_post_text(w, EV_SESSIONS, "", 0);
}

/* While no cache panel is open, reports of the cache are less frequent by this factor. They are needed nevertheless: a
 * panel that is opened after an answer shows that answer's attention. */
enum { CACHE_UNSEEN = 4 };

void worker_between(struct worker *w)
{
	struct job *job;

	/* A stop may have come before the timeline ran, so cancel the timeline now. */
	if (atomic_load(&w->stop) && w->c->conv.tl)
		timeline_cancel(w->c->conv.tl);
	else if (atomic_load(&w->stop))
		signals_stop();
	while (cancel_deletion(w)) {
		worker_post_text(w, EV_SAY, "the session stays", 17);
		worker_post_text(w, EV_SESSIONS, "", 0);
	}
	while ((job = take_small(w))) {
		struct str said = { 0 }, command = { 0 };

		if (job->what == JOB_LOOK)
			/* copy the command, because running it may change its text */
			str_add(&command, job->text.p, job->text.n);
		w->said = &said;
		run_small(w, job);
		w->said = NULL;
		if (said.n) {
			struct event *e = event_new(command.n ? EV_LOOK : EV_SAY, said.p, said.n);
			if (command.n)
				str_add(&e->note, command.p, command.n);
			worker_post(w, e);
		}
		str_free(&said);
		str_free(&command);
		str_free(&job->text);
		free(job);
	}
	worker_delete_due(w);
	if (now_seconds() - w->cache_reported >=
	    (atomic_load(&w->panel) || w->listener.on ? 1 : CACHE_UNSEEN) * w->cache_every)
		worker_report_cache(w, 0);
}

void worker_finish(struct worker *w)
{
	while (cancel_deletion(w)) {
	}
	while (w->job) {
		if (w->job->what == JOB_RENAME || w->job->what == JOB_FORK || w->job->what == JOB_DELETE)
			run_small(w, w->job);
		drop_job(w, &w->job);
	}
}

static int is_variant(const struct str *text)
{
	static const char name[] = "/variant";

	return text->n >= sizeof name - 1 && !memcmp(text->p, name, sizeof name - 1);
}

void worker_run_job(struct worker *w, struct job *job)
{
	struct chat *c = w->c;
	int turn;

	w->had = 0;
	w->reading_since = 0;
	w->reading = -1;
	if (worker_job_is_small(job->what)) {
		w->holding = 1;
		run_small(w, job);
	} else {
		worker_report(w, WORKER_BUSY, "working", 0, 0);
		pthread_mutex_lock(&w->lock);
		w->waiting--;
		pthread_mutex_unlock(&w->lock);
		if (job->what == JOB_LINE) {
			turn = job->text.n && (job->text.p[0] != '/' || job->text.p[1] == '/');
			w->holding = !turn;
			/* Show the command above its notices, unless it is /variant, which the keys Left and Right run:
			 * the answer has a note that tells which variant it is. */
			if (!turn && !is_variant(&job->text))
				worker_post_text(w, EV_NOTICE, job->text.p, job->text.n);
			chat_take(c, &job->text);
		} else if (job->what == JOB_READ) {
			chat_read(c);
		} else {
			w->holding = 1;
			chat_switch(c, job->id, job->text.n > 0);
		}
	}
	w->open = 0;
	signals_take_int();
	w->title_stale = 1;
	if (!conversation_is_open(&c->conv))
		worker_release_held(w);
	if (c->conv.tl)
		timeline_resume(c->conv.tl);
	if (conversation_is_open(&c->conv)) {
		worker_send_changes(w);
		worker_release_held(w);
		/* make the report look for evicted words, even if it did so less than a second ago */
		w->listener.lensed = 0;
		worker_report_cache(w, 1);
	}
}

void worker_read_on(struct worker *w)
{
	w->open = 1;
	w->open_tps = 0;
	w->open_left = -1;
	w->had = 0;
	w->reading = -1;
	w->reading_since = 0;
	if (w->c->streaming.on)
		chat_stream(w->c);
	else
		chat_index(w->c, 0);
	w->open = 0;
	if (!w->c->streaming.on)
		atomic_store(&w->stop, 0);
	signals_take_int();
	worker_sent_all(w);
}
