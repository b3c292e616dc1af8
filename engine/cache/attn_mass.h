/* engine/cache/attn_mass.h (private to engine/) - attention mass: the sum of the attention that each KV entry of a
 * bounded cache has received. When the rings are full, entries with little mass are evicted.
 *
 * The backend stores the sums of all entries in an array, f32 [heads][slots]. There are several such arrays. A step of
 * the model reads the current array and writes its new sums to another array; a step of drafted tokens writes one array
 * for each token. Committing the step makes the written array the current one, so a step that is rolled back changes
 * nothing. Up to MASS_POINTS older arrays are kept for rollbacks of committed tokens.
 *
 * The host has a copy of the sums in struct rings (rings.h). The copy is updated only when the host needs the sums. */
#ifndef WEIR_ATTN_MASS_H
#define WEIR_ATTN_MASS_H

#include "engine/cache/cache.h"
#include "engine/cache/rings.h"

/* maximum number of slots whose sums are compared when 16 tokens are inserted into the rings */
enum { MASS_FEW = 3 * 16 + 3 * RINGS_MOST };
enum { MASS_POINTS = 3, MASS_ARRAYS = 1 + MASS_POINTS + VERIFY_MOST };

struct serializer;
struct mass_point {
	int32_t t; /* number of tokens that the sums cover; -1 = the rollback point is unused */
	int32_t array;
	struct ema ema;
	float nll; /* the model's surprise (negative log-likelihood) at the last token that the sums cover */
};
struct attn_mass {
	struct backend *be; /* NULL: attention mass is not summed */
	struct rings *rings;
	struct tensor array[MASS_ARRAYS];
	/* `n_array` is the number of allocated arrays. `cap` is the number of slots for which each array has room. */
	int32_t n_array, cap;
	int32_t now; /* index of the current array */
	/* indices of the arrays of sums to which the current step writes: one per token in a VERIFY step (drafted
	 * tokens), otherwise only one */
	int32_t next[VERIFY_MOST];
	struct mass_point point[MASS_POINTS];
	int array_stale; /* 1: the host's sums are newer than array[now] */
	int sum_stale;   /* 1: array[now] is newer than the host's sums */
	float *swap;     /* [heads][slots] buffer for copies between host and backend */
	/* f32 [MASS_FEW][heads]: the sums that rings_insert() compares, in host memory. The first `shown` tokens that
	 * join the rings next have their sums there, because mass_show() has copied them; 0: no sums. */
	struct tensor few;
	int32_t shown;
	struct tensor move; /* i32 [heads][3 * MASS_FEW]: moves of sums between slots */
	int32_t *list;      /* host memory in which the contents of the tensor `move` are prepared */
};

/* Return the number of bytes of memory for rings of at most `slots` slots. */
uint64_t mass_bytes(int32_t heads, uint64_t slots);
int mass_init(struct attn_mass *, struct backend *, struct rings *, struct err *);
void mass_release(struct attn_mass *);
/* Forget all rollback points, and let the host's sums replace the backend's. Call this after the rings were reset or
 * the host changed its sums. */
void mass_reset(struct attn_mass *);

/* Prepare a step of n tokens, the first of which has the index `pos`. Set weight[i] to the factor by which the
 * attention of the i-th of these tokens is multiplied before it is summed (ema_weights()). The parameter `arrays` is
 * the number of arrays of sums that the step will write: n if the tokens are drafted (VERIFY), else 1. Return 0. Return
 * -1 if the step is cancelled, the backend has failed or memory is short. */
int mass_begin(struct attn_mass *, int32_t pos, int32_t n, int32_t arrays, float *weight);
/* Return the array of sums from which a step reads the sums before it adds the attention of its i-th token. The
 * parameter `index` is i, counted from 0. */
struct tensor *mass_from(struct attn_mass *, int32_t index);
/* Return the array of sums to which a step writes the sums after it has added the attention of its i-th token.
 * The parameter `index` is i, counted from 0. */
struct tensor *mass_to(struct attn_mass *, int32_t index);
/* Commit the first `arrays` arrays that the step has written: the last of these becomes the current array. */
void mass_commit(struct attn_mass *, int32_t arrays);
/* Within a step of one token: copy the sums that the step will have written, and that mass_read_back(n) will read, to
 * where the host can read them without waiting for a device. */
void mass_show(struct attn_mass *, int32_t n);
/* Copy to the host the sums that rings_insert() will compare when it inserts n tokens. Call this function before
 * rings_insert(). */
void mass_read_back(struct attn_mass *, int32_t n);
/* After rings_insert() has moved entries between slots, move their sums in the backend to the same slots. */
void mass_follow(struct attn_mass *);
/* Scale all sums down if the weights of the n tokens from index `pos` on would overflow a float. Call this between two
 * steps: otherwise mass_begin() scales them, and the step has to wait for that. Returns 0 or -1. */
int mass_scale(struct attn_mass *, int32_t pos, int32_t n);
/* 1 if mass_scale() with these arguments would scale the sums. */
int mass_must_scale(const struct attn_mass *, int32_t pos, int32_t n);

/* Keep the current sums, which cover t tokens, as rollback point i. `nll` is the model's surprise (negative
 * log-likelihood) at token t - 1. If the backend has failed or the call is cancelled, point i becomes unused. */
void mass_keep(struct attn_mass *, int i, int32_t t, float nll);
/* Keep the sums that the last VERIFY step has written for its drafted token number `index`: they become rollback point
 * i. Call this function directly after the commit of that step. The sums cover t tokens, and `nll` is the surprise at
 * token t - 1. */
void mass_keep_inner(struct attn_mass *, int i, int32_t t, float nll, int32_t index);
/* Make the sums of rollback point i current. */
void mass_restore(struct attn_mass *, int i);
/* Forget all rollback points whose sums cover more than t tokens. */
void mass_forget(struct attn_mass *, int32_t t);

/* Copy all sums to the host. Returns 0, or -1 if the backend has failed or the call is cancelled. */
int mass_read(struct attn_mass *);
/* Save or load all rollback points (serialize.h). slots[i] is the number of slots whose sums are saved for point i; all
 * later slots have the sum 0. */
void mass_points_archive(struct attn_mass *, struct serializer *, const int32_t slots[MASS_POINTS]);
/* Save or load the host's sums of the first `slots` slots (serialize.h). The sums of all other slots must be 0. */
void mass_archive(struct attn_mass *, struct serializer *, int32_t slots);

#endif
