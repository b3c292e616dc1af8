/* engine/engine_view.h - interface to see what a KV cache holds and to what tokens attend. It is used for panels,
 * pictures and evidence.
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
	int32_t token; /* index of the token in the sequence */
	/* the ring that the token has entered; for an evicted token, the ring that it has left. Ring 1 has the newest
	 * tokens. */
	int32_t ring;
	/* share of the pairs (layer, KV head) in which this happened to the token during this engine call */
	float share;
	float evicted; /* share of the pairs (layer, KV head) that have evicted the token up to now */
	/* attention mass of the token, as a mean over the pairs (layer, KV head) in which the event happened; 0 = the
	 * policy does not sum attention mass */
	float mass;
};
/* Called after each engine call that has admitted, moved or evicted tokens, in the thread of that call. The order of
 * the events has no meaning. */
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
/* What the values of heat[] are. */
enum view_watched {
	VIEW_NONE, /* nothing, because attention is not observed */
	VIEW_MASS, /* attention mass of the column's tokens, as a running average that the policy computes */
	/* attention mass of the column's tokens, measured only at some tokens, because the policy does not sum it */
	VIEW_MEASURED,
	/* Share of KV heads in which the last generated token read at least one token of the column. Under h2o, h2o+
	 * and snapkv, it is the share of KV heads in which the next token will read at least one. */
	VIEW_SELECTED
};
struct cache_view {
	int32_t n_tokens; /* number of tokens of the sequence */
	/* `cols` is the number of columns, and `per_col` the number of tokens in a column. The first token of column c
	 * is c * per_col. The last column may have fewer tokens. */
	int32_t cols, per_col;
	int32_t pinned; /* number of tokens at the beginning that are never evicted; 0 = nothing is ever evicted */
	/* Share of the column's KV entries in all layers and KV heads that are not evicted: 255 = all, 0 = none. The
	 * policies h2o, h2o+ and snapkv evict nothing; for them it is the share that generated tokens will read until
	 * the next prefill. */
	uint8_t kept[VIEW_COLS];
	/* where the majority of the column's entries is: 0 = among the pinned tokens, or there are no rings; i > 0 = in
	 * ring i; VIEW_EVICTED = all entries are evicted */
	uint8_t where[VIEW_COLS];
	enum view_watched watched; /* what the values of heat[] are for tokens that are not pinned */
	/* What the values of heat[] are for pinned tokens. If only some tokens of a column are pinned, heat[] has the
	 * larger of the two values. */
	enum view_watched watched_pinned;
	int32_t n_layer; /* number of rows of heat[]: one per layer, but at most VIEW_LAYERS */
	/* [layer][column] values on a logarithmic scale. 255 stands for the maximum, and each 32 less stand for half as
	 * much. So v > 1 stands for 2^((v - 255) / 32) times the maximum. 0 stands for 0, and 1 for all positive values
	 * that are too small for this scale. For VIEW_SELECTED the maximum is 1. For attention mass it is the largest
	 * value in any layer, not counting the first 4 tokens. These are attention sinks with far more mass, and their
	 * values are limited to 255. */
	uint8_t heat[VIEW_LAYERS][VIEW_COLS];
	/* Shares of attention over all layers, as running averages: share[0] is on pinned tokens, share[i] on ring i.
	 * If the policy evicts, attention on pinned tokens is not observed, and share[0] = 0. If it never evicts,
	 * share[0] is the share on all tokens. All 0 = nothing is observed. */
	float share[1 + RINGS_MOST];
	/* If the policy evicts: the shares of the newest tokens' attention that are on pinned tokens (now[0]) and on
	 * ring i (now[i]). Each share is the mean over the query heads of `now_layers` layers. Each call of
	 * timeline_view() makes the engine measure a few layers again. */
	float now[1 + RINGS_MOST];
	int32_t now_layers; /* number of measured layers; 0 = not measured yet */
	float sink;         /* the part of share[0] that is on the first 4 tokens; -1 = unknown */
	/* Number of KV entries per KV head that the last generated token has read, as a mean over the layers; 0 = all,
	 * -1 = unknown. Under `auto`, only entries of pinned tokens are counted. Under h2o, h2o+ and snapkv, it is the
	 * number that the next token will read. */
	int32_t selected;
	/* under the policies refresh and recycled: number of layers that made a new selection for the last generated
	 * token; -1 = unknown, or another policy */
	int32_t refreshed;
	/* under the policy refresh: cosine similarity of the newest query with the query of the last selection, as a
	 * mean over the layers; -2 = unknown */
	float cosine;
	/* The following members are shares of a generated token's attention. Under `auto`, only its attention on
	 * pinned tokens is counted. Each share is the mean over the query heads of the layers that were measured since
	 * the last prefill; -1 = unknown. */
	/* Under the policies refresh and recycled: share of attention on the previously selected entries, measured when
	 * a layer makes a new selection. */
	float recovered;
	/* under the policy sift: share of attention on the selected entries, estimated by the key sketch */
	float estimated;
	/* under the policy sift: number of entries per KV head in the random sample that stands for all entries that
	 * are not selected; 0 = there is no sample */
	int32_t sampled;
	/* under the policy sift: standard error of the share of attention on the entries that are not selected, which
	 * is estimated from the sample; -1 = unknown */
	float spread;
	double seconds; /* number of seconds that it took to make this view */
};
/* Fill in *out. `cols` is the number of columns, from 1 to VIEW_COLS; a short sequence gets fewer. */
void timeline_view(struct timeline *, int32_t cols, struct cache_view *out);
/* Measure how rarely layers make a new selection under the policies refresh and recycled. Set stride[i], i < n, to
 * the mean number of generated tokens per selection of layer i since the timeline was opened; 0 = layer i has not
 * selected. Return the mean over the layers that have selected; 0 = there is no such layer, or the policy is another
 * one. */
double timeline_strides(const struct timeline *, float *stride, int32_t n);
/* Set out[i], i < n, to the share of KV entries of token first + i that are not evicted: 255 = all; 0 = none, or there
 * is no such token. */
void timeline_kept(struct timeline *, int32_t first, int32_t n, uint8_t *out);

/* ---- attention of one token (observe/observe_evidence.c) ---- */

/* Append token `id` as if it was generated. For all tokens i up to the new one, set p[i] to the share of the new
 * token's attention in one layer that is on token i. The share is the mean over the query heads of KV head `head`, or
 * of all KV heads if `head` is -1. If no head has read token i, p[i] is -1. The error is ERR_USAGE if there is no such
 * layer or head. */
int timeline_attention(struct timeline *, int32_t id, int32_t layer, int32_t head, float *p, struct err *err);

/* ---- evidence: which tokens an answer rests on (observe/observe_evidence.c) ---- */

/* Begin to sum evidence, from 0, until timeline_evidence_end() or a change of policy. The measured tokens are the last
 * token of each prefill and every generated token. The evidence of token i is a sum of squares: the square of each
 * share of attention that a measured token gives to token i, in the measured layers and all their KV heads. Squares
 * favour sharp attention over attention spread over many tokens. Of the third quarter of the layers, every second layer
 * is measured: the even layers for one token, the odd layers for the next. If an engine call fails, part of the
 * attention of its tokens may already be summed. */
int timeline_evidence_begin(struct timeline *, struct err *);
void timeline_evidence_end(struct timeline *);
/* Set out[i], i < n, to the evidence of token first + i; 0 if there is no such token. */
void timeline_evidence(struct timeline *, int32_t first, int32_t n, float *out);

/* ---- how much of attention sift reads ---- */

/* How a generated token's attention is divided under sift, between the entries that sift reads and all other entries.
 * Under `auto`, only attention on pinned tokens is counted. Each share is the mean over the query heads of the layers
 * that were measured since the last prefill. */
struct attention_read {
	int known;   /* 0 = not measured, or the policy does not use sift */
	float exact; /* share of attention on the selected entries, estimated by the key sketch */
	/* share of attention on the entries that are not selected, estimated by reading a sample of them; 0 = there is
	 * no sample */
	float sampled;
	float spread; /* standard error of the estimate `sampled` */
};
void timeline_attention_read(const struct timeline *, struct attention_read *out);
/* Measure struct attention_read in a few layers, for the next token that is decoded alone (not together with drafted
 * tokens). The measurement costs one more scan of the key sketch per layer. */
void timeline_attention_read_measure(struct timeline *);

#endif
