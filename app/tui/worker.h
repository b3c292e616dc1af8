/* app/tui/worker.h (private to app/tui/) - the worker: a thread that runs the chat.
 *
 * The main thread queues jobs (worker_do()), which the worker runs one by one. The chat's callbacks become events,
 * which the main thread takes (worker_take()). Events arrive in order, and none is lost. Figures (progress,
 * status, cache) replace older figures that were not read.
 *
 * From worker_start() to worker_close() only the worker uses struct chat, with its timeline and session log. */
#ifndef WEIR_WORKER_H
#define WEIR_WORKER_H

#include "app/chat/chat.h"

enum job_what {
	JOB_LINE, /* text: a message or a command */
	JOB_READ, /* prefill the documents */
	/* id: the session to switch to. text: if not empty, first wait until no other process writes this session */
	JOB_SWITCH,
	/* id: a session; text: its new name. JOB_RENAME and the jobs below are small: they also run between two tokens
	 * of an answer */
	JOB_RENAME,
	JOB_FORK, /* id: the session to copy */
	/* id: the session to delete. If it has a running answer, the job waits for the end of this answer */
	JOB_DELETE,
	JOB_UNDELETE, /* restore the session that was deleted last */
	JOB_LOOK,     /* text: a command that only shows something; its output becomes EV_LOOK */
	JOB_MOUSE,    /* switch the mouse on (id = 1) or off, and store this in the config file */
	JOB_REPORT,   /* report the cache at once */
};

enum event_what {
	EV_MESSAGES, /* empty the transcript; the conversation's messages follow as EV_MESSAGE */
	EV_MESSAGE,  /* a message: role, text, note */
	EV_CUT,      /* remove everything after the first `messages` messages */
	EV_QUESTION, /* text: a question; its answer follows. Empty text: the last question is answered again */
	EV_PIECE,    /* text to append to the answer */
	/* text of the growing file, from its byte `at`; begins: 1 = it does not continue the text sent before */
	EV_STREAM,
	/* span[n_span]: how surprising the growing file's sentences are to the model, from its byte `at` */
	EV_SURPRISE,
	/* All messages after the first `messages` were undone, but stay visible on the screen. */
	EV_RETURNED,
	EV_TURNED, /* the answer has ended; note: a line below it, or empty */
	EV_DRAFT,  /* text for the input line */
	EV_NOTICE,
	EV_ERROR,     /* text: an error message */
	EV_DOCUMENTS, /* doc[n_doc]: all documents */
	EV_PLACE,     /* open document place.doc at its bytes [place.from, place.to) */
	EV_LOOK,      /* note: a command line; text: its output (JOB_LOOK) */
	/* text: message about a session that was renamed, deleted, ... The status row shows it, so that the list
	 * can stay open. */
	EV_SAY,
	/* source[n_source]: sources of the answer to question number `at`; SIZE_MAX = the last question */
	EV_SOURCES,
	EV_UNSUPPORTED, /* text: words of the last answer that its sources do not have, a newline after each */
	EV_SESSIONS,    /* the list of sessions has changed */
	EV_IDLE,        /* all jobs are done */
	EV_QUIT,        /* the chat has ended */
};
/* a document as the screen shows it; members as in struct ui_document */
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
	int working;              /* what runs (enum worker_work); 0 = nothing */
	char verb[64];            /* the running work: "reading", "answering" */
	int open;                 /* 1 = a message of the user may interrupt the work */
	int64_t done, total, had; /* tokens of a prefill; had: part of `done` that was cached */
	double tps, left;         /* tokens a second; seconds left, < 0 = unknown */
	int known;                /* 1 = the members below are set */
	char model[96], session[96], kv[128];
	int served;       /* 1 = the model is on a server */
	int kept_on_disk; /* 1 = the conversation is saved */
	/* 1 = another weir process writes the session, so it is read-only here */
	int read_only;
	int32_t seen, kept, ctx, evicted, thinned; /* numbers of tokens */
	int64_t session_id;
	int64_t hidden[HIDDEN_MOST];
	int n_hidden; /* number of ids in `hidden`: deleted sessions that can still be restored */
	double last_tps, prefill_tps;
	uint64_t kv_bytes;
};

struct worker;
struct cache_report; /* app/chat/cache_view.h */
/* Create the worker of an open chat. From now on notices of the chat become events; the first events contain the
 * messages and documents. The caller may use the chat until worker_start() and again after worker_close(). */
int worker_open(struct worker **, struct chat *, struct err *);
/* Start the thread. Call worker_close() even if that fails. */
int worker_start(struct worker *, struct err *);
/* For tests: report the cache after every token, so that figures do not depend on time. Call before
 * worker_start(). */
void worker_still(struct worker *);
void worker_do(struct worker *, enum job_what, int64_t id, const char *text, size_t n);
/* Stop the running work within 100 ms, and drop the waiting jobs that are not small. Returns how many messages and
 * commands (JOB_LINE) were dropped. */
int worker_stop(struct worker *);
/* Return a descriptor that is readable while there are events or a new status. */
int worker_fd(const struct worker *);
/* Return the next event, which the caller frees; NULL = none. */
struct event *worker_take(struct worker *);
/* Copy the status. Returns 1 if it has changed since the last call. Right after worker_do() the status says that work
 * runs, unless the job is small. */
int worker_status(struct worker *, struct worker_status *);
int worker_busy(struct worker *);
/* Choose the cache figures to report: 0 = none; 1 = those of the cache panel's small forms (bar, side panel); 2 =
 * all. */
void worker_panel(struct worker *, int how);
/* Set *out to the newest cache report, valid until the next call. Returns 1 if it is new since the last call. */
int worker_cache(struct worker *, const struct cache_report **);
/* Stop the thread, wait for it and free the worker. */
void worker_close(struct worker *);

#endif
