/* app/chat/message_search.c - the search index of a conversation's messages.
 *
 * With it app/retrieval/recall.c finds earlier turns that a question asks about but whose KV entries were evicted. The
 * index is in memory, so that undone messages leave no trace on the disk. */
#include "app/chat/chat_private.h"

static int message_add(const char *text, size_t n, int anew, int64_t *number, void *ud, struct err *e)
{
	struct chat *c = ud;

	if (anew)
		message_search_close(c);
	if (!c->messages && passage_index_open(&c->messages, NULL, e) < 0)
		return -1;
	return sentences_add(c->messages, text, n, number, e);
}

static int message_find(const char *question, size_t n, struct found_sentence **out, size_t *n_out, uint64_t *words,
                        void *ud, struct err *e)
{
	struct chat *c = ud;

	*out = NULL;
	*n_out = 0;
	*words = 0;
	return c->messages ? sentences_find(c->messages, question, n, out, n_out, words, e) : 0;
}

void message_search_attach(struct chat *c)
{
	recall_search_by(&c->conv, message_add, message_find, c);
}

void message_search_close(struct chat *c)
{
	passage_index_close(c->messages);
	c->messages = NULL;
}
