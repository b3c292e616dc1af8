/* kernels/cpu_attn.h (private to kernels/cpu*.c) - one call of attention as cpu_attn.c and cpu_probe.c share it. */
#ifndef WEIR_CPU_ATTN_H
#define WEIR_CPU_ATTN_H

#include "kernels/cpu.h"

enum { TILE_QUERIES = 48 };      /* (token, head) pairs of one tile */

/* What attention reads is a row of spans: each part cut by ATTN_SPAN (lists: half of it) from its own start, the parts
 * one after the other.
 * Units of work: (KV head, tile of tokens), or with few of these (decoding) also one span, whose partial states are
 * merged by whoever finishes the last one.  Both ways do the same merges in the same order. */
struct attn_job {
	struct cpu *c;
	const struct attn_args *a;
	float *out;
	int32_t n;                   /* tokens of the call */
	int32_t rows;                /* of all parts */
	int32_t spans;               /* of all parts */
	int32_t group;
	size_t row_bytes;            /* of a K or V row */
	/* Tokens t0 .. t1 of it are computed now: */
	int32_t t0, t1, tokens, tiles;
	int32_t n_q;                 /* most queries of a tile */
	size_t part_bytes;           /* scratch of one thread */
	/* Split over spans: */
	struct attn_state *st;       /* [tile][head][span][n_q] */
	float *acc;                  /* the same x head_dim */
	_Atomic int32_t *left;       /* [tile][head]: spans to go */
	/* For a probe, or NULL: scores of the columns from `first` on, [t1 - t0][n_head][stride]; final m and l
	 * [t1 - t0][n_head]. */
	float *score, *m, *l;
	size_t stride;
	int32_t first;               /* a part's first column */
	/* Rows to be found first, or NULL (one token only). */
	const struct attn_choice *choice;
};

/* Arguments of attention without conditions: what attn_parts_met() leaves of a call. */
enum { ATTN_MET_PARTS = 16 };    /* most parts of a call with conditions */
struct attn_met {
	struct attn_args a;          /* points into this struct */
	struct attn_part part[ATTN_MET_PARTS];
	struct attn_probe probe;     /* written only where the call has a probe */
};
/* Copy the arguments of a one-token call without the parts whose condition does not hold; the probe's `skip` shrinks by their
 * rows.  0, or -1 where the conditions do not fit the call (too many parts, no such flag, dropped rows outside of `skip`). */
int attn_parts_met(struct attn_met *, const struct attn_args *);

/* Tokens t0 .. t1 of a job whose shapes were checked.  0, or -1 when cancelled or out of memory. */
int attn_run(struct attn_job *, int32_t t0, int32_t t1);
/* Of tokens that are set up: room for partial states, so that spans are tasks of their own.  0 when there is none. */
int attn_split(struct attn_job *);
/* Task of [tile][head][span]. */
void attn_span_task(void *job, int task, int worker);
/* The same for one token, in one hand-over with the choice of rows.  0; -1 cancelled or out of memory. */
int chosen_run(struct attn_job *);

/* All tokens, and what they looked at. */
void probe_run(struct attn_job *);

#endif
