/* sessions/snap/snap_chunks.c - stores chunks (KV entries of 256 tokens) as parts, which are rows of at most
 * PART_BYTES.
 *
 * A chunk is found by its key: the SHA-256 of the previous chunk's key, the fingerprint (which identifies all
 * properties with which the entries were computed) and the tokens. So the key depends on all tokens up to the chunk's
 * end.
 *
 * Each part has a checksum: XXH3-64 of key, part number and bytes. It detects flipped bits, and rows that a
 * damaged B-tree returns under a wrong number. A part with a wrong checksum counts as missing. */
#include "sessions/snap/snap_private.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void put_le32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

void chunk_key(uint8_t key[KEY_BYTES], const uint8_t before[KEY_BYTES], const struct fingerprint *f, const int32_t *id,
               const uint8_t *marks, int32_t n)
{
	uint8_t text[2 * KEY_BYTES + CHUNK_TOKENS * 5];
	size_t at = 2 * KEY_BYTES;
	int read = 1;

	if (n < 0 || n > CHUNK_TOKENS)
		abort();
	memcpy(text, before, KEY_BYTES);
	for (int32_t i = 0; marks && i < n; i++)
		read &= !marks[i];
	/* KV entries of prefilled tokens do not depend on the cache policy. A chunk that contains only such entries is
	 * stored under the fingerprint without the policy. */
	memcpy(text + KEY_BYTES, read ? f->entries : f->all, KEY_BYTES);
	for (int32_t i = 0; i < n; i++, at += 4)
		put_le32(text + at, (uint32_t)id[i]);
	if (marks)
		memcpy(text + at, marks, (size_t)n);
	else
		memset(text + at, 0, (size_t)n);
	at += (size_t)n;
	/* This fails only if memory is short. Abort, because entries under a wrong key would later be loaded for other
	 * tokens. */
	if (EVP_Digest(text, at, key, NULL, EVP_sha256(), NULL) != 1)
		abort();
}

/* ---- parts ---- */

static int64_t part_sum(const uint8_t key[KEY_BYTES], int part, const void *bytes, size_t n)
{
	uint8_t whose[KEY_BYTES + 4];

	memcpy(whose, key, KEY_BYTES);
	put_le32(whose + KEY_BYTES, (uint32_t)part);
	return (int64_t)XXH3_64bits_withSeed(bytes, n, XXH3_64bits(whose, sizeof whose));
}

int64_t part_id(int64_t owner, int part)
{
	/* shift as unsigned: an overflow of a signed number is undefined, and a number from a damaged file may be too
	 * large */
	return (int64_t)((uint64_t)owner << PART_BITS | (unsigned)part);
}

int parts_write(struct snaps *s, int64_t owner, int first, const uint8_t key[KEY_BYTES], const void *bytes, uint64_t n,
                struct err *e)
{
	const uint8_t *p = bytes;

	if (n > (uint64_t)PART_TAIL * PART_BYTES)
		return err_set(e, ERR_FIT, "a snapshot of %llu bytes in one piece is beyond the limit of %llu",
		               (unsigned long long)n, (unsigned long long)PART_TAIL * PART_BYTES);
	for (int part = first; n; part++) {
		size_t len = MIN(n, PART_BYTES);

		if (db_run(&s->db, e, "INSERT INTO part VALUES(?, ?, ?)", "iib", part_id(owner, part),
		           part_sum(key, part, p, len), p, len))
			return -1;
		p += len;
		n -= len;
	}
	return 0;
}

/* Handle a failed read. If the cause is a damaged B-tree, mark the file, so that nothing more is written to it, and
 * return 0, as for a missing row. Otherwise return rc. */
static int damage_or_error(struct snaps *s, int rc)
{
	if (rc >= 0 || !db_damaged(&s->db))
		return rc;
	s->ruined = 1;
	return 0;
}

/* Read the stored row with number `id`, which has n bytes, to `out`. SQLite's blob interface avoids a copy. Returns 1
 * or -1. */
static int blob_read(struct snaps *s, int64_t id, void *out, size_t n, struct err *e)
{
	sqlite3_blob *b = NULL;
	int rc = sqlite3_blob_open(s->db.h, "main", "part", "data", id, 0, &b) || sqlite3_blob_read(b, out, (int)n, 0)
	                 ? db_error(&s->db, "read", e)
	                 : 1;

	sqlite3_blob_close(b);
	return rc;
}

int parts_read(struct snaps *s, int64_t owner, int first, const uint8_t key[KEY_BYTES], void *out, uint64_t n,
               struct err *e)
{
	uint8_t *p = out;

	if (owner < 0 || owner > SERIAL_MOST || n > (uint64_t)PART_TAIL * PART_BYTES)
		return 0;
	for (int part = first; n; part++) {
		size_t len = MIN(n, PART_BYTES);
		/* typeof() and length() do not read the bytes of the value */
		sqlite3_stmt *st = db_query(&s->db, e,
		                            "SELECT sum, CASE typeof(data) WHEN 'blob' THEN length(data) END FROM part "
		                            "WHERE id = ?",
		                            "i", part_id(owner, part));
		int rc = st ? db_step(&s->db, st, e) : -1;
		int64_t sum = rc > 0 ? sqlite3_column_int64(st, 0) : 0;

		if (rc > 0)
			rc = sqlite3_column_int64(st, 1) == (int64_t)len;
		db_put(&s->db, st);
		if (rc > 0)
			rc = blob_read(s, part_id(owner, part), p, len, e);
		if (rc > 0)
			rc = part_sum(key, part, p, len) == sum;
		if (rc <= 0)
			return damage_or_error(s, rc);
		p += len;
		n -= len;
	}
	return 1;
}

int parts_delete(struct snaps *s, int64_t owner, struct err *e)
{
	return db_run(&s->db, e, "DELETE FROM part WHERE id BETWEEN ? AND ?", "ii", part_id(owner, 0),
	              part_id(owner, (1 << PART_BITS) - 1));
}

/* ---- packed copies ----
 *
 * A packed copy of a chunk takes 4 bits a value and is not bit-equal to it (engine/timeline/packed.c). Its key is the
 * chunk's key and one more byte. So a packed copy and the exact chunk never replace each other. */

/* PACKED is the last byte of a packed copy's key. Change PACKED when the byte layout of packed KV entries changes.
 * EXACT_FIRST is the number of tokens at the beginning of a sequence whose KV entries are not packed, because they
 * receive much attention. */
enum { PACKED = 3, EXACT_FIRST = 16 };

struct entries_packing chunk_packing(int32_t dim, int64_t depth)
{
	return (struct entries_packing){ dim, CHUNK_TOKENS, depth ? 0 : EXACT_FIRST };
}

void packed_key(uint8_t out[PACKED_KEY_BYTES], const uint8_t key[KEY_BYTES])
{
	memcpy(out, key, KEY_BYTES);
	out[KEY_BYTES] = PACKED;
}

int packed_stage(struct snaps *s, uint64_t n, struct err *e)
{
	if (n <= s->packed_cap)
		return 0;
	free(s->packed);
	s->packed_cap = 0;
	s->packed = try_alloc(n, 1, "packed KV entries", e);
	if (!s->packed)
		return -1;
	s->packed_cap = n;
	return 0;
}

/* ---- chunks ---- */

/* Find the row with this key and one of the two sizes. A row of another size is damaged. */
static int find_row(struct snaps *s, const void *key, size_t n_key, uint64_t all, uint64_t full,
                    struct found_chunk *out, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT id, bytes FROM chunk WHERE key = ? AND bytes IN (?, ?)", "bii",
	                            key, n_key, (int64_t)all, (int64_t)full);
	int rc = st ? db_step(&s->db, st, e) : -1;

	if (rc > 0) {
		*out = (struct found_chunk){ .number = sqlite3_column_int64(st, 0),
			                     .bytes = (uint64_t)sqlite3_column_int64(st, 1) };
		out->windows = out->bytes == all;
	}
	db_put(&s->db, st);
	return damage_or_error(s, rc);
}

int chunk_find(struct snaps *s, const uint8_t key[KEY_BYTES], struct chunk_bytes bytes, struct found_chunk *out,
               struct err *e)
{
	struct entries_packing how = chunk_packing(bytes.packed_dim, bytes.depth);
	uint64_t all = entries_packed_bytes(how, bytes.all), full = entries_packed_bytes(how, bytes.full);
	uint8_t packed[PACKED_KEY_BYTES];
	int rc = find_row(s, key, KEY_BYTES, bytes.all, bytes.full, out, e);

	packed_key(packed, key);
	if (!rc && all) {
		rc = find_row(s, packed, sizeof packed, all, full, out, e);
		out->packed = rc > 0;
	}
	if (rc > 0)
		out->entries = out->windows ? bytes.all : bytes.full;
	return rc;
}

int snaps_deleted(struct snaps *s, struct err *e)
{
	if (sqlite3_changes(s->db.h) > 0)
		return 0;
	s->db.code = SQLITE_CORRUPT;
	return err_set(e, ERR_FAIL, "'%s' is damaged: a row that is there cannot be found", s->path);
}

int chunk_delete(struct snaps *s, int64_t number, struct err *e)
{
	return parts_delete(s, number, e) || db_run(&s->db, e, "DELETE FROM need WHERE chunk = ?", "i", number) ||
	                       db_run(&s->db, e, "DELETE FROM chunk WHERE id = ?", "i", number) || snaps_deleted(s, e)
	               ? -1
	               : 0;
}

int chunk_write(struct snaps *s, const uint8_t key[KEY_BYTES], int packed, int32_t depth, const void *bytes, uint64_t n,
                int64_t *number, struct err *e)
{
	uint8_t row[PACKED_KEY_BYTES];

	packed_key(row, key);
	*number = s->serial++;
	/* OR REPLACE: a row with this key and a damaged size may exist */
	if (db_run(&s->db, e, "INSERT OR REPLACE INTO chunk VALUES(?, ?, ?, ?, ?)", "biiii", row,
	           (size_t)(packed ? PACKED_KEY_BYTES : KEY_BYTES), *number, (int64_t)depth, (int64_t)n, snaps_now()))
		return -1;
	return parts_write(s, *number, 0, key, bytes, n, e);
}

int chunk_replace(struct snaps *s, int64_t old, int64_t number, struct err *e)
{
	return db_run(&s->db, e, "UPDATE OR IGNORE need SET chunk = ? WHERE chunk = ?", "ii", number, old) ||
	                       db_run(&s->db, e, "DELETE FROM need WHERE chunk = ?", "i", old) ||
	                       parts_delete(s, old, e)
	               ? -1
	               : 0;
}

static int find_and_read(struct snaps *s, const uint8_t key[KEY_BYTES], struct chunk_bytes bytes,
                         struct found_chunk *found, void *out, struct err *e)
{
	int rc = chunk_find(s, key, bytes, found, e);

	if (rc <= 0 || !found->packed)
		return rc <= 0 ? rc : parts_read(s, found->number, 0, key, out, found->bytes, e);
	if (packed_stage(s, found->bytes, e))
		return -1;
	rc = parts_read(s, found->number, 0, key, s->packed, found->bytes, e);
	if (rc > 0)
		entries_unpack(chunk_packing(bytes.packed_dim, bytes.depth), s->packed, out, found->entries);
	return rc;
}

int chunk_read(struct snaps *s, const uint8_t key[KEY_BYTES], struct chunk_bytes bytes, struct found_chunk *found,
               void *out, struct err *e)
{
	int rc;

	found->number = 0;
	rc = find_and_read(s, key, bytes, found, out, e);
	if (rc || !found->number || s->db.read_only)
		return rc;
	s->db.code = 0;
	if (!snaps_begin(s, NULL)) {
		/* Before deleting damaged KV entries, read them again: another process may have replaced them during
		 * the first read. */
		found->number = 0;
		rc = find_and_read(s, key, bytes, found, out, e);
		if (!db_end(&s->db, rc < 0 || (!rc && found->number && chunk_delete(s, found->number, NULL)), NULL))
			return rc;
	}
	s->ruined |= db_damaged(&s->db);
	return 0;
}
