/* engine/cache/select.h (private to engine/) - selection: which of the cached KV entries a decoded token reads.
 *
 * A selector works on a *region* of the store: slots 0 .. n of every KV head, in which slot i holds token i, rotated
 * at position i, and nothing is ever evicted. Before a decoded token attends, select() names the slots that it reads.
 * Prefill attends to everything; a selector may observe that attention through its probe.
 *
 * cache.c calls a selector over the whole cache (own = 1: the token's own slot is the last of the region), or over
 * the pinned prefix of a cascade (own = 0). observe_recovery.c runs selectors beside full attention.
 *
 *     select_sift.c      at every step, by scanning a low-bit sketch of the keys
 *     select_refresh.c   now and then, by the attention probabilities of one token; also `recycled`
 *     select_recent.c    by position: streaming++
 *     select_predict.c   at every step, blocks that a network predicts from the attention of earlier tokens
 *     select_quest.c     at every step, pages by bounds of their keys
 *     select_snapkv.c    once, by the attention mass of the prefill's last tokens
 *     select_h2o.c       by the attention mass of all tokens (h2o), or of the last tokens (h2o+)
 *     select_mass.c      attention mass for snapkv, h2o and predict
 *
 * Decisions of select() and seen() are provisional until end(). A step that fails or is rolled back never reaches
 * end(), so it leaves no trace. */
#ifndef WEIR_SELECT_H
#define WEIR_SELECT_H

#include "engine/cache/kv_store.h"
#include "engine/cache/policy_def.h"

enum { SELECT_PARTS = 3 };

struct serializer;
struct step;
struct selector {
	const struct selector_ops *ops;
	const char *policy;  /* policy's name, for errors; borrowed */
	const void *par;     /* policy's settings; borrowed */
	struct kv_store *kv; /* borrowed */
	int own;             /* 1: the region's last slot is the token's own slot, which is always selected */
	/* Tokens at the end of a prefill that the selector observes; set by init. The last step of a prefill should
	 * have as many tokens, and rewind() goes back far enough for that. */
	int32_t tail;
	void *state;
};

/* Where the entries came from that the last decoded token read in a layer. */
struct select_status {
	/* 1: a new set was selected; 0: an earlier token's set was reused; -1: the selector never reuses sets */
	int fresh;
	/* cosine of the token's query with that of the last selection; -2: not compared */
	double cosine;
};

struct selector_ops {
	/* Bytes that init() allocates for a region of cap slots. */
	uint64_t (*bytes)(const void *par, const struct hparams *, const struct backend *, int32_t cap);
	int (*init)(struct selector *, struct err *);
	void (*release)(
		struct selector
			*); /* free the selector's resources; also called after a failed init; NULL if there are none */
	/* Update sketches and bounds for slots slot0 .. slot0 + n of the layer, which were written. May be NULL. */
	void (*note)(struct selector *, int32_t layer, int32_t slot0, int32_t n);
	/* Describe what a decoded token reads of a region of n_slots in part[]; return the number of parts. q is its
	 * rotated query, raw the unrotated one, both f32 [1][n_head * head_dim]. Each part has q as its queries. A
	 * part's selection, if any, is made by kv_attend() or kv_select(), and stays valid until the next select()
	 * for a token with the same st->index. */
	int (*select)(struct selector *, const struct step *, int32_t layer, const struct tensor *q,
	              const struct tensor *raw, int32_t n_slots, struct attn_part part[SELECT_PARTS]);
	/* The probe for the attention of this step over the region; NULL: none. The hook itself may be NULL. */
	const struct attn_probe *(*probe)(struct selector *, const struct step *, int32_t layer, int32_t n_slots);
	/* Called after the step's tokens have attended; q and raw have st->n rows. May be NULL. */
	void (*seen)(struct selector *, const struct step *, int32_t layer, const struct tensor *q,
	             const struct tensor *raw, int32_t n_slots);
	/* Commit the step's tokens (VERIFY: the first st->n of st->tried); the region has n_slots. May be NULL. */
	void (*end)(struct selector *, const struct step *, int32_t n_slots);
	/* Roll back to the first n tokens of the sequence. Returns how many tokens the selector can continue from. n:
	 * a token may be decoded next. Fewer: the tokens from there on must be prefilled again, so that the selector
	 * observes the end of a prefill. */
	int32_t (*rewind)(struct selector *, int32_t n);
	/* Most decoded tokens of one VERIFY step, at least 1. The first has index pos and n_slots in its region.
	 * NULL: any number. */
	int32_t (*verify_most)(const struct selector *, int32_t pos, int32_t n_slots);
	/* How many tokens of a VERIFY step can attend in one call; the first has a region of n_slots. Then select()
	 * is called for each token, in order of st->index, before all of them attend; probe() and seen() are not
	 * called. NULL: 1. */
	int32_t (*together)(const struct selector *, int32_t n_slots);
	/* Most entries per KV head that a decoded token reads of a region of cap, if it reads exactly one list, which
	 * depends only on the layer's queries and on data beside its planes. Then planes can be in host memory
	 * (kv_host.h). 0: the settings rule that out. NULL: the selector rules it out. */
	int32_t (*listed)(const void *values, int32_t cap);
	/* KV entries that a decoded token reads of a region of n_slots, mean over the layers. */
	int32_t (*entries)(const struct selector *, int32_t n_slots);
	/* Bytes of entries, sketches and bounds that a decoded token reads of a region of n_slots on average, in the
	 * layers that the selector serves. */
	uint64_t (*read_bytes)(const struct selector *, int32_t n_slots);
	/* Pass the state for a region of n_slots, except sketches and bounds, to the serializer. When loading,
	 * rewind() follows a failure. NULL: no state. */
	void (*archive)(struct selector *, struct serializer *, int32_t n_slots);
	/* Append what selections depend on, beside settings and KV entries, as a line of timeline_identity(). NULL:
	 * nothing. */
	void (*identity)(const struct selector *, struct str *out);
	/* 1 if what decoded tokens read depends on how the prefill was cut into steps. NULL: it does only if the last
	 * step cannot have `tail` tokens. */
	int (*steps_matter)(const struct selector *);

	/* ---- for observers ---- */
	/* Describe the slots of a region of n_slots that every decoded token will read until the next prefill, as
	 * select() does but without queries. NULL: each token selects for itself. */
	int (*holds)(const struct selector *, int32_t layer, int32_t n_slots, struct attn_part part[SELECT_PARTS]);
	/* The attention mass of each slot, if the selector sums it in that layer; else NULL. */
	const float *(*sums)(const struct selector *, int32_t layer, int32_t head);
	/* A scan of a region of n_slots for the probabilities of a query, as precise as the selector's own; its `out`
	 * is scratch. NULL: the selector has no such scan. */
	struct scan_args (*scan)(const struct selector *, int32_t layer, const struct tensor *q, int32_t n_slots);
	/* If this layer selected a new set in the running step, or may have: describe what the token would have read
	 * of the older set. Returns the number of parts; 0: nothing was selected anew. NULL: no sets that serve
	 * several tokens. */
	int (*replaced)(const struct selector *, int32_t layer, const struct tensor *q, int32_t n_slots,
	                struct attn_part part[SELECT_PARTS]);
	/* Status of the last committed step. NULL: no sets, no comparisons. */
	struct select_status (*status)(const struct selector *, int32_t layer);
};

int select_open(struct selector *, const struct policy *, struct kv_store *, int own, struct err *);
void select_close(struct selector *);

/* ---- for selectors ---- */

/* Allocate a tensor of the backend. On failure t is zeroed. */
int select_alloc(const struct selector *, struct tensor *t, enum dtype, int64_t rows, int64_t cols, struct err *);
void select_drop(const struct selector *, struct tensor *t);
/* Set the first n columns of the first `rows` rows of an f32 tensor to 0. */
void select_zero(const struct selector *, struct tensor *t, int32_t rows, int32_t n);
/* 1 if decoded tokens select in that layer. 0 for a sliding-window layer: of all hooks only rewind() and archive()
 * concern it. */
static inline int select_serves(const struct selector *s, int32_t layer)
{
	return !layer_window(s->kv->hp, layer);
}
/* Describe the whole region as one contiguous part, which gives the same bits as full attention. Returns 1. */
int select_whole(const struct tensor *q, int32_t n_slots, struct attn_part part[SELECT_PARTS]);
/* Bytes of `entries` KV entries, a mean that need not be whole, in all layers without a window. */
uint64_t select_entry_bytes(const struct selector *, double entries);
/* Entries that a decoded token reads of a region of n_slots, mean over the layers: the first `dense` layers read the
 * whole region, each other layer `some` entries. */
double select_mean(const struct selector *, int32_t dense, double some, int32_t n_slots);
/* Most entries that k can stand for in a region of cap. */
int32_t select_most(struct entry_count k, int32_t cap);
/* Share n_layer * mean entries among layers in proportion to spread[]. Each layer gets between mean / 4 and 3 * mean,
 * and at most `most` (the region). spread NULL: evenly. */
void select_split(int32_t *k, const double *spread, int32_t n_layer, int32_t mean, int32_t most);
/* Most tokens of a VERIFY step from index pos on, so that a token at which (index + 1 - start) is a multiple of
 * `every` comes last. */
int32_t select_until(int32_t pos, int32_t start, int32_t every);

/* Sets of slots that serve several steps, one set per layer. A new set serves the running step at once and is kept by
 * picks_commit(). */
struct pick {
	struct tensor slots; /* i32 [n_kv_head][most]: selected slots */
	int32_t at, k;       /* slots of the region when the set was selected, 0: no set; slots in the set */
};
struct picks {
	struct pick (*slot)[2]; /* [n_layer] slot[layer][cur[layer]] is in use, the other set is being selected */
	uint8_t *cur, *fresh;   /* [n_layer]; fresh = 1: the other set replaces the one in use at the end of the step */
	uint8_t *was_fresh;     /* [n_layer] `fresh` of the last committed step */
	int32_t n_layer;
};
uint64_t picks_bytes(const struct hparams *, int32_t most);
int picks_init(struct picks *, const struct selector *, int32_t most, struct err *);
void picks_release(struct picks *, const struct selector *);
/* Begin a step in a layer: nothing is fresh, unless an earlier token of the same VERIFY step selected. */
void picks_enter(struct picks *, const struct step *, int32_t layer);
/* The set that serves the running token; at = 0: no set. */
static inline struct pick *picks_get(struct picks *p, int32_t layer)
{
	return &p->slot[layer][p->cur[layer] ^ p->fresh[layer]];
}
/* The set that was in use before this step. */
static inline const struct pick *picks_old(const struct picks *p, int32_t layer)
{
	return &p->slot[layer][p->cur[layer]];
}
/* Start a new set of this layer, which serves at once. The caller fills its slots. */
struct pick *picks_new(struct picks *, int32_t layer, int32_t at, int32_t k);
/* Start a new set that may or may not serve: the caller sets fresh[layer] before picks_commit(). */
struct pick *picks_spare(struct picks *, int32_t layer, int32_t at, int32_t k);
/* Commit the step. A set is dropped if the token that selected it was rolled back. */
void picks_commit(struct picks *, const struct step *);
/* Discard the sets that were selected when the region had more than n slots. n = 0 discards all sets. */
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
