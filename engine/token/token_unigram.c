/* engine/token/token_unigram.c - Unigram (SentencePiece): normalises the text, then splits each word into the tokens
 * with the highest sum of scores.
 *
 * Normalising replaces texts by a table of the model file (charsmap), invalid bytes by U+FFFD, and spaces by U+2581,
 * the space mark. It can also drop leading, trailing and repeated spaces.
 *
 * The Viterbi algorithm finds the best way to split a word. For each byte of the word it keeps the highest sum of
 * scores of the tokens up to this byte. If two ways have equal sums, the way with the longer last token is kept. A
 * character without a token counts as unknown; its score is 10 below the lowest score of all tokens. */
#include "engine/token/token_private.h"

#include <stdlib.h>
#include <string.h>

/* cut[i] is the best way to split the first i bytes of a word into tokens. `sum` is the sum of the tokens' scores. The
 * last token has the id `id` and begins at byte `from` of the word. */
struct cut {
	double sum;
	uint32_t from; /* NO_CUT: no token ends at byte i */
	int32_t id; /* -1: the last character is not the text of any token, so it is encoded as an unknown character */
};

#define NO_CUT UINT32_MAX

/* ---- normalising ---- */

static int add_bytes(struct encoder *e, size_t *len, const char *s, size_t n, size_t source_end)
{
	if (run_grow(e, *len + n))
		return -1;
	memcpy(e->run + *len, s, n);
	for (size_t i = 0; i < n && e->ends; i++)
		e->run_end[*len + i] = (uint32_t)source_end;
	*len += n;
	return 0;
}

/* Append the n bytes s[] to e->run, with a space mark in place of each space. These bytes replace a range of the text.
 * The end of this range, source_end, is stored in run_end[] for each byte. If *drop is 1, drop the spaces at the
 * beginning of s[]. Set *drop for the next call. */
static int add_normal(struct encoder *e, size_t *len, const char *s, size_t n, size_t source_end, int *drop)
{
	while (*drop && n && *s == ' ') {
		s++;
		n--;
	}
	if (!n)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (add_bytes(e, len, s[i] == ' ' ? SPACE_MARK : s + i, s[i] == ' ' ? 3 : 1, source_end))
			return -1;
	*drop = e->v->trim && s[n - 1] == ' ';
	return 0;
}

/* Write the normalised text to e->run and its length to *len. If `begins` is 0, other text is directly before this
 * text. */
static int normalise(struct encoder *e, const char *s, size_t n, int begins, size_t *len)
{
	const struct vocab *v = e->v;
	int drop = v->trim && begins;

	*len = 0;
	if (begins && v->add_space && add_bytes(e, len, SPACE_MARK, 3, 0))
		return -1;
	for (size_t i = 0, used; i < n; i += used) {
		const char *to = s + i;
		size_t n_to;
		int32_t cp;

		used = charsmap_match(&v->charsmap, s + i, n - i, &to);
		n_to = used ? strlen(to) : 0;
		if (!used) {
			used = n_to = (size_t)utf8_decode(to, n - i, &cp);
			if (cp < 0) {
				used = 1;
				to = "\xef\xbf\xbd";
				n_to = 3;
			}
		}
		if (add_normal(e, len, to, n_to, i + used, &drop))
			return -1;
	}
	while (v->trim && *len >= 3 && !memcmp(e->run + *len - 3, SPACE_MARK, 3))
		*len -= 3;
	return 0;
}

/* ---- the best cut ---- */

/* Replace *c, the best way to split so far (NO_CUT: there is none yet), if the new way has a higher sum. The last token
 * of the new way is `id` and begins at `from`. */
static void relax(struct cut *c, double sum, size_t from, int32_t id)
{
	if (c->from == NO_CUT || sum > c->sum)
		*c = (struct cut){ sum, (uint32_t)from, id };
}

/* Find the best ways to split the first i bytes of the word, which is the n bytes s[], into tokens, for i = 1 to n.
 * Store them in cut[0] to cut[n]. */
static void find_cuts(const struct vocab *v, const char *s, size_t n, struct cut *cut)
{
	cut[0].sum = 0;
	for (size_t i = 1; i <= n; i++)
		cut[i].from = NO_CUT;
	for (size_t i = 0; i < n; i++) {
		int single = 0;
		uint32_t node = 0;
		int32_t cp;
		size_t first;

		if (i && cut[i].from == NO_CUT)
			continue;
		first = (size_t)utf8_decode(s + i, n - i, &cp);
		if (cp < 0)
			first = 1;
		for (size_t k = i; k < n && (node = trie_step(&v->trie, node, s[k])); k++) {
			int32_t id = v->trie.id[node];

			if (id < 0)
				continue;
			relax(&cut[k + 1], cut[i].sum + (double)v->score[id], i, id);
			single |= k + 1 - i == first;
		}
		if (!single)
			relax(&cut[i + first], cut[i].sum + v->unknown_score, i, -1);
	}
}

/* Append the tokens of a character that has no token of its own: its byte tokens or, if it has none, the unknown token.
 * Consecutive characters share one unknown token. If *again is 1, the last token appended is the unknown token of the
 * previous character. Update *again for the next call. */
static int add_unknown(struct encoder *e, const char *s, size_t n, int *again)
{
	int bytes = 1;

	for (size_t i = 0; i < n; i++)
		bytes &= e->v->byte_id[(unsigned char)s[i]] >= 0;
	for (size_t i = 0; i < n && bytes; i++)
		tokens_add(e->out, e->v->byte_id[(unsigned char)s[i]]);
	if (!bytes && !*again && encode_unknown(e, (unsigned char)*s))
		return -1;
	*again = !bytes;
	return 0;
}

/* Append the ids of the word of n bytes at e->run[at]. */
static int unigram_word(struct encoder *e, size_t at, size_t n)
{
	const char *s = e->run + at;
	uint32_t next = 0;
	struct cut *cut;
	int again = 0;

	if (n >= e->cap_cut) {
		size_t cap = MAX(256, n + 1);

		free(e->cut);
		e->cap_cut = 0;
		if (!(e->cut = try_alloc(cap, sizeof *e->cut, "the tokens of a word", e->err)))
			return -1;
		e->cap_cut = cap;
	}
	cut = e->cut;
	find_cuts(e->v, s, n, cut);
	/* Follow the best way to split the word from its end to its beginning, and reverse the links. Before this, if a
	 * token ends at i, cut[i].from is where it begins. Afterwards, if a token begins at i, cut[i].from is where it
	 * ends. The last of these is 0. */
	for (uint32_t i = (uint32_t)n, from; i; i = from) {
		from = cut[i].from;
		cut[i].from = next;
		next = i;
	}
	for (uint32_t i = 0; next; i = next, next = cut[next].from) {
		size_t out_at = e->out->n;

		if (cut[next].id >= 0) {
			tokens_add(e->out, cut[next].id);
			again = 0;
		} else if (add_unknown(e, s + i, next - i, &again)) {
			return -1;
		}
		run_note_ends(e, out_at, at + next);
	}
	return 0;
}

int unigram_encode(struct encoder *e, const char *s, size_t n, int begins)
{
	size_t len, end;

	if (normalise(e, s, n, begins, &len))
		return -1;
	seen_start(e, len);
	for (size_t i = 0; i < len; i = end) {
		struct word_seen *slot = NULL;
		size_t out_at = e->out->n;

		end = e->v->words_apart ? spm_next_word(e->run, len, i) : len;
		if (!e->ends && seen_again(e, e->run, i, end - i, &slot))
			continue;
		if (unigram_word(e, i, end - i))
			return -1;
		seen_keep(e, slot, i, end - i, out_at);
	}
	return 0;
}
