/* app/retrieval/recall.h - searches the turns of a conversation for the words of a question (recall_turns.c, for
 * recall.c). For app/retrieval/ only. */
#ifndef WEIR_RECALL_H
#define WEIR_RECALL_H

#include "app/retrieval/retrieval_private.h"

enum {
	RECALL_WORDS = 64, /* maximum number of words of a question that are searched for */
	/* number of bytes that are quoted from the beginning of an answer that shares no words with the question */
	RECALL_BEGINNING = 240,
};

/* A sentence: bytes [from, to) of message number `msg`. `score` is its bm25. `shared` is the number of words that it
 * shares with the question. `covered` is the sum of the idf of the shared words, divided by the sum of the idf of all
 * words of the question. It is from 0 to 1. */
struct best {
	size_t msg, from, to;
	double score, covered;
	int shared;
};
/* A turn, and the words that it shares with the question. */
struct turn_words {
	size_t number; /* turn number, from 1 */
	/* Best sentences of the turn: best[0] in its question, best[1] in its answer. A score of 0 means that the
	 * message shares no word with the new question. */
	struct best best[2];
	/* the sentence to recall, see find_recalled_sentence(); its score is 0 if there is none */
	struct best tells;
	size_t question, answer; /* indices of the turn's question and answer; SIZE_MAX = the turn has no answer */
	double score, words;
	/* count[i] is the number of the turn's sentences that have word i of the question */
	uint8_t count[RECALL_WORDS];
};
/* A message, and the number that the index has given to its text (add_message_fn). */
struct numbered {
	int64_t number;
	size_t msg;
};
/* The result of searching all turns for one question. */
struct memory {
	struct turn_words *turn;
	size_t n_turn;
	/* [n_msg]: for each message, the index in turn[] of the turn to which it belongs; SIZE_MAX: the message
	 * precedes the first question */
	size_t *turn_of;
	struct numbered *numbered; /* [n_numbered] messages, sorted by the number of their text */
	size_t n_numbered;
	/* weight[i] is the idf of word i of the question, and `whole` is the sum of weight[] */
	double weight[RECALL_WORDS], whole;
};

/* State of the recall turn hook. */
struct recall {
	struct recalls last; /* turns recalled for the last question */
	add_message_fn *add_message;
	find_sentences_fn *find_sentences;
	void *search_ud;
};

/* Search the messages for the words of the question and sort m->turn[], the best first. Returns 0 or -1; call
 * memory_free() in both cases. */
int memory_search(struct conversation *, const struct recall *, const char *question, size_t n, struct memory *,
                  struct err *);
void memory_free(struct memory *);
void recalled_free(struct recalled *);
void recalls_free(struct recalls *);

#endif
