/* app/tui/worker_private.h (private to worker*.c) - the worker as its files share it.
 *
 *     worker.c         the queue of jobs, the thread, main's side
 *     worker_events.c  the queue of events
 *     worker_jobs.c    what a job does
 *     worker_front.c   the chat's calls become events; messages and documents that changed
 *     worker_report.c  the figures that are overwritten: progress, status, the cache */
#ifndef WEIR_WORKER_PRIVATE_H
#define WEIR_WORKER_PRIVATE_H

#include "app/tui/worker.h"

#include <pthread.h>
#include <stdatomic.h>

#define REPORT_EVERY 0.1 /* seconds between two reports of status, while an answer is generated */
enum {
	STREAM_SHOWN = 65536,  /* bytes of a text without an end that the transcript keeps ... */
	STREAM_MOST = 1 << 20, /* ... once it has so many */
};

struct job {
	struct job *next;
	enum job_what what;
	int64_t id;
	struct str text;
};

struct worker {
	struct chat *c;
	pthread_t thread;
	int started;
	int fd;           /* eventfd: readable when main has something to take */
	atomic_int stop;  /* what runs shall end */
	atomic_int panel; /* figures of the cache that are wanted, as in worker_panel() */

	pthread_mutex_t lock; /* of all up to cache_fresh */
	pthread_cond_t wake;
	struct job *job, **job_end;
	int running, closing, signalled;
	/* jobs of main that are not small and of which no report says yet that they run */
	int waiting;
	struct event *event, **event_end;
	struct worker_status status;
	int status_new;
	/* the newest complete one; the one that main has */
	struct cache_report *cache_new, *cache_read;
	int cache_fresh;

	/* The thread's own. */
	struct cache_report *cache_work; /* being filled */
	struct listener listener;
	/* times of the last reports; seconds between two of the cache */
	double reported, cache_reported, cache_every;
	double reading_since;
	int64_t had; /* when the prefill began, and at which token */
	/* tokens of the sequence that are there while a prefill runs; -1 = none runs */
	int32_t reading;
	int open;
	double open_tps, open_left;          /* a text without an end is being read; seconds left, < 0 = unknown */
	uint64_t surprises;                  /* sentences whose surprise the screen has */
	size_t streamed;                     /* bytes of it that the transcript has */
	size_t n_sent;                       /* messages that the transcript has */
	int messages_stale, documents_stale; /* the screen has others */
	int32_t *first;
	size_t n_first; /* first tokens of the documents, as they were sent */
	/* Notices of a command wait here until its changes have been sent: they stand below them. */
	int holding;
	struct event *held, **held_end;
	struct str *said; /* notices and errors of a small job that runs now; NULL: none does */
	struct str title;
	int64_t title_of;
	int title_stale; /* the session's title, and whose it is */
};

/* worker_events.c */
struct event *event_new(enum event_what, const char *text, size_t n);
void worker_post(struct worker *, struct event *);
void worker_post_text(struct worker *, enum event_what, const char *text, size_t n);
/* joined to the last event, if main has not taken it */
void worker_post_piece(struct worker *, enum event_what, const char *bytes, size_t n, size_t at);
void worker_release_held(struct worker *);
void worker_drop_held(struct worker *);
void worker_signal(struct worker *); /* with the lock: main has something to take */
/* worker_jobs.c */
int worker_job_is_small(enum job_what); /* it only has to do with the store */
void worker_run_job(struct worker *, struct job *);
void worker_read_on(struct worker *); /* a text without an end, until a job waits */
/* called between tokens and chunks of running work: run small jobs and due deletions, update the cache view */
void worker_between(struct worker *);
void worker_delete_due(struct worker *);
/* the thread has ended: what changes sessions and still waits is done, the rest dropped */
void worker_finish(struct worker *);
/* worker_front.c */
extern const struct front worker_front;
void worker_say(const char *text, size_t n, void *ud);
/* from now on the conversation's events are heard; the screen has nothing of it yet */
void worker_observe(struct worker *);
void worker_ignore(struct worker *);
void worker_send_changes(struct worker *); /* documents and messages, where the screen has others */
void worker_sent_all(struct worker *);     /* the screen has the messages as they are */
/* worker_report.c */
enum worker_work { WORKER_IDLE, WORKER_BUSY, WORKER_DECODES };
void worker_report(struct worker *, enum worker_work, const char *verb, int64_t done, int64_t total);
void worker_report_sessions(struct worker *);        /* the title or the deleted sessions have changed */
void worker_report_cache(struct worker *, int last); /* last: the job is over */

#endif
