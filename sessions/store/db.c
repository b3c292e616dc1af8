/* sessions/store/db.c - opens SQLite databases safely, caches statements, and turns errors into sentences.
 *
 * A database file is not trusted: another program or a failing disk may have changed it. A schema can contain code:
 * triggers, views, functions. So before the connection reads the schema, it is configured not to run such code. */
#include "sessions/store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernels/os.h"

/* ---- errors ---- */

/* Return the path for error messages. A long path is shown by its last 160 bytes only, so that the reason of the error
 * still fits. */
static const char *shown_path(const struct db *d)
{
	size_t n = d->path ? strlen(d->path) : 0;

	return !n ? "memory" : n > 160 ? d->path + n - 160 : d->path;
}

int db_damaged(const struct db *d)
{
	int code = d->code & 0xff;

	return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_FORMAT || code == SQLITE_CONSTRAINT ||
	       code == SQLITE_ERROR || code == SQLITE_MISMATCH;
}

int db_index_damaged(const struct db *d)
{
	return db_damaged(d) || (d->code & 0xff) == SQLITE_NOMEM || (d->code & 0xff) == SQLITE_TOOBIG;
}

int db_error(struct db *d, const char *doing, struct err *e)
{
	int code = d->h ? sqlite3_extended_errcode(d->h) : SQLITE_NOMEM;
	int os = d->h ? sqlite3_system_errno(d->h) : 0;
	const char *file = shown_path(d);

	d->code = code;
	switch (code & 0xff) {
	case SQLITE_FULL:
		return err_set(e, ERR_FAIL, "cannot %s '%s': the disk is full; nothing was changed", doing, file);
	case SQLITE_NOMEM: return err_set(e, ERR_FIT, "cannot %s '%s': no memory", doing, file);
	case SQLITE_TOOBIG:
		return err_set(e, ERR_FIT, "cannot %s '%s': more than the limit of %u bytes at once", doing, file,
		               DB_VALUE_MAX);
	case SQLITE_NOTADB:
		return err_set(e, ERR_FAIL,
		               "cannot %s '%s': it is damaged, or no database; nothing was changed: move it away to "
		               "begin anew",
		               doing, file);
	case SQLITE_CORRUPT:
	case SQLITE_FORMAT:
		return err_set(e, ERR_FAIL, "cannot %s '%s': it is damaged (%s); 'weir sessions check' says more",
		               doing, file, sqlite3_errmsg(d->h));
	case SQLITE_READONLY:
		if (code == SQLITE_READONLY_ROLLBACK)
			return err_set(
				e, ERR_FAIL,
				"cannot %s '%s': a change was interrupted and must be undone first; start weir once",
				doing, file);
		return err_set(e, ERR_FAIL, "cannot %s '%s': it is not writable; nothing was changed", doing, file);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_set(e, ERR_FAIL, "cannot %s '%s': another process is using it; try again", doing, file);
	case SQLITE_CANTOPEN:
	case SQLITE_IOERR:
		if (os == ENOSPC)
			return err_set(e, ERR_FAIL, "cannot %s '%s': the disk is full; nothing was changed", doing,
			               file);
		return err_set(e, ERR_FAIL, "cannot %s '%s': %s", doing, file,
		               os ? strerror(os) : sqlite3_errmsg(d->h));
	default: return err_set(e, ERR_FAIL, "cannot %s '%s': %s", doing, file, sqlite3_errmsg(d->h));
	}
}

/* ---- opening ---- */

/* Create the file with mode 0600. If it exists, check it and its -wal, -shm and -journal files: each must be a
 * regular file of this user with one link. The rights of group and others are removed. If read_only is 1, only the
 * database file is checked. Existing files are not opened: close() would drop the POSIX locks that SQLite has on
 * them. */
static int file_prepare(const struct db *d, int read_only, struct err *e)
{
	static const char *const beside[] = { "-wal", "-shm", "-journal" };
	struct stat st;
	int fd;

	if (!read_only) {
		fd = open(d->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0) {
			int bad = fchmod(fd, 0600);
			close(fd);
			if (bad)
				return err_set(e, ERR_FAIL, "cannot set the mode of '%s': %s", shown_path(d),
				               strerror(errno));
			return 0;
		}
		if (errno != EEXIST)
			return err_set(e, ERR_FAIL, "cannot make '%s': %s", shown_path(d), strerror(errno));
	}
	if (lstat(d->path, &st))
		return err_set(e, ERR_FAIL, "cannot open '%s': %s", shown_path(d), strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_FAIL, "refused to open '%s': it is %s", shown_path(d),
		               S_ISLNK(st.st_mode) ? "a symbolic link" : "not a regular file");
	if (st.st_uid != geteuid())
		return err_set(e, ERR_FAIL, "refused to open '%s': it belongs to another user (%u)", shown_path(d),
		               (unsigned)st.st_uid);
	if (st.st_nlink > 1)
		return err_set(e, ERR_FAIL,
		               "refused to open '%s': it has a second name (hard link), which SQLite cannot guard; "
		               "remove one",
		               shown_path(d));
	if (read_only)
		return 0;
	if ((st.st_mode & 077) && chmod(d->path, st.st_mode & 0700))
		return err_set(e, ERR_FAIL, "cannot set the mode of '%s': %s", shown_path(d), strerror(errno));
	for (size_t i = 0; i < LEN(beside); i++) {
		struct str path = { 0 };
		int bad = 0;

		str_addf(&path, "%s%s", d->path, beside[i]);
		if (!lstat(path.p, &st)) {
			if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink > 1)
				bad = err_set(e, ERR_FAIL,
				              "refused to open '%s': '%s' beside it is not a plain file of yours",
				              shown_path(d), beside[i]);
			else if ((st.st_mode & 077) && chmod(path.p, 0600))
				bad = err_set(e, ERR_FAIL, "cannot set the mode of '%s%s': %s", shown_path(d),
				              beside[i], strerror(errno));
		}
		str_free(&path);
		if (bad)
			return -1;
	}
	return 0;
}

/* Configure the connection. Call before the first statement, because preparing a statement reads the schema. */
static int configure(struct db *d, struct err *e)
{
	static const struct {
		int what, value;
	} config[] = {
		{ SQLITE_DBCONFIG_DEFENSIVE, 1 },
		{ SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
		{ SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
		{ SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
		{ SQLITE_DBCONFIG_DQS_DML, 0 },
		{ SQLITE_DBCONFIG_DQS_DDL, 0 },
		{ SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
	};
	static const struct {
		int what, value;
	} limit[] = {
		{ SQLITE_LIMIT_LENGTH, DB_VALUE_MAX }, { SQLITE_LIMIT_SQL_LENGTH, 100000 },
		{ SQLITE_LIMIT_COLUMN, 100 },          { SQLITE_LIMIT_EXPR_DEPTH, 100 },
		{ SQLITE_LIMIT_COMPOUND_SELECT, 20 },  { SQLITE_LIMIT_FUNCTION_ARG, 20 },
		{ SQLITE_LIMIT_ATTACHED, 0 },          { SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000 },
		{ SQLITE_LIMIT_VARIABLE_NUMBER, 100 }, { SQLITE_LIMIT_TRIGGER_DEPTH, 1 },
		{ SQLITE_LIMIT_WORKER_THREADS, 0 },
	};

	for (size_t i = 0; i < LEN(config); i++)
		sqlite3_db_config(d->h, config[i].what, config[i].value, (int *)NULL);
	for (size_t i = 0; i < LEN(limit); i++)
		sqlite3_limit(d->h, limit[i].what, limit[i].value);
	sqlite3_extended_result_codes(d->h, 1);
	sqlite3_busy_timeout(d->h, d->read_only ? DB_READER_MS : DB_BUSY_MS);
	/* temp_store=MEMORY keeps private text out of temporary files. */
	if (db_exec(d, "PRAGMA cell_size_check=ON", e) || db_exec(d, "PRAGMA mmap_size=0", e) ||
	    db_exec(d, "PRAGMA temp_store=MEMORY", e) || db_exec(d, "PRAGMA secure_delete=ON", e))
		return -1;
	return d->read_only ? db_exec(d, "PRAGMA query_only=ON", e) : 0;
}

/* Append the path as a URI with immutable=1; sqlite3_open_v2() has no flag for "immutable". */
static void add_uri(struct str *out, const char *path)
{
	str_adds(out, "file:");
	for (; *path; path++) {
		if (strchr("?#%", *path))
			str_addf(out, "%%%02x", (unsigned char)*path);
		else
			str_add(out, path, 1);
	}
	str_adds(out, "?immutable=1");
}

static int open_with(struct db *d, const char *name, const char *vfs, int flags, struct err *e)
{
	int rc = sqlite3_open_v2(name, &d->h, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, vfs);

	if (rc)
		return db_error(d, "open", e);
	return configure(d, e);
}

/* 1 if no process can be writing the database: there is no -wal file, and no -journal file that has content. If
 * full_disk is 1, ignore an empty -wal file: SQLite leaves one if it cannot open the database on a full disk. */
static int no_writer(const struct db *d, int full_disk)
{
	struct str path = { 0 };
	struct stat st;
	int none;

	str_addf(&path, "%s-wal", d->path);
	none = lstat(path.p, &st) ? errno == ENOENT : full_disk && !st.st_size;
	str_clear(&path);
	str_addf(&path, "%s-journal", d->path);
	none = none && (lstat(path.p, &st) ? errno == ENOENT : !st.st_size);
	str_free(&path);
	return none;
}

int db_open(struct db *d, const char *path, const char *vfs, int read_only, struct err *e)
{
	int64_t ignored;

	*d = (struct db){ .read_only = read_only, .path = xstrndup(path, strlen(path)) };
	if (file_prepare(d, read_only, e))
		goto fail;
	if (open_with(d, path, vfs, read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE, e))
		goto fail;
	/* Only the first read shows whether SQLite can use the file. If a reader cannot create the WAL index, open the
	 * file again as immutable. */
	if (db_number(d, "SELECT count(*) FROM sqlite_schema", &ignored, e)) {
		int code = d->code & 0xff, full_disk = d->code == SQLITE_IOERR_SHMSIZE;
		struct str uri = { 0 };
		int bad;

		if (!read_only || (code != SQLITE_CANTOPEN && code != SQLITE_READONLY && !full_disk) ||
		    !no_writer(d, full_disk))
			goto fail;
		sqlite3_close(d->h);
		d->h = NULL;
		add_uri(&uri, path);
		bad = open_with(d, uri.p, vfs, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, e);
		str_free(&uri);
		if (bad || db_number(d, "SELECT count(*) FROM sqlite_schema", &ignored, e))
			goto fail;
	}
	return 0;
fail : {
	int code = d->code;
	db_close(d);
	d->code = code;
}
	return -1;
}

int db_open_memory(struct db *d, struct err *e)
{
	*d = (struct db){ 0 };
	if (!open_with(d, ":memory:", NULL, SQLITE_OPEN_READWRITE, e))
		return 0;
	db_close(d);
	return -1;
}

void db_close(struct db *d)
{
	if (d->inside)
		db_gate_leave(d->gate);
	for (size_t i = 0; i < LEN(d->cached); i++)
		sqlite3_finalize(d->cached[i].st);
	/* unlike sqlite3_close(), this function closes the file even if a statement was not finalized */
	sqlite3_close_v2(d->h);
	free(d->path);
	*d = (struct db){ 0 };
}

/* ---- statements ---- */

int db_exec(struct db *d, const char *sql, struct err *e)
{
	return sqlite3_exec(d->h, sql, NULL, NULL, NULL) ? db_error(d, d->read_only ? "read" : "use", e) : 0;
}

/* Return a prepared statement, which the caller gives back with db_put(), or NULL on error. */
static sqlite3_stmt *db_get(struct db *d, const char *sql, struct err *e)
{
	struct db_cached *free_slot = NULL;
	sqlite3_stmt *st;

	for (size_t i = 0; i < LEN(d->cached); i++) {
		struct db_cached *c = &d->cached[i];
		if (c->sql == sql && !c->busy) {
			c->busy = 1;
			return c->st;
		}
		if (!c->sql && !free_slot)
			free_slot = c;
	}
	if (sqlite3_prepare_v3(d->h, sql, -1, SQLITE_PREPARE_PERSISTENT, &st, NULL)) {
		db_error(d, "use", e);
		return NULL;
	}
	if (free_slot)
		*free_slot = (struct db_cached){ sql, st, 1 };
	return st;
}

void db_put(struct db *d, sqlite3_stmt *st)
{
	if (!st)
		return;
	for (size_t i = 0; i < LEN(d->cached); i++)
		if (d->cached[i].st == st) {
			sqlite3_reset(st);
			sqlite3_clear_bindings(st);
			d->cached[i].busy = 0;
			return;
		}
	sqlite3_finalize(st);
}

static int bind_arguments(sqlite3_stmt *st, const char *types, va_list *ap)
{
	int rc = SQLITE_OK;

	for (int i = 0; types[i] && !rc; i++)
		switch (types[i]) {
		case 'i': rc = sqlite3_bind_int64(st, i + 1, va_arg(*ap, int64_t)); break;
		case 'd': rc = sqlite3_bind_double(st, i + 1, va_arg(*ap, double)); break;
		case 't': {
			const char *s = va_arg(*ap, const char *);
			rc = s ? sqlite3_bind_text64(st, i + 1, s, strlen(s), SQLITE_STATIC, SQLITE_UTF8)
			       : sqlite3_bind_null(st, i + 1);
			break;
		}
		case 's': {
			const char *s = va_arg(*ap, const char *);
			size_t n = va_arg(*ap, size_t);
			rc = sqlite3_bind_text64(st, i + 1, n ? s : "", n, SQLITE_STATIC, SQLITE_UTF8);
			break;
		}
		case 'b': {
			const void *s = va_arg(*ap, const void *);
			size_t n = va_arg(*ap, size_t);
			rc = sqlite3_bind_blob64(st, i + 1, n ? s : "", n, SQLITE_STATIC);
			break;
		}
		default: rc = sqlite3_bind_null(st, i + 1);
		}
	return rc;
}

static sqlite3_stmt *query_with(struct db *d, struct err *e, const char *sql, const char *types, va_list *ap)
{
	sqlite3_stmt *st = db_get(d, sql, e);

	if (st && bind_arguments(st, types, ap)) {
		db_error(d, "use", e);
		db_put(d, st);
		st = NULL;
	}
	return st;
}

sqlite3_stmt *db_query(struct db *d, struct err *e, const char *sql, const char *types, ...)
{
	va_list ap;
	sqlite3_stmt *st;

	va_start(ap, types);
	st = query_with(d, e, sql, types, &ap);
	va_end(ap);
	return st;
}

int db_step(struct db *d, sqlite3_stmt *st, struct err *e)
{
	int rc = sqlite3_step(st);

	if (rc == SQLITE_ROW)
		return 1;
	if (rc == SQLITE_DONE)
		return 0;
	/* use the verb "read" for a SELECT; sqlite3_stmt_readonly() is true for BEGIN and COMMIT, too, but these have
	 * no columns */
	return db_error(d, sqlite3_stmt_readonly(st) && sqlite3_column_count(st) ? "read" : "save in", e);
}

int db_run(struct db *d, struct err *e, const char *sql, const char *types, ...)
{
	va_list ap;
	sqlite3_stmt *st;
	int rc;

	va_start(ap, types);
	st = query_with(d, e, sql, types, &ap);
	va_end(ap);
	if (!st)
		return -1;
	do
		rc = db_step(d, st, e);
	while (rc > 0);
	db_put(d, st);
	return rc;
}

int db_find(struct db *d, struct err *e, int64_t *out, const char *sql, const char *types, ...)
{
	va_list ap;
	sqlite3_stmt *st;
	int rc;

	va_start(ap, types);
	st = query_with(d, e, sql, types, &ap);
	va_end(ap);
	if (!st)
		return -1;
	rc = db_step(d, st, e);
	if (rc > 0)
		*out = sqlite3_column_int64(st, 0);
	db_put(d, st);
	return rc;
}

int db_number(struct db *d, const char *sql, int64_t *out, struct err *e)
{
	sqlite3_stmt *st;
	int rc;

	*out = 0;
	if (sqlite3_prepare_v2(d->h, sql, -1, &st, NULL))
		return db_error(d, "open", e);
	rc = db_step(d, st, e);
	if (rc > 0)
		*out = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

const char *db_text(sqlite3_stmt *st, int column)
{
	const char *s = (const char *)sqlite3_column_text(st, column);

	return s ? s : "";
}

const void *db_bytes(sqlite3_stmt *st, int column, int blob, size_t *n)
{
	/* get the value before its length, because SQLite may convert the value, which changes the length */
	const void *p = blob ? sqlite3_column_blob(st, column) : (const void *)sqlite3_column_text(st, column);
	int len = sqlite3_column_bytes(st, column);

	*n = p && len > 0 ? (size_t)len : 0;
	return *n ? p : "";
}

int32_t db_small(int64_t v)
{
	return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

/* ---- locks between processes ---- */

int range_lock(int fd, int64_t at, int64_t n)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = n };

	return !fcntl(fd, F_OFD_SETLK, &l) ? 1 : errno == EAGAIN || errno == EACCES ? 0 : -1;
}

void range_unlock(int fd, int64_t at, int64_t n)
{
	struct flock l = { .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = n };

	fcntl(fd, F_OFD_SETLK, &l);
}

/* In SQLite before 3.51.3, a checkpoint of one process can damage the file while another process commits. The gate is a
 * lock between processes that keeps the two apart. */
int db_gate_enter(struct gate *g, const char *path, struct err *e)
{
	double end = now_seconds() + DB_GATE_MS / 1000.0;
	int rc = 0;

	if (!g || g->depth++)
		return 0;
	for (long wait = 1; !(rc = range_lock(g->fd, g->at, 1)) && now_seconds() < end;
	     wait = wait < 20 ? wait * 2 : 20)
		nanosleep(&(struct timespec){ .tv_nsec = wait * 1000000 }, NULL);
	if (rc > 0)
		return 0;
	g->depth--;
	return err_set(e, ERR_FAIL, "cannot save in '%s': %s", path,
	               rc ? strerror(errno) : "another process is using it; try again");
}

void db_gate_leave(struct gate *g)
{
	if (g && !--g->depth)
		range_unlock(g->fd, g->at, 1);
}

/* ---- transactions ---- */

int db_begin(struct db *d, struct err *e)
{
	if (db_gate_enter(d->gate, shown_path(d), e)) {
		d->code = SQLITE_BUSY;
		return -1;
	}
	/* After a failed rollback the old transaction is still open: roll it back before a new transaction begins. */
	if (!sqlite3_get_autocommit(d->h))
		sqlite3_exec(d->h, "ROLLBACK", NULL, NULL, NULL);
	if (db_run(d, e, "BEGIN IMMEDIATE", "")) {
		db_gate_leave(d->gate);
		return -1;
	}
	d->inside = 1;
	return 0;
}

int db_end(struct db *d, int rc, struct err *e)
{
	if (!rc && db_run(d, e, "COMMIT", ""))
		rc = -1;
	/* After some errors SQLite has already rolled back. */
	if (rc && !sqlite3_get_autocommit(d->h)) {
		int code = d->code;
		sqlite3_exec(d->h, "ROLLBACK", NULL, NULL, NULL);
		d->code = code;
	}
	if (d->inside)
		db_gate_leave(d->gate);
	d->inside = 0;
	return rc;
}
