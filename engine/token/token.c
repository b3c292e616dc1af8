/* engine/token/token.c - encodes text that contains special tokens.
 *
 * The text is split at special tokens, from left to right. If several special tokens match at an offset, the longest
 * one is used. User-defined tokens match anywhere. Control and unknown tokens match only inside the ranges that the
 * caller trusts, so that foreign text cannot produce them. A run, which is the plain text between two special tokens,
 * is encoded by the model's own kind of tokenizer.
 *
 * SentencePiece puts a space before a run at the start of the text and after a control token, as in training. After a
 * user-defined token it puts no space. */
#include "engine/token/token_private.h"
#include "engine/base/utf8.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const struct vocab_info *vocab_info(const struct vocab *v)
{
	return &v->info;
}

const char *const *vocab_pre_names(void)
{
	return pretok_names();
}

int32_t vocab_find(const struct vocab *v, const char *text, size_t len)
{
	return len ? vocab_lookup(v, text, len) : -1;
}

int vocab_is_end(const struct vocab *v, int32_t id)
{
	for (int i = 0; i < v->n_end; i++)
		if (v->end[i] == id)
			return 1;
	return 0;
}

/* ---- encode ---- */

/* Return the longest special token that begins at text[pos] and ends at or before byte len, or NULL if there is none.
 * Control and unknown tokens must also end at or before byte `trusted`. */
static const struct special *special_at(const struct vocab *v, const char *text, size_t pos, size_t len, size_t trusted)
{
	unsigned char c = (unsigned char)text[pos];
	int32_t lo = v->special_from[c], hi = v->special_from[c + 1];
	const struct special *best = NULL;

	/* The special tokens from index lo to hi - 1 of special[] begin with the n bytes from text[pos] on. */
	for (size_t n = 1; lo < hi; n++) {
		int32_t a, b;
		if (v->special[lo].n == n) {
			if (v->special[lo].user || pos + n <= trusted)
				best = &v->special[lo];
			lo++;
		}
		if (lo == hi || pos + n >= len)
			break;
		c = (unsigned char)text[pos + n];
		for (a = lo, b = hi; a < b;) {
			int32_t mid = a + (b - a) / 2;
			if ((unsigned char)v->special[mid].p[n] < c)
				a = mid + 1;
			else
				b = mid;
		}
		lo = a;
		for (b = hi; a < b;) {
			int32_t mid = a + (b - a) / 2;
			if ((unsigned char)v->special[mid].p[n] <= c)
				a = mid + 1;
			else
				b = mid;
		}
		hi = a;
	}
	return best;
}

static atomic_ullong encoded_bytes;

uint64_t vocab_encoded(void)
{
	return atomic_load_explicit(&encoded_bytes, memory_order_relaxed);
}

static int encode_run(struct encoder *e, const char *s, size_t n, int begins)
{
	if (!n)
		return 0;
	e->text = s;
	switch (e->v->kind) {
	case KIND_BPE: return bpe_encode(e, s, n);
	case KIND_SPM: return spm_encode(e, s, n, begins && e->v->add_space);
	case KIND_UNIGRAM: return unigram_encode(e, s, n, begins);
	case KIND_WORDPIECE: break;
	}
	return wordpiece_encode(e, s, n);
}

int vocab_encode(const struct vocab *v, const char *text, size_t len, const struct span *special, size_t n_special,
                 struct tokens *out, struct err *err)
{
	return vocab_encode_ends(v, text, len, special, n_special, 0, out, NULL, err);
}

int vocab_encode_ends(const struct vocab *v, const char *text, size_t len, const struct span *special, size_t n_special,
                      int continues, struct tokens *out, struct token_ends *ends, struct err *err)
{
	struct encoder e = { .v = v, .out = out, .err = err, .ends = ends };
	size_t n_before = out->n, n_ends = ends ? ends->n : 0, from = 0, pos = 0, next = 0, start = 0, end = 0;
	int bad = 0, space = !continues;

	atomic_fetch_add_explicit(&encoded_bytes, len, memory_order_relaxed);
	if (len > TEXT_BYTES_MAX)
		return err_set(err, ERR_FIT, "a text of %zu bytes is too long to encode at once, allowed are %d", len,
		               TEXT_BYTES_MAX);
	for (size_t i = 0; i < n_special; i++)
		if (special[i].len > len || special[i].off > len - special[i].len ||
		    (i && special[i].off < special[i - 1].off + special[i - 1].len))
			return err_set(err, ERR_USAGE,
			               "special range %zu is not inside the text or not behind the range before it", i);

	while (!bad && pos < len) {
		const struct special *s;
		/* Set `start` and `end` to the first trusted range that ends after pos. Adjacent ranges are joined. */
		while (next < n_special && pos >= end) {
			start = special[next].off;
			end = start + special[next++].len;
			while (next < n_special && special[next].off == end)
				end += special[next++].len;
		}
		s = special_at(v, text, pos, len, pos >= start && pos < end ? end : 0);
		if (!s) {
			pos++;
			continue;
		}
		e.at = from;
		bad = encode_run(&e, text + from, pos - from, space);
		if (!bad)
			tokens_add(out, s->id);
		if (!bad && ends)
			token_ends_add(ends, pos + s->n);
		space = !s->user;
		from = pos += s->n;
	}
	e.at = from;
	bad = bad || encode_run(&e, text + from, len - from, space);
	if (bad)
		out->n = n_before;
	if (bad && ends)
		ends->n = n_ends;
	free(e.sym);
	free(e.heap);
	free(e.seen);
	free(e.run);
	free(e.run_end);
	free(e.cut);
	return bad ? -1 : 0;
}

/* ---- where a text may be split ---- */

int vocab_cuts(const struct vocab *v, const char *text, size_t len, size_t at)
{
	size_t from;
	int32_t cp;

	if (!v->cuts || !at || at + 1 >= len ||
	    (v->marks ? text[at] != ' ' || !v->words_apart : text[at] != ' ' && text[at] != '\n'))
		return 0;
	from = utf8_prev(text, 0, at);
	if (utf8_decode(text + from, at - from, &cp) != (int)(at - from) || !utf8_is_letter(cp))
		return 0;
	utf8_decode(text + at + 1, len - at - 1, &cp);
	return utf8_is_letter(cp);
}

int vocab_is_control(const struct vocab *v, int32_t id)
{
	return id >= 0 && id < v->info.n && v->type[id] == TOKEN_CONTROL;
}
