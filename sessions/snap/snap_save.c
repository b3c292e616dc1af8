/* sessions/snap/snap_save.c - saves a timeline: first the chunks (KV entries of 256 tokens) that kv.db lacks, then
 * the head (record of the timeline at one message).
 *
 * The first transaction inserts the head as unfinished, so that no process deletes its chunks. Chunks follow in
 * transactions of bounded size. The last transaction finishes the head and deletes the session's oldest heads.
 * After an interrupted save, the older snapshot is still there, and the next save need not write the same chunks
 * again. */
#include "sessions/snap/snap_private.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine_snapshot.h"

struct saving {
	struct snaps *s;
	struct timeline *tl;
	const struct fingerprint *fp;
	int64_t session, message;
	int with_head;
	/* copy of the token ids; the array of the timeline is valid only until the next call on the timeline */
	int32_t *id;
	uint8_t *marks;
	int32_t n, ready, chunks, tail;
	uint64_t row_bytes;
	struct chunk_bytes chunk_bytes;
	int32_t dim; /* head dimension; 0: the entries cannot be packed */
	struct packed_begun packed;
	uint8_t (*key)[KEY_BYTES];
	/* What to do with each chunk (KV entries of 256 tokens). `number` is the chunk's number in kv.db, 0 = missing.
	 * `windows` is 1 if the timeline still has the entries of sliding-window layers. `write` is 1 if the chunk must
	 * be written, because it is missing or was stored without these entries. `packed` is 1 if the entries were
	 * restored from a packed copy, and are stored as a packed copy again. */
	struct chunk_plan {
		int64_t number;
		uint8_t write, windows, packed;
	} * chunk;
	struct str head;
	/* `need` is the number of bytes to write; `total` is the size in bytes of the whole snapshot */
	uint64_t need, total;
	int64_t head_number;
	uint64_t pending; /* number of bytes that were written in the current transaction */
	int committed;    /* 1: an earlier transaction of this save was committed */
	struct snap_saved *out;
};

static int gather_tokens(struct saving *w, struct err *e)
{
	size_t n, n_marks;
	const int32_t *id = timeline_tokens(w->tl, &n);
	const uint8_t *marks = timeline_marks(w->tl, &n_marks);

	if (n > INT32_MAX)
		return err_set(e, ERR_FIT, "a sequence of %zu tokens is too long for a snapshot", n);
	w->n = (int32_t)n;
	w->ready = timeline_entries_ready(w->tl);
	w->ready = w->ready < 0 ? 0 : MIN(w->ready, w->n);
	w->row_bytes = timeline_token_bytes(w->tl, 1);
	w->dim = timeline_entries_dim(w->tl);
	fingerprint_packed(w->s, w->fp, &w->packed);
	w->chunk_bytes.full = timeline_token_bytes(w->tl, 0) * CHUNK_TOKENS;
	if (size_mul(w->row_bytes, CHUNK_TOKENS, &w->chunk_bytes.all) ||
	    w->chunk_bytes.all > (uint64_t)PART_TAIL * PART_BYTES)
		return err_set(e, ERR_FIT, "KV entries of %llu bytes a token are too large for a snapshot",
		               (unsigned long long)w->row_bytes);
	w->chunks = w->row_bytes ? w->ready / CHUNK_TOKENS : 0;
	w->tail = w->row_bytes ? w->ready % CHUNK_TOKENS : 0;
	w->id = try_alloc(n + 1, sizeof *w->id, "a snapshot", e);
	w->marks = try_alloc(n + 1, 1, "a snapshot", e);
	w->key = try_alloc((size_t)w->chunks + 1, sizeof *w->key, "a snapshot", e);
	w->chunk = try_alloc((size_t)w->chunks + 1, sizeof *w->chunk, "a snapshot", e);
	if (!w->id || !w->marks || !w->key || !w->chunk)
		return -1;
	if (n)
		memcpy(w->id, id, n * sizeof *id);
	memset(w->marks, 0, n + 1);
	if (n_marks)
		memcpy(w->marks, marks, MIN(n_marks, n));
	return 0;
}

static uint64_t plan_bytes(const struct saving *w, const struct chunk_plan *c)
{
	uint64_t n = c->windows ? w->chunk_bytes.all : w->chunk_bytes.full;

	return c->packed ? entries_packed_bytes(chunk_packing(w->dim, c - w->chunk), n) : n;
}

/* Return the sizes that chunk i may have in kv.db, for chunk_find(). */
static struct chunk_bytes stored_as(const struct saving *w, int32_t i)
{
	struct chunk_bytes bytes = w->chunk_bytes;

	bytes.packed_dim = w->chunk[i].packed ? w->dim : 0;
	bytes.depth = i;
	return bytes;
}

/* Compute the keys of all chunks of KV entries, and find out which of the chunks are stored already. */
static int gather_chunks(struct saving *w, struct err *e)
{
	static const uint8_t none[KEY_BYTES];

	for (int32_t i = 0; i < w->chunks; i++) {
		int32_t at = i * CHUNK_TOKENS;
		struct chunk_plan *c = &w->chunk[i];
		struct found_chunk found = { .number = 0 };

		chunk_key(w->key[i], i ? w->key[i - 1] : none, chunk_fingerprint(w->fp, &w->packed, i), w->id + at,
		          w->marks + at, CHUNK_TOKENS);
		*c = (struct chunk_plan){ .packed = w->dim && i < w->packed.tokens / CHUNK_TOKENS };
		if (chunk_find(w->s, w->key[i], stored_as(w, i), &found, e) < 0)
			return -1;
		c->number = found.number;
		c->windows = (uint8_t)timeline_windows_hold(w->tl, at, CHUNK_TOKENS);
		c->write = !found.number || (c->windows && !found.windows);
		w->need += c->write ? plan_bytes(w, c) : 0;
		w->total += c->write ? plan_bytes(w, c) : found.bytes;
	}
	return 0;
}

static int gather_head(struct saving *w, const void *extra, size_t n_extra, struct err *e)
{
	struct head_layout h = { w->session, w->message, w->row_bytes, 0, n_extra, w->n, w->ready };
	uint8_t fixed[HEAD_FIXED] = { 0 }, le[4];
	size_t before;

	str_add(&w->head, fixed, sizeof fixed);
	for (int32_t i = 0; i < w->n; i++) {
		put_le32(le, (uint32_t)w->id[i]);
		str_add(&w->head, le, 4);
	}
	str_add(&w->head, w->marks, (size_t)w->n);
	before = w->head.n;
	if (timeline_head_save(w->tl, &w->head, e))
		return -1;
	h.n_head = w->head.n - before;
	if (n_extra)
		str_add(&w->head, extra, n_extra);
	head_layout_put((uint8_t *)w->head.p, &h);
	w->need += w->head.n + (uint64_t)w->tail * w->row_bytes;
	w->total += w->head.n + (uint64_t)w->tail * w->row_bytes;
	return 0;
}

/* Estimate the size of stored bytes on disk, including B-tree pages and unused space in pages. */
static uint64_t on_disk(uint64_t bytes)
{
	return bytes + bytes / 128 + 32 * PAGE_BYTES;
}

static int check_room(struct saving *w, struct err *e)
{
	const double mib = 1 << 20;
	uint64_t used, empty, full, room = w->s->disk_free(store_dir(w->s->store)), grow;

	if (on_disk(w->total) > w->s->budget)
		return err_set(e, ERR_FIT, "no room for a snapshot: it takes %.1f MiB, '%s' may have %.1f MiB",
		               (double)w->total / mib, w->s->path, (double)w->s->budget / mib);
	if (snaps_space(w->s, &used, &empty, e))
		return -1;
	/* the file does not grow beyond the budget, because old KV entries are deleted and their pages are reused */
	full = used + on_disk(w->need);
	if (full > w->s->budget)
		full = MAX(used, w->s->budget);
	grow = full > used + empty ? full - used - empty : 0;
	/* leave 8 MiB of the disk free for the journal and for chat.db */
	grow += 8u << 20;
	if (grow > room)
		return err_set(
			e, ERR_FIT,
			"no room for a snapshot: %.1f MiB are needed, %.1f MiB are free on the disk of '%s'; the older "
			"one stays",
			(double)grow / mib, (double)room / mib, w->s->path);
	return 0;
}

/* Commit the transaction and begin the next one. Between the two transactions, another process may delete the row of
 * this unfinished save from table `head`, or replace kv.db. Returns -1 if this has happened, or on error. */
static int next_transaction(struct saving *w, struct err *e)
{
	int64_t mine;
	int rc;

	if (db_end(&w->s->db, 0, e))
		return -1;
	w->committed = 1;
	if (snaps_begin(w->s, e))
		return -1;
	rc = db_find(&w->s->db, e, &mine, "SELECT 1 FROM head WHERE id = ? AND session = ? AND done = 0", "ii",
	             w->head_number, w->session);
	if (rc)
		return rc < 0 ? -1 : 0;
	w->committed = 0; /* the row of the unfinished save is no longer in the table */
	return err_set(e, ERR_FAIL, "another weir has dropped what was saved of it in '%s'", w->s->path);
}

/* Call before writing `bytes` bytes. If the transaction would exceed SNAPS_TX_BYTES, commit it and begin the next. */
static int room_in_transaction(struct saving *w, uint64_t bytes, struct err *e)
{
	if (w->pending && w->pending + bytes > SNAPS_TX_BYTES) {
		w->pending = 0;
		if (next_transaction(w, e))
			return -1;
	}
	w->pending += bytes;
	return 0;
}

static int reserve_head(struct saving *w, struct err *e)
{
	struct db *d = &w->s->db;
	int dropped = 0;

	w->head_number = w->s->serial++;
	if (db_run(d, e, "INSERT INTO head VALUES(?, ?, ?, 0, ?, ?, ?, ?, ?, ?)", "iiiiiiiib", w->head_number,
	           w->session, w->message, (int64_t)w->n, (int64_t)w->chunks, (int64_t)w->head.n,
	           (int64_t)((uint64_t)w->tail * w->row_bytes), snaps_now(), w->fp->all, sizeof w->fp->all))
		return -1;
	for (int32_t i = 0; i < w->chunks; i++)
		if (w->chunk[i].number &&
		    db_run(d, e, "INSERT OR IGNORE INTO need VALUES(?, ?)", "ii", w->head_number, w->chunk[i].number))
			return -1;
	if (snaps_make_room(w->s, on_disk(w->need), w->head_number, w->with_head ? w->session : 0, &dropped, e))
		return -1;
	/* commit before freed pages are reused: SQLite copies a page to the journal if the same transaction has freed
	 * it */
	return dropped ? next_transaction(w, e) : 0;
}

/* Write chunk i from s->staging. */
static int write_chunk(struct saving *w, int32_t i, struct err *e)
{
	struct chunk_plan *c = &w->chunk[i];
	uint64_t n = c->windows ? w->chunk_bytes.all : w->chunk_bytes.full;
	const uint8_t *bytes = w->s->staging;

	if (c->packed) {
		if (packed_stage(w->s, plan_bytes(w, c), e))
			return -1;
		if (entries_pack(chunk_packing(w->dim, i), bytes, n, w->s->packed))
			return err_set(e, ERR_FAIL, "KV entries that are not finite cannot be saved as near copies");
		bytes = w->s->packed;
	}
	return chunk_write(w->s, w->key[i], c->packed, i, bytes, plan_bytes(w, c), &c->number, e);
}

static int write_chunks(struct saving *w, struct err *e)
{
	for (int32_t i = 0; i < w->chunks; i++) {
		struct chunk_plan *c = &w->chunk[i];
		struct found_chunk found = { .number = 0 };
		int64_t old;

		if (!c->write)
			continue;
		/* look the KV entries up again, because another process may have saved the same entries meanwhile */
		if (room_in_transaction(w, plan_bytes(w, c), e) ||
		    chunk_find(w->s, w->key[i], stored_as(w, i), &found, e) < 0)
			return -1;
		old = c->number = found.number;
		if (old && found.windows >= c->windows) {
			if (db_run(&w->s->db, e, "INSERT OR IGNORE INTO need VALUES(?, ?)", "ii", w->head_number, old))
				return -1;
			continue;
		}
		if (timeline_entries_save(w->tl, i * CHUNK_TOKENS, CHUNK_TOKENS, c->windows, w->s->staging, e) ||
		    write_chunk(w, i, e) || (old && chunk_replace(w->s, old, c->number, e)) ||
		    db_run(&w->s->db, e, "INSERT OR IGNORE INTO need VALUES(?, ?)", "ii", w->head_number, c->number))
			return -1;
	}
	return 0;
}

static int write_head(struct saving *w, struct err *e)
{
	struct db *d = &w->s->db;
	uint64_t tail = (uint64_t)w->tail * w->row_bytes;
	sqlite3_stmt *st;
	int64_t old[64];
	int n_old = 0, rc;

	if (room_in_transaction(w, w->head.n + tail, e) ||
	    parts_write(w->s, w->head_number, 0, w->fp->all, w->head.p, w->head.n, e))
		return -1;
	if (w->tail && (timeline_entries_save(w->tl, w->chunks * CHUNK_TOKENS, w->tail, 1, w->s->staging, e) ||
	                parts_write(w->s, w->head_number, PART_TAIL, w->fp->all, w->s->staging, tail, e)))
		return -1;
	if (db_run(d, e, "UPDATE head SET done = 1 WHERE id = ?", "i", w->head_number) ||
	    packed_dim_save(w->s, w->fp->all, w->dim, e))
		return -1;
	/* delete the older snapshot of the same message and fingerprint, and all snapshots of the session but the
	 * newest HEADS_KEPT */
	st = db_query(
		d, e,
		"SELECT id FROM head WHERE session = ?2 AND id NOT IN (SELECT id FROM head WHERE session = ?2 AND "
		"(id = ?1 OR NOT (message = ?3 AND fingerprint = ?4)) ORDER BY id DESC LIMIT ?5) LIMIT 64",
		"iiibi", w->head_number, w->session, w->message, w->fp->all, sizeof w->fp->all, (int64_t)HEADS_KEPT);
	rc = st ? 0 : -1;
	while (st && (rc = db_step(d, st, e)) > 0)
		old[n_old++] = sqlite3_column_int64(st, 0);
	db_put(d, st);
	for (int i = 0; i < n_old && !rc; i++)
		rc = head_delete(w->s, old[i], e);
	return rc;
}

/* Store the times at which snapshots were loaded since the last save (s->used). */
static int store_used(struct snaps *s, struct err *e)
{
	for (int i = 0; i < s->n_used; i++)
		if (db_run(&s->db, e, "UPDATE head SET used = ? WHERE id = ?", "ii", s->used[i].at, s->used[i].head))
			return -1;
	return 0;
}

static int save_body(struct saving *w, const void *extra, size_t n_extra, struct err *e)
{
	if (gather_chunks(w, e) || (w->with_head && gather_head(w, extra, n_extra, e)) || (w->need && check_room(w, e)))
		return -1;
	if (!w->need)
		return 0;
	if (store_used(w->s, e) || reserve_head(w, e) || write_chunks(w, e))
		return -1;
	return w->with_head ? write_head(w, e) : head_delete(w->s, w->head_number, e);
}

/* Delete KV entries and snapshots until kv.db is within its budget. Because the new snapshot is finished now, the
 * session's previous snapshot may be deleted, too. */
static void trim_to_budget(struct saving *w)
{
	uint64_t used, empty;
	int dropped;

	if (!w->with_head || snaps_space(w->s, &used, &empty, NULL) || used <= w->s->budget || snaps_begin(w->s, NULL))
		return;
	db_end(&w->s->db, snaps_make_room(w->s, 0, w->head_number, 0, &dropped, NULL), NULL);
}

static int save(struct saving *w, const void *extra, size_t n_extra, struct err *e)
{
	double start = now_seconds();

	memset(w->out, 0, sizeof *w->out);
	if (snaps_writable(w->s, e) || gather_tokens(w, e) || snaps_stage(w->s, w->chunk_bytes.all, e) ||
	    snaps_begin(w->s, e))
		return -1;
	if (db_end(&w->s->db, save_body(w, extra, n_extra, e), e)) {
		/* Delete this unfinished snapshot. If that fails, the next start deletes it. */
		if (w->committed && !db_damaged(&w->s->db)) {
			int code = w->s->db.code;
			if (!snaps_begin(w->s, NULL))
				db_end(&w->s->db, head_delete(w->s, w->head_number, NULL), NULL);
			w->s->db.code = code;
		}
		return -1;
	}
	if (w->need) {
		w->s->n_used = 0;
		trim_to_budget(w);
		sqlite3_db_release_memory(w->s->db.h);
	}
	w->out->bytes = w->total;
	w->out->new_bytes = w->need;
	w->out->tokens = w->n;
	w->out->seconds = now_seconds() - start;
	return 0;
}

static int save_and_free(struct saving *w, const void *extra, size_t n_extra, struct err *e)
{
	int rc;

	snaps_start(w->s);
	if (w->s->ruined && snaps_renew(w->s, e))
		return -1;
	rc = save(w, extra, n_extra, e);
	free(w->id);
	free(w->marks);
	free(w->key);
	free(w->chunk);
	str_free(&w->head);
	return rc ? snaps_failed(w->s, e) : 0;
}

int snap_save(struct snaps *s, struct timeline *tl, const struct fingerprint *fp, int64_t session, int64_t message,
              const void *extra, size_t n_extra, struct snap_saved *out, struct err *e)
{
	struct snap_saved ignored;
	struct saving w = { .s = s,
		            .tl = tl,
		            .fp = fp,
		            .session = session,
		            .message = message,
		            .with_head = 1,
		            .out = out ? out : &ignored };

	return save_and_free(&w, extra, n_extra, e);
}

int snap_save_entries(struct snaps *s, struct timeline *tl, const struct fingerprint *fp, struct snap_saved *out,
                      struct err *e)
{
	struct snap_saved ignored;
	struct saving w = { .s = s, .tl = tl, .fp = fp, .out = out ? out : &ignored };

	return save_and_free(&w, NULL, 0, e);
}
