/* app/conversation/companion.h - the second door of this room, for companions of a conversation: app/retrieval and
 * app/reader.
 *
 * A companion accompanies the questions of a conversation: it searches before a question is asked, puts text in front
 * of it, observes the answer. It owns its state; the conversation calls its functions, in the order in which the
 * companions were added, and skips those that are NULL. `self` is that state.
 *
 *     conversation_ask()   before -> context -> (the question is a message) -> given -> begin -> began -> ended
 *     regenerate           again -> begin -> began -> ended; the same for continue */
#ifndef WEIR_COMPANION_H
#define WEIR_COMPANION_H

#include "app/conversation/conversation.h"

struct question {
	const char *text;
	size_t n;
	const struct answer_hooks *hooks;
};

/* What has changed in a conversation, for companions that keep something that depends on it. */
enum companion_change {
	CHANGE_RENDERED,  /* the whole conversation was rendered anew */
	CHANGE_CACHE,     /* the cache has another policy */
	CHANGE_MODEL,     /* the model is about to be closed */
	CHANGE_DOCUMENTS, /* documents have other numbers, or other text */
	CHANGE_MESSAGES,  /* messages at the end were removed or put back */
	CHANGE_EMPTIED,   /* all messages are about to be removed */
	CHANGE_CLOSED,    /* the last message grows no more: a question has joined it, or it is about to be removed */
	CHANGE_REOPENED,  /* the question that had joined the last message is about to be removed from it */
};

struct companion_ops {
	const char *name;
	/* Prepare a question. 0; 1 = nothing answers it: do not ask (STOP_NOT_FOUND); -1 = ERR_CANCELLED, ... */
	int (*before)(void *self, struct conversation *, const struct question *, struct err *);
	/* Append the text that stands in front of the question. */
	void (*context)(void *self, struct conversation *, struct str *out);
	/* Append the tokens that the answer must begin with. */
	void (*given)(void *self, const struct conversation *, const struct question *, struct tokens *out);
	/* Prepare to answer the last question again. old: its answer, which is no message any more (or has no text).
	 * goes_on: that answer is continued. 0, or -1 with ERR_CANCELLED. */
	int (*again)(void *self, struct conversation *, const struct message *old, int goes_on, struct err *);
	/* The prompt of an answer is about to be read. */
	void (*begin)(void *self, struct conversation *, const struct answer_hooks *);
	/* The prompt is read: `answer` is a message, empty or the beginning that is continued. */
	void (*began)(void *self, struct conversation *, struct message *answer);
	/* The turn has ended.  answer NULL: before the answer began. */
	void (*ended)(void *self, struct conversation *, struct message *answer);
	/* Prefill the rest of the last message, which grows: the tokens prefilled, or -1. */
	int32_t (*prefill)(void *self, struct conversation *, timeline_progress_fn *, void *ud, struct err *);
	void (*changed)(void *self, struct conversation *, enum companion_change);
	/* Append members of the object that conversation_json() writes. */
	void (*json)(void *self, const struct conversation *, struct str *out);
	void (*free)(void *self);
};

/* Add a companion, whose state the conversation frees with ops->free() when it is closed, before its model. */
void companion_add(struct conversation *, const struct companion_ops *, void *self);
/* The state of the companion with that name; NULL: it was not added. */
void *companion_find(const struct conversation *, const char *name);

/* ---- what a companion may ask of a conversation ---- */

/* Tell the observers. */
void conversation_emit(struct conversation *, enum conversation_event_what, size_t i);
/* Tell the observers one sentence for the user: EVENT_NOTICE. */
void conversation_notice(struct conversation *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Tokens of the context; a server that does not say has an assumed number. */
size_t conversation_context_size(const struct conversation *);
/* Tokens of a text by itself. */
size_t conversation_count(const struct conversation *, const char *text, size_t n);
/* 1 if the cache holds tokens first .. first + n, or nearly all of them. */
int tokens_cached(const struct conversation *, int32_t first, int32_t n);
/* Render the conversation up to byte `bytes` of its last message, which is still growing. */
int render_open(struct conversation *, size_t bytes, struct tokens *out, struct err *);
/* Tell the cache which tokens of want are the prefix.  ERR_FIT if it has no room for them. */
int conversation_pin(struct conversation *, const struct tokens *want, struct err *);
/* Append "page" and "heading" of a JSON object. */
void document_place_json(const struct document_place *, struct str *out);

#endif
