/* sessions/store/check.c - checks all of chat.db and repairs its search indexes.
 *
 * SQLite's integrity check finds damaged structure, but not a flipped bit in a text. Therefore messages, documents
 * and settings have checksums, which are verified here. References between rows are checked, too. Only the search
 * indexes are repaired: they can be rebuilt from messages and documents. */
#include "sessions/store/passages.h"

#include <string.h>

#define LINES_MOST 100 /* maximum number of lines about one kind of defect in the report */

struct checking {
	struct store *s;
	struct str *report;
	int wrong;
};

/* End a check that returned rc. If rc < 0, the check failed with the error *seen. If the file is damaged, append the
 * error to the report and return 0, so that the other checks run. After any other error, return -1. */
static int end_part(struct checking *c, int rc, const struct err *seen, struct err *e)
{
	if (rc >= 0)
		return 0;
	if (!db_damaged(&c->s->db))
		return err_set(e, seen->code, "%s", seen->msg);
	c->wrong = 1;
	str_addf(c->report, "%s\n", seen->msg);
	return 0;
}

static int check_structure(struct checking *c, struct err *e)
{
	struct db *d = &c->s->db;
	struct err seen = { 0 };
	sqlite3_stmt *st = db_query(d, &seen, "PRAGMA integrity_check(100)", "");
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(d, st, &seen)) > 0) {
		const char *says = (const char *)sqlite3_column_text(st, 0);
		if (!says || strcmp(says, "ok")) {
			c->wrong = 1;
			str_addf(c->report, "structure: %s\n", says ? says : "no answer");
		}
	}
	db_put(d, st);
	return end_part(c, rc, &seen, e);
}

/* Write the schema as text, without the internal tables of FTS5, because their definitions depend on SQLite's
 * version. */
static int schema_text(struct db *d, struct str *out, struct err *e)
{
	sqlite3_stmt *st = db_query(d, e,
	                            "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema"
	                            " WHERE name NOT LIKE 'find\\_%' ESCAPE '\\'"
	                            " AND name NOT LIKE 'sentence\\_%' ESCAPE '\\' ORDER BY type, name",
	                            "");
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(d, st, e)) > 0)
		for (int i = 0; i < 4; i++) {
			size_t n;
			const char *text = db_bytes(st, i, 0, &n);
			str_add(out, text, n);
			str_adds(out, i < 3 ? " " : "\n");
		}
	db_put(d, st);
	return rc;
}

/* Compare the schema with the schema of a newly created database. */
static int check_schema(struct checking *c, struct err *e)
{
	struct str here = { 0 }, fresh = { 0 };
	struct err seen = { 0 };
	struct db d;
	int rc;

	if (db_open_memory(&d, e))
		return -1;
	rc = store_migrate(&d, 0, store_version, e) || schema_text(&d, &fresh, e) ? -1 : 0;
	db_close(&d);
	if (!rc)
		rc = end_part(c, schema_text(&c->s->db, &here, &seen), &seen, e);
	if (!rc && (here.n != fresh.n || memcmp(here.p, fresh.p, here.n))) {
		c->wrong = 1;
		str_adds(c->report, "the tables are not those that weir makes\n");
	}
	str_free(&here);
	str_free(&fresh);
	return rc;
}

/* Run a query that selects defective rows, and report each of them: "message 7: SENTENCE". The columns of the query are
 * id and kind ("message"). */
static int check_rule(struct checking *c, const char *sql, const char *sentence, struct err *e)
{
	struct db *d = &c->s->db;
	struct err seen = { 0 };
	sqlite3_stmt *st = db_query(d, &seen, sql, "");
	int rc = st ? 1 : -1, lines = 0;

	while (rc > 0 && (rc = db_step(d, st, &seen)) > 0) {
		c->wrong = 1;
		if (lines++ >= LINES_MOST)
			continue;
		str_addf(c->report, "%s %lld: %s\n", sqlite3_column_text(st, 1), (long long)sqlite3_column_int64(st, 0),
		         sentence);
	}
	db_put(d, st);
	if (lines > LINES_MOST)
		str_addf(c->report, "... and %d more of these\n", lines - LINES_MOST);
	return end_part(c, rc, &seen, e);
}

/* Verify the checksum of each row that the query returns. Column 0 of the query is the row's id; ok() verifies the
 * columns from 1 on. `what` is the kind of the row ("message"). `sentence` is the report about a wrong checksum. */
static int check_sums(struct checking *c, const char *sql, int (*ok)(sqlite3_stmt *, int), const char *what,
                      const char *sentence, struct err *e)
{
	struct db *d = &c->s->db;
	struct err seen = { 0 };
	sqlite3_stmt *st = db_query(d, &seen, sql, "");
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(d, st, &seen)) > 0)
		if (!ok(st, 1)) {
			c->wrong = 1;
			str_addf(c->report, "%s %lld: %s\n", what, (long long)sqlite3_column_int64(st, 0), sentence);
		}
	db_put(d, st);
	return end_part(c, rc, &seen, e);
}

static int check_texts(struct checking *c, struct err *e)
{
	struct db *d = &c->s->db;
	struct err seen = { 0 };
	sqlite3_stmt *st = db_query(d, &seen, "SELECT id, hash, text FROM content", "");
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(d, st, &seen)) > 0) {
		size_t n_hash, n;
		const void *hash = db_bytes(st, 1, 1, &n_hash), *text = db_bytes(st, 2, 0, &n);
		uint8_t now[32];
		if (text_hash(text, n, now, e)) {
			db_put(d, st);
			return -1;
		}
		if (n_hash != sizeof now || memcmp(hash, now, sizeof now)) {
			c->wrong = 1;
			str_addf(c->report, "text %lld of a document is not what was saved\n",
			         (long long)sqlite3_column_int64(st, 0));
		}
	}
	db_put(d, st);
	return end_part(c, rc, &seen, e);
}

/* Compare the search index of messages with the messages, and rebuild the index if it differs. If the store is
 * read-only, do nothing, because FTS5 needs an INSERT statement for the comparison. */
static int check_index(struct checking *c, struct err *e)
{
	struct db *d = &c->s->db;
	struct err seen = { 0 };

	if (c->s->read_only)
		return 0;
	if (db_begin(d, e))
		return -1;
	if (!db_end(d, db_run(d, &seen, "INSERT INTO find(find, rank) VALUES('integrity-check', 1)", ""), &seen))
		return 0;
	if (!db_index_damaged(d))
		return err_set(e, seen.code, "%s", seen.msg);
	c->wrong = 1;
	if (db_begin(d, e))
		return -1;
	if (db_end(d, index_rebuild(d, &seen), &seen)) {
		str_adds(c->report, "the search index is damaged, and could not be made anew:\n");
		return end_part(c, -1, &seen, e);
	}
	str_adds(c->report, "the search index was not that of the messages; it was made anew\n");
	return 0;
}

/* Check the search index of documents. If it is damaged, empty it: the next search indexes the documents again. */
static int check_passages(struct checking *c, struct err *e)
{
	struct db *d = &c->s->db;
	struct err seen = { 0 };
	int64_t lost;
	int whole;

	if (c->s->read_only)
		return 0;
	if (db_begin(d, e))
		return -1;
	whole = passages_whole(d, &seen);
	if (db_end(d, whole < 0 ? -1 : 0, &seen) && !db_index_damaged(d))
		return err_set(e, seen.code, "%s", seen.msg);
	if (whole > 0 &&
	    db_find(d, e, &lost,
	            "SELECT count(*) FROM passages p WHERE NOT EXISTS (SELECT 1 FROM content c WHERE c.hash=p.hash)",
	            "") < 0)
		return -1;
	if (whole > 0 && !lost)
		return 0;
	c->wrong = 1;
	if (db_begin(d, e))
		return -1;
	if (db_end(d, passages_empty(d, &seen), &seen)) {
		str_adds(c->report, "the index of documents is damaged, and could not be emptied:\n");
		return end_part(c, -1, &seen, e);
	}
	str_adds(c->report,
	         "the index of documents was not that of their texts; it is made anew with the next search\n");
	return 0;
}

int store_check(struct store *s, struct str *report, struct err *e)
{
	struct checking c = { s, report, 0 };

	str_clear(report);
	if (check_structure(&c, e) || check_schema(&c, e))
		return -1;
	if (check_rule(&c,
	               "SELECT id, 'message' FROM message m WHERE parent<>0 AND (parent>=id OR NOT EXISTS"
	               " (SELECT 1 FROM message p WHERE p.id=m.parent))",
	               "the message before it is lost", e) ||
	    check_rule(&c,
	               "SELECT id, 'message' FROM message m WHERE depth<>1+coalesce("
	               "(SELECT depth FROM message p WHERE p.id=m.parent), 0)",
	               "its depth in the tree is wrong", e) ||
	    check_rule(
		    &c,
		    "SELECT id, 'message' FROM message m WHERE NOT EXISTS (SELECT 1 FROM session s WHERE s.id=m.session)",
		    "its session is lost", e) ||
	    check_rule(
		    &c,
		    "SELECT id, 'message' FROM message m WHERE beginning<>0 AND (beginning>=id OR NOT EXISTS (SELECT 1 FROM message b"
		    " WHERE b.id=m.beginning AND length(CAST(b.text AS BLOB))+b.beginning_bytes>=m.beginning_bytes))",
		    "the beginning of its text is lost", e) ||
	    check_rule(&c,
	               "SELECT id, 'session' FROM session s WHERE messages<>coalesce("
	               "(SELECT depth FROM message m WHERE m.id=s.head), 0) OR head<>0 AND NOT EXISTS"
	               " (SELECT 1 FROM message m WHERE m.id=s.head)",
	               "its last message is lost or its number of messages is wrong", e) ||
	    check_rule(&c,
	               "SELECT id, 'session' FROM session s WHERE base<>0 AND NOT EXISTS"
	               " (SELECT 1 FROM message m WHERE m.id=s.base)",
	               "the message it was forked at is lost", e) ||
	    check_rule(
		    &c,
		    "SELECT session, 'session' FROM (SELECT session FROM setting UNION SELECT session FROM document) x"
		    " WHERE NOT EXISTS (SELECT 1 FROM session s WHERE s.id=x.session)",
		    "it has settings or documents, but the session itself is lost", e) ||
	    check_rule(
		    &c,
		    "SELECT id, 'document' FROM document d WHERE NOT EXISTS (SELECT 1 FROM content c WHERE c.id=d.content)",
		    "its text is lost", e) ||
	    check_rule(&c,
	               "SELECT id, 'document' FROM document d WHERE after<>0 AND NOT EXISTS"
	               " (SELECT 1 FROM message m WHERE m.id=d.after)",
	               "the message it was added after is lost", e) ||
	    check_rule(
		    &c,
		    "SELECT id, 'text' FROM content c WHERE NOT EXISTS (SELECT 1 FROM document d WHERE d.content=c.id)",
		    "no document uses it", e) ||
	    check_rule(
		    &c,
		    "SELECT content, 'text' FROM outline o WHERE NOT EXISTS (SELECT 1 FROM content c WHERE c.id=o.content)",
		    "its pages and headings are stored, but the text itself is lost", e))
		return -1;
	if (check_sums(&c,
	               "SELECT id, role, complete, text, token, stats, sum, beginning, beginning_bytes FROM message",
	               message_sum_ok, "message", "its text or tokens are not what was saved", e) ||
	    check_sums(&c, "SELECT session, key, sum, value FROM setting", setting_sum_ok, "session",
	               "a setting is not what was saved", e) ||
	    check_sums(&c, "SELECT id, content, bytes, at, after, sum, name, mtime, file, path FROM document",
	               document_sum_ok, "document", "its name, size, place or file are not what was saved", e) ||
	    check_sums(&c, "SELECT id, session, at, sum, text FROM fact", fact_sum_ok, "fact",
	               "its text is not what was saved", e) ||
	    check_sums(&c, "SELECT content, type, bytes, sum, marks FROM outline", outline_sum_ok, "text",
	               "its pages and headings are not what was saved; they are found anew in the text", e) ||
	    check_texts(&c, e) || check_index(&c, e) || check_passages(&c, e))
		return -1;
	return c.wrong;
}
