/* sessions/store/db.h - SQLite for chat.db and kv.db.
 *
 * A database file has mode 0600 before SQLite opens it. Features that a hostile file could use are off: triggers,
 * views, trusted schema, memory maps, long statements. Every error is one sentence that names the file. Prepared
 * statements are cached; the key is the address of the SQL text, so the text must be a literal. */
#ifndef WEIR_SESSIONS_DB_H
#define WEIR_SESSIONS_DB_H

#include "engine/base/base.h"

#include <sqlite3.h>

#define DB_BUSY_MS   5000  /* how long a writer waits for readers to finish */
#define DB_GATE_MS   60000 /* how long a change waits for another process to end its change */
#define DB_READER_MS 1000  /* how long a reader waits for a writer; short, because a user waits */
/* Largest value in bytes.  The largest text to store: a document of DOC_BYTES_MAX bytes, converted from Windows-1252
 * to UTF-8, has up to 192 MiB. */
#define DB_VALUE_MAX (256u << 20)

/* A lock between processes, held while a database is changed: byte `at` of file fd. depth: how often this process has
 * entered. */
struct gate {
	int fd;
	int64_t at;
	int depth;
};

struct db {
	sqlite3 *h;
	struct gate *gate; /* lock that every transaction takes; NULL = none */
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

/* Open a database file; create it if it is missing, unless read_only.  Symbolic links, files of other users and files
 * with a second hard link are refused.  The caller sets the pragmas and checks the content.  With read_only, a file
 * whose WAL index cannot be created (read-only directory, full disk) is opened as immutable if no process can be
 * writing it. */
int db_open(struct db *, const char *path, const char *vfs, int read_only, struct err *);
/* Open an empty database in memory. */
int db_open_memory(struct db *, struct err *);
void db_close(struct db *); /* legal on a zeroed struct */

/* Set *e from SQLite's last error; doing is the verb before the file's name: "open", "save in", "read" ...
 * Returns -1. */
int db_error(struct db *, const char *doing, struct err *);
/* 1 if the last error means a damaged file, not a failing disk, missing memory or missing rights.  Callers keep to
 * the schema and its constraints, so a violated constraint is damage, too: a search index with zeroed pages
 * reports one. */
int db_damaged(const struct db *);
/* Like db_damaged(), for a search index, which can be rebuilt. "No memory" and "too big" count as damage, too,
 * because a damaged row can state any length. */
int db_index_damaged(const struct db *);

/* Run statements without arguments and ignore their rows: pragmas, DDL. */
int db_exec(struct db *, const char *sql, struct err *);
/* *out = first column of the first row, or 0 without a row. */
int db_number(struct db *, const char *sql, int64_t *out, struct err *);

/* Prepared statements.  types has one letter for each argument: i int64_t; d double; t NUL-terminated text (NULL:
 * SQL's null); s text and its size_t length; b bytes and their size_t length; n null, without an argument.  Text
 * and bytes must live until db_put(). */
sqlite3_stmt *db_get(struct db *, const char *sql, struct err *);
void db_put(struct db *, sqlite3_stmt *); /* NULL is allowed */
sqlite3_stmt *db_query(struct db *, struct err *, const char *sql, const char *types, ...);
/* 1 = a row, 0 = no more rows, -1. */
int db_step(struct db *, sqlite3_stmt *, struct err *);
/* Run a statement to its end and ignore its rows. */
int db_run(struct db *, struct err *, const char *sql, const char *types, ...);
/* *out = first column of the first row: 1, 0 = no row, -1. */
int db_find(struct db *, struct err *, int64_t *out, const char *sql, const char *types, ...);

/* Read a column. db_text(): as NUL-terminated text, never NULL. db_bytes(): as bytes and their number; blob = 0: as
 * text. db_small() clamps a number to 0 .. INT32_MAX. */
const char *db_text(sqlite3_stmt *, int column);
const void *db_bytes(sqlite3_stmt *, int column, int blob, size_t *n);
int32_t db_small(int64_t); /* 0 .. INT32_MAX */

/* Begin and end a writing transaction.  db_end() commits if rc is 0, else rolls back; returns rc, or -1 if the
 * commit failed. */
int db_begin(struct db *, struct err *);
int db_end(struct db *, int rc, struct err *);

/* Take the gate: wait until no other process changes the database, and keep others out until db_gate_leave().
 * Calls nest.  A gate of NULL does nothing. */
int db_gate_enter(struct gate *, const char *path, struct err *);
void db_gate_leave(struct gate *);
/* Lock a byte range; closing the file unlocks it.  1 = locked, 0 = another process has it, -1 = see errno. */
int range_lock(int fd, int64_t at, int64_t n);
void range_unlock(int fd, int64_t at, int64_t n);

#endif
