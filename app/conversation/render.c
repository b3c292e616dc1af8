/* app/conversation/render.c - renders the conversation as tokens, and makes the timeline's sequence equal to them
 * (conversation.h).
 *
 * Each turn renders the whole conversation, and timeline_sync() finds what the cache has of it. */
#include "app/conversation/conversation_private.h"
#include "engine/engine_view.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_LEAST = 230 }; /* of 255: tokens count as cached if they keep this share of their KV entries */

/* ---- what is rendered ---- */

/* between texts that share a message: a system prompt and the first question, two questions */
static const char BETWEEN[] = "\n\n";
enum { BETWEEN_BYTES = sizeof BETWEEN - 1 };

/* 1: the system prompt is a message of its own. */
static int system_leads(const struct conversation *t)
{
	return t->has_system && t->info->takes_system;
}

/* Bytes of the system prompt in front of the first question, for templates without a place for it. */
static size_t system_bytes(const struct conversation *t)
{
	return t->has_system && !t->info->takes_system && t->system.n ? t->system.n + BETWEEN_BYTES : 0;
}

/* 1: message i is part of the message before it. A question may have lost its answer (the program was killed), and a
 * template may refuse two questions in a row. */
static int joins(const struct conversation *t, const struct message *msg, size_t i)
{
	return i && t->info->wants_turns && msg[i].role == ROLE_USER && msg[i - 1].role == ROLE_USER;
}

/* Bytes at the beginning of a message that the template is not given: the reasoning of an answer, where it has to tell
 * its channels apart. */
static size_t unsent_reasoning(const struct conversation *t, const struct message *m)
{
	return m->role == ROLE_ASSISTANT && t->info->channels && m->text.n ? reasoning_length(m->text.p, m->text.n) : 0;
}

/* A message's text as the model gets it: in front of the first one the documents, in front of a question its
 * passages. */
static void add_whole(const struct conversation *t, const struct message *m, int first, struct str *out)
{
	if (first && system_bytes(t)) {
		str_add(out, t->system.p, t->system.n);
		str_adds(out, BETWEEN);
	}
	for (size_t i = 0; first && i < t->n_doc; i++)
		if (t->doc[i].whole)
			str_add(out, t->doc[i].text.p, t->doc[i].text.n);
	if (m->context.n)
		str_add(out, m->context.p, m->context.n);
	if (m->text.n)
		str_add(out, m->text.p, m->text.n);
}

static int render(const struct conversation *t, const struct message *msg, size_t n_msg, unsigned flags,
                  const struct rendered *before, struct rendered *out, struct err *e)
{
	struct chat_msg *list = xcalloc(n_msg + 1, sizeof *list);
	struct str *whole = xcalloc(n_msg + 1, sizeof *whole);
	size_t n = 0;
	int rc;

	if (system_leads(t))
		list[n++] = (struct chat_msg){ .role = ROLE_SYSTEM, .text = str_text(&t->system), .len = t->system.n };
	for (size_t i = 0, next; i < n_msg; i = next) {
		const struct message *m = &msg[i];
		const struct str *text = &m->text;
		size_t cut = unsent_reasoning(t, m);

		for (next = i + 1; next < n_msg && joins(t, msg, next); next++)
			;
		if ((!i && (t->n_doc || system_bytes(t))) || m->context.n || next > i + 1) {
			for (size_t k = i; k < next; k++) {
				str_adds(&whole[i], k > i ? BETWEEN : "");
				add_whole(t, &msg[k], !k, &whole[i]);
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
	if (t->o->think && !strcmp(t->o->think, "off"))
		flags |= REPLY_NO_THOUGHT;
	else if (t->o->think && !strcmp(t->o->think, "on"))
		flags |= REPLY_THOUGHT;
	rc = engine_render(t->engine, list, n, flags, before, out, e);
	free(list);
	for (size_t i = 0; i < n_msg; i++)
		str_free(&whole[i]);
	free(whole);
	return rc;
}

/* ---- where texts stand ---- */

/* The place of a text that begins `before` bytes into message i. */
static void place_text(const struct rendered *r, size_t i, size_t before, size_t n, struct text_at *out)
{
	const struct text_place *p = i < r->n_msg ? &r->place[i] : NULL;

	*out = (struct text_at){ .first = -1 };
	if (!p || p->at == SIZE_MAX || before + n < p->from || before > p->from + p->n)
		return;
	out->byte = p->at - p->from + before;
	out->first = (int32_t)rendered_token(r, i, MAX(p->from, before));
}

/* Where documents and messages stand in t->rendered. */
void place_all(struct conversation *t)
{
	/* the rendered message, and how much of it is placed */
	size_t at = (size_t)system_leads(t), before = system_bytes(t);

	for (size_t i = 0; i < t->n_doc; i++) {
		t->doc[i].place = (struct text_at){ .first = -1 };
		if (!t->doc[i].whole)
			continue;
		place_text(&t->rendered, at, before, t->doc[i].text.n, &t->doc[i].place);
		before += t->doc[i].text.n;
	}
	for (size_t i = 0; i < t->n_msg; i++) {
		struct message *m = &t->msg[i];
		size_t cut = unsent_reasoning(t, m);

		if (i && joins(t, t->msg, i)) {
			before += BETWEEN_BYTES;
		} else if (i) {
			at++;
			before = 0;
		}
		place_text(&t->rendered, at, before, m->context.n, &m->context_place);
		place_text(&t->rendered, at, before + m->context.n, m->text.n - cut, &m->place);
		m->place.byte -= cut; /* of the whole text, as where the template cuts it */
		before += m->context.n + m->text.n;
	}
}

/* Bytes in front of document i in the first question. */
static size_t bytes_before(const struct conversation *t, size_t i)
{
	size_t n = system_bytes(t);

	for (size_t k = 0; k < i; k++)
		n += t->doc[k].whole ? t->doc[k].text.n : 0;
	return n;
}

size_t document_count(const struct conversation *t, size_t i, struct err *e)
{
	const struct document *d = &t->doc[i];
	struct tokens id = { 0 };
	struct err why = { 0 };
	size_t n = 0, before = bytes_before(t, i);

	if (!d->whole || engine_render_count(t->engine, &t->rendered, (size_t)system_leads(t), before,
	                                     before + d->text.n, &n, &why) < 0) {
		engine_tokenize(t->engine, d->text.p, d->text.n, 0, &id, e);
		n = id.n;
		tokens_free(&id);
	}
	return n;
}

int tokens_cached(const struct conversation *t, int32_t first, int32_t n)
{
	uint8_t *kept = xcalloc((size_t)(MAX(n, 0)) + 1, 1);
	uint64_t sum = 0;

	if (n > 0)
		timeline_kept(t->tl, first, n, kept);
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

/* The tokens that stand before every first question: system prompt and documents. */
static int render_prefix(const struct conversation *t, struct rendered *r, struct tokens *out, struct err *e)
{
	struct message nothing = { .role = ROLE_USER };

	if (render(t, &nothing, 1, RENDER_OPEN, &t->rendered, r, e) < 0)
		return -1;
	return engine_render_stable(t->engine, r, (size_t)system_leads(t), bytes_before(t, t->n_doc), out, e);
}

/* The engine finds one difference between two renderings. A changed beginning (system prompt, documents) and new
 * messages are two: first render the messages of the last rendering. */
static void render_beginning(struct conversation *t)
{
	struct err none = { 0 };

	if (!t->prefix_known && t->rendered.n_msg && t->rendered_msg && t->rendered_msg < t->n_msg)
		render(t, t->msg, t->rendered_msg, t->rendered_flags, &t->rendered, &t->rendered, &none);
}

int conversation_render(struct conversation *t, int reply_head, struct tokens *out, struct err *e)
{
	unsigned flags = reply_head ? REPLY_HEAD : 0;
	int rc;

	companions_changed(t, CHANGE_RENDERED);
	render_beginning(t);
	if (!t->n_msg)
		rc = render_prefix(t, &t->rendered, out, e);
	else
		rc = render(t, t->msg, t->n_msg, flags, &t->rendered, &t->rendered, e);
	if (rc < 0)
		return -1;
	if (t->n_msg)
		tokens_append(out, t->rendered.id.id, t->rendered.id.n);
	t->rendered_msg = t->n_msg;
	t->rendered_flags = flags;
	place_all(t);
	return 0;
}

int render_open(struct conversation *t, size_t bytes, struct tokens *out, struct err *e)
{
	struct str *text = &t->msg[t->n_msg - 1].text, whole = *text;
	int rc;

	text->n = bytes;
	rc = render(t, t->msg, t->n_msg, RENDER_OPEN, &t->rendered, &t->rendered, e);
	*text = whole;
	if (rc < 0)
		return -1;
	tokens_append(out, t->rendered.id.id, t->rendered.id.n);
	t->rendered_msg = t->n_msg;
	t->rendered_flags = RENDER_OPEN;
	place_all(t);
	return 0;
}

int conversation_pin(struct conversation *t, const struct tokens *want, struct err *e)
{
	int32_t n;

	if (!t->prefix_known) {
		struct rendered r = { .n_msg = 0 };
		int rc;

		t->prefix.n = 0;
		rc = render_prefix(t, &r, &t->prefix, e);
		rendered_free(&r);
		if (rc < 0)
			return -1;
		t->prefix_known = 1;
	}
	n = (int32_t)common_prefix(&t->prefix, want->id, want->n);
	if (n == t->pinned)
		return 0;
	if (timeline_pin(t->tl, n, e) < 0)
		return -1;
	t->pinned = n;
	return 0;
}

/* ---- the timeline ---- */

struct prefill {
	struct conversation *t;
	timeline_progress_fn *progress;
	void *ud;
};

static void prefill_grew(int32_t done, int32_t total, void *ud)
{
	struct prefill *p = ud;

	if (p->progress)
		p->progress(done, total, p->ud);
	conversation_emit(p->t, EVENT_PREFILL_GREW, 0);
}

int32_t conversation_sync(struct conversation *t, int reply_head, const struct tokens *begun, size_t *n, int32_t *again,
                          timeline_progress_fn *progress, void *ud, struct err *e)
{
	struct tokens want = { 0 };
	size_t n_had;
	const int32_t *had = timeline_tokens(t->tl, &n_had);
	int32_t reused = -1;

	*n = 0;
	*again = 0;
	if (!conversation_render(t, reply_head, &want, e)) {
		struct prefill prefill = { .t = t, .progress = progress, .ud = ud };
		struct err why = { 0 };
		size_t same;
		if (begun)
			tokens_append(&want, begun->id, begun->n);
		same = common_prefix(&want, had, n_had);
		/* Decode the token that was sampled last in place of prefilling it: some policies tell the two
		 * apart. */
		if (begun && same == want.n && n_had == want.n)
			timeline_extend(t->tl, NULL, 0, 1, NULL, NULL, &why);
		if (!conversation_pin(t, &want, e)) {
			if (t->hooks.fetch)
				t->hooks.fetch(t, &want, same, t->hooks.ud);
			reused = timeline_sync(t->tl, want.id, want.n, prefill_grew, &prefill, e);
			undo_uncached(t);
			if (reused < 0)
				conversation_emit(t, EVENT_PREFILL_ENDED, 0);
		}
		*n = want.n;
		if (reused >= 0 && (size_t)reused + 1 < same) /* the last token is computed again for its logits */
			*again = (int32_t)same - reused;
	}
	tokens_free(&want);
	return reused;
}
