/* sessions/store/store.h - chat.db: sessions with their messages, documents and settings, and full text search over
 * them.
 *
 * The store is one directory (mode 0700, files 0600). Any number of processes of one machine may open it. Only one
 * process at a time may write a session (session_hold). A struct store belongs to one thread; another thread opens its
 * own.
 *
 * Functions return 0, or -1 with *err set, unless their comment says otherwise. When the callback of a list returns
 * nonzero, the list ends early and the function returns 0. Strings and arrays given to a callback are valid until it
 * returns. */
#ifndef WEIR_STORE_H
#define WEIR_STORE_H

#include "sessions/import/import.h"

/* ---- the store (opening: store.c; the other files are listed in store_private.h) ---- */

struct store;
struct store_options {
	/* path of the directory; NULL: $XDG_DATA_HOME/weir or ~/.local/share/weir; created if missing */
	const char *dir;
	const char *vfs;    /* SQLite's VFS, for tests; NULL = the default */
	struct str *notice; /* receives notices for the user, one sentence a line; NULL = none are wanted */
	/* folder of recognised pages (import.h); NULL = none. When a session or document is deleted, the folder loses
	 * the pages of documents that no session has any more */
	const char *recognised;
	/* 1: take no lock and write nothing. Commits of other processes are seen at once. A store that does not exist
	 * yet is empty, even if another process creates it later. */
	int read_only;
};
/* Open the store. A file of an older format is migrated, and a copy of the old file is kept beside it. Fails with
 * ERR_FAIL, and changes nothing, if the file cannot be opened, is damaged, or was written by a newer weir. Also fails
 * if an older weir, or a process on another machine, has the store open; the message then names the process. */
int store_open(struct store **out, const struct store_options *, struct err *);
void store_close(struct store *);
const char *store_dir(const struct store *);
/* Run body() as one transaction; a nested call joins the outer one. If a search index is found damaged, both
 * indexes are rebuilt from messages and documents, and body() runs again. */
typedef int store_body(struct store *, void *arg, struct err *);
int store_change(struct store *, store_body *, void *arg, struct err *);

/* One session. Its strings are valid until the next session_get(); in a list, until the callback returns. */
struct session {
	int64_t id, head; /* `head` is the last message of the branch that is shown; 0 = none */
	/* `name` is unique, "" = the session has no name; `title` is made from the first question */
	const char *name, *title;
	const char *model; /* file name of the model that was used last */
	const char *kv;
	int64_t created, used; /* times in seconds since 1970 */
	int32_t messages;      /* number of messages on the path to `head` */
	int32_t tokens;        /* number of tokens of the session at the last session_touch() */
	int64_t parent;        /* the session from which this one was forked; 0 = none */
};
/* Become the only writer of the session, until session_leave() or store_close(). Call it before any change: functions
 * that write do not check. If another process is the writer, return -1 with ERR_FAIL, and set *by to its pid (-1 =
 * unknown). After other errors *by is 0. */
int session_hold(struct store *, int64_t id, long *by, struct err *);
void session_leave(struct store *, int64_t id);
/* Return the pid of another process that holds the session; 0 = no other process holds it; -1 = the pid is
 * unknown. */
long session_writer(const struct store *, int64_t id);
/* Create a session and become its only writer (session_hold). If `name` is NULL or "", the session has no name. */
int session_new(struct store *, const char *name, int64_t *id, struct err *);
/* Find a session. `what` is compared in this order with: all names, all titles, the numbers in `weir sessions ls`, and
 * the beginnings of names and titles. The error is ERR_USAGE if no session fits, or if several do; its message lists
 * candidates. */
int session_find(struct store *, const char *what, int64_t *id, struct err *);
/* Find the session that was used last. Returns 1 if there is one, 0 if the store has no session, -1 on error. */
int session_last(struct store *, int64_t *id, struct err *);
int session_get(struct store *, int64_t id, struct session *out, struct err *);
typedef int session_fn(const struct session *, void *ud); /* a nonzero result ends the list */
/* list all sessions, beginning with the one that was used last */
int session_list(struct store *, session_fn *, void *ud, struct err *);
/* Rename a session. The error is ERR_USAGE if the name is taken or not valid, and ERR_FAIL if another process writes
 * the session. */
int session_rename(struct store *, int64_t id, const char *name, struct err *);
/* 1 if the session has no documents and no messages. Undone messages count as messages. Messages that a fork shows from
 * another session count, too. */
int session_is_empty(struct store *, int64_t id);
/* Create a session that shows the messages of session `id` up to message `at` (0: up to the last one), and hold the new
 * session. */
int session_fork(struct store *, int64_t id, int64_t at, const char *name, int64_t *new_id, struct err *);
/* Delete a session. Messages that no other session shows are overwritten on disk. The error is ERR_FAIL if another
 * process writes the session. */
int session_delete(struct store *, int64_t id, struct err *);
/* Store a value under a key, such as model, kv, system prompt, sampling or random state. If `value` is NULL, delete the
 * key. */
int session_set(struct store *, int64_t id, const char *key, const void *value, size_t n, struct err *);
/* Read the value of a key. Returns 1 with the value in *out; 0 if the key is not set; -1 on error. */
int session_value(struct store *, int64_t id, const char *key, struct str *out, struct err *);
/* List all settings in the order of their keys. If `whole` is 0, the value is damaged, because its checksum is
 * wrong. */
typedef int setting_fn(const char *key, const void *value, size_t n, int whole, void *ud);
int session_settings(struct store *, int64_t id, setting_fn *, void *ud, struct err *);
/* Make the session the one that was used last. Store its number of tokens, its model and its cache policy `kv`. If
 * `model` or `kv` is NULL, the stored value is kept. */
int session_touch(struct store *, int64_t id, const char *model, const char *kv, int32_t tokens, struct err *);

/* Messages form a tree: a regenerated or edited question begins a new branch, and the old branch stays. */
struct stored_message {
	int64_t id, parent; /* `parent` is 0 if this is the first message of its session */
	int role;           /* value of enum chat_role */
	const char *text;
	size_t n_text;
	const int32_t *token;
	size_t n_token;    /* token[n_token]: the sampled tokens of an answer */
	const char *stats; /* a JSON object; "" = none */
	int64_t at;
	int complete; /* 0: the answer is still being written, or a crash has interrupted it */
};
/* Append a message and make it the session's head (the last message that is shown). When the function returns, the
 * message is committed. */
int message_append(struct store *, int64_t session, const struct stored_message *, int64_t *id, struct err *);
/* Replace text, tokens, stats and `complete` of an answer that is being generated. */
int message_update(struct store *, int64_t id, const struct stored_message *, struct err *);
/* Set the session's head, the last message that is shown: an earlier message, one on another branch, or 0 (none). */
int session_set_head(struct store *, int64_t session, int64_t message, struct err *);
/* List the messages on the path from the first message to `to`. */
typedef int message_fn(const struct stored_message *, void *ud);
int message_path(struct store *, int64_t to, message_fn *, void *ud, struct err *);
/* List the direct children of a message (0: the first messages of the session), oldest first. */
int message_children(struct store *, int64_t session, int64_t message, message_fn *, void *ud, struct err *);

/* How many messages the tree of a session has. */
struct session_tree {
	/* `shown` counts the messages on the path to the session's head. `all` counts the messages on all branches. */
	int32_t shown, all;
	int32_t branches; /* number of messages without a child */
	int32_t cut;      /* number of answers that are still being written, or that a crash has interrupted */
};
int session_tree(struct store *, int64_t session, struct session_tree *, struct err *);

/* A document of a session.  Its text is stored once, even if many sessions have it. */
struct stored_document {
	int64_t id;
	const char *name, *text;
	size_t n_text;
	uint64_t bytes; /* size of the imported file */
	int64_t at;     /* time in seconds since 1970 */
	/* id of the message after which the document was added; 0 = it was added before the first message */
	int64_t after;
	enum doc_type type;
	const struct mark *mark;
	size_t n_mark;                   /* number of marks of pages and headings; paragraph marks are not stored */
	const struct doc_origin *origin; /* the file from which the document was read; NULL = unknown */
};
int session_add_document(struct store *, int64_t session, const struct stored_document *, int64_t *id, struct err *);
int session_drop_document(struct store *, int64_t session, int64_t id, struct err *);
/* A change of one document. */
struct document_change {
	int64_t id;                      /* id of the document; 0 = the document is new, and its id is stored here */
	const struct stored_document *d; /* the document's new content; NULL = drop the document */
	int64_t added; /* id of the new document, kept here until the commit; only session_change_documents() uses it */
};
/* Add, replace and drop documents: all of them, or none if one fails. A replaced document keeps its place. */
int session_change_documents(struct store *, int64_t session, struct document_change *, size_t n, struct err *);
typedef int document_fn(const struct stored_document *, void *ud);
/* list the session's documents, oldest first */
int session_documents(struct store *, int64_t session, document_fn *, void *ud, struct err *);

/* The library (library.c): the distinct texts of all documents of all sessions. */
struct library_text {
	int64_t id;
	const char *name; /* name of the newest document with this text */
	enum doc_type type;
	int32_t pages;    /* number of pages; 0: the text has no page marks */
	uint64_t bytes;   /* size of the text in bytes */
	int64_t at;       /* time at which a document with this text was last added, in seconds since 1970 */
	int32_t sessions; /* number of sessions with this text */
};
typedef int library_fn(const struct library_text *, void *ud);
int library_list(struct store *, library_fn *, void *ud, struct err *); /* list the texts, newest first */
/* Find a text. `what` is taken for a document's name, else for the number of a text ("7", "#7"), else for a beginning
 * that only one name has. The error is ERR_USAGE if no text fits, or several do. */
int library_find(struct store *, const char *what, int64_t *id, struct err *);
/* Load a text as a document; the caller calls doc_free(). */
int library_get(struct store *, int64_t id, struct doc *out, struct err *);
typedef int library_session_fn(int64_t session, void *ud);
int library_sessions(struct store *, int64_t id, library_session_fn *, void *ud, struct err *);
/* Delete a text and its documents from all sessions.  The caller must drop the snapshots of those sessions. */
int library_remove(struct store *, int64_t id, struct err *);

/* Facts (facts.c): lines that the user asked weir to remember in all conversations. */
enum { FACT_BYTES = 500 }; /* maximum number of bytes of a fact */
struct fact {
	/* `session` is the session in which the user told the fact; 0 = the conversation was not stored */
	int64_t id, session;
	int64_t at;       /* time in seconds since 1970 */
	const char *from; /* name or title of the session; "" = it has neither, or was deleted */
	const char *text;
	size_t n_text;
};
/* Add a fact, which is one line of text. */
int fact_add(struct store *, int64_t session, const char *text, size_t n, int64_t *id, struct err *);
typedef int fact_fn(const struct fact *, void *ud);
int fact_list(struct store *, fact_fn *, void *ud, struct err *); /* list the facts, oldest first */
/* List the sessions with questions that quote the fact in their context. The context of a question is the text that was
 * sent to the model before the question. */
int fact_sessions(struct store *, int64_t id, library_session_fn *, void *ud, struct err *);
/* Replace the text of a fact; if `text` is NULL, delete the fact. The old text is overwritten on disk, and contexts
 * that quote it are deleted. Before this call, the caller must drop the snapshots of the sessions that fact_sessions()
 * lists. The error is ERR_USAGE if there is no such fact. */
int fact_change(struct store *, int64_t id, const char *text, size_t n, struct err *);

/* A message that store_search() has found. */
struct found {
	int64_t session, message;
	const char *name, *title; /* name and title of the session */
	int role;
	const char *snippet; /* \x01 and \x02 enclose the words that were found */
	int64_t at;
};
typedef int found_fn(const struct found *, void *ud);
/* Search the messages. Every word must occur; "..." is a phrase. At most `limit` messages are listed, the best
 * first. */
int store_search(struct store *, const char *words, int limit, found_fn *, void *ud, struct err *);

/* ---- passages (passage_index.c, passage_search.c): find the parts of texts that answer a question ----
 *
 * A text is cut into passages of about a paragraph, and a passage into sentences. A full text index in chat.db contains
 * the sentences. Each text is indexed once, under its SHA-256. It is removed from the index with the last document that
 * has this text. */

struct passage_index;
/* Open the passage index in the store's chat.db, or one in memory if the store is NULL or read only. Close the
 * index before the store. */
int passage_index_open(struct passage_index **out, struct store *, struct err *);
void passage_index_close(struct passage_index *);
/* Callback while texts are indexed, about every millisecond. `done` and `total` are numbers of bytes of text. If the
 * callback returns nonzero, indexing is cancelled: the text is not indexed, and the search returns ERR_CANCELLED. */
typedef int indexing_fn(size_t done, size_t total, void *ud);
void passage_index_watch(struct passage_index *, indexing_fn *, void *ud);

struct indexed_text {
	const char *p;
	size_t n;
};
struct found_passage {
	size_t text;              /* index of the passage's text in parameter text[] of the search function */
	size_t from, to;          /* byte range of the passage in that text, without white space at the ends */
	size_t quote, quote_end;  /* byte range of the passage's best sentence */
	double score;             /* score by which passages are sorted, computed from `passage` and `sentence` */
	double passage, sentence; /* bm25 score of the passage, and bm25 score of its best sentence */
	double covered; /* share (from 0 to 1) of the question's words that the passage contains, weighted by idf */
	int unknown;    /* 1: the question has a name or number that no text contains */
};
/* Score every passage of the texts for a question. Texts that are not indexed yet are indexed first. *out receives all
 * passages in the order of the texts. A passage without any word of the question has the score 0. The caller frees
 * *out. */
int passages_score(struct passage_index *, const struct indexed_text *text, size_t n_text, const char *question,
                   size_t n, struct found_passage **out, size_t *n_out, struct err *);
/* Find passages that share words with the question. At most `most` passages are written to out[], the best first.
 * Returns their number, or -1. */
int passages_find(struct passage_index *, const struct indexed_text *text, size_t n_text, const char *question,
                  size_t n, struct found_passage *out, size_t most, struct err *);

/* ---- vectors (passage_vectors.c): a text's passages as vectors of a text encoder, for search by meaning ----
 *
 * The caller defines the format of a vector's bytes. The bytes are stored under the SHA-256 of the text and the id of
 * the encoder, and deleted with the last document that has the text. */

/* Store the passage vectors of an in-memory index in a file, up to 64 MiB, so that later processes have them, too.
 * A damaged file is deleted. If the file cannot be used, the vectors stay in memory. */
void passage_index_cache(struct passage_index *, const char *path);
/* Read the passage vectors of a text. Returns 1 with the vectors in *out; 0 if none are stored; -1 on error. */
int vectors_read(struct passage_index *, const struct indexed_text *, uint64_t encoder, struct str *out, struct err *);
/* Store the passage vectors of a text, in place of older ones. Returns 0 or -1. */
int vectors_write(struct passage_index *, const struct indexed_text *, uint64_t encoder, const struct str *,
                  struct err *);

/* ---- sentences (sentence_search.c): find sentences of all indexed texts that share words with a question ---- */

struct found_sentence {
	int64_t text;    /* number of the sentence's text, which sentences_add() has returned */
	size_t from, to; /* byte range of the sentence in that text */
	uint32_t words;  /* length of the sentence in words */
	uint64_t has;    /* bit i is 1 if the sentence contains word i of the question */
};
/* Index a text unless it is indexed already. *number receives the number of the text, which is above 0; texts that are
 * indexed later have larger numbers. */
int sentences_add(struct passage_index *, const char *text, size_t n, int64_t *number, struct err *);
/* Find the sentences that contain a word of the question, in the order in which they were indexed. Words that are too
 * common are skipped, to bound the cost. Bit i of *words is 1 if word i was not skipped. The caller frees *out. */
int sentences_find(struct passage_index *, const char *question, size_t n, struct found_sentence **out, size_t *n_out,
                   uint64_t *words, struct err *);

enum export_format { EXPORT_MARKDOWN, EXPORT_JSON, EXPORT_TEXT };
/* Callback of session_export(). It appends to *out what the export shows of a message's stats, the JSON object that the
 * caller stored. If `json` is 1, it appends JSON members, each with a comma before it; else lines of text. */
typedef void export_more_fn(int role, const char *stats, int json, struct str *out);
/* Set *out to the messages that the session shows. `more` may be NULL. The form of JSON:
 * {"name","model","kv","settings":{KEY:TEXT},
 * "documents":[{"name","type","bytes","after","text","marks"}],"messages":[{"role","text","tokens":[...],"at"}]}. */
int session_export(struct store *, int64_t id, enum export_format, export_more_fn *more, struct str *out, struct err *);

/* Check everything in chat.db, and repair the search indexes. Defects are appended to *report, one sentence a line.
 * Returns 0 if there are no defects, 1 if there are some, -1 if the check could not run. */
int store_check(struct store *, struct str *report, struct err *);

/* SHA-256 of a stream of bytes (sums.c). A NULL pointer means that memory is short. */
struct sum;
struct sum *sum_open(void);
void sum_add(struct sum *, const void *p, size_t n);
/* Write the sum as 64 hexadecimal digits and a NUL, and begin a new sum. */
void sum_hex(struct sum *, char out[65]);
void sum_close(struct sum *);

#endif
