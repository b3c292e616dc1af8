/* sessions/store/store.c - opens the store: checks the directory, then checks and migrates chat.db.
 *
 * Everything is checked before the first write: directory and file belong to this user, and the file is intact and not
 * newer than this program. SQLite itself must not write before that, so its checkpoint on close is off until then. The
 * first process that opens the store checks and migrates it under an exclusive lock (locks.c). */
#include "sessions/store/passages.h"
#include "sessions/store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OPEN_MS     5000 /* number of milliseconds to wait for another process that is opening the store */
/* if chat.db has more bytes than this, only a part of it is checked, to bound the time */
#define CHECK_WHOLE (128 << 20)

/* ---- the format ---- */

/* Ids are never reused (AUTOINCREMENT), because kv.db refers to them. A message has a larger id than its parent, so
 * every walk to the root ends. Small columns come first, because SQLite puts the columns after a long text on overflow
 * pages. */
static const char sql_tables[] =
	"CREATE TABLE meta(key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;"
	"INSERT INTO meta VALUES('id', randomblob(16));"
	"CREATE TABLE session(id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" head INTEGER NOT NULL DEFAULT 0," /* id of the last message of the branch that is shown; 0 = none */
	" base INTEGER NOT NULL DEFAULT 0," /* if the session is a fork: id of the last message that it inherits */
	" parent INTEGER NOT NULL DEFAULT 0,"
	" created INTEGER NOT NULL, used INTEGER NOT NULL,"
	/* number that is increased with every use, for sorting sessions; a time would be too coarse, and clocks may be
	 * set back */
	" turn INTEGER NOT NULL,"
	" messages INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0,"
	" name TEXT UNIQUE, title TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '',"
	" kv TEXT NOT NULL DEFAULT '') STRICT;"
	"CREATE INDEX session_turn ON session(turn);"
	"CREATE TABLE message(id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" parent INTEGER NOT NULL,"
	/* Id of the session in which the message was written. If this session is deleted, a fork that shows the message
	 * becomes its owner. */
	" session INTEGER NOT NULL,"
	" depth INTEGER NOT NULL, role INTEGER NOT NULL, complete INTEGER NOT NULL, at INTEGER NOT NULL,"
	" sum INTEGER NOT NULL," /* XXH3 checksum of role, complete, text, token, stats, beginning */
	" stats TEXT NOT NULL, token BLOB NOT NULL, text TEXT NOT NULL) STRICT;"
	"CREATE INDEX message_session ON message(session, parent);"
	"CREATE TABLE setting(session INTEGER NOT NULL, key TEXT NOT NULL, sum INTEGER NOT NULL, value BLOB NOT NULL,"
	" PRIMARY KEY(session, key)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE content(id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, text TEXT NOT NULL) STRICT;"
	"CREATE TABLE document(id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" session INTEGER NOT NULL, content INTEGER NOT NULL, bytes INTEGER NOT NULL, at INTEGER NOT NULL,"
	" after INTEGER NOT NULL, sum INTEGER NOT NULL, name BLOB NOT NULL) STRICT;"
	"CREATE INDEX document_session ON document(session);"
	"CREATE INDEX document_content ON document(content);";

static const char sql_find[] = "CREATE VIRTUAL TABLE find USING fts5(text, content='message', content_rowid='id',"
			       " tokenize='unicode61 remove_diacritics 2');";

/* Type, size and marks (pages, headings) of each text. They have their own table, so that listing documents reads no
 * texts. */
static const char sql_outlines[] =
	"CREATE TABLE outline(content INTEGER PRIMARY KEY,"
	" type INTEGER NOT NULL, bytes INTEGER NOT NULL," /* `bytes` is the size of the text */
	" sum INTEGER NOT NULL,"                          /* XXH3 checksum of type, bytes, marks */
	" marks BLOB NOT NULL) STRICT;"                   /* pages and headings, one in each line (outlines.c) */
	"ALTER TABLE document ADD COLUMN mtime INTEGER NOT NULL DEFAULT 0;"
	/* SHA-256 of the imported file; empty = unknown */
	"ALTER TABLE document ADD COLUMN file BLOB NOT NULL DEFAULT x'';"
	"ALTER TABLE document ADD COLUMN path BLOB NOT NULL DEFAULT x'';";

/* Two columns for a question that begins with the same bytes as an earlier message (beginnings.c): id of that
 * message, and number of shared bytes. Column `text` then contains only the bytes after the shared ones. */
static const char sql_beginnings[] = "ALTER TABLE message ADD COLUMN beginning INTEGER NOT NULL DEFAULT 0;"
				     "ALTER TABLE message ADD COLUMN beginning_bytes INTEGER NOT NULL DEFAULT 0;"
				     "CREATE INDEX message_beginning ON message(beginning) WHERE beginning<>0;";

static const char sql_facts[] = "CREATE TABLE fact(id INTEGER PRIMARY KEY AUTOINCREMENT,"
				/* id of the session in which the user told the fact; 0 = none */
				" session INTEGER NOT NULL,"
				" at INTEGER NOT NULL,"
				" sum INTEGER NOT NULL," /* XXH3 checksum of session, at, text */
				" text TEXT NOT NULL) STRICT;";

const struct migration store_migrations[] = {
	{ sql_tables, NULL },        /* version 1: sessions, messages, documents */
	{ sql_find, index_rebuild }, /* version 2: full text search */
	{ sql_outlines, NULL },      /* version 3: pages and headings of documents, and their source files */
	{ passage_tables, NULL },    /* version 4: the index of passages */
	{ sql_beginnings, NULL },    /* version 5: common beginnings of questions are stored once */
	{ vector_tables, NULL },     /* version 6: the vectors of passages */
	{ "",
	  passages_replace }, /* version 7: words are normalised by utf8proc; each text is indexed at its next search */
	{ sql_facts, NULL },  /* version 8: facts to remember in all conversations */
};
const int store_version = LEN(store_migrations);

int store_migrate(struct db *d, int from, int to, struct err *e)
{
	char pragma[80];
	int rc = 0;

	if (db_begin(d, e))
		return -1;
	for (int v = from; v < to && !rc; v++) {
		rc = db_exec(d, store_migrations[v].sql, e);
		if (!rc && store_migrations[v].fn)
			rc = store_migrations[v].fn(d, e);
	}
	snprintf(pragma, sizeof pragma, "PRAGMA application_id=%d; PRAGMA user_version=%d", STORE_APPLICATION, to);
	if (!rc)
		rc = db_exec(d, pragma, e);
	return db_end(d, rc, e);
}

/* ---- directory ---- */

/* Sync the directory, so that a new file name in it is durable. Ignore errors, because nothing can be done about
 * them. */
static void sync_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

static void sync_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *parent = xstrndup(slash ? path : ".", slash ? (size_t)(slash - path) + (slash == path) : 1);

	sync_dir(parent);
	free(parent);
}

static int make_parents(char *path, struct err *e)
{
	for (char *p = path + 1; *p; p++) {
		int bad = 0;
		if (*p != '/')
			continue;
		*p = 0;
		if (!mkdir(path, 0700))
			sync_parent(path);
		else if (errno != EEXIST)
			bad = err_set(e, ERR_FAIL, "cannot make the directory '%s': %s", path, strerror(errno));
		*p = '/';
		if (bad)
			return -1;
	}
	return 0;
}

/* Return the directory's path, or NULL on error; the caller frees it. Trailing slashes are removed, because
 * lstat("x/") would follow a symbolic link. */
static char *dir_name(const char *given, struct err *e)
{
	struct str path = { 0 };

	if (given && *given)
		str_adds(&path, given);
	else if (user_path(&path, DIR_DATA, "", e))
		return NULL;
	while (path.n > 1 && path.p[path.n - 1] == '/')
		path.p[--path.n] = 0;
	return path.p;
}

/* Create the directory, or check the existing one. Returns 1 if it can be used; 0 if it is missing and the store is
 * read only; -1 on error. */
static int dir_prepare(struct store *s, struct err *e)
{
	struct stat st;

	if (lstat(s->dir, &st)) {
		if (errno == ENOENT && s->read_only)
			return 0;
		if (errno == ENOENT) {
			if (make_parents(s->dir, e))
				return -1;
			/* set the mode again, because the umask may have removed permissions of the owner */
			if (mkdir(s->dir, 0700) ? errno != EEXIST : chmod(s->dir, 0700))
				return err_set(e, ERR_FAIL, "cannot make the directory '%s': %s", s->dir,
				               strerror(errno));
			sync_parent(s->dir);
		}
		if (lstat(s->dir, &st))
			return err_set(e, ERR_FAIL, "cannot use the directory '%s': %s", s->dir, strerror(errno));
	}
	if (S_ISLNK(st.st_mode))
		return err_set(e, ERR_FAIL,
		               "refused to keep sessions in '%s': it is a symbolic link; name the directory itself",
		               s->dir);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_FAIL, "cannot keep sessions in '%s': it is not a directory", s->dir);
	if (st.st_uid != geteuid())
		return err_set(e, ERR_FAIL, "refused to keep sessions in '%s': it belongs to another user (%u)", s->dir,
		               (unsigned)st.st_uid);
	if (st.st_mode & 022)
		return err_set(e, ERR_FAIL, "refused to keep sessions in '%s': others may write there; chmod 700 it",
		               s->dir);
	/* remove the rights of group and others */
	if (!s->read_only && (st.st_mode & 077) && chmod(s->dir, st.st_mode & 0700))
		return err_set(e, ERR_FAIL, "cannot make the directory '%s' private: %s", s->dir, strerror(errno));
	return 1;
}

/* ---- opening ---- */

/* Read the format of the open file. *out is 0 if the file is empty. */
static int format_of(struct store *s, int *out, struct err *e)
{
	int64_t app, version, tables;

	if (db_number(&s->db, "PRAGMA application_id", &app, e) ||
	    db_number(&s->db, "PRAGMA user_version", &version, e) ||
	    db_number(&s->db, "SELECT count(*) FROM sqlite_schema", &tables, e))
		return -1;
	*out = 0;
	if (!app && !version && !tables)
		return 0;
	if (app != STORE_APPLICATION || version < 1)
		return err_set(e, ERR_FAIL,
		               "'%s/" CHAT_FILE "' is a database of another program; nothing was changed: move it away",
		               s->dir);
	if (version > store_version)
		return err_set(e, ERR_FAIL,
		               "the sessions in '%s' are of a newer weir (format %lld, this one knows up to %d); "
		               "nothing was changed: use the newer weir",
		               s->dir, (long long)version, store_version);
	*out = (int)version;
	return 0;
}

/* Check the structure of chat.db. In a file of more than CHECK_WHOLE bytes, check only the tables session, message,
 * setting and document. This bounds the time: the texts of documents and the search indexes are the large parts. */
static int quick_check(struct store *s, struct err *e)
{
	static const char *const whole[] = { "PRAGMA quick_check(1)", NULL };
	static const char *const parts[] = { "PRAGMA quick_check(session)", "PRAGMA quick_check(message)",
		                             "PRAGMA quick_check(setting)", "PRAGMA quick_check(document)", NULL };
	int64_t pages, size;
	int rc = 0;

	if (db_number(&s->db, "PRAGMA page_count", &pages, e) || db_number(&s->db, "PRAGMA page_size", &size, e))
		return -1;
	for (const char *const *sql = size > 0 && pages > CHECK_WHOLE / size ? parts : whole; *sql && !rc; sql++) {
		sqlite3_stmt *st = db_query(&s->db, e, *sql, "");
		rc = st ? db_step(&s->db, st, e) : -1;
		if (rc > 0) {
			const char *says = db_text(st, 0);
			/* skip SQLite's heading line */
			if (!strncmp(says, "*** in database", 15) && strchr(says, '\n'))
				says = strchr(says, '\n') + 1;
			rc = strcmp(says, "ok")
			             ? err_set(e, ERR_FAIL,
			                       "'%s/" CHAT_FILE "' is damaged (%.120s); nothing was changed: export "
			                       "what can be read, then move it away",
			                       s->dir, says)
			             : 0;
		}
		db_put(&s->db, st);
	}
	return rc;
}

/* Copy chat.db to chat.db.vVERSION before a migration, so that a failed migration loses nothing. */
static int copy_beside(struct store *s, int version, struct err *e)
{
	char name[40];
	char *to, *draft;
	struct db copy = { 0 };
	sqlite3_backup *b;
	int rc = -1;

	snprintf(name, sizeof name, CHAT_FILE ".v%d", version);
	to = store_path(s, name);
	draft = store_path(s, CHAT_FILE ".copy");
	unlink(draft);
	if (db_open(&copy, draft, s->vfs, 0, e))
		goto out;
	b = sqlite3_backup_init(copy.h, "main", s->db.h, "main");
	if (b) {
		sqlite3_backup_step(b, -1);
		sqlite3_backup_finish(b);
	}
	rc = sqlite3_errcode(copy.h) ? db_error(&copy, "copy the older sessions to", e) : 0;
	/* the copy inherits WAL mode: leave this mode, so that the copy is a single file */
	if (!rc)
		rc = db_exec(&copy, "PRAGMA journal_mode=DELETE", e);
	db_close(&copy);
	if (!rc && rename(draft, to))
		rc = err_set(e, ERR_FAIL, "cannot make '%s': %s", to, strerror(errno));
	if (!rc)
		sync_dir(s->dir);
out:
	if (rc) {
		char *journal = store_path(s, CHAT_FILE ".copy-journal");
		unlink(draft);
		unlink(journal);
		free(journal);
	}
	free(to);
	free(draft);
	return rc;
}

/* Delete old copies of chat.db. Called after a deletion, because they still contain the deleted text. */
void store_drop_copies(struct store *s)
{
	char *log = store_path(s, LOG_COPY);

	unlink(log);
	free(log);
	for (int v = 1; v < store_version; v++) {
		char name[40];
		char *path;
		snprintf(name, sizeof name, CHAT_FILE ".v%d", v);
		path = store_path(s, name);
		unlink(path);
		free(path);
	}
}

static int read_id(struct store *s, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT value FROM meta WHERE key='id'", "");
	int rc;

	if (!st)
		return -1;
	rc = db_step(&s->db, st, e);
	if (rc > 0 && sqlite3_column_bytes(st, 0) == (int)sizeof s->id) {
		memcpy(s->id, sqlite3_column_blob(st, 0), sizeof s->id);
		rc = 0;
	} else if (rc >= 0) {
		rc = err_set(e, ERR_FAIL, "'%s/" CHAT_FILE "' is damaged: it has lost its identity", s->dir);
	}
	db_put(&s->db, st);
	return rc;
}

static int open_to_read(struct store *s, int there, struct err *e)
{
	char *path = store_path(s, CHAT_FILE);
	struct stat st;
	int version = 0, rc = 0;

	/* If there is no chat.db, no session was ever stored: use an empty database in memory. */
	if (there && lstat(path, &st) && errno == ENOENT)
		there = 0;
	if (there) {
		rc = db_open(&s->db, path, s->vfs, 1, e);
		if (!rc)
			rc = format_of(s, &version, e);
		if (!rc && version && version < store_version)
			rc = err_set(
				e, ERR_FAIL,
				"the sessions in '%s' are of an older weir (format %d); start weir once to bring them up "
				"to date",
				s->dir, version);
	}
	free(path);
	if (rc || version)
		return rc;
	db_close(&s->db);
	if (db_open_memory(&s->db, e) || store_migrate(&s->db, 0, store_version, e))
		return -1;
	return db_exec(&s->db, "PRAGMA query_only=ON", e);
}

/* Open chat.db for writing. Returns 0 if it was opened; 1 if it must be created or migrated, but another process has
 * opened it; -1 on error. */
static int open_to_write(struct store *s, struct err *e)
{
	char *path = store_path(s, CHAT_FILE);
	sqlite3_stmt *st;
	int version, rc = db_open(&s->db, path, s->vfs, 0, e);

	free(path);
	if (rc)
		return -1;
	s->db.gate = &s->gate[0];
	sqlite3_db_config(s->db.h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
	if (format_of(s, &version, e) || (version && s->alone && quick_check(s, e)))
		return -1;
	if (version < store_version && !s->alone)
		return 1;
	if (version && version < store_version && copy_beside(s, version, e))
		return -1;
	/* auto_vacuum can only be set in an empty file, before the first table and before WAL mode */
	if (!version && db_exec(&s->db, "PRAGMA auto_vacuum=INCREMENTAL", e))
		return -1;
	if (!(st = db_query(&s->db, e, "PRAGMA journal_mode=WAL", "")))
		return -1;
	rc = db_step(&s->db, st, e);
	if (rc > 0)
		rc = sqlite3_stricmp((const char *)sqlite3_column_text(st, 0), "wal")
		             ? err_set(e, ERR_FAIL,
		                       "cannot keep sessions in '%s': the file system has no shared memory for SQLite's log",
		                       s->dir)
		             : 0;
	db_put(&s->db, st);
	/* limit the log file to 4 MiB after a checkpoint, because a large document may have made it longer */
	if (rc || db_exec(&s->db, "PRAGMA synchronous=FULL; PRAGMA journal_size_limit=4194304", e))
		return -1;
	if (version < store_version && store_migrate(&s->db, version, store_version, e))
		return -1;
	sqlite3_db_config(s->db.h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, (int *)NULL);
	/* temporary table for session_delete(): the messages that inherit_path() has visited so far */
	return db_exec(&s->db, "CREATE TEMP TABLE walked(id INTEGER PRIMARY KEY)", e);
}

/* Lock the store and open it for writing. If it must be migrated while another process has it open, retry for OPEN_MS
 * milliseconds. */
static int open_locked(struct store *s, struct str *notice, struct err *e)
{
	double end = now_seconds() + OPEN_MS / 1000.0;
	int rc;

	for (;;) {
		if (lock_store(s, e))
			return -1;
		if (s->alone)
			store_check_log(s, notice);
		rc = open_to_write(s, e);
		if (rc <= 0)
			return rc || lock_share(s, e) ? -1 : 0;
		if (now_seconds() > end)
			return err_set(
				e, ERR_FAIL,
				"the sessions in '%s' are open in a weir of another version; leave it first, or use --private",
				s->dir);
		db_close(&s->db);
		lock_free(s);
		usleep(20000);
	}
}

int store_open(struct store **out, const struct store_options *o, struct err *e)
{
	struct store *s = xcalloc(1, sizeof *s);
	int there;

	*out = NULL;
	s->lock = s->writers = -1;
	s->read_only = o->read_only;
	s->vfs = o->vfs ? xstrndup(o->vfs, strlen(o->vfs)) : NULL;
	s->recognised = o->recognised ? xstrndup(o->recognised, strlen(o->recognised)) : NULL;
	s->dir = dir_name(o->dir, e);
	if (!s->dir || (there = dir_prepare(s, e)) < 0)
		goto fail;
	if (s->read_only ? open_to_read(s, there, e) : open_locked(s, o->notice, e))
		goto fail;
	if (s->read_only)
		lock_look(s);
	if (read_id(s, e))
		goto fail;
	*out = s;
	return 0;
fail:
	store_close(s);
	return -1;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	db_close(&s->db);
	/* free the lock only after db_close(), because another process may open the file as soon as the lock is free */
	lock_free(s);
	for (size_t i = 0; i < LEN(s->row); i++)
		str_free(&s->row[i]);
	free(s->dir);
	free(s->vfs);
	free(s->recognised);
	free(s);
}

/* ---- functions of struct store for other files ---- */

const char *store_dir(const struct store *s)
{
	return s->dir;
}

int64_t store_now(void)
{
	return (int64_t)time(NULL);
}

int store_change(struct store *s, store_body *body, void *arg, struct err *e)
{
	struct err first = { 0 };
	int rc;

	if (store_writable(s, e))
		return -1;
	if (s->db.inside)
		return body(s, arg, e);
	for (int tries = 0;; tries++) {
		s->db.code = 0;
		if (db_begin(&s->db, e))
			return -1;
		rc = db_end(&s->db, body(s, arg, &first), &first);
		if (!rc)
			return 0;
		if (tries || !db_damaged(&s->db) || db_begin(&s->db, e) ||
		    db_end(&s->db, passages_empty(&s->db, e) || index_rebuild(&s->db, e), e))
			break;
	}
	return err_set(e, first.code, "%s", first.msg);
}
