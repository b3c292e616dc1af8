/* engine/cache/recurrent.h (private to engine/) - the state of layers that have one of fixed size instead of a KV
 * cache.
 *
 * A state is what a layer remembers of all tokens before: of a short convolution the last few of its inputs, of the
 * delta rule and of a state space a matrix for each head. No token can be removed from it. So a step writes the states
 * after it beside those before it, and commit exchanges the two: the last step can be rolled back. Of a VERIFY step
 * what the operations read is kept, and where only its first tokens stay, their states are computed from that. And
 * copies are kept of the states at the places to which sequences are rolled back: where prefills begin and end, and
 * where in a prefill one of the last messages ends. A rollback to another place goes to the copy before it, and the
 * tokens between are prefilled again.
 *
 * How many copies there are is limited by number and bytes; the oldest go first. */
#ifndef WEIR_RECURRENT_H
#define WEIR_RECURRENT_H

#include "engine/model/hparams.h"
#include "engine/cache/serialize.h"

enum { STATE_CONV, STATE_DELTA, STATE_PARTS };
static inline int32_t state_at(int32_t layer, int part)
{
	return layer * STATE_PARTS + part;
}

/* What the operations of a layer read and wrote in a VERIFY step, its tokens in the first rows. */
struct tried {
	struct tensor in, conv, alpha, beta, out;
	struct short_conv short_conv;
	struct delta_rule delta_rule;
	struct state_space state_space;
};

/* after `at` tokens; the states of all layers, one after the other */
struct state_copy {
	int32_t at;
	float *state;
};

struct recurrent {
	struct backend *be;
	const struct hparams *hp; /* the model; NULL: no layer has a state */
	/* [n_layer * STATE_PARTS], f32: state_at() of each layer; without data where a layer lacks a part, or has a KV
	 * cache. */
	struct tensor *now, *next;
	int32_t at; /* tokens before `now` */
	/* tokens before `next`, which is the state before the last step; -1: a step writes it */
	int32_t before;
	struct tried *tried;     /* [n_layer] of VERIFY steps; NULL: there was none */
	int verifies;            /* the running step is one of several tokens */
	struct state_copy *copy; /* ascending */
	int n_copy, most;
};

/* Bytes of the states of all layers; of all that recurrent_open() and its copies may take. */
uint64_t recurrent_state_bytes(const struct hparams *);
uint64_t recurrent_bytes(const struct hparams *);
int recurrent_open(struct recurrent *, struct backend *, const struct hparams *, struct err *);
void recurrent_close(struct recurrent *);

/* A step begins; verifies: a VERIFY step of several tokens, of which perhaps only the first will stay. */
void recurrent_begin(struct recurrent *, int verifies);
/* Run an operation of a layer, all but its states given. */
void recurrent_short_conv(struct recurrent *, int32_t layer, struct short_conv *, int32_t n);
void recurrent_delta_rule(struct recurrent *, int32_t layer, struct delta_rule *, int32_t n);
void recurrent_state_space(struct recurrent *, int32_t layer, struct state_space *, int32_t n);
/* The first n tokens stay of those that the running step tried. */
void recurrent_commit(struct recurrent *, int32_t n, int32_t tried);
/* Keep a copy of the states as they are. */
void recurrent_keep(struct recurrent *);
/* Forget what was computed behind the first n tokens. Returns how many are left: n, or as many as the nearest state
 * before it has. */
int32_t recurrent_rewind(struct recurrent *, int32_t n);

/* The states after n tokens; the copies, the oldest ones left out where they are large. */
void recurrent_archive(struct recurrent *, struct serializer *, int32_t n);
void recurrent_copies_archive(struct recurrent *, struct serializer *, int32_t total);

#endif
