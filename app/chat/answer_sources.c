/* app/chat/answer_sources.c - shows the sources of an answer, numbered [1], [2], ... They are the passages of documents
 * on which the answer is based.
 *
 * Before the answer it shows the passages that the search found. Below the answer it shows which share of the answer's
 * attention each passage got. /source opens one of the passages. */
#include "app/chat/chat_private.h"

#include <string.h>

int sources_shown(const struct chat *c)
{
	return !c->o.quiet && (!c->o.sources || strcmp(c->o.sources, "off") != 0);
}

int chat_attends(const struct chat *c)
{
	return c->o.json || sources_shown(c);
}

void chat_source_lines(const struct chat *c, const struct message *m, struct str *out)
{
	if (!sources_shown(c))
		return;
	answer_found_lines(&m->sources, out);
	answer_attended_lines(&m->sources, out);
}

static void sources_post(struct chat *c, const struct answer_sources *list)
{
	if (c->front->sources)
		c->front->sources(c, list);
}

void sources_before(struct chat *c)
{
	struct answer_sources list;
	struct str s = { 0 };

	answer_sources_found(&c->conv, &list);
	if (sources_shown(c) && list.n) {
		answer_found_lines(&list, &s);
		notice(c, "%s", s.p);
		sources_post(c, &list);
	}
	answer_sources_free(&list);
	str_free(&s);
}

void sources_below(struct chat *c)
{
	const struct conversation *conv = &c->conv;
	const struct message *m = conversation_answer(conv);
	struct str s = { 0 }, words = { 0 };

	if (!sources_shown(c) || !m)
		return;
	if (m->sources.n && evidence_of(conv)->unattended && !c->o.json)
		notice(c, "attention: hardly on the documents; the answer may be the model's own");
	answer_attended_lines(&m->sources, &s);
	if (s.n)
		str_adds(&s, "\n");
	unsupported_line(conv, &s);
	unsupported_words(conv, &words);
	if (c->front->unsupported)
		c->front->unsupported(c, str_text(&words));
	str_free(&words);
	if (s.n && !c->o.json)
		notice(c, "%.*s", (int)(s.n - (s.p[s.n - 1] == '\n')), s.p);
	if (m->sources.n)
		sources_post(c, &m->sources);
	str_free(&s);
}

/* ---- /source ---- */

void slash_source(struct chat *c, char *arg)
{
	const struct conversation *conv = &c->conv;
	const struct message *m = conversation_answer(conv);
	const struct answer_source *source;
	/* passages nearest to the last question, if no document answered that question; else empty */
	struct answer_sources nearest = { 0 };
	const struct answer_sources *list;
	size_t n, doc;
	long i = *arg ? number_of(arg) : 1;
	struct str s = { 0 };
	struct err e = { 0 };

	if (!sources_of(conv)->found)
		answer_sources_found(conv, &nearest);
	list = nearest.n ? &nearest : m ? &m->sources : NULL;
	n = list ? list->n : 0;
	if (!n)
		err_set(&e, ERR_USAGE,
		        conv->n_doc ? "the last answer has no sources in the documents"
		                    : "there is no document; /open FILE adds one");
	else if (i < 1 || (size_t)i > n)
		err_set(&e, ERR_USAGE,
		        n > 1 ? "/source wants a number from 1 to %zu" : "the last answer has one source: /source %zu",
		        n);
	if (e.code) {
		chat_error(c, &e);
		answer_sources_free(&nearest);
		return;
	}
	source = &list->at[i - 1];
	doc = answer_source_document(conv, source);
	if (doc == SIZE_MAX) {
		err_set(&e, ERR_USAGE, SOURCE_GONE, (size_t)i, source->doc);
		chat_error(c, &e);
		answer_sources_free(&nearest);
		return;
	}
	if (c->front->document) {
		c->front->document(c, doc, source->from, source->to);
		answer_sources_free(&nearest);
		return;
	}
	str_addf(&s, "[%ld] ", i);
	answer_source_place(source, &s);
	str_adds(&s, source->sent ? "" : " (not sent to the model)");
	if (source->share > 0)
		str_addf(&s, ": %.0f %% of the attention", 100 * source->share);
	str_adds(&s, "\n");
	str_add(&s, conv->doc[doc].text.p + conv->doc[doc].body + source->from, source->to - source->from);
	notice(c, "%s", s.p);
	str_free(&s);
	answer_sources_free(&nearest);
}
