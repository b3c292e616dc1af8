/* app/reader/reader.h - reads a text without an end: a message that grows, questions beside it, and the surprise of
 * its sentences. */
#ifndef WEIR_READER_H
#define WEIR_READER_H

#include "app/conversation/conversation.h"

/* Add the companions of a growing text to a conversation. Call once, after conversation_open(). */
void reader_join(struct conversation *);

/* ---- the growing message (growing_message.c) ---- */

/* State of the growing message: the last message of the conversation while conversation.grows is 1. "Cut" bytes are
 * those that are tokenized: the text up to a safe place between two words. */
struct growing {
	int known;             /* 1: the timeline has the tokens of all cut bytes, except pending */
	size_t rendered;       /* bytes of the message in conversation.rendered */
	size_t at;             /* bytes of the message that are cut and tokenized */
	struct tokens pending; /* tokens of cut bytes that are not prefilled yet: less than a chunk */
	size_t had;            /* tokens in the timeline after the last prefill */
	uint64_t total;        /* tokens of text since growing_count_anew() */
};
const struct growing *growing_of(const struct conversation *);

/* Append a piece (whole characters) to the growing message, or begin one, and prefill its tokens in whole chunks.
 * all: also prefill an incomplete chunk, because more text may take a while. The last few words always wait for a
 * safe place to cut. Returns 0 or -1. After -1 (ERR_CANCELLED: stopped by the user) no text is lost: the next call
 * continues. conversation_ask() closes the message with its question. */
int conversation_grow(struct conversation *, const char *piece, size_t n, int all, timeline_progress_fn *progress,
                      void *ud, struct err *);
/* 0 if the cache policy evicts; else -1, ERR_USAGE: the context would end. */
int conversation_may_grow(const struct conversation *, struct err *);
/* Tokens of text prefilled since growing_count_anew(). */
uint64_t conversation_grown(const struct conversation *);
void growing_count_anew(struct conversation *);
/* Set how questions treat a growing message. on: they stay beside the message, as messages of their own that later
 * questions can refer to, until conversation_return(). off: the next question closes the message for good. */
void conversation_beside(struct conversation *, int on);
/* 1 if the last question is beside a growing message. */
int conversation_is_beside(const struct conversation *);
/* Remove the questions beside the growing message, so that the message grows again. 1 = done, 0 = no question is
 * beside it. If the snapshot loads, later text is computed bit for bit as if no question had been asked. */
int conversation_return(struct conversation *);
/* Return the last safe place to cut in p[from .. n) of a growing text; from = no such place. */
size_t text_cut(const char *p, size_t from, size_t n);
/* Append the tokens that a text has after a letter. Returns 0 or -1. */
int text_tokens_behind(const struct engine *, const char *text, size_t n, struct tokens *out, struct err *);

/* ---- surprise (surprise.c) ---- */

/* Surprise of the newest sentences of a growing message. at[0] is sentence number `first` and begins at the end of
 * the sentence before it. */
enum { SURPRISE_LEVELS = 3 };
/* A sentence of a growing message. end: its last byte + 1 in the message; nll: mean negative log-likelihood of its
 * tokens, in nats; level: 0 = usual .. SURPRISE_LEVELS = far above the mean. */
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
	int tokens; /* tokens of the unfinished sentence; sum: their negative log-likelihood in nats */
	uint64_t count;
	double mean, squares; /* mean nll, and sum of squared deviations, of all `count` sentences */
};
const struct surprise *surprise_of(const struct conversation *);

#endif
