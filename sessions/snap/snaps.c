/* sessions/snap/snaps.c - opens kv.db, creates its schema, and replaces an unusable file.
 *
 * Everything in kv.db can be computed again, so damage is never repaired. A file that SQLite cannot use, or that
 * another version of weir wrote, is renamed, and a new one is created. The user is told so.
 *
 * kv.db has a rollback journal, not a WAL, so that a save writes its bytes only once: chunks are written to new or free
 * pages, which need no copy in the journal. Pages have 8 KiB. Larger pages would make each save write more: it also
 * writes about twelve pages of B-trees and free lists, most of them twice. Loading was measured as equally fast with
 * pages of 8, 16, 32 and 64 KiB. */
#include "sessions/snap/snap_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define BUDGET_DEFAULT ((uint64_t)8 << 30)

/* The schema. A file whose schema differs in any word was not made by this version of weir. */
static const char *const schema[] = {
	"CREATE TABLE about(name TEXT PRIMARY KEY, value) WITHOUT ROWID",
	"CREATE TABLE chunk(key BLOB PRIMARY KEY, id INTEGER, depth INTEGER, bytes INTEGER, used INTEGER) WITHOUT ROWID",
	"CREATE TABLE head(id INTEGER PRIMARY KEY, session INTEGER, message INTEGER, done INTEGER, tokens INTEGER, "
	"chunks INTEGER, bytes INTEGER, tail INTEGER, used INTEGER, fingerprint BLOB)",
	"CREATE TABLE identity(fingerprint BLOB PRIMARY KEY, text BLOB) WITHOUT ROWID",
	"CREATE TABLE need(head INTEGER, chunk INTEGER, PRIMARY KEY(head, chunk)) WITHOUT ROWID",
	"CREATE TABLE part(id INTEGER PRIMARY KEY, sum INTEGER, data BLOB)",
	"CREATE TABLE weights(device INTEGER, inode INTEGER, size INTEGER, mtime INTEGER, ctime INTEGER, hash BLOB, "
	"sum INTEGER, PRIMARY KEY(device, inode)) WITHOUT ROWID",
	"CREATE TABLE zero(data BLOB)",
};
enum { N_SCHEMA = LEN(schema) };

int64_t snaps_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static uint64_t disk_free(const char *dir)
{
	struct statvfs v;
	uint64_t n;

	/* if the free space is unknown, let saves try, because on a full disk they fail with an error */
	if (statvfs(dir, &v) || !v.f_blocks || size_mul(v.f_bavail, v.f_frsize, &n))
		return UINT64_MAX;
	return n;
}

int snaps_writable(const struct snaps *s, struct err *e)
{
	if (s->db.read_only)
		return err_set(e, ERR_FAIL, "'%s' can only be read; nothing is saved", s->path);
	if (!s->db.h)
		return err_set(e, ERR_FAIL, "'%s' could not be begun anew; nothing is saved until the next start",
		               s->path);
	return 0;
}

int snaps_stage(struct snaps *s, uint64_t n, struct err *e)
{
	if (n <= s->staging_cap)
		return 0;
	free(s->staging);
	s->staging_cap = 0;
	s->staging = try_alloc(n, 1, "KV entries of a snapshot", e);
	if (!s->staging)
		return -1;
	s->staging_cap = n;
	return 0;
}

/* ---- opening ---- */

/* Set SQLite's options for the connection, and for the file if it is still empty. */
static int configure(struct snaps *s, struct err *e)
{
	char sql[64];

	/* Refuse rows longer than any that this program writes. */
	sqlite3_limit(s->db.h, SQLITE_LIMIT_LENGTH, PART_BYTES + (1 << 20));
	/* if SQLite cannot open a file for writing, it opens it for reading, without an error */
	if (sqlite3_db_readonly(s->db.h, "main") == 1)
		s->db.read_only = 1;
	snprintf(sql, sizeof sql, "PRAGMA page_size=%d", PAGE_BYTES);
	/* FAST overwrites deleted bytes in pages that are still in use, because that needs no additional writes.
	 * snaps_scrub() overwrites freed pages when a session is deleted. */
	if (db_exec(&s->db, "PRAGMA secure_delete=FAST", e) || db_exec(&s->db, "PRAGMA cache_size=-4096", e))
		return -1;
	/* keep changed pages in memory until the commit: to write a page earlier, SQLite would have to sync the journal
	 * first */
	if (db_exec(&s->db, "PRAGMA cache_spill=OFF", e))
		return -1;
	if (s->db.read_only)
		return 0;
	if (db_exec(&s->db, sql, e) || db_exec(&s->db, "PRAGMA auto_vacuum=INCREMENTAL", e) ||
	    db_exec(&s->db, "PRAGMA journal_mode=TRUNCATE", e) || db_exec(&s->db, "PRAGMA synchronous=FULL", e))
		return -1;
	return 0;
}

static int make_schema(struct snaps *s, struct err *e)
{
	char sql[96];
	int rc;

	if (db_begin(&s->db, e))
		return -1;
	snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d", SNAPS_APPLICATION, SNAPS_VERSION);
	rc = db_exec(&s->db, sql, e);
	for (int i = 0; i < N_SCHEMA && !rc; i++)
		rc = db_exec(&s->db, schema[i], e);
	if (!rc)
		rc = db_run(&s->db, e, "INSERT INTO about VALUES('store', ?)", "b", s->store->id, sizeof s->store->id);
	return db_end(&s->db, rc, e);
}

/* 1 if the file's schema equals this program's schema word for word; 0 if not; -1 on error. */
static int schema_right(struct snaps *s, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name", "");
	int n = 0, rc = -1, right = 1;

	while (st && (rc = db_step(&s->db, st, e)) > 0) {
		const char *sql = (const char *)sqlite3_column_text(st, 0);
		right = right && n < N_SCHEMA && sql && !strcmp(sql, schema[n]);
		n++;
	}
	db_put(&s->db, st);
	return rc < 0 ? -1 : right && n == N_SCHEMA;
}

/* 1 if the write version in the file's header (byte 18) is invalid: SQLite opens such a file for reading only, without
 * an error. */
static int write_format_damaged(const struct snaps *s)
{
	int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	unsigned char format = 0;
	int damaged = fd >= 0 && pread(fd, &format, 1, 18) == 1 && format > 2;

	if (fd >= 0)
		close(fd);
	return damaged;
}

enum verdict { GOOD, EMPTY, FOREIGN, OLDER, NEWER, DAMAGED, OTHER_STORE, FAILED };

/* Find out whether the file that was opened can be used (enum verdict). */
static enum verdict classify(struct snaps *s, struct err *e)
{
	int64_t application, version, tables, same;
	int rc;

	if (db_number(&s->db, "PRAGMA application_id", &application, e) ||
	    db_number(&s->db, "PRAGMA user_version", &version, e) ||
	    db_number(&s->db, "SELECT count(*) FROM sqlite_schema", &tables, e))
		return db_damaged(&s->db) ? DAMAGED : FAILED;
	if (!application && !version && !tables)
		return EMPTY;
	if (application != SNAPS_APPLICATION)
		return FOREIGN;
	if (version != SNAPS_VERSION)
		return version < SNAPS_VERSION ? OLDER : NEWER;
	rc = schema_right(s, e);
	if (rc <= 0)
		return rc && !db_damaged(&s->db) ? FAILED : DAMAGED;
	rc = db_find(&s->db, e, &same, "SELECT value IS ? FROM about WHERE name = 'store'", "b", s->store->id,
	             sizeof s->store->id);
	if (rc < 0)
		return db_damaged(&s->db) ? DAMAGED : FAILED;
	return rc && same ? GOOD : OTHER_STORE;
}

/* Set s->serial, the next row number of the tables chunk and head, to a number that is larger than all numbers in use.
 * The numbers in table `part` count, too, because after damage this table may have bytes whose owner is missing. */
int snaps_read_serial(struct snaps *s, struct err *e)
{
	int64_t part = 0, head = 0, chunk = 0;

	if (db_number(&s->db, "SELECT max(id) FROM part", &part, e) ||
	    db_number(&s->db, "SELECT max(id) FROM head", &head, e) ||
	    db_number(&s->db, "SELECT max(id) FROM chunk", &chunk, e))
		return -1;
	s->serial = part >> PART_BITS;
	s->serial = MAX(head, s->serial);
	s->serial = MAX(chunk, s->serial);
	if (s->serial < 0 || s->serial > SERIAL_MOST) {
		s->db.code = SQLITE_CORRUPT;
		return err_set(e, ERR_FAIL, "'%s' is damaged: a row has a number beyond all limits", s->path);
	}
	s->serial++;
	return 0;
}

/* Finish what a crash has interrupted: delete unfinished snapshots, delete KV entries that no snapshot needs and that
 * were saved more than a day ago, overwrite free pages. */
static int finish_interrupted(struct snaps *s, struct err *e)
{
	int64_t work;

	if (db_find(&s->db, e, &work,
	            "SELECT EXISTS(SELECT 1 FROM head WHERE done = 0) OR EXISTS(SELECT 1 FROM chunk WHERE used < ? "
	            "AND id NOT IN (SELECT chunk FROM need))",
	            "i", snaps_now() - 86400000) < 0)
		return -1;
	if (work) {
		if (snaps_begin(s, e) || db_end(&s->db, snaps_sweep(s, 0, e), e))
			return -1;
	}
	if (db_number(&s->db, "SELECT value FROM about WHERE name = 'scrub'", &work, e))
		return -1;
	return work ? snaps_scrub(s, e) : 0;
}

/* ---- putting aside ---- */

/* Rename an unusable kv.db, and set *where to the new name. Its journal is renamed or deleted, too, because SQLite
 * would play it back into the new file. A file that is not weir's gets a name that is not in use. Any other file gets
 * the name kv.db.aside, and replaces an earlier kv.db.aside. */
static int put_aside(struct snaps *s, enum verdict v, struct str *where, struct err *e)
{
	static const char *const suffix[] = { "-journal", "-wal", "-shm" };
	struct stat st;
	int rc = 0;

	str_clear(where);
	str_addf(where, "%s.%s", s->path, v == FOREIGN ? "foreign" : "aside");
	for (int i = 1; v == FOREIGN && i < 100 && !lstat(where->p, &st); i++) {
		str_clear(where);
		str_addf(where, "%s.foreign.%d", s->path, i);
	}
	if (rename(s->path, where->p))
		return err_set(e, ERR_FAIL, "'%s' cannot be used and cannot be moved away: %s", s->path,
		               strerror(errno));
	for (size_t i = 0; i < LEN(suffix); i++) {
		struct str from = { 0 }, to = { 0 };

		str_addf(&from, "%s%s", s->path, suffix[i]);
		str_addf(&to, "%s%s", where->p, suffix[i]);
		/* Delete the journal of a damaged kv.db. If the file is not weir's, rename its journal instead. */
		if (v == FOREIGN ? rename(from.p, to.p) : unlink(from.p))
			if (errno != ENOENT)
				rc = err_set(e, ERR_FAIL, "'%s' is in the way and cannot be moved: %s", from.p,
				             strerror(errno));
		str_free(&from);
		str_free(&to);
	}
	return rc;
}

static const char *verdict_text(enum verdict v)
{
	switch (v) {
	case FOREIGN: return "is not a file of snapshots";
	case OLDER: return "was written by an older weir";
	case NEWER: return "was written by a newer weir";
	case OTHER_STORE: return "belongs to another chat.db";
	default: return "is damaged";
	}
}

static enum verdict open_once(struct snaps *s, struct err *e)
{
	enum verdict v;
	struct stat st;

	if (db_open(&s->db, s->path, s->vfs, s->store->read_only, e) || configure(s, e))
		v = db_damaged(&s->db) ? DAMAGED : FAILED;
	else
		v = classify(s, e);
	if (s->db.h && !s->store->read_only)
		s->db.gate = &s->store->gate[1];
	if (!lstat(s->path, &st)) {
		s->device = st.st_dev;
		s->inode = st.st_ino;
	}
	if (v == GOOD && s->db.read_only && !s->store->read_only && write_format_damaged(s))
		v = DAMAGED;
	if (v == EMPTY && !s->db.read_only)
		v = make_schema(s, e) ? FAILED : GOOD;
	if (v == GOOD && (snaps_read_serial(s, e) || (!s->db.read_only && finish_interrupted(s, e))))
		v = db_damaged(&s->db) ? DAMAGED : FAILED;
	if (v != GOOD)
		db_close(&s->db);
	return v;
}

static int begin_anew(struct snaps *s, enum verdict v, struct str *notice, struct err *e)
{
	struct str where = { 0 };
	int rc = -1;

	if (!put_aside(s, v, &where, e)) {
		if (notice)
			str_addf(notice,
			         "'%s' %s: it was put aside as '%s' and begun anew, conversations are read again\n",
			         s->path, verdict_text(v), strrchr(where.p, '/') ? strrchr(where.p, '/') + 1 : where.p);
		rc = open_once(s, e) == GOOD ? 0 : -1;
	}
	str_free(&where);
	return rc;
}

/* 1 if the name kv.db still belongs to the open file, because no other process has replaced it. */
static int has_name(const struct snaps *s)
{
	struct stat st;

	return !lstat(s->path, &st) && st.st_ino == s->inode && st.st_dev == s->device;
}

static int renew(struct snaps *s, struct str *notice, struct err *e)
{
	struct gate *gate = &s->store->gate[1];
	struct err why = { 0 };
	int other, failed;

	if (db_gate_enter(gate, s->path, e))
		return -1;
	other = !has_name(s);
	db_close(&s->db);
	s->n_used = s->ruined = 0;
	failed = !(other && open_once(s, &why) == GOOD) && begin_anew(s, DAMAGED, notice, &why);
	db_gate_leave(gate);
	return failed ? err_set(e, ERR_FAIL, "'%s' is damaged and could not be begun anew: %s", s->path, why.msg) : 0;
}

void snaps_start(struct snaps *s)
{
	struct gate *gate = &s->store->gate[1];

	s->db.code = 0;
	if (!s->db.h || s->db.read_only || has_name(s) || db_gate_enter(gate, s->path, NULL))
		return;
	db_close(&s->db);
	s->n_used = s->ruined = 0;
	open_once(s, NULL);
	db_gate_leave(gate);
}

int snaps_begin(struct snaps *s, struct err *e)
{
	int rc;

	if (db_gate_enter(s->db.gate, s->path, e)) {
		s->db.code = SQLITE_BUSY;
		return -1;
	}
	rc = has_name(s)
	             ? db_begin(&s->db, e)
	             : err_set(e, ERR_FAIL, "'%s' was put aside by another weir; nothing is saved this time", s->path);
	if (!rc && snaps_read_serial(s, e))
		rc = db_end(&s->db, -1, e);
	db_gate_leave(s->db.gate);
	return rc;
}

int snaps_renew(struct snaps *s, struct err *e)
{
	return renew(s, NULL, e);
}

int snaps_failed(struct snaps *s, struct err *e)
{
	struct str said = { 0 };

	if (!s->db.h)
		return -1;
	if ((s->db.code & 0xff) == SQLITE_FULL)
		return err_set(e, ERR_FIT, "no room for a snapshot: the disk of '%s' is full; the older one stays",
		               s->path);
	if (!db_damaged(&s->db) || s->db.read_only)
		return -1;
	if (!renew(s, &said, e))
		err_set(e, ERR_FAIL, "%.*s", (int)said.n - 1, said.p);
	str_free(&said);
	return -1;
}

static uint64_t budget_default(const struct snaps *s)
{
	uint64_t room = s->disk_free(store_dir(s->store)), own = 0;
	struct stat st;

	if (!stat(s->path, &st))
		own = (uint64_t)st.st_size;
	room = room > UINT64_MAX - own ? UINT64_MAX : room + own;
	return room / 10 < BUDGET_DEFAULT ? room / 10 : BUDGET_DEFAULT;
}

int snaps_open(struct snaps **out, struct store *store, const struct snaps_options *o, struct str *notice,
               struct err *e)
{
	struct snaps *s = xcalloc(1, sizeof *s);
	struct gate *gate = store->read_only ? NULL : &store->gate[1];
	struct err why = { 0 };
	struct stat st;
	enum verdict v;

	s->store = store;
	s->disk_free = disk_free;
	s->path = store_path(store, SNAPS_FILE);
	if (o && o->vfs)
		s->vfs = xstrndup(o->vfs, strlen(o->vfs));
	v = store->read_only && lstat(s->path, &st) && errno == ENOENT ? EMPTY
	    : db_gate_enter(gate, s->path, &why)                       ? FAILED
	                                                               : open_once(s, &why);
	/* if the store is read-only and has no kv.db, there are no snapshots */
	if (v == EMPTY && store->read_only) {
		s->db.read_only = 1;
		*out = s;
		return 0;
	}
	if (v == GOOD || (v != FAILED && v != EMPTY && !store->read_only && !begin_anew(s, v, notice, &why))) {
		if (gate && gate->depth)
			db_gate_leave(gate);
		s->budget = o && o->budget ? o->budget : budget_default(s);
		*out = s;
		return 0;
	}
	if (gate && gate->depth)
		db_gate_leave(gate);
	if (v != FAILED && !why.code)
		err_set(&why, ERR_FAIL, "'%s' %s", s->path, verdict_text(v));
	if (e)
		*e = why;
	snaps_close(s);
	return -1;
}

void snaps_close(struct snaps *s)
{
	if (!s)
		return;
	/* store the times at which snapshots were loaded, and ignore errors: the times only decide what is deleted
	 * first */
	if (s->db.h && !s->db.read_only && s->n_used && !snaps_begin(s, NULL)) {
		int rc = 0;
		for (int i = 0; i < s->n_used && !rc; i++)
			rc = db_run(&s->db, NULL, "UPDATE head SET used = ? WHERE id = ?", "ii", s->used[i].at,
			            s->used[i].head);
		db_end(&s->db, rc, NULL);
	}
	db_close(&s->db);
	free(s->staging);
	free(s->packed);
	str_free(&s->identity);
	str_free(&s->entries_identity);
	free(s->path);
	free(s->vfs);
	free(s);
}
