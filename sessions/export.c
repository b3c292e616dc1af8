/* sessions/export.c - the branch that a session shows, as a file for people or programs.
 *
 * Text goes out as it is stored.  Whoever writes it to a terminal cleans it first, as with everything else. */
#include "sessions/store.h"

#include "engine/engine.h"

#include <string.h>

struct exporting {
	enum export_format format;
	struct str *out;
	int n;
};

static const char *const role_key[] = {"system", "user", "assistant"};
static const char *const role_name[] = {"System", "Question", "Answer"};

static void add_lines(struct str *out, const char *text, size_t n)
{
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	str_add(out, text, n);
	str_adds(out, "\n");
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
		str_adds(out, "]}");
		break;
	case EXPORT_MARKDOWN:
		str_addf(out, "\n## %s%s\n\n", role_name[m->role], cut);
		add_lines(out, m->text, m->n_text);
		break;
	case EXPORT_TEXT:
		str_addf(out, "%s%s%s:\n", x->n ? "\n" : "", role_name[m->role], cut);
		add_lines(out, m->text, m->n_text);
		break;
	}
	x->n++;
	return 0;
}

/* Names alone: a lost text must not prevent the export. */
static int add_documents(struct store *s, int64_t session, struct str *out, struct err *e)
{
	sqlite3_stmt *st = db_query(&s->db, e, "SELECT name, bytes FROM document WHERE session=?1 ORDER BY id", "i", session);
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

/* A line in a heading has no line ends. */
static void add_title(struct str *out, const struct session *row)
{
	char text[300];

	if (!*row->name && !*row->title) {
		str_addf(out, "Session %lld", (long long)row->id);
		return;
	}
	text_escape(text, sizeof text, *row->name ? row->name : row->title, strlen(*row->name ? row->name : row->title));
	str_adds(out, text);
}

int session_export(struct store *s, int64_t id, enum export_format format, struct str *out, struct err *e)
{
	struct exporting x = {format, out, 0};
	struct session row;
	char text[300];

	str_clear(out);
	if (session_get(s, id, &row, e))
		return -1;
	switch (format) {
	case EXPORT_JSON:
		str_adds(out, "{\"name\":");
		str_add_json(out, row.name, strlen(row.name));
		str_adds(out, ",\"model\":");
		str_add_json(out, row.model, strlen(row.model));
		str_adds(out, ",\"kv\":");
		str_add_json(out, row.kv, strlen(row.kv));
		str_adds(out, ",\"messages\":[");
		break;
	case EXPORT_MARKDOWN:
		str_adds(out, "# ");
		add_title(out, &row);
		str_adds(out, "\n");
		if (*row.model) {
			text_escape(text, sizeof text, row.model, strlen(row.model));
			str_addf(out, "\nModel: %s\n", text);
		}
		if (add_documents(s, id, out, e))
			return -1;
		break;
	case EXPORT_TEXT:
		break;
	default:
		return err_set(e, ERR_USAGE, "there is no export format %d", (int)format);
	}
	if (message_path(s, row.head, one_message, &x, e))
		return -1;
	if (format == EXPORT_JSON)
		str_adds(out, "]}\n");
	return 0;
}
