/* app/conversation/undo.c - undo of turns; redo of turns and documents (conversation.h).
 *
 * Undone turns and dropped documents are moved to the redo stack (undo_stack.c). The KV cache changes only with the
 * next question. So an undo followed by a redo recomputes nothing. */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"

size_t conversation_undo(struct conversation *conv, size_t n)
{
	size_t done = 0;

	while (done < n && conv->n_msg) {
		/* move back from the last message to the question of the last turn */
		size_t from = conv->n_msg - 1;
		struct message *m;
		while (from && conv->msg[from].role != ROLE_USER)
			from--;
		m = &conv->msg[from];
		if (m->read) {
			/* Clear the redo stack: the message was read from a stream, and a redo cannot read the stream
			 * again. */
			undo_forget(conv);
			while (conv->n_msg > from + 1)
				message_free(&conv->msg[--conv->n_msg]);
			if (m->read < m->text.n) {
				turn_hooks_changed(conv, CHANGE_REOPENED);
			} else {
				turn_hooks_changed(conv, CHANGE_CLOSED);
				message_free(m);
				conv->n_msg--;
			}
		} else {
			undo_keep_turns(conv, from);
		}
		done++;
	}
	turn_hooks_changed(conv, CHANGE_MESSAGES);
	if (done)
		conversation_emit(conv, EVENT_UNDONE, 0);
	return done;
}

void conversation_cut(struct conversation *conv, size_t from)
{
	while (conv->n_msg > from)
		message_free(&conv->msg[--conv->n_msg]);
	turn_hooks_changed(conv, CHANGE_MESSAGES);
}

/* Append *m to the messages; takes ownership of its members. */
static void put_message(struct conversation *conv, struct message *m)
{
	struct message *to = conversation_message(conv, m->role, NULL, 0, NULL, 0);

	message_free(to);
	*to = *m;
}

/* Redo a turn that was undone in an earlier run of weir; the turn is taken from the stored session. Returns 1 if it was
 * redone, 0 if there is no such turn, or -1 on error. */
static int redo_stored(struct conversation *conv, struct err *e)
{
	struct message m[2];
	int rc = conv->hooks.next_turn ? conv->hooks.next_turn(conv, m, conv->hooks.ud, e) : 0;

	if (rc > 0) {
		put_message(conv, &m[0]);
		put_message(conv, &m[1]);
		turn_hooks_changed(conv, CHANGE_MESSAGES);
		conversation_emit(conv, EVENT_REDONE, 0);
	}
	return rc;
}

int conversation_redo(struct conversation *conv, struct str *name, struct err *e)
{
	struct undone *k = conv->n_undone ? &conv->undone[conv->n_undone - 1] : NULL;

	if (conv->grows)
		return err_set(e, ERR_USAGE, "ask about the text that is being read before /redo");
	if (!k)
		return redo_stored(conv, e);
	if (!k->n_msg && k->replaces && k->doc_at < conv->n_doc) {
		struct document old;

		if (document_swap(conv, &k->doc, k->doc_at, &old, e) < 0)
			return -1;
		document_keep_before(conv, k->doc_at, &old);
		str_adds(name, k->doc.name);
	} else if (!k->n_msg) {
		if (document_put_back(conv, &k->doc, k->doc_at, e) < 0)
			return -1;
		str_adds(name, k->doc.name);
	} else {
		for (size_t i = 0; i < k->n_msg; i++)
			put_message(conv, &k->msg[i]);
		free(k->msg);
		turn_hooks_changed(conv, CHANGE_MESSAGES);
		conversation_emit(conv, EVENT_REDONE, 0);
	}
	conv->n_undone--;
	return 1;
}
