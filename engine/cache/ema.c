/* engine/cache/ema.c - see ema.h. */
#include "engine/cache/ema.h"

#include <math.h>

/* log2 of the largest weight; larger weights are scaled down. A float can represent values up to 2^127. */
enum { EMA_LOG2_MAX = 60 };

float ema_gamma(int32_t w)
{
	return (float)exp(-log(100) / w);
}

void ema_set(struct ema *e, float gamma)
{
	*e = (struct ema){ .rate = -log2((double)gamma), .gain = 1 - gamma };
}

int32_t ema_scale(struct ema *e, int32_t t, int32_t n)
{
	double last = floor(e->rate * ((double)t + n));
	int32_t scale;

	if (last - (double)e->shift <= EMA_LOG2_MAX)
		return 0;
	scale = (int32_t)fmax((double)e->shift - last, -1000);
	e->shift = (int64_t)last;
	return scale;
}

int32_t ema_weights(struct ema *e, int32_t t, int32_t n, float *weight)
{
	int32_t scale = ema_scale(e, t, n);

	for (int32_t i = 0; i < n; i++) {
		double log = e->rate * ((double)t + i), whole = floor(log);

		weight[i] = ldexpf((float)(exp2(log - whole) * (double)e->gain),
		                   (int)fmax(whole - (double)e->shift, -1000));
	}
	return scale;
}

float ema_value(const struct ema *e, float sum, int32_t t)
{
	return (float)((double)sum * exp2((double)e->shift - e->rate * ((double)t - 1)));
}
