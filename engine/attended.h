/* engine/attended.h (private to engine/) - which part of a bounded cache the attention falls on, measured for a panel.
 *
 * Scores that a stream keeps leave out the pinned rows, and are made for comparing: the heads of a group may be reduced by
 * their maximum.  So the last token of a call attends once more in a few layers, and all its probabilities are summed by
 * region: the mean over query heads is a true share, and the regions' shares sum to 1.  Each look asks for the next few
 * layers; what was not asked for costs nothing. */
#ifndef WEIR_ATTENDED_H
#define WEIR_ATTENDED_H

#include "engine/engine.h"
#include "engine/kv.h"

struct attended {
	struct kv *kv;                           /* borrowed; NULL: nobody has looked */
	int32_t next;                            /* the first layer that the next look asks for */
	struct tensor mass;                      /* f32 [n_kv_head][cap] */
	float *weight, *row;                     /* [chunk], [cap] */
	struct { double now[1 + RINGS_MOST], share[1 + RINGS_MOST]; int wanted; } *layer;   /* [n_layer]; [0] < 0: not known */
};

/* Someone looks: measure in calls to come.  rows: that a token reads; chunk: tokens of a call at most.  Without memory for
 * it nothing is measured, and the backend's next sync() says so. */
void attended_look(struct attended *, struct kv *, int32_t rows, int32_t chunk);
void attended_release(struct attended *);
static inline int attended_wants(const struct attended *a, int32_t layer) { return a->kv && a->layer[layer].wanted; }
/* Attend with the call's parts, whose choices are made by that, and note what the last of n tokens looked at.  rows: that each
 * region has among theirs, in the order 0 (pinned), RINGS_MOST .. 1 (the newest ring).  out is scratch. */
void attended_measure(struct attended *, int32_t layer, struct tensor *out, struct attn_part *, int32_t n_part, int32_t n,
                      const int32_t rows[1 + RINGS_MOST]);
/* The call succeeded; or nothing that was measured is so any more. */
void attended_commit(struct attended *);
void attended_forget(struct attended *);
/* Mean over the layers that have been measured; returns their number. */
int32_t attended_shares(const struct attended *, float share[1 + RINGS_MOST]);

#endif
