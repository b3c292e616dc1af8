/* sessions/store/messages.c - the tree of messages: adds, changes and walks it.
 *
 * A message has a larger id than its parent. Every walk to the root checks that, so it ends even if a damaged file
 * contains a cycle. */
#include "sessions/store/store_private.h"

#include "engine/engine_chat.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int message_lost(struct store *s, int64_t id, struct err *e)
{
	return err_set(e, ERR_FAIL,
	               "'%s/" CHAT_FILE "' is damaged: what comes before message %lld is lost; "
	               "'weir sessions check' says more",
	               s->dir, (long long)id);
}

/* ---- the tree ---- */

int node_get(struct store *s, int64_t id, struct node *out, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT parent, session, depth FROM message WHERE id=?1", "i", id);
	int rc;

	if (!st)
		return -1;
	rc = db_step(&s->db, st, e);
	if (rc > 0)
		*out = (struct node){ sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1),
			              sqlite3_column_int64(st, 2) };
	db_put(&s->db, st);
	if (rc > 0 && (out->parent < 0 || out->parent >= id))
		return message_lost(s, id, e);
	return rc;
}

int message_none(struct err *e, int64_t session, int64_t id)
{
	return err_set(e, ERR_USAGE, "there is no message %lld in session %lld", (long long)id, (long long)session);
}

static int session_base(struct store *s, int64_t session, int64_t *base, struct err *e)
{
	int rc = db_find(&s->db, e, base, "SELECT base FROM session WHERE id=?1", "i", session);

	return rc > 0 ? 0 : rc < 0 ? -1 : session_none(e, session);
}

int message_visible(struct store *s, int64_t session, int64_t message, struct err *e)
{
	struct node n;
	int64_t base;
	int rc = node_get(s, message, &n, e);

	if (rc <= 0 || session_base(s, session, &base, e))
		return rc ? -1 : 0;
	if (n.session == session)
		return 1;
	while (base > message) {
		rc = node_get(s, base, &n, e);
		if (rc <= 0)
			return rc < 0 ? -1 : message_lost(s, base, e);
		base = n.parent;
	}
	return base == message && message != 0;
}

/* ---- messages ---- */

/* Compute the checksum of a row of table message. `text` is the text in this row. If another row stores the first
 * b->bytes bytes of the message, it is the text after these bytes. */
static int64_t message_sum(int role, int complete, const void *text, size_t n_text, const void *token, size_t n_token,
                           const void *stats, size_t n_stats, const struct beginning *b)
{
	uint64_t head[5] = { (uint64_t)role, (uint64_t)complete, n_text, n_token, n_stats };
	uint64_t shared[2] = { (uint64_t)b->of, b->bytes };
	XXH3_state_t *x = XXH3_createState();
	uint64_t sum;

	/* If memory is short, return a wrong checksum, which `weir sessions check` will report. */
	if (!x)
		return 0;
	XXH3_64bits_reset(x);
	XXH3_64bits_update(x, head, sizeof head);
	XXH3_64bits_update(x, text, n_text);
	XXH3_64bits_update(x, token, n_token);
	XXH3_64bits_update(x, stats, n_stats);
	if (b->of || b->bytes)
		XXH3_64bits_update(x, shared, sizeof shared);
	sum = XXH3_64bits_digest(x);
	XXH3_freeState(x);
	return (int64_t)sum;
}

int message_sum_ok(sqlite3_stmt *st, int first)
{
	struct beginning b = { sqlite3_column_int64(st, first + 6), (size_t)sqlite3_column_int64(st, first + 7) };
	size_t n_text, n_token, n_stats;
	const void *text = db_bytes(st, first + 2, 0, &n_text), *token = db_bytes(st, first + 3, 1, &n_token);
	const void *stats = db_bytes(st, first + 4, 0, &n_stats);

	return message_sum((int)sqlite3_column_int64(st, first), (int)sqlite3_column_int64(st, first + 1), text, n_text,
	                   token, n_token, stats, n_stats, &b) == sqlite3_column_int64(st, first + 5);
}

int64_t message_sum_whole(sqlite3_stmt *st, int first, const char *text, size_t n_text)
{
	struct beginning none = { 0 };
	size_t n_token, n_stats;
	const void *token = db_bytes(st, first + 2, 1, &n_token), *stats = db_bytes(st, first + 3, 0, &n_stats);

	return message_sum((int)sqlite3_column_int64(st, first), (int)sqlite3_column_int64(st, first + 1), text, n_text,
	                   token, n_token, stats, n_stats, &none);
}

struct writing {
	int64_t session;
	const struct stored_message *m;
	int64_t id;
	size_t n_token;
};

static int writing_begin(struct writing *w, struct err *e)
{
	const struct stored_message *m = w->m;
	uint64_t bytes;

	if (m->role < ROLE_SYSTEM || m->role > ROLE_ASSISTANT)
		return err_set(e, ERR_USAGE, "a message cannot have the role %d", m->role);
	if (size_mul(m->n_token, sizeof *m->token, &bytes) || bytes > DB_VALUE_MAX || m->n_text > DB_VALUE_MAX)
		return err_set(e, ERR_FIT, "a message of %zu bytes and %zu tokens is longer than the limit of %u bytes",
		               m->n_text, m->n_token, DB_VALUE_MAX);
	w->n_token = (size_t)bytes;
	return 0;
}

/* Compute the checksum of the row for message w->m. If another row stores the first bytes of the message's text, *b
 * tells which row and how many bytes; else b->bytes is 0. */
static int64_t writing_sum(const struct writing *w, const struct beginning *b)
{
	const struct stored_message *m = w->m;
	const char *stats = m->stats ? m->stats : "";

	return message_sum(m->role, !!m->complete, m->n_text ? m->text + b->bytes : "", m->n_text - b->bytes,
	                   w->n_token ? (const void *)m->token : "", w->n_token, stats, strlen(stats), b);
}

static int make_title(struct store *s, const struct writing *w, struct err *e)
{
	struct str title = { 0 };
	int rc = 0;

	title_make(&title, w->m->text, w->m->n_text);
	if (title.n)
		rc = db_run(&s->db, e, "UPDATE session SET title=?2 WHERE id=?1 AND title=''", "is", w->session,
		            title.p, title.n);
	str_free(&title);
	return rc;
}

static int do_append(struct store *s, void *arg, struct err *e)
{
	struct writing *w = arg;
	const struct stored_message *m = w->m;
	struct node parent = { 0 };
	struct beginning b;
	int64_t now = store_now();

	if (session_exists(s, w->session, e))
		return -1;
	if (m->parent) {
		int rc = message_visible(s, w->session, m->parent, e);
		if (rc <= 0)
			return rc < 0 ? -1 : message_none(e, w->session, m->parent);
		if (node_get(s, m->parent, &parent, e) < 0)
			return -1;
	}
	if (beginning_find(s, w->session, m, &b, e))
		return -1;
	if (db_run(&s->db, e,
	           "INSERT INTO message(parent, session, depth, role, complete, at, sum, stats, token, text, beginning,"
	           " beginning_bytes) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
	           "iiiiiiitbsii", m->parent, w->session, (int64_t)db_small(parent.depth) + 1, (int64_t)m->role,
	           (int64_t) !!m->complete, m->at ? m->at : now, writing_sum(w, &b), m->stats ? m->stats : "", m->token,
	           w->n_token, m->text + b.bytes, m->n_text - b.bytes, b.of, (int64_t)b.bytes))
		return -1;
	w->id = sqlite3_last_insert_rowid(s->db.h);
	if (index_add(s, w->id, m->text + b.bytes, m->n_text - b.bytes, e))
		return -1;
	if (db_run(&s->db, e, "UPDATE session SET head=?2, messages=?3, used=?4, turn=" NEXT_TURN " WHERE id=?1",
	           "iiii", w->session, w->id, (int64_t)db_small(parent.depth) + 1, now))
		return -1;
	return m->role == ROLE_USER ? make_title(s, w, e) : 0;
}

int message_append(struct store *s, int64_t session, const struct stored_message *m, int64_t *id, struct err *e)
{
	struct writing w = { .session = session, .m = m };

	if (writing_begin(&w, e) || store_change(s, do_append, &w, e))
		return -1;
	*id = w.id;
	return 0;
}

static int do_update(struct store *s, void *arg, struct err *e)
{
	struct writing *w = arg;
	const struct stored_message *m = w->m;
	const struct beginning none = { 0 };
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT role, text FROM message WHERE id=?1", "i", w->id);
	int rc, same = 0;

	if (!st)
		return -1;
	rc = db_step(&s->db, st, e);
	if (!rc)
		rc = err_set(e, ERR_USAGE, "there is no message %lld", (long long)w->id);
	else if (rc > 0 && sqlite3_column_int64(st, 0) != ROLE_ASSISTANT)
		rc = err_set(e, ERR_USAGE, "message %lld is not an answer; only an answer can be changed",
		             (long long)w->id);
	else if (rc > 0) {
		size_t n;
		const char *old = db_bytes(st, 1, 0, &n);
		same = n == m->n_text && !memcmp(old, n ? m->text : "", n);
		rc = same ? 0 : index_remove(s, w->id, old, n, e);
	}
	db_put(&s->db, st);
	if (rc)
		return -1;
	if (db_run(&s->db, e, "UPDATE message SET complete=?2, sum=?3, stats=?4, token=?5, text=?6 WHERE id=?1",
	           "iiitbs", w->id, (int64_t) !!m->complete, writing_sum(w, &none), m->stats ? m->stats : "", m->token,
	           w->n_token, m->text, m->n_text))
		return -1;
	return same ? 0 : index_add(s, w->id, m->text, m->n_text, e);
}

int message_update(struct store *s, int64_t id, const struct stored_message *m, struct err *e)
{
	struct stored_message answer = *m;
	struct writing w = { .m = &answer, .id = id };

	answer.role = ROLE_ASSISTANT; /* the checksum covers the role, which callers may not have set */
	return writing_begin(&w, e) ? -1 : store_change(s, do_update, &w, e);
}

int message_set_stats(struct store *s, int64_t id, const char *stats, struct err *e)
{
	sqlite3_stmt *st =
		db_query(&s->db, e,
	                 "SELECT role, complete, text, token, beginning, beginning_bytes FROM message WHERE id=?1", "i",
	                 id);
	int rc = st ? db_step(&s->db, st, e) : -1;
	int64_t sum = 0;

	if (rc > 0) {
		struct beginning b = { sqlite3_column_int64(st, 4), (size_t)sqlite3_column_int64(st, 5) };
		size_t n_text, n_token;
		const void *text = db_bytes(st, 2, 0, &n_text), *token = db_bytes(st, 3, 1, &n_token);

		sum = message_sum((int)sqlite3_column_int64(st, 0), (int)sqlite3_column_int64(st, 1), text, n_text,
		                  token, n_token, stats, strlen(stats), &b);
	}
	db_put(&s->db, st);
	return rc <= 0 ? rc
	               : db_run(&s->db, e, "UPDATE message SET stats=?2, sum=?3 WHERE id=?1", "iti", id, stats, sum);
}

struct moving {
	int64_t session, to;
};

static int do_set_head(struct store *s, void *arg, struct err *e)
{
	struct moving *m = arg;
	struct node n = { 0 };

	if (session_exists(s, m->session, e))
		return -1;
	if (m->to) {
		int rc = message_visible(s, m->session, m->to, e);
		if (rc <= 0)
			return rc < 0 ? -1 : message_none(e, m->session, m->to);
		if (node_get(s, m->to, &n, e) < 0)
			return -1;
	}
	return db_run(&s->db, e, "UPDATE session SET head=?2, messages=?3, used=?4, turn=" NEXT_TURN " WHERE id=?1",
	              "iiii", m->session, m->to, (int64_t)db_small(n.depth), store_now());
}

int session_set_head(struct store *s, int64_t session, int64_t message, struct err *e)
{
	struct moving m = { session, message };

	return store_change(s, do_set_head, &m, e);
}

/* ---- reading messages ---- */

#define MESSAGE_COLUMNS "id, parent, at, role, complete, text, token, stats, sum, beginning, beginning_bytes"

/* Buffers for the message that was read last: for its tokens, and for its whole text if its row stores only a part of
 * the text. */
struct reading {
	struct tokens token;
	char *whole;
};

/* Set *out from a row. If the checksum is wrong, *out has the text but no tokens: the user can still read a damaged
 * text, but damaged tokens must not be fed to the model. */
static int message_of(struct store *s, sqlite3_stmt *st, struct stored_message *out, struct reading *r, struct err *e)
{
	struct tokens *token = &r->token;
	size_t n;
	const void *bytes = db_bytes(st, 6, 1, &n);

	*out = (struct stored_message){
		.id = sqlite3_column_int64(st, 0),
		.parent = sqlite3_column_int64(st, 1),
		.at = sqlite3_column_int64(st, 2),
		.complete = sqlite3_column_int64(st, 4) == 1,
	};
	out->role = (int)sqlite3_column_int64(st, 3);
	if (out->role < ROLE_SYSTEM || out->role > ROLE_ASSISTANT)
		out->role = ROLE_USER;
	token->n = 0;
	if (n && n % sizeof *token->id == 0 && message_sum_ok(st, 3)) {
		/* copy the tokens, because SQLite's bytes may be unaligned */
		if (n / sizeof *token->id > token->cap) {
			free(token->id);
			token->cap = 0;
			token->id = try_alloc(n, 1, "the tokens of a message", e);
			if (!token->id)
				return -1;
			token->cap = n / sizeof *token->id;
		}
		memcpy(token->id, bytes, n);
		token->n = n / sizeof *token->id;
		for (size_t i = 0; i < token->n; i++)
			if (token->id[i] < 0)
				token->n = 0;
	}
	out->token = token->id;
	out->n_token = token->n;
	out->stats = db_text(st, 7);
	out->text = db_bytes(st, 5, 0, &out->n_text);
	if (!sqlite3_column_int64(st, 9))
		return 0;
	return beginning_add(s, out->id, sqlite3_column_int64(st, 9), sqlite3_column_int64(st, 10), &r->whole,
	                     &out->text, &out->n_text, e);
}

struct ids {
	int64_t *id;
	size_t n, cap;
};

static int ids_add(struct ids *l, int64_t id, struct err *e)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		int64_t *bigger = realloc(l->id, cap * sizeof *bigger);
		if (!bigger)
			return err_set(e, ERR_FIT, "no memory for a session of %zu messages", l->n);
		l->id = bigger;
		l->cap = cap;
	}
	l->id[l->n++] = id;
	return 0;
}

/* Call fn for each message of the list, until fn returns nonzero. If `backwards` is 1, begin with the last message. */
static int give_messages(struct store *s, const struct ids *l, int backwards, message_fn *fn, void *ud, struct err *e)
{
	struct reading r = { .whole = NULL };
	int rc = 0;

	for (size_t i = 0; i < l->n && !rc; i++) {
		int64_t id = l->id[backwards ? l->n - 1 - i : i];
		sqlite3_stmt *st = db_query(&s->db, e, "SELECT " MESSAGE_COLUMNS " FROM message WHERE id=?1", "i", id);
		struct stored_message m;

		rc = st ? db_step(&s->db, st, e) : -1;
		if (rc > 0) {
			rc = message_of(s, st, &m, &r, e);
			if (!rc && fn(&m, ud))
				rc = 1;
		}
		db_put(&s->db, st);
	}
	tokens_free(&r.token);
	free(r.whole);
	return rc < 0 ? -1 : 0;
}

int message_path(struct store *s, int64_t to, message_fn *fn, void *ud, struct err *e)
{
	struct ids path = { 0 };
	struct node n = { 0 };
	int rc = 0;

	for (int64_t id = to; id && !rc; id = n.parent) {
		rc = node_get(s, id, &n, e);
		if (!rc)
			rc = id == to ? err_set(e, ERR_USAGE, "there is no message %lld", (long long)id)
			              : message_lost(s, id, e);
		else if (rc > 0)
			rc = ids_add(&path, id, e);
	}
	if (!rc)
		rc = give_messages(s, &path, 1, fn, ud, e);
	free(path.id);
	return rc;
}

int message_children(struct store *s, int64_t session, int64_t message, message_fn *fn, void *ud, struct err *e)
{
	struct ids found = { 0 };
	struct node n = { 0 };
	sqlite3_stmt *st;
	int64_t base, inherited = 0;
	int rc;

	if (session_base(s, session, &base, e))
		return -1;
	if (message && (rc = message_visible(s, session, message, e)) <= 0)
		return rc < 0 ? -1 : message_none(e, session, message);
	/* A fork inherits messages of another session: the path from the first message to message `base`. If a message
	 * on this path is a child of `message`, set `inherited` to the id of this child, so that it is listed, too. */
	while (base > message) {
		rc = node_get(s, base, &n, e);
		if (rc <= 0)
			return rc < 0 ? -1 : message_lost(s, base, e);
		if (n.parent == message && n.session != session)
			inherited = base;
		base = n.parent;
	}
	st = db_query(&s->db, e, "SELECT id FROM message WHERE session=?1 AND parent=?2 ORDER BY id", "ii", session,
	              message);
	rc = st ? 1 : -1;
	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0) {
		int64_t id = sqlite3_column_int64(st, 0);
		if (inherited && id > inherited) {
			rc = ids_add(&found, inherited, e) ? -1 : 1;
			inherited = 0;
		}
		if (rc > 0 && ids_add(&found, id, e))
			rc = -1;
	}
	db_put(&s->db, st);
	if (!rc && inherited)
		rc = ids_add(&found, inherited, e);
	if (!rc)
		rc = give_messages(s, &found, 0, fn, ud, e);
	free(found.id);
	return rc;
}

/* Count the messages of a session. For a fork, also count the messages of other sessions that it shows: from the first
 * message to the base, which is the message at which the session was forked. */
int session_tree(struct store *s, int64_t session, struct session_tree *out, struct err *e)
{
	struct node n = { 0 };
	int64_t base, shown, own, leaves, cut, follows = 0, inherited = 0;

	memset(out, 0, sizeof *out);
	if (session_base(s, session, &base, e) ||
	    db_find(&s->db, e, &shown, "SELECT messages FROM session WHERE id=?1", "i", session) < 0 ||
	    db_find(&s->db, e, &own, "SELECT count(*) FROM message WHERE session=?1", "i", session) < 0 ||
	    db_find(&s->db, e, &cut, "SELECT count(*) FROM message WHERE session=?1 AND complete=0", "i", session) <
	            0 ||
	    db_find(&s->db, e, &leaves,
	            "SELECT count(*) FROM message m WHERE session=?1 AND NOT EXISTS"
	            " (SELECT 1 FROM message c WHERE c.session=?1 AND c.parent=m.id)",
	            "i", session) < 0 ||
	    db_find(&s->db, e, &follows, "SELECT 1 FROM message WHERE session=?1 AND parent=?2", "ii", session, base) <
	            0)
		return -1;
	for (int64_t id = base; id; id = n.parent) {
		int rc = node_get(s, id, &n, e);
		if (rc <= 0)
			return rc < 0 ? -1 : message_lost(s, id, e);
		if (n.session == session)
			continue;
		inherited++;
		/* if no message of this session follows the base of the fork, the base is the end of a branch */
		if (id == base && !follows)
			leaves++;
	}
	*out = (struct session_tree){ db_small(shown), db_small(own + inherited), db_small(leaves), db_small(cut) };
	return 0;
}
