/* app/lab/corpus.h - for app/lab only: the texts that prompts are made of. */
#ifndef WEIR_EVAL_CORPUS_H
#define WEIR_EVAL_CORPUS_H

#include "engine/base/base.h"

/* A list of strings. */
struct words {
	const char **w;
	size_t n, cap;
};
void words_add(struct words *, const char *);
void words_free(struct words *);
void words_free_owned(struct words *); /* frees the list and its strings */

/* A part of a text: offset and length in bytes. */
struct span {
	size_t at, n;
};
struct spans {
	struct span *s;
	size_t n, cap;
};

struct question {
	char *text;
	struct words answer; /* the right answers; the list owns its strings */
	int32_t doc[16];     /* [n_doc] the question's paragraphs, as indices into questions.doc */
	/* number of the question's paragraphs; the first n_gold of them are needed for the answer */
	int n_doc, n_gold;
};
struct questions {
	struct question *q;
	size_t n, cap;
	struct words doc; /* the paragraphs of all questions; the list owns its strings */
};
struct corpus {
	struct str lists;                  /* text of all word lists; the lists below point into it */
	struct words adjective, noun, all; /* `all` has the words of all lists, sorted, without duplicates */
	struct str essay;                  /* the essays, with single blanks; empty = no essays were given */
	struct spans sentence;             /* sentences of the essay */
	struct questions squad, hotpot;
	const struct given_set *set; /* prompts from the user's files for the current task (given.h), or NULL */
};
/* Load word lists, essays and questions. `path` is NULL, or a text file, which is used as an essay, or a folder with
 * any of these files: adjectivelist.txt, nounlist.txt, verblist.txt, pd-essays.json, squad-open.json,
 * hotpotqa-open.json. Installed word lists (app/lab/words/) replace missing ones. Returns 0 or -1. */
int corpus_load(struct corpus *, const char *path, struct err *);
void corpus_free(struct corpus *);
uint64_t corpus_hash(const struct corpus *); /* returns a hash of all texts, for checkpoint keys */

#endif
