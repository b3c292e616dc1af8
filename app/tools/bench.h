/* app/tools/bench.h - declarations shared by the files of weir bench. */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

#include "app/tools/tools.h"

struct bench {
	const struct options *o;
	/* copy of the options in which --kv has only one policy at a time; the member `o` then points to this copy */
	struct options each;
	int gpu;
	struct engine *engine;
	struct timeline *tl;
	struct tokens text;
	struct progress progress;
	int threads;
	int measured;
	double bandwidth, arithmetic; /* limits of the machine: GB/s, and 10^9 multiply-adds per second */
	int n_done, n_all;
};

/* The results v[0 .. n) of one measurement that was repeated n times. */
struct timings {
	double v[1000];
	int n;
};

/* Sort the values, so that v[0] is the smallest, and return the median. */
double timings_median(struct timings *);
/* Clear the progress line, print the text and free it. */
int bench_print(struct bench *, struct str *, struct err *);
/* Extend b->text to at least n tokens. The text is the same in every run. */
void bench_text(struct bench *, size_t n);
/* Fill the cache with random KV entries for the first `depth` tokens of the text. If the policy cannot continue from
 * such entries, the next timeline_sync() prefills these tokens instead. */
int bench_fill_entries(struct bench *, struct timeline *, int32_t depth, struct err *);
/* Generate n tokens after the first `at` tokens of the text. If the model wants to end its answer, the next token of
 * the text is decoded instead. */
int bench_steps(struct bench *, struct timeline *, size_t at, int32_t n, struct err *);
/* Measure the limits of the machine, and append them as one or two lines. Later calls do nothing. */
void bench_machine(struct bench *, struct str *);
/* Print a line about a measurement: the median, and the bytes and multiply-adds per second as shares of the machine's
 * limits. */
int bench_report(struct bench *, const char *test, int32_t n, int32_t depth, struct timings *, double bytes_per_token,
                 double macs_per_token, struct err *);
/* Measure saving and loading a snapshot of `depth` tokens (bench_snapshot.c). */
int bench_snapshot(struct bench *, int32_t depth, struct err *);
/* Compare all policies at all depths. They take turns, so that a change of the machine's speed affects all of them
 * (bench_turns.c). */
int bench_turns(struct bench *, struct err *);

#endif
