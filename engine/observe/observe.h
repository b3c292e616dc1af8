/* engine/observe/observe.h (private to engine/) - observers of the attention while a sequence is computed.
 *
 * engine/cache/observer.h defines what an observer is.
 *
 *     observe_panel.c      figures of the cache view: selected entries, shares of attention by region
 *     observe_evidence.c   which tokens an answer rests on; the attention of one token in one layer
 *
 * engine/lab has two more, to compare selectors and to train the network of `predict`. */
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

/* ---- how much a step's last token attends to each earlier token ---- */

struct token_attention {
	struct kv_store *kv;                  /* borrowed; NULL: closed */
	struct tensor mass;                   /* f32 [n_kv_head][most]; most = kv_read_most() */
	struct tensor q[1 + RINGS_MOST], out; /* f32 [1][n_head * head_dim]: queries of the last token; scratch */
	int32_t layer, n_col; /* layer and columns (slots that were read) of the last token_attention_take() */
	/* leading columns that are slots of the region: selected entries, or the pinned prefix */
	int32_t n_region;
	float *share;        /* [most] share of one head's attention on each column */
	int32_t *token;      /* [most] token of each column; -1 = none */
	struct reading *met; /* parts that were read */
};
/* Open for a cache. Returns 0, or -1 (ERR_FIT) without memory, leaving t closed. */
int token_attention_open(struct token_attention *, struct cache *, struct err *);
void token_attention_close(struct token_attention *);
/* Compute the attention of the step's last token once more, this time recording its probabilities. */
void token_attention_take(struct token_attention *, const struct attention *);
/* Read share[0 .. n_col) of one KV head, mean over its query heads. with_tokens: also token[]. */
void token_attention_head(struct token_attention *, const struct attention *, int32_t head, int with_tokens);

/* ---- the cache view's observer ---- */

struct observe_panel;
struct observe_panel *observe_panel_open(struct cache *);
void observe_panel_close(struct observe_panel *);
/* Let the next few layers measure what share of their attention the selected entries get. slots > 0 (the slots that a
 * token reads): also measure the share of each region and the attention mass of tokens. */
void observe_panel_measure(struct observe_panel *, int32_t slots);
/* Slots of the region when the last decoded token selected; 0: no token has selected since the last prefill. */
int32_t observe_panel_region(const struct observe_panel *);
/* Set *part to the parts of the region that the last decoded token read in a layer. Return the number of parts. */
struct attn_part;
int observe_panel_parts(const struct observe_panel *, int32_t layer, const struct attn_part **part);
/* Run a scan and return the probability of the entries in these parts, mean over the query heads; -1 = the backend
 * failed. */
double observe_panel_share_on(struct observe_panel *, const struct scan_args *, const struct attn_part *, int n_part);
/* Share of attention that the selected entries got, mean over the layers measured since the last prefill; -1 = none
 * measured. With sets that serve several tokens: the share of the set that was replaced. */
double observe_panel_share(const struct observe_panel *);
/* Return the number of sampled entries per KV head, which stand for all entries that were not selected. *spread:
 * standard error of the share of attention that the sample estimates; -1 = unknown. */
int32_t observe_panel_sample(const struct observe_panel *, double *spread);
/* Layers that selected a new set for the last token; -1 = the selector has no sets. *cosine: similarity of its query
 * to that of the last selection, mean over layers; -2 = never compared. */
int32_t observe_panel_fresh(const struct observe_panel *, double *cosine);
/* Shares of attention on the pinned prefix [0] and on each ring, mean over the measured layers. Returns their
 * number. */
int32_t observe_panel_regions(const struct observe_panel *, float share[1 + RINGS_MOST]);
/* The attention mass of a layer, a running average over the measured tokens: cell[i] of n is the mass of the 1 <<
 * *shift tokens from i << *shift on. Returns 1, or 0 if the layer was not measured. */
int observe_panel_mass(const struct observe_panel *, int32_t layer, const float **cell, int32_t *n, int *shift);

/* ---- which tokens an answer rests on ---- */

struct observe_evidence;
int observe_evidence_open(struct observe_evidence **, struct cache *, struct err *);
void observe_evidence_close(struct observe_evidence *);
/* out[i] = sum of token first + i. */
void observe_evidence_sums(const struct observe_evidence *, int32_t first, int32_t n, float *out);

/* Write the attention of the next decoded token, in one layer and KV head (-1: mean of all heads): p[i] = its share
 * on token i < n. p is borrowed until observe_token_close(). */
struct observe_token;
int observe_token_open(struct observe_token **, struct cache *, int32_t layer, int32_t head, float *p, int32_t n,
                       struct err *);
void observe_token_close(struct observe_token *);

#endif
