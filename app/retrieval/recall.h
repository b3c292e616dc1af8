/* app/retrieval/recall.h - inside app/retrieval/: the turns of a conversation, searched for the words of a question
 * (recall_turns.c, for recall.c). */
#ifndef WEIR_RECALL_H
#define WEIR_RECALL_H

#include "app/retrieval/retrieval_private.h"

enum {
	RECALL_WORDS = 64,      /* of a question */
	RECALL_BEGINNING = 240, /* bytes of an answer without a word of the question */
};

/* A sentence of a message, as bytes of it; its bm25, and the words that it shares with the question: how many, and
 * their part of all, by idf. */
struct best {
	size_t msg, from, to;
	double score, covered;
	int shared;
};
struct turn_words {
	size_t number;           /* from 1 on */
	struct best best[2];     /* of the question, of the answer; score 0: no sentence has a word */
	struct best tells;       /* what the turn has to say; score 0: nothing */
	size_t question, answer; /* messages; SIZE_MAX: there is none */
	double score, words;
	uint8_t count[RECALL_WORDS]; /* sentences with each word of the question */
};
struct numbered {
	int64_t number;
	size_t msg;
};
struct memory {
	struct turn_words *turn;
	size_t n_turn;
	size_t *turn_of; /* [n_msg] index into turn[]; SIZE_MAX: no question stands before it */
	struct numbered *numbered;
	size_t n_numbered;
	double weight[RECALL_WORDS], whole; /* idf of the question's words, and their sum */
};

/* What recall has besides its result. */
struct recall {
	struct recalls last; /* for the last question */
	add_message_fn *add_message;
	find_sentences_fn *find_sentences;
	void *search_ud;
};

/* Search the messages; turn[] is sorted, the best first.  Call memory_free() after -1, too. */
int memory_search(struct conversation *, const struct recall *, const char *question, size_t n, struct memory *,
                  struct err *);
void memory_free(struct memory *);
void recalled_free(struct recalled *);
void recalls_free(struct recalls *);

#endif
