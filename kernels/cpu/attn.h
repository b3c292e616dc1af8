/* kernels/cpu/attn.h (private to kernels/cpu/) - one call of attention, shared by attn.c, probe.c and
 * fused_select_attn.c. */
#ifndef WEIR_CPU_ATTN_H
#define WEIR_CPU_ATTN_H

#include "kernels/cpu/cpu.h"

enum {
	TILE_QUERIES = 48, /* (token, head) pairs of one tile */
	/* most of a prompt, where there are enough for PROMPT_TILES a thread: a block of keys is made ready for all of
	 * a tile */
	PROMPT_QUERIES = 384,
	PROMPT_TILES = 4,
};

/* The slots of a call are cut into spans: each part from its own start into pieces of ATTN_SPAN slots (lists: half of
 * that). A unit of work is (KV head, tile of tokens); with few of these (decode) each span is a task, and the thread
 * that finishes the last span of a unit merges the partial states. Both ways do the same merges in the same order. */
struct attn_job {
	struct cpu *c;
	const struct attn_args *a;
	float *out;
	int32_t n;     /* tokens of the call */
	int32_t slots; /* of all parts */
	int32_t spans; /* of all parts */
	int32_t group;
	size_t row_bytes;                                 /* of a K or V row */
	void (*attn)(const struct attn_tile *);           /* the level's attn or attn_prompt, */
	size_t (*scratch)(int32_t head_dim, int32_t n_q); /* and its scratch */
	/* Tokens t0 .. t1 - 1 are computed now: */
	int32_t t0, t1, tokens, tiles;
	int32_t n_q;       /* most queries of a tile */
	size_t part_bytes; /* scratch of one thread */
	/* Split over spans: */
	struct attn_state *st; /* [tile][head][span][n_q] */
	float *acc;            /* the same x head_dim */
	_Atomic int32_t *left; /* [tile][head]: spans to go */
	/* For a probe, else NULL: scores of the columns from `first` on, [t1 - t0][n_head][stride]; final m and l of
	 * the softmax, [t1 - t0][n_head]. */
	float *score, *m, *l;
	size_t stride;
	int32_t first; /* the first column of a part */
	/* Slots to select first (one token only), or NULL. */
	const struct attn_selection *selection;
};

/* The arguments of a call after its predicates were evaluated: the parts that are read. */
enum { ATTN_MET_PARTS = 16 }; /* most parts of a call with predicates */
struct attn_met {
	struct attn_args a; /* points into this struct */
	struct attn_part part[ATTN_MET_PARTS];
	struct attn_probe probe; /* written only where the call has a probe */
};
/* Copy the arguments of a one-token call without the parts whose predicate is false; the probe's `skip` shrinks by
 * their slots. 0, or -1 where the predicates do not fit the call (too many parts, no such flag, skipped slots outside
 * of `skip`). */
int attn_parts_met(struct attn_met *, const struct attn_args *);

/* Compute tokens t0 .. t1 - 1 of a job whose shapes were checked.  0, or -1 when cancelled or out of memory. */
int attn_run(struct attn_job *, int32_t t0, int32_t t1);
/* Cut tokens t0 .. t1 - 1 of a job into tiles. */
void attn_tiles(struct attn_job *, int32_t t0, int32_t t1);
/* Scratch of a thread for tiles of n_q queries. */
size_t attn_part_bytes(const struct attn_job *, int32_t n_q);
int32_t attn_part_spans(const struct attn_part *);
/* Get memory for partial states of n jobs, so that spans are tasks of their own.  1, or 0 without memory. */
int attn_split(struct attn_job *, int32_t n);
/* Task index of [tile][KV head][span]. */
void attn_span_task(void *job, int task, int worker);
/* One span of a part that n jobs of one token each have alike but for its length, which does not fall from job to
 * job. */
void attn_tokens_span(const struct attn_job *, int32_t n, int32_t head, int32_t span, int worker);
/* attn_run() for n jobs of one token each, with their selections of slots in the same hand-over; n at most
 * ATTN_EACH_MOST. 0, or -1 when cancelled or out of memory. */
int fused_run(struct attn_job *, int32_t n);

/* Attention of all tokens, with the probe. */
void probe_run(struct attn_job *);

#endif
