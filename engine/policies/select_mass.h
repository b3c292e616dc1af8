/* engine/policies/select_mass.h (private to engine/policies/select_*.c) - selection by attention mass: each slot's
 * share of the attention of a step's tokens, observed by the backend while they attend, and the slots where it is
 * largest. */
#ifndef WEIR_SELECT_MASS_H
#define WEIR_SELECT_MASS_H

#include "engine/cache/select.h"

struct step_mass {
	struct tensor *score; /* [n_layer] f32 [n_kv_head][cap]: attention mass of this step's tokens */
	struct tensor *slots; /* [n_layer] i32 [n_kv_head][most]: selected, ascending */
	int32_t n, most;      /* slots selected in each layer and KV head; columns of slots[] */
	struct attn_probe probe;
	float *weight; /* [weight_cap]: of a token's attention */
	int32_t weight_cap;
	float *buf; /* [cap] */
};

uint64_t step_mass_bytes(const struct hparams *, struct entry_count k, int32_t cap);
int step_mass_init(struct step_mass *, const struct selector *, struct entry_count k, struct err *);
/* Also after a failed step_mass_init(). */
void step_mass_release(struct step_mass *, const struct selector *);
/* Observe the attention of the step's last `counted` tokens in cols columns of this layer. */
const struct attn_probe *step_mass_probe(struct step_mass *, const struct selector *, const struct step *,
                                         int32_t layer, int32_t counted, int32_t cols, enum reduce);
/* The mass of the first n columns in one KV head, on the host; valid until the next call. */
const float *step_mass_head(struct step_mass *, const struct selector *, int32_t layer, int32_t head, int32_t n);
/* Make x the mass of the first n columns in one KV head. */
void step_mass_set_head(struct step_mass *, const struct selector *, int32_t layer, int32_t head, const float *x,
                        int32_t n);
/* slots[layer] = those n of the first `columns` columns that have the largest mass, where a column counts as the
 * largest of its `pool` neighbours. */
void step_mass_select(struct step_mass *, const struct selector *, int32_t layer, int32_t columns, int32_t pool);
/* The n selected slots of one layer, of a region of n_slots. */
void step_mass_archive(struct step_mass *, const struct selector *, struct serializer *, int32_t layer,
                       int32_t n_slots);

#endif
