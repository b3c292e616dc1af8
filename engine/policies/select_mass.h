/* engine/policies/select_mass.h (private to engine/policies/select_*.c) - selection by attention mass, which is the sum
 * of the attention to a slot. While the attention of a step's tokens is computed, the backend sums it. The slots with
 * the largest sums are selected. */
#ifndef WEIR_SELECT_MASS_H
#define WEIR_SELECT_MASS_H

#include "engine/cache/select.h"

struct step_mass {
	struct tensor *score; /* [n_layer] f32 [n_kv_head][cap]: the memory of the tensors `sums` */
	/* [n_layer] f32 [n_kv_head][columns in use]: attention that each slot got from this step's tokens */
	struct tensor *sums;
	/* Used only with a GPU: [n_layer] copies of `sums` in host memory. They are made within the step, so that the
	 * host need not wait when it reads them. If the member `cols` of a copy is 0, this layer's sums were not
	 * copied. */
	struct tensor *host;
	struct tensor *slots; /* [n_layer] i32 [n_kv_head][most]: selected slots, ascending */
	/* `n` is the number of selected slots per layer and KV head, `most` the largest value that n can have */
	int32_t n, most;
	struct attn_probe probe;
	float *weight; /* [weight_cap] for each token of the step, 1 if its attention is summed, otherwise 0 */
	int32_t weight_cap;
	float *buf; /* [cap] mass of one head, on the host */
};

uint64_t step_mass_bytes(const struct hparams *, struct entry_count k, int32_t cap);
int step_mass_init(struct step_mass *, const struct selector *, struct entry_count k, struct err *);
/* Release everything. Also allowed after step_mass_init() has failed. */
void step_mass_release(struct step_mass *, const struct selector *);
/* Return a probe (recorder of attention) for one layer. The probe sums the attention of the step's last `counted`
 * tokens to the first `cols` slots that they read. Before the first of these tokens, all sums are 0. */
const struct attn_probe *step_mass_probe(struct step_mass *, const struct selector *, const struct step *,
                                         int32_t layer, int32_t counted, int32_t cols, enum reduce);
/* Return the tensor for the sums of a layer, with at least `cols` columns. Its values are undefined. */
struct tensor *step_mass_sums(struct step_mass *, int32_t layer, int32_t cols);
/* Copy the sums of a layer to host memory, so that step_mass_head() need not wait for the GPU. Call this function
 * within the step, after the sums were computed. With a CPU it does nothing. */
void step_mass_show(struct step_mass *, const struct selector *, int32_t layer);
/* Copy the first n sums of one KV head to the host, and return the copy. It is valid until the next call. */
const float *step_mass_head(struct step_mass *, const struct selector *, int32_t layer, int32_t head, int32_t n);
/* Overwrite the first n sums of one KV head with x[n]. */
void step_mass_set_head(struct step_mass *, const struct selector *, int32_t layer, int32_t head, const float *x,
                        int32_t n);
/* Select m->n of the first `columns` slots of a layer. First replace each sum by the largest sum among `pool` slots
 * around its slot (max pooling); then select the slots with the largest sums. */
void step_mass_select(struct step_mass *m, const struct selector *, int32_t layer, int32_t columns, int32_t pool);
/* Save or load the selected slots of one layer, for a cache of n_slots slots. */
void step_mass_archive(struct step_mass *, const struct selector *, struct serializer *, int32_t layer,
                       int32_t n_slots);

#endif
