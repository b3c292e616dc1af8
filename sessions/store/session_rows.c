/* sessions/store/session_rows.c - reads table `session`: one session, all sessions, or the session that was used
 * last. */
#include "sessions/store/store_private.h"

#include <string.h>

int session_none(struct err *e, int64_t id)
{
	return err_set(e, ERR_USAGE, "there is no session %lld; 'weir sessions ls' lists them", (long long)id);
}

#define SESSION_COLUMNS "id, head, created, used, messages, tokens, parent, name, title, model, kv"

static void session_of(sqlite3_stmt *st, struct session *out)
{
	*out = (struct session){
		.id = sqlite3_column_int64(st, 0),
		.head = sqlite3_column_int64(st, 1),
		.created = sqlite3_column_int64(st, 2),
		.used = sqlite3_column_int64(st, 3),
		.messages = db_small(sqlite3_column_int64(st, 4)),
		.tokens = db_small(sqlite3_column_int64(st, 5)),
		.parent = sqlite3_column_int64(st, 6),
		.name = db_text(st, 7),
		.title = db_text(st, 8),
		.model = db_text(st, 9),
		.kv = db_text(st, 10),
	};
}

int session_exists(struct store *s, int64_t id, struct err *e)
{
	int64_t found;
	int rc = db_find(&s->db, e, &found, "SELECT id FROM session WHERE id=?1", "i", id);

	return rc > 0 ? 0 : rc < 0 ? -1 : session_none(e, id);
}

int session_get(struct store *s, int64_t id, struct session *out, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT " SESSION_COLUMNS " FROM session WHERE id=?1", "i", id);
	const char **text[] = { &out->name, &out->title, &out->model, &out->kv };
	int rc;

	if (!st)
		return -1;
	rc = db_step(&s->db, st, e);
	if (rc > 0) {
		session_of(st, out);
		for (size_t i = 0; i < 4; i++) {
			str_clear(&s->row[i]);
			str_add(&s->row[i], *text[i], strlen(*text[i]) + 1);
			*text[i] = s->row[i].p;
		}
	}
	db_put(&s->db, st);
	return rc > 0 ? 0 : rc < 0 ? -1 : session_none(e, id);
}

int session_list(struct store *s, session_fn *fn, void *ud, struct err *e)
{
	sqlite3_stmt *st =
		db_query(&s->db, e, "SELECT " SESSION_COLUMNS " FROM session ORDER BY turn DESC, id DESC", "");
	int rc;

	if (!st)
		return -1;
	while ((rc = db_step(&s->db, st, e)) > 0) {
		struct session row;
		session_of(st, &row);
		if (fn(&row, ud)) {
			rc = 0;
			break;
		}
	}
	db_put(&s->db, st);
	return rc;
}

int session_last(struct store *s, int64_t *id, struct err *e)
{
	return db_find(&s->db, e, id, "SELECT id FROM session ORDER BY turn DESC, id DESC LIMIT 1", "");
}
