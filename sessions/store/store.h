/* sessions/store/store.h - chat.db: sessions with their messages, documents and settings, and the search in them.
 *
 * One directory (0700, files 0600) for any number of processes of one machine; a session is written by the one that holds it.  An open
 * store belongs to one thread; another thread may open a store of its own. */
#ifndef WEIR_STORE_H
#define WEIR_STORE_H

#include "sessions/import/import.h"

/* ---- the store (store.c: opening; session_rows.c, sessions.c, names.c, messages.c, beginnings.c, settings.c, documents.c, outlines.c, library.c; search.c; export.c; check.c) ---- */

struct store;
struct store_options {
	const char *dir;         /* NULL: $XDG_DATA_HOME/weir, ~/.local/share/weir; made if missing */
	const char *vfs;         /* SQLite's VFS, for tests; NULL = the default */
	struct str *notice;      /* what the user should know, one sentence a line is added; NULL = nothing */
	/* Takes no lock, writes nothing, sees what is committed at once.  It does not see a store that is made later. */
	int read_only;
};
/* ERR_FAIL when an older weir or one on another machine has it (its process is named), when it cannot be opened, when it is damaged or
 * from a newer weir: nothing is changed then.  An older one is migrated, with a copy of the old file beside it. */
int  store_open(struct store **out, const struct store_options *, struct err *);
void store_close(struct store *);
const char *store_dir(const struct store *);
/* All that body() changes as one transaction; a change inside of another one is part of that.  When a search index turns out to be damaged
 * both are made anew and body() called once more: they hold nothing that is not in the messages and documents. */
typedef int store_body(struct store *, void *arg, struct err *);
int  store_change(struct store *, store_body *, void *arg, struct err *);

/* One row of the list; strings are the store's until the next call. */
struct session {
	int64_t id, head;               /* head: its last message; 0 = none yet */
	const char *name, *title;       /* name: unique, "" = none was given; title: from the first question */
	const char *model;              /* file name of the model used last */
	const char *kv;
	int64_t created, used;          /* seconds since 1970 */
	int32_t messages;               /* on the path to head */
	int32_t tokens;                 /* of its sequence when it was saved last */
	int64_t parent;                 /* the session it was forked from; 0 = none */
};
/* From now on this store alone writes the session: asked for before it is resumed, since functions that write do not ask.  -1 and ERR_FAIL
 * when another weir writes it: *by is that process, -1 = it is not known, 0 = another error. */
int  session_hold(struct store *, int64_t id, long *by, struct err *);
void session_leave(struct store *, int64_t id);
/* The process that holds it, -1 = it is not known; 0 = nobody, or this one. */
long session_writer(const struct store *, int64_t id);
int  session_new(struct store *, const char *name, int64_t *id, struct err *);          /* held; name NULL or "": none yet */
/* By name, else title, else number as `ls` prints it, else a beginning that fits one alone; ERR_USAGE names the nearest. */
int  session_find(struct store *, const char *what, int64_t *id, struct err *);
/* The one used last: 1, or 0 when there is none. */
int  session_last(struct store *, int64_t *id, struct err *);
int  session_get(struct store *, int64_t id, struct session *out, struct err *);
typedef int session_fn(const struct session *, void *ud);                                /* not 0 ends the list */
int  session_list(struct store *, session_fn *, void *ud, struct err *);                 /* the one used last first */
/* ERR_USAGE: taken, or no name; ERR_FAIL: another weir has it open. */
int  session_rename(struct store *, int64_t id, const char *name, struct err *);
/* 1 if it never had a message, also none that was undone, and has no document, nor has the session that it was forked from. */
int  session_is_empty(struct store *, int64_t id);
/* A second session with the same messages up to `at` (0: the head), held. */
int  session_fork(struct store *, int64_t id, int64_t at, const char *name, int64_t *new_id, struct err *);
/* For good: messages that no other session shows are overwritten on disk.  ERR_FAIL when another weir writes it. */
int  session_delete(struct store *, int64_t id, struct err *);
/* Values that a session stores by name: model, kv, system prompt, sampling, random state ...; value NULL: delete it. */
int  session_set(struct store *, int64_t id, const char *key, const void *value, size_t n, struct err *);
int  session_value(struct store *, int64_t id, const char *key, struct str *out, struct err *);   /* 1, 0 = not set, -1 */
/* All of them in order of their names; whole = 0: the value is damaged. */
typedef int setting_fn(const char *key, const void *value, size_t n, int whole, void *ud);
int  session_settings(struct store *, int64_t id, setting_fn *, void *ud, struct err *);
/* Used now, with that model, cache and number of tokens. */
int  session_touch(struct store *, int64_t id, const char *model, const char *kv, int32_t tokens, struct err *);

/* Messages are a tree: a question that is asked anew or edited begins another branch, the old one stays. */
struct stored_message {
	int64_t id, parent;             /* parent 0: the first */
	int role;                       /* enum chat_role */
	const char *text; size_t n_text;
	const int32_t *token; size_t n_token;   /* of an answer: as sampled */
	const char *stats;              /* JSON object, or "" */
	int64_t at;
	int complete;                   /* 0: the answer was cut by a crash or is being written */
};
/* Committed on return: the message is the session's head. */
int  message_append(struct store *, int64_t session, const struct stored_message *, int64_t *id, struct err *);
/* Replace text, tokens, stats and complete of an answer that is being written. */
int  message_update(struct store *, int64_t id, const struct stored_message *, struct err *);
/* Show another branch, or fewer messages (0: none). */
int  session_set_head(struct store *, int64_t session, int64_t message, struct err *);
/* From the first to message `to`. */
typedef int message_fn(const struct stored_message *, void *ud);
int  message_path(struct store *, int64_t to, message_fn *, void *ud, struct err *);
/* The branches after a message (0: the first messages of the session), the oldest first. */
int  message_children(struct store *, int64_t session, int64_t message, message_fn *, void *ud, struct err *);

/* The whole tree of a session. */
struct session_tree {
	int32_t shown, all;             /* messages on the path to the head; on all branches */
	int32_t branches;               /* messages without a child */
	int32_t cut;                    /* answers that were cut by a crash or are being written */
};
int  session_tree(struct store *, int64_t session, struct session_tree *, struct err *);

/* Documents: the text is stored once, however many sessions have it. */
struct stored_document {
	int64_t id;
	const char *name, *text; size_t n_text;
	uint64_t bytes;                 /* of the file that the text was read from */
	int64_t at;                     /* seconds since 1970 */
	int64_t after;                  /* the message that it follows; 0 = before the first */
	enum doc_type type;
	const struct mark *mark; size_t n_mark;   /* pages and headings are kept, paragraphs are not */
	const struct doc_origin *origin;          /* NULL: not known */
};
int  session_add_document(struct store *, int64_t session, const struct stored_document *, int64_t *id, struct err *);
int  session_drop_document(struct store *, int64_t session, int64_t id, struct err *);
typedef int document_fn(const struct stored_document *, void *ud);
int  session_documents(struct store *, int64_t session, document_fn *, void *ud, struct err *);   /* in order of adding */

/* The library (library.c): the texts that sessions have as documents, each once. */
struct library_text {
	int64_t id;
	const char *name;               /* of the newest document that has it */
	enum doc_type type;
	int32_t pages;                  /* 0: none */
	uint64_t bytes;                 /* of the text */
	int64_t at;                     /* when it was added last, seconds since 1970 */
	int32_t sessions;               /* that have it */
};
typedef int library_fn(const struct library_text *, void *ud);
int  library_list(struct store *, library_fn *, void *ud, struct err *);                 /* the newest first */
/* By name, else by number ("7", "#7"), else by a beginning that fits one alone; ERR_USAGE. */
int  library_find(struct store *, const char *what, int64_t *id, struct err *);
/* As it was imported; doc_free() it. */
int  library_get(struct store *, int64_t id, struct doc *out, struct err *);
typedef int library_session_fn(int64_t session, void *ud);
int  library_sessions(struct store *, int64_t id, library_session_fn *, void *ud, struct err *);
/* For good, out of all sessions that have it.  Their snapshots are the caller's to drop. */
int  library_remove(struct store *, int64_t id, struct err *);

/* Full text; words as typed, all must occur; "..." a phrase; the best first. */
struct found {
	int64_t session, message;
	const char *name, *title;       /* of the session */
	int role;
	const char *snippet;            /* \x01 and \x02 around the words that were found */
	int64_t at;
};
typedef int found_fn(const struct found *, void *ud);
int  store_search(struct store *, const char *words, int limit, found_fn *, void *ud, struct err *);

/* ---- passages (passages.c, passage_index.c, passage_search.c): which parts of texts answer a question ----
 *
 * Texts are cut into passages of about a paragraph and these into sentences, which a full text index in chat.db has.  A text is indexed once,
 * under its SHA-256; the index is deleted with the last document that has the text. */

struct passage_index;
/* The index in the store's chat.db; in memory where there is no store (NULL) or it is only read.  Close it before the store. */
int  passage_index_open(struct passage_index **out, struct store *, struct err *);
void passage_index_close(struct passage_index *);
/* Called often while a text is indexed, with the bytes of it that are.  Not 0 ends the search with ERR_CANCELLED, and the text is not indexed. */
typedef int indexing_fn(size_t done, size_t total, void *ud);
void passage_index_watch(struct passage_index *, indexing_fn *, void *ud);

struct indexed_text { const char *p; size_t n; };
struct found_passage {
	size_t text;                    /* number of the text */
	size_t from, to;                /* its bytes, without white space at the ends */
	size_t quote, quote_end;        /* the sentence in it that fits best */
	double score;                   /* what they are sorted by, from: */
	double passage, sentence;       /* bm25 of the passage; of the sentence */
	double covered;                 /* 0 .. 1: words of the question that the passage has, weighted by their idf */
};
/* Index the texts that are not yet, and find the passages of them that answer a question, the best first: how many (0 .. most), or -1. */
int  passages_find(struct passage_index *, const struct indexed_text *text, size_t n_text, const char *question, size_t n,
                   struct found_passage *out, size_t most, struct err *);

/* ---- sentences (sentence_search.c): which sentences of all texts in an index have words of a question ---- */

/* Bytes from .. to of a text; has: bit i = the sentence has word i of the question. */
struct found_sentence { int64_t text; size_t from, to; uint32_t words; uint64_t has; };
/* Index a text, once, and give its number in the index: above 0, and larger than that of texts that were indexed before it. */
int  sentences_add(struct passage_index *, const char *text, size_t n, int64_t *number, struct err *);
/* The sentences with any of the question's words, in the order of the index; free *out.  *words: bit i = word i is rare enough to be looked
 * for, whether or not it was found.  A search costs no more for a larger index. */
int  sentences_find(struct passage_index *, const char *question, size_t n, struct found_sentence **out, size_t *n_out, uint64_t *words,
                    struct err *);

enum export_format { EXPORT_MARKDOWN, EXPORT_JSON, EXPORT_TEXT };
/* What the program adds to a message from its stats, appended: JSON members, each with a comma before it, else lines. */
typedef void export_more_fn(int role, const char *stats, int json, struct str *out);
/* The branch shown, in order; more: may be NULL.  JSON: {"name","model","kv","settings":{KEY:TEXT},"documents":[{"name","type","bytes","after",
 * "text","marks"}],"messages":[{"role","text","tokens":[...],"at"}]}. */
int  session_export(struct store *, int64_t id, enum export_format, export_more_fn *more, struct str *out, struct err *);

/* Everything that can be checked; what is wrong as one sentence a line.  0, 1 = something is wrong, -1 = could not check. */
int  store_check(struct store *, struct str *report, struct err *);

/* ---- answers that are read as they arrive (fetch/stream.c) ----
 *
 * A client is the connection to one server, which stays open between requests.  One request at a time, in one thread.  No redirection is
 * followed: the status says that there is one. */

/* SHA-256 of bytes that come one after the other (sums.c).  NULL: no memory. */
struct sum;
struct sum *sum_open(void);
void sum_add(struct sum *, const void *p, size_t n);
/* Those of base 16, and a zero.  The sum begins again. */
void sum_hex(struct sum *, char out[65]);
void sum_close(struct sum *);

#endif
