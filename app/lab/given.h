/* app/lab/given.h - for app/lab only: tasks from the user's files: LongBench, GSM8K, MMLU, tables to copy, or the
 * user's own prompts with answers. */
#ifndef WEIR_EVAL_GIVEN_H
#define WEIR_EVAL_GIVEN_H

#include "app/lab/tasks.h"

/* The tasks of the user's files. This struct owns their prompts. */
struct given {
	struct task_def *task;
	size_t n;               /* number of tasks */
	struct given_set *set;  /* [n] the prompts of each task */
	size_t left_out;        /* number of records that were left out, because weir cannot score their tasks */
	char left_out_name[48]; /* name of a task whose records were left out */
	uint64_t hash;          /* hash of the user's files */
};

/* Read files of JSON lines, or of a JSON list. Each record is of one of these kinds:
 *
 *     {"prompt", "answers": [TEXT ...] or TEXT, "metric"}: the user's own; perhaps with "task", "head", "max_tokens",
 *     "classes";
 *     {"context", "input", "answers", "dataset", "all_classes"}: LongBench, also LongBench-E;
 *     {"question", "choices": [TEXT ...], "answer": index or letter}: MMLU;
 *     {"question", "answer": "... #### 42"}: GSM8K;
 *     {"prompt", "reference_output"}: a table to copy, as LongProc's HTML to TSV.
 *
 * The task of a record is its "task" or "dataset"; without these, the records of a file are one task. */
int given_load(struct given *, const char *const *file, int n_file, struct err *);
void given_free(struct given *);
int32_t given_count(const struct given_set *); /* returns the number of the set's prompts */
int given_one_line(const struct given_set *);  /* 1 if an answer is one line */
/* Build prompt number i of m->set in the way of task_def.build. A prompt of n bytes is shortened to n * units / (len -
 * 1) bytes by dropping its middle, as in LongBench. */
int given_build(const struct corpus *m, struct rng, int32_t units, int32_t len, int32_t i, struct sample *,
                struct err *);

#endif
