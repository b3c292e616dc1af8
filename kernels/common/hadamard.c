/* kernels/common/hadamard.c - the Hadamard transform (backend.h). */
#include <math.h>
#include <string.h>

#include "kernels/backend.h"

/* A vector of four floats. The loops are written with this type, because compilers do not vectorise loops that are so
 * short. */
typedef float float4 __attribute__((vector_size(16)));

static inline float4 load4(const float *x)
{
	float4 v;

	memcpy(&v, x, sizeof v);
	return v;
}

static inline void store4(float *x, float4 v)
{
	memcpy(x, &v, sizeof v);
}

/* Transform n values in place by the unnormalised Hadamard transform; n is a power of two >= 4. First transform each
 * group of four values, then combine the groups. */
static void hadamard_fours(float *x, int32_t n)
{
	for (int32_t i = 0; i < n; i += 4) {
		float a = x[i] + x[i + 1], b = x[i] - x[i + 1], c = x[i + 2] + x[i + 3], d = x[i + 2] - x[i + 3];

		x[i] = a + c;
		x[i + 1] = b + d;
		x[i + 2] = a - c;
		x[i + 3] = b - d;
	}
	for (int32_t h = 4; h < n; h *= 2)
		for (int32_t i = 0; i < n; i += 2 * h)
			for (int32_t j = i; j < i + h; j += 4) {
				float4 a = load4(x + j), b = load4(x + j + h);

				store4(x + j, a + b);
				store4(x + j + h, a - b);
			}
}

void hadamard(float *x, int32_t dim)
{
	for (int32_t n; dim > 0; x += n, dim -= n) {
		float norm;

		for (n = 1; n <= dim / 2;)
			n *= 2;
		if (n >= 4) {
			hadamard_fours(x, n);
		} else if (n == 2) {
			float a = x[0], b = x[1];

			x[0] = a + b;
			x[1] = a - b;
		}
		norm = 1.0f / sqrtf((float)n);
		for (int32_t i = 0; i < n; i++)
			x[i] *= norm;
	}
}
