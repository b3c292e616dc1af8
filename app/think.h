/* app/think.h (private to app/) - the thoughts of models that think: <think> ... </think> before what they answer.
 *
 * Only those at the beginning are told apart; marks further on are part of what was said. */
#ifndef WEIR_THINK_H
#define WEIR_THINK_H

#include "engine/base.h"

/* A text that arrives in pieces; all zero and `first` to begin with. */
struct think {
	int first;                  /* the reply's head has opened the thought */
	enum { THINK_BEGIN, THINK_WITHIN, THINK_MARGIN, THINK_AFTER } at;
	struct str held;            /* may be a mark, or blanks before one */
	size_t words; int in_word;  /* of the thought */
};
void think_free(struct think *);
/* Append to *out what is no thought.  The pieces may be cut anywhere. */
void think_feed(struct think *, const char *text, size_t n, struct str *out);
/* It is complete: what was held back comes out. */
void think_end(struct think *, struct str *out);
/* "thought 312 words first", or nothing where there was no thought; appended. */
void think_describe(const struct think *, struct str *out);

#endif
