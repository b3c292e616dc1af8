/* app/lab/given.h - inside app/lab: tasks from the user's files: LongBench, GSM8K, MMLU, rows to copy, or any prompts
 * with answers. */
#ifndef WEIR_EVAL_GIVEN_H
#define WEIR_EVAL_GIVEN_H

#include "app/lab/tasks.h"

/* The tasks of some files, which it owns. */
struct given {
	struct task_def *task;
	size_t n;               /* with their sets */
	struct given_set *set;  /* [n] */
	size_t left_out;        /* records of sets that weir cannot score */
	char left_out_name[48]; /* one of these sets */
	uint64_t hash;          /* of the files */
};

/* Read files of JSON lines, or of a JSON list.  A record is one of
 *     {"prompt", "answers": [TEXT ...] or TEXT, "metric", and perhaps "task", "head", "max_tokens", "classes"}
 *     {"context", "input", "answers", "dataset", "all_classes"}      LongBench, also LongBench-E
 *     {"question", "choices": [TEXT ...], "answer": index or letter} MMLU
 *     {"question", "answer": "... #### 42"}                          GSM8K
 *     {"prompt", "reference_output"}                                 rows, as of LongProc's HTML to TSV
 * Records are grouped by task, without one by file. */
int given_load(struct given *, const char *const *file, int n_file, struct err *);
void given_free(struct given *);
int32_t given_count(const struct given_set *); /* its prompts */
int given_one_line(const struct given_set *);  /* an answer is one line */
/* The task_def's build(): the share units / (len - 1) of the prompt's bytes, half of it from the beginning and half
 * from the end, as LongBench cuts what is too long. m->set is the task's. */
int given_build(const struct corpus *m, struct rng, int32_t units, int32_t len, int32_t i, struct sample *,
                struct err *);

#endif
