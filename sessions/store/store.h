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
	const char *dir;    /* NULL: $XDG_DATA_HOME/weir or ~/.local/share/weir; created if missing */
	const char *vfs;    /* SQLite's VFS, for tests; NULL = the default */
	struct str *notice; /* notices for the user are appended, one sentence a line; NULL = none */
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
	int64_t id, head;         /* head: last message of the branch that is shown; 0 = none */
	const char *name, *title; /* name: unique, "" = unnamed; title: made from the first question */
	const char *model;        /* file name of the model used last */
	const char *kv;
	int64_t created, used; /* seconds since 1970 */
	int32_t messages;      /* number of messages on the path to head */
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
/* Create a session and become its only writer (session_hold). name: NULL or "" = unnamed. */
int session_new(struct store *, const char *name, int64_t *id, struct err *);
/* Find a session. `what` is compared in this order with: all names, all titles, the numbers in `weir sessions ls`, and
 * the beginnings of names and titles. ERR_USAGE if no session fits, or if several do; the message of the error lists
 * candidates. */
int session_find(struct store *, const char *what, int64_t *id, struct err *);
/* Find the session used last. 1 = found; 0 = the store has no session; -1 = error. */
int session_last(struct store *, int64_t *id, struct err *);
int session_get(struct store *, int64_t id, struct session *out, struct err *);
typedef int session_fn(const struct session *, void *ud); /* nonzero ends the list */
/* list all sessions, the session used last first */
int session_list(struct store *, session_fn *, void *ud, struct err *);
/* Rename a session. ERR_USAGE: the name is taken or not valid. ERR_FAIL: another process writes the session. */
int session_rename(struct store *, int64_t id, const char *name, struct err *);
/* 1 if the session has no documents and no messages. Undone messages count as messages. Messages that a fork shows from
 * another session count, too. */
int session_is_empty(struct store *, int64_t id);
/* Create a session that shows the messages of session `id` up to message `at` (0: up to the last one), and hold the new
 * session. */
int session_fork(struct store *, int64_t id, int64_t at, const char *name, int64_t *new_id, struct err *);
/* Delete a session; messages that no other session shows are overwritten on disk.  ERR_FAIL: another process
 * writes it. */
int session_delete(struct store *, int64_t id, struct err *);
/* Store a value under a key, such as model, kv, system prompt, sampling or random state. value NULL deletes the
 * key. */
int session_set(struct store *, int64_t id, const char *key, const void *value, size_t n, struct err *);
/* Read the value of a key. 1 = *out has it; 0 = not set; -1 = error. */
int session_value(struct store *, int64_t id, const char *key, struct str *out, struct err *);
/* List all settings in order of their keys. If `whole` is 0, the value is damaged: its checksum is wrong. */
typedef int setting_fn(const char *key, const void *value, size_t n, int whole, void *ud);
int session_settings(struct store *, int64_t id, setting_fn *, void *ud, struct err *);
/* Make the session the last used one. Store its number of tokens, its model and its cache policy kv. model, kv: NULL =
 * keep the stored value. */
int session_touch(struct store *, int64_t id, const char *model, const char *kv, int32_t tokens, struct err *);

/* Messages form a tree: a regenerated or edited question begins a new branch, and the old branch stays. */
struct stored_message {
	int64_t id, parent; /* parent: 0 = this is the first message of its session */
	int role;           /* enum chat_role */
	const char *text;
	size_t n_text;
	const int32_t *token;
	size_t n_token;    /* token[n_token]: the sampled tokens of an answer */
	const char *stats; /* a JSON object; "" = none */
	int64_t at;
	int complete; /* 0: the answer is still being written, or a crash cut it off */
};
/* Append a message and make it the session's head (the last message shown). On return it is committed. */
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

/* Counts of the messages in a session's tree. */
struct session_tree {
	/* `shown` counts the messages on the path to the session's head. `all` counts the messages on all branches. */
	int32_t shown, all;
	int32_t branches; /* messages without a child */
	int32_t cut;      /* answers that are still being written, or that a crash cut off */
};
int session_tree(struct store *, int64_t session, struct session_tree *, struct err *);

/* A document of a session.  Its text is stored once, however many sessions have it. */
struct stored_document {
	int64_t id;
	const char *name, *text;
	size_t n_text;
	uint64_t bytes; /* size of the imported file */
	int64_t at;     /* seconds since 1970 */
	int64_t after;  /* id of the message that the document follows; 0 = the document is before the first message */
	enum doc_type type;
	const struct mark *mark;
	size_t n_mark;                   /* pages and headings; paragraph marks are not stored */
	const struct doc_origin *origin; /* the file that the document was read from; NULL = unknown */
};
int session_add_document(struct store *, int64_t session, const struct stored_document *, int64_t *id, struct err *);
int session_drop_document(struct store *, int64_t session, int64_t id, struct err *);
/* A change of one document. */
struct document_change {
	int64_t id;                      /* id of the document; 0 = a new one, whose id is stored here */
	const struct stored_document *d; /* the document's new content; NULL = drop the document */
	int64_t added; /* the document's id, kept here until the commit; only session_change_documents() uses it */
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
	int32_t pages;    /* 0: no page marks */
	uint64_t bytes;   /* size of the text */
	int64_t at;       /* when a document with this text was last added, seconds since 1970 */
	int32_t sessions; /* number of sessions with this text */
};
typedef int library_fn(const struct library_text *, void *ud);
int library_list(struct store *, library_fn *, void *ud, struct err *); /* list the texts, newest first */
/* Find a text. `what` is a document's name, else the number of a text ("7", "#7"), else the beginning of a name that no
 * other name shares. ERR_USAGE if no text fits, or several do. */
int library_find(struct store *, const char *what, int64_t *id, struct err *);
/* Load a text as a document; the caller calls doc_free(). */
int library_get(struct store *, int64_t id, struct doc *out, struct err *);
typedef int library_session_fn(int64_t session, void *ud);
int library_sessions(struct store *, int64_t id, library_session_fn *, void *ud, struct err *);
/* Delete a text and its documents from all sessions.  The caller drops the snapshots of those sessions. */
int library_remove(struct store *, int64_t id, struct err *);

/* Facts (facts.c): lines that the user asked weir to remember in all conversations. */
enum { FACT_BYTES = 500 }; /* maximum number of bytes of a fact */
struct fact {
	int64_t id, session; /* session: the one in which the user told the fact; 0 = the conversation was not stored */
	int64_t at;          /* seconds since 1970 */
	const char *from;    /* name or title of the session; "" = it has neither, or was deleted */
	const char *text;
	size_t n_text;
};
/* Add a fact: one line of text. */
int fact_add(struct store *, int64_t session, const char *text, size_t n, int64_t *id, struct err *);
typedef int fact_fn(const struct fact *, void *ud);
int fact_list(struct store *, fact_fn *, void *ud, struct err *); /* list the facts, oldest first */
/* List the sessions with questions that quote the fact in their context. The context of a question is what was sent to
 * the model before the question. */
int fact_sessions(struct store *, int64_t id, library_session_fn *, void *ud, struct err *);
/* Give a fact another text; NULL deletes the fact. The old text is overwritten on disk, and contexts that quote it are
 * deleted. The caller drops the snapshots of fact_sessions() before. ERR_USAGE: there is no such fact. */
int fact_change(struct store *, int64_t id, const char *text, size_t n, struct err *);

/* A message that store_search() has found. */
struct found {
	int64_t session, message;
	const char *name, *title; /* name and title of the session */
	int role;
	const char *snippet; /* \x01 and \x02 enclose the words that matched */
	int64_t at;
};
typedef int found_fn(const struct found *, void *ud);
/* Search the messages. Every word must occur; "..." is a phrase. Best match first, at most `limit`. */
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
/* Callback while texts are indexed, about every millisecond. done, total: bytes of text. If it returns nonzero,
 * indexing is cancelled: the text is not indexed, and the search returns ERR_CANCELLED. */
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
	double score;             /* sort key, computed from `passage` and `sentence` */
	double passage, sentence; /* passage: bm25 score of the passage. sentence: bm25 score of its best sentence */
	double covered; /* share (0 .. 1) of the question's words that the passage contains, weighted by idf */
	int unknown;    /* 1: the question has a name or number that no text contains */
};
/* Score every passage of the texts for a question. Texts that are not indexed yet are indexed first. *out gets all
 * passages, in the order of the texts; a passage without a word of the question has score 0. The caller frees *out. */
int passages_score(struct passage_index *, const struct indexed_text *text, size_t n_text, const char *question,
                   size_t n, struct found_passage **out, size_t *n_out, struct err *);
/* Find passages that share words with the question: at most `most`, best first, in out[]. Returns their number, or
 * -1. */
int passages_find(struct passage_index *, const struct indexed_text *text, size_t n_text, const char *question,
                  size_t n, struct found_passage *out, size_t most, struct err *);

/* ---- vectors (passage_vectors.c): a text's passages as vectors of a text encoder, for search by meaning ----
 *
 * The caller defines the format of a vector's bytes. The bytes are stored under the SHA-256 of the text and the id of
 * the encoder, and deleted with the last document that has the text. */

/* Store the passage vectors of an in-memory index in a file, up to 64 MiB, so that later processes have them, too.
 * A damaged file is deleted. If the file cannot be used, the vectors stay in memory. */
void passage_index_cache(struct passage_index *, const char *path);
/* Read the passage vectors of a text. 1 = *out has them; 0 = none are stored; -1 = error. */
int vectors_read(struct passage_index *, const struct indexed_text *, uint64_t encoder, struct str *out, struct err *);
/* Store the passage vectors of a text, in place of older ones. Returns 0 or -1. */
int vectors_write(struct passage_index *, const struct indexed_text *, uint64_t encoder, const struct str *,
                  struct err *);

/* ---- sentences (sentence_search.c): find sentences of all indexed texts that share words with a question ---- */

struct found_sentence {
	int64_t text;    /* number of the sentence's text, from sentences_add() */
	size_t from, to; /* byte range of the sentence in that text */
	uint32_t words;  /* length of the sentence in words */
	uint64_t has;    /* bit i: the sentence contains word i of the question */
};
/* Index a text unless it is indexed already. *number > 0 identifies the text; texts indexed later have larger
 * numbers. */
int sentences_add(struct passage_index *, const char *text, size_t n, int64_t *number, struct err *);
/* Find the sentences that contain a word of the question, in the order in which they were indexed. Words that are too
 * common are skipped, to bound the cost. Bit i of *words: 1 = word i was not skipped. The caller frees *out. */
int sentences_find(struct passage_index *, const char *question, size_t n, struct found_sentence **out, size_t *n_out,
                   uint64_t *words, struct err *);

enum export_format { EXPORT_MARKDOWN, EXPORT_JSON, EXPORT_TEXT };
/* Callback of session_export(). It appends to *out what the export shows of a message's stats, the JSON object that the
 * caller stored. json: 1 = append JSON members, each with a comma before it; 0 = append lines of text. */
typedef void export_more_fn(int role, const char *stats, int json, struct str *out);
/* Set *out to the messages that the session shows. more: may be NULL. The form of JSON:
 * {"name","model","kv","settings":{KEY:TEXT},
 * "documents":[{"name","type","bytes","after","text","marks"}],"messages":[{"role","text","tokens":[...],"at"}]}. */
int session_export(struct store *, int64_t id, enum export_format, export_more_fn *more, struct str *out, struct err *);

/* Check everything in chat.db, and repair the search indexes. Defects are appended to *report, one sentence a line.
 * 0 = good, 1 = defects, -1 = the check could not run. */
int store_check(struct store *, struct str *report, struct err *);

/* SHA-256 of a stream of bytes (sums.c).  NULL: no memory. */
struct sum;
struct sum *sum_open(void);
void sum_add(struct sum *, const void *p, size_t n);
/* Write the sum as 64 hexadecimal digits and a NUL, and start a new sum. */
void sum_hex(struct sum *, char out[65]);
void sum_close(struct sum *);

#endif
