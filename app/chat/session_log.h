/* app/chat/session_log.h - an observer that saves a conversation in a session on disk (sessions/store/store.h).
 *
 * A question is committed before it is prefilled, an answer every two seconds and at its end. Then a snapshot of the
 * cache is saved, so that a later run continues without recomputing. When the disk fails the conversation continues:
 * the user is told once, and nothing more is saved.
 *
 * A session log of NULL is one that saves nothing. */
#ifndef WEIR_SESSION_LOG_H
#define WEIR_SESSION_LOG_H

#include "app/conversation/conversation.h"
#include "sessions/snap/snap.h"

struct session_log {
	struct store *store;
	struct snaps *snaps; /* NULL: there is no room for snapshots, or they cannot be used */
	struct fingerprint fingerprint;
	int64_t session;    /* its number in the store; 0 = created with the first question */
	int fresh;          /* the session has no settings yet */
	int64_t writing;    /* the stored answer that still grows; 0 = none */
	double written_at;  /* when it was written last */
	int32_t entries_at; /* tokens prefilled when KV entries were saved last */
	int failed;         /* the disk failed, or the session is only read: nothing is saved */
	/* the process that writes this session, which is only read here; -1 = a process; 0 = it is ours */
	long read_only;
};

/* Open the session that the options name: -s NAME (created where there is none), --continue, or a new one at a
 * terminal;
 * *out = NULL where nothing is to be saved.  The session's settings go into *o, except those that the command line gives. */
int session_log_open(struct session_log **out, struct options *o, struct err *);
/* Load documents, messages and the cache into a conversation that was just opened or emptied. *note: a line for the
 * user, or nothing. */
int session_log_resume(struct session_log *, struct conversation *, struct str *note, struct err *);
void session_log_close(struct session_log *);

/* ---- what the user asks for ---- */

/* Become the one that writes a session. 0; or -1, and *e names the process that does, which stands in *by, too (0:
 * there is none). wait: until it is free, or the user stops that. */
int session_log_hold(struct session_log *, int64_t session, int wait, long *by, struct err *);
/* Resume another session, which is held, in place of this one; by: process `by` writes it, and it is only read. */
int session_log_switch(struct session_log *, struct conversation *, struct options *, int64_t session, long by,
                       struct str *note, struct err *);
/* Show another branch of the session: messages from index `from` on become those that end with message `end`. */
int session_log_show(struct session_log *, struct conversation *, size_t from, int64_t end, struct err *);
/* Continue in a second session, which has the messages so far. */
int session_log_fork(struct session_log *, struct conversation *, const char *name, struct err *);
int session_log_rename(struct session_log *, struct conversation *, const char *name, struct err *);
/* Delete a session for good, with its snapshots.  Where it is the current one, the next question begins another. */
int session_log_delete(struct session_log *, struct conversation *, int64_t session, struct err *);
/* The session as it is shown: its name, title or number; "" before its first question. */
void session_log_title(struct session_log *, struct str *out);

#endif
