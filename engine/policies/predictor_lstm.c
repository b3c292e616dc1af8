/* engine/policies/predictor_lstm.c - what the network of `predict` is compared with: a recurrent network (LSTM) that reads the history of one block,
 * the oldest row first, its neighbours not.  The prediction is a weighted sum of its last hidden values, of the last row and of the mean of
 * the rows; these two are what predicts well without training.
 *
 * Gates in the order input, forget, candidate, output; c' = f c + i g, h' = o tanh(c').  Hochreiter and Schmidhuber 1997, with the forget gate
 * of Gers, Schmidhuber and Cummins 2000. */
#include <math.h>
#include <string.h>

#include "engine/policies/predictor.h"

enum {
	H = LSTM_HIDDEN, GATES = 4 * H, STEPS = PREDICTOR_ROWS,
	WX = 0, WH = WX + GATES, BIAS = WH + H * GATES, OUT = BIAS + GATES, LAST = OUT + H, MEAN = LAST + 1, CONSTANT = MEAN + 1, WEIGHTS = CONSTANT + 1,
};
_Static_assert((int)WEIGHTS <= (int)PREDICTOR_WEIGHTS, "it fits the same file");

/* What a step leaves for the gradient. */
struct step { float gate[GATES], c[H], tanh_c[H], h[H]; };

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* One step with input x after the values c and h. */
static void step_run(const float *w, float x, const float c[H], const float h[H], struct step *s)
{
	float *a = s->gate;

	for (int j = 0; j < GATES; j++)
		a[j] = w[BIAS + j] + x * w[WX + j];
	for (int i = 0; i < H; i++)
		for (int j = 0; j < GATES; j++)
			a[j] += h[i] * w[WH + i * GATES + j];
	for (int j = 0; j < GATES; j++)
		a[j] = j / H == 2 ? tanhf(a[j]) : sigmoid(a[j]);
	for (int i = 0; i < H; i++) {
		s->c[i] = a[H + i] * c[i] + a[i] * a[2 * H + i];
		s->tanh_c[i] = tanhf(s->c[i]);
		s->h[i] = a[3 * H + i] * s->tanh_c[i];
	}
}

static const float zeros[H];

/* steps[STEPS] for column col of the rows x[]; returns the prediction. */
static float column_run(const float *w, const float *const x[STEPS], int32_t col, struct step *steps, float *mean)
{
	const float *c = zeros, *h = zeros;
	float sum = 0, out;

	for (int t = 0; t < STEPS; t++) {
		step_run(w, x[t][col], c, h, &steps[t]);
		c = steps[t].c;
		h = steps[t].h;
		sum += x[t][col];
	}
	*mean = sum / STEPS;
	out = w[CONSTANT] + w[LAST] * x[STEPS - 1][col] + w[MEAN] * *mean;
	for (int i = 0; i < H; i++)
		out += w[OUT + i] * h[i];
	return out;
}

void predictor_lstm_run(const struct predictor *p, const struct attn_image *m, int32_t from, int32_t to, float *out)
{
	const float *x[STEPS];
	struct step steps[STEPS];
	float mean;

	for (int t = 0; t < STEPS; t++)
		x[t] = attn_image_row(m, t);
	for (int32_t c = from; c < to; c++)
		out[c - from] = column_run((const float *)p, x, c, steps, &mean);
}

/* Gradients back through step t: dh and dc are those by its h and c, and become those by the step before's. */
static void step_back(const float *w, float x, const struct step *before, const struct step *s, float dh[H], float dc[H], float *g)
{
	const float *a = s->gate, *c = before ? before->c : zeros, *h = before ? before->h : zeros;
	float da[GATES];                     /* by the sums that go into the gates */

	for (int i = 0; i < H; i++) {
		float in = a[i], forget = a[H + i], candidate = a[2 * H + i], out = a[3 * H + i], th = s->tanh_c[i];

		dc[i] += dh[i] * out * (1 - th * th);
		da[i] = dc[i] * candidate * in * (1 - in);
		da[H + i] = dc[i] * c[i] * forget * (1 - forget);
		da[2 * H + i] = dc[i] * in * (1 - candidate * candidate);
		da[3 * H + i] = dh[i] * th * out * (1 - out);
		dc[i] *= forget;
	}
	for (int j = 0; j < GATES; j++) {
		g[WX + j] += x * da[j];
		g[BIAS + j] += da[j];
	}
	for (int i = 0; i < H; i++) {
		const float *row = w + WH + i * GATES;
		float *grad = g + WH + i * GATES, sum[4] = { 0 };

		for (int j = 0; j < GATES; j++) {
			grad[j] += h[i] * da[j];
			sum[j % 4] += row[j] * da[j];
		}
		dh[i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
	}
}

double predictor_lstm_gradient(const struct predictor *p, const float *image, int32_t cols, const float *target, const float *weight,
                               struct predictor *grad)
{
	const float *w = (const float *)p, *x[STEPS];
	struct step steps[STEPS];
	float *g = (float *)grad;
	double loss = 0;

	for (int t = 0; t < STEPS; t++)
		x[t] = image + (size_t)t * (size_t)cols;
	for (int32_t col = 0; col < cols; col++) {
		float mean, off = column_run(w, x, col, steps, &mean) - target[col], d = 2 * weight[col] * off, dh[H], dc[H] = { 0 };

		loss += (double)weight[col] * (double)off * (double)off;
		g[CONSTANT] += d;
		g[LAST] += d * x[STEPS - 1][col];
		g[MEAN] += d * mean;
		for (int i = 0; i < H; i++) {
			g[OUT + i] += d * steps[STEPS - 1].h[i];
			dh[i] = d * w[OUT + i];
		}
		for (int t = STEPS - 1; t >= 0; t--)
			step_back(w, x[t][col], t ? &steps[t - 1] : NULL, &steps[t], dh, dc, g);
	}
	return loss;
}

void predictor_lstm_begin(struct predictor *p, float (*random)(void *ud, double s), void *ud)
{
	float *w = (float *)p;

	for (int i = 0; i < BIAS; i++)
		w[i] = random(ud, i < WH ? 0.5 : 0.18);
	for (int j = 0; j < GATES; j++)
		w[BIAS + j] = j / H == 1 ? 2 : 0;        /* it begins by keeping what it has */
	for (int i = 0; i < H; i++)
		w[OUT + i] = random(ud, 0.012);
	w[LAST] = 0.3f;
	w[MEAN] = 0.7f;
	w[CONSTANT] = 0;
}

void predictor_lstm_scale(struct predictor *p, double by)
{
	float *w = (float *)p;

	for (int j = 0; j < GATES; j++)
		w[WX + j] = (float)((double)w[WX + j] / by);
	for (int i = 0; i < H; i++)
		w[OUT + i] = (float)((double)w[OUT + i] * by);
	w[CONSTANT] = (float)((double)w[CONSTANT] * by);
}
