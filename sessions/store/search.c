/* sessions/store/search.c - full text search over all messages.
 *
 * The FTS5 index has external content: it stores no text. So FTS5 must be given the old text when a message changes. If
 * the index is wrong, it is rebuilt from the messages. Search words are quoted in FTS5 queries, so that they are not
 * operators. */
#include "sessions/store/store_private.h"
#include "engine/base/utf8.h"

#include <string.h>

#define WORDS_BYTES 1000
#define WORDS_MOST  40
#define LIMIT_MOST  1000
#define LEVELS_MOST 30 /* maximum number of levels of FTS5's merge tree; if there are more, the index is filled again */

/* ---- any FTS5 table ---- */

int fts_replace(struct db *d, const char *table, const char *create, struct err *e)
{
	static const char *const parts[] = { "data", "idx", "docsize", "config" };
	struct str sql = { 0 };
	int rc;

	/* SQLite cannot drop a virtual table that is too damaged to open: so delete its schema entry with SQL */
	str_addf(&sql, "PRAGMA writable_schema=ON; DELETE FROM sqlite_schema WHERE name='%s' AND type='table';", table);
	str_adds(&sql, "PRAGMA writable_schema=RESET;");
	for (size_t i = 0; i < LEN(parts); i++)
		str_addf(&sql, "DROP TABLE IF EXISTS %s_%s;", table, parts[i]);
	sqlite3_db_config(d->h, SQLITE_DBCONFIG_DEFENSIVE, 0, (int *)NULL);
	rc = db_exec(d, sql.p, e);
	sqlite3_db_config(d->h, SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0, (int *)NULL);
	sqlite3_db_config(d->h, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
	str_free(&sql);
	return rc ? rc : db_exec(d, create, e);
}

int fts_many_levels(struct db *d, const char *query, struct err *e)
{
	sqlite3_stmt *st = db_query(d, e, query, "");
	int rc = st ? db_step(d, st, e) : -1;

	if (rc > 0) {
		size_t n;
		const uint8_t *block = db_bytes(st, 0, 1, &n);
		rc = n < 5 || block[4] > LEVELS_MOST;
	}
	db_put(d, st);
	return rc;
}

/* ---- the index of messages ---- */

int index_add(struct store *s, int64_t id, const char *text, size_t n, struct err *e)
{
	return db_run(&s->db, e, "INSERT INTO find(rowid, text) VALUES(?1, ?2)", "is", id, text, n);
}

int index_remove(struct store *s, int64_t id, const char *text, size_t n, struct err *e)
{
	return db_run(&s->db, e, "INSERT INTO find(find, rowid, text) VALUES('delete', ?1, ?2)", "is", id, text, n);
}

int index_rebuild(struct db *d, struct err *e)
{
	struct err first = { 0 };

	if (!db_run(d, &first, "INSERT INTO find(find) VALUES('rebuild')", ""))
		return 0;
	if (!db_index_damaged(d))
		return err_set(e, first.code, "%s", first.msg);
	return fts_replace(d, "find", store_migrations[1].sql, e) ||
	                       db_run(d, e, "INSERT INTO find(find) VALUES('rebuild')", "")
	               ? -1
	               : 0;
}

int index_purge(struct store *s, struct err *e)
{
	int many = fts_many_levels(&s->db, "SELECT block FROM find_data WHERE id=10", e);

	if (many < 0)
		return -1;
	return many ? index_rebuild(&s->db, e) : db_run(&s->db, e, "INSERT INTO find(find) VALUES('optimize')", "");
}

/* Write the FTS5 query for the words of a search: each word or "phrase" as a quoted string. FTS5 finds messages
 * that contain all of them. */
static int build_query(const char *words, struct str *out, struct err *e)
{
	size_t n = strlen(words);
	int count = 0;

	if (n > WORDS_BYTES)
		return err_set(e, ERR_USAGE, "a search has at most %d bytes, this one %zu", WORDS_BYTES, n);
	for (size_t i = 0; i < n;) {
		int phrase = words[i] == '"';
		size_t start = i += (size_t)phrase;
		if (!phrase && byte_is_blank(words[i])) {
			i++;
			continue;
		}
		while (i < n && (phrase ? words[i] != '"' : !byte_is_blank(words[i]) && words[i] != '"'))
			i++;
		if (i > start) {
			if (++count > WORDS_MOST)
				return err_set(e, ERR_USAGE, "a search has at most %d words", WORDS_MOST);
			str_adds(out, "\"");
			/* a word contains no quotation mark, because a quotation mark ends the word */
			str_add(out, words + start, i - start);
			str_adds(out, "\" ");
		}
		i += (size_t)phrase;
	}
	return count ? 0 : err_set(e, ERR_USAGE, "nothing to search for: name a word");
}

int store_search(struct store *s, const char *words, int limit, found_fn *fn, void *ud, struct err *e)
{
	struct str query = { 0 };
	sqlite3_stmt *st = NULL;
	int rc = build_query(words, &query, e) ? -1 : 1;

	limit = limit < 1 ? 1 : MIN(LIMIT_MOST, limit);
	if (rc > 0)
		st = db_query(&s->db, e,
		              "SELECT s.id, m.id, coalesce(s.name, ''), s.title, m.role,"
		              " snippet(find, 0, char(1), char(2), '\xe2\x80\xa6', 16), m.at FROM find"
		              " CROSS JOIN message m ON m.id=find.rowid CROSS JOIN session s ON s.id=m.session"
		              " WHERE find MATCH ?1 ORDER BY rank LIMIT ?2",
		              "si", query.p, query.n, (int64_t)limit);
	if (!st)
		rc = -1;
	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0) {
		struct found f = {
			.session = sqlite3_column_int64(st, 0),
			.message = sqlite3_column_int64(st, 1),
			.name = db_text(st, 2),
			.title = db_text(st, 3),
			.role = sqlite3_column_int(st, 4),
			.snippet = db_text(st, 5),
			.at = sqlite3_column_int64(st, 6),
		};
		if (f.role < 0 || f.role > 2)
			f.role = 1;
		if (fn(&f, ud)) {
			rc = 0;
			break;
		}
	}
	if (rc < 0 && st && (s->db.code == SQLITE_CORRUPT_VTAB || s->db.code == SQLITE_NOMEM))
		err_set(e, ERR_FAIL, "the search index in '%s' is damaged; 'weir sessions check' makes it anew",
		        s->dir);
	db_put(&s->db, st);
	str_free(&query);
	return rc;
}
