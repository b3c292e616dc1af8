/* engine/engine_view.h - interface to see what a KV cache holds and what tokens attend to: for panels, pictures,
 * evidence.
 *
 * Call these functions from the thread that owns the timeline, between its other calls. They do not change results.
 *
 * Each pair of layer and KV head evicts entries by itself. A token counts as evicted when all pairs have evicted its
 * entry. Policies that evict keep tokens in rings: ring 1 has the newest, later rings have older tokens (struct
 * ring_stats). */
#ifndef WEIR_ENGINE_VIEW_H
#define WEIR_ENGINE_VIEW_H

#include "engine/engine.h"

/* ---- movements of tokens, under policies that evict ---- */

enum slot_what { SLOT_ADMITTED, SLOT_MOVED, SLOT_EVICTED };
struct slot_event {
	enum slot_what what;
	int32_t token; /* index in the sequence */
	/* ring that the token entered or, if it was evicted, left; 1 = the ring of the newest tokens */
	int32_t ring;
	float share;   /* share of pairs (layer, KV head) in which the event happened during the call */
	float evicted; /* share of pairs that have evicted the token so far */
	/* attention mass of the token, mean over the pairs in which the event happened; 0 = the policy does not sum
	 * it */
	float mass;
};
/* Called after each engine call that admitted, moved or evicted tokens, in the thread of that call. The events are in
 * no particular order. */
typedef void timeline_evictions_fn(const struct slot_event *, size_t n, void *ud);
/* Set the function that is called with slot events; NULL = none. Until the cache is full, all events are
 * SLOT_ADMITTED. */
void timeline_on_evictions(struct timeline *, timeline_evictions_fn *, void *ud);

/* ---- the cache view (timeline/view.c) ----
 *
 * A view divides the sequence into columns of equally many tokens. What each generated token selects is recorded only
 * after the first timeline_view(), so the first view cannot show it. Shares of attention (now, recovered, estimated)
 * are measured after each view, in a few layers of the following steps. */

enum { VIEW_COLS = 256, VIEW_LAYERS = 128, VIEW_EVICTED = 255 };
/* The meaning of `heat`. */
enum view_watched {
	VIEW_NONE, /* nothing: attention is not observed */
	VIEW_MASS, /* attention mass of the column's tokens: a running average that the policy keeps */
	/* attention mass as in VIEW_MASS, but measured at only some of the tokens, because the policy does not sum
	 * it */
	VIEW_MEASURED,
	/* share of KV heads that read the column's tokens when the last token was generated. Under h2o, h2o+ and
	 * snapkv: share of KV heads that will read them for the next token. */
	VIEW_SELECTED
};
struct cache_view {
	int32_t n_tokens; /* tokens of the sequence */
	/* column c has tokens c * per_col .. (c + 1) * per_col - 1; the last column may have fewer */
	int32_t cols, per_col;
	int32_t pinned; /* number of first tokens that are never evicted; 0 = nothing is ever evicted */
	/* Share of the column's KV entries, over all layers and KV heads, that are not evicted: 255 = all, 0 = none.
	 * Under h2o, h2o+ and snapkv nothing is evicted; there kept[] is the share that generated tokens read until the
	 * next prefill. */
	uint8_t kept[VIEW_COLS];
	/* where the largest part of the column's entries is: 0 = pinned or no rings; i > 0 = ring i; VIEW_EVICTED =
	 * all are evicted */
	uint8_t where[VIEW_COLS];
	enum view_watched watched; /* meaning of heat[] for tokens that are not pinned */
	/* Meaning of heat[] for pinned tokens. If some tokens of a column are pinned and some are not, heat[] has the
	 * larger of the two values. */
	enum view_watched watched_pinned;
	int32_t n_layer; /* rows of heat[]: one per layer, at most VIEW_LAYERS */
	/* Logarithmic scale: the value is 2^((h - 255) / 32) times the maximum. h = 1: it may also be smaller; h = 0:
	 * it is 0. For VIEW_SELECTED the maximum is 1. For attention mass it is the largest value in any layer, apart
	 * from the first 4 tokens: these are attention sinks with far more mass, and their h is limited to 255. */
	uint8_t heat[VIEW_LAYERS][VIEW_COLS];
	/* Running average of attention over all layers, as shares: share[0] on pinned tokens, share[i] on ring i. If
	 * nothing is ever evicted, share[0] is the share on all tokens. If the policy evicts, attention on pinned
	 * tokens is not observed, and share[0] = 0. All 0 = nothing is observed. */
	float share[1 + RINGS_MOST];
	/* If the policy evicts: shares of the newest tokens' attention, now[0] on pinned tokens, now[i] on ring i. Mean
	 * over the query heads of now_layers layers; each view measures some layers again. */
	float now[1 + RINGS_MOST];
	int32_t now_layers; /* 0 = not measured yet */
	float sink;         /* the part of share[0] that falls on the first 4 tokens; -1 = unknown */
	/* Number of KV entries per KV head that the last generated token read, mean over the layers; 0 = all, -1 =
	 * unknown. auto: only entries of pinned tokens are counted. h2o, h2o+, snapkv: the number that the next token
	 * will read. */
	int32_t selected;
	/* policies refresh and recycled: number of layers that selected anew for the last generated token; -1 =
	 * unknown, or another policy */
	int32_t refreshed;
	/* policy refresh: cosine similarity of the newest query with the query of the last selection, mean over the
	 * layers; -2 = unknown */
	float cosine;
	/* The shares below are shares of the attention of a generated token (auto: of its attention on pinned tokens).
	 * They are means over the query heads of the layers measured since the last prefill; -1 = unknown. */
	/* refresh, recycled: share on the previously selected entries, measured when a layer selects anew */
	float recovered;
	float estimated; /* sift: share on the selected entries, estimated by the key sketch */
	/* sift: number of sampled entries per KV head, which stand for all entries not selected; 0 = no sample */
	int32_t sampled;
	float spread;   /* sift: standard error of the share that the sample estimates; -1 = unknown */
	double seconds; /* seconds that making this view took */
};
/* Fill *out, with `cols` columns (1 .. VIEW_COLS) or fewer if the sequence is short. */
void timeline_view(struct timeline *, int32_t cols, struct cache_view *out);
/* refresh, recycled: set stride[i], i < n, to the mean number of generated tokens per selection of layer i since the
 * timeline was opened; 0 = the layer has selected nothing. Return the mean over all layers that have selected; 0 = none
 * has, or another policy. */
double timeline_strides(const struct timeline *, float *stride, int32_t n);
/* Set out[i], i < n, to the share of the KV entries of token first + i that are not evicted, coded as cache_view.kept
 * (255 = all, 0 = none). 0 = no such token. */
void timeline_kept(struct timeline *, int32_t first, int32_t n, uint8_t *out);

/* ---- attention of one token (observe/observe_evidence.c) ---- */

/* Append token id as if generated. Set p[i] to the share of its attention in one layer that token i gets, for all
 * tokens up to the new one. The share is the mean over the query heads of one KV head, or with head = -1 of all KV
 * heads. p[i] = -1: no head read token i. ERR_USAGE: no such layer or head. */
int timeline_attention(struct timeline *, int32_t id, int32_t layer, int32_t head, float *p, struct err *err);

/* ---- evidence: which tokens an answer rests on (observe/observe_evidence.c) ---- */

/* Start to sum evidence from 0, until timeline_evidence_end() or a change of policy. The evidence of token i is a sum
 * of squares: of each share of attention that token i gets, over measured tokens, layers and KV heads. Squares favour
 * sharp attention over attention spread over many tokens. Attention is measured for the last token of each prefill and
 * for every generated token, in the third quarter of the layers: for one token in the odd layers of this quarter, for
 * the next token in the even ones. If an engine call fails, part of the attention of its tokens may already be
 * summed. */
int timeline_evidence_begin(struct timeline *, struct err *);
void timeline_evidence_end(struct timeline *);
/* Set out[i], i < n, to the evidence of token first + i; 0 = no such token. */
void timeline_evidence(struct timeline *, int32_t first, int32_t n, float *out);

/* ---- how much of attention sift reads ---- */

/* Shares of a generated token's attention (auto: of its attention on pinned tokens). Mean over the query heads of the
 * layers measured since the last prefill. */
struct attention_read {
	int known;   /* 0 = not measured, or the policy does not use sift */
	float exact; /* share on the selected entries, estimated by the key sketch */
	/* share on the entries that are not selected (1 - exact), estimated by reading a sample of them; 0 = there is
	 * no sample */
	float sampled;
	float spread; /* standard error of `sampled`, which the sample estimates */
};
void timeline_attention_read(const struct timeline *, struct attention_read *out);
/* Measure the shares of struct attention_read, in a few layers of the next token that is decoded alone (not together
 * with drafted tokens). Costs one more scan of the key sketch per layer. */
void timeline_attention_read_measure(struct timeline *);

#endif
