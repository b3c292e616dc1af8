/* sessions/store/db.h - opens and uses SQLite databases: chat.db and kv.db.
 *
 * A database file gets mode 0600 before SQLite opens it. SQLite features that a hostile file could use are off,
 * such as triggers, views and memory-mapped I/O. Every error is one sentence that names the file. Prepared
 * statements are cached under the address of their SQL text, which therefore must be a string literal. */
#ifndef WEIR_SESSIONS_DB_H
#define WEIR_SESSIONS_DB_H

#include "engine/base/base.h"

#include <sqlite3.h>

#define DB_BUSY_MS   5000  /* busy timeout of a writer, in milliseconds */
#define DB_GATE_MS   60000 /* maximum time to wait, in milliseconds, while another process changes the database */
#define DB_READER_MS 1000  /* busy timeout of a reader, in milliseconds; it is short, because a user waits */
/* Maximum size of a text or BLOB in bytes. The largest text is that of a document: a file of DOC_BYTES_MAX bytes (64
 * MiB) in Windows-1252 becomes up to 192 MiB of UTF-8. */
#define DB_VALUE_MAX (256u << 20)

/* Lock between processes, held while a database is changed: a lock on byte `at` of file fd. Calls of db_gate_enter()
 * nest; `depth` is the number of open calls. */
struct gate {
	int fd;
	int64_t at;
	int depth;
};

struct db {
	sqlite3 *h;
	struct gate *gate; /* the gate that is held during every writing transaction; NULL = none */
	int inside;        /* 1: a transaction of this connection is open */
	char *path;
	int read_only;
	int code; /* extended SQLite code of the last error */
	struct db_cached {
		const char *sql;
		sqlite3_stmt *st;
		int busy;
	} cached[80];
};

/* Open a database file. If it is missing, create it, unless read_only. Symbolic links, files of other users and files
 * with a second hard link are refused. If `vfs` is NULL, SQLite's default is used. The caller sets the journal mode and
 * checks the content.
 *
 * A read-only database is opened as immutable if two conditions hold: no process can be writing it, and the index file
 * of WAL mode (-shm) cannot be created (read-only directory, full disk). */
int db_open(struct db *, const char *path, const char *vfs, int read_only, struct err *);
/* Open an empty database in memory. */
int db_open_memory(struct db *, struct err *);
void db_close(struct db *); /* may be called on a zeroed struct */

/* Set *e to a sentence about SQLite's last error: "cannot DOING 'FILE': REASON".  `doing` is a verb: "open", "save in",
 * "read".  Returns -1. */
int db_error(struct db *, const char *doing, struct err *);
/* 1 if the last error means that the file is damaged; 0 for a failing disk, missing memory or missing rights. A
 * violated constraint counts as damage, because only a damaged search index reports one. */
int db_damaged(const struct db *);
/* 1 if the last error of a statement on a search index means damage. In contrast to db_damaged(), "out of memory" and
 * "too big" count as damage, because a damaged index can contain any length. */
int db_index_damaged(const struct db *);

/* Run SQL statements without arguments, such as pragmas and DDL; the rows that they return are ignored. */
int db_exec(struct db *, const char *sql, struct err *);
/* Run a query. *out receives the first column of its first row, or 0 if there is no row. */
int db_number(struct db *, const char *sql, int64_t *out, struct err *);

/* Prepared statements. db_query() returns a statement with its arguments bound, or NULL on error. The caller gives the
 * statement back with db_put(). types has one letter for each argument:
 *
 *     i  int64_t;
 *     d  double;
 *     s  text and its length (size_t);
 *     b  BLOB and its length (size_t);
 *     t  NUL-terminated text, or NULL;
 *     n  SQL's NULL, without an argument.
 *
 * Texts and BLOBs are not copied: they must stay valid until db_put(). */
void db_put(struct db *, sqlite3_stmt *); /* the statement may be NULL */
sqlite3_stmt *db_query(struct db *, struct err *, const char *sql, const char *types, ...);
/* Fetch the next row of the statement. Returns 1 if there is one, 0 if no row is left, -1 on error. */
int db_step(struct db *, sqlite3_stmt *, struct err *);
/* Run a statement to its end and ignore its rows. */
int db_run(struct db *, struct err *, const char *sql, const char *types, ...);
/* Run a query with arguments. *out receives the first column of its first row. Returns 1 if there is a row, 0 if there
 * is none, -1 on error. */
int db_find(struct db *, struct err *, int64_t *out, const char *sql, const char *types, ...);

/* Read a column of the current row.  db_text() returns NUL-terminated text.  db_bytes() returns text (blob = 0) or a
 * BLOB (blob = 1), and its length in *n.  Both return "" for SQL's NULL. */
const char *db_text(sqlite3_stmt *, int column);
const void *db_bytes(sqlite3_stmt *, int column, int blob, size_t *n);
int32_t db_small(int64_t); /* return the number, limited to the range from 0 to INT32_MAX */

/* Begin and end a writing transaction.  db_end() commits if rc is 0, and rolls back otherwise.  It returns rc, or -1
 * if the commit failed. */
int db_begin(struct db *, struct err *);
int db_end(struct db *, int rc, struct err *);

/* Enter and leave a section in which no other process changes the database. Entering waits up to DB_GATE_MS
 * milliseconds. `path` is for the error message. Calls nest. If the gate is NULL, nothing is locked. */
int db_gate_enter(struct gate *, const char *path, struct err *);
void db_gate_leave(struct gate *);
/* Lock n bytes of a file from offset `at`; closing the file unlocks them.  Returns 1 if they are locked; 0 if another
 * process has a lock on some of them; -1 on error, with errno set. */
int range_lock(int fd, int64_t at, int64_t n);
void range_unlock(int fd, int64_t at, int64_t n);

#endif
