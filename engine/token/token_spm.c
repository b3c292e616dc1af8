/* engine/token/token_spm.c - SentencePiece BPE: merges characters in order of their scores, or by a list of merges
 * (Gemma 4). A character without a token becomes byte tokens. Spaces become U+2581, the space mark.
 *
 * The reference software encodes the text as a whole. But in most vocabularies (all of Llama's) no token has a space
 * mark after another character, so no merge crosses the start of a word. Encoding word by word then gives the same
 * tokens and is faster (vocab.words_apart). */
#include "engine/token/token_private.h"

#include <stdlib.h>
#include <string.h>

static void spm_pair(const struct vocab *v, const char *word, struct symbol *a, const struct symbol *b)
{
	uint32_t n = a->len + b->len;
	const struct pair_slot *p = v->merges && a->id >= 0 && b->id >= 0 ? vocab_pair(v, a->id, b->id) : NULL;
	int32_t id = !v->merges && n <= v->longest ? vocab_lookup(v, word + a->off, n) : -1;
	if (id >= 0 && v->type[id] == TOKEN_NORMAL) {
		a->rank = v->rank[id];
		a->to = id;
	}
	if (p) {
		a->rank = p->rank;
		a->to = p->to1 - 1;
	}
}

/* Append the byte tokens of a character that has no token. If one of the byte tokens is missing, append a single
 * unknown token instead. */
static int spm_bytes(struct encoder *e, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (e->v->byte_id[(unsigned char)s[i]] < 0)
			return encode_unknown(e, (unsigned char)s[i]);
	for (size_t i = 0; i < n; i++)
		tokens_add(e->out, e->v->byte_id[(unsigned char)s[i]]);
	return 0;
}

static int spm_word(struct encoder *e, const char *s, size_t n)
{
	const struct vocab *v = e->v;

	if (merge_reserve(e, n))
		return -1;
	for (size_t i = 0; i < n;) {
		int32_t cp, id;
		size_t len = (size_t)utf8_decode(s + i, n - i, &cp);
		if (cp < 0)
			len = 1;
		id = vocab_lookup(v, s + i, len);
		if (id >= 0 && v->type[id] != TOKEN_NORMAL)
			id = -1;
		e->sym[e->n_sym++] = (struct symbol){ .id = id, .off = (uint32_t)i, .len = (uint32_t)len };
		i += len;
	}
	if (merge_symbols(e, s, spm_pair))
		return -1;
	for (int32_t i = 0; i >= 0; i = e->sym[i].next)
		if (e->sym[i].id >= 0)
			tokens_add(e->out, e->sym[i].id);
		else if (spm_bytes(e, s + e->sym[i].off, e->sym[i].len))
			return -1;
	return 0;
}

static int is_mark(const char *s, size_t n, size_t i)
{
	return n - i >= 3 && !memcmp(s + i, SPACE_MARK, 3);
}

size_t spm_next_word(const char *s, size_t n, size_t i)
{
	while (is_mark(s, n, i))
		i += 3;
	while (i < n && !is_mark(s, n, i))
		i++;
	return i;
}

/* Return the offset in the text `s` that corresponds to offset `to` in `run`. The array `run` is a copy of `s` with a
 * space mark (U+2581) in place of each space; `s` itself may contain space marks, too. Begin at offset `from` of `run`,
 * which is known to correspond to offset `at` of `s`. If `space` is 1, `run` begins with an added space mark, which is
 * not in `s`. */
static size_t run_text_end(const char *s, const char *run, size_t n, size_t from, size_t to, size_t at, int space)
{
	if (space && !from && to)
		from = 3;
	while (from < to) {
		int is_space = is_mark(run, n, from) && s[at] == ' ';

		from += is_space ? 3 : 1;
		at++;
	}
	return at;
}

int spm_encode(struct encoder *e, const char *s, size_t n, int space)
{
	size_t len = 0, end, at = 0, out_all = e->out->n;
	char *run;

	if (run_reserve(e, 3 * n + 3))
		return -1;
	run = e->run;
	if (space) {
		memcpy(run, SPACE_MARK, 3);
		len = 3;
	}
	for (size_t i = 0; i < n; i++) {
		if (s[i] == ' ') {
			memcpy(run + len, SPACE_MARK, 3);
			len += 3;
		} else {
			run[len++] = s[i];
		}
	}
	if (!e->v->words_apart) {
		if (spm_word(e, run, len))
			return -1;
		note_ends(e, out_all, space ? -1 : 0, n);
		return 0;
	}
	seen_start(e, len);
	for (size_t i = 0; i < len; i = end) {
		struct word_seen *slot;
		size_t out_at = e->out->n;

		end = spm_next_word(run, len, i);
		if (!seen_again(e, run, i, end - i, &slot)) {
			if (spm_word(e, run + i, end - i))
				return -1;
			seen_keep(e, slot, i, end - i, out_at);
		}
		if (e->ends) {
			size_t to = run_text_end(s, run, len, i, end, at, space);

			note_ends(e, out_at, (ptrdiff_t)at - (space && !i), to);
			at = to;
		}
	}
	return 0;
}
