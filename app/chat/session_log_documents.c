/* app/chat/session_log_documents.c - stores the documents of a conversation, and its folders, in its session.
 *
 * Changes are noted in the documents (document.stored, document.renewed) and in session_log.dropped. All noted changes
 * are stored in one transaction. */
#include "app/chat/chat_private.h"

#include <stdlib.h>
#include <string.h>

/* 1 if the store does not have the document, or does not have its newest version. */
static int is_due(const struct session_log *r, const struct document *d)
{
	return !d->grows && d != r->leaving && (!d->stored || d->renewed);
}

static struct stored_document row_of(const struct conversation *conv, const struct document *d)
{
	return (struct stored_document){
		.name = d->name,
		.text = d->text.p + d->body,
		.n_text = d->n_body,
		.bytes = d->bytes,
		.after = d->at ? conv->msg[d->at - 1].stored : 0,
		.type = (enum doc_type)d->type,
		.mark = d->mark,
		.n_mark = d->n_mark,
		.origin = d->origin,
	};
}

/* Store the changes of documents: first delete the rows of dropped documents, then store new documents and new
 * versions. `due` is the number of documents to store (is_due()). Returns 0 or -1. */
static int store_changes(struct session_log *r, struct conversation *conv, size_t due, struct err *e)
{
	struct document_change *change = xcalloc(r->n_dropped + due + 1, sizeof *change);
	struct stored_document *row = xcalloc(due + 1, sizeof *row);
	size_t n = 0, n_row = 0;
	int rc;

	for (; n < r->n_dropped; n++)
		change[n].id = r->dropped[n];
	for (size_t i = 0; i < conv->n_doc; i++)
		if (is_due(r, &conv->doc[i])) {
			row[n_row] = row_of(conv, &conv->doc[i]);
			change[n++] = (struct document_change){ .id = conv->doc[i].stored, .d = &row[n_row++] };
		}
	rc = session_change_documents(r->store, r->session, change, n, e);
	n = r->n_dropped;
	for (size_t i = 0; i < conv->n_doc && !rc; i++)
		if (is_due(r, &conv->doc[i])) {
			conv->doc[i].stored = change[n++].id;
			conv->doc[i].renewed = 0;
		}
	if (!rc)
		r->n_dropped = 0;
	free(change);
	free(row);
	return rc;
}

int session_log_documents(struct session_log *r, struct conversation *conv, struct err *e)
{
	struct str folders = { 0 };
	size_t due = 0;
	int rc = 0;

	for (size_t i = 0; i < conv->n_doc; i++)
		due += is_due(r, &conv->doc[i]);
	if ((due || r->n_dropped) && store_changes(r, conv, due, e) < 0)
		return -1;
	if (conv->folders_changed) {
		folders_write(conv, &folders);
		rc = session_set(r->store, r->session, "folders", folders.n ? folders.p : NULL, folders.n, e);
		conv->folders_changed = 0;
	}
	str_free(&folders);
	return rc;
}

void document_row_drop(struct session_log *r, struct document *d)
{
	if (d->stored) {
		GROW(r->dropped, r->n_dropped, r->cap_dropped);
		r->dropped[r->n_dropped++] = d->stored;
	}
	d->stored = d->renewed = 0;
}

void document_rows_from(struct session_log *r, struct conversation *conv, size_t i)
{
	struct document *d = &conv->doc[i];

	if (d->stored)
		d->renewed = 1;
	else /* the stored rows must be in the order of the documents, so store all documents after this one again */
		for (size_t k = i + 1; k < conv->n_doc; k++)
			document_row_drop(r, &conv->doc[k]);
}

void session_log_no_documents(struct session_log *r, struct conversation *conv)
{
	for (size_t i = 0; i < conv->n_doc; i++)
		conv->doc[i].stored = conv->doc[i].renewed = 0;
	r->n_dropped = 0;
	conv->folders_changed = conv->n_folder > 0;
}

struct forked {
	struct conversation *conv;
	size_t i;
};

/* *d is the copy of one of the conversation's documents: find this document, and set document.stored to the copy's id.
 * Copies come in the order of the documents. A document that was added after the last message of the fork has no
 * copy. */
static int adopt_document(const struct stored_document *d, void *ud)
{
	struct forked *f = ud;

	for (; f->i < f->conv->n_doc; f->i++)
		if (f->conv->doc[f->i].n_body == d->n_text && !strcmp(f->conv->doc[f->i].name, d->name)) {
			f->conv->doc[f->i++].stored = d->id;
			break;
		}
	return 0;
}

int session_log_adopt(struct session_log *r, struct conversation *conv, struct err *e)
{
	session_log_no_documents(r, conv);
	return session_documents(r->store, r->session, adopt_document, &(struct forked){ .conv = conv }, e);
}
