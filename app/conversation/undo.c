/* app/conversation/undo.c - messages and documents that were undone, and redoing them (conversation.h).
 *
 * What was undone lies on a stack, whole: messages with their sampled ids, documents with their text.  Only the next timeline_sync()
 * changes the cache, so undo and redo between two questions usually cost nothing.  A new answer empties the stack: the conversation
 * is on another branch then, and the session's tree keeps the old one. */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"

static struct undone *undone_new(struct conversation *t)
{
	t->undone = xrealloc(t->undone, (t->n_undone + 1) * sizeof *t->undone);
	t->undone[t->n_undone] = (struct undone){.n_msg = 0};
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

static void put_message(struct conversation *t, struct message *m)
{
	struct message *to = conversation_message(t, m->role, NULL, 0, NULL, 0);

	message_free(to);
	*to = *m;
}

/* The stack is empty after a restart: the session has the branch behind the last message. */
static int redo_stored(struct conversation *t, struct err *e)
{
	struct message m[2];
	int rc = t->hooks.next_turn ? t->hooks.next_turn(t, m, t->hooks.ud, e) : 0;

	if (rc > 0) {
		put_message(t, &m[0]);
		put_message(t, &m[1]);
		emit(t, EVENT_REDONE, 0);
	}
	return rc;
}

int conversation_redo(struct conversation *t, struct str *name, struct err *e)
{
	struct undone *k = t->n_undone ? &t->undone[t->n_undone - 1] : NULL;

	if (t->growing.open)
		return err_set(e, ERR_USAGE, "ask about the text that is being read before /redo");
	if (!k)
		return redo_stored(t, e);
	if (!k->n_msg && k->replaces && k->doc_at < t->n_doc) {
		struct document old;

		if (document_swap(t, &k->doc, k->doc_at, &old, e) < 0)
			return -1;
		document_keep_before(t, k->doc_at, &old);
		str_adds(name, k->doc.name);
	} else if (!k->n_msg) {
		if (document_put_back(t, &k->doc, k->doc_at, e) < 0)
			return -1;
		str_adds(name, k->doc.name);
	} else {
		for (size_t i = 0; i < k->n_msg; i++)
			put_message(t, &k->msg[i]);
		free(k->msg);
		emit(t, EVENT_REDONE, 0);
	}
	t->n_undone--;
	return 1;
}
