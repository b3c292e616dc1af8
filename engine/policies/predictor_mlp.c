/* engine/policies/predictor_mlp.c - what the network of `predict` is compared with: a perceptron of about as many weights that sees one block's
 * history alone, its neighbours not. */
#include <string.h>

#include "engine/policies/predictor.h"

enum { W1 = 0, B1 = PREDICTOR_ROWS * MLP_HIDDEN, W2 = B1 + MLP_HIDDEN, B2 = W2 + MLP_HIDDEN };
_Static_assert((int)B2 < (int)PREDICTOR_WEIGHTS, "it fits the same file");

/* hidden[] = the sums of the first layer for column col of rows x[]. */
static void first_layer(const float *w, const float *const x[PREDICTOR_ROWS], int32_t col, float hidden[MLP_HIDDEN])
{
	memcpy(hidden, w + B1, MLP_HIDDEN * sizeof *hidden);
	for (int32_t t = 0; t < PREDICTOR_ROWS; t++) {
		const float *row = w + W1 + t * MLP_HIDDEN;
		float a = x[t][col];

		for (int i = 0; i < MLP_HIDDEN; i++)
			hidden[i] += a * row[i];
	}
}

static float second_layer(const float *w, const float hidden[MLP_HIDDEN])
{
	float sum = w[B2];

	for (int i = 0; i < MLP_HIDDEN; i++)
		sum += w[W2 + i] * (hidden[i] > 0 ? hidden[i] : 0);
	return sum;
}

void predictor_mlp_run(const struct predictor *p, const struct attn_image *m, int32_t from, int32_t to, float *out)
{
	const float *w = (const float *)p, *x[PREDICTOR_ROWS];

	for (int32_t t = 0; t < PREDICTOR_ROWS; t++)
		x[t] = attn_image_row(m, t);
	for (int32_t c = from; c < to; c++) {
		float hidden[MLP_HIDDEN];

		first_layer(w, x, c, hidden);
		out[c - from] = second_layer(w, hidden);
	}
}

double predictor_mlp_gradient(const struct predictor *p, const float *image, int32_t cols, const float *target, const float *weight,
                              struct predictor *grad)
{
	const float *w = (const float *)p, *x[PREDICTOR_ROWS];
	float *g = (float *)grad;
	double loss = 0;

	for (int32_t t = 0; t < PREDICTOR_ROWS; t++)
		x[t] = image + (size_t)t * (size_t)cols;
	for (int32_t c = 0; c < cols; c++) {
		float hidden[MLP_HIDDEN], off, d;

		first_layer(w, x, c, hidden);
		off = second_layer(w, hidden) - target[c];
		loss += (double)weight[c] * (double)off * (double)off;
		d = 2 * weight[c] * off;
		g[B2] += d;
		for (int i = 0; i < MLP_HIDDEN; i++) {
			g[W2 + i] += hidden[i] > 0 ? d * hidden[i] : 0;
			hidden[i] = hidden[i] > 0 ? d * w[W2 + i] : 0;   /* the gradient by the sum */
			g[B1 + i] += hidden[i];
		}
		for (int32_t t = 0; t < PREDICTOR_ROWS; t++)
			for (int i = 0; i < MLP_HIDDEN; i++)
				g[W1 + t * MLP_HIDDEN + i] += x[t][c] * hidden[i];
	}
	return loss;
}

void predictor_mlp_begin(struct predictor *p, float (*random)(void *ud, double s), void *ud)
{
	float *w = (float *)p;

	/* The first two hidden values are the last row and the mean of the rows. */
	for (int32_t t = 0; t < PREDICTOR_ROWS; t++)
		for (int i = 0; i < MLP_HIDDEN; i++)
			w[W1 + t * MLP_HIDDEN + i] = i == 0 ? t == PREDICTOR_ROWS - 1 : i == 1 ? 1.0f / PREDICTOR_ROWS : random(ud, 0.18);
	for (int i = 0; i < MLP_HIDDEN; i++)
		w[W2 + i] = i == 0 ? 0.3f : i == 1 ? 0.7f : random(ud, 0.012);
}

void predictor_mlp_scale(struct predictor *p, double by)
{
	float *w = (float *)p;

	/* ReLUs: biases that grow with their inputs. */
	for (int i = B1; i < W2; i++)
		w[i] = (float)((double)w[i] * by);
	w[B2] = (float)((double)w[B2] * by);
}
