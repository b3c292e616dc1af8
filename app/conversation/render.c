/* app/conversation/render.c - renders the conversation to tokens, and prefills them (conversation.h).
 *
 * Each turn renders the whole conversation: system prompt, whole documents, messages. timeline_sync() reuses the
 * cached prefix of the tokens and prefills the remaining ones. The documents are part of the first message. */
#include "app/conversation/conversation_private.h"
#include "engine/engine_view.h"

#include <stdlib.h>
#include <string.h>

/* tokens count as cached if the cache still has at least KEPT_LEAST / 255 (90 %) of their KV entries */
enum { KEPT_LEAST = 230 };

/* ---- the list of messages for the template ---- */

/* separates two texts in one message: system prompt and first question, or two questions */
static const char BETWEEN[] = "\n\n";
enum { BETWEEN_BYTES = sizeof BETWEEN - 1 };

/* 1 if the system prompt is rendered as a message of its own. */
static int system_leads(const struct conversation *conv)
{
	return conv->has_system && conv->info->takes_system;
}

/* Return the number of bytes that the system prompt and a separator take at the beginning of the first question. If the
 * template has a system message, the system prompt is not part of the question: return 0. */
static size_t system_bytes(const struct conversation *conv)
{
	return conv->has_system && !conv->info->takes_system && conv->system.n ? conv->system.n + BETWEEN_BYTES : 0;
}

/* 1 if message i is rendered as part of the message before it. A question is joined to a question before it, because
 * some templates refuse two questions in a row. Two questions follow each other if the program was killed before an
 * answer. */
static int message_joins(const struct conversation *conv, const struct message *msg, size_t i)
{
	return i && conv->info->wants_turns && msg[i].role == ROLE_USER && msg[i - 1].role == ROLE_USER;
}

/* Return how many bytes at the beginning of a message are not rendered. Only templates with channels leave out bytes:
 * the reasoning of an answer. */
static size_t unsent_reasoning(const struct conversation *conv, const struct message *m)
{
	return m->role == ROLE_ASSISTANT && conv->info->channels && m->text.n ? reasoning_length(m->text.p, m->text.n)
	                                                                      : 0;
}

/* Append the whole text of a message: its passages, then its own text. If `first` is 1, this is the first message: put
 * the documents before it, and also the system prompt if the template has no system message. */
static void message_add_whole(const struct conversation *conv, const struct message *m, int first, struct str *out)
{
	if (first && system_bytes(conv)) {
		str_add(out, conv->system.p, conv->system.n);
		str_adds(out, BETWEEN);
	}
	for (size_t i = 0; first && i < conv->n_doc; i++)
		if (conv->doc[i].whole)
			str_add(out, conv->doc[i].text.p, conv->doc[i].text.n);
	if (m->context.n)
		str_add(out, m->context.p, m->context.n);
	if (m->text.n)
		str_add(out, m->text.p, m->text.n);
}

/* Render msg[0 .. n_msg) with the system prompt and documents. `flags` has bits of enum render_flags. `before` is an
 * earlier rendering whose tokens are reused; it may be equal to `out`. Returns 0 or -1. */
static int messages_render(const struct conversation *conv, const struct message *msg, size_t n_msg, unsigned flags,
                           const struct rendered *before, struct rendered *out, struct err *e)
{
	struct chat_msg *list = xcalloc(n_msg + 1, sizeof *list);
	struct str *whole = xcalloc(n_msg + 1, sizeof *whole);
	size_t n = 0;
	int rc;

	if (system_leads(conv))
		list[n++] = (struct chat_msg){ .role = ROLE_SYSTEM,
			                       .text = str_text(&conv->system),
			                       .len = conv->system.n };
	for (size_t i = 0, next; i < n_msg; i = next) {
		const struct message *m = &msg[i];
		const struct str *text = &m->text;
		size_t cut = unsent_reasoning(conv, m);

		for (next = i + 1; next < n_msg && message_joins(conv, msg, next); next++)
			;
		if ((!i && (conv->n_doc || system_bytes(conv))) || m->context.n || next > i + 1) {
			for (size_t k = i; k < next; k++) {
				str_adds(&whole[i], k > i ? BETWEEN : "");
				message_add_whole(conv, &msg[k], !k, &whole[i]);
			}
			text = &whole[i];
		}
		list[n++] = (struct chat_msg){
			.role = m->role,
			.text = str_text(text) + cut,
			.len = text->n - cut,
			.id = m->id.id,
			.n_id = cut ? 0 : m->id.n,
		};
	}
	if (conv->o->think && !strcmp(conv->o->think, "off"))
		flags |= REPLY_NO_THOUGHT;
	else if (conv->o->think && !strcmp(conv->o->think, "on"))
		flags |= REPLY_THOUGHT;
	rc = engine_render(conv->engine, list, n, flags, before, out, e);
	free(list);
	for (size_t i = 0; i < n_msg; i++)
		str_free(&whole[i]);
	free(whole);
	return rc;
}

/* ---- positions of texts ---- */

/* Set *out to the position of a text in the rendering; out->first is -1 if the text is not rendered. The text is bytes
 * [before, before + n) of rendered message i. */
static void locate_text(const struct rendered *r, size_t i, size_t before, size_t n, struct text_at *out)
{
	const struct text_range *p = i < r->n_msg ? &r->range[i] : NULL;

	*out = (struct text_at){ .first = -1 };
	if (!p || p->at == SIZE_MAX || before + n < p->from || before > p->from + p->n)
		return;
	out->byte = p->at - p->from + before;
	out->first = (int32_t)rendered_token(r, i, MAX(p->from, before));
}

void locate_all(struct conversation *conv)
{
	/* `at` is the index of a rendered message. `before` is the number of bytes in this message before the next
	 * text. */
	size_t at = (size_t)system_leads(conv), before = system_bytes(conv);

	for (size_t i = 0; i < conv->n_doc; i++) {
		conv->doc[i].prompt_at = (struct text_at){ .first = -1 };
		if (!conv->doc[i].whole)
			continue;
		locate_text(&conv->rendered, at, before, conv->doc[i].text.n, &conv->doc[i].prompt_at);
		before += conv->doc[i].text.n;
	}
	for (size_t i = 0; i < conv->n_msg; i++) {
		struct message *m = &conv->msg[i];
		size_t cut = unsent_reasoning(conv, m);

		if (i && message_joins(conv, conv->msg, i)) {
			before += BETWEEN_BYTES;
		} else if (i) {
			at++;
			before = 0;
		}
		locate_text(&conv->rendered, at, before, m->context.n, &m->context_at);
		locate_text(&conv->rendered, at, before + m->context.n, m->text.n - cut, &m->prompt_at);
		/* The first `cut` bytes of the text (its reasoning) are not rendered, so locate_text() has returned the
		 * position of byte number `cut`. Byte 0 would be `cut` bytes before it. */
		m->prompt_at.byte -= cut;
		before += m->context.n + m->text.n;
	}
}

/* Return the number of bytes before document i in the first message. */
static size_t bytes_before(const struct conversation *conv, size_t i)
{
	size_t n = system_bytes(conv);

	for (size_t k = 0; k < i; k++)
		n += conv->doc[k].whole ? conv->doc[k].text.n : 0;
	return n;
}

size_t document_count(const struct conversation *conv, size_t i, struct err *e)
{
	const struct document *d = &conv->doc[i];
	struct tokens id = { 0 };
	struct err why = { 0 };
	size_t n = 0, before = bytes_before(conv, i);

	if (!d->whole || engine_render_count(conv->engine, &conv->rendered, (size_t)system_leads(conv), before,
	                                     before + d->text.n, &n, &why) < 0) {
		engine_tokenize(conv->engine, d->text.p, d->text.n, 0, &id, e);
		n = id.n;
		tokens_free(&id);
	}
	return n;
}

int tokens_cached(const struct conversation *conv, int32_t first, int32_t n)
{
	uint8_t *kept = xcalloc((size_t)(MAX(n, 0)) + 1, 1);
	uint64_t sum = 0;

	if (n > 0)
		timeline_kept(conv->tl, first, n, kept);
	for (int32_t i = 0; i < n; i++)
		sum += kept[i];
	free(kept);
	return n > 0 && sum >= (uint64_t)n * KEPT_LEAST;
}

/* ---- tokens ---- */

static size_t common_prefix(const struct tokens *a, const int32_t *b, size_t n_b)
{
	size_t n = 0;

	while (n < a->n && n < n_b && a->id[n] == b[n])
		n++;
	return n;
}

/* Append the tokens of the prefix (system prompt and documents), which do not depend on the first question. */
static int render_prefix(const struct conversation *conv, struct rendered *r, struct tokens *out, struct err *e)
{
	struct message nothing = { .role = ROLE_USER };

	if (messages_render(conv, &nothing, 1, RENDER_OPEN, &conv->rendered, r, e) < 0)
		return -1;
	return engine_render_stable(conv->engine, r, (size_t)system_leads(conv), bytes_before(conv, conv->n_doc), out,
	                            e);
}

/* Prepare conv->rendered for reuse. The engine can reuse it only if one contiguous part has changed. If the prefix has
 * changed and messages were added, first render the old messages with the new prefix. */
static void render_beginning(struct conversation *conv)
{
	struct err none = { 0 };

	if (!conv->prefix_known && conv->rendered.n_msg && conv->rendered_msg && conv->rendered_msg < conv->n_msg)
		messages_render(conv, conv->msg, conv->rendered_msg, conv->rendered_flags, &conv->rendered,
		                &conv->rendered, &none);
}

int conversation_render(struct conversation *conv, int reply_head, struct tokens *out, struct err *e)
{
	unsigned flags = reply_head ? REPLY_HEAD : 0;
	int rc;

	turn_hooks_changed(conv, CHANGE_RENDERED);
	render_beginning(conv);
	if (!conv->n_msg)
		rc = render_prefix(conv, &conv->rendered, out, e);
	else
		rc = messages_render(conv, conv->msg, conv->n_msg, flags, &conv->rendered, &conv->rendered, e);
	if (rc < 0)
		return -1;
	if (conv->n_msg)
		tokens_append(out, conv->rendered.id.id, conv->rendered.id.n);
	conv->rendered_msg = conv->n_msg;
	conv->rendered_flags = flags;
	locate_all(conv);
	return 0;
}

int render_open(struct conversation *conv, size_t bytes, struct tokens *out, struct err *e)
{
	struct str *text = &conv->msg[conv->n_msg - 1].text, whole = *text;
	int rc;

	text->n = bytes;
	rc = messages_render(conv, conv->msg, conv->n_msg, RENDER_OPEN, &conv->rendered, &conv->rendered, e);
	*text = whole;
	if (rc < 0)
		return -1;
	tokens_append(out, conv->rendered.id.id, conv->rendered.id.n);
	conv->rendered_msg = conv->n_msg;
	conv->rendered_flags = RENDER_OPEN;
	locate_all(conv);
	return 0;
}

int conversation_pin(struct conversation *conv, const struct tokens *want, struct err *e)
{
	int32_t n;

	if (!conv->prefix_known) {
		struct rendered r = { .n_msg = 0 };
		int rc;

		conv->prefix.n = 0;
		rc = render_prefix(conv, &r, &conv->prefix, e);
		rendered_free(&r);
		if (rc < 0)
			return -1;
		conv->prefix_known = 1;
	}
	n = (int32_t)common_prefix(&conv->prefix, want->id, want->n);
	if (n == conv->pinned)
		return 0;
	if (timeline_pin(conv->tl, n, e) < 0)
		return -1;
	conv->pinned = n;
	return 0;
}

/* ---- the timeline ---- */

struct prefill {
	struct conversation *conv;
	timeline_progress_fn *progress;
	void *ud;
};

static void prefill_grew(int32_t done, int32_t total, void *ud)
{
	struct prefill *p = ud;

	if (p->progress)
		p->progress(done, total, p->ud);
	conversation_emit(p->conv, EVENT_PREFILL_GREW, 0);
}

int32_t conversation_sync(struct conversation *conv, int reply_head, const struct tokens *begun, size_t *n,
                          int32_t *again, timeline_progress_fn *progress, void *ud, struct err *e)
{
	struct tokens want = { 0 };
	size_t n_had;
	const int32_t *had = timeline_tokens(conv->tl, &n_had);
	int32_t reused = -1;
	struct timeline_stats st;

	*n = 0;
	*again = 0;
	timeline_stats(conv->tl, &st);
	if (!conversation_render(conv, reply_head, &want, e)) {
		struct prefill prefill = { .conv = conv, .progress = progress, .ud = ud };
		struct err why = { 0 };
		size_t same;
		if (begun)
			tokens_append(&want, begun->id, begun->n);
		same = common_prefix(&want, had, n_had);
		/* The whole answer to continue is cached. Decode the last token of this answer again, because some
		 * cache policies treat a decoded token differently from a prefilled one. */
		if (begun && same == want.n && n_had == want.n)
			timeline_extend(conv->tl, NULL, 0, 1, NULL, NULL, &why);
		if (!conversation_pin(conv, &want, e)) {
			if (conv->hooks.fetch)
				conv->hooks.fetch(conv, &want, same, conv->hooks.ud);
			reused = timeline_sync(conv->tl, want.id, want.n, prefill_grew, &prefill, e);
			undo_uncached(conv);
			if (reused < 0)
				conversation_emit(conv, EVENT_PREFILL_ENDED, 0);
		}
		*n = want.n;
		if (reused >= 0 && st.rings.evicted + st.rings.evicted_in_part &&
		    /* do not count the last token, which is always recomputed for its logits */
		    (size_t)reused + 1 < same)
			*again = (int32_t)same - reused;
	}
	tokens_free(&want);
	return reused;
}
