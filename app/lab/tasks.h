/* app/lab/tasks.h - inside app/lab: tasks: how their prompts are built and their answers scored. */
#ifndef WEIR_EVAL_TASKS_H
#define WEIR_EVAL_TASKS_H

#include "app/conversation/conversation.h"
#include "app/lab/corpus.h"
#include "app/lab/random.h"
#include "app/lab/score.h"

/* One prompt: the user's message, the beginning of the answer, and what the answer should contain. */
struct sample {
	struct str prompt, head;
	struct words ref; /* owned: the right answers */
	/* 1 = the chat template is not used: the answer continues the prompt's text */
	int plain;
	const struct words *classes; /* borrowed: the classes that answers are of; NULL: none */
	/* Place of the hidden thing, 0 .. 1; -1 = it has no place. For `needle` the caller sets it. */
	double depth;
};
void sample_free(struct sample *);

enum eval_needs { NEEDS_ESSAY = 1, NEEDS_SQUAD = 2, NEEDS_HOTPOT = 4 };
struct task_def {
	const char *name;
	unsigned command, needs;
	int32_t gen; /* most tokens of an answer */
	enum eval_metric metric;
	int32_t least; /* units of the shortest prompt */
	/* Build a prompt of so many units (sentences, words, documents ...). More units make it longer and change
	 * nothing else. len: tokens of prompt and answer; i: number of the sample. */
	int (*build)(const struct corpus *, struct rng, int32_t units, int32_t len, int32_t i, struct sample *,
	             struct err *);
	const struct given_set *set; /* given prompts (given.h); NULL: prompts are made */
};
extern const struct task_def ruler_tasks[], passkey_chain_tasks[]; /* end with name = NULL */

/* Build the longest prompt that has, with its answer, at most len tokens. *out: its tokens; *s: the sample. */
int task_fit(const struct engine *, const struct task_def *, const struct corpus *, uint64_t seed, int32_t len,
             int32_t i, struct sample *s, struct tokens *out, struct err *);

#endif
