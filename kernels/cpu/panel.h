/* kernels/cpu/panel.h (private to c_select.c and simd_scan.h) - encodes the sixteen keys of a panel of the key sketch
 * at once, with a key in each lane. The operations and their order are the same as for one key in key_sketch.c, so the
 * bits are the same. The speed is important when the sketch of a long saved document is computed again. This file is
 * compiled once for each instruction set. */
#ifndef WEIR_CPU_PANEL_H
#define WEIR_CPU_PANEL_H

#include <math.h>

#include "kernels/cpu/select.h"

#ifndef PANEL_LANES
#define PANEL_LANES 4 /* number of keys that a vector holds in this instruction set */
#endif

typedef float lane_keys __attribute__((vector_size(4 * PANEL_LANES)));
typedef int32_t lane_mask __attribute__((vector_size(4 * PANEL_LANES)));

/* These are macros, because the calling convention for vectors of this size depends on the instruction set. */
#define PANEL_PICK(which, yes, no) ((lane_keys)(((lane_mask)(yes) & (which)) | ((lane_mask)(no) & ~(which))))
/* the additions have the same order as in sum_of() in key_sketch.c */
#define PANEL_SUM(s)               (((s)[0] + (s)[2]) + ((s)[1] + (s)[3]))

/* Compute the Hadamard transform of x[dim], with one key in each lane. */
static inline void panel_hadamard(lane_keys *x, int32_t dim)
{
	for (int32_t n; dim > 0; x += n, dim -= n) {
		float norm;

		for (n = 1; n <= dim / 2;)
			n *= 2;
		for (int32_t h = 1; h < n; h *= 2)
			for (int32_t i = 0; i < n; i += 2 * h)
				for (int32_t j = i; j < i + h; j++) {
					lane_keys a = x[j], b = x[j + h];

					x[j] = a + b;
					x[j + h] = a - b;
				}
		norm = 1.0f / sqrtf((float)n);
		for (int32_t i = 0; i < n; i++)
			x[i] *= norm;
	}
}

typedef float four_keys __attribute__((vector_size(16)));

/* Transpose: set to[i][k] to from[k][i] for i < n and k < m. m is a multiple of 4. */
static inline void panel_flip(float *to, size_t to_ld, const float *from, size_t from_ld, int32_t n, int32_t m)
{
	for (int32_t k = 0; k < m; k += 4)
		for (int32_t i = 0; i < n; i += 4) {
			four_keys a[4], b[4];

			if (i + 4 > n) {
				for (; i < n; i++)
					for (int32_t j = k; j < k + 4; j++)
						to[(size_t)i * to_ld + (size_t)j] =
							from[(size_t)j * from_ld + (size_t)i];
				break;
			}
			for (int j = 0; j < 4; j++)
				memcpy(&a[j], from + (size_t)(k + j) * from_ld + (size_t)i, sizeof a[j]);
			b[0] = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5);
			b[1] = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5);
			b[2] = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);
			b[3] = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
			a[0] = __builtin_shufflevector(b[0], b[1], 0, 1, 4, 5);
			a[1] = __builtin_shufflevector(b[0], b[1], 2, 3, 6, 7);
			a[2] = __builtin_shufflevector(b[2], b[3], 0, 1, 4, 5);
			a[3] = __builtin_shufflevector(b[2], b[3], 2, 3, 6, 7);
			for (int j = 0; j < 4; j++)
				memcpy(to + (size_t)(i + j) * to_ld + (size_t)k, &a[j], sizeof a[j]);
		}
}

/* Encode PANEL_LANES keys of `dim` values, one key in each lane of x[]. The keys are already centred and transformed.
 * Write their scales to scale[]. Write their codes to the panel's units, each key in a lane of its own; the first lane
 * is at `unit`. */
static inline void panel_code(uint8_t *unit, float scale[PANEL_LANES], const lane_keys *x, int32_t dim, int32_t bits)
{
	const lane_keys none = { 0 }, round = none + 12582912.0f;
	const float top = (float)((1 << bits) - 1), middle = top / 2;
	int32_t per = 32 / bits;
	lane_keys squares[4] = { { 0 } }, products[4] = { { 0 } }, size, product, inv, s;

	for (int32_t i = 0; i < dim; i++)
		squares[i % 4] += x[i] * x[i];
	size = PANEL_SUM(squares);
	for (int i = 0; i < PANEL_LANES; i++)
		inv[i] = sketch_inverse_step(size[i], dim, bits);
	for (int32_t u = 0; u * per < dim; u++, unit += 64) {
		lane_mask word = { 0 };

		for (int32_t i = 0; i < per && u * per + i < dim; i++) {
			lane_keys v = x[u * per + i], c = v * inv + middle;

			c = PANEL_PICK(c > none, c, none);
			c = PANEL_PICK(c < none + top, c, none + top);
			c = (c + round) - round;
			products[i % 4] += v * (2.0f * c - top);
			word |= __builtin_convertvector(c, lane_mask) << (8 * (i % 4) + i / 4 * bits);
		}
		memcpy(unit, &word, sizeof word);
	}
	product = PANEL_SUM(products);
	s = PANEL_PICK((product > none) & (size < none + INFINITY), size / product, none);
	memcpy(scale, &s, sizeof s);
}

/* Encode SKETCH_PANEL keys into a panel. Key i is row i of x [SKETCH_PANEL][ld], where ld is a multiple of 16. `mean`
 * is the mean of the block to which the panel belongs. `y` is scratch memory of the size of x. */
static inline void panel_keys(uint8_t *panel, float scale[SKETCH_PANEL], const float *x, size_t ld, const float *mean,
                              float *y, int32_t dim, int32_t bits)
{
	lane_keys *v = (lane_keys *)(void *)y;

	for (int first = 0; first < SKETCH_PANEL; first += PANEL_LANES, x += PANEL_LANES * ld) {
		panel_flip(y, PANEL_LANES, x, ld, dim, PANEL_LANES);
		for (int32_t i = 0; i < dim; i++)
			v[i] -= mean[i];
		panel_hadamard(v, dim);
		panel_code(panel + 4 * first, scale + first, v, dim, bits);
	}
}

#endif
