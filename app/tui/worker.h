/* app/tui/worker.h (private to app/tui/) - the worker: a thread that runs the chat.
 *
 * The main thread queues jobs (worker_do()), which the worker runs one by one. Calls of the chat's callbacks become
 * events, which the main thread takes (worker_take()). Events arrive in order, and none is lost. Figures (progress,
 * status, cache) are no events: a newer figure replaces an older one that was not read.
 *
 * From worker_start() to worker_close() only the worker uses struct chat, with its timeline and session log. */
#ifndef WEIR_WORKER_H
#define WEIR_WORKER_H

#include "app/chat/chat.h"

enum job_what {
	JOB_LINE, /* run `text`, a message or a command */
	JOB_READ, /* prefill the documents */
	/* Switch to session `id`. If `text` is not empty, first wait until no other process writes this session. */
	JOB_SWITCH,
	/* Rename session `id` to `text`. JOB_RENAME and the jobs after it are small: they also run between two tokens
	 * of an answer. */
	JOB_RENAME,
	JOB_FORK, /* copy session `id` to a new session */
	/* delete session `id`; if an answer runs in this session, the job waits for its end */
	JOB_DELETE,
	JOB_UNDELETE, /* restore the session that was deleted last */
	JOB_LOOK,     /* run the command `text`, which only shows something; its output becomes EV_LOOK */
	JOB_MOUSE,    /* switch the mouse on (id = 1) or off, and store this in the config file */
	JOB_REPORT,   /* make a report of the cache at once */
};

enum event_what {
	EV_MESSAGES, /* empty the transcript; the conversation's messages follow as EV_MESSAGE */
	EV_MESSAGE,  /* show a message, which has a role, a text and a note */
	EV_CUT,      /* remove everything after the first `messages` messages */
	/* show the question `text`, which will be answered; if `text` is empty, the last question is answered again */
	EV_QUESTION,
	EV_PIECE, /* append `text` to the answer */
	/* `text` is text of the growing file from byte `at` on; `begins` is 1 if it does not continue the text of the
	 * previous event */
	EV_STREAM,
	/* span[n_span] tells how much each sentence of the growing file surprises the model; the first sentence begins
	 * at byte `at` */
	EV_SURPRISE,
	/* All messages after the first `messages` were undone, but stay visible on the screen. */
	EV_RETURNED,
	EV_TURNED, /* the answer has ended; `note` is a line to show below it, or empty */
	EV_DRAFT,  /* put `text` into the input line */
	EV_NOTICE,
	EV_ERROR,     /* show `text`, an error message */
	EV_DOCUMENTS, /* doc[n_doc] has all documents of the conversation */
	EV_PLACE,     /* open document place.doc at its bytes [place.from, place.to) */
	EV_LOOK,      /* `text` is the output of the command `note`, which JOB_LOOK has run */
	/* show `text`, a message about a session that was renamed, deleted, ..., in the status row, so that the list of
	 * sessions can stay open */
	EV_SAY,
	/* source[n_source] has the sources of the answer to question number `at`; SIZE_MAX = the last question */
	EV_SOURCES,
	/* `text` has the words of the last answer that do not occur in its sources, each followed by a newline */
	EV_UNSUPPORTED,
	EV_SESSIONS, /* the list of sessions has changed */
	EV_IDLE,     /* all jobs are done */
	EV_QUIT,     /* the chat has ended */
};
/* A document in the form in which the screen shows it; for the members, see struct ui_document. */
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
	int working;   /* what runs, as enum worker_work; 0 = nothing */
	char verb[64]; /* name of the current work: "reading", "answering" */
	int open;      /* 1 = a message of the user may interrupt the work */
	/* Progress of a prefill: `done` of `total` tokens are in the cache, and `had` of them were there before the
	 * prefill. */
	int64_t done, total, had;
	/* `tps` is the speed in tokens per second; `left` is the estimated number of seconds to the end of a streamed
	 * text, < 0 = unknown */
	double tps, left;
	int known; /* 1 = the members below are set */
	char model[96], session[96], kv[128];
	int served;       /* 1 = the model is on a server */
	int kept_on_disk; /* 1 = the conversation is saved */
	/* 1 = this process may only read the session, because another weir process writes it */
	int read_only;
	/* The token sequence has `seen` tokens, and the cache has `kept` of them. `ctx` is the context size. `evicted`
	 * tokens are evicted in all layers and KV heads, and `thinned` tokens in only some of them. */
	int32_t seen, kept, ctx, evicted, thinned;
	int64_t session_id;
	int64_t hidden[HIDDEN_MOST];
	int n_hidden; /* number of ids in `hidden`: deleted sessions that can still be restored */
	double last_tps, prefill_tps;
	uint64_t kv_bytes;
};

struct worker;
struct cache_report; /* defined in app/chat/cache_view.h */
/* Create the worker of an open chat. From now on notices of the chat become events. The first events contain the
 * messages and documents. The caller may use the chat before worker_start() and after worker_close(). */
int worker_open(struct worker **, struct chat *, struct err *);
/* Start the thread. Call worker_close() even if that fails. */
int worker_start(struct worker *, struct err *);
/* For tests: report the cache after every token, so that figures do not depend on time. Call before
 * worker_start(). */
void worker_still(struct worker *);
void worker_do(struct worker *, enum job_what, int64_t id, const char *text, size_t n);
/* Stop the current work within 100 ms, and drop all waiting jobs except small ones. Returns how many messages and
 * commands (JOB_LINE) were dropped. */
int worker_stop(struct worker *);
/* Return a file descriptor. It is readable while there is something to take: events, a new status, or new figures. */
int worker_fd(const struct worker *);
/* Return the next event, or NULL if there is none. The caller frees it. */
struct event *worker_take(struct worker *);
/* Copy the status. Returns 1 if it has changed since the last call, else 0. After worker_do() the status says at once
 * that work runs; but a small job does not change the status. */
int worker_status(struct worker *, struct worker_status *);
int worker_busy(struct worker *);
/* Choose which figures of the cache are reported: none if `how` is 0, the figures for the small forms of the cache
 * panel (bar, side panel) if it is 1, and all figures if it is 2. */
void worker_panel(struct worker *, int how);
/* Set *out to the newest cache report, which is valid until the next call. Returns 1 if it is new since the last call,
 * else 0. */
int worker_cache(struct worker *, const struct cache_report **);
/* Stop the thread, wait for it and free the worker. */
void worker_close(struct worker *);

#endif
