/* app/talk_stream.c - a text without an end as one message of the user that grows (talk.h).
 *
 * The message is open while it is read: its end, and what the template writes behind it, follow with the question.  The tokens of a
 * piece are appended to the sequence as they come, so nothing is looked at twice, however long the text is:
 *
 *     message   |  cut, tokenised, in the cache  |  tokenised  |  not cut yet  |
 *                                                ^ pending     ^ at            ^ text.n
 *
 * A text in pieces must give the tokens of the whole, because the question renders the whole.  So it is cut only where every
 * tokenizer ends a word: between a letter and one blank or line break before another letter (in scripts without blanks, before a
 * mark that ends a clause).  Where that should fail nothing is wrong: the question then finds other tokens and reads from there on
 * again. */
#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "app/talk.h"

/* Text without any such place: bytes after which the lesser places count, and after which it is cut anywhere. */
enum { CARRY_MARKS = 1024, CARRY_MOST = 16384 };

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

/* The character that ends at p[end], end > 0; where it begins in *from. */
static int32_t char_before(const char *p, size_t end, size_t *from)
{
	size_t at = end - 1;
	int32_t cp;

	while (at && end - at < 4 && ((unsigned char)p[at] & 0xc0) == 0x80)
		at--;
	*from = at;
	return utf8_decode(p + at, end - at, &cp) == (int)(end - at) ? cp : -1;
}

static int is_mark(int32_t cp)
{
	return cp == 0x3001 || cp == 0x3002 || cp == 0xff01 || cp == 0xff0c || cp == 0xff1a || cp == 0xff1b || cp == 0xff1f;
}

size_t text_cut(const char *p, size_t from, size_t n)
{
	int marks = n - from > CARRY_MARKS;

	for (size_t at = n; at > from + 1; ) {
		size_t left, before;
		int32_t cp, next;

		cp = char_before(p, at, &left);
		at = left;
		if (left <= from)
			break;
		if (cp == ' ' || cp == '\n') {
			if (left + 1 == n)
				continue;
			utf8_decode(p + left + 1, n - left - 1, &next);
			if (!is_letter(next))
				continue;
		} else if (!marks || !is_mark(cp)) {
			continue;
		}
		if (is_letter(char_before(p, left, &before)))
			return left;
	}
	if (n - from <= CARRY_MOST)
		return from;
	return from + utf8_complete(p + from, n - from);
}

int text_tokens_behind(const struct engine *engine, const char *text, size_t n, struct tokens *out, struct err *e)
{
	struct str with = {0};
	struct tokens head = {0}, all = {0};
	int rc;

	str_adds(&with, "A");
	str_add(&with, text, n);
	rc = engine_tokenize(engine, with.p, 1, 0, &head, e);
	if (!rc)
		rc = engine_tokenize(engine, with.p, with.n, 0, &all, e);
	if (!rc && all.n >= head.n && !memcmp(all.id, head.id, head.n * sizeof *head.id))
		tokens_append(out, all.id + head.n, all.n - head.n);
	else if (!rc)
		rc = engine_tokenize(engine, text, n, 0, out, e);   /* cut within a word: it is read again with the question */
	tokens_free(&head);
	tokens_free(&all);
	str_free(&with);
	return rc;
}

static size_t same_tokens(const struct tokens *a, const struct tokens *b)
{
	size_t n = 0;

	while (n < a->n && n < b->n && a->id[n] == b->id[n])
		n++;
	return n;
}

/* The sequence up to byte `at` of the open message: what two ways to go on there have in common, less what the beginnings of these
 * two share. */
static int render_open(struct talk *t, struct tokens *out, struct err *e)
{
	static const char *const way[2] = {" Q", " z"};
	struct str *text = &t->msg[t->n_msg - 1].text, whole = *text;
	struct tokens all[2] = {{0}, {0}}, end[2] = {{0}, {0}};
	struct str part = {0};
	size_t shared, n;
	int rc = 0;

	for (int i = 0; i < 2 && !rc; i++) {
		str_clear(&part);
		str_add(&part, whole.p, t->streamed.at);
		str_adds(&part, way[i]);
		*text = part;
		rc = talk_render(t, 0, &all[i], e);
		*text = whole;
		if (!rc)
			rc = text_tokens_behind(t->engine, way[i], strlen(way[i]), &end[i], e);
	}
	if (!rc) {
		shared = same_tokens(&end[0], &end[1]);
		n = same_tokens(&all[0], &all[1]);
		tokens_append(out, all[0].id, n > shared ? n - shared : 0);
	}
	for (int i = 0; i < 2; i++) {
		tokens_free(&all[i]);
		tokens_free(&end[i]);
	}
	str_free(&part);
	return rc;
}

/* Compare from the first token on: once in the beginning, and when someone else has touched the sequence. */
static int sync_open(struct talk *t, timeline_progress_fn *progress, void *ud, struct err *e)
{
	struct tokens want = {0};
	int rc = render_open(t, &want, e);

	if (!rc)
		rc = talk_pin(t, &want, e);
	if (!rc && timeline_sync(t->tl, want.id, want.n, progress, ud, e) < 0)
		rc = -1;
	tokens_free(&want);
	t->streamed.pending.n = 0;
	timeline_tokens(t->tl, &t->streamed.had);
	t->streamed.known = !rc;
	return rc;
}

/* Whole chunks, and what is left of them when all is wanted. */
static int extend_open(struct talk *t, int all, struct err *e)
{
	struct tokens *p = &t->streamed.pending;
	struct timeline_stats st;
	int rc = 0;

	timeline_stats(t->tl, &st);
	while (!rc && p->n && (all || p->n >= (size_t)st.batch)) {
		size_t n = p->n < (size_t)st.batch ? p->n : (size_t)st.batch, now;

		rc = timeline_extend(t->tl, p->id, n, 0, NULL, NULL, e);
		timeline_tokens(t->tl, &now);
		n = now > t->streamed.had ? now - t->streamed.had : 0;
		t->streamed.had = now;
		p->n -= n;
		memmove(p->id, p->id + n, p->n * sizeof *p->id);
	}
	return rc;
}

int talk_stream_wanted(const struct talk *t, struct err *e)
{
	struct timeline_stats st;

	timeline_stats(t->tl, &st);
	if (st.endless)
		return 0;
	return err_set(e, ERR_USAGE, "cache '%.60s' ends with the context of %d tokens, and a text to read may have no end; choose "
	               "--kv auto, cascade or sink", st.kv, st.ctx);
}

int talk_stream(struct talk *t, const char *piece, size_t n, int all, timeline_progress_fn *progress, void *ud, struct err *e)
{
	struct streamed *s = &t->streamed;
	struct str *text;
	size_t had, cut, before = s->pending.n;

	if (talk_stream_wanted(t, e) < 0)
		return -1;
	if (!s->open) {
		if (!n)
			return 0;
		talk_message(t, ROLE_USER, "", 0, NULL, 0);
		*s = (struct streamed){.open = 1, .pending = s->pending};
		s->pending.n = before = 0;
	}
	text = &t->msg[t->n_msg - 1].text;
	str_add(text, piece, n);
	t->msg[t->n_msg - 1].read = text->n;
	cut = text_cut(text->p, s->at, text->n);
	if (cut > s->at) {
		if (text_tokens_behind(t->engine, text->p + s->at, cut - s->at, &s->pending, e) < 0)
			return -1;
		t->total_streamed += s->pending.n - before;
		s->at = cut;
	}
	timeline_tokens(t->tl, &had);
	if (!s->at)
		return 0;
	if (!s->known || !t->prefix_known || t->pinned < 0 || had != s->had)
		return sync_open(t, progress, ud, e);
	return extend_open(t, all, e);
}

uint64_t talk_streamed(const struct talk *t)
{
	return t->total_streamed - (t->streamed.open ? t->streamed.pending.n : 0);
}

void talk_stream_close(struct talk *t)
{
	t->streamed.open = t->streamed.known = 0;
}

void talk_stream_open(struct talk *t)
{
	struct message *m = &t->msg[t->n_msg - 1];
	struct streamed *s = &t->streamed;

	m->text.n = m->read;
	m->text.p[m->read] = 0;
	m->stored = 0;
	*s = (struct streamed){.open = 1, .pending = s->pending};
	s->pending.n = 0;
	s->at = text_cut(m->text.p, 0, m->text.n);
}
