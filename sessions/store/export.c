/* sessions/store/export.c - writes the messages that a session shows as Markdown, text or JSON.
 *
 * Text is written as it is stored: the caller must remove control characters before the text reaches a terminal. */
#include "sessions/store/store_private.h"

#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

struct exporting {
	struct store *s;
	int64_t session;
	enum export_format format;
	export_more_fn *more;
	struct str *out;
	int n;
	int64_t *shown;
	size_t n_shown; /* number of message ids in shown[], which has the messages of the branch in order */
};

static const char *const role_key[] = { "system", "user", "assistant" };
static const char *const role_name[] = { "System", "Question", "Answer" };

static void add_lines(struct str *out, const char *text, size_t n)
{
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	str_add(out, text, n);
	str_adds(out, "\n");
}

/* Append the text that x->more() returns for a message. In Markdown, the lines of this text become a list. */
static void add_more(const struct exporting *x, const struct stored_message *m)
{
	struct str lines = { 0 };

	if (x->more)
		x->more(m->role, m->stats, 0, &lines);
	for (const char *p = str_text(&lines), *end; *p; p = end + (*end != 0)) {
		end = p + strcspn(p, "\n");
		str_addf(x->out, "%s%s%.*s\n", p == lines.p ? "\n" : "", x->format == EXPORT_MARKDOWN ? "- " : "",
		         (int)(end - p), p);
	}
	str_free(&lines);
}

static int one_message(const struct stored_message *m, void *ud)
{
	struct exporting *x = ud;
	struct str *out = x->out;
	const char *cut = m->complete ? "" : " (incomplete)";

	switch (x->format) {
	case EXPORT_JSON:
		str_addf(out, "%s{\"role\":\"%s\",\"text\":", x->n ? "," : "", role_key[m->role]);
		str_add_json(out, m->text, m->n_text);
		str_adds(out, ",\"tokens\":[");
		for (size_t i = 0; i < m->n_token; i++)
			str_addf(out, "%s%d", i ? "," : "", (int)m->token[i]);
		str_adds(out, m->complete ? "]" : "],\"complete\":false");
		str_addf(out, ",\"at\":%lld", (long long)m->at);
		if (x->more)
			x->more(m->role, m->stats, 1, out);
		str_adds(out, "}");
		break;
	case EXPORT_MARKDOWN:
		str_addf(out, "\n## %s%s\n\n", role_name[m->role], cut);
		add_lines(out, m->text, m->n_text);
		add_more(x, m);
		break;
	case EXPORT_TEXT:
		str_addf(out, "%s%s%s:\n", x->n ? "\n" : "", role_name[m->role], cut);
		add_lines(out, m->text, m->n_text);
		add_more(x, m);
		break;
	}
	x->n++;
	return 0;
}

/* Append names and sizes of the documents. Their texts are not read: a damaged text must not prevent the export. */
static int list_documents(struct store *s, int64_t session, struct str *out, struct err *e)
{
	sqlite3_stmt *st =
		db_query(&s->db, e, "SELECT name, bytes FROM document WHERE session=?1 ORDER BY id", "i", session);
	const char *head = "\nDocuments:\n\n";
	int rc = st ? 1 : -1;

	while (rc > 0 && (rc = db_step(&s->db, st, e)) > 0) {
		size_t n;
		const char *name = db_bytes(st, 0, 1, &n);
		char text[300];
		text_escape(text, sizeof text, name, n);
		str_addf(out, "%s- %s (%lld bytes)\n", head, text, (long long)sqlite3_column_int64(st, 1));
		head = "";
	}
	db_put(&s->db, st);
	return rc;
}

/* ---- JSON: the complete session, so that another store can import it ---- */

static int note_shown(const struct stored_message *m, void *ud)
{
	struct exporting *x = ud;

	x->shown = xrealloc(x->shown, (x->n_shown + 1) * sizeof *x->shown);
	x->shown[x->n_shown++] = m->id;
	return 0;
}

static int is_text(const char *p, size_t n)
{
	int32_t cp = 0;

	for (size_t i = 0; i < n && cp >= 0;)
		i += (size_t)utf8_decode(p + i, n - i, &cp);
	return cp >= 0;
}

/* Append a setting. But leave it out if its value is damaged or binary (the state of the random generator). */
static int one_setting(const char *key, const void *value, size_t n, int whole, void *ud)
{
	struct exporting *x = ud;

	if (!whole || !is_text(value, n))
		return 0;
	str_adds(x->out, x->n++ ? "," : "");
	str_add_json(x->out, key, strlen(key));
	str_adds(x->out, ":");
	str_add_json(x->out, value, n);
	return 0;
}

static void add_marks(const struct stored_document *d, struct str *out)
{
	str_adds(out, ",\"marks\":[");
	for (size_t i = 0; i < d->n_mark; i++) {
		const struct mark *m = &d->mark[i];

		str_addf(out, "%s{\"kind\":\"%s\",\"at\":%zu,\"text\":", i ? "," : "",
		         m->kind == MARK_PAGE ? "page" : "heading", m->at);
		str_add_json(out, m->text ? m->text : "", m->text ? strlen(m->text) : 0);
		if (m->kind == MARK_HEADING || m->level == PAGE_RECOGNISED)
			str_addf(out, ",\"level\":%d", m->level);
		str_adds(out, "}");
	}
	str_adds(out, "]");
}

/* Append the documents. Member "after" is the number of the shown messages before the document. Member "text" is null
 * if the text is lost. */
static int add_documents(struct exporting *x, struct err *e)
{
	sqlite3_stmt *st = db_query(
		&x->s->db, e,
		"SELECT d.name, d.bytes, d.after, c.text, o.type, o.bytes, o.sum, o.marks FROM document d"
		" LEFT JOIN content c ON c.id=d.content LEFT JOIN outline o ON o.content=d.content WHERE d.session=?1"
		" ORDER BY d.id",
		"i", x->session);
	int rc = st ? 1 : -1;

	for (x->n = 0; rc > 0 && (rc = db_step(&x->s->db, st, e)) > 0; x->n++) {
		struct stored_document d = { .after = sqlite3_column_int64(st, 2) };
		struct mark *mark = NULL;
		size_t n, after = 0;
		const char *name = db_bytes(st, 0, 1, &n);

		str_adds(x->out, x->n ? ",{\"name\":" : "{\"name\":");
		str_add_json(x->out, name, n);
		d.text = db_bytes(st, 3, 0, &d.n_text);
		if (sqlite3_column_type(st, 4) != SQLITE_NULL)
			outline_get(st, 4, d.n_text, &d, &mark);
		for (size_t i = 0; d.after && i < x->n_shown; i++)
			if (x->shown[i] == d.after)
				after = i + 1;
		str_addf(x->out, ",\"type\":\"%s\",\"bytes\":%lld,\"after\":%zu,\"text\":", doc_type_name[d.type],
		         (long long)sqlite3_column_int64(st, 1), after);
		if (sqlite3_column_type(st, 3) == SQLITE_NULL)
			str_adds(x->out, "null");
		else
			str_add_json(x->out, d.text, d.n_text);
		add_marks(&d, x->out);
		str_adds(x->out, "}");
		marks_free(mark, d.n_mark);
	}
	db_put(&x->s->db, st);
	return rc;
}

static int begin_json(struct exporting *x, const struct session *row, struct err *e)
{
	struct str *out = x->out;

	str_adds(out, "{\"name\":");
	str_add_json(out, row->name, strlen(row->name));
	str_adds(out, ",\"model\":");
	str_add_json(out, row->model, strlen(row->model));
	str_adds(out, ",\"kv\":");
	str_add_json(out, row->kv, strlen(row->kv));
	str_adds(out, ",\"settings\":{");
	if ((row->head && message_path(x->s, row->head, note_shown, x, e)) ||
	    session_settings(x->s, x->session, one_setting, x, e))
		return -1;
	str_adds(out, "},\"documents\":[");
	if (add_documents(x, e))
		return -1;
	str_adds(out, "],\"messages\":[");
	x->n = 0;
	return 0;
}

/* Append the title as one line. */
static void add_title(struct str *out, const struct session *row)
{
	char text[300];

	if (!*row->name && !*row->title) {
		str_addf(out, "Session %lld", (long long)row->id);
		return;
	}
	text_escape(text, sizeof text, *row->name ? row->name : row->title,
	            strlen(*row->name ? row->name : row->title));
	str_adds(out, text);
}

int session_export(struct store *s, int64_t id, enum export_format format, export_more_fn *more, struct str *out,
                   struct err *e)
{
	struct exporting x = { .s = s, .session = id, .format = format, .more = more, .out = out };
	struct session row;
	char text[300];
	int64_t head;
	int rc = 0;

	str_clear(out);
	if (session_get(s, id, &row, e))
		return -1;
	head = row.head;
	switch (format) {
	case EXPORT_JSON: rc = begin_json(&x, &row, e); break;
	case EXPORT_MARKDOWN:
		str_adds(out, "# ");
		add_title(out, &row);
		str_adds(out, "\n");
		if (*row.model) {
			text_escape(text, sizeof text, row.model, strlen(row.model));
			str_addf(out, "\nModel: %s\n", text);
		}
		rc = list_documents(s, id, out, e);
		break;
	case EXPORT_TEXT: break;
	default: return err_set(e, ERR_USAGE, "there is no export format %d", (int)format);
	}
	free(x.shown);
	if (rc || message_path(s, head, one_message, &x, e))
		return -1;
	if (format == EXPORT_JSON)
		str_adds(out, "]}\n");
	return 0;
}
