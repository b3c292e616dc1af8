/* app/conversation/undo_stack.c - what was undone, the newest on top (conversation.h).
 *
 * What was undone lies on a stack, whole: messages with their sampled ids, documents with their text. A new answer
 * empties the stack: the conversation is on another branch then, and the session's tree keeps the old one. */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"

static struct undone *undone_new(struct conversation *t)
{
	t->undone = xrealloc(t->undone, (t->n_undone + 1) * sizeof *t->undone);
	t->undone[t->n_undone] = (struct undone){ .n_msg = 0 };
	return &t->undone[t->n_undone++];
}

void undo_keep_turns(struct conversation *t, size_t from)
{
	struct undone *k = undone_new(t);

	k->n_msg = t->n_msg - from;
	k->msg = xcalloc(k->n_msg, sizeof *k->msg);
	memcpy(k->msg, t->msg + from, k->n_msg * sizeof *k->msg);
	t->n_msg = from;
}

void undo_keep_document(struct conversation *t, size_t i)
{
	struct undone *k = undone_new(t);

	k->doc = t->doc[i];
	k->doc_at = i;
}

void undo_keep_version(struct conversation *t, const struct document *d, size_t i)
{
	struct undone *k = undone_new(t);

	k->doc = *d;
	k->doc_at = i;
	k->replaces = 1;
}

int32_t undo_cached(const struct conversation *t, const struct timeline_stats *st)
{
	const struct undone *k = t->n_undone ? &t->undone[t->n_undone - 1] : NULL;
	int32_t first = k && k->n_msg ? k->msg[0].place.first : -1;

	return first > 0 && first < st->n_tokens ? st->n_tokens - first : 0;
}

void undo_uncached(struct conversation *t)
{
	for (size_t i = 0; i < t->n_undone; i++)
		for (size_t j = 0; j < t->undone[i].n_msg; j++)
			t->undone[i].msg[j].place.first = -1;
}

void undo_forget(struct conversation *t)
{
	for (size_t i = 0; i < t->n_doc; i++)
		document_forget_before(&t->doc[i]);
	while (t->n_undone) {
		struct undone *k = &t->undone[--t->n_undone];

		for (size_t i = 0; i < k->n_msg; i++)
			message_free(&k->msg[i]);
		if (!k->n_msg)
			document_free(&k->doc);
		free(k->msg);
	}
}
