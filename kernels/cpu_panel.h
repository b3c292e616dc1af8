/* kernels/cpu_panel.h (private to cpu_c_select.c and cpu_simd_select.h) - a panel of keys on its way into the key sketch: Hadamard
 * transform and clipping of all its keys at once.
 *
 * The same operations in the same order as sketch_hadamard() and sketch_clip() take for one key, so the bits are the same; but a key is
 * a lane here, nothing is summed across a vector, and no step waits for the one before.  When the KV entries of a document are
 * read back from the disk their key sketch is computed anew, and this is most of that.  Compiled once a level, by the file
 * that includes it. */
#ifndef WEIR_CPU_PANEL_H
#define WEIR_CPU_PANEL_H

#include <math.h>

#include "kernels/cpu_select.h"

#ifndef PANEL_LANES
#define PANEL_LANES 4      /* keys that a vector holds at this level */
#endif

typedef float lane_keys __attribute__((vector_size(4 * PANEL_LANES)));
typedef int32_t lane_mask __attribute__((vector_size(4 * PANEL_LANES)));

/* Not functions: how vectors of this size are passed depends on the level. */
#define PANEL_PICK(which, yes, no) ((lane_keys)(((lane_mask)(yes) & (which)) | ((lane_mask)(no) & ~(which))))
#define PANEL_SUM(s) (((s)[0] + (s)[2]) + ((s)[1] + (s)[3]))   /* as one key has them in a vector of four */

/* Hadamard transform of x[value], a lane a key. */
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

static inline void panel_clip(lane_keys *x, int32_t n)
{
	const lane_keys none = { 0 }, most = none + 3.0f, round = none + 12582912.0f;
	lane_keys low = x[0], high = x[0], step;
	lane_mask on = ~(lane_mask){ 0 };

	for (int32_t i = 1; i < n; i++) {
		low = PANEL_PICK(x[i] < low, x[i], low);
		high = PANEL_PICK(x[i] > high, x[i], high);
	}
	step = (high - low) / 3.0f;
	for (int pass = 0; pass < 3; pass++) {
		lane_keys inv = 1.0f / step, sx[4], sc[4], scc[4], scx[4], x1, c1, det;

		on &= (step > 1e-30f) & (step < 1e30f);
		for (int i = 0; i < 4; i++)
			sx[i] = sc[i] = scc[i] = scx[i] = none;
		for (int32_t i = 0; i < n; i += 4)
			for (int k = 0; k < 4; k++) {
				lane_keys v = x[i + k], c = (v - low) * inv;

				c = PANEL_PICK(c > none, c, none);
				c = PANEL_PICK(c < most, c, most);
				c = (c + round) - round;
				sx[k] += v;
				sc[k] += c;
				scc[k] += c * c;
				scx[k] += c * v;
			}
		x1 = PANEL_SUM(sx);
		c1 = PANEL_SUM(sc);
		det = (float)n * PANEL_SUM(scc) - c1 * c1;
		on &= det > none;
		step = ((float)n * PANEL_SUM(scx) - c1 * x1) / det;
		low = (x1 - step * c1) / (float)n;
	}
	high = low + 3.0f * step;
	for (int32_t i = 0; i < n; i++) {
		lane_keys v = PANEL_PICK(x[i] < low, low, x[i]);

		x[i] = PANEL_PICK(on, PANEL_PICK(v > high, high, v), x[i]);
	}
}

typedef float four_keys __attribute__((vector_size(16)));

/* to[i][k] = from[k][i] for i < n and k < m; m is a multiple of 4. */
static inline void panel_flip(float *to, size_t to_ld, const float *from, size_t from_ld, int32_t n, int32_t m)
{
	for (int32_t k = 0; k < m; k += 4)
		for (int32_t i = 0; i < n; i += 4) {
			four_keys a[4], b[4];

			if (i + 4 > n) {
				for (; i < n; i++)
					for (int32_t j = k; j < k + 4; j++)
						to[(size_t)i * to_ld + (size_t)j] = from[(size_t)j * from_ld + (size_t)i];
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

/* x [SKETCH_PANEL][ld] -> the same, transformed and clipped; ld is a multiple of 16; y has room for as many values in another order. */
static inline void panel_ready(float *x, size_t ld, float *y, int32_t dim, int32_t bits)
{
	lane_keys *v = (lane_keys *)(void *)y;

	for (int first = 0; first < SKETCH_PANEL; first += PANEL_LANES, x += PANEL_LANES * ld) {
		panel_flip(y, PANEL_LANES, x, ld, dim, PANEL_LANES);
		panel_hadamard(v, dim);
		for (int32_t g = 0; bits == 2 && g < sketch_groups(dim); g++)
			if (sketch_values(dim, g) % 4 == 0)
				panel_clip(v + g * SKETCH_GROUP, sketch_values(dim, g));
		for (int k = 0; k < PANEL_LANES; k += 4)
			for (int32_t i = 0; i < dim; i += 4)
				panel_flip(x + (size_t)k * ld + (size_t)i, ld, y + i * PANEL_LANES + k, PANEL_LANES, 4, 4);
	}
}

#endif
