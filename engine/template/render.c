/* engine/template/render.c - turns a conversation into tokens, again after each change.
 *
 * Rendering the text takes little time, tokenizing it takes much. So the new text is compared with the text of the last
 * rendering. Tokens of the common beginning and of the common end are copied, and only the text between these two is
 * tokenized.
 *
 * Tokens depend on the text around them. So the text that is tokenized begins and ends at a "cut", which is an offset
 * where the text can be split without changing its tokens: the end of an answer with sampled ids, the start of a
 * control token, or the end of a word (vocab_cuts()). */
#include "engine/template/chat.h"

#include <stdlib.h>
#include <string.h>

#include "engine/token/token.h"

/* An answer that keeps the ids with which it was sampled. */
struct verbatim {
	size_t off, len; /* range of the text */
	/* index of the answer's first token in the sequence; before render_tokens(), index of the message with the
	 * answer */
	size_t first;
	size_t n_id; /* number of sampled ids of the answer */
};

struct rendered_text {
	struct chat_text t;
	struct verbatim *verb; /* the answers with sampled ids, in the order of the text */
	size_t n_verb;
	/* number of tokens before the tokens of the text; 1: there is a BOS, which was added because the template does
	 * not write one; 0: there is none */
	size_t lead;
};

static void text_free(struct rendered_text *x)
{
	if (!x)
		return;
	chat_text_free(&x->t);
	free(x->verb);
	free(x);
}

void rendered_free(struct rendered *r)
{
	tokens_free(&r->id);
	free(r->end);
	free(r->range);
	text_free(r->text);
	*r = (struct rendered){ .n_msg = 0 };
}

/* ---- the text ---- */

/* 1 if a control token of the template begins at byte `at`. Also 1 if `at` is the end of the text. */
static int control_at(const struct vocab *v, const struct chat_text *t, size_t at)
{
	size_t span = 0, n;

	if (at == t->text.n)
		return 1;
	while (span < t->n_special && t->special[span].off + t->special[span].len <= at)
		span++;
	if (span == t->n_special || t->special[span].off > at)
		return 0;
	n = t->special[span].off + t->special[span].len - at;
	for (size_t k = 1; k <= n && k <= 64; k++) {
		int32_t id = vocab_find(v, t->text.p + at, k);
		if (id >= 0 && !vocab_piece(v, id, 0, NULL, 0))
			return 1;
	}
	return 0;
}

/* Fill verb[] with the answers whose text the template does not change. These answers keep their sampled ids. (Encoding
 * the text again could give other ids; the KV entries from there on would then have to be recomputed.) With
 * SentencePiece a control token must follow the answer. Otherwise the text after the answer would get a space before
 * it, as at the start of a text. */
static void find_verbatim(struct rendered_text *x, int base, const struct vocab *v, const struct chat_msg *m,
                          const struct text_range *range, size_t n)
{
	int spm = !strcmp(vocab_info(v)->model, "llama");

	x->verb = xcalloc(n + 1, sizeof *x->verb);
	for (size_t i = 0; i < n; i++) {
		if (!m[i].n_id || m[i].role != ROLE_ASSISTANT || range[i].at == SIZE_MAX || range[i].from ||
		    range[i].n != m[i].len)
			continue;
		if (spm && !base && !control_at(v, &x->t, range[i].at + m[i].len))
			continue;
		x->verb[x->n_verb++] =
			(struct verbatim){ .off = range[i].at, .len = m[i].len, .n_id = m[i].n_id, .first = i };
	}
}

/* ---- the common beginning and end of two texts ---- */


static size_t span_end(const struct span *s)
{
	return s->off + s->len;
}

/* Return the length in bytes of the common beginning of texts `a` and `b`. In this beginning, the bytes, the ranges of
 * the template's own text and the sampled ids are equal. id_a[] has the tokens of `a`, and m[] the messages of `b`. */
static size_t common_front(const struct rendered_text *a, const int32_t *id_a, const struct rendered_text *b,
                           const struct chat_msg *m)
{
	size_t most = MIN(a->t.text.n, b->t.text.n), n = 0, i;

	while (n + 4096 <= most && !memcmp(a->t.text.p + n, b->t.text.p + n, 4096))
		n += 4096;
	while (n < most && a->t.text.p[n] == b->t.text.p[n])
		n++;
	for (i = 0; i < a->t.n_special && i < b->t.n_special; i++) {
		const struct span *x = &a->t.special[i], *y = &b->t.special[i];

		if (x->off != y->off || x->len != y->len) {
			n = MIN(n, x->off != y->off ? MIN(x->off, y->off) : MIN(span_end(x), span_end(y)));
			break;
		}
	}
	if (i == a->t.n_special || i == b->t.n_special)
		n = MIN(n, i < a->t.n_special ? a->t.special[i].off : i < b->t.n_special ? b->t.special[i].off : n);
	for (i = 0; i < a->n_verb || i < b->n_verb; i++) {
		const struct verbatim *x = i < a->n_verb ? &a->verb[i] : NULL, *y = i < b->n_verb ? &b->verb[i] : NULL;

		if (x && y && x->off == y->off && x->len == y->len && x->n_id == y->n_id &&
		    !memcmp(id_a + x->first, m[y->first].id, x->n_id * sizeof *id_a))
			continue;
		return MIN(n, MIN(x ? x->off : SIZE_MAX, y ? y->off : SIZE_MAX));
	}
	return n;
}

/* Return the length in bytes of the common end of texts `a` and `b`, but at most `most`. In this end, the bytes, the
 * ranges of the template's own text and the sampled ids are equal. id_a[] has the tokens of `a`, and m[] the messages
 * of `b`. */
static size_t common_back(const struct rendered_text *a, const int32_t *id_a, const struct rendered_text *b,
                          const struct chat_msg *m, size_t most)
{
	size_t len_a = a->t.text.n, len_b = b->t.text.n, n = 0, i;

	while (n + 4096 <= most && !memcmp(a->t.text.p + len_a - n - 4096, b->t.text.p + len_b - n - 4096, 4096))
		n += 4096;
	while (n < most && a->t.text.p[len_a - n - 1] == b->t.text.p[len_b - n - 1])
		n++;
	for (i = 1; i <= a->t.n_special || i <= b->t.n_special; i++) {
		const struct span *x = i <= a->t.n_special ? &a->t.special[a->t.n_special - i] : NULL;
		const struct span *y = i <= b->t.n_special ? &b->t.special[b->t.n_special - i] : NULL;
		size_t from_x = x ? len_a - span_end(x) : SIZE_MAX, from_y = y ? len_b - span_end(y) : SIZE_MAX;

		if (from_x != from_y) {
			n = MIN(n, MIN(from_x, from_y));
			break;
		}
		if (x->len != y->len) {
			n = MIN(n, from_x + MIN(x->len, y->len));
			break;
		}
	}
	for (i = 1; i <= a->n_verb || i <= b->n_verb; i++) {
		const struct verbatim *x = i <= a->n_verb ? &a->verb[a->n_verb - i] : NULL,
				      *y = i <= b->n_verb ? &b->verb[b->n_verb - i] : NULL;
		size_t from_x = x ? len_a - x->off - x->len : SIZE_MAX, from_y = y ? len_b - y->off - y->len : SIZE_MAX;

		if (x && y && from_x == from_y && x->len == y->len && x->n_id == y->n_id &&
		    !memcmp(id_a + x->first, m[y->first].id, x->n_id * sizeof *id_a))
			continue;
		return MIN(n, MIN(from_x, from_y));
	}
	return n;
}

/* Return the number of tokens of r that end at or before byte `at`. */
static size_t tokens_until(const struct rendered *r, size_t at)
{
	size_t lo = 0, hi = r->id.n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (r->end[mid] <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Return the sampled answer that contains byte `at`, or that begins or ends there. Return NULL if there is none. */
static const struct verbatim *verbatim_over(const struct rendered_text *x, size_t at)
{
	for (size_t i = 0; i < x->n_verb; i++)
		if (x->verb[i].off <= at && at <= x->verb[i].off + x->verb[i].len)
			return &x->verb[i];
	return NULL;
}

static int verbatim_begins(const struct rendered_text *x, size_t at)
{
	for (size_t i = 0; i < x->n_verb; i++)
		if (x->verb[i].off == at)
			return 1;
	return 0;
}

static int verbatim_ends(const struct rendered_text *x, size_t at)
{
	for (size_t i = 0; i < x->n_verb; i++)
		if (x->verb[i].off + x->verb[i].len == at)
			return 1;
	return 0;
}

/* A cut: an offset at which the text may be split without changing its tokens. */
struct cut {
	size_t token;  /* number of tokens before the cut */
	size_t at;     /* offset of the cut in the text */
	int continues; /* 1: the text before the cut and the text after the cut are plain text */
};

/* The first `most` bytes of r's text and of the new text `next` are the same. Return the last cut in these bytes. (A
 * cut is an offset at which text can be split without changing its tokens.) It must be a cut of both texts. If `next`
 * is NULL, the new text is unknown, and the result must be a cut for any text that may follow. */
static struct cut cut_front(const struct rendered *r, const struct vocab *v, const struct rendered_text *next,
                            size_t most)
{
	const struct rendered_text *x = r->text;

	/* If `next` is the whole text of r followed by a sampled answer, keep all tokens of r. */
	if (next && most == x->t.text.n && verbatim_begins(next, most))
		return (struct cut){ .token = r->id.n, .at = most };
	for (size_t k = tokens_until(r, most); k > x->lead; k--) {
		size_t at = r->end[k - 1];
		const struct verbatim *in = verbatim_over(x, at);

		if (in && in->len && in->off + in->len <= most)
			return (struct cut){ .token = in->first + in->n_id, .at = in->off + in->len };
		if (in && next && verbatim_begins(next, in->off))
			return (struct cut){ .token = in->first, .at = in->off };
		if (in)
			continue;
		if (k < r->id.n && vocab_is_control(v, r->id.id[k]) && r->end[k] <= most)
			return (struct cut){ .token = k, .at = at };
		if (vocab_cuts(v, x->t.text.p, most, at))
			return (struct cut){ .token = k, .at = at, .continues = 1 };
	}
	return (struct cut){ .token = x->lead };
}

/* The last `most` bytes of r's text and of the new text `next` are the same. Return the first cut in these bytes. (A
 * cut is an offset at which text can be split without changing its tokens.) It must be a cut for any text before these
 * bytes. */
static struct cut cut_back(const struct rendered *r, const struct vocab *v, const struct rendered_text *next,
                           size_t most)
{
	const struct rendered_text *x = r->text;
	size_t first = x->t.text.n - most;

	for (size_t k = tokens_until(r, first ? first - 1 : 0); k < r->id.n; k++) {
		size_t at = k ? r->end[k - 1] : 0;
		const struct verbatim *in = verbatim_over(x, at);

		if (in && in->off > first)
			return (struct cut){ .token = in->first, .at = in->off };
		if (in && in->off + in->len >= first &&
		    verbatim_ends(next, next->t.text.n - (x->t.text.n - in->off - in->len)))
			return (struct cut){ .token = in->first + in->n_id, .at = in->off + in->len };
		if (in && k < in->first + in->n_id)
			continue;
		if (at < first || k < x->lead)
			continue;
		if (vocab_is_control(v, r->id.id[k]))
			return (struct cut){ .token = k, .at = at };
		if (vocab_cuts(v, x->t.text.p + first, most, at - first))
			return (struct cut){ .token = k, .at = at };
	}
	return (struct cut){ .token = r->id.n, .at = x->t.text.n };
}

/* ---- tokens ---- */

/* The tokens of the new text: the ids, and the offset in the text at which each token ends. */
struct builder {
	struct tokens id;
	struct token_ends end;
};

/* Append the tokens of bytes `from` to `to` - 1 of text t. If `continues` is 1, the byte before them belongs to plain
 * text, too. */
static int encode_part(struct builder *b, const struct vocab *v, const struct chat_text *t, size_t from, size_t to,
                       int continues, struct err *e)
{
	size_t first = 0, last, done = b->end.n;
	struct span *part;
	int rc;

	if (from >= to)
		return 0;
	while (first < t->n_special && span_end(&t->special[first]) <= from)
		first++;
	for (last = first; last < t->n_special && t->special[last].off < to;)
		last++;
	part = xcalloc(last - first + 1, sizeof *part);
	for (size_t i = first; i < last; i++) {
		size_t a = t->special[i].off < from ? from : t->special[i].off, z = MIN(span_end(&t->special[i]), to);
		part[i - first] = (struct span){ a - from, z - a };
	}
	rc = vocab_encode_ends(v, t->text.p + from, to - from, part, last - first, continues, &b->id, &b->end, e);
	for (size_t i = done; i < b->end.n; i++)
		b->end.at[i] += (uint32_t)from;
	free(part);
	return rc;
}

/* Append the sampled ids of the answer `x`, which are in the message `m`. */
static void add_verbatim(struct builder *b, const struct vocab *v, struct verbatim *x, const struct chat_msg *m)
{
	size_t at = x->off;

	x->first = b->id.n;
	tokens_append(&b->id, m->id, m->n_id);
	for (size_t i = 0; i < m->n_id; i++) {
		at = MIN(at + vocab_piece(v, m->id[i], 0, NULL, 0), x->off + x->len);
		token_ends_add(&b->end, at);
	}
}

/* Append tokens `first` to `last` - 1 of r. Their text has moved by `moved` bytes, which are added to the offset of
 * each token's end. */
static void add_kept(struct builder *b, const struct rendered *r, size_t first, size_t last, size_t moved)
{
	if (first >= last)
		return;
	tokens_append(&b->id, r->id.id + first, last - first);
	for (size_t i = first; i < last; i++)
		token_ends_add(&b->end, r->end[i] + moved);
}

/* Append the tokens of bytes from.at to `to` - 1 of text x. The sampled answers in this range, x->verb[verb] to
 * x->verb[last - 1], keep their ids. The rest of the range is tokenized. */
static int add_new(struct builder *b, const struct vocab *v, struct rendered_text *x, const struct chat_msg *m,
                   size_t verb, size_t last, struct cut from, size_t to, struct err *e)
{
	for (; verb < last; verb++) {
		struct verbatim *y = &x->verb[verb];

		if (encode_part(b, v, &x->t, from.at, y->off, from.continues, e) < 0)
			return -1;
		add_verbatim(b, v, y, &m[y->first]);
		from = (struct cut){ .at = y->off + y->len };
	}
	return encode_part(b, v, &x->t, from.at, to, from.continues, e);
}

/* Return the number of sampled answers that begin before token number `token`. */
static size_t verbatim_before(const struct rendered_text *x, size_t token)
{
	size_t n = 0;

	while (n < x->n_verb && x->verb[n].first < token)
		n++;
	return n;
}

/* Append the tokens of the text `x`. Where `x` begins or ends like the text of the last rendering `r`, copy the tokens
 * of `r` instead of tokenizing. */
static int render_tokens(struct builder *b, const struct vocab *v, const struct rendered *r, struct rendered_text *x,
                         const struct chat_msg *m, struct err *e)
{
	const struct vocab_info *info = vocab_info(v);
	const struct rendered_text *old = r->text;
	struct cut first = { .token = 0 }, last = { .token = 0 };
	size_t to = x->t.text.n, before = 0, behind = 0;

	if (info->bos >= 0 && info->add_bos) {
		tokens_add(&b->id, info->bos);
		token_ends_add(&b->end, 0);
	}
	x->lead = b->id.n;
	if (old) {
		first = cut_front(r, v, x, common_front(old, r->id.id, x, m));
		last = cut_back(r, v, x, common_back(old, r->id.id, x, m, MIN(old->t.text.n, x->t.text.n) - first.at));
		to -= old->t.text.n - last.at;
		before = verbatim_before(old, first.token);
		behind = old->n_verb - verbatim_before(old, last.token);
		for (size_t i = 0; i < before; i++)
			x->verb[i].first = old->verb[i].first + x->lead - old->lead;
		add_kept(b, r, old->lead, first.token, 0);
	}
	if (add_new(b, v, x, m, before, x->n_verb - behind, first, to, e) < 0)
		return -1;
	if (old) {
		for (size_t i = 1; i <= behind; i++)
			x->verb[x->n_verb - i].first = old->verb[old->n_verb - i].first + b->id.n - last.token;
		add_kept(b, r, last.token, r->id.n, to - last.at);
	}
	/* the template has written a BOS of its own, so remove the BOS added above */
	if (x->lead && b->id.n >= 2 && b->id.id[1] == info->bos && x->t.n_special && !x->t.special[0].off) {
		memmove(b->id.id, b->id.id + 1, --b->id.n * sizeof *b->id.id);
		memmove(b->end.at, b->end.at + 1, --b->end.n * sizeof *b->end.at);
		for (size_t i = 0; i < x->n_verb; i++)
			x->verb[i].first--;
		x->lead = 0;
	}
	return 0;
}

int chat_render(const struct chat_template *f, const struct vocab *v, const struct chat_msg *m, size_t n,
                unsigned flags, const struct rendered *before, struct rendered *out, struct err *e)
{
	struct rendered_text *x = xcalloc(1, sizeof *x);
	struct text_range *range = xcalloc(n + 1, sizeof *range);
	const struct rendered none = { .n_msg = 0 };
	struct builder b = { 0 };
	int rc = chat_compose(f, v, m, n, flags, &x->t, range, e);

	if (!rc && x->t.text.n > UINT32_MAX)
		rc = err_set(e, ERR_FIT, "a conversation of %zu bytes is too long to render", x->t.text.n);
	if (!rc) {
		str_add(&x->t.text, "", 0);
		find_verbatim(x, !f, v, m, range, n);
		rc = render_tokens(&b, v, before && before->text ? before : &none, x, m, e);
	}
	if (rc < 0) {
		tokens_free(&b.id);
		free(b.end.at);
		free(range);
		text_free(x);
		return -1;
	}
	rendered_free(out);
	*out = (struct rendered){ .id = b.id, .end = b.end.at, .range = range, .n_msg = n, .text = x };
	return 0;
}

/* ---- the ranges of a message's text ---- */

/* Return the offset in the rendered text of byte `byte` of message i. Return SIZE_MAX if the template omits or changes
 * this byte. */
static size_t byte_of(const struct rendered *r, size_t i, size_t byte)
{
	const struct text_range *p = i < r->n_msg ? &r->range[i] : NULL;

	return p && p->at != SIZE_MAX && byte >= p->from && byte <= p->from + p->n ? p->at + byte - p->from : SIZE_MAX;
}

size_t rendered_token(const struct rendered *r, size_t i, size_t byte)
{
	size_t at = byte_of(r, i, byte);

	return at == SIZE_MAX ? SIZE_MAX : tokens_until(r, at);
}

/* Tokenize bytes `from.at` to `to` - 1 of text t, followed by the string `next`. Append the tokens to b. */
static int encode_with(struct builder *b, const struct vocab *v, const struct chat_text *t, struct cut from, size_t to,
                       const char *next, struct err *e)
{
	struct chat_text part = { 0 };
	int rc;

	for (size_t i = 0; i < t->n_special; i++) {
		struct span s = t->special[i];

		if (span_end(&s) <= from.at || s.off >= to)
			continue;
		s = (struct span){ s.off < from.at ? 0 : s.off - from.at, MIN(span_end(&s), to) - MAX(from.at, s.off) };
		part.special = xrealloc(part.special, (part.n_special + 1) * sizeof *part.special);
		part.special[part.n_special++] = s;
	}
	str_add(&part.text, t->text.p + from.at, to - from.at);
	str_adds(&part.text, next);
	rc = encode_part(b, v, &part, 0, part.text.n, from.continues, e);
	chat_text_free(&part);
	return rc;
}

/* Encode the text twice, once with "A" after it and once with "1". Tokens at the beginning that are equal in both
 * encodings do not depend on what follows the text. */
int rendered_stable(const struct rendered *r, const struct vocab *v, size_t i, size_t byte, struct tokens *out,
                    struct err *e)
{
	static const char *const next[2] = { "A", "1" };
	size_t at = byte_of(r, i, byte), n = 0;
	struct builder b[2] = { { .id = { 0 } }, { .id = { 0 } } };
	struct cut first;
	int rc = 0;

	if (at == SIZE_MAX)
		return 0;
	first = cut_front(r, v, NULL, at);
	for (int k = 0; k < 2 && !rc; k++)
		rc = encode_with(&b[k], v, &r->text->t, first, at, next[k], e);
	while (n < b[0].id.n && n < b[1].id.n && b[0].id.id[n] == b[1].id.id[n])
		n++;
	if (!rc) {
		tokens_append(out, r->id.id, first.token);
		tokens_append(out, b[0].id.id, n);
	}
	for (int k = 0; k < 2; k++) {
		tokens_free(&b[k].id);
		free(b[k].end.at);
	}
	return rc;
}

int rendered_count(const struct rendered *r, const struct vocab *v, size_t i, size_t from, size_t to, size_t *n,
                   struct err *e)
{
	size_t first = byte_of(r, i, from), end = byte_of(r, i, to), lo, hi;
	struct builder b = { 0 };
	const char *text;
	int rc;

	if (first == SIZE_MAX || end == SIZE_MAX)
		return err_set(e, ERR_USAGE, "the chat template changes the text of message %zu", i);
	/* Count the tokens of bytes `first` to `end` - 1 of the text. Between the first and the last cut inside this
	 * range, count tokens in r->id, which has the tokens of the whole text. (A cut is an offset at which text can
	 * be split without changing its tokens.) Only the text before the first cut and after the last cut is tokenized
	 * again. */
	text = r->text->t.text.p + first;
	lo = tokens_until(r, first);
	hi = tokens_until(r, end);
	while (lo < hi && !(r->end[lo] > first && vocab_cuts(v, text, end - first, r->end[lo] - first)))
		lo++;
	while (hi > lo && !vocab_cuts(v, text, end - first, r->end[hi - 1] - first))
		hi--;
	if (lo >= hi) {
		rc = encode_with(&b, v, &(struct chat_text){ .text = r->text->t.text }, (struct cut){ .at = first },
		                 end, "", e);
		*n = b.id.n;
	} else {
		rc = encode_with(&b, v, &(struct chat_text){ .text = r->text->t.text }, (struct cut){ .at = first },
		                 r->end[lo], "", e);
		if (!rc)
			rc = encode_with(&b, v, &(struct chat_text){ .text = r->text->t.text },
			                 (struct cut){ .at = r->end[hi - 1], .continues = 1 }, end, "", e);
		*n = b.id.n + hi - 1 - lo;
	}
	tokens_free(&b.id);
	free(b.end.at);
	return rc;
}

void rendered_add(struct rendered *r, const struct vocab *v, const char *text, size_t n, const int32_t *id, size_t n_id)
{
	struct token_ends end = { .at = r->end, .n = r->id.n, .cap = r->id.n };
	size_t at = 0, i, from;
	char piece[256];

	if (!r->text || !r->n_msg)
		return;
	from = r->text->t.text.n;
	/* Add the ids in order. Stop at the first id whose bytes are not the next bytes of the text. */
	for (i = 0; i < n_id; i++) {
		size_t len = vocab_piece(v, id[i], 0, piece, sizeof piece);

		if (!len || len > sizeof piece || len > n - at || memcmp(text + at, piece, len) != 0)
			break;
		at += len;
		token_ends_add(&end, from + at);
	}
	tokens_append(&r->id, id, i);
	str_add(&r->text->t.text, text, at);
	r->range[r->n_msg - 1].n += at;
	r->end = end.at;
}
