/* engine/observe/observe.h (private to engine/) - observers that record attention while a sequence is computed. The
 * cache calls them (engine/cache/observer.h). observe_panel.c records figures for the cache view, such as the share of
 * attention on selected entries. observe_evidence.c records on which tokens an answer is based, or the attention of one
 * token in one layer. engine/lab has two more observers. */
#ifndef WEIR_OBSERVE_H
#define WEIR_OBSERVE_H

#include "engine/cache/cache.h"
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
	struct kv_store *kv; /* store of the cache, borrowed; NULL: the struct is closed */
	/* f32 [n_kv_head][most]: the memory of the tensor `seen`. The size `most` is the result of kv_read_most(). */
	struct tensor mass;
	/* f32 [n_kv_head][n_col or more]: shares of attention from the last token_attention_take() or
	 * token_attention_recall() */
	struct tensor seen;
	/* f32 [1][n_head * head_dim] each. `q` has copies of the last token's query, one for each RoPE rotation with
	 * which the query is used in met->seg[]. `out` is scratch memory. */
	struct tensor q[1 + RINGS_MOST], out;
	/* `layer` is the layer of the last token_attention_take(). n_col is the number of slots that the token read
	 * there. Each of these slots is a column of `seen`. */
	int32_t layer, n_col;
	/* the first n_region columns are selected entries or, in a bounded cache, entries of the pinned prefix */
	int32_t n_region;
	float *share; /* [most] shares of one head's attention, by column */
	/* [most] for each column, the token whose entry is in the slot; -1: the slot has no token's entry */
	int32_t *token;
	struct reading *met; /* the segments (ranges or lists of slots) that the token read */
};
/* Open for a cache. Returns 0, or -1 (ERR_FIT) if memory is short. After an error, t is closed. */
int token_attention_open(struct token_attention *, struct cache *, struct err *);
void token_attention_close(struct token_attention *);
/* Compute the attention of the step's last token again, and record its probabilities in t->mass. If segments of the
 * token's reading have predicates, the flags are read from the backend or, if `flag` is not NULL, taken to have the
 * value *flag. */
void token_attention_take(struct token_attention *, const struct attention *, const int32_t *flag);
/* A copy in host memory of the results of token_attention_take(). The copy is made within the step, so that the host
 * need not wait for the device when it reads the results later. Initialise the struct with zeros, which means that
 * nothing is allocated yet. */
struct token_kept {
	struct tensor mass, list[READ_SEGMENTS]; /* copies of token_attention.seen and of lists of slots */
	struct reading met;
	int32_t layer, n_col;
	struct predicate when; /* the copy is valid only if this predicate is true */
};
/* Copy the results of token_attention_take() to host memory. If memory is short, the backend's next sync() reports the
 * error. The results are valid if the predicate `when` is true. */
void token_attention_keep(const struct token_attention *, struct token_kept *, struct predicate when);
/* Let token_attention_head() read this copy until the next token_attention_take(). Return 1, or 0 if the copy is not
 * valid. Call this function after the step, when no call of the backend is pending. */
int token_attention_recall(struct token_attention *, const struct token_kept *);
void token_kept_drop(const struct token_attention *, struct token_kept *);
/* Read the attention of one KV head from the backend: set the n_col elements of share[] to the shares of attention,
 * averaged over the head's query heads. If with_tokens is 1, also set token[]. */
void token_attention_head(struct token_attention *, const struct attention *, int32_t head, int with_tokens);

/* ---- the cache view's observer ---- */

struct observe_panel;
struct observe_panel *observe_panel_open(struct cache *);
void observe_panel_close(struct observe_panel *);
/* Let the next steps measure the share of attention on the selected entries in a few layers. Each call continues with
 * the layers after those of the last call. If slots > 0, also measure the shares on the pinned prefix and on each
 * ring, and the attention mass of tokens. `slots` is the number of slots that a token reads. The larger this number,
 * the fewer layers are measured. */
void observe_panel_measure(struct observe_panel *, int32_t slots);
/* Return the number of slots from which the last decoded token selected, or 0 if no token has selected anything since
 * the last prefill. */
int32_t observe_panel_region(const struct observe_panel *);
struct attn_segment;
/* Set *seg to the segments (ranges or lists of slots) that the last decoded token selected in a layer. Return the
 * number of these segments. */
int observe_panel_segments(const struct observe_panel *, int32_t layer, const struct attn_segment **seg);
/* Scan all keys for the scan's query. Return the probability that falls on the slots of these segments (ranges or lists
 * of slots), averaged over the query heads. Return -1 if the backend failed. */
double observe_panel_share_on(struct observe_panel *, const struct scan_args *, const struct attn_segment *, int n_seg);
/* Return the share of attention on the selected entries, averaged over the layers measured since the last prefill.
 * Return -1 if no layer was measured. If several tokens use one selection, the share is measured just before the
 * selection is replaced. */
double observe_panel_share(const struct observe_panel *);
/* A selector may add a random sample of the entries that it did not select, to estimate their share of attention.
 * Return the size of the sample per KV head, or 0 if there is none. Set *spread to the standard error of the estimate,
 * or to -1 if it is unknown. */
int32_t observe_panel_sample(const struct observe_panel *, double *spread);
/* Return in how many layers the last token made a new selection, or -1 if the selector makes a new selection for every
 * token. Set *cosine to the similarity between the token's query and the query of the last selection, averaged over the
 * layers, or to -2 if the two queries were not compared. */
int32_t observe_panel_fresh(const struct observe_panel *, double *cosine);
/* Get the shares of attention on the pinned prefix (share[0]) and on each ring, averaged over the measured layers.
 * Returns the number of these layers. */
int32_t observe_panel_regions(const struct observe_panel *, float share[1 + RINGS_MOST]);
/* Get the attention mass of a layer, a running average over the measured tokens. There are *n cells. cell[i] is the
 * mass of the tokens from i << *shift to ((i + 1) << *shift) - 1. Returns 1, or 0 if the layer was not measured. */
int observe_panel_mass(const struct observe_panel *, int32_t layer, const float **cell, int32_t *n, int *shift);

/* ---- which tokens an answer rests on ---- */

struct observe_evidence;
int observe_evidence_open(struct observe_evidence **, struct cache *, struct err *);
void observe_evidence_close(struct observe_evidence *);
/* For each i < n, set out[i] to the evidence of token first + i, summed since the observer was opened. */
void observe_evidence_sums(const struct observe_evidence *, int32_t first, int32_t n, float *out);

/* Record the attention of each step's last token in one layer and KV head, until observe_token_close(). If `head` is
 * -1, record the mean of all heads. For each i < n, p[i] is set to the share of attention on token i, or to -1 if the
 * step's token does not read token i. The caller owns p. Each step overwrites p. */
struct observe_token;
int observe_token_open(struct observe_token **, struct cache *, int32_t layer, int32_t head, float *p, int32_t n,
                       struct err *);
void observe_token_close(struct observe_token *);

#endif
