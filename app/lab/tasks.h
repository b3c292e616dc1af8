/* app/lab/tasks.h - inside app/lab: tasks: how their prompts are built and their answers scored. */
#ifndef WEIR_EVAL_TASKS_H
#define WEIR_EVAL_TASKS_H

#include "app/conversation/conversation.h"
#include "app/lab/corpus.h"
#include "app/lab/random.h"
#include "app/lab/score.h"

/* One prompt: what the user says, how the answer begins, what it should contain. */
struct sample {
	struct str prompt, head;
	struct words ref; /* owned */
	/* the prompt does not go through the chat template: the answer goes on with its text */
	int plain;
	const struct words *classes; /* borrowed: what answers are classes of; NULL: nothing */
	/* where the hidden thing is, 0 .. 1; -1 = nowhere in particular; of `needle`: where it shall be */
	double depth;
};
void sample_free(struct sample *);

enum eval_needs { NEEDS_ESSAY = 1, NEEDS_SQUAD = 2, NEEDS_HOTPOT = 4 };
struct task_def {
	const char *name;
	unsigned command, needs;
	int32_t gen; /* tokens an answer may have */
	enum eval_metric metric;
	int32_t least; /* units of the shortest prompt */
	/* A prompt of so many units (sentences, words, documents ...): more units, longer prompt, the rest alike.
	 * len: of the whole in tokens; i: number of the sample. */
	int (*build)(const struct corpus *, struct rng, int32_t units, int32_t len, int32_t i, struct sample *,
	             struct err *);
	const struct given_set *set; /* prompts that were given (given.h); NULL: they are made */
};
extern const struct task_def ruler_tasks[], passkey_chain_tasks[]; /* end with name = NULL */

/* Units so that the whole has at most len tokens: the prompt at its longest. The tokens go to *out, the sample to
 * *s. */
int task_fit(const struct engine *, const struct task_def *, const struct corpus *, uint64_t seed, int32_t len,
             int32_t i, struct sample *s, struct tokens *out, struct err *);

#endif
