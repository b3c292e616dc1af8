/* sessions/store/facts.c - facts that the user asked weir to remember in all conversations (/remember).
 *
 * A fact is one line of text. Its origin is the session in which it was told; the session's name or title is looked up
 * when facts are listed, so that a deleted session leaves no title behind. */
#include "sessions/store/store_private.h"

#include "engine/engine_chat.h"

#include <string.h>

static int64_t fact_sum(int64_t session, int64_t at, const void *text, size_t n)
{
	int64_t head[2] = { session, at };

	return pair_sum(head, sizeof head, text, n);
}

int fact_sum_ok(sqlite3_stmt *st, int first)
{
	size_t n;
	const void *text = db_bytes(st, first + 3, 0, &n);

	return fact_sum(sqlite3_column_int64(st, first), sqlite3_column_int64(st, first + 1), text, n) ==
	       sqlite3_column_int64(st, first + 2);
}

static int fact_check(const char *text, size_t n, struct err *e)
{
	if (!n || memchr(text, '\n', n))
		return err_set(e, ERR_USAGE, "a fact is one line of text");
	return n <= FACT_BYTES ? 0 : err_set(e, ERR_FIT, "a fact has at most %d bytes, this one %zu", FACT_BYTES, n);
}

/* ---- adding, changing, listing ---- */

int fact_add(struct store *s, int64_t session, const char *text, size_t n, int64_t *id, struct err *e)
{
	int64_t at = store_now();
	int rc;

	if (fact_check(text, n, e) || store_writable(s, e) || db_begin(&s->db, e))
		return -1;
	rc = db_run(&s->db, e, "INSERT INTO fact(session, at, sum, text) VALUES(?1, ?2, ?3, ?4)", "iiis", session, at,
	            fact_sum(session, at, text, n), text, n);
	*id = sqlite3_last_insert_rowid(s->db.h);
	return db_end(&s->db, rc, e);
}

int fact_list(struct store *s, fact_fn *fn, void *ud, struct err *e)
{
	sqlite3_stmt *st =
		db_query(&s->db, e,
	                 "SELECT f.id, f.session, f.at, f.sum, f.text, coalesce(nullif(s.name, ''), s.title, '')"
	                 " FROM fact f LEFT JOIN session s ON s.id=f.session ORDER BY f.id",
	                 "");
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0) {
		struct fact f = { .id = sqlite3_column_int64(st, 0),
			          .session = sqlite3_column_int64(st, 1),
			          .at = sqlite3_column_int64(st, 2),
			          .from = db_text(st, 5) };

		f.text = db_bytes(st, 4, 0, &f.n_text);
		if (!fact_sum_ok(st, 1))
			rc = err_set(e, ERR_FAIL, "fact %lld in '%s' is damaged; /memory forget %lld removes it",
			             (long long)f.id, s->dir, (long long)f.id);
		else if (fn(&f, ud))
			rc = 0;
	}
	db_put(&s->db, st);
	return rc;
}

/* ---- forgetting ---- */

/* SQL that finds the questions whose stored context quotes a fact. The context of a question is the text that was sent
 * to the model before the question. Parameter ?1 is the id of the fact, ?2 is ROLE_USER. */
#define QUOTING                                                                                                        \
	" FROM message m JOIN fact f ON f.id=?1 WHERE m.role=?2 AND m.stats<>'' AND json_valid(m.stats)"               \
	" AND instr(coalesce(json_extract(m.stats, '$.context'), ''), '\"' || replace(f.text, '\"', '''') || '\"')>0"

int fact_sessions(struct store *s, int64_t id, library_session_fn *fn, void *ud, struct err *e)
{
	/* a fork may show questions of another session */
	sqlite3_stmt *st =
		db_query(&s->db, e,
	                 "WITH quoting AS (SELECT m.session AS session" QUOTING ") SELECT session FROM quoting"
	                 " UNION SELECT id FROM session WHERE base<>0 AND EXISTS (SELECT 1 FROM quoting)",
	                 "ii", id, (int64_t)ROLE_USER);
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0)
		if (fn(sqlite3_column_int64(st, 0), ud))
			rc = 0;
	db_put(&s->db, st);
	return rc;
}

/* If a question quotes the fact, remove the context from the question's stats. */
static int forget_quotes(struct store *s, int64_t id, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT m.id, json_remove(m.stats, '$.context')" QUOTING, "ii", id,
	                            (int64_t)ROLE_USER);
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0)
		if (message_set_stats(s, sqlite3_column_int64(st, 0), db_text(st, 1), e))
			rc = -1;
	db_put(&s->db, st);
	return rc;
}

/* A change of fact `id`. `text` is the new text of the fact; NULL = the fact is deleted. */
struct changing {
	int64_t id;
	const char *text;
	size_t n;
};

static int do_change(struct store *s, void *arg, struct err *e)
{
	const struct changing *c = arg;
	int64_t session = 0, at = 0;
	int found = db_find(&s->db, e, &session, "SELECT session FROM fact WHERE id=?1", "i", c->id);

	if (found > 0)
		found = db_find(&s->db, e, &at, "SELECT at FROM fact WHERE id=?1", "i", c->id);
	if (found <= 0)
		return found < 0 ? -1 : err_set(e, ERR_USAGE, "there is no fact %lld", (long long)c->id);
	if (forget_quotes(s, c->id, e))
		return -1;
	if (!c->text)
		return db_run(&s->db, e, "DELETE FROM fact WHERE id=?1", "i", c->id);
	return db_run(&s->db, e, "UPDATE fact SET text=?2, sum=?3 WHERE id=?1", "isi", c->id, c->text, c->n,
	              fact_sum(session, at, c->text, c->n));
}

int fact_change(struct store *s, int64_t id, const char *text, size_t n, struct err *e)
{
	struct changing c = { id, text, n };

	if ((text && fact_check(text, n, e)) || store_change(s, do_change, &c, e))
		return -1;
	store_erase_traces(s);
	return 0;
}
