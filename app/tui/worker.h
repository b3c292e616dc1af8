/* app/tui/worker.h (private to app/tui/) - the chat in a thread of its own.
 *
 *     main:    worker_do() ------------> queue of jobs ------> worker: chat_take(), chat_read(), ...
 *              worker_stop()  flag, timeline_cancel()
 *     main:    worker_take() <- events, eventfd <------------- the calls of the chat's front
 *
 * From worker_start() to worker_close() the thread owns struct chat: the timeline, the session log with its connection
 * to the store. Main owns the screen and reads nothing of the chat. Events come in order, none is lost. Of figures
 * (progress, status, the cache) only the newest is kept. */
#ifndef WEIR_WORKER_H
#define WEIR_WORKER_H

#include "app/chat/chat.h"

enum job_what {
	JOB_LINE,     /* text: a message or a command */
	JOB_READ,     /* prefill the documents */
	JOB_SWITCH,   /* id: continue in that session.  Those below run between two tokens of an answer, too: */
	JOB_RENAME,   /* id, text */
	JOB_FORK,     /* id */
	JOB_DELETE,   /* id.  Of the conversation that is being answered: waits for the end of the answer */
	JOB_UNDELETE, /* the session deleted last */
	JOB_LOOK,     /* text: a command that changes nothing; what it says becomes EV_LOOK */
	JOB_MOUSE,    /* id: 1 = on; remembered */
	JOB_REPORT,   /* the cache, now */
};

enum event_what {
	EV_MESSAGES, /* the transcript starts again: its messages follow as EV_MESSAGE */
	EV_MESSAGE,  /* role, text, note */
	EV_CUT,      /* what stands behind the first `messages` messages is dropped */
	EV_QUESTION, /* text; an answer follows.  No text: the last question is answered again */
	EV_PIECE,    /* text: the answer grows */
	/* text: a piece of a text without an end, from its byte `at` on; begins: it does not continue the piece
	 * before */
	EV_STREAM,
	EV_SURPRISE, /* span[n_span]: levels of surprise of the streamed text from its byte `at` on */
	/* only the first `messages` messages are ones of the conversation from now on; the others stay on the screen */
	EV_RETURNED,
	EV_TURNED, /* the answer has ended; note: a line about it, or nothing */
	EV_DRAFT,  /* text for the input line */
	EV_NOTICE,
	EV_ERROR,     /* text */
	EV_DOCUMENTS, /* doc[n_doc]: all documents */
	EV_PLACE,     /* open document place.doc at its bytes [place.from, place.to) */
	EV_LOOK,      /* text: what a command said that ran between two tokens; note: the command */
	/* text: what a change of sessions said between two tokens, for the status row: the list stays open */
	EV_SAY,
	EV_SOURCES,  /* source[n_source]: of the answer to question number `at`; SIZE_MAX: to the last one */
	EV_SESSIONS, /* the list of sessions has changed */
	EV_IDLE,     /* all jobs are done */
	EV_QUIT,     /* the chat has ended */
};
/* as in struct ui_document */
struct event_doc {
	char *name;
	struct str text;
	uint64_t bytes;
	int32_t tokens, first;
	struct mark *mark;
	size_t n_mark;
};
struct event {
	struct event *next;
	enum event_what what;
	enum chat_role role;
	int begins;
	size_t messages, at;
	struct str text, note;
	struct event_doc *doc;
	size_t n_doc;
	struct ui_span *span;
	size_t n_span;
	struct {
		size_t doc, from, to;
	} place;
	struct ui_source *source;
	size_t n_source;
};
void event_free(struct event *);

enum { HIDDEN_MOST = 32 };
struct worker_status {
	int working;              /* 0: nothing runs */
	char verb[64];            /* what runs: "reading", "answering" */
	int open;                 /* messages interrupt it */
	int64_t done, total, had; /* tokens of a prefill; had: of done, were cached */
	double tps, left;         /* speed; seconds that are left, < 0 = unknown */
	int known;                /* the fields below are filled in */
	char model[96], session[96], kv[128];
	int served;                                /* the model is on a server */
	int kept_on_disk;                          /* the conversation is saved */
	int read_only;                             /* another weir writes: sessions are only read */
	int32_t seen, kept, ctx, evicted, thinned; /* tokens */
	int64_t session_id;
	int64_t hidden[HIDDEN_MOST];
	int n_hidden; /* deleted sessions whose deletion can still be undone */
	double last_tps, prefill_tps;
	uint64_t kv_bytes;
};

struct worker;
struct cache_report; /* app/chat/cache_view.h */
/* Makes the worker of an open chat. The first events carry its messages and documents; the chat's front and ud are the
 * worker's, so notices become events. The chat stays the caller's until worker_start(), and is the caller's again after
 * worker_close(). */
int worker_open(struct worker **, struct chat *, struct err *);
/* Starts the thread.  After -1 worker_close() is still wanted. */
int worker_start(struct worker *, struct err *);
/* For tests, before worker_start(): the cache is reported after every token, so that figures do not depend on time. */
void worker_still(struct worker *);
void worker_do(struct worker *, enum job_what, int64_t id, const char *text, size_t n);
/* Stops what runs within 100 ms and drops the messages and commands that wait. Returns how many of them were
 * JOB_LINE. */
int worker_stop(struct worker *);
/* Readable when there are events or a new status. */
int worker_fd(const struct worker *);
/* The next event, the caller's to free; NULL = none. */
struct event *worker_take(struct worker *);
/* Returns 1 when it has changed since the last call. From worker_do() on it says that something runs, small jobs
 * excepted. */
int worker_status(struct worker *, struct worker_status *);
int worker_busy(struct worker *);
/* Which figures of the cache are reported: 0 none, 1 those of the bar, 2 all. */
void worker_panel(struct worker *, int how);
/* The newest report, valid until the next call: returns 1 when it is new since the last call. */
int worker_cache(struct worker *, const struct cache_report **);
/* Stops the thread, waits for it, frees. */
void worker_close(struct worker *);

#endif
