/* sessions/store/store_private.h - inside sessions/: the open store, its directory and its locks.
 *
 *     db.c            a careful way to SQLite
 *     store.c         directory, opening, migrations, checking
 *     locks.c         who has the directory, and who writes which session
 *     wal.c           what the log beside chat.db does not say
 *     session_rows.c  the rows of sessions
 *     sessions.c      making, naming, forking and deleting them
 *     names.c         names, titles, finding by them
 *     messages.c      the tree of messages
 *     beginnings.c    what long questions have in common
 *     sums.c          checksums
 *     settings.c      values that a session stores by name
 *     documents.c     documents of a session
 *     library.c       the texts of all documents
 *     outlines.c      pages and headings of their texts
 *     search.c        full text of messages; passages.h: of documents
 *     export.c        a session as a file
 *     check.c         everything that can be checked */
#ifndef WEIR_STORE_PRIVATE_H
#define WEIR_STORE_PRIVATE_H

#include "sessions/store/db.h"
#include "sessions/import/import.h"
#include "sessions/store/store.h"

#define STORE_APPLICATION 0x77656972   /* "weir" */
#define CHAT_FILE "chat.db"
#define LOG_COPY CHAT_FILE "-wal.damaged"

struct store {
	struct db db;              /* chat.db */
	char *dir;                 /* no slash at the end */
	char *vfs;                 /* NULL = the default */
	int read_only;
	int lock;                  /* locked by all that have the store open to write; -1 = read only */
	int alone;                 /* nobody else had it open when it was opened ... */
	int64_t alone_at;          /* ... which was then, in milliseconds since 1970; 0 = somebody had */
	int writers;               /* whose byte ranges are locks: the gates, and each session that is held */
	struct gate gate[2];       /* of chat.db, of kv.db */
	uint8_t id[16];            /* random, made with chat.db: what refers to its numbers is void beside another one */
	struct str row[4];         /* strings of the session that session_get() gave last */
};

/* The numbered steps from an empty file to today's: step i brings version i to version i + 1. */
struct migration {
	const char *sql;
	int (*fn)(struct db *, struct err *);   /* after sql; NULL = nothing more */
};
extern const struct migration store_migrations[];
extern const int store_version;
/* Bring an open database from one version to another, all in one transaction. */
int  store_migrate(struct db *, int from, int to, struct err *);

/* "DIR/name"; the caller frees. */
static inline char *store_path(const struct store *s, const char *name)
{
	struct str path = {0};

	str_addf(&path, "%s/%s", s->dir, name);
	return path.p;
}
/* Seconds since 1970. */
int64_t store_now(void);

/* Refuses work on a store that was opened to be read. */
static inline int store_writable(const struct store *s, struct err *e)
{
	return s->read_only ? err_set(e, ERR_FAIL, "the sessions in '%s' were opened to be read only", s->dir) : 0;
}
/* After something was deleted for good: give its pages back, and overwrite what logs and older copies have of it. */
void store_erase_traces(struct store *);
/* Delete the copies that migrations made of older formats. */
void store_drop_copies(struct store *);

/* locks.c */
/* Wait until others have opened the store, and lock it: alone, or together with those of this machine that have it.  -1: another one
 * has it for itself. */
int  lock_store(struct store *, struct err *);
/* What had to be done alone is done: let others in. */
int  lock_share(struct store *, struct err *);
void lock_free(struct store *);
/* Of a store that is only read: who writes which session can be seen. */
void lock_look(struct store *);

/* wal.c */
/* Before chat.db is opened: a log that was damaged in its middle is copied beside it, and the notice (may be NULL) says so. */
void store_check_log(const struct store *, struct str *notice);

/* session_rows.c */
int  session_none(struct err *, int64_t id);                            /* says that there is none; -1 */
int  session_exists(struct store *, int64_t id, struct err *);          /* -1 and ERR_USAGE when not */
#define NEXT_TURN "(SELECT coalesce(max(turn), 0) + 1 FROM session)"

/* names.c */
int  name_ok(const char *name, struct err *);
int  name_free(struct store *, const char *name, int64_t but_session, struct err *);
void title_make(struct str *out, const char *question, size_t n);

/* messages.c */
struct node { int64_t parent, session, depth; };
int  node_get(struct store *, int64_t id, struct node *, struct err *); /* 1, 0 = there is no such message, -1 */
int  message_none(struct err *, int64_t session, int64_t id);           /* says so; -1 */
int  message_lost(struct store *, int64_t id, struct err *);            /* says that the chain ends there; -1 */
int  message_visible(struct store *, int64_t session, int64_t message, struct err *);   /* 1, 0, -1 */
int  message_sum_ok(sqlite3_stmt *, int first_column);                  /* role, complete, text, token, stats, sum,
                                                                           beginning, beginning_bytes */
/* The sum of a row that gets its whole text; columns from the first on: role, complete, token, stats. */
int64_t message_sum_whole(sqlite3_stmt *, int first_column, const char *text, size_t n_text);
/* Replace what is stored beside a message. */
int  message_set_stats(struct store *, int64_t id, const char *stats, struct err *);
int  session_base(struct store *, int64_t session, int64_t *base, struct err *);

/* beginnings.c */
/* The first bytes of another message's text, which a message does not store again; of = 0: none. */
struct beginning { int64_t of; size_t bytes; };
/* Inside a transaction: what a question that is to be stored has in common with the one before it. */
int  beginning_find(struct store *, int64_t session, const struct stored_message *, struct beginning *, struct err *);
/* Message id has *text behind `bytes` bytes of another one: *text becomes the whole, in *whole, which the caller frees at last. */
int  beginning_add(struct store *, int64_t id, int64_t of, int64_t bytes, char **whole, const char **text, size_t *n, struct err *);
/* Inside the transaction that deletes the messages of a session: messages that stay get back what they shared with them. */
int  beginnings_keep(struct store *, int64_t deleted, struct err *);

/* sums.c */
/* Checksum of a row's two parts: structure is SQLite's to check, that a value is the one that was saved is not. */
int64_t pair_sum(const void *a, size_t n_a, const void *b, size_t n_b);
int  text_hash(const void *, size_t, uint8_t out[32], struct err *);   /* SHA-256 */

/* settings.c */
int  setting_sum_ok(sqlite3_stmt *, int first_column);                  /* key, sum, value */

/* documents.c */
int  document_sum_ok(sqlite3_stmt *, int first_column);                 /* content, bytes, at, after, sum, name, mtime, file, path */
/* Delete the texts that no session has any more, and what is known of them. */
int  documents_drop_orphans(struct store *, struct err *);
/* All documents of a session, and texts that no other one has. */
int  documents_drop(struct store *, int64_t session, struct err *);

/* outlines.c */
int  outline_sum_ok(sqlite3_stmt *, int first_column);                  /* type, bytes, sum, marks */
/* Inside a transaction: of a text that has none with marks yet. */
int  outline_put(struct store *, int64_t content, const struct stored_document *, struct err *);
/* The marks of a row into d->type and d->mark, the caller's to free; -1: it is damaged, or not of this text. */
int  outline_get(sqlite3_stmt *, int first_column, size_t n_text, struct stored_document *d, struct mark **mark);
/* Pages of it. */
int32_t outline_pages(sqlite3_stmt *, int first_column);

/* search.c: keep the index in step; inside the transaction that changes the message. */
int  index_add(struct store *, int64_t id, const char *text, size_t n, struct err *);
int  index_remove(struct store *, int64_t id, const char *text, size_t n, struct err *);
int  index_rebuild(struct db *, struct err *);
/* Rewrite it without what was removed: removing only notes it. */
int  index_purge(struct store *, struct err *);

#endif
