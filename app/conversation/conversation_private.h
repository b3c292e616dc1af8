/* app/conversation/conversation_private.h - inside app/conversation/: what its files share. */
#ifndef WEIR_CONVERSATION_PRIVATE_H
#define WEIR_CONVERSATION_PRIVATE_H

#include "app/conversation/companion.h"

/* ---- what answers ----
 *
 * All that a conversation asks of a model, one in this process (answer_local.c) or one on a server
 * (answer_remote.c). */

struct answerer {
	/* Prefill the prompt, which is all messages, then `begun`, the text with which the answer begins, or NULL.
	 * Returns the index of the answer's first token, or -1. Sets turn->answered, and turn's figures of the
	 * prompt. */
	int32_t (*read)(struct conversation *, const struct message *begun, const struct answer_hooks *, struct turn *,
	                struct err *);
	/* Generate the last message. ids: keep the sampled tokens; 0 where another model wrote the beginning. 0 or
	 * -1; turn->stop. */
	int (*generate)(struct conversation *, int ids, double start, const struct answer_hooks *, struct turn *,
	                struct err *);
	/* Before and after these: a stop reaches them in between. */
	void (*begin)(struct conversation *);
	void (*end)(struct conversation *);
	/* Speeds and counts of the turn. */
	void (*measure)(struct conversation *, struct turn *);
	/* Make ready what the next answer needs: the tokens computed, or -1. */
	int32_t (*prefill)(struct conversation *, timeline_progress_fn *progress, void *ud, struct err *);
	void (*stats)(const struct conversation *, struct timeline_stats *);
	/* Tokens of a text by itself. */
	size_t (*count)(const struct conversation *, const char *text, size_t n);
	/* With document d, which is read whole, the conversation must still fit, and `room` more tokens. Counts the
	 * document's tokens. */
	int (*document_fits)(struct conversation *, struct document *d, size_t room, struct err *);
};
extern const struct answerer answerer_local, answerer_remote;

/* answer_local.c: open the model and its timeline.  On failure nothing is left open. */
int local_open(struct conversation *, const struct options *, struct err *);
void local_close(struct conversation *);
/* answer_remote.c: the server that the options name takes the model's place, which the caller closes. */
int served_open(struct conversation *, const struct options *, struct err *);
/* Refuses options of the command line that only a model in this process could follow. */
int served_check_options(const struct options *, struct err *);
void served_close(struct conversation *);

/* ---- companions ----
 *
 * EACH_COMPANION(c, k, fn) runs the statement behind it for each companion k that has the function. */

#define EACH_COMPANION(c, k, fn)                                                                                       \
	for (const struct companion *k = (c)->companion; k < (c)->companion + (c)->n_companion; k++)                   \
		if (k->ops->fn)

void companions_changed(struct conversation *, enum companion_change);
/* Free the states of all companions. */
void companions_free(struct conversation *);

/* ---- messages.c ---- */

struct message *message_add(struct conversation *, enum chat_role);

/* ---- render.c ---- */

/* Note where documents and messages stand in t->rendered. */
void place_all(struct conversation *);
/* Tokens of document i on its own, once it is rendered. */
size_t document_count(const struct conversation *, size_t i, struct err *);
/* Make the timeline's sequence the conversation so far (reply_head: and the head of its answer) and begun, the
 * beginning of that answer or NULL. Returns the tokens reused, or -1; *n: the tokens of the whole; *again: tokens
 * that the timeline had and prefilled again, because its cache cannot roll back over evicted tokens. */
int32_t conversation_sync(struct conversation *, int reply_head, const struct tokens *begun, size_t *n, int32_t *again,
                          timeline_progress_fn *progress, void *ud, struct err *);

/* ---- document.c: one document ---- */

/* Make a document of what was read; at: messages that there are.  document_free() it. */
struct document document_make(const struct doc *, size_t at);
void document_free(struct document *);
/* Free the version that it replaced. */
void document_forget_before(struct document *);

/* ---- documents.c: those of a conversation ---- */

/* Decide anew which documents are read whole: the model or --docs has changed. */
void documents_choose(struct conversation *);
int document_put_back(struct conversation *, const struct document *, size_t i, struct err *);
/* Document i has just replaced *old, which is moved there. */
void document_keep_before(struct conversation *, size_t i, const struct document *old);
/* The document takes the place of document i, which becomes *old.  -1: it does not fit, and nothing has changed. */
int document_swap(struct conversation *, const struct document *, size_t i, struct document *old, struct err *);

/* ---- undo_stack.c ---- */

/* What can be redone: messages from a question on, or one document and its index. */
struct undone {
	struct message *msg;
	size_t n_msg;
	struct document doc;
	size_t doc_at; /* where n_msg is 0 */
	int replaces;  /* that document replaces the one with its index */
};

/* Move messages from there on, or a document, onto the stack of what can be redone. */
void undo_keep_turns(struct conversation *, size_t from);
void undo_keep_document(struct conversation *, size_t i);
/* Tokens at the end of the cache that belong to undone turns. */
int32_t undo_cached(const struct conversation *, const struct timeline_stats *);
void undo_uncached(struct conversation *); /* the cache was brought up to date: it holds no undone turn any more */
/* A version of document i whose replacing was undone. */
void undo_keep_version(struct conversation *, const struct document *, size_t i);

/* ---- loops.c ---- */

enum { LOOP_PERIOD = 128 }; /* tokens of the longest loop that is noticed */
struct loop_watch {
	int32_t id[LOOP_PERIOD];
	int n, run[LOOP_PERIOD + 1];
};
/* The answer has one more token.  The period of the loop that its last tokens are, in tokens; 0: they are none. */
int loop_add(struct loop_watch *, int32_t id);

#endif
