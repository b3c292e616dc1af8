/* app/conversation/undo.c - undoing turns, and redoing what was undone: messages and documents (conversation.h).
 *
 * Only the next timeline_sync() changes the cache, so undo and redo between two questions usually cost nothing. What
 * can be redone lies on a stack (undo_stack.c). */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"

size_t conversation_undo(struct conversation *t, size_t n)
{
	size_t done = 0;

	while (done < n && t->n_msg) {
		/* Going back, a turn ends at its question. */
		size_t from = t->n_msg - 1;
		struct message *m;
		while (from && t->msg[from].role != ROLE_USER)
			from--;
		m = &t->msg[from];
		if (m->read) {
			/* The source of a text without an end cannot be wound back: nothing before it can be redone. */
			undo_forget(t);
			while (t->n_msg > from + 1)
				message_free(&t->msg[--t->n_msg]);
			if (m->read < m->text.n) {
				companions_changed(t, CHANGE_REOPENED);
			} else {
				companions_changed(t, CHANGE_CLOSED);
				message_free(m);
				t->n_msg--;
			}
		} else {
			undo_keep_turns(t, from);
		}
		done++;
	}
	companions_changed(t, CHANGE_MESSAGES);
	if (done)
		conversation_emit(t, EVENT_UNDONE, 0);
	return done;
}

void conversation_cut(struct conversation *t, size_t from)
{
	while (t->n_msg > from)
		message_free(&t->msg[--t->n_msg]);
	companions_changed(t, CHANGE_MESSAGES);
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
		companions_changed(t, CHANGE_MESSAGES);
		conversation_emit(t, EVENT_REDONE, 0);
	}
	return rc;
}

int conversation_redo(struct conversation *t, struct str *name, struct err *e)
{
	struct undone *k = t->n_undone ? &t->undone[t->n_undone - 1] : NULL;

	if (t->grows)
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
		companions_changed(t, CHANGE_MESSAGES);
		conversation_emit(t, EVENT_REDONE, 0);
	}
	t->n_undone--;
	return 1;
}
