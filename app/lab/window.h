/* app/lab/window.h - for app/lab only: windows of a text, and the perplexity of a window that begins with an empty
 * cache. */
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
/* Read and tokenize a file. Place up to --samples windows of `window` tokens in the part that --offset and --tokens
 * name. Returns 0 or -1. */
int text_windows(struct text_windows *, const struct engine *, const struct options *, const char *path, int32_t window,
                 struct err *);

struct window {
	const int32_t *id; /* [n] tokens of the window */
	size_t n, from;    /* tokens with an index of at least `from` are scored; from >= 1 */
	/* 1 = the scored tokens are computed one at a time, as if generated; 0 = they are computed in chunks */
	int stepwise;
	/* The loss curve has a point for each `every` scored tokens of the text: the sum of the loss so far. There is
	 * no curve if `every` is 0. `after` is the number of tokens that earlier windows have scored since the last
	 * point. */
	int32_t every, after;

	/* ---- results ---- */
	double nll, seconds; /* `nll` is the sum of -ln p over the scored tokens */
	double read;         /* bytes of the KV cache that are read to generate one token at the window's end */
	uint64_t scored;     /* number of scored tokens */
	struct str curve;    /* the points of the loss curve, as a JSON list; it is empty if `every` is 0 */
};

/* Score a window under policy kv, or take its result from the checkpoint. A new result is stored in the checkpoint. If
 * the function `show` is not NULL, it is called with the number of tokens done so far. Returns 0 or -1. */
int window_score(struct window *, const char *kv, int32_t ctx, struct shared_timeline *, struct checkpoint *,
                 void (*show)(size_t done, void *ud), void *ud, struct err *);
void window_free(struct window *);

#endif
