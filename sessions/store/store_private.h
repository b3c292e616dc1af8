/* sessions/store/store_private.h - struct store and the functions that the files of sessions/store share.
 * The files of sessions/snap use them, too.
 *
 *     db.c: opens SQLite databases: statements, transactions, error sentences;
 *     store.c: opens and migrates the store; locks.c: locks of the store and of each session;
 *     wal.c: detects damage in SQLite's log (chat.db-wal);
 *     session_rows.c: reads rows of table session; sessions.c: creates, names, forks and deletes sessions;
 *     names.c: checks names, makes titles, finds a session by name or title;
 *     messages.c: the tree of messages; beginnings.c: stores the common beginning of long questions once;
 *     sums.c: checksums, SHA-256; settings.c: settings of a session: values by key;
 *     documents.c: documents of a session; library.c: the distinct texts of all documents;
 *     facts.c: facts to remember in all conversations;
 *     outlines.c: pages and headings of document texts; search.c: full text index of messages;
 *     export.c: writes a session as a file; check.c: checks all of chat.db.
 *
 * The files of the search in documents are listed in passages.h. */
#ifndef WEIR_STORE_PRIVATE_H
#define WEIR_STORE_PRIVATE_H

#include "sessions/store/db.h"
#include "sessions/import/import.h"
#include "sessions/store/store.h"

#define STORE_APPLICATION 0x77656972 /* application_id of chat.db: the letters "weir" */
#define CHAT_FILE         "chat.db"
#define LOG_COPY          CHAT_FILE "-wal.damaged"

struct store {
	struct db db;     /* the connection to chat.db */
	char *dir;        /* path of the store's directory, without a slash at the end */
	char *vfs;        /* name of SQLite's VFS; NULL = the default */
	char *recognised; /* folder of recognised pages, see struct store_options */
	int read_only;
	int lock;  /* descriptor of file `lock` (locks.c); -1 = the store is read only */
	int alone; /* 1: no other process had the store open when this process opened it */
	/* time at which this process opened the store, in milliseconds since 1970, if no other process had the store
	 * open then; else 0 */
	int64_t alone_at;
	/* descriptor of file `writers` (locks.c), whose bytes are locked: a range of bytes for each session, and one
	 * byte for each database */
	int writers;
	struct gate gate[2]; /* gate[0] is for chat.db, gate[1] for kv.db */
	/* random id of this chat.db.  kv.db (snapshots) has a copy of this id; if the two differ, kv.db is not used. */
	uint8_t id[16];
	struct str row[4]; /* strings of the last session_get() */
};

/* store_migrations[i] converts a database of format i to format i + 1.  Format 0 is an empty database. */
struct migration {
	const char *sql;
	int (*fn)(struct db *, struct err *); /* function to call after the statements `sql`; NULL = none */
};
extern const struct migration store_migrations[];
extern const int store_version; /* the newest format */
/* Convert a database from format `from` to format `to`, in one transaction. */
int store_migrate(struct db *, int from, int to, struct err *);

/* Return "DIR/name"; the caller frees it. */
static inline char *store_path(const struct store *s, const char *name)
{
	struct str path = { 0 };

	str_addf(&path, "%s/%s", s->dir, name);
	return path.p;
}
/* Return the time in seconds since 1970. */
int64_t store_now(void);

/* Return 0, or -1 with ERR_FAIL if the store was opened read only. */
static inline int store_writable(const struct store *s, struct err *e)
{
	return s->read_only ? err_set(e, ERR_FAIL, "the sessions in '%s' were opened to be read only", s->dir) : 0;
}
/* Call this after a deletion: SQLite's write-ahead log and old copies of the database still contain the deleted bytes.
 * Empties the log, deletes the copies, and returns free pages to the file system. */
void store_erase_traces(struct store *);
/* Delete the recognised pages of documents that no session has. Errors are ignored. In library.c. */
void library_forget_recognised(struct store *);
/* Delete the copies beside chat.db: copies that were made before a migration, and copies of a damaged log. */
void store_drop_copies(struct store *);

/* ---- locks.c ---- */
/* Lock the store. s->alone is set to 1 if no other process has the store open; the lock is then exclusive. It is set to
 * 0 if other processes of this machine share the lock. Returns -1 if another process still has an exclusive lock after
 * LOCK_MS milliseconds, or if the store is open on another machine. */
int lock_store(struct store *, struct err *);
/* Turn the exclusive lock into a shared one. */
int lock_share(struct store *, struct err *);
void lock_free(struct store *);
/* Open file `writers` for a read-only store, so that session_writer() can tell which process writes a session. */
void lock_look(struct store *);

/* ---- wal.c ---- */
/* Call this before chat.db is opened. If SQLite's log is damaged, SQLite may drop committed transactions: copy the log
 * to a file beside chat.db, and append a sentence for the user to *notice (may be NULL). */
void store_check_log(const struct store *, struct str *notice);

/* ---- session_rows.c ---- */
int session_none(struct err *, int64_t id); /* sets the error "there is no session ID"; returns -1 */
/* returns 0; -1 with ERR_USAGE if there is no such session */
int session_exists(struct store *, int64_t id, struct err *);
#define NEXT_TURN "(SELECT coalesce(max(turn), 0) + 1 FROM session)"

/* ---- names.c ---- */
int name_ok(const char *name, struct err *);
int name_free(struct store *, const char *name, int64_t but_session, struct err *);
void title_make(struct str *out, const char *question, size_t n);

/* ---- messages.c ---- */
struct node {
	int64_t parent, session, depth;
};
/* read a message's place in the tree; returns 1; 0 if there is no such message; -1 on error */
int node_get(struct store *, int64_t id, struct node *, struct err *);
/* sets the error "there is no message ID"; returns -1 */
int message_none(struct err *, int64_t session, int64_t id);
/* sets the error "... before message ID is lost"; returns -1 */
int message_lost(struct store *, int64_t id, struct err *);
/* Returns 1 if a branch of the session contains the message, 0 if no branch does, -1 on error. */
int message_visible(struct store *, int64_t session, int64_t message, struct err *);
/* 1 if the checksum of the row is right.  Columns from first_column on: role, complete, text, token, stats, sum,
 * beginning, beginning_bytes. */
int message_sum_ok(sqlite3_stmt *, int first_column);
/* Compute the checksum that a row of table message will have when its text is replaced by text[n_text], the message's
 * whole text. The other values come from the statement: its columns from first_column on are role, complete, token,
 * stats. */
int64_t message_sum_whole(sqlite3_stmt *, int first_column, const char *text, size_t n_text);
/* Replace the stats of a message. */
int message_set_stats(struct store *, int64_t id, const char *stats, struct err *);

/* ---- beginnings.c ---- */
/* The first bytes of a long question, if an earlier message has the same bytes and stores them. `of` is the id of that
 * message; 0 = the question's own row stores its whole text. `bytes` is the number of shared bytes. */
struct beginning {
	int64_t of;
	size_t bytes;
};
/* Compare a new question with the newest question of the same parent, and set the beginning that the two share. Call
 * this inside the transaction that stores the question. */
int beginning_find(struct store *, int64_t session, const struct stored_message *, struct beginning *, struct err *);
/* Complete the text of message `id`. The row of message `of` stores its first `bytes` bytes. Before the call, *text and
 * *n are the rest of the text; after the call, they are the whole text, which is in the buffer *whole. A previous
 * buffer in *whole is freed; the caller frees the new one. */
int beginning_add(struct store *, int64_t id, int64_t of, int64_t bytes, char **whole, const char **text, size_t *n,
                  struct err *);
/* Call this before session `deleted` is deleted, in the same transaction. If a message of another session shares its
 * beginning with a message of session `deleted`, store the beginning in its own row. */
int beginnings_keep(struct store *, int64_t deleted, struct err *);

/* ---- sums.c ---- */
/* Compute the checksum (XXH3) of two byte strings. Rows store it to detect changed values, because SQLite itself checks
 * only the structure of a file. */
int64_t pair_sum(const void *a, size_t n_a, const void *b, size_t n_b);
int text_hash(const void *, size_t, uint8_t out[32], struct err *); /* compute the SHA-256 of bytes */

/* ---- settings.c ---- */
/* 1 if the row's checksum is right; the row's columns are key, sum and value */
int setting_sum_ok(sqlite3_stmt *, int first_column);

/* ---- facts.c ---- */
/* 1 if the row's checksum is right. Columns from first_column on: session, at, sum, text. */
int fact_sum_ok(sqlite3_stmt *, int first_column);

/* ---- documents.c ---- */
/* 1 if the checksum of a document's row is right. Columns from first_column on: content, bytes, at, after, sum,
 * name, mtime, file, path. */
int document_sum_ok(sqlite3_stmt *, int first_column);
/* Delete texts that no document has, with their outlines (pages, headings) and search index entries. */
int documents_drop_orphans(struct store *, struct err *);
/* Delete all documents of a session, and their texts unless another session has them. */
int documents_drop(struct store *, int64_t session, struct err *);

/* ---- outlines.c ---- */
/* 1 if the row's checksum is right; the row's columns are type, bytes, sum and marks */
int outline_sum_ok(sqlite3_stmt *, int first_column);
/* Store the type and the marks (pages, headings) of text `content`.  Marks that are stored already are not replaced.
 * Call inside a transaction. */
int outline_put(struct store *, int64_t content, const struct stored_document *, struct err *);
/* Set d->type, d->mark and d->n_mark from a row, whose columns are those of outline_sum_ok(). *mark is set to d->mark,
 * and the caller frees it with marks_free(). Returns 0; or -1 if the row is damaged, or does not belong to a text of
 * n_text bytes. */
int outline_get(sqlite3_stmt *, int first_column, size_t n_text, struct stored_document *d, struct mark **mark);
/* Count the page marks of a row. */
int32_t outline_pages(sqlite3_stmt *, int first_column);

/* search.c: the full text index of messages.  Call index_add() and index_remove() inside the transaction that changes
 * the message.  index_remove() needs the text that was indexed. */
int index_add(struct store *, int64_t id, const char *text, size_t n, struct err *);
int index_remove(struct store *, int64_t id, const char *text, size_t n, struct err *);
int index_rebuild(struct db *, struct err *);
/* Rewrite the index. index_remove() only marks words as removed; after this call the file no longer contains them. */
int index_purge(struct store *, struct err *);
/* Replace an FTS5 table, which may be damaged, by an empty one. `create` is the SQL text that creates it. */
int fts_replace(struct db *, const char *table, const char *create, struct err *);
/* 1 if an FTS5 table should be filled again, because its merge tree has too many levels; 0 if not; -1 on error. Each
 * 'optimize' adds a level, and FTS5 fails above 2,000. `query` is a string literal that selects the block with id 10,
 * in which FTS5 stores the number of levels at offset 4. */
int fts_many_levels(struct db *, const char *query, struct err *);

#endif
