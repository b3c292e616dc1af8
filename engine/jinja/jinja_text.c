/* engine/jinja/jinja_text.c - strings of the Jinja interpreter: lists of pieces, each with its origin.
 *
 * Text of a message is not copied, so pieces of the output still point into the message. Some operations need all bytes
 * of a string in one array: they work on the copy that text_flat() makes, and then text_sub() takes the result from the
 * original pieces. */
#include "engine/jinja/jinja_private.h"
#include "engine/base/utf8.h"

#include <string.h>

/* ---- pieces ---- */

void pieces_add(struct work *w, struct pieces *o, const char *p, size_t n, int32_t from)
{
	struct jinja_piece *last = o->n ? &o->v[o->n - 1] : NULL;

	if (!n)
		return;
	o->bytes += n;
	if (last && last->from == from && last->p + last->n == p) {
		last->n += n;
		return;
	}
	o->v = work_grow(w, o->v, o->n, &o->cap, sizeof *o->v);
	o->v[o->n++] = (struct jinja_piece){ p, n, from };
}

void pieces_text(struct work *w, struct pieces *o, const struct text *t, size_t from, size_t n)
{
	work_spend(w, t->n_piece / 8);
	for (size_t i = 0; i < t->n_piece && n; i++) {
		const struct jinja_piece *x = &t->v[i];
		size_t part;

		if (from >= x->n) {
			from -= x->n;
			continue;
		}
		part = x->n - from < n ? x->n - from : n;
		pieces_add(w, o, x->p + from, part, x->from);
		n -= part;
		from = 0;
	}
}

struct value text_value(struct work *w, const char *p, size_t n, int32_t from)
{
	struct text *t = work_alloc(w, sizeof *t);

	*t = (struct text){ .n = n, .n_piece = n != 0, .flat = n ? p : "", .one = { p, n, from } };
	t->v = &t->one;
	return (struct value){ .kind = V_TEXT, .text = t };
}

struct value text_word(struct work *w, const char *s)
{
	return text_value(w, s, strlen(s), JINJA_TEMPLATE);
}

struct value text_pieces(struct work *w, struct pieces *o)
{
	struct text *t;

	if (o->n < 2)
		return o->n ? text_value(w, o->v->p, o->v->n, o->v->from) : text_word(w, "");
	t = work_alloc(w, sizeof *t);
	*t = (struct text){ .v = o->v, .n_piece = o->n, .n = o->bytes };
	return (struct value){ .kind = V_TEXT, .text = t };
}

const char *text_flat(struct work *w, struct value v)
{
	struct text *t = (struct text *)(uintptr_t)v.text;
	char *s, *o;

	work_spend(w, t->n / 256);
	if (t->flat)
		return t->flat;
	t->flat = s = o = work_alloc(w, t->n + 1);
	for (size_t i = 0; i < t->n_piece; i++) {
		memcpy(o, t->v[i].p, t->v[i].n);
		o += t->v[i].n;
	}
	return s;
}

char *text_zero(struct work *w, struct value v)
{
	return work_copy(w, text_flat(w, v), v.text->n);
}

struct value text_cat(struct work *w, struct value a, struct value b)
{
	const struct text *x = a.text, *y = b.text;
	struct pieces *g = x->grow;
	struct text *t;
	size_t i = 0;

	if (!x->n || !y->n)
		return x->n ? a : b;
	work_spend(w, y->n_piece / 8);
	/* If the pieces of string `a` are the last ones in their array, append the pieces of string `b` to that
	 * array. Otherwise first copy the pieces of `a` to a new array. */
	if (!g || g->v != x->v || g->n != x->n_piece) {
		g = work_alloc(w, sizeof *g);
		work_spend(w, x->n_piece / 8);
		g->cap = 2 * x->n_piece + y->n_piece;
		g->v = work_array(w, g->cap, sizeof *g->v);
		memcpy(g->v, x->v, x->n_piece * sizeof *g->v);
		g->n = x->n_piece;
	}
	for (; i < y->n_piece; i++) {
		g->v = work_grow(w, g->v, g->n, &g->cap, sizeof *g->v);
		g->v[g->n++] = y->v[i];
	}
	t = work_alloc(w, sizeof *t);
	*t = (struct text){ .v = g->v, .n_piece = g->n, .n = x->n + y->n, .grow = g };
	return (struct value){ .kind = V_TEXT, .text = t };
}

struct value text_sub(struct work *w, struct value v, size_t from, size_t n)
{
	struct pieces o = { .n = 0 };

	if (!from && n == v.text->n)
		return v;
	if (v.text->n_piece == 1)
		return text_value(w, v.text->v->p + from, n, v.text->v->from);
	pieces_text(w, &o, v.text, from, n);
	return text_pieces(w, &o);
}

int text_is(struct work *w, struct value v, const char *word)
{
	return v.kind == V_TEXT && v.text->n == strlen(word) && !memcmp(text_flat(w, v), word, v.text->n);
}

/* ---- characters ---- */

static size_t char_bytes(const char *p, size_t n)
{
	int32_t cp;

	return (unsigned char)*p < 0x80 ? 1 : (size_t)utf8_decode(p, n, &cp);
}

size_t text_length(struct work *w, struct value v)
{
	const char *p = text_flat(w, v);
	size_t n = v.text->n, at = 0, k = 0;

	work_spend(w, n / 32);
	for (; at < n; k++)
		at += char_bytes(p + at, n - at);
	return k;
}

size_t text_byte(struct work *w, struct value v, size_t character)
{
	const char *p = text_flat(w, v);
	size_t n = v.text->n, at = 0;

	for (size_t k = 0; k < character && at < n; k++)
		at += char_bytes(p + at, n - at);
	work_spend(w, at / 32);
	return at;
}

size_t blank_at(const char *p, size_t n)
{
	int32_t cp;
	size_t len;

	if (!n)
		return 0;
	if ((unsigned char)*p < 0x80)
		return byte_is_python_blank(*p);
	len = (size_t)utf8_decode(p, n, &cp);
	return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 ||
	                       cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000
	               ? len
	               : 0;
}

/* If the first character of the n bytes at p is in `chars`, return its length in bytes. Otherwise return 0. If `chars`
 * is NULL, it stands for all white space. */
static size_t stripped_at(const char *p, size_t n, const char *chars, size_t n_chars)
{
	size_t len;

	if (!chars)
		return blank_at(p, n);
	if (!n)
		return 0;
	len = char_bytes(p, n);
	for (size_t i = 0; i < n_chars; i += char_bytes(chars + i, n_chars - i))
		if (n_chars - i >= len && char_bytes(chars + i, n_chars - i) == len && !memcmp(chars + i, p, len))
			return len;
	return 0;
}

struct value text_strip(struct work *w, struct value v, int sides, struct value set)
{
	const char *p = text_flat(w, v), *chars = set.kind == V_TEXT ? text_flat(w, set) : NULL;
	size_t n_chars = chars ? set.text->n : 0, from = 0, to = v.text->n, len;

	if (set.kind != V_TEXT && set.kind != V_NONE)
		jinja_fail(w, "strip() takes a string, not %s", kind_name(set));
	while ((sides & 1) && (len = stripped_at(p + from, to - from, chars, n_chars))) {
		work_spend(w, 1 + n_chars / 8);
		from += len;
	}
	/* At the right end, first find where the last character begins, and then test it. */
	while ((sides & 2) && to > from) {
		size_t first = utf8_prev(p, from, to);

		if (char_bytes(p + first, to - first) != to - first)
			first = to - 1;
		if (!stripped_at(p + first, to - first, chars, n_chars))
			break;
		work_spend(w, 1 + n_chars / 8);
		to = first;
	}
	return text_sub(w, v, from, to - from);
}

size_t text_find(struct work *w, struct value v, struct value sub, size_t from)
{
	const char *p = text_flat(w, v), *q = text_flat(w, sub), *hit;

	if (from > v.text->n)
		return SIZE_MAX;
	hit = sub.text->n ? memmem(p + from, v.text->n - from, q, sub.text->n) : p + from;
	work_spend(w, (hit ? (size_t)(hit - p) - from : v.text->n - from) / 256);
	return hit ? (size_t)(hit - p) : SIZE_MAX;
}

struct value text_replace(struct work *w, struct value v, struct value old, struct value new, int64_t most)
{
	struct pieces o = { .n = 0 };
	size_t at = 0, n = v.text->n, hit;

	for (; most; most -= most > 0) {
		work_spend(w, 1);
		hit = text_find(w, v, old, at);
		if (hit == SIZE_MAX || (!old.text->n && at > n))
			break;
		pieces_text(w, &o, v.text, at, hit - at);
		pieces_text(w, &o, new.text, 0, new.text->n);
		at = hit + old.text->n;
		if (!old.text->n) {
			/* As in Python, the empty string occurs before each character and at the end. */
			size_t len = at < n ? char_bytes(text_flat(w, v) + at, n - at) : 0;

			pieces_text(w, &o, v.text, at, len);
			at += len ? len : 1;
		}
	}
	if (at < n)
		pieces_text(w, &o, v.text, at, n - at);
	return text_pieces(w, &o);
}

/* ---- upper and lower case of ASCII letters ---- */

struct value text_case(struct work *w, struct value v, char how)
{
	struct pieces o = { .n = 0 };
	/* 1: the next byte is inside a word; 0: the next byte begins a word. If `how` is 'c' (capitalize()), the whole
	 * text counts as one word. */
	int inside = 0;

	work_spend(w, v.text->n / 32);
	for (size_t k = 0; k < v.text->n_piece; k++) {
		const struct jinja_piece *x = &v.text->v[k];
		char *s = work_copy(w, x->p, x->n);
		int changed = 0;

		for (size_t i = 0; i < x->n; i++) {
			int upper = how == 'u' || (how != 'l' && !inside);

			if (upper && s[i] >= 'a' && s[i] <= 'z')
				s[i] -= 32, changed = 1;
			else if (!upper && s[i] >= 'A' && s[i] <= 'Z')
				s[i] += 32, changed = 1;
			inside = how == 'c' ||
			         (how == 't' ? byte_is_letter(s[i]) : !strchr("-({[< \t\n\r\v\f", s[i]) || !s[i]);
		}
		pieces_add(w, &o, changed ? s : x->p, x->n, changed && x->from >= 0 ? JINJA_MIXED : x->from);
	}
	return text_pieces(w, &o);
}

int text_cased(struct work *w, struct value v, char how)
{
	int letters = !values_equal(w, text_case(w, v, 'u'), text_case(w, v, 'l'));

	return letters && values_equal(w, v, text_case(w, v, how));
}
