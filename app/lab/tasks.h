/* app/lab/tasks.h - for app/lab only: how the prompts of a task are built and their answers scored. */
#ifndef WEIR_EVAL_TASKS_H
#define WEIR_EVAL_TASKS_H

#include "app/conversation/conversation.h"
#include "app/lab/corpus.h"
#include "app/lab/random.h"
#include "app/lab/score.h"

/* One prompt: the user's message, the given beginning of the answer, and the right answers. */
struct sample {
	struct str prompt, head;
	size_t question;  /* offset in `prompt` at which the question begins; 0 = there is no text before it */
	struct words ref; /* the right answers, freed by sample_free() */
	/* 1 = the prompt has no chat template: the answer continues the prompt's text */
	int plain;
	const struct words *classes; /* the classes of METRIC_CLASS, owned by the task; NULL: none */
	/* Depth of the needle in the prompt, from 0 (beginning) to 1 (end); -1 = the prompt has no single needle.
	 * The caller sets it for the task `needle`, the build function for other tasks. */
	double depth;
};
void sample_free(struct sample *);

enum eval_needs { NEEDS_ESSAY = 1, NEEDS_SQUAD = 2, NEEDS_HOTPOT = 4 };
struct task_def {
	const char *name;
	/* `command` is the command that runs the task, as CMD_EVAL_...; `needs` has flags of enum eval_needs */
	unsigned command, needs;
	int32_t gen; /* maximum number of tokens of an answer */
	enum eval_metric metric;
	int32_t least; /* number of units in the shortest prompt (see `build`) */
	/* Build a prompt of `units` units (sentences, words, documents, ...). More units make the prompt longer and
	 * change nothing else. `len` is the maximum number of tokens of prompt and answer together. `i` is the number
	 * of the sample. Returns 0 or -1. */
	int (*build)(const struct corpus *, struct rng, int32_t units, int32_t len, int32_t i, struct sample *,
	             struct err *);
	const struct given_set *set; /* prompts from the user's files (given.h); NULL = weir makes the prompts */
};
extern const struct task_def ruler_tasks[], passkey_chain_tasks[]; /* the last element has name = NULL */

/* Build the longest prompt (the one with the most units) that has at most len tokens together with its answer. *s
 * receives the sample, and *out the tokens of the prompt. Returns 0 or -1. */
int task_fit(const struct engine *, const struct task_def *, const struct corpus *, uint64_t seed, int32_t len,
             int32_t i, struct sample *s, struct tokens *out, struct err *);

#endif
