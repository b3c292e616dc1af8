/* sessions/store/settings.c - the settings of a session: values that are stored by key, each with a checksum. */
#include "sessions/store/store_private.h"

#include <string.h>

#define KEY_MAX_BYTES 64

int setting_sum_ok(sqlite3_stmt *st, int first)
{
	size_t n_key, n;
	const void *key = db_bytes(st, first, 0, &n_key), *value = db_bytes(st, first + 2, 1, &n);

	return pair_sum(key, n_key, value, n) == sqlite3_column_int64(st, first + 1);
}

struct setting {
	int64_t session;
	const char *key;
	const void *value;
	size_t n;
};

static int do_set(struct store *s, void *arg, struct err *e)
{
	struct setting *set = arg;

	if (session_exists(s, set->session, e))
		return -1;
	if (!set->value)
		return db_run(&s->db, e, "DELETE FROM setting WHERE session=?1 AND key=?2", "it", set->session,
		              set->key);
	return db_run(&s->db, e, "INSERT OR REPLACE INTO setting(session, key, sum, value) VALUES(?1, ?2, ?3, ?4)",
	              "itib", set->session, set->key,
	              pair_sum(set->key, strlen(set->key), set->n ? set->value : "", set->n), set->value, set->n);
}

int session_set(struct store *s, int64_t id, const char *key, const void *value, size_t n, struct err *e)
{
	struct setting set = { id, key, value, n };
	size_t len = strlen(key);

	if (!len || len > KEY_MAX_BYTES)
		return err_set(e, ERR_USAGE, "the name of a setting has 1 to %d bytes, this one %zu", KEY_MAX_BYTES,
		               len);
	if (n > DB_VALUE_MAX)
		return err_set(e, ERR_FIT, "setting '%s' has %zu bytes, the limit is %u", key, n, DB_VALUE_MAX);
	return store_change(s, do_set, &set, e);
}

int session_value(struct store *s, int64_t id, const char *key, struct str *out, struct err *e)
{
	sqlite3_stmt *st =
		db_query(&s->db, e, "SELECT key, sum, value FROM setting WHERE session=?1 AND key=?2", "it", id, key);
	int rc;

	str_clear(out);
	if (!st)
		return -1;
	rc = db_step(&s->db, st, e);
	if (rc > 0) {
		size_t n;
		const void *p = db_bytes(st, 2, 1, &n);
		if (setting_sum_ok(st, 0))
			str_add(out, p, n);
		else
			rc = err_set(e, ERR_FAIL, "the setting '%s' of session %lld in '%s' is damaged; set it anew",
			             key, (long long)id, s->dir);
	}
	db_put(&s->db, st);
	return rc;
}

int session_settings(struct store *s, int64_t id, setting_fn *fn, void *ud, struct err *e)
{
	sqlite3_stmt *st =
		db_query(&s->db, e, "SELECT key, sum, value FROM setting WHERE session=?1 ORDER BY key", "i", id);
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0) {
		size_t n;
		const void *value = db_bytes(st, 2, 1, &n);
		int whole = setting_sum_ok(st, 0);

		if (fn(db_text(st, 0), value, n, whole, ud))
			rc = 0;
	}
	db_put(&s->db, st);
	return rc;
}
