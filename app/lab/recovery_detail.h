/* app/lab/recovery_detail.h - for app/lab only: more results of weir eval recovery, summed over windows: attention mass
 * by the age of a selection, number of selections by layer, cosine between queries. */
#ifndef WEIR_EVAL_RECOVERY_DETAIL_H
#define WEIR_EVAL_RECOVERY_DETAIL_H

#include "engine/base/json.h"
#include "engine/lab/lab.h"

/* Sums for a policy that uses each selection of KV entries (set) for several tokens (timeline_recovery_ages). */
struct set_sums {
	/* Sums for each age of a selection, which is the number of tokens since it was made. `age_mass` is the
	 * attention mass on the selection, summed over pairs of a token and a layer. `age_n` is the number of these
	 * pairs. */
	double age_mass[RECOVERY_AGES], age_n[RECOVERY_AGES];
	/* [n_layer] `layer_n` is the number of generated tokens. `layer_selected` is the number of those tokens for
	 * which the layer made a new selection. Both are NULL until a window is added. */
	double *layer_n, *layer_selected;
};
/* Write the sums of watched policy number k into `out`, the open JSON object of a window's result. Writes nothing if
 * the policy makes a new selection for every token. */
void set_sums_write(const struct timeline *, int k, int32_t n_layer, struct str *out);
/* 1 if a stored result has the members that set_sums_write() writes, with valid values, or has none of these
 * members. */
int set_sums_sound(struct jv result, int32_t n_layer);
/* Add the sums of a window's result. */
void set_sums_add(struct set_sums *, struct jv result, int32_t n_layer);
void set_sums_free(struct set_sums *);
/* Return the mean number of tokens between two selections, over all layers that use a selection more than once; 0 =
 * there is no such layer. */
double set_sums_stride(const struct set_sums *, int32_t n_layer);
/* Write two JSON members. "ages" lists, for each number of tokens since the selection, the share of the mass that is on
 * the selection; null = no token had this number. "strides" lists, for each layer, the number of tokens between two
 * selections. */
void set_sums_json(const struct set_sums *, int32_t n_layer, struct str *out);

/* Sums of the cosine between the queries of consecutive tokens (timeline_query_cosine). */
struct query_sums {
	/* For each layer and head, `cosine` has the sum of the cosines: cosine[n_layer][n_head]. `pairs` has the number
	 * of pairs of queries in each layer: pairs[n_layer]. Both are NULL until a window is added. */
	double *cosine, *pairs;
};
/* Write the sums of query cosines of one window as a JSON object. The timeline must have computed this window, and no
 * other. */
void query_sums_write(const struct timeline *, int32_t n_layer, int32_t n_head, struct str *out);
/* 1 if a stored object of query_sums_write() is valid. */
int query_sums_sound(struct jv result, int32_t n_layer, int32_t n_head);
/* Add the sums in `result`, a JSON object that query_sums_write() wrote and query_sums_sound() accepts. */
void query_sums_add(struct query_sums *, struct jv result, int32_t n_layer, int32_t n_head);
void query_sums_free(struct query_sums *);
/* Return the mean cosine between the queries of consecutive tokens in a layer, over all heads; NAN if the layer has no
 * pairs. *low and *high receive the smallest and largest mean of a single head. */
double query_sums_layer(const struct query_sums *, int32_t layer, int32_t n_head, double *low, double *high);
/* Write the JSON member "cosine". It has a list for each layer, with one value for each head. The list of a layer
 * without pairs is null. */
void query_sums_json(const struct query_sums *, int32_t n_layer, int32_t n_head, struct str *out);

#endif
