/* app/retrieval/answer_sources.c - makes the numbered list of an answer's sources, which is stored with the answer
 * (retrieval.h).
 *
 * The list has two kinds of passages. First come the passages that the search found for the question (sources.c). Then
 * come other passages that the answer attended to (evidence.c). Both kinds show their share of the answer's
 * attention. */
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"

enum {
	/* maximum number of listed passages that the search found; more are listed only if more were sent to the
	 * model */
	FOUND_MOST = 3,
	ATTENDED_MOST = ANSWER_SOURCES_MOST - SOURCES_MOST,
	/* number of bytes that are shown of a passage that is listed only because the answer attended to it */
	TEXT_MOST = 200,
};
static const double ATTENDED_LEAST = 0.05; /* minimum share of the attention; smaller shares are noise */

static char *text_copy(const char *text)
{
	return text ? xstrndup(text, strlen(text)) : NULL;
}

static size_t lines_in(const char *p, const char *end)
{
	size_t n = 0;

	for (; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
		n++;
	return n;
}

/* In s->text, the source's quote on one line, find the words that answer the question. Set s->mark and s->mark_end to
 * the beginning and end of these words. [answer, answer_end) is their byte range in the document's body. */
static void mark_set(const char *body, size_t answer, size_t answer_end, struct answer_source *s)
{
	struct str before = { 0 };

	if (answer >= answer_end || answer < s->quote || answer >= s->quote_end)
		return;
	text_on_one_line(body + s->quote, answer - s->quote, &before);
	s->mark = before.n;
	text_on_one_line(body + answer, MIN(answer_end, s->quote_end) - answer, &before);
	s->mark_end = before.n;
	str_free(&before);
}

/* Append a copy of *s to the list, and fill in its document name, page, heading, lines, text and mark. [answer,
 * answer_end) is the byte range of the body that answers the question. */
static struct answer_source *source_add(const struct conversation *conv, size_t doc, const struct answer_source *s,
                                        size_t answer, size_t answer_end, struct answer_sources *out)
{
	const struct document *d = &conv->doc[doc];
	const char *body = d->text.p + d->body;
	size_t from = s->found ? s->quote : s->from, to = s->found ? s->quote_end : s->to;
	struct document_place at;
	struct answer_source *new;
	struct str text = { 0 };

	out->at = xrealloc(out->at, (out->n + 1) * sizeof *out->at);
	new = &out->at[out->n++];
	*new = *s;
	document_place(d, from, to, &at);
	new->doc = text_copy(d->name);
	new->page = text_copy(at.page);
	new->heading = text_copy(at.heading);
	new->recognised = at.recognised;
	if (!at.page && d->type <= DOC_SOURCE) {
		new->line = d->lines + 1 + lines_in(body, body + from);
		new->last_line = new->line + lines_in(body + from, body + to);
	}
	text_on_one_line(body + s->quote, s->quote_end - s->quote, &text);
	mark_set(body, answer, answer_end, new);
	new->text = text.p ? text.p : text_copy("");
	return new;
}

void answer_sources_found(const struct conversation *conv, struct answer_sources *out)
{
	const struct sources *last = sources_of(conv);

	*out = (struct answer_sources){ 0 };
	for (size_t i = 0; i < last->n; i++) {
		const struct source *s = &last->at[i];
		struct str text = { 0 };
		int known = 0;

		source_quote(conv, s, &text);
		for (size_t k = 0; k < out->n; k++)
			known |= !strcmp(out->at[k].text, str_text(&text));
		str_free(&text);
		if (known || (!s->chosen && (out->n >= FOUND_MOST || s->weak)))
			continue;
		source_add(conv, s->doc,
		           &(struct answer_source){
				   .from = s->from,
				   .to = s->to,
				   .quote = s->quote,
				   .quote_end = s->quote_end,
				   .found = 1,
				   .score = s->score,
				   /* If no source is good enough, no passage was sent with the question. All sources
				    * then count as sent: otherwise the list would say "(not sent to the model)" after
				    * each of them. */
				   .sent = source_sent(conv, s) || !last->found,
				   .share = -1,
			   },
		           s->answer, s->answer_end, out);
	}
}

/* 1 if the overlap of two passages is at least half of the shorter passage. */
static int same_passage(const struct answer_source *a, const struct evidence *b)
{
	size_t from = MAX(a->from, b->from), to = MIN(a->to, b->to);
	size_t n = a->to - a->from < b->to - b->from ? a->to - a->from : b->to - b->from;

	return to > from && 2 * (to - from) >= n;
}

/* 1 if the attention shares of the listed passages can be compared. For this, at least two passages must have attention
 * (evidence_list.compared), and one of two conditions must hold:
 * - The whole text of a document is in the prompt, so all its passages are.
 * - At least two of the listed passages are in the prompt. If only one of them is there, the rest of the attention may
 *   be on passages that are not listed, because they were sent with earlier questions. */
static int shares_are_comparable(const struct conversation *conv, const struct answer_sources *list)
{
	int compared = evidence_of(conv)->compared;
	size_t sent = 0;

	for (size_t i = 0; i < conv->n_doc; i++)
		if (conv->doc[i].whole)
			return compared;
	for (size_t i = 0; i < list->n; i++)
		sent += list->at[i].sent != 0;
	return compared && sent > 1;
}

void answer_sources_attended(const struct conversation *conv, struct answer_sources *out)
{
	const struct evidence_list *evidence = evidence_of(conv);
	size_t n = out->n, new = 0;

	if (evidence->n)
		for (size_t i = 0; i < n; i++)
			out->at[i].share = out->at[i].sent ? 0 : -1;
	for (size_t i = 0; i < evidence->n && evidence->at[i].share >= ATTENDED_LEAST; i++) {
		const struct evidence *v = &evidence->at[i];
		const struct document *d = &conv->doc[v->doc];
		struct answer_source *s = NULL;

		for (size_t k = 0; k < n && !s; k++)
			if (same_passage(&out->at[k], v) && answer_source_document(conv, &out->at[k]) == v->doc)
				s = &out->at[k];
		if (s && s->sent)
			s->share += v->share;
		else if (!s && new < ATTENDED_MOST && out->n < ANSWER_SOURCES_MOST)
			new += source_add(conv, v->doc,
			                  &(struct answer_source){
						  .from = v->from,
						  .to = v->to,
						  .quote = v->from,
						  .sent = 1,
						  .share = v->share,
						  .quote_end = v->from +
			                                       (v->to - v->from > TEXT_MOST
			                                                ? utf8_complete(d->text.p + d->body + v->from,
			                                                                TEXT_MOST)
			                                                : v->to - v->from),
					  },
			                  0, 0, out) != NULL;
	}
	for (size_t i = 0; i < out->n && !shares_are_comparable(conv, out); i++)
		out->at[i].share = -1;
}

/* ---- find sources in the documents ---- */

size_t answer_source_document(const struct conversation *conv, const struct answer_source *s)
{
	struct str text = { 0 };
	size_t found = SIZE_MAX;

	for (size_t i = 0; i < conv->n_doc && found == SIZE_MAX; i++) {
		const struct document *d = &conv->doc[i];

		if (strcmp(d->name, s->doc) != 0 || s->to > d->n_body || s->from > s->quote ||
		    s->quote > s->quote_end || s->quote_end > s->to)
			continue;
		str_clear(&text);
		text_on_one_line(d->text.p + d->body + s->quote, s->quote_end - s->quote, &text);
		if (!strcmp(str_text(&text), s->text))
			found = i;
	}
	str_free(&text);
	return found;
}

int sources_restore(struct conversation *conv, const struct answer_sources *from)
{
	struct sources *last = &search_of(conv)->last;

	sources_forget(conv);
	for (size_t i = 0; i < from->n && from->at[i].found && last->n < SOURCES_MOST; i++) {
		const struct answer_source *s = &from->at[i];
		size_t doc = answer_source_document(conv, s);

		if (doc == SIZE_MAX) {
			sources_forget(conv);
			return 0;
		}
		last->at = xrealloc(last->at, (last->n + 1) * sizeof *last->at);
		last->at[last->n++] = (struct source){
			.doc = doc,
			.from = s->from,
			.to = s->to,
			.quote = s->quote,
			.quote_end = s->quote_end,
			.score = s->score,
			.chosen = s->sent && !conv->doc[doc].whole,
		};
	}
	last->found = last->n > 0;
	return last->found;
}

/* ---- sources stored with a message ---- */

void message_read_stats(int role, const char *stats, struct message *to)
{
	struct jv v = jv_parse(stats ? stats : "", stats ? strlen(stats) : 0);

	if (role == ROLE_USER)
		jv_text(jv_get(v, "context"), &to->context);
	else
		answer_sources_read(jv_get(v, "sources"), &to->sources);
}

void message_export_more(int role, const char *stats, int json, struct str *out)
{
	struct message m = { .role = ROLE_USER };
	struct str record = { 0 };
	struct jv made;

	message_read_stats(role, stats, &m);
	if (!json) {
		answer_found_lines(&m.sources, out);
		answer_attended_lines(&m.sources, out);
	} else if (role == ROLE_ASSISTANT) {
		answer_sources_json(&m.sources, out);
		made = jv_get(jv_parse(stats, strlen(stats)), "made");
		str_add(&record, made.p, made.p ? (size_t)(made.end - made.p) : 0);
		if (record.n)
			json_value(out, "made", &record);
	} else if (m.context.n) {
		json_text(out, "context", m.context.p, m.context.n);
	}
	str_free(&record);
	message_free(&m);
}
