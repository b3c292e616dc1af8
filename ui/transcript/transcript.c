/* ui/transcript/transcript.c - the entries of the transcript: messages, notices and errors. A long message is split
 * into several entries.
 *
 * Only visible entries are laid out. Their lines are kept until the width changes or the lines take too much memory.
 * For other entries the number of rows is estimated, to show percentages and "lines below". While an answer grows, only
 * its unfinished end is laid out again (struct growth). */
#include "ui/transcript/transcript_private.h"

#include "ui/text/text.h"
#include "ui/transcript/lines.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

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

void entry_drop_lens(struct entry *e)
{
	free(e->lens);
	free(e->kept);
	e->lens = NULL;
	e->kept = NULL;
	e->n_lens = e->n_kept = 0;
	e->lens_fits = 0;
}

void entry_drop_lines(struct entry *e)
{
	lines_free(&e->lines);
	lines_free(&e->note_lines);
	e->laid = 0;
}

static void entry_release(struct entry *e)
{
	str_free(&e->raw);
	str_free(&e->clean);
	str_free(&e->note);
	str_free(&e->underlined);
	entry_drop_lines(e);
	entry_drop_lens(e);
	free(e->heat);
	free(e->source);
}

/* Call this after entries were removed. t->flow is the first row that was not yet passed to the terminal's scrollback.
 * If this row was removed, record that all rows of the remaining entries were passed. */
static void flow_cut(struct transcript *t)
{
	if (t->flow.entry >= t->n)
		t->flow = (struct flow){ .entry = t->n ? t->n - 1 : 0, .line = t->n ? SIZE_MAX : 0 };
}

void transcript_cut(struct transcript *t, size_t n)
{
	size_t last;

	if (!n || n > t->n_message)
		return;
	for (last = t->message[n - 1]; t->entry[last].more; last++)
		;
	while (t->n > last + 1)
		entry_release(&t->entry[--t->n]);
	t->n_message = n;
	t->text_first = t->text_first < t->n ? t->text_first : 0;
	flow_cut(t);
	t->follow = t->dirty = 1;
	t->jumped = SIZE_MAX;
	find_reset(&t->find);
}

void transcript_clear(struct transcript *t)
{
	for (size_t i = 0; i < t->n; i++)
		entry_release(&t->entry[i]);
	t->n = t->n_message = t->text_first = 0;
	t->top = t->line = 0;
	flow_cut(t);
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

/* Count newlines of the clean text from byte `from` on. */
static void count_newlines(struct entry *e, size_t from)
{
	const char *p = e->clean.p + from, *end = e->clean.p + e->clean.n;

	while (e->clean.n && p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
		e->newlines++;
		p++;
	}
}

static void entry_take(struct entry *e, const char *text, size_t n)
{
	size_t from = e->clean.n;

	str_add(&e->raw, text, n);
	clean_text(&e->state, text, n, &e->clean);
	count_newlines(e, from);
	e->lens_fits = 0;
}

static struct entry *new_entry(struct transcript *t, enum ui_role role)
{
	GROW(t->entry, t->n, t->cap);
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

/* Begin the next entry of a long text, because the last entry is full. Returns the new entry. */
static struct entry *next_part(struct transcript *t)
{
	size_t was = t->n - 1;
	struct entry *e = new_entry(t, t->entry[was].role), *last = &t->entry[was];

	last->more = last->ended = 1;
	last->laid = 0;
	e->part = 1;
	e->at = last->at + last->raw.n;
	e->folded = last->folded;
	e->state = last->state;
	e->from = e->open = last->open;
	return e;
}

/* Advance *o by a line p[0..end): a line of fenced code, or the closing fence. */
static void scan_code(struct open *o, const char *p, const char *end)
{
	unsigned style;

	if (fence_closes(&o->fence, p, end)) {
		o->fence.mark = 0;
		return;
	}
	for (int i = 0; i < o->fence.indent && p < end && *p == ' '; i++)
		p++;
	for (size_t at = 0, n = (size_t)(end - p); at < n;)
		at = code_token(&o->colours, p, n, at, &style);
	code_newline(&o->colours);
}

/* 1 if the text ends with an empty line. */
static int ends_empty(const char *p, size_t n)
{
	int lines = 0;

	while (n && (p[n - 1] == '\n' || p[n - 1] == ' ' || p[n - 1] == '>'))
		lines += p[--n] == '\n';
	return lines > 1;
}

/* Advance e->whole past all Markdown blocks that later text cannot change. The text can be split at offset e->whole. */
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
		end = piece_end(text, n, e->whole, &e->scan, &whole, &fence);
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
	/* fenced code is the only block whose end is known before the next line arrives */
	e->line.behind_code = e->whole == e->clean.n;
}

static void cut_to(struct str *s, size_t n)
{
	s->n = n;
	s->p[n] = 0;
}

/* Call this at the end of a line. If the text can be split here, begin another entry for the rest of the long text.
 * Returns the entry that gets the text to come. */
static struct entry *cut_at_line(struct transcript *t, struct entry *e)
{
	struct str line = { 0 };

	if (e->role != UI_ASSISTANT)
		return next_part(t);
	scan_whole(e);
	if (e->whole == e->clean.n && e->open.fence.mark)
		return next_part(t);
	if (e->whole != e->line.clean || !e->whole || e->line.behind_code) {
		mark_line(e);
		if (e->raw.n < 2 * t->part_most)
			return e;
		/* the block is too long, so split the text inside it */
		e->gap = (unsigned char)ends_empty(e->clean.p, e->clean.n);
		return next_part(t);
	}
	/* The last line begins a new Markdown block: move the line to the next part of the text. */
	str_add(&line, e->raw.p + e->line.raw, e->raw.n - e->line.raw);
	cut_to(&e->raw, e->line.raw);
	cut_to(&e->clean, e->line.clean);
	e->newlines = e->line.newlines;
	e->state = e->line.state;
	e->gap = (unsigned char)ends_empty(e->clean.p, e->clean.n);
	e = next_part(t);
	entry_take(e, line.p, line.n);
	str_free(&line);
	return e;
}

/* Return where to split a text without line ends: after a blank if there is one near, else between two characters. */
static size_t forced_cut(const struct transcript *t, const struct entry *e, const char *text, size_t n)
{
	size_t most = 2 * t->part_most, left = e->raw.n < most ? most - e->raw.n : 1, at;

	if (n <= left)
		return n;
	for (at = left; at > 1 && left - at < 200 && text[at - 1] != ' '; at--)
		;
	if (at > 1 && text[at - 1] == ' ')
		return at;
	return utf8_forward(text, n, left);
}

static void more_text(struct transcript *t, const char *text, size_t n)
{
	struct entry *e = &t->entry[t->n - 1];

	t->dirty = 1;
	while (n) {
		size_t least = t->part_most, room = e->raw.n < least ? least - e->raw.n : 0, k = n;
		const char *nl = NULL;

		/* an entry with at least `least` bytes ends at the next line end at which the text can be split */
		if (n > room) {
			nl = memchr(text + room, '\n', n - room);
			k = forced_cut(t, e, text, nl ? (size_t)(nl - text) + 1 : n);
			if (nl && k <= (size_t)(nl - text))
				nl = NULL;
		}
		entry_take(e, text, k);
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
		GROW(t->message, t->n_message, t->cap_message);
		t->message[t->n_message++] = t->n;
	}
	if (t->follow)
		t->jumped = SIZE_MAX; /* give the focus to the new entry */
	e = new_entry(t, role);
	clean_init(&e->state, t->raw ? CLEAN_SHOW : 0);
	number = t->n - 1;
	more_text(t, text, n);
	t->dirty = 1;
	return number;
}

void transcript_text(struct transcript *t, size_t at, int begins)
{
	size_t i = transcript_add(t, UI_TEXT, "", 0);

	t->entry[i].at = at;
	if (begins)
		t->text_first = i;
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

void transcript_raw(struct transcript *t, int raw)
{
	if (t->raw == !!raw)
		return;
	t->raw = !!raw;
	/* Raw mode shows invisible characters, which are filtered out otherwise: filter all texts again. */
	for (size_t i = 0; i < t->n; i++) {
		struct entry *e = &t->entry[i];
		str_clear(&e->clean);
		e->newlines = 0;
		e->lens_fits = 0;
		if (e->part)
			e->state = t->entry[i - 1].state;
		else
			clean_init(&e->state, t->raw ? CLEAN_SHOW : 0);
		clean_text(&e->state, str_text(&e->raw), e->raw.n, &e->clean);
		if (e->ended && !e->more)
			clean_end(&e->state, &e->clean);
		count_newlines(e, 0);
		e->whole = 0;
		e->scan = (struct piece_scan){ 0 };
		e->open = e->from;
		mark_line(e);
	}
	find_reset(&t->find);
	transcript_anew(t);
}

size_t transcript_count(const struct transcript *t)
{
	return t->n;
}

size_t transcript_messages(const struct transcript *t)
{
	return t->n_message;
}

int transcript_changed(const struct transcript *t)
{
	return t->dirty;
}
