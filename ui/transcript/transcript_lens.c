/* ui/transcript/transcript_lens.c - dims the words that are no longer in the KV cache. Their byte ranges in the
 * original text are mapped to the filtered text when an entry is drawn. */
#include "ui/transcript/transcript_private.h"

#include <stdlib.h>

/* Set the byte ranges of an entry that are kept or evicted. span[n] has the ranges of a longer text, in which the entry
 * begins at byte `from`. Returns the index of the first range that ends after `from`; later entries do not need the
 * ranges before it. */
static size_t entry_lens(struct entry *e, size_t from, const struct ui_span *span, size_t n)
{
	size_t end = from + e->raw.n, first = 0, last;

	entry_drop_lens(e);
	while (first < n && span[first].end <= from)
		first++;
	for (last = first; last < n && (last == first || span[last - 1].end < end); last++)
		;
	e->n_lens = last - first;
	e->lens = e->n_lens ? xmalloc(e->n_lens * sizeof *span) : NULL;
	for (size_t k = first; k < last; k++)
		e->lens[k - first] = (struct ui_span){ (uint32_t)((span[k].end < end ? span[k].end : end) - from),
			                               span[k].kept, span[k].part };
	return first;
}

void transcript_lens(struct transcript *t, size_t message, const struct ui_span *span, size_t n)
{
	size_t i, from = 0, at = 0;

	if (message >= t->n_message)
		return;
	t->dirty = 1;
	i = t->message[message];
	do {
		at += entry_lens(&t->entry[i], from, span + at, n - at);
		from += t->entry[i].raw.n;
	} while (t->entry[i++].more);
}

void transcript_text_lens(struct transcript *t, size_t from, const struct ui_span *span, size_t n)
{
	size_t at = 0;

	t->dirty = 1;
	for (size_t i = t->text_first; i < t->n; i++) {
		struct entry *e = &t->entry[i];
		const struct ui_span evicted = { .end = (uint32_t)e->raw.n };

		if (e->role == UI_TEXT && e->at < from)
			entry_lens(e, 0, &evicted, 1);
		else if (e->role == UI_TEXT)
			at += entry_lens(e, e->at - from, span + at, n - at);
	}
}

static void entry_add_heat(struct entry *e, size_t end, uint8_t level)
{
	if (e->n_heat && e->heat[e->n_heat - 1].end >= end)
		return;
	e->heat = xrealloc(e->heat, (e->n_heat + 1) * sizeof *e->heat);
	e->heat[e->n_heat++] = (struct ui_span){ .end = (uint32_t)end, .kept = level };
	e->lens_fits = 0;
}

void transcript_text_heat(struct transcript *t, size_t from, const struct ui_span *span, size_t n)
{
	for (size_t i = t->text_first; n && i < t->n; i++) {
		struct entry *e = &t->entry[i];
		size_t end = e->at + e->raw.n, at = from;

		if (e->role != UI_TEXT || end <= from || e->at >= from + span[n - 1].end)
			continue;
		if (at > e->at)
			entry_add_heat(e, at - e->at, 0); /* nothing is known about the bytes before `at` */
		for (size_t k = 0; k < n && at < end; at = from + span[k++].end)
			if (from + span[k].end > e->at)
				entry_add_heat(e, (from + span[k].end < end ? from + span[k].end : end) - e->at,
				               span[k].kept);
	}
	t->dirty = 1;
}

void transcript_messages_end(struct transcript *t, size_t n)
{
	for (size_t i = n; i < t->n_message; i++)
		transcript_lens(t, i, NULL, 0);
	if (t->n_message > n)
		t->n_message = n;
}

void transcript_gutter(struct transcript *t, int on)
{
	int cols = on ? GUTTER_COLS : 0;

	if (t->gutter == cols)
		return;
	t->gutter = cols;
	t->dirty = 1;
}

/* Return the end of the word at offset `at`. A wide (East Asian) character is a word. */
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

void entry_fit_lens(const struct transcript *t, struct entry *e)
{
	struct str out = { 0 };
	struct clean c;
	size_t cap = 0, span = 0, hot = 0;

	free(e->kept);
	e->kept = NULL;
	e->n_kept = 0;
	e->lens_fits = 1;
	clean_init(&c, t->raw ? CLEAN_SHOW : 0);
	for (size_t at = 0, end; at < e->raw.n; at = end) {
		uint8_t least = 255, most = 0, heat, part;
		int what;
		size_t k;

		end = word_end(&e->raw, at);
		while (span < e->n_lens && e->lens[span].end <= at)
			span++;
		part = span < e->n_lens ? e->lens[span].part : 0;
		for (k = span; k < e->n_lens; k++) {
			if (e->lens[k].kept < least)
				least = e->lens[k].kept;
			if (e->lens[k].kept > most)
				most = e->lens[k].kept;
			if (e->lens[k].end >= end)
				break;
			span = k; /* the next word begins in this range or in a later one */
		}
		if (k == e->n_lens)
			most = 255; /* no range covers the last bytes of the word, so they may be cached */
		what = least == 255 ? KEPT : most == 0 ? KEPT_NOT : KEPT_PARTLY;
		while (hot < e->n_heat && e->heat[hot].end <= at)
			hot++;
		heat = hot < e->n_heat ? e->heat[hot].kept : 0;
		clean_text(&c, e->raw.p + at, end - at, &out);
		if (e->n_kept && e->kept[e->n_kept - 1].what == (unsigned)what && e->kept[e->n_kept - 1].heat == heat &&
		    e->kept[e->n_kept - 1].part == part) {
			e->kept[e->n_kept - 1].end = (uint32_t)out.n;
			continue;
		}
		GROW(e->kept, e->n_kept, cap);
		e->kept[e->n_kept].end = (uint32_t)out.n;
		e->kept[e->n_kept].heat = heat;
		e->kept[e->n_kept].part = part;
		e->kept[e->n_kept++].what = what;
	}
	str_free(&out);
}

/* Return the style in which to draw a run. Evicted words get ST_EVICTED; partly evicted words keep their style, but
 * faint. */
static unsigned lens_style(const struct kept *k, const struct run *r)
{
	unsigned style = k->heat ? ST_HEAT + (k->heat < 3 ? 3u + k->heat : 7u) : (unsigned)r->style;

	return k->what == KEPT_NOT ? ST_EVICTED : k->what == KEPT_PARTLY ? style | STYLE_FAINT : style;
}

const struct kept *entry_kept_at(const struct entry *e, size_t at)
{
	size_t lo = 0, hi = e->n_kept;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (e->kept[mid].end <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < e->n_kept ? &e->kept[lo] : NULL;
}

void entry_draw_lens(const struct entry *e, const struct run *r, const struct area *a, int x, int y)
{
	const char *p = e->lines.text.p + r->from;
	size_t from = r->source, end = (size_t)r->source + r->n;

	for (const struct kept *k = entry_kept_at(e, from); k && k < e->kept + e->n_kept && from < end; k++) {
		size_t to = MIN(k->end, end);
		int cols = (int)text_width(p + (from - r->source), to - from);

		if (k->what != KEPT || k->heat)
			area_restyle(a, x, y, cols, lens_style(k, r));
		x += cols;
		from = to;
	}
}
