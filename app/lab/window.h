/* app/lab/window.h - inside app/lab: windows of a text, and the perplexity of one under one policy, from an empty
 * cache. */
#ifndef WEIR_EVAL_WINDOW_H
#define WEIR_EVAL_WINDOW_H

#include "app/lab/checkpoint.h"
#include "app/lab/policies.h"

/* Windows that lie evenly over a text: window i begins at token first + i * step. */
struct text_windows {
	struct tokens t;
	size_t first, step;
	int n;
};
/* As many as `samples` of so many tokens each, in the part of the file that --offset and --tokens say. */
int text_windows(struct text_windows *, const struct engine *, const struct options *, const char *path, int32_t window,
                 struct err *);

struct window {
	const int32_t *id; /* [n] its tokens */
	size_t n, from;    /* tokens with index >= from are scored, from >= 1 */
	/* those before `from` are read, the others come one at a time, as if each had been generated */
	int stepwise;
	/* The sum of nll is noted after every so many tokens scored, those of windows before counted, too: `after` more
	 * than a multiple of `every`. 0 = never. */
	int32_t every, after;

	/* ---- what it gave ---- */
	double nll, seconds; /* nats, summed */
	double read;         /* bytes of the cache that a generated token reads at its end */
	uint64_t scored;
	struct str curve; /* the sums, a JSON list; empty without `every` */
};

/* Score it, or take what the checkpoint knows of it.  show: tokens that are done; may be NULL. */
int window_score(struct window *, const char *kv, int32_t ctx, struct shared_timeline *, struct checkpoint *,
                 void (*show)(size_t done, void *ud), void *ud, struct err *);
void window_free(struct window *);

#endif
