/* app/conversation/documents.c - adds, replaces and removes the documents of a conversation (conversation.h).
 *
 * A document that fits the context is prefilled whole, before the first question. A document that is added later is
 * inserted at the same place, and the messages after it are recomputed. A document that does not fit is searched: each
 * question is sent with the passages that the search finds (app/retrieval). If the files of a folder do not fit
 * together, all of them are searched. */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"

enum {
	ROOM_MIN = 32,       /* number of tokens that documents leave free for a question and its answer */
	BYTES_PER_TOKEN = 4, /* number of bytes per token that estimates assume */
	/* a text surely does not fit if it has more bytes than this per token of the context: it is searched, and its
	 * tokens are not counted */
	BYTES_HOPELESS = 16,
	/* if the documents that are added at the same time would fill more than this number of contexts, all of them
	 * are searched */
	CONTEXTS_OF_MANY = 2,
};

/* Set many = 0 for all documents, so that is_one_of_many() computes it again. */
static void documents_not_many(struct conversation *conv)
{
	for (size_t i = 0; i < conv->n_doc; i++)
		conv->doc[i].many = 0;
}

static void folder_free(struct folder *f)
{
	for (size_t i = 0; i < f->n_left; i++)
		free(f->left[i].path);
	free(f->left);
	free(f->path);
}

int conversation_drop_last_document(struct conversation *conv, struct str *name)
{
	struct document *d = conv->n_doc ? &conv->doc[conv->n_doc - 1] : NULL;

	if (!d || d->at < conv->n_msg)
		return 0;
	conversation_drop_document(conv, conv->n_doc - 1, name);
	return 1;
}

void conversation_drop_document(struct conversation *conv, size_t i, struct str *name)
{
	if (name)
		str_adds(name, conv->doc[i].name);
	conversation_emit(conv, EVENT_DOCUMENT_DROPPED, i);
	turn_hooks_changed(conv, CHANGE_DOCUMENTS);
	conv->doc[i].stored = 0;
	undo_keep_document(conv, i);
	memmove(conv->doc + i, conv->doc + i + 1, (conv->n_doc - i - 1) * sizeof *conv->doc);
	conv->n_doc--;
	documents_not_many(conv);
	conv->prefix_known = 0;
}

void conversation_drop_documents(struct conversation *conv)
{
	turn_hooks_changed(conv, CHANGE_DOCUMENTS);
	while (conv->n_doc)
		document_free(&conv->doc[--conv->n_doc]);
	free(conv->doc);
	conv->doc = NULL;
	conv->prefix_known = 0;
	while (conv->n_folder)
		folder_free(&conv->folder[--conv->n_folder]);
	free(conv->folder);
	conv->folder = NULL;
	conv->folders_changed = 0;
}

void conversation_forget_documents(struct conversation *conv, const char *gone)
{
	size_t n = 0;

	if (!conv->n_doc || !memchr(gone, 1, conv->n_doc))
		return;
	undo_forget(conv);
	turn_hooks_changed(conv, CHANGE_DOCUMENTS);
	for (size_t i = 0; i < conv->n_doc; i++)
		if (gone[i])
			conversation_emit(conv, EVENT_DOCUMENT_DROPPED, i);
	for (size_t i = 0; i < conv->n_doc; i++)
		if (gone[i])
			document_free(&conv->doc[i]);
		else
			conv->doc[n++] = conv->doc[i];
	conv->n_doc = n;
	documents_not_many(conv);
	conv->prefix_known = 0;
}

/* 1 if the document before d was added together with d and has its member `many` set. */
static int follows_many(const struct conversation *conv, const struct document *d)
{
	return d > conv->doc && d[-1].at == d->at && d[-1].many;
}

/* Set and return d->many: 1 if the documents that were added together with d would fill more than CONTEXTS_OF_MANY
 * contexts. Documents larger than one context do not count. Documents with the same `at` (number of messages at that
 * time) count as added together. The result depends only on sizes, so it is the same when the session is resumed. */
static int is_one_of_many(const struct conversation *conv, struct document *d)
{
	size_t ctx, tokens = 0;

	d->many = follows_many(conv, d);
	if (d->many)
		return 1;
	ctx = conversation_context_size(conv);
	for (size_t i = 0; i < conv->n_doc; i++)
		if (conv->doc[i].at == d->at && conv->doc[i].n_body / BYTES_PER_TOKEN <= ctx)
			tokens += conv->doc[i].n_body / BYTES_PER_TOKEN;
	d->many = tokens > CONTEXTS_OF_MANY * ctx;
	return d->many;
}

/* 1 if the option --docs is "auto". */
static int docs_auto(const struct conversation *conv)
{
	return !conv->o->docs || !strcmp(conv->o->docs, "auto");
}

/* Decide whether document d is prefilled whole, and set d->whole. With --docs auto, d is prefilled whole if it fits and
 * leaves `room` tokens free. Returns 0, or -1 if --docs is "whole" and d does not fit. */
static int document_choose(struct conversation *conv, struct document *d, size_t room, struct err *e)
{
	int decides = docs_auto(conv);
	struct err why = { 0 };

	if (d->grows)
		return 0;
	d->whole = 0;
	d->tokens = d->n_body / BYTES_PER_TOKEN;
	conv->prefix_known = 0;
	if (decides ? is_one_of_many(conv, d) || d->n_body / BYTES_HOPELESS > conversation_context_size(conv)
	            : !strcmp(conv->o->docs, "passages"))
		return 0;
	d->whole = 1;
	if (conv->by->document_fits(conv, d, room, &why) == 0) {
		conv->prefix_known = 0;
		return 0;
	}
	d->whole = 0;
	conv->prefix_known = 0;
	return why.code == ERR_FIT && decides ? 0 : err_set(e, why.code, "%s", why.msg);
}

void documents_choose(struct conversation *conv)
{
	struct err none = { 0 };

	documents_not_many(conv);
	for (size_t i = 0; i < conv->n_doc; i++)
		conv->doc[i].whole = 0;
	for (size_t i = 0; i < conv->n_doc; i++)
		document_choose(conv, &conv->doc[i], conv->n_msg ? 0 : ROOM_MIN, &none);
}

/* 1 if the conversation has a document with the same name and text. */
static int document_known(const struct conversation *conv, const struct document *new)
{
	for (size_t i = 0; i < conv->n_doc; i++) {
		const struct document *d = &conv->doc[i];

		if (d->n_body == new->n_body && !strcmp(d->name, new->name) &&
		    !memcmp(d->text.p, new->text.p, new->text.n))
			return 1;
	}
	return 0;
}

/* Append document d, and free it on error. `room` is the number of tokens that must stay free. Returns 0, or -1 if d
 * does not fit. */
static int document_append(struct conversation *conv, struct document d, size_t room, struct err *e)
{
	struct document *last;

	conv->doc = xrealloc(conv->doc, (conv->n_doc + 1) * sizeof *conv->doc);
	conv->doc[conv->n_doc++] = d;
	last = &conv->doc[conv->n_doc - 1];
	if (document_choose(conv, last, room, e) < 0) {
		document_free(&conv->doc[--conv->n_doc]);
		return -1;
	}
	/* Documents that were added together with d, but before it, may be marked to be prefilled whole. If they and d
	 * are too large for that (is_one_of_many()), search all of them. */
	for (size_t i = 0; last->many && !follows_many(conv, last) && i < conv->n_doc; i++)
		if (conv->doc[i].whole && conv->doc[i].at == d.at) {
			conv->doc[i].whole = 0;
			conv->doc[i].tokens = conv->doc[i].n_body / BYTES_PER_TOKEN;
		}
	return 0;
}

int conversation_restore_document(struct conversation *conv, const struct doc *in, size_t at, struct err *e)
{
	/* Ask for no free tokens (room 0), because the document already fitted when it was added. */
	return document_append(conv, document_make(in, at), 0, e);
}

int conversation_add_document(struct conversation *conv, const struct doc *in, struct err *e)
{
	struct document d = document_make(in, conv->n_msg);
	int rc;

	if (document_known(conv, &d)) {
		document_free(&d);
		return 1;
	}
	rc = document_append(conv, d, ROOM_MIN, e);
	if (!rc)
		conversation_emit(conv, EVENT_DOCUMENT_ADDED, conv->n_doc - 1);
	return rc;
}

int document_put_back(struct conversation *conv, const struct document *d, size_t i, struct err *e)
{
	struct document *last;

	/* Append the document, to check that it fits; then move it to index i. */
	conv->doc = xrealloc(conv->doc, (conv->n_doc + 1) * sizeof *conv->doc);
	last = &conv->doc[conv->n_doc++];
	*last = *d;
	if (last->at > conv->n_msg)
		last->at = conv->n_msg;
	if (document_choose(conv, last, ROOM_MIN, e) < 0) {
		conv->n_doc--;
		return -1;
	}
	if (i + 1 < conv->n_doc) {
		struct document back = *last;

		turn_hooks_changed(conv, CHANGE_DOCUMENTS);
		memmove(conv->doc + i + 1, conv->doc + i, (conv->n_doc - 1 - i) * sizeof *conv->doc);
		conv->doc[i] = back;
	} else {
		i = conv->n_doc - 1;
	}
	conv->prefix_known = 0;
	conversation_emit(conv, EVENT_DOCUMENT_PUT_BACK, i);
	return 0;
}

void conversation_read_document(struct conversation *conv, const struct doc *in, size_t skipped, size_t lines)
{
	size_t i = 0;

	while (i < conv->n_doc && !conv->doc[i].grows)
		i++;
	if (i < conv->n_doc || in)
		turn_hooks_changed(conv, CHANGE_DOCUMENTS);
	if (i < conv->n_doc)
		document_free(&conv->doc[i]);
	else if (in)
		conv->doc = xrealloc(conv->doc, ++conv->n_doc * sizeof *conv->doc);
	if (in) {
		conv->doc[i] = document_make(in, 0);
		conv->doc[i].grows = 1;
		conv->doc[i].skipped = skipped;
		conv->doc[i].lines = lines;
		conv->doc[i].prompt_at.first = -1;
	} else if (i < conv->n_doc) {
		memmove(conv->doc + i, conv->doc + i + 1, (--conv->n_doc - i) * sizeof *conv->doc);
	}
}

/* ---- replacing a document by another version ---- */

size_t conversation_document_of(const struct conversation *conv, const char *path)
{
	for (size_t i = 0; i < conv->n_doc; i++)
		if (conv->doc[i].origin->path && !strcmp(conv->doc[i].origin->path, path))
			return i;
	return SIZE_MAX;
}

int document_swap(struct conversation *conv, const struct document *d, size_t i, struct document *old, struct err *e)
{
	*old = conv->doc[i];
	conv->doc[i] = *d;
	conv->doc[i].at = old->at;
	if (document_choose(conv, &conv->doc[i], ROOM_MIN, e) < 0) {
		conv->doc[i] = *old;
		conv->prefix_known = 0;
		return -1;
	}
	turn_hooks_changed(conv, CHANGE_DOCUMENTS);
	/* The new version is stored in the row of the old one. */
	conv->doc[i].stored = old->stored;
	old->stored = 0;
	conversation_emit(conv, EVENT_DOCUMENT_PUT_BACK, i);
	return 0;
}

void document_keep_before(struct conversation *conv, size_t i, const struct document *old)
{
	struct document *d = &conv->doc[i];

	document_forget_before(d);
	d->before = xmalloc(sizeof *d->before);
	*d->before = *old;
	d->replaced = conv->n_msg;
}

int conversation_replace_document(struct conversation *conv, size_t i, const struct doc *in, struct err *e)
{
	struct document d = document_make(in, conv->n_msg), old;

	if (document_swap(conv, &d, i, &old, e) < 0) {
		document_free(&d);
		return -1;
	}
	document_keep_before(conv, i, &old);
	return 0;
}

int conversation_renew_document(struct conversation *conv, size_t i, const struct doc *in, struct err *e)
{
	struct document d = document_make(in, conv->n_msg), old;

	if (document_swap(conv, &d, i, &old, e) < 0) {
		document_free(&d);
		return -1;
	}
	document_free(&old);
	return 0;
}

int conversation_undo_replaced(struct conversation *conv, struct str *name, struct err *e)
{
	for (size_t i = conv->n_doc; i--;) {
		struct document *d = &conv->doc[i], before, new;

		if (!d->before || d->replaced < conv->n_msg)
			continue;
		before = *d->before;
		if (document_swap(conv, &before, i, &new, e) < 0)
			return -1;
		free(new.before); /* free only the struct, because its members were moved to document i */
		new.before = NULL;
		undo_keep_version(conv, &new, i);
		str_adds(name, conv->doc[i].name);
		return 1;
	}
	return 0;
}
