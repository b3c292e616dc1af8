/* app/conversation/conversation_private.h - declarations shared by the files of app/conversation/. */
#ifndef WEIR_CONVERSATION_PRIVATE_H
#define WEIR_CONVERSATION_PRIVATE_H

#include "app/conversation/turn_hook.h"

/* ---- the answerer ----
 *
 * An answerer is the interface to a model: in this process (answer_local.c) or on a server (answer_remote.c). */

struct answerer {
	/* Prefill the prompt, which is all messages. If `begun` is not NULL, also prefill *begun, the answer to
	 * continue. Sets turn->answered and the prompt's figures in *turn. Returns the index of the answer's first
	 * token, or -1. */
	int32_t (*read)(struct conversation *, const struct message *begun, const struct answer_hooks *, struct turn *,
	                struct err *);
	/* Generate the answer into the last message. If `ids` is 1, also store the sampled token ids. If `ids` is 0,
	 * store only the text, because another model wrote the beginning of the answer. `start` is the time at which
	 * the turn began. Sets turn->stop. Returns 0 or -1. */
	int (*generate)(struct conversation *, int ids, double start, const struct answer_hooks *, struct turn *,
	                struct err *);
	/* begin() is called before read(), end() after generate(). Between these calls, a signal stops the turn. */
	void (*begin)(struct conversation *);
	void (*end)(struct conversation *);
	/* Set the speeds and counts in *turn after a turn has finished. */
	void (*measure)(struct conversation *, struct turn *);
	/* Prefill documents and messages before the next question is asked. Returns the number of tokens computed, or
	 * -1. */
	int32_t (*prefill)(struct conversation *, timeline_progress_fn *progress, void *ud, struct err *);
	void (*stats)(const struct conversation *, struct timeline_stats *);
	/* Return the number of tokens of a text that is tokenized on its own. */
	size_t (*count)(const struct conversation *, const char *text, size_t n);
	/* Check that the conversation fits the context if document d is prefilled whole. `room` is the number of tokens
	 * that must stay free. Sets d->tokens. Returns 0, or -1 with ERR_FIT, ... */
	int (*document_fits)(struct conversation *, struct document *d, size_t room, struct err *);
};
extern const struct answerer answerer_local, answerer_remote;

/* answer_local.c: open the model and its timeline. Returns 0, or -1 with nothing left open. */
int local_open(struct conversation *, const struct options *, struct err *);
void local_close(struct conversation *);
/* answer_remote.c: connect to the server that the options name, and use its model. The caller must close a local model
 * first. */
int served_open(struct conversation *, const struct options *, struct err *);
/* Refuse command line options that need a local model. Returns 0, or -1 with ERR_USAGE. */
int served_check_options(const struct options *, struct err *);
void served_close(struct conversation *);

/* ---- turn hooks ----
 *
 * EACH_TURN_HOOK(c, k, fn) runs the following statement for each turn hook k of conversation c that has the function
 * fn. */

#define EACH_TURN_HOOK(c, k, fn)                                                                                       \
	for (const struct turn_hook *k = (c)->turn_hook; k < (c)->turn_hook + (c)->n_turn_hook; k++)                   \
		if (k->ops->fn)

/* Call changed() of all turn hooks (turn_hook.h). */
void turn_hooks_changed(struct conversation *, enum turn_hook_change);
/* Free the states of all turn hooks (turn_hook.h). */
void turn_hooks_free(struct conversation *);

/* ---- messages.c ---- */

/* Append an empty message. The pointer is valid until the next message is added. */
struct message *message_add(struct conversation *, enum chat_role);

/* ---- render.c ---- */

/* Set `prompt_at` of all documents, and `prompt_at` and `context_at` of all messages. These are the positions of their
 * texts in conv->rendered. */
void locate_all(struct conversation *);
/* Return how many tokens document i has in conv->rendered. If the document is not rendered there, tokenize its text on
 * its own. */
size_t document_count(const struct conversation *, size_t i, struct err *);
/* Render the conversation, and prefill its tokens that are not cached, so that the timeline has the same tokens. If
 * `reply_head` is 1, append the tokens with which the template begins an answer. `begun` has the first tokens of that
 * answer, or is NULL. *n receives the number of tokens of the sequence. *again receives the number of cached tokens
 * that were prefilled again, because the cache could not roll back. Returns the number of tokens reused, or -1. */
int32_t conversation_sync(struct conversation *, int reply_head, const struct tokens *begun, size_t *n, int32_t *again,
                          timeline_progress_fn *progress, void *ud, struct err *);

/* ---- document.c: one document ---- */

/* Make a document from an imported file. `at` is the number of messages so far. The caller frees the document with
 * document_free(). */
struct document document_make(const struct doc *, size_t at);
void document_free(struct document *);
/* Free the version that the document replaced, if any. */
void document_forget_before(struct document *);

/* ---- documents.c: the documents of a conversation ---- */

/* Decide again which documents are prefilled whole. Call this after a change of the model or of --docs. */
void documents_choose(struct conversation *);
/* Insert a dropped document again, at index i, and emit EVENT_DOCUMENT_PUT_BACK. On success the conversation owns the
 * members of *document. Returns 0, or -1 without a change if the document does not fit. */
int document_put_back(struct conversation *, const struct document *, size_t i, struct err *);
/* Store *old as the previous version of document i, so that undo can restore it. The document then owns the members of
 * *old. */
void document_keep_before(struct conversation *, size_t i, const struct document *old);
/* Replace document i by the version in the second argument, and move the previous version to *old. Returns 0, or -1
 * with no change if the new version does not fit. */
int document_swap(struct conversation *, const struct document *, size_t i, struct document *old, struct err *);

/* ---- undo_stack.c ---- */

/* An entry of the redo stack: the messages of a turn (n_msg > 0) or a document (n_msg = 0). */
struct undone {
	struct message *msg;
	size_t n_msg;
	struct document doc;
	size_t doc_at; /* index of `doc` in the conversation */
	int replaces;  /* 1 = redo replaces document doc_at by doc; 0 = redo inserts doc at index doc_at */
};

/* undo_keep_turns() pushes the messages from index `from` on to the redo stack, undo_keep_document() document i.
 * undo_keep_turns() also removes the messages; after undo_keep_document() the caller removes the document. */
void undo_keep_turns(struct conversation *, size_t from);
void undo_keep_document(struct conversation *, size_t i);
/* Return how many tokens at the end of the cache belong to undone turns. */
int32_t undo_cached(const struct conversation *, const struct timeline_stats *);
/* Record that the cache no longer has tokens of undone turns. Call after timeline_sync(). */
void undo_uncached(struct conversation *);
/* Push the newer version of a document on the redo stack, after undo has restored the older version at index i. */
void undo_keep_version(struct conversation *, const struct document *, size_t i);

/* ---- loops.c ---- */

enum { LOOP_PERIOD = 128 }; /* longest period of a loop that is detected, in tokens */
/* State of the loop detection in one answer; initially all zero. */
struct loop_watch {
	int32_t id[LOOP_PERIOD]; /* ring buffer of the last tokens */
	/* `n` is the number of tokens added. run[p] is the number of consecutive tokens at the end of the answer that
	 * each equal the token p positions earlier. */
	int n, run[LOOP_PERIOD + 1];
};
/* Add a token of the answer. If the answer now ends with a loop, return the loop's period in tokens; else return 0. */
int loop_add(struct loop_watch *, int32_t id);

#endif
