/* app/worker.h (private to app/) - the conversation in a thread of its own.
 *
 *     main:    worker_do() ------------> queue of jobs ------> worker: chat_take(), chat_read(), ...
 *              worker_stop()  flag, timeline_cancel()
 *     main:    worker_take() <- events, eventfd <------------- the front's calls
 *
 * The worker owns struct chat: the timeline, the record with its connection to the store.  Main owns the screen.  What happened comes
 * as events in order; what is only true now (progress, status, the cache) is kept once and overwritten. */
#ifndef WEIR_WORKER_H
#define WEIR_WORKER_H

#include "app/chat.h"

enum job_what {
	JOB_LINE,       /* text: a message or a command */
	JOB_READ,       /* the documents */
	JOB_SWITCH,     /* id; the rest may run between two tokens of an answer: */
	JOB_RENAME,     /* id, text */
	JOB_FORK,       /* id */
	JOB_DELETE,     /* id */
	JOB_UNDELETE,   /* the one deleted last */
	JOB_LOOK,       /* at the cache, now */
};

enum event_what {
	EV_TALK,        /* the messages are these, n of them: EV_MESSAGE events follow */
	EV_MESSAGE,     /* role, text, note */
	EV_QUESTION,    /* text; an answer follows */
	EV_PIECE,       /* text: the answer grows */
	EV_STREAM,      /* text: what was read of a text without an end; begins: of another one, or from another place on */
	EV_TURNED,      /* it is over; note: a line about it, or nothing */
	EV_DRAFT,       /* text: into the input line */
	EV_NOTICE, EV_ERROR,   /* text */
	EV_DOCUMENTS,   /* docs */
	EV_SESSIONS,    /* the list of sessions has changed */
	EV_IDLE,        /* all jobs are done */
	EV_QUIT,        /* the conversation has ended: chat.rc is the exit code */
};
struct event_doc { char *name; struct str text; uint64_t bytes; int32_t tokens, first; };
struct event {
	struct event *next;
	enum event_what what;
	enum chat_role role;
	int begins;
	struct str text, note;
	struct event_doc *doc; size_t n_doc;
};
void event_free(struct event *);

enum { HIDDEN_MOST = 32 };
/* What is true now. */
struct now {
	int working;                /* 0: nothing runs */
	char verb[48];
	int open;                   /* it makes way for whatever comes */
	int64_t done, total, had;
	double tps, left;
	int status;                 /* the following is filled in */
	char model[96], session[96], kv[128];
	int kept_on_disk;
	int32_t seen, kept, ctx, gone, thinned;
	int64_t session_id;
	int64_t hidden[HIDDEN_MOST]; int n_hidden;   /* sessions that are deleted, but for the seconds in which that can be undone */
	double last_tps, prefill_tps;
	uint64_t kv_bytes;
};

struct worker;
struct panel;   /* panel.h */
/* The chat is open; its front and ud belong to the worker from now on. */
int  worker_start(struct worker **, struct chat *, struct err *);
void worker_do(struct worker *, enum job_what, int64_t id, const char *text, size_t n);
/* Stop what runs within 100 ms and forget what waits. */
void worker_stop(struct worker *);
/* Readable when worker_take() or worker_now() has news. */
int  worker_fd(const struct worker *);
/* The next event, the caller's to free; NULL = none. */
struct event *worker_take(struct worker *);
/* 1 when it has changed since the last call. */
int  worker_now(struct worker *, struct now *);
int  worker_busy(struct worker *);
/* How much of the cache is looked at: 0 nothing, 1 the bar, 2 all. */
void worker_panel(struct worker *, int how);
/* The newest look at the cache (panel.h): 1 when there is a new one since the last call.  Valid until the
 * next call. */
int  worker_cache(struct worker *, const struct panel **);
/* Stops, waits for the thread, frees. */
void worker_close(struct worker *);

#endif
