/* engine/token.c - encoding of text that contains special tokens, and decoding.
 *
 * The text is cut at special tokens: user-defined ones anywhere, control and unknown tokens where their whole text lies inside a
 * range that the caller trusts; adjacent ranges count as one.  Matches are taken from left to right, the longest at each place.
 * The text between two matches is one run of plain text for the tokenizer.
 *
 * SentencePiece puts a space before a run at the start of the text and after a control token, because models were trained so.  It
 * treats a user-defined token as part of the text and puts no space after it. */
#include "engine/token_private.h"

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

/* The longest special token at text[pos] that ends by len; a control token must end by `trusted`.  NULL = none. */
static const struct special *special_at(const struct vocab *v, const char *text, size_t pos, size_t len,
                                        size_t trusted)
{
	unsigned char c = (unsigned char)text[pos];
	int32_t lo = v->special_from[c], hi = v->special_from[c + 1];
	const struct special *best = NULL;

	/* special[lo..hi) agree with the text in their first n bytes. */
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
		for (a = lo, b = hi; a < b; ) {
			int32_t mid = a + (b - a) / 2;
			if ((unsigned char)v->special[mid].p[n] < c)
				a = mid + 1;
			else
				b = mid;
		}
		lo = a;
		for (b = hi; a < b; ) {
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

static int encode_run(struct encoder *e, const char *s, size_t n, int space)
{
	if (!n)
		return 0;
	return e->v->spm ? spm_encode(e, s, n, space && e->v->add_space) : bpe_encode(e, s, n);
}

int vocab_encode(const struct vocab *v, const char *text, size_t len,
                 const struct span *special, size_t n_special, struct tokens *out, struct err *err)
{
	struct encoder e = { .v = v, .out = out, .err = err };
	size_t n_before = out->n, from = 0, pos = 0, next = 0, start = 0, end = 0;
	int bad = 0, space = 1;

	if (len > TEXT_BYTES_MAX)
		return err_set(err, ERR_FIT,
		               "a text of %zu bytes is too long to encode at once, allowed are %d",
		               len, TEXT_BYTES_MAX);
	for (size_t i = 0; i < n_special; i++)
		if (special[i].len > len || special[i].off > len - special[i].len ||
		    (i && special[i].off < special[i - 1].off + special[i - 1].len))
			return err_set(err, ERR_USAGE,
			               "special range %zu is not inside the text or not behind the range before it", i);

	while (!bad && pos < len) {
		const struct special *s;
		/* start..end: the range at or after pos, joined with those adjacent to it. */
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
		bad = encode_run(&e, text + from, pos - from, space);
		if (!bad)
			tokens_add(out, s->id);
		space = !s->user;
		from = pos += s->n;
	}
	bad = bad || encode_run(&e, text + from, len - from, space);
	if (bad)
		out->n = n_before;
	free(e.sym);
	free(e.heap);
	free(e.seen);
	free(e.run);
	return bad ? -1 : 0;
}

/* ---- decode ---- */

struct piece { char *buf; size_t cap, n; };

static void piece_add(struct piece *p, const char *s, size_t n)
{
	if (p->n < p->cap)
		memcpy(p->buf + p->n, s, n < p->cap - p->n ? n : p->cap - p->n);
	p->n += n;
}

size_t vocab_piece(const struct vocab *v, int32_t id, int with_special, char *buf, size_t cap)
{
	struct piece p = { buf, cap, 0 };
	const char *s;
	size_t n, i = 0;

	if (id < 0 || id >= v->info.n)
		return 0;
	s = v->text + v->off[id];
	n = v->off[id + 1] - v->off[id];
	switch (v->type[id]) {
	case TOKEN_CONTROL:
	case TOKEN_UNKNOWN:
		if (with_special)
			piece_add(&p, s, n);
		return p.n;
	case TOKEN_BYTE:
		if (v->spm) {
			char c = (char)token_byte(s, n);
			piece_add(&p, &c, 1);
			return p.n;
		}
		break;
	case TOKEN_USER:
		if (!v->spm) {
			piece_add(&p, s, n);
			return p.n;
		}
		break;
	}
	while (i < n) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(s + i, n - i, &cp);
		int b = v->spm || cp < 0 ? -1 : char_byte(cp);
		char c = (char)b;
		if (v->spm && cp == 0x2581)
			piece_add(&p, " ", 1);
		else if (b >= 0)
			piece_add(&p, &c, 1);
		else
			piece_add(&p, s + i, len);
		i += len;
	}
	return p.n;
}
