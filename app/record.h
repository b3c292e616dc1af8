/* app/record.h (private to app/) - a conversation as it is kept on disk (sessions/sessions.h).
 *
 * A question is committed before it is read, an answer every two seconds and at its end, and then the state of the cache is
 * saved, so that a later run goes on without reading again.  When the disk fails the talk goes on: it is said once, and
 * nothing more is kept.
 *
 * Every function takes a record that is NULL: nothing is kept. */
#ifndef WEIR_RECORD_H
#define WEIR_RECORD_H

#include "app/talk.h"
#include "sessions/sessions.h"

struct record {
	struct store *store;
	struct snaps *snaps;             /* NULL: there is no room for snapshots, or they cannot be used */
	struct fingerprint fingerprint;
	int64_t session;                 /* 0 = begins with the first question */
	int fresh;                       /* it has no settings yet */
	int64_t writing;                 /* the answer that is being written; 0 = none */
	double written_at;
	int32_t rows_at;                 /* tokens read when the last rows were saved */
	int failed;
};

/* The session that the options mean: -s NAME (begun when it is not there), --continue, or a new one where someone talks at
 * a terminal; *out = NULL when nothing is to be kept.  What it remembers goes into *o where the command line is silent. */
int  record_open(struct record **out, struct options *o, struct err *);
/* Documents, messages and the cache into a talk that was just opened or emptied.  *note: one line for the user, or nothing. */
int  record_resume(struct record *, struct talk *, struct str *note, struct err *);
void record_close(struct record *);

/* ---- what happens in a talk ---- */

void record_question(struct record *, struct talk *);            /* the last message: commit it */
void record_taken_back(struct record *, const struct talk *);    /* it was not answered, or exchanges were undone */
/* A cache that has let tokens go cannot go back over them; the snapshot of the last answer that is left can. */
void record_go_back(struct record *, const struct talk *);
void record_goes_on(struct record *);                            /* an answer begins with the text of another one */
void record_brought_back(struct record *, struct talk *);        /* the last messages are there again */
/* The newest question behind the last message that was answered, and its answer: 1 and out[2], the caller's; 0 = there is none. */
int  record_next(struct record *, const struct talk *, struct message out[2], struct err *);
void record_piece(struct record *, struct talk *);               /* the last message, an answer, has grown */
void record_turn(struct record *, struct talk *, const struct turn *);
void record_begin_anew(struct record *, const struct talk *);    /* the next question begins another session */
void record_document(struct record *, struct talk *);            /* the last document is new */
void record_dropped(struct record *, int64_t stored);            /* a document is gone */
/* Document i is new, in the middle of the others: their order is that of their coming, so those behind it come anew. */
void record_documents_from(struct record *, struct talk *, size_t i);
void record_settings(struct record *, const struct talk *);      /* options, cache policy or system prompt have changed */
/* Before this sequence is read, of which the timeline has the first `same` tokens: bring what an earlier run read. */
void record_fetch(struct record *, struct talk *, const struct tokens *want, size_t same);
/* While it is read: keep what is there, now and then; all of it when reading was interrupted. */
void record_rows(struct record *, struct talk *, int all);

/* ---- what the user asks for ---- */

/* Go on in another session. */
int  record_switch(struct record *, struct talk *, struct options *, int64_t session, struct str *note, struct err *);
/* A second session with what was said so far, which goes on from here. */
int  record_fork(struct record *, struct talk *, const char *name, struct err *);
int  record_rename(struct record *, struct talk *, const char *name, struct err *);
/* For good, with its snapshots.  The one that runs: another begins with the next question. */
int  record_delete(struct record *, struct talk *, int64_t session, struct err *);
/* Its name as it is shown: the name, the title or its number; "" before it has begun. */
void record_title(struct record *, struct str *out);

#endif
