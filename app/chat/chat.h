/* app/chat/chat.h - a conversation with its commands, for every front end.
 *
 *     chat.c              opening and closing, what the user typed
 *     commands.c          the table of commands; cmd_NAME.c: what they do
 *     turns.c             a question to the model and its answer
 *     answer_sources.c    the numbered sources before and below an answer
 *     add_documents.c     files, standard input and @FILE become documents
 *     arguments.c         the words behind a command; notices.c: what weir itself says
 *     hidden_reasoning.c  whether reasoning is shown, and a message without it
 *     library.c           the documents of other sessions
 *     deferred_delete.c   deleting sessions, which can be undone for some seconds
 *     current_session.c   what a resumed session shows, and switching to another one
 *     session_log.c       opens and resumes the session that keeps the conversation
 *     session_log_write.c what that session keeps: messages, documents, settings and snapshots
 *     document_search.c   the index of the documents, in the session's store or in memory
 *     message_search.c    the index of the messages, in memory
 *     text_source.c       reads a text without an end from a file or a pipe
 *     cache_view.c        what the cache panel shows
 *
 * Front ends: app/line shows it line by line, app/tui on the whole screen. */
#ifndef WEIR_CHAT_H
#define WEIR_CHAT_H

#include "app/chat/session_log.h"
#include "app/conversation/conversation.h"
#include "ui/ui.h"
#include "app/summary/summary.h"

struct chat;
struct text_source;

/* What a front end shows of a chat.  All functions are called in the thread that runs the conversation. */
struct front {
	/* weir's own lines; text of others in them is not clean */
	void (*notice)(struct chat *, const char *text, size_t n);
	void (*error)(struct chat *, const struct err *);
	/* What is under way, such as "reading" tokens; done < 0: it has ended. */
	void (*progress)(struct chat *, const char *verb, int32_t done, int32_t total);
	/* An answer begins (question NULL: the last one is answered again), grows by bytes, and ends, as rc and e
	 * say. */
	void (*turn)(struct chat *, const char *question, size_t n);
	int (*text)(struct chat *, const char *bytes, size_t n, struct err *); /* -1 ends the answer */
	/* the text of the answer so far, which was shown; NULL: as it came */
	void (*was_reasoning)(struct chat *);
	/* the new rc: -1 when the answer could not be written */
	int (*turned)(struct chat *, const struct turn *, int rc, struct err *);
	/* the conversation of an earlier run is loaded */
	void (*came_back)(struct chat *);
	/* a text without an end; NULL: none is read now */
	void (*reading)(struct chat *, const struct reading *);
	/* put text into the input line; NULL: the front end has none */
	void (*draft)(struct chat *, const char *text, size_t n);
	/* A summary, which is no message: shown like an answer.  -1: it could not be written. */
	int (*summary)(struct chat *, const char *text, size_t n, struct err *);
	int (*ask)(struct chat *, const char *question); /* 1 = yes; NULL: nobody can be asked */
	/* Open a document at bytes [from, to) of its body; NULL: the front end has no place to show one, and its text
	 * is a notice. */
	void (*document)(struct chat *, size_t i, size_t from, size_t to);
	/* The sources of the last answer as they are numbered, before it begins and again when it ends. NULL: only
	 * their lines are shown. */
	void (*sources)(struct chat *, const struct answer_sources *);
	/* Asked between two pieces of such a text: 0 = read on, 1 = another job waits, 2 = the user stops the reading.
	 * NULL: always 0. */
	int (*yield)(struct chat *);
	int dims;  /* evicted words are shown dimmed */
	int notes; /* below an answer stands which variant it is */
};

struct chat {
	struct options o; /* a copy that /set changes */
	struct conversation t;
	struct session_log *log; /* NULL: nothing is kept */
	/* of documents; NULL: none was searched yet; in the store (document_search.c) */
	struct passage_index *index;
	int index_kept;
	size_t index_from;
	/* on: the store is in a transaction; verb: front ends keep its bytes */
	struct {
		int on;
		double since, shown;
		struct str verb;
	} indexing;
	struct passage_index *messages; /* of messages, for recall; NULL: none was indexed yet (message_search.c) */
	const struct front *front;
	void *ud; /* the front end's */
	int interactive;
	int anyway;           /* the turn that runs does without the documents */
	struct str not_found; /* the last question that nothing in the documents answered */
	struct str proposed;  /* a shell command that /run runs (prompts.c) */
	size_t n_came_back;   /* messages of earlier runs: what was typed of them is not known */
	int told_untyped;     /* that an @FILE which was not typed stays text */
	int goes_on;          /* the turn that runs extends the last answer */
	int hides, thinking;  /* reasoning is not shown; the model is reasoning now */
	struct reasoning think;
	struct str shown;  /* of the answer that is generated */
	size_t close_seen; /* of that answer: reasoning_unopened() */
	/* deferred_delete.c */
	struct deleted {
		int64_t session;
		double until;
		int was_here;
		struct str name;
	} * deleted;
	size_t n_deleted;
	struct streaming {                  /* a text without an end (cmd_stream.c) */
		struct text_source *source; /* NULL: there is none */
		int on;                     /* it is read whenever no other job waits */
		int ended;                  /* the text has ended: questions are part of the conversation */
		struct reading reading;
		double shown, since;
		uint64_t since_tokens, since_at;
	} streaming;
	/* documents that took the place of an older version since they were prefilled last */
	size_t replaced;
	int adding_several; /* files of a folder: what is common to them is said once, at the end */
	/* where nothing is stored (cmd_summarize.c) */
	struct kept_summary {
		char key[SUMMARY_KEY];
		struct str text;
	} * kept;
	size_t n_kept;
	int quit, rc; /* rc: exit code so far; in a pipe the first failure decides */
};

/* Open the options' model, session and documents; *note: what resuming has to say.  Call chat_close() after -1, too. */
int chat_open(struct chat *, struct options *, struct str *note, struct err *);
void chat_close(struct chat *, struct options *);

void notice(struct chat *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void chat_error(struct chat *, const struct err *);
/* Run what the user typed: a message, or a command. */
void chat_take(struct chat *, struct str *text);
/* Run a turn: text = a question, NULL = answer the last one again. */
void chat_turn(struct chat *, const char *text, size_t n);
/* Ask the last question that nothing in the documents answered, without them (/anyway). */
void chat_turn_anyway(struct chat *);
/* Extend the last answer (/continue). */
void chat_continue(struct chat *);
/* Prefill the documents now, so that the first answer begins at once. */
void chat_read(struct chat *);
/* Name the documents whose files have changed since they were read, each once. */
void chat_look_at_files(struct chat *);
/* Sets e to why this conversation is not saved; -1. */
int chat_no_sessions(const struct chat *, struct err *e);
/* The model by its file's name without .gguf, on one clean line, and the server that it is on; appended. */
void chat_model_name(const struct chat *, struct str *out);
/* Show the line that weir begins with: "weir 0.1: MODEL, ...". */
void chat_banner(struct chat *);
/* Add a file, or bytes in memory, as a document.  Warnings about its text go to standard error. */
int chat_document(struct chat *, const char *path_or_dash, struct err *);
/* The same for all files of a folder or pattern: each is named on standard error; 0 where at least one was added. */
int chat_documents(struct chat *, const char *path_or_dash, struct err *);
int chat_document_bytes(struct chat *, const char *name, const char *bytes, size_t n, struct err *);

struct slash {
	const char *name, *aliases; /* aliases: words with blanks between them */
	const char *args, *help;
	/* while an answer runs: ALLOWED needs no worker, or is quick between two tokens */
	enum ui_busy busy;
	enum ui_arg arg;
	void (*run)(struct chat *, char *arg);
};
/* Command i of the table, NULL past its end. */
const struct slash *slash_at(size_t i);
/* Is `word` (n bytes) the command or one of its aliases? */
int slash_is(const char *name, const char *aliases, const char *word, size_t n);
/* Other words for a command, blanks between them, which lists do not show: the palette and /help find it by them. */
const char *slash_words(const char *name);
/* An unknown command: begin a search, try a name as nearest_try() does, and set an error that names the nearest; -1. */
void slash_near_init(struct nearest *, const char *word, size_t n);
void slash_near(struct nearest *, const char *name, const char *words);
int slash_unknown(const struct nearest *, struct err *);

/* Toggled on the screen: the setting, and the config file's, but in a private conversation. */
void chat_mouse(struct chat *, int on);

/* ---- prompts of the user (prompts.c) ---- */

/* Is this word, "/NAME", one of the user's prompts? */
int user_prompt_is(const char *word, size_t n);
/* What it sends, with the words behind it; -1 where it cannot be read. */
int user_prompt_text(const char *word, size_t n, const char *arg, struct str *out, struct err *);
/* All of them as "/NAME", in order; user_prompts_free() frees the list. */
size_t user_prompts(char ***out);
void user_prompts_free(char **name, size_t n);

/* ---- a text without an end (cmd_stream.c) ---- */

/* Read this text from now on, instead of the one before. */
int chat_stream_open(struct chat *, const char *path_or_dash, struct err *);
void chat_stream_close(struct chat *);
/* Read on, until the text ends, the user stops it or the front end's yield() says that another job waits. */
void chat_stream(struct chat *);

/* Switch to that session, and say so. */
void chat_switch(struct chat *, int64_t session, int wait);
/* Say, where the conversation is kept and has messages, under which name, and how to go on with it. */
void chat_goodbye(struct chat *);
/* Adds to *out, behind what is there, that the answer `i` was cut short, or that the last question has no answer; and
 * what goes on. */
void chat_cut_note(const struct chat *, size_t i, struct str *out);
/* The sources of an answer, as lines; appended.  Nothing where sources are not shown. */
void chat_source_lines(const struct chat *, const struct message *, struct str *out);
/* The last messages of an earlier run, as text. */
void chat_tail(const struct chat *, struct str *out);

/* Are there variants of the turn whose answer is message `answer`? 1: *number of the one that is shown, from 1 on, and
 * their *count. */
int chat_variants(const struct chat *, size_t answer, size_t *number, size_t *count);

/* ---- reasoning ---- */

/* A message as it is shown: without its reasoning where reasoning is hidden; note (may be NULL): describes what was
 * hidden. */
void chat_message(const struct chat *, const struct message *, struct str *out, struct str *note);
int chat_hides(const struct chat *);
int chat_never_thinks(const struct chat *);   /* the model is asked not to reason */
int chat_thinks_at_once(const struct chat *); /* the head of an answer opens reasoning */

/* ---- deleting (deferred_delete.c) ----
 *
 * A deleted session leaves the lists at once and the disk DELETE_UNDO later. A program that is killed in between has
 * deleted nothing. */
void chat_delete(struct chat *, int64_t session);
/* Restore the session that was deleted last: 0, or -1 after an error notice where there is none. */
int chat_undelete(struct chat *);
/* Delete from the disk the sessions whose time has come, or all. */
void chat_delete_due(struct chat *, int all);
double chat_delete_next(const struct chat *); /* when the next session is due; 0 = none is */
int chat_is_deleted(const struct chat *, int64_t session);

#include "app/chat/cache_view.h"

#endif
