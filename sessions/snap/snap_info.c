/* sessions/snap/snap_info.c - lists snapshots: snap_states() returns sizes for all sessions, snap_list() returns
 * details for one session.
 *
 * snap_list() verifies every byte of one session's snapshots; a chunk that several snapshots need is read once.
 * Each query is a transaction of its own, so that other processes can save between queries. A snapshot that is
 * deleted between two queries is listed as damaged. */
#include "sessions/snap/snap_private.h"

#include <stdlib.h>
#include <string.h>

static uint64_t size_of(sqlite3_stmt *st, int column)
{
	int64_t n = sqlite3_column_int64(st, column);

	return n > 0 ? (uint64_t)n : 0;
}

/* ---- all sessions ---- */

int snaps_bytes(struct snaps *s, uint64_t *bytes, uint64_t *packed, struct err *e)
{
	int64_t all = 0, some = 0;

	*bytes = *packed = 0;
	if (s->db.h &&
	    (db_find(&s->db, e, &all,
	             "SELECT total(bytes + tail) + (SELECT total(bytes) FROM chunk) FROM head WHERE done = 1",
	             "") < 0 ||
	     db_find(&s->db, e, &some, "SELECT total(bytes) FROM chunk WHERE length(key) = 33", "") < 0))
		return snaps_failed(s, e);
	*bytes = all > 0 ? (uint64_t)all : 0;
	*packed = some > 0 ? (uint64_t)some : 0;
	return 0;
}

static int by_session(const void *a, const void *b)
{
	const struct snap_state *x = *(struct snap_state *const *)a, *y = *(struct snap_state *const *)b;

	return (x->session > y->session) - (x->session < y->session);
}

static int by_message(const void *a, const void *b)
{
	const struct snap_state *x = *(struct snap_state *const *)a, *y = *(struct snap_state *const *)b;

	return (x->message > y->message) - (x->message < y->message);
}

/* Return the index of the first entry of the sorted list that does not sort before `key`; n if all entries do. */
static size_t first_of(struct snap_state **list, size_t n, const struct snap_state *key,
                       int (*compare)(const void *, const void *))
{
	size_t from = 0;

	while (n) {
		size_t half = n / 2;

		if (compare(&list[from + half], &key) < 0) {
			from += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return from;
}

/* Run a query whose rows are (session, bytes, bytes of packed copies). Add the bytes to the session's entry in the
 * list. */
static int add_bytes(struct snaps *s, const char *sql, struct snap_state **list, size_t n, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, sql, "");
	int rc = -1;

	while (st && (rc = db_step(&s->db, st, e)) > 0) {
		struct snap_state key = { .session = sqlite3_column_int64(st, 0) };

		for (size_t i = first_of(list, n, &key, by_session); i < n && list[i]->session == key.session; i++)
			if (size_of(st, 1) <= UINT64_MAX - list[i]->bytes) {
				list[i]->bytes += size_of(st, 1);
				list[i]->packed += MIN(size_of(st, 2), size_of(st, 1));
			}
	}
	db_put(&s->db, st);
	return rc;
}

static int mark_ready(struct snaps *s, struct snap_state **list, size_t n, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT message FROM head WHERE done = 1", "");
	int rc = -1;

	while (st && (rc = db_step(&s->db, st, e)) > 0) {
		struct snap_state key = { .message = sqlite3_column_int64(st, 0) };

		for (size_t i = first_of(list, n, &key, by_message); i < n && list[i]->message == key.message; i++)
			list[i]->ready = key.message != 0;
	}
	db_put(&s->db, st);
	return rc;
}

int snap_states(struct snaps *s, struct snap_state *state, size_t n, struct err *e)
{
	struct snap_state **list;
	int rc;

	for (size_t i = 0; i < n; i++) {
		state[i].bytes = state[i].packed = 0;
		state[i].ready = 0;
	}
	if (!s->db.h || !n)
		return 0;
	s->db.code = 0;
	list = try_alloc(n, sizeof *list, "a list of sessions", e);
	if (!list)
		return -1;
	for (size_t i = 0; i < n; i++)
		list[i] = &state[i];
	qsort(list, n, sizeof *list, by_session);
	rc = add_bytes(s, "SELECT session, total(bytes + tail), 0 FROM head WHERE done = 1 GROUP BY session", list, n,
	               e);
	if (!rc)
		rc = add_bytes(
			s,
			"SELECT u.session, total(c.bytes), total(c.bytes * (length(c.key) = 33)) FROM (SELECT DISTINCT h.session, n.chunk FROM head h JOIN need n "
			"ON n.head = h.id WHERE h.done = 1) u JOIN chunk c ON c.id = u.chunk GROUP BY u.session",
			list, n, e);
	qsort(list, n, sizeof *list, by_message);
	if (!rc)
		rc = mark_ready(s, list, n, e);
	free(list);
	return rc ? snaps_failed(s, e) : 0;
}

/* ---- one session ---- */

struct seen_chunk {
	int64_t id;
	uint64_t bytes;
	int good, shared, packed;
};
struct looking {
	struct snaps *s;
	int64_t session;
	struct seen_chunk *chunk; /* [n] chunks of KV entries that the session's snapshots need, sorted by id */
	size_t n, cap;
};

static int by_id(const void *a, const void *b)
{
	const struct seen_chunk *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static struct seen_chunk *find_seen(struct looking *l, int64_t id)
{
	struct seen_chunk key = { .id = id };

	return l->n ? bsearch(&key, l->chunk, l->n, sizeof key, by_id) : NULL;
}

/* Verify the bytes of a chunk. Returns 1 if the chunk is good, 0 if it is damaged, -1 on error. */
static int chunk_good(struct snaps *s, int64_t id, const uint8_t *key, uint64_t bytes, struct err *e)
{
	int64_t there = 0;
	int rc = db_find(&s->db, e, &there, "SELECT total(length(data)) FROM part WHERE id BETWEEN ? AND ?", "ii",
	                 part_id(id, 0), part_id(id, PART_TAIL - 1));

	/* allocate memory only if `bytes` equals the sum of the stored rows, because a damaged `bytes` may be huge */
	if (rc < 0 || !bytes || there < 0 || (uint64_t)there != bytes)
		return rc < 0 ? -1 : 0;
	return snaps_stage(s, bytes, e) ? -1 : parts_read(s, id, 0, key, s->staging, bytes, e);
}

/* Collect the chunks that the session's snapshots need. */
static int find_chunks(struct looking *l, struct err *e)
{
	sqlite3_stmt *st = db_query(&l->s->db, e,
	                            "SELECT id, bytes FROM chunk WHERE id IN (SELECT chunk FROM need WHERE head IN "
	                            "(SELECT id FROM head WHERE session = ? AND done = 1)) ORDER BY id",
	                            "i", l->session);
	int rc = -1;

	while (st && (rc = db_step(&l->s->db, st, e)) > 0) {
		if (l->n == l->cap) {
			size_t cap = l->cap ? 2 * l->cap : 64;
			struct seen_chunk *more = try_alloc(cap, sizeof *more, "a list of chunks", e);

			if (!more) {
				rc = -1;
				break;
			}
			if (l->n)
				memcpy(more, l->chunk, l->n * sizeof *more);
			free(l->chunk);
			l->chunk = more;
			l->cap = cap;
		}
		l->chunk[l->n++] = (struct seen_chunk){ .id = sqlite3_column_int64(st, 0), .bytes = size_of(st, 1) };
	}
	db_put(&l->s->db, st);
	return rc;
}

static int verify_chunks(struct looking *l, struct err *e)
{
	struct snaps *s = l->s;
	sqlite3_stmt *st;
	int rc = 0;

	for (size_t i = 0; i < l->n && rc >= 0; i++) {
		struct seen_chunk *c = &l->chunk[i];
		uint8_t key[KEY_BYTES] = { 0 };
		int whole;

		st = db_query(&s->db, e, "SELECT key FROM chunk WHERE id = ?", "i", c->id);
		rc = st ? db_step(&s->db, st, e) : -1;
		c->packed = rc > 0 && sqlite3_column_bytes(st, 0) == PACKED_KEY_BYTES;
		whole = c->packed || (rc > 0 && sqlite3_column_bytes(st, 0) == KEY_BYTES);
		if (whole)
			memcpy(key, sqlite3_column_blob(st, 0), KEY_BYTES);
		/* reading the KV entries is slow: so release the statement first, because it holds SQLite's read
		 * lock */
		db_put(&s->db, st);
		if (rc >= 0)
			rc = whole ? chunk_good(s, c->id, key, c->bytes, e) : 0;
		c->good = rc > 0;
	}
	if (rc < 0)
		return -1;
	st = db_query(
		&s->db, e,
		"SELECT DISTINCT n.chunk FROM need n JOIN head h ON h.id = n.head WHERE h.done = 1 AND h.session <> ?1 "
		"AND n.chunk IN (SELECT chunk FROM need WHERE head IN (SELECT id FROM head WHERE session = ?1))",
		"i", l->session);
	rc = -1;
	while (st && (rc = db_step(&s->db, st, e)) > 0) {
		struct seen_chunk *c = find_seen(l, sqlite3_column_int64(st, 0));
		if (c)
			c->shared = 1;
	}
	db_put(&s->db, st);
	return rc;
}

static int describe_head(struct looking *l, int64_t head, struct snap_info *out, struct err *e)
{
	struct snaps *s = l->s;
	sqlite3_stmt *st = db_query(&s->db, e,
	                            "SELECT message, tokens, chunks, bytes, tail, used, fingerprint FROM head "
	                            "WHERE id = ? AND done = 1",
	                            "i", head);
	int rc = st ? db_step(&s->db, st, e) : -1;
	int64_t bytes = 0, tail = 0;
	uint8_t key[KEY_BYTES] = { 0 };

	memset(out, 0, sizeof *out);
	if (rc > 0) {
		*out = (struct snap_info){
			.message = sqlite3_column_int64(st, 0),
			.tokens = db_small(sqlite3_column_int64(st, 1)),
			.chunks = db_small(sqlite3_column_int64(st, 2)),
			.used = sqlite3_column_int64(st, 5) / 1000,
		};
		bytes = sqlite3_column_int64(st, 3);
		tail = sqlite3_column_int64(st, 4);
		out->own = out->bytes = size_of(st, 3) + size_of(st, 4);
		if (sqlite3_column_bytes(st, 6) == KEY_BYTES)
			memcpy(key, sqlite3_column_blob(st, 6), KEY_BYTES);
	}
	db_put(&s->db, st);
	if (rc <= 0)
		return rc;
	rc = head_check(s, head, out->message, bytes, tail, key, e);
	if (rc < 0)
		return -1;
	out->head = rc;
	out->bad = out->chunks;
	st = db_query(&s->db, e, "SELECT chunk FROM need WHERE head = ?", "i", head);
	rc = -1;
	while (st && (rc = db_step(&s->db, st, e)) > 0) {
		const struct seen_chunk *c = find_seen(l, sqlite3_column_int64(st, 0));

		if (!c || c->bytes > UINT64_MAX - out->bytes)
			continue;
		out->bytes += c->bytes;
		out->shared += c->shared ? c->bytes : 0;
		out->packed += c->packed;
		out->bad -= c->good && out->bad > 0;
	}
	db_put(&s->db, st);
	return rc < 0 ? -1 : 1;
}

static int list_heads(struct looking *l, snap_fn *fn, void *ud, struct err *e)
{
	int64_t head;
	int rc;

	/* list only snapshots that exist now: a snapshot that is saved later gets a row number of at least s->serial */
	if (snaps_read_serial(l->s, e))
		return -1;
	head = l->s->serial;
	if (find_chunks(l, e) || verify_chunks(l, e))
		return -1;
	/* query one snapshot at a time, so that no transaction is open during the callback, which may be slow */
	while ((rc = db_find(&l->s->db, e, &head,
	                     "SELECT max(id) FROM head WHERE session = ? AND done = 1 AND id < ? "
	                     "HAVING max(id) IS NOT NULL",
	                     "ii", l->session, head)) > 0) {
		struct snap_info info;

		rc = describe_head(l, head, &info, e);
		if (rc < 0 || (rc && fn(&info, ud)))
			break;
	}
	return rc < 0 ? -1 : 0;
}

int snap_list(struct snaps *s, int64_t session, snap_fn *fn, void *ud, struct err *e)
{
	struct looking l = { .s = s, .session = session };
	int rc;

	if (!s->db.h)
		return 0;
	s->db.code = 0;
	rc = list_heads(&l, fn, ud, e);
	free(l.chunk);
	return rc ? snaps_failed(s, e) : 0;
}
