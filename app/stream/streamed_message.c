/* app/stream/streamed_message.c - a streamed message: one user message whose text arrives from a stream (stream.h).
 *
 * A later question tokenizes the whole text again, and all tokens after the first difference must be prefilled again.
 * To avoid differences, arriving text is tokenized only up to the last place where every tokenizer ends a word: between
 * a letter and one blank or line break that is followed by another letter. The bytes after this place are tokenized
 * when more text has come. A long text without such a place is split elsewhere (CARRY_MARKS, CARRY_MOST).
 *
 * So the text has three parts. The tokens of the first part are in the cache. The tokens of the second part are
 * `pending`: they are not prefilled yet. The third part, from byte `at` on, is not tokenized yet. */
#include <stdlib.h>
#include <string.h>

#include "app/stream/stream_private.h"
#include "engine/base/utf8.h"

/* Where to split a text that has no blank between two letters. After CARRY_MARKS bytes the text may be split before a
 * full-width punctuation mark; after CARRY_MOST bytes, before any character. */
enum { CARRY_MARKS = 1024, CARRY_MOST = 16384 };

static int is_mark(int32_t cp)
{
	return cp == 0x3001 || cp == 0x3002 || cp == 0xff01 || cp == 0xff0c || cp == 0xff1a || cp == 0xff1b ||
	       cp == 0xff1f;
}

size_t text_cut(const char *p, size_t from, size_t n)
{
	int marks = n - from > CARRY_MARKS;

	for (size_t at = n; at > from + 1;) {
		size_t left, before;
		int32_t cp, next;

		cp = utf8_before(p, 0, at, &left);
		at = left;
		if (left <= from)
			break;
		if (cp == ' ' || cp == '\n') {
			if (left + 1 == n)
				continue;
			utf8_decode(p + left + 1, n - left - 1, &next);
			if (!utf8_is_letter(next))
				continue;
		} else if (!marks || !is_mark(cp)) {
			continue;
		}
		if (utf8_is_letter(utf8_before(p, 0, left, &before)))
			return left;
	}
	if (n - from <= CARRY_MOST)
		return from;
	return from + utf8_complete(p + from, n - from);
}

int text_tokens_behind(const struct engine *engine, const char *text, size_t n, struct tokens *out, struct err *e)
{
	struct str with = { 0 };
	struct tokens head = { 0 }, all = { 0 };
	int rc;

	str_adds(&with, "A");
	str_add(&with, text, n);
	rc = engine_tokenize(engine, with.p, 1, 0, &head, e);
	if (!rc)
		rc = engine_tokenize(engine, with.p, with.n, 0, &all, e);
	if (!rc && all.n >= head.n && !memcmp(all.id, head.id, head.n * sizeof *head.id))
		tokens_append(out, all.id + head.n, all.n - head.n);
	else if (!rc)
		/* "A" and the beginning of the text form one token, so tokenize the text without the "A". When the
		 * message with its question is tokenized as a whole later, the tokens from this text on may be
		 * different; they are then prefilled again. */
		rc = engine_tokenize(engine, text, n, 0, out, e);
	tokens_free(&head);
	tokens_free(&all);
	str_free(&with);
	return rc;
}

struct growth *growth_of(const struct conversation *conv)
{
	return turn_hook_find(conv, "streamed");
}

const struct streamed *streamed_of(const struct conversation *conv)
{
	return &growth_of(conv)->text;
}

void streamed_copy(struct streamed *to, const struct streamed *from)
{
	struct tokens pending = to->pending;
	uint64_t total = to->total;

	*to = *from;
	to->total = total;
	to->pending = pending;
	to->pending.n = 0;
	tokens_append(&to->pending, from->pending.id, from->pending.n);
}

/* Reset the state: no byte of the message is tokenized. */
static void streamed_clear(struct streamed *s)
{
	*s = (struct streamed){ .pending = s->pending, .total = s->total };
	s->pending.n = 0;
}

/* Render the conversation up to byte s->at of the streamed message, and prefill from the first token that differs from
 * the timeline. Needed for the first piece of text, and after other code has changed the timeline. Returns 0 or -1. */
static int sync_open(struct streamed *s, struct conversation *conv, timeline_progress_fn *progress, void *ud,
                     struct err *e)
{
	struct tokens want = { 0 };
	int rc = render_open(conv, s->at, &want, e);

	if (!rc)
		rc = conversation_pin(conv, &want, e);
	if (!rc && timeline_sync(conv->tl, want.id, want.n, progress, ud, e) < 0)
		rc = -1;
	tokens_free(&want);
	s->pending.n = 0;
	timeline_tokens(conv->tl, &s->had);
	s->known = !rc;
	s->rendered = s->at;
	return rc;
}

/* Return the byte of the message at which the pending tokens (not prefilled yet) begin. */
static size_t pending_byte(const struct streamed *s, const struct engine *engine)
{
	size_t n = 0;

	for (size_t i = 0; i < s->pending.n; i++)
		n += engine_piece(engine, s->pending.id[i], 0, NULL, 0);
	return n < s->at ? s->at - n : 0;
}

/* Prefill pending tokens in chunks. If `all` is 1, also prefill the last, incomplete chunk. Returns 0 or -1. */
static int extend_open(struct streamed *s, struct conversation *conv, int all, struct err *e)
{
	struct tokens *p = &s->pending;
	struct timeline_stats st;
	int rc = 0;

	timeline_stats(conv->tl, &st);
	while (!rc && p->n && (all || p->n >= (size_t)st.batch)) {
		size_t n = p->n < (size_t)st.batch ? p->n : (size_t)st.batch, now;

		if (conv->o->surprise && !strcmp(conv->o->surprise, "on"))
			rc = surprise_extend(conv, p->id, n, pending_byte(s, conv->engine), e);
		else
			rc = timeline_extend(conv->tl, p->id, n, 0, NULL, NULL, e);
		timeline_tokens(conv->tl, &now);
		n = now > s->had ? now - s->had : 0;
		s->had = now;
		p->n -= n;
		memmove(p->id, p->id + n, p->n * sizeof *p->id);
	}
	return rc;
}

int conversation_may_grow(const struct conversation *conv, struct err *e)
{
	struct timeline_stats st;

	if (conversation_needs_local(conv, "a text without an end", e) < 0)
		return -1;
	timeline_stats(conv->tl, &st);
	if (st.endless)
		return 0;
	return err_set(e, ERR_USAGE,
	               "cache '%.60s' ends with the context of %d tokens, and a text to read may have no end; choose "
	               "--kv auto, cascade or sink",
	               st.kv, st.ctx);
}

int conversation_grow(struct conversation *conv, const char *piece, size_t n, int all, timeline_progress_fn *progress,
                      void *ud, struct err *e)
{
	struct growth *g = growth_of(conv);
	struct streamed *s = &g->text;
	struct str *text;
	size_t had, cut, before = s->pending.n;

	if (conversation_may_grow(conv, e) < 0)
		return -1;
	if (!conv->grows) {
		if (!n)
			return 0;
		aside_forget(&g->aside);
		surprise_forget(turn_hook_find(conv, "surprise"));
		conversation_message(conv, ROLE_USER, "", 0, NULL, 0);
		streamed_clear(s);
		conv->grows = 1;
		before = 0;
	}
	text = &conv->msg[conv->n_msg - 1].text;
	str_add(text, piece, n);
	conv->msg[conv->n_msg - 1].read = text->n;
	if (n)
		conversation_emit(conv, EVENT_TEXT_GREW, text->n - n);
	cut = text_cut(text->p, s->at, text->n);
	if (cut > s->at) {
		if (text_tokens_behind(conv->engine, text->p + s->at, cut - s->at, &s->pending, e) < 0)
			return -1;
		s->total += s->pending.n - before;
		s->at = cut;
	}
	timeline_tokens(conv->tl, &had);
	if (!s->at)
		return 0;
	if (!s->known || !conv->prefix_known || conv->pinned < 0 || had != s->had)
		return sync_open(s, conv, progress, ud, e);
	return extend_open(s, conv, all, e);
}

uint64_t conversation_grown(const struct conversation *conv)
{
	const struct streamed *s = streamed_of(conv);

	return s->total - (conv->grows ? s->pending.n : 0);
}

void streamed_count_anew(struct conversation *conv)
{
	growth_of(conv)->text.total = 0;
}

/* Append to conv->rendered the tokens that were read since the last rendering, so that the question can be rendered
 * without tokenizing the text again. */
static void keep_tokens(const struct streamed *s, struct conversation *conv)
{
	const struct str *text = &conv->msg[conv->n_msg - 1].text;
	struct tokens all = { 0 };
	size_t n, had = conv->rendered.id.n;
	const int32_t *id = timeline_tokens(conv->tl, &n);

	tokens_append(&all, id, n);
	tokens_append(&all, s->pending.id, s->pending.n);
	if (all.n >= had && !memcmp(all.id, conv->rendered.id.id, had * sizeof *id))
		engine_render_add(conv->engine, &conv->rendered, text->p + s->rendered, s->at - s->rendered,
		                  all.id + had, all.n - had);
	tokens_free(&all);
}

/* End the streamed message. */
static void streamed_close(struct streamed *s, struct conversation *conv)
{
	if (conv->grows && s->known && conv->tl)
		keep_tokens(s, conv);
	conv->grows = s->known = 0;
}

/* Render the conversation up to the last tokenized byte of the streamed message. Returns 1 if the timeline still has
 * all tokens before the message. Returns 0 if the timeline lacks some of them (for example after a change of the system
 * prompt), or if rendering fails. */
static int render_back(const struct streamed *s, struct conversation *conv)
{
	struct tokens want = { 0 };
	struct err e = { 0 };
	size_t n, same = 0;
	const int32_t *id = timeline_tokens(conv->tl, &n);
	int32_t first;
	int rc = render_open(conv, s->at, &want, &e);

	n = MIN(n, want.n);
	while (same < n && id[same] == want.id[same])
		same++;
	tokens_free(&want);
	first = conv->msg[conv->n_msg - 1].prompt_at.first;
	return !rc && first >= 0 && same >= (size_t)first;
}

/* Remove the question that was appended to the streamed message (a text read from a stream), so that the message can
 * grow again. */
static void streamed_reopen(struct growth *g, struct conversation *conv)
{
	struct message *m = &conv->msg[conv->n_msg - 1];
	struct streamed *s = &g->text;

	m->text.n = m->read;
	m->quoted = 0;
	m->text.p[m->read] = 0;
	m->stored = 0;
	m->number = 0;
	conv->grows = 1;
	if (aside_restore(g, conv)) {
		s->known = render_back(s, conv);
		s->rendered = s->at;
		return;
	}
	streamed_clear(s);
	s->at = text_cut(m->text.p, 0, m->text.n);
}

int conversation_return(struct conversation *conv)
{
	struct growth *g = growth_of(conv);
	size_t at = g->aside.msg;

	if (!conversation_is_beside(conv))
		return 0;
	while (conv->n_msg > at + 1)
		message_free(&conv->msg[--conv->n_msg]);
	undo_forget(conv);
	streamed_reopen(g, conv);
	conversation_emit(conv, EVENT_RETURNED, at);
	return 1;
}

/* ---- turn hook ---- */

/* Take a snapshot if the question will be appended to the streamed message (a text read from a stream). */
static int streamed_before(void *self, struct conversation *conv, const struct question *q, struct err *e)
{
	struct err why = { 0 };

	(void)q, (void)e;
	if (conv->grows && aside_save(self, conv, &why) < 0)
		conversation_notice(conv, "this question becomes part of the text that is read: %s", why.msg);
	return 0;
}

static int32_t streamed_prefill(void *self, struct conversation *conv, timeline_progress_fn *progress, void *ud,
                                struct err *e)
{
	struct timeline_stats st;

	(void)self;
	if (conversation_grow(conv, "", 0, 1, progress, ud, e) < 0)
		return -1;
	timeline_stats(conv->tl, &st);
	return st.prefill_tokens;
}

static void streamed_changed(void *self, struct conversation *conv, enum turn_hook_change what)
{
	struct growth *g = self;

	switch (what) {
	case CHANGE_RENDERED: g->text.known = 0; break; /* a new rendering replaces the tokens of the message */
	case CHANGE_CACHE: aside_forget(&g->aside); break;
	case CHANGE_CLOSED: streamed_close(&g->text, conv); break;
	case CHANGE_REOPENED: streamed_reopen(g, conv); break;
	case CHANGE_MODEL:
	case CHANGE_EMPTIED:
		streamed_close(&g->text, conv);
		aside_forget(&g->aside);
		break;
	case CHANGE_DOCUMENTS:
	case CHANGE_MESSAGES: break;
	}
}

static void streamed_free(void *self)
{
	struct growth *g = self;

	aside_forget(&g->aside);
	tokens_free(&g->text.pending);
	free(g);
}

const struct turn_hook_ops streamed_ops = {
	.name = "streamed",
	.before = streamed_before,
	.prefill = streamed_prefill,
	.changed = streamed_changed,
	.free = streamed_free,
};

void stream_join(struct conversation *conv)
{
	turn_hook_add(conv, &streamed_ops, xcalloc(1, sizeof(struct growth)));
	turn_hook_add(conv, &surprise_ops, xcalloc(1, sizeof(struct surprise)));
}
