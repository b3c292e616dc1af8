/* app/chat/session_log.h - saves a conversation on disk, in a session of the store (sessions/store/store.h).
 *
 * A question is committed before it is prefilled. An answer is committed every two seconds and at its end. After each
 * turn a snapshot of the KV cache is saved, so that a later run needs no prefill. If the disk fails, the user is told
 * once, and the conversation continues unsaved. A conversation that is not stored has no session log (NULL). */
#ifndef WEIR_SESSION_LOG_H
#define WEIR_SESSION_LOG_H

#include "app/conversation/conversation.h"
#include "sessions/snap/snap.h"

struct session_log {
	struct store *store;
	struct snaps *snaps; /* where KV snapshots are saved; NULL: kv.db could not be opened */
	struct fingerprint fingerprint;
	int64_t session;    /* id in the store; 0 = the first question creates the session */
	int fresh;          /* 1 = the session is new: its settings are not stored yet */
	int64_t writing;    /* id of the stored answer that is still being generated; 0 = none */
	double written_at;  /* time at which the answer `writing` was last written to the store */
	int32_t entries_at; /* value of timeline_entries_ready() when KV entries were last saved or loaded */
	int deferred;       /* 1 = changes of documents are only recorded now, and stored later (session_log_defer()) */
	int64_t *dropped;   /* [n_dropped] store ids of the documents that must be deleted from the session */
	size_t n_dropped, cap_dropped;
	const struct document *leaving; /* a document that is about to be removed and must not be stored */
	int failed;                     /* 1 = nothing is saved: the disk failed, or the session is read-only */
	/* 0 = this process may write the session. Otherwise another weir process writes it, and it is read-only here:
	 * the pid of that process, or -1 if the pid is unknown */
	long read_only;
};

/* Open the session that the options name: -s NAME (created if missing), --continue, or a new session at a terminal. *o
 * gets the session's settings; settings of the command line take precedence. *out is NULL if nothing is to be saved. */
int session_log_open(struct session_log **out, struct options *o, struct err *);
/* Load the session's documents, messages and KV snapshot into an empty conversation. Appends a line for the user
 * to *note, if there is something to tell. */
int session_log_resume(struct session_log *, struct conversation *, struct str *note, struct err *);
void session_log_close(struct session_log *);
/* Append the size of the session's snapshots as human_saved() writes it. Appends nothing if no session is stored, or
 * kv.db could not be opened. */
int session_log_saved(const struct session_log *, struct str *out, struct err *);

/* ---- commands of the user ---- */

/* Lock a session for writing. If `wait` is 1, wait until the session is free or the user interrupts. Returns 0 or -1.
 * If another weir process has the lock, *by is its pid, or -1 if the pid is unknown; after other errors *by is 0. */
int session_log_hold(struct session_log *, int64_t session, int wait, long *by, struct err *);
/* Switch from the current session to another one, after session_log_hold() for that session. Its result `by` is 0 if
 * this process has locked the session. If `by` is not 0, another process writes the session, and this one opens it
 * read-only. */
int session_log_switch(struct session_log *, struct conversation *, struct options *, int64_t session, long by,
                       struct str *note, struct err *);
/* Show another branch of the session. The branch ends with the stored message `end`. Its messages replace those of the
 * conversation from index `from` on. */
int session_log_show(struct session_log *, struct conversation *, size_t from, int64_t end, struct err *);
/* Copy the messages so far into a new session, and continue there. */
int session_log_fork(struct session_log *, struct conversation *, const char *name, struct err *);
int session_log_rename(struct session_log *, struct conversation *, const char *name, struct err *);
/* Delete a session and its snapshots. If it is the current one, the next question creates a new session. */
int session_log_delete(struct session_log *, struct conversation *, int64_t session, struct err *);
/* Append the session's name, else its title, else its number. Appends nothing if there is no session. */
void session_log_title(struct session_log *, struct str *out);

/* ---- computing a session again (weir verify) ---- */

/* Load a session's settings into the options. Settings of the command line take precedence. */
int session_options(struct store *, int64_t session, struct options *, struct err *);
/* Add a stored document to the conversation, without an event. `at` is the number of messages when the document was
 * first added. */
int session_restore_document(struct conversation *, const struct stored_document *, size_t at, struct err *);

#endif
