/* app/tui/worker.c - starts and stops the worker thread; the functions that the main thread calls (worker.h). */
#include "app/tui/worker_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/os.h"

#define CACHE_EVERY 0.2 /* seconds between two reports of the cache while the panel is shown */

/* ---- the thread ---- */

static int is_due(const struct worker *w)
{
	double at = chat_delete_next(w->c);

	return at > 0 && at <= now_seconds();
}

/* Wait until there is a job, or until a deleted session must be removed from the disk. The caller holds the lock. */
static void wait_for_work(struct worker *w)
{
	double at = chat_delete_next(w->c), left = at - now_seconds();
	struct timespec until;

	if (at <= 0) {
		pthread_cond_wait(&w->wake, &w->lock);
		return;
	}
	if (left < 0)
		left = 0;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)((left - (double)(long)left) * 1e9);
	until.tv_sec += (time_t)left + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&w->wake, &w->lock, &until);
}

/* 1 if there is work even though no job waits: a growing file to read, or passages to encode. */
static int has_more(const struct worker *w)
{
	return (w->c->streaming.on || w->c->indexing.due) && !w->c->quit;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct job *job;

		while (!w->job && !w->closing && !has_more(w) && !is_due(w))
			wait_for_work(w);
		if (w->closing)
			break;
		if (!w->job && is_due(w)) {
			pthread_mutex_unlock(&w->lock);
			worker_delete_due(w);
			pthread_mutex_lock(&w->lock);
			continue;
		}
		job = w->job;
		if (job && !(w->job = job->next))
			w->job_end = &w->job;
		w->running = 1;
		if (job)
			/* worker_stop() needs the lock, too: so a stop after this line is meant for this job */
			atomic_store(&w->stop, 0);
		pthread_mutex_unlock(&w->lock);
		if (job) {
			worker_run_job(w, job);
			str_free(&job->text);
			free(job);
		} else {
			worker_read_on(w);
		}
		pthread_mutex_lock(&w->lock);
		if (w->job || has_more(w))
			continue;
		w->running = 0;
		pthread_mutex_unlock(&w->lock);
		worker_report(w, WORKER_IDLE, "", 0, 0);
		worker_post_text(w, w->c->quit ? EV_QUIT : EV_IDLE, "", 0);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	if (w->c->conv.tl)
		listener_off(&w->listener, w->c->conv.tl);
	return NULL;
}

/* ---- the main thread's side ---- */

int worker_open(struct worker **out, struct chat *c, struct err *e)
{
	struct worker *w;
	int fd[2];

	if (os_pipe(fd, O_NONBLOCK))
		return err_set(e, ERR_FAIL, "cannot make a pipe: %s", strerror(errno));
	w = *out = xcalloc(1, sizeof *w);
	w->c = c;
	w->fd = fd[0];
	w->signal_fd = fd[1];
	w->cache_every = CACHE_EVERY;
	w->job_end = &w->job;
	w->held_end = &w->held;
	w->event_end = &w->event;
	w->cache_new = cache_report_new();
	w->cache_read = cache_report_new();
	w->cache_work = cache_report_new();
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	c->front = &worker_front;
	c->ud = w;
	say_to(worker_say, w);
	worker_observe(w);
	worker_report(w, WORKER_IDLE, "", 0, 0);
	worker_send_changes(w);
	return 0;
}

int worker_start(struct worker *w, struct err *e)
{
	static const int own[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL };
	sigset_t all, before;
	int rc;

	w->running = w->c->streaming.on; /* 1 = reading a streamed text begins at once */
	/* Block signals in the worker thread, because the main thread handles them. But do not block signals that an
	 * instruction of the worker raises, such as SIGBUS in a mapped file that was truncated. A blocked signal of
	 * this kind would kill the program without calling the handler. */
	sigfillset(&all);
	for (size_t i = 0; i < LEN(own); i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return err_set(e, ERR_FAIL, "cannot start a thread: %s", strerror(rc));
	w->started = 1;
	return 0;
}

void worker_do(struct worker *w, enum job_what what, int64_t id, const char *text, size_t n)
{
	struct job *job = xcalloc(1, sizeof *job);

	job->what = what;
	job->id = id;
	str_add(&job->text, text ? text : "", n);
	pthread_mutex_lock(&w->lock);
	*w->job_end = job;
	w->job_end = &job->next;
	pthread_cond_signal(&w->wake);
	if (!worker_job_is_small(what)) {
		w->waiting++;
		w->status_new = 1;
		worker_signal(w);
	}
	pthread_mutex_unlock(&w->lock);
}

int worker_stop(struct worker *w)
{
	int dropped = 0;

	/* The lock prevents the next job from starting, so only the current job is cancelled. */
	pthread_mutex_lock(&w->lock);
	for (struct job **p = &w->job; (w->job_end = p, *p);) {
		struct job *job = *p;

		if (worker_job_is_small(
			    /* do not drop small jobs (rename, delete, ...): the list of sessions already shows their
			     * results, so they must run */
			    job->what)) {
			p = &job->next;
			continue;
		}
		*p = job->next;
		w->waiting -= !worker_job_is_small(job->what);
		dropped += job->what == JOB_LINE;
		str_free(&job->text);
		free(job);
	}
	w->status_new = 1; /* the waiting messages were dropped, so report that none is queued */
	worker_signal(w);
	if (w->running) {
		atomic_store(&w->stop, 1);
		signals_stop();
	}
	pthread_mutex_unlock(&w->lock);
	return dropped;
}

int worker_fd(const struct worker *w)
{
	return w->fd;
}

struct event *worker_take(struct worker *w)
{
	struct event *e;
	char one;

	pthread_mutex_lock(&w->lock);
	if (w->signalled && read(w->fd, &one, 1) == 1)
		w->signalled = 0;
	e = w->event;
	if (e) {
		w->event = e->next;
		if (!w->event)
			w->event_end = &w->event;
		e->next = NULL;
	}
	pthread_mutex_unlock(&w->lock);
	return e;
}

int worker_status(struct worker *w, struct worker_status *s)
{
	int fresh;

	pthread_mutex_lock(&w->lock);
	fresh = w->status_new;
	*s = w->status;
	/* If the worker has not begun the newest job, its last report of `working` is about an earlier job: report that
	 * work runs. */
	if (w->waiting && !s->working) {
		s->working = WORKER_BUSY;
		snprintf(s->verb, sizeof s->verb, "working");
		s->open = 0;
		s->done = s->total = 0;
		s->tps = 0;
		s->left = -1;
	}
	w->status_new = 0;
	pthread_mutex_unlock(&w->lock);
	return fresh;
}

int worker_busy(struct worker *w)
{
	int busy;

	pthread_mutex_lock(&w->lock);
	busy = w->running || w->job || w->event || w->status_new;
	pthread_mutex_unlock(&w->lock);
	return busy;
}

void worker_still(struct worker *w)
{
	w->cache_every = 0;
}

void worker_panel(struct worker *w, int how)
{
	atomic_store(&w->panel, how);
	worker_do(w, JOB_REPORT, 0, NULL, 0); /* this job makes a cache report even while no other work runs */
}

int worker_cache(struct worker *w, const struct cache_report **out)
{
	struct cache_report *p;
	int fresh;

	pthread_mutex_lock(&w->lock);
	fresh = w->cache_fresh;
	if (fresh) {
		p = w->cache_read;
		w->cache_read = w->cache_new;
		w->cache_new = p;
		w->cache_fresh = 0;
	}
	pthread_mutex_unlock(&w->lock);
	*out = w->cache_read;
	return fresh;
}

void worker_close(struct worker *w)
{
	struct event *e;

	if (!w)
		return;
	worker_stop(w);
	pthread_mutex_lock(&w->lock);
	w->closing = 1;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	if (w->started)
		pthread_join(w->thread, NULL);
	worker_finish(w);
	worker_ignore(w);
	chat_delete_due(w->c, 1); /* remove the sessions from the disk now, while an error can still be shown */
	say_to(NULL, NULL);
	while ((e = worker_take(w)))
		event_free(e);
	cache_report_free(w->cache_new);
	cache_report_free(w->cache_read);
	cache_report_free(w->cache_work);
	free(w->first);
	str_free(&w->title);
	close(w->fd);
	close(w->signal_fd);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->wake);
	free(w);
}
