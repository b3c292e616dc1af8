/* ui/transcript/transcript_layout.c - the number of rows of each entry: exact for visible entries, estimated for
 * others. */
#include "ui/transcript/transcript_private.h"

void transcript_anew(struct transcript *t)
{
	t->stamp++;
	t->dirty = 1;
}

void transcript_ascii(struct transcript *t, int on)
{
	t->ascii = on;
	transcript_anew(t);
}

int transcript_is_raw(const struct transcript *t)
{
	return t->raw;
}

static size_t text_end(const struct transcript *t, const struct entry *e)
{
	size_t n = e->clean.n;

	if ((e->role != UI_ASSISTANT || t->raw) && !e->more)
		while (n && (e->clean.p[n - 1] == '\n' || e->clean.p[n - 1] == ' '))
			n--;
	return n;
}

void entry_lay_out(struct transcript *t, struct entry *e)
{
	size_t n = text_end(t, e);
	const char *text = str_text(&e->clean);
	unsigned style = e->role == UI_USER     ? ST_QUESTION
	                 : e->role == UI_NOTICE ? ST_NOTICE
	                 : e->role == UI_ERROR  ? ST_ERROR
	                                        : ST_TEXT;

	if (e->laid == t->stamp && e->laid_n == n)
		return;
	if (e->laid != t->stamp) {
		lines_clear(&e->lines);
		lines_clear(&e->note_lines);
		e->lines.ascii = t->ascii;
		e->growth = (struct growth){ 0 };
		if (e->part && e->role == UI_ASSISTANT && !t->raw)
			e->growth = (struct growth){
				.begun = 1, .any = 1, .fence = e->from.fence, .colours = e->from.colours
			};
		if (e->note.n)
			lines_plain(&e->note_lines, e->note.p, e->note.n, t->w, ST_FAINT);
	}
	t->work += n - MIN(e->growth.done, n);
	if (e->role == UI_ASSISTANT && !t->raw)
		lines_grow_markdown(&e->lines, &e->growth, text, n, t->w);
	else
		lines_grow_plain(&e->lines, &e->growth, text, n, t->w - (e->role == UI_USER ? MARK_COLS : 0), style);
	e->laid = e->counted = t->stamp;
	e->laid_n = n;
	e->rows = e->lines.n_line;
	if (!e->rows && e->role == UI_USER && !e->part)
		e->rows = 1;
	e->note_rows = e->note_lines.n_line;
}

size_t entry_open_rows(const struct transcript *t, const struct entry *e)
{
	if (e->counted == t->stamp)
		return e->rows + e->note_rows;
	return e->newlines + 1 + e->clean.n / (size_t)(MAX(t->w, 4)) + (e->note.n > 0);
}

/* 1 if an empty row follows entry i. No empty row follows in these cases:
 * - the entry is the last one;
 * - it is an answer that has neither text nor a note;
 * - it is a notice of one line, and another notice follows that is not an echoed command;
 * - it is a part of a long text, and the next part continues it without an empty line. */
static int has_gap(const struct transcript *t, size_t i)
{
	const struct entry *e = &t->entry[i], *next = e + 1;

	if (i + 1 >= t->n)
		return 0;
	if (e->more)
		return e->gap && !e->folded && !t->raw;
	if (e->role == UI_NOTICE && next->role == UI_NOTICE && !e->newlines && !e->part)
		return next->clean.n && next->clean.p[0] == '/';
	return e->role != UI_ASSISTANT || e->clean.n || e->note.n;
}

size_t entry_rows(const struct transcript *t, size_t i)
{
	const struct entry *e = &t->entry[i];

	return (e->folded ? !e->part : entry_open_rows(t, e)) + (size_t)has_gap(t, i);
}

size_t entry_rows_laid(struct transcript *t, size_t i)
{
	if (!t->entry[i].folded || !t->entry[i].part)
		entry_lay_out(t, &t->entry[i]);
	return entry_rows(t, i);
}
