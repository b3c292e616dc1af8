/* app/chat/document_search.c - searches the documents of a conversation (sessions.h: passages).
 *
 * The index lies in the session's store, where the text of a document lies, too; without a store, and when it cannot be written any more, in
 * memory. */
#include "app/chat/chat_private.h"

/* Texts in the store's index are those of stored documents, so that they are deleted together. */
static int in_store(struct chat *c)
{
	struct err e = {0};

	return c->log && !c->log->failed && session_log_begin(c->log, &c->t, &e) == 0;
}

static int open_index(struct chat *c, struct err *e)
{
	int kept = in_store(c);

	if (c->index && c->index_kept == kept)
		return 0;
	document_search_close(c);
	c->index_kept = kept;
	return passage_index_open(&c->index, kept ? c->log->store : NULL, e);
}

static int search(const struct indexed_text *text, size_t n_text, const char *question, size_t n, struct found_passage *out, size_t most,
                  void *ud, struct err *e)
{
	struct chat *c = ud;

	return open_index(c, e) < 0 ? -1 : passages_find(c->index, text, n_text, question, n, out, most, e);
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
