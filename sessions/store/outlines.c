/* sessions/store/outlines.c - stores the marks of documents: offsets and labels of pages and headings.
 *
 * A mark is stored as one line: its kind, the byte offset in the text, a blank, and its label. The kind is 'p' for a
 * page, 'r' for a recognised page, or a digit for a heading's level. If several documents have the same text, the marks
 * that were stored first are kept. If a row is damaged, the caller finds the marks in the text again. */
#include "sessions/store/store_private.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

static int64_t outline_sum(int64_t type, int64_t bytes, const void *marks, size_t n)
{
	int64_t head[2] = { type, bytes };

	return pair_sum(head, sizeof head, marks, n);
}

int outline_sum_ok(sqlite3_stmt *st, int first)
{
	size_t n;
	const void *marks = db_bytes(st, first + 3, 1, &n);

	return outline_sum(sqlite3_column_int64(st, first), sqlite3_column_int64(st, first + 1), marks, n) ==
	       sqlite3_column_int64(st, first + 2);
}

static void write_marks(const struct stored_document *d, struct str *out)
{
	for (size_t i = 0; i < d->n_mark; i++) {
		const struct mark *m = &d->mark[i];
		const char *text = m->text ? m->text : "";
		int level = m->level < 1 ? 1 : MIN(6, m->level);

		if (m->kind == MARK_PARAGRAPH)
			continue;
		if (m->kind == MARK_PAGE)
			str_adds(out, m->level == PAGE_RECOGNISED ? "r" : "p");
		else
			str_addf(out, "%d", level);
		str_addf(out, "%zu ", m->at);
		str_add(out, text, strcspn(text, "\n"));
		str_adds(out, "\n");
	}
}

int outline_put(struct store *s, int64_t content, const struct stored_document *d, struct err *e)
{
	struct str marks = { 0 };
	int64_t type = (int64_t)d->type, bytes = (int64_t)d->n_text;
	int rc;

	write_marks(d, &marks);
	if (!marks.p)
		str_adds(&marks, "");
	rc = db_run(
		&s->db, e,
		"INSERT INTO outline(content, type, bytes, sum, marks) VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT(content)"
		" DO UPDATE SET type=?2, bytes=?3, sum=?4, marks=?5 WHERE length(marks)=0",
		"iiiib", content, type, bytes, outline_sum(type, bytes, marks.p, marks.n), (const void *)marks.p,
		marks.n);
	str_free(&marks);
	return rc;
}

/* Parse the line p[n] into *m. *text receives the offset in the line of the page label or heading. Returns 1, or 0 if
 * the line is not a mark. */
static int read_mark(const char *p, size_t n, struct mark *m, size_t *text)
{
	size_t i = 1;

	if (n < 3 || (*p != 'p' && *p != 'r' && (*p < '1' || *p > '6')))
		return 0;
	*m = (struct mark){ .kind = MARK_HEADING, .level = *p - '0' };
	if (*p == 'p' || *p == 'r')
		*m = (struct mark){ .kind = MARK_PAGE, .level = *p == 'r' ? PAGE_RECOGNISED : PAGE_TEXT };
	for (; i < n && byte_is_digit(p[i]) && m->at < (size_t)1 << 40; i++)
		m->at = m->at * 10 + (size_t)(p[i] - '0');
	*text = i + 1;
	return i > 1 && i < n && p[i] == ' ';
}

int outline_get(sqlite3_stmt *st, int first, size_t n_text, struct stored_document *d, struct mark **out)
{
	size_t n, n_mark = 0, cap = 0;
	const char *p = db_bytes(st, first + 3, 1, &n);
	int64_t type = sqlite3_column_int64(st, first);
	struct mark *mark = NULL;
	int whole = outline_sum_ok(st, first) && sqlite3_column_int64(st, first + 1) == (int64_t)n_text && type >= 0 &&
	            type < DOC_TYPES && type != DOC_GZIP;

	while (whole && n) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl ? (size_t)(nl - p) : n, text;
		struct mark m;

		whole = nl && read_mark(p, len, &m, &text) && m.at <= n_text &&
		        (!n_mark || m.at >= mark[n_mark - 1].at);
		if (!whole)
			break;
		GROW(mark, n_mark, cap);
		m.text = xstrndup(p + text, len - text);
		mark[n_mark++] = m;
		p += len + 1;
		n -= len + 1;
	}
	if (!whole) {
		marks_free(mark, n_mark);
		return -1;
	}
	d->type = (enum doc_type)type;
	d->mark = *out = mark;
	d->n_mark = n_mark;
	return 0;
}

int32_t outline_pages(sqlite3_stmt *st, int first)
{
	size_t n;
	const char *p = db_bytes(st, first + 3, 1, &n), *nl;
	int32_t pages = 0;

	for (; n && (nl = memchr(p, '\n', n)); n -= (size_t)(nl + 1 - p), p = nl + 1)
		pages += *p == 'p';
	return pages;
}
