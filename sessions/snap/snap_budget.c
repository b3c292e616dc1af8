/* sessions/snap/snap_budget.c - keeps kv.db within its budget; packs, deletes and overwrites snapshots.
 *
 * A snapshot is a head (record of a timeline at one message) and the chunks of KV entries that it needs. If room is
 * short, three steps follow until there is enough:
 *     1. Delete chunks that no head needs, the oldest first.
 *     2. Replace chunks by packed copies (4 bits a value, snap_chunks.c), the least recently used first. The newest
 *        snapshot stays exact, and so does the session that is being saved.
 *     3. Delete heads, those of the lowest value first. The value is the number of tokens that would need a prefill
 *        without the head, divided by the time since its last use.
 *
 * Deleting a session must also erase its bytes. SQLite's secure_delete would first copy every page to the journal.
 * Instead, pages are freed, and then filled with zeros as rows of table `zero`: pages that were free when a transaction
 * began are not journaled. A row of table `about` makes the next start finish an interrupted erasure. */
#include "sessions/snap/snap_private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>


#define DAY_MS      86400000
/* One call of snaps_pack_old() packs at most this many bytes of chunks, plus twice the bytes by which kv.db is to
 * grow. */
#define WORK_LEAST  (256u << 20)
/* An unfinished save (row of table head with done = 0) that is older than this number of milliseconds belongs to a
 * process that died. */
#define RESERVED_MS 600000
#define VACUUM_STEP 4096 /* number of pages that one transaction frees */

int snaps_space(struct snaps *s, uint64_t *used, uint64_t *empty, struct err *e)
{
	int64_t size, pages, unused;

	if (db_find(&s->db, e, &size, "PRAGMA page_size", "") < 0 ||
	    db_find(&s->db, e, &pages, "PRAGMA page_count", "") < 0 ||
	    db_find(&s->db, e, &unused, "PRAGMA freelist_count", "") < 0)
		return -1;
	unused = unused < 0 ? 0 : MIN(unused, pages);
	*empty = (uint64_t)unused * (uint64_t)size;
	*used = (uint64_t)(pages - unused) * (uint64_t)size;
	return 0;
}

int head_delete(struct snaps *s, int64_t number, struct err *e)
{
	return parts_delete(s, number, e) || db_run(&s->db, e, "DELETE FROM need WHERE head = ?", "i", number) ||
	                       db_run(&s->db, e, "DELETE FROM head WHERE id = ?", "i", number) || snaps_deleted(s, e)
	               ? -1
	               : 0;
}

enum { AT_ONCE = 64 };
static int read_numbers(struct snaps *s, sqlite3_stmt *st, int64_t out[AT_ONCE], struct err *e)
{
	int n = 0, rc = st ? 0 : -1;

	while (st && n < AT_ONCE && (rc = db_step(&s->db, st, e)) > 0)
		out[n++] = sqlite3_column_int64(st, 0);
	db_put(&s->db, st);
	return rc < 0 ? -1 : n;
}

/* ---- the budget ---- */

/* 1 if kv.db can grow by `more` bytes within its budget, else 0; -1 on error. */
static int fits_budget(struct snaps *s, uint64_t more, struct err *e)
{
	uint64_t used, empty;

	if (snaps_space(s, &used, &empty, e))
		return -1;
	return more <= s->budget && used <= s->budget - more;
}

/* Delete chunks of KV entries that no snapshot needs, until kv.db can grow by `more` bytes within its budget. Returns 1
 * if kv.db can grow so; 0 if it cannot, although no such chunk is left; -1 on error. */
static int unneeded_chunks_delete(struct snaps *s, uint64_t more, int *dropped, struct err *e)
{
	for (;;) {
		int64_t id[AT_ONCE];
		int rc, n = read_numbers(s,
		                         db_query(&s->db, e,
		                                  "SELECT id FROM chunk WHERE id NOT IN (SELECT chunk FROM need) "
		                                  "ORDER BY used / 60000, depth DESC LIMIT 64",
		                                  ""),
		                         id, e);

		if (n <= 0)
			return n;
		for (int i = 0; i < n; i++) {
			if (chunk_delete(s, id[i], e))
				return -1;
			*dropped = 1;
			rc = fits_budget(s, more, e);
			if (rc)
				return rc;
		}
	}
}

/* ---- packed copies ----
 *
 * Packing needs the head dimension of the KV entries, which is not stored in a chunk. So a save stores it in table
 * `about` under the name "shape FINGERPRINT". The bits above the dimension hold a checksum. */

enum { DIM_BITS = 16 };

static int64_t dim_sealed(const uint8_t fingerprint[KEY_BYTES], int32_t dim)
{
	uint64_t sum = XXH3_64bits_withSeed(fingerprint, KEY_BYTES, (uint64_t)dim);

	return (int64_t)((sum >> (DIM_BITS + 1)) << DIM_BITS) | dim;
}

int packed_dim_save(struct snaps *s, const uint8_t fingerprint[KEY_BYTES], int32_t dim, struct err *e)
{
	if (!dim)
		return 0;
	return db_run(&s->db, e, "INSERT OR REPLACE INTO about VALUES('shape ' || hex(?), ?)", "bi", fingerprint,
	              (size_t)KEY_BYTES, dim_sealed(fingerprint, dim));
}

/* An exact chunk that may become a packed copy. */
struct candidate {
	int64_t number, depth;
	uint64_t bytes;
	int32_t dim;
	uint8_t key[KEY_BYTES];
};
enum { CANDIDATES = 16 };

/* Find exact chunks that may be packed, the least recently used first. A chunk stays exact if one of these needs it:
 * snapshot `keep`, a snapshot of session keep_session, the newest snapshot of all, or an unfinished snapshot. Returns
 * the number of chunks in out[], or -1. */
static int find_candidates(struct snaps *s, int64_t keep, int64_t keep_session, struct candidate out[CANDIDATES],
                           struct err *e)
{
	sqlite3_stmt *st = db_query(
		&s->db, e,
		"SELECT c.id, c.depth, c.bytes, c.key, a.value, h.fingerprint FROM (SELECT n.chunk, max(h.used) AS used, "
		"max(h.id) AS head, max(h.done = 0 OR h.id = ?1 OR h.session = ?2 OR h.id = (SELECT max(id) FROM head)) AS kept "
		"FROM need n JOIN head h ON h.id = n.head GROUP BY n.chunk) x JOIN chunk c ON c.id = x.chunk JOIN head h "
		"ON h.id = x.head JOIN about a ON a.name = 'shape ' || hex(h.fingerprint) WHERE NOT x.kept AND "
		"length(c.key) = 32 AND length(h.fingerprint) = 32 ORDER BY x.used, c.depth LIMIT 16",
		"ii", keep, keep_session);
	int n = 0, rc = -1;

	while (st && n < CANDIDATES && (rc = db_step(&s->db, st, e)) > 0) {
		int64_t value = sqlite3_column_int64(st, 4), bytes = sqlite3_column_int64(st, 2);
		int32_t dim = (int32_t)(value & ((1 << DIM_BITS) - 1));

		if (bytes <= 0 || value != dim_sealed(sqlite3_column_blob(st, 5), dim) ||
		    !entries_packed_bytes(chunk_packing(dim, sqlite3_column_int64(st, 1)), (uint64_t)bytes))
			continue;
		out[n] = (struct candidate){ .number = sqlite3_column_int64(st, 0),
			                     .depth = sqlite3_column_int64(st, 1),
			                     .bytes = (uint64_t)bytes,
			                     .dim = dim };
		memcpy(out[n++].key, sqlite3_column_blob(st, 3), KEY_BYTES);
	}
	db_put(&s->db, st);
	return rc < 0 ? -1 : n;
}

/* Replace an exact chunk by its packed copy, or delete a damaged one. Returns 1; 0 if the chunk cannot be packed; -1 on
 * error. */
static int chunk_pack(struct snaps *s, const struct candidate *c, struct err *e)
{
	struct entries_packing how = chunk_packing(c->dim, c->depth);
	uint64_t packed = entries_packed_bytes(how, c->bytes);
	uint8_t key[PACKED_KEY_BYTES];
	int64_t number = 0, there = 0;
	int rc = db_find(&s->db, e, &there, "SELECT total(length(data)) FROM part WHERE id BETWEEN ? AND ?", "ii",
	                 part_id(c->number, 0), part_id(c->number, PART_TAIL - 1));

	/* allocate memory only if `bytes` equals the sum of the stored rows, because a damaged `bytes` may be huge */
	if (rc > 0 && (uint64_t)there == c->bytes) {
		if (snaps_stage(s, c->bytes, NULL) || packed_stage(s, packed, NULL))
			return 0;
		rc = parts_read(s, c->number, 0, c->key, s->staging, c->bytes, e);
	} else {
		rc = MIN(rc, 0);
	}
	if (rc <= 0) /* 0: the chunk is damaged */
		return rc < 0 || chunk_delete(s, c->number, e) ? -1 : 1;
	if (entries_pack(how, s->staging, c->bytes, s->packed))
		return 0;
	packed_key(key, c->key);
	/* delete the bytes of the exact chunk first, so that SQLite writes the packed copy to the pages that become
	 * free */
	if (parts_delete(s, c->number, e) ||
	    db_find(&s->db, e, &number, "SELECT id FROM chunk WHERE key = ? AND bytes = ?", "bi", key, sizeof key,
	            (int64_t)packed) < 0 ||
	    (!number && chunk_write(s, c->key, 1, (int32_t)c->depth, s->packed, packed, &number, e)))
		return -1;
	return chunk_replace(s, c->number, number, e) ||
	                       db_run(&s->db, e, "DELETE FROM chunk WHERE id = ?", "i", c->number) ||
	                       snaps_deleted(s, e)
	               ? -1
	               : 1;
}

int snaps_pack_old(struct snaps *s, uint64_t more, int64_t keep, int64_t keep_session, int *dropped, struct err *e)
{
	uint64_t work = 2 * more + WORK_LEAST;
	struct candidate c[CANDIDATES];
	int n, rc = 0, packed = 1;

	while (packed && !rc && (n = find_candidates(s, keep, keep_session, c, e)) >= 0) {
		packed = 0;
		for (int i = 0; i < n && !rc && c[i].bytes <= work; i++) {
			work -= c[i].bytes;
			rc = chunk_pack(s, &c[i], e);
			packed += rc > 0;
			if (rc > 0)
				rc = fits_budget(s, more, e);
		}
	}
	*dropped |= work < 2 * more + WORK_LEAST;
	return n < 0 ? -1 : rc;
}

/* ---- making room ---- */

int snaps_make_room(struct snaps *s, uint64_t more, int64_t keep, int64_t keep_session, int *dropped, struct err *e)
{
	int rc = fits_budget(s, more, e);

	while (!rc) {
		int64_t id;

		rc = unneeded_chunks_delete(s, more, dropped, e);
		if (!rc)
			rc = snaps_pack_old(s, more, keep, keep_session, dropped, e);
		if (rc)
			break;
		rc = db_find(
			&s->db, e, &id,
			"SELECT id FROM head h WHERE id <> ?1 AND NOT (session = ?2 AND id = (SELECT max(id) FROM "
			"head WHERE session = ?2 AND id <> ?1)) ORDER BY CASE WHEN id = (SELECT max(id) FROM head WHERE "
			"session = h.session) THEN tokens ELSE tokens - 256 * chunks + 1 END / "
			"(max(?3 - used, 0) / 1000.0 + 60.0), id LIMIT 1",
			"iii", keep, keep_session, snaps_now());
		if (rc <= 0)
			break;
		rc = head_delete(s, id, e);
		*dropped = 1;
		if (!rc)
			rc = fits_budget(s, more, e);
	}
	return rc < 0 ? -1 : 0;
}

/* ---- sweeping ---- */

int snaps_sweep(struct snaps *s, int all, struct err *e)
{
	int64_t id[AT_ONCE], now = snaps_now(), before = all ? INT64_MAX : now - DAY_MS;
	int64_t reserved = s->store->alone_at > now - RESERVED_MS ? s->store->alone_at : now - RESERVED_MS;
	int n;

	/* Delete unfinished snapshots (done = 0) of processes that died. A recent one may belong to a process that
	 * is saving now. */
	while ((n = read_numbers(s,
	                         db_query(&s->db, e, "SELECT id FROM head WHERE done = 0 AND used < ? LIMIT 64", "i",
	                                  reserved),
	                         id, e)) > 0)
		for (int i = 0; i < n; i++)
			if (head_delete(s, id[i], e))
				return -1;
	if (n < 0 || db_run(&s->db, e, "DELETE FROM need WHERE head NOT IN (SELECT id FROM head)", ""))
		return -1;
	while ((n = read_numbers(
			s,
			db_query(&s->db, e,
	                         "SELECT id FROM chunk WHERE used < ? AND id NOT IN (SELECT chunk FROM need) LIMIT 64",
	                         "i", before),
			id, e)) > 0)
		for (int i = 0; i < n; i++)
			if (chunk_delete(s, id[i], e))
				return -1;
	return n;
}

/* Delete stored bytes without an owner (a row of table chunk or head), which only damage leaves behind. Delete the
 * texts of fingerprints that no snapshot has any more, except the text of the current fingerprint. */
static int sweep_parts(struct snaps *s, struct err *e)
{
	if (db_run(&s->db, e,
	           "DELETE FROM part WHERE id >> 12 NOT IN (SELECT id FROM chunk UNION ALL SELECT id FROM head)", ""))
		return -1;
	if (db_run(&s->db, e,
	           "DELETE FROM about WHERE name LIKE 'shape %' AND substr(name, 7) NOT IN (SELECT hex(fingerprint) FROM "
	           "head)",
	           ""))
		return -1;
	return db_run(
		&s->db, e,
		"DELETE FROM identity WHERE fingerprint <> ? AND fingerprint NOT IN (SELECT fingerprint FROM head)",
		"b", s->mine.all, sizeof s->mine.all);
}

/* ---- overwriting ---- */

/* Fill free pages of the file with zeros, in one transaction of at most SNAPS_TX_BYTES. *left is the number of free
 * pages that are not filled yet. */
static int scrub_some(struct snaps *s, int64_t *left, struct err *e)
{
	uint64_t written = 0;
	int64_t size = PAGE_BYTES;

	if (db_find(&s->db, e, &size, "PRAGMA page_size", "") < 0)
		return -1;
	while (written < SNAPS_TX_BYTES) {
		int64_t n;

		if (db_find(&s->db, e, left, "PRAGMA freelist_count", "") < 0)
			return -1;
		if (*left <= 0)
			return 0;
		/* an overflow page begins with a link of 4 bytes, so size - 4 bytes of the row fit into it */
		n = (*left < PART_BYTES / size ? *left : PART_BYTES / size) * (size - 4);
		if (db_run(&s->db, e, "INSERT INTO zero VALUES(zeroblob(?))", "i", n))
			return -1;
		written += (uint64_t)n;
	}
	return 0;
}

int snaps_scrub(struct snaps *s, struct err *e)
{
	int64_t left = 1;
	int rc = 0;

	/* The row 'scrub' in table `about` makes the next start repeat the erasure. Another process may free pages
	 * between two transactions. So the transaction that deletes the row first verifies that the file has no free
	 * page. */
	do {
		while (left > 0 && !rc)
			rc = snaps_begin(s, e) || db_end(&s->db, scrub_some(s, &left, e), e);
		if (rc || snaps_begin(s, e))
			return -1;
		rc = db_find(&s->db, e, &left, "PRAGMA freelist_count", "") < 0 ||
		     (left <= 0 && (db_run(&s->db, e, "DELETE FROM zero", "") ||
		                    db_run(&s->db, e, "DELETE FROM about WHERE name = 'scrub'", "")));
		rc = db_end(&s->db, rc ? -1 : 0, e);
	} while (left > 0 && !rc);
	return rc;
}

/* Return empty pages to the file system. */
static int give_back_pages(struct snaps *s, struct err *e)
{
	int64_t before = INT64_MAX, unused;
	int rc;

	for (;;) {
		if (db_find(&s->db, e, &unused, "PRAGMA freelist_count", "") < 0)
			return -1;
		if (unused <= 0 || unused >= before)
			return 0;
		before = unused;
		_Static_assert(VACUUM_STEP == 4096, "the statement below");
		if (db_gate_enter(s->db.gate, s->path, e))
			return -1;
		rc = db_exec(&s->db, "PRAGMA incremental_vacuum(4096)", e);
		db_gate_leave(s->db.gate);
		if (rc)
			return -1;
	}
}

/* ---- operations ---- */

static int delete_session(struct snaps *s, int64_t session, struct err *e)
{
	int64_t id[AT_ONCE];
	int n;

	while ((n = read_numbers(s, db_query(&s->db, e, "SELECT id FROM head WHERE session = ? LIMIT 64", "i", session),
	                         id, e)) > 0)
		for (int i = 0; i < n; i++)
			if (head_delete(s, id[i], e))
				return -1;
	/* a chunk of KV entries that no snapshot needs may belong to this session: so delete all such chunks, even new
	 * ones */
	if (n < 0 || snaps_sweep(s, 1, e))
		return -1;
	return db_run(&s->db, e, "INSERT OR REPLACE INTO about VALUES('scrub', 1)", "");
}

/* Delete kv.db.aside, because it may contain KV entries of any session. It is an earlier kv.db that was unusable and
 * was renamed. Returns the number of bytes that were freed. */
static uint64_t remove_aside(const struct snaps *s)
{
	struct str aside = { 0 };
	struct stat st;
	uint64_t n = 0;

	str_addf(&aside, "%s.aside", s->path);
	if (!lstat(aside.p, &st) && !unlink(aside.p) && st.st_size > 0)
		n = (uint64_t)st.st_size;
	str_free(&aside);
	return n;
}

static int drop_and_scrub(struct snaps *s, int64_t session, struct err *e)
{
	uint64_t used, empty;

	return snaps_begin(s, e) || db_end(&s->db, delete_session(s, session, e), e) || snaps_scrub(s, e) ||
	                       snaps_space(s, &used, &empty, e) || (empty > used / 4 && give_back_pages(s, e))
	               ? -1
	               : 0;
}

int snap_drop(struct snaps *s, int64_t session, struct err *e)
{
	int rc;

	snaps_start(s);
	if (snaps_writable(s, e))
		return -1;
	rc = s->ruined ? -1 : drop_and_scrub(s, session, e);
	/* a damaged file cannot be edited, so replace the whole file */
	if (rc && (s->ruined || db_damaged(&s->db)))
		rc = snaps_renew(s, e);
	remove_aside(s);
	return rc ? snaps_failed(s, e) : 0;
}

static int gc_body(struct snaps *s, struct err *e)
{
	int dropped = 0;

	return snaps_sweep(s, 0, e) || sweep_parts(s, e) || snaps_make_room(s, 0, 0, 0, &dropped, e) ? -1 : 0;
}

int snaps_gc(struct snaps *s, uint64_t *freed, struct err *e)
{
	uint64_t used, empty, used_after, empty_after;
	int64_t scrub;

	*freed = 0;
	snaps_start(s);
	if (snaps_writable(s, e) || (s->ruined && snaps_renew(s, e)))
		return -1;
	if (snaps_space(s, &used, &empty, e) || snaps_begin(s, e) || db_end(&s->db, gc_body(s, e), e) ||
	    db_number(&s->db, "SELECT value FROM about WHERE name = 'scrub'", &scrub, e) ||
	    (scrub && snaps_scrub(s, e)) || give_back_pages(s, e) || snaps_space(s, &used_after, &empty_after, e))
		return snaps_failed(s, e);
	*freed = used + empty > used_after + empty_after ? used + empty - used_after - empty_after : 0;
	*freed += remove_aside(s);
	return 0;
}
