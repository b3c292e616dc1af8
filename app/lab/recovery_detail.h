/* app/lab/recovery_detail.h - for app/lab only: more figures of weir eval recovery, summed over windows: mass by the
 * age of a selection, selections by layer, cosine between queries. */
#ifndef WEIR_EVAL_RECOVERY_DETAIL_H
#define WEIR_EVAL_RECOVERY_DETAIL_H

#include "engine/base/json.h"
#include "engine/lab/lab.h"

/* Sums for a policy that uses one selection of KV entries (a set) for several tokens (timeline_recovery_ages). */
struct set_sums {
	/* by age: sums of the mass on the selection, and numbers of pairs (token, layer) in them */
	double age_mass[RECOVERY_AGES], age_n[RECOVERY_AGES];
	/* [n_layer] generated tokens, and those for which the layer selected anew; NULL: nothing was added */
	double *layer_n, *layer_selected;
};
/* Write the sums of watched policy k as members of the open JSON object `out`, a window's result. Writes nothing if the
 * policy selects anew at every token. */
void set_sums_write(const struct timeline *, int k, int32_t n_layer, struct str *out);
/* 1 if these members of a stored result are valid, or all absent. */
int set_sums_sound(struct jv result, int32_t n_layer);
/* Add the sums in a window's result. */
void set_sums_add(struct set_sums *, struct jv result, int32_t n_layer);
void set_sums_free(struct set_sums *);
/* Return the mean number of tokens between two selections, over all layers that reuse a selection; 0 if none does. */
double set_sums_stride(const struct set_sums *, int32_t n_layer);
/* Write two JSON members. "ages": the recovered share of the mass, by the number of tokens since the selection;
 * null = no such token. "strides": for each layer, the tokens between two selections. */
void set_sums_json(const struct set_sums *, int32_t n_layer, struct str *out);

/* Sums of the cosine between the queries of consecutive tokens (timeline_query_cosine). */
struct query_sums {
	double *cosine, *pairs; /* [n_layer][n_head], [n_layer]; NULL: nothing was added */
};
/* Write the sums of one window, whose timeline this is, as a JSON object. */
void query_sums_write(const struct timeline *, int32_t n_layer, int32_t n_head, struct str *out);
/* 1 if such an object that was stored is valid. */
int query_sums_sound(struct jv result, int32_t n_layer, int32_t n_head);
/* Add the sums of such an object. */
void query_sums_add(struct query_sums *, struct jv result, int32_t n_layer, int32_t n_head);
void query_sums_free(struct query_sums *);
/* Return the mean cosine of a layer, or NAN if it has no pairs. *low, *high: least and greatest mean of its heads. */
double query_sums_layer(const struct query_sums *, int32_t layer, int32_t n_head, double *low, double *high);
/* Write the JSON member "cosine": a list for each layer, with one value for each head; null if the layer has no
 * pairs. */
void query_sums_json(const struct query_sums *, int32_t n_layer, int32_t n_head, struct str *out);

#endif
