/* app/chat/document_search.c - searches the documents of a conversation (sessions/store/store.h: passages).
 *
 * The index lies in the session's store, where the text of a document lies, too; without a store, and when it cannot be
 * written any more, in memory. */
#include "app/chat/chat_private.h"

/* Texts in the store's index are those of stored documents, so that they are deleted together. */
static int in_store(struct chat *c)
{
	struct err e = { 0 };

	for (size_t i = 0; i < c->t.n_doc; i++)
		if (c->t.doc[i].grows)
			return 0; /* not stored as a document */
	return c->log && !c->log->failed && session_log_begin(c->log, &c->t, &e) == 0;
}

/* Bytes of a growing text that are not searched any more. */
static size_t text_skipped(const struct chat *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->t.n_doc; i++)
		n += c->t.doc[i].skipped;
	return n;
}

/* In memory, what is searched no more goes when as much has come since. */
static int open_index(struct chat *c, struct err *e)
{
	int kept = in_store(c);

	if (c->index && c->index_kept == kept && c->index_from + TEXT_SEARCHED > text_skipped(c))
		return 0;
	document_search_close(c);
	c->index_kept = kept;
	c->index_from = text_skipped(c);
	return passage_index_open(&c->index, kept ? c->log->store : NULL, e);
}

enum { SHOW_FIRST = 300, SHOW_EVERY = 100 }; /* milliseconds: what takes less is not worth a line */

/* A text is being indexed, before the first question about it. */
static int on_indexing(size_t done, size_t total, void *ud)
{
	struct chat *c = ud;
	double now = now_seconds(), spent = now - c->indexing.since, part = total ? (double)done / (double)total : 1;

	if (!done)
		c->indexing.since = c->indexing.shown = now, spent = 0;
	if (c->front && spent * 1000 >= SHOW_FIRST && (now - c->indexing.shown) * 1000 >= SHOW_EVERY) {
		double left = spent / part - spent;

		c->indexing.shown = now;
		str_clear(&c->indexing.verb);
		str_addf(&c->indexing.verb, "indexing %d%%", (int)(part * 100));
		if (left >= 1)
			str_addf(&c->indexing.verb, ", %.0f s left", left);
		c->front->progress(c, c->indexing.verb.p, 0, 0);
	}
	return signals_stopped();
}

static int search(const struct indexed_text *text, size_t n_text, const char *question, size_t n,
                  struct found_passage *out, size_t most, void *ud, struct err *e)
{
	struct chat *c = ud;

	int count;

	if (open_index(c, e) < 0)
		return -1;
	passage_index_watch(c->index, on_indexing, c);
	c->indexing.on = 1;
	count = passages_find(c->index, text, n_text, question, n, out, most, e);
	c->indexing.on = 0;
	if (c->indexing.verb.n)
		c->front->progress(c, "reading", -1, 0);
	str_free(&c->indexing.verb);
	return count;
}

void document_search_attach(struct chat *c)
{
	c->t.hooks.search = search;
	c->t.hooks.search_ud = c;
}

void document_search_close(struct chat *c)
{
	passage_index_close(c->index);
	c->index = NULL;
}
