/* engine/observe/observe.h (private to engine/) - observers of the attention while a sequence is computed.
 *
 * What an observer is: engine/cache/observer.h.
 *
 *     observe_panel.c      what the cache view shows: entries that were selected, shares of attention by region
 *     observe_evidence.c   which tokens an answer rests on; one layer of one token, for pictures
 *     observe_recovery.c   how much of full attention selectors would have recovered
 *     observe_rows.c       rows of attention by blocks, to train a predictor on */
#ifndef WEIR_OBSERVE_H
#define WEIR_OBSERVE_H

#include "engine/cache/observer.h"
#include "kernels/backend.h"

struct cache;
struct kv_store;
struct policy;
struct qkv;
struct reading;
struct step;

void observer_add(struct observer **list, struct observer *);
void observer_remove(struct observer **list, struct observer *);

/* ---- the attention of a step's last token, told by tokens ---- */

struct token_attention {
	struct kv_store *kv;                  /* borrowed; NULL: closed */
	struct tensor mass;                   /* f32 [n_kv_head][most]: kv_read_most() */
	struct tensor q[1 + RINGS_MOST], out; /* f32 [1][n_head * head_dim] */
	int32_t layer, n_col;                 /* of the last token_attention_take() */
	/* of these columns: the first so many are slots of the region (selected ones, the pinned prefix) */
	int32_t n_region;
	float *share;        /* [most] what each column got from one head */
	int32_t *token;      /* [most] and which token is there; -1 = none */
	struct reading *met; /* the parts that were read */
};
/* ERR_FIT without memory; then it is closed. */
int token_attention_open(struct token_attention *, struct cache *, struct err *);
void token_attention_close(struct token_attention *);
/* The last token of the step attends once more. */
void token_attention_take(struct token_attention *, const struct attention *);
/* share[0 .. n_col) of one KV head (mean over its query heads); with tokens, token[] too. */
void token_attention_head(struct token_attention *, const struct attention *, int32_t head, int with_tokens);

/* ---- the cache view's observer ---- */

struct observe_panel;
struct observe_panel *observe_panel_open(struct cache *);
void observe_panel_close(struct observe_panel *);
/* Measure in the next few layers that come which share of attention was selected; and the shares of regions and the
 * mass of tokens, where a token reads `slots` slots (0: not these). */
void observe_panel_measure(struct observe_panel *, int32_t slots);
/* Slots of the region when the last generated token selected among them; 0: no token did since the last prefill. */
int32_t observe_panel_region(const struct observe_panel *);
/* What it read in that layer; returns the number of parts. */
struct attn_part;
int observe_panel_parts(const struct observe_panel *, int32_t layer, const struct attn_part **part);
/* Mean over the query heads of the probability that a scan finds on these parts; -1 = the backend told nothing. */
double observe_panel_share_on(struct observe_panel *, const struct scan_args *, const struct attn_part *, int n_part);
/* Share of the attention that the selected entries (or, of sets that serve several tokens, the replaced ones) got: mean
 * over the layers where it was measured since the last prefill; -1 = in none. */
double observe_panel_share(const struct observe_panel *);
/* Return the number of sampled entries per KV head, which stand for all entries that were not selected. *spread: one
 * standard error of the share of attention that the sample estimates; -1 = not known. */
int32_t observe_panel_sample(const struct observe_panel *, double *spread);
/* Layers that selected a set anew for the last token, -1 = there are no sets; similarity of queries, -2 = never
 * compared. */
int32_t observe_panel_fresh(const struct observe_panel *, double *cosine);
/* Shares of all attention on the pinned prefix [0] and each ring, mean over the layers that were measured; returns
 * their number. */
int32_t observe_panel_regions(const struct observe_panel *, float share[1 + RINGS_MOST]);
/* The attention mass of a layer, a running average over the tokens that were measured: cell[i] of n is that of the
 * tokens from i << *shift on. 1; 0: it has not been measured. */
int observe_panel_mass(const struct observe_panel *, int32_t layer, const float **cell, int32_t *n, int *shift);

/* ---- which tokens an answer rests on ---- */

struct observe_evidence;
int observe_evidence_open(struct observe_evidence **, struct cache *, struct err *);
void observe_evidence_close(struct observe_evidence *);
/* Sums of tokens first .. first + n. */
void observe_evidence_sums(const struct observe_evidence *, int32_t first, int32_t n, float *out);

/* One layer and KV head (-1: the mean of all) of the next generated token: p[i] = share of its attention on token i, n
 * of them. */
struct observe_token;
int observe_token_open(struct observe_token **, struct cache *, int32_t layer, int32_t head, float *p, int32_t n,
                       struct err *);
void observe_token_close(struct observe_token *);

/* ---- what selectors would have recovered ---- */

struct observe_recovery;
uint64_t observe_recovery_bytes(const struct cache *, const struct policy *, int n);
/* The cache reads everything; each policy has a selector (else ERR_USAGE). */
int observe_recovery_open(struct observe_recovery **, struct cache *, const struct policy *, int n, struct err *);
void observe_recovery_close(struct observe_recovery *);
/* Of policy i; -1: no such policy. */
int observe_recovery_get(const struct observe_recovery *, int i, struct recovered *);
int observe_recovery_ages(const struct observe_recovery *, int i, struct recovered_ages *);
int observe_recovery_layer(const struct observe_recovery *, int i, int32_t layer, struct recovered_layer *);
int64_t observe_query_cosine(const struct observe_recovery *, int32_t layer, double *cosine);

/* ---- rows of attention to train a predictor on ---- */

struct observe_rows;
/* block: entries of a column; last: tokens at the end of a prefill that get rows; most: rows altogether. The cache
 * reads everything. */
int observe_rows_open(struct observe_rows **, struct cache *, int32_t block, int32_t last, int32_t most, struct err *);
void observe_rows_close(struct observe_rows *);
struct rows_shape {
	int32_t block, rows, read; /* rows there are; the first so many are of a prefill */
	int32_t heads, per_layer;  /* KV heads of all observed layers, those of a layer together; and of one layer */
	int32_t first;             /* KV entries that row 0 attended to, each later row one more */
};
void observe_rows_shape(const struct observe_rows *, struct rows_shape *);
/* The largest probability of each block; the sum over each block, which rows of a prefill lack. */
const float *observe_rows_top(const struct observe_rows *, int32_t row, int32_t head);
const float *observe_rows_mass(const struct observe_rows *, int32_t row, int32_t head);

#endif
