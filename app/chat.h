/* app/chat.h (private to app/) - a conversation with its commands, whoever shows it.
 *
 *     chat.c            opening, turns, documents, the commands that change the talk
 *     chat_change.c     more of these: bringing back, going on, documents one by one, another model, thoughts
 *     chat_sessions.c   the commands about sessions
 *     chat_delete.c     deleting sessions, which can be undone for some seconds
 *     chat_stream.c     reading a text without an end
 *     line.c            shows it line by line: readline, or a pipe
 *     worker.c          runs it in a thread for the full screen (tui.c) */
#ifndef WEIR_CHAT_H
#define WEIR_CHAT_H

#include "app/app.h"
#include "app/record.h"
#include "app/talk.h"
#include "app/think.h"
#include "ui/ui.h"

struct chat;
struct stream;   /* stream.h */

/* How far a text without an end is read. */
struct reading {
	uint64_t tokens;
	int percent;                 /* -1 = nobody knows */
	double tps;
	int waiting;                 /* there is no more just now */
};

/* How it reaches the user.  All are called in the thread that runs the conversation. */
struct front {
	void (*notice)(struct chat *, const char *text, size_t n);      /* lines of our own with foreign words in them: not clean */
	void (*error)(struct chat *, const struct err *);
	/* What runs: "reading" tokens; done < 0: nothing any more. */
	void (*progress)(struct chat *, const char *verb, int32_t done, int32_t total);
	/* An answer: question (NULL: the last one is answered again), pieces, and its end, where rc and e say how it ended. */
	void (*turn)(struct chat *, const char *question, size_t n);
	int  (*text)(struct chat *, const char *bytes, size_t n, struct err *);   /* -1 ends the answer */
	int  (*turned)(struct chat *, const struct turn *, int rc, struct err *); /* the new rc: -1 when it could not be put out */
	void (*came_back)(struct chat *);                               /* the talk of an earlier run is there */
	void (*reading)(struct chat *, const struct reading *);         /* a text without an end; NULL: not now */
	void (*streamed)(struct chat *, const char *text, size_t n);    /* what was read of it; may be NULL */
	void (*draft)(struct chat *, const char *text, size_t n);       /* into the input line; NULL: there is none */
	int  (*ask)(struct chat *, const char *question);               /* 1 = yes; NULL: nobody can be asked */
	/* Asked between two pieces: 0 = read on, 1 = something else waits, 2 = the user stops it.  NULL: it is read until it ends. */
	int  (*yield)(struct chat *);
};

struct chat {
	struct options o;            /* a copy that /set changes */
	struct talk t;
	struct record *record;       /* NULL: nothing is kept */
	const struct front *front;
	void *ud;                    /* the front's */
	int interactive;
	int goes_on;                 /* the turn that runs adds to the last answer */
	int hides, thinking;         /* thoughts are not shown; one is under way */
	struct think think; struct str shown;   /* of the answer that runs */
	struct deleted { int64_t session; double until; int was_here; struct str name; } *deleted; size_t n_deleted;   /* chat_delete.c */
	struct streaming {           /* a text without an end (chat_stream.c) */
		struct stream *source;   /* NULL: there is none */
		int on;                  /* it is read when nothing else is to be done */
		struct reading reading;
		double shown, since; uint64_t since_tokens;
	} streaming;
	int quit, rc;                /* rc: exit code so far; the first failure of a pipe stays */
};

/* The options' model, session and documents; *note: what resuming has to say.  After -1 chat_close() is still wanted. */
int  chat_open(struct chat *, struct options *, struct str *note, struct err *);
void chat_close(struct chat *, struct options *);

void notice(struct chat *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void chat_error(struct chat *, const struct err *);
/* What the user typed: a message, or a command. */
void chat_take(struct chat *, struct str *text);
/* A turn: text = a question, NULL = the last one again. */
void chat_turn(struct chat *, const char *text, size_t n);
/* The last answer goes on. */
void chat_continue(struct chat *);
/* Read the documents now, so that the first answer comes at once. */
void chat_read(struct chat *);
/* "weir 0.1: MODEL, ...": two lines to begin with. */
void chat_banner(struct chat *);
/* A file name as completion leaves it: quotes and backslashes removed, ~ is the home directory. */
void unquote(const char *arg, struct str *out);

struct slash {
	const char *name, *aliases;   /* aliases: words with blanks between them */
	const char *args, *help;
	enum ui_busy busy;            /* while an answer runs: ALLOWED needs no worker, or is quick between two tokens */
	enum ui_arg arg;
	void (*run)(struct chat *, char *arg);
};
/* All of them, NULL past the end. */
const struct slash *slash_at(size_t i);
/* Is `word` (n bytes) the command or one of its aliases? */
int  slash_is(const char *name, const char *aliases, const char *word, size_t n);
/* One that is not known: try a name, as nearest_try() does; say so, with the nearest.  -1. */
void slash_near_init(struct nearest *, const char *word, size_t n);
void slash_near(struct nearest *, const char *name);
int  slash_unknown(const struct nearest *, struct err *);
extern const struct slash session_slashes[], change_slashes[], delete_slashes[];   /* each ends with name = NULL */

/* ---- a text without an end (chat_stream.c) ---- */

/* It is read from now on; the one before is left. */
int  chat_stream_open(struct chat *, const char *path_or_dash, struct err *);
void chat_stream_close(struct chat *);
/* Read on: until it ends, the user stops it or the front's yield() says that something waits. */
void chat_stream(struct chat *);
void slash_stream(struct chat *, char *arg);
void slash_on(struct chat *, char *arg);

/* Go on in that session, and say so. */
void chat_switch(struct chat *, int64_t session);
/* The end of what an earlier run said, as text. */
void chat_tail(const struct chat *, struct str *out);
/* There is no record: 1, and the user has been told. */
int  chat_unkept(struct chat *);
/* Into a file that is not there yet: nothing of the user's is overwritten. */
int  write_new(const char *path, const struct str *text, struct err *);

/* ---- thoughts (chat_change.c) ---- */

/* A stored message as it is shown: without its thought where thoughts are hidden; note (may be NULL): what was left out. */
void chat_message(const struct chat *, const struct message *, struct str *out, struct str *note);
int  chat_hides(const struct chat *);
int  chat_never_thinks(const struct chat *);   /* it is asked not to */

/* ---- deleting (chat_delete.c) ----
 *
 * What is deleted is out of sight at once and gone DELETE_UNDO later; until then nothing has happened to it on disk: whatever
 * kills the program leaves the session there. */
void chat_delete(struct chat *, int64_t session);
/* Bring back the one that was deleted last: -1 and it is said that there is none. */
int  chat_undelete(struct chat *);
/* Those whose time has come, or all. */
void chat_delete_due(struct chat *, int all);
double chat_delete_next(const struct chat *);   /* when the next one is due; 0 = there is none */
int  chat_is_deleted(const struct chat *, int64_t session);

#endif
