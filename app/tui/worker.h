/* app/tui/worker.h (private to app/tui/) - the chat in a thread of its own.
 *
 *     main:    worker_do() ------------> queue of jobs ------> worker: chat_take(), chat_read(), ...
 *              worker_stop()  flag, timeline_cancel()
 *     main:    worker_take() <- events, eventfd <------------- the calls of the chat's front
 *
 * From worker_start() to worker_close() the thread owns struct chat: the timeline, and the session log with its
 * connection to the store. The main thread owns the screen and reads nothing of the chat. Events arrive in order, and
 * none is lost. Of figures (progress, status, the cache) only the newest is kept. */
#ifndef WEIR_WORKER_H
#define WEIR_WORKER_H

#include "app/chat/chat.h"

enum job_what {
	JOB_LINE,     /* text: a message or a command */
	JOB_READ,     /* prefill the documents */
	JOB_SWITCH,   /* id: continue in that session. The jobs below also run between two tokens of an answer: */
	JOB_RENAME,   /* id, text */
	JOB_FORK,     /* id */
	JOB_DELETE,   /* id. The session of a running answer is deleted after the answer */
	JOB_UNDELETE, /* the session deleted last */
	JOB_LOOK,     /* text: a command that changes nothing; its output becomes EV_LOOK */
	JOB_MOUSE,    /* id: 1 = on; stored in the config file */
	JOB_REPORT,   /* report the cache at once */
};

enum event_what {
	EV_MESSAGES, /* the transcript begins anew; its messages follow as EV_MESSAGE */
	EV_MESSAGE,  /* role, text, note */
	EV_CUT,      /* drop everything after the first `messages` messages */
	EV_QUESTION, /* text; an answer follows. Without text: the last question is answered again */
	EV_PIECE,    /* text to append to the answer */
	/* text to append to a streamed text, from its byte `at`; begins: 1 = it does not follow the text before */
	EV_STREAM,
	EV_SURPRISE, /* span[n_span]: levels of surprise of the streamed text, from its byte `at` */
	/* only the first `messages` messages still belong to the conversation; the others stay on the screen */
	EV_RETURNED,
	EV_TURNED, /* the answer has ended; note: a line below it, or empty */
	EV_DRAFT,  /* text for the input line */
	EV_NOTICE,
	EV_ERROR,     /* text */
	EV_DOCUMENTS, /* doc[n_doc]: all documents */
	EV_PLACE,     /* open document place.doc at its bytes [place.from, place.to) */
	EV_LOOK,      /* text: output of a command between two tokens; note: the command */
	/* text: message about a change of sessions between two tokens, for the status row, so that the list stays
	 * open */
	EV_SAY,
	EV_SOURCES,  /* source[n_source]: of the answer to question number `at`; SIZE_MAX: to the last question */
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
	int working;              /* 0 = nothing runs */
	char verb[64];            /* the running work: "reading", "answering" */
	int open;                 /* 1 = a message interrupts the work */
	int64_t done, total, had; /* tokens of a prefill; had: part of `done` that was cached */
	double tps, left;         /* tokens a second; seconds left, < 0 = unknown */
	int known;                /* 1 = the members below are set */
	char model[96], session[96], kv[128];
	int served;                                /* 1 = the model is on a server */
	int kept_on_disk;                          /* 1 = the conversation is saved */
	int read_only;                             /* 1 = another weir writes, so sessions are read-only */
	int32_t seen, kept, ctx, evicted, thinned; /* tokens */
	int64_t session_id;
	int64_t hidden[HIDDEN_MOST];
	int n_hidden; /* deleted sessions whose deletion can still be undone */
	double last_tps, prefill_tps;
	uint64_t kv_bytes;
};

struct worker;
struct cache_report; /* app/chat/cache_view.h */
/* Make the worker of an open chat. It takes over the chat's front and ud, so that notices become events; the first
 * events carry the messages and documents. The chat belongs to the caller until worker_start() and again after
 * worker_close(). */
int worker_open(struct worker **, struct chat *, struct err *);
/* Start the thread. Call worker_close() also after -1. */
int worker_start(struct worker *, struct err *);
/* For tests, before worker_start(): report the cache after every token, so that figures do not depend on time. */
void worker_still(struct worker *);
void worker_do(struct worker *, enum job_what, int64_t id, const char *text, size_t n);
/* Stop the running work within 100 ms and drop the waiting messages and commands. Returns the number of JOB_LINE
 * among them. */
int worker_stop(struct worker *);
/* Descriptor that is readable while there are events or a new status. */
int worker_fd(const struct worker *);
/* The next event, which the caller frees; NULL = none. */
struct event *worker_take(struct worker *);
/* Copy the status; 1 if it has changed since the last call. After worker_do() of a job that is not small it says
 * at once that something runs. */
int worker_status(struct worker *, struct worker_status *);
int worker_busy(struct worker *);
/* Choose the figures of the cache to report: 0 none, 1 those of the status bar, 2 all. */
void worker_panel(struct worker *, int how);
/* The newest report, valid until the next call; 1 if it is new since the last call. */
int worker_cache(struct worker *, const struct cache_report **);
/* Stop the thread, wait for it and free the worker. */
void worker_close(struct worker *);

#endif
