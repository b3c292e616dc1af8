/* app/bench.h (private to app/bench*.c) - what the measurements share. */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

#include "app/app.h"
#include "app/output.h"

struct bench {
	const struct options *o;
	struct options each;                 /* o's, with one of its policies */
	int gpu;
	struct engine *engine;
	struct timeline *tl;
	struct tokens text;
	struct progress progress;
	int threads;
	int measured;
	double bandwidth, arithmetic;        /* GB/s, 10^9 multiply-adds a second */
	int n_done, n_all;
};

struct sample { double v[1000]; int n; };

/* Sorts the sample: v[0] is the least. */
double sample_median(struct sample *);
/* Print a line or more over the progress, and free it. */
int bench_print(struct bench *, struct str *, struct err *);
/* The text is that long, and its tokens are the same in every run. */
void bench_text(struct bench *, size_t n);
/* The first `depth` tokens' rows, made up.  Whatever the policy does not take is read after all. */
int bench_fill_rows(struct bench *, struct timeline *, int32_t depth, struct err *);
/* Generate n tokens behind what is there; `at`: tokens of the text that are there, for where the model would end. */
int bench_steps(struct bench *, struct timeline *, size_t at, int32_t n, struct err *);
/* What the machine gives, once: a line or two. */
void bench_machine(struct bench *, struct str *);
/* All policies at all depths in turns (bench_turns.c). */
int bench_turns(struct bench *, struct err *);

#endif
