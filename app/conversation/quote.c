/* app/conversation/quote.c - what a question brings along from the documents: passages, and the sentence that answers best
 * (conversation.h).
 *
 * Behind a document that was read whole, a question brings the best sentence of it; of a document that is only searched it brings the best
 * passages, in the order of the document, and then the sentence.  A passage that an earlier question brought is not sent again while the
 * cache holds it. */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"

enum {
	SHARE_OF_CTX = 3,        /* the passages of a question take at most this part of the context, */
	SHARE_OF_FREE = 2,       /* and where nothing is evicted this part of what is free */
};

static const char *body_of(const struct conversation *t, const struct source *s)
{
	return t->doc[s->doc].text.p + t->doc[s->doc].body;
}

void text_on_one_line(const char *p, size_t n, struct str *out)
{
	int blank = 0;

	for (size_t i = 0; i < n; i++) {
		int space = p[i] == ' ' || p[i] == '\n' || p[i] == '\t' || p[i] == '\f';

		if (!space)
			str_add(out, p + i, 1);
		else if (!blank)
			str_adds(out, " ");
		blank = space;
	}
}

void source_quote(const struct conversation *t, const struct source *s, struct str *out)
{
	text_on_one_line(body_of(t, s) + s->quote, s->quote_end - s->quote, out);
}

/* ---- passages that the cache holds already ---- */

/* Do the tokens of bytes at .. at + n of message m's context keep their KV entries? */
static int context_kept(const struct conversation *t, const struct message *m, size_t at, size_t n)
{
	size_t n_id = t->rendered.id.n, from = m->context_place.byte + at, i;
	int32_t first;

	if (m->context_place.first < 0)
		return 0;
	for (i = (size_t)m->context_place.first; i < n_id && t->rendered.end[i] <= from; i++)
		;
	first = (int32_t)i;
	for (; i < n_id && t->rendered.end[i] <= from + n; i++)
		;
	return tokens_cached(t, first, (int32_t)i - first);
}

static int sent_before(const struct conversation *t, const char *text, size_t n)
{
	for (size_t i = t->n_msg; i--; ) {
		const struct message *m = &t->msg[i];
		const char *at = m->context.n ? memmem(m->context.p, m->context.n, text, n) : NULL;

		if (at && context_kept(t, m, (size_t)(at - m->context.p), n))
			return 1;
	}
	return 0;
}

void source_place(const struct conversation *t, size_t i, size_t from, size_t to, struct str *out)
{
	struct document_place at;

	document_place(&t->doc[i], from, to, &at);
	str_adds(out, t->doc[i].name);
	if (at.page)
		str_addf(out, ", page %s", at.page);
	if (at.heading)
		str_addf(out, ", \"%s\"", at.heading);
}

/* ---- what goes in front of the question ---- */

static int by_place(const void *a, const void *b)
{
	const struct quoted *x = a, *y = b;

	if (x->doc != y->doc)
		return x->doc < y->doc ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* Tokens that the passages of a question may take. */
static size_t room_for_passages(const struct conversation *t)
{
	struct timeline_stats st;
	size_t room, left;

	timeline_stats(t->tl, &st);
	room = (size_t)st.ctx / SHARE_OF_CTX;
	left = st.endless || st.n_tokens > st.ctx ? room : (size_t)(st.ctx - st.n_tokens) / SHARE_OF_FREE;
	return left < room ? left : room;
}

static size_t count_tokens(const struct conversation *t, const char *text, size_t n)
{
	struct tokens id = {0};
	struct err none = {0};
	size_t count = engine_tokenize(t->engine, text, n, 0, &id, &none) < 0 ? n : id.n;

	tokens_free(&id);
	return count;
}

/* The best passages of documents that are not read whole; t->quoted, in the order of the documents. */
static void choose_passages(struct conversation *t)
{
	size_t room = room_for_passages(t), most = (size_t)(t->o->passages > 0 ? t->o->passages : 0);

	free(t->quoted);
	t->quoted = xcalloc(t->sources.n + 2, sizeof *t->quoted);   /* and the sentence */
	t->n_quoted = 0;
	for (size_t i = 0; i < t->sources.n && t->n_quoted < most; i++) {
		const struct source *s = &t->sources.at[i];
		size_t n;

		if (t->doc[s->doc].whole)
			continue;
		n = count_tokens(t, body_of(t, s) + s->from, s->to - s->from);
		if (n > room)
			continue;
		room -= n;
		t->quoted[t->n_quoted++] = (struct quoted){.doc = s->doc, .from = s->from, .to = s->to};
	}
	qsort(t->quoted, t->n_quoted, sizeof *t->quoted, by_place);
}

void question_context(struct conversation *t, struct str *out)
{
	struct quoted q;
	size_t sent = 0;

	choose_passages(t);
	for (size_t i = 0; i < t->n_quoted; i++) {
		const struct document *d = &t->doc[t->quoted[i].doc];
		const char *text = d->text.p + d->body + t->quoted[i].from;

		q = t->quoted[i];
		if (sent_before(t, text, q.to - q.from))
			continue;
		str_adds(out, "From ");
		source_place(t, q.doc, q.from, q.to, out);
		str_adds(out, ":\n");
		q.at = out->n;
		q.n = q.to - q.from;
		str_add(out, text, q.to - q.from);
		str_adds(out, "\n\n");
		t->quoted[sent++] = q;
	}
	t->n_quoted = sent;
	if (!t->sources.n)
		return;
	str_adds(out, "The document says: \"");
	q = (struct quoted){.doc = t->sources.at[0].doc, .from = t->sources.at[0].from, .to = t->sources.at[0].to, .at = out->n};
	source_quote(t, &t->sources.at[0], out);
	for (size_t i = q.at; i < out->n; i++)   /* quotation marks within quotation marks */
		if (out->p[i] == '"')
			out->p[i] = '\'';
	q.n = out->n - q.at;
	t->quoted[t->n_quoted++] = q;
	str_adds(out, "\"\n\n");
}

/* ---- for people and programs ---- */

void passages_json(const struct conversation *t, struct str *out)
{
	json_open(out, "passages", '[');
	for (size_t i = 0; t->sources.found && i < t->sources.n; i++) {
		const struct source *s = &t->sources.at[i];
		struct document_place at;
		struct str quote = {0};

		json_open(out, NULL, '{');
		json_string(out, "doc", t->doc[s->doc].name);
		document_place(&t->doc[s->doc], s->quote, s->quote_end, &at);
		place_json(&at, out);
		json_open(out, "bytes", '[');
		json_uint(out, NULL, s->from);
		json_uint(out, NULL, s->to);
		json_close(out, ']');
		source_quote(t, s, &quote);
		json_text(out, "text", quote.p, quote.n);
		json_real(out, "score", s->score, "%.4f");
		json_close(out, '}');
		str_free(&quote);
	}
	json_close(out, ']');
}
