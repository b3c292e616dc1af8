/* kernels/cpu/attn.h (private to kernels/cpu/) - one call of attention, shared by attn.c, probe.c and
 * fused_select_attn.c. */
#ifndef WEIR_CPU_ATTN_H
#define WEIR_CPU_ATTN_H

#include "kernels/cpu/cpu.h"

enum {
	TILE_QUERIES = 48, /* maximum number of (token, head) pairs in a tile */
	/* maximum number of (token, head) pairs in a tile of a prompt. Large tiles save work, because a block of keys
	 * is converted once per tile. Tiles are smaller if a thread would otherwise get fewer than PROMPT_TILES
	 * tiles. */
	PROMPT_QUERIES = 384,
	PROMPT_TILES = 4,
};

/* One call of attention. The tokens are divided into tiles. The slots of each segment are divided into spans of
 * ATTN_SPAN slots, or of half as many if the segment has a list of slots. In a prefill, a task computes one KV head of
 * one tile over all spans. In decode this would give too few tasks. So each span of a tile is a task of its own, and
 * the thread that finishes the last span of a tile merges the results. Both ways merge spans in the same order. */
struct attn_job {
	struct cpu *c;
	const struct attn_args *a;
	float *out;
	int32_t n;               /* number of tokens of the call */
	int32_t slots;           /* number of slots in all segments */
	int32_t spans;           /* number of spans in all segments */
	int32_t group;           /* number of query heads per KV head */
	size_t k_bytes, v_bytes; /* size of a stored key, and of a stored value, in bytes */
	/* attn or attn_prompt of struct cpu_fns, called for each tile */
	void (*attn)(const struct attn_tile *);
	size_t (*scratch)(int32_t head_dim, int32_t n_q); /* attn_scratch or attn_prompt_scratch of struct cpu_fns */
	/* The current run of the pool computes the tokens from t0 to t1 - 1, in `tiles` tiles of up to `tokens`
	 * tokens. */
	int32_t t0, t1, tokens, tiles;
	int32_t n_q;         /* maximum number of queries in a tile */
	size_t thread_bytes; /* size of one thread's scratch memory in bytes */
	/* The next three arrays are for calls in which each span is a task. */
	struct attn_state *st; /* [tile][head][span][n_q] the state of each query over each span */
	float *acc;            /* [tile][head][span][n_q][head_dim] memory for the array `acc` of each state in st[] */
	_Atomic int32_t *left; /* [tile][head] number of spans that are not finished yet */
	/* Arrays for a probe, which measures attention, or NULL if the call has no probe. score [t1 -
	 * t0][n_head][stride] has the scores of slot `first` and of all later slots. m and l [t1 - t0][n_head] have
	 * maximum and sum of the softmax. */
	float *score, *m, *l;
	size_t stride;
	int32_t first; /* first slot whose scores are kept in score[]; a segment begins with this slot */
	/* Selection of slots that runs before attention, or NULL. Only a job of one token has a selection. */
	const struct attn_selection *selection;
};

enum { ATTN_MET_SEGMENTS = 16 }; /* maximum number of segments of a call with predicates */
struct attn_met {
	struct attn_args a; /* the copied arguments; their pointers point to the members below */
	struct attn_segment seg[ATTN_MET_SEGMENTS];
	struct attn_probe probe; /* used only if the call has a probe */
};
/* Copy the arguments of a one-token call, except the segments whose predicate is false. Subtract the slots of these
 * segments from the probe's `skip`. Return 0, or -1 if the predicates do not fit the call: too many segments, an
 * invalid flag, or a skipped segment outside of the probe's first `skip` slots. */
int attn_segments_met(struct attn_met *, const struct attn_args *);

/* Compute the tokens from t0 to t1 - 1 of a job whose shapes were checked. Return 0, or -1 if cancelled or out of
 * memory. */
int attn_run(struct attn_job *, int32_t t0, int32_t t1);
/* Return the size of the scratch memory that a thread needs for tiles of n_q queries, in bytes. */
size_t attn_thread_bytes(const struct attn_job *, int32_t n_q);
int32_t segment_spans(const struct attn_segment *);
/* Allocate partial results for n jobs, so that each span (range of slots) can be a task. Return 1. Return 0 if the
 * spans cannot be tasks, because the results would take too much memory or the allocation failed. Only a failed
 * allocation sets the error. */
int attn_split(struct attn_job *, int32_t n);
/* Compute one span (range of slots), as a task of the pool. The number of the task is the index in [tile][KV
 * head][span]. */
void attn_span_task(void *job, int task, int worker);
/* Compute one span (range of slots) of one KV head for n jobs of one token each. Each job reads the first slots of the
 * span; a later job may read more slots of the span than an earlier one. */
void attn_tokens_span(const struct attn_job *, int32_t n, int32_t head, int32_t span, int worker);
/* Run n <= ATTN_EACH_MOST jobs of one token each, together with their selections of slots, in one run of the pool.
 * Return 0, or -1 if cancelled or out of memory. */
int fused_run(struct attn_job *, int32_t n);

/* Compute the attention of all tokens of a job that has a probe, and the results of the probe. */
void probe_run(struct attn_job *);

#endif
