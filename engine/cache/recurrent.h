/* engine/cache/recurrent.h (private to engine/) - layers that have a state of fixed size instead of a KV cache. A
 * state summarises all earlier tokens: the last few inputs of a short convolution, or a matrix per head (delta rule,
 * state space).
 *
 * No token can be removed from a state, so a rollback needs older states. A step writes the new states without
 * overwriting the old ones; a commit exchanges new and old states. If only some of the drafted tokens of a step are
 * committed, the states after the last committed token are computed again from inputs that the step kept. For other
 * rollbacks, states are copied where prefills begin and end. Such a rollback returns to the last copy before its
 * target, and the tokens between the copy and the target are prefilled again. The number and the bytes of the copies
 * are limited; the oldest copies are dropped first. */
#ifndef WEIR_RECURRENT_H
#define WEIR_RECURRENT_H

#include "engine/model/hparams.h"
#include "engine/cache/serialize.h"

/* The tensors of a layer's state. STATE_CONV has the inputs of a short convolution. STATE_DELTA has a matrix per head,
 * of the delta rule or of a state space. */
enum { STATE_CONV, STATE_DELTA, STATE_PARTS };
static inline int32_t state_at(int32_t layer, int part)
{
	return layer * STATE_PARTS + part;
}

/* The operations of a layer in a VERIFY step, with copies of their inputs and outputs. Row i of a copy belongs to
 * drafted token i. If only some of the drafted tokens are committed, these operations run again on the copies, to
 * compute the states after the committed tokens. */
struct tried {
	struct tensor in, conv, alpha, beta, out;
	struct short_conv short_conv;
	struct delta_rule delta_rule;
	struct state_space state_space;
};

/* Copy of the states of all layers after `at` tokens, in the order of the layers. */
struct state_copy {
	int32_t at;
	float *state;
};

struct recurrent {
	struct backend *be;
	const struct hparams *hp; /* the model; NULL: no layer has a state */
	/* f32 [n_layer * STATE_PARTS], indexed by state_at(). An element has no data if the layer does not have that
	 * tensor. */
	struct tensor *now, *next;
	int32_t at; /* number of tokens that the states in `now` summarise */
	/* Number of tokens that the states in `next` summarise. Between steps, `next` has the states from before the
	 * last step. -1: the states in `next` are not valid. */
	int32_t before;
	/* [n_layer] operations of each layer in the last VERIFY step; NULL before the first such step */
	struct tried *tried;
	int verifies;            /* 1: the current step is a VERIFY step of several tokens */
	struct state_copy *copy; /* [n_copy] copies in ascending order of `at`; there is room for `most` copies */
	int n_copy, most;
};

/* Return the size of the states of all layers, in bytes. */
uint64_t recurrent_state_bytes(const struct hparams *);
/* Return an upper limit of the size of all states, in bytes: current states, states before the last step, and
 * copies. */
uint64_t recurrent_bytes(const struct hparams *);
int recurrent_open(struct recurrent *, struct backend *, const struct hparams *, struct err *);
void recurrent_close(struct recurrent *);

/* Begin a step. `verifies` is 1 for a VERIFY step of several drafted tokens, of which the commit may keep only the
 * first few. */
void recurrent_begin(struct recurrent *, int verifies);
/* Run an operation of a recurrent layer on n tokens. The function sets the operation's fields `state` and `next`. */
void recurrent_short_conv(struct recurrent *, int32_t layer, struct short_conv *, int32_t n);
void recurrent_delta_rule(struct recurrent *, int32_t layer, struct delta_rule *, int32_t n);
void recurrent_state_space(struct recurrent *, int32_t layer, struct state_space *, int32_t n);
/* Commit the first n of the `tried` tokens of the current step. */
void recurrent_commit(struct recurrent *, int32_t n, int32_t tried);
/* Keep a copy of the current states. */
void recurrent_keep(struct recurrent *);
/* Roll back to the first n tokens, or to the largest smaller number of tokens whose states are still available. Returns
 * this number. */
int32_t recurrent_rewind(struct recurrent *, int32_t n);

/* Save or load the states after n tokens (serialize.h). */
void recurrent_archive(struct recurrent *, struct serializer *, int32_t n);
/* Save or load the newest copies: as many as fit 32 MiB, but at least two (serialize.h). */
void recurrent_copies_archive(struct recurrent *, struct serializer *, int32_t total);

#endif
