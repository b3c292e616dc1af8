/* sessions/store/store_private.h - the open store, for the files of sessions/store and sessions/snap.
 *
 *     db.c            SQLite: opening, statements, transactions, error sentences
 *     store.c         directory, opening, migrations
 *     locks.c         locks of the store and of each session
 *     wal.c           detects damage in SQLite's log
 *     session_rows.c  reads rows of sessions
 *     sessions.c      creates, names, forks and deletes sessions
 *     names.c         checks names, makes titles, finds a session by name or title
 *     messages.c      the tree of messages
 *     beginnings.c    stores the first bytes that long questions share only once
 *     sums.c          checksums
 *     settings.c      values that a session stores by key
 *     documents.c     documents of a session
 *     library.c       the distinct texts of all documents
 *     outlines.c      pages and headings of texts
 *     search.c        full text index of messages (that of documents: passages.h)
 *     export.c        writes a session as a file
 *     check.c         checks the whole file */
#ifndef WEIR_STORE_PRIVATE_H
#define WEIR_STORE_PRIVATE_H

#include "sessions/store/db.h"
#include "sessions/import/import.h"
#include "sessions/store/store.h"

#define STORE_APPLICATION 0x77656972 /* "weir" */
#define CHAT_FILE         "chat.db"
#define LOG_COPY          CHAT_FILE "-wal.damaged"

struct store {
	struct db db; /* chat.db */
	char *dir;    /* no slash at the end */
	char *vfs;    /* NULL = the default */
	int read_only;
	int lock;            /* fd of the lock file, shared by all processes that write; -1 = read only */
	int alone;           /* 1: no other process had the store open when this one opened it */
	int64_t alone_at;    /* when this process had the store alone, in milliseconds since 1970; 0 = never */
	int writers;         /* fd of file `writers`, with the locks of sessions and databases */
	struct gate gate[2]; /* [0] of chat.db, [1] of kv.db */
	/* random id of this chat.db; kv.db stores it, and is not used if the two differ */
	uint8_t id[16];
	struct str row[4]; /* strings of the last session_get() */
};

/* Migrations; entry i brings format i to format i + 1.  Format 0 is an empty file. */
struct migration {
	const char *sql;
	int (*fn)(struct db *, struct err *); /* runs after sql; NULL = no function */
};
extern const struct migration store_migrations[];
extern const int store_version;
/* Bring an open database from format `from` to format `to`, in one transaction. */
int store_migrate(struct db *, int from, int to, struct err *);

/* Return "DIR/name"; the caller frees it. */
static inline char *store_path(const struct store *s, const char *name)
{
	struct str path = { 0 };

	str_addf(&path, "%s/%s", s->dir, name);
	return path.p;
}
/* Seconds since 1970. */
int64_t store_now(void);

/* Return -1 with ERR_FAIL if the store was opened read only, else 0. */
static inline int store_writable(const struct store *s, struct err *e)
{
	return s->read_only ? err_set(e, ERR_FAIL, "the sessions in '%s' were opened to be read only", s->dir) : 0;
}
/* Call after a deletion. Returns free pages to the file system, and removes the deleted bytes from SQLite's log and
 * old copies. */
void store_erase_traces(struct store *);
/* Delete the copies that migrations and log damage left beside chat.db. */
void store_drop_copies(struct store *);

/* locks.c */
/* Lock the store and set s->alone. 1: exclusively, no other process has it open; 0: shared with processes of this
 * machine. Waits up to LOCK_MS. -1 if another process holds the lock exclusively, or runs on another machine. */
int lock_store(struct store *, struct err *);
/* Turn the exclusive lock into a shared one. */
int lock_share(struct store *, struct err *);
void lock_free(struct store *);
/* For a read-only store: open the file of session locks, which session_writer() needs. */
void lock_look(struct store *);

/* wal.c */
/* Call before chat.db is opened.  If the log lost committed transactions to damage, copy it beside chat.db and
 * append a notice (notice may be NULL). */
void store_check_log(const struct store *, struct str *notice);

/* session_rows.c */
int session_none(struct err *, int64_t id);                   /* error "there is no session"; -1 */
int session_exists(struct store *, int64_t id, struct err *); /* 0, or -1 with ERR_USAGE */
#define NEXT_TURN "(SELECT coalesce(max(turn), 0) + 1 FROM session)"

/* names.c */
int name_ok(const char *name, struct err *);
int name_free(struct store *, const char *name, int64_t but_session, struct err *);
void title_make(struct str *out, const char *question, size_t n);

/* messages.c */
struct node {
	int64_t parent, session, depth;
};
int node_get(struct store *, int64_t id, struct node *, struct err *); /* 1, 0 = no such message, -1 */
int message_none(struct err *, int64_t session, int64_t id);           /* error "no such message"; -1 */
int message_lost(struct store *, int64_t id, struct err *);            /* error "the parents of id are lost"; -1 */
/* 1 = on a branch of the session */
int message_visible(struct store *, int64_t session, int64_t message, struct err *);
/* Columns from the first one: role, complete, text, token, stats, sum, beginning, beginning_bytes. */
int message_sum_ok(sqlite3_stmt *, int first_column);
/* Checksum for a row that will store its whole text.  Columns from the first one: role, complete, token, stats. */
int64_t message_sum_whole(sqlite3_stmt *, int first_column, const char *text, size_t n_text);
/* Replace the stats of a message. */
int message_set_stats(struct store *, int64_t id, const char *stats, struct err *);
int session_base(struct store *, int64_t session, int64_t *base, struct err *);

/* beginnings.c */
/* Long questions often begin with the same bytes as an earlier one.  The first `bytes` bytes of such a message are
 * stored only in message `of`.  of = 0: the message's row has its whole text. */
struct beginning {
	int64_t of;
	size_t bytes;
};
/* Compare a new question with its newest sibling (message with the same parent) and set the shared beginning.  Call
 * inside the transaction that stores the question. */
int beginning_find(struct store *, int64_t session, const struct stored_message *, struct beginning *, struct err *);
/* Complete the text of message `id`: put the first `bytes` bytes of message `of` before *text.  *text and *n become the
 * whole text, in the buffer *whole; an older buffer in *whole is freed.  The caller frees *whole. */
int beginning_add(struct store *, int64_t id, int64_t of, int64_t bytes, char **whole, const char **text, size_t *n,
                  struct err *);
/* Before session `deleted` is deleted: messages of other sessions that share a beginning with one of its messages get
 * their own copy of it. Call inside the transaction that deletes the session. */
int beginnings_keep(struct store *, int64_t deleted, struct err *);

/* sums.c */
/* XXH3 of the two parts of a row.  SQLite checks structure only; this sum finds changed values. */
int64_t pair_sum(const void *a, size_t n_a, const void *b, size_t n_b);
int text_hash(const void *, size_t, uint8_t out[32], struct err *); /* SHA-256 */

/* settings.c */
int setting_sum_ok(sqlite3_stmt *, int first_column); /* key, sum, value */

/* documents.c */
/* content, bytes, at, after, sum, name, mtime, file, path */
int document_sum_ok(sqlite3_stmt *, int first_column);
/* Delete texts without a document, with their outlines and index entries. */
int documents_drop_orphans(struct store *, struct err *);
/* Delete all documents of a session, and texts that no other session has. */
int documents_drop(struct store *, int64_t session, struct err *);

/* outlines.c */
int outline_sum_ok(sqlite3_stmt *, int first_column); /* type, bytes, sum, marks */
/* Store type and marks of a text; a row that has marks already stays.  Call inside a transaction. */
int outline_put(struct store *, int64_t content, const struct stored_document *, struct err *);
/* Read d->type and d->mark (*mark, the caller frees it) from a row.  -1: the row is damaged or describes another
 * text. */
int outline_get(sqlite3_stmt *, int first_column, size_t n_text, struct stored_document *d, struct mark **mark);
/* Count the page marks of a row. */
int32_t outline_pages(sqlite3_stmt *, int first_column);

/* search.c.  Call index_add() and index_remove() inside the transaction that changes the message. */
int index_add(struct store *, int64_t id, const char *text, size_t n, struct err *);
int index_remove(struct store *, int64_t id, const char *text, size_t n, struct err *);
int index_rebuild(struct db *, struct err *);
/* Rewrite the index without removed entries; index_remove() alone only marks them. */
int index_purge(struct store *, struct err *);

#endif
