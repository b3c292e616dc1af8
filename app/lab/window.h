/* app/lab/window.h - inside app/lab: windows of a text, and the perplexity of a window under one policy, from an
 * empty cache. */
#ifndef WEIR_EVAL_WINDOW_H
#define WEIR_EVAL_WINDOW_H

#include "app/lab/checkpoint.h"
#include "app/lab/policies.h"

/* Windows at equal distances in a text: window i begins at token first + i * step. */
struct text_windows {
	struct tokens t;
	size_t first, step;
	int n;
};
/* Read a file, and place up to --samples windows of `window` tokens in the part that --offset and --tokens name. */
int text_windows(struct text_windows *, const struct engine *, const struct options *, const char *path, int32_t window,
                 struct err *);

struct window {
	const int32_t *id; /* [n] tokens of the window */
	size_t n, from;    /* tokens with index >= from are scored; from >= 1 */
	/* 1 = tokens before `from` are prefilled; the others come one at a time, as if generated */
	int stepwise;
	/* A point of the curve is noted after every `every` tokens scored, counted over all windows of the text:
	 * `after` is the count before this window modulo `every`. 0 = no curve. */
	int32_t every, after;

	/* ---- results ---- */
	double nll, seconds; /* nll: in nats, summed */
	double read;         /* bytes of the cache that a generated token reads at the window's end */
	uint64_t scored;
	struct str curve; /* sums of nll at the points, a JSON list; empty without `every` */
};

/* Score a window, or take its result from the checkpoint. show (may be NULL) gets the tokens done. */
int window_score(struct window *, const char *kv, int32_t ctx, struct shared_timeline *, struct checkpoint *,
                 void (*show)(size_t done, void *ud), void *ud, struct err *);
void window_free(struct window *);

#endif
