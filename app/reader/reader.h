/* app/reader/reader.h - a text without an end: a message that grows, questions beside it, and how surprising its
 * sentences are. */
#ifndef WEIR_READER_H
#define WEIR_READER_H

#include "app/conversation/conversation.h"

/* ---- a text without an end (growing_message.c) ---- */

/* Append a piece (whole characters) to the growing message, or begin one, and prefill its tokens in whole chunks; all:
 * also those of a chunk that is not full, because no text follows for a while. A few words at the end, where the text
 * cannot be cut yet, always wait. After -1 (ERR_CANCELLED) nothing is lost: the next call continues. conversation_ask()
 * closes the message with the question. */
int conversation_grow(struct conversation *, const char *piece, size_t n, int all, timeline_progress_fn *progress,
                      void *ud, struct err *);
/* ERR_USAGE where the cache policy does not evict, so that the context ends. */
int conversation_may_grow(const struct conversation *, struct err *);
/* The tokens of total_grown that are prefilled. */
uint64_t conversation_grown(const struct conversation *);
/* From now on questions about the growing message stand beside it (on), or close it for good. Beside it, they and their
 * answers are messages until conversation_return(): follow-up questions know them. */
void conversation_beside(struct conversation *, int on);
/* Is the last question one that stands beside a growing message? */
int conversation_is_beside(const struct conversation *);
/* Go back to the growing message, to where it was before the first question: 1; 0: there is nothing to go back from.
 * What is read from then on is computed bit for bit as if nothing had been asked. */
int conversation_return(struct conversation *);
/* The last place in p[from .. n) where such a text may be cut; from = there is none. */
size_t text_cut(const char *p, size_t from, size_t n);
/* Tokens of a text that stands behind a letter. */
int text_tokens_behind(const struct engine *, const char *text, size_t n, struct tokens *out, struct err *);

/* ---- growing_message.c ---- */

/* End the growth of the last message; let it grow again, without its question. */
void growing_close(struct conversation *);
void growing_reopen(struct conversation *);

/* ---- aside.c: questions beside a growing message ---- */

/* Before a question closes the growing message: take a snapshot, if that is wanted.  -1: there is none, and why. */
int aside_save(struct conversation *, struct err *);
void aside_forget(struct conversation *);

/* ---- surprise.c ---- */

void surprise_forget(struct conversation *);

#endif
