/* engine/lab/train_ops.c - the elementwise and row operations of a plain layer, and their gradients (train.h). */
#include <math.h>

#include "engine/lab/train.h"

void train_norm(float *y, float *inv, const float *x, const float *w, int32_t cols, float eps, int32_t from, int32_t to)
{
	for (int32_t r = from; r < to; r++) {
		const float *in = x + (size_t)r * (size_t)cols;
		float *out = y + (size_t)r * (size_t)cols;
		double sum = 0;

		for (int32_t i = 0; i < cols; i++)
			sum += (double)in[i] * (double)in[i];
		inv[r] = (float)(1 / sqrt(sum / cols + (double)eps));
		for (int32_t i = 0; i < cols; i++)
			out[i] = in[i] * inv[r] * w[i];
	}
}

/* Let s = 1 / rms(x). Then the derivative of output j with respect to input i is
 *     s w_i - s^3 w_i x_i x_i / cols   if i = j,
 *           - s^3 w_j x_j x_i / cols   otherwise. */
void train_norm_back(float *dx, const float *dy, const float *x, const float *inv, const float *w, int32_t cols,
                     int32_t from, int32_t to)
{
	for (int32_t r = from; r < to; r++) {
		const float *in = x + (size_t)r * (size_t)cols, *d = dy + (size_t)r * (size_t)cols;
		float *out = dx + (size_t)r * (size_t)cols, along;
		double sum = 0;

		for (int32_t i = 0; i < cols; i++)
			sum += (double)(w[i] * d[i]) * (double)in[i];
		along = (float)(sum / cols * (double)inv[r] * (double)inv[r] * (double)inv[r]);
		for (int32_t i = 0; i < cols; i++)
			out[i] += inv[r] * w[i] * d[i] - along * in[i];
	}
}

void train_norm_back_weights(float *dw, const float *dy, const float *x, const float *inv, int32_t cols, int32_t n,
                             int32_t from, int32_t to)
{
	for (int32_t r = 0; r < n; r++)
		for (int32_t i = from; i < to; i++)
			dw[i] += dy[(size_t)r * (size_t)cols + (size_t)i] * x[(size_t)r * (size_t)cols + (size_t)i] *
			         inv[r];
}

void train_rope(float *x, const float *angles, int32_t heads, int32_t head_dim, int32_t dims, int neox, int back,
                int32_t from, int32_t to)
{
	for (int32_t r = from; r < to; r++)
		for (int32_t h = 0; h < heads; h++) {
			float *v = x + ((size_t)r * (size_t)heads + (size_t)h) * (size_t)head_dim;
			const float *cs = angles + (size_t)r * (size_t)dims;

			for (int32_t j = 0; j < dims / 2; j++) {
				float *a = v + (neox ? j : 2 * j), *b = v + (neox ? j + dims / 2 : 2 * j + 1);
				float c = cs[2 * j], s = back ? -cs[2 * j + 1] : cs[2 * j + 1], was = *a;

				*a = was * c - *b * s;
				*b = was * s + *b * c;
			}
		}
}

void train_glu(float *h, const float *gate, const float *up, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

void train_glu_back(float *dgate, float *dup, const float *dh, const float *gate, const float *up, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float s = 1 / (1 + expf(-gate[i]));

		dup[i] = dh[i] * gate[i] * s;
		dgate[i] = dh[i] * up[i] * s * (1 + gate[i] * (1 - s));
	}
}

void train_softmax(float *p, int32_t n)
{
	float most = p[0], by;
	double sum = 0;

	for (int32_t i = 1; i < n; i++)
		most = MAX(p[i], most);
	for (int32_t i = 0; i < n; i++) {
		p[i] = expf(p[i] - most);
		sum += (double)p[i];
	}
	by = (float)(1 / sum);
	for (int32_t i = 0; i < n; i++)
		p[i] *= by;
}

void train_softmax_back(float *d, const float *p, int32_t n, float scale)
{
	double sum = 0;
	float mean;

	for (int32_t i = 0; i < n; i++)
		sum += (double)p[i] * (double)d[i];
	mean = (float)sum;
	for (int32_t i = 0; i < n; i++)
		d[i] = scale * p[i] * (d[i] - mean);
}

double train_cross_entropy(float *logits, int32_t n, int32_t id, float weight)
{
	double most = (double)logits[0], sum = 0, own = (double)logits[id];

	for (int32_t i = 1; i < n; i++)
		most = (double)logits[i] > most ? (double)logits[i] : most;
	for (int32_t i = 0; i < n; i++) {
		logits[i] = expf(logits[i] - (float)most);
		sum += (double)logits[i];
	}
	for (int32_t i = 0; i < n; i++)
		logits[i] = (float)((double)logits[i] / sum) * weight;
	logits[id] -= weight;
	return most + log(sum) - own;
}
