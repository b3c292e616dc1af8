/* app/conversation/documents.c - the documents of a conversation (conversation.h).
 *
 * A document that fits is read whole. Such documents stand, quoted and with their names, before the first question, so
 * all of them lie at the start of the sequence, behind the system prompt: the prefix, which a cache may pin. They are
 * prefilled once. One that is added in the middle of a conversation joins the prefix, and the messages are recomputed
 * behind it.
 *
 * Of a document that does not fit nothing is prefilled: each question brings the passages that answer it (sources.c,
 * quote.c). So it is with the files of a folder, of which some would fit: those that come first are no better than the
 * others, and would leave no room. */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"

enum {
	ROOM_MIN = 32,       /* tokens of a question and its answer that must fit beside the documents */
	BYTES_PER_TOKEN = 4, /* for an estimate */
	BYTES_HOPELESS = 16, /* a text of more bytes for each token of the context is not even tokenized */
	/* documents that come together and would fill more contexts than these are searched, each of them */
	CONTEXTS_OF_MANY = 2,
};

int conversation_drop_last_document(struct conversation *t, struct str *name)
{
	struct document *d = t->n_doc ? &t->doc[t->n_doc - 1] : NULL;

	if (!d || d->at < t->n_msg)
		return 0;
	conversation_drop_document(t, t->n_doc - 1, name);
	return 1;
}

void conversation_drop_document(struct conversation *t, size_t i, struct str *name)
{
	if (name)
		str_adds(name, t->doc[i].name);
	conversation_emit(t, EVENT_DOCUMENT_DROPPED, i);
	companions_changed(t, CHANGE_DOCUMENTS);
	t->doc[i].stored = 0;
	undo_keep_document(t, i);
	memmove(t->doc + i, t->doc + i + 1, (t->n_doc - i - 1) * sizeof *t->doc);
	t->n_doc--;
	t->prefix_known = 0;
}

void conversation_drop_documents(struct conversation *t)
{
	companions_changed(t, CHANGE_DOCUMENTS);
	while (t->n_doc)
		document_free(&t->doc[--t->n_doc]);
	free(t->doc);
	t->doc = NULL;
	t->prefix_known = 0;
}

/* Does document d come with others, each of which may fit, but by far not all of them? Only their sizes decide, so a
 * session that is resumed decides alike. */
static int is_one_of_many(const struct conversation *t, const struct document *d)
{
	size_t ctx = conversation_context_size(t), tokens = 0;

	for (size_t i = 0; i < t->n_doc; i++)
		if (t->doc[i].at == d->at && t->doc[i].n_body / BYTES_PER_TOKEN <= ctx)
			tokens += t->doc[i].n_body / BYTES_PER_TOKEN;
	return tokens > CONTEXTS_OF_MANY * ctx;
}

static int decides_itself(const struct conversation *t)
{
	return !t->o->docs || !strcmp(t->o->docs, "auto");
}

/* Is document d read whole, or searched for passages?  As --docs says; auto: whole if it fits. */
static int document_choose(struct conversation *t, struct document *d, size_t room, struct err *e)
{
	int decides = decides_itself(t);
	struct err why = { 0 };

	if (d->grows)
		return 0;
	d->whole = 0;
	d->tokens = d->n_body / BYTES_PER_TOKEN;
	t->prefix_known = 0;
	if (decides ? d->n_body / BYTES_HOPELESS > conversation_context_size(t) || is_one_of_many(t, d)
	            : !strcmp(t->o->docs, "passages"))
		return 0;
	d->whole = 1;
	if (t->by->document_fits(t, d, room, &why) == 0) {
		t->prefix_known = 0;
		return 0;
	}
	d->whole = 0;
	t->prefix_known = 0;
	return why.code == ERR_FIT && decides ? 0 : err_set(e, why.code, "%s", why.msg);
}

void documents_choose(struct conversation *t)
{
	struct err none = { 0 };

	for (size_t i = 0; i < t->n_doc; i++)
		t->doc[i].whole = 0;
	for (size_t i = 0; i < t->n_doc; i++)
		document_choose(t, &t->doc[i], t->n_msg ? 0 : ROOM_MIN, &none);
}

static int document_known(const struct conversation *t, const struct document *new)
{
	for (size_t i = 0; i < t->n_doc; i++) {
		const struct document *d = &t->doc[i];

		if (!strcmp(d->name, new->name) && d->n_body == new->n_body &&
		    !memcmp(d->text.p, new->text.p, new->text.n))
			return 1;
	}
	return 0;
}

/* As the last one; it is freed where it does not fit.  room: tokens that must stay free behind all that there is. */
static int document_append(struct conversation *t, struct document d, size_t room, struct err *e)
{
	int rc;

	t->doc = xrealloc(t->doc, (t->n_doc + 1) * sizeof *t->doc);
	t->doc[t->n_doc++] = d;
	rc = document_choose(t, &t->doc[t->n_doc - 1], room, e);
	if (rc < 0)
		document_free(&t->doc[--t->n_doc]);
	/* The new document may make them too many: those that are read whole so far are searched, too. */
	for (size_t i = 0; !rc && decides_itself(t) && i < t->n_doc; i++)
		if (t->doc[i].whole && t->doc[i].at == d.at && is_one_of_many(t, &t->doc[i])) {
			t->doc[i].whole = 0;
			t->doc[i].tokens = t->doc[i].n_body / BYTES_PER_TOKEN;
		}
	return rc;
}

int conversation_restore_document(struct conversation *t, const struct doc *in, size_t at, struct err *e)
{
	return document_append(t, document_make(in, at), 0, e); /* it fitted when it was added */
}

int conversation_add_document(struct conversation *t, const struct doc *in, struct err *e)
{
	struct document d = document_make(in, t->n_msg);
	int rc;

	if (document_known(t, &d)) {
		document_free(&d);
		return 1;
	}
	rc = document_append(t, d, ROOM_MIN, e);
	if (!rc)
		conversation_emit(t, EVENT_DOCUMENT_ADDED, t->n_doc - 1);
	return rc;
}

int document_put_back(struct conversation *t, const struct document *d, size_t i, struct err *e)
{
	struct document *last;

	/* Append the document, which checks that it fits, then move it to its place. */
	t->doc = xrealloc(t->doc, (t->n_doc + 1) * sizeof *t->doc);
	last = &t->doc[t->n_doc++];
	*last = *d;
	if (last->at > t->n_msg)
		last->at = t->n_msg;
	if (document_choose(t, last, ROOM_MIN, e) < 0) {
		t->n_doc--;
		return -1;
	}
	if (i + 1 < t->n_doc) {
		struct document back = *last;

		companions_changed(t, CHANGE_DOCUMENTS);
		memmove(t->doc + i + 1, t->doc + i, (t->n_doc - 1 - i) * sizeof *t->doc);
		t->doc[i] = back;
	} else {
		i = t->n_doc - 1;
	}
	t->prefix_known = 0;
	conversation_emit(t, EVENT_DOCUMENT_PUT_BACK, i);
	return 0;
}

void conversation_read_document(struct conversation *t, const struct doc *in, size_t skipped, size_t lines)
{
	size_t i = 0;

	while (i < t->n_doc && !t->doc[i].grows)
		i++;
	if (i < t->n_doc || in)
		companions_changed(t, CHANGE_DOCUMENTS);
	if (i < t->n_doc)
		document_free(&t->doc[i]);
	else if (in)
		t->doc = xrealloc(t->doc, ++t->n_doc * sizeof *t->doc);
	if (in) {
		t->doc[i] = document_make(in, 0);
		t->doc[i].grows = 1;
		t->doc[i].skipped = skipped;
		t->doc[i].lines = lines;
		t->doc[i].place.first = -1;
	} else if (i < t->n_doc) {
		memmove(t->doc + i, t->doc + i + 1, (--t->n_doc - i) * sizeof *t->doc);
	}
}

/* ---- another version ---- */

size_t conversation_document_of(const struct conversation *t, const char *path)
{
	for (size_t i = 0; i < t->n_doc; i++)
		if (t->doc[i].origin->path && !strcmp(t->doc[i].origin->path, path))
			return i;
	return SIZE_MAX;
}

int document_swap(struct conversation *t, const struct document *d, size_t i, struct document *old, struct err *e)
{
	*old = t->doc[i];
	t->doc[i] = *d;
	t->doc[i].at = old->at;
	if (document_choose(t, &t->doc[i], ROOM_MIN, e) < 0) {
		t->doc[i] = *old;
		t->prefix_known = 0;
		return -1;
	}
	companions_changed(t, CHANGE_DOCUMENTS);
	/* The session's row is replaced with the text. */
	t->doc[i].stored = old->stored;
	old->stored = 0;
	conversation_emit(t, EVENT_DOCUMENT_PUT_BACK, i);
	return 0;
}

void document_keep_before(struct conversation *t, size_t i, const struct document *old)
{
	struct document *d = &t->doc[i];

	document_forget_before(d);
	d->before = xmalloc(sizeof *d->before);
	*d->before = *old;
	d->replaced = t->n_msg;
}

int conversation_replace_document(struct conversation *t, size_t i, const struct doc *in, struct err *e)
{
	struct document d = document_make(in, t->n_msg), old;

	if (document_swap(t, &d, i, &old, e) < 0) {
		document_free(&d);
		return -1;
	}
	document_keep_before(t, i, &old);
	return 0;
}

int conversation_undo_replaced(struct conversation *t, struct str *name, struct err *e)
{
	for (size_t i = t->n_doc; i--;) {
		struct document *d = &t->doc[i], before, new;

		if (!d->before || d->replaced < t->n_msg)
			continue;
		before = *d->before;
		if (document_swap(t, &before, i, &new, e) < 0)
			return -1;
		free(new.before); /* the box; what was in it is document i now */
		new.before = NULL;
		undo_keep_version(t, &new, i);
		str_adds(name, t->doc[i].name);
		return 1;
	}
	return 0;
}
