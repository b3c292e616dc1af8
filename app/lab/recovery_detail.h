/* app/lab/recovery_detail.h - inside app/lab: where a policy recovers and where not, and how queries change: sums over
 * windows, in and out of stored results. */
#ifndef WEIR_EVAL_RECOVERY_DETAIL_H
#define WEIR_EVAL_RECOVERY_DETAIL_H

#include "engine/base/json.h"
#include "engine/engine.h"

/* Of a policy whose sets serve several tokens (timeline_recovery_ages). */
struct set_sums {
	double age_mass[RECOVERY_AGES], age_n[RECOVERY_AGES];
	double *layer_n, *layer_selected; /* [n_layer]; NULL: nothing was added */
};
/* Members of a window's result, into an open object; nothing where the policy has no such sets. */
void set_sums_write(const struct timeline *, int k, int32_t n_layer, struct str *out);
/* Are the members of a stored result sound, or absent? */
int set_sums_sound(struct jv result, int32_t n_layer);
void set_sums_add(struct set_sums *, struct jv result, int32_t n_layer);
void set_sums_free(struct set_sums *);
/* Tokens between two selections, mean over the layers that have sets; 0: none has. */
double set_sums_stride(const struct set_sums *, int32_t n_layer);
/* "ages": the share recovered by the tokens since the selection, null where there was none; "strides": tokens a
 * selection, by layer. */
void set_sums_json(const struct set_sums *, int32_t n_layer, struct str *out);

/* How alike the queries of consecutive tokens are (timeline_query_cosine), by layer and query head. */
struct query_sums {
	double *cosine, *pairs;
}; /* [n_layer][n_head], [n_layer]; NULL: nothing was added */
void query_sums_write(const struct timeline *, int32_t n_layer, int32_t n_head, struct str *out);
int query_sums_sound(struct jv result, int32_t n_layer, int32_t n_head);
void query_sums_add(struct query_sums *, struct jv result, int32_t n_layer, int32_t n_head);
void query_sums_free(struct query_sums *);
/* Mean cosine of a layer; *low and *high: of its heads.  NAN: nothing is known of that layer. */
double query_sums_layer(const struct query_sums *, int32_t layer, int32_t n_head, double *low, double *high);
/* "cosine": by layer, then head; null where nothing is known. */
void query_sums_json(const struct query_sums *, int32_t n_layer, int32_t n_head, struct str *out);

#endif
