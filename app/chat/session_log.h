/* app/chat/session_log.h - saves a conversation in a session on disk, by observing it (sessions/store/store.h).
 *
 * A question is committed before it is prefilled; an answer every two seconds and at its end. Then a snapshot of the
 * KV cache is saved, so that a later run continues without recomputing. If the disk fails the conversation continues:
 * the user is told once, and nothing more is saved.
 *
 * A session log of NULL saves nothing. */
#ifndef WEIR_SESSION_LOG_H
#define WEIR_SESSION_LOG_H

#include "app/conversation/conversation.h"
#include "sessions/snap/snap.h"

struct session_log {
	struct store *store;
	struct snaps *snaps; /* NULL: there is no room for snapshots, or they cannot be used */
	struct fingerprint fingerprint;
	int64_t session;    /* id in the store; 0 = the first question creates the session */
	int fresh;          /* the session has no settings yet */
	int64_t writing;    /* id of the stored answer that still grows; 0 = none */
	double written_at;  /* time at which the growing answer was written last */
	int32_t entries_at; /* tokens prefilled when KV entries were saved last */
	int failed;         /* the disk failed, or the session is read only: nothing is saved */
	/* Pid of the weir that writes this session, which is read only here; -1 = its pid is unknown; 0 = this weir
	 * writes it. */
	long read_only;
};

/* Open the session that the options name: -s NAME (created if it does not exist), --continue, or a new session at a
 * terminal. *out = NULL if nothing is to be saved. The session's settings go into *o, except those that the command
 * line gives. */
int session_log_open(struct session_log **out, struct options *o, struct err *);
/* Load documents, messages and the cache into a conversation that was just opened or emptied. *note: a line for the
 * user, or nothing. */
int session_log_resume(struct session_log *, struct conversation *, struct str *note, struct err *);
void session_log_close(struct session_log *);

/* ---- commands of the user ---- */

/* Lock a session for writing. 0; or -1, and *e names the weir that writes it; *by is its pid (-1: unknown), or 0 for
 * other errors. wait: until the session is free or the user stops the wait. */
int session_log_hold(struct session_log *, int64_t session, int wait, long *by, struct err *);
/* Resume another session, which session_log_hold() has locked, instead of the current one. by: 0; or the pid of the
 * weir that writes the session, which is read only here then. */
int session_log_switch(struct session_log *, struct conversation *, struct options *, int64_t session, long by,
                       struct str *note, struct err *);
/* Show another branch of the session: the messages from index `from` on are replaced by those up to message `end`. */
int session_log_show(struct session_log *, struct conversation *, size_t from, int64_t end, struct err *);
/* Continue in a second session, which has the messages so far. */
int session_log_fork(struct session_log *, struct conversation *, const char *name, struct err *);
int session_log_rename(struct session_log *, struct conversation *, const char *name, struct err *);
/* Delete a session for good, with its snapshots. After the current session, the next question creates a new one. */
int session_log_delete(struct session_log *, struct conversation *, int64_t session, struct err *);
/* Append the session's name, title or number; nothing before its first question. */
void session_log_title(struct session_log *, struct str *out);

#endif
