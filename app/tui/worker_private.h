/* app/tui/worker_private.h (private to worker*.c) - the state of the worker.
 *
 *     worker.c:        starts and stops the thread; what the main thread calls;
 *     worker_events.c: the queue of events;
 *     worker_jobs.c:   runs the jobs;
 *     worker_front.c:  turns callbacks of the chat into events;
 *     worker_report.c: figures that replace older ones: progress, status, the cache. */
#ifndef WEIR_WORKER_PRIVATE_H
#define WEIR_WORKER_PRIVATE_H

#include "app/tui/worker.h"

#include <pthread.h>
#include <stdatomic.h>

#define REPORT_EVERY 0.1 /* seconds between two reports of status during an answer */
enum {
	STREAM_SHOWN = 65536,  /* when the transcript is shortened, it keeps this many bytes of a streamed text */
	STREAM_MOST = 1 << 20, /* the transcript is shortened when it has more bytes of a streamed text than this */
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
	/* the reading end of a pipe, which is readable while the main thread has events or figures to take */
	int fd;
	int signal_fd;    /* the other end of the pipe */
	atomic_int stop;  /* 1 = the current work must end */
	atomic_int panel; /* which figures of the cache are reported; for the values, see worker_panel() */

	pthread_mutex_t lock; /* protects all members from here to cache_fresh */
	pthread_cond_t wake;
	struct job *job, **job_end;
	/* `running` is 1 while a job runs; `closing` is 1 if the thread must end; `signalled` is 1 if `fd` is
	 * readable */
	int running, closing, signalled;
	/* number of queued jobs that have not begun; small jobs are not counted */
	int waiting;
	struct event *event, **event_end;
	struct worker_status status;
	int status_new;
	/* cache_new is the newest complete report; cache_read is the report that the main thread reads */
	struct cache_report *cache_new, *cache_read;
	int cache_fresh;

	/* Members that only the worker's thread uses. */
	struct cache_report *cache_work; /* the report that is being made */
	struct listener listener;
	/* The last report of the status was made at the time `reported`, that of the cache at `cache_reported`. While
	 * the cache panel is open, cache reports are `cache_every` seconds apart. */
	double reported, cache_reported, cache_every;
	double reading_since; /* time at which the prefill began */
	int64_t had;          /* number of tokens that were cached when the prefill began */
	/* during a prefill, number of tokens in the sequence so far; -1 = no prefill runs */
	int32_t reading;
	int open; /* 1 = a streamed text is being read, or passages are encoded ahead of a question */
	/* `open_tps` is the reading speed of the streamed text in tokens per second; `open_left` is the estimated
	 * number of seconds to its end, < 0 = unknown */
	double open_tps, open_left;
	uint64_t surprises;                  /* number of sentences whose surprise was sent to the screen */
	size_t streamed;                     /* number of bytes of the streamed text in the transcript */
	size_t n_sent;                       /* number of messages in the transcript */
	int messages_stale, documents_stale; /* 1 = the messages or documents have changed since they were sent */
	int32_t *first;
	size_t n_first; /* first[n_first] has the index of each document's first token, as it was sent to the screen */
	/* 1 = a command runs that may change the messages. Its notices are collected in `held`, because the screen must
	 * get the messages first */
	int holding;
	struct event *held, **held_end;
	struct str *said; /* output of the small job that is running; NULL = no small job is running */
	struct str title;
	int64_t title_of;
	/* `title` is the title of session `title_of`. `title_stale` is 1 if the title must be read from the store
	 * again. */
	int title_stale;
};

/* worker_events.c */
struct event *event_new(enum event_what, const char *text, size_t n);
void worker_post(struct worker *, struct event *);
void worker_post_text(struct worker *, enum event_what, const char *text, size_t n);
/* append text to the newest waiting event if it is of the same kind and not too long; otherwise post a new event */
void worker_post_piece(struct worker *, enum event_what, const char *bytes, size_t n, size_t at);
void worker_release_held(struct worker *);
void worker_drop_held(struct worker *);
void worker_signal(struct worker *); /* make fd readable; the caller holds the lock */
/* worker_jobs.c */
int worker_job_is_small(enum job_what); /* 1 if the job needs only the store */
void worker_run_job(struct worker *, struct job *);
void worker_read_on(struct worker *); /* read a streamed text, or encode passages, until a job waits */
/* called between tokens and between steps of a prefill; runs small jobs and due deletions, and updates the cache
 * report */
void worker_between(struct worker *);
void worker_delete_due(struct worker *);
/* called after the thread has ended; runs the waiting jobs that change sessions, and drops all other jobs */
void worker_finish(struct worker *);
/* worker_front.c */
extern const struct front worker_front;
void worker_say(const char *text, size_t n, void *ud);
/* register for the conversation's events, and mark all messages and documents as not yet shown */
void worker_observe(struct worker *);
void worker_ignore(struct worker *);
void worker_send_changes(struct worker *); /* send documents and messages that have changed */
void worker_sent_all(struct worker *);     /* record that the screen has the current messages */
/* worker_report.c */
enum worker_work { WORKER_IDLE, WORKER_BUSY, WORKER_DECODES };
void worker_report(struct worker *, enum worker_work, const char *verb, int64_t done, int64_t total);
/* report the status again, with the new title and the deleted sessions */
void worker_report_sessions(struct worker *);
void worker_report_cache(struct worker *, int last); /* report the cache; `last` is 1 if the job has ended */

#endif
