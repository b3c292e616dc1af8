/* app/talk_back.c - what /undo and /drop took back, and bringing it back (talk.h).
 *
 * What was taken lies on a stack, whole: messages with their sampled ids, documents with their text.  The cache has not been touched
 * since (the next timeline_sync() would do that), so going there and back usually costs nothing.  A new answer empties the stack: from
 * then on the talk has another branch, and what it left stays in the session's tree. */
#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "app/record.h"
#include "app/talk.h"

static struct taken *taken_new(struct talk *t)
{
	t->taken = xrealloc(t->taken, (t->n_taken + 1) * sizeof *t->taken);
	t->taken[t->n_taken] = (struct taken){.n_msg = 0};
	return &t->taken[t->n_taken++];
}

void talk_keep_exchange(struct talk *t, size_t from)
{
	struct taken *k = taken_new(t);

	k->n_msg = t->n_msg - from;
	k->msg = xcalloc(k->n_msg, sizeof *k->msg);
	memcpy(k->msg, t->msg + from, k->n_msg * sizeof *k->msg);
	t->n_msg = from;
}

void talk_keep_document(struct talk *t, size_t i)
{
	struct taken *k = taken_new(t);

	k->doc = t->doc[i];
	k->doc_at = i;
}

void talk_forget_taken(struct talk *t)
{
	while (t->n_taken) {
		struct taken *k = &t->taken[--t->n_taken];

		for (size_t i = 0; i < k->n_msg; i++)
			message_free(&k->msg[i]);
		if (!k->n_msg)
			document_free(&k->doc);
		free(k->msg);
	}
}

static void put_message(struct talk *t, struct message *m)
{
	struct message *to = talk_message(t, m->role, NULL, 0, NULL, 0);

	message_free(to);
	*to = *m;
}

/* After a restart: the branch that hangs at the end of what is shown. */
static int redo_stored(struct talk *t, struct err *e)
{
	struct message m[2];
	int rc = record_next(t->record, t, m, e);

	if (rc > 0) {
		put_message(t, &m[0]);
		put_message(t, &m[1]);
		record_brought_back(t->record, t);
	}
	return rc;
}

int talk_redo(struct talk *t, struct str *name, struct err *e)
{
	struct taken *k = t->n_taken ? &t->taken[t->n_taken - 1] : NULL;

	if (t->streamed.open)
		return err_set(e, ERR_USAGE, "a text without an end is the last message: nothing can stand behind it but a question");
	if (!k)
		return redo_stored(t, e);
	if (!k->n_msg) {
		if (talk_put_document(t, &k->doc, k->doc_at, e) < 0)
			return -1;
		str_adds(name, k->doc.name);
	} else {
		for (size_t i = 0; i < k->n_msg; i++)
			put_message(t, &k->msg[i]);
		free(k->msg);
		record_brought_back(t->record, t);
	}
	t->n_taken--;
	return 1;
}
