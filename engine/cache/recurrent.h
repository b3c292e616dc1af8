/* engine/cache/recurrent.h (private to engine/) - layers that have a state of fixed size instead of a KV cache.
 *
 * A state summarises all earlier tokens: the last few inputs of a short convolution, or a matrix per head for the
 * delta rule and the state space. No token can be removed from a state. So a rollback needs older states:
 *
 *     the last step      a step writes the new states beside the old ones, and commit exchanges the two
 *     a VERIFY step      the inputs of its operations are kept; if only its first tokens are committed, their states
 *                        are computed again from these inputs
 *     other lengths      copies of the states, where prefills begin and end, and where one of the last messages ends
 *                        in a prefill; a rollback returns to the copy before its target and prefills the tokens between
 *
 * Number and bytes of copies are limited; the oldest are dropped first. */
#ifndef WEIR_RECURRENT_H
#define WEIR_RECURRENT_H

#include "engine/model/hparams.h"
#include "engine/cache/serialize.h"

enum { STATE_CONV, STATE_DELTA, STATE_PARTS };
static inline int32_t state_at(int32_t layer, int part)
{
	return layer * STATE_PARTS + part;
}

/* Inputs and outputs of a layer's operations in a VERIFY step, its tokens in the first rows. */
struct tried {
	struct tensor in, conv, alpha, beta, out;
	struct short_conv short_conv;
	struct delta_rule delta_rule;
	struct state_space state_space;
};

/* The states of all layers after `at` tokens, one after the other. */
struct state_copy {
	int32_t at;
	float *state;
};

struct recurrent {
	struct backend *be;
	const struct hparams *hp; /* the model; NULL: no layer has a state */
	/* f32 [n_layer * STATE_PARTS], indexed by state_at(); without data for parts that a layer does not have */
	struct tensor *now, *next;
	int32_t at; /* tokens that `now` covers */
	/* tokens that `next` covers, which is then the state before the last step; -1: a step is writing it */
	int32_t before;
	struct tried *tried;     /* [n_layer]; NULL before the first VERIFY step */
	int verifies;            /* 1: the running step is a VERIFY step of several tokens */
	struct state_copy *copy; /* [n_copy] ascending by `at`; room for `most` */
	int n_copy, most;
};

/* Bytes of the states of all layers. */
uint64_t recurrent_state_bytes(const struct hparams *);
/* Most bytes of the states, the states of the step before and all copies. */
uint64_t recurrent_bytes(const struct hparams *);
int recurrent_open(struct recurrent *, struct backend *, const struct hparams *, struct err *);
void recurrent_close(struct recurrent *);

/* Begin a step. verifies: a VERIFY step of several tokens, of which only some may be committed. */
void recurrent_begin(struct recurrent *, int verifies);
/* Run an operation of a layer. The caller leaves `state` and `next` of the operation unset; these functions set
 * them. */
void recurrent_short_conv(struct recurrent *, int32_t layer, struct short_conv *, int32_t n);
void recurrent_delta_rule(struct recurrent *, int32_t layer, struct delta_rule *, int32_t n);
void recurrent_state_space(struct recurrent *, int32_t layer, struct state_space *, int32_t n);
/* Commit the first n of the `tried` tokens of the running step. */
void recurrent_commit(struct recurrent *, int32_t n, int32_t tried);
/* Copy the current states. */
void recurrent_keep(struct recurrent *);
/* Roll back to the first n tokens, or if their states were not kept, to the nearest earlier states that were.
 * Return the number of tokens reached. */
int32_t recurrent_rewind(struct recurrent *, int32_t n);

/* Pass the states after n tokens to the serializer. */
void recurrent_archive(struct recurrent *, struct serializer *, int32_t n);
/* Pass the newest copies to the serializer: as many as fit SAVED_BYTES, but at least two. */
void recurrent_copies_archive(struct recurrent *, struct serializer *, int32_t total);

#endif
