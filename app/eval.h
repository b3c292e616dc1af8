/* app/eval.h (private to app/) - what the evaluations share.
 *
 *     eval.c           which cache policies are compared, one timeline for all of them; weir eval ppl
 *     eval_recovery.c  weir eval recovery
 *     eval_plot.c      weir eval plot: pictures (picture.c)
 *     eval_tasks.c     weir eval ruler, passkey, chain, needle: samples of the right length, answers, tables
 *     eval_ruler.c     the prompts of the RULER tasks and of needle;  eval_hidden.c those of passkey and chain
 *     eval_material.c  words, essays, questions;  eval_words.c the words that are built in
 *     eval_score.c     what an answer is worth, means and their errors
 *     eval_resume.c    pieces that are finished: kept in a file, taken from it */
#ifndef WEIR_EVAL_H
#define WEIR_EVAL_H

#include "app/json_in.h"
#include "app/options.h"

/* ---- cache policies (eval.c) ---- */

/* The policies to compare: every --kv, or else the one of environment and config, or else `full`. */
void eval_policies(const struct options *, struct policy_list *out);
/* Rows that this policy reads a step in a sequence of len tokens, by its k=; 0 = it has none. */
int32_t eval_policy_rows(const char *kv, int32_t len);

/* One timeline that runs one policy after another over the same texts. */
struct eval_line {
	const struct options *o;
	struct engine *engine;
	struct timeline *tl;
	const char *kv;      /* what it runs */
	int32_t ctx;
	int fresh;           /* forget what was read before the next text */
};
/* From now on this policy, with room for ctx tokens.  Rows that both policies keep are not read again. */
int  eval_line_use(struct eval_line *, const char *kv, int32_t ctx, struct err *);
/* The next text begins with an empty cache: policies that let rows go read in strides, and where these lie must not depend on
 * what happens to be the same in the text before. */
void eval_line_fresh(struct eval_line *);
void eval_line_close(struct eval_line *);

/* ---- finished pieces (eval_resume.c) ---- */

struct piece { struct jv what, result; };   /* views into struct pieces' text */
struct pieces {
	const struct options *o;
	int fd;                   /* -1: nothing is kept (no --resume) */
	struct str text;          /* of the file, when it was opened */
	struct piece *piece; size_t n, cap;
	struct str same;          /* what decides all results alike: model, engine, numbers in the cache */
	int64_t taken, added;
};
/* Refuses a file that holds something else, and leaves it as it is.  Says how many pieces there are. */
int  pieces_open(struct pieces *, const struct options *, struct err *);
void pieces_close(struct pieces *);
/* What runs; before any piece is looked for. */
int  pieces_model(struct pieces *, const struct engine *, struct err *);
/* What decides a piece's result, as a JSON object that is not closed: the caller adds ",\"NAME\":VALUE" and "}". */
void piece_begin(const struct pieces *, const char *task, const char *kv, int32_t ctx, struct str *out);
/* 1: its result is known.  A piece taken is counted by the caller (taken), who looks whether the result makes sense. */
int  pieces_get(struct pieces *, const struct str *what, struct jv *result);
/* Keep it: a JSON object each. */
int  pieces_put(struct pieces *, const struct str *what, const struct str *result, struct err *);
/* Of a text or its tokens. */
uint64_t piece_hash(const void *bytes, size_t n);

/* ---- random numbers: equal on every machine ---- */

struct rng { uint64_t state; };
uint64_t rng_next(struct rng *);
uint32_t rng_below(struct rng *, uint32_t n);        /* n > 0 */
/* Independent of others with another task or sample. */
struct rng rng_for(uint64_t seed, const char *task, int32_t len, int32_t sample);

/* ---- material (eval_material.c) ---- */

struct words { const char **w; size_t n, cap; };
void words_add(struct words *, const char *);
void words_free(struct words *);

/* Where the text of a paragraph begins and how long it is, in text. */
struct span { size_t at, n; };
struct spans { struct span *s; size_t n, cap; };

struct question {
	char *text;
	struct words answer;      /* owned; any of them is right */
	int32_t doc[16]; int n_doc, n_gold;   /* paragraphs that belong to it, the ones with the answer first */
};
struct questions {
	struct question *q; size_t n, cap;
	struct words doc;         /* owned: paragraphs */
};
struct material {
	struct str lists;                 /* the words' bytes */
	struct words adjective, noun, all;   /* all: sorted, each once, verbs too */
	struct str essay;                 /* white space collapsed; empty: none was given */
	struct spans sentence;            /* of the essay */
	struct questions squad, hotpot;
};
/* path: a folder with adjectivelist.txt, nounlist.txt, verblist.txt, pd-essays.json, squad-open.json, hotpotqa-open.json
 * (those that are there), or a text file that becomes the essay, or NULL: the built-in words alone. */
int  material_load(struct material *, const char *path, struct err *);
void material_free(struct material *);
uint64_t material_hash(const struct material *);
/* Built in: strings of words with a line feed after each, then NULL. */
extern const char *const eval_adjectives[], *const eval_nouns[], *const eval_verbs[];

/* ---- tasks ---- */

/* One prompt: what the user says, how the answer begins, what it should contain. */
struct sample {
	struct str prompt, head;
	struct words ref;         /* owned */
	double depth;             /* where the hidden thing is, 0 .. 1; -1 = nowhere in particular; of `needle`: where it shall be */
};
void sample_free(struct sample *);

enum eval_metric { METRIC_ALL, METRIC_ANY, METRIC_DIGITS, METRIC_CHAIN };
enum eval_needs { NEEDS_ESSAY = 1, NEEDS_SQUAD = 2, NEEDS_HOTPOT = 4 };
struct task_def {
	const char *name;
	unsigned command, needs;
	int32_t gen;              /* tokens an answer may have */
	enum eval_metric metric;
	int32_t least;            /* units of the shortest prompt */
	/* A prompt of so many units (sentences, words, documents ...): more units, longer prompt, the rest alike.
	 * len: of the whole in tokens; i: number of the sample. */
	int (*build)(const struct material *, struct rng, int32_t units, int32_t len, int32_t i, struct sample *, struct err *);
};
extern const struct task_def ruler_tasks[], hidden_tasks[];   /* end with name = NULL */

/* Units so that the whole has at most len tokens: the prompt at its longest.  The tokens go to *out, the sample to *s. */
struct engine;
int  task_fit(const struct engine *, const struct task_def *, const struct material *, uint64_t seed, int32_t len, int32_t i,
              struct sample *s, struct tokens *out, struct err *);

/* ---- scores (eval_score.c): 0 .. 1 ---- */

/* Does needle occur in text, upper and lower case (ASCII) alike? */
int    text_has(const char *text, const char *needle);
double score_all(const struct words *ref, const char *answer);      /* share of the references that occur */
double score_any(const struct words *ref, const char *answer);      /* 1 when one of them occurs */
/* The first run of digits of the answer against the reference, digit by digit. */
double score_digits(const char *ref, const char *answer);
/* Keys "a-b" of the answer: how many in a row, from the first, are listed in `keys` and begin with the word that the one
 * before ended with, out of n. */
double score_chain(const struct words *keys, const char *answer, int n);
double score_answer(enum eval_metric, const struct words *ref, const char *answer);

struct mean { double sum, squares; int32_t n; };
void   mean_add(struct mean *, double x);
double mean_get(const struct mean *);
double mean_error(const struct mean *);   /* standard error; 0 with fewer than two */

#endif
