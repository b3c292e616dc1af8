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
	int32_t token; /* index of the token in the sequence */
	/* ring that the token entered; for an evicted token, the ring that it left. 1 = the ring of the newest
	 * tokens */
	int32_t ring;
	/* share of the pairs (layer, KV head) in which the event happened to this token during this engine call */
	float share;
	float evicted; /* share of the pairs (layer, KV head) that have evicted the token up to now */
	/* attention mass of the token, mean over the pairs (layer, KV head) in which the event happened; 0 = the policy
	 * does not sum attention mass */
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
/* What heat[] shows. */
enum view_watched {
	VIEW_NONE, /* nothing, because attention is not observed */
	VIEW_MASS, /* attention mass of the column's tokens: a running average, kept by the policy */
	/* attention mass of the column's tokens, measured only at some tokens, because the policy does not sum it */
	VIEW_MEASURED,
	/* Share of KV heads in which the last generated token read at least one token of the column. Under h2o, h2o+
	 * and snapkv: share of KV heads in which the next token will read at least one. */
	VIEW_SELECTED
};
struct cache_view {
	int32_t n_tokens; /* tokens of the sequence */
	/* `cols` is the number of columns, and `per_col` the number of tokens in a column. The first token of column c
	 * is c * per_col. The last column may have fewer tokens. */
	int32_t cols, per_col;
	int32_t pinned; /* number of first tokens that are never evicted; 0 = nothing is ever evicted */
	/* Share of the column's KV entries in all layers and KV heads that are not evicted: 255 = all, 0 = none. The
	 * policies h2o, h2o+ and snapkv evict nothing; for them it is the share that generated tokens will read until
	 * the next prefill. */
	uint8_t kept[VIEW_COLS];
	/* where the majority of the column's entries is: 0 = among the pinned tokens, or there are no rings; i > 0 = in
	 * ring i; VIEW_EVICTED = all entries are evicted */
	uint8_t where[VIEW_COLS];
	enum view_watched watched; /* what heat[] shows for tokens that are not pinned */
	/* What heat[] shows for pinned tokens. If only some tokens of a column are pinned, heat[] has the larger of the
	 * two values. */
	enum view_watched watched_pinned;
	int32_t n_layer; /* rows of heat[]: one per layer, at most VIEW_LAYERS */
	/* [layer][column] values on a logarithmic scale. 255 stands for the maximum, and 32 steps less for half as
	 * much, so v > 1 stands for 2^((v - 255) / 32) times the maximum. 0 stands for 0, and 1 for all positive values
	 * that are too small for this scale. For VIEW_SELECTED the maximum is 1. For attention mass it is the largest
	 * value in any layer, not counting the first 4 tokens. These are attention sinks with far more mass, and their
	 * values are limited to 255. */
	uint8_t heat[VIEW_LAYERS][VIEW_COLS];
	/* Shares of attention over all layers, as running averages: share[0] on pinned tokens, share[i] on ring i. If
	 * the policy evicts, attention on pinned tokens is not observed, and share[0] = 0. If it never evicts, share[0]
	 * is the share on all tokens. All 0 = nothing is observed. */
	float share[1 + RINGS_MOST];
	/* If the policy evicts: shares of the newest tokens' attention that fall on pinned tokens (now[0]) and on
	 * ring i (now[i]). Each share is the mean over the query heads of `now_layers` layers. Each call of
	 * timeline_view() lets a few layers be measured again. */
	float now[1 + RINGS_MOST];
	int32_t now_layers; /* number of measured layers; 0 = not measured yet */
	float sink;         /* the part of share[0] that falls on the first 4 tokens; -1 = unknown */
	/* Number of KV entries per KV head that the last generated token read, mean over the layers; 0 = all, -1 =
	 * unknown. Under `auto`, only entries of pinned tokens are counted. Under h2o, h2o+ and snapkv, it is the
	 * number that the next token will read. */
	int32_t selected;
	/* under the policies refresh and recycled: number of layers that made a new selection for the last generated
	 * token; -1 = unknown, or another policy */
	int32_t refreshed;
	/* under the policy refresh: cosine similarity of the newest query with the query of the last selection, mean
	 * over the layers; -2 = unknown */
	float cosine;
	/* The following members are shares of a generated token's attention. Under `auto`, only its attention on
	 * pinned tokens is counted. Each share is the mean over the query heads of the layers measured since the last
	 * prefill; -1 = unknown. */
	/* Under the policies refresh and recycled, share of attention on the previously selected entries, measured
	 * when a layer makes a new selection. */
	float recovered;
	/* under the policy sift: share of attention on the selected entries, estimated by the key sketch */
	float estimated;
	/* under the policy sift: number of entries per KV head in the random sample that stands for all entries not
	 * selected; 0 = no sample */
	int32_t sampled;
	/* under the policy sift: standard error of the share of attention on entries not selected, which is estimated
	 * from the sample; -1 = unknown */
	float spread;
	double seconds; /* seconds that making this view took */
};
/* Fill *out. cols: number of columns, 1 .. VIEW_COLS; a short sequence gets fewer. */
void timeline_view(struct timeline *, int32_t cols, struct cache_view *out);
/* Measure how rarely layers make a new selection under the policies refresh and recycled. Set stride[i], i < n, to
 * the mean number of generated tokens per selection of layer i since the timeline was opened; 0 = layer i has not
 * selected. Return the mean over the layers that have selected; 0 = there is no such layer, or the policy is another
 * one. */
double timeline_strides(const struct timeline *, float *stride, int32_t n);
/* Set out[i], i < n, to the share of token first + i's KV entries that are not evicted: 255 = all, 0 = none, or no such
 * token. */
void timeline_kept(struct timeline *, int32_t first, int32_t n, uint8_t *out);

/* ---- attention of one token (observe/observe_evidence.c) ---- */

/* Append token id as if it was generated. Set p[i] to the share of its attention in one layer that falls on token i,
 * for all tokens up to the new one. The share is the mean over the query heads of KV head `head`, or of all KV heads if
 * head = -1. p[i] = -1: no head read token i. ERR_USAGE: no such layer or head. */
int timeline_attention(struct timeline *, int32_t id, int32_t layer, int32_t head, float *p, struct err *err);

/* ---- evidence: which tokens an answer rests on (observe/observe_evidence.c) ---- */

/* Start to sum evidence, from 0, until timeline_evidence_end() or a change of policy. The measured tokens are the last
 * token of each prefill and every generated token. The evidence of token i is a sum of squares: the square of each
 * share of attention that a measured token gives to token i, in the measured layers and all their KV heads. Squares
 * favour sharp attention over attention spread over many tokens. The measured layers are every second layer of the
 * third quarter: the even ones for one token, the odd ones for the next. If an engine call fails, part of the attention
 * of its tokens may already be summed. */
int timeline_evidence_begin(struct timeline *, struct err *);
void timeline_evidence_end(struct timeline *);
/* Set out[i], i < n, to the evidence of token first + i; 0 = no such token. */
void timeline_evidence(struct timeline *, int32_t first, int32_t n, float *out);

/* ---- how much of attention sift reads ---- */

/* How a generated token's attention is divided under sift, between the entries that sift reads and all other entries.
 * Under `auto`, only attention on pinned tokens is counted. Each share is the mean over the query heads of the layers
 * measured since the last prefill. */
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
 * tokens). Costs one more scan of the key sketch per layer. */
void timeline_attention_read_measure(struct timeline *);

#endif
