/* app/retrieval/sources.c - finds the sources of a question, and has the turn hook that stores them (retrieval.h).
 * Sources are the best candidates (candidates.c). A page or section that the question names is found without a search
 * (named_place.c). */
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/base.h"
#include "engine/base/utf8.h"
#include "sessions/store/store.h"

enum { BEGINNINGS = 3 }; /* number of documents whose beginnings are used if a question names no document */

/* Insert `first` as the best source, and remove the sources that overlap it. */
static void put_first(struct source first, struct sources *out)
{
	size_t kept = 1;

	first.score = out->n ? out->at[0].score + 1 : 1;
	out->at = xrealloc(out->at, (out->n + 2) * sizeof *out->at);
	memmove(out->at + 1, out->at, out->n * sizeof *out->at);
	out->at[0] = first;
	for (size_t i = 1; i <= out->n && kept < SOURCES_MOST; i++) {
		const struct source *s = &out->at[i];

		if (s->doc != first.doc || s->to <= first.from || s->from >= first.to)
			out->at[kept++] = *s;
	}
	out->n = kept;
	out->found = 1;
}

/* Put the page or section that the question names first among the sources, unless the best source is already inside it.
 * Returns 1 if the question names a page or section that was found, else 0. */
static int put_named(const struct conversation *conv, const char *question, size_t n, struct sources *out)
{
	struct source named;
	size_t end;

	if (!named_place(conv, question, n, &named, &end))
		return 0;
	out->found = 1;
	if (!out->n || out->at[0].doc != named.doc || out->at[0].from < named.from || out->at[0].to > end)
		put_first(named, out);
	return 1;
}

/* If the question is about a whole document ("Who wrote it?"), put the beginnings of documents first among the
 * sources. */
static void put_beginnings(const struct conversation *conv, const char *question, size_t n, struct sources *out)
{
	struct source beginning;
	int32_t words;
	size_t doc;
	enum whole_question what = asks_for_whole(conv, question, n, &doc, &words);

	if (!what || (what == WHOLE_POINTS && out->found))
		return;
	for (size_t i = MIN(conv->n_doc, BEGINNINGS); i--;) {
		size_t of = doc < conv->n_doc ? doc : i;

		/* Skip the beginning of a document in two cases: the question asks for a summary, and the whole
		 * document is in the prompt; or the document is growing, and its beginning was dropped. */
		if (!(what == WHOLE_SUMMARY && conv->doc[of].whole) && !conv->doc[of].skipped &&
		    document_beginning(conv, of, what, &beginning))
			put_first(beginning, out);
		if (doc < conv->n_doc)
			break;
	}
}

int conversation_sources(struct conversation *conv, const char *question, size_t n, struct sources *out, struct err *e)
{
	struct candidates c;
	double start = now_seconds();
	int rc = candidates_find(conv, question, n, &c, e);

	*out = (struct sources){ 0 };
	if (!rc) {
		out->found = c.found;
		out->at = xcalloc(SOURCES_MOST + 1, sizeof *out->at);
		for (; out->n < c.n && out->n < SOURCES_MOST; out->n++)
			out->at[out->n] = candidate_source(&c, out->n);
		if (!put_named(conv, question, n, out))
			put_beginnings(conv, question, n, out);
		out->seconds = now_seconds() - start;
	}
	free(c.at);
	return rc;
}

int conversation_index(struct conversation *conv, struct err *e)
{
	struct candidates c;
	int rc = candidates_find(conv, "", 0, &c, e);

	free(c.at);
	return rc;
}

/* ---- turn hook ---- */

/* Set the sources to the passages that answer the question. `context` is NULL for a new question. If the question is
 * asked again, `context` is the text that was sent with it the first time. Returns 0; 1 if the model should not be
 * asked; -1 on error. The model should not be asked if all of these hold: no passage is good enough, no document is
 * read whole, no turn was recalled, and no fact was found. */
static int find_sources(struct conversation *conv, const char *text, size_t n, const struct str *context, struct err *e)
{
	struct source_search *s = search_of(conv);
	int whole = 0;

	sources_forget(conv);
	if (!conv->n_doc || !s->search)
		return 0;
	if (conversation_sources(conv, text, n, &s->last, e) < 0)
		return -1;
	for (size_t i = 0; i < conv->n_doc; i++)
		whole |= conv->doc[i].whole || conv->doc[i].grows;
	if (signals_stopped()) /* check for a Ctrl-C: no timeline runs during the search */
		return err_set(e, ERR_CANCELLED, "stopped");
	if (!s->last.found && !whole && !recalls_of(conv)->n && !facts_of(conv)->n)
		return 1; /* keep the nearest passages, to show them to the user */
	if (!s->last.found) {
		sources_free(&s->last);
		return 0;
	}
	if (context)
		sources_chosen_before(conv, context);
	else
		sources_choose(conv);
	conversation_emit(conv, EVENT_SOURCES, 0);
	return 0;
}

static int sources_before(void *self, struct conversation *conv, const struct question *q, struct err *e)
{
	size_t n = q->n;
	const char *asked = question_in_message(q->text, &n);

	(void)self;
	if (!q->hooks->without_documents && !question_is_small_talk(asked, n))
		return find_sources(conv, asked, n, NULL, e);
	sources_forget(conv);
	return 0;
}

static void sources_context(void *self, struct conversation *conv, struct str *out)
{
	(void)self;
	question_context(conv, out);
}

static void sources_given(void *self, const struct conversation *conv, const struct question *q, struct tokens *out)
{
	size_t n = q->n;
	const char *asked = question_in_message(q->text, &n);

	(void)self;
	if (!question_wants_text(asked, n))
		quotation_given(conv, out);
}

static void sources_instead(void *self, const struct conversation *conv, struct tokens *out)
{
	(void)self;
	quotation_given(conv, out);
}

/* Restore the sources of the last question, because its answer is regenerated (goes_on = 0) or continued (goes_on = 1).
 * After a session is resumed or an answer undone, the sources are not in memory: take them from the old answer. To
 * regenerate an answer that has no sources, search again. A failed search is not an error: the question's context is
 * stored, so only the list of sources is missing. */
static int sources_again(void *self, struct conversation *conv, const struct message *old, int goes_on, struct err *e)
{
	const struct message *m = &conv->msg[conv->n_msg - 1];
	struct source_search *s = self;
	struct err why = { 0 };
	size_t n = m->text.n;
	int rc = 0;

	if (!s->last.found && goes_on)
		sources_forget(conv);
	else if (!s->last.found) /* s->last has only the nearest passages, for a question that was not answered */
		sources_free(&s->last);
	if (goes_on) {
		if (!s->last.n)
			sources_restore(conv, &old->sources);
		return 0;
	}
	if (s->last.n || sources_restore(conv, &old->sources))
		conversation_emit(conv, EVENT_SOURCES, 0);
	else if (context_is_searched(&m->context))
		rc = find_sources(conv, question_in_message(str_text(&m->text), &n), n, &m->context, &why);
	if (!s->last.found)
		sources_free(&s->last);
	return rc < 0 && why.code == ERR_CANCELLED ? err_set(e, why.code, "%s", why.msg) : 0;
}

/* Store the sources with the answer. But a continued answer that already has sources keeps them. */
static void sources_began(void *self, struct conversation *conv, struct message *answer)
{
	(void)self;
	if (!answer->sources.n)
		answer_sources_found(conv, &answer->sources);
}

static void sources_changed(void *self, struct conversation *conv, enum turn_hook_change what)
{
	struct source_search *s = self;

	switch (what) {
	case CHANGE_DOCUMENTS:
	case CHANGE_MESSAGES:
	case CHANGE_EMPTIED: sources_forget(conv); break;
	case CHANGE_MODEL: rerank_close(&s->rerank); break;
	case CHANGE_RENDERED:
	case CHANGE_CACHE:
	case CHANGE_CLOSED:
	case CHANGE_REOPENED: break;
	}
}

static void sources_json(void *self, const struct conversation *conv, struct str *out)
{
	(void)self;
	passages_json(conv, out);
	recalled_json(conv, out); /* this turn hook writes the passages, and also the recalled turns */
}

static void sources_close(void *self)
{
	struct source_search *s = self;

	sources_free(&s->last);
	rerank_close(&s->rerank);
	meaning_close(&s->meaning);
	free(s);
}

const struct turn_hook_ops sources_ops = {
	.name = "sources",
	.before = sources_before,
	.context = sources_context,
	.given = sources_given,
	.instead = sources_instead,
	.again = sources_again,
	.began = sources_began,
	.changed = sources_changed,
	.json = sources_json,
	.free = sources_close,
};

void retrieval_join(struct conversation *conv)
{
	turn_hook_add(conv, &memory_ops, xcalloc(1, sizeof(struct memory_search)));
	turn_hook_add(conv, &recall_ops, recall_new());
	turn_hook_add(conv, &sources_ops, xcalloc(1, sizeof(struct source_search)));
	turn_hook_add(conv, &evidence_ops, xcalloc(1, sizeof(struct evidence_list)));
	turn_hook_add(conv, &unsupported_ops, xcalloc(1, sizeof(struct str)));
}
