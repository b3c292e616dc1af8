/* app/stream/stream.h - reads a text without an end, such as a pipe or a log, and answers questions about it
 * meanwhile. */
#ifndef WEIR_STREAM_H
#define WEIR_STREAM_H

#include "app/conversation/conversation.h"

/* Add the turn hooks of this folder to a conversation: one for the streamed message, and one that measures how
 * surprising its text is to the model. A turn hook is a table of callbacks (turn_hook.h). Call this once, after
 * conversation_open(). */
void stream_join(struct conversation *);

/* ---- the streamed message (streamed_message.c) ---- */

/* State of the streamed message: the user message whose text is still arriving. It is the last message while
 * conversation.grows is 1. Its bytes [0, at) are tokenized. `at` is between two words; it may be inside a word only in
 * a long text without blanks. */
struct streamed {
	int known;       /* 1 = the timeline has the tokens of bytes [0, at), except those in `pending` */
	size_t rendered; /* number of bytes of the message whose tokens are in conversation.rendered */
	size_t at;       /* number of bytes of the message that are tokenized */
	/* tokens that are not prefilled yet; after conversation_grow() there are fewer of them than a chunk has */
	struct tokens pending;
	size_t had;     /* number of tokens in the timeline after the last prefill */
	uint64_t total; /* number of tokens of text that were prefilled since streamed_count_anew() */
};
const struct streamed *streamed_of(const struct conversation *);

/* Append a piece of text (whole characters) to the streamed message, and prefill its tokens in whole chunks. If there
 * is no streamed message, begin one. If `all` is 1, prefill an incomplete chunk, too, because no more text is available
 * now. A word at the end of the piece is tokenized with the next piece, because more letters may follow.
 *
 * Returns 0 or -1. After ERR_CANCELLED (stopped by the user) no text is lost, and the next call continues.
 * conversation_ask() ends the message with its question. */
int conversation_grow(struct conversation *, const char *piece, size_t n, int all, timeline_progress_fn *progress,
                      void *ud, struct err *);
/* Return 0 if a text without an end can be read: the model is in this process, and its cache policy evicts. Otherwise
 * return -1 with ERR_USAGE: without eviction the text would fill the context. */
int conversation_may_grow(const struct conversation *, struct err *);
/* Return the number of tokens of text prefilled since streamed_count_anew(). */
uint64_t conversation_grown(const struct conversation *);
void streamed_count_anew(struct conversation *);
/* Choose whether the streamed message can grow further after a question about it. If `on` is 1, it can, after
 * conversation_return() has removed the question and its answer. If `on` is 0, the message ends with the next
 * question. */
void conversation_beside(struct conversation *, int on);
/* 1 if conversation_return() can remove questions. */
int conversation_is_beside(const struct conversation *);
/* Remove the questions about the streamed message (a text read from a stream) and their answers, so that the message
 * continues. Returns 1; 0 if there are no such questions. The snapshot taken before the first of these questions is
 * loaded: later text is computed bit for bit as if nothing had been asked. If the snapshot cannot be loaded, the text
 * is prefilled again. */
int conversation_return(struct conversation *);
/* Return the byte at which to split the text p[from .. n): the last place between two words. A long text without such a
 * place is split before a punctuation mark, or else after any whole character. For a shorter text without such a place,
 * the result is `from`, which means that more text is needed. */
size_t text_cut(const char *p, size_t from, size_t n);
/* Tokenize a text as if a letter came before it, and append the tokens. Returns 0 or -1. */
int text_tokens_behind(const struct engine *, const char *text, size_t n, struct tokens *out, struct err *);

/* ---- surprise (surprise.c) ---- */

enum { SURPRISE_LEVELS = 3 };
/* A sentence of a streamed message. */
struct read_sentence {
	/* byte of the message at which the sentence ends */
	size_t end;
	/* mean negative log-likelihood of the sentence's tokens, in nats */
	float nll;
	/* how surprising the sentence is: from 0 (usual) to SURPRISE_LEVELS (far above the mean) */
	uint8_t level;
};
/* How much the newest sentences of a streamed message (a text read from a stream) surprise the model. at[0] is sentence
 * number `first` of the text. Each sentence begins where the previous one ends. */
struct surprise {
	struct read_sentence *at;
	size_t n, cap;
	uint64_t first;
	double sum;
	/* `tokens` is the number of tokens of the sentence that has not ended yet; `sum` is the sum of their negative
	 * log-likelihoods, in nats */
	int tokens;
	uint64_t count;
	/* `mean` is the mean of `nll` over all `count` sentences; `squares` is the sum of the squared deviations from
	 * the mean */
	double mean, squares;
};
const struct surprise *surprise_of(const struct conversation *);

#endif
