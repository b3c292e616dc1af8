/* sessions/snap/snap_check.c - verifies kv.db: the structure of the file, chunks (KV entries of 256 tokens), and heads
 * (records of timelines at one message). */
#include "sessions/snap/snap_private.h"

#include <string.h>

static int check_chunks(struct snaps *s, struct str *report, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT key, id, bytes FROM chunk ORDER BY id", "");
	uint64_t biggest = (uint64_t)PART_TAIL * PART_BYTES;
	int rc = -1;

	while (st && (rc = db_step(&s->db, st, e)) > 0) {
		int64_t id = sqlite3_column_int64(st, 1), bytes = sqlite3_column_int64(st, 2);
		int n_key = sqlite3_column_bytes(st, 0);
		int good = (n_key == KEY_BYTES || n_key == PACKED_KEY_BYTES) && bytes > 0 && (uint64_t)bytes <= biggest;

		if (good) {
			int64_t there = 0;

			/* allocate memory only if `bytes` equals the sum of the stored rows, because a damaged `bytes`
			 * may be huge */
			rc = db_find(&s->db, e, &there, "SELECT total(length(data)) FROM part WHERE id BETWEEN ? AND ?",
			             "ii", part_id(id, 0), part_id(id, PART_TAIL - 1));
			if (rc < 0 || (there == bytes && snaps_stage(s, (uint64_t)bytes, e)))
				break;
			rc = there == bytes
			             ? parts_read(s, id, 0, sqlite3_column_blob(st, 0), s->staging, (uint64_t)bytes, e)
			             : 0;
			if (rc < 0)
				break;
			good = rc;
		}
		rc = -1;
		if (!good)
			str_addf(report, "KV entries of %d tokens are damaged (chunk %lld)\n", CHUNK_TOKENS,
			         (long long)id);
	}
	db_put(&s->db, st);
	return rc;
}

int head_check(struct snaps *s, int64_t id, int64_t message, int64_t bytes, int64_t tail, const uint8_t key[KEY_BYTES],
               struct err *e)
{
	struct head_layout lay;
	int64_t there = 0;
	int rc = id <= 0 || id > SERIAL_MOST
	                 ? 0
	                 : db_find(&s->db, e, &there, "SELECT total(length(data)) FROM part WHERE id BETWEEN ? AND ?",
	                           "ii", part_id(id, 0), part_id(id, (1 << PART_BITS) - 1));

	if (rc <= 0)
		return rc;
	if (bytes < HEAD_FIXED || tail < 0 || bytes > there || tail != there - bytes)
		return 0;
	if (snaps_stage(s, (uint64_t)(MAX(bytes, tail)), e))
		return -1;
	rc = parts_read(s, id, PART_TAIL, key, s->staging, (uint64_t)tail, e);
	if (rc > 0)
		rc = parts_read(s, id, 0, key, s->staging, (uint64_t)bytes, e);
	return rc <= 0 ? rc : !head_layout_get(&lay, s->staging, (uint64_t)bytes) && lay.message == message;
}

static int check_heads(struct snaps *s, struct str *report, struct err *e)
{
	sqlite3_stmt *st =
		db_query(&s->db, e, "SELECT id, message, bytes, tail, fingerprint FROM head WHERE done = 1 ORDER BY id",
	                 "");
	int rc = -1;

	while (st && (rc = db_step(&s->db, st, e)) > 0) {
		int64_t id = sqlite3_column_int64(st, 0);

		rc = sqlite3_column_bytes(st, 4) != KEY_BYTES
		             ? 0
		             : head_check(s, id, sqlite3_column_int64(st, 1), sqlite3_column_int64(st, 2),
		                          sqlite3_column_int64(st, 3), sqlite3_column_blob(st, 4), e);
		if (rc < 0)
			break;
		if (!rc)
			str_addf(report, "a snapshot is damaged (head %lld)\n", (long long)id);
	}
	db_put(&s->db, st);
	return rc;
}

static int check_tree(struct snaps *s, struct str *report, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "PRAGMA quick_check(20)", "");
	int rc = -1;

	while (st && (rc = db_step(&s->db, st, e)) > 0) {
		const char *text = (const char *)sqlite3_column_text(st, 0);

		if (text && strcmp(text, "ok"))
			str_addf(report, "the structure of '%s' is damaged: %.200s\n", s->path, text);
	}
	db_put(&s->db, st);
	return rc;
}

int snaps_check(struct snaps *s, struct str *report, struct err *e)
{
	size_t before = report->n;
	struct err why = { 0 };
	int rc;

	if (!s->db.h)
		return s->db.read_only ? 0 : snaps_writable(s, e);
	s->db.code = 0;
	rc = check_tree(s, report, &why) || check_chunks(s, report, &why) || check_heads(s, report, &why);
	if (rc && !db_damaged(&s->db)) {
		if (e)
			*e = why;
		return -1;
	}
	if (rc)
		str_addf(report, "%s\n", why.msg);
	return report->n > before;
}
