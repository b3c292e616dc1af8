/* app/conversation/undo_stack.c - the redo stack: undone turns and dropped documents, newest on top (conversation.h).
 *
 * Entries own their messages and documents. A new answer empties the stack, because it begins another branch; the
 * undone branch stays in the stored session. */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"

/* Push an empty entry. */
static struct undone *undone_new(struct conversation *conv)
{
	conv->undone = xrealloc(conv->undone, (conv->n_undone + 1) * sizeof *conv->undone);
	conv->undone[conv->n_undone] = (struct undone){ .n_msg = 0 };
	return &conv->undone[conv->n_undone++];
}

void undo_keep_turns(struct conversation *conv, size_t from)
{
	struct undone *k = undone_new(conv);

	k->n_msg = conv->n_msg - from;
	k->msg = xcalloc(k->n_msg, sizeof *k->msg);
	memcpy(k->msg, conv->msg + from, k->n_msg * sizeof *k->msg);
	conv->n_msg = from;
}

void undo_keep_document(struct conversation *conv, size_t i)
{
	struct undone *k = undone_new(conv);

	k->doc = conv->doc[i];
	k->doc_at = i;
}

void undo_keep_version(struct conversation *conv, const struct document *d, size_t i)
{
	struct undone *k = undone_new(conv);

	k->doc = *d;
	k->doc_at = i;
	k->replaces = 1;
}

int32_t undo_cached(const struct conversation *conv, const struct timeline_stats *st)
{
	const struct undone *k = conv->n_undone ? &conv->undone[conv->n_undone - 1] : NULL;
	int32_t first = k && k->n_msg ? k->msg[0].prompt_at.first : -1;

	return first > 0 && first < st->n_tokens ? st->n_tokens - first : 0;
}

void undo_uncached(struct conversation *conv)
{
	for (size_t i = 0; i < conv->n_undone; i++)
		for (size_t j = 0; j < conv->undone[i].n_msg; j++)
			conv->undone[i].msg[j].prompt_at.first = -1;
}

void undo_forget(struct conversation *conv)
{
	for (size_t i = 0; i < conv->n_doc; i++)
		document_forget_before(&conv->doc[i]);
	while (conv->n_undone) {
		struct undone *k = &conv->undone[--conv->n_undone];

		for (size_t i = 0; i < k->n_msg; i++)
			message_free(&k->msg[i]);
		if (!k->n_msg)
			document_free(&k->doc);
		free(k->msg);
	}
}
