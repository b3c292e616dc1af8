/* sessions/chats.c - sessions and the tree of their messages.
 *
 * A message belongs to the session it was written in.  A fork begins behind a message of another session (its base) and shows
 * everything up to there without copying it; what it adds is its own.  Deleting a session therefore deletes what is its own and
 * is on no other session's way to its base; what is still shown passes to one that shows it.
 *
 * Numbers of messages grow from parent to child.  Every walk towards the beginning relies on that and so ends, whatever a
 * damaged file says. */
#include "sessions/store.h"

#include "engine/engine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#define NAME_MAX_BYTES 80
#define TITLE_LETTERS 60
#define VACUUM_PAGES 4096   /* given back to the disk after a deletion: 16 MiB, so that it never takes long */

static int32_t small(int64_t v)
{
	return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

static const char *text_at(sqlite3_stmt *st, int column)
{
	const char *s = (const char *)sqlite3_column_text(st, column);

	return s ? s : "";
}

static int no_session(struct err *e, int64_t id)
{
	return err_set(e, ERR_USAGE, "there is no session %lld; 'weir sessions ls' lists them", (long long)id);
}

static int broken_chain(struct store *s, int64_t id, struct err *e)
{
	return err_set(e, ERR_FAIL, "'%s/" CHAT_FILE "' is damaged: what comes before message %lld is lost; "
	               "'weir sessions check' says more", s->dir, (long long)id);
}

/* ---- names and titles ---- */

/* May it be shown as it is?  text_escape() leaves exactly those letters alone. */
static int plain(const char *s, size_t n)
{
	char out[32];

	return text_escape(out, sizeof out, s, n) == n;
}

static int name_ok(const char *name, struct err *e)
{
	size_t n = strlen(name);
	int digits = 1;

	if (!n || n > NAME_MAX_BYTES)
		return err_set(e, ERR_USAGE, "a session's name has 1 to %d bytes, this one %zu", NAME_MAX_BYTES, n);
	for (size_t i = 0; i < n;) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(name + i, n - i, &cp);
		int blank = cp == ' ' || cp == 0xa0 || cp == 0x3000 || (cp >= 0x2000 && cp <= 0x200a);
		if (cp < 0 || !plain(name + i, len))
			return err_set(e, ERR_USAGE, "a session's name is of printable letters, this one is not: '%.80s'", name);
		if (blank && (i == 0 || i + len == n))
			return err_set(e, ERR_USAGE, "a session's name neither begins nor ends with a blank: '%.80s'", name);
		digits &= cp >= '0' && cp <= '9';
		i += len;
	}
	if (digits)
		return err_set(e, ERR_USAGE, "a session's name is not a number alone, numbers are given out: '%.80s'", name);
	return 0;
}

static int name_free(struct store *s, const char *name, int64_t but, struct err *e)
{
	int64_t id;
	int rc = db_find(&s->db, e, &id, "SELECT id FROM session WHERE name=?1 AND id<>?2", "ti", name, but);

	return rc > 0 ? err_set(e, ERR_USAGE, "another session (%lld) is called '%s' already", (long long)id, name) : rc;
}

/* The first line with something in it, blanks made one, cut behind a word. */
static void title_make(struct str *out, const char *text, size_t n)
{
	size_t word_end = 0;
	int letters = 0, blank = 0;

	for (size_t i = 0; i < n;) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(text + i, n - i, &cp);
		const char *at = text + i;

		i += len;
		if (cp == '\n' || cp == '\r' || cp == 0x2028 || cp == 0x2029) {
			if (out->n)
				break;
			blank = 0;
			continue;
		}
		if (cp == ' ' || cp == '\t' || cp == 0xa0 || cp == 0x3000) {
			blank = out->n > 0;
			continue;
		}
		if (cp < 0 || !plain(at, len))
			continue;
		if (blank) {
			word_end = out->n;
			letters++;
		}
		if (letters >= TITLE_LETTERS) {
			/* One endless word is cut where it is. */
			if (word_end > out->n / 3)
				out->n = word_end;
			str_adds(out, "\xe2\x80\xa6");
			break;
		}
		if (blank)
			str_adds(out, " ");
		blank = 0;
		str_add(out, at, len);
		letters++;
	}
}

/* ---- rows ---- */

#define SESSION_COLUMNS "id, head, created, used, messages, tokens, parent, name, title, model, kv"

static void session_of(sqlite3_stmt *st, struct session *out)
{
	*out = (struct session){
		.id = sqlite3_column_int64(st, 0), .head = sqlite3_column_int64(st, 1), .created = sqlite3_column_int64(st, 2),
		.used = sqlite3_column_int64(st, 3), .messages = small(sqlite3_column_int64(st, 4)),
		.tokens = small(sqlite3_column_int64(st, 5)), .parent = sqlite3_column_int64(st, 6), .name = text_at(st, 7),
		.title = text_at(st, 8), .model = text_at(st, 9), .kv = text_at(st, 10),
	};
}

int session_exists(struct store *s, int64_t id, struct err *e)
{
	int64_t found;
	int rc = db_find(&s->db, e, &found, "SELECT id FROM session WHERE id=?1", "i", id);

	return rc > 0 ? 0 : rc < 0 ? -1 : no_session(e, id);
}

int session_get(struct store *s, int64_t id, struct session *out, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT " SESSION_COLUMNS " FROM session WHERE id=?1", "i", id);
	const char **text[] = {&out->name, &out->title, &out->model, &out->kv};
	int rc;

	if (!st)
		return -1;
	rc = db_step(&s->db, st, e);
	if (rc > 0) {
		session_of(st, out);
		for (size_t i = 0; i < 4; i++) {
			str_clear(&s->row[i]);
			str_add(&s->row[i], *text[i], strlen(*text[i]) + 1);
			*text[i] = s->row[i].p;
		}
	}
	db_put(&s->db, st);
	return rc > 0 ? 0 : rc < 0 ? -1 : no_session(e, id);
}

int session_list(struct store *s, session_fn *fn, void *ud, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT " SESSION_COLUMNS " FROM session ORDER BY turn DESC, id DESC", "");
	int rc;

	if (!st)
		return -1;
	while ((rc = db_step(&s->db, st, e)) > 0) {
		struct session row;
		session_of(st, &row);
		if (fn(&row, ud)) {
			rc = 0;
			break;
		}
	}
	db_put(&s->db, st);
	return rc;
}

int session_last(struct store *s, int64_t *id, struct err *e)
{
	return db_find(&s->db, e, id, "SELECT id FROM session ORDER BY turn DESC, id DESC LIMIT 1", "");
}

/* ---- finding by what somebody typed ---- */

#define WORD_MAX 48

/* Edit distance; swapped neighbours count as one: what fingers do wrong. */
static int distance(const char *a, const char *b)
{
	int row[3][WORD_MAX + 1];
	int na = (int)strlen(a), nb = (int)strlen(b);

	for (int j = 0; j <= nb; j++)
		row[0][j] = j;
	for (int i = 1; i <= na; i++) {
		int *now = row[i % 3], *before = row[(i + 2) % 3], *older = row[(i + 1) % 3];
		now[0] = i;
		for (int j = 1; j <= nb; j++) {
			int best = before[j - 1] + (a[i - 1] != b[j - 1]);
			if (before[j] + 1 < best)
				best = before[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && older[j - 2] + 1 < best)
				best = older[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[na % 3][nb];
}

struct finding {
	const char *what;
	size_t n;
	int64_t number;              /* -1 = it is none */
	int64_t named, titled, numbered, begun;
	int n_titled, n_begun, best;
	struct str names;            /* of those that begin so */
	char near[WORD_MAX + 1];
};

static void name_near(struct finding *f, const char *candidate)
{
	int d;

	if (f->n > WORD_MAX || !*candidate || strlen(candidate) > WORD_MAX)
		return;
	d = distance(f->what, candidate);
	if (d < f->best) {
		f->best = d;
		snprintf(f->near, sizeof f->near, "%s", candidate);
	}
}

static int find_one(const struct session *row, void *ud)
{
	struct finding *f = ud;
	const char *shown = row->name;

	if (!strcmp(row->name, f->what)) {
		f->named = row->id;
		return 1;
	}
	if (!strcmp(row->title, f->what) && !f->n_titled++)
		f->titled = row->id;
	if (row->id == f->number)
		f->numbered = row->id;
	if (strncasecmp(row->name, f->what, f->n)) {
		shown = row->title;
		if (strncasecmp(row->title, f->what, f->n)) {
			name_near(f, row->name);
			name_near(f, row->title);
			return 0;
		}
	}
	if (f->n_begun++ < 3)
		str_addf(&f->names, "%s%lld '%.40s'", f->names.n ? ", " : "", (long long)row->id, shown);
	f->begun = row->id;
	return 0;
}

int session_find(struct store *s, const char *what, int64_t *id, struct err *e)
{
	struct finding f = {.what = what, .n = strlen(what), .number = -1};
	int rc;

	if (!f.n)
		return err_set(e, ERR_USAGE, "no session was named; 'weir sessions ls' lists them");
	if (f.n < 19 && strspn(what, "0123456789") == f.n)
		f.number = strtoll(what, NULL, 10);
	f.best = f.n < 3 ? 2 : (int)(f.n < WORD_MAX ? f.n : WORD_MAX) / 3 + 2;
	rc = session_list(s, find_one, &f, e);
	if (rc)
		;
	else if (f.named)
		*id = f.named;
	else if (f.n_titled > 1)
		rc = err_set(e, ERR_USAGE, "%d sessions have the title '%.80s'; name one by its number, see 'weir sessions ls'",
		             f.n_titled, what);
	else if (f.titled)
		*id = f.titled;
	else if (f.numbered)
		*id = f.numbered;
	else if (f.n_begun == 1)
		*id = f.begun;
	else if (f.n_begun)
		rc = err_set(e, ERR_USAGE, "%d sessions begin with '%.80s': %s%s; type more of it", f.n_begun, what, f.names.p,
		             f.n_begun > 3 ? " ..." : "");
	else if (f.near[0])
		rc = err_set(e, ERR_USAGE, "there is no session '%.80s'; is it '%s'?", what, f.near);
	else
		rc = err_set(e, ERR_USAGE, "there is no session '%.80s'; 'weir sessions ls' lists them", what);
	str_free(&f.names);
	return rc;
}

/* ---- making, naming, using ---- */

#define NEXT_TURN "(SELECT coalesce(max(turn), 0) + 1 FROM session)"

struct making { int64_t from, at; const char *name; int64_t id; };

static int do_new(struct store *s, void *arg, struct err *e)
{
	struct making *m = arg;
	int64_t now = store_now();

	if (m->name && name_free(s, m->name, 0, e))
		return -1;
	if (db_run(&s->db, e, "INSERT INTO session(created, used, turn, name) VALUES(?1, ?1, " NEXT_TURN ", ?2)", "it", now,
	           m->name))
		return -1;
	m->id = sqlite3_last_insert_rowid(s->db.h);
	return 0;
}

int session_new(struct store *s, const char *name, int64_t *id, struct err *e)
{
	struct making m = {.name = name && *name ? name : NULL};

	if ((m.name && name_ok(m.name, e)) || store_change(s, do_new, &m, e))
		return -1;
	*id = m.id;
	return 0;
}

static int do_rename(struct store *s, void *arg, struct err *e)
{
	struct making *m = arg;

	if (session_exists(s, m->id, e) || name_free(s, m->name, m->id, e))
		return -1;
	return db_run(&s->db, e, "UPDATE session SET name=?2 WHERE id=?1", "it", m->id, m->name);
}

int session_rename(struct store *s, int64_t id, const char *name, struct err *e)
{
	struct making m = {.name = name ? name : "", .id = id};

	return name_ok(m.name, e) ? -1 : store_change(s, do_rename, &m, e);
}

struct touch { int64_t id; const char *model, *kv; int32_t tokens; };

static int do_touch(struct store *s, void *arg, struct err *e)
{
	struct touch *t = arg;

	if (session_exists(s, t->id, e))
		return -1;
	return db_run(&s->db, e, "UPDATE session SET used=?2, turn=" NEXT_TURN ", model=coalesce(?3, model),"
	              " kv=coalesce(?4, kv), tokens=?5 WHERE id=?1", "iitti", t->id, store_now(), t->model, t->kv,
	              (int64_t)t->tokens);
}

int session_touch(struct store *s, int64_t id, const char *model, const char *kv, int32_t tokens, struct err *e)
{
	struct touch t = {id, model, kv, tokens};

	return store_change(s, do_touch, &t, e);
}

/* ---- the tree ---- */

struct node { int64_t parent, session, depth; };

/* 1, 0 = there is no such message, -1. */
static int node_get(struct store *s, int64_t id, struct node *out, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT parent, session, depth FROM message WHERE id=?1", "i", id);
	int rc;

	if (!st)
		return -1;
	rc = db_step(&s->db, st, e);
	if (rc > 0)
		*out = (struct node){sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1), sqlite3_column_int64(st, 2)};
	db_put(&s->db, st);
	if (rc > 0 && (out->parent < 0 || out->parent >= id))
		return broken_chain(s, id, e);
	return rc;
}

static int no_message(struct err *e, int64_t session, int64_t id)
{
	return err_set(e, ERR_USAGE, "there is no message %lld in session %lld", (long long)id, (long long)session);
}

static int session_base(struct store *s, int64_t session, int64_t *base, struct err *e)
{
	int rc = db_find(&s->db, e, base, "SELECT base FROM session WHERE id=?1", "i", session);

	return rc > 0 ? 0 : rc < 0 ? -1 : no_session(e, session);
}

int message_visible(struct store *s, int64_t session, int64_t message, struct err *e)
{
	struct node n;
	int64_t base;
	int rc = node_get(s, message, &n, e);

	if (rc <= 0 || session_base(s, session, &base, e))
		return rc < 0 ? -1 : rc ? -1 : 0;
	if (n.session == session)
		return 1;
	while (base > message) {
		rc = node_get(s, base, &n, e);
		if (rc <= 0)
			return rc < 0 ? -1 : broken_chain(s, base, e);
		base = n.parent;
	}
	return base == message && message != 0;
}

/* ---- messages ---- */

static int64_t message_sum(int role, int complete, const void *text, size_t n_text, const void *token, size_t n_token,
                           const void *stats, size_t n_stats)
{
	uint64_t head[5] = {(uint64_t)role, (uint64_t)complete, n_text, n_token, n_stats};
	XXH3_state_t *x = XXH3_createState();
	uint64_t sum;

	/* No memory: a sum that is wrong only says so later. */
	if (!x)
		return 0;
	XXH3_64bits_reset(x);
	XXH3_64bits_update(x, head, sizeof head);
	XXH3_64bits_update(x, text, n_text);
	XXH3_64bits_update(x, token, n_token);
	XXH3_64bits_update(x, stats, n_stats);
	sum = XXH3_64bits_digest(x);
	XXH3_freeState(x);
	return (int64_t)sum;
}

/* The value and then its length: SQLite may have to convert it first. */
static const void *bytes_at(sqlite3_stmt *st, int column, int blob, size_t *n)
{
	const void *p = blob ? sqlite3_column_blob(st, column) : (const void *)sqlite3_column_text(st, column);
	int len = sqlite3_column_bytes(st, column);

	*n = p && len > 0 ? (size_t)len : 0;
	return *n ? p : "";
}

int message_sum_ok(sqlite3_stmt *st, int first)
{
	size_t n_text, n_token, n_stats;
	const void *text = bytes_at(st, first + 2, 0, &n_text), *token = bytes_at(st, first + 3, 1, &n_token);
	const void *stats = bytes_at(st, first + 4, 0, &n_stats);

	return message_sum((int)sqlite3_column_int64(st, first), (int)sqlite3_column_int64(st, first + 1), text, n_text, token,
	                   n_token, stats, n_stats) == sqlite3_column_int64(st, first + 5);
}

struct writing { int64_t session; const struct stored_message *m; int64_t id; int64_t sum; size_t n_token; };

static int writing_begin(struct writing *w, struct err *e)
{
	const struct stored_message *m = w->m;
	const char *stats = m->stats ? m->stats : "";
	uint64_t bytes;

	if (m->role < ROLE_SYSTEM || m->role > ROLE_ASSISTANT)
		return err_set(e, ERR_USAGE, "a message cannot have the role %d", m->role);
	if (size_mul(m->n_token, sizeof *m->token, &bytes) || bytes > DB_VALUE_MAX || m->n_text > DB_VALUE_MAX)
		return err_set(e, ERR_FIT, "a message of %zu bytes and %zu tokens is longer than the limit of %u bytes", m->n_text,
		               m->n_token, DB_VALUE_MAX);
	w->n_token = (size_t)bytes;
	w->sum = message_sum(m->role, !!m->complete, m->n_text ? m->text : "", m->n_text, bytes ? (const void *)m->token : "",
	                     w->n_token, stats, strlen(stats));
	return 0;
}

static int make_title(struct store *s, const struct writing *w, struct err *e)
{
	struct str title = {0};
	int rc = 0;

	title_make(&title, w->m->text, w->m->n_text);
	if (title.n)
		rc = db_run(&s->db, e, "UPDATE session SET title=?2 WHERE id=?1 AND title=''", "is", w->session, title.p, title.n);
	str_free(&title);
	return rc;
}

static int do_append(struct store *s, void *arg, struct err *e)
{
	struct writing *w = arg;
	const struct stored_message *m = w->m;
	struct node parent = {0};
	int64_t now = store_now();

	if (session_exists(s, w->session, e))
		return -1;
	if (m->parent) {
		int rc = message_visible(s, w->session, m->parent, e);
		if (rc <= 0)
			return rc < 0 ? -1 : no_message(e, w->session, m->parent);
		if (node_get(s, m->parent, &parent, e) < 0)
			return -1;
	}
	if (db_run(&s->db, e, "INSERT INTO message(parent, session, depth, role, complete, at, sum, stats, token, text)"
	           " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)", "iiiiiiitbs", m->parent, w->session,
	           (int64_t)small(parent.depth) + 1, (int64_t)m->role, (int64_t)!!m->complete, m->at ? m->at : now, w->sum,
	           m->stats ? m->stats : "", m->token, w->n_token, m->text, m->n_text))
		return -1;
	w->id = sqlite3_last_insert_rowid(s->db.h);
	if (index_add(s, w->id, m->text, m->n_text, e))
		return -1;
	if (db_run(&s->db, e, "UPDATE session SET head=?2, messages=?3, used=?4, turn=" NEXT_TURN " WHERE id=?1", "iiii",
	           w->session, w->id, (int64_t)small(parent.depth) + 1, now))
		return -1;
	return m->role == ROLE_USER ? make_title(s, w, e) : 0;
}

int message_append(struct store *s, int64_t session, const struct stored_message *m, int64_t *id, struct err *e)
{
	struct writing w = {.session = session, .m = m};

	if (writing_begin(&w, e) || store_change(s, do_append, &w, e))
		return -1;
	*id = w.id;
	return 0;
}

static int do_update(struct store *s, void *arg, struct err *e)
{
	struct writing *w = arg;
	const struct stored_message *m = w->m;
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT role, text FROM message WHERE id=?1", "i", w->id);
	int rc, same = 0;

	if (!st)
		return -1;
	rc = db_step(&s->db, st, e);
	if (!rc)
		rc = err_set(e, ERR_USAGE, "there is no message %lld", (long long)w->id);
	else if (rc > 0 && sqlite3_column_int64(st, 0) != ROLE_ASSISTANT)
		rc = err_set(e, ERR_USAGE, "message %lld is not an answer: only answers grow", (long long)w->id);
	else if (rc > 0) {
		size_t n;
		const char *old = bytes_at(st, 1, 0, &n);
		same = n == m->n_text && !memcmp(old, n ? m->text : "", n);
		rc = same ? 0 : index_remove(s, w->id, old, n, e);
	}
	db_put(&s->db, st);
	if (rc)
		return -1;
	if (db_run(&s->db, e, "UPDATE message SET complete=?2, sum=?3, stats=?4, token=?5, text=?6 WHERE id=?1", "iiitbs", w->id,
	           (int64_t)!!m->complete, w->sum, m->stats ? m->stats : "", m->token, w->n_token, m->text, m->n_text))
		return -1;
	return same ? 0 : index_add(s, w->id, m->text, m->n_text, e);
}

int message_update(struct store *s, int64_t id, const struct stored_message *m, struct err *e)
{
	struct stored_message answer = *m;
	struct writing w = {.m = &answer, .id = id};

	answer.role = ROLE_ASSISTANT;   /* what it is, whatever the caller left there: the sum covers it */
	return writing_begin(&w, e) ? -1 : store_change(s, do_update, &w, e);
}

struct moving { int64_t session, to; };

static int do_set_head(struct store *s, void *arg, struct err *e)
{
	struct moving *m = arg;
	struct node n = {0};

	if (session_exists(s, m->session, e))
		return -1;
	if (m->to) {
		int rc = message_visible(s, m->session, m->to, e);
		if (rc <= 0)
			return rc < 0 ? -1 : no_message(e, m->session, m->to);
		if (node_get(s, m->to, &n, e) < 0)
			return -1;
	}
	return db_run(&s->db, e, "UPDATE session SET head=?2, messages=?3, used=?4, turn=" NEXT_TURN " WHERE id=?1", "iiii",
	              m->session, m->to, (int64_t)small(n.depth), store_now());
}

int session_set_head(struct store *s, int64_t session, int64_t message, struct err *e)
{
	struct moving m = {session, message};

	return store_change(s, do_set_head, &m, e);
}

/* ---- reading messages ---- */

#define MESSAGE_COLUMNS "id, parent, at, role, complete, text, token, stats, sum"

/* The row as the caller sees it.  Tokens whose sum is wrong are not given out: text that is a little off can be read, an
 * answer's tokens that are a little off would be computed with. */
static int message_of(sqlite3_stmt *st, struct stored_message *out, struct tokens *token, struct err *e)
{
	size_t n;
	const void *bytes = bytes_at(st, 6, 1, &n);

	*out = (struct stored_message){
		.id = sqlite3_column_int64(st, 0), .parent = sqlite3_column_int64(st, 1), .at = sqlite3_column_int64(st, 2),
		.complete = sqlite3_column_int64(st, 4) == 1,
	};
	out->role = (int)sqlite3_column_int64(st, 3);
	if (out->role < ROLE_SYSTEM || out->role > ROLE_ASSISTANT)
		out->role = ROLE_USER;
	token->n = 0;
	if (n && n % sizeof *token->id == 0 && message_sum_ok(st, 3)) {
		/* A copy: SQLite's bytes may lie at any address. */
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
	out->stats = text_at(st, 7);
	out->text = bytes_at(st, 5, 0, &out->n_text);
	return 0;
}

struct ids { int64_t *id; size_t n, cap; };

static int ids_add(struct ids *l, int64_t id, struct err *e)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		int64_t *bigger = realloc(l->id, cap * sizeof *bigger);
		if (!bigger)
			return err_set(e, ERR_FIT, "no memory for a talk of %zu messages", l->n);
		l->id = bigger;
		l->cap = cap;
	}
	l->id[l->n++] = id;
	return 0;
}

/* In the order of the list, or from its end. */
static int give_messages(struct store *s, const struct ids *l, int backwards, message_fn *fn, void *ud, struct err *e)
{
	struct tokens token = {0};
	int rc = 0;

	for (size_t i = 0; i < l->n && !rc; i++) {
		int64_t id = l->id[backwards ? l->n - 1 - i : i];
		sqlite3_stmt *st = db_query(&s->db, e, "SELECT " MESSAGE_COLUMNS " FROM message WHERE id=?1", "i", id);
		struct stored_message m;

		rc = st ? db_step(&s->db, st, e) : -1;
		if (rc > 0) {
			rc = message_of(st, &m, &token, e);
			if (!rc && fn(&m, ud))
				rc = 1;
		}
		db_put(&s->db, st);
	}
	tokens_free(&token);
	return rc < 0 ? -1 : 0;
}

int message_path(struct store *s, int64_t to, message_fn *fn, void *ud, struct err *e)
{
	struct ids path = {0};
	struct node n = {0};
	int rc = 0;

	for (int64_t id = to; id && !rc; id = n.parent) {
		rc = node_get(s, id, &n, e);
		if (!rc)
			rc = id == to ? err_set(e, ERR_USAGE, "there is no message %lld", (long long)id) : broken_chain(s, id, e);
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
	struct ids found = {0};
	struct node n = {0};
	sqlite3_stmt *st;
	int64_t base, inherited = 0;
	int rc;

	if (session_base(s, session, &base, e))
		return -1;
	if (message && (rc = message_visible(s, session, message, e)) <= 0)
		return rc < 0 ? -1 : no_message(e, session, message);
	/* A fork has one more: the next on the way to its base. */
	while (base > message) {
		rc = node_get(s, base, &n, e);
		if (rc <= 0)
			return rc < 0 ? -1 : broken_chain(s, base, e);
		if (n.parent == message && n.session != session)
			inherited = base;
		base = n.parent;
	}
	st = db_query(&s->db, e, "SELECT id FROM message WHERE session=?1 AND parent=?2 ORDER BY id", "ii", session, message);
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

/* ---- forks ---- */

static int do_fork(struct store *s, void *arg, struct err *e)
{
	struct making *m = arg;
	struct node n = {0};
	int64_t head, from = m->from;
	int rc = db_find(&s->db, e, &head, "SELECT head FROM session WHERE id=?1", "i", from);

	if (rc <= 0)
		return rc < 0 ? -1 : no_session(e, from);
	if (m->name && name_free(s, m->name, 0, e))
		return -1;
	if (!m->at)
		m->at = head;
	if (m->at) {
		rc = message_visible(s, from, m->at, e);
		if (rc <= 0)
			return rc < 0 ? -1 : no_message(e, from, m->at);
		if (node_get(s, m->at, &n, e) < 0)
			return -1;
	}
	if (db_run(&s->db, e, "INSERT INTO session(head, base, parent, created, used, turn, messages, tokens, name, title, model, kv)"
	           " SELECT ?2, ?2, id, ?3, ?3, " NEXT_TURN ", ?4, CASE WHEN head=?2 THEN tokens ELSE 0 END, ?5, title, model, kv"
	           " FROM session WHERE id=?1", "iiiit", from, m->at, store_now(), (int64_t)small(n.depth), m->name))
		return -1;
	m->id = sqlite3_last_insert_rowid(s->db.h);
	if (db_run(&s->db, e, "INSERT INTO setting SELECT ?2, key, value FROM setting WHERE session=?1", "ii", from, m->id))
		return -1;
	/* Documents that had come by then. */
	return db_run(&s->db, e, "INSERT INTO document(session, content, bytes, at, after, name)"
	              " SELECT ?2, content, bytes, at, after, name FROM document WHERE session=?1 AND after IN"
	              " (WITH RECURSIVE up(id) AS (SELECT ?3 UNION SELECT m.parent FROM up JOIN message m ON m.id=up.id"
	              " WHERE m.parent<m.id) SELECT id FROM up UNION SELECT 0) ORDER BY id", "iii", from, m->id, m->at);
}

int session_fork(struct store *s, int64_t id, int64_t at, const char *name, int64_t *new_id, struct err *e)
{
	struct making m = {.from = id, .at = at, .name = name && *name ? name : NULL};

	if ((m.name && name_ok(m.name, e)) || store_change(s, do_fork, &m, e))
		return -1;
	*new_id = m.id;
	return 0;
}

/* ---- deleting ---- */

/* From a fork's base to the beginning: what is gone's passes to the fork.  What another fork was asked about is done. */
static int keep_way(struct store *s, int64_t gone, int64_t fork, int64_t base, struct err *e)
{
	struct node n;

	for (int64_t id = base; id; id = n.parent) {
		int rc = node_get(s, id, &n, e);
		if (rc <= 0)
			return rc < 0 ? -1 : broken_chain(s, id, e);
		if (db_run(&s->db, e, "INSERT OR IGNORE INTO temp.kept VALUES(?1)", "i", id))
			return -1;
		if (!sqlite3_changes(s->db.h))
			return 0;
		if (n.session == gone && db_run(&s->db, e, "UPDATE message SET session=?2 WHERE id=?1", "ii", id, fork))
			return -1;
	}
	return 0;
}

static int keep_shown(struct store *s, int64_t gone, struct err *e)
{
	sqlite3_stmt *st;
	int rc;

	if (db_run(&s->db, e, "DELETE FROM temp.kept", ""))
		return -1;
	st = db_query(&s->db, e, "SELECT id, base FROM session WHERE base<>0 AND id<>?1 ORDER BY id", "i", gone);
	rc = st ? 1 : -1;
	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0)
		if (keep_way(s, gone, sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1), e))
			rc = -1;
	db_put(&s->db, st);
	return rc;
}

static int unindex(struct store *s, int64_t session, int *removed, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT id, text FROM message WHERE session=?1", "i", session);
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0) {
		size_t n;
		const char *text = bytes_at(st, 1, 0, &n);
		*removed = 1;
		if (index_remove(s, sqlite3_column_int64(st, 0), text, n, e))
			rc = -1;
	}
	db_put(&s->db, st);
	return rc;
}

static int do_delete(struct store *s, void *arg, struct err *e)
{
	int64_t id = *(int64_t *)arg;
	int removed = 0;

	if (session_exists(s, id, e) || keep_shown(s, id, e) || unindex(s, id, &removed, e))
		return -1;
	if (removed && (db_run(&s->db, e, "DELETE FROM message WHERE session=?1", "i", id) || index_purge(s, e)))
		return -1;
	if (db_run(&s->db, e, "DELETE FROM setting WHERE session=?1", "i", id) || documents_drop(s, id, e) ||
	    db_run(&s->db, e, "UPDATE session SET parent=0 WHERE parent=?1", "i", id))
		return -1;
	return db_run(&s->db, e, "DELETE FROM session WHERE id=?1", "i", id);
}

int session_delete(struct store *s, int64_t id, struct err *e)
{
	char vacuum[60];

	if (store_change(s, do_delete, &id, e))
		return -1;
	/* It is gone; what follows only takes its traces from the files, and what fails here is done when the store is closed. */
	store_drop_copies(s);
	snprintf(vacuum, sizeof vacuum, "PRAGMA incremental_vacuum(%d)", VACUUM_PAGES);
	sqlite3_exec(s->db.h, vacuum, NULL, NULL, NULL);
	sqlite3_wal_checkpoint_v2(s->db.h, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	return 0;
}
