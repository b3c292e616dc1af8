/* engine/token/token_piece.c - computes the bytes of a token, and where in the text each token ends. */
#include "engine/token/token_private.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- one byte ---- */

/* Byte-level BPE stores a printable Latin-1 byte as the character itself. The other bytes are stored as U+0100, U+0101
 * and so on. */
int32_t byte_char(unsigned char b)
{
	if (b < 33)
		return 256 + b;
	if (b >= 127 && b <= 160)
		return 256 + 33 + (b - 127);
	return b == 173 ? 256 + 33 + 34 : b;
}

/* Return the byte for a code point of byte-level BPE, or -1 if the code point stands for no byte. */
static int char_byte(int32_t cp)
{
	if (cp >= 256 + 33 + 34)
		return cp == 256 + 33 + 34 ? 173 : -1;
	if (cp >= 256 + 33)
		return cp - 256 - 33 + 127;
	if (cp >= 256)
		return cp - 256;
	return cp < 33 || (cp >= 127 && cp <= 160) || cp == 173 ? -1 : cp;
}

int token_byte(const char *p, size_t n)
{
	char hex[3];
	if (n != 6 || memcmp(p, "<0x", 3) || p[5] != '>' || !isxdigit((unsigned char)p[3]) ||
	    !isxdigit((unsigned char)p[4]))
		return -1;
	hex[0] = p[3], hex[1] = p[4], hex[2] = 0;
	return (int)strtol(hex, NULL, 16);
}

/* ---- a token ---- */

struct piece {
	char *buf;
	size_t cap, n;
};

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
		for (int k = 0; k < v->n_mark && !with_special; k++)
			with_special = v->mark[k] == id;
		if (with_special)
			piece_add(&p, s, n);
		return p.n;
	case TOKEN_BYTE:
		if (v->marks) {
			char c = (char)token_byte(s, n);
			piece_add(&p, &c, 1);
			return p.n;
		}
		break;
	case TOKEN_USER:
		if (!v->marks) {
			piece_add(&p, s, n);
			return p.n;
		}
		break;
	}
	while (i < n) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(s + i, n - i, &cp);
		int b = v->marks || cp < 0 ? -1 : char_byte(cp);
		char c = (char)b;
		if (v->marks && cp == 0x2581)
			piece_add(&p, " ", 1);
		else if (b >= 0)
			piece_add(&p, &c, 1);
		else
			piece_add(&p, s + i, len);
		i += len;
	}
	return p.n;
}

/* ---- the ends of tokens ---- */

void token_ends_add(struct token_ends *e, size_t at)
{
	GROW(e->at, e->n, e->cap);
	e->at[e->n++] = (uint32_t)at;
}

/* Return the end of the token that begins at offset `at` of the run (plain text between two special tokens). With
 * SentencePiece, a space (1 byte) and a space mark (U+2581, 3 bytes) are both encoded as a space mark. So the text
 * decides the length of the token. */
static ptrdiff_t token_end(const struct encoder *e, int32_t id, ptrdiff_t at, ptrdiff_t to)
{
	char piece[256];
	size_t n = vocab_piece(e->v, id, 0, piece, sizeof piece);

	if (!e->v->marks || n > sizeof piece)
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

void run_note_ends(struct encoder *e, size_t out_at, size_t run_at)
{
	for (size_t i = out_at; e->ends && i < e->out->n; i++)
		token_ends_add(e->ends, e->at + e->run_end[run_at - 1]);
}
