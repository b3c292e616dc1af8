/* app/chat/chat.h - a conversation with its commands and its session, for every front end.
 *
 *     chat.c              opens and closes a chat, runs what the user typed
 *     commands.c          the table of commands; cmd_NAME.c: what they do
 *     turns.c             a question to the model and its answer
 *     answer_sources.c    the numbered sources before and below an answer
 *     add_documents.c     files, standard input and @FILE become documents
 *     arguments.c         the words after a command
 *     notices.c           messages of weir itself
 *     hidden_reasoning.c  whether reasoning is shown; a message without it
 *     library.c           the documents of other sessions
 *     deferred_delete.c   deletes sessions; /undelete restores one for some seconds
 *     current_session.c   what a resumed session shows; switching to another session
 *     session_log.c       opens and resumes the session that stores the conversation
 *     session_log_write.c stores messages, documents, settings and snapshots in that session
 *     document_search.c   the index of the documents, in the session's store or in memory
 *     message_search.c    the index of the messages, in memory
 *     text_source.c       reads a text without an end from a file or a pipe
 *     cache_view.c        what the cache panel shows
 *
 * Front ends: app/line (line by line) and app/tui (full screen). */
#ifndef WEIR_CHAT_H
#define WEIR_CHAT_H

#include "app/chat/session_log.h"
#include "app/conversation/conversation.h"
#include "ui/ui.h"
#include "app/summary/summary.h"

struct chat;
struct text_source;

/* What a front end shows of a chat. Every function is called in the thread that runs the conversation. */
struct front {
	/* Show a line of weir itself. Quoted text in it (names, excerpts) is not filtered yet. */
	void (*notice)(struct chat *, const char *text, size_t n);
	void (*error)(struct chat *, const struct err *);
	/* Show work in progress; verb: "reading" (tokens). done < 0: the work has ended. */
	void (*progress)(struct chat *, const char *verb, int32_t done, int32_t total);
	/* An answer begins (turn), grows (text) and ends (turned, with the answer's rc and error). question NULL: the
	 * last question is answered again. */
	void (*turn)(struct chat *, const char *question, size_t n);
	/* Show more bytes of the answer. -1 ends the answer. */
	int (*text)(struct chat *, const char *bytes, size_t n, struct err *);
	/* What was shown of the answer so far was reasoning: hide it. NULL: it stays as it was shown. */
	void (*was_reasoning)(struct chat *);
	/* Returns the new rc: -1 if the answer could not be written. */
	int (*turned)(struct chat *, const struct turn *, int rc, struct err *);
	/* Show the conversation of an earlier run, which has been loaded. */
	void (*came_back)(struct chat *);
	/* Show how far a text without an end was read. NULL: no text is read now. */
	void (*reading)(struct chat *, const struct reading *);
	/* Put text into the input line. NULL: the front end has no input line. */
	void (*draft)(struct chat *, const char *text, size_t n);
	/* Show a summary like an answer; it is no message. -1: it could not be written. */
	int (*summary)(struct chat *, const char *text, size_t n, struct err *);
	int (*ask)(struct chat *, const char *question); /* 1 = yes; NULL: the front end cannot ask */
	/* Open a document at bytes [from, to) of its body. NULL: the front end has no place for documents; the text
	 * is shown as a notice. */
	void (*document)(struct chat *, size_t i, size_t from, size_t to);
	/* Show the numbered sources of the last answer; called before the answer begins and when it ends. NULL: only
	 * lines of text are shown. */
	void (*sources)(struct chat *, const struct answer_sources *);
	/* Called between two parts of a text without an end: 0 = read on, 1 = another job waits, 2 = the user stops
	 * the reading. NULL: always 0. */
	int (*yield)(struct chat *);
	int dims;  /* 1 = evicted words are dimmed */
	int notes; /* 1 = the variant's number is shown below an answer */
};

struct chat {
	struct options o; /* a copy that /set changes */
	struct conversation conv;
	struct progress opening; /* of its model */
	struct session_log *log; /* NULL: the conversation is not stored */
	/* Index of the documents; NULL: no document was searched yet. index_kept: it is in the store
	 * (document_search.c). */
	struct passage_index *index;
	int index_kept;
	size_t index_from;
	/* Progress of indexing. on: the store is in a transaction; verb: the text that progress() shows, owned
	 * here. */
	struct {
		int on;
		double since, shown;
		struct str verb;
	} indexing;
	struct passage_index *messages; /* index of the messages (message_search.c); NULL: none yet */
	const struct front *front;
	void *ud; /* data of the front end */
	int interactive;
	int anyway;           /* 1 = the running turn leaves the documents out */
	struct str not_found; /* the last question that no document answered */
	struct str proposed;  /* the shell command that /run runs (prompts.c) */
	size_t n_came_back;   /* messages of earlier runs, whose pasted parts are not known */
	int told_untyped;     /* the user was told that a pasted @FILE stays text */
	int goes_on;          /* 1 = the running turn extends the last answer */
	int hides, thinking;  /* hides: reasoning is not shown; thinking: the model is reasoning now */
	struct reasoning think;
	struct str shown;  /* the newest bytes of the running answer, without reasoning */
	size_t close_seen; /* bytes of the running answer that reasoning_unopened() has scanned */
	/* Deleted sessions that are still on the disk (deferred_delete.c). */
	struct deleted {
		int64_t session;
		double until;
		int was_here;
		struct str name;
	} * deleted;
	size_t n_deleted;
	struct streaming {                  /* a text without an end (cmd_stream.c) */
		struct text_source *source; /* NULL: no text is open */
		int on;                     /* 1 = read whenever no other job waits */
		int ended;                  /* 1 = the text has ended; questions become part of the conversation */
		struct reading reading;
		double shown, since;
		uint64_t since_tokens, since_at;
	} streaming;
	/* Documents that replaced an older version since the last prefill. */
	size_t replaced;
	int adding_several; /* 1 = files of a folder are being added; notices about all of them come once, at the end */
	/* Summaries of a conversation that is not stored (cmd_summarize.c). */
	struct kept_summary {
		char key[SUMMARY_KEY];
		struct str text;
	} * kept;
	size_t n_kept;
	int quit, rc; /* rc: exit code so far; from a pipe, that of the first failure */
};

/* Open the model, the session and the documents that the options name. *note gets what resuming reports. Call
 * chat_close() after -1, too. */
int chat_open(struct chat *, struct options *, struct str *note, struct err *);
void chat_close(struct chat *, struct options *);

void notice(struct chat *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void chat_error(struct chat *, const struct err *);
/* Run what the user typed: a message or a command. */
void chat_take(struct chat *, struct str *text);
/* Run a turn. text: the question; NULL: answer the last question again. */
void chat_turn(struct chat *, const char *text, size_t n);
/* Ask the last question that no document answered, without the documents (/anyway). */
void chat_turn_anyway(struct chat *);
/* Extend the last answer (/continue). */
void chat_continue(struct chat *);
/* Prefill the documents now, so that the first answer begins sooner. */
void chat_read(struct chat *);
/* Name the documents whose files have changed since they were read, each once. */
void chat_look_at_files(struct chat *);
/* Set e to the reason why this conversation is not saved; returns -1. */
int chat_no_sessions(const struct chat *, struct err *e);
/* Append the model's file name without .gguf, on one filtered line, and its server. */
void chat_model_name(const struct chat *, struct str *out);
/* Show the first line of weir: "weir 0.1: MODEL, ...". */
void chat_banner(struct chat *);
/* Add all files of a folder or pattern, and name each on standard error. 0 if at least one was added. */
int chat_documents(struct chat *, const char *path_or_dash, struct err *);
int chat_document_bytes(struct chat *, const char *name, const char *bytes, size_t n, struct err *);

struct slash {
	const char *name, *aliases; /* aliases: words separated by blanks */
	const char *args, *help;
	/* What the command does while an answer runs. ALLOWED: it needs no worker, or is quick between two tokens. */
	enum ui_busy busy;
	enum ui_arg arg;
	void (*run)(struct chat *, char *arg);
};
/* Command i of the table; NULL past its end. */
const struct slash *slash_at(size_t i);
/* 1 if word[0..n) is the command `name` or one of its aliases. */
int slash_is(const char *name, const char *aliases, const char *word, size_t n);
/* Other words for a command, separated by blanks. Lists do not show them; the palette and /help search them. */
const char *slash_words(const char *name);
/* Find the command nearest to an unknown one: begin with slash_near_init(), call slash_near() for each name.
 * slash_unknown() sets an error that names the nearest command, and returns -1. */
void slash_near_init(struct nearest *, const char *word, size_t n);
void slash_near(struct nearest *, const char *name, const char *words);
int slash_unknown(const struct nearest *, struct err *);

/* Store the mouse setting, which was toggled on the screen; also in the config file, unless the conversation is
 * private. */
void chat_mouse(struct chat *, int on);

/* ---- the user's own prompts (prompts.c) ---- */

/* 1 if the word, "/NAME", is one of the user's prompts. */
int user_prompt_is(const char *word, size_t n);
/* Append the prompt's text with the words of arg; -1 if its file cannot be read. */
int user_prompt_text(const char *word, size_t n, const char *arg, struct str *out, struct err *);
/* All prompts of the user as "/NAME", sorted; free the list by user_prompts_free(). */
size_t user_prompts(char ***out);
void user_prompts_free(char **name, size_t n);

/* ---- a text without an end (cmd_stream.c) ---- */

/* Read this text from now on, instead of the previous one. */
int chat_stream_open(struct chat *, const char *path_or_dash, struct err *);
void chat_stream_close(struct chat *);
/* Read on until the text ends, the user stops it or yield() says that another job waits. */
void chat_stream(struct chat *);

/* Switch to a session, and say so. */
void chat_switch(struct chat *, int64_t session, int wait);
/* Say under which name the conversation is stored and how to resume it. Says nothing if it is not stored or empty. */
void chat_goodbye(struct chat *);
/* Append a note if answer `i` was cut short or the last question has no answer; it names the command that
 * continues. */
void chat_cut_note(const struct chat *, size_t i, struct str *out);
/* Append the sources of an answer, as lines; nothing if sources are not shown. */
void chat_source_lines(const struct chat *, const struct message *, struct str *out);
/* Append the last messages of an earlier run, as text. */
void chat_tail(const struct chat *, struct str *out);

/* 1 if the turn whose answer is message `answer` has variants: *number of the shown variant, from 1, and their
 * *count. */
int chat_variants(const struct chat *, size_t answer, size_t *number, size_t *count);

/* ---- reasoning ---- */

/* The message as it is shown: without reasoning if reasoning is hidden. note (may be NULL) describes what was
 * hidden. */
void chat_message(const struct chat *, const struct message *, struct str *out, struct str *note);
int chat_hides(const struct chat *);
int chat_thinks_at_once(const struct chat *); /* 1 if the template opens reasoning at the head of an answer */

/* ---- deleting (deferred_delete.c) ----
 *
 * A deleted session leaves the lists at once, and the disk DELETE_UNDO seconds later. If the program is killed in
 * between, the session stays. */
void chat_delete(struct chat *, int64_t session);
/* Restore the session that was deleted last. -1 after an error notice if there is none. */
int chat_undelete(struct chat *);
/* Delete from the disk the sessions that are due; all: every deleted session. */
void chat_delete_due(struct chat *, int all);
double chat_delete_next(const struct chat *); /* time at which the next session is due; 0 = none */
int chat_is_deleted(const struct chat *, int64_t session);

#include "app/chat/cache_view.h"

#endif
