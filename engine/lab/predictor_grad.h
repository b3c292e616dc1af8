/* engine/lab/predictor_grad.h (private to engine/lab) - the gradient of the network of `predict`
 * (policies/predictor.h). */
#ifndef WEIR_PREDICTOR_GRAD_H
#define WEIR_PREDICTOR_GRAD_H

#include "engine/policies/predictor.h"

/* Buffers for the gradient of one image, and the weights in the order that the way back needs. */
struct predictor_scratch {
	int32_t rows, cols;       /* the largest image */
	float *a, *inner, *outer; /* [rows + 2][cols + 2][1, 16, 32]: with a border of zeros */
	float *row;               /* [cols + 2][16] */
	float *back;              /* [dy][dx][32][16]: w2 from its outputs to its inputs */
	float *out;               /* [cols] */
};
int predictor_scratch_init(struct predictor_scratch *, int32_t rows, int32_t cols, struct err *);
void predictor_scratch_free(struct predictor_scratch *);
/* Reorder the weights into the scratch. Call it before the first predictor_gradient() with new weights. */
void predictor_scratch_weights(struct predictor_scratch *, const struct predictor *);
/* Add the gradient of the loss by the weights to *grad; return the loss: the sum over the columns of the image
 * x [rows][cols] of weight * (prediction - target)^2. */
double predictor_gradient(const struct predictor *, struct backend *, struct predictor_scratch *, const float *x,
                          int32_t rows, int32_t cols, const float *target, const float *weight, struct predictor *grad);

#endif
