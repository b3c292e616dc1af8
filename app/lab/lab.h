/* app/lab/lab.h - the commands weir eval and weir train, and their options. A command returns the exit code.
 *
 *     lab_options.c:     the options that only these commands have;
 *     ppl.c:             weir eval ppl: perplexity;
 *     recovery.c:        weir eval recovery: attention mass on selected KV entries;
 *     recovery_detail.c: more figures of recovery: by age of a selection, by layer;
 *     tune.c:            weir eval tune: the best value of a policy's setting;
 *     predictor.c:       weir eval predictor: training;
 *     plot.c, plot.py: weir eval plot: pictures of attention; plot.py draws --json output;
 *     ask.c:             weir eval ask: questions about documents;
 *     tasks.c:           weir eval ruler, passkey, chain, needle, answers;
 *     given.c:           prompts from the user's files, for answers;
 *     ruler.c:           prompts of ruler and needle;
 *     passkey_chain.c:   prompts of passkey and chain;
 *     corpus.c, words/: the texts that prompts are made of;
 *     score.c, rows.c, metrics.c: scores of answers;
 *     policies.c:        the compared cache policies, on one timeline;
 *     entry_fit.c:       settings with which policies read equally many KV entries;
 *     window.c:          perplexity of windows of a text;
 *     checkpoint.c:      finished results in a file;
 *     random.c:          random numbers that are equal on every machine;
 *     train.c:           weir train: trains an adapter or all weights. */
#ifndef WEIR_LAB_H
#define WEIR_LAB_H

#include "app/options/options.h"

/* The options of weir-lab: the options of weir, followed by its own. A command gets a pointer to the first member,
 * struct options; lab_of() returns the whole struct. */
struct lab_options {
	struct options o;

	int32_t layer, head; /* `plot`: layer (-1 = the middle layer) and KV head (-1 = the mean of all heads) */
	/* Options of the commands that evaluate texts. The default of `skip` is 1; the default of the others is 0. */
	int32_t tokens, window, skip, last, offset, curve;
	/* for `recovery`, the number of KV entries that every policy must read; 0 = each policy keeps its own
	 * setting */
	int32_t entries;
	const char *draw;  /* for `plot`: "matrix" or "span"; NULL = matrix */
	const char *tried; /* for `tune`: the values to try, "KEY=VALUE,VALUE,..." */
	const char *tasks; /* for `ruler`: names of tasks, separated by commas; NULL = all tasks */
	/* ruler, passkey, chain, needle, answers: lengths of a prompt together with its answer, in tokens */
	struct int_list len;
	/* Number of samples of a task, of windows of a text, or of questions. The task `needle` has this number of
	 * samples for each length and depth. */
	int32_t samples;
	int late;                           /* ruler, needle: 1 = policies select before the question is read */
	int32_t depths;                     /* for `needle`: number of depths */
	int32_t block, rows, crops, epochs; /* settings of `eval predictor train`, see predictor_settings */
	const char *questions;              /* for `ask`: the file of questions */
	int32_t seeds;                      /* for `ask`: how often each question is asked */
	/* file with finished results, or with the state of a training; NULL = none */
	const char *resume;
	/* Settings of weir train (train_settings). The file `held` is the held-out text. `type` is "f16" or "f32". If
	 * `full` is 1, all weights are trained. */
	const char *mask, *held, *type;
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
int cmd_eval_tasks(const struct options *); /* runs ruler, passkey, chain, needle and answers */
int cmd_train(const struct options *);

#endif
