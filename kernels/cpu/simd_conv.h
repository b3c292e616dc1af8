/* kernels/cpu/simd_conv.h (private to the SIMD code) - 3 x 3 convolutions over images in host memory, and their
 * gradients; compiled once for each instruction set. A lane is an output channel. A tile computes several pixels (for
 * gradients: several input channels) with each load of weights, and keeps their sums in registers. There are tiles of
 * several sizes. All tiles add in the same order. */
#ifndef WEIR_CPU_SIMD_CONV_H
#define WEIR_CPU_SIMD_CONV_H

#include "kernels/cpu/lanes.h"

#ifdef LANES
/* For a convolution with n_out output channels, return how many vectors of channels are computed at once. */
INLINE int conv_vectors(int n_out)
{
	return n_out / LANES < 4 ? n_out / LANES : 4;
}

/* Compute nx output pixels of a row, from pixel x on, for nv vectors of output channels from channel o on. `n_out` is
 * the number of all output channels. */
INLINE void conv_tile(const struct conv3_args *a, int32_t x, int o, int nx, int nv, size_t n_out)
{
	const size_t n_in = (size_t)a->n_in;
	vec sum[6][4];

	UNROLL for (int v = 0; v < nv; v++) UNROLL for (int p = 0; p < nx; p++) sum[p][v] =
		a->bias ? vec_load(a->bias + o + LANES * v) : vec_zero();
	ROLLED for (int t = 0; t < 9; t++)
	{
		const float *in = a->in[t / 3], *w = a->w + (size_t)t * n_in * n_out + o;

		if (!in)
			continue;
		in += (size_t)(x + t % 3) * n_in;
		ROLLED for (size_t i = 0; i < n_in; i++, in++, w += n_out)
		{
			vec k[4];

			UNROLL for (int v = 0; v < nv; v++) k[v] = vec_load(w + LANES * v);
			UNROLL for (int p = 0; p < nx; p++)
			{
				vec pixel = vec_splat(in[(size_t)p * n_in]);

				UNROLL for (int v = 0; v < nv; v++) sum[p][v] = vec_fma(pixel, k[v], sum[p][v]);
			}
		}
	}
	UNROLL for (int p = 0; p < nx; p++) UNROLL for (int v = 0; v < nv; v++)
		vec_store(a->out + (size_t)(x + p) * n_out + o + LANES * v, sum[p][v]);
}

/* Compute a row. The number of pixels that are computed at once is limited by the number of registers for their
 * sums. */
INLINE void conv_row_of(const struct conv3_args *a, int n_out)
{
	const int nv = conv_vectors(n_out), wide = nv == 4 ? 3 : 6;

	for (int o = 0; o < n_out; o += LANES * nv) {
		int32_t x = 0;

		for (; x + wide <= a->n; x += wide)
			conv_tile(a, x, o, wide, nv, (size_t)n_out);
		for (; x < a->n; x++)
			conv_tile(a, x, o, 1, nv, (size_t)n_out);
	}
}

static void conv(const struct conv3_args *a)
{
	if (a->n_out == 32)
		conv_row_of(a, 32);
	else
		conv_row_of(a, 16);
}

/* Add to the gradient of the weights at kernel position t (0 to 8), for ni input channels from channel i on and nv
 * vectors of output channels from channel o on. `n_out` is the number of all output channels. */
INLINE void conv_grad_tile(const struct conv3_grad_args *a, int t, int32_t i, int o, int ni, int nv, size_t n_out)
{
	const size_t n_in = (size_t)a->n_in;
	const float *in = a->in[t / 3] + (size_t)(t % 3) * n_in + i, *d = a->d + o;
	float *dw = a->dw + ((size_t)t * n_in + (size_t)i) * n_out + o;
	vec sum[6][4];

	UNROLL for (int p = 0; p < ni; p++) UNROLL for (int v = 0; v < nv; v++) sum[p][v] =
		vec_load(dw + (size_t)p * n_out + LANES * v);
	ROLLED for (int32_t x = 0; x < a->n; x++, in += n_in, d += n_out)
	{
		vec k[4];

		UNROLL for (int v = 0; v < nv; v++) k[v] = vec_load(d + LANES * v);
		UNROLL for (int p = 0; p < ni; p++)
		{
			vec pixel = vec_splat(in[p]);

			UNROLL for (int v = 0; v < nv; v++) sum[p][v] = vec_fma(pixel, k[v], sum[p][v]);
		}
	}
	UNROLL for (int p = 0; p < ni; p++) UNROLL for (int v = 0; v < nv; v++)
		vec_store(dw + (size_t)p * n_out + LANES * v, sum[p][v]);
}

INLINE void conv_grad_of(const struct conv3_grad_args *a, int n_out)
{
	const int nv = conv_vectors(n_out), wide = nv == 4 ? 3 : 6;

	for (int t = 0; t < 9; t++)
		for (int o = 0; a->in[t / 3] && o < n_out; o += LANES * nv) {
			int32_t i = 0;

			for (; i + wide <= a->n_in; i += wide)
				conv_grad_tile(a, t, i, o, wide, nv, (size_t)n_out);
			for (; i < a->n_in; i++)
				conv_grad_tile(a, t, i, o, 1, nv, (size_t)n_out);
		}
}

static void conv_grad(const struct conv3_grad_args *a)
{
	if (a->n_out == 32)
		conv_grad_of(a, 32);
	else
		conv_grad_of(a, 16);
}
#endif

#endif
