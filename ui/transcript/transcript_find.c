/* ui/transcript/transcript_find.c - searches the transcript.
 *
 * The text of each entry is searched once; new text is searched when it arrives. A blank in the pattern matches any
 * white space, also line breaks and quote bars. Markdown marks inside a match are skipped, so that words are found as
 * they look on the screen. A match may continue from one entry of a split message to the next. */
#include "ui/transcript/transcript_private.h"

#include "ui/screen/widgets.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* PATTERN_MOST: maximum number of bytes of a pattern. MATCHES_MOST: maximum number of matches that are counted. */
enum { PATTERN_MOST = 256, MATCHES_MOST = 4000000 };

void find_reset(struct find *f)
{
	f->n = f->entry = f->from = 0;
	f->has_shown = 0;
}

void find_free(struct find *f)
{
	str_free(&f->pattern);
	free(f->match);
	*f = (struct find){ 0 };
}

/* Return the index of the first match that begins at or after byte `from` of `entry`. */
static size_t index_at(const struct find *f, size_t entry, size_t from)
{
	size_t lo = 0, hi = f->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (f->match[mid].entry < entry || (f->match[mid].entry == entry && f->match[mid].from < from))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Return the offset in `entry` at which a match ends; 0 = it ends before this entry. The match may begin in an earlier
 * entry, because a long text is split into several entries. */
static size_t end_in(const struct transcript *t, const struct match *m, size_t entry)
{
	size_t end = (size_t)m->from + m->n;

	for (size_t i = m->entry; i < entry; i++) {
		if (end <= t->entry[i].clean.n)
			return 0;
		end -= t->entry[i].clean.n;
	}
	return end;
}

const struct match *find_first(const struct transcript *t, size_t entry, size_t from)
{
	const struct find *f = &t->find;
	size_t i = index_at(f, entry, from);

	/* f->match[i - 1] begins before `from`: return it if it ends after `from`; all earlier matches end before it
	 * begins */
	if (i && end_in(t, &f->match[i - 1], entry) > from)
		i--;
	return i < f->n ? &f->match[i] : NULL;
}

int find_in(const struct transcript *t, const struct match *m, size_t entry, size_t *from, size_t *end)
{
	if (m == t->find.match + t->find.n || m->entry > entry)
		return 0;
	*from = m->entry == entry ? m->from : 0;
	*end = end_in(t, m, entry);
	return *end > *from;
}

/* ---- matching ---- */

static int is_mark(char c)
{
	return c == '*' || c == '`' || c == '~';
}

/* Return the length of the match at the start of s; 0 = there is no match; SIZE_MAX = more text is needed to decide. */
static size_t match_at(const struct find *f, const char *s, size_t n, int marks)
{
	size_t i = 0, k = 0;

	while (i < f->pattern.n) {
		int32_t want, have;
		size_t len;

		if (k == n)
			return SIZE_MAX;
		if (f->pattern.p[i] == ' ') {
			int fresh = 0;

			if (marks && is_mark(s[k])) {
				k++;
				continue;
			}
			if (s[k] != ' ' && s[k] != '\n')
				return 0;
			for (; k < n && (s[k] == ' ' || s[k] == '\n' || (fresh && s[k] == '>')); k++)
				fresh |= s[k] == '\n' && marks;
			i++;
			continue;
		}
		len = (size_t)utf8_decode(f->pattern.p + i, f->pattern.n - i, &want);
		i += len;
		len = (size_t)utf8_decode(s + k, n - k, &have);
		if (have != want && !(f->fold && fold_case(have) == want)) {
			if (!marks || !k || !is_mark(s[k]))
				return 0;
			i -= (size_t)utf8_encode(want, (char[4]){ 0 });
		}
		k += len;
	}
	return k;
}

/* Return the length of the match at byte `at` of an entry. If a long text is split into entries, the match may continue
 * in the next ones. Returns 0 if there is no match; SIZE_MAX if more text is needed to decide, and the last entry may
 * still grow. */
static size_t match_over(const struct transcript *t, size_t entry, size_t at, int marks)
{
	struct str s = { 0 };
	size_t found = SIZE_MAX;

	for (size_t step = 1024; found == SIZE_MAX; step *= 2) {
		const struct entry *e = &t->entry[entry];
		size_t end = e->clean.n - at > step ? at + step : e->clean.n;

		end = utf8_forward(e->clean.p, e->clean.n, end);
		if (end > at)
			str_add(&s, e->clean.p + at, end - at);
		found = match_at(&t->find, str_text(&s), s.n, marks);
		at = end;
		if (at < e->clean.n)
			continue;
		if (!e->more)
			break;
		entry++;
		at = 0;
	}
	str_free(&s);
	return found == SIZE_MAX && entry + 1 < t->n ? 0 : found;
}

/* Search an entry from byte i on. Returns the offset at which the search continues: the end of the entry, or a later
 * offset if a match continues in the next entry of a split text. */
static size_t find_in_entry(struct transcript *t, size_t entry, size_t i)
{
	struct find *f = &t->find;
	const struct entry *e = &t->entry[entry];
	unsigned char may_begin[256] = { 0 };
	int marks = e->role == UI_ASSISTANT && !t->raw;
	int32_t first;

	utf8_decode(f->pattern.p, f->pattern.n, &first);
	may_begin[(unsigned char)f->pattern.p[0]] = 1;
	for (int c = 0; f->fold && c < 256; c++)
		may_begin[c] |= c >= 0x80 || fold_case(c) == first;
	while (i < e->clean.n) {
		size_t n;

		if (f->n == MATCHES_MOST)
			return e->clean.n;
		if (!may_begin[(unsigned char)e->clean.p[i]]) {
			i++;
			continue;
		}
		n = match_at(f, e->clean.p + i, e->clean.n - i, marks);
		if (n == SIZE_MAX)
			n = match_over(t, entry, i, marks);
		if (n == SIZE_MAX && f->entry == t->n) {
			f->entry = entry;
			f->from = i;
		}
		if (!n || n == SIZE_MAX) {
			i++;
			continue;
		}
		GROW(f->match, f->n, f->cap);
		f->match[f->n++] = (struct match){ (uint32_t)entry, (uint32_t)i, (uint32_t)n };
		i += n;
	}
	return i;
}

/* A long text may have been split since the position was stored. If the position is now after its entry's end, set it
 * to the same place in the next entries. Returns 1 if the position has changed. */
static int place_moved(const struct transcript *t, size_t *entry, size_t *from)
{
	size_t was = *entry;

	while (*entry < t->n && t->entry[*entry].more && *from >= t->entry[*entry].clean.n)
		*from -= t->entry[(*entry)++].clean.n;
	return *entry != was;
}

static int match_moved(const struct transcript *t, struct match *m)
{
	size_t entry = m->entry, from = m->from;
	int yes = place_moved(t, &entry, &from);

	m->entry = (uint32_t)entry;
	m->from = (uint32_t)from;
	return yes;
}

void find_update(struct transcript *t)
{
	struct find *f = &t->find;
	size_t entry, from;

	if (!f->pattern.n || !t->n)
		return;
	for (size_t i = f->n; i && match_moved(t, &f->match[i - 1]); i--)
		;
	match_moved(t, &f->shown);
	place_moved(t, &f->entry, &f->from);
	entry = f->entry;
	from = f->from;
	f->n = index_at(f, entry, from);
	/* the search is complete, unless find_in_entry() sets f->entry because a match at the end needs more text */
	f->entry = t->n;
	for (; entry < t->n; entry++) {
		size_t n = t->entry[entry].clean.n;

		if (from < n)
			from = find_in_entry(t, entry, from);
		from -= n;
	}
	if (f->entry < t->n)
		return;
	f->entry = t->n - 1; /* continue with this entry when it has grown */
	f->from = t->entry[t->n - 1].clean.n;
}

/* ---- the pattern ---- */

/* Set the pattern. Returns 1 if it differs from the old one. */
static int set_pattern(struct find *f, const char *text)
{
	struct str clean = { 0 }, s = { 0 };
	int fold, other;

	clean_line(text, strlen(text), &clean);
	fold = !has_capitals(str_text(&clean), clean.n);
	for (size_t i = 0, len; i < clean.n && s.n < PATTERN_MOST; i += len) {
		int32_t cp;
		char out[4];

		len = (size_t)utf8_decode(clean.p + i, clean.n - i, &cp);
		if (cp == ' ' && (!s.n || s.p[s.n - 1] == ' '))
			continue;
		str_add(&s, out, (size_t)utf8_encode(fold ? fold_case(cp) : cp, out));
	}
	if (s.n && s.p[s.n - 1] == ' ')
		s.p[--s.n] = 0;
	other = s.n != f->pattern.n || fold != f->fold || (s.n && memcmp(s.p, f->pattern.p, s.n));
	if (other) {
		struct match shown = f->shown;
		int has_shown = f->has_shown;
		find_reset(f);
		f->shown = shown;
		f->has_shown = has_shown;
		f->fold = fold;
		str_clear(&f->pattern);
		str_add(&f->pattern, str_text(&s), s.n);
	}
	str_free(&clean);
	str_free(&s);
	return other;
}

/* ---- moving to a match ---- */

static size_t line_with(const struct lines *l, uint32_t source)
{
	for (size_t i = 0; i < l->n_line; i++)
		for (size_t k = l->line[i].run; k < (size_t)l->line[i].run + l->line[i].n_run; k++)
			if (l->run[k].source != NO_SOURCE && l->run[k].source <= source &&
			    source < l->run[k].source + l->run[k].n)
				return i;
	/* the matched text is not shown (such as the address of a picture): take the nearest line before it */
	for (size_t i = 0; i < l->n_line; i++)
		if (l->line[i].source > source)
			return i ? i - 1 : 0;
	return l->n_line ? l->n_line - 1 : 0;
}

static int is_seen(struct transcript *t, size_t entry, size_t line)
{
	size_t end = t->top, end_line = t->line;

	transcript_move(t, &end, &end_line, t->h - 1);
	return !transcript_is_before(entry, line, t->top, t->line) && !transcript_is_before(end, end_line, entry, line);
}

static void show_match(struct transcript *t, const struct match *m)
{
	struct entry *e = &t->entry[m->entry];
	size_t entry = m->entry, line, end, end_line;

	entry_lay_out(t, e);
	line = line_with(&e->lines, m->from);
	if (e->folded && (line || e->part))
		entry_fold(t, m->entry, 0);
	transcript_settle(t);
	if (!is_seen(t, entry, line)) {
		transcript_move(t, &entry, &line, -(t->h / 3));
		transcript_bottom(t, &end, &end_line);
		if (transcript_is_before(end, end_line, entry, line)) {
			entry = end;
			line = end_line;
		}
		transcript_at(t, entry, line);
	}
	t->jumped = SIZE_MAX;
	t->find.shown = *m;
	t->find.has_shown = 1;
}

/* Return the offset in the entry's text at which a line begins, for comparison with matches. UINT32_MAX means that the
 * line is after the text. */
static uint32_t source_at(struct transcript *t, size_t entry, size_t line)
{
	struct entry *e = &t->entry[entry];

	entry_lay_out(t, e);
	return line < e->lines.n_line ? e->lines.line[line].source : UINT32_MAX;
}

/* Return the index of the match to go to; there must be at least one match. */
static size_t choose_match(struct transcript *t, int step)
{
	struct find *f = &t->find;
	size_t entry, line, i;

	transcript_settle(t);
	if (f->has_shown) {
		struct entry *e = f->shown.entry < t->n ? &t->entry[f->shown.entry] : NULL;

		if (!step) {
			i = index_at(f, f->shown.entry, (size_t)f->shown.from + 1);
			return i ? i - 1 : f->n - 1;
		}
		if (e)
			entry_lay_out(t, e);
		/* Start from the current match, unless the user has scrolled away from it. */
		if (e && is_seen(t, f->shown.entry, e->folded ? 0 : line_with(&e->lines, f->shown.from))) {
			i = index_at(f, f->shown.entry, (size_t)f->shown.from + (step > 0));
			return step > 0 ? (i < f->n ? i : 0) : i ? i - 1 : f->n - 1;
		}
	}
	entry = t->top;
	line = t->line;
	if (step > 0) {
		i = index_at(f, entry, source_at(t, entry, line));
		return i < f->n ? i : 0;
	}
	/* choose the last match above the bottom of the screen */
	transcript_move(t, &entry, &line, t->h);
	i = index_at(f, entry,
	             entry + 1 == t->n && line + 1 >= t->entry[entry].rows ? UINT32_MAX : source_at(t, entry, line));
	return i ? i - 1 : f->n - 1;
}

size_t transcript_search(struct transcript *t, const char *pattern, int step, size_t *at)
{
	struct find *f = &t->find;
	size_t i, nowhere;

	at = at ? at : &nowhere;
	*at = 0;
	t->dirty = 1;
	if (!pattern || !*pattern) {
		find_reset(f);
		str_clear(&f->pattern);
		return 0;
	}
	set_pattern(f, pattern);
	find_update(t);
	if (!f->n)
		return 0;
	i = choose_match(t, step);
	show_match(t, &f->match[i]);
	*at = i + 1;
	return f->n;
}
