/* ui/transcript.c - messages, notices and errors below each other: kept, laid out, drawn, moved through.
 *
 * Only what is seen is laid out, and kept so until the width changes or there is too much of it; the rows of entries never seen are
 * guessed for percent and "lines below".  Long texts are kept in parts, for that.  While an answer grows only its unfinished end is laid out anew (struct growth).  A position is
 * an entry and a byte of its text, so it holds through resizes and while text comes.
 *
 * An entry's rows: its text, a faint note, and an empty row unless it is the last one or goes on in another part. */
#include "ui/transcript_private.h"

#include "ui/lines.h"

#include <stdlib.h>
#include <string.h>

#define MARK_COLS 2                       /* "> " before a question */
#define LAID_MOST ((size_t)32 << 20)      /* bytes of text in laid-out lines; beyond, those far from the screen go */

/* ---- entries ---- */

struct transcript *transcript_new(void)
{
	struct transcript *t = xcalloc(1, sizeof *t);

	t->w = 80;
	t->h = 24;
	t->follow = t->dirty = 1;
	t->stamp = 1;
	t->part_most = PART_MOST;
	t->jumped = SIZE_MAX;
	return t;
}

static void drop_lens(struct entry *e)
{
	free(e->lens);
	free(e->kept);
	e->lens = NULL;
	e->kept = NULL;
	e->n_lens = e->n_kept = 0;
	e->lens_fits = 0;
}

static void drop_lines(struct entry *e)
{
	lines_free(&e->lines);
	lines_free(&e->note_lines);
	e->laid = 0;
}

void transcript_clear(struct transcript *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct entry *e = &t->entry[i];
		str_free(&e->raw);
		str_free(&e->clean);
		str_free(&e->note);
		drop_lines(e);
		drop_lens(e);
	}
	t->n = t->n_message = 0;
	t->top = t->line = 0;
	t->follow = t->dirty = 1;
	t->jumped = SIZE_MAX;
	find_reset(&t->find);
}

void transcript_free(struct transcript *t)
{
	if (!t)
		return;
	transcript_clear(t);
	find_free(&t->find);
	free(t->entry);
	free(t->message);
	free(t);
}

/* n bytes more of the entry's clean text from where it was. */
static void count_newlines(struct entry *e, size_t from)
{
	const char *p = e->clean.p + from, *end = e->clean.p + e->clean.n;

	while (e->clean.n && p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
		e->newlines++;
		p++;
	}
}

static void take(struct entry *e, const char *text, size_t n)
{
	size_t from = e->clean.n;

	str_add(&e->raw, text, n);
	clean_text(&e->state, text, n, &e->clean);
	count_newlines(e, from);
	e->lens_fits = 0;
}

static struct entry *new_entry(struct transcript *t, enum ui_role role)
{
	if (t->n == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 64;
		t->entry = xrealloc(t->entry, t->cap * sizeof *t->entry);
	}
	t->entry[t->n] = (struct entry){ .role = role };
	return &t->entry[t->n++];
}

/* ---- parts of long texts ---- */

size_t entry_first(const struct transcript *t, size_t entry)
{
	while (entry && t->entry[entry].part)
		entry--;
	return entry;
}

void entry_fold(struct transcript *t, size_t entry, int folded)
{
	entry = entry_first(t, entry);
	t->entry[entry].folded = folded != 0;
	while (t->entry[entry].more)
		t->entry[++entry].folded = folded != 0;
}

/* The last part is full: what comes goes into another one. */
static struct entry *next_part(struct transcript *t)
{
	size_t was = t->n - 1;
	struct entry *e = new_entry(t, t->entry[was].role), *last = &t->entry[was];

	last->more = last->ended = 1;
	last->laid = 0;
	e->part = 1;
	e->folded = last->folded;
	e->state = last->state;
	e->from = e->open = last->open;
	return e;
}

/* A line of code, or the end of it. */
static void scan_code(struct open *o, const char *p, const char *end)
{
	unsigned style;

	if (fence_closes(&o->fence, p, end)) {
		o->fence.mark = 0;
		return;
	}
	for (int i = 0; i < o->fence.indent && p < end && *p == ' '; i++)
		p++;
	for (size_t at = 0, n = (size_t)(end - p); at < n; )
		at = code_token(&o->colours, p, n, at, &style);
	code_newline(&o->colours);
}

/* Does the text end with an empty line? */
static int ends_empty(const char *p, size_t n)
{
	int lines = 0;

	while (n && (p[n - 1] == '\n' || p[n - 1] == ' ' || p[n - 1] == '>'))
		lines += p[--n] == '\n';
	return lines > 1;
}

/* Markdown up to e->whole stays as it is whatever follows. */
static void scan_whole(struct entry *e)
{
	const char *text = e->clean.p;
	size_t n = e->clean.n;

	while (e->whole < n) {
		size_t end = line_end(text, n, e->whole), info, info_n;
		int whole, fence;

		if (e->open.fence.mark) {
			if (end == n)
				return;
			scan_code(&e->open, text + e->whole, text + end);
			e->whole = end + 1;
			continue;
		}
		end = piece_end(text, n, e->whole, &whole, &fence);
		if (fence) {
			end = line_end(text, n, e->whole);
			if (end == n)
				return;
			fence_open(&e->open.fence, text, e->whole, end, &info, &info_n);
			code_start(&e->open.colours, text + info, info_n);
			e->whole = end + 1;
		} else if (whole && end > e->whole) {
			e->whole = end;
		} else {
			return;
		}
	}
}

static void mark_line(struct entry *e)
{
	e->line.raw = e->raw.n;
	e->line.clean = e->clean.n;
	e->line.newlines = e->newlines;
	e->line.state = e->state;
	e->line.behind_code = e->whole == e->clean.n;   /* a piece begins here, but not yet its first line */
}

static void cut_to(struct str *s, size_t n)
{
	s->n = n;
	s->p[n] = 0;
}

/* A line has ended.  Returns the entry where the text goes on. */
static struct entry *cut_at_line(struct transcript *t, struct entry *e)
{
	struct str line = {0};

	if (e->role != UI_ASSISTANT)
		return next_part(t);
	scan_whole(e);
	if (e->whole == e->clean.n && e->open.fence.mark)
		return next_part(t);
	if (e->whole != e->line.clean || !e->whole || e->line.behind_code) {
		mark_line(e);
		if (e->raw.n < 2 * t->part_most)
			return e;
		e->gap = (unsigned char)ends_empty(e->clean.p, e->clean.n);   /* a piece without end: more is not waited for */
		return next_part(t);
	}
	/* It was the first one of another piece, which goes with it. */
	str_add(&line, e->raw.p + e->line.raw, e->raw.n - e->line.raw);
	cut_to(&e->raw, e->line.raw);
	cut_to(&e->clean, e->line.clean);
	e->newlines = e->line.newlines;
	e->state = e->line.state;
	e->gap = (unsigned char)ends_empty(e->clean.p, e->clean.n);
	e = next_part(t);
	take(e, line.p, line.n);
	str_free(&line);
	return e;
}

/* Bytes of text that may stand in one entry though no line of it ends: up to a blank, or between two characters. */
static size_t forced(const struct transcript *t, const struct entry *e, const char *text, size_t n)
{
	size_t most = 2 * t->part_most, left = e->raw.n < most ? most - e->raw.n : 1, at;

	if (n <= left)
		return n;
	for (at = left; at > 1 && left - at < 200 && text[at - 1] != ' '; at--)
		;
	if (at > 1 && text[at - 1] == ' ')
		return at;
	for (at = left; at < n && ((unsigned char)text[at] & 0xc0) == 0x80; at++)
		;
	return at;
}

static void more_text(struct transcript *t, const char *text, size_t n)
{
	struct entry *e = &t->entry[t->n - 1];

	t->dirty = 1;
	while (n) {
		size_t least = t->part_most, room = e->raw.n < least ? least - e->raw.n : 0, k = n;
		const char *nl = NULL;

		/* A part is filled, then its last line, then line by line until it can be cut. */
		if (n > room) {
			nl = memchr(text + room, '\n', n - room);
			k = forced(t, e, text, nl ? (size_t)(nl - text) + 1 : n);
			if (nl && k <= (size_t)(nl - text))
				nl = NULL;
		}
		take(e, text, k);
		text += k;
		n -= k;
		if (nl)
			e = cut_at_line(t, e);
		else if (e->raw.n >= 2 * least && n)
			e = next_part(t);
	}
}

static void entry_end(struct transcript *t, struct entry *e)
{
	size_t from = e->clean.n;

	if (e->ended)
		return;
	e->ended = 1;
	clean_end(&e->state, &e->clean);
	count_newlines(e, from);
	t->dirty = 1;
}

size_t transcript_add(struct transcript *t, enum ui_role role, const char *text, size_t n)
{
	struct entry *e;
	size_t number;

	if (t->n)
		entry_end(t, &t->entry[t->n - 1]);
	if (role == UI_USER || role == UI_ASSISTANT) {
		if (t->n_message == t->cap_message) {
			t->cap_message = t->cap_message ? t->cap_message * 2 : 64;
			t->message = xrealloc(t->message, t->cap_message * sizeof *t->message);
		}
		t->message[t->n_message++] = t->n;
	}
	if (t->follow)
		t->jumped = SIZE_MAX;   /* the new one is what is looked at */
	e = new_entry(t, role);
	clean_init(&e->state, t->raw ? CLEAN_SHOW : 0);
	number = t->n - 1;
	more_text(t, text, n);
	t->dirty = 1;
	return number;
}

void transcript_append(struct transcript *t, const char *piece, size_t n)
{
	if (t->n) {
		t->entry[t->n - 1].ended = 0;
		more_text(t, piece, n);
	}
}

void transcript_end(struct transcript *t, const char *note)
{
	struct entry *e = t->n ? &t->entry[t->n - 1] : NULL;

	if (!e)
		return;
	entry_end(t, e);
	str_clear(&e->note);
	if (note)
		clean_line(note, strlen(note), &e->note);
	e->laid = e->counted = 0;
	t->dirty = 1;
}

size_t transcript_count(const struct transcript *t)
{
	return t->n;
}

size_t transcript_messages(const struct transcript *t)
{
	return t->n_message;
}

/* ---- layout ---- */

/* All lines are to be laid out anew, when they are seen. */
static void anew(struct transcript *t)
{
	t->stamp++;
	t->dirty = 1;
}

void transcript_ascii(struct transcript *t, int on)
{
	t->ascii = on;
	anew(t);
}

void transcript_raw(struct transcript *t, int raw)
{
	if (t->raw == !!raw)
		return;
	t->raw = !!raw;
	/* As they came: what is hidden is named, too.  So the clean text is another. */
	for (size_t i = 0; i < t->n; i++) {
		struct entry *e = &t->entry[i];
		str_clear(&e->clean);
		e->newlines = 0;
		e->lens_fits = 0;
		if (e->part)
			e->state = t->entry[i - 1].state;
		else
			clean_init(&e->state, t->raw ? CLEAN_SHOW : 0);
		clean_text(&e->state, e->raw.n ? e->raw.p : "", e->raw.n, &e->clean);
		if (e->ended && !e->more)
			clean_end(&e->state, &e->clean);
		count_newlines(e, 0);
		e->whole = 0;
		e->open = e->from;
		mark_line(e);
	}
	find_reset(&t->find);
	anew(t);
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
	const char *text = e->clean.n ? e->clean.p : "";
	unsigned style = e->role == UI_USER ? ST_QUESTION : e->role == UI_NOTICE ? ST_NOTICE : e->role == UI_ERROR ? ST_ERROR : ST_TEXT;

	if (e->laid == t->stamp && e->laid_n == n)
		return;
	if (e->laid != t->stamp) {
		lines_clear(&e->lines);
		lines_clear(&e->note_lines);
		e->lines.ascii = t->ascii;
		e->growth = (struct growth){0};
		if (e->part && e->role == UI_ASSISTANT && !t->raw)
			e->growth = (struct growth){ .begun = 1, .any = 1, .fence = e->from.fence, .colours = e->from.colours };
		if (e->note.n)
			lines_plain(&e->note_lines, e->note.p, e->note.n, t->w, ST_FAINT);
	}
	t->work += n - (e->growth.done < n ? e->growth.done : n);
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

/* Rows of text and note; a guess where they were never laid out. */
static size_t open_rows(const struct transcript *t, const struct entry *e)
{
	if (e->counted == t->stamp)
		return e->rows + e->note_rows;
	return e->newlines + 1 + e->clean.n / (size_t)(t->w > 4 ? t->w : 4) + (e->note.n > 0);
}

static size_t rows_of(const struct transcript *t, size_t i)
{
	const struct entry *e = &t->entry[i];

	return (e->folded ? !e->part : open_rows(t, e)) + (i + 1 < t->n && (!e->more || (e->gap && !e->folded && !t->raw)));
}

static size_t rows_laid(struct transcript *t, size_t i)
{
	if (!t->entry[i].folded || !t->entry[i].part)
		entry_lay_out(t, &t->entry[i]);
	return rows_of(t, i);
}

/* ---- positions ---- */

int transcript_is_before(size_t entry, size_t line, size_t entry2, size_t line2)
{
	return entry < entry2 || (entry == entry2 && line < line2);
}

void transcript_move(struct transcript *t, size_t *entry, size_t *line, long rows)
{
	while (rows > 0) {
		size_t here = rows_laid(t, *entry);
		if (*line + (size_t)rows < here) {
			*line += (size_t)rows;
			return;
		}
		if (*entry + 1 >= t->n) {
			*line = here ? here - 1 : 0;
			return;
		}
		rows -= here > *line ? (long)(here - *line) : 0;
		++*entry;
		*line = 0;
	}
	while (rows < 0) {
		if (*line >= (size_t)-rows) {
			*line -= (size_t)-rows;
			return;
		}
		rows += (long)*line;
		*line = 0;
		if (!*entry)
			return;
		--*entry;
		*line = rows_laid(t, *entry);
	}
}

void transcript_bottom(struct transcript *t, size_t *entry, size_t *line)
{
	*entry = *line = 0;
	if (!t->n)
		return;
	*entry = t->n - 1;
	*line = rows_laid(t, *entry);
	transcript_move(t, entry, line, -(long)t->h);
}

void transcript_at(struct transcript *t, size_t entry, size_t line)
{
	struct entry *e = &t->entry[entry];

	entry_lay_out(t, e);
	t->follow = 0;
	t->top = entry;
	t->line = line;
	t->pos_stamp = t->stamp;
	t->pos_n = e->laid_n;
	t->behind = line >= e->lines.n_line;
	t->source = t->behind ? (uint32_t)(line - e->lines.n_line) : e->lines.line[line].source;
	t->dirty = 1;
}

/* The line that shows byte `source`. */
static size_t line_of(const struct lines *l, uint32_t source)
{
	size_t lo = 0, hi = l->n_line;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (l->line[mid].source < source)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < l->n_line && l->line[lo].source == source)
		return lo;
	return lo ? lo - 1 : 0;
}

void transcript_settle(struct transcript *t)
{
	struct entry *e;
	size_t rows;

	if (!t->n) {
		t->top = t->line = 0;
		return;
	}
	if (t->follow) {
		transcript_bottom(t, &t->top, &t->line);
		return;
	}
	e = &t->entry[t->top];
	rows = rows_laid(t, t->top);
	if (t->pos_stamp != t->stamp || t->pos_n != e->laid_n) {
		t->line = t->behind ? e->lines.n_line + t->source : line_of(&e->lines, t->source);
		t->pos_stamp = t->stamp;
		t->pos_n = e->laid_n;
	}
	if (t->line >= rows)
		t->line = rows ? rows - 1 : 0;
}

/* Everything can be seen at once. */
static int fits(struct transcript *t)
{
	size_t entry, line;

	transcript_bottom(t, &entry, &line);
	return !entry && !line;
}

void transcript_scroll(struct transcript *t, int lines)
{
	size_t entry, line, end, end_line;

	if (!t->n || !lines)
		return;
	transcript_settle(t);
	t->jumped = SIZE_MAX;
	t->dirty = 1;
	entry = t->top;
	line = t->line;
	transcript_move(t, &entry, &line, lines);
	transcript_bottom(t, &end, &end_line);
	if (lines > 0 ? !transcript_is_before(entry, line, end, end_line) : !end && !end_line)
		t->follow = 1;
	else
		transcript_at(t, entry, line);
}

void transcript_page(struct transcript *t, double pages)
{
	/* A whole page keeps one row, so that the eye finds its place. */
	double rows = pages * (t->h > 2 && (pages == 1 || pages == -1) ? t->h - 1 : t->h);

	if (rows > 1e6 || rows < -1e6)
		rows = rows > 0 ? 1e6 : -1e6;
	if (rows > -1 && rows < 1)
		rows = pages > 0 ? 1 : pages < 0 ? -1 : 0;
	transcript_scroll(t, (int)rows);
}

void transcript_top(struct transcript *t)
{
	if (!t->n)
		return;
	t->jumped = SIZE_MAX;
	t->dirty = 1;
	if (fits(t))
		t->follow = 1;
	else
		transcript_at(t, 0, 0);
}

void transcript_end_follow(struct transcript *t)
{
	t->jumped = SIZE_MAX;
	t->follow = t->dirty = 1;
}

/* Entry + 1, whether behind the text, and the byte or row. */
uint64_t transcript_place(const struct transcript *t)
{
	if (t->follow || !t->n)
		return 0;
	return (uint64_t)(t->top + 1) << 33 | (uint64_t)(t->behind & 1) << 32 | t->source;
}

void transcript_go(struct transcript *t, uint64_t place)
{
	size_t entry = (size_t)(place >> 33);

	if (!place) {
		transcript_end_follow(t);
		return;
	}
	if (entry > t->n)
		return;
	t->top = entry - 1;
	t->behind = place >> 32 & 1;
	t->source = (uint32_t)place;
	t->pos_stamp = 0;
	t->follow = 0;
	t->jumped = SIZE_MAX;
	t->dirty = 1;
}

int transcript_question(struct transcript *t, int step)
{
	size_t i;

	if (!t->n || !step)
		return 0;
	transcript_settle(t);
	if (t->jumped < t->n)
		i = t->jumped;
	else if (t->follow)
		i = t->n;   /* the last one, be it on the screen or not */
	else
		i = t->top + (step < 0 && t->line > 0);
	do {
		if (step < 0 ? i == 0 : i + 1 >= t->n)
			return 0;
		i += step < 0 ? (size_t)-1 : 1;
	} while (t->entry[i].role != UI_USER || t->entry[i].part);
	transcript_at(t, i, 0);
	t->jumped = i;
	return 1;
}

static size_t last_seen(const struct transcript *t)
{
	size_t i = t->top, rows;

	if (t->follow || !t->n)
		return t->n ? t->n - 1 : 0;
	rows = (size_t)t->h + t->line;
	/* An entry of which only the empty row before it fits is not seen. */
	for (; i + 1 < t->n && rows > rows_of(t, i); i++)
		rows -= rows_of(t, i);
	return i;
}

size_t transcript_focus(const struct transcript *t)
{
	return t->jumped < t->n ? t->jumped : entry_first(t, last_seen(t));
}

void transcript_fold(struct transcript *t)
{
	size_t i;

	if (!t->n)
		return;
	transcript_settle(t);
	i = transcript_focus(t);
	entry_fold(t, i, !t->entry[i].folded);
	t->jumped = i;   /* the same key unfolds it */
	if (!t->follow && entry_first(t, t->top) == i)
		transcript_at(t, i, 0);
	t->dirty = 1;
}

size_t transcript_below(const struct transcript *t)
{
	size_t rows = 0, shown = (size_t)t->h;

	if (t->follow || !t->n)
		return 0;
	for (size_t i = t->top; i < t->n; i++)
		rows += rows_of(t, i);
	rows -= t->line < rows ? t->line : rows;
	return rows > shown ? rows - shown : 0;
}

int transcript_percent(const struct transcript *t)
{
	size_t rows = 0, below = transcript_below(t);

	for (size_t i = 0; i < t->n; i++)
		rows += rows_of(t, i);
	if (rows <= (size_t)t->h)
		return -1;
	return below >= rows ? 0 : (int)((rows - below) * 100 / rows);
}

/* ---- the lens ---- */

void transcript_lens(struct transcript *t, size_t message, const struct ui_span *span, size_t n)
{
	size_t i, from = 0, at = 0;

	if (message >= t->n_message)
		return;
	t->dirty = 1;
	i = t->message[message];
	do {
		struct entry *e = &t->entry[i];
		size_t end = from + e->raw.n, first, last;

		drop_lens(e);
		while (at < n && span[at].end <= from)
			at++;
		for (first = last = at; last < n && (last == first || span[last - 1].end < end); last++)
			;
		e->n_lens = last - first;
		e->lens = e->n_lens ? xmalloc(e->n_lens * sizeof *span) : NULL;
		for (size_t k = first; k < last; k++)
			e->lens[k - first] = (struct ui_span){ (uint32_t)((span[k].end < end ? span[k].end : end) - from), span[k].kept };
		from = end;
	} while (t->entry[i++].more);
}

void transcript_lens_clear(struct transcript *t)
{
	for (size_t i = 0; i < t->n; i++)
		drop_lens(&t->entry[i]);
	t->dirty = 1;
}

/* The end of the word of raw text that begins at `at`; a wide character is one. */
static size_t word_end(const struct str *raw, size_t at)
{
	size_t from = at;

	while (at < raw->n) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(raw->p + at, raw->n - at, &cp);
		int blank = cp == ' ' || cp == '\n' || cp == '\t' || cp == '\r';

		if (blank || (cp >= 0x1100 && char_width(cp) == 2))
			return at > from ? at : at + len;
		at += len;
	}
	return at;
}

/* From spans over what came in to words of the clean text: it is cleaned once more, word by word. */
static void fit_lens(const struct transcript *t, struct entry *e)
{
	struct str out = {0};
	struct clean c;
	size_t cap = 0, span = 0;

	free(e->kept);
	e->kept = NULL;
	e->n_kept = 0;
	e->lens_fits = 1;
	clean_init(&c, t->raw ? CLEAN_SHOW : 0);
	for (size_t at = 0, end; at < e->raw.n; at = end) {
		uint8_t least = 255, most = 0;
		int what;
		size_t k;

		end = word_end(&e->raw, at);
		while (span < e->n_lens && e->lens[span].end <= at)
			span++;
		for (k = span; k < e->n_lens; k++) {
			if (e->lens[k].kept < least)
				least = e->lens[k].kept;
			if (e->lens[k].kept > most)
				most = e->lens[k].kept;
			if (e->lens[k].end >= end)
				break;
			span = k;   /* no later word begins before its end */
		}
		if (k == e->n_lens)
			most = 255;   /* nothing is said of the rest */
		what = least == 255 ? KEPT : most == 0 ? KEPT_NOT : KEPT_PARTLY;
		clean_text(&c, e->raw.p + at, end - at, &out);
		if (e->n_kept && e->kept[e->n_kept - 1].what == (unsigned)what) {
			e->kept[e->n_kept - 1].end = (uint32_t)out.n;
			continue;
		}
		if (e->n_kept == cap) {
			cap = cap ? cap * 2 : 64;
			e->kept = xrealloc(e->kept, cap * sizeof *e->kept);
		}
		e->kept[e->n_kept].end = (uint32_t)out.n;
		e->kept[e->n_kept++].what = what;
	}
	str_free(&out);
}

static void draw_lens(const struct entry *e, const struct run *r, const struct area *a, int x, int y)
{
	const char *p = e->lines.text.p + r->from;
	size_t lo = 0, hi = e->n_kept, from = r->source, end = (size_t)r->source + r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (e->kept[mid].end <= from)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < e->n_kept && from < end; lo++) {
		size_t to = e->kept[lo].end < end ? e->kept[lo].end : end;
		int cols = (int)text_width(p + (from - r->source), to - from);

		if (e->kept[lo].what != KEPT)
			area_restyle(a, x, y, cols, e->kept[lo].what == KEPT_NOT ? ST_GONE : (unsigned)r->style | STYLE_FAINT);
		x += cols;
		from = to;
	}
}

/* ---- drawing ---- */

static void draw_matches(const struct transcript *t, size_t i, const struct run *r, const struct area *a, int x, int y)
{
	const struct entry *e = &t->entry[i];
	const char *p = e->lines.text.p + r->from;
	size_t from = r->source, end = (size_t)r->source + r->n;
	const struct match *m = find_first(t, i, from);
	size_t first, last;

	for (; m && find_in(t, m, i, &first, &last) && first < end; m++) {
		size_t lo = first > from ? first : from, hi = last < end ? last : end;
		int shown = t->find.has_shown && t->find.shown.entry == m->entry && t->find.shown.from == m->from;

		if (hi > lo)
			area_restyle(a, x + (int)text_width(p, lo - from), y, (int)text_width(p + (lo - from), hi - lo),
			             ST_MATCH | (shown ? STYLE_BOLD : 0));
	}
}

static void draw_text(const struct transcript *t, size_t i, size_t line, const struct area *a, int y)
{
	const struct entry *e = &t->entry[i];
	int x = e->role == UI_USER ? MARK_COLS : 0;
	const struct text_line *l;

	if (x && !line && !e->part)
		area_text(a, 0, y, ST_QUESTION, "> ", MARK_COLS);
	if (line >= e->lines.n_line)
		return;
	lines_draw(&e->lines, line, a, x, y);
	l = &e->lines.line[line];
	for (size_t k = l->run; k < (size_t)l->run + l->n_run; k++) {
		const struct run *r = &e->lines.run[k];
		if (r->source != NO_SOURCE) {
			if (e->n_kept)
				draw_lens(e, r, a, x, y);
			if (t->find.n)
				draw_matches(t, i, r, a, x, y);
		}
		x += r->cols;
	}
}

/* How many lines a fold hides, behind the first one; a guess where there are parts that were never seen. */
static void draw_fold(const struct transcript *t, size_t i, const struct area *a, int y)
{
	const struct entry *e = &t->entry[i];
	size_t hidden = e->lines.n_line ? e->lines.n_line - 1 : 0;
	struct str s = {0};
	int x = e->role == UI_USER ? MARK_COLS : 0;

	for (size_t k = i; t->entry[k].more; k++)
		hidden += open_rows(t, &t->entry[k + 1]) + t->entry[k].gap;
	if (!hidden || !e->lines.n_line)
		return;
	str_addf(&s, " [+%zu %s]", hidden, hidden == 1 ? "line" : "lines");
	for (size_t k = e->lines.line[0].run; k < (size_t)e->lines.line[0].run + e->lines.line[0].n_run; k++)
		x += e->lines.run[k].cols;
	if (x > a->w - (int)s.n)
		x = a->w > (int)s.n ? a->w - (int)s.n : 0;
	area_text(a, x, y, ST_FAINT, s.p, s.n);
	str_free(&s);
}

static void forget_far_lines(struct transcript *t, size_t first, size_t last)
{
	size_t laid = 0;

	for (size_t i = 0; i < t->n; i++)
		laid += t->entry[i].lines.text.n;
	for (size_t i = 0; laid > LAID_MOST && i + 1 < t->n; i++) {
		if (i + 1 >= first && i <= last + 1)
			continue;
		laid -= t->entry[i].lines.text.n;
		drop_lines(&t->entry[i]);
	}
}

void transcript_draw(struct transcript *t, const struct area *a)
{
	size_t i, line;

	if (t->w != a->w && a->w > 0) {
		t->w = a->w;
		anew(t);
	}
	t->h = a->h > 0 ? a->h : 1;
	t->dirty = 0;
	area_clear(a, ST_TEXT);
	if (!t->n)
		return;
	transcript_settle(t);
	entry_lay_out(t, &t->entry[t->n - 1]);   /* it grows: the lines below are counted */
	find_update(t);
	i = t->top;
	line = t->line;
	for (int y = 0; y < a->h && i < t->n; y++) {
		struct entry *e = &t->entry[i];

		while (i < t->n && line >= rows_laid(t, i)) {
			i++;
			line = 0;
		}
		if (i == t->n)
			break;
		e = &t->entry[i];
		if (e->n_lens && !e->lens_fits)
			fit_lens(t, e);
		if (e->folded && !line && !e->part) {
			draw_text(t, i, 0, a, y);
			draw_fold(t, i, a, y);
		} else if (!e->folded && line < e->rows) {
			draw_text(t, i, line, a, y);
		} else if (!e->folded && line < e->rows + e->note_rows) {
			lines_draw(&e->note_lines, line - e->rows, a, 0, y);
		}
		line++;
	}
	forget_far_lines(t, t->top, i);
}

int transcript_changed(const struct transcript *t)
{
	return t->dirty;
}
