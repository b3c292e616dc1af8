/* app/lab/score.h - inside app/lab: what an answer is worth, 0 .. 1; means and their errors. */
#ifndef WEIR_EVAL_SCORE_H
#define WEIR_EVAL_SCORE_H

#include "app/lab/corpus.h"

enum eval_metric {
	METRIC_ALL,
	METRIC_ANY,
	METRIC_DIGITS,
	METRIC_CHAIN,
	/* Line feeds matter to these: */
	METRIC_ROWS,
	METRIC_F1,
	METRIC_ROUGE_L,
	METRIC_EDIT,
	METRIC_CLASS,
	METRIC_NUMBERS,
	METRIC_NUMBER,
	METRIC_CHOICE
};
/* Does needle occur in text, upper and lower case (ASCII) alike? */
int text_has(const char *text, const char *needle);
double score_all(const struct words *ref, const char *answer); /* share of the references that occur */
double score_any(const struct words *ref, const char *answer); /* 1 when one of them occurs */
/* The first run of digits of the answer against the reference, digit by digit. */
double score_digits(const char *ref, const char *answer);
/* Keys "a-b" of the answer: how many in a row, from the first, are listed in `keys` and begin with the word that the
 * one before ended with, out of n. */
double score_chain(const struct words *keys, const char *answer, int n);
/* rows.c: F1 of the answer's rows, the lines that end with a line feed and are not empty (what a limit cut off is no
 * row). A row is right when a reference that no earlier row matched has the same words, upper and lower case alike,
 * punctuation and list marks apart. */
double score_rows(const struct words *ref, const char *answer);
size_t answer_rows(const char *answer); /* how many rows it has */
/* metrics.c: those from METRIC_F1 on.  classes: of METRIC_CLASS. */
double score_published(enum eval_metric, const struct words *ref, const struct words *classes, const char *answer);
/* classes may be NULL. */
double score_answer(enum eval_metric, const struct words *ref, const struct words *classes, const char *answer);

struct mean {
	double sum, squares;
	int32_t n;
};
void mean_add(struct mean *, double x);
double mean_get(const struct mean *);
double mean_error(const struct mean *); /* standard error; 0 with fewer than two */

#endif
