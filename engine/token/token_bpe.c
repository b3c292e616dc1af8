/* engine/token/token_bpe.c - byte-level BPE: splits text into words (pretok.h) and merges the bytes of each word by
 * rank. */
#include "engine/token/token_private.h"

#include <stdlib.h>
#include <string.h>

static void bpe_pair(const struct vocab *v, const char *word, struct symbol *a, const struct symbol *b)
{
	const struct pair_slot *p;
	(void)word;
	if (a->id < 0 || b->id < 0)
		return;
	p = vocab_pair(v, a->id, b->id);
	if (p) {
		a->rank = p->rank;
		a->to = p->to1 - 1;
	}
}

/* Set *id to the normal token whose text is the whole word (the n bytes s[]), or to -1 if there is none. Return 0, or
 * -1 if memory is exhausted. */
static int whole_word(struct encoder *e, const char *s, size_t n, int32_t *id)
{
	size_t len = 0;

	if (run_reserve(e, 2 * n))
		return -1;
	for (size_t i = 0; i < n; i++)
		len += (size_t)utf8_encode(byte_char((unsigned char)s[i]), e->run + len);
	*id = vocab_lookup(e->v, e->run, len);
	if (*id >= 0 && e->v->type[*id] != TOKEN_NORMAL)
		*id = -1;
	return 0;
}

static int bpe_word(struct encoder *e, const char *s, size_t n)
{
	const struct vocab *v = e->v;

	if (v->pre->whole_words && n <= v->longest) {
		int32_t id;
		if (whole_word(e, s, n, &id))
			return -1;
		if (id >= 0) {
			tokens_add(e->out, id);
			return 0;
		}
	}
	if (merge_reserve(e, n))
		return -1;
	for (size_t i = 0; i < n; i++) {
		int32_t id = v->byte_id[(unsigned char)s[i]];
		/* drop a byte that has no token now, before merging, so that the bytes before and after it can merge */
		if (id < 0 && !has_unknown(v)) {
			if (encode_unknown(e, (unsigned char)s[i]))
				return -1;
			continue;
		}
		e->sym[e->n_sym++] = (struct symbol){ .id = id, .off = (uint32_t)i, .len = 1 };
	}
	if (merge_symbols(e, s, bpe_pair))
		return -1;
	for (int32_t i = e->n_sym ? 0 : -1; i >= 0; i = e->sym[i].next)
		if (e->sym[i].id >= 0)
			tokens_add(e->out, e->sym[i].id);
		else if (encode_unknown(e, (unsigned char)s[e->sym[i].off]))
			return -1;
	return 0;
}

int bpe_encode(struct encoder *e, const char *s, size_t n)
{
	size_t end;

	seen_start(e, n);
	for (size_t i = 0; i < n; i = end) {
		struct word_seen *slot;
		size_t out_at = e->out->n;

		end = pretok_next(e->v->pre, s, n, i);
		if (!seen_again(e, s, i, end - i, &slot)) {
			if (bpe_word(e, s + i, end - i))
				return -1;
			seen_keep(e, slot, i, end - i, out_at);
		}
		note_ends(e, out_at, (ptrdiff_t)i, end);
	}
	return 0;
}
