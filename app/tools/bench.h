/* app/tools/bench.h - inside app/tools: what the measurements of weir bench share. */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

#include "app/tools/tools.h"

struct bench {
	const struct options *o;
	struct options each; /* o's, with one of its policies */
	int gpu;
	struct engine *engine;
	struct timeline *tl;
	struct tokens text;
	struct progress progress;
	int threads;
	int measured;
	double bandwidth, arithmetic; /* GB/s, 10^9 multiply-adds a second */
	int n_done, n_all;
};

struct timings {
	double v[1000];
	int n;
}; /* of the repetitions of one measurement */

/* Sorts: v[0] is the least. */
double timings_median(struct timings *);
/* Print a line or more over the progress, and free it. */
int bench_print(struct bench *, struct str *, struct err *);
/* The text is that long, and its tokens are the same in every run. */
void bench_text(struct bench *, size_t n);
/* Random KV entries for the first `depth` tokens; a policy that refuses some of them gets these by prefill. */
int bench_fill_entries(struct bench *, struct timeline *, int32_t depth, struct err *);
/* Decode n tokens after the first `at` tokens of the text; where the model ends its answer, the next token of the text
 * goes in. */
int bench_steps(struct bench *, struct timeline *, size_t at, int32_t n, struct err *);
/* Measure the limits of the machine, once, and append a line or two. */
void bench_machine(struct bench *, struct str *);
/* One line: the median of the times, and the bytes and multiply-adds of a token against the limits of the machine. */
int bench_report(struct bench *, const char *test, int32_t n, int32_t depth, struct timings *, double bytes_per_token,
                 double macs_per_token, struct err *);
/* A snapshot of `depth` tokens saved and loaded (bench_snapshot.c). */
int bench_snapshot(struct bench *, int32_t depth, struct err *);
/* All policies at all depths in turns (bench_turns.c). */
int bench_turns(struct bench *, struct err *);

#endif
