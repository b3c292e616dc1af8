/* sessions/sessions.h - what app/ and ui/ may know about what is kept between runs.
 *
 *     documents   doc_read() turns a file into text for the prompt, or refuses it with one sentence that names it
 *     store       sessions: chat.db (names, messages, documents, settings, search).  Small, precious, durable
 *     snaps       snapshots of timelines: kv.db.  Large and disposable: without it everything is read again, nothing is lost
 *
 * One directory (0700, files 0600) and one process at a time: the lock belongs to the store.  What is opened belongs to
 * one thread; another one may open a store of its own, to read. */
#ifndef WEIR_SESSIONS_H
#define WEIR_SESSIONS_H

#include "engine/base.h"

struct timeline;
struct engine;

#define DOC_BYTES_MAX (64u << 20)   /* bytes of a document as read */

/* A document as plain UTF-8 text with \n line ends.  The text is data, never instructions, and hostile: it goes
 * to a tokenizer with special tokens off and to a terminal through clean_text(). */
struct doc {
	char *name;            /* last part of the path, "standard input" for "-": raw bytes, clean before showing */
	const char *encoding;  /* "UTF-8", "UTF-16LE", "UTF-16BE", "Windows-1252" */
	uint64_t bytes;        /* as read */
	struct str text;
	struct str notices;    /* what the user should know, one sentence a line; empty when all is plain */
};

/* Read a regular file, or standard input when path is "-" (a pipe, a socket or a redirected file).
 * -1: *out is empty and *e is ERR_DOCUMENT, or ERR_FIT when there is no memory for it. */
int  doc_read(const char *path_or_dash, struct doc *out, struct err *e);
/* The same for bytes in memory. */
int  doc_decode(const char *name, const void *bytes, size_t n, struct doc *out, struct err *e);
void doc_free(struct doc *);

/* ---- the store (store.c: opening; chats.c, names.c, messages.c, settings.c, documents.c; search.c; export.c; check.c) ---- */

struct store;
struct store_options {
	const char *dir;         /* NULL: $XDG_DATA_HOME/weir, ~/.local/share/weir; made if missing */
	const char *vfs;         /* SQLite's VFS, for tests; NULL = the default */
	struct str *notice;      /* what the user should know, one sentence a line is added; NULL = nothing */
	/* List and export beside a running weir, or beside the writer of this process in another thread: takes no lock, writes
	 * nothing, sees what is committed at once.  Open it after the writer: it does not see a store that is made later. */
	int read_only;
};
/* ERR_FAIL when another weir has it (its process is named), when it cannot be opened, when it is damaged or from a
 * newer weir: nothing is changed then.  An older one is brought up to date, the old file kept beside it. */
int  store_open(struct store **out, const struct store_options *, struct err *);
void store_close(struct store *);
/* Where that is when no directory is named; ERR_FAIL when the environment does not say. */
int  store_place(struct str *out, struct err *);
const char *store_sqlite(void);   /* "3.40.1": of the library that is running */
const char *store_dir(const struct store *);

/* One row of the list; strings are the store's until the next call. */
struct session {
	int64_t id, head;               /* head: its last message; 0 = none yet */
	const char *name, *title;       /* name: unique, "" = none was given; title: from the first question */
	const char *model;              /* file name of the model used last */
	const char *kv;
	int64_t created, used;          /* seconds since 1970 */
	int32_t messages;               /* on the way to head */
	int32_t tokens;                 /* of its sequence when it was saved last */
	int64_t parent;                 /* the session it was forked from; 0 = none */
};
int  session_new(struct store *, const char *name, int64_t *id, struct err *);          /* name NULL or "": none yet */
/* By name, else title, else number as `ls` prints it, else a beginning that fits one alone; ERR_USAGE names the nearest. */
int  session_find(struct store *, const char *what, int64_t *id, struct err *);
/* The one used last: 1, or 0 when there is none. */
int  session_last(struct store *, int64_t *id, struct err *);
int  session_get(struct store *, int64_t id, struct session *out, struct err *);
typedef int session_fn(const struct session *, void *ud);                                /* not 0 ends the list */
int  session_list(struct store *, session_fn *, void *ud, struct err *);                 /* the one used last first */
int  session_rename(struct store *, int64_t id, const char *name, struct err *);         /* ERR_USAGE: taken, or no name */
/* A second session with the same messages up to `at` (0: the head). */
int  session_fork(struct store *, int64_t id, int64_t at, const char *name, int64_t *new_id, struct err *);
/* Really: what no other session shows is overwritten. */
int  session_delete(struct store *, int64_t id, struct err *);
/* What a session remembers by name: model, kv, system prompt, sampling, state of the random numbers ...; value NULL: forget. */
int  session_set(struct store *, int64_t id, const char *key, const void *value, size_t n, struct err *);
int  session_value(struct store *, int64_t id, const char *key, struct str *out, struct err *);   /* 1, 0 = not set, -1 */
/* All of them in order of their names; whole = 0: the value is not what was saved. */
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
	int32_t shown, all;             /* messages on the way to the head; on all branches */
	int32_t branches;               /* messages without one behind them */
	int32_t cut;                    /* answers that were cut by a crash or are being written */
};
int  session_tree(struct store *, int64_t session, struct session_tree *, struct err *);

/* Documents: the text is kept once, however many sessions have it. */
struct stored_document { int64_t id; const char *name; const char *text; size_t n_text; uint64_t bytes; int64_t at; int64_t after; };  /* after: message it came behind; 0 = before the first */
int  session_add_document(struct store *, int64_t session, const struct stored_document *, int64_t *id, struct err *);
int  session_drop_document(struct store *, int64_t session, int64_t id, struct err *);
typedef int document_fn(const struct stored_document *, void *ud);
int  session_documents(struct store *, int64_t session, document_fn *, void *ud, struct err *);   /* in order of coming */

/* Full text; words as typed, all must occur; "..." a phrase; the best first. */
struct found { int64_t session, message; const char *name, *title; int role; const char *snippet; int64_t at; };  /* snippet: \x01 and \x02 around what was found */
typedef int found_fn(const struct found *, void *ud);
int  store_search(struct store *, const char *words, int limit, found_fn *, void *ud, struct err *);

enum export_format { EXPORT_MARKDOWN, EXPORT_JSON, EXPORT_TEXT };
/* The branch shown, in order.  JSON: {"name","model","kv","messages":[{"role","text","tokens":[...]}]}. */
int  session_export(struct store *, int64_t id, enum export_format, struct str *out, struct err *);

/* Everything that can be checked; what is wrong as one sentence a line.  0, 1 = something is wrong, -1 = could not check. */
int  store_check(struct store *, struct str *report, struct err *);

/* ---- snapshots (snaps.c: chunks, heads, budget; fingerprint.c) ---- */

struct snaps;
struct snaps_options {
	uint64_t budget;         /* bytes of kv.db; 0 = 8 GiB or a tenth of the free disk, whatever is less */
	const char *vfs;
};
/* kv.db in the store's directory.  A damaged or foreign one is put aside and begun anew: *notice says so (NULL: nothing).
 * Of a store that is only read kv.db is only read, too, beside a weir that writes; it is opened in a millisecond, so open
 * it anew for each list. */
int  snaps_open(struct snaps **out, struct store *, const struct snaps_options *, struct str *notice, struct err *);
void snaps_close(struct snaps *);

/* What a snapshot was taken with; computing hashes the weights once per file (device, inode, size, time of change). */
struct fingerprint { uint8_t all[32], rows[32]; };   /* rows: of tokens that were only read, whatever the cache policy */
int  snaps_fingerprint(struct snaps *, const struct engine *, const struct timeline *, struct fingerprint *out, struct err *);

struct snap_saved { uint64_t bytes, new_bytes; int32_t tokens; double seconds; };
/* Save the timeline as it is under a message (the session's head).  Only chunks that are not there are written, then the head
 * is flipped.  extra: the caller's own bytes.  ERR_FIT: no room; the older snapshot stays. */
int  snap_save(struct snaps *, struct timeline *, const struct fingerprint *, int64_t session, int64_t message,
               const void *extra, size_t n_extra, struct snap_saved *, struct err *);
/* While a long text is being read: the chunks so far, without a head. */
int  snap_save_rows(struct snaps *, struct timeline *, const struct fingerprint *, struct snap_saved *, struct err *);

struct snap_loaded {
	int32_t tokens;
	uint64_t bytes;
	double seconds;
	char why[200];
	char by[64];                    /* other kernels that computed the rows: they are right to rounding; "" = ours */
};
/* Bring a timeline to where it was at that message: 1 and extra, or 0 and why not ("" = there is none).  A snapshot of these very
 * kernels goes before one that the same model and settings gave with others.  Nothing reaches the timeline before its checksum was
 * right. */
int  snap_load(struct snaps *, struct timeline *, const struct fingerprint *, int64_t message, struct str *extra,
               struct snap_loaded *, struct err *);
/* The longest beginning of want[0 .. n) whose chunks these kernels have computed and which is longer than what the timeline has:
 * tokens it can go on from; 0 = nothing. */
int32_t snap_load_prefix(struct snaps *, struct timeline *, const struct fingerprint *, const int32_t *want, size_t n,
                         struct snap_loaded *, struct err *);
/* Bytes that snapshots of a session hold, those shared included. */
int  snap_bytes(struct snaps *, int64_t session, uint64_t *out, struct err *);
/* The same for a list of sessions, in one go: of each its number and its head are given, and of the snapshots: */
struct snap_state {
	int64_t session, message;
	uint64_t bytes;                 /* as snap_bytes() */
	int ready;                      /* there is one of that message: it opens at once, if model and cache are what they were */
};
int  snap_states(struct snaps *, struct snap_state *, size_t n, struct err *);
/* One snapshot. */
struct snap_info {
	int64_t message;
	int32_t tokens;
	int64_t used;                   /* seconds since 1970 */
	uint64_t bytes;                 /* all that it needs */
	uint64_t own, shared;           /* of these: its head and last rows; chunks that other sessions need, too */
	int head;                       /* 1 = head and last rows are there and as they were written, 0 = not */
	int32_t chunks, bad;            /* bad: missing or damaged */
};
typedef int snap_fn(const struct snap_info *, void *ud);
/* The snapshots of a session, the newest first; every byte of them is read and verified. */
int  snap_list(struct snaps *, int64_t session, snap_fn *, void *ud, struct err *);
int  snap_drop(struct snaps *, int64_t session, struct err *);         /* all of a session; overwritten */
/* Sweep what nothing needs, keep to the budget.  Bytes freed. */
int  snaps_gc(struct snaps *, uint64_t *freed, struct err *);
int  snaps_check(struct snaps *, struct str *report, struct err *);    /* reads and verifies every row; as store_check() */

#endif
