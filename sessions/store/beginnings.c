/* sessions/store/beginnings.c - stores the common beginning of long questions once (store_private.h).
 *
 * Two questions with the same parent message often begin with the same bytes. The later question may be an edited
 * version of the earlier one. Or both are about the same text, and the later one was asked before the prefill of the
 * text had finished. The row of the later question stores a reference instead of the common bytes, such as "the first 2
 * MB of message 7", and then its own bytes.
 *
 * A message refers only to a smaller message id, so every chain of references ends. The search index contains only the
 * bytes in a message's own row, so a word in the common beginning is found once. */
#include "sessions/store/store_private.h"

#include "engine/engine_chat.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
	SHARED_LEAST = 4096, /* minimum number of common bytes; if there are fewer, the whole text is stored */
	/* a common prefix is truncated after its last blank if one of its last WORD_MOST bytes is a blank */
	WORD_MOST = 64,
};

static int beginning_lost(struct store *s, int64_t message, struct err *e)
{
	return err_set(e, ERR_FAIL,
	               "'%s/" CHAT_FILE "' is damaged: the beginning of message %lld is lost; "
	               "'weir sessions check' says more",
	               s->dir, (long long)message);
}

/* Read the part of a message's text that is in the message's own row, and copy each byte to its offset in out[]. Bytes
 * from offset `bytes` on are not copied. *rest receives which other row stores the bytes before this part. Returns 1; 0
 * if bytes are lost; -1 on error. */
static int own_part(struct store *s, int64_t id, size_t bytes, char *out, struct beginning *rest, struct err *e)
{
	sqlite3_stmt *st =
		db_query(&s->db, e, "SELECT text, beginning, beginning_bytes FROM message WHERE id=?1", "i", id);
	int rc = st ? db_step(&s->db, st, e) : -1;

	if (rc > 0) {
		size_t n;
		const char *own = db_bytes(st, 0, 0, &n);
		int64_t of = sqlite3_column_int64(st, 1), before = sqlite3_column_int64(st, 2);

		if (of < 0 || of >= id || before < 0 || before > DB_VALUE_MAX || (!of && before) ||
		    (uint64_t)before + n < bytes) {
			rc = 0;
		} else {
			*rest = (struct beginning){ of, (size_t)before < bytes ? (size_t)before : bytes };
			memcpy(out + rest->bytes, own, bytes - rest->bytes);
		}
	}
	db_put(&s->db, st);
	return rc;
}

/* Read the first b->bytes bytes of a message's text into out[]. They are stored in the row of message b->of. This row
 * may store only the last of these bytes, and refer to another message for the bytes before them. Such references are
 * followed. */
static int beginning_read(struct store *s, const struct beginning *b, int64_t message, char *out, struct err *e)
{
	struct beginning at = *b, rest;

	for (int64_t before = message; at.bytes; before = at.of, at = rest) {
		int rc = at.of > 0 && at.of < before ? own_part(s, at.of, at.bytes, out, &rest, e) : 0;

		if (rc <= 0)
			return rc < 0 ? -1 : beginning_lost(s, message, e);
	}
	return 0;
}

int beginning_add(struct store *s, int64_t id, int64_t of, int64_t bytes, char **whole, const char **text, size_t *n,
                  struct err *e)
{
	struct beginning b = { of, (size_t)bytes };
	char *p;

	if (bytes < 0 || bytes > DB_VALUE_MAX)
		return beginning_lost(s, id, e);
	p = try_alloc(b.bytes + *n + 1, 1, "the text of a message", e);
	if (!p || beginning_read(s, &b, id, p, e)) {
		free(p);
		return -1;
	}
	memcpy(p + b.bytes, *text, *n);
	*n += b.bytes;
	p[*n] = 0;
	free(*whole);
	*text = *whole = p;
	return 0;
}

/* Return the length of the common prefix of texts `a` and `b`. The prefix ends between two characters. If one of its
 * last WORD_MOST bytes is a blank, it ends between two words. */
static size_t common_prefix(const char *a, size_t n_a, const char *b, size_t n_b)
{
	size_t n = 0, word;

	while (n < n_a && n < n_b && a[n] == b[n])
		n++;
	while (n && n < n_b && utf8_continues(b[n]))
		n--;
	for (word = n; word && n - word < WORD_MOST; word--)
		if (b[word - 1] == ' ' || b[word - 1] == '\n')
			return word;
	return n;
}

int beginning_find(struct store *s, int64_t session, const struct stored_message *m, struct beginning *out,
                   struct err *e)
{
	sqlite3_stmt *st;
	char *whole = NULL;
	int rc;

	*out = (struct beginning){ 0 };
	if (m->role != ROLE_USER || m->n_text < SHARED_LEAST)
		return 0;
	st = db_query(
		&s->db, e,
		"SELECT id, text, beginning, beginning_bytes FROM message WHERE session=?1 AND parent=?2 AND role=?3"
		" ORDER BY id DESC LIMIT 1",
		"iii", session, m->parent, (int64_t)ROLE_USER);
	rc = st ? db_step(&s->db, st, e) : -1;
	if (rc > 0) {
		int64_t id = sqlite3_column_int64(st, 0), of = sqlite3_column_int64(st, 2),
			bytes = sqlite3_column_int64(st, 3);
		struct err damaged = { 0 };
		size_t n;
		const char *text = db_bytes(st, 1, 0, &n);

		/* If the earlier question's text is damaged, store the whole text of the new question. */
		if (of && beginning_add(s, id, of, bytes, &whole, &text, &n, &damaged))
			n = 0;
		n = common_prefix(text, n, m->text, m->n_text);
		if (n >= SHARED_LEAST)
			*out = (struct beginning){ of && n <= (uint64_t)bytes ? of : id, n };
		rc = 0;
	}
	db_put(&s->db, st);
	free(whole);
	return rc;
}

/* Store the whole text of message `id` in its own row. */
static int make_whole(struct store *s, int64_t id, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e,
	                            "SELECT text, beginning, beginning_bytes, role, complete, token, stats FROM message"
	                            " WHERE id=?1",
	                            "i", id);
	int rc = st ? db_step(&s->db, st, e) : -1;
	char *whole = NULL;

	if (rc > 0) {
		size_t n_own, n;
		const char *own = db_bytes(st, 0, 0, &n_own), *text = own;
		int64_t sum;

		n = n_own;
		rc = beginning_add(s, id, sqlite3_column_int64(st, 1), sqlite3_column_int64(st, 2), &whole, &text, &n,
		                   e);
		if (!rc)
			rc = index_remove(s, id, own, n_own, e);
		sum = rc ? 0 : message_sum_whole(st, 3, text, n);
		db_put(&s->db, st);
		st = NULL;
		if (!rc)
			rc = db_run(&s->db, e,
			            "UPDATE message SET text=?2, beginning=0, beginning_bytes=0, sum=?3 WHERE id=?1",
			            "isi", id, text, n, sum);
		if (!rc)
			rc = index_add(s, id, text, n, e);
	}
	db_put(&s->db, st);
	free(whole);
	return rc;
}

int beginnings_keep(struct store *s, int64_t deleted, struct err *e)
{
	int64_t id;
	int rc;

	while ((rc = db_find(&s->db, e, &id,
	                     "SELECT id FROM message WHERE beginning<>0 AND session<>?1 AND beginning IN"
	                     " (SELECT id FROM message WHERE session=?1) ORDER BY id LIMIT 1",
	                     "i", deleted)) > 0)
		if (make_whole(s, id, e) < 0)
			return -1;
	return rc;
}
