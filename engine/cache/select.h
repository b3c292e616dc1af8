/* engine/cache/select.h (private to engine/) - selection: which of the cached KV entries a decoded token reads.
 *
 * A selector selects from a *region*: the first n slots of every KV head, where token i is in slot i and nothing is
 * evicted. The region is the whole cache (own = 1) or the pinned prefix of a bounded cache (own = 0). If it is the
 * whole cache, its last slot is the slot of the decoded token itself. Before the attention of a decoded token is
 * computed, select() lists the slots that the token reads. Selection does not apply to prompt tokens, but a selector
 * may observe their attention.
 *
 * Each selector is a file of engine/policies. Three of them select at every token: select_sift.c by a scan of low-bit
 * keys (key sketch), select_predict.c by a network that predicts attention, select_quest.c by bounds of keys.
 * select_refresh.c selects every few tokens, select_snapkv.c once after a prefill. select_h2o.c selects by attention
 * mass, select_recent.c by position.
 *
 * The current step may use a new selection at once. Later steps use it only after the commit, which calls end(); a step
 * that is rolled back leaves no trace. */
#ifndef WEIR_SELECT_H
#define WEIR_SELECT_H

#include "engine/cache/kv_store.h"
#include "engine/cache/policy_def.h"

enum { SELECT_SEGMENTS = 3 };

struct serializer;
struct step;
struct selector {
	const struct selector_ops *ops;
	const char *policy;  /* name of the policy, for error messages; borrowed */
	const void *par;     /* the policy's settings; borrowed */
	struct kv_store *kv; /* borrowed */
	/* 1: the region ends with the decoded token's own slot, which is always selected */
	int own;
	/* Set by init(): the number of tokens at the end of a prefill whose attention the selector observes. The last
	 * step of a prefill should have at least this many tokens. */
	int32_t tail;
	void *state;
};

/* How a layer selected the slots that the last decoded token read. */
struct select_status {
	/* 1: the token made a new selection; 0: it used the selection of an earlier token; -1: the selector selects for
	 * each token */
	int fresh;
	/* cosine between the query of the token and the query of the last selection; -2: the queries were not
	 * compared */
	double cosine;
	/* `tokens` is the number of tokens generated since the selector was opened. `selections` is the number of these
	 * tokens for which the layer made a new selection. */
	int64_t tokens, selections;
};

struct selector_ops {
	/* Return the bytes that init() allocates for a region of cap slots. */
	uint64_t (*bytes)(const void *par, const struct hparams *, const struct backend *, int32_t cap);
	int (*init)(struct selector *, struct err *);
	void (*release)(
		/* free what init() allocated; also called after a failed init(); the pointer may be NULL */
		struct selector *);
	/* Update key sketches and bounds after keys were written to n slots of the layer, from slot0 on. The pointer to
	 * this function may be NULL. */
	void (*note)(struct selector *, int32_t layer, int32_t slot0, int32_t n);
	/* List in seg[] which of the first n_slots slots a decoded token reads, as ranges or lists of slots. Return the
	 * number of these segments. `q` is the token's query after RoPE and `raw` its query before RoPE, f32 [1][n_head
	 * * head_dim]. Set the member `q` of every segment to the argument q. The slots of a list may be selected
	 * later, by kv_attend() or kv_select(). All lists must stay valid until the next select() with the same
	 * st->index. */
	int (*select)(struct selector *, const struct step *, int32_t layer, const struct tensor *q,
	              const struct tensor *raw, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS]);
	/* Return the probe (recorder of attention weights) that records how this step's tokens attend to the first
	 * n_slots slots, or NULL. The pointer to this function may be NULL, too. */
	const struct attn_probe *(*probe)(struct selector *, const struct step *, int32_t layer, int32_t n_slots);
	/* Called after the attention of the step's tokens. `q` has the tokens' queries after RoPE and `raw` their
	 * queries before RoPE, st->n rows each. The pointer to this function may be NULL. */
	void (*seen)(struct selector *, const struct step *, int32_t layer, const struct tensor *q,
	             const struct tensor *raw, int32_t n_slots);
	/* Commit the first st->n of the step's st->tried tokens. n_slots is the number of slots of the region, from
	 * which the selector selects. The pointer to this function may be NULL. */
	void (*end)(struct selector *, const struct step *, int32_t n_slots);
	/* Called after a prefill; n is the number of tokens of the sequence. Return how many of the newest tokens the
	 * model must repeat so that the selector observes the repetition, or 0. If the result is not 0, the caller
	 * repeats these tokens in steps with step.repeated > 0, and rolls each step back. probe() is called for these
	 * steps. At the end the caller calls repeated(), unless a step fails. The pointers may be NULL. */
	int32_t (*repeat)(struct selector *, int32_t n);
	void (*repeated)(struct selector *);
	/* Roll back to the first n tokens. Return n if the next token may be decoded. Otherwise return a smaller number
	 * m: the caller must prefill the tokens from index m on again, because the selector has to observe the end of a
	 * prefill. */
	int32_t (*rewind)(struct selector *, int32_t n);
	/* Return the maximum number of drafted tokens of a VERIFY step, at least 1. `pos` is the index of the step's
	 * first token in the sequence. n_slots is the number of slots from which that token selects. If the pointer is
	 * NULL, any number is possible. */
	int32_t (*verify_most)(const struct selector *, int32_t pos, int32_t n_slots);
	/* Return for how many drafted tokens of a VERIFY step one call can compute the attention. n_slots is the number
	 * of slots from which the first of these tokens selects. If the function returns 2 or more, select() is called
	 * for all these tokens before the attention of any of them, and probe() and seen() are not called. If the
	 * pointer to this function is NULL, the attention of each token is computed by a call of its own. */
	int32_t (*together)(const struct selector *, int32_t n_slots);
	/* Return the maximum number of entries per KV head that a decoded token selects from cap slots, if the
	 * selector supports keys and values in host memory beside a GPU (kv_host.h). Such a selector makes one list
	 * of slots per token, and reads no keys or values to make it. Return 0 if the selector does not support this.
	 * A NULL pointer to this function means the same as 0. */
	int32_t (*listed)(const void *values, int32_t cap);
	/* Return how many of n_slots KV entries a decoded token reads, on average over the layers. */
	int32_t (*entries)(const struct selector *, int32_t n_slots);
	/* Return how many bytes a decoded token reads if there are n_slots slots: KV entries, key sketches and bounds
	 * of all layers except sliding-window layers. */
	uint64_t (*read_bytes)(const struct selector *, int32_t n_slots);
	/* Save or load the state for n_slots slots (serialize.h). Key sketches and bounds are not saved. After a failed
	 * load, rewind() is called. The pointer to this function is NULL if there is no state. */
	void (*archive)(struct selector *, struct serializer *, int32_t n_slots);
	/* Append a line to the text of timeline_identity(). The line lists everything on which selections depend,
	 * except settings and KV entries. The pointer to this function is NULL if there is nothing to list. */
	void (*identity)(const struct selector *, struct str *out);
	/* 1 if selections depend on the size of prefill steps. If the pointer to this function is NULL, selections
	 * depend on this size only if the last step may have fewer than `tail` tokens. */
	int (*steps_matter)(const struct selector *);

	/* ---- for observers ---- */
	/* List the slots that every decoded token will read until the next prefill, as segments (ranges or lists of
	 * slots) without queries. n_slots is the number of slots of the region. The pointer to this function is NULL if
	 * each token makes a new selection. */
	int (*holds)(const struct selector *, int32_t layer, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS]);
	/* Return the attention mass of each slot in one KV head, or NULL if the selector does not sum attention in that
	 * layer. The pointer to this function may be NULL, too. */
	const float *(*sums)(const struct selector *, int32_t layer, int32_t head);
	/* Return the arguments of a scan that estimates the attention scores of query q for n_slots slots, with the
	 * precision that the selector uses. The caller may change the member `out` of the result. The pointer to this
	 * function is NULL if the selector scans nothing. */
	struct scan_args (*scan)(const struct selector *, int32_t layer, const struct tensor *q, int32_t n_slots);
	/* List in seg[] the slots that the token would have read by the previous selection, and return the number of
	 * segments. Return 0 if the layer cannot have made a new selection in the current step. The pointer to this
	 * function is NULL if each token makes a new selection. */
	int (*replaced)(const struct selector *, int32_t layer, const struct tensor *q, int32_t n_slots,
	                struct attn_segment seg[SELECT_SEGMENTS]);
	/* Return how entries were selected in the last committed step. The pointer to this function is NULL if there is
	 * nothing to report. */
	struct select_status (*status)(const struct selector *, int32_t layer);
};

int select_open(struct selector *, const struct policy *, struct kv_store *, int own, struct err *);
void select_close(struct selector *);

/* ---- for selectors ---- */

/* Allocate a tensor of the backend. On failure t is zeroed. */
int select_alloc(const struct selector *, struct tensor *t, enum dtype, int64_t rows, int64_t cols, struct err *);
/* Do what select_alloc() does, with host memory that the backend can access. */
int select_alloc_host(const struct selector *, struct tensor *t, enum dtype, int64_t rows, int64_t cols, struct err *);
void select_drop(const struct selector *, struct tensor *t);
/* Set the first n columns of the first `rows` rows of an f32 tensor to 0. */
void select_zero(const struct selector *, struct tensor *t, int32_t rows, int32_t n);
/* 1 if selection applies to this layer, that is, if it has no sliding window. */
static inline int select_serves(const struct selector *s, int32_t layer)
{
	return !layer_window(s->kv->hp, layer);
}
/* List the first n_slots slots as one range. Results then have the same bits as full attention. Returns 1, the number
 * of segments. */
int select_whole(const struct tensor *q, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS]);
/* Return the size of `entries` KV entries in all layers except sliding-window layers, in bytes. `entries` is a mean
 * over the layers, possibly not an integer. */
uint64_t select_entry_bytes(const struct selector *, double entries);
/* Return the mean number of entries that a decoded token reads in a layer. The first `dense` layers read all n_slots
 * slots, and each other layer reads `some` entries. */
double select_mean(const struct selector *, int32_t dense, double some, int32_t n_slots);
/* Return the maximum number of entries that the setting k selects in a sequence of up to cap tokens. k is a number of
 * entries or a share of the sequence. */
int32_t select_most(struct entry_count k, int32_t cap);
/* Divide n_layer * mean entries among the layers in proportion to spread[], and write each layer's number to k[]. A
 * layer gets at least mean / 4 and at most 3 * mean entries, but never more than `most`, the number of slots. If
 * `spread` is NULL, each layer gets `mean` entries. */
void select_split(int32_t *k, const double *spread, int32_t n_layer, int32_t mean, int32_t most);
/* Return the maximum number of tokens of a VERIFY step that begins at index pos of the sequence. The tokens at
 * indices start + every - 1, start + 2 * every - 1, and so on make a new selection. Such a token must be the last one
 * of its step. */
int32_t select_until(int32_t pos, int32_t start, int32_t every);

/* A set of selected slots that several tokens use. struct picks has the sets of all layers. A step uses a new set at
 * once, but the set becomes the layer's set only by picks_commit(). */
struct pick {
	struct tensor slots; /* i32 [n_kv_head][most]: selected slots */
	/* `at` is the number of slots from which the set was selected, or 0 if no set has been selected. `k` is the
	 * number of slots in the set. */
	int32_t at, k;
};
struct picks {
	/* [n_layer] two sets per layer: slot[layer][cur[layer]] is the committed set, the other one is free for a new
	 * set */
	struct pick (*slot)[2];
	/* [n_layer] cur[layer] is the index (0 or 1) of the layer's committed set. fresh[layer] is 1 if the current
	 * step has selected a new set for the layer. picks_commit() makes the new set the committed one. */
	uint8_t *cur, *fresh;
	uint8_t *was_fresh; /* [n_layer] value of `fresh` in the last committed step */
	int32_t n_layer;
};
uint64_t picks_bytes(const struct hparams *, int32_t most);
int picks_init(struct picks *, const struct selector *, int32_t most, struct err *);
void picks_release(struct picks *, const struct selector *);
/* Begin a step in a layer: the step has no new set of selected slots yet. For a VERIFY step this is called once per
 * drafted token; only the first call has an effect. */
void picks_enter(struct picks *, const struct step *, int32_t layer);
/* Return the set that the current token uses. If its member `at` is 0, no set has been selected. */
static inline struct pick *picks_get(struct picks *p, int32_t layer)
{
	return &p->slot[layer][p->cur[layer] ^ p->fresh[layer]];
}
/* Return the layer's set of selected slots that was committed before this step. */
static inline const struct pick *picks_old(const struct picks *p, int32_t layer)
{
	return &p->slot[layer][p->cur[layer]];
}
/* Start a new set of selected slots for this layer. The current step uses the set at once. The caller fills in the
 * slots. */
struct pick *picks_new(struct picks *, int32_t layer, int32_t at, int32_t k);
/* Set the members `at` and `k` of the layer's set that is not committed to the arguments, and return this set of
 * selected slots. The caller fills in the slots. The set is used only if the caller sets fresh[layer] to 1 before
 * picks_commit(). */
struct pick *picks_spare(struct picks *, int32_t layer, int32_t at, int32_t k);
/* Commit the step. If the token that selected a new set is not committed, the new set is dropped. */
void picks_commit(struct picks *, const struct step *);
/* Discard the sets that were selected from more than n slots. n = 0 discards all sets. */
void picks_forget(struct picks *, int32_t n);
void picks_archive(struct picks *, const struct selector *, struct serializer *);

/* ---- settings that several selectors have; PAR is the settings struct ---- */

#define COUNT_MOST 1e9
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
