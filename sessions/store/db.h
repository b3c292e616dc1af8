/* sessions/store/db.h - a careful way to SQLite, shared by chat.db and kv.db.
 *
 * A database file is 0600 before SQLite first sees it, opened with everything off that a hostile file could use
 * (triggers, views, trusted schema, memory maps, long statements), and every error becomes one sentence that
 * names the file.  Statements are prepared once: the text of the SQL, which must be a literal, is the key. */
#ifndef WEIR_SESSIONS_DB_H
#define WEIR_SESSIONS_DB_H

#include "engine/base/base.h"

#include <sqlite3.h>

#define DB_BUSY_MS 5000             /* a writer beside readers */
#define DB_GATE_MS 60000            /* another process changes it: to index a book, or to save a snapshot on a slow disk, takes seconds */
#define DB_READER_MS 1000           /* a reader beside a writer that is just closing or saving: somebody may be at a screen */
/* Bytes of one value: a document of DOC_BYTES_MAX that was read as Windows-1252 has up to 192 MiB. */
#define DB_VALUE_MAX (256u << 20)

/* A lock among processes: a byte range of a file, locked while a database is changed. */
struct gate { int fd; int64_t at; int depth; };

struct db {
	sqlite3 *h;
	struct gate *gate;              /* what every change waits for; NULL = nothing */
	int inside;                     /* a transaction of this connection is in it */
	char *path;
	int read_only;
	int code;                       /* extended SQLite code of the error that was reported last */
	struct db_cached { const char *sql; sqlite3_stmt *st; int busy; } cached[80];
};

/* Open, and create unless read_only.  Refused: a symbolic link, a file of somebody else, one with a second name,
 * no file.
 * Journal mode, synchronous, page size and checks of the content are the caller's.  read_only falls
 * back to a snapshot of the file where not even the shared memory of WAL can be made (a read-only directory, a full
 * disk), if nobody can be writing. */
int  db_open(struct db *, const char *path, const char *vfs, int read_only, struct err *);
/* An empty one that is on no disk. */
int  db_open_memory(struct db *, struct err *);
void db_close(struct db *);         /* a zeroed struct is fine */

/* *e from what SQLite said last; doing: "open", "save in", "read" ..., a verb before the file's name.  Returns -1. */
int  db_error(struct db *, const char *doing, struct err *);
/* Is it an error of the file's content (not of the disk, of memory or of rights)?  Callers keep to all
 * constraints and to the schema, so that breaking one is damage, too: a search index with zeroed pages gives
 * such errors. */
int  db_damaged(const struct db *);
/* The same for a search index, which is made anew from the texts: there "no memory" and "too big" are damage, too, since a damaged row
 * can claim any length. */
int  db_index_damaged(const struct db *);

/* Statements whose rows, if any, do not matter: pragmas, DDL. */
int  db_exec(struct db *, const char *sql, struct err *);
/* First column of the first row; 0 when there is none. */
int  db_number(struct db *, const char *sql, int64_t *out, struct err *);

/* Prepared statements.  types, one letter an argument: i int64_t, d double, t text that ends with NUL (NULL:
 * SQL's null), s text and its size_t length, b bytes and their size_t length, n null without an argument.  Bytes
 * must live until db_put(). */
sqlite3_stmt *db_get(struct db *, const char *sql, struct err *);
void db_put(struct db *, sqlite3_stmt *);            /* NULL is fine */
sqlite3_stmt *db_query(struct db *, struct err *, const char *sql, const char *types, ...);
/* 1 = a row is there, 0 = no more, -1 = error. */
int  db_step(struct db *, sqlite3_stmt *, struct err *);
/* A statement that gives no rows, from begin to end. */
int  db_run(struct db *, struct err *, const char *sql, const char *types, ...);
/* One number: 1 and *out, 0 = no row, -1. */
int  db_find(struct db *, struct err *, int64_t *out, const char *sql, const char *types, ...);

/* A column as text that is never NULL; as bytes with their length (as text or as it is); as a number that fits. */
const char *db_text(sqlite3_stmt *, int column);
const void *db_bytes(sqlite3_stmt *, int column, int blob, size_t *n);
int32_t db_small(int64_t);          /* 0 .. INT32_MAX */

/* A transaction that may write.  db_end() commits when rc is 0, else rolls back; returns rc, or -1 when
 * committing failed. */
int  db_begin(struct db *, struct err *);
int  db_end(struct db *, int rc, struct err *);

/* Wait until no other process changes the database, and keep others from it until db_gate_leave(); can be nested.
 * NULL: nothing is locked. */
int  db_gate_enter(struct gate *, const char *path, struct err *);
void db_gate_leave(struct gate *);
/* A range of a file as a lock that ends with the open file: 1 = taken, 0 = somebody else has it, -1 = errno. */
int  range_lock(int fd, int64_t at, int64_t n);
void range_unlock(int fd, int64_t at, int64_t n);

#endif
