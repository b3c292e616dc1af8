/* app/lab/corpus.h - inside app/lab: what prompts are made of: words, essays, questions with their paragraphs. */
#ifndef WEIR_EVAL_CORPUS_H
#define WEIR_EVAL_CORPUS_H

#include "engine/base/base.h"

struct words {
	const char **w;
	size_t n, cap;
};
void words_add(struct words *, const char *);
void words_free(struct words *);
void words_free_owned(struct words *); /* the strings, too */

/* A piece of a text: byte offset, and length in bytes. */
struct span {
	size_t at, n;
};
struct spans {
	struct span *s;
	size_t n, cap;
};

struct question {
	char *text;
	struct words answer; /* owned; any of them is right */
	int32_t doc[16];
	int n_doc, n_gold; /* paragraphs that belong to it, the ones with the answer first */
};
struct questions {
	struct question *q;
	size_t n, cap;
	struct words doc; /* owned: paragraphs */
};
struct corpus {
	struct str lists;                  /* the words' bytes */
	struct words adjective, noun, all; /* all: sorted, each once, verbs too */
	struct str essay;                  /* white space collapsed; empty: none was given */
	struct spans sentence;             /* of the essay */
	struct questions squad, hotpot;
	const struct given_set *set; /* of the task that runs, where its prompts were given (given.h) */
};
/* path: a folder with adjectivelist.txt, nounlist.txt, verblist.txt, pd-essays.json, squad-open.json and
 * hotpotqa-open.json, any of which may be missing; or a text file that becomes the essay; or NULL. Missing lists of
 * words are the installed ones (app/lab/words/). */
int corpus_load(struct corpus *, const char *path, struct err *);
void corpus_free(struct corpus *);
uint64_t corpus_hash(const struct corpus *);

#endif
