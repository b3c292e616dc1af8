/* tests/measure/passages_load.h - passages of a prompt whose KV entries are loaded; for passages.c. Errors end the
 * program. */
#ifndef WEIR_PASSAGES_LOAD_H
#define WEIR_PASSAGES_LOAD_H

#include "engine/timeline/timeline.h"

enum { PASSAGES_MOST = 5, PASSAGES_CTX = 8192 };

/* Which tokens of the passages are computed again: the first ones of each passage, or those whose values in layer 1, or
 * whose keys and values in all layers, deviate most from those of reading. */
enum choice { FIRST, LAYER_1, ALL_LAYERS };
struct plan {
	const char *name;
	double share; /* of a passage's tokens, or with LAYER_1 and ALL_LAYERS of all passages' tokens; 2: all is read */
	enum choice by;
	int alone; /* 1: the passages were computed behind nothing, 0: behind the prompt's beginning */
};

/* Tokens from .. from + n - 1 of a prompt. kv[alone]: their entries as computed for this passage, from position
 * at[alone] on. */
struct block {
	int32_t from, n, at[2];
	uint8_t *kv[2];
};
struct prompt {
	struct tokens id;
	struct block block[PASSAGES_MOST]; /* contiguous */
	int n;
	double *deviation[3]; /* by enum choice, for each token of the passages; NULL for FIRST */
};
/* What passages_compute() has done. */
struct done {
	size_t again, all; /* tokens that were recomputed, and all tokens */
	double seconds;
};

/* the model, and the sequence with its cache; set by passages_open() */
extern struct engine *engine;
extern struct timeline *tl;

void stop(const char *what);
void need(int ok, const struct err *);
void passages_open(const char *model, int threads);
void passages_close(void);
void prompt_free(struct prompt *);

/* Make the sequence id[0 .. n). */
void sync_to(const int32_t *id, int32_t n);
/* Compute the entries of each passage alone. */
void passages_isolate(struct prompt *, int alone);
/* Set p->deviation: how far loaded entries are from those of reading, which the timeline has. */
void passages_compare(struct prompt *);
/* Make the sequence the prompt up to the end of its passages, as the plan says. */
struct done passages_compute(const struct prompt *, const struct plan *);

#endif
