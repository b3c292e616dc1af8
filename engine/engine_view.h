/* engine/engine_view.h - the door to what a KV cache holds and what is attended, for panels, pictures and evidence.
 *
 * All calls are for the thread that owns the timeline, between its other calls. They do not change results.
 *
 * In a bounded stream each pair of layer and KV head evicts by itself: a token is evicted when all pairs have evicted
 * its KV entry. */
#ifndef WEIR_ENGINE_VIEW_H
#define WEIR_ENGINE_VIEW_H

#include "engine/engine.h"

/* ---- movements in a bounded stream ---- */

enum slot_what { SLOT_ADMITTED, SLOT_MOVED, SLOT_EVICTED };
struct slot_event {
	enum slot_what what;
	int32_t token; /* index in the sequence */
	int32_t ring;  /* ring that the entry entered or, if evicted, left: 1 = the newest, up to RINGS_MOST */
	float share;   /* share of the pairs that did this in this call */
	float evicted; /* share of the pairs that have evicted the token so far */
	float mass;    /* attention mass, mean over the pairs of this event; 0 = the policy sums none */
};
/* Called after each call that changed slots, in the caller's thread; events are in no order. */
typedef void timeline_evictions_fn(const struct slot_event *, size_t n, void *ud);
/* Set the function that gets slot events; fn NULL = none. While everything fits, tokens are admitted only. */
void timeline_on_evictions(struct timeline *, timeline_evictions_fn *, void *ud);

/* ---- the cache view (timeline/view.c) ----
 *
 * A view shows the sequence in columns of equally many tokens. The first timeline_view() attaches an observer
 * (observe/observe_panel.c), which notes from then on what each generated token selects; so the first view shows no
 * selection. Each view makes the following calls measure shares of attention (now, recovered, estimated) in the next
 * few layers, once. */

enum { VIEW_COLS = 256, VIEW_LAYERS = 128, VIEW_EVICTED = 255 };
/* The meaning of `heat`. */
enum view_watched {
	VIEW_NONE,     /* nothing: attention is not observed */
	VIEW_MASS,     /* attention mass of the column's tokens, a running average that the policy sums */
	VIEW_MEASURED, /* the same, measured by the observer in some tokens, because the policy sums none */
	/* share of the KV heads that read the column's tokens for the last generated token; under h2o, h2o+ and
	 * snapkv for the next one */
	VIEW_SELECTED
};
struct cache_view {
	int32_t n_tokens;      /* tokens of the sequence */
	int32_t cols, per_col; /* column c is tokens c * per_col .. (c + 1) * per_col; the last may have fewer */
	int32_t pinned;        /* first tokens, never evicted; 0 if the policy evicts nothing */
	/* Share of the pairs of layer and KV head that keep the column's tokens: 255 = all pairs keep all tokens, 0 =
	 * all are evicted.
	 * Under h2o, h2o+ and snapkv, which retain everything: share of the pairs that read the tokens until the next
	 * prefill. */
	uint8_t kept[VIEW_COLS];
	uint8_t where
		[VIEW_COLS]; /* place of most of what is kept: 0 = pinned or no rings, 1 .. = ring, or VIEW_EVICTED */
	enum view_watched watched;        /* meaning of heat for tokens that are not pinned */
	enum view_watched watched_pinned; /* meaning for pinned tokens; a column with both kinds has the larger heat */
	int32_t n_layer;                  /* rows of heat: the layers, VIEW_LAYERS at most */
	/* 0 = nothing; h > 0 = 2^((h - 255) / 32) of the maximum, 1 = that or less. The maximum is 1 for
	 * VIEW_SELECTED; for VIEW_MASS and VIEW_MEASURED the largest value of any layer behind the first 4 tokens.
	 * Those are sinks with far more mass: they stop at 255. */
	uint8_t heat[VIEW_LAYERS][VIEW_COLS];
	float most; /* for attention mass: the maximum (mean over KV heads of a column's sum); else 0 */
	/* Shares of the observed attention mass, a running average over all layers: [0] on pinned tokens (on all
	 * tokens, if the policy never evicts), [i] on ring i. A stream's pinned tokens are not observed: share[0] =
	 * 0. All 0 = nothing is observed. */
	float share[1 + RINGS_MOST];
	/* Shares of the attention that the newest tokens of a bounded stream give: [0] to pinned tokens, [i] to ring i.
	 * Mean over the query heads of now_layers layers. Each view measures a few of these layers anew. */
	float now[1 + RINGS_MOST];
	int32_t now_layers; /* 0 = not measured yet */
	float sink;         /* part of share[0] on the first 4 tokens; -1 = unknown */
	/* KV entries per KV head that the last generated token read, mean over the layers (auto: among the pinned
	 * ones; h2o, h2o+, snapkv: that the next one will read); 0 = all, -1 = unknown. */
	int32_t selected;
	int32_t refreshed; /* layers that selected a new set for that token; -1 = unknown, or no such sets */
	float cosine; /* similarity of the queries that refresh compared last, mean over the layers; -2 = unknown */
	/* Shares of a generated token's attention (auto: of that on pinned tokens), mean over the query heads of the
	 * layers measured since the last prefill; -1 = unknown. */
	float recovered; /* refresh, recycled: on the old set when a layer selected a new one, by exact attention */
	float estimated; /* sift: on the selected entries, estimated by the key sketch */
	int32_t sampled; /* sift: entries per KV head that stand for those not selected; 0 = none */
	float spread;    /* sift: one standard error of the share that the sample gives, 1 - estimated; -1 = unknown */
	double seconds;  /* time that making this view took */
};
/* Fill *out with `cols` columns, 1 .. VIEW_COLS. A short sequence gets fewer. */
void timeline_view(struct timeline *, int32_t cols, struct cache_view *out);
/* Set out[i], for each i < n, to the share of the pairs of layer and KV head that keep token first + i, on the scale of
 * cache_view.kept; 0 = no such token. */
void timeline_kept(struct timeline *, int32_t first, int32_t n, uint8_t *out);

/* ---- attention of one token (observe/observe_evidence.c) ---- */

/* Append one token as if generated, and report its attention in one layer: p[i] is its share on token i, up to its
 * own index; mean over the query heads of one KV head (head = -1: of all KV heads). p[i] = -1: no head read token i.
 * ERR_USAGE: no such layer or head. */
int timeline_attention(struct timeline *, int32_t id, int32_t layer, int32_t head, float *p, struct err *err);

/* ---- evidence: which tokens an answer rests on (observe/observe_evidence.c) ---- */

/* Begin summing evidence, from 0. Until the end (or a change of policy) the last token of each prefill and every
 * generated token attend once more in the third quarter of the layers, odd and even layers in turn. A token's
 * evidence is the sum of the squares of its shares of attention, over attending tokens, layers and KV heads (mean of
 * the query heads): sharp attention counts, even attention counts little. A call that fails may have been counted in
 * part. */
int timeline_evidence_begin(struct timeline *, struct err *);
void timeline_evidence_end(struct timeline *);
/* Fill out[n] with the sums of tokens first .. first + n; 0 = no such token. */
void timeline_evidence(struct timeline *, int32_t first, int32_t n, float *out);

/* ---- how much of attention sift reads ---- */

/* Share of a generated token's attention (auto: of that on pinned tokens): mean over the query heads of the layers
 * measured since the last prefill. */
struct attention_read {
	int known;     /* 0 = not measured, or another policy */
	float exact;   /* share on the selected entries, estimated by the key sketch */
	float sampled; /* 1 - exact if a sample stands for the other entries; 0 = the other entries are not read */
	float spread;  /* one standard error of what the sample gives, as a share of all attention */
};
void timeline_attention_read(const struct timeline *, struct attention_read *out);
/* Measure it in the next few layers of the next token that is decoded alone. Costs one more scan of the key sketch
 * per layer. */
void timeline_attention_read_measure(struct timeline *);

#endif
