/* engine/token.c - encoding of text that contains special tokens, and decoding.
 *
 * The text is cut at special tokens: user-defined ones anywhere, control and unknown tokens where their whole text lies inside a
 * range that the caller trusts; adjacent ranges count as one.  Matches are taken from left to right, the longest at each place.
 * The text between two matches is one run of plain text for the tokenizer.
 *
 * SentencePiece puts a space before a run at the start of the text and after a control token, because models were trained so.  It
 * treats a user-defined token as part of the text and puts no space after it. */
#include "engine/token_private.h"

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

static atomic_ullong encoded_bytes;

uint64_t vocab_encoded(void)
{
	return atomic_load_explicit(&encoded_bytes, memory_order_relaxed);
}

void token_ends_add(struct token_ends *e, size_t at)
{
	if (e->n == e->cap) {
		e->cap = e->cap ? e->cap * 2 : 64;
		e->at = xrealloc(e->at, e->cap * sizeof *e->at);
	}
	e->at[e->n++] = (uint32_t)at;
}

/* The byte behind a token that begins at byte `at` of the run.  SentencePiece has the same token for a space and for a space mark in the
 * text. */
static ptrdiff_t token_end(const struct encoder *e, int32_t id, ptrdiff_t at, ptrdiff_t to)
{
	char piece[256];
	size_t n = vocab_piece(e->v, id, 0, piece, sizeof piece);

	if (!e->v->spm || n > sizeof piece)
		return at + (ptrdiff_t)n;
	for (size_t i = 0; i < n; i++)
		at += piece[i] == ' ' && at >= 0 && to - at >= 3 && !memcmp(e->text + at, SPACE_MARK, 3) ? 3 : 1;
	return at;
}

void note_ends(struct encoder *e, size_t out_at, ptrdiff_t from, size_t to)
{
	for (size_t i = out_at; e->ends && i < e->out->n; i++) {
		from = token_end(e, e->out->id[i], from, (ptrdiff_t)to);
		if (i + 1 == e->out->n || from > (ptrdiff_t)to)
			from = (ptrdiff_t)to;
		token_ends_add(e->ends, e->at + (size_t)from);
	}
}

static int encode_run(struct encoder *e, const char *s, size_t n, int space)
{
	if (!n)
		return 0;
	e->text = s;
	return e->v->spm ? spm_encode(e, s, n, space && e->v->add_space) : bpe_encode(e, s, n);
}

int vocab_encode(const struct vocab *v, const char *text, size_t len,
                 const struct span *special, size_t n_special, struct tokens *out, struct err *err)
{
	return vocab_encode_ends(v, text, len, special, n_special, 0, out, NULL, err);
}

int vocab_encode_ends(const struct vocab *v, const char *text, size_t len, const struct span *special, size_t n_special, int continues,
                      struct tokens *out, struct token_ends *ends, struct err *err)
{
	struct encoder e = { .v = v, .out = out, .err = err, .ends = ends };
	size_t n_before = out->n, n_ends = ends ? ends->n : 0, from = 0, pos = 0, next = 0, start = 0, end = 0;
	int bad = 0, space = !continues;

	atomic_fetch_add_explicit(&encoded_bytes, len, memory_order_relaxed);
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
	return bad ? -1 : 0;
}

/* ---- where a text may be cut ---- */

/* Only what is a letter in every edition of Unicode and in every tokenizer. */
static int is_letter(int32_t cp)
{
	static const int32_t range[][2] = {
		{'A', 'Z'}, {'a', 'z'}, {0xc0, 0xd6}, {0xd8, 0xf6}, {0xf8, 0x24f}, {0x391, 0x3a1}, {0x3a3, 0x3c9}, {0x400, 0x481},
		{0x48a, 0x52f}, {0x5d0, 0x5ea}, {0x620, 0x64a}, {0x3041, 0x3096}, {0x30a1, 0x30fa}, {0x4e00, 0x9fa5}, {0xac00, 0xd7a3},
	};

	for (size_t i = 0; i < sizeof range / sizeof *range; i++)
		if (cp >= range[i][0] && cp <= range[i][1])
			return 1;
	return 0;
}

int vocab_cuts(const struct vocab *v, const char *text, size_t len, size_t at)
{
	size_t from = at;
	int32_t cp;

	if (!v->cuts || !at || at + 1 >= len || (v->spm ? text[at] != ' ' || !v->words_apart : text[at] != ' ' && text[at] != '\n'))
		return 0;
	do
		from--;
	while (from && at - from < 4 && ((unsigned char)text[from] & 0xc0) == 0x80);
	if (utf8_decode(text + from, at - from, &cp) != (int)(at - from) || !is_letter(cp))
		return 0;
	utf8_decode(text + at + 1, len - at - 1, &cp);
	return is_letter(cp);
}

int vocab_is_control(const struct vocab *v, int32_t id)
{
	return id >= 0 && id < v->info.n && v->type[id] == TOKEN_CONTROL;
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
