/* app/reader/reader.h - a text without an end: a message that grows, questions beside it, and how surprising its
 * sentences are. */
#ifndef WEIR_READER_H
#define WEIR_READER_H

#include "app/conversation/conversation.h"

/* Add what a text without an end has to accompany the questions of a conversation. Once, behind conversation_open(). */
void reader_join(struct conversation *);

/* ---- a text without an end (growing_message.c) ---- */

/* The last message, while it grows: conversation.grows. */
struct growing {
	int known;             /* the timeline has all tokens that were cut, except the pending ones */
	size_t rendered;       /* bytes of the message that the rendering has */
	size_t at;             /* bytes of the message that are cut and tokenised */
	struct tokens pending; /* tokens that wait until a chunk is full */
	size_t had;            /* tokens of the sequence after the last growth */
	uint64_t total;        /* tokens cut since growing_count_anew() */
};
const struct growing *growing_of(const struct conversation *);

/* Append a piece (whole characters) to the growing message, or begin one, and prefill its tokens in whole chunks; all:
 * also those of a chunk that is not full, because no text follows for a while. A few words at the end, where the text
 * cannot be cut yet, always wait. After -1 (ERR_CANCELLED) nothing is lost: the next call continues. conversation_ask()
 * closes the message with the question. */
int conversation_grow(struct conversation *, const char *piece, size_t n, int all, timeline_progress_fn *progress,
                      void *ud, struct err *);
/* ERR_USAGE where the cache policy does not evict, so that the context ends. */
int conversation_may_grow(const struct conversation *, struct err *);
/* Tokens that were read and prefilled since growing_count_anew(). */
uint64_t conversation_grown(const struct conversation *);
void growing_count_anew(struct conversation *);
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

/* ---- surprise (surprise.c) ---- */

/* The newest sentences of a growing message, where their surprise is computed: at[0] is sentence `first`, and begins
 * where the one before it ended. */
enum { SURPRISE_LEVELS = 3 };
/* level: 0 as usual, up to SURPRISE_LEVELS far above the mean */
struct read_sentence {
	size_t end;
	float nll;
	uint8_t level;
};
struct surprise {
	struct read_sentence *at;
	size_t n, cap;
	uint64_t first;
	double sum;
	int tokens; /* of the sentence that goes on */
	uint64_t count;
	double mean, squares; /* of all sentences so far */
};
const struct surprise *surprise_of(const struct conversation *);

#endif
