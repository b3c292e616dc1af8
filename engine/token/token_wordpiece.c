/* engine/token/token_wordpiece.c - WordPiece (BERT): splits the text into words, and each word into tokens. From left
 * to right, the next token is always the longest one that matches.
 *
 * BERT's "basic tokenizer" makes the words. It drops control characters and invalid bytes, and makes every Chinese
 * character and punctuation mark a word of its own. For an uncased vocabulary it also removes accents and converts to
 * lower case. A word of over 100 characters, or a word that cannot be split into tokens, becomes one unknown token.
 *
 * BERT marks a token inside a word with "##". GGUF files instead mark a token that begins a word with U+2581 before
 * it. */
#include "engine/token/token_private.h"
#include "engine/token/unicode_data_bert.h"

#include <string.h>

enum { WORD_CHARS_MAX = 100 };

/* ---- the basic tokenizer ---- */

static enum bert_class class_of(int32_t cp)
{
	/* binary search for the last range of code points that begins at or before cp */
	uint32_t lo = 0, hi = n_bert_class_run;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (bert_class_run[mid] >> 8 <= (uint32_t)cp)
			lo = mid;
		else
			hi = mid;
	}
	return (enum bert_class)(bert_class_run[lo] & 0xff);
}

/* Write the code points that replace cp to out[], and return their number, 0 to 3. */
static int map_char(const struct bert_map *m, int32_t cp, int32_t out[3])
{
	uint32_t lo = 0, hi = m->n_run;

	for (uint32_t i = 0; i < m->n_longer && m->longer[i].from <= cp; i++)
		if (m->longer[i].from == cp) {
			memcpy(out, m->longer[i].to, sizeof m->longer[i].to);
			return out[2] ? 3 : 2;
		}
	while (hi - lo > 1) { /* binary search for the last range of code points that begins at or before cp */
		uint32_t mid = lo + (hi - lo) / 2;

		if (m->run[mid].first <= cp)
			lo = mid;
		else
			hi = mid;
	}
	out[0] = cp;
	if (cp >= m->run[lo].first) {
		int32_t from = cp - m->run[lo].first, step = m->run[lo].step;

		if (from % step == 0 && from / step < m->run[lo].count) {
			out[0] += m->run[lo].delta;
			return m->run[lo].delta != 0;
		}
	}
	return 1;
}

static int strip_accents(int32_t cp, int32_t out[3])
{
	/* A Hangul syllable is a leading consonant, a vowel and, if s % 28 is not 0, a trailing consonant. */
	int32_t s = cp - 0xac00;

	if (s < 0 || s >= 11172)
		return map_char(&bert_strip, cp, out);
	out[0] = 0x1100 + s / 588;
	out[1] = 0x1161 + s % 588 / 28;
	out[2] = 0x11a7 + s % 28;
	return s % 28 ? 3 : 2;
}

/* The words of the text, which are written to e->run with a space after each word. */
struct words {
	struct encoder *e;
	size_t len;
	int open; /* 1: the space after the last word is still to be written */
};

static int add_char(struct words *w, int32_t cp, size_t source_end)
{
	struct encoder *e = w->e;
	size_t n;

	if (run_grow(e, w->len + 4))
		return -1;
	n = (size_t)utf8_encode(cp, e->run + w->len);
	for (size_t i = 0; i < n && e->ends; i++)
		e->run_end[w->len + i] = (uint32_t)source_end;
	w->len += n;
	w->open = cp != ' ';
	return 0;
}

static int end_word(struct words *w)
{
	return w->open ? add_char(w, ' ', 0) : 0;
}

/* Append a character. If `apart` is set, or if it is punctuation, make it a word of its own. */
static int add_folded(struct words *w, int32_t cp, int apart, size_t source_end)
{
	apart = apart || class_of(cp) == BERT_PUNCT;
	return (apart && end_word(w)) || add_char(w, cp, source_end) || (apart && end_word(w)) ? -1 : 0;
}

static int basic_tokens(struct words *w, const char *s, size_t n)
{
	const struct vocab *v = w->e->v;

	for (size_t i = 0; i < n;) {
		int32_t cp, plain[3] = { 0 }, low[3] = { 0 };
		enum bert_class class;
		int n_plain = 1;

		i += (size_t)utf8_decode(s + i, n - i, &cp);
		class = cp < 0 ? BERT_DROP : class_of(cp);
		if (class == BERT_SPACE && end_word(w))
			return -1;
		if (class == BERT_SPACE || class == BERT_DROP)
			continue;
		plain[0] = cp;
		if (v->strip_accents)
			n_plain = strip_accents(cp, plain);
		for (int k = 0; k < n_plain; k++) {
			int n_low = 1;

			low[0] = plain[k];
			if (v->lowercase)
				n_low = map_char(&bert_lower, plain[k], low);
			for (int j = 0; j < n_low; j++)
				if (add_folded(w, low[j], class == BERT_IDEOGRAPH, i))
					return -1;
		}
	}
	return end_word(w);
}

/* ---- words ---- */

/* Append the ids of the word of n bytes at e->run[at]. */
static int wordpiece_word(struct encoder *e, size_t at, size_t n)
{
	const struct vocab *v = e->v;
	size_t out_at = e->out->n, n_ends = e->ends ? e->ends->n : 0, n_chars = 0;

	for (size_t i = 0; i < n; i++)
		n_chars += ((unsigned char)e->run[at + i] & 0xc0) != 0x80;
	for (size_t i = 0, end; i < n && n_chars <= WORD_CHARS_MAX; i = end) {
		uint32_t node = i ? 0 : v->word_node;
		int32_t id = -1;

		end = i;
		for (size_t k = i; k < n && (i || node) && (node = trie_step(&v->trie, node, e->run[at + k])); k++)
			if (v->trie.id[node] >= 0) {
				id = v->trie.id[node];
				end = k + 1;
			}
		if (id < 0) {
			n_chars = WORD_CHARS_MAX + 1;
			break;
		}
		tokens_add(e->out, id);
		run_note_ends(e, e->out->n - 1, at + end);
	}
	if (n_chars <= WORD_CHARS_MAX)
		return 0;
	e->out->n = out_at;
	if (e->ends)
		e->ends->n = n_ends;
	if (encode_unknown(e, (unsigned char)e->run[at]))
		return -1;
	run_note_ends(e, out_at, at + n);
	return 0;
}

int wordpiece_encode(struct encoder *e, const char *s, size_t n)
{
	struct words w = { .e = e };

	if (basic_tokens(&w, s, n))
		return -1;
	seen_start(e, w.len);
	for (size_t i = 0, end; i < w.len; i = end + 1) {
		struct word_seen *slot = NULL;
		size_t out_at = e->out->n;

		end = (size_t)((char *)memchr(e->run + i, ' ', w.len - i) - e->run);
		if (!e->ends && seen_again(e, e->run, i, end - i, &slot))
			continue;
		if (wordpiece_word(e, i, end - i))
			return -1;
		seen_keep(e, slot, i, end - i, out_at);
	}
	return 0;
}
