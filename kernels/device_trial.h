/* kernels/device_trial.h (private to kernels/) - a trial runs, on one backend, the operations that check a device. It
 * has the operands and results of these operations. It compares the results with those of another trial, the
 * reference. */
#ifndef WEIR_DEVICE_TRIAL_H
#define WEIR_DEVICE_TRIAL_H

#include <stddef.h>

#include "kernels/backend.h"

enum { RESULTS = 256, HELD = 48, VALUES = 1 << 18 };
/* NEAR is the limit of the normalised mean square error of results that differ by rounding. For comparison: the error
 * of products in f16 is about 1e-7. */
#define NEAR  1e-5
#define EXACT 0.0

struct result {
	char name[48];
	size_t at, n; /* the result is the n values from trial.value[at] on */
	double limit; /* largest allowed normalised mean square error */
};

/* A trial: the operands and results of one backend. */
struct trial {
	struct backend *be;
	uint64_t random;
	struct tensor held[HELD]; /* the tensors that trial_drop() drops */
	int n_held;
	void *bytes[HELD]; /* data of weights, freed by trial_drop() */
	struct result result[RESULTS];
	int n_results;
	float *value; /* [VALUES] */
	size_t n_values;
	/* the reference, with which the results of a device are compared; NULL: this trial is the reference */
	const struct trial *want;
	int rc; /* result of device_check() so far; if it is not 0, no more results are compared */
	char why[160];
};

/* Make an operand of random values from lo to hi (or of zeros if the type is not a weight type). The trial holds the
 * operand until trial_drop(). The trial of a device and its reference get the same values, because they draw the same
 * random numbers. */
struct tensor trial_tensor(struct trial *, enum dtype, int32_t rows, int32_t cols, float lo, float hi);
/* make an f32 operand of random values from -1 to 1 */
struct tensor trial_floats(struct trial *, int32_t rows, int32_t cols);
struct tensor trial_zeros(struct trial *, enum dtype, int32_t rows, int32_t cols);
/* Make an i32 operand with the values number[rows][cols]. */
struct tensor trial_numbers(struct trial *, int32_t rows, int32_t cols, const int32_t *number);
/* Make a weight as a model file stores it. The reference converts the weight to f32. `as_table` is 1 if the weight is
 * for the operation embed. */
struct tensor trial_weight(struct trial *, enum dtype, int32_t rows, int32_t cols, int as_table);
/* Hold a tensor until trial_drop(), which also frees `bytes`. `bytes` may be NULL. */
struct tensor trial_hold(struct trial *, struct tensor made, void *bytes);
void trial_drop(struct trial *);
/* Record the first n rows of a tensor, f32 or i32, as a result of the operation `name`. Compare the result with the
 * reference; `limit` is the largest allowed normalised mean square error. */
void trial_result(struct trial *, const char *name, const struct tensor *from, int32_t n, double limit);

#endif
