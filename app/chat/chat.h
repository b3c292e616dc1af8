/* app/chat/chat.h - what every front end shares: a conversation, its commands, and the session that stores it.
 *
 *     chat.c:                  opens and closes a chat, and runs what the user typed;
 *     commands.c:              the table of commands;
 *     cmd_NAME.c:              the commands;
 *     turns.c:                 sends a question to the model and shows its answer;
 *     answer_sources.c:        lists the numbered sources before and below an answer;
 *     add_documents.c:         turns files, standard input and @FILE into documents;
 *     read_files.c:            reads many files as documents;
 *     folders.c:               checks folders for new and changed files before each question;
 *     folder_list.c:           lists these folders;
 *     arguments.c:             parses the words after a command;
 *     notices.c:               shows messages of weir itself;
 *     hidden_reasoning.c:      decides whether reasoning is shown, and removes it from a message;
 *     library.c:               lists and loads the documents of other sessions;
 *     deferred_delete.c:       deletes sessions, which /undelete can restore for some seconds;
 *     current_session.c:       shows a resumed session, and switches to another session;
 *     session_log.c:           opens and resumes the session that stores the conversation;
 *     session_log_write.c:     stores messages, settings and snapshots in that session;
 *     session_log_documents.c: stores documents in that session;
 *     document_search.c:       the index of the documents, in the session's store or in memory;
 *     message_search.c:        the index of the messages, in memory;
 *     cmd_memory.c:            /remember and /memory: facts to remember in all conversations;
 *     prompts.c:               the files of the user's prompt library;
 *     roles.c:                 roles: a system prompt and settings in a file;
 *     shell_command.c:         !COMMAND, whose output becomes a document;
 *     text_source.c:           reads a file or pipe as it grows;
 *     verify.c:                weir verify: recomputes a session's answers;
 *     cache_view.c:            gathers what the cache panel shows.
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

/* The callbacks of a front end: how it shows a chat. They are called in the thread that runs the conversation. */
struct front {
	/* Show a message of weir itself. The message may quote names and excerpts that contain control characters, so
	 * the front end must filter it. */
	void (*notice)(struct chat *, const char *text, size_t n);
	void (*error)(struct chat *, const struct err *);
	/* Show the progress of work. `verb` is what is done, such as "reading". `done` and `total` are numbers of
	 * tokens. If `total` is 0, only the verb is shown. If `done` < 0, the work has ended. */
	void (*progress)(struct chat *, const char *verb, int32_t done, int32_t total);
	/* Begin an answer. Later calls of text() show its bytes, and turned() ends it. question: NULL if the last
	 * question is answered again, or if its answer is continued. */
	void (*turn)(struct chat *, const char *question, size_t n);
	/* Show the next bytes of the answer. Returns 0, or -1 to stop the answer. */
	int (*text)(struct chat *, const char *bytes, size_t n, struct err *);
	/* Hide the text of the answer that was shown so far, because it has turned out to be reasoning. NULL: the
	 * front end cannot hide it. */
	void (*was_reasoning)(struct chat *);
	/* End the answer. rc: 0, or -1 if the turn failed. Returns rc; or -1 with *err set, if the answer could not be
	 * written. */
	int (*turned)(struct chat *, const struct turn *, int rc, struct err *);
	/* Show all messages again: a session or another variant was loaded, or reasoning is shown or hidden from now
	 * on. */
	void (*came_back)(struct chat *);
	/* Show how far a growing file or pipe was read (/stream). reading: NULL when reading has stopped. */
	void (*reading)(struct chat *, const struct reading *);
	/* Put text into the input line. NULL: the front end has no input line. */
	void (*draft)(struct chat *, const char *text, size_t n);
	/* Show a summary, which looks like an answer but is not stored as a message. Returns 0, or -1 if it could not
	 * be written. */
	int (*summary)(struct chat *, const char *text, size_t n, struct err *);
	int (*ask)(struct chat *, const char *question); /* Returns 1 for yes. NULL: the front end cannot ask */
	/* Open document i at bytes [from, to) of its body. NULL: the front end has no document view, and the chat
	 * shows the bytes as a notice. */
	void (*document)(struct chat *, size_t i, size_t from, size_t to);
	/* Show the numbered sources of the last answer, once before the answer and again below it. NULL: the front
	 * end shows them as lines of text only. */
	void (*sources)(struct chat *, const struct answer_sources *);
	/* Mark those numbers and names of the last answer that do not occur in its sources. `words` has these numbers
	 * and names, each followed by a newline. If this function pointer is NULL, the front end only lists them below
	 * the answer. */
	void (*unsupported)(struct chat *, const char *words);
	/* Ask whether long work (reading a growing file, indexing, a summary) must stop. Returns 0 = continue; 1 =
	 * another job waits in the queue; 2 = the user wants to stop. After 1, chat_stream() and chat_index() return,
	 * but a summary continues. NULL: always continue. */
	int (*yield)(struct chat *);
	int dims;  /* 1 = evicted words are dimmed */
	int notes; /* 1 = a line below an answer says which variant it is */
};

struct chat {
	struct options o; /* copy of the options, which /set changes */
	struct conversation conv;
	struct progress opening;   /* progress line while the KV cache is allocated */
	struct progress importing; /* progress line while a document is imported */
	/* text of the progress while pages are recognised; "" = no page is being recognised */
	struct str recognising;
	struct session_log *log; /* NULL: the conversation is not stored */
	/* The search index of the documents; NULL until the first search. index_kept is 1 if the index is in the
	 * session's store, and 0 if it is in memory. index_from is the number of bytes at the beginning of growing
	 * texts that this index does not contain. */
	struct passage_index *index;
	int index_kept;
	size_t index_from;
	/* State of building the index of documents. `on` is 1 while the index is being built and a transaction of the
	 * store is open. `since` is the time at which the building began, or 0 if it has not begun. `shown` is the time
	 * at which progress was last shown, and `verb` is the text that was shown with it. `ahead` is 1 if passages are
	 * encoded before a question needs them, and then `awaited` is 1 if a message waits for the end of this
	 * encoding. `due` is 1 if this encoding was interrupted: the front end then calls chat_index() when no job
	 * waits. `each` is the number of seconds to encode a passage, or 0 if this is unknown. */
	struct {
		int on, ahead, awaited, due;
		double since, shown, each;
		struct str verb;
	} indexing;
	struct passage_index *messages; /* index of the messages (message_search.c); NULL: none yet */
	const struct front *front;
	void *ud; /* data of the front end */
	int interactive;
	int anyway;           /* 1 = the current turn omits the documents */
	struct str not_found; /* the last question that no document answered */
	struct str proposed;  /* the shell command that /run runs (shell_command.c) */
	struct str role;      /* name of the role in force, or empty (roles.c) */
	struct str frame;     /* the role's text, in which each message takes the place of __INPUT__; empty = none */
	/* number of messages that were loaded from the session; weir does not know which parts of them were pasted */
	size_t n_came_back;
	int told_untyped;    /* 1 = the user was told that a pasted @FILE stays text */
	int goes_on;         /* 1 = the current turn extends the last answer */
	int hides, thinking; /* `hides` is 1 if reasoning is not shown; `thinking` is 1 while the model is reasoning */
	struct reasoning think;
	struct str shown; /* next bytes of the answer to show, without reasoning */
	/* number of bytes of the current answer that were searched for a closing mark of reasoning */
	size_t close_seen;
	/* Sessions that the user has deleted and can still restore (deferred_delete.c). */
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
		int ended;                  /* 1 = the whole text was read: later questions are not undone */
		struct reading reading;
		double shown, since;
		uint64_t since_tokens, since_at;
	} streaming;
	/* number of documents that have replaced an older version of the same file since the last prefill */
	size_t replaced;
	int forgetting; /* 1 = documents are being removed because their files no longer exist */
	int n_noticed;  /* number of files of the current files_read() for which the user was shown a warning */
	/* Finished summaries, if no session stores the conversation (cmd_summarize.c). */
	struct kept_summary {
		char key[SUMMARY_KEY];
		struct str text;
	} * kept;
	size_t n_kept;
	/* `quit` is 1 to end the program, with the exit code `rc`. If questions come from a pipe, the first question
	 * that fails sets `rc`. */
	int quit, rc;
};

/* Open the model, the session and the documents that the options name. *note receives the notice about the resumed
 * session. Call chat_close() even after an error. */
int chat_open(struct chat *, struct options *, struct str *note, struct err *);
void chat_close(struct chat *, struct options *);

/* weir verify SESSION. Returns the exit code: 1 if an answer differs. */
int cmd_verify(struct options *);

void notice(struct chat *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void chat_error(struct chat *, const struct err *);
/* Run what the user typed: a message or a command. */
void chat_take(struct chat *, struct str *text);
/* Ask the question `text` and show the answer. If `text` is NULL, answer the last question again. */
void chat_turn(struct chat *, const char *text, size_t n);
/* Repeat the last question without the documents, because no document answered it (/anyway). */
void chat_turn_anyway(struct chat *);
/* Extend the last answer (/continue). */
void chat_continue(struct chat *);
/* Prefill the documents of the command line now, so that the first answer begins sooner. */
void chat_read(struct chat *);
/* Tell the user once about each document whose file has changed since it was read. */
void chat_look_at_files(struct chat *);
/* Set *e to the reason why no session stores this conversation. Always returns -1. */
int chat_no_sessions(const struct chat *, struct err *e);
/* Append the model's file name without .gguf, and the server's address if there is one. Control characters are
 * filtered. */
void chat_model_name(const struct chat *, struct str *out);
/* Show the first line of weir: "weir 0.1: MODEL, ...". */
void chat_banner(struct chat *);
/* Add a file, or all files of a folder or pattern, as documents. Files that cannot be read are reported on standard
 * error. Returns 0 if at least one file was added, else -1. */
int chat_documents(struct chat *, const char *path_or_dash, struct err *);
int chat_document_bytes(struct chat *, const char *name, const char *bytes, size_t n, struct err *);

struct slash {
	const char *name, *aliases; /* `aliases` has words separated by blanks */
	const char *args, *help;
	/* The state in which the command may run if the user types it during an answer. ALLOWED: it runs at once,
	 * between two tokens. */
	enum ui_busy busy;
	enum ui_arg arg;
	void (*run)(struct chat *, char *arg);
};
/* Return command number i of the table; NULL after the last one. */
const struct slash *slash_at(size_t i);
/* 1 if word[0..n) is the command `name` or one of its aliases. */
int slash_is(const char *name, const char *aliases, const char *word, size_t n);
/* 1 if word[0..n) runs the command `name`: as its name, one of its aliases, or one of its synonyms that begin with a
 * slash and are not also the name of a prompt file of the user. */
int slash_named(const char *name, const char *aliases, const char *word, size_t n);
/* Synonyms for a command, separated by blanks. The palette and /help search them but do not show them. */
const char *slash_words(const char *name);
/* 1 if the whole line, without quotes, is the absolute path of an existing file or folder. The path may begin with ~,
 * and must have a second slash, so no command is taken for a path. */
int chat_is_path(const char *text);
/* Find the command that is most similar to an unknown word: call slash_near_init() with the word, then slash_near()
 * for each command, with the same `others`, which begins empty. slash_unknown() then sets an error that suggests
 * what was found, frees `others`, and returns -1. */
void slash_near_init(struct nearest *, const char *word, size_t n);
void slash_near(struct nearest *, const char *name, const char *words, struct str *others);
int slash_unknown(const struct nearest *, struct str *others, struct err *);

/* Store the mouse setting after a key toggled it. It is also written to the config file, unless the conversation
 * is private. */
void chat_mouse(struct chat *, int on);

/* ---- the user's own prompts (prompts.c) ---- */

/* 1 if word[0..n) is "/NAME" and the user has a prompt file NAME.md. */
int user_prompt_is(const char *word, size_t n);
/* Append the text of the prompt file that `word` ("/NAME") names, with its placeholders filled by the words of `arg`.
 * If the text has no placeholders, append `arg` to it. Returns 0, or -1 if the file cannot be read, the text is empty,
 * or a word is missing. */
int user_prompt_text(const char *word, size_t n, const char *arg, struct str *out, struct err *);
/* List the user's prompts as "/NAME", sorted. Returns their number; free the list by user_prompts_free(). */
size_t user_prompts(char ***out);
void user_prompts_free(char **name, size_t n);
/* List the names of the roles, sorted. Returns their number; free the list by user_prompts_free(). */
size_t role_names(char ***out);

/* ---- search (add_documents.c) ---- */

/* Add the documents from index `from` on to the search index, and encode their passages before a question needs them.
 * Documents that are read whole are skipped. If yield() reports another job and the rest would take long, return early
 * and set indexing.due. */
void chat_index(struct chat *, size_t from);

/* ---- a text without an end (cmd_stream.c) ---- */

/* Set the text that chat_stream() reads from now on; the previous one is closed. */
int chat_stream_open(struct chat *, const char *path_or_dash, struct err *);
void chat_stream_close(struct chat *);
/* Read the growing file (/stream) until it ends, the user stops it, or the front end's yield() reports another
 * job. */
void chat_stream(struct chat *);

/* Switch to another session. If another weir process writes the session, wait = 1 waits until the session is free, and
 * wait = 0 opens the session read-only. */
void chat_switch(struct chat *, int64_t session, int wait);
/* Tell the user the session's name and how to resume it. Says nothing if the conversation is empty or not stored. */
void chat_goodbye(struct chat *);
/* Append a note if message i is an incomplete answer, or if it is the last question and has no answer. The note names
 * the command that continues the conversation. */
void chat_cut_note(const struct chat *, size_t i, struct str *out);
/* Append the sources of an answer as lines of text; nothing if the user switched sources off. */
void chat_source_lines(const struct chat *, const struct message *, struct str *out);
/* Append the last messages of an earlier run, as text. */
void chat_tail(const struct chat *, struct str *out);

/* 1 if message number `answer` has variants (other answers to the same question). *number receives the number of the
 * variant that is shown, from 1, and *count how many variants there are. */
int chat_variants(const struct chat *, size_t answer, size_t *number, size_t *count);

/* ---- reasoning ---- */

/* Append the message as the user sees it: without its reasoning, if reasoning is hidden. `note` receives a text that
 * says how much is hidden; it may be NULL. */
void chat_message(const struct chat *, const struct message *, struct str *out, struct str *note);
int chat_hides(const struct chat *);
int chat_thinks_at_once(const struct chat *); /* 1 if the template opens reasoning at the head of an answer */

/* ---- deleting (deferred_delete.c) ----
 *
 * A deleted session is no longer listed. It is deleted from the disk DELETE_UNDO seconds later, or when the program
 * ends normally. */
void chat_delete(struct chat *, int64_t session);
/* Restore the session that was deleted last. Returns 0; if there is none, tells the user and returns -1. */
int chat_undelete(struct chat *);
/* Delete from the disk each deleted session that can no longer be restored, because DELETE_UNDO seconds have passed. If
 * `all` is 1, delete every deleted session. */
void chat_delete_due(struct chat *, int all);
/* Return the time at which the next session must be deleted from the disk; 0 = there is none. */
double chat_delete_next(const struct chat *);
int chat_is_deleted(const struct chat *, int64_t session);

#include "app/chat/cache_view.h"

#endif
