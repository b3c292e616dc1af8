/* engine/lab/predictor_grad.h (private to engine/lab) - the gradient of the predictor network
 * (policies/predictor.h). */
#ifndef WEIR_PREDICTOR_GRAD_H
#define WEIR_PREDICTOR_GRAD_H

#include "engine/policies/predictor.h"

/* Buffers for the gradient of one image (rows: tokens, columns: blocks), and weights reordered for the backward
 * pass. */
struct predictor_scratch {
	int32_t rows, cols; /* size of the largest image */
	/* [rows + 2][cols + 2][channels], with a border of zeros. `a` is the image, 1 channel. `inner` has the outputs
	 * of the first convolution, 16 channels. `outer` has the outputs of the second convolution, 32 channels. */
	float *a, *inner, *outer;
	float *row;  /* [cols + 2][16] gradient with respect to a row of `inner` */
	float *back; /* [dy][dx][32][16]: w2 transposed, for the backward pass */
	float *out;  /* [cols] predictions */
};
int predictor_scratch_init(struct predictor_scratch *, int32_t rows, int32_t cols, struct err *);
void predictor_scratch_free(struct predictor_scratch *);
/* Copy the weights to s->back in the order of the backward pass. Call this function before the first
 * predictor_gradient() with new weights. */
void predictor_scratch_weights(struct predictor_scratch *, const struct predictor *);
/* Compute the loss of the image x [rows][cols], which is the sum of weight * (prediction - target)^2 over the columns.
 * Return the loss, and add its gradient with respect to the network's weights to *grad. */
double predictor_gradient(const struct predictor *, struct backend *, struct predictor_scratch *, const float *x,
                          int32_t rows, int32_t cols, const float *target, const float *weight, struct predictor *grad);

#endif
