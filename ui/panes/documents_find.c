/* ui/panes/documents_find.c - search in a document. */
#include "ui/panes/pane_documents.h"
#include "ui/text/text.h"

void documents_set_words(struct documents_pane *p, const char *s, size_t n)
{
	struct str clean = { 0 };

	clean_line(s, n, &clean);
	str_clear(&p->words);
	p->fold = !has_capitals(str_text(&clean), clean.n);
	str_add(&p->words, str_text(&clean), clean.n);
	p->found_n = 0;
	str_free(&clean);
}

/* Return the first match at or after offset `from`; if `back` is 1, the last match before it. SIZE_MAX = there is
 * none. */
static size_t find_match(const struct documents_pane *p, const struct doc_text *d, uint32_t from, int back, size_t *len)
{
	enum { WINDOW = 64 << 10, BEYOND = 4096 };
	const char *s = d->text.p;

	if (!back)
		return words_find(s, d->text.n, from, p->words.p, p->words.n, p->fold, len);
	for (size_t end = from; end > 0;) {
		size_t begin = end > WINDOW ? end - WINDOW : 0, best = SIZE_MAX, best_len = 0, at = begin;
		size_t n = d->text.n - end > BEYOND ? end + BEYOND : d->text.n;

		while ((at = words_find(s, n, at, p->words.p, p->words.n, p->fold, len)) < end) {
			best = at++;
			best_len = *len;
		}
		if (best != SIZE_MAX) {
			*len = best_len;
			return best;
		}
		end = begin;
	}
	return SIZE_MAX;
}

void documents_find(struct documents_pane *p, int back)
{
	struct doc_text *d = documents_current(p);
	struct pos pos = documents_pos_of(p, d->top), last = pos;
	uint32_t from = d->top, shown_end;
	size_t at, len = 0;

	str_clear(&p->say);
	if (!p->words.n) {
		documents_say(p, "no words have been searched for yet; / finds some");
		return;
	}
	documents_walk(p, &last, p->h - 1);
	shown_end = documents_end_of(p, last);
	if (p->found_n && p->found >= d->top && p->found < shown_end)
		from = back ? p->found : p->found + 1;
	at = find_match(p, d, from, back, &len);
	if (at == SIZE_MAX) {
		at = find_match(p, d, back ? (uint32_t)d->text.n : 0, back, &len);
		if (at == SIZE_MAX) {
			str_adds(&p->say, "not found: ");
			str_add(&p->say, p->words.p, p->words.n);
			p->found_n = 0;
			return;
		}
		documents_say(p, back ? "found from the end" : "found from the beginning");
	}
	p->found = (uint32_t)at;
	p->found_n = (uint32_t)len;
	if (p->found < d->top || p->found >= shown_end) {
		pos = documents_pos_of(p, p->found);
		documents_walk(p, &pos, -(int64_t)(p->h / 3));
		documents_set_top(p, documents_byte_of(p, pos));
	}
}
