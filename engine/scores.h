/* engine/scores.h (private to engine/) - what attention has given to the rows of a stream: sums on the backend, and what the host
 * sees of them.
 *
 * A call reads the sums of before in one tensor and writes another, which counts when the call has succeeded: one that fails spoils
 * nothing.  The host's sums are those of the rings (rings.h).  It is brought those that tokens which join stand
 * against, and all when somebody looks or saves; so a step waits for none of them. */
#ifndef WEIR_SCORES_H
#define WEIR_SCORES_H

#include "engine/engine.h"
#include "engine/rings.h"
#include "kernels/backend.h"

enum { SCORES_FEW = 3 * 16 + 3 * RINGS_MOST };   /* rows that a group of 16 tokens looks at, at most */

struct serializer;
struct scores {
	struct backend *be;          /* NULL: nothing is scored */
	struct rings *rings;
	struct tensor mass[2];       /* f32 [heads][rows of the rings and their stage]: a call reads [now] and writes the other */
	int now;
	int mass_stale, sum_stale;   /* the rings' sums count, not the backend's; or the other way round */
	float *swap;                 /* [heads][rows]: all of them on their way */
	struct tensor few;           /* f32 [SCORES_FEW][heads]: those that are looked at */
	struct tensor move;          /* i32 [heads][3 * SCORES_FEW] */
	int32_t *list;               /* the same */
};

/* For rings of at most so many rows. */
uint64_t scores_bytes(int32_t heads, uint64_t rows);
int  scores_init(struct scores *, struct backend *, struct rings *, struct err *);
void scores_release(struct scores *);
/* The rings have been reset, or their sums changed: these count. */
void scores_reset(struct scores *);

/* A call follows, of tokens pos .. pos + n: what each counts.  -1: the call fails, because it is being stopped or the backend
 * failed before. */
int  scores_begin(struct scores *, int32_t pos, int32_t n, float *weight);
/* It has succeeded. */
void scores_end(struct scores *);
/* What rings_insert() of n tokens looks at, to the host; and the backend's sums after it. */
void scores_join(struct scores *, int32_t n);
void scores_follow(struct scores *);
/* Make room for the weights of tokens pos .. pos + n, between calls: the next one would have to wait otherwise.  0 or -1. */
int  scores_scale(struct scores *, int32_t pos, int32_t n);

/* All sums to the host: 0, or -1 where they did not come (the backend's failure tells why). */
int  scores_read(struct scores *);
/* Those of the first rows, of which all others are 0. */
void scores_archive(struct scores *, struct serializer *, int32_t rows);

#endif
