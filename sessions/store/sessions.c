/* sessions/store/sessions.c - creates, renames, forks and deletes sessions.
 *
 * A message belongs to the session in which it was written. A fork continues another session after one of that
 * session's messages, which is called the base of the fork. The fork shows the messages up to the base, but does not
 * copy them. If the other session is deleted, these messages then belong to the fork. */
#include "sessions/store/store_private.h"

#include <stdio.h>
#include <string.h>

/* Maximum number of 4 KiB pages of a chat.db that is rewritten after a deletion: 128 MiB, which takes about a
 * second. */
#define REWRITTEN_PAGES 32768
/* maximum number of pages that a larger chat.db returns to the file system after a deletion: 16 MiB */
#define VACUUM_PAGES    4096
#define READERS_MS      200 /* number of milliseconds that a checkpoint waits for readers */

/* ---- making, naming, using ---- */

struct making {
	int64_t from, at;
	const char *name;
	int64_t id;
};

static int do_new(struct store *s, void *arg, struct err *e)
{
	struct making *m = arg;
	int64_t now = store_now();
	long by;

	if (m->name && name_free(s, m->name, 0, e))
		return -1;
	if (db_run(&s->db, e, "INSERT INTO session(created, used, turn, name) VALUES(?1, ?1, " NEXT_TURN ", ?2)", "it",
	           now, m->name))
		return -1;
	m->id = sqlite3_last_insert_rowid(s->db.h);
	/* hold the session before the commit makes the session visible to other processes */
	return session_hold(s, m->id, &by, e);
}

int session_new(struct store *s, const char *name, int64_t *id, struct err *e)
{
	struct making m = { .name = name && *name ? name : NULL };

	if ((m.name && name_ok(m.name, e)) || store_change(s, do_new, &m, e))
		return -1;
	*id = m.id;
	return 0;
}

static int do_rename(struct store *s, void *arg, struct err *e)
{
	struct making *m = arg;

	if (session_exists(s, m->id, e) || name_free(s, m->name, m->id, e))
		return -1;
	return db_run(&s->db, e, "UPDATE session SET name=?2 WHERE id=?1", "it", m->id, m->name);
}

int session_rename(struct store *s, int64_t id, const char *name, struct err *e)
{
	struct making m = { .name = name ? name : "", .id = id };
	long by;

	/* Fail if another process writes the session, because that process would not notice the new name. */
	if (name_ok(m.name, e) || (session_writer(s, id) && session_hold(s, id, &by, e)))
		return -1;
	return store_change(s, do_rename, &m, e);
}

int session_is_empty(struct store *s, int64_t id)
{
	struct err none = { 0 };
	int64_t found;

	return db_find(&s->db, &none, &found,
	               "SELECT id FROM session WHERE id=?1 AND head=0 AND base=0 AND NOT EXISTS(SELECT 1 FROM message WHERE session=?1)"
	               " AND NOT EXISTS(SELECT 1 FROM document WHERE session=?1)",
	               "i", id) > 0;
}

struct touch {
	int64_t id;
	const char *model, *kv;
	int32_t tokens;
};

static int do_touch(struct store *s, void *arg, struct err *e)
{
	struct touch *t = arg;

	if (session_exists(s, t->id, e))
		return -1;
	return db_run(&s->db, e,
	              "UPDATE session SET used=?2, turn=" NEXT_TURN ", model=coalesce(?3, model),"
	              " kv=coalesce(?4, kv), tokens=?5 WHERE id=?1",
	              "iitti", t->id, store_now(), t->model, t->kv, (int64_t)t->tokens);
}

int session_touch(struct store *s, int64_t id, const char *model, const char *kv, int32_t tokens, struct err *e)
{
	struct touch t = { id, model, kv, tokens };

	return store_change(s, do_touch, &t, e);
}

/* ---- forks ---- */

static int do_fork(struct store *s, void *arg, struct err *e)
{
	struct making *m = arg;
	struct node n = { 0 };
	int64_t head, from = m->from;
	long by;
	int rc = db_find(&s->db, e, &head, "SELECT head FROM session WHERE id=?1", "i", from);

	if (rc <= 0)
		return rc < 0 ? -1 : session_none(e, from);
	if (m->name && name_free(s, m->name, 0, e))
		return -1;
	if (!m->at)
		m->at = head;
	if (m->at) {
		rc = message_visible(s, from, m->at, e);
		if (rc <= 0)
			return rc < 0 ? -1 : message_none(e, from, m->at);
		if (node_get(s, m->at, &n, e) < 0)
			return -1;
	}
	if (db_run(&s->db, e,
	           "INSERT INTO session(head, base, parent, created, used, turn, messages, tokens, name, title,"
	           " model, kv) SELECT ?2, ?2, id, ?3, ?3, " NEXT_TURN ", ?4, CASE WHEN head=?2 THEN tokens ELSE 0 END,"
	           " ?5, title, model, kv FROM session WHERE id=?1",
	           "iiiit", from, m->at, store_now(), (int64_t)db_small(n.depth), m->name))
		return -1;
	m->id = sqlite3_last_insert_rowid(s->db.h);
	if (session_hold(s, m->id, &by, e) ||
	    db_run(&s->db, e, "INSERT INTO setting SELECT ?2, key, sum, value FROM setting WHERE session=?1", "ii",
	           from, m->id))
		return -1;
	/* copy the documents that the fork inherits: those that were added before the first message, or after a message
	 * on the path to message m->at */
	return db_run(
		&s->db, e,
		"INSERT INTO document(session, content, bytes, at, after, sum, name, mtime, file, path)"
		" SELECT ?2, content, bytes, at, after, sum, name, mtime, file, path FROM document WHERE session=?1 AND after IN"
		" (WITH RECURSIVE up(id) AS (SELECT ?3 UNION SELECT m.parent FROM up JOIN message m ON m.id=up.id"
		" WHERE m.parent<m.id) SELECT id FROM up UNION SELECT 0) ORDER BY id",
		"iii", from, m->id, m->at);
}

int session_fork(struct store *s, int64_t id, int64_t at, const char *name, int64_t *new_id, struct err *e)
{
	struct making m = { .from = id, .at = at, .name = name && *name ? name : NULL };

	if ((m.name && name_ok(m.name, e)) || store_change(s, do_fork, &m, e))
		return -1;
	*new_id = m.id;
	return 0;
}

/* ---- deleting ---- */

/* Session `deleted` is about to be deleted, and session `fork` shows its messages up to message `base`. Make `fork` the
 * owner of these messages on the path from `base` to the root. Stop at a message that an earlier call has visited: that
 * call has handled the rest of the path. */
static int inherit_path(struct store *s, int64_t deleted, int64_t fork, int64_t base, struct err *e)
{
	struct node n;

	for (int64_t id = base; id; id = n.parent) {
		int rc = node_get(s, id, &n, e);
		if (rc <= 0)
			return rc < 0 ? -1 : message_lost(s, id, e);
		if (db_run(&s->db, e, "INSERT OR IGNORE INTO temp.walked VALUES(?1)", "i", id))
			return -1;
		if (!sqlite3_changes(s->db.h))
			return 0;
		if (n.session == deleted &&
		    db_run(&s->db, e, "UPDATE message SET session=?2 WHERE id=?1", "ii", id, fork))
			return -1;
	}
	return 0;
}

/* Forks may show messages of session `deleted`. Make each such fork the owner of these messages. */
static int inherit_shown(struct store *s, int64_t deleted, struct err *e)
{
	sqlite3_stmt *st;
	int rc;

	if (db_run(&s->db, e, "DELETE FROM temp.walked", ""))
		return -1;
	st = db_query(&s->db, e, "SELECT id, base FROM session WHERE base<>0 AND id<>?1 ORDER BY id", "i", deleted);
	rc = st ? 1 : -1;
	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0)
		if (inherit_path(s, deleted, sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1), e))
			rc = -1;
	db_put(&s->db, st);
	return rc;
}

static int unindex(struct store *s, int64_t session, int *removed, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT id, text FROM message WHERE session=?1", "i", session);
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0) {
		size_t n;
		const char *text = db_bytes(st, 1, 0, &n);
		*removed = 1;
		if (index_remove(s, sqlite3_column_int64(st, 0), text, n, e))
			rc = -1;
	}
	db_put(&s->db, st);
	return rc;
}

static int do_delete(struct store *s, void *arg, struct err *e)
{
	int64_t id = *(int64_t *)arg;
	int removed = 0;

	if (session_exists(s, id, e) || inherit_shown(s, id, e) || beginnings_keep(s, id, e) ||
	    unindex(s, id, &removed, e))
		return -1;
	if (removed && (db_run(&s->db, e, "DELETE FROM message WHERE session=?1", "i", id) || index_purge(s, e)))
		return -1;
	if (db_run(&s->db, e, "DELETE FROM setting WHERE session=?1", "i", id) || documents_drop(s, id, e) ||
	    db_run(&s->db, e, "UPDATE session SET parent=0 WHERE parent=?1", "i", id))
		return -1;
	return db_run(&s->db, e, "DELETE FROM session WHERE id=?1", "i", id);
}

/* Free unused pages. secure_delete overwrites deleted rows. But when SQLite moves rows to another page, it leaves
 * copies between the rows of the old page. Only a rewritten file has no such copies. */
static void erase_pages(struct store *s)
{
	char vacuum[60];
	int64_t pages;
	int attached;

	if (db_number(&s->db, "PRAGMA page_count", &pages, &(struct err){ 0 }) == 0 && pages <= REWRITTEN_PAGES) {
		/* allow one attached database, because VACUUM attaches the new file */
		attached = sqlite3_limit(s->db.h, SQLITE_LIMIT_ATTACHED, 1);
		sqlite3_exec(s->db.h, "VACUUM", NULL, NULL, NULL);
		sqlite3_limit(s->db.h, SQLITE_LIMIT_ATTACHED, attached);
		return;
	}
	snprintf(vacuum, sizeof vacuum, "PRAGMA incremental_vacuum(%d)", VACUUM_PAGES);
	sqlite3_exec(s->db.h, vacuum, NULL, NULL, NULL);
}

/* Ignore errors, because the log is emptied again when the database is closed. */
void store_erase_traces(struct store *s)
{
	library_forget_recognised(s);
	if (db_gate_enter(s->db.gate, s->dir, NULL))
		return;
	store_drop_copies(s);
	erase_pages(s);
	sqlite3_busy_timeout(s->db.h, READERS_MS);
	sqlite3_wal_checkpoint_v2(s->db.h, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	sqlite3_busy_timeout(s->db.h, DB_BUSY_MS);
	db_gate_leave(s->db.gate);
}

int session_delete(struct store *s, int64_t id, struct err *e)
{
	long by;
	int rc;

	if (store_writable(s, e) || session_hold(s, id, &by, e))
		return -1;
	rc = store_change(s, do_delete, &id, e);
	session_leave(s, id);
	if (!rc)
		store_erase_traces(s);
	return rc;
}
