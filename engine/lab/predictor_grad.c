/* engine/lab/predictor_grad.c - the gradient of the predictor network (policies/predictor.h): a forward pass that
 * keeps the activations, then the backward pass. */
#include <stdlib.h>
#include <string.h>

#include "engine/lab/predictor_grad.h"

int predictor_scratch_init(struct predictor_scratch *s, int32_t rows, int32_t cols, struct err *err)
{
	size_t n = (size_t)(rows + 2) * (size_t)(cols + 2);

	*s = (struct predictor_scratch){ .rows = rows, .cols = cols };
	if ((s->a = try_alloc(n, sizeof *s->a, "an image", err)) &&
	    (s->inner = try_alloc(n, PREDICTOR_INNER * sizeof *s->inner, "an image", err)) &&
	    (s->outer = try_alloc(n, PREDICTOR_OUTER * sizeof *s->outer, "an image", err)) &&
	    (s->row = try_alloc((size_t)cols + 2, PREDICTOR_INNER * sizeof *s->row, "an image", err)) &&
	    (s->back = try_alloc(9 * PREDICTOR_INNER * PREDICTOR_OUTER, sizeof *s->back, "weights", err)) &&
	    (s->out = try_alloc((size_t)cols, sizeof *s->out, "an image", err)))
		return 0;
	predictor_scratch_free(s);
	return -1;
}

void predictor_scratch_free(struct predictor_scratch *s)
{
	free(s->a);
	free(s->inner);
	free(s->outer);
	free(s->row);
	free(s->back);
	free(s->out);
	*s = (struct predictor_scratch){ 0 };
}

void predictor_scratch_weights(struct predictor_scratch *s, const struct predictor *p)
{
	for (int t = 0; t < 9; t++)
		for (int i = 0; i < PREDICTOR_INNER; i++)
			for (int o = 0; o < PREDICTOR_OUTER; o++)
				s->back[((8 - t) * PREDICTOR_OUTER + o) * PREDICTOR_INNER + i] =
					p->w2[(t * PREDICTOR_INNER + i) * PREDICTOR_OUTER + o];
}

/* Return row t of an image with `depth` channels and a border of one pixel. The first pixel of a row is part of the
 * border. Row -1 is the border above the image. */
static float *bordered(float *image, int32_t t, int32_t cols, int32_t depth)
{
	return image + (size_t)(t + 1) * (size_t)(cols + 2) * (size_t)depth;
}

static void relu(float *x, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		x[i] = MAX(x[i], 0);
}

/* Run the forward pass on the image x [rows][cols]. Set s->a, s->inner, s->outer and s->out. */
static void network_forward(const struct predictor *p, struct backend *be, struct predictor_scratch *s, const float *x,
                            int32_t rows, int32_t cols)
{
	size_t n = (size_t)(rows + 2) * (size_t)(cols + 2);

	memset(s->a, 0, n * sizeof *s->a);
	memset(s->inner, 0, n * PREDICTOR_INNER * sizeof *s->inner);
	memset(s->outer, 0, n * PREDICTOR_OUTER * sizeof *s->outer);
	for (int32_t t = 0; t < rows; t++)
		memcpy(bordered(s->a, t, cols, 1) + 1, x + (size_t)t * (size_t)cols, (size_t)cols * sizeof *x);
	for (int32_t t = 0; t < rows; t++) {
		float *out = bordered(s->inner, t, cols, PREDICTOR_INNER) + PREDICTOR_INNER;

		conv_row(be, &(struct conv3_args){ .out = out,
		                                   .in = { bordered(s->a, t - 1, cols, 1), bordered(s->a, t, cols, 1),
		                                           bordered(s->a, t + 1, cols, 1) },
		                                   .w = p->w1,
		                                   .bias = p->b1,
		                                   .n_in = 1,
		                                   .n_out = PREDICTOR_INNER,
		                                   .n = cols });
		relu(out, cols * PREDICTOR_INNER);
	}
	memset(s->out, 0, (size_t)cols * sizeof *s->out);
	for (int32_t t = 0; t < rows; t++) {
		float *out = bordered(s->outer, t, cols, PREDICTOR_OUTER) + PREDICTOR_OUTER;

		conv_row(be, &(struct conv3_args){ .out = out,
		                                   .w = p->w2,
		                                   .bias = p->b2,
		                                   .n_in = PREDICTOR_INNER,
		                                   .n_out = PREDICTOR_OUTER,
		                                   .n = cols,
		                                   .in = { bordered(s->inner, t - 1, cols, PREDICTOR_INNER),
		                                           bordered(s->inner, t, cols, PREDICTOR_INNER),
		                                           bordered(s->inner, t + 1, cols, PREDICTOR_INNER) } });
		relu(out, cols * PREDICTOR_OUTER);
		for (int32_t i = 0; i < cols; i++) {
			float sum[4] = { 0 };

			for (int c = 0; c < PREDICTOR_OUTER; c++)
				sum[c % 4] += p->w3[c] * out[i * PREDICTOR_OUTER + c];
			s->out[i] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
		}
	}
	for (int32_t i = 0; i < cols; i++)
		s->out[i] = p->b3[0] + s->out[i] / (float)rows;
}

/* Add the gradients with respect to w3 and b2 to *grad. Overwrite s->outer with the gradient with respect to the second
 * convolution's outputs before the ReLU. g[i] is the gradient with respect to the prediction of column i, divided by
 * the number of rows. */
static void back_outer(const struct predictor *p, struct predictor_scratch *s, int32_t rows, int32_t cols,
                       const float *g, struct predictor *grad)
{
	for (int32_t t = 0; t < rows; t++) {
		float *x = bordered(s->outer, t, cols, PREDICTOR_OUTER) + PREDICTOR_OUTER;

		for (int32_t i = 0; i < cols; i++)
			for (int c = 0; c < PREDICTOR_OUTER; c++) {
				float *at = &x[i * PREDICTOR_OUTER + c];

				grad->w3[c] += g[i] * *at;
				*at = *at > 0 ? g[i] * p->w3[c] : 0;
				grad->b2[c] += *at;
			}
	}
}

double predictor_gradient(const struct predictor *p, struct backend *be, struct predictor_scratch *s, const float *x,
                          int32_t rows, int32_t cols, const float *target, const float *weight, struct predictor *grad)
{
	double loss = 0;

	network_forward(p, be, s, x, rows, cols);
	for (int32_t i = 0; i < cols; i++) {
		float off = s->out[i] - target[i];

		loss += (double)weight[i] * (double)off * (double)off;
		s->out[i] = 2 * weight[i] * off;
		grad->b3[0] += s->out[i];
		s->out[i] /= (float)rows;
	}
	back_outer(p, s, rows, cols, s->out, grad);
	for (int32_t t = 0; t < rows; t++) {
		const float *d = bordered(s->outer, t, cols, PREDICTOR_OUTER) + PREDICTOR_OUTER;
		const float *inner = bordered(s->inner, t, cols, PREDICTOR_INNER) + PREDICTOR_INNER;

		conv_row_grad(be,
		              &(struct conv3_grad_args){ .dw = grad->w2,
		                                         .d = d,
		                                         .n_in = PREDICTOR_INNER,
		                                         .n_out = PREDICTOR_OUTER,
		                                         .n = cols,
		                                         .in = { bordered(s->inner, t - 1, cols, PREDICTOR_INNER),
		                                                 bordered(s->inner, t, cols, PREDICTOR_INNER),
		                                                 bordered(s->inner, t + 1, cols, PREDICTOR_INNER) } });
		conv_row(be, &(struct conv3_args){ .out = s->row,
		                                   .w = s->back,
		                                   .n_in = PREDICTOR_OUTER,
		                                   .n_out = PREDICTOR_INNER,
		                                   .n = cols,
		                                   .in = { bordered(s->outer, t - 1, cols, PREDICTOR_OUTER),
		                                           bordered(s->outer, t, cols, PREDICTOR_OUTER),
		                                           bordered(s->outer, t + 1, cols, PREDICTOR_OUTER) } });
		for (int32_t i = 0; i < cols * PREDICTOR_INNER; i++) {
			s->row[i] = inner[i] > 0 ? s->row[i] : 0;
			grad->b1[i % PREDICTOR_INNER] += s->row[i];
		}
		conv_row_grad(be, &(struct conv3_grad_args){ .dw = grad->w1,
		                                             .d = s->row,
		                                             .n_in = 1,
		                                             .n_out = PREDICTOR_INNER,
		                                             .n = cols,
		                                             .in = { bordered(s->a, t - 1, cols, 1),
		                                                     bordered(s->a, t, cols, 1),
		                                                     bordered(s->a, t + 1, cols, 1) } });
	}
	return loss;
}
