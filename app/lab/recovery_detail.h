/* app/lab/recovery_detail.h - inside app/lab: details of recovery: mass by the age of a set, selections by layer,
 * cosine of queries. Sums over windows, written to and read from stored results. */
#ifndef WEIR_EVAL_RECOVERY_DETAIL_H
#define WEIR_EVAL_RECOVERY_DETAIL_H

#include "engine/base/json.h"
#include "engine/lab/lab.h"

/* Sums of a policy whose selected sets serve several tokens (timeline_recovery_ages). */
struct set_sums {
	double age_mass[RECOVERY_AGES], age_n[RECOVERY_AGES];
	double *layer_n, *layer_selected; /* [n_layer]; NULL: nothing was added */
};
/* Write the members of a window's result into an open object; nothing if the policy's sets serve one token. */
void set_sums_write(const struct timeline *, int k, int32_t n_layer, struct str *out);
/* 1 if the members of a stored result are sound, or absent. */
int set_sums_sound(struct jv result, int32_t n_layer);
void set_sums_add(struct set_sums *, struct jv result, int32_t n_layer);
void set_sums_free(struct set_sums *);
/* Tokens between two selections, mean over the layers that have sets; 0: no layer has. */
double set_sums_stride(const struct set_sums *, int32_t n_layer);
/* Write "ages", the share recovered by the tokens since the selection, null for ages without a token; and "strides",
 * tokens between two selections by layer. */
void set_sums_json(const struct set_sums *, int32_t n_layer, struct str *out);

/* Sums of the cosine between queries of consecutive tokens (timeline_query_cosine). */
struct query_sums {
	double *cosine, *pairs;
}; /* [n_layer][n_head], [n_layer]; NULL: nothing was added */
void query_sums_write(const struct timeline *, int32_t n_layer, int32_t n_head, struct str *out);
int query_sums_sound(struct jv result, int32_t n_layer, int32_t n_head);
void query_sums_add(struct query_sums *, struct jv result, int32_t n_layer, int32_t n_head);
void query_sums_free(struct query_sums *);
/* Mean cosine of a layer; *low and *high: the extremes of its heads. NAN: the layer has no pairs. */
double query_sums_layer(const struct query_sums *, int32_t layer, int32_t n_head, double *low, double *high);
/* Write "cosine", by layer, then head; null for layers without pairs. */
void query_sums_json(const struct query_sums *, int32_t n_layer, int32_t n_head, struct str *out);

#endif
