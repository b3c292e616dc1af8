/* app/lab/lab.h - weir eval, weir train: each command returns the exit code.
 *
 *     lab_options.c    the options that only these commands have
 *     ppl.c            weir eval ppl
 *     recovery.c       weir eval recovery
 *     tune.c           weir eval tune: which value of a policy's setting to take
 *     predictor.c      weir eval predictor: training
 *     plot.c           weir eval plot: the attention matrix, the span of a policy
 *     plot.py          pictures of the --json lines of plot, ppl and recovery
 *     ask.c            weir eval ask: questions about documents
 *     tasks.c          weir eval ruler, passkey, chain, needle, answers: prompts of the right length, answers, tables
 *     given.c          prompts of the user's files, for answers
 *     ruler.c          prompts of the RULER tasks and of needle
 *     passkey_chain.c  prompts of passkey and chain
 *     corpus.c         the material of prompts: words, essays, questions
 *     words/           the installed lists of words
 *     score.c          scores of answers, means and their errors
 *     rows.c           the F1 of an answer's rows
 *     metrics.c        the metrics of LongBench, GSM8K and MMLU
 *     policies.c       the cache policies that are compared, one timeline for all of them
 *     recovery_detail.c  recovery by the age of a set and by layer, cosine of queries
 *     entry_fit.c      settings under which policies read equally many KV entries
 *     window.c         windows of a text, the perplexity of a window
 *     checkpoint.c     finished results: stored in a file, found there again
 *     random.c         pseudo-random numbers, equal on every machine
 *     train.c          weir train: an adapter, or all weights */
#ifndef WEIR_LAB_H
#define WEIR_LAB_H

#include "app/options/options.h"

/* The options of weir-lab: those of weir, and its own. Commands get the first member; lab_of() gives the whole. */
struct lab_options {
	struct options o;

	int32_t layer, head; /* plot: the layer, -1 = the middle one; the KV head, -1 = the mean of all */
	int32_t tokens, window, skip, last, offset, curve; /* evaluations of texts; 0 = not given (skip: 1) */
	int32_t entries;     /* recovery: KV entries that every policy reads; 0 = as its settings say */
	const char *draw;    /* plot: "matrix" or "span"; NULL = matrix */
	const char *tried;   /* tune: "KEY=VALUE,VALUE,..." */
	const char *tasks;   /* ruler: names separated by commas; NULL = all tasks */
	struct int_list len; /* tasks: tokens of a prompt and its answer */
	/* Number of samples of a task, windows of a text, or questions; needle: samples at every length and depth. */
	int32_t samples;
	int32_t depths;                     /* needle: number of depths */
	int32_t block, rows, crops, epochs; /* settings of eval predictor */
	const char *questions;              /* ask: the file of questions */
	int32_t seeds;                      /* ask: how often each question is asked */
	const char *resume;                 /* file of finished results, or of a training; NULL = none */
	const char *mask, *held, *type;     /* settings of weir train */
	int32_t context, fixed, batch, steps, warmup, rank;
	float rate;
	int full;
};
extern const struct lab_options lab_options_default;
extern const struct option_def lab_option_defs[]; /* ends with name = NULL */
static inline const struct lab_options *lab_of(const struct options *o)
{
	return (const struct lab_options *)o;
}

int cmd_eval_ppl(const struct options *);
int cmd_eval_recovery(const struct options *);
int cmd_eval_tune(const struct options *);
int cmd_eval_ask(const struct options *);
int cmd_eval_predictor(const struct options *);
int cmd_eval_plot(const struct options *);
int cmd_eval_tasks(const struct options *); /* ruler, passkey, chain, needle, answers */
int cmd_train(const struct options *);

#endif
