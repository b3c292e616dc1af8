/* engine/cache/select.h (private to engine/) - selection: which of the cached KV entries one generated token reads.
 *
 * A selector works on a region of a store's planes, slots 0 .. n of every KV head, where slot i holds token i, rotated
 * at position i, and nothing is ever evicted. Before a generated token attends, select() names the slots it reads.
 * Prefill attends everything; a selector may observe that attention through its probe. cache.c calls a selector over
 * the whole cache (own = 1: the token's own slot is the region's last) or over the pinned prefix of a cascade (own =
 * 0); observe_recovery.c runs selectors beside full attention.
 *
 *     select_sift.c      at every step, by scanning a low-bit sketch of the keys
 *     select_refresh.c   now and then, by the probabilities of one token; recycled
 *     select_recent.c    by place: streaming++
 *     select_predict.c   at every step, blocks that a network predicts from the attention of the tokens before
 *     select_quest.c     at every step, pages by the bounds of their keys
 *     select_snapkv.c    once, by the attention mass of the prefill's last tokens
 *     select_h2o.c       by the attention mass of all tokens or of the last: h2o, h2o+
 *     select_mass.c      that mass, for both
 *
 * What select() and seen() decide counts for their own step, and for later steps from end() on: a step that fails or is
 * rolled back never reaches end() and leaves no trace. */
#ifndef WEIR_SELECT_H
#define WEIR_SELECT_H

#include "engine/cache/kv_store.h"
#include "engine/cache/policy_def.h"

enum { SELECT_PARTS = 3 };

struct serializer;
struct step;
struct selector {
	const struct selector_ops *ops;
	const char *policy;  /* its name, for errors; borrowed */
	const void *par;     /* the policy's settings; borrowed */
	struct kv_store *kv; /* borrowed */
	int own;             /* the region's last slot is that of the token that selects; always selected */
	/* Set by init: so many tokens at the end of a prefill are observed. The step that ends a prefill should carry
	 * as many, and rewind() goes back far enough that it does. */
	int32_t tail;
	void *state;
};

/* How a layer got the entries of the last generated token. */
struct select_status {
	/* 1 a set was selected anew, 0 an older one served; -1 there are no sets that serve several tokens */
	int fresh;
	/* of the token's query with that of the last selection; -2: they were not compared */
	double cosine;
};

struct selector_ops {
	/* Bytes that init() takes for a region of cap slots. */
	uint64_t (*bytes)(const void *par, const struct hparams *, const struct backend *, int32_t cap);
	int (*init)(struct selector *, struct err *);
	void (*release)(struct selector *); /* also after a failed init */
	/* Slots slot0 .. slot0 + n of this layer were written: bring sketches and bounds up to date.  May be NULL. */
	void (*note)(struct selector *, int32_t layer, int32_t slot0, int32_t n);
	/* A generated token with rotated query q (raw: unrotated), both f32 [1][n_head * head_dim], is about to attend
	 * a region of n_slots: describe what it reads in part[] and return the number of parts, each with q as its
	 * queries. A part's selection, if it has one, stays the selector's until the next select() for a token with
	 * that st->index, and is made by kv_attend() or kv_select(). */
	int (*select)(struct selector *, const struct step *, int32_t layer, const struct tensor *q,
	              const struct tensor *raw, int32_t n_slots, struct attn_part part[SELECT_PARTS]);
	/* What to observe while the tokens of this step attend the region, or NULL.  The hook may be NULL itself. */
	const struct attn_probe *(*probe)(struct selector *, const struct step *, int32_t layer, int32_t n_slots);
	/* The tokens of this step have attended; q and raw have st->n rows.  May be NULL. */
	void (*seen)(struct selector *, const struct step *, int32_t layer, const struct tensor *q,
	             const struct tensor *raw, int32_t n_slots);
	/* The step's tokens (VERIFY: the first st->n of st->tried) are committed and the region has n_slots now. May be
	 * NULL. */
	void (*end)(struct selector *, const struct step *, int32_t n_slots);
	/* Only the first n tokens of the sequence are left. Returns from how many of them it can continue. n: a
	 * generated token may come next. Fewer: the tokens from there on have to be prefilled again, so that the
	 * selector observes the end of a prefill. */
	int32_t (*rewind)(struct selector *, int32_t n);
	/* How many generated tokens, the first of them at index pos with n_slots in its region, one VERIFY step can
	 * try: 1 or more. NULL: any number. */
	int32_t (*verify_most)(const struct selector *, int32_t pos, int32_t n_slots);
	/* How many tokens of a VERIFY step can attend in one call, the first with a region of n_slots: select() of
	 * each then comes before all of them attend, in order of st->index, and there is no probe() and no seen().
	 * NULL: 1. */
	int32_t (*together)(const struct selector *, int32_t n_slots);
	/* Entries of a KV head in a region of cap that a generated token reads at most, where all that it reads is one
	 * list, and nothing but a layer's queries and what lies beside its planes decides on it; 0 where the settings
	 * make it otherwise. Then planes can lie in host memory (kv_host.h). NULL: they cannot. */
	int32_t (*listed)(const void *values, int32_t cap);
	/* KV entries that a generated token reads of a region of n_slots, mean over the layers. */
	int32_t (*entries)(const struct selector *, int32_t n_slots);
	/* Bytes of entries, sketches and bounds that a generated token reads of a region of n_slots, on average, in the
	 * layers that it serves. */
	uint64_t (*read_bytes)(const struct selector *, int32_t n_slots);
	/* All its state for a region of n_slots beside sketches and bounds (serialize.h). Loading: rewind() follows a
	 * failure. NULL: nothing. */
	void (*archive)(struct selector *, struct serializer *, int32_t n_slots);
	/* What its selections depend on beside settings and KV entries, as a line of timeline_identity(). NULL:
	 * nothing. */
	void (*identity)(const struct selector *, struct str *out);
	/* How generated tokens read depends on how the prefill was cut into steps. NULL: only where the last step
	 * cannot carry `tail`. */
	int (*steps_matter)(const struct selector *);

	/* ---- for observers ---- */
	/* Slots of a region of n_slots that every generated token will read until the next prefill; as select(),
	 * without queries. NULL: each token reads its own. */
	int (*holds)(const struct selector *, int32_t layer, int32_t n_slots, struct attn_part part[SELECT_PARTS]);
	/* The attention mass of each slot, if the selector sums it in that layer; else NULL. */
	const float *(*sums)(const struct selector *, int32_t layer, int32_t head);
	/* A scan of a region of n_slots for the probabilities of a query, as precise as the selector's own; out is
	 * scratch.  NULL: the selector has no such scan. */
	struct scan_args (*scan)(const struct selector *, int32_t layer, const struct tensor *q, int32_t n_slots);
	/* In the step that runs this layer selected a set anew, or may have: what its token would have read of the
	 * older set. Returns the number of parts, 0: nothing was selected anew. NULL: there are no sets that serve
	 * several tokens. */
	int (*replaced)(const struct selector *, int32_t layer, const struct tensor *q, int32_t n_slots,
	                struct attn_part part[SELECT_PARTS]);
	/* Of the last committed step.  NULL: no sets, no comparisons. */
	struct select_status (*status)(const struct selector *, int32_t layer);
};

int select_open(struct selector *, const struct policy *, struct kv_store *, int own, struct err *);
void select_close(struct selector *);

/* ---- for selectors ---- */

/* A tensor of the backend; t is zeroed memory before and after. */
int select_alloc(const struct selector *, struct tensor *t, enum dtype, int64_t rows, int64_t cols, struct err *);
void select_drop(const struct selector *, struct tensor *t);
/* The first n columns of the first `rows` rows of an f32 tensor become 0. */
void select_zero(const struct selector *, struct tensor *t, int32_t rows, int32_t n);
/* Do generated tokens select in that layer? Not in one with a sliding window: no hook is called for it but rewind() and
 * archive(). */
static inline int select_serves(const struct selector *s, int32_t layer)
{
	return !layer_window(s->kv->hp, layer);
}
/* Everything, contiguously: the same bits as full attention. */
int select_whole(const struct tensor *q, int32_t n_slots, struct attn_part part[SELECT_PARTS]);
/* Bytes of so many KV entries, which need not be a whole number, in all layers that it serves. */
uint64_t select_entry_bytes(const struct selector *, double entries);
/* Entries of a region of n_slots that a generated token reads, mean over the layers: the first `dense` layers read it
 * whole, each other layer `some` entries. */
double select_mean(const struct selector *, int32_t dense, double some, int32_t n_slots);
/* The most entries that k can come to in a region of cap. */
int32_t select_most(struct entry_count k, int32_t cap);
/* Share n_layer * mean entries among layers in proportion to spread[], each within mean / 4 .. 3 * mean and at most
 * `most` (the region). spread NULL: evenly. */
void select_split(int32_t *k, const double *spread, int32_t n_layer, int32_t mean, int32_t most);
/* How many tokens from index pos on one VERIFY step can try so that a token whose (index + 1 - start) is a multiple of
 * `every` comes last. */
int32_t select_until(int32_t pos, int32_t start, int32_t every);

/* Sets of slots that serve several steps, one per layer. A new one serves its own step, and is kept by
 * picks_commit(). */
struct pick {
	struct tensor slots; /* i32 [n_kv_head][most] */
	int32_t at, k;       /* the region's slots when it was selected (0: there is no set), slots in it */
};
struct picks {
	struct pick (*slot)[2]; /* [n_layer]: slot[layer][cur[layer]] is in use, the other one is being selected */
	uint8_t *cur, *fresh;   /* [n_layer]; fresh: the other one replaces it at the end of the step */
	uint8_t *was_fresh;     /* [n_layer] of the last committed step */
	int32_t n_layer;
};
uint64_t picks_bytes(const struct hparams *, int32_t most);
int picks_init(struct picks *, const struct selector *, int32_t most, struct err *);
void picks_release(struct picks *, const struct selector *);
/* A step comes to a layer: nothing is fresh, unless an earlier token of the same VERIFY step made it so. */
void picks_enter(struct picks *, const struct step *, int32_t layer);
/* The set in use; at = 0: there is none. */
static inline struct pick *picks_get(struct picks *p, int32_t layer)
{
	return &p->slot[layer][p->cur[layer] ^ p->fresh[layer]];
}
/* The set in use before this step. */
static inline const struct pick *picks_old(const struct picks *p, int32_t layer)
{
	return &p->slot[layer][p->cur[layer]];
}
/* Start a new set of this layer, which serves from now on: its slots are the caller's to fill. */
struct pick *picks_new(struct picks *, int32_t layer, int32_t at, int32_t k);
/* The same, but whether it serves is not known yet: fresh[layer] is the caller's to set before picks_commit(). */
struct pick *picks_spare(struct picks *, int32_t layer, int32_t at, int32_t k);
/* The step is committed.  A set goes whose token was rolled back. */
void picks_commit(struct picks *, const struct step *);
/* Forget the sets selected over more than n slots (0: all). */
void picks_forget(struct picks *, int32_t n);
void picks_archive(struct picks *, const struct selector *, struct serializer *);

/* ---- settings that several selectors have; PAR is the settings struct ---- */

#define COUNT_MOST     1e9
#define REFRESH_GROUPS "max|mean|first"
#define REFRESH_SCANS  "k|kv"
#define PARAM_K(PAR, preset_)                                                                                          \
	{                                                                                                              \
		"k", PARAM_COUNT, offsetof(PAR, k), 1, COUNT_MOST, NULL, preset_,                                      \
			"KV entries that a generated token reads per KV head"                                          \
	}
#define PARAM_STRIDE(PAR, preset_)                                                                                     \
	{                                                                                                              \
		"stride", PARAM_INT, offsetof(PAR, stride), 1, COUNT_MOST, NULL, preset_,                              \
			"tokens between two selections"                                                                \
	}
#define PARAM_POOL(PAR, help_)                                                                                         \
	{                                                                                                              \
		"pool", PARAM_ODD, offsetof(PAR, pool), 1, 63, NULL, "7", help_                                        \
	}
#define PARAM_DENSE(PAR, preset_)                                                                                      \
	{                                                                                                              \
		"dense", PARAM_INT, offsetof(PAR, dense), 0, 1000, NULL, preset_, "first layers that read everything"  \
	}

#endif
