/* app/lab/score.h - for app/lab only: scores of answers, from 0 to 1, their means and standard errors. */
#ifndef WEIR_EVAL_SCORE_H
#define WEIR_EVAL_SCORE_H

#include "app/lab/corpus.h"

enum eval_metric {
	METRIC_ALL,    /* score_all() */
	METRIC_ANY,    /* score_any() */
	METRIC_DIGITS, /* score_digits() */
	METRIC_CHAIN,  /* score_chain() */
	/* For the metrics below, the answer keeps its line feeds. */
	METRIC_ROWS, /* score_rows() */
	METRIC_F1,   /* this metric and those below are defined in metrics.c */
	METRIC_ROUGE_L,
	METRIC_EDIT,
	METRIC_CLASS,
	METRIC_NUMBERS,
	METRIC_NUMBER,
	METRIC_CHOICE
};
/* 1 if needle occurs in text, ignoring the case of ASCII letters. */
int text_has(const char *text, const char *needle);
/* returns the share of the references that occur in the answer */
double score_all(const struct words *ref, const char *answer);
/* returns 1 if one of the references occurs in the answer */
double score_any(const struct words *ref, const char *answer);
/* Compare the answer's first number with the reference, digit by digit. Returns which share of the reference's digits
 * is equal. */
double score_digits(const char *ref, const char *answer);
/* Score a chain of keys "a-b", "b-c", .... Count the keys of the answer before the first wrong key, but no more than n.
 * A key is wrong if it is not in `keys`, or if it does not begin with the last word of the previous key. Returns the
 * count / n. */
double score_chain(const struct words *keys, const char *answer, int n);
/* Return the F1 of the answer's rows (rows.c). A row is right if it has the same words as a reference row that no
 * earlier row has matched; case, punctuation and list marks are ignored. A last line without a line feed does not
 * count, because the token limit may have truncated it. */
double score_rows(const struct words *ref, const char *answer);
size_t answer_rows(const char *answer); /* returns the number of complete rows */
/* Score by METRIC_F1 or one of the metrics below it (metrics.c). Only METRIC_CLASS uses `classes`. */
double score_published(enum eval_metric, const struct words *ref, const struct words *classes, const char *answer);
/* Score by any metric. `classes` may be NULL. */
double score_answer(enum eval_metric, const struct words *ref, const struct words *classes, const char *answer);

/* Sums of n values and of their squares. */
struct mean {
	double sum, squares;
	int32_t n;
};
void mean_add(struct mean *, double x);
double mean_get(const struct mean *);
double mean_error(const struct mean *); /* returns the standard error; 0 for fewer than two values */

#endif
