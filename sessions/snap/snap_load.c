/* sessions/snap/snap_load.c - restores a timeline (token sequence with its KV cache).
 *
 * snap_load() restores the state that a head (record of a timeline at one message) describes. The state is restored bit
 * for bit, except for KV entries of which kv.db has only packed copies. snap_load_prefix() loads stored chunks (KV
 * entries of 256 tokens each), beginning with the first token, up to the first chunk that is not stored.
 *
 * Every byte is verified before it enters the timeline. If the timeline already has tokens, all chunks are first read
 * and verified. Only then is the timeline emptied, and the chunks are read again. Damage is not an error: out->why
 * names it, and the caller prefills the text again. */
#include "sessions/snap/snap_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_snapshot.h"

static int32_t get_le32(const uint8_t *p)
{
	return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}

/* State of one load. */
struct loading {
	struct snaps *s;
	struct timeline *tl;
	/* which kernels (CPU or GPU code) computed the KV entries, and the fingerprint under which the entries are
	 * stored */
	struct origin origin;
	uint64_t row_bytes;
	struct chunk_bytes chunk_bytes;
	int32_t *id; /* ids of the tokens to restore */
	uint8_t *marks;
	uint8_t (*key)[KEY_BYTES];
	int32_t chunks, tail;
	int32_t packed; /* number of tokens up to the end of the last chunk that was loaded from a packed copy */
	int64_t head;   /* row number, in table `head`, of the snapshot to load */
	int32_t done;   /* number of tokens that were loaded into the timeline so far */
	struct snap_loaded *out;
};

static void loading_free(struct loading *l)
{
	free(l->id);
	free(l->marks);
	free(l->key);
	str_free(&l->origin.begun);
}

static int loading_begin(struct loading *l, int32_t tokens, struct err *e)
{
	l->row_bytes = timeline_token_bytes(l->tl, 1);
	l->chunk_bytes.full = timeline_token_bytes(l->tl, 0) * CHUNK_TOKENS;
	if (size_mul(l->row_bytes, CHUNK_TOKENS, &l->chunk_bytes.all) ||
	    l->chunk_bytes.all > (uint64_t)PART_TAIL * PART_BYTES)
		return err_set(e, ERR_FIT, "KV entries of %llu bytes a token are too large for a snapshot",
		               (unsigned long long)l->row_bytes);
	l->id = try_alloc((size_t)tokens + 1, sizeof *l->id, "a snapshot", e);
	l->marks = try_alloc((size_t)tokens + 1, 1, "a snapshot", e);
	l->key = try_alloc((size_t)tokens / CHUNK_TOKENS + 1, sizeof *l->key, "a snapshot", e);
	return l->id && l->marks && l->key && !snaps_stage(l->s, l->chunk_bytes.all, e) ? 0 : -1;
}

static void loading_key(struct loading *l, int32_t i)
{
	static const uint8_t none[KEY_BYTES];

	chunk_key(l->key[i], i ? l->key[i - 1] : none, chunk_fingerprint(&l->origin.fp, &l->origin.packed, i),
	          l->id + i * CHUNK_TOKENS, l->marks + i * CHUNK_TOKENS, CHUNK_TOKENS);
}

/* Read KV entries into s->staging. The parameter i is the number of a chunk of 256 tokens, or l->chunks for the entries
 * after the last whole chunk. Returns 1 and sets *found; 0 if the bytes are missing or damaged; -1 on error. */
static int read_chunk_or_tail(struct loading *l, int32_t i, struct found_chunk *found, struct err *e)
{
	l->chunk_bytes.depth = i;
	if (i < l->chunks)
		return chunk_read(l->s, l->key[i], l->chunk_bytes, found, l->s->staging, e);
	*found = (struct found_chunk){ .bytes = (uint64_t)l->tail * l->row_bytes, .windows = 1 };
	return parts_read(l->s, l->head, PART_TAIL, l->origin.fp.all, l->s->staging, found->bytes, e);
}

/* Read and verify all KV entries of the snapshot. If `load` is 1, also put them into the timeline. Returns 1; 0 if some
 * entries are missing or damaged; -1 on error. */
static int load_chunks(struct loading *l, int load, struct err *e)
{
	int32_t count = l->chunks + (l->tail > 0);

	for (int32_t i = 0; i < count; i++) {
		int32_t n = i < l->chunks ? CHUNK_TOKENS : l->tail;
		struct found_chunk found;
		int rc = read_chunk_or_tail(l, i, &found, e);

		if (rc <= 0)
			return rc;
		if (!load)
			continue;
		if (timeline_entries_load(l->tl, i * CHUNK_TOKENS, n, found.windows, l->s->staging, e)) {
			l->done = 0;
			return -1;
		}
		l->done += n;
		l->packed = found.packed ? l->done : l->packed;
		l->out->bytes += found.bytes;
	}
	return 1;
}

static size_t tokens_held(const struct timeline *tl)
{
	size_t n;

	timeline_tokens(tl, &n);
	return n;
}

/* Return the largest number of tokens that the timeline accepts. */
static int32_t tokens_most(const struct timeline *tl)
{
	struct timeline_stats st;

	timeline_stats(tl, &st);
	return st.endless ? INT32_MAX : st.ctx;
}

/* If the first KV entries come from other kernels (CPU or GPU code) or from packed copies, record this in the timeline.
 * The fingerprint of later saves then contains the names of these kernels, or NEAR_NAME. */
static void note_origin(struct loading *l)
{
	struct origin *o = &l->origin;

	if (l->packed) {
		o->begun_n = o->begun.n ? MAX(o->begun_n, l->packed) : l->packed;
		if (!strstr(str_text(&o->begun), NEAR_NAME))
			str_addf(&o->begun, "%s" NEAR_NAME, o->begun.n ? ", " : "");
	}
	if (!o->begun.n)
		return;
	if (strstr(o->begun.p, NEAR_NAME))
		l->out->packed = MIN(o->begun_n, l->out->tokens);
	timeline_begun(l->tl, o->begun.p, o->begun.n, o->begun_n);
	snprintf(l->out->by, sizeof l->out->by, "%s", o->by);
}

/* Give the timeline the tokens whose KV entries were loaded. After a failed load, these are only the first tokens of
 * the snapshot. */
static void keep_beginning(struct loading *l)
{
	int32_t kept;

	if (!l->done)
		return;
	kept = timeline_adopt(l->tl, l->id, l->marks, (size_t)l->done, NULL);
	l->out->tokens = MAX(kept, 0);
	if (kept > 0)
		note_origin(l);
}

static void say_why(struct snap_loaded *out, const char *why, int32_t tokens)
{
	if (out->tokens)
		snprintf(out->why, sizeof out->why, "%s: %s tokens restored, %s will be read again", why,
		         count_text((uint64_t)out->tokens).s, count_text((uint64_t)(tokens - out->tokens)).s);
	else
		snprintf(out->why, sizeof out->why, "%s: %s tokens will be read again", why,
		         count_text((uint64_t)tokens).s);
}

/* ---- loading a snapshot, by its head ---- */

struct found_head {
	int64_t id, message, bytes, tail;
	int32_t tokens;
	uint8_t fingerprint[KEY_BYTES];
	/* How well the snapshot fits this program. 3: the fingerprints are equal. 2: this program's kernels (CPU or GPU
	 * code) computed its newest KV entries, but other kernels computed its first entries. 1: other kernels computed
	 * its newest KV entries. 0: the snapshot cannot be used. */
	int fits;
};

static void read_head(sqlite3_stmt *st, int64_t message, struct found_head *h)
{
	*h = (struct found_head){ .id = sqlite3_column_int64(st, 0),
		                  .message = message,
		                  .bytes = sqlite3_column_int64(st, 2),
		                  .tail = sqlite3_column_int64(st, 3),
		                  .tokens = db_small(sqlite3_column_int64(st, 1)) };
	if (sqlite3_column_bytes(st, 4) == KEY_BYTES)
		memcpy(h->fingerprint, sqlite3_column_blob(st, 4), KEY_BYTES);
}

/* Of the snapshots of a message, find the one whose fingerprint fits best (found_head.fits). If several fit equally
 * well, take the newest. Returns 1; 0 if the message has no snapshot; -1 on error. */
static int find_head(struct loading *l, const struct fingerprint *fp, int64_t message, struct found_head *best,
                     struct err *e)
{
	sqlite3_stmt *st =
		db_query(&l->s->db, e,
	                 "SELECT id, tokens, bytes, tail, fingerprint FROM head WHERE message = ?1 AND done = 1 "
	                 "ORDER BY fingerprint = ?2 DESC, id DESC LIMIT 16",
	                 "ib", message, fp->all, sizeof fp->all);
	struct origin o = { .begun_n = 0 };
	int rc = -1, found = 0;

	while (st && (rc = db_step(&l->s->db, st, e)) > 0) {
		struct found_head h;

		read_head(st, message, &h);
		if (fingerprint_fits(l->s, h.fingerprint, KEY_BYTES, fp, &o))
			h.fits = !memcmp(h.fingerprint, fp->all, KEY_BYTES) ? 3 : *o.by ? 1 : 2;
		if (!found || h.fits > best->fits) {
			struct origin worse = l->origin;

			*best = h;
			l->origin = o;
			o = (struct origin){ .begun = worse.begun };
		}
		found = 1;
		if (best->fits == 3)
			break;
	}
	str_free(&o.begun);
	db_put(&l->s->db, st);
	return rc < 0 ? -1 : found;
}

/* 1 if the snapshot's stored state has the size that its row in table head says; 0 if the sizes differ, because the
 * state or the row is damaged; -1 on error. */
static int head_size(struct snaps *s, const struct found_head *h, struct err *e)
{
	int64_t n = 0;
	int rc;

	if (h->id <= 0 || h->id > SERIAL_MOST)
		return 0;
	rc = db_find(&s->db, e, &n, "SELECT total(length(data)) FROM part WHERE id BETWEEN ? AND ?", "ii",
	             part_id(h->id, 0), part_id(h->id, PART_TAIL - 1));
	return rc < 0 ? -1 : n == h->bytes && n > 0;
}

static int load_head(struct loading *l, const struct found_head *h, const uint8_t *bytes, struct str *extra,
                     const char **why, struct err *e)
{
	struct head_layout lay;
	const uint8_t *p = bytes + HEAD_FIXED;
	int rc;

	*why = "the snapshot is damaged";
	if (head_layout_get(&lay, bytes, (uint64_t)h->bytes) || lay.message != h->message || lay.tokens != h->tokens)
		return 0;
	if (loading_begin(l, lay.tokens, e))
		return -1;
	if (lay.row_bytes != l->row_bytes)
		return 0;
	for (int32_t i = 0; i < lay.tokens; i++, p += 4)
		l->id[i] = get_le32(p);
	memcpy(l->marks, p, (size_t)lay.tokens);
	p += lay.tokens;
	l->chunks = l->row_bytes ? lay.ready / CHUNK_TOKENS : 0;
	l->tail = l->row_bytes ? lay.ready % CHUNK_TOKENS : 0;
	l->head = h->id;
	l->chunk_bytes.packed_dim = timeline_entries_dim(l->tl);
	if (h->tail != (int64_t)((uint64_t)l->tail * l->row_bytes))
		return 0;
	if (lay.tokens > tokens_most(l->tl)) {
		*why = "the snapshot is longer than the context";
		return 0;
	}
	for (int32_t i = 0; i < l->chunks; i++)
		loading_key(l, i);
	*why = "a part of the snapshot is missing or damaged";
	if (tokens_held(l->tl) && (rc = load_chunks(l, 0, e)) <= 0)
		return rc;
	/* if the snapshot has no KV entries, only empty the timeline */
	rc = l->chunks || l->tail                                      ? load_chunks(l, 1, e)
	     : timeline_entries_load(l->tl, 0, 0, 1, l->s->staging, e) ? -1
	                                                               : 1;
	if (rc <= 0) {
		keep_beginning(l);
		return rc;
	}
	if (timeline_head_load(l->tl, p, lay.n_head, e)) {
		*why = "the snapshot does not fit this timeline";
		return 0;
	}
	l->out->bytes += lay.n_head;
	l->out->tokens = lay.tokens;
	note_origin(l);
	if (extra)
		str_add(extra, p + lay.n_head, lay.n_extra);
	return 1;
}

static void note_used(struct snaps *s, int64_t head)
{
	int i = 0;

	while (i < s->n_used && s->used[i].head != head)
		i++;
	if (i == (int)LEN(s->used))
		i = 0;
	s->used[i].head = head;
	s->used[i].at = snaps_now();
	s->n_used = i < s->n_used ? s->n_used : i + 1;
}

/* Handle a failed load. Returns -1 if memory is short or the load was cancelled. Otherwise stores the reason in
 * out->why and returns 0, so that the caller prefills the text instead. */
static int load_failed(struct snaps *s, struct snap_loaded *out, struct err *why, struct err *e)
{
	if (why->code == ERR_FIT || why->code == ERR_CANCELLED) {
		if (e)
			*e = *why;
		return -1;
	}
	snaps_failed(s, why);
	snprintf(out->why, sizeof out->why, "%.*s", (int)sizeof out->why - 1, why->msg);
	return 0;
}

int snap_load(struct snaps *s, struct timeline *tl, const struct fingerprint *fp, int64_t message, struct str *extra,
              struct snap_loaded *out, struct err *e)
{
	struct loading l = { .s = s, .tl = tl, .out = out };
	struct found_head h;
	struct err said = { 0 };
	double start = now_seconds();
	const char *why = "the snapshot is damaged";
	uint8_t *bytes = NULL;
	int rc;

	memset(out, 0, sizeof *out);
	snaps_start(s);
	if (!s->db.h)
		return 0;
	rc = find_head(&l, fp, message, &h, &said);
	if (rc <= 0) {
		loading_free(&l);
		return rc ? load_failed(s, out, &said, e) : 0;
	}
	if (!h.fits) {
		char differs[160];

		loading_free(&l);
		fingerprint_differs(s, h.fingerprint, sizeof h.fingerprint, fp, differs, sizeof differs);
		say_why(out, differs, h.tokens);
		return 0;
	}
	rc = head_size(s, &h, &said);
	if (rc > 0) {
		bytes = try_alloc((size_t)h.bytes, 1, "a snapshot", &said);
		rc = bytes ? parts_read(s, h.id, 0, h.fingerprint, bytes, (uint64_t)h.bytes, &said) : -1;
	}
	if (rc > 0)
		rc = load_head(&l, &h, bytes, extra, &why, &said);
	free(bytes);
	loading_free(&l);
	if (rc < 0)
		return load_failed(s, out, &said, e);
	out->seconds = now_seconds() - start;
	if (rc)
		note_used(s, h.id);
	else
		say_why(out, why, h.tokens);
	return rc;
}

/* ---- loading by tokens, without a snapshot of the session ----
 *
 * KV entries of other kernels (CPU or GPU code) are not used, although they are equal up to rounding. With them, the
 * session's later entries would be stored under a fingerprint that names the other kernels. Other sessions could not
 * share these entries. */

static size_t tokens_shared(const struct timeline *tl, const int32_t *want, size_t n)
{
	size_t have, i = 0;
	const int32_t *id = timeline_tokens(tl, &have);

	while (i < n && i < have && id[i] == want[i])
		i++;
	return i;
}

static int32_t load_prefix(struct loading *l, const int32_t *want, size_t n, struct err *e)
{
	size_t most = (size_t)tokens_most(l->tl), shared = tokens_shared(l->tl, want, n);
	int32_t whole = 0;
	int rc = 1;

	n = MIN(n, most);
	if (n < PREFIX_LEAST || loading_begin(l, (int32_t)n, e))
		return n < PREFIX_LEAST ? 0 : -1;
	if (!l->row_bytes)
		return 0;
	memcpy(l->id, want, n * sizeof *want);
	memset(l->marks, 0, n);
	for (; (size_t)(l->chunks + 1) * CHUNK_TOKENS <= n; l->chunks++) {
		struct found_chunk found;

		loading_key(l, l->chunks);
		rc = chunk_find(l->s, l->key[l->chunks], l->chunk_bytes, &found, e);
		if (rc <= 0)
			break;
		whole = found.windows ? l->chunks + 1 : whole;
	}
	if (rc < 0)
		return -1;
	l->chunks = whole; /* the last chunk to load must contain the entries of sliding-window layers */
	if (l->chunks * CHUNK_TOKENS < PREFIX_LEAST || (size_t)l->chunks * CHUNK_TOKENS <= shared)
		return 0;
	if (tokens_held(l->tl) && (rc = load_chunks(l, 0, e)) <= 0)
		return rc;
	if (load_chunks(l, 1, e) < 0 && !l->done)
		return -1;
	keep_beginning(l);
	return l->out->tokens;
}

int32_t snap_load_prefix(struct snaps *s, struct timeline *tl, const struct fingerprint *fp, const int32_t *want,
                         size_t n, struct snap_loaded *out, struct err *e)
{
	struct loading l = { .s = s, .tl = tl, .out = out };
	struct err said = { 0 };
	double start = now_seconds();
	int32_t rc;

	memset(out, 0, sizeof *out);
	snaps_start(s);
	if (!s->db.h)
		return 0;
	if (fingerprint_pure(s, fp, &l.origin.fp))
		return err_set(e, ERR_FAIL, "cannot hash what the model is: no memory");
	rc = load_prefix(&l, want, MIN(n, INT32_MAX), &said);
	loading_free(&l);
	if (rc < 0)
		return load_failed(s, out, &said, e);
	out->seconds = now_seconds() - start;
	return rc;
}
