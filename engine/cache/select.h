/* engine/cache/select.h (private to engine/) - selection: which of the cached KV entries a decoded token reads.
 *
 * A selector selects from a *region*: slots 0 .. n - 1 of every KV head, where token i is in slot i and nothing is
 * evicted. The region is either the whole cache, whose last slot is then the slot of the decoded token itself (own =
 * 1), or the pinned prefix of a bounded cache (own = 0). Before a decoded token attends, select() names the slots that
 * it reads. Selection does not apply to prompt tokens, but a selector may observe their attention.
 *
 * Each selector is a file of engine/policies. select_sift.c, select_predict.c and select_quest.c select at every
 * token: by a scan of low-bit keys (key sketch), by a network that predicts attention, by bounds of keys.
 * select_refresh.c selects every few tokens, select_snapkv.c once after a prefill. select_h2o.c selects by attention
 * mass, select_recent.c by position.
 *
 * The running step may use a new selection at once. Later steps use it only after the commit, which calls end(); a
 * step that is rolled back leaves no trace. */
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
	/* 1: the last slot of the region is the slot of the decoded token itself; it is always selected */
	int own;
	/* Number of tokens at the end of a prefill whose attention the selector observes; set by init(). The last step
	 * of a prefill should have this many tokens. */
	int32_t tail;
	void *state;
};

/* How the slots that the last decoded token read in a layer were selected. */
struct select_status {
	/* 1: the token made a new selection; 0: it used the selection of an earlier token; -1: the selector selects for
	 * each token */
	int fresh;
	/* cosine between the query of the token and the query of the last selection; -2: not compared */
	double cosine;
	/* generated tokens, and the selections that the layer made for them, since the selector was opened */
	int64_t tokens, selections;
};

struct selector_ops {
	/* Return the bytes that init() allocates for a region of cap slots. */
	uint64_t (*bytes)(const void *par, const struct hparams *, const struct backend *, int32_t cap);
	int (*init)(struct selector *, struct err *);
	void (*release)(
		struct selector *); /* free what init() allocated; also called after a failed init(); may be NULL */
	/* Update key sketches and bounds after keys were written to slots slot0 .. slot0 + n - 1 of the layer. May be
	 * NULL. */
	void (*note)(struct selector *, int32_t layer, int32_t slot0, int32_t n);
	/* List in part[] which of the first n_slots slots a decoded token reads, as ranges or lists of slots. Return
	 * the number of parts. q, raw: the token's query after and before RoPE, f32 [1][n_head * head_dim]; q must be
	 * the query of every part. A part may leave its selection to kv_attend() or kv_select(). The selected slots
	 * must stay valid until the next select() with the same st->index. */
	int (*select)(struct selector *, const struct step *, int32_t layer, const struct tensor *q,
	              const struct tensor *raw, int32_t n_slots, struct attn_part part[SELECT_PARTS]);
	/* Return the probe (recorder of attention weights) that records how this step's tokens attend to the first
	 * n_slots slots; NULL: none. The function pointer may be NULL, too. */
	const struct attn_probe *(*probe)(struct selector *, const struct step *, int32_t layer, int32_t n_slots);
	/* Called after the attention of the step's tokens. q, raw: queries of these tokens after and before RoPE,
	 * st->n rows. May be NULL. */
	void (*seen)(struct selector *, const struct step *, int32_t layer, const struct tensor *q,
	             const struct tensor *raw, int32_t n_slots);
	/* Commit the first st->n tokens of the step. In a VERIFY step st->tried is the number of drafted tokens.
	 * n_slots: number of slots to select from. May be NULL. */
	void (*end)(struct selector *, const struct step *, int32_t n_slots);
	/* Roll back to the first n tokens. Return n if the next token may be decoded. Otherwise return m < n: the
	 * tokens from index m on must be prefilled again, because the selector has to observe the end of a prefill. */
	int32_t (*rewind)(struct selector *, int32_t n);
	/* Return the maximum number of drafted tokens of a VERIFY step, at least 1. pos: index of the step's first
	 * token in the sequence; n_slots: number of slots from which that token selects. NULL: any number. */
	int32_t (*verify_most)(const struct selector *, int32_t pos, int32_t n_slots);
	/* Return how many drafted tokens of a VERIFY step can attend in one call. n_slots: number of slots from which
	 * the first of them selects. If the result is above 1, select() is called for all these tokens before any of
	 * them attends, and probe() and seen() are not called. NULL: the number is 1. */
	int32_t (*together)(const struct selector *, int32_t n_slots);
	/* Return the maximum number of entries per KV head that a decoded token selects from cap slots, if the selector
	 * can work with keys and values in host memory beside a GPU (kv_host.h); else 0. To do so, it must select one
	 * list per token, and read no keys or values for that. NULL: it cannot. */
	int32_t (*listed)(const void *values, int32_t cap);
	/* Return how many KV entries a decoded token reads of n_slots slots, as a mean over the layers. */
	int32_t (*entries)(const struct selector *, int32_t n_slots);
	/* Return the bytes of KV entries, key sketches and bounds that a decoded token reads of n_slots slots, in
	 * all layers except sliding-window layers. */
	uint64_t (*read_bytes)(const struct selector *, int32_t n_slots);
	/* Save or load the state for n_slots slots, without key sketches and bounds (serialize.h). rewind() is
	 * called after a failed load. NULL: no state. */
	void (*archive)(struct selector *, struct serializer *, int32_t n_slots);
	/* Append a line to the text of timeline_identity(). The line names what selections depend on besides settings
	 * and KV entries. NULL: there is nothing else. */
	void (*identity)(const struct selector *, struct str *out);
	/* 1 if selections depend on the steps into which the prefill was cut. NULL: only if the last step may have
	 * fewer than `tail` tokens. */
	int (*steps_matter)(const struct selector *);

	/* ---- for observers ---- */
	/* List which of n_slots slots every decoded token will read until the next prefill, as parts (ranges or lists
	 * of slots) without queries. NULL: each token makes a new selection. */
	int (*holds)(const struct selector *, int32_t layer, int32_t n_slots, struct attn_part part[SELECT_PARTS]);
	/* Return the attention mass of each slot; NULL if the selector does not sum it in that layer. The function
	 * pointer may be NULL, too. */
	const float *(*sums)(const struct selector *, int32_t layer, int32_t head);
	/* Return the arguments of a scan that estimates the attention scores of query q for n_slots slots, as precisely
	 * as the selector does. The caller may overwrite the scan's `out`. NULL: the selector scans nothing. */
	struct scan_args (*scan)(const struct selector *, int32_t layer, const struct tensor *q, int32_t n_slots);
	/* If the layer may have made a new selection in the running step, list in part[] the slots that the previous
	 * selection would have given the token. Return the number of parts; 0: the selection is not new. NULL: the
	 * selector uses each selection for one token only. */
	int (*replaced)(const struct selector *, int32_t layer, const struct tensor *q, int32_t n_slots,
	                struct attn_part part[SELECT_PARTS]);
	/* Return how entries were selected in the last committed step. NULL: there is nothing to report. */
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
/* 1 if decoded tokens select in that layer. 0 for a sliding-window layer. */
static inline int select_serves(const struct selector *s, int32_t layer)
{
	return !layer_window(s->kv->hp, layer);
}
/* List the first n_slots slots as one contiguous range, so that results are bit-identical to full attention. Returns
 * 1. */
int select_whole(const struct tensor *q, int32_t n_slots, struct attn_part part[SELECT_PARTS]);
/* Return the bytes of `entries` KV entries (a mean, maybe a fraction) in all layers except sliding-window layers. */
uint64_t select_entry_bytes(const struct selector *, double entries);
/* Return the mean number of entries that a decoded token reads in a layer. The first `dense` layers read all n_slots
 * slots, and all other layers read `some` entries. */
double select_mean(const struct selector *, int32_t dense, double some, int32_t n_slots);
/* Return the largest number of entries that setting k allows in a sequence of up to cap tokens. k is a number of
 * entries or a share of the sequence. */
int32_t select_most(struct entry_count k, int32_t cap);
/* Divide n_layer * mean entries among the layers in proportion to spread[], and write each layer's number to k[]. A
 * layer gets at least mean / 4 and at most 3 * mean entries, and not more than `most`, the number of slots. spread
 * NULL: all layers get the same number. */
void select_split(int32_t *k, const double *spread, int32_t n_layer, int32_t mean, int32_t most);
/* Return the maximum number of drafted tokens of a VERIFY step that begins at index pos. Every `every` tokens, counted
 * from index `start`, a token makes a new selection; such a token must be the last of its step. */
int32_t select_until(int32_t pos, int32_t start, int32_t every);

/* A set of selected slots that several tokens use, and the sets of all layers. The running step uses a new set at once;
 * only picks_commit() makes it the layer's set. */
struct pick {
	struct tensor slots; /* i32 [n_kv_head][most]: selected slots */
	/* at: number of slots from which the set was selected; 0: there is no set. k: number of slots in the set */
	int32_t at, k;
};
struct picks {
	/* [n_layer] two sets per layer: slot[layer][cur[layer]] is the committed set; the other element of slot[layer]
	 * is free for a new set */
	struct pick (*slot)[2];
	/* [n_layer]. cur: index of the committed set in slot[layer]; fresh = 1: the running step selected a new set,
	 * and a commit makes that set current */
	uint8_t *cur, *fresh;
	uint8_t *was_fresh; /* [n_layer] `fresh` of the last committed step */
	int32_t n_layer;
};
uint64_t picks_bytes(const struct hparams *, int32_t most);
int picks_init(struct picks *, const struct selector *, int32_t most, struct err *);
void picks_release(struct picks *, const struct selector *);
/* Begin a step in a layer: mark that the step has no new set of selected slots yet. In a VERIFY step, only the call for
 * the first drafted token has an effect. */
void picks_enter(struct picks *, const struct step *, int32_t layer);
/* Return the set that the running token uses; at = 0: there is none. */
static inline struct pick *picks_get(struct picks *p, int32_t layer)
{
	return &p->slot[layer][p->cur[layer] ^ p->fresh[layer]];
}
/* Return the set that was current before this step. */
static inline const struct pick *picks_old(const struct picks *p, int32_t layer)
{
	return &p->slot[layer][p->cur[layer]];
}
/* Start a new set of selected slots for this layer; the running step already uses it. The caller fills in the
 * slots. */
struct pick *picks_new(struct picks *, int32_t layer, int32_t at, int32_t k);
/* Start a new set of selected slots without using it yet. To use it, the caller sets fresh[layer] to 1 before
 * picks_commit(). */
struct pick *picks_spare(struct picks *, int32_t layer, int32_t at, int32_t k);
/* Commit the step. A new set of slots is dropped if the token that selected it is not committed. */
void picks_commit(struct picks *, const struct step *);
/* Discard the sets that were selected from more than n slots. n = 0 discards all sets. */
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
#define PARAM_POOL(PAR, preset_, help_)                                                                                \
	{                                                                                                              \
		"pool", PARAM_ODD, offsetof(PAR, pool), 1, 63, NULL, preset_, help_                                    \
	}
#define PARAM_DENSE(PAR, preset_)                                                                                      \
	{                                                                                                              \
		"dense", PARAM_INT, offsetof(PAR, dense), 0, 1000, NULL, preset_, "first layers that read everything"  \
	}

#endif
