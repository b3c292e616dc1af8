/* kernels/cpu/attn.h (private to kernels/cpu/) - one call of attention, shared by attn.c, probe.c and
 * fused_select_attn.c. */
#ifndef WEIR_CPU_ATTN_H
#define WEIR_CPU_ATTN_H

#include "kernels/cpu/cpu.h"

enum {
	TILE_QUERIES = 48, /* most (token, head) pairs of a tile */
	/* most pairs of a tile of a prompt, if each thread gets at least PROMPT_TILES tiles: a larger tile
	 * converts a block of keys for more queries */
	PROMPT_QUERIES = 384,
	PROMPT_TILES = 4,
};

/* One call of attention. Its slots are cut into spans of ATTN_SPAN slots (lists: half of that), each part from its
 * own start. A unit of work is (KV head, tile of tokens). With few units (decode) each span is a task, and the
 * thread that finishes the last span of a unit merges the partial states. Both ways do the same merges in the same
 * order. */
struct attn_job {
	struct cpu *c;
	const struct attn_args *a;
	float *out;
	int32_t n;     /* tokens of the call */
	int32_t slots; /* slots of all parts */
	int32_t spans; /* spans of all parts */
	int32_t group;
	size_t row_bytes;                                 /* bytes of a K or V row */
	void (*attn)(const struct attn_tile *);           /* the level's attn or attn_prompt */
	size_t (*scratch)(int32_t head_dim, int32_t n_q); /* its attn_scratch or attn_prompt_scratch */
	/* The tokens that are computed in this run, t0 .. t1 - 1: */
	int32_t t0, t1, tokens, tiles;
	int32_t n_q;       /* most queries of a tile */
	size_t part_bytes; /* bytes of scratch of one thread */
	/* If each span is a task: */
	struct attn_state *st; /* [tile][head][span][n_q] */
	float *acc;            /* [tile][head][span][n_q][head_dim] */
	_Atomic int32_t *left; /* [tile][head]: spans not yet finished */
	/* NULL without a probe. score: of the columns from `first` on, [t1 - t0][n_head][stride]; m and l of the
	 * finished softmax: [t1 - t0][n_head]. */
	float *score, *m, *l;
	size_t stride;
	int32_t first; /* first column with a kept score, where a part begins */
	/* Selection of slots that runs before attention (one token only), or NULL. */
	const struct attn_selection *selection;
};

/* Arguments of a call without the parts whose predicate is false. */
enum { ATTN_MET_PARTS = 16 }; /* most parts of a call with predicates */
struct attn_met {
	struct attn_args a; /* points into this struct */
	struct attn_part part[ATTN_MET_PARTS];
	struct attn_probe probe; /* set only if the call has a probe */
};
/* Copy the arguments of a one-token call without the parts whose predicate is false; the probe's `skip` shrinks by
 * their slots. 0, or -1 if the predicates do not fit the call (too many parts, an invalid flag, skipped slots
 * outside of `skip`). */
int attn_parts_met(struct attn_met *, const struct attn_args *);

/* Compute tokens t0 .. t1 - 1 of a job whose shapes were checked.  0, or -1 when cancelled or out of memory. */
int attn_run(struct attn_job *, int32_t t0, int32_t t1);
/* Cut tokens t0 .. t1 - 1 of a job into tiles. */
void attn_tiles(struct attn_job *, int32_t t0, int32_t t1);
/* Bytes of scratch of a thread for tiles of n_q queries. */
size_t attn_part_bytes(const struct attn_job *, int32_t n_q);
int32_t attn_part_spans(const struct attn_part *);
/* Allocate partial states for n jobs, so that each span can be a task. 1, or 0 without memory. */
int attn_split(struct attn_job *, int32_t n);
/* A pool_fn: compute one span; task = index in [tile][KV head][span]. */
void attn_span_task(void *job, int task, int worker);
/* Compute one span of one KV head for n jobs of one token each. The part of the span is alike in all jobs but for
 * its length, which does not decrease from job to job. */
void attn_tokens_span(const struct attn_job *, int32_t n, int32_t head, int32_t span, int worker);
/* attn_run() for n <= ATTN_EACH_MOST jobs of one token each, with their selections of slots in the same run of the
 * pool. 0, or -1 when cancelled or out of memory. */
int fused_run(struct attn_job *, int32_t n);

/* Compute all tokens of a job and their probe. */
void probe_run(struct attn_job *);

#endif
