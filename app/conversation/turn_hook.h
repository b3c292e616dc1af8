/* app/conversation/turn_hook.h - interface for turn hooks of a conversation: modules that act before and after each
 * question, such as document search (app/retrieval) and reading streams (app/stream).
 *
 * A turn hook consists of a table of functions and its state, `self`. Turn hooks are called in the order in which they
 * were added. A function pointer may be NULL. For a question the functions are called in this order: before(),
 * context(), given(), begin(), began(), allows(), instead(), ended(). To regenerate or continue an answer, again() is
 * called first, then begin() and the functions after it. */
#ifndef WEIR_TURN_HOOK_H
#define WEIR_TURN_HOOK_H

#include "app/conversation/conversation.h"

struct question {
	const char *text;
	size_t n;
	const struct answer_hooks *hooks;
};

/* Changes of the conversation. They are reported by turn_hook_ops.changed(), because the state of a turn hook may
 * depend on them. */
enum turn_hook_change {
	CHANGE_RENDERED,  /* the whole conversation is about to be rendered */
	CHANGE_CACHE,     /* the cache policy was changed */
	CHANGE_MODEL,     /* the model is about to be closed */
	CHANGE_DOCUMENTS, /* documents were or will be removed, moved or replaced, or a streamed message begins */
	CHANGE_MESSAGES,  /* messages at the end were removed or put back */
	CHANGE_EMPTIED,   /* all messages are about to be removed */
	/* the streamed message (a text read from a stream) stops growing, because a question was appended to it, or
	 * because the message will be removed */
	CHANGE_CLOSED,
	/* the streamed message (a text read from a stream) can grow again, because the question that was appended to it
	 * will be removed */
	CHANGE_REOPENED,
};

struct turn_hook_ops {
	const char *name;
	/* Prepare for a question. Returns 0 if the model shall be asked; 1 if it shall not be asked, because the
	 * documents do not answer the question (STOP_NOT_FOUND); -1 on error, or with ERR_CANCELLED. */
	int (*before)(void *self, struct conversation *, const struct question *, struct err *);
	/* Append the text that is rendered before the question. */
	void (*context)(void *self, struct conversation *, struct str *out);
	/* Append the tokens that the answer must begin with. */
	void (*given)(void *self, const struct conversation *, const struct question *, struct tokens *out);
	/* Prepare to regenerate (goes_on = 0) or continue (goes_on = 1) an answer. `old` is the last answer, which was
	 * already removed from the messages; it is empty if there was none. Returns 0, or -1 with ERR_CANCELLED. */
	int (*again)(void *self, struct conversation *, const struct message *old, int goes_on, struct err *);
	/* Prepare for the answer, before the prompt is prefilled. */
	void (*begin)(void *self, struct conversation *, const struct answer_hooks *);
	/* Begin the answer, after the prompt is prefilled. `answer` is the new last message, which is empty, or has the
	 * text that will be continued. */
	void (*began)(void *self, struct conversation *, struct message *answer);
	/* 1 if the next sentence of the answer, text[0 .. n), may be shown. Called only if conv->guarded is set. */
	int (*allows)(void *self, struct conversation *, const char *text, size_t n);
	/* Append the tokens that replace the answer if its first sentence may not be shown. */
	void (*instead)(void *self, const struct conversation *, struct tokens *out);
	/* End the turn. `answer` is the last message. It is NULL if the turn ended before the answer began. */
	void (*ended)(void *self, struct conversation *, struct message *answer);
	/* If the last message is still being read from a stream, prefill the rest of its text. Returns the number of
	 * tokens prefilled, or -1. */
	int32_t (*prefill)(void *self, struct conversation *, timeline_progress_fn *, void *ud, struct err *);
	void (*changed)(void *self, struct conversation *, enum turn_hook_change);
	/* Append JSON members to the object that conversation_json() writes. */
	void (*json)(void *self, const struct conversation *, struct str *out);
	void (*free)(void *self);
};

/* Add a turn hook. conversation_close() calls ops->free(self) before it closes the model. */
void turn_hook_add(struct conversation *, const struct turn_hook_ops *, void *self);
/* Return the state (self) of the turn hook with this name; NULL if none was added. */
void *turn_hook_find(const struct conversation *, const char *name);

/* ---- functions for turn hooks ---- */

/* Send an event to the observers. What `i` means depends on the event (enum conversation_event_what). */
void conversation_emit(struct conversation *, enum conversation_event_what, size_t i);
/* Send EVENT_NOTICE to the observers: one sentence for the user. */
void conversation_notice(struct conversation *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Return the context size in tokens; CTX_ASSUMED (answerer.c) if the server does not report it. */
size_t conversation_context_size(const struct conversation *);
/* Return the number of tokens of a text that is tokenized on its own; for a model on a server, the number may be an
 * estimate. */
size_t conversation_count(const struct conversation *, const char *text, size_t n);
/* 1 if the cache still has at least 90 % of the KV entries of tokens [first, first + n). */
int tokens_cached(const struct conversation *, int32_t first, int32_t n);
/* Append the tokens of the conversation up to, but not including, byte `bytes` of the last message. Do not append the
 * token that marks the end of a message, because more text of this message may follow. */
int render_open(struct conversation *, size_t bytes, struct tokens *out, struct err *);
/* Pin the prefix (system prompt and documents), so that the cache never evicts it. The token sequence *want begins with
 * the prefix. Returns 0, or -1 with ERR_FIT if the prefix does not fit. */
int conversation_pin(struct conversation *, const struct tokens *want, struct err *);
/* Append the JSON members "page" and "heading". */
void document_place_json(const struct document_place *, struct str *out);

#endif
